"""Estimators that choose strength and mixing of the penalty by cross-validation.

And nested cross-validation in a single call: the score of the whole procedure, choice included.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.utils import _safe_indexing

from manykernels.estimators.parameters import Kernels, LossParameters, Resources, Search, with_kernels_of
from manykernels.estimators.selection.choice import CrossValidated
from manykernels.estimators.selection.routing import fit_groups
from manykernels.estimators.selection.splits import splits_of
from manykernels.estimators.supervised.classifier import MKLClassifier
from manykernels.estimators.supervised.regressor import MKLRegressor
from manykernels.estimators.supervised.samples import class_factors, encode_labels, sample_weights
from manykernels.exceptions import InvalidInputError
from manykernels.grams.training import is_precomputed
from manykernels.kernels.precomputed.stack import as_kernel_stack
from manykernels.objective.losses import Loss
from manykernels.solvers import Solver
from manykernels.threads import blas_limit, n_threads
from manykernels.validation.arrays import Array
from manykernels.validation.parameters import RandomSource


class MKLRegressorCV(CrossValidated, MKLRegressor):  # fit also takes groups
    """Regression with many kernels, with strength and mixing chosen by cross-validation.

    A joint search chooses the strength and the degree of selection: from the block 1-norm over the elastic net to
    ridge, a kernel machine on the sum of the kernels. Candidates include averages of the kernels on several columns,
    and of each kind or view alone, so a single well-chosen Gaussian is among the candidates. For the default bank, the
    search also tries Gaussians of all columns at a quarter and an eighth of the median distance, and Gaussians whose
    columns are scaled by relevance, learned on the training rows of each fold. Each path goes from strong to weak
    penalties, in coarse steps while the score may rise, then in finer steps around the best strength. Scores are
    averaged with those of neighboring strengths. The averages of all kernels, and of those on several columns, are the
    baseline: a single kind, or a selection, must lead by more than half a standard error of the difference over the
    folds, a single view by more than a whole standard error. The search is a race: selections are tried at a few
    strengths in three folds first, with half of the rows if there are many, and dropped if behind by more than half a
    standard error of the difference; in all folds a candidate is followed while it can still come within a standard
    error of the best. The winner is refitted on all samples, to ``tol`` and with the certificate.

    The empty model is among the candidates. If y is more strongly related to the kernels than permuted y
    (``noise_p_value_``), a lead in the mean suffices; else a lead of half a standard error of the folds is required,
    corrected for shared training rows, and a warning flags an uncertain choice. Groups of equal size are permuted as
    wholes; for non-exchangeable samples (series, custom splits) the warning appears unless the lead is a whole error.
    If no candidate beats the constant model, the constant model is returned with a warning.

    Each fold learns standardization, widths and normalization of the kernels from its training samples. Strengths are
    relative to those of a nearly empty model of the target or class, so units do not matter.

    With a named ``penalty`` or with ``alphas``, the grid of strengths is as given: by default it starts at the smallest
    ``alpha`` of the empty model and falls geometrically, and every strength is solved in every fold.

    Parameters
    ----------
    kernels : KernelBank, PrecomputedBank, "precomputed" or None, default=None
        As in :class:`MKLRegressor`, like all parameters without a description here.
    loss : str or Loss, default="squared"
        Loss of a prediction.
    loss_parameters : LossParameters, dict or None, default=None
        ``epsilon`` of ``"epsilon_insensitive"``, ``delta`` of ``"huber"``, ``tau`` of ``"quantile"``, for example
        ``{"tau": 0.9}``; see :class:`~manykernels.estimators.LossParameters`.
    penalty : "auto", str, dict or Regularizer, default="auto"
        "auto" searches strength and mixing; "ridge" without ``alphas`` searches the strength of the sum of all kernels.
        Else the name of a penalty, or an object, with the strengths of a grid. Other dense penalties ("lq", weight
        sets) need ``alphas``.
    alphas : array-like or None, default=None
        Strengths relative to the mean loss, instead of a search; "auto" then is "l1", or "elasticnet" with
        ``l1_ratios``. So it is with shared weights.
    n_alphas : int, default=25
        Length of the grid; a search starts with every third value, and continues below the grid if promising.
    l1_ratios : float or sequence of float or None, default=None
        Mixtures to try, each on a separate path: 1 selects, 0 averages. None is 0.5 for elastic nets, and (1, 0.5, 0)
        for a search, which drops weak candidates early; given values are all computed.
    q, p, eta : float
        Shape of the penalties ``"lq"`` and ``"group_elasticnet"``, ``"lp_ball"``, and ``"elasticnet_ball"``.
    cv : int, splitter or iterable, default=None
        Number of folds (5 by default, or one per sample), or any splitter of scikit-learn, for example ``ShuffleSplit``
        for hold-out selection.
    scoring : str, callable or None, default=None
        None is minus the mean training loss on held-out rows: squared or pinball errors, half the deviance of counts up
        to a constant. With several targets, the search chooses separately.
    search : Search, dict or None, default=None
        Settings of the search: ``alpha_min_ratio``, ``rule``, ``fold_tol``, ``keep_folds``; see
        :class:`~manykernels.estimators.Search`.
    outputs : {"own", "shared"}, default="own"
        One set of kernel weights per target, or one set for all targets.
    solver : str or Solver, default="auto"
        Solver of every problem; of averages only unless "auto".
    fit_intercept : bool, default=True
        Learn the intercept.
    kernel_penalties : array-like of shape (n_kernels,), dict, list of dict or None, default=None
        Factors on the norms inside the penalty. Of several dictionaries each is tried, on paths of the block 1-norm
        where the penalty is "auto": ``[{"* x *": 1}, {"* x *": 2}]`` chooses how much more pairs cost.
    tol : float, default=1e-4
        Relative duality gap at which the solver stops.
    random_state : int, RandomState instance or None, default=None
        For solvers that draw random numbers, as in :class:`MKLRegressor`.
    resources : Resources, dict or None, default=None
        Time, memory, threads and progress: ``max_iter``, ``time_limit``, ``callback``, ``representation``,
        ``memory_budget``, ``n_jobs``, ``verbose``; see :class:`~manykernels.estimators.Resources`.

    Attributes
    ----------
    alpha_ : float or ndarray of shape (n_outputs,)
        The chosen strength; of every target or class where they differ.
    l1_ratio_ : float, ndarray or None
        Value of ``l1_ratio`` with which a plain estimator with penalty ``"elasticnet"`` returns the same model.
    kernel_penalties_ : array-like, dict or None
        The chosen factors.
    mixing_ : float, ndarray or None
        After a search: 1 for selection, 0 for averaging, as in ``l1_ratios``. Unlike ``l1_ratio_`` it means the same in
        every unit of y.
    alphas_ : ndarray of shape (n_alphas,) or (n_paths, n_alphas)
        The strengths tried, decreasing.
    best_score_ : float
        Mean score of the choice over the folds.
    best_index_ : int
        The row in ``cv_results_``.
    best_per_target_ : ndarray of shape (n_targets,) or None
        Rows of the choices for several targets, after a search.
    cv_results_ : DataFrame
        One row per candidate; see :meth:`cv_frame`.
    n_folds_ : int
        Number of folds.
    cv_predictions_ : ndarray of shape (n_samples,) or (n_samples, n_classes) or (n_samples, n_outputs)
        Out-of-fold predictions at the chosen strength: numbers; NaN for rows never held out, the mean over repeated
        folds. Absent after an early end of the search.

    See Also
    --------
    MKLRegressor : The same at a given strength, and all other fitted attributes.
    manykernels.estimators.selection.path.regularization_path : Solutions at every strength.

    References
    ----------
    The pipeline of Z. Liu, "rls_dual_mkl: a PFBS-based implementation for multiple kernel learning".

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.estimators.selection.cross_validation import MKLRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(60, 3))
    >>> y = np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=60)
    >>> model = MKLRegressorCV(cv=3).fit(X, y)
    >>> model.mixing_ in (0.0, 0.5, 1.0), bool(model.dual_gap_ <= model.tol), model.score(X, y) > 0.5
    (True, True, True)
    >>> path = MKLRegressorCV(penalty="l1", cv=3, n_alphas=10).fit(X, y)
    >>> len(path.cv_frame()), bool(path.alphas_[0] > path.alpha_ > path.alphas_[-1])
    (10, True)
    """

    _groups: ClassVar[tuple[str, ...]] = ("resources", "search", "loss_parameters")
    _plain = MKLRegressor

    def _check_loss(self) -> Loss:
        if self._levels is not None:
            raise InvalidInputError(
                f"MKLRegressorCV chooses a strength for one quantile, but tau={self._levels.tolist()} has several: "
                "choose it for one of them and give alpha_ to MKLRegressor, or fit one model for each."
            )
        return super()._check_loss()

    def __init__(
        self,
        kernels: Kernels = None,
        *,
        loss: str | Loss = "squared",
        loss_parameters: LossParameters | Mapping[str, Any] | None = None,
        penalty: Any = "auto",
        alphas: ArrayLike | None = None,
        n_alphas: int = 25,
        l1_ratios: float | Sequence[float] | None = None,
        q: float = 1.5,
        p: float = 2.0,
        eta: float = 0.5,
        cv: Any = None,
        scoring: str | Callable[..., float] | None = None,
        search: Search | Mapping[str, Any] | None = None,
        outputs: str = "own",
        solver: str | Solver = "auto",
        fit_intercept: bool = True,
        kernel_penalties: ArrayLike | Mapping[str, float] | None = None,
        tol: float = 1e-4,
        random_state: RandomSource = None,
        resources: Resources | Mapping[str, Any] | None = None,
    ) -> None:
        self.kernels = kernels
        self.loss = loss
        self.loss_parameters = loss_parameters
        self.penalty = penalty
        self.alphas = alphas
        self.n_alphas = n_alphas
        self.l1_ratios = l1_ratios
        self.q, self.p, self.eta = q, p, eta
        self.cv = cv
        self.scoring = scoring
        self.search = search
        self.outputs = outputs
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.kernel_penalties = kernel_penalties
        self.tol = tol
        self.random_state = random_state
        self.resources = resources


class MKLClassifierCV(CrossValidated, MKLClassifier):  # fit also takes groups
    """Classification with many kernels, with strength and mixing chosen by cross-validation.

    The search is that of :class:`MKLRegressorCV`, for all classes together.

    Parameters
    ----------
    kernels : KernelBank, PrecomputedBank, "precomputed" or None, default=None
        As in :class:`MKLClassifier`, like all parameters without a description here.
    loss : str or Loss, default="logistic"
        Loss function.
    penalty, alphas, n_alphas, l1_ratios, q, p, eta : Any
        The penalties and strengths of the search, as in :class:`MKLRegressorCV`.
    cv : int, splitter or iterable, default=None
        Folds of stratified K-fold selection (5 by default, or one for every sample of the largest class), or any
        splitter of scikit-learn.
    scoring : str, callable or None, default=None
        None is minus the mean training loss on held-out rows, summed over one-vs-rest classes: a proper score, unlike
        ``"accuracy"``. Margins of hinge losses are scored by the logistic loss after calibration.
    search : Search, dict or None, default=None
        Settings of the search: ``alpha_min_ratio``, ``rule``, ``fold_tol``, ``keep_folds``; see
        :class:`~manykernels.estimators.Search`.
    outputs : {"own", "shared"}, default="own"
        One set of kernel weights per class, or one set for all classes.
    solver : str or Solver, default="auto"
        Solver of every problem; of averages only unless "auto".
    fit_intercept : bool, default=True
        Learn the intercept.
    class_weight : dict, "balanced" or None, default=None
        Factors on the sample weights of every class, in the loss and in the score.
    kernel_penalties, tol, random_state, resources : Any
        As in :class:`MKLRegressorCV`.

    Attributes
    ----------
    alpha_, l1_ratio_, kernel_penalties_, mixing_, alphas_ : float or ndarray
        The choice and the grid, as in :class:`MKLRegressorCV`, and so are ``best_score_``, ``best_index_``,
        ``best_per_target_``, ``cv_results_`` and ``n_folds_``.
    cv_predictions_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Out-of-fold predictions at the chosen strength: probabilities, or decisions; NaN for rows never held out, the
        mean over repeated folds. Absent after an early end of the search.

    See Also
    --------
    MKLClassifier : The same at a given strength, and all other fitted attributes.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.estimators.selection.cross_validation import MKLClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 3))
    >>> y = np.where(X[:, 0] ** 2 + X[:, 1] + 0.5 * rng.normal(size=80) > 1, "yes", "no")
    >>> model = MKLClassifierCV(cv=3).fit(X, y)
    >>> bool(model.dual_gap_ <= model.tol), model.score(X, y) > 0.8
    (True, True)
    """

    _groups: ClassVar[tuple[str, ...]] = ("resources", "search")
    _plain = MKLClassifier

    def __init__(
        self,
        kernels: Kernels = None,
        *,
        loss: str | Loss = "logistic",
        penalty: Any = "auto",
        alphas: ArrayLike | None = None,
        n_alphas: int = 25,
        l1_ratios: float | Sequence[float] | None = None,
        q: float = 1.5,
        p: float = 2.0,
        eta: float = 0.5,
        cv: Any = None,
        scoring: str | Callable[..., float] | None = None,
        search: Search | Mapping[str, Any] | None = None,
        outputs: str = "own",
        solver: str | Solver = "auto",
        fit_intercept: bool = True,
        class_weight: Any = None,
        kernel_penalties: ArrayLike | Mapping[str, float] | None = None,
        tol: float = 1e-4,
        random_state: RandomSource = None,
        resources: Resources | Mapping[str, Any] | None = None,
    ) -> None:
        self.kernels = kernels
        self.loss = loss
        self.penalty = penalty
        self.alphas = alphas
        self.n_alphas = n_alphas
        self.l1_ratios = l1_ratios
        self.q, self.p, self.eta = q, p, eta
        self.cv = cv
        self.scoring = scoring
        self.search = search
        self.outputs = outputs
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.kernel_penalties = kernel_penalties
        self.tol = tol
        self.random_state = random_state
        self.resources = resources

    def _scoring_weight(self, y: Array, weight: Array | None) -> Array | None:
        """Weight held-out samples as in the loss, for consistency with ``class_weight``."""
        if self.class_weight is None or y.ndim == 2:
            return weight
        base = sample_weights(weight, len(y))
        classes, codes, _ = encode_labels(y)
        return base * class_factors(self.class_weight, classes, codes, base)[codes]


CHOICES = ("alpha_", "l1_ratio_", "mixing_", "best_score_", "dual_gap_")  # told of each outer fold, where there are any


@dataclass(frozen=True, eq=False)
class NestedScores:
    """What nested cross-validation found.

    Attributes
    ----------
    scores : (n_folds,) float64
        Of every outer fold, by models chosen and learned without it.
    chosen : DataFrame
        A row an outer fold: ``score``, ``n_train``, ``n_test``, ``n_kernels``, and what was chosen.
    estimators : list
        The fitted estimator of every outer fold.
    predictions : ndarray or None
        The out-of-fold prediction of every sample; None unless every sample is held out once.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressorCV, nested_cross_validation
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(45, 2))
    >>> y = np.sin(2 * X[:, 1]) + 0.2 * rng.normal(size=45)
    >>> nested = nested_cross_validation(MKLRegressorCV(cv=2, n_alphas=8), X, y, cv=3)
    >>> nested.scores.shape, bool(nested.mean > 0.5)
    ((3,), True)
    """

    scores: Array
    chosen: pd.DataFrame
    estimators: list[Any]
    predictions: Array | None

    @property
    def mean(self) -> float:
        """Mean score."""
        return float(np.mean(self.scores))

    @property
    def standard_error(self) -> float:
        """Standard error of the mean, as if the folds were independent; NaN for a single fold."""
        return float(np.std(self.scores, ddof=1) / np.sqrt(len(self.scores))) if len(self.scores) > 1 else float("nan")


def nested_cross_validation(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    groups: Any = None,
    scoring: Any = None,
    n_jobs: int | None = None,
) -> NestedScores:
    """Score an estimator that chooses the respective parameters, on samples that had no part in the choice.

    In every outer fold a clone chooses and learns on the training samples alone: the respective cross-validation, the
    widths and normalization of the kernels, the model. It is then scored on the held-out samples. Only which kernels
    there are is decided by all samples, where gaps or kinds of columns decide it: see :meth:`KernelBank.resolve`.

    Parameters
    ----------
    estimator : estimator
        :class:`MKLClassifierCV`, :class:`MKLRegressorCV`, or any other estimator, for example ``GridSearchCV``.
    X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
        Samples.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Labels or targets.
    cv : int, splitter or iterable, default=5
        Outer folds: any splitter of scikit-learn, grouped, blocked in time, or repeated.
    groups : array-like of shape (n_samples,) or None, default=None
        Given to the outer splitter; the training part also to the inner splitter of a search. Numbers of folds keep
        groups whole.
    scoring : str, callable or None, default=None
        None is the ``score`` method: accuracy, or the coefficient of determination.
    n_jobs : int or None, default=None
        Outer folds in parallel processes, in joblib's convention; each takes a single thread for linear algebra then.

    Returns
    -------
    NestedScores
        Scores, what every fold chose, fitted estimators, predictions.

    Raises
    ------
    InvalidInputError
        If the data cannot be used, or the splitter makes no fold.

    References
    ----------
    S. Varma, R. Simon, "Bias in error estimation when using cross-validation for model selection", BMC Bioinformatics 7
    (2006).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GroupKFold
    >>> from manykernels import MKLClassifierCV, nested_cross_validation
    >>> rng = np.random.default_rng(0)
    >>> X, patient = rng.normal(size=(60, 2)), np.repeat(np.arange(12), 5)
    >>> y = X[:, 0] + 0.3 * rng.normal(size=60) > 0
    >>> model = MKLClassifierCV(cv=GroupKFold(3), n_alphas=8)
    >>> nested = nested_cross_validation(model, X, y, cv=GroupKFold(4), groups=patient)
    >>> bool(nested.mean > 0.7), nested.chosen["n_test"].tolist()
    (True, [15, 15, 15, 15])
    """
    rows = as_kernel_stack(X, square=True) if is_precomputed(getattr(estimator, "kernels", None)) else X
    estimator = with_kernels_of(estimator, rows)
    target = y if hasattr(y, "iloc") else np.asarray(y)
    splits = splits_of(cv, target, groups, classifier=is_classifier(estimator))
    if not splits:
        raise InvalidInputError(f"cv={cv!r} made no fold: nothing can be scored.")
    given = None if groups is None else np.asarray(groups)
    workers = min(n_threads(n_jobs), len(splits))
    jobs = (delayed(_outer)(clone(estimator), rows, target, given, scoring, *split, workers) for split in splits)
    found = list(Parallel(n_jobs=workers)(jobs))
    models, scores, predictions = ([part[k] for part in found] for k in range(3))
    frame = pd.DataFrame([_row(*each) for each in zip(models, scores, splits, strict=True)])
    return NestedScores(np.array(scores), frame, models, _assembled(predictions, splits, len(target)))


def _outer(
    model: BaseEstimator, X: Any, y: Any, groups: Any, scoring: Any, train: Array, test: Array, workers: int
) -> tuple[Any, float, Array]:
    """Fit, score and predict an outer fold."""
    searches = groups is not None and isinstance(model, CrossValidated)
    own = fit_groups(model, groups[train]) if searches else {}
    with blas_limit(1 if workers > 1 else n_threads(-1)):
        model.fit(_take_samples(X, train), _take_samples(y, train), **own)
        score = float(check_scoring(model, scoring=scoring)(model, _take_samples(X, test), _take_samples(y, test)))
        return model, score, np.asarray(model.predict(_take_samples(X, test)))


def _take_samples(values: Any, rows: Array) -> Any:
    """Return chosen samples of a table, an array, a list or precomputed kernels."""
    return values[rows] if hasattr(values, "sample_ids") else _safe_indexing(values, rows)


def _row(model: BaseEstimator, score: float, split: tuple[Array, Array]) -> dict[str, Any]:
    row: dict[str, Any] = {"score": score, "n_train": len(split[0]), "n_test": len(split[1])}
    weights = getattr(model, "kernel_weights_", None)
    if weights is not None:
        row["n_kernels"] = int(np.count_nonzero(np.atleast_2d(weights).any(axis=0)))
    told = {name.rstrip("_"): getattr(model, name) for name in CHOICES if hasattr(model, name)}
    results = getattr(model, "cv_results_", None)
    if isinstance(results, pd.DataFrame) and "kernels" in results:
        told["kernels"] = results["kernels"][model.best_index_]
    return row | told


def _assembled(predictions: list[Array], splits: list[tuple[Array, Array]], n_samples: int) -> Array | None:
    """Return the predictions in the order of the samples, if held out exactly once."""
    tests = np.concatenate([test for _, test in splits])
    if len(tests) != n_samples or len(np.unique(tests)) != n_samples:
        return None
    together = np.concatenate(predictions)
    return together[np.argsort(tests, kind="stable")]
