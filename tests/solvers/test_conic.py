"""The cone program: its multipliers are the model, and its value is that of CVXPY on the primal."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from manykernels.objective.problem import Problem
from manykernels.papers.solvers.conic import ConeProgram, Conic, DualProgram, refinements, sparsest
from manykernels.testing.problems import random_problem
from manykernels.testing.solver import build_problem

ACCURATE = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


def posed(loss: str, regularizer: str, seed: int = 3, **options: bool) -> Problem:
    return build_problem(random_problem(seed, loss=loss, regularizer=regularizer, **options))


def program_of(problem: Problem) -> DualProgram:
    return DualProgram(problem, float(np.abs(problem.zero_model()[0]).max()))


@pytest.mark.parametrize("loss", ["squared", "squared_hinge", "huber", "logistic"])
@pytest.mark.parametrize("regularizer", ["l1", "elasticnet", "simplex", "ridge"])
def test_multipliers_are_weights_and_intercept(loss: str, regularizer: str) -> None:
    problem = posed(loss, regularizer, weighted=True)
    rho, d, b, _ = program_of(problem).solve(**ACCURATE)
    assert problem.certificate(rho, d, b).relative_gap < 1e-5
    assert problem.certificate(rho, d, b + 0.1 * np.abs(problem.y).max()).relative_gap > 1e-5
    assert problem.certificate(rho, 1.1 * d, b).relative_gap > 1e-5


def test_weights_of_the_simplex_add_up_to_the_inverse_strength() -> None:
    problem = posed("squared", "simplex", weighted=True)
    _, d, _, _ = program_of(problem).solve(**ACCURATE)
    assert d @ problem.penalties**2 == pytest.approx(1 / problem.regularizer.strength, rel=1e-6)


def test_units_of_kernels_targets_and_samples_do_not_matter() -> None:
    small = random_problem(8, loss="squared", regularizer="l1")
    solution = Conic(tol=1e-6).solve(build_problem(small))
    units = 10.0 ** np.linspace(-6, 6, len(small.kernels))
    scaled = replace(
        small,
        kernels=small.kernels * units[:, None, None],
        kernel_penalties=small.penalties * np.sqrt(units) * 1e-5,
        strength=small.strength * 1e5 * 1e-4,
        y=small.y * 1e-4,
    )
    other = Conic(tol=1e-6).solve(build_problem(scaled))
    assert other.n_iter == 1
    assert other.certificate.primal == pytest.approx(1e-8 * solution.certificate.primal, rel=3e-6)


def test_a_cone_program_solves_a_known_projection() -> None:
    program = ConeProgram(3)
    program.quadratic[:], program.linear[:] = 1.0, -np.array([3.0, 4.0, 1.0])
    rows, columns = np.array([[0.0], [1.0], [1.0]]), np.array([[0], [0], [1]])
    program.add("SecondOrder", np.array([1.0, 0.0, 0.0]), rows, columns)  # |(x0, x1)| <= 1
    program.add("Zero", np.array([-2.0]), np.ones((1, 1)), np.array([[2]]))  # x2 = 2
    found = program.solve(**ACCURATE)
    np.testing.assert_allclose(found.x, [0.6, 0.8, 2.0], atol=1e-8)
    assert found.multipliers[0][0] == pytest.approx(4.0, abs=1e-6)  # 5 - 1: how far the cone pulls


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
def test_refinement_makes_scores_of_piecewise_linear_losses_accurate(loss: str) -> None:
    problem = posed(loss, "simplex", seed=12)
    rho, d, _, _ = program_of(problem).solve(**ACCURATE)
    gaps = [problem.certificate(*sparsest(problem, each, d, 0.0)).relative_gap for each in refinements(problem, rho, d)]
    assert min(gaps[1:]) < 0.05 * gaps[0]


def test_smooth_losses_need_no_refinement() -> None:
    problem = posed("logistic", "simplex")
    assert len(list(refinements(problem, problem.zero_model()[0], np.ones(problem.n_kernels)))) == 1


def test_inactive_kernels_get_exact_zeros() -> None:
    count = 0
    for seed in range(12):
        problem = posed("squared", "l1", seed=seed)
        solution = Conic(tol=1e-6).solve(problem)
        below = solution.certificate.dual_norms < 0.9 * problem.regularizer.strength
        assert not solution.kernel_weights[below].any(), seed
        count += int(below.sum())
    assert count > 10


def test_a_missing_clarabel_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clarabel", None)
    with pytest.raises(ImportError, match=r"manykernels\[conic\]"):
        Conic().solve(posed("hinge", "l1"))


def test_the_learner_at_its_weights_certifies_what_scores_spoil() -> None:
    """Kernels of eight decades under a weak penalty: the dual value was exact, and the scores off by 1e-4."""
    small = random_problem(452915939, loss="squared_hinge", regularizer="elasticnet", fit_intercept=True)
    scales = 10.0 ** np.random.default_rng(0).uniform(-4, 4, len(small.kernels))
    hard = replace(small, kernels=small.kernels * scales[:, None, None], strength=1e-2 * small.strength)
    solution = Conic(tol=1e-6).solve(build_problem(hard))
    assert solution.certificate.relative_gap <= 1e-6
    assert solution.n_iter == 1
