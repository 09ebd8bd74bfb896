"""The function of kernel weights on the simplex that reduced gradient, cutting planes and Newton minimize.

With ``theta`` on the simplex and ``Q_m = K_m / w_m^2``::

    J(theta) = min_{f,b} sum_i s_i l(y_i, f_i + b) + ||f||^2 / 2           in the space of sum_m (theta_m/lambda) Q_m
             = max_rho  -sum_i s_i l*(y_i, -rho_i/s_i) - sum_m theta_m u_m^2 / (2 lambda),      u_m^2 = rho' Q_m rho

which is convex, with the slopes ``dJ/dtheta_m = -u_m^2 / (2 lambda)`` at the optimal ``rho``. Any feasible ``rho``
gives the affine lower bound ``J(theta) >= intercept + slopes'theta``: a cut.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from manykernels.objective.capabilities import Capability
from manykernels.objective.problem import Problem
from manykernels.solvers.base import BROKEN, Solver
from manykernels.solvers.gram.interior_point import InteriorPoint
from manykernels.solvers.learners.learners import LearnerFit, fit_learner
from manykernels.solvers.solution import Model, Status
from manykernels.validation.arrays import Array

# Numbers of the methods over weights on the simplex that follow from no theorem; they decide no certificate.
#
# `benchmarks/solvers.py` and `benchmarks/learners.py` measure what they cost.


# Learners
LEARNER_SHARE = 1e-6

# Line search
VALUE_ROUNDING = 1e-11

# Cutting planes
WORTH_CERTIFYING = 0.5  # a certificate costs passes: only for gaps that shrank by as much
CUT_ROUNDING = 1e-14
WORTH_A_CUT = 0.1  # of the gap, by which a learner must lower the value to count as one
NARROWER = 0.9  # of the smallest gap of the cuts so far: an iteration that stays above it was idle
MOST_IDLE = 60  # iterations after which each is certified, so that a run without any progress counts as stalled
USELESS_CUTS = 2  # after which the next learner is fitted at weights in closed form

# Linear program of the cuts
ACCURACY = 1e-10  # of the linear program, the tightest that HiGHS accepts
NEGLIGIBLE = 1e-8  # an interior-point solver leaves no exact zeros
SMALLEST_GAP = 1e-15  # relative to the slopes, that the linear program resolves

# Quadratic program
RIDGE = 1e-13  # relative to the largest entry: makes linear programs and ones with repeated rows strictly convex
PROGRAM_ROUNDING = 1e-12
MOST_EXCHANGES = 20  # per variable
MANY = 50  # variables above zero, from which to leave one by one would cost a large system each


@dataclass(frozen=True, eq=False)
class SimplexPoint:
    """Weights on the simplex with the fitted learner."""

    problem: Problem
    theta: Array
    fit: LearnerFit
    steps: int

    @classmethod
    def create(cls, problem: Problem, theta: Array, tol: float, previous: SimplexPoint | None = None) -> SimplexPoint:
        """Fit the learner at ``theta``, starting from a previous point."""
        warm, steps = (None, 0) if previous is None else (previous.fit, previous.steps)
        gram = problem.stack.combine(kernel_weights(problem, theta))
        finest_learner = 1e-12
        fit = fit_learner(problem, gram, warm=warm, tol=max(finest_learner, LEARNER_SHARE * tol))
        return cls(problem, theta, fit, steps + fit.steps)

    def move(self, theta: Array, tol: float) -> SimplexPoint:
        """Return the point at other weights."""
        return SimplexPoint.create(self.problem, theta, tol, self)

    def alternated(self) -> Array:
        """Return the weights in closed form for the norms of the model, ``t / sum t``: ``J`` is no larger there."""
        norms = self.theta * np.sqrt(-self.slopes)
        total = float(norms.sum())
        return norms / total if total > 0 else self.theta

    @cached_property
    def slopes(self) -> Array:
        """``dJ/dtheta`` (M,): costs a pass."""
        return -(self.problem.dual_norms(self.fit.rho) ** 2) / (2.0 * self.problem.regularizer.strength)

    @property
    def value(self) -> float:
        """``J(theta)``, from above."""
        return self.fit.primal_value

    @property
    def cut_intercept(self) -> float:
        """The constant of the cut ``J >= constant + slopes'theta``: the concave part of the dual."""
        return self.fit.dual_value - float(self.slopes @ self.theta)

    @property
    def relative_gap(self) -> float:
        """Relative gap between ``J(theta)`` and the least value of the cut on the simplex."""
        gap = self.value - self.cut_intercept - float(self.slopes.min())
        return max(gap, 0.0) / max(abs(self.value), self.problem.tiny)

    def model(self) -> Model:
        """Return ``(rho, d, b)``."""
        return self.fit.rho, kernel_weights(self.problem, self.theta), self.fit.b


def kernel_weights(problem: Problem, theta: Array) -> Array:
    """Return ``d_m = theta_m / (lambda w_m^2)``."""
    return theta / (problem.regularizer.strength * problem.penalties**2)


def starting_weights(problem: Problem, d: Array) -> Array:
    """Return the weights on the simplex proportional to a model; equal weights for the zero model."""
    theta = d * problem.penalties**2
    total = float(theta.sum())
    return theta / total if total > 0 else np.full(problem.n_kernels, 1.0 / problem.n_kernels)


class HasPoint(Protocol):
    """A state of a method with current weights."""

    point: SimplexPoint


AtPoint = TypeVar("AtPoint", bound=HasPoint)


@dataclass(frozen=True, kw_only=True)
class SimplexMethod(Solver[AtPoint]):
    """Shared parts of methods over kernel weights on the simplex: requirements, start, and update."""

    fallback: ClassVar[type[Solver] | None] = InteriorPoint
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.CURVED_CONJUGATE, Capability.SIMPLEX})
    attainable_gap: ClassVar[float] = 1e-6

    @property
    def is_published(self) -> bool:
        """Whether the plain published method is requested, with the original stopping point."""
        return False

    @property
    def fallback_statuses(self) -> tuple[Status, ...]:
        """Statuses of failure that lead to a fallback, unless the published method is requested."""
        return () if self.is_published else BROKEN

    def first_point(self, problem: Problem, start: Model) -> SimplexPoint:
        """Return the learner at the weights of a model, or at equal weights."""
        return SimplexPoint.create(problem, starting_weights(problem, start[1]), self.tol)

    def extract(self, problem: Problem, state: AtPoint) -> Model:
        return state.point.model()

    def newton_steps(self, state: AtPoint) -> int:
        return int(state.point.steps)


# Line search for a convex function of kernel weights on the simplex, by slopes rather than values.


def falls(point: SimplexPoint, other: SimplexPoint) -> bool:
    """Return whether the other value is smaller beyond rounding: close to the optimum only slopes decide."""
    return other.value < point.value - VALUE_ROUNDING * abs(point.value)


def search_line(point: SimplexPoint, direction: Array, length: float, end: SimplexPoint, tol: float) -> SimplexPoint:
    """Return a point between ``point`` and ``end`` at which the slope along ``direction`` has mostly vanished.

    ``J`` is convex, so the slope is increasing: the root is found by regula falsi with the Illinois rule.
    """
    bracket = _Bracket(0.0, length, float(point.slopes @ direction), float(end.slopes @ direction))
    slope_left = 0.1  # share of the slope at the start of a line search that may be left at its end
    enough, best, current = slope_left * abs(bracket.slope_low), point, end
    most_trials = 40
    for _ in range(most_trials):
        step = bracket.trial()
        current = current.move(stepped(point.theta, step * direction), tol)
        slope = float(current.slopes @ direction)
        if slope <= 0 or falls(best, current):
            best = current
            if abs(slope) <= enough:
                break
        bracket.shrink(step, slope)
    return replace(best, steps=current.steps)


@dataclass
class _Bracket:
    """Two steps with a sign change of an increasing slope in between."""

    low: float
    high: float
    slope_low: float
    slope_high: float
    _moved: int = 0

    def trial(self) -> float:
        """Return where the secant crosses zero, well inside; the middle if the slopes do not bracket."""
        rise = self.slope_high - self.slope_low
        share = -self.slope_low / rise if rise > 0 else 0.5
        shortest_cut = 0.01  # share of the bracket that a trial cuts off at least
        return self.low + min(max(share, shortest_cut), 1.0 - shortest_cut) * (self.high - self.low)

    def shrink(self, step: float, slope: float) -> None:
        """Move an end; halve the slope at the other end if kept twice in a row (Illinois)."""
        if slope < 0:
            self.low, self.slope_low = step, slope
            self.slope_high *= 0.5 if self._moved < 0 else 1.0
            self._moved = -1
        else:
            self.high, self.slope_high = step, slope
            self.slope_low *= 0.5 if self._moved > 0 else 1.0
            self._moved = 1


def stepped(theta: Array, change: Array, blocking: int | None = None) -> Array:
    """Return the weights after a step, exactly on the simplex and exactly zero where the step is blocked."""
    moved = np.maximum(theta + change, 0.0)
    if blocking is not None:
        moved[blocking] = 0.0
    return moved / moved.sum()
