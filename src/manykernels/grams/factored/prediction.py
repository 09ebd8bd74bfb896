"""Functions of kernels for prediction: a trigonometric series, or kernel values at a few landmarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import factorial
from typing import Any, cast

import numpy as np
from scipy.linalg import qr

from manykernels.grams.factored.cells import axis_codes, cells_of, grid_parts
from manykernels.grams.factored.fourier_factor import FACTOR_TOL, SPACING, FourierFactor, reach
from manykernels.grams.factored.loops import ORDER, add_values
from manykernels.grams.gaussian_loops import gaussian_scores
from manykernels.grams.rows.columns import Reading
from manykernels.kernels import Gaussian, ObjectKernel, Overlap, Shaped
from manykernels.kernels.bank.normalization import unit_factors
from manykernels.kernels.specs.base import KernelSpec
from manykernels.kernels.specs.categorical import UNSEEN, places_among
from manykernels.kernels.specs.distances import require_width
from manykernels.kernels.specs.interaction import slope_columns
from manykernels.validation.arrays import Array, read_only
from manykernels.validation.parameters import WithoutCaches

CHUNK_ROWS = 16384  # that are evaluated at once


@dataclass(frozen=True, eq=False)
class FourierSeries(WithoutCaches):
    """``f(x) = sum_k a_k cos(k omega t) + b_k sin(k omega t)`` with ``t = x - middle``, 0 beyond ``reach``."""

    middle: float  # in the unit of the standardized column
    reach: float  # in the unit of the standardized column
    omega: float  # in the unit of the standardized column
    cosines: Array  # (K + 1,) float64
    sines: Array  # (K + 1,) float64

    @classmethod
    def create(cls, factor: FourierFactor, coefficients: Array, low: float) -> FourierSeries:
        """Return the function with the coefficients on the leading directions; data begin at ``low``."""
        n = len(factor.omega)
        weights = factor.directions[:, : len(coefficients)] @ coefficients
        cosines, sines = factor.amplitude * weights[:n], np.zeros(n)
        sines[1:] = factor.amplitude[1:] * weights[n:]
        reached = factor.middle + reach(FACTOR_TOL) * factor.width
        return cls(low + factor.middle, reached, 2 * np.pi / factor.period, cosines, sines)

    def __call__(self, points: Array) -> Array:
        """Return the function at points (n, 1), by a piecewise polynomial accurate to rounding."""
        out = np.zeros(len(points))
        inverse, pieces = self._pieces
        add_values(read_only(points[:, 0]), self.middle - self.reach, inverse, pieces, out)
        return out

    @cached_property
    def _pieces(self) -> tuple[float, Array]:
        """Inverse distance between both end points, and Taylor coefficients (bins, 8) around the points.

        Frequencies go as far as `reach` over the width of the kernel, which says how near points must be.
        """
        spacing = SPACING * reach(FACTOR_TOL) / (self.omega * max(len(self.cosines) - 1, 1))
        points = spacing * np.arange(int(np.ceil(2.0 * self.reach / spacing)) + 1) - self.reach
        turns = 1j * self.omega * spacing * np.arange(len(self.cosines))
        derivatives = [(self.cosines - 1j * self.sines) * turns**p / factorial(p) for p in range(ORDER)]
        waves = np.vander(np.exp(1j * self.omega * points), len(self.cosines), increasing=True)
        return 1.0 / spacing, np.ascontiguousarray((waves @ np.transpose(derivatives)).real)


@dataclass(frozen=True, eq=False)
class LandmarkFunction(WithoutCaches):
    """``f(x) = sum_j c_j k(x, z_j)``, with ``k`` divided by the roots of both diagonal entries if ``unit_diagonal``."""

    spec: KernelSpec
    landmarks: Any  # (r, d) float64: Standardized; of objects the `SparsePoints` of their features
    coefficients: Array  # (r,) float64
    unit_diagonal: bool = False

    def __call__(self, points: Array) -> Array:
        """Return the function at points (n, d)."""
        if type(self.spec) is Gaussian and self.spec.column_widths is None:  # whose diagonal is one
            (landmarks, coefficient, weights), out = self._landmark_parts, np.empty(len(points))
            columns = np.ascontiguousarray(points.T, dtype=np.float64)
            gaussian_scores(read_only(columns), landmarks, coefficient, weights, out)
            return out
        if type(self.spec) is Overlap and not self.unit_diagonal:
            parts = zip(self._levels, points.T, strict=True)
            return np.asarray(np.sum([sums[places_among(own, column)] for (own, sums), column in parts], axis=0))
        if (slope := slope_columns(self.spec)) is not None and not self.unit_diagonal:
            own, sums = self._slopes
            return np.asarray(sums[places_among(own, points[:, slope[0]])] * points[:, slope[1]])
        if not self.unit_diagonal:
            return self.spec(points, self.landmarks) @ self.coefficients
        left, right = (unit_factors(self.spec.diag(rows)) for rows in (points, self.landmarks))
        return left * (self.spec(points, self.landmarks) @ (right * self.coefficients))

    @cached_property
    def _levels(self) -> list[tuple[Array, Array]]:
        """The increasing levels of every column of an `Overlap` kernel, with the function values."""
        found = []
        for column in self.landmarks.T:
            known = column != UNSEEN
            own, places = np.unique(column[known], return_inverse=True)
            sums = np.bincount(places, self.coefficients[known], len(own) + 1)  # zero for a level that is none of them
            found.append((own, sums / self.landmarks.shape[1]))
        return found

    @cached_property
    def _slopes(self) -> tuple[Array, Array]:
        """The increasing levels of a random slope, and the slope at each, zero at others."""
        group, number = slope_columns(self.spec) or (0, 1)
        known = self.landmarks[:, group] != UNSEEN
        own, places = np.unique(self.landmarks[known, group], return_inverse=True)
        return own, np.bincount(places, (self.coefficients * self.landmarks[:, number])[known], len(own) + 1)

    @cached_property
    def _landmark_parts(self) -> tuple[Array, float, Array]:
        """Landmarks (d, r), the factor of squared distances, and the coefficients (r,) of a Gaussian."""
        landmarks = np.ascontiguousarray(self.landmarks.T, dtype=np.float64)
        return (
            landmarks,
            -0.5 / require_width(cast("Gaussian", self.spec).width) ** 2,
            self.coefficients.astype(np.float64),
        )


@dataclass(frozen=True, eq=False)
class CellFunction:
    """A piecewise constant function on cells of a few columns: products of bins and categories."""

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
class LineFunction(LandmarkFunction):
    """A function of a single column with a shape: lines between values, the coefficients, at knots, the landmarks."""

    @classmethod
    def create(cls, spec: Shaped, values: Array) -> LineFunction:
        """Return the function with the values at the knots of the kernel."""
        return cls(spec, np.array(spec.points)[:, None], values)

    def __call__(self, points: Array) -> Array:
        """Return the function at points (n, 1)."""
        return cast("Shaped", self.spec).interpolate(self.coefficients[:, None], points)[:, 0]


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
    def create(cls, spec: ObjectKernel, table: Array) -> SparseFunction:
        """Return the function with the weights of all features."""
        places = np.flatnonzero(table)
        return cls(spec, places, table[places])


Kernels = Sequence[tuple[KernelSpec, tuple[int, ...]]]
"""Kernels with the columns that they read."""

KernelFunction = FourierSeries | LandmarkFunction | CellFunction | LineFunction | SparseFunction


@dataclass(frozen=True, eq=False)
class KernelPart:
    """Contribution of a kernel to a score: a function of columns, less the training mean if centered."""

    target: int  # which score
    kernel: int  # which of the active kernels
    function: KernelFunction
    offset: float = 0.0

    def __call__(self, reading: Reading) -> Array:
        """Return the part at rows in the form of the kernel, (n,); zero for missing values."""
        return reading.masked(self.function(reading.points) - self.offset)


def read_once(kernels: Kernels, reading: Callable[[int], Reading]) -> Callable[[int], Reading]:
    """Return a shared cache of prepared rows for kernels on columns."""
    known: dict[Any, Reading] = {}

    def read(kernel: int) -> Reading:
        spec, columns = kernels[kernel]
        own = spec if spec.family == "features" else spec.family == "missing", columns
        if own not in known:
            known[own] = reading(kernel)
        return known[own]

    return read


def total(parts: Sequence[KernelPart], n_targets: int, reading: Callable[[int], Reading], n_rows: int) -> Array:
    """Return the sums of parts by target, (n_targets, n), at rows from ``reading(kernel)``."""
    sums = np.zeros((n_targets, n_rows))
    for part in parts:
        sums[part.target] += part(reading(part.kernel))
    return sums


def create_landmark_function(spec: Any, points: Any, coefficients: Array) -> LandmarkFunction:
    """Return a function on landmarks, of the base kernel for a spec divided by the diagonal."""
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
    rows_at_once = 4096
    spanned = 1e-12  # of the coefficients: what landmarks may leave of them
    dependent = 1e-9  # of the largest pivot: features this close to a combination of others add nothing
    for start in range(0, n_rows, rows_at_once):
        rows = np.arange(start, min(start + rows_at_once, n_rows))
        rows, held = np.concatenate([kept, rows]), np.vstack([held, features(rows)])
        _, upper, order = qr(held.T, mode="economic", pivoting=True)
        pivots = np.abs(np.diag(upper))
        chosen = order[: int(np.sum(pivots > dependent * max(pivots[0], np.finfo(float).tiny)))]
        kept, held = rows[chosen], held[chosen]
        coefficients = np.linalg.lstsq(held.T, wanted, rcond=None)[0]
        if np.linalg.norm(held.T @ coefficients - wanted) <= spanned * np.linalg.norm(wanted):
            break
    return kept, coefficients
