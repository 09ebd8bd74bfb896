"""Hessians of several outputs from sums over pairs of bins: near those of all rows, and the optimum is the same."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from manykernels import KernelBank, solve
from manykernels.grams.factored import factored_stack, fourier_factor
from manykernels.objective import Problem, get_regularizer
from manykernels.objective.losses import get_shared_loss
from manykernels.objective.losses.curvature import SampleCurvature
from manykernels.solvers.factored import binned_hessian, kinks, newton, working_set
from manykernels.solvers.factored.objective import FactoredObjective

BANK = KernelBank.per_feature(widths=[0.5, 1.5])


@pytest.fixture(autouse=True)
def _by_bins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have such Hessians taken wherever they apply, and no matrices in their place."""
    monkeypatch.setattr(fourier_factor.ColumnOperator, "small", False)
    for cost in ("PAIR_COST", "OUTPUT_COST", "TABLE_COST"):
        monkeypatch.setattr(binned_hessian, cost, 0.0)
    monkeypatch.setattr(kinks, "SMOOTHED_STEPS", np.inf)
    monkeypatch.setattr(working_set, "matrices_cost_little", lambda *_, **__: False)
    monkeypatch.setattr(working_set, "sooner_on_matrices", lambda *_, **__: False)


def data(n: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(n, columns))
    scores = np.column_stack([np.sin(2 * X[:, 0]), 0.5 * X[:, 1] ** 2 - 0.6, 0.4 * X[:, 0]])
    return X, scores + 0.3 * rng.normal(size=(n, 3))


def objective_of(n: int) -> FactoredObjective:
    X, scores = data(n, 3)
    loss = get_shared_loss("hinge", kinks=True)
    problem = Problem(factored_stack(X, BANK), np.sign(scores), loss, get_regularizer("l1", 1.0))
    return FactoredObjective(problem, problem.stack.operators(range(6), 1e-6), 0.0)


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_they_are_near_those_of_all_rows(alike: bool, intercept: bool) -> None:
    objective = objective_of(4000)
    weights = np.random.default_rng(1).exponential(size=(4000, 3))
    weights[:, 2] **= 4  # few rows have most of it
    if alike:
        weights[:] = weights[:, :1]
    whole = SampleCurvature(weights).gram(objective.operators, 4000, intercept=intercept)
    found = binned_hessian.binned_hessian(objective, weights, intercept=intercept)
    assert found.shape == whole.shape == (1 if alike else 3, *whole.shape[1:])
    for own, exact in zip(found, whole, strict=True):
        np.testing.assert_allclose(own, own.T, rtol=1e-6, atol=1e-6 * np.abs(own).max())
        assert np.linalg.norm(own - exact, 2) <= 1e-2 * np.linalg.norm(exact, 2)


def test_few_rows_are_summed_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binned_hessian, "ROWS_PER_RANK", 1000)
    objective, weights = objective_of(300), np.random.default_rng(1).exponential(size=(300, 3))
    whole = SampleCurvature(weights).gram(objective.operators, 300, intercept=True)
    found = binned_hessian.binned_hessian(objective, weights, intercept=True)
    np.testing.assert_allclose(found, whole, atol=1e-5 * np.abs(whole).max())


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive", "quantile"])
def test_the_optimum_is_that_of_all_rows(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, scores = data(1500, 5)
    y, taken, made = np.sign(scores) if loss == "hinge" else scores, [], binned_hessian.binned_hessian

    def told(*arguments: object, **options: object) -> np.ndarray:
        taken.append(True)
        return made(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(newton, "binned_hessian", told)
    stack = factored_stack(X, BANK)
    given = {"loss": loss, "regularizer": "l1", "relative_strength": 0.1, "tol": 1e-5}
    found = solve(stack, y, **given)
    assert taken
    assert found.dual_gap <= 1e-5
    monkeypatch.setattr(newton, "binned_products", lambda objective: np.inf)
    whole = solve(stack, y, **given)
    assert whole.dual_gap <= 1e-5
    np.testing.assert_allclose(found.certificate.primal, whole.certificate.primal, rtol=2e-5)
    assert found.newton_steps <= 2 * whole.newton_steps


@pytest.mark.parametrize("penalty", ["l1", "elasticnet"])
def test_the_objective_is_that_of_a_conic_solver(penalty: str) -> None:
    X, scores = data(120, 2)
    Y, stack, tol = np.sign(scores), factored_stack(X, BANK), 5e-7
    problem = Problem(stack, Y, "hinge", get_regularizer(penalty, 1.0)).at_fraction(0.2)
    found = solve(stack, Y, loss="hinge", regularizer=problem.regularizer, tol=tol)
    assert found.certificate.relative_gap <= tol
    fitted, prepared = BANK.fit_prepare(X)
    roots = [_root(K) for K in fitted.block(prepared, prepared)]
    parts, b = [cp.Variable((root.shape[1], 3)) for root in roots], cp.Variable((1, 3))
    z = sum(root @ part for root, part in zip(roots, parts, strict=True)) + np.ones((120, 1)) @ b
    t, curve = cp.hstack([cp.norm(part, "fro") for part in parts]), problem.regularizer.curve
    value = cp.sum(cp.pos(1 - cp.multiply(Y, z))) + cp.sum(cp.multiply(np.broadcast_to(curve.linear, 4), t))
    value += 0.5 * cp.sum(cp.multiply(np.broadcast_to(curve.ridge, 4), cp.square(t)))
    best = cp.Problem(cp.Minimize(value)).solve(solver="CLARABEL")
    np.testing.assert_allclose(found.certificate.primal, best, rtol=1e-6)


def _root(K: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-13 * values[-1]
    return vectors[:, kept] * np.sqrt(values[kept])
