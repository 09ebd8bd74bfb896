"""Reports of several labels: scores of each label, what the labels share, and curves of a chosen one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold

from manykernels import MKLClassifier, MKLRegressor, report
from manykernels.exceptions import InvalidInputError
from manykernels.inspection.displays.kernel_table import kernel_table
from manykernels.inspection.reports.classes import label_rows
from manykernels.inspection.reports.document import label_bars
from manykernels.inspection.reports.evaluation import evaluate
from manykernels.inspection.reports.scores import LABELS, label_accuracies, label_areas

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

RNG = np.random.default_rng(5)
X = pd.DataFrame(RNG.normal(size=(120, 3)), columns=list("abc"))
SCORES = np.column_stack([X["a"], X["a"] - X["b"], -X["b"]]) + 0.5 * RNG.normal(size=(120, 3))
Y = pd.DataFrame((SCORES > 0).astype(float), columns=["ash", "birch <i>", "cedar"])


def text_of(path: Path) -> str:
    page = re.sub(r"<svg.*?</svg>|<style.*?</style>", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


@pytest.mark.parametrize("outputs", ["shared", "own"])
def test_a_report_of_labels_has_the_scores_of_each(outputs: str, tmp_path: Path) -> None:
    model = MKLClassifier(outputs=outputs).fit(X, Y)
    page = text_of(report(model, X, Y, tmp_path / "labels.html", cv=KFold(3), target="cedar", n_draws=200))
    found = evaluate(
        model, LABELS, X, Y.to_numpy(), test=None, cv=KFold(3), groups=None, baselines=True, n_draws=200, seed=0
    )
    again = np.zeros(Y.shape)
    for train, test in KFold(3).split(X):
        again[test] = MKLClassifier(outputs=outputs).fit(X.iloc[train], Y.iloc[train]).predict(X.iloc[test])
    right = np.mean(again == Y.to_numpy(), axis=0)
    np.testing.assert_allclose(found.labels["accuracy"].iloc[:3], right)
    assert found.scores[0].value == pytest.approx(right.mean())
    assert found.scores[1].value == pytest.approx(found.labels.loc["mean", "roc_auc"])
    for name, share in zip(["ash", "birch &lt;i&gt;", "cedar"], right, strict=True):
        assert re.search(rf"{name} 120 [0-9.]+ {share:.3f}", page)
    assert ("All labels share one set" if outputs == "shared" else "means over 3 labels, each with") in page
    assert "towards &#39;cedar&#39;" in page
    assert "Decrease of the mean area under the ROC curve" in page


def test_missing_labels_are_left_out_of_scores(tmp_path: Path) -> None:
    gaps = Y.copy()
    gaps.iloc[:30, 1] = np.nan
    model = MKLClassifier(outputs="shared").fit(X[:80], gaps[:80])
    page = text_of(report(model, X[:80], gaps[:80], tmp_path / "gaps.html", X_test=X[80:], y_test=Y[80:], n_draws=200))
    expected = model.label_frame(X[80:], Y[80:]).loc["mean"]
    assert f"mean accuracy of the labels {expected['accuracy']:.3f}" in page
    assert f"mean area under the ROC curve {expected['roc_auc']:.3f}" in page
    assert "Curves and surfaces" not in page
    texts = {bar.name: bar.text for bar in label_bars(gaps.to_numpy(), "abc").bars}
    assert texts["b"].startswith(f"{int(gaps.iloc[30:, 1].sum())} ")


def test_scores_of_labels_ignore_what_is_missing() -> None:
    truth, scores = np.array([[1.0, 0.0], [np.nan, 1.0], [0.0, 1.0]]), np.array([[1.0, 2.0], [5.0, 1.0], [-1.0, 3.0]])
    counts = np.array([[1.0, 1.0, 1.0], [2.0, 0.0, 1.0]])
    np.testing.assert_allclose(label_accuracies(counts, truth, (scores > 0) * 1.0), [(1 + 2 / 3) / 2, (1 + 1 / 3) / 2])
    np.testing.assert_allclose(label_areas(counts, truth, scores), [(1 + 0.5) / 2, (1 + 1.0) / 2])


def test_many_labels_are_listed_from_the_least_predictable() -> None:
    table = pd.DataFrame(
        {"n_samples": 9.0, "share": 0.2, "accuracy": 0.9, "roc_auc": np.linspace(1.0, 0.4, 150)}, index=range(150)
    )
    rows = label_rows(pd.concat([table, table.mean().to_frame("mean").T]))
    assert (len(rows.rows), rows.n_more) == (100, 50)
    assert rows.rows[0] == ["149", "9", "0.200", "0.900", "0.800", "0.400"]


def test_a_report_of_outputs_draws_a_chosen_one_and_rejects_others(tmp_path: Path) -> None:
    Z = pd.DataFrame(SCORES, columns=["north", "south", "west"])
    model = MKLRegressor().fit(X, Z)
    page = text_of(report(model, X, Z, tmp_path / "outputs.html", cv=None, target="south"))
    assert "added to the score of south" in page
    with pytest.raises(InvalidInputError, match=r"target must be one of .*'north'.*got 'east'"):
        report(model, X, Z, tmp_path / "outputs.html", cv=None, target="east")
    labels = MKLClassifier().fit(X, Y)
    with pytest.raises(InvalidInputError, match=r"a column for each of 3 labels, got shape \(120, 2\)"):
        report(labels, X, Y.iloc[:, :2], tmp_path / "labels.html")


def test_the_table_of_kernels_of_labels_has_a_row_a_kernel() -> None:
    model = MKLClassifier().fit(X, Y)
    table = kernel_table(model)
    assert table["name"].tolist() == list(model.kernel_names_)
    np.testing.assert_allclose(table["weight"], np.asarray(model.kernel_weights_).mean(axis=0))
    one = kernel_table(model, "cedar")
    np.testing.assert_allclose(one["weight"], np.asarray(model.kernel_weights_)[2])
