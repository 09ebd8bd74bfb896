"""The problem of non-linear combinations of kernels: the set of weights, the objective and its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.objective.problem import Problem
from manykernels.solvers.learners.learners import LearnerFit, fit_learner
from manykernels.validation.arrays import Array, check_nonnegative_vector, check_positive, check_vector

LEARNER_TOL = 1e-9  # of the model with its kernel


def project_on_ball(v: Any, center: Any, radius: float) -> Array:
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


@dataclass(frozen=True, eq=False)
class NonlinearProblem:
    r"""``J(theta) = min_{f,b} sum_i s_i l(y_i, f_i + b) + (lambda/2) ||f||^2`` in the space of ``(sum theta_i K_i)^D``.

    For the squared loss without an intercept, ``J = (lambda/2) y' (K_theta + lambda I)^{-1} y``, (2.17) of the thesis.
    """

    # ndarray of shape (N, p): the linear kernel of column i is K_i; a column of ones is the constant kernel
    features: Array
    problem: Problem  # target, loss, sample weights and intercept
    degree: int  # D
    strength: float  # lambda
    center: Array  # ndarray of shape (p,): theta_0
    radius: float  # Lambda

    def kernel(self, theta: Array) -> tuple[Array, Array]:
        """Return ``sum_i theta_i K_i`` and its power, ``K_theta``."""
        scaled = self.features * np.sqrt(theta)
        base = scaled @ scaled.T
        return base, base**self.degree

    def at(self, theta: Array, warm: LearnerFit | None = None) -> Point:
        """Return value and gradient at theta.

        With the dual coefficients rho of the model, ``dJ/dtheta_i = -(D/(2 lambda)) rho' (K_i o B^(D-1)) rho``: never
        positive, so that a minimum is on the boundary of the ball.
        """
        base, gram = self.kernel(theta)
        if not np.isfinite(gram).all():
            raise InvalidInputError(
                f"A power of degree {self.degree} overflows on these columns. Standardize them, or lower the degree."
            )
        fit = fit_learner(self.problem, gram / self.strength, warm=warm, tol=LEARNER_TOL)
        gradient = self._gradient(fit.rho, base)
        # The largest decrease to first order: the ball's end point theta_0 - radius * gradient / ||gradient||, which is
        # not negative.
        decrease = float(gradient @ (theta - self.center)) + self.radius * float(np.linalg.norm(gradient))
        value = fit.primal_value / self._unit
        floor = self.problem.tiny / self._unit
        return Point(theta, fit, value, gradient, max(decrease, 0.0) / max(abs(value), floor), gram)

    @property
    def _unit(self) -> float:
        """Unit of the objective: gradients of targets that are very small or large have no norm without it."""
        return self.problem.loss_at_zero or 1.0

    def _gradient(self, rho: Array, base: Array) -> Array:
        size = float(np.abs(rho).max()) or 1.0
        scaled = self.features * (rho / size)[:, None]
        products = np.einsum("ij,ij->j", scaled, base ** (self.degree - 1) @ scaled)
        return -0.5 * self.degree / self.strength * np.maximum(products, 0.0) * (size / self._unit * size)


@dataclass(frozen=True, eq=False)
class Point:
    """Weights, the model on their kernel, and the gradient there."""

    theta: Array  # ndarray of shape (p,)
    fit: LearnerFit
    value: float  # in units of the loss at zero
    gradient: Array  # ndarray of shape (p,): in the same units
    stationarity: float
    gram: Array  # ndarray of shape (N, N)
