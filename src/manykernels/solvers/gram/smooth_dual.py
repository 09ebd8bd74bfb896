"""One-step Newton method for regularizers whose conjugate is differentiable ("ElastMKL").

    maximize_rho  D(rho) = - sum_i s_i l*(y_i, -rho_i/s_i) - sum_m Omega*(u_m)    s.t.  sum rho = 0

with ``u_m = sqrt(rho'K_m rho) / w_m``.
By Newton's method on ``-D``, to which only kernels of positive weight contribute: with the derivatives of
``Omega*(u_m)`` at ``u_m``,

    gradient  l*' + sum_m d_m K_m rho,      d_m = Omega*' / (w_m^2 u_m)
    Hessian   diag(l*''/s) + sum_m d_m K_m + sum_m c_m (K_m rho)(K_m rho)'

and ``c_m = (Omega*'' - w_m^2 d_m) / (w_m^4 u_m^2)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from manykernels.objective.capabilities import Capability
from manykernels.solvers.base import Solver
from manykernels.solvers.gram.dual_newton import DualNewton
from manykernels.solvers.gram.interior_point import InteriorPoint
from manykernels.solvers.gram.start import best_scale, interior_point
from manykernels.solvers.gram.tracked_kernels import SmoothConjugate, TrackedKernels

if TYPE_CHECKING:
    from manykernels.objective.problem import Problem
    from manykernels.solvers.solution import Model

FINAL_SHARE = 0.5  # of tol that the barrier is left with


@dataclass(frozen=True, kw_only=True)
class SmoothDual(Solver):
    """Newton's method on the dual itself, where the conjugate penalty is differentiable (section 4.3 of the paper).

    Maximizes ``D(rho) = - sum_i s_i l*(y_i, -rho_i/s_i) - sum_m Omega*(u_m(rho))``, with ``sum rho = 0`` if there is
    an intercept, by Newton steps with the gradient and Hessian (49)-(50) and Armijo's line search. For the elastic
    net (``l1_ratio < 1``), the block q-norm and ridge; every loss, those with a box or a kink through a barrier that
    vanishes. No augmented Lagrangian and no outer iteration: one iteration is one Newton step.

    Notes
    -----
    The model of any ``rho`` is ``d_m = Omega*'(u_m) / u_m``, so that the penalty side of the duality gap is closed
    from the start. Only kernels with positive weight enter the Hessian; for the elastic net the others are not read
    unless their dual norm may have reached the bound. The more the elastic net resembles the block 1-norm
    (``l1_ratio`` near 1), the sharper the bend of its conjugate and the more steps are needed.

    See Also
    --------
    SpicyMKL : the augmented Lagrangian, which also solves the block 1-norm.
    InteriorPoint : the same problems with weights as variables of their own.

    References
    ----------
    T. Suzuki, R. Tomioka, "SpicyMKL: a fast algorithm for multiple kernel learning with thousands of kernels",
    Machine Learning 85 (2011), section 4.3.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective.losses import get_loss
    >>> from manykernels.objective.problem import Problem
    >>> from manykernels.objective.regularizers import get_regularizer
    >>> kernels = np.stack([np.eye(4), np.ones((4, 4))])
    >>> problem = Problem(kernels, [1.0, -1.0, 1.0, -1.0], get_loss("logistic"), get_regularizer("elasticnet", 0.1))
    >>> str(SmoothDual(tol=1e-8).solve(problem).status)
    'converged'
    """

    name: ClassVar[str] = "smooth_dual"
    unpenalized: ClassVar[bool] = True
    needs: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.CURVED_CONJUGATE, Capability.SMOOTH_CONJUGATE, Capability.CURVATURE}
    )

    fallback: ClassVar[type[Solver] | None] = InteriorPoint

    @classmethod
    def preference(cls, problem: Problem) -> str:
        """Return why Newton's method on the dual beats the working set (benchmarks/auto.py); empty if it does not.

        It does where the regularizer selects kernels with a smooth conjugate, as an elastic net, and the conjugate loss
        bends somewhere inside its box, so that a barrier need not do all the work.
        """
        few = problem.stack.in_memory and problem.n_kernels <= problem.n_samples
        selects = Capability.SELECTION in problem.regularizer.capabilities
        if few and problem.unpenalized.size and not selects and problem.loss.smooth and not cls.refusals(problem):
            return "all weights are given, some of them huge, and Newton steps on the smooth dual need no barrier"
        if not few or not selects or cls.refusals(problem):
            return ""
        if problem.loss.piecewise_linear and problem.loss.kink <= 0:
            return ""
        return (
            "the dual of an elastic net is smooth, and for kernels in memory, no more of them than samples, a few "
            "Newton steps on it cost less than a working set"
        )

    def initialize(self, problem: Problem, start: Model) -> DualNewton:
        """Start from the best multiple of the given coefficients, moved into the interior."""
        rho, _, b = start
        rho = interior_point(problem, rho)
        norms = problem.dual_norms(rho)
        scale, value = best_scale(problem, rho, norms)
        kernels = TrackedKernels(problem, SmoothConjugate(problem.regularizer), scale * rho, scale * norms)
        return DualNewton(problem, kernels, b, value)

    def step(self, problem: Problem, state: DualNewton) -> None:
        """Take one Newton step."""
        state.newton_step(FINAL_SHARE * self.tol * max(abs(state.primal()), problem.tiny))

    def worth_certifying(self, problem: Problem, state: DualNewton) -> bool:
        """Certify only once the gap of the loss, which is all there is, is within ``tol``."""
        return state.gap() <= self.tol * max(abs(state.primal()), problem.tiny)

    def extract(self, problem: Problem, state: DualNewton) -> Model:
        """Return ``rho`` with the weights and the best intercept that belong to it."""
        return state.model()

    def newton_steps(self, state: DualNewton) -> int:
        """Return the number of Newton steps."""
        return state.steps
