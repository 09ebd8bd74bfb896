"""The report states what the model and scikit-learn's metrics say."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import balanced_accuracy_score, log_loss, mean_absolute_error, r2_score, roc_auc_score

from manykernels import MKLClassifier
from manykernels.inspection import MKLReport

Named = Callable[[str], tuple[Any, Any]]


def test_facts_are_those_of_the_model(fitted: tuple[Any, Any]) -> None:
    model, _ = fitted
    report = MKLReport.from_estimator(model)
    weights = np.atleast_2d(model.kernel_weights_)
    assert report.n_active == int((weights > 0).any(axis=0).sum())
    assert (report.n_kernels, report.n_support) == (len(model.kernel_names_), len(model.support_))
    assert report.relative_gap == model.dual_gap_
    assert report.status == "converged"
    solutions = (model.solution_,) if weights.shape[0] == 1 else model.solution_
    assert report.passes == sum(one.passes for one in solutions)
    assert (report.n_test, report.scores) == (0, {})
    assert report.weights.equals(model.weights_frame())


def test_scores_of_two_classes(named: Named) -> None:
    model, X = named("binary")
    y = np.where(X["first"] > 0, "yes", "no").astype(object)
    scores = MKLReport.from_estimator(model, X, y).scores
    assert scores["accuracy"] == model.score(X, y)
    assert scores["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, model.predict(X)), rel=1e-12)
    assert scores["roc_auc"] == pytest.approx(roc_auc_score(y == "yes", model.decision_function(X)), rel=1e-12)
    assert scores["log_loss"] == pytest.approx(log_loss(y, model.predict_proba(X)), rel=1e-12)


def test_scores_of_several_classes(named: Named) -> None:
    model, X = named("multiclass")
    y = np.digitize(X["first"] + 0.3 * X["second"], [-0.5, 0.5])
    scores = MKLReport.from_estimator(model, X, y).scores
    areas = [roc_auc_score(y == k, model.decision_function(X)[:, k]) for k in range(3)]
    assert scores["roc_auc"] == pytest.approx(np.mean(areas), rel=1e-12)
    assert "log_loss" not in scores


def test_scores_of_regression(named: Named) -> None:
    model, X = named("regressor")
    y = X[:, 0]
    scores = MKLReport.from_estimator(model, X, y).scores
    assert scores["r2"] == r2_score(y, model.predict(X))
    assert scores["mae"] == mean_absolute_error(y, model.predict(X))
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((y - model.predict(X)) ** 2)), rel=1e-12)


def test_undefined_scores_are_none(named: Named) -> None:
    model, X = named("binary")
    report = MKLReport.from_estimator(model, X[:3], np.array(["yes"] * 3, dtype=object))
    assert report.scores["roc_auc"] is None
    assert "roc_auc undefined" in report.summary()
    assert json.loads(report.to_json())["scores"]["roc_auc"] is None


def test_labels_in_a_table_of_one_column_are_scored_as_labels(named: Named) -> None:
    model, X = named("binary")
    y = pd.DataFrame({"ill": np.where(X["first"] > 0, "yes", "no")})
    assert MKLReport.from_estimator(model, X, y).scores == MKLReport.from_estimator(model, X, y["ill"]).scores


def test_unknown_labels_count_as_errors(named: Named) -> None:
    model, X = named("binary")
    report = MKLReport.from_estimator(model, X[:4], np.array(["maybe"] * 4, dtype=object))
    assert report.scores == {"accuracy": 0.0, "balanced_accuracy": None, "roc_auc": None}


def test_json_holds_everything(named: Named) -> None:
    model, X = named("binary")
    report = MKLReport.from_estimator(model, X, model.predict(X))
    found = json.loads(report.to_json(indent=1))
    assert found["scores"]["accuracy"] == 1.0
    assert found["weights"][0]["name"] == model.weights_frame()["name"].iloc[0]
    assert set(report.frame()["fact"]) >= {"task", "relative_gap", "test accuracy"}
    assert "<table" in report._repr_html_()


def test_text_names_what_matters(named: Named) -> None:
    model, X = named("binary")
    text = MKLReport.from_estimator(model, X, model.predict(X)).summary()
    assert "MKLClassifier (classification): logistic loss, l1 penalty, alpha 0.005" in text
    assert "on 36 test samples: accuracy 1.0000" in text
    assert model.weights_frame()["name"].iloc[0] in text


@pytest.mark.filterwarnings("ignore:Solver")
def test_the_worst_status_is_reported() -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = MKLClassifier(solver="interior_point", resources={"max_iter": 1}, tol=1e-9).fit(X, X[:, 0] > 0)
    report = MKLReport.from_estimator(model)
    assert report.status == "max_iter"
    assert report.relative_gap > report.tol == 1e-9
