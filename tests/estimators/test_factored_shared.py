"""``outputs="shared"`` on kernels held as factors: the estimators, their CV twins, paths, files and tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from manykernels import (
    KernelBank,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    load_model,
    regularization_path,
    save_model,
)
from manykernels.exceptions import IncompatibleError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 3))
TARGETS = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2, 0.5 * X[:, 0]]) + 0.2 * RNG.normal(size=(150, 3))
LABELS = np.array(["a", "b", "c"])[TARGETS.argmax(axis=1)]
ADDITIVE = KernelBank.per_feature(Linear(), widths=[0.5, 1.5], standardize=True)
OTHERS = RNG.normal(size=(20, 3))


@pytest.mark.parametrize("center", [False, True])
def test_a_regressor_is_that_of_gram_matrices(center: bool, tmp_path: Any) -> None:
    bank = ADDITIVE.replace(center=center)
    options: dict[str, Any] = {"outputs": "shared", "alpha": 0.05, "tol": 2e-8}
    factors = MKLRegressor(bank, resources={"representation": "factored"}, **options).fit(X, TARGETS)
    matrices = MKLRegressor(bank, resources={"representation": "gram"}, **options).fit(X, TARGETS)
    assert (factors.representation_, matrices.representation_) == ("factored", "gram")
    assert factors.kernel_weights_.shape == (9,)
    assert factors.intercept_.shape == (3,)
    assert not hasattr(factors, "dual_coef_")
    np.testing.assert_allclose(factors.predict(OTHERS), matrices.predict(OTHERS), atol=1e-4)
    np.testing.assert_allclose(factors.decompose(OTHERS), matrices.decompose(OTHERS), atol=1e-4)
    np.testing.assert_allclose(factors.kernel_weights_, matrices.kernel_weights_, atol=1e-5)
    np.testing.assert_allclose(factors.intercept_, matrices.intercept_, atol=1e-5)
    np.testing.assert_allclose(factors.decompose(X).sum(axis=0) + factors.intercept_, factors.predict(X), atol=1e-12)
    assert factors.weights_frame()["name"].tolist() == matrices.weights_frame()["name"].tolist()
    np.testing.assert_allclose(factors.decompose_frame(X)[1].sum(axis=1), factors.predict(X)[:, 1])
    save_model(factors, tmp_path / "model.mkl")
    np.testing.assert_array_equal(load_model(tmp_path / "model.mkl").predict(OTHERS), factors.predict(OTHERS))


def test_a_classifier_is_the_multinomial_one(tmp_path: Any) -> None:
    factors = MKLClassifier(ADDITIVE, outputs="shared", resources={"representation": "factored"}, tol=1e-7).fit(
        X, LABELS
    )
    matrices = MKLClassifier(ADDITIVE, outputs="shared", resources={"representation": "gram"}, tol=1e-7).fit(X, LABELS)
    assert factors.dual_gap_ <= 1e-7
    np.testing.assert_allclose(factors.alpha_, matrices.alpha_)
    np.testing.assert_allclose(factors.predict_proba(OTHERS), matrices.predict_proba(OTHERS), atol=1e-3)
    np.testing.assert_allclose(factors.predict_proba(OTHERS).sum(axis=1), 1.0)
    np.testing.assert_array_equal(factors.proved_inactive_ & (factors.kernel_weights_ > 0), False)
    save_model(factors, tmp_path / "model.mkl")
    np.testing.assert_array_equal(load_model(tmp_path / "model.mkl").predict(OTHERS), factors.predict(OTHERS))


def test_kinked_losses_can_be_had_on_factors_only() -> None:
    model = MKLClassifier(
        ADDITIVE, outputs="shared", loss="hinge", resources={"representation": "factored"}, tol=1e-3
    ).fit(X, LABELS)
    assert model.dual_gap_ <= 1e-3
    assert model.score(X, LABELS) > 0.8
    with pytest.raises(IncompatibleError, match="representation='factored'"):
        MKLClassifier(ADDITIVE, outputs="shared", loss="hinge", resources={"representation": "gram"}).fit(X, LABELS)


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "y"), [(MKLRegressorCV, TARGETS), (MKLClassifierCV, LABELS)])
def test_cross_validation_chooses_what_it_chooses_on_matrices(kind: Any, y: Any) -> None:
    options: dict[str, Any] = {"outputs": "shared", "alphas": [0.1, 0.01, 0.0001], "cv": 2}
    factors = kind(ADDITIVE, resources={"representation": "factored"}, **options).fit(X, y)
    matrices = kind(ADDITIVE, resources={"representation": "gram"}, **options).fit(X, y)
    assert factors.representation_ == "factored"
    assert factors.alpha_ == matrices.alpha_
    np.testing.assert_allclose(factors.score(X, y), matrices.score(X, y), atol=0.01)


def test_a_path_is_that_of_gram_matrices() -> None:
    options: dict[str, Any] = {"kernels": ADDITIVE, "outputs": "shared", "n_alphas": 4, "loss": "squared", "tol": 1e-6}
    kinds = ("factored", "gram")
    factors, matrices = (regularization_path(X, TARGETS, representation=kind, **options) for kind in kinds)
    np.testing.assert_allclose(factors.alphas, matrices.alphas)
    primal = [[found.certificate.primal for found in path.solutions] for path in (factors, matrices)]
    np.testing.assert_allclose(*primal, rtol=2e-6)


def test_targets_of_large_samples_share_factors_by_themselves() -> None:
    rows = RNG.normal(size=(5_100, 2))
    Y = np.column_stack([np.sin(2 * rows[:, 0]), rows[:, 0] ** 2])
    model = MKLRegressor(ADDITIVE, outputs="shared", alpha="0.3*max").fit(rows, Y)
    assert model.representation_ == "factored"
    assert model.dual_gap_ <= 1e-4


def test_ridge_of_several_targets_on_factors_has_own_solutions() -> None:
    model = MKLRegressor(ADDITIVE, penalty="ridge", alpha=0.1, resources={"representation": "factored"}).fit(X, TARGETS)
    assert len(model.solution_) == 3
    assert model.dual_gap_ <= 1e-4
