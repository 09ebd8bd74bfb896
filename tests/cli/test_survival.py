"""Survival on the command line: a table with times and events, its model, predictions and report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from manykernels import MKLSurvival, MKLSurvivalCV, load_model, survival_array

Runner = Callable[..., Any]
FIT = ("--time", "months", "--event", "died")


@pytest.fixture
def study(tmp_path: Path) -> tuple[Path, pd.DataFrame]:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.uniform(-2, 2, (90, 2)), columns=["age", "dose"]).assign(site=np.arange(90) % 9)
    seen, leaves = rng.exponential(np.exp(-1.5 * frame["dose"])), rng.exponential(2.0, 90)
    frame = frame.assign(months=np.minimum(seen, leaves), died=np.where(seen <= leaves, "yes", "no"))
    frame.to_csv(tmp_path / "study.csv", index=False)
    return tmp_path / "study.csv", frame


def test_from_a_table_to_curves_and_a_report(run: Runner, study: tuple[Path, pd.DataFrame], tmp_path: Path) -> None:
    data, frame = study
    file = tmp_path / "m.mkl"
    found = run("fit", data, *FIT, "--drop", "site", "--output", file, "--json").json
    assert (found["task"], found["loss"], found["estimator"]) == ("survival", "cox", "MKLSurvival")
    assert (found["n_samples"], found["n_test"], found["target"], found["event"]) == (72, 18, "months", "died")
    assert found["features"] == ["age", "dose"]
    assert found["scores"]["concordance"] > 0.6
    model = load_model(file)
    assert isinstance(model, MKLSurvival)
    older = frame.assign(age=frame["age"] + 1e-3)  # rows that were fitted are known, and scored apart
    older.to_csv(tmp_path / "new.csv", index=False)
    told = run("predict", file, tmp_path / "new.csv", "--at", 0.5, "--at", 2, "--json").json
    assert list(told["columns"]) == ["risk", "survival_0.5", "survival_2"]
    rows = older[["age", "dose"]]
    np.testing.assert_allclose(told["columns"]["risk"], model.predict(rows), rtol=1e-9)
    np.testing.assert_allclose(told["columns"]["survival_2"], model.predict_survival_function(rows, [2.0])[:, 0])
    y = survival_array(frame["died"] == "yes", frame["months"])
    assert told["scores"]["concordance"] == pytest.approx(model.score(rows, y))
    chunked = run("predict", file, data, "--output", tmp_path / "out.csv", "--chunk-rows", 40)
    assert chunked.code == 0
    fitted = model.predict(frame[["age", "dose"]])
    assert pd.read_csv(tmp_path / "out.csv")["risk"].to_numpy() == pytest.approx(fitted)
    page = run("report", file, data, "--output", tmp_path / "r.html", "--json")
    assert page.json["n_held_out"] == 18
    assert "What became of thirds" in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "survival of 'months'" in run("inspect", file).out
    assert "events in" in run("fit", data, *FIT, "--drop", "site", "--output", file, "--force").out


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:The best strength")
def test_strength_in_folds_of_groups(run: Runner, study: tuple[Path, pd.DataFrame], tmp_path: Path) -> None:
    words = ("--cv", 3, "--groups", "site", "--output", tmp_path / "m.mkl", "--json")
    found = run("fit", study[0], *FIT, *words)
    assert found.code == 0, found.err
    assert isinstance(load_model(tmp_path / "m.mkl"), MKLSurvivalCV)
    assert found.json["n_test"] == 20


def test_events_as_numbers_and_gaps(run: Runner, study: tuple[Path, pd.DataFrame], tmp_path: Path) -> None:
    data, frame = study
    frame["died"] = (frame["died"] == "yes").astype(float)
    frame.loc[3, "died"] = np.nan
    frame.to_csv(data, index=False)
    done = run("fit", data, *FIT, "--output", tmp_path / "m.mkl")
    assert done.code == 0
    assert "1 of 90 rows have no 'months', 'died'" in done.err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 2, "--target COLUMN, or --time COLUMN and --event COLUMN"),
        (("--time", "months"), 2, "--time COLUMN and --event COLUMN"),
        (("--target", "age", *FIT), 2, "--target COLUMN, or"),
        ((*FIT, "--task", "regression"), 2, "leave out --task"),
        (
            ("--time", "months", "--event", "age"),
            1,
            "true or false, yes or no, 1 or 0 (event observed or not); 'age' holds",
        ),
        (("--time", "died", "--event", "months"), 1, "--time must be a column of numbers, but 'died' holds"),
        (("--time", "months", "--event", "months"), 1, "two columns in one"),
        ((*FIT, "--drop", "died"), 1, "cannot be left out"),
        ((*FIT, "--loss", "squared"), 1, "--loss is not for survival"),
        (("--time", "months", "--event", "gone"), 1, "--event"),
        (("--target", "age", "--strata", "site"), 2, "--strata is for survival"),
        ((*FIT, "--strata", "gone"), 1, "--strata"),
        ((*FIT, "--strata", "died"), 1, "two columns in one"),
    ],
)
def test_what_is_no_study_is_refused(
    run: Runner, study: tuple[Path, pd.DataFrame], words: tuple[str, ...], code: int, message: str
) -> None:
    done = run("fit", study[0], *words)
    assert done.code == code
    assert message in " ".join(done.err.replace("│", " ").split())


@pytest.mark.usefixtures("without_pictures")
def test_strata_have_baselines_of_their_own_from_fit_to_report(
    run: Runner, study: tuple[Path, pd.DataFrame], tmp_path: Path
) -> None:
    data, frame = study
    frame["site"] = np.where(frame["site"] % 2, "north", "south")
    frame.to_csv(data, index=False)
    file, words = tmp_path / "m.mkl", (*FIT, "--strata", "site")
    found = run("fit", data, *words, "--output", file, "--json").json
    assert (found["strata"], found["features"]) == ("site", ["age", "dose"])
    model = load_model(file)
    assert isinstance(model, MKLSurvival)
    assert model.baseline_["stratum"].nunique() == 2
    older = frame.assign(age=frame["age"] + 1e-3)
    older.to_csv(tmp_path / "new.csv", index=False)
    told = run("predict", file, tmp_path / "new.csv", "--at", 1, "--json").json
    rows, strata = older[["age", "dose"]], (frame["site"] == "south").to_numpy(dtype=int)
    expected = model.predict_survival_function(rows, [1.0], strata)[:, 0]
    np.testing.assert_allclose(told["columns"]["survival_1"], expected)
    y = survival_array(frame["died"] == "yes", frame["months"], strata)
    assert told["scores"]["concordance"] == pytest.approx(model.score(rows, y))
    run("predict", file, data, "--at", 1, "--output", tmp_path / "out.csv", "--chunk-rows", 40)
    known = model.predict_survival_function(frame[["age", "dose"]], [1.0], strata)[:, 0]
    assert pd.read_csv(tmp_path / "out.csv")["survival_1"].to_numpy() == pytest.approx(known)
    assert "each with a baseline hazard of its own" in report_text(run, file, data, tmp_path)
    frame.drop(columns="site").to_csv(tmp_path / "bare.csv", index=False)
    assert "--at needs the column 'site'" in run("predict", file, tmp_path / "bare.csv", "--at", 1).err
    assert run("predict", file, tmp_path / "bare.csv").code == 0
    frame.assign(site="east").to_csv(tmp_path / "east.csv", index=False)
    assert "strata that were not there in fit" in run("predict", file, tmp_path / "east.csv", "--at", 1).err
    assert "2 strata" in run("fit", data, *words, "--output", file, "--force").out


@pytest.mark.nightly
def test_survival_is_compared_by_concordance(run: Runner, study: tuple[Path, pd.DataFrame]) -> None:
    compared = run("compare", study[0], *FIT, "--strata", "site", "--folds", 2, "--json").json
    assert compared["score"] == "concordance"


def report_text(run: Runner, file: Path, data: Path, folder: Path) -> str:
    assert run("report", file, data, "--output", folder / "r.html").code == 0
    return (folder / "r.html").read_text(encoding="utf-8")


def test_a_path_of_hazards_starts_empty(run: Runner, study: tuple[Path, pd.DataFrame], tmp_path: Path) -> None:
    words = (*FIT, "--strata", "site", "--n-alphas", 5, "--plot", tmp_path / "p.png", "--force", "--json")
    found = run("path", study[0], *words).json
    assert (found["task"], found["path"][0]["n_active"]) == ("survival", 0)
    assert all(row["status"] == "converged" for row in found["path"])
    assert found["path"][-1]["n_active"] > 0
    assert "--loss is not for survival" in run("path", study[0], *FIT, "--loss", "squared").err


@pytest.mark.nightly
def test_a_path_of_hazards_on_factors_begins_where_that_on_matrices_does(
    run: Runner, study: tuple[Path, pd.DataFrame]
) -> None:
    words = (*FIT, "--strata", "site", "--n-alphas", 2, "--json")
    found = run("path", study[0], *words).json
    factored = run("path", study[0], *words, "--kernels", "auto", "--representation", "factored").json
    assert factored["alpha_max"] == pytest.approx(found["alpha_max"], rel=1e-3)


def test_other_commands_say_what_they_are_for(
    run: Runner, study: tuple[Path, pd.DataFrame], model: Path, data: Path
) -> None:
    assert "--at needs a model fitted with --time" in run("predict", model, data, "--at", 1).err
    assert run("plan", study[0], *FIT, "--json").json["n_targets"] == 1
