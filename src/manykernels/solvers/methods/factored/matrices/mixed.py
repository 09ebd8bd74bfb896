"""Some kernels as N x N matrices, the others as factors: a Gram stack in memory for solvers that form sums of both."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.grams.base import GramStack
from manykernels.grams.packed import PackedStack

Array = NDArray[Any]


class MixedStack(GramStack):
    """Kernels held as packed triangles, then kernels held as factors, ``K_m = Z_m Z_m'``.

    Parameters
    ----------
    whole : PackedStack or None
        The first kernels.
    factors : ndarray of shape (n_samples, rank)
        Factors of the others side by side.
    starts : ndarray of shape (g + 1,)
        Columns ``starts[i]:starts[i + 1]`` belong to the i-th of them.
    """

    def __init__(self, whole: PackedStack | None, factors: Array, starts: Array) -> None:
        self._n_whole = 0 if whole is None else whole.n_kernels
        super().__init__(self._n_whole + len(starts) - 1, len(factors), np.float64)
        self._whole, self._factors, self._starts = whole, factors, np.asarray(starts)

    def _factor(self, kernel: int) -> Array:
        slot = kernel - self._n_whole
        return self._factors[:, self._starts[slot] : self._starts[slot + 1]]

    def _block(self, rows: Array, cols: Array, kernels: Array) -> Array:
        out = np.empty((len(kernels), len(rows), len(cols)))
        for slot, kernel in enumerate(kernels.tolist()):
            if self._whole is not None and kernel < self._n_whole:
                out[slot] = self._whole._block(rows, cols, np.array([kernel]))[0]
            else:
                # Products of rows one by one, whose last bits do not depend on which rows are beside them.
                Z = self._factor(kernel)
                out[slot] = np.einsum("ik,jk->ij", Z[rows], Z[cols])
        return out

    def diag(self) -> Array:
        """Diagonals of all kernels, (M, N) float64."""
        parts = [] if self._whole is None else [self._whole.diag()]
        squares = self._factors**2
        own = [squares[:, low:high].sum(axis=1) for low, high in zip(self._starts, self._starts[1:], strict=False)]
        return np.vstack([*parts, *own])

    @property
    def nbytes(self) -> int:
        """Bytes of triangles and factors."""
        return self._factors.nbytes + (0 if self._whole is None else self._whole.nbytes)

    @property
    def in_memory(self) -> bool:
        """True."""
        return True

    def _quad(self, r: Array) -> Array:
        squares = np.concatenate([[0.0], np.cumsum((r @ self._factors) ** 2)])
        own = np.maximum(np.diff(squares[self._starts]), 0.0)
        return own if self._whole is None else np.concatenate([self._whole._quad(r), own])

    def _apply_each(self, columns: Array, kernels: Array) -> Array:
        out = np.empty((len(kernels), *columns.shape))
        for slot, kernel in enumerate(kernels.tolist()):
            if self._whole is not None and kernel < self._n_whole:
                out[slot] = self._whole._apply_each(columns, np.array([kernel]))[0]
            else:
                Z = self._factor(kernel)
                out[slot] = Z @ (Z.T @ columns)
        return out

    def _combine(self, weights: Array, active: Array) -> Array:
        own = np.repeat(weights[self._n_whole :], np.diff(self._starts))
        used = np.flatnonzero(own)
        factors, signs = self._factors[:, used] * np.sqrt(np.abs(own[used])), np.sign(own[used])
        # A matrix times its own transpose costs half of another product, and is symmetric to the last bit.
        total = factors[:, signs > 0] @ factors[:, signs > 0].T
        if (signs < 0).any():
            total -= factors[:, signs < 0] @ factors[:, signs < 0].T
        whole = active[active < self._n_whole]
        if self._whole is not None and len(whole):
            total += self._whole._combine(weights[: self._n_whole], whole)
        return total
