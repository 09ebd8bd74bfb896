"""Every program of the experiments is in the list of commands, with options that it has."""

from __future__ import annotations

import re

import pytest
from experiments.reproduction import OPTIONS, commands
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
