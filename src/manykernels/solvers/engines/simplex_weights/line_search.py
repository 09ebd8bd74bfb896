"""Line search for a convex function of kernel weights on the simplex, by slopes rather than values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from manykernels.solvers.engines.simplex_weights.tuning import MOST_TRIALS, SHORTEST_CUT, SLOPE_LEFT, VALUE_ROUNDING

if TYPE_CHECKING:
    from manykernels.solvers.engines.simplex_weights.point import SimplexPoint
    from manykernels.validation.arrays import Array


def falls(point: SimplexPoint, other: SimplexPoint) -> bool:
    """Return whether the other value is smaller beyond rounding: close to the optimum only slopes can tell."""
    return other.value < point.value - VALUE_ROUNDING * abs(point.value)


def search_line(point: SimplexPoint, direction: Array, length: float, end: SimplexPoint, tol: float) -> SimplexPoint:
    """Return a point between ``point`` and ``end`` at which the slope along ``direction`` has mostly vanished.

    ``J`` is convex, so the slope is increasing: its root is found by regula falsi with the Illinois rule.
    """
    bracket = _Bracket(0.0, length, float(point.slopes @ direction), float(end.slopes @ direction))
    enough, best, current = SLOPE_LEFT * abs(bracket.slope_low), point, end
    for _ in range(MOST_TRIALS):
        step = bracket.trial()
        current = current.moved(stepped(point.theta, step * direction), tol)
        slope = float(current.slopes @ direction)
        if slope <= 0 or falls(best, current):
            best = current
            if abs(slope) <= enough:
                break
        bracket.shrink(step, slope)
    return replace(best, steps=current.steps)


@dataclass
class _Bracket:
    """Two steps between which an increasing slope changes its sign."""

    low: float
    high: float
    slope_low: float
    slope_high: float
    _moved: int = 0

    def trial(self) -> float:
        """Return where the secant crosses zero, well inside; the middle if the slopes do not bracket."""
        rise = self.slope_high - self.slope_low
        share = -self.slope_low / rise if rise > 0 else 0.5
        return self.low + min(max(share, SHORTEST_CUT), 1.0 - SHORTEST_CUT) * (self.high - self.low)

    def shrink(self, step: float, slope: float) -> None:
        """Move one end; halve the slope at the other if it stays for the second time in a row (Illinois)."""
        if slope < 0:
            self.low, self.slope_low = step, slope
            self.slope_high *= 0.5 if self._moved < 0 else 1.0
            self._moved = -1
        else:
            self.high, self.slope_high = step, slope
            self.slope_low *= 0.5 if self._moved > 0 else 1.0
            self._moved = 1


def stepped(theta: Array, change: Array, blocking: int | None = None) -> Array:
    """Return the weights after a step, exactly on the simplex and exactly zero where the step is blocked."""
    moved = np.maximum(theta + change, 0.0)
    if blocking is not None:
        moved[blocking] = 0.0
    return moved / moved.sum()
