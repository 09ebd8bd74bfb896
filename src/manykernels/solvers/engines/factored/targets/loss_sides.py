"""Losses of several targets as functions of all scores, those of target after target."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.objective.problem import Problem
from manykernels.objective.shared import SharedProblem
from manykernels.solvers.engines.factored.loss_sides import SumOverSamples
from manykernels.solvers.engines.factored.targets.curvatures import BendsOfTargets, CoupledBends

Array = NDArray[Any]

STEEPEST = 2.0  # sum of the sizes of derivatives of the multinomial loss in the scores of a sample, at most


class SumOverTargets(SumOverSamples):
    """``sum_it s_i l(y_it, z_it)``, smoothed by ``mu`` where it has kinks."""

    def __init__(self, problem: Problem, mu: float, n_targets: int) -> None:
        super().__init__(problem, mu)
        self._n_targets = n_targets

    def bends(self, z: Array) -> BendsOfTargets:
        """Return ``s l''(z)``."""
        return BendsOfTargets(super().bends(z).diagonal, self._n_targets)

    def majorizers(self, z: Array) -> BendsOfTargets:
        """Return curvatures that are safe far from the solution."""
        return BendsOfTargets(super().majorizers(z).diagonal, self._n_targets)


class CoupledScores:
    """A smooth loss whose targets act on each other, ``sum_i s_i l(y_i, z_i)``: the multinomial one."""

    def __init__(self, problem: SharedProblem) -> None:
        self.problem, self.loss, self.y = problem, problem.loss, problem.y

    def _columns(self, z: Array) -> Array:
        return z.reshape(self.y.shape[1], -1).T

    def value(self, z: Array) -> float:
        """Return the loss."""
        return self.problem.empirical_loss(self._columns(z))

    def slopes(self, z: Array) -> Array:
        """Return its gradient."""
        return np.ravel(self.problem.weight * self.loss.derivative(self.y, self._columns(z)).T)

    def bends(self, z: Array) -> CoupledBends:
        """Return its Hessian."""
        return CoupledBends(np.ascontiguousarray(self.loss.curvature(self.y, self._columns(z)).T), self.problem.weight)

    def majorizers(self, z: Array) -> BendsOfTargets:
        """Return a diagonal above every Hessian."""
        n_targets = self.y.shape[1]
        return BendsOfTargets(np.tile(self.loss.curvature_bound * self.problem.weight, n_targets), n_targets)

    def conjugate(self, z: Array, rho: Array, scale: float) -> float:
        """Return the conjugate."""
        return self.problem.conjugate_loss(scale * self._columns(rho))

    def around(self, z: Array, shift: float) -> float:
        """Return the loss and how steeply it can rise."""
        return self.value(z) + STEEPEST * max(shift, 0.0) * self.problem.total_weight
