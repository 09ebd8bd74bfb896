"""Regularization paths: grids, warm starts, penalties with a fixed quadratic part."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.model_selection import ShuffleSplit

from manykernels import (
    Gaussian,
    KernelBank,
    KernelStack,
    MKLClassifier,
    MKLRegressor,
    MKLSurvival,
    solve,
    survival_array,
)
from manykernels.estimators.selection.mixtures import alpha_grid, check_alphas
from manykernels.estimators.selection.path import regularization_path
from manykernels.exceptions import ConvergenceWarning, InvalidInputError
from manykernels.grams import as_stack

Array = NDArray[np.float64]


def data(n_samples: int = 40) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, size=(n_samples, 3))
    kernels = np.stack([np.exp(-((X[:, None, j] - X[:, j]) ** 2) / 2 / w**2) for j in range(3) for w in (0.5, 2.0)])
    return X, kernels, np.sin(2 * X[:, 1]) + 0.2 * X[:, 2] + 0.1 * rng.normal(size=n_samples)


def test_the_grid_starts_at_the_empty_model_and_falls_geometrically() -> None:
    _, kernels, y = data()
    path = regularization_path(kernels, y, kernels="precomputed", n_alphas=7, alpha_min_ratio=1e-2, tol=1e-8)
    centered = y - y.mean()
    expected = np.sqrt(np.einsum("i,mij,j->m", centered, kernels, centered)).max() / len(y)
    np.testing.assert_allclose(path.alphas, expected * 10 ** np.linspace(0, -2, 7), rtol=1e-12)
    np.testing.assert_allclose(path.alpha_max, expected, rtol=1e-12)
    n_active = path.summary()["n_active"]
    assert n_active[0] == 0 < n_active[1]


def test_without_intercept_alpha_max_is_the_tau_max_of_pfbs() -> None:
    _, kernels, y = data()
    weight, penalties = np.linspace(0.5, 2, len(y)), np.linspace(0.5, 2.0, 6)
    path = regularization_path(
        as_stack(kernels), y, n_alphas=2, fit_intercept=False, sample_weight=weight, kernel_penalties=penalties
    )
    rho = weight * y
    expected = (np.sqrt(np.einsum("i,mij,j->m", rho, kernels, rho)) / penalties).max() / weight.sum()
    np.testing.assert_allclose(path.alpha_max, expected, rtol=1e-12)


@pytest.mark.parametrize("solver", ["auto", "pfbs"])
def test_every_solution_is_the_one_of_a_cold_start(solver: str) -> None:
    _, kernels, y = data()
    path = regularization_path(kernels, y, kernels="precomputed", n_alphas=6, solver=solver, tol=1e-8)
    for alpha, found, norms in zip(path.alphas, path.solutions, path.norms, strict=True):
        cold = solve(kernels, y, loss="squared", penalty="l1", strength=alpha * len(y), tol=1e-9)
        np.testing.assert_allclose(found.certificate.primal, cold.certificate.primal, rtol=2e-8)
        square = np.einsum("i,mij,j->m", found.dual_coef, kernels, found.dual_coef)
        np.testing.assert_allclose(norms, found.kernel_weights * np.sqrt(square), rtol=1e-9)


def test_the_l1_ratio_moves_the_start_of_the_grid() -> None:
    _, kernels, y = data()
    starts = [
        regularization_path(
            kernels, y, kernels="precomputed", penalty="elasticnet", n_alphas=1, penalty_parameters={"l1_ratio": ratio}
        ).alpha_max
        for ratio in (1.0, 0.25)
    ]
    np.testing.assert_allclose(starts[1], 4 * starts[0], rtol=1e-12)


def test_warm_starts_save_work() -> None:
    _, kernels, y = data()
    path = regularization_path(kernels, y, kernels="precomputed", n_alphas=20, solver="pfbs", tol=1e-7)
    cold = [
        solve(kernels, y, loss="squared", penalty="l1", strength=alpha * len(y), solver="pfbs", tol=1e-7)
        for alpha in path.alphas
    ]
    assert path.summary()["newton_steps"].sum() < 0.7 * sum(found.newton_steps for found in cold)


def test_tables_tell_the_path() -> None:
    X, _, y = data()
    bank = KernelBank([(f"k{j}{w}", Gaussian(w), [j]) for j in range(3) for w in (0.5, 2.0)], normalize=None)
    path = regularization_path(X, y, kernels=bank, n_alphas=5)
    frame, whole = path.frame(), path.frame(active_only=False)
    assert len(whole) == 5 * 6
    assert (frame["weight"] > 0).all()
    assert set(frame["kernel"]) <= set(bank.fit(X).names)
    assert frame.groupby("alpha").size().sum() == path.summary()["n_active"].sum() == len(frame)
    assert len(path) == 5
    for kernel, entry in enumerate(path.entry_alphas):
        active = path.alphas[path.weights[:, kernel] > 0]
        assert entry == active.max() if active.size else np.isnan(entry)
    entered = len(set(frame["kernel"]))
    assert f"<RegularizationPath: 5 strengths, alpha {path.alpha_max:.3g} to " in repr(path)
    assert repr(path).endswith(f"; {entered} of 6 kernels enter>")


def test_a_kernel_stack_is_taken_as_it_is() -> None:
    _, kernels, y = data()
    names = [f"view {m}" for m in range(6)]
    given = regularization_path(KernelStack(kernels, names), y, kernels="precomputed", alphas=[0.1, 0.01])
    plain = regularization_path(as_stack(kernels), y, alphas=[0.01, 0.1])
    assert given.kernel_names == tuple(names)
    assert given.alpha_max is None
    np.testing.assert_array_equal(given.alphas, [0.1, 0.01])
    np.testing.assert_allclose(given.weights, plain.weights, rtol=1e-12)


def test_progress_counts_to_the_end() -> None:
    _, kernels, y = data()
    seen: list[tuple[int, int]] = []
    regularization_path(as_stack(kernels), y, n_alphas=3, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_unfinished_problems_are_reported_once() -> None:
    _, kernels, y = data()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        regularization_path(as_stack(kernels), y, n_alphas=6, solver="interior_point", max_iter=2, tol=1e-9)
    assert [warning.category for warning in caught] == [ConvergenceWarning]
    assert "5 of the 6 problems" in str(caught[0].message)


def test_a_penalty_without_an_empty_model_needs_strengths() -> None:
    _, kernels, y = data()
    for penalty, given in (("ridge", {}), ("elasticnet", {"l1_ratio": 0.0})):
        with pytest.raises(InvalidInputError, match="every kernel has a weight at any strength"):
            regularization_path(as_stack(kernels), y, penalty=penalty, penalty_parameters=given)
    path = regularization_path(as_stack(kernels), y, penalty="ridge", alphas=[1e-2, 1.0])
    assert path.summary()["n_active"].tolist() == [6, 6]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"alpha_min_ratio": 1.5}, "must be between 0 and 1, got 1.5"),
        ({"n_alphas": 0}, "n_alphas"),
        ({"alphas": [0.1, -1.0]}, "every alpha"),
        ({"alphas": []}, "non-empty vector"),
        ({"penalty": "lasso"}, "Unknown penalty 'lasso'"),
    ],
)
def test_bad_input_is_explained(given: dict[str, Any], message: str) -> None:
    _, kernels, y = data()
    with pytest.raises(InvalidInputError, match=message):
        regularization_path(as_stack(kernels), y, **given)


def test_a_constant_target_has_no_path() -> None:
    _, kernels, y = data()
    with pytest.raises(InvalidInputError, match="a constant at any strength"):
        regularization_path(as_stack(kernels), np.full(len(y), 3.0))
    with pytest.raises(InvalidInputError, match="a constant at any strength"):
        regularization_path(np.ones((len(y), 3)), y)


def test_grids() -> None:
    assert alpha_grid(2.0, 1, 0.1).tolist() == [2.0]
    assert alpha_grid(0.1 + 0.2, 4, 0.1)[0] == 0.1 + 0.2
    np.testing.assert_allclose(alpha_grid(4.0, 3, 0.25), [4.0, 2.0, 1.0])
    np.testing.assert_array_equal(check_alphas([1.0, 3.0, 2.0]), [3.0, 2.0, 1.0])


@pytest.mark.parametrize("outputs", ["own", "shared"])
def test_labels_for_a_loss_of_numbers_are_refused_with_the_way_out(outputs: str) -> None:
    X, labels = np.random.default_rng(4).normal(size=(12, 2)), np.array(["a", "b"] * 6)
    with pytest.raises(InvalidInputError, match=r"y must hold numbers .* give loss='logistic'"):
        regularization_path(X, labels, outputs=outputs, alphas=[0.1])


def test_labels_of_two_classes_are_encoded() -> None:
    X = np.random.default_rng(4).normal(size=(40, 2))
    signs = np.where(X[:, 0] > 0, 1.0, -1.0)
    words = pd.Series(np.where(signs > 0, "yes", "no"))
    given: dict[str, Any] = {"loss": "logistic", "alphas": [0.02], "tol": 1e-6}
    path, plain = regularization_path(X, words, **given), regularization_path(X, signs, **given)
    assert np.asarray(path.classes).tolist() == ["no", "yes"]
    np.testing.assert_allclose(path.norms, plain.norms)
    model = MKLClassifier(alpha=0.02, tol=1e-6).fit(X, words)
    np.testing.assert_allclose(path.norms[0], model.kernel_norms_, rtol=1e-3, atol=1e-6)
    assert regularization_path(X, signs, alphas=[0.1]).classes is None


def test_more_classes_need_shared_weights() -> None:
    X, labels = np.random.default_rng(4).normal(size=(12, 2)), np.array(["a", "b", "c"] * 4)
    with pytest.raises(InvalidInputError, match=r"3 classes \('a', 'b', 'c'\).*outputs='shared'"):
        regularization_path(X, labels, loss="logistic", alphas=[0.1])
    path = regularization_path(X, labels, loss="logistic", outputs="shared", alphas=[0.1])
    assert np.asarray(path.classes).tolist() == ["a", "b", "c"]


def test_a_path_of_hazards_is_that_of_the_estimator_on_matrices_and_factors() -> None:
    rng = np.random.default_rng(5)
    X = rng.uniform(-2, 2, (120, 2))
    seen, leaves = rng.exponential(np.exp(-2 * np.sin(2 * X[:, 1]))), rng.exponential(2.0, 120)
    y = survival_array(seen <= leaves, np.minimum(seen, leaves), rng.integers(0, 2, 120))
    bank = KernelBank.per_feature(widths=[0.5, 1.0], standardize=True)
    options: dict[str, Any] = {"kernels": bank, "loss": "cox", "n_alphas": 4, "alpha_min_ratio": 0.05, "tol": 1e-7}
    gram, factored = (regularization_path(X, y, representation=form, **options) for form in ("gram", "factored"))
    assert gram.solutions[0].active.size == 0
    np.testing.assert_allclose(factored.alphas, gram.alphas, rtol=1e-6)
    np.testing.assert_allclose(factored.norms, gram.norms, atol=1e-3)
    single = MKLSurvival(bank, alpha=float(gram.alphas[-1]), tol=1e-7).fit(X, y)
    np.testing.assert_allclose(gram.norms[-1], single.kernel_norms_, atol=1e-3)
    breslow = regularization_path(X, y, loss_parameters={"ties": "breslow"}, **options)
    np.testing.assert_allclose(breslow.norms, gram.norms, atol=1e-3)  # there are no ties
    with pytest.raises(InvalidInputError, match="has one target"):
        regularization_path(X, y, loss="cox", outputs="shared")


@pytest.mark.parametrize("solver", ["pfbs", "auto"])
def test_a_path_with_a_fixed_ridge_is_that_of_single_problems_and_starts_warm(solver: str) -> None:
    """``tau`` falls and ``mu`` stays, so that each strength has a mixture of its own."""
    _, kernels, y = data()
    mu, options = 0.02, {"solver": solver, "tol": 1e-4, "max_iter": 2000}
    options |= {"polish": False} if solver == "pfbs" else {}
    path = regularization_path(
        as_stack(kernels), y, ridge=mu, n_alphas=8, alpha_min_ratio=0.01, fit_intercept=False, **options
    )
    assert path.alphas[0] == pytest.approx(np.sqrt((kernels @ y) @ y).max() / len(y), rel=1e-6)  # tau_max
    assert path.solutions[0].active.size == 0
    passes = 0.0
    for tau, found in zip(path.alphas, path.solutions, strict=True):
        own = {"penalty": "elasticnet", "penalty_parameters": {"l1_ratio": tau / (tau + mu)}, "alphas": [tau + mu]}
        cold = regularization_path(as_stack(kernels), y, fit_intercept=False, **own, **options)
        assert found.certificate.primal == pytest.approx(cold.solutions[0].certificate.primal, rel=2e-4)
        passes += cold.solutions[0].passes
    assert sum(found.passes for found in path.solutions) < passes


def test_a_fixed_ridge_is_beside_the_block_norm_alone() -> None:
    _, kernels, y = data()
    with pytest.raises(InvalidInputError, match="fixed part of a path of penalty='l1'"):
        regularization_path(as_stack(kernels), y, penalty="lq", ridge=0.1)
    with pytest.raises(InvalidInputError, match="Leave cv or ridge out"):
        regularization_path(np.ones((10, 2)), np.arange(10.0), ridge=0.1, cv=2)
    with pytest.raises(InvalidInputError, match="ridge must be"):
        regularization_path(as_stack(kernels), y, ridge=-1.0)


# --- performance ------------------------------------------------------------------------------------------------------


def test_a_path_measures_its_error_with_its_deviation_over_splits() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(48, 3))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=48)
    splits = list(ShuffleSplit(3, test_size=0.25, random_state=0).split(X))
    path = regularization_path(X, y, alphas=[0.05, 0.005], cv=splits, tol=1e-6)
    table = path.performance
    assert table is not None
    np.testing.assert_array_equal(table["alpha"], path.alphas)
    by_hand = np.empty((3, 2))
    for k, (train, test) in enumerate(splits):
        for a, alpha in enumerate(path.alphas):
            model = MKLRegressor(alpha=float(alpha), tol=1e-6).fit(X[train], y[train])
            by_hand[k, a] = np.sqrt(np.mean((model.predict(X[test]) - y[test]) ** 2))
    np.testing.assert_allclose(table["rmse"], by_hand.mean(axis=0), rtol=1e-3)
    np.testing.assert_allclose(table["rmse_std"], by_hand.std(axis=0), rtol=1e-2, atol=1e-4)
    assert path.summary().columns[-2:].tolist() == ["rmse", "rmse_std"]
    assert regularization_path(X, y, alphas=[0.1]).performance is None


@pytest.mark.nightly
def test_performance_of_classes_of_mixtures_and_of_what_cannot_be_split() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 2))
    labels = np.where(X[:, 0] > 0, "yes", "no")
    path = regularization_path(X, labels, loss="logistic", alphas=[0.1, 0.01], cv=2, solver="spicymkl", tol=1e-4)
    assert path.summary()["accuracy"].iloc[-1] > 0.7
    fixed = regularization_path(X, X[:, 0], penalty="elasticnet", n_alphas=3, cv=2, scoring="r2")
    assert fixed.performance is not None
    assert fixed.performance.columns.tolist() == ["alpha", "score", "score_std", "score_0", "score_1"]
    times = survival_array(np.ones(40, dtype=bool), np.exp(X[:, 0]))
    with pytest.raises(InvalidInputError, match="MKLSurvivalCV"):
        regularization_path(X, times, loss="cox", alphas=[0.1], cv=2)
    with pytest.raises(InvalidInputError, match="a GramStack cannot be split"):
        regularization_path(as_stack(np.eye(5)[None]), np.arange(5.0), alphas=[0.1], cv=2)
