"""Recognition of training rows in a table by value.

Rows are compared by a number computed from their features and target. A model file stores the numbers of all rows of
the table, in file order, with a mask of the training rows. Rows with equal features and target have equal scores, so
only their number matters: a table with all rows of the fit is split exactly as in the fit. With repeated rows, training
rows are indistinguishable from new rows equal by chance, and a biased split would result; the table is not split.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype

from manykernels.validation.arrays import Array, TableLike

REPEATED = 0.01  # share of rows with an equal one, up to which a row that equals a row of the fit is that row


@dataclass(frozen=True, eq=False)
class Split:
    """The training rows of a table and the remaining rows, or a doubt if ambiguous."""

    fitted: Array  # (n,) bool
    doubt: str = ""


def fingerprints(X: TableLike, y: ArrayLike) -> Array:
    """Return a number for every row of a table with the target, the same for the same values in any order of columns.

    Numbers, text of numbers, dates and truth values are compared by value, in single precision unless whole, since
    files differ in precision. About 1 in 4e9 pairs of different rows has equal numbers.
    """
    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X))
    columns = {str(name): _comparable(frame[name]) for name in sorted(frame.columns, key=str)}
    y = np.asarray(y)
    parts = [y[name] for name in y.dtype.names] if y.dtype.names else np.reshape(y, (len(y), -1)).T
    columns |= {f"\0target {k}": _comparable(pd.Series(part)) for k, part in enumerate(parts)}
    hashes = pd.util.hash_pandas_object(pd.DataFrame(columns), index=False).to_numpy()
    return (hashes >> np.uint64(32)).astype(np.uint32)


def record_of(prints: Array, fitted: Array) -> dict[str, str]:
    """Return the rows of a fit as text for a model file, about six letters a row; ``fitted`` are positions."""
    marks = np.packbits(np.isin(np.arange(len(prints)), fitted))
    return {"rows": _row_texts(prints.astype("<u4")), "fitted": _row_texts(marks)}


def split_as_fitted(prints: Array, record: Any) -> Split:
    """Return the training rows, recognized by the result of :func:`record_of`; none without a record."""
    rows, fitted = _read_record(record)
    split = np.zeros(len(prints), dtype=bool)
    places = _find_in_order(rows, prints)
    if places is not None:  # the file of the fit, or one with more rows
        split[places] = fitted
        return Split(split)
    known, n_fitted = np.unique(rows[fitted], return_counts=True)
    slots = np.searchsorted(known, prints)
    slots[slots == len(known)] = 0
    equal = known[slots] == prints if len(known) else split
    whole = np.array_equal(np.sort(rows), np.sort(prints))  # the same rows in another order
    repeated = float(pd.Series(rows).duplicated(keep=False).mean()) if len(rows) else 0.0
    if equal.any() and not whole and repeated > REPEATED:
        return Split(
            split,
            f"{repeated:.0%} of the rows of the fit have an equal one, so that the {int(equal.sum()):,} rows of this "
            "table that equal fitted rows may be these or new ones.",
        )
    copies = pd.Series(prints).groupby(prints).cumcount().to_numpy()  # how many equal rows come before
    return Split(equal & (copies < n_fitted[slots] if len(known) else equal))


def equal_beyond_chance(fitted: Array, scored: Array) -> Array | None:
    """Return the scored rows equal to training rows; None if such matches are expected by chance."""
    equal = np.isin(scored, fitted)
    expected = float(pd.Series(fitted).duplicated(keep=False).mean())
    error = np.sqrt(expected * (1.0 - expected) / len(scored))
    beyond = 3.0  # standard errors by which more rows are equal than chance explains
    return equal if equal.mean() > expected + beyond * error else None


def _row_texts(values: Array) -> str:
    return base64.b64encode(values.tobytes()).decode("ascii")


def _read_record(record: Any) -> tuple[Array, Array]:
    """Return the numbers of rows with the training rows; no rows for a foreign record."""
    nothing = np.zeros(0, dtype=np.uint32), np.zeros(0, dtype=bool)
    if not isinstance(record, Mapping):
        return nothing
    try:
        rows = np.frombuffer(base64.b64decode(record["rows"], validate=True), dtype="<u4")
        marks = np.frombuffer(base64.b64decode(record["fitted"], validate=True), dtype=np.uint8)
    except (KeyError, TypeError, ValueError):
        return nothing
    fitted = np.unpackbits(marks)[: len(rows)].astype(bool)
    return (rows, fitted) if len(fitted) == len(rows) else nothing


def _find_in_order(rows: Array, prints: Array) -> Array | None:
    """Return positions of all rows among others in the same order, None if a row is missing."""
    if not len(rows) or len(rows) > len(prints):
        return None
    places, wanted, at = [], rows.tolist(), 0
    for place, value in enumerate(prints.tolist()):
        if at < len(wanted) and value == wanted[at]:
            places.append(place)
            at += 1
    return np.array(places) if at == len(wanted) else None


def _comparable(column: pd.Series) -> Array:
    """Return a number for every value, the same for 1, 1.0, "1" and a level 1 of a category."""
    if is_datetime64_any_dtype(column.dtype):
        values = (column - pd.Timestamp(0, tz=column.dt.tz)).dt.total_seconds().to_numpy(dtype=np.float64)
    elif is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        codes, levels = pd.factorize(column.astype(object))
        values = np.append(_numbers_of(np.asarray(levels)), np.nan)[codes]
    whole = np.floor(values) == values
    with np.errstate(over="ignore"):
        return np.where(whole, values, values.astype(np.float32)) + 0.0  # -0.0 and 0.0 are one


def _numbers_of(levels: Array) -> Array:
    """Return the numbers of numeric levels; for other levels, whole numbers computed from the text."""
    texts = pd.Series([str(float(level)) if isinstance(level, (bool, np.bool_)) else str(level) for level in levels])
    hashes = -((pd.util.hash_array(texts.to_numpy(dtype=object)) >> np.uint64(12)).astype(np.float64))
    numbers = pd.to_numeric(texts, errors="coerce").to_numpy(dtype=np.float64)
    return np.where(np.isfinite(numbers), numbers, hashes)
