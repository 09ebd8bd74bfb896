"""Losses of a residual, for real targets: squared, epsilon-insensitive, Huber, quantile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.objective.losses.base import Array, RegressionLoss, piecewise_linear_minimizer
from manykernels.validation.arrays import check_positive

__all__ = ["EpsilonInsensitive", "Huber", "Quantile", "Squared"]

_ROUNDING = 8 * np.finfo(np.float64).eps


def _constant_box(y: Array, lo: float, hi: float) -> tuple[Array, Array]:
    return np.full(np.shape(y), lo), np.full(np.shape(y), hi)


def _rounding(y: Array, z: Array) -> Array:
    """How far ``y - z`` may be from its exact value."""
    return _ROUNDING * np.maximum(np.abs(y), np.abs(z))


@dataclass(frozen=True)
class Squared(RegressionLoss):
    """Squared loss ``(z - y)^2 / 2``; conjugate ``r^2/2 - y r`` for every ``r``.

    Examples
    --------
    >>> import numpy as np
    >>> Squared().value(np.array([1.0]), np.array([3.0])).tolist()
    [2.0]
    """

    name: ClassVar[str] = "squared"
    smooth: ClassVar[bool] = True
    conjugate_form: ClassVar[str] = "quadratic"
    curvature: ClassVar[float] = 1.0
    linear_dual: ClassVar[bool] = True

    @property
    def curvature_bound(self) -> float:
        """One."""
        return 1.0

    def value(self, y: Array, z: Array) -> Array:
        """``(z - y)^2 / 2``; ``inf`` where the square overflows."""
        with np.errstate(over="ignore"):
            return 0.5 * (z - y) ** 2

    def derivative(self, y: Array, z: Array) -> Array:
        """``z - y``."""
        return z - y

    def second_derivative(self, y: Array, z: Array) -> Array:
        """One."""
        return np.ones(np.broadcast(y, z).shape)

    def _conjugate_inside(self, y: Array, r: Array) -> Array:
        return r * (0.5 * r - y)

    def conjugate_derivative(self, y: Array, r: Array) -> Array:
        """``r - y``."""
        return r - y

    def conjugate_second_derivative(self, y: Array, r: Array) -> Array:
        """One."""
        return np.ones(np.broadcast(y, r).shape)

    def dual_bounds(self, y: Array) -> tuple[Array, Array]:
        """Every ``r``."""
        return _constant_box(y, -np.inf, np.inf)

    def best_intercept(self, y: Array, f: Array, sample_weight: Array) -> float:
        """Weighted mean of ``y - f``."""
        return float(np.dot(sample_weight / sample_weight.sum(), y - f))


@dataclass(frozen=True)
class EpsilonInsensitive(RegressionLoss):
    """Epsilon-insensitive loss ``max(|z - y| - epsilon, 0)``; conjugate ``-y r + epsilon |r|`` on ``|r| <= 1``.

    Parameters
    ----------
    epsilon : float, default=0.1
        Half width of the tube without loss, in the units of ``y``; 0 gives the absolute loss.

    Examples
    --------
    >>> import numpy as np
    >>> EpsilonInsensitive(0.5).value(np.array([1.0, 1.0]), np.array([1.4, 3.0])).tolist()
    [0.0, 1.5]
    """

    epsilon: float = 0.1

    name: ClassVar[str] = "epsilon_insensitive"
    smooth: ClassVar[bool] = False
    conjugate_form: ClassVar[str] = "quadratic"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_positive(self.epsilon, "epsilon", allow_zero=True))

    @property
    def kink(self) -> float:
        """``epsilon``."""
        return self.epsilon

    def value(self, y: Array, z: Array) -> Array:
        """``max(|z - y| - epsilon, 0)``."""
        return np.maximum(np.abs(z - y) - self.epsilon, 0.0)

    def derivative(self, y: Array, z: Array) -> Array:
        """Sign of ``z - y`` outside the tube, 0 inside."""
        return np.where(np.abs(z - y) > self.epsilon, np.sign(z - y), 0.0)

    def second_derivative(self, y: Array, z: Array) -> Array:
        """Zero."""
        return np.zeros(np.broadcast(y, z).shape)

    def _conjugate_inside(self, y: Array, r: Array) -> Array:
        return -y * r + self.epsilon * np.abs(r)

    def conjugate_derivative(self, y: Array, r: Array) -> Array:
        """``-y + epsilon sign(r)``."""
        return -y + self.epsilon * np.sign(r)

    def conjugate_second_derivative(self, y: Array, r: Array) -> Array:
        """Zero."""
        return np.zeros(np.broadcast(y, r).shape)

    def dual_bounds(self, y: Array) -> tuple[Array, Array]:
        """``|r| <= 1``."""
        return _constant_box(y, -1.0, 1.0)

    def dual_interval(self, y: Array, z: Array) -> tuple[Array, Array]:
        """0 inside the tube, the sign of ``y - z`` outside, the segment between on its edge (up to rounding)."""
        residual, rounding = y - z, _rounding(y, z)
        lo = np.where(residual > self.epsilon + rounding, 1.0, np.where(residual > -self.epsilon + rounding, 0.0, -1.0))
        hi = np.where(residual < -self.epsilon - rounding, -1.0, np.where(residual < self.epsilon - rounding, 0.0, 1.0))
        return lo, hi

    def best_intercept(self, y: Array, f: Array, sample_weight: Array) -> float:
        """Weighted-median step: the slope jumps by ``s_i`` at both edges of each tube."""
        points = np.concatenate([y - f - self.epsilon, y - f + self.epsilon])
        jumps = np.concatenate([sample_weight, sample_weight])
        return piecewise_linear_minimizer(points, jumps, -float(sample_weight.sum()))


@dataclass(frozen=True)
class Huber(RegressionLoss):
    """Huber loss, quadratic up to ``delta`` and linear beyond; conjugate ``r^2/2 - y r`` on ``|r| <= delta``.

    Parameters
    ----------
    delta : float, default=1.35
        Residual at which the loss becomes linear, in the units of ``y``.

    Examples
    --------
    >>> import numpy as np
    >>> Huber(1.0).value(np.array([0.0, 0.0]), np.array([1.0, 3.0])).tolist()
    [0.5, 2.5]
    """

    delta: float = 1.35

    name: ClassVar[str] = "huber"
    smooth: ClassVar[bool] = True
    conjugate_form: ClassVar[str] = "quadratic"
    curvature: ClassVar[float] = 1.0

    @property
    def curvature_bound(self) -> float:
        """One."""
        return 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", check_positive(self.delta, "delta"))

    @property
    def score_unit(self) -> float:
        """``delta``."""
        return self.delta

    def value(self, y: Array, z: Array) -> Array:
        """``m (v - m/2)`` with ``v = |z - y|`` and ``m = min(v, delta)``."""
        size = np.abs(z - y)
        inner = np.minimum(size, self.delta)
        with np.errstate(over="ignore"):
            return inner * (size - 0.5 * inner)

    def derivative(self, y: Array, z: Array) -> Array:
        """``z - y`` clipped to ``[-delta, delta]``."""
        return np.clip(z - y, -self.delta, self.delta)

    def second_derivative(self, y: Array, z: Array) -> Array:
        """1 up to a residual of ``delta``, else 0."""
        return np.where(np.abs(z - y) <= self.delta, 1.0, 0.0)

    def _conjugate_inside(self, y: Array, r: Array) -> Array:
        return r * (0.5 * r - y)

    def conjugate_derivative(self, y: Array, r: Array) -> Array:
        """``r - y``."""
        return r - y

    def conjugate_second_derivative(self, y: Array, r: Array) -> Array:
        """One."""
        return np.ones(np.broadcast(y, r).shape)

    def dual_bounds(self, y: Array) -> tuple[Array, Array]:
        """``|r| <= delta``."""
        return _constant_box(y, -self.delta, self.delta)


@dataclass(frozen=True)
class Quantile(RegressionLoss):
    """Quantile (pinball) loss ``max(tau (y - z), (tau - 1)(y - z))``; conjugate ``-y r`` on ``tau - 1 <= r <= tau``.

    Parameters
    ----------
    tau : float, default=0.5
        The quantile that is estimated, strictly between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> Quantile(0.9).value(np.array([1.0, 0.0]), np.array([0.0, 1.0])).round(6).tolist()
    [0.9, 0.1]
    """

    tau: float = 0.5

    name: ClassVar[str] = "quantile"
    smooth: ClassVar[bool] = False
    conjugate_form: ClassVar[str] = "quadratic"

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", check_positive(self.tau, "tau"))
        if self.tau >= 1:
            raise InvalidInputError(f"tau must be strictly between 0 and 1, got {self.tau!r}.")

    def value(self, y: Array, z: Array) -> Array:
        """``max(tau (y - z), (tau - 1)(y - z))``."""
        return np.maximum(self.tau * (y - z), (self.tau - 1.0) * (y - z))

    def derivative(self, y: Array, z: Array) -> Array:
        """``-tau`` below the target, ``1 - tau`` above it, 0 on it."""
        return np.where(z < y, -self.tau, np.where(z > y, 1.0 - self.tau, 0.0))

    def second_derivative(self, y: Array, z: Array) -> Array:
        """Zero."""
        return np.zeros(np.broadcast(y, z).shape)

    def _conjugate_inside(self, y: Array, r: Array) -> Array:
        return -y * r

    def conjugate_derivative(self, y: Array, r: Array) -> Array:
        """``-y``."""
        return np.broadcast_to(-y, np.broadcast(y, r).shape).copy()

    def conjugate_second_derivative(self, y: Array, r: Array) -> Array:
        """Zero."""
        return np.zeros(np.broadcast(y, r).shape)

    def dual_bounds(self, y: Array) -> tuple[Array, Array]:
        """``tau - 1 <= r <= tau``."""
        return _constant_box(y, self.tau - 1.0, self.tau)

    def dual_interval(self, y: Array, z: Array) -> tuple[Array, Array]:
        """``tau`` below the target, ``tau - 1`` above it, the segment between on it (up to rounding)."""
        residual, rounding = y - z, _rounding(y, z)
        return (
            np.where(residual > rounding, self.tau, self.tau - 1.0),
            np.where(residual < -rounding, self.tau - 1.0, self.tau),
        )

    def best_intercept(self, y: Array, f: Array, sample_weight: Array) -> float:
        """Weighted ``tau`` quantile of ``y - f``."""
        return piecewise_linear_minimizer(y - f, sample_weight, -self.tau * float(sample_weight.sum()))
