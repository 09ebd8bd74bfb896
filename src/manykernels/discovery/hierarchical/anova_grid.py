"""The graph of products of one kernel on different columns, whose Gram matrices are kept while there is room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from manykernels.discovery.hierarchical.graph import ROOT, Node
from manykernels.discovery.hierarchical.newton import NodeGrams
from manykernels.discovery.hierarchical.product_grid import ProductGrid
from manykernels.discovery.hierarchical.tuning import LARGEST_CACHE
from manykernels.kernels import KernelSpec
from manykernels.validation.arrays import Array


@dataclass(frozen=True, eq=False)
class AnovaGrid(ProductGrid):
    """Products of one kernel on different columns: a node is a set of columns, the depth its size."""

    kernel: KernelSpec

    @property
    def largest_level(self) -> int:
        """One."""
        return 1

    def spec(self) -> KernelSpec:
        """Return the kernel."""
        return self.kernel

    def level(self, column: int, level: int) -> Array:
        """Return the Gram matrix of one column, kept if there is room."""
        if level == 0:
            return np.ones((self.n_samples, self.n_samples))
        return self._cache.of(((column, 1),))

    def stack(self, nodes: Sequence[Node]) -> NodeGrams:
        """Return the kernels of nodes, kept while there is room."""
        return _ProductGrams(self._cache, tuple(nodes))

    def squared_norm(self, rho: Array, node: Node) -> float:
        """Return the quadratic form of one product of Gram matrices."""
        return float(rho @ self._cache.product(node) @ rho)

    @cached_property
    def _cache(self) -> _GramCache:
        return _GramCache(self.points, self.kernel)


class _GramCache:
    """Gram matrices of nodes, kept while they fit."""

    def __init__(self, points: Array, kernel: KernelSpec) -> None:
        self.points, self._kernel = points, kernel
        self._kept: dict[Node, Array] = {}

    def of(self, node: Node) -> Array:
        """Return the Gram matrix and keep it."""
        if node not in self._kept:
            gram = self.product(node)
            if (len(self._kept) + 1) * gram.nbytes > LARGEST_CACHE:
                return gram
            self._kept[node] = gram
        return self._kept[node]

    def product(self, node: Node) -> Array:
        """Return the Gram matrix without keeping it; its factors, and the product of all but the last, may be kept."""
        if node in self._kept:
            return self._kept[node]
        if node == ROOT:
            return np.ones((len(self.points), len(self.points)))
        if len(node) == 1:
            return self._kernel(self.points[:, [node[0][0]]])
        return self.product(node[:-1]) * self.of(node[-1:])


@dataclass(frozen=True)
class _ProductGrams:
    """The kernels of nodes, one matrix at a time."""

    cache: _GramCache
    nodes: tuple[Node, ...]

    def combine(self, d: Array) -> Array:
        """Return ``sum_w d_w K_w`` (N, N)."""
        total = np.zeros((len(self.cache.points), len(self.cache.points)))
        for weight, node in zip(d, self.nodes, strict=True):
            if weight:
                total += weight * self.cache.of(node)
        return total

    def apply_each(self, R: Array) -> Array:
        """Return ``K_w R`` (p, N)."""
        return np.array([self.cache.of(node) @ R for node in self.nodes])
