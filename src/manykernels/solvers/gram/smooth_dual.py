"""One-step Newton method for regularizers whose conjugate is differentiable ("ElastMKL").

    maximize_rho  D(rho) = - sum_i s_i l*(y_i, -rho_i/s_i) - sum_m Omega*(u_m)    s.t.  sum rho = 0

with ``u_m = sqrt(rho'K_m rho) / w_m``.
By Newton's method on ``-D``, to which only kernels of positive weight contribute: with the derivatives of
``Omega*(u_m)`` at ``u_m``,

    gradient  l*' + sum_m d_m K_m rho,      d_m = Omega*' / (w_m^2 u_m)
    Hessian   diag(l*''/s) + sum_m d_m K_m + sum_m c_m (K_m rho)(K_m rho)'

and ``c_m = (Omega*'' - w_m^2 d_m) / (w_m^4 u_m^2)``.

`DualNewton` is Newton's method with a line search for this and other smooth dual problems,

    minimize_rho  sum_i s_i l*(y_i, -rho_i/s_i) + sum_m phi(||alpha_m + gamma rho||_m)     s.t.  sum rho = 0

with ``phi`` the Moreau envelope of SpicyMKL or a differentiable conjugate. The sum is an equality constraint of every
step and the intercept the multiplier. Boxes and the kink of the loss are handled by the barrier and the multipliers of
`BoxSamples` inside the same steps. The line search is Armijo's on the objective with that barrier.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from manykernels.objective.capabilities import Capability
from manykernels.objective.problem import Problem
from manykernels.solvers.base import Solver
from manykernels.solvers.gram.interior_point import InteriorPoint
from manykernels.solvers.gram.newton_system import NewtonSystem
from manykernels.solvers.gram.sample_variables import EntropicSamples, start_samples
from manykernels.solvers.gram.start import best_scale, interior_point
from manykernels.solvers.gram.tracked_kernels import SmoothConjugate, TrackedKernels
from manykernels.solvers.solution import Model
from manykernels.validation.arrays import Array

# Numbers of Newton's method on smooth duals that follow from no theorem: they decide the time, not what is certified.
#
# `benchmarks/solvers.py --solvers spicymkl smooth_dual` and `benchmarks/auto.py` measure what they cost; coefficients
# are held at their ends because of problem 0 of `benchmarks/nasty.py`.

INSIDE = 0.98  # share of the distance to the end of the domain that a step may use up
SHORTEST = 1e-10


class DualNewton:
    """A point of the iteration."""

    def __init__(self, problem: Problem, kernels: TrackedKernels, b: float, value: float) -> None:
        start_barrier = 0.1  # of the value of the objective
        barrier = start_barrier * max(value, 1e-3 * problem.loss_at_zero, problem.tiny) / (2 * problem.n_samples)
        self.problem, self.kernels = problem, kernels
        self.samples = start_samples(problem, kernels.rho, b, barrier)
        self.steps = 0
        self._cut = False
        self._bounds: tuple[float, float] | None = None

    def newton_step(self, wanted: float) -> bool:
        """Take a single step on the way to a gap of ``wanted``; return whether there was still somewhere to go.

        A direction that does not descend is made of rounding, and is not taken.
        """
        self.steps += 1
        self._find_direction(self._target(wanted))
        if not self._slope() < 0:
            return False
        step, dual_step = self._line_search()
        self._cut = step < 1.0
        linear = self.samples.move(step, dual_step)
        self.kernels.move(step)
        if not linear:
            self.kernels.place(self.samples.rho)
        self.changed()
        return step > SHORTEST

    def changed(self) -> None:
        """Drop the caches of the previous point."""
        self._bounds = None

    def intercept(self, scores: Array) -> float:
        """Return the best intercept for the scores of the kernels."""
        problem = self.problem
        return problem.loss.best_intercept(problem.y, scores, problem.weight) if problem.fit_intercept else 0.0

    def gap(self) -> float:
        """Return the duality gap of the smooth problem.

        It is that of the loss alone, ``sum_i s_i [l(y_i, z_i) + l*(y_i, -rho_i/s_i)] + rho'z``: the blocks fit ``rho``
        by construction.
        """
        return self._evaluate()[0]

    def primal(self) -> float:
        """Return loss and penalty of the blocks implied by the point."""
        return self._evaluate()[1]

    def model(self) -> Model:
        """Return ``(rho, d, b)``: ``rho`` unchanged, with the weights implied by block norms and dual norms."""
        d = self.kernels.model_weights()
        return self.kernels.rho, d, self.intercept(self.kernels.model_scores(d))

    def _evaluate(self) -> tuple[float, float]:
        if self._bounds is None:
            problem, rho, scores = self.problem, self.kernels.rho, self.kernels.scores()
            z = scores + self.intercept(scores)
            loss = problem.empirical_loss(z)
            gap = loss + problem.conjugate_loss(rho) + float(rho @ z)
            self._bounds = gap, loss + self.kernels.penalty()
        return self._bounds

    def _target(self, wanted: float) -> float:
        """Return the barrier parameter to aim for."""
        pairs = self.samples.n_pairs
        if pairs == 0:
            return 0.0
        mean = self.samples.complementarity() / pairs
        fall = 0.1  # of the barrier in a step
        largest_rise = 10.0  # of the barrier, when the problem has changed under it
        falling = fall * max(mean, min(self.gap() / pairs, largest_rise * mean))
        final_barrier = 0.3  # of the gap that is wanted
        return max(falling, final_barrier * wanted / pairs)

    def _find_direction(self, target: float) -> None:
        """Set the Newton direction; misleading separate scores are replaced by the scores of ``rho``."""
        hessian, samples = self.kernels.hessian(), self.samples
        if isinstance(samples, EntropicSamples) and self._cut:
            samples.resynchronize()
        self._set_direction(hessian, target)
        if isinstance(samples, EntropicSamples) and not self._slope() < 0:
            samples.resynchronize()
            self._set_direction(hessian, target)

    def _set_direction(self, hessian: Array, target: float) -> None:
        """Solve for the direction, again with the coefficients held that would leave their domain.

        One coefficient close to the end would otherwise shorten the step of all, to nothing if there are many.
        """
        samples, kernels = self.samples, self.kernels
        diagonal, shift = samples.linearize(target)
        right = shift + samples.scores() - kernels.scores()
        held, cut = np.zeros(right.size, dtype=bool), np.zeros_like(right)
        # systems solved for a direction; each holds the coefficients that the one before sent beyond their ends
        most_holds = 4
        for _ in range(most_holds):
            drho = self._solve(hessian, diagonal, right, np.where(held, cut, 0.0), ~held)
            if not isinstance(samples, EntropicSamples):
                break
            cut = np.clip(drho, -INSIDE * (samples.rho - samples.low), INSIDE * (samples.high - samples.rho))
            beyond = cut != drho
            if not (beyond & ~held).any() or (held | beyond).all():
                break
            held |= beyond
        self._sum_change = float(drho.sum())
        samples.set_direction(drho)
        if isinstance(samples, EntropicSamples) and held.any():
            changes = kernels.scores() + hessian @ drho + self._multiplier - samples.scores()
            samples.set_score_changes(held, changes[held])
        kernels.set_direction(drho)

    def _solve(self, hessian: Array, diagonal: Array, right: Array, drho: Array, free: Array) -> Array:
        """Return the direction whose free part solves the system, given the other part.

        The sum is made exact by a second solution: flat directions cost digits of the first.
        """
        # Whole rows are copied a dozen times faster than entries that are looked up one by one.
        matrix = hessian.copy() if free.all() else hessian[free].take(np.flatnonzero(free), axis=1)
        matrix[np.diag_indices_from(matrix)] += diagonal[free]
        system = NewtonSystem(matrix, self.problem.fit_intercept)
        missing = -float(self.kernels.rho.sum()) - float(drho.sum())
        solved, self._multiplier = system.solve((right - hessian @ drho)[free], missing)
        if self.problem.fit_intercept:
            solved = solved + system.solve_for_sum(missing - float(solved.sum()))
        drho = drho.copy()
        drho[free] = solved
        return drho

    def _slope(self) -> float:
        """Return the slope of the Lagrangian: mending the sum of ``rho`` is no progress of the objective."""
        return self.samples.merit_slope() + self.kernels.slope() + self._multiplier * self._sum_change

    def _line_search(self) -> tuple[float, float]:
        """Return the primal step by Armijo's rule, from quadratics in the step only, and the dual step."""
        step, dual_step = self.samples.interior_steps(INSIDE)
        parts = self.samples.merit_after(0.0), self.kernels.value()
        start, slope = sum(parts), self._slope()
        rounding = 1e-13  # relative increase of the objective that may be rounding
        allowed = rounding * (abs(parts[0]) + abs(parts[1]))
        armijo = 1e-4
        while (
            self._value_after(step) > start + armijo * step * slope + allowed and step > SHORTEST
        ):  # at most to SHORTEST
            step *= 0.5
        return step, dual_step

    def _value_after(self, step: float) -> float:
        change = self._multiplier * step * self._sum_change
        return self.samples.merit_after(step) + self.kernels.value_after(step) + change


@dataclass(frozen=True, kw_only=True)
class SmoothDual(Solver):
    """Newton's method on the dual itself, where the conjugate penalty is differentiable (section 4.3 of the paper).

    Maximizes ``D(rho) = - sum_i s_i l*(y_i, -rho_i/s_i) - sum_m Omega*(u_m(rho))``, with ``sum rho = 0`` if there is an
    intercept, by Newton steps with the gradient and Hessian (49)-(50) and Armijo's line search. For the elastic net
    (``l1_ratio < 1``), the block q-norm and ridge; every loss, those with a box or a kink through a barrier that
    vanishes. Without augmented Lagrangian and outer iteration: an iteration is a Newton step.

    Notes
    -----
    The model of any ``rho`` is ``d_m = Omega*'(u_m) / u_m``, so the penalty side of the duality gap is closed from the
    start. Only kernels with positive weight enter the Hessian; for the elastic net the rest are not read unless their
    dual norm may have reached the bound. The more the elastic net resembles the block 1-norm (``l1_ratio`` near 1), the
    sharper the bend of the conjugate and the more steps are needed.

    See Also
    --------
    SpicyMKL : the augmented Lagrangian, which also solves the block 1-norm.
    InteriorPoint : the same problems with weights as separate variables.

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
    prefers: ClassVar[str] = "in_memory"
    unpenalized: ClassVar[bool] = True
    needs: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.CURVED_CONJUGATE, Capability.SMOOTH_CONJUGATE, Capability.CURVATURE}
    )

    fallback: ClassVar[type[Solver] | None] = InteriorPoint

    @classmethod
    def preference(cls, problem: Problem) -> str:
        """Return why Newton's method on the dual beats the working set (benchmarks/auto.py); empty if it does not.

        It does where the regularizer selects kernels with a smooth conjugate, as an elastic net, and the conjugate loss
        bends somewhere inside the box, so a barrier need not do all the work.
        """
        few = problem.stack.in_memory and problem.n_kernels <= problem.n_samples
        selects = Capability.SELECTION in problem.regularizer.capabilities
        elastic = problem.regularizer.curve is not None and problem.regularizer.curve.elastic  # not a block q-norm
        given = few and problem.unpenalized.size and elastic and not selects
        if given and problem.loss.smooth and not cls.refusals(problem):
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
        """Take a Newton step."""
        final_share = 0.5  # of tol that the barrier is left with
        state.newton_step(final_share * self.tol * max(abs(state.primal()), problem.tiny))

    def worth_certifying(self, problem: Problem, state: DualNewton) -> bool:
        """Certify only once the gap of the loss is within ``tol``."""
        return state.gap() <= self.tol * max(abs(state.primal()), problem.tiny)

    def extract(self, problem: Problem, state: DualNewton) -> Model:
        """Return ``rho`` with the matching weights and the best intercept."""
        return state.model()

    def newton_steps(self, state: DualNewton) -> int:
        """Return the number of Newton steps."""
        return state.steps
