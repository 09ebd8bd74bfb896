"""Targets whose kernel weights agree whatever the data, as under ridge: one factorization for all of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from manykernels.exceptions import ConvergenceWarning
from manykernels.grams.factored import FactoredStack
from manykernels.objective.capabilities import Capability
from manykernels.objective.problem import Problem
from manykernels.objective.shared import SharedProblem
from manykernels.solvers import SharedNewton, Solution, Solver, Status
from manykernels.solvers.run import CAUTION

ENDED = (Status.TIME_LIMIT, Status.STOPPED_BY_CALLBACK, Status.INTERRUPTED)  # nothing is to follow


def solved_together(
    problems: Sequence[Problem], solver: str | Solver, *, tol: float, **parameters: Any
) -> list[Solution] | None:
    """Return the solutions of problems that differ in their targets only, or None if they are no such problems.

    Under ridge the weights are fixed, so that the problem of all targets with shared weights falls apart into theirs.
    Each gets a certificate of its own; None as well if one of them is above ``tol``, unless the run was to end there.
    """
    if solver != "auto" or not _alike(problems):
        return None
    first = problems[0]
    whole = SharedProblem(
        first.stack,
        np.column_stack([problem.y for problem in problems]),
        first.loss,
        first.regularizer,
        fit_intercept=first.fit_intercept,
        sample_weight=first.weight,
        kernel_penalties=first.penalties,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = SharedNewton(tol=tol, **parameters).solve(whole)
    solutions = [_part(problem, found, t) for t, problem in enumerate(problems)]
    return solutions if found.status in ENDED or all(_reached(solution, tol) for solution in solutions) else None


def _alike(problems: Sequence[Problem]) -> bool:
    """Whether there are several, on N x N matrices, with the squared loss and a penalty that fixes all weights."""
    first = problems[0]
    fixed = Capability.FIXED_WEIGHTS in first.regularizer.capabilities and not first.shared
    same = all((problem.loss, problem.regularizer) == (first.loss, first.regularizer) for problem in problems)
    matrices = not isinstance(first.stack, FactoredStack)
    return matrices and fixed and same and len(problems) > 1 and first.loss.linear_dual and first.loss.curvature == 1


def _part(problem: Problem, found: Solution, target: int) -> Solution:
    """Return the solution of one target, with a certificate of its own and its share of the time."""
    rho, b = np.ascontiguousarray(found.dual_coef[:, target]), float(found.intercept[target])
    certificate = problem.certificate(rho, found.kernel_weights, b)
    message = f"converged: relative duality gap {certificate.relative_gap:.2e}, all targets by one factorization"
    message = found.message if found.status in ENDED else message
    elapsed = found.elapsed_s / found.dual_coef.shape[1]
    return replace(found, dual_coef=rho, intercept=b, certificate=certificate, message=message, elapsed_s=elapsed)


def _reached(solution: Solution, tol: float) -> bool:
    certificate = solution.certificate
    return (
        solution.status is Status.CONVERGED
        and certificate.relative_gap <= tol
        and certificate.relative_rounding <= CAUTION * tol
    )
