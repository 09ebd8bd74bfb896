"""Losses as the engine reads them: value, slope and curvature; kinked ones smoothed, the error left to the gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.exceptions import IncompatibleError
from manykernels.objective.losses.base import Loss
from manykernels.objective.problem import Problem
from manykernels.solvers.engines.factored.tuning import FLOOR, SMOOTHING_STEPS

Array = NDArray[Any]


@dataclass(frozen=True)
class SmoothedLoss:
    """A loss, smoothed by ``mu`` where it has kinks: ``max_r r (y - z) - kink |r| - mu r^2 / 2`` over its dual box.

    The smoothed value is below the loss by at most ``mu`` times half the square of the box. Its slopes are dual
    variables of the true loss, so that a certificate of the true loss contains the error.

    Parameters
    ----------
    loss : Loss
    mu : float
        0 for smooth losses.
    """

    loss: Loss
    mu: float = 0.0

    @classmethod
    def of(cls, loss: Loss, mu: float) -> SmoothedLoss:
        """Return the loss itself if it is smooth, else smoothed by ``mu``; refuse what has another form."""
        if loss.smooth:
            return cls(loss)
        if not loss.piecewise_linear:
            raise IncompatibleError(
                f"The {loss.name} loss is not smooth, and its conjugate is not '-y r + kink |r|' on a box: "
                "the factored engine cannot smooth it. Use a smooth loss, or solve() with the other solvers."
            )
        return cls(loss, mu)

    def majorizer(self, y: Array, z: Array) -> Array:
        """Curvatures for steps from far away: where the second derivative vanishes, those of chords across the kinks.

        A kink of height ``h`` at distance ``d`` is below a parabola of curvature ``h / (2 d)`` through the present
        value with the present slope, on either side.
        """
        bends = self.bend(y, z)
        if self.mu == 0:
            return np.maximum(bends, FLOOR * float(bends.max()) if bends.any() else 1.0)
        lo, hi = self.loss.dual_bounds(y)
        slack, kink = y - z, self.loss.kink
        above = hi / (2.0 * np.maximum(np.abs(slack - kink), self.mu * np.maximum(hi, 0.5)))
        below = -lo / (2.0 * np.maximum(np.abs(slack + kink), self.mu * np.maximum(-lo, 0.5)))
        return np.maximum(bends, above + below)

    def _best(self, y: Array, z: Array) -> Array:
        lo, hi = self.loss.dual_bounds(y)
        slack = y - z
        pull = np.sign(slack) * np.maximum(np.abs(slack) - self.loss.kink, 0.0)
        return np.clip(pull / self.mu, lo, hi)

    def value(self, y: Array, z: Array) -> Array:
        """Return the value of each sample."""
        if self.mu == 0:
            return self.loss.value(y, z)
        r = self._best(y, z)
        return r * (y - z) - self.loss.kink * np.abs(r) - 0.5 * self.mu * r * r

    def error(self, y: Array, z: Array) -> Array:
        """Return what each sample adds to the gap of the true loss: its value, less that of its smoothed dual variable.

        Only samples near a kink add anything, so that the sum falls with the square of ``mu``.
        """
        if self.mu == 0:
            return np.zeros_like(z)
        r = self._best(y, z)
        return self.loss.value(y, z) - (r * (y - z) - self.loss.kink * np.abs(r))

    def slope(self, y: Array, z: Array) -> Array:
        """Return the derivative in ``z``."""
        return self.loss.derivative(y, z) if self.mu == 0 else -self._best(y, z)

    def bend(self, y: Array, z: Array) -> Array:
        """Return the second derivative in ``z``."""
        if self.mu == 0:
            return self.loss.second_derivative(y, z)
        lo, hi = self.loss.dual_bounds(y)
        r = self._best(y, z)
        return np.where((r > lo) & (r < hi) & (r != 0 if self.loss.kink else True), 1.0 / self.mu, 0.0)


def smoothing_error(problem: Problem, z: Array, mu: float) -> float:
    """Return what a smoothing adds to the gap of the true loss at these scores."""
    if problem.loss.smooth:
        return 0.0
    return float(problem.weight @ SmoothedLoss.of(problem.loss, mu).error(problem.y, z))


def smaller_smoothing(problem: Problem, z: Array, mu: float, goal: float) -> float:
    """Return a smoothing, ``mu`` at most, whose error at these scores is at most ``goal``."""
    for _ in range(SMOOTHING_STEPS):
        error = smoothing_error(problem, z, mu)
        if error <= goal:
            break
        mu *= float(np.sqrt(0.9 * goal / error))  # the error falls with the square
    return mu
