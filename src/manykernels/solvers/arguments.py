"""What is checked before a solver starts, so that a wrong argument is named at once."""

from __future__ import annotations

from typing import Any

from manykernels.exceptions import InvalidInputError
from manykernels.objective.problem import Problem
from manykernels.solvers.solution import Solution


def check_problem(problem: Any) -> None:
    """Raise ``InvalidInputError`` unless it is a `Problem`; most often somebody gave the kernels alone."""
    if not isinstance(problem, Problem):
        raise InvalidInputError(
            f"problem must be a Problem, got {type(problem).__name__}. Make one: "
            'Problem(kernels, y, get_loss("hinge"), get_regularizer("simplex", 0.1)).'
        )


def check_warm_start(warm_start: Any, n_samples: int, n_kernels: int) -> None:
    """Raise ``InvalidInputError`` unless it is None or a `Solution` on that many samples and kernels."""
    if warm_start is None:
        return
    if not isinstance(warm_start, Solution):
        raise InvalidInputError(f"warm_start must be None or a Solution, as solve returns it, got {warm_start!r}.")
    found = len(warm_start.dual_coef), warm_start.kernel_weights.size
    if found != (n_samples, n_kernels):
        raise InvalidInputError(
            f"warm_start has {found[0]} samples and {found[1]} kernels, but the problem has {n_samples} and "
            f"{n_kernels}. Give a solution on the same kernels and samples."
        )
