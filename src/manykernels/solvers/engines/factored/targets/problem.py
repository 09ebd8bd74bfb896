"""The problem of several targets with shared weights as one of a single target on a copy of the samples for each."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from manykernels.objective.problem import Problem
from manykernels.objective.shared import SharedProblem
from manykernels.solvers.engines.factored.loss_sides import LossSide
from manykernels.solvers.engines.factored.objective import balance
from manykernels.solvers.engines.factored.targets.loss_sides import CoupledScores, SumOverTargets
from manykernels.solvers.engines.factored.targets.stack import StackOfTargets

Array = NDArray[Any]


class ProblemOfTargets(Problem):
    """``T N`` samples, kernels ``K_m (x) I``, an intercept for each copy: the same primal, dual and block norms.

    Made by `of`. Vectors over samples are those of target after target. ``loss`` is that of one score; the loss of
    a problem whose targets act on each other is in its `side`.
    """

    shared: ClassVar[bool] = True
    whole: SharedProblem

    @classmethod
    def of(cls, problem: SharedProblem) -> ProblemOfTargets:
        """Return a shared problem in this form."""
        stack: Any = problem.stack
        flat = cls(
            StackOfTargets(stack, problem.n_targets),
            problem.y.T.ravel(),
            problem.loss.each,
            problem.regularizer,
            fit_intercept=problem.fit_intercept,
            sample_weight=np.tile(problem.weight, problem.n_targets),
            kernel_penalties=problem.penalties,
        )
        flat._set("whole", problem)
        return flat

    def _check_solvable(self) -> None:
        """Nothing: the problem that this one is another form of was checked."""

    @property
    def n_targets(self) -> int:
        """Number of targets T."""
        return self.whole.n_targets

    @cached_property
    def tiny(self) -> float:
        """Floor of the denominator of the relative gap."""
        return self.whole.tiny

    def columns(self, vector: Array) -> Array:
        """Return a vector over all copies as one column a target, (N, T)."""
        return vector.reshape(self.n_targets, -1).T

    def constant_scores(self, b: Any) -> Array:
        """Scores (T N,) of the model without kernels."""
        return np.repeat(np.broadcast_to(np.asarray(b, dtype=np.float64), self.n_targets), self.whole.n_samples)

    def zero_model(self) -> tuple[Array, Any]:
        """Return the optimal dual coefficients (T N,) and intercepts (T,) of the model without kernels."""
        rho, b = self.whole.zero_model()
        return rho.T.ravel(), b

    def empirical_loss(self, z: Array) -> float:
        """Return the loss of all targets."""
        return self.whole.empirical_loss(self.columns(z))

    def conjugate_loss(self, rho: Array) -> float:
        """Return the conjugate of the loss of all targets."""
        return self.whole.conjugate_loss(self.columns(rho))

    def side(self, mu: float) -> LossSide:
        """Return the loss as a function of all scores."""
        return CoupledScores(self.whole) if self.whole.loss.coupled else SumOverTargets(self, mu, self.n_targets)

    def balanced(self, rho: Array) -> Array:
        """Return dual coefficients in the domain of the loss, of zero sum for each intercept, near those in the box."""
        if self.whole.loss.coupled:
            sums = self.fit_intercept
            return self.whole.loss.feasible(self.whole.y, self.columns(rho), self.whole.weight, sums=sums).T.ravel()
        return np.concatenate([balance(row) for row in self.columns(rho).T]) if self.fit_intercept else rho

    def in_domain(self, rho: Array) -> Array:
        """Return dual coefficients that rounding may have left outside the box, inside."""
        return rho if self.whole.loss.coupled else np.clip(rho, *self.dual_box)
