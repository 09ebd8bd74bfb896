"""Losses as the engine reads them: value, slope and curvature; kinked ones smoothed, the error left to the gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.exceptions import IncompatibleError
from manykernels.objective.losses.base import Loss
from manykernels.solvers.engines.factored.tuning import FLOOR

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
        """Curvatures for steps from far away: where the second derivative vanishes, that of a chord to the kink."""
        if self.mu == 0:
            bends = self.loss.second_derivative(y, z)
            return np.maximum(bends, FLOOR * float(bends.max()) if bends.any() else 1.0)
        pull = np.maximum(np.abs(y - z) - self.loss.kink, self.mu)
        return np.abs(self._best(y, z)) / pull

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
