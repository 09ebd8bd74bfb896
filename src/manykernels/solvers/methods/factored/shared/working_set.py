"""The working set of several targets with shared weights: that of one target, on a copy of the samples for each."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from manykernels.objective.problem import Problem
from manykernels.objective.shared import SharedProblem
from manykernels.solvers.engines.factored.objective import FactoredObjective
from manykernels.solvers.engines.factored.targets.objective import ObjectiveOfTargets
from manykernels.solvers.methods.factored.matrices.working import WorkingMatrices
from manykernels.solvers.methods.factored.shared.matrices import MatricesOfTargets
from manykernels.solvers.methods.factored.shared.problem import FlatProblem
from manykernels.solvers.methods.factored.working_set import FactoredWorkingSet

Array = NDArray[Any]


class WorkingSetOfTargets(FactoredWorkingSet):
    """Solve a `FlatProblem`; see `FactoredWorkingSet`."""

    objective_kind: ClassVar[type[FactoredObjective]] = ObjectiveOfTargets
    problem: FlatProblem

    def _matrices(self, kernels: Array) -> WorkingMatrices | None:
        """Return N x N matrices to go on with; None if there is no room, or nothing that would prove a gap."""
        if not self.problem.loss.smooth or self.stack.table.chunked:
            return None
        matrices = MatricesOfTargets(self.problem.whole, self.tol)
        if matrices.needed(kernels.tolist()) > matrices.allowed:
            return None
        matrices.add(kernels.tolist())
        return matrices

    def _carried(self, objective: FactoredObjective, old: dict[int, Array]) -> Array:
        """Return coefficients on new factors: finer factors begin with the directions of coarser ones."""
        v, starts, n_targets = np.zeros(objective.rank), objective.penalty.starts, self.problem.n_targets
        for slot, kernel in enumerate(objective.kernels.tolist()):
            if kernel in old:
                part = old[kernel].reshape(n_targets, -1)
                own = v[starts[slot] : starts[slot + 1]].reshape(n_targets, -1)
                size = min(part.shape[1], own.shape[1])
                own[:, :size] = part[:, :size]
        return v


def working_set(problem: Problem, tol: float, max_rounds: int, time_limit: float) -> FactoredWorkingSet:
    """Return the working set that a problem of one target, or of several with shared weights, needs."""
    if isinstance(problem, SharedProblem):
        return WorkingSetOfTargets(FlatProblem.of(problem), tol, max_rounds, time_limit)
    return FactoredWorkingSet(problem, tol, max_rounds, time_limit)
