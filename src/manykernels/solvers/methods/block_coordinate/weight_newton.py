"""Newton's method on the weights, for learners on products: the alternation crawls where kernels resemble one another.

With the norms' penalty as ``Omega(t) = min_d sum_m t_m^2 / (2 d_m) + h(d)`` the weights minimize

    J(d) = max_rho { -L*(rho) - rho' K_d rho / 2 } + h(d),     dJ/dd_m = (bound_m(d) - u_m^2) / 2,

with ``bound`` the largest squared dual norm at which a kernel keeps the weight ``d_m`` (``C^2`` for the block 1-norm).
Its Hessian is ``v_m' (K_d + H^-1)^-1 v_n + h''``, ``v_m = K_m rho``, a few conjugate gradients for each kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

from manykernels.objective.capabilities import Capability
from manykernels.solvers.deadline import check_deadline
from manykernels.solvers.engines.fixed_weights.products import Projection, WeightedProducts
from manykernels.solvers.methods.block_coordinate.tuning import (
    FARTHEST_NEWTON,
    HESSIAN_ACCURACY,
    JITTER,
    MOST_COLUMNS,
    MOST_HESSIAN_PRODUCTS,
    RELEVANT,
)

if TYPE_CHECKING:
    from manykernels.objective.problem import Problem
    from manykernels.solvers.engines.fixed_weights.learners import LearnerFit
    from manykernels.validation.arrays import Array


def can_step(problem: Problem) -> bool:
    """Tell whether the penalty is a sum over norms whose bounds are known, and leaves the weights a choice."""
    regularizer = problem.regularizer
    low, high = regularizer.weight_range
    if low == high:
        return False  # as those of ridge: there is nothing to step for
    return not regularizer.weight_set and {Capability.MULTIPLIERS, Capability.SEPARABLE} <= regularizer.capabilities


def newton_weights(
    problem: Problem, gram: WeightedProducts, fit: LearnerFit, weights: Array, u: Array, following: Array
) -> Array | None:
    """Return the weights at the end of a Newton step, those of unimportant kernels as they follow; None if it fails."""
    bound, slope = problem.regularizer.norm_bound(weights)
    chosen = _relevant(weights * u * u, u * u > bound)
    if not chosen.size:
        return None
    gradient = 0.5 * (bound - u * u)[chosen]
    hessian = _hessian(problem, gram, fit, chosen) + np.diag(slope[chosen])
    hessian[np.diag_indices_from(hessian)] *= 1.0 + JITTER
    try:
        root = cholesky(hessian)
        target = root @ weights[chosen] - solve_triangular(root, gradient, trans="T")
        best = nnls(root, target)[0]
    except (np.linalg.LinAlgError, RuntimeError, ValueError):
        return None
    proposal = following.copy()
    proposal[chosen] = np.clip(best, 0.0, FARTHEST_NEWTON * (weights[chosen] + weights.max()))
    low, high = problem.regularizer.weight_range
    return np.clip(proposal, low, high if np.isinf(high) else (1.0 - JITTER) * high)


def _relevant(importance: Array, wanted: Array) -> Array:
    """Return the kernels that matter, or want to, the most important first; not too many."""
    score = importance / max(float(importance.max(initial=0.0)), np.finfo(np.float64).tiny)
    order = np.argsort(-np.where(wanted, score + 1.0, score), kind="stable")
    return np.sort(np.array([m for m in order if score[m] > RELEVANT or wanted[m]][:MOST_COLUMNS], dtype=np.intp))


def _hessian(problem: Problem, gram: WeightedProducts, fit: LearnerFit, kernels: Array) -> Array:
    """Return ``v_m' (K + H^-1)^-1 v_n`` on zero sums: ``(I + C K C) w + b c = C v``, ``C^2 = H``, column by column."""
    scores = gram @ fit.rho + fit.b
    root = np.sqrt(problem.weight * problem.loss.second_derivative(problem.y, scores))
    project = Projection(root, problem.fit_intercept)
    sides = problem.stack.apply_each(fit.rho, kernels)
    sides *= (problem.penalties[kernels] ** -2.0)[:, None] * root
    solved = np.empty((len(kernels), len(kernels)))
    for k, side in enumerate(sides):
        solved[:, k] = sides @ _solved(gram, root, project, side)
    return 0.5 * (solved + solved.T)


def _solved(gram: WeightedProducts, root: Array, project: Projection, side: Array) -> Array:
    """Return ``w`` of one column, to a share of the right side."""
    w, residual = np.zeros_like(side), project(side)
    direction, size = residual, float(residual @ residual)
    enough = HESSIAN_ACCURACY**2 * size
    for _ in range(MOST_HESSIAN_PRODUCTS):
        if size <= enough:
            break
        check_deadline()
        product = project(direction + root * (gram @ (root * direction)))
        length = size / float(direction @ product)
        w, residual = w + length * direction, residual - length * product
        previous, size = size, float(residual @ residual)
        direction = residual + (size / previous) * direction
    return w
