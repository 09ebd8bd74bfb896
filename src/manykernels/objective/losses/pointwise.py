"""Losses of a single score and a target per sample.

Of a margin, for labels in {-1, +1}: logistic, hinge, squared hinge. Of a residual, for real targets: squared,
epsilon-insensitive, Huber, quantile. Of counts and amounts: Poisson, gamma.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit, logsumexp, xlog1py, xlogy

from manykernels.exceptions import InvalidInputError
from manykernels.objective.losses.base import (
    Array,
    ClassificationLoss,
    PiecewiseLinear,
    QuadraticConjugate,
    RegressionLoss,
    root_between,
)
from manykernels.validation.arrays import check_nonnegative, check_positive

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
    curvature_bound: ClassVar[float] = 0.25  # at ``z = 0``

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
            saturated_margin = 40.0
            return saturated_margin - low if negative == 0 else -saturated_margin - high
        odds = float(np.log(positive) - np.log(negative))
        # With every score at `high` (or `low`) the minimizer would be exactly at that end.
        return root_between(self._slope(y, f, sample_weight), odds - high, odds - low, self.score_unit)


@dataclass(frozen=True)
class Hinge(PiecewiseLinear, ClassificationLoss):
    """Hinge loss ``max(1 - y z, 0)`` of the support vector machine; conjugate ``-y r`` on ``0 <= y r <= 1``.

    Examples
    --------
    >>> import numpy as np
    >>> Hinge().value(np.array([1.0, -1.0]), np.array([0.5, 0.5])).tolist()
    [0.5, 1.5]
    """

    name: ClassVar[str] = "hinge"

    def value(self, y: Array, z: Array) -> Array:
        """``max(1 - y z, 0)``."""
        return np.maximum(1.0 - y * z, 0.0)

    def derivative(self, y: Array, z: Array) -> Array:
        """``-y`` below margin 1, else 0."""
        return np.where(y * z < 1.0, -y, 0.0)

    def dual_bounds(self, y: Array) -> tuple[Array, Array]:
        """``0 <= y r <= 1``."""
        return _label_box(y, 1.0)


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


def _constant_box(y: Array, lo: float, hi: float) -> tuple[Array, Array]:
    return np.full(np.shape(y), lo), np.full(np.shape(y), hi)


@dataclass(frozen=True)
class Squared(QuadraticConjugate, RegressionLoss):
    """Squared loss ``(z - y)^2 / 2``; conjugate ``r^2/2 - y r`` for every ``r``.

    Examples
    --------
    >>> import numpy as np
    >>> Squared().value(np.array([1.0]), np.array([3.0])).tolist()
    [2.0]
    """

    name: ClassVar[str] = "squared"
    smooth: ClassVar[bool] = True
    curvature: ClassVar[float] = 1.0
    linear_dual: ClassVar[bool] = True

    def value(self, y: Array, z: Array) -> Array:
        """``(z - y)^2 / 2``; ``inf`` where the square overflows."""
        with np.errstate(over="ignore"):
            return 0.5 * (z - y) ** 2

    def derivative(self, y: Array, z: Array) -> Array:
        """``z - y``."""
        return z - y

    def second_derivative(self, y: Array, z: Array) -> Array:
        """Return ones."""
        return np.ones(np.broadcast(y, z).shape)

    def dual_bounds(self, y: Array) -> tuple[Array, Array]:
        """Every ``r``."""
        return _constant_box(y, -np.inf, np.inf)

    def best_intercept(self, y: Array, f: Array, sample_weight: Array) -> float:
        """Weighted mean of ``y - f``."""
        return float(np.dot(sample_weight / sample_weight.sum(), y - f))


@dataclass(frozen=True)
class EpsilonInsensitive(PiecewiseLinear, RegressionLoss):
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_nonnegative(self.epsilon, "epsilon"))

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

    def dual_bounds(self, y: Array) -> tuple[Array, Array]:
        """``|r| <= 1``."""
        return _constant_box(y, -1.0, 1.0)


@dataclass(frozen=True)
class Huber(QuadraticConjugate, RegressionLoss):
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
    curvature: ClassVar[float] = 1.0

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

    def dual_bounds(self, y: Array) -> tuple[Array, Array]:
        """``|r| <= delta``."""
        return _constant_box(y, -self.delta, self.delta)


@dataclass(frozen=True)
class Quantile(PiecewiseLinear, RegressionLoss):
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", check_positive(self.tau, "tau"))
        if self.tau >= 1:
            raise InvalidInputError(f"tau must be strictly between 0 and 1, got {self.tau!r}.")

    def value(self, y: Array, z: Array) -> Array:
        """``max(tau (y - z), (tau - 1)(y - z))``."""
        return np.maximum(self.tau * (y - z), (self.tau - 1.0) * (y - z))

    def derivative(self, y: Array, z: Array) -> Array:
        """``-tau`` below the target, ``1 - tau`` above, 0 at the target."""
        return np.where(z < y, -self.tau, np.where(z > y, 1.0 - self.tau, 0.0))

    def dual_bounds(self, y: Array) -> tuple[Array, Array]:
        """``tau - 1 <= r <= tau``."""
        return _constant_box(y, self.tau - 1.0, self.tau)


# Losses with a logarithmic link, for counts and for positive amounts: Poisson and gamma.


REMEDY = "The score is the logarithm of the mean: such targets have none. Drop them, or choose the loss 'squared'."
"""A logarithm of a mean that is still a normal number: zero counts alone have no best constant."""


class LogLinkLoss(RegressionLoss):
    """A loss with the log mean as the score: half the deviance of a target, zero at the exact mean."""

    smooth: ClassVar[bool] = True
    entropic: ClassVar[bool] = True

    def mean(self, z: Array) -> Array:
        """``exp(z)``."""
        with np.errstate(over="ignore"):
            return np.exp(z)

    def _refuse(self, target: Array, bad: Array, words: str) -> None:
        """Raise an error with the targets invalid for the loss."""
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
        """Return counts or rates as float64 (N,); reject negative values."""
        target = super().check_target(y)
        self._refuse(target, target < 0, "counts, or rates, of zero or more")
        return target

    def refusal_of_constant(self, y: Array) -> str:
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
        far_below = -700.0
        return float(np.log(total)) - top if total > 0 else far_below - top


@dataclass(frozen=True)
class Gamma(LogLinkLoss):
    """Gamma loss ``y exp(-z) - 1 + z - log y``; conjugate ``(1+r) log(1+r) - r - r log y`` on ``r >= -1``.

    Amounts with an exposure ``e`` are amounts ``y / e`` for a single unit of it, without other weights.

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
        """Return amounts as float64 (N,); reject zero and negative values."""
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
