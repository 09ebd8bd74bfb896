"""Breslow's estimate of the cumulative baseline hazard, and the survival functions that follow from it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from manykernels.exceptions import InvalidInputError
from manykernels.validation.arrays import Array


def baseline_hazard(target: Array, scores: Array, weight: Array) -> pd.DataFrame:
    """Return the cumulative baseline hazard at each time of an event, a row a stratum and time."""
    parts = []
    for stratum in np.unique(target["stratum"]):
        inside = target["stratum"] == stratum
        times, hazard = _breslow(target[inside], scores[inside], weight[inside])
        parts.append(pd.DataFrame({"stratum": stratum, "time": times, "cumulative_hazard": hazard}))
    return pd.concat(parts, ignore_index=True)


def _breslow(target: Array, scores: Array, weight: Array) -> tuple[Array, Array]:
    """Return the times of events and the cumulative hazard at them."""
    times = np.unique(target["time"][target["event"]])
    order = np.argsort(target["time"])
    at_risk = np.logaddexp.accumulate((np.log(weight) + scores)[order][::-1])[::-1]
    log_risk = at_risk[np.searchsorted(target["time"][order], times)]
    place = np.searchsorted(times, target["time"][target["event"]])
    events = np.bincount(place, weights=weight[target["event"]], minlength=len(times))
    return times, np.cumsum(np.exp(np.log(events) - log_risk))


def martingale_residuals(target: Array) -> Array:
    """Return observed less expected events of each sample if all have one hazard, (n,): high for early events."""
    residuals = target["event"].astype(np.float64)
    for stratum in np.unique(target["stratum"]):
        inside = target["stratum"] == stratum
        part = target[inside]
        times, hazard = _breslow(part, np.zeros(len(part)), np.ones(len(part)))
        residuals[inside] -= np.r_[0.0, hazard][np.searchsorted(times, part["time"], side="right")]
    return residuals


def cumulative_hazards(baseline: pd.DataFrame, scores: Array, times: Array, strata: Array) -> Array:
    """Return cumulative hazards of samples at times, (n, n_times): steps, zero before the first event."""
    found = np.empty((len(scores), len(times)))
    known = {int(number): baseline[baseline["stratum"] == number] for number in baseline["stratum"].unique()}
    for stratum in np.unique(strata):
        if stratum not in known:
            raise InvalidInputError(f"Stratum {stratum} has no baseline: training had {sorted(known)} with events.")
        part, inside = known[stratum], strata == stratum
        steps = np.r_[0.0, part["cumulative_hazard"].to_numpy()]
        levels = steps[np.searchsorted(part["time"].to_numpy(), times, side="right")]
        with np.errstate(over="ignore", invalid="ignore"):
            found[inside] = np.where(levels > 0, np.exp(scores[inside])[:, None] * levels, 0.0)
    return found
