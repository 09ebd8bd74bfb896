"""The search of hierarchical kernel learning: a hull that grows from the root, solved and bounded in turn."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from manykernels.discovery.base import Candidate
from manykernels.discovery.family_certificate import certificate_of
from manykernels.discovery.hierarchical.graph import ROOT, HierarchicalNorm, Hull, Node, hull_matrix
from manykernels.discovery.hierarchical.newton import (
    HierarchicalNewton,
    ReducedProblem,
    descend,
    grown_newton,
    start_newton,
)
from manykernels.discovery.hierarchical.product_grid import ProductGrid
from manykernels.discovery.hierarchical.tuning import (
    ADDED_SHARE,
    CLOSER,
    FEWEST_ADDED,
    HULL_SHARE,
    NEW_SHARE,
    NEWTON_SHARE,
    OUTSIDE_SHARE,
    PRUNING_SHARE,
)
from manykernels.objective.certificate import Certificate
from manykernels.objective.problem import Problem
from manykernels.validation.arrays import Array


@dataclass(frozen=True, eq=False)
class _Model:
    """Dual coefficients, weights of the nodes of the hull, intercept; and the feasible dual coefficients."""

    rho: Array
    d: Array
    b: float
    feasible: Array


@dataclass(frozen=True, eq=False)
class _DualNorm:
    """What is known about the dual norm of a model: squares on the hull, and for each source its own and its bound."""

    inside: float
    own: dict[Node, float]
    bounds: dict[Node, float]

    @property
    def whole(self) -> float:
        """Upper bound on the squared dual norm over the whole graph."""
        return max(self.inside, max(self.bounds.values(), default=0.0))

    def violators(self, threshold: float) -> tuple[list[Node], list[Node]]:
        """Return the sources that must enter, and those that may have a descendant that must; the worst first."""
        by_own, by_bound = sorted(self.own, key=self.own.__getitem__), sorted(self.bounds, key=self.bounds.__getitem__)
        necessary = [node for node in reversed(by_own) if self.own[node] > threshold]
        return necessary, [node for node in reversed(by_bound) if self.bounds[node] > threshold]


@dataclass(eq=False)
class HierarchicalSearch:
    """The hull, the Newton iteration on it, and the group weights by which dual vectors are split."""

    grid: ProductGrid
    base: Problem
    strength: float
    names: Sequence[str]
    tol: float
    max_kernels: int
    deadline: float = np.inf
    hull: Hull = field(init=False)
    newton: HierarchicalNewton | None = None
    eta: Array = field(default_factory=lambda: np.ones(1))
    steps: int = 0

    def __post_init__(self) -> None:
        self.hull = self.grid.empty_hull()
        self.hull.add(ROOT)

    @property
    def full(self) -> bool:
        """Whether the hull has as many nodes as it may have."""
        return len(self.hull.nodes) >= self.max_kernels

    @property
    def _constant(self) -> bool:
        """Whether there is nothing to solve for: the constant kernel adds nothing to an intercept."""
        return self.base.fit_intercept and len(self.hull.nodes) == 1

    @property
    def late(self) -> bool:
        """Whether the deadline has passed."""
        return time.perf_counter() > self.deadline

    def candidates(self) -> Iterator[Candidate]:
        """Yield the zero model, then the model of every hull, each certified over the whole graph."""
        rho, b = self.base.zero_model()
        model, solved_to = self._model(rho, np.zeros(1), b), np.inf
        known: dict[Node, tuple[float, float]] = {}
        while True:
            reduced = self._reduced()
            norm = self._dual_norm(reduced, model.feasible, known)
            certificate = self._certificate(reduced, model, norm.whole)
            yield self._candidate(model, certificate)
            hull_gap = self._certificate(reduced, model, norm.inside).relative_gap
            room = OUTSIDE_SHARE * self.tol * 2.0 * self.strength * abs(certificate.primal)
            necessary, doubtful = norm.violators(norm.inside + room)
            goal = max(CLOSER * min(certificate.relative_gap, 1.0), HULL_SHARE * self.tol)
            if not self._add(necessary):
                if min(hull_gap, solved_to) <= goal and self._add(doubtful):
                    continue
                if self._constant:
                    return
                goal = HULL_SHARE * self.tol
                if solved_to <= goal:
                    return
            model, solved_to, known = self._solved(goal, certificate.gap), goal, {}

    def _add(self, nodes: list[Node]) -> bool:
        """Add the first nodes to the hull, as many as there is room for; return whether there were any."""
        most = max(FEWEST_ADDED, int(ADDED_SHARE * len(self.hull.nodes)))
        chosen = nodes[: min(most, self.max_kernels - len(self.hull.nodes))]
        for node in chosen:
            self.hull.add(node)
        # So small that new groups take what only they hold, in the shares of the bound on the descendants of a source.
        added = np.array([self.grid.penalty(node) for node in chosen])
        self.eta = np.concatenate([self.eta, NEW_SHARE * self.eta.min() * added / added.max(initial=1.0)])
        return bool(chosen)

    def _reduced(self) -> ReducedProblem:
        nodes = self.hull.nodes
        penalties = np.array([self.grid.penalty(node) for node in nodes])
        norm = HierarchicalNorm(hull_matrix(nodes), penalties, self.strength)
        return ReducedProblem(self.base, self.grid.stack(nodes), norm)

    def _solved(self, goal: float, gap: float) -> _Model:
        """Solve on the hull, from the last point if there is one, and from scratch if that does not get there."""
        reduced = self._reduced()
        warm = None if self.newton is None else grown_newton(self.newton, reduced, gap)
        if warm is None or not (self._descended(warm, NEWTON_SHARE * goal) or self.late):
            self._descended(start_newton(reduced, *self.base.zero_model()), NEWTON_SHARE * goal)
        newton = self.newton
        assert newton is not None
        primal, dual = newton.bounds()
        unit = max(abs(primal), self.base.tiny)
        weights = newton.weights_for(max(goal * unit, (1.0 + PRUNING_SHARE) * (primal - dual)))
        return self._model(newton.samples.rho, weights, newton.b)

    def _descended(self, newton: HierarchicalNewton, goal: float) -> bool:
        steps, reached = descend(newton, goal, self.deadline)
        self.newton, self.eta = newton, newton.group_weights
        self.steps += steps
        return reached

    def _model(self, rho: Array, d: Array, b: float) -> _Model:
        if self.base.fit_intercept:
            d = np.where(np.arange(len(d)) == 0, 0.0, d)  # the constant kernel adds nothing, as the sum of rho is zero
        return _Model(rho, d, b, self.base.feasible_dual(rho))

    def _dual_norm(self, reduced: ReducedProblem, rho: Array, known: dict[Node, tuple[float, float]]) -> _DualNorm:
        """Bound the dual norm of ``rho``; bounds that are known are not computed again, new ones are added to them."""
        squared_norms = np.maximum(reduced.stack.apply_each(rho) @ rho, 0.0)
        inside = float(reduced.regularizer.dual_squares(self.eta, squared_norms).max())
        fresh = [node for node in self.hull.sources if node not in known]
        own, bounds = self.grid.source_bounds(rho, fresh)
        known.update(zip(fresh, zip(own.tolist(), bounds.tolist(), strict=True), strict=True))
        sources = self.hull.sources
        return _DualNorm(inside, {node: known[node][0] for node in sources}, {node: known[node][1] for node in sources})

    def _certificate(self, reduced: ReducedProblem, model: _Model, dual_square: float) -> Certificate:
        """Return the certificate of the model for an upper bound on the squared dual norm of ``model.feasible``."""
        base, d = self.base, np.zeros(len(self.hull.nodes))
        d[: len(model.d)] = model.d
        each = reduced.stack.apply_each(model.rho)
        f, t = d @ each, d * np.sqrt(np.maximum(each @ model.rho, 0.0))
        return certificate_of(base, (model.rho, f, model.b), reduced.regularizer.value(t), model.feasible,
                                dual_square / (2.0 * self.strength))  # fmt: skip

    def _candidate(self, model: _Model, certificate: Certificate) -> Candidate:
        chosen = np.flatnonzero(model.d)
        return Candidate(
            kernels=tuple(self.grid.found(self.hull.nodes[m], self.names) for m in chosen),
            dual_coef=model.rho,
            kernel_weights=model.d[chosen],
            intercept=model.b,
            certificate=certificate,
            passes=2.0 * self.steps,
            newton_steps=self.steps,
        )
