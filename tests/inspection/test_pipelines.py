"""Cards and reports of pipelines are those of their last step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import KernelBank, Linear, MKLRegressor, report
from manykernels.exceptions import InvalidInputError
from manykernels.inspection import MKLReport, summary_html

X = np.random.default_rng(0).normal(5.0, 3.0, size=(40, 3))
Y = X[:, 0] - X[:, 1]
PIPELINE = make_pipeline(StandardScaler(), MKLRegressor(KernelBank.per_feature(Linear()), alpha=0.05))


def test_card_and_facts_of_a_pipeline_are_those_of_its_last_step() -> None:
    for model in (PIPELINE.fit(X[:30], Y[:30]), make_pipeline(PIPELINE).fit(X[:30], Y[:30])):
        assert summary_html(model) == summary_html(PIPELINE[-1])
        facts = MKLReport.from_estimator(model, X[30:], Y[30:])
        assert facts.estimator == "MKLRegressor"
        assert facts.scores["r2"] == pytest.approx(model.score(X[30:], Y[30:]))
        assert MKLReport.from_estimator(model).scores == {}


def test_a_card_of_a_pipeline_that_is_not_fitted() -> None:
    assert "not fitted" in summary_html(make_pipeline(StandardScaler(), MKLRegressor()))


def test_a_report_says_how_to_take_a_pipeline(tmp_path: Path) -> None:
    model = PIPELINE.fit(X, Y)
    with pytest.raises(InvalidInputError, match=r"report\(pipeline\[-1\], pipeline\[:-1\].transform\(X\), y\)"):
        report(model, X, Y, tmp_path / "report.html")
    assert report(model[-1], model[:-1].transform(X), Y, tmp_path / "report.html", cv=2).stat().st_size > 0
