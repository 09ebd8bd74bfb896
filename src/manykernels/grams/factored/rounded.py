"""Quadratic forms of many vectors among rounded rows: for questions that chance answers, which need no twelve digits.

What noise reaches is asked of tens of targets in random order. Functions that are linear between knots, an eighth of
a width apart, have kernels, too, and a test by permutations is exact with any kernel, as long as the target and its
permutations are asked by the same. A row then is shared between two knots in place of eight moments, all vectors of a
row are read and added side by side, and the transforms are of one sequence a vector: short ones, since wide kernels
need no more than distant knots.

Of a Gaussian of width ``s`` and knots ``h`` apart, a wave of frequency ``w`` is missed by ``(h w)^2 / 8`` at most: in
all some thousandths of a quadratic form at the narrowest kernel, and less for the others.
"""

from functools import lru_cache

import numpy as np
from scipy.fft import next_fast_len, rfft

from manykernels.grams.factored.fourier_factor import BIN_STEPS, gaussian_coefficients, reach
from manykernels.grams.factored.loops import add_shares
from manykernels.grams.rows.columns import ColumnTable
from manykernels.validation.arrays import Array

LEAST_ROWS = 1000  # below which permutations are told apart by few numbers, and exact ones cost little
KNOTS_PER_WIDTH = 8
TOGETHER = 4  # widths up to so many times the narrowest share knots; those of the next are so much farther apart
FEWEST_KNOTS = 128  # of a column: of kernels wider than it, differences within it are all that matters
ACCURACY = 1e-6  # of the expansion of a value


def rounded_quads(table: ColumnTable, columns: Array, widths: Array, rhos: Array) -> tuple[Array, Array]:
    """Return ``r' K_m r`` of vectors (N, T) for Gaussians of single columns among rounded rows, (M, T).

    Beside it which kernels these are of, (M,) bool: not of those whose column has more knots than rows, of which one
    is far away.

    Examples
    --------
    >>> table = ColumnTable(np.asfortranarray(np.linspace(0.0, 1.0, 50)[:, None]))
    >>> found, known = rounded_quads(table, np.array([0]), np.array([0.5]), np.ones((50, 1)))
    >>> exact = np.exp(-2.0 * np.subtract.outer(*2 * (table.column(0),)) ** 2).sum()
    >>> bool(known[0] and abs(found[0, 0] / exact - 1) < 1e-2)
    True
    """
    # Vectors of a row side by side: otherwise five times slower. Rounding comes before the order, and is not noticed.
    rhos = np.ascontiguousarray(rhos, dtype=np.float32)
    out, known = np.zeros((len(columns), rhos.shape[1])), np.ones(len(columns), dtype=bool)
    order = np.lexsort((widths, columns))
    heads = np.flatnonzero(np.diff(columns[order], prepend=-1))
    for own in np.split(order, heads[1:]) if len(order) else ():
        column, sizes = int(columns[own[0]]), widths[own]
        extent, spacing = float(table.high[column] - table.low[column]), float(sizes[0]) / KNOTS_PER_WIDTH
        if extent > spacing * table.n_rows:
            known[own] = False
            continue
        sums, unit = np.zeros((int(extent / spacing) + 2, rhos.shape[1])), float(table.unit[column])
        origin = float(table.low[column] * unit + table.center[column])
        add_shares(table.column(column), origin, 1.0 / (spacing * unit), rhos, sums)
        last = np.log(max(extent / (spacing * FEWEST_KNOTS), 1.0))
        level = (np.minimum(np.log(sizes / sizes[0]), last) / np.log(TOGETHER) + 1e-9).astype(np.int64)
        for each in range(int(level[-1]) + 1):
            if each:
                sums, spacing = _coarser(sums), spacing * TOGETHER
            part = own[level == each]
            if len(part):
                out[part] = _quads(sums, spacing, tuple(widths[part].tolist()))
    return out, known


def _coarser(sums: Array) -> Array:
    """Return sums at knots of which only every fourth is left, (knots, T): those between go to their neighbors."""
    padded = np.pad(sums, ((0, TOGETHER - (len(sums) - 1) % TOGETHER), (0, 0)))
    out = np.array(padded[::TOGETHER])
    for step in range(1, TOGETHER):
        between, share = padded[step::TOGETHER], step / TOGETHER
        out[:-1] += (1.0 - share) * between
        out[1:] += share * between
    return out


def _quads(sums: Array, spacing: float, widths: tuple[float, ...]) -> Array:
    """Return the quadratic forms of all widths, (W, T), from sums at knots (knots, T)."""
    wanted = len(sums) + reach(ACCURACY) * max(widths) / spacing
    step = max(1, int(2 ** np.floor(np.log2(wanted)) / BIN_STEPS))
    bins = int(next_fast_len(int(np.ceil(wanted / step)) * step, real=True))
    coefficients = _coefficients(spacing, bins, widths)
    spectrum = rfft(sums, n=bins, axis=0)[: coefficients.shape[1]]
    return np.asarray(coefficients @ (spectrum.real**2 + spectrum.imag**2))


@lru_cache(maxsize=256)
def _coefficients(spacing: float, bins: int, widths: tuple[float, ...]) -> Array:
    """Return the Fourier coefficients of Gaussians on a period of so many knots, (W, K + 1), doubled for k > 0."""
    period = spacing * bins
    last = min(int(np.ceil(reach(ACCURACY) * period / (2 * np.pi * min(widths)))), bins // 2)
    omega = 2 * np.pi / period * np.arange(last + 1)
    coefficients = gaussian_coefficients(omega, np.array(widths), period)
    coefficients[1:] *= 2.0
    return np.ascontiguousarray(coefficients.T)
