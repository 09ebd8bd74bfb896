"""Non-linear combinations of kernels, ``(sum_i theta_i K_i)^D`` entry by entry, by projected gradient descent."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError

from manykernels._validation import check_count, check_nonnegative_vector, check_positive
from manykernels.discovery._nonlinear_problem import NonlinearProblem, Point, project_on_ball
from manykernels.discovery.base import ADVICE, Discovery, Found, Limits
from manykernels.grams import DenseStack
from manykernels.kernels import WeightedPolynomial
from manykernels.objective.losses import Loss, get_loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Ridge
from manykernels.solvers import IterationRecord, Solution, Status
from manykernels.solvers.progress import progress_of

Array = NDArray[Any]

DECREASE = 1e-4  # share of the decrease to first order that a step must reach
SMALLEST_STEP = 1e-12  # of the first one


@dataclass(frozen=True, eq=False)
class NonlinearDiscovery(Discovery):
    """A non-linear combination of kernels and the model on it.

    Attributes
    ----------
    base_weights : ndarray of shape (p,)
        ``theta`` of the linear kernels of the columns.
    constant_weight : float
        ``theta`` of the constant kernel, 0 without one.
    stationarity : float
        How much the objective could fall to first order inside the ball, relative to its value.
    """

    base_weights: Array
    constant_weight: float
    stationarity: float


def discover_nonlinear(
    points: Array,
    target: Array,
    *,
    strength: float,
    degree: int = 2,
    loss: Loss | str = "squared",
    radius: float = 1.0,
    reference: Any = None,
    constant: bool = True,
    weight: Array | None = None,
    fit_intercept: bool = True,
    names: Sequence[str] | None = None,
    limits: Limits | None = None,
) -> NonlinearDiscovery:
    r"""Find the weights of ``K_theta = (sum_i theta_i K_i)^D`` on the linear kernels of columns (NLMKL).

    Minimizes over :math:`\theta \ge 0,\ \|\theta - \theta_0\|_2 \le \Lambda` the smallest objective of the model on
    :math:`K_\theta`, by projected gradient steps of the size of Barzilai and Borwein, halved until they descend.

    Parameters
    ----------
    points : ndarray of shape (N, p)
        Columns, best standardized.
    target : ndarray of shape (N,)
        Numbers, or signs for a loss of classification.
    strength : float
        ``lambda``, on the sum of losses.
    degree : int, default=2
        ``D``, at least 1.
    loss : Loss or str, default="squared"
        Loss of a score for a target.
    radius : float, default=1.0
        ``Lambda``, positive. The objective falls as weights grow, so that the result is always this far from
        ``theta_0``.
    reference : float or array_like of shape (p,), optional
        ``theta_0``, non-negative; by default one over the number of weights.
    constant : bool, default=True
        Whether a constant kernel is among the base kernels, which brings in all degrees below D; the last of p weights.
    weight : ndarray of shape (N,), optional
        Positive sample weights.
    fit_intercept : bool, default=True
        Whether there is an intercept.
    names : sequence of str, optional
        Names of the columns.
    limits : Limits, optional
        ``tol`` bounds the stationarity, see Notes.

    Returns
    -------
    NonlinearDiscovery
        One kernel, a `WeightedPolynomial`, of weight ``1/lambda``.

    Raises
    ------
    InvalidInputError
        If a parameter has no meaning.

    Notes
    -----
    The problem is not convex in theta for ``D > 1``. What is proven is less than elsewhere in this library: the
    certificate of the solution is that of the model *with its kernel*, exact as always; for theta it is only known that
    no weights of the ball lower the objective by more than ``stationarity`` times its value *to first order*. With
    ``D = 1`` the objective is convex, and that is a bound on the distance to the global minimum.

    References
    ----------
    C. Cortes, M. Mohri, A. Rostamizadeh, "Learning non-linear combinations of kernels", NIPS 2009.
    A. Afkanpour, thesis, University of Alberta (2013), (2.16) and (2.17).

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery import discover_nonlinear
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> found = discover_nonlinear(X, X[:, 0] * X[:, 1], strength=0.1)
    >>> found.base_weights.argmin(), found.stationarity < 1e-3
    (np.int64(2), True)
    """
    chosen = limits or Limits(name="projected gradient")
    features = np.column_stack([points, np.ones(len(points))]) if constant else np.asarray(points, dtype=np.float64)
    problem = Problem(
        DenseStack(np.zeros((1, len(points), len(points)))),
        target,
        get_loss(loss) if isinstance(loss, str) else loss,
        Ridge(strength),
        fit_intercept=fit_intercept,
        sample_weight=weight,
    )
    center, size = _reference(reference, features.shape[1]), check_positive(radius, "radius")
    posed = NonlinearProblem(features, problem, check_count(degree, "degree"), float(strength), center, size)
    run = _Run(posed, chosen)
    run.descend()
    return run.discovery(points.shape[1], tuple(names or (f"x{j}" for j in range(points.shape[1]))))


def _reference(reference: Any, size: int) -> Array:
    if reference is None:
        return np.full(size, 1.0 / size)
    values = np.full(size, reference) if np.ndim(reference) == 0 else np.asarray(reference)
    return check_nonnegative_vector(values, size, "reference")


class _Run:
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

    def descend(self) -> None:
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

    def discovery(self, n_columns: int, names: tuple[str, ...]) -> NonlinearDiscovery:
        """Return the point reached with the certificate of its model."""
        posed, point = self.posed, self.point
        theta, offset = point.theta[:n_columns], float(point.theta[n_columns:].sum())
        columns = np.flatnonzero(theta) if theta.any() else np.arange(n_columns)
        spec = WeightedPolynomial(posed.degree, tuple(theta[columns].tolist()), offset)
        single = Problem(
            DenseStack(point.gram[None]),
            posed.problem.y,
            posed.problem.loss,
            posed.problem.regularizer,
            fit_intercept=posed.problem.fit_intercept,
            sample_weight=posed.problem.weight,
        )
        weights = np.array([1.0 / posed.strength])
        certificate = single.certificate(point.fit.rho, weights, point.fit.b)
        solution = Solution(
            dual_coef=point.fit.rho,
            kernel_weights=weights,
            intercept=point.fit.b,
            certificate=certificate,
            status=self.status,
            message=self._message(),
            history=tuple(self.history),
            passes=2.0 * self.tried,
            newton_steps=self.steps,
            n_iter=max(0, len(self.history) - 1),
            elapsed_s=time.perf_counter() - self.started,
            solver=self.limits.name,
        )
        name = f"degree {posed.degree} in " + (", ".join(names[j] for j in columns) if len(columns) < 4 else "columns")
        found = Found(name, spec, tuple(int(j) for j in columns))
        return NonlinearDiscovery((found,), solution, theta, offset, point.stationarity)

    def _message(self) -> str:
        reached = f"the objective can fall by at most {self.point.stationarity:.2e} of its value to first order"
        if self.status is Status.CONVERGED:
            return f"converged to a stationary point: {reached} (tol {self.limits.tol:.2e})"
        advice = ADVICE[self.status].replace("The gap no longer falls: a", "A")
        return (
            f"The {self.limits.name} stopped ({self.status}) where {reached}, above tol {self.limits.tol:.2e}. {advice}"
        )
