"""Which rows of a table a model was fitted on: by what is in them, not by the name of a file or the number of rows."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype

from manykernels.validation.arrays import TableLike

Array = NDArray[Any]


def fingerprints(X: TableLike, y: ArrayLike) -> Array:
    """Return a number for each row of a table with its target, the same for the same values in any order of columns.

    Whole numbers and others are the same if they are equal, since files differ in how they write them. Of two
    different rows, one in four thousand million pairs has the same number.
    """
    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X))
    columns = {str(name): _comparable(frame[name]) for name in sorted(frame.columns, key=str)}
    y = np.asarray(y)
    parts = [y[name] for name in y.dtype.names] if y.dtype.names else np.reshape(y, (len(y), -1)).T
    columns |= {f"\0target {k}": _comparable(pd.Series(part)) for k, part in enumerate(parts)}
    hashes = pd.util.hash_pandas_object(pd.DataFrame(columns), index=False).to_numpy()
    return (hashes >> np.uint64(32)).astype(np.uint32)


def packed(prints: Array) -> str:
    """Return the numbers of rows as text for a model file, about five letters a row."""
    return base64.b64encode(np.unique(prints).astype("<u4").tobytes()).decode("ascii")


def among(prints: Array, text: Any) -> Array:
    """Return which rows are among those of a text that :func:`packed` made; none if there is no such text."""
    try:
        return np.isin(prints, np.frombuffer(base64.b64decode(text, validate=True), dtype="<u4"))
    except (TypeError, ValueError):  # a file that does not say, or says something else
        return np.zeros(len(prints), dtype=bool)


def _comparable(column: pd.Series) -> Array:
    """Return numbers and dates as floats, and all else as text."""
    if is_datetime64_any_dtype(column.dtype):
        seconds = (column - pd.Timestamp(0, tz=column.dt.tz)).dt.total_seconds()
        return seconds.to_numpy(dtype=np.float64)
    if is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan) + 0.0  # of -0.0 and 0.0 one
    return column.astype(object).where(column.notna(), "").astype(str).to_numpy(dtype=object)
