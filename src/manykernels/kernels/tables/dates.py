"""Dates of a column as days since 1970: time stamps of every type, and text in a column-wide format."""

import re
from typing import Any

import numpy as np
import pandas as pd

from manykernels.validation.arrays import Array

DATE = re.compile(
    r"\s*(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})"
    r"(?:[T ](\d{1,2})(:\d{2}(?::\d{2}(?:\.\d+)?)?)\s*(Z|[+-]\d{2}:?\d{2})?)?\s*"
)
YEAR_FIRST, DAY_FIRST, MONTH_FIRST, AMBIGUOUS = "year first", "day first", "month first", "ambiguous"
ORDERS = (YEAR_FIRST, DAY_FIRST, MONTH_FIRST)
EPOCH, DAY = pd.Timestamp("1970-01-01"), pd.Timedelta(days=1)
AMBIGUITY = "day and month may be either way round, as in {example!r}; write dates as 2024-12-31 or 31.12.2024"


def date_order(column: pd.Series) -> str | None:
    """Return the order of year, month and day in a column of text: an entry of `ORDERS`, or `AMBIGUOUS`.

    One day above 12 settles the order of ``31/12/2024`` and ``03-04-2024`` for the whole column. None if some entry is
    no date, if entries contradict one another, or if there is no entry.
    """
    present = column.dropna().unique()
    # Types of text yield NumPy or Arrow arrays here; either is a sequence.
    matches = [DATE.fullmatch(text) if isinstance(text, str) else None for text in present]
    found = [match.groups() for match in matches if match is not None]
    if not found or len(found) < len(matches):
        return None
    if all(len(first) == 4 and len(last) <= 2 and sign != "." for first, sign, _, last, *_ in found):
        return YEAR_FIRST
    if not all(len(first) <= 2 and len(last) == 4 for first, _, _, last, *_ in found):
        # Years of two digits leave more than one reading.
        short = all(len(first) <= 2 and sign != "." for first, sign, *_ in found)
        return AMBIGUOUS if short else None
    if all(sign == "." for _, sign, *_ in found):  # with dots, the day is always first
        return DAY_FIRST
    if any(sign == "." for _, sign, *_ in found):
        return None
    first, second = (max(int(groups[place]) for groups in found) for place in (0, 2))
    months = 12
    if first > months:
        return None if second > months else DAY_FIRST
    return MONTH_FIRST if second > months else AMBIGUOUS


def settle_order(column: pd.Series) -> str | None:
    """Return whether day or month is first if the column has to be looked at to tell, and does tell."""
    order = date_order(column)
    return order if order in (DAY_FIRST, MONTH_FIRST) and not _dotted(column) else None


def parse_dates(column: pd.Series, order: str | None = None) -> pd.Series | None:
    """Return a column of text as time stamps, in UTC if the texts have UTC offsets; None if they are no dates.

    Parameters
    ----------
    column : Series of text
    order : str, optional
        An entry of `ORDERS` that the column is known to have, for example that of the training table; by default the
        column decides.

    Raises
    ------
    ValueError
        If day and month may be either way round, or are not in the given order.
    """
    own = date_order(column)
    if own is None:
        return None
    if order in (DAY_FIRST, MONTH_FIRST) and settle_order(column) not in (None, order):
        raise ValueError(f"its dates are written {own}, and those of fit {order}; write them as 2024-12-31")
    if own == AMBIGUOUS:
        if order not in (DAY_FIRST, MONTH_FIRST) or not _has_long_years(column):
            raise ValueError(AMBIGUITY.format(example=str(column.dropna().iloc[0])))
        own = order
    texts = column.dropna()
    parts: Any = [DATE.fullmatch(text).groups() for text in texts]  # type: ignore[union-attr]  # all are dates
    offsets = [groups[6] is not None for groups in parts]
    if any(offsets) and not all(offsets):
        return None
    written = [_iso(groups, own) for groups in parts]
    stamps = pd.to_datetime(
        pd.Series(written, index=texts.index, dtype=object), format="ISO8601", errors="coerce", utc=all(offsets)
    )
    return None if stamps.isna().any() else stamps.reindex(column.index)


def _dotted(column: pd.Series) -> bool:
    """Return whether dots separate the parts of the dates of a column, a sign of the order."""
    return "." in str(column.dropna().iloc[0])[:6]


def _has_long_years(column: pd.Series) -> bool:
    """Return whether every date of a column of dates ends on a year of four digits."""
    return all(re.search(r"\d{4}(\D|$)", text) for text in column.dropna())


def _iso(groups: tuple[str | None, ...], order: str) -> str:
    """Return the parts of a date in the form of ISO 8601."""
    first, _, second, last, hour, rest, offset = (part or "" for part in groups)
    year, month, day = {
        YEAR_FIRST: (first, second, last), DAY_FIRST: (last, second, first), MONTH_FIRST: (last, first, second)
    }[order]  # fmt: skip
    return f"{year}-{month:0>2}-{day:0>2}" + (f"T{hour:0>2}{rest}{offset}" if hour else "")


def days(column: pd.Series, kind: str, *, order: str | None = None) -> Array:
    """Return dates as days since 1970, (n,) float64, NaN where a date is missing.

    Parameters
    ----------
    column : Series
        Time stamps, periods, dates of Python, or text.
    kind : str
        ``"instant"`` for dates with a time zone or a UTC offset, read in UTC; otherwise dates must have neither.
    order : str, optional
        See :func:`parse_dates`.

    Raises
    ------
    ValueError
        If the column holds something else.
    """
    stamps = _stamps(column, order)
    aware = getattr(stamps.dtype, "tz", None) is not None
    if aware != (kind == "instant") and stamps.notna().any():
        if aware:
            raise ValueError(
                "its dates have a time zone or UTC offsets, and those of fit had none; remove them with "
                "column.dt.tz_convert(zone).dt.tz_localize(None)"
            )
        raise ValueError(
            "its dates have no time zone, and those of fit had one or UTC offsets; add it with "
            "column.dt.tz_localize(zone)"
        )
    if aware:
        stamps = stamps.dt.tz_convert("UTC").dt.tz_localize(None)
    return np.asarray((stamps - EPOCH) / DAY, dtype=np.float64)


def _stamps(column: pd.Series, order: str | None) -> pd.Series:
    """Return a column of dates of any type as time stamps of pandas."""
    if isinstance(column.dtype, pd.PeriodDtype):
        return column.dt.to_timestamp()
    if isinstance(column.dtype, pd.DatetimeTZDtype) or (
        isinstance(column.dtype, np.dtype) and column.dtype.kind == "M"
    ):
        return column
    values = column.astype(object)
    present = values.dropna()
    if present.empty:
        return pd.Series(pd.NaT, index=column.index, dtype="datetime64[ns]")
    if all(isinstance(value, str) for value in present):
        stamps = parse_dates(values, order)
        if stamps is None:
            raise ValueError(f"it holds text that is no date, or in several forms, such as {_other(present)!r}")
        return stamps
    wrong = next((value for value in present if not hasattr(value, "year")), None)
    if wrong is not None:
        raise ValueError(f"it holds {wrong!r}, which is no date; pandas.to_datetime makes dates of numbers and text")
    starts = [value.to_timestamp() if isinstance(value, pd.Period) else pd.Timestamp(value) for value in present]
    aware = [start.tzinfo is not None for start in starts]
    if any(aware) and not all(aware):
        raise ValueError("some of its dates have a time zone and others do not")
    found = pd.to_datetime(pd.Series(starts, index=present.index, dtype=object), utc=all(aware))
    return found.reindex(column.index)


def _other(present: pd.Series) -> str:
    """Return the first text of a column other than a date, or else the first text."""
    return next((text for text in present if not DATE.fullmatch(text)), present.iloc[0])


def has_zone(column: pd.Series) -> bool:
    """Return whether the first of a column of dates has a time zone."""
    first = column.dropna()
    return bool(len(first)) and getattr(first.iloc[0], "tzinfo", None) is not None
