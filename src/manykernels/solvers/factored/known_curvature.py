"""What one curvature of the samples leads to, kept for as long as that stays the same.

The curvature ``W`` of a squared loss is the same at every point, so that ``Z_m' W Z_m`` and ``Z' W Z`` of kernels that
were in use once serve all rounds and all strengths of a path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.grams.factored.operators import ColumnFactors
from manykernels.grams.loops import block_gram

Array = NDArray[Any]


@dataclass
class KnownCurvature:
    """Products of factors under one curvature of the samples.

    Attributes
    ----------
    factor_tol : float
        What the factors leave of the trace.
    weights : (N,)
        The curvature.
    bases : dict of int to pair of arrays
        Eigenvalues of ``Z_m' W Z_m`` of a kernel, and its eigenvectors times the root of the factors.
    hessian : (r, r)
        ``Z' W Z`` of all kernels in ``places``, which says where each kernel's coefficients stand.
    totals : (r,)
        ``Z' W 1``.
    """

    factor_tol: float = 0.0
    weights: Array = field(default_factory=lambda: np.zeros(0))
    bases: dict[int, tuple[Array, Array]] = field(default_factory=dict)
    hessian: Array = field(default_factory=lambda: np.zeros((0, 0)))
    totals: Array = field(default_factory=lambda: np.zeros(0))
    places: dict[int, slice] = field(default_factory=dict)

    def under(self, weights: Array) -> KnownCurvature:
        """Return what is known under these weights: nothing if they differ from those before."""
        if not np.array_equal(self.weights, weights):
            self.weights, self.bases, self.places = weights, {}, {}
        return self

    def basis(self, kernel: int, rows: Array, root: float) -> tuple[Array, Array]:
        """Return eigenvalues and eigenvectors of one kernel, whose factors are ``root`` times these rows (r, N)."""
        if kernel not in self.bases:
            gram = np.empty((len(rows), len(rows)))
            block_gram(rows, self.weights, gram)
            values, vectors = np.linalg.eigh(root**2 * gram)
            self.bases[kernel] = np.maximum(values, max(float(values[-1]), 1e-300) * 1e-14), root * vectors
        return self.bases[kernel]

    def missing(self, operators: Sequence[Any]) -> int:
        """Return how many coefficients of operators have no part in the Hessian yet."""
        return sum(int(one.starts[-1]) for one in operators if not self.places.keys() >= set(one.kernels.tolist()))

    def gram(self, operators: Sequence[Any], in_place: ColumnFactors | None = None, *, intercept: bool) -> Array:
        """Return ``Z' W Z``, and a row for the intercept; kernels that are known cost nothing.

        ``in_place`` are the factors together, where they are columns of the table.
        """
        ends = np.cumsum([0] + [int(operator.starts[-1]) for operator in operators])
        rank = int(ends[-1])
        H, totals, old = np.empty((rank + intercept, rank + intercept)), np.empty(rank), np.full(rank, -1)
        places: dict[int, slice] = {}
        for operator, low in zip(operators, ends[:-1], strict=True):
            for kernel, (start, stop) in zip(operator.kernels.tolist(), pairwise(operator.starts), strict=True):
                places[kernel] = slice(low + start, low + stop)
                if (place := self.places.get(kernel)) is not None:
                    old[places[kernel]] = np.arange(place.start, place.stop)
        kept = np.flatnonzero(old >= 0)
        if len(kept):
            H[np.ix_(kept, kept)], totals[kept] = self.hessian[np.ix_(old[kept], old[kept])], self.totals[old[kept]]
        new = np.flatnonzero(old < 0)
        if in_place is not None and len(new):
            H[:rank, new], totals[new] = in_place.products(self.weights, new)
            H[new, :rank] = H[:rank, new].T
        for operator, low, high in zip(operators, ends[:-1], ends[1:], strict=True):
            if in_place is None and (old[low:high] < 0).any():
                weighted = self.weights[:, None] * operator.rows(slice(None))
                H[:rank, low:high] = np.concatenate([other.adjoint(weighted) for other in operators])
                H[low:high, :rank], totals[low:high] = H[:rank, low:high].T, weighted.sum(axis=0)
        if len(kept) < rank:
            self.hessian, self.totals, self.places = H[:rank, :rank].copy(), totals, places
        if intercept:
            H[rank, :rank] = H[:rank, rank] = totals
            H[rank, rank] = self.weights.sum()
        return H
