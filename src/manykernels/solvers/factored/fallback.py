"""Where N x N matrices do what factors cannot: the Gram solvers' answer to a problem on a factored stack."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.exceptions import ConvergenceWarning
from manykernels.grams.factored import FactoredStack
from manykernels.grams.factored.base import columns_of
from manykernels.grams.plan import SQUARE_ARRAYS, memory_bytes
from manykernels.objective.losses.curvature import inner
from manykernels.objective.problem import Problem
from manykernels.solvers.base import in_order
from manykernels.solvers.factored.objective import Point, per_output
from manykernels.solvers.factored.state import Component, Fallback
from manykernels.solvers.factored.tuning import FALLBACK_SAMPLES, LAZY_ENTRY, LITTLE, MATRIX_FACTORS
from manykernels.solvers.gram.block_coordinate import BlockCoordinate
from manykernels.solvers.gram.interior_point import InteriorPoint
from manykernels.solvers.gram.shared_newton import SharedNewton
from manykernels.solvers.gram.smooth_dual import SmoothDual
from manykernels.solvers.gram.working_set import WorkingSet
from manykernels.solvers.solution import Solution

Array = NDArray[Any]

ON_MATRICES = (WorkingSet, InteriorPoint, SmoothDual, SharedNewton, BlockCoordinate)
"""Who goes on where factors end, in the order of preference: the library's own solvers of Gram matrices."""


@dataclass(frozen=True)
class GramResult:
    """What the loop takes over: scores and intercept, the objective recomputed from kernel values, the solution.

    ``kernels`` are those with a function, ``norms`` their block norms with penalties.
    """

    point: Point
    primal: float
    kernels: Array
    norms: Array
    fallback: Fallback


def matrices_do(problem: Problem) -> bool:
    """Whether N x N matrices are cheap, and their answer proves as much: its slopes do not of a joint loss."""
    return problem.n_samples <= FALLBACK_SAMPLES and not (problem.shared or problem.loss.couples_samples)


def matrices_cost_little(problem: Problem) -> bool:
    """Whether the Gram solvers take no time worth mentioning, whatever coefficients of factors would."""
    return matrices_do(problem) and LAZY_ENTRY * problem.n_kernels * problem.n_samples**2 <= LITTLE


def matrices_must(problem: Problem) -> bool:
    """Whether a kernel of several columns is so narrow that factors leave a part of it, and matrices are to be had.

    The dual coefficients of a loss with a kink end on their bounds: what factors leave of the kernel keeps a gap that
    smoothing does not close.
    """
    stack: Any = problem.stack
    n = problem.n_samples
    if problem.shared or problem.loss.couples_samples or stack.table.chunked or FALLBACK_SAMPLES == 0:
        return False
    if 8 * SQUARE_ARRAYS * n**2 > (memory_bytes(None) if stack.spare_bytes is None else stack.spare_bytes):
        return False
    return any(stack.left_over(m, MATRIX_FACTORS) > 0 for m in range(stack.n_kernels))


def stays_on_workers(stack: FactoredStack) -> bool:
    """Whether vectors stay with rows that are elsewhere; N x N matrices of few rows need them here."""
    return stack.table.distributed and stack.n_samples > FALLBACK_SAMPLES


def solve_gram(problem: Problem, stack: FactoredStack, tol: float, time_limit: float) -> GramResult:
    """Solve with the Gram solver that suits the problem; kernels are evaluated as it asks for them."""
    solution = solved(problem, tol, time_limit)
    every = np.arange(problem.n_kernels)
    return result_of(problem, stack, solution, every, set(every.tolist()))


def solved(problem: Problem, tol: float, time_limit: float, start: Solution | None = None) -> Solution:
    """Return the solution of the Gram solver that suits a problem, from another solution."""
    options = {"tol": tol} | ({"time_limit": max(time_limit, 1.0)} if np.isfinite(time_limit) else {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the caller warns, with the gap of the exact kernels
        return next(in_order(problem, ON_MATRICES)).configured(**options).solve(problem, start)


def result_of(
    problem: Problem, stack: FactoredStack, solution: Solution, kernels: Array, whole: set[int]
) -> GramResult:
    """Return the functions that a solution on these kernels means, and their objective in the exact kernels."""
    rho, active = solution.dual_coef, kernels[solution.active]
    weights = dict(zip(active.tolist(), solution.kernel_weights[solution.active].tolist(), strict=True))
    scores, shift = problem.constant_scores(0.0), 0.0
    found: dict[int, tuple[Component, float]] = {}
    for m in active.tolist():
        if m in whole:
            images = [stack.cross_apply(m, stack.table, column) for column in columns_of(rho)]
            image = np.array(images).T.reshape(rho.shape)
            norm = weights[m] * np.sqrt(max(inner(rho, image), 0.0))
            if norm > 0:  # by rounding it may be none, and what has no norm is no part of the model
                scores += weights[m] * image
                found[m] = Component(m, weights[m] * rho.T.ravel(), None), norm
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
    primal = problem.bound.largest(point.z, shift) + problem.regularizer.value(every)
    fallback = Fallback(solution, tuple(found[m][0] for m in active.tolist()), norms)
    return GramResult(point, primal, active, every[active], fallback)
