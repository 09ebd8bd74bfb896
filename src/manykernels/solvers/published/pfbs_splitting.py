"""One forward-backward step on blocks of functions, and the step sizes under which it descends.

Block ``j`` is the function ``f_j = sum_i a_ji k_j(., x_i) / w_j^2`` with norm ``t_j = w_j ||f_j||``, held as its
coefficients ``a_j`` and its values ``p_j = K_j a_j / w_j^2`` at the samples. A step reads each kernel once, for
``K_j rho``; the (MN, MN) matrix of the direct sum is never formed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse.linalg import eigsh

if TYPE_CHECKING:
    from manykernels.objective.problem import Problem
    from manykernels.objective.regularizers import Regularizer
    from manykernels.validation.arrays import Array


# Numbers of forward-backward splitting that follow from no theorem: they decide the time, not what is certified.
#
# `benchmarks/solvers.py --solvers pfbs` measures what they cost.


# Iteration
NEARLY_ACTIVE = 0.9  # of the bound above which a zero block becomes nonzero: such kernels are iterated on
FIRST_DAMPING, LOWEST_DAMPING, HIGHEST_DAMPING = 1e-2, 1e-12, 1.0
NEWTON_STEPS = 12  # most in an outer iteration
SHORT_STEP = 0.01  # below which a Newton step is tried again
MOST_RETRIES = 10

# Splitting
DIRECT_ORDER = 100  # up to which all eigenvalues are cheaper than Lanczos iterations
LANCZOS_TOLERANCE = 1e-3
LANCZOS_MARGIN = 1.01  # Lanczos comes from below, a bound must be above
INTERCEPT_STEPS = 8
ROUNDING = 1e-14  # relative; increases of the objective below it say nothing

# Newton steps on the support
SMALLEST_CURVATURE = 1e-14  # of a sample, relative to its weight
EARLY = 1e-4  # step at which the slope along a direction is measured
SUFFICIENT = 0.1  # share of the slope that a whole step must realize
AHEAD = 4.0  # steps that one looks ahead for bends of the loss


@dataclass
class Blocks:
    """Coefficients (m, N), values at the samples (m, N) and norms (m,) of the blocks of some kernels."""

    coefficients: Array
    values: Array
    norms: Array

    @classmethod
    def of(cls, coefficients: Array, values: Array) -> Blocks:
        """Return blocks with the norms that belong to these coefficients and values."""
        squares = np.einsum("mi,mi->m", coefficients, values)
        return cls(coefficients, values, np.sqrt(np.maximum(squares, 0.0)))

    def scores(self) -> Array:
        """Sum of all functions at the samples, (N,)."""
        return self.values.sum(axis=0)

    def beyond(self, previous: Blocks, momentum: float) -> Blocks:
        """Return the blocks extrapolated from ``previous`` through these; the norms are left as they are."""
        if momentum == 0.0:
            return self
        coefficients = self.coefficients + momentum * (self.coefficients - previous.coefficients)
        return Blocks(coefficients, self.values + momentum * (self.values - previous.values), self.norms)

    def scaled(self, factors: Array) -> Blocks:
        """Return each block multiplied by its factor."""
        column = factors[:, None]
        return Blocks(column * self.coefficients, column * self.values, factors * self.norms)

    def take(self, kernels: Array) -> Blocks:
        """Return the blocks at these positions."""
        return Blocks(self.coefficients[kernels], self.values[kernels], self.norms[kernels])


def best_intercept(problem: Problem, f: Array, start: float) -> float:
    """Minimize the loss over the intercept: Newton's method from ``start``, the loss's own method if that fails."""
    if not problem.fit_intercept:
        return 0.0
    loss, y, weight, b = problem.loss, problem.y, problem.weight, start
    if loss.linear_dual:
        return loss.best_intercept(y, f, weight)
    for _ in range(INTERCEPT_STEPS):
        slopes = weight * loss.derivative(y, f + b)
        slope, curvature = float(slopes.sum()), float(weight @ loss.second_derivative(y, f + b))
        if abs(slope) <= 1e-15 * float(np.abs(slopes).sum()):
            return b
        if curvature <= 0:
            break
        b -= slope / curvature
        if not np.isfinite(b):
            break
    return loss.best_intercept(y, f, weight)


def dual_vector(problem: Problem, f: Array, b: float) -> Array:
    """Return ``rho = -s l'(y, f + b)``, (N,)."""
    return -problem.weight * problem.loss.derivative(problem.y, f + b)


def forward_backward(problem: Problem, blocks: Blocks, rho: Array, sigma: Array) -> Blocks:
    """Return ``prox(a_j + rho / sigma_j)`` of every block."""
    steps = 1.0 / sigma
    products = problem.stack.apply_each(rho) * (steps / problem.penalties**2)[:, None]
    moved = Blocks.of(blocks.coefficients + steps[:, None] * rho, blocks.values + products)
    step = steps if takes_many_steps(problem.regularizer) else float(steps[0])
    shrunk = problem.regularizer.prox(moved.norms, step)  # type: ignore[arg-type]  # a step a block is allowed here
    return moved.scaled(np.divide(shrunk, moved.norms, out=np.zeros_like(shrunk), where=moved.norms > 0))


def takes_many_steps(regularizer: Regularizer) -> bool:
    """Whether the prox takes one step size a block: where it is a formula, not an iteration."""
    return regularizer.curve is not None and regularizer.curve.elastic


def objective(problem: Problem, blocks: Blocks, b: float) -> float:
    """Return the primal value of the blocks, which need not be proportional to one ``rho``."""
    return problem.empirical_loss(blocks.scores() + b) + problem.regularizer.value(blocks.norms)


def safe_sigma(problem: Problem) -> Array:
    """Return ``lambda_max(sum_j K_j / w_j^2)`` times the curvature of the loss, once for each kernel (M,).

    With it every step descends; more than half of it still converges.
    """
    return np.full(problem.n_kernels, _joint_curvature(problem, problem.penalties**-2.0))


def scaled_sigma(problem: Problem) -> Array:
    """Return inverse steps proportional to the traces of the kernels, as small as descent allows (M,).

    Steps ``1/sigma_j`` descend if ``lambda_max(sum_j K_j / (w_j^2 sigma_j))`` times the curvature is at most one. A
    kernel a thousand times smaller than another then takes steps a thousand times longer.
    """
    traces = problem.stack.diag() @ problem.weight / problem.penalties**2
    traces = np.where(traces > 0, traces, max(float(traces.max()), np.finfo(np.float64).tiny))
    return traces * _joint_curvature(problem, problem.penalties**-2.0 / traces)


def heuristic_sigma(problem: Problem) -> Array:
    """Return the largest of the ``lambda_max(K_j / w_j^2)`` times the curvature (M,): the rule of the PFBS paper.

    Kernels that are alike add up to a larger curvature than this, and the iteration diverges.
    """
    single = np.zeros(problem.n_kernels)
    largest = 0.0
    for kernel in range(problem.n_kernels):
        single[:] = 0.0
        single[kernel] = problem.penalties[kernel] ** -2.0
        largest = max(largest, _joint_curvature(problem, single))
    return np.full(problem.n_kernels, largest)


def _joint_curvature(problem: Problem, factors: Array) -> float:
    """Largest eigenvalue of ``S^(1/2) (sum_j factors_j K_j) S^(1/2)``, times the curvature of the loss; 1 if zero."""
    root = np.sqrt(problem.weight)
    matrix = problem.stack.combine(factors) * root * root[:, None]
    largest = problem.loss.curvature_bound * largest_eigenvalue(matrix)
    return largest if largest > 0 else 1.0


def largest_eigenvalue(matrix: Array) -> float:
    """Return an upper bound, one percent above at most, of the largest eigenvalue of a semidefinite matrix."""
    if matrix.shape[0] <= DIRECT_ORDER:
        return float(np.linalg.eigvalsh(matrix)[-1]) * (1.0 + ROUNDING)
    if not matrix.any():
        return 0.0
    start = np.random.default_rng(0).standard_normal(matrix.shape[0])
    found = eigsh(matrix, k=1, which="LA", tol=LANCZOS_TOLERANCE, v0=start, return_eigenvectors=False)
    return LANCZOS_MARGIN * float(found[0])
