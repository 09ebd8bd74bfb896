"""Proximal Newton on the factors of a working set: exact sums over rows, Hessians from as many rows as they need.

    minimize_{v, b}  P(v, b) = L(Z v + b) + Omega(||v_1||, ..., ||v_g||),      K_m = Z_m Z_m' + E_m

With the slopes ``g = grad L`` and the curvature ``H`` of the loss at the present scores, a step minimizes

    g'c + c'H c / 2 + Omega(||w_1||, ..., ||w_g||),      c = Z (w - v) + shift of b

on the Hessian ``[Z, 1]' H [Z, 1]`` (`group_problem`), or group by group over rows (`block_descent`), or column by
column (`backfitting`), whichever is predicted to cost least. It then goes from ``v`` toward ``w``, first the whole way,
then halves of it, until ``P`` falls by 1e-4 of what ``g'c + Omega(w) - Omega(v)`` promises. What is left is the gap of
the problem on these factors: with ``rho`` near ``-g`` of zero sum, and ``a <= 1`` that makes it feasible,

    P + L*(-a rho) + Omega*(a u),      u_m = ||Z_m' rho||

J. Lee, Y. Sun, M. Saunders, "Proximal Newton-type methods for minimizing composite functions", SIAM J. Optim. 24
(2014).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.objective.losses.curvature import SAMPLE_PER_RANK, Curvature, inner
from manykernels.solvers.factored.backfitting import backfitting_step, block_of
from manykernels.solvers.factored.block_descent import DescentModel, descends
from manykernels.solvers.factored.group_problem import GroupProblem
from manykernels.solvers.factored.objective import FactoredObjective, Point
from manykernels.solvers.factored.tuning import (
    DENSE_WORK,
    FIRST_DAMPING,
    GROUP_TOL,
    LEAST_DAMPING,
    LESS_DAMPING,
    RANK_LIMIT,
    SAMPLE_ROWS,
    SLOW,
    SMALL_DAMPING,
    SMALLEST_STEP,
    STALE,
    SUFFICIENT,
)

Array = NDArray[Any]


@dataclass
class NewtonFit:
    """A point, its slopes, the gap of the problem on its own factors, and the steps taken."""

    point: Point
    slopes: Array
    gap: float
    steps: int


@dataclass
class Hessians:
    """What is known of second derivatives: the rows they are summed over, and the models made from them."""

    rows: int
    dense: GroupProblem | None = None
    blocks: list[Any] | None = None
    descent: DescentModel | None = None
    descending: bool = True
    tol: float = 0.0  # gap that is asked for
    sweep_tol: float = 0.0  # to which groups take turns
    damping: float = FIRST_DAMPING
    damped: bool = False

    def forget(self) -> None:
        """Have the models made anew from the curvatures of the next step."""
        self.dense, self.blocks, self.descent = None, None, None

    @property
    def fresh(self) -> bool:
        """Whether the next step makes its models anew."""
        return self.dense is None and self.blocks is None and self.descent is None


def minimize(
    objective: FactoredObjective, point: Point, tol: float, max_steps: int, deadline: float = np.inf
) -> NewtonFit:
    """Minimize until the gap on these factors is at most ``tol``, or no step decreases the objective."""
    n = objective.problem.n_samples
    hessians = Hessians(first_rows(objective), tol=tol, sweep_tol=tol)
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
        if hessians.descent is not None and hessians.descent.enough:
            hessians.sweep_tol *= STALE  # less than it seemed
        elif hessians.descent is not None and gap > SLOW * last:
            hessians.descending = False  # groups that act on each other move together in a Newton step only
        if gap > STALE * last:
            hessians.forget()
        if gap > SLOW * last and not (hessians.damped and hessians.damping > SMALL_DAMPING):
            hessians.rows = min(n, 4 * hessians.rows)
        if not _advance_somehow(objective, point, slopes, -adjoint, value, hessians):
            break
    return NewtonFit(point, slopes, gap, step)


def first_rows(objective: FactoredObjective) -> int:
    """Return how many rows the first Hessian is summed over."""
    return min(objective.problem.n_samples, max(SAMPLE_ROWS, SAMPLE_PER_RANK * objective.rank))


def _advance_somehow(
    objective: FactoredObjective, point: Point, slopes: Array, gradient: Array, value: float, hessians: Hessians
) -> bool:
    """Take a step; if none decreases the objective, try fresh curvatures, then more and more of safe ones."""
    loss = objective.loss
    here = loss.curvature(point.z)
    if here.definite:
        tries = [loss.curvature] if hessians.fresh else [loss.curvature, loss.curvature]
        for curvature in (*tries, loss.curvature_bound):
            if _advance(objective, point, slopes, gradient, value, hessians, curvature(point.z)):
                return True
            hessians.forget()
        return False
    # Where few rows have curvature, a model on these alone may have no bound: all are given a little.
    safe, hessians.damped = loss.curvature_bound(point.z), True
    while True:  # at most the powers of LESS_DAMPING up to one
        hessians.forget()
        if size := _advance(objective, point, slopes, gradient, value, hessians, here.plus(hessians.damping, safe)):
            change = LESS_DAMPING if size == 1.0 else 1.0 / LESS_DAMPING if size < 0.1 else 1.0
            hessians.damping = min(max(hessians.damping * change, LEAST_DAMPING), 1.0)
            return True
        if hessians.damping >= 1.0:
            return False
        hessians.damping = min(hessians.damping / LESS_DAMPING, 1.0)


def _advance(
    objective: FactoredObjective,
    point: Point,
    slopes: Array,
    gradient: Array,
    value: float,
    hessians: Hessians,
    curvature: Curvature,
) -> float:
    """Take one step with a line search; return its size, 0 if the objective does not decrease."""
    if not curvature.any:
        return 0.0
    if hessians.descending and descends(objective, curvature, first_rows(objective)):
        if hessians.descent is None:
            hessians.descent = DescentModel(objective, curvature.diagonal)
        v, shift, change = hessians.descent.step(objective, point, slopes, hessians.sweep_tol)
    elif (
        objective.matrix_free or objective.rank > RANK_LIMIT or first_rows(objective) * objective.products > DENSE_WORK
    ):
        if hessians.blocks is None:
            hessians.blocks = [block_of(objective, slot, curvature) for slot in range(len(objective.operators))]
        v, shift, change = backfitting_step(objective, point, slopes, curvature, hessians.blocks, hessians.tol)
    else:
        if hessians.dense is None:
            hessians.dense = _quadratic(objective, curvature, hessians.rows)
        v, shift = _newton_target(objective, point, gradient, hessians.dense)
        change = objective.scores(v - point.v) + shift
    before = objective.penalty.value(point.v)
    slope = inner(slopes, change) + objective.penalty.value(v) - before
    size = 1.0
    if np.isfinite(curvature.reach):
        size = min(1.0, curvature.reach / max(float(np.abs(change).max()), 1e-300))
    smallest = SMALLEST_STEP * size
    while slope < 0 and size >= smallest:  # at most as many halvings as SMALLEST_STEP has
        trial = Point(point.v + size * (v - point.v), point.b + size * shift, point.z + size * change)
        if objective.value(trial) <= value + SUFFICIENT * size * slope:
            if size == 1.0:
                trial.v = v  # keeps exact zeros
            point.v, point.b, point.z = trial.v, trial.b, trial.z
            objective.settle(point)
            return size
        size *= 0.5
    return 0.0


def _quadratic(objective: FactoredObjective, curvature: Curvature, rows: int) -> GroupProblem:
    """Return the quadratic model with these curvatures, intercepts last, groups without a penalty."""
    if objective.constant:
        known = objective.known.under(curvature.diagonal)
        hessian = known.gram(objective.operators, objective.in_place, intercept=objective.n_free > 0)
    elif objective.in_place is not None and curvature.separable and rows >= objective.problem.n_samples:
        hessian = objective.in_place.gram(curvature.diagonal, intercept=objective.n_free > 0)
    else:
        hessian = curvature.gram(objective.operators, rows, intercept=objective.n_free > 0)
    return GroupProblem(hessian, objective.penalty.with_intercept(objective.n_free))


def _newton_target(
    objective: FactoredObjective, point: Point, gradient: Array, quadratic: GroupProblem
) -> tuple[Array, Any]:
    """Return the coefficients and the shift of intercepts that minimize the quadratic model."""
    none = np.zeros(objective.n_free)  # intercepts begin where their slopes are zero
    target, _ = quadratic.solve(np.append(point.v, none), np.append(gradient, none), GROUP_TOL)
    return target[: objective.rank], objective.intercepts(target[objective.rank :])
