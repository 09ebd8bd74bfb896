"""Losses of a margin, for labels in {-1, +1}: logistic, hinge, squared hinge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit, logit, xlog1py, xlogy

from manykernels.objective.losses.base import Array, ClassificationLoss, QuadraticConjugate, piecewise_linear_minimizer

__all__ = ["Hinge", "Logistic", "SquaredHinge"]

_ROUNDING = 8 * np.finfo(np.float64).eps
_SATURATED_MARGIN = 40.0
"""A logistic loss at this margin is below the rounding of one."""


def _label_box(y: Array, end: float) -> tuple[Array, Array]:
    """Box ``0 <= y r <= end``."""
    positive = y > 0
    return np.where(positive, 0.0, -end), np.where(positive, end, 0.0)


@dataclass(frozen=True)
class Logistic(ClassificationLoss):
    """Logistic loss ``log(1 + exp(-y z))``; conjugate ``p log p + (1-p) log(1-p)`` with ``p = y r`` in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> Logistic().value(np.array([1.0, -1.0]), np.array([0.0, -1e300])).round(4).tolist()
    [0.6931, 0.0]
    """

    name: ClassVar[str] = "logistic"
    smooth: ClassVar[bool] = True
    entropic: ClassVar[bool] = True
    conjugate_form: ClassVar[str] = "binary_entropy"

    @property
    def curvature_bound(self) -> float:
        """A quarter, at ``z = 0``."""
        return 0.25

    def value(self, y: Array, z: Array) -> Array:
        """``log(1 + exp(-y z))``."""
        return np.logaddexp(0.0, -y * z)

    def derivative(self, y: Array, z: Array) -> Array:
        """``-y sigma(-y z)``."""
        return -y * expit(-y * z)

    def second_derivative(self, y: Array, z: Array) -> Array:
        """``sigma(z) sigma(-z)``."""
        return expit(z) * expit(-z)

    def _conjugate_inside(self, y: Array, r: Array) -> Array:
        p = np.clip(y * r, 0.0, 1.0)
        return xlogy(p, p) + xlog1py(1.0 - p, -p)

    def conjugate_derivative(self, y: Array, r: Array) -> Array:
        """``y log(p / (1-p))``; infinite at the ends of the box."""
        with np.errstate(divide="ignore"):
            return y * logit(np.clip(y * r, 0.0, 1.0))

    def conjugate_second_derivative(self, y: Array, r: Array) -> Array:
        """``1 / (p (1-p))``; infinite at the ends of the box."""
        p = np.clip(y * r, 0.0, 1.0)
        with np.errstate(divide="ignore", over="ignore"):
            return 1.0 / p / (1.0 - p)

    def dual_bounds(self, y: Array) -> tuple[Array, Array]:
        """``0 <= y r <= 1``."""
        return _label_box(y, 1.0)

    def best_intercept(self, y: Array, f: Array, sample_weight: Array) -> float:
        """Root of the weighted slope; with one class only, where every margin is saturated (there is no minimizer)."""
        positive = float(sample_weight[y > 0].sum())
        negative = float(sample_weight[y < 0].sum())
        low, high = float(f.min()), float(f.max())
        if positive == 0 or negative == 0:
            return _SATURATED_MARGIN - low if negative == 0 else -_SATURATED_MARGIN - high
        odds = float(np.log(positive) - np.log(negative))
        # With every score at `high` (or `low`) the minimizer would be exactly at that end.
        return self._root_intercept(y, f, sample_weight, odds - high, odds - low)


@dataclass(frozen=True)
class Hinge(QuadraticConjugate, ClassificationLoss):
    """Hinge loss ``max(1 - y z, 0)`` of the support vector machine; conjugate ``-y r`` on ``0 <= y r <= 1``.

    Examples
    --------
    >>> import numpy as np
    >>> Hinge().value(np.array([1.0, -1.0]), np.array([0.5, 0.5])).tolist()
    [0.5, 1.5]
    """

    name: ClassVar[str] = "hinge"
    smooth: ClassVar[bool] = False

    def value(self, y: Array, z: Array) -> Array:
        """``max(1 - y z, 0)``."""
        return np.maximum(1.0 - y * z, 0.0)

    def derivative(self, y: Array, z: Array) -> Array:
        """``-y`` below margin 1, else 0."""
        return np.where(y * z < 1.0, -y, 0.0)

    def second_derivative(self, y: Array, z: Array) -> Array:
        """Zero."""
        return np.zeros(np.broadcast(y, z).shape)

    def dual_bounds(self, y: Array) -> tuple[Array, Array]:
        """``0 <= y r <= 1``."""
        return _label_box(y, 1.0)

    def dual_interval(self, y: Array, z: Array) -> tuple[Array, Array]:
        """``y [0, 1]`` at margin 1 (up to rounding), ``y`` below and 0 above it."""
        distance = y * z - 1.0
        at_kink = np.abs(distance) <= _ROUNDING
        near = np.where(at_kink | (distance > 0), 0.0, y)
        far = np.where(at_kink | (distance < 0), y, 0.0)
        return np.minimum(near, far), np.maximum(near, far)

    def best_intercept(self, y: Array, f: Array, sample_weight: Array) -> float:
        """Weighted-median step: the slope jumps by ``s_i`` at ``y_i - f_i``."""
        return piecewise_linear_minimizer(y - f, sample_weight, -float(sample_weight[y > 0].sum()))


@dataclass(frozen=True)
class SquaredHinge(QuadraticConjugate, ClassificationLoss):
    """Squared hinge loss ``max(1 - y z, 0)^2 / 2``; conjugate ``r^2/2 - y r`` on ``y r >= 0``.

    Examples
    --------
    >>> import numpy as np
    >>> SquaredHinge().value(np.array([1.0, -1.0]), np.array([0.0, 1.0])).tolist()
    [0.5, 2.0]
    """

    name: ClassVar[str] = "squared_hinge"
    smooth: ClassVar[bool] = True
    curvature: ClassVar[float] = 1.0

    def value(self, y: Array, z: Array) -> Array:
        """``max(1 - y z, 0)^2 / 2``; ``inf`` where the square overflows."""
        with np.errstate(over="ignore"):
            return 0.5 * np.maximum(1.0 - y * z, 0.0) ** 2

    def derivative(self, y: Array, z: Array) -> Array:
        """``-y max(1 - y z, 0)``."""
        return -y * np.maximum(1.0 - y * z, 0.0)

    def second_derivative(self, y: Array, z: Array) -> Array:
        """1 below margin 1, else 0."""
        return np.where(y * z < 1.0, 1.0, 0.0)

    def dual_bounds(self, y: Array) -> tuple[Array, Array]:
        """``y r >= 0``."""
        return _label_box(y, np.inf)
