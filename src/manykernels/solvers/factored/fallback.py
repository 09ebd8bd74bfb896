"""Fallback from factors to N x N matrices: the Gram solvers on a factored stack."""

import warnings
from itertools import pairwise

import numpy as np

from manykernels.exceptions import ConvergenceWarning
from manykernels.grams import GramStack
from manykernels.grams.factored import FactoredStack
from manykernels.grams.factored.base import columns_of
from manykernels.grams.factored.landmarks import rank_limit
from manykernels.grams.plan import memory_bytes
from manykernels.objective.certificate import inner
from manykernels.objective.problem import Problem
from manykernels.solvers.base import accepting_solvers
from manykernels.solvers.factored.objective import Point, per_output
from manykernels.solvers.factored.state import Component, ExactContinuation
from manykernels.solvers.gram.block_coordinate import BlockCoordinate
from manykernels.solvers.gram.interior_point import InteriorPoint
from manykernels.solvers.gram.shared_newton import SharedNewton
from manykernels.solvers.gram.smooth_dual import SmoothDual
from manykernels.solvers.solution import Model, Solution, Status
from manykernels.validation.arrays import Array

MATRIX_FACTORS = 1e-9  # share of the trace that factors leave of kernels that N x N matrices are not formed of
SINGLE_PRECISION_TOL = 2e-5  # loosest gap that single precision of matrices could be felt in
ON_MATRICES = (InteriorPoint, SmoothDual, SharedNewton, BlockCoordinate)
"""Solvers that continue on the matrices of a working set, in the order of preference; it is chosen already."""


def allowed_bytes(stack: GramStack) -> int:
    """Return the available bytes for matrices beside factors."""
    return memory_bytes(None) if stack.spare_bytes is None else stack.spare_bytes


def matrix_first(stack: FactoredStack, kernel: int) -> bool:
    """Whether a kernel is to become a matrix as it enters, rather than after finer and finer factors.

    It has many directions, and there are no more than twice as many rows as landmarks: steps on an N x N matrix take
    less time than those on so many landmarks.
    """
    n = stack.table.n_rows
    return n <= 2 * rank_limit(n) and stack.many_directions(kernel)


def solve_by_grams(problem: Problem, tol: float, time_limit: float, start: Solution | None = None) -> Solution:
    """Return the solution of the suitable Gram solver, from another solution."""
    options = {"tol": tol} | ({"time_limit": max(time_limit, 1.0)} if np.isfinite(time_limit) else {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the caller warns, with the gap of the exact kernels
        return next(accepting_solvers(problem, ON_MATRICES)).configured(**options).solve(problem, start)


def start_at(problem: Problem, model: Model) -> Solution:
    """Return a model as a starting solution."""
    return Solution(*model, problem.certificate(*model), Status.MAX_ITER, solver="factored")


def _function_on_rows(
    problem: Problem, stack: FactoredStack, m: int, weight: float, rho: Array, scores: Array
) -> tuple[Component, float] | None:
    """Return the function of a kernel held as a matrix, with the norm, adding its scores; None without a norm."""
    images = [stack.cross_apply(m, stack.table, column) for column in columns_of(rho)]
    image = np.array(images).T.reshape(rho.shape)
    if m in problem.unpenalized:
        # Kernel sums of dual coefficients that are orthogonal to the function would cancel in all their digits.
        Z = stack.factor(m, MATRIX_FACTORS)
        v = np.linalg.lstsq(Z, weight * image, rcond=None)[0]
        scores += Z @ v
        return Component(m, v.T.ravel(), MATRIX_FACTORS), float(np.linalg.norm(v))
    norm = weight * np.sqrt(max(inner(rho, image), 0.0))
    if not norm > 0:  # rounding may leave none
        return None
    scores += weight * image
    return Component(m, weight * rho.T.ravel(), None), norm


def result_of(
    problem: Problem, stack: FactoredStack, solution: Solution, kernels: Array, whole: set[int]
) -> ExactContinuation:
    """Return the functions of a solution on the kernels, and the objective in the exact kernels."""
    rho, active = solution.dual_coef, kernels[solution.active]
    weights = dict(zip(active.tolist(), solution.kernel_weights[solution.active].tolist(), strict=True))
    scores, shift = problem.constant_scores(0.0), 0.0
    found: dict[int, tuple[Component, float]] = {}
    for m in (m for m in active.tolist() if m in whole):
        if (own := _function_on_rows(problem, stack, m, weights[m], rho, scores)) is not None:
            found[m] = own
    others = [m for m in active.tolist() if m not in whole]
    for operator in per_output(stack.operators(others, MATRIX_FACTORS), problem) if others else []:
        ranks = np.diff(operator.starts)
        v = operator.adjoint(rho) * np.repeat([weights[m] for m in operator.kernels.tolist()], ranks)
        operator.add_scores(v, scores)
        squares, errors = operator.excess(v)
        shift += float(errors.sum())
        for m, square, (low, high) in zip(operator.kernels.tolist(), squares, pairwise(operator.starts), strict=True):
            part = v[low:high].copy()
            found[m] = Component(m, part, MATRIX_FACTORS), float(np.sqrt(part @ part + square))
    active = np.array([m for m in active.tolist() if m in found], dtype=np.int64)
    norms = np.array([found[m][1] for m in active.tolist()])
    point = Point(np.zeros(0), solution.intercept, scores + problem.constant_scores(solution.intercept))
    every = np.zeros(problem.n_kernels)
    every[active] = problem.penalties[active] * norms
    primal = problem.bound.largest(point.z, shift) + problem.regularizer.value(problem.penalized(every))
    return ExactContinuation(solution, tuple(found[m][0] for m in active.tolist()), active, norms, point, primal)
