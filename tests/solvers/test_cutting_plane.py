"""SILP and LevelMKL: cuts lie below, the linear program rises, averages prove what it promises."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.linalg import LinAlgError

from manykernels.exceptions import InvalidInputError
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import get_regularizer
from manykernels.papers.solvers.cutting_plane import SILP, Cuts, CutState, CuttingPlane, LevelMKL, _solve_program
from manykernels.papers.solvers.simplex_point import SimplexPoint
from manykernels.testing.problems import LOSSES, random_problem
from manykernels.testing.solver import build_problem


def posed(loss: str, seed: int = 2) -> Problem:
    return build_problem(random_problem(seed, loss=loss, regularizer="simplex", weighted=True))


def run(solver: CuttingPlane, problem: Problem, steps: int) -> list[CutState]:
    """Return the states of some iterations, as copies."""
    state = solver.initialize(problem, (problem.zero_model()[0], np.zeros(problem.n_kernels), 0.0))
    seen = [CutState(**vars(state))]
    for _ in range(steps):
        solver.step(problem, state)
        seen.append(CutState(**vars(state)))
    return seen


@pytest.mark.parametrize("loss", LOSSES)
def test_cuts_are_lower_models_that_touch_where_they_were_made(loss: str) -> None:
    problem = posed(loss)
    state = run(SILP(tol=1e-6), problem, 4)[-1]
    assert state.cuts.value(state.point.theta) == pytest.approx(state.point.value, rel=1e-9)
    for theta in np.random.default_rng(0).dirichlet(np.ones(problem.n_kernels), 6):
        value = SimplexPoint.create(problem, theta, 1e-8).value
        assert state.cuts.value(theta) <= value + 1e-9 * abs(value)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("solver", [SILP(tol=1e-6), LevelMKL(tol=1e-6)])
def test_the_linear_program_rises_and_never_passes_the_best_value(loss: str, solver: CuttingPlane) -> None:
    seen = run(solver, posed(loss), 12)
    lower = np.array([state.minimum.value for state in seen])
    upper = np.array([state.best.value for state in seen])
    room = 1e-9 * np.abs(upper)
    assert (np.diff(lower) >= -room[1:]).all()
    assert (np.diff(upper) <= 0).all()
    assert (lower <= upper + room).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_averaged_coefficients_prove_the_linear_program(loss: str) -> None:
    problem = posed(loss)
    for state in run(SILP(tol=1e-6), problem, 10):
        promised = state.minimum.value
        assert problem.dual(state.minimum.rho) >= promised - 1e-8 * abs(promised)


def test_the_minimum_is_that_of_the_model() -> None:
    state = run(SILP(tol=1e-6), posed("squared_hinge"), 6)[-1]
    found = state.cuts.minimum(state.best.theta, state.best.value, state.gap)
    assert state.cuts.value(found.theta) == pytest.approx(found.value, rel=1e-9)
    for theta in np.random.default_rng(0).dirichlet(np.ones(found.theta.size), 200):
        assert state.cuts.value(theta) >= found.value - 1e-9 * abs(found.value)


def test_zooming_keeps_digits_that_plain_units_lose() -> None:
    center = np.array([0.5, 0.5, 0.0])
    slopes = np.array([[1e-6, -1e-6, 1.0], [-1e-6, 1e-6, 1.0]]) - 5.0
    cuts = Cuts(np.full(2, 5.0 + 7.0) - np.array([1e-13, 3e-13]), slopes, np.zeros((2, 4)))
    found = cuts.minimum(center, 7.0, 1e-12)
    expected = 0.5 + 0.5e-7  # where 7 - 1e-13 + 2e-6 x = 7 - 3e-13 - 2e-6 x, x from the middle
    assert found.theta[2] == 0
    assert found.theta[0] - 0.5 == pytest.approx(-(expected - 0.5), rel=2e-2)


@pytest.mark.parametrize("level", [0.3, 0.9])
def test_level_steps_are_projections_on_the_level_set(level: float) -> None:
    problem = posed("squared")
    solver = LevelMKL(tol=1e-6, level=level)
    state = run(solver, problem, 5)[-1]
    target = state.best.value - (1 - level) * state.gap
    theta = solver.next_weights(state)
    assert state.cuts.value(theta) <= target + 1e-8 * abs(target)
    distance = np.linalg.norm(theta - state.point.theta)
    rng = np.random.default_rng(0)
    candidates = [t for t in rng.dirichlet(np.ones(theta.size), 3000) if state.cuts.value(t) <= target]
    candidates += [theta + share * (state.minimum.theta - theta) for share in (0.1, 0.5, 1.0)]
    assert all(np.linalg.norm(t - state.point.theta) >= distance - 1e-7 for t in candidates)


@pytest.mark.parametrize("level", [0.0, 1.0, 1.5, -0.1])
def test_levels_outside_the_open_interval_are_refused(level: float) -> None:
    with pytest.raises(InvalidInputError, match="level"):
        LevelMKL(level=level).solve(posed("squared"))


def test_a_missing_clarabel_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clarabel", None)
    with pytest.raises(ImportError, match=r"manykernels\[conic\]"):
        LevelMKL().solve(posed("hinge"))
    assert SILP(tol=1e-3).solve(posed("hinge")).certificate.relative_gap <= 1e-3


def test_a_linear_program_that_highs_calls_unbounded_is_solved_in_another_way() -> None:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(40, 6))
    grams = [np.exp(-((x[:, None] - x) ** 2) / (2 * width**2)) for x in X.T for width in (0.3, 1.0, 3.0)]
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=40)
    problem = Problem(np.stack(grams), y, "epsilon_insensitive", get_regularizer("simplex", 0.1))
    assert LevelMKL(tol=1e-6, max_iter=300).solve(problem).status == "converged"


def test_a_linear_program_without_a_solution_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manykernels.papers.solvers.cutting_plane.ATTEMPTS", (("highs-ds", {}),))
    with pytest.raises(LinAlgError, match="HiGHS could not solve the linear program of the cuts"):
        _solve_program(c=[-1.0], bounds=[(0, None)])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("solver", [SILP, LevelMKL])
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "quantile"])
def test_kernels_of_low_rank_under_a_weak_penalty(loss: str, solver: type[CuttingPlane]) -> None:
    """Cuts are steep near the corners here: alternation gets there in a few learners, the published steps do not."""
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((6, 24, 1))
    y = factors[0, :, 0] + 0.5 * factors[1, :, 0] + 0.3 * rng.standard_normal(24)
    kernels = factors @ factors.transpose(0, 2, 1) / 24
    problem = Problem(kernels, y, loss, get_regularizer("simplex", 1e-4))
    solution = solver(tol=1e-6, max_iter=40).solve(problem)
    assert solution.status == "converged"
    with pytest.warns(UserWarning, match="max_iter"):
        published = solver(tol=1e-6, max_iter=solution.n_iter, alternate=False).solve(problem)
    assert published.certificate.relative_gap > 1e-5
