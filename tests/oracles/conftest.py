"""The 500 problems and their stored optima."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.conic import ConicOptimum
from tests.support.optima import all_problems, stored_optimum

from manykernels.testing.problems import SmallProblem


@pytest.fixture(scope="session")
def problems() -> tuple[SmallProblem, ...]:
    return all_problems()


@pytest.fixture(scope="session")
def optimum() -> Callable[[int], ConicOptimum]:
    return stored_optimum
