"""A table read by columns: contiguous, checked once, with the range, mean and deviation of every column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeGuard, TypeVar

import numpy as np
import pandas as pd

from manykernels.exceptions import InvalidInputError
from manykernels.kernels import KernelSpec, ObjectKernel
from manykernels.kernels.bank.bank import ROBUST
from manykernels.kernels.bank.columns import NUMBERS, OBJECTS, Table, check_array_readable
from manykernels.kernels.bank.normalization import column_summaries, scales_of_columns
from manykernels.kernels.specs.base import KernelOfFeatures
from manykernels.kernels.specs.categorical import UNSEEN
from manykernels.kernels.specs.objects import FeatureRows, read_objects
from manykernels.kernels.tables.encoding import Encoding, MixedRows, numbers_of
from manykernels.kernels.tables.kinds import entry_issues, refuse
from manykernels.validation.arrays import Array, read_only
from manykernels.validation.parameters import WithoutCaches

RowIndex = slice | Array

KEPT_ENTRIES = 2**26  # of features that are kept with the rows: 512 MB
KEPT_ROWS = 16384  # whose features are computed at once

GAP = -(2.0**100)
"""Stands for a missing value: exact in float32, and so far below the data that it lies in no bin."""


UNITS = ("missing", "used", "carried", "encodings", "names", "center", "unit", "low", "high", "gaps", "n_columns")

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Reading:
    """Rows in the form of a single kernel."""

    points: (
        Any  # (n, d) float64: 0 where something is missing; of objects themselves, or the `SparsePoints` of features
    )
    # (n,) bool or None: rows that have all columns; the kernel is zero on the others. None: all rows
    present: Array | None

    def masked(self, values: Array) -> Array:
        """Return values of rows, (n, ...), with zeros where the kernel is zero."""
        if self.present is None:
            return values
        return np.where(self.present.reshape(-1, *[1] * (values.ndim - 1)), values, 0.0)


class ColumnTable(WithoutCaches):
    """Columns of a table in float32 or float64, without a copy where they are already contiguous.

    Categories are codes, dates are days; what is missing is `GAP` and counts for nothing.

    Parameters
    ----------
    X : DataFrame or (n, p) array
        Arrays of float32 or float64 in column order are read in place.
    standardize : bool or "robust", default=False
        Whether `center` and `unit` are mean and standard deviation of every column, else 0 and 1; with "robust", larger
        units of columns that are mostly at one end.
    missing : {"error", "mask", "indicator"}, default="error"
        Whether missing values are refused.
    used : sequence of int, optional
        The columns of a DataFrame read, all by default; the rest may hold anything.
    carried : mapping of int to bool
        The columns of objects that kernels read unchanged, and whether nothing else reads them.
    units : (ndarray, ndarray), optional
        `center` and `unit` of every column, where known.
    """

    chunked = False  # whether rows are read again for every sum over them
    distributed = False  # whether they are elsewhere
    kept_bytes = 0  # of features of objects that are listed, of all kernels together
    _kept: dict[int, tuple[KernelSpec, Array]] | None = None  # by kernel: features of all rows; None of other rows
    kept_dtype: Any = np.float64  # of these features
    columns: Any

    def __init__(
        self,
        X: object,
        *,
        standardize: bool | str = False,
        missing: str = "error",
        used: Sequence[int] | None = None,
        carried: Mapping[int, bool] | None = None,
        units: tuple[Array, Array] | None = None,
        encodings: Mapping[int, Encoding] | None = None,
    ) -> None:
        self.missing, self.used, self.carried = missing, None if used is None else tuple(used), dict(carried or {})
        self.encodings: tuple[Encoding, ...] = ()
        self._kept = {}
        self.names: tuple[Any, ...] | None = None
        self.objects: dict[int, Array] = dict(X.objects) if isinstance(X, MixedRows) else {}
        self._hold(self._read(numbers_of(X), encodings or {}))
        summaries = self._summaries(standardize)
        self._check(summaries)
        self._set_units(summaries, standardize)
        if units is not None:
            self.center, self.unit = units
            self.low, self.high = (summaries[:, :2].T - self.center) / self.unit

    def _read(self, X: object, given: Mapping[int, Encoding]) -> Array:
        """Return training rows as a float array, NaN where a gap is allowed; learns names and encodings."""
        if _is_float(X) and not given:
            return X
        table = Table.wrap(X)
        used = self.used = tuple(range(table.n_columns)) if self.used is None else self.used
        self.names = table.columns
        self.objects = {j: table.objects(j) for j in self.carried}
        encodings = {j: OBJECTS if self.carried.get(j) else table.encoding(j) for j in used} | dict(given)
        self.encodings = tuple(encodings.get(j, NUMBERS) for j in range(table.n_columns))
        return _codes(table, used, used, self)

    def _hold(self, rows: Array) -> None:
        """Keep columns in their order, with gaps marked."""
        columns = rows.T if rows.T.flags.c_contiguous else np.ascontiguousarray(rows.T)
        self.n_columns, self.n_rows = columns.shape
        self.gaps = np.zeros(self.n_columns, dtype=bool)
        if self.missing != "error" or self.names is not None:
            self.gaps = np.array([bool(np.isnan(column).any()) for column in columns])
        if self.gaps.any():
            columns = columns.copy()
            for j in np.flatnonzero(self.gaps):
                columns[j][np.isnan(columns[j])] = GAP
        self.columns = read_only(columns)

    def _summaries(self, standardize: bool | str) -> Array:
        """Return minimum, maximum, mean and deviation of every column, (p, 4); of the latter bounds if nobody asks."""
        centered = bool(standardize) or any(encoding.centered for encoding in self.encodings)
        if self.gaps.any():
            known = (c[c != GAP] if gap else c for c, gap in zip(self.columns, self.gaps, strict=True))
            return np.vstack([column_summaries(c[None] if len(c) else np.zeros((1, 1))) for c in known])
        if centered or not self.n_rows:
            return column_summaries(self.columns if self.n_rows else np.zeros((self.n_columns, 1)))
        out = np.empty((self.n_columns, 4))
        out[:, 0], out[:, 1] = self.columns.min(axis=1), self.columns.max(axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            out[:, 2] = self.n_rows * np.abs(out[:, :2]).max(axis=1)
            out[:, 3] = self.n_rows * (out[:, 1] - out[:, 0]) ** 2
        return out

    def _set_units(self, summaries: Array, standardize: bool | str) -> None:
        """Learn the units of the columns from (p, 4) summaries."""
        low, high, mean, deviation = summaries.T
        flat = (high - low) <= 4 * np.finfo(np.float64).eps * np.maximum(np.abs(low), np.abs(high))
        deviation = scales_of_columns(low, high, mean, deviation) if standardize == ROBUST else deviation
        scaled = np.full(len(low), bool(standardize))
        centered = scaled.copy()
        for j, encoding in enumerate(self.encodings):
            scaled[j] &= encoding.scaled
            centered[j] = scaled[j] or encoding.centered
        self.center = np.where(centered, mean, 0.0)
        self.unit = np.where(scaled & ~flat, deviation, 1.0)
        self.low, self.high = (low - self.center) / self.unit, (high - self.center) / self.unit

    def _check(self, summaries: Array) -> None:
        bad = np.flatnonzero(~np.isfinite(summaries).all(axis=1))
        if len(bad):
            raise InvalidInputError(
                f"X contains NaN or infinite values, or its squares overflow, in {len(bad)} column(s), first in "
                f"column {bad[0]}. Impute, drop or rescale them; KernelBank(..., missing='mask') takes NaN for missing."
            )

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        each = self.columns.values() if isinstance(self.columns, dict) else [self.columns]
        return int(sum(column.nbytes for column in each))

    def column(self, position: int) -> Array:
        """Return a single stored column, (n,)."""
        return self.columns[position]

    def values(self, column: int, rows: RowIndex = slice(None)) -> Array:
        """Return entries of a single column in units of the deviation, float64; 0 for missing values."""
        stored = self.columns[column][rows]
        values = (stored.astype(np.float64) - self.center[column]) / self.unit[column]
        return np.where(stored == GAP, 0.0, values) if self.gaps[column] else values

    def points(self, positions: tuple[int, ...], rows: RowIndex = slice(None)) -> Array:
        """Return rows of several columns in units of their deviations, (n, len(positions)) float64."""
        if len(positions) == 1 or isinstance(self.columns, dict):
            return np.column_stack([self.values(j, rows) for j in positions])
        return self.block(positions, rows).T

    def block(self, positions: Sequence[int], rows: RowIndex = slice(None)) -> Array:
        """Return several columns of an array in units of their deviations, (len(positions), n) float64, read-only.

        Neighbors in their units are read in place.
        """
        first, count = positions[0], len(positions)
        neighbors = isinstance(positions, range) or all(j == first + k for k, j in enumerate(positions))
        chosen: slice | list[int] = slice(first, first + count) if neighbors else list(positions)
        stored = self.columns[chosen, rows] if isinstance(rows, slice) else self.columns[chosen][:, rows]
        values = stored.astype(np.float64, copy=False)
        center, unit = self.center[chosen], self.unit[chosen]
        if center.any():
            values = values - center[:, None]
        if (unit != 1.0).any():
            values = values / unit[:, None]
        if self.gaps[chosen].any():
            values = np.where((stored == GAP) & self.gaps[chosen][:, None], 0.0, values)
        return read_only(values)

    def find_complete(self, column: int, rows: RowIndex = slice(None)) -> Array | None:
        """Return the rows with a value in a single column, (n,) bool; None without gaps in any column of the kind."""
        return self.columns[column][rows] != GAP if self.gaps[column] else None

    def present(self, positions: tuple[int, ...], rows: RowIndex = slice(None)) -> Array | None:
        """Return the rows with values in all columns, (n,) bool; None if all rows."""
        found = [known for known in (self.find_complete(j, rows) for j in positions) if known is not None]
        return np.logical_and.reduce(found) if found else None

    def reading(self, spec: KernelSpec, positions: tuple[int, ...], rows: RowIndex = slice(None)) -> Reading:
        """Return rows in the form of a kernel on the columns, or the gaps for missingness."""
        if spec.family == "features":
            of_objects: Any = spec
            own = self.objects[positions[0]] if of_objects.explicit else self._points_of(of_objects, positions[0])
            return Reading(own[rows], self.present(positions, rows))
        if spec.family != "missing":
            return Reading(self.points(positions, rows), self.present(positions, rows))
        gaps = [self.columns[j][rows] == GAP if self.gaps[j] else np.zeros(self.n_rows, bool)[rows] for j in positions]
        return Reading(np.where(np.column_stack(gaps), UNSEEN, 0.0), None)

    def cached_features(self, spec: KernelSpec, positions: tuple[int, ...]) -> Array | None:
        """Return the features (n, r) of a kernel of landmarks, zero where it is; None if there is no room.

        Computed once for all kernels.
        """
        if self._kept is None or not isinstance(spec, KernelOfFeatures) or not spec.costly:
            return None
        if id(spec) not in self._kept:
            known = sum(held.size for _, held in self._kept.values())
            if known + self.n_rows * spec.rank > KEPT_ENTRIES:
                return None
            out = np.empty((self.n_rows, spec.rank), dtype=self.kept_dtype)
            for start in range(0, self.n_rows, KEPT_ROWS):
                rows = slice(start, start + KEPT_ROWS)
                reading = self.reading(spec, positions, rows)
                out[rows] = reading.masked(spec.features(reading.points))
            self._kept[id(spec)] = spec, out
        return self._kept[id(spec)][1]

    def let_go(self) -> None:
        """Release cached features."""
        if self._kept:
            self._kept.clear()

    def diagonal(self, spec: KernelSpec, positions: tuple[int, ...]) -> Array:
        """Return ``k(x, x)`` of every row, (n,), zero where the kernel is."""
        held = self.cached_features(spec, positions)
        if held is not None:
            return np.asarray(np.einsum("ij,ij->i", held, held, dtype=np.float64))
        reading = self.reading(spec, positions)
        return reading.masked(spec.diag(reading.points))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without features."""
        return super().__getstate__() | ({} if self._kept is None else {"_kept": {}})

    @cached_property
    def _made(self) -> dict[Any, Any]:
        """Cached results computed from the rows."""
        return {}

    def once(self, key: Any, make: Callable[[], T]) -> T:
        """Return the result of ``make``, called once per key."""
        if key not in self._made:
            self._made[key] = make()
        made: T = self._made[key]
        return made

    def features_of(self, spec: ObjectKernel, column: int) -> FeatureRows:
        """Return a column of objects prepared for a kernel, cached."""
        shared: dict[Any, Any] = self.once(("features", column), dict)
        return self.once(("rows", column, spec.feature_map), lambda: spec.read(self.objects[column], shared))

    def _points_of(self, spec: ObjectKernel, column: int) -> Any:
        """Return a column of objects as comparable features, cached for kernels with the same features."""
        return self.once(("points", column, spec.feature_map), lambda: spec.points(self.objects[column]))

    def levels(self, column: int, most: int) -> Array | None:
        """Return the different values of a column in increasing order, or None if there are more than ``most``."""
        if len(np.unique(self.column(column)[: 10 * most])) > most + 1:
            return None
        found = np.unique(self.values(column)[slice(None) if (known := self.find_complete(column)) is None else known])
        return found if len(found) <= most else None

    def categories(self, column: int, most: int) -> Array | None:
        """Return `levels`, cached for many kernels on the same columns."""
        return self.once(("categories", column, most), lambda: self.levels(column, most))

    # --- sums over rows ---------------------------------------------------------------------------------------------

    def ones(self) -> Any:
        """Return a vector of ones, (n,), at the place of the rows."""
        return np.ones(self.n_rows)

    def reduce(
        self,
        positions: Sequence[int],
        function: Callable[..., Any],
        *vectors: Array,
        combine: Callable[[Any, Any], Any] | None = None,
    ) -> Any:
        """Return ``function(table, *vectors)`` of all rows: the sum over chunks, or the combination by ``combine``."""
        return function(self, *vectors)

    def update(self, positions: Sequence[int], function: Callable[[ColumnTable, Array], None], out: Any) -> None:
        """Have ``function(table, out)`` add something to every entry of ``out`` (n,)."""
        function(self, out)

    def operators(self, templates: Sequence[Any]) -> list[Any]:
        """Return operators without rows over the rows of the table."""
        return [template.transfer(self) for template in templates]

    def sample(self) -> ColumnTable:
        """Return the source rows of landmarks: all."""
        return self

    def draw_points(self, positions: tuple[int, ...], size: int) -> Array:
        """Return a limited number of points of complete rows, always the same rows."""
        present = self.present(positions)
        rows = np.arange(self.n_rows) if present is None else np.flatnonzero(present)
        if len(rows) > size:
            rows = rows[np.random.default_rng(0).choice(len(rows), size, replace=False)]
        return self.points(positions, rows)

    def chunks(self, size: int) -> Iterator[tuple[slice, ColumnTable]]:
        """Yield slices of rows and the table of the rows, in the same units."""
        for start in range(0, self.n_rows, size):
            chunk = slice(start, min(start + size, self.n_rows))
            columns: Any = self.columns
            if isinstance(columns, dict):
                part = self._convert({j: column[chunk] for j, column in columns.items()}, chunk.stop - start)
            else:
                part = self._convert(columns[:, chunk], chunk.stop - start)
            part.objects = {j: column[chunk] for j, column in self.objects.items()}
            yield chunk, part

    def evaluate_slices(self, size: int, function: Callable[[ColumnTable], Array]) -> Iterator[tuple[slice, Array]]:
        """Yield slices of rows with the result of a function of the table, (..., n)."""
        for rows, part in self.chunks(size):
            yield rows, function(part)

    def single(self, column: int, values: Array) -> ColumnTable:
        """Return a table with values of a single column in the unit of the column, and centers elsewhere."""
        columns = np.repeat(self.center[:, None], len(values), axis=1)
        columns[column] = values
        return self._convert(columns, len(values))

    def grid(self, values: Mapping[int, Array]) -> ColumnTable:
        """Return a table with values of some columns in their units."""
        return self._convert(dict(values), len(next(iter(values.values()))))

    def copy_rows(self, positions: Sequence[int], rows: Array) -> ColumnTable:
        """Return a copy of some rows of some columns, under their numbers."""
        part = self._convert({j: read_only(self.columns[j][rows]) for j in positions}, len(rows))
        part.objects = {j: column[rows] for j, column in self.objects.items() if j in positions}
        return part

    def _convert(self, columns: Array | Mapping[int, Array], n_rows: int) -> ColumnTable:
        """Return other checked rows in the units of the table. Columns may be a dictionary."""
        other = ColumnTable.copy_units(self)
        other.columns, other.n_rows, other.objects = columns, n_rows, {}
        return other

    @classmethod
    def copy_units(cls, table: ColumnTable) -> Self:
        """Return a table without rows in the units of another table."""
        other = cls.__new__(cls)
        for name in UNITS:
            setattr(other, name, getattr(table, name))
        return other

    def header(self) -> ColumnTable:
        """Return the table without the rows, for reading other rows in the same way."""
        return self._convert({}, 0)

    def part(self, data: Array | pd.DataFrame, positions: Sequence[int]) -> ColumnTable:
        """Return some columns of other rows, (n, len(positions)), in the encoding of the table."""
        other = self._convert({}, len(data))
        other.gaps = self.gaps.copy()
        if isinstance(data, np.ndarray):
            self._check_array(positions)
        for place, j in enumerate(positions):
            if isinstance(data, np.ndarray):
                column = np.ascontiguousarray(data[:, place])
                column = column if column.dtype in (np.float32, np.float64) else column.astype(np.float64)
                if self.encodings and self.encodings[j] != NUMBERS:
                    column = self.encodings[j].encode(pd.Series(column, name=self._name(j)))
            else:
                column = (self.encodings[j] if self.encodings else NUMBERS).encode(data.iloc[:, place])
                if j in self.carried:
                    other.objects[j] = read_objects(data.iloc[:, place])
            if not np.isfinite(column).all():
                gaps = np.isnan(column)
                if self.missing == "error" or not np.isfinite(column[~gaps]).all():
                    name = repr(self._name(j))
                    raise InvalidInputError(
                        f"Column {name} contains NaN or infinite values. Impute or drop these rows; "
                        "KernelBank(..., missing='mask') takes NaN for missing."
                    )
                column, other.gaps[j] = np.where(gaps, column.dtype.type(GAP), column), True
            other.columns[j] = column
        return other

    def like(self, X: object) -> ColumnTable:
        """Return new rows in the units of the table; columns go by name where both have names."""
        other = self.header()
        numbers = all(encoding == NUMBERS for encoding in self.encodings)
        rows = X if _is_float(X) and numbers else self._read_new(Table.wrap(X))
        if rows.shape[1] != self.n_columns:
            raise InvalidInputError(f"X has {rows.shape[1]} columns, but the model was fitted on {self.n_columns}.")
        if self.carried:
            table = Table.wrap(X)
            places = self.places(table.columns, table.n_columns)
            other.objects = {j: table.objects(places[j]) for j in self.carried}
        other._hold(rows)
        other._check(np.array([[float(column.sum())] for column in other.columns]))
        return other

    def _read_new(self, table: Table) -> Array:
        """Return new rows as in training, their columns in the order of training."""
        if table.columns is None:
            self._check_array(self.active_columns)
        places = self.places(table.columns, table.n_columns)
        return _codes(table, [places[j] for j in self.active_columns], self.active_columns, self)

    def _check_array(self, positions: Sequence[int]) -> None:
        """Raise ``InvalidInputError`` if an array cannot stand for the columns of the training table."""
        check_array_readable(self.encodings[j] for j in (positions if self.encodings else ()))

    def _name(self, column: int) -> Any:
        """Return the name of a column, or the place in an array."""
        return column if self.names is None else self.names[column]

    @property
    def active_columns(self) -> Sequence[int]:
        """The columns read."""
        return range(self.n_columns) if self.used is None else self.used

    def places(self, names: Sequence[Any] | None, n_columns: int) -> list[int]:
        """Return where the columns of the table are among those of new rows, by name where both have names.

        Columns not there and not in use are at -1.
        """
        if self.names is None or names is None:
            if n_columns != self.n_columns:
                raise InvalidInputError(f"X has {n_columns} columns, but the model was fitted on {self.n_columns}.")
            return list(range(n_columns))
        at = {name: j for j, name in enumerate(names)}
        lost = [self.names[j] for j in self.active_columns if self.names[j] not in at]
        if lost:
            raise InvalidInputError(f"X lacks {len(lost)} column(s) of the training table: {lost[:5]}.")
        return [at.get(name, -1) for name in self.names]


def _is_float(X: object) -> TypeGuard[Array]:
    """Return whether a table is an array readable in place."""
    return isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype in (np.float32, np.float64) and X.size > 0


def _codes(table: Table, places: Sequence[int], used: Sequence[int], owner: ColumnTable) -> Array:
    """Return columns as numbers by their encodings, (n, p), or reject all unusable columns at once."""
    encodings = owner.encodings or (NUMBERS,) * (max(used, default=-1) + 1)
    plain = [place for place, j in zip(places, used, strict=True) if encodings[j] == NUMBERS]
    refuse([found for j in plain for found in table.unreadable(j, frozenset({"number"}), "numbers are needed")])
    values = table.codes(places, [encodings[j] for j in used])
    refuse(entry_issues(values, table.lacking(places), [table.names[j] for j in places], owner.missing))
    n_columns = len(encodings)
    if list(used) == list(range(n_columns)):
        return values
    columns = np.zeros((n_columns, len(values)))
    columns[list(used)] = values.T
    return columns.T
