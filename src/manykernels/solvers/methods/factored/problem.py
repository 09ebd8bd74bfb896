"""A problem on factors: its dual norms cost O(N), or are bounds where exact values would cost O(N^2) a kernel."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from manykernels.grams.factored import FactoredStack
from manykernels.objective.joint_problem import JointProblem
from manykernels.objective.losses import JointLoss
from manykernels.objective.problem import Problem
from manykernels.solvers.methods.factored.certificate import settled_norms
from manykernels.solvers.methods.factored.tuning import PLAIN_BUDGET

Array = NDArray[Any]


class _BoundedNorms:
    """Dual norms on a `FactoredStack`; strengths of empty models are those of upper bounds on them.

    Up to a few thousand samples the norms are exact. Beyond, kernels on several columns have bounds, tightened exactly
    where they decide which norm is the largest, so that no strength asks for a pass over N x N entries of each kernel.
    """

    def dual_norms(self, rho: Array) -> Array:
        """Return ``u_m = sqrt(rho' K_m rho) / w_m`` (M,), or bounds from above.

        Parameters
        ----------
        rho : ndarray of shape (N,)

        Returns
        -------
        ndarray of shape (M,)
        """
        problem: Any = self
        stack = problem.stack
        if not isinstance(stack, FactoredStack) or stack.exact_cost * problem.n_kernels <= PLAIN_BUDGET:
            return Problem.dual_norms(problem, rho)
        return settled_norms(problem, stack, rho, stack.quad_bounds(rho))


class FactoredProblem(_BoundedNorms, Problem):
    """A problem whose stack is a `FactoredStack`."""


class FactoredJointProblem(_BoundedNorms, JointProblem):
    """The same with a loss of all samples together."""


def factored_problem(loss: Any) -> type[Problem]:
    """Return the kind of problem on factors that a loss needs."""
    return FactoredJointProblem if isinstance(loss, JointLoss) else FactoredProblem
