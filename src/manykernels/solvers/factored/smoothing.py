"""Losses as the engine reads them: value, slope and curvature; kinked ones smoothed, the error left to the gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.exceptions import IncompatibleError
from manykernels.objective.losses.base import Loss
from manykernels.objective.problem import Problem

# Numbers of the engine on factors that follow from no theorem: they decide the time, not what is certified.
#
# `benchmarks/factored.py` measures what they cost. Those of compiled loops (`group_problem`) stand with the loops: what
# is compiled is kept on disk until its own file changes.


# Newton steps
RANK_LIMIT = 3500  # of dense Hessians; above, columns take turns
DENSE_WORK = 6e10  # products that a dense Hessian may cost
SAMPLE_ROWS = 20_000
SAMPLE_PER_RANK = 15
MOST_ENTRIES = 2**25  # of factors that a Hessian of all samples together holds at once: 256 MB
CHUNK_ENTRIES, MIN_ROWS = 2**19, 1024  # of rows of factors held at once for a Hessian: 4 MB
GROUP_TOL = 0.03  # of the violation at the start of a step
STALE = 0.2  # a gap that falls by less than this factor asks for Hessians of the present point
SLOW = 0.5  # a gap that falls by less than this factor asks for more rows in them
SUFFICIENT = 1e-4
SMALLEST_STEP = 1e-3
COUPLED_REACH = 10.0  # change of a logarithm of hazards in one step: beyond, the shares in risk sets are others

# Backfitting
CYCLES = 3  # of sweeps and a step of all columns
SWEEPS_A_CYCLE = 2
SWEEP_TOL = 0.05  # a sweep whose coefficients move by this part of the first one's ends the step
OVERSHOOT = 0.7  # of a block's own step: a gain below this part of the true square shortens it
MAX_GRADIENTS = 15
RESIDUAL = 0.1  # of the first one, in the norm of the preconditioner
BLOCK_ROWS = 1500
BLOCK_PER_RANK = 15

# Objective
INTERCEPT_STEPS = 20
EXPANSIONS, CROSSING_STEPS = 60, 100  # in search of a sign change of the sum of slopes, where such steps do not do
BALANCED = 1e-9  # a sum of slopes below this part of their absolute sum is zero for a gradient

# Smoothed losses
SMOOTHING_STEPS = 20  # in search of a smoothing of a given error
FLOOR = 0.1  # of the largest curvature, given to samples without any
FIRST_DAMPING = 0.03  # of the curvatures of chords to the kinks, added to those of the rows that bend
LESS_DAMPING = 0.25  # after a whole step; as much more after a shorter one
LEAST_DAMPING = 1e-3
SMALL_DAMPING = 0.01  # above it, damping is why a gap falls slowly, not too few rows


Array = NDArray[Any]


@dataclass(frozen=True)
class SmoothedLoss:
    """A loss, smoothed by ``mu`` where it has kinks: ``max_r r (y - z) - kink |r| - mu r^2 / 2`` over its dual box.

    The smoothed value is below the loss by at most ``mu`` times half the square of the box. Its slopes are dual
    variables of the true loss, so that a certificate of the true loss contains the error.
    """

    loss: Loss
    mu: float = 0.0  # 0 for smooth losses

    @classmethod
    def of(cls, loss: Loss, mu: float) -> SmoothedLoss:
        """Return the loss itself if it is smooth, else smoothed by ``mu``; refuse what has another form."""
        if loss.smooth:
            return cls(loss)
        if not loss.piecewise_linear:
            raise IncompatibleError(
                f"The {loss.name} loss is not smooth, and its conjugate is not '-y r + kink |r|' on a box: "
                "the factored engine cannot smooth it. Use a smooth loss, or solve() with the other solvers."
            )
        return cls(loss, mu)

    def majorizer(self, y: Array, z: Array) -> Array:
        """Curvatures for steps from far away: where the second derivative vanishes, those of chords across the kinks.

        A kink of height ``h`` at distance ``d`` is below a parabola of curvature ``h / (2 d)`` through the present
        value with the present slope, on either side.
        """
        bends = self.bend(y, z)
        if self.mu == 0:
            return np.maximum(bends, FLOOR * float(bends.max()) if bends.any() else 1.0)
        lo, hi = self.loss.dual_bounds(y)
        slack, kink = y - z, self.loss.kink
        above = hi / (2.0 * np.maximum(np.abs(slack - kink), self.mu * np.maximum(hi, 0.5)))
        below = -lo / (2.0 * np.maximum(np.abs(slack + kink), self.mu * np.maximum(-lo, 0.5)))
        return np.maximum(bends, above + below)

    def _best(self, y: Array, z: Array) -> Array:
        lo, hi = self.loss.dual_bounds(y)
        slack = y - z
        pull = np.sign(slack) * np.maximum(np.abs(slack) - self.loss.kink, 0.0)
        return np.clip(pull / self.mu, lo, hi)

    def value(self, y: Array, z: Array) -> Array:
        """Return the value of each sample."""
        if self.mu == 0:
            return self.loss.value(y, z)
        r = self._best(y, z)
        return r * (y - z) - self.loss.kink * np.abs(r) - 0.5 * self.mu * r * r

    def error(self, y: Array, z: Array) -> Array:
        """Return what each sample adds to the gap of the true loss: its value, less that of its smoothed dual variable.

        Only samples near a kink add anything, so that the sum falls with the square of ``mu``.
        """
        if self.mu == 0:
            return np.zeros_like(z)
        r = self._best(y, z)
        return self.loss.value(y, z) - (r * (y - z) - self.loss.kink * np.abs(r))

    def slope(self, y: Array, z: Array) -> Array:
        """Return the derivative in ``z``."""
        return self.loss.derivative(y, z) if self.mu == 0 else -self._best(y, z)

    def bend(self, y: Array, z: Array) -> Array:
        """Return the second derivative in ``z``."""
        if self.mu == 0:
            return self.loss.second_derivative(y, z)
        lo, hi = self.loss.dual_bounds(y)
        r = self._best(y, z)
        return np.where((r > lo) & (r < hi) & (r != 0 if self.loss.kink else True), 1.0 / self.mu, 0.0)


def smoothing_error(problem: Problem, z: Array, mu: float) -> float:
    """Return what a smoothing adds to the gap of the true loss at these scores."""
    if problem.loss.smooth:
        return 0.0
    return float(problem.weight @ SmoothedLoss.of(problem.loss, mu).error(problem.y, z))


def smaller_smoothing(problem: Problem, z: Array, mu: float, goal: float) -> float:
    """Return a smoothing, ``mu`` at most, whose error at these scores is at most ``goal``."""
    for _ in range(SMOOTHING_STEPS):
        error = smoothing_error(problem, z, mu)
        if error <= goal:
            break
        mu *= float(np.sqrt(0.9 * goal / error))  # the error falls with the square
    return mu
