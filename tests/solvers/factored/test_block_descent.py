"""Sweeps over rows reach the optimum that Newton steps on Hessians reach."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels import KernelBank, Linear
from manykernels.grams.factored import factored_stack
from manykernels.objective.losses import get_loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import get_regularizer
from manykernels.solvers import WorkingSet
from manykernels.solvers.factored import block_descent, newton
from manykernels.solvers.factored.problem import factored_problem
from manykernels.solvers.factored.solver import FactoredNewton

N_SAMPLES, N_GROUPS, SIZE = 90, 12, 4


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have sweeps taken wherever they apply, and count them."""
    taken: list[int] = []
    step = block_descent.DescentModel.step

    def counted(self, *arguments):
        taken.append(1)
        return step(self, *arguments)

    monkeypatch.setattr(block_descent, "PRODUCT_COST", 0.0)
    monkeypatch.setattr(block_descent.DescentModel, "step", counted)
    return taken


def data(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_SAMPLES, N_GROUPS * SIZE)) + 0.5 * rng.normal(size=(N_SAMPLES, 1))
    scores = X[:, : 2 * SIZE] @ rng.normal(size=2 * SIZE) + rng.normal(size=N_SAMPLES)
    return X, scores, rng.uniform(0.5, 2.0, size=N_SAMPLES)


def bank() -> KernelBank:
    kernels = [(f"group {g}", Linear(), list(range(g * SIZE, (g + 1) * SIZE))) for g in range(N_GROUPS)]
    return KernelBank(kernels, standardize=True)


@pytest.mark.parametrize("penalty", ["l1", "elasticnet", "ridge", "lq", "simplex", "lp_ball"])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_the_optimum_is_that_on_matrices(loss: str, penalty: str, steps: list[int]) -> None:
    X, scores, weight = data(3)
    y = np.sign(scores) if loss == "logistic" else scores
    stack, regularizer = factored_stack(X, bank()), get_regularizer(penalty, 2.0)
    problem = factored_problem(get_loss(loss))(stack, y, get_loss(loss), regularizer, sample_weight=weight)
    found = FactoredNewton(tol=1e-7).solve(problem)
    dense = Problem(stack, y, get_loss(loss), regularizer, sample_weight=weight)
    exact = WorkingSet(tol=1e-7).solve(dense) if penalty not in ("ridge", "lq", "lp_ball") else None
    assert steps
    assert found.certificate.relative_gap <= 1e-7
    if exact is not None:
        assert found.certificate.primal == pytest.approx(exact.certificate.primal, rel=2e-7)


def test_groups_that_act_on_each_other_are_left_to_newton_steps(steps: list[int]) -> None:
    X, scores, _ = data(5)
    X = X + 5.0 * X[:, :1]
    stack = factored_stack(X, bank())
    problem = factored_problem(get_loss("squared"))(stack, scores, get_loss("squared"), get_regularizer("l1", 1e-3))
    found = FactoredNewton(tol=1e-5).solve(problem)
    assert found.certificate.relative_gap <= 1e-5
    assert steps


def test_sweeps_are_not_taken_where_a_hessian_is_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    X, scores, _ = data(7)
    monkeypatch.setattr(newton, "DescentModel", None)  # would be called
    stack = factored_stack(X, bank())
    problem = factored_problem(get_loss("squared"))(stack, scores, get_loss("squared"), get_regularizer("l1", 1.0))
    assert FactoredNewton(tol=1e-6).solve(problem).certificate.relative_gap <= 1e-6
