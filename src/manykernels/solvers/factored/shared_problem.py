"""The problem of several targets with shared weights on factors: dual norms cost O(N), losses may have kinks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.exceptions import IncompatibleError
from manykernels.grams.factored import FactoredStack
from manykernels.objective.losses import get_loss
from manykernels.objective.projection import project_box_hyperplane
from manykernels.objective.shared import Separable, SharedLoss, SharedProblem, get_shared_loss
from manykernels.solvers.factored.fallback import GramResult, result_of
from manykernels.solvers.factored.problem import BoundedNorms
from manykernels.solvers.factored.targets_problem import ProblemOfTargets
from manykernels.solvers.factored.working_matrices import WorkingMatrices
from manykernels.solvers.solution import Solution


class FlatProblem(BoundedNorms, ProblemOfTargets):
    """The same as one of a single target on a copy of the samples for each; vectors are those of target after target.

    Made by `of`.
    """


class FactoredSharedProblem(SharedProblem):
    """A `SharedProblem` whose stack is a `FactoredStack`; losses with kinks are summed over the targets too.

    Parameters
    ----------
    stack : FactoredStack
    y, loss, regularizer, fit_intercept, sample_weight, kernel_penalties
        As in `SharedProblem`.

    Raises
    ------
    IncompatibleError
        If the rows are on workers.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import KernelBank, get_regularizer
    >>> from manykernels.grams.factored import factored_stack
    >>> from manykernels.solvers.factored.solver import FactoredNewton
    >>> X = np.random.default_rng(0).uniform(-2, 2, (100, 2))
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 0])])
    >>> stack = factored_stack(X, KernelBank.per_feature(widths=[0.5, 1.0]))
    >>> problem = FactoredSharedProblem(stack, Y, "epsilon_insensitive", get_regularizer("l1", 3.0))
    >>> solution = FactoredNewton().solve(problem)
    >>> str(solution.status), solution.dual_coef.shape, solution.intercept.shape
    ('converged', (100, 2), (2,))
    """

    def _known_loss(self) -> Any:
        if isinstance(self.loss, SharedLoss):
            return self.loss
        known = get_loss(self.loss)
        return get_shared_loss(known) if known.smooth else Separable(known)

    def _check_solvable(self) -> None:
        stack: Any = self.stack
        if isinstance(stack, FactoredStack) and getattr(stack.table, "distributed", False):
            raise IncompatibleError(
                "Targets cannot share their kernel weights where rows are on workers. Take outputs='own', which "
                "gives every target weights of its own, or rows in memory."
            )
        super()._check_solvable()

    def zero_model(self) -> tuple[Array, Any]:
        """Return the optimal dual coefficients (N, T) and intercepts (T,) of the model without kernels.

        Returns
        -------
        rho : ndarray of shape (N, T)
        b : ndarray of shape (T,)
        """
        loss = self.loss.each
        if loss.smooth:
            return super().zero_model()
        b = self._best_constant()
        ends = [loss.dual_interval(y, scores) for y, scores in zip(self.y.T, self.constant_scores(b).T, strict=True)]
        low, high = (self.weight[:, None] * np.column_stack(side) for side in zip(*ends, strict=True))
        nothing = np.zeros(self.n_samples)
        if not self.fit_intercept:
            return self.feasible_dual(np.clip(0.0, low, high)), b
        columns = [project_box_hyperplane(nothing, *pair) for pair in zip(low.T, high.T, strict=True)]
        return self.feasible_dual(np.column_stack(columns)), b

    def dual_norms(self, rho: Array) -> Array:
        """Return ``u_m = sqrt(tr(R' K_m R)) / w_m`` (M,), or bounds from above.

        Parameters
        ----------
        rho : ndarray of shape (N, T)

        Returns
        -------
        ndarray of shape (M,)
        """
        return FlatProblem.of(self).dual_norms(rho.T.ravel())


# Several targets with shared weights on N x N matrices, as far as factors do not do.


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
