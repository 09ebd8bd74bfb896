"""The one place that decides how many threads numerical code may use."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SMALL_MATRIX_ORDER = 2000


def n_threads(n_jobs: int | None = None) -> int:
    """Return the number of threads for compiled loops: ``n_jobs`` in joblib's convention, ``None`` meaning one."""
    return max(1, min(int(effective_n_jobs(n_jobs)), os.cpu_count() or 1))


@contextmanager
def blas_threads(order: int, n_jobs: int | None = None) -> Iterator[None]:
    """Limit BLAS to one thread for factorizations of small matrices.

    A 400 x 400 Cholesky on two threads of a busy two-core machine has been seen 230 times slower than on one.
    """
    limit = 1 if order < SMALL_MATRIX_ORDER else n_threads(n_jobs)
    with _controller().limit(limits=limit, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    """Return the thread pools of the process, looked up once: finding them takes 10 ms."""
    return ThreadpoolController()


def run_ranges(function: Callable[[int, int], None], size: int, n_threads: int) -> None:
    """Call ``function(start, stop)`` over ``range(size)`` cut into one contiguous range per thread.

    Plain Python threads: the compiled loops release the GIL, and unlike a threading layer this is safe to call from
    several threads at once and costs no second compilation.
    """
    count = min(n_threads, size)
    if count <= 1:
        function(0, size)
        return
    edges = np.linspace(0, size, count + 1).astype(int).tolist()
    with ThreadPoolExecutor(count) as pool:
        for future in [pool.submit(function, *edge) for edge in pairwise(edges)]:
            future.result()
