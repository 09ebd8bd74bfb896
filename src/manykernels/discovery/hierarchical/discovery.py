"""Hierarchical kernel learning: a norm on a graph of products, searched from its root with a bound on what is left."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from manykernels.discovery.base import Discovery, Limits, checked_limits, run_search
from manykernels.discovery.hierarchical.anova_grid import AnovaGrid
from manykernels.discovery.hierarchical.monomial_grid import MonomialGrid
from manykernels.discovery.hierarchical.normalized_grid import NormalizedMonomialGrid
from manykernels.discovery.hierarchical.product_grid import ProductGrid
from manykernels.discovery.hierarchical.search import HierarchicalSearch
from manykernels.discovery.polynomial.bases.powers import check_normalize
from manykernels.exceptions import InvalidInputError
from manykernels.grams import as_stack
from manykernels.kernels import Gaussian, KernelSpec
from manykernels.objective.losses import Loss, get_loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Simplex
from manykernels.solvers import Status
from manykernels.validation.arrays import Array, check_count, check_growth, check_points
from manykernels.validation.parameters import check_column_names, check_flag

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
