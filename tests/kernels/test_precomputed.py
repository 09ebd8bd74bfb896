"""Precomputed kernels go through scikit-learn's splitters and give what the same kernels on columns give."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeaveOneOut,
    StratifiedShuffleSplit,
    check_cv,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    train_test_split,
)
from sklearn.svm import SVC
from sklearn.utils import _safe_indexing, indexable, resample
from sklearn.utils.validation import _num_samples

from manykernels import MKLRegressor
from manykernels.exceptions import InvalidInputError, NotPSDError
from manykernels.kernels import Gaussian, KernelBank, KernelStack, Linear, Polynomial, PrecomputedBank

SPECS = [Gaussian(1.0), Linear(), Polynomial(2)]
NORMALIZATIONS = ["trace", "mean_diagonal", "unit_diagonal", None]


@pytest.fixture
def X(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(40, 3)) + 0.5


@pytest.fixture
def y(X: np.ndarray) -> np.ndarray:
    return np.where(X[:, 0] + 0.3 * X[:, 1] > 0.6, "yes", "no")


@pytest.fixture
def grams(X: np.ndarray) -> np.ndarray:
    grams = np.array([spec(X) for spec in SPECS])
    grams.flags.writeable = False
    return grams


@pytest.fixture
def stack(grams: np.ndarray) -> KernelStack:
    return KernelStack(grams, names=["gaussian", "linear", "quadratic"])


class MeanKernelClassifier(ClassifierMixin, BaseEstimator):
    """The smallest estimator that fits on a stack: an SVC on the mean of its normalized kernels."""

    def __init__(self, C: float = 1.0, normalize: str | None = "trace", pairwise: bool = False) -> None:
        self.C, self.normalize, self.pairwise = C, normalize, pairwise

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.pairwise
        return tags

    def fit(self, X: Any, y: Any) -> MeanKernelClassifier:
        self.bank_, rows = PrecomputedBank(normalize=self.normalize).fit_prepare(X)
        self.rows_ = rows.detach()
        self.svc_ = SVC(C=self.C, kernel="precomputed").fit(self.bank_.block(rows, rows).mean(axis=0), y)
        self.classes_ = self.svc_.classes_
        return self

    def predict(self, X: Any) -> Any:
        return self.svc_.predict(self.bank_.block(self.bank_.prepare(X), self.rows_).mean(axis=0))


class MeanKernelOnColumns(MeanKernelClassifier):
    def fit(self, X: Any, y: Any) -> MeanKernelOnColumns:
        bank = KernelBank([(f"k{m}", spec) for m, spec in enumerate(SPECS)], normalize=self.normalize)
        self.bank_, self.rows_ = bank.fit_prepare(X)
        self.svc_ = SVC(C=self.C, kernel="precomputed")
        self.svc_.fit(self.bank_.block(self.rows_, self.rows_).mean(axis=0), y)
        self.classes_ = self.svc_.classes_
        return self


@pytest.mark.sampled(4)
@pytest.mark.parametrize("pairwise", [False, True])
@pytest.mark.parametrize("normalize", ["trace", "unit_diagonal"])
def test_cross_validation_is_that_of_the_same_kernels_on_columns(
    normalize: str, pairwise: bool, stack: KernelStack, X: np.ndarray, y: np.ndarray
) -> None:
    precomputed = MeanKernelClassifier(C=100.0, normalize=normalize, pairwise=pairwise)
    columns = MeanKernelOnColumns(C=100.0, normalize=normalize)
    cv = KFold(4, shuffle=True, random_state=0)
    expected = cross_val_predict(columns, X, y, cv=cv)
    assert len(set(expected)) == 2
    np.testing.assert_array_equal(cross_val_predict(precomputed, stack, y, cv=cv), expected)
    scores = cross_val_score(precomputed, stack, y, cv=cv)
    np.testing.assert_array_equal(scores, cross_val_score(columns, X, y, cv=cv))
    grid = {"C": [0.01, 100.0]}
    found = GridSearchCV(precomputed, grid, cv=cv).fit(stack, y)
    wanted = GridSearchCV(columns, grid, cv=cv).fit(X, y)
    np.testing.assert_array_equal(found.cv_results_["mean_test_score"], wanted.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(found.predict(stack[3:9]), wanted.predict(X[3:9]))
    nested = cross_val_score(GridSearchCV(precomputed, grid, cv=3), stack, y, cv=cv)
    np.testing.assert_array_equal(nested, cross_val_score(GridSearchCV(columns, grid, cv=3), X, y, cv=cv))


def test_other_tools_of_scikit_learn_accept_a_stack(stack: KernelStack, y: np.ndarray) -> None:
    model = MeanKernelClassifier(C=10.0)
    train, test, y_train, y_test = train_test_split(stack, y, test_size=0.25, random_state=0, stratify=y)
    assert (train.n_samples, test.n_samples) == (30, 10)
    assert sorted([*train.sample_ids, *test.sample_ids]) == list(range(40))
    assert 0 <= model.fit(train, y_train).score(test, y_test) <= 1
    assert cross_validate(model, stack, y, cv=StratifiedShuffleSplit(2, random_state=0))["test_score"].shape == (2,)
    assert cross_val_predict(model, stack[:12], y[:12], cv=LeaveOneOut()).shape == (12,)
    assert learning_curve(model, stack, y, train_sizes=[0.5, 1.0], cv=3)[1].shape == (2, 3)
    assert resample(stack, n_samples=7, random_state=0).n_samples == 7
    assert indexable(stack, y)[0] is stack
    assert _num_samples(stack) == len(stack) == 40
    assert check_cv(3, y, classifier=True).get_n_splits(stack, y) == 3
    np.testing.assert_array_equal(_safe_indexing(stack, np.array([4, 2])).sample_ids, [4, 2])


INDICES = [slice(3, 20, 2), [5, 1, 1, 30], np.array([-1, 0]), np.arange(40) % 4 == 0, (np.arange(40) > 30).tolist(), 7]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_takes_samples_on_both_axes_without_copying(index: Any, stack: KernelStack, grams: np.ndarray) -> None:
    ids = np.atleast_1d(np.arange(40)[index])
    view = stack[index]
    np.testing.assert_array_equal(view.sample_ids, ids)
    np.testing.assert_array_equal(view.square(), grams[:, ids][:, :, ids])
    np.testing.assert_array_equal(view[[0]].against([9, 2]), grams[:, ids[:1]][:, :, [9, 2]])
    assert view.shape == (len(ids), len(ids))
    assert np.shares_memory(view._base, grams)


def test_pairs_of_indices_give_rectangular_views(stack: KernelStack, grams: np.ndarray) -> None:
    train, test = np.arange(0, 30), np.arange(30, 40)
    square = stack[np.ix_(train, train)]
    assert square.is_square
    np.testing.assert_array_equal(square.square(), grams[:, :30, :30])
    cross = stack[np.ix_(test, train)]
    assert not cross.is_square
    assert cross.shape == (10, 30)
    np.testing.assert_array_equal(cross[2:4].against(train), grams[:, 32:34, :30])
    np.testing.assert_array_equal(cross.against(train, positions=[4, 0]), grams[:, 30:, [4, 0]])
    inner = square[np.ix_(np.arange(5), np.arange(10, 30))]
    np.testing.assert_array_equal(inner.against(np.arange(10, 30)), grams[:, :5, 10:30])
    with pytest.raises(InvalidInputError, match="holds 10 new samples against 30 training samples; fit needs"):
        cross.square()
    with pytest.raises(InvalidInputError, match="have 30 columns, but the model was fitted on 12 samples"):
        cross.against(np.arange(12))


def test_a_stack_never_changes_its_input_and_is_read_only(grams: np.ndarray) -> None:
    own = grams.copy()
    stack = KernelStack(own)
    with pytest.raises(ValueError, match="read-only"):
        stack.square()[0, 0, 0] = 5.0
    own_is_writeable = own.flags.writeable
    assert own_is_writeable
    np.testing.assert_array_equal(own, grams)
    assert pickle.loads(pickle.dumps(stack[:3])).square().shape == (3, 3, 3)
    assert stack.names == ("kernel_0", "kernel_1", "kernel_2")
    assert KernelStack(grams.astype(np.float32)).dtype == np.float32
    assert len(list(stack)) == 40
    with pytest.raises(TypeError, match="is M matrices, not one array"):
        np.asarray(stack)


def indefinite() -> np.ndarray:
    return np.array([[[2.0, 0.0], [0.0, 2.0]], [[0.0, 1.0], [1.0, 0.0]]])


BAD = [
    (lambda: KernelStack(np.eye(3)), "must have shape \\(n_kernels, n_samples, n_samples\\).*kernels\\[None\\]"),
    (lambda: KernelStack(np.ones((2, 3, 4))), "must have shape"),
    (lambda: KernelStack(np.empty((0, 3, 3))), "at least one kernel"),
    (lambda: KernelStack(np.empty((2, 0, 0))), "at least one kernel and one sample"),
    (lambda: KernelStack([[[np.nan]]]), "kernels\\[0\\] contains 1 NaN"),
    (lambda: KernelStack([[[1.0, 2.0], [0.0, 1.0]]]), "kernels\\[0\\] is not symmetric.*difference 2"),
    (lambda: KernelStack(indefinite()), 'kernels\\[1\\].*smallest eigenvalue is -1.*psd="clip"'),
    (lambda: KernelStack(indefinite(), psd="fix"), "psd must be one of 'auto', 'check', 'clip', 'ignore', got 'fix'"),
    (lambda: KernelStack(np.ones((2, 1, 1)), names=["a", "a"]), "\\['a'\\] appear more than once"),
    (lambda: KernelStack(np.ones((2, 1, 1)), names=["a"]), "one name for each of the 2 kernels, got 1"),
    (lambda: KernelStack.rectangular(np.ones((2, 3))), "shape \\(n_kernels, n_new, n_train\\)"),
    (lambda: KernelStack.rectangular(np.full((1, 2, 3), np.inf)), "contains 6 NaN or infinite"),
    (lambda: KernelStack.rectangular(np.ones((1, 2, 3)), diagonal=[[1.0]]), "diagonal must have shape \\(1, 2\\)"),
    (lambda: KernelStack(np.ones((1, 2, 2)))[np.array([2])], "samples has position 2"),
    (lambda: KernelStack(np.ones((1, 2, 2)))[:, :, 0], "indexed by samples"),
    (lambda: KernelStack(np.ones((1, 2, 2)))[[True]], "mask of samples must have 2 entries"),
    (lambda: PrecomputedBank(normalize="unit"), "normalize must be one of"),
]


@pytest.mark.parametrize(("build", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_stacks_are_explained(build: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        build()


def test_indefinite_kernels_can_be_clipped_or_let_through() -> None:
    given = indefinite()
    clipped = KernelStack(given, psd="clip").square()
    np.testing.assert_array_equal(clipped[0], given[0])
    np.testing.assert_allclose(clipped[1], [[0.5, 0.5], [0.5, 0.5]], rtol=1e-12)
    np.testing.assert_array_equal(KernelStack(given, psd="ignore").square(), indefinite())
    np.testing.assert_array_equal(given, indefinite())
    with pytest.raises(NotPSDError, match="not positive semidefinite"):
        KernelStack(given)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("normalize", NORMALIZATIONS)
def test_normalization_is_that_of_the_same_kernels_on_columns(
    normalize: str | None, center: bool, stack: KernelStack, X: np.ndarray, grams: np.ndarray
) -> None:
    train, test = np.array([5, 3, 9, 17, 30, 22, 11]), np.array([0, 39, 8])
    named = list(zip(stack.names, SPECS, strict=True))
    bank, rows = KernelBank(named, normalize=normalize, center=center).fit_prepare(X[train])
    new = bank.prepare(X[test])
    fitted, samples = PrecomputedBank(normalize, center).fit_prepare(stack[train])
    tolerance = {"rtol": 1e-9, "atol": 1e-11}
    np.testing.assert_allclose(fitted.scales, bank.scales, rtol=1e-9)
    np.testing.assert_allclose(fitted.block(samples, samples), bank.block(rows, rows), **tolerance)
    np.testing.assert_allclose(fitted.diag(samples), bank.diag(rows), **tolerance)
    expected = bank.block(new, rows)
    diagonal = grams[:, test, test]
    plain = KernelStack.rectangular(grams[:, test][:, :, train], names=stack.names, diagonal=diagonal)
    for given in (stack[test], stack[np.ix_(test, train)], plain):
        prepared = fitted.prepare(given)
        np.testing.assert_allclose(fitted.block(prepared, samples.detach()), expected, **tolerance)
        np.testing.assert_allclose(fitted.diag(prepared), bank.diag(new), **tolerance)
    np.testing.assert_allclose(fitted.block(samples.detach(), prepared), expected.transpose(0, 2, 1), **tolerance)
    part = fitted.block(prepared, samples.take([6, 2]).detach(), kernels=[2, 0], rows=[1])
    np.testing.assert_allclose(part, expected[[2, 0]][:, [1]][:, :, [6, 2]], **tolerance)
    small = fitted.take([2, 1])
    np.testing.assert_allclose(small.block(small.prepare(stack[test]), samples), expected[[2, 1]], **tolerance)
    assert fitted.frame()["scale"].tolist() == fitted.scales.tolist()


def test_training_blocks_are_exactly_symmetric(grams: np.ndarray, rng: np.random.Generator) -> None:
    noisy = grams + 1e-13 * rng.normal(size=grams.shape)
    fitted, rows = PrecomputedBank(center=True).fit_prepare(KernelStack(noisy))
    K = fitted.block(rows, rows)
    np.testing.assert_array_equal(K, K.transpose(0, 2, 1))


def test_plain_arrays_are_training_matrices_in_fit_and_rectangles_after(grams: np.ndarray) -> None:
    fitted, rows = PrecomputedBank().fit_prepare(grams[:, :20, :20])
    prepared = fitted.prepare(grams[:, 20:, :20])
    expected = grams[:, 20:, :20] * fitted.scales[:, None, None]
    np.testing.assert_allclose(fitted.block(prepared, rows.detach()), expected, rtol=1e-14)


def test_zero_kernels_are_flagged(grams: np.ndarray) -> None:
    fitted, rows = PrecomputedBank().fit_prepare(np.stack([np.zeros((40, 40)), grams[0]]))
    assert fitted.zero_kernels.tolist() == [True, False]
    np.testing.assert_array_equal(fitted.block(rows, rows)[0], 0.0)


def test_kernels_of_other_samples_are_told_from_the_fitted_ones(stack: KernelStack, rng: np.random.Generator) -> None:
    fitted, rows = PrecomputedBank().fit_prepare(stack[:20])
    other = rng.normal(size=(40, 3))
    with pytest.raises(InvalidInputError, match=r"not the KernelStack that the model was fitted on.*rectangular"):
        fitted.prepare(KernelStack(np.array([spec(other) for spec in SPECS])))
    with pytest.raises(InvalidInputError, match="fitted on sample 39 of a larger stack, but this one has 10"):
        PrecomputedBank().fit(stack[30:]).prepare(KernelStack(stack[:10].square()))
    with pytest.raises(InvalidInputError, match="fitted on 3 kernels, but 2 were given"):
        fitted.prepare(np.ones((2, 4, 20)))
    with pytest.raises(InvalidInputError, match="Both sides were detached"):
        fitted.block(rows.detach(), rows.detach())
    with pytest.raises(InvalidInputError, match="kernel of each new sample with itself"):
        PrecomputedBank("unit_diagonal").fit(stack[:20]).prepare(stack[:3].against(np.arange(20)))
    with pytest.raises(InvalidInputError, match="fit needs"):
        PrecomputedBank().fit(KernelStack.rectangular(np.ones((1, 2, 3))))


def test_a_mapping_names_its_kernels() -> None:
    points = np.random.default_rng(0).normal(size=(2, 12, 3))
    one, two = points @ points.transpose(0, 2, 1)
    labels = [f"c{i}" for i in range(12)]
    stack = KernelStack({"one": pd.DataFrame(one, labels, labels), "two": two})
    assert stack.names == ("one", "two")
    np.testing.assert_array_equal(stack.square(), [one, two])
    y = points[0, :, 0]
    model = MKLRegressor("precomputed").fit({"one": one[:8, :8], "two": two[:8, :8]}, y[:8])
    new = {"two": two[8:, :8], "one": one[8:, :8]}  # found by name
    expected = model.predict(KernelStack.rectangular([one[8:, :8], two[8:, :8]], ["one", "two"]))
    np.testing.assert_array_equal(model.predict(new), expected)


@pytest.mark.parametrize(
    ("kernels", "names", "match"),
    [
        ({"a": np.eye(3)}, ["b"], "have names already"),
        ({"a": np.eye(3), "b": np.eye(2)}, None, "equal shapes"),
        ([pd.DataFrame(np.eye(2), ["p", "q"], ["q", "p"])], None, "different orders"),
        ([pd.DataFrame(np.eye(2), rows, rows) for rows in (["p", "q"], ["q", "p"])], None, "different orders"),
        ([np.ones((3, 3)) - np.eye(3)], None, "are these distances"),
    ],
)
def test_matrices_that_do_not_fit_each_other_are_refused(kernels: Any, names: Any, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        KernelStack(kernels, names)


def test_matrices_of_chosen_kernels_are_theirs_in_their_order(grams: np.ndarray) -> None:
    fitted, rows = PrecomputedBank(normalize=None).fit_prepare(KernelStack(grams))
    turned = fitted.take([2, 0, 1])
    held = turned.grams(rows)
    assert held is not None
    np.testing.assert_array_equal(held.array[np.ix_([0, 1, 2], held.samples, held.samples)], grams[[2, 0, 1]])
    whole = fitted.grams(rows)
    assert whole is not None
    assert np.shares_memory(whole.array, KernelStack(grams)._whole())
