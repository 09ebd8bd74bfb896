"""Settings shared by all tests: one thread, no screen, reproducible randomness."""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import TYPE_CHECKING

# Read by the numerical libraries when they are first imported, hence before the imports below.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ["MPLBACKEND"] = "Agg"

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402
from threadpoolctl import threadpool_limits  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

# A busy machine must not turn a correct property into a failure, and a failure must come back on the next run.
settings.register_profile("manykernels", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("manykernels")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as nightly all but one in k of the cases of a test that is marked ``sampled(k)``, evenly spread."""
    seen: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is None:
            continue
        name, (k,) = item.nodeid.partition("[")[0], mark.args
        # Along the diagonal, so that every value of each of several parameters is met.
        if seen[name] % k != seen[name] // k % k:
            item.add_marker("nightly")
        seen[name] += 1


@pytest.fixture(autouse=True, scope="session")
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS on one thread, also where an environment variable came too late."""
    with threadpool_limits(limits=1, user_api="blas"):
        yield


@pytest.fixture(autouse=True, scope="session")
def ctrl_c_interrupts() -> Iterator[None]:
    """Let Ctrl-C raise `KeyboardInterrupt`: a shell that runs the tests in the background has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a generator with a fixed seed, fresh for each test."""
    return np.random.default_rng(20260101)
