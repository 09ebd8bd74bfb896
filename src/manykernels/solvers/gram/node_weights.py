"""Weights of the norms of a tree: where a penalty is a sum of norms, kernel weights follow from one weight a norm.

    Omega(t) = sum_v c_v ||t_v|| = min_{w >= 0} sum_m t_m^2 / (2 d_m) + sum_v c_v^2 w_v / 2

    1 / d_m = sum_{v with m} 1 / w_v

so that shared functions minimize ``J(d(w)) + sum_v c_v^2 w_v / 2``, where ``J`` falls as weights rise and ``d(w)`` is
concave: the problem is convex in ``w``, its penalty linear, and what is zero is at a bound. With ``s_vm = d_m / w_v``,

    dd_m/dw_v = s_vm^2,      -d2d_m/(dw_u dw_v) = 2 s_um s_vm c_uvm (delta_uv sum - 1),      c_uvm = d_m / (w_u w_v)

which is what a Newton step over the weights needs beside the derivatives of ``J`` in ``d``. A kernel that is zero is a
norm of its own at zero, whose derivative exists as long as the groups above it are not zero; a group that is zero as a
whole is given a little of what its excess points at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from manykernels.objective.regularizers import Regularizer
    from manykernels.validation.arrays import Array

SEED = 1e-3  # of the whole penalty, that groups which enter begin with


@dataclass(frozen=True, eq=False)
class NodeWeights:
    """Weights ``w`` of the norms of a tree, in units in which ``c_v^2 w_v`` is one number: ``x_v = c_v^2 w_v``.

    Attributes
    ----------
    members : (V, M) bool
        The kernels of every norm.
    factors : (V,)
        ``c``, positive.
    x : (V,)
    """

    members: Array
    factors: Array
    x: Array

    @classmethod
    def of(cls, regularizer: Regularizer, t: Array) -> NodeWeights:
        """Return the best weights for block norms ``t``: ``w_v = ||t_v|| / c_v``."""
        norms = regularizer.norms_of(len(t))
        assert norms is not None  # who asks has seen that the penalty is a sum of norms
        members, factors = norms
        return cls(members, factors, factors * np.sqrt(members @ t**2))

    def at(self, x: Array) -> NodeWeights:
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
        """Return weights where groups at zero that are pulled at by more than they resist have a little."""
        pulled = np.where(self.weights > 0, 0.0, regularizer.prox(u, 1.0))
        if not pulled.any():
            return self
        begun = NodeWeights.of(regularizer, pulled)
        size = SEED * max(float(self.x.sum()), floor) / float(begun.x.sum())
        several = self.members.sum(axis=1) > 1
        dead = self.members[several & (self.x == 0)].any(axis=0)  # kernels below a group that is zero
        new = (self.x == 0) & (several | (self.members & dead).any(axis=1))
        return self.at(np.where(new, size * begun.x, self.x))

    def candidates(self, u: Array) -> Array:
        """Return the kernels below no norm at zero but their own, which must be pulled at by at least its factor."""
        above = ~(self.members & (self.x == 0)[:, None] & (self.members.sum(axis=1) > 1)[:, None]).any(axis=0)
        return np.flatnonzero(above & ((self.weights > 0) | (u >= self._own)))

    @property
    def _own(self) -> Array:
        """The factor of the norm that a kernel is alone in, (M,)."""
        alone = self.members.sum(axis=1) == 1
        return np.where(self.members[alone], self.factors[alone, None], np.inf).min(axis=0)

    def settled(self) -> NodeWeights:
        """Return weights that are zero where others make them useless: of norms whose kernels are all zero."""
        alive = (self.members & (self.weights > 0)).any(axis=1)
        return self.at(np.where(alive, self.x, 0.0))

    def taken(self, nodes: Array, kernels: Array) -> NodeWeights:
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
        both = self._between(shares, known, u)
        first = shares**2
        scale = self.factors**2
        H = first @ curvature @ first.T + both
        return first @ u**2 / 2 / scale, H / scale[:, None] / scale

    def _between(self, shares: Array, known: Array, u: Array) -> Array:
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
