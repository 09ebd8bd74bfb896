"""How one column's Gaussians are expanded: period, frequencies, bins, coefficients, and what that misses at most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import factorial

import numpy as np
from scipy.fft import next_fast_len, rfft
from scipy.special import erfc

from manykernels.exceptions import InvalidInputError
from manykernels.grams.factored.loops import ORDER
from manykernels.grams.plan import TRANSFORM_BYTES
from manykernels.validation.arrays import Array

ROUNDING = 2e-15  # of sums and of the transform, beside ||rho||_1^2
MAX_BINS = 2**22
BATCH_ENTRIES = TRANSFORM_BYTES // (4 * 8)  # of a transform of moments held at once: 2 MB of the four that there are
ROWS_PER_BIN = 14  # that are read in the time that a bin of a transform takes
# Nanoseconds, about: a wave at a row, its product with a vector, the moments of a row, the transform of a bin.
WAVE_COST, WAVE_PRODUCT, ROW_COST, BIN_COST = 3.0, 0.06, 5.0, 25.0
BIN_STEPS = 32  # periods are rounded up by at most 1/32, so that columns of nearly the same range share coefficients


@dataclass(frozen=True, eq=False)
class FourierPlan:
    """Frequencies and coefficients of some Gaussian widths on one period, with error constants."""

    spacing: float  # width h of a bin
    period_bins: int  # bins of the period T
    twiddles: Array  # (K + 1, 8) complex: (-i omega_k h)^p / p!
    coefficients: Array  # (K + 1, W): c_k, doubled for k > 0
    errors: Array  # (W,): bound on |quad - rho' K rho| / ||rho||_1^2 of every width

    def transform(self, moments: Array) -> Array:
        """Return ``sum_i rho_i exp(-i omega_k (x_i - origin))``, (..., K + 1), from moments (..., bins, 8)."""
        spectra = rfft(moments, n=self.period_bins, axis=-2)[..., : len(self.twiddles), :]
        return np.einsum("...kp,kp->...k", spectra, self.twiddles)

    def quads(self, moments: Array) -> Array:
        """Return ``rho' K rho`` of every width, (..., W), from moments (..., bins, 8)."""
        spectrum = self.transform(moments)
        return (spectrum.real**2 + spectrum.imag**2) @ self.coefficients

    def quads_at(self, position: Array, rhos: Array) -> Array:
        """Return ``rho' K_m rho`` of every vector (T, n) and width, (T, W), at positions (n,) in bins: without bins."""
        turn = np.exp(-2j * np.pi / self.period_bins * position)
        waves = np.empty((len(position), len(self.coefficients)), dtype=complex)
        waves[:, 0], known = 1.0, 1
        while known < waves.shape[1]:  # powers of what is known already, twice as many each time
            more = min(known, waves.shape[1] - known)
            next_power = (waves[:, known - 1] * turn)[:, None]
            np.multiply(waves[:, :more], next_power, out=waves[:, known : known + more])
            known += more
        spectrum = rhos @ waves.view(np.float64)
        np.square(spectrum, out=spectrum)
        return (spectrum[:, ::2] + spectrum[:, 1::2]) @ self.coefficients

    def directly(self, n_rows: int, n_vectors: int) -> bool:
        """Whether waves at every row cost less than moments of bins and their transforms."""
        waves = n_rows * len(self.coefficients) * (WAVE_COST + n_vectors * WAVE_PRODUCT)
        return waves < n_vectors * (n_rows * ROW_COST + self.period_bins * BIN_COST)


def reach(tol: float) -> float:
    """Return how many widths away a Gaussian falls below ``tol``."""
    return float(np.sqrt(2.0 * np.log(1.0 / tol)))


def bin_ratio(tol: float) -> float:
    """Return the bin width, in kernel widths, at which moments of order 8 leave an error of at most ``tol``."""
    double_factorial = 384.0  # 8!!: E (omega h / 2)^8 / 8! = (h / 2)^8 / 8!! for a standard normal frequency
    moments = 2.0 * float((tol * double_factorial / 2.0) ** (1.0 / ORDER))
    return min(moments, np.pi / reach(tol))  # the transform stops at half the frequency of the bins


def plan_bins(extent: float, widths: tuple[float, ...], tol: float) -> tuple[float, int]:
    """Return the bin width and the number of bins of the period for data within ``extent``."""
    spacing, bins = periods(np.array([extent]), widths, tol)
    return spacing, int(bins[0])


def periods(extents: Array, widths: tuple[float, ...], tol: float) -> tuple[float, Array]:
    """Return the bin width and the numbers of bins (c,) of the periods for columns within these extents."""
    spacing = bin_ratio(tol) * min(widths)
    wanted = (extents + reach(tol) * max(widths)) / spacing + 2
    if wanted.max() > MAX_BINS:
        raise InvalidInputError(
            f"A column that spans {extents.max():.3g} needs {wanted.max():.3g} bins for kernels of width "
            f"{min(widths):.3g} to {max(widths):.3g}; at most {MAX_BINS} are allowed. Clip its outliers, rank it, or "
            "drop the narrow widths."
        )
    step = np.maximum(1, (2 ** np.floor(np.log2(wanted)) / BIN_STEPS).astype(np.int64))
    rounded, place = np.unique((np.ceil(wanted / step) * step).astype(np.int64), return_inverse=True)
    return spacing, np.array([next_fast_len(int(bins), real=True) for bins in rounded])[place]


def divided(extent: float, widths: tuple[float, ...], tol: float, n_rows: int) -> list[tuple[float, ...]]:
    """Return increasing widths in one part, or in two whose transforms are shorter: few rows are read twice for less.

    The period is long because of the wide ones, and the bins are narrow because of the narrow ones.
    """

    def bins(part: tuple[float, ...]) -> float:
        return (extent + reach(tol) * max(part)) / (bin_ratio(tol) * min(part))

    cuts = range(1, len(widths))
    best = min(cuts, key=lambda cut: bins(widths[:cut]) + bins(widths[cut:]), default=0)
    if not best or n_rows > ROWS_PER_BIN * (bins(widths) - bins(widths[:best]) - bins(widths[best:])):
        return [widths]
    return [widths[:best], widths[best:]]


@dataclass(frozen=True, eq=False)
class PlannedColumns:
    """Columns whose kernels share a plan."""

    plan: FourierPlan
    columns: Array  # (c,) int
    members: Array  # (c, W) int: kernels of every column, by width
    bins: int  # enough for the data of every column

    def batches(self) -> Iterator[PlannedColumns]:
        """Yield a few columns at a time, whose transforms stay in a cache."""
        size = max(1, BATCH_ENTRIES // (self.plan.period_bins * ORDER))
        for start in range(0, len(self.columns), size):
            part = slice(start, start + size)
            yield PlannedColumns(self.plan, self.columns[part], self.members[part], self.bins)

    def together(self, n_vectors: int) -> Iterator[slice]:
        """Yield which of so many vectors are transformed at once, so that those of all columns stay in a cache."""
        size = max(1, BATCH_ENTRIES // (len(self.columns) * self.plan.period_bins * ORDER))
        yield from (slice(start, min(start + size, n_vectors)) for start in range(0, n_vectors, size))


def laid_out(columns: Array, widths: Array, extents: Array, tol: float, n_rows: int) -> Iterator[PlannedColumns]:
    """Yield kernels as columns that share an expansion; ``extents`` are of all columns of the table."""
    order = np.lexsort((widths, columns))
    heads = np.flatnonzero(np.diff(columns[order], prepend=-1))
    sizes = np.diff(heads, append=len(order))
    for size in np.unique(sizes).tolist():
        own = order[heads[sizes == size][:, None] + np.arange(size)]
        for together, members in _of_equal_widths(widths, own):
            reached = extents[columns[members[:, 0]]]
            low = 0
            for part in divided(float(reached.max()), tuple(together.tolist()), tol, n_rows):
                yield from _of_one_kind(columns, members[:, low : low + len(part)], part, reached, tol)
                low += len(part)


def _of_equal_widths(widths: Array, members: Array) -> Iterator[tuple[Array, Array]]:
    """Yield different widths, and the members (c, W) that have them."""
    first = widths[members[0]]
    if all(np.all(widths[members[:, at]] == width) for at, width in enumerate(first)):
        yield first, members  # a grid of millions
        return
    kinds, kind = np.unique(widths[members], axis=0, return_inverse=True)
    for number, together in enumerate(kinds):
        yield together, members[kind.ravel() == number]


def _of_one_kind(
    columns: Array, members: Array, widths: tuple[float, ...], extents: Array, tol: float
) -> Iterator[PlannedColumns]:
    """Yield columns with the same widths by the length of their periods."""
    try:
        spacing, bins = periods(extents, widths, tol)
    except InvalidInputError as error:
        raise InvalidInputError(f"Column {columns[members[int(np.argmax(extents)), 0]]}: {error}") from error
    for period in np.unique(bins).tolist():
        chosen = bins == period
        held = int(np.floor(float(extents[chosen].max()) / spacing + 0.5)) + 1
        plan = fourier_plan(spacing, period, widths, tol)
        yield PlannedColumns(plan, columns[members[chosen, 0]], members[chosen], held)


@lru_cache(maxsize=256)
def fourier_plan(spacing: float, period_bins: int, widths: tuple[float, ...], tol: float) -> FourierPlan:
    """Return the expansion of these widths on a period that leaves room for the widest beyond the data."""
    period, sigma = spacing * period_bins, np.array(widths)
    extent = period - reach(tol) * sigma.max()
    n_frequencies = int(np.ceil(reach(tol) * period / (2 * np.pi * sigma.min())))
    n_frequencies = min(n_frequencies, period_bins // 2)
    omega = 2 * np.pi / period * np.arange(n_frequencies + 1)
    coefficients = gaussian_coefficients(omega, sigma, period)
    coefficients[1:] *= 2.0
    powers = np.array([1.0 / factorial(p) for p in range(ORDER)])
    twiddles = (-1j * omega * spacing)[:, None] ** np.arange(ORDER) * powers
    remainder = (omega * spacing / 2) ** ORDER / factorial(ORDER)
    taylor = (remainder * (2 + remainder)) @ coefficients
    errors = taylor + periodization_error(extent, period, sigma) + truncation_error(omega[-1], sigma, period) + ROUNDING
    return FourierPlan(spacing, period_bins, twiddles, coefficients, errors)


def gaussian_coefficients(omega: Array, widths: Array, period: float) -> Array:
    """Return ``c_k = (sqrt(2 pi) sigma / T) exp(-sigma^2 omega_k^2 / 2)``, (K + 1, W)."""
    with np.errstate(under="ignore"):
        return np.sqrt(2 * np.pi) / period * widths * np.exp(-0.5 * (omega[:, None] * widths) ** 2)


def periodization_error(extent: float, period: float, widths: Array) -> Array:
    """Return ``sum_{n >= 1} kappa(n T - R) + kappa(n T)``, the most that other periods add to a value, (W,)."""
    shifts = np.arange(1, 9)[:, None] * period
    with np.errstate(under="ignore"):
        sizes = np.exp(-0.5 * ((shifts - extent) / widths) ** 2) + np.exp(-0.5 * (shifts / widths) ** 2)
    return sizes.sum(axis=0) * (1 + 1e-10)


def truncation_error(last: float, widths: Array, period: float) -> Array:
    """Return a bound on ``2 sum_{k > K} c_k``: its first term and an integral, (W,)."""
    step = 2 * np.pi / period
    first = gaussian_coefficients(np.array([last + step]), widths, period)[0]
    return 2.0 * first + erfc((last + step) * widths / np.sqrt(2.0))
