"""Passes over columns near earlier ones: what those leave open, and readings of the few kernels that it matters for.

Dual coefficients of neighboring strengths differ little. With orthonormal directions ``q_k`` whose products with all
columns are known, and the part of ``rho`` that is outside of their span,

    | ||Z_m' rho|| - ||sum_k (q_k' rho) Z_m' q_k|| |  <=  ||Z_m|| ||rho - sum_k (q_k' rho) q_k||

so that most kernels are known to be below a threshold without being read: safe rules in sequence (El Ghaoui, Viallon,
Rabbani, "Safe feature elimination in sparse supervised learning", Pacific Journal of Optimization 8 (2012); Wang,
Wonka, Ye, "Lasso screening rules via dual polytope projection", Journal of Machine Learning Research 16 (2015)), here
with every pass that was made before as a reference at once.
"""

from __future__ import annotations

import numpy as np

from manykernels.grams.loops import block_gram, column_products
from manykernels.validation.arrays import Array

MOST_DIRECTIONS = 8
AGAIN = 0.25  # of all kernels: where more would have to be read, all are, and give another direction
NEW_DIRECTION = 1e-5  # part of a vector outside of the known directions that is worth another one
SLACK = 1e-9  # of a singular value, that its computation may leave
ROUNDING = np.finfo(np.float64).eps  # times the number of rows: of the length of a product, that sums may leave


class ColumnPasses:
    """Bounds on ``rho' K_m rho`` of kernels whose factors are neighboring rows of one array, from earlier passes.

    Parameters
    ----------
    columns : (P, N) float64
        The factors of all kernels but for their scales.
    starts : (M,) int
        Where those of each begin.
    scales : (M,) float64
    norms : (M,) float64
        Bounds from above on the largest singular value of each kernel's factors.
    """

    def __init__(self, columns: Array, starts: Array, scales: Array, norms: Array) -> None:
        self._columns, self._starts, self._scales, self._norms = columns, starts, scales, norms
        self._ranks = np.diff([*starts, len(columns)])
        # Unit vectors (N,), their products with columns (P,), and what rounding may have left in these, of the norms
        self._directions: list[tuple[Array, Array, float]] = []

    def bounds(self, rho: Array, limits: Array, errors: Array) -> tuple[Array, Array, int]:
        """Return bounds from below and above, (M,) each, and how many kernels were read.

        Those are read whose bound from above would exceed ``limits``; ``errors`` are what a pass leaves open.
        """
        size = float(np.sqrt(rho @ rho))
        rest, products, error = rho, np.zeros(len(self._columns)), len(rho) * ROUNDING * size
        for direction, own, wrong in self._directions:
            part = float(direction @ rest)
            rest, products, error = rest - part * direction, products + part * own, error + abs(part) * wrong
        left = float(np.sqrt(rest @ rest))
        near, radius = np.sqrt(self._squares(products)), self._norms * (left + error)
        low, high = np.maximum(near - radius, 0.0) ** 2, (near + radius) ** 2
        again = np.flatnonzero(high > limits)
        if len(again) > AGAIN * len(limits):
            read = self._columns @ rho
            if left > NEW_DIRECTION * size:
                self._directions.append((rest / left, (read - products) / left, error / left))
                del self._directions[:-MOST_DIRECTIONS]
            squares = self._squares(read)
            return np.maximum(squares - errors, 0.0), squares + errors, len(limits)
        if len(again):
            squares = self._squares_of(again, rho)
            low[again], high[again] = np.maximum(squares - errors[again], 0.0), squares + errors[again]
        return low, high, len(again)

    def _squares(self, products: Array) -> Array:
        return np.add.reduceat(products**2, self._starts) * self._scales

    def _squares_of(self, kernels: Array, rho: Array) -> Array:
        """Return ``rho' K_m rho`` of some kernels."""
        ranks = self._ranks[kernels]
        ends = np.cumsum(ranks)
        places = np.arange(ends[-1]) + np.repeat(self._starts[kernels] - (ends - ranks), ranks)
        products = np.empty(len(places))
        column_products(self._columns, places, rho, products)
        return np.add.reduceat(products**2, ends - ranks) * self._scales[kernels]


def largest_singular_values(columns: Array, starts: Array, scales: Array) -> Array:
    """Return bounds (M,) from above on the largest singular value of every kernel's factors."""
    ones, out = np.ones(columns.shape[1]), np.empty(len(starts))
    for m, (low, high) in enumerate(zip(starts, [*starts[1:], len(columns)], strict=True)):
        gram = np.empty((high - low, high - low))
        block_gram(columns[low:high], ones, gram)
        out[m] = np.linalg.eigvalsh(gram)[-1] if high > low + 1 else gram[0, 0]
    return np.sqrt(out * scales) * (1.0 + SLACK)
