"""The graph of monomials whose powers are normalized: level ``j`` of a column is its own feature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from manykernels.discovery.base import Found
from manykernels.discovery.hierarchical.graph import Node, depth, raised
from manykernels.discovery.hierarchical.monomial_grid import MonomialGrid
from manykernels.discovery.polynomial.bases.powers import ColumnPowers
from manykernels.kernels import Interaction
from manykernels.validation.arrays import Array


@dataclass(frozen=True, eq=False)
class NormalizedMonomialGrid(MonomialGrid):
    """Monomials made of powers of columns that are divided by their root mean squares, centered before or not."""

    normalize: str = "power"

    @cached_property
    def powers(self) -> ColumnPowers:
        """Normalized powers of the columns."""
        return ColumnPowers.of(np.ascontiguousarray(self.points.T), self.normalize)

    @cached_property
    def _levels(self) -> list[Array]:
        """Powers of all columns, (r, N) each, the zeroth first."""
        ones = np.ones((self.n_columns, self.n_samples))
        return [ones, *(self.powers.level(level) for level in range(1, self.largest_level + 1))]

    def feature(self, node: Node) -> Array:
        """Return the product of the powers, (N,)."""
        values = np.ones(self.n_samples)
        for column, level in node:
            values = values * self._levels[level][column]
        return values

    def level(self, column: int, level: int) -> Array:
        """Return the outer product of a power of a column."""
        return np.multiply.outer(self._levels[level][column], self._levels[level][column])

    def found(self, node: Node, names: Sequence[str]) -> Found:
        """Return the kernel of a node, named as if its powers were not normalized."""
        parts = tuple((self.powers.spec(column, level), (at,)) for at, (column, level) in enumerate(node))
        kernel, columns = Interaction(parts), tuple(column for column, _ in node)
        return Found(kernel.named([names[column] for column in columns]), kernel, columns or (0,))

    def source_bounds(self, rho: Array, sources: Sequence[Node]) -> tuple[Array, Array]:
        """Return own squares and bounds; those of sources with one level left, or none, at once."""
        own, bounds = np.zeros(len(sources)), np.zeros(len(sources))
        left = self.degree - np.array([depth(node) for node in sources])
        for m, node in enumerate(sources):
            own[m] = self.squared_norm(rho, node) / self.penalty(node) ** 2
            if left[m] > 1:
                bounds[m] = self.descendant_squares(rho, node)
        for chosen in np.array_split(np.flatnonzero(left == 1), 1 + len(sources) // self.n_samples):
            nodes = [sources[m] for m in chosen]
            scales = np.array([self.penalty(node) ** 2 for node in nodes])
            bounds[chosen] = own[chosen] + self._children_squares(rho, nodes) / (self._boxes[1] * scales)
        return own, np.maximum(bounds, own)

    def _children_squares(self, rho: Array, nodes: Sequence[Node]) -> Array:
        """Return the sums of the squared norms of the children of nodes, (n,)."""
        weighted = rho * np.array([self.feature(node) for node in nodes]).reshape(-1, self.n_samples)
        squares = (weighted @ self._levels[1].T) ** 2
        for row, node in zip(squares, nodes, strict=True):
            for column, level in node:
                room = level < self.largest_level
                row[column] = self.squared_norm(rho, raised(node, column)) if room else 0.0
        sums: Array = squares.sum(axis=1)
        return sums
