"""The function of kernel weights on the simplex that reduced gradient, cutting planes and Newton minimize.

With ``theta`` on the simplex and ``Q_m = K_m / w_m^2``::

    J(theta) = min_{f,b} sum_i s_i l(y_i, f_i + b) + ||f||^2 / 2           in the space of sum_m (theta_m/lambda) Q_m
             = max_rho  -sum_i s_i l*(y_i, -rho_i/s_i) - sum_m theta_m u_m^2 / (2 lambda),      u_m^2 = rho' Q_m rho

which is convex, with the slopes ``dJ/dtheta_m = -u_m^2 / (2 lambda)`` at the optimal ``rho``. Any feasible ``rho``
gives the affine lower bound ``J(theta) >= intercept + slopes'theta``: a cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from manykernels.solvers.engines.fixed_weights.learners import LearnerFit, fit_learner
from manykernels.solvers.engines.simplex_weights.tuning import FINEST_LEARNER, LEARNER_SHARE

if TYPE_CHECKING:
    from manykernels.objective.problem import Problem
    from manykernels.solvers.solution import Model
    from manykernels.validation.arrays import Array


@dataclass(frozen=True, eq=False)
class SimplexPoint:
    """Weights on the simplex with the learner fitted to them."""

    problem: Problem
    theta: Array
    fit: LearnerFit
    steps: int

    @classmethod
    def at(cls, problem: Problem, theta: Array, tol: float, previous: SimplexPoint | None = None) -> SimplexPoint:
        """Fit the learner at ``theta``, starting from a previous point."""
        warm, steps = (None, 0) if previous is None else (previous.fit, previous.steps)
        gram = problem.stack.combine(kernel_weights(problem, theta))
        fit = fit_learner(problem, gram, warm=warm, tol=max(FINEST_LEARNER, LEARNER_SHARE * tol))
        return cls(problem, theta, fit, steps + fit.steps)

    def moved(self, theta: Array, tol: float) -> SimplexPoint:
        """Return the point at other weights."""
        return SimplexPoint.at(self.problem, theta, tol, self)

    def alternated(self) -> Array:
        """Return the weights in closed form for the norms of this model, ``t / sum t``: ``J`` is no larger there."""
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
    """Return the weights on the simplex that are proportional to those of a model; equal ones for the zero model."""
    theta = d * problem.penalties**2
    total = float(theta.sum())
    return theta / total if total > 0 else np.full(problem.n_kernels, 1.0 / problem.n_kernels)
