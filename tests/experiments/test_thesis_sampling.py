"""The sampling study of the thesis: its methods against their definitions, and the command that draws the figure."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from tests.support.programs import run_program

FOLDER = Path(__file__).parents[2] / "experiments" / "thesis"


@pytest.fixture(scope="module")
def methods() -> ModuleType:
    name = "thesis_coordinate_descent"
    spec = importlib.util.spec_from_file_location(name, FOLDER / "_coordinate_descent.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_a_full_step_ends_the_work_on_a_coordinate(methods: ModuleType) -> None:
    problem = methods.Quadratic(np.array([1.0, 0.5, 0.25]), np.array([1.0, 2.0, 4.0]))
    found = methods.greedy(problem, 3, 1, np.random.default_rng(0))
    parts = np.array([1.0, 0.5, 0.25])  # L_i c_i^2
    np.testing.assert_allclose(found.values, [1, 0.75 / parts.sum(), 0.25 / parts.sum(), 0], atol=1e-15)


@pytest.mark.parametrize("name", ["uniform", "rcdm", "racdm", "gradient_sampling_full_step", "greedy"])
def test_methods_of_full_steps_descend(methods: ModuleType, name: str) -> None:
    problem = methods.Quadratic(0.9 ** np.arange(1, 51), np.geomspace(0.1, 1, 50))
    found = getattr(methods, name)(problem, 400, 1, np.random.default_rng(0))
    assert (np.diff(found.values) <= 1e-15).all()
    assert found.values[-1] < 1e-2


def test_rcdm_draws_in_proportion_to_the_curvature(methods: ModuleType) -> None:
    lipschitz = np.array([1.0, 1e-9])
    problem = methods.Quadratic(np.array([0.0, 1.0]), lipschitz)
    assert methods.rcdm(problem, 100, 1, np.random.default_rng(0)).distinct == 1
    assert methods.uniform(problem, 100, 1, np.random.default_rng(0)).distinct == 2


def test_one_step_of_gradient_sampling_is_the_weighted_derivative_drawn_by_size(methods: ModuleType) -> None:
    c = np.array([3.0, 1.0, -0.5])
    problem = methods.Quadratic(c, np.ones(3))
    runs = [methods.gradient_sampling(problem, 1, 1, np.random.default_rng(seed)) for seed in range(3000)]
    ends = np.array([run.values[1] for run in runs])
    # With T = 1 the step is ||g||_1 sign(g_i), at coordinate i with probability |g_i| / ||g||_1.
    after = [np.sum((np.abs(c) - 4.5 * row) ** 2) / np.sum(c**2) for row in np.eye(3)]
    for value, share in zip(after, np.abs(c) / 4.5, strict=True):
        assert np.mean(np.isclose(ends, value)) == pytest.approx(share, abs=0.04)


def test_gradient_sampling_touches_what_matters(methods: ModuleType) -> None:
    problem = methods.Quadratic(0.9 ** np.arange(1, 401), np.ones(400))
    rng = np.random.default_rng
    sampled, drawn = (
        getattr(methods, name)(problem, 300, 10, rng(1)) for name in ("gradient_sampling_full_step", "uniform")
    )
    assert sampled.values[-1] < 1e-4 * drawn.values[-1]
    assert sampled.derivatives == 300


@pytest.mark.nightly
def test_the_command_runs(tmp_path: Path) -> None:
    run_program(FOLDER / "sampling.py", "--quick", "--output", str(tmp_path))
    runs = pd.read_csv(tmp_path / "thesis_sampling_runs.csv")
    reached = runs.groupby(["problem", "method"])["after_5_percent"].median()
    assert reached["(6.1)", "GRAD.SAMP."] < 0.5 * reached["(6.1)", "UCD"]
    assert {path.name for path in tmp_path.iterdir()} == {
        *("thesis_sampling_runs.csv", "tables.md", "curves.csv", "sampling.png")
    }
