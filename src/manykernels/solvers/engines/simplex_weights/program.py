"""Quadratic programs on the simplex, by an active set: exact zeros and no other solver."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, LinAlgWarning, lstsq, solve

from manykernels.solvers.engines.simplex_weights.tuning import MANY, MOST_EXCHANGES, PROGRAM_ROUNDING, RIDGE

if TYPE_CHECKING:
    from manykernels.validation.arrays import Array


def minimize_on_simplex(hessian: Array, linear: Array, start: Array) -> Array:
    """Minimize ``linear'x + x'hessian x / 2`` over ``x >= 0``, ``sum x = 1``.

    A primal active-set method: solve for the free variables; go there, or as far as the first of them reaches zero;
    once there, free the variable whose multiplier is most negative.
    """
    size = max(float(hessian.diagonal().max()), float(np.abs(linear).max()))
    if size == 0:
        return start
    hessian = hessian + RIDGE * size * np.eye(linear.size)
    x = start if np.count_nonzero(start) <= MANY else _best_vertex(hessian, linear)
    free = x > 0
    for _ in range(MOST_EXCHANGES * linear.size):
        target, multiplier = _free_minimum(hessian, linear, free)
        x, free, blocked = _toward(x, target, free)
        if blocked:
            continue
        bent = hessian[:, free] @ x[free]
        slopes = np.where(free, 0.0, bent + linear - multiplier)
        worst = int(slopes.argmin())
        if slopes[worst] >= -PROGRAM_ROUNDING * (np.abs(linear).max() + np.abs(bent).max()):
            break
        free[worst] = True
    return x / x.sum()


def _best_vertex(hessian: Array, linear: Array) -> Array:
    x = np.zeros(linear.size)
    x[int((linear + 0.5 * hessian.diagonal()).argmin())] = 1.0
    return x


def _free_minimum(hessian: Array, linear: Array, free: Array) -> tuple[Array, float]:
    """Minimize over the free variables with unit sum, of any sign; return that and the multiplier of the sum."""
    size = int(free.sum())
    scale = float(hessian[free, free].mean())
    bordered = np.full((size + 1, size + 1), -scale)
    bordered[:size, :size], bordered[size, size] = hessian[np.ix_(free, free)], 0.0
    found = _solution(bordered, np.append(-linear[free], -scale))
    target = np.zeros(linear.size)
    target[free] = found[:size]
    return target, scale * float(found[size])


def _solution(matrix: Array, right: Array) -> Array:
    """Solve a symmetric system; where hundreds of equal rows leave no digits, return its smallest solution."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", LinAlgWarning)
        try:
            solution: Array = solve(matrix, right, assume_a="sym")
        except (LinAlgError, LinAlgWarning):
            solution = lstsq(matrix, right)[0]
    return solution


def _toward(x: Array, target: Array, free: Array) -> tuple[Array, Array, bool]:
    """Go to the target, or to the first variable that reaches zero on the way, which is then no longer free."""
    falling = np.flatnonzero(free & (target < 0))
    if falling.size == 0:
        return target, free, False
    shares = x[falling] / (x[falling] - target[falling])
    first = falling[int(shares.argmin())]
    moved = np.maximum(x + float(shares.min()) * (target - x), 0.0)
    moved[first] = 0.0
    kept = free.copy()
    kept[first] = False
    return moved, kept, True
