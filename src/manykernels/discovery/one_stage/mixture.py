"""Kernels found so far with their Gram matrices: the finite problem inside a search, and the certificate.

Over kernels with a width per feature the certificate can be proven once the search is over, by branch and bound.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

import numpy as np

from manykernels.discovery.base import Discovery, Found, Limits, SearchProblem, best_scaling, replace_dual
from manykernels.discovery.families.base import PairWeights
from manykernels.discovery.families.search import BestMember, FamilySearch
from manykernels.discovery.families.stationary import ArdGaussianFamily
from manykernels.exceptions import InvalidInputError
from manykernels.grams import as_stack
from manykernels.kernels import ArdGaussian
from manykernels.objective.certificate import Certificate
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers.weight_sets import Simplex
from manykernels.solvers import Solution, Status
from manykernels.solvers.solution import Model
from manykernels.validation.arrays import Array

# Numbers of the one-stage searches that follow from no theorem: they decide the time, not what is certified.
#
# Accuracies are relative to the gap that a search has, or is after.


# Greedy search
INNER_SHARE = 0.02  # of the gap that the search has, or is after, for the problems solved inside it
STEP_TOL = 1e-3  # of the step length in a line search

# Kernels found, and their certificate
BOUND_SHARE = 0.1  # of the gap, that the bound over a family may add to it

# Sampling
DRAW_TOL = 1e-4  # of the learner at each draw: noise of the draw is far above it
CHECKPOINTS = 10  # certificates a run
CORRECTIVE_TOL = 1e-6  # of the best weights on all kernels drawn

# Sliding
MOST_MOVES = 12  # L-BFGS-B iterations of one slide of a learner, each a fit


@dataclass(frozen=True, eq=False)
class Learner:
    """A problem in a family of kernels: ``sum_i s_i l(y_i, f_i + b) + (lambda/2) sum_m ||f_m||^2 / theta_m``."""

    posed: SearchProblem
    search: FamilySearch  # family and points

    @property
    def strength(self) -> float:
        """``lambda``."""
        return self.posed.strength

    @cached_property
    def empty(self) -> Problem:
        """The problem without kernels."""
        return self.posed.empty_problem(Simplex(self.strength))

    def problem(self, grams: Sequence[Array]) -> Problem:
        """Return the problem on some kernels, weights on the simplex."""
        return self.posed.replace_stack(as_stack(np.stack(grams)), self.empty.regularizer)

    def create_kernels(self, parameters: Sequence[Array]) -> tuple[Found, ...]:
        """Return the kernels of parameters, with distinct names."""
        kernels = []
        for m, parameter in enumerate(parameters):
            spec = self.search.family.spec(parameter)
            name = spec.label if len(parameter) <= 3 else f"{spec.kind} {m}"
            kernels.append(Found(name, spec, tuple(range(self.search.points.shape[1]))))
        return tuple(kernels)


@dataclass(frozen=True, eq=False)
class WeightedMembers:
    """Members of a family with weights."""

    parameters: tuple[Array, ...] = ()
    grams: tuple[Array, ...] = ()  # tuple of (N, N) float64
    weights: Array = field(default_factory=lambda: np.zeros(0))  # ndarray of shape (n_kernels,): theta, non-negative

    def __len__(self) -> int:
        return len(self.parameters)

    def with_member(self, search: FamilySearch, parameter: Array) -> tuple[WeightedMembers, int]:
        """Return the mixture extended by a member of weight zero, and the position; known members merge."""
        at = search.family.coordinate(parameter)
        same = 1e-8  # parameters closer than this on the scale of the search are one kernel
        for m, known in enumerate(self.parameters):
            if np.max(np.abs(search.family.coordinate(known) - at)) < same:
                return self, m
        grown = WeightedMembers(
            (*self.parameters, parameter), (*self.grams, search.gram(parameter)), np.append(self.weights, 0.0)
        )
        return grown, len(self)

    def merge(self, search: FamilySearch) -> WeightedMembers:
        """Return the mixture with distinct members and summed weights."""
        whole = WeightedMembers()
        for parameter, weight in zip(self.parameters, self.weights, strict=True):
            whole, place = whole.with_member(search, parameter)
            whole.weights[place] += weight
        return whole

    def weighted(self, weights: Array) -> WeightedMembers:
        """Return the mixture with other weights."""
        return replace(self, weights=weights)

    def prune(self) -> WeightedMembers:
        """Return the members of positive weight."""
        kept = np.flatnonzero(self.weights)
        return WeightedMembers(
            tuple(self.parameters[m] for m in kept), tuple(self.grams[m] for m in kept), self.weights[kept].copy()
        )

    def combined(self, weights: Array | None = None) -> Array:
        """Return ``sum_m theta_m K_m`` with given or stored weights."""
        total = np.zeros_like(self.grams[0])
        for weight, gram in zip(self.weights if weights is None else weights, self.grams, strict=True):
            if weight:
                total += weight * gram
        return total


@dataclass(frozen=True, eq=False)
class FamilyCertificate:
    """The certificate of a model over a family, and the most violating member."""

    certificate: Certificate
    worst: BestMember


def certify(
    learner: Learner,
    problem: Problem,
    model: Model,
    *,
    tol: float,
    near: Sequence[Array] = (),
    rng: np.random.Generator | None = None,
) -> FamilyCertificate:
    """Return the certificate of a model over the whole family, not only over the kernels of ``problem``.

    The dual bound is ``-sum_i s_i l*(y_i, -rho_i/s_i) - max_p rho'K_p rho / (2 lambda)``. For a family of a single
    parameter with a bound on the derivatives the maximum is bounded from above; otherwise it is the best that the
    search found.
    """
    inner = problem.certificate(*model)
    pairs = PairWeights.rank_one(problem.feasible_dual(model[0]))
    worst = learner.search.maximize(pairs, near=near, rng=rng)
    known = float(np.max(inner.dual_norms)) ** 2
    best = max(worst.value, known)
    excess = (best - known) / (2 * learner.strength)
    scale = max(abs(inner.primal), problem.tiny)
    allowed = max(BOUND_SHARE * (inner.gap + excess), 0.25 * tol * scale)
    bound = learner.search.bound(pairs, BestMember(worst.parameter, best), 2 * learner.strength * allowed)
    excess = (max(best, bound or best) - known) / (2 * learner.strength)
    kkt = replace(inner.kkt, complementarity=inner.kkt.complementarity + excess / scale)
    certificate = Certificate.from_values(inner.primal, inner.dual - excess, scale, kkt, inner.rounding)
    return FamilyCertificate(replace(certificate, dual_norms=inner.dual_norms), worst)


def candidate(
    learner: Learner, parameters: Sequence[Array], model: Model, certificate: Certificate, newton_steps: int
) -> Solution:
    """Return the model in the form offered by searches."""
    return Solution(*model, certificate, newton_steps=newton_steps, kernels=learner.create_kernels(parameters))


# A bound on ``r'K_w r`` over a box of widths, one a feature, from its values at corners of smaller boxes.
#
# With :math:`q_k = w_k^2`, Bochner's theorem gives :math:`r'K_w r = \prod_k \sqrt{q_k}\, F(q)` where F is the Laplace
# transform of a measure that is not negative (the energy of ``r`` at frequencies). Hence
#
# - F falls in every coordinate: in a box, ``r'K_w r`` is at most its value at the corner of smallest widths times
#   :math:`\prod_k w_k / \underline w_k`;
# - log F is convex: with :math:`\log q_k \le \log c_k + q_k / c_k - 1`, for any c > 0, what remains is convex, at most
#   its largest value at a corner v, and ``r'K_w r`` is at most
#   :math:`\max_v r'K_v r\, \exp(\tfrac12 \sum_k \phi(v_k^2 / c_k))` with :math:`\phi(t) = t - 1 - \log t`.
#
# The second bound is off by the square of the size of a box. Neither adds up absolute values of ``r_i r_j``.


LEVELS = 1 << 20  # finest grid, along a side of the whole box
Key = tuple[int, ...]


@dataclass(frozen=True)
class CornerBound:
    """Result of branch and bound."""

    bound: float  # r'K_w r exceeds it nowhere in the box
    best: float  # largest value met
    widths: tuple[float, ...]  # Where
    evaluations: int  # of r'K_w r


@dataclass(eq=False)
class _Corners:
    """Values of ``log r'K_w r`` at points of a grid on the logarithm of widths, every computed once."""

    squares: Array
    products: Array
    diagonal: float
    low: Array
    side: Array
    rounding: float
    known: dict[Key, float] = field(default_factory=dict)

    def widths(self, key: Key) -> Array:
        """Return the widths at a point of the grid."""
        return np.exp(self.low + self.side * np.array(key) / LEVELS)

    def learn(self, keys: set[Key]) -> None:
        """Compute the values not known yet."""
        missing = [key for key in keys if key not in self.known]
        block_entries = 2_000_000
        step = max(1, block_entries // max(len(self.products), 1))
        for at in range(0, len(missing), step):
            block = missing[at : at + step]
            inverse = np.array([-0.5 / self.widths(key) ** 2 for key in block])
            values = self.diagonal + np.exp(self.squares @ inverse.T).T @ self.products
            for key, value in zip(block, values, strict=True):
                self.known[key] = float(np.log(max(value, 0.0) + self.rounding))


def corner_bound(points: Array, vector: Array, low: float, high: float, *, slack: float, most: int) -> CornerBound:
    """Bound ``r'K_w r`` over all widths, one a feature, between two numbers, by branch and bound.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery.one_stage.mixture import corner_bound
    >>> points = np.random.default_rng(0).normal(size=(20, 2))
    >>> found = corner_bound(points, np.sin(3 * points[:, 0]), 0.1, 10.0, slack=0.05, most=5000)
    >>> found.best <= found.bound <= 1.05 * found.best
    True
    """
    corners = _corners(points, vector, low, high)
    n = points.shape[1]
    root = (0,) * n, (LEVELS,) * n
    corners.learn(set(_vertices(*root)))
    waiting, splits = [_bounded(corners, *root)], 0
    batch = 32  # boxes that are split at once
    while True:  # at most `most` evaluations
        place = max(corners.known, key=corners.known.__getitem__)
        best, top = corners.known[place], -waiting[0][0]
        if top <= best + np.log1p(slack) or max(len(corners.known), splits) >= most:
            widths = tuple(float(width) for width in corners.widths(place))
            return CornerBound(float(np.exp(max(top, best))), float(np.exp(best)), widths, len(corners.known))
        split = [heapq.heappop(waiting)[1:] for _ in range(min(batch, len(waiting)))]
        splits += len(split)
        halves = [half for box in split for half in _halves(*box)]
        corners.learn({vertex for half in halves for vertex in _vertices(*half)})
        for half in halves:
            heapq.heappush(waiting, _bounded(corners, *half))


def _corners(points: Array, vector: Array, low: float, high: float) -> _Corners:
    """Return the shared part of evaluations, without pairs of zero weight."""
    first, second = np.triu_indices(len(points), 1)
    products = 2.0 * vector[first] * vector[second]
    kept = products != 0
    squares = (points[first[kept]] - points[second[kept]]) ** 2
    n, size = points.shape[1], float(np.abs(vector).sum()) ** 2
    side = np.full(n, np.log(high) - np.log(low))
    rounding = 64 * np.finfo(np.float64).eps * size + float(np.finfo(np.float64).tiny)
    return _Corners(squares, products[kept], float(vector @ vector), np.full(n, np.log(low)), side, rounding)


def _vertices(lower: Key, upper: Key) -> list[Key]:
    """Return the corners of a box, with both ends of the last coordinate adjacent."""
    return list(product(*zip(lower, upper, strict=True)))


def _bounded(corners: _Corners, lower: Key, upper: Key) -> tuple[float, Key, Key]:
    """Return the record of a box: minus the smaller of both bounds on the logarithm of ``r'K_w r``, and the ends."""
    sides = corners.side * (np.array(upper) - np.array(lower)) / LEVELS
    rough = corners.known[lower] + float(sides.sum())
    shape = (2,) * len(lower)
    values = np.array([corners.known[vertex] for vertex in _vertices(lower, upper)]).reshape(shape)
    for k, (start, length) in enumerate(zip(corners.widths(lower), sides, strict=True)):
        if length == 0:
            continue
        ends = values.max(axis=tuple(j for j in range(len(shape)) if j != k))
        squares = start**2 * np.array([1.0, np.exp(2 * length)])
        # Where both ends weigh the same, in the box.
        slope = 2 * length - 2 * float(ends[1] - ends[0])
        center = np.clip((squares[1] - squares[0]) / slope, *squares) if slope > 0 else squares[1]
        ratio = squares / center
        extra = 0.5 * (ratio - 1 - np.log(ratio))
        values = values + extra.reshape([2 if j == k else 1 for j in range(len(shape))])
    return -min(rough, float(values.max())), lower, upper


def _halves(lower: Key, upper: Key) -> list[tuple[Key, Key]]:
    """Return both halves of a box, split across the longest side, or the box itself if too small."""
    k = int(np.argmax(np.array(upper) - np.array(lower)))
    middle = (lower[k] + upper[k]) // 2
    if middle == lower[k]:
        return [(lower, upper)]
    return [(lower, (*upper[:k], middle, *upper[k + 1 :])), ((*lower[:k], middle, *lower[k + 1 :]), upper)]


MOST_ROUNDS = 10  # of searches that a proof has shown to have missed a kernel
PROOF_SHARE = 0.25  # of the gap asked for, that the bound on the family may take, and which the search leaves to it


def check_provable(learner: Learner) -> None:
    """Raise ``InvalidInputError`` for an impossible proof."""
    family, most = learner.search.family, learner.search.settings.proof
    if most and (not isinstance(family, ArdGaussianFamily) or family.members is not None):
        raise InvalidInputError(
            f"proof={most} is for Gaussian kernels with one width a feature, none of them listed, but the family is "
            f"{family!r}; use proof=0: families of one parameter, and lists, always have a bound."
        )


def prove(
    learner: Learner, discovery: Discovery, limits: Limits, again: Callable[[list[Array]], Discovery] | None
) -> Discovery:
    """Return the model with a dual bound over all widths; search again after better widths."""
    if discovery.solution.status is Status.INTERRUPTED:
        return discovery
    best, better = _proof(learner, discovery, limits)
    for _ in range(MOST_ROUNDS):
        if better is None or again is None or discovery.solution.status is not Status.CONVERGED:
            break
        discovery = again([*_widths(discovery), better])
        proved, better = _proof(learner, discovery, limits)
        best = min(best, proved, key=lambda each: each.solution.certificate.relative_gap)
    return best


def _proof(learner: Learner, discovery: Discovery, limits: Limits) -> tuple[Discovery, Array | None]:
    """Return the model with the proven bound, as good as the evaluations allow, and better widths if any were met.

    The dual value ``-sum_i s_i l*(y_i, -c r_i/s_i) - c^2 B / (2 lambda)`` needs a number B that ``r'K_w r`` exceeds
    nowhere, and may scale ``r`` by any c.
    """
    family, most = learner.search.family, learner.search.settings.proof
    problem = _problem(learner, discovery)
    vector = problem.feasible_dual(discovery.solution.dual_coef)
    primal = discovery.solution.certificate.primal
    allowed = PROOF_SHARE * limits.tol * 2.0 * learner.strength * max(abs(primal), problem.tiny)
    known = max((float(vector @ learner.search.gram(w) @ vector) for w in _widths(discovery)), default=0.0)
    slack = allowed / known if known > 0 else 1.0
    bound = corner_bound(learner.search.points, vector, family.low, family.high, slack=slack, most=most)
    _, dual = best_scaling(problem.conjugate_loss, vector, bound.bound / (2.0 * learner.strength))
    better = learner.search.round_parameters(np.array(bound.widths)) if bound.best > known * (1 + slack) else None
    return replace(discovery, solution=_describe(discovery.solution, problem, dual, bound, limits.tol)), better


def _problem(learner: Learner, discovery: Discovery) -> Problem:
    """Return the problem on the kernels found."""
    grams = [learner.search.gram(widths) for widths in _widths(discovery)]
    return learner.problem(grams) if grams else learner.empty


def _widths(discovery: Discovery) -> list[Array]:
    """Return the parameters of the kernels found."""
    specs = [kernel.spec for kernel in discovery.kernels]
    return [np.array(spec.widths) for spec in specs if isinstance(spec, ArdGaussian)]


def _describe(solution: Solution, problem: Problem, dual: float, bound: CornerBound, tol: float) -> Solution:
    """Return the solution with the bound, and the meaning in words."""
    certificate = replace_dual(solution.certificate, dual, problem.tiny)
    gap = certificate.relative_gap
    words = f"over all widths the relative duality gap is at most {gap:.2e}, by {bound.evaluations} evaluations"
    short = gap > tol and solution.status is Status.CONVERGED
    advice = ". A larger proof may bring the bound down" if short else ""
    return replace(
        solution,
        certificate=certificate,
        status=Status.STALLED if short else solution.status,
        message=f"{solution.message}; {words}{advice}",
    )
