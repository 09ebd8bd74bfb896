"""Each paper's method beside what to take today: it runs, goes on where it stopped, tells what it ran."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.support.programs import run_program

SCRIPT = Path(__file__).parents[2] / "experiments" / "beyond" / "run.py"


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("beyond")
    assert run_program(SCRIPT, "--quick", "--output", str(folder))[1] == []
    return folder


@pytest.mark.nightly
def test_every_method_predicts_the_rows_that_are_left(output: Path) -> None:
    runs = pd.read_csv(output / "beyond_runs.csv")
    assert runs.groupby(["paper", "set"])["method"].nunique().tolist() == [4, 4]
    assert (runs.loc[runs["set"] == "pima", "error"] < 0.5).all()  # half of the labels are drawn +1
    learned = runs[runs["method"] != "one tuned kernel"]
    assert (learned["gap"] <= 1e-2).all()
    assert runs.loc[runs["method"] == "one tuned kernel", "gap"].isna().all()


@pytest.mark.nightly
def test_the_solvers_of_one_problem_agree(output: Path) -> None:
    runs = pd.read_csv(output / "beyond_runs.csv").pivot_table(index="set", columns="method", values="error")
    np.testing.assert_allclose(runs["the paper's"], runs["its task, our defaults"], rtol=0.05)


@pytest.mark.nightly
def test_what_was_computed_is_not_computed_again(output: Path) -> None:
    before = (output / "beyond_runs.csv").read_text()
    printed, _ = run_program(SCRIPT, "--quick", "--report", "--output", str(output))
    run_program(SCRIPT, "--quick", "--output", str(output))
    assert (output / "beyond_runs.csv").read_text() == before
    assert printed.strip() == (output / "tables.md").read_text().strip()
