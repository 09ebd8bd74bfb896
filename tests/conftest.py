"""Settings shared by all tests: one thread, no screen, reproducible randomness."""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from contextlib import suppress
from functools import partial
from html import escape
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Read by the numerical libraries when they are first imported, hence before the imports below.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ["MPLBACKEND"] = "Agg"

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402
from threadpoolctl import threadpool_limits  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# A busy machine must not turn a correct property into a failure, and a failure must come back on the next run.
settings.register_profile("manykernels", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("manykernels")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options of `tests.support.jitter`, which perturbs what tests draw, and of `tests.support.parts`."""
    words = "perturb inputs by a relative 1e-15, by signs of this seed; 0 (the default) leaves them as they are"
    parser.addoption("--jitter", type=int, default=0, metavar="SEED", help=words)
    words = "run the K-th of N equal parts of the cases of all tests, say 1/2"
    parser.addoption("--part", default="1/1", metavar="K/N", help=words)


def pytest_configure(config: pytest.Config) -> None:
    """Perturb before any test is imported, since modules draw on import."""
    if config.getoption("jitter"):
        from tests.support.jitter import install

        install(config.getoption("jitter"))
    if config.getoption("part") != "1/1":
        from tests.support.parts import Part

        config.pluginmanager.register(Part(config.getoption("part")))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as nightly all but one in k of the cases of a test that is marked ``sampled(k)``."""
    tests: dict[str, list[Any]] = {}
    for item in items:
        if item.get_closest_marker("sampled") is not None:
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        (k,) = cases[0].get_closest_marker("sampled").args
        values = [{name: told(value) for name, value in case.callspec.params.items()} for case in cases]
        always = spread(values, -(-len(cases) // k))
        for number, case in enumerate(cases):
            if number not in always:
                case.add_marker("nightly")


def told(value: object) -> str:
    """Return a value in words; a check of scikit-learn, which knows the name of its estimator, without that."""
    if isinstance(value, partial):
        return f"{getattr(value.func, '__name__', value.func)} {value.keywords}"
    return repr(value)


def spread(cases: Sequence[Mapping[str, str]], count: int) -> set[int]:
    """Return the numbers of so many cases, each with the values and pairs of values that were met least before it."""
    met: Counter[Any] = Counter()
    chosen: set[int] = set()
    parts = [[*case.items(), *combinations(case.items(), 2)] for case in cases]
    for _ in range(count):
        left = (number for number in range(len(cases)) if number not in chosen)
        best = min(left, key=lambda number: sum(met[part] for part in parts[number]))
        chosen.add(best)
        met.update(parts[best])
    return chosen


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage while thousands of tests are collected, nor among them later: modules and tests stay.

    Later less often than usual: tests make many objects and few circles of them.
    """
    gc.disable()
    try:
        if os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0":
            import_from_the_end()
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


def import_from_the_end() -> None:
    """Import the tests, the last ones first: of two workers each translates half of them, and reads the others."""
    root = Path(__file__).parents[1]
    for path in sorted(Path(__file__).parent.rglob("test_*.py"), reverse=True):
        with suppress(Exception, pytest.skip.Exception):  # what is wrong is told when this file is collected
            import_module(".".join(path.relative_to(root).with_suffix("").parts))


@pytest.fixture(autouse=True, scope="session")
def few_blas_threads() -> Iterator[None]:
    """Keep BLAS on as many threads as the environment says, one by default, also where that came too late."""
    with threadpool_limits(limits=int(os.environ["OPENBLAS_NUM_THREADS"]), user_api="blas"):
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


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the pictures of reports empty, which are half of their time, in tests of what a report says in words."""
    from manykernels.inspection.reports import pictures

    def empty(draw: object, title: str, *, text: str = "", height: float = 0.0) -> pictures.Picture:
        return pictures.Picture(f'<svg aria-label="{escape(title)}"></svg>', text)

    monkeypatch.setattr(pictures, "draw_picture", empty)
