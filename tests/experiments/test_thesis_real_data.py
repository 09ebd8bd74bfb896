"""The comparisons of 6.1.5, 6.2.2 and 6.3 on real data runs from its command; its parts against plain NumPy."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from experiments.ledger import Ledger
from tests.support.programs import run_program

FOLDER = Path(__file__).parents[2] / "experiments" / "thesis"


def write_sets(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for name, p in (("heart_statlog", 4), ("thyroid_ida", 3)):
        X = rng.normal(size=(160, p))
        X[0, 0] = np.nan
        np.savez(folder / f"{name}.npz", X=X, y=(np.nan_to_num(X[:, 0]) ** 2 + X[:, 1] > 0.7).astype(int))


def run_quick(folder: Path) -> Path:
    output = folder / "out"
    arguments = ["--quick", "--data", str(folder), "--output", str(output)]
    run_program(FOLDER / "real_data.py", *arguments)
    return output


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("real_data")
    write_sets(folder)
    output = run_quick(folder)
    return output, json.loads((output / "ranks.json").read_text())


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


@pytest.mark.nightly
def test_every_method_has_an_error_on_every_set(report: tuple[Path, dict[str, Any]]) -> None:
    output, _ = report
    results = pd.read_csv(output / "thesis_real_data_runs.csv")
    assert results.groupby("loss").size().to_dict() == {"hinge": 18, "squared": 26}
    assert results["misclassified"].between(0, 0.6).all()
    assert results["squared"].notna().all()
    # Labels are -1 and +1: the constant zero has a squared error of 1.
    assert results.loc[results["loss"] == "squared", "squared"].median() < 1


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("experiment", "loss", "error", "n"),
    [
        ("6.1.5", "squared", "misclassified", 8),
        ("6.2.2", "hinge", "misclassified", 9),
        ("6.3", "squared", "squared", 7),
    ],
)
def test_median_ranks_are_those_of_the_mean_errors(
    report: tuple[Path, dict[str, Any]], experiment: str, loss: str, error: str, n: int
) -> None:
    output, told = report
    methods = [row["method"] for row in told[experiment]]
    assert len(methods) == n
    results = pd.read_csv(output / "thesis_real_data_runs.csv")
    errors = results[results["loss"] == loss].pivot_table(index="set", columns="method", values=error)[methods]
    for row in told[experiment]:
        own = errors[row["method"]].to_numpy()[:, None]
        better, equal = (errors.to_numpy() < own).sum(axis=1), (errors.to_numpy() == own).sum(axis=1)
        places = better + (equal + 1) / 2
        assert row["median_rank"] == pytest.approx(np.median(places))
        assert row["mean_rank"] == pytest.approx(places.mean())


@pytest.mark.nightly
def test_finished_rows_are_read_and_not_computed_again(
    report: tuple[Path, dict[str, Any]], module: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = report[0] / "thesis_real_data_runs.csv"
    results = pd.read_csv(path)
    lost = (results["set"] == "heart") & (results["method"] == "UNIFORM") & (results["loss"] == "squared")
    again = report[0].parent / "again.csv"
    results[~lost].to_csv(again, index=False)
    program, computed = module("real_data"), []

    def evaluate(learner: Any, *others: Any) -> dict[str, float]:
        computed.append(learner)
        return {"misclassified": 0.5, "squared": 1.0, "cpu_s": 2.0, "kernels": 3}

    monkeypatch.setattr(program, "evaluate", evaluate)
    arguments = SimpleNamespace(repeats=1, quick=True, data=str(report[0].parent), minutes=1.0)
    for _ in range(2):
        ledger = Ledger(again, program.KEYS, program.MEASURED)
        program.compare(list(program.QUICK_SETS), arguments, program.QUICK_CAP, ledger)
    assert computed == [program.SQUARED["UNIFORM"]]
    new = pd.read_csv(again).iloc[-1]
    assert len(pd.read_csv(again)) == len(results)
    assert new[["loss", "set", "method", "cpu_s"]].tolist() == ["squared", "heart", "UNIFORM", 2.0]


@pytest.mark.nightly
def test_a_report_is_made_of_what_is_there(
    report: tuple[Path, dict[str, Any]],
    module: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    output, told = report
    for name in ("thesis_real_data_runs.csv", "widths.csv"):
        (tmp_path / name).write_bytes((output / name).read_bytes())
    # Nothing could be computed without data.
    monkeypatch.setattr(sys, "argv", ["real_data.py", "--report", "--data", str(tmp_path), "--output", str(tmp_path)])
    module("real_data").main()
    assert json.loads((tmp_path / "ranks.json").read_text()) == told
    assert (tmp_path / "tables.md").read_text() == (output / "tables.md").read_text()
    assert (tmp_path / "thesis_real_data_runs.csv").read_bytes() == (output / "thesis_real_data_runs.csv").read_bytes()


def test_near_the_best_is_a_paired_standard_error(module: Callable[[str], ModuleType]) -> None:
    # On b, second is behind first by 1, 3 (mean 2, standard error 1) and third by -0.1, 3 (1.45, 1.55).
    index = pd.MultiIndex.from_tuples([("b", 0), ("b", 1)], names=["set", "repeat"])
    rows = pd.DataFrame({"first": [1.0, 5.0], "second": [2.0, 8.0], "third": [0.9, 8.0]}, index=index)
    ranking = module("_ranks")
    assert ranking.near_best(rows).loc["b"].tolist() == [True, False, True]
    assert ranking.ranks(rows)["near"].tolist() == [1, 0, 1]
    assert ranking.ranks(rows)["mean_rank"].tolist() == [1, 3, 2]
    assert "| b (2) | 3.000* | 5.000 | 4.450* |" in ranking.ranked(
        rows, ranking.ranks(rows), pd.Series({"first": 1, "second": 2, "third": 3}), percent=False
    )


def test_splits_that_a_method_lacks_do_not_count(module: Callable[[str], ModuleType]) -> None:
    keys = [("squared", "heart", 0, "a"), ("squared", "heart", 0, "b"), ("squared", "heart", 1, "a")]
    results = pd.DataFrame(keys, columns=["loss", "set", "repeat", "method"]).assign(squared=[0.1, 0.2, 0.3])
    rows = module("_ranks").Table("squared", "squared", ("a", "b")).rows(results)
    assert rows.index.tolist() == [("heart", 0)]


def test_the_search_stops_when_the_objective_hardly_changes(module: Callable[[str], ModuleType]) -> None:
    rule = module("_settings").until_changes_are_below(0.01)
    # The first value is that of the model without kernels, and the step from it does not count.
    assert [rule(SimpleNamespace(primal=value)) for value in (10.0, 9.99, 9.0, 8.95)] == [False, False, False, True]


def test_small_sets_are_done_first_and_large_ones_less_often(module: Callable[[str], ModuleType]) -> None:
    order = module("real_data").schedule(["banana", "sonar", "heart"], 4)
    assert order[:7] == [
        ("sonar", 0),
        ("heart", 0),
        ("sonar", 1),
        ("heart", 1),
        ("sonar", 2),
        ("heart", 2),
        ("banana", 0),
    ]
    assert sorted(order) == sorted((name, repeat) for name in ("banana", "sonar", "heart") for repeat in range(4))


@pytest.mark.nightly
def test_the_objective_of_the_first_iteration_is_the_alignment_with_the_target(
    report: tuple[Path, dict[str, Any]],
) -> None:
    output, _ = report
    curves = pd.read_csv(output / "widths.csv")
    first = curves[(curves["iteration"] == 1) & (curves["set"] == "heart")]
    assert first["h"].min() == pytest.approx(-1.0)
    with np.load(output.parent / "heart_statlog.npz") as archive:
        X, y = archive["X"][1:], np.where(archive["y"][1:] == 1, 1.0, -1.0)
    train = np.random.default_rng(0).permutation(len(y))[:40]
    Z = (X[train] - X[train].mean(axis=0)) / X[train].std(axis=0)
    distances = ((Z[:, None] - Z) ** 2).sum(axis=-1)
    centered = y[train] - y[train].mean()
    values = np.array([-centered @ np.exp(-distances / (2 * w**2)) @ centered for w in first["width"]])
    np.testing.assert_allclose(first["h"], values / np.abs(values).max(), atol=1e-10)


def test_climbs_that_must_gain_more_end_earlier(module: Callable[[str], ModuleType]) -> None:
    program, tasks, settings = (module(name) for name in ("inner_search", "_tasks", "_settings"))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6))
    y = np.where(X[:, 0] ** 2 + X[:, 1] > 0.7, 1.0, -1.0)
    task = tasks.Task((X, y), (X, y), (X, y))
    few = settings.Settings(settings.STANDARDIZED, (1.0,), (1.0,), wide_kernels=1)
    names = ("gain 0.1", "gain 0.001", program.TO_ITS_END)
    early, later, end = (program.alignment_of(task, few, name) for name in names)
    assert early < later <= end * (1 + 1e-9)
    (model,) = program.learn("gain 0.1", task, few, "squared")
    (same,) = program.learn(program.TO_ITS_END, task, few, "squared")
    assert list(model.specs) != list(same.specs)


def test_pixels_are_left_as_they_are(module: Callable[[str], ModuleType]) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 256, size=(60, 5)).astype(float), np.repeat([-1.0, 1.0], 30)
    task = module("_tasks").split(X, y, "MNIST 3-8", 0, cap=20)
    rows = {tuple(row) for row in X}
    parts = (task.train, task.valid, task.test)
    assert all(tuple(row) in rows for part in parts for row in part[0])
    assert [len(part[1]) for part in parts] == [20, 20, 20]
    assert len({tuple(row) for part in parts for row in part[0]}) == 60


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["greedy", "sampled", "two_stages"])
def test_a_search_obeys_its_time_limit(module: Callable[[str], ModuleType], kind: str) -> None:
    settings, learners = module("_settings"), module("_learners")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), np.sign(rng.normal(size=40))
    task = module("_tasks").Task((X, y), (X, y), (X, y))
    learner = {
        "greedy": learners.greedy(False, change=0.0, update="frank_wolfe"),
        "sampled": learners.sampled(False),
        "two_stages": learners.two_stages(False),
    }[kind]
    short, long = (
        learner(task, settings.Settings(settings.STANDARDIZED, (1.0,), (0.01,), seconds=seconds), "squared")[0]
        for seconds in (1e-9, 2.0)
    )
    assert len(short.specs) < len(long.specs)
    # More kernels fit the training rows better.
    assert learners.squared_error(long.scores(X, X), y) < learners.squared_error(short.scores(X, X), y)
