"""What a column of a table is: numbers, booleans, dates, categories, ranks, text, or nothing that can be used."""

from __future__ import annotations

import re
from functools import lru_cache

import pandas as pd
from numpy.typing import DTypeLike
from pandas.api.types import (
    infer_dtype,
    is_bool_dtype,
    is_complex_dtype,
    is_datetime64_any_dtype,
    is_numeric_dtype,
    is_timedelta64_dtype,
)

READ_AS = {
    "number": "number",
    "boolean": "number",
    "date": "number",
    "duration": "number",
    "ordered": "ordered",
    "category": "category",
    "text": "category",
    "objects": "objects",
}
"""What kernels read columns of every kind as; kinds that are not here cannot be read."""

INFERRED = {
    **dict.fromkeys(("integer", "floating", "mixed-integer-float", "decimal", "empty"), "number"),
    **dict.fromkeys(("datetime", "datetime64", "date", "period"), "date"),
    **dict.fromkeys(("timedelta", "timedelta64"), "duration"),
    **dict.fromkeys(("string", "mixed-integer", "mixed"), "category"),
    "boolean": "boolean",
    "categorical": "category",
}
LIKE_DATE = re.compile(r"\s*(\d{4}-\d{1,2}-\d{1,2}|\d{1,2}([./-])\d{1,2}\2\d{2,4})(\D|$)")
FEW_LEVELS = 20  # as many different texts are categories, however few rows there are
TEXT_SHARE = 0.9  # of the rows: more different texts than this are no categories
WORDS, WORDY_SHARE = 4.0, 0.5  # so many words on average are prose, if so large a share of them differ


def kind_of(column: pd.Series) -> str:
    """Return the kind of a column: a key of `READ_AS`, or ``"unusable"``."""
    kind = kind_of_dtype(column.dtype)
    if kind is not None:
        return kind
    kind = INFERRED.get(infer_dtype(column, skipna=True), "unusable")
    return _kind_of_texts(column) if kind == "category" else kind


@lru_cache(maxsize=64)  # a table may have a hundred thousand columns of one type
def kind_of_dtype(dtype: DTypeLike) -> str | None:
    """Return the kind that a type alone decides, None if the values have to be looked at."""
    if isinstance(dtype, pd.CategoricalDtype):
        return "ordered" if dtype.ordered else "category"
    if is_bool_dtype(dtype):
        return "boolean"
    if is_numeric_dtype(dtype):
        return "unusable" if is_complex_dtype(dtype) else "number"
    if is_datetime64_any_dtype(dtype) or isinstance(dtype, pd.PeriodDtype):
        return "date"
    return "duration" if is_timedelta64_dtype(dtype) else None


def _kind_of_texts(column: pd.Series) -> str:
    """Return ``"category"`` or ``"text"``, or ``"unusable"`` if there is something else than texts and numbers."""
    present = column.dropna()
    if not all(isinstance(value, (str, int, float)) for value in present):
        return "unusable"
    distinct = present.nunique()
    if distinct <= FEW_LEVELS:
        return "category"
    wordy = sum(len(str(value).split()) for value in present) >= WORDS * len(present)
    return "text" if distinct > (WORDY_SHARE if wordy else TEXT_SHARE) * len(present) else "category"


LETTERS = {"dna": "ACGTN", "rna": "ACGUN", "protein": "ACDEFGHIKLMNPQRSTVWYXBZUO*"}
SHORT_SEQUENCES = 10.0  # letters on average: shorter texts are codes
LOOKED_AT = 1000  # texts that say what a column of texts holds


def alphabet_of(column: pd.Series) -> str | None:
    """Return the alphabet of a column of sequences, "dna", "rna" or "protein"; None for other texts."""
    texts = column.dropna().iloc[:LOOKED_AT]
    if not len(texts) or not all(isinstance(text, str) for text in texts):
        return None
    if texts.str.len().mean() < SHORT_SEQUENCES:
        return None
    letters = set("".join(texts))
    return next((name for name, own in LETTERS.items() if letters.issubset(own)), None)


def describe(column: pd.Series) -> str:
    """Return in a few words what a column holds that is not numbers."""
    present = column.dropna()
    if present.empty:
        return "no values"
    first = f"such as {str(present.iloc[0])[:40]!r}"
    if isinstance(column.dtype, pd.CategoricalDtype):
        return f"{present.nunique()} categories, {first}"
    if not all(isinstance(value, (str, int, float)) for value in present):
        return f"values of type {type(present.iloc[0]).__name__}, {first}"
    numbers = pd.to_numeric(present.astype(str), errors="coerce")
    odd = present[numbers.isna()]
    if len(odd) < len(present) / 2:
        wrong = f"of which {len(odd)} are none, such as {str(odd.iloc[0])[:40]!r}" if len(odd) else first
        return f"numbers as text in {len(present)} rows, {wrong}: pandas.to_numeric makes them numbers"
    if all(LIKE_DATE.match(str(value)) for value in present):
        return f"dates as text, {first}: pandas.to_datetime makes them dates"
    if present.is_unique and len(present) > FEW_LEVELS:
        return f"a different value in each row, {first}: an identifier?"
    return f"{present.nunique()} values in {len(present)} rows, {first}"
