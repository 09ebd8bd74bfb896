"""The dual as a second-order cone program, solved by Clarabel: the exact reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.linalg import LinAlgError

from manykernels.objective.capabilities import Capability
from manykernels.solvers.base import BROKEN, Solver
from manykernels.solvers.deadline import check_deadline, seconds_left
from manykernels.solvers.engines.cone_program import import_clarabel
from manykernels.solvers.engines.fixed_weights.learners import fit_learner
from manykernels.solvers.engines.refinement import refinements, with_best_intercept
from manykernels.solvers.methods.conic.dual_program import DualProgram
from manykernels.solvers.methods.interior_point import InteriorPoint

if TYPE_CHECKING:
    from manykernels.objective.problem import Problem
    from manykernels.solvers.solution import Model, Status
    from manykernels.validation.arrays import Array

# Rounding stops an interior-point method at a different place on every rung; each answer is certified on its own.
LADDER: tuple[dict[str, Any], ...] = (
    {"tolerance": 1e-10},
    {"tolerance": 1e-11, "equilibrate_enable": False},
    {"tolerance": 1e-12, "static_regularization_constant": 1e-10, "iterative_refinement_max_iter": 50},
    {"tolerance": 1e-12, "static_regularization_constant": 1e-13, "iterative_refinement_max_iter": 50},
    {"tolerance": 1e-10, "max_step_fraction": 0.9},
    {"tolerance": 1e-8},
)
MOST_STEPS = 300
CLOSEST_LEARNER = 1e-12  # relative gap of a learner at the weights found, where the answer itself is not certified
PRUNING_COST = 1.1  # factor on the gap that zeros may bring where it is above tol
PRUNING_TOLERANCE = 0.9  # of tol: the gap within which a model with zeros is preferred to a better one without


@dataclass
class _State:
    program: DualProgram
    model: Model
    attempts: int = 0
    steps: int = 0


@dataclass(frozen=True, kw_only=True)
class Conic(Solver):
    """Second-order cone program in the dual coefficients, by the interior-point solver Clarabel.

    With factors ``K_m = L_m L_m'`` the dual problem is::

        minimize_{rho, e}  sum_i s_i l*(y_i, -rho_i/s_i) + psi(e)
        subject to         ||L_m' rho|| <= w_m B_m,   sum rho = 0 with an intercept,   lo <= rho <= hi

    where ``B_m = C`` for the block 1-norm; ``B_m = C l1_ratio + e_m`` and ``psi = sum e_m^2 / (2 C (1 - l1_ratio))``
    for the elastic net; ``B_m = e`` for all kernels and ``psi = e^2 / (2 lambda)`` for weights on a simplex. Ridge is
    a quadratic program; the logistic loss brings two exponential cones a sample. The multiplier of a cone, divided
    by ``w_m B_m``, is the weight of its kernel, and the multiplier of ``sum rho = 0`` is the intercept.

    A reference for small problems: it factorizes all kernels and holds M N^2 numbers.

    Notes
    -----
    An iteration is one run of Clarabel. If its answer is not certified to ``tol``, the learner at its weights may be;
    else further runs use other settings.
    Needs the extra ``conic``: ``pip install 'manykernels[conic]'``.

    References
    ----------
    F. Bach, G. Lanckriet, M. Jordan, "Multiple kernel learning, conic duality, and the SMO algorithm", ICML 2004.
    P. Goulart, Y. Chen, "Clarabel: an interior-point solver for conic programs with quadratic objectives", 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective.problem import Problem
    >>> from manykernels.objective.regularizers import BlockL1
    >>> kernels = np.stack([np.eye(4), np.ones((4, 4))])
    >>> problem = Problem(kernels, [1.0, -1.0, 1.0, -1.0], "hinge", BlockL1(0.1))
    >>> str(Conic(tol=1e-8).solve(problem).status)
    'converged'
    """

    name: ClassVar[str] = "conic"
    fallback: ClassVar[type[Solver] | None] = InteriorPoint
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.CLOSED_CONJUGATE, Capability.CONES})
    attainable_gap: ClassVar[float] = 1e-6

    @property
    def handed_on(self) -> tuple[Status, ...]:
        """What is not certified with any settings; the message says who finished it."""
        return BROKEN

    def check(self, problem: Problem) -> None:
        """Raise `IncompatibleError` for problems it cannot solve, and ``ImportError`` without Clarabel."""
        super().check(problem)
        import_clarabel()

    def initialize(self, problem: Problem, start: Model) -> _State:
        """Factorize the kernels and write the program down."""
        unit = float(np.abs(start[0]).max()) or float(problem.weight.max())
        return _State(DualProgram(problem, unit), start)

    def step(self, problem: Problem, state: _State) -> None:
        """Run Clarabel with the next settings."""
        if state.attempts == len(LADDER):
            raise LinAlgError("Clarabel reached the limits of float64 with all settings")
        options = dict(LADDER[state.attempts])
        options |= dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), options.pop("tolerance"))
        check_deadline()
        rho, d, b, steps = state.program.solve(max_iter=MOST_STEPS, time_limit=seconds_left(), **options)
        state.attempts += 1
        state.steps += steps
        if np.isfinite(rho).all() and np.isfinite(d).all() and np.isfinite(b):
            state.model = rho, d, b

    def extract(self, problem: Problem, state: _State) -> Model:
        """Return the model with feasible coefficients, the best intercept for its scores and few kernels."""
        rho, d, _ = state.model
        if state.attempts == 0:  # out of time
            return state.model
        tol = PRUNING_TOLERANCE * self.tol
        models = [sparsest(problem, candidate, d, tol) for candidate in refinements(problem, rho, d)]
        gaps = [problem.certificate(*model).relative_gap for model in models]
        best = models[int(np.argmin(gaps))]
        return best if min(gaps) <= self.tol else _refitted(problem, best, min(gaps))

    def newton_steps(self, state: _State) -> int:
        """Return the interior-point steps of all runs."""
        return state.steps


def _refitted(problem: Problem, model: Model, gap: float) -> Model:
    """Return the model or, if it has the smaller gap, the learner at its weights.

    Scores may be 1e6 times more sensitive than the dual value, which is all that the program minimizes.
    """
    d = model[1]
    fit = fit_learner(problem, problem.stack.combine(d), tol=CLOSEST_LEARNER)
    return (fit.rho, d, fit.b) if problem.certificate(fit.rho, d, fit.b).relative_gap < gap else model


def sparsest(problem: Problem, rho: Array, d: Array, tol: float) -> Model:
    """Return the model with fewest kernels among three, if it is certified to ``tol`` or hardly worse than the others.

    The three: no kernel at all, the kernels that are not inactive, every kernel.
    """
    full = with_best_intercept(problem, rho, d)
    if not problem.regularizer.sparse:
        return full
    primal, dual = problem.primal(*full), problem.dual(rho)
    allowed = dual + max(tol * max(abs(primal), problem.tiny), PRUNING_COST * (primal - dual))
    for weights in (np.zeros_like(d), np.where(_inactive(problem, rho, d), 0.0, d)):
        model = with_best_intercept(problem, rho, weights)
        if problem.primal(*model) <= allowed:
            return model
    return full


def _inactive(problem: Problem, rho: Array, d: Array) -> Array:
    """Return which kernels have zero weight at the optimum, as far as can be told.

    There ``d_m > 0`` only where ``u_m`` is as large as it may be: of weight and slack, each relative to its largest
    value, the smaller one is zero.
    """
    squares = problem.dual_norms(rho) ** 2
    threshold = np.asarray(problem.regularizer.inactive_below, dtype=np.float64) ** 2
    bound = np.where(threshold > 0, threshold, float(squares.max()))
    shares = d * squares
    return shares * bound < (bound - squares) * float(shares.max())
