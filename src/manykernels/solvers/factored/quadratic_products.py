"""The quadratic by products, column by column: for ranks whose Hessian would not fit, and features that are many.

With the slopes ``g`` and the curvature ``H`` of the loss at the present scores, a turn minimizes

    g'c + c'H c / 2 + Omega(||w_1||, ..., ||w_g||),      c = Z (w - v) + shift of b

in the coefficients of an operator (`Block`), on the respective Hessian or on products. Coupled columns move together,
by conjugate gradients on the nonzero groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from manykernels.grams.factored.base import FactorOperator, columns_of
from manykernels.grams.rows.vectors import compute_vector
from manykernels.objective.certificate import inner
from manykernels.objective.losses.curvature import Curvature
from manykernels.solvers.factored.group_penalty import GroupPenalty, PenaltyCurve
from manykernels.solvers.factored.objective import FactoredObjective, is_matrix_free
from manykernels.solvers.factored.quadratic import Expansion, Groups, Position, Quadratic, line_minimum
from manykernels.solvers.factored.quadratic_formed import RANK_LIMIT, RIDGE, SAMPLE_ROWS, FormedQuadratic
from manykernels.solvers.linear_systems import ConjugateGradients
from manykernels.validation.arrays import Array

STEP_SHARE = 0.5  # of the gap that is asked for: a quadratic solved to it is near enough
SWEEPS_A_CYCLE = 2  # and a step of all columns
SWEEP_TOL = 0.05  # a sweep whose coefficients move by this part of the first one's ends the step
BLOCK_ROWS, BLOCK_PER_RANK = 1500, 15  # rows that the Hessian of a column is summed over


def conjugate_step(
    objective: FactoredObjective, v: Array, slope: Array, curvature: Curvature, inverse: Any, tol: float
) -> tuple[Array, Any, Array, float]:
    """Move the nonzero groups toward the minimum of the quadratic, whose slopes at ``v`` are given.

    Solves ``(Z'DZ + Omega'') d = -gradient`` to a part of the first residual, or to a gap of ``tol``; ``inverse`` of
    columns that take turns preconditions it. The intercepts are last. Also returns the approximate gap of the residual:
    dual coefficients are scaled by the worst relative violation, ``|r_m| / |g_m|`` of ``Omega'(v) = g``.
    """
    active, rank, image = ActiveSystem(objective, v, curvature, inverse), objective.rank, np.zeros_like(slope)
    system = ConjugateGradients(active.product, -active.gradient(slope), active.precondition)
    for _ in range(15):
        if system.is_within(0.1) or active.gap(system.residual) <= tol:
            break
        if not (length := system.step()):
            break
        image = image + length * active.image
    x = system.x
    along = line_minimum(objective.penalty, v, x[:rank], inner(slope, image), curvature.square(image))
    return along * x[:rank], along * objective.intercepts(x[rank:]), along * image, active.gap(system.residual)


class ActiveSystem:
    """The matrix ``Z'DZ + Omega''`` in the nonzero groups and the intercepts, which are last."""

    image: Array  # of the last vector in `product`: the change of scores

    def __init__(self, objective: FactoredObjective, v: Array, curvature: Curvature, inverse: Any) -> None:
        self._objective, self._curvature, self._inverse = objective, curvature, inverse
        self._curve, self._none = PenaltyCurve.evaluate(objective.penalty, v), np.zeros(objective.n_free)
        self._totals = objective.totals(curvature.diagonal)
        self._totals[self._totals == 0] = np.inf
        self._alive = [bool(part.any()) for part in objective.split(self._curve.free)]
        self._pulls = objective.penalty.norms(self._curve.gradient)
        self._whole = float(self._pulls @ objective.penalty.norms(v))
        if objective.penalty.bare.any():  # nothing is scaled to where these residuals would be allowed
            self._whole = np.inf

    def precondition(self, r: Array) -> Array:
        """Return the approximate solution of the system with the right side ``r``."""
        rank = self._objective.rank
        return np.concatenate([self._inverse(r[:rank]), r[rank:] / self._totals])

    def gradient(self, slope: Array) -> Array:
        """Return the gradient of loss and penalty from slopes of the loss."""
        return self._gather(slope) + np.append(self._curve.gradient, self._none)

    def product(self, d: Array) -> Array:
        """Return the matrix times a vector."""
        objective, rank = self._objective, self._objective.rank
        self.image = objective.scores(d[:rank]) + objective.intercepts(d[rank:])
        return self._gather(self._curvature.product(self.image)) + np.append(self._curve.product(d[:rank]), self._none)

    def gap(self, r: Array) -> float:
        """Return the gap of a residual."""
        pulled = self._pulls > 0
        own = self._objective.penalty.norms(r[: self._objective.rank])[pulled] / self._pulls[pulled]
        return self._whole * float(own.max(initial=0.0)) if own.size else np.inf

    def _gather(self, rows: Array) -> Array:
        """Return the products of rows with the factors of nonzero groups and with ones."""
        objective = self._objective
        parts = [
            operator.adjoint(rows) if own else np.zeros(size)
            for operator, own, size in zip(objective.operators, self._alive, np.diff(objective.ends), strict=True)
        ]
        return np.append(np.concatenate(parts) * self._curve.free, objective.totals(rows))


class ProductQuadratic(Quadratic):
    """A quadratic for every column, and products with all."""

    most_sweeps, sweeps_of_some, sweeps_apart = 3 * SWEEPS_A_CYCLE, SWEEPS_A_CYCLE, SWEEPS_A_CYCLE

    def __init__(self, objective: FactoredObjective, curvature: Curvature) -> None:
        self._objective, self.penalty = objective.apart, objective.penalty
        self._blocks = blocks_of(self._objective, curvature)

    def step(self, here: Expansion, tol: float) -> tuple[Array, Any, Array]:
        """Minimize the quadratic model at a point."""
        point, slopes, curvature = here.point, here.slopes, here.curvature
        self._curvature, self._totals = curvature, self._objective.totals(curvature.diagonal)
        at = Position(point.v.copy(), slopes.copy(), np.zeros_like(slopes), 0.0)
        _, _, ended = self.minimize(at, STEP_SHARE * tol, SWEEP_TOL)
        if not ended:
            self.sweep(at, "all")
        return at.v, at.shift, at.change

    def sweep(self, at: Position, groups: Groups) -> tuple[float, float]:
        penalty, moved = self.penalty, 0.0
        joint, norms = penalty.coupled, penalty.norms(at.v)
        for block in self._blocks:
            old = at.v[block.own]
            if not (groups == "all" or old.any()):
                continue
            new = block.minimize(old, at.slopes, penalty.rest(norms, *block.span) if joint else None)
            norms[slice(*block.span)] = block.problem.penalty.norms(new)
            if (step := new - old).any():
                image, shift = np.zeros_like(at.slopes), 0.0
                block.add_scores(step, image)
                if block.intercepts_follow:
                    shift = self._intercept_shift(self._curvature.product(image))
                    image += shift
                size = 1.0 if joint else self._length(block, at.slopes, old, new, image)
                at.v[block.own] = old + size * step if size < 1.0 else new
                self._move(at, size * shift, size * image)
                moved += size**2 * float(step @ step)
        if self._totals.any():
            shift = self._intercept_shift(at.slopes)
            self._move(at, shift, np.zeros_like(at.slopes) + shift)
        return moved, np.inf

    def image(self, step: Position) -> Array:
        return step.change

    def step_jointly(self, at: Position, tol: float) -> bool:
        """Take conjugate gradients in the nonzero groups."""
        if self.penalty.coned:  # which know of no cones
            return False
        inverses = [(block.own, block.problem.preconditioner(at.v[block.own])) for block in self._blocks]

        def inverse(r: Array) -> Array:
            return np.concatenate([solve(r[own]) for own, solve in inverses])

        step, shift, image, left = conjugate_step(self._objective, at.v, at.slopes, self._curvature, inverse, tol)
        at.v = at.v + step
        self._move(at, shift, image)
        return left <= tol

    def _intercept_shift(self, slopes: Array) -> Any:
        """Return the shift of intercepts that removes their share of the slopes."""
        return shift_to_rest(self._objective, slopes, self._totals)

    def _length(self, block: Block, slopes: Array, old: Array, new: Array, image: Array) -> float:
        """Return the step length from old to new, since the sampled Hessian of a block misses curvature."""
        penalty = block.problem.penalty
        gain = -inner(slopes, image) - penalty.value(new) + penalty.value(old)
        square = self._curvature.square(image)
        return 1.0 if gain >= 0.7 * square else min(max(gain, 0.0) / square, 1.0)

    def _move(self, at: Position, shift: Array | float, image: Array) -> None:
        """Let slopes follow a change of scores."""
        at.shift = at.shift + shift
        at.change, at.slopes = (
            compute_vector(at.change + image),
            compute_vector(at.slopes + self._curvature.product(image)),
        )


def shift_to_rest(objective: FactoredObjective, slopes: Array, totals: Array) -> Any:
    """Return the shift of intercepts for zero slope sums, given curvature sums ``totals``."""
    return objective.intercepts(-objective.totals(slopes) / np.where(totals > 0, totals, np.inf))


class Block:
    """A quadratic for some operators; the Hessian may be outdated, since slopes are always exact."""

    def __init__(self, objective: FactoredObjective, slots: slice, curvature: Curvature) -> None:
        self.operators: list[FactorOperator] = objective.operators[slots]
        self.own = slice(*objective.ends[[slots.start, slots.stop]].tolist())
        self._ends = objective.ends[slots.start + 1 : slots.stop] - self.own.start
        self.span = tuple(np.searchsorted(objective.penalty.starts, [self.own.start, self.own.stop]).tolist())
        # Whether each step is one of the intercepts too
        self.intercepts_follow = self._takes_intercepts and objective.n_free > 0 and curvature.separable
        self.problem: Any = self._problem(objective, curvature, objective.penalty.part(*self.span))

    @property
    def _takes_intercepts(self) -> bool:
        return len(self.operators) > 1

    def _problem(self, objective: FactoredObjective, curvature: Curvature, penalty: GroupPenalty) -> Any:
        rank = self.own.stop - self.own.start
        rows = max(BLOCK_ROWS if len(self.operators) == 1 else SAMPLE_ROWS, BLOCK_PER_RANK * rank)
        hessian = curvature.gram(self.operators, rows, n_constants=int(self.intercepts_follow))
        if self.intercepts_follow:
            sums, total = hessian[..., :-1, -1], np.maximum(hessian[..., -1:, -1:], 1e-300)
            hessian = hessian[..., :-1, :-1] - sums[..., None] * sums[..., None, :] / total
        return FormedQuadratic(hessian, penalty)

    def add_scores(self, v: Array, out: Array) -> None:
        """Add the scores of coefficients of the operators."""
        for operator, part in zip(self.operators, np.split(v, self._ends), strict=True):
            operator.add_scores(part, out)

    def minimize(self, v: Array, slope: Array, outside: float | Array | None) -> Array:
        """Return the coefficients that minimize the quadratic in the block, the rest unchanged."""
        gradient = np.concatenate([operator.adjoint(slope) for operator in self.operators])
        return self.problem.solve(v, gradient, 0.1, outside)[0]


def blocks_of(objective: FactoredObjective, curvature: Curvature) -> list[Block]:
    """Return the quadratics of alternating minimization: per operator, or per neighbors with a small common Hessian."""
    blocks: list[Block] = []
    for alone, group in groupby(range(len(objective.operators)), key=lambda slot: turn_of(objective.operators[slot])):
        slots = list(group)
        together = (
            not alone and (objective.ends[slots[-1] + 1] - objective.ends[slots[0]]) <= objective.n_outputs * RANK_LIMIT
        )
        for own in [slice(slots[0], slots[-1] + 1)] if together else [slice(slot, slot + 1) for slot in slots]:
            blocks.append((alone or Block)(objective, own, curvature))
    return blocks


def turn_of(operator: Any) -> type[Block] | None:
    """Return the kind of block of a product-only operator, None for an operator with a Hessian."""
    if not is_matrix_free(operator):
        return None
    return LevelBlock if getattr(getattr(operator, "base", operator), "level_columns", 0) else FreeBlock


class FreeBlock(Block):
    """The quadratic of one operator of too many factors for a Hessian: below ``size ||d||^2 / 2``.

    ``size`` is about the largest eigenvalue of the Hessian, by products with it. Features are counts: their common part
    is mostly a constant, absorbed by intercepts. The remaining Hessian is ``Z'(D - D11'D / 1'D1)Z``, with far smaller
    eigenvalues. Groups are updated by proximal steps; conjugate gradients move nonzero groups.
    """

    _takes_intercepts = True

    def _problem(self, objective: FactoredObjective, curvature: Curvature, penalty: GroupPenalty) -> ScaledProblem:
        (operator,), totals = self.operators, objective.totals(curvature.diagonal)
        x = operator.adjoint(curvature.diagonal)  # of features that are all positive, near the first eigenvector
        size = 0.0
        for _ in range(4):
            length = float(np.linalg.norm(x))
            if length == 0.0:
                break
            image = objective.problem.constant_scores(0.0)
            operator.add_scores(x / length, image)
            if self.intercepts_follow:
                image += shift_to_rest(objective, curvature.product(image), totals)
            x = operator.adjoint(curvature.product(image))
            size = max(size, float(np.linalg.norm(x)))
        sizes = np.full(len(x), max(1.1 * size, 1e-300))
        return ScaledProblem(sizes, penalty, 0.01)


class LevelBlock(Block):
    """The quadratic of an operator with the diagonal of the Hessian, and a few entries a row: no other is needed.

    Of a single column of levels it is the Hessian; of more, so many times it is above it.
    """

    _takes_intercepts = True

    def _problem(self, objective: FactoredObjective, curvature: Curvature, penalty: GroupPenalty) -> ScaledProblem:
        operator: Any = self.operators[0]
        base = getattr(operator, "base", operator)
        parts = [base.diagonal(column) for column in columns_of(curvature.diagonal)]
        sizes = np.concatenate(parts)
        return ScaledProblem(
            np.maximum(base.level_columns * sizes, RIDGE * max(float(sizes.mean()), 1e-300)),
            penalty,
            1.0 / base.level_columns,
        )


class ScaledProblem:
    """``min_v q'v + v' diag(sizes) v / 2 + Omega(v)`` of a single group: a proximal step.

    Parameters
    ----------
    sizes : (r,) float64
        Nowhere below the Hessian.
    penalty : GroupPenalty
    share : float
        Of them, which conjugate gradients have as a Hessian: most directions have less.
    """

    def __init__(self, sizes: Array, penalty: GroupPenalty, share: float) -> None:
        self.sizes, self.penalty, self._share = sizes, penalty, share

    def solve(self, v: Array, gradient: Array, tol: float, outside: float | Array | None = None) -> tuple[Array, Array]:
        """Return the minimum from ``v`` with a known gradient, and the gradient at the minimum."""
        if outside is not None:
            self.penalty = replace(self.penalty, outside=outside)
        new = self.penalty.minimizer(gradient - self.sizes * v, self.sizes)
        return new, gradient + self.sizes * (new - v)

    def preconditioner(self, v: Array) -> Callable[[Array], Array]:
        """Return the inverse of the second derivatives with a share of the sizes; zero on a group at zero."""
        curve = PenaltyCurve.evaluate(self.penalty, v)
        if not curve.free.any():
            return np.zeros_like
        inverse = 1.0 / (curve.pull + self._share * self.sizes)
        along, radial = inverse * curve.unit, float(curve.radial[0] + curve.coupling[0] ** 2)
        factor = radial / (1.0 + radial * float(curve.unit @ along))
        return lambda r: inverse * r - factor * float(along @ r) * along
