"""Penalties of groups of coordinates: elastic forms, sums of powers, and powers of such sums, group by group.

``Omega(v) = sum_m (a_m t_m + c_m t_m^2 / 2) + Psi(s)`` with ``t_m = ||v_m||`` and ``s = sum_m b_m t_m^q``; ``Psi``
is ``(C / q) s`` for the block q-norm and ``(C / 2) s^(2/q)`` for the simplex (q = 1) and the lp ball.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.compiled import compiled

ROOT_STEPS = 200
TINIEST = 1e-280  # norms whose logarithm is not worth a root


@dataclass(frozen=True)
class GroupPenalty:
    """Groups of coordinates and their penalties; all coefficients zero for the intercept.

    Attributes
    ----------
    starts : (G + 1,) int
    linear, curvature : (G,) float
        ``a`` and ``c``.
    power : (G,) float
        ``b``.
    exponent, strength : float
        ``q`` and ``C``.
    joint : bool
        Whether ``Psi`` is ``(C / 2) s^(2/q)``.
    outside : float
        What groups that are not here add to ``s``.
    """

    starts: Array
    linear: Array
    curvature: Array
    power: Array = field(default_factory=lambda: np.zeros(0))
    exponent: float = 2.0
    strength: float = 0.0
    joint: bool = False
    outside: float = 0.0

    def __post_init__(self) -> None:
        if len(self.power) != len(self.linear):
            object.__setattr__(self, "power", np.zeros(len(self.linear)))

    @property
    def shape(self) -> tuple[Any, ...]:
        """What compiled loops read: ``a, c, b, q, C, joint``."""
        return self.linear, self.curvature, self.power, self.exponent, self.strength, self.joint

    def norms(self, v: Array) -> Array:
        """Return the norm of every group, (G,)."""
        return np.sqrt(np.add.reduceat(v**2, self.starts[:-1]))

    def total(self, norms: Array) -> float:
        """Return ``s``."""
        return self.outside + (float(self.power @ norms**self.exponent) if self.strength else 0.0)

    def value(self, v: Array) -> float:
        """Return the penalty of ``v``."""
        return self.value_of(self.norms(v))

    def value_of(self, norms: Array) -> float:
        """Return the penalty of these norms."""
        elastic = float(np.sum(norms * (self.linear + 0.5 * self.curvature * norms)))
        if not self.strength:
            return elastic
        s, q = self.total(norms), self.exponent
        return elastic + (0.5 * self.strength * s ** (2.0 / q) if self.joint else self.strength / q * s)

    def slopes(self, norms: Array) -> Array:
        """Return ``dOmega / dt_m`` (G,), at zero the derivative to the right."""
        elastic = self.linear + self.curvature * norms
        if not self.strength:
            return elastic
        return elastic + self.strength * self._outer_slope(norms) * self.power * norms ** (self.exponent - 1.0)

    def _outer_slope(self, norms: Array) -> float:
        """Return ``q Psi'(s) / C``."""
        return self.total(norms) ** (2.0 / self.exponent - 1.0) if self.joint else 1.0

    def bends(self, norms: Array) -> tuple[Array, Array]:
        """Return ``h`` and ``g`` (G,) with the second derivatives ``diag(h) + g g'`` in positive norms."""
        safe, q = np.where(norms > 0, norms, 1.0), self.exponent
        if not self.strength:
            return self.curvature, np.zeros_like(norms)
        own = self.strength * self._outer_slope(norms) * (q - 1.0) * self.power * safe ** (q - 2.0)
        if not self.joint:
            return self.curvature + own, np.zeros_like(norms)
        s = max(self.total(norms), TINIEST)
        outer = self.strength * q * (2.0 / q - 1.0) * s ** (2.0 / q - 2.0)
        return self.curvature + own, np.sqrt(outer) * self.power * safe ** (q - 1.0)

    def violation(self, v: Array, gradient: Array) -> float:
        """Return the norm of the smallest subgradient, given the gradient of the smooth part."""
        norms, owner = self.norms(v), np.repeat(np.arange(len(self.linear)), np.diff(self.starts))
        alive = norms > 0
        slopes = self.slopes(norms)
        sizes = self.norms(gradient + (slopes / np.where(alive, norms, 1.0))[owner] * v)
        sizes[~alive] = np.maximum(sizes[~alive] - slopes[~alive], 0.0)
        return float(np.linalg.norm(sizes))

    def with_intercept(self, count: int = 1) -> GroupPenalty:
        """Return this penalty with so many coordinates more that have none."""
        none = np.zeros(count)
        return replace(
            self,
            starts=np.append(self.starts, self.starts[-1] + np.arange(1, count + 1)),
            linear=np.append(self.linear, none),
            curvature=np.append(self.curvature, none),
            power=np.append(self.power, none),
        )

    def part(self, low: int, high: int) -> GroupPenalty:
        """Return the penalty of groups ``low`` to ``high``, the others at zero."""
        chosen = slice(low, high)
        return replace(
            self,
            starts=self.starts[low : high + 1] - self.starts[low],
            linear=self.linear[chosen],
            curvature=self.curvature[chosen],
            power=self.power[chosen],
        )


@compiled()
def block_root(p: Array, eigenvalues: Array, linear: float, curvature: float) -> float:
    """Return ``tau > 0`` with ``sum_k p_k^2 / ((eigenvalue_k + c) tau + a)^2 = 1``, the norm of the block's minimizer.

    Newton on ``1 / sqrt(sum) - 1``, which is nearly linear in tau and is approached from below.
    """
    tau = 0.0
    for _ in range(ROOT_STEPS):
        total, slope = 0.0, 0.0
        for k in range(p.size):
            size = eigenvalues[k] + curvature
            inverse = 1.0 / (size * tau + linear)
            term = (p[k] * inverse) ** 2
            total += term
            slope += term * size * inverse
        step = (np.sqrt(total) - 1.0) * total / slope
        tau += step
        if step <= 1e-14 * tau:
            break
    return tau


@compiled()
def power_slope(tau: float, a: float, c: float, b: float, q: float, strength: float, joint: bool, rest: float) -> float:
    """Return the derivative of one group's penalty at the norm ``tau``, ``rest`` being the other groups' part of s."""
    outer = strength
    if joint:
        outer *= (rest + b * tau**q) ** (2.0 / q - 1.0)
    return a + c * tau + outer * b * tau ** (q - 1.0)


@compiled()
def power_root(
    p: Array, eigenvalues: Array, a: float, c: float, b: float, q: float, strength: float, joint: bool, rest: float
) -> float:
    """Return ``tau`` with ``sum_k p_k^2 / (eigenvalue_k tau + Omega'(tau))^2 = 1``, 0 if that is below any number.

    In ``log tau`` the logarithm of the sum falls at a rate between ``2 (q - 1)`` and 2: Newton inside a bracket.
    """
    low, high = np.log(TINIEST), 600.0
    x = 0.0
    for _ in range(ROOT_STEPS):
        tau = np.exp(x)
        slope = power_slope(tau, a, c, b, q, strength, joint, rest)
        nearby = tau * (1.0 + 1e-6)
        bend = (power_slope(nearby, a, c, b, q, strength, joint, rest) - slope) / 1e-6
        total, change = 0.0, 0.0
        for k in range(p.size):
            size = eigenvalues[k] * tau + slope
            term = (p[k] / size) ** 2
            total += term
            change += term * (eigenvalues[k] * tau + bend) / size
        if total > 1.0:
            low = x
        else:
            high = x
        step = 0.5 * np.log(total) * total / change if total > 0.0 and change > 0.0 else -np.inf
        new = x + step
        if not low <= new <= high:
            new = 0.5 * (low + high)
        done = abs(new - x) <= 1e-14 * max(1.0, abs(x)) or abs(step) <= 1e-15
        x = new
        if done:
            break
    return np.exp(x) if x > np.log(TINIEST) + 1.0 else 0.0


# First and second derivatives of a group penalty on the groups that are not zero, in coordinates.


Array = NDArray[Any]


@compiled()
def add_radial(system: Array, starts: Array, unit: Array, weights: Array) -> None:
    """Add ``weights[m] n_m n_m'`` to the diagonal blocks."""
    for m in range(weights.size):
        low, high = starts[m], starts[m + 1]
        for i in range(low, high):
            for j in range(low, high):
                system[i, j] += weights[m] * unit[i] * unit[j]


@dataclass(frozen=True)
class PenaltyCurve:
    """With ``n_m = v_m / t_m``: ``pull (I - n n') + bend n n'`` in every group, and ``g g'`` across groups.

    Attributes
    ----------
    free : (r,) bool
        Coordinates of groups that are not zero, or have no penalty.
    gradient : (r,)
    unit, pull : (r,)
        ``n`` and ``Omega' / t`` of each coordinate's group.
    radial : (G,)
        ``bend - pull``.
    coupling : (G,)
        ``g``.
    starts : (G + 1,)
    """

    free: Array
    gradient: Array
    unit: Array
    pull: Array
    radial: Array
    coupling: Array
    starts: Array

    @classmethod
    def at(cls, penalty: GroupPenalty, v: Array) -> PenaltyCurve:
        """Return the derivatives at ``v``; zero on groups at zero."""
        norms = penalty.norms(v)
        slopes, (bends, coupling) = penalty.slopes(norms), penalty.bends(norms)
        owner = np.repeat(np.arange(len(norms)), np.diff(penalty.starts))
        alive, safe = norms > 0, np.where(norms > 0, norms, 1.0)
        pull = np.where(alive, slopes / safe, 0.0)
        bare = (penalty.linear == 0) & (penalty.curvature == 0) & (penalty.power == 0)
        radial = np.where(alive, bends - pull, 0.0)
        return cls(
            (alive | bare)[owner],
            pull[owner] * v,
            v / safe[owner],
            pull[owner],
            radial,
            np.where(alive, coupling, 0.0),
            penalty.starts,
        )

    def add_to(self, system: Array) -> None:
        """Add the second derivatives in free coordinates to a matrix of these."""
        sizes = np.diff(self.starts)
        kept = self.free[self.starts[:-1]]
        unit = self.unit[self.free]
        system[np.diag_indices_from(system)] += self.pull[self.free]
        add_radial(system, np.concatenate([[0], np.cumsum(sizes[kept])]), unit, self.radial[kept])
        if self.coupling.any():
            g = np.repeat(self.coupling, sizes)[self.free] * unit
            system += np.outer(g, g)

    def product(self, d: Array) -> Array:
        """Return the second derivatives times ``d``, which is zero outside the free coordinates."""
        sizes = np.diff(self.starts)
        along = np.add.reduceat(self.unit * d, self.starts[:-1])
        weights = self.radial * along + self.coupling * float(self.coupling @ along)
        return self.pull * d + np.repeat(weights, sizes) * self.unit
