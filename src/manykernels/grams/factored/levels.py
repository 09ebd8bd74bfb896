"""Kernels of categories held as the level of every row: as many features as there are levels, an entry per row.

``Z' W Z`` of a single column is diagonal, so a column may have as many levels as it has rows: a product reads the level
of every row, and no matrix of levels is formed (`solvers.factored.quadratic_products`).
"""

from __future__ import annotations

import copy

import numpy as np

from manykernels.grams.factored.features import LevelFeatures, SlopeFeatures
from manykernels.grams.factored.operators import FeatureOperator
from manykernels.grams.rows.columns import ColumnTable, RowIndex
from manykernels.validation.arrays import Array

FEW_LEVELS = 64  # of all columns of a kernel, whose features are an array and take part in Hessians


class LevelOperator(FeatureOperator):
    """Indicators of the levels of a few columns, side by side: an `Overlap` kernel."""

    _map: LevelFeatures
    _codes: list[Array]  # (n,) int32 for each column: which feature is one, `rank` for none

    @property
    def matrix_free(self) -> bool:
        """True if there are too many features for a Hessian, so solvers use products only."""
        return self.rank > FEW_LEVELS

    @property
    def small(self) -> bool:
        """True if features are kept as an array."""
        return not self.matrix_free and super().small

    @property
    def level_columns(self) -> int:
        """Largest number of nonzero features in a row, the bound on ``Z' W Z`` over the diagonal."""
        return len(self.positions)

    def transfer(self, table: ColumnTable) -> LevelOperator:
        """Return the same features of other rows, with cached levels."""
        if table is self._table:
            return self
        other = copy.copy(self)
        other._table, other._codes = table, self._map.places(table, self.positions)
        return other

    @property
    def _size(self) -> float:
        """Return the value of an entry."""
        return self.root / float(np.sqrt(self.level_columns))

    @property
    def codes(self) -> Array:
        """Nonzero feature of every row, `rank` for none, (n,) int32, of a single column."""
        (codes,) = self._codes
        return codes

    def values(self, V: Array) -> Array:
        """Return the scores of coefficients (T, rank) for every code, (T, rank + 1)."""
        return np.pad(self._size * V, ((0, 0), (0, 1)))

    def add_scores(self, v: Array, out: Array) -> None:
        (values,) = self.values(v[None])
        for codes in self._codes:
            out += values[codes]

    def adjoint(self, rho: Array) -> Array:
        """Return ``Z' rho``, of a single vector or of several in columns."""
        columns = rho.reshape(len(rho), -1).T
        sums = [[np.bincount(codes, column, self.rank + 1) for codes in self._codes] for column in columns]
        return self._size * np.sum(sums, axis=1)[:, :-1].T.reshape(self.rank, *rho.shape[1:])

    def diagonal(self, weights: Array) -> Array:
        """Return the diagonal of ``Z' diag(weights) Z``, (rank,)."""
        return self._size * self.adjoint(weights)

    def rows(self, index: RowIndex) -> Array:
        codes = [own[index] for own in self._codes]
        out = np.zeros((len(codes[0]), self.rank + 1))
        for own in codes:
            out[np.arange(len(own)), own] = self._size
        return out[:, :-1]


class SlopeOperator(LevelOperator):
    """Levels of a column times numbers of another one: a random slope, still a single entry a row."""

    _map: SlopeFeatures
    _slopes: Array  # (n,) float64: the numbers, zero where something is missing

    level_columns = 1

    def transfer(self, table: ColumnTable) -> SlopeOperator:
        if table is self._table:
            return self
        other = super().transfer(table)
        assert isinstance(other, SlopeOperator)
        known, values = table.present(self.positions), table.values(self.positions[self._map.columns[1]])
        other._slopes = values if known is None else np.where(known, values, 0.0)
        return other

    def add_scores(self, v: Array, out: Array) -> None:
        levels = np.zeros(len(self._slopes))
        super().add_scores(v, levels)
        out += self._slopes * levels

    def adjoint(self, rho: Array) -> Array:
        return super().adjoint((self._slopes * rho.T).T)

    def diagonal(self, weights: Array) -> Array:
        return self._size * self.adjoint(self._slopes * weights)

    def rows(self, index: RowIndex) -> Array:
        return self._slopes[index][:, None] * super().rows(index)
