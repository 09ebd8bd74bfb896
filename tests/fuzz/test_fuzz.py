"""A few hundred cases of the fuzzer, the same ones every time, and every case that once failed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.fuzz import oracle
from tests.fuzz.generator import Case, draw
from tests.fuzz.judge import judge, problem_of
from tests.fuzz.run import case_of

FOUND = sorted((Path(__file__).parent / "cases").glob("*.json"))
BLOCKS, BLOCK_SIZE = 6, 20
QUICK = 2.0  # seconds a fit may take here


@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_a_case_that_once_failed(path: Path) -> None:
    verdict = judge(Case.load(path), QUICK)
    assert verdict.failure == "", verdict.detail


@pytest.mark.sampled(6)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_few_cases(block: int) -> None:
    for seed in range(block * BLOCK_SIZE, (block + 1) * BLOCK_SIZE):
        verdict = judge(case_of(seed), QUICK)
        assert verdict.failure == "", f"seed {seed}, {verdict.solver}: {verdict.detail}"


def test_rounding_stays_within_its_bound() -> None:
    """The certificate of any model, near the optimum or not, is off by at most what it says."""
    compared = 0
    for seed in range(60):
        case, rng = draw(seed, hostile=True), np.random.default_rng(seed)
        try:
            problem = problem_of(case)
        except ValueError:  # refused for a reason that it names
            continue
        rho = problem.zero_model()[0] + 10 ** rng.uniform(-3, 1) * case.weights * rng.standard_normal(case.n_samples)
        largest = problem.entry_roots.max(axis=1) ** 2
        d = rng.exponential(size=len(case.kernels)) / np.where(largest > 0, largest, 1.0)
        told = problem.certificate(rho, d, float(case.fit_intercept))
        if not np.isfinite(told.gap):
            continue
        true, compared = oracle.true_bounds(case, rho, d, float(case.fit_intercept)), compared + 1
        assert abs(told.primal - true.primal) + abs(told.dual - true.dual) <= told.rounding, f"seed {seed}"
    assert compared > 30


def test_a_case_survives_its_file(tmp_path: Path) -> None:
    case = draw(7, hostile=True)
    case.save(tmp_path / "case.json")
    again = Case.load(tmp_path / "case.json")
    assert again == case
    np.testing.assert_array_equal(again.grams, case.grams)
