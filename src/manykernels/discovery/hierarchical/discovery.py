"""Hierarchical kernel learning: a norm on a graph of products, searched from its root with a bound on what is left."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from manykernels.discovery.base import Discovery, Found, Limits, check_one_target, checked_limits, run_search
from manykernels.discovery.hierarchical.graph import ROOT, Node, depth, raised
from manykernels.discovery.hierarchical.newton import NodeGrams
from manykernels.discovery.hierarchical.product_grid import ProductGrid
from manykernels.discovery.hierarchical.search import HierarchicalSearch
from manykernels.discovery.hierarchical.tuning import BATCH, LARGEST_CACHE
from manykernels.discovery.polynomial.product_bases import ColumnPowers, check_normalize
from manykernels.exceptions import InvalidInputError
from manykernels.grams import RankOneStack, as_stack
from manykernels.kernels import Gaussian, Interaction, KernelSpec, Linear
from manykernels.objective.losses import Loss, get_loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Simplex
from manykernels.solvers import Status
from manykernels.validation.arrays import Array, check_count, check_growth, check_points
from manykernels.validation.parameters import check_column_names, check_flag

# The graph of monomials: nodes of rank one, and bounds on all sources of one depth at once.


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


# The graph of monomials whose powers are normalized: level ``j`` of a column is its own feature.


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


# The graph of products of one kernel on different columns, whose Gram matrices are kept while there is room.


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


FAMILIES = ("polynomial", "multilinear", "anova")
FULL_ADVICE = "The search has reached max_kernels={}: increase it, or increase growth, which shortens the search."


@dataclass(frozen=True, eq=False)
class HierarchicalDiscovery(Discovery):
    """The kernels found by hierarchical kernel learning.

    Attributes
    ----------
    n_visited : int
        Nodes of the hull: kernels that were in a reduced problem or in its bound.
    n_bounded : int
        Sources of the complement at the end; the bound on each covers all of its descendants.
    """

    n_visited: int = 0
    n_bounded: int = 0


def discover_hierarchical(
    points: Array,
    target: Array,
    *,
    loss: Loss | str = "squared",
    strength: float,
    kernels: str | KernelSpec = "polynomial",
    degree: int = 3,
    growth: float = 3.0,
    normalize: str | None = None,
    max_kernels: int = 1000,
    names: Sequence[str] | None = None,
    fit_intercept: bool = True,
    sample_weight: Array | None = None,
    limits: Limits | None = None,
) -> HierarchicalDiscovery:
    r"""Learn with a hierarchical norm over all products of one-dimensional kernels.

    Solves, over the directed acyclic graph V of all products of total level at most ``degree``,

    .. math:: \min_{f, b} \sum_i s_i\, \ell(y_i, \textstyle\sum_{v \in V} f_v(x_i) + b)
        + \frac{\lambda}{2} \Big( \sum_{v \in V} d_v \Big(\sum_{w \in D(v)} \|f_w\|^2\Big)^{1/2} \Big)^2,

    where D(v) are the descendants of v and :math:`d_v = \text{growth}^{\text{depth}(v)}`. A product is selected only
    after all products that divide it. The search visits about as many kernels as it selects; its dual bound holds for
    all.

    Parameters
    ----------
    points : ndarray of shape (N, r)
        Columns, usually standardized.
    target : ndarray of shape (N,)
        Numbers, or signs for the losses of classification.
    loss : Loss or str, default="squared"
        Any loss of the library.
    strength : float
        ``lambda``, positive.
    kernels : {"polynomial", "multilinear", "anova"} or KernelSpec, default="polynomial"
        Monomials; monomials without powers; products of Gaussian kernels of width 1 on different columns; or products
        of the given kernel on different columns.
    degree : int, default=3
        Largest total degree of a monomial, or largest number of columns in a product.
    growth : float, default=3.0
        Ratio of the penalty of a node to those of its parents, at least 1; large values prefer small products.
    normalize : {"power", "centered"} or None, default=None
        For monomials: "power" divides each power of a column by its own root mean square, "centered" takes its mean off
        first, None leaves it as it is. Other kernels are taken as they are.
    max_kernels : int, default=1000
        Largest hull; the search ends when it would be exceeded.
    names : sequence of str, optional
        Column names; ``x0``, ``x1``, ... by default.
    fit_intercept : bool, default=True
        Whether to learn a constant that is not penalized; the constant kernel, the root, always belongs to the graph.
    sample_weight : ndarray of shape (N,), optional
        Positive weights ``s``.
    limits : Limits, optional
        When to stop; by default at a relative gap of 1e-3.

    Returns
    -------
    HierarchicalDiscovery
        The certificate's dual bound holds for every kernel of the graph.

    Raises
    ------
    InvalidInputError
        If data or parameters cannot be used.

    Notes
    -----
    Bach, "Exploring large feature spaces with hierarchical multiple kernel learning", NIPS 21 (2008); Afkanpour
    (2013), (2.13) to (2.15).

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery import discover_hierarchical
    >>> X = np.random.default_rng(0).standard_normal((100, 8))
    >>> found = discover_hierarchical(X, X[:, 0] + X[:, 0] * X[:, 5], strength=1.0, degree=2)
    >>> sorted(kernel.name for kernel in found.kernels)
    ['x0', 'x0 x x5', 'x5']
    """
    grid = _grid(check_points(points), kernels, degree, growth, check_normalize(normalize))
    names, limits = check_column_names(names, grid.n_columns), checked_limits(limits, Limits())
    empty = np.zeros((1, grid.n_samples, grid.n_samples))
    base = Problem(
        as_stack(empty),
        target,
        get_loss(loss),
        Simplex(strength),
        fit_intercept=check_flag(fit_intercept, "fit_intercept"),
        sample_weight=sample_weight,
    )
    check_one_target(base)
    base.check_precision()
    deadline = time.perf_counter() + (np.inf if limits.time_limit is None else limits.time_limit)
    most = check_count(max_kernels, "max_kernels")
    search = HierarchicalSearch(grid, base, strength, names, limits.tol, most, deadline)
    found = run_search(search.candidates(), limits)
    solution = found.solution
    if search.full and solution.status is Status.STALLED:
        solution = replace(solution, message=f"{solution.message} {FULL_ADVICE.format(max_kernels)}")
    return HierarchicalDiscovery(found.kernels, solution, len(search.hull.nodes), len(search.hull.sources))


def _grid(points: Array, kernels: str | KernelSpec, degree: int, growth: float, normalize: str | None) -> ProductGrid:
    """Check the family and return it."""
    degree, growth = check_count(degree, "degree"), check_growth(growth)
    if isinstance(kernels, KernelSpec):
        return AnovaGrid(points, degree, growth, _one_column(kernels))
    if not isinstance(kernels, str) or kernels not in FAMILIES:
        raise InvalidInputError(f"kernels must be a kernel or one of {', '.join(FAMILIES)}, got {kernels!r}.")
    if kernels == "anova":
        return AnovaGrid(points, degree, growth, Gaussian(1.0))
    if normalize is None:
        return MonomialGrid(points, degree, growth, squares=kernels == "polynomial")
    return NormalizedMonomialGrid(points, degree, growth, squares=kernels == "polynomial", normalize=normalize)


def _one_column(kernel: KernelSpec) -> KernelSpec:
    """Return a kernel that can act on one column as it is, else say why it cannot."""
    if kernel.pending:
        raise InvalidInputError(f"The width of {kernel.label} is not a number yet: give one, such as Gaussian(1.0).")
    kernel.check_columns(1, f"kernels={kernel.label}")
    return kernel
