"""Column statistics of the training rows, safe at every scale that float64 can hold."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from manykernels.validation.arrays import Array

BLOCK_ENTRIES = 2**19  # of columns that are looked at together: temporaries stay small beside a large table


def column_blocks(values: Array) -> Iterator[slice]:
    """Yield slices of columns, of a few million entries each."""
    step = max(1, BLOCK_ENTRIES // max(1, len(values)))
    for start in range(0, values.shape[1], step):
        yield slice(start, min(start + step, values.shape[1]))


def column_statistics(values: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of every column over what is present (not NaN); 1 for a constant column."""
    means, deviations = np.empty(values.shape[1]), np.empty(values.shape[1])
    for at in column_blocks(values):
        means[at], deviations[at] = _block_statistics(values[:, at])
    return means, deviations


def _block_statistics(values: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of a few columns."""
    if np.isnan(values).any():
        parts = [_complete_statistics(column[~np.isnan(column), None]) for column in values.T]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    return _complete_statistics(values)


def present_medians(values: Array) -> Array:
    """Return the median of every column over what is present, 0 if nothing is."""
    medians = np.empty(values.shape[1])
    for at in column_blocks(values):
        medians[at] = _block_medians(values[:, at])
    return medians


def _block_medians(values: Array) -> Array:
    """Return the median of a few columns."""
    gaps = np.isnan(values)
    with np.errstate(over="ignore"):
        if not gaps.any():
            return np.median(values, axis=0)
        kept = [column[~gap] for column, gap in zip(values.T, gaps.T, strict=True)]
        return np.array([np.median(column) if len(column) else 0.0 for column in kept])


def _complete_statistics(values: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of columns without gaps; 0 and 1 where there are no rows."""
    if not len(values):
        return np.zeros(values.shape[1]), np.ones(values.shape[1])
    largest = np.abs(values).max(axis=0)
    size = np.where(largest > 0, largest, 1.0)
    # Dividing first keeps sums and squares inside float64, from 1e-300 to 1e300.
    with np.errstate(under="ignore"):
        relative = values / size
        means = relative.mean(axis=0)
        deviations = relative.std(axis=0)
        constant = (np.ptp(relative, axis=0) == 0) | (deviations <= 4 * np.finfo(np.float64).eps)
        return means * size, np.where(constant, 1.0, deviations * size)


def standardized(
    values: Array, means: Array, deviations: Array, *, out: Array | None = None, by_columns: bool = False
) -> Array:
    """Return ``(values - means) / deviations`` column by column, in ``out`` if given; the values if nothing changes."""
    if not means.any() and (deviations == 1.0).all():
        return values
    if out is None and by_columns:
        out = np.empty(values.shape, order="F")
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        out = np.subtract(values, means, out=out)
        return np.divide(out, deviations, out=out)
