"""Columns with heavy tails: how they are found, and how their values are compressed to a bounded range.

The largest values of such a column decide its mean and standard deviation, and a linear kernel of it predicts wild
numbers where a new row is farther out than all training rows.
"""

import numpy as np

from manykernels.validation.arrays import Array

LIMIT = 3.0  # which compressed values approach, in units from the middle
END_OF_TAILS = LIMIT - 1e-6  # largest compressed value that is expanded


def reaches_far(n: Array, low: Array, high: Array, mean: Array, deviation: Array) -> Array:
    """Return whether columns have a value that is farther from the mean than normal ones.

    That is, than 5 deviations, and than the largest of as many normal values by one deviation.
    """
    # deviations from the mean: least reach of a heavy tail, and its reach beyond normal columns
    long, longer = 5.0, 1.0
    farthest = np.maximum(high - mean, mean - low)
    return np.asarray(farthest > np.maximum(long, longer + np.sqrt(2.0 * np.log(np.maximum(n, 2)))) * deviation)


def has_many_values(columns: Array) -> Array:
    """Return whether columns (n, p), or a sample of their rows, have more than 10 different values."""
    # different values of a column with tails, and rows that they are counted in
    fewest_values, most_looked_at = 10, 10_000
    ordered = np.sort(columns[:: max(len(columns) // most_looked_at, 1)], axis=0)  # with gaps at the end
    return np.asarray((ordered[1:] > ordered[:-1]).sum(axis=0) >= fewest_values)


def tails_of(column: Array, deviation: float) -> tuple[float, float]:
    """Return the median of a column, and its deviation by percentiles, or of all rows where these are equal."""
    quartiles, outer = (25.0, 75.0, 1.349), (5.0, 95.0, 3.290)  # percentiles, and their distance in normal deviations
    for low, high, distance in (quartiles, outer):
        ends = np.nanpercentile(column, (low, high))
        unit = float(ends[1] - ends[0]) / distance
        if unit > np.finfo(np.float64).eps * deviation:
            break
    else:
        unit = deviation
    return float(np.nanmedian(column)), unit


def compress_tails(values: Array, middle: float, unit: float) -> Array:
    """Return numbers in units from the middle: unchanged within a unit, and compressed beyond to less than 3.

    Examples
    --------
    >>> compress_tails(np.array([0.0, 1.0, 3.0, 1e9]), 0.0, 1.0).round(3).tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    with np.errstate(over="ignore"):
        places = (values - middle) / unit
    sizes = np.abs(places)
    return np.asarray(np.where(sizes > 1.0, np.sign(places) * (LIMIT - 4.0 / (1.0 + sizes)), places))


def expand_tails(values: Array, middle: float, unit: float) -> Array:
    """Return the inverse of `compress_tails`; values at or beyond the ends of the range become large.

    Examples
    --------
    >>> expand_tails(np.array([-2.0, 0.5]), 10.0, 2.0).tolist()
    [4.0, 11.0]
    """
    sizes = np.minimum(np.abs(values), END_OF_TAILS)
    return np.asarray(middle + unit * np.where(sizes > 1.0, np.sign(values) * (4.0 / (LIMIT - sizes) - 1.0), values))
