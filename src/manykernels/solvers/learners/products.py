"""Learners without a kernel matrix: conjugate gradients on products with the stack, in Newton steps where needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manykernels.grams.base import GramStack
from manykernels.objective.problem import Problem
from manykernels.solvers.linear_systems import ConjugateGradients
from manykernels.solvers.run import check_deadline
from manykernels.validation.arrays import Array

# Numbers of the learners at fixed weights that follow from no theorem: they decide the time, not what is certified.
#
# `benchmarks/learners.py` and `benchmarks/smo.py` measure what they cost (tables: benchmarks/records/skm.md). Those of
# compiled loops stand with the loops: what is compiled is kept on disk until its own file changes.


# Learners
MOST_STEPS = 100
PATIENCE = 20  # steps without progress after which rounding is taken to have stopped the iteration
NEARLY_EXACT, PATIENCE_NEAR = 1e-6, 3  # the same below that gap, relative: Newton steps no longer wander there
# Violations close enough for the active set, which the exchange makes exact. With pairs 1e-3 saves no time and is a
# little less often enough; single samples need more steps for each digit.
PAIRS_TOL, SINGLES_TOL = 1e-4, 1e-3
SMO_SWEEPS = 50  # most steps, as a multiple of the number of samples
LEAST_GAP = 1e-20  # of conjugate gradients, relative to the dual value: residuals of 1e-10
MOST_PRODUCTS = 2000  # of a matrix that is not formed with vectors, for one learner
FORCING = 1e-6  # share of the squared residual that conjugate gradients leave of a Newton step

# Active set
MOST_ROUNDS = 20
AT_BOUND = 1e-7  # of the width of the box

# Pairs
LONGEST_PERIOD = 1000  # steps between two looks at what can be left out
STEPS_PER_SAMPLE = 10_000


class WeightedProducts:
    """The matrix ``sum_m d_m K_m`` as products with vectors, in place of a Gram matrix."""

    def __init__(self, stack: GramStack, weights: Array) -> None:
        self._stack, self._weights = stack, weights

    def __matmul__(self, vector: Array) -> Array:
        return self._stack.apply(self._weights, vector)

    def any(self) -> bool:
        """Whether any kernel has a weight."""
        return bool(self._weights.any())


def does_with_products(problem: Problem) -> bool:
    """Return whether products suffice: the stack avoids matrices, and the loss is smooth and separable."""
    return problem.stack.matrix_free and problem.loss.smooth and not (problem.shared or problem.bound.couples_samples)


def weighted_sum(problem: Problem, weights: Array) -> Array | WeightedProducts:
    """Return ``sum_m d_m K_m`` as a matrix, or as products if cheaper and sufficient for the loss."""
    return WeightedProducts(problem.stack, weights) if does_with_products(problem) else problem.stack.combine(weights)


def conjugate_gradients(problem: Problem, gram: WeightedProducts, rho: Array, tol: float) -> tuple[Array, float, int]:
    """Solve ``(gram + L) rho + b = y``, ``sum rho = 0``, ``L = diag(curvature/s)``; return rho, b and the products.

    With ``r`` what the equations leave, ``r' L^-1 r / 2`` is the duality gap of the learner: iterations end where it is
    below ``tol`` times the dual value. ``L`` is the preconditioner, whatever the sample weights.
    """
    ridge = problem.loss.curvature / problem.weight
    inverse = 1.0 / ridge

    def intercept(left: Array) -> float:
        return float(inverse @ left / inverse.sum()) if problem.fit_intercept else 0.0

    def product(direction: Array) -> Array:
        check_deadline()
        return gram @ direction + ridge * direction

    left = problem.y - gram @ rho - ridge * rho
    system = ConjugateGradients(product, left - intercept(left), lambda r: (r - intercept(r)) * inverse)
    steps = 1
    while steps < MOST_PRODUCTS:  # at most MOST_PRODUCTS
        residual = system.residual - intercept(system.residual)
        # The dual value, since (gram + L) rho = y - b - residual
        value = 0.5 * float((rho + system.x) @ (problem.y + residual))
        if 0.5 * system.size <= tol * max(abs(value), problem.tiny):
            break
        system.step()
        steps += 1
    return rho + system.x, intercept(left) + intercept(system.residual), steps


def newton(problem: Problem, gram: WeightedProducts, rho: Array, b: float, tol: float) -> tuple[Array, float, int]:
    """Minimize ``sum_i s_i l(y_i, f_i + b) + rho' f / 2``, ``f = gram rho``; return rho, b and the products.

    Newton's method with a line search that costs no product; every step by conjugate gradients, to a share of what the
    equations leave. It ends where the model promises less than ``tol`` of the value, or nothing falls any more.
    """
    nothing = np.zeros(problem.n_samples)
    point, zero = (
        _Point.evaluate(problem, gram @ rho, rho, b),
        _Point.evaluate(problem, nothing, nothing, problem.zero_model()[1]),
    )
    products = 1
    if not point.value < zero.value:  # old coefficients at new weights may be worse than none, or overflow
        point = zero
    most_newton_steps = 50  # of a loss that is not quadratic, on products
    for _ in range(most_newton_steps):
        room = tol * max(abs(point.value), problem.tiny)
        step = _newton_step(problem, gram, point, room)
        products += step.products
        if step.slope >= 0.0:
            break
        moved = _backtrack(problem, point, step)
        if moved is None:
            break
        point = moved
        if -step.slope <= room or products >= MOST_PRODUCTS:
            break
    return point.rho, point.b, products


@dataclass(frozen=True, eq=False)
class _Point:
    """A model with the scores ``f`` and the value of the learner."""

    rho: Array
    b: float
    f: Array
    value: float

    @classmethod
    def evaluate(cls, problem: Problem, f: Array, rho: Array, b: float) -> _Point:
        return cls(rho, b, f, problem.empirical_loss(f + b) + 0.5 * float(rho @ f))


@dataclass(frozen=True, eq=False)
class _Step:
    """A direction of coefficients, intercept and scores, the slope of the value, and the cost."""

    rho: Array
    b: float
    f: Array
    slope: float
    products: int


def _newton_step(problem: Problem, gram: WeightedProducts, point: _Point, room: float) -> _Step:
    """Solve ``drho + H (K drho + db) = -e``, ``sum drho = -sum rho``, where ``e = rho + g``.

    With ``drho = -e + C w``, ``C^2 = H``: ``(I + C K C) w + db c = C K e``, ``c' w = sum e - sum rho``, symmetric,
    with eigenvalues from one up, and fit for samples without curvature.
    """
    z = point.f + point.b
    gradient = problem.weight * problem.loss.derivative(problem.y, z)
    root = np.sqrt(problem.weight * problem.loss.second_derivative(problem.y, z))
    violation = point.rho + gradient
    change = -(gram @ violation)  # of the scores, K drho
    drho, products = -violation, 1
    project = Projection(root, problem.fit_intercept)
    w = project.particular(float(violation.sum() - point.rho.sum()))
    if w.any():
        moved = gram @ (root * w)
        change, drho, products = change + moved, drho + root * w, 2
    else:
        moved = np.zeros_like(change)
    image = np.zeros_like(change)

    def product(direction: Array) -> Array:
        nonlocal image
        check_deadline()
        image = gram @ (root * direction)
        return project(direction + root * image)

    system = ConjugateGradients(product, project(-root * change - w))
    enough = max(FORCING * system.size, room)
    while system.size > enough and products < MOST_PRODUCTS:  # at most MOST_PRODUCTS
        change = change + system.step() * image
        products += 1
    w, drho = w + system.x, drho + root * system.x
    db = project.multiplier(-root * change - w)
    slope = float(gradient @ (change + db) + point.rho @ change)
    return _Step(drho, db, change, slope, products)


class Projection:
    """On the vectors orthogonal to ``c``, if there is an intercept and any curvature."""

    def __init__(self, c: Array, fit_intercept: bool) -> None:
        self._c, self._square = c, float(c @ c) if fit_intercept else 0.0

    def __call__(self, vector: Array) -> Array:
        return vector - self.multiplier(vector) * self._c if self._square > 0 else vector

    def multiplier(self, vector: Array) -> float:
        """Return how much of ``c`` is in a vector: the intercept."""
        return float(self._c @ vector) / self._square if self._square > 0 else 0.0

    def particular(self, total: float) -> Array:
        """Return the shortest ``w`` with ``c' w = total``."""
        return self._c * (total / self._square) if self._square > 0 else np.zeros_like(self._c)


def _backtrack(problem: Problem, point: _Point, step: _Step) -> _Point | None:
    """Return the first of the points at 1, 1/2, 1/4, ... of a step with sufficient decrease; None if none."""
    length = 1.0
    # share of the slope that a step must keep, and how often it is halved for that
    sufficient, most_halvings = 1e-4, 40
    for _ in range(most_halvings):
        rho, b = point.rho + length * step.rho, point.b + length * step.b
        found = _Point.evaluate(problem, point.f + length * step.f, rho, b)
        if found.value <= point.value + sufficient * length * step.slope:
            return found
        length *= 0.5
    return None
