"""Targets of survival models: structured arrays of events and times, as scikit-survival has them; and risk sets.

Every event, or every step of Efron's correction, is a *term* ``c log sum_j A_j exp(z_j)``: ``A_j`` is ``s_j`` for the
samples at risk, less a share for those of the tie, divided by what the tie itself has, so terms are not negative. Sums
over risk sets are cumulative sums over sorted times, group by group: a *group* holds the samples of a single time in a
single stratum.
"""

import re
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from manykernels.compiled import compiled
from manykernels.exceptions import InvalidInputError
from manykernels.validation.arrays import Array

Positions = NDArray[np.intp]
FIELDS = np.dtype([("event", np.bool_), ("time", np.float64), ("stratum", np.int64)])
HINT = (
    "Give a structured array of one field of booleans, or of 0 and 1 (was the event seen), and one of times, as "
    "scikit-survival has: "
    "survival_array(event, time) makes one."
)


def survival_array(event: ArrayLike, time: ArrayLike, strata: ArrayLike | None = None) -> Array:
    """Return events and times as one structured array, the target of survival models.

    Parameters
    ----------
    event : array-like of bool of shape (n_samples,)
        Whether the event was seen, as True and False or 1 and 0; False is censored.
    time : array-like of shape (n_samples,)
        How long until it was seen, or until when it was not: real numbers, not negative.
    strata : array-like of int of shape (n_samples,), default=None
        Numbers of strata with separate baseline hazards and risk sets.

    Returns
    -------
    ndarray of shape (n_samples,)
        With the fields "event", "time", and "stratum" if there are strata.

    Raises
    ------
    InvalidInputError
        If times are no durations (dates, complex, negative or not finite), events are not true or false, or lengths
        differ.

    Examples
    --------
    >>> survival_array([True, False], [3.0, 5.5])
    array([( True, 3. ), (False, 5.5)], dtype=[('event', '?'), ('time', '<f8')])
    """
    names = ["event", "time"] if strata is None else ["event", "time", "stratum"]
    checked = _check_times(_booleans(event), _times(time), None if strata is None else _numbers(strata))
    return checked[names].astype([(name, FIELDS[name]) for name in names])


# Fields named "cens" and "censor" are left alone: the data sets of scikit-survival call the event so.
CENSORED = re.compile(r"((is|was)[_ .]?)?censored", re.IGNORECASE)


def check_survival(y: ArrayLike) -> Array:
    """Return a target as a structured array with the fields event, time and stratum, (n,)."""
    columns = _columns(y)
    strata = columns.pop("stratum", None)
    # The event is the one field of booleans or, if there is none, the one that holds nothing but 0 and 1.
    booleans = [name for name, values in columns.items() if _are_booleans(values)]
    found = booleans or [name for name, values in columns.items() if _are_truths(values)]
    event = found[0] if len(found) == 1 else None
    if len(columns) != 2 or event is None:
        fields = ", ".join(f"{name!r} of {values.dtype}" for name, values in columns.items())
        raise InvalidInputError(f"y has the fields {fields}, not one of booleans and one of times. {HINT}")
    check_event_name(event)
    time = next(name for name in columns if name != event)
    numbers = None if strata is None else _numbers(strata)
    return _check_times(_booleans(columns[event]), _times(columns[time]), numbers)


def check_event_name(name: str, what: str = "The field") -> None:
    """Raise ``InvalidInputError`` for a name that suggests inverted events."""
    if CENSORED.fullmatch(name):
        raise InvalidInputError(
            f"{what} {name!r} is named after censored samples, but true must mean an observed event. Invert it, "
            f"survival_array(~censored, time), or rename it if true means the event."
        )


def _are_booleans(values: Array) -> bool:
    """Return whether all are True or False, in an array of objects too."""
    return values.dtype.kind == "b" or (
        values.dtype.kind == "O" and all(isinstance(value, (bool, np.bool_)) for value in values)
    )


def _are_truths(values: Array) -> bool:
    """Return whether all are True, False, 1 or 0."""
    return _are_booleans(values) or (values.dtype.kind in "iuf" and bool(np.isin(values, (0, 1)).all()))


def _columns(y: ArrayLike) -> dict[str, Array]:
    """Return the fields of a target by name."""
    if isinstance(y, pd.DataFrame):
        return {str(name): y[name].to_numpy() for name in y.columns}
    if not isinstance(y, np.ndarray) or y.dtype.names is None or y.ndim != 1:
        shape = getattr(y, "shape", None)
        what = type(y).__name__ if shape is None else f"{type(y).__name__} of shape {shape}"
        raise InvalidInputError(f"y is a {what} without fields. {HINT}")
    return {name: y[name] for name in y.dtype.names}


def _check_times(event: Array, time: Array, strata: Array | None) -> Array:
    """Return the three as a single array."""
    lengths = {"event": len(event), "time": len(time)} | ({} if strata is None else {"strata": len(strata)})
    if len(set(lengths.values())) > 1:
        raise InvalidInputError(f"Lengths differ: {', '.join(f'{name} has {n}' for name, n in lengths.items())}.")
    found = np.zeros(len(time), dtype=FIELDS)
    found["event"], found["time"] = event, time
    if strata is not None:
        found["stratum"] = strata
    return found


def _booleans(event: ArrayLike) -> Array:
    """Return whether every event was seen, (n,) bool."""
    values = np.asarray(event)
    if values.ndim != 1 or not _are_truths(values):
        raise InvalidInputError("event must hold True (seen) or False (censored), one for each sample.")
    return values.astype(bool)


def _times(time: ArrayLike) -> Array:
    """Return durations as float64, (n,)."""
    values = np.asarray(time)
    if values.dtype.kind in "Mm":
        raise InvalidInputError(
            f"Times must be numbers, got {values.dtype}: subtract the date on which each sample's time begins and "
            "divide by a unit, such as (end - start) / np.timedelta64(1, 'D')."
        )
    durations = values.dtype.kind in "iuf" or (
        values.dtype.kind == "O" and all(isinstance(v, Real) and not isinstance(v, bool) for v in values.flat)
    )
    if not durations:
        raise InvalidInputError(
            f"Times must be real numbers, the duration of observation of each sample; got {_kind(values)}."
        )
    values = values.astype(np.float64)
    if values.ndim != 1:
        raise InvalidInputError(f"Times must be a vector, got shape {values.shape}.")
    bad = ~np.isfinite(values) | (values < 0)
    if bad.any():
        raise InvalidInputError(
            f"Times must be finite and not negative, but {int(bad.sum())} of {len(values)} are not, such as "
            f"{values[bad][:5].tolist()} (the first at index {int(np.argmax(bad))}). Correct or drop these samples."
        )
    return values


def _kind(values: Array) -> str:
    """Return the content of an array in words."""
    if values.dtype.kind != "O":
        return str(values.dtype)
    other = next(v for v in values.flat if not isinstance(v, Real) or isinstance(v, bool))
    return f"{other!r}"


def _numbers(strata: ArrayLike | None) -> Array:
    values = np.asarray(strata)
    if values.ndim != 1 or values.dtype.kind not in "iub":
        raise InvalidInputError("strata must be whole numbers, one for each sample; number labels with np.unique.")
    return values.astype(np.int64)


# What the samples of a tie add to the conjugate of the partial likelihood, without a pair of every two of them.
#
# Where a dual point is a share ``c`` of slopes, a term of a tie adds ``sum_j a_j phi(x_j)`` with ``phi(x) = m log m``
# at ``m = c x + 1 - c``, ``a_j`` being the shares of the weights of the tie and ``x_j = kappa exp(z_j)``. With Efron's
# correction a tie of ``d`` events has ``d`` terms, which differ by ``kappa`` only. Since ``D(x) = c x log x - phi(x)``
# is convex and the first part sums in closed form, tangents of ``D`` at a few ``kappa`` bound all terms from above.


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
    """Times, events, strata and positive weights (N,), sorted; ``ties`` is "efron" or "breslow"."""

    def __init__(self, time: Array, event: NDArray[np.bool_], stratum: Array, weight: Array, ties: str) -> None:
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
        self.opens_at, self.opens = new_stratum, new_stratum[self.starts]
        self.rest_starts: Positions = self.starts + np.add.reduceat(self.event.astype(np.intp), self.starts)
        self.group_ends = np.repeat([part.stop for part in self.slices], [p.stop - p.start for p in self.group_slices])
        self.group_hits = np.add.reduceat(np.where(self.event, weight[self.order], 0.0), self.starts)
        self._lay_out_terms(ties)

    def _lay_out_terms(self, ties: str) -> None:
        """Return a term per group with events, or with Efron's correction a term per event."""
        efron = ties == "efron"
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
        """Return the sums of sorted values over all at risk at every group, and without the events, (2, G)."""
        return np.asarray(sums_at_risk(values, self.event, self.starts, self.opens))

    def sums_before(self, own: Array, own_of_hits: Array) -> Array:
        """Return for every sorted sample the sum over earlier groups, and the part of the own group, (N,)."""
        return np.asarray(sums_before(own, own_of_hits, self.event, self.starts, self.opens))

    def sums_of_terms(self, terms: Array) -> Array:
        """Return the sums of the terms of every group, (G,)."""
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
    """Return the sums over all at risk at every group, and over the without the events, (2, G)."""
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
    """Return for every sample the sum over earlier groups, and the contribution of the own group, (N,)."""
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
def take_at_risk(risks: Any, x: Array, out: Array) -> None:
    """Subtract from ``out`` what samples at risk together take from the product of hazards with ``x``, both (N,).

    Of sorted samples ``risks`` has their places, events and groups, where groups, those of them without an event, and
    strata begin, hazards, and how much the sums of every group count: of all at risk, of both, and of those without the
    events.
    """
    order, event, group, starts, rest_starts, opens, hazards, both, mixed, rest = risks
    sums, own, of_hits = np.empty(order.size + 1), np.empty(starts.size), np.empty(starts.size)
    total = 0.0
    for i in range(order.size - 1, -1, -1):
        total += hazards[i] * x[order[i]]
        sums[i] = total
        if opens[i]:
            total = 0.0
    total = 0.0
    for g in range(starts.size):
        before, first = sums[starts[g]], rest_starts[g]
        after = 0.0 if first == order.size or opens[first] else sums[first]
        if opens[starts[g]]:
            total = 0.0
        of_hits[g] = total + both[g] * before + mixed[g] * after
        own[g] = of_hits[g] + mixed[g] * before + rest[g] * after
        total = own[g]
    for i in range(order.size):
        g = group[i]
        out[order[i]] -= hazards[i] * (of_hits[g] if event[i] else own[g])


@compiled()
def entropies(logs: Array, z: Array, event: NDArray[np.bool_], starts: Positions, opens: NDArray[np.bool_]) -> Array:
    """Return ``sum_j p_j (T - z_j)`` over those at risk at every group without the events, (G,).

    ``p_j = exp(logs_j - T)`` add up to 1. Samples are added one at a time, so that nothing is subtracted but scores
    that differ by what they matter: some may be 1e5 below the rest.
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
    """Return the slices that begin at true entries of ``new``."""
    ends = np.r_[np.flatnonzero(new), len(new)]
    return [slice(int(start), int(stop)) for start, stop in pairwise(ends)]
