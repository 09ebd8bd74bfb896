"""Kernels found so far with their Gram matrices: the finite problem inside a search over a family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from manykernels.discovery.base import Found, SearchProblem
from manykernels.discovery.families.base import PairWeights
from manykernels.discovery.families.search import BestMember, FamilySearch
from manykernels.grams import as_stack
from manykernels.objective.certificate import Certificate
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers.weight_sets import Simplex
from manykernels.solvers.learners.learners import LearnerFit, fit_learner
from manykernels.solvers.run import CertifiedModel
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
SAME = 1e-8  # parameters closer than this on the scale of the search are one kernel

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
        return self.posed.without_kernels(Simplex(self.strength))

    def problem(self, grams: Sequence[Array]) -> Problem:
        """Return the problem on some kernels, weights on the simplex."""
        return self.posed.on(as_stack(np.stack(grams)), self.empty.regularizer)

    def fit(self, problem: Problem, gram: Array, warm: LearnerFit | None, tol: float) -> LearnerFit:
        """Return the learner on one kernel matrix ``sum_m d_m K_m``."""
        return fit_learner(problem, gram, warm=warm, tol=tol)

    def found(self, parameters: Sequence[Array]) -> tuple[Found, ...]:
        """Return the kernels of some parameters, under names that differ."""
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
        """Return the mixture with one more member of weight zero, and its position; a known member stays one."""
        at = search.family.coordinate(parameter)
        for m, known in enumerate(self.parameters):
            if np.max(np.abs(search.family.coordinate(known) - at)) < SAME:
                return self, m
        grown = WeightedMembers(
            (*self.parameters, parameter), (*self.grams, search.gram(parameter)), np.append(self.weights, 0.0)
        )
        return grown, len(self)

    def merged(self, search: FamilySearch) -> WeightedMembers:
        """Return the mixture with each member once; members that are the same add up their weights."""
        whole = WeightedMembers()
        for parameter, weight in zip(self.parameters, self.weights, strict=True):
            whole, place = whole.with_member(search, parameter)
            whole.weights[place] += weight
        return whole

    def weighted(self, weights: Array) -> WeightedMembers:
        """Return the mixture with other weights."""
        return replace(self, weights=weights)

    def pruned(self) -> WeightedMembers:
        """Return the members of positive weight."""
        kept = np.flatnonzero(self.weights)
        return WeightedMembers(
            tuple(self.parameters[m] for m in kept), tuple(self.grams[m] for m in kept), self.weights[kept].copy()
        )

    def combined(self, weights: Array | None = None) -> Array:
        """Return ``sum_m theta_m K_m`` with these weights, else its own."""
        total = np.zeros_like(self.grams[0])
        for weight, gram in zip(self.weights if weights is None else weights, self.grams, strict=True):
            if weight:
                total += weight * gram
        return total


@dataclass(frozen=True, eq=False)
class FamilyCertificate:
    """The certificate of a model over a family, and the member that violates it most."""

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

    The dual bound is ``-sum_i s_i l*(y_i, -rho_i/s_i) - max_p rho'K_p rho / (2 lambda)``. For a family of one parameter
    with a bound on its derivatives the maximum is bounded from above; otherwise it is the best that the search found.
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
) -> CertifiedModel:
    """Return the model in the form in which searches offer it."""
    return CertifiedModel(*model, certificate, newton_steps=newton_steps, kernels=learner.found(parameters))
