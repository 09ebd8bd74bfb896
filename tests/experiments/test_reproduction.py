"""Every program of the experiments is in the list of commands, with options that it has."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
from experiments.ledger import NUMERIC_REVISION
from experiments.reproduction import OPTIONS, commands, take_over
from tests.support.programs import EXPERIMENTS


def test_every_program_is_run() -> None:
    programs = {f"{path.parent.name}/{path.name}" for path in EXPERIMENTS.glob("*/[a-z]*.py")}
    assert set(OPTIONS) == programs


@pytest.mark.parametrize("name", OPTIONS)
def test_options_are_those_of_the_program(name: str) -> None:
    source = (EXPERIMENTS / name).read_text()
    assert [option for option in re.findall(r"--[\w-]+", OPTIONS[name]) if f'"{option}"' not in source] == []


def test_each_program_has_data_and_a_folder_of_its_own() -> None:
    made = commands("data of mine", "out")
    assert made[0] == "experiments/beyond/run.py --data 'data of mine' --output out/beyond/run --repeats 10"
    assert len({re.findall(r"--output (\S+)", command)[0] for command in made}) == len(OPTIONS)


def test_kept_runs_of_the_current_revision_are_taken_over_once(tmp_path: Path) -> None:
    pages, output = tmp_path / "pages", tmp_path / "output"
    pages.mkdir()
    runs = pd.DataFrame({"data": ["liver", "wpbc", "sonar"], "cpu_s": [1.0, 2.0, 20.0], "revision": ["e1", "12", "12"]})
    runs["status"] = ["converged", "converged", "time_limit"]
    runs.assign(numeric=[NUMERIC_REVISION - 1, NUMERIC_REVISION, NUMERIC_REVISION]).to_csv(
        pages / "spicymkl_runs.csv", index=False
    )
    runs.to_csv(pages / "beyond_runs.csv", index=False)  # of revision 1: no column for it
    assert take_over(output, [tmp_path / "unfinished", pages]) == {"spicymkl_runs.csv": 1}
    taken = pd.read_csv(output / "spicymkl" / "table4" / "spicymkl_runs.csv", dtype={"revision": str})
    assert taken[["data", "revision"]].values.tolist() == [["wpbc", "12"]]
    assert take_over(output, [pages]) == {}  # what a program has written since stays
