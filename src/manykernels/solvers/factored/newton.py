"""Proximal Newton on the factors of a working set: exact sums over rows, Hessians from as many rows as they need."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.solvers.factored.backfitting import Block, backfitting_step
from manykernels.solvers.factored.block_descent import DescentModel, descends
from manykernels.solvers.factored.curvatures import Bends, SampleBends
from manykernels.solvers.factored.group_problem import GroupProblem
from manykernels.solvers.factored.objective import FactoredObjective, Point
from manykernels.solvers.factored.smoothing import (
    DENSE_WORK,
    FIRST_DAMPING,
    GROUP_TOL,
    LEAST_DAMPING,
    LESS_DAMPING,
    RANK_LIMIT,
    SAMPLE_PER_RANK,
    SAMPLE_ROWS,
    SLOW,
    SMALL_DAMPING,
    SMALLEST_STEP,
    STALE,
    SUFFICIENT,
)

Array = NDArray[Any]


@dataclass
class Fit:
    """A point, its slopes, the gap of the problem on its own factors, and the steps taken."""

    point: Point
    slopes: Array
    gap: float
    steps: int


@dataclass
class Curvature:
    """What is known of second derivatives: the rows they are summed over, and the models made from them."""

    rows: int
    dense: GroupProblem | None = None
    blocks: list[Block] | None = None
    descent: DescentModel | None = None
    descending: bool = True
    damping: float = FIRST_DAMPING
    damped: bool = False

    def forget(self) -> None:
        """Have the models made anew from the curvatures of the next step."""
        self.dense, self.blocks, self.descent = None, None, None

    @property
    def fresh(self) -> bool:
        """Whether the next step makes its models anew."""
        return self.dense is None and self.blocks is None and self.descent is None


def minimize(objective: FactoredObjective, point: Point, tol: float, max_steps: int, deadline: float = np.inf) -> Fit:
    """Minimize until the gap on these factors is at most ``tol``, or no step decreases the objective."""
    n = objective.problem.n_samples
    curvature = Curvature(first_rows(objective))
    gap, best_dual = np.inf, -np.inf
    for step in range(max_steps + 1):
        slopes = objective.settle_intercept(point)
        rho = objective.balanced(-slopes)
        adjoint = objective.adjoint(rho)
        value = objective.value(point)
        best_dual = max(best_dual, objective.dual_value(point.z, rho, adjoint))
        last, gap = gap, value - best_dual
        if gap <= tol or step == max_steps or time.perf_counter() > deadline:
            break
        if curvature.descent is not None and gap > SLOW * last:
            curvature.descending = False  # groups that act on each other move together in a Newton step only
        if gap > STALE * last:
            curvature.forget()
        if gap > SLOW * last and not (curvature.damped and curvature.damping > SMALL_DAMPING):
            curvature.rows = min(n, 4 * curvature.rows)
        if not _advance_somehow(objective, point, slopes, -adjoint, value, curvature):
            break
    return Fit(point, slopes, gap, step)


def first_rows(objective: FactoredObjective) -> int:
    """Return how many rows the first Hessian is summed over."""
    return min(objective.problem.n_samples, max(SAMPLE_ROWS, SAMPLE_PER_RANK * objective.rank))


def _advance_somehow(
    objective: FactoredObjective, point: Point, slopes: Array, gradient: Array, value: float, curvature: Curvature
) -> bool:
    """Take a step; if none decreases the objective, try fresh curvatures, then more and more of safe ones."""
    bent = objective.bends(point.z)
    if not isinstance(bent, SampleBends) or bent.everywhere:
        tries = [objective.bends] if curvature.fresh else [objective.bends, objective.bends]
        for bends in (*tries, objective.majorizers):
            if _advance(objective, point, slopes, gradient, value, curvature, bends(point.z)):
                return True
            curvature.forget()
        return False
    # Where few rows bend, a model on these alone may have no bound: all bend a little.
    safe, curvature.damped = objective.majorizers(point.z), True
    while True:
        curvature.forget()
        if size := _advance(objective, point, slopes, gradient, value, curvature, bent.plus(curvature.damping, safe)):
            change = LESS_DAMPING if size == 1.0 else 1.0 / LESS_DAMPING if size < 0.1 else 1.0
            curvature.damping = min(max(curvature.damping * change, LEAST_DAMPING), 1.0)
            return True
        if curvature.damping >= 1.0:
            return False
        curvature.damping = min(curvature.damping / LESS_DAMPING, 1.0)


def _advance(
    objective: FactoredObjective,
    point: Point,
    slopes: Array,
    gradient: Array,
    value: float,
    curvature: Curvature,
    bends: Bends,
) -> float:
    """Take one step with a line search; return its size, 0 if the objective does not decrease."""
    if not bends.any:
        return 0.0
    if curvature.descending and descends(objective, bends, first_rows(objective)):
        if curvature.descent is None:
            curvature.descent = DescentModel(objective, bends.diagonal)
        v, shift, change = curvature.descent.step(objective, point, slopes)
    elif objective.rank > RANK_LIMIT or first_rows(objective) * objective.products > DENSE_WORK:
        if curvature.blocks is None:
            curvature.blocks = [Block(objective, slot, bends) for slot in range(len(objective.operators))]
        v, shift, change = backfitting_step(objective, point, slopes, bends, curvature.blocks)
    else:
        if curvature.dense is None:
            curvature.dense = _quadratic(objective, bends, curvature.rows)
        v, shift = _newton_target(objective, point, gradient, curvature.dense)
        change = objective.scores(v - point.v) + objective.spread(shift)
    before = objective.penalty.value(point.v)
    slope = float(slopes @ change) + objective.penalty.value(v) - before
    size = 1.0
    if np.isfinite(bends.reach):
        size = min(1.0, bends.reach / max(float(np.abs(change).max()), 1e-300))
    smallest = SMALLEST_STEP * size
    while slope < 0 and size >= smallest:
        trial = Point(point.v + size * (v - point.v), point.b + size * shift, point.z + size * change)
        if objective.value(trial) <= value + SUFFICIENT * size * slope:
            if size == 1.0:
                trial.v = v  # keeps exact zeros
            point.v, point.b, point.z = trial.v, trial.b, trial.z
            objective.settle(point)
            return size
        size *= 0.5
    return 0.0


def _quadratic(objective: FactoredObjective, bends: Bends, rows: int) -> GroupProblem:
    """Return the quadratic model with these curvatures, intercepts last, groups without a penalty."""
    hessian = bends.gram(objective.operators, rows, intercept=objective.n_free > 0)
    return GroupProblem(hessian, objective.penalty.with_intercept(objective.n_free))


def _newton_target(
    objective: FactoredObjective, point: Point, gradient: Array, quadratic: GroupProblem
) -> tuple[Array, Any]:
    """Return the coefficients and the shift of intercepts that minimize the quadratic model."""
    none = np.zeros(objective.n_free)  # intercepts begin where their slopes are zero
    target, _ = quadratic.solve(np.append(point.v, none), np.append(gradient, none), GROUP_TOL)
    return target[: objective.rank], objective.intercepts(target[objective.rank :])
