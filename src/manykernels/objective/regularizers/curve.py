r"""The numbers of a penalty made of powers of block norms, and everything that follows from them.

.. math:: \Omega(t) = \sum_m \Big( a_m t_m + \frac{r_m}{2} t_m^2 \Big) + \Psi(t), \qquad
          \Psi(t) = \frac{C}{q} \sum_m t_m^q \quad\text{or}\quad \frac{C}{2} \lVert t \rVert_q^2

A linear term shifts the conjugate, ``Omega*(u) = h*((u - a)_+)`` with ``h`` the rest, and the prox, ``x = prox_h((t -
step a)_+)``; so all is known once it is for ridge terms, for powers, and for squared norms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import brentq

from manykernels.exceptions import InvalidInputError
from manykernels.validation.arrays import Array

OVERSHOOT = 1e-12
"""Relative excess over a dual constraint that is rounding: an overshoot by one ulp must not make a gap infinite."""


@dataclass(frozen=True, eq=False)
class Curve:
    r"""Coefficients of ``sum_m (a_m t_m + r_m t_m^2 / 2)`` plus a power of block norms or the square of their norm.

    All engines read a penalty here: the matrix engines bounds and closed forms, the one on factors the coefficients of
    every group, the online solvers the exponents. A penalty has either ridge terms or a power, beside linear terms.

    Parameters
    ----------
    linear : float or array_like of shape (M,), default=0
        ``a``: the slopes at zero, which make kernels vanish.
    ridge : float or array_like of shape (M,), default=0
        ``r``: second derivatives.
    power : float, default=0
        ``C``.
    exponent : float, default=2
        ``q``, at least 1 and at most 2; above 1 if the power is not coupled.
    coupled : bool, default=False
        Whether the power term is ``(C / 2) ||t||_q^2``, which is no sum over kernels, instead of ``(C / q) sum t^q``.

    Raises
    ------
    InvalidInputError
        If a coefficient is negative, all are zero, or ridge terms stand beside a power.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective import Curve
    >>> curve = Curve(linear=0.5, ridge=2.0)
    >>> curve.value(np.array([1.0, 0.0])), curve.derivative(np.array([1.0, 0.0])).tolist()
    (1.5, [2.5, 0.5])
    """

    linear: Any = 0.0
    ridge: Any = 0.0
    power: float = 0.0
    exponent: float = 2.0
    coupled: bool = False

    def __post_init__(self) -> None:
        for name in ("linear", "ridge"):
            given = np.asarray(getattr(self, name), dtype=np.float64)
            object.__setattr__(self, name, given if given.ndim else float(given))
        smallest = min(np.min(self.linear, initial=np.inf), np.min(self.ridge, initial=np.inf), self.power)
        if not smallest >= 0:
            raise InvalidInputError(f"The coefficients of a curve cannot be negative, and one is {float(smallest)!r}.")
        if self.power and np.any(self.ridge):
            raise InvalidInputError("A curve has ridge terms or a power of norms, and this one has both.")
        if (self.power and not (self.coupled or self.exponent > 1)) or not 1 <= self.exponent <= 2:
            raise InvalidInputError(f"The exponent of a curve is above 1 and at most 2, not {self.exponent!r}.")

    # --- what kind of penalty it is ---------------------------------------------------------------------------------

    @cached_property
    def elastic(self) -> bool:
        """Whether there are linear and ridge terms only."""
        return self.power == 0

    @cached_property
    def uniform(self) -> bool:
        """Whether the terms of all kernels are alike."""
        return np.ndim(self.linear) == 0 and np.ndim(self.ridge) == 0

    @cached_property
    def slanted(self) -> bool:
        """Whether any kernel has a linear term."""
        return bool(np.any(self.linear))

    @cached_property
    def sparse(self) -> bool:
        """Whether optimal kernel weights contain exact zeros."""
        return self.slanted or self.simplex

    @cached_property
    def simplex(self) -> bool:
        """Whether the penalty is ``(C / 2) (sum t)^2``, with kernel weights of sum ``1 / C``."""
        return self.power > 0 and self.exponent == 1 and not self.slanted

    @cached_property
    def dual_constraint(self) -> bool:
        """Whether the conjugate is infinite somewhere: where a linear term stands alone."""
        return self.elastic and not np.all(self.ridge)

    @cached_property
    def bare(self) -> Any:
        """Mask of kernels without ridge term, a scalar or per kernel."""
        return np.equal(self.ridge, 0.0)

    @cached_property
    def square(self) -> tuple[float, float, float] | None:
        """``(a, c, p)`` of a penalty ``a sum t + (c / 2) ||t||_p^2``, None for others."""
        if not self.uniform or not (self.elastic or self.coupled):
            return None
        return (self.linear, self.ridge, 2.0) if self.elastic else (self.linear, self.power, self.exponent)

    @cached_property
    def norm_power(self) -> tuple[float, float, bool] | None:
        """``(C, q, coupled)`` of a penalty that is purely a power of norms, None for others."""
        if self.slanted or not self.uniform:
            return None
        return (self.ridge, 2.0, False) if self.elastic else (self.power, self.exponent, self.coupled)

    @cached_property
    def dual_exponent(self) -> float:
        """``q / (q - 1)``."""
        return self.exponent / (self.exponent - 1.0) if self.exponent > 1 else np.inf

    def take(self, kernels: slice | Array) -> Curve:
        """Return the curve of some of the kernels."""
        if self.uniform:
            return self
        parts = {name: getattr(self, name) for name in ("linear", "ridge")}
        return replace(self, **{name: part[kernels] if np.ndim(part) else part for name, part in parts.items()})

    # --- values and proximal steps ----------------------------------------------------------------------------------

    def value(self, t: Array) -> float:
        """Return ``Omega(t)``."""
        t = np.asarray(t)
        with np.errstate(over="ignore"):
            if self.elastic and self.uniform and not self.ridge:  # what small fits ask for most often
                return float(self.linear * t.sum())
            if self.elastic:
                return float(np.sum(t * (self.linear + 0.5 * self.ridge * t)))
            linear = float(np.sum(self.linear * t)) if self.slanted else 0.0
            if not self.coupled:
                return linear + self.power / self.exponent * float(np.sum(np.power(t, self.exponent)))
            size = _norm(t, self.exponent)  # floats of Python, whose product becomes infinite where a power would raise
            return linear + 0.5 * self.power * size * size

    def conjugate(self, u: Array) -> float:
        """Return ``Omega*(u)``, possibly infinite."""
        if self.dual_constraint:
            return self._conjugate_of_steep(np.asarray(u))
        excess = self._excess(u)
        with np.errstate(over="ignore"):
            if self.elastic:
                return 0.5 * float(np.sum(excess * (excess / self.ridge)))
            if not self.coupled:
                powers = np.power(excess / self.power, self.dual_exponent)
                return self.power / self.dual_exponent * float(np.sum(powers))
            size = _norm(excess, self.dual_exponent)
            return 0.5 * size * (size / self.power)

    def _excess(self, u: Array) -> Array:
        """Return ``(u - a)_+``."""
        return np.maximum(np.asarray(u) - self.linear, 0.0) if self.slanted else np.asarray(u, dtype=np.float64)

    def _conjugate_of_steep(self, u: Array) -> float:
        """Return the conjugate where some kernels have no ridge term."""
        limit = self.linear * (1.0 + OVERSHOOT)
        if self.uniform:
            return np.inf if u.max(initial=0.0) > limit else 0.0
        if np.any(self.bare & (u > limit)):
            return np.inf
        bare = np.broadcast_to(self.bare, u.shape)
        with np.errstate(over="ignore"):
            squares = np.divide(self._excess(u) ** 2, self.ridge, out=np.zeros(u.shape), where=~bare)
        return 0.5 * float(np.sum(squares))

    def dual_scale(self, u: Array) -> float:
        """Return the largest ``c`` in [0, 1] with finite ``conjugate(c u)``."""
        if not self.dual_constraint:
            return 1.0
        u, limit = np.asarray(u), self.linear
        if self.uniform:
            largest = float(u.max(initial=0.0))
            return limit / largest if not largest <= limit else 1.0
        bare = np.broadcast_to(self.bare, u.shape)
        u, limit = u[bare], np.broadcast_to(limit, u.shape)[bare]
        return float(np.min(limit / np.maximum(u, limit), initial=1.0))

    def scaled_conjugate(self, u: Array) -> tuple[float, float]:
        """Return the `dual_scale` ``c`` of ``u`` and ``conjugate(c u)``."""
        scale = self.dual_scale(u)
        return scale, 0.0 if self.dual_constraint and self.uniform else self.conjugate(scale * u)

    def prox(self, t: Array, step: Any) -> Array:
        """Return ``argmin_x |x - t|^2 / 2 + step Omega(x)`` over ``x >= 0``."""
        shifted = np.maximum(np.asarray(t, dtype=np.float64) - step * self.linear, 0.0)
        if self.elastic:
            return shifted / (1.0 + step * self.ridge)
        if not self.coupled:
            return power_prox(shifted, step * self.power, self.exponent)
        top, strength = float(np.max(shifted, initial=0.0)), step * self.power
        return top * _square_prox(shifted / top, strength, self.exponent) if top > 0 and strength > 0 else shifted

    def strength_max(self, u: Array) -> Any:
        """Return by how much the penalty must be multiplied for the zero model to be optimal, at ``u`` (..., M)."""
        if self.uniform:  # the largest ratio is that of the largest norm
            largest = np.max(u, axis=-1, initial=0.0)
            return largest / self.linear if self.linear > 0 else np.where(largest > 0, np.inf, 0.0)[()]
        u, slopes = np.asarray(u), np.broadcast_to(self.linear, np.shape(u))
        ratios = np.divide(u, slopes, out=np.where(u > 0, np.inf, 0.0), where=slopes > 0)
        return np.max(ratios, axis=-1, initial=0.0)

    def strengths_max(self, U: Array) -> Array:
        """Return `strength_max` of every row, (k,) for (k, M)."""
        if self.uniform:
            return np.asarray(self.strength_max(U))
        return np.array([self.strength_max(u) for u in U])  # one at a time: there may be a million kernels

    def threshold(self, t: Array) -> Any:
        """Return the slopes at zero of kernels without a norm, the rest having norms ``t``."""
        return self.linear + self.power * float(np.sum(t)) if self.power and self.exponent == 1 else self.linear

    # --- derivatives ------------------------------------------------------------------------------------------------

    def derivative(self, t: Array) -> Array:
        """Return ``dOmega / dt_m``, at zero the derivative to the right."""
        t = np.asarray(t, dtype=np.float64)
        if self.elastic:
            return self.linear + self.ridge * t
        if not self.coupled:
            return self.linear + self.power * t ** (self.exponent - 1.0)
        return self.linear + self.power * _gradient(t, self.exponent)

    def curvature(self, t: Array) -> tuple[Array, Array]:
        """Return ``h`` and ``g`` with the second derivatives ``diag(h) + g g'``, ``h`` possibly infinite."""
        t = np.asarray(t, dtype=np.float64)
        if self.elastic:
            return np.full(t.shape, self.ridge), np.zeros(t.shape)
        q = self.exponent
        with np.errstate(divide="ignore"):
            if not self.coupled:
                return self.power * (q - 1.0) * t ** (q - 2.0), np.zeros(t.shape)
            size = max(_norm(t, q), np.finfo(np.float64).tiny)
            diagonal = self.power * (q - 1.0) * (t / size) ** (q - 2.0) if q > 1 else np.zeros(t.shape)
        return diagonal, np.sqrt(self.power * (2.0 - q)) * (t / size) ** (q - 1.0)

    def conjugate_derivative(self, u: Array) -> Array:
        """Return ``dOmega* / du_m``, where the conjugate is differentiable."""
        excess = self._excess(u)
        if self.elastic:
            return excess / self.ridge
        if not self.coupled:
            return (excess / self.power) ** (1.0 / (self.exponent - 1.0))
        return _gradient(excess, self.dual_exponent) / self.power

    # --- kernel weights ---------------------------------------------------------------------------------------------

    def weights_from_norms(self, t: Array) -> Array:
        """Return ``t / Omega'(t)`` (M,), also where both vanish alike."""
        t = np.asarray(t, dtype=np.float64)
        if not self.elastic and not self.coupled and not self.slanted:
            return np.asarray(t ** (2.0 - self.exponent) / self.power)
        slopes = self.derivative(t)
        weights = np.where(np.asarray(self.linear) > 0, 0.0, self.weight_range[1] if self.elastic else 0.0)
        return np.divide(t, slopes, out=np.array(np.broadcast_to(weights, t.shape)), where=(slopes > 0) & (t > 0))

    @cached_property
    def weight_range(self) -> tuple[Any, Any]:
        """Ends of the interval of every kernel weight: the upper end is infinite or a pole of the bound."""
        if not self.elastic:
            fixed = self.exponent == 2 and not self.coupled and not self.slanted
            return (1.0 / self.power, 1.0 / self.power) if fixed else (0.0, np.inf)
        linear, ridge = np.asarray(self.linear), np.asarray(self.ridge)
        pole = np.divide(1.0, ridge, out=np.full(ridge.shape, np.inf), where=ridge > 0)
        return np.where(linear > 0, 0.0, pole), pole

    def norm_bound(self, d: Array) -> tuple[Array, Array]:
        """Return the squares of ``B``, which solves ``B = Omega'(d B)``, and the derivatives of ``B^2 / 2``.

        ``B = a / (1 - r d)``, or ``(C d^(q - 1))^(1 / (2 - q))``; zero where there is a ridge term only.
        """
        d = np.asarray(d, dtype=np.float64)
        if not self.slanted and (self.elastic or self.exponent == 2):
            return np.zeros(d.shape), np.zeros(d.shape)
        if self.elastic:
            room = 1.0 - self.ridge * d
            return (self.linear / room) ** 2, self.linear**2 * self.ridge / room**3
        power = (self.exponent - 1.0) / (2.0 - self.exponent)
        bound = self.power ** (2.0 / (2.0 - self.exponent)) * d ** (2.0 * power)
        return bound, power * bound / d


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


def _square_prox(t: Array, strength: float, q: float) -> Array:
    """Minimize ``|x - t|^2 / 2 + (strength / 2) ||x||_q^2``: the power prox with a solution-dependent strength."""
    if q == 1 or q == 2:
        return simplex_prox(t, strength) if q == 1 else t / (1.0 + strength)

    def local(x: Array) -> float:
        return strength * float(np.sum(x**q)) ** (2.0 / q - 1.0)

    upper = local(t)
    root = brentq(lambda c: local(power_prox(t, c, q)) - c, 0.0, upper, xtol=1e-15 * upper, rtol=1e-15, maxiter=500)
    return power_prox(t, root, q)


def _norm(x: Array, exponent: float) -> float:
    """Return ``||x||`` of the exponent, without overflow."""
    top = float(np.max(x, initial=0.0))
    if np.isinf(exponent) or not top > 0:
        return max(top, 0.0)
    return top * float(np.sum((np.asarray(x) / top) ** exponent)) ** (1.0 / exponent)


def _gradient(x: Array, exponent: float) -> Array:
    """Return the gradient of half the squared norm of the exponent."""
    size = _norm(x, exponent)
    return size * (x / size) ** (exponent - 1.0) if size > 0 else np.zeros(x.shape)
