"""Compiled loops over the rows of one column: binned moments, and piecewise polynomials, which are their transpose.

A row ``x`` lies in bin ``j`` at ``position = j + delta`` with ``|delta| <= 1/2``, position = (x - origin) * inverse.
Moments ``sum_i rho_i delta_i^p`` of every bin for ``p < ORDER`` are all that any smooth function of the column needs
of ``rho``; eight of them fill one cache line.
"""

import numpy as np

from manykernels.compiled import compiled
from manykernels.grams.loops import FAST
from manykernels.validation.arrays import Array

ORDER = 8
ROWS_AT_ONCE = 256


@compiled(fastmath=FAST)
def add_moments(x: Array, origin: float, inverse: float, rho: Array, out: Array) -> None:
    """Add ``rho_i delta_i^p`` to ``out[bin_i, p]``; out (bins, 8), rows outside the bins are left out.

    Places of a few hundred rows are found before their sums are added to: one loop of both takes a quarter more time.
    """
    last = out.shape[0] - 1
    places, deltas = np.empty(ROWS_AT_ONCE, dtype=np.int32), np.empty(ROWS_AT_ONCE)
    for start in range(0, x.size, ROWS_AT_ONCE):
        count = min(ROWS_AT_ONCE, x.size - start)
        for i in range(count):
            position = (x[start + i] - origin) * inverse
            j = np.int32(min(max(position + 0.5, 0.0), last + 0.5))
            outside = position < -0.5 or position > last + 0.5
            places[i], deltas[i] = -1 if outside else min(j, last), position - j
        for i in range(count):
            if places[i] < 0:
                continue
            row, v, delta = out[places[i]], rho[start + i], deltas[i]
            square = delta * delta
            w, fourth = v * delta, square * square
            v2, w2 = v * square, w * square
            row[0] += v
            row[1] += w
            row[2] += v2
            row[3] += w2
            row[4] += v * fourth
            row[5] += w * fourth
            row[6] += v2 * fourth
            row[7] += w2 * fourth


@compiled(fastmath=FAST)
def add_values(x: Array, origin: float, inverse: float, table: Array, out: Array) -> None:
    """Add ``sum_p table[bin_i, p] delta_i^p`` to ``out[i]``; zero outside the bins."""
    last = table.shape[0] - 1
    for i in range(x.size):
        position = (x[i] - origin) * inverse
        if position < -0.5 or position > last + 0.5:
            continue
        j = min(int(position + 0.5), last)
        t = position - j
        row = table[j]
        s = t * t
        low = (row[0] + row[1] * t) + (row[2] + row[3] * t) * s
        high = (row[4] + row[5] * t) + (row[6] + row[7] * t) * s
        out[i] += low + high * (s * s)


@compiled(fastmath=FAST)
def table_rows(x: Array, origin: float, inverse: float, table: Array, out: Array) -> None:
    """Set ``out[i] = sum_p table[bin_i, p] delta_i^p`` for a table (bins, 8, r); out (n, r)."""
    last = table.shape[0] - 1
    for i in range(x.size):
        position = (x[i] - origin) * inverse
        target = out[i]
        target[:] = 0.0
        if position < -0.5 or position > last + 0.5:
            continue
        j = min(int(position + 0.5), last)
        delta = position - j
        power = 1.0
        for p in range(ORDER):
            row = table[j, p]
            for k in range(row.size):
                target[k] += power * row[k]
            power *= delta


@compiled(fastmath=FAST)
def bin_codes(x: Array, origin: float, inverse: float, parts: int, bins: int, out: Array) -> None:
    """Set ``out[i]`` to the bin of every row where every bin is divided into parts; the number of parts outside."""
    for i in range(x.size):
        position = (x[i] - origin) * inverse + 0.5
        inside = position >= 0.0 and position <= bins
        out[i] = min(int(position * parts), bins * parts - 1) if inside else bins * parts


@compiled()
def matern_recursion(t: Array, rho: Array, states: int, out: Array) -> None:
    """Set ``out_i = sum_{j <= i} q(t_i - t_j) exp(-(t_i - t_j)) rho_j`` for sorted ``t``; the Matern kernels' half.

    ``q`` is 1, ``1 + r`` or ``1 + r + r^2 / 3`` for 1, 2 or 3 states: sums of ``r^p exp(-r) rho`` move from row to row
    by the binomial theorem.
    """
    s0 = 0.0
    s1 = 0.0
    s2 = 0.0
    for i in range(t.size):
        if i > 0:
            gap = t[i] - t[i - 1]
            decay = np.exp(-gap)
            s2 = decay * (s2 + gap * (2.0 * s1 + gap * s0))
            s1 = decay * (s1 + gap * s0)
            s0 = decay * s0
        s0 += rho[i]
        out[i] = s0
        if states > 1:
            out[i] += s1
        if states > 2:
            out[i] += s2 / 3.0
