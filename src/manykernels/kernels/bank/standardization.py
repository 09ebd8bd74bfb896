"""Column statistics of the training rows, safe at every scale that float64 can hold."""

from __future__ import annotations

import numpy as np

from manykernels.validation.arrays import Array


def column_statistics(values: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of every column over what is present (not NaN); 1 for a constant column."""
    if np.isnan(values).any():
        parts = [_complete_statistics(column[~np.isnan(column), None]) for column in values.T]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    return _complete_statistics(values)


def present_medians(values: Array) -> Array:
    """Return the median of every column over what is present, 0 if nothing is."""
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


def standardized(values: Array, means: Array, deviations: Array) -> Array:
    """Return ``(values - means) / deviations`` column by column."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return (values - means) / deviations
