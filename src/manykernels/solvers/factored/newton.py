"""Proximal Newton on the factors of a working set: exact sums over rows, Hessians from as many rows as they need.

    minimize_{v, b}  P(v, b) = L(Z v + b) + Omega(||v_1||, ..., ||v_g||),      K_m = Z_m Z_m' + E_m

With the slopes ``g = grad L`` and the curvature ``H`` of the loss at the present scores, a step minimizes

    g'c + c'H c / 2 + Omega(||w_1||, ..., ||w_g||),      c = Z (w - v) + shift of b

on the Hessian ``[Z, 1]' H [Z, 1]`` (`group_problem`), or group by group over rows (`block_descent`; `rounded_descent`
over rows in bins), or column by column (`backfitting_step`), whichever is predicted to cost least. It then
goes from ``v`` toward ``w``, first the whole way, then halves of it, until ``P`` falls by 1e-4 of what
``g'c + Omega(w) - Omega(v)`` promises. What is left is the gap of the problem on these factors: with ``rho`` near
``-g`` of zero sum, and ``a <= 1`` that makes it feasible,

    P + L*(-a rho) + Omega*(a u),      u_m = ||Z_m' rho||

J. Lee, Y. Sun, M. Saunders, "Proximal Newton-type methods for minimizing composite functions", SIAM J. Optim. 24
(2014).

Column after column is for ranks whose Hessian would not fit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manykernels.grams.factored.base import FactorOperator
from manykernels.grams.rows.vectors import held
from manykernels.objective.certificate import inner
from manykernels.objective.losses.curvature import SAMPLE_PER_RANK, Curvature
from manykernels.solvers.factored.block_descent import PRODUCT_COST, DescentModel, descends
from manykernels.solvers.factored.certificate import correctable, corrected
from manykernels.solvers.factored.group_penalty import GroupPenalty, PenaltyCurve
from manykernels.solvers.factored.group_problem import GroupProblem
from manykernels.solvers.factored.line_search import line_minimum
from manykernels.solvers.factored.objective import FactoredObjective, Point, is_matrix_free
from manykernels.solvers.factored.rounded_descent import RoundedModel, rounded_products
from manykernels.solvers.factored.tuning import (
    BLOCK_PER_RANK,
    BLOCK_ROWS,
    CORRECTED,
    CYCLES,
    DENSE_WORK,
    FIRST_DAMPING,
    GRADIENTS_LEFT,
    GROUP_TOL,
    LEAST_DAMPING,
    LESS_DAMPING,
    MAX_GRADIENTS,
    MISSED,
    OVERSHOOT,
    POWER_MARGIN,
    POWER_STEPS,
    PRECONDITIONER_SHARE,
    RANK_LIMIT,
    RESIDUAL,
    ROUNDING,
    SAMPLE_ROWS,
    SLOW,
    SMALL_DAMPING,
    SMALLEST_STEP,
    STALE,
    STEP_SHARE,
    SUFFICIENT,
    SWEEP_TOL,
    SWEEPS_A_CYCLE,
)
from manykernels.validation.arrays import Array

# Conjugate gradients on the groups that are not zero: columns that act on each other move together.


def conjugate_step(
    objective: FactoredObjective, v: Array, slope: Array, curvature: Curvature, inverse: Any, tol: float
) -> tuple[Array, Any, Array, float]:
    """Move the groups that are not zero toward the minimum of the quadratic, whose slopes at ``v`` are given.

    Solves ``(Z'DZ + Omega'') d = -gradient`` to a part of its first residual, or to a gap of ``tol``; ``inverse`` of
    columns that take turns preconditions it. The intercepts are last. Returns also the gap that the residual leaves,
    about: dual coefficients are scaled by what the worst group is above its norm, ``|r_m| / |g_m|`` of
    ``Omega'(v) = g``.
    """
    curve = PenaltyCurve.at(objective.penalty, v)
    rank, none, totals = objective.rank, np.zeros(objective.n_free), objective.totals(curvature.diagonal)
    totals[totals == 0] = np.inf

    def precondition(r: Array) -> Array:
        return np.concatenate([inverse(r[:rank]), r[rank:] / totals])

    def spread(d: Array) -> Array:
        return objective.scores(d[:rank]) + objective.intercepts(d[rank:])

    alive = [bool(part.any()) for part in objective.split(curve.free)]

    def gather(rows: Array) -> Array:
        parts = [
            operator.adjoint(rows) if own else np.zeros(size)
            for operator, own, size in zip(objective.operators, alive, np.diff(objective.ends), strict=True)
        ]
        return np.append(np.concatenate(parts) * curve.free, objective.totals(rows))

    pulls, sizes = objective.penalty.norms(curve.gradient), objective.penalty.norms(v)
    pulled, whole = pulls > 0, float(pulls @ sizes)
    if objective.penalty.bare.any():  # nothing is scaled to where these residuals would be allowed
        whole = np.inf

    def left(r: Array) -> float:
        own = objective.penalty.norms(r[:rank])[pulled] / pulls[pulled]
        return whole * float(own.max(initial=0.0)) if own.size else np.inf

    r = -gather(slope) - np.append(curve.gradient, none)
    x, image = np.zeros_like(r), np.zeros_like(slope)
    z = precondition(r)
    d, size = z.copy(), float(r @ z)
    first = size
    for _ in range(MAX_GRADIENTS):
        if not size > RESIDUAL**2 * first or left(r) <= tol:
            break
        ahead = spread(d)
        product = gather(curvature.product(ahead)) + np.append(curve.product(d[:rank]), none)
        length = size / float(d @ product)
        x, image, r = x + length * d, image + length * ahead, r - length * product
        z = precondition(r)
        size, last = float(r @ z), size
        d = z + size / last * d
    along = line_minimum(objective.penalty, v, x[:rank], inner(slope, image), curvature.square(image))
    return along * x[:rank], along * objective.intercepts(x[rank:]), along * image, left(r)


def backfitting_step(
    objective: FactoredObjective, point: Point, slopes: Array, curvature: Curvature, blocks: list[Block], tol: float
) -> tuple[Array, Any, Array]:
    """Minimize the quadratic model at a point by sweeps over columns, and steps of all that are not zero.

    To a gap of about ``tol``, or as far as so many sweeps come.
    """
    sweeps = Sweeps(objective, point.v, slopes, curvature, blocks)
    problems = [block.problem for block in blocks]
    first = 0.0
    for _ in range(CYCLES):
        for number in range(SWEEPS_A_CYCLE):
            moved = sweeps.run(everything=number == 0)
            first = max(first, moved)
        if moved <= SWEEP_TOL**2 * first:
            break
        if objective.penalty.coned:  # the step of all columns knows of no cones
            continue
        inverses = [p.preconditioner(part) for p, part in zip(problems, sweeps.parts, strict=True)]

        def inverse(r: Array, inverses: list[Callable[[Array], Array]] = inverses) -> Array:
            return np.concatenate([own(part) for own, part in zip(inverses, objective.split(r), strict=True)])

        here = np.concatenate(sweeps.parts)
        *step, left = conjugate_step(objective, here, sweeps.slope, curvature, inverse, STEP_SHARE * tol)
        sweeps.move(*step)
        if left <= STEP_SHARE * tol:
            break
    sweeps.run()
    return np.concatenate(sweeps.parts), sweeps.shift, sweeps.change


class Sweeps:
    """Coefficients, intercepts and scores of one Newton step's quadratic while columns take turns."""

    def __init__(
        self, objective: FactoredObjective, v: Array, slopes: Array, curvature: Curvature, blocks: list[Block]
    ) -> None:
        self.objective, self.curvature, self.blocks = objective, curvature, blocks
        self.parts = [part.copy() for part in objective.split(v)]
        self.slope, self.change = slopes.copy(), np.zeros_like(slopes)
        self.shift: Array | float = 0.0
        self._totals = objective.totals(curvature.diagonal)

    def run(self, *, everything: bool = True) -> float:
        """Let every column take its turn, or those not at zero; return the square of how far coefficients moved."""
        penalty, moved = self.objective.penalty, 0.0
        joint, norms = penalty.coupled, penalty.norms(np.concatenate(self.parts))
        for slot, block in enumerate(self.blocks):
            old = self.parts[slot]
            if not (everything or old.any()):
                continue
            new = block.minimize(old, self.slope, penalty.rest(norms, *block.span) if joint else None)
            norms[slice(*block.span)] = block.problem.penalty.norms(new)
            step = new - old
            if step.any():
                image, shift = np.zeros_like(self.slope), 0.0
                block.operator.add_scores(step, image)
                if block.intercepts_follow:
                    shift = self._at_rest(self.curvature.product(image))
                    image += shift
                size = 1.0 if joint else self._length(block, old, new, image)
                if size < 1.0:
                    step, shift, image, new = size * step, size * shift, size * image, old + size * step
                self._add(shift, image)
                self.parts[slot] = new
                moved += float(step @ step)
        if self._totals.any():
            shift = self._at_rest(self.slope)
            self._add(shift, np.zeros_like(self.slope) + shift)
        return moved

    def _at_rest(self, slopes: Array) -> Any:
        """Return the shift of intercepts that takes their share of these slopes away."""
        return shift_to_rest(self.objective, slopes, self._totals)

    def _length(self, block: Block, old: Array, new: Array, image: Array) -> float:
        """Return how far to go from old to new: a block's sampled Hessian misses the curvature of other rows."""
        penalty = block.problem.penalty
        gain = -inner(self.slope, image) - penalty.value(new) + penalty.value(old)
        square = self.curvature.square(image)
        return 1.0 if gain >= OVERSHOOT * square else max(gain, 0.0) / square

    def move(self, step: Array, shift: Array | float, image: Array) -> None:
        """Add a step of all columns."""
        self.parts = [part + d for part, d in zip(self.parts, self.objective.split(step), strict=True)]
        self._add(shift, image)

    def _add(self, shift: Array | float, image: Array) -> None:
        self.shift += shift
        self.change += image
        self.slope += self.curvature.product(image)
        self.change, self.slope = held(self.change), held(self.slope)


def shift_to_rest(objective: FactoredObjective, slopes: Array, totals: Array) -> Any:
    """Return the shift of intercepts after which slopes sum to zero, where curvatures sum to ``totals``."""
    return objective.intercepts(-objective.totals(slopes) / np.where(totals > 0, totals, np.inf))


class Block:
    """One operator's own quadratic; its Hessian may be of an earlier point, since slopes are always exact."""

    intercepts_follow = False  # whether each step is one of the intercepts too

    def __init__(self, objective: FactoredObjective, slot: int, curvature: Curvature) -> None:
        self.operator: FactorOperator = objective.operators[slot]
        penalty = objective.penalty
        low = int(np.searchsorted(penalty.starts, objective.ends[slot]))
        high = low + len(self.operator.kernels)
        self.span = low, high
        self.problem: Any = self._problem(curvature, penalty.part(low, high))

    def _problem(self, curvature: Curvature, penalty: GroupPenalty) -> Any:
        return GroupProblem(self._hessian(curvature), penalty)

    def _hessian(self, curvature: Curvature) -> Array:
        rows = max(BLOCK_ROWS, BLOCK_PER_RANK * int(self.operator.starts[-1]))
        return curvature.gram([self.operator], rows, intercept=False)

    def minimize(self, v: Array, slope: Array, outside: float | Array | None) -> Array:
        """Return the coefficients that minimize the quadratic in this block, the others as they are."""
        return self.problem.solve(v, self.operator.adjoint(slope), 0.1, outside)[0]


def block_of(objective: FactoredObjective, slot: int, curvature: Curvature) -> Block:
    """Return one operator's own quadratic, on its Hessian or on products with it."""
    return (FreeBlock if is_matrix_free(objective.operators[slot]) else Block)(objective, slot, curvature)


class FreeBlock(Block):
    """The quadratic of one operator of too many factors for a Hessian: below ``size ||d||^2 / 2``.

    ``size`` is about the largest eigenvalue of the Hessian, by products with it. Features are counts: most of what
    they have in common is a constant, which intercepts take up. They follow each step, so that the Hessian is the one
    that is left, ``Z'(D - D11'D / 1'D1)Z``, whose eigenvalues are far smaller. A group's turn is a proximal step, which
    says whether it is zero; conjugate gradients move those that are not.
    """

    def __init__(self, objective: FactoredObjective, slot: int, curvature: Curvature) -> None:
        self._objective = objective
        self.intercepts_follow = objective.n_free > 0 and curvature.separable
        super().__init__(objective, slot, curvature)

    def _problem(self, curvature: Curvature, penalty: GroupPenalty) -> ScaledProblem:
        totals = self._objective.totals(curvature.diagonal)
        x = self.operator.adjoint(curvature.diagonal)  # of features that are all positive, near the first eigenvector
        size = 0.0
        for _ in range(POWER_STEPS):
            length = float(np.linalg.norm(x))
            if length == 0.0:
                break
            image = self._objective.problem.constant_scores(0.0)
            self.operator.add_scores(x / length, image)
            if self.intercepts_follow:
                image += shift_to_rest(self._objective, curvature.product(image), totals)
            x = self.operator.adjoint(curvature.product(image))
            size = max(size, float(np.linalg.norm(x)))
        return ScaledProblem(max(POWER_MARGIN * size, 1e-300), penalty)


class ScaledProblem:
    """``min_v q'v + size ||v||^2 / 2 + Omega(v)`` of one group: a proximal step."""

    def __init__(self, size: float, penalty: GroupPenalty) -> None:
        self.size, self.penalty = size, penalty

    def solve(self, v: Array, gradient: Array, tol: float, outside: float | Array | None = None) -> tuple[Array, Array]:
        """Return the minimum from ``v``, at which the quadratic has this gradient, and the gradient there."""
        if outside is not None:
            self.penalty = replace(self.penalty, outside=outside)
        # In the direction of what is pulled at, the quadratic has one coordinate, and so has its minimum.
        pull = self.size * v - gradient
        length = float(np.linalg.norm(pull))
        if length == 0.0:
            return np.zeros_like(v), gradient - self.size * v
        one = replace(self.penalty, starts=np.array([0, 1]))
        along, size = np.zeros(1), np.full((1, 1), self.size)  # of one output
        one.sweep(size[None], size, along, np.array([[-length]]))
        new = along[0] / length * pull
        return new, gradient + self.size * (new - v)

    def preconditioner(self, v: Array) -> Callable[[Array], Array]:
        """Return the division by a size between those of the penalty and of the quadratic; zero on a group at zero."""
        curve = PenaltyCurve.at(self.penalty, v)
        scale = np.where(curve.free, 1.0 / (curve.pull + PRECONDITIONER_SHARE * self.size), 0.0)
        return lambda r: scale * r


@dataclass
class NewtonFit:
    """A point, its slopes, the gap of the problem on its own factors, and the steps taken."""

    point: Point
    slopes: Array
    gap: float
    steps: int
    rho: Array  # the best dual coefficients that steps met
    adjoint: Array  # the factors' products with them
    z: Array  # the scores behind them


@dataclass
class Hessians:
    """What is known of second derivatives: the rows they are summed over, and the models made from them."""

    rows: int
    dense: GroupProblem | None = None
    blocks: list[Any] | None = None
    descent: DescentModel | RoundedModel | None = None
    descending: bool = True
    tol: float = 0.0  # gap that is asked for
    sweep_tol: float = 0.0  # to which groups take turns
    sweeps: int = 0  # over groups, so far
    damping: float = FIRST_DAMPING
    damped: bool = False
    missed: float = np.inf  # share of the bend along the last step that the rows of a dense model do not see

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
    most = objective.problem.n_samples
    if len(objective.loss.outputs) < objective.n_outputs:
        # So many rows for each coefficient of all outputs that act on each other, which are kept, leave a block an
        # error of a fifth: steps that gain less have other reasons.
        most = min(most, max(SAMPLE_ROWS, SAMPLE_PER_RANK * objective.rank))
    hessians = Hessians(first_rows(objective), tol=tol, sweep_tol=tol)
    gap, value, best, begun = np.inf, np.inf, -np.inf, max_steps > 0 and _begun(objective, point, hessians)
    for step in range(int(begun), max_steps + 1):
        slopes = objective.settle_intercept(point)
        rho = objective.balanced(-slopes)
        adjoint = objective.adjoint(rho)
        before, value = value, objective.value(point)
        if (proved := objective.dual_value(point.z, rho, adjoint)) > best or step == int(begun):
            best, dual = proved, (rho, adjoint, point.z)
        last, gap = gap, value - best
        if gap > tol and step > 0:
            found = corrected(objective, point, rho, adjoint, value - CORRECTED * tol)
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
        if hessians.descent is not None and hessians.descent.enough:
            hessians.sweep_tol *= STALE  # less than it seemed
        elif hessians.descent is not None and gap > SLOW * last and not hessians.descent.ended:
            hessians.descending = False  # groups that act on each other move together in a Newton step only
        if gap > STALE * last:
            hessians.forget()
        # Far from the minimum gaps fall slowly however many rows there are.
        few = hessians.missed > MISSED and not (hessians.damped and hessians.damping > SMALL_DAMPING)
        if few and gap > SLOW * last:
            hessians.rows = min(most, 4 * hessians.rows)
        if not _advance_somehow(objective, point, slopes, -adjoint, value, hessians):
            break
    if hessians.sweeps:  # which had not been enough where a Hessian followed
        objective.known.sweeps = hessians.sweeps if hessians.dense is None else 2 * hessians.sweeps
    return NewtonFit(point, slopes, gap, step, *dual)


def _begun(objective: FactoredObjective, point: Point, hessians: Hessians) -> bool:
    """Take the first step before the gap is known, if it is one of sweeps: these need no products of all factors.

    The gap would say first whether curvatures are those of the point, which does not matter where they are constant.
    """
    if not objective.constant:
        return False
    curvature = objective.loss.curvature(point.z)
    if not (curvature.any and descends(objective, curvature, first_rows(objective))):
        return False
    slopes = objective.settle_intercept(point)
    return _advance(objective, point, slopes, None, objective.value(point), hessians, curvature) > 0


def first_rows(objective: FactoredObjective) -> int:
    """Return how many rows the first Hessian is summed over: for each coefficient of a block, one output's."""
    return min(objective.problem.n_samples, max(SAMPLE_ROWS, SAMPLE_PER_RANK * objective.rank // objective.n_outputs))


def without_hessian(objective: FactoredObjective) -> bool:
    """Whether a Hessian would be too large, or cost too much."""
    work = first_rows(objective) * objective.products
    return objective.matrix_free or objective.order > RANK_LIMIT or work > DENSE_WORK


def step_products(objective: FactoredObjective) -> float:
    """Return about how many products a step takes, as those of a Hessian, in the way that it would be taken."""
    n, rank, dense = objective.problem.n_samples, float(objective.rank), first_rows(objective) * objective.products
    sweeps = rounded_products(objective)
    if sweeps < dense:
        return sweeps
    if without_hessian(objective):
        return 2.0 * PRODUCT_COST * CYCLES * (SWEEPS_A_CYCLE + MAX_GRADIENTS) * n * rank
    return dense + objective.order**3


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
    gradient: Array | None,
    value: float,
    hessians: Hessians,
    curvature: Curvature,
) -> float:
    """Take one step with a line search; return its size, 0 if the objective does not decrease.

    Sweeps over groups need no ``gradient``.
    """
    if not curvature.any:
        return 0.0
    # Where single precision does, so do differences of scores, and points keep those of their coefficients.
    hessians.missed, whole = np.inf, objective.known.single
    if hessians.descending and descends(objective, curvature, first_rows(objective), hessians.sweeps):
        v, shift, change = _swept(objective, point, slopes, hessians, curvature)
    elif gradient is None:
        return 0.0
    elif hessians.descending and rounded_products(objective) < hessians.rows * objective.products:
        if not isinstance(hessians.descent, RoundedModel):
            hessians.descent = RoundedModel(objective, curvature)
        v, shift, change = hessians.descent.step(objective, point, slopes, gradient, hessians.sweep_tol)
        whole = False
    elif without_hessian(objective):
        apart = objective.apart
        if hessians.blocks is None:
            hessians.blocks = [block_of(apart, slot, curvature) for slot in range(len(apart.operators))]
        v, shift, change = backfitting_step(apart, point, slopes, curvature, hessians.blocks, hessians.tol)
        whole = False
    else:
        if hessians.dense is None:
            hessians.dense = quadratic_of(objective, curvature, hessians.rows)
        v, shift, bend = newton_target(objective, point, gradient, hessians.dense)
        change = objective.scores(v) + (point.b + shift) - point.z if whole else objective.scores(v - point.v) + shift
        hessians.missed = curvature.square(change) / bend - 1.0 if bend > 0.0 else np.inf
    before = objective.penalty.value(point.v)
    slope = inner(slopes, change) + objective.penalty.value(v) - before
    size = 1.0
    if np.isfinite(curvature.reach):
        size = min(1.0, curvature.reach / max(float(np.abs(change).max()), 1e-300))
    smallest = SMALLEST_STEP * size
    # Where all that a step promises is less than rounding of the value, slopes may gain by it all the same.
    room = ROUNDING * abs(value) if abs(slope) <= ROUNDING * abs(value) else 0.0
    while slope < room and size >= smallest:  # at most as many halvings as SMALLEST_STEP has
        trial = Point(point.v + size * (v - point.v), point.b + size * shift, point.z + size * change)
        if objective.value(trial) <= value + SUFFICIENT * size * slope + room:
            if size == 1.0:
                trial.v = v  # keeps exact zeros
            point.v, point.b, point.z, point.whole = trial.v, trial.b, trial.z, whole and size == 1.0
            objective.settle(point)
            return size
        size *= 0.5
    return 0.0


def _swept(
    objective: FactoredObjective, point: Point, slopes: Array, hessians: Hessians, curvature: Curvature
) -> tuple[Array, Any, Array]:
    """Return where groups that take turns come to; those that act on each other then move together."""
    if not isinstance(hessians.descent, DescentModel):
        hessians.descent = DescentModel(objective, curvature)
    v, shift, change = hessians.descent.step(objective, point, slopes, hessians.sweep_tol)
    hessians.sweeps += hessians.descent.sweeps
    if not hessians.descent.exhausted:
        return v, shift, change
    near = (GRADIENTS_LEFT if correctable(objective) else STEP_SHARE) * hessians.tol
    here, inverse = slopes + curvature.product(change), hessians.descent.preconditioner(v)
    along, moves, *_ = conjugate_step(objective.rounded, v, here, curvature, inverse, near)
    return v + along, shift + moves, objective.scores(v + along) + (point.b + shift + moves) - point.z


def quadratic_of(objective: FactoredObjective, curvature: Curvature, rows: int) -> GroupProblem:
    """Return the quadratic model with these curvatures, intercepts last, groups without a penalty."""
    n_samples, intercept, shares = objective.problem.n_samples, objective.n_free > 0, None
    if objective.constant:
        known = objective.known.under(curvature.diagonal)
        hessian = known.gram(objective.operators, objective.in_place, intercept=intercept)
    elif objective.n_outputs == 1 and objective.in_place is not None and curvature.separable and rows >= n_samples:
        hessian = objective.in_place.gram(curvature.diagonal, intercept=intercept)
    else:
        hessian, shares = curvature.hessian(objective.operators, rows, intercept=intercept)
    penalty = objective.penalty.with_intercept(objective.n_free) if intercept else objective.penalty
    return GroupProblem(hessian, penalty, shares)


def newton_target(
    objective: FactoredObjective, point: Point, gradient: Array, quadratic: GroupProblem, tol: float = GROUP_TOL
) -> tuple[Array, Any, float]:
    """Return coefficients and the shift of intercepts that minimize the quadratic model, and how it bends to there."""
    none = np.zeros(objective.n_free)  # intercepts begin where their slopes are zero
    start, slope = np.append(point.v, none), np.append(gradient, none)
    target, end = quadratic.solve(start, slope, tol)
    bend = float((target - start) @ (end - slope))
    return target[: objective.rank], objective.intercepts(target[objective.rank :]), bend
