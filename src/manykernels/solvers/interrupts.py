"""Which stop was Ctrl-C, and which one the callback asked for: both leave the status "interrupted"."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from manykernels.solvers.solution import Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from manykernels.objective.problem import Problem
    from manykernels.solvers.base import Solver
    from manykernels.solvers.solution import IterationRecord, Solution


def _never() -> bool:
    return False


def solve_and_tell(
    solver: Solver, problem: Problem, warm_start: Solution | None = None, *, stop: Callable[[], bool] = _never
) -> tuple[Solution, bool]:
    """Solve a problem, and tell whether anything but the callback of the solver interrupted the run.

    A callback ends one run; Ctrl-C is meant for all that would follow.
    """
    asked = False

    def callback(record: IterationRecord) -> bool:
        nonlocal asked
        asked = solver.callback is not None and bool(solver.callback(record))
        return asked or stop()

    solution = replace(solver, callback=callback).solve(problem, warm_start)
    return solution, solution.status is Status.INTERRUPTED and not asked
