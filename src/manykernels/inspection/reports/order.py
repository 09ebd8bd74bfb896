"""The order of the rows of a table, and folds misled by the order."""

from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_datetime64_any_dtype
from sklearn.model_selection import KFold, TimeSeriesSplit

from manykernels.inspection.reports.scores import SURVIVAL
from manykernels.validation.arrays import Array


def date_order(table: pd.DataFrame) -> str:
    """Return the quoted name of a sorted date column, or ""."""
    for name, column in table.items():
        if is_datetime64_any_dtype(column.dtype) and column.nunique() > 2 and _is_sorted(column):
            return repr(str(name))
    return ""


def is_sorted_by_target(target: Array, task: str) -> bool:
    """Return whether a varying target sorts the rows, by classes in any order."""
    values = target["time"] if task == SURVIVAL else target
    if np.ndim(values) > 1:
        return False
    series = pd.Series(pd.factorize(values)[0] if task == "classification" else values)
    return series.nunique() > 1 and _is_sorted(series)


def _is_sorted(column: pd.Series) -> bool:
    return bool(column.is_monotonic_increasing or column.is_monotonic_decreasing)


def mixes_times(cv: Any) -> bool:
    """Return whether folds of a search predict rows from later rows."""
    return not isinstance(cv, TimeSeriesSplit)


def splits_into_blocks(cv: Any, task: str) -> bool:
    """Return whether folds of a search are contiguous blocks; stratified folds are not."""
    if cv is None or isinstance(cv, int | np.integer):
        return task == "regression"
    return isinstance(cv, KFold) and not cv.shuffle
