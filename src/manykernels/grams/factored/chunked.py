"""A table with rows read in chunks, for sums over rows with bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd

from manykernels.grams.factored.operators import FUSED_RANK, ChunkedOperator
from manykernels.grams.rows.base import RowSource
from manykernels.grams.rows.columns import GAP, ColumnTable, Reading, RowIndex
from manykernels.grams.rows.dask import DaskRows
from manykernels.grams.rows.opening import is_chunked, open_rows
from manykernels.grams.rows.vectors import Held, RowVector
from manykernels.kernels import KernelSpec, ObjectKernel
from manykernels.kernels.bank.bank import ROBUST
from manykernels.kernels.bank.columns import NUMBERS, Table
from manykernels.kernels.bank.normalization import column_summaries
from manykernels.kernels.specs.objects import FeatureRows
from manykernels.kernels.tables.encoding import Encoding, distinct_levels
from manykernels.kernels.tables.kinds import READ_AS, kind_of, kind_of_dtype
from manykernels.kernels.tables.tails import has_many_values, reaches_far, tails_of
from manykernels.validation.arrays import Array, TableLike


class ChunkedTable(ColumnTable):
    """Rows in chunks, under the interface of a table in memory.

    Parameters
    ----------
    source : RowSource
    header : Table
        The first rows, which determine the kinds of columns.
    standardize : bool or "robust", default=False
    missing : {"error", "mask", "indicator"}, default="error"
    used : sequence of int, optional
        The columns that kernels read.
    carried : mapping of int to bool
        The columns of objects that kernels read unchanged, and whether nothing else reads them.
    """

    chunked = True
    nbytes = 0  # nothing is held
    _places: Sequence[int]  # of its columns in the source

    def __init__(
        self,
        source: RowSource,
        header: Table,
        *,
        standardize: bool | str = False,
        missing: str = "error",
        used: Sequence[int] | None = None,
        carried: Mapping[int, bool] | None = None,
    ) -> None:
        self.source, self.missing, self.names = source, missing, source.columns
        self.carried = dict(carried or {})
        self.n_rows, self.n_columns, self._places = source.n_rows, source.n_columns, range(source.n_columns)
        self.used = tuple(range(source.n_columns)) if used is None else tuple(used)
        kinds = {j: "objects" if self.carried.get(j) else header.kind(j) for j in self.used}
        learned = source.reduce(partial(_summaries, [kinds[j] for j in self.used]), self.used, combine=_merge)
        self.encodings, self.objects = (), {}
        if self.names is not None:
            known = {j: Encoding(kinds[j], tuple(own.levels)) for j, own in zip(self.used, learned, strict=True)}
            self.encodings = tuple(known.get(j, NUMBERS) for j in range(self.n_columns))
        self._learned = dict(zip(self.used, learned, strict=True))
        self._settle(standardize)

    @classmethod
    def open_like(cls, model: ColumnTable, source: RowSource) -> ChunkedTable:
        """Return the rows of a source in the units of a fitted table; columns go by name where both have names."""
        table = cls.copy_units(model)
        table.source, table.n_rows, table.objects = source, source.n_rows, {}
        table._places = model.places(source.columns, source.n_columns)
        return table

    def _locate_columns(self, positions: Sequence[int]) -> list[int]:
        """Return where columns are in the source."""
        return [self._places[j] for j in positions]

    def compress_tails(self, positions: Sequence[int]) -> None:
        """Compress the columns with heavy tails among some columns of numbers, and standardize them again.

        Their ranges and deviations are those of all rows, their percentiles of the rows in `sample`.
        """
        far, found = [j for j in positions if self._learned[j].reaches_far], {}
        for j in far:
            some_of = self._sample.columns[j]
            known = some_of[some_of != GAP].astype(np.float64)
            if has_many_values(known[:, None])[0]:
                found[j] = Encoding("number", tails=tails_of(known, self._learned[j].deviation))
        if not found:
            return
        del self._sample  # of values that are not compressed
        self.encodings = tuple(found.get(j, own) for j, own in enumerate(self.encodings or (NUMBERS,) * self.n_columns))
        learned = self.source.reduce(partial(_encoded, list(found.values())), list(found), combine=_merge)
        self._learned.update(zip(found, learned, strict=True))
        self._settle(standardize=ROBUST)

    def _settle(self, standardize: bool | str) -> None:
        """Take ranges, units and gaps from the summaries of the columns used."""
        summaries, self.gaps = np.zeros((self.n_columns, 4)), np.zeros(self.n_columns, dtype=bool)
        for j, own in self._learned.items():
            # Codes depend on the levels of all chunks; nothing but their number is ever asked for.
            high = float(max(len(own.levels) - 1, 0)) if own.levels else own.high
            summaries[j] = (own.low, high, own.mean, own.deviation) if own.count else 0.0
            self.gaps[j] = own.gap
        self._check(summaries)
        if self.missing == "error" and self.gaps.any():
            self._check(np.where(self.gaps, np.nan, 0.0)[:, None])
        self._set_units(summaries, standardize)

    @property
    def distributed(self) -> bool:  # type: ignore[override]  # a constant of tables in memory
        """Whether rows are on workers."""
        return self.source.distributed

    # --- sums over rows ---------------------------------------------------------------------------------------------

    def ones(self) -> Any:
        if isinstance(self.source, DaskRows):
            return self.source.hold(_ones, None, [Held(np.diff(self.source.starts).tolist())])
        return np.ones(self.n_rows)

    def reduce(
        self,
        positions: Sequence[int],
        function: Callable[..., Any],
        *vectors: Array,
        combine: Callable[[Any, Any], Any] | None = None,
    ) -> Any:
        """Return the sum, or the combination by ``combine``, of ``function(table, *vectors)`` over chunks."""
        work = partial(_apply_to_part, self.header(), tuple(positions), function)
        return self.source.reduce(work, self._locate_columns(positions), vectors, combine)

    def update(self, positions: Sequence[int], function: Callable[..., None], out: Any, *shared: Held) -> None:
        """Have ``function(table, *shared, out)`` add something to every entry of ``out`` (n,), chunk by chunk."""
        header, places = self.header(), self._locate_columns(positions)
        if not isinstance(self.source, DaskRows):
            for _ in self.source.map(
                partial(_apply_to_part, header, tuple(positions), function), places, (*shared, out)
            ):
                pass
            return
        added = self.source.hold(partial(_added, header, tuple(positions), function), places, shared)
        out += added if isinstance(out, RowVector) else added.here()

    def operators(self, templates: Sequence[Any]) -> list[Any]:
        """Return an operator for all templates with Hessians, or separate operators for large ranks."""
        fused = [template for template in templates if not getattr(template, "matrix_free", False)]
        if not fused or sum(int(template.starts[-1]) for template in fused) > FUSED_RANK:
            return [ChunkedOperator(self, [template]) for template in templates]
        alone = [ChunkedOperator(self, [template]) for template in templates if template not in fused]
        return [ChunkedOperator(self, fused), *alone]

    # --- some rows --------------------------------------------------------------------------------------------------

    def gather(self, positions: Sequence[int], rows: RowIndex) -> ColumnTable:
        """Return some rows of some columns, in memory."""
        index, order = np.arange(self.n_rows)[rows], None
        if not (np.diff(index) > 0).all():
            index, order = np.unique(index, return_inverse=True)
        starts = self.source.starts
        split = np.split(index, np.searchsorted(index, starts[1:-1]))
        chunks = [chunk for chunk, own in enumerate(split) if len(own)]
        whole = np.diff(starts) == [len(own) for own in split]
        wanted = Held([slice(None) if whole[c] else own - starts[c] for c, own in enumerate(split)])
        work = partial(_apply_to_part, self.header(), tuple(positions), partial(_select, tuple(positions)))
        parts = list(self.source.map(work, self._locate_columns(positions), (wanted,), chunks))
        columns = {j: np.concatenate([part[at] for part in parts]) for at, j in enumerate(positions)}
        carried = [j for j in positions if j in self.carried]
        found = {j: np.concatenate([part[len(positions) + at] for part in parts]) for at, j in enumerate(carried)}
        if order is not None:
            columns, found = ({j: own[order] for j, own in each.items()} for each in (columns, found))
        table = self._convert(columns, len(index) if order is None else len(order))
        table.objects = found
        return table

    def column(self, position: int) -> Array:
        return self.gather([position], slice(None)).columns[position]

    def values(self, column: int, rows: RowIndex = slice(None)) -> Array:
        return self.gather([column], rows).values(column)

    def points(self, positions: tuple[int, ...], rows: RowIndex = slice(None)) -> Array:
        return self.gather(positions, rows).points(positions)

    def find_complete(self, column: int, rows: RowIndex = slice(None)) -> Array | None:
        """Return the rows with a value in a single column, (n,) bool; None if all."""
        return self.gather([column], rows).find_complete(column) if self.gaps[column] else None

    def reading(self, spec: KernelSpec, positions: tuple[int, ...], rows: RowIndex = slice(None)) -> Reading:
        return self.gather(positions, rows).reading(spec, positions)

    def features_of(self, spec: ObjectKernel, column: int) -> FeatureRows:
        """Return a column of objects, read whole, prepared for a kernel."""
        return self.gather([column], slice(None)).features_of(spec, column)

    @cached_property
    def _sample(self) -> ColumnTable:
        sample_rows = 20_000  # from which landmarks and median distances are drawn
        size = min(sample_rows, self.n_rows)
        rows = np.random.default_rng(1).choice(self.n_rows, size, replace=False)
        return self.gather(self.used or (), np.sort(rows))

    def sample(self) -> ColumnTable:
        """Return the sampled rows for landmarks of all columns, in a single read."""
        return self._sample

    def draw_points(self, positions: tuple[int, ...], size: int) -> Array:
        return self._sample.draw_points(positions, size)

    def levels(self, column: int, most: int) -> Array | None:
        """Return the different values of a column in increasing order, or None if there are more than ``most``."""
        found = self.reduce([column], partial(_levels, column, most), combine=partial(_united, most))
        return None if len(found) > most else found

    def chunks(self, size: int) -> Iterator[tuple[slice, ColumnTable]]:
        for chunk in range(self.source.n_chunks):
            start = int(self.source.starts[chunk])
            part = self.part(self.source.read(chunk, self._locate_columns(self.active_columns)), self.active_columns)
            for rows, table in part.chunks(size):
                yield slice(start + rows.start, start + rows.stop), table

    def evaluate_slices(self, size: int, function: Callable[[ColumnTable], Array]) -> Iterator[tuple[slice, Array]]:
        """Yield slices of rows and what a function of their table returns, (..., n); it goes where rows are."""
        if not self.distributed:
            yield from super().evaluate_slices(size, function)
            return
        work = partial(
            _apply_to_part, self.header(), tuple(self.active_columns), partial(_evaluate_in_blocks, size, function)
        )
        for chunk, values in enumerate(self.source.map(work, self._locate_columns(self.active_columns))):
            yield self.source.slice(chunk), values


def read_table(X: TableLike, *, standardize: bool) -> ColumnTable:
    """Return the columns of numbers of a table, in memory or in chunks."""
    if not is_chunked(X):
        return ColumnTable(X, standardize=standardize)
    source = open_rows(X)
    return ChunkedTable(source, header_of(source), standardize=standardize)


def header_of(source: RowSource) -> Table:
    """Return a sample of rows with the dtypes of all rows; columns of value-dependent type are read whole."""
    rows: Any = source.sample()
    if source.columns is not None and isinstance(rows, np.ndarray):
        rows = pd.DataFrame(rows, columns=list(source.columns))
    table = Table.wrap(rows)
    if isinstance(rows, pd.DataFrame):
        for j, dtype in enumerate(rows.dtypes):
            if kind_of_dtype(dtype) is None:
                table.know_kind(j, kind_of(source.whole_column(j)))
    return table


def open_table(X: TableLike, model: ColumnTable) -> ColumnTable:
    """Return new rows in the units of a model's table, in chunks if given in chunks."""
    if not is_chunked(X):
        return model.like(X)
    return ChunkedTable.open_like(model, open_rows(X))


def _apply_to_part(
    header: ColumnTable,
    positions: tuple[int, ...],
    function: Callable[..., Any],
    data: Array | pd.DataFrame,
    *vectors: Array,
) -> Any:
    """Apply a function to a chunk in the units of the table; runs where the chunk is."""
    return function(header.part(data, positions), *vectors)


def _evaluate_in_blocks(size: int, function: Callable[[ColumnTable], Array], table: ColumnTable) -> Array:
    """Return a function of a partition, computed for some rows after the rest."""
    return np.concatenate([values for _, values in table.evaluate_slices(size, function)] or [function(table)], axis=-1)


def _added(
    header: ColumnTable,
    positions: tuple[int, ...],
    function: Callable[..., Any],
    data: Array | pd.DataFrame,
    *shared: object,
) -> Array:
    """Return the result of a function that adds to zeros."""
    out = np.zeros(len(data))
    function(header.part(data, positions), *shared, out)
    return out


def _ones(_: object, size: int) -> Array:
    return np.ones(size)


def _select(positions: tuple[int, ...], table: ColumnTable, wanted: Array) -> list[Array]:
    carried = [table.objects[j][wanted] for j in positions if j in table.carried]
    return [table.columns[j][wanted] for j in positions] + carried


def _levels(column: int, most: int, table: ColumnTable) -> Array:
    """Return the distinct values of a chunk, at most one more than ``most``."""
    known = table.find_complete(column)
    values = table.values(column)
    return np.unique(values if known is None else values[known])[: most + 1]


def _united(most: int, first: Array, second: Array) -> Array:
    return np.union1d(first, second)[: most + 1]


# --- summaries ------------------------------------------------------------------------------------------------------


@dataclass
class _Summary:
    """Summary of a single column of some rows: count, range, mean, squared deviations, gaps, levels."""

    count: int
    low: float
    high: float
    mean: float
    squares: float
    gap: bool
    levels: tuple[Any, ...] = ()

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return float(np.sqrt(self.squares / max(self.count, 1)))

    @property
    def reaches_far(self) -> bool:
        """Whether a value is farther from the mean than normal ones."""
        own = (np.asarray(x) for x in (self.count, self.low, self.high, self.mean, self.deviation))
        return self.count > 0 and bool(reaches_far(*own))


def _summaries(kinds: list[str], data: Any) -> list[_Summary]:
    """Return the summary of every column of a chunk."""
    if isinstance(data, np.ndarray):
        return [_summary(data[:, place], ()) for place in range(len(kinds))]
    out = []
    for place, kind in enumerate(kinds):
        column = data.iloc[:, place]
        encoding = Encoding(kind)
        if READ_AS.get(kind) not in ("number", "objects"):
            encoding = Encoding.fit(column, kind)
        out.append(_summary(encoding.encode(column), encoding.levels))
    return out


def _encoded(encodings: list[Encoding], data: Any) -> list[_Summary]:
    """Return the summary of every column of a chunk, in an encoding of its own."""
    columns = pd.DataFrame(data)
    return [_summary(own.encode(columns.iloc[:, place]), ()) for place, own in enumerate(encodings)]


def _summary(column: Array, levels: tuple[Any, ...]) -> _Summary:
    gaps = np.isnan(column)
    known = np.ascontiguousarray(column[~gaps] if gaps.any() else column)
    if not len(known):
        return _Summary(0, np.inf, -np.inf, 0.0, 0.0, bool(gaps.any()), levels)
    low, high, mean, deviation = column_summaries(known[None])[0].tolist()
    return _Summary(len(known), low, high, mean, deviation**2 * len(known), bool(gaps.any()), levels)


def _merge(first: list[_Summary], second: list[_Summary]) -> list[_Summary]:
    """Return the summaries of the rows of both: Chan, Golub and LeVeque (1983), formula 2.1."""
    out = []
    for a, b in zip(first, second, strict=True):
        count = a.count + b.count
        step = (b.mean - a.mean) if a.count and b.count else 0.0
        mean = a.mean + step * b.count / max(count, 1) if a.count else b.mean
        squares = a.squares + b.squares + step**2 * a.count * b.count / max(count, 1)
        levels = distinct_levels([*a.levels, *b.levels])
        out.append(_Summary(count, min(a.low, b.low), max(a.high, b.high), mean, squares, a.gap or b.gap, levels))
    return out
