"""How far to go on a line of a quadratic with a penalty of groups."""

import numpy as np
from scipy.optimize import brentq

from manykernels.compiled import compiled
from manykernels.grams.loops import FAST
from manykernels.solvers.factored.group_penalty import GroupPenalty
from manykernels.validation.arrays import Array

LINE_STEPS, LINE_TOL = 12, 0.1
JUST_AHEAD = 1e-9  # of a step


def line_minimum(penalty: GroupPenalty, v: Array, step: Array, linear: float, square: float) -> float:
    """Return the step size in [0, 1] that minimizes ``linear s + square s^2 / 2 + Omega(v + s step)``, roughly."""
    if penalty.shape is not None:
        return float(minimum_ahead(penalty.starts, *penalty.shape, penalty.outside, v, step, linear, square))
    heads = penalty.starts[:-1]
    base, cross, ahead = (np.add.reduceat(part, heads) for part in (v * v, v * step, step * step))

    def slope(s: float) -> float:
        norms = np.sqrt(np.maximum(base + s * (2 * cross + s * ahead), 0.0))
        rates = np.divide(cross + s * ahead, norms, out=np.sqrt(ahead), where=norms > 0)
        return linear + s * square + float(penalty.slopes(norms) @ rates)

    # Just ahead of zero, groups that leave it together have the shares of their norm; at zero each has the whole.
    if slope(JUST_AHEAD) >= 0:
        return 0.0
    return 1.0 if slope(1.0) <= 0 else float(brentq(slope, JUST_AHEAD, 1.0, xtol=0.5**LINE_STEPS))


@compiled(fastmath=FAST)
def slope_ahead(
    sums: Array,
    linear: Array,
    curvature: Array,
    power: Array,
    q: float,
    strength: float,
    coupled: bool,
    outside: float,
    s: float,
) -> float:
    """Return the derivative of a penalty along a line; rows of ``sums`` are ``v'v``, ``v'd`` and ``d'd`` of groups."""
    total, out = outside, 0.0
    if coupled:
        for m in range(linear.size):
            square = sums[0, m] + s * (2.0 * sums[1, m] + s * sums[2, m])
            total += power[m] * max(square, 0.0) ** (0.5 * q)
    outer = strength * total ** (2.0 / q - 1.0) if coupled else strength
    for m in range(linear.size):
        square, rate = sums[0, m] + s * (2.0 * sums[1, m] + s * sums[2, m]), sums[1, m] + s * sums[2, m]
        norm = np.sqrt(max(square, 0.0))
        rate = rate / norm if norm > 0.0 else np.sqrt(sums[2, m])
        if rate != 0.0:
            own = linear[m] + curvature[m] * norm
            if strength > 0.0:
                own += outer * power[m] * norm ** (q - 1.0)
            out += own * rate
    return out


@compiled(fastmath=FAST)
def minimum_ahead(
    starts: Array,
    linear: Array,
    curvature: Array,
    power: Array,
    q: float,
    strength: float,
    coupled: bool,
    outside: float,
    v: Array,
    step: Array,
    falls: float,
    square: float,
) -> float:
    """Return the step size in [0, 1] that minimizes ``falls s + square s^2 / 2 + Omega(v + s step)``, roughly."""
    sums = np.zeros((3, linear.size))
    for m in range(linear.size):
        for j in range(starts[m], starts[m + 1]):
            sums[0, m] += v[j] * v[j]
            sums[1, m] += v[j] * step[j]
            sums[2, m] += step[j] * step[j]
    first = falls + slope_ahead(sums, linear, curvature, power, q, strength, coupled, outside, 0.0)
    if first >= 0.0:
        return 0.0
    low, high, middle = 0.0, 1.0, 1.0
    for _ in range(LINE_STEPS + 1):
        found = falls + middle * square
        found += slope_ahead(sums, linear, curvature, power, q, strength, coupled, outside, middle)
        if abs(found) <= -LINE_TOL * first or (middle == 1.0 and found < 0.0):
            return middle
        if found < 0.0:
            low = middle
        else:
            high = middle
        middle = 0.5 * (low + high)
    return low
