"""What a column of a table is: numbers, booleans, dates, categories, ranks, text, or nothing that can be used.

Everything in a table that cannot be used is said at once: which columns, how much of every, and what to do. Sparse
matrices and DataFrames of sparse columns are read as rows in compressed form.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
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
from scipy.sparse import csr_array, issparse, sparray, spmatrix

from manykernels.exceptions import InvalidInputError, InvalidInputTypeError, warn
from manykernels.kernels.tables.dates import has_zone
from manykernels.validation.arrays import Array, plainly_finite
from manykernels.validation.parameters import listed

READ_AS = {
    "number": "number",
    "boolean": "number",
    "date": "number",
    "instant": "number",
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
LIKE_NUMBER = re.compile(
    r"\s*[-+]?(?!0\d)(\d+|\d{1,3}([,.' ]\d{3})+)?([.,]\d+)?(?<=\d)(e[-+]?\d+)?\s*%?\s*", re.IGNORECASE
)
LIKE_DATE = re.compile(r"\s*(\d{4}-\d{1,2}-\d{1,2}|\d{1,2}([./-])\d{1,2}\2\d{2,4})(\D|$)")
FEW_LEVELS = 20  # as many different texts are categories, however few rows there are
WORDS, WORDY_SHARE = 4.0, 0.5  # so many words on average are prose, if so large a share of them differ


def kind_of(column: pd.Series) -> str:
    """Return the kind of a column: a key of `READ_AS`, or ``"unusable"``."""
    kind = kind_of_dtype(column.dtype)
    if kind is not None:
        return kind
    kind = INFERRED.get(infer_dtype(column, skipna=True), "unusable")
    if kind == "date" and has_zone(column):
        return "instant"
    return _kind_of_texts(column) if kind == "category" else kind


@lru_cache(maxsize=64)  # a table may have a hundred thousand columns of one type
def kind_of_dtype(dtype: DTypeLike) -> str | None:
    """Return the kind decided by a dtype alone, None if values matter."""
    if isinstance(dtype, pd.CategoricalDtype):
        return "ordered" if dtype.ordered else "category"
    if is_bool_dtype(dtype):
        return "boolean"
    if is_numeric_dtype(dtype):
        return "unusable" if is_complex_dtype(dtype) else "number"
    if is_datetime64_any_dtype(dtype) or isinstance(dtype, pd.PeriodDtype):
        zoned = isinstance(dtype, pd.DatetimeTZDtype) or "tz=" in str(dtype)  # of pandas, or of Arrow
        return "instant" if zoned else "date"
    if isinstance(dtype, pd.ArrowDtype) and dtype.kind == "O" and str(dtype).startswith("dictionary"):
        return "category"
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
    text_share = 0.9  # of the rows: more different texts than this are no categories
    return "text" if distinct > (WORDY_SHARE if wordy else text_share) * len(present) else "category"


def warn_of_numbers_as_text(columns: Sequence[pd.Series]) -> None:
    """Warn of categories that are mostly numbers, since categories ignore distances."""
    described = [(str(column.name), numbers_as_text(column)) for column in columns]
    named = [f"{name!r} ({found})" for name, found in described if found]
    if named:
        warn(
            "Numbers written as text are read as categories, without distances between them: "
            f"{listed(named[:SHOWN], len(named))}. pandas.to_numeric(column, errors='coerce') converts them to "
            f"numbers (other text becomes missing); column.astype('category') silences this warning.",
        )


def numbers_as_text(column: pd.Series) -> str:
    """Return in a few words which numbers a column of many texts holds; nothing if most of the texts are none.

    A single "?" turns a column of numbers into text. Few levels, codes with leading zeros, and categorical dtypes are
    not numbers.
    """
    levels = [] if isinstance(column.dtype, pd.CategoricalDtype) else column.dropna().unique().tolist()
    if len(levels) <= FEW_LEVELS:
        return ""
    numbers = [level for level in map(str, levels) if LIKE_NUMBER.fullmatch(level)]
    if 2 * len(numbers) < len(levels):
        return ""
    odd = next((f", beside {level[:40]!r}" for level in map(str, levels) if not LIKE_NUMBER.fullmatch(level)), "")
    return f"{len(levels)} values, such as {numbers[0]!r}{odd}"


LETTERS = {"dna": "ACGTN", "rna": "ACGUN", "protein": "ACDEFGHIKLMNPQRSTVWYXBZUO*"}


def alphabet_of(column: pd.Series) -> str | None:
    """Return the alphabet of a column of sequences, "dna", "rna" or "protein"; None for other texts."""
    looked_at = 1000  # texts that say what a column of texts holds
    texts = column.dropna().iloc[:looked_at]
    if not len(texts) or not all(isinstance(text, str) for text in texts):
        return None
    short_sequences = 10.0  # letters on average: shorter texts are codes
    if texts.str.len().mean() < short_sequences:
        return None
    letters = set("".join(texts))
    return next((name for name, own in LETTERS.items() if letters.issubset(own)), None)


def describe(column: pd.Series) -> str:
    """Return a short description of nonnumeric content of a column."""
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


MISSING = ("error", "mask", "indicator")
SHOWN = 30  # columns of each sort that a message names

HEADS = {
    "missing": "Input X contains NaN: missing values in",
    "stored": "Input X contains NaN: stored entries that are missing in",
    "infinite": "Input X contains infinity: infinite values in",
    "numbers": "Not numeric, but in kernels that need numbers:",
    "text": "Text that is no category:",
    "unusable": "Values that no kernel can read:",
}
REMEDIES = {
    "missing": (
        "Choose how to handle missing values, as in KernelBank.auto(missing='mask') for MKLClassifier or MKLRegressor: "
        "'mask' leaves a row out of the kernels of its missing columns, 'indicator' does so and adds kernels of "
        "missingness. Or impute them in a pipeline (SimpleImputer(), for views ViewImputer()), or drop them before "
        "fitting"
    ),
    "stored": (
        "Rows of a sparse X cannot be masked: impute before (SimpleImputer()), make X dense (as OneHotEncoder("
        "sparse_output=False) does), leave such entries out, which makes them 0, or drop the rows"
    ),
    "infinite": "Correct them, or make them missing (NaN)",
    "numbers": (
        "KernelBank.auto(X), for MKLClassifier or MKLRegressor, chooses kernels by type: such columns get Overlap(), "
        "or Ordinal() if they are ordered categoricals. Or encode them (for instance with OneHotEncoder), or leave "
        "them out of the kernels' columns"
    ),
    "text": (
        "Drop these columns, turn them into numbers (for instance with skrub's TableVectorizer in a pipeline), or if "
        "they are categories all the same, make them so: X[name].astype('category')"
    ),
    "unusable": "Drop these columns, or turn them into numbers, dates, text or categories",
}


@dataclass(frozen=True)
class ColumnIssue:
    """A column with the reason for the rejection."""

    column: str
    sort: str  # A key of HEADS
    detail: str  # counts, or what the column holds


def refuse(problems: Sequence[ColumnIssue]) -> None:
    """Raise an ``InvalidInputError`` with every problem, if any."""
    if problems:
        # What is missing comes last: it is what may be many, and the rest has to be settled first.
        order = ("unusable", "text", "numbers", "infinite", "missing", "stored")
        parts = [_part(sort, [found for found in problems if found.sort == sort]) for sort in order]
        raise InvalidInputError("\n".join(part for part in parts if part))


def _part(sort: str, found: list[ColumnIssue]) -> str:
    """Return head, columns and remedy of problems of a kind."""
    if not found:
        return ""
    named = listed((f"{problem.column!r} ({problem.detail})" for problem in found[:SHOWN]), len(found))
    columns = "" if HEADS[sort].endswith(":") else f"{len(found)} column{'s' * (len(found) > 1)}: "
    return f"{HEADS[sort]} {columns}{named}. {REMEDIES[sort]}."


def entry_issues(values: Array, allowed: Array | None, names: Sequence[str], missing: str) -> list[ColumnIssue]:
    """Return problems of entries: NaN unless ``missing`` or ``allowed`` (n, k), and infinite values."""
    if plainly_finite(values):
        return []
    gaps = np.isnan(values) & (~allowed if allowed is not None else True) if missing == "error" else None
    found = [] if gaps is None else _count_issues("missing", gaps, names)
    return found + _count_issues("infinite", np.isinf(values), names)


def _count_issues(sort: str, where: Array, names: Sequence[str]) -> list[ColumnIssue]:
    counts = where.sum(axis=0)
    return [ColumnIssue(names[j], sort, f"{counts[j]} of {len(where)}") for j in map(int, np.flatnonzero(counts))]


def warn_of_masks(
    names: Sequence[str], positions: Sequence[tuple[int, ...]], used: Array, values: Array, missing: str
) -> None:
    """Warn if kernels of several columns leave out most samples for few gaps, not counting missing views."""
    gaps = np.isnan(values)
    if missing == "error" or not gaps.any():
        return
    affected = {own: _mostly_masked(gaps[:, np.searchsorted(used, own)]) for own in {*positions} if len(own) > 1}
    named = [name for name, own in zip(names, positions, strict=True) if affected.get(own, False)]
    if named:
        warn(
            f"{len(named)} kernel(s) of several columns, such as {named[0]!r}, leave out more than half of the "
            "samples, although less than a fifth of the values is missing: with "
            f"missing={missing!r} a sample is left out of each kernel of a column that it lacks. Fill such gaps in a "
            "pipeline (SimpleImputer(), for views ViewImputer()), or take kernels of single columns.",
        )


def _mostly_masked(gaps: Array) -> bool:
    """Return whether few gaps (n, k) affect most of the samples with some of the columns."""
    some = gaps[~gaps.all(axis=1)]
    most_masked, few_gaps = 0.5, 0.2  # shares of samples and of values that are worth a warning
    return bool(len(some)) and bool(some.any(axis=1).mean() > most_masked and some.mean() < few_gaps)


class Named(Protocol):
    """A table with column names, created anew on every request."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns."""


def is_sparse_frame(X: pd.DataFrame) -> bool:
    """Return whether every column of a DataFrame is sparse, with zero as the fill value."""
    kinds = set(X.dtypes)
    return bool(kinds) and all(
        isinstance(kind, pd.SparseDtype) and kind.subtype.kind in "biuf" and kind.fill_value == 0 for kind in kinds
    )


def compressed(X: pd.DataFrame | spmatrix | sparray) -> csr_array:
    """Return a sparse matrix, a DataFrame of sparse columns or an array as rows, float64 in canonical form.

    The argument is not modified, and not copied if in the right form.
    """
    if isinstance(X, pd.DataFrame):
        frame: Any = X
        X = frame.sparse.to_coo()
    if issparse(X) and X.dtype.kind not in "biuf":
        raise InvalidInputTypeError(f"X is a sparse matrix of dtype {X.dtype}; kernels need real numbers.")
    rows = csr_array(X).astype(np.float64, copy=False)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    if rows.shape[0] == 0 or rows.shape[1] == 0:
        raise InvalidInputError(f"X must have at least one row and one column, got shape {rows.shape}.")
    return rows


def find_stored_issues(rows: csr_array, table: Named, used: Any) -> list[ColumnIssue]:
    """Return a problem for every column with stored NaN or infinite entries: sparse columns have no masks."""
    if np.isfinite(rows.data).all():
        return []
    found, every = [], table.names
    for sort, wrong in (("stored", np.isnan(rows.data)), ("infinite", np.isinf(rows.data))):
        counts: Array = np.bincount(rows.indices[wrong], minlength=rows.shape[1])
        found += [ColumnIssue(every[used[j]], sort, f"{counts[j]} of {rows.shape[0]}") for j in np.flatnonzero(counts)]
    return found


REFUSAL = (
    "X is a sparse matrix of shape {shape}, but kernels read dense columns here. MKLClassifier, MKLRegressor and their "
    "CV variants take sparse X in linear, polynomial and Gaussian kernels of many columns; elsewhere reduce the "
    "columns (scikit-learn's TruncatedSVD in a pipeline), or pass X.toarray() if that fits into memory."
)
