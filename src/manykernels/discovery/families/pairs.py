"""The symmetric weights of pairs of samples against which a search measures kernels: ``<A, K> = sum_ij A_ij K_ij``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy.spatial.distance import squareform

from manykernels.validation.arrays import Array, check_symmetric_matrix, check_vector


@dataclass(frozen=True, eq=False)
class PairWeights:
    """A symmetric matrix ``A`` of which searches need the triangle, the trace and, if it has rank one, its vector.

    Parameters
    ----------
    matrix : ndarray of shape (n_samples, n_samples)
        ``A``, symmetric.
    vector : ndarray of shape (n_samples,), optional
        ``r`` if ``A = r r'``.

    Raises
    ------
    InvalidInputError
        If the matrix is not square, symmetric and finite.

    Examples
    --------
    >>> import numpy as np
    >>> pairs = PairWeights.rank_one(np.array([1.0, -2.0]))
    >>> pairs.trace, pairs.triangle.tolist()
    (5.0, [-4.0])
    """

    matrix: Array
    vector: Array | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", check_symmetric_matrix(self.matrix, "matrix"))

    @classmethod
    def rank_one(cls, vector: Array) -> Self:
        """Return ``A = r r'``, for which ``<A, K> = r'K r``.

        Parameters
        ----------
        vector : ndarray of shape (n_samples,)

        Returns
        -------
        PairWeights

        Examples
        --------
        >>> import numpy as np
        >>> PairWeights.rank_one(np.array([1.0, -2.0])).n_samples
        2
        """
        vector = check_vector(vector, len(vector), "vector")
        return cls(np.outer(vector, vector), vector)

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.matrix)

    @cached_property
    def trace(self) -> float:
        """``sum_i A_ii``."""
        return float(np.trace(self.matrix))

    @cached_property
    def triangle(self) -> Array:
        """``2 A_ij`` for ``i < j`` in the order of ``scipy.spatial.distance.pdist``: every pair once."""
        return 2.0 * squareform(self.matrix, checks=False)

    @cached_property
    def magnitude(self) -> float:
        """``sum_{i != j} |A_ij|``."""
        return float(np.abs(self.triangle).sum())

    def with_kernel(self, gram: Array) -> float:
        """Return ``<A, K>`` of a Gram matrix.

        Parameters
        ----------
        gram : ndarray of shape (n_samples, n_samples)

        Returns
        -------
        float

        Examples
        --------
        >>> import numpy as np
        >>> PairWeights.rank_one(np.array([1.0, -2.0])).with_kernel(np.ones((2, 2)))
        1.0
        """
        return float(np.vdot(self.matrix, gram))
