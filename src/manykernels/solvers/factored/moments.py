"""Sums over rows that training folds share: those of a fold are the sums over all rows less those held out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.grams.factored import FactorOperator
from manykernels.grams.factored.operators import CHUNK_ROWS

Array = NDArray[Any]


class FoldMoments:
    """``[Z, 1]' S [Z, 1]`` and ``[Z, 1]' S Y`` of the training rows of every fold, for factors that may grow in number.

    Parameters
    ----------
    Y : (N, T) float64
        Targets.
    weight : (N,) float64
        Of the samples, ``S`` as a diagonal.
    held : (N,) int
        The fold that holds a row out, -1 for none.
    n_folds : int
    shared : bool, default=True
        Whether sums of a fold are differences, so that each row is read once; otherwise every fold reads its own rows.
    """

    def __init__(self, Y: Array, weight: Array, held: Array, n_folds: int, *, shared: bool = True) -> None:
        self.Y, self.weight, self.held, self.n_folds, self.shared = Y, weight, held, n_folds, shared
        self.operators: list[FactorOperator] = []
        self.rank = 0
        self._grams = [self._part(rows, [], []) for rows in self._rows()]
        self._inner = [(weight[rows] @ Y[rows])[None] for rows in self._rows()]
        self._add_up()

    def emptied(self) -> FoldMoments:
        """Return the sums of the same folds without any factor."""
        return FoldMoments(self.Y, self.weight, self.held, self.n_folds, shared=self.shared)

    def _rows(self) -> list[Array]:
        """Return the rows of every sum: those each fold holds out and those none does, or its training rows."""
        if self.shared:
            return [np.flatnonzero(self.held == fold) for fold in chain(range(self.n_folds), [-1])]
        return [np.flatnonzero(self.held != fold) for fold in range(self.n_folds)]

    @property
    def kernels(self) -> Array:
        """Kernels of the factors, in their order."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *(operator.kernels for operator in self.operators)])

    @property
    def starts(self) -> Array:
        """Where the coefficients of each kernel begin, and the rank."""
        return starts_of(self.operators)

    def grow(self, operators: Sequence[FactorOperator]) -> None:
        """Add factors; only sums with the new ones are computed."""
        old = list(self.operators)
        for at, rows in enumerate(self._rows()):
            self._grams[at] = self._bordered(self._grams[at], self._part(rows, old, operators))
            inner = [np.column_stack([operator.adjoint(y) for y in self._masked(rows).T]) for operator in operators]
            self._inner[at] = np.concatenate([self._inner[at][:-1], *inner, self._inner[at][-1:]])
        self.operators += operators
        self.rank = int(self.starts[-1])
        self._add_up()

    def _add_up(self) -> None:
        """Keep the sums over all rows, from which those of a fold are subtracted."""
        if self.shared:
            self._total: Array = np.add.reduce(self._grams)
            self._total_inner: Array = np.add.reduce(self._inner)

    def _masked(self, rows: Array) -> Array:
        """Return the weighted targets on some rows, zero on the others."""
        out = np.zeros_like(self.Y)
        out[rows] = self.weight[rows, None] * self.Y[rows]
        return np.asfortranarray(out)

    def _part(self, rows: Array, old: Sequence[FactorOperator], new: Sequence[FactorOperator]) -> Array:
        """Return ``[Z_old, Z_new, 1]' S [Z_new, 1]`` over some rows."""
        total: Any = 0.0
        for start in range(0, max(len(rows), 1), CHUNK_ROWS):
            index = rows[start : start + CHUNK_ROWS]
            fresh = np.hstack([operator.rows(index) for operator in new] + [np.ones((len(index), 1))])
            every = np.hstack([operator.rows(index) for operator in old] + [fresh])
            total = total + every.T @ (self.weight[index, None] * fresh)
        return np.asarray(total)

    def _bordered(self, gram: Array, part: Array) -> Array:
        """Return a gram with new factors before its last row and column, those of ones."""
        before, size = len(gram) - 1, len(part)
        out = np.empty((size, size))
        out[:before, :before] = gram[:-1, :-1]
        out[:, before:] = part
        out[before:, :before] = part[:before].T
        return out

    def of(self, fold: int) -> tuple[Array, Array]:
        """Return ``[Z, 1]' S [Z, 1]`` and ``[Z, 1]' S Y`` over the training rows of a fold."""
        if not self.shared:
            return self._grams[fold], self._inner[fold]
        return self._total - self._grams[fold], self._total_inner - self._inner[fold]

    def slopes(self, fold: int, target: int, v: Array) -> Array:
        """Return ``[Z, 1]' S ([Z, 1] v - y)`` over the training rows of a fold."""
        if not self.shared:
            return np.asarray(self._grams[fold] @ v - self._inner[fold][:, target])
        inner = self._total_inner[:, target] - self._inner[fold][:, target]
        return np.asarray(self._total @ v - self._grams[fold] @ v - inner)

    def scores(self, v: Array) -> Array:
        """Return ``[Z, 1] v`` of all rows."""
        out, start = np.full(len(self.Y), v[-1]), 0
        for operator in self.operators:
            stop = start + int(operator.starts[-1])
            if v[start:stop].any():
                operator.add_scores(v[start:stop], out)
            start = stop
        return out


def starts_of(operators: Sequence[FactorOperator]) -> Array:
    """Return where the coefficients of each kernel of these operators begin, and the rank."""
    ranks = [np.diff(operator.starts) for operator in operators]
    return np.concatenate([[0], np.cumsum(np.concatenate([np.zeros(0, dtype=np.int64), *ranks]))]).astype(np.int64)
