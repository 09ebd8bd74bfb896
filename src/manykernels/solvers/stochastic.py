"""Online solvers: UFO-MKL and OBSCURE."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from manykernels._validation import check_count
from manykernels.exceptions import InvalidInputError
from manykernels.objective.regularizers import ElasticNet, LpBall
from manykernels.solvers._refinement import refinements, with_best_intercept
from manykernels.solvers._stochastic_learner import ImplicitLearner, Learner, Measure, SubgradientLearner
from manykernels.solvers.base import Solver

if TYPE_CHECKING:
    from manykernels.objective.problem import Certificate, Problem
    from manykernels.solvers.base import Model

WORTH_CERTIFYING = 0.5  # a certificate costs a pass: only for gaps that shrank by as much
FIRST_REFINEMENT = 50  # epochs without success before it is tried
RARELY = 100  # epochs after which not every one is looked at
LATER = 1.5  # factor between the epochs of two trials
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

    @property
    def gap(self) -> float:
        """Gap of the better model."""
        return min(self.measure.relative_gap, self.refined_gap)


@dataclass(frozen=True, kw_only=True)
class OnlineSolver(Solver):
    """What the online methods share: an iteration is an epoch, which visits the samples one by one in random order.

    The state is a running sum of subgradients, one number ``rho_i`` a sample; the model at any time is the gradient of
    the conjugate penalty, ``f = sum_m d_m K_m rho`` with ``d`` the derivatives of ``Omega*`` by ``u_m^2 / 2``. A visit
    reads one column of every kernel (``1 / N`` of two passes; two columns where it moves two samples).

    With ``step_rule="implicit"`` a visit puts ``rho_i`` where it is the subgradient of the loss *after* the step, which
    is the exact maximizer of the dual along it, so that no step length is needed and nothing can overflow. A second
    sample, the best one among the columns at hand, moves too: in the opposite direction with an intercept, since then
    ``sum rho = 0``. Samples that no step can improve are passed over without being read. Epochs are extrapolated; after
    50 of them a piecewise linear loss now and then gets a batch step: a linear system for the coefficients inside their
    box, since near interpolation scores are far more sensitive to those than the dual is.

    With ``step_rule="subgradient"`` the steps are those that were published: the subgradient at the present scores is
    added to an average over all visits. The gap then falls like the inverse of the number of epochs, or not at all: it
    is there for comparisons, and `attainable_gap` does not hold for it.
    """

    tol: float = 1e-2
    max_iter: int = 5_000
    step_rule: str = "implicit"
    random_state: int = 0

    accepts_losses: ClassVar[frozenset[str]] = frozenset(
        {"logistic", "hinge", "squared_hinge", "squared", "epsilon_insensitive", "huber", "quantile"}
    )
    attainable_gap: ClassVar[float] = 1e-2

    @classmethod
    @abstractmethod
    def flat(cls, problem: Problem) -> str | None:
        """Return what would make the penalty strongly convex, which the methods need; None if it is."""

    @classmethod
    def refusals(cls, problem: Problem) -> list[str]:
        """Return what this algorithm lacks for ``problem``: losses, regularizers, or strong convexity."""
        reasons, cure = super().refusals(problem), cls.flat(problem)
        return reasons if cure is None else [*reasons, f"it needs a strongly convex penalty: {cure}"]

    def initialize(self, problem: Problem, start: Model) -> OnlineState:
        """Start from the dual coefficients of the given model, or from zero if it has no kernels."""
        check_count(self.random_state, "random_state", least=0)
        if self.step_rule not in LEARNERS:
            raise InvalidInputError(f"step_rule must be one of {', '.join(LEARNERS)}; got {self.step_rule!r}.")
        rho, d, _ = start
        learner = LEARNERS[self.step_rule](problem, rho if d.any() else np.zeros_like(rho), self.random_state)
        return OnlineState(learner, learner.measure(), start)

    @property
    def patience(self) -> float:
        """No limit for published steps: their average gets worse for many epochs before it gets better."""
        return super().patience if self.step_rule == "implicit" else math.inf

    def step(self, problem: Problem, state: OnlineState) -> None:
        """Visit every sample once."""
        state.learner.epoch()
        state.epochs += 1
        if state.epochs >= state.next_refinement:
            state.next_refinement = int(LATER * state.epochs)
            self._refine(problem, state)

    def _refine(self, problem: Problem, state: OnlineState) -> None:
        """Solve for the coefficients inside their box, at the present weights, where the loss is piecewise linear."""
        if problem.loss.curvature or problem.loss.entropic or self.step_rule != "implicit":
            return
        rho, d, _ = state.learner.model(state.learner.measure())
        for proposal in refinements(problem, rho, d):
            model = with_best_intercept(problem, proposal, d)
            gap = problem.certificate(*model).relative_gap
            if gap < state.refined_gap:
                state.refined, state.refined_gap = model, gap

    def worth_certifying(self, problem: Problem, state: OnlineState) -> bool:
        """Certify when the gap, which the learner knows, is small enough or has halved, or no sample moves any more."""
        if state.learner.moving and state.epochs % (1 + state.epochs // RARELY):
            return False
        state.measure = state.learner.measure()
        gap = state.gap
        if state.learner.moving and self.tol < gap and gap > WORTH_CERTIFYING * state.certified_gap:
            return False
        state.certified_gap = min(gap, state.certified_gap)
        return True

    def observe(self, problem: Problem, state: OnlineState, certificate: Certificate) -> None:
        """Compute the images again where they have drifted: they promised a gap that the certificate denies."""
        if state.measure.relative_gap <= self.tol < certificate.relative_gap:
            state.learner.refresh()

    def extract(self, problem: Problem, state: OnlineState) -> Model:
        """Return the present model with the best intercept for its scores, or the refined one if that is better."""
        state.measure = state.learner.measure()
        if state.refined_gap < state.measure.relative_gap:
            return state.refined
        return state.learner.model(state.measure)


@dataclass(frozen=True, kw_only=True)
class UFOMKL(OnlineSolver):
    """UFO-MKL, online learning with an elastic net on the norms (Orabona and Jie 2011).

    Minimizes ``sum_i s_i l(y_i, f_i + b) + C sum_m (r t_m + (1 - r) t_m^2 / 2)`` with ``r = l1_ratio < 1``: the paper's
    ``alpha ||w||_{2,1} + (lambda/2) ||w||_{2,p}^2`` at p = 2. After every visit
    ``d_m = (1 - C r / u_m)_+ / (C (1 - r))``, so that kernels enter and leave while it learns. The block 1-norm alone
    (``r = 1``) is not strongly convex, which the method needs.

    Parameters
    ----------
    step_rule : {"implicit", "subgradient"}
        Steps that maximize the dual along the visited sample, or the published ones, which no gap is promised for.
    random_state : int
        Seed of the order of the visits.

    References
    ----------
    F. Orabona, L. Jie, "Ultra-fast optimization algorithm for sparse multi kernel learning", ICML 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective.problem import Problem
    >>> from manykernels.objective.regularizers import ElasticNet
    >>> kernels = np.stack([np.eye(4), np.ones((4, 4)), np.outer([1, -1, 1, -1], [1, -1, 1, -1])])
    >>> problem = Problem(kernels, [1.0, -1.0, 1.0, -1.0], "hinge", ElasticNet(1.0, l1_ratio=0.9))
    >>> solution = UFOMKL().solve(problem)
    >>> solution.active.tolist(), solution.certificate.relative_gap <= 1e-2
    ([2], True)
    """

    name: ClassVar[str] = "ufo_mkl"
    accepts_regularizers: ClassVar[frozenset[str]] = frozenset({"elasticnet", "ridge"})

    @classmethod
    def flat(cls, problem: Problem) -> str | None:
        """Return that the block 1-norm needs a share of the ridge."""
        regularizer = problem.regularizer
        alone = isinstance(regularizer, ElasticNet) and regularizer.l1_ratio == 1
        return "'elasticnet' with l1_ratio < 1" if alone else None


@dataclass(frozen=True, kw_only=True)
class Obscure(OnlineSolver):
    """OBSCURE, online and batch learning with a group norm (Orabona, Jie and Caputo 2010).

    Minimizes ``sum_i s_i l(y_i, f_i + b) + (lambda/2) ||t||_q^2`` with ``1 < q < 2``, which is the lp ball of kernel
    weights with ``p = q / (2 - q)``; with the exponent ``q`` in place of the square it is the penalty ``"lq"``, and the
    ridge at ``q = 2``. After every visit ``d_m = (u_m / ||u||_r)^(r - 2) / lambda`` with ``1/q + 1/r = 1``. The paper's
    ``q = 2 log M / (2 log M - 1)``, at which the norm is within a factor ``sqrt(e)`` of the 1-norm, is
    ``p = log M / (log M - 1)``.

    The first epoch is the online stage: each sample is met once, and the penalty grows with their number. The epochs
    after it are the batch stage.

    Parameters
    ----------
    step_rule : {"implicit", "subgradient"}
        Steps that maximize the dual along the visited sample, or plain subgradients, which no gap is promised for.
    random_state : int
        Seed of the order of the visits.

    References
    ----------
    F. Orabona, L. Jie, B. Caputo, "Online-batch strongly convex multi kernel learning", CVPR 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective.problem import Problem
    >>> from manykernels.objective.regularizers import LpBall
    >>> kernels = np.stack([np.eye(4), np.ones((4, 4)), np.outer([1, -1, 1, -1], [1, -1, 1, -1])])
    >>> problem = Problem(kernels, [1.0, -1.0, 1.0, -1.0], "hinge", LpBall(1.0, p=1.5))
    >>> solution = Obscure().solve(problem)
    >>> int(np.argmax(solution.kernel_weights)), solution.certificate.relative_gap <= 1e-2
    (2, True)
    """

    name: ClassVar[str] = "obscure"
    accepts_regularizers: ClassVar[frozenset[str]] = frozenset({"lq", "ridge", "lp_ball"})

    @classmethod
    def flat(cls, problem: Problem) -> str | None:
        """Return that the simplex, which is the lp ball with p = 1, needs a larger p."""
        regularizer = problem.regularizer
        return "'lp_ball' with p > 1" if isinstance(regularizer, LpBall) and regularizer.p == 1 else None
