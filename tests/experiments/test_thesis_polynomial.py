"""The experiments 6.1.2 and 6.1.3 of the thesis run from their command and go on where they stopped."""

from __future__ import annotations

import importlib
import itertools
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.support.programs import run_program

from manykernels import ConvergenceWarning, PolynomialMKL

pytestmark = pytest.mark.nightly

SCRIPT = Path(__file__).parents[2] / "experiments" / "thesis" / "polynomial.py"
DRAWN = {"SGD-1s", "SGD-1s, single draws", "SGD-1s, polished", "p = 1.1, polished"}
METHODS = DRAWN | {"HKL", "NLMKL", "UNIFORM", "LPMKL"}


def run(folder: Path, *options: str) -> str:
    return run_program(SCRIPT, "--quick", "--output", str(folder / "out"), *options)[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("polynomial")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 6))
    np.savez(made / "ringnorm.npz", X=X, y=np.where(X[:, 0] * X[:, 1] > 0, 1, -1))
    run(made, "--data", str(made))
    return made


def test_objectives_fall_and_both_ways_of_lpmkl_start_alike(folder: Path) -> None:
    race = pd.read_csv(folder / "out" / "convergence.csv")
    best = race.groupby("method")["objective"].min()
    first = race.groupby("method")["objective"].first()
    drawn = {f"{name}{draws}" for name in ("SGD-1s", "UCD") for draws in ("", ", single draws")}
    assert set(best.index) == {*drawn, "LPMKL, features", "LPMKL, matrices"}
    others = best.index != "LPMKL, matrices"  # whose matrices may take all of the time
    assert (best[others] < first[others]).all()
    np.testing.assert_allclose(first["LPMKL, features"], first["LPMKL, matrices"], rtol=1e-6)
    ends = pd.read_csv(folder / "out" / "thesis_polynomial_convergence_runs.csv").set_index("method")
    assert set(ends.index) == set(best.index)
    assert ends.loc["SGD-1s", "after_all"] == pytest.approx(best["SGD-1s"], rel=1e-5)
    assert not (ends["after_all"] > ends["after_10_percent"]).any()


def test_the_sweep_of_step_rules_prints_its_table_and_goes_on_where_it_was(tmp_path: Path) -> None:
    sweep = SCRIPT.with_name("steps.py")
    printed, _ = run_program(sweep, "--quick", "--output", str(tmp_path))
    assert "| all | 1 | none |" in printed
    table = pd.read_csv(tmp_path / "thesis_polynomial_steps_runs.csv")
    assert table["objective"].min() >= 0.9 * table.loc[table["draws"] == 0, "objective"].item()
    assert run_program(sweep, "--quick", "--output", str(tmp_path))[0] == printed


def test_a_sparse_search_finds_the_monomials(folder: Path) -> None:
    table = pd.read_csv(folder / "out" / "thesis_polynomial_runs.csv").set_index(["r", "method"])
    assert table.index.get_level_values("r").unique().to_list() == [5, 8]
    assert set(table.index.get_level_values("method")) == METHODS
    # A model of ten monomials is found by a sparse search, and not by a uniform sum of all products.
    assert table.loc[(8, "p = 1.1, polished"), "error"] < table.loc[(8, "UNIFORM"), "error"]
    assert table.loc[(8, "SGD-1s, polished"), "gap"] <= 1e-2
    assert (table["slowest_s"] <= table["all_s"]).all()


def test_the_share_of_draws_among_the_true_columns_is_that_of_enumeration(folder: Path) -> None:
    table = pd.read_csv(folder / "out" / "thesis_polynomial_runs.csv").set_index(["r", "method"])
    assert table.loc[(5, "SGD-1s"), "signal"] == pytest.approx(1.0)
    rng = np.random.default_rng(0)
    terms = [t for d in range(4) for t in itertools.combinations_with_replacement(range(5), d)]
    X = rng.uniform(-1.0, 1.0, (260, 8))
    chosen = rng.choice(len(terms), 10, replace=False)
    y = np.mean([X[:, list(terms[i])].prod(axis=1) for i in chosen], axis=0)[:60]
    masses = {
        index: float(((y - y.mean()) @ X[:60][:, list(index)].prod(axis=1)) ** 2)
        for d in range(4)
        for index in itertools.product(range(8), repeat=d)
    }
    among = sum(mass for index, mass in masses.items() if all(j < 5 for j in index))
    assert table.loc[(8, "SGD-1s"), "signal"] == pytest.approx(among / sum(masses.values()))


def test_a_second_call_runs_only_what_is_missing_and_fills_the_page(folder: Path) -> None:
    table, page = folder / "out" / "thesis_polynomial_runs.csv", folder / "page.md"
    lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join(lines[:-1]))
    page.write_text("A\n<!-- synthetic -->\nold\n<!-- end of synthetic -->\nB\n")
    page.write_text(page.read_text() + "<!-- convergence -->\n<!-- end of convergence -->\n")
    printed = run(folder, "--page", str(page))
    assert "old" not in page.read_text()
    assert page.read_text().count("| HKL |") == 1
    assert printed.count("| HKL |") == 2  # errors and seconds
    again = table.read_text().splitlines(keepends=True)
    assert again[:-1] == lines[:-1]
    np.testing.assert_allclose(float(again[-1].split(",")[3]), float(lines[-1].split(",")[3]), rtol=1e-6)


@pytest.mark.parametrize(("batch", "penalties"), [(1, None), (12, (1.0, 1.0, 1.0, 2.0))])
def test_the_descent_alone_predicts_like_the_estimator_that_certifies_it(
    monkeypatch: pytest.MonkeyPatch, batch: int, penalties: tuple[float, ...] | None
) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    alone = importlib.import_module("_sampled_products").SampledProducts(3, 1e-3, 12, batch, 0, penalties)
    rng = np.random.default_rng(0)
    X, new = rng.uniform(-1.0, 1.0, (50, 5)), rng.uniform(-1.0, 1.0, (7, 5))
    y = X[:, 0] * X[:, 1] - X[:, 2]
    options = {"standardize": False, "normalize": None, "polish": False, "random_state": 0}
    model = PolynomialMKL(3, alpha=1e-3, n_steps=12, batch=batch, degree_penalties=penalties, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    np.testing.assert_allclose(alone.fit(X, y).predict(new), model.predict(new), atol=1e-10)
    assert len(alone.kernel_names_) == len(model.kernel_names_)
