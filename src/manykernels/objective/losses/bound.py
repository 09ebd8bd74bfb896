"""A loss on given targets and weights, ``L(z)``: what the problem, its certificate and the solvers ask of it.

Sums over samples of one score, sums over samples of several scores, and losses of all samples together are three
shapes behind the same calls. The dual variable is ``rho = -grad L(z)``.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from manykernels.exceptions import IncompatibleError
from manykernels.objective.projection import project_box_hyperplane
from manykernels.objective.rounding import (
    EPS,
    FEW,
    coupled_primal_rounding,
    dual_rounding,
    growth,
    primal_rounding,
    score_errors,
)

__all__ = ["BoundLoss", "CoupledLossBound", "OutputSum", "SampleSum"]

Array = NDArray[Any]

FAR = 0.5  # share of the coefficients that scores may miss where a better dual point is looked for
SLOWEST = 0.5  # reduction of what is missing that makes another step worth while
MOST_STEPS = 40


class BoundLoss(abc.ABC):
    """A convex function ``L`` of the scores of all samples, (N,) or (N, T).

    Attributes
    ----------
    couples_samples : bool
        Whether it is no sum over samples.
    """

    couples_samples: ClassVar[bool] = False

    def value(self, z: Array) -> float:
        """``L(z)``."""
        return float(np.sum(self.parts(z)))

    def conjugate(self, rho: Array) -> float:
        """``L*(-rho)``, infinite outside its domain."""
        return float(np.sum(self.conjugate_parts(rho, 1.0, rho)))

    def conjugate_of_share(self, rho: Array, scale: float) -> float:
        """``L*(-scale rho)``, or that at a share of the dual point of zero scores where it is known nowhere else."""
        return float(np.sum(self.conjugate_parts(rho, scale, rho)))

    @abc.abstractmethod
    def parts(self, z: Array) -> Any:
        """Return what ``L(z)`` is the sum of: (N,), or one number."""

    @abc.abstractmethod
    def gradient(self, z: Array) -> Array:
        """``grad L(z)``."""

    @abc.abstractmethod
    def conjugate_parts(self, rho: Array, scale: float, z: Array) -> Any:
        """Return what ``L*(-scale rho)`` is the sum of; ``z`` are scores behind ``rho`` where there are such."""

    @abc.abstractmethod
    def inner(self, z: Array, rho: Array) -> Any:
        """Return the parts of the inner product that belong to `parts`."""

    @abc.abstractmethod
    def feasible(self, rho: Array, *, sums: bool) -> Array:
        """Return coefficients near ``rho`` in the domain of the conjugate, of zero sum if ``sums``."""

    @abc.abstractmethod
    def best_intercepts(self) -> Any:
        """Return the constant scores, one number or (T,), that fit best."""

    @abc.abstractmethod
    def coefficients_of(self, b: Any, *, sums: bool) -> Array:
        """Return the dual coefficients of constant scores: of all that fit, the smallest, of zero sum if ``sums``."""

    def candidates(self, rho: Array, z: Array, *, sums: bool) -> Iterator[tuple[Array, Array]]:
        """Yield dual coefficients that may prove a model's value, and scores behind them, the likeliest first."""
        yield self.feasible(rho, sums=sums), z

    @abc.abstractmethod
    def primal_rounding(self, problem: Any, model: tuple[Array, Array, Any], f: Array, t: Array) -> float:
        """Return by how much rounding may move the primal value of a model with these scores and block norms."""

    @abc.abstractmethod
    def dual_rounding(self, problem: Any, rho: Array, signed: Array, conjugates: Any, z: Array) -> float:
        """Return by how much rounding may move the dual value at feasible coefficients."""


class SampleSum(BoundLoss):
    """``sum_i s_i l(y_i, z_i)``.

    Parameters
    ----------
    loss : Loss
    y, weight : ndarray of shape (N,)
    """

    def __init__(self, loss: Any, y: Array, weight: Array) -> None:
        self.loss, self.y, self.weight = loss, y, weight

    def value(self, z: Array) -> float:
        """Return the sum."""
        with np.errstate(over="ignore"):
            return float(np.dot(self.weight, self.loss.value(self.y, z)))

    def parts(self, z: Array) -> Array:
        """``s_i l(y_i, z_i)`` (N,)."""
        return self.weight * self.loss.value(self.y, z)

    def gradient(self, z: Array) -> Array:
        """``s_i l'(y_i, z_i)`` (N,)."""
        return self.weight * self.loss.derivative(self.y, z)

    def conjugate_parts(self, rho: Array, scale: float, z: Array) -> Array:
        """``s_i l*(y_i, -rho_i / s_i)`` (N,) at ``scale rho``."""
        return self.weight * self.loss.conjugate(self.y, scale * rho / self.weight)

    def inner(self, z: Array, rho: Array) -> Array:
        """``z_i rho_i`` (N,)."""
        return z * rho

    @cached_property
    def box(self) -> tuple[Array, Array]:
        """Ends of the box of ``rho``: ``s`` times that of the loss."""
        lo, hi = (self.weight * end for end in self.loss.dual_bounds(self.y))
        for end in (lo, hi):
            end.flags.writeable = False
        return lo, hi

    def feasible(self, rho: Array, *, sums: bool) -> Array:
        """``clip(rho - nu, lo, hi)``, the nearest point."""
        lo, hi = self.box
        return project_box_hyperplane(rho, lo, hi) if sums else np.clip(rho, lo, hi)

    def best_intercepts(self) -> float:
        """Return the best constant score."""
        return self.loss.best_intercept(self.y, np.zeros_like(self.y), self.weight)

    def coefficients_of(self, b: Any, *, sums: bool) -> Array:
        """Return the smallest vector in ``-s dl(y, b)``."""
        none = np.zeros(len(self.y))
        lo, hi = (self.weight * end for end in self.loss.dual_interval(self.y, none + b))
        return project_box_hyperplane(none, lo, hi) if sums else np.clip(none, lo, hi)

    def primal_rounding(self, problem: Any, model: tuple[Array, Array, Any], f: Array, t: Array) -> float:
        """Return what scores that are off by rounding add to the loss, and norms to the penalty."""
        rho, d, b = model
        return primal_rounding(problem, rho, d, f, b, t, self.loss.value(self.y, f + b))

    def dual_rounding(self, problem: Any, rho: Array, signed: Array, conjugates: Array, z: Array) -> float:
        """Return what the sums and the norms may be off by."""
        summed = float((np.abs(self.y) + np.abs(z)) @ np.abs(rho)) + float(np.abs(conjugates).sum())
        return dual_rounding(problem, rho, signed, summed)


class OutputSum(BoundLoss):
    """``sum_i s_i l(y_i, z_i)`` with the scores ``z_i`` (T,) of several outputs.

    Parameters
    ----------
    loss : SharedLoss
    y : ndarray of shape (N, T)
    weight : ndarray of shape (N,)
    """

    def __init__(self, loss: Any, y: Array, weight: Array) -> None:
        self.loss, self.y, self.weight = loss, y, weight

    def value(self, z: Array) -> float:
        """Return the sum."""
        with np.errstate(over="ignore"):
            return float(np.dot(self.weight, self.loss.value(self.y, z)))

    def parts(self, z: Array) -> Array:
        """``s_i l(y_i, z_i)`` (N,)."""
        return self.weight * self.loss.value(self.y, z)

    def gradient(self, z: Array) -> Array:
        """``s_i dl/dz_i`` (N, T)."""
        return self.weight[:, None] * self.loss.derivative(self.y, z)

    def conjugate_parts(self, rho: Array, scale: float, z: Array) -> Array:
        """``s_i l*(y_i, -rho_i / s_i)`` (N,) at ``scale rho``."""
        return self.weight * self.loss.conjugate(self.y, scale * rho / self.weight[:, None])

    def inner(self, z: Array, rho: Array) -> Array:
        """``z_i' rho_i`` (N,)."""
        return (z * rho).sum(axis=1)

    def feasible(self, rho: Array, *, sums: bool) -> Array:
        """Return coefficients in the domain of the loss."""
        return self.loss.feasible(self.y, rho, self.weight, sums=sums)

    def best_intercepts(self) -> Array:
        """Return the best constants (T,)."""
        return self.loss.best_intercepts(self.y, np.zeros(self.y.shape), self.weight)

    def coefficients_of(self, b: Any, *, sums: bool) -> Array:
        """Return the gradient with another sign; at kinks the smallest coefficients that fit."""
        z = np.broadcast_to(b, self.y.shape).astype(np.float64)
        if self.loss.each.smooth:
            return -self.gradient(z)
        ends = [self.loss.each.dual_interval(*column) for column in zip(self.y.T, z.T, strict=True)]
        low, high = (self.weight[:, None] * np.column_stack(side) for side in zip(*ends, strict=True))
        if not sums:
            return np.clip(0.0, low, high)
        none = np.zeros(len(self.y))
        columns = zip(low.T, high.T, strict=True)
        return np.column_stack([project_box_hyperplane(none, *column) for column in columns])

    def primal_rounding(self, problem: Any, model: tuple[Array, Array, Any], f: Array, t: Array) -> float:
        """Return the same as for one output, by the slopes of the loss."""
        rho, d, b = model
        errors = score_errors(problem, rho, d)[:, None] + FEW * EPS * (np.abs(f + b) + np.abs(self.y))
        summed = growth(problem.n_samples) * self.value(f + b)
        return coupled_primal_rounding(problem, rho, d, t, np.abs(self.gradient(f + b)) * errors, summed)

    def dual_rounding(self, problem: Any, rho: Array, signed: Array, conjugates: Array, z: Array) -> float:
        """Return what the sums and the norms may be off by."""
        summed = float(np.vdot(np.abs(self.y) + np.abs(z), np.abs(rho))) + float(np.abs(conjugates).sum())
        return dual_rounding(problem, rho, signed, summed)


class CoupledLossBound(BoundLoss):
    """A loss of all samples together, which does not change when the scores of a group of samples are shifted alike.

    Its dual variable sums to zero over every group. ``L*`` is known at gradients only: dual points are ``-grad L`` at
    the scores of a model, or at scores near them whose gradient comes closer to the coefficients.

    Attributes
    ----------
    steepness : float
        How far ``L`` can change at most when no score changes by more than one.
    weight : ndarray of shape (N,)
        Sample weights.
    """

    couples_samples: ClassVar[bool] = True
    steepness: float
    weight: Array

    @abc.abstractmethod
    def value(self, z: Array) -> float:
        """``L(z)``, never negative."""

    @abc.abstractmethod
    def hazards(self, z: Array) -> Array:
        """Return the non-negative part of the gradient (N,): how much each sample matters at these scores."""

    @abc.abstractmethod
    def curvature(self, z: Array) -> Any:
        """Return the Hessian for products, in time and memory linear in N."""

    @abc.abstractmethod
    def inverse_curvature(self, z: Array) -> Array:
        """Return an (N, N) matrix that inverts the Hessian on vectors that sum to zero in every group.

        It is positive definite on the samples of all groups, and zero for samples of none.
        """

    @abc.abstractmethod
    def groups(self) -> Array:
        """Return indicators (N, K) of the groups; samples of none have no part in ``L``."""

    @abc.abstractmethod
    def conjugate_along(self, z: Array, scale: float) -> float:
        """Upper bound of ``L*(-scale * rho)`` at ``rho = -grad L(z)``, exact at 1; ``scale`` in [0, 1]."""

    @abc.abstractmethod
    def centered(self, values: Array) -> Array:
        """Return values (..., N) minus the mean of each group, zero for samples of none."""

    def parts(self, z: Array) -> float:
        """``L(z)``."""
        return self.value(z)

    def conjugate(self, rho: Array) -> float:
        """Refuse: the conjugate is known at gradients of the loss only."""
        raise IncompatibleError("The conjugate of a loss of all samples together is known at gradients only.")

    def conjugate_of_share(self, rho: Array, scale: float) -> float:
        """Return the conjugate at the share ``scale`` of the dual point of zero scores, whatever ``rho`` is."""
        return self.conjugate_along(np.zeros(len(self.weight)), scale)

    def conjugate_parts(self, rho: Array, scale: float, z: Array) -> float:
        """``L*(-scale rho)`` at ``rho = -grad L(z)``, or an upper bound."""
        return self.conjugate_along(z, scale)

    def inner(self, z: Array, rho: Array) -> float:
        """``z'rho``."""
        return float(z @ rho)

    def feasible(self, rho: Array, *, sums: bool) -> Array:
        """Return coefficients less their mean in every group, which is what a linear projection can do."""
        return self.centered(rho)

    def best_intercepts(self) -> float:
        """Return 0: a shift of all scores changes nothing."""
        return 0.0

    def coefficients_of(self, b: Any, *, sums: bool) -> Array:
        """Return those of zero scores."""
        return -self.gradient(np.zeros(len(self.weight)))

    def candidates(self, rho: Array, z: Array, *, sums: bool) -> Iterator[tuple[Array, Array]]:
        """Yield the dual point of the scores, and that of scores whose gradient comes closer to the coefficients."""
        yield -self.gradient(z), z
        behind = self._scores_behind(self.centered(rho), z)
        if behind is not z:
            yield -self.gradient(behind), behind

    def _scores_behind(self, rho: Array, f: Array) -> Array:
        """Return scores near ``f`` with ``grad L = -rho``, by Newton steps with one Hessian; ``f`` if that is far."""
        missing = rho + self.gradient(f)
        size, unit = float(np.abs(missing).sum()), float(np.abs(rho).sum())
        if not EPS * unit < size < FAR * unit:
            return f
        inverse, z = self.inverse_curvature(f), f
        for _ in range(MOST_STEPS):
            tried = z - inverse @ missing
            left = rho + self.gradient(tried)
            if not np.abs(left).sum() < SLOWEST * size:
                break
            z, missing, size = tried, left, float(np.abs(left).sum())
        return z

    def _sizes(self, f: Array) -> float:
        """Return what the terms of the loss add up to in size."""
        return float(self.weight @ (1.0 + np.abs(f)))

    def primal_rounding(self, problem: Any, model: tuple[Array, Array, Any], f: Array, t: Array) -> float:
        """Return what scores that are off by rounding add to the loss, and norms to the penalty."""
        rho, d, _ = model
        errors = score_errors(problem, rho, d) + FEW * EPS * np.abs(f)
        summed = growth(problem.n_samples) * (self.value(f) + self._sizes(f))
        return coupled_primal_rounding(problem, rho, d, t, self.gradient(f) * errors, summed)

    def dual_rounding(self, problem: Any, rho: Array, signed: Array, conjugates: float, z: Array) -> float:
        """Return what the sums and the norms may be off by."""
        return dual_rounding(problem, rho, signed, abs(conjugates) + self._sizes(z))
