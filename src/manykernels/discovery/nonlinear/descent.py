"""Projected gradient descent on the weights of a non-linear combination of kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from manykernels.discovery.base import Limits
from manykernels.discovery.family_certificate import learner_certificate
from manykernels.discovery.nonlinear.problem import NonlinearProblem, Point, project_on_ball
from manykernels.grams import DenseStack
from manykernels.objective.problem import Problem
from manykernels.solvers import Solution, Status
from manykernels.solvers.run import ADVICE, CertifiedModel, Run
from manykernels.validation.arrays import Array

DECREASE = 1e-4  # share of the decrease to first order that a step must reach
SMALLEST_STEP = 1e-12  # of the first one


@dataclass(frozen=True, eq=False)
class _Reached(CertifiedModel):
    """The model at a point of the descent."""

    point: Point


class NonlinearDescent:
    """One descent: the point it is at and how it came there."""

    def __init__(self, posed: NonlinearProblem, limits: Limits) -> None:
        self.posed, self.limits = posed, limits
        self._tried = self._steps = 0
        self._run: Run[_Reached] = Run(
            limits, f"The {limits.name}", converged=lambda reached: reached.point.stationarity <= limits.tol
        )
        self._run.follow(self._points())

    @property
    def point(self) -> Point:
        """The best point."""
        return self._run.best.point

    def _points(self) -> Iterator[_Reached]:
        """Go downhill as long as some step descends."""
        point = self._at(self._start())
        yield self._reached(point)
        first = step = self.posed.radius / max(float(np.linalg.norm(point.gradient)), 1e-300)
        while True:
            following = self._next(point, step, SMALLEST_STEP * first)
            if following is None:
                return
            moved, bent = following.theta - point.theta, following.gradient - point.gradient
            curvature = abs(float(moved @ bent))
            step = float(moved @ moved) / curvature if curvature > 0 else 2 * step
            step = float(np.clip(step, 1e-6 * first, 1e6 * first))
            point = following
            yield self._reached(point)

    def _start(self) -> Array:
        """Return theta_0, or where that is zero (and with it the gradient, for D > 1) a point of equal weights."""
        center = self.posed.center
        if center.any():
            return center
        return np.full(len(center), self.posed.radius / np.sqrt(len(center)))

    def _next(self, point: Point, step: float, smallest: float) -> Point | None:
        """Return a point that descends enough, halving the step until one does."""
        while step >= smallest:
            theta = project_on_ball(point.theta - step * point.gradient, self.posed.center, self.posed.radius)
            following = self._at(theta, point)
            expected = float(point.gradient @ (theta - point.theta))
            if following.value <= point.value + DECREASE * expected and expected < 0:
                return following
            step /= 2
        return None

    def _at(self, theta: Array, near: Point | None = None) -> Point:
        point = self.posed.at(theta, None if near is None else near.fit)
        self._tried += 1
        self._steps += point.fit.steps
        return point

    def _reached(self, point: Point) -> _Reached:
        fit, weights = point.fit, np.array([1.0 / self.posed.strength])
        certificate = learner_certificate(fit, self.posed.problem.tiny)
        # Every base kernel is read once for the sum, once for the gradient.
        return _Reached(fit.rho, weights, fit.b, certificate, 2.0 * self._tried, self._steps, point)

    def solution(self) -> Solution:
        """Return the model at the best point, with the certificate that it has on its kernel."""
        shell, found = self.posed.problem, self._run.solution()
        single = Problem(
            DenseStack(self.point.gram[None]),
            shell.y,
            shell.loss,
            shell.regularizer,
            fit_intercept=shell.fit_intercept,
            sample_weight=shell.weight,
        )
        certificate = single.certificate(found.dual_coef, found.kernel_weights, found.intercept)
        return replace(found, certificate=certificate, message=self._message(found.status))

    def _message(self, status: Status) -> str:
        size = f"{self.point.stationarity:.2e}"
        meaning = f"the objective can fall by at most {size} of its value to first order"
        if status is Status.CONVERGED:
            return f"converged to a stationary point: {meaning} (tol {self.limits.tol:.2e})"
        return (
            f"The {self.limits.name} stopped ({status}) at stationarity {size}, above tol {self.limits.tol:.2e}: "
            f"{meaning}{self._run.reason}. {ADVICE[status]}"
        )
