"""The refit: what a search chose is learned on all rows, to the tolerance asked for, each with its certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from manykernels.estimators.selection.averages import Spectrum, can_average, fit_averages
from manykernels.estimators.selection.mixtures import Mixture
from manykernels.estimators.strength import AUTO
from manykernels.estimators.supervised.problems import Fit, end_of, solve_problems, time_left
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Regularizer
from manykernels.solvers import Solution, Solver, Status
from manykernels.solvers.run import CertifiedModel, Run
from manykernels.solvers.solution import Limits
from manykernels.validation.arrays import Array

SHARE = 1e-4  # of the tolerance, for the Newton steps of averages


def learned(
    problems: list[Problem],
    mixtures: Sequence[Mixture],
    regularizers: Sequence[Regularizer],
    starts: Sequence[Solution | None],
    solver: str | Solver,
    n_jobs: int | None,
    **settings: Any,
) -> Fit:
    """Solve each problem on the kernels of its mixture under its penalty, from a start where there is one.

    A time limit holds for all together.
    """
    until = end_of(settings.get("time_limit"))
    solutions: list[Solution | None] = [None] * len(problems)
    whole: list[Problem] = list(problems)
    norms = np.zeros((len(problems), problems[0].n_kernels))
    for mixture in dict.fromkeys(mixtures):
        at = [k for k, own in enumerate(mixtures) if own is mixture]
        mine = [replace(mixture.pose(problems[k]), regularizer=regularizers[k]) for k in at]
        left = settings | {"time_limit": time_left(until)}
        fit = mixture.embedded(
            _solved(mine, mixture, [starts[k] for k in at], solver, n_jobs, left), [problems[k] for k in at]
        )
        for k, problem, found, norm in zip(at, fit.problems, fit.solutions, fit.norms, strict=True):
            whole[k], norms[k] = problem, norm
            solutions[k] = found if len(mixture.kernels) == len(norm) else _with_all_dual_norms(found, problem)
    return Fit(whole, [found for found in solutions if found is not None], norms)


def _with_all_dual_norms(found: Solution, problem: Problem) -> Solution:
    """Return a solution whose certificate tells the dual norm of every kernel, also of those that took no part."""
    norms = problem.dual_norms(problem.feasible_dual(found.dual_coef))
    return replace(found, certificate=replace(found.certificate, dual_norms=norms))


def _solved(
    problems: list[Problem],
    mixture: Mixture,
    starts: Sequence[Solution | None],
    solver: str | Solver,
    n_jobs: int | None,
    settings: dict[str, Any],
) -> Fit:
    """Return averages from one eigendecomposition if that is accurate enough, else what the solver finds."""
    if in_closed_form(problems, mixture, solver):
        fit = _averaged(problems, settings)
        if all(found.status is Status.CONVERGED for found in fit.solutions):
            return fit
    return solve_problems(problems, solver, n_jobs, starts, **settings)


def in_closed_form(problems: list[Problem], mixture: Mixture, solver: str | Solver) -> bool:
    """Whether models of a mixture come from one eigendecomposition."""
    matrices, plain = not problems[0].stack.has_factors, solver == AUTO
    return matrices and plain and mixture.averages and can_average([problem.loss for problem in problems])


def _averaged(problems: list[Problem], settings: dict[str, Any]) -> Fit:
    first = problems[0]
    gram = first.stack.combine(1.0 / first.penalties**2)
    spectrum = Spectrum.of(gram, np.empty((0, first.n_samples)), centered=first.fit_intercept)
    targets = np.column_stack([problem.y for problem in problems])
    strengths = np.array([problem.regularizer.strength for problem in problems])
    losses = [problem.loss for problem in problems]
    models = fit_averages(spectrum, losses, targets, first.weight, strengths, tol=SHARE * settings["tol"])
    scores = models.scores(spectrum.features)
    solutions = [_certified(*each, settings) for each in zip(problems, scores.T, strict=True)]
    norms = [
        problem.model_parts(found.dual_coef, found.kernel_weights)[1] / problem.penalties
        for problem, found in zip(problems, solutions, strict=True)
    ]
    return Fit(problems, solutions, np.array(norms))


def _certified(problem: Problem, scores: Array, settings: dict[str, Any]) -> Solution:
    """Return the model of given scores at the weights ``d_m = 1 / (C w_m^2)``, with its certificate."""
    weights = 1.0 / (problem.regularizer.strength * problem.penalties**2)
    rho = problem.feasible_dual(problem.weight * problem.loss.dual_from_scores(problem.y, scores))
    f = problem.stack.apply(weights, rho)
    b = problem.loss.best_intercept(problem.y, f, problem.weight) if problem.fit_intercept else 0.0
    own: dict[str, Any] = {name: settings.get(name) for name in ("time_limit", "callback")}
    limits = Limits(tol=settings["tol"], verbose=settings.get("verbose", 0), name="eigenvectors", **own)
    certificate = problem.certificate(rho, weights, b)
    model = CertifiedModel(rho, weights, b, certificate, problem.stack.counters.passes, 1)
    run: Run[CertifiedModel] = Run(limits, "The average of the kernels")
    return run.follow(iter([model])).solution()
