"""Tables in files, and a way to run commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import copy
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from manykernels.cli import app


@dataclass(frozen=True)
class Run:
    """What a command left behind.

    Attributes
    ----------
    code : int
    out, err : str
    """

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The JSON object on stdout, which must hold nothing else."""
        return json.loads(self.out)


@cache
def command(app: Any) -> Any:
    """Return the commands of the program, made once: the runner reads the signatures of all for each that it runs."""
    return get_command(app)


def run_command(*words: object) -> Run:
    """Run a command in this process."""
    with patch("typer.testing._get_command", command):
        found = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return Run(found.exit_code, found.stdout, found.stderr)


@pytest.fixture
def run() -> Callable[..., Run]:
    """Return the function that runs a command."""
    return run_command


def drawn() -> pd.DataFrame:
    """Return 60 rows: an id, three numbers, two classes as text and a quantity."""
    values = np.random.default_rng(1).normal(size=(60, 3))
    frame = pd.DataFrame(values, columns=["age", "bmi", "blood pressure"])
    frame.insert(0, "patient", [f"p{i:03d}" for i in range(60)])
    frame["ill"] = np.where(values[:, 0] ** 2 + values[:, 1] > 1, "yes", "no")
    return frame.assign(cost=1000.0 * np.sin(values[:, 1]) + 5000.0)


@pytest.fixture
def table() -> pd.DataFrame:
    """Return that table."""
    return drawn()


@pytest.fixture
def data(table: pd.DataFrame, tmp_path: Path) -> Path:
    """Return that table in a CSV file."""
    table.to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a classifier of that table, which is fitted once for all tests."""
    folder = tmp_path_factory.mktemp("fitted")
    drawn().to_csv(folder / "data.csv", index=False)
    words = ("--target", "ill", "--id", "patient", "--drop", "cost", "--output", folder / "model.mkl")
    found = run_command("fit", folder / "data.csv", *words)
    assert found.code == 0, found.err
    return folder / "model.mkl"


@pytest.fixture
def model(fitted: Path, tmp_path: Path) -> Path:
    """Return a copy of that file."""
    return Path(copy(fitted, tmp_path / "model.mkl"))
