"""Quadratic forms of many vectors among rounded rows: for questions that chance answers, which need no twelve digits.

What noise reaches is asked of tens of targets in random order. Functions that are linear between knots, an eighth of
a width apart, have kernels, too, and a test by permutations is exact with any kernel, as long as the target and its
permutations are asked by the same. A row then is shared between two knots in place of eight moments, all vectors of a
row are read and added side by side, and the transforms are of one sequence a vector: short ones, since wide kernels
need no more than distant knots. Sums are in single precision, and some thousand rows of all vectors are read for many
columns while they are in a cache.

Of a Gaussian of width ``s`` and knots ``h`` apart, a wave of frequency ``w`` is missed by ``(h w)^2 / 8`` at most: in
all some thousandths of a quadratic form at the narrowest kernel, and less for the others. (To the nearest knot alone
it would take half of the additions, and miss percents: sums with a slope would be those of rounded rows.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.fft import next_fast_len, rfft

from manykernels.grams.factored.fourier_factor import BIN_STEPS, gaussian_coefficients, reach
from manykernels.grams.factored.loops import add_shares
from manykernels.grams.precision import in_precision
from manykernels.grams.rows.columns import ColumnTable
from manykernels.validation.arrays import Array

LEAST_ROWS = 1000  # below which permutations are told apart by few numbers, and exact ones cost little
KNOTS_PER_WIDTH = 8
TOGETHER = 4  # widths up to so many times the narrowest share knots; those of the next are so much farther apart
FEWEST_KNOTS = 128  # of a column: of kernels wider than it, differences within it are all that matters
COLUMNS_AT_ONCE = 64  # whose sums are held at once
ROWS_AT_ONCE = 8192  # of all vectors, which stay in a second-level cache while these columns are read
LANES = 8  # numbers of single precision that processors add at once
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
    # Columns of zeros beside them take less time than a rest that is added one by one.
    n_vectors, (rounded, units) = rhos.shape[1], in_precision(rhos, np.float32)
    padded = np.zeros((len(rhos), -(-n_vectors // LANES) * LANES), dtype=np.float32)
    padded[:, :n_vectors] = rounded
    out, known = np.zeros((len(columns), n_vectors)), np.ones(len(columns), dtype=bool)
    order = np.lexsort((widths, columns))
    heads = np.flatnonzero(np.diff(columns[order], prepend=-1))
    parts = np.split(order, heads[1:]) if len(order) else []
    for start in range(0, len(parts), COLUMNS_AT_ONCE):
        read = [
            KnottedColumn.of(table, int(columns[own[0]]), own, widths[own]) for own in parts[start:][:COLUMNS_AT_ONCE]
        ]
        for column in read:
            known[column.kernels] = column.knots <= table.n_rows
        read = [column for column in read if column.knots <= table.n_rows]
        for column, sums in zip(read, _sums(table, read, padded), strict=True):
            column.quads(sums[:, :n_vectors], out)
    out *= units
    out *= units  # one after the other: squares of small ones are none
    return out, known


@dataclass(frozen=True, eq=False)
class KnottedColumn:
    """Knots on a column, and the kernels that read it, by width."""

    column: int
    kernels: Array  # (W,) int
    widths: Array  # (W,)
    origin: float  # the first knot, and the inverse of the distance of two, in the unit of the column
    inverse: float
    spacing: float  # that distance in units of widths
    knots: int

    @classmethod
    def of(cls, table: ColumnTable, column: int, kernels: Array, widths: Array) -> KnottedColumn:
        """Return knots that are close for the narrowest of these kernels."""
        extent, spacing, unit = float(table.high[column] - table.low[column]), widths[0] / KNOTS_PER_WIDTH, table.unit
        origin = float(table.low[column] * unit[column] + table.center[column])
        inverse = float(1.0 / (spacing * unit[column]))
        return cls(column, kernels, widths, origin, inverse, float(spacing), int(extent / spacing) + 2)

    def quads(self, sums: Array, out: Array) -> None:
        """Set the quadratic forms of these kernels in ``out`` (M, T) from sums at knots (knots, T)."""
        last = np.log(max(self.knots / FEWEST_KNOTS, 1.0))
        level = (np.minimum(np.log(self.widths / self.widths[0]), last) / np.log(TOGETHER) + 1e-9).astype(np.int64)
        spacing = self.spacing
        for each in range(int(level[-1]) + 1):
            if each:
                sums, spacing = _coarser(sums), spacing * TOGETHER
            chosen = level == each
            if chosen.any():
                out[self.kernels[chosen]] = _quads(sums, spacing, tuple(self.widths[chosen].tolist()))


def _sums(table: ColumnTable, columns: Sequence[KnottedColumn], rhos: Array) -> list[Array]:
    """Return the sums of vectors (N, T) at the knots of some columns, (knots, T) each."""
    found = [np.zeros((column.knots, rhos.shape[1]), dtype=np.float32) for column in columns]
    for start in range(0, len(rhos), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        for column, sums in zip(columns, found, strict=True):
            add_shares(table.column(column.column)[rows], column.origin, column.inverse, rhos[rows], sums)
    return found


def _coarser(sums: Array) -> Array:
    """Return sums at knots of which only every fourth is left, (knots, T): those between go to their neighbors."""
    padded = np.zeros((len(sums) + TOGETHER - (len(sums) - 1) % TOGETHER, sums.shape[1]), dtype=np.float32)
    padded[: len(sums)] = sums
    out = np.array(padded[::TOGETHER])
    for step in range(1, TOGETHER):
        between, share = padded[step::TOGETHER], np.float32(step / TOGETHER)
        out[:-1] += (1 - share) * between
        out[1:] += share * between
    return out


def _quads(sums: Array, spacing: float, widths: tuple[float, ...]) -> Array:
    """Return the quadratic forms of all widths, (W, T), from sums at knots (knots, T)."""
    wanted = len(sums) + reach(ACCURACY) * max(widths) / spacing
    step = max(1, int(2 ** np.floor(np.log2(wanted)) / BIN_STEPS))
    bins = int(next_fast_len(int(np.ceil(wanted / step)) * step, real=True))
    coefficients = _coefficients(spacing, bins, widths)
    spectrum = rfft(sums, n=bins, axis=0)[: coefficients.shape[1]]
    return np.asarray(coefficients @ (spectrum.real**2 + spectrum.imag**2).astype(np.float64))


@lru_cache(maxsize=256)
def _coefficients(spacing: float, bins: int, widths: tuple[float, ...]) -> Array:
    """Return the Fourier coefficients of Gaussians on a period of so many knots, (W, K + 1), doubled for k > 0."""
    period = spacing * bins
    last = min(int(np.ceil(reach(ACCURACY) * period / (2 * np.pi * min(widths)))), bins // 2)
    omega = 2 * np.pi / period * np.arange(last + 1)
    coefficients = gaussian_coefficients(omega, np.array(widths), period)
    coefficients[1:] *= 2.0
    return np.ascontiguousarray(coefficients.T)
