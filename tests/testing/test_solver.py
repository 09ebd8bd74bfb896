"""Each law of the solver contract catches a solver that breaks it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from manykernels.exceptions import ConvergenceWarning
from manykernels.objective import Capability
from manykernels.objective.problem import Problem
from manykernels.solvers.gram.interior_point import InteriorPoint
from manykernels.solvers.solution import Solution, Status
from manykernels.testing.solver import SolverContract

Corruption = Callable[[Problem, Solution], Solution]


def contract_of(corrupt: Corruption, **changes: Any) -> SolverContract:
    """Return the contract of a good solver whose answers are corrupted on the way out."""

    @dataclass(frozen=True, kw_only=True)
    class Corrupted(InteriorPoint):
        def solve(self, problem: Problem, warm_start: Solution | None = None) -> Solution:
            return corrupt(problem, super().solve(problem, warm_start))

    contract = SolverContract()
    contract.solver_class = type("Corrupted", (Corrupted,), changes)
    return contract


def certified(problem: Problem, solution: Solution, **changes: Any) -> Solution:
    """Return a changed model with its own, honest certificate."""
    changed = replace(solution, **changes)
    certificate = problem.certificate(changed.dual_coef, changed.kernel_weights, changed.intercept)
    return replace(changed, certificate=certificate)


def in_order(problem: Problem, solution: Solution) -> Solution:
    return replace(solution, kernel_weights=np.sort(solution.kernel_weights))


def scaled_model(problem: Problem, solution: Solution) -> Solution:
    return replace(solution, kernel_weights=1.01 * solution.kernel_weights)


def unhelpful(problem: Problem, solution: Solution) -> Solution:
    return certified(problem, solution, kernel_weights=1.01 * solution.kernel_weights)


def always_converged(problem: Problem, solution: Solution) -> Solution:
    return replace(solution, status=Status.CONVERGED)


def never_zero(problem: Problem, solution: Solution) -> Solution:
    return replace(solution, kernel_weights=solution.kernel_weights + 1e-12)


def warns_twice(problem: Problem, solution: Solution) -> Solution:
    if solution.status is not Status.CONVERGED:
        warnings.warn(solution.message, ConvergenceWarning, stacklevel=2)
    return solution


def forgets_warm_start(problem: Problem, solution: Solution) -> Solution:
    return replace(solution, n_iter=50)


def random_answer(problem: Problem, solution: Solution) -> Solution:
    return replace(solution, dual_coef=solution.dual_coef + np.random.default_rng().normal(size=problem.n_samples))


def uneven(problem: Problem, solution: Solution) -> Solution:
    """Return a primal that is off by an amount that depends on the problem."""
    shift = 1 + 1e-6 * np.sin(1e3 * problem.stack.diag().sum() + problem.n_samples)
    return replace(solution, certificate=replace(solution.certificate, primal=shift * solution.certificate.primal))


BROKEN = [
    ("test_converges_with_the_certificate_of_the_returned_model", scaled_model),
    ("test_converges_with_the_certificate_of_the_returned_model", unhelpful),
    ("test_permuted_kernels_give_permuted_weights", in_order),
    ("test_kernels_in_other_units_give_the_same_model", scaled_model),
    ("test_block_one_norm_strength_scales_with_the_root_of_the_unit", uneven),
    ("test_a_repeated_sample_counts_like_a_doubled_weight", uneven),
    ("test_solving_twice_gives_the_same_bits", random_answer),
    ("test_kernel_weights_are_on_the_boundary_of_their_set", unhelpful),
    ("test_an_iteration_limit_is_reported_with_the_gap", always_converged),
    ("test_an_iteration_limit_is_reported_with_the_gap", warns_twice),
    ("test_a_time_limit_is_kept", always_converged),
    ("test_a_callback_stops_the_run", always_converged),
    ("test_an_interrupt_returns_the_best_model_so_far", scaled_model),
    ("test_a_warm_start_from_the_solution_saves_iterations", forgets_warm_start),
    ("test_the_model_is_zero_at_the_strength_of_the_zero_model", never_zero),
]


@pytest.mark.parametrize(("law", "corrupt"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_a_broken_solver_breaks_the_law(law: str, corrupt: Corruption) -> None:
    with pytest.raises(AssertionError, match=r"\S"):
        getattr(contract_of(corrupt), law)()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("law", sorted({law for law, _ in BROKEN}))
def test_the_same_solver_uncorrupted_keeps_it(law: str) -> None:
    getattr(contract_of(lambda problem, solution: solution), law)()


def test_a_solver_that_refuses_everything_is_noticed() -> None:
    with pytest.raises(AssertionError, match="accepts none"):
        contract_of(lambda problem, solution: solution, needs=frozenset(Capability)).accepted()


def test_a_solver_that_refuses_without_saying_so_is_noticed() -> None:
    contract = contract_of(lambda problem, solution: solution, check=lambda self, problem: None)
    contract.solver_class.needs = frozenset({Capability.HINGE_FORM})
    with pytest.raises(AssertionError, match="solved what it refuses"):
        contract.test_refused_problems_are_refused_before_any_work()
