"""Input rows as a source of chunks: Parquet files, memory maps, arrays and DataFrames."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pandas as pd

from manykernels.exceptions import InvalidInputError, optional_module
from manykernels.grams.rows.base import CHUNK_ROWS, RowSource
from manykernels.grams.rows.dask import DaskRows
from manykernels.validation.arrays import Array
from manykernels.validation.parameters import WithoutCaches

# Parquet files in chunks of row groups, read column by column.


OTHER_FORMATS = (".csv", ".tsv", ".txt", ".json", ".xlsx", ".feather", ".npy", ".npz", ".h5")


class ParquetRows(WithoutCaches, RowSource):
    """Row groups of one Parquet file or of all in a folder; small ones are read together.

    Parameters
    ----------
    path : str, Path or sequence of these
        Files, or a folder whose ``*.parquet`` files are taken in the order of their names.
    chunk_rows : int, optional
        Row groups are put together while a chunk has no more rows than that; a group is never divided.
    columns : sequence of str, optional
        The columns of the table, all by default.
    n_threads : int, default=1

    Raises
    ------
    InvalidInputError
        If pyarrow is missing, there is no such file, or files differ in their columns.
    """

    def __init__(
        self,
        path: object,
        *,
        chunk_rows: int | None = None,
        columns: Sequence[str] | None = None,
        n_threads: int = 1,
    ) -> None:
        self._paths, self._chunk_rows = _files(path), chunk_rows
        groups, names = self._groups()
        chosen = names if columns is None else tuple(columns)
        if set(chosen) - set(names):
            raise InvalidInputError(f"{self._paths[0]} has no columns {sorted(set(chosen) - set(names))[:5]}.")
        self._chunks = _together(groups, int(chunk_rows or CHUNK_ROWS))
        super().__init__([size for _, _, size in self._chunks], chosen, len(chosen), n_threads)

    def _groups(self) -> tuple[list[tuple[int, int, int]], tuple[str, ...]]:
        """Return file, number and rows of every row group, and the names of the columns."""
        found: list[tuple[int, int, int]] = []
        names: tuple[str, ...] | None = None
        for number, path in enumerate(self._paths):
            file = _open_files(path)
            own = tuple(name for name in file.schema_arrow.names if not name.startswith("__index_level_"))
            if names not in (None, own):
                raise InvalidInputError(f"{path} has other columns than {self._paths[0]}; read them apart.")
            names = own
            metadata = file.metadata
            found += [(number, g, metadata.row_group(g).num_rows) for g in range(metadata.num_row_groups)]
        if not sum(size for _, _, size in found):
            raise InvalidInputError(f"{self._paths[0]} has no rows.")
        return found, names or ()

    @cached_property
    def _open(self) -> list[Any]:
        return [_open_files(path) for path in self._paths]

    def read(self, chunk: int, positions: Sequence[int]) -> Any:
        """Return columns of some row groups: an array for complete columns of equal float type."""
        number, groups, _ = self._chunks[chunk]
        assert self.columns is not None
        names = [self.columns[j] for j in positions]
        # A file handle is not to be shared between threads.
        file = self._open[number] if self.n_threads == 1 else _open_files(self._paths[number])
        with _explain_file_errors(self._paths[number]):
            table = file.read_row_groups(groups, columns=names, use_threads=False).select(names)
        kinds = {str(field.type) for field in table.schema}
        if len(kinds) == 1 and kinds <= {"float", "double"} and not any(c.null_count for c in table.columns):
            out = np.empty((len(names), table.num_rows), dtype=np.float32 if kinds == {"float"} else np.float64)
            for j, column in enumerate(table.columns):
                out[j] = column.to_numpy()
            return out.T
        return table.to_pandas(ignore_metadata=False)[names].reset_index(drop=True)

    def whole_column(self, position: int) -> pd.Series:
        """Return a single column of all rows, read by pandas from the files."""
        arrow = optional_module("pyarrow", "Parquet files need pyarrow.", "parquet", InvalidInputError)
        assert self.columns is not None
        name, parts = self.columns[position], []
        for path in self._paths:
            with _explain_file_errors(path):
                parts.append(_open_files(path).read(columns=[name], use_threads=False))
        with _explain_file_errors(self._paths[0]):
            table = arrow.concat_tables(parts).unify_dictionaries()
            return table.to_pandas(ignore_metadata=False)[name].reset_index(drop=True)

    def drop_column(self, name: object) -> ParquetRows:
        assert self.columns is not None
        kept = [column for column in self.columns if column != name]
        return ParquetRows(self._paths, chunk_rows=self._chunk_rows, columns=kept, n_threads=self.n_threads)


def _open_files(path: Path) -> Any:
    """Return an opened Parquet file, or raise an error with the reason."""
    parquet = optional_module("pyarrow.parquet", "Parquet files need pyarrow.", "parquet", InvalidInputError)
    with _explain_file_errors(path):
        return parquet.ParquetFile(path)


@contextmanager
def _explain_file_errors(path: Path) -> Iterator[None]:
    """Translate errors of a damaged, vanished or foreign file into a sentence with the name."""
    try:
        yield
    except (OSError, ValueError, EOFError) as error:  # errors of Arrow are one or the other
        if not path.exists():
            why = "it is not there any more"
        elif path.suffix.lower() in OTHER_FORMATS:
            why = f"a {path.suffix} file is no Parquet file: read it with pandas, and write it with to_parquet"
        else:
            why = f"it is cut off, damaged or of another format ({str(error).splitlines()[0]})"
        raise InvalidInputError(f"{path} cannot be read as Parquet: {why}.") from error


def _together(groups: list[tuple[int, int, int]], most: int) -> list[tuple[int, list[int], int]]:
    """Return chunks of neighboring row groups of a single file, up to ``most`` rows."""
    chunks: list[tuple[int, list[int], int]] = []
    for number, group, size in groups:
        if chunks and chunks[-1][0] == number and chunks[-1][2] + size <= most:
            chunks[-1] = (number, [*chunks[-1][1], group], chunks[-1][2] + size)
        else:
            chunks.append((number, [group], size))
    return chunks


def _files(path: Any) -> list[Path]:
    """Return the requested files."""
    if not isinstance(path, (str, Path)):
        return [Path(one) for one in path]
    found = Path(path)
    files = sorted(found.glob("*.parquet")) if found.is_dir() else [found]
    if not files or not files[0].exists():
        raise InvalidInputError(f"There is no Parquet file at {path}.")
    return files


# Rows of a memory map, read from its file.
#
# A page of a map that its file no longer holds ends the process with SIGBUS, which nobody can catch: a file that is cut
# off while a fit reads it took the fit with it. Reading the same bytes from the file ends in an error instead.


class MappedFile(NamedTuple):
    """Where the entries of a memory map lie in the file."""

    path: Path
    identity: tuple[int, int]  # of the file that was there when the rows were opened
    start: int  # byte of the first entry
    data: np.memmap[Any, Any]

    @classmethod
    def locate(cls, data: object) -> MappedFile | None:
        """Return the location of a read-only map; None for other arrays, and for layouts with gaps between rows."""
        if not isinstance(data, np.memmap) or getattr(data, "mode", None) != "r" or data.filename is None:
            return None
        whole = getattr(data, "_mmap", None)
        if whole is None or not (data.flags.c_contiguous or data.flags.f_contiguous):
            return None
        # The offset of a part of a map is that of the whole: addresses tell where the part begins.
        first = data.offset - data.offset % mmap.ALLOCATIONGRANULARITY
        start = first + data.ctypes.data - np.frombuffer(whole, dtype=np.uint8).ctypes.data
        try:
            found = os.stat(data.filename)
            return cls(Path(data.filename), (found.st_dev, found.st_ino), start, data)
        except OSError:
            return None  # deleted: the map is all that is left of it, and nobody can cut it off

    def rows(self, rows: slice) -> Array:
        """Return some rows, (n, p), from the file; from the map where another file has the name by now."""
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

    def _read(self, file: BinaryIO, offset: int, count: int) -> Array:
        found = np.fromfile(file, dtype=self.data.dtype, count=count, offset=self.start + offset - file.tell())
        if len(found) < count:
            raise InvalidInputError(
                f"{self.path} was cut off while it was read: it has {os.fstat(file.fileno()).st_size} bytes, fewer "
                f"than its {len(self.data)} rows take. Write it again, to a new name while something reads the old one."
            )
        return found


# Arrays and DataFrames in chunks of rows: memory maps, which are read a chunk at a time, above all.


class ArrayRows(RowSource):
    """Slices of an array, a memory map or a DataFrame; those of a map are read from the file.

    Parameters
    ----------
    data : (n, p) array or DataFrame
    chunk_rows : int, optional
    n_threads : int, default=1

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.grams.rows.opening import ArrayRows
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
        self._data, self._chunk_rows, self._file = data, chunk_rows, MappedFile.locate(data)

    def read(self, chunk: int, positions: Sequence[int]) -> Any:
        """Return columns of a slice."""
        rows = self.slice(chunk)
        if isinstance(self._data, pd.DataFrame):
            return self._data.iloc[rows, list(positions)]
        part = np.asarray(self._data[rows]) if self._file is None else self._file.rows(rows)
        return part if list(positions) == list(range(self.n_columns)) else part[:, list(positions)]

    def whole(self, used: Sequence[int]) -> Any:
        """Return the data, in memory unless a map."""
        return super().whole(used) if isinstance(self._data, np.memmap) else self._data

    def drop_column(self, name: object) -> ArrayRows:
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
        Rows of a chunk; those of a Dask collection are the partitions.
    n_threads : int, default=1
        Chunks read and summed at once; Dask has the respective workers.

    Returns
    -------
    RowSource
        To be given to `solve` as ``X``, and to the methods of the solution, in place of a table.

    Raises
    ------
    InvalidInputError
        For empty input, or a missing reader.

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
    """Return rows in chunks with their target, possibly given as a column name."""
    source = open_rows(X)
    if not isinstance(y, str):
        if isinstance(source, DaskRows):
            return source, y
        return source, np.asarray(y.compute() if _is_dask(y) else y)
    if source.columns is None or y not in source.columns:
        raise InvalidInputError(f"The rows have no column {y!r} to take for y; they have {source.columns}.")
    place = source.columns.index(y)
    if isinstance(source, DaskRows):
        return source.drop_column(y), source.hold(_only_column, [place])
    return source.drop_column(y), np.concatenate(list(source.map(_only_column, [place])))


def _only_column(data: object) -> Array:
    return np.asarray(data)[:, 0]


def _is_dask(X: object) -> bool:
    """Return whether something is a Dask collection, without importing Dask."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "dask")
