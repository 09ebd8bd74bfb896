"""Squared distances and inner products of two sets of rows, dense or sparse, exact where it matters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from manykernels.validation.arrays import Array

CANCELLATION = 1e-4
MANY_NEAR = 0.05
NEAR_AT_ONCE = 2**14  # pairs of sparse rows whose difference is taken at a time


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


@dataclass(frozen=True, eq=False)
class SparsePoints:
    """Rows in compressed form, as kernels of inner products and distances read them."""

    data: Array  # of a CSR matrix in canonical form
    indices: Array  # of a CSR matrix in canonical form
    indptr: Array  # of a CSR matrix in canonical form
    shape: tuple[int, int]  # (n, d)

    @classmethod
    def of(cls, matrix: csr_array) -> SparsePoints:
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
        """The transposed matrix, kept because every product needs it."""
        return self.rows.T.tocsr()

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | Array) -> SparsePoints:
        whole = np.arange(len(self))
        chosen = whole[rows]
        return self if np.array_equal(chosen, whole) else SparsePoints.of(self.rows[chosen])

    @property
    def squared_norms(self) -> Array:
        """Squared norms of the rows, (n,)."""
        return np.asarray(self.rows.multiply(self.rows).sum(axis=1)).ravel()

    def sketch(self) -> Array:
        """Return two numbers that tell rows apart by what they hold, (n, 2): sums with fixed weights."""
        weights = np.random.default_rng(0).normal(size=(self.shape[1], 2))
        return np.asarray(self.rows @ weights)

    def inner(self, other: SparsePoints) -> Array:
        """Return the inner products with other rows, (n, n_other) dense."""
        return np.asarray((self.rows @ other.columns).toarray())

    def squared_distances(self, other: SparsePoints, norms: Array, other_norms: Array) -> Array:
        """Return ``||a_i - b_j||^2``; pairs that are near compared with their norms by subtraction."""
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

    Equal rows are told apart by how many there were before, so that a part of the order holds as many of them as a
    draw would.
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
    """Return numbers whose every bit depends on all bits of those given (the finalizer of splitmix64)."""
    keys = keys + MIX
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))
