"""Every solver on 200 small nasty problems against CVXPY and Clarabel, and its certificate against plain NumPy.

The default solver meets 300 more, of the quantile, the Poisson and the gamma loss. Two problems of each loss and each
regularizer are solved in every run of the tests, the others nightly.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.support.conic import ConicOptimum
from tests.support.matrices import ON_MATRICES
from tests.support.optima import COUNT, MORE, MORE_LOSSES, all_cases, problem_at, stored_optimum

from manykernels.objective.losses import get_loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import get_regularizer
from manykernels.solvers import solve
from manykernels.solvers.registry import SOLVERS
from manykernels.solvers.solution import Solution
from manykernels.testing.problems import SmallProblem, random_problem, small_cases
from manykernels.testing.solver import build_problem, check_certificate

ALWAYS = 2  # problems of each solver, loss and regularizer that are no nightly ones
FEWER = {"levelmkl": 50}  # an iteration solves a linear and a quadratic program


def accepts(solver: str, loss: str, regularizer: str) -> bool:
    """Return what the solver says of any problem of this loss and this regularizer."""
    return solver == "auto" or not SOLVERS[solver].refusals(example(loss, regularizer))


@cache
def example(loss: str, regularizer: str) -> Problem:
    """Return one problem of this loss and this regularizer."""
    return build_problem(random_problem(0, loss=loss, regularizer=regularizer))


# What a solver refuses is not collected: `test_a_refusal_depends_on_loss_and_regularizer_only` looks at all problems.
PAIRS = [
    (solver, index)
    for solver in ("auto", *ON_MATRICES)
    for index, (loss, regularizer, _, _) in enumerate(small_cases(FEWER.get(solver, COUNT)))
    if accepts(solver, loss, regularizer)
] + [("auto", index) for index in range(COUNT, COUNT + MORE * len(MORE_LOSSES))]


def marked(pairs: list[tuple[str, int]]) -> list[Any]:
    """Return the pairs, all but the first few of each solver, loss and regularizer as nightly ones."""
    seen: Counter[tuple[str, str, str]] = Counter()
    found, cases = [], all_cases()
    for solver, index in pairs:
        _, loss, regularizer, _, _ = cases[index]
        seen[case := (solver, loss, regularizer)] += 1
        found.append(pytest.param(solver, index, marks=[pytest.mark.nightly] * (seen[case] > ALWAYS)))
    return found


def solve_small(small: SmallProblem, solver: str, tol: float = 1e-8) -> Solution:
    """Call the public function as a user would."""
    return solve(
        small.kernels,
        small.y,
        loss=get_loss(small.loss_name, **small.loss_params),
        penalty=get_regularizer(small.regularizer_name, small.strength, **small.regularizer_params),
        strength=small.strength,
        fit_intercept=small.fit_intercept,
        sample_weight=small.sample_weight,
        kernel_penalties=small.kernel_penalties,
        solver=solver,
        tol=tol,
    )


def attainable(solver: str) -> float:
    """Return the relative gap that the solver is asked for: 1e-8, or what it declares to attain."""
    return 1e-8 if solver == "auto" else SOLVERS[solver].attainable_gap


def check_objective(solution: Solution, best: ConicOptimum, rel: float = 1e-6) -> None:
    """Assert that the objective equals the optimum to 1e-6, relative, or to what the solver attains."""
    assert solution.certificate.primal == pytest.approx(best.primal, rel=rel)


@pytest.mark.parametrize(("solver", "index"), marked(PAIRS))
def test_objective_and_certificate(solver: str, index: int) -> None:
    small = problem_at(index)
    gap = attainable(solver)
    solution = solve_small(small, solver, tol=gap)
    assert solution.certificate.relative_gap <= gap
    check_objective(solution, stored_optimum(index), rel=max(1e-6, gap))
    check_certificate(small, solution)


@cache
def posed(problems: tuple[SmallProblem, ...]) -> list[Problem]:
    return [build_problem(small) for small in problems]


@pytest.mark.parametrize("solver", ON_MATRICES)
def test_a_refusal_depends_on_loss_and_regularizer_only(solver: str, problems: tuple[SmallProblem, ...]) -> None:
    told = [not SOLVERS[solver].refusals(problem) for problem in posed(problems)]
    assert told == [accepts(solver, small.loss_name, small.regularizer_name) for small in problems]
    assert any(told)


@pytest.mark.parametrize("part", ["dual_coef", "kernel_weights", "intercept", "certificate"])
def test_a_corrupted_solution_is_caught(part: str) -> None:
    small = problem_at(0)
    solution = solve_small(small, "auto")
    certificate = solution.certificate
    changed = {
        "dual_coef": solution.dual_coef * np.linspace(0.999, 1.001, small.y.size),
        "kernel_weights": solution.kernel_weights * (1 + 1e-4),
        "intercept": solution.intercept + 1e-3,
        "certificate": replace(certificate, primal=certificate.primal * (1 + 2e-9)),
    }[part]
    check_certificate(small, solution)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_certificate(small, replace(solution, **{part: changed}))


def test_a_wrong_objective_is_caught() -> None:
    solution = solve_small(problem_at(0), "auto")
    check_objective(solution, stored_optimum(0))
    wrong = replace(solution.certificate, primal=solution.certificate.primal * (1 + 2e-6))
    with pytest.raises(AssertionError, match="comparison failed"):
        check_objective(replace(solution, certificate=wrong), stored_optimum(0))
