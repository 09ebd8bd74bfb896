"""With one kernel, the estimators are the kernel machines of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from manykernels import Gaussian, KernelBank, MKLClassifier, MKLRegressor
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Ridge

TIGHT = {"tol": 1e-11, "resources": {"max_iter": 500}}
GAUSSIAN = KernelBank([("gaussian", Gaussian(1.0), None)], normalize=None)  # gamma = 1 / 2


@pytest.mark.parametrize("alpha", [0.003, 0.05])
def test_hinge_with_ridge_is_svc(data: Any, alpha: float) -> None:
    model = MKLClassifier(GAUSSIAN, loss="hinge", penalty="ridge", alpha=alpha, **TIGHT).fit(data.X, data.labels)
    svc = SVC(C=1 / (alpha * 60), gamma=0.5, tol=1e-8).fit(data.X, data.labels)
    np.testing.assert_allclose(model.decision_function(data.X), svc.decision_function(data.X), atol=1e-5)
    np.testing.assert_array_equal(model.classes_, svc.classes_)


@pytest.mark.parametrize("constant", [1.0, 10.0])
def test_one_kernel_on_the_simplex_is_svc(data: Any, constant: float) -> None:
    alpha = 1 / (constant * 60)
    model = MKLClassifier(GAUSSIAN, loss="hinge", penalty="simplex", alpha=alpha, **TIGHT).fit(data.X, data.labels)
    svc = SVC(C=constant, gamma=0.5, tol=1e-8).fit(data.X, data.labels)
    np.testing.assert_allclose(model.decision_function(data.X), svc.decision_function(data.X), atol=1e-4)


def test_hinge_with_the_block_norm_is_svc_at_its_norm(data: Any) -> None:
    # C ||f|| and (C / (2 ||f*||)) ||f||^2 have the same minimizer f*.
    model = MKLClassifier(GAUSSIAN, loss="hinge", alpha=0.02, **TIGHT).fit(data.X, data.labels)
    svc = SVC(C=float(model.kernel_norms_[0]) / (0.02 * 60), gamma=0.5, tol=1e-8).fit(data.X, data.labels)
    np.testing.assert_allclose(model.decision_function(data.X), svc.decision_function(data.X), atol=1e-4)


def test_squared_loss_with_ridge_is_kernel_ridge(data: Any) -> None:
    model = MKLRegressor(GAUSSIAN, penalty="ridge", alpha=0.01, fit_intercept=False, **TIGHT).fit(data.X, data.y)
    ridge = KernelRidge(alpha=0.6, kernel="rbf", gamma=0.5).fit(data.X, data.y)
    new = data.X[::-1] + 0.1
    np.testing.assert_allclose(model.predict(new), ridge.predict(new), atol=1e-7)


def test_epsilon_insensitive_with_ridge_is_svr(data: Any) -> None:
    model = MKLRegressor(
        GAUSSIAN, loss="epsilon_insensitive", loss_parameters={"epsilon": 0.2}, penalty="ridge", alpha=0.01, **TIGHT
    )
    svr = SVR(C=1 / 0.6, epsilon=0.2, gamma=0.5, tol=1e-8).fit(data.X, data.y)
    np.testing.assert_allclose(model.fit(data.X, data.y).predict(data.X), svr.predict(data.X), atol=1e-5)
    assert set(svr.support_) <= set(model.support_)


def test_samples_that_do_not_matter_are_left_out_and_the_rest_is_certified(data: Any) -> None:
    model = MKLClassifier(GAUSSIAN, loss="hinge", penalty="ridge", alpha=0.003, tol=1e-8).fit(data.X, data.labels)
    svc = SVC(C=1 / 0.18, gamma=0.5, tol=1e-10).fit(data.X, data.labels)
    assert set(svc.support_) <= set(model.support_)
    assert len(model.support_) <= len(svc.support_) + 5 < 60
    kernel = np.exp(-((data.X[:, None] - data.X[None]) ** 2).sum(axis=-1) / 2)
    signs = np.where(data.labels == "yes", 1.0, -1.0)
    certificate = Problem(kernel[None], signs, "hinge", Ridge(0.18)).certificate(
        model.solution_.dual_coef, model.kernel_weights_, model.intercept_
    )
    assert certificate.relative_gap <= 1e-8
    np.testing.assert_allclose(model.dual_gap_, certificate.relative_gap, atol=1e-12)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_logistic_with_ridge_is_logistic_regression(data: Any, fit_intercept: bool) -> None:
    # The rows are a factor of the linear kernel.
    model = MKLClassifier("precomputed", penalty="ridge", alpha=0.02, fit_intercept=fit_intercept, **TIGHT)
    model.fit((data.X @ data.X.T)[None], data.labels)
    regression = LogisticRegression(C=1 / 1.2, fit_intercept=fit_intercept, tol=1e-10, max_iter=1000)
    regression.fit(data.X, data.labels)
    probabilities = model.predict_proba((data.X @ data.X.T)[None])
    np.testing.assert_allclose(probabilities, regression.predict_proba(data.X), atol=1e-6)


def test_more_classes_are_one_machine_each_against_the_rest() -> None:
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    bank = KernelBank([("gaussian", Gaussian(3.0), None)], normalize=None)
    model = MKLClassifier(bank, loss="hinge", penalty="ridge", alpha=0.01, **TIGHT).fit(X, y)
    machines = OneVsRestClassifier(SVC(C=1 / (0.01 * len(y)), gamma=1 / 18, tol=1e-8)).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), machines.decision_function(X), atol=1e-5)
    np.testing.assert_array_equal(model.predict(X), machines.predict(X))


def test_ridge_over_kernels_is_the_sum_of_kernels(data: Any) -> None:
    model = MKLRegressor("precomputed", penalty="ridge", alpha=0.01, fit_intercept=False, **TIGHT)
    model.fit(data.grams, data.y)
    ridge = KernelRidge(alpha=0.6, kernel="precomputed").fit(data.grams.sum(axis=0), data.y)
    np.testing.assert_allclose(model.predict(data.grams), ridge.predict(data.grams.sum(axis=0)), atol=1e-6)
    np.testing.assert_allclose(model.kernel_weights_, 1 / 0.6)


def test_a_kernel_twice_changes_nothing_but_its_weights(data: Any) -> None:
    once = MKLClassifier("precomputed", alpha=0.02, **TIGHT).fit(data.grams, data.labels)
    twice = MKLClassifier("precomputed", alpha=0.02, **TIGHT).fit(np.concatenate([data.grams, data.grams]), data.labels)
    both = np.concatenate([data.grams, data.grams])
    np.testing.assert_allclose(twice.decision_function(both), once.decision_function(data.grams), atol=1e-4)
    np.testing.assert_allclose(twice.kernel_norms_.reshape(2, -1).sum(axis=0), once.kernel_norms_, atol=1e-3)
