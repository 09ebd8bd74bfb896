"""Quadratic forms of many vectors among rounded rows: for questions that chance answers, which need no twelve digits.

What noise reaches is asked of tens of targets in random order. Functions that are linear between knots, an eighth of a
width apart, have kernels, too, and a test by permutations is exact with any kernel, as long as the target and the
permutations are asked by the same. A row then is shared between two knots in place of eight moments, all vectors of a
row are read and added side by side, and the transforms are of a sequence per vector: short ones, since wide kernels
need no more than distant knots. Sums are in single precision, and some thousand rows of all vectors are read for many
columns while they are in a cache.

Of a Gaussian of width ``s`` and knots ``h`` apart, a wave of frequency ``w`` is missed by ``(h w)^2 / 8`` at most: in
all some thousandths of a quadratic form at the narrowest kernel, and less for the rest. (To the nearest knot alone it
would take half of the additions, and miss percents: sums with a slope would be those of rounded rows.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, islice
from operator import attrgetter

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
DIGITS = 12  # of widths beside the narrowest: those of other columns in other units differ by rounding
# Steps of a fast transform, beside a product with one wave (0.29 and 0.034 ns a vector: 1,024 bins, 740 knots).
WAVE_STEPS = 8.0


def rounded_quads(table: ColumnTable, columns: Array, widths: Array, rhos: Array) -> tuple[Array, Array]:
    """Return ``r' K_m r`` of vectors (N, T) for Gaussians of single columns among rounded rows, (M, T).

    Also returns the mask of the kernels, (M,) bool: without columns of more knots than rows, for far outliers.

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
    read = [KnottedColumn.of(table, int(columns[own[0]]), own, widths[own]) for own in parts]
    for column in read:
        known[column.kernels] = column.knots <= table.n_rows
    read = sorted((column for column in read if column.knots <= table.n_rows), key=attrgetter("alike"))
    for start in range(0, len(read), COLUMNS_AT_ONCE):
        together = read[start : start + COLUMNS_AT_ONCE]
        sums, alike = _sums(table, together, padded), iter(together)
        for those in sums:
            _set_quads(list(islice(alike, len(those))), those, out)
    out *= units
    out *= units  # one after the other: squares of small ones are none
    return out, known


@dataclass(frozen=True, eq=False)
class KnottedColumn:
    """Knots on a column, with the kernels by width."""

    column: int
    kernels: Array  # (W,) int
    origin: float  # the first knot, and the inverse of the distance of two, in the unit of the column
    inverse: float
    knots: int
    widths: tuple[float, ...]  # (W,) in distances of knots

    @classmethod
    def of(cls, table: ColumnTable, column: int, kernels: Array, widths: Array) -> KnottedColumn:
        """Return knots with a spacing for the narrowest kernel."""
        extent, spacing, unit = float(table.high[column] - table.low[column]), widths[0] / KNOTS_PER_WIDTH, table.unit
        origin = float(table.low[column] * unit[column] + table.center[column])
        inverse, own = float(1.0 / (spacing * unit[column])), KNOTS_PER_WIDTH * np.round(widths / widths[0], DIGITS)
        return cls(column, kernels, origin, inverse, _rounded_up(int(extent / spacing) + 2), tuple(own.tolist()))

    @property
    def alike(self) -> tuple[tuple[float, ...], int]:
        """The key of columns for joint transforms."""
        return self.widths, self.knots


def _rounded_up(knots: int) -> int:
    """Return a slightly larger even number of knots, common to many columns."""
    step = 2 ** max(1, knots.bit_length() - 5)
    return -(-knots // step) * step


def _sums(table: ColumnTable, columns: Sequence[KnottedColumn], rhos: Array) -> list[Array]:
    """Return the sums of vectors (N, T) at the knots of columns, (columns, knots, T), for groups of equal columns."""
    numbers = [len(list(alike)) for _, alike in groupby(columns, key=attrgetter("alike"))]
    firsts = np.cumsum([0, *numbers[:-1]])
    together = [
        np.zeros((number, columns[first].knots, rhos.shape[1]), dtype=np.float32)
        for number, first in zip(numbers, firsts, strict=True)
    ]
    found = [own for sums in together for own in sums]
    for start in range(0, len(rhos), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        for column, sums in zip(columns, found, strict=True):
            add_shares(table.column(column.column)[rows], column.origin, column.inverse, rhos[rows], sums)
    return together


def _set_quads(columns: Sequence[KnottedColumn], sums: Array, out: Array) -> None:
    """Set the quadratic forms of columns alike in ``out`` (M, T) from their sums at knots (columns, knots, T)."""
    kernels, widths = np.array([column.kernels for column in columns]), np.array(columns[0].widths)
    last = np.log(max(columns[0].knots / FEWEST_KNOTS, 1.0))
    level = (np.minimum(np.log(widths / widths[0]), last) / np.log(TOGETHER) + 1e-9).astype(np.int64)
    for each in range(int(level[-1]) + 1):
        if each:
            sums, widths = _coarser(sums), widths / TOGETHER
        chosen = level == each
        if chosen.any():
            out[kernels[:, chosen]] = _quads(sums, tuple(widths[chosen].tolist()))[:, :, : out.shape[1]]


def _coarser(sums: Array) -> Array:
    """Return sums at every fourth knot, with the rest distributed to neighbors."""
    columns, knots, vectors = sums.shape
    kept = (knots + TOGETHER - 2) // TOGETHER + 1  # nothing lies behind the last one
    padded = np.zeros((columns, kept * TOGETHER, vectors), dtype=np.float32)
    padded[:, :knots] = sums
    out = np.zeros((columns, kept + kept % 2, vectors), dtype=np.float32)
    out[:, :kept] = padded[:, ::TOGETHER]
    for step in range(1, TOGETHER):
        between, share = padded[:, step::TOGETHER], np.float32(step / TOGETHER)
        out[:, :kept] += (1 - share) * between
        out[:, 1:kept] += share * between[:, :-1]
    return out


def _quads(sums: Array, widths: tuple[float, ...]) -> Array:
    """Return the quadratic forms of all widths, (columns, W, T), from sums at knots (columns, knots, T)."""
    knots = sums.shape[1]
    wanted = knots + reach(ACCURACY) * max(widths)
    bins = _fast_length(wanted)
    if knots * _frequencies(wanted, min(widths)) < WAVE_STEPS * bins * np.log2(bins):
        half, mirrored = sums[:, : knots // 2], sums[:, : knots // 2 - 1 : -1]
        cosines, sines = _waves(knots, wanted, min(widths))
        power = (cosines @ (half + mirrored)) ** 2 + (sines @ (half - mirrored)) ** 2
        return np.asarray(_coefficients(wanted, widths) @ power)
    coefficients = _coefficients(float(bins), widths)
    spectra = (rfft(own, n=bins, axis=0)[: coefficients.shape[1]] for own in sums)
    return np.array([coefficients @ (own.real**2 + own.imag**2) for own in spectra])


def _fast_length(wanted: float) -> int:
    """Return a length with fast transforms, a power of two times a small factor."""
    step = max(1, int(2 ** np.floor(np.log2(wanted)) / BIN_STEPS))
    return int(next_fast_len(int(np.ceil(wanted / step)) * step, real=True))


def _frequencies(period: float, narrowest: float) -> int:
    """Return the largest number of waves per period of the narrowest Gaussian."""
    return int(np.ceil(reach(ACCURACY) * period / (2 * np.pi * narrowest)))


@lru_cache(maxsize=8)  # of up to a megabyte or two each
def _waves(knots: int, period: float, narrowest: float) -> tuple[Array, Array]:
    """Return cosines and sines at the first half of knots, centered, (K + 1, knots / 2) each."""
    away = np.arange(knots // 2) - 0.5 * (knots - 1)
    angles = np.outer(np.arange(_frequencies(period, narrowest) + 1), 2 * np.pi / period * away)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


@lru_cache(maxsize=256)
def _coefficients(period: float, widths: tuple[float, ...]) -> Array:
    """Return the Fourier coefficients of Gaussians on a period of so many knots, (W, K + 1), doubled for k > 0."""
    omega = 2 * np.pi / period * np.arange(_frequencies(period, min(widths)) + 1)
    coefficients = gaussian_coefficients(omega, np.array(widths), period)
    coefficients[1:] *= 2.0
    return np.ascontiguousarray(coefficients.T, dtype=np.float32)
