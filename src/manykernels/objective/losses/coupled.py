"""Losses coupled over all samples: the interface of solvers and certificates.

Cox's partial likelihood, for times until an event of which some are censored: as a function of scores, the terms are
logarithms of sums over risk sets, and all sums are kept as logarithms.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manykernels.exceptions import InvalidInputError
from manykernels.objective.capabilities import Capability
from manykernels.objective.losses import curvature
from manykernels.objective.losses.base import Array, float_vector
from manykernels.objective.losses.bound import CoupledLossBound
from manykernels.objective.losses.risk_inverse import RiskInverse, StratumInverse
from manykernels.objective.losses.survival import (
    Positions,
    RiskLayout,
    entropies,
    survival_array,
    take_at_risk,
    tie_mixtures,
)
from manykernels.validation.arrays import check_choice

# Second derivatives of the partial likelihood without a matrix among samples: sums over sorted times, linear in N.
#
# With the shares ``p_e`` of the samples at risk at each term, the Hessian is ``diag(h) - sum_e c_e p_e p_e'``, where
# ``h`` are the hazards. Its product with a vector takes a cumulative sum of it; ``Z' H Z`` takes one a column of ``Z``.


"""Sums over risk sets below this, beside the largest hazard of the stratum, have squares that underflow."""


BAND = 256  # rows that are scaled at once


class RiskCurvature(curvature.Curvature):
    """The Hessian at some scores, of all samples, or as some estimate it.

    Of every group (the samples of a single time in a single stratum) it knows the sums ``b`` over all at risk, and
    ``a`` over those at risk without the events of the group: a term with the share ``l`` of the tie left has the sum
    ``l b + (1 - l) a``. ``weights`` (N,) are ``s_j exp(z_j)`` in the order of the layout, up to a factor of every
    stratum, zero for samples left out; ``kept`` are the places of the rest, in that order.
    """

    reach: float = curvature.COUPLED_REACH
    shifts_alike: ClassVar[bool] = True
    in_turn: ClassVar[float] = 75.0
    in_gram: ClassVar[float] = 2.0

    def __init__(self, layout: RiskLayout, weights: Array, kept: Positions | None = None) -> None:
        self._layout, self._weights = layout, weights
        self._kept = np.arange(len(weights)) if kept is None else kept
        self.rows = layout.order[self._kept]  # samples in the order of the rows of ``Z`` for `gram_of`
        before, after = layout.sums_at_risk(weights)
        left, owner = layout.left, layout.term_group
        totals = left * before[owner] + (1.0 - left) * after[owner]
        smallest_total = 1e-120
        there = totals > smallest_total
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

    def sample_rows(self, rows: Positions, factors: Array) -> RiskCurvature:
        """Return the Hessian estimated from the rows, each standing for ``factors`` samples."""
        spread = np.zeros(len(self._weights))
        spread[rows] = factors
        sorted_factors = spread[self._layout.order]
        return RiskCurvature(self._layout, self._weights * sorted_factors, np.flatnonzero(sorted_factors))

    def product(self, x: Array) -> Array:
        """Return the Hessian times a vector (N,)."""
        found = self.diagonal * x
        take_at_risk(self.terms[2], x, found)
        return found

    @property
    def terms(self) -> tuple[Array, Array, Any]:
        """The hazards, and the summands over risk sets."""
        own = self._layout
        places = own.order, own.event, own.group, own.starts, own.rest_starts, own.opens_at
        return self.diagonal[None], curvature.NO_SHARES, (*places, self._weights, self._both, self._mixed, self._rest)

    def gram(self, operators: Sequence[Any], rows: int, *, n_constants: int) -> Array:
        """Return ``Z' H Z``, on fewer rows for the risk sets of the rows, without intercept."""
        rank = curvature.rank_of(operators)
        most = max(curvature.MOST_ENTRIES // rank, curvature.SAMPLE_PER_RANK * rank)
        index, weights = curvature.sampled_rows(self.diagonal, min(rows, most))
        used = self
        if len(index) < int(np.count_nonzero(self.diagonal)):
            used = self.sample_rows(index, weights / self.diagonal[index])
        Z, low = np.empty((len(used.rows), rank)), 0
        for operator in operators:
            high = low + int(operator.starts[-1])
            Z[:, low:high] = operator.rows(used.rows)
            low = high
        return used.gram_of(Z)

    def gram_of(self, Z: Array) -> Array:
        """Return ``Z' H Z`` (r, r) for the rows of ``Z`` (n, r) at ``rows``, overwritten to save memory."""
        roots, found = np.sqrt(self._sorted[self._kept])[:, None], np.zeros((Z.shape[1], Z.shape[1]))
        for low in range(0, len(Z), BAND):
            scaled = roots[low : low + BAND] * Z[low : low + BAND]
            found += scaled.T @ scaled
        sums = np.multiply(Z, self._weights[self._kept][:, None], out=Z)
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
        """Return the weights of sums over rows and all later rows, and the weights of pairs of sums."""
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


class RiskSets(RiskLayout, CoupledLossBound):
    """The negative logarithm of the partial likelihood for given times, events, strata and weights."""

    def __init__(self, time: Array, event: NDArray[np.bool_], stratum: Array, weight: Array, ties: str) -> None:
        super().__init__(time, event, stratum, weight, ties)
        self.weight = weight
        compared = []  # for each stratum the samples that are at risk together with others at some event
        for part in self.slices:
            hit = np.flatnonzero(self.has_term[self.group[part]])
            start = self.starts[self.group[part.start + hit[0]]] if len(hit) else part.stop
            if part.stop - start > 1:
                compared.append(self.order[start : part.stop])
        self.compared = compared

    # --- sums over groups and risk sets -----------------------------------------------------------------------------

    def _risk_sums(self, logs: Array) -> tuple[Array, Array]:
        """Return logarithms of the sums of ``exp(logs)`` over the events of each group, and over all others at risk."""
        hit = np.asarray(np.logaddexp.reduceat(np.where(self.event, logs, -np.inf), self.starts))
        rest = np.asarray(np.logaddexp.reduceat(np.where(self.event, -np.inf, logs), self.starts))
        both = np.logaddexp(hit, rest)
        others = rest.copy()
        for part in self.group_slices:
            later = np.logaddexp.accumulate(both[part][::-1])[::-1]
            others[part][:-1] = np.logaddexp(rest[part][:-1], later[1:])
        return hit, others

    def _totals(self, z: Array) -> tuple[Array, Array, Array]:
        """Return sorted ``log s + z``, and for every term the logarithm of the sum, and of the part without the tie."""
        logs = self.log_weight + z[self.order]
        hit, others = self._risk_sums(logs)
        rest = others[self.term_group]
        return logs, np.logaddexp(rest, np.log(self.left) + hit[self.term_group]), rest

    def _log_sums(self, terms: Array) -> Array:
        """Return logarithms of the sums of ``exp(terms)`` of every group."""
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
        """Return the negative log partial likelihood less the value for the tie alone; never negative."""
        _, totals, _ = self._totals(z)
        return max(float(self.size @ (totals - self.log_unit)) - float(self.hits @ z), 0.0)

    def hazards(self, z: Array) -> Array:
        """Return the expected number of events of every sample up to the time, (N,)."""
        logs, totals, _ = self._totals(z)
        terms = np.log(self.size) - totals
        before = self._before(self._log_sums(terms))[self.group]
        own = self._log_sums(terms)[self.group]
        own_hit = self._log_sums(terms + np.log(self.left))[self.group]
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

    def inverse_curvature(self, z: Array) -> RiskInverse:
        """Return the inverse of the Hessian on vectors of zero sum in every stratum; zero elsewhere."""
        logs, totals, _ = self._totals(z)
        hit, others = self._risk_sums(logs)
        with np.errstate(divide="ignore"):
            left, right = np.log(self.left), np.log1p(-self.left)
        rates = np.log(self.size) - totals
        of_hits, of_rest = self._log_sums(rates - totals + left), self._log_sums(rates - totals + right)
        before = self._before(self._log_sums(rates))
        behind = np.logaddexp(before, self._log_sums(rates))
        seen = np.logaddexp(before, self._log_sums(rates + left))
        between = np.logaddexp(before, np.logaddexp(hit, others) + of_hits)
        mixed = self._log_sums(rates - totals + left + right)
        hazards = np.exp(logs + np.where(self.event, seen[self.group], behind[self.group]))
        sorted_place = np.empty(len(self.order), dtype=np.intp)
        sorted_place[self.order] = np.arange(len(self.order))
        strata = []
        for samples in self.compared:
            first = sorted_place[samples[0]]
            part = slice(first, first + len(samples))
            groups = slice(self.group[first], self.group[part.stop - 1] + 1)
            steps, tied = np.empty((2, 2 * (groups.stop - groups.start)))
            steps[0] = -np.inf  # nobody is before the first events
            steps[2::2] = (of_hits[groups] - between[groups])[1:] - before[groups][1:]
            steps[1::2] = of_rest[groups] - between[groups] - behind[groups]
            tied[::2], tied[1::2] = np.exp(mixed[groups] + hit[groups] - between[groups]), 0.0
            nodes = 2 * (self.group[part] - groups.start) + ~self.event[part]
            strata.append(StratumInverse(samples, nodes, hazards[part], np.exp(steps[1:]), tied))
        return RiskInverse(strata)

    def conjugate_along(self, z: Array, scale: float) -> float:
        """Return ``sum_terms c KL(q, A)`` at ``q = scale p + (1 - scale) a``: an upper bound of the conjugate.

        ``p`` is the softmax on the risk set and ``a`` the weights of the tie, so the mixtures add up to ``scale`` times
        the gradient. At ``scale`` 1 it is the conjugate. Of ties of more than 32 events with Efron's correction it is a
        little more, in proportion to ``1 - scale``.
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
        """Return values (..., N) minus the means of the strata; zero for samples without comparisons."""
        if len(self.compared) == 1:  # without a copy of the columns
            inside = self.groups()[:, 0]
            return np.asarray((values - (values @ inside / inside.sum())[..., None]) * inside)
        found = np.zeros_like(values, dtype=np.float64)
        for samples in self.compared:
            found[..., samples] = values[..., samples] - values[..., samples].mean(axis=-1, keepdims=True)
        return found

    def groups(self) -> Array:
        """Return indicators (N, K) of the compared samples of every stratum."""
        found = np.zeros((len(self.order), len(self.compared)))
        for k, samples in enumerate(self.compared):
            found[samples, k] = 1.0
        return found


class CoupledLoss(abc.ABC):
    """A convex loss that couples samples, as a partial likelihood does.

    Attributes
    ----------
    name : str
    task : str
        The kind of target.
    """

    name: ClassVar[str]
    task: ClassVar[str]
    smooth: ClassVar[bool] = True
    entropic: ClassVar[bool] = True
    piecewise_linear: ClassVar[bool] = False
    kink: ClassVar[float] = 0.0
    linear_dual: ClassVar[bool] = False
    support: ClassVar[str] = "survival"
    couples_samples: ClassVar[bool] = True
    of_several: ClassVar[bool] = False  # whether it is a loss of several scores a sample
    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.CURVED_CONJUGATE})

    @property
    def each(self) -> CoupledLoss:
        """The loss itself, as `Loss` and `SharedLoss` have one of a single score."""
        return self

    @abc.abstractmethod
    def check_target(self, y: ArrayLike) -> Array:
        """Return the target as float64 (N,), or raise ``InvalidInputError`` with the invalid values."""

    def refusal_of_constant(self, y: Array) -> str:
        """Return nothing: there is no constant.

        Parameters
        ----------
        y : ndarray of shape (N,)
        """
        return ""

    @abc.abstractmethod
    def bind(self, y: Array, weight: Array) -> CoupledLossBound:
        """Return the loss as a function of the scores.

        Parameters
        ----------
        y : ndarray of shape (N,)
            As ``check_target`` returns it.
        weight : ndarray of shape (N,)
            Positive sample weights.
        """


STRATUM = 2.0**32
"""What the number of a stratum is multiplied by in a signed target; times are below it."""

TIES = ("breslow", "efron")


@dataclass(frozen=True)
class CoxPartial(CoupledLoss):
    r"""Negative logarithm of Cox's partial likelihood, for scores that are logarithms of relative hazards.

    .. math:: L(z) = \sum_e s_e \Big[\log \sum_{j \in R_e} s_j e^{z_j} - z_e\Big] + \text{constant}

    over events :math:`e` and the samples :math:`R_e` of the same stratum at risk at their time. The constant makes it
    zero where nobody but those with the event is at risk, so it is never negative. There is no intercept: a shift of
    all scores of a stratum changes nothing.

    The target is a signed time: ``+t`` for an event, ``-t`` for a sample censored at ``t``; `survival_target` makes it.

    Parameters
    ----------
    ties : {"breslow", "efron"}
        How events of a single time share a risk set.

    References
    ----------
    D. R. Cox, "Regression models and life-tables", JRSS B 34 (1972). B. Efron, "The efficiency of Cox's likelihood
    function for censored data", JASA 72 (1977).

    Examples
    --------
    >>> import numpy as np
    >>> loss = CoxPartial()
    >>> bound = loss.bind(loss.check_target([1.0, -2.0, 3.0]), np.ones(3))
    >>> round(bound.value(np.zeros(3)), 6) == round(float(np.log(3)), 6)
    True
    """

    ties: str = "efron"

    name: ClassVar[str] = "cox"
    task: ClassVar[str] = "survival"

    def __post_init__(self) -> None:
        check_choice(self.ties, TIES, "ties")

    def check_target(self, y: ArrayLike) -> Array:
        """Return signed times as float64 (N,); zeros, infinite values and a target without events are refused."""
        target = float_vector(y)
        bad = ~np.isfinite(target) | (target == 0)
        if bad.any():
            raise InvalidInputError(
                f"Signed times must be finite and not zero, but {int(bad.sum())} of {len(target)} are not, the first "
                f"at index {int(np.argmax(bad))}. An event at time t is +t, a sample censored at t is -t."
            )
        if not (target > 0).any():
            raise InvalidInputError("There is no event: every sample is censored, so hazards cannot be estimated.")
        return target

    def bind(self, y: Array, weight: Array) -> RiskSets:
        stratum, time = np.divmod(np.abs(y), STRATUM)
        return RiskSets(time, y > 0, stratum, weight, self.ties)


def survival_target(event: ArrayLike, time: ArrayLike, strata: ArrayLike | None = None) -> Array:
    """Return signed times of events and censored samples, with strata of separate risk sets.

    Only the order of the times matters, so their ranks stand for them.

    Parameters
    ----------
    event : array-like of bool of shape (N,)
        Whether the event was seen.
    time : array-like of shape (N,)
        Time of the event or of censoring; nonnegative.
    strata : array-like of shape (N,), default=None
        Labels of strata.

    Returns
    -------
    ndarray of shape (N,)
        For the loss ``CoxPartial``.

    Raises
    ------
    InvalidInputError
        If times are negative or not finite, or lengths differ.

    Examples
    --------
    >>> survival_target([True, False, True], [2.5, 7.0, 1.0]).tolist()
    [2.0, -3.0, 1.0]
    """
    numbers = np.zeros(np.shape(time), int) if strata is None else np.unique(np.asarray(strata), return_inverse=True)[1]
    known = survival_array(event, time, numbers)
    ranks = np.unique(known["time"], return_inverse=True)[1] + 1.0
    return np.where(known["event"], 1.0, -1.0) * (ranks + STRATUM * known["stratum"])
