"""Rows of a fit are recognized by their values, whatever the type, the order of columns and the file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from manykernels.inspection.reports.fitted_rows import equal_beyond_chance, fingerprints, record_of, split_as_fitted


def table() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "size": [1.0, 2.0, 0.0, np.nan, 2.0],
            "kind": ["a", "b", None, "a", "b"],
            "day": pd.to_datetime(["2024-01-01", "2024-02-01", None, "2024-01-01", "2024-02-02"]),
        }
    )


Y = np.array([1.0, 0.0, 1.0, 1.0, 0.0])


def test_a_row_is_the_same_in_other_types_and_orders() -> None:
    X = table()
    prints = fingerprints(X, Y)
    assert len(set(prints.tolist())) == 5
    np.testing.assert_array_equal(prints, fingerprints(X[["day", "size", "kind"]], Y.astype(bool)))
    other = X.assign(kind=pd.Categorical(X["kind"]), size=X["size"].astype("Float64").replace(0.0, -0.0))
    np.testing.assert_array_equal(prints, fingerprints(other, Y.astype(int)))
    np.testing.assert_array_equal(prints[::-1], fingerprints(X[::-1], Y[::-1]))


@pytest.mark.parametrize("change", ["size", "kind", "day", "target"])
def test_a_row_with_one_other_value_is_another(change: str) -> None:
    X, y = table(), Y.copy()
    if change == "target":
        y[1] = 1.0
    else:
        X.loc[1, change] = X[change][0]
    record = record_of(fingerprints(table(), Y), np.arange(5))
    assert split_as_fitted(fingerprints(X, y), record).fitted.tolist() == [True, False, True, True, True]


@pytest.mark.parametrize("record", [None, 3, {}, {"rows": "QUJD!", "fitted": ""}, {"rows": "AAAAAA==", "fitted": ""}])
def test_a_file_without_a_record_has_no_fitted_row(record: Any) -> None:
    split = split_as_fitted(fingerprints(table(), Y), record)
    assert not split.fitted.any()
    assert not split.doubt


def test_equal_values_are_equal_however_they_are_written() -> None:
    codes = [
        pd.Series([1, 0, 1]),
        pd.Series([1.0, 0.0, 1.0]),
        pd.Series(["1", "0", "1.0"]),
        pd.Series([True, False, True]),
    ]
    codes += [pd.Series([1, 0, 1], dtype="Int64"), pd.Series([1, 0, 1], dtype="category")]
    prints = {tuple(fingerprints(pd.DataFrame({"a": code}), [1.0, 2.0, 3.0]).tolist()) for code in codes}
    assert len(prints) == 1
    exact, short = np.array([[0.1], [12345.678]]), np.array([[0.1], [12345.678]], dtype=np.float32)
    np.testing.assert_array_equal(fingerprints(exact, [0.0, 1.0]), fingerprints(short, [0.0, 1.0]))


# Six different rows, of which some are fitted and held out: 0 occurs four times, 1 twice.
ROWS = np.array([0, 1, 0, 2, 0, 1, 3, 0, 4, 5], dtype=np.uint32)
FITTED = np.array([0, 2, 3, 4, 5, 6, 8])
RECORD = record_of(ROWS, FITTED)


def test_the_file_of_the_fit_is_split_as_in_the_fit() -> None:
    assert np.flatnonzero(split_as_fitted(ROWS, RECORD).fitted).tolist() == FITTED.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_in_another_order_as_many_of_each_row_are_fitted(seed: int) -> None:
    rows = np.random.default_rng(seed).permutation(ROWS)
    split = split_as_fitted(rows, RECORD)
    assert not split.doubt
    assert sorted(rows[split.fitted]) == sorted(ROWS[FITTED])


def test_rows_that_were_added_are_not_fitted() -> None:
    more = np.append(ROWS, [0, 0, 1, 9]).astype(np.uint32)
    for rows in (more, np.insert(ROWS, 3, [0, 9, 9])):
        split = split_as_fitted(rows, RECORD)
        assert sorted(rows[split.fitted]) == sorted(ROWS[FITTED])


def test_a_part_of_a_table_with_repeated_rows_is_ambiguous() -> None:
    new = np.random.default_rng(0).integers(0, 5, size=30).astype(np.uint32)
    for rows in (ROWS[:8], new):
        split = split_as_fitted(rows, RECORD)
        assert not split.fitted.any()
        assert "60% of the rows of the fit have an equal one" in split.doubt
    assert not split_as_fitted(np.array([7, 8], dtype=np.uint32), RECORD).doubt


def test_a_part_of_a_table_of_different_rows_is_recognized() -> None:
    record = record_of(np.arange(100, dtype=np.uint32), np.arange(80))
    split = split_as_fitted(np.array([3, 85, 500, 79], dtype=np.uint32), record)
    assert split.fitted.tolist() == [True, False, False, True]


def test_rows_are_equal_by_chance_where_rows_repeat() -> None:
    few, many = np.random.default_rng(0).integers(0, 5, size=(2, 200)), np.arange(200)
    assert equal_beyond_chance(few[0], few[1]) is None
    found = equal_beyond_chance(many, np.array([3, 500]))
    assert found is not None
    assert found.tolist() == [True, False]
