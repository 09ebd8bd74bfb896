"""Cox's proportional hazards with the strength of the penalty chosen by cross-validation."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from manykernels.estimators.parameters import Resources, Search
from manykernels.estimators.selection.choice import CrossValidated
from manykernels.estimators.selection.splits import splits_of
from manykernels.estimators.survival.estimator import MKLSurvival
from manykernels.exceptions import InvalidInputError
from manykernels.validation.arrays import Array
from manykernels.validation.parameters import RandomSource

__all__ = ["MKLSurvivalCV"]

DEFAULT_FOLDS = 5


class MKLSurvivalCV(CrossValidated, MKLSurvival):
    """Hazards of many kernels, with the strength of the penalty chosen by the partial likelihood of held-out folds.

    The grid of strengths starts at the smallest ``alpha`` under which no kernel is selected and falls geometrically.

    Parameters
    ----------
    kernels : KernelBank, PrecomputedBank, "precomputed" or None, default=None
        As in :class:`MKLSurvival`, and so are all parameters not described here.
    ties : {"efron", "breslow"}, default="efron"
        How events of one time share a risk set.
    penalty : str, dict or Regularizer, default="l1"
        Name of the penalty, or an object, whose strength is replaced by those that are tried. One that gives every
        kernel a weight ("lq", "ridge", weight sets) needs ``alphas``.
    alphas : array-like or None, default=None
        Strengths relative to the mean loss, instead of the default grid.
    n_alphas : int, default=15
        Length of the default grid.
    l1_ratios : float or sequence of float or None, default=None
        For ``"elasticnet"``: mixtures to try, each with a path of its own; None is 0.5.
    q, p, eta : float
        Shape of the penalties ``"lq"``, ``"lp_ball"`` and ``"elasticnet_ball"``.
    cv : int, splitter or iterable, default=None
        Folds of K-fold selection (5 by default), with events in equal shares, or any splitter of scikit-learn, which
        gets the events (true or false) as y.
    scoring : str, callable or None, default=None
        None is minus the loss of held-out rows an event, the logarithm of their partial likelihood: a proper score,
        which the concordance is not.
    search : Search, dict or None, default=None
        How the search goes: ``alpha_min_ratio`` and ``fold_tol``; see
        :class:`~manykernels.estimators.Search`.
    solver : str or Solver, default="auto"
        Solver of every problem.
    kernel_penalties : array-like of shape (n_kernels,), dict, list of dict or None, default=None
        Factors on the norms inside the penalty. Of several dictionaries each is tried.
    tol : float, default=1e-4
        Relative duality gap to reach.
    random_state : int, RandomState instance or None, default=None
        Not used by the solvers of this loss.
    resources : Resources, dict or None, default=None
        Time, memory, threads and progress: ``max_iter``, ``time_limit``, ``callback``, ``representation``,
        ``memory_budget``, ``n_jobs``, ``verbose``; see :class:`~manykernels.estimators.Resources`.

    Attributes
    ----------
    alpha_ : float
        The chosen strength.
    alphas_ : ndarray
        The grid, decreasing.
    best_score_ : float
        Mean score of the choice over the folds.
    cv_results_ : DataFrame
        A row a candidate, also from :meth:`cv_frame`.
    n_folds_ : int
        Number of folds.
    cv_predictions_ : ndarray of shape (n_samples,) or (n_samples, n_classes) or (n_samples, n_outputs)
        What models of the chosen strength that have not seen a row predict for it: risk scores; NaN for
        rows that no fold held out, the mean of several. Not there where the search ended early.

    See Also
    --------
    MKLSurvival : The same at a given strength, and all other fitted attributes.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLSurvivalCV, survival_array
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(60, 2))
    >>> time = rng.exponential(np.exp(-2 * np.sin(2 * X[:, 1])))
    >>> model = MKLSurvivalCV(cv=3, n_alphas=5).fit(X, survival_array(time < 3, np.minimum(time, 3)))
    >>> bool(model.alphas_[0] > model.alpha_), len(model.cv_frame())
    (True, 5)
    """

    fitted_extras = (*CrossValidated.fitted_extras, *MKLSurvival.fitted_extras)

    outputs = "own"

    _groups = ("resources", "search")
    _uses: ClassVar[Mapping[str, tuple[str, ...]]] = {"search": ("alpha_min_ratio", "fold_tol")}  # there is one mixture
    _least_ratio = 1e-2
    _plain = MKLSurvival

    def __init__(
        self,
        kernels: Any = None,
        *,
        ties: str = "efron",
        penalty: Any = "l1",
        alphas: ArrayLike | None = None,
        n_alphas: int = 15,
        l1_ratios: float | Sequence[float] | None = None,
        q: float = 1.5,
        p: float = 2.0,
        eta: float = 0.5,
        cv: Any = None,
        scoring: str | Callable[..., float] | None = None,
        search: Search | Mapping[str, Any] | None = None,
        solver: Any = "auto",
        kernel_penalties: ArrayLike | Mapping[str, float] | None = None,
        tol: float = 1e-4,
        random_state: RandomSource = None,
        resources: Resources | Mapping[str, Any] | None = None,
    ) -> None:
        self.kernels = kernels
        self.ties = ties
        self.penalty = penalty
        self.alphas = alphas
        self.n_alphas = n_alphas
        self.l1_ratios = l1_ratios
        self.q = q
        self.p = p
        self.eta = eta
        self.cv = cv
        self.scoring = scoring
        self.search = search
        self.solver = solver
        self.kernel_penalties = kernel_penalties
        self.tol = tol
        self.random_state = random_state
        self.resources = resources

    def _splits(self, y: Array, groups: ArrayLike | None) -> Iterator[tuple[Array, Array]]:
        """Return folds that share the events among them: one without events teaches nothing."""
        events, folds = y["event"], DEFAULT_FOLDS if self.cv is None else self.cv
        number = isinstance(folds, numbers.Integral)
        enough = bool(np.bincount(events, minlength=2).min() >= folds) if number else True
        return iter(splits_of(folds, events, groups, classifier=enough))

    def _checked_loss(self) -> Any:
        if isinstance(self.penalty, str) and self.penalty == "auto":
            raise InvalidInputError(
                "MKLSurvivalCV has no search over mixtures: name a penalty, 'l1', or 'elasticnet' with l1_ratios."
            )
        return super()._checked_loss()
