"""One Newton step whose quadratic is minimized column after column: for ranks whose Hessian would not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.grams.factored.base import FactorOperator
from manykernels.solvers.engines.factored.group_problem import GroupProblem
from manykernels.solvers.engines.factored.objective import FactoredObjective, Point
from manykernels.solvers.engines.factored.sampling import sampled_rows
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
    joint = objective.penalty.joint
    total_power = sum(block.power(part) for block, part in zip(blocks, parts, strict=True)) if joint else 0.0
    for _ in range(MAX_SWEEPS):
        moved = 0.0
        for slot, block in enumerate(blocks):
            rest = total_power - block.power(parts[slot]) if joint else 0.0
            new = block.minimize(parts[slot], slope, max(rest, 0.0))
            step = new - parts[slot]
            if not step.any():
                continue
            image = np.zeros_like(slope)
            block.operator.add_scores(step, image)
            change += image
            image *= bends
            slope += image
            parts[slot] = new
            total_power = rest + block.power(new) if joint else 0.0
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
        self._problem = GroupProblem(self._hessian(bends), penalty.part(low, high))

    def _hessian(self, bends: Array) -> Array:
        index, weights = sampled_rows(bends, max(BLOCK_ROWS, BLOCK_PER_RANK * int(self.operator.starts[-1])))
        Z = self.operator.rows(index) * np.sqrt(weights)[:, None]
        return Z.T @ Z

    def power(self, v: Array) -> float:
        """Return what these coefficients add to the sum of powers of norms."""
        penalty = self._problem.penalty
        return penalty.total(penalty.norms(v)) - penalty.outside

    def minimize(self, v: Array, slope: Array, outside: float) -> Array:
        """Return the coefficients that minimize the quadratic in this block, the others as they are."""
        return self._problem.solve(v, self.operator.adjoint(slope), 0.1, outside)[0]
