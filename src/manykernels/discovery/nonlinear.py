"""Non-linear combinations of kernels, ``(sum_i theta_i K_i)^D`` entry by entry, by projected gradient descent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from manykernels.discovery.base import (
    Discovery,
    Found,
    Limits,
    SearchProblem,
    check_one_column,
    learner_certificate,
    resolve_limits,
)
from manykernels.exceptions import InvalidInputError
from manykernels.grams import DenseStack
from manykernels.kernels import KernelSpec, WeightedPolynomial
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Ridge
from manykernels.solvers import Solution, Status
from manykernels.solvers.learners.learners import LearnerFit, fit_learner
from manykernels.solvers.run import ADVICE, Run
from manykernels.validation.arrays import Array, check_count, check_nonnegative_vector, check_positive, check_vector
from manykernels.validation.parameters import check_flag

# The problem of non-linear combinations of kernels: the set of weights, the objective and its gradient.


def project_on_ball(v: ArrayLike, center: ArrayLike, radius: float) -> Array:
    r"""Return the nearest point to v in :math:`\{\theta \ge 0,\ \|\theta - \theta_0\|_2 \le \Lambda\}`.

    It is :math:`\max(0, (v + m \theta_0) / (1 + m))` for the smallest :math:`m \ge 0` that satisfies the constraint.
    With :math:`t = 1/(1+m)`, that is :math:`\max(0, \theta_0 + t (v - \theta_0))`, whose squared distance from
    :math:`\theta_0` is quadratic between the values of t at which an entry reaches zero: the root is found exactly.

    Parameters
    ----------
    v : array_like of shape (p,)
    center : array_like of shape (p,)
        :math:`\theta_0`, non-negative.
    radius : float
        :math:`\Lambda`, positive.

    Returns
    -------
    ndarray of shape (p,), float64

    References
    ----------
    C. Cortes, M. Mohri, A. Rostamizadeh, "Learning non-linear combinations of kernels", NIPS 2009.

    Examples
    --------
    >>> from manykernels.discovery import project_on_ball
    >>> project_on_ball([3.0, -1.0], [0.0, 0.0], 2.0)
    array([2., 0.])
    """
    start = check_nonnegative_vector(center, np.size(center), "center")
    move, limit = check_vector(v, start.size, "v") - start, check_positive(radius, "radius")
    falling = move < 0
    zeros = np.where(falling, start / np.where(falling, -move, 1.0), np.inf)  # t at which an entry reaches zero
    if np.linalg.norm(np.maximum(start + move, 0.0) - start) <= limit:
        return np.maximum(start + move, 0.0)
    order = np.argsort(zeros)
    # Beyond the k-th of these values of t, k entries stay at zero: start_i^2 instead of t^2 move_i^2.
    fixed = np.concatenate(([0.0], np.cumsum(start[order] ** 2)))
    moving = np.concatenate((np.cumsum(move[order][::-1] ** 2)[::-1], [0.0]))
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.sqrt(np.maximum(limit**2 - fixed, 0.0) / moving)
    ends = np.concatenate((zeros[order], [np.inf]))
    k = int(np.argmax((roots <= ends) & (moving > 0)))
    return np.maximum(start + roots[k] * move, 0.0)


class BaseKernels(Protocol):
    """The base kernels ``K_1, ..., K_p``, the constant one last if it is among them."""

    def combine(self, theta: Array) -> Array:
        """Return ``sum_i theta_i K_i`` (N, N)."""

    def squares(self, rho: Array, factor: Array) -> Array:
        """Return ``rho' (K_i o factor) rho`` (p,)."""


@dataclass(frozen=True, eq=False)
class LinearColumns(BaseKernels):
    """The linear kernel of each column."""

    features: Array  # ndarray of shape (N, p): a column of ones is the constant kernel

    def combine(self, theta: Array) -> Array:
        scaled = self.features * np.sqrt(theta)
        total: Array = scaled @ scaled.T
        return total

    def squares(self, rho: Array, factor: Array) -> Array:
        scaled = self.features * rho[:, None]
        return np.asarray(np.einsum("ij,ij->j", scaled, factor @ scaled))


@dataclass(frozen=True, eq=False)
class KernelsOfColumns(BaseKernels):
    """A kernel of each column, evaluated anew in each pass: a single N x N matrix at a time is in memory."""

    features: Array  # ndarray of shape (N, p): a column of ones is the constant kernel
    spec: KernelSpec
    n_columns: int  # columns of ``features`` that hold data

    def _matrices(self) -> Iterator[Array]:
        for column in self.features.T[: self.n_columns]:
            yield self.spec(column[:, None])
        for _ in self.features.T[self.n_columns :]:
            yield np.ones((len(self.features), len(self.features)))

    def combine(self, theta: Array) -> Array:
        total = np.zeros((len(self.features), len(self.features)))
        for weight, gram in zip(theta, self._matrices(), strict=True):
            total += weight * gram
        return total

    def squares(self, rho: Array, factor: Array) -> Array:
        return np.array([rho @ (gram * factor) @ rho for gram in self._matrices()])


@dataclass(frozen=True, eq=False)
class NonlinearProblem:
    r"""``J(theta) = min_{f,b} sum_i s_i l(y_i, f_i + b) + (lambda/2) ||f||^2`` in the space of ``(sum theta_i K_i)^D``.

    For the squared loss without an intercept, ``J = (lambda/2) y' (K_theta + lambda I)^{-1} y``, (2.17) of the thesis.
    """

    base: BaseKernels
    problem: Problem  # target, loss, sample weights and intercept
    degree: int  # D
    strength: float  # lambda
    center: Array  # ndarray of shape (p,): theta_0
    radius: float  # Lambda

    def kernel(self, theta: Array) -> tuple[Array, Array]:
        """Return ``sum_i theta_i K_i`` and the power, ``K_theta``."""
        base = self.base.combine(theta)
        return base, base**self.degree

    def evaluate(self, theta: Array, warm: LearnerFit | None = None) -> DescentPoint:
        """Return value and gradient at theta.

        With the dual coefficients rho of the model, ``dJ/dtheta_i = -(D/(2 lambda)) rho' (K_i o B^(D-1)) rho``: never
        positive, so a minimum is on the boundary of the ball.
        """
        base, gram = self.kernel(theta)
        if not np.isfinite(gram).all():
            raise InvalidInputError(
                f"A power of degree {self.degree} overflows on these columns. Standardize them, or lower the degree."
            )
        learner_tol = 1e-9  # of the model with its kernel
        fit = fit_learner(self.problem, gram / self.strength, warm=warm, tol=learner_tol)
        gradient = self._gradient(fit.rho, base)
        # The largest decrease to first order: the ball's end point theta_0 - radius * gradient / ||gradient||, which is
        # not negative.
        decrease = float(gradient @ (theta - self.center)) + self.radius * float(np.linalg.norm(gradient))
        value = fit.primal_value / self._unit
        floor = self.problem.tiny / self._unit
        return DescentPoint(theta, fit, value, gradient, max(decrease, 0.0) / max(abs(value), floor), gram)

    def constant_at(self, theta: Array) -> DescentPoint:
        """Return the best constant as a model at fixed theta, with a bound without kernels."""
        problem, zero = self.problem, np.zeros(self.problem.n_samples)
        b, dual = problem.best_constant, -problem.conjugate_loss(zero)
        primal = problem.empirical_loss(problem.constant_scores(b))
        fit = LearnerFit(zero, b, dual, primal - dual, 0)
        return DescentPoint(theta, fit, primal / self._unit, np.zeros(len(theta)), np.inf, self.kernel(theta)[1])

    @property
    def _unit(self) -> float:
        """Unit of the objective, for gradients of very small or large targets."""
        return self.problem.loss_at_zero or 1.0

    def _gradient(self, rho: Array, base: Array) -> Array:
        size = float(np.abs(rho).max()) or 1.0
        products = self.base.squares(rho / size, base ** (self.degree - 1))
        return -0.5 * self.degree / self.strength * np.maximum(products, 0.0) * (size / self._unit * size)


@dataclass(frozen=True, eq=False)
class DescentPoint:
    """Weights, the fit on their kernel, and the gradient there."""

    theta: Array  # ndarray of shape (p,)
    fit: LearnerFit
    value: float  # in units of the loss at zero
    gradient: Array  # ndarray of shape (p,): in the same units
    stationarity: float
    gram: Array  # ndarray of shape (N, N)


# Projected gradient descent on the weights of a non-linear combination of kernels.


SMALLEST_STEP = 1e-12  # of the first one


class NonlinearDescent:
    """A descent: the current point and the history."""

    def __init__(self, posed: NonlinearProblem, limits: Limits) -> None:
        self.posed, self.limits = posed, limits
        self._tried = self._steps = 0
        self._run: Run[Solution] = Run(
            limits, f"The {limits.name}", converged=lambda model: bool(model.state.stationarity <= limits.tol)
        )
        self._run.follow(self._points(), lambda: self._add_cost(self.posed.constant_at(self._start())))

    @property
    def point(self) -> DescentPoint:
        """The best point."""
        best: DescentPoint = self._run.best.state
        return best

    def _points(self) -> Iterator[Solution]:
        """Go downhill as long as some step descends."""
        point = self._evaluate(self._start())
        yield self._add_cost(point)
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
            yield self._add_cost(point)

    def _start(self) -> Array:
        """Return theta_0, or a point of equal weights if theta_0 (and the gradient, for D > 1) vanishes."""
        center = self.posed.center
        if center.any():
            return center
        return np.full(len(center), self.posed.radius / np.sqrt(len(center)))

    def _next(self, point: DescentPoint, step: float, smallest: float) -> DescentPoint | None:
        """Return a point of sufficient descent, by step halving."""
        decrease = 1e-4  # share of the decrease to first order that a step must reach
        while step >= smallest:  # at most as many halvings as SMALLEST_STEP has
            theta = project_on_ball(point.theta - step * point.gradient, self.posed.center, self.posed.radius)
            following = self._evaluate(theta, point)
            expected = float(point.gradient @ (theta - point.theta))
            if following.value <= point.value + decrease * expected and expected < 0:
                return following
            step /= 2
        return None

    def _evaluate(self, theta: Array, near: DescentPoint | None = None) -> DescentPoint:
        point = self.posed.evaluate(theta, None if near is None else near.fit)
        self._tried += 1
        self._steps += point.fit.steps
        return point

    def _add_cost(self, point: DescentPoint) -> Solution:
        """Return the model of a point with the cost so far: a kernel is read for the sum and the gradient."""
        fit, weights = point.fit, np.array([1.0 / self.posed.strength])
        certificate, passes = learner_certificate(fit, self.posed.problem.tiny), 2.0 * self._tried
        return Solution(fit.rho, weights, fit.b, certificate, passes=passes, newton_steps=self._steps, state=point)

    def solution(self) -> Solution:
        """Return the model at the best point, with the certificate on the kernel."""
        solution = self._run.solution()
        single = self.posed.problem.replace_stack(DenseStack(self.point.gram[None]), slice(None))
        certificate = single.certificate(solution.dual_coef, solution.kernel_weights, solution.intercept)
        return replace(solution, certificate=certificate, message=self._message(solution.status))

    def _message(self, status: Status) -> str:
        size = f"{self.point.stationarity:.2e}"
        meaning = f"the objective can fall by at most {size} of its value to first order"
        if status is Status.CONVERGED:
            return f"converged to a stationary point: {meaning} (tol {self.limits.tol:.2e})"
        return (
            f"The {self.limits.name} stopped ({status}) at stationarity {size}, above tol {self.limits.tol:.2e}: "
            f"{meaning}{self._run.reason}. {ADVICE[status]}"
        )


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
        How much the objective could fall to first order inside the ball, relative to the value.
    """

    base_weights: Array
    constant_weight: float
    stationarity: float


def discover_nonlinear(
    problem: SearchProblem,
    *,
    degree: int = 2,
    radius: float = 1.0,
    reference: ArrayLike | None = None,
    constant: bool = True,
    base: KernelSpec | None = None,
    limits: Limits | None = None,
) -> NonlinearDiscovery:
    r"""Find the weights of ``K_theta = (sum_i theta_i K_i)^D`` on kernels of single columns (NLMKL).

    Minimizes over :math:`\theta \ge 0,\ \|\theta - \theta_0\|_2 \le \Lambda` the smallest objective of the model on
    :math:`K_\theta`, by projected gradient steps of the size of Barzilai and Borwein, halved until they descend.

    Parameters
    ----------
    problem : SearchProblem
    degree : int, default=2
        ``D``, at least 1.
    radius : float, default=1.0
        ``Lambda``, positive. The objective falls as weights grow, so the result is always the far from ``theta_0``.
    reference : float or array_like of shape (p,), optional
        ``theta_0``, non-negative; by default one over the number of weights.
    constant : bool, default=True
        Whether a constant kernel is among the base kernels, which brings in all degrees below D; the last of p weights.
    base : KernelSpec, optional
        Kernel of each column, ``K_i``; by default the linear one.
    limits : Limits, optional
        ``tol`` bounds the stationarity, see Notes.

    Returns
    -------
    NonlinearDiscovery
        A single kernel, a `WeightedPolynomial`, of weight ``1/lambda``.

    Raises
    ------
    InvalidInputError
        If a parameter has no meaning.

    Notes
    -----
    The problem is not convex in theta for ``D > 1``. What is proven is less than elsewhere in the library: the
    certificate of the solution is that of the model *with the kernel*, exact as always; for theta it is only known that
    no weights of the ball lower the objective by more than ``stationarity`` times the value *to first order*. With ``D
    = 1`` the objective is convex, and that is a bound on the distance to the global minimum.

    References
    ----------
    C. Cortes, M. Mohri, A. Rostamizadeh, "Learning non-linear combinations of kernels", NIPS 2009.
    A. Afkanpour, thesis, University of Alberta (2013), (2.16) and (2.17).

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery import SearchProblem, discover_nonlinear
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> found = discover_nonlinear(SearchProblem(X, X[:, 0] * X[:, 1], strength=0.1))
    >>> found.base_weights.argmin(), found.stationarity < 1e-3
    (np.int64(2), True)
    """
    limits, rows = resolve_limits(limits, Limits(name="projected gradient")), problem.points
    features = np.column_stack([rows, np.ones(len(rows))]) if check_flag(constant, "constant") else rows
    empty = problem.empty_problem(Ridge(problem.strength))
    empty.check_precision()
    center, size = _reference(reference, features.shape[1]), check_positive(radius, "radius")
    kernels: BaseKernels = LinearColumns(features)
    if base is not None:
        kernels = KernelsOfColumns(features, check_one_column(base, "base"), rows.shape[1])
    posed = NonlinearProblem(kernels, empty, check_count(degree, "degree"), float(problem.strength), center, size)
    return _discovery(NonlinearDescent(posed, limits), problem.names, base)


def _reference(reference: ArrayLike | None, size: int) -> Array:
    if reference is None:
        return np.full(size, 1.0 / size)
    values = np.full(size, reference) if np.ndim(reference) == 0 else np.asarray(reference)
    return check_nonnegative_vector(values, size, "reference")


def _discovery(descent: NonlinearDescent, names: Sequence[str], base: KernelSpec | None) -> NonlinearDiscovery:
    """Return the point reached as a kernel on columns and the model."""
    posed, point, n_columns = descent.posed, descent.point, len(names)
    theta, offset = point.theta[:n_columns], float(point.theta[n_columns:].sum())
    columns = np.flatnonzero(theta) if theta.any() else np.arange(n_columns)
    spec = WeightedPolynomial(posed.degree, tuple(theta[columns].tolist()), offset, base)
    listed = _listed(theta[columns], [names[int(j)] for j in columns])
    kernel = Found(f"degree {posed.degree} in {listed}", spec, tuple(int(j) for j in columns))
    return NonlinearDiscovery((kernel,), descent.solution(), theta, offset, point.stationarity)


def _listed(theta: Array, names: Sequence[str]) -> str:
    """Return the names of a few columns, and of many their number and the largest weights."""
    most_listed = 3  # columns in a name
    if len(names) <= most_listed:
        return ", ".join(names)
    largest = np.argsort(-theta, kind="stable")[:most_listed]
    shown = ", ".join(f"{names[int(j)]} {theta[j]:.2g}" for j in largest)
    return f"{len(names)} columns ({shown}, ...)"
