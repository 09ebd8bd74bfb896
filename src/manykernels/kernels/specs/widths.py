"""Widths: fixed numbers, geometric grids, and multiples of the median distance that are resolved at fit."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.specs.distances import SparsePoints
from manykernels.validation.arrays import Array, check_count, check_positive

SMALLEST_WIDTH = 1e-150
LARGEST_WIDTH = 1e150
MEDIAN_ROWS = 1000
BIN_ROWS = 20_000


@dataclass(frozen=True)
class MedianWidth:
    """A width given as a multiple of the median distance between training rows.

    The median heuristic: ``width = factor * median_{i < j} ||x_i - x_j||`` on the training rows and the columns of the
    kernel (the 1-norm for a Laplacian kernel). It is resolved when the bank is fitted, on at most 1000 training rows;
    of more they are drawn by position with a fixed seed, so that another order of the rows gives slightly other widths.
    If half of the rows or more coincide, the median of the positive distances is taken; if all rows coincide, the
    median counts as 1.

    Parameters
    ----------
    factor : float, default=1.0
        Positive multiple of the median distance.

    Examples
    --------
    >>> from manykernels.kernels import Gaussian, MedianWidth
    >>> Gaussian(MedianWidth(0.5)).label
    'gaussian(width=0.5*median)'
    """

    factor: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", check_positive(self.factor, "the factor of a median width"))

    def __str__(self) -> str:
        return "median" if self.factor == 1 else f"{self.factor:g}*median"


class MedianDistances:
    """What kernels learn from one set of training points, computed once when first asked for.

    The median distance per metric, and bins of equal counts of single columns.

    Parameters
    ----------
    points : (n, d) array, or a function that returns it
    column : function of int to MedianDistances, optional
        Those of single columns, where several sets of columns share them.
    many : function that returns (n, d) array, optional
        More points, for bins.
    """

    def __init__(
        self,
        points: Array | Callable[[], Array],
        column: Callable[[int], MedianDistances] | None = None,
        many: Callable[[], Array] | None = None,
    ) -> None:
        self._given, self._column, self._many = points, column, many
        self._known: dict[str, float] = {}
        self._bins: dict[int, tuple[Array, Array]] = {}
        self.resolved: dict[Any, Any] = {}

    @cached_property
    def _points(self) -> Array:
        return self._given() if callable(self._given) else self._given

    def __call__(self, metric: str) -> float:
        """Return the median distance in ``metric`` (a name known to :func:`scipy.spatial.distance.pdist`)."""
        if metric not in self._known:
            self._known[metric] = median_distance(self._points, metric)
        return self._known[metric]

    def bins(self, most: int) -> tuple[Array, Array]:
        """Return edges and shares of at most so many bins of equal counts of the only column."""
        if most not in self._bins:
            points = self._points if self._many is None else self._many()
            self._bins[most] = equal_bins(points[:, 0], most)
        return self._bins[most]

    def rows(self) -> Any:
        """Return the points themselves, those with all columns."""
        return self._points

    def take(self, columns: tuple[int, ...]) -> MedianDistances:
        """Return what is learned in some of the columns only."""
        if self._column is not None and len(columns) == 1:
            return self._column(columns[0])
        return MedianDistances(self._points[:, columns])


def equal_bins(values: Array, most: int) -> tuple[Array, Array]:
    """Return edges between at most ``most`` bins of equal counts, and the share of values in each.

    No bin is empty; values that are equal are in one bin. Of more than 20,000 values as many are drawn, with a fixed
    seed.
    """
    if len(values) > BIN_ROWS:
        values = values[np.random.default_rng(0).choice(len(values), BIN_ROWS, replace=False)]
    if not len(values):
        return np.zeros(0), np.ones(1)
    levels, counts = np.unique(values, return_counts=True)
    reached = np.cumsum(counts)
    if len(levels) <= most:
        last = np.arange(len(levels) - 1)
    else:
        targets = np.arange(1, most) * (len(values) / most)
        after = np.searchsorted(reached, targets)
        before = np.maximum(after - 1, 0)
        nearer = np.where(np.abs(reached[before] - targets) <= np.abs(reached[after] - targets), before, after)
        last = np.unique(nearer[nearer < len(levels) - 1])
    edges = 0.5 * levels[last] + 0.5 * levels[last + 1]
    edges = np.where(edges > levels[last], edges, levels[last + 1])  # of neighbors that no number lies between
    shares = np.diff(np.concatenate([[0], reached[last], [len(values)]])) / len(values)
    return edges, shares


def median_distance(points: Array | SparsePoints, metric: str = "euclidean") -> float:
    """Return the median distance between distinct rows, on at most 1000 rows drawn with a fixed seed."""
    if len(points) > MEDIAN_ROWS:
        points = points[np.random.default_rng(0).choice(len(points), MEDIAN_ROWS, replace=False)]
    distances = _sparse_distances(points, metric) if isinstance(points, SparsePoints) else pdist(points, metric)
    median = float(np.median(distances)) if distances.size else 0.0
    if median > 0:
        return median
    positive = distances[distances > 0]
    return float(np.median(positive)) if positive.size else 1.0


def _sparse_distances(points: SparsePoints, metric: str) -> Array:
    """Return the distances between sparse rows, each pair once."""
    if metric != "euclidean":
        raise InvalidInputError(f"Sparse rows have no {metric} distances here: give the width as a number.")
    norms = points.squared_norms
    squares = points.squared_distances(points, norms, norms)
    return np.sqrt(np.maximum(squares[np.triu_indices(len(points), 1)], 0.0))


def width_grid(low: float, high: float, n: int) -> tuple[float, ...]:
    """Return ``n`` widths from ``low`` to ``high`` in geometric progression.

    Parameters
    ----------
    low, high : float
        Positive ends of the grid, in the unit of the (possibly standardized) columns.
    n : int
        Number of widths; 1 returns ``low``.

    Raises
    ------
    InvalidInputError
        If an end is not positive, ``low > high`` or ``n`` is not a positive integer.

    Examples
    --------
    >>> from manykernels.kernels import width_grid
    >>> [round(width, 6) for width in width_grid(0.1, 10.0, 3)]
    [0.1, 1.0, 10.0]
    """
    low, high = check_positive(low, "low"), check_positive(high, "high")
    n = check_count(n, "n")
    if low > high:
        raise InvalidInputError(f"low must be at most high, got low={low:g} and high={high:g}.")
    return tuple(float(width) for width in np.geomspace(low, high, n))


def as_width(value: object, name: str = "width") -> float | MedianWidth:
    """Return a checked width: a number, ``"median"``, ``"0.5*median"`` or a :class:`MedianWidth`."""
    if isinstance(value, MedianWidth):
        return value
    if isinstance(value, str):
        return _parse_median(value, name)
    if type(value) is float and SMALLEST_WIDTH <= value <= LARGEST_WIDTH:
        return value
    width = check_positive(value, name)
    if not SMALLEST_WIDTH <= width <= LARGEST_WIDTH:
        raise InvalidInputError(
            f"{name} must lie between {SMALLEST_WIDTH:g} and {LARGEST_WIDTH:g}, got {width:g}: its square leaves the "
            "range of float64. Rescale the columns, for instance with standardize=True."
        )
    return width


def _parse_median(text: str, name: str) -> MedianWidth:
    match = re.fullmatch(r"\s*(?:([0-9.eE+-]+)\s*\*)?\s*median\s*", text)
    try:
        factor = float(match.group(1) or 1.0) if match else np.nan
    except ValueError:
        factor = np.nan
    if not factor > 0:
        raise InvalidInputError(f"{name} must be a positive number, 'median' or 'FACTOR*median', got {text!r}.")
    return MedianWidth(factor)


def resolve_width(width: float | MedianWidth, medians: MedianDistances, metric: str) -> float:
    """Return the number that ``width`` stands for on the training points behind ``medians``."""
    if isinstance(width, MedianWidth):
        return float(as_width(width.factor * medians(metric), "the width from the median distance"))  # type: ignore[arg-type]
    return width


def known_width(width: float | MedianWidth) -> float:
    """Return a numeric width, or say that a median width has to be fitted first."""
    if isinstance(width, MedianWidth):
        raise InvalidInputError(
            f"The width {str(width)!r} is only known after fitting: put the kernel in a KernelBank and fit it, "
            "or give the width as a number."
        )
    return width
