"""The demonstration on a smaller table: every figure it reports can be recomputed from what it writes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from manykernels import load_model
from manykernels.cli import demo
from manykernels.cli.console import running
from manykernels.datasets import load_bundled
from manykernels.inspection import predictive_importance


@pytest.fixture
def small() -> tuple[pd.DataFrame, pd.Series]:
    """Return 120 rows and 3 columns of the breast cancer data."""
    X, y = load_bundled("breast_cancer")
    return X.iloc[:120, [0, 1, 7]], y.iloc[:120]


def test_the_demo_reports_what_it_writes(
    small: tuple[pd.DataFrame, pd.Series], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(demo, "SVC_GRID", {"svc__C": np.array([1.0, 10.0]), "svc__gamma": np.array([0.01, 0.1])})
    with running("demo", as_json=True) as outcome:
        demo.run_demo(tmp_path, outcome, small)
    found = json.loads(capsys.readouterr().out)
    assert found["n_kernels"] == 27 * 4
    assert (found["status"], found["relative_gap"] <= 1e-6) == ("converged", True)
    _, X_test, _, y_test = train_test_split(*small, test_size=0.2, stratify=small[1], random_state=0)
    model = load_model(tmp_path / "model.mkl")
    ours, *others = found["comparison"]
    assert [row["name"] for row in others] == ["SVC, untouched", "SVC, tuned", "logistic regression, tuned"]
    assert ours["accuracy"] == np.mean(model.predict(X_test) == y_test)
    area = roc_auc_score(y_test == "malignant", model.decision_function(X_test))
    assert ours["roc_auc"] == pytest.approx(area, rel=1e-12)
    assert all(0.5 < row["accuracy"] <= 1.0 for row in others)
    assert model.alpha == 0.5 / 96
    assert set(found["files"]) == {"picture", "narrow picture", "model", "importance", "weights", "history", "report"}
    lost = predictive_importance(model, X_test, y_test, scoring="roc_auc", random_state=0)
    assert lost["importance"].is_monotonic_decreasing
    assert [row["name"] for row in found["importance"]] == lost["name"].tolist()
    written = pd.read_csv(tmp_path / "importance.csv")
    assert written["importance"].tolist() == pytest.approx(lost["importance"].tolist(), abs=1e-12)
    assert all(Path(path).is_file() for path in found["files"].values())
    assert pd.read_csv(tmp_path / "weights.csv")["weight"].tolist() == pytest.approx(
        model.weights_frame()["weight"], rel=1e-12
    )
    assert json.loads((tmp_path / "report.json").read_text())["n_active"] == found["n_active"]
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_the_tables_of_the_demo(
    small: tuple[pd.DataFrame, pd.Series], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(demo, "SVC_GRID", {"svc__C": np.array([1.0]), "svc__gamma": np.array([0.1])})
    monkeypatch.setenv("COLUMNS", "200")
    with running("demo", as_json=False) as outcome:
        demo.run_demo(tmp_path / "new" / "folder", outcome, small)
    text = capsys.readouterr().out
    for part in (
        "held out",
        "ROC AUC lost",
        "manykernels",
        "SVC, tuned",
        "logistic regression, tuned",
        "ROC AUC",
        "duality gap",
        "Newton steps",
        "demo.png",
        "demo_narrow.png",
    ):
        assert part in text
