"""Arrays and DataFrames in chunks of rows: memory maps, which are read a chunk at a time, above all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from manykernels.exceptions import InvalidInputError
from manykernels.grams.rows.base import CHUNK_ROWS, RowSource


class ArrayRows(RowSource):
    """Slices of an array, a memory map or a DataFrame.

    Parameters
    ----------
    data : (n, p) array or DataFrame
    chunk_rows : int, optional
    n_threads : int, default=1

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.grams.rows import ArrayRows
    >>> ArrayRows(np.zeros((10, 2)), chunk_rows=4)
    ArrayRows(10 rows x 2 columns in 3 chunks)
    """

    def __init__(self, data: Any, *, chunk_rows: int | None = None, n_threads: int = 1) -> None:
        if getattr(data, "ndim", 0) != 2 or 0 in data.shape:
            raise InvalidInputError(f"Rows come from a table with at least one row and column, got {type(data)}.")
        step = int(chunk_rows or CHUNK_ROWS)
        sizes = [min(step, len(data) - start) for start in range(0, len(data), step)]
        frame = isinstance(data, pd.DataFrame)
        super().__init__(sizes, tuple(data.columns) if frame else None, data.shape[1], n_threads)
        self._data, self._chunk_rows = data, chunk_rows

    def read(self, chunk: int, positions: Sequence[int]) -> Any:
        """Return columns of a slice.

        Parameters
        ----------
        chunk : int
        positions : sequence of int
        """
        rows = self.slice(chunk)
        if isinstance(self._data, pd.DataFrame):
            return self._data.iloc[rows, list(positions)]
        part = np.asarray(self._data[rows])
        return part if list(positions) == list(range(self.n_columns)) else part[:, list(positions)]

    def without(self, name: Any) -> ArrayRows:
        """Return the source without one of its columns.

        Parameters
        ----------
        name : object
        """
        if not isinstance(self._data, pd.DataFrame):
            raise InvalidInputError("The columns of an array have no names; give y as an array.")
        data = self._data.drop(columns=name)
        return ArrayRows(data, chunk_rows=self._chunk_rows, n_threads=self.n_threads)
