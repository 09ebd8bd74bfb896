"""Kernels as products ``K = Z Z'`` of features, by a pivoted Cholesky factorization: as many features as the rank.

Many vectors are multiplied by features of few columns faster than by the matrices.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpstrf

from manykernels.validation.arrays import Array

RANK_TOL = 1e-10  # of the mean diagonal of a kernel: what features may leave out of its diagonal
MANY_COLUMNS = 256  # vectors from which on quadratic forms are computed by features


@dataclass(frozen=True, eq=False)
class PivotedFactors:
    """Features of kernels, with the determining rows."""

    features: tuple[Array, ...]  # (N, r_m) each
    pivots: tuple[Array, ...]  # (r_m,) int each: the rows among which features are lower triangular

    @classmethod
    def factorize(cls, grams: Iterable[Array], rank_tol: float = RANK_TOL) -> PivotedFactors:
        """Factorize matrices, in turn."""
        found = [factorize(gram, rank_tol) for gram in grams]
        return cls(tuple(features for features, _ in found), tuple(pivots for _, pivots in found))

    @property
    def ranks(self) -> Array:
        """Number of features of every kernel, (M,)."""
        return np.array([features.shape[1] for features in self.features])

    def quads(self, columns: Array) -> Array:
        """Return ``r' K_m r`` of every column (N, k), (M, k)."""
        return np.array([np.square(features.T @ columns).sum(axis=0) for features in self.features])


def factorize(gram: Array, rank_tol: float) -> tuple[Array, Array]:
    """Return features (N, r) of a matrix, and the determining rows."""
    factor, order, rank, _ = dpstrf(gram, tol=rank_tol * float(np.trace(gram)) / len(gram), lower=1)
    features = np.zeros((len(gram), rank))
    features[order - 1] = np.tril(factor)[:, :rank]
    return features, order[:rank] - 1
