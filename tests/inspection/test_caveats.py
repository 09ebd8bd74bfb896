"""What to distrust: a selection that noise would give too, and categories that can fit single rows."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from manykernels import KernelBank, Linear, MKLClassifier, MKLClassifierCV, MKLRegressor, MKLRegressorCV, report
from manykernels.inspection import noise_doubt
from manykernels.inspection.reports.caveats import _rivals
from manykernels.inspection.reports.evaluation import Rival
from manykernels.inspection.reports.scores import Score

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
    """Return the text of the report between its headings "Warnings" and "Reproduction"."""
    html = report(model, X, y, folder / "r.html", cv=2, n_draws=20, baselines=False).read_text(encoding="utf-8")
    text = unescape(" ".join(re.sub(r"<[^>]+>", " ", html).split()))
    return text[text.rindex("Warnings") : text.rindex("Reproduction")]


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
    assert "Labels no better than a constant, ranking better" in html
    assert "Not better than a constant" not in html


def test_one_serious_reason_is_not_some(tmp_path: Path) -> None:
    X = np.random.default_rng(5).normal(size=(300, 2))
    model = MKLRegressor(KernelBank.per_feature(Linear()), alpha=0.01).fit(X, X[:, 0])
    html = report(model, X, X[:, 0], tmp_path / "r.html", cv=None, n_draws=20, baselines=False).read_text("utf-8")
    assert "<b>1</b><span>warning, serious</span>" in html


def test_few_rows_and_a_wide_interval_are_reasons_for_doubt(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    X = rng.normal(size=(150, 3))
    y = rng.uniform(size=150) < 1 / (1 + np.exp(-X.sum(axis=1)))
    model = MKLClassifier(KernelBank.per_feature(Linear()), tol=1e-3).fit(X, y)
    text = told(model, X, y, tmp_path)
    assert "Few samples" in text
    assert "A wide interval" in text


@pytest.mark.parametrize(
    ("low", "value", "high", "title"),
    [
        (-0.05, -0.01, 0.03, ["A simpler model scores at least as high"]),
        (-0.05, -0.02, -0.01, ["A simpler model does better"]),
        (-0.01, 0.02, 0.05, []),
    ],
)
def test_a_rival_with_a_higher_score_is_a_reason_for_doubt(
    low: float, value: float, high: float, title: list[str]
) -> None:
    rival = Rival("plain sum of the kernels", Score("accuracy", 0.7, 0.6, 0.8), Score("difference", value, low, high))
    case: Any = SimpleNamespace(task="classification", evaluation=SimpleNamespace(scores=(), rivals=(rival,)))
    assert [caveat.title for caveat in _rivals(case)] == title


def test_the_area_under_the_curve_comes_first_where_a_search_is_scored_by_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 2))
    y = rng.uniform(size=120) < 1 / (1 + np.exp(-2.0 * X[:, 0]))
    for scoring, first in (("roc_auc", "area under the ROC curve"), (None, "accuracy")):
        model = MKLClassifierCV(KernelBank.per_feature(Linear()), cv=2, scoring=scoring, tol=1e-3).fit(X, y)
        html = report(model, X, y, tmp_path / "r.html", cv=2, n_draws=50).read_text(encoding="utf-8")
        assert re.search(rf'<div class="card"><b>[^<]*</b><span>{first},', html)
        assert f'<th>model</th><th class="number">{first}</th>' in html  # rivals are compared by it too
        assert re.search(rf"than the best constant by [\d.]+ in {first}", html)
