"""How SGD-1s weighs the widths it draws: the command, the spread of weights, and densities of logarithms."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from tests.support.programs import run_program

from manykernels import Gaussian
from manykernels.discovery import ArdGaussianFamily, FamilySearch
from manykernels.discovery.one_stage import discovery

FOLDER = Path(__file__).parents[2] / "experiments" / "thesis"


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("sampled_widths")


def test_the_command_compares_ways_to_weigh_draws(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 3))
    np.savez(tmp_path / "thyroid_ida.npz", X=X, y=(X[:, 0] ** 2 + X[:, 1] > 0.7).astype(int))
    run_program(FOLDER / "sampled_widths.py", "--quick", "--data", str(tmp_path), "--output", str(tmp_path / "out"))
    runs = pd.read_csv(tmp_path / "out" / "thesis_sampled_widths_runs.csv").set_index("method")
    assert len(runs) == 7
    assert runs["squared"].between(0, 2).all()
    assert runs["share"].between(0, 1).all()
    assert runs["effective"].between(1, 2).all()
    # Two draws are all that --quick makes of a hundred.
    assert runs.loc["100 draws", "squared"] == runs.loc["2 draws", "squared"]


def test_the_share_of_a_weight_is_that_of_the_chosen_model(program: ModuleType) -> None:
    tasks, learners = importlib.import_module("_tasks"), importlib.import_module("_learners")
    X, y = np.array([[0.0], [1.0]]), np.array([-1.0, 1.0])

    class Fixed:
        def models(self, *_: object) -> list[object]:
            good = learners.Model([Gaussian(1.0)] * 2, np.array([3.0, 1.0]), np.array([-1.0, 1.0]), 0.0)
            return [learners.Model([Gaussian(1.0)], np.ones(1), np.array([1.0, -1.0]), 0.0), good]

    measured = program.measure(Fixed(), tasks.Task((X, y), (X, y), (X, y)), (1.0,), 2)
    assert measured["share"] == 0.75
    assert measured["effective"] == pytest.approx(1 / (0.75**2 + 0.25**2))
    assert measured["misclassified"] == 0


def test_densities_of_logarithms_are_those_of_widths_times_the_widths(program: ModuleType) -> None:
    rng = np.random.default_rng(0)
    points, vector = rng.normal(size=(20, 3)), rng.normal(size=20)
    search = FamilySearch(ArdGaussianFamily(0.1, 10.0), points)
    plain = discovery.draw_widths(search, vector, np.random.default_rng(1))
    logged = program.logarithmic(search, vector, np.random.default_rng(1))
    np.testing.assert_array_equal(logged.parameter, plain.parameter)
    assert logged.log_density == pytest.approx(plain.log_density + np.log(np.prod(plain.parameter)))
