"""Dask arrays and data frames: functions travel to the partitions, and vectors stay beside the rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd

from manykernels.exceptions import InvalidInputError, optional_module
from manykernels.grams.rows.base import Mapped, RowSource, add
from manykernels.grams.rows.vectors import Held, Program, RowVector
from manykernels.validation.arrays import Array


class DaskRows(RowSource):
    """Partitions of a Dask data frame, or blocks of rows of a Dask array.

    Whatever scheduler is in force does the work: threads by default, the cluster of a ``distributed.Client`` if any.
    Partitions not persisted are made anew for every pass. What is lost with a worker is made again.

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
        self._parts = list(data.to_delayed() if frame else _blocks(data.rechunk({1: -1}))[:, 0])
        names = tuple(data.columns) if frame else None
        layer = _Layer()
        for part in self._parts:
            layer.add(len, part)
        sizes = _computed(*layer.delayed())
        super().__init__(sizes, names, len(names) if names is not None else int(data.shape[1]))

    def _layer(
        self,
        function: Mapped,
        positions: Sequence[int] | None,
        vectors: Sequence[Any],
        chunks: Sequence[int] | None = None,
    ) -> _Layer:
        """Return a task per chunk; a possibly large function travels to every worker once."""
        program, held = Program.create([self._cut(vector) for vector in vectors])
        work = partial(_apply_to_columns, function, program, None if positions is None else list(positions))
        layer = _Layer()
        for c in range(self.n_chunks) if chunks is None else chunks:
            parts = [own.parts[c] for own in held]
            if positions is None:
                layer.add(work, None, *parts)
            else:
                layer.add(_call, layer.once(work), self._parts[c], *parts)
        return layer

    def _cut(self, vector: object) -> Any:
        """Return a local vector cut into parts; distributed vectors are already in parts."""
        if not isinstance(vector, np.ndarray):
            return vector
        return Held([np.ascontiguousarray(vector[self.slice(c)]) for c in range(self.n_chunks)])

    def read(self, chunk: int, positions: Sequence[int]) -> Any:
        """Return columns of a partition, brought here."""
        return next(self.map(_itself, positions, chunks=[chunk]))

    def whole(self, used: Sequence[int]) -> Any:
        """Return all rows as a table in the process, with zeros in columns not used."""
        if self.columns is None:
            return np.asfortranarray(_computed(self._data)[0])
        found = _computed(self._data.iloc[:, list(used)])[0].reset_index(drop=True)
        place = {j: at for at, j in enumerate(used)}
        columns = {
            name: found.iloc[:, place[j]] if j in place else np.zeros(self.n_rows)
            for j, name in enumerate(self.columns)
        }
        return pd.DataFrame(columns, copy=False)

    def map(
        self,
        function: Mapped,
        positions: Sequence[int] | None,
        vectors: Sequence[Any] = (),
        chunks: Sequence[int] | None = None,
    ) -> Iterator[Any]:
        """Yield ``function(data, *slices)`` for every partition, in their order."""
        yield from _computed(*self._layer(function, positions, vectors, chunks).delayed())

    def reduce(
        self,
        function: Mapped,
        positions: Sequence[int] | None,
        vectors: Sequence[Any] = (),
        combine: Callable[[Any, Any], Any] | None = None,
    ) -> Any:
        """Return the combined result of a tree reduction on the workers."""
        layer, together = self._layer(function, positions, vectors), partial(_combined, combine or add)
        keys = list(layer.keys)
        fan_in = 8  # results that are added up at a time; the tree depends on the partitions only, not on who works
        while len(keys) > 1:
            keys = [layer.add(together, keys[at : at + fan_in]) for at in range(0, len(keys), fan_in)]
        return _computed(*layer.delayed(keys))[0]

    def hold(self, function: Mapped, positions: Sequence[int] | None, vectors: Sequence[Any] = ()) -> RowVector:
        """Return the vector whose parts are ``function(data, *slices)``; they stay where computed.

        Dask makes a part that is lost again, from the partition and the parts of the vectors.
        """
        return RowVector(self, Held(_dask().persist(*self._layer(function, positions, vectors).delayed())))

    def share(self, thing: object) -> Held:
        """Return a wrapper that passes the same object to the functions of all partitions, kept on the workers."""
        layer = _Layer()
        layer.add(_itself, thing)
        return Held(list(_dask().persist(*layer.delayed())) * self.n_chunks)

    def vector(self, values: Any) -> RowVector:
        """Return a vector in parts beside the parts of the rows."""
        if isinstance(values, RowVector):
            return values
        if not hasattr(values, "dask"):
            values = np.asarray(values)
            self._check_length(values.shape)
            with warnings.catch_warnings():
                # Dask would rather be told where the array is; it travels once, and again to who takes over a part.
                warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
                return self.hold(_second, None, [values])
        array = values.to_dask_array(lengths=True) if hasattr(values, "to_dask_array") else values
        if np.isnan(array.shape[0]):
            array = array.compute_chunk_sizes()
        self._check_length(array.shape)
        sizes = tuple(np.diff(self.starts).tolist())
        array = array if array.chunks[0] == sizes else array.rechunk((sizes,))
        return self.hold(_second, None, [Held(_blocks(array))])

    def _check_length(self, shape: tuple[Any, ...]) -> None:
        if shape != (self.n_rows,):
            raise InvalidInputError(f"There are {self.n_rows} rows, but y or sample_weight is of shape {shape}.")

    def drop_column(self, name: object) -> DaskRows:
        if self.columns is None:
            raise InvalidInputError("The columns of an array have no names; give y as an array.")
        return DaskRows(self._data.drop(columns=name))


class _Layer:
    """Tasks of a kind, as a layer of a Dask graph, without the argument traversal of `dask.delayed`."""

    def __init__(self) -> None:
        self.name = f"manykernels-{uuid4().hex}"
        self.keys: list[Any] = []
        self._tasks: dict[Any, Any] = {}
        self._needed: list[Any] = []

    def add(self, function: object, *arguments: Any) -> Any:
        """Add a task and return the key; arguments are delayed objects, lists of keys, or serializable objects."""
        needed = [argument for argument in arguments if hasattr(argument, "__dask_graph__")]
        self._needed += needed
        key = (self.name, len(self.keys))
        self._tasks[key] = (function, *(one.key if hasattr(one, "__dask_graph__") else one for one in arguments))
        self.keys.append(key)
        return key

    def once(self, thing: object) -> Any:
        """Return the key of an object shared by tasks, passed between workers on demand."""
        key = (self.name, "shared")
        self._tasks.setdefault(key, (_itself, thing))
        return key

    def delayed(self, keys: Sequence[Any] | None = None) -> list[Any]:
        """Return tasks as delayed objects on a common graph, by default all."""
        from dask.delayed import Delayed
        from dask.highlevelgraph import HighLevelGraph

        graph = HighLevelGraph.from_collections(self.name, self._tasks, dependencies=self._needed)
        return [Delayed(key, graph, layer=self.name) for key in (self.keys if keys is None else keys)]


def _apply_to_columns(
    function: Mapped, program: Program, positions: list[int] | None, data: object, *parts: object
) -> Any:
    """Apply a function to some columns of a partition and to vectors; runs where the partition is."""
    chosen = None
    if positions is not None:
        chosen = data.iloc[:, positions] if hasattr(data, "iloc") else np.asarray(data)[:, positions]
    return function(chosen, *program(parts))


def _call(function: Callable[..., Any], *arguments: object) -> Any:
    return function(*arguments)


def _blocks(array: Any) -> Any:
    """Return the blocks of a Dask array, without graph optimization, which would lose futures of a cluster."""
    return array.to_delayed(optimize_graph=False)


def _itself(data: object) -> Any:
    return data


def _second(_: object, part: object) -> Array:
    return np.asarray(part)


def _combined(combine: Callable[[Any, Any], Any], results: list[Any]) -> Any:
    """Combine some results in their order."""
    total = results[0]
    for result in results[1:]:
        total = combine(total, result)
    return total


def _computed(*delayed: object) -> Any:
    """Return the computed results of Dask; unreadable partitions raise an error in words."""
    try:
        return _dask().compute(*delayed)
    except Exception as error:
        if isinstance(error, OSError) or type(error).__module__.split(".")[0] == "pyarrow":
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InvalidInputError(
                f"A partition of the Dask rows cannot be read ({said}): files behind it were moved, cut off or changed "
                "since it was opened. Open the collection again."
            ) from error
        raise


def _dask() -> Any:
    return optional_module("dask", "Dask is not installed.", "dask", InvalidInputError)
