"""A loss on given targets and weights, ``L(z)``: what the problem, the certificate and the solvers ask of it.

Sums over samples of a single score, sums over samples of several scores, and losses of all samples together are three
shapes behind the same calls. The dual variable is ``rho = -grad L(z)``.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from manykernels.exceptions import IncompatibleError
from manykernels.objective.certificate import (
    EPS,
    FEW,
    Sizes,
    coupled_primal_rounding,
    dual_rounding,
    growth,
    inner,
    primal_rounding,
    score_errors,
)
from manykernels.objective.losses.curvature import Curvature, OutputCurvature, SampleCurvature
from manykernels.objective.losses.risk_inverse import RiskInverse
from manykernels.objective.losses.smoothing import FLOOR, ScoreFunction, Smoothed, check_smoothable, lifted
from manykernels.objective.projection import balance, project_box_hyperplane, project_box_orthogonal
from manykernels.validation.arrays import Array

MOST_STEPS = 40
ORTHOGONAL, NEARLY = 1e-15, 1e-11  # slopes along free directions beside all slopes: enough, and where it is a failure
MOST_NEWTON_STEPS, ENOUGH = 100, 1e-4  # to the best scores along free directions


class BoundLoss(ScoreFunction):
    """A convex function ``L`` of the scores of all samples, (N,) or (N, T)."""

    couples_samples: ClassVar[bool] = False  # whether it is no sum over samples
    # (N, p), orthonormal directions that no penalty is on, ones among them if there is an intercept: dual coefficients
    # that are feasible are orthogonal to them, in every output
    basis: Array | None = None
    zero_sums: bool = False  # whether dual coefficients sum to zero in every output, as with an intercept

    def smoothed(self, mu: float | Array, center: float | Array = 0.0) -> ScoreFunction:
        """Return the loss for minimizers: kinks are smoothed by ``mu`` around a center."""
        return self

    def conjugate(self, rho: Array) -> float:
        """``L*(-rho)``, infinite outside the domain."""
        return self.conjugate_at(rho, 1.0, rho)

    def conjugate_at(self, rho: Array, scale: float, z: Array) -> float:
        """``L*(-scale rho)``; if known at gradients only, at a share of the gradient at the scores ``z``."""
        return float(np.sum(self.conjugate_parts(rho, scale, z)))

    @abc.abstractmethod
    def largest(self, z: Array, shift: float | Array) -> float:
        """Return an upper bound of ``L`` at scores within ``shift`` of ``z``."""

    def balance(self, rho: Array) -> Array:
        """Return coefficients near slopes, of zero sum with an intercept, with the domain part `inside`."""
        return rho

    def inside(self, rho: Array) -> Array:
        """Return balanced coefficients moved inside the domain after rounding."""
        return rho

    @abc.abstractmethod
    def parts(self, z: Array) -> Any:
        """Return the summands of ``L(z)``: (N,), or a single number."""

    @abc.abstractmethod
    def conjugate_parts(self, rho: Array, scale: float, z: Array) -> Any:
        """Return the summands of ``L*(-scale rho)``; ``z`` are scores behind ``rho`` if available."""

    @abc.abstractmethod
    def inner(self, z: Array, rho: Array) -> Any:
        """Return the parts of the inner product matching `parts`."""

    @abc.abstractmethod
    def feasible(self, rho: Array) -> Array:
        """Return coefficients near ``rho`` in the domain of the conjugate, of zero sum with an intercept."""

    @abc.abstractmethod
    def best_intercepts(self) -> Any:
        """Return the best constant scores, a single number or (T,)."""

    @abc.abstractmethod
    def coefficients_of(self, b: float | Array) -> Array:
        """Return the smallest dual coefficients of constant scores, of zero sum with an intercept."""

    def candidates(self, rho: Array, z: Array) -> Iterable[tuple[Array, Array]]:
        """Return candidate dual coefficients for the certificate, with scores, the likeliest first."""
        return [(self.feasible(rho), z)]

    def clip_to_domain(self, rho: Array) -> Array:
        """Return coefficients near ``rho`` in the domain of the conjugate, whatever their sums are."""
        return self.feasible(rho)

    def best_along(self, z: Array) -> Array:
        """Return scores ``z + A g`` of the smallest loss, at which slopes are orthogonal to the free directions.

        Newton's method, damped. Of a loss without a minimizer, as of classes that the directions separate, slopes
        vanish on the way, so it ends too.
        """
        assert self.basis is not None
        basis, ends = self.basis, np.eye(z[0].size)
        ways = [(column[:, None] * end).reshape(z.shape) for column in basis.T for end in ends]
        value, gradient = self.value(z), self.gradient(z)
        for _ in range(MOST_NEWTON_STEPS):
            slope = np.array([np.vdot(way, gradient) for way in ways])
            if np.abs(slope).max() <= ORTHOGONAL * np.linalg.norm(gradient):
                break
            curvature = self.curvature(z)
            bends = [curvature.product(way) for way in ways]
            hessian = np.array([[np.vdot(way, bend) for bend in bends] for way in ways])
            step = -np.linalg.lstsq(hessian, slope, rcond=1e-14)[0]
            along, gain = (basis @ step.reshape(-1, len(ends))).reshape(z.shape), float(slope @ step)
            length, most = 1.0, value + EPS * abs(value)
            while length > EPS:  # at most 52 halvings
                if self.value(z + length * along) <= most + ENOUGH * length * gain:
                    break
                length /= 2
            tried = self.gradient(z + length * along)
            left = max(abs(float(np.vdot(way, tried))) for way in ways)
            if length <= EPS or (left >= np.abs(slope).max() and left <= NEARLY * np.linalg.norm(gradient)):
                break
            z, gradient = z + length * along, tried
            value = self.value(z)
        return z

    def proves(self, rho: Array) -> bool:
        """Return whether coefficients are orthogonal to the free directions up to rounding, as needed for a bound."""
        if self.basis is None:
            return True
        return float(np.abs(self.basis.T @ rho).max(initial=0.0)) <= NEARLY * float(np.linalg.norm(rho))

    @abc.abstractmethod
    def primal_rounding(self, problem: Sizes, model: tuple[Array, Array, float | Array], f: Array, t: Array) -> float:
        """Return by how much rounding may move the primal value of a model with the scores and block norms."""

    @abc.abstractmethod
    def dual_rounding(self, problem: Sizes, rho: Array, signed: Array, conjugates: Array | float, z: Array) -> float:
        """Return by how much rounding may move the dual value at feasible coefficients."""


def conjugate_between(inside: Callable[[Array, Array], Array], y: Array, lo: Array, hi: Array, r: Array) -> Array:
    """Return a conjugate, known ``inside`` the dual box ``lo <= r <= hi``, at any ``r``: infinite beyond rounding."""
    clipped = np.minimum(np.maximum(r, lo), hi)
    with np.errstate(over="ignore", invalid="ignore"):
        values = inside(y, clipped)
        if (clipped == r).all():
            return values
        return np.where((r >= lo - _slack(lo)) & (r <= hi + _slack(hi)), values, np.inf)


def _slack(end: Array) -> Array:
    """Return the rounding tolerance at an end of the dual box."""
    domain_slack = 1e-12  # relative overshoot of the dual box that is rounding: ``(s * bound) / s`` may miss by one ulp
    return domain_slack * np.maximum(1.0, np.where(np.isfinite(end), np.abs(end), 0.0))


class SampleSum(BoundLoss):
    """``sum_i s_i l(y_i, z_i)`` for targets and weights (N,)."""

    def __init__(self, loss: Any, y: Array, weight: Array) -> None:
        self.loss, self.y, self.weight = loss, y, weight

    @property
    def each(self) -> Any:
        """The loss of a single score."""
        return self.loss

    @property
    def entry_weight(self) -> Array:
        """Sample weights in the shape of entries of scores."""
        return self.weight

    @property
    def outputs(self) -> Sequence[SampleSum]:
        """The sums of the single outputs: of a single output itself."""
        return (self,)

    @property
    def entries(self) -> SampleSum:
        """The same sum with a sample for every entry of scores, output after output: of a single output itself."""
        return self

    def total(self, losses: Array) -> float:
        """Return the weighted sum of losses of all entries of scores."""
        return float(self.weight @ losses)

    # --- primal ------------------------------------------------------------------------------------------------------

    def value(self, z: Array) -> float:
        with np.errstate(over="ignore"):
            return float(np.dot(self.weight, self.loss.value(self.y, z)))

    def parts(self, z: Array) -> Array:
        """``s_i l(y_i, z_i)`` (N,)."""
        return self.weight * self.loss.value(self.y, z)

    def gradient(self, z: Array) -> Array:
        """``s_i dl/dz_i``, of the shape of the scores."""
        return self.entry_weight * self.loss.derivative(self.y, z)

    def curvature(self, z: Array) -> Curvature:
        """``diag(s l'')``."""
        return SampleCurvature(self.entry_weight * self.each.second_derivative(self.y, z))

    def curvature_bound(self, z: Array) -> Curvature:
        """Return the second derivatives, none far below the largest."""
        return SampleCurvature(self.entry_weight * lifted(self.each.second_derivative(self.y, z)))

    def smoothed(self, mu: float | Array, center: float | Array = 0.0) -> ScoreFunction:
        """Return a smooth loss unchanged, else smoothed by ``mu``; reject other forms."""
        if self.each.smooth:
            return self
        check_smoothable(self.each)
        return Smoothed(self, mu, center) if np.min(mu) > 0 else self

    def largest(self, z: Array, shift: float | Array) -> float:
        """Return the sum of the maxima of all losses, attained at ends by convexity."""
        if np.max(shift) <= 0:
            return self.value(z)
        return self.total(np.maximum(*(self.each.value(self.y, z + sign * shift) for sign in (-1.0, 1.0))))

    def best_intercepts(self) -> Any:
        return self.loss.best_intercept(self.y, np.zeros_like(self.y, dtype=np.float64), self.weight)

    # --- dual --------------------------------------------------------------------------------------------------------

    def conjugate_parts(self, rho: Array, scale: float, z: Array) -> Array:
        """``s_i l*(y_i, -rho_i / s_i)`` (N,) at ``scale rho``."""
        return self.weight * self._conjugate(scale * rho / self.entry_weight)

    @cached_property
    def _conjugate(self) -> Callable[[Array], Array]:
        return self.loss.conjugate_of(self.y)

    def inner(self, z: Array, rho: Array) -> Array:
        """``z_i' rho_i`` (N,)."""
        return z * rho

    @cached_property
    def box(self) -> tuple[Array, Array]:
        """Ends of the box of ``rho``: ``s`` times the box of the loss."""
        lo, hi = (self.entry_weight * end for end in self.each.dual_bounds(self.y))
        for end in (lo, hi):
            if isinstance(end, np.ndarray):
                end.flags.writeable = False
        return lo, hi

    def feasible(self, rho: Array) -> Array:
        """``clip(rho - nu, lo, hi)``, the nearest point."""
        return self.project(rho, *self.box)

    def project(self, rho: Array, low: Array, high: Array) -> Array:
        """Return the nearest coefficients inside the box orthogonal to free directions or the intercept."""
        if self.basis is not None:
            return project_box_orthogonal(rho, low, high, self.basis)
        return project_box_hyperplane(rho, low, high) if self.zero_sums else np.clip(rho, low, high)

    def candidates(self, rho: Array, z: Array) -> Iterable[tuple[Array, Array]]:
        """Return the nearest feasible coefficients and, beside free directions, the nearest that stay at corners.

        Away from the corners of the loss a sample has the coefficient at one of the conjugate, an end of the box or the
        kink at zero, and pays for leaving it by the distance from there: the nearest point moves all samples alike.
        """
        nearest = [(self.feasible(rho), z)]
        return nearest if self.basis is None else chain(nearest, self._corner_candidates(rho, z))

    def _corner_candidates(self, rho: Array, z: Array) -> Iterator[tuple[Array, Array]]:
        """Yield the coefficients nearest to ``rho`` at corners of the conjugate, if any."""
        if (kept := self._corner_box(rho)) is not None:
            yield self.project(rho, *kept), z

    def _corner_box(self, rho: Array) -> tuple[Array, Array] | None:
        """Return the box, of no width where coefficients are at corners of the conjugate; None if nowhere."""
        low, high = (np.broadcast_to(end, rho.shape) for end in self.box)
        at_corner = 1e-6  # distance from a corner of the conjugate, beside the largest coefficient, that counts as none
        near, any_there = at_corner * np.abs(rho).max(initial=0.0), False
        for corner in (low, high, *([np.zeros_like(rho)] if self.each.kink > 0 else [])):
            there = np.abs(rho - corner) <= near
            low, high, any_there = np.where(there, corner, low), np.where(there, corner, high), any_there or there.any()
        return (low, high) if any_there else None

    def balance(self, rho: Array) -> Array:
        """Return coefficients with the larger side scaled down."""
        return balance(rho) if self.zero_sums else rho

    def inside(self, rho: Array) -> Array:
        """Return coefficients in the box."""
        return np.clip(rho, *self.box)

    def clip_to_domain(self, rho: Array) -> Array:
        return np.clip(rho, *self.box)

    def coefficients_of(self, b: float | Array) -> Array:
        """Return the smallest vector in ``-s dl(y, b)``."""
        none = np.zeros_like(self.y, dtype=np.float64)
        lo, hi = (self.weight * end for end in self.loss.dual_interval(self.y, none + b))
        return project_box_hyperplane(none, lo, hi) if self.zero_sums else np.clip(none, lo, hi)

    # --- rounding ----------------------------------------------------------------------------------------------------

    def primal_rounding(self, problem: Sizes, model: tuple[Array, Array, float | Array], f: Array, t: Array) -> float:
        """Return the effect of rounding of scores on the loss, and of norms on the penalty."""
        rho, d, b = model
        return primal_rounding(problem, rho, d, f, float(b), t, self.loss.value(self.y, f + b))

    def dual_rounding(self, problem: Sizes, rho: Array, signed: Array, conjugates: Array | float, z: Array) -> float:
        """Return the rounding errors of sums and norms, and the cost of an exactly zero sum."""
        summed = inner(np.abs(self.y) + np.abs(z), np.abs(rho)) + float(np.abs(conjugates).sum())
        moved = self._balancing(rho, conjugates, z) if problem.fit_intercept else 0.0
        return dual_rounding(problem, rho, signed, summed) + moved

    def _balancing(self, rho: Array, conjugates: Array | float, z: Array) -> float:
        """Return what the conjugate may rise by as coefficients that sum to zero up to rounding come to do so.

        All that can are moved alike, as by `feasible`. Far targets of samples with little weight have small
        coefficients, but a slope of the conjugate as steep as they are far.
        """
        off = growth(len(rho)) * np.abs(rho).sum(axis=0) + np.abs(rho.sum(axis=0))
        rising = 0.0
        for sign in (-1.0, 1.0):
            near = rho + sign * off / len(rho)
            able = np.maximum((self.inside(near) == near).sum(axis=0), 1)
            there = self.conjugate_parts(self.inside(rho + sign * off / able), 1.0, z)
            rising = max(rising, float(np.sum(there - conjugates)))
        return rising


class OutputSum(SampleSum):
    """``sum_i s_i l(y_i, z_i)`` with targets ``y_i`` and scores ``z_i`` (T,) of several outputs."""

    @property
    def each(self) -> Any:
        return self.loss.each

    @property
    def entry_weight(self) -> Array:
        """Sample weights, (N, 1)."""
        return self.weight[:, None]

    def total(self, losses: Array) -> float:
        return float(self.weight @ losses.sum(axis=1))

    @cached_property
    def outputs(self) -> Sequence[SampleSum]:
        """The sums of the single outputs; for a coupled loss the whole."""
        if self.loss.coupled:
            return (self,)
        return tuple(SampleSum(self.each, np.ascontiguousarray(column), self.weight) for column in self.y.T)

    @cached_property
    def entries(self) -> SampleSum:
        """The same sum over as many samples of a single score as there are scores; not of a coupled loss."""
        return SampleSum(self.each, self.y.T.ravel(), np.tile(self.weight, self.y.shape[1]))

    def curvature(self, z: Array) -> Curvature:
        """``diag(s l'')``, or of the multinomial loss ``s (diag(p) - p p')``."""
        if self.loss.coupled:
            return OutputCurvature(self.loss.curvature(self.y, z), self.weight)
        return super().curvature(z)

    def curvature_bound(self, z: Array) -> Curvature:
        """Return a diagonal above every Hessian."""
        if self.loss.coupled:
            return SampleCurvature(np.tile(self.loss.curvature_bound * self.weight, (self.y.shape[1], 1)).T)
        return super().curvature_bound(z)

    def largest(self, z: Array, shift: float | Array) -> float:
        """Return the sum of the maxima of all losses, for a coupled loss by the Lipschitz constant."""
        if self.loss.coupled:
            most = np.maximum(np.broadcast_to(shift, z.shape).max(axis=1), 0.0)
            return self.value(z) + self.loss.steepness * float(self.weight @ most)
        return super().largest(z, shift)

    def inner(self, z: Array, rho: Array) -> Array:
        return (z * rho).sum(axis=1)

    def feasible(self, rho: Array) -> Array:
        """Return coefficients in the domain of the loss, for a coupled loss slopes at nearby scores."""
        if self.basis is None:
            return self.loss.feasible(self.y, rho, self.weight, sums=self.zero_sums)
        if self.loss.coupled:
            return -self.gradient(self.best_along(self.loss.scores_behind(self.y, rho, self.weight)))
        return self.project(rho, *self.box)

    def _corner_box(self, rho: Array) -> tuple[Array, Array] | None:
        """Return the coefficients kept at corners; None for a coupled loss without corners."""
        return None if self.loss.coupled else super()._corner_box(rho)

    def project(self, rho: Array, low: Array, high: Array) -> Array:
        """Return the same for every output."""
        ends = (np.broadcast_to(end, rho.shape).T for end in (low, high))
        columns = zip(rho.T, *ends, strict=True)
        return np.array([super(OutputSum, self).project(*column) for column in columns]).T

    def clip_to_domain(self, rho: Array) -> Array:
        return self.loss.feasible(self.y, rho, self.weight, sums=False)

    def balance(self, rho: Array) -> Array:
        """Return columns with the larger sides scaled down, for a coupled loss coefficients in the domain."""
        if self.loss.coupled:
            return self.feasible(rho)
        return np.array([balance(column) for column in rho.T]).T if self.zero_sums else rho

    def inside(self, rho: Array) -> Array:
        return rho if self.loss.coupled else super().inside(rho)

    def _balancing(self, rho: Array, conjugates: Array | float, z: Array) -> float:
        """Return the cost of balancing; 0 for a coupled loss on labels."""
        return 0.0 if self.loss.coupled else super()._balancing(rho, conjugates, z)

    def best_intercepts(self) -> Array:
        return self.loss.best_intercepts(self.y, np.zeros(self.y.shape), self.weight)

    def coefficients_of(self, b: float | Array) -> Array:
        """Return the negative gradient; at kinks the smallest valid coefficients."""
        z = np.broadcast_to(b, self.y.shape).astype(np.float64)
        if self.each.smooth:
            return self.feasible(-self.gradient(z))
        columns = [SampleSum(self.each, column, self.weight) for column in self.y.T]
        for own in columns:
            own.zero_sums = self.zero_sums
        return np.column_stack([own.coefficients_of(one) for own, one in zip(columns, z[0], strict=True)])

    def primal_rounding(self, problem: Sizes, model: tuple[Array, Array, float | Array], f: Array, t: Array) -> float:
        rho, d, b = model
        errors = score_errors(problem, rho, d)[:, None] + FEW * EPS * (np.abs(f + b) + np.abs(self.y))
        summed = growth(problem.n_samples) * self.value(f + b)
        return coupled_primal_rounding(problem, rho, d, t, np.abs(self.gradient(f + b)) * errors, summed)


class CoupledLossBound(BoundLoss):
    """A loss of all samples together, which does not change when the scores of a group of samples are shifted alike.

    The dual variable sums to zero over every group. ``L*`` is known at gradients only: dual points are ``-grad L`` at
    the scores of a model, or at scores near them whose gradient comes closer to the coefficients.
    """

    couples_samples: ClassVar[bool] = True
    steepness: float  # how far it can change at most when no score changes by more than one
    weight: Array  # (N,), of samples

    @abc.abstractmethod
    def hazards(self, z: Array) -> Array:
        """Return the non-negative part of the gradient (N,): how much every sample matters at the scores."""

    def curvature_bound(self, z: Array) -> Curvature:
        """Return the diagonal above the Hessian, and a little for samples without any."""
        hazards = self.hazards(z)
        return SampleCurvature(hazards + FLOOR * float(hazards.mean()))

    def largest(self, z: Array, shift: float | Array) -> float:
        """Return the loss and the Lipschitz constant."""
        return self.value(z) + self.steepness * max(float(np.max(shift)), 0.0)

    @abc.abstractmethod
    def inverse_curvature(self, z: Array) -> RiskInverse:
        """Return the inverse of the Hessian on vectors of zero sum in every group.

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
        """Return values (..., N) minus the mean of every group, zero for samples of none."""

    def parts(self, z: Array) -> float:
        return self.value(z)

    def conjugate(self, rho: Array) -> float:
        """Refuse: the conjugate is known at gradients of the loss only."""
        raise IncompatibleError("The conjugate of a loss of all samples together is known at gradients only.")

    def conjugate_parts(self, rho: Array, scale: float, z: Array) -> float:
        return self.conjugate_along(z, scale)

    def inner(self, z: Array, rho: Array) -> float:
        return float(z @ rho)

    def feasible(self, rho: Array) -> Array:
        """Return coefficients centered in every group, a linear projection."""
        return self.centered(rho)

    def best_intercepts(self) -> float:
        """Return 0: a shift of all scores changes nothing."""
        return 0.0

    def coefficients_of(self, b: float | Array) -> Array:
        """Return the coefficients of zero scores."""
        return -self.gradient(np.zeros(len(self.weight)))

    def candidates(self, rho: Array, z: Array) -> Iterator[tuple[Array, Array]]:
        """Yield the dual point of the scores, and of scores with a gradient closer to the coefficients."""
        first = z if self.basis is None else self.best_along(z)
        yield -self.gradient(first), first
        behind = self._scores_behind(self.centered(rho), z)
        if behind is not z:
            behind = behind if self.basis is None else self.best_along(behind)
            yield -self.gradient(behind), behind

    def _scores_behind(self, rho: Array, f: Array) -> Array:
        """Return scores near ``f`` with ``grad L = -rho``, by damped Newton steps; ``f`` itself if too far."""
        missing = rho + self.gradient(f)
        size, unit = float(np.abs(missing).sum()), float(np.abs(rho).sum())
        far = 0.5  # share of the coefficients that scores may miss where a better dual point is looked for
        if not EPS * unit < size < far * unit:
            return f
        z = f
        slowest = 0.98  # reduction of what is missing that makes another step worth while
        damped_above = 0.5  # change of a score in a full Newton step, above which the step is shortened
        for _ in range(MOST_STEPS):
            step = self.inverse_curvature(z).product(missing)
            change = float(np.abs(step).max())
            tried = z - step * (np.log1p(change) / change if change > damped_above else 1.0)
            left = rho + self.gradient(tried)
            if not np.abs(left).sum() < slowest * size:
                break
            z, missing, size = tried, left, float(np.abs(left).sum())
        return z

    def _sizes(self, f: Array) -> float:
        """Return the total size of the terms of the loss."""
        return float(self.weight @ (1.0 + np.abs(f)))

    def primal_rounding(self, problem: Sizes, model: tuple[Array, Array, float | Array], f: Array, t: Array) -> float:
        """Return the effect of rounding of scores on the loss, and of norms on the penalty."""
        rho, d, _ = model
        errors = score_errors(problem, rho, d) + FEW * EPS * np.abs(f)
        summed = growth(problem.n_samples) * (self.value(f) + self._sizes(f))
        return coupled_primal_rounding(problem, rho, d, t, self.gradient(f) * errors, summed)

    def dual_rounding(self, problem: Sizes, rho: Array, signed: Array, conjugates: Array | float, z: Array) -> float:
        """Return the rounding errors of sums and norms."""
        return dual_rounding(problem, rho, signed, abs(float(conjugates)) + self._sizes(z))
