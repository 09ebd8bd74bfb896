r"""Tail probabilities of sums of chi-squares, ``Q = sum_k w_k X_k`` with independent ``X_k`` of one degree of freedom.

With the cumulant function :math:`K(s) = -\tfrac12 \sum_k \log(1 - 2 w_k s)` and any real ``s > 0`` with finite ``K``,

.. math:: P(Q > q) = \frac{1}{2 \pi i} \int e^{K(z) - z q} \frac{dz}{z}

along a contour through ``s``; along a contour through ``s < 0``, minus 1. The contour passes the saddle point, ``K'(s)
= q``, in the direction of steepest descent: without cancellation for tiny probabilities, and the trapezoid rule after
``y = sinh t`` converges exponentially.

R. Davies, "Algorithm AS 155", Applied Statistics 29 (1980), for the inversion on the imaginary axis; S. Rice,
"Distribution of quadratic forms in normal random variables", SIAM Journal on Scientific and Statistical Computing 1
(1980), for the contour through the saddle point.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from manykernels.validation.arrays import Array

STEP, LAST = 1.0 / 16.0, 12.0  # of the trapezoid rule in t: errors of 1e-10 and less for 1 to 1,000 weights
VANISHED = 60.0  # logarithm of the largest integrand over one that is left out
NEGLIGIBLE = 1e-14  # weight beside the largest one below which it is left out
ALMOST = 1.0 - 1e-13  # of the way to a pole
FROM_POLE = 0.5  # distance of the contour from the pole at zero, in standard deviations of Q


def chi_squares_tail(q: float, weights: ArrayLike, counts: ArrayLike = 1.0) -> float:
    """Return the probability that a weighted sum of chi-squares is larger than ``q``.

    Parameters
    ----------
    q : float
    weights : array-like of shape (n,)
        Of any signs.
    counts : array-like of shape (n,), default=1
        Degrees of freedom of every.

    Returns
    -------
    float
        The relative error is about 1e-10, even for a probability of 1e-100.

    Examples
    --------
    >>> from scipy.stats import chi2
    >>> [f"{chi_squares_tail(q, np.ones(3)) / chi2.sf(q, 3):.8f}" for q in (1.0, 10.0, 100.0)]
    ['1.00000000', '1.00000000', '1.00000000']
    """
    w = np.asarray(weights, dtype=np.float64)
    n = np.broadcast_to(np.asarray(counts, dtype=np.float64), w.shape)
    largest = float(np.abs(w).max(initial=0.0, where=n > 0))
    if not largest > 0:
        return float(q < 0)
    kept = (np.abs(w) > NEGLIGIBLE * largest) & (n > 0)
    w, n, q = w[kept] / largest, n[kept], float(q) / largest
    if w.min() > 0 and q <= 0:
        return 1.0
    if w.max() < 0:
        return 0.0 if q >= 0 else 1.0 - chi_squares_tail(-q, -w, n)

    at = _saddle_point(w, n, q)
    bends = 2.0 * w / (1.0 - 2.0 * w * at)
    second, third = 0.5 * np.sum(n * bends**2), np.sum(n * bends**3)
    bend = float(third / (6.0 * second))
    bend = max(bend, 0.0) if q > 0 else min(bend, 0.0) if q < 0 else bend

    y = np.sinh(np.arange(0.0, LAST, STEP)) / np.sqrt(second)
    y = y[0.25 * np.log1p(np.outer(y, bends) ** 2) @ n < VANISHED]
    z = at + 1j * y + bend * y**2
    exponent = -0.5 * np.log(1.0 - 2.0 * np.outer(z, w)) @ n - z * q
    top = exponent[0].real
    values = (np.exp(exponent - top) / z * (1.0 - 2j * bend * y)).real * np.hypot(y, 1.0 / np.sqrt(second))
    values[0] /= 2.0
    area = float(values.sum()) * STEP / np.pi * float(np.exp(top))
    return min(max(area if at > 0 else 1.0 + area, 0.0), 1.0)


def cauchy_combination(p_values: ArrayLike) -> float:
    r"""Combine p-values under arbitrary dependence: ``T = mean tan((1/2 - p) pi)``.

    Y. Liu, J. Xie, "Cauchy combination test", Journal of the American Statistical Association 115 (2020).

    Examples
    --------
    >>> round(cauchy_combination([0.01, 0.01]), 6), cauchy_combination([1e-40, 0.5]) < 1e-39
    (0.01, True)
    """
    p = np.clip(np.asarray(p_values, dtype=np.float64), np.finfo(np.float64).tiny, 1.0 - 1e-16)
    statistic = float(np.mean(np.where(p < 1e-15, 1.0 / (np.pi * p), np.tan((0.5 - p) * np.pi))))
    return 1.0 / (np.pi * statistic) if statistic > 1e15 else 0.5 - float(np.arctan(statistic)) / np.pi


def false_discovery_rates(p_values: ArrayLike) -> Array:
    """Return the q-values of Benjamini and Hochberg: the smallest false discovery rate of a rejection.

    Examples
    --------
    >>> false_discovery_rates([0.01, 0.04, 0.03, 0.9]).round(4).tolist()
    [0.04, 0.0533, 0.0533, 0.9]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)[::-1]
    rates = np.minimum.accumulate(p[order] * len(p) / np.arange(len(p), 0, -1))
    found = np.empty(len(p))
    found[order] = np.minimum(rates, 1.0)
    return found


def _saddle_point(w: Array, n: Array, q: float) -> float:
    """Return where ``K'`` equals ``q``, but not at the pole at zero."""
    # K' increases from one pole to the other; of positive weights it is below q at the lower end, -n / (2 q).
    high = 0.5 / float(w.max()) * ALMOST
    low = 0.5 / float(w.min()) * ALMOST if w.min() < 0 else -0.5 * float(n.sum()) / q
    at = brentq(lambda s: float(np.sum(n * w / (1.0 - 2.0 * w * s))) - q, low, high, xtol=1e-14 * (high - low))
    apart = float(FROM_POLE / np.sqrt(2.0 * np.sum(n * w**2)))
    return min(apart, 0.5 * high) if abs(at) < apart else float(at)
