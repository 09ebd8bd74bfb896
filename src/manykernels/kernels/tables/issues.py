"""Everything in a table that cannot be used, said at once: which columns, how much of each, and what to do."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.validation.arrays import Array, check_choice

MISSING = ("error", "mask", "indicator")
SHOWN = 30  # columns of each sort that a message names
MOST_MASKED, FEW_GAPS = 0.5, 0.2  # shares of samples and of values that are worth a warning

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
        "Say what a gap means, as in KernelBank.auto(missing='mask'): 'mask' leaves a row out of the kernels of "
        "columns it lacks, 'indicator' does so and adds kernels of missingness. Or impute them in a "
        "pipeline (SimpleImputer(), for views ViewImputer()), or drop them before fitting"
    ),
    "stored": "Rows of a sparse X cannot be masked: leave such entries out, which makes them 0, or drop the rows",
    "infinite": "Correct them, or make them missing (NaN)",
    "numbers": (
        "KernelBank.auto(X) chooses kernels by type: such columns get Overlap(), or Ordinal() if they are ordered "
        "categoricals. Or encode them (for instance with OneHotEncoder), or leave them out of the kernels' columns"
    ),
    "text": (
        "Drop these columns, turn them into numbers (for instance with skrub's TableVectorizer in a pipeline), or if "
        "they are categories all the same, make them so: X[name].astype('category')"
    ),
    "unusable": "Drop these columns, or turn them into numbers, dates, text or categories",
}


@dataclass(frozen=True)
class ColumnIssue:
    """One column, and why it cannot be used."""

    column: str
    sort: str  # A key of HEADS
    detail: str  # counts, or what the column holds


def refuse(problems: Sequence[ColumnIssue]) -> None:
    """Raise one ``InvalidInputError`` that names every problem, if there are any."""
    if problems:
        # What is missing comes last: it is what may be many, and the rest has to be settled first.
        order = ("unusable", "text", "numbers", "infinite", "missing", "stored")
        parts = [_part(sort, [found for found in problems if found.sort == sort]) for sort in order]
        raise InvalidInputError("\n".join(part for part in parts if part))


def _part(sort: str, found: list[ColumnIssue]) -> str:
    """Return head, columns and remedy of problems of one sort."""
    if not found:
        return ""
    listed = ", ".join(f"{problem.column!r} ({problem.detail})" for problem in found[:SHOWN])
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    columns = "" if HEADS[sort].endswith(":") else f"{len(found)} column{'s' * (len(found) > 1)}: "
    return f"{HEADS[sort]} {columns}{listed}{more}. {REMEDIES[sort]}."


def entry_issues(values: Array, allowed: Array | None, names: Sequence[str], missing: str) -> list[ColumnIssue]:
    """Return problems of entries: NaN unless ``missing`` or ``allowed`` (n, k) says otherwise, and infinite ones."""
    if all(np.isfinite(column).all() for column in values.T):  # a table of flags takes an eighth of a large one
        return []
    gaps = np.isnan(values) & (~allowed if allowed is not None else True) if missing == "error" else None
    found = [] if gaps is None else _counted("missing", gaps, names)
    return found + _counted("infinite", np.isinf(values), names)


def _counted(sort: str, where: Array, names: Sequence[str]) -> list[ColumnIssue]:
    counts = where.sum(axis=0)
    return [ColumnIssue(names[j], sort, f"{counts[j]} of {len(where)}") for j in map(int, np.flatnonzero(counts))]


def warn_of_masks(
    names: Sequence[str], positions: Sequence[tuple[int, ...]], used: Array, values: Array, missing: str
) -> None:
    """Warn if kernels of several columns leave out most samples for few gaps; those without any value do not count."""
    gaps = np.isnan(values)
    if missing == "error" or not gaps.any():
        return
    affected = {own: _mostly_masked(gaps[:, np.searchsorted(used, own)]) for own in {*positions} if len(own) > 1}
    named = [name for name, own in zip(names, positions, strict=True) if affected.get(own, False)]
    if named:
        warnings.warn(
            f"{len(named)} kernel(s) of several columns, such as {named[0]!r}, leave out more than half of the "
            "samples, although less than a fifth of the values is missing: with "
            f"missing={missing!r} a sample is left out of each kernel of a column that it lacks. Fill such gaps in a "
            "pipeline (SimpleImputer(), for views ViewImputer()), or take kernels of single columns.",
            UserWarning,
            stacklevel=2,
        )


def _mostly_masked(gaps: Array) -> bool:
    """Whether few gaps (n, k) of samples that have some of the columns lie in most of these samples."""
    some = gaps[~gaps.all(axis=1)]
    return bool(len(some)) and bool(some.any(axis=1).mean() > MOST_MASKED and some.mean() < FEW_GAPS)


def check_missing(missing: str) -> str:
    """Return ``missing`` if it says what to do with gaps."""
    return check_choice(missing, MISSING, "missing")
