"""The demonstration on a smaller table: every figure it reports can be recomputed from what it writes."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from manykernels import load_model
from manykernels.cli import commands as demo
from manykernels.cli.console import _plain, running
from manykernels.datasets import load_bundled
from manykernels.inspection import predictive_importance


@dataclass(frozen=True)
class Demonstration:
    """One run on 120 rows and 3 columns: its data, what it found as JSON, what it printed, and where it wrote."""

    X: pd.DataFrame
    y: pd.Series
    found: dict[str, Any]
    text: str
    folder: Path


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory: pytest.TempPathFactory) -> Demonstration:
    """Run the demonstration once; its rivals have small grids."""
    X, y = load_bundled("breast_cancer")
    X, y, folder = X.iloc[:120, [0, 1, 7]], y.iloc[:120], tmp_path_factory.mktemp("demo") / "new" / "folder"
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as text:
        patch.setattr(demo, "LOGISTIC_GRID", {"logisticregression__C": np.array([0.1, 1.0])})
        patch.setattr(demo, "SVC_GRID", {"svc__C": np.array([1.0, 10.0]), "svc__gamma": np.array([0.01, 0.1])})
        patch.setenv("COLUMNS", "200")
        with running("demo", as_json=False) as outcome:
            demo.run_demo(folder, outcome=outcome, data=(X, y))
    found = json.loads(json.dumps(outcome.result, allow_nan=False, default=_plain))
    return Demonstration(X, y, found, text.getvalue(), folder)


def test_the_demo_reports_what_it_writes(demonstration: Demonstration) -> None:
    X, y, found, folder = demonstration.X, demonstration.y, demonstration.found, demonstration.folder
    assert found["n_kernels"] == 27 * 4
    assert (found["status"], found["relative_gap"] <= 1e-6) == ("converged", True)
    _, X_test, _, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)
    model = load_model(folder / "model.mkl")
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
    written = pd.read_csv(folder / "importance.csv")
    assert written["importance"].tolist() == pytest.approx(lost["importance"].tolist(), abs=1e-12)
    assert all(Path(path).is_file() for path in found["files"].values())
    assert pd.read_csv(folder / "weights.csv")["weight"].tolist() == pytest.approx(
        model.weights_frame()["weight"], rel=1e-12
    )
    assert json.loads((folder / "report.json").read_text())["n_active"] == found["n_active"]
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_the_tables_of_the_demo(demonstration: Demonstration) -> None:
    text = demonstration.text
    for part in (
        "held out",
        "drop in ROC AUC",
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
