"""The experiment of the support kernel machine runs from its command, and its tables say what the page says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.support.programs import run_program

SCRIPT = Path(__file__).parents[2] / "experiments" / "skm" / "run.py"
PROGRAMS = {"skm", "pairs alone", "as published", "conic", "interior point"}


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the quick variant on two small sets; one has a missing value, as the original has."""
    folder = tmp_path_factory.mktemp("skm")
    rng = np.random.default_rng(0)
    for name in ("ionosphere", "breast_cancer_wisconsin"):
        X = rng.normal(size=(90, 4))
        y = np.where(X[:, 0] ** 2 + X[:, 1] + 0.3 * rng.normal(size=90) > 0.8, 1, -1)
        X[3, 2] = np.nan if name != "ionosphere" else 0.0
        np.savez(folder / f"{name}.npz", X=X, y=y)
    assert run_program(SCRIPT, "--data", str(folder), "--quick", "--output", str(folder / "out"))[1] == []
    return folder / "out"


def test_every_table_and_figure_is_written(output: Path) -> None:
    tables = {"stages", "support", "scaling", "exponents"}
    figures = {"stages.png", "scaling.png"}
    assert {path.name for path in output.iterdir()} == {f"{name}.csv" for name in tables} | figures | {"results.json"}
    assert set(json.loads((output / "results.json").read_text())["tables"]) == tables


def test_rescaled_stages_pass_the_test_of_optimality_and_need_a_larger_kappa(output: Path) -> None:
    stages = pd.read_csv(output / "stages.csv")
    ways = dict(list(stages.groupby("variant")))
    rescaled, published = ways["C (1 - kappa)^2"], ways["as published"]
    assert rescaled["optimal"].iloc[-1]
    assert not published["optimal"].iloc[:-1].any()
    both = rescaled.merge(published, on="kappa")
    small = both[both["kappa"] <= 0.125]
    assert len(small) >= 2
    assert (small["eps2_x"] < 0.2 * small["eps2_y"]).all()


def test_the_epsilons_bound_the_gap(output: Path) -> None:
    stages = pd.read_csv(output / "stages.csv")
    assert (stages["gap"] <= stages["bound"] * (1 + 1e-9)).all()


def test_all_programs_find_the_same_optimum_with_few_kernels(output: Path) -> None:
    support = pd.read_csv(output / "support.csv")
    assert support["gap"].max() <= 1e-4
    assert np.ptp(support["objective"]) <= 1e-4 * support["objective"].max()
    assert (support["active"] < support["kernels"]).all()
    assert support.set_index("program")["active"].loc["skm, sparsified"] <= support["active"].iloc[0]


def test_every_program_runs_every_sweep_until_its_first_censored_point(output: Path) -> None:
    runs = pd.read_csv(output / "scaling.csv")
    assert set(runs["data"]) == {"ionosphere", "breast cancer"}
    for _, part in runs.groupby(["data", "sweep", "program"]):
        assert (part["status"].iloc[:-1] == "converged").all()
        assert part["size"].is_monotonic_increasing
    done = runs[runs["status"] == "converged"]
    assert done["gap"].max() <= 1e-2
    assert set(done["program"]) == PROGRAMS


def test_exponents_are_those_of_the_runs(output: Path) -> None:
    runs, fits = pd.read_csv(output / "scaling.csv"), pd.read_csv(output / "exponents.csv")
    fit = fits[fits["program"] == "skm"].iloc[0]
    own = runs[(runs["program"] == "skm") & (runs["data"] == fit["data"]) & (runs["sweep"] == fit["sweep"])]
    assert len(own) == 2
    (small, large), (fast, slow) = own["size"], own["cpu_s"]
    assert fit["exponent"] == pytest.approx(np.log(slow / fast) / np.log(large / small))
