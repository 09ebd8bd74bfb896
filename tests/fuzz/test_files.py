"""A few mutated model files of every kind of estimator, always the same ones."""

from __future__ import annotations

import pytest
from tests.fuzz.files import KINDS, judge_file

ROUNDS = 3


@pytest.mark.sampled(2)
@pytest.mark.parametrize("place", range(len(KINDS)), ids=list(KINDS))
def test_a_few_files(place: int) -> None:
    for round_ in range(ROUNDS):
        seed = place + round_ * len(KINDS)
        _, _, raw = judge_file(seed)
        assert raw == "", f"seed {seed}: {raw}"


# A model without its loss; seconds beyond float64; scores that are no numbers, twice.
@pytest.mark.parametrize("seed", [5_001_420, 5_002_829, 8_265_025, 8_267_094])
def test_a_file_that_once_came_out_raw(seed: int) -> None:
    assert judge_file(seed)[2] == ""
