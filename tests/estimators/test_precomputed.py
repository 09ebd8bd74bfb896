"""Precomputed kernels go through scikit-learn's splitting, on both sample axes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from tests.support.memory import peak_of

from manykernels import KernelBank, KernelStack, Linear, MKLClassifier, MKLRegressor, MKLRegressorCV, PrecomputedBank
from manykernels.exceptions import NotPSDError


def test_cross_validation_is_the_loop_by_hand(data: Any) -> None:
    stack, folds, model = KernelStack(data.grams), KFold(4), MKLClassifier("precomputed", alpha=0.02)
    by_hand = []
    for train, test in folds.split(data.X):
        model.fit(data.grams[:, train][:, :, train], data.labels[train])
        by_hand.append(accuracy_score(data.labels[test], model.predict(data.grams[:, test][:, :, train])))
    np.testing.assert_array_equal(cross_val_score(model, stack, data.labels, cv=folds), by_hand)
    assert min(by_hand) < max(by_hand)


def test_cross_val_predict_search_and_groups(data: Any) -> None:
    stack = KernelStack(data.grams, names=["a", "b", "c", "near"])
    search = GridSearchCV(MKLRegressor("precomputed"), {"alpha": [0.01, 0.1]}, cv=3).fit(stack, data.y)
    assert search.best_params_ == {"alpha": 0.01}
    assert search.best_estimator_.kernel_names_ == ["a", "b", "c", "near"]
    guesses = cross_val_predict(search.best_estimator_, stack, data.y, cv=GroupKFold(3), groups=np.arange(60) // 6)
    assert np.corrcoef(guesses, data.y)[0, 1] > 0.8


def test_a_split_stack_predicts_like_the_features(data: Any) -> None:
    stack = KernelStack(np.stack([np.outer(column, column) for column in data.X.T]))
    train, test, y_train, _ = train_test_split(stack, data.labels, random_state=0)
    ids = test.sample_ids
    model = MKLClassifier("precomputed", alpha=0.02, tol=1e-9).fit(train, y_train)
    bank = KernelBank.per_feature(Linear(), normalize=None)
    features = MKLClassifier(bank, alpha=0.02, tol=1e-9).fit(data.X[train.sample_ids], y_train)
    np.testing.assert_allclose(model.decision_function(test), features.decision_function(data.X[ids]), atol=1e-6)
    np.testing.assert_allclose(model.decompose(test), features.decompose(data.X[ids]), atol=1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "form", [np.asarray, list, KernelStack, lambda kernels: KernelStack(kernels.astype(np.float32))]
)
def test_arrays_lists_and_stacks_are_the_same(data: Any, form: Any) -> None:
    expected = MKLRegressor("precomputed", alpha=0.02).fit(data.grams, data.y)
    model = MKLRegressor("precomputed", alpha=0.02).fit(form(data.grams), data.y)
    new = data.grams[:, :5]
    np.testing.assert_allclose(model.predict(new), expected.predict(new), atol=1e-3)
    np.testing.assert_allclose(model.predict(KernelStack.rectangular(new)), model.predict(new), atol=1e-12)
    assert model.n_features_in_ == 60
    assert list(model.weights_frame()["kernel"].unique()) == ["precomputed"]


def test_normalization_is_learned_on_training_samples(data: Any) -> None:
    stack = KernelStack(data.grams)
    train, test = np.arange(40), np.arange(40, 60)
    model = MKLRegressor(PrecomputedBank(normalize="trace", center=True), alpha=0.002, tol=1e-9)
    model.fit(stack[train], data.y[train])
    inner, cross = data.grams[:, :40, :40], data.grams[:, 40:, :40]
    centered = inner - inner.mean(axis=1, keepdims=True) - inner.mean(axis=2, keepdims=True)
    centered += inner.mean(axis=(1, 2), keepdims=True)
    scale = np.trace(centered, axis1=1, axis2=2)[:, None, None]
    new = cross - cross.mean(axis=2, keepdims=True) - inner.mean(axis=1, keepdims=True)
    new += inner.mean(axis=(1, 2), keepdims=True)
    by_hand = MKLRegressor("precomputed", alpha=0.002, tol=1e-9).fit(centered / scale, data.y[train])
    np.testing.assert_allclose(model.predict(stack[test]), by_hand.predict(new / scale), atol=1e-5)


def test_the_tag_follows_the_parameter() -> None:
    for kernels, expected in [(None, False), ("precomputed", True), (PrecomputedBank(), True)]:
        assert MKLClassifier(kernels).__sklearn_tags__().input_tags.pairwise is expected


def test_weight_zero_leaves_rows_of_a_stack_out(data: Any) -> None:
    stack, weight = KernelStack(data.grams), np.where(np.arange(60) < 45, 1.0, 0.0)
    model = MKLClassifier("precomputed", alpha=0.02)
    expected = model.fit(stack[:45], data.labels[:45]).decision_function(stack)
    weighted = model.fit(stack, data.labels, sample_weight=weight)
    np.testing.assert_array_equal(weighted.decision_function(stack), expected)
    assert weighted.support_.max() < 45


def test_matrices_given_to_a_fit_are_proven_where_the_model_reads_them() -> None:
    """To factorize all of them takes as long as the fit; as `solve`, it looks at those in the model."""
    n = 130
    rng = np.random.default_rng(0)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    points = rng.normal(size=(69, n, 3))
    grams = points @ points.transpose(0, 2, 1)
    helpful = np.outer(y, y)
    crooked = helpful - 0.5 * np.eye(n)  # its other eigenvalues are negative, which no diagonal entry shows
    useless = 1e-6 * np.eye(n)
    useless[0, 1] = useless[1, 0] = 3e-6
    model = MKLClassifier("precomputed", loss="hinge", alpha="0.5*max")
    weights = model.fit(np.stack([*grams, helpful, useless]), y).kernel_weights_
    assert weights[69] > 0
    assert weights[70] == 0
    with pytest.raises(NotPSDError, match="not positive semidefinite"):
        KernelStack(np.stack([*grams, helpful, useless]))
    with pytest.raises(NotPSDError, match=r"kernels\[69\] is not positive semidefinite"):
        model.fit(np.stack([*grams, crooked]), y)


def test_a_search_on_matrices_holds_no_more_than_twice_what_a_fit_does() -> None:
    """Folds have triangles of their own in single precision, a quarter of copies as the kernels came."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(12, 160, 3))
    grams, y = points @ points.transpose(0, 2, 1), points[0, :, 0] + rng.normal(size=160)
    peaks = []
    for model in (MKLRegressor("precomputed"), MKLRegressorCV("precomputed", cv=5)):
        model.fit(grams, y)  # compiles and imports
        peaks.append(peak_of(partial(model.fit, grams, y)))
    assert grams.nbytes + peaks[1] < 2 * (grams.nbytes + peaks[0])


def test_a_fit_on_matrices_copies_none_of_them() -> None:
    """What rows that are left out lose was once read from copies of all kernels in the model."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(20, 200, 3))
    grams, y = points @ points.transpose(0, 2, 1), points[:, :, 0].sum(axis=0)
    model = MKLRegressor("precomputed", penalty="ridge")
    model.fit(grams, y)  # compiles and imports
    peak = peak_of(lambda: model.fit(grams, y))
    assert model.kernel_weights_.all()
    assert peak < 0.5 * grams.nbytes
