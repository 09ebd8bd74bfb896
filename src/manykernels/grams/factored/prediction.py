"""Functions of kernels as prediction needs them: a trigonometric series, or kernel values at a few landmarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import qr

from manykernels.grams.factored.cells import axis_codes, cells_of, grid_parts
from manykernels.grams.factored.fourier_factor import FACTOR_TOL, FourierFactor
from manykernels.grams.factored.fourier_plan import reach
from manykernels.kernels import ObjectKernel
from manykernels.kernels.bank.normalization import unit_factors
from manykernels.kernels.specs.base import KernelSpec
from manykernels.validation.arrays import Array

ROWS_AT_ONCE = 4096
SPANNED = 1e-12  # of the coefficients: what landmarks may leave of them
DEPENDENT = 1e-9  # of the largest pivot: features this close to a combination of others add nothing


@dataclass(frozen=True, eq=False)
class FourierSeries:
    """``f(x) = sum_k a_k cos(k omega t) + b_k sin(k omega t)`` with ``t = x - middle``, and 0 beyond ``reach`` of it.

    Attributes
    ----------
    middle, reach, omega : float
        In the unit of the standardized column.
    cosines, sines : (K + 1,) float64
    """

    middle: float  # in the unit of the standardized column
    reach: float  # in the unit of the standardized column
    omega: float  # in the unit of the standardized column
    cosines: Array  # (K + 1,) float64
    sines: Array  # (K + 1,) float64

    @classmethod
    def of(cls, factor: FourierFactor, coefficients: Array, low: float) -> FourierSeries:
        """Return the function with these coefficients on the leading directions; data begin at ``low``."""
        n = len(factor.omega)
        weights = factor.directions[:, : len(coefficients)] @ coefficients
        cosines, sines = factor.amplitude * weights[:n], np.zeros(n)
        sines[1:] = factor.amplitude[1:] * weights[n:]
        reached = factor.middle + reach(FACTOR_TOL) * factor.width
        return cls(low + factor.middle, reached, 2 * np.pi / factor.period, cosines, sines)

    def __call__(self, points: Array) -> Array:
        """Return the function at points (n, 1), by Horner's rule on the unit circle."""
        t = points[:, 0] - self.middle
        inside = np.abs(t) <= self.reach
        z = np.exp(1j * self.omega * np.where(inside, t, 0.0))
        total = np.zeros(len(t), dtype=complex)
        for c in (self.cosines - 1j * self.sines)[::-1]:
            total *= z
            total += c
        return np.where(inside, total.real, 0.0)


@dataclass(frozen=True, eq=False)
class LandmarkFunction:
    """``f(x) = sum_j c_j k(x, z_j)``, with ``k`` divided by the roots of both diagonal entries if ``unit_diagonal``."""

    spec: KernelSpec
    landmarks: Array  # (r, d) float64: Standardized
    coefficients: Array  # (r,) float64
    unit_diagonal: bool = False

    def __call__(self, points: Array) -> Array:
        """Return the function at points (n, d)."""
        if not self.unit_diagonal:
            return self.spec(points, self.landmarks) @ self.coefficients
        left, right = (unit_factors(self.spec.diag(rows)) for rows in (points, self.landmarks))
        return left * (self.spec(points, self.landmarks) @ (right * self.coefficients))


@dataclass(frozen=True, eq=False)
class CellFunction:
    """A function of a few columns that is constant on cells: products of bins and categories."""

    spec: KernelSpec  # the kernel, which knows the bins
    # tuple of (B,) float64: the categories of each of its parts; none where these have bins
    levels: tuple[Array, ...]
    values: Array  # (B_1, ..., B_d) float64: in every cell; a row with a category that is not there gets 0

    def __call__(self, points: Array) -> Array:
        """Return the function at points (n, d)."""
        parts = zip(grid_parts(self.spec) or [], self.levels, strict=True)
        codes = [axis_codes(part, levels, points[:, column]) for (part, column), levels in parts]
        return np.append(self.values.ravel(), 0.0)[cells_of(codes, self.values.shape)]


@dataclass(frozen=True, eq=False)
class SparseFunction:
    """``f(x) = phi(x)' w`` of sparse features of objects."""

    spec: ObjectKernel  # the kernel, which knows the features
    places: Array  # (r,) int64: of the features that have a weight
    weights: Array  # (r,) float64

    def __call__(self, points: Array) -> Array:
        """Return the function of objects (n,)."""
        table = np.zeros(self.spec.n_places)
        table[self.places] = self.weights
        return self.spec.read(points).scores(table)

    @classmethod
    def of(cls, spec: ObjectKernel, table: Array) -> SparseFunction:
        """Return the function with these weights of all features."""
        places = np.flatnonzero(table)
        return cls(spec, places, table[places])


KernelFunction = FourierSeries | LandmarkFunction | CellFunction | SparseFunction


def on_landmarks(spec: Any, points: Array, coefficients: Array) -> LandmarkFunction:
    """Return a function on landmarks, of the kernel itself where the spec is one divided by its diagonal."""
    if spec.kind == "unit_diagonal":
        return LandmarkFunction(spec.base, points, coefficients, unit_diagonal=True)
    return LandmarkFunction(spec, points, coefficients)


def spanning_rows(features: Callable[[Array], Array], n_rows: int, wanted: Array) -> tuple[Array, Array]:
    """Return a few rows and coefficients ``c`` with ``sum_j c_j z(x_j) = wanted``, where rows have features ``z``.

    Rows are read a chunk at a time until their features span what is wanted.
    """
    kept = np.zeros(0, dtype=np.int64)
    held = np.zeros((0, len(wanted)))
    coefficients = np.zeros(0)
    for start in range(0, n_rows, ROWS_AT_ONCE):
        rows = np.arange(start, min(start + ROWS_AT_ONCE, n_rows))
        rows, held = np.concatenate([kept, rows]), np.vstack([held, features(rows)])
        _, upper, order = qr(held.T, mode="economic", pivoting=True)
        pivots = np.abs(np.diag(upper))
        chosen = order[: int(np.sum(pivots > DEPENDENT * max(pivots[0], np.finfo(float).tiny)))]
        kept, held = rows[chosen], held[chosen]
        coefficients = np.linalg.lstsq(held.T, wanted, rcond=None)[0]
        if np.linalg.norm(held.T @ coefficients - wanted) <= SPANNED * np.linalg.norm(wanted):
            break
    return kept, coefficients
