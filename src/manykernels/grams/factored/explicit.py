"""Kernels with finitely many features: linear kernels, polynomials of one column. Exact, whatever N."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np

from manykernels.grams.factored.base import CHUNK_ROWS, ROUNDING, FactoredStack
from manykernels.grams.factored.columns import ColumnTable
from manykernels.kernels import KernelSpec, Linear, Polynomial
from manykernels.validation.arrays import Array

MAX_FEATURES = 500


def explicit_rank(spec: KernelSpec, n_columns: int) -> int | None:
    """Return how many features a kernel has, or None where there is no short list of them."""
    if isinstance(spec, Linear):
        return n_columns if n_columns <= MAX_FEATURES else None
    if isinstance(spec, Polynomial) and n_columns == 1:
        return spec.degree + 1
    return None


def explicit_features(spec: KernelSpec, points: Array) -> Array:
    """Return features whose inner products are the kernel, (n, rank).

    ``(scale x z + offset)^degree = sum_k comb(degree, k) scale^k offset^(degree - k) x^k z^k``.
    """
    if isinstance(spec, Linear):
        return points
    assert isinstance(spec, Polynomial)
    k = np.arange(spec.degree + 1)
    weights = [comb(spec.degree, int(p)) * spec.scale**p * spec.offset ** (spec.degree - p) for p in k.tolist()]
    return np.sqrt(weights) * points**k


class ExplicitStack(FactoredStack):
    """Linear kernels and one-column polynomials by their features.

    Parameters
    ----------
    table : ColumnTable
    positions : sequence of tuple of int
        The columns of every kernel.
    specs : sequence of KernelSpec
        Kernels for which `explicit_rank` is a number.
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
    ) -> None:
        super().__init__(len(specs), table.n_rows, np.float64, names=names)
        self.table, self.positions, self.specs = table, tuple(positions), tuple(specs)
        self.scales = np.asarray(scales, dtype=np.float64)

    def _rows(self, kernel: int, table: ColumnTable, rows: Any = slice(None)) -> Array:
        points = table.points(self.positions[kernel], rows)
        return explicit_features(self.specs[kernel], points) * np.sqrt(self.scales[kernel])

    def factor(self, kernel: int, tol: float) -> Array:
        """Return the features, which leave nothing."""
        return self._rows(kernel, self.table)

    def features(self, kernel: int, X: ColumnTable, tol: float) -> Array:
        """Return the features of new samples."""
        return self._rows(kernel, X)

    def _chunks_of_rows(self) -> list[slice]:
        return [slice(start, start + CHUNK_ROWS) for start in range(0, self.n_samples, CHUNK_ROWS)]

    def _quad(self, r: Array) -> Array:
        out = np.empty(self.n_kernels)
        for m in range(self.n_kernels):
            total = sum(self._rows(m, self.table, rows).T @ r[rows] for rows in self._chunks_of_rows())
            out[m] = float(np.sum(np.square(total)))
        return out

    def _apply_each(self, columns: Array, kernels: Array) -> Array:
        out = np.empty((len(kernels), self.n_samples, columns.shape[1]))
        for slot, m in enumerate(kernels):
            Z = self._rows(int(m), self.table)
            out[slot] = Z @ (Z.T @ columns)
        return out

    @property
    def error_constants(self) -> Array:
        """Rounding beside ``||rho||_1^2``: the features are exact."""
        return ROUNDING * np.array([float(self._kernel_diag(m).max()) for m in range(self.n_kernels)])

    def _block(self, rows: Array, cols: Array, kernels: Array) -> Array:
        out = np.empty((len(kernels), len(rows), len(cols)))
        for slot, m in enumerate(kernels):
            left, right = (self.table.points(self.positions[m], index) for index in (rows, cols))
            out[slot] = self.scales[m] * self.specs[m](left, right)
        return out

    def _kernel_diag(self, kernel: int) -> Array:
        return self.scales[kernel] * self.specs[kernel].diag(self.table.points(self.positions[kernel]))

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

    def columns_of(self, kernel: int) -> tuple[int, ...]:
        """Return the columns that a kernel acts on."""
        return self.positions[kernel]

    def cross_apply(self, kernel: int, X: ColumnTable, rho: Array) -> Array:
        """Return ``sum_i rho_i k_m(x, x_i)`` at new rows, (n,), from kernel values."""
        columns, support = self.positions[kernel], np.flatnonzero(rho)
        block = self.specs[kernel](X.points(columns), self.table.points(columns, support))
        return self.scales[kernel] * (block @ rho[support])

    def _take(self, kernels: Array) -> ExplicitStack:
        positions, specs = [self.positions[m] for m in kernels], [self.specs[m] for m in kernels]
        return ExplicitStack(self.table, positions, specs, self.scales[kernels], names=self._names_of(kernels))
