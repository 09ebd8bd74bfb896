"""What a user gives for rows, as a source of chunks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.grams.rows.arrays import ArrayRows
from manykernels.grams.rows.base import RowSource
from manykernels.grams.rows.dask import DaskRows
from manykernels.grams.rows.parquet import ParquetRows
from manykernels.validation.arrays import Array


def is_chunked(X: Any) -> bool:
    """Return whether a table is to be read in chunks: a source, a memory map, a file or folder, a Dask collection.

    Parameters
    ----------
    X : object

    Returns
    -------
    bool
    """
    return isinstance(X, (RowSource, np.memmap, str, Path)) or _is_dask(X)


def open_rows(X: Any, *, chunk_rows: int | None = None, n_threads: int = 1) -> RowSource:
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
        To be given to `solve_factored`, and to the methods of its model, in place of a table.

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


def with_target(X: Any, y: Any) -> tuple[RowSource, Any]:
    """Return rows in chunks and their target, which may be the name of one of their columns.

    Parameters
    ----------
    X : what `open_rows` takes
    y : str, array_like or Dask array
        A column of that name is read, and is none of the rows any more.

    Returns
    -------
    RowSource
    ndarray of shape (n_rows,), RowVector or Dask collection
        What is on workers stays there.

    Raises
    ------
    InvalidInputError
        If there is no such column.
    """
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


def _only_column(data: Any) -> Array:
    return np.asarray(data)[:, 0]


def _is_dask(X: Any) -> bool:
    """Return whether something is a Dask collection, without importing Dask."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "dask")
