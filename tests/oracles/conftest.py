"""The 500 problems; each test draws those that it looks at."""

from __future__ import annotations

import pytest
from tests.support.optima import all_problems

from manykernels.testing.problems import SmallProblem


@pytest.fixture(scope="session")
def problems() -> tuple[SmallProblem, ...]:
    return all_problems()
