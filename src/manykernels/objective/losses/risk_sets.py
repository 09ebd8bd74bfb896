"""The partial likelihood as a function of scores: sums over risk sets by cumulative sums over sorted times.

Every event, or every step of Efron's correction, is a *term* ``c log sum_j A_j exp(z_j)``: ``A_j`` is ``s_j`` for the
samples at risk, less a share for those of the tie, divided by what the tie itself has, so that terms are not negative.
All sums are kept as logarithms, group by group: a *group* holds the samples of one time in one stratum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky
from scipy.linalg.lapack import dpotri

from manykernels.objective.losses.risk_curvature import RiskCurvature
from manykernels.objective.losses.risk_layout import RiskLayout
from manykernels.objective.losses.tie_mixtures import tie_mixtures

Array = NDArray[np.float64]
Positions = NDArray[np.intp]

SMALLEST_CURVATURE = 1e-12  # of the largest: samples in no risk set have none
RIDGE = 1e-13  # on the unit diagonal of a scaled Hessian, before its factorization


class RiskSets(RiskLayout):
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
        z = z - float(z.min())
        logs, totals, rest = self._totals(z)
        with np.errstate(divide="ignore"):
            _, scores = self._at_risk(logs + np.log(z[self.order]))
        share = np.exp(rest - totals)
        level = np.log(scale) - totals + self.log_unit
        others = scale * (share * np.where(share > 0, level, 0.0) + np.exp(scores[self.term_group] - totals))
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
