"""What of a table can be learned from: everything that cannot, in one message with the options that leave it out."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
from pandas.api.types import is_complex_dtype, is_numeric_dtype

from manykernels.cli.tables import and_more
from manykernels.exceptions import InvalidInputError
from manykernels.kernels.tables.encoding import DAY_FIRST, DOTTED_DATE
from manykernels.kernels.tables.kinds import READ_AS, describe, kind_of
from manykernels.validation.arrays import Array

ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[+-]\d{2}:?\d{2})?")
TWO_WAYS = re.compile(r"\d{1,2}[/-]\d{1,2}[/-]\d{2,4}")  # the third of April, or the fourth of March
MOST_NAMED = 6


def usable_features(frame: pd.DataFrame, missing: str = "error") -> pd.DataFrame:
    """Return the columns with dates read as such, or name all columns that cannot be used and what can be done."""
    if frame.shape[1] == 0:
        raise InvalidInputError("There is no column left to learn from.")
    # Column by column takes seconds for a hundred thousand numeric columns, about which nothing is to be found out.
    others = {name: _with_dates(column) for name, column in frame.loc[:, ~real_columns(frame)].items()}
    if others:
        frame = frame.assign(**{str(name): column for name, column in others.items()})
    kinds = {str(name): kind_of(column) for name, column in others.items()}
    useless = {name: describe(frame[name]) for name, kind in kinds.items() if kind == "text" or kind not in READ_AS}
    gaps = _of_gaps(frame) if missing == "error" else []
    parts = [*_of_text(useless), *_of_dates(frame), *gaps, *_of_infinite(frame)]
    if parts:
        raise InvalidInputError("\n".join(parts))
    return frame


def check_entries(frame: pd.DataFrame, missing: str) -> None:
    """Refuse gaps and infinite values where a model that was fitted with ``missing`` needs numbers."""
    parts = [*(_of_gaps(frame) if missing == "error" else []), *_of_infinite(frame)]
    if parts:
        # The way out of a gap is another one than in a fit: the model needs each of its columns.
        found = " ".join(part.split(". ")[0] + "." for part in parts)
        raise InvalidInputError(f"{found} The model needs all of its columns in every row; fit it with --missing mask.")


def real_columns(frame: pd.DataFrame) -> Array:
    """Return which columns hold real numbers or truths; each type is looked at once, not each column."""
    real = {dtype: is_numeric_dtype(dtype) and not is_complex_dtype(dtype) for dtype in set(frame.dtypes)}
    return np.array([real[dtype] for dtype in frame.dtypes], dtype=bool)


def _with_dates(column: pd.Series) -> pd.Series:
    """Return a column of texts that are all dates as dates; others as they are."""
    if is_numeric_dtype(column.dtype) or isinstance(column.dtype, pd.CategoricalDtype):
        return column
    for pattern, form in ((ISO_DATE, "ISO8601"), (DOTTED_DATE, DAY_FIRST)):
        if _all_like(column, pattern):
            dates = pd.to_datetime(column.str.strip(), format=form, errors="coerce", utc=True).dt.tz_localize(None)
            return dates if dates.notna().sum() == column.notna().sum() else column
    return column


def _all_like(column: pd.Series, pattern: re.Pattern[str]) -> bool:
    """Whether all that is there is text of that form."""
    present = column.dropna()
    return not present.empty and all(isinstance(one, str) and pattern.fullmatch(one.strip()) for one in present)


def _of_dates(frame: pd.DataFrame) -> list[str]:
    """Refuse dates that can be read in two ways: as categories they would say next to nothing."""
    others = frame.loc[:, ~real_columns(frame)]
    found = {str(name): column.dropna().iloc[0] for name, column in others.items() if _all_like(column, TWO_WAYS)}
    if not found:
        return []
    shown = [f"{name!r} (such as {value!r})" for name, value in list(found.items())[:MOST_NAMED]]
    return [
        f"{_count(list(found), 'holds', 'hold')} dates whose day and month may be either way round: "
        f"{and_more(shown, len(found))}. Write them as 2024-12-31 or 31.12.2024, or leave them out: "
        + _drops(list(found))
    ]


def _of_text(useless: dict[str, str]) -> list[str]:
    if not useless:
        return []
    shown = [f"{name!r} ({held})" for name, held in list(useless.items())[:MOST_NAMED]]
    return [
        f"{_count(list(useless))} text that is no category, or cannot be read: {and_more(shown, len(useless))}. Turn "
        f"into numbers or categories what should count, or leave it out: {_drops(list(useless))}"
    ]


def _of_gaps(frame: pd.DataFrame) -> list[str]:
    found = _positive(frame.isna().sum())
    if not found:
        return []
    return [
        f"{_count(list(found), 'has', 'have')} missing values: {_shown(found, len(frame))}. Say what a gap means (--"
        f"missing mask or indicator), fill them, leave the columns out ({_drops(list(found))}), or leave out the rows: "
        "--drop-missing"
    ]


def _of_infinite(frame: pd.DataFrame) -> list[str]:
    real = frame.loc[:, real_columns(frame)]
    values = real.to_numpy(dtype=np.float64, na_value=np.nan)
    found = _positive(pd.Series(np.isinf(values).sum(axis=0), index=real.columns))
    if not found:
        return []
    return [
        f"{_count(list(found), 'has', 'have')} infinite values: {_shown(found, len(frame))}. Correct them, or leave "
        f"the columns out: {_drops(list(found))}"
    ]


def _positive(counts: pd.Series) -> dict[str, int]:
    """Return the counts that are not zero, by the names of the columns."""
    return {str(name): int(count) for name, count in counts[counts > 0].items()}


def _shown(found: dict[str, int], n_rows: int) -> str:
    listed = [f"{name!r} ({count} of {n_rows} rows)" for name, count in list(found.items())[:MOST_NAMED]]
    return and_more(listed, len(found))


def _count(names: Sequence[str], one: str = "is", many: str = "are") -> str:
    return f"1 column {one}" if len(names) == 1 else f"{len(names)} columns {many}"


def _drops(names: Sequence[str]) -> str:
    options = [f"--drop {name!r}" if re.search(r"[^\w.-]", name) else f"--drop {name}" for name in names]
    return " ".join(options[:MOST_NAMED]) + (" ..." if len(options) > MOST_NAMED else "")
