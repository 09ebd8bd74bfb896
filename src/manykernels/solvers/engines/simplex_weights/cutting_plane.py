"""Cutting planes over kernel weights on the simplex: SILP and LevelMKL."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from manykernels.objective.capabilities import Capability
from manykernels.solvers.base import BROKEN, Solver
from manykernels.solvers.engines.refinement import refinements, with_best_intercept
from manykernels.solvers.engines.simplex_weights.cut_model import CutMinimum, CutModel
from manykernels.solvers.engines.simplex_weights.point import SimplexPoint, kernel_weights, starting_weights
from manykernels.solvers.engines.simplex_weights.tuning import (
    CUT_ROUNDING,
    MOST_IDLE,
    NARROWER,
    USELESS_CUTS,
    WORTH_A_CUT,
    WORTH_CERTIFYING,
)

if TYPE_CHECKING:
    from manykernels.objective.problem import Problem
    from manykernels.solvers.solution import Model, Status
    from manykernels.validation.arrays import Array


@dataclass
class CutState:
    """The last learner, the best one, the cuts and the minimum of their model."""

    point: SimplexPoint
    best: SimplexPoint
    cuts: CutModel
    minimum: CutMinimum
    certified_gap: float = np.inf
    useless: int = 0
    narrowest: float = np.inf
    idle: int = 0

    @property
    def gap(self) -> float:
        """How far the model lies below the best value."""
        return max(self.best.value - self.minimum.value, 0.0)


@dataclass(frozen=True, kw_only=True)
class CuttingPlane(Solver):
    """What cutting-plane methods share: a learner and a cut an iteration, a linear program for the lower bound.

    Minimizes ``J(theta) = min_{f,b} sum_i s_i l(y_i, f_i + b) + (lambda/2) sum_m t_m^2 / theta_m`` over the simplex.
    The learner at ``theta^t`` gives the cut ``J(theta) >= J(theta^t) + g_t'(theta - theta^t)`` with
    ``g_tm = -u_tm^2/(2 lambda)``.

    Parameters
    ----------
    alternate : bool
        Whether a learner is fitted at the closed-form weights ``t_m / sum t`` of the best one where cuts do not get on.
        Near a corner of the simplex ``J`` is so steep that cuts tell next to nothing: on kernels of low rank under a
        weak penalty the published method, which is False, takes hundreds of them.

    Notes
    -----
    The multipliers of the linear program average the dual coefficients of the learners. That average proves the lower
    bound of the program in the certificate of the library, so it is offered as a model along with the best learner's.
    """

    max_iter: int = 1000
    alternate: bool = True

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.CURVED_CONJUGATE, Capability.SIMPLEX})
    attainable_gap: ClassVar[float] = 1e-6

    @property
    def handed_on(self) -> tuple[Status, ...]:
        """What broke down or stalled, unless the published method is asked for."""
        return BROKEN if self.alternate else ()

    @abstractmethod
    def next_weights(self, state: CutState) -> Array:
        """Return the weights at which the next learner is fitted."""

    def initialize(self, problem: Problem, start: Model) -> CutState:
        """Cut at the weights of the given model, or at equal ones."""
        point = SimplexPoint.at(problem, starting_weights(problem, start[1]), self.tol)
        cuts = CutModel.of(point)
        return CutState(point, point, cuts, cuts.minimum(point.theta, point.value, np.inf))

    def step(self, problem: Problem, state: CutState) -> None:
        """Fit a learner, add its cut, minimize the model."""
        gap, alternates = state.gap, self.alternate and state.useless >= USELESS_CUTS
        theta = state.best.alternated() if alternates else self.next_weights(state)
        state.point = state.point.moved(theta, self.tol)
        useful = alternates or state.point.value < state.best.value - WORTH_A_CUT * gap
        state.useless = 0 if useful else state.useless + 1
        state.best = min(state.best, state.point, key=lambda point: point.value)
        state.cuts = state.cuts.with_cut(state.point)
        state.minimum = state.cuts.minimum(state.best.theta, state.best.value, gap)
        state.idle = 0 if state.gap < NARROWER * state.narrowest else state.idle + 1
        state.narrowest = min(state.gap, state.narrowest) if state.idle == 0 else state.narrowest

    def worth_certifying(self, problem: Problem, state: CutState) -> bool:
        """Certify when the gap of the cuts has halved, is rounding or no longer falls, or the best learner will do."""
        if self.alternate and state.idle > MOST_IDLE:
            return True
        small = CUT_ROUNDING * max(abs(state.best.value), problem.tiny)
        if state.gap > max(WORTH_CERTIFYING * state.certified_gap, small) and state.best.relative_gap > self.tol:
            return False
        state.certified_gap = min(state.gap, state.certified_gap)
        return True

    def extract(self, problem: Problem, state: CutState) -> Model:
        """Return the best learner, or the average that proves the lower bound on the best learner's weights."""
        if state.best.relative_gap <= self.tol:
            return state.best.model()
        d = kernel_weights(problem, state.best.theta)
        averages = [with_best_intercept(problem, rho, d) for rho in refinements(problem, state.minimum.rho, d)]
        return min([state.best.model(), *averages], key=lambda model: problem.certificate(*model).relative_gap)

    def newton_steps(self, state: CutState) -> int:
        """Return the linear systems solved inside all learners."""
        return state.point.steps
