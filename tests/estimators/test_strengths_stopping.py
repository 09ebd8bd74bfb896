"""time_limit and callback of the estimators: they reach the solver, hold for all classes, and never lose the model."""

from __future__ import annotations

import inspect
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manykernels import (
    KernelBank,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    MKLSurvival,
    MKLSurvivalCV,
    load_model,
    save_model,
    survival_array,
)
from manykernels.estimators import Resources
from manykernels.estimators.selection.strengths import limit_search
from manykernels.estimators.supervised.descent import SHARES
from manykernels.exceptions import ConvergenceWarning, InvalidInputError
from manykernels.grams.plan import FACTORED
from manykernels.inspection import summary_html
from manykernels.solvers import IterationRecord, WorkingSet
from manykernels.solvers.run import seconds_left

RNG = np.random.default_rng(3)
X = RNG.normal(size=(45, 3))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=45)
LABELS = np.array(list("abc"))[np.digitize(Y, [-0.4, 0.4])]
TIMES = survival_array(RNG.random(45) < 0.7, np.exp(-Y) * RNG.exponential(size=45))
BANK = KernelBank.per_feature(widths=[0.5, 1.0])
HARD: dict[str, Any] = {"alpha": 1e-4, "tol": 1e-13}  # more than one iteration


EVERY = [MKLRegressor, MKLClassifier, MKLRegressorCV, MKLClassifierCV, MKLSurvival, MKLSurvivalCV]


@pytest.mark.parametrize("estimator", EVERY)
def test_every_estimator_has_both(estimator: Any) -> None:
    own = inspect.signature(estimator).parameters
    assert own["resources"].default is None


def test_the_callback_sees_every_record_and_changes_nothing() -> None:
    seen: list[IterationRecord] = []
    model = MKLRegressor(BANK, alpha=0.01, resources={"callback": seen.append}).fit(X, Y)  # append returns None
    assert tuple(seen) == model.solution_.history
    np.testing.assert_array_equal(model.dual_coef_, MKLRegressor(BANK, alpha=0.01).fit(X, Y).dual_coef_)


def test_a_true_value_stops_and_keeps_the_model() -> None:
    with pytest.warns(ConvergenceWarning, match="stopped_by_callback"):
        model = MKLRegressor(
            BANK, solver="spicymkl", **HARD, resources={"callback": lambda record: record.iteration >= 2}
        ).fit(X, Y)
    assert model.n_iter_ == 2
    assert np.isfinite(model.predict(X)).all()


def test_the_time_limit_ends_the_run() -> None:
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        model = MKLRegressor(BANK, **HARD, resources={"time_limit": 1e-9}).fit(X, Y)
    assert str(model.solution_.status) == "time_limit"
    assert MKLRegressor(BANK, alpha=0.01, resources={"time_limit": 60.0}).fit(X, Y).dual_gap_ <= 1e-4


def test_hazards_are_stopped_like_all_else() -> None:
    with pytest.warns(ConvergenceWarning, match="stopped_by_callback"):
        stopped = MKLSurvival(BANK, **HARD, resources={"callback": lambda record: record.iteration >= 2}).fit(X, TIMES)
    assert stopped.n_iter_ == 2
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        assert np.isfinite(MKLSurvival(BANK, **HARD, resources={"time_limit": 1e-9}).fit(X, TIMES).predict(X)).all()


def test_a_search_of_hazards_ends_in_time_or_by_an_interrupt() -> None:
    with pytest.warns(ConvergenceWarning, match="time_limit") as caught:
        model = MKLSurvivalCV(BANK, cv=2, n_alphas=3, resources={"time_limit": 1e-9}).fit(X, TIMES)
    assert any("nothing was scored" in str(one.message) for one in caught)
    assert model.predict(X).shape == (45,)
    seen: list[int] = []

    def scorer(model: Any, rows: Any, target: Any) -> float:
        seen.append(len(rows))
        if len(seen) == 3:
            raise KeyboardInterrupt
        return float(model.score(rows, target))

    with pytest.warns(ConvergenceWarning, match=r"best of 2 of 3 strengths in 1 folds"):
        model = MKLSurvivalCV(BANK, cv=2, n_alphas=3, scoring=scorer).fit(X, TIMES)
    assert model.alpha_ in model.alphas_[:2]
    assert model.dual_gap_ <= 1e-4


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_the_time_limit_is_for_all_classes_together(n_jobs: int | None) -> None:
    def spend(record: IterationRecord) -> None:
        time.sleep(0.06)

    with pytest.warns(ConvergenceWarning, match=r"2 more of the 3 problems"):
        model = MKLClassifier(BANK, **HARD, resources={"time_limit": 0.05, "callback": spend, "n_jobs": n_jobs}).fit(
            X, LABELS
        )
    assert [str(found.status) for found in model.solution_] == ["time_limit"] * 3
    assert max(found.n_iter for found in model.solution_) <= 1
    if n_jobs is None:  # nothing is left for those that come later
        assert model.solution_[2].elapsed_s < model.solution_[0].elapsed_s + 0.06


def test_one_factorization_of_all_targets_can_be_stopped() -> None:
    with pytest.warns(ConvergenceWarning, match="stopped_by_callback"):
        model = MKLRegressor(
            BANK, penalty="ridge", alpha=0.1, tol=1e-16, resources={"callback": lambda record: True}
        ).fit(X, np.column_stack([Y, -2 * Y]))
    assert {str(found.status) for found in model.solution_} == {"stopped_by_callback"}


def test_a_configured_solver_has_its_own() -> None:
    seen: list[IterationRecord] = []
    ignored: dict[str, Any] = {"time_limit": 1e-9, "callback": lambda record: pytest.fail("not asked")}
    model = MKLRegressor(BANK, alpha=0.01, solver=WorkingSet(callback=seen.append), resources=ignored).fit(X, Y)
    assert model.dual_gap_ <= 1e-4
    assert len(seen) == len(model.solution_.history)


@pytest.mark.filterwarnings("ignore:The best strength")
def test_cross_validation_asks_in_the_last_fit_only() -> None:
    seen: list[IterationRecord] = []
    for given in ({"alphas": [0.1, 0.01], "penalty": "l1"}, {}):
        seen.clear()
        model = MKLRegressorCV(BANK, cv=2, **given, resources={"callback": seen.append}).fit(X, Y)
        assert tuple(seen) == model.solution_.history


GIVEN: list[dict[str, Any]] = [{"penalty": "l1", "n_alphas": 4}, {"alphas": [0.1, 0.01], "penalty": "l1"}, {}]


@pytest.mark.parametrize("given", GIVEN)
def test_without_any_time_the_strength_is_the_default(given: dict[str, Any]) -> None:
    with pytest.warns(ConvergenceWarning, match="time_limit") as caught:
        model = MKLRegressorCV(BANK, cv=2, **given, resources={"time_limit": 1e-9}).fit(X, Y)
    assert any("nothing was scored" in str(one.message) for one in caught)
    assert model.predict(X).shape == Y.shape
    assert np.isnan(model.best_score_)
    assert model.n_folds_ == 0
    assert "nan" not in summary_html(model)
    if not given:
        plain = MKLRegressor(BANK).fit(X, Y)  # which has the time to try weaker strengths
        assert (model.l1_ratio_, model.mixing_) == (1.0, 1.0)
        assert any(plain.alpha_ == pytest.approx(share * model.alpha_) for share in (1.0, *SHARES))
        assert model.cv_frame()["alpha"].tolist() == pytest.approx([model.alpha_])


def test_a_search_leaves_to_the_last_fit_what_that_is_predicted_to_take() -> None:
    for last, left in ((0.0, 80.0), (1.0, 80.0), (70.0, 30.0), (1e9, 0.0)):
        with limit_search(100.0, last) as end:
            assert seconds_left() == pytest.approx(left, abs=1.0)
            assert end == pytest.approx(time.perf_counter() + 100.0, abs=1.0)


def test_a_search_that_cannot_score_anything_in_time_takes_the_way_of_a_plain_fit() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1200, 30))
    y = np.sin(rows[:, 0]) + 0.5 * rng.normal(size=1200)
    limit = {"time_limit": 0.5}  # less than a fit on matrices among 1,200 rows is predicted to take
    with pytest.warns(ConvergenceWarning, match="time_limit") as caught:
        model = MKLRegressorCV(resources=limit).fit(rows, y)
    assert any("nothing was scored" in str(one.message) for one in caught)
    assert model.representation_ == FACTORED  # as a plain estimator holds the kernels; a search holds matrices


class SlowScorer:
    """A scorer that takes 90 seconds by a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[int] = []
        clock = time.perf_counter
        monkeypatch.setattr(time, "perf_counter", lambda: clock() + 90.0 * len(self.calls))

    def __call__(self, model: Any, rows: Any, target: Any) -> float:
        self.calls.append(0)
        return float(model.score(rows, target))


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore:The best strength")
@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize(
    ("given", "scored"),
    [({}, "2 candidates"), ({"alphas": [0.1, 0.05, 0.02, 0.01], "penalty": "l1"}, "4 of 4 strengths in 2 folds")],
)
def test_a_search_takes_the_best_of_what_it_had_time_for(
    given: dict[str, Any], scored: str, n_jobs: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four fifths of the time are those of eight scores and a bit."""
    scorer = SlowScorer(monkeypatch)
    model = MKLRegressorCV(BANK, cv=4, scoring=scorer, **given, resources={"time_limit": 1000.0, "n_jobs": n_jobs})
    with pytest.warns(
        ConvergenceWarning, match=rf"The search stopped \(time_limit\): the choice is the best of {scored}"
    ):
        model.fit(X, Y)
    assert 9 <= len(scorer.calls) <= 12
    assert str(model.solution_.status) == "converged"
    assert np.isfinite(model.best_score_)


@pytest.mark.filterwarnings("ignore:The best strength")
def test_the_last_fit_has_what_the_search_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float | None] = []
    solve = WorkingSet.solve

    def watched(self: WorkingSet, *arguments: Any, **more: Any) -> Any:
        seen.append(self.time_limit)
        return solve(self, *arguments, **more)

    monkeypatch.setattr(WorkingSet, "solve", watched)
    scorer = SlowScorer(monkeypatch)
    given: dict[str, Any] = {"alphas": [0.1, 0.01], "penalty": "l1", "solver": "working_set"}
    MKLRegressorCV(BANK, cv=2, scoring=scorer, **given, resources={"time_limit": 1000.0}).fit(X, Y)
    assert len(scorer.calls) == 4
    assert seen[-1] == pytest.approx(1000.0 - 4 * 90.0, abs=60.0)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:The best strength")
def test_time_enough_changes_nothing() -> None:
    for given in GIVEN:
        model = MKLRegressorCV(BANK, cv=2, **given, resources={"time_limit": 600.0}).fit(X, Y)
        np.testing.assert_array_equal(model.dual_coef_, MKLRegressorCV(BANK, cv=2, **given).fit(X, Y).dual_coef_)


def test_a_model_file_leaves_the_callback_out(tmp_path: Path) -> None:
    given: Any = {"resources": {"callback": lambda record: False, "time_limit": 30.0}}
    for model in (
        MKLRegressor(BANK, **given),
        MKLRegressor(BANK, solver=WorkingSet(callback=given["resources"]["callback"])),
    ):
        save_model(model.fit(X, Y), tmp_path / "model.mkl")
        loaded = load_model(tmp_path / "model.mkl")
        assert loaded.resources == (None if model.resources is None else Resources(time_limit=30.0))
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.solver.callback is None


@pytest.mark.parametrize("resources", [{"time_limit": 0.0}, {"time_limit": "soon"}, {"callback": 3}])
def test_what_stops_nothing_is_refused(resources: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(resources))):
        MKLRegressor(BANK, resources=resources).fit(X, Y)
