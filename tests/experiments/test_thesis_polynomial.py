"""The polynomial experiments of the thesis run from their command, and their tables say what the page says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

SCRIPT = Path(__file__).parents[2] / "experiments" / "thesis" / "polynomial.py"


def test_the_command_runs_on_a_set_of_the_same_shape(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 6))
    np.savez(tmp_path / "ringnorm.npz", X=X, y=np.where(X[:, 0] * X[:, 1] > 0, 1, -1))
    command = [sys.executable, str(SCRIPT), "--quick", "--data", str(tmp_path), "--output", str(tmp_path / "out")]
    environment = {**os.environ, "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"convergence.csv", "convergence.png", "synthetic.csv", "synthetic.png"}
    race = pd.read_csv(tmp_path / "out" / "convergence.csv")
    best = race.groupby("method")["objective"].min()
    first = race.groupby("method")["objective"].first()
    assert set(best.index) == {"SGD-1s", "UCD", "LPMKL, features", "LPMKL, matrices"}
    others = best.index != "LPMKL, matrices"  # whose matrices may take all of the time
    assert (best[others] < first[others]).all()
    np.testing.assert_allclose(first["LPMKL, features"], first["LPMKL, matrices"], rtol=1e-6)
    table = pd.read_csv(tmp_path / "out" / "synthetic.csv").set_index(["r", "method"])
    assert table.index.get_level_values("r").unique().to_list() == [5, 8]
    # A model of ten monomials is found by a sparse search, and not by a uniform sum of all products.
    assert table.loc[(8, "p = 1.1, polished"), "mse"] < table.loc[(8, "UNIFORM"), "mse"]
    assert table.loc[(8, "SGD-1s, polished"), "gap"] < table.loc[(8, "SGD-1s"), "gap"]
