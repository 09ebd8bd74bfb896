"""Cox's proportional hazards with many kernels, and Breslow's baseline hazard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from manykernels.estimators.parameters import Kernels, Resources, check_parameters
from manykernels.estimators.supervised.base import BaseMKL
from manykernels.estimators.supervised.problems import Fit
from manykernels.estimators.supervised.samples import Samples
from manykernels.estimators.survival.scores import concordance_index
from manykernels.exceptions import InvalidInputError
from manykernels.grams.training import Training
from manykernels.objective.losses import CoxPartial, survival_target
from manykernels.objective.losses.survival import FIELDS, check_survival
from manykernels.objective.regularizers import Regularizer
from manykernels.solvers import Solver
from manykernels.validation.arrays import Array, TableLike, check_vector
from manykernels.validation.parameters import RandomSource


def baseline_hazard(target: Array, scores: Array, weight: Array) -> pd.DataFrame:
    """Return the cumulative baseline hazard at each time of an event, a row a stratum and time."""
    parts = []
    for stratum in np.unique(target["stratum"]):
        inside = target["stratum"] == stratum
        times, hazard = _breslow(target[inside], scores[inside], weight[inside])
        parts.append(pd.DataFrame({"stratum": stratum, "time": times, "cumulative_hazard": hazard}))
    return pd.concat(parts, ignore_index=True)


def _breslow(target: Array, scores: Array, weight: Array) -> tuple[Array, Array]:
    """Return the times of events and the cumulative hazard at them."""
    times = np.unique(target["time"][target["event"]])
    order = np.argsort(target["time"])
    at_risk = np.logaddexp.accumulate((np.log(weight) + scores)[order][::-1])[::-1]
    log_risk = at_risk[np.searchsorted(target["time"][order], times)]
    place = np.searchsorted(times, target["time"][target["event"]])
    events = np.bincount(place, weights=weight[target["event"]], minlength=len(times))
    return times, np.cumsum(np.exp(np.log(events) - log_risk))


def martingale_residuals(target: Array) -> Array:
    """Return observed less expected events of each sample if all have one hazard, (n,): high for early events."""
    residuals = target["event"].astype(np.float64)
    for stratum in np.unique(target["stratum"]):
        inside = target["stratum"] == stratum
        part = target[inside]
        times, hazard = _breslow(part, np.zeros(len(part)), np.ones(len(part)))
        residuals[inside] -= np.r_[0.0, hazard][np.searchsorted(times, part["time"], side="right")]
    return residuals


def cumulative_hazards(baseline: pd.DataFrame, scores: Array, times: Array, strata: Array) -> Array:
    """Return cumulative hazards of samples at times, (n, n_times): steps, zero before the first event."""
    found = np.empty((len(scores), len(times)))
    known = {int(number): baseline[baseline["stratum"] == number] for number in baseline["stratum"].unique()}
    for stratum in np.unique(strata):
        if stratum not in known:
            raise InvalidInputError(f"Stratum {stratum} has no baseline: training had {sorted(known)} with events.")
        part, inside = known[stratum], strata == stratum
        steps = np.r_[0.0, part["cumulative_hazard"].to_numpy()]
        levels = steps[np.searchsorted(part["time"].to_numpy(), times, side="right")]
        with np.errstate(over="ignore", invalid="ignore"):
            found[inside] = np.where(levels > 0, np.exp(scores[inside])[:, None] * levels, 0.0)
    return found


class MKLSurvival(BaseMKL):
    r"""Relative hazards that are sums of functions of many kernels, of which it learns which ones matter.

    Minimizes Cox's negative log partial likelihood with a penalty,

    .. math:: \sum_e s_e \Big[\log \sum_{j \in R_e} s_j e^{f(x_j)} - f(x_e)\Big]
       + \alpha \Big(\sum_i s_i\Big)\, \Omega(\|f_1\|, \dots, \|f_M\|), \qquad f = \sum_m f_m,

    over events :math:`e` and the samples :math:`R_e` at risk at their times, and proves by a duality gap how close to
    the minimum it came.

    Parameters
    ----------
    kernels : KernelBank, PrecomputedBank, "precomputed" or None, default=None
        The kernels, as for :class:`MKLRegressor`.
    ties : {"efron", "breslow"}, default="efron"
        How events of one time share a risk set.
    penalty : str, dict or Regularizer, default="l1"
        As for :class:`MKLRegressor`; so are all parameters below.
    alpha : float or str, default="auto"
        Strength of the penalty relative to the mean loss of a sample, positive; text as for :class:`MKLRegressor`.
    l1_ratio, q, p, eta : float
        Shape of the penalties "elasticnet", "lq", "lp_ball", "elasticnet_ball" and "group_elasticnet".
    solver : str or Solver, default="auto"
        One that solves losses of all samples together: "working_set", "interior_point" or "block_coordinate",
        "factored" on factors.
    kernel_penalties : array-like of shape (n_kernels,), dict or None, default=None
        Positive factors on the norms inside the penalty.
    tol : float, default=1e-4
        Relative duality gap to reach.
    random_state : int, RandomState instance or None, default=None
        Not used by the solvers of this loss.
    resources : Resources, dict or None, default=None
        Time, memory, threads and progress: ``max_iter``, ``time_limit``, ``callback``, ``representation``,
        ``memory_budget``, ``n_jobs``, ``verbose``; see :class:`~manykernels.estimators.Resources`.

    Attributes
    ----------
    kernel_weights_, kernel_norms_ : ndarray of shape (n_kernels,)
        Weights ``d`` and norms ``||f_m||`` of the kernels.
    kernel_names_ : list of str
        Names of the kernels.
    dual_coef_ : ndarray of shape (n_support,)
        Dual coefficients: for each sample, observed less expected events (martingale residuals) at the optimum.
        Like ``support_``, not there for factors, of which a model keeps no samples.
    support_ : ndarray of shape (n_support,)
        Positions of the training samples with a nonzero dual coefficient.
    alpha_ : float
        The strength that was used.
    baseline_ : DataFrame
        ``stratum``, ``time``, ``cumulative_hazard``: Breslow's estimate, a row for each time of an event.
    event_times_ : ndarray
        All times of events.
    dual_gap_ : float
        Relative duality gap.
    representation_ : {"gram", "factored"}
        How kernels were held.
    approximate_gap_ : float
        For factors only: the gap of the problem with factors in place of kernels, which proves nothing about these.
    n_iter_ : int
        Outer iterations.
    solution_ : Solution
        Everything the solver reports.
    n_features_in_, feature_names_in_ : int, ndarray
        As for :class:`MKLRegressor`.

    See Also
    --------
    MKLSurvivalCV : The same with the strength chosen by cross-validation.

    Notes
    -----
    The target is scikit-survival's: a structured array of events and times; `survival_array` makes one. Its field
    "stratum", if there is one, numbers groups with baselines of their own. A linear kernel with ``penalty="ridge"`` is
    the ridge penalized Cox regression.

    References
    ----------
    D. R. Cox, "Regression models and life-tables", JRSS B 34 (1972).

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLSurvival, survival_array
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(80, 3))
    >>> time = rng.exponential(np.exp(-np.sin(2 * X[:, 1])))
    >>> y = survival_array(time < 2, np.minimum(time, 2))
    >>> model = MKLSurvival(alpha=0.02).fit(X, y)
    >>> model.score(X, y) > 0.7, model.predict_survival_function(X[:2], [0.5, 1.0]).shape
    (True, (2, 2))
    """

    fitted_extras: ClassVar[tuple[str, ...]] = ("baseline_", "event_times_")
    _loss: Any  # couples all samples
    fit_intercept = False  # the baseline hazard takes its place

    _task = "survival"
    _other = "MKLRegressor"
    _target_word = "output"

    def __init__(
        self,
        kernels: Kernels = None,
        *,
        ties: str = "efron",
        penalty: str | Mapping[str, str | Regularizer] | Regularizer = "l1",
        alpha: float | str = "auto",
        l1_ratio: float = 0.5,
        q: float = 1.5,
        p: float = 2.0,
        eta: float = 0.5,
        solver: str | Solver = "auto",
        kernel_penalties: ArrayLike | Mapping[str, float] | None = None,
        tol: float = 1e-4,
        random_state: RandomSource = None,
        resources: Resources | Mapping[str, Any] | None = None,
    ) -> None:
        self.kernels = kernels
        self.ties = ties
        self.penalty = penalty
        self.alpha: Any = alpha
        self.l1_ratio = l1_ratio
        self.q = q
        self.p = p
        self.eta = eta
        self.solver = solver
        self.kernel_penalties = kernel_penalties
        self.tol = tol
        self.random_state = random_state
        self.resources = resources

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    @property
    def _free_constant(self) -> bool:
        """Scores may be shifted alike: the partial likelihood does not see it."""
        return True

    @property
    def _left_open(self) -> dict[str, Any]:
        """Nothing: the loss has no size of errors."""
        return {}

    def _checked_loss(self) -> Any:
        check_parameters(self._all_parameters())
        return CoxPartial(self.ties)

    def _checked_target(self, y: ArrayLike) -> Array:
        target = check_survival(y)
        if not target["event"].any():
            raise InvalidInputError(
                f"There is no event among the {len(target)} samples: all are censored, and nothing tells hazards apart."
            )
        return target

    def _encoded(self, samples: Samples) -> Samples:
        self._single = True
        event, time, stratum = (samples.y[name] for name in FIELDS.names or ())
        if not event.any():
            raise InvalidInputError("There is no event among the samples of positive weight.")
        self._target_of_fit = samples.y
        return samples.with_targets(survival_target(event, time, stratum)[:, None])

    def _noise_strata(self, samples: Samples) -> Array | None:
        """Return the strata: only samples of one share a risk set."""
        return self._target_of_fit["stratum"]

    def _keep_fit(self, training: Training, fit: Fit, samples: Samples) -> None:
        super()._keep_fit(training, fit, samples)
        found = fit.solutions[0]
        if training.factored:
            scores = self._expansion.scores(samples.rows)[:, 0]
        else:
            scores = fit.problems[0].model_parts(found.dual_coef, found.kernel_weights)[0]
        target = self.__dict__.pop("_target_of_fit")  # nothing but the baseline needs it, which is kept
        self.baseline_ = baseline_hazard(target, scores, samples.weight)
        self.event_times_ = np.unique(self.baseline_["time"].to_numpy())

    def predict(self, X: TableLike) -> Array:
        """Return risk scores ``f(x)``, logarithms of relative hazards: higher means earlier events.

        Parameters
        ----------
        X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import MKLSurvival, survival_array
        >>> X = np.arange(8.0)[:, None]
        >>> model = MKLSurvival().fit(X, survival_array(np.ones(8, bool), 8.0 - X[:, 0]))
        >>> bool(model.predict([[6.0]]) > model.predict([[1.0]]))
        True
        """
        return self._scores(X)[:, 0]

    def predict_cumulative_hazard_function(
        self, X: TableLike, times: ArrayLike | None = None, strata: ArrayLike | None = None
    ) -> Array:
        """Return cumulative hazards ``H_0(t) exp(f(x))``.

        Parameters
        ----------
        X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
            Samples.
        times : array-like of shape (n_times,), default=None
            ``event_times_`` by default.
        strata : array-like of int of shape (n_samples,), default=None
            Stratum of each sample; not needed if training had one.

        Returns
        -------
        ndarray of shape (n_samples, n_times)

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import MKLSurvival, survival_array
        >>> X = np.arange(8.0)[:, None]
        >>> model = MKLSurvival().fit(X, survival_array(np.ones(8, bool), 8.0 - X[:, 0]))
        >>> model.predict_cumulative_hazard_function(X[:1], [0.0]).tolist()
        [[0.0]]
        """
        scores = self.predict(X)
        at = self.event_times_ if times is None else check_vector(times, None, "times")
        return cumulative_hazards(self.baseline_, scores, at, self._strata(strata, len(scores)))

    def predict_survival_function(
        self, X: TableLike, times: ArrayLike | None = None, strata: ArrayLike | None = None
    ) -> Array:
        """Return the probabilities of no event up to some times, ``exp(-H_0(t) exp(f(x)))``.

        Parameters
        ----------
        X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
            Samples.
        times : array-like of shape (n_times,), default=None
            ``event_times_`` by default.
        strata : array-like of int of shape (n_samples,), default=None
            Stratum of each sample; not needed if training had one.

        Returns
        -------
        ndarray of shape (n_samples, n_times)

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import MKLSurvival, survival_array
        >>> X = np.arange(8.0)[:, None]
        >>> model = MKLSurvival().fit(X, survival_array(np.ones(8, bool), 8.0 - X[:, 0]))
        >>> model.predict_survival_function(X[:1], [0.0]).tolist()
        [[1.0]]
        """
        return np.exp(-self.predict_cumulative_hazard_function(X, times, strata))

    def _strata(self, strata: ArrayLike | None, n_samples: int) -> Array:
        known = self.baseline_["stratum"].unique()
        if strata is None and len(known) > 1:
            raise InvalidInputError(f"Training had the strata {known.tolist()}; say the stratum of each sample.")
        if strata is None:
            return np.full(n_samples, known[0])
        found = np.asarray(strata)
        if found.shape != (n_samples,):
            raise InvalidInputError(f"strata must have shape ({n_samples},), got {found.shape}.")
        return found

    def score(self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the concordance index of the risk scores.

        Parameters
        ----------
        X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
            Samples.
        y : structured array of shape (n_samples,)
            Their events and times.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Non-negative weights; a pair of samples counts by the product of its two.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import MKLSurvival, survival_array
        >>> X = np.arange(8.0)[:, None]
        >>> y = survival_array(np.ones(8, bool), 8.0 - X[:, 0])
        >>> MKLSurvival().fit(X, y).score(X, y)
        1.0
        """
        check_is_fitted(self)
        return concordance_index(y, self.predict(X), sample_weight)

    def _target_labels(self) -> Array:
        return np.arange(1)
