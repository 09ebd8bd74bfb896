"""The smooth part of the problem in coefficients of factors, with the sums over rows that its minimizers need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from manykernels.grams.factored import FactorOperator
from manykernels.grams.rows import RowVector, sums
from manykernels.objective.problem import Problem
from manykernels.solvers.factored.curvatures import Bends, SampleBends
from manykernels.solvers.factored.group_penalty import GroupPenalty
from manykernels.solvers.factored.loss_sides import loss_side
from manykernels.solvers.factored.smoothing import BALANCED, CROSSING_STEPS, EXPANSIONS, INTERCEPT_STEPS

Array = NDArray[Any]


def balance(rho: Array) -> Array:
    """Return dual coefficients of zero sum inside any box around 0: the larger side is scaled down."""
    positive, negative = sums(rho[rho > 0], -rho[rho < 0])
    if positive == negative:
        return rho
    if positive > negative:
        return np.where(rho > 0, rho * (negative / positive), rho)
    return np.where(rho < 0, rho * (positive / negative), rho)


@dataclass
class Point:
    """Coefficients, intercept (of several targets, (T,)) and scores ``z = Z v + b``, kept together."""

    v: Array
    b: Any
    z: Any


class FactoredObjective:
    """Loss and penalty on the factors of a working set of kernels.

    Parameters
    ----------
    problem : Problem
    operators : list of FactorOperator
    mu : float
        Smoothing of a kinked loss.
    """

    def __init__(self, problem: Problem, operators: list[FactorOperator], mu: float) -> None:
        self.problem, self.operators = problem, operators
        self.loss = loss_side(problem, mu)
        self.kernels = np.concatenate([operator.kernels for operator in operators])
        ranks = np.concatenate([np.diff(operator.starts) for operator in operators])
        self.ends = np.cumsum([0] + [int(operator.starts[-1]) for operator in operators])
        starts = np.concatenate([[0], np.cumsum(ranks)])
        self.penalty = GroupPenalty.of(problem.regularizer.take(self.kernels), starts, problem.penalties[self.kernels])
        self.rank = int(self.ends[-1])

    # --- sums over rows ---------------------------------------------------------------------------------------------

    def loss_value(self, z: Array) -> float:
        """Return the (smoothed) loss."""
        return self.loss.value(z)

    def slopes(self, z: Array) -> Array:
        """Return the gradient of the loss in the scores, ``s l'(z)``."""
        return self.loss.slopes(z)

    def bends(self, z: Array) -> Bends:
        """Return the second derivatives of the loss in the scores."""
        return self.loss.bends(z)

    def majorizers(self, z: Array) -> SampleBends:
        """Return curvatures that are safe far from the solution."""
        return self.loss.majorizers(z)

    def scores(self, v: Array) -> Array:
        """Return ``Z v`` without the intercept."""
        out = self.problem.constant_scores(0.0)
        for operator, part in zip(self.operators, self.split(v), strict=True):
            if part.any():
                operator.add_scores(part, out)
        return out

    def settle(self, point: Point) -> None:
        """Compute scores that stay with rows on workers anew: who loses them repeats this, not all steps before."""
        if isinstance(point.z, RowVector):
            point.z = self.scores(point.v) + self.spread(point.b)

    def adjoint(self, rho: Array) -> Array:
        """Return ``Z' rho``."""
        return np.concatenate([operator.adjoint(rho) for operator in self.operators])

    def split(self, v: Array) -> list[Array]:
        """Return the part of every operator."""
        return np.split(v, self.ends[1:-1])

    def value(self, point: Point) -> float:
        """Return the (smoothed) objective."""
        return self.loss_value(point.z) + self.penalty.value(point.v)

    # --- intercept and gap ------------------------------------------------------------------------------------------

    @property
    def n_free(self) -> int:
        """Number of intercepts."""
        return int(self.problem.fit_intercept)

    @property
    def products(self) -> float:
        """Products that a row costs in a dense Hessian."""
        return float(self.rank) ** 2

    def totals(self, rho: Array) -> Array:
        """Return the sums of scores' coefficients that intercepts see, (n_free,)."""
        return np.array([float(rho.sum())]) if self.n_free else np.zeros(0)

    def spread(self, b: Any) -> Any:
        """Return what intercepts add to scores, as a number where it is the same for all."""
        return float(np.sum(b))

    def intercepts(self, b: Array) -> Any:
        """Return intercepts (n_free,) as points have them."""
        return float(b.sum())

    def balanced(self, rho: Array) -> Array:
        """Return dual coefficients near ``rho`` that intercepts allow."""
        return balance(rho) if self.n_free else rho

    def settle_intercept(self, point: Point) -> Array:
        """Move the intercept to its minimum by a few safeguarded Newton steps; return the slopes there."""
        slopes = self.slopes(point.z)
        if not self.problem.fit_intercept:
            return slopes
        total, size = sums(slopes, np.abs(slopes))
        for _ in range(INTERCEPT_STEPS):
            if abs(total) <= BALANCED * size:
                break
            for step in self._intercept_steps(point.z, total):
                trial = self.slopes(point.z + step)
                left, reach = sums(trial, np.abs(trial))
                if abs(left) < abs(total):
                    point.z, point.b, slopes = point.z + step, point.b + step, trial
                    total, size = left, reach
                    break
            else:
                return self._crossed(point, total)
        return slopes

    def _crossed(self, point: Point, total: float) -> Array:
        """Move the intercept to where the sum of slopes changes its sign: on plateaus other steps lead nowhere.

        A smoothed loss has plateaus where no sample bends, between the kinks of two groups of samples.
        """

        def rest(step: float) -> float:
            return float(sums(self.slopes(point.z + step))[0])

        reach = -total / max(self.majorizers(point.z).total, 1e-300)
        for _ in range(EXPANSIONS):
            if rest(reach) * total <= 0:
                step = brentq(rest, 0.0, reach, xtol=1e-300, maxiter=CROSSING_STEPS, disp=False)
                point.z, point.b = point.z + step, point.b + step
                break
            reach *= 2.0
        return self.slopes(point.z)

    def _intercept_steps(self, z: Array, total: float) -> Iterator[float]:
        """Yield steps to try: Newton's, then those of the majorizer, shorter and shorter."""
        bend = self.bends(z).total
        if bend > 0:
            yield -total / bend
        safe = -total / max(self.majorizers(z).total, 1e-300)
        yield from (safe, 0.25 * safe, 0.05 * safe)

    def dual_value(self, z: Array, rho: Array, adjoint: Array) -> float:
        """Return the dual bound of the (smoothed) problem on these factors at slopes ``-rho`` of scores ``z``.

        ``adjoint`` is ``Z' rho``.
        """
        problem = self.problem
        u = self.penalty.norms(adjoint) / problem.penalties[self.kernels]
        regularizer = problem.regularizer.take(self.kernels)
        scale = regularizer.dual_scale(u)
        return -self.loss.conjugate(z, rho, scale) - regularizer.conjugate(scale * u)
