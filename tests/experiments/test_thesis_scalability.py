"""The scalability test runs from its command, and censors what hits the time limit."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from experiments.ledger import Ledger
from tests.support.programs import run_program

FOLDER = Path(__file__).parents[2] / "experiments" / "thesis"
ON_A_LIST = {"UNIFORM", "AMKL", "LPMKL (p=1)", "LPMKL (p=2)"}


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("scalability")


@pytest.mark.nightly
def test_the_command_grows_samples_and_lists(tmp_path: Path) -> None:
    run_program(FOLDER / "scalability.py", "--quick", "--output", str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {
        *("thesis_greedy_scalability_runs.csv", "tables.md", "scalability.png")
    }
    results = pd.read_csv(tmp_path / "thesis_greedy_scalability_runs.csv")
    assert results["error"].between(0, 60).all()
    assert results["cpu_s"].gt(0).all()
    grown = {axis: set(part["method"]) for axis, part in results.groupby("axis")}
    assert grown["kernels"] == ON_A_LIST < grown["samples"]
    # 50 samples and 50 kernels are on both axes: the same draw, the same error.
    both = results[results["value"] == 50].pivot_table(index="method", columns="axis", values="error").dropna()
    assert set(both.index) == ON_A_LIST
    pd.testing.assert_series_equal(both["kernels"], both["samples"], check_names=False)


def test_what_is_cut_short_is_not_run_on_more(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[tuple[Any, int, int]] = []

    def measure(method: Any, data: Any, sizes: Any) -> dict[str, Any]:
        seen.append((method, sizes.n_train, sizes.n_listed))
        cut = method is program.METHODS["CKL (nD)"] and sizes.n_train == 50
        return {"error": 1.0, "cpu_s": 1.0, "cut": cut}

    monkeypatch.setattr(program, "measure", measure)
    grids, arguments = ((25, 50, 100), (50, 100)), SimpleNamespace(repeats=2, minutes=1.0)
    ledger = Ledger(tmp_path / program.RUNS, program.KEYS, program.MEASURED)
    program.run(ledger, program.QUICK, grids, arguments)
    rows = ledger.frame()
    assert rows[rows["method"] == "CKL (nD)"]["value"].tolist() == [25, 50, 25, 50]
    assert rows[(rows["method"] == "CKL (1D)")]["value"].tolist() == [25, 50, 100] * 2
    assert (program.METHODS["AMKL"], 50, 100) in seen
    runs = len(seen)
    program.run(Ledger(tmp_path / program.RUNS, program.KEYS, program.MEASURED), program.QUICK, grids, arguments)
    assert len(seen) == runs
    summary = program.summarize(rows)
    assert summary[summary["cut"]][["method", "value", "draws"]].to_numpy().tolist() == [["CKL (nD)", 50, 2]]


@pytest.mark.parametrize(("name", "cut"), [("CKL (1D)", True), ("GCD-2s (1D)", True), ("AMKL", False)])
def test_a_search_tells_that_it_ran_out_of_time(program: ModuleType, name: str, cut: bool) -> None:
    sizes = replace(program.QUICK, n_train=20, seconds=1e-9)
    data = program.draw(40, 0, sizes)
    learned = program.METHODS[name](data, sizes)
    assert learned.cut is cut
    assert learned.seconds > 0
    assert not program.METHODS[name](data, replace(sizes, seconds=60.0)).cut
