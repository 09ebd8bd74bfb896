"""What work holds at its peak, as tracemalloc sees it."""

import tracemalloc
from collections.abc import Callable


def peak_of(work: Callable[[], object]) -> int:
    """Return the bytes that some work was traced to hold at most; what it compiles and imports must be there before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
