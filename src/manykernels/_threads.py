"""The one place that decides how many threads numerical code may use."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from joblib import effective_n_jobs
from threadpoolctl import threadpool_limits

if TYPE_CHECKING:
    from collections.abc import Iterator

SMALL_MATRIX_ORDER = 2000


def n_threads(n_jobs: int | None = None) -> int:
    """Number of threads for compiled loops: ``n_jobs`` in joblib's convention, ``None`` meaning one."""
    return max(1, min(int(effective_n_jobs(n_jobs)), os.cpu_count() or 1))


@contextmanager
def blas_threads(order: int, n_jobs: int | None = None) -> Iterator[None]:
    """Limit BLAS to one thread for factorizations of small matrices.

    A 400 x 400 Cholesky on two threads of a busy two-core machine has been seen 230 times slower than on one.
    """
    limit = 1 if order < SMALL_MATRIX_ORDER else n_threads(n_jobs)
    with threadpool_limits(limits=limit, user_api="blas"):
        yield
