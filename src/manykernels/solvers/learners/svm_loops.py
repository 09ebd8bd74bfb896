"""The compiled loop of the support vector machine on one matrix, and how it leaves samples out.

Samples that sit at a bound which their gradient pushes against are left out for a while; once few remain, their part of
the matrix is copied together, so that every sweep runs over adjacent memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.compiled import compiled
from manykernels.solvers.learners.pair_loops import (
    FAST,
    TINY_CURVATURE,
    idle_bounds,
    moved,
    shrink,
    steepest,
    violation_of,
)

Array = NDArray[Any]

WORTH_PACKING = 0.7  # share of the active samples below which what is left is copied together


@compiled(fastmath=FAST)
def _svm_gradient(gram: Array, rho: Array, y: Array, grad: Array) -> None:
    for n in range(grad.size):
        grad[n] = -y[n]
    for i in range(rho.size):
        if rho[i] != 0.0:
            row, own = gram[i], rho[i]
            for n in range(grad.size):
                grad[n] += own * row[n]


@compiled()
def _svm_partner(
    row: Array, diagonal: Array, grad: Array, rho: Array, lo: Array, own: float, lowest: float
) -> tuple[int, float]:
    """Return the coordinate whose fall, with the rise of the other, gains most, and the highest gradient that can."""
    best, partner, highest = -1.0, -1, -np.inf
    for n in range(grad.size):
        if rho[n] > lo[n]:
            highest = max(highest, grad[n])
            gain = grad[n] - lowest
            if gain > 0.0:
                value = gain * gain / max(own + diagonal[n] - 2.0 * row[n], TINY_CURVATURE)
                if value > best:
                    best, partner = value, n
    return partner, highest


@compiled()
def _svm_pairs(
    gram: Array, diagonal: Array, lo: Array, hi: Array, rho: Array, grad: Array, tol: float, most: int
) -> tuple[float, int]:
    """Move up to ``most`` pairs; two sweeps a step: one for the partner, one for the gradient and the next rise."""
    everything = np.arange(rho.size)
    up, _ = steepest(grad, rho, lo, hi, everything)
    steps = 0
    while True:  # at most `most` steps
        if up < 0:
            return 0.0, steps
        first, lowest = gram[up], grad[up]
        down, highest = _svm_partner(first, diagonal, grad, rho, lo, diagonal[up], lowest)
        if highest - lowest <= tol or steps == most:
            return max(highest - lowest, 0.0), steps
        room_up, room_down = hi[up] - rho[up], rho[down] - lo[down]
        curvature = max(diagonal[up] + diagonal[down] - 2.0 * first[down], TINY_CURVATURE)
        step = min((grad[down] - lowest) / curvature, room_up, room_down)
        rho[up] = moved(rho[up], step, room_up, hi[up])
        rho[down] = moved(rho[down], -step, room_down, lo[down])
        second, lowest, up = gram[down], np.inf, -1
        for n in range(grad.size):
            grad[n] += step * (first[n] - second[n])
            if grad[n] < lowest and rho[n] < hi[n]:
                lowest, up = grad[n], n
        steps += 1


@compiled()
def _svm_singles(
    gram: Array, diagonal: Array, lo: Array, hi: Array, rho: Array, grad: Array, tol: float, most: int
) -> tuple[float, int]:
    """Move up to ``most`` single coordinates."""
    everything = np.arange(rho.size)
    steps = 0
    while True:  # at most `most` steps
        up, down = steepest(grad, rho, lo, hi, everything)
        violation = violation_of(grad, up, down, False)
        if violation <= tol or steps == most:
            return violation, steps
        i = up if up >= 0 and (down < 0 or -grad[up] >= grad[down]) else down
        before, row = rho[i], gram[i]
        rho[i] = min(max(before - grad[i] / max(diagonal[i], TINY_CURVATURE), lo[i]), hi[i])
        for n in range(grad.size):
            grad[n] += (rho[i] - before) * row[n]
        steps += 1


@compiled()
def _diagonal(gram: Array) -> Array:
    diagonal = np.empty(gram.shape[0])
    for n in range(diagonal.size):
        diagonal[n] = gram[n, n]
    return diagonal


@compiled()
def _packed(gram: Array, kept: Array) -> Array:
    small = np.empty((kept.size, kept.size))
    for i in range(kept.size):
        row = gram[kept[i]]
        for n in range(kept.size):
            small[i, n] = row[kept[n]]
    return small


@compiled()
def _picked(values: Array, kept: Array) -> Array:
    small = np.empty(kept.size)
    for i in range(kept.size):
        small[i] = values[kept[i]]
    return small


@compiled()
def _still_active(grad: Array, rho: Array, lo: Array, hi: Array, paired: bool) -> Array:
    everything = np.arange(rho.size)
    up, down = steepest(grad, rho, lo, hi, everything)
    if paired and (up < 0 or down < 0):
        return everything
    low, high = idle_bounds(grad, up, down, paired)
    kept = np.empty_like(everything)
    return kept[: shrink(grad, rho, lo, hi, everything, low, high, kept)].copy()


@compiled()
def svm_loop(
    gram: Array,
    y: Array,
    lo: Array,
    hi: Array,
    rho: Array,
    grad: Array,
    paired: bool,
    tol: float,
    most: int,
    period: int,
) -> tuple[float, int]:
    """Minimize ``rho'gram rho/2 - y'rho`` over the box (and ``sum rho`` as given); return violation and steps.

    ``rho`` and ``grad`` are overwritten. Every ``period`` steps (0: never) idle coordinates are left out, and what
    remains is copied together once it is much smaller; all come back, with their gradient recomputed, before the end.
    """
    everything = np.arange(rho.size)
    _svm_gradient(gram, rho, y, grad)
    active, steps = everything, 0
    part, low, high, point, slope = gram, lo, hi, rho, grad
    whole = _diagonal(gram)
    diagonal = whole
    while True:  # at most `most` steps
        left = min(most - steps, period) if period > 0 else most - steps
        if paired:
            violation, taken = _svm_pairs(part, diagonal, low, high, point, slope, tol, left)
        else:
            violation, taken = _svm_singles(part, diagonal, low, high, point, slope, tol, left)
        steps += taken
        for i in range(active.size):
            rho[active[i]] = point[i]
        if violation > tol and steps < most:
            kept = _still_active(slope, point, low, high, paired)
            if kept.size > WORTH_PACKING * active.size:
                continue
            part, diagonal = _packed(part, kept), _picked(diagonal, kept)
            low, high, point, slope = (
                _picked(low, kept),
                _picked(high, kept),
                _picked(point, kept),
                _picked(slope, kept),
            )
            active = active[kept]
        elif active.size == rho.size:
            return violation, steps
        else:
            _svm_gradient(gram, rho, y, grad)
            active = everything
            part, low, high, point, slope = gram, lo, hi, rho, grad
            diagonal = whole
