"""Dual norms of kernels held as factors: bounds of one pass, evaluated exactly where they decide."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.grams.factored.base import columns_of
from manykernels.objective.capabilities import Capability
from manykernels.objective.regularizers.base import Regularizer

Array = NDArray[Any]

EXACT_BUDGET = 2e10  # kernel values that the evaluation of unsettled kernels may cost in one certificate
PLAIN_BUDGET = 1e9  # kernel values, or rows read, that exact dual norms of all kernels may cost at most
SHARP = 1e-7  # width of bounds on quadratic forms, beside the largest, that do for the strength of an empty model
TIGHT = 1e-4  # relative width of the bounds on a norm that is good enough


def tightened_norms(problem: Any, rho: Any) -> Array:
    """Return upper bounds (M,) on the dual norms, tightened where they decide which norm is the largest."""
    low, high = (np.sqrt(bound) / problem.penalties for bound in problem.stack.quads(rho))
    tighten(problem, rho, low, high)
    return np.asarray(high)


def tighten(problem: Any, rho: Any, low: Array, high: Array, width: float = TIGHT, before: int = 0) -> tuple[int, int]:
    """Evaluate kernels whose upper bound matters and is wider than ``width``, the largest first; changes both bounds.

    Returns how many were evaluated and how many are left for which the budget does not suffice, of which ``before``
    evaluations have taken their part.
    """
    stack, columns = problem.stack, columns_of(rho)
    cost, evaluated = stack.exact_cost * len(columns), 0
    budget = EXACT_BUDGET - before * cost
    while True:  # at most one evaluation a kernel
        loose = _matters(problem.regularizer, low, high, width) & (high > low * (1 + width))
        if not loose.any():
            return evaluated, 0
        if budget < cost:
            return evaluated, int(loose.sum())
        kernel = int(np.argmax(np.where(loose, high, -np.inf)))
        value, error = np.sum([stack.exact_quad(kernel, column) for column in columns], axis=0)
        budget, evaluated = budget - cost, evaluated + 1
        # The two bounds are made to meet, so that a kernel is evaluated once.
        high[kernel] = min(high[kernel], np.sqrt(max(value, 0.0) + error) / problem.penalties[kernel])
        low[kernel] = high[kernel]


def _matters(regularizer: Regularizer, low: Array, high: Array, width: float) -> Array:
    """Return whose upper bound shows in the conjugate: the largest where that is a maximum, or any above a threshold.

    Where every kernel adds to it, those whose bounds make more than their part of a negligible difference.
    """
    if Capability.SIMPLEX in regularizer.capabilities:
        return high > float(low.max()) * (1 + width)
    limit = np.broadcast_to(regularizer.inactive_below, high.shape)
    if regularizer.dual_constraint and regularizer.separable:  # the largest multiple of a limit scales all
        bare = np.broadcast_to(regularizer.weight_range[1], high.shape) == np.inf
        scale = float(np.max(low[bare] / limit[bare], initial=1.0))
        return high > np.where(bare, limit * scale * (1 + width), limit)
    if regularizer.sparse:
        return high > limit
    exponent, top = dual_exponent(regularizer), max(float(high.max()), 1e-300)
    upper, lower = (high / top) ** exponent, (low / top) ** exponent
    return upper - lower > width * upper.sum() / len(high)


def dual_exponent(regularizer: Regularizer) -> float:
    """Return the power of dual norms that the conjugate of a power of norms sums; 2 where it is none."""
    return 2.0 if regularizer.curve is None else regularizer.curve.dual_exponent
