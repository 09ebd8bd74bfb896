"""Penalties of groups of coordinates: elastic forms, sums of powers, and powers of such sums, group by group.

``Omega(v) = sum_m (a_m t_m + c_m t_m^2 / 2) + Psi(s)`` with ``t_m = ||v_m||`` and ``s = sum_m b_m t_m^q``; ``Psi`` is
``(C / q) s`` for the block q-norm and ``(C / 2) s^(2/q)`` for the simplex (q = 1) and the lp ball. The coefficients are
those of `Regularizer.curve`; a penalty without one is read by the functions of ``t``, more slowly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import brentq

from manykernels.compiled import compiled
from manykernels.exceptions import IncompatibleError
from manykernels.grams.factored.cones import CLOSE, polar_norm, project
from manykernels.grams.loops import FAST
from manykernels.objective.capabilities import Capability
from manykernels.objective.regularizers import Regularizer
from manykernels.validation.arrays import Array

ROOT_STEPS = 200
TINIEST = 1e-280  # norms whose logarithm is not worth a root


@dataclass(frozen=True)
class GroupPenalty:
    """Groups of coordinates and their penalties; all coefficients zero for the intercept."""

    starts: Array  # (G + 1,) int
    linear: Array  # (G,) float: a
    curvature: Array  # (G,) float: c
    power: Array  # (G,) float: b
    exponent: float = 2.0  # q
    strength: float = 0.0  # C
    coupled: bool = False  # whether Psi is (C / 2) s^(2/q)
    outside: Any = 0.0  # what groups that are not here add to s
    cones: tuple[Array | None, ...] = ()  # G of each group with G v >= 0, None without one; empty: none has

    @classmethod
    def create(cls, regularizer: Regularizer, starts: Array, w: Array) -> GroupPenalty:
        """Return a penalty of block norms ``w ||v_m||`` as a penalty of coordinate groups; reject others."""
        curve = regularizer.curve
        if curve is None:
            return FunctionPenalty.create(regularizer, starts, w)
        q, exponent = curve.exponent, (w**curve.exponent if curve.power else np.zeros(len(w)))
        return cls(starts, curve.linear * w, curve.ridge * w**2, exponent, q, curve.power, curve.coupled)

    @property
    def shape(self) -> tuple[Any, ...] | None:
        """Parameters of compiled loops, ``a, c, b, q, C, coupled``; None for a penalty by functions."""
        return self.linear, self.curvature, self.power, self.exponent, self.strength, self.coupled

    @property
    def tied(self) -> bool:
        """Return whether groups at zero may block others, as in a tree of norms."""
        return False

    @property
    def coned(self) -> bool:
        """Whether some groups are in cones."""
        return any(G is not None for G in self.cones)

    @property
    def joint_norms(self) -> Array:
        """The groups (V, G) of every joint norm in the penalty, smallest norms first."""
        return np.zeros((0, len(self.linear)), dtype=bool)

    @property
    def bare(self) -> Array:
        """Mask of groups without penalty (G,)."""
        return (self.linear == 0) & (self.curvature == 0) & (self.power == 0)

    def sweep(self, H: Array, eigenvalues: Array, v: Array, r: Array) -> None:
        """Minimize a quadratic and the penalty in a single group after another; changes ``v`` and the gradient ``r``.

        ``H`` is (T, r, r), or (1, r, r) for all outputs, ``r`` (T, r): groups are over all, output by output.
        """
        assert self.shape is not None
        sweep(H, self.starts // len(r), eigenvalues, self.shape, self.outside, v, r)

    def minimizer(self, p: Array, sizes: Array) -> Array:
        """Return the minimizer of ``p'x + sum_k sizes_k x_k^2 / 2`` plus the penalty of a single group."""
        out = np.empty_like(p)
        group_minimizer(p, sizes, shape_of_group(self.shape, 0, self.outside), out)
        return out

    def rest(self, norms: Array, low: int, high: int) -> Any:
        """Return the contribution of all groups except ``low`` to ``high`` to the coupling sum."""
        return self.total(np.concatenate([norms[:low], norms[high:]]), np.r_[:low, high : len(norms)])

    def norms(self, v: Array) -> Array:
        """Return the norm of every group, (G,)."""
        return np.sqrt(np.add.reduceat(v**2, self.starts[:-1]))

    def dual_norms(self, g: Array) -> Array:
        """Return the dual norms of the groups of ``g``, restricted to the cones, (G,)."""
        sizes = self.norms(g)
        for m, G in enumerate(self.cones):
            if G is not None:
                sizes[m] = polar_norm(G, g[self.starts[m] : self.starts[m + 1]])
        return sizes

    def total(self, norms: Array, groups: Any = slice(None)) -> float:
        """Return ``s``, or the sum over the groups."""
        return self.outside + (float(self.power[groups] @ norms**self.exponent) if self.strength else 0.0)

    def value(self, v: Array) -> float:
        """Return the penalty of ``v``."""
        return self.value_of(self.norms(v))

    def value_of(self, norms: Array) -> float:
        """Return the penalty of the norms."""
        elastic = float(np.sum(norms * (self.linear + 0.5 * self.curvature * norms)))
        if not self.strength:
            return elastic
        s, q = self.total(norms), self.exponent
        return elastic + (0.5 * self.strength * s ** (2.0 / q) if self.coupled else self.strength / q * s)

    def slopes(self, norms: Array) -> Array:
        """Return ``dOmega / dt_m`` (G,), at zero the derivative to the right."""
        elastic = self.linear + self.curvature * norms
        if not self.strength:
            return elastic
        return elastic + self.strength * self._outer_slope(norms) * self.power * norms ** (self.exponent - 1.0)

    def _outer_slope(self, norms: Array) -> float:
        """Return ``q Psi'(s) / C``."""
        return self.total(norms) ** (2.0 / self.exponent - 1.0) if self.coupled else 1.0

    def bends(self, norms: Array) -> tuple[Array, Array]:
        """Return ``h`` and ``g`` (G,) with the second derivatives ``diag(h) + g g'`` in positive norms."""
        safe, q = np.where(norms > 0, norms, 1.0), self.exponent
        if not self.strength:
            return self.curvature, np.zeros_like(norms)
        own = self.strength * self._outer_slope(norms) * (q - 1.0) * self.power * safe ** (q - 2.0)
        if not self.coupled:
            return self.curvature + own, np.zeros_like(norms)
        s = max(self.total(norms), TINIEST)
        outer = self.strength * q * (2.0 / q - 1.0) * s ** (2.0 / q - 2.0)
        return self.curvature + own, np.sqrt(outer) * self.power * safe ** (q - 1.0)

    def violation(self, v: Array, gradient: Array, rests: Callable[[Array, Array], Array] | None = None) -> float:
        """Return the norm of the smallest subgradient, given the gradient of the smooth part.

        ``rests(v, w)`` says what cones leave of negative subgradients ``w``, where there are some.
        """
        norms, owner = self.norms(v), np.repeat(np.arange(len(self.linear)), np.diff(self.starts))
        alive = norms > 0
        slopes = self.slopes(norms)
        left = gradient + (slopes / np.where(alive, norms, 1.0))[owner] * v
        sizes = self.norms(left) if rests is None else self.norms(rests(v, -left))
        sizes[~alive] = self.excess(norms, sizes)[~alive]
        return float(np.linalg.norm(sizes))

    def excess(self, norms: Array, sizes: Array) -> Array:
        """Return by how much gradients of the sizes are more than holds groups at zero, (G,)."""
        return np.maximum(sizes - self.slopes(norms), 0.0)

    def part(self, low: int, high: int) -> GroupPenalty:
        """Return the penalty of groups ``low`` to ``high``, the rest at zero."""
        chosen = slice(low, high)
        return replace(
            self,
            starts=self.starts[low : high + 1] - self.starts[low],
            linear=self.linear[chosen],
            curvature=self.curvature[chosen],
            power=self.power[chosen],
            cones=self.cones[chosen],
        )


def project_groups(penalty: GroupPenalty, v: Array) -> Array:
    """Return ``v`` with every group projected on its cone: rounding leaves steps outside."""
    out = v.copy()
    for m, G in enumerate(penalty.cones):
        own = slice(penalty.starts[m], penalty.starts[m + 1])
        if G is not None and len(G) and (G @ v[own]).min() < -CLOSE * np.linalg.norm(v[own]):
            project(G, v[own], np.zeros(len(G)), out[own])
    return out


def add_free_group(penalty: GroupPenalty, count: int) -> GroupPenalty:
    """Return a penalty with an additional unpenalized group of ``count`` coordinates, such as intercepts."""
    return replace(
        penalty,
        starts=np.append(penalty.starts, penalty.starts[-1] + count),
        linear=np.append(penalty.linear, 0.0),
        curvature=np.append(penalty.curvature, 0.0),
        power=np.append(penalty.power, 0.0),
    )


def places_of(starts: Array, n_outputs: int) -> Array:
    """Return where the coordinates of every output stand in groups, (T, r): group by group, output after output."""
    own = starts // n_outputs
    ranks = np.diff(own)
    first = np.arange(own[-1]) + (n_outputs - 1) * np.repeat(own[:-1], ranks)
    return first + np.arange(n_outputs)[:, None] * np.repeat(ranks, ranks)


@dataclass(frozen=True)
class FunctionPenalty(GroupPenalty):
    """A penalty without a curve, by the functions of all block norms: value, derivative and curvature.

    Attributes
    ----------
    functions : Regularizer
    scale : (M,)
        Penalties ``w`` of all groups.
    first : int
        The first of those that are here.
    outside : (M,)
        Norms of all groups, of which those not here count.
    """

    functions: Regularizer = field(kw_only=True)
    scale: Array = field(kw_only=True)
    first: int = 0
    shape = None

    @classmethod
    def create(cls, regularizer: Regularizer, starts: Array, w: Array) -> FunctionPenalty:
        """Return the penalty, unless nondifferentiable."""
        lacking = {Capability.WEIGHTS_FROM_NORMS, Capability.CURVATURE} - regularizer.capabilities
        if lacking:
            words = " and ".join(sorted(can.words for can in lacking))
            raise IncompatibleError(f"Kernels as factors need of the regularizer {regularizer.name!r} {words}.")
        none = np.zeros(len(w))
        coupled = not regularizer.separable
        return cls(starts, none, none, none, 2.0, 1.0, coupled, none, functions=regularizer, scale=w)

    @property
    def tied(self) -> bool:
        """Whether the penalty couples groups and leaves some out."""
        return self.coupled and self.functions.sparse

    @property
    def joint_norms(self) -> Array:
        found, here = self.functions.norms_of(len(self.scale)), self._here
        if found is None:
            return super().joint_norms
        members = np.zeros((len(found[0]), len(self.linear)), dtype=bool)
        members[:, : here.stop - here.start] = found[0][:, here]
        counts = members.sum(axis=1)
        order = np.argsort(counts, kind="stable")
        return members[order[counts[order] > 1]]

    @property
    def _here(self) -> slice:
        return slice(self.first, min(self.first + len(self.linear), len(self.scale)))

    @property
    def bare(self) -> Array:
        """Mask of unpenalized groups: groups beyond the kernels, (G,)."""
        return np.arange(len(self.linear)) + self.first >= len(self.scale)

    def _all(self, norms: Array) -> Array:
        """Return the block norms of all kernels, given the present groups."""
        whole, here = self.outside.copy(), self._here
        whole[here] = norms[: here.stop - here.start]
        return self.scale * whole

    def _own(self, values: Array) -> Array:
        """Return values of all kernels for the present groups, zero for unpenalized groups."""
        here, own = self._here, np.zeros(len(self.linear))
        own[: here.stop - here.start] = values[here]
        return own

    def value_of(self, norms: Array) -> float:
        """Return the penalty of the norms, including absent groups."""
        return self.functions.value(self._all(norms))

    def slopes(self, norms: Array) -> Array:
        """Return ``dOmega/dt_m`` (G,), at zero the derivative to the right."""
        return self._own(self.scale * self.functions.derivative(self._all(norms)))

    def excess(self, norms: Array, sizes: Array) -> Array:
        whole, here = np.zeros(len(self.scale)), self._here
        whole[here] = (sizes[: here.stop - here.start]) / self.scale[here]
        return self._own(self.scale * self.functions.excess(self._all(norms), whole))

    def bends(self, norms: Array) -> tuple[Array, Array]:
        """Return ``h`` and ``g`` (G,) with the second derivatives ``diag(h) + g g'`` in positive norms."""
        h, g = self.functions.curvature(self._all(norms))
        return self._own(self.scale**2 * h), self._own(self.scale * g)

    def part(self, low: int, high: int) -> FunctionPenalty:
        """Return the penalty of groups ``low`` to ``high``, the rest at zero."""
        starts, none = self.starts[low : high + 1] - self.starts[low], np.zeros(high - low)
        return replace(self, starts=starts, linear=none, curvature=none, power=none, first=self.first + low)

    def rest(self, norms: Array, low: int, high: int) -> Array:
        """Return the norms of all groups."""
        return norms.copy()

    def sweep(self, H: Array, eigenvalues: Array, v: Array, r: Array) -> None:
        """Minimize a quadratic and this penalty in one group after another; changes ``v`` and the gradient ``r``."""
        norms, bare, outputs = self.norms(v), self.bare, len(r)
        for m, (low, high) in enumerate(pairwise((self.starts // outputs).tolist())):
            own = np.broadcast_to(eigenvalues[:, low:high], (outputs, high - low))
            group = v[self.starts[m] : self.starts[m + 1]].reshape(outputs, -1)
            old = group.copy()
            p = r[:, low:high] - own * old
            group[:] = self._minimizer(m, norms, p.ravel(), own.ravel(), bare=bool(bare[m])).reshape(outputs, -1)
            r += np.matmul((group - old)[:, None], H[:, low:high])[:, 0]

    def minimizer(self, p: Array, sizes: Array) -> Array:
        return self._minimizer(0, np.zeros(1), p, sizes, bare=bool(self.bare[0]))

    def _minimizer(self, m: int, norms: Array, p: Array, sizes: Array, *, bare: bool) -> Array:
        """Return the minimizer of a single group with fixed other norms, and set the new norm."""
        norms[m] = 0.0 if bare else self._root(m, norms, p, sizes)
        if norms[m] > 0:
            return np.asarray(-p / (sizes + self.slopes(norms)[m] / norms[m]))
        return -p / sizes if bare else np.zeros_like(p)

    def _root(self, m: int, norms: Array, p: Array, eigenvalues: Array) -> float:
        """Return the norm of a group's minimizer, ``sum_k p_k^2 / (eigenvalue_k tau + Omega'(tau))^2 = 1``."""
        trial, size = norms.copy(), float(np.linalg.norm(p))

        def excess(x: float) -> float:
            trial[m] = tau = np.exp(x)
            return float(np.log(np.linalg.norm(p / (eigenvalues * tau + self.slopes(trial)[m]))))

        trial[m] = 0.0
        if size <= self.slopes(trial)[m]:
            return 0.0
        high = float(np.log(size / eigenvalues.min()))
        low = high - 1.0
        while excess(low) <= 0:  # at most the logarithm of TINIEST
            if low < np.log(TINIEST):
                return 0.0
            low, high = low - 2.0 * (high - low), low
        return float(np.exp(brentq(excess, low, high, xtol=1e-14, rtol=1e-14)))


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
    """With ``n_m = v_m / t_m``: ``pull (I - n n') + bend n n'`` in every group, and ``g g'`` across groups."""

    free: Array  # (r,) bool: coordinates of groups that are not zero, or have no penalty
    gradient: Array  # (r,)
    unit: Array  # (r,): n and Omega' / t of each coordinate's group
    pull: Array  # (r,): n and Omega' / t of each coordinate's group
    radial: Array  # (G,): bend - pull
    coupling: Array  # (G,): g
    starts: Array  # (G + 1,)

    @classmethod
    def evaluate(cls, penalty: GroupPenalty, v: Array) -> PenaltyCurve:
        """Return the derivatives at ``v``; zero on groups at zero."""
        norms = penalty.norms(v)
        slopes, (bends, coupling) = penalty.slopes(norms), penalty.bends(norms)
        owner = np.repeat(np.arange(len(norms)), np.diff(penalty.starts))
        alive, safe = norms > 0, np.where(norms > 0, norms, 1.0)
        pull = np.where(alive, slopes / safe, 0.0)
        radial = np.where(alive, bends - pull, 0.0)
        return cls(
            (alive | penalty.bare)[owner],
            pull[owner] * v,
            v / safe[owner],
            pull[owner],
            radial,
            np.where(alive, coupling, 0.0),
            penalty.starts,
        )

    def add_to(self, system: Array) -> None:
        """Add the second derivatives in free coordinates to a matrix."""
        sizes = np.diff(self.starts)
        kept = self.free[self.starts[:-1]]
        unit = self.unit[self.free]
        system[np.diag_indices_from(system)] += self.pull[self.free]
        add_radial(system, np.concatenate([[0], np.cumsum(sizes[kept])]), unit, self.radial[kept])
        if self.coupling.any():
            g = np.repeat(self.coupling, sizes)[self.free] * unit
            system += np.outer(g, g)

    def product(self, d: Array) -> Array:
        """Return the second derivatives times ``d``, zero outside the free coordinates."""
        sizes = np.diff(self.starts)
        along = np.add.reduceat(self.unit * d, self.starts[:-1])
        weights = self.radial * along + self.coupling * float(self.coupling @ along)
        return self.pull * d + np.repeat(weights, sizes) * self.unit


# --- compiled loops over groups -------------------------------------------------------------------------------------


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
def shape_of_group(shape: Any, m: int, rest: float) -> Any:
    """Return ``a, c, b, q, C, coupled, rest`` of one group; ``b`` is zero where the linear and ridge terms say it all.

    ``rest`` is what the other groups add to the sum of powers of norms.
    """
    linear, curvature, power, q, strength, coupled = shape
    a, c, b = linear[m], curvature[m], power[m]
    if strength == 0.0:
        b = 0.0
    elif coupled:
        if q == 1.0:
            a, c, b = a + strength * rest * b, c + strength * b * b, 0.0
    elif q == 2.0:
        c, b = c + strength * b, 0.0
    return a, c, b, q, strength, coupled, rest


@compiled()
def power_slope(tau: float, own: Any) -> float:
    """Return the derivative of the penalty of a group, described by `shape_of_group`, at the norm ``tau``."""
    a, c, b, q, strength, coupled, rest = own
    outer = strength
    if coupled:
        outer *= (rest + b * tau**q) ** (2.0 / q - 1.0)
    return a + c * tau + outer * b * tau ** (q - 1.0)


@compiled()
def power_root(p: Array, eigenvalues: Array, own: Any) -> float:
    """Return ``tau`` with ``sum_k p_k^2 / (eigenvalue_k tau + Omega'(tau))^2 = 1``, 0 if below any number.

    In ``log tau`` the logarithm of the sum falls at a rate between ``2 (q - 1)`` and 2: Newton inside a bracket.
    """
    low, high = np.log(TINIEST), 600.0
    x = 0.0
    for _ in range(ROOT_STEPS):
        tau = np.exp(x)
        slope = power_slope(tau, own)
        nearby = tau * (1.0 + 1e-6)
        bend = (power_slope(nearby, own) - slope) / 1e-6
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


@compiled(fastmath=FAST)
def group_minimizer(p: Array, eigenvalues: Array, own: Any, out: Array) -> None:
    """Set ``out`` to the minimizer of ``p'x + sum_k eigenvalue_k x_k^2 / 2`` plus a single group's penalty."""
    a, c, b = own[:3]
    size, extra = np.sqrt(np.dot(p, p)), c
    if size <= a:
        out[:] = 0.0
        return
    if b > 0.0:
        tau = power_root(p, eigenvalues, own)
        extra = power_slope(tau, own) / tau if tau > 0.0 else np.inf
    elif a > 0.0:
        tau = block_root(p, eigenvalues, a, c)
        extra = c + a / tau if tau > 0.0 else np.inf
    for k in range(p.size):
        out[k] = -p[k] / (eigenvalues[k] + extra)


@compiled(fastmath=FAST)
def sum_of_powers(starts: Array, power: Array, q: float, outside: float, v: Array) -> float:
    """Return ``s``: the part of absent groups, plus the powers of the given norms."""
    total = outside
    for m in range(power.size):
        group = v[starts[m] : starts[m + 1]]
        total += power[m] * np.sqrt(np.dot(group, group)) ** q
    return total


@compiled(fastmath=FAST)
def move(rows: Array, new: Array, v: Array, r: Array) -> None:
    """Move some coordinates of ``v`` to where ``new`` is, and the gradient ``r`` by the rows of the quadratic."""
    for k in range(v.size):
        change = new[k] - v[k]
        if change != 0.0:
            v[k] = new[k]
            row = rows[k]
            for j in range(r.size):
                r[j] += change * row[j]


@compiled(fastmath=FAST)
def sweep(H: Array, starts: Array, eigenvalues: Array, shape: Any, outside: float, v: Array, r: Array) -> None:
    """One sweep over groups; H has diagonal blocks diag(eigenvalues), ``r`` (T, r) is the gradient at ``v``.

    Both are updated. Groups of ``v`` are those of a single output, which ``starts`` are of, output by output.
    """
    (_, _, power, q, _, coupled), outputs, blocks = shape, r.shape[0], H.shape[0]
    new, p, own = np.empty(v.size), np.empty(v.size), np.empty(v.size)
    total = sum_of_powers(outputs * starts, power, q, outside, v) if coupled else outside
    for m in range(power.size):
        low, rank = starts[m], starts[m + 1] - starts[m]
        size = outputs * rank
        old, moved = v[outputs * low : outputs * low + size], new[:size]
        for t in range(outputs):
            for k in range(rank):
                at = t * rank + k
                own[at] = eigenvalues[t % blocks, low + k]
                p[at] = r[t, low + k] - own[at] * old[at]
        rest = 0.0
        if coupled:
            rest = max(total - power[m] * np.sqrt(np.dot(old, old)) ** q, outside)
        group_minimizer(p[:size], own[:size], shape_of_group(shape, m, rest), moved)
        if coupled:
            total = rest + power[m] * np.sqrt(np.dot(moved, moved)) ** q
        for t in range(outputs):
            part = slice(t * rank, t * rank + rank)
            move(H[t % blocks, low : low + rank], moved[part], old[part], r[t])
