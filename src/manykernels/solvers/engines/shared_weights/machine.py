"""Functions of several targets at fixed kernel weights ``d``, by Newton's method: ``f_t = sum_m d_m K_m r_t + b_t``.

With ``K = sum_m d_m K_m`` it minimizes ``sum_i s_i l(y_i, (K R + b)_i) + tr(R' K R) / 2`` over ``R`` (N, T) and ``b``.
With ``rho = -s dl(F)`` and the curvature ``W`` of the loss at ``F = K R + b``, a step solves

    (1 + W K) dR = rho - R - W db,    1'(R + dR) = 0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from manykernels.solvers.engines.shared_weights.systems import SharedSystem
from manykernels.solvers.engines.shared_weights.tuning import ENOUGH_DECREASE, MOST_HALVINGS, MOST_STEPS

if TYPE_CHECKING:
    from manykernels.objective.shared.problem import SharedProblem
    from manykernels.validation.arrays import Array


@dataclass
class Machine:
    """A point ``(R, b)`` at the weighted sum ``gram`` of kernels.

    Attributes
    ----------
    problem : SharedProblem
    gram : (N, N)
    rho : (N, T)
    b : (T,)
    products : (N, T)
        ``K R``.
    system : SharedSystem or None
        Of the last Newton step.
    steps : int
        Newton steps so far.
    """

    problem: SharedProblem
    gram: Array
    rho: Array
    b: Array
    system: SharedSystem | None = None
    steps: int = 0

    def __post_init__(self) -> None:
        self.products = self.gram @ self.rho
        self._shrink()

    def _shrink(self) -> None:
        """Multiply the coefficients by the best power of a fourth, or by zero.

        Those of other weights may have scores so large here that a loss is flat there and Newton's method lost.
        """
        shares = np.append(0.25 ** np.arange(12.0), 0.0)
        values = np.array([self._parts(share * self.rho, share * self.products, self.b) for share in shares])
        best = shares[values.argmin(axis=0)]
        self.rho, self.products = best * self.rho, best * self.products

    def solve(self, accuracy: float) -> Machine:
        """Take Newton steps until the next one would gain less than ``accuracy``, in units of the objective."""
        for _ in range(MOST_STEPS):
            gain, length = self._step()
            if gain <= accuracy or not length:
                break
        return self

    def scores(self) -> Array:
        """``K R + b`` (N, T)."""
        return self.products + self.b

    def _step(self) -> tuple[float, float]:
        """Take one step; return half of the decrease that its slope promised, and the longest length taken."""
        drho, db = self._direction()
        dproducts = self.gram @ drho
        excess = self.rho - self._dual_of_scores()
        slopes = self._whole(excess * dproducts).sum(axis=0) - self._whole((self.rho - excess) * db).sum(axis=0)
        lengths = self._lengths(drho, db, dproducts, slopes)
        self.rho = self.rho + lengths * drho
        self.b = self.b + lengths * db
        self.products = self.products + lengths * dproducts
        self.steps += 1
        return -0.5 * float(slopes.sum()), float(lengths.max())

    def _direction(self) -> tuple[Array, Array]:
        residual = self._dual_of_scores() - self.rho
        if self.system is None or not self.problem.loss.linear_dual:
            self.system = SharedSystem(
                self.gram,
                self.problem.weight[:, None] * self.problem.loss.curvature(self.problem.y, self.scores()),
                coupled=self.problem.loss.coupled,
                intercept=self.problem.fit_intercept,
            )
        drho = residual - self.system.solve((self.gram @ residual)[None])[0]
        db = self.system.intercepts((self.rho + drho).sum(axis=0))
        if db.any():
            drho = drho - self.system.solve(np.broadcast_to(db, drho.shape)[None])[0]
        return drho, db

    def _dual_of_scores(self) -> Array:
        return -self.problem.weight[:, None] * self.problem.loss.derivative(self.problem.y, self.scores())

    def _lengths(self, drho: Array, db: Array, dproducts: Array, slopes: Array) -> Array:
        """Return a length for each part that moves on its own: the longest halved one that decreases it enough."""
        start = self._parts(self.rho, self.products, self.b)
        lengths = np.ones(slopes.shape)
        rounding = 1e-15 * np.abs(start)
        for _ in range(MOST_HALVINGS):
            moved = (self.rho + lengths * drho, self.products + lengths * dproducts, self.b + lengths * db)
            bad = ~(self._parts(*moved) <= start + ENOUGH_DECREASE * lengths * slopes + rounding)
            if not bad.any():
                return lengths
            lengths = np.where(bad, lengths / 2, lengths)
        return np.where(bad, 0.0, lengths)

    def _parts(self, rho: Array, products: Array, b: Array) -> Array:
        """Objective of each target, or of all together where the loss couples them."""
        losses = self.problem.weight @ self.problem.loss.parts(self.problem.y, products + b)
        return losses + 0.5 * self._whole(rho * products).sum(axis=0)

    def _whole(self, values: Array) -> Array:
        """Sum over targets where the loss couples them."""
        return values.sum(axis=1, keepdims=True) if self.problem.loss.coupled else values
