"""The 200 problems and their optima, solved once a process."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from manykernels.testing.oracles import ConicOptimum, conic_optimum
from manykernels.testing.problems import SmallProblem, small_problems


@cache
def all_problems() -> tuple[SmallProblem, ...]:
    """Return the 200 problems."""
    return tuple(small_problems(200))


@cache
def optimum_of(index: int) -> ConicOptimum:
    """Return the conic optimum of one of them."""
    return conic_optimum(all_problems()[index])


@pytest.fixture(scope="session")
def problems() -> tuple[SmallProblem, ...]:
    return all_problems()


@pytest.fixture(scope="session")
def optimum() -> Callable[[int], ConicOptimum]:
    return optimum_of
