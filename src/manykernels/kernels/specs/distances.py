"""Squared distances and inner products of two sets of rows, exact where it matters."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from manykernels.validation.arrays import Array

CANCELLATION = 1e-4
MANY_NEAR = 0.05


def squared_distances(A: Array, B: Array, a_norms: Array, b_norms: Array) -> Array:
    """Return ``||a_i - b_j||^2``, symmetric with a zero diagonal when ``A is B``.

    One column is subtracted exactly. More columns use ``||a||^2 + ||b||^2 - 2 <a, b>``, one matrix product; pairs that
    are near compared with their norms lose digits there and are recomputed by subtraction.
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
