"""The SpicyMKL experiments run from their commands, go on where they stopped, and count what they say they count."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from tests.support.programs import run_program

from manykernels import KernelBank
from manykernels.grams import build_stack

FOLDER = Path(__file__).parents[2] / "experiments" / "spicymkl"
WITH_MACHINES = ("hessianmkl", "levelmkl", "simplemkl", "silp", "block_coordinate")


@pytest.fixture(scope="module")
def table_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which Table 4 was made from two small sets, one with an incomplete row."""
    folder = tmp_path_factory.mktemp("table")
    rng = np.random.default_rng(0)
    for name in ("liver", "wpbc"):
        X = rng.normal(size=(70, 3))
        y = np.where(X[:, 0] ** 2 + X[:, 1] + 0.3 * rng.normal(size=70) > 0.8, 1, -1)
        X[5, 2] = np.nan if name == "wpbc" else X[5, 2]
        np.savez(folder / f"{name}.npz", X=X, y=y)
    _run("table4.py", folder)
    return folder


@pytest.fixture(scope="module")
def figure_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the figures were made from one small set and two generated ones."""
    folder = tmp_path_factory.mktemp("figures")
    rng = np.random.default_rng(0)
    y = np.where(rng.random(150) < 0.5, 1, -1)
    np.savez(folder / "twonorm.npz", X=rng.normal(size=(150, 6)) + y[:, None], y=y)
    marks = ("picture, kernels", "picture, samples", "exponents, kernels", "exponents, samples")
    page = "".join(f"<!-- {mark} -->\n<!-- end of {mark} -->\n" for mark in marks)
    (folder / "page.md").write_text(f"{page}Below\n")
    _run("figures.py", folder, "--page", str(folder / "page.md"), draw=True)
    return folder


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


@pytest.mark.nightly
def test_table_has_every_cell_and_the_printed_counts(table_folder: Path, module: Callable[[str], ModuleType]) -> None:
    table = module("_tables").summarize(pd.read_csv(table_folder / "spicymkl_runs.csv"))
    assert set(zip(table["data"], table["constant"], strict=True)) == {
        (data, constant) for data in ("liver", "wpbc") for constant in (0.05, 0.5)
    }
    spicy = table[(table["problem"] == "hinge") & (table["solver"] == "spicymkl, gamma x 2")]
    assert spicy["printed_iterations"].tolist() == [14.1, 6.7, 13.2, 6.0]
    simple = table[table["solver"] == "simplemkl"]
    assert simple["printed_machines"].tolist() == [4800.0, 2200.5, 1134.7, 964.4]
    assert "(14.1)" in (table_folder / "tables.md").read_text()
    assert (table_folder / "seconds.png").stat().st_size > 0


@pytest.mark.nightly
def test_runs_reach_the_gap_or_say_that_they_did_not(table_folder: Path) -> None:
    runs = pd.read_csv(table_folder / "spicymkl_runs.csv")
    assert (runs["relative_gap"][runs["status"] == "converged"] <= 0.01).all()
    assert (runs["relative_gap"][~runs["status"].isin(["converged", "handed_on"])] > 0.01).all()
    assert (runs["status"] == "converged").mean() > 0.9
    assert runs["accuracy"].between(0, 1).all()


@pytest.mark.nightly
def test_support_vector_machines_are_counted_where_there_are_any(table_folder: Path) -> None:
    runs = pd.read_csv(table_folder / "spicymkl_runs.csv")
    calls = runs["solver"].isin(WITH_MACHINES)
    assert (runs["machines"][calls] >= runs["n_iter"][calls]).all()
    assert (runs["machines"][~calls] == 0).all()


@pytest.mark.nightly
def test_the_squared_norm_has_the_solution_of_the_block_norm(table_folder: Path) -> None:
    """The constant is converted: solvers of either form tell test classes alike."""
    runs = pd.read_csv(table_folder / "spicymkl_runs.csv")
    both = runs[runs["solver"] == "working_set"].pivot_table("accuracy", ["data", "constant", "repeat"], "problem")
    assert (both["hinge"] - both["squared"]).abs().max() < 0.1


@pytest.mark.nightly
def test_means_and_verdicts_follow_from_the_runs(table_folder: Path, module: Callable[[str], ModuleType]) -> None:
    runs, made = pd.read_csv(table_folder / "spicymkl_runs.csv"), module("_tables")
    table = made.summarize(runs)
    row = table.iloc[0]
    own = _like(runs, row, ["data", "constant", "problem", "solver"])
    assert row["splits"] == len(own) == 2
    assert row["cpu_s"] == pytest.approx(own["cpu_s"].to_numpy().mean())
    verdict = made.fastest(runs).iloc[0]
    cell = runs[(runs["data"] == verdict["data"]) & (runs["constant"] == verdict["constant"])]
    rivals = cell[cell["problem"].isin(["hinge", "squared"]) & (cell["solver"] != "working_set")]
    default = cell[(cell["problem"] == "hinge") & (cell["solver"] == "working_set")].set_index("repeat")["cpu_s"]
    ratios = [
        run["cpu_s"].mean() / default.loc[run["repeat"]].mean()
        for _, run in rivals.groupby(["problem", "solver"])
        if (run["status"] == "converged").all()
    ]
    assert verdict["rival_over_default"] == pytest.approx(min(ratios))


@pytest.mark.nightly
def test_a_second_call_repeats_only_what_is_asked_for_and_fills_the_page(table_folder: Path) -> None:
    before = pd.read_csv(table_folder / "spicymkl_runs.csv")
    page = table_folder / "page.md"
    page.write_text("Above\n\n<!-- rivals -->\nold\n<!-- end of rivals -->\n\nBelow\n")
    _run("table4.py", table_folder, "--again", "interior_point", "--page", str(page))
    after = pd.read_csv(table_folder / "spicymkl_runs.csv")
    kept = before[before["solver"] != "interior_point"].reset_index(drop=True)
    pd.testing.assert_frame_equal(after.iloc[: len(kept)], kept)
    assert len(after) == len(before)
    text = page.read_text()
    assert text.startswith("Above")
    assert text.endswith("Below\n")
    assert "| working_set " in text
    assert "old" not in text


@pytest.mark.nightly
def test_figures_have_every_size_of_every_set(figure_folder: Path, module: Callable[[str], ModuleType]) -> None:
    table = module("_curves").medians(pd.read_csv(figure_folder / "spicymkl_figures_runs.csv"))
    default = table[(table["solver"] == "working_set") & (table["problem"] == "hinge")]
    for figure, column, sizes in (("kernels", "n_kernels", {5, 10}), ("samples", "n_samples", {30, 60})):
        own = default[default["figure"] == figure]
        assert {data: set(rows[column]) for data, rows in own.groupby("data")} == {
            data: sizes for data in ("ringnorm", "twonorm", "waveform")
        }
        assert (figure_folder / f"{figure}.png").stat().st_size > 1000
    assert (table["cpu_s_25"] <= table["cpu_s"]).all()
    assert {"elastic hinge, 0.1", "elastic logistic, 0.1", "elastic hinge"} <= set(table["problem"])


@pytest.mark.nightly
def test_exponents_are_slopes_of_solved_sizes(figure_folder: Path, module: Callable[[str], ModuleType]) -> None:
    curves = module("_curves")
    table = curves.medians(pd.read_csv(figure_folder / "spicymkl_figures_runs.csv"))
    slopes = curves.exponents(table)
    first = slopes[(slopes["figure"] == "samples") & (slopes["solver"] == "working_set")].iloc[0]
    own = table[
        (table[["figure", "data", "problem", "solver"]] == first[["figure", "data", "problem", "solver"]]).all(axis=1)
    ]
    seconds = own.set_index("n_samples")["cpu_s"]
    assert first["exponent"] == pytest.approx(np.log(seconds[60] / seconds[30]) / np.log(2))


@pytest.mark.nightly
def test_the_page_gets_pictures_and_exponents(figure_folder: Path) -> None:
    text = (figure_folder / "page.md").read_text()
    for figure in ("kernels", "samples"):
        assert f"(page_{figure}.png)" in text
        assert (figure_folder / f"page_{figure}.png").read_bytes() == (figure_folder / f"{figure}.png").read_bytes()
    assert text.count("| working_set, logistic |") == 2
    assert text.endswith("Below\n")


def _like(table: pd.DataFrame, row: pd.Series, columns: list[str]) -> pd.DataFrame:
    return table[(table[columns] == row[columns]).all(axis=1)]


def _run(script: str, folder: Path, *more: str, draw: bool = False) -> None:
    words = ("--data", str(folder), "--quick", "--output", str(folder), *more)
    assert run_program(FOLDER / script, *words, draw=draw)[1] == []


def test_seconds_are_told_set_by_set_with_a_mark_where_the_gap_was_missed(module: Callable[[str], ModuleType]) -> None:
    columns = ["figure", "data", "n_kernels", "n_samples", "repeat", "problem", "solver", "status", "cpu_s"]
    rows = [
        ("kernels", "twonorm", 150, 200, 0, "squared", "silp", "time_limit", 20.0),
        ("kernels", "twonorm", 50, 200, 0, "squared", "silp", "converged", 0.5),
        ("kernels", "ringnorm", 50, 200, 0, "squared", "silp", "converged", 0.25),
        ("kernels", "twonorm", 50, 200, 0, "hinge", "working_set", "converged", 0.125),
    ]
    runs = pd.DataFrame(rows, columns=columns).assign(n_iter=1, active=1)
    told = module("figures").exponent_tables(runs)
    assert told["seconds, kernels, ringnorm"].splitlines()[2:] == ["| silp, squared | 0.25 |"]
    assert told["seconds, kernels, twonorm"].splitlines() == [
        "| CPU s, twonorm, kernels | 50 | 150 |",
        "| --- | --- | --- |",
        "| silp, squared | 0.5 | > 20 |",
        "| working_set, hinge | 0.12 |  |",
    ]


def test_an_empty_solution_has_no_squared_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    racing = importlib.import_module("_racing")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 3)), np.repeat([-1.0, 1.0], 6)
    stack = build_stack(KernelBank.per_feature(widths=[1.0]).fit(X), X)
    assert racing.matching_constant(stack, y, 1e3) == 0.0
    assert racing.matching_constant(stack, y, 1e-3) > 0.0


@pytest.mark.nightly
def test_traces_fall_to_the_gap_and_are_drawn(table_folder: Path) -> None:
    (table_folder / "traced.md").write_text("<!-- traces -->\n<!-- end of traces -->\nBelow\n")
    _run("traces.py", table_folder, "--page", str(table_folder / "traced.md"), draw=True)
    traces = pd.read_csv(table_folder / "traces.csv")
    assert set(traces["problem"]) == {"hinge", "logistic", "squared"}
    for _, part in traces.groupby(["problem", "solver"]):
        assert (part["cpu_s"].diff().dropna() >= 0).all()
        assert part["relative_gap"].min() <= max(1e-3, 0.2 * part["relative_gap"].iloc[0])
        assert (part["active"] >= 0).all()
    page = (table_folder / "traced.md").read_text()
    assert "| spicymkl, gamma x 2 | logistic |" in page
    assert page.endswith("<!-- end of traces -->\nBelow\n")
    assert (table_folder / "traced_traces.png").stat().st_size > 0


@pytest.mark.nightly
def test_named_solvers_run_with_another_limit_on_fewer_splits(table_folder: Path, tmp_path: Path) -> None:
    run_program(
        FOLDER / "table4.py", "--quick", "--data", str(table_folder), "--output", str(tmp_path),
        "--only", "hessianmkl", "spicymkl, gamma x 2", "--splits", "1", "--limit", "3",
    )  # fmt: skip
    runs = pd.read_csv(tmp_path / "spicymkl_long_runs.csv")
    assert set(runs["solver"]) == {"hessianmkl", "spicymkl, gamma x 2"}  # a label may hold a comma
    assert set(runs["repeat"]) == {0}
    assert not (tmp_path / "spicymkl_runs.csv").exists()
