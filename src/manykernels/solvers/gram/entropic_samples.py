"""The sample side for losses whose conjugate is its own barrier: coefficients with scores tracked on their own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from manykernels.solvers.gram.tuning import (
    CLOSEST,
    LARGEST_SCORE_CHANGE,
    SMALLEST_CURVATURE,
    longest_step,
)

if TYPE_CHECKING:
    from manykernels.objective.losses import Loss
    from manykernels.validation.arrays import Array

EPSILON = 4e-16  # rounding at the ends of the domain, relative to them
TINY = 1e-300


@dataclass
class EntropicSamples:
    """Losses whose conjugate is its own barrier (logistic): ``rho = -s l'(y, z)`` with ``z`` tracked on its own.

    Linearizing in ``z`` instead of in ``rho`` keeps Newton fast near the ends of the domain, where the derivative of
    the conjugate is a logarithm.
    """

    loss: Loss
    y: Array
    weight: Array
    low: Array
    high: Array
    rho: Array
    z: Array
    n_pairs: int = 0
    _drho: Array = field(init=False, repr=False)
    _dz: Array = field(init=False, repr=False)
    _diagonal: Array = field(init=False, repr=False)
    _shift: Array = field(init=False, repr=False)
    _linear_at: tuple[Array, Array] | None = field(default=None, init=False, repr=False)

    def scores(self) -> Array:
        return self.z

    def complementarity(self) -> float:
        return 0.0

    def linearize(self, target: float) -> tuple[Array, Array]:
        """Linearize at the point, once whatever the target is: there are no multipliers."""
        if self._linear_at is None or self._linear_at[0] is not self.rho or self._linear_at[1] is not self.z:
            curvature = self.weight * np.maximum(self.loss.second_derivative(self.y, self.z), SMALLEST_CURVATURE)
            self._diagonal = 1.0 / curvature
            self._shift = -(self.rho + self.weight * self.loss.derivative(self.y, self.z)) / curvature
            self._linear_at = self.rho, self.z
        return self._diagonal, self._shift

    def set_direction(self, drho: Array) -> None:
        self._drho = drho
        self._dz = self._shift - self._diagonal * drho

    def within_reach(self, drho: Array, share: float) -> Array:
        """Cut each change to a share of the way to the end that it leads to: a tangent of ``l'`` may lead beyond."""
        return np.clip(drho, -share * (self.rho - self.low), share * (self.high - self.rho))

    def set_score_changes(self, samples: Array, changes: Array) -> None:
        """Overwrite the changes of the scores of some samples, whose coefficients were cut."""
        self._dz[samples] = changes

    def longest_steps(self) -> tuple[float, float]:
        """Limit the change of scores to the range in which the curvature of the loss means anything."""
        step = min(1.0, LARGEST_SCORE_CHANGE / max(float(np.abs(self._dz).max()), LARGEST_SCORE_CHANGE))
        return step, step

    def complementarity_after(self, primal_step: float, dual_step: float) -> float:
        return 0.0

    def move(self, primal_step: float, dual_step: float) -> bool:
        """Take the step; coefficients that would leave the domain stop short of its end."""
        self.z = self.z + dual_step * self._dz
        rho = self.rho + primal_step * self._drho
        below, above = CLOSEST * (self.rho - self.low), CLOSEST * (self.high - self.rho)
        lowest = self.low + np.where(np.isfinite(below), below, 0.0)
        highest = self.high - np.where(np.isfinite(above), above, 0.0)
        self.rho = np.clip(rho, lowest, highest)
        return bool(np.array_equal(self.rho, rho))

    def recenter(self, barrier: float) -> None:
        """Nothing to do: no multipliers."""

    def shrink(self, scale: float) -> None:
        self.rho = scale * self.rho

    def resynchronize(self) -> None:
        """Set the scores to those that ``rho`` implies."""
        self.z = self._implied_scores()

    def interior_steps(self, share: float) -> tuple[float, float]:
        """Allow for rounding at ends other than zero, where a coefficient may have arrived."""
        below = share * (self.rho - self.low) + EPSILON * np.abs(self.low)
        above = share * (self.high - self.rho) + EPSILON * np.abs(self.high)
        primal = longest_step((below, self._drho), (above, -self._drho))
        return primal, self.longest_steps()[1]

    def merit_slope(self) -> float:
        return -float(self._implied_scores() @ self._drho)

    def _implied_scores(self) -> Array:
        low = self.low + np.where(np.isfinite(self.low), EPSILON * np.abs(self.low) + TINY, 0.0)
        high = self.high - np.where(np.isfinite(self.high), EPSILON * np.abs(self.high) + TINY, 0.0)
        return -self.loss.conjugate_derivative(self.y, np.clip(self.rho, low, high) / self.weight)

    def merit_after(self, step: float) -> float:
        return float(self.weight @ self.loss.conjugate(self.y, (self.rho + step * self._drho) / self.weight))
