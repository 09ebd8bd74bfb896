"""Distances of rows, dense or sparse, with exact small distances, and the derived widths of kernels.

Widths are fixed numbers, geometric grids, or multiples of the median distance, which are resolved at fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist, pdist

from manykernels.compiled import compiled
from manykernels.exceptions import InvalidInputError
from manykernels.validation.arrays import Array, check_count, check_positive

CANCELLATION = 1e-4
MANY_NEAR = 0.05
NEAR_AT_ONCE = 2**14  # pairs of sparse rows whose difference is taken at a time
MEDIAN_ROWS = 1000
# Numbers of a sample of many, and the share of them on either side of its median among which that of all is looked for:
# three standard errors. Of 500,000 distances the median takes 2.5 ms then, and 7.3 by ordering all of them.
SAMPLED, NEARBY = 1000, 0.05
MOST_BISECTIONS = 12  # each halves the pairs that are left, about; what is left then is few
ALIKE_IN_ONE_COLUMN = ("euclidean", "cityblock")
MANAGEABLE_GAPS = 1e-140, 1e140  # whose squares are as exact as they
BIN_ROWS = 20_000

PointsOf: TypeAlias = Callable[[tuple[int, ...]], Any]  # the rows that have these columns


def squared_distances(A: Array, B: Array, a_norms: Array, b_norms: Array) -> Array:
    """Return ``||a_i - b_j||^2``, symmetric with a zero diagonal when ``A is B``.

    A single column is subtracted exactly. More columns use ``||a||^2 + ||b||^2 - 2 <a, b>``, a single matrix product;
    pairs that are near compared with their norms lose digits there and are recomputed by subtraction.
    """
    if A.shape[1] == 1:
        difference = A - B[:, 0]
        return np.multiply(difference, difference, out=difference)
    distances = A @ B.T
    distances *= -2.0
    sums = a_norms[:, None] + b_norms
    distances += sums
    sums *= CANCELLATION
    _recompute_near(distances, distances <= sums, A, B)
    return distances


def _recompute_near(distances: Array, near: Array, A: Array, B: Array) -> None:
    count = int(np.count_nonzero(near))
    if count > MANY_NEAR * near.size + min(near.shape):
        distances[:] = cdist(A, B, "sqeuclidean")
        return
    rows, columns = np.divmod(np.flatnonzero(near), near.shape[1])
    difference = A[rows] - B[columns]
    distances[rows, columns] = np.einsum("ij,ij->i", difference, difference)


def row_norms(points: Array) -> Array:
    """Return the squared norm of every row, (n,)."""
    return np.einsum("ij,ij->i", points, points)


@dataclass(frozen=True, eq=False)
class SparsePoints:
    """Rows in compressed form, for kernels of inner products and distances."""

    data: Array  # of a CSR matrix in canonical form
    indices: Array  # of a CSR matrix in canonical form
    indptr: Array  # of a CSR matrix in canonical form
    shape: tuple[int, int]  # (n, d)

    @classmethod
    def create(cls, matrix: csr_array) -> SparsePoints:
        """Return the rows of a CSR matrix in canonical form."""
        return cls(matrix.data, matrix.indices, matrix.indptr, (int(matrix.shape[0]), int(matrix.shape[1])))

    @cached_property
    def rows(self) -> csr_array:
        """The rows as a matrix."""
        matrix = csr_array((self.data, self.indices, self.indptr), shape=self.shape)
        matrix.has_canonical_format = True
        return matrix

    @cached_property
    def columns(self) -> csr_array:
        """The transposed matrix, cached for all products."""
        return self.rows.T.tocsr()

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | Array) -> SparsePoints:
        whole = np.arange(len(self))
        chosen = whole[rows]
        return self if np.array_equal(chosen, whole) else SparsePoints.create(self.rows[chosen])

    @property
    def squared_norms(self) -> Array:
        """Squared norms of the rows, (n,)."""
        return np.asarray(self.rows.multiply(self.rows).sum(axis=1)).ravel()

    def sketch(self) -> Array:
        """Return two hash sums that distinguish rows, (n, 2), with fixed weights."""
        weights = np.random.default_rng(0).normal(size=(self.shape[1], 2))
        return np.asarray(self.rows @ weights)

    def inner(self, other: SparsePoints) -> Array:
        """Return the inner products with further rows, (n, n_other), dense."""
        return np.asarray((self.rows @ other.columns).toarray())

    def squared_distances(self, other: SparsePoints, norms: Array, other_norms: Array) -> Array:
        """Return ``||a_i - b_j||^2``; by subtraction for near pairs."""
        distances = self.inner(other)
        distances *= -2.0
        sums = norms[:, None] + other_norms
        distances += sums
        sums *= CANCELLATION
        near = np.flatnonzero(distances <= sums)
        for start in range(0, len(near), NEAR_AT_ONCE):
            at = np.divmod(near[start : start + NEAR_AT_ONCE], distances.shape[1])
            difference = self.rows[at[0]] - other.rows[at[1]]
            distances[at] = np.asarray(difference.multiply(difference).sum(axis=1)).ravel()
        return distances


DIGITS = 2.0**20  # to which values are looked at: rounding of means moves hardly any across a limit
MIX = np.uint64(0x9E3779B97F4A7C15)


def shuffled_by_content(points: Array) -> Array:
    """Return positions of rows in an order that is as if drawn, but the same wherever the rows stand, (n,).

    Equal rows are told apart by how many there were before, so a part of the order holds as many as a draw would.
    """
    largest = np.abs(points).max(axis=0, initial=0.0)
    with np.errstate(over="ignore"):
        cells = np.rint(points / np.where(largest > 0, largest, 1.0) * DIGITS).astype(np.int64).view(np.uint64)
        keys = np.zeros(len(points), dtype=np.uint64)
        for column in cells.T:
            keys = _mixed(keys ^ column)
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        repeats = np.arange(len(points)) - np.repeat(first, np.diff(np.append(first, len(points))))
        return order[np.argsort(_mixed(ordered + repeats.astype(np.uint64) * MIX), kind="stable")]


def _mixed(keys: Array) -> Array:
    """Return hashed numbers with every output bit dependent on all input bits (the finalizer of splitmix64)."""
    keys = keys + MIX
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))


# --- widths -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MedianWidth:
    """A width given as a multiple of the median distance between training rows.

    The median heuristic: ``width = factor * median_{i < j} ||x_i - x_j||`` on the training rows and the columns of the
    kernel (the 1-norm for a Laplacian kernel). The width is resolved at the fit of the bank, on at most 1000 training
    rows, drawn by position with a fixed seed, so widths depend slightly on the row order. If half of the rows or more
    coincide, the median of the positive distances is taken; if all rows coincide, the median counts as 1.

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
    """What kernels learn from a single set of training points, computed once when first asked for.

    The median distance per metric, and bins of equal counts of single columns, for which there may be ``many`` more
    points. Those of single columns are asked of ``column``, where several sets of columns share them.
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
        """Return the points with all columns."""
        return self._points

    def take(self, columns: tuple[int, ...]) -> MedianDistances:
        """Return the learned values of some columns."""
        if self._column is not None and len(columns) == 1:
            return self._column(columns[0])
        return MedianDistances(self._points[:, columns])


class LearnedByColumns(dict[tuple[int, ...], MedianDistances]):
    """Statistics of every column set, from complete ``points``; sets of single columns share statistics.

    Bins are of ``many`` points, if given.
    """

    def __init__(self, points: PointsOf, many: PointsOf | None = None) -> None:
        super().__init__()
        self._points, self._many = points, many

    def __missing__(self, columns: tuple[int, ...]) -> MedianDistances:
        many = None if self._many is None else partial(self._many, columns)
        self[columns] = MedianDistances(partial(self._points, columns), lambda at: self[(columns[at],)], many)
        return self[columns]


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
    if not isinstance(points, SparsePoints) and points.shape[1] == 1 and metric in ALIKE_IN_ONE_COLUMN:
        gap = _median_gap(np.sort(points[:, 0]))
        if MANAGEABLE_GAPS[0] < gap < MANAGEABLE_GAPS[1]:
            return gap
    distances = _sparse_distances(points, metric) if isinstance(points, SparsePoints) else pdist(points, metric)
    median = _median(distances) if distances.size else 0.0
    if median > 0:
        return median
    positive = distances[distances > 0]
    return float(np.median(positive)) if positive.size else 1.0


def _median(values: Array) -> float:
    """Return the median of many numbers: only numbers near the median of a sample are sorted."""
    sample = np.sort(values[:: max(len(values) // SAMPLED, 1)])
    low, high = sample[[int((0.5 - NEARBY) * len(sample)), int((0.5 + NEARBY) * len(sample))]]
    n_below, near = np.count_nonzero(values < low), values[(values >= low) & (values <= high)]
    middle = [(len(values) - 1) // 2 - n_below, len(values) // 2 - n_below]
    inside = middle[0] >= 0 and middle[1] < len(near)
    return float(np.partition(near, middle)[middle].mean()) if inside else float(np.median(values))


def _median_gap(values: Array) -> float:
    """Return the median difference between sorted values, of nonzero differences if zero; NaN if constant."""
    if not (len(values) and np.isfinite(values[[0, -1]]).all()):
        return np.nan
    gaps, first, second = middle_gaps(values, MOST_BISECTIONS)
    return float(np.partition(gaps, (first, second))[[first, second]].mean()) if len(gaps) else np.nan


@compiled()
def pairs_within(values: Array, width: float) -> int:
    """Return how many pairs of sorted values differ by at most a width."""
    count, last = 0, 0
    for first in range(len(values)):
        last = max(last, first)
        while last + 1 < len(values) and values[last + 1] - values[first] <= width:
            last += 1
        count += last - first
    return count


@compiled()
def middle_gaps(values: Array, n_steps: int) -> tuple[Array, int, int]:
    """Return a few differences of sorted values, and the places of the two middle ones of all in the order of these.

    Bisection finds bounds with few pairs in between: the median equals the median of all differences. A zero median is
    replaced by the median of positive differences; none if all values are equal.
    """
    n_pairs = len(values) * (len(values) - 1) // 2
    n_equal = pairs_within(values, 0.0)
    skipped = n_equal if n_equal > n_pairs // 2 else 0
    low, below = (0.0, n_equal) if skipped else (-1.0, 0)
    high, until = values[-1] - values[0], n_pairs
    first, second = (skipped + n_pairs - 1) // 2, (skipped + n_pairs) // 2  # their numbers, from the smallest
    for _ in range(n_steps):
        width = 0.5 * (max(low, 0.0) + high)
        closer = pairs_within(values, width)
        if closer <= first:
            low, below = width, closer
        elif closer > second:
            high, until = width, closer
        else:  # between the two
            break
    gaps, place, start = np.empty(until - below), 0, 0
    for i in range(len(values)):
        start = max(start, i + 1)
        while start < len(values) and values[start] - values[i] <= low:
            start += 1
        for j in range(start, len(values)):
            gap = values[j] - values[i]
            if gap > high:
                break
            gaps[place] = gap
            place += 1
    return gaps, first - below, second - below


def _sparse_distances(points: SparsePoints, metric: str) -> Array:
    """Return the distances between sparse rows, every pair once."""
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


def require_width(width: float | MedianWidth) -> float:
    """Return a numeric width, or raise an error for an unfitted median width."""
    if isinstance(width, MedianWidth):
        raise InvalidInputError(
            f"The width {str(width)!r} is only known after fitting: put the kernel in a KernelBank and fit it, "
            "or give the width as a number."
        )
    return width
