"""Samples in the order of their times, groups of one time, the terms of the partial likelihood, and sums over them.

A *group* holds the samples of one time in one stratum, events first. Every event, or every step of Efron's correction,
is a *term*.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from manykernels.compiled import compiled

Array = NDArray[np.float64]
Positions = NDArray[np.intp]


class RiskLayout:
    """Times, events, strata and weights, sorted.

    Parameters
    ----------
    time, stratum : ndarray of shape (N,)
    event : ndarray of bool of shape (N,)
    weight : ndarray of shape (N,)
        Positive.
    efron : bool
        Efron's correction for ties, else Breslow's.
    """

    def __init__(self, time: Array, event: NDArray[np.bool_], stratum: Array, weight: Array, *, efron: bool) -> None:
        self.order: Positions = np.lexsort((~event, time, stratum))
        time, stratum = time[self.order], stratum[self.order]
        self.event = event[self.order]
        self.log_weight = np.log(weight[self.order])
        self.hits = np.where(event, weight, 0.0)
        self.steepness = 2.0 * float(self.hits.sum())
        new_stratum = np.r_[True, np.diff(stratum) != 0]
        new_group = new_stratum | np.r_[True, np.diff(time) != 0]
        self.starts: Positions = np.flatnonzero(new_group)
        self.group: Positions = np.cumsum(new_group) - 1
        self.slices = _slices(new_stratum)
        self.group_slices = _slices(new_stratum[self.starts])
        self.opens = new_stratum[self.starts]
        self.rest_starts: Positions = self.starts + np.add.reduceat(self.event.astype(np.intp), self.starts)
        self.group_ends = np.repeat([part.stop for part in self.slices], [p.stop - p.start for p in self.group_slices])
        self.group_hits = np.add.reduceat(np.where(self.event, weight[self.order], 0.0), self.starts)
        self._lay_out_terms(efron)

    def _lay_out_terms(self, efron: bool) -> None:
        """One term for each group with events, or with Efron's correction one for each event."""
        counts = np.add.reduceat(self.event.astype(np.intp), self.starts)
        steps = counts if efron else np.minimum(counts, 1)
        self.term_group: Positions = np.repeat(np.arange(len(counts)), steps)
        firsts = np.cumsum(steps) - steps
        step = np.arange(len(self.term_group)) - firsts[self.term_group]
        self.left = 1.0 - step / np.maximum(counts[self.term_group], 1) if efron else np.ones(len(step))
        self.size = self.group_hits[self.term_group] / steps[self.term_group]
        self.log_unit = np.log(self.group_hits[self.term_group] * self.left)
        self.has_term = steps > 0
        self.term_starts: Positions = firsts[self.has_term]
        self.counts, self.steps, self.first_term = counts, steps, firsts
        shares = np.exp(self.log_weight) / np.where(self.group_hits > 0, self.group_hits, 1.0)[self.group]
        self.tie_shares = np.where(self.event, shares, 0.0)

    def sums_at_risk(self, values: Array) -> Array:
        """Return the sums of sorted values over all at risk at each group, and without its events, (2, G)."""
        return np.asarray(sums_at_risk(values, self.event, self.starts, self.opens))

    def sums_before(self, own: Array, own_of_hits: Array) -> Array:
        """Return for each sorted sample the sum over groups before its own, and the part of its own, (N,)."""
        return np.asarray(sums_before(own, own_of_hits, self.event, self.starts, self.opens))

    def sums_of_terms(self, terms: Array) -> Array:
        """Return the sums of the terms of each group, (G,)."""
        sums = np.zeros(len(self.starts))
        if len(terms):
            sums[self.has_term] = np.add.reduceat(terms, self.term_starts)
        return sums

    def unsorted(self, values: Array) -> Array:
        """Return sorted values in the order of the samples."""
        found = np.empty_like(values)
        found[self.order] = values
        return found


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


def _slices(new: NDArray[np.bool_]) -> list[slice]:
    """Return the slices that begin where ``new`` is true."""
    ends = np.r_[np.flatnonzero(new), len(new)]
    return [slice(int(start), int(stop)) for start, stop in pairwise(ends)]
