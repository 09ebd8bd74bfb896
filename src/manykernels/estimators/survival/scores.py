"""How good predictions of survival are: concordance of risks with times, and Brier scores under censoring."""

from __future__ import annotations

from typing import Any

import numpy as np

from manykernels.estimators.survival.targets import check_survival
from manykernels.exceptions import InvalidInputError
from manykernels.validation.arrays import Array, check_vector

__all__ = ["brier_score", "concordance_index"]


def concordance_index(y: Any, risk: Any) -> float:
    """Return the share of comparable pairs whose risks are in the order of their events (Harrell's C).

    A pair is comparable if the earlier of the two times is an event; at equal times, if only one of them is. Equal
    risks count one half. Samples of different strata are not compared.

    Parameters
    ----------
    y : structured array of shape (n_samples,)
        Events and times.
    risk : array-like of shape (n_samples,)
        Higher means an earlier event.

    Returns
    -------
    float
        0.5 for risks that say nothing.

    Raises
    ------
    InvalidInputError
        If no pair is comparable.

    References
    ----------
    F. Harrell, K. Lee, D. Mark, "Multivariable prognostic models", Statistics in Medicine 15 (1996).

    Examples
    --------
    >>> from manykernels import survival_array
    >>> y = survival_array([True, False, True], [1.0, 2.0, 3.0])
    >>> concordance_index(y, [2.0, 0.0, 1.0])
    1.0
    """
    target = check_survival(y)
    risk = check_vector(risk, len(target), "risk")
    right = pairs = 0.0
    for i in np.flatnonzero(target["event"]):
        same_time = target["time"] == target["time"][i]
        later = (target["time"] > target["time"][i]) | (same_time & ~target["event"])
        others = risk[later & (target["stratum"] == target["stratum"][i])]
        right += float(np.sum(others < risk[i])) + 0.5 * float(np.sum(others == risk[i]))
        pairs += len(others)
    if not pairs:
        raise InvalidInputError("No two samples can be compared: there is no event before the time of another sample.")
    return right / pairs


def brier_score(y_train: Any, y: Any, survival: Any, times: Any) -> Array:
    """Return mean squared errors of survival probabilities at some times, weighted by the chance of being uncensored.

    Parameters
    ----------
    y_train : structured array of shape (n_train,)
        Events and times from which censoring is estimated (Kaplan and Meier).
    y : structured array of shape (n_samples,)
        What happened to the samples that were predicted.
    survival : array-like of shape (n_samples, n_times)
        Predicted probabilities of no event up to each time.
    times : array-like of shape (n_times,)
        Within the times of ``y_train``.

    Returns
    -------
    ndarray of shape (n_times,)
        0 is perfect, 0.25 is a constant probability of one half.

    Raises
    ------
    InvalidInputError
        If shapes differ, or nobody is uncensored up to some time.

    References
    ----------
    E. Graf, C. Schmoor, W. Sauerbrei, M. Schumacher, "Assessment and comparison of prognostic classification schemes
    for survival data", Statistics in Medicine 18 (1999).

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
    uncensored, at_times = _uncensored(train, target["time"]), _uncensored(train, at)
    early = target["event"][:, None] & (target["time"][:, None] <= at)
    late = target["time"][:, None] > at
    if (uncensored[early.any(axis=1)] <= 0).any() or (at_times <= 0).any():
        raise InvalidInputError(
            "By some of these times everybody in y_train is censored, so that no weight is known: ask for earlier ones."
        )
    with np.errstate(divide="ignore"):
        weights = np.where(early, 1.0 / uncensored[:, None], 0.0) + np.where(late, 1.0 / at_times, 0.0)
    weights = np.where(early | late, weights, 0.0)
    return np.asarray((weights * (late - guesses) ** 2).mean(axis=0))


def _uncensored(train: Array, times: Array) -> Array:
    """Return the Kaplan-Meier estimate of the chance that censoring comes later than each time.

    Events at a time come before the censoring at it.
    """
    steps = np.unique(train["time"][~train["event"]])
    censored = np.array([np.sum(~train["event"] & (train["time"] == t)) for t in steps], dtype=float)
    events = np.array([np.sum(train["event"] & (train["time"] == t)) for t in steps], dtype=float)
    at_risk = np.array([np.sum(train["time"] >= t) for t in steps], dtype=float) - events
    curve = np.r_[1.0, np.cumprod(1.0 - censored / np.maximum(at_risk, 1.0))]
    return curve[np.searchsorted(steps, times, side="right")]
