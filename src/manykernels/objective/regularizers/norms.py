"""Norm regularizers: sums over kernels of a function of the block norm."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.objective.regularizers.base import Array, Regularizer
from manykernels.objective.regularizers.weight_sets import power_prox
from manykernels.validation.arrays import check_positive

OVERSHOOT = 1e-12
"""Relative excess over a dual constraint that is rounding: an overshoot by one ulp must not make a gap infinite."""


def _largest(u: Array) -> float:
    return float(np.max(u, initial=0.0))


class LinearAndRidge(Regularizer):
    """What penalties ``sum_m (a t_m + r t_m^2 / 2)`` share, with ``(a, r)`` of `linear_and_ridge` for every kernel."""

    separable: ClassVar[bool] = True

    @property
    @abc.abstractmethod
    def linear_and_ridge(self) -> tuple[float, float]:
        """``(a, r)``."""

    @property
    def threshold(self) -> float:
        """``a``: the slope of the penalty at zero."""
        return self.linear_and_ridge[0]

    @property
    def curvature(self) -> float:
        """``r``: the curvature of the penalty."""
        return self.linear_and_ridge[1]

    @property
    def sparse(self) -> bool:
        """True unless ``a = 0``."""
        return self.threshold > 0

    def value(self, t: Array) -> float:
        """``sum (a t + r t^2 / 2)``."""
        with np.errstate(over="ignore"):
            return float(np.sum(np.asarray(t) * (self.threshold + 0.5 * self.curvature * np.asarray(t))))

    def conjugate(self, u: Array) -> float:
        """``sum (u - a)_+^2 / (2 r)``; for ``r = 0`` zero if every ``u_m <= a (1 + 1e-12)``, else infinite."""
        if self.dual_constraint:
            return 0.0 if _largest(u) <= self.threshold * (1.0 + OVERSHOOT) else np.inf
        excess = np.maximum(np.asarray(u) - self.threshold, 0.0)
        with np.errstate(over="ignore"):
            return 0.5 * float(np.sum(excess * (excess / self.curvature)))

    def dual_scale(self, u: Array) -> float:
        """1, or ``min(1, a / max u)`` for ``r = 0``."""
        return self.threshold / max(_largest(u), self.threshold) if self.dual_constraint else 1.0

    def prox(self, t: Array, step: float) -> Array:
        """``max(t - step a, 0) / (1 + step r)``."""
        return np.maximum(t - step * self.threshold, 0.0) / (1.0 + step * self.curvature)

    def derivative(self, t: Array) -> Array:
        """Return ``a + r t``."""
        return self.threshold + self.curvature * np.asarray(t)

    def second_derivative(self, t: Array) -> Array:
        """``r``."""
        return np.full(np.shape(t), self.curvature)

    def weights_from_norms(self, t: Array) -> Array:
        """``t / (a + r t)``; without the linear term ``1 / r`` also where ``t`` is zero."""
        return super().weights_from_norms(t) if self.sparse else np.full(np.shape(t), 1.0 / self.curvature)

    def conjugate_derivative(self, u: Array) -> Array:
        """``(u - a)_+ / r``."""
        return np.maximum(np.asarray(u) - self.threshold, 0.0) / self.curvature

    def norm_bound(self, d: Array) -> tuple[Array, Array]:
        """``B = a / (1 - r d)``; zero without a linear term, see `weight_range`."""
        if not self.sparse:
            return np.zeros(np.shape(d)), np.zeros(np.shape(d))
        room = 1.0 - self.curvature * np.asarray(d)
        return (self.threshold / room) ** 2, self.threshold**2 * self.curvature / room**3


@dataclass(frozen=True)
class BlockL1(LinearAndRidge):
    """Block 1-norm ``C sum_m t_m``, which selects kernels.

    Parameters
    ----------
    strength : float
        ``C``.

    Examples
    --------
    >>> import numpy as np
    >>> BlockL1(0.5).value(np.array([1.0, 2.0])), BlockL1(0.5).conjugate(np.array([0.5, 0.6]))
    (1.5, inf)
    """

    name: ClassVar[str] = "l1"

    @property
    def linear_and_ridge(self) -> tuple[float, float]:
        """``(C, 0)``."""
        return self.strength, 0.0

    def value(self, t: Array) -> float:
        """``C sum t``."""
        return self.strength * float(np.sum(t))

    def strength_max(self, u: Array) -> float:
        """``max u``."""
        return _largest(u)


@dataclass(frozen=True)
class ElasticNet(LinearAndRidge):
    """Elastic net ``C sum_m ((1 - lam) t_m + lam t_m^2 / 2)`` with ``l1_ratio = 1 - lam``.

    Parameters
    ----------
    strength : float
        ``C``.
    l1_ratio : float, default=0.5
        1 is the block 1-norm, 0 is ridge.

    Examples
    --------
    >>> import numpy as np
    >>> ElasticNet(1.0, l1_ratio=0.5).value(np.array([2.0]))
    2.0
    """

    l1_ratio: float = 0.5

    name: ClassVar[str] = "elasticnet"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "l1_ratio", check_positive(self.l1_ratio, "l1_ratio", allow_zero=True, upper=1.0))

    @property
    def linear_and_ridge(self) -> tuple[float, float]:
        """``(C (1 - lam), C lam)``."""
        return self.strength * self.l1_ratio, self.strength * (1.0 - self.l1_ratio)

    def strength_max(self, u: Array) -> float:
        """``max u / (1 - lam)``; infinite for ridge."""
        return _largest(u) / self.l1_ratio if self.l1_ratio > 0 else super().strength_max(u)

    def relative(self, fraction: float, u: Array, loss: float) -> ElasticNet:
        """Scale both terms, each by its own: no common strength suits ``t`` and ``t^2`` in every unit of the target."""
        linear = self.l1_ratio * BlockL1(1.0).relative(fraction, u, loss).strength
        ridge = (1.0 - self.l1_ratio) * Ridge(1.0).relative(fraction, u, loss).strength
        return ElasticNet(linear + ridge, l1_ratio=linear / (linear + ridge))


@dataclass(frozen=True)
class BlockLq(Regularizer):
    """Block q-norm ``(C / q) sum_m t_m^q`` with ``1 < q <= 2``: between selection and uniform weights.

    Parameters
    ----------
    strength : float
        ``C``.
    q : float, default=1.5
        Exponent; use ``BlockL1`` for 1.

    Examples
    --------
    >>> import numpy as np
    >>> BlockLq(2.0, q=2.0).value(np.array([1.0, 2.0]))
    5.0
    """

    q: float = 1.5

    name: ClassVar[str] = "lq"
    separable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "q", check_positive(self.q, "q", upper=2.0))
        if self.q <= 1:
            raise InvalidInputError(
                f"q must satisfy 1 < q <= 2, got {self.q!r}. The block 1-norm (q = 1) is penalty 'l1'."
            )

    @property
    def sparse(self) -> bool:
        """False."""
        return False

    def value(self, t: Array) -> float:
        """``(C / q) sum t^q``."""
        with np.errstate(over="ignore"):
            return self.strength / self.q * float(np.sum(np.power(t, self.q)))

    def conjugate(self, u: Array) -> float:
        """``C sum (u / C)^r / r`` with ``r = q / (q - 1)``."""
        dual_exponent = self.q / (self.q - 1.0)
        with np.errstate(over="ignore"):
            return self.strength / dual_exponent * float(np.sum(np.power(np.asarray(u) / self.strength, dual_exponent)))

    def prox(self, t: Array, step: float) -> Array:
        """Solution of ``x + step C x^(q - 1) = t``."""
        return power_prox(t, step * self.strength, self.q)

    @property
    def norm_exponent(self) -> float:
        """``q``."""
        return self.q

    def derivative(self, t: Array) -> Array:
        """``C t^(q - 1)``."""
        return self.strength * np.asarray(t) ** (self.q - 1.0)

    def second_derivative(self, t: Array) -> Array:
        """``C (q - 1) t^(q - 2)``; infinite at zero unless q is 2."""
        with np.errstate(divide="ignore"):
            return self.strength * (self.q - 1.0) * np.asarray(t) ** (self.q - 2.0)

    def weights_from_norms(self, t: Array) -> Array:
        """``t^(2 - q) / C``."""
        return np.asarray(t ** (2.0 - self.q) / self.strength)

    def conjugate_derivative(self, u: Array) -> Array:
        """``(u / C)^(1 / (q - 1))``."""
        return (np.asarray(u) / self.strength) ** (1.0 / (self.q - 1.0))

    def norm_bound(self, d: Array) -> tuple[Array, Array]:
        """``B = (C d^(q - 1))^(1 / (2 - q))``; for q = 2 the only weight is ``1 / C``, see `weight_range`."""
        if self.q == 2:
            return np.zeros(np.shape(d)), np.zeros(np.shape(d))
        power = (self.q - 1.0) / (2.0 - self.q)
        bound = self.strength ** (2.0 / (2.0 - self.q)) * np.asarray(d) ** (2.0 * power)
        return bound, power * bound / np.asarray(d)

    @property
    def weight_range(self) -> tuple[float, float]:
        """Every positive weight; ``1 / C`` alone for q = 2."""
        return (0.0, np.inf) if self.q < 2 else (1.0 / self.strength, 1.0 / self.strength)


@dataclass(frozen=True)
class Ridge(LinearAndRidge):
    """Ridge ``(C / 2) sum_m t_m^2``: every kernel has the weight ``1 / C``.

    Parameters
    ----------
    strength : float
        ``C``.

    Examples
    --------
    >>> import numpy as np
    >>> Ridge(2.0).value(np.array([1.0, 2.0])), Ridge(2.0).conjugate(np.array([2.0]))
    (5.0, 1.0)
    """

    name: ClassVar[str] = "ridge"

    def value(self, t: Array) -> float:
        """``(C / 2) sum t^2``."""
        with np.errstate(over="ignore"):
            return 0.5 * self.strength * float(np.sum(np.square(t)))

    def weights(self, t: Array, u: Array) -> Array:
        """``1 / C`` for every kernel, also where the norms vanish."""
        return np.full(np.shape(t), 1.0 / self.strength)

    @property
    def linear_and_ridge(self) -> tuple[float, float]:
        """``(0, C)``."""
        return 0.0, self.strength

    @property
    def norm_exponent(self) -> float:
        """2."""
        return 2.0
