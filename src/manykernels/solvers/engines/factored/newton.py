"""Proximal Newton on the factors of a working set: exact sums over rows, Hessians from as many rows as they need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.grams.factored.base import CHUNK_ROWS
from manykernels.solvers.engines.factored.backfitting import backfitting_step
from manykernels.solvers.engines.factored.group_problem import GroupPenalty, GroupProblem
from manykernels.solvers.engines.factored.objective import FactoredObjective, Point, balance

Array = NDArray[Any]

RANK_LIMIT = 1500  # of dense Hessians; above, columns take turns
SAMPLE_ROWS = 20_000
SAMPLE_PER_RANK = 15
GROUP_TOL = 0.03  # of the violation at the start of a step
SLOW = 0.5  # a gap that falls by less than this factor asks for a better Hessian
SUFFICIENT = 1e-4
SMALLEST_STEP = 1e-3


@dataclass
class Fit:
    """A point, its slopes, the gap of the problem on its own factors, and the steps taken."""

    point: Point
    slopes: Array
    gap: float
    steps: int


def minimize(objective: FactoredObjective, point: Point, tol: float, max_steps: int) -> Fit:
    """Minimize until the gap on these factors is at most ``tol``, or no step decreases the objective.

    Parameters
    ----------
    objective : FactoredObjective
    point : Point
        Where to start; changed.
    tol : float
        Absolute gap.
    max_steps : int

    Returns
    -------
    Fit
    """
    n = objective.problem.n_samples
    rows = min(n, max(SAMPLE_ROWS, SAMPLE_PER_RANK * objective.rank))
    gap, best_dual = np.inf, -np.inf
    for step in range(max_steps + 1):
        slopes = objective.settle_intercept(point)
        rho = balance(-slopes) if objective.problem.fit_intercept else -slopes
        adjoint = objective.adjoint(rho)
        value = objective.value(point)
        best_dual = max(best_dual, objective.dual_value(rho, adjoint))
        last, gap = gap, value - best_dual
        if gap <= tol or step == max_steps:
            break
        if gap > SLOW * last:
            rows = min(n, 4 * rows)
        # Far from the kinks of a loss nothing bends; chords to them lead there.
        curvatures = (objective.bends, objective.majorizers)
        if not any(_advance(objective, point, slopes, -adjoint, value, rows, bend(point.z)) for bend in curvatures):
            break
    return Fit(point, slopes, gap, step)


def _advance(
    objective: FactoredObjective, point: Point, slopes: Array, gradient: Array, value: float, rows: int, bends: Array
) -> bool:
    """Take one step with a line search; return whether the objective decreased."""
    if not bends.any():
        return False
    if objective.rank > RANK_LIMIT:
        v, shift, change = backfitting_step(objective, point, slopes, bends)
    else:
        v, shift = _newton_target(objective, point, gradient, bends, rows)
        change = objective.scores(v - point.v) + shift
    before = objective.penalty.value(point.v)
    slope = float(slopes @ change) + objective.penalty.value(v) - before
    size = 1.0
    while slope < 0 and size >= SMALLEST_STEP:
        trial = Point(point.v + size * (v - point.v), point.b + size * shift, point.z + size * change)
        if objective.value(trial) <= value + SUFFICIENT * size * slope:
            if size == 1.0:
                trial.v = v  # keeps exact zeros
            point.v, point.b, point.z = trial.v, trial.b, trial.z
            return True
        size *= 0.5
    return False


def _newton_target(
    objective: FactoredObjective, point: Point, gradient: Array, bends: Array, rows: int
) -> tuple[Array, float]:
    """Return the coefficients and the shift of the intercept that minimize the quadratic model."""
    penalty, free = objective.penalty, objective.problem.fit_intercept
    H = sampled_hessian(objective, bends, rows, intercept=free)
    v = point.v
    if free:
        starts = np.concatenate([penalty.starts, [penalty.starts[-1] + 1]])
        penalty = GroupPenalty(starts, np.append(penalty.linear, 0.0), np.append(penalty.curvature, 0.0))
        v, gradient = np.append(v, 0.0), np.append(gradient, 0.0)
    target, _ = GroupProblem(H, penalty).solve(v, gradient, GROUP_TOL)
    return (target[:-1], float(target[-1])) if free else (target, 0.0)


def sampled_hessian(objective: FactoredObjective, bends: Array, rows: int, *, intercept: bool) -> Array:
    """Return ``Z' diag(bends) Z`` from a sample of the rows that bend, scaled to all, and a row for the intercept."""
    bent = np.flatnonzero(bends)
    n = len(bent)
    index = bent if rows >= n else bent[spread(n, rows)]
    size = objective.rank + intercept
    H = np.zeros((size, size))
    for start in range(0, len(index), CHUNK_ROWS):
        chosen = index[start : start + CHUNK_ROWS]
        parts = [operator.rows(chosen) for operator in objective.operators]
        if intercept:
            parts.append(np.ones((len(chosen), 1)))
        Z = np.hstack(parts)
        Z *= np.sqrt(bends[chosen])[:, None]
        H += Z.T @ Z
    if rows < n:
        total = float(bends[index].sum())
        H *= float(bends.sum()) / total if total > 0 else n / len(index)
    return H


def spread(n: int, size: int) -> Array:
    """Return ``size`` different rows, the same every time, without the period that evenly spaced ones may meet."""
    generator = np.random.default_rng(size)
    return np.sort(generator.choice(n, size=size, replace=False, shuffle=False))
