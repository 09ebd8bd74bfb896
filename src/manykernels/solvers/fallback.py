"""A second solver that goes on where the first one broke down."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

from manykernels.exceptions import ConvergenceWarning
from manykernels.solvers.solution import Status

if TYPE_CHECKING:
    from manykernels.objective.problem import Problem
    from manykernels.solvers.base import Solver
    from manykernels.solvers.solution import IterationRecord, Solution

WORTH_KEEPING = 0.5  # relative gap of a model above which a cold start is no worse


def rescued(solver: Solver, problem: Problem, stalled: Solution) -> Solution:
    """Go on with ``solver.rescuer`` from the best model of a run that stalled; return the better of both."""
    from manykernels.solvers.registry import SOLVERS

    limit = None if solver.time_limit is None else max(solver.time_limit - stalled.elapsed_s, 1e-9)
    second = SOLVERS[solver.rescuer](tol=solver.tol, time_limit=limit, callback=solver.callback, verbose=solver.verbose)
    warm = stalled if stalled.certificate.relative_gap < WORTH_KEEPING else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = second.solve(problem, warm)
    return _joined(stalled, found)


def _joined(first: Solution, second: Solution) -> Solution:
    better = second if second.certificate.relative_gap < first.certificate.relative_gap else first
    went_on = f"Solver '{first.solver}' stopped ({first.status}); '{second.solver}' went on from its best model. "
    return replace(
        better,
        status=second.status if better is second or second.status is Status.INTERRUPTED else first.status,
        message=went_on + better.message,
        history=first.history + tuple(_after(record, first) for record in second.history),
        passes=first.passes + second.passes,
        newton_steps=first.newton_steps + second.newton_steps,
        n_iter=first.n_iter + second.n_iter,
        elapsed_s=first.elapsed_s + second.elapsed_s,
        solver=first.solver,
    )


def _after(record: IterationRecord, first: Solution) -> IterationRecord:
    return replace(
        record,
        iteration=record.iteration + first.n_iter,
        elapsed_s=record.elapsed_s + first.elapsed_s,
        passes=record.passes + first.passes,
        newton_steps=record.newton_steps + first.newton_steps,
    )
