"""Kernels that share one bound: weights in a set ``sum_m g(d_m) <= 1`` like simplex, lp ball or elastic-net ball.

At the optimum ``u_m^2 <= tau g'(d_m)`` with one multiplier ``tau`` of the set for all kernels, and equality where
``d_m > 0``; on the simplex ``g'`` is a constant. `Regularizer.weight_limit` has ``g'``, ``d g''`` and what ``sum g``
lacks. The linearized weights are ``dd_m = shift_m + c_m q_m'drho - c_m g'_m dtau / 2``, and ``dtau`` makes
``sum_m g'_m dd_m`` equal to what is missing: so the Newton matrix holds ``q_m`` less ``g'_m`` times the mean
``sum c g' q / sum c g'^2``.

Weights of the norms of a tree: where a penalty is a sum of norms, kernel weights follow from a weight per norm.

    Omega(t) = sum_v c_v ||t_v|| = min_{w >= 0} sum_m t_m^2 / (2 d_m) + sum_v c_v^2 w_v / 2

    1 / d_m = sum_{v with m} 1 / w_v

so that shared functions minimize ``J(d(w)) + sum_v c_v^2 w_v / 2``, where ``J`` falls as weights rise and ``d(w)`` is
concave: the problem is convex in ``w``, the penalty linear, and what is zero is at a bound. With ``s_vm = d_m / w_v``,

    dd_m/dw_v = s_vm^2,      -d2d_m/(dw_u dw_v) = 2 s_um s_vm c_uvm (delta_uv sum - 1),      c_uvm = d_m / (w_u w_v)

which is what a Newton step over the weights needs beside the derivatives of ``J`` in ``d``. A kernel that is zero is a
separate norm at zero, whose derivative exists as long as the groups above it are not zero; a group that is zero as a
whole is given a little of what the excess points at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from manykernels.solvers.gram.weight_variables import (
    INACTIVE_FACTOR,
    SMALLEST_RELATIVE_SLACK,
    LinearWeights,
    PairedWeights,
    UnpairedWeights,
    lift,
)

if TYPE_CHECKING:
    from manykernels.objective.regularizers import Regularizer
    from manykernels.validation.arrays import Array


SMALLEST_NORM = 1e-24  # squared, of the largest, from which the root of a norm is taken


@dataclass(frozen=True, eq=False)
class NodeWeights:
    """Weights ``w`` of the norms of a tree, in units with scalar ``c_v^2 w_v``: ``x_v = c_v^2 w_v``."""

    members: Array  # (V, M) bool: the kernels of every norm
    factors: Array  # (V,): ``c``, positive
    x: Array  # (V,)

    @classmethod
    def create(cls, regularizer: Regularizer, t: Array) -> NodeWeights:
        """Return the best weights for block norms ``t``: ``w_v = ||t_v|| / c_v``.

        Norms of the same kernels are one, for example those of a kernel that is a group by itself: with two weights at
        zero a kernel has no derivative that says whether it should enter.
        """
        norms = regularizer.norms_of(len(t))
        assert norms is not None  # who asks has seen that the penalty is a sum of norms
        members, place = np.unique(norms[0], axis=0, return_inverse=True)
        factors = np.bincount(place.ravel(), norms[1])
        return cls(members, factors, factors * np.sqrt(members @ t**2))

    def reweight(self, x: Array) -> NodeWeights:
        """Return the same norms with other weights."""
        return NodeWeights(self.members, self.factors, x)

    @property
    def weights(self) -> Array:
        """The kernel weights ``d`` (M,)."""
        return 1.0 / np.where(self.members, self._inverse[:, None], 0.0).sum(axis=0)

    @property
    def _inverse(self) -> Array:
        """``1 / w``, infinite at zero."""
        return np.divide(self.factors**2, self.x, out=np.full(len(self.x), np.inf), where=self.x > 0)

    def entering(self, regularizer: Regularizer, u: Array, floor: float) -> NodeWeights:
        """Return weights with small values for zero groups with a pull beyond the resistance."""
        pulled = np.where(self.weights > 0, 0.0, regularizer.prox(u, 1.0))
        if not pulled.any():
            return self
        begun = NodeWeights.create(regularizer, pulled)
        seed = 1e-3  # of the whole penalty, that groups which enter begin with
        size = seed * max(float(self.x.sum()), floor) / float(begun.x.sum())
        several = self.members.sum(axis=1) > 1
        dead = self.members[several & (self.x == 0)].any(axis=0)  # kernels below a group that is zero
        new = (self.x == 0) & (several | (self.members & dead).any(axis=1))
        return self.reweight(np.where(new, size * begun.x, self.x))

    def candidates(self, u: Array) -> Array:
        """Return the kernels below no other zero norm, with a pull of at least the factor."""
        above = ~(self.members & (self.x == 0)[:, None] & (self.members.sum(axis=1) > 1)[:, None]).any(axis=0)
        return np.flatnonzero(above & ((self.weights > 0) | (u >= self._own)))

    @property
    def _own(self) -> Array:
        """The factor of the singleton norm of a kernel, (M,)."""
        alone = self.members.sum(axis=1) == 1
        return np.where(self.members[alone], self.factors[alone, None], np.inf).min(axis=0)

    def drop_useless(self) -> NodeWeights:
        """Return weights set to zero where useless: for norms of zero kernels."""
        alive = (self.members & (self.weights > 0)).any(axis=1)
        return self.reweight(np.where(alive, self.x, 0.0))

    def select(self, nodes: Array, kernels: Array) -> NodeWeights:
        """Return some of the norms, of some of the kernels."""
        return NodeWeights(self.members[np.ix_(nodes, kernels)], self.factors[nodes], self.x[nodes])

    def derivatives(self, u: Array, curvature: Array) -> tuple[Array, Array]:
        """Return minus the first and the second derivatives (V,), (V, V) of ``J`` in ``x``.

        Parameters
        ----------
        u : (M,)
            Dual norms: ``dJ/dd = -u^2 / 2``.
        curvature : (M, M)
            ``d2J/dd2``.
        """
        d, inverse = self.weights, self._inverse
        zero = self.members & (self.x == 0)[:, None]
        known = np.where(np.isfinite(inverse), inverse, 0.0)[:, None] * self.members
        shares = np.where(zero, 1.0 / np.maximum(zero.sum(axis=0), 1), d * known)
        both = self._curvature_of(shares, known, u)
        first = shares**2
        scale = self.factors**2
        H = first @ curvature @ first.T + both
        return first @ u**2 / 2 / scale, H / scale[:, None] / scale

    def _curvature_of(self, shares: Array, known: Array, u: Array) -> Array:
        """Return ``-sum_m u_m^2 / 2 d2d_m/(dw_u dw_v)``, (V, V)."""
        found = np.zeros((len(shares), len(shares)))
        for m in np.flatnonzero(u):
            at = np.flatnonzero(self.members[:, m])
            s, inverse = shares[at, m], known[at, m]
            c = np.maximum(s[:, None] * inverse, inverse[:, None] * s)  # at zero one of the two is finite
            np.fill_diagonal(c, 0.0)
            part = -(u[m] ** 2) * s[:, None] * s * c
            part[np.diag_indices_from(part)] = u[m] ** 2 * s**2 * c.sum(axis=1)
            found[np.ix_(at, at)] += part
        return found


@dataclass
class SetWeights(PairedWeights):
    """Weights with a slack every under ``u_m^2 + 2 s_m = tau g'(d_m)``, ``sum_m g(d_m) = 1``."""

    bound: float
    regularizer: Regularizer

    def __post_init__(self) -> None:
        super().__post_init__()
        self._coupling, self._slopes, self._missing, self._dbound = self.weights, self.weights, 0.0, 0.0

    def linearize(self, products: Array, squared_norms: Array, target: float) -> LinearWeights:
        self.aim(target)
        self._slopes, bends, self._missing = self.regularizer.weight_limit(self.weights)
        self._denominator = self.slack + self.bound * bends / 2
        bound = self.bound * self._slopes
        self._residual = (squared_norms - bound) / 2 + self.slack
        self._coupling = self.weights / self._denominator
        rows = _centered(products, self._coupling, self._slopes)
        return LinearWeights(rows, self._coupling, self.shift(), bound)

    def shift(self) -> Array:
        return self._balance(self._change(0.0))[0]

    def set_direction(self, products: Array) -> tuple[float, float]:
        self.weight_change, half = self._balance(self._change(products))
        self._dbound = 2.0 * half
        bend = self._denominator - self.slack
        safe = np.where(self.weights > 0, self.weights, 1.0)
        self._dslack = half * self._slopes - self._residual - products + bend / safe * self.weight_change
        self._second = self.weight_change * self._dslack
        return self.longest_steps()

    def _change(self, products: Array | float) -> Array:
        """Return the change of the weights for the given ``q_m'drho`` at the present ``tau``."""
        return self._wanted / self._denominator + self._coupling * (self._residual + products)

    def _balance(self, change: Array) -> tuple[Array, float]:
        """Let ``tau`` change so the weights stay in their set; also return half of the change."""
        pull = self._coupling * self._slopes
        half = (float(self._slopes @ change) - self._missing) / float(pull @ self._slopes)
        return change - half * pull, half

    def move(self, primal_step: float, dual_step: float) -> None:
        self.weights = self.weights + dual_step * self.weight_change
        self.slack = self.slack + primal_step * self._dslack
        self.bound += primal_step * self._dbound
        self._second = 0.0

    def resized(self, keep: Array, squared_norms_added: Array, barrier: float, regularizer: Regularizer) -> SetWeights:
        least = self.least_bound
        added = np.maximum((least - squared_norms_added) / 2, SMALLEST_RELATIVE_SLACK * least)
        added = np.maximum(added, SMALLEST_RELATIVE_SLACK * (squared_norms_added - least))
        slack, weights = lift(
            self.slack[keep], self.weights[keep], barrier, self.weights.max() / self.squared_bound()[keep]
        )
        weights = np.concatenate([weights, barrier / added])
        return SetWeights(weights, np.concatenate([slack, added]), bound=self.bound, regularizer=regularizer)

    @property
    def least_bound(self) -> float:
        """Squared dual norm below which a kernel has no weight."""
        return self.bound * float(self.regularizer.weight_limit(np.zeros(1))[0][0])

    def squared_bound(self) -> Array:
        return self.bound * self.regularizer.weight_limit(self.weights)[0]

    def inactive(self, factor: float | Array = INACTIVE_FACTOR) -> Array:
        if not self.regularizer.sparse:
            return np.zeros(np.broadcast_shapes(np.shape(factor), self.weights.shape), dtype=bool)
        return super().inactive(factor)

    @classmethod
    def central(cls, squared_norms: Array, barrier: float, regularizer: Regularizer) -> SetWeights:
        """Return weights on the boundary of the set, the larger the smaller their slack would be on a simplex."""
        top = float(squared_norms.max())
        slack = np.maximum((1.1 * top - squared_norms) / 2, SMALLEST_RELATIVE_SLACK * 1.1 * top)
        weights = regularizer.weights_from_norms(slack.min() / slack)
        slopes = regularizer.weight_limit(weights)[0]
        bound = 1.1 * float((squared_norms / slopes).max())
        slack = np.maximum((bound * slopes - squared_norms) / 2, SMALLEST_RELATIVE_SLACK * bound * slopes)
        return cls(weights, slack, bound=bound, regularizer=regularizer)


@dataclass
class RootWeights(UnpairedWeights):
    """The lp ball with p > 2, where the weights are roots of the squared norms: ``d = v^{1/(p-1)}`` on the sphere.

    The weights are concave functions of the norms and are linearized; there are no slacks.
    """

    regularizer: Regularizer
    p: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self._slopes, self._squares = np.zeros_like(self.weights), np.ones_like(self.weights)

    def linearize(self, products: Array, squared_norms: Array, target: float) -> LinearWeights:
        self._squares = np.maximum(squared_norms, SMALLEST_NORM * float(squared_norms.max()))
        implied = _roots(self._squares, self.p, self.regularizer)
        self._slopes = self._squares / self._squares.max()
        self._coupling = 2.0 * implied / ((self.p - 1.0) * self._squares)
        self._shift = implied - self.weights
        rows = _centered(products, self._coupling, self._slopes)
        return LinearWeights(rows, self._coupling, self._shift, self._squares)

    def set_direction(self, products: Array) -> tuple[float, float]:
        change = self._coupling * products
        pull = self._coupling * self._slopes
        self.weight_change = self._shift + change - pull * (float(self._slopes @ change) / float(pull @ self._slopes))
        return self.longest_steps()

    def resized(self, keep: Array, squared_norms_added: Array, barrier: float, regularizer: Regularizer) -> RootWeights:
        """Return the weights of all the norms, the start of the next step."""
        return RootWeights.central(np.concatenate([self._squares[keep], squared_norms_added]), regularizer, self.p)

    @classmethod
    def central(cls, squared_norms: Array, regularizer: Regularizer, p: float) -> RootWeights:
        """Return the weights that match the norms."""
        squares = np.maximum(squared_norms, SMALLEST_NORM * float(squared_norms.max()))
        return cls(_roots(squares, p, regularizer), regularizer, p)


def _centered(products: Array, coupling: Array, slopes: Array) -> Array:
    """Return the rows ``q_m`` less ``g'_m`` times their mean, after elimination of the shared bound."""
    pull = coupling * slopes
    return products - np.outer(slopes, pull @ products / float(pull @ slopes))


def _roots(squares: Array, p: float, regularizer: Regularizer) -> Array:
    """Return weights of unit p-norm, over the strength, proportional to ``squares^{1/(p-1)}``."""
    roots = (squares / squares.max()) ** (1.0 / (p - 1.0))
    return roots / (np.sum(roots**p) ** (1.0 / p) * regularizer.strength)
