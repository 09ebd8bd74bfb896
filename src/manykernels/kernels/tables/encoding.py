"""Encodings of columns as numbers, learned on training rows and fixed afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_complex_dtype, is_numeric_dtype
from scipy.sparse import csr_array

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.specs.categorical import UNSEEN
from manykernels.kernels.tables.dates import DAY, EPOCH, days
from manykernels.kernels.tables.kinds import READ_AS
from manykernels.kernels.tables.tails import compress_tails, expand_tails
from manykernels.validation.arrays import Array
from manykernels.validation.parameters import listed

# Which columns a selection means: names, positions, slices, masks, selectors, as in a ColumnTransformer.


Places = Mapping[Any, int]  # the position of every column by its name; None for an array


def select_columns(selection: object, data: pd.DataFrame | Array | csr_array, places: Places | None) -> tuple[int, ...]:
    """Return the positions of a column selection, with the rules of ColumnTransformer in scikit-learn."""
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
            f"Column {name!r} is selected by name, but X is not a DataFrame. Pass a DataFrame or use positions."
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
    """Rows with columns of objects beside numeric columns."""

    numbers: Array  # (n, k) float64, NaN where a value is missing; 0 for an object
    objects: Mapping[int, Array]  # (n,) object, by the column of `numbers` in whose place they stand

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.numbers.shape

    def __len__(self) -> int:
        return len(self.numbers)


def numbers_of(rows: Any) -> Array:
    """Return the numeric columns of rows with possible objects."""
    return rows.numbers if isinstance(rows, MixedRows) else rows


# Texts that are plain decimal numbers; a leading zero makes a code, and no number, of a text.
PLAIN_NUMBER = re.compile(r"[-+]?(0|[1-9]\d*)(\.\d+)?")
TRUTHS = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True)
class Encoding:
    """How the values of a column become numbers: unchanged, days, positions in a list of levels, or ranks.

    The only reader of a column: fit, prediction, chunks, reports and exports call `encode`.
    """

    kind: str = "number"  # as in manykernels.kernels.tables.kinds.READ_AS
    levels: tuple[Any, ...] = ()  # the categories of the training rows, in their order; empty for numbers and dates
    tails: tuple[float, float] | None = None  # middle and unit of numbers whose tails are compressed

    @classmethod
    def fit(cls, column: pd.Series, kind: str) -> Encoding:
        """Return the encoding of a column of categories, ordered or not, or of text; levels of equal text merge."""
        categories = (
            column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column.dropna().unique()
        )
        return cls(kind, distinct_levels(categories))

    @property
    def read_as(self) -> str:
        """The kind for kernels: ``"number"``, ``"ordered"`` or ``"category"``."""
        return READ_AS[self.kind]

    @cached_property
    def scaled(self) -> bool:
        """Return whether standardization divides the column: no days, with a meaningful unit, and no codes."""
        return self.kind in ("number", "boolean", "duration")

    @cached_property
    def centered(self) -> bool:
        """Whether the mean is always subtracted: days since 1970 are far from zero."""
        return self.kind in ("date", "instant")

    def encode(self, column: pd.Series) -> Array:
        """Return the column as float64, (n,): NaN for what is missing, `UNSEEN` for a category not a level.

        A level is matched by the text, so that 1, 1.0 and ``"1"`` are a single level, whatever type the column has.
        Numbers, truths, dates and durations are read of columns that hold them, whatever their types.
        """
        if self.kind == "objects":  # which kernels read as they are: here is only what is missing
            return np.where(column.isna().to_numpy(dtype=bool), np.nan, 0.0)
        try:
            if self.read_as != "number":
                return self._codes(column)
            if self.centered:
                return days(column, self.kind)
            numbers = {"number": _numbers, "boolean": _truths, "duration": _durations}[self.kind](column)
            return numbers if self.tails is None else compress_tails(numbers, *self.tails)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInputError(
                f"Column {str(column.name)!r} cannot be read as {_WORDS[self.kind]}, as in fit: {error}."
            ) from error

    def decode(self, values: Array) -> pd.Series:
        """Return an encoded column as the original numbers, NaN for a gap: the inverse, except for categories."""
        values = np.asarray(values, dtype=np.float64)
        if self.tails is not None:
            return pd.Series(expand_tails(values, *self.tails))
        if self.kind == "boolean":
            return pd.Series(values > 0.5).astype("boolean").mask(np.isnan(values))
        if self.centered:
            stamps = pd.Series(EPOCH + pd.to_timedelta(values, unit="D"))
            return stamps.dt.tz_localize("UTC") if self.kind == "instant" else stamps
        return pd.Series(pd.to_timedelta(values, unit="D") if self.kind == "duration" else values)

    def _codes(self, column: pd.Series) -> Array:
        """Return positions of levels, or ranks between 0 and 1 for ordered levels."""
        if isinstance(column.dtype, pd.CategoricalDtype):
            of_category = self._places(column.cat.categories)
            codes = np.append(of_category, np.nan)[column.cat.codes.to_numpy()]
        else:
            missing = column.isna().to_numpy(dtype=bool)
            codes = np.full(len(column), np.nan)
            codes[~missing] = self._places(column[~missing])
        if self.kind == "ordered":
            codes = np.where(codes == UNSEEN, UNSEEN, codes / max(len(self.levels) - 1, 1))
        return codes

    def _places(self, values: Iterable[Any]) -> Array:
        """Return the positions of the levels equal in text to the values."""
        texts, known = [level_text(value) for value in values], self._place_of
        found = {text: known.get(text, known.get(_number_text(text), UNSEEN)) for text in set(texts)}
        return np.array([found[text] for text in texts], dtype=np.float64)

    @cached_property
    def _place_of(self) -> dict[str, float]:
        """The position of every level by text, then by equivalent values."""
        known = {level_text(level): float(at) for at, level in enumerate(self.levels)}
        for at, level in enumerate(self.levels):
            known.setdefault(str(int(level)) if isinstance(level, bool) else _number_text(level_text(level)), float(at))
        return known


_WORDS = {"number": "numbers", "boolean": "true and false", "date": "dates", "duration": "durations"}
_WORDS |= {"instant": "dates with a time zone"} | dict.fromkeys(("ordered", "category", "text"), "categories")


def plain(level: object) -> Any:
    """Return a category as text or a Python number, for storage in a model file."""
    if isinstance(level, (np.float16, np.float32)):  # by their shortest decimals, as double precision has them
        return float(str(level))
    value = level.item() if isinstance(level, np.generic) else level
    return value if isinstance(value, (str, bool, int, float)) else str(value)


def level_text(level: object) -> str:
    """Return the text of a level, the same for a whole number of any type.

    Examples
    --------
    >>> [level_text(level) for level in (1, 1.0, "1", True, "01", 0.5)]
    ['1', '1', '1', 'True', '01', '0.5']
    """
    if isinstance(level, str):
        return level
    value = plain(level)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value)


def distinct_levels(levels: Iterable[Any]) -> tuple[Any, ...]:
    """Return levels as a model file can hold them, the first of those with equal texts, in their order.

    Examples
    --------
    >>> distinct_levels([1, "b", "1", 2.0])
    (1, 'b', 2.0)
    """
    found: dict[str, Any] = {}
    for level in levels:
        found.setdefault(level_text(level), plain(level))
    return tuple(found.values())


def _number_text(text: str) -> str:
    """Return the canonical text of a numeric text; other texts unchanged."""
    match = PLAIN_NUMBER.fullmatch(text)
    return text if match is None else level_text(float(text) if match[2] else int(text))


def _numbers(column: pd.Series) -> Array:
    """Return numbers or booleans as float64, including nullable and Arrow types and objects."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        known = _numbers(pd.Series(column.cat.categories))
        return np.append(known, np.nan)[column.cat.codes.to_numpy()]
    if not is_numeric_dtype(column.dtype):
        values = column.astype(object)
        return np.array(
            [np.nan if gap else _parse_float(v) for v, gap in zip(values, values.isna(), strict=True)], float
        )
    if is_complex_dtype(column.dtype):
        raise ValueError("it holds complex numbers")
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _parse_float(value: Any) -> float:
    if isinstance(value, str):
        raise ValueError(
            f"could not convert string to float: {value!r}; convert numbers in text with pandas.to_numeric"
        )
    return float(value)


def _truths(column: pd.Series) -> Array:
    """Return booleans as 0 and 1; numbers must be 0 or 1, and text true or false."""
    if column.dtype == bool:
        return column.to_numpy(dtype=np.float64)
    if not is_numeric_dtype(column.dtype):
        column = column.astype(object).map(lambda v: TRUTHS.get(v.lower(), v) if isinstance(v, str) else v)
    values = _numbers(column)
    wrong = values[~np.isnan(values) & (values != 0.0) & (values != 1.0)]
    if len(wrong):
        raise ValueError(f"it holds {wrong[0]:g}")
    return values


def _durations(column: pd.Series) -> Array:
    """Return durations in days."""
    if is_numeric_dtype(column.dtype) and column.notna().any():
        raise ValueError("it holds numbers of unknown unit; convert them with pandas.to_timedelta")
    return np.asarray(pd.to_timedelta(column.astype(object)) / DAY, dtype=np.float64)
