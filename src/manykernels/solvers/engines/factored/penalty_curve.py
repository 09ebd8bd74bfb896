"""First and second derivatives of a group penalty on the groups that are not zero, in coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.compiled import compiled
from manykernels.solvers.engines.factored.group_penalty import GroupPenalty

Array = NDArray[Any]


@compiled()
def add_radial(system: Array, starts: Array, unit: Array, weights: Array) -> None:
    """Add ``weights[m] n_m n_m'`` to the diagonal blocks."""
    for m in range(weights.size):
        low, high = starts[m], starts[m + 1]
        for i in range(low, high):
            for j in range(low, high):
                system[i, j] += weights[m] * unit[i] * unit[j]


@dataclass(frozen=True)
class PenaltyCurve:
    """With ``n_m = v_m / t_m``: ``pull (I - n n') + bend n n'`` in every group, and ``g g'`` across groups.

    Attributes
    ----------
    free : (r,) bool
        Coordinates of groups that are not zero, or have no penalty.
    gradient : (r,)
    unit, pull : (r,)
        ``n`` and ``Omega' / t`` of each coordinate's group.
    radial : (G,)
        ``bend - pull``.
    coupling : (G,)
        ``g``.
    starts : (G + 1,)
    """

    free: Array
    gradient: Array
    unit: Array
    pull: Array
    radial: Array
    coupling: Array
    starts: Array

    @classmethod
    def at(cls, penalty: GroupPenalty, v: Array) -> PenaltyCurve:
        """Return the derivatives at ``v``; zero on groups at zero."""
        norms = penalty.norms(v)
        slopes, (bends, coupling) = penalty.slopes(norms), penalty.bends(norms)
        owner = np.repeat(np.arange(len(norms)), np.diff(penalty.starts))
        alive, safe = norms > 0, np.where(norms > 0, norms, 1.0)
        pull = np.where(alive, slopes / safe, 0.0)
        bare = (penalty.linear == 0) & (penalty.curvature == 0) & (penalty.power == 0)
        radial = np.where(alive, bends - pull, 0.0)
        return cls(
            (alive | bare)[owner],
            pull[owner] * v,
            v / safe[owner],
            pull[owner],
            radial,
            np.where(alive, coupling, 0.0),
            penalty.starts,
        )

    def add_to(self, system: Array) -> None:
        """Add the second derivatives in free coordinates to a matrix of these."""
        sizes = np.diff(self.starts)
        kept = self.free[self.starts[:-1]]
        unit = self.unit[self.free]
        system[np.diag_indices_from(system)] += self.pull[self.free]
        add_radial(system, np.concatenate([[0], np.cumsum(sizes[kept])]), unit, self.radial[kept])
        if self.coupling.any():
            g = np.repeat(self.coupling, sizes)[self.free] * unit
            system += np.outer(g, g)

    def product(self, d: Array) -> Array:
        """Return the second derivatives times ``d``, which is zero outside the free coordinates."""
        sizes = np.diff(self.starts)
        along = np.add.reduceat(self.unit * d, self.starts[:-1])
        weights = self.radial * along + self.coupling * float(self.coupling @ along)
        return self.pull * d + np.repeat(weights, sizes) * self.unit
