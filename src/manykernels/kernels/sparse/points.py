"""Sparse points: inner products and squared distances of rows that are mostly zeros, never made dense."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from manykernels.kernels.specs.distances import CANCELLATION
from manykernels.validation.arrays import Array

NEAR_AT_ONCE = 2**14  # pairs of rows whose difference is taken at a time


@dataclass(frozen=True, eq=False)
class SparsePoints:
    """Rows in compressed form, as kernels of inner products and distances read them.

    Attributes
    ----------
    data, indices, indptr : ndarray
        Of a CSR matrix in canonical form.
    shape : tuple of int
        ``(n, d)``.
    """

    data: Array
    indices: Array
    indptr: Array
    shape: tuple[int, int]

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

    def __getitem__(self, rows: Any) -> SparsePoints:
        whole = np.arange(len(self))
        chosen = whole[rows]
        return self if np.array_equal(chosen, whole) else SparsePoints.of(self.rows[chosen])

    @property
    def squared_norms(self) -> Array:
        """Squared norms of the rows, (n,)."""
        return np.asarray(self.rows.multiply(self.rows).sum(axis=1)).ravel()

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
