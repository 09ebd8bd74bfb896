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
    """``[Z, 1]' [Z, 1]`` and ``[Z, 1]' y`` of the training rows of every fold, for factors that may grow in number.

    Parameters
    ----------
    y : (N,) float64
    held : (N,) int
        The fold that holds a row out, -1 for none.
    n_folds : int
    shared : bool, default=True
        Whether sums of a fold are differences, so that each row is read once; otherwise every fold reads its own rows.
    """

    def __init__(self, y: Array, held: Array, n_folds: int, *, shared: bool = True) -> None:
        self.y, self.held, self.n_folds, self.shared = y, held, n_folds, shared
        self.operators: list[FactorOperator] = []
        self.rank = 0
        self._grams = [self._part(rows, [], []) for rows in self._rows()]
        self._inner = [np.array([self.y[rows].sum()]) for rows in self._rows()]

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
        ranks = [np.diff(operator.starts) for operator in self.operators]
        return np.concatenate([[0], np.cumsum(np.concatenate([np.zeros(0, dtype=np.int64), *ranks]))]).astype(np.int64)

    def grow(self, operators: Sequence[FactorOperator]) -> None:
        """Add factors; only sums with the new ones are computed."""
        old = list(self.operators)
        for at, rows in enumerate(self._rows()):
            self._grams[at] = self._bordered(self._grams[at], self._part(rows, old, operators))
            inner = [operator.adjoint(self._masked(rows)) for operator in operators]
            self._inner[at] = np.concatenate([self._inner[at][:-1], *inner, self._inner[at][-1:]])
        self.operators += operators
        self.rank = int(self.starts[-1])

    def _masked(self, rows: Array) -> Array:
        """Return the target on some rows, zero on the others."""
        out = np.zeros_like(self.y)
        out[rows] = self.y[rows]
        return out

    def _part(self, rows: Array, old: Sequence[FactorOperator], new: Sequence[FactorOperator]) -> Array:
        """Return ``[Z_old, Z_new, 1]' [Z_new, 1]`` over some rows."""
        total: Any = 0.0
        for start in range(0, max(len(rows), 1), CHUNK_ROWS):
            index = rows[start : start + CHUNK_ROWS]
            fresh = [operator.rows(index) for operator in new] + [np.ones((len(index), 1))]
            total = total + np.hstack([operator.rows(index) for operator in old] + fresh).T @ np.hstack(fresh)
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
        """Return ``[Z, 1]' [Z, 1]`` and ``[Z, 1]' y`` over the training rows of a fold."""
        if not self.shared:
            return self._grams[fold], self._inner[fold]
        others = [at for at in range(self.n_folds + 1) if at != fold]
        return sum(self._grams[at] for at in others), sum(self._inner[at] for at in others)  # type: ignore[return-value]

    def scores(self, v: Array) -> Array:
        """Return ``[Z, 1] v`` of all rows."""
        out, start = np.full(len(self.y), v[-1]), 0
        for operator in self.operators:
            stop = start + int(operator.starts[-1])
            if v[start:stop].any():
                operator.add_scores(v[start:stop], out)
            start = stop
        return out
