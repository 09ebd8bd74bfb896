"""Compiled loops over the entries of dense matrices and the columns of factors: float64 sums, no large temporaries.

Those over packed triangles, row by row, stand with them, in `packed.py`. ``fastmath`` may reorder sums but must keep
NaN and infinity, so a bad entry shows.

The loops release the GIL; `manykernels.threads.run_ranges` hands ranges of kernels to threads.
"""

import numpy as np

from manykernels.compiled import compiled
from manykernels.validation.arrays import Array

FAST = {"reassoc", "contract", "nsz"}
GROUP_TILE = 512  # rows of a few columns that stay in a first-level cache
TILE = 4096  # entries of a float64 accumulator tile: 32 KiB, so that it stays in the first two cache levels


@compiled(fastmath=FAST)
def dense_quad(grams: Array, rho: Array, out: Array) -> None:
    """Set ``out[m] = rho' K_m rho`` reading only the upper triangle of every matrix of grams (W, n, n)."""
    n = rho.size
    for m in range(grams.shape[0]):
        total = 0.0
        for i in range(n):
            row = grams[m, i, i:]
            tail = rho[i:]
            dot = 0.0
            for j in range(n - i):
                dot += row[j] * tail[j]
            total += rho[i] * (2.0 * dot - row[0] * rho[i])
        out[m] = total


@compiled(fastmath=FAST)
def dense_inner(grams: Array, kernels: Array, between: Array, out: Array) -> None:
    """Set ``out[p] = <K_m, between>``, m = kernels[p], of symmetric matrices (n, n), reading upper triangles only."""
    n = between.shape[0]
    out[:] = 0.0
    for i in range(n):  # a row of ``between`` stays in a cache while those of all kernels pass by
        tail = between[i, i:]
        for p in range(kernels.size):
            row = grams[kernels[p], i, i:]
            dot = 0.0
            for j in range(n - i):
                dot += row[j] * tail[j]
            out[p] += 2.0 * dot - row[0] * tail[0]


@compiled(fastmath=FAST)
def dense_apply_each(grams: Array, rho: Array, out: Array) -> None:
    """Set ``out[m] = K_m rho`` reading only upper triangles; grams (W, n, n), out (W, n) float64.

    Four rows at a time: ``rho`` and ``out`` are read and written once for them.
    """
    n = rho.size
    fours = n - n % 4
    for m in range(grams.shape[0]):
        gram, result = grams[m], out[m]
        result[:] = 0.0
        for i in range(0, fours, 4):
            for k in range(i, i + 4):
                for j in range(i, i + 4):
                    result[k] += gram[min(j, k), max(j, k)] * rho[j]
            a, b, c, d = gram[i, i + 4 :], gram[i + 1, i + 4 :], gram[i + 2, i + 4 :], gram[i + 3, i + 4 :]
            own_a, own_b, own_c, own_d = rho[i], rho[i + 1], rho[i + 2], rho[i + 3]
            of_a, of_b, of_c, of_d = 0.0, 0.0, 0.0, 0.0
            tail, target = rho[i + 4 :], result[i + 4 :]
            for j in range(tail.size):
                of_a += a[j] * tail[j]
                of_b += b[j] * tail[j]
                of_c += c[j] * tail[j]
                of_d += d[j] * tail[j]
                target[j] += (own_a * a[j] + own_b * b[j]) + (own_c * c[j] + own_d * d[j])
            result[i] += of_a
            result[i + 1] += of_b
            result[i + 2] += of_c
            result[i + 3] += of_d
        for k in range(fours, n):
            for j in range(fours, n):
                result[k] += gram[min(j, k), max(j, k)] * rho[j]


@compiled(fastmath=FAST)
def dense_apply_many(grams: Array, kernels: Array, columns: Array, out: Array) -> None:
    """Set ``out[p, c] = K_m columns[c]``, m = kernels[p]; columns (k, n), out (W, k, n) float64."""
    for p in range(kernels.size):
        m = kernels[p]
        for c in range(columns.shape[0]):
            dense_apply_each(grams[m : m + 1], columns[c], out[p, c : c + 1])


@compiled(fastmath=FAST)
def add_columns(columns: Array, places: Array, v: Array, out: Array, first: int = 0) -> None:
    """Add ``sum_k v_k columns[places_k]``, from entry ``first`` on, to ``out``, which stays in a cache, tile by tile.

    Four at a time: ``out`` is read and written once for them.
    """
    fours = places.size - places.size % 4
    for start in range(0, out.size, TILE):
        target, left, right = out[start : start + TILE], first + start, first + start + TILE
        for k in range(0, fours, 4):
            a, b = columns[places[k], left:right], columns[places[k + 1], left:right]
            c, d = columns[places[k + 2], left:right], columns[places[k + 3], left:right]
            of_a, of_b, of_c, of_d = v[k], v[k + 1], v[k + 2], v[k + 3]
            for i in range(target.size):
                target[i] += (of_a * a[i] + of_b * b[i]) + (of_c * c[i] + of_d * d[i])
        for k in range(fours, places.size):
            row, size = columns[places[k], left:right], v[k]
            for i in range(target.size):
                target[i] += size * row[i]


@compiled(fastmath=FAST)
def column_products(columns: Array, places: Array, rho: Array, out: Array) -> None:
    """Set ``out[k]`` to the product of ``columns[places_k]`` with ``rho`` (N,), tile by tile, four at a time.

    Where both are in single precision, so are sums over tiles.
    """
    zero = columns.dtype.type(0)
    out[:] = 0.0
    fours = places.size - places.size % 4
    for start in range(0, rho.size, TILE):
        part = rho[start : start + TILE]
        for k in range(0, fours, 4):
            a, b = columns[places[k], start : start + TILE], columns[places[k + 1], start : start + TILE]
            c, d = columns[places[k + 2], start : start + TILE], columns[places[k + 3], start : start + TILE]
            of_a, of_b, of_c, of_d = zero, zero, zero, zero
            for i in range(part.size):
                own = part[i]
                of_a += a[i] * own
                of_b += b[i] * own
                of_c += c[i] * own
                of_d += d[i] * own
            out[k] += of_a
            out[k + 1] += of_b
            out[k + 2] += of_c
            out[k + 3] += of_d
        for k in range(fours, places.size):
            row, total = columns[places[k], start : start + TILE], zero
            for i in range(part.size):
                total += row[i] * part[i]
            out[k] += total


@compiled(fastmath=FAST)
def largest_squares(columns: Array, starts: Array, out: Array) -> None:
    """Set ``out[m]`` to the largest sum over rows of the squares of ``columns[starts[m]:starts[m + 1]]``."""
    sums = np.empty(GROUP_TILE)
    for m in range(out.size):
        out[m] = 0.0
        for first in range(0, columns.shape[1], GROUP_TILE):
            size = min(GROUP_TILE, columns.shape[1] - first)
            sums[:size] = 0.0
            for k in range(starts[m], starts[m + 1]):
                part = columns[k, first : first + size]
                for i in range(size):
                    sums[i] += part[i] * part[i]
            for i in range(size):
                if not sums[i] <= out[m]:  # what is no number stays
                    out[m] = sums[i]


@compiled(fastmath=FAST)
def add_norms(columns: Array, firsts: Array, ranks: Array, sizes: Array, out: Array) -> None:
    """Add ``sizes[m]`` times the root of the sum over rows of squares of the columns of every group to ``out`` (N,)."""
    sums = np.empty(GROUP_TILE)
    for start in range(0, out.size, GROUP_TILE):
        target = out[start : start + GROUP_TILE]
        for m in range(firsts.size):
            sums[: target.size] = 0.0
            for k in range(firsts[m], firsts[m] + ranks[m]):
                part = columns[k, start : start + GROUP_TILE]
                for i in range(target.size):
                    sums[i] += part[i] * part[i]
            for i in range(target.size):
                target[i] += sizes[m] * np.sqrt(sums[i])


@compiled(fastmath=FAST)
def block_grams(rows: Array, firsts: Array, weights: Array, out: Array, sums: Array) -> None:
    """Set ``out`` (g, r, r) to ``Z' W Z`` and ``sums`` (g, r) to ``Z' W 1`` of groups of r factors, tile by tile.

    Those of a group are rows, here, from the first on.
    """
    tile, rank = np.empty(GROUP_TILE), sums.shape[1]
    out[:] = 0.0
    sums[:] = 0.0
    for m in range(firsts.size):
        gram, first = out[m], firsts[m]
        for start in range(0, weights.size, GROUP_TILE):
            own = weights[start : start + GROUP_TILE]
            for j in range(rank):
                right, total = rows[first + j, start : start + GROUP_TILE], 0.0
                for i in range(own.size):
                    tile[i] = own[i] * right[i]
                    total += tile[i]
                sums[m, j] += total
                for k in range(j + 1):
                    left, total = rows[first + k, start : start + GROUP_TILE], 0.0
                    for i in range(own.size):
                        total += left[i] * tile[i]
                    gram[k, j] += total
        for j in range(rank):
            for k in range(j):
                gram[j, k] = gram[k, j]


@compiled(fastmath=FAST)
def add_spread(table: Array, codes: Array, start: int, stop: int, out: Array) -> None:
    """Add ``table[codes[i], codes[j]]`` to the upper triangle of ``out`` (n, n), in rows start..stop-1.

    Codes (n,) are unsigned, which spares a look at the sign of every.
    """
    for i in range(start, stop):
        row, target, own = table[codes[i]], out[i, i:], codes[i:]
        for j in range(target.size):
            target[j] += row[own[j]]


@compiled()
def copy_block(source: Array, rows: Array, places: Array, out: Array) -> None:
    """Set ``out[places_i, places_j] = source[rows_i, rows_j]``."""
    for i in range(rows.size):
        row, target = source[rows[i]], out[places[i]]
        for j in range(rows.size):
            target[places[j]] = row[rows[j]]
