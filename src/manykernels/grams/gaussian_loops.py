"""Compiled loops of Gaussian kernels, computed where used: distances once for all widths, nothing stored.

NumPy has no vectorized float64 exponential on AVX2 machines (about 5 ns an entry); ``exp64`` takes about 1.2 ns, within
two units in the last place for the non-positive arguments met here. It splits ``x = k log 2 + f`` by adding a large
constant, so that ``k`` lands in the low bits. ``reassoc`` would optimize that away: hence the two sets of flags.
Cody and Waite, Software Manual for the Elementary Functions (1980), chapter 6.
"""

import numpy as np

from manykernels.compiled import compiled
from manykernels.grams.loops import FAST
from manykernels.validation.arrays import Array

ROWS, COLUMNS = 8, 256  # a tile of squared distances: 16 KiB, in the first cache level while every width reads it

LOG2E = 1.4426950408889634
HIGH, LOW = 6.93145751953125e-1, 1.42860682030941723212e-6  # log 2 in two parts; k * HIGH is exact
SHIFT = 6755399441055744.0  # 1.5 * 2**52
LOWEST = -708.0  # below, the result is smaller than any normal number: zero


@compiled(fastmath={"contract"})
def exp64(x: float) -> float:
    """Return ``exp(x)`` for x <= 0; zero below -708."""
    y = x if x > LOWEST else LOWEST
    shifted = y * LOG2E + SHIFT
    k = shifted - SHIFT
    f = (y - k * HIGH) - k * LOW
    p = 1 / 479001600.0
    p = p * f + 1 / 39916800.0
    p = p * f + 1 / 3628800.0
    p = p * f + 1 / 362880.0
    p = p * f + 1 / 40320.0
    p = p * f + 1 / 5040.0
    p = p * f + 1 / 720.0
    p = p * f + 1 / 120.0
    p = p * f + 1 / 24.0
    p = p * f + 1 / 6.0
    p = p * f + 0.5
    p = p * f + 1.0
    p = p * f + 1.0
    bits = np.float64(p).view(np.int64) + (np.float64(shifted).view(np.int64) << np.int64(52))
    return np.int64(bits).view(np.float64) if x >= LOWEST else 0.0


@compiled(fastmath={"contract"})
def distance_tile(left: Array, right: Array, rows: tuple[int, int], cols: tuple[int, int], out: Array) -> None:
    """Write ``||left_i - right_j||^2`` of two ranges into the corner of the contiguous ``out``; points (d, n)."""
    width = cols[1] - cols[0]
    for i in range(rows[1] - rows[0]):
        out[i, :width] = 0.0
    for k in range(left.shape[0]):
        values = right[k, cols[0] : cols[1]]
        for i in range(rows[1] - rows[0]):
            own = left[k, rows[0] + i]
            row = out[i, :width]
            for j in range(width):
                difference = values[j] - own
                row[j] += difference * difference


@compiled(fastmath=FAST)
def _dot64(distances: Array, coefficient: float, tail: Array) -> float:
    total = 0.0
    for j in range(tail.size):
        total += exp64(coefficient * distances[j]) * tail[j]
    return total


@compiled(fastmath=FAST)
def gaussian_quad(points: Array, coefficients: Array, rho: Array, out: Array) -> None:
    """Set ``out[m] = sum_ij rho_i exp(coefficients[m] ||x_i - x_j||^2) rho_j``, distances computed once for all m.

    points (d, n) and rho (n,) float64; coefficients (w,) not positive.
    """
    n = rho.size
    buffer = np.empty((ROWS, COLUMNS))
    out[:] = np.sum(rho * rho)
    for top in range(0, n, ROWS):
        bottom = min(top + ROWS, n)
        for start in range(top, n, COLUMNS):
            stop = min(start + COLUMNS, n)
            # The whole buffer is passed, not a part of it: a part is not contiguous, and its loops not vectorized.
            distance_tile(points, points, (top, bottom), (start, stop), buffer)
            for m in range(out.size):
                for i in range(top, bottom):
                    first = min(max(i + 1, start), stop)
                    row, tail = buffer[i - top, first - start : stop - start], rho[first:stop]
                    out[m] += 2.0 * rho[i] * _dot64(row, coefficients[m], tail)


@compiled(fastmath={"contract"})
def gaussian_tile(left: Array, right: Array, coefficients: Array, scales: Array, out: Array) -> None:
    """Set ``out[m, i, j] = scales[m] exp(coefficients[m] ||left_i - right_j||^2)``.

    Points are (d, r) and (d, c) float64, a column per sample; coefficients and scales (w,); out (w, r, c).
    """
    buffer = np.empty((1, out.shape[2]))
    for i in range(out.shape[1]):
        distance_tile(left, right, (i, i + 1), (0, out.shape[2]), buffer)
        distances = buffer[0]
        for m in range(out.shape[0]):
            scale, coefficient, row = scales[m], coefficients[m], out[m, i]
            for j in range(row.size):
                row[j] = scale * exp64(coefficient * distances[j])


@compiled(fastmath={"contract"})
def gaussian_triangles(points: Array, coefficients: Array, scales: Array, kernels: Array, out: Array) -> None:
    """Write the packed upper triangle of ``scales[m] exp(coefficients[m] ||x_i - x_j||^2)`` into ``out[kernels[m]]``.

    points (d, n) float64, a column per sample; coefficients, scales and kernels (w,); out (M, n(n+1)/2) of any type.
    Entries have the bits of those of `gaussian_tile`, and never exist but where stored.
    """
    n = points.shape[1]
    buffer = np.empty((1, n))
    start = 0
    for i in range(n):
        width = n - i
        distance_tile(points, points, (i, i + 1), (i, n), buffer)
        distances = buffer[0, :width]
        for m in range(kernels.size):
            scale, coefficient, row = scales[m], coefficients[m], out[kernels[m], start : start + width]
            for j in range(width):
                row[j] = scale * exp64(coefficient * distances[j])
        start += width


@compiled(fastmath=FAST)
def gaussian_scores(left: Array, right: Array, coefficient: float, weights: Array, out: Array) -> None:
    """Set ``out[i] = sum_j weights_j exp(coefficient ||left_i - right_j||^2)``; no matrix is formed.

    Points are (d, n) and (d, r) float64, a column per sample; weights (r,) and out (n,) float64.
    """
    buffer = np.empty((1, weights.size))
    for i in range(out.size):
        distance_tile(left, right, (i, i + 1), (0, weights.size), buffer)
        out[i] = _dot64(buffer[0], coefficient, weights)


@compiled(fastmath={"contract"})
def gaussian_sum(
    left: Array,
    right: Array,
    coefficients: Array,
    weights: Array,
    upper: bool,
    out: Array,
) -> None:
    """Add ``sum_m weights[m] exp(coefficients[m] ||left_i - right_j||^2)`` to ``out`` (r, c).

    Points are (d, r) and (d, c) float64, one column a sample. ``upper`` leaves most of what is below the diagonal as it
    was, and what is written there has no meaning.
    """
    distances = np.empty((ROWS, COLUMNS))
    for top in range(0, out.shape[0], ROWS):
        bottom = min(top + ROWS, out.shape[0])
        for start in range(top if upper else 0, out.shape[1], COLUMNS):
            stop = min(start + COLUMNS, out.shape[1])
            distance_tile(left, right, (top, bottom), (start, stop), distances)
            for i in range(bottom - top):
                row, total = distances[i], out[top + i, start:stop]
                for m in range(weights.size):
                    weight, coefficient = weights[m], coefficients[m]
                    for j in range(total.size):
                        total[j] += weight * exp64(coefficient * row[j])
