"""The experiment of the support kernel machine runs from its command, and its tables say what the page says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.support.openml import stub_openml
from tests.support.programs import own_modules, run_program

SCRIPT = Path(__file__).parents[2] / "experiments" / "skm" / "run.py"
RUNS = {name: f"skm_{name}_runs.csv" for name in ("stages", "support", "scaling")}
ADULT = {"adult", "adult, jittered", "adult, labels by a linear rule", "breast cancer, noisy labels"}
PROGRAMS = {"skm", "pairs alone", "as published", "conic", "interior point"}


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the quick variant on two small sets; one has a missing value, as the original has."""
    folder = tmp_path_factory.mktemp("skm")
    rng = np.random.default_rng(0)
    for name in ("ionosphere", "breast_cancer_wisconsin", "adult_a9a"):
        X = rng.normal(size=(90, 4))
        y = np.where(X[:, 0] ** 2 + X[:, 1] + 0.3 * rng.normal(size=90) > 0.8, 1, -1)
        X[3, 2] = np.nan if name != "ionosphere" else 0.0
        np.savez(folder / f"{name}.npz", X=X, y=y)
    assert run_program(SCRIPT, "--data", str(folder), "--quick", "--output", str(folder / "out"))[1] == []
    return folder / "out"


@pytest.mark.nightly
def test_every_table_and_figure_is_written(output: Path) -> None:
    figures = {"stages.png", "scaling.png"}
    assert {path.name for path in output.iterdir()} == {*RUNS.values(), "tables.md"} | figures


@pytest.mark.nightly
def test_rescaled_stages_pass_the_test_of_optimality_and_need_a_larger_kappa(output: Path) -> None:
    stages = pd.read_csv(output / RUNS["stages"])
    ways = dict(list(stages.groupby("variant")))
    rescaled, published = ways["C (1 - kappa)^2"], ways["as published"]
    assert rescaled["optimal"].iloc[-1]
    assert not published["optimal"].iloc[:-1].any()
    both = rescaled.merge(published, on="kappa")
    small = both[both["kappa"] <= 0.125]
    assert len(small) >= 2
    assert (small["eps2_x"] < 0.2 * small["eps2_y"]).all()


@pytest.mark.nightly
def test_the_epsilons_bound_the_gap(output: Path) -> None:
    stages = pd.read_csv(output / RUNS["stages"])
    assert (stages["gap"] <= stages["bound"] * (1 + 1e-9)).all()


@pytest.mark.nightly
def test_all_programs_find_the_same_optimum_with_few_kernels(output: Path) -> None:
    support = pd.read_csv(output / RUNS["support"])
    assert support["gap"].max() <= 1e-4
    assert np.ptp(support["objective"]) <= 1e-4 * support["objective"].max()
    assert (support["active"] < support["kernels"]).all()
    assert support.set_index("program")["active"].loc["skm, sparsified"] <= support["active"].iloc[0]


@pytest.mark.nightly
def test_every_program_runs_every_sweep_until_its_first_censored_point(output: Path) -> None:
    runs = pd.read_csv(output / RUNS["scaling"])
    assert set(runs["data"]) == {"ionosphere", "breast cancer", *ADULT}
    for _, part in runs.groupby(["data", "sweep", "program"]):
        assert (part["status"].iloc[:-1] == "converged").all()
        assert part["size"].is_monotonic_increasing
    done = runs[runs["status"] == "converged"]
    assert done["gap"].max() <= 1e-2
    assert set(done["program"]) == PROGRAMS


@pytest.mark.nightly
def test_exponents_are_those_of_the_runs(output: Path) -> None:
    runs, page = pd.read_csv(output / RUNS["scaling"]), (output / "tables.md").read_text()
    own = runs[(runs["program"] == "skm") & (runs["data"] == "ionosphere") & (runs["sweep"] == "samples")]
    assert len(own) == 2
    (small, large), (fast, slow) = own["size"], own["cpu_s"]
    exponent = np.log(slow / fast) / np.log(large / small)
    assert f"| ionosphere | N to 60, M = 8 | {exponent:.2f} ({exponent:.2f}); {slow:.2g} s |" in page


@pytest.mark.nightly
def test_adult_is_in_the_sweep_over_samples_alone(output: Path) -> None:
    scaling = pd.read_csv(output / RUNS["scaling"])
    assert set(scaling.loc[scaling["data"].isin(ADULT), "sweep"]) == {"samples"}
    assert set(scaling.loc[scaling["data"] == "ionosphere", "sweep"]) == {"kernels", "kernels, few samples", "samples"}


@pytest.mark.nightly
def test_one_set_alone_has_no_stages(output: Path, tmp_path: Path) -> None:
    data = ("--data", str(output.parent))
    run_program(SCRIPT, *data, "--quick", "--only", "adult", "--output", str(tmp_path))
    assert set(pd.read_csv(tmp_path / RUNS["scaling"])["data"]) == {"adult"}
    assert not (tmp_path / RUNS["stages"]).exists()


def test_adult_comes_from_openml_with_a_column_a_category(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.integers(20, 60, 30), "work": [f"w{k % 3}" for k in range(30)]})
    table["class"] = np.where(table["age"] > 40, ">50K", "<=50K")
    other = pd.DataFrame({"a": [0.0, 1.0], "class": ["x", "y"]})
    with stub_openml({"other": other, "adult": table}, tmp_path, version=2), own_modules(SCRIPT):
        import _kernels

        X, y = _kernels.load("adult", None)
    assert X.shape == (30, 4)
    np.testing.assert_array_equal(y, np.where(table["age"] > 40, 1.0, -1.0))
