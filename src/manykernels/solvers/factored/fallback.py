"""Where N x N matrices do what factors cannot: the Gram solvers' answer to a problem on a factored stack."""

import warnings
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from manykernels.exceptions import ConvergenceWarning
from manykernels.grams import GramStack
from manykernels.grams.factored import FactoredStack
from manykernels.grams.factored.base import columns_of
from manykernels.grams.factored.landmarks import rank_limit
from manykernels.grams.packed import PackedStack
from manykernels.grams.plan import FLOOR_BYTES, memory_bytes, stack_nbytes, working_nbytes
from manykernels.grams.seconds import CUBE
from manykernels.objective.certificate import inner
from manykernels.objective.problem import Problem
from manykernels.solvers.base import in_order
from manykernels.solvers.factored.objective import Point, per_output
from manykernels.solvers.factored.state import Component, ExactContinuation
from manykernels.solvers.factored.tuning import (
    FEW_KERNELS,
    KINKED_STEPS,
    LANDMARK_STEPS,
    LAZY_ENTRY,
    LITTLE,
    MATRIX_FACTORS,
    MATRIX_STEPS,
    PRODUCT,
    SMOOTH_STEPS,
    SMOOTHED_STEPS,
    STEP,
    WORTH_A_WAIT,
)
from manykernels.solvers.gram.block_coordinate import BlockCoordinate
from manykernels.solvers.gram.interior_point import InteriorPoint
from manykernels.solvers.gram.shared_newton import SharedNewton
from manykernels.solvers.gram.smooth_dual import SmoothDual
from manykernels.solvers.gram.working_set import WorkingSet
from manykernels.solvers.solution import Model, Solution, Status
from manykernels.validation.arrays import Array

ON_MATRICES = (WorkingSet, InteriorPoint, SmoothDual, SharedNewton, BlockCoordinate)
"""Solvers of Gram matrices that continue where factors end, in the order of preference."""
ON_FEW = (InteriorPoint, *(solver for solver in ON_MATRICES if solver is not InteriorPoint))
"""The same on the few kernels of a working set: it is chosen already, and to choose from it again costs steps."""


def cost_little(n_kernels: int, n_samples: int, *, patient: bool = False) -> bool:
    """Whether the Gram solvers take no time worth mentioning, or so little that it is worth the wait."""
    seconds = LAZY_ENTRY * n_kernels * n_samples**2 + CUBE * float(n_samples) ** 3
    return seconds <= LITTLE * (WORTH_A_WAIT if patient else 1.0)


def sooner_on_matrices(problem: Problem, rank: int, products: float, interior: int = 0) -> bool:
    """Whether steps on N x N matrices are predicted to take less in all than on so many coefficients of factors.

    One on matrices costs a cube of the number of samples and sums of factors, one on factors so many ``products``.
    Those on matrices are fewer where a loss has a kink, and would be smoothed on factors, and more where it is smooth.
    By interior points they are as many, or ``interior`` where these have come some way.
    """
    if problem.shared:
        return False
    n = float(problem.n_samples)
    kinked = interior or SMOOTHED_STEPS * np.sqrt(rank / n)
    factors, matrices = (SMOOTH_STEPS, MATRIX_STEPS) if problem.loss.smooth else (kinked, KINKED_STEPS)
    return bool(matrices * (STEP + PRODUCT * n**2 * (n + rank)) <= factors * (STEP + PRODUCT * products))


def matrices_cost_little(problem: Problem, *, patient: bool = False) -> bool:
    """Whether N x N matrices are cheap, and their answer proves as much: its slopes do not of a coupled loss."""
    stack: Any = problem.stack
    alone = not (problem.shared or problem.loss.couples_samples or stack.shaped)
    cheap = alone and cost_little(problem.n_kernels, problem.n_samples, patient=patient)
    return cheap and working_nbytes(problem.n_kernels, problem.n_samples) - FLOOR_BYTES <= allowed_bytes(problem.stack)


def allowed_bytes(stack: GramStack) -> int:
    """Return the bytes that matrices beside factors may take."""
    return memory_bytes(None) if stack.spare_bytes is None else stack.spare_bytes


def matrix_first(stack: FactoredStack, kernel: int) -> bool:
    """Whether a kernel is to become a matrix as it enters, rather than after finer and finer factors.

    It has many directions, and the steps on N x N matrices should take less time than those on its landmarks.
    """
    n = stack.table.n_rows
    return CUBE * float(n) ** 2 <= LANDMARK_STEPS * float(rank_limit(n)) ** 2 and stack.many_directions(kernel)


def stays_on_workers(stack: FactoredStack) -> bool:
    """Whether vectors stay with rows that are elsewhere; N x N matrices of few rows need them here."""
    return stack.table.distributed and not cost_little(stack.n_kernels, stack.n_samples)


def solve_gram(problem: Problem, stack: FactoredStack, tol: float, time_limit: float) -> ExactContinuation:
    """Solve with the Gram solver that suits the problem, on matrices that are evaluated once where there is room."""
    needed = stack_nbytes("packed", *stack.shape[:2], "float64") + working_nbytes(*stack.shape[:2], stored=True)
    room = needed - FLOOR_BYTES <= allowed_bytes(stack)
    own = replace(problem, stack=PackedStack.from_stack(stack)) if room else problem
    solution = solved(own, tol, time_limit)
    every = np.arange(problem.n_kernels)
    return result_of(problem, stack, solution, every, set(every.tolist()))


def solved(problem: Problem, tol: float, time_limit: float, start: Solution | None = None) -> Solution:
    """Return the solution of the Gram solver that suits a problem, from another solution."""
    options = {"tol": tol} | ({"time_limit": max(time_limit, 1.0)} if np.isfinite(time_limit) else {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the caller warns, with the gap of the exact kernels
        few = problem.stack.in_memory and problem.n_kernels <= FEW_KERNELS
        return next(in_order(problem, ON_FEW if few else ON_MATRICES)).configured(**options).solve(problem, start)


def start_at(problem: Problem, model: Model) -> Solution:
    """Return a model as a solution that others begin with."""
    return Solution(*model, problem.certificate(*model), Status.MAX_ITER, solver="factored")


def result_of(
    problem: Problem, stack: FactoredStack, solution: Solution, kernels: Array, whole: set[int]
) -> ExactContinuation:
    """Return the functions that a solution on these kernels means, and their objective in the exact kernels."""
    rho, active = solution.dual_coef, kernels[solution.active]
    weights = dict(zip(active.tolist(), solution.kernel_weights[solution.active].tolist(), strict=True))
    scores, shift = problem.constant_scores(0.0), 0.0
    found: dict[int, tuple[Component, float]] = {}
    for m in active.tolist():
        if m in whole:
            images = [stack.cross_apply(m, stack.table, column) for column in columns_of(rho)]
            image = np.array(images).T.reshape(rho.shape)
            if m in problem.unpenalized:
                # Kernel sums of dual coefficients that are orthogonal to the function would cancel in all their digits.
                Z = stack.factor(m, MATRIX_FACTORS)
                v = np.linalg.lstsq(Z, weights[m] * image, rcond=None)[0]
                scores += Z @ v
                found[m] = Component(m, v.T.ravel(), MATRIX_FACTORS), float(np.linalg.norm(v))
            elif (norm := weights[m] * np.sqrt(max(inner(rho, image), 0.0))) > 0:  # rounding may leave none
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
    primal = problem.bound.largest(point.z, shift) + problem.regularizer.value(problem.penalized(every))
    return ExactContinuation(solution, tuple(found[m][0] for m in active.tolist()), active, norms, point, primal)
