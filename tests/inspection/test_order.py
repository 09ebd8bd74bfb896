"""Rows in the order of time or of the target, where folds ignore it, are named among what to distrust."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold, StratifiedKFold, TimeSeriesSplit

from manykernels import KernelBank, Linear, MKLClassifierCV, MKLRegressor, MKLRegressorCV, report
from manykernels.inspection.reports.order import date_order, is_sorted_by_target, mixes_times, splits_into_blocks
from manykernels.objective.losses.survival import survival_array

pytestmark = [
    pytest.mark.usefixtures("without_pictures"),
    pytest.mark.filterwarnings("ignore:The best strength"),  # few strengths are tried
]
RANDOM = np.random.default_rng(0)
N = 80
DATES = pd.Series(pd.date_range("2020-01-01", periods=N))
SIZE = RANDOM.normal(size=N)
BANK = KernelBank.per_feature(Linear(), standardize=True)


def told(model: Any, X: pd.DataFrame, y: Any, folder: Path, **given: Any) -> str:
    """Return what a report says to distrust."""
    html = report(model.fit(X, y), X, y, folder / "r.html", n_draws=20, baselines=False, **given)
    text = unescape(" ".join(re.sub(r"<[^>]+>", " ", html.read_text(encoding="utf-8")).split()))
    return text[text.rindex("Warnings") : text.rindex("Reproduction")]


def search(cv: Any = 3, kind: Any = MKLRegressorCV) -> Any:
    return kind(BANK, penalty="l1", alphas=[0.1, 0.01, 1e-4], cv=cv)


def test_rows_in_the_order_of_time_are_named(tmp_path: Path) -> None:
    X = pd.DataFrame({"when": DATES, "size": SIZE})
    y = SIZE + 0.1 * RANDOM.normal(size=N)
    both = told(search(), X, y, tmp_path, cv=2)
    assert "sorted by 'when', and folds of this report and folds of the search predict rows by later ones" in both
    assert "cv=TimeSeriesSplit(5)" in both
    plain = told(MKLRegressor(BANK, alpha=0.01), X, y, tmp_path, cv=2)
    assert "and folds of this report predict rows by later ones" in plain
    assert "TimeSeriesSplit" not in plain
    later = {"X_test": X.iloc[60:], "y_test": y[60:]}
    model = search(TimeSeriesSplit(3)).fit(X[:60], y[:60])
    html = report(model, X[:60], y[:60], tmp_path / "r.html", n_draws=20, baselines=False, **later)
    assert "order of time" not in html.read_text(encoding="utf-8")
    order = RANDOM.permutation(N)
    assert "order of time" not in told(search(), X.iloc[order], y[order], tmp_path, cv=2)


def test_blocks_of_a_sorted_numeric_target_are_named(tmp_path: Path) -> None:
    y = np.sort(SIZE**3)
    X = pd.DataFrame({"size": np.cbrt(y) + 0.1 * RANDOM.normal(size=N)})
    assert "Rows sorted by the target" in told(search(), X, y, tmp_path, cv=2)
    assert "sorted by" not in told(search(KFold(3, shuffle=True, random_state=0)), X, y, tmp_path, cv=2)
    classes = np.where(y > np.median(y), "high", "low")  # of which folds have equal shares
    assert "sorted by" not in told(search(kind=MKLClassifierCV), X, classes, tmp_path, cv=2)


def test_order_of_dates() -> None:
    assert date_order(pd.DataFrame({"x": np.arange(5), "d": pd.date_range("2020-01-01", periods=5)})) == "'d'"
    assert date_order(pd.DataFrame({"d": pd.date_range("2020-01-01", periods=5)[::-1]})) == "'d'"
    assert date_order(pd.DataFrame({"d": pd.to_datetime(["2020-01-02", "2020-01-01", "2020-01-03"])})) == ""
    assert date_order(pd.DataFrame({"d": pd.to_datetime(["2020-01-01"] * 4)})) == ""


def test_order_of_targets() -> None:
    assert is_sorted_by_target(np.array(["b", "b", "a", "a"]), "classification")
    assert not is_sorted_by_target(np.array(["b", "a", "b"]), "classification")
    assert is_sorted_by_target(np.array([3.0, 2.0, 2.0]), "regression")
    assert not is_sorted_by_target(np.ones(4), "regression")
    assert not is_sorted_by_target(np.ones((4, 2)), "regression")
    assert is_sorted_by_target(survival_array(np.array([True, True, False]), np.array([1.0, 2.0, 3.0])), "survival")


def test_folds_that_an_order_misleads() -> None:
    assert splits_into_blocks(None, "regression")
    assert splits_into_blocks(5, "regression")
    assert not splits_into_blocks(5, "classification")
    assert splits_into_blocks(KFold(3), "classification")
    assert not splits_into_blocks(StratifiedKFold(3), "classification")
    assert mixes_times(None)
    assert not mixes_times(TimeSeriesSplit(3))
