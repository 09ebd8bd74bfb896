"""The hierarchical norm on a hull, its weights, and the certificate of its dual: all in closed form.

With ``a_v = d_v^2``, ``A(w)`` the ancestors of ``w`` and ``D(v)`` the descendants of ``v`` (both with the node itself),

    Omega(t)  = (lambda/2) (sum_v d_v ||t_{D(v)}||)^2 = (lambda/2) min_{eta in simplex} sum_w t_w^2 / zeta_w(eta)
    zeta_w    = 1 / sum_{v in A(w)} a_v / eta_v
    Omega*(u) = (1/(2 lambda)) max_{eta in simplex} sum_w zeta_w(eta) u_w^2

``zeta`` is concave and homogeneous, so the shares ``pi_wv = zeta_w a_v / eta_v``, which sum to one over ``A(w)``, say
everything: the derivative by ``log eta_v`` of the sum in ``Omega*`` is ``sum_w pi_wv zeta_w u_w^2``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from manykernels.validation.arrays import Array


@dataclass(frozen=True, eq=False)
class HierarchicalNorm:
    """The norm ``sum_v d_v ||t_{D(v)}||`` on ``p`` nodes, and ``Omega``, half its square times ``strength``."""

    above: Array
    penalties: Array
    strength: float

    @cached_property
    def squares(self) -> Array:
        """Squared penalties ``a_v`` (p,)."""
        return np.square(self.penalties)

    def group_norms(self, t: Array) -> Array:
        """Return ``||t_{D(v)}||`` (p,) for block norms ``t`` (p,)."""
        top = float(np.max(t, initial=0.0))
        return top * np.sqrt(np.square(t / top) @ self.above) if top > 0 else np.zeros(len(t))

    def norm(self, t: Array) -> float:
        """Return ``sum_v d_v ||t_{D(v)}||``."""
        return float(self.penalties @ self.group_norms(t))

    def value(self, t: Array) -> float:
        """Return ``Omega(t)``."""
        return 0.5 * self.strength * self.norm(t) ** 2

    def zeta(self, eta: Array) -> Array:
        """Return the node weights ``zeta`` (p,) of positive group weights ``eta`` (p,)."""
        return 1.0 / (self.above @ (self.squares / eta))

    def shares(self, eta: Array) -> tuple[Array, Array]:
        """Return ``zeta`` (p,) and ``pi`` (p, p) with rows that sum to one."""
        zeta = self.zeta(eta)
        return zeta, (zeta[:, None] * self.above) * (self.squares / eta)

    def dual_squares(self, eta: Array, squared_norms: Array) -> Array:
        """Return for each group the square that bounds the dual norm, whatever the positive ``eta``.

        ``u`` is split into ``g_v = pi_wv u_w`` on each ``D(v)``, and any split bounds the dual norm:
        ``max_{t: norm(t) <= 1} t'u <= max_v ||g_v|| / d_v``, with equality at the best ``eta``.
        """
        zeta, pi = self.shares(eta)
        return ((zeta * squared_norms) @ pi) / eta
