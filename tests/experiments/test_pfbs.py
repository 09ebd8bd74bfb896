"""The PFBS experiment runs from its command and its tables say what the page says about them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.support.programs import run_program

SCRIPT = Path(__file__).parents[2] / "experiments" / "pfbs" / "run.py"
TABLES = ("repeats", "optima", "steps", "variants")


@pytest.mark.nightly
def test_the_command_runs_on_a_set_of_the_same_shape(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (160, 8))
    np.savez(tmp_path / "concrete.npz", X=X, y=30 + 5 * np.sin(2 * X[:, 1]) + 3 * X[:, 2] + rng.normal(size=160))
    run_program(SCRIPT, "--data", str(tmp_path), "--quick", "--output", str(tmp_path / "out"))
    runs = {name: pd.read_csv(tmp_path / "out" / f"pfbs_{name}_runs.csv") for name in TABLES}
    assert (runs["optima"][["difference_working_set", "difference_spicymkl"]] < 1e-6).all(axis=None)
    errors = runs["repeats"].groupby("selection")["rmse"].mean()
    assert errors["hold-out"] < errors["kernel ridge, one Gaussian"]
    assert set(runs["steps"]["n_kernels"]) == {60}
    sigma = runs["steps"].set_index("rule")["sigma"]
    assert sigma["safe"] > sigma["paper"]
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {*(f"pfbs_{name}_runs.csv" for name in TABLES), "tables.md", "path.png", "variants.png"}
