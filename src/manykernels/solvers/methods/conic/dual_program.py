"""The dual problem written as a cone program in the dual coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import eigh

from manykernels.solvers.engines.cone_program import ConeProgram

if TYPE_CHECKING:
    from manykernels.objective.problem import Problem
    from manykernels.solvers.engines.cone_program import ConeSolution
    from manykernels.validation.arrays import Array

SMALLEST_EIGENVALUE = 1e-15  # relative to the largest one of the kernel: anything below is rounding


@dataclass
class DualProgram:
    """Cone program in ``x``, whose leading entries are ``rho / unit``; `Conic` has the formulas.

    Kernels and targets may differ by many orders of magnitude, so everything is written in natural units: dual
    coefficients in ``unit``, the objective in ``worth``, each cone in units of its own ``size``, the largest
    ``||L_m' rho||`` for ``||rho|| = unit``.
    """

    problem: Problem
    unit: float

    def __post_init__(self) -> None:
        problem = self.problem
        self._worth = problem.loss_at_zero / problem.n_samples or 1.0
        self._kind = _kind(problem)
        self._factors = [_factor(kernel) for kernel in problem.stack.block()]
        sizes = self.unit * np.array([np.linalg.norm(factor, 2) for factor in self._factors])
        self._coned = np.flatnonzero(sizes) if self._kind != "ridge" else np.zeros(0, dtype=np.intp)
        self._sizes = sizes[self._coned]
        self._lay_out_bounds()
        self._program = ConeProgram(self._excess.max(initial=self._n_loss_variables() - 1) + 1)
        self._add_kernels()
        self._add_loss()

    def solve(self, **options: object) -> tuple[Array, Array, float, int]:
        """Run Clarabel."""
        found = self._program.solve(**options)
        b = -self._worth / self.unit * float(found.multipliers[-1][0]) if self.problem.fit_intercept else 0.0
        return self.unit * found.x[: self.problem.n_samples], self._weights(found), b, found.steps

    def _weights(self, found: ConeSolution) -> Array:
        """Return ``multiplier / (w_m B_m)`` in natural units."""
        if self._kind == "ridge":
            return 1.0 / (self.problem.regularizer.strength * self.problem.penalties**2)
        multipliers = np.array([found.multipliers[k][0] for k in range(self._coned.size)])
        room = np.maximum(self._offsets + self._slopes * found.x[self._excess], np.finfo(np.float64).tiny)
        d = np.zeros(self.problem.n_kernels)
        d[self._coned] = self._worth * np.maximum(multipliers, 0.0) / room / self._sizes**2
        return d

    # --- kernels ----------------------------------------------------------------------------------------------------

    def _lay_out_bounds(self) -> None:
        """Write the bounds ``w_m B_m`` as ``offsets + slopes x[excess]``."""
        penalties, regularizer = self.problem.penalties[self._coned], self.problem.regularizer
        first, count = self._n_loss_variables(), self._coned.size
        relative = penalties / self._sizes
        self._offsets = relative * {"l1": regularizer.strength}.get(self._kind, getattr(regularizer, "threshold", 0.0))
        if self._kind == "simplex":
            self._excess_unit = np.full(count, (1.0 / relative).max(initial=0.0))
            self._excess = np.full(count, first)
        else:
            self._excess_unit = 1.0 / relative
            self._excess = first + np.arange(count)
        self._slopes = relative * self._excess_unit
        if self._kind == "l1":
            self._excess, self._slopes = np.zeros(count, dtype=np.intp), np.zeros(count)

    def _add_kernels(self) -> None:
        strength, program = self.problem.regularizer.strength, self._program
        for k, m in enumerate(self._coned):
            rows = self._factors[m].T * (self.unit / self._sizes[k])
            self._add_cone(k, rows)
        if self._kind == "ridge":
            total = self.problem.stack.combine(1.0 / (strength * self.problem.penalties**2))
            program.dense = total * (self.unit**2 / self._worth)
        elif self._kind != "l1":
            curvature = getattr(self.problem.regularizer, "curvature", strength)
            program.quadratic[self._excess] = self._excess_unit**2 / (curvature * self._worth)

    def _add_cone(self, k: int, rows: Array) -> None:
        """Demand ``||rows x|| <= offsets_k + slopes_k x[excess_k]``."""
        rank, n = rows.shape
        values, columns = np.zeros((1 + rank, n)), np.tile(np.arange(n), (1 + rank, 1))
        values[1:] = rows
        values[0, 0], columns[0] = self._slopes[k], self._excess[k]
        offset = np.zeros(1 + rank)
        offset[0] = self._offsets[k]
        self._program.add("SecondOrder", offset, values, columns)

    # --- samples ----------------------------------------------------------------------------------------------------

    def _n_loss_variables(self) -> int:
        loss, n = self.problem.loss, self.problem.n_samples
        return 3 * n if loss.entropic else 2 * n if loss.kink > 0 else n

    def _add_loss(self) -> None:
        problem, program, n = self.problem, self._program, self.problem.n_samples
        indices = np.arange(n)[:, None]
        if problem.loss.entropic:
            self._add_entropies(indices)
        else:
            program.linear[:n] = -problem.y * (self.unit / self._worth)
            program.quadratic[:n] = problem.loss.curvature / problem.weight * (self.unit**2 / self._worth)
            self._add_box(indices)
        if problem.loss.kink > 0:
            program.linear[n : 2 * n] = problem.loss.kink * (self.unit / self._worth)
            for sign in (1.0, -1.0):
                program.add("Nonnegative", np.zeros(n), np.array([[1.0, sign]]), np.hstack([n + indices, indices]))
        if problem.fit_intercept:
            program.add("Zero", np.zeros(1), np.ones((1, n)), indices.T)

    def _add_box(self, indices: Array) -> None:
        low, high = self.problem.dual_box
        for bound, sign in ((high, -1.0), (low, 1.0)):
            kept = np.isfinite(bound)
            if kept.any():
                offset = -sign * bound[kept] / self.unit
                self._program.add("Nonnegative", offset, np.array([[sign]]), indices[kept])

    def _add_entropies(self, indices: Array) -> None:
        """Bound ``p log p`` and ``(1 - p) log(1 - p)`` for ``p = y rho / s`` by a variable each."""
        n, weight = self.problem.n_samples, self.problem.weight
        slope = self.problem.y / weight * self.unit
        self._program.linear[n : 3 * n] = np.tile(weight, 2) / self._worth
        for part, start in ((1.0, 0.0), (-1.0, 1.0)):
            offset, values, columns = np.zeros(3 * n), np.zeros((3 * n, 1)), np.zeros((3 * n, 1), dtype=np.intp)
            offset[1::3], offset[2::3] = start, 1.0
            values[0::3], values[1::3, 0] = -1.0, part * slope
            columns[0::3] = indices + (n if part > 0 else 2 * n)
            columns[1::3] = indices
            self._program.add("Exponential", offset, values, columns)


def _kind(problem: Problem) -> str:
    """Return the name of the regularizer, with the end of the elastic net called by its own name."""
    regularizer = problem.regularizer
    return "l1" if regularizer.dual_constraint else regularizer.name


def _factor(kernel: Array) -> Array:
    """Return ``L`` of shape (N, rank) with ``K = L L'``; no columns for a zero kernel."""
    values, vectors = eigh(kernel)
    kept = values > SMALLEST_EIGENVALUE * max(float(values[-1]), np.finfo(np.float64).tiny)
    return vectors[:, kept] * np.sqrt(values[kept])
