"""Some kernels as N x N matrices, the others as factors: a Gram stack in memory for solvers that form sums of both."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.grams.base import GramStack
from manykernels.grams.dense import DenseStack

Array = NDArray[Any]

ROWS = 256  # of a matrix that are added at once


class MixedStack(GramStack):
    """Kernels held as matrices, then kernels held as factors, ``K_m = Z_m Z_m'``.

    Parameters
    ----------
    whole : sequence of (n_samples, n_samples) arrays, float32 or float64
        The first kernels.
    factors : ndarray of shape (n_samples, rank)
        Factors of the others side by side.
    starts : ndarray of shape (g + 1,)
        Columns ``starts[i]:starts[i + 1]`` belong to the i-th of them.
    """

    def __init__(self, whole: Sequence[Array], factors: Array, starts: Array) -> None:
        super().__init__(len(whole) + len(starts) - 1, len(factors), np.float64)
        self._whole = [DenseStack(gram[None]) for gram in whole]
        self._factors, self._starts = factors, np.asarray(starts)

    def _factor(self, kernel: int) -> Array:
        slot = kernel - len(self._whole)
        return self._factors[:, self._starts[slot] : self._starts[slot + 1]]

    def _block(self, rows: Array, cols: Array, kernels: Array) -> Array:
        out = np.empty((len(kernels), len(rows), len(cols)))
        for slot, kernel in enumerate(kernels.tolist()):
            if kernel < len(self._whole):
                out[slot] = self._whole[kernel].block(rows, cols)[0]
            else:
                # Products of rows one by one, whose last bits do not depend on which rows are beside them.
                Z = self._factor(kernel)
                out[slot] = np.einsum("ik,jk->ij", Z[rows], Z[cols])
        return out

    def diag(self) -> Array:
        """Diagonals of all kernels, (M, N) float64."""
        squares = self._factors**2
        own = [squares[:, low:high].sum(axis=1) for low, high in pairwise(self._starts)]
        return np.vstack([*(gram.diag()[0] for gram in self._whole), *own])

    @property
    def nbytes(self) -> int:
        """Bytes of matrices and factors."""
        return int(self._factors.nbytes) + sum(gram.nbytes for gram in self._whole)

    @property
    def in_memory(self) -> bool:
        """True."""
        return True

    def _quad(self, r: Array) -> Array:
        squares = np.concatenate([[0.0], np.cumsum((r @ self._factors) ** 2)])
        own = np.maximum(np.diff(squares[self._starts]), 0.0)
        return np.concatenate([*(gram._quad(r) for gram in self._whole), own])

    def _apply_each(self, columns: Array, kernels: Array) -> Array:
        out = np.empty((len(kernels), *columns.shape))
        for slot, kernel in enumerate(kernels.tolist()):
            if kernel < len(self._whole):
                out[slot] = self._whole[kernel]._apply_each(columns, np.zeros(1, dtype=np.int64))[0]
            else:
                Z = self._factor(kernel)
                out[slot] = Z @ (Z.T @ columns)
        return out

    def _combine(self, weights: Array, active: Array) -> Array:
        own = np.repeat(weights[len(self._whole) :], np.diff(self._starts))
        used = np.flatnonzero(own)
        factors, signs = self._factors[:, used] * np.sqrt(np.abs(own[used])), np.sign(own[used])
        # A matrix times its own transpose costs half of another product, and is symmetric to the last bit.
        total = factors[:, signs > 0] @ factors[:, signs > 0].T
        if (signs < 0).any():
            total -= factors[:, signs < 0] @ factors[:, signs < 0].T
        for gram, weight in zip(self._whole, weights, strict=False):
            for start in range(0, self.n_samples, ROWS) if weight else ():
                total[start : start + ROWS] += weight * gram.array[0, start : start + ROWS]
        return total
