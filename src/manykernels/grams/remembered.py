"""Products of kernels with the vectors that were last asked about, for those who ask once more.

A model is certified where found, and the next one begins there, under another strength: every would read all kernels
for products known.
"""

import math
from collections.abc import Callable

import numpy as np

from manykernels.validation.arrays import Array, read_only

REMEMBERED_BYTES = 2**22  # of products, at most,
LEAST_REMEMBERED = 16  # vectors of which there must be room: several targets take turns
SHARE_OF_SAMPLES = 16  # samples for each vector: products take an eighth of the triangles of the kernels at most


class Remembered:
    """Products of all kernels of a stack with vectors, in units of a power of two.

    Of so many kernels that there is no room for a few vectors nothing is remembered.
    """

    def __init__(self, n_kernels: int, n_samples: int) -> None:
        room = REMEMBERED_BYTES // (8 * n_kernels * n_samples)
        self.room = min(room, n_samples // SHARE_OF_SAMPLES) if room >= LEAST_REMEMBERED else 0
        self._products: dict[bytes, Array] = {}

    def of(self, vector: Array, products: Callable[[Array], Array] | None) -> Array | None:
        """Return the products (M, N) with a vector, computed if unknown; None if not permitted."""
        if not self.room:
            return None
        unit = _unit(vector)
        key = (vector / unit).tobytes()
        known = self._products.pop(key, None)
        if known is None:
            if products is None:
                return None
            known = read_only(products(vector / unit))
        self._keep(key, known)
        return known if unit == 1.0 else known * unit

    def add(self, vectors: Array, products: Callable[[Array], Array]) -> None:
        """Remember the products with several vectors (N, k), computed at once (M, N, k)."""
        columns = vectors / np.array([_unit(column) for column in vectors.T])
        for column, each in zip(columns.T, products(columns).transpose(2, 0, 1), strict=True):
            self._keep(column.tobytes(), read_only(each.copy()))

    def _keep(self, key: bytes, products: Array) -> None:
        self._products[key] = products  # the last one again
        for oldest in list(self._products)[: -self.room]:  # a copy: other threads may be here too
            self._products.pop(oldest, None)


def _unit(vector: Array) -> float:
    """Return the power of two above the largest size, for division without rounding."""
    return math.ldexp(1.0, min(max(math.frexp(float(np.abs(vector).max()))[1], -1021), 1023))
