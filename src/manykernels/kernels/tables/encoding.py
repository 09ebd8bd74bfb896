"""How a column becomes numbers that kernels can read; learned on training rows, and the same for all rows after."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.specs.categorical import UNSEEN
from manykernels.kernels.tables.kinds import READ_AS
from manykernels.validation.arrays import Array
from manykernels.validation.parameters import listed

# Which columns a selection means: names, positions, slices, masks, selectors, as in a ColumnTransformer.


Places = Mapping[Any, int]  # the position of every column by its name; None for an array


def select_columns(selection: object, data: pd.DataFrame | Array | csr_array, places: Places | None) -> tuple[int, ...]:
    """Return the positions of a column selection, as scikit-learn's ColumnTransformer understands it."""
    n_columns = int(data.shape[1])
    if type(selection) is tuple and _are_positions(selection, n_columns):  # as entries of banks keep most
        return selection
    if callable(selection):
        selection = selection(data)
    if selection is None:
        chosen = list(range(n_columns))
    elif isinstance(selection, slice):
        chosen = list(range(n_columns))[_positional(selection, places)]
    else:
        chosen = _listed(selection, n_columns, places)
    if not chosen:
        raise InvalidInputError(f"The column selection {selection!r} selects no column.")
    if len(set(chosen)) < len(chosen):
        raise InvalidInputError(f"The column selection {selection!r} names a column more than once.")
    return tuple(chosen)


def _are_positions(items: tuple[Any, ...], n_columns: int) -> bool:
    """Whether items are different positions of columns, none counted from the end."""
    kept = set(items)
    return set(map(type, items)) == {int} and min(kept) >= 0 and max(kept) < n_columns and len(kept) == len(items)


def _listed(selection: Any, n_columns: int, places: Places | None) -> list[int]:
    items: list[Any] = [selection] if isinstance(selection, str) or np.ndim(selection) == 0 else list(selection)
    if items and all(isinstance(item, (bool, np.bool_)) for item in items):
        if len(items) != n_columns:
            raise InvalidInputError(f"The column mask has {len(items)} entries, but X has {n_columns} columns.")
        return [j for j, chosen in enumerate(items) if chosen]
    if all(isinstance(item, (int, np.integer)) and not isinstance(item, bool) for item in items):
        return [_position(int(item), n_columns) for item in items]
    return [_named(item, places) for item in items]


def _position(index: int, n_columns: int) -> int:
    if not -n_columns <= index < n_columns:
        raise InvalidInputError(f"Column position {index} is out of range: X has {n_columns} column(s).")
    return index % n_columns


def _named(name: object, places: Places | None) -> int:
    if places is None:
        raise InvalidInputError(
            f"Column {name!r} is selected by name, but X is no DataFrame. Pass one or use positions."
        )
    if name not in places:
        raise InvalidInputError(f"Unknown column {name!r}; X has {some([str(column) for column in places])}.")
    return places[name]


def _positional(selection: slice, places: Places | None) -> slice:
    ends = (selection.start, selection.stop)
    if not any(isinstance(end, str) for end in ends):
        return selection
    start = None if ends[0] is None else _named(ends[0], places)
    # A slice of names includes its end, as in pandas.
    stop = None if ends[1] is None else _named(ends[1], places) + 1
    return slice(start, stop, selection.step)


def some(names: list[str]) -> str:
    """Return a few names of many, quoted."""
    return listed(map(repr, names[:5]), len(names))


@dataclass(frozen=True, eq=False)
class MixedRows:
    """Rows with columns of objects beside those of numbers."""

    numbers: Array  # (n, k) float64, NaN where a value is missing; 0 for an object
    objects: Mapping[int, Array]  # (n,) object, by the column of `numbers` in whose place they stand

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.numbers.shape

    def __len__(self) -> int:
        return len(self.numbers)


def numbers_of(rows: Any) -> Array:
    """Return the columns of numbers of rows that may have objects beside them."""
    return rows.numbers if isinstance(rows, MixedRows) else rows


DOTTED_DATE, DAY_FIRST = re.compile(r"\d{1,2}\.\d{1,2}\.\d{4}"), "%d.%m.%Y"  # with dots, the day is always first
EPOCH, DAY = pd.Timestamp("1970-01-01"), pd.Timedelta(days=1)


@dataclass(frozen=True)
class Encoding:
    """What the values of a column are as numbers: themselves, days, positions in a list of levels, or ranks."""

    kind: str = "number"  # as in manykernels.kernels.tables.kinds.READ_AS
    levels: tuple[Any, ...] = ()  # the categories of the training rows, in their order; empty for numbers and dates

    @classmethod
    def of(cls, column: pd.Series, kind: str) -> Encoding:
        """Return the encoding of a column of categories, ordered or not, or of text."""
        categories = (
            column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column.dropna().unique()
        )
        return cls(kind, tuple(dict.fromkeys(plain(level) for level in categories)))

    @property
    def read_as(self) -> str:
        """What kernels take the column for: ``"number"``, ``"ordered"`` or ``"category"``."""
        return READ_AS[self.kind]

    @cached_property
    def scaled(self) -> bool:
        """Whether standardization divides the column: not days, whose unit has a meaning, and no codes."""
        return self.kind in ("number", "boolean", "duration")

    @cached_property
    def centered(self) -> bool:
        """Whether its mean is always subtracted: days since 1970 are far from zero."""
        return self.kind == "date"

    def encode(self, column: pd.Series) -> Array:
        """Return the column as float64, (n,): NaN for what is missing, `UNSEEN` for a category that is not a level."""
        if self.kind == "objects":  # which kernels read as they are: here is only what is missing
            return np.where(column.isna().to_numpy(dtype=bool), np.nan, 0.0)
        try:
            if self.read_as != "number":
                return self._codes(column)
            if self.kind == "date":
                return _days(column)
            if self.kind == "duration":
                return np.asarray(pd.to_timedelta(column) / DAY, dtype=np.float64)
            return _numbers(column)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInputError(
                f"Column {str(column.name)!r} cannot be read as {_WORDS[self.kind]}, as in fit: {error}."
            ) from error

    def _codes(self, column: pd.Series) -> Array:
        """Return positions of levels, or their ranks between 0 and 1 if they have an order."""
        if isinstance(column.dtype, pd.CategoricalDtype):
            of_category = self._places([plain(value) for value in column.cat.categories])
            codes = np.append(of_category, np.nan)[column.cat.codes.to_numpy()]
        else:
            missing = column.isna().to_numpy(dtype=bool)
            codes = np.full(len(column), np.nan)
            codes[~missing] = self._places([plain(value) for value in column[~missing]])
        if self.kind == "ordered":
            codes = np.where(codes == UNSEEN, UNSEEN, codes / max(len(self.levels) - 1, 1))
        return codes

    def _places(self, values: list[Any]) -> Array:
        place = {level: float(at) for at, level in enumerate(self.levels)}
        return np.array([place.get(value, UNSEEN) for value in values], dtype=np.float64)


_WORDS = {"number": "numbers", "boolean": "true and false", "date": "dates", "duration": "durations"}
_WORDS |= dict.fromkeys(("ordered", "category", "text"), "categories")


def plain(level: object) -> Any:
    """Return a category as text or a number of Python, whatever it was: what a model file can hold."""
    value = level.item() if isinstance(level, np.generic) else level
    return value if isinstance(value, (str, bool, int, float)) else str(value)


def _numbers(column: pd.Series) -> Array:
    """Return numbers or booleans, nullable and Arrow types and objects among them, as float64."""
    if column.dtype == object:
        column = pd.to_numeric(column.map(_as_float, na_action="ignore"))
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _as_float(value: Any) -> float:
    if isinstance(value, str):
        raise ValueError(f"could not convert string to float: {value!r}")
    return float(value)


def _days(column: pd.Series) -> Array:
    """Return dates as days since 1970, by the clock on the wall where they have a time zone."""
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    if not isinstance(column.dtype, np.dtype) or column.dtype.kind != "M":
        values: Any = [None if pd.isna(value) else _wall_clock(value) for value in column]
        column = pd.Series(pd.to_datetime(values), index=column.index)
    return np.asarray((column - EPOCH) / DAY, dtype=np.float64)


def _wall_clock(value: Any) -> pd.Timestamp:
    """Return a date without its time zone; text is read as ISO 8601 says, or with dots as day, month and year."""
    if not isinstance(value, str) and not hasattr(value, "year"):
        raise ValueError(f"{value!r} is no date")
    if isinstance(value, str) and DOTTED_DATE.fullmatch(value.strip()):
        return pd.to_datetime(value.strip(), format=DAY_FIRST)
    stamp = value.to_timestamp() if isinstance(value, pd.Period) else pd.Timestamp(value)
    return stamp.tz_localize(None)
