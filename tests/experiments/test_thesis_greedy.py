"""Section 6.2.1 runs from its command and shows what one width a feature is good for, and when it overfits."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from tests.support.programs import run_program

FOLDER = Path(__file__).parents[2] / "experiments" / "thesis"


@pytest.fixture
def methods(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("_relevance")


@pytest.mark.nightly
def test_the_command_compares_searches(tmp_path: Path) -> None:
    run_program(FOLDER / "greedy.py", "--quick", "--output", str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {
        *("thesis_greedy_runs.csv", "tables.md", "greedy_as_drawn.png")
    }
    results = pd.read_csv(tmp_path / "thesis_greedy_runs.csv").set_index(["method", "relevance"])
    assert len(results) == 18
    assert results["error"].between(0, 60).all()
    alignment = results["alignment"]
    assert alignment["GCD-2s (nD)", 40] > alignment["GCD-2s (1D)", 40] + 0.1
    assert alignment["GCD-2s (nD)", 0] > alignment["GCD-2s (nD, NoReg)", 0] + 0.1


def test_the_relevance_parameter_moves_the_means_apart_in_the_last_columns(methods: ModuleType) -> None:
    sizes = methods.Sizes(n_train=4000, n_validation=2, n_test=2)
    for gamma, share in ((0, 1 / 50), (40, None)):
        X, y = methods.draw(gamma, 0, sizes).train
        half = (X[y > 0].mean(axis=0) - X[y < 0].mean(axis=0)) / 2
        beta = (np.arange(1, 51) / 50) ** gamma
        expected = 1.75 * beta / np.sqrt((beta**2).sum())
        np.testing.assert_allclose(half, expected, atol=5 / np.sqrt(4000))
        assert share is None or expected[0] ** 2 == pytest.approx(share * 1.75**2)


def test_standardized_columns_have_unit_variance_and_others_do_not(methods: ModuleType) -> None:
    sizes = methods.Sizes(n_train=200, n_validation=2, n_test=3)
    raw, scaled = methods.draw(40, 0, sizes), methods.draw(40, 0, replace(sizes, standardize=True))
    deviation = raw.train[0].std(axis=0)
    # The last column carries nearly all of the difference of 2 x 1.75.
    assert deviation[-1] > 1.6
    np.testing.assert_allclose(scaled.train[0].std(axis=0), 1.0)
    np.testing.assert_allclose(scaled.test[0] * deviation, raw.test[0])


@pytest.mark.parametrize("name", ["UNIFORM", "AMKL"])
def test_one_width_cannot_see_the_relevance(methods: ModuleType, name: str) -> None:
    # The classes of two levels are the same but for a rotation, which kernels of one width do not feel.
    sizes = methods.Sizes(n_validation=200, n_test=200)
    data = methods.draw(40, 0, sizes)
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(50, 50)))[0]
    turned = methods.Data(*((X @ rotation, y) for X, y in data))
    before, after = (methods.measure(methods.METHODS[name], part, sizes) for part in (data, turned))
    assert after["error"] == pytest.approx(before["error"], abs=0.51)  # one sample, by rounding
    assert after["alignment"] == pytest.approx(before["alignment"], abs=1e-6)


def test_a_kernel_of_shared_distances_is_the_sum_of_its_parts(methods: ModuleType) -> None:
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    squares = ((A[:, None] - B) ** 2).sum(axis=-1)
    kernel = methods.listed(np.array([0.0, 0.3, 0.7]), methods.Sizes(n_listed=3))
    expected = 0.3 * np.exp(-squares / 1.0) + 0.7 * np.exp(-squares / 1e6)  # sigma 1 and 1000
    np.testing.assert_allclose(kernel(A, B), expected, rtol=1e-9)
