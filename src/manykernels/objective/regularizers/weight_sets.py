"""Regularizers given by a set of kernel weights: ``Omega(t) = (lam/2) min_{theta in Theta} sum_m t_m^2 / theta_m``."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq

from manykernels.exceptions import InvalidInputError
from manykernels.objective.capabilities import Capability
from manykernels.objective.regularizers.base import Array, Regularizer
from manykernels.objective.regularizers.elastic_net_ball import linear_maximizer, shifted_reciprocals
from manykernels.objective.regularizers.elastic_net_iterations import wsr_iterations
from manykernels.validation.arrays import check_positive

__all__ = ["ElasticNetBall", "LpBall", "Simplex", "WeightSet", "power_prox", "simplex_prox"]


@dataclass(frozen=True)
class WeightSet(Regularizer):
    """``Omega(t) = (lam/2) min_{theta in Theta} sum_m t_m^2/theta_m``, ``Omega*(u) = max_theta theta'u^2 / (2 lam)``.

    The kernel weights of the model are ``d = theta / lam``. Everything is computed on ``t / max(t)`` so that squares
    neither overflow nor vanish.

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

    @abc.abstractmethod
    def _unit_value(self, t: Array) -> float:
        """``min_theta sum t^2/theta`` for ``max(t) = 1``."""

    @abc.abstractmethod
    def _unit_conjugate(self, u: Array) -> float:
        """``max_theta theta'u^2`` for ``max(u) = 1``."""

    @abc.abstractmethod
    def _unit_prox(self, t: Array, strength: float) -> Array:
        """Prox of ``strength / lam`` times the penalty for ``max(t) = 1``."""

    def value(self, t: Array) -> float:
        """``(lam/2) min_theta sum t^2 / theta``."""
        top = float(np.max(t, initial=0.0))
        return 0.5 * self.strength * top * (top * self._unit_value(np.asarray(t) / top)) if top > 0 else 0.0

    def conjugate(self, u: Array) -> float:
        """``max_theta theta'u^2 / (2 lam)``."""
        top = float(np.max(u, initial=0.0))
        return 0.5 * top * (top / self.strength) * self._unit_conjugate(np.asarray(u) / top) if top > 0 else 0.0

    def weights(self, t: Array, u: Array) -> Array:
        """``theta / lam`` with ``theta`` the minimizer for ``t``; ``u`` is not needed."""
        return self.weights_from_norms(t)

    def weights_from_norms(self, t: Array) -> Array:
        """``theta / lam`` with ``theta`` the minimizer for ``t``."""
        return self.best_theta(np.asarray(t, dtype=np.float64)) / self.strength

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Those of every regularizer, and the best weights, which are what the set is about."""
        return super().capabilities | {Capability.WEIGHTS_FROM_NORMS}

    def prox(self, t: Array, step: float) -> Array:
        """``argmin_x |x - t|^2 / 2 + step Omega(x)``; positively homogeneous of degree 1 in ``t``."""
        t = np.asarray(t, dtype=np.float64)
        top = float(np.max(t, initial=0.0))
        strength = step * self.strength
        return top * self._unit_prox(t / top, strength) if top > 0 and strength > 0 else t.copy()


def simplex_prox(t: Array, strength: float) -> Array:
    """Minimize ``|x - t|^2 / 2 + (strength / 2) (sum x)^2`` over ``x >= 0``, exactly, by a sort."""
    ordered = -np.sort(-t)
    sums = np.cumsum(ordered) / (1.0 / strength + np.arange(1, t.size + 1)) if strength > 0 else np.zeros(t.size)
    active = np.flatnonzero(ordered > sums)
    shift = sums[active[-1]] if active.size else 0.0
    return np.maximum(t - shift, 0.0)


def power_prox(t: Array, strength: float, q: float) -> Array:
    """Minimize ``|x - t|^2 / 2 + (strength / q) sum x^q`` over ``x >= 0``.

    Newton's method in ``v = x^(q-1)``, where ``v^(1/(q-1)) + strength v = t`` is convex: it decreases to the root
    without safeguards, and does not lose the tiny ``x`` of ``q`` near 1.
    """
    t = np.asarray(t, dtype=np.float64)
    if strength == 0:
        return t.copy()
    power = 1.0 / (q - 1.0)
    with np.errstate(over="ignore", under="ignore"):
        v = np.minimum(t / strength, t ** (q - 1.0))
        for _ in range(200):
            below = v ** (power - 1.0)
            step = (v * below + strength * v - t) / (power * below + strength)
            v = np.maximum(v - step, 0.0)
            if np.all(np.abs(step) <= 4e-16 * v):
                break
        return v**power


@dataclass(frozen=True)
class Simplex(WeightSet):
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
    def sparse(self) -> bool:
        """True."""
        return True

    @property
    def simplex_size(self) -> float:
        """``1 / lam``."""
        return 1.0 / self.strength

    def weight_limit(self, d: Array) -> tuple[Array, Array, float]:
        """``g(d) = d``, whose sum is ``1 / lam``."""
        return np.ones(np.shape(d)), np.zeros(np.shape(d)), self.simplex_size - float(np.sum(d))

    def derivative(self, t: Array) -> Array:
        """``lam sum t``."""
        return np.full(np.shape(t), self.strength * float(np.sum(t)))

    def second_derivative(self, t: Array) -> Array:
        """``lam``."""
        return np.full(np.shape(t), self.strength)

    def hessian(self, t: Array) -> Array:
        """``lam`` everywhere: the norms are summed before they are squared."""
        return np.full((np.size(t), np.size(t)), self.strength)

    def best_theta(self, t: Array) -> Array:
        """``t / sum t``."""
        top = float(np.max(t, initial=0.0))
        return (t / top) / np.sum(t / top) if top > 0 else np.zeros(np.shape(t))

    def _unit_value(self, t: Array) -> float:
        return float(np.sum(t)) ** 2

    def _unit_conjugate(self, u: Array) -> float:
        return 1.0

    def _unit_prox(self, t: Array, strength: float) -> Array:
        return simplex_prox(t, strength)


@dataclass(frozen=True)
class LpBall(WeightSet):
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
    def sparse(self) -> bool:
        """Whether p is 1."""
        return self.p == 1

    @property
    def norm_exponent(self) -> float:
        """``q = 2p/(p+1)``, in [1, 2)."""
        return 2.0 * self.p / (self.p + 1.0)

    @property
    def simplex_size(self) -> float | None:
        """``1 / lam`` if p is 1."""
        return 1.0 / self.strength if self.p == 1 else None

    def weight_limit(self, d: Array) -> tuple[Array, Array, float]:
        """``g(d) = (lam d)^p / (lam p)``, whose sum is ``1 / (lam p)``."""
        theta = self.strength * np.asarray(d)
        slopes = theta ** (self.p - 1.0)
        return slopes, (self.p - 1.0) * slopes, (1.0 - float(theta @ slopes)) / (self.p * self.strength)

    def best_theta(self, t: Array) -> Array:
        """``t^(2/(p+1)) / (sum t^q)^(1/p)``."""
        top = float(np.max(t, initial=0.0))
        if top == 0:
            return np.zeros(np.shape(t))
        powers = (t / top) ** (2.0 / (self.p + 1.0))
        return powers / np.sum(powers**self.p) ** (1.0 / self.p)

    def _unit_value(self, t: Array) -> float:
        return float(np.sum(t**self.norm_exponent)) ** (2.0 / self.norm_exponent)

    def _unit_conjugate(self, u: Array) -> float:
        if self.p == 1:
            return 1.0
        exponent = 2.0 * self.p / (self.p - 1.0)
        return float(np.sum(u**exponent)) ** (2.0 / exponent)

    def _unit_prox(self, t: Array, strength: float) -> Array:
        """Prox of the block q-norm with the strength ``strength ||x||_q^(2-q)`` that its own solution has."""
        q = self.norm_exponent
        if q == 1:
            return simplex_prox(t, strength)

        def local(x: Array) -> float:
            return strength * float(np.sum(x**q)) ** (2.0 / q - 1.0)

        upper = local(t)
        root = brentq(lambda c: local(power_prox(t, c, q)) - c, 0.0, upper, xtol=1e-15 * upper, rtol=1e-15, maxiter=500)
        return power_prox(t, root, q)


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

    @property
    def simplex_size(self) -> float | None:
        """``1 / lam`` if eta is 1."""
        return 1.0 / self.strength if self.eta == 1 else None

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

    def _unit_value(self, t: Array) -> float:
        kept = t[t > 0]
        return float(np.sum(kept / shifted_reciprocals(kept, 0.0, self.eta) * kept))

    def _unit_conjugate(self, u: Array) -> float:
        return float(np.dot(linear_maximizer(u**2, self.eta), u**2))

    def _unit_prox(self, t: Array, strength: float) -> Array:
        """Given theta, ``x = t theta / (theta + strength)``; then theta minimizes ``sum t^2/(theta + strength)``."""
        theta = shifted_reciprocals(t, strength, self.eta)
        return t * (theta / (theta + strength))
