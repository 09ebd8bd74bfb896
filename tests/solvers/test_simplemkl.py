"""SimpleMKL: its direction, its line search, its slopes, and what conjugacy is good for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.generator import Case
from tests.fuzz.judge import problem_of

from manykernels.exceptions import ConvergenceWarning
from manykernels.papers.solvers.simplemkl import SimpleMKL, longest_step, reduced_direction
from manykernels.papers.solvers.simplex_point import (
    SimplexPoint,
    kernel_weights,
    search_line,
    starting_weights,
    stepped,
)
from manykernels.solvers import Status
from manykernels.solvers.learners.learners import fit_learner
from manykernels.testing.problems import LOSSES, random_problem
from manykernels.testing.solver import build_problem

SMOOTH = ("logistic", "squared_hinge", "squared", "huber")


def point_of(loss: str, seed: int = 2, uniform: bool = True) -> SimplexPoint:
    problem = build_problem(random_problem(seed, loss=loss, regularizer="simplex", weighted=True))
    theta = np.full(problem.n_kernels, 1.0)
    if not uniform:
        theta = np.random.default_rng(0).uniform(0.5, 1.5, problem.n_kernels)
    return SimplexPoint.create(problem, theta / theta.sum(), 1e-8)


@pytest.mark.parametrize("loss", LOSSES)
def test_slopes_are_those_of_the_machine_value(loss: str) -> None:
    point, step = point_of(loss, uniform=False), 1e-5
    for kernel in range(point.theta.size):
        unit = np.eye(point.theta.size)[kernel]
        values = []
        for sign in (1, -1):
            d = kernel_weights(point.problem, point.theta + sign * step * unit)
            values.append(fit_learner(point.problem, point.problem.stack.combine(d), tol=1e-13).primal_value)
        difference = (values[0] - values[1]) / (2 * step)
        assert difference == pytest.approx(point.slopes[kernel], rel=1e-3, abs=1e-7 * np.abs(point.slopes).max())


@given(st.integers(0, 10**6), st.integers(2, 12))
def test_the_direction_is_one_of_descent_in_the_simplex(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    theta = rng.uniform(size=size) * (rng.uniform(size=size) < 0.6)
    theta[rng.integers(size)] += 1.0
    theta /= theta.sum()
    slopes = -rng.exponential(size=size)
    direction = reduced_direction(theta, slopes, int(theta.argmax()))
    assert abs(direction.sum()) <= 1e-12 * np.abs(direction).max(initial=1.0)
    assert (direction[theta == 0] >= 0).all()
    assert direction @ slopes <= 0
    gap = theta @ slopes - slopes.min()
    assert (direction @ slopes < 0) == (gap > 1e-9)


def test_the_longest_step_sets_one_weight_to_zero() -> None:
    theta, direction = np.array([0.5, 0.2, 0.3, 0.0]), np.array([-0.1, -0.3, 0.3, 0.1])
    length, blocking = longest_step(theta, direction)
    moved = stepped(theta, length * direction, blocking)
    assert blocking == 1
    assert moved[1] == 0
    assert (moved >= 0).all()
    assert moved.sum() == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("loss", SMOOTH)
def test_the_line_search_removes_most_of_the_slope(loss: str) -> None:
    searched = 0
    for seed in range(12):
        point = point_of(loss, seed)
        corner = np.eye(point.theta.size)[point.slopes.argmin()]
        direction, end = corner - point.theta, point.move(corner, 1e-8)
        if end.slopes @ direction <= 0:
            continue  # the value falls all the way to the corner: nothing to search
        found = search_line(point, direction, 1.0, end, 1e-8)
        assert found.value < point.value
        assert abs(found.slopes @ direction) <= 0.1 * abs(point.slopes @ direction)
        searched += 1
    assert searched >= 3


def test_values_fall_from_iteration_to_iteration() -> None:
    problem = build_problem(random_problem(18, loss="logistic", regularizer="simplex"))
    solver, values = SimpleMKL(tol=1e-6), []
    state = solver.initialize(problem, (*problem.zero_model()[:1], np.zeros(problem.n_kernels), 0.0))
    for _ in range(12):
        values.append(state.point.value)
        solver.step(problem, state)
    assert (np.diff(values) <= 1e-11 * values[0]).all()
    assert values[-1] < values[0]


@pytest.mark.nightly
def test_conjugate_directions_save_iterations_where_kernels_are_correlated() -> None:
    problem = build_problem(random_problem(1018, loss="logistic", regularizer="simplex", weighted=True))
    counts = [SimpleMKL(tol=1e-2, conjugate=conjugate).solve(problem).n_iter for conjugate in (True, False)]
    assert counts[0] < 0.7 * counts[1]


def test_weights_start_equal_or_where_a_model_has_them() -> None:
    small = random_problem(2, loss="squared", regularizer="simplex", weighted=True)
    problem = build_problem(small)
    n = problem.n_kernels
    np.testing.assert_allclose(starting_weights(problem, np.zeros(n)), 1 / n)
    theta = np.random.default_rng(1).dirichlet(np.ones(n))
    np.testing.assert_allclose(starting_weights(problem, kernel_weights(problem, theta)), theta, rtol=1e-12)


def test_the_certificate_is_that_of_the_returned_weights() -> None:
    small = random_problem(4, loss="hinge", regularizer="simplex")
    solution = SimpleMKL(tol=1e-4).solve(build_problem(small))
    theta = solution.kernel_weights * small.strength
    assert theta.sum() == pytest.approx(1.0, abs=1e-12)
    point = SimplexPoint.create(build_problem(replace(small)), theta, 1e-8)
    assert point.value == pytest.approx(solution.certificate.primal, rel=1e-4)


@pytest.mark.nightly
def test_learners_that_break_down_end_the_run_as_one_out_of_iterations() -> None:
    """Weights on kernels of scales 1e-7 to 1e6: no learner becomes accurate, and each takes all the systems it may."""
    case = Case(
        seed=203, n_samples=42, kernels=["gaussian", "rank_one", "gaussian"], scales=[2.43e-06, 2650000.0, 1.92e-07],
        dtype="float64", storage="dense", loss="epsilon_insensitive", loss_parameters={"epsilon": 0.0},
        regularizer="simplex", parameters={}, strength=2.23e-08, solver="simplemkl", tol=0.001, fit_intercept=True,
        outlier=10000.0, weighting="wide",
    )  # fmt: skip
    problem = problem_of(case)
    with pytest.warns(ConvergenceWarning, match=r"max_iter.*linear systems were solved, more than 100"):
        found = SimpleMKL(tol=0.001, max_iter=5).solve(problem)
    assert found.status is Status.MAX_ITER
    assert found.certificate.primal <= problem.empirical_loss(problem.constant_scores(problem.zero_model()[1])) * (
        1 + 1e-9
    )
