"""Proximal Newton on the factors of a working set: exact sums over rows, Hessians from as many rows as they need.

    minimize_{v, b}  P(v, b) = L(Z v + b) + Omega(||v_1||, ..., ||v_g||),      K_m = Z_m Z_m' + E_m

With the slopes ``g = grad L`` and the curvature ``H`` of the loss at the present scores, a step minimizes

    g'c + c'H c / 2 + Omega(||w_1||, ..., ||w_g||),      c = Z (w - v) + shift of b

on the Hessian ``[Z, 1]' H [Z, 1]`` (`quadratic_formed`), group by group over rows (`quadratic_rows`) or rows in bins
(`quadratic_bins`), or column by column with products (`quadratic_products`), by their sizes. A backtracking line search
from ``v`` to ``w`` ends once ``P`` falls by 1e-4 of ``g'c + Omega(w) - Omega(v)``. The gap of the problem on the
factors, with ``rho`` near ``-g`` of zero sum and the feasibility scale ``a <= 1``, is

    P + L*(-a rho) + Omega*(a u),      u_m = ||Z_m' rho||

J. Lee, Y. Sun, M. Saunders, "Proximal Newton-type methods for minimizing composite functions", SIAM J. Optim. 24
(2014).
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.objective.certificate import inner
from manykernels.objective.losses.curvature import SAMPLE_PER_RANK, Curvature
from manykernels.solvers.factored.certificate import correct
from manykernels.solvers.factored.objective import FactoredObjective, Point
from manykernels.solvers.factored.quadratic import Expansion, Quadratic
from manykernels.solvers.factored.quadratic_bins import BinQuadratic, predict_sweep_cost
from manykernels.solvers.factored.quadratic_formed import RANK_LIMIT, SAMPLE_ROWS, FormedQuadratic
from manykernels.solvers.factored.quadratic_products import ProductQuadratic
from manykernels.solvers.factored.quadratic_rows import RowQuadratic, descends
from manykernels.validation.arrays import Array

NEWTON_STEPS = 60  # on one working set
STALE = 0.2  # a gap that falls by less than this factor asks for Hessians of the present point
SLOW = 0.5  # a gap that falls by less than this factor asks for more rows in them,
MISSED = 0.1  # where along the last step they missed as much of the bend of all rows
ROUNDING = 4e-15  # of the objective, which tells nothing of a step
LESS_DAMPING = 0.25  # after a whole step; as much more after a shorter one


@dataclass
class NewtonFit:
    """A point, the slopes, the gap of the factored problem, and the steps taken."""

    point: Point
    slopes: Array
    gap: float
    steps: int
    rho: Array  # the best dual coefficients that steps met
    adjoint: Array  # the factors' products with them
    z: Array  # the scores behind them
    samples: Any = None  # an interior point of a loss with kinks, where it ended


@dataclass
class Hessians:
    """Cached second derivatives: the summed rows, and the quadratic."""

    rows: int
    model: Any = None
    descending: bool = True
    tol: float = 0.0  # gap to which groups take turns
    sweeps: int = 0  # over groups, so far
    damping: float = 0.03  # of the curvatures of chords to the kinks, added to those of the rows that have some
    damped: bool = False
    missed: float = np.inf  # share of the bend along the last step that the rows of a dense model do not see

    def forget(self) -> None:
        """Have the model made anew from the curvatures of the next step."""
        self.model = None


def minimize(
    objective: FactoredObjective, point: Point, tol: float, max_steps: int, deadline: float = np.inf
) -> NewtonFit:
    """Minimize until the gap on the factors is at most ``tol``, or no step decreases the objective."""
    most = objective.problem.n_samples
    if len(objective.loss.outputs) < objective.n_outputs:
        # So many rows for each coefficient of all outputs that act on each other, which are kept, leave a block an
        # error of a fifth: steps that gain less have other reasons.
        most = min(most, max(SAMPLE_ROWS, SAMPLE_PER_RANK * objective.rank))
    hessians = Hessians(first_rows(objective), tol=tol)
    gap, value, best, begun = np.inf, np.inf, -np.inf, max_steps > 0 and _take_first_step(objective, point, hessians)
    for step in range(int(begun), max_steps + 1):
        slopes = objective.settle_intercept(point)
        rho = objective.problem.bound.balance(-slopes)
        adjoint = objective.adjoint(rho)
        before, value = value, objective.value(point)
        if (proved := objective.dual_value(point.z, rho, adjoint)) > best or step == int(begun):
            best, dual = proved, (rho, adjoint, point.z)
        last, gap = gap, value - best
        if gap > tol and step > 0:
            found = correct(objective, point, rho, adjoint, value - 0.4 * tol)
            if found is not None and found[2] > best:
                rho, products, best, moved = found
                dual = rho, products, moved.z
                if (other := objective.value(moved)) < value:
                    value, slopes, adjoint = other, -rho, products
                    point.v, point.b, point.z, point.whole = moved.v, moved.b, moved.z, False
                gap = value - best
        if gap <= tol or step == max_steps or time.perf_counter() > deadline:
            break
        if value >= before and gap >= last:  # rounding let the last step pass, and neither side gained by it
            break
        if hessians.model is not None and hessians.model.enough:
            hessians.tol *= STALE  # less than it seemed
        elif hessians.model is not None and gap > SLOW * last and not hessians.model.ended:
            hessians.descending = False  # groups that act on each other move together in a Newton step only
        if gap > STALE * last:
            hessians.forget()
        # Far from the minimum, and with much damping, gaps fall slowly however many rows there are.
        few = hessians.missed > MISSED and not (hessians.damped and hessians.damping > 0.01)
        if few and gap > SLOW * last:
            hessians.rows = min(most, 4 * hessians.rows)
        if not _advance_somehow(objective, point, slopes, -adjoint, value, hessians):
            break
    if hessians.sweeps:  # which had not been enough where a Hessian followed
        objective.known.sweeps = (1 + isinstance(hessians.model, FormedQuadratic)) * hessians.sweeps
    return NewtonFit(point, slopes, gap, step, *dual)


def _take_first_step(objective: FactoredObjective, point: Point, hessians: Hessians) -> bool:
    """Take the first step before the gap is known, for sweeps without products of all factors.

    The gap would say first whether curvatures are those of the point, which does not matter where constant.
    """
    if not objective.constant:
        return False
    curvature = objective.loss.curvature(point.z)
    if not (curvature.any and descends(objective, curvature, first_rows(objective))):
        return False
    slopes = objective.settle_intercept(point)
    return _advance(objective, point, slopes, None, objective.value(point), hessians, curvature) > 0


def first_rows(objective: FactoredObjective) -> int:
    """Return how many rows the first Hessian is summed over: for every coefficient of a block, a single output's."""
    return min(objective.problem.n_samples, max(SAMPLE_ROWS, SAMPLE_PER_RANK * objective.rank // objective.n_outputs))


def avoids_hessian(objective: FactoredObjective) -> bool:
    """Whether a Hessian would be too large, or cost too much."""
    work = first_rows(objective) * objective.products
    return objective.matrix_free or objective.order > RANK_LIMIT or work > 6e10


def prefers_bins(objective: FactoredObjective, rows: int) -> bool:
    """Return True if sweeps over rows in bins take fewer products than a Hessian summed over so many rows."""
    return predict_sweep_cost(objective) < rows * objective.products


def _advance_somehow(
    objective: FactoredObjective, point: Point, slopes: Array, gradient: Array, value: float, hessians: Hessians
) -> bool:
    """Take a step; without decrease, try fresh curvatures, then increasingly safe ones."""
    loss = objective.loss
    here = loss.curvature(point.z)
    if here.definite:
        tries = [loss.curvature] if hessians.model is None else [loss.curvature, loss.curvature]
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
            hessians.damping = min(max(hessians.damping * change, 1e-3), 1.0)
            return True
        if hessians.damping >= 1.0:
            return False
        hessians.damping = min(hessians.damping / LESS_DAMPING, 1.0)


def _advance(
    objective: FactoredObjective,
    point: Point,
    slopes: Array,
    gradient: Array | None,
    value: float,
    hessians: Hessians,
    curvature: Curvature,
) -> float:
    """Take a single step with a line search; return the size, 0 if the objective does not decrease.

    Sweeps over groups need no ``gradient``.
    """
    if not curvature.any:
        return 0.0
    kind = kind_of(objective, curvature, hessians)
    if gradient is None and kind is not RowQuadratic:
        return 0.0
    if not isinstance(hessians.model, kind):
        hessians.model = kind.create(objective, curvature, hessians.rows)
    model = hessians.model
    here = Expansion(objective, point, slopes, gradient, curvature)
    v, shift, change = model.step(here, hessians.tol)
    hessians.sweeps += model.sweeps
    hessians.missed = curvature.square(change) / model.bend - 1.0 if model.bend > 0.0 else np.inf
    # Where single precision does, so do differences of scores, and points keep those of their coefficients.
    whole = objective.known.single and kind.from_coefficients
    slope = inner(slopes, change) + objective.penalty.value(v) - objective.penalty.value(point.v)
    size = 1.0
    if np.isfinite(curvature.reach):
        size = min(1.0, curvature.reach / max(float(np.abs(change).max()), 1e-300))
    size = _search_line(objective, point, (v, shift, change), value, slope, size)
    if size > 0.0:
        point.whole = whole and size == 1.0
        objective.settle(point)
    return size


def _search_line(
    objective: FactoredObjective, point: Point, step: tuple[Array, Any, Array], value: float, slope: float, size: float
) -> float:
    """Move the point by halvings of ``size`` until the objective decreases; return the size, 0 without a decrease."""
    (v, shift, change), smallest = step, 1e-3 * size
    # Where all that a step promises is less than rounding of the value, slopes may gain by it all the same.
    room = ROUNDING * abs(value) if abs(slope) <= ROUNDING * abs(value) else 0.0
    while slope < room and size >= smallest:  # at most ten halvings
        trial = Point(point.v + size * (v - point.v), point.b + size * shift, point.z + size * change)
        if objective.value(trial) <= value + 1e-4 * size * slope + room:
            if size == 1.0:
                trial.v = v  # keeps exact zeros
            point.v, point.b, point.z = trial.v, trial.b, trial.z
            return size
        size *= 0.5
    return 0.0


def kind_of(objective: FactoredObjective, curvature: Curvature, hessians: Hessians) -> type[Quadratic]:
    """Return the kind of quadratic for the next step."""
    if hessians.descending and descends(objective, curvature, first_rows(objective), hessians.sweeps):
        return RowQuadratic
    if hessians.descending and prefers_bins(objective, hessians.rows):
        return BinQuadratic
    return ProductQuadratic if avoids_hessian(objective) else FormedQuadratic
