"""Parquet files in chunks of row groups, read column by column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.grams.rows.base import CHUNK_ROWS, RowSource

OTHER_FORMATS = (".csv", ".tsv", ".txt", ".json", ".xlsx", ".feather", ".npy", ".npz", ".h5")


class ParquetRows(RowSource):
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
            file = _opened(path)
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
        return [_opened(path) for path in self._paths]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_open"}

    def read(self, chunk: int, positions: Sequence[int]) -> Any:
        """Return columns of some row groups: an array where all are of one float type and complete."""
        number, groups, _ = self._chunks[chunk]
        assert self.columns is not None
        names = [self.columns[j] for j in positions]
        # A file handle is not to be shared between threads.
        file = self._open[number] if self.n_threads == 1 else _opened(self._paths[number])
        with _in_words(self._paths[number]):
            table = file.read_row_groups(groups, columns=names, use_threads=False).select(names)
        kinds = {str(field.type) for field in table.schema}
        if len(kinds) == 1 and kinds <= {"float", "double"} and not any(c.null_count for c in table.columns):
            out = np.empty((len(names), table.num_rows), dtype=np.float32 if kinds == {"float"} else np.float64)
            for j, column in enumerate(table.columns):
                out[j] = column.to_numpy()
            return out.T
        return table.to_pandas(ignore_metadata=False)[names].reset_index(drop=True)

    def without(self, name: object) -> ParquetRows:
        """Return the source without one of its columns."""
        assert self.columns is not None
        kept = [column for column in self.columns if column != name]
        return ParquetRows(self._paths, chunk_rows=self._chunk_rows, columns=kept, n_threads=self.n_threads)


def _opened(path: Path) -> Any:
    """Return a Parquet file, or say what is wrong with it."""
    parquet = _pyarrow()
    with _in_words(path):
        return parquet.ParquetFile(path)


@contextmanager
def _in_words(path: Path) -> Iterator[None]:
    """Turn what a damaged, vanished or other file raises into one sentence with its name."""
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
    """Return chunks of neighboring row groups of one file, as long as they stay below ``most`` rows."""
    chunks: list[tuple[int, list[int], int]] = []
    for number, group, size in groups:
        if chunks and chunks[-1][0] == number and chunks[-1][2] + size <= most:
            chunks[-1] = (number, [*chunks[-1][1], group], chunks[-1][2] + size)
        else:
            chunks.append((number, [group], size))
    return chunks


def _files(path: Any) -> list[Path]:
    """Return the files that are meant."""
    if not isinstance(path, (str, Path)):
        return [Path(one) for one in path]
    found = Path(path)
    files = sorted(found.glob("*.parquet")) if found.is_dir() else [found]
    if not files or not files[0].exists():
        raise InvalidInputError(f"There is no Parquet file at {path}.")
    return files


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise InvalidInputError(
            "Parquet files are read with the help of pyarrow. Install it with: python -m pip install "
            "'manykernels[parquet]'."
        ) from error
    return parquet
