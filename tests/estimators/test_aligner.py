"""KernelAligner: what it returns, inside pipelines and cross-validation, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from manykernels import InvalidInputError, KernelAligner, KernelBank, KernelStack, PrecomputedBank
from manykernels.alignment import aligned_weights, centered_alignment, target_kernel
from manykernels.exceptions import NotPSDError
from manykernels.grams.plan import working_nbytes

Array = NDArray[Any]
Data = Any


# The checks draw y without regard to X; with one column, or none that says anything, alignment is small but defined.
@parametrize_with_checks([KernelAligner()])
def test_scikit_learn_accepts_the_transformer(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.nightly
@parametrize_with_checks([KernelAligner(method="independent"), KernelAligner(method="uniform")])
def test_scikit_learn_accepts_the_other_methods(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("method", ["joint", "independent", "uniform"])
def test_the_combination_is_the_weighted_sum_of_the_kernels_of_the_bank(data: Data, method: str) -> None:
    bank = KernelBank.auto(normalize="mean_diagonal", center=True)
    train, new = data.X[:40], data.X[40:]
    aligner = KernelAligner(bank, method).fit(train, data.labels[:40])
    fitted = bank.fit(train)
    grams = fitted.block(fitted.prepare(train), fitted.prepare(train))
    found = aligned_weights(grams, data.labels[:40], method)
    np.testing.assert_allclose(aligner.kernel_weights_, found.weights, atol=1e-9)
    across = fitted.block(fitted.prepare(new), fitted.prepare(train))
    np.testing.assert_allclose(aligner.transform(new), np.tensordot(aligner.kernel_weights_, across, 1), atol=1e-12)
    square = KernelAligner(bank, method).fit_transform(train, data.labels[:40])
    np.testing.assert_array_equal(square, square.T)
    np.testing.assert_allclose(aligner.transform(train), square, atol=1e-11)
    ideal = target_kernel(data.labels[:40])
    assert aligner.alignment_ == pytest.approx(centered_alignment(square, ideal), rel=1e-10)


def test_joint_is_at_least_as_aligned_as_the_other_methods(data: Data) -> None:
    reached = [KernelAligner(method=m).fit(data.X, data.labels).alignment_ for m in ("uniform", "independent", "joint")]
    assert reached[2] > max(reached[:2])
    assert KernelAligner().fit(data.X, data.labels).result_.gap < 1e-8


def test_in_a_pipeline_it_equals_the_two_stages_by_hand(data: Data) -> None:
    train, test = slice(0, 45), slice(45, 60)
    model = make_pipeline(KernelAligner(), SVC(kernel="precomputed")).fit(data.X[train], data.labels[train])
    aligner = KernelAligner()
    svc = SVC(kernel="precomputed").fit(aligner.fit_transform(data.X[train], data.labels[train]), data.labels[train])
    expected = svc.decision_function(aligner.transform(data.X[test]))
    np.testing.assert_allclose(model.decision_function(data.X[test]), expected, atol=1e-9)


def test_grid_search_and_cross_validation(data: Data) -> None:
    model = make_pipeline(KernelAligner(), SVC(kernel="precomputed"))
    grid = {"kernelaligner__method": ["joint", "uniform"], "svc__C": [0.1, 10.0]}
    search = GridSearchCV(model, grid, cv=3, error_score="raise").fit(data.frame, data.labels)
    assert search.best_score_ > 0.8
    assert search.predict(data.frame[:4]).shape == (4,)
    ridge = make_pipeline(KernelAligner(target="numbers"), KernelRidge(alpha=0.1, kernel="precomputed"))
    assert cross_val_score(ridge, data.X, data.y, cv=3, error_score="raise").mean() > 0.5


def test_a_fold_sees_nothing_of_the_others(data: Data) -> None:
    cv = StratifiedKFold(3)
    model = make_pipeline(KernelAligner(), SVC(kernel="precomputed"))
    scores = cross_val_score(model, data.X, data.labels, cv=cv, error_score="raise")
    for score, (train, test) in zip(scores, cv.split(data.X, data.labels), strict=True):
        one = clone(model).fit(data.X[train], data.labels[train])
        assert score == pytest.approx(one.score(data.X[test], data.labels[test]))


@pytest.mark.parametrize("kernels", ["precomputed", PrecomputedBank("mean_diagonal", center=True)])
def test_precomputed_kernels_are_sliced_on_both_axes(data: Data, kernels: Any) -> None:
    stack = KernelStack(data.grams, names=["a", "b", "c", "all"])
    model = make_pipeline(KernelAligner(kernels), SVC(kernel="precomputed"))
    scores = cross_val_score(model, stack, data.labels, cv=3, error_score="raise")
    assert scores.mean() > 0.7
    train, test = np.arange(40), np.arange(40, 60)
    aligner = KernelAligner("precomputed").fit(stack[train], data.labels[train])
    expected = np.tensordot(aligner.kernel_weights_, data.grams[:, 40:, :40], 1)
    np.testing.assert_allclose(aligner.transform(stack[test]), expected, atol=1e-12)
    np.testing.assert_allclose(aligner.transform(data.grams[:, 40:, :40]), expected, atol=1e-12)
    assert aligner.kernel_names_ == ["a", "b", "c", "all"]
    assert aligner.n_features_in_ == 40


def test_what_it_tells(data: Data) -> None:
    aligner = KernelAligner().fit(data.frame, data.labels)
    frame = aligner.weights_frame()
    assert list(frame.columns) == ["name", "kernel", "columns", "weight", "alignment"]
    assert frame["weight"].is_monotonic_decreasing
    assert (frame["weight"] > 0).all()
    assert len(aligner.weights_frame(active_only=False)) == len(aligner.kernel_names_)
    assert list(aligner.feature_names_in_) == ["a", "b", "c"]
    assert list(aligner.get_feature_names_out())[::59] == ["kernelaligner0", "kernelaligner59"]
    table = KernelAligner().set_output(transform="pandas").fit_transform(data.frame, data.labels)
    assert isinstance(table, pd.DataFrame)
    assert table.shape == (60, 60)


def test_a_small_budget_computes_kernels_anew_with_the_same_result(data: Data) -> None:
    X, y = np.tile(data.X, (4, 1)) + np.random.default_rng(0).normal(size=(240, 3)), np.tile(data.labels, 4)
    bank = KernelBank.per_feature(widths=list(np.geomspace(0.1, 10.0, 12)))
    budget = working_nbytes(36, 240) + 1000  # not enough for their Gram matrices
    small, large = KernelAligner(bank, resources={"memory_budget": budget}), KernelAligner(bank)
    np.testing.assert_allclose(small.fit_transform(X, y), large.fit_transform(X, y), atol=1e-9)


def test_more_classes_and_outputs(data: Data) -> None:
    classes = np.digitize(data.y, [-1, 0, 1])
    aligner = KernelAligner().fit(data.X, classes)
    square = aligner.transform(data.X)
    assert aligner.alignment_ == pytest.approx(
        centered_alignment(square, target_kernel(classes, "indicator")), rel=1e-9
    )
    outputs = np.column_stack([data.y, data.X[:, 2]])
    assert KernelAligner().fit(data.X, outputs).alignment_ > 0.3


@pytest.mark.parametrize(
    ("given", "change", "error", "words"),
    [
        ({"method": "alignf"}, {}, InvalidInputError, "method must be one of"),
        ({"target": "labels"}, {}, InvalidInputError, "target must be one of"),
        ({"tol": -1}, {}, InvalidInputError, "tol must be"),
        ({"kernels": "linear"}, {}, InvalidInputError, "kernels must be None"),
        ({"target": "numbers"}, {}, InvalidInputError, "y must hold numbers"),
        ({}, {"y": None}, InvalidInputError, "requires y to be passed"),
        ({}, {"y": np.ones(60)}, InvalidInputError, "target is constant"),
        ({}, {"y": np.ones(59)}, InvalidInputError, "X has 60 samples but y has 59"),
        ({}, {"X": np.ones((60, 2))}, InvalidInputError, "all kernels are constant"),
        ({"kernels": "precomputed"}, {"X": -np.ones((1, 60, 60))}, NotPSDError, "not positive semidefinite"),
    ],
)
def test_what_cannot_be_aligned_is_refused(
    data: Data, given: dict[str, Any], change: dict[str, Any], error: type[Exception], words: str
) -> None:
    used = {"X": data.X, "y": data.labels} | change
    with pytest.raises(error, match=words):
        KernelAligner(**given).fit(used["X"], used["y"])


def test_uniform_needs_no_target(data: Data) -> None:
    aligner = KernelAligner(method="uniform").fit(data.X)
    np.testing.assert_allclose(aligner.kernel_weights_, 1 / len(aligner.kernel_names_))
    assert np.isnan(aligner.alignment_)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"center": "yes"}, "center must be True or False, got 'yes'"),
        ({"resources": {"n_jobs": 0}}, "n_jobs must be None or an integer other than 0"),
        ({"resources": {"n_jobs": "all"}}, "n_jobs must be None or an integer other than 0 .* got 'all'"),
    ],
)
def test_switches_are_checked(change: dict[str, Any], message: str) -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(InvalidInputError, match=message):
        KernelAligner(**change).fit(X, X[:, 0])
