r"""A bound on ``r'K_w r`` over a box of widths, one a feature, from its values at corners of smaller boxes.

With :math:`q_k = w_k^2`, Bochner's theorem gives :math:`r'K_w r = \prod_k \sqrt{q_k}\, F(q)` where F is the Laplace
transform of a measure that is not negative (the energy of ``r`` at frequencies). Hence

- F falls in every coordinate: in a box, ``r'K_w r`` is at most its value at the corner of smallest widths times
  :math:`\prod_k w_k / \underline w_k`;
- log F is convex: with :math:`\log q_k \le \log c_k + q_k / c_k - 1`, for any c > 0, what remains is convex, at most
  its largest value at a corner v, and ``r'K_w r`` is at most
  :math:`\max_v r'K_v r\, \exp(\tfrac12 \sum_k \phi(v_k^2 / c_k))` with :math:`\phi(t) = t - 1 - \log t`.

The second bound is off by the square of the size of a box. Neither adds up absolute values of ``r_i r_j``.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from manykernels.validation.arrays import Array

LEVELS = 1 << 20  # finest grid, along a side of the whole box
BATCH = 32  # boxes that are split at once
BLOCK_ENTRIES = 2_000_000
Key = tuple[int, ...]


@dataclass(frozen=True)
class CornerBound:
    """What branch and bound found out.

    Attributes
    ----------
    bound : float
        ``r'K_w r`` exceeds it nowhere in the box.
    best : float
        Largest value met.
    widths : tuple of float
        Where.
    evaluations : int
        Of ``r'K_w r``.
    """

    bound: float
    best: float
    widths: tuple[float, ...]
    evaluations: int


@dataclass(eq=False)
class _Corners:
    """Values of ``log r'K_w r`` at points of a grid on the logarithm of widths, each computed once."""

    squares: Array
    products: Array
    diagonal: float
    low: Array
    side: Array
    rounding: float
    known: dict[Key, float] = field(default_factory=dict)

    def widths(self, key: Key) -> Array:
        """Return the widths at a point of the grid."""
        return np.exp(self.low + self.side * np.array(key) / LEVELS)

    def learn(self, keys: set[Key]) -> None:
        """Compute the values that are not known yet."""
        missing = [key for key in keys if key not in self.known]
        step = max(1, BLOCK_ENTRIES // max(len(self.products), 1))
        for at in range(0, len(missing), step):
            block = missing[at : at + step]
            inverse = np.array([-0.5 / self.widths(key) ** 2 for key in block])
            values = self.diagonal + np.exp(self.squares @ inverse.T).T @ self.products
            for key, value in zip(block, values, strict=True):
                self.known[key] = float(np.log(max(value, 0.0) + self.rounding))


def corner_bound(points: Array, vector: Array, low: float, high: float, *, slack: float, most: int) -> CornerBound:
    """Bound ``r'K_w r`` over all widths, one a feature, between two numbers, by branch and bound.

    Parameters
    ----------
    points : ndarray of shape (n_samples, n_columns)
    vector : ndarray of shape (n_samples,)
        ``r``.
    low, high : float
        Smallest and largest width.
    slack : float
        Share by which the bound may exceed the best value.
    most : int
        Evaluations after which the bound of the boxes that are left counts.

    Returns
    -------
    CornerBound

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery.families.corner_bound import corner_bound
    >>> points = np.random.default_rng(0).normal(size=(20, 2))
    >>> found = corner_bound(points, np.sin(3 * points[:, 0]), 0.1, 10.0, slack=0.05, most=5000)
    >>> found.best <= found.bound <= 1.05 * found.best
    True
    """
    corners = _corners(points, vector, low, high)
    n = points.shape[1]
    root = (0,) * n, (LEVELS,) * n
    corners.learn(set(_vertices(*root)))
    waiting, splits = [_bounded(corners, *root)], 0
    while True:
        place = max(corners.known, key=corners.known.__getitem__)
        best, top = corners.known[place], -waiting[0][0]
        if top <= best + np.log1p(slack) or max(len(corners.known), splits) >= most:
            widths = tuple(float(width) for width in corners.widths(place))
            return CornerBound(float(np.exp(max(top, best))), float(np.exp(best)), widths, len(corners.known))
        split = [heapq.heappop(waiting)[1:] for _ in range(min(BATCH, len(waiting)))]
        splits += len(split)
        halves = [half for box in split for half in _halves(*box)]
        corners.learn({vertex for half in halves for vertex in _vertices(*half)})
        for half in halves:
            heapq.heappush(waiting, _bounded(corners, *half))


def _corners(points: Array, vector: Array, low: float, high: float) -> _Corners:
    """Return what evaluations share; pairs of samples that have no weight are left out."""
    first, second = np.triu_indices(len(points), 1)
    products = 2.0 * vector[first] * vector[second]
    kept = products != 0
    squares = (points[first[kept]] - points[second[kept]]) ** 2
    n, size = points.shape[1], float(np.abs(vector).sum()) ** 2
    side = np.full(n, np.log(high) - np.log(low))
    rounding = 64 * np.finfo(np.float64).eps * size + float(np.finfo(np.float64).tiny)
    return _Corners(squares, products[kept], float(vector @ vector), np.full(n, np.log(low)), side, rounding)


def _vertices(lower: Key, upper: Key) -> list[Key]:
    """Return the corners of a box, those with the upper end of the last coordinate next to those with its lower end."""
    return list(product(*zip(lower, upper, strict=True)))


def _bounded(corners: _Corners, lower: Key, upper: Key) -> tuple[float, Key, Key]:
    """Return what is kept of a box: minus the smaller of both bounds on the logarithm of ``r'K_w r``, and its ends."""
    sides = corners.side * (np.array(upper) - np.array(lower)) / LEVELS
    rough = corners.known[lower] + float(sides.sum())
    shape = (2,) * len(lower)
    values = np.array([corners.known[vertex] for vertex in _vertices(lower, upper)]).reshape(shape)
    for k, (start, length) in enumerate(zip(corners.widths(lower), sides, strict=True)):
        if length == 0:
            continue
        ends = values.max(axis=tuple(j for j in range(len(shape)) if j != k))
        squares = start**2 * np.array([1.0, np.exp(2 * length)])
        # Where both ends weigh the same, in the box.
        slope = 2 * length - 2 * float(ends[1] - ends[0])
        center = np.clip((squares[1] - squares[0]) / slope, *squares) if slope > 0 else squares[1]
        ratio = squares / center
        extra = 0.5 * (ratio - 1 - np.log(ratio))
        values = values + extra.reshape([2 if j == k else 1 for j in range(len(shape))])
    return -min(rough, float(values.max())), lower, upper


def _halves(lower: Key, upper: Key) -> list[tuple[Key, Key]]:
    """Return both halves of a box, split across its longest side; the box itself where that is too short."""
    k = int(np.argmax(np.array(upper) - np.array(lower)))
    middle = (lower[k] + upper[k]) // 2
    if middle == lower[k]:
        return [(lower, upper)]
    return [(lower, (*upper[:k], middle, *upper[k + 1 :])), ((*lower[:k], middle, *lower[k + 1 :]), upper)]
