"""Which kernels enter a working set, and whether kernels or finer factors are what the gap asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.objective.regularizers import Regularizer
from manykernels.solvers.methods.factored.certificate import DualBound, shares
from manykernels.solvers.methods.factored.tuning import COARSE_SHARE, NEGLIGIBLE, NEW_KERNELS

Array = NDArray[Any]


def selects(regularizer: Regularizer) -> bool:
    """Whether kernels below a threshold have no weight, so that those above it are the ones that are missing."""
    return regularizer.sparse


def threshold(regularizer: Regularizer, norms: Array) -> float:
    """Return the dual norm below which a kernel has no weight, for a model with these block norms."""
    if regularizer.simplex_size is not None:
        return regularizer.strength * float(norms.sum())
    return float(regularizer.inactive_below)


def violators(bound: DualBound, used: Array, neighbors: Array, limit: float, margin: float) -> Array:
    """Return kernels above the threshold that are local maxima over widths, or any if no local maximum is above."""
    u = bound.norms.copy()
    candidate = (u > limit * margin) & (bound.low > limit)
    candidate[used] = False
    if not candidate.any():
        return np.zeros(0, dtype=np.int64)
    left, right = neighbors.T
    peak = (u >= np.where(left >= 0, u[left], -1.0)) & (u >= np.where(right >= 0, u[right], -1.0))
    chosen = np.flatnonzero(candidate & peak)
    if not len(chosen):
        chosen = np.flatnonzero(candidate)
    return largest(chosen, u, len(used))


def contributors(regularizer: Regularizer, bound: DualBound, used: Array, gap: float) -> Array:
    """Return kernels that are not in use and whose parts of the conjugate together matter beside this gap."""
    parts = regularizer.conjugate(bound.norms) * shares(regularizer, bound.norms)
    parts[used] = 0.0
    order = np.argsort(-parts, kind="stable")
    left = np.cumsum(parts[order][::-1])[::-1]
    chosen = order[(left > NEGLIGIBLE * gap) & (parts[order] > 0)]
    return largest(chosen, bound.norms, len(used))


def largest(chosen: Array, u: Array, used: int) -> Array:
    """Return those with the largest dual norms, no more than may enter in one round: many would leave in the next."""
    return chosen[np.argsort(-u[chosen], kind="stable")[: max(NEW_KERNELS, used // 3)]]


def gap_of_factors(regularizer: Regularizer, bound: DualBound, used: Array, entering: Array, limit: float) -> bool:
    """Return whether kernels in use violate the threshold about as much as any: their factors leave too much out."""
    if not selects(regularizer):
        parts = shares(regularizer, bound.norms)
        return bool(parts[entering].sum() < NEGLIGIBLE)
    excess = bound.low[used].max(initial=0.0) - limit
    return bool(excess > COARSE_SHARE * (bound.norms.max() - limit))
