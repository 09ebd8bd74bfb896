"""The directed acyclic graph of a product family: nodes are levels of columns, arrows raise one level by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from manykernels.validation.arrays import Array

# The hierarchical norm on a hull, its weights, and the certificate of its dual: all in closed form.
#
# With ``a_v = d_v^2``, ``A(w)`` the ancestors of ``w`` and ``D(v)`` the descendants of ``v`` (both with the node
# itself),
#
#     Omega(t)  = (lambda/2) (sum_v d_v ||t_{D(v)}||)^2 = (lambda/2) min_{eta in simplex} sum_w t_w^2 / zeta_w(eta)
#     zeta_w    = 1 / sum_{v in A(w)} a_v / eta_v
#     Omega*(u) = (1/(2 lambda)) max_{eta in simplex} sum_w zeta_w(eta) u_w^2
#
# ``zeta`` is concave and homogeneous, so the shares ``pi_wv = zeta_w a_v / eta_v``, which sum to one over ``A(w)``, say
# everything: the derivative by ``log eta_v`` of the sum in ``Omega*`` is ``sum_w pi_wv zeta_w u_w^2``.


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


Node = tuple[tuple[int, int], ...]
"""Pairs (column, level), columns ascending, levels positive; a column that is not named has level zero."""

ROOT: Node = ()


def depth(node: Node) -> int:
    """Return the sum of the levels: the number of arrows from the root."""
    return sum(level for _, level in node)


def raised(node: Node, column: int) -> Node:
    """Return the child with the level of one column raised by one."""
    levels = dict(node)
    levels[column] = levels.get(column, 0) + 1
    return tuple(sorted(levels.items()))


def parents(node: Node) -> Iterator[Node]:
    """Yield the nodes with one level lowered by one."""
    for column, level in node:
        yield tuple((c, j - (c == column)) for c, j in node if c != column or level > 1)


def ancestors(node: Node) -> Iterator[Node]:
    """Yield the box of nodes below ``node`` in every level, the root first and ``node`` itself last."""
    for levels in product(*(range(level + 1) for _, level in node)):
        yield tuple((column, level) for (column, _), level in zip(node, levels, strict=True) if level)


def hull_matrix(nodes: Sequence[Node]) -> Array:
    """Return which node is an ancestor of which, for a set of nodes that holds all of its ancestors."""
    place = {node: m for m, node in enumerate(nodes)}
    matrix = np.zeros((len(nodes), len(nodes)))
    for m, node in enumerate(nodes):
        matrix[m, [place[ancestor] for ancestor in ancestors(node)]] = 1.0
    return matrix


class Hull:
    """The active set: nodes together with all of their ancestors, and the sources of what is left."""

    def __init__(self, n_columns: int, degree: int, largest_level: int) -> None:
        self._n_columns, self._degree, self._largest_level = n_columns, degree, largest_level
        self.nodes: list[Node] = []
        self.sources: dict[Node, None] = {ROOT: None}

    def add(self, node: Node) -> None:
        """Move a source into the active set; its children whose parents are all there become sources."""
        del self.sources[node]
        self.nodes.append(node)
        inside = set(self.nodes)
        for child in self._children(node):
            if all(parent in inside for parent in parents(child)):
                self.sources[child] = None

    def _children(self, node: Node) -> Iterator[Node]:
        levels = dict(node)
        if depth(node) < self._degree:
            for column in range(self._n_columns):
                if levels.get(column, 0) < self._largest_level:
                    yield raised(node, column)
