"""Inner products of centered kernels, read from any Gram stack a few kernels at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.alignment.metrics import center_kernel
from manykernels.compiled import compiled
from manykernels.grams import GramStack
from manykernels.grams.counters import triangle_size, triangle_starts
from manykernels.grams.loops import pack_triangle
from manykernels.validation.arrays import Array

# Compiled loops over packed triangles: kernels are centered where they are read.


ROOT_TWO = np.sqrt(2.0)


@compiled()
def row_means(triangle: Array, n: int, out: Array) -> None:
    """Set ``out = K 1 / n`` of one packed triangle (n(n+1)/2,), out (n,) float64."""
    out[:] = 0.0
    start = 0
    for i in range(n):
        row = triangle[start : start + n - i]
        total = 0.0
        for j in range(n - i):
            total += row[j]
            out[i + j] += row[j]
        out[i] += total - row[0]
        start += n - i
    for i in range(n):
        out[i] /= n


@compiled()
def packed_features(triangles: Array, n: int, center: bool, out: Array) -> None:
    """Write (centered) kernels as vectors whose inner products are those of the full matrices, out (m, P) float64.

    Off-diagonal entries stand for two and are multiplied by the square root of two.
    """
    means = np.zeros(n)
    for m in range(triangles.shape[0]):
        triangle = triangles[m]
        grand = 0.0
        if center:
            row_means(triangle, n, means)
            for i in range(n):
                grand += means[i] / n
        start = 0
        for i in range(n):
            row, target = triangle[start : start + n - i], out[m, start : start + n - i]
            shift, tail = grand - means[i], means[i:]
            target[0] = row[0] + shift - tail[0]
            for j in range(1, n - i):
                target[j] = ROOT_TWO * (row[j] + shift - tail[j])
            start += n - i


CHUNK_BYTES = 64 * 2**20  # of kernels centered at once; two such chunks, and the triangles of one, may be held at once


@dataclass(frozen=True, eq=False)
class CenteredProducts:
    """Inner products ``<K_i, K_j>_F`` and ``<K_i, T>_F`` of the (centered) kernels of a stack.

    A kernel is held as a packed triangle, centered entry by entry, whose off-diagonal entries are multiplied by the
    square root of two: inner products of matrices are then those of vectors, computed by BLAS. A chunk is `CHUNK_BYTES`
    of such vectors (one kernel, if that is larger); no more than two chunks and the triangles of one exist at once,
    whatever the number of kernels.
    """

    stack: GramStack
    center: bool = True

    def target(self, T: Array) -> Array:
        """Return a symmetric matrix T, centered if kernels are, as a vector like those of kernels."""
        matrix = center_kernel(T) if self.center else np.asarray(T, dtype=np.float64)
        packed = np.empty(triangle_size(len(matrix)))
        pack_triangle(matrix, packed)
        packed *= np.sqrt(2.0)
        packed[triangle_starts(len(matrix))[:-1]] /= np.sqrt(2.0)
        return packed

    def with_target(self, target: Array) -> tuple[Array, Array, Array]:
        """Return for each kernel its inner product with a target and its norms: one pass."""
        found = np.empty((3, self.stack.n_kernels))
        for at in self._chunks(self.stack.n_kernels):
            found[:, at] = self._measured(at, target)
        return found[0], found[1], found[2]

    def with_combination(self, weights: Array) -> Array:
        """Return ``<K_i, sum_j weights_j K_j>_F`` of every kernel: one pass, and the active kernels once."""
        combined = self.target(self.stack.combine(weights))
        products = np.empty(self.stack.n_kernels)
        for at in self._chunks(self.stack.n_kernels):
            products[at] = self._vectors(at) @ combined
        return products

    def between(self, rows: Any, columns: Any) -> Array:
        """Return ``<K_i, K_j>_F`` for the given kernels."""
        left, right = np.asarray(rows), np.asarray(columns)
        products = np.empty((len(left), len(right)))
        for at in self._chunks(len(left)):
            first = self._vectors(left[at])
            known = {int(kernel): position for position, kernel in enumerate(left[at])}
            repeated = np.array([p for p, kernel in enumerate(right) if int(kernel) in known], dtype=np.int64)
            products[np.ix_(at, repeated)] = first @ first[[known[int(right[p])] for p in repeated]].T
            others = np.setdiff1d(np.arange(len(right)), repeated)
            for to in self._chunks(len(others)):
                products[np.ix_(at, others[to])] = first @ self._vectors(right[others[to]]).T
        return products

    def _chunks(self, n_kernels: int) -> Iterator[Array]:
        """Yield the positions 0, 1, ... of so many kernels, a chunk at a time."""
        n = self.stack.n_samples
        step = max(1, CHUNK_BYTES // (4 * n * (n + 1)))
        for first in range(0, n_kernels, step):
            yield np.arange(first, min(first + step, n_kernels))

    def _vectors(self, kernels: Array) -> Array:
        return self._centered(self.stack.triangles(kernels))

    def _centered(self, triangles: Array) -> Array:
        """Return packed triangles as vectors, (n_kernels, N(N+1)/2)."""
        vectors = np.empty(triangles.shape)
        packed_features(triangles, self.stack.n_samples, self.center, vectors)
        return vectors

    def _measured(self, kernels: Array, target: Array) -> tuple[Array, Array, Array]:
        """Return products with the target, norms and raw norms of one chunk."""
        triangles = self.stack.triangles(kernels)
        vectors = self._centered(triangles)
        norms: Array = np.linalg.norm(vectors, axis=1)
        raw = _norms(triangles, self.stack.n_samples) if self.center else norms
        return vectors @ target, norms, raw


def _norms(triangles: Array, n: int) -> Array:
    """Return the Frobenius norms of packed triangles, squared one at a time to hold no further chunk."""
    diagonal = triangle_starts(n)[:-1]
    return np.array([_norm(triangle.astype(np.float64), diagonal) for triangle in triangles])


def _norm(triangle: Array, diagonal: Array) -> float:
    square = 2.0 * float(triangle @ triangle) - float(triangle[diagonal] @ triangle[diagonal])
    return float(np.sqrt(square))
