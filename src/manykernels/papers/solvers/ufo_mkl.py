"""UFO-MKL: online learning with an elastic net on the norms.

    maximize_rho  D(rho) = - sum_i s_i l*(y_i, -rho_i/s_i) - Omega*(u),      u_m = sqrt(rho'K_m rho) / w_m

sample after sample, with the model ``d_m = (dOmega*/du_m) / (w_m^2 u_m)`` at all times. UFO-MKL has the elastic net,
``d_m = (1 - C r / u_m)_+ / (C (1 - r))``; OBSCURE the block q-norm and the square. The steps are those of
`online_steps`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from manykernels.grams.base import CHUNK_BYTES
from manykernels.objective.capabilities import Capability
from manykernels.objective.problem import Certificate, Problem
from manykernels.papers.solvers import online_steps
from manykernels.papers.solvers.conic import add_best_intercept, refinements
from manykernels.solvers.base import BROKEN, Solver
from manykernels.solvers.gram.interior_point import InteriorPoint
from manykernels.solvers.linear_systems import shortest_combination
from manykernels.solvers.solution import Model, Status
from manykernels.validation.arrays import Array, check_choice, check_count

# Numbers that follow from no theorem: they decide the time, not what is certified; `benchmarks/online.py` measures what
# they cost. Those of compiled loops (`online_steps`) stand with the loops: what is compiled is kept on disk until its
# own file changes.


# Epochs
WORTH_CERTIFYING = 0.5  # a certificate costs a pass: only for gaps that shrank by as much
FIRST_REFINEMENT = 50  # epochs without success before it is tried

# Learners
FIRST_MEMORY, LAST_MEMORY = 5, 25  # epochs that are extrapolated together, one more each time


# What the online solvers hold between updates: dual coefficients, their products, and the order of the samples.


def samples_of(problem: Problem) -> online_steps.OnlineLoss:
    """Return the loss in the form of the compiled loops."""
    loss = problem.loss
    y, weight, lo, hi = (np.array(each) for each in (problem.y, problem.weight, *problem.dual_box))
    return online_steps.OnlineLoss(
        y, weight, lo, hi, loss.curvature, loss.kink, loss.conjugate_form == "binary_entropy"
    )


def penalty_of(problem: Problem) -> online_steps.Penalty:
    """Return the penalty in the form of the compiled loops."""
    curve = problem.regularizer.curve
    assert curve is not None, "the solvers refuse what has none"
    if curve.elastic:
        return online_steps.Penalty(online_steps.ELASTIC, curve.linear, curve.ridge)
    if curve.slanted:
        return online_steps.Penalty(online_steps.SQUARE, curve.linear, curve.dual_exponent, curve.power)
    return online_steps.Penalty(
        online_steps.BALL if curve.coupled else online_steps.POWER, curve.power, curve.dual_exponent
    )


@dataclass(frozen=True)
class Measure:
    """A model in the units of the learner, with both values: ``scores + b``, without reading kernels."""

    weights: Array
    b: float
    primal: float
    dual: float
    relative_gap: float


class OnlineLearner(ABC):
    """Dual coefficients of all samples, updated in random order without replacement.

    Kernels are in the units that make all penalties one, ``K_m / w_m^2``. The products ``K_m rho`` are kept, so the
    scores of all samples, and both values of the model, cost no reading of kernels; an update that changes a
    coefficient reads a single column of every kernel (two if the sum of the coefficients must stay).

    Attributes
    ----------
    point : DualPoint
        Coefficients, products and squares.
    moving : bool
        Whether the last epoch has changed anything and knows the respective gap.
    """

    def __init__(self, problem: Problem, rho: Array, seed: int) -> None:
        self.problem, self.samples, self.penalty = problem, samples_of(problem), penalty_of(problem)
        self.unit = problem.penalties**2
        self.generator = np.random.default_rng(seed)
        self.moving = True
        self.point = self.place(self.inside(rho) if rho.any() else rho)

    def inside(self, rho: Array) -> Array:
        """Return the nearest feasible coefficients, off the ends of an entropic box, where the slope is infinite."""
        feasible = np.array(self.problem.feasible_dual(rho))
        if not self.samples.entropic:
            return feasible
        interior = 1e-12  # distance of a starting point to the ends of an entropic box, relative to its width
        margin = interior * (self.samples.hi - self.samples.lo)
        return np.clip(feasible, self.samples.lo + margin, self.samples.hi - margin)

    def place(self, rho: Array) -> online_steps.DualPoint:
        """Return the point of the coefficients: a single pass unless zero."""
        if not rho.any():
            return online_steps.DualPoint(
                np.zeros(rho.size), np.zeros((self.unit.size, rho.size)), np.zeros(self.unit.size)
            )
        products = self.problem.stack.apply_each(rho) / self.unit[:, None]
        return online_steps.DualPoint(rho, products, np.maximum(products @ rho, 0.0))

    @abstractmethod
    def epoch(self) -> None:
        """Update every sample once."""

    def columns(self, order: Array) -> Iterator[tuple[Array, Array]]:
        """Yield chunks of the order with their columns of all kernels (M, c, N), of at most about 4 MB."""
        fewest_columns = 2  # at hand: a sample and its partner
        size = max(fewest_columns, CHUNK_BYTES // (8 * self.problem.n_kernels * self.problem.n_samples))
        while order.size:
            order = self.worth_updating(order)
            chosen, order = order[:size], order[size:]
            if chosen.size:
                columns = self.problem.stack.block(chosen, None) / self.unit[:, None, None]
                yield chosen, np.ascontiguousarray(columns)

    def worth_updating(self, order: Array) -> Array:
        """Return the samples with a possible change."""
        return order

    def rescaled(self) -> online_steps.DualPoint:
        """Return the point of the present model."""
        return self.point

    def refresh(self) -> None:
        """Recompute the products after incremental updates: a single pass."""
        self.point = self.place(self.point.rho)

    def measure(self) -> Measure:
        """Return the present model and the gap, from the products."""
        problem, point = self.problem, self.rescaled()
        weights = np.empty(problem.n_kernels)
        online_steps.kernel_weights(self.penalty, 1.0, point.squares, weights)
        scores, norms = weights @ point.products, np.sqrt(np.maximum(point.squares, 0.0))
        b = problem.loss.best_intercept(problem.y, scores, problem.weight) if problem.fit_intercept else 0.0
        primal = problem.empirical_loss(scores + b) + problem.regularizer.value(weights * norms)
        dual = -problem.conjugate_loss(point.rho) - problem.regularizer.conjugate(norms)
        return Measure(weights, b, primal, dual, max(primal - dual, 0.0) / max(abs(primal), problem.tiny))

    def model(self, measure: Measure) -> Model:
        """Return the measured model in the units of the problem."""
        return self.rescaled().rho.copy(), measure.weights / self.unit, measure.b


class ImplicitLearner(OnlineLearner):
    """Every update maximizes the dual along the coefficient of the sample; epochs are extrapolated.

    In a first epoch from zero, update ``t`` sees ``t/N`` of the penalty, as if there were no samples but those seen.

    After a few epochs in the same order, ``sum_k c_k rho^k`` with ``sum_k c_k = 1`` that makes the combined change the
    smallest replaces the coefficients if the dual value is higher (Anderson extrapolation). Then the order is drawn
    again.

    References
    ----------
    Q. Bertrand, M. Massias, "Anderson acceleration of coordinate descent", AISTATS 2021.
    """

    def __init__(self, problem: Problem, rho: Array, seed: int) -> None:
        super().__init__(problem, rho, seed)
        self._first = not rho.any()
        self._past: list[Array] = []
        self._memory = FIRST_MEMORY
        self._order = self.generator.permutation(problem.n_samples)

    def epoch(self) -> None:
        """Update every sample once; extrapolate when enough epochs are known."""
        self._past = self._past or [self.point.rho.copy()]
        seen, steps, n_samples = 0, 0, self.problem.n_samples
        for chosen, columns in self.columns(self._order):
            shares = np.ones(chosen.size)
            if self._first:
                shares = np.arange(seen + 1, seen + chosen.size + 1) / n_samples
            seen += chosen.size
            problem, point = self.problem, self.point
            steps += online_steps.sweep(
                columns, chosen, self.samples, self.penalty, shares, point, problem.fit_intercept
            )
        self._first, self.moving = False, steps > 0
        self._past.append(self.point.rho.copy())
        if len(self._past) > self._memory:
            self._extrapolate()
            self._memory = min(self._memory + 1, LAST_MEMORY)

    def worth_updating(self, order: Array) -> Array:
        """Return the samples with a possible uphill step at the present scores; all at first."""
        if self._first:
            return order
        n_samples = self.problem.n_samples
        up, down, weights = np.empty(n_samples), np.empty(n_samples), np.empty_like(self.point.squares)
        online_steps.gains(self.samples, self.penalty, 1.0, self.point, np.arange(n_samples), weights, up, down)
        highest, lowest = (up.max(), down.min()) if self.problem.fit_intercept else (0.0, 0.0)
        return order[(up[order] > lowest) | (down[order] < highest)]

    def _extrapolate(self) -> None:
        past, self._past = np.array(self._past), []
        self._order = self.generator.permutation(self.problem.n_samples)
        changes = np.diff(past, axis=0)
        if not changes.any():
            return
        proposal = self.place(self.inside(shortest_combination(changes) @ past[1:]))
        if self._dual(proposal) > self._dual(self.point):
            self.point = proposal

    def _dual(self, point: online_steps.DualPoint) -> float:
        norms = np.sqrt(np.maximum(point.squares, 0.0))
        return -self.problem.conjugate_loss(point.rho) - self.problem.regularizer.conjugate(norms)


class SubgradientLearner(OnlineLearner):
    """Every update adds the subgradient of the loss to a running average: the steps as they were published.

    The present model is that of ``N / t`` times the sum of the subgradients of ``t`` updates. The published methods
    have no intercept; here it is the best one for the scores at hand whenever columns are read.
    """

    def __init__(self, problem: Problem, rho: Array, seed: int) -> None:
        super().__init__(problem, rho, seed)
        self._seen = problem.n_samples if rho.any() else 0
        self.moving = False  # averages leave the feasible set, so that only a certificate knows the gap

    def epoch(self) -> None:
        for chosen, columns in self.columns(self.generator.permutation(self.problem.n_samples)):
            b = self.measure().b
            online_steps.subgradient_sweep(columns, chosen, self.samples, self.penalty, self._seen, self.point, b)
            self._seen += chosen.size
            if not np.isfinite(self.point.squares).all():
                raise FloatingPointError("the subgradient steps overflow")

    def rescaled(self) -> online_steps.DualPoint:
        """Return the point of the average."""
        scale = self.problem.n_samples / max(self._seen, 1)
        rho, products, squares = self.point
        return online_steps.DualPoint(scale * rho, scale * products, scale * scale * np.maximum(squares, 0.0))


LEARNERS: dict[str, type[OnlineLearner]] = {"implicit": ImplicitLearner, "subgradient": SubgradientLearner}


@dataclass
class OnlineState:
    """The learner, the measure of the model, a refined model and the gap, the smallest gap worth certifying so far."""

    learner: OnlineLearner
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
    """What the online methods share: an iteration is an epoch, which updates the samples in turn in random order.

    The state is a running sum of subgradients, a single number ``rho_i`` a sample; the model at any time is the
    gradient of the conjugate penalty, ``f = sum_m d_m K_m rho`` with ``d`` the derivatives of ``Omega*`` by ``u_m^2 /
    2``. An update reads a single column of every kernel (``1 / N`` of two passes; two columns where it moves two
    samples).

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
        check_choice(self.step_rule, LEARNERS, "step_rule")

    def initialize(self, problem: Problem, start: Model) -> OnlineState:
        """Start from the dual coefficients of the given model, or from zero without kernels."""
        rho, d, _ = start
        learner = LEARNERS[self.step_rule](problem, rho if d.any() else np.zeros_like(rho), self.random_state)
        return OnlineState(learner, learner.measure(), start)

    @property
    def patience(self) -> float:
        """No limit for published steps: the average worsens for many epochs at first."""
        return super().patience if self.step_rule == "implicit" else math.inf

    @property
    def fallback_statuses(self) -> tuple[Status, ...]:
        """Statuses of failure that lead to a fallback, unless published steps are requested."""
        return BROKEN if self.step_rule == "implicit" else ()

    def step(self, problem: Problem, state: OnlineState) -> None:
        """Update every sample once."""
        state.learner.epoch()
        state.epochs += 1
        if state.epochs >= state.next_refinement:
            later = 1.5  # factor between the epochs of two trials
            state.next_refinement = int(later * state.epochs)
            self._refine(problem, state)

    def _refine(self, problem: Problem, state: OnlineState) -> None:
        """Solve for the coefficients inside their box, at the present weights, where the loss is piecewise linear."""
        if not problem.loss.piecewise_linear or self.step_rule != "implicit":
            return
        rho, d, _ = state.learner.model(state.learner.measure())
        for proposal in refinements(problem, rho, d):
            model = add_best_intercept(problem, proposal, d)
            gap = problem.certificate(*model).relative_gap
            if gap < state.refined_gap:
                state.refined, state.refined_gap = model, gap

    def worth_certifying(self, problem: Problem, state: OnlineState) -> bool:
        """Certify once the estimated gap is small enough, has halved, or has stalled."""
        rarely = 100  # epochs after which not every one is looked at
        if state.learner.moving and state.epochs % (1 + state.epochs // rarely):
            return False
        state.measure = state.learner.measure()
        gap = state.gap
        clear_progress = 0.5  # of the smallest gap so far: an epoch that stays above it was idle
        if gap < clear_progress * state.best_gap:
            state.best_gap, state.best_epoch = gap, state.epochs
        # epochs after which each gap is certified, so that a run without any progress counts as stalled
        most_idle = 500
        if self.step_rule == "implicit" and state.epochs - state.best_epoch > most_idle:
            return True
        if state.learner.moving and self.tol < gap and gap > WORTH_CERTIFYING * state.certified_gap:
            return False
        state.certified_gap = min(gap, state.certified_gap)
        return True

    def observe(self, problem: Problem, state: OnlineState, certificate: Certificate) -> None:
        """Recompute drifted products: the estimated gap disagrees with the certificate."""
        if state.measure.relative_gap <= self.tol < certificate.relative_gap:
            state.learner.refresh()

    def extract(self, problem: Problem, state: OnlineState) -> Model:
        """Return the present model with the best intercept, or the refined model if better."""
        state.measure = state.learner.measure()
        if state.refined_gap < state.measure.relative_gap:
            return state.refined
        return state.learner.model(state.measure)


# OBSCURE: online and batch learning with a group norm.


@dataclass(frozen=True, kw_only=True)
class Obscure(OnlineSolver):
    """OBSCURE, online and batch learning with a group norm (Orabona, Jie and Caputo 2010).

    Minimizes ``sum_i s_i l(y_i, f_i + b) + (lambda/2) ||t||_q^2`` with ``1 < q < 2``, which is the lp ball of kernel
    weights with ``p = q / (2 - q)``; with the exponent ``q`` in place of the square it is the penalty ``"lq"``, and the
    ridge at ``q = 2``. After every update ``d_m = (u_m / ||u||_r)^(r - 2) / lambda`` with ``1/q + 1/r = 1``. The
    paper's ``q = 2 log M / (2 log M - 1)``, at which the norm is within a factor ``sqrt(e)`` of the 1-norm, is
    ``p = log M / (log M - 1)``.

    The first epoch is the online stage: every sample is met once, and the penalty grows with their number. The epochs
    after it are the batch stage.

    Parameters
    ----------
    step_rule : {"implicit", "subgradient"}
        Steps that maximize the dual along the sample at hand, or plain subgradients, which no gap is promised for.
    random_state : int
        Seed of the order of the samples.

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
    fallback: ClassVar[type[Solver] | None] = InteriorPoint
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.CLOSED_CONJUGATE, Capability.POWER_FORM})


@dataclass(frozen=True, kw_only=True)
class UFOMKL(OnlineSolver):
    """UFO-MKL, online learning with an elastic net on the norms (Orabona and Jie 2011).

    Minimizes ``sum_i s_i l(y_i, f_i + b) + C sum_m (r t_m + (1 - r) t_m^2 / 2)`` with ``r = l1_ratio < 1``: the paper's
    ``alpha ||w||_{2,1} + (lambda/2) ||w||_{2,q}^2`` at q = 2; with its own ``q = 2 log M / (2 log M - 1)`` it is
    `GroupElasticNet.published`, which the solver takes as well. After every update ``d_m = (1 - C r / u_m)_+ / (C (1 -
    r))``, so kernels enter and leave while it learns. The block 1-norm alone (``r = 1``) is not strongly convex, which
    the method needs.

    Parameters
    ----------
    step_rule : {"implicit", "subgradient"}
        Steps that maximize the dual along the sample at hand, or the published ones, which no gap is promised for.
    random_state : int
        Seed of the order of the samples.

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
    fallback: ClassVar[type[Solver] | None] = InteriorPoint
    needs: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.CLOSED_CONJUGATE, Capability.SQUARE_FORM, Capability.STRONG_CONVEXITY}
    )
