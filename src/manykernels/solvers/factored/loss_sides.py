"""The loss as a function of all scores, as the engine reads it: of a sum over samples, or of all samples together."""

from __future__ import annotations

from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from manykernels.objective.problem import Problem
from manykernels.solvers.factored.curvatures import Bends, JointBends, SampleBends
from manykernels.solvers.factored.smoothing import FLOOR, SmoothedLoss

Array = NDArray[Any]


class LossSide(Protocol):
    """What minimizers and certificates need of a loss."""

    def value(self, z: Array) -> float:
        """Return the (smoothed) loss."""

    def slopes(self, z: Array) -> Array:
        """Return its gradient."""

    def bends(self, z: Array) -> Bends:
        """Return its second derivatives."""

    def majorizers(self, z: Array) -> SampleBends:
        """Return curvatures that are safe far from the solution."""

    def conjugate(self, z: Array, rho: Array, scale: float) -> float:
        """Return the conjugate at a share of the slopes ``-rho`` at ``z``, or an upper bound."""

    def around(self, z: Array, shift: float | Array) -> float:
        """Return an upper bound of the loss, not smoothed, at scores that differ from ``z`` by at most ``shift``."""


class SumOverSamples:
    """``sum_i s_i l(y_i, z_i)``, smoothed by ``mu`` where it has kinks."""

    def __init__(self, problem: Problem, mu: float) -> None:
        self.problem, self.loss = problem, SmoothedLoss.of(problem.loss, mu)

    def value(self, z: Array) -> float:
        """Return the (smoothed) loss."""
        return float(self.problem.weight @ self.loss.value(self.problem.y, z))

    def slopes(self, z: Array) -> Array:
        """Return ``s l'(z)``."""
        return self.problem.weight * self.loss.slope(self.problem.y, z)

    def bends(self, z: Array) -> SampleBends:
        """Return ``s l''(z)``."""
        return SampleBends(self.problem.weight * self.loss.bend(self.problem.y, z))

    def majorizers(self, z: Array) -> SampleBends:
        """Return curvatures that are safe far from the solution."""
        return SampleBends(self.problem.weight * self.loss.majorizer(self.problem.y, z))

    def conjugate(self, z: Array, rho: Array, scale: float) -> float:
        """Return the conjugate of the smoothed loss."""
        conjugate = self.problem.conjugate_loss(scale * rho)
        if self.loss.mu == 0:
            return conjugate
        return conjugate + 0.5 * self.loss.mu * float(np.sum((scale * rho) ** 2 / self.problem.weight))

    def around(self, z: Array, shift: float | Array) -> float:
        """Return the sum of what the loss of each sample can be: it is convex, so that it is largest at an end."""
        if np.max(shift) <= 0:
            return self.problem.empirical_loss(z)
        ends = [self.problem.loss.value(self.problem.y, z + sign * shift) for sign in (-1.0, 1.0)]
        return float(self.problem.weight @ np.maximum(*ends))


class AllTogether:
    """A joint loss ``L(z)``."""

    def __init__(self, problem: Problem) -> None:
        self.joint: Any = problem.bound

    def value(self, z: Array) -> float:
        """Return the loss."""
        return self.joint.value(z)

    def slopes(self, z: Array) -> Array:
        """Return its gradient."""
        return self.joint.gradient(z)

    def bends(self, z: Array) -> JointBends:
        """Return its Hessian."""
        return JointBends(self.joint.curvature(z))

    def majorizers(self, z: Array) -> SampleBends:
        """Return the diagonal above its Hessian, and a little for samples that do not bend."""
        bends = self.joint.hazards(z)
        return SampleBends(bends + FLOOR * float(bends.mean()))

    def conjugate(self, z: Array, rho: Array, scale: float) -> float:
        """Return the conjugate, or for shares below one an upper bound."""
        return self.joint.conjugate_along(z, scale)

    def around(self, z: Array, shift: float | Array) -> float:
        """Return the loss and how steeply it can rise."""
        return self.joint.value(z) + self.joint.steepness * max(float(np.max(shift)), 0.0)


def loss_side(problem: Problem, mu: float) -> LossSide:
    """Return the loss of a problem; that of several targets knows it."""
    own = getattr(problem, "side", None)
    if own is not None:
        return cast("LossSide", own(mu))
    return AllTogether(problem) if problem.loss.couples_samples else SumOverSamples(problem, mu)
