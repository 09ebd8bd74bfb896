"""Several targets with shared weights on N x N matrices, as far as factors do not do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from manykernels.objective.shared import SharedProblem
from manykernels.solvers.methods.factored.fallback import GramResult, result_of
from manykernels.solvers.methods.factored.matrices.working import WorkingMatrices
from manykernels.solvers.methods.factored.shared.problem import FlatProblem
from manykernels.solvers.solution import Solution

Array = NDArray[Any]


class MatricesOfTargets(WorkingMatrices):
    """See `WorkingMatrices`; what the loop takes over has vectors of target after target."""

    problem: SharedProblem

    def needed(self, kernels: Sequence[int]) -> int:
        """Return the bytes of matrices and of a solver on them, which factorizes one a target but for squares."""
        each = 0 if self.problem.loss.linear_dual else 8 * self.problem.n_targets * self.stack.n_samples**2
        return super().needed(kernels) + each

    def _result(self, solution: Solution, kernels: Array) -> GramResult:
        flat: Any = FlatProblem.of(self.problem)
        own = replace(solution, dual_coef=solution.dual_coef.T.ravel())
        return result_of(flat, flat.stack, own, kernels, set(self.whole))
