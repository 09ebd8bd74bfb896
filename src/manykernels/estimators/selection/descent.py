"""Down a grid of strengths: every problem is started from its solution before where that helps."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from manykernels.estimators.supervised.problems import Fit, chosen_solver
from manykernels.exceptions import ConvergenceWarning
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Regularizer
from manykernels.solvers import Solution, Solver, Status
from manykernels.solvers.gram.start import starts_warm
from manykernels.solvers.run import better_solution
from manykernels.validation.parameters import RandomSource

FINAL = (Status.CONVERGED, Status.INACCURATE, Status.STOPPED_BY_CALLBACK)  # a cold start would end no better
INTERIOR = frozenset({"working_set", "interior_point"})  # solvers whose iterates stay off the boundary
INSIDE = 1e-3  # relative gap from which on a model of theirs is far enough from it to start from


def descend(
    problems: list[Problem],
    regularizers: Iterable[Regularizer | Sequence[Regularizer]],
    solver: str | Solver,
    *,
    start: list[Solution] | None = None,
    random_state: RandomSource = None,
    **parameters: object,
) -> Iterator[Fit]:
    """Solve the problems under each penalty in turn, each started from its solution before; warnings are left out.

    An element of ``regularizers`` is the penalty of all problems or one for each; ``start`` has solutions to begin
    from.

    Interior-point iterations start from models of another strength where only the norms bound the coefficients: they
    take a third to a half of the Newton steps. With other bounds they are started afresh where the solution before is
    close: they gain nothing from a start at the boundary, where solutions lie, and can stall there.
    What does not converge from the solution before is started afresh too.
    """
    previous: list[Solution | None] = [None] * len(problems) if start is None else list(start)
    for given in regularizers:
        penalties = given if isinstance(given, Sequence) else [given] * len(problems)
        posed = [problem.with_penalty(own) for problem, own in zip(problems, penalties, strict=True)]
        solvers = [chosen_solver(solver, problem, random_state, **parameters) for problem in posed]
        solutions = [_solve_from(*each) for each in zip(posed, solvers, previous, strict=True)]
        previous = list(solutions)
        yield Fit(posed, solutions, np.array([found.kernel_norms for found in solutions]))


def without_bar(solver: str | Solver, verbose: int) -> str | Solver:
    """Return the solver, silenced if a bar over several models is shown: two bars cannot share a terminal."""
    return replace(solver, verbose=0) if isinstance(solver, Solver) and verbose > 0 else solver


def _solve_from(problem: Problem, solver: Solver, start: Solution | None) -> Solution:
    near = start is not None and start.certificate.relative_gap < INSIDE
    if near and solver.name in INTERIOR and not starts_warm(problem):
        start = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = _uninterrupted(problem, solver, start)
        if start is None or found.status in FINAL:
            return found
        return better_solution(found, _uninterrupted(problem, solver, None))


def _uninterrupted(problem: Problem, solver: Solver, start: Solution | None) -> Solution:
    """Solve; Ctrl-C is meant for all that would follow."""
    solution = solver.solve(problem, start)
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return solution
