"""Columns with heavy tails: how they are found, and how their values are compressed to a bounded range.

The largest values of such a column decide its mean and standard deviation, and a linear kernel of it predicts wild
numbers where a new row is farther out than all training rows.
"""

import numpy as np

from manykernels.validation.arrays import Array

LIMIT = 3.0  # which compressed values approach, in units from the middle
END_OF_TAILS = LIMIT - 1e-6  # largest compressed value that is expanded


def has_heavy_tails(column: Array, mean: float, deviation: float) -> bool:
    """Return True if a column reaches far beyond the range of a normal column, and is no column of few values."""
    n = int(np.isfinite(column).sum())
    if not n or not reaches_far(n, float(np.nanmin(column)), float(np.nanmax(column)), mean, deviation):
        return False
    return has_many_values(column)


def reaches_far(n: int, low: float, high: float, mean: float, deviation: float) -> bool:
    """Return True if a value is farther from the mean than normal ones.

    That is, than 5 deviations, and than the largest of as many normal values by one deviation.
    """
    # deviations from the mean: least reach of a heavy tail, and its reach beyond normal columns
    long, longer = 5.0, 1.0
    return max(high - mean, mean - low) > max(long, longer + np.sqrt(2.0 * np.log(max(n, 2)))) * deviation


def has_many_values(column: Array) -> bool:
    """Return True if a column, or a sample of it, has more than 10 different values."""
    # different values of a column with tails, and rows that they are counted in
    fewest_values, most_looked_at = 10, 10_000
    some_of = column[:: max(len(column) // most_looked_at, 1)]
    return len(np.unique(some_of[np.isfinite(some_of)])) > fewest_values


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
