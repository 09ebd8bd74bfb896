"""Prediction equals the formula on all kernels and samples, and evaluates only those that matter."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_iris

from manykernels import Gaussian, KernelBank, KernelStack, Linear, MKLClassifier, MKLRegressor, Polynomial
from manykernels.estimators.supervised import samples
from manykernels.exceptions import InvalidInputError
from manykernels.grams import expansion as expansions
from manykernels.grams.expansion import Expansion
from manykernels.kernels import FittedBank

Array = NDArray[Any]
BANKS = {
    "trace": KernelBank.per_feature([Linear(), Polynomial(2)], widths=[0.5, "median"]),
    "centered": KernelBank.joint([Linear()], widths=[0.5, 2.0], center=True, standardize=True),
    "unit": KernelBank.per_feature([Polynomial(3)], widths=[1.0], normalize="unit_diagonal", center=True),
}


def by_formula(bank: KernelBank, X: Array, new: Array, model: Any) -> Array:
    """Return ``d_m sum_i rho_i k_m(x, x_i)`` over all kernels and training samples, (M, n)."""
    fitted = bank.fit(X)
    cross = fitted.block(fitted.prepare(new), fitted.prepare(X))
    return model.solution_.kernel_weights[:, None] * (cross @ model.solution_.dual_coef)


@pytest.mark.parametrize("name", sorted(BANKS))
def test_decision_and_parts_are_the_formula(data: Any, name: str) -> None:
    new = data.X[:20] * 1.1 + 0.05
    model = MKLClassifier(BANKS[name], loss="hinge", alpha=0.001).fit(data.X, data.labels)
    parts = by_formula(BANKS[name], data.X, new, model)
    np.testing.assert_allclose(model.decompose(new), parts, atol=1e-10)
    np.testing.assert_allclose(model.decision_function(new), parts.sum(axis=0) + model.intercept_, atol=1e-10)


def test_parts_add_up_for_every_class_and_output(data: Any) -> None:
    X, species = load_iris(return_X_y=True)
    many = MKLClassifier().fit(X, species)
    parts = many.decompose(X)
    assert parts.shape == (20, 150, 3)
    np.testing.assert_allclose(parts.sum(axis=0) + many.intercept_, many.decision_function(X), atol=1e-10)
    targets = np.column_stack([data.y, -data.X[:, 2]])
    both = MKLRegressor(alpha=0.05).fit(data.X, targets)
    parts = both.decompose(data.X)
    assert parts.shape == (16, 60, 2)
    np.testing.assert_allclose(parts.sum(axis=0) + both.intercept_, both.predict(data.X), atol=1e-10)
    assert (parts.transpose(2, 0, 1)[both.kernel_weights_ == 0] == 0).all()
    assert 0 < np.count_nonzero(both.kernel_weights_) < both.kernel_weights_.size


def test_only_active_kernels_and_support_samples_are_kept_and_read(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bank, rows = KernelBank.per_feature([Linear(), Polynomial(2)]).fit_prepare(data.X)  # 6 kernels
    weights = np.array([[0.0, 2.0, 0.0, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0, 0.0]])
    coefficients = np.zeros((2, 60))
    coefficients[0, 3:20], coefficients[1, 10:31] = 1.0, -2.0
    expected = np.einsum("km,mij,kj->ik", weights, bank.block(rows, rows), coefficients)[:7]
    expansion = Expansion.create(bank, rows, weights, coefficients)
    assert (len(expansion.bank), expansion.support.n_samples) == (2, 28)
    read, evaluate = [], FittedBank.evaluate

    def watched(self: FittedBank, left: Any, right: Any, kernels: Array, out: Array) -> None:
        evaluate(self, left, right, kernels, out)
        read.extend((self.names[m], *out.shape[1:]) for m in kernels)

    monkeypatch.setattr(FittedBank, "evaluate", watched)
    np.testing.assert_allclose(expansion.scores(data.X[:7]), expected, atol=1e-12)
    assert sorted(read) == sorted((bank.names[m], 7, 28) for m in (1, 3))


def test_only_active_kernels_of_a_stack_are_read(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = KernelStack(np.concatenate([data.grams, 1e-9 * data.grams]))
    model = MKLClassifier("precomputed", loss="hinge", alpha=0.02).fit(stack, data.labels)
    block, entries = KernelStack._block, []

    def watched(self: KernelStack, kernels: Any, rows: Array, columns: Array) -> Array:
        values = block(self, kernels, rows, columns)
        entries.append(values.shape)
        return values

    prepared = model._expansion.bank.prepare(stack[:7])
    monkeypatch.setattr(model._expansion.bank.__class__, "prepare", lambda bank, X: prepared)
    monkeypatch.setattr(KernelStack, "_block", watched)
    model.predict(stack[:7])
    assert sum(np.prod(shape) for shape in entries) == 7 * len(model.support_) * np.count_nonzero(model.kernel_weights_)


def test_prediction_in_chunks_is_the_same(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, species = load_iris(return_X_y=True)
    many = MKLClassifier().fit(X, species)
    stack = KernelStack(data.grams)
    one = MKLClassifier("precomputed", alpha=0.02).fit(stack, data.labels)
    whole = many.decision_function(X), many.decompose(X), one.decision_function(stack)
    monkeypatch.setattr(expansions, "CHUNK_ENTRIES", 1)
    parts = many.decision_function(X), many.decompose(X), one.decision_function(stack)
    for expected, found in zip(whole, parts, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_single_row_is_predicted_as_among_others(data: Any) -> None:
    model = MKLRegressor(KernelBank.joint(widths=["median"], standardize=True), alpha=0.01).fit(data.X, data.y)
    alone = np.concatenate([model.predict(row[None]) for row in data.X[:5]])
    np.testing.assert_allclose(alone, model.predict(data.X)[:5], atol=1e-12)


def test_width_one_gaussian_by_hand(data: Any) -> None:
    model = MKLRegressor(KernelBank([("near", Gaussian(1.0), None)], normalize=None), alpha=0.01).fit(data.X, data.y)
    new = data.X[:4] + 0.3
    squared = ((new[:, None] - data.X[model.support_]) ** 2).sum(axis=-1)
    by_hand = model.kernel_weights_[0] * np.exp(-squared / 2) @ model.dual_coef_ + model.intercept_
    np.testing.assert_allclose(model.predict(new), by_hand, atol=1e-10)


FEW = {
    "a column each": KernelBank.per_feature([Gaussian(0.7), Linear()], standardize=True),
    "all columns": KernelBank.joint([Gaussian(2.0), Linear()], normalize=None),
    "other kernels": KernelBank.per_feature([Polynomial(2)]),
    "centered": KernelBank.per_feature([Gaussian(0.7)], center=True),
    "of unit length": KernelBank.per_feature([Linear()], normalize="unit_diagonal"),
}


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("outputs", ["own", "shared"])
def test_few_rows_have_the_scores_that_many_have(name: str, outputs: str) -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(80, 3)) * [1.0, 3.0, 1.0] + [0.0, 40.0, -2.0]
    y = np.column_stack([np.sin(X[:, 0]) + X[:, 1], X[:, 2] ** 2])
    model = MKLRegressor(FEW[name], alpha=0.01, outputs=outputs, resources={"representation": "gram"}).fit(X, y)
    new = X[:20] + 0.1
    many, few = model.predict(new), np.vstack([model.predict(new[:3]), model.predict(new[3:4]), model.predict(new[4:])])
    np.testing.assert_allclose(few, many, rtol=1e-10, atol=1e-10)
    assert bool(model._expansion._kernel_functions) == (name in ("a column each", "all columns"))
    assert "_kernel_functions" not in vars(pickle.loads(pickle.dumps(model._expansion)))  # made again from the samples


@pytest.mark.parametrize("rows", [2, 30])
def test_few_rows_may_lack_values_and_may_not_overflow_as_many(data: Any, rows: int) -> None:
    bank = KernelBank.per_feature([Gaussian(0.7), Linear()], missing="mask")
    model = MKLRegressor(bank, alpha=0.01, resources={"representation": "gram"}).fit(data.X, data.y)
    new = data.X[:rows].copy()
    new[1, 0] = np.nan
    parts = model.decompose(new)
    np.testing.assert_allclose(model.predict(new), parts.sum(axis=0) + model.intercept_, rtol=1e-10)
    assert (parts[:2, 1] == 0).all()
    new[0, 1] = 1e200
    with pytest.raises(InvalidInputError, match="overflow"):
        model.predict(new)


@pytest.mark.parametrize("names", [["a", "b"], [0, 1], [("a", 1), ("b", 2)]])
def test_a_frame_with_the_columns_of_the_fit_is_not_compared_with_them_again(
    names: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 2))
    frame = pd.DataFrame(values, columns=pd.Index(names, tupleize_cols=False)).assign(kind=list("uv") * 20)
    text = all(isinstance(name, str) for name in names)
    frame = frame if text else frame[names]
    model = MKLRegressor().fit(frame, values[:, 0])
    expected = model.predict(frame)
    if text:  # names of other types are none to scikit-learn, which is then asked for their number
        monkeypatch.setattr(samples, "validate_data", lambda *args, **kwargs: pytest.fail("nothing is left to compare"))
    np.testing.assert_allclose(model.predict(frame.iloc[:1]), expected[:1])
    np.testing.assert_allclose(model.predict(frame), expected)
    monkeypatch.undo()
    if text:
        with pytest.raises(InvalidInputError, match="feature names should match"):
            model.predict(frame.rename(columns={"b": "c"}))
