"""Models from dual coefficients that are nearly optimal, but whose scores are not yet accurate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import lstsq

if TYPE_CHECKING:
    from collections.abc import Iterator

    from manykernels.objective.problem import Problem
    from manykernels.solvers.solution import Model
    from manykernels.validation.arrays import Array

NEAR_AN_END = (1e-4, 1e-6, 1e-8)  # distances, relative to the largest coefficient, that may count as none
SMALLEST_SINGULAR = 1e-15  # relative to the largest one


def with_best_intercept(problem: Problem, rho: Array, d: Array) -> Model:
    """Return the model of these coefficients and weights with the intercept that minimizes its loss."""
    if not problem.fit_intercept:
        return rho, d, 0.0
    scores = problem.stack.apply(d, rho)
    return rho, d, problem.loss.best_intercept(problem.y, scores, problem.weight)


def refinements(problem: Problem, rho: Array, d: Array) -> Iterator[Array]:
    """Yield feasible coefficients near ``rho``: the nearest ones, and ones whose scores fit a piecewise linear loss.

    Where a conjugate is linear between the ends of its box, a coefficient inside tells its score exactly. Scores are
    ``sum_m d_m K_m rho``, which may be 1e6 times more sensitive than the dual value that the program maximizes; so
    coefficients close to an end are put there, and the others solve the linear system for their scores.
    """
    feasible = problem.feasible_dual(rho)
    yield feasible
    loss = problem.loss
    if not loss.piecewise_linear or not d.any():
        return
    gram = problem.stack.combine(d)
    for distance in NEAR_AN_END:
        yield _refined(problem, gram, feasible, distance * float(np.abs(feasible).max()))


def _refined(problem: Problem, gram: Array, rho: Array, distance: float) -> Array:
    ends = [*problem.dual_box, np.zeros_like(rho)] if problem.loss.kink > 0 else problem.dual_box
    snapped, free = rho.copy(), np.ones(rho.size, dtype=bool)
    for end in ends:
        near = np.abs(rho - end) <= distance
        snapped[near], free[near] = end[near], False
    scores = -problem.loss.conjugate_derivative(problem.y, rho / problem.weight)
    change = _solved(gram[np.ix_(free, free)], (scores - gram @ snapped)[free], -snapped.sum(), problem.fit_intercept)
    snapped[free] += change
    return problem.feasible_dual(snapped)


def _solved(matrix: Array, right: Array, total: float, border: bool) -> Array:
    """Return the smallest ``x`` with ``matrix x + b = right`` for some b and ``sum x = total``; no b without border."""
    size = right.size
    if not border:
        return lstsq(matrix, right, cond=SMALLEST_SINGULAR)[0] if size else right
    scale = float(matrix.diagonal().max(initial=0.0)) or 1.0
    bordered = np.full((size + 1, size + 1), scale)
    bordered[:size, :size], bordered[size, size] = matrix, 0.0
    return lstsq(bordered, np.append(right, scale * total), cond=SMALLEST_SINGULAR)[0][:size]
