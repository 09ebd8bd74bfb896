"""Fitted rows among the rows that a report scores are a caveat, unless rows of that kind are equal by chance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from manykernels import KernelBank, Linear, MKLRegressor, report


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


@pytest.mark.usefixtures("without_pictures")
def test_new_rows_of_few_values_are_not_called_fitted(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 3, size=(400, 2)), columns=["a", "b"])
    y = (X["a"] + rng.integers(0, 2, size=400)).to_numpy(dtype=float)
    model = MKLRegressor(KernelBank.per_feature(Linear()), tol=1e-3).fit(X[:300], y[:300])
    options: dict[str, Any] = {"n_draws": 20, "baselines": False}
    page = report(model, X[:300], y[:300], tmp_path / "a.html", X_test=X[300:], y_test=y[300:], **options)
    assert "Fitted rows among those scored" not in page.read_text(encoding="utf-8")
