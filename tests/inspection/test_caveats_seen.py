"""Rows of a fit are known by what is in them: whatever the type, the order of columns and the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from manykernels import KernelBank, Linear, MKLRegressor, report
from manykernels.inspection.reports.caveats import among, fingerprints, packed


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
    seen = among(fingerprints(X, y), packed(fingerprints(table(), Y)))
    assert seen.tolist() == [True, False, True, True, True]


@pytest.mark.parametrize("text", [None, 3, "no base64", "QUJD!"])
def test_a_file_that_does_not_say_knows_no_row(text: Any) -> None:
    assert not among(fingerprints(table(), Y), text).any()


@pytest.mark.usefixtures("without_pictures")
def test_fitted_rows_inside_a_held_out_set_are_told(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = X[:, 0] + 0.1 * np.random.default_rng(1).normal(size=60)
    model = MKLRegressor(KernelBank.per_feature(Linear()), tol=1e-3).fit(X[:40], y[:40])
    options: dict[str, Any] = {"n_draws": 20, "baselines": False}
    clean = report(model, X[:40], y[:40], tmp_path / "a.html", X_test=X[40:], y_test=y[40:], **options)
    mixed = report(model, X[:40], y[:40], tmp_path / "b.html", X_test=X[35:], y_test=y[35:], **options)
    assert "Fitted rows among those scored" not in clean.read_text(encoding="utf-8")
    assert "5 of the 25 rows that are scored are also" in mixed.read_text(encoding="utf-8")
