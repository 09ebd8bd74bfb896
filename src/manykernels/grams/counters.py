"""How Gram entries are counted and laid out: triangles, and the cost of reading them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manykernels.validation.arrays import Array


def triangle_size(n_samples: int) -> int:
    """Return the number of entries of a packed upper triangle, ``N (N + 1) / 2``."""
    return n_samples * (n_samples + 1) // 2


def triangle_starts(n_samples: int) -> Array:
    """Return where each row of a packed triangle starts, with the total size at the end, (N + 1,) int64."""
    return np.concatenate(([0], np.cumsum(np.arange(n_samples, 0, -1))))


@dataclass(slots=True)
class GramCounters:
    """What a stack has been asked to read so far.

    Attributes
    ----------
    entries_per_pass : int
        ``M N (N + 1) / 2``: one reading of every entry of every kernel.
    entries : int
        Gram entries read or computed; a symmetric operation counts a triangle.
    bytes_read : int
        The same in bytes of the storage dtype.

    Examples
    --------
    >>> counters = GramCounters(entries_per_pass=6)
    >>> counters.add(entries=3, itemsize=8)
    >>> counters.passes
    0.5
    """

    entries_per_pass: int
    entries: int = 0
    bytes_read: int = 0

    @property
    def passes(self) -> float:
        """Entries read, in units of a whole pass."""
        return self.entries / self.entries_per_pass

    def add(self, entries: int, itemsize: int) -> None:
        """Record that ``entries`` Gram entries of ``itemsize`` bytes were read."""
        self.entries += entries
        self.bytes_read += entries * itemsize

    def reset(self) -> None:
        """Start counting again from zero."""
        self.entries = self.bytes_read = 0
