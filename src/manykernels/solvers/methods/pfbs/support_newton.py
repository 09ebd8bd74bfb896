"""Newton's method on the support that a splitting method has identified.

With every block of the support away from zero the objective is smooth there. In the direct sum of the function spaces
its Hessian is the curvature ``H`` of the loss seen through the samples, plus one operator a block: ``g'(t)/t`` across
the block and ``g''(t)`` along it. The former is inverted by hand, which leaves a system of order N, bordered by minus
the steps ``x`` along the blocks:

    (H^-1 + A) v + Q' x - 1 db = -H^-1 rho,        Q v - R x = -g',        1'v = 0,        v = H dz - rho,
    A = sum_j (t_j/g'_j) (K_j - q_j q_j'),         q_j = f_j(X)/t_j   (rows of Q).

``R`` is the curvature along the blocks: a full matrix for weights on a simplex, and damped, since that of the block
1-norm vanishes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize_scalar

from manykernels.solvers.engines.newton_system import NewtonSystem
from manykernels.solvers.methods.pfbs.splitting import Blocks, best_intercept, dual_vector, objective
from manykernels.solvers.methods.pfbs.tuning import AHEAD, EARLY, SMALLEST_CURVATURE, SUFFICIENT

if TYPE_CHECKING:
    from manykernels.objective.problem import Problem
    from manykernels.objective.regularizers import Regularizer
    from manykernels.validation.arrays import Array

LARGEST_CURVATURE = 1.0 / np.finfo(np.float64).tiny  # of a block of zero norm, whose penalty may bend infinitely there


@dataclass(frozen=True)
class NewtonStep:
    """Where a Newton step on the support ends, and what cut it short.

    Attributes
    ----------
    blocks, b, value
        The end point and its objective.
    step : float
        In (0, 1].
    leaving : ndarray of shape (m,), bool
        Kernels of the support whose blocks a whole step would turn around.
    ahead : ndarray of shape (N,)
        Scores a little farther than the step went.
    """

    blocks: Blocks
    b: float
    value: float
    step: float
    leaving: Array
    ahead: Array


def newton_step(
    problem: Problem, support: Array, blocks: Blocks, b: float, damping: float, reference: Array | None = None
) -> NewtonStep:
    """Take a Newton step on the blocks of ``support``, as long as the objective falls; the others stay as they are."""
    chosen, scores = blocks.take(support), blocks.scores() + b
    reference = scores if reference is None else reference
    rho = dual_vector(problem, reference, 0.0)
    rho -= problem.weight * problem.loss.second_derivative(problem.y, reference) * (scores - reference)
    direction = support_direction(problem, support, chosen, reference, rho, damping)
    step = support_step(problem, support, blocks, b, direction)
    leaving = np.einsum("mi,mi->m", direction[0], chosen.values) < -(chosen.norms**2)
    if not problem.regularizer.sparse:
        leaving[:] = False
    ahead = scores + min(1.0, AHEAD * step) * (direction[1].sum(axis=0) + direction[2])
    found, b = _advanced(problem, support, blocks, b, direction, step)
    return NewtonStep(found, b, objective(problem, found, b), step, leaving, ahead)


def _advanced(
    problem: Problem, support: Array, blocks: Blocks, b: float, direction: tuple[Array, Array, float], step: float
) -> tuple[Blocks, float]:
    """Return the blocks after a step; those of a sparse regularizer that would turn around become zero."""
    coefficients, values = blocks.coefficients.copy(), blocks.values.copy()
    coefficients[support] += step * direction[0]
    values[support] += step * direction[1]
    if problem.regularizer.sparse:
        turned = np.einsum("mi,mi->m", coefficients, blocks.values) <= 0
        coefficients[turned], values[turned] = 0.0, 0.0
    found = Blocks.of(coefficients, values)
    return found, best_intercept(problem, found.scores(), b + step * direction[2])


def support_direction(
    problem: Problem, support: Array, blocks: Blocks, scores: Array, rho: Array, damping: float
) -> tuple[Array, Array, float]:
    """Return the Newton direction of coefficients (m, N), of values (m, N) and of the intercept."""
    slopes, compliances, radial = penalty_curvature(problem.regularizer.take(support), blocks.norms, damping)
    inverse_norms = np.divide(1.0, blocks.norms, out=np.zeros_like(blocks.norms), where=blocks.norms > 0)
    units = blocks.values * inverse_norms[:, None]
    weights = np.zeros(problem.n_kernels)
    weights[support] = compliances / problem.penalties[support] ** 2
    matrix = problem.stack.combine(weights) - units.T @ (compliances[:, None] * units)
    inverse_curvature = _inverse_curvature(problem, scores)
    matrix[np.diag_indices_from(matrix)] += inverse_curvature
    v, along, multiplier = _solve(matrix, problem.fit_intercept, units, radial, -inverse_curvature * rho, slopes)
    products = problem.stack.apply_each(v, support) * weights[support, None]
    relative = ((compliances * (units @ v) - along) * inverse_norms)[:, None]
    dcoefficients = relative * blocks.coefficients - compliances[:, None] * v
    return dcoefficients, relative * blocks.values - products, -multiplier


def _solve(
    matrix: Array, border: bool, units: Array, radial: Array, right: Array, slopes: Array
) -> tuple[Array, Array, float]:
    """Eliminate ``v``, not ``x``: the Schur complement stays well conditioned when ``R`` vanishes."""
    system = NewtonSystem(matrix, border)
    plain, plain_multiplier = system.solve(right, 0.0)
    solved = [system.solve(unit, 0.0) for unit in units]
    responses = np.array([part for part, _ in solved])
    schur = radial + units @ responses.T
    along = np.linalg.solve((schur + schur.T) / 2, units @ plain + slopes)
    multipliers = np.array([multiplier for _, multiplier in solved])
    return plain - along @ responses, along, plain_multiplier - float(along @ multipliers)


def _inverse_curvature(problem: Problem, scores: Array) -> Array:
    curvature = problem.loss.second_derivative(problem.y, scores)
    return 1.0 / (problem.weight * np.maximum(curvature, SMALLEST_CURVATURE))


def penalty_curvature(regularizer: Regularizer, t: Array, damping: float) -> tuple[Array, Array, Array]:
    """Return ``g'(t)`` (m,), ``t / g'(t)`` (m,) and the curvature ``R`` along the blocks (m, m), damped if sparse."""
    compliances = regularizer.weights_from_norms(t)
    radial = np.minimum(regularizer.hessian(t), LARGEST_CURVATURE)
    if regularizer.sparse:
        radial[np.diag_indices_from(radial)] += damping / compliances
    return regularizer.derivative(t), compliances, radial


def support_step(
    problem: Problem, support: Array, blocks: Blocks, b: float, direction: tuple[Array, Array, float]
) -> float:
    """Return 1 if the whole step lowers the objective enough, else the best step in (0, 1).

    Along a line scores are linear and squared norms quadratic, so that no kernel is read.
    """
    dcoefficients, dvalues, db = direction
    scores, change = blocks.scores() + b, dvalues.sum(axis=0) + db
    chosen, norms = blocks.take(support), blocks.norms.copy()
    linear = np.einsum("mi,mi->m", dcoefficients, chosen.values)
    square = np.einsum("mi,mi->m", dcoefficients, dvalues)

    def value(step: float) -> float:
        squares = chosen.norms**2 + step * (2 * linear + step * square)
        norms[support] = np.sqrt(np.maximum(squares, 0.0))
        return problem.empirical_loss(scores + step * change) + problem.regularizer.value(norms)

    start, whole, early = value(0.0), value(1.0), value(EARLY)
    if whole <= start + SUFFICIENT * min(early - start, 0.0) / EARLY:
        return 1.0
    return float(minimize_scalar(value, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-8}).x)
