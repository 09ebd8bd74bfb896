"""The graph of monomials: nodes of rank one, and bounds on all sources of one depth at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from manykernels.discovery.hierarchical.graph import Node, depth
from manykernels.discovery.hierarchical.newton import NodeGrams
from manykernels.discovery.hierarchical.product_grid import ProductGrid
from manykernels.discovery.hierarchical.tuning import BATCH
from manykernels.grams import RankOneStack
from manykernels.kernels import KernelSpec, Linear
from manykernels.validation.arrays import Array


@dataclass(frozen=True, eq=False)
class MonomialGrid(ProductGrid):
    """Monomials: level ``j`` of a column is the kernel ``(x z)^j`` of rank one, a node the kernel of a monomial."""

    squares: bool = True

    @property
    def largest_level(self) -> int:
        """The degree, or one."""
        return self.degree if self.squares else 1

    def spec(self) -> KernelSpec:
        """Return the linear kernel."""
        return Linear()

    def feature(self, node: Node) -> Array:
        """Return the monomial, (N,)."""
        values = np.ones(self.n_samples)
        for column, level in node:
            values = values * self.points[:, column] ** level
        return values

    def level(self, column: int, level: int) -> Array:
        """Return the outer product of the powers of a column."""
        values = self.points[:, column] ** level
        return np.multiply.outer(values, values)

    def stack(self, nodes: Sequence[Node]) -> NodeGrams:
        """Return the monomials as a stack of rank one."""
        return RankOneStack(np.array([self.feature(node) for node in nodes]))

    def squared_norm(self, rho: Array, node: Node) -> float:
        """Return the square of one inner product."""
        return float(rho @ self.feature(node)) ** 2

    def source_bounds(self, rho: Array, sources: Sequence[Node]) -> tuple[Array, Array]:
        """Return own squares and bounds; all sources of one depth at once.

        With powers, the monomials below ``t`` are ``t`` times any monomial: the bound is the quadratic form of
        ``rho o t`` in a matrix that all sources of the same depth share.
        """
        if not self.squares:
            return super().source_bounds(rho, sources)
        own, bounds = np.zeros(len(sources)), np.zeros(len(sources))
        depths = np.array([depth(node) for node in sources])
        for level in np.unique(depths):
            for chosen in np.array_split(np.flatnonzero(depths == level), 1 + len(sources) // BATCH):
                weighted = rho * np.array([self.feature(sources[m]) for m in chosen]).reshape(-1, self.n_samples)
                own[chosen] = np.square(weighted.sum(axis=1))
                bounds[chosen] = own[chosen] + self._below(weighted, self.degree - level)
        scales = self.growth ** (2.0 * depths)
        return own / scales, np.maximum(bounds, own) / scales

    def _below(self, weighted: Array, left: int) -> Array:
        """Return sums over the proper descendants of monomials, given their products with ``rho``, (n, N)."""
        if left == 0:
            return np.zeros(len(weighted))
        if left == 1:
            return np.square(weighted @ self.points).sum(axis=1) / self._boxes[1]
        products: Array = np.einsum("mi,mi->m", weighted @ self._partial_sums[left], weighted)
        return products

    @cached_property
    def _partial_sums(self) -> list[Array]:
        """Sums of the coefficients of the whole product from the first to each, without the constant."""
        return list(np.cumsum([np.zeros_like(self._whole[0]), *self._whole[1:]], axis=0))
