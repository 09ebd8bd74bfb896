"""Maps from rows to features with kernels as inner products: exact, or up to a bounded share of the diagonal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from scipy.linalg import eigh
from scipy.special import ive

from manykernels.grams.rows.columns import ColumnTable
from manykernels.kernels import KernelSpec, Linear, Missing, Ordinal, Overlap, Periodic, Polynomial
from manykernels.kernels.specs.base import KernelOfFeatures
from manykernels.kernels.specs.categorical import UNSEEN, places_among
from manykernels.kernels.specs.interaction import slope_columns
from manykernels.validation.arrays import Array

MAX_FEATURES = 500


class FeatureMap(ABC):
    """Features ``z(x)`` of a kernel: ``k(x, x') = z(x)'z(x')`` up to `tail`, with the remainder out positive definite.

    Attributes
    ----------
    rank : int
    tail : float
        The most left of ``k(x, x)``.
    constraints : (c, rank) float64, optional
        ``G``, where functions ``z(x)'v`` are in the model only with ``G v >= 0``.
    """

    rank: int
    tail: float = 0.0
    constraints: Array | None = None

    @abstractmethod
    def __call__(self, points: Array) -> Array:
        """Return features (n, rank) of points (n, d)."""

    def function(self, points: Array, v: Array) -> Array:
        """Return ``z(x)'v`` at points, (n,)."""
        return np.asarray(self(points) @ v)

    def adjoint(self, points: Array, rho: Array) -> Array:
        """Return ``Z' rho``, of a single vector or of several in columns."""
        return np.asarray(self(points).T @ rho)


@dataclass(frozen=True)
class LinearFeatures(FeatureMap):
    """The columns themselves."""

    rank: int

    def __call__(self, points: Array) -> Array:
        return points


@dataclass(frozen=True)
class PolynomialFeatures(FeatureMap):
    """``(scale x z + offset)^degree = sum_k comb(degree, k) scale^k offset^(degree - k) x^k z^k``."""

    spec: Polynomial

    @property
    def rank(self) -> int:  # type: ignore[override]  # a field of others
        """A feature per power."""
        return self.spec.degree + 1

    def __call__(self, points: Array) -> Array:
        """Return weighted powers."""
        degree, scale, offset = self.spec.degree, self.spec.scale, self.spec.offset
        weights = [comb(degree, k) * scale**k * offset ** (degree - k) for k in range(degree + 1)]
        return np.sqrt(weights) * points ** np.arange(degree + 1)


@dataclass(frozen=True)
class PeriodicFeatures(FeatureMap):
    """``exp(-(1 - cos phi) / w^2) = sum_k c_k cos(k phi)``, ``c_k = 2 exp(-1 / w^2) I_k(1 / w^2)`` for k > 0.

    Abramowitz and Stegun, 9.6.34.
    """

    spec: Periodic
    order: int

    @classmethod
    def create(cls, spec: Periodic) -> PeriodicFeatures | None:
        """Return the series with a tail below rounding, None if too long."""
        most = MAX_FEATURES // 2
        coefficients = _series(spec, 2 * most)
        left = coefficients[::-1].cumsum()[::-1]
        series_tol = 1e-16  # of the diagonal of a periodic kernel, left out of its series
        enough = np.flatnonzero(left <= series_tol)
        return cls(spec, int(enough[0])) if len(enough) and enough[0] <= most else None

    @property
    def rank(self) -> int:  # type: ignore[override]  # a field of others
        """A cosine and a sine for every frequency but zero."""
        return 2 * self.order - 1

    @property
    def tail(self) -> float:  # type: ignore[override]
        """The sum of the coefficients left out."""
        return float(_series(self.spec, 2 * self.order + 50)[self.order :].sum())

    def __call__(self, points: Array) -> Array:
        """Return weighted cosines and sines."""
        phases = np.outer(2 * np.pi / self.spec.period * points[:, 0], np.arange(self.order))
        roots = np.sqrt(_series(self.spec, self.order))
        return np.hstack([np.cos(phases) * roots, (np.sin(phases) * roots)[:, 1:]])


def _series(spec: Periodic, n: int) -> Array:
    """Return the first coefficients of the cosine series."""
    coefficients = 2.0 * ive(np.arange(n), 1.0 / spec.width**2)
    coefficients[0] *= 0.5
    return coefficients


@dataclass(frozen=True)
class MissingFeatures(FeatureMap):
    """Indicators of missing columns."""

    rank: int

    def __call__(self, points: Array) -> Array:
        """Return 1 where a value is missing."""
        return (points == UNSEEN) / np.sqrt(self.rank)


@dataclass(frozen=True)
class OwnFeatures(FeatureMap):
    """Features of the kernel itself: of landmarks, or of lines between knots."""

    spec: KernelOfFeatures

    @property
    def rank(self) -> int:  # type: ignore[override]  # a field of others
        """At most a feature per landmark or knot."""
        return self.spec.rank

    @property
    def constraints(self) -> Array | None:  # type: ignore[override]  # a field of others
        """The constraints of the shape, if any."""
        return self.spec.constraints

    def __call__(self, points: Array) -> Array:
        """Return the features of the kernel."""
        return self.spec.features(points)

    def function(self, points: Array, v: Array) -> Array:
        """Return ``z(x)'v`` at points, (n,), as the kernel computes it."""
        return self.spec.function(points, v)

    def adjoint(self, points: Array, rho: Array) -> Array:
        """Return ``Z' rho`` as the kernel computes it."""
        return self.spec.adjoint(points, rho)


@dataclass(frozen=True, eq=False)
class LevelFeatures(FeatureMap):
    """A kernel ``mean_j k(x_j, z_j)`` on columns of few different values, through the matrix on the values."""

    spec: KernelSpec
    levels: tuple[Array, ...]
    bases: tuple[Array | None, ...]

    @classmethod
    def create(cls, spec: KernelSpec, levels: Sequence[Array]) -> LevelFeatures:
        """Decompose the kernel on the levels of every column; the identity for `Overlap`."""
        bases = [None if isinstance(spec, Overlap) else _inverse_root(spec(own[:, None])) for own in levels]
        return cls(spec, tuple(levels), tuple(bases))

    @property
    def rank(self) -> int:  # type: ignore[override]  # a field of others
        """The sum over columns of the number of levels, or directions."""
        pairs = zip(self.levels, self.bases, strict=True)
        return sum(len(own) if basis is None else basis.shape[1] for own, basis in pairs)

    def places(self, table: ColumnTable, positions: tuple[int, ...]) -> list[Array]:
        """Return for every column the nonzero indicator of every row, (n,) int32; `rank` for none, or a missing one."""
        known, starts, found = table.present(positions), np.cumsum([0, *map(len, self.levels)]), []
        for own, position, start in zip(self.levels, positions, starts[:-1], strict=True):
            at = places_among(own, table.values(position))
            none = at == len(own) if known is None else (at == len(own)) | ~known
            found.append(np.where(none, starts[-1], start + at).astype(np.int32))
        return found

    @property
    def landmarks(self) -> Array:
        """Points (rank, d) with a single level each, unequal to anything in the other columns."""
        starts = np.cumsum([0, *map(len, self.levels)])
        out = np.full((starts[-1], len(self.levels)), UNSEEN)
        for j, (own, start) in enumerate(zip(self.levels, starts[:-1], strict=True)):
            out[start : start + len(own), j] = own
        return out

    def __call__(self, points: Array) -> Array:
        """Return one-hot columns, or ``k(x, levels) U Lambda^-1/2``."""
        parts = []
        for j, (own, basis) in enumerate(zip(self.levels, self.bases, strict=True)):
            column = points[:, [j]]
            equal = (column == own).astype(np.float64)
            parts.append(equal if basis is None else self.spec(column, own[:, None]) @ basis)
        return np.hstack(parts) / np.sqrt(len(self.levels))


class SlopeFeatures(LevelFeatures):
    """The levels of a column times the numbers of another one: a random slope."""

    @property
    def columns(self) -> tuple[int, int]:
        """The columns of levels and of numbers."""
        return slope_columns(self.spec) or (0, 1)

    @classmethod
    def create(cls, spec: KernelSpec, levels: Sequence[Array]) -> SlopeFeatures:
        """Return the features for these levels of the grouping."""
        return cls(spec, tuple(levels), (None,))

    def places(self, table: ColumnTable, positions: tuple[int, ...]) -> list[Array]:
        """Return the level of every row."""
        return super().places(table, (positions[self.columns[0]],))

    @property
    def landmarks(self) -> Array:
        """Points (rank, 2) with a level and the number one each."""
        out = np.ones((self.rank, 2))
        out[:, self.columns[0]] = self.levels[0]
        return out

    def __call__(self, points: Array) -> Array:
        """Return one-hot columns times numbers."""
        group, number = self.columns
        return super().__call__(points[:, [group]]) * points[:, [number]]


def _inverse_root(gram: Array) -> Array:
    """Return ``U Lambda^-1/2`` of the directions not rounding."""
    values, vectors = eigh(gram)
    smallest_eigenvalue = 1e-14  # of the largest one of a kernel on levels: below it is rounding
    kept = values > smallest_eigenvalue * values[-1]
    return vectors[:, kept] / np.sqrt(values[kept])


def feature_map(spec: KernelSpec, n_columns: int, levels: Sequence[Array] | None = None) -> FeatureMap | None:
    """Return the features of a kernel, or None without a short list."""
    if isinstance(spec, Linear):
        return LinearFeatures(n_columns) if n_columns <= MAX_FEATURES else None
    if isinstance(spec, KernelOfFeatures):
        return OwnFeatures(spec)
    if isinstance(spec, Missing):
        return MissingFeatures(n_columns) if n_columns <= MAX_FEATURES else None
    if isinstance(spec, Polynomial) and n_columns == 1:
        return PolynomialFeatures(spec)
    if isinstance(spec, Periodic) and n_columns == 1:
        return PeriodicFeatures.create(spec)
    if slope_columns(spec) is not None:
        return None if levels is None else SlopeFeatures.create(spec, levels)
    if (
        averages_levels(spec)
        and levels is not None
        and (isinstance(spec, Overlap) or sum(map(len, levels)) <= MAX_FEATURES)
    ):
        return LevelFeatures.create(spec, levels)
    return None


def averages_levels(spec: KernelSpec) -> bool:
    """Return whether a kernel is a mean over columns of kernels on levels, or a random slope."""
    return isinstance(spec, (Overlap, Ordinal)) or slope_columns(spec) is not None
