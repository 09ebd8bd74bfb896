"""Losses with a logarithmic link, for counts and for positive amounts: Poisson and gamma."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, xlogy

from manykernels.exceptions import InvalidInputError
from manykernels.objective.losses.base import Array, RegressionLoss

__all__ = ["Gamma", "Poisson"]

REMEDY = "The score is the logarithm of the mean: such targets have none. Drop them, or choose the loss 'squared'."
FAR_BELOW = -700.0
"""A logarithm of a mean that is still a normal number: zero counts alone have no best constant."""


class LogLinkLoss(RegressionLoss):
    """A loss whose score is the logarithm of the mean: half the deviance of a target, zero where the mean is exact."""

    smooth: ClassVar[bool] = True
    entropic: ClassVar[bool] = True

    def mean(self, z: Array) -> Array:
        """``exp(z)``."""
        with np.errstate(over="ignore"):
            return np.exp(z)

    def _refuse(self, target: Array, bad: Array, words: str) -> None:
        """Say which targets the loss has no use for."""
        if bad.any():
            shown = np.unique(target[bad])[:5].tolist()
            raise InvalidInputError(
                f"The {self.name} loss needs {words}, but {int(bad.sum())} of {len(target)} targets are not, such as "
                f"{shown} (the first at index {int(np.argmax(bad))}). {REMEDY}"
            )


@dataclass(frozen=True)
class Poisson(LogLinkLoss):
    """Poisson loss ``exp(z) - y z - (y - y log y)``; conjugate ``(y-r) log(y-r) + r - y log y`` on ``r <= y``.

    Counts with an exposure ``e`` (time, area, persons) are rates ``y / e`` with sample weights ``e``:
    ``e exp(z) - y z`` is ``e`` times the loss of the rate. Targets need not be whole numbers for that reason.

    References
    ----------
    P. McCullagh, J. Nelder, "Generalized Linear Models", 2nd edition, 1989, chapter 6.

    Examples
    --------
    >>> import numpy as np
    >>> Poisson().value(np.array([0.0, 2.0]), np.array([0.0, np.log(2.0)])).round(6).tolist()
    [1.0, 0.0]
    """

    name: ClassVar[str] = "poisson"
    support: ClassVar[str] = "non-negative"

    def check_target(self, y: ArrayLike) -> Array:
        """Return counts or rates as float64 (N,); negative ones are refused."""
        target = super().check_target(y)
        self._refuse(target, target < 0, "counts, or rates, of zero or more")
        return target

    def why_no_constant(self, y: Array) -> str:
        """Zero counts alone have the best constant minus infinity."""
        return "" if y.any() else "Every count is zero, so that the best constant rate is exp(-inf)"

    def value(self, y: Array, z: Array) -> Array:
        """``exp(z) - y z - (y - y log y)``; ``inf`` where the exponential overflows."""
        with np.errstate(over="ignore"):
            return np.maximum(np.exp(z) - y * z - (y - xlogy(y, y)), 0.0)

    def derivative(self, y: Array, z: Array) -> Array:
        """``exp(z) - y``."""
        return self.mean(z) - y

    def second_derivative(self, y: Array, z: Array) -> Array:
        """``exp(z)``."""
        return self.mean(z) + 0.0 * y

    def _conjugate_inside(self, y: Array, r: Array) -> Array:
        rest = np.maximum(y - r, 0.0)
        return xlogy(rest, rest) + r - xlogy(y, y)

    def conjugate_derivative(self, y: Array, r: Array) -> Array:
        """``-log(y - r)``; infinite at the end of the domain."""
        with np.errstate(divide="ignore"):
            return -np.log(np.maximum(y - r, 0.0))

    def conjugate_second_derivative(self, y: Array, r: Array) -> Array:
        """``1 / (y - r)``; infinite at the end of the domain."""
        with np.errstate(divide="ignore", over="ignore"):
            return 1.0 / np.maximum(y - r, 0.0)

    def dual_bounds(self, y: Array) -> tuple[Array, Array]:
        """``r <= y``."""
        return np.full(np.shape(y), -np.inf), np.array(y, dtype=np.float64)

    def best_intercept(self, y: Array, f: Array, sample_weight: Array) -> float:
        """``log(sum s y) - log(sum s exp(f))``; far below every score if all counts are zero."""
        total = float(sample_weight @ y)
        top = float(logsumexp(f, b=sample_weight))
        return float(np.log(total)) - top if total > 0 else FAR_BELOW - top


@dataclass(frozen=True)
class Gamma(LogLinkLoss):
    """Gamma loss ``y exp(-z) - 1 + z - log y``; conjugate ``(1+r) log(1+r) - r - r log y`` on ``r >= -1``.

    Amounts with an exposure ``e`` are amounts ``y / e`` for one unit of it, without other weights.

    References
    ----------
    P. McCullagh, J. Nelder, "Generalized Linear Models", 2nd edition, 1989, chapter 8.

    Examples
    --------
    >>> import numpy as np
    >>> Gamma().value(np.array([1.0, 2.0]), np.array([0.0, np.log(2.0)])).round(6).tolist()
    [0.0, 0.0]
    """

    name: ClassVar[str] = "gamma"
    support: ClassVar[str] = "positive"

    def check_target(self, y: ArrayLike) -> Array:
        """Return amounts as float64 (N,); zero and negative ones are refused."""
        target = super().check_target(y)
        self._refuse(target, target <= 0, "amounts above zero")
        return target

    def value(self, y: Array, z: Array) -> Array:
        """``y exp(-z) - 1 + z - log y``; ``inf`` where the exponential overflows."""
        distance = z - np.log(y)
        with np.errstate(over="ignore"):
            return np.maximum(np.exp(-distance) - 1.0 + distance, 0.0)

    def derivative(self, y: Array, z: Array) -> Array:
        """``1 - y exp(-z)``."""
        return 1.0 - self.second_derivative(y, z)

    def second_derivative(self, y: Array, z: Array) -> Array:
        """``y exp(-z)``."""
        with np.errstate(over="ignore"):
            return np.exp(np.log(y) - z)

    def _conjugate_inside(self, y: Array, r: Array) -> Array:
        rest = np.maximum(1.0 + r, 0.0)
        return xlogy(rest, rest) - r - r * np.log(y)

    def conjugate_derivative(self, y: Array, r: Array) -> Array:
        """``log(1 + r) - log y``; infinite at the end of the domain."""
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(1.0 + r, 0.0)) - np.log(y)

    def conjugate_second_derivative(self, y: Array, r: Array) -> Array:
        """``1 / (1 + r)``; infinite at the end of the domain."""
        with np.errstate(divide="ignore"):
            return 1.0 / np.maximum(1.0 + r, 0.0) + 0.0 * y

    def dual_bounds(self, y: Array) -> tuple[Array, Array]:
        """``r >= -1``."""
        return np.full(np.shape(y), -1.0), np.full(np.shape(y), np.inf)

    def best_intercept(self, y: Array, f: Array, sample_weight: Array) -> float:
        """``log(sum s y exp(-f)) - log(sum s)``."""
        return float(logsumexp(np.log(y) - f, b=sample_weight)) - float(np.log(sample_weight.sum()))
