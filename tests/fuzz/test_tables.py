"""A few tables with gaps of the many that ``python -m tests.fuzz --tables 500`` uses, small ones."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.fuzz.tables import USES, draw_table


@cache
def small() -> list[int]:
    return [seed for seed in range(60) if len(draw_table(seed).X) <= 45]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("turn", range(len(USES)), ids=list(USES))
def test_a_table_with_gaps(turn: int) -> None:
    case = draw_table(small()[turn])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        list(USES.values())[turn][0](case)


@pytest.mark.nightly
def test_parts_of_a_table_have_the_kernels_of_the_whole() -> None:
    differing = 0
    for seed in range(40):
        case = draw_table(seed)
        decided, rows = case.bank.resolve(case.X), np.random.default_rng(seed).permutation(len(case.X))
        half = case.X.iloc[rows[: len(rows) // 2]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of kernels that are masked in most rows
            names = decided.fit(half).names
            assert [name.split("=")[0] for name in names] == [
                name.split("=")[0] for name in case.bank.fit(case.X).names
            ]
            differing += len(replace(case, X=half).bank.fit(half)) != len(names)
    assert differing > 5  # and by itself a part would decide otherwise


@pytest.mark.nightly
def test_a_kind_of_kernels_that_is_constant_in_a_fold() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        USES["nested"][0](draw_table(403))
