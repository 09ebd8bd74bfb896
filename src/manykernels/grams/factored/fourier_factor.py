"""The factor of one Gaussian of one column: trigonometric functions, rotated to the leading directions of the data.

`FourierPlan` says how a single column's Gaussians are expanded: period, frequencies, bins, coefficients, and what that
misses at most.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from math import comb, factorial

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import erfc

from manykernels.exceptions import InvalidInputError
from manykernels.grams.factored.loops import ORDER, add_moments, add_values, bin_codes, table_rows
from manykernels.grams.factored.operators import FactorOperator
from manykernels.grams.plan import TRANSFORM_BYTES
from manykernels.grams.rows.columns import ColumnTable
from manykernels.validation.arrays import Array, read_only

ROUNDING = 2e-15  # of sums and of the transform, beside ||rho||_1^2
BATCH_ENTRIES = TRANSFORM_BYTES // (4 * 8)  # of a transform of moments held at once: 2 MB of the four that there are
NESTED = 5  # bins in one for wider kernels; an odd number, so that their edges are edges of these
# Nanoseconds, about: a wave at a row, its product with a vector, the moments of a row, the transform of a bin.
WAVE_COST, WAVE_PRODUCT, ROW_COST, BIN_COST = 3.0, 0.06, 5.0, 25.0


@dataclass(frozen=True, eq=False)
class FourierPlan:
    """Frequencies and coefficients of some Gaussian widths on a period, with error constants."""

    spacing: float  # width h of a bin
    period_bins: int  # bins of the period T
    twiddles: Array  # (K + 1, 8) complex: (-i omega_k h)^p / p!
    coefficients: Array  # (K + 1, W): c_k, doubled for k > 0
    errors: Array  # (W,): bound on |quad - rho' K rho| / ||rho||_1^2 of every width,
    left_out: Array  # (W,): of it, what the kernel itself differs by from a finite sum of waves,
    slips: Array  # (W,): and how far bins move a vector of Fourier sums, weighted, beside ||rho||_1

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
    """Return the bin width, in kernel widths, for an error of at most ``tol`` with moments of order 8."""
    double_factorial = 384.0  # 8!!: E (omega h / 2)^8 / 8! = (h / 2)^8 / 8!! for a standard normal frequency
    moments = 2.0 * float((tol * double_factorial / 2.0) ** (1.0 / ORDER))
    return min(moments, np.pi / reach(tol))  # the transform stops at half the frequency of the bins


def plan_bins(extent: float, widths: tuple[float, ...], tol: float) -> tuple[float, int]:
    """Return the bin width and the number of bins of the period for data within ``extent``."""
    spacing = bin_ratio(tol) * min(widths)
    return spacing, int(periods(np.array([extent]), widths, spacing, tol)[0])


def periods(extents: Array, widths: tuple[float, ...], spacing: float, tol: float) -> Array:
    """Return the numbers of bins (c,) of the periods for columns within the extents."""
    wanted = (extents + reach(tol) * max(widths)) / spacing + 2
    max_bins = 2**22
    if wanted.max() > max_bins:
        raise InvalidInputError(
            f"A column that spans {extents.max():.3g} needs {wanted.max():.3g} bins for kernels of width "
            f"{min(widths):.3g} to {max(widths):.3g}; at most {max_bins} are allowed. Clip its outliers, rank it, or "
            "drop the narrow widths."
        )
    # periods are rounded up by at most 1/32, so that columns of nearly the same range share coefficients
    bin_steps = 32
    step = np.maximum(1, (2 ** np.floor(np.log2(wanted)) / bin_steps).astype(np.int64))
    rounded, place = np.unique((np.ceil(wanted / step) * step).astype(np.int64), return_inverse=True)
    return np.array([next_fast_len(int(bins), real=True) for bins in rounded])[place]


def nested(widths: tuple[float, ...]) -> list[tuple[slice, int]]:
    """Return parts of increasing widths, with the ratio of bins to the narrowest bins.

    Wide kernels need long periods, and narrow kernels need narrow bins: together the transforms would be long. Bins of
    a part are `NESTED` bins of the previous part, with merged moments.
    """
    level = np.floor(np.log(np.array(widths) / widths[0]) / np.log(NESTED) + 1e-9).astype(np.int64)
    starts = [*np.flatnonzero(np.diff(level, prepend=-1)).tolist(), len(widths)]
    return [(slice(low, high), NESTED ** int(level[low])) for low, high in pairwise(starts)]


def coarser(moments: Array, count: int) -> Array:
    """Return the moments of so many neighboring bins as those of one, an odd number: (..., bins, 8) of fewer bins.

    Bins begin with the middle of such a neighborhood. A row that is ``delta`` from the middle of a bin, and the bin
    ``o`` from the middle of the neighborhood, is ``(delta + o) / count`` from there.
    """
    *lead, bins, order = moments.shape
    before = count // 2
    whole = -(-(bins + before) // count)
    padded = np.zeros((*lead, whole * count, order))
    padded[..., before : before + bins, :] = moments
    return np.asarray(padded.reshape(*lead, whole, count * order) @ _shifts(count))


@lru_cache(maxsize=16)
def _shifts(count: int) -> Array:
    """Return the matrix (count * 8, 8) that merges the moments of neighboring bins."""
    out = np.zeros((count, ORDER, ORDER))
    for at, away in enumerate(range(-(count // 2), count // 2 + 1)):
        for p in range(ORDER):
            for k in range(p + 1):
                out[at, k, p] = comb(p, k) * float(away) ** (p - k) / float(count) ** p
    return out.reshape(-1, ORDER)


@dataclass(frozen=True, eq=False)
class PlannedColumns:
    """Columns of kernels with a common plan."""

    plan: FourierPlan
    columns: Array  # (c,) int
    members: Array  # (c, W) int: kernels of every column, by width
    bins: int  # enough for the data of every column
    wider: PlannedColumns | None = None  # the same columns and kernels that are wider, on bins of several of these
    count: int = 1  # of these bins in one of theirs

    def batches(self) -> Iterator[PlannedColumns]:
        """Yield a few columns at a time, with transforms that fit into a cache."""
        size = max(1, BATCH_ENTRIES // (self.plan.period_bins * ORDER))
        for start in range(0, len(self.columns), size):
            yield self._part(slice(start, start + size))

    def _part(self, part: slice) -> PlannedColumns:
        wider = None if self.wider is None else self.wider._part(part)
        return replace(self, columns=self.columns[part], members=self.members[part], wider=wider)

    def embed(self, members: Array) -> PlannedColumns:
        """Return the pattern embedded in a larger stack."""
        wider = None if self.wider is None else self.wider.embed(members)
        return replace(self, members=members[self.members], wider=wider)

    def together(self, n_vectors: int) -> Iterator[slice]:
        """Yield the vectors transformed together, such that all columns fit into a cache."""
        size = max(1, BATCH_ENTRIES // (len(self.columns) * self.plan.period_bins * ORDER))
        yield from (slice(start, min(start + size, n_vectors)) for start in range(0, n_vectors, size))

    def parts(self) -> Iterator[PlannedColumns]:
        """Yield the kernels of a width and all wider ones."""
        yield self
        if self.wider is not None:
            yield from self.wider.parts()

    def quads(self, moments: Array) -> Iterator[tuple[Array, Array]]:
        """Yield kernels (c, W), and their quadratic forms (c, T, W) from moments (c, T, bins, 8)."""
        yield self.members, self.plan.quads(moments)
        if self.wider is not None:
            yield from self.wider.quads(coarser(moments, self.count))


def lay_out_columns(columns: Array, widths: Array, extents: Array, tol: float) -> Iterator[PlannedColumns]:
    """Yield kernels as columns of a common expansion; ``extents`` are of all columns of the table."""
    order = np.lexsort((widths, columns))
    heads = np.flatnonzero(np.diff(columns[order], prepend=-1))
    sizes = np.diff(heads, append=len(order))
    for size in np.unique(sizes).tolist():
        own = order[heads[sizes == size][:, None] + np.arange(size)]
        for together, members in _group_equal_widths(widths, own):
            reached = extents[columns[members[:, 0]]]
            yield from _group_periods(columns, members, tuple(together.tolist()), reached, tol)


def _group_equal_widths(widths: Array, members: Array) -> Iterator[tuple[Array, Array]]:
    """Yield distinct widths, with the members (c, W)."""
    first = widths[members[0]]
    if all(np.all(widths[members[:, at]] == width) for at, width in enumerate(first)):
        yield first, members  # a grid of millions
        return
    kinds, kind = np.unique(widths[members], axis=0, return_inverse=True)
    for number, together in enumerate(kinds):
        yield together, members[kind.ravel() == number]


def _group_periods(
    columns: Array, members: Array, widths: tuple[float, ...], extents: Array, tol: float
) -> Iterator[PlannedColumns]:
    """Yield columns with the same widths by the lengths of their periods."""
    parts, spacing = nested(widths), bin_ratio(tol) * widths[0]
    try:
        bins = np.stack([periods(extents, widths[own], count * spacing, tol) for own, count in parts], axis=1)
    except InvalidInputError as error:
        raise InvalidInputError(f"Column {columns[members[int(np.argmax(extents)), 0]]}: {error}") from error
    kinds, kind = np.unique(bins, axis=0, return_inverse=True)
    for number, lengths in enumerate(kinds.tolist()):
        chosen = kind.ravel() == number
        reached, found, last = float(extents[chosen].max()), None, parts[-1][1]
        for (own, count), period in reversed(list(zip(parts, lengths, strict=True))):
            plan = fourier_plan(count * spacing, period, widths[own], tol)
            held, here = int(np.floor(reached / (count * spacing) + 0.5)) + 1, members[chosen]
            found = PlannedColumns(plan, columns[here[:, 0]], here[:, own], held, found, last // count)
            last = count
        if found is not None:
            yield found


@lru_cache(maxsize=256)
def fourier_plan(spacing: float, period_bins: int, widths: tuple[float, ...], tol: float) -> FourierPlan:
    """Return the expansion of the widths on a period with a margin for the widest kernel."""
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
    left_out = periodization_error(extent, period, sigma) + truncation_error(omega[-1], sigma, period)
    slips = np.sqrt(remainder**2 @ coefficients)
    return FourierPlan(spacing, period_bins, twiddles, coefficients, taylor + left_out + ROUNDING, left_out, slips)


def gaussian_coefficients(omega: Array, widths: Array, period: float) -> Array:
    """Return ``c_k = (sqrt(2 pi) sigma / T) exp(-sigma^2 omega_k^2 / 2)``, (K + 1, W)."""
    with np.errstate(under="ignore"):
        return np.sqrt(2 * np.pi) / period * widths * np.exp(-0.5 * (omega[:, None] * widths) ** 2)


def periodization_error(extent: float, period: float, widths: Array) -> Array:
    """Return ``sum_{n >= 1} kappa(n T - R) + kappa(n T)``, the bound on contributions of other periods, (W,)."""
    shifts = np.arange(1, 9)[:, None] * period
    with np.errstate(under="ignore"):
        sizes = np.exp(-0.5 * ((shifts - extent) / widths) ** 2) + np.exp(-0.5 * (shifts / widths) ** 2)
    return sizes.sum(axis=0) * (1 + 1e-10)


def truncation_error(last: float, widths: Array, period: float) -> Array:
    """Return a bound on ``2 sum_{k > K} c_k``: the first term and an integral, (W,)."""
    step = 2 * np.pi / period
    first = gaussian_coefficients(np.array([last + step]), widths, period)[0]
    return 2.0 * first + erfc((last + step) * widths / np.sqrt(2.0))


FACTOR_TOL = 1e-15  # of the expansion itself; the truncation of the factor is another matter
ROUNDED = 0.1  # of a width: the most of a bin whose rows are taken for its middle in a Hessian
WHOLE = 1e-12  # of a period, which a number of bins may miss
SPACING = 0.125  # of a width: Taylor pieces of order 8 are then good to 1e-13


def frequencies(extent: float, width: float) -> int:
    """Return how many frequencies a width needs on data within ``extent``."""
    period = extent + 2 * reach(FACTOR_TOL) * width
    return int(np.ceil(reach(FACTOR_TOL) * period / (2 * np.pi * width)))


def most_frequencies(n_rows: int) -> int:
    """Return above how many frequencies landmarks are less work than a series."""
    max_frequencies = 500  # of an eigendecomposition of twice that order; narrower kernels take landmarks
    few_frequencies, rows_per_frequency = 60, 20  # below which on few rows series are less work than landmarks
    return min(max_frequencies, max(few_frequencies, n_rows // rows_per_frequency))


def piece_spacing(tol: float) -> float:
    """Return the bin width, in kernel widths, at which pieces miss about a thousandth of what the factor leaves out.

    Pieces of order 8 on bins of half a width miss at most 4.5e-7 of a function of unit norm, and of h / width the
    eighth power; what they miss is inside the certificate (`FourierFactor.taylor_error`).
    """
    widest_spacing = 0.4
    return min(max(0.5 * (1e-3 * tol / 4.5e-7) ** (1.0 / ORDER), SPACING), widest_spacing)


@dataclass(frozen=True, eq=False)
class FourierFactor:
    """One Gaussian on data within ``[0, extent]``: frequencies, weights, and the eigenvectors of the factor's Gram.

    The period is ``extent + 2 reach``: functions may be evaluated up to ``reach`` outside the data; beyond they are 0.
    """

    extent: float
    width: float
    period: float
    omega: Array  # (K + 1,) float: frequencies and sqrt(c_k) (sqrt(2 c_k) for k > 0), scale included
    amplitude: Array  # (K + 1,) float: frequencies and sqrt(c_k) (sqrt(2 c_k) for k > 0), scale included
    error: float  # bound on the entries of K - Phi Phi'
    trace: float = 0.0
    eigenvalues: Array = field(default_factory=lambda: np.zeros(0))  # (R,), (2 K + 1, R): of Phi' Phi, largest first
    # (R,), (2 K + 1, R): of Phi' Phi, largest first
    directions: Array = field(default_factory=lambda: np.zeros((0, 0)))

    @classmethod
    def plan(cls, extent: float, width: float) -> FourierFactor:
        """Choose period and frequencies for data within ``extent``."""
        period = extent + 2 * reach(FACTOR_TOL) * width
        last = frequencies(extent, width)
        omega = 2 * np.pi / period * np.arange(last + 1)
        coefficients = gaussian_coefficients(omega, np.array([width]), period)[:, 0]
        coefficients[1:] *= 2.0
        sigma = np.array([width])
        error = periodization_error(extent, period, sigma) + truncation_error(omega[-1], sigma, period)
        return cls(extent, width, period, omega, np.sqrt(coefficients), float(error[0]))

    @property
    def period_bins(self) -> int:
        """Bins of the moments of the spectrum: accurate up to twice the largest frequency."""
        return int(next_fast_len(int(np.ceil(self.period / (0.5 * SPACING * self.width))), real=True))

    @property
    def spacing(self) -> float:
        """Width of the bins."""
        return self.period / self.period_bins

    def whole_spacing(self, ratio: float) -> float:
        """Return the width of bins, at most about a part of the kernel width, with a whole number per period."""
        return self.period / int(next_fast_len(int(np.ceil(self.period / (ratio * self.width))), real=True))

    @property
    def middle(self) -> float:
        """Where phases are zero."""
        return 0.5 * self.extent

    def with_spectrum(self, counts: Array, scale: float) -> FourierFactor:
        """Add scale and eigenvectors, from the moments (bins, 8) of a vector of ones."""
        amplitude = self.amplitude * np.sqrt(scale)
        gram = _trigonometric_gram(self._characteristic(counts), amplitude)
        values, vectors = np.linalg.eigh(gram)  # divides and conquers, in three quarters of the time of others
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        smallest_share = 1e-14  # of the trace: eigenvalues below it are rounding
        kept = max(1, int(np.sum(values > smallest_share * values.sum())))
        return replace(
            self,
            amplitude=amplitude,
            error=self.error * scale,
            trace=float(values.sum()),
            eigenvalues=values[:kept],
            directions=np.ascontiguousarray(vectors[:, :kept]),
        )

    def _characteristic(self, counts: Array) -> Array:
        """Return ``sum_i exp(i omega_k (x_i - middle))`` for k up to 2 K."""
        omega = self.omega[1] * np.arange(2 * len(self.omega) - 1)
        powers = np.array([1.0 / factorial(p) for p in range(ORDER)])
        twiddles = (1j * omega * self.spacing)[:, None] ** np.arange(ORDER) * powers
        sums = rfft(counts, n=self.period_bins, axis=0)[: len(omega)].conj()
        return np.einsum("kp,kp->k", sums, twiddles) * np.exp(-1j * omega * self.middle)

    def rank(self, tol: float) -> int:
        """Return how many directions leave at most ``tol`` of the trace."""
        left = self.trace - np.cumsum(self.eigenvalues)
        enough = np.flatnonzero(left <= tol * self.trace)
        return int(enough[0]) + 1 if len(enough) else len(self.eigenvalues)

    def features(self, x: Array, tol: float) -> Array:
        """Return the rows of the factor at ``x``, measured from the lowest training value."""
        margin = reach(FACTOR_TOL) * self.width
        inside = (x >= -margin) & (x <= self.extent + margin)
        phases = np.outer(np.where(inside, x - self.middle, 0.0), self.omega)
        basis = np.hstack([np.cos(phases) * self.amplitude, (np.sin(phases) * self.amplitude)[:, 1:]])
        return inside[:, None] * (basis @ self.directions[:, : self.rank(tol)])

    def taylor_error(self, spacing: float) -> float:
        """Return the error bound of pieces on bins of the width for a function of unit norm."""
        remainder = (self.omega * spacing / 2) ** ORDER / factorial(ORDER)
        # A frequency's cosine and sine together miss at most sqrt(2) times what one of them does.
        return float(np.sqrt(2.0) * np.linalg.norm(self.amplitude * remainder))

    def pieces(self, spacing: float, bins: int, directions: Array) -> Array:
        """Return Taylor coefficients (bins, 8, r) of functions at bins from the lowest value, in powers of one bin.

        By one transform of every derivative where the period holds a whole number of bins; else, and where they are
        fewer, by waves at every bin.
        """
        n, rank, period_bins = len(self.omega), directions.shape[1], round(self.period / spacing)
        whole = abs(period_bins * spacing - self.period) <= WHOLE * self.period
        powers = np.array([(1j * self.omega * spacing) ** p / factorial(p) for p in range(ORDER)]).T
        waves = self.amplitude[:, None] * directions[:n].astype(complex)
        waves[1:] -= 1j * self.amplitude[1:, None] * directions[n:]
        waves *= np.exp(-1j * self.omega * self.middle)[:, None]
        each = (powers[:, :, None] * waves[:, None]).reshape(n, -1)
        transform_steps = 4.0  # of a bin and a halving of a transform, beside a product with a wave
        if not whole or 2.0 * n * bins < transform_steps * period_bins * np.log2(period_bins):
            phases = np.outer(spacing * np.arange(bins), self.omega)
            found = np.cos(phases) @ each.real - np.sin(phases) @ each.imag
        else:
            found = _series_on_a_period(each, period_bins)[:bins].copy()  # of a period that may be several times that
        return np.ascontiguousarray(found).reshape(bins, ORDER, rank)


def _series_on_a_period(coefficients: Array, period_bins: int) -> Array:
    """Return ``Re sum_k c_k exp(2 pi i k j / P)`` at all ``j < P``, (P, r); there are fewer than ``P`` frequencies."""
    half = period_bins // 2
    spectra = np.zeros((half + 1, coefficients.shape[1]), dtype=complex)
    low, high = coefficients[: half + 1], coefficients[half + 1 :]
    spectra[: len(low)] = low
    if len(high):  # frequencies above that of the bins are seen as lower ones
        spectra[period_bins - half - len(high) : period_bins - half] += high[::-1].conj()
    spectra[0] *= 2.0
    if period_bins == 2 * half:
        spectra[half] = 2.0 * spectra[half].real
    return np.asarray(irfft(spectra, n=period_bins, axis=0)) * (0.5 * period_bins)


def _trigonometric_gram(characteristic: Array, amplitude: Array) -> Array:
    """Return ``Phi' Phi`` from ``S_k = sum_i exp(i omega_k x_i)``, by the product formulas."""
    k = np.arange(len(amplitude))
    sums, differences = characteristic[k[:, None] + k], characteristic[np.abs(k[:, None] - k)]
    signs = np.sign(k - k[:, None])  # sin is odd
    outer = 0.5 * np.outer(amplitude, amplitude)
    cc = outer * (differences.real + sums.real)
    ss = (outer * (differences.real - sums.real))[1:, 1:]
    cs = (outer * (sums.imag + signs * differences.imag))[:, 1:]
    return np.block([[cc, cs], [cs.T, ss]])


class ColumnOperator(FactorOperator):
    """Factors of some Gaussians of a single column as piecewise polynomials: products in O(N), whatever the rank."""

    positions: tuple[int, ...]
    _x: Array

    def __init__(
        self,
        column: int,
        geometry: tuple[float, float, int],
        spacing: float,
        kernels: Array,
        factors: list[FourierFactor],
        parts: list[Array],
        n_samples: int,
    ) -> None:
        self.kernels, self.positions, self._n = kernels, (column,), n_samples
        ranks = [part.shape[2] for part in parts]
        self.starts = np.concatenate([[0], np.cumsum(ranks)])
        self._origin, self._inverse, _ = geometry
        errors, taylor = zip(*((f.error, f.taylor_error(spacing)) for f in factors), strict=True)
        spectrum = np.concatenate([f.eigenvalues[:r] for f, r in zip(factors, ranks, strict=True)])
        self.excess = SeriesErrors(self.starts, np.array(errors), np.array(taylor), spectrum, n_samples)  # type: ignore[method-assign]
        self._table = np.concatenate(parts, axis=2) if len(parts) > 1 else parts[0]
        self._parts = int(np.ceil(spacing / (ROUNDED * min(factor.width for factor in factors))))

    def transfer(self, table: ColumnTable) -> ColumnOperator:
        """Return the same functions of other rows."""
        other = copy.copy(self)
        other._x = table.column(self.positions[0])
        return other

    @property
    def small(self) -> bool:
        """Whether the factors themselves are less work than their pieces."""
        return self._n * int(self.starts[-1]) <= self._table.size

    def add_scores(self, v: Array, out: Array) -> None:
        add_values(self._x, self._origin, self._inverse, self._table @ v, out)

    def adjoint(self, rho: Array) -> Array:
        moments = np.zeros(self._table.shape[:2])
        add_moments(self._x, self._origin, self._inverse, rho, moments)
        return moments.ravel() @ self._table.reshape(moments.size, -1)

    def rows(self, index: Array) -> Array:
        x = self._x[index]
        out = np.empty((len(x), self._table.shape[2]))
        table_rows(read_only(x), self._origin, self._inverse, self._table, out)
        return out

    def assign_bins(self, codes: Array) -> Array:
        """Set the bin of every row (N,) int16, and return the factors at the middle of bins, and of no bin, (B, r).

        Bins are those of the pieces, divided into as many as are a `ROUNDED` part of the narrowest width at most.
        """
        bins, _, rank = self._table.shape
        middles = (np.arange(self._parts) + 0.5) / self._parts - 0.5
        table = np.zeros((bins * self._parts + 1, rank))
        table[:-1] = np.matmul(middles[:, None] ** np.arange(ORDER), self._table).reshape(-1, rank)
        bin_codes(self._x, self._origin, self._inverse, self._parts, bins, codes)
        return table


@dataclass(frozen=True, eq=False)
class SeriesErrors:
    """Excess of the exact kernels over functions of a column, apart from the pieces."""

    starts: Array  # (g + 1,) int: where the coefficients of each kernel begin
    errors: Array  # (g,): of the kernels' values
    taylor: Array  # (g,): of a function of unit norm, in pieces
    spectrum: Array  # (r,): eigenvalues
    n_samples: int

    def __call__(self, v: Array) -> tuple[Array, Array]:
        """Bound squared norms and scores of the same function in the exact kernel.

        With ``alpha = Z Lambda^-1 v`` the exact function ``K alpha`` differs from ``Z v`` by at most ``error
        ||alpha||_1`` and the squared norm from ``||v||^2`` by at most ``error ||alpha||_1^2``, and ``||alpha||_1^2 <= N
        sum_k v_k^2 / lambda_k``.
        """
        sizes = np.add.reduceat(v**2 / self.spectrum, self.starts[:-1]) * self.n_samples
        norms = np.sqrt(np.add.reduceat(v**2, self.starts[:-1]))
        return self.errors * sizes, self.errors * np.sqrt(sizes) + self.taylor * norms
