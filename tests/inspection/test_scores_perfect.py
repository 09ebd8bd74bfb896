"""Scores that real data rarely allow are a reason for doubt, in the command and in the report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from manykernels import KernelBank, Linear, MKLSurvival, report, survival_array
from manykernels.inspection.reports.scores import nearly_perfect


def test_the_first_score_near_its_best_value_is_named() -> None:
    assert nearly_perfect({"concordance": 0.9977}) == "concordance"
    assert nearly_perfect({"accuracy": 0.99, "log_loss": 1.0, "roc_auc": 1.0}) == "roc_auc"
    assert not nearly_perfect({"accuracy": 0.99, "roc_auc": None, "rmse": 3.0})


@pytest.mark.usefixtures("without_pictures")
def test_a_report_doubts_a_concordance_that_leaks(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(120, 2))
    y = survival_array(np.ones(120, dtype=bool), np.exp(-X[:, 0]))
    model = MKLSurvival(KernelBank.per_feature(Linear()), alpha=0.1, tol=1e-3).fit(X[:60], y[:60])
    options = {"n_draws": 20, "baselines": False}
    page = report(model, X[:60], y[:60], tmp_path / "r.html", X_test=X[60:], y_test=y[60:], **options)
    assert "Nearly perfect scores" in page.read_text(encoding="utf-8")
