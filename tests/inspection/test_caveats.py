"""What to distrust: a selection that noise would give too, and categories that can follow single rows."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from manykernels import KernelBank, Linear, MKLClassifier, MKLRegressor, MKLRegressorCV, report
from manykernels.inspection import noise_doubt

RANDOM = np.random.default_rng(0)
pytestmark = pytest.mark.usefixtures("without_pictures")

N_ROWS = 80
NOISE = RANDOM.normal(size=N_ROWS)


def table() -> pd.DataFrame:
    """Return a column of numbers, a category of three levels and one of thirty."""
    few, many = np.arange(N_ROWS) % 3, np.random.default_rng(1).permutation(np.arange(N_ROWS) % 30)
    return pd.DataFrame(
        {
            "size": np.random.default_rng(2).normal(size=N_ROWS),
            "color": pd.Series(few).map({0: "red", 1: "blue", 2: "green"}),
            "street": [f"street {k}" for k in many],
        }
    )


def told(model: Any, X: Any, y: Any, folder: Path) -> str:
    """Return the text of the report between its headings "What to distrust" and "How to do it again"."""
    html = report(model, X, y, folder / "r.html", cv=2, n_draws=20, baselines=False).read_text(encoding="utf-8")
    text = unescape(" ".join(re.sub(r"<[^>]+>", " ", html).split()))
    return text[text.index("What to distrust") : text.index("How to do it again")]


def test_a_selection_that_noise_gives_too_is_told(tmp_path: Path) -> None:
    X = np.random.default_rng(3).normal(size=(N_ROWS, 5))
    bank = KernelBank.per_feature(Linear())
    noise, truth = (MKLRegressor(bank, tol=1e-3).fit(X, y) for y in (NOISE, 2.0 * X[:, 1] + NOISE))
    doubt = noise_doubt(noise)
    assert doubt is not None
    assert doubt in told(noise, X, NOISE, tmp_path)
    assert "Noise would be selected as well" not in told(truth, X, 2.0 * X[:, 1] + NOISE, tmp_path)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("piped", [False, True])
def test_selected_categories_of_many_levels_are_told(piped: bool, tmp_path: Path) -> None:
    X = table()
    y = X["size"] + 2.0 * (X["color"] == "red") + X["street"].str[7:].astype(int) / 10
    model: Any = MKLRegressor(alpha=0.01, tol=1e-3)
    model = make_pipeline(FunctionTransformer(), model) if piped else model
    text = told(model.fit(X, y), X, y, tmp_path)
    assert 'Categories of many levels "street" (30 levels): a kernel' in text
    assert '"color"' not in text


@pytest.mark.filterwarnings("ignore:No kernel was selected")
def test_the_constant_of_a_search_is_at_no_edge(tmp_path: Path) -> None:
    X = np.random.default_rng(3).normal(size=(N_ROWS, 2))
    model = MKLRegressorCV(KernelBank.per_feature(Linear()), cv=2, penalty="ridge").fit(X, NOISE)
    assert not model.kernel_weights_.any()
    np.testing.assert_allclose(model.alpha_, model.alphas_.max())  # the strongest of all
    text = told(model, X, NOISE, tmp_path)
    assert "No kernel was selected" in text
    assert "edge of its grid" not in text


def test_categories_without_weight_are_not_told(tmp_path: Path) -> None:
    X = table()
    bank = KernelBank.per_feature(Linear(), columns=["size"])
    model = MKLRegressor(bank, tol=1e-3).fit(X, X["size"])
    assert "many levels" not in told(model, X, X["size"], tmp_path)


def test_rows_that_are_ordered_well_are_no_constant(tmp_path: Path) -> None:
    """Few positives lie below one half everywhere: labels are those of the constant, the order is not."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, size=(600, 2))
    y = rng.uniform(size=600) < 1 / (1 + np.exp(3.0 - 1.8 * X[:, 0]))
    model = MKLClassifier(KernelBank.per_feature(Linear()), tol=1e-3).fit(X, y)
    path = report(model, X, y, tmp_path / "r.html", cv=2, n_draws=50)
    html = unescape(path.read_text(encoding="utf-8"))
    assert "Labels are no better than a constant, their order is" in html
    assert "Not better than a constant" not in html


def test_one_serious_reason_is_not_some(tmp_path: Path) -> None:
    X = np.random.default_rng(5).normal(size=(300, 2))
    model = MKLRegressor(KernelBank.per_feature(Linear()), alpha=0.01).fit(X, X[:, 0])
    html = report(model, X, X[:, 0], tmp_path / "r.html", cv=None, n_draws=20, baselines=False).read_text("utf-8")
    assert "<b>1</b><span>reason for doubt, a serious one</span>" in html
