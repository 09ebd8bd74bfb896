"""Exact answers for piecewise quadratic losses: guess which samples are at a bound, solve for the rest, correct.

The dual of a fixed-weight learner with one of these losses is the quadratic program

    maximize_r  sum_i (y_i r_i - kink |r_i| - curvature r_i^2 / (2 s_i)) - r' gram r / 2
    subject to  lo <= r <= hi,  sum r = 0.

Started from the samples at bounds of a similar problem, a few systems of the size of the *free* samples suffice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError

from manykernels.solvers.engines.fixed_weights.tuning import AT_BOUND, MOST_ROUNDS
from manykernels.solvers.engines.newton_system import NewtonSystem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from manykernels.objective.problem import Problem
    from manykernels.validation.arrays import Array


def exchange_active_sets(problem: Problem, gram: Array, rho: Array, b: float) -> Iterator[tuple[Array, float]]:
    """Yield improving models ``(rho, b)``, starting from the active set of ``rho``; the last one may be exact.

    This is the primal-dual active set method, that is, Newton's method on the piecewise linear optimality conditions:
    fast near the solution, without any promise far from it. The caller certifies what it yields.

    References
    ----------
    M. Hintermueller, K. Ito, K. Kunisch, "The primal-dual active set strategy as a semismooth Newton method",
    SIAM J. Optim. 13 (2002).
    """
    pieces = _pieces(problem, gram, rho, b)
    for _ in range(MOST_ROUNDS):
        if not pieces.free.any():
            return
        try:
            b = pieces.solve(gram, problem.fit_intercept)
        except LinAlgError:
            return
        yield np.clip(pieces.rho, pieces.low, pieces.high), b
        if not pieces.exchange(problem, gram, b):
            return


@dataclass
class _Pieces:
    """The quadratic piece that each sample is on: its interval, its linear term, and whether it is free in between."""

    low: Array
    high: Array
    linear: Array
    diagonal: Array
    rho: Array
    free: Array

    def solve(self, gram: Array, border: bool) -> float:
        """Solve for the free samples with all others at their bounds; return the intercept."""
        free, fixed = np.flatnonzero(self.free), np.flatnonzero(~self.free & (self.rho != 0))
        right = self.linear[free] - gram[np.ix_(free, fixed)] @ self.rho[fixed]
        matrix = gram[np.ix_(free, free)]
        matrix[np.diag_indices_from(matrix)] += self.diagonal[free]
        if not (matrix.diagonal() > 0).all():
            raise LinAlgError("a free sample has no curvature")
        self.rho[free], b = NewtonSystem(matrix, border).solve(right, -float(self.rho[fixed].sum()))
        return b

    def exchange(self, problem: Problem, gram: Array, b: float) -> bool:
        """Move samples to the bounds that they crossed, free those that want to leave theirs; return whether any."""
        below, above = self.free & (self.rho < self.low), self.free & (self.rho > self.high)
        used = np.flatnonzero(self.rho)
        pull = self.linear - self.diagonal * self.rho - gram[:, used] @ self.rho[used] - b
        kept = self.free & ~below & ~above
        released = self._released(pull + self._cross_kinks(problem, pull))
        self.rho = np.clip(self.rho, self.low, self.high)
        before, self.free = self.free, kept | released
        return bool((before != self.free).any())

    def _released(self, pull: Array) -> Array:
        at_low, at_high = ~self.free & (self.rho <= self.low), ~self.free & (self.rho >= self.high)
        return (at_low & (pull > 0)) | (at_high & (pull < 0))

    def _cross_kinks(self, problem: Problem, pull: Array) -> Array | float:
        """Put samples at 0 that are pulled beyond the kink on its other side; return how that changes the pull."""
        kink = problem.loss.kink
        if kink == 0:
            return 0.0
        low, high = problem.dual_box
        at_zero = ~self.free & (self.rho == 0)
        down, up = at_zero & (self.low == 0) & (pull < -2 * kink), at_zero & (self.high == 0) & (pull > 2 * kink)
        self.low = np.where(down, low, np.where(up, 0.0, self.low))
        self.high = np.where(up, high, np.where(down, 0.0, self.high))
        change = 2 * kink * (down.astype(np.float64) - up)
        self.linear = self.linear + change
        return change


def _pieces(problem: Problem, gram: Array, rho: Array, b: float) -> _Pieces:
    low, high = problem.dual_box
    linear, kink = problem.y, problem.loss.kink
    rho = np.clip(rho, low, high)
    if kink > 0:
        positive = np.where(rho == 0, problem.y - gram @ rho - b > 0, rho > 0)
        low, high = np.where(positive, 0.0, low), np.where(positive, high, 0.0)
        linear = linear - np.where(positive, kink, -kink)
    width = np.where(np.isfinite(high - low), high - low, np.abs(rho).max())
    free = (rho > low + AT_BOUND * width) & (rho < high - AT_BOUND * width)
    rho = np.where(free, rho, np.where(rho - low < high - rho, low, high))
    return _Pieces(low, high, np.array(linear), problem.loss.curvature / problem.weight, rho, free)
