"""No leakage: whatever is done to held-out rows, their views, categories, dates or gaps, a fold learns the same."""

from __future__ import annotations

import warnings
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

from manykernels import (
    KernelBank,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressorCV,
    MKLSurvivalCV,
    Views,
    compare,
    survival_array,
)
from manykernels.datasets import make_mixed_table, make_multiview

TRAIN, TEST = np.arange(0, 60), np.arange(60, 90)
ALPHAS = [0.05, 0.01]
GRID = np.linspace(-2, 2, 10).reshape(5, 2)


def corrupted(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with held-out rows that nobody would believe: other sizes, categories, dates and gaps."""
    found = {}
    for name in table:
        column, held_out = table[name], table[name].iloc[TEST]
        if pd.api.types.is_datetime64_any_dtype(column.dtype):
            held_out = held_out + pd.Timedelta(days=40_000)
        elif pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
            held_out = 1e3 * held_out + 77
        else:
            held_out = column.iloc[TEST[::-1]].set_axis(held_out.index)
        found[name] = pd.concat([column.iloc[TRAIN], held_out])
    return pd.DataFrame(found)


def learned(estimator: Any, X: Any, y: Any) -> np.ndarray:
    """Return the kernel weights of every candidate of the one fold."""
    seen = []

    def record(model: Any, _X: Any, _y: Any) -> float:
        seen.append(np.ravel(model.kernel_weights_))
        return 0.0

    with pytest.warns(UserWarning, match="The best strength"):
        estimator.set_params(scoring=record, cv=[(TRAIN, TEST)], alphas=ALPHAS, penalty="l1").fit(X, y)
    assert len(seen) == len(ALPHAS)
    return np.concatenate(seen)


@pytest.mark.parametrize("missing", ["mask", "indicator"])
def test_rows_of_a_mixed_table(missing: str) -> None:
    data = make_mixed_table(90, levels=(2, 8), missing=0.15, random_state=0)
    model = MKLClassifierCV(KernelBank.auto(missing=missing))
    told = learned(model, data.X, data.y)
    assert told.any()
    np.testing.assert_array_equal(learned(model, corrupted(data.X), data.y), told)


def test_targets_and_views_of_held_out_samples() -> None:
    data = make_multiview(90, (3, 3), 1, effect="linear", random_state=0)
    labels = [f"s{number:02d}" for number in range(90)]
    tables = {name: pd.DataFrame(data.X[columns]).set_axis(labels) for name, columns in data.views.items()}
    y = pd.Series(data.y, index=labels)
    model = MKLRegressorCV(KernelBank.per_view(widths=[1.0], standardize=True))
    told = learned(model, Views(tables), y)
    assert told.any()
    first, *rest = tables
    broken = {first: corrupted(tables[first]), **{name: tables[name].iloc[: len(TRAIN)] for name in rest}}
    wrong = y.where(np.arange(90) < len(TRAIN), 1e3)
    np.testing.assert_array_equal(learned(model, Views(broken), wrong), told)


def test_events_of_held_out_samples() -> None:
    rng = np.random.default_rng(0)
    X, time, event = rng.normal(size=(90, 3)), rng.exponential(size=90), rng.random(90) < 0.7
    time[TRAIN] *= np.exp(-X[TRAIN, 0])
    model = MKLSurvivalCV(KernelBank.per_feature(widths=[1.0], standardize=True))
    told = learned(model, X, survival_array(event, time))
    assert told.any()
    held_out = np.arange(90) >= len(TRAIN)
    other = survival_array(np.where(held_out, True, event), np.where(held_out, 100.0 + np.arange(90), time))
    np.testing.assert_array_equal(learned(model, np.where(held_out[:, None], 50 * X, X), other), told)


def test_models_of_other_folds_and_of_fewer_rows() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=90) > 0
    others = [np.arange(0, 10), np.arange(10, 22), np.arange(22, 36)]
    splits = [*((np.setdiff1d(np.arange(90), test), test) for test in others), (TRAIN, TEST)]
    fewer = [(train[::2], test) for train, test in splits[:3]]  # tried first
    fewer_rows = patch("manykernels.estimators.selection.choice.select_short_folds", lambda *_: fewer)
    told, again = [], []
    for seen, spoiled in ((told, 0.0), (again, 5.0)):
        # The same whatever is learned, so that the same is tried; they do not rise far beyond the grid.
        scores = np.random.default_rng(3)

        def record(model: Any, X: Any, _y: Any, seen: list[np.ndarray] = seen, scores: Any = scores) -> float:
            if len(X) == len(TEST):
                seen.append(model.decision_function(GRID))
            return float(scores.random())

        held_out = np.arange(90) >= len(TRAIN)
        kernels = KernelBank.per_feature(widths=[0.5, 2.0], standardize=True)
        with warnings.catch_warnings(), fewer_rows:
            warnings.simplefilter("ignore", UserWarning)  # of a search in which all score alike
            MKLClassifierCV(kernels, scoring=record, cv=splits, n_alphas=8, resources={"representation": "gram"}).fit(
                X + spoiled * held_out[:, None] * rng.normal(size=X.shape), y ^ (held_out & (spoiled > 0))
            )
    assert len(told) > len(splits)
    assert len(told) == len(again)
    for one, other in zip(told, again, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.nightly
def test_fixed_weights_that_learned_ones_are_compared_with() -> None:
    data = make_mixed_table(90, levels=(2,), missing=0.0, random_state=1)
    model = MKLClassifier(KernelBank.auto(), alpha=0.01)
    seen: list[np.ndarray] = []

    def record(fitted: Any, _X: Any, _y: Any) -> float:
        seen.append(np.ravel(fitted.dual_coef_))
        return 0.0

    for X in (data.X, corrupted(data.X)):
        compare(model, X, data.y, cv=[(TRAIN, TEST)], scoring=record)
    half = len(seen) // 2
    assert half >= 5
    for told, again in zip(seen[:half], seen[half:], strict=True):
        np.testing.assert_array_equal(again, told)
