"""The convex program over the kernel weights that a Newton step solves, by a primal-dual interior point.

    minimize_x  -a'(x - d) + (x - d)' G (x - d) / 2 + sum_m h_m(x_m)    over x >= 0, or sum x = total as well

with ``h_m' = B_m^2 / 2`` of `Regularizer.norm_bound`. The optimality conditions say ``u_m^2 <= B_m(x_m)^2``, with
equality where ``x_m > 0``, for the squared norms that the quadratic model predicts.
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
    """Data of the program; ``total`` is that of a simplex or None."""

    linear: Array
    quadratic: Array
    current: Array
    regularizer: Regularizer
    total: float | None

    def solve(self) -> Array:
        """Return the minimizer, with zeros where the multiplier says so."""
        x = self._start()
        s = np.maximum(self._slope(x), 0.1 * np.abs(self.linear).mean())
        shift = 0.0
        for _ in range(MOST_PROGRAM_STEPS):
            gap = float(x @ s)
            residual = self._slope(x) - s - shift
            sizes = np.abs(self.linear) + s
            if gap <= PROGRAM_GAP * float(x @ sizes) and np.abs(residual).max() <= 1e-13 * sizes.max():
                break
            dx, ds, dshift = self._direction(x, s, residual, CENTERING * gap / x.size)
            length = min(_longest(x, dx), _longest(s, ds), _longest(self._room(x), -dx))
            x, s, shift = x + length * dx, s + length * ds, shift + length * dshift
        return np.where(self._zero(x, s), 0.0, x)

    def _start(self) -> Array:
        typical = np.abs(self.linear) / np.maximum(self.quadratic.diagonal(), np.finfo(np.float64).tiny)
        middle = np.maximum(self.current, 0.1 * float(np.median(typical)))
        if self.total is not None:
            middle = np.maximum(self.current, 0.01 * self.total / self.current.size)
            return middle * (self.total / middle.sum())
        return np.minimum(middle, 0.9 * self._pole())

    def _pole(self) -> Array:
        return np.broadcast_to(self.regularizer.weight_range[1], self.current.shape)

    def _room(self, x: Array) -> Array:
        return self._pole() - x if self.total is None else np.full(x.shape, np.inf)

    def _bound(self, x: Array) -> tuple[Array, Array]:
        """``B^2 / 2`` and its derivative; a simplex has none but the shared multiplier of its sum."""
        if self.total is not None:
            return np.zeros(x.shape), np.zeros(x.shape)
        squares, slopes = self.regularizer.norm_bound(x)
        return squares / 2, slopes

    def _slope(self, x: Array) -> Array:
        return self.quadratic @ (x - self.current) - self.linear + self._bound(x)[0]

    def _direction(self, x: Array, s: Array, residual: Array, target: float) -> tuple[Array, Array, float]:
        diagonal = self._bound(x)[1] + s / x
        scale = 1.0 / np.sqrt(self.quadratic.diagonal() + diagonal)
        factor = cho_factor(scale[:, None] * self.quadratic * scale + np.diag(scale**2 * diagonal + 1e-15), lower=True)
        right = target / x - s - residual
        dx = scale * cho_solve(factor, scale * right)
        dshift = 0.0
        if self.total is not None:
            ones = scale * cho_solve(factor, scale)
            dshift = (self.total - float(x.sum()) - float(dx.sum())) / float(ones.sum())
            dx = dx + dshift * ones
        return dx, (target - s * dx) / x - s, dshift

    def _zero(self, x: Array, s: Array) -> Array:
        """Whether a weight is smaller than its multiplier, both in their own units."""
        if not self.regularizer.sparse:
            return np.zeros(x.shape, dtype=bool)
        return x / x.max() < s / np.abs(self.linear).max()


def _longest(value: Array, change: Array) -> float:
    """Largest step in [0, 1] that stays inside by a small part."""
    shrinking = change < 0
    return min(1.0, BOUNDARY * float((value[shrinking] / -change[shrinking]).min())) if shrinking.any() else 1.0
