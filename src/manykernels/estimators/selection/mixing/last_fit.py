"""The chosen candidates learned on all rows, to the tolerance that was asked for, each with its certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from manykernels.estimators.selection.mixing.averages import Spectrum, can_average, fit_averages
from manykernels.estimators.selection.mixing.spreading import spread, with_all_dual_norms
from manykernels.estimators.supervised.problems import Fit, end_of, solve_problems, time_left
from manykernels.grams.factored import FactoredStack
from manykernels.solvers import Solution, Status
from manykernels.solvers.run import CertifiedModel, Run
from manykernels.solvers.solution import Limits

if TYPE_CHECKING:
    from manykernels.estimators.selection.mixing.mixtures import Mixture
    from manykernels.objective.problem import Problem
    from manykernels.objective.regularizers import Regularizer
    from manykernels.solvers import Solver
    from manykernels.validation.arrays import Array

SHARE = 1e-4  # of the tolerance, for the Newton steps of averages


def learned(
    problems: list[Problem],
    mixtures: Sequence[Mixture],
    regularizers: Sequence[Regularizer],
    solver: str | Solver,
    n_jobs: int | None,
    **settings: Any,
) -> Fit:
    """Solve each problem on the kernels of its mixture under its penalty; a time limit holds for all together."""
    until = end_of(settings.get("time_limit"))
    solutions: list[Solution | None] = [None] * len(problems)
    whole: list[Problem] = list(problems)
    norms = np.zeros((len(problems), problems[0].n_kernels))
    for mixture in dict.fromkeys(mixtures):
        at = [k for k, own in enumerate(mixtures) if own is mixture]
        mine = [replace(mixture.pose(problems[k]), regularizer=regularizers[k]) for k in at]
        left = settings | {"time_limit": time_left(until)}
        fit = spread(_solved(mine, mixture, solver, n_jobs, left), mixture, [problems[k] for k in at])
        for k, problem, found, norm in zip(at, fit.problems, fit.solutions, fit.norms, strict=True):
            whole[k], norms[k] = problem, norm
            solutions[k] = found if len(mixture.kernels) == len(norm) else with_all_dual_norms(found, problem)
    return Fit(whole, [found for found in solutions if found is not None], norms)


def _solved(
    problems: list[Problem], mixture: Mixture, solver: str | Solver, n_jobs: int | None, settings: dict[str, Any]
) -> Fit:
    """Return averages from one eigendecomposition if that is accurate enough, else what the solver finds."""
    matrices = not isinstance(problems[0].stack, FactoredStack)
    if matrices and mixture.mixing == 0 and solver == "auto" and can_average([problem.loss for problem in problems]):
        fit = _averaged(problems, settings)
        if all(found.status is Status.CONVERGED for found in fit.solutions):
            return fit
    return solve_problems(problems, solver, n_jobs, **settings)


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
