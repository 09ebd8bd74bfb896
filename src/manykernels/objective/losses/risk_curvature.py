"""Second derivatives of the partial likelihood without a matrix among samples: sums over sorted times, linear in N.

With the shares ``p_e`` of the samples at risk at each term, the Hessian is ``diag(h) - sum_e c_e p_e p_e'``, where
``h`` are the hazards. Its product with a vector takes a cumulative sum of it; ``Z' H Z`` takes one a column of ``Z``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from manykernels.compiled import compiled

if TYPE_CHECKING:
    from manykernels.objective.losses.risk_sets import RiskSets

Array = NDArray[np.float64]
Positions = NDArray[np.intp]


class RiskCurvature:
    """The Hessian at some scores, of all samples, or as some of them estimate it.

    Of every group (the samples of one time in one stratum) it knows the sums ``b`` over all at risk, and ``a`` over
    those at risk without the events of the group: a term with the share ``l`` of its tie left has the sum
    ``l b + (1 - l) a``.

    Parameters
    ----------
    sets : RiskSets
    weights : ndarray of shape (N,)
        ``s_j exp(z_j)`` in the order of ``sets``, up to a factor of each stratum; zero for samples that are left out.
    kept : ndarray of int, optional
        Places of the samples that are not left out, in that order.

    Attributes
    ----------
    bends : ndarray of shape (N,)
        ``h``, a diagonal matrix that is nowhere below the Hessian.
    rows : ndarray of int
        The samples that are not left out, in the order of the rows of ``Z`` for `gram`.
    """

    def __init__(self, sets: RiskSets, weights: Array, kept: Positions | None = None) -> None:
        self._sets, self._weights = sets, weights
        self._kept = np.arange(len(weights)) if kept is None else kept
        self.rows = sets.order[self._kept]
        before, after = sets.sums_at_risk(weights)
        left, owner = sets.left, sets.term_group
        totals = left * before[owner] + (1.0 - left) * after[owner]
        rates = np.divide(sets.size, totals, out=np.zeros(len(totals)), where=totals > 0)
        twice = np.divide(rates, totals, out=np.zeros(len(totals)), where=totals > 0)
        self._both, self._mixed, self._rest = (
            sets.sums_of_terms(twice * part) for part in (left**2, left * (1.0 - left), (1.0 - left) ** 2)
        )
        spread = sets.sums_before(sets.sums_of_terms(rates), sets.sums_of_terms(rates * left))
        self._sorted_bends = weights * spread
        self.bends = sets.unsorted(self._sorted_bends)

    def of_rows(self, rows: Positions, factors: Array) -> RiskCurvature:
        """Return the Hessian as these rows estimate it, each standing for ``factors`` samples.

        Parameters
        ----------
        rows : ndarray of int
        factors : ndarray of float

        Returns
        -------
        RiskCurvature
            Positive semidefinite too: risk sets are those of the rows.
        """
        spread = np.zeros(len(self._weights))
        spread[rows] = factors
        sorted_factors = spread[self._sets.order]
        return RiskCurvature(self._sets, self._weights * sorted_factors, np.flatnonzero(sorted_factors))

    def product(self, x: Array) -> Array:
        """Return the Hessian times a vector (N,).

        Parameters
        ----------
        x : ndarray of shape (N,)

        Returns
        -------
        ndarray of shape (N,)
        """
        sets, ordered = self._sets, x[self._sets.order]
        before, after = sets.sums_at_risk(self._weights * ordered)
        of_hits = self._both * before + self._mixed * after
        own = of_hits + self._mixed * before + self._rest * after
        return sets.unsorted(self._sorted_bends * ordered - self._weights * sets.sums_before(own, of_hits))

    def gram(self, Z: Array) -> Array:
        """Return ``Z' H Z`` (r, r) for the rows of ``Z`` (n, r) at ``rows``.

        Parameters
        ----------
        Z : ndarray of shape (n, r)

        Returns
        -------
        ndarray of shape (r, r)
        """
        scaled = Z * np.sqrt(self._sorted_bends[self._kept])[:, None]
        found = scaled.T @ scaled
        sums = np.multiply(Z, self._weights[self._kept][:, None], out=scaled)
        for part in self._sets.slices:
            low, high = np.searchsorted(self._kept, (part.start, part.stop))
            np.cumsum(sums[low:high][::-1], axis=0, out=sums[low:high][::-1])
        alone, (first, second, mixed) = self._factors_of_sums()
        if len(mixed):
            cross = sums[first].T @ (mixed[:, None] * sums[second])
            found -= cross + cross.T
        sums *= np.sqrt(alone)[:, None]
        found -= sums.T @ sums
        return np.asarray(found)

    def _factors_of_sums(self) -> tuple[Array, tuple[Positions, Positions, Array]]:
        """Return how much each sum over rows and those behind it counts, and which pairs of sums count how much."""
        sets, n = self._sets, len(self._kept)
        first = np.searchsorted(self._kept, sets.starts)
        second = np.searchsorted(self._kept, sets.rest_starts)
        ends = np.searchsorted(self._kept, sets.group_ends)
        some, rest = first < ends, second < ends
        together = some & (first == second)
        alone = np.zeros(n)
        for where, factors, at in (
            (some, self._both, first),
            (rest, self._rest, second),
            (together, 2.0 * self._mixed, first),
        ):
            alone += np.bincount(at[where], factors[where], n)
        apart = rest & (first != second) & (self._mixed > 0)
        return alone, (first[apart], second[apart], self._mixed[apart])


@compiled()
def sums_at_risk(values: Array, event: NDArray[np.bool_], starts: Positions, opens: NDArray[np.bool_]) -> Array:
    """Return the sums over all at risk at each group, and over these without its events, (2, G)."""
    found = np.zeros((2, starts.size))
    total, stop = 0.0, values.size
    for g in range(starts.size - 1, -1, -1):
        hit = 0.0
        for i in range(starts[g], stop):
            if event[i]:
                hit += values[i]
            else:
                total += values[i]
        found[1, g] = total
        total += hit
        found[0, g] = total
        stop = starts[g]
        if opens[g]:
            total = 0.0
    return found


@compiled()
def sums_before(
    own: Array, own_of_hits: Array, event: NDArray[np.bool_], starts: Positions, opens: NDArray[np.bool_]
) -> Array:
    """Return for each sample the sum over the groups before its own, and what its own adds, (N,)."""
    found = np.empty(event.size)
    total = 0.0
    for g in range(starts.size):
        if opens[g]:
            total = 0.0
        stop = starts[g + 1] if g + 1 < starts.size else event.size
        for i in range(starts[g], stop):
            found[i] = total + (own_of_hits[g] if event[i] else own[g])
        total += own[g]
    return found
