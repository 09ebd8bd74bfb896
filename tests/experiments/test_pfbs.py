"""The PFBS experiment runs from its command and its tables say what the page says about them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from tests.support.programs import run_program

SCRIPT = Path(__file__).parents[2] / "experiments" / "pfbs" / "run.py"


def test_the_command_runs_on_a_set_of_the_same_shape(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (160, 8))
    np.savez(tmp_path / "concrete.npz", X=X, y=30 + 5 * np.sin(2 * X[:, 1]) + 3 * X[:, 2] + rng.normal(size=160))
    run_program(SCRIPT, "--data", str(tmp_path), "--quick", "--output", str(tmp_path / "out"))
    report = json.loads((tmp_path / "out" / "results.json").read_text())
    for row in report["optima"]:
        assert max(row["difference_working_set"], row["difference_spicymkl"]) < 1e-6
    multiple, _, single = (row["rmse_mean"] for row in report["summary"])
    assert multiple < single
    assert report["step_sizes"]["n_kernels"] == 60
    assert report["step_sizes"]["sigma_safe"] > report["step_sizes"]["sigma_paper"]
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"results.json", "repeats.csv", "path.csv", "optima.csv", "path.png", "variants.png"}
