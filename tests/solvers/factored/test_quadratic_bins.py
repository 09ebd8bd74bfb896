"""Sweeps over rounded rows reach the optimum that steps on Hessians reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from manykernels import KernelBank, Overlap, solve
from manykernels.grams.factored import factored_stack, fourier_factor
from manykernels.kernels import Gaussian, PerFeature
from manykernels.objective import Problem, get_regularizer
from manykernels.objective.losses import get_shared_loss
from manykernels.solvers.factored import quadratic_bins
from manykernels.solvers.factored.objective import FactoredObjective

N_SAMPLES, N_COLUMNS = 900, 6
WIDTHS = [0.8, 1.0, 2.5]


@pytest.fixture(autouse=True)
def _factors_as_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fourier_factor.ColumnOperator, "small", False)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Have sweeps taken wherever they apply, and tell of each step whether it came to an end."""
    taken: list[bool] = []
    step = quadratic_bins.BinQuadratic.step

    def told(self, *arguments):
        found = step(self, *arguments)
        taken.append(self.ended)
        return found

    monkeypatch.setattr(quadratic_bins, "TURN_COST", 0.0)
    monkeypatch.setattr(quadratic_bins, "TURN_BASE", 0.0)
    monkeypatch.setattr(quadratic_bins, "EIGEN_COST", 0.0)
    monkeypatch.setattr(quadratic_bins.BinQuadratic, "step", told)
    return taken


def data(seed: int, missing: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(N_SAMPLES, N_COLUMNS))
    scores = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 - 0.6 + 0.5 * rng.normal(size=N_SAMPLES)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, scores, rng.uniform(0.5, 2.0, size=N_SAMPLES)


def bank() -> KernelBank:
    return KernelBank.per_feature(widths=WIDTHS, standardize=True, missing="mask")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("penalty", ["l1", "elasticnet", "ridge", "lq"])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_the_optimum_is_that_on_hessians(
    loss: str, penalty: str, missing: bool, steps: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    X, scores, weight = data(3, missing)
    y = np.sign(scores) if loss == "logistic" else scores
    stack = factored_stack(X, bank())
    settings = {"loss": loss, "penalty": penalty, "strength": 2.0, "sample_weight": weight, "tol": 1e-7}
    found = solve(stack, y, **settings)
    assert steps
    assert found.certificate.relative_gap <= 1e-7
    taken = len(steps)
    monkeypatch.setattr(quadratic_bins, "TURN_COST", np.inf)
    exact = solve(stack, y, **settings)
    assert len(steps) == taken
    assert found.certificate.primal == pytest.approx(exact.certificate.primal, rel=3e-7)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge", "hinge"])
def test_the_optimum_of_several_outputs_is_that_on_hessians(
    loss: str, missing: bool, steps: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    X, scores, weight = data(4, missing)
    targets = np.column_stack([scores, np.random.default_rng(1).normal(size=N_SAMPLES), 0.2 - scores])
    y = targets if loss == "squared" else np.where(targets.argmax(axis=1)[:, None] == np.arange(3), 1.0, -1.0)
    stack = factored_stack(X, bank())
    tol = 1e-3 if loss == "hinge" else 1e-6
    monkeypatch.setattr("manykernels.solvers.factored.kinks.takes_interior", lambda _: False)  # as of many rows
    settings = {
        "loss": loss,
        "penalty": "l1",
        "strength": 3.0,
        "sample_weight": weight,
        "tol": tol,
        "outputs": "shared",
    }
    found = solve(stack, y, **settings)
    assert steps
    assert found.certificate.relative_gap <= tol
    taken = len(steps)
    monkeypatch.setattr(quadratic_bins, "TURN_COST", np.inf)
    exact = solve(stack, y, **settings)
    assert len(steps) == taken
    assert found.certificate.primal == pytest.approx(exact.certificate.primal, rel=2 * tol)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_a_turn_minimizes_in_the_coefficients_of_all_outputs(loss: str) -> None:
    """The quadratic of a column is that of its rows, with the intercepts at their best."""
    X, scores, weight = data(8)
    y = np.where(np.digitize(scores, [-0.5, 0.5])[:, None] == np.arange(3), 1.0, -1.0)
    stack = factored_stack(X, bank())
    penalty = get_regularizer("l1", 1.0)
    problem = Problem(stack, y, get_shared_loss(loss), penalty, sample_weight=weight)
    objective = FactoredObjective(problem, stack.operators([0, 1, 2], 1e-3), 0.0)
    rng = np.random.default_rng(2)
    curvature = problem.bound.curvature(3.0 * rng.normal(size=y.shape))  # classes that are nearly certain
    model = quadratic_bins.BinQuadratic(objective, curvature)
    codes = np.empty(N_SAMPLES, dtype=np.int16)
    table = objective.bases[0].assign_bins(codes)
    gram, answers = model._quadratic(codes, table)
    moves = rng.normal(size=(3, table.shape[1]))
    moves -= moves.mean(axis=0)  # what is the same in all classes bends nothing
    image = table[codes] @ moves.T
    shifts = rng.normal(size=(200, 3)) * np.abs(image).mean() + answers @ moves.ravel()
    least = curvature.square(image + answers @ moves.ravel())
    whole = moves.reshape(len(gram), 1, -1)
    assert float((whole @ gram @ whole.swapaxes(1, 2)).sum()) == pytest.approx(least, rel=1e-9)
    assert min(curvature.square(image + shift) for shift in shifts) >= least


def test_kernels_of_one_column_move_together(steps: list[bool]) -> None:
    """Widths side by side are nearly the same function: turns kernel by kernel would take thousands of sweeps."""
    X, scores, _ = data(5)
    stack = factored_stack(X[:, :2], KernelBank.per_feature(widths=[0.8, 0.85, 0.9, 2.5], standardize=True))
    found = solve(stack, np.sign(scores), loss="logistic", penalty="l1", strength=1.0, tol=1e-6)
    assert found.certificate.relative_gap <= 1e-6
    assert steps
    assert all(steps)


def test_penalties_that_couple_kernels_take_other_steps(steps: list[bool]) -> None:
    X, scores, _ = data(7)
    found = solve(factored_stack(X, bank()), scores, loss="squared", penalty="simplex", strength=2.0, tol=1e-5)
    assert found.certificate.relative_gap <= 1e-5
    assert not steps


@pytest.mark.parametrize("missing", [False, True])
def test_features_of_bins_are_near_those_of_rows(missing: bool) -> None:
    X = data(1, missing)[0]
    stack = factored_stack(X, KernelBank.per_feature(widths=[0.8], standardize=True, missing="mask"))
    for operator in stack.operators([0, 3], 1e-3):
        codes = np.empty(N_SAMPLES, dtype=np.int16)
        table = operator.assign_bins(codes)
        exact = operator.rows(slice(None))
        # The derivative of a function of norm one is at most 1 / width, and rows are within a twentieth of it.
        assert np.abs(table[codes] - exact).max() <= 0.05 * 1.05
        assert np.abs(table[codes] - exact).max() > 0.0
        gone = np.isnan(X[:, operator.positions[0]])
        assert np.array_equal(codes == len(table) - 1, gone)
        assert not table[-1].any()


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("penalty", ["l1", "ridge"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "several"])
def test_levels_take_turns_beside_curves(loss: str, penalty: str, intercept: bool, steps: list[bool]) -> None:
    """A level of a category is the bin of its column: its turn has a diagonal Hessian, less what intercepts answer."""
    rng = np.random.default_rng(0)
    n, codes, other = 400, rng.integers(0, 90, 400), rng.integers(0, 70, 400)
    X = np.column_stack([rng.normal(size=(n, 2)), codes, other])
    f = 1.0 + np.sin(2 * X[:, 0]) + rng.normal(size=90)[codes] + 0.5 * rng.normal(size=70)[other]
    y: Any = f + 0.5 * rng.normal(size=n)
    if loss == "several":
        y = np.column_stack([y, X[:, 1] - f + rng.normal(size=n)])
    elif loss == "logistic":
        y = np.where(y > 0, 1.0, -1.0)
    curves = PerFeature([Gaussian(0.8)], [0, 1])
    bank = KernelBank([curves, ("group", Overlap(), [2]), ("other", Overlap(), [3])])
    penalties = {("group", "other"): get_regularizer(penalty, 0.3), "*": "l1"}
    options: dict[str, Any] = {
        "X": X,
        "penalty": penalties,
        "alpha": 0.01,
        "fit_intercept": intercept,
        "outputs": "shared",
    }
    options["loss"] = "squared" if loss == "several" else loss
    found = solve(bank, y, representation="factored", tol=1e-7, **options)
    matrices = solve(bank, y, representation="gram", tol=1e-7, **options)
    assert steps
    assert found.certificate.relative_gap <= 1e-7
    assert found.certificate.primal == pytest.approx(matrices.certificate.primal, rel=2e-7)
    np.testing.assert_allclose(found.decision_function(X), matrices.decision_function(X), atol=0.02)
