"""Product families on a grid: nodes and their hull, the kernels of nodes, and sums over all descendants of a node.

The kernel of a node is the product over the columns of a one-dimensional kernel for every level, ``k_w = prod_k k_{k,
w_k}`` with ``k_{k, 0} = 1``. With penalties ``d_v = prod_k growth_k^{v_k}`` the dual bound of a node ``t`` outside of
a hull is the sum over the descendants

    B_t = sum_{w in D(t)} u_w^2 / (sum_{v in A(w), v in D(t)} d_v)^2,      u_w^2 = rho'K_w rho,

whose summands factorize over columns. Collected by depth, the sum is the quadratic form in ``rho`` of the coefficients
up to ``degree - depth(t)`` of a product of power series ``1 + sum_m K_{k,m} z^m / s_k(m)^2``, ``s_k(m) = 1 + growth_k
+ ... + growth_k^m``. The product over all columns is computed once; a source replaces the series of its few columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import ClassVar, Protocol

import numpy as np

from manykernels.discovery.base import Found
from manykernels.discovery.polynomial.product_bases import ColumnPowers
from manykernels.grams import RankOneStack
from manykernels.kernels import Interaction, KernelSpec, Linear
from manykernels.validation.arrays import Array

# Nodes of the graph, their hull, and their kernels.


Node = tuple[tuple[int, int], ...]
"""Pairs (column, level), columns ascending, levels positive; a column that is not named has level zero."""

ROOT: Node = ()


def depth(node: Node) -> int:
    """Return the sum of the levels: the number of arrows from the root."""
    return sum(level for _, level in node)


def raised(node: Node, column: int) -> Node:
    """Return the child with a column level raised by 1."""
    levels = dict(node)
    levels[column] = levels.get(column, 0) + 1
    return tuple(sorted(levels.items()))


def parents(node: Node) -> Iterator[Node]:
    """Yield the nodes with a single level lowered by 1."""
    for column, level in node:
        yield tuple((c, j - (c == column)) for c, j in node if c != column or level > 1)


def ancestors(node: Node) -> Iterator[Node]:
    """Yield the box of nodes below ``node`` in every level, the root first and ``node`` itself last."""
    for levels in product(*(range(level + 1) for _, level in node)):
        yield tuple((column, level) for (column, _), level in zip(node, levels, strict=True) if level)


def hull_matrix(nodes: Sequence[Node]) -> Array:
    """Return the ancestor matrix of a set of nodes closed under ancestors."""
    place = {node: m for m, node in enumerate(nodes)}
    matrix = np.zeros((len(nodes), len(nodes)))
    for m, node in enumerate(nodes):
        matrix[m, [place[ancestor] for ancestor in ancestors(node)]] = 1.0
    return matrix


class Hull:
    """The active set: nodes with all ancestors, and the sources of the complement."""

    def __init__(self, n_columns: int, degree: int, largest_level: int) -> None:
        self._n_columns, self._degree, self._largest_level = n_columns, degree, largest_level
        self.nodes: list[Node] = []
        self.sources: dict[Node, None] = {ROOT: None}

    def add(self, node: Node) -> None:
        """Move a source into the active set; children with complete parents become sources."""
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


class NodeGrams(Protocol):
    """Products of the Gram matrices of the nodes for a Newton step."""

    def combine(self, d: Array) -> Array:
        """Return ``sum_w d_w K_w`` (N, N), a new array."""

    def apply_each(self, R: Array) -> Array:
        """Return ``K_w R`` (p, N) for a single vector."""


@dataclass(frozen=True, eq=False)
class ProductGrid(ABC):
    """All products of one-dimensional kernels of at most ``r`` columns with total level at most ``degree``."""

    points: Array
    degree: int
    growth: Array  # ndarray of shape (r,): ratio of the penalty of a node to that of its parent in a column

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
        """Largest level of a single column."""

    @abstractmethod
    def factors(self, node: Node) -> Iterator[tuple[KernelSpec, int]]:
        """Yield the one-dimensional factors of a node, with the place of the column."""

    @abstractmethod
    def level(self, column: int, level: int) -> Array:
        """Return the Gram matrix (N, N) of a single column at a single level."""

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
        """Return ``d_v = prod_k growth_k^{v_k}``."""
        return float(np.prod([self.growth[column] ** level for column, level in node]))

    def create_kernel(self, node: Node, names: Sequence[str]) -> Found:
        """Return the kernel of a node, named after the columns; the root is the constant kernel."""
        columns = tuple(column for column, _ in node)
        kernel = Interaction(tuple((spec, (at,)) for spec, at in self.factors(node)))
        return Found(kernel.named([names[column] for column in columns]), kernel, columns or (0,))

    def descendant_squares(self, rho: Array, source: Node) -> float:
        """Return ``B_t`` of a source, an upper bound on the squared dual norms of all descendants."""
        left = self.degree - depth(source)
        if left == 0:
            total = self.squared_norm(rho, source)
        elif left == 1:
            levels = dict(source)
            room = (column for column in range(self.n_columns) if levels.get(column, 0) < self.largest_level)
            below = sum(self.squared_norm(rho, raised(source, column)) / self._boxes[column, 1] for column in room)
            total = self.squared_norm(rho, source) + below
        else:
            total = float(rho @ self._descendant_gram(source, left) @ rho)
        return max(total, 0.0) / self.penalty(source) ** 2

    def source_bounds(self, rho: Array, sources: Sequence[Node]) -> tuple[Array, Array]:
        """Return ``u_t^2 / d_t^2`` and ``B_t`` of every source, (n,) each."""
        squares = [self.squared_norm(rho, node) / self.penalty(node) ** 2 for node in sources]
        return np.array(squares), np.array([self.descendant_squares(rho, node) for node in sources])

    @cached_property
    def _boxes(self) -> Array:
        """Squares of ``s_k(m)``, m = 0, ..., degree, one row a column."""
        return np.square(np.cumsum(self.growth[:, None] ** np.arange(self.degree + 1.0), axis=1))

    def _series(self, column: int, start: int, length: int) -> list[Array]:
        """Coefficients ``K_{k, start + m} / s_k(m)^2`` of the series of a single column."""
        last = min(length, self.largest_level - start)
        return [self.level(column, start + m) / self._boxes[column, m] for m in range(last + 1)]

    @cached_property
    def _whole(self) -> list[Array]:
        """Coefficients of the product over all columns of ``1 + sum_m K_{k,m} z^m / s_k(m)^2``.

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
    """Return the power series ``numerator / denominator``, for a leading denominator of 1."""
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


# The graph of monomials: nodes of rank one, and bounds on all sources of one depth at once.


@dataclass(frozen=True, eq=False)
class MonomialGrid(ProductGrid):
    """Monomials: level ``j`` of a column is the kernel ``(x z)^j`` of rank one, a node the kernel of a monomial.

    With ``normalize`` powers of columns are divided by their root mean squares, ``"centered"`` before or not.
    """

    squares: bool = True
    normalize: str | None = None

    @property
    def largest_level(self) -> int:
        """Return the degree, or 1."""
        return self.degree if self.squares else 1

    @cached_property
    def powers(self) -> ColumnPowers:
        """Normalized powers of the columns."""
        assert self.normalize is not None
        return ColumnPowers.compute(np.ascontiguousarray(self.points.T), self.normalize)

    @cached_property
    def _levels(self) -> list[Array]:
        """Normalized powers of all columns, (r, N) each, the zeroth first."""
        ones = np.ones((self.n_columns, self.n_samples))
        return [ones, *(self.powers.level(level) for level in range(1, self.largest_level + 1))]

    def power(self, column: int, level: int) -> Array:
        """Return a level of a single column, (N,)."""
        return self.points[:, column] ** level if self.normalize is None else self._levels[level][column]

    def factors(self, node: Node) -> Iterator[tuple[KernelSpec, int]]:
        """Yield linear kernels per level, or the kernels of normalized powers."""
        for at, (column, level) in enumerate(node):
            if self.normalize is None:
                yield from [(Linear(), at)] * level
            else:
                yield self.powers.spec(column, level), at

    def feature(self, node: Node) -> Array:
        """Return the monomial, (N,)."""
        values = np.ones(self.n_samples)
        for column, level in node:
            values = values * self.power(column, level)
        return values

    def level(self, column: int, level: int) -> Array:
        """Return the outer product of a power of a column."""
        return np.multiply.outer(self.power(column, level), self.power(column, level))

    def stack(self, nodes: Sequence[Node]) -> NodeGrams:
        return RankOneStack(np.array([self.feature(node) for node in nodes]))

    def squared_norm(self, rho: Array, node: Node) -> float:
        return float(rho @ self.feature(node)) ** 2

    def source_bounds(self, rho: Array, sources: Sequence[Node]) -> tuple[Array, Array]:
        """Return squares and bounds of all sources, by depth.

        With powers, the monomials below ``t`` are ``t`` times any monomial: the bound is the quadratic form of
        ``rho o t`` in a matrix that all sources of the same depth share. Normalized powers are no such products.
        """
        if self.normalize is not None:
            return self._normalized_bounds(rho, sources)
        if not self.squares:
            return super().source_bounds(rho, sources)
        squares, bounds = np.zeros(len(sources)), np.zeros(len(sources))
        depths = np.array([depth(node) for node in sources])
        batch = 1000  # sources bounded at once
        for level in np.unique(depths):
            for chosen in np.array_split(np.flatnonzero(depths == level), 1 + len(sources) // batch):
                weighted = rho * np.array([self.feature(sources[m]) for m in chosen]).reshape(-1, self.n_samples)
                squares[chosen] = np.square(weighted.sum(axis=1))
                bounds[chosen] = squares[chosen] + self._below(weighted, self.degree - level)
        scales = np.array([self.penalty(node) for node in sources]) ** 2
        return squares / scales, np.maximum(bounds, squares) / scales

    def _below(self, weighted: Array, left: int) -> Array:
        """Return sums over the proper descendants of monomials, given their products with ``rho``, (n, N)."""
        if left == 0:
            return np.zeros(len(weighted))
        if left == 1:
            return np.asarray(np.square(weighted @ self.points) @ (1 / self._boxes[:, 1]))
        products: Array = np.einsum("mi,mi->m", weighted @ self._partial_sums[left], weighted)
        return products

    @cached_property
    def _partial_sums(self) -> list[Array]:
        """Cumulative sums of the coefficients of the whole product, without the constant."""
        return list(np.cumsum([np.zeros_like(self._whole[0]), *self._whole[1:]], axis=0))

    def _normalized_bounds(self, rho: Array, sources: Sequence[Node]) -> tuple[Array, Array]:
        """Return squares and bounds, in closed form for sources with at most a single level left."""
        squares, bounds = np.zeros(len(sources)), np.zeros(len(sources))
        left = self.degree - np.array([depth(node) for node in sources])
        for m, node in enumerate(sources):
            squares[m] = self.squared_norm(rho, node) / self.penalty(node) ** 2
            if left[m] > 1:
                bounds[m] = self.descendant_squares(rho, node)
        for chosen in np.array_split(np.flatnonzero(left == 1), 1 + len(sources) // self.n_samples):
            nodes = [sources[m] for m in chosen]
            scales = np.array([self.penalty(node) ** 2 for node in nodes])
            bounds[chosen] = squares[chosen] + self._children_squares(rho, nodes) / scales
        return squares, np.maximum(bounds, squares)

    def _children_squares(self, rho: Array, nodes: Sequence[Node]) -> Array:
        """Return the sums over the children of nodes of their squared norms over ``s_k(1)^2``, (n,)."""
        weighted = rho * np.array([self.feature(node) for node in nodes]).reshape(-1, self.n_samples)
        squares = (weighted @ self._levels[1].T) ** 2
        for row, node in zip(squares, nodes, strict=True):
            for column, level in node:
                room = level < self.largest_level
                row[column] = self.squared_norm(rho, raised(node, column)) if room else 0.0
        sums: Array = squares @ (1 / self._boxes[:, 1])
        return sums


# The graph of products of one kernel on different columns, whose Gram matrices are kept while there is room.


@dataclass(frozen=True, eq=False)
class AnovaGrid(ProductGrid):
    """Products of a single kernel on different columns: a node is a set of columns, the depth the size."""

    kernel: KernelSpec
    largest_level: ClassVar[int] = 1

    def factors(self, node: Node) -> Iterator[tuple[KernelSpec, int]]:
        return ((self.kernel, at) for at in range(len(node)))

    def level(self, column: int, level: int) -> Array:
        """Return the Gram matrix of a single column, kept if there is room."""
        if level == 0:
            return np.ones((self.n_samples, self.n_samples))
        return self._cache.gram(((column, 1),))

    def stack(self, nodes: Sequence[Node]) -> NodeGrams:
        """Return the kernels of nodes, kept while there is room."""
        return _ProductGrams(self._cache, tuple(nodes))

    def squared_norm(self, rho: Array, node: Node) -> float:
        return float(rho @ self._cache.product(node) @ rho)

    @cached_property
    def _cache(self) -> _GramCache:
        return _GramCache(self.points, self.kernel)


class _GramCache:
    """Gram matrices of nodes, cached within the memory limit."""

    def __init__(self, points: Array, kernel: KernelSpec) -> None:
        self.points, self._kernel = points, kernel
        self._kept: dict[Node, Array] = {}

    def gram(self, node: Node) -> Array:
        """Return the cached Gram matrix."""
        if node not in self._kept:
            gram = self.product(node)
            largest_cache = 2**30  # bytes of Gram matrices kept; others are multiplied out again when they are needed
            if (len(self._kept) + 1) * gram.nbytes > largest_cache:
                return gram
            self._kept[node] = gram
        return self._kept[node]

    def product(self, node: Node) -> Array:
        """Return the Gram matrix, with cached factors and partial products only."""
        if node in self._kept:
            return self._kept[node]
        if node == ROOT:
            return np.ones((len(self.points), len(self.points)))
        if len(node) == 1:
            return self._kernel(self.points[:, [node[0][0]]])
        return self.product(node[:-1]) * self.gram(node[-1:])


@dataclass(frozen=True)
class _ProductGrams:
    """The kernels of nodes, a single matrix at a time."""

    cache: _GramCache
    nodes: tuple[Node, ...]

    def combine(self, d: Array) -> Array:
        """Return ``sum_w d_w K_w`` (N, N)."""
        total = np.zeros((len(self.cache.points), len(self.cache.points)))
        for weight, node in zip(d, self.nodes, strict=True):
            if weight:
                total += weight * self.cache.gram(node)
        return total

    def apply_each(self, R: Array) -> Array:
        """Return ``K_w R`` (p, N)."""
        return np.array([self.cache.gram(node) @ R for node in self.nodes])
