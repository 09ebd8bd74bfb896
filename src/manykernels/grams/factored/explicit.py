"""Kernels with few features: linear, one-column polynomials and periodic ones, categories, ranks, missingness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from manykernels.grams.factored.base import CHUNK_ROWS, ROUNDING, DenseOperator, FactoredStack, FactorOperator
from manykernels.grams.factored.columns import ColumnTable
from manykernels.grams.factored.features import MAX_FEATURES, FeatureMap, by_levels, feature_map
from manykernels.kernels import KernelSpec
from manykernels.validation.arrays import Array

STORED = 2**25  # entries of features that are kept rather than computed in every product: 256 MB


def levels_of(spec: KernelSpec, positions: tuple[int, ...], table: ColumnTable) -> list[Array] | None:
    """Return the different values of the columns of a kernel on levels, or None where they are too many."""
    if not by_levels(spec):
        return None
    found: list[Array] = []
    for column in positions:
        own = table.levels(column, MAX_FEATURES)
        if own is None:
            return None
        found.append(own)
    return found


class ExplicitStack(FactoredStack):
    """Kernels by their features: linear, one-column polynomial and periodic, overlap, ordinal, missingness.

    Parameters
    ----------
    table : ColumnTable
    positions : sequence of tuple of int
        The columns of every kernel.
    specs : sequence of KernelSpec
        Kernels that `feature_map` knows features of.
    scales : (M,) float
    names : sequence of str, optional
    """

    def __init__(
        self,
        table: ColumnTable,
        positions: Sequence[tuple[int, ...]],
        specs: Sequence[KernelSpec],
        scales: Array,
        *,
        names: Sequence[str] | None = None,
        maps: Sequence[FeatureMap] | None = None,
    ) -> None:
        super().__init__(len(specs), table.n_rows, np.float64, names=names)
        self.table, self.positions, self.specs = table, tuple(positions), tuple(specs)
        self.scales = np.asarray(scales, dtype=np.float64)
        self._maps = tuple(maps) if maps is not None else tuple(map(self._map, range(self.n_kernels)))

    def _map(self, kernel: int) -> FeatureMap:
        spec, positions = self.specs[kernel], self.positions[kernel]
        found = feature_map(spec, len(positions), levels_of(spec, positions, self.table))
        assert found is not None
        return found

    def spec_of(self, kernel: int) -> KernelSpec:
        """Return a kernel by itself."""
        return self.specs[kernel]

    def columns_of(self, kernel: int) -> tuple[int, ...]:
        """Return the columns that a kernel acts on."""
        return self.positions[kernel]

    def _operator(self, kernel: int) -> FeatureOperator:
        positions, spec, scale = self.positions[kernel], self.specs[kernel], float(self.scales[kernel])
        return FeatureOperator(kernel, positions, spec, self._maps[kernel], scale, self.table)

    def _rows(self, kernel: int, table: ColumnTable) -> Array:
        return self._operator(kernel).over(table).rows(slice(None))

    def factor(self, kernel: int, tol: float) -> Array:
        """Return the features, which leave nothing but rounding."""
        return self._rows(kernel, self.table)

    def features(self, kernel: int, X: ColumnTable, tol: float) -> Array:
        """Return the features of new samples."""
        return self._rows(kernel, X)

    def operators(self, kernels: Sequence[int], tol: float) -> list[FactorOperator]:
        """Return one operator a kernel; features that would take much memory are computed when they are needed."""
        made: list[FactorOperator] = []
        for m in kernels:
            operator = self._operator(int(m))
            small = operator.rank * self.n_samples <= STORED
            made.append(DenseOperator(operator.kernels, [operator.rows(slice(None))]) if small else operator)
        return made

    def _quad(self, r: Array) -> Array:
        return np.array([float(np.sum(self._operator(m).adjoint(r) ** 2)) for m in range(self.n_kernels)])

    def _apply_each(self, columns: Array, kernels: Array) -> Array:
        out = np.empty((len(kernels), self.n_samples, columns.shape[1]))
        for slot, m in enumerate(kernels):
            Z = self._rows(int(m), self.table)
            out[slot] = Z @ (Z.T @ columns)
        return out

    @property
    def error_constants(self) -> Array:
        """Rounding beside ``||rho||_1^2``, and the tails of series."""
        largest = np.array([float(self._kernel_diag(m).max()) for m in range(self.n_kernels)])
        return ROUNDING * largest + self.scales * [found.tail for found in self._maps]

    @property
    def nbytes(self) -> int:
        """Bytes of the columns, which the stack reads in place."""
        return self.table.columns.nbytes

    def exact_quad(self, kernel: int, rho: Array) -> tuple[float, float]:
        """Return the value from features, which is exact."""
        one = self._take(np.array([kernel]))
        return float(one.quad(rho)[0]), float(one.error_bound(rho)[0])

    @property
    def exact_cost(self) -> float:
        """Rows that one product reads."""
        return float(self.n_samples)

    def _take(self, kernels: Array) -> ExplicitStack:
        return ExplicitStack(
            self.table,
            [self.positions[m] for m in kernels],
            [self.specs[m] for m in kernels],
            self.scales[kernels],
            names=self._names_of(kernels),
            maps=[self._maps[m] for m in kernels],
        )


class FeatureOperator:
    """Features of one kernel, computed whenever they are needed, a few rows at a time."""

    def __init__(
        self,
        kernel: int,
        positions: tuple[int, ...],
        spec: KernelSpec,
        features: FeatureMap,
        scale: float,
        table: ColumnTable,
    ) -> None:
        self.kernels, self.rank = np.array([kernel]), features.rank
        self.starts = np.array([0, self.rank])
        self._positions, self._spec, self._map, self._root = positions, spec, features, float(np.sqrt(scale))
        self._table = table

    def over(self, table: ColumnTable) -> FeatureOperator:
        """Return the same features of other rows."""
        other = FeatureOperator.__new__(FeatureOperator)
        other.__dict__.update(self.__dict__)
        other._table = table
        return other

    def _slices(self) -> list[slice]:
        n = self._table.n_rows
        return [slice(start, min(start + CHUNK_ROWS, n)) for start in range(0, n, CHUNK_ROWS)]

    def rows(self, index: Any) -> Array:
        """Return rows of ``Z``."""
        reading = self._table.reading(self._spec, self._positions, index)
        return reading.masked(self._map(reading.points) * self._root)

    def add_scores(self, v: Array, out: Array) -> None:
        """Add ``Z v`` to ``out``."""
        for rows in self._slices():
            out[rows] += self.rows(rows) @ v

    def adjoint(self, rho: Array) -> Array:
        """Return ``Z' rho``."""
        return sum((rho[rows] @ self.rows(rows) for rows in self._slices()), start=np.zeros(self.rank))

    def excess(self, v: Array) -> tuple[Array, Array]:
        """Nothing: what features leave out is positive definite, so that their functions are the kernel's."""
        return np.zeros(1), np.zeros(1)
