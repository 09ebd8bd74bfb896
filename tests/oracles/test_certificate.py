"""The recomputed certificate: right where the answer is known in closed form, positive where it is corrupted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.support.conic import ConicOptimum
from tests.support.optima import MORE_LOSSES

from manykernels.testing.problems import SmallProblem, random_problem
from manykernels.testing.solver import certificate_in_numpy, projected

Model = tuple[np.ndarray, np.ndarray, float]


@pytest.fixture
def ridge() -> SmallProblem:
    """Weighted squared loss with a ridge on two weighted kernels, no intercept: a linear system."""
    drawn = random_problem(11, loss="squared", regularizer="ridge", fit_intercept=False, weighted=True)
    return replace(drawn, strength=0.3)


def closed_form(problem: SmallProblem) -> Model:
    """Solve ``(sum_m K_m / (C w_m^2) + diag(1/s)) rho = y``."""
    d = 1 / (problem.strength * problem.penalties**2)
    combined = np.tensordot(d, problem.kernels, axes=1)
    return np.linalg.solve(combined + np.diag(1 / problem.weights), problem.y), d, 0.0


def test_the_closed_form_of_ridge_is_certified(ridge: SmallProblem) -> None:
    rho, d, b = closed_form(ridge)
    found = certificate_in_numpy(ridge, rho, d, b)
    assert abs(found.relative_gap) < 1e-12
    assert found.primal == pytest.approx(float(rho @ ridge.y) / 2, rel=1e-10)
    assert found.gap == found.primal - found.dual


@pytest.mark.parametrize("part", ["rho", "one rho", "d", "one d", "b", "swapped d"])
def test_a_corrupted_model_is_not_certified(ridge: SmallProblem, part: str) -> None:
    rho, d, b = closed_form(ridge)
    one = np.eye(rho.size)[0] * 0.1 * np.abs(rho).max()
    corrupted = {
        "rho": (1.01 * rho, d, b),
        "one rho": (rho + one, d, b),
        "d": (rho, 1.1 * d, b),
        "one d": (rho, d * np.r_[0.0, np.ones(d.size - 1)], b),
        "b": (rho, d, b + 0.1),
        "swapped d": (rho, d[::-1], b),
    }[part]
    assert certificate_in_numpy(ridge, *corrupted).relative_gap > 1e-5


@pytest.mark.parametrize("field", ["strength", "kernels", "y", "sample_weight", "kernel_penalties"])
def test_the_answer_to_another_problem_is_not_certified(ridge: SmallProblem, field: str) -> None:
    model = closed_form(ridge)
    other = replace(ridge, **{field: getattr(ridge, field) * 1.2})
    assert certificate_in_numpy(other, *model).relative_gap > 1e-5


def test_the_gap_is_never_negative_for_arbitrary_models(problems: tuple[SmallProblem, ...]) -> None:
    rng = np.random.default_rng(5)
    for problem in problems[::2]:
        rho = rng.normal(size=problem.y.size) * 10 ** rng.uniform(-3, 1)
        d = rng.exponential(size=problem.kernels.shape[0])
        if problem.loss_name in MORE_LOSSES:  # exponentials of scores: float64 ends at 709
            rho *= min(1.0, 100.0 / np.abs(np.einsum("m,mij,j->i", d, problem.kernels, rho)).max())
        found = certificate_in_numpy(problem, rho, d, rng.normal())
        assert np.isfinite(found.dual), problem.description
        assert found.relative_gap > 0, problem.description


def test_the_dual_lies_below_and_the_primal_above_the_optimum(
    problems: tuple[SmallProblem, ...], optimum: Callable[[int], ConicOptimum]
) -> None:
    rng = np.random.default_rng(6)
    for index, problem in enumerate(problems[:60]):
        best = optimum(index)
        noise = rng.normal(size=problem.y.size) * 0.1 * np.abs(best.dual_coef).max()
        found = certificate_in_numpy(problem, best.dual_coef + noise, best.kernel_weights, best.intercept)
        slack = 2e-9 * abs(best.primal)
        assert found.dual <= best.primal + slack, problem.description
        assert found.primal >= best.certificate.dual - slack, problem.description


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["hinge", "huber", "squared_hinge", "squared"])
def test_the_projection_is_the_nearest_feasible_point(loss: str, weighted: bool) -> None:
    problem = random_problem(7, loss=loss, weighted=weighted)
    rho = np.random.default_rng(8).normal(size=problem.y.size)
    nearest_feasible = projected(problem, rho)
    y, s, delta = problem.y, problem.weights, problem.loss_params.get("delta", 0.0)
    labeled = np.where(y > 0, 0.0, -s), np.where(y > 0, s, 0.0)
    ends = {
        "hinge": labeled,
        "squared_hinge": (np.where(y > 0, 0.0, -np.inf), np.where(y > 0, np.inf, 0.0)),
        "squared": (np.full(y.shape, -np.inf), np.full(y.shape, np.inf)),
        "huber": (-delta * s, delta * s),
    }[loss]
    nearest = minimize(
        lambda x: ((x - rho) ** 2).sum() / 2,
        np.zeros_like(rho),
        jac=lambda x: x - rho,
        bounds=np.column_stack(ends),
        constraints={"type": "eq", "fun": np.sum, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    ).x
    np.testing.assert_allclose(nearest_feasible, nearest, atol=1e-6)
    assert abs(nearest_feasible.sum()) < 1e-12 * problem.y.size
