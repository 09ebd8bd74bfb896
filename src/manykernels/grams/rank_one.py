"""Kernels of rank one, ``K_m = phi_m phi_m'``, stored as features: every operation is linear in N."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg.blas import dsyrk

from manykernels.exceptions import InvalidInputError
from manykernels.grams.base import GramStack
from manykernels.validation.arrays import Array, read_only


class RankOneStack(GramStack):
    """M kernels ``K_m = phi_m phi_m'``, each given by one feature: the linear kernel of a column, or of a monomial.

    Parameters
    ----------
    features : ndarray of shape (n_kernels, n_samples)
        ``phi_m`` in row m, finite. Not copied if C-contiguous float64, never modified.
    names : sequence of str, optional

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.grams import RankOneStack
    >>> stack = RankOneStack(np.array([[1.0, 2.0], [0.0, 3.0]]))
    >>> stack.quad([1.0, 1.0])
    array([9., 9.])
    >>> stack.combine([1.0, 1.0])
    array([[ 1.,  2.],
           [ 2., 13.]])
    """

    in_memory = True  # an entry is one product of stored numbers

    def __init__(self, features: Array, *, names: Sequence[str] | None = None) -> None:
        features = np.ascontiguousarray(features, dtype=np.float64)
        if features.ndim != 2 or 0 in features.shape:
            raise InvalidInputError(f"A RankOneStack needs a non-empty (M, N) array, got shape {features.shape}.")
        n_kernels, n_samples = features.shape
        super().__init__(n_kernels, n_samples, np.float64, names=names)
        self._features = features

    @property
    def quad_cost(self) -> float:
        return float(self.n_kernels * self.n_samples)

    @property
    def n_entries(self) -> int:
        """Entries of all features."""
        return int(self._features.size)

    @property
    def features(self) -> Array:
        """The features, (M, N), as a read-only view."""
        return read_only(self._features)

    @property
    def nbytes(self) -> int:
        """Bytes of the features."""
        return self._features.nbytes

    def diag(self) -> Array:
        return self._features**2

    def _block(self, rows: Array, cols: Array, kernels: Array) -> Array:
        chosen = self._features[kernels]
        return chosen[:, rows, None] * chosen[:, None, cols]

    def _quad(self, r: Array) -> Array:
        return (self._features @ r) ** 2

    def _quad_each(self, columns: Array) -> Array:
        return (self._features @ columns) ** 2

    def _apply_each(self, columns: Array, kernels: Array) -> Array:
        chosen = self._features[kernels]
        return chosen[:, :, None] * (chosen @ columns)[:, None, :]

    def _apply(self, weights: Array, active: Array, columns: Array) -> Array:
        chosen = self._features[active]
        return chosen.T @ (weights[active, None] * (chosen @ columns))

    def _combine(self, weights: Array, active: Array) -> Array:
        chosen, scale = self._features[active], weights[active, None]
        if np.all(scale >= 0):
            # A matrix times its own transpose costs half, and is exactly symmetric.
            root = chosen * np.sqrt(scale)
            return root.T @ root
        total = chosen.T @ (chosen * scale)
        return (total + total.T) / 2

    def add_to(self, total: Array, weights: Array, active: Array) -> None:
        """Add a weighted sum of kernels to the upper triangle of a matrix (N, N), row after row in memory, in place."""
        for sign in (1.0, -1.0):
            own = active[sign * weights[active] > 0]
            if own.size:
                root = self._features[own] * np.sqrt(np.abs(weights[own]))[:, None]
                dsyrk(sign, root.T, beta=1.0, c=total.T, lower=1, overwrite_c=1)

    def _take(self, kernels: Array) -> RankOneStack:
        return RankOneStack(self._features[kernels], names=self._names_of(kernels))

    def _restrict(self, samples: Array) -> RankOneStack:
        return RankOneStack(self._features[:, samples], names=self.names)
