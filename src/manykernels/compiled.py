"""The one place that compiles loops; a cache that cannot be read or written costs time, never a fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache

__all__ = ["compiled"]


def compiled(**options: Any) -> Callable[[Any], Any]:
    """Return a decorator that compiles a function when it is first called, and keeps the machine code on disk.

    Numba alone raises where there is no folder to write to (at import), where a file of the cache is cut short, and
    where the disk is full (in the first fit). Such functions are compiled in memory instead, once a process.

    Parameters
    ----------
    **options
        Of ``numba.njit``, besides ``nogil``.

    Returns
    -------
    callable

    Examples
    --------
    >>> from manykernels.compiled import compiled
    >>> @compiled(error_model="numpy")
    ... def half(x):
    ...     return x / 2
    >>> half(3.0)
    1.5
    """

    def decorate(function: Any) -> Any:
        """Compile one function."""
        loop = njit(nogil=True, **options)(function)
        # What RuntimeError says is that there is no folder to write to. NUMBA_DISABLE_JIT gives the function itself.
        with suppress(RuntimeError, OSError):
            if loop is not function:
                loop._cache = _Cache(function)
        return loop

    return decorate


class _Cache(FunctionCache):
    """Numba's cache of a function, whose failures count as a function that is not there."""

    @contextmanager
    def _guard_against_spurious_io_errors(self) -> Iterator[None]:
        """Swallow what reading and writing raise, and forget a damaged index, which could not be written again."""
        try:
            yield
        except Exception:  # whatever cut bytes make of pickle
            with suppress(Exception):
                self.flush()
