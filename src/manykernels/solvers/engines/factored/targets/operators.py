"""Factors of ``K (x) I``, kernels on a copy of the samples for every target: coordinates by kernel, target and rank."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.grams.factored import FactorOperator
from manykernels.grams.factored.operators import DenseOperator

Array = NDArray[Any]


class OperatorOfTargets:
    """The factors of an operator, once for every target; vectors over rows are those of target after target, (T N,).

    Parameters
    ----------
    base : FactorOperator
        Of one copy of the samples.
    n_targets : int

    Attributes
    ----------
    place : (T, r) int
        Where the coefficients of each target stand.
    """

    def __init__(self, base: FactorOperator, n_targets: int) -> None:
        self.base, self.n_targets = base, n_targets
        self.kernels, self.positions, self.starts = base.kernels, base.positions, base.starts * n_targets
        parts = [n_targets * low + np.arange(n_targets * (high - low)) for low, high in pairwise(base.starts.tolist())]
        self.place = np.hstack([part.reshape(n_targets, -1) for part in parts])

    def add_scores(self, v: Array, out: Array) -> None:
        """Add ``Z v_t`` to the scores of every target."""
        parts, scores = v[self.place], out.reshape(self.n_targets, -1)
        if isinstance(self.base, DenseOperator):
            self.base.add_scores(parts.T, scores.T)
            return
        for part, own in zip(parts, scores, strict=True):
            if part.any():
                self.base.add_scores(part, own)

    def adjoint(self, rho: Array) -> Array:
        """Return ``Z' rho_t`` of every target."""
        columns, out = rho.reshape(self.n_targets, -1), np.empty(self.place.size)
        if isinstance(self.base, DenseOperator):
            out[self.place] = self.base.adjoint(columns.T).T
        else:
            out[self.place] = [self.base.adjoint(column) for column in columns]
        return out

    def rows(self, index: Array) -> Array:
        """Return rows of ``Z``, which all targets have."""
        return self.base.rows(index)

    def excess(self, v: Array) -> tuple[Array, Array]:
        """Bound what the exact kernels add: squared norms over all targets, and the largest change of any score."""
        squares, scores = zip(*(self.base.excess(part) for part in v[self.place]), strict=True)
        return np.sum(squares, axis=0), np.max(scores, axis=0)


def places(operators: Sequence[OperatorOfTargets]) -> Array:
    """Return where the coefficients of each target stand among those of several operators, (T, r)."""
    lows = np.cumsum([0] + [operator.place.size for operator in operators])[:-1]
    return np.hstack([operator.place + low for operator, low in zip(operators, lows, strict=True)])
