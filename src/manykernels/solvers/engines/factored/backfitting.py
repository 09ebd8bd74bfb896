"""One Newton step whose quadratic is minimized column after column: for ranks whose Hessian would not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.grams.factored.base import FactorOperator
from manykernels.solvers.engines.factored.group_problem import GroupPenalty, GroupProblem
from manykernels.solvers.engines.factored.objective import FactoredObjective, Point
from manykernels.solvers.engines.factored.tuning import BLOCK_PER_RANK, BLOCK_ROWS, MAX_SWEEPS, SWEEP_TOL

Array = NDArray[Any]


def backfitting_step(
    objective: FactoredObjective, point: Point, slopes: Array, bends: Array, blocks: list[Block]
) -> tuple[Array, float, Array]:
    """Minimize the quadratic model at a point by sweeps over columns.

    Returns
    -------
    v : (r,)
    shift : float
        Of the intercept.
    change : (N,)
        Of the scores.
    """
    parts = [part.copy() for part in objective.split(point.v)]
    slope, change, shift = slopes.copy(), np.zeros_like(slopes), 0.0
    total, first = float(bends.sum()), 0.0
    for _ in range(MAX_SWEEPS):
        moved = 0.0
        for slot, block in enumerate(blocks):
            new = block.minimize(parts[slot], slope)
            step = new - parts[slot]
            if not step.any():
                continue
            image = np.zeros_like(slope)
            block.operator.add_scores(step, image)
            change += image
            image *= bends
            slope += image
            parts[slot] = new
            moved += float(step @ step)
        if objective.problem.fit_intercept and total > 0:
            step_b = -float(slope.sum()) / total
            shift, change = shift + step_b, change + step_b
            slope += step_b * bends
        first = max(first, moved)
        if moved <= SWEEP_TOL**2 * first:
            break
    return np.concatenate(parts), shift, change


class Block:
    """One operator's own quadratic; its Hessian may be of an earlier point, since slopes are always exact."""

    def __init__(self, objective: FactoredObjective, slot: int, bends: Array) -> None:
        self.operator: FactorOperator = objective.operators[slot]
        penalty = objective.penalty
        low = int(np.searchsorted(penalty.starts, objective.ends[slot]))
        high = low + len(self.operator.kernels)
        own = GroupPenalty(self.operator.starts, penalty.linear[low:high], penalty.curvature[low:high])
        self._problem = GroupProblem(self._hessian(bends), own)

    def _hessian(self, bends: Array) -> Array:
        bent, rank = np.flatnonzero(bends), int(self.operator.starts[-1])
        n = len(bent)
        index = bent[:: max(1, n // max(BLOCK_ROWS, BLOCK_PER_RANK * rank))]
        Z = self.operator.rows(index) * np.sqrt(bends[index])[:, None]
        total = float(bends[index].sum())
        return (Z.T @ Z) * (float(bends.sum()) / total if total > 0 else n / len(index))

    def minimize(self, v: Array, slope: Array) -> Array:
        """Return the coefficients that minimize the quadratic in this block, the others as they are."""
        gradient = self.operator.adjoint(slope)
        if not v.any():
            norms = self._problem.penalty.norms(gradient)
            if (norms <= self._problem.penalty.linear).all():
                return v
        return self._problem.solve(v, gradient, 0.1)[0]
