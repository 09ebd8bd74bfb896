"""Compiled loops over packed triangles: kernels are centered where they are read."""

from __future__ import annotations

import numpy as np

from manykernels.compiled import compiled
from manykernels.validation.arrays import Array

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
