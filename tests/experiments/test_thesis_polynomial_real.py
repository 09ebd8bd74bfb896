"""The comparison 6.1.4 of the thesis runs from its command on sets of the same kind; its table against plain NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.support.programs import run_program

pytestmark = pytest.mark.nightly

SCRIPT = Path(__file__).parents[2] / "experiments" / "thesis" / "polynomial_real.py"


def run(folder: Path) -> str:
    return run_program(SCRIPT, "--quick", "--data", str(folder), "--output", str(folder / "out"))[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("polynomial_real")
    rng = np.random.default_rng(0)
    for name in ("sonar", "ionosphere"):
        X = rng.normal(size=(130, 3))
        np.savez(made / f"{name}.npz", X=X, y=np.where(X[:, 0] * X[:, 1] > 0, 1, -1))
    run(made)
    return made


def test_only_products_of_columns_tell_the_classes(folder: Path) -> None:
    runs = pd.read_csv(folder / "out" / "thesis_polynomial_real_runs.csv")
    assert runs.groupby("set").size().to_dict() == {"sonar": 12, "ionosphere": 12}
    errors = runs.groupby("method")["error"].mean()
    linear = errors[["LPMKL (p=1)", "LPMKL (p=2)", "UNIFORM (D=1)"]]
    assert errors["NLMKL (D=2)"] < linear.min() - 0.15


def test_uniform_is_ridge_regression_with_a_polynomial_kernel(folder: Path) -> None:
    runs = pd.read_csv(folder / "out" / "thesis_polynomial_real_runs.csv").set_index(["set", "method"])
    with np.load(folder / "sonar.npz") as archive:
        X, y = archive["X"], archive["y"].astype(float)
    train, valid, test = np.split(np.random.default_rng(0).permutation(len(y)), [40, 61])
    test = test[:40]
    Z = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
    gram = (1.0 + Z @ Z[train].T) ** 2
    shares = {}
    for strength in (100.0, 1.0):
        bordered = np.ones((len(train) + 1, len(train) + 1))
        bordered[:-1, :-1] = gram[train] + strength * np.eye(len(train))
        bordered[-1, -1] = 0.0
        solved = np.linalg.solve(bordered, np.append(y[train], 0.0))
        wrong = np.sign(gram @ solved[:-1] + solved[-1]) != y
        shares[strength] = (wrong[valid].mean(), wrong[test].mean())
    best = min(shares, key=lambda strength: shares[strength][0])
    row = runs.loc[("sonar", "UNIFORM (D=2)")]
    assert row["alpha"] == pytest.approx(best / len(train))
    assert row["error"] == pytest.approx(shares[best][1])


def test_ranks_are_those_of_the_mean_errors_and_nothing_is_run_twice(folder: Path) -> None:
    before = (folder / "out" / "thesis_polynomial_real_runs.csv").read_text()
    printed = run(folder)
    assert (folder / "out" / "thesis_polynomial_real_runs.csv").read_text() == before
    assert "sonar (1 splits)" in printed
    means = pd.read_csv(folder / "out" / "thesis_polynomial_real_runs.csv").pivot_table("error", "method", "set")
    ranks = means.rank().median(axis=1)
    for method, rank in ranks.items():
        (line,) = (line for line in printed.splitlines() if line.startswith(f"| {method} |"))
        assert line.split(" | ")[-3] == f"{rank:g}"
