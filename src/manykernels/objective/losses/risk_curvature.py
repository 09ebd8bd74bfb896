"""Second derivatives of the partial likelihood without a matrix among samples: sums over sorted times, linear in N.

With the shares ``p_e`` of the samples at risk at each term, the Hessian is ``diag(h) - sum_e c_e p_e p_e'``, where
``h`` are the hazards. Its product with a vector takes a cumulative sum of it; ``Z' H Z`` takes one a column of ``Z``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from manykernels.objective.losses.risk_layout import RiskLayout

Array = NDArray[np.float64]
Positions = NDArray[np.intp]

SMALLEST_TOTAL = 1e-120
"""Sums over risk sets below this, beside the largest hazard of the stratum, have squares that underflow."""


class RiskCurvature:
    """The Hessian at some scores, of all samples, or as some of them estimate it.

    Of every group (the samples of one time in one stratum) it knows the sums ``b`` over all at risk, and ``a`` over
    those at risk without the events of the group: a term with the share ``l`` of its tie left has the sum
    ``l b + (1 - l) a``.

    Parameters
    ----------
    layout : RiskLayout
    weights : ndarray of shape (N,)
        ``s_j exp(z_j)`` in the order of ``layout``, up to a factor of each stratum; zero for samples that are left out.
    kept : ndarray of int, optional
        Places of the samples that are not left out, in that order.

    Attributes
    ----------
    bends : ndarray of shape (N,)
        ``h``, a diagonal matrix that is nowhere below the Hessian.
    rows : ndarray of int
        The samples that are not left out, in the order of the rows of ``Z`` for `gram`.
    """

    def __init__(self, layout: RiskLayout, weights: Array, kept: Positions | None = None) -> None:
        self._layout, self._weights = layout, weights
        self._kept = np.arange(len(weights)) if kept is None else kept
        self.rows = layout.order[self._kept]
        before, after = layout.sums_at_risk(weights)
        left, owner = layout.left, layout.term_group
        totals = left * before[owner] + (1.0 - left) * after[owner]
        there = totals > SMALLEST_TOTAL
        if kept is None and not there.all():
            raise FloatingPointError("hazards of two samples differ by more than a factor of 1e120: alpha is too small")
        rates = np.divide(layout.size, totals, out=np.zeros(len(totals)), where=there)
        twice = np.divide(rates, totals, out=np.zeros(len(totals)), where=there)
        self._both, self._mixed, self._rest = (
            layout.sums_of_terms(twice * part) for part in (left**2, left * (1.0 - left), (1.0 - left) ** 2)
        )
        spread = layout.sums_before(layout.sums_of_terms(rates), layout.sums_of_terms(rates * left))
        self._sorted_bends = weights * spread
        self.bends = layout.unsorted(self._sorted_bends)

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
        sorted_factors = spread[self._layout.order]
        return RiskCurvature(self._layout, self._weights * sorted_factors, np.flatnonzero(sorted_factors))

    def product(self, x: Array) -> Array:
        """Return the Hessian times a vector (N,).

        Parameters
        ----------
        x : ndarray of shape (N,)

        Returns
        -------
        ndarray of shape (N,)
        """
        layout, ordered = self._layout, x[self._layout.order]
        before, after = layout.sums_at_risk(self._weights * ordered)
        of_hits = self._both * before + self._mixed * after
        own = of_hits + self._mixed * before + self._rest * after
        return layout.unsorted(self._sorted_bends * ordered - self._weights * layout.sums_before(own, of_hits))

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
        for part in self._layout.slices:
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
        layout, n = self._layout, len(self._kept)
        first = np.searchsorted(self._kept, layout.starts)
        second = np.searchsorted(self._kept, layout.rest_starts)
        ends = np.searchsorted(self._kept, layout.group_ends)
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
