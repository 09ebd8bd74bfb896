"""Cards, reports and displays of pipelines are those of their last step, with the names that the steps before give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from manykernels import (
    KernelBank,
    Linear,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    leave_one_out_importance,
    report,
)
from manykernels.inspection import (
    ContributionsDisplay,
    ConvergenceDisplay,
    CVCurveDisplay,
    DecompositionDisplay,
    KernelWeightsDisplay,
    MKLReport,
    ShapeDisplay,
    WaterfallDisplay,
    WeightMapDisplay,
    plot_overview,
    summary_html,
)
from manykernels.inspection.pipelines import unwrapped

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(5.0, 3.0, size=(40, 3)), columns=["age", "dose", "x0"], index=range(100, 140))
Y = X["age"] - X["dose"]
LINEAR = MKLRegressor(KernelBank.per_feature(Linear()), alpha=0.05)
PIPELINE = make_pipeline(StandardScaler(), LINEAR).fit(X[:30], Y[:30])


def test_card_and_facts_of_a_pipeline_are_those_of_its_last_step() -> None:
    for model in (PIPELINE, make_pipeline(PIPELINE)):
        assert "dose: linear" in summary_html(model)
        facts = MKLReport.from_estimator(model, X[30:], Y[30:])
        assert facts.estimator == "MKLRegressor"
        assert facts.scores["r2"] == pytest.approx(model.score(X[30:], Y[30:]))
        assert set(facts.weights["name"]) == {"age: linear()", "dose: linear()"}
        assert MKLReport.from_estimator(model).scores == {}


def test_a_card_of_a_pipeline_that_is_not_fitted() -> None:
    assert "not fitted" in summary_html(make_pipeline(StandardScaler(), MKLRegressor()))


@pytest.mark.parametrize(
    ("display", "takes_rows"),
    [
        (KernelWeightsDisplay, False), (WeightMapDisplay, False), (ConvergenceDisplay, False), (WaterfallDisplay, True),
        (ContributionsDisplay, True), (DecompositionDisplay, True), (ShapeDisplay, True),
    ],
)  # fmt: skip
def test_displays_of_a_pipeline_are_those_of_its_last_step_on_what_it_gets(display: Any, takes_rows: bool) -> None:
    named = X[:30].assign(**dict(zip(X, StandardScaler().fit_transform(X[:30]).T, strict=True)))
    twin = MKLRegressor(KernelBank.per_feature(Linear()), alpha=0.05).fit(named, Y[:30])
    found = display.from_estimator(PIPELINE, *([X[:30]] if takes_rows else [])).frame()
    known = display.from_estimator(twin, *([named] if takes_rows else [])).frame()
    pd.testing.assert_frame_equal(found.drop(columns="elapsed_s", errors="ignore"), known[found.columns].drop(
        columns="elapsed_s", errors="ignore"))  # fmt: skip


def test_an_overview_of_a_pipeline() -> None:
    assert plot_overview(PIPELINE).axes


def test_a_pipeline_keeps_its_own_names() -> None:
    assert PIPELINE[-1].kernel_names_[0] == "x0: linear()"
    assert not hasattr(PIPELINE[-1], "feature_names_in_")


def test_a_curve_of_cross_validation_of_a_pipeline() -> None:
    model = make_pipeline(StandardScaler(), MKLClassifierCV(cv=2, n_alphas=4, l1_ratios=0.0)).fit(X, Y > 0)
    assert len(CVCurveDisplay.from_estimator(model).frame()) == len(model[-1].cv_frame())


def test_names_are_those_that_the_steps_before_the_last_give() -> None:
    table = X[["age"]].assign(site=["left", "right"] * 20)
    before = make_column_transformer((OneHotEncoder(sparse_output=False), ["site"]), remainder=StandardScaler())
    model = make_pipeline(before, MKLRegressor(KernelBank.auto(), alpha=0.01)).fit(table, X["age"])
    shown, rows = unwrapped(model, table)
    names = ["onehotencoder__site_left", "onehotencoder__site_right", "remainder__age"]
    assert list(shown.feature_names_in_) == list(rows.columns) == names
    assert rows.index.equals(table.index)
    assert {name.split(": ")[0] for name in shown.kernel_names_} == {*names, "all"}
    np.testing.assert_allclose(shown.predict(rows), model.predict(table))


def test_without_names_the_columns_are_numbered() -> None:
    model = make_pipeline(FunctionTransformer(lambda rows: np.asarray(rows) / 3), LINEAR).fit(X, Y)
    assert KernelWeightsDisplay.from_estimator(model).frame()["name"].tolist() == ["x0: linear()", "x1: linear()"]


def test_names_of_kernels_that_name_no_columns_stay() -> None:
    bank = KernelBank([("x0 and friends", Linear(), [0, 1]), ("x9: odd", Linear(), [2])])
    model = make_pipeline(StandardScaler(), MKLRegressor(bank, alpha=0.01)).fit(X, Y)
    assert unwrapped(model)[0].kernel_names_ == ["x0 and friends", "x9: odd"]
    assert unwrapped(model)[0].weights_frame(active_only=False)["columns"].tolist() == ["age, dose", "x0"]


@pytest.mark.nightly
@pytest.mark.usefixtures("without_pictures")
def test_a_report_refits_all_steps_of_a_pipeline(tmp_path: Path) -> None:
    seen: list[int] = []

    class Watched(StandardScaler):
        def fit(self, rows: Any, y: Any = None, sample_weight: Any = None) -> Watched:
            seen.append(len(rows))
            return super().fit(rows, y, sample_weight)

    model = Pipeline([("scale", Watched()), ("learn", LINEAR)]).fit(X, Y)
    text = report(model, X, Y, tmp_path / "report.html", cv=2, n_draws=50).read_text(encoding="utf-8")
    assert seen[0] == 40
    assert set(seen[1:]) == {20}  # folds of the model and of its rivals
    assert "dose: linear" in text
    assert "report(model, X, y" in text
    assert "one Gaussian kernel" in text
    held_out = report(PIPELINE, X[:30], Y[:30], tmp_path / "held_out.html", X_test=X[30:], y_test=Y[30:], n_draws=50)
    assert f"{PIPELINE.score(X[30:], Y[30:]):.2f}"[:4] in held_out.read_text(encoding="utf-8")


def test_a_report_of_a_pipeline_whose_steps_make_sparse_rows(tmp_path: Path) -> None:
    table = pd.DataFrame({"kind": RNG.choice(list("abcdefgh"), 60), "place": RNG.choice(list("uvwxyz"), 60)})
    y = table["kind"].isin(["a", "b"]) + 0.1 * RNG.normal(size=60)
    model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), MKLRegressor(alpha=0.01)).fit(table, y)
    estimator, rows = unwrapped(model, table)
    assert list(rows.columns) == list(estimator.feature_names_in_)
    np.testing.assert_allclose(estimator.predict(rows), model.predict(table))
    report(model, table, y, tmp_path / "r.html")
    assert "kernels selected" in (tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.mark.filterwarnings(
    "ignore:The best strength", "ignore:The score was still rising", "ignore:No kernel was selected"
)
@pytest.mark.parametrize("in_pipeline", [False, True])
def test_searches_in_folds_by_groups_are_given_them_when_they_are_fitted_again(
    in_pipeline: bool, tmp_path: Path
) -> None:
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(36, 2)), columns=["a", "b"])
    groups, folds = np.arange(36) // 3, GroupKFold(3)
    search = MKLRegressorCV(KernelBank.per_feature(Linear()), penalty="l1", cv=folds, n_alphas=3)
    model: Any = make_pipeline(StandardScaler().set_output(transform="pandas"), search) if in_pipeline else search
    named = {"mklregressorcv__groups" if in_pipeline else "groups": groups}
    model.fit(X, X["a"], **named)
    path = report(model, X, X["a"], tmp_path / "report.html", cv=folds, groups=groups, n_draws=10, baselines=False)
    assert path.exists()
    table = leave_one_out_importance(model, X, X["a"], cv=folds, groups=groups)
    assert set(table["name"]) == {"a", "b"}
