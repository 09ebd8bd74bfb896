"""What a user gives for rows, as a source of chunks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from manykernels.exceptions import InvalidInputError
from manykernels.grams.rows.base import CHUNK_ROWS, RowSource
from manykernels.grams.rows.dask import DaskRows
from manykernels.grams.rows.mapped import MappedFile
from manykernels.grams.rows.parquet import ParquetRows
from manykernels.validation.arrays import Array

# Arrays and DataFrames in chunks of rows: memory maps, which are read a chunk at a time, above all.


class ArrayRows(RowSource):
    """Slices of an array, a memory map or a DataFrame; those of a map are read from its file.

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
        self._data, self._chunk_rows, self._file = data, chunk_rows, MappedFile.of(data)

    def read(self, chunk: int, positions: Sequence[int]) -> Any:
        """Return columns of a slice."""
        rows = self.slice(chunk)
        if isinstance(self._data, pd.DataFrame):
            return self._data.iloc[rows, list(positions)]
        part = np.asarray(self._data[rows]) if self._file is None else self._file.rows(rows)
        return part if list(positions) == list(range(self.n_columns)) else part[:, list(positions)]

    def without(self, name: object) -> ArrayRows:
        """Return the source without one of its columns."""
        if not isinstance(self._data, pd.DataFrame):
            raise InvalidInputError("The columns of an array have no names; give y as an array.")
        data = self._data.drop(columns=name)
        return ArrayRows(data, chunk_rows=self._chunk_rows, n_threads=self.n_threads)


def is_chunked(X: object) -> bool:
    """Return whether a table is to be read in chunks: a source, a memory map, a file or folder, a Dask collection."""
    return isinstance(X, (RowSource, np.memmap, str, Path)) or _is_dask(X)


def open_rows(X: object, *, chunk_rows: int | None = None, n_threads: int = 1) -> RowSource:
    """Return rows in chunks, for fits and predictions that never hold the table.

    Parameters
    ----------
    X : RowSource, array, memory map, DataFrame, path, Dask array or Dask data frame
        A path is a Parquet file, or a folder of them.
    chunk_rows : int, optional
        Rows of a chunk; those of a Dask collection are its partitions.
    n_threads : int, default=1
        Chunks that are read and summed at once; Dask has its own workers.

    Returns
    -------
    RowSource
        To be given to `solve` as ``X``, and to the methods of its solution, in place of a table.

    Raises
    ------
    InvalidInputError
        If there is nothing to read, or what reads it is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import open_rows
    >>> open_rows(np.zeros((1000, 3)), chunk_rows=256)
    ArrayRows(1000 rows x 3 columns in 4 chunks)
    """
    if isinstance(X, RowSource):
        return X
    if isinstance(X, (str, Path)):
        return ParquetRows(X, chunk_rows=chunk_rows, n_threads=n_threads)
    if _is_dask(X):
        return DaskRows(X)
    data = X if hasattr(X, "shape") else np.asarray(X)
    return ArrayRows(data, chunk_rows=chunk_rows, n_threads=n_threads)


def with_target(X: object, y: Any) -> tuple[RowSource, Any]:
    """Return rows in chunks and their target, which may be the name of one of their columns."""
    source = open_rows(X)
    if not isinstance(y, str):
        if isinstance(source, DaskRows):
            return source, y
        return source, np.asarray(y.compute() if _is_dask(y) else y)
    if source.columns is None or y not in source.columns:
        raise InvalidInputError(f"The rows have no column {y!r} to take for y; they have {source.columns}.")
    place = source.columns.index(y)
    if isinstance(source, DaskRows):
        return source.without(y), source.hold(_only_column, [place])
    return source.without(y), np.concatenate(list(source.map(_only_column, [place])))


def _only_column(data: object) -> Array:
    return np.asarray(data)[:, 0]


def _is_dask(X: object) -> bool:
    """Return whether something is a Dask collection, without importing Dask."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "dask")
