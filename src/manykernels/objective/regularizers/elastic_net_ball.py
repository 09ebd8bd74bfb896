"""The two exact sub-problems of the set ``eta ||theta||_1 + (1 - eta) ||theta||_2^2 <= 1, theta >= 0`` (Citi)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from manykernels.validation.arrays import check_nonnegative_vector, check_positive, check_vector

__all__ = [
    "elastic_net_linear",
    "elastic_net_reciprocals",
    "elastic_net_scale",
    "linear_maximizer",
    "shifted_reciprocals",
]

Array = NDArray[Any]
START_POWER = 0.8  # between theta ~ t of the simplex and theta ~ t^(2/3) of the 2-norm ball
MOST_STEPS = 60
MOST_DOUBLINGS = 16  # of a bracket of logarithms: the range of float64 takes eight
LAST_STEP = 1e-7  # change of the logarithms after which the next one would be below rounding


def elastic_net_scale(theta: Array, eta: float) -> float:
    """Return ``s`` such that ``theta / s`` is on the boundary of the set."""
    half = 0.5 * eta * float(np.sum(theta))
    return half + float(np.hypot(half, np.sqrt(1.0 - eta) * np.linalg.norm(theta)))


def elastic_net_linear(u: ArrayLike, eta: float) -> Array:
    """Maximize ``theta'u`` over the set (the problem of Citi's Algorithm 3), in closed form after one sort.

    ``max_theta theta'u`` subject to ``eta ||theta||_1 + (1 - eta) ||theta||_2^2 <= 1, theta >= 0``. With multiplier
    ``1/v``, ``theta_i = (v u_i - eta)_+ / (2 (1 - eta))`` and, if k entries are positive,
    ``v^2 = (4 (1 - eta) + k eta^2) / sum_k u^2``.

    A negative entry of ``u`` gets zero weight like an entry of zero: lowering ``theta_i`` to 0 raises ``theta_i u_i``
    and leaves more room to the others, since the constraint grows in every entry.

    Parameters
    ----------
    u : array_like of shape (M,)
        Objective; finite numbers.
    eta : float
        Between 0 (2-norm ball) and 1 (simplex).

    Returns
    -------
    ndarray of shape (M,), float64
        The maximizer, on the boundary of the set; zero if no entry of ``u`` is positive. At ``eta = 1`` only the
        first of the largest entries has weight.

    Raises
    ------
    InvalidInputError
        If ``u`` is no vector of finite numbers, or ``eta`` is not between 0 and 1.

    See Also
    --------
    elastic_net_reciprocals : the other sub-problem.
    manykernels.objective.regularizers.elastic_net_iterations.linear_iterations : Citi's own algorithm.

    Notes
    -----
    The subtraction ``v u_i - eta`` cancels as eta tends to 1, so it is rewritten with the differences
    ``u_max^2 - u_i^2``, which are computed without cancellation.

    References
    ----------
    L. Citi, "A simple yet efficient algorithm for multiple kernel learning under elastic-net constraints", 2015,
    Algorithm 3.

    Examples
    --------
    >>> from manykernels.objective import elastic_net_linear
    >>> elastic_net_linear([3.0, 4.0], 0.0).round(12).tolist()
    [0.6, 0.8]
    >>> elastic_net_linear([-1.0, 2.0], 0.5).tolist()
    [0.0, 1.0]
    """
    eta = check_positive(eta, "eta", allow_zero=True, upper=1.0)
    return linear_maximizer(np.maximum(check_vector(u, None, "u"), 0.0), eta)


def linear_maximizer(u: Array, eta: float) -> Array:
    """Return `elastic_net_linear` without its checks, for loops that know their input."""
    theta = np.zeros(u.shape)
    largest = float(np.max(u, initial=0.0))
    if largest == 0:
        return theta
    if eta == 1:
        theta[np.argmax(u)] = 1.0
        return theta
    order = np.argsort(-u, kind="stable")
    theta[order] = _linear_sorted(u[order] / largest, eta)
    return theta / elastic_net_scale(theta, eta)


def _linear_sorted(u: Array, eta: float) -> Array:
    """Maximizer, up to scale, for decreasing ``u`` with first entry 1."""
    gaps = (1.0 - u) * (1.0 + u)
    counts = np.arange(1, u.size + 1)
    # Positive exactly where the last of k entries is positive when k are active.
    excess = 4.0 * (1.0 - eta) * u**2 + eta**2 * (np.cumsum(gaps) - counts * gaps)
    k = int(np.flatnonzero(excess > 0)[-1]) + 1
    squares, active = float(np.sum(u[:k] ** 2)), u[:k]
    v = np.sqrt((4.0 * (1.0 - eta) + k * eta**2) / squares)
    numerator = 4.0 * (1.0 - eta) * active**2 + eta**2 * (np.sum(gaps[:k]) - k * gaps[:k])
    theta = np.zeros(u.shape)
    theta[:k] = np.maximum(numerator, 0.0) / (squares * (v * active + eta) * (1.0 - eta))
    return theta


def elastic_net_reciprocals(beta: ArrayLike, eta: float) -> Array:
    """Minimize ``sum_m beta_m / theta_m`` over the set (the problem of Citi's Algorithm 2).

    ``min_theta sum_m beta_m / theta_m`` subject to ``eta ||theta||_1 + (1 - eta) ||theta||_2^2 <= 1, theta >= 0``, the
    weights of kernels whose functions have the squared norms ``beta``.

    Parameters
    ----------
    beta : array_like of shape (M,)
        Non-negative numerators; a zero gets a zero weight (and counts zero in the sum). A negative numerator has no
        minimum: its quotient falls without bound as its weight tends to 0.
    eta : float
        Between 0 (2-norm ball) and 1 (simplex).

    Returns
    -------
    ndarray of shape (M,), float64
        The minimizer, on the boundary of the set; zero if ``beta`` is zero.

    Raises
    ------
    InvalidInputError
        If ``beta`` is no vector of finite non-negative numbers, or ``eta`` is not between 0 and 1.

    See Also
    --------
    elastic_net_linear : the other sub-problem.
    manykernels.objective.regularizers.elastic_net_iterations.wsr_iterations : Citi's own algorithm.

    Notes
    -----
    The optimality conditions ``theta^2 (eta + 2 (1 - eta) theta) = nu beta`` and the constraint are solved together by
    Newton's method in the logarithms of ``theta`` and ``nu``: each left side is convex there, with a slope between 2
    and 3, so that a handful of steps reaches the last digit for entries of any size.

    References
    ----------
    L. Citi, "A simple yet efficient algorithm for multiple kernel learning under elastic-net constraints", 2015,
    Algorithm 2.

    Examples
    --------
    >>> from manykernels.objective import elastic_net_reciprocals
    >>> elastic_net_reciprocals([1.0, 9.0, 0.0], 1.0).round(12).tolist()
    [0.25, 0.75, 0.0]
    """
    eta = check_positive(eta, "eta", allow_zero=True, upper=1.0)
    return shifted_reciprocals(np.sqrt(check_nonnegative_vector(beta, None, "beta")), 0.0, eta)


def shifted_reciprocals(t: Array, shift: float, eta: float) -> Array:
    """Minimize ``sum_m t_m^2 / (theta_m + shift)`` over the set; shift 0 is ``elastic_net_reciprocals``, unchecked."""
    theta = np.zeros(t.shape)
    positive = t > 0
    if not positive.any():
        return theta
    t = t[positive] / t.max()
    if t.size == 1:
        theta[positive] = 1.0
        return theta
    if shift == 0:
        theta[positive] = _reciprocals(np.log(t), eta)
        return theta / elastic_net_scale(theta, eta)

    def excess(log_nu: float) -> float:
        return elastic_net_scale(_entries(t, np.exp(log_nu), shift, eta), eta) - 1.0

    # At nu = (1 + shift)^2 (eta + 2 (1 - eta)) the largest entry alone reaches 1, the boundary.
    upper = 2.0 * np.log1p(shift) + np.log(2.0 - eta)
    lower = upper - 1.0
    for _ in range(MOST_DOUBLINGS):
        if not excess(lower) > 0:
            break
        lower -= 2.0 * (upper - lower)
    root = brentq(excess, lower, upper, xtol=1e-15, rtol=1e-15, maxiter=500) if excess(upper) > 0 else upper
    theta[positive] = _entries(t, np.exp(root), shift, eta)
    return theta / elastic_net_scale(theta, eta)


def _reciprocals(log_t: Array, eta: float) -> Array:
    """Solve ``2 log theta + log(eta + 2 (1 - eta) theta) = log nu + 2 log t`` and the constraint by Newton's method.

    A step changes ``log theta`` by ``(r + d) / g'`` with ``r`` the residuals, ``g'`` the slopes of the left sides and
    ``d`` the change of ``log nu``, which makes the linearized constraint hold.
    """
    theta = np.exp(START_POWER * log_t)
    theta /= elastic_net_scale(theta, eta)
    right = 2.0 * log_t
    log_nu = float(2.0 * np.log(theta.max()) + np.log(eta + 2.0 * (1.0 - eta) * theta.max()))
    log_theta = np.log(theta)
    for _ in range(MOST_STEPS):
        quadratic = 2.0 * (1.0 - eta) * theta
        linear = eta + quadratic
        inverse_slopes = linear / (3.0 * linear - eta)
        change = (log_nu + right - 2.0 * log_theta - np.log(linear)) * inverse_slopes
        value = float(theta @ (linear + eta)) / 2.0
        gradient = theta * linear
        shift = -(value * np.log(value) + float(gradient @ change)) / float(gradient @ inverse_slopes)
        change += shift * inverse_slopes
        log_nu += shift
        log_theta += change
        theta = np.exp(log_theta)
        if np.abs(change).max() <= LAST_STEP:
            break
    return theta


def _entries(t: Array, nu: float, shift: float, eta: float) -> Array:
    """Solve ``(theta + shift)^2 (eta + 2 (1 - eta) theta) = nu t^2`` for ``theta >= 0``, 0 where there is no root.

    The left side is convex and increasing, so Newton's method from above decreases to the root.
    """
    roots = np.sqrt(nu) * t
    theta = _start(roots, shift, eta)
    for _ in range(60):
        linear = eta + 2.0 * (1.0 - eta) * theta
        base = theta + shift
        residual = base**2 * linear - roots**2
        slope = 2.0 * base * linear + 2.0 * (1.0 - eta) * base**2
        step = np.divide(residual, slope, out=np.zeros(t.shape), where=slope > 0)
        theta = np.maximum(theta - step, 0.0)
        if np.all(np.abs(step) <= 1e-15 * theta):
            break
    return theta


def _start(roots: Array, shift: float, eta: float) -> Array:
    """Upper bound of every root: each factor of the left side alone."""
    quadratic = np.maximum(roots / np.sqrt(eta) - shift, 0.0) if eta > 0 else np.full(roots.shape, np.inf)
    cubic = np.cbrt(roots**2 / (2.0 * (1.0 - eta))) if eta < 1 else np.full(roots.shape, np.inf)
    return np.minimum(quadratic, cubic)
