"""Citi's own iterations for the two sub-problems of the elastic-net ball, as published (misprints corrected).

The library solves both by `elastic_net_reciprocals` and `elastic_net_linear`, which do not slow down; these are here
to reproduce the paper and to check the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manykernels.exceptions import InvalidInputError
from manykernels.objective.regularizers.elastic_net_ball import elastic_net_scale
from manykernels.validation.arrays import check_count, check_nonnegative_vector, check_positive

__all__ = ["ReciprocalsResult", "linear_iterations", "wsr_iterations"]

Array = NDArray[Any]
SWITCHING_BELOW = 0.25  # of eta: (13a) then overshoots, and (21) alternates with it


@dataclass(frozen=True, eq=False)
class ReciprocalsResult:
    """The answer of `wsr_iterations`."""

    theta: Array  # ndarray of shape (Q,): A point on the boundary of the set
    n_iter: int  # updates (13a) and (21) done
    excess: float  # s/g - 1 at the last (13a) step: the objective at theta is within that factor of the optimum


def wsr_iterations(
    beta: ArrayLike, eta: float, start: ArrayLike | None = None, *, tol: float = 1e-12, max_iter: int = 10_000
) -> ReciprocalsResult:
    """Minimize ``sum_k beta_k / theta_k`` over the elastic-net ball by Citi's Algorithm 2.

    The ball is ``eta ||theta||_1 + (1 - eta) ||theta||_2^2 <= 1, theta >= 0``. With ``q_i = ds/dx_i`` of the norm ``s``
    whose unit ball is the set, ``x_i <- sqrt(beta_i / q_i)`` (13a); for ``eta < 0.25`` every other step is
    ``x_i <- (x_i beta_i / q_i)^(1/3)`` (21). The stop ``s/g - 1 <= tol``, ``g = sum beta_i / x_i``, proves the
    accuracy, but only directly after a (13a) step.

    References
    ----------
    L. Citi, "A simple yet efficient algorithm for multiple kernel learning under elastic-net constraints", 2015,
    Algorithm 2, equations (13) and (21).
    """
    values = check_nonnegative_vector(beta, None, "beta")
    x = _start(values, start)
    eta = check_positive(eta, "eta", allow_zero=True, upper=1.0)
    tol, max_iter = check_positive(tol, "tol"), check_count(max_iter, "max_iter")
    theta = np.zeros(values.size)
    if not values.any():
        return ReciprocalsResult(theta, 0, 0.0)
    values = values / values.max()
    used = values > 0  # after the division: what vanishes in it would be divided by itself
    theta[used], n_iter, excess = _iterate(values[used], eta, x[used] / x[used].max(), tol, max_iter)
    return ReciprocalsResult(theta, n_iter, excess)


def _start(beta: Array, start: ArrayLike | None) -> Array:
    if start is None:
        return np.ones(beta.size)
    x = check_nonnegative_vector(start, beta.size, "start")
    stuck = np.flatnonzero((x == 0) & (beta > 0))
    if stuck.size:
        raise InvalidInputError(
            f"start must be positive wherever beta is, but entry {stuck[0]} is 0. Give it a small positive number."
        )
    return x


def _iterate(beta: Array, eta: float, x: Array, tol: float, max_iter: int) -> tuple[Array, int, float]:
    excess = np.inf
    for iteration in range(1, max_iter + 1):
        if eta < SWITCHING_BELOW and iteration % 2 == 0:
            x = np.cbrt(x * beta / _slope(x, eta))
            continue
        x = np.sqrt(beta / _slope(x, eta))
        scale = elastic_net_scale(x, eta)
        excess = scale / float(np.sum(beta / x)) - 1.0
        if excess <= tol:
            break
    return x / elastic_net_scale(x, eta), iteration, excess


def _slope(x: Array, eta: float) -> Array:
    """Gradient of the norm ``s``, (13b)."""
    total = float(x.sum())
    root = float(np.hypot(eta / 2 * total, np.sqrt(1 - eta) * np.linalg.norm(x)))
    return eta / 2 + ((eta / 2) ** 2 * total + (1 - eta) * x) / root


def linear_iterations(u: ArrayLike, eta: float) -> Array:
    """Maximize ``theta'u`` over the elastic-net ball by Citi's Algorithm 3.

    With ``d = eta / (2 - 2 eta)`` the set is the positive part of a ball about ``-d``: the farthest point in the
    direction ``u`` is taken and entries found negative are dropped, until none is. Near ``eta = 1`` the subtraction of
    ``d`` cancels, so the result is put back on the boundary.

    References
    ----------
    L. Citi, 2015, Algorithm 3 and equation (29), with ``|Z|`` read as the number of entries outside ``Z``.
    """
    values = check_nonnegative_vector(u, None, "u")
    eta = check_positive(eta, "eta", allow_zero=True, upper=1.0)
    if not values.any():
        return np.zeros(values.size)
    if eta == 1:
        return np.asarray(np.arange(values.size) == np.argmax(values), dtype=np.float64)
    return _drop_negative(values / values.max(), eta / (2 - 2 * eta), eta)


def _drop_negative(u: Array, shift: float, eta: float) -> Array:
    kept = u > 0
    while True:  # at most one turn an entry
        radius = np.sqrt(kept.sum() * shift**2 + 2 * shift + 1)
        theta = np.where(kept, radius * u / np.linalg.norm(u[kept]) - shift, 0.0)
        if (theta >= 0).all() or kept.sum() == 1:
            theta = np.maximum(theta, 0.0)
            return np.asarray(theta / elastic_net_scale(theta, eta))
        kept &= theta >= 0
