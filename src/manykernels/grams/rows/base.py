"""Interface of a source of rows: chunks read by columns, and a map with sums in a fixed order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import DTypeLike
from pandas.api.types import union_categoricals

from manykernels.exceptions import InvalidInputError
from manykernels.grams.rows.vectors import Held
from manykernels.validation.arrays import Array

CHUNK_ROWS = 2**18
"""Rows of a chunk where the source does not say: 1 MB a float32 column."""

Mapped = Callable[..., Any]


class RowSource(ABC):
    """Rows of a table in chunks; nothing is read before it is asked for.

    A subclass supplies ``read`` and calls ``__init__``.

    Parameters
    ----------
    sizes : sequence of int
        Rows of every chunk.
    columns : sequence or None
        Names of the columns; None for an array.
    n_columns : int
    n_threads : int, default=1
        Chunks read and mapped at once.

    Attributes
    ----------
    n_rows, n_columns, n_chunks : int
    columns : tuple or None
    starts : (n_chunks + 1,) int
        Rows ``starts[c]:starts[c + 1]`` are chunk ``c``.
    distributed : bool
        Whether chunks live elsewhere, so functions go to them.
    """

    distributed: bool = False

    def __init__(self, sizes: Sequence[int], columns: Sequence[Any] | None, n_columns: int, n_threads: int = 1) -> None:
        self.starts = np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))])
        self.columns = None if columns is None else tuple(columns)
        self.n_columns, self.n_threads = int(n_columns), int(n_threads)

    @property
    def n_rows(self) -> int:
        """Rows of all chunks."""
        return int(self.starts[-1])

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return len(self.starts) - 1

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_rows} rows x {self.n_columns} columns in {self.n_chunks} chunks)"

    def __array__(self, dtype: DTypeLike | None = None, copy: object = None) -> NoReturn:
        """Reject the conversion to a single array, against accidental full reads."""
        raise InvalidInputError(
            f"{self!r} are rows in chunks, which only solve reads: call solve(bank, y, X=rows, ...). Estimators need "
            f"a table or an array in memory."
        )

    @abstractmethod
    def read(self, chunk: int, positions: Sequence[int]) -> Any:
        """Return columns of a chunk as a DataFrame or an array, (n, len(positions))."""

    @abstractmethod
    def drop_column(self, name: object) -> RowSource:
        """Return the source without a column."""

    def sample(self, rows: int = 1000) -> Any:
        """Return about so many rows, spread evenly over all chunks."""
        step = max(self.n_rows // rows, 1)
        starts = Held([int(-start % step) for start in self.starts[:-1]])
        return join_rows(list(self.map(partial(_every, step), range(self.n_columns), (starts,))))

    def whole(self, used: Sequence[int]) -> Any:
        """Return all rows as a table in memory: a DataFrame if columns have names, else an array.

        The columns not used are zeros, which take no memory until somebody writes to them.
        """
        if self.columns is None:
            return self._whole_array(used)
        chosen = set(used)
        columns = {
            name: self.whole_column(j) if j in chosen else np.zeros(self.n_rows) for j, name in enumerate(self.columns)
        }
        return pd.DataFrame(columns, copy=False)

    def _whole_array(self, used: Sequence[int]) -> Array:
        """Return all rows of an array, chunk after chunk, with at most a single chunk in memory twice."""
        out: Any = None
        for chunk, part in enumerate(self.map(_itself, used)):
            if out is None:
                out = np.zeros((self.n_columns, self.n_rows), dtype=part.dtype).T
            rows = self.slice(chunk)
            for place, j in enumerate(used):
                out[rows, j] = part[:, place]
        return out

    def whole_column(self, position: int) -> pd.Series:
        """Return a single column of all rows."""
        parts = [pd.DataFrame(part) for part in self.map(_itself, [position])]
        return join_rows(parts).iloc[:, 0]

    def slice(self, chunk: int) -> slice:
        """Return the rows of a chunk."""
        return slice(int(self.starts[chunk]), int(self.starts[chunk + 1]))

    def map(
        self,
        function: Mapped,
        positions: Sequence[int],
        vectors: Sequence[Array | Held] = (),
        chunks: Sequence[int] | None = None,
    ) -> Iterator[Any]:
        """Yield ``function(data, *slices)`` for every chunk, in their order."""
        chosen = range(self.n_chunks) if chunks is None else chunks

        def work(chunk: int) -> Any:
            rows = self.slice(chunk)
            slices = (own.parts[chunk] if isinstance(own, Held) else own[rows] for own in vectors)
            return function(self.read(chunk, positions), *slices)

        if self.n_threads == 1:
            yield from map(work, chosen)
            return
        with ThreadPoolExecutor(self.n_threads) as pool:
            waiting: deque[Future[Any]] = deque()
            for chunk in chosen:
                waiting.append(pool.submit(work, chunk))
                if len(waiting) > self.n_threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def share(self, thing: object) -> Held:
        """Return a wrapper that passes the same object to the functions of all chunks."""
        return Held([thing] * self.n_chunks)

    def reduce(
        self,
        function: Mapped,
        positions: Sequence[int],
        vectors: Sequence[Array] = (),
        combine: Callable[[Any, Any], Any] | None = None,
    ) -> Any:
        """Return the combined results of `map`, in the order of the chunks: by default their sum."""
        total = None
        for part in self.map(function, positions, vectors):
            total = part if total is None else (combine or add)(total, part)
        return total


def _every(step: int, data: Any, start: int) -> Any:
    return data[start::step]


def _itself(data: Any) -> Any:
    return data


def join_rows(parts: list[Any]) -> Any:
    """Return the rows of several parts of a table; categorical columns get the categories of all parts."""
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    frames = [part for part in parts if len(part)] or parts[:1]
    out = pd.concat(frames, ignore_index=True)
    for place, name in enumerate(out.columns):
        columns = [frame.iloc[:, place] for frame in frames]
        unordered = all(isinstance(own.dtype, pd.CategoricalDtype) and not own.cat.ordered for own in columns)
        if unordered and len({own.dtype for own in columns}) > 1:
            out[name] = union_categoricals(columns)
    return out


def add(first: Any, second: Any) -> Any:
    """Return the sum of two results: of arrays or numbers, or item by item of lists of results."""
    if isinstance(first, (list, tuple)):
        return [add(one, other) for one, other in zip(first, second, strict=True)]
    if isinstance(first, np.ndarray):
        return np.add(first, second)
    return first + second
