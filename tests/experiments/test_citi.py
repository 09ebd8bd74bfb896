"""The Citi experiment runs from its command, and its tables say what the page says about them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.support.programs import run_program

SCRIPT = Path(__file__).parents[2] / "experiments" / "citi" / "run.py"
RUNS = {name: f"citi_{name}_runs.csv" for name in ("updates", "bounds", "solvers", "accuracy")}


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the quick variant on two small sets in which one column of five decides."""
    folder = tmp_path_factory.mktemp("citi")
    rng = np.random.default_rng(0)
    for name in ("ionosphere", "sonar"):
        X = rng.normal(size=(110, 5))
        y = np.where(np.sin(2 * X[:, 1]) + 0.2 * rng.normal(size=110) > 0, 1, -1)
        np.savez(folder / f"{name}.npz", X=np.column_stack([X, np.zeros(110)]), y=y)
    assert run_program(SCRIPT, "--data", str(folder), "--quick", "--output", str(folder / "out"))[1] == []
    return folder / "out"


def test_every_table_and_figure_is_written(output: Path) -> None:
    figures = {"updates.png", "bounds.png", "accuracy.png"}
    assert {path.name for path in output.iterdir()} == {*RUNS.values(), "iterations.csv", "tables.md"} | figures


def test_updates_descend_and_each_rule_wins_where_the_paper_says(output: Path) -> None:
    table = pd.read_csv(output / RUNS["updates"])
    assert (table["increases"] == 0).all()
    mean = table.pivot_table(index="eta", columns="rule", values="updates")
    assert mean.loc[1.0, "(13a)"] == 1
    assert mean.loc[0.0, "(21)"] == 1
    assert (mean.loc[[0.5, 1.0], "(13a)"] < mean.loc[[0.5, 1.0], "(21)"]).all()
    assert (table.loc[table["rule"] == "(13a)", "premature"] == 0).all()


def test_the_certificate_brackets_the_optimum_at_every_iteration(output: Path) -> None:
    run = pd.read_csv(output / "iterations.csv")
    assert (run["lower"] <= run["optimum"] * (1 + 1e-9)).all()
    assert (run["upper"] >= run["optimum_at_least"] * (1 - 1e-7)).all()
    checks = pd.read_csv(output / RUNS["bounds"])
    assert (checks["optimum_certified_to"] < 2e-8).all()
    assert (checks["upper_rises"] < 1e-7).all()
    assert len(run) > len(checks)


def test_every_program_reaches_the_gap(output: Path) -> None:
    table = pd.read_csv(output / RUNS["solvers"])
    assert table["gap"].max() <= 1e-2
    assert {"working_set", "conic"} <= set(table.loc[table["eta"] == 1, "program"])
    assert set(table.loc[table["eta"] < 1, "program"]) == {"Algorithm 1, LIBSVM", "citi, Algorithm 2, plain", "citi"}


def test_larger_eta_is_sparser(output: Path) -> None:
    table = pd.read_csv(output / RUNS["accuracy"])
    assert (table["gap"] <= 1e-3).all()
    active = table[table["eta"] != "uniform"].astype({"eta": float}).pivot_table(index="eta", values="active")
    assert active["active"].is_monotonic_decreasing
    assert active["active"].iloc[0] == table["n_kernels"].iloc[0]


def test_accuracy_is_of_held_out_samples(output: Path) -> None:
    runs = pd.read_csv(output / RUNS["accuracy"])
    assert runs.groupby(["data", "eta"])["accuracy"].mean().between(70, 100).all()
    assert set(runs["n_train"]) == {60}
