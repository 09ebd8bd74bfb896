"""The squared loss without a kernel matrix: conjugate gradients on products with the stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from manykernels.solvers.deadline import check_deadline
from manykernels.solvers.engines.fixed_weights.tuning import MOST_PRODUCTS

if TYPE_CHECKING:
    from manykernels.grams.base import GramStack
    from manykernels.objective.problem import Problem
    from manykernels.validation.arrays import Array


class WeightedProducts:
    """The matrix ``sum_m d_m K_m`` as its products with vectors; a Gram matrix for those who only multiply."""

    def __init__(self, stack: GramStack, weights: Array) -> None:
        self._stack, self._weights = stack, weights

    def __matmul__(self, vector: Array) -> Array:
        return self._stack.apply(self._weights, vector)

    def any(self) -> bool:
        """Whether any kernel has a weight."""
        return bool(self._weights.any())


def weighted_sum(problem: Problem, weights: Array) -> Array | WeightedProducts:
    """Return ``sum_m d_m K_m`` as a matrix, or as products where that costs less and the loss needs no more."""
    if problem.stack.matrix_free and problem.loss.linear_dual:
        return WeightedProducts(problem.stack, weights)
    return problem.stack.combine(weights)


def conjugate_gradients(problem: Problem, gram: WeightedProducts, rho: Array, tol: float) -> tuple[Array, float, int]:
    """Solve ``(gram + L) rho + b = y``, ``sum rho = 0``, ``L = diag(curvature/s)``; return rho, b and the products.

    With ``r`` what the equations leave, ``r' L^-1 r / 2`` is the duality gap of the learner: iterations end where it is
    below ``tol`` times the dual value. ``L`` is the preconditioner, whatever the sample weights.
    """
    ridge = problem.loss.curvature / problem.weight
    left = problem.y - gram @ rho - ridge * rho
    residual, b, step = _projected(problem, left, ridge)
    direction, size, value = step, float(residual @ step), 0.0
    steps = 1
    while steps < MOST_PRODUCTS:
        value = 0.5 * float(rho @ (problem.y + residual))  # the dual value, since (gram + L) rho = y - b - residual
        if 0.5 * size <= tol * max(abs(value), problem.tiny):
            break
        check_deadline()
        product = gram @ direction + ridge * direction
        length = size / float(direction @ product)
        rho = rho + length * direction
        residual, change, step = _projected(problem, residual - length * product, ridge)
        b += change
        previous, size = size, float(residual @ step)
        direction = step + (size / previous) * direction
        steps += 1
    return rho, b, steps


def _projected(problem: Problem, left: Array, ridge: Array) -> tuple[Array, float, Array]:
    """Return what is left after the best intercept, that intercept, and the preconditioned direction of zero sum."""
    inverse = 1.0 / ridge
    b = float(inverse @ left / inverse.sum()) if problem.fit_intercept else 0.0
    residual = left - b
    return residual, b, residual * inverse
