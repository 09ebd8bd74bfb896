"""The primal-dual Newton iteration on a stack of kernels: the engine of the interior-point and working-set solvers.

The dual problem, written with squared norms, is

    minimize_rho  sum_i s_i l*(y_i, -rho_i/s_i)   s.t.  (u_m(rho)^2 - B_m^2)/2 <= 0,   sum rho = 0.

The multipliers are the model: ``d_m`` for the kernels and ``b`` for the sum. One Newton step solves

    (diag(h) + sum_m d_m K_m + sum_m c_m q_m q_m') drho + 1 db = g + z - f - b - sum_m e_m q_m,     q_m = K_m rho

where ``(h, g)`` comes from the samples and ``(c, e)`` from the kernels. As in Mehrotra's method, a single factorization
serves a predictor, for the target of the complementarity products, and a corrector with second-order terms. A step
costs a single product of every kernel with a vector, a weighted sum of the kernels and a Cholesky factorization.
"""

from __future__ import annotations

import copy
from bisect import bisect
from dataclasses import InitVar, dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from scipy.linalg import LinAlgError

from manykernels.objective.certificate import EPS, term_sizes
from manykernels.solvers.gram.newton_system import NewtonSystem, add_rank_update
from manykernels.solvers.gram.set_weights import RootWeights, SetWeights
from manykernels.solvers.gram.weight_variables import BoundedWeights, PowerWeights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from manykernels.objective.losses.bound import SampleSum
    from manykernels.objective.problem import Problem
    from manykernels.solvers.gram.sample_variables import SampleVariables
    from manykernels.solvers.gram.weight_variables import LinearWeights, WeightVariables
    from manykernels.validation.arrays import Array


SHORTEST_FRACTION = 0.95  # of the way to the boundary; tends to one as the gap closes
PRUNING_FACTORS = (1e4, 1e3, 1e2, 1e1, 1.0, 0.1, 0.01)  # how far in favor of zero doubtful kernels are judged, in turn
PRUNING_TOLERANCE = 0.9  # of tol: the gap within which a model with zeros is preferred to a better one without

Linearized: TypeAlias = "tuple[tuple[Any, Array], LinearWeights]"  # (h, g - rho / h) and (q, c, e), as above
Direction: TypeAlias = "tuple[Array, float, tuple[float, float]]"  # of rho and b, and the longest steps of either side


@dataclass
class PrimalDual:
    """A point of the iteration on the kernels of ``problem``, with their products (M, N) with ``rho`` if known."""

    problem: Problem
    samples: SampleVariables
    kernels: WeightVariables
    b: float
    products: InitVar[Array | None] = None

    def __post_init__(self, products: Array | None) -> None:
        self.n_steps = 0  # Newton steps so far, those on other kernels included
        self._inverse_penalties = self.problem.penalties**-2.0
        self._plain = bool((self._inverse_penalties == 1.0).all())  # products need no scaling
        self._penalty = self.problem.regularizer.formulas
        self._pairs = self.samples.n_pairs, self.kernels.n_pairs  # complementarity products of either side
        self._n_pairs = sum(self._pairs)
        self._keep_origin()
        self._cautious, self._steady = False, False
        self._bounds: tuple[float, float] | None = None
        self.useless_steps, self._best_gap = 0, np.inf  # steps since the smallest gap
        self._patience = 15  # steps without a smaller gap before the first restart; doubled with each
        # From where to go on if coefficients that an entropy alone keeps in their domain lead nowhere
        self.otherwise: Callable[[], PrimalDual] | None = None
        self._n_alone = 0  # steps of these
        self._largest_product = 0.0
        self._set_products(self._products_of(self.samples.rho) if products is None else products)

    def newton_step(self, wanted: float) -> None:
        """Take one predictor-corrector step toward a gap of ``wanted``, in units of the objective.

        Complementarity products are not driven below a hundredth of their share of ``wanted``: the system would become
        ill-conditioned for nothing. If the gap has not shrunk for long, or numbers overflow, the iteration starts again
        from the first point, now refusing steps that make the primal value much worse; the next time without.
        """
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            try:
                self.step(wanted)
            except (LinAlgError, FloatingPointError):
                self._restart()
        gap = self.bounds()[0] - self.bounds()[1]
        self.useless_steps = 0 if gap < self._best_gap else self.useless_steps + 1
        self._best_gap = min(gap, self._best_gap)
        if self.otherwise is not None and self._leads_nowhere():
            self._go_on_from(self.otherwise())
        if self.useless_steps >= self._patience:
            self._restart()
        self.n_steps += 1

    def _leads_nowhere(self) -> bool:
        """Return whether steps are many, or diverge from the optimum, for weak penalties."""
        self._n_alone += 1
        primal, dual = self.bounds()
        far = not primal - dual <= 0.5 * abs(primal)
        return self._n_alone >= (3 if far else 12)

    def _go_on_from(self, other: PrimalDual) -> None:
        """Adopt the state of another iteration."""
        n_steps = self.n_steps
        self.samples, self.kernels, self.b = other.samples, other.kernels, other.b
        self.__post_init__(other._products)
        self.n_steps = n_steps

    def _keep_origin(self) -> None:
        """Keep the restart point; arrays are replaced on moves, never overwritten."""
        self._origin = copy.copy(self.samples), copy.copy(self.kernels), self.b

    def step(self, wanted: float) -> None:
        """Take a single step toward a gap of ``wanted``."""
        self._tracked, self._modeled = self.samples.scores(), self.scores()
        linear = self._linearized(0.0)
        system = self._factorize(linear)
        barrier = self.barrier()
        _, _, (primal_step, dual_step) = self._direction(system, linear)
        target = max(barrier * self._centering(primal_step, dual_step, barrier), self._lowest_target(wanted))
        drho, db, longest = self._direction(system, self._linearized(target, linear))
        self._check_finite("the Newton direction", drho)
        dproducts = self._products_of(drho)
        trusted = self._trusted_step(drho, dproducts, linear[1].squared_bound)
        if self._steady:
            trusted = min(trusted, self._steady_step(drho, dproducts))
        primal_step, dual_step = self._shorten(longest)
        steps = min(primal_step, trusted), min(dual_step, trusted)
        if self._cautious:
            steps = min(steps[0], self.samples.interior_steps(SHORTEST_FRACTION)[0]), steps[1]
        # Where both sides nearly agree, unequal steps would only tear them apart again.
        if self._steady or self._apart <= 1e-3 * np.abs(self._modeled).max():
            steps = min(steps), min(steps)
        if self._cautious:
            steps = self._damp(steps, drho, dproducts, db)
        self._move(steps, dproducts, db)
        self._check_finite("a bound", self.bounds())

    def _check_finite(self, what: str, values: Any) -> None:
        """Break off where numbers left the range of float64."""
        if not np.isfinite(values).all():
            raise FloatingPointError(f"{what} is not finite")

    def _restart(self) -> None:
        if self._patience >= 60:
            raise LinAlgError("the iteration broke down again and again")
        self._patience *= 2
        self._steady = self._cautious
        self._cautious, self.useless_steps, self._best_gap = True, 0, np.inf
        samples, kernels, self.b = self._origin
        self.samples, self.kernels = copy.copy(samples), copy.copy(kernels)
        self._set_products(self._products_of(self.samples.rho))

    @property
    def alone(self) -> bool:
        """Whether an entropy alone, without multipliers, keeps coefficients in their domain."""
        return self.problem.loss.entropic and not self._pairs[0]

    def barrier(self) -> float:
        """Mean complementarity product."""
        total = self.samples.complementarity() if self._pairs[0] else 0.0
        total += self.kernels.complementarity() if self._pairs[1] else 0.0
        return total / max(self._n_pairs, 1)

    def scores(self) -> Array:
        """Scores of the model, ``sum_m d_m K_m rho + b``."""
        scores: Array = self.kernels.weights @ self._products + self.b
        return scores

    def bounds(self) -> tuple[float, float]:
        """Return the primal value of the current model and the dual value of its (rescaled) coefficients.

        What ``sum rho = 0`` misses is subtracted at the price; only the certificate is exact.
        """
        if self._bounds is None:
            self._bounds = self._primal(self.kernels.weights), self._dual()
        return self._bounds

    def _dual(self) -> float:
        problem = self.problem
        rho, norms = self.samples.rho, np.sqrt(self._squared_norms)
        scale, penalty = self._penalty.scaled_conjugate(norms)
        dual = -float(np.sum(problem.bound.conjugate_parts(rho, scale, rho))) - penalty
        missing = abs(float(rho.sum())) if problem.fit_intercept else 0.0
        return dual - missing * (float(np.abs(problem.y).max()) + abs(self.b))  # scores have the unit of the target

    @property
    def shared_bound(self) -> float | None:
        """Common threshold on the norm for the weights of a weight set; None for separate bounds."""
        return float(np.sqrt(self.kernels.least_bound)) if isinstance(self.kernels, SetWeights) else None

    def fit_weights(self, first: int = 0, ends: tuple[float, float] = (1.0, 1e6)) -> None:
        """Multiply the weights from position ``first`` on by the factor with the smallest primal value.

        A start whose scores are far from what the loss wants would otherwise need long steps in the weights alone; so
        would one whose weights are below the central path, which fit no score better.
        (Elastic nets keep so many kernels that small starting weights cost more steps than they save; their weights
        have a pole.)
        """
        limited = np.isfinite(self.problem.regularizer.weight_range[1]).any()
        if first >= self.kernels.n_pairs or limited or (self.problem.regularizer.weight_set and first == 0):
            return
        chosen = np.arange(self.kernels.weights.size) >= first

        def scaled(factor: float) -> Array:
            return np.where(chosen, factor, 1.0) * self.kernels.weights

        best = _best_factor(lambda factor: self._primal(scaled(factor)), *ends)
        self.kernels.weights = scaled(best)
        self._keep_origin()
        self._set_products(self._products)

    def move_to(self, problem: Problem, keep: Array, norms_added: Array, distance: float) -> PrimalDual:
        """Return the point on other kernels: those of ``keep`` followed by new ones with the norms.

        Violated kernels make the point worse by ``distance``, in units of the objective; complementarity products are
        lifted to a tenth of that, since Newton from a point too close to the boundary takes tiny steps.
        """
        norms_added = norms_added * self._make_room(problem, norms_added)
        pairs = self.samples.n_pairs + problem.n_kernels
        barrier = max(0.1 * distance / pairs, self.barrier())
        self.samples.recenter(barrier)
        kernels = self.kernels.resized(keep, norms_added**2, barrier, problem.regularizer)
        moved = type(self)(problem, self.samples, kernels, self.b)
        moved.n_steps = self.n_steps
        moved.fit_weights(int(np.count_nonzero(keep)), (1e-6, 1.0))
        return moved

    def _make_room(self, problem: Problem, norms_added: Array) -> float:
        """Scale ``rho`` down and the weights up, which leaves the model unchanged, if a bound is broken by far.

        Returns the scale, by which the norms of all kernels shrink.
        """
        if not isinstance(self.kernels, BoundedWeights) or not self.kernels.hard_bound or not norms_added.size:
            return 1.0
        bounds = np.broadcast_to(problem.regularizer.inactive_below, problem.n_kernels)[-norms_added.size :]
        largest = float((norms_added / bounds).max())
        if largest <= 1.5:
            return 1.0
        scale = 0.8 / largest
        self.samples.shrink(scale)
        self.kernels.grow(1.0 / scale, self._squared_norms * scale**2)
        return scale

    def is_within(self, wanted: float) -> bool:
        """Return whether the gap is at most ``wanted``, relative to the primal value."""
        primal, dual = self.bounds()
        return bool(primal - dual <= wanted * max(abs(primal), self.problem.tiny))

    def allows_zeros(self, wanted: float) -> bool:
        """Return whether the model is as good without the inactive kernels of shrinking weights."""
        primal, dual = self.bounds()
        inactive = self.kernels.inactive()
        pruned = self._primal(np.where(inactive, 0.0, self.kernels.weights)) if inactive.any() else primal
        return bool(pruned - dual <= wanted * max(abs(primal), self.problem.tiny))

    def descend(self, wanted: float, with_zeros: float) -> None:
        """Take steps until the gap is within ``wanted``, and a few more for inactive kernels to become negligible.

        That is until the model without them is within ``with_zeros``.
        """
        spare, share = 3, 1.0
        for _ in range(60):
            self.newton_step(share * wanted * max(abs(self.bounds()[0]), self.problem.tiny))
            if not self.is_within(wanted):
                continue
            if spare == 0 or self.allows_zeros(with_zeros):
                break
            spare, share = spare - 1, share * 0.05

    def model(self, tol: float) -> tuple[Array, Array, float]:
        """Return ``(rho, d, b)``, with zero weight for inactive kernels if that keeps the relative gap below ``tol``.

        Far from the optimum, a cost of a tenth of the gap is acceptable.
        """
        primal, dual = self.bounds()
        allowed = max(tol * max(abs(primal), self.problem.tiny), 1.1 * (primal - dual))
        inside = self.problem.regularizer.on_boundary
        weights = tried = inside(self.kernels.weights)
        for pruned in map(inside, self._prunings()):
            if np.array_equal(pruned, weights):
                break
            if not np.array_equal(pruned, tried) and self._primal(pruned) - dual <= allowed:
                weights = pruned
                break
            tried = pruned
        return self.samples.rho, weights * self._inverse_penalties, self.b

    def _prunings(self) -> Iterator[Array]:
        """Return weights with zeros, most zeros first: judged by their multipliers, then, as a last resort, by size."""
        inactive = self.kernels.inactive(np.array(PRUNING_FACTORS)[:, None])
        yield from np.where(inactive, 0.0, self.kernels.weights)
        if self.problem.regularizer.sparse:
            sizes = self.kernels.weights * np.sqrt(self._squared_norms)
            for share in (1e-2, 1e-3, 1e-4, 1e-6, 1e-8):
                yield np.where(sizes >= share * sizes.max(), self.kernels.weights, 0.0)

    @property
    def squared_norms(self) -> Array:
        """Squared norms ``rho' K_m rho / w_m^2`` of the kernels, (M,)."""
        return self._squared_norms

    def _primal(self, weights: Array) -> float:
        block_norms = weights * np.sqrt(self._squared_norms)
        return self._loss(weights @ self._products + self.b) + self._penalty.value(block_norms)

    def _loss(self, scores: Array) -> float:
        weight, losses = self._losses
        return float(weight @ losses(scores))

    @cached_property
    def _losses(self) -> tuple[Array, Callable[[Array], Array]]:
        """Weights and losses of single scores, summing to the most frequent value."""
        bound = cast("SampleSum", self.problem.bound)
        return bound.weight, partial(bound.loss.value, bound.y)

    def _linearized(self, target: float, at_zero: Linearized | None = None) -> Linearized:
        """Return ``(h, shift)`` of the samples and the linearized weights for complementarity products of ``target``.

        ``at_zero`` is what they are at a target of zero, if known: a side without such products has no other.
        """
        if at_zero is None:
            samples, kernels = self.samples, self.kernels
            return samples.linearize(target), kernels.linearize(self._products, self._squared_norms, target)
        of_samples = self.samples.linearize(target) if self._pairs[0] else at_zero[0]
        if not self._pairs[1]:
            return of_samples, at_zero[1]
        return of_samples, self.kernels.linearize(self._products, self._squared_norms, target)

    def _factorize(self, linear: Linearized) -> NewtonSystem:
        (diagonal, _), weights = linear
        gram = self.problem.stack.combine(self.kernels.weights * self._inverse_penalties)
        np.einsum("ii->i", gram)[:] += diagonal
        add_rank_update(gram, weights.rows, weights.coupling)
        return NewtonSystem(gram, self.problem.fit_intercept)

    def _direction(self, system: NewtonSystem, linear: Linearized) -> Direction:
        """Set the direction of all variables; return the directions of ``rho`` and ``b``, and the longest steps."""
        (_, shift), weights = linear
        right = shift + self._tracked - self._modeled - weights.shift @ self._products
        drho, db = system.solve(right, -float(self.samples.rho.sum()))
        of_samples = self.samples.set_direction(drho)
        of_kernels = self.kernels.set_direction(self._products @ drho)
        return drho, db, (min(of_kernels[0], of_samples[0]), min(of_kernels[1], of_samples[1]))

    def _centering(self, primal_step: float, dual_step: float, barrier: float) -> float:
        after = self.samples.complementarity_after(primal_step, dual_step) if self._pairs[0] else 0.0
        after += self.kernels.complementarity_after(primal_step, dual_step) if self._pairs[1] else 0.0
        tiny = 1e-300
        share = min(max(after / max(barrier * self._n_pairs, tiny), 0.0), 1.0) ** 3
        return max(share, 0.3) if self._steady else share

    def _trusted_step(self, drho: Array, dproducts: Array, bound: Array) -> float:
        """Return the step at which the neglected terms are as large as the linearization.

        Left out are ``drho' K_m drho / 2`` in the constraints and ``sum_m dd_m K_m drho`` in the scores.
        """
        curvature = np.abs(dproducts @ drho) / 2
        room = bound + np.abs(self._squared_norms - bound)
        if isinstance(self.kernels, PowerWeights | SetWeights | RootWeights):
            # What matters little, as a kernel that has next to no norm, should hinder no step: hence the mean.
            weights = np.maximum(self.kernels.weights, np.finfo(np.float64).tiny)
            room = room + self._norm_rounding() + np.average(room, weights=weights)
        bilinear = float(np.abs(self.kernels.weight_change @ dproducts).max())
        size = self._apart + float(np.abs(self._tracked).max())
        ratio = max(float((curvature / room).max()), bilinear / max(size, self.problem.tiny))
        trust = 0.1 if self._cautious else 2.0  # of what is linearized
        return float(np.sqrt(trust / max(ratio, trust)))

    @property
    def _apart(self) -> float:
        """The largest difference between tracked scores and the scores of the model."""
        return float(np.abs(self._tracked - self._modeled).max())

    def _steady_step(self, drho: Array, dproducts: Array) -> float:
        """Return the step at which the neglected terms cost half of the gain.

        The gain is the reduction of the discrepancy of scores, priced by the dual coefficients; without a gain, the
        complementarity products must remain above the error.
        """
        prices = np.abs(self.samples.rho)
        left_out = float(prices @ np.abs(self.kernels.weight_change @ dproducts))
        left_out += 0.5 * float(self.kernels.weights @ np.abs(dproducts @ drho))
        gained = 0.5 * float(prices @ np.abs(self._tracked - self._modeled))
        kept = 0.5 * (self.samples.complementarity() + self.kernels.complementarity())
        if left_out <= gained + kept:
            return 1.0
        return (gained + float(np.sqrt(gained**2 + 4.0 * left_out * kept))) / (2.0 * left_out)

    def _norm_rounding(self) -> Array:
        """Squared norms within rounding: block q-norms and weight sets have bounds as small.

        For a kernel absorbed by the intercept, such as on a constant column, the norm is no guide for a step.
        """
        return EPS * self._inverse_penalties * term_sizes(self.problem.entry_roots, self.samples.rho) ** 2

    def _damp(self, steps: tuple[float, float], drho: Array, dproducts: Array, db: float) -> tuple[float, float]:
        """Halve the steps while the primal value deteriorates much."""
        primal_step, dual_step = steps
        limit = 4.0 * max(self.bounds()[0], self.problem.tiny)
        for _ in range(12):
            weights = self.kernels.weights + dual_step * self.kernels.weight_change
            products = self._products + primal_step * dproducts
            norms = np.sqrt(np.maximum(products @ (self.samples.rho + primal_step * drho), 0.0))
            scores = weights @ products + self.b + dual_step * db
            if self._loss(scores) + self._penalty.value(weights * norms) <= limit:
                break
            primal_step, dual_step = primal_step / 2, dual_step / 2
        return primal_step, dual_step

    def _lowest_target(self, wanted: float) -> float:
        """Bound products from below for large residuals, or below the requested accuracy."""
        primal, dual = self.bounds()
        gap = max(primal - dual, 0.0)
        if not np.isfinite(gap):
            return 0.0
        share = 2e-2 if gap < 0.1 * abs(primal) else 1e-3  # far from the optimum residuals inflate the gap
        return max(share * gap, 0.01 * wanted) / max(self._n_pairs, 1)

    def _shorten(self, longest: tuple[float, float]) -> list[float]:
        """Return steps that stop short of the boundary, except full steps."""
        primal, dual = self.bounds()
        gap = (primal - dual) / max(abs(primal), self.problem.tiny)
        fraction = float(np.fmax(SHORTEST_FRACTION, 1.0 - gap))
        return [1.0 if step == 1.0 else fraction * step for step in longest]

    def _move(self, steps: tuple[float, float], dproducts: Array, db: float) -> None:
        primal_step, dual_step = steps
        linear = self.samples.move(primal_step, dual_step)
        self.kernels.move(primal_step, dual_step)
        self.b = self.b + dual_step * db
        products = self._products + primal_step * dproducts
        size = max(float(products.max()), -float(products.min()))
        if not linear or size < 0.01 * self._largest_product:  # rounding of their former size would be felt
            products, self._largest_product = self._products_of(self.samples.rho), size
        self._largest_product = max(size, self._largest_product)
        self._set_products(products)

    def _products_of(self, vector: Array) -> Array:
        products = self.problem.stack.apply_each(vector)
        return products if self._plain else products * self._inverse_penalties[:, None]

    def _set_products(self, products: Array) -> None:
        self._products = products
        self._bounds = None
        self._squared_norms = np.maximum(products @ self.samples.rho, 0.0)


def _best_factor(primal: Callable[[float], float], smallest: float, largest: float) -> float:
    """Return about the factor between these with the smallest primal value, by parabolas through three values.

    The value is convex, and for squared losses with linear penalties a parabola.
    """
    factors, farthest = [0.0, min(1.0, largest / 2), min(2.0, largest)], 10.0  # times what is known
    values = [primal(factor) for factor in factors]
    for _ in range(12):
        k = min(max(values.index(min(values)), 1), len(factors) - 2)
        left, right = factors[k] - factors[k - 1], factors[k + 1] - factors[k]
        falling, rising = (values[k - 1] - values[k]) / left, (values[k + 1] - values[k]) / right
        bend = falling + rising
        if not np.isfinite(bend):
            best = factors[k] + right / 2
        elif bend > 0:
            best = factors[k] + (falling * right - rising * left) / (2 * bend)
        else:  # a line
            best = farthest * factors[-1] if falling > 0 else 0.0
        best = max(min(best, largest, farthest * factors[-1]), smallest)
        if min(abs(factor - best) for factor in factors) <= 0.1 * best:
            return best
        place = bisect(factors, best)
        factors.insert(place, best)
        values.insert(place, primal(best))
    return max(factors[values.index(min(values))], smallest)
