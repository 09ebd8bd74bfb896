"""Weights of samples, classes and kernels mean what they say, exactly where the kernels are fixed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from manykernels import KernelStack, MKLClassifier, MKLClassifierCV, MKLRegressor, MKLRegressorCV

TIGHT = {"tol": 1e-11, "resources": {"max_iter": 500}}


@pytest.mark.parametrize("penalty", ["l1", "elasticnet"])
def test_a_weight_of_two_is_a_sample_twice(data: Any, penalty: str) -> None:
    counts = np.random.default_rng(0).integers(0, 3, size=60)
    repeated = np.repeat(np.arange(60), counts)
    model = MKLClassifier("precomputed", penalty=penalty, alpha=0.02, **TIGHT)
    stack = KernelStack(data.grams)
    many = model.fit(stack[repeated], data.labels[repeated]).decision_function(stack)
    weighted = model.fit(stack, data.labels, sample_weight=counts)
    np.testing.assert_allclose(weighted.decision_function(stack), many, atol=1e-4)
    assert counts[weighted.support_].all()
    assert weighted.solution_.dual_coef.shape == (60,)


def test_a_sample_of_weight_zero_is_absent(data: Any) -> None:
    weight = np.ones(60)
    weight[::4] = 0
    model = MKLRegressor(alpha=0.02)  # with its bank: what it learns from rows must not see the absent ones
    absent = model.fit(data.X[weight > 0], data.y[weight > 0]).predict(data.X)
    np.testing.assert_allclose(model.fit(data.frame, data.y, weight).predict(data.frame), absent, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("cv", [None, 3])
def test_samples_of_weight_zero_are_in_no_fold_that_a_number_asks_for(data: Any, cv: int | None) -> None:
    weight = np.ones(60)
    weight[::4] = 0
    for model, y in ((MKLRegressorCV(cv=cv, n_alphas=5), data.y), (MKLClassifierCV(cv=cv, n_alphas=5), data.labels)):
        absent = model.fit(data.X[weight > 0], y[weight > 0]).best_score_, model.alpha_
        assert (model.fit(data.X, y, sample_weight=weight).best_score_, model.alpha_) == pytest.approx(absent)


def test_weights_times_a_constant_change_nothing(data: Any) -> None:
    model = MKLClassifier("precomputed", alpha=0.02, **TIGHT)
    one = model.fit(data.grams, data.labels).decision_function(data.grams)
    ten = model.fit(data.grams, data.labels, sample_weight=10.0).decision_function(data.grams)
    np.testing.assert_allclose(ten, one, atol=1e-5)


def test_class_weights_are_sample_weights(data: Any) -> None:
    model = MKLClassifier("precomputed", alpha=0.02, **TIGHT)
    weight = np.where(data.labels == "yes", 3.0, 1.0)
    by_sample = model.fit(data.grams, data.labels, sample_weight=weight).decision_function(data.grams)
    by_class = model.set_params(class_weight={"yes": 3.0}).fit(data.grams, data.labels)
    np.testing.assert_allclose(by_class.decision_function(data.grams), by_sample, atol=1e-6)


@pytest.mark.parametrize("factor", [1e-6, 0.2, 20.0])
@pytest.mark.parametrize("alpha", ["auto", "0.3*noise", "0.1*max"])
def test_a_strength_that_data_give_is_that_of_weights_whichever_way_they_are_given(factor: float, alpha: str) -> None:
    X = np.random.default_rng(0).normal(size=(80, 2))
    y = np.where(X[:, 0] ** 2 + X[:, 1] > 1, "yes", "no")
    weight = np.where(y == "yes", factor, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        by_class = MKLClassifier(alpha=alpha, class_weight={"yes": factor}).fit(X, y)
        by_sample = MKLClassifier(alpha=alpha).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(by_class.alpha_, by_sample.alpha_, rtol=1e-12)
    np.testing.assert_allclose(by_class.decision_function(X), by_sample.decision_function(X), rtol=1e-9)


def test_balanced_gives_every_class_the_same_total(data: Any) -> None:
    share = (data.labels == "yes").mean()
    model = MKLClassifier("precomputed", alpha=0.02, **TIGHT)
    by_hand = model.set_params(class_weight={"yes": 0.5 / share, "no": 0.5 / (1 - share)})
    by_hand = by_hand.fit(data.grams, data.labels).decision_function(data.grams)
    balanced = model.set_params(class_weight="balanced").fit(data.grams, data.labels)
    np.testing.assert_allclose(balanced.decision_function(data.grams), by_hand, atol=1e-6)


def test_a_kernel_penalty_is_a_scaled_kernel(data: Any) -> None:
    # w ||f|| in the norm of K is ||f|| in the norm of K / w^2.
    factors = np.array([0.5, 2.0, 1.0, 3.0])
    model = MKLRegressor("precomputed", alpha=0.02, **TIGHT)
    scaled = data.grams / factors[:, None, None] ** 2
    expected = model.fit(scaled, data.y).predict(scaled)
    penalized = model.set_params(kernel_penalties=factors).fit(data.grams, data.y)
    np.testing.assert_allclose(penalized.predict(data.grams), expected, atol=1e-6)


def test_penalties_by_name_and_pattern(data: Any) -> None:
    stack = KernelStack(data.grams, names=["line a", "line b", "line c", "near"])
    model = MKLRegressor("precomputed", alpha=0.02, kernel_penalties=[2.0, 5.0, 2.0, 1.0])
    by_position = model.fit(stack, data.y).kernel_weights_
    model.set_params(kernel_penalties={"line b": 5.0, "line*": 2.0})
    np.testing.assert_array_equal(model.fit(stack, data.y).kernel_weights_, by_position)


def test_a_large_penalty_excludes_a_kernel(data: Any) -> None:
    model = MKLRegressor("precomputed", alpha=0.02).fit(data.grams, data.y)
    best = int(model.kernel_weights_.argmax())
    model.set_params(kernel_penalties=np.where(np.arange(4) == best, 1e3, 1.0)).fit(data.grams, data.y)
    assert model.kernel_weights_[best] == 0
