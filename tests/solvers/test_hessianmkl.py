"""HessianMKL: the Hessian against differences, the quadratic program against another solver, few steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Simplex
from manykernels.papers.solvers.hessianmkl import HessianMKL, minimize_on_simplex, weight_hessian
from manykernels.papers.solvers.simplex_point import SimplexPoint
from manykernels.testing.problems import LOSSES, random_problem, small_problems
from manykernels.testing.solver import build_problem


def slopes_at(point: SimplexPoint, theta: np.ndarray) -> np.ndarray:
    return SimplexPoint.create(point.problem, theta, 1e-9).slopes


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_hessian_against_differences_of_slopes(loss: str, fit_intercept: bool) -> None:
    problem = build_problem(
        random_problem(3, loss=loss, regularizer="simplex", weighted=True, fit_intercept=fit_intercept)
    )
    theta = np.random.default_rng(0).dirichlet(np.full(problem.n_kernels, 5.0))
    point = SimplexPoint.create(problem, theta, 1e-9)
    hessian, step = weight_hessian(point), 1e-6
    rows = [(slopes_at(point, theta + step * e) - slopes_at(point, theta - step * e)) for e in np.eye(theta.size)]
    np.testing.assert_allclose(hessian, np.array(rows) / (2 * step), rtol=2e-3, atol=2e-4 * np.abs(hessian).max())
    assert np.abs(hessian).max() > 0


@given(st.integers(0, 10**6), st.integers(1, 8), st.booleans())
def test_quadratic_programs_meet_their_optimality_conditions(seed: int, size: int, singular: bool) -> None:
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(size, 1 if singular else size))
    hessian, linear = factor @ factor.T, rng.normal(size=size)
    x = minimize_on_simplex(hessian, linear, np.full(size, 1 / size))
    slopes = hessian @ x + linear
    assert (x >= 0).all()
    assert x.sum() == pytest.approx(1.0, abs=1e-12)
    assert x @ slopes - slopes.min() <= 1e-8 * (1 + np.abs(slopes).max())


def test_a_quadratic_program_against_scipy() -> None:
    rng = np.random.default_rng(4)
    factor = rng.normal(size=(6, 6))
    hessian, linear = factor @ factor.T, rng.normal(size=6)
    x = minimize_on_simplex(hessian, linear, np.full(6, 1 / 6))
    reference = minimize(
        lambda v: linear @ v + v @ hessian @ v / 2,
        np.full(6, 1 / 6),
        bounds=[(0, 1)] * 6,
        constraints={"type": "eq", "fun": lambda v: v.sum() - 1},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(x, reference.x, atol=1e-6)


def test_a_linear_program_on_the_simplex_ends_at_a_corner() -> None:
    x = minimize_on_simplex(np.zeros((4, 4)), np.array([3.0, 1.0, 2.0, 5.0]), np.full(4, 0.25))
    np.testing.assert_array_equal(x, [0, 1, 0, 0])


def test_a_flat_function_stays_where_it_is() -> None:
    start = np.array([0.3, 0.7])
    np.testing.assert_array_equal(minimize_on_simplex(np.zeros((2, 2)), np.zeros(2), start), start)


def test_hundreds_of_equal_kernels_share_the_weight_without_a_warning() -> None:
    rng = np.random.default_rng(0)
    row, linear = rng.normal(size=400), np.full(400, 0.5)
    for hessian in (np.ones((400, 400)), np.outer(np.sign(row), np.sign(row))):
        x = minimize_on_simplex(hessian, linear, np.full(400, 1 / 400))
        slopes = hessian @ x + linear
        assert (x >= 0).all()
        assert x.sum() == pytest.approx(1.0, abs=1e-12)
        assert x @ slopes - slopes.min() <= 1e-8


def test_newton_on_hundreds_of_copies_of_few_kernels_ends_at_the_optimum_of_the_few() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(20, 3))
    kernels = np.stack([np.exp(-((column[:, None] - column) ** 2)) for column in x.T])
    y = np.where(x[:, 0] + x[:, 1] > 0, 1.0, -1.0)
    few, many = (
        HessianMKL(tol=1e-6).solve(Problem(stack, y, "hinge", Simplex(0.1))).certificate
        for stack in (kernels, np.repeat(kernels, 150, axis=0))
    )
    assert many.relative_gap <= 1e-6
    assert many.primal == pytest.approx(few.primal, rel=2e-6)


def test_newton_takes_few_iterations() -> None:
    counts = [
        HessianMKL(tol=1e-6).solve(build_problem(small)).n_iter
        for small in small_problems(24, regularizers=("simplex",))
    ]
    assert np.median(counts) <= 8
    assert max(counts) <= 25
