"""How one column's Gaussians are expanded: period, frequencies, bins, coefficients, and what that misses at most."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import factorial

import numpy as np
from scipy.fft import next_fast_len, rfft
from scipy.special import erfc

from manykernels.exceptions import InvalidInputError
from manykernels.grams.factored.loops import ORDER
from manykernels.validation.arrays import Array

ROUNDING = 2e-15  # of sums and of the transform, beside ||rho||_1^2
MAX_BINS = 2**22
BIN_STEPS = 32  # periods are rounded up by at most 1/32, so that columns of nearly the same range share coefficients


@dataclass(frozen=True, eq=False)
class Expansion:
    """Frequencies and coefficients of some Gaussian widths on one period, with error constants.

    Attributes
    ----------
    spacing : float
        Width ``h`` of a bin.
    period_bins : int
        Bins of the period ``T``.
    twiddles : (K + 1, 8) complex
        ``(-i omega_k h)^p / p!``.
    coefficients : (K + 1, W)
        ``c_k``, doubled for k > 0.
    errors : (W,)
        Bound on ``|quad - rho' K rho| / ||rho||_1^2`` of every width.
    """

    spacing: float
    period_bins: int
    twiddles: Array
    coefficients: Array
    errors: Array

    def transform(self, moments: Array) -> Array:
        """Return ``sum_i rho_i exp(-i omega_k (x_i - origin))``, (K + 1,), from moments (bins, 8)."""
        spectra = rfft(moments, n=self.period_bins, axis=0)[: len(self.twiddles)]
        return np.einsum("kp,kp->k", spectra, self.twiddles)


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
    spacing = bin_ratio(tol) * min(widths)
    wanted = (extent + reach(tol) * max(widths)) / spacing + 2
    if wanted > MAX_BINS:
        raise InvalidInputError(
            f"A column that spans {extent:.3g} needs {wanted:.3g} bins for kernels of width {min(widths):.3g} to "
            f"{max(widths):.3g}; at most {MAX_BINS} are allowed. Clip its outliers, rank it, or drop the narrow widths."
        )
    step = max(1, int(2 ** np.floor(np.log2(wanted)) / BIN_STEPS))
    return spacing, int(next_fast_len(int(np.ceil(wanted / step)) * step, real=True))


@lru_cache(maxsize=256)
def expansion(spacing: float, period_bins: int, widths: tuple[float, ...], tol: float) -> Expansion:
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
    return Expansion(spacing, period_bins, twiddles, coefficients, errors)


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
