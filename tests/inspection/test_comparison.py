"""Learned weights beside weights that nobody learns: one learner, training rows only, the corrected t-test."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.model_selection import GroupKFold, KFold, cross_val_score

from manykernels import (
    Gaussian,
    GaussianMKL,
    KernelBank,
    KernelStack,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    compare,
)
from manykernels.estimators.selection.folds import HeldOut
from manykernels.estimators.supervised.samples import Samples
from manykernels.exceptions import InvalidInputError
from manykernels.inspection.evidence.comparison import ALIGNED, AVERAGE, MARGIN, SINGLE, FixedWeights
from manykernels.kernels.bank.columns import Table

BANK = KernelBank.per_feature(Gaussian(1.0), standardize=True)
PENALTIES = [
    {"penalty": "l1"},
    {"penalty": "lq", "q": 1.3},
    {"penalty": "ridge"},
    {"penalty": "simplex"},
    {"penalty": "lp_ball", "p": 1.7},
]


def _data(n: int = 48) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 6))
    return X, X[:, 0] ** 2 - X[:, 1] + 0.2 * rng.normal(size=n)


@pytest.mark.parametrize("given", PENALTIES, ids=lambda given: given["penalty"])
def test_the_learner_at_the_learned_weights_is_the_learned_model(given: dict[str, Any]) -> None:
    X, y = _data()
    model = MKLRegressor(BANK, alpha=0.05, tol=1e-10, resources={"max_iter": 500}, **given).fit(X[:36], y[:36])
    samples = Samples.create(Table.wrap(X[:36]), y[:36], np.ones(36))
    fixed = FixedWeights.fit(model, samples, HeldOut(Table.wrap(X[36:]), y[36:], None, None))
    alone = fixed._fitted(fixed.gram(model.kernel_weights_), slice(None))
    np.testing.assert_allclose(
        alone.predict(fixed.gram(model.kernel_weights_)), model.predict(X[:36]), atol=1e-4 * np.abs(y).max()
    )


@pytest.mark.nightly
def test_ridge_learns_the_average_kernel() -> None:
    X, y = _data()
    table = compare(MKLRegressor(BANK, penalty="ridge", alpha=0.1, tol=1e-10), X, y, cv=3).set_index("method")
    assert abs(table.loc[AVERAGE, "difference"]) < 1e-5
    assert table.loc[SINGLE, "difference"] < -0.1
    assert table["n_kernels"].tolist()[:2] == [6, 6]


def test_scores_and_p_values_are_those_of_the_folds() -> None:
    X, y = _data()
    folds, model, seen = KFold(3, shuffle=True, random_state=1), MKLRegressor(BANK, alpha=0.05), []

    def scoring(fitted: Any, held_out: Any, target: Any) -> float:
        seen.append(fitted.score(held_out, target))
        return float(seen[-1])

    table = compare(model, X, y, cv=folds, scoring=scoring)
    own = cross_val_score(model, X, y, cv=folds)
    np.testing.assert_allclose(table["score"][0], own.mean(), rtol=1e-10)
    np.testing.assert_allclose(table["standard_error"][0], own.std(ddof=1) / np.sqrt(3), rtol=1e-8)
    assert np.isnan(table["p_value"][0])
    compared = compare(model, X, y, cv=folds)
    np.testing.assert_allclose(compared["score"], table["score"])
    # The average kernel is scored second in every fold, before the folds that choose a single kernel.
    average = [seen[k + 1] for k, score in enumerate(seen[:-1]) if score in own]
    delta = np.array(average) - own
    t = delta.mean() / np.sqrt((1 / 3 + 1 / 2) * delta.var(ddof=1))
    np.testing.assert_allclose(table["p_value"][1], 2 * stats.t.sf(abs(t), 2), rtol=1e-8)
    np.testing.assert_allclose(table["difference"][1], delta.mean(), rtol=1e-8)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("classifies", [False, True])
def test_held_out_rows_change_nothing_that_is_learned(classifies: bool) -> None:
    X, y = _data()
    target = np.where(y > 0, "high", "low") if classifies else y
    train, test = np.arange(36), np.arange(36, 48)
    model = (MKLClassifier if classifies else MKLRegressor)(BANK, alpha=0.01)

    def learned(X: Any, target: Any) -> list[Any]:
        models: list[Any] = []

        def scoring(fitted: Any, held_out: Any, known: Any) -> float:
            models.append(np.append(fitted.dual_coef_, fitted.kernel_weights_))
            return float(np.mean(fitted.predict(held_out) == known))

        compare(model, X, target, cv=[(train, test)], scoring=scoring)
        return models

    wrong_X, wrong_y = X.copy(), target.copy()
    wrong_X[test] = 1e3 * np.random.default_rng(0).normal(size=(12, 6))
    wrong_y[test] = target[test][::-1] if classifies else -100.0
    for before, after in zip(learned(X, target), learned(wrong_X, wrong_y), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:The best strength")
@pytest.mark.filterwarnings("ignore:No kernel predicts better:UserWarning")  # six of thirty rows say yes
def test_classes_groups_and_precomputed_kernels() -> None:
    X, y = _data(60)
    classes, clinic = np.digitize(y, [0.0, 1.2]), np.arange(60) % 10
    table = compare(MKLClassifier(BANK), X, classes, cv=GroupKFold(2), groups=clinic)
    assert table["method"].tolist() == ["learned weights", AVERAGE, ALIGNED, MARGIN, SINGLE]
    assert table["score"].between(0.3, 1.0).all()
    assert (table["cpu_seconds"] > 0).all()
    fitted, rows = BANK.fit_prepare(X)
    stack = KernelStack(fitted.block(rows, rows))
    tuned = MKLClassifierCV("precomputed", cv=GroupKFold(2), alphas=[0.1, 0.01])
    found = compare(tuned, stack, classes == 2, cv=GroupKFold(2), groups=clinic)
    assert found["n_kernels"].iloc[-1] == 1
    assert found["score"].notna().all()


@pytest.mark.filterwarnings("ignore:No kernel was selected", "ignore:best single kernel failed")
def test_what_is_not_defined_is_said() -> None:
    X, y = _data(30)
    flat = KernelStack(np.ones((2, 30, 30)))
    with pytest.warns(UserWarning, match="centered alignment failed in fold"):
        table = compare(MKLRegressor("precomputed", alpha=0.1), flat, y, cv=2).set_index("method")
    assert np.isnan(table.loc[ALIGNED, "score"])
    assert np.isfinite(table.loc[AVERAGE, "score"])
    with pytest.raises(InvalidInputError, match="got GaussianMKL"):
        compare(GaussianMKL(), X, y)
    with pytest.raises(InvalidInputError, match="groups has 3 entries for 30 samples"):
        compare(MKLRegressor(BANK), X, y, groups=[1, 2, 3])


def test_single_kernels_that_are_noise_are_not_remarked_on() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = compare(MKLRegressor(BANK), X, 3 * X[:, 0] + 0.1 * rng.normal(size=60), cv=2).set_index("method")
    assert table.loc[SINGLE, "n_kernels"] == 1
    assert [str(warning.message) for warning in caught] == []


def test_a_single_kernel_is_its_own_average() -> None:
    X, y = _data(30)
    table = compare(MKLRegressor(KernelBank([("all", Linear(), None)])), X, y, cv=2)
    assert table["n_kernels"].tolist() == [1, 1, 1, 1]
    np.testing.assert_allclose(table["difference"], 0, atol=1e-3)


@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
def test_labels_in_a_table_of_one_column_are_compared_as_labels() -> None:
    X, y = _data()
    y = pd.DataFrame({"ill": np.where(y > 0, "yes", "no")})
    table = compare(MKLClassifier(BANK, alpha=0.1), X, y, cv=2)
    pd.testing.assert_frame_equal(
        table.drop(columns="cpu_seconds"),
        compare(MKLClassifier(BANK, alpha=0.1), X, y["ill"], cv=2).drop(columns="cpu_seconds"),
    )


def test_kernels_in_float32_are_compared_within_their_rounding() -> None:
    """Their sum in float64 has eigenvalues of -1e-8 of the largest, which float32 does not tell from zero."""
    factors = np.random.default_rng(0).normal(size=(4, 60, 8))
    kernels = (factors @ factors.transpose(0, 2, 1)).astype(np.float32)
    table = compare(MKLRegressor("precomputed", penalty="ridge"), kernels, factors[0, :, 0], cv=3)
    assert table["score"].notna().all()
