"""The a single place that compiles loops; a cache that cannot be read or written costs time, never a fit."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Any

from numba import njit, version_info
from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys


def compiled(**options: Any) -> Callable[[Any], Any]:
    """Return a decorator that compiles a function when it is first called, and keeps the machine code on disk.

    Numba alone raises where there is no folder to write to (at import), where a file of the cache is cut short, and
    where the disk is full (in the first fit). Such functions are compiled in memory instead, once a process.
    Options are those of ``numba.njit``, besides ``nogil``.

    Examples
    --------
    >>> from manykernels.compiled import compiled
    >>> @compiled(error_model="numpy")
    ... def half(x):
    ...     return x / 2
    >>> half(3.0)
    1.5
    """

    def decorate(function: Callable[..., Any]) -> Any:
        """Compile a single function."""
        loop: Any = njit(nogil=True, **options)(function)
        if loop is not function:  # as NUMBA_DISABLE_JIT makes it
            loop.__class__ = _Loop
            with suppress(RuntimeError, OSError):  # RuntimeError: there is no folder to write to
                loop._cache = _Cache(function)
        return loop

    return decorate


@contextmanager
def compilations() -> Iterator[list[Any]]:
    """Yield a list that gets an item for every loop that is compiled, and none for machine code read."""
    found: list[Any] = []

    class Listener(event.Listener):
        """Counts what begins."""

        def on_start(self, event: object) -> None:
            """Keep the event."""
            found.append(event)

        def on_end(self, event: object) -> None:
            """Nothing is to be done."""

    with event.install_listener("numba:compile", Listener()):
        yield found


_call = CPUDispatcher.__call__


class _Loop(CPUDispatcher):
    """A compiled function from which Ctrl-C raises KeyboardInterrupt.

    Where a loop returns several values, Python handles the signal while numba converts them. The exception is then set
    beside a result, for which Python raises SystemError.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the machine code."""
        try:
            return _call(self, *args, **kwargs)
        except SystemError as error:
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            raise


class _Cache(FunctionCache):
    """Numba's cache of a function, whose failures count as a function not there."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _CacheFile(self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Read machine code; what numba knows for compiling alone takes longer to import than most first fits."""
        # version of numba whose machine code is known to need no more: a missing symbol would end the process
        latest = (0, 68)
        if version_info.short > latest:
            return super().load_overload(sig, target_context)
        rtsys.initialize(target_context)  # arrays that loops make
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)

    @contextmanager
    def _guard_against_spurious_io_errors(self) -> Iterator[None]:
        """Swallow what reading and writing raise, and forget a damaged index, which could not be written again."""
        try:
            yield
        except Exception:  # whatever cut bytes make of pickle
            with suppress(Exception):
                self.flush()


class _CacheFile(IndexDataCacheFile):
    """Files of machine code named by content.

    Numba numbers machine code, and enters a name in the index before the file exists: two processes that compile a
    function at the same time could later load foreign or outdated code.
    """

    def save(self, key: object, data: object) -> None:
        """Write the code, then name it in the index."""
        name = f"{self._index_name.removesuffix('.nbi')}.{self._digest(key)}.nbc"
        self._save_data(name, data)
        self._save_index({**self._load_index(), key: name})

    def _digest(self, key: object) -> str:
        """Return what tells the code from all others: the source, the version of numba, and the key."""
        return sha256(repr((self._source_stamp, self._version, key)).encode()).hexdigest()[:16]
