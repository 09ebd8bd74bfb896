"""The a single place that decides how many threads numerical code may use."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def n_threads(n_jobs: int | None = None) -> int:
    """Return the number of threads for compiled loops: ``n_jobs`` in joblib's convention, ``None`` meaning one."""
    return max(1, min(int(effective_n_jobs(n_jobs)), os.cpu_count() or 1))


class _BlasLimits:
    """The limits in force at once; the smallest counts, and the last one to go restores what was there before.

    A limit that every Python thread set and restored for itself would be restored in another order than it was set, and
    leave BLAS on a single thread for good.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._limits: list[int] = []
        self._before: Any = None

    def enter(self, limit: int) -> None:
        """Put a limit into force."""
        with self._lock:
            if not self._limits:
                self._before = _limit(limit)
            elif limit < min(self._limits):
                _limit(limit)
            self._limits.append(limit)

    def leave(self, limit: int) -> None:
        """Take a limit back."""
        with self._lock:
            self._limits.remove(limit)
            if not self._limits:
                blas_controller()
                self._before.restore_original_limits()
            elif limit < min(self._limits):
                _limit(min(self._limits))


_LIMITS = _BlasLimits()
if hasattr(os, "register_at_fork"):
    # A child must not wait for a lock that a thread of its parent holds; it has none of these threads.
    os.register_at_fork(after_in_child=_LIMITS.__init__)  # type: ignore[misc]  # of the one instance


@contextmanager
def blas_limit(limit: int) -> Iterator[None]:
    """Let BLAS use at most so many threads."""
    _LIMITS.enter(limit)
    try:
        yield
    finally:
        _LIMITS.leave(limit)


def blas_threads(order: int, n_jobs: int | None = None) -> AbstractContextManager[None]:
    """Limit BLAS to a single thread for factorizations of small matrices.

    A 400 x 400 Cholesky on two threads of a busy two-core machine has been seen 230 times slower than on one.
    """
    small_matrix_order = 2000
    return blas_limit(1 if order < small_matrix_order else n_threads(n_jobs))


def _limit(limit: int) -> Any:
    """Set the number of threads of BLAS, and return what can restore the one before."""
    return blas_controller().limit(limits=limit)


def blas_controller() -> ThreadpoolController:
    """Return the BLAS libraries of the process, for the thread to set limits.

    From threadpoolctl 3.8 on only the first thread to set a limit may set others; those of other threads are ignored.
    """
    for library in _controller().lib_controllers:
        clear = getattr(library, "clear_controlling_thread", None)
        if clear is not None:
            clear(force=True)
    return _controller()


@cache
def _controller() -> ThreadpoolController:
    """Return the BLAS libraries of the process, looked up once: finding them takes 10 ms."""
    return ThreadpoolController().select(user_api="blas")


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
