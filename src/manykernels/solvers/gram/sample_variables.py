"""The sample side of the primal-dual Newton system: dual coefficients against the loss.

Every class keeps the dual coefficients ``rho`` strictly inside the domain of the conjugate loss together with whatever
multipliers that needs, and linearizes the scores ``z`` that ``rho`` implies:

    dz = shift - diagonal * drho

``diagonal`` is positive, so the reduced Newton matrix ``diag(diagonal) + sum_m d_m K_m + ...`` is positive definite.
Complementarity products of the multipliers are driven to ``target`` (the barrier parameter).

Three classes: conjugates on boxes, whose ends have multipliers; those that are their barrier, without multipliers, for
steps that a line search shortens; and losses that couple samples, where a matrix stands for the diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from manykernels.objective.problem import Problem
from manykernels.solvers.gram.newton_system import GroupedNewtonSystem, add_rank_update, center_groups
from manykernels.solvers.gram.weight_variables import lift, longest_step, nearer

if TYPE_CHECKING:
    from manykernels.objective.losses import Loss
    from manykernels.objective.losses.bound import CoupledLossBound, SampleSum
    from manykernels.objective.losses.risk_inverse import RiskInverse
    from manykernels.objective.problem import Problem
    from manykernels.validation.arrays import Array

EPSILON = 4e-16  # rounding at the ends of the domain, relative to them


class SampleVariables(Protocol):
    """The samples in the Newton system."""

    rho: Array

    n_pairs: int  # number of complementarity products

    def scores(self) -> Array:
        """Return the scores of the loss side at the current point."""

    def complementarity(self) -> float:
        """Return the sum of all complementarity products."""

    def linearize(self, target: float) -> tuple[Any, Array]:
        """Return ``(diagonal, shift)`` of the linearized scores; a `RiskInverse` first if the loss couples samples."""

    def set_direction(self, drho: Array) -> tuple[float, float]:
        """Derive the directions of all other variables from ``rho``; return their `longest_steps`."""

    def longest_steps(self) -> tuple[float, float]:
        """Return the longest feasible primal and dual steps."""

    def complementarity_after(self, primal_step: float, dual_step: float) -> float:
        """Return the sum of complementarity products after a step."""

    def move(self, primal_step: float, dual_step: float) -> bool:
        """Take the step; return whether ``rho`` moved along the direction."""

    def recenter(self, barrier: float) -> None:
        """Lift complementarity products to at least ``barrier``."""

    def shrink(self, scale: float) -> None:
        """Multiply ``rho`` by ``scale`` in (0, 1), inside the domain."""

    def interior_steps(self, share: float) -> tuple[float, float]:
        """Return primal and dual steps within a share of the distance to the ends of the domain."""

    def merit_slope(self) -> float:
        """Return the derivative along the direction of the conjugate loss with the barrier (at the last target)."""

    def merit_after(self, step: float) -> float:
        """Return the conjugate loss with the barrier after a step along the direction."""


@dataclass
class BoxSamples:
    """Losses whose conjugate is ``c(y, r) + kink |r|`` on a box, with ``c`` twice differentiable.

    Most have ``c = curvature r^2/2 - y r`` (hinge, squared, epsilon-insensitive, ...), computed by itself; for any
    other form ``c`` and the derivatives are those of the loss. The bounds of the box carry multipliers; ``kink |r|`` is
    split into ``kink (p + n)``, ``r = p - n``, ``p, n >= 0``. All pairs stand in a single pair of arrays: ``slack``
    (primal) and ``multiplier`` (dual), the sample of every in ``sample``, and ``side`` such that ``dslack = -side *
    drho`` for the bounds.
    """

    loss: Loss
    y: Array
    weight: Array
    rho: Array
    sample: Array
    side: Array
    slack: Array
    multiplier: Array
    split: Array  # (2, N): p and n; empty without a kink
    tilt: Array  # (N,): multiplier of the split, in (-kink, kink)
    _target: float = field(default=0.0, init=False)
    _diagonal: Array = field(init=False, repr=False)
    _diagonal_at: Array | None = field(default=None, init=False, repr=False)
    _second: Array | float = field(init=False, repr=False)
    _split_second: Array | float = field(init=False, repr=False)
    _residual: Array = field(init=False, repr=False)
    _split_residual: Array = field(init=False, repr=False)
    _drho: Array = field(init=False, repr=False)
    _dslack: Array = field(init=False, repr=False)
    _dmultiplier: Array = field(init=False, repr=False)
    _dsplit: Array = field(init=False, repr=False)
    _dtilt: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.kink = self.loss.kink
        self.n_pairs = self.slack.size + self.split.size
        self._quadratic = self.loss.conjugate_form == "quadratic"
        self._dsplit, self._dtilt = np.zeros_like(self.split), np.zeros_like(self.tilt)
        self._second = self._split_second = 0.0

    def scores(self) -> Array:
        z = self.tilt - self._smooth_slope()
        return z - np.bincount(self.sample, self.side * self.multiplier, minlength=z.size)

    def complementarity(self) -> float:
        return float(self.slack @ self.multiplier) + self._split_complementarity(self.split, self.tilt)

    def linearize(self, target: float) -> tuple[Array, Array]:
        self._target = target
        self._residual = target - self.slack * self.multiplier - self._second
        if self.split.size:
            self._split_residual = target - self.split * _split_multipliers(self.kink, self.tilt) - self._split_second
        return self._linear()

    def correct(self, primal_step: float, dual_step: float) -> tuple[Array, Array]:
        """Linearize once more for products near the target along the direction."""
        slack, multiplier = self.slack + primal_step * self._dslack, self.multiplier + dual_step * self._dmultiplier
        self._residual = self._residual + nearer(slack * multiplier, self._target)
        if self.split.size:
            split, tilt = self.split + primal_step * self._dsplit, self.tilt + dual_step * self._dtilt
            after = split * _split_multipliers(self.kink, tilt)
            self._split_residual = self._split_residual + nearer(after, self._target)
        return self._linear()

    def _linear(self) -> tuple[Array, Array]:
        n = self.y.size
        if self._diagonal_at is not self.rho:  # once a point, whatever the target is
            self._diagonal_at = self.rho
            own = np.bincount(self.sample, self.multiplier / self.slack, minlength=n)
            self._diagonal = own + self._smooth_curvature()
        diagonal = self._diagonal
        shift: Array = -np.bincount(self.sample, self.side * self._residual / self.slack, minlength=n)
        if self.split.size:
            conductance, surplus = self._split_terms()
            diagonal, shift = diagonal + 1.0 / conductance, shift + surplus / conductance
        return diagonal, shift

    def set_direction(self, drho: Array) -> tuple[float, float]:
        self._drho = drho
        self._dslack = -self.side * drho[self.sample]
        self._dmultiplier = (self._residual - self.multiplier * self._dslack) / self.slack
        if self.split.size:
            conductance, surplus = self._split_terms()
            self._dtilt = (surplus - drho) / conductance
            signs = np.array([[1.0], [-1.0]])
            room = _split_multipliers(self.kink, self.tilt)
            self._dsplit = (self._split_residual - signs * self.split * self._dtilt) / room
        self._second = self._dslack * self._dmultiplier
        if self.split.size:
            self._split_second = self._dsplit * np.array([[1.0], [-1.0]]) * self._dtilt
        return self.longest_steps()

    def longest_steps(self) -> tuple[float, float]:
        if not self.n_pairs:
            return 1.0, 1.0
        slacks, multipliers = [(self.slack, self._dslack)], [(self.multiplier, self._dmultiplier)]
        if self.split.size:
            slacks += zip(self.split, self._dsplit, strict=True)
            multipliers += zip(_split_multipliers(self.kink, self.tilt), (self._dtilt, -self._dtilt), strict=True)
        return longest_step(*slacks), longest_step(*multipliers)

    def complementarity_after(self, primal_step: float, dual_step: float) -> float:
        slack = self.slack + primal_step * self._dslack
        bounds = float(slack @ (self.multiplier + dual_step * self._dmultiplier))
        if not self.split.size:
            return bounds
        split = self.split + primal_step * self._dsplit
        return bounds + self._split_complementarity(split, self.tilt + dual_step * self._dtilt)

    def move(self, primal_step: float, dual_step: float) -> bool:
        self.rho = self.rho + primal_step * self._drho
        self.slack = self.slack + primal_step * self._dslack
        self.multiplier = self.multiplier + dual_step * self._dmultiplier
        if self.split.size:
            self.tilt = self.tilt + dual_step * self._dtilt
            p, n = self.split + primal_step * self._dsplit
            # By the larger of the two ``p - n = rho`` is restored: rounding of early, large steps would stay for good.
            self.split = np.where(self.rho > 0, (n + self.rho, n), (p, p - self.rho))
        self._second = self._split_second = 0.0
        return True

    def shrink(self, scale: float) -> None:
        change = (scale - 1.0) * self.rho
        self.slack = np.maximum(self.slack - self.side * change[self.sample], scale * self.slack)
        self.rho, self.split = self.rho + change, scale * self.split

    def recenter(self, barrier: float) -> None:
        if self.loss.entropic:  # whose conjugate keeps coefficients off the ends by itself
            return
        # Slacks have the size of the weights, multipliers that of the losses of single samples.
        loss = float(self.weight @ self.loss.value(self.y, np.zeros_like(self.y))) / float(self.weight.sum())
        slack, self.multiplier = lift(self.slack, self.multiplier, barrier, loss / self.weight[self.sample])
        shift = _cut_shifts(self, np.bincount(self.sample, -self.side * (slack - self.slack), minlength=self.rho.size))
        self.rho = self.rho + shift
        self.slack = self.slack - self.side * shift[self.sample]
        if self.split.size:
            # Absorb the shift of ``rho`` in ``p`` or ``n``, then raise both alike, which leaves ``rho`` in place.
            split = self.split + np.stack([np.maximum(shift, 0.0), np.maximum(-shift, 0.0)])
            room = np.minimum(barrier / split, self.kink)
            self.tilt = np.clip(self.tilt, room[0] - self.kink, self.kink - room[1])
            self.split = split + np.maximum(barrier / _split_multipliers(self.kink, self.tilt) - split, 0.0).max(axis=0)

    def interior_steps(self, share: float) -> tuple[float, float]:
        primal = longest_step((share * self.slack, self._dslack), *zip(share * self.split, self._dsplit, strict=True))
        dual = self.longest_steps()[1]
        return primal, dual if dual == 1.0 else share * dual

    def merit_slope(self) -> float:
        """Slope of the conjugates, with ``p + n`` in the place of ``|rho|``, minus ``target log`` of all slacks."""
        slope = self._smooth_slope() @ self._drho
        slope -= self._target * float((self._dslack / self.slack).sum())
        if self.split.size:
            slope += float(((self.kink - self._target / self.split) * self._dsplit).sum())
        return float(slope)

    def merit_after(self, step: float) -> float:
        rho = self.rho + step * self._drho
        value = self._smooth_value(rho)
        value -= self._target * float(np.log(self.slack + step * self._dslack).sum())
        if self.split.size:
            split = self.split + step * self._dsplit
            value += float((self.kink * split - self._target * np.log(split)).sum())
        return float(value)

    def _smooth_slope(self) -> Array:
        """Return ``dc/drho`` at the current coefficients."""
        if self._quadratic:
            return self.loss.curvature * self.rho / self.weight - self.y
        return self.loss.conjugate_derivative(self.y, self.rho / self.weight) - self.kink * np.sign(self.rho)

    def _smooth_curvature(self) -> Array:
        """Return ``d2c/drho2`` at the current coefficients."""
        if self._quadratic:
            return self.loss.curvature / self.weight
        return self.loss.conjugate_second_derivative(self.y, self.rho / self.weight) / self.weight

    def _smooth_value(self, rho: Array) -> float:
        """Return the sum of ``c``."""
        if self._quadratic:
            return float(rho @ (self.loss.curvature * rho / (2.0 * self.weight) - self.y))
        return float(self.weight @ self.loss.conjugate(self.y, rho / self.weight) - self.kink * np.abs(rho).sum())

    def _split_terms(self) -> tuple[Array, Array]:
        room = _split_multipliers(self.kink, self.tilt)
        conductance = (self.split / room).sum(axis=0)
        flow = self._split_residual / room
        return conductance, flow[0] - flow[1]

    def _split_complementarity(self, split: Array, tilt: Array) -> float:
        return float((split * _split_multipliers(self.kink, tilt)).sum()) if split.size else 0.0


def _cut_shifts(samples: BoxSamples, shift: Array) -> Array:
    """Cut shifts beyond half of the slack on the other side."""
    used = samples.side * shift[samples.sample] / samples.slack
    most = np.full(shift.size, 0.5)
    np.maximum.at(most, samples.sample, used)
    return shift * (0.5 / most)


def _split_multipliers(kink: float, tilt: Array) -> Array:
    """Return the multipliers of both parts of split coefficients, (2, N)."""
    return np.stack([kink + tilt, kink - tilt])


@dataclass
class EntropicSamples:
    """Losses whose conjugate is the respective barrier (logistic): ``rho = -s l'(y, z)`` with ``z`` tracked on its own.

    Linearizing in ``z`` instead of in ``rho`` keeps Newton fast near the ends of the domain, where the derivative of
    the conjugate is a logarithm.
    """

    loss: Loss
    y: Array
    weight: Array
    low: Array
    high: Array
    rho: Array
    z: Array
    n_pairs: int = 0
    _drho: Array = field(init=False, repr=False)
    _dz: Array = field(init=False, repr=False)
    _diagonal: Array = field(init=False, repr=False)
    _shift: Array = field(init=False, repr=False)
    _linear_at: tuple[Array, Array] | None = field(default=None, init=False, repr=False)

    def scores(self) -> Array:
        return self.z

    def complementarity(self) -> float:
        return 0.0

    def linearize(self, target: float) -> tuple[Array, Array]:
        """Linearize at the point, once whatever the target is: there are no multipliers."""
        if self._linear_at is None or self._linear_at[0] is not self.rho or self._linear_at[1] is not self.z:
            bend = np.maximum(self.loss.second_derivative(self.y, self.z), 1e-18)  # its inverse stays finite
            curvature = self.weight * bend
            self._diagonal = 1.0 / curvature
            self._shift = -(self.rho + self.weight * self.loss.derivative(self.y, self.z)) / curvature
            self._linear_at = self.rho, self.z
        return self._diagonal, self._shift

    def set_direction(self, drho: Array) -> tuple[float, float]:
        self._drho = drho
        self._dz = self._shift - self._diagonal * drho
        return self.longest_steps()

    def set_score_changes(self, samples: Array, changes: Array) -> None:
        """Overwrite the score changes of samples with cut coefficients."""
        self._dz[samples] = changes

    def longest_steps(self) -> tuple[float, float]:
        """Limit the change of scores to the valid range of the curvature of the loss."""
        step = 10.0 / max(float(np.abs(self._dz).max()), 10.0)  # a score of 10 is a probability of 0.99995
        return step, step

    def complementarity_after(self, primal_step: float, dual_step: float) -> float:
        return 0.0

    def move(self, primal_step: float, dual_step: float) -> bool:
        """Take the step; coefficients stop short of the end of the domain."""
        self.z = self.z + dual_step * self._dz
        rho = self.rho + primal_step * self._drho
        below, above = 0.01 * (self.rho - self.low), 0.01 * (self.high - self.rho)
        lowest = self.low + np.where(np.isfinite(below), below, 0.0)
        highest = self.high - np.where(np.isfinite(above), above, 0.0)
        self.rho = np.clip(rho, lowest, highest)
        return bool((self.rho == rho).all())

    def recenter(self, barrier: float) -> None:
        """Nothing to do: no multipliers."""

    def shrink(self, scale: float) -> None:
        self.rho = scale * self.rho

    def resynchronize(self) -> None:
        """Set the scores to the values implied by ``rho``."""
        self.z = self._implied_scores()

    def interior_steps(self, share: float) -> tuple[float, float]:
        """Allow for rounding at nonzero ends reachable by a coefficient."""
        below = share * (self.rho - self.low) + EPSILON * np.abs(self.low)
        above = share * (self.high - self.rho) + EPSILON * np.abs(self.high)
        primal = longest_step((below, self._drho), (above, -self._drho))
        return primal, self.longest_steps()[1]

    def merit_slope(self) -> float:
        return -float(self._implied_scores() @ self._drho)

    def _implied_scores(self) -> Array:
        tiny = 1e-300
        low = self.low + np.where(np.isfinite(self.low), EPSILON * np.abs(self.low) + tiny, 0.0)
        high = self.high - np.where(np.isfinite(self.high), EPSILON * np.abs(self.high) + tiny, 0.0)
        return -self.loss.conjugate_derivative(self.y, np.clip(self.rho, low, high) / self.weight)

    def merit_after(self, step: float) -> float:
        return float(self.weight @ self.loss.conjugate(self.y, (self.rho + step * self._drho) / self.weight))


@dataclass
class CoupledSamples:
    """Dual coefficients ``rho`` and scores ``z``, with ``rho + grad L(z) = 0`` linearized in ``z``.

    With the Hessian ``H`` at ``z``, ``dz = shift - H^- drho``, where ``H^-`` takes the place of the diagonal that
    losses of single samples have. Shifts of a whole group of scores are invisible to the loss, and the
    coefficients of a group sum to zero, which borders of the Newton system see to.
    """

    loss: CoupledLossBound
    rho: Array
    z: Array
    n_pairs: int = 0
    groups: Array = field(init=False, repr=False)
    _inverse: RiskInverse | None = field(default=None, init=False, repr=False)
    _shift: Array = field(init=False, repr=False)
    _drho: Array = field(init=False, repr=False)
    _dz: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.groups = self.loss.groups()

    def scores(self) -> Array:
        return self.z

    def complementarity(self) -> float:
        return 0.0

    def linearize(self, target: float) -> tuple[RiskInverse, Array]:
        if self._inverse is None:
            self._inverse = self.loss.inverse_curvature(self.z)
            self._shift = -self._inverse.product(self.rho + self.loss.gradient(self.z))
        return self._inverse, self._shift

    def newton_system(self, kernels: Array, inverse: RiskInverse, update: tuple[Array, Array]) -> GroupedNewtonSystem:
        """Return the system for the weighted sum of the kernels, the ``H^-`` and the ``add_rank_update``."""
        matrix = np.ascontiguousarray(kernels)
        center_groups(matrix, self.groups)
        inverse.add_to(matrix)
        add_rank_update(matrix, *update)
        return GroupedNewtonSystem(matrix, self.groups)

    def aligned(self, scores: Array) -> Array:
        """Return scores of a model, shifted by group to the tracked scores."""
        shares = self.groups * self.loss.hazards(self.z)[:, None]
        totals = shares.sum(axis=0)
        means = np.divide((self.z - scores) @ shares, totals, out=np.zeros_like(totals), where=totals > 0)
        return scores + self.groups @ means

    def set_direction(self, drho: Array) -> tuple[float, float]:
        inverse, shift = self.linearize(0.0)
        self._drho = drho
        self._dz = shift - inverse.product(drho)
        return self.longest_steps()

    def longest_steps(self) -> tuple[float, float]:
        """Damp steps by the change of scores: exponentials make Newton's method cycle otherwise."""
        change = float(np.abs(self._dz).max())
        step = float(np.log1p(change)) / change if change > 0.5 else 1.0
        return step, step

    def complementarity_after(self, primal_step: float, dual_step: float) -> float:
        return 0.0

    def move(self, primal_step: float, dual_step: float) -> bool:
        self.z = self.z + dual_step * self._dz
        self.rho = self.rho + primal_step * self._drho
        self._inverse = None
        return True

    def recenter(self, barrier: float) -> None:
        """Nothing to do: no multipliers."""

    def shrink(self, scale: float) -> None:
        self.rho = scale * self.rho
        self._inverse = None

    def interior_steps(self, share: float) -> tuple[float, float]:
        return self.longest_steps()

    def dual_value(self, scale: float) -> float:
        """Estimate minus the conjugate at ``scale * rho``, from the tracked scores less the discrepancy.

        The value is concave in ``scale`` and zero at zero.
        """
        missing = float(np.abs(self.rho + self.loss.gradient(self.z)).sum())
        at_scores = self.loss.value(self.z) + float(self.rho @ self.z)
        return scale * (at_scores - missing * (1.0 + float(np.abs(self.z).max())))

    def merit_slope(self) -> float:
        return -float(self.z @ self._drho)

    def merit_after(self, step: float) -> float:
        return -float(self.z @ (self.rho + step * self._drho))


def start_samples(problem: Problem, rho: Array, b: float, barrier: float) -> SampleVariables:
    """Return the variables of the loss at ``rho``, inside the box, for line-search steps."""
    if not problem.loss.entropic or problem.loss.couples_samples:
        return paired_samples(problem, rho, barrier)
    low, high = problem.dual_box
    samples = EntropicSamples(problem.loss, problem.y, problem.weight, low, high, rho, np.full(problem.y.size, b))
    samples.resynchronize()
    return samples


def paired_samples(
    problem: Problem, rho: Array, barrier: float, scores: Array | None = None
) -> BoxSamples | CoupledSamples:
    """Return the variables of the loss at ``rho``, inside the box, with complementarity ``barrier``.

    Of several outputs they are those of `SampleSum.entries`. The ends of the box have multipliers also where the
    conjugate is steep enough to keep coefficients off them, as that of the logistic loss: a step of Newton's method for
    an entropy alone overshoots far from the solution, and where the penalty is weak, weights are so large that to clip
    it then costs more than the step gains.
    """
    if problem.loss.couples_samples:
        joint: Any = problem.bound
        return CoupledSamples(
            joint, joint.centered(rho), joint.centered(np.zeros_like(rho) if scores is None else scores)
        )
    return _start_box(cast("SampleSum", problem.bound).entries, rho.T.ravel(), barrier)


def _start_box(bound: SampleSum, rho: Array, barrier: float) -> BoxSamples:
    low, high = bound.box
    upper, lower = np.flatnonzero(np.isfinite(high)), np.flatnonzero(np.isfinite(low))
    slack = np.concatenate([high[upper] - rho[upper], rho[lower] - low[lower]])
    side = np.concatenate([np.ones(upper.size), -np.ones(lower.size)])
    split, tilt = _start_split(rho, bound.loss.kink, barrier)
    return BoxSamples(
        bound.loss,
        bound.y,
        bound.weight,
        rho,
        np.concatenate([upper, lower]),
        side,
        slack,
        barrier / slack,
        split,
        tilt,
    )


def _start_split(rho: Array, kink: float, barrier: float) -> tuple[Array, Array]:
    """Solve ``p (kink + t) = n (kink - t) = barrier`` with ``p - n = rho``: the central point of the split."""
    if kink == 0:
        return np.zeros((2, 0)), np.zeros(rho.size)
    ratio = barrier / kink
    total = ratio + np.hypot(rho, ratio)  # p + n, the root of total^2 - 2 ratio total - rho^2
    larger = (total + np.abs(rho)) / 2
    smaller = ratio * total / (2 * larger)  # from p n = ratio total / 2: the difference would cancel
    p, n = np.where(rho > 0, larger, smaller), np.where(rho > 0, smaller, larger)
    return np.stack([p, n]), barrier * 0.5 * (1 / p - 1 / n)
