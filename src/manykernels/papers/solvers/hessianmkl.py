"""HessianMKL: Newton's method over kernel weights on the simplex.

With ``J`` of `simplex_point`, ``q_m = K_m rho / (w_m^2 lambda)`` and F the samples whose coefficients are free,

    dJ/dtheta_m = -rho'q_m / 2,      d2J/(dtheta_k dtheta_m) = q_k' A q_m,      A = (W_FF + sum_m d_m K_FF)^-1
"""

import warnings
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.linalg import LinAlgError, LinAlgWarning, lstsq, solve

from manykernels.objective.problem import Problem
from manykernels.papers.solvers.simplex_point import (
    MANY,
    MOST_EXCHANGES,
    PROGRAM_ROUNDING,
    RIDGE,
    SimplexMethod,
    SimplexPoint,
    kernel_weights,
    search_line,
)
from manykernels.solvers.gram.newton_system import NewtonSystem
from manykernels.solvers.solution import Model
from manykernels.validation.arrays import Array

# Quadratic programs on the simplex, by an active set: exact zeros and no other solver.


def minimize_on_simplex(hessian: Array, linear: Array, start: Array) -> Array:
    """Minimize ``linear'x + x'hessian x / 2`` over ``x >= 0``, ``sum x = 1``.

    A primal active-set method: solve for the free variables; go there, or as far as the first of them reaches zero;
    once there, free the variable whose multiplier is most negative.
    """
    size = max(float(hessian.diagonal().max()), float(np.abs(linear).max()))
    if size == 0:
        return start
    hessian = hessian + RIDGE * size * np.eye(linear.size)
    x = start if np.count_nonzero(start) <= MANY else _best_vertex(hessian, linear)
    free = x > 0
    for _ in range(MOST_EXCHANGES * linear.size):
        target, multiplier = _free_minimum(hessian, linear, free)
        x, free, blocked = _move_toward(x, target, free)
        if blocked:
            continue
        bent = hessian[:, free] @ x[free]
        slopes = np.where(free, 0.0, bent + linear - multiplier)
        worst = int(slopes.argmin())
        if slopes[worst] >= -PROGRAM_ROUNDING * (np.abs(linear).max() + np.abs(bent).max()):
            break
        free[worst] = True
    return x / x.sum()


def _best_vertex(hessian: Array, linear: Array) -> Array:
    x = np.zeros(linear.size)
    x[int((linear + 0.5 * hessian.diagonal()).argmin())] = 1.0
    return x


def _free_minimum(hessian: Array, linear: Array, free: Array) -> tuple[Array, float]:
    """Minimize over the free variables with unit sum, of any sign; return the point and the multiplier."""
    size = int(free.sum())
    scale = float(hessian[free, free].mean())
    bordered = np.full((size + 1, size + 1), -scale)
    bordered[:size, :size], bordered[size, size] = hessian[np.ix_(free, free)], 0.0
    found = _solution(bordered, np.append(-linear[free], -scale))
    target = np.zeros(linear.size)
    target[free] = found[:size]
    return target, scale * float(found[size])


def _solution(matrix: Array, right: Array) -> Array:
    """Solve a symmetric system; where hundreds of equal rows leave no digits, return the smallest solution."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", LinAlgWarning)
        try:
            solution: Array = solve(matrix, right, assume_a="sym")
        except (LinAlgError, LinAlgWarning):
            solution = lstsq(matrix, right)[0]
    return solution


def _move_toward(x: Array, target: Array, free: Array) -> tuple[Array, Array, bool]:
    """Go to the target, or to the first variable reaching zero, then fixed."""
    falling = np.flatnonzero(free & (target < 0))
    if falling.size == 0:
        return target, free, False
    shares = x[falling] / (x[falling] - target[falling])
    first = falling[int(shares.argmin())]
    moved = np.maximum(x + float(shares.min()) * (target - x), 0.0)
    moved[first] = 0.0
    kept = free.copy()
    kept[first] = False
    return moved, kept, True


@dataclass
class _State:
    point: SimplexPoint


@dataclass(frozen=True, kw_only=True)
class HessianMKL(SimplexMethod):
    """Newton's method on kernel weights (Chapelle and Rakotomamonjy 2008).

    Minimizes ``J(theta) = min_{f,b} sum_i s_i l(y_i, f_i + b) + (lambda/2) sum_m t_m^2 / theta_m`` over the simplex.
    With ``q_m = K_m rho / (w_m^2 lambda)`` and F the samples whose coefficient is not at an end of the box::

        dJ/dtheta_m = -rho'q_m / 2
        d2J/(dtheta_k dtheta_m) = q_k' A q_m,      A = (W_FF + sum_m d_m K_FF)^{-1}, bordered by the intercept

    where ``W = 1/(s l'')`` (zero for the hinge, as printed in the paper). The quadratic model is minimized on the
    simplex exactly; a line search follows where the full step does not help.

    Notes
    -----
    Costs a single product of every kernel with ``rho`` and M right-hand sides a step, so M up to a few hundred.

    References
    ----------
    O. Chapelle, A. Rakotomamonjy, "Second order optimization of kernel parameters", NIPS workshop 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective.problem import Problem
    >>> from manykernels.objective.regularizers import Simplex
    >>> kernels = np.stack([np.eye(4), np.ones((4, 4)), np.outer([1, -1, 1, -1], [1, -1, 1, -1])])
    >>> problem = Problem(kernels, [1.0, -1.0, 1.0, -1.0], "hinge", Simplex(0.1))
    >>> HessianMKL(tol=1e-6).solve(problem).kernel_weights.round(6).tolist()
    [0.0, 0.0, 10.0]
    """

    name: ClassVar[str] = "hessianmkl"

    def initialize(self, problem: Problem, start: Model) -> _State:
        """Start from the weights of the given model, or from equal weights."""
        return _State(self.first_point(problem, start))

    def step(self, problem: Problem, state: _State) -> None:
        """Minimize the quadratic model on the simplex and go there, or as far as ``J`` falls."""
        point = state.point
        hessian = weight_hessian(point)
        target = minimize_on_simplex(hessian, point.slopes - hessian @ point.theta, point.theta)
        direction = target - point.theta
        slope = float(point.slopes @ direction)
        if not slope < 0:
            return
        end = point.move(target, self.tol)
        # a full step is taken if the slope at its end is at most this part of the first, of either sign
        slope_reversed = 0.9
        if float(end.slopes @ direction) > -slope_reversed * slope:
            end = search_line(point, direction, 1.0, end, self.tol)
        state.point = replace(end, steps=end.steps + 1)


def weight_hessian(point: SimplexPoint) -> Array:
    """Return the Hessian of ``J`` in the weights, (M, M)."""
    problem, rho = point.problem, point.fit.rho
    flexibility, free = _flexibility(problem, rho, point.fit.b + _scores(point))
    units = kernel_weights(problem, np.ones(problem.n_kernels))
    products = problem.stack.apply_each(rho)[:, free] * units[:, None]
    if not free.any():
        return np.zeros((problem.n_kernels, problem.n_kernels))
    matrix = problem.stack.combine(kernel_weights(problem, point.theta))[np.ix_(free, free)]
    jitter = 1e-12  # of the mean diagonal of the combined kernel, added for piecewise linear losses
    matrix[np.diag_indices_from(matrix)] += flexibility[free] + jitter * matrix.diagonal().mean()
    system = NewtonSystem(matrix, problem.fit_intercept)
    hessian = products @ system.solve_each(products).T
    return (hessian + hessian.T) / 2


def _scores(point: SimplexPoint) -> Array:
    return point.problem.stack.apply(kernel_weights(point.problem, point.theta), point.fit.rho)


def _flexibility(problem: Problem, rho: Array, scores: Array) -> tuple[Array, Array]:
    """Return the change of every score per coefficient along the loss, and the movable coefficients."""
    loss = problem.loss
    if loss.entropic:
        curvature = problem.weight * loss.second_derivative(problem.y, scores)
        free = curvature > np.finfo(np.float64).tiny
        return 1.0 / np.where(free, curvature, 1.0), free
    low, high = problem.dual_box
    off_the_ends = 1e-10  # of the largest coefficient: how far inside its box a coefficient must be to be free
    distance = off_the_ends * float(np.abs(rho).max())
    free = (rho - low > distance) & (high - rho > distance)
    if loss.kink > 0:
        free &= np.abs(rho) > distance
    return loss.conjugate_second_derivative(problem.y, rho / problem.weight) / problem.weight, free
