"""SpicyMKL: the dual augmented Lagrangian of Suzuki and Tomioka.

    rho     = argmin_rho sum_i s_i l*(y_i, -rho_i/s_i) + sum_m env(||alpha_m + gamma rho||_m),      sum rho = 0
    alpha_m <- prox(alpha_m + gamma rho),      gamma <- growth gamma

with the Moreau envelope ``env`` of the conjugate penalty, ``(x - gamma C)_+^2 / (2 gamma)`` for the block 1-norm.
"""

from dataclasses import dataclass
from typing import ClassVar

from manykernels.exceptions import InvalidInputError
from manykernels.objective.capabilities import Capability
from manykernels.objective.problem import Certificate, Problem
from manykernels.solvers.base import BROKEN, Solver
from manykernels.solvers.gram.interior_point import InteriorPoint
from manykernels.solvers.gram.smooth_dual import DualNewton
from manykernels.solvers.gram.start import interior_point
from manykernels.solvers.gram.tracked_kernels import MoreauEnvelope, TrackedKernels
from manykernels.solvers.solution import Model, Status
from manykernels.validation.arrays import check_positive


@dataclass
class _State:
    iteration: DualNewton
    gamma: float
    solved: bool = True


@dataclass(frozen=True, kw_only=True)
class SpicyMKL(Solver):
    """Dual augmented Lagrangian with an inner Newton method (Table 1, and Table 2 for general regularizers).

    Solves ``min_{f,b} sum_i s_i l(y_i, f_i + b) + Omega(||f_1||, ..., ||f_M||)`` for every loss and every norm
    regularizer. Every outer iteration minimizes over ``rho``, with ``sum rho = 0`` if there is an intercept,

        sum_i s_i l*(y_i, -rho_i/s_i) + sum_m env(||alpha_m + gamma rho||_m)                         (10), (47)

    where ``env`` is the Moreau envelope of the conjugate penalty (``(x - gamma C)_+^2 / (2 gamma)`` for the block
    1-norm), then sets ``alpha_m = prox(alpha_m + gamma rho)`` (11) and raises ``gamma``: the proximal point method on
    the primal problem, which converges superlinearly.

    Parameters
    ----------
    growth : float
        Factor of ``gamma`` between outer iterations, above 1; the paper uses 2. After a failed inner problem ``gamma``
        is divided by the factor: small steps are better conditioned.
    accuracy : float
        An inner problem is solved until the duality gap is at most ``accuracy^2`` times ``sum_m ||alpha_m^new -
        alpha_m||^2 / (2 gamma)``, the criterion under which the outer iteration converges.

    Notes
    -----
    Differences from the paper: the intercept is the multiplier of an equality constraint, not of a penalty; boxes and
    kinks of a loss are handled by a primal-dual barrier inside the inner Newton steps, not by slack multipliers
    (30)-(40); kernels safely below the bound are not read; and the returned weights, ``d_m = ||alpha_m|| / ||rho||_m``
    (Table 3), belong to the certified ``rho``.

    See Also
    --------
    SmoothDual : one Newton iteration without outer ones, where the conjugate penalty is differentiable.
    WorkingSet : the default for sparse regularizers.

    References
    ----------
    T. Suzuki, R. Tomioka, "SpicyMKL: a fast algorithm for multiple kernel learning with thousands of kernels",
    Machine Learning 85 (2011). The inner criterion is (B') of R. T. Rockafellar, "Augmented Lagrangians and
    applications of the proximal point algorithm in convex programming", Math. Oper. Res. 1 (1976).

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective.losses import get_loss
    >>> from manykernels.objective.problem import Problem
    >>> from manykernels.objective.regularizers import get_regularizer
    >>> x = np.linspace(0, 1, 30)
    >>> kernels = np.stack([np.exp(-((x[:, None] - x) ** 2) / (2 * width**2)) for width in (0.01, 0.1, 1.0)])
    >>> problem = Problem(kernels, np.sin(6 * x), get_loss("squared"), get_regularizer("l1", 0.1))
    >>> solution = SpicyMKL(tol=1e-8).solve(problem)
    >>> str(solution.status), solution.n_iter < 15, solution.kernel_weights[0] == 0.0
    ('converged', True, np.True_)
    """

    growth: float = 10.0
    accuracy: float = 0.5

    name: ClassVar[str] = "spicymkl"
    unpenalized: ClassVar[bool] = True
    fallback: ClassVar[type[Solver] | None] = InteriorPoint
    fallback_statuses: ClassVar[tuple[Status, ...]] = BROKEN
    needs: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.CURVED_CONJUGATE, Capability.SEPARABLE, Capability.CURVATURE}
    )

    def __post_init__(self) -> None:
        check_positive(self.accuracy, "accuracy", upper=1.0)
        if check_positive(self.growth, "growth") <= 1:
            raise InvalidInputError(f"growth must be above 1, got {self.growth!r}. The paper's value is 2.")

    def initialize(self, problem: Problem, start: Model) -> _State:
        """Start from the given model, the coefficients moved into the interior."""
        rho, d, b = start
        rho = interior_point(problem, rho)
        norms = problem.dual_norms(rho)
        largest = float(norms.max())
        gamma = problem.loss_at_zero / largest / largest if largest > 0 else 1.0
        kernels = TrackedKernels(problem, MoreauEnvelope(problem.regularizer, gamma), rho, norms, d)
        return _State(DualNewton(problem, kernels, b, problem.loss_at_zero), gamma)

    def step(self, problem: Problem, state: _State) -> None:
        """Solve the inner problem by Newton's method; from the second iteration on, update the blocks before."""
        iteration = state.iteration
        if iteration.steps:
            kernels = state.iteration.kernels
            largest = float((kernels.model_weights() * problem.penalties**2).max(initial=0.0))
            # in units of the largest kernel weight; beyond it blocks drown in the rounding of gamma rho
            largest_gamma = 1e6
            if not state.solved:
                state.gamma /= self.growth
            elif largest == 0 or state.gamma < largest_gamma * largest / self.growth:
                state.gamma *= self.growth
            kernels.update(MoreauEnvelope(problem.regularizer, state.gamma))
            state.iteration.changed()
        most_inner_steps = 60
        for _ in range(most_inner_steps):
            moving = iteration.newton_step(self._inner_tolerance(problem, iteration))
            state.solved = iteration.gap() <= self._inner_tolerance(problem, iteration)
            if state.solved or not moving:
                break

    def observe(self, problem: Problem, state: _State, certificate: Certificate) -> None:
        """Read the kernels far from activity off the pass over all kernels."""
        if state.iteration.steps:
            rho = problem.feasible_dual(state.iteration.kernels.rho)
            state.iteration.kernels.learn(rho, certificate.dual_norms)

    def extract(self, problem: Problem, state: _State) -> Model:
        """Return ``rho`` with the weights implied by the block norms and the best intercept."""
        return state.iteration.model()

    def newton_steps(self, state: _State) -> int:
        return state.iteration.steps

    def _inner_tolerance(self, problem: Problem, iteration: DualNewton) -> float:
        inner_share = 0.1  # of tol: there is no point in an inner problem solved more exactly
        enough = inner_share * self.tol * max(abs(iteration.primal()), problem.tiny)
        return max(self.accuracy**2 * iteration.kernels.distance(), enough)
