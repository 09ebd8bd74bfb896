"""The experiment of chapter 3 runs from its command, and its SVMs are those of LIBSVM."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.svm import SVC
from tests.support.programs import run_program

FOLDER = Path(__file__).parents[2] / "experiments" / "thesis"
TRUE = np.sqrt([2.0, 12.0, 60.0])


@pytest.mark.nightly
def test_the_command_finds_the_frequencies(tmp_path: Path) -> None:
    run_program(FOLDER / "chapter3.py", "--quick", "--draws", "1", "--output", str(tmp_path))
    names = {path.name for path in tmp_path.iterdir()}
    runs = {"thesis_chapter3_runs.csv", "thesis_chapter3_grid_runs.csv"}
    assert names == runs | {"tables.md", "singles.csv", "found.csv", "singles.png", "methods.png"}
    rows = pd.read_csv(tmp_path / "thesis_chapter3_runs.csv").set_index("method")
    three = rows["error"]["the three true"]
    for method in ("GCD-2s (alignment)", "GCD-2s (distance)", "CKL (GCD-1s)", "IKL"):
        assert rows["off"][method] < 0.1
        assert rows["error"][method] < three + 10
    for method in ("UNIFORM", "AMKL", "LPMKL (p=1)", "LPMKL (p=2)", "one kernel, sqrt 2"):
        assert rows["error"][method] > three + 15
    grid = pd.read_csv(tmp_path / "thesis_chapter3_grid_runs.csv").set_index(["step", "method"])["error"]
    for method in ("AMKL", "LPMKL (p=1)"):
        assert grid[0.1, method] < grid[1.0, method] - 15


@pytest.mark.parametrize("C", [1e-2, 1.0, 10.0])
def test_the_fast_svm_is_that_of_libsvm(C: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    from _low_rank_svm import dirichlet_features, fit_svm

    x = np.random.default_rng(0).uniform(-10, 10, 200)
    y = np.where(np.sin(np.multiply.outer(x, TRUE)).sum(axis=1) > 0, 1.0, -1.0)
    features = dirichlet_features(x, TRUE)
    gram = 1 + 2 * np.cos(np.multiply.outer(TRUE, x[:, None] - x)).mean(axis=0)
    np.testing.assert_allclose(features @ features.T, gram, atol=1e-10)
    machine = SVC(C=C, kernel="precomputed", tol=1e-6).fit(gram, y)
    found = fit_svm(features, y, C, tol=1e-8)
    np.testing.assert_allclose(
        features @ found.coef + found.intercept, machine.decision_function(gram), atol=1e-3 * max(1.0, C)
    )
