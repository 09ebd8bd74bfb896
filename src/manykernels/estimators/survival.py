"""Survival: Cox's proportional hazards with many kernels, by a single strength or one that folds choose.

Predictions of hazards take Breslow's baseline. How good they are: concordance of risks with times, and Brier scores
under censoring.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.model_selection import PredefinedSplit
from sklearn.utils.validation import check_is_fitted

from manykernels.compiled import compiled
from manykernels.estimators.parameters import Kernels, Resources, Search, check_parameters
from manykernels.estimators.selection.choice import CrossValidated
from manykernels.estimators.selection.splits import N_FOLDS, splits_of
from manykernels.estimators.supervised.base import BaseMKL
from manykernels.estimators.supervised.problems import Fit
from manykernels.estimators.supervised.samples import Samples, sample_weights
from manykernels.exceptions import InvalidInputError
from manykernels.grams.training import Training
from manykernels.objective.losses import CoxPartial, survival_target
from manykernels.objective.losses.survival import FIELDS, check_survival
from manykernels.objective.regularizers import Regularizer
from manykernels.solvers import Solver
from manykernels.validation.arrays import Array, TableLike, check_vector
from manykernels.validation.parameters import RandomSource


def concordance_index(y: ArrayLike, risk: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    r"""Return the share of comparable pairs whose risks are in the order of their events (Harrell's C).

    .. math:: C = \sum_{(i, j)} s_i s_j \big([r_i > r_j] + \tfrac12 [r_i = r_j]\big) \Big/ \sum_{(i, j)} s_i s_j

    over the comparable pairs, with an event at the earlier time :math:`t_i`; at equal times, with a single event.
    Samples of different strata are not compared.

    Parameters
    ----------
    y : structured array of shape (n_samples,)
        Events and times.
    risk : array-like of shape (n_samples,)
        Higher means an earlier event.
    sample_weight : array-like of shape (n_samples,), float or None, default=None
        Non-negative weights; a pair counts by the product of the two, so a weight of two is the sample twice.

    Returns
    -------
    float
        0.5 for risks that say nothing.

    Raises
    ------
    InvalidInputError
        If no pair of positive weight is comparable.

    References
    ----------
    F. Harrell, K. Lee, D. Mark, "Multivariable prognostic models", Statistics in Medicine 15 (1996).

    Examples
    --------
    >>> from manykernels import survival_array
    >>> y = survival_array([True, False, True], [1.0, 2.0, 3.0])
    >>> concordance_index(y, [2.0, 0.0, 1.0])
    1.0
    >>> concordance_index(y, [2.0, 3.0, 1.0]), concordance_index(y, [2.0, 3.0, 1.0], sample_weight=[1.0, 3.0, 1.0])
    (0.5, 0.25)
    """
    target = check_survival(y)
    weight = sample_weights(sample_weight, len(target))
    found = float(concordance_indices(target, check_vector(risk, len(target), "risk"), weight[None])[0])
    if np.isnan(found):
        among = "" if sample_weight is None else " of positive weight"
        raise InvalidInputError(
            f"No two samples{among} can be compared: there is no event before the time of another sample."
        )
    return found


def concordance_indices(target: Array, risk: Array, weights: Array) -> Array:
    """Return the concordance index for several weights of the samples, (D,) float64."""
    order = np.lexsort((target["event"], -target["time"], target["stratum"]))  # of one time the censored come first
    ranks = np.unique(risk, return_inverse=True)[1][order].astype(np.int64)
    sorted_target = target[order]
    opens = np.r_[True, np.diff(sorted_target["stratum"]) != 0]
    times = np.cumsum(np.r_[True, np.diff(sorted_target["time"]) != 0] | opens)
    parts = sorted_target["event"], times, opens, ranks, int(ranks.max()) + 1
    found = np.array([concordant_pairs(np.ascontiguousarray(weight[order]), *parts) for weight in weights])
    right, pairs = found.reshape(-1, 2).T
    return np.divide(right, pairs, out=np.full(len(weights), np.nan), where=pairs > 0)


@compiled()
def concordant_pairs(weight: Array, event: Array, times: Array, opens: Array, ranks: Array, n_ranks: int) -> Array:
    """Return the weights of the pairs in order and of all comparable pairs, from sums over ranks of risks in a tree.

    Samples are sorted by stratum, latest first: those before an event, up to the respective tie, outlived it.
    """
    found = np.zeros(2)
    tree, later, waiting = np.zeros(n_ranks + 1), 0.0, 0
    for i in range(event.size):
        if opens[i]:
            tree[:], later, waiting = 0.0, 0.0, i
        if event[i]:
            while times[waiting] < times[i] or not event[waiting]:
                later += weight[waiting]
                k = ranks[waiting] + 1
                while k <= n_ranks:
                    tree[k] += weight[waiting]
                    k += k & -k
                waiting += 1
            below, k = 0.0, ranks[i]
            while k > 0:
                below += tree[k]
                k -= k & -k
            until, k = 0.0, ranks[i] + 1
            while k > 0:
                until += tree[k]
                k -= k & -k
            found[0] += weight[i] * 0.5 * (below + until)
            found[1] += weight[i] * later
    return found


def brier_score(y_train: ArrayLike, y: ArrayLike, survival: ArrayLike, times: ArrayLike) -> Array:
    r"""Return mean squared errors of survival probabilities at some times, weighted by the chance of being uncensored.

    .. math:: B(t) = \frac1n \sum_{i \text{ known at } t} \frac{([T_i > t] - S_i(t))^2}{P(C \ge \min(T_i, t))}

    At a single time events come before censoring. So whether a sample outlives :math:`t` is known if the event
    :math:`T_i` was seen by then, or if it was not censored before :math:`t`; the chance of that is :math:`P(C \ge
    \min(T_i, t))`, with ties the left limit of the Kaplan-Meier curve of censoring, as in Gerds and Schumacher.
    scikit-survival takes :math:`P(C > T_i)`, which is the same without ties and counts events at tied times too much
    with them.

    Parameters
    ----------
    y_train : structured array of shape (n_train,)
        Events and times from which censoring is estimated (Kaplan and Meier).
    y : structured array of shape (n_samples,)
        The outcome of the predicted samples.
    survival : array-like of shape (n_samples, n_times)
        Predicted probabilities of no event up to every time.
    times : array-like of shape (n_times,)
        Limited to the last time of ``y_train``, if censored.

    Returns
    -------
    ndarray of shape (n_times,)
        0 is perfect, 0.25 is a constant probability of one half.

    Raises
    ------
    InvalidInputError
        If shapes differ, or some sample outlives every time of censoring in ``y_train``, so the weight is unknown.

    References
    ----------
    E. Graf, C. Schmoor, W. Sauerbrei, M. Schumacher, "Assessment and comparison of prognostic classification schemes
    for survival data", Statistics in Medicine 18 (1999).
    T. Gerds, M. Schumacher, "Consistent estimation of the expected Brier score in general survival models with
    right-censored event times", Biometrical Journal 48 (2006).

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import survival_array
    >>> y = survival_array([True, True, True], [1.0, 2.0, 3.0])
    >>> brier_score(y, y, np.array([[0.0], [1.0], [1.0]]), [1.5]).tolist()
    [0.0]
    """
    train, target = check_survival(y_train), check_survival(y)
    at, guesses = np.asarray(times, dtype=np.float64), np.asarray(survival, dtype=np.float64)
    if guesses.shape != (len(target), len(at)):
        raise InvalidInputError(f"survival must have shape {(len(target), len(at))}, got {guesses.shape}.")
    if not np.isfinite(at).all() or not np.isfinite(guesses).all():
        raise InvalidInputError("times and survival must be finite numbers.")
    time, event = target["time"][:, None], target["event"][:, None]
    lives = (time > at) | ((time == at) & ~event)
    known = lives | event
    chances = _uncensored(train, np.minimum(time, at))
    if (known & (chances <= 0)).any():
        beyond = at[(known & (chances <= 0)).any(axis=0)]
        raise InvalidInputError(f"By the time {beyond.min():g} all samples in y_train are censored. Use earlier times.")
    errors = (lives - guesses) ** 2
    return np.asarray(np.divide(errors, chances, out=np.zeros_like(errors), where=known).mean(axis=0))


def kaplan_meier(time: Array, event: Array) -> tuple[Array, Array]:
    """Return the event times and the Kaplan-Meier survival estimates."""
    times, events = np.unique(time[event], return_counts=True)
    at_risk = len(time) - np.searchsorted(np.sort(time), times)
    return times, np.cumprod(1.0 - events / at_risk)


def _uncensored(train: Array, times: Array) -> Array:
    """Return the Kaplan-Meier estimate of the chance that censoring comes at every time or later, `times.shape`.

    Events precede simultaneous censoring, so censored samples are at risk.
    """
    time, event = train["time"], train["event"]
    steps, censored = np.unique(time[~event], return_counts=True)
    at_risk = len(time) - np.searchsorted(np.sort(time[event]), steps, side="right")
    at_risk -= np.searchsorted(np.sort(time[~event]), steps)
    curve = np.r_[1.0, np.cumprod(1.0 - censored / at_risk)]
    return np.asarray(curve[np.searchsorted(steps, times)])


def baseline_hazard(target: Array, scores: Array, weight: Array) -> pd.DataFrame:
    """Return the cumulative baseline hazard at every time of an event, a row a stratum and time."""
    parts = []
    for stratum in np.unique(target["stratum"]):
        inside = target["stratum"] == stratum
        times, logs = _breslow(target[inside], scores[inside], weight[inside])
        with np.errstate(over="ignore", under="ignore"):
            columns = {"cumulative_hazard": np.exp(logs), "log_cumulative_hazard": logs}
        parts.append(pd.DataFrame({"stratum": stratum, "time": times} | columns))
    return pd.concat(parts, ignore_index=True)


def _breslow(target: Array, scores: Array, weight: Array) -> tuple[Array, Array]:
    """Return the event times and the logarithms of the cumulative hazard."""
    times = np.unique(target["time"][target["event"]])
    order = np.argsort(target["time"])
    at_risk = np.logaddexp.accumulate((np.log(weight) + scores)[order][::-1])[::-1]
    log_risk = at_risk[np.searchsorted(target["time"][order], times)]
    place = np.searchsorted(times, target["time"][target["event"]])
    events = np.bincount(place, weights=weight[target["event"]], minlength=len(times))
    return times, np.logaddexp.accumulate(np.log(events) - log_risk)


def martingale_residuals(target: Array) -> Array:
    """Return observed less expected events of every sample under a common hazard, (n,): high for early events."""
    residuals = target["event"].astype(np.float64)
    for stratum in np.unique(target["stratum"]):
        inside = target["stratum"] == stratum
        part = target[inside]
        times, logs = _breslow(part, np.zeros(len(part)), np.ones(len(part)))
        residuals[inside] -= np.r_[0.0, np.exp(logs)][np.searchsorted(times, part["time"], side="right")]
    return residuals


def cumulative_hazards(baseline: pd.DataFrame, scores: Array, times: Array, strata: Array) -> Array:
    """Return cumulative hazards of samples at times, (n, n_times): steps, zero before the first event.

    Scores and baselines are added as logarithms: under separation each of the two exponentials overflows or vanishes.
    """
    if "log_cumulative_hazard" not in baseline:  # in model files of earlier revisions
        with np.errstate(divide="ignore"):
            baseline = baseline.assign(log_cumulative_hazard=np.log(baseline["cumulative_hazard"]))
    found = np.empty((len(scores), len(times)))
    known = {int(number): baseline[baseline["stratum"] == number] for number in baseline["stratum"].unique()}
    for stratum in np.unique(strata):
        if stratum not in known:
            raise InvalidInputError(f"Stratum {stratum} has no baseline: training had {sorted(known)} with events.")
        part, inside = known[stratum], strata == stratum
        steps = np.r_[-np.inf, part["log_cumulative_hazard"].to_numpy()]
        levels = steps[np.searchsorted(part["time"].to_numpy(), times, side="right")]
        with np.errstate(over="ignore", under="ignore"):
            found[inside] = np.exp(scores[inside][:, None] + levels)
    return found


class MKLSurvival(BaseMKL):
    r"""Relative hazards as sums of functions of many kernels, with kernel selection.

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
        How events of a single time share a risk set.
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
        Relative duality gap at which the solver stops.
    random_state : int, RandomState instance or None, default=None
        Not used by the solvers of the loss.
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
        Dual coefficients: for every sample, observed less expected events (martingale residuals) at the optimum. Like
        ``support_``, absent for models of factors, which keep no samples.
    support_ : ndarray of shape (n_support,)
        Positions of the training samples with a nonzero dual coefficient.
    alpha_ : float
        The strength used.
    baseline_ : DataFrame
        ``stratum``, ``time``, ``cumulative_hazard``, ``log_cumulative_hazard``: Breslow's estimate, a row for every
        time of an event.
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
    The target is scikit-survival's: a structured array of events and times; `survival_array` makes one. The field
    "stratum", if any, numbers groups with separate baselines. A linear kernel with ``penalty="ridge"`` is the ridge
    penalized Cox regression.

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
        self.l1_ratio, self.q, self.p, self.eta = l1_ratio, q, p, eta
        self.solver, self.kernel_penalties, self.tol = solver, kernel_penalties, tol
        self.random_state, self.resources = random_state, resources

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    _free_constant: ClassVar[bool] = True  # the partial likelihood does not see it when scores are shifted alike

    @property
    def _open_parameters(self) -> dict[str, Any]:
        """Nothing: the loss has no size of errors."""
        return {}

    def _check_loss(self) -> Any:
        check_parameters(self._all_parameters())
        return CoxPartial(self.ties)

    def _check_target(self, y: ArrayLike) -> Array:
        target = check_survival(y)
        if not target["event"].any():
            raise InvalidInputError(
                f"There is no event among the {len(target)} samples: all are censored, so hazards cannot be estimated."
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
        """Return the strata: only samples of a share per risk set."""
        return self._target_of_fit["stratum"]

    def _keep_fit(self, training: Training, fit: Fit, samples: Samples) -> None:
        super()._keep_fit(training, fit, samples)
        found = fit.solutions[0]
        if training.factored:
            scores = self._expansion.scores(samples.rows)[:, 0]
        else:
            scores = fit.problems[0].model_parts(found.dual_coef, found.kernel_weights)[0]
        self.baseline_ = baseline_hazard(self._target_of_fit, scores, samples.weight)
        del self._target_of_fit  # nothing but the baseline needs it, which is kept
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
            Stratum of every sample; not needed if training had one.

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
            Stratum of every sample; not needed if training had one.

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
            Non-negative weights; a pair of samples counts by the product of the two.

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


class MKLSurvivalCV(CrossValidated, MKLSurvival):
    """Hazards of many kernels, with the strength of the penalty chosen by the partial likelihood of held-out folds.

    The grid of strengths starts at the smallest ``alpha`` under which no kernel is selected and falls geometrically.
    It is tried in steps of three strengths down to where the score has fallen, then beside the best of these. The model
    without kernels is returned only if no strength is ahead of it by half a standard error of the folds and the target
    is not related to the kernels either (p > 0.2 by permuted targets).

    Parameters
    ----------
    kernels : KernelBank, PrecomputedBank, "precomputed" or None, default=None
        As in :class:`MKLSurvival`, and so are all parameters not described here.
    ties : {"efron", "breslow"}, default="efron"
        How events of a single time share a risk set.
    penalty : str, dict or Regularizer, default="l1"
        Name of the penalty, or an object, with strengths from the grid. Dense penalties ("lq", "ridge", weight sets)
        need ``alphas``.
    alphas : array-like or None, default=None
        Strengths relative to the mean loss, instead of the default grid: all are tried.
    n_alphas : int, default=15
        Length of the default grid.
    l1_ratios : float or sequence of float or None, default=None
        For ``"elasticnet"``: mixtures to try, each with a separate path; None is 0.5.
    q, p, eta : float
        Shape of the penalties ``"lq"``, ``"lp_ball"`` and ``"elasticnet_ball"``.
    cv : int, splitter or iterable, default=None
        Folds of K-fold selection (5 by default, or one an event), with events in equal shares, or any splitter of
        scikit-learn, which gets the events (true or false) as y.
    scoring : str, callable or None, default=None
        None is the growth of the log partial likelihood when the held-out rows join the training rows, divided by the
        number of held-out events: a proper score, which the concordance is not.
    search : Search, dict or None, default=None
        Settings of the search: ``alpha_min_ratio`` and ``fold_tol``; see :class:`~manykernels.estimators.Search`.
    solver : str or Solver, default="auto"
        Solver of every problem.
    kernel_penalties : array-like of shape (n_kernels,), dict, list of dict or None, default=None
        Factors on the norms inside the penalty. Of several dictionaries each is tried.
    tol : float, default=1e-4
        Relative duality gap at which the solver stops.
    random_state : int, RandomState instance or None, default=None
        Not used by the solvers of the loss.
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
        A row a candidate, also from :meth:`cv_frame`; strengths not tried have no score.
    n_folds_ : int
        Number of folds.
    cv_predictions_ : ndarray of shape (n_samples,) or (n_samples, n_classes) or (n_samples, n_outputs)
        Out-of-fold predictions at the chosen strength: risk scores; NaN for rows never held out, the mean over repeated
        folds. Absent after an early end of the search.

    See Also
    --------
    MKLSurvival : The same at a given strength, and all other fitted attributes.

    References
    ----------
    P. Verweij, H. van Houwelingen, "Cross-validation in survival analysis", Statistics in Medicine 12 (1993).

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
        self.kernels, self.ties, self.penalty, self.alphas = kernels, ties, penalty, alphas
        self.n_alphas, self.l1_ratios, self.q, self.p = n_alphas, l1_ratios, q, p
        self.eta, self.cv, self.scoring, self.search = eta, cv, scoring, search
        self.solver, self.kernel_penalties, self.tol = solver, kernel_penalties, tol
        self.random_state, self.resources = random_state, resources

    @property
    def _walks(self) -> bool:
        return self.alphas is None

    def _splits(self, cv: Any, y: Array, groups: ArrayLike | None) -> Iterator[tuple[Array, Array]]:
        """Return folds stratified by events: every fold needs events."""
        events = np.asarray(y["event"], dtype=bool)
        n_events, n_censored = int(events.sum()), int((~events).sum())
        folds = min(N_FOLDS, max(n_events, 2)) if cv is None else cv
        if not isinstance(folds, int | np.integer):
            return iter(splits_of(folds, events, groups, classifier=False, events=True))
        if groups is not None:
            return iter(splits_of(cv, events, groups, classifier=True, events=True))
        if n_events < folds <= len(events):
            raise InvalidInputError(
                f"There is no event for each of {folds} folds to hold out: {len(events)} samples have {n_events}. Take "
                "fewer folds, or a strength of your own: MKLSurvival(alpha=...)."
            )
        if n_censored < folds <= n_events:  # too few for the shares of scikit-learn
            dealt = np.empty(len(events), dtype=np.intp)
            dealt[np.argsort(~events, kind="stable")] = np.arange(len(events)) % folds
            return iter(splits_of(PredefinedSplit(dealt), events, classifier=False))
        return iter(splits_of(folds, events, classifier=True, events=True))

    def _check_loss(self) -> Any:
        if isinstance(self.penalty, str) and self.penalty == "auto":
            raise InvalidInputError(
                "MKLSurvivalCV has no search over mixtures: name a penalty, 'l1', or 'elasticnet' with l1_ratios."
            )
        return super()._check_loss()
