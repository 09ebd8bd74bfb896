"""A table read by columns: contiguous, checked once, with the range, mean and deviation of every column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from manykernels.compiled import compiled
from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.columns import Table
from manykernels.validation.arrays import Array


@compiled()
def column_summary(x: Array, out: Array) -> None:
    """Write minimum, maximum, mean and standard deviation of a column into ``out`` (4,); NaN and infinity show."""
    low, high, total = float(x[0]), float(x[0]), 0.0
    for i in range(x.size):
        value = float(x[i])
        low, high = min(low, value), max(high, value)
        total += value
    mean = total / x.size
    squares = 0.0
    for i in range(x.size):
        squares += (x[i] - mean) ** 2
    out[0], out[1], out[2], out[3] = low, high, mean, np.sqrt(squares / x.size)


class ColumnTable:
    """Columns of a numeric table in float32 or float64, without a copy where they are already contiguous.

    Parameters
    ----------
    X : DataFrame or (n, p) array
        Arrays of float32 or float64 in column order are read in place.
    standardize : bool, default=False
        Whether `center` and `unit` are mean and standard deviation of every column, else 0 and 1.
    """

    def __init__(self, X: Any, *, standardize: bool = False) -> None:
        rows, self.names = _numeric(X)
        self.columns = rows.T if rows.T.flags.c_contiguous else np.ascontiguousarray(rows.T)
        self.n_columns, self.n_rows = self.columns.shape
        summaries = np.empty((self.n_columns, 4))
        for j in range(self.n_columns):
            column_summary(self.columns[j], summaries[j])
        self._check(summaries)
        low, high, mean, deviation = summaries.T
        flat = (high - low) <= 4 * np.finfo(np.float64).eps * np.maximum(np.abs(low), np.abs(high))
        self.center = mean if standardize else np.zeros(self.n_columns)
        self.unit = np.where(flat, 1.0, deviation) if standardize else np.ones(self.n_columns)
        self.low, self.high = (low - self.center) / self.unit, (high - self.center) / self.unit

    def _check(self, summaries: Array) -> None:
        bad = np.flatnonzero(~np.isfinite(summaries).all(axis=1))
        if len(bad):
            raise InvalidInputError(
                f"X contains NaN or infinite values, or its squares overflow, in {len(bad)} column(s), first in "
                f"column {bad[0]}. Impute, drop or rescale them."
            )

    def values(self, column: int, rows: Any = slice(None)) -> Array:
        """Return entries of one column in units of its deviation, float64."""
        return (self.columns[column][rows].astype(np.float64) - self.center[column]) / self.unit[column]

    def points(self, positions: tuple[int, ...], rows: Any = slice(None)) -> Array:
        """Return rows of several columns in units of their deviations, (n, len(positions)) float64."""
        return np.column_stack([self.values(j, rows) for j in positions])

    def chunks(self, size: int) -> Iterator[tuple[slice, ColumnTable]]:
        """Yield slices of rows and the table of these rows, in the same units."""
        for start in range(0, self.n_rows, size):
            chunk = slice(start, min(start + size, self.n_rows))
            yield chunk, self._of(self.columns[:, chunk])

    def single(self, column: int, values: Array) -> ColumnTable:
        """Return a table in which one column has these values, in its own unit, and the others their centers."""
        columns = np.repeat(self.center[:, None], len(values), axis=1)
        columns[column] = values
        return self._of(columns)

    def _of(self, columns: Array) -> ColumnTable:
        """Return other rows in the units of this table; they have been checked."""
        other = ColumnTable.__new__(ColumnTable)
        other.__dict__.update(self.__dict__)
        other.columns, (other.n_columns, other.n_rows) = columns, columns.shape
        return other

    def like(self, X: Any) -> ColumnTable:
        """Return new rows in the units of this table; columns go by name where both have names."""
        if self.names is not None and hasattr(X, "columns"):
            missing = [name for name in self.names if name not in X.columns]
            if missing:
                raise InvalidInputError(f"X lacks {len(missing)} column(s) of the training table: {missing[:5]}.")
            X = X[list(self.names)]
        other = ColumnTable(X)
        if other.n_columns != self.n_columns:
            raise InvalidInputError(f"X has {other.n_columns} columns, but the model was fitted on {self.n_columns}.")
        other.center, other.unit = self.center, self.unit
        return other


def _numeric(X: Any) -> tuple[Array, tuple[Any, ...] | None]:
    """Return a table as a float array, and its column names; large float32 arrays are not converted."""
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype in (np.float32, np.float64) and X.size:
        return X, None
    table = Table.of(X)
    return table.numeric(range(table.n_columns)), table.columns
