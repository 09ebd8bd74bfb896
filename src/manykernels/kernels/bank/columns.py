"""Which columns a kernel acts on: names, positions, slices, masks, selectors; and the numeric table behind them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_bool_dtype, is_complex_dtype, is_numeric_dtype
from sklearn.utils.validation import check_array

from manykernels.exceptions import InvalidInputError, InvalidInputTypeError
from manykernels.validation.arrays import Array, check_finite, check_readable


@dataclass(frozen=True, eq=False)
class Table:
    """A checked table: its column names (None for an array) and a way to its columns as float64.

    Indexed by rows it is a table again, which nobody needs to check once more.
    """

    data: pd.DataFrame | Array
    columns: tuple[Any, ...] | None
    _read: dict[int, Array] = field(default_factory=dict)  # columns of a DataFrame that were checked and converted

    @classmethod
    def of(cls, X: Any) -> Table:
        """Check ``X`` (DataFrame, array or nested lists) and wrap it; a table is returned as it is."""
        if isinstance(X, Table):
            return X
        if hasattr(X, "to_pandas") and not isinstance(X, pd.DataFrame):
            X = X.to_pandas()
        if not isinstance(X, pd.DataFrame):
            return cls(_checked_array(X), None)
        if X.shape[0] == 0 or X.shape[1] == 0:
            raise InvalidInputError(f"X must have at least one row and one column, got shape {X.shape}.")
        if not X.columns.is_unique:
            repeated = list(X.columns[X.columns.duplicated()].unique())
            raise InvalidInputError(f"Column names must differ, but {repeated[:5]} appear more than once.")
        return cls(X, tuple(X.columns))

    def __len__(self) -> int:
        return int(self.data.shape[0])

    def __getitem__(self, rows: Array) -> Table:
        data = self.data.iloc[rows] if isinstance(self.data, pd.DataFrame) else self.data[rows]
        return Table(data, self.columns, {j: column[rows] for j, column in self._read.items()})

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.data.shape[1])

    @property
    def names(self) -> tuple[str, ...]:
        """The column names as text; ``x0, x1, ...`` for an array."""
        if self.columns is None:
            return tuple(f"x{j}" for j in range(self.n_columns))
        return tuple(str(column) for column in self.columns)

    def positions(self, selection: Any) -> tuple[int, ...]:
        """Return the integer positions of a column selection, see :func:`select_columns`."""
        return select_columns(selection, self.data, self.columns)

    def numeric(self, positions: Iterable[int]) -> Array:
        """Return those columns as an (n, len(positions)) finite float64 array."""
        positions = [int(j) for j in positions]
        if not isinstance(self.data, pd.DataFrame):
            return self.data[:, positions]
        new = [j for j in positions if j not in self._read]
        if new:
            self._read.update(zip(new, _numbers_of(self.data.iloc[:, new]).T, strict=True))
        return np.array([self._read[j] for j in positions]).T


def _numbers_of(chosen: pd.DataFrame) -> Array:
    """Return columns as finite float64, (n, n_columns), or say which of them cannot be numbers."""
    refused = [str(name) for name, column in chosen.items() if not _is_number_like(column)]
    if refused:
        raise InvalidInputError(
            f"Column(s) {_some(refused)} are not numeric. Encode them (for instance with OneHotEncoder) or leave "
            "them out of the kernels' columns."
        )
    return _finite_columns(chosen.to_numpy(dtype=np.float64, na_value=np.nan), [str(name) for name in chosen])


def select_columns(selection: Any, data: Any, columns: tuple[Any, ...] | None) -> tuple[int, ...]:
    """Return the positions of a column selection, as scikit-learn's ColumnTransformer understands it."""
    if callable(selection):
        selection = selection(data)
    n_columns = int(data.shape[1])
    if selection is None:
        chosen = list(range(n_columns))
    elif isinstance(selection, slice):
        chosen = list(range(n_columns))[_positional(selection, columns)]
    else:
        chosen = _listed(selection, n_columns, columns)
    if not chosen:
        raise InvalidInputError(f"The column selection {selection!r} selects no column.")
    if len(set(chosen)) < len(chosen):
        raise InvalidInputError(f"The column selection {selection!r} names a column more than once.")
    return tuple(chosen)


def locate_columns(
    table: Table, used: Array, n_features: int, feature_names: tuple[str, ...] | None
) -> tuple[int, ...]:
    """Return where columns seen in fit are in a new table: by name if both have names, else by position."""
    if feature_names is None or table.columns is None:
        if table.n_columns != n_features:
            raise InvalidInputError(
                f"X has {table.n_columns} features, but the bank was fitted with {n_features}; pass the same."
            )
        return tuple(int(j) for j in used)
    wanted = [feature_names[j] for j in used]
    missing = sorted(set(wanted) - set(table.columns))
    if missing:
        raise InvalidInputError(f"X lacks {len(missing)} column(s) that the kernels use: {_some(missing)}.")
    place = {name: j for j, name in enumerate(table.columns)}
    return tuple(place[name] for name in wanted)


def _listed(selection: Any, n_columns: int, columns: tuple[Any, ...] | None) -> list[int]:
    items: list[Any] = [selection] if isinstance(selection, str) or np.ndim(selection) == 0 else list(selection)
    if items and all(isinstance(item, (bool, np.bool_)) for item in items):
        if len(items) != n_columns:
            raise InvalidInputError(f"The column mask has {len(items)} entries, but X has {n_columns} columns.")
        return [j for j, chosen in enumerate(items) if chosen]
    if all(isinstance(item, (int, np.integer)) and not isinstance(item, bool) for item in items):
        return [_position(int(item), n_columns) for item in items]
    return [_named(item, columns) for item in items]


def _position(index: int, n_columns: int) -> int:
    if not -n_columns <= index < n_columns:
        raise InvalidInputError(f"Column position {index} is out of range: X has {n_columns} column(s).")
    return index % n_columns


def _named(name: Any, columns: tuple[Any, ...] | None) -> int:
    if columns is None:
        raise InvalidInputError(
            f"Column {name!r} is selected by name, but X is no DataFrame. Pass one or use positions."
        )
    if name not in columns:
        raise InvalidInputError(f"Unknown column {name!r}; X has {_some([str(column) for column in columns])}.")
    return columns.index(name)


def _positional(selection: slice, columns: tuple[Any, ...] | None) -> slice:
    ends = (selection.start, selection.stop)
    if not any(isinstance(end, str) for end in ends):
        return selection
    start = None if ends[0] is None else _named(ends[0], columns)
    # A slice of names includes its end, as in pandas.
    stop = None if ends[1] is None else _named(ends[1], columns) + 1
    return slice(start, stop, selection.step)


def _checked_array(X: Any) -> Array:
    check_readable(X, "X")
    if isinstance(X, (np.matrix, np.ma.MaskedArray)):
        X = np.asarray(X)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            return check_array(X, dtype=np.float64, input_name="X")
    except RuntimeWarning as warning:
        raise InvalidInputError(f"X cannot be read as float64: {warning}.") from warning
    except TypeError as error:
        raise InvalidInputTypeError(str(error)) from error
    except ValueError as error:
        raise InvalidInputError(str(error)) from error


def _is_number_like(column: pd.Series) -> bool:
    if is_complex_dtype(column.dtype):
        return False
    if is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype):
        return True
    return column.dtype == object and infer_dtype(column, skipna=True) in ("integer", "floating", "mixed-integer-float")


def _finite_columns(values: Array, names: list[str]) -> Array:
    bad = [name for name, column in zip(names, values.T, strict=True) if not np.isfinite(column).all()]
    return check_finite(values, f"X (column(s) {_some(bad)})") if bad else values


def _some(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
