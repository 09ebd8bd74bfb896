"""Where N x N matrices are the smaller ones: the Gram solvers' answer to a problem on a factored stack."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.exceptions import ConvergenceWarning
from manykernels.grams.factored import FactoredStack
from manykernels.objective.joint_problem import JointProblem
from manykernels.objective.problem import Problem
from manykernels.solvers.engines.factored.objective import Point
from manykernels.solvers.methods.factored.tuning import FALLBACK_SAMPLES
from manykernels.solvers.registry import choose_solver
from manykernels.solvers.solution import Solution

Array = NDArray[Any]


@dataclass(frozen=True)
class Fallback:
    """A solution in N x N matrices, and its block norms without penalties (M,)."""

    solution: Solution
    norms: Array


@dataclass(frozen=True)
class GramResult:
    """What the loop takes over: scores and intercept, the objective recomputed from kernel values, the solution."""

    point: Point
    primal: float
    fallback: Fallback


def matrices_do(problem: Problem) -> bool:
    """Whether N x N matrices are cheap, and their answer proves as much: its slopes do not of a joint loss."""
    return problem.n_samples <= FALLBACK_SAMPLES and not isinstance(problem, JointProblem)


def solve_gram(problem: Problem, stack: FactoredStack, tol: float, time_limit: float) -> GramResult:
    """Solve with the Gram solver that suits the problem; kernels are evaluated as it asks for them."""
    options = {"tol": tol} | ({"time_limit": max(time_limit, 1.0)} if np.isfinite(time_limit) else {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the caller warns, with the gap of the exact kernels
        solution = choose_solver(problem)[0].configured(**options).solve(problem)
    rho, d = solution.dual_coef, solution.kernel_weights
    norms, scores = np.zeros(problem.n_kernels), np.zeros(problem.n_samples)
    for m in solution.active:
        image = stack.cross_apply(int(m), stack.table, rho)
        scores += d[m] * image
        norms[m] = d[m] * np.sqrt(max(float(rho @ image), 0.0))
    point = Point(np.zeros(0), solution.intercept, scores + solution.intercept)
    primal = problem.empirical_loss(point.z) + problem.regularizer.value(problem.penalties * norms)
    return GramResult(point, primal, Fallback(solution, norms))
