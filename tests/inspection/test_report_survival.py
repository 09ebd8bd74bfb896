"""What is told of survival models: the card, the facts, the report with its intervals, rivals and curves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from manykernels import (
    InvalidInputError,
    KernelBank,
    KernelStack,
    MKLSurvival,
    MKLSurvivalCV,
    compare,
    report,
    survival_array,
)
from manykernels.estimators import concordance_index
from manykernels.estimators.survival import kaplan_meier, martingale_residuals
from manykernels.inspection import MKLReport, plot_overview, summary_html
from manykernels.inspection.reports import pictures, scores
from manykernels.inspection.reports.evaluation import CONSTANT, ONE_KERNEL, SUM, apart_by_folds, evaluate
from manykernels.objective import CoxPartial, Problem, get_regularizer, survival_target

BANK = KernelBank.per_feature(widths=[1.0], normalize="mean_diagonal")


def study(n: int = 60, *, strata: bool = False) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.uniform(-2, 2, (n, 3)), columns=["age", "dose", "<noise>"])
    seen, leaves = rng.exponential(np.exp(-np.sin(2 * X["dose"]) - X["age"])), rng.exponential(2.0, n)
    return X, survival_array(seen <= leaves, np.minimum(seen, leaves), np.arange(n) % 2 if strata else None)


def test_facts_and_card_of_hazards() -> None:
    X, y = study()
    model = MKLSurvival(BANK, alpha=0.05).fit(X[:40], y[:40])
    facts = MKLReport.from_estimator(model, X[40:], y[40:])
    assert (facts.task, facts.loss, facts.n_samples, facts.n_test) == ("survival", "cox", 40, 20)
    assert facts.scores == {"concordance": model.score(X[40:], y[40:])}
    assert "survival): cox loss, l1 penalty, alpha 0.05" in facts.summary()
    assert json.loads(facts.to_json())["scores"]["concordance"] == facts.scores["concordance"]
    card = summary_html(model)
    assert "cox loss" in card
    assert "dose: gaussian" in card
    assert card in model._repr_mimebundle_()["text/html"]
    assert len(plot_overview(model).axes) >= 3


@pytest.mark.sampled(2)
@pytest.mark.parametrize("strata", [False, True])
def test_the_report_tells_survival_from_folds(tmp_path: Path, strata: bool) -> None:
    X, y = study(strata=strata)
    model = MKLSurvival(BANK, alpha=0.05).fit(X, y)
    page = report(model, X, y, tmp_path / "report.html", cv=2, n_draws=50).read_text(encoding="utf-8")
    events = int(y["event"].sum())
    told = (
        f"{events}; {60 - events} samples are censored",
        "concordance index",
        "low risk",
        "high risk",
        "within folds",
    )
    for words in (*told, CONSTANT, SUM, ONE_KERNEL["survival"], "Few events", "&lt;noise&gt;"):
        assert words in page
    assert "since it failed" not in page
    assert ("2, each with a baseline hazard" in page) == strata


@pytest.mark.nightly
def test_concordance_of_a_report_is_that_of_pairs_within_folds() -> None:
    X, y = study()
    model, settings = MKLSurvival(BANK, alpha=0.05).fit(X, y), {"test": None, "groups": None, "seed": 0}
    target = np.array([(*row, 0) for row in y.tolist()], dtype=[*y.dtype.descr, ("stratum", int)])
    found = evaluate(model, "survival", X, target, cv=3, baselines=True, n_draws=100, **settings)
    pairs = found.truth["stratum"]
    assert len(np.unique(pairs)) == 3
    scores = [concordance_index(y[pairs == fold], found.predicted[pairs == fold]) for fold in range(3)]
    assert found.scores[0].value == concordance_index(found.truth, found.predicted)
    assert min(scores) <= found.scores[0].value <= max(scores)
    assert found.scores[0].low < found.scores[0].value < found.scores[0].high
    rivals = {rival.name: rival for rival in found.rivals}
    assert rivals[CONSTANT].score.value == 0.5
    assert rivals[CONSTANT].better_by.value == pytest.approx(found.scores[0].value - 0.5)
    assert rivals[SUM].score.value > 0.6
    assert rivals[ONE_KERNEL["survival"]].score.value > 0.6


@pytest.mark.nightly
@pytest.mark.usefixtures("without_pictures")
def test_rows_held_out_and_a_frame_as_target(tmp_path: Path) -> None:
    X, y = study()
    frame = pd.DataFrame({"died": y["event"], "months": y["time"]})
    model = MKLSurvival(BANK, alpha=0.05).fit(X[:40], frame[:40])
    test: dict[str, Any] = {"X_test": X[40:], "y_test": frame[40:]}
    page = report(model, X[:40], frame[:40], tmp_path / "report.html", **test).read_text(encoding="utf-8")
    assert "Scored on 20 rows" in page
    none = {"X_test": X[40:], "y_test": survival_array([False] * 20, y["time"][40:])}
    with pytest.raises(InvalidInputError, match="No two samples"):
        report(model, X[:40], y[:40], tmp_path / "report.html", **none)
    with pytest.raises(InvalidInputError, match="without fields"):
        report(model, X[:40], y["time"][:40], tmp_path / "report.html")


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:The best strength")
def test_precomputed_kernels_and_a_chosen_strength(tmp_path: Path) -> None:
    X, y = study(40)
    kernels = KernelStack([X[[name]].to_numpy() @ X[[name]].to_numpy().T for name in X], names=list("abc"))
    model = MKLSurvivalCV("precomputed", cv=2, n_alphas=3).fit(kernels, y)
    page = report(model, kernels, y, tmp_path / "report.html", cv=2, n_draws=20).read_text(encoding="utf-8")
    assert "Choice by cross-validation" in page
    assert "the data are kernels" in page
    assert SUM in page
    assert "since it failed" not in page


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:The best strength")
def test_learned_weights_beside_those_that_nobody_learns() -> None:
    X, y = study(90, strata=True)
    splits = [(np.arange(60), np.arange(60, 90)), (np.arange(30, 90), np.arange(30))]
    table = compare(MKLSurvival(BANK, alpha=0.05), X, y, cv=splits).set_index("method")
    assert table.index.tolist() == ["learned weights", "average kernel", "centered alignment", "best single kernel"]
    scores = [MKLSurvival(BANK, alpha=0.05).fit(X.iloc[a], y[a]).score(X.iloc[b], y[b]) for a, b in splits]
    assert table.loc["learned weights", "score"] == pytest.approx(np.mean(scores))
    assert (table["score"] > 0.5).all()
    frame = pd.DataFrame({"died": y["event"], "months": y["time"]})
    assert len(compare(MKLSurvivalCV(BANK, penalty="ridge", alphas=[0.1], cv=2), X, frame, cv=2)) == 4


def test_residuals_of_equal_risks_are_the_gradient_of_the_likelihood() -> None:
    rng = np.random.default_rng(0)
    time, event, strata = rng.uniform(size=20), rng.random(20) < 0.6, rng.integers(0, 2, 20)
    problem = Problem(
        np.eye(20)[None], survival_target(event, time, strata), CoxPartial("breslow"), get_regularizer("l1", 1.0)
    )
    target = np.array(
        list(zip(event, time, strata, strict=True)), dtype=[("event", bool), ("time", float), ("stratum", int)]
    )
    np.testing.assert_allclose(martingale_residuals(target), -problem.bound.gradient(np.zeros(20)), atol=1e-12)


def test_draws_are_integer_weights() -> None:
    _, y = study(30)
    target = apart_by_folds(
        np.array([(*row, 0) for row in y.tolist()], dtype=[*y.dtype.descr, ("stratum", int)]),
        [(np.arange(15), np.arange(15, 30)), (np.arange(15, 30), np.arange(15))],
    )
    risk, draws = np.random.default_rng(0).normal(size=30), scores.Draws(30, 10, 0)
    found = scores.concordances(draws.counts, target, risk)
    for value, counts in zip(found, draws.counts, strict=True):
        rows = np.repeat(np.arange(30), counts.astype(int))
        assert value == pytest.approx(concordance_index(target[rows], risk[rows]), rel=1e-12)


def test_curves_of_thirds() -> None:
    times, left = kaplan_meier(np.array([1.0, 2.0, 2.0, 3.0]), np.array([True, True, False, True]))
    np.testing.assert_allclose(times, [1.0, 2.0, 3.0])
    np.testing.assert_allclose(left, [0.75, 0.5, 0.0])
    _, y = study(60, strata=True)
    one, same = Figure().subplots(1, 2)
    pictures.survival_of_groups(one, y, -y["time"])
    assert [line.get_label() for line in one.lines] == ["low risk", "middle risk", "high risk"]
    ends = [line.get_xdata()[-1] for line in one.lines]
    assert ends[0] > ends[2]  # whoever is said to live longer is seen for longer
    assert {line.get_ydata()[0] for line in one.lines} == {1.0}
    pictures.survival_of_groups(same, y, np.zeros(60))
    assert [line.get_label() for line in same.lines] == ["middle risk"]
