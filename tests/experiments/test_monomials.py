"""The lasso that PolynomialMKL is measured against is scikit-learn's on the listed monomials."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Lasso
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler


@pytest.fixture
def monomials(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    yield importlib.import_module("monomials")
    for name in ("monomials", "polynomial", "_common"):
        sys.modules.pop(name, None)


def test_the_lasso_with_a_working_set_is_that_of_scikit_learn(monomials: Any) -> None:
    X, y = monomials.monomial_data(7, 160, 0.2, np.random.default_rng(0))
    model = monomials.MonomialLasso().fit(X[:120], y[:120])
    steps = StandardScaler(), PolynomialFeatures(3, include_bias=False), StandardScaler()
    listed = make_pipeline(*steps, Lasso(model.mu_ / 120, max_iter=100_000, tol=1e-8)).fit(X[:120], y[:120])
    np.testing.assert_allclose(model.predict(X[120:]), listed.predict(X[120:]), atol=0.02 * y.std())
    assert len(model.point_.indices) < 119


def test_rows_of_the_summary_compare_with_the_lasso_on_the_same_data(monomials: Any) -> None:
    rows = [monomials.measure(method, 6, 0.1, 0, 80) for method in ("adaptive", "lasso", "gradient boosting")]
    frame = monomials.summary(monomials.pd.DataFrame(rows))
    ratios = frame.set_index("method")["ratio to lasso"]
    assert ratios["lasso"] == 1.0
    assert ratios["adaptive"] == pytest.approx(rows[0]["error"] / rows[1]["error"])
