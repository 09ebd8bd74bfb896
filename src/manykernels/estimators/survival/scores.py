"""How good predictions of survival are: concordance of risks with times, and Brier scores under censoring."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from manykernels.compiled import compiled
from manykernels.estimators.supervised.samples import sample_weights
from manykernels.exceptions import InvalidInputError
from manykernels.objective.losses.survival import check_survival
from manykernels.validation.arrays import Array, check_vector

__all__ = ["brier_score", "concordance_index"]


def concordance_index(y: ArrayLike, risk: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    r"""Return the share of comparable pairs whose risks are in the order of their events (Harrell's C).

    .. math:: C = \sum_{(i, j)} s_i s_j \big([r_i > r_j] + \tfrac12 [r_i = r_j]\big) \Big/ \sum_{(i, j)} s_i s_j

    over the comparable pairs, those of which the earlier of the two times, :math:`t_i`, is an event; at equal times, if
    only one of them is. Samples of different strata are not compared.

    Parameters
    ----------
    y : structured array of shape (n_samples,)
        Events and times.
    risk : array-like of shape (n_samples,)
        Higher means an earlier event.
    sample_weight : array-like of shape (n_samples,), float or None, default=None
        Non-negative weights; a pair counts by the product of its two, so that a weight of two is the sample twice.

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
    """Return the concordance index for each of several weights of the samples, (D,) float64."""
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

    Samples are sorted by stratum, latest first: those before an event, up to its own tie, outlived it.
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

    At one time events come before censoring. So whether a sample outlives :math:`t` is known if its event :math:`T_i`
    was seen by then, or if it was not censored before :math:`t`; the chance of that is :math:`P(C \ge \min(T_i, t))`,
    with ties the left limit of the Kaplan-Meier curve of censoring, as in Gerds and Schumacher. scikit-survival takes
    :math:`P(C > T_i)`, which is the same without ties and counts events at tied times too much with them.

    Parameters
    ----------
    y_train : structured array of shape (n_train,)
        Events and times from which censoring is estimated (Kaplan and Meier).
    y : structured array of shape (n_samples,)
        What happened to the samples that were predicted.
    survival : array-like of shape (n_samples, n_times)
        Predicted probabilities of no event up to each time.
    times : array-like of shape (n_times,)
        Not beyond the last time of ``y_train``, if that is one of censoring.

    Returns
    -------
    ndarray of shape (n_times,)
        0 is perfect, 0.25 is a constant probability of one half.

    Raises
    ------
    InvalidInputError
        If shapes differ, or some sample outlives every time of censoring in ``y_train``, so that its weight is unknown.

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
        raise InvalidInputError(
            f"By the time {beyond.min():g} everybody in y_train is censored, so that no weight is known: ask for "
            "earlier times."
        )
    errors = (lives - guesses) ** 2
    return np.asarray(np.divide(errors, chances, out=np.zeros_like(errors), where=known).mean(axis=0))


def kaplan_meier(time: Array, event: Array) -> tuple[Array, Array]:
    """Return the times of events and the estimated shares without one after them."""
    times, events = np.unique(time[event], return_counts=True)
    at_risk = len(time) - np.searchsorted(np.sort(time), times)
    return times, np.cumprod(1.0 - events / at_risk)


def _uncensored(train: Array, times: Array) -> Array:
    """Return the Kaplan-Meier estimate of the chance that censoring comes at each time or later, `times.shape`.

    Events at a time come before the censoring at it, so that they are not at risk of it.
    """
    time, event = train["time"], train["event"]
    steps, censored = np.unique(time[~event], return_counts=True)
    at_risk = len(time) - np.searchsorted(np.sort(time[event]), steps, side="right")
    at_risk -= np.searchsorted(np.sort(time[~event]), steps)
    curve = np.r_[1.0, np.cumprod(1.0 - censored / at_risk)]
    return np.asarray(curve[np.searchsorted(steps, times)])
