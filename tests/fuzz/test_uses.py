"""A few uses of factors, shared outputs, Cox's loss, pairs, searches and cross-validation, always the same ones."""

from __future__ import annotations

import pytest
from tests.fuzz.uses import USES, judge_use

ROUNDS = 2


@pytest.mark.sampled(4)
@pytest.mark.parametrize("place", range(len(USES)), ids=list(USES))
def test_a_few_uses(place: int) -> None:
    for round_ in range(ROUNDS):
        judged = judge_use(place + round_ * len(USES))
        assert judged.failure == "", f"seed {judged.seed}: {judged.detail}"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [41, 2000259, 2002618, 2004403])
def test_a_use_that_once_failed(seed: int) -> None:
    judged = judge_use(seed)
    assert judged.failure == "", judged.detail
