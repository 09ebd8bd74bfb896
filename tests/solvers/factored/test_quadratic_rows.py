"""Sweeps over rows reach the optimum that Newton steps on Hessians reach."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels import KernelBank, Linear, regularization_path, solve, survival_array
from manykernels.estimators.selection.path import RegularizationPath
from manykernels.grams import DenseStack
from manykernels.grams.factored import factored_stack
from manykernels.solvers.factored import newton, quadratic_rows

N_SAMPLES, N_GROUPS, SIZE = 90, 12, 4


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[np.dtype]:
    """Have sweeps taken wherever they apply, and tell how precise the rows of each were."""
    taken: list[np.dtype] = []
    step = quadratic_rows.RowQuadratic.step

    def counted(self, *arguments):
        taken.append(self._Z.dtype)
        return step(self, *arguments)

    monkeypatch.setattr(quadratic_rows, "PRODUCT_COST", 0.0)
    monkeypatch.setattr(quadratic_rows.RowQuadratic, "step", counted)
    return taken


def data(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_SAMPLES, N_GROUPS * SIZE)) + 0.5 * rng.normal(size=(N_SAMPLES, 1))
    scores = X[:, : 2 * SIZE] @ rng.normal(size=2 * SIZE) + rng.normal(size=N_SAMPLES)
    return X, scores, rng.uniform(0.5, 2.0, size=N_SAMPLES)


def bank(standardize: bool = True) -> KernelBank:
    kernels = [(f"group {g}", Linear(), list(range(g * SIZE, (g + 1) * SIZE))) for g in range(N_GROUPS)]
    return KernelBank(kernels, standardize=standardize)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("penalty", ["l1", "elasticnet", "ridge", "lq", "simplex", "lp_ball"])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_the_optimum_is_that_on_matrices(loss: str, penalty: str, steps: list[np.dtype]) -> None:
    X, scores, weight = data(3)
    y = np.sign(scores) if loss == "logistic" else scores
    stack = factored_stack(X, bank())
    settings = {"loss": loss, "penalty": penalty, "strength": 2.0, "sample_weight": weight, "tol": 1e-7}
    found = solve(stack, y, **settings)
    assert steps
    assert found.certificate.relative_gap <= 1e-7
    exact = solve(DenseStack(stack.block(None, None)), y, **settings)
    assert found.certificate.primal == pytest.approx(exact.certificate.primal, rel=2e-7)


def test_groups_that_act_on_each_other_are_left_to_newton_steps(steps: list[np.dtype]) -> None:
    X, scores, _ = data(5)
    X = X + 5.0 * X[:, :1]
    stack = factored_stack(X, bank())
    found = solve(stack, scores, loss="squared", penalty="l1", strength=1e-3, tol=1e-5)
    assert found.certificate.relative_gap <= 1e-5
    assert set(steps) == {np.dtype(np.float64)}  # what single precision leaves could be felt


def test_sweeps_are_not_taken_where_a_hessian_is_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    X, scores, _ = data(7)
    monkeypatch.setattr(newton, "RowQuadratic", None)  # would be called
    stack = factored_stack(X, bank())
    found = solve(stack, scores, loss="squared", penalty="l1", strength=1.0, tol=1e-6)
    assert found.certificate.relative_gap <= 1e-6


def assert_certified(path: RegularizationPath, X: np.ndarray, y: np.ndarray, weight: np.ndarray, own: KernelBank):
    """Recompute both sides of every gap of a path from kernel matrices and the functions."""
    matrices = factored_stack(X, own).block(None, None)
    for alpha, found in zip(path.alphas, path.solutions, strict=True):
        strength, rho = alpha * weight.sum(), found.dual_coef
        z = found.intercept + (found.functions.scores(X)[:, 0] if len(found.active) else np.zeros(len(X)))
        primal = 0.5 * weight @ (y - z) ** 2 + strength * found.kernel_norms.sum()
        assert np.sqrt(np.einsum("i,mij,j->m", rho, matrices, rho)).max() <= strength * (1 + 1e-9)
        assert abs(rho.sum()) <= 1e-9 * np.abs(rho).sum()
        dual = rho @ y - 0.5 * (rho**2 / weight).sum()
        assert found.certificate.primal == pytest.approx(primal, rel=1e-9)
        assert found.certificate.dual <= dual + 1e-9 * abs(dual)
        assert (primal - dual) / primal <= found.certificate.relative_gap + 1e-9 <= 1e-4 + 1e-9


def test_gaps_on_a_path_are_those_of_matrices_and_a_strength_takes_one_pass(steps: list[np.dtype]) -> None:
    X, y, weight = data(9)
    own = bank(standardize=False)
    path = regularization_path(
        X, y, kernels=own, n_alphas=12, alpha_min_ratio=0.02, sample_weight=weight, representation="factored"
    )
    assert_certified(path, X, y, weight, own)
    assert steps
    assert path.summary()["passes"].sum() < 2 * len(path.alphas)  # a start without its pass would take one more each


@pytest.mark.parametrize("cost", [0.0, np.inf], ids=["sweeps", "hessians"])
def test_more_columns_than_rows_stay_columns(cost: float, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, weight = (each[: 2 * N_GROUPS] for each in data(17))
    monkeypatch.setattr(quadratic_rows, "PRODUCT_COST", cost)
    own = bank(standardize=False)
    path = regularization_path(
        X, y, kernels=own, n_alphas=12, alpha_min_ratio=0.01, sample_weight=weight, representation="factored", tol=1e-4
    )
    assert_certified(path, X, y, weight, own)
    ranks = [found.functions.rounds[-1].rank for found in path.solutions]
    assert min(ranks[1:]) > 0  # that of a fit which went over to matrices is none
    assert max(ranks) > len(X)


@pytest.mark.parametrize("cost", [0.0, np.inf], ids=["sweeps", "hessians"])
def test_single_precision_certifies_paths_of_groups_and_columns_that_are_nearly_the_same(
    cost: float, steps: list[np.dtype], monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, weight = data(13)
    rng = np.random.default_rng(14)
    X[:, SIZE : 3 * SIZE] = np.tile(X[:, :SIZE], 2) + 1e-5 * rng.normal(size=(N_SAMPLES, 2 * SIZE))
    X[:, 3 * SIZE + 1] = X[:, 3 * SIZE] + 1e-7 * rng.normal(size=N_SAMPLES)
    X[:, 5] += 1e4  # what is left of its rounded values has lost four digits
    monkeypatch.setattr(quadratic_rows, "PRODUCT_COST", cost)
    own = bank(standardize=False)
    path = regularization_path(
        X, y, kernels=own, n_alphas=12, alpha_min_ratio=0.01, sample_weight=weight, representation="factored", tol=1e-4
    )
    assert_certified(path, X, y, weight, own)
    assert set(steps) == ({np.dtype(np.float32)} if cost == 0.0 else set())


def targets_of(task: str, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, dict[str, object]]:
    """Return a target of a kind, and what a path is told of it; of several outputs or samples that act on each other"""
    rng = np.random.default_rng(21)
    scores = np.column_stack([y, X[:, SIZE : 3 * SIZE] @ rng.normal(size=(2 * SIZE, 2)) + rng.normal(size=(len(y), 2))])
    if task == "several":
        return scores, {"loss": "squared", "outputs": "shared"}
    if task == "classes":
        return scores.argmax(axis=1), {"loss": "logistic", "outputs": "shared"}
    if task == "survival":
        time, ends = rng.exponential(np.exp(-y / y.std())).round(2), rng.exponential(2.0, size=len(y)).round(2)
        return survival_array(time <= ends, np.minimum(time, ends) + 0.01, rng.integers(0, 2, len(y))), {"loss": "cox"}
    return np.sign(y) if task == "logistic" else y, {"loss": task}


@pytest.mark.parametrize("tol", [1e-7, 1e-4], ids=["double", "single"])
@pytest.mark.parametrize("task", ["squared", "logistic", "several", "classes", "survival"])
def test_a_path_by_sweeps_is_that_by_hessians(
    task: str, tol: float, steps: list[np.dtype], monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, _ = data(4)
    targets, known = targets_of(task, X, y)
    options = {"kernels": bank(), "n_alphas": 8, "alpha_min_ratio": 0.05, "representation": "factored"} | known
    by_rows = regularization_path(X, targets, **options, tol=tol)
    swept = len(steps)
    monkeypatch.setattr(quadratic_rows, "PRODUCT_COST", np.inf)
    by_moments = regularization_path(X, targets, **options, tol=1e-7)
    assert swept
    assert set(steps) == {np.dtype(np.float32 if tol == 1e-4 else np.float64)}
    assert len(steps) == swept  # the second path took none
    for path, asked in ((by_rows, tol), (by_moments, 1e-7)):
        assert path.summary()["relative_gap"].max() <= asked
    assert np.array_equal(by_rows.alphas, by_moments.alphas)
    primal = [path.summary()["primal"].to_numpy() for path in (by_rows, by_moments)]
    assert primal[0] == pytest.approx(primal[1], rel=2.0 * tol)
    if tol > 1e-7:
        return
    assert np.array_equal(by_rows.weights > 0, by_moments.weights > 0)
    assert by_rows.norms == pytest.approx(by_moments.norms, rel=1e-3, abs=1e-4 * by_moments.norms.max())
