"""Starting points of the primal-dual iteration, cold and warm."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import LinAlgError
from scipy.optimize import minimize_scalar

from manykernels.objective.problem import Problem
from manykernels.objective.regularizers.norms import BlockL1
from manykernels.solvers.gram.iteration import Linearized, PrimalDual
from manykernels.solvers.gram.sample_variables import CoupledSamples, EntropicSamples, paired_samples, start_samples
from manykernels.solvers.gram.set_weights import RootWeights, SetWeights
from manykernels.solvers.gram.weight_variables import (
    BoundedWeights,
    FixedWeights,
    PartlyFixedWeights,
    PowerWeights,
    WeightVariables,
    free_kernels,
)

if TYPE_CHECKING:
    from manykernels.objective.problem import Problem
    from manykernels.objective.regularizers import Curve, Regularizer
    from manykernels.solvers.gram.newton_system import NewtonSystem
    from manykernels.validation.arrays import Array


START_FRACTION = 0.8  # of the scale at which a norm meets its bound: coefficients of a start
# The same of losses like the hinge. There zero is an end of the box, and from near it the first steps are short: 36
# hinge fits on matrices took 381 steps from 0.8, 346 from 2
START_FRACTION_ONE_SIDED = 2.0
START_BARRIER = 0.1  # of the dual value of the start, shared by all complementarity products


# The primal-dual Newton iteration where the loss is one of all samples together.


class CoupledPrimalDual(PrimalDual):
    """The same point and the same steps, with a matrix in the place of the diagonal of the samples."""

    @property
    def _coupled(self) -> CoupledSamples:
        assert isinstance(self.samples, CoupledSamples)
        return self.samples

    def scores(self) -> Array:
        """Scores of the model, shifted by group to the tracked scores."""
        return self._coupled.aligned(super().scores())

    def _loss(self, scores: Array) -> float:
        return self._coupled.loss.value(scores)

    def _dual(self) -> float:
        norms = np.sqrt(self._squared_norms)
        scale, penalty = self._penalty.scaled_conjugate(norms)
        return self._coupled.dual_value(scale) - penalty

    def _factorize(self, linear: Linearized) -> NewtonSystem:
        (inverse, _), weights = linear
        matrix = self.problem.stack.combine(self.kernels.weights * self._inverse_penalties)
        return self._coupled.newton_system(matrix, inverse, (weights.rows, weights.coupling))

    def _products_of(self, vector: Array) -> Array:
        return self._coupled.loss.centered(super()._products_of(vector))


def scores_of(problem: Problem, rho: Array, d: Array) -> Array | None:
    """Return the scores of a model for a loss that couples samples, undetermined by coefficients alone."""
    return problem.model_parts(rho, d)[0] if problem.loss.couples_samples else None


def start_iteration(
    problem: Problem, rho: Array, b: float, scores: Array | None = None, weights: Array | None = None
) -> PrimalDual:
    """Return the iteration at dual coefficients near ``rho``, moved into the interior and scaled.

    ``weights`` (M,) are those of a model that is worth more than the coefficients, see `_warm_start`.

    Weights of a block q-norm with q near 1 are high powers of the norms: there the iteration starts from a rough
    solution with the block 1-norm, which is near, and which Newton's method finds from anywhere.
    """
    curve = problem.regularizer.curve
    if weights is not None and weights.any() and starts_warm(problem):
        warm = _warm_start(problem, rho, weights, b)
        if warm is not None:
            return warm
    if curve is not None and not curve.coupled and curve.exponent < 1.15:
        return _start_near_one(problem, rho, b, curve, scores)
    return _plain_start(problem, rho, b, scores)


def _start_near_one(problem: Problem, rho: Array, b: float, curve: Curve, scores: Array | None) -> PrimalDual:
    """Take the steps with the block 1-norm, then let the norms of the kernels follow from their weights."""
    plain = problem.with_penalty(BlockL1(curve.power))
    rough = _plain_start(plain, rho, b, scores)
    with suppress(LinAlgError):
        for _ in range(40):
            primal, dual = rough.bounds()
            size = max(abs(primal), problem.tiny)
            if primal - dual <= 1e-2 * size:
                break
            rough.newton_step(1e-3 * size)
    kernels = _start_power(rough.squared_norms, curve)
    # A block q-norm can raise a kernel from no smaller weight.
    kernels.weights = np.maximum(rough.kernels.weights, 1e-12 * rough.kernels.weights.max())
    return (CoupledPrimalDual if problem.loss.couples_samples else PrimalDual)(problem, rough.samples, kernels, rough.b)


def _plain_start(problem: Problem, rho: Array, b: float, scores: Array | None) -> PrimalDual:
    """Start from coefficients scaled to the largest dual value, with weights of the best fit to the scores."""
    rho = interior_point(problem, rho)
    norms = problem.dual_norms(rho)
    scale, value = best_scale(problem, rho, norms)
    farther = min(START_FRACTION_ONE_SIDED * scale, 1.0)  # what is above one may leave the box
    scale = max(farther if _one_sided(problem) else 0.0, START_FRACTION * scale)
    n_pairs = 2 * problem.n_samples + problem.n_kernels
    if not problem.loss.entropic:  # of few samples against many the dual value says little: steps would be tiny
        value = max(value, problem.empirical_loss(problem.constant_scores(b)))
    barrier = START_BARRIER * max(value, 1e-3 * problem.loss_at_zero, problem.tiny) / n_pairs
    samples = paired_samples(problem, scale * rho, barrier, scores)
    kernels = start_weights(problem.regularizer, (scale * norms) ** 2, barrier)
    if problem.loss.couples_samples:
        iteration: PrimalDual = CoupledPrimalDual(problem, samples, kernels, b)
    else:  # a stack in memory remembers what the norms were made of
        products = problem.stack.apply_each(rho) * (scale * problem.penalties**-2.0)[:, None]
        iteration = PrimalDual(problem, samples, kernels, b, products)
    iteration.fit_weights()
    return iteration


def _one_sided(problem: Problem) -> bool:
    """Return whether zero is an end of the box of coefficients, with multipliers as the only barrier."""
    if problem.loss.smooth or problem.loss.couples_samples:
        return False
    low, high = problem.dual_box
    return not (low * high).any()


def starts_warm(problem: Problem) -> bool:
    """Return whether only norms or poles of the loss bound the coefficients."""
    if problem.loss.couples_samples or problem.regularizer.weight_set:
        return False
    hard = problem.regularizer.dual_constraint and free_kernels(problem.regularizer, problem.n_kernels)[0].all()
    return bool(hard and (problem.loss.entropic or not np.isfinite(problem.dual_box).any()))


def _warm_start(problem: Problem, rho: Array, weights: Array, b: float) -> PrimalDual | None:
    """Start from a model, for example that of another strength: the coefficients shrink inside the bounds on the norms.

    Weights grow by as much, so the scores stay, and those of kernels without one go to the central path. From a model
    that is far from the optimum, as one of much larger strength or of other rows, a cold start is as near: None.
    """
    scores, norms = problem.model_parts(rho, weights)[0] + b, problem.dual_norms(rho)
    scale = min(1.0, 0.95 * problem.regularizer.dual_scale(norms))
    given, rho = rho, interior_point(problem, scale * rho, 1e-9)
    grown = weights * problem.penalties**2 / scale
    primal = problem.empirical_loss(scores) + problem.regularizer.value(scale * grown * norms)
    dual = -problem.bound.conjugate(rho) - problem.regularizer.formulas.conjugate(scale * norms)
    if not primal - dual <= 0.5 * primal:
        return None
    n_pairs = 2 * problem.n_samples + problem.n_kernels
    barrier = START_BARRIER * max(primal, problem.tiny) / n_pairs
    samples = start_samples(problem, rho, b, barrier)
    if isinstance(samples, EntropicSamples):
        samples.z = curved(samples, scores, given)
    kernels = start_weights(problem.regularizer, problem.dual_norms(rho) ** 2, barrier)
    kernels.weights = np.maximum(kernels.weights, grown)
    iteration = PrimalDual(problem, samples, kernels, b)
    iteration.fit_weights()
    if problem.loss.entropic:
        iteration.otherwise = partial(_plain_start, problem, given, b, None)
    return iteration


def curved(samples: EntropicSamples, scores: Array, rho: Array) -> Array:
    """Return scores of a start, halfway (by slope) to the scores of the coefficients where the two disagree widely.

    A model of other rows may be far off at some rows. The loss is nearly linear there, and Newton's method would
    overshoot from one end to the other and back.
    """
    slopes = -samples.weight * samples.loss.derivative(samples.y, scores)
    halfway = replace(samples, rho=0.5 * (rho + slopes))
    halfway.resynchronize()
    return np.where(np.abs(slopes - rho) > 0.5 * samples.weight, halfway.z, scores)


def interior_point(problem: Problem, rho: Array, margin: float = 0.05) -> Array:
    """Return a point near ``rho`` that stays off the ends of the box by ``margin`` of the width.

    Rather half of ``rho`` than the nearest point, where it is one: the scale of a start is to be chosen anyway, and
    products of coefficients asked about before, as of those without a kernel, are known.
    """
    if problem.loss.couples_samples:
        return rho
    low, high = problem.dual_box
    width = high - low
    width = np.where(np.isfinite(width), width, max(float(np.abs(rho).max(initial=0.0)), problem.tiny))
    bound: Any = problem.certificate_bound
    if bound.basis is not None:
        for closer in (margin, 0.1 * margin, 0.01 * margin, 0.001 * margin):  # further off there may be no such point
            inside: Array = bound.project(rho, low + closer * width, high - closer * width)
            if inside.any():
                return inside
        bound = problem.bound
    low, high = low + margin * width, high - margin * width
    outside, half = ((rho < low) | (rho > high)).any(), 0.5 * rho
    if outside and not problem.shared and ((low <= half) & (half <= high)).all():
        rho = half
    found: Array = bound.project(rho, low, high)
    return found


def best_scale(problem: Problem, rho: Array, norms: Array) -> tuple[float, float]:
    """Return the ``c`` in (0, 1] with the largest dual value of ``c rho``, and that value.

    High powers of the norms, as those of a block q-norm with q near 1, may make it very small.
    """
    penalty, close = problem.regularizer.formulas, 1e-3  # of the largest scale: how closely the best one is looked for
    largest = penalty.dual_scale(norms)

    def negative_dual(scale: float) -> float:
        with np.errstate(over="ignore"):
            return problem.bound.conjugate_at(rho, scale, np.zeros_like(rho)) + penalty.conjugate(scale * norms)

    # An infinite plateau tells a search nothing.
    while not np.isfinite(at_end := negative_dual(largest)) and largest > 0:  # at most the exponents of float64
        largest *= 0.5
    # A concave function that still rises at the end of an interval is largest there, as most are before a hard bound.
    if at_end <= negative_dual((1.0 - close) * largest):
        return largest, -at_end
    for _ in range(5):  # each by a factor of about 200
        smallest = close * largest
        found = minimize_scalar(
            negative_dual, bounds=(0.0, largest), method="bounded", options={"xatol": smallest, "maxiter": 40}
        )
        if found.x > 4 * smallest and found.fun < negative_dual(0.0):
            break
        largest = min(float(found.x) + 2 * smallest, largest)
    return float(max(found.x, smallest)), float(-found.fun)


def start_weights(regularizer: Regularizer, squared_norms: Array, barrier: float) -> WeightVariables:
    """Return kernel variables for the squared norms with complementarity near ``barrier``."""
    if regularizer.weight_set:
        # Weights in their set; those of an lp ball with p > 2, q > 4 / 3, follow from the norms.
        curve = regularizer.curve
        if curve is not None and curve.exponent > 4.0 / 3.0:
            return RootWeights.central(squared_norms, regularizer, curve.exponent / (2.0 - curve.exponent))
        return SetWeights.central(squared_norms, barrier, regularizer)
    free, largest = free_kernels(regularizer, squared_norms.size)
    if not free.any():
        return FixedWeights(largest)
    if regularizer.curve is not None and not regularizer.curve.elastic:
        return _start_power(squared_norms, regularizer.curve)
    if free.all():
        return BoundedWeights.central(squared_norms, barrier, regularizer)
    inner = BoundedWeights.central(squared_norms[free], barrier, regularizer.take(np.flatnonzero(free)))
    return PartlyFixedWeights(inner, free, largest)


def _start_power(squared_norms: Array, curve: Curve) -> PowerWeights:
    exponent = curve.dual_exponent - 2.0
    return PowerWeights.central(squared_norms, exponent, curve.power ** ((curve.dual_exponent - 1.0) / exponent))
