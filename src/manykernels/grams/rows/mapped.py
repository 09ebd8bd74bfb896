"""Rows of a memory map, read from its file.

A page of a map that its file no longer holds ends the process with SIGBUS, which nobody can catch: a file that is cut
off while a fit reads it took the fit with it. Reading the same bytes from the file ends in an error instead.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.validation.arrays import Array


class MappedFile(NamedTuple):
    """Where the entries of a memory map lie in its file."""

    path: Path
    identity: tuple[int, int]  # of the file that was there when the rows were opened
    start: int  # byte of the first entry
    data: np.memmap[Any, Any]

    @classmethod
    def of(cls, data: object) -> MappedFile | None:
        """Return where a map that is read only lies; None for other arrays, and for layouts with gaps between rows."""
        if not isinstance(data, np.memmap) or getattr(data, "mode", None) != "r" or data.filename is None:
            return None
        whole = getattr(data, "_mmap", None)
        if whole is None or not (data.flags.c_contiguous or data.flags.f_contiguous):
            return None
        # The offset of a part of a map is that of the whole: addresses tell where the part begins.
        first = data.offset - data.offset % mmap.ALLOCATIONGRANULARITY
        start = first + data.ctypes.data - np.frombuffer(whole, dtype=np.uint8).ctypes.data
        try:
            return cls(Path(data.filename), _identity(data.filename), start, data)
        except OSError:
            return None  # deleted: the map is all that is left of it, and nobody can cut it off

    def rows(self, rows: slice) -> Array:
        """Return some rows, (n, p), from the file; from the map where another file has its name by now."""
        data, (n_rows, n_columns) = self.data, self.data.shape
        size, count = data.dtype.itemsize, rows.stop - rows.start
        try:
            with open(self.path, "rb") as file:
                held = os.fstat(file.fileno())
                if (held.st_dev, held.st_ino) != self.identity:
                    return np.asarray(data[rows])
                if data.flags.c_contiguous:
                    return self._read(file, rows.start * n_columns * size, count * n_columns).reshape(count, n_columns)
                columns = [self._read(file, (j * n_rows + rows.start) * size, count) for j in range(n_columns)]
                return np.array(columns, dtype=data.dtype).T
        except FileNotFoundError:
            return np.asarray(data[rows])

    def _read(self, file: Any, offset: int, count: int) -> Array:
        found = np.fromfile(file, dtype=self.data.dtype, count=count, offset=self.start + offset - file.tell())
        if len(found) < count:
            raise InvalidInputError(
                f"{self.path} was cut off while it was read: it has {os.fstat(file.fileno()).st_size} bytes, fewer "
                f"than its {len(self.data)} rows take. Write it again, to a new name while something reads the old one."
            )
        return found


def _identity(path: Any) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino
