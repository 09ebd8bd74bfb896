"""Regularizers given by a set of kernel weights: ``Omega(t) = (lam/2) min_{theta in Theta} sum_m t_m^2 / theta_m``."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.objective.capabilities import Capability
from manykernels.objective.regularizers.base import Array, Regularizer
from manykernels.objective.regularizers.curve import Curve
from manykernels.objective.regularizers.elastic_net_ball import linear_maximizer, shifted_reciprocals, wsr_iterations
from manykernels.validation.arrays import check_positive

__all__ = ["ElasticNetBall", "LpBall", "Simplex", "WeightSet"]


@dataclass(frozen=True)
class WeightSet(Regularizer, abc.ABC):
    """``Omega(t) = (lam/2) min_{theta in Theta} sum_m t_m^2/theta_m``, ``Omega*(u) = max_theta theta'u^2 / (2 lam)``.

    The kernel weights of the model are ``d = theta / lam``. A set without a curve is given by its `weight_limit`, from
    which derivatives follow, and by value, conjugate and prox.

    Parameters
    ----------
    strength : float
        ``lam``.
    """

    separable: ClassVar[bool] = False
    weight_set: ClassVar[bool] = True

    @abc.abstractmethod
    def best_theta(self, t: Array) -> Array:
        """Return the minimizer over the set of ``sum_m t_m^2 / theta_m`` (M,); zero where ``t`` is zero."""

    def weights(self, t: Array, u: Array) -> Array:
        """``theta / lam`` with ``theta`` the minimizer for ``t``; ``u`` is not needed."""
        return self.weights_from_norms(t)

    def weights_from_norms(self, t: Array) -> Array:
        """``theta / lam`` with ``theta`` the minimizer for ``t``."""
        return self.best_theta(np.asarray(t, dtype=np.float64)) / self.strength

    def derivative(self, t: Array) -> Array:
        """``lam t / theta``, which is ``sqrt(tau g'(d))`` also where ``t`` is zero."""
        return self.curve.derivative(t) if self.curve is not None else self._slopes(t)[2]

    def curvature(self, t: Array) -> tuple[Array, Array]:
        """From ``u^2 = tau g'(d)`` and ``t = d u``, whose differentials leave one number, ``dtau``, to all kernels."""
        if self.curve is not None:
            return self.curve.curvature(t)
        d, tau, u = self._slopes(t)
        slopes, bends, _ = self.weight_limit(d)
        both = np.maximum(2.0 * u**2 + tau * bends, np.finfo(np.float64).tiny)
        rise = np.divide(bends, d, out=np.full(d.shape, np.inf), where=d > 0)
        shares = max(float(np.sum(d * slopes**2 / both)), np.finfo(np.float64).tiny)
        return tau * rise / both, np.sqrt(2.0 / shares) * u * slopes / both

    def threshold(self, t: Array) -> float:
        """``sqrt(tau g'(0))``."""
        return self._slopes(t)[1] ** 0.5 * float(self.weight_limit(np.zeros(1))[0][0]) ** 0.5

    def _slopes(self, t: Array) -> tuple[Array, float, Array]:
        """Return the best weights, ``tau`` and the derivatives ``u``."""
        d = self.weights_from_norms(t)
        slopes, active = self.weight_limit(d)[0], d > 0
        root = float(np.max(t[active] / d[active] / np.sqrt(slopes[active]), initial=0.0))
        return d, root**2, root * np.sqrt(slopes)

    @cached_property
    def capabilities(self) -> frozenset[Capability]:
        """Those of every regularizer, and the best weights, which are what the set is about."""
        found = super().capabilities | {Capability.WEIGHTS_FROM_NORMS}
        smooth = self.curve is not None or self._defines("weight_limit")
        return found if smooth else found - {Capability.CURVATURE}


@dataclass(frozen=True)
class NormBall(WeightSet):
    """Weights in a ball ``||theta||_p <= 1``: ``Omega(t) = (lam/2) ||t||_q^2`` with ``q = 2p/(p+1)``."""

    @property
    @abc.abstractmethod
    def _p(self) -> float:
        """Return the exponent ``p``."""

    @cached_property
    def curve(self) -> Curve:
        """The square of the norm with ``q = 2p/(p+1)``, in [1, 2)."""
        return Curve(power=self.strength, exponent=2.0 * self._p / (self._p + 1.0), coupled=True)

    def weight_limit(self, d: Array) -> tuple[Array, Array, float]:
        """``g(d) = (lam d)^p / (lam p)``, whose sum is ``1 / (lam p)``."""
        theta = self.strength * np.asarray(d)
        slopes = theta ** (self._p - 1.0)
        return slopes, (self._p - 1.0) * slopes, (1.0 - float(theta @ slopes)) / (self._p * self.strength)

    def best_theta(self, t: Array) -> Array:
        """``t^(2/(p+1)) / (sum t^q)^(1/p)``."""
        top = float(np.max(t, initial=0.0))
        if top == 0:
            return np.zeros(np.shape(t))
        powers = (t / top) ** (2.0 / (self._p + 1.0))
        return powers / np.sum(powers**self._p) ** (1.0 / self._p)


@dataclass(frozen=True)
class Simplex(NormBall):
    """The simplex: ``Omega(t) = (lam/2) (sum t)^2``, the squared block 1-norm of group-lasso MKL and SimpleMKL.

    Parameters
    ----------
    strength : float
        ``lam``; an SVM with constant C has ``lam = 1/C``.

    Examples
    --------
    >>> import numpy as np
    >>> Simplex(1.0).value(np.array([1.0, 2.0])), Simplex(1.0).conjugate(np.array([1.0, 2.0]))
    (4.5, 2.0)
    """

    name: ClassVar[str] = "simplex"

    @property
    def _p(self) -> float:
        """1."""
        return 1.0


@dataclass(frozen=True)
class LpBall(NormBall):
    """The lp ball ``||theta||_p <= 1``: ``Omega(t) = (lam/2) ||t||_q^2`` with ``q = 2p/(p+1)`` (Kloft et al. 2011).

    Parameters
    ----------
    strength : float
        ``lam``.
    p : float, default=2.0
        At least 1, which is the simplex.

    Examples
    --------
    >>> import numpy as np
    >>> round(LpBall(1.0, p=2.0).conjugate(np.array([1.0, 1.0])), 12)
    0.707106781187
    """

    p: float = 2.0

    name: ClassVar[str] = "lp_ball"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "p", check_positive(self.p, "p"))
        if self.p < 1:
            raise InvalidInputError(f"p must be at least 1, got {self.p!r}: below 1 the penalty is not convex.")

    @property
    def _p(self) -> float:
        """Return ``p``."""
        return self.p


@dataclass(frozen=True)
class ElasticNetBall(WeightSet):
    """The elastic-net ball ``eta ||theta||_1 + (1 - eta) ||theta||_2^2 <= 1`` (Citi).

    Parameters
    ----------
    strength : float
        ``lam``.
    eta : float, default=0.5
        1 is the simplex, 0 the 2-norm ball.

    Examples
    --------
    >>> import numpy as np
    >>> round(ElasticNetBall(1.0, eta=0.0).conjugate(np.array([1.0, 1.0])), 12)
    0.707106781187
    """

    eta: float = 0.5

    name: ClassVar[str] = "elasticnet_ball"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "eta", check_positive(self.eta, "eta", allow_zero=True, upper=1.0))

    @property
    def sparse(self) -> bool:
        """Whether the set has a corner, ``eta > 0``."""
        return self.eta > 0

    @cached_property
    def curve(self) -> Curve | None:
        """That of the simplex if eta is 1: other balls have no closed form."""
        return Curve(power=self.strength, exponent=1.0, coupled=True) if self.eta == 1 else None

    def weight_limit(self, d: Array) -> tuple[Array, Array, float]:
        """``g(d) = eta d + (1 - eta) lam d^2``, whose sum is ``1 / lam``."""
        bends = 2.0 * (1.0 - self.eta) * self.strength * np.asarray(d)
        return self.eta + bends, bends, 1.0 / self.strength - float(np.sum(d * (self.eta + bends / 2)))

    def iterated_weights(self, t: Array, start: Array) -> Array:
        """Return what Citi's own iteration finds (Algorithm 2)."""
        return wsr_iterations((t / t.max()) ** 2, self.eta, start).theta / self.strength

    def best_theta(self, t: Array) -> Array:
        """Solution of Citi's reciprocals problem."""
        return shifted_reciprocals(t, 0.0, self.eta)

    def value(self, t: Array) -> float:
        """``(lam/2) sum t^2 / theta``, on ``t / max(t)`` so that squares neither overflow nor vanish."""
        top = float(np.max(t, initial=0.0))
        kept = np.asarray(t)[np.asarray(t) > 0] / top
        if not kept.size:
            return 0.0
        return 0.5 * self.strength * top * (top * float(np.sum(kept / shifted_reciprocals(kept, 0.0, self.eta) * kept)))

    def conjugate(self, u: Array) -> float:
        """``max_theta theta'u^2 / (2 lam)``."""
        top = float(np.max(u, initial=0.0))
        squares = (np.asarray(u) / top) ** 2 if top > 0 else np.zeros(np.shape(u))
        return 0.5 * top * (top / self.strength) * float(np.dot(linear_maximizer(squares, self.eta), squares))

    def prox(self, t: Array, step: float) -> Array:
        """Given theta, ``x = t theta / (theta + strength)``; then theta minimizes ``sum t^2/(theta + strength)``."""
        t = np.asarray(t, dtype=np.float64)
        top, strength = float(np.max(t, initial=0.0)), step * self.strength
        if not (top > 0 and strength > 0):
            return t.copy()
        theta = shifted_reciprocals(t / top, strength, self.eta)
        return top * (t / top * (theta / (theta + strength)))
