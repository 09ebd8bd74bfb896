"""The convex program over the kernel weights that a Newton step solves, by a primal-dual interior point.

    minimize_x  -a'(x - d) + (x - d)' G (x - d) / 2 + sum_m h_m(x_m)    over x >= 0

with ``h_m' = B_m^2 / 2`` of `Regularizer.norm_bound`: ``u_m^2 <= B_m(x_m)^2``, with equality where ``x_m > 0``, for the
squared norms that the quadratic model predicts. A set of weights has ``sum_m g(x_m)`` limited instead, and
``u_m^2 <= tau g'(x_m)`` with one multiplier ``tau`` for all kernels (`Regularizer.weight_limit`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from manykernels.solvers.engines.shared_weights.tuning import (
    BOUNDARY,
    CENTERING,
    MOST_PROGRAM_STEPS,
    PROGRAM_GAP,
)

if TYPE_CHECKING:
    from manykernels.objective.regularizers import Regularizer
    from manykernels.validation.arrays import Array


@dataclass(frozen=True, eq=False)
class WeightProgram:
    """Data of the program: ``a``, ``G``, ``d`` and the regularizer of these kernels."""

    linear: Array
    quadratic: Array
    current: Array
    regularizer: Regularizer

    def solve(self) -> Array:
        """Return the minimizer, with zeros where the multiplier says so."""
        x = self._start()
        half = self._first_multiplier(x)
        s = np.maximum(self._slope(x, half), 0.1 * np.abs(self.linear).mean())
        for _ in range(MOST_PROGRAM_STEPS):
            gap, residual = float(x @ s), self._slope(x, half) - s
            sizes = np.abs(self.linear) + s
            if gap <= PROGRAM_GAP * float(x @ sizes) and np.abs(residual).max() <= 1e-13 * sizes.max():
                break
            dx, ds, dhalf = self._direction((x, s, half), residual, CENTERING * gap / x.size)
            length = min(_longest(x, dx), _longest(s, ds), _longest(self._pole() - x, -dx))
            x, s, half = x + length * dx, s + length * ds, half + length * dhalf
        return np.where(self._zero(x, s), 0.0, x)

    def _start(self) -> Array:
        if self.regularizer.weight_set:
            typical = self.regularizer.weights_from_norms(np.ones(self.current.shape))
            mixed = np.maximum(self.current, 0.01 * typical)
            return mixed * (float(typical.sum()) / float(mixed.sum()))
        typical = np.abs(self.linear) / np.maximum(self.quadratic.diagonal(), np.finfo(np.float64).tiny)
        return np.minimum(np.maximum(self.current, 0.1 * float(np.median(typical))), 0.9 * self._pole())

    def _first_multiplier(self, x: Array) -> float:
        """Return a ``tau / 2`` that is enough for every norm."""
        return float((self.linear / self._bound(x, 1.0)[0]).max()) if self.regularizer.weight_set else 0.0

    def _pole(self) -> Array:
        return np.broadcast_to(self.regularizer.weight_range[1], self.current.shape)

    def _bound(self, x: Array, half: float) -> tuple[Array, Array]:
        """``B^2 / 2`` and its derivative."""
        if self.regularizer.weight_set:
            slopes, bends, _ = self.regularizer.weight_limit(x)
            return half * slopes, half * bends / x
        squares, slopes = self.regularizer.norm_bound(x)
        return squares / 2, slopes

    def _slope(self, x: Array, half: float) -> Array:
        return self.quadratic @ (x - self.current) - self.linear + self._bound(x, half)[0]

    def _direction(
        self, point: tuple[Array, Array, float], residual: Array, target: float
    ) -> tuple[Array, Array, float]:
        x, s, half = point
        diagonal = self._bound(x, half)[1] + s / x
        scale = 1.0 / np.sqrt(self.quadratic.diagonal() + diagonal)
        factor = cho_factor(scale[:, None] * self.quadratic * scale + np.diag(scale**2 * diagonal + 1e-15), lower=True)
        dx, dhalf = scale * cho_solve(factor, scale * (target / x - s - residual)), 0.0
        if self.regularizer.weight_set:
            slopes, _, missing = self.regularizer.weight_limit(x)
            pull = scale * cho_solve(factor, scale * slopes)
            dhalf = (float(slopes @ dx) - missing) / float(slopes @ pull)
            dx = dx - dhalf * pull
        return dx, (target - s * dx) / x - s, dhalf

    def _zero(self, x: Array, s: Array) -> Array:
        """Whether a weight is smaller than its multiplier, both in their own units."""
        if not self.regularizer.sparse:
            return np.zeros(x.shape, dtype=bool)
        return x / x.max() < s / np.abs(self.linear).max()


def _longest(value: Array, change: Array) -> float:
    """Largest step in [0, 1] that stays inside by a small part."""
    shrinking = change < 0
    return min(1.0, BOUNDARY * float((value[shrinking] / -change[shrinking]).min())) if shrinking.any() else 1.0
