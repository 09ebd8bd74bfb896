"""Column statistics of the training rows, safe at every scale that float64 can hold."""

from __future__ import annotations

import numpy as np

from manykernels.validation.arrays import Array


def column_statistics(values: Array) -> tuple[Array, Array]:
    """Return the mean and the standard deviation of every column; a constant column has deviation 1."""
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
