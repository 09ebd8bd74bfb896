"""Dask arrays and data frames: their partitions stay where they are, functions and vectors go to them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.grams.rows.base import Mapped, RowSource, add
from manykernels.validation.arrays import Array

FAN_IN = 8  # results that are added up at a time; the tree depends on the partitions only, not on who works


class DaskRows(RowSource):
    """Partitions of a Dask data frame, or blocks of rows of a Dask array.

    Whatever scheduler is in force does the work: threads by default, the cluster of a ``distributed.Client`` if there
    is one. Partitions that are not persisted are made anew for every pass. What is lost with a worker is made again.

    Parameters
    ----------
    data : dask.dataframe.DataFrame or dask.array.Array
    """

    distributed = True

    def __init__(self, data: Any) -> None:
        self._data = data
        frame = hasattr(data, "to_delayed") and hasattr(data, "map_partitions")
        if not frame and (data.ndim != 2 or np.isnan(data.shape[1])):
            raise InvalidInputError(f"A Dask array of rows has two dimensions and a known width, got {data!r}.")
        self._parts = list(data.to_delayed() if frame else data.rechunk({1: -1}).to_delayed()[:, 0])
        names = tuple(data.columns) if frame else None
        sizes = self._compute([_delayed(len)(part) for part in self._parts])
        super().__init__(sizes, names, len(names) if names is not None else int(data.shape[1]))

    def _compute(self, tasks: Sequence[Any]) -> list[Any]:
        with warnings.catch_warnings():
            # Vectors travel with the tasks: they are needed once, and a worker that takes over gets them again.
            warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
            return list(_dask().compute(*tasks))

    def _tasks(
        self,
        function: Mapped,
        positions: Sequence[int],
        vectors: Sequence[Array],
        chunks: Sequence[int] | None = None,
    ) -> list[Any]:
        work, chosen = _delayed(_on_columns), list(positions)
        return [
            work(function, self._parts[c], chosen, *(np.ascontiguousarray(vector[self.slice(c)]) for vector in vectors))
            for c in (range(self.n_chunks) if chunks is None else chunks)
        ]

    def read(self, chunk: int, positions: Sequence[int]) -> Any:
        """Return columns of a partition, brought here.

        Parameters
        ----------
        chunk : int
        positions : sequence of int
        """
        return self._compute([_delayed(_on_columns)(_itself, self._parts[chunk], list(positions))])[0]

    def map(
        self,
        function: Mapped,
        positions: Sequence[int],
        vectors: Sequence[Array] = (),
        chunks: Sequence[int] | None = None,
    ) -> Iterator[Any]:
        """Yield ``function(data, *slices)`` for every partition, in their order.

        Parameters
        ----------
        function : callable
        positions : sequence of int
        vectors : sequence of (n_rows, ...) arrays
        chunks : sequence of int, optional
            Some of the partitions only.

        Returns
        -------
        iterator
        """
        yield from self._compute(self._tasks(function, positions, vectors, chunks))

    def reduce(
        self,
        function: Mapped,
        positions: Sequence[int],
        vectors: Sequence[Array] = (),
        combine: Callable[[Any, Any], Any] | None = None,
    ) -> Any:
        """Return what the results combine to, by a tree on the workers: one result travels.

        Parameters
        ----------
        function : callable
        positions : sequence of int
        vectors : sequence of (n_rows, ...) arrays
        combine : callable, optional

        Returns
        -------
        object
        """
        tasks, together = self._tasks(function, positions, vectors), _delayed(_combined)
        while len(tasks) > 1:
            tasks = [together(combine or add, tasks[at : at + FAN_IN]) for at in range(0, len(tasks), FAN_IN)]
        return self._compute(tasks)[0]

    def without(self, name: Any) -> DaskRows:
        """Return the source without one of its columns.

        Parameters
        ----------
        name : object
        """
        if self.columns is None:
            raise InvalidInputError("The columns of an array have no names; give y as an array.")
        return DaskRows(self._data.drop(columns=name))


def _on_columns(function: Mapped, data: Any, positions: list[int], *vectors: Array) -> Any:
    """Apply a function to some columns of a partition; runs where the partition is."""
    chosen = data.iloc[:, positions] if hasattr(data, "iloc") else np.asarray(data)[:, positions]
    return function(chosen, *vectors)


def _itself(data: Any) -> Any:
    return data


def _combined(combine: Callable[[Any, Any], Any], results: list[Any]) -> Any:
    """Combine some results in their order."""
    total = results[0]
    for result in results[1:]:
        total = combine(total, result)
    return total


def _delayed(function: Any) -> Any:
    # Not pure: otherwise arguments are hashed, vectors among them.
    return _dask().delayed(function, pure=False)


def _dask() -> Any:
    try:
        import dask
    except ImportError as error:
        raise InvalidInputError(
            "Dask is not installed. Install it with: python -m pip install 'manykernels[dask]'."
        ) from error
    return dask
