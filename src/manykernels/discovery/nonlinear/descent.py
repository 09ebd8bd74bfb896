"""Projected gradient descent on the weights of a non-linear combination of kernels."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError

from manykernels.discovery.base import ADVICE, Limits
from manykernels.discovery.nonlinear.problem import NonlinearProblem, Point, project_on_ball
from manykernels.grams import DenseStack
from manykernels.objective.problem import Problem
from manykernels.solvers import IterationRecord, Solution, Status
from manykernels.solvers.progress import progress_of

Array = NDArray[Any]

DECREASE = 1e-4  # share of the decrease to first order that a step must reach
SMALLEST_STEP = 1e-12  # of the first one


class NonlinearDescent:
    """One descent: the point it is at and how it came there."""

    def __init__(self, posed: NonlinearProblem, limits: Limits) -> None:
        self.posed, self.limits = posed, limits
        self.started = time.perf_counter()
        self.history: list[IterationRecord] = []
        self.status = Status.MAX_ITER
        self.tried = self.steps = 0
        self.point = self._at(self._start())

    def _start(self) -> Array:
        """Return theta_0, or where that is zero (and with it the gradient, for D > 1) a point of equal weights."""
        center = self.posed.center
        if center.any():
            return center
        return np.full(len(center), self.posed.radius / np.sqrt(len(center)))

    def _at(self, theta: Array) -> Point:
        point = self.posed.at(theta, getattr(self, "point", None) and self.point.fit)
        self.tried += 1
        self.steps += point.fit.steps
        return point

    def run(self) -> None:
        """Go downhill until a limit is reached or Ctrl-C ends it; the point reached stays."""
        with progress_of(self.limits) as show:
            try:
                self._follow(show)
            except KeyboardInterrupt:
                self.status = Status.INTERRUPTED
            except (LinAlgError, FloatingPointError):
                self.status = Status.NUMERICAL_ERROR

    def _follow(self, show: Any) -> None:
        first = step = self.posed.radius / max(float(np.linalg.norm(self.point.gradient)), 1e-300)
        while not self._finished(show):
            following = self._next(step, SMALLEST_STEP * first)
            if following is None:
                self.status = Status.STALLED
                return
            moved, bent = following.theta - self.point.theta, following.gradient - self.point.gradient
            curvature = abs(float(moved @ bent))
            step = float(moved @ moved) / curvature if curvature > 0 else 2 * step
            step = float(np.clip(step, 1e-6 * first, 1e6 * first))
            self.point = following

    def _next(self, step: float, smallest: float) -> Point | None:
        """Return a point that descends enough, halving the step until one does."""
        point = self.point
        while step >= smallest:
            theta = project_on_ball(point.theta - step * point.gradient, self.posed.center, self.posed.radius)
            following = self._at(theta)
            expected = float(point.gradient @ (theta - point.theta))
            if following.value <= point.value + DECREASE * expected and expected < 0:
                return following
            step /= 2
        return None

    def _finished(self, show: Any) -> bool:
        limits, point = self.limits, self.point
        self._record()
        show(self.history[-1])
        if limits.callback is not None and limits.callback(self.history[-1]):
            raise KeyboardInterrupt
        if point.stationarity <= limits.tol:
            self.status = Status.CONVERGED
        elif limits.time_limit is not None and self.history[-1].elapsed_s > limits.time_limit:
            self.status = Status.TIME_LIMIT
        else:
            return len(self.history) > limits.max_iter
        return True

    def _record(self) -> None:
        fit, problem = self.point.fit, self.posed.problem
        self.history.append(
            IterationRecord(
                iteration=len(self.history),
                elapsed_s=time.perf_counter() - self.started,
                passes=2.0 * self.tried,  # every base kernel once for the sum, once for the gradient
                newton_steps=self.steps,
                primal=fit.primal_value,
                dual=fit.dual_value,
                relative_gap=fit.gap / max(abs(fit.primal_value), problem.tiny),
                n_active=1,
            )
        )

    def solution(self) -> Solution:
        """Return the model at the point reached, with the certificate that it has on its kernel."""
        posed, point, shell = self.posed, self.point, self.posed.problem
        single = Problem(
            DenseStack(point.gram[None]),
            shell.y,
            shell.loss,
            shell.regularizer,
            fit_intercept=shell.fit_intercept,
            sample_weight=shell.weight,
        )
        weights = np.array([1.0 / posed.strength])
        return Solution(
            dual_coef=point.fit.rho,
            kernel_weights=weights,
            intercept=point.fit.b,
            certificate=single.certificate(point.fit.rho, weights, point.fit.b),
            status=self.status,
            message=self._message(),
            history=tuple(self.history),
            passes=2.0 * self.tried,
            newton_steps=self.steps,
            n_iter=max(0, len(self.history) - 1),
            elapsed_s=time.perf_counter() - self.started,
            solver=self.limits.name,
        )

    def _message(self) -> str:
        size = f"{self.point.stationarity:.2e}"
        meaning = f"the objective can fall by at most {size} of its value to first order"
        if self.status is Status.CONVERGED:
            return f"converged to a stationary point: {meaning} (tol {self.limits.tol:.2e})"
        advice = ADVICE[self.status].replace("The gap no longer falls: a", "A")
        return (
            f"The {self.limits.name} stopped ({self.status}) at stationarity {size}, above tol {self.limits.tol:.2e}: "
            f"{meaning}. {advice}"
        )
