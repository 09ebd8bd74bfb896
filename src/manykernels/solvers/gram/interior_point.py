"""Primal-dual interior point on all kernels at once.

    minimize_rho  sum_i s_i l*(y_i, -rho_i/s_i)   s.t.  (u_m(rho)^2 - B_m^2)/2 <= 0,   sum rho = 0

by the steps of `iteration.py`: the multipliers of the bounds are the kernel weights.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from manykernels.objective.capabilities import Capability
from manykernels.objective.problem import Certificate, Problem
from manykernels.solvers.base import Solver
from manykernels.solvers.gram.block_coordinate import BlockCoordinate
from manykernels.solvers.gram.iteration import PRUNING_TOLERANCE, PrimalDual
from manykernels.solvers.gram.start import scores_of, start_iteration
from manykernels.solvers.gram.support_vectors import suits_libsvm, support_vector_model
from manykernels.solvers.solution import Model

STEPS_FOR_ZEROS = 2  # spent, within tol, on coefficients near a bound: they can then be set to it exactly


@dataclass
class _State:
    iteration: PrimalDual
    steps: int = 0
    spare: int = STEPS_FOR_ZEROS
    certified: float = np.inf


@dataclass(frozen=True, kw_only=True)
class InteriorPoint(Solver):
    """Mehrotra predictor-corrector method on the dual written with squared norms.

    Solves ``min_{f,b} sum_i s_i l(y_i, f_i + b) + Omega(||f_1||, ..., ||f_M||)`` for every loss and every norm
    regularizer of the library, and for weights on a simplex. Every iteration reads all kernels twice (a product, and a
    weighted sum), suitable for problems with mostly active kernels (block q-norm) or M is small; the working-set solver
    runs the same iteration on the few relevant kernels.

    Notes
    -----
    Where the iteration breaks down, as it can when the optimum is a millionth of the loss at zero, block coordinate
    descent goes on from the best model, and the better of both is returned. Under ridge and the hinge loss, LIBSVM is
    tried first for tolerances of 1e-3 and above.

    See Also
    --------
    WorkingSet : the default for sparse regularizers.

    References
    ----------
    S. Mehrotra, "On the implementation of a primal-dual interior point method", SIAM J. Optim. 2 (1992).
    The conic dual: F. Bach, G. Lanckriet, M. Jordan, "Multiple kernel learning, conic duality, and the SMO
    algorithm", ICML 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective import Problem, get_loss, get_regularizer
    >>> kernels = np.stack([np.eye(4), np.ones((4, 4))])
    >>> problem = Problem(kernels, [1.0, -1.0, 1.0, -1.0], get_loss("hinge"), get_regularizer("lq", 0.1, q=1.5))
    >>> str(InteriorPoint(tol=1e-8).solve(problem).status)
    'converged'
    """

    max_iter: int = 500

    name: ClassVar[str] = "interior_point"
    supports_coupled: ClassVar[bool] = True
    unpenalized: ClassVar[bool] = True
    fallback: ClassVar[type[Solver] | None] = BlockCoordinate
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.CURVED_CONJUGATE, Capability.MULTIPLIERS})

    def solve_directly(self, problem: Problem) -> Model | None:
        """Return the support vector machine of given weights."""
        return support_vector_model(problem, self.tol) if suits_libsvm(problem, self.tol) else None

    def initialize(self, problem: Problem, start: Model) -> _State:
        """Start from the given model, moved into the interior."""
        rho, d, b = start
        return _State(start_iteration(problem, rho, b, scores_of(problem, rho, d), d))

    def step(self, problem: Problem, state: _State) -> None:
        """Take a predictor-corrector step."""
        unit = max(abs(state.iteration.bounds()[0]), problem.tiny)
        closer = 1e-3  # the share of tol that is aimed at
        closest = 1e-13  # relative gap below which nothing can be aimed at in float64
        state.iteration.newton_step(max(closer * self.tol, closest) * unit)
        state.steps += 1

    def worth_certifying(self, problem: Problem, state: _State) -> bool:
        """Certify only once the internal bounds are within ``tol`` for a few steps, or stall."""
        primal, dual = state.iteration.bounds()
        gap = (primal - dual) / max(abs(primal), problem.tiny)
        if gap > self.tol:
            stuck = 3  # steps without progress after which the best bounds so far are worth a certificate
            much_better = 0.1  # share of the last certified gap that they must have come down to
            return state.iteration.useless_steps >= stuck and gap < much_better * state.certified
        state.spare -= 1
        return state.spare < 0 or state.iteration.samples.n_pairs == 0 or problem.loss.entropic

    def observe(self, problem: Problem, state: _State, certificate: Certificate) -> None:
        """Remember the gap."""
        state.certified = min(state.certified, certificate.relative_gap)

    def extract(self, problem: Problem, state: _State) -> Model:
        """Return the model with the weights of inactive kernels set to zero."""
        return state.iteration.model(PRUNING_TOLERANCE * self.tol)

    def newton_steps(self, state: _State) -> int:
        """Return the number of steps taken."""
        return state.steps
