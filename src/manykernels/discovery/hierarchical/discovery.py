"""Hierarchical kernel learning: a norm on a graph of products, with a bounded search from the root."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from manykernels.discovery.base import (
    Discovery,
    Limits,
    SearchProblem,
    certificate_of,
    check_one_column,
    resolve_limits,
    run_search,
)
from manykernels.discovery.hierarchical.newton import (
    HierarchicalNewton,
    HierarchicalNorm,
    ReducedProblem,
    descend,
    grow_newton,
    start_newton,
)
from manykernels.discovery.hierarchical.product_grid import (
    ROOT,
    AnovaGrid,
    Hull,
    MonomialGrid,
    Node,
    ProductGrid,
    hull_matrix,
)
from manykernels.discovery.polynomial.product_bases import check_normalize
from manykernels.exceptions import InvalidInputError
from manykernels.kernels import Gaussian, KernelSpec
from manykernels.objective.certificate import Certificate
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Simplex
from manykernels.solvers import Solution, Status
from manykernels.solvers.run import deadline, seconds_left
from manykernels.solvers.solution import Model
from manykernels.validation.arrays import Array, check_count, check_growth

# The search of hierarchical kernel learning: a hull that grows from the root, solved and bounded in turn.


# Numbers that follow from no theorem: they decide the time, not what is certified. Shares and factors are those of the
# gap that is being closed.
CLOSER = 0.1  # the share of the gap over the family that the gap over the hull is brought to


@dataclass(frozen=True, eq=False)
class _DualNorm:
    """Dual norms of a model: squares on the hull, and the bound for every source."""

    inside: float
    own: dict[Node, float]
    bounds: dict[Node, float]

    @property
    def whole(self) -> float:
        """Upper bound on the squared dual norm over the whole graph."""
        return max(self.inside, max(self.bounds.values(), default=0.0))

    def violators(self, threshold: float) -> tuple[list[Node], list[Node]]:
        """Return the sources that must enter, and sources with possibly violating descendants; the worst first."""
        by_own, by_bound = sorted(self.own, key=self.own.__getitem__), sorted(self.bounds, key=self.bounds.__getitem__)
        necessary = [node for node in reversed(by_own) if self.own[node] > threshold]
        return necessary, [node for node in reversed(by_bound) if self.bounds[node] > threshold]


@dataclass(eq=False)
class HierarchicalSearch:
    """The hull, the Newton iteration, and the group weights for splitting dual vectors."""

    grid: ProductGrid
    posed: SearchProblem
    base: Problem  # without kernels
    tol: float
    max_kernels: int
    hull: Hull = field(init=False)
    newton: HierarchicalNewton | None = None
    eta: Array = field(default_factory=lambda: np.ones(1))
    steps: int = 0

    def __post_init__(self) -> None:
        self.hull = self.grid.empty_hull()
        self.hull.add(ROOT)

    @property
    def full(self) -> bool:
        """Whether the hull has the maximal number of nodes."""
        return len(self.hull.nodes) >= self.max_kernels

    @property
    def _constant(self) -> bool:
        """Whether there is nothing to solve for: the constant kernel adds nothing to an intercept."""
        return self.base.fit_intercept and len(self.hull.nodes) == 1

    def candidates(self) -> Iterator[Solution]:
        """Yield the zero model, then the model of every hull, every certified over the whole graph."""
        rho, b = self.base.zero_model()
        model, solved_to = self._model(rho, np.zeros(1), b), np.inf
        known: dict[Node, tuple[float, float]] = {}
        hull_share = 0.3  # the share of tol that suffices for the gap over the hull
        outside_share = 0.5  # the share of tol that bounds on sources may cost
        while True:
            reduced = self._reduced()
            feasible = self.base.feasible_dual(model[0])
            norm = self._dual_norm(reduced, feasible, known)
            certificate = self._certificate(reduced, model, feasible, norm.whole)
            yield self._candidate(model, certificate)
            hull_gap = self._certificate(reduced, model, feasible, norm.inside).relative_gap
            room = outside_share * self.tol * 2.0 * self.posed.strength * abs(certificate.primal)
            necessary, doubtful = norm.violators(norm.inside + room)
            goal = max(CLOSER * min(certificate.relative_gap, 1.0), hull_share * self.tol)
            if not self._add(necessary):
                if min(hull_gap, solved_to) <= goal and self._add(doubtful):
                    continue
                if self._constant:
                    return
                goal = hull_share * self.tol
                if solved_to <= goal:
                    return
            model, solved_to, known = self._solve(goal, certificate.gap), goal, {}

    def _add(self, nodes: list[Node]) -> bool:
        """Add the first nodes to the hull, as many as there is room for; return whether there were any."""
        fewest_added = 10  # sources a round
        added_share = 0.25  # of the size of the hull, if that is more
        most = max(fewest_added, int(added_share * len(self.hull.nodes)))
        chosen = nodes[: min(most, self.max_kernels - len(self.hull.nodes))]
        for node in chosen:
            self.hull.add(node)
        # So small that new groups take what only they hold, in the shares of the bound on the descendants of a source.
        added = np.array([self.grid.penalty(node) for node in chosen])
        # of the smallest group weight, which the group weight of a node gets that was not yet solved for
        new_share = 1e-3
        self.eta = np.concatenate([self.eta, new_share * self.eta.min() * added / added.max(initial=1.0)])
        return bool(chosen)

    def _reduced(self) -> ReducedProblem:
        nodes = self.hull.nodes
        penalties = np.array([self.grid.penalty(node) for node in nodes])
        norm = HierarchicalNorm(hull_matrix(nodes), penalties, self.posed.strength)
        return ReducedProblem(self.base, self.grid.stack(nodes), norm)

    def _solve(self, goal: float, gap: float) -> Model:
        """Solve on the hull, warm-started if possible, and from scratch after a failure."""
        reduced = self._reduced()
        warm = None if self.newton is None else grow_newton(self.newton, reduced, gap)
        # of that, which the Newton iteration may leave; the rest is for setting small weights to zero
        newton_share = 0.3
        if warm is None or not (self._descend(warm, newton_share * goal) or seconds_left() == 0):
            self._descend(start_newton(reduced, *self.base.zero_model()), newton_share * goal)
        newton = self.newton
        assert newton is not None
        primal, dual = newton.bounds()
        unit = max(abs(primal), self.base.tiny)
        pruning_share = 0.1  # of the gap, which setting small weights to zero may cost
        weights = newton.weights_for(max(goal * unit, (1.0 + pruning_share) * (primal - dual)))
        return self._model(newton.samples.rho, weights, newton.b)

    def _descend(self, newton: HierarchicalNewton, goal: float) -> bool:
        steps, reached = descend(newton, goal)
        self.newton, self.eta = newton, newton.group_weights
        self.steps += steps
        return reached

    def _model(self, rho: Array, d: Array, b: float) -> Model:
        if self.base.fit_intercept:
            d = np.where(np.arange(len(d)) == 0, 0.0, d)  # the constant kernel adds nothing, as the sum of rho is zero
        return rho, d, b

    def _dual_norm(self, reduced: ReducedProblem, rho: Array, known: dict[Node, tuple[float, float]]) -> _DualNorm:
        """Bound the dual norm of ``rho``, with cached bounds."""
        squared_norms = np.maximum(reduced.stack.apply_each(rho) @ rho, 0.0)
        inside = float(reduced.regularizer.dual_squares(self.eta, squared_norms).max())
        fresh = [node for node in self.hull.sources if node not in known]
        squares, bounds = self.grid.source_bounds(rho, fresh)
        known.update(zip(fresh, zip(squares.tolist(), bounds.tolist(), strict=True), strict=True))
        sources = self.hull.sources
        return _DualNorm(inside, {node: known[node][0] for node in sources}, {node: known[node][1] for node in sources})

    def _certificate(self, reduced: ReducedProblem, model: Model, feasible: Array, dual_square: float) -> Certificate:
        """Return the certificate of the model for an upper bound on the squared dual norm of ``feasible``."""
        (rho, weights, b), d = model, np.zeros(len(self.hull.nodes))
        d[: len(weights)] = weights
        each = reduced.stack.apply_each(rho)
        f, t = d @ each, d * np.sqrt(np.maximum(each @ rho, 0.0))
        return certificate_of(self.base, (rho, f, b), reduced.regularizer.value(t), feasible,
                                dual_square / (2.0 * self.posed.strength))  # fmt: skip

    def _candidate(self, model: Model, certificate: Certificate) -> Solution:
        rho, weights, b = model
        chosen = np.flatnonzero(weights)
        return Solution(
            kernels=tuple(self.grid.create_kernel(self.hull.nodes[m], self.posed.names) for m in chosen),
            dual_coef=rho,
            kernel_weights=weights[chosen],
            intercept=b,
            certificate=certificate,
            passes=2.0 * self.steps,
            newton_steps=self.steps,
        )


FAMILIES = ("polynomial", "multilinear", "anova")
FULL_ADVICE = "The search has reached max_kernels={}: increase it, or increase growth, which shortens the search."


@dataclass(frozen=True, eq=False)
class HierarchicalDiscovery(Discovery):
    """The kernels found by hierarchical kernel learning.

    Attributes
    ----------
    n_visited : int
        Nodes of the hull: kernels in a reduced problem or in the bound.
    n_bounded : int
        Sources of the complement at the end; the bound on each covers all of the descendants.
    """

    n_visited: int = 0
    n_bounded: int = 0


def discover_hierarchical(
    problem: SearchProblem,
    *,
    kernels: str | KernelSpec = "polynomial",
    degree: int = 3,
    growth: ArrayLike = 3.0,
    normalize: str | None = None,
    max_kernels: int = 1000,
    limits: Limits | None = None,
) -> HierarchicalDiscovery:
    r"""Learn with a hierarchical norm over all products of one-dimensional kernels.

    Solves, over the directed acyclic graph V of all products of total level at most ``degree``,

    .. math:: \min_{f, b} \sum_i s_i\, \ell(y_i, \textstyle\sum_{v \in V} f_v(x_i) + b)
        + \frac{\lambda}{2} \Big( \sum_{v \in V} d_v \Big(\sum_{w \in D(v)} \|f_w\|^2\Big)^{1/2} \Big)^2,

    where D(v) are the descendants of v and :math:`d_v = \prod_k \text{growth}_k^{v_k}`, with the level
    :math:`v_k` of column k in the product. A product is selected only
    after all products that divide it. The search visits about as many kernels as it selects; the dual bound holds for
    all.

    Parameters
    ----------
    problem : SearchProblem
        The constant kernel, the root, always belongs to the graph.
    kernels : {"polynomial", "multilinear", "anova"} or KernelSpec, default="polynomial"
        Monomials; monomials without powers; products of Gaussian kernels of width 1 on different columns; or products
        of the given kernel on different columns.
    degree : int, default=3
        Largest total degree of a monomial, or largest number of columns in a product.
    growth : float or array_like of shape (n_columns,), default=3.0
        Ratio of the penalty of a node to that of its parent, at least 1; large values prefer small products. One number
        per column states which columns are expected in interactions: these get the small ones.
    normalize : {"power", "centered"} or None, default=None
        For monomials: "power" divides every power of a column by the respective root mean square, "centered" takes the
        mean off first, None leaves it unchanged. Other kernels are taken unchanged.
    max_kernels : int, default=1000
        Largest hull; the search ends when it would be exceeded.
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
    >>> from manykernels.discovery import SearchProblem, discover_hierarchical
    >>> X = np.random.default_rng(0).standard_normal((100, 8))
    >>> found = discover_hierarchical(SearchProblem(X, X[:, 0] + X[:, 0] * X[:, 5], strength=1.0), degree=2)
    >>> sorted(kernel.name for kernel in found.kernels)
    ['x0', 'x0 x x5', 'x5']
    """
    grid = _grid(problem.points, kernels, degree, growth, check_normalize(normalize))
    limits, base = resolve_limits(limits, Limits()), problem.empty_problem(Simplex(problem.strength))
    base.check_precision()
    most = check_count(max_kernels, "max_kernels")
    search = HierarchicalSearch(grid, problem, base, limits.tol, most)
    with deadline(limits.time_limit):
        discovery = run_search(search.candidates(), limits, base)
    solution = discovery.solution
    if search.full and solution.status is Status.STALLED:
        solution = replace(solution, message=f"{solution.message} {FULL_ADVICE.format(max_kernels)}")
    return HierarchicalDiscovery(discovery.kernels, solution, len(search.hull.nodes), len(search.hull.sources))


def _grid(
    points: Array, kernels: str | KernelSpec, degree: int, growth: ArrayLike, normalize: str | None
) -> ProductGrid:
    """Check the family and return the grid."""
    degree, ratios = check_count(degree, "degree"), check_growth(growth, points.shape[1])
    if isinstance(kernels, KernelSpec):
        return AnovaGrid(points, degree, ratios, check_one_column(kernels, "kernels"))
    if not isinstance(kernels, str) or kernels not in FAMILIES:
        raise InvalidInputError(f"kernels must be a kernel or one of {', '.join(FAMILIES)}, got {kernels!r}.")
    if kernels == "anova":
        return AnovaGrid(points, degree, ratios, Gaussian(1.0))
    return MonomialGrid(points, degree, ratios, squares=kernels == "polynomial", normalize=normalize)
