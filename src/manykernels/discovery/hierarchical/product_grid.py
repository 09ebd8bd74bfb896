"""Product families on a grid: the kernels of their nodes, and the sums over all descendants of a node.

The kernel of a node is the product over its columns of a one-dimensional kernel for each level, ``k_w = prod_k
k_{k, w_k}`` with ``k_{k, 0} = 1``. With penalties ``d_v = growth^depth(v)`` the dual bound of a node ``t`` outside of a
hull is the sum over its descendants

    B_t = sum_{w in D(t)} u_w^2 / (sum_{v in A(w), v in D(t)} d_v)^2,      u_w^2 = rho'K_w rho,

whose summands factorize over columns. Collected by depth, the sum is the quadratic form in ``rho`` of the coefficients
up to ``degree - depth(t)`` of a product of power series ``1 + sum_m K_{k,m} z^m / s(m)^2``, ``s(m) = 1 + growth + ... +
growth^m``. The product over all columns is computed once; a source replaces the series of its own few columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from manykernels.discovery.base import Found
from manykernels.discovery.hierarchical.graph import Hull, Node, depth, raised
from manykernels.discovery.hierarchical.newton import NodeGrams
from manykernels.kernels import Interaction, KernelSpec
from manykernels.validation.arrays import Array


@dataclass(frozen=True, eq=False)
class ProductGrid(ABC):
    """All products of one-dimensional kernels of at most ``r`` columns with levels that sum to ``degree`` at most."""

    points: Array
    degree: int
    growth: float

    @property
    def n_samples(self) -> int:
        """Number of samples N."""
        return len(self.points)

    @property
    def n_columns(self) -> int:
        """Number of columns r."""
        return int(self.points.shape[1])

    @property
    @abstractmethod
    def largest_level(self) -> int:
        """Largest level of one column."""

    @abstractmethod
    def spec(self) -> KernelSpec:
        """Return the one-dimensional kernel of level one; level ``j`` is its ``j``-th power."""

    @abstractmethod
    def level(self, column: int, level: int) -> Array:
        """Return the Gram matrix (N, N) of one column at one level."""

    @abstractmethod
    def stack(self, nodes: Sequence[Node]) -> NodeGrams:
        """Return the kernels of nodes."""

    @abstractmethod
    def squared_norm(self, rho: Array, node: Node) -> float:
        """Return ``u_w^2 = rho'K_w rho``."""

    def empty_hull(self) -> Hull:
        """Return the hull without nodes."""
        return Hull(self.n_columns, self.degree, self.largest_level)

    def penalty(self, node: Node) -> float:
        """Return ``d_v = growth^depth``."""
        return float(self.growth ** depth(node))

    def found(self, node: Node, names: Sequence[str]) -> Found:
        """Return the kernel of a node, named after its columns; the root is the constant kernel."""
        columns = tuple(column for column, _ in node)
        spec = self.spec()
        kernel = Interaction(tuple((spec, (at,)) for at, (_, level) in enumerate(node) for _ in range(level)))
        return Found(kernel.named([names[column] for column in columns]), kernel, columns or (0,))

    def descendant_squares(self, rho: Array, source: Node) -> float:
        """Return ``B_t`` of a source, an upper bound on the squared dual norm of all that lies below it."""
        left = self.degree - depth(source)
        if left == 0:
            total = self.squared_norm(rho, source)
        elif left == 1:
            total = self._with_children(rho, source)
        else:
            total = float(rho @ self._descendant_gram(source, left) @ rho)
        return max(total, 0.0) / self.penalty(source) ** 2

    def source_bounds(self, rho: Array, sources: Sequence[Node]) -> tuple[Array, Array]:
        """Return for each source its own ``u_t^2 / d_t^2`` and ``B_t``, (n,) each."""
        own = [self.squared_norm(rho, node) / self.penalty(node) ** 2 for node in sources]
        return np.array(own), np.array([self.descendant_squares(rho, node) for node in sources])

    def _with_children(self, rho: Array, node: Node) -> float:
        levels = dict(node)
        room = (column for column in range(self.n_columns) if levels.get(column, 0) < self.largest_level)
        below = sum(self.squared_norm(rho, raised(node, column)) for column in room)
        return self.squared_norm(rho, node) + below / self._boxes[1]

    @cached_property
    def _boxes(self) -> Array:
        """Squares of ``s(m)``, m = 0, ..., degree."""
        return np.square(np.cumsum(self.growth ** np.arange(self.degree + 1.0)))

    def _series(self, column: int, start: int, length: int) -> list[Array]:
        """Coefficients ``K_{k, start + m} / s(m)^2`` of the series of one column."""
        last = min(length, self.largest_level - start)
        return [self.level(column, start + m) / self._boxes[m] for m in range(last + 1)]

    @cached_property
    def _whole(self) -> list[Array]:
        """Coefficients of the product over all columns of ``1 + sum_m K_{k,m} z^m / s(m)^2``.

        One less than the degree, since only the root, which is never outside of a hull, has descendants so deep.
        """
        size, longest = self.n_samples, self.degree - 1
        total = [np.ones((size, size)), *(np.zeros((size, size)) for _ in range(longest))]
        for column in range(self.n_columns):
            series = self._series(column, 0, longest)
            for power in range(longest, 0, -1):
                for m in range(1, min(power, len(series) - 1) + 1):
                    total[power] += series[m] * total[power - m]
        return total

    def _descendant_gram(self, source: Node, left: int) -> Array:
        """Sum of the coefficients up to ``left`` of the whole product with the series of the source's columns."""
        total = self._whole[: left + 1]
        for column, level in source:
            total = _product(total, _quotient(self._series(column, level, left), self._series(column, 0, left), left))
        return np.sum(total, axis=0)


def _quotient(numerator: list[Array], denominator: list[Array], length: int) -> list[Array]:
    """Power series ``numerator / denominator``; the first coefficient of the denominator is one."""
    result: list[Array] = []
    for power in range(length + 1):
        term = numerator[power].copy() if power < len(numerator) else np.zeros_like(numerator[0])
        for m in range(1, min(power, len(denominator) - 1) + 1):
            term -= denominator[m] * result[power - m]
        result.append(term)
    return result


def _product(first: list[Array], second: list[Array]) -> list[Array]:
    """Power series ``first * second`` up to the length of both."""
    return [np.sum([first[m] * second[power - m] for m in range(power + 1)], axis=0) for power in range(len(first))]
