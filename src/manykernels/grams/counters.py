"""Counts of the entries of kernels read, the unit of cost."""

from dataclasses import dataclass


@dataclass(slots=True)
class GramCounters:
    """Entries and bytes that a stack has read.

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
        """Count ``entries`` read Gram entries of ``itemsize`` bytes."""
        self.entries += entries
        self.bytes_read += entries * itemsize

    def reset(self) -> None:
        """Start counting again from zero."""
        self.entries = self.bytes_read = 0
