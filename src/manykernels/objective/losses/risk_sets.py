"""The partial likelihood as a function of scores: sums over risk sets by cumulative sums over sorted times.

Every event, or every step of Efron's correction, is a *term* ``c log sum_j A_j exp(z_j)``: ``A_j`` is ``s_j`` for the
samples at risk, less a share for those of the tie, divided by what the tie itself has, so that terms are not negative.
All sums are kept as logarithms, group by group: a *group* holds the samples of one time in one stratum.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky
from scipy.linalg.lapack import dpotri

from manykernels.compiled import compiled
from manykernels.objective.losses.bound import CoupledLossBound
from manykernels.objective.losses.curvature import (
    COUPLED_REACH,
    MOST_ENTRIES,
    SAMPLE_PER_RANK,
    Curvature,
    rank_of,
    sampled_rows,
)

# What the samples of a tie add to the conjugate of the partial likelihood, without a pair of every two of them.
#
# Where a dual point is a share ``c`` of slopes, a term of a tie adds ``sum_j a_j phi(x_j)`` with ``phi(x) = m log m``
# at ``m = c x + 1 - c``, ``a_j`` being the shares of the weights of the tie and ``x_j = kappa exp(z_j)``. With Efron's
# correction a tie of ``d`` events has ``d`` terms, which differ by ``kappa`` only. Since ``D(x) = c x log x - phi(x)``
# is convex and the first part sums in closed form, tangents of ``D`` at a few ``kappa`` bound all terms from above.


Array = NDArray[np.float64]
Positions = NDArray[np.intp]

NODES = 32  # terms of a tie that are summed exactly; of more, tangents at as many


@compiled()
def tie_mixtures(
    scale: float,
    z: Array,
    shares: Array,
    log_kappa: Array,
    sizes: Array,
    first_sample: Positions,
    first_term: Positions,
    counts: Positions,
    steps: Positions,
) -> float:
    """Return an upper bound of the sum over terms of ``size sum_j a_j phi(x_j)``; exact for ties of up to 32 events."""
    whole = 0.0
    for g in range(counts.size):
        low, high = first_sample[g], first_sample[g] + counts[g]
        first, last = first_term[g], first_term[g] + steps[g]
        if steps[g] <= NODES:
            for t in range(first, last):
                for j in range(low, high):
                    mixed = scale * np.exp(log_kappa[t] + z[j]) + 1.0 - scale
                    if mixed > 0.0:
                        whole += sizes[t] * shares[j] * mixed * np.log(mixed)
            continue
        top = log_kappa[first:last].max()
        bottom = log_kappa[first:last].min()
        space = max((top - bottom) / (NODES - 1), 1e-300)
        plain, scored, most = 0.0, 0.0, z[low:high].max()
        for j in range(low, high):
            plain += shares[j] * np.exp(z[j] - most)
            scored += shares[j] * np.exp(z[j] - most) * (z[j] - most)
        values, slopes = np.zeros(NODES), np.zeros(NODES)
        for k in range(NODES):
            for j in range(low, high):
                log_x = bottom + k * space + z[j]
                x = np.exp(log_x)
                mixed = scale * x + 1.0 - scale
                if x > 0.0:
                    values[k] += shares[j] * (scale * x * log_x - mixed * np.log(mixed))
                    slopes[k] += shares[j] * scale * x * (log_x - np.log(mixed))
                elif mixed > 0.0:
                    values[k] -= shares[j] * mixed * np.log(mixed)
        for t in range(first, last):
            k = min(int((log_kappa[t] - bottom) / space + 0.5), NODES - 1)
            log_most = log_kappa[t] + most
            tangent = values[k] + slopes[k] * np.expm1(log_kappa[t] - bottom - k * space)
            whole += sizes[t] * (scale * np.exp(log_most) * (log_most * plain + scored) - tangent)
    return whole


# Samples in the order of their times, groups of one time, the terms of the partial likelihood, and sums over them.
#
# A *group* holds the samples of one time in one stratum, events first. Every event, or every step of Efron's
# correction, is a *term*.


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


@compiled()
def entropies(logs: Array, z: Array, event: NDArray[np.bool_], starts: Positions, opens: NDArray[np.bool_]) -> Array:
    """Return ``sum_j p_j (T - z_j)`` over those at risk at each group without its events, (G,).

    ``p_j = exp(logs_j - T)`` add up to one. Samples are added one at a time, so that nothing is subtracted but scores
    that differ by what they matter: some may be 1e5 below the others.
    """
    found = np.zeros(starts.size)
    top, sum_, stop = -np.inf, 0.0, logs.size
    for g in range(starts.size - 1, -1, -1):
        for hits in (False, True):
            if hits:
                found[g] = sum_
            for i in range(starts[g], stop):
                if event[i] == hits and logs[i] > -np.inf:
                    both = max(top, logs[i]) + np.log1p(np.exp(-abs(top - logs[i])))
                    old, new = np.exp(top - both), np.exp(logs[i] - both)
                    kept = old * (sum_ + both - top) if old > 0.0 else 0.0
                    sum_ = kept + (new * (both - z[i]) if new > 0.0 else 0.0)
                    top = both
        stop = starts[g]
        if opens[g]:
            top, sum_ = -np.inf, 0.0
    return found


def _slices(new: NDArray[np.bool_]) -> list[slice]:
    """Return the slices that begin where ``new`` is true."""
    ends = np.r_[np.flatnonzero(new), len(new)]
    return [slice(int(start), int(stop)) for start, stop in pairwise(ends)]


# Second derivatives of the partial likelihood without a matrix among samples: sums over sorted times, linear in N.
#
# With the shares ``p_e`` of the samples at risk at each term, the Hessian is ``diag(h) - sum_e c_e p_e p_e'``, where
# ``h`` are the hazards. Its product with a vector takes a cumulative sum of it; ``Z' H Z`` takes one a column of ``Z``.


SMALLEST_TOTAL = 1e-120
"""Sums over risk sets below this, beside the largest hazard of the stratum, have squares that underflow."""


class RiskCurvature(Curvature):
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
    diagonal : ndarray of shape (N,)
        ``h``, a diagonal matrix that is nowhere below the Hessian.
    rows : ndarray of int
        The samples that are not left out, in the order of the rows of ``Z`` for `gram_of`.
    """

    reach: float = COUPLED_REACH

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
        self._sorted = weights * spread
        self.diagonal = layout.unsorted(self._sorted)

    def of_rows(self, rows: Positions, factors: Array) -> RiskCurvature:
        """Return the Hessian as these rows estimate it, each standing for ``factors`` samples."""
        spread = np.zeros(len(self._weights))
        spread[rows] = factors
        sorted_factors = spread[self._layout.order]
        return RiskCurvature(self._layout, self._weights * sorted_factors, np.flatnonzero(sorted_factors))

    def product(self, x: Array) -> Array:
        """Return the Hessian times a vector (N,)."""
        layout, ordered = self._layout, x[self._layout.order]
        before, after = layout.sums_at_risk(self._weights * ordered)
        of_hits = self._both * before + self._mixed * after
        own = of_hits + self._mixed * before + self._rest * after
        return layout.unsorted(self._sorted * ordered - self._weights * layout.sums_before(own, of_hits))

    def gram(self, operators: Sequence[Any], rows: int, *, intercept: bool) -> Array:
        """Return ``Z' H Z``, of fewer rows that of the risk sets of these rows; there is no intercept."""
        rank = rank_of(operators)
        most = max(MOST_ENTRIES // rank, SAMPLE_PER_RANK * rank)
        index, weights = sampled_rows(self.diagonal, min(rows, most))
        used = self
        if len(index) < int(np.count_nonzero(self.diagonal)):
            used = self.of_rows(index, weights / self.diagonal[index])
        return used.gram_of(np.hstack([operator.rows(used.rows) for operator in operators]))

    def gram_of(self, Z: Array) -> Array:
        """Return ``Z' H Z`` (r, r) for the rows of ``Z`` (n, r) at ``rows``."""
        scaled = Z * np.sqrt(self._sorted[self._kept])[:, None]
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


SMALLEST_CURVATURE = 1e-12  # of the largest: samples in no risk set have none
RIDGE = 1e-13  # on the unit diagonal of a scaled Hessian, before its factorization


class RiskSets(RiskLayout, CoupledLossBound):
    """The negative logarithm of the partial likelihood for given times, events, strata and weights.

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
        super().__init__(time, event, stratum, weight, efron=efron)
        self.weight = weight
        self.compared = self._samples_compared()

    def _samples_compared(self) -> list[Positions]:
        """Return for each stratum the samples that are at risk together with others at some event."""
        compared = []
        for part in self.slices:
            hit = np.flatnonzero(self.has_term[self.group[part]])
            start = self.starts[self.group[part.start + hit[0]]] if len(hit) else part.stop
            if part.stop - start > 1:
                compared.append(self.order[start : part.stop])
        return compared

    # --- sums over groups and risk sets -----------------------------------------------------------------------------

    def _at_risk(self, logs: Array) -> tuple[Array, Array]:
        """Return logarithms of the sums of ``exp(logs)`` over the events of each group, and over all others at risk."""
        hit = _reduce(np.where(self.event, logs, -np.inf), self.starts)
        rest = _reduce(np.where(self.event, -np.inf, logs), self.starts)
        both = np.logaddexp(hit, rest)
        others = rest.copy()
        for part in self.group_slices:
            later = np.logaddexp.accumulate(both[part][::-1])[::-1]
            others[part][:-1] = np.logaddexp(rest[part][:-1], later[1:])
        return hit, others

    def _totals(self, z: Array) -> tuple[Array, Array, Array]:
        """Return sorted ``log s + z``, and for each term the logarithm of its sum, and of the part without the tie."""
        logs = self.log_weight + z[self.order]
        hit, others = self._at_risk(logs)
        rest = others[self.term_group]
        return logs, np.logaddexp(rest, np.log(self.left) + hit[self.term_group]), rest

    def _by_group(self, terms: Array) -> Array:
        """Return logarithms of the sums of ``exp(terms)`` of each group."""
        sums = np.full(len(self.starts), -np.inf)
        if len(terms):
            sums[self.has_term] = np.logaddexp.reduceat(terms, self.term_starts)
        return sums

    def _before(self, sums: Array) -> Array:
        """Return logarithms of the sums over earlier groups of the stratum."""
        before = np.full_like(sums, -np.inf)
        for part in self.group_slices:
            before[part][1:] = np.logaddexp.accumulate(sums[part])[:-1]
        return before

    # --- the function -----------------------------------------------------------------------------------------------

    def value(self, z: Array) -> float:
        """Return the negative log partial likelihood less its value for the tie alone; never negative."""
        _, totals, _ = self._totals(z)
        return max(float(self.size @ (totals - self.log_unit)) - float(self.hits @ z), 0.0)

    def hazards(self, z: Array) -> Array:
        """Return the expected number of events of each sample up to its time, (N,)."""
        logs, totals, _ = self._totals(z)
        terms = np.log(self.size) - totals
        before = self._before(self._by_group(terms))[self.group]
        own = self._by_group(terms)[self.group]
        own_hit = self._by_group(terms + np.log(self.left))[self.group]
        found = np.exp(logs + np.logaddexp(before, np.where(self.event, own_hit, own)))
        return self.unsorted(found)

    def gradient(self, z: Array) -> Array:
        """Return the gradient: expected minus observed events."""
        return self.hazards(z) - self.hits

    def curvature(self, z: Array) -> RiskCurvature:
        """Return the Hessian as sums over risk sets."""
        logs = self.log_weight + z[self.order]
        tops = np.maximum.reduceat(logs, [part.start for part in self.slices])
        return RiskCurvature(self, np.exp(logs - np.repeat(tops, [part.stop - part.start for part in self.slices])))

    def hessian_blocks(self, z: Array) -> list[Array]:
        """Return the Hessian of each stratum, for the samples of ``compared``; it is zero for all others."""
        logs, totals, _ = self._totals(z)
        terms = np.log(self.size) - 2.0 * totals
        levels = [self._by_group(terms + k * np.log(self.left)) for k in range(3)]
        before = self._before(levels[0])
        hazards = self.hazards(z)
        sorted_place = np.empty(len(self.order), dtype=np.intp)
        sorted_place[self.order] = np.arange(len(self.order))
        blocks = []
        for samples in self.compared:
            first = sorted_place[samples[0]]
            part = slice(first, first + len(samples))
            own = levels[1][self.group[part]], levels[0][self.group[part]]
            row = np.logaddexp(before[self.group[part]], np.where(self.event[part], *own))
            block = self._pairs(part, row, before, levels)
            block += logs[part][:, None] + logs[part]
            block = -np.exp(block)
            block[np.diag_indices_from(block)] += hazards[samples]
            blocks.append(block)
        return blocks

    def _pairs(self, part: slice, row: Array, before: Array, levels: list[Array]) -> Array:
        """Return logarithms of ``sum_terms c a_i a_j / T^2`` for pairs of one stratum: that of the earlier sample."""
        positions = np.arange(part.stop - part.start)
        pairs = row[np.minimum.outer(positions, positions)]
        group, hits = self.group[part], self.event[part].astype(np.intp)
        by_count = np.array(levels)
        pairs[np.diag_indices_from(pairs)] = np.logaddexp(before[group], by_count[2 * hits, group])
        first, counts = np.unique(group, return_index=True, return_counts=True)[1:]
        for start, count in zip(first[counts > 1], counts[counts > 1], strict=True):
            at, g = slice(start, start + count), group[start]
            pairs[at, at] = np.logaddexp(before[g], by_count[hits[at, None] + hits[at], g])
        return pairs

    def inverse_curvature(self, z: Array) -> Array:
        """Return a matrix that inverts the Hessian on vectors that sum to zero in every stratum; zero elsewhere."""
        inverse = np.zeros((len(self.order), len(self.order)))
        blocks = self.hessian_blocks(z)
        floor = SMALLEST_CURVATURE * max((float(block.diagonal().max()) for block in blocks), default=1.0)
        for samples, block in zip(self.compared, blocks, strict=True):
            inverse[np.ix_(samples, samples)] = _inverse_up_to_shifts(block, floor)
        return inverse

    def conjugate_along(self, z: Array, scale: float) -> float:
        """Return ``sum_terms c KL(q, A)`` at ``q = scale p + (1 - scale) a``: an upper bound of the conjugate.

        ``p`` is the softmax on the risk set and ``a`` the weights of the tie, so that the mixtures add up to
        ``scale`` times the gradient. At ``scale`` 1 it is the conjugate. Of ties of more than 32 events with Efron's
        correction it is a little more, in proportion to ``1 - scale``.
        """
        if scale <= 0.0 or not len(self.term_group):
            return 0.0
        logs, totals, rest = self._totals(z)
        share = np.exp(rest - totals)
        below = entropies(logs, z[self.order], self.event, self.starts, self.opens)[self.term_group]
        level = np.log(scale) + self.log_unit - np.where(share > 0, totals - rest, 0.0) - below
        others = scale * share * np.where(share > 0, level, 0.0)
        log_kappa = np.log(self.group_hits[self.term_group] * self.left) - totals
        parts = self.starts, self.first_term, self.counts, self.steps
        tie = tie_mixtures(scale, z[self.order], self.tie_shares, log_kappa, self.size, *parts)
        return float(self.size @ others) + float(tie)

    def centered(self, values: Array) -> Array:
        """Return values (..., N) minus the means of the strata; zero for samples that are compared with nobody."""
        found = np.zeros_like(values, dtype=np.float64)
        for samples in self.compared:
            found[..., samples] = values[..., samples] - values[..., samples].mean(axis=-1, keepdims=True)
        return found

    def groups(self) -> Array:
        """Return indicators (N, K) of the samples of each stratum that are compared with others."""
        found = np.zeros((len(self.order), len(self.compared)))
        for k, samples in enumerate(self.compared):
            found[samples, k] = 1.0
        return found


def _reduce(logs: Array, starts: Positions) -> Array:
    """Return logarithms of the sums of ``exp(logs)`` of each group."""
    return np.asarray(np.logaddexp.reduceat(logs, starts))


def _inverse_up_to_shifts(hessian: Array, floor: float) -> Array:
    """Invert a Hessian whose rows sum to zero, made definite in the direction of a shift, at unit diagonal."""
    roots = np.sqrt(np.maximum(hessian.diagonal(), floor))
    scaled = hessian / roots / roots[:, None]
    unit = roots / np.linalg.norm(roots)
    scaled += np.outer(unit, unit)
    scaled[np.diag_indices_from(scaled)] += RIDGE
    factor = cholesky(scaled, lower=True, check_finite=False)
    inverse, failed = dpotri(factor, lower=1)
    if failed:
        raise LinAlgError("the Hessian of the partial likelihood has no inverse")
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    return np.asarray(inverse / roots / roots[:, None])
