"""The comparison of 6.2.2 and 6.3 on real data runs from its command; its parts against plain NumPy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

FOLDER = Path(__file__).parents[2] / "experiments" / "thesis"


def write_sets(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for name, p in (("heart_statlog", 4), ("thyroid_ida", 3)):
        X = rng.normal(size=(160, p))
        X[0, 0] = np.nan
        np.savez(folder / f"{name}.npz", X=X, y=(np.nan_to_num(X[:, 0]) ** 2 + X[:, 1] > 0.7).astype(int))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("real_data")
    write_sets(folder)
    output = folder / "out"
    command = [sys.executable, str(FOLDER / "real_data.py"), "--quick", "--data", str(folder), "--output", str(output)]
    environment = {**os.environ, "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return output, json.loads((output / "results.json").read_text())


def test_every_method_has_an_error_on_every_set(report: tuple[Path, dict[str, Any]]) -> None:
    output, _ = report
    results = pd.read_csv(output / "results.csv")
    assert results.groupby("experiment").size().to_dict() == {"6.2.2": 16, "6.3": 12}
    assert results.loc[results["experiment"] == "6.2.2", "error"].between(0, 0.6).all()
    assert results["error"].notna().all()
    # Labels are -1 and +1: the constant zero has a squared error of 1.
    assert results.loc[results["experiment"] == "6.3", "error"].median() < 1


def test_median_ranks_are_those_of_the_mean_errors(report: tuple[Path, dict[str, Any]]) -> None:
    output, told = report
    for experiment in ("6.2.2", "6.3"):
        errors = pd.read_csv(output / f"errors_{experiment}.csv", index_col="set")
        for row in told[experiment]:
            own = errors[row["method"]].to_numpy()[:, None]
            better, equal = (errors.to_numpy() < own).sum(axis=1), (errors.to_numpy() == own).sum(axis=1)
            places = better + (equal + 1) / 2
            assert row["median_rank"] == pytest.approx(np.median(places))


def test_the_objective_of_the_first_iteration_is_the_alignment_with_the_target(
    report: tuple[Path, dict[str, Any]],
) -> None:
    output, told = report
    curves = pd.read_csv(output / "widths.csv")
    first = curves[(curves["iteration"] == 1) & (curves["set"] == "heart")]
    assert first["h"].min() == pytest.approx(-1.0)
    assert told["most_minima"] >= 1
    with np.load(output.parent / "heart_statlog.npz") as archive:
        X, y = archive["X"][1:], np.where(archive["y"][1:] == 1, 1.0, -1.0)
    train = np.random.default_rng(0).permutation(len(y))[:40]
    Z = (X[train] - X[train].mean(axis=0)) / X[train].std(axis=0)
    distances = ((Z[:, None] - Z) ** 2).sum(axis=-1)
    centered = y[train] - y[train].mean()
    values = np.array([-centered @ np.exp(-distances / (2 * w**2)) @ centered for w in first["width"]])
    np.testing.assert_allclose(first["h"], values / np.abs(values).max(), atol=1e-10)
