"""The factor of one Gaussian of one column: trigonometric functions, rotated to the leading directions of the data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import factorial

import numpy as np
from scipy.fft import next_fast_len, rfft
from scipy.linalg import eigh

from manykernels.grams.factored.fourier_plan import gaussian_coefficients, periodization_error, reach, truncation_error
from manykernels.grams.factored.loops import ORDER, add_moments, add_values, table_rows
from manykernels.grams.rows.columns import ColumnTable
from manykernels.validation.arrays import Array

FACTOR_TOL = 1e-15  # of the expansion itself; the truncation of the factor is another matter
MAX_FREQUENCIES = 500  # of an eigendecomposition of twice that order; narrower kernels take landmarks
FEW_FREQUENCIES, ROWS_PER_FREQUENCY = 60, 20  # below which on few rows series are less work than landmarks
FEW_ROWS = 5000  # whose factors are kept in memory
SMALLEST_SHARE = 1e-14  # of the trace: eigenvalues below it are rounding
WIDEST_SPACING = 0.4
SPACING = 0.125  # of a width: Taylor pieces of order 8 are then good to 1e-13


def frequencies(extent: float, width: float) -> int:
    """Return how many frequencies a width needs on data within ``extent``."""
    period = extent + 2 * reach(FACTOR_TOL) * width
    return int(np.ceil(reach(FACTOR_TOL) * period / (2 * np.pi * width)))


def most_frequencies(n_rows: int) -> int:
    """Return above how many frequencies landmarks are less work than a series."""
    return min(MAX_FREQUENCIES, max(FEW_FREQUENCIES, n_rows // ROWS_PER_FREQUENCY))


def piece_spacing(tol: float) -> float:
    """Return the bin width, in kernel widths, at which pieces miss about a thousandth of what the factor leaves out.

    Pieces of order 8 on bins of half a width miss at most 4.5e-7 of a function of unit norm, and of h / width its
    eighth power; what they miss is inside the certificate (`FourierFactor.taylor_error`).
    """
    return min(max(0.5 * (1e-3 * tol / 4.5e-7) ** (1.0 / ORDER), SPACING), WIDEST_SPACING)


@dataclass(frozen=True, eq=False)
class FourierFactor:
    """One Gaussian on data within ``[0, extent]``: frequencies, weights, and the eigenvectors of its factor's Gram.

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
        """Bins of the moments that the spectrum is computed from: good up to twice the largest frequency."""
        return int(next_fast_len(int(np.ceil(self.period / (0.5 * SPACING * self.width))), real=True))

    @property
    def spacing(self) -> float:
        """Width of these bins."""
        return self.period / self.period_bins

    @property
    def middle(self) -> float:
        """Where phases are zero."""
        return 0.5 * self.extent

    def with_spectrum(self, counts: Array, scale: float) -> FourierFactor:
        """Add scale and eigenvectors, from the moments (bins, 8) of a vector of ones."""
        amplitude = self.amplitude * np.sqrt(scale)
        gram = _trigonometric_gram(self._characteristic(counts), amplitude)
        values, vectors = eigh(gram)
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        kept = max(1, int(np.sum(values > SMALLEST_SHARE * values.sum())))
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
        """Return the most that pieces on bins of this width miss of a function of unit norm."""
        remainder = (self.omega * spacing / 2) ** ORDER / factorial(ORDER)
        # A frequency's cosine and sine together miss at most sqrt(2) times what one of them does.
        return float(np.sqrt(2.0) * np.linalg.norm(self.amplitude * remainder))

    def pieces(self, start: float, spacing: float, bins: int, directions: Array) -> Array:
        """Return Taylor coefficients (bins, 8, r) of functions at bins from ``start``, in powers of one bin."""
        n = len(self.omega)
        phases = np.outer(start + spacing * np.arange(bins) - self.middle, self.omega)
        cosines, sines = np.cos(phases), np.sin(phases)[:, 1:]
        even, odd = self.amplitude[:, None] * directions[:n], self.amplitude[1:, None] * directions[n:]
        out = np.empty((bins, ORDER, directions.shape[1]))
        for p in range(ORDER):
            power = (self.omega * spacing) ** p / factorial(p)
            # d/dx turns cos into -sin and sin into cos; after p times the signs and names repeat every four.
            first, second = power[:, None] * even, power[1:, None] * odd
            if p % 2 == 0:
                out[:, p] = (1 - p % 4) * (cosines @ first + sines @ second)
            else:
                sign = 2 - p % 4
                out[:, p] = sign * (cosines[:, 1:] @ second - sines @ first[1:])
        return out


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


class ColumnOperator:
    """Factors of some Gaussians of one column as piecewise polynomials: products in O(N), whatever the rank."""

    _x: Array

    def __init__(
        self,
        column: int,
        geometry: tuple[float, float, int],
        spacing: float,
        kernels: Array,
        factors: list[FourierFactor],
        tol: float,
        n_samples: int,
    ) -> None:
        self.kernels, self.positions, self._n = kernels, (column,), n_samples
        ranks = [factor.rank(tol) for factor in factors]
        self.starts = np.concatenate([[0], np.cumsum(ranks)])
        self._origin, self._inverse, bins = geometry
        self._errors = np.array([factor.error for factor in factors])
        self._taylor = np.array([f.taylor_error(spacing) for f in factors])
        self._spectrum = np.concatenate([f.eigenvalues[:r] for f, r in zip(factors, ranks, strict=True)])
        parts = [f.pieces(0.0, spacing, bins, f.directions[:, :r]) for f, r in zip(factors, ranks, strict=True)]
        self._table = np.ascontiguousarray(np.concatenate(parts, axis=2))

    def over(self, table: ColumnTable) -> ColumnOperator:
        """Return the same functions of other rows."""
        other = ColumnOperator.__new__(ColumnOperator)
        other.__dict__.update(self.__dict__)
        other._x = table.column(self.positions[0])
        return other

    @property
    def small(self) -> bool:
        """Whether the factors themselves are less work than their pieces."""
        return self._n <= FEW_ROWS or self._n * int(self.starts[-1]) <= self._table.size

    def add_scores(self, v: Array, out: Array) -> None:
        """Add ``Z v`` to ``out``."""
        add_values(self._x, self._origin, self._inverse, self._table @ v, out)

    def adjoint(self, rho: Array) -> Array:
        """Return ``Z' rho``."""
        moments = np.zeros(self._table.shape[:2])
        add_moments(self._x, self._origin, self._inverse, rho, moments)
        return moments.ravel() @ self._table.reshape(moments.size, -1)

    def rows(self, index: Array) -> Array:
        """Return rows of ``Z``."""
        x = self._x[index]
        out = np.empty((len(x), self._table.shape[2]))
        table_rows(x, self._origin, self._inverse, self._table, out)
        return out

    def excess(self, v: Array) -> tuple[Array, Array]:
        """Bound squared norms and scores of the same function in the exact kernel.

        With ``alpha = Z Lambda^-1 v`` the exact function ``K alpha`` differs from ``Z v`` by at most
        ``error ||alpha||_1`` and its squared norm from ``||v||^2`` by at most ``error ||alpha||_1^2``, and
        ``||alpha||_1^2 <= N sum_k v_k^2 / lambda_k``.
        """
        sizes = np.add.reduceat(v**2 / self._spectrum, self.starts[:-1]) * self._n
        norms = np.sqrt(np.add.reduceat(v**2, self.starts[:-1]))
        return self._errors * sizes, self._errors * np.sqrt(sizes) + self._taylor * norms
