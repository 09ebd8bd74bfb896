"""Online solvers: UFO-MKL and OBSCURE."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.solvers.base import BROKEN, Solver
from manykernels.solvers.engines.online.learner import ImplicitLearner, Learner, Measure, SubgradientLearner
from manykernels.solvers.engines.online.tuning import (
    CLEAR_PROGRESS,
    FIRST_REFINEMENT,
    LATER,
    MOST_IDLE,
    RARELY,
    WORTH_CERTIFYING,
)
from manykernels.solvers.engines.refinement import refinements, with_best_intercept
from manykernels.validation.arrays import check_count

if TYPE_CHECKING:
    from manykernels.objective.problem import Certificate, Problem
    from manykernels.solvers.solution import Model, Status

LEARNERS: dict[str, type[Learner]] = {"implicit": ImplicitLearner, "subgradient": SubgradientLearner}


@dataclass
class OnlineState:
    """The learner, the measure of its model, a refined model and its gap, the smallest gap worth certifying so far."""

    learner: Learner
    measure: Measure
    refined: Model
    refined_gap: float = np.inf
    certified_gap: float = np.inf
    epochs: int = 0
    next_refinement: int = FIRST_REFINEMENT
    best_gap: float = np.inf
    best_epoch: int = 0

    @property
    def gap(self) -> float:
        """Gap of the better model."""
        return min(self.measure.relative_gap, self.refined_gap)


@dataclass(frozen=True, kw_only=True)
class OnlineSolver(Solver):
    """What the online methods share: an iteration is an epoch, which updates the samples one by one in random order.

    The state is a running sum of subgradients, one number ``rho_i`` a sample; the model at any time is the gradient of
    the conjugate penalty, ``f = sum_m d_m K_m rho`` with ``d`` the derivatives of ``Omega*`` by ``u_m^2 / 2``. An
    update reads one column of every kernel (``1 / N`` of two passes; two columns where it moves two samples).

    With ``step_rule="implicit"`` an update puts ``rho_i`` where it is the subgradient of the loss *after* the step,
    which is the exact maximizer of the dual along it: no step length is needed and nothing can overflow. A second
    sample, the best one among the columns at hand, moves too: in the opposite direction with an intercept, since then
    ``sum rho = 0``. Samples that no step can improve are passed over without being read. Epochs are extrapolated; after
    50 of them a piecewise linear loss now and then gets a batch step: a linear system for the coefficients inside their
    box, since near interpolation scores are far more sensitive to those than the dual is.

    With ``step_rule="subgradient"`` the steps are those that were published: the subgradient at the present scores is
    added to an average over all updates. The gap then falls like the inverse of the number of epochs, or not at all: it
    is there for comparisons, and `attainable_gap` does not hold for it.
    """

    tol: float = 1e-2
    max_iter: int = 5_000
    step_rule: str = "implicit"
    random_state: int = 0

    attainable_gap: ClassVar[float] = 1e-2

    def __post_init__(self) -> None:
        check_count(self.random_state, "random_state", least=0)
        if self.step_rule not in LEARNERS:
            raise InvalidInputError(f"step_rule must be one of {', '.join(LEARNERS)}; got {self.step_rule!r}.")

    def initialize(self, problem: Problem, start: Model) -> OnlineState:
        """Start from the dual coefficients of the given model, or from zero if it has no kernels."""
        rho, d, _ = start
        learner = LEARNERS[self.step_rule](problem, rho if d.any() else np.zeros_like(rho), self.random_state)
        return OnlineState(learner, learner.measure(), start)

    @property
    def patience(self) -> float:
        """No limit for published steps: their average gets worse for many epochs before it gets better."""
        return super().patience if self.step_rule == "implicit" else math.inf

    @property
    def handed_on(self) -> tuple[Status, ...]:
        """What broke down or stalled, unless published steps are asked for."""
        return BROKEN if self.step_rule == "implicit" else ()

    def step(self, problem: Problem, state: OnlineState) -> None:
        """Update every sample once."""
        state.learner.epoch()
        state.epochs += 1
        if state.epochs >= state.next_refinement:
            state.next_refinement = int(LATER * state.epochs)
            self._refine(problem, state)

    def _refine(self, problem: Problem, state: OnlineState) -> None:
        """Solve for the coefficients inside their box, at the present weights, where the loss is piecewise linear."""
        if not problem.loss.piecewise_linear or self.step_rule != "implicit":
            return
        rho, d, _ = state.learner.model(state.learner.measure())
        for proposal in refinements(problem, rho, d):
            model = with_best_intercept(problem, proposal, d)
            gap = problem.certificate(*model).relative_gap
            if gap < state.refined_gap:
                state.refined, state.refined_gap = model, gap

    def worth_certifying(self, problem: Problem, state: OnlineState) -> bool:
        """Certify when the gap, which the learner knows, is small enough, has halved, or has not moved for long."""
        if state.learner.moving and state.epochs % (1 + state.epochs // RARELY):
            return False
        state.measure = state.learner.measure()
        gap = state.gap
        if gap < CLEAR_PROGRESS * state.best_gap:
            state.best_gap, state.best_epoch = gap, state.epochs
        if self.step_rule == "implicit" and state.epochs - state.best_epoch > MOST_IDLE:
            return True
        if state.learner.moving and self.tol < gap and gap > WORTH_CERTIFYING * state.certified_gap:
            return False
        state.certified_gap = min(gap, state.certified_gap)
        return True

    def observe(self, problem: Problem, state: OnlineState, certificate: Certificate) -> None:
        """Compute the products again where they have drifted: they promised a gap that the certificate denies."""
        if state.measure.relative_gap <= self.tol < certificate.relative_gap:
            state.learner.refresh()

    def extract(self, problem: Problem, state: OnlineState) -> Model:
        """Return the present model with the best intercept for its scores, or the refined one if that is better."""
        state.measure = state.learner.measure()
        if state.refined_gap < state.measure.relative_gap:
            return state.refined
        return state.learner.model(state.measure)
