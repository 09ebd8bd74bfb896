"""``predict`` and ``report`` of a table with repeated rows: the rows that the fit held out, or no score."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

Runner = Callable[..., Any]


def few_values(n: int, seed: int) -> pd.DataFrame:
    """Return rows of two columns with three values each, and a target that follows them in three of four rows."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.integers(0, 3, size=(n, 2)), columns=["a", "b"])
    return table.assign(ill=np.where((table["a"] > 0) == (rng.random(n) < 0.75), "yes", "no"))


@pytest.fixture
def fit(run: Runner, tmp_path: Path) -> Any:
    """Return what the fit reports on its held-out rows; the table is table.csv, the model m.mkl."""
    few_values(400, 0).to_csv(tmp_path / "table.csv", index=False)
    done = run("fit", tmp_path / "table.csv", "--target", "ill", "-o", tmp_path / "m.mkl", "--json")
    assert done.code == 0, done.err
    return done.json


@pytest.mark.usefixtures("without_pictures")
def test_the_table_of_the_fit_has_the_score_of_the_fit(run: Runner, fit: Any, tmp_path: Path) -> None:
    table = few_values(400, 0)
    table.sample(frac=1.0, random_state=1).to_csv(tmp_path / "shuffled.csv", index=False)
    table.astype({"a": "float32", "b": "Int64"}).to_parquet(tmp_path / "typed.parquet")
    for name in ("table.csv", "shuffled.csv", "typed.parquet"):
        found = run("predict", tmp_path / "m.mkl", tmp_path / name, "--json").json
        for score, value in found["scores"].items():
            assert value == pytest.approx(fit["scores"][score], abs=1e-12), (name, score)
        page = run("report", tmp_path / "m.mkl", tmp_path / name, "-o", tmp_path / "r.html", "--force", "--json").json
        assert page["n_held_out"] == 80


def test_new_rows_beside_those_of_the_fit_are_scored(run: Runner, fit: Any, tmp_path: Path) -> None:
    pd.concat([few_values(400, 0), few_values(100, 1)]).to_csv(tmp_path / "more.csv", index=False)
    found = run("predict", tmp_path / "m.mkl", tmp_path / "more.csv", "--json").json
    own = run("predict", tmp_path / "m.mkl", tmp_path / "table.csv", "--json").json
    assert found["fitted_scores"]["accuracy"] == pytest.approx(own["fitted_scores"]["accuracy"])
    assert abs(found["scores"]["accuracy"] - fit["scores"]["accuracy"]) < 0.15


@pytest.mark.usefixtures("without_pictures")
def test_a_new_table_of_few_values_is_scored_on_request_only(run: Runner, fit: Any, tmp_path: Path) -> None:
    few_values(100, 1).to_csv(tmp_path / "new.csv", index=False)
    words = (tmp_path / "m.mkl", tmp_path / "new.csv")
    doubtful = run("predict", *words, "--json").json
    assert doubtful["scores"] is None
    assert "No scores: 100% of the rows of the fit have an equal one" in doubtful["notes"][-1]
    scored = run("predict", *words, "--new-rows", "--json").json
    assert scored["scores"]["accuracy"] == pytest.approx(fit["scores"]["accuracy"], abs=0.15)
    refused = run("report", *words, "-o", tmp_path / "r.html")
    assert refused.code == 1
    assert "--new-rows" in refused.err
    page = run("report", *words, "-o", tmp_path / "r.html", "--new-rows", "--json").json
    assert page["n_held_out"] == 100


def test_rows_without_a_column_of_the_fit_are_not_scored(run: Runner, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(80, 2)), columns=["a", "noise"])
    table.assign(y=table["a"]).to_csv(tmp_path / "table.csv", index=False)
    words = ("--target", "y", "-o", tmp_path / "m.mkl", "--alpha", "0.5*max")
    assert run("fit", tmp_path / "table.csv", *words).code == 0
    table.assign(y=table["a"]).drop(columns="noise").to_csv(tmp_path / "less.csv", index=False)
    found = run("predict", tmp_path / "m.mkl", tmp_path / "less.csv", "--json").json
    assert found["scores"] is None
    assert "lacks 'noise', so that its rows cannot be compared with those of the fit" in found["notes"][-1]


def test_rows_without_a_target_are_left_out_of_the_scores_as_by_the_fit(run: Runner, tmp_path: Path) -> None:
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(80, 2)), columns=["a", "b"])
    table.assign(y=table["a"].where(table.index > 3)).to_csv(tmp_path / "table.csv", index=False)
    fit = run("fit", tmp_path / "table.csv", "--target", "y", "-o", tmp_path / "m.mkl", "--json").json
    found = run("predict", tmp_path / "m.mkl", tmp_path / "table.csv", "--json").json
    assert found["scores"]["rmse"] == pytest.approx(fit["scores"]["rmse"])
    assert len(found["columns"]["prediction"]) == 80
