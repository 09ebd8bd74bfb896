"""The loop: a pass over all kernels, a certificate, new kernels or finer factors, a solve on the working set.

With factors ``K_m = Z_m Z_m' + E_m``, ``E_m`` positive semidefinite, functions ``Z_m v_m`` are functions of the exact
kernel of norm ``||v_m||`` at most, up to what `FactorOperator.excess` bounds. A single pass bounds the dual norms of
all M kernels from both sides, and the two sides of the exact problem follow:

    P <= max_{|e| <= shift} L(Z v + b + e) + Omega(t),          t_m^2 = ||v_m||^2 + excess_m
    D >= - L*(-a rho) - Omega*(a u),                            low_m <= rho'K_m rho <= high_m,  u_m^2 = high_m / w_m^2

with ``rho`` the slopes of the loss, made feasible, and ``a <= 1`` the largest feasible share. Kernels with ``low_m``
above the threshold of zero weight enter (local maxima over widths), or, without a threshold, the largest contributions
to ``Omega*``. If no kernel is missing, or used kernels violate as much, their factors are refined. Then `newton` solves
on the working set to a part of the gap.
"""

import time
from collections.abc import Iterator
from typing import cast

import numpy as np

from manykernels.grams.factored import FactoredStack
from manykernels.grams.factored.base import STORED_BYTES
from manykernels.grams.factored.landmarks import FINE, FINE_ENTRIES
from manykernels.objective.losses.smoothing import center_at, smaller_smoothing
from manykernels.objective.problem import Problem
from manykernels.solvers.factored.certificate import (
    DualBound,
    contributors,
    dual_bound,
    feasible,
    gap_of_factors,
    primal_bound,
    selects,
    violators,
)
from manykernels.solvers.factored.fallback import MATRIX_FACTORS, SINGLE_PRECISION_TOL, allowed_bytes, matrix_first
from manykernels.solvers.factored.kinks import fit_kinked, keeps_kinks, rows_of
from manykernels.solvers.factored.newton import (
    NEWTON_STEPS,
    RANK_LIMIT,
    NewtonFit,
    avoids_hessian,
    first_rows,
    minimize,
    prefers_bins,
)
from manykernels.solvers.factored.objective import Coefficients, FactoredObjective, KnownCurvature, Point, both
from manykernels.solvers.factored.state import DualPass, ExactContinuation, Start, State
from manykernels.solvers.factored.working_matrices import WorkingMatrices
from manykernels.solvers.solution import Status
from manykernels.validation.arrays import Array

Quads = tuple[Array, Array]
INNER = 0.1  # part of the certified gap to which a working set is solved
NEXT_GAP = 0.2  # part of the gap that the next round is meant to leave
SMOOTHING = 0.2  # part of that which the smoothing of a kinked loss may make up
NEARLY = 10.0  # times the gap asked for, up to which matrices are solved as if no kernel were missing


class FactoredWorkingSet:
    """Solve a problem whose stack is a `FactoredStack`.

    Parameters
    ----------
    problem : Problem
    tol : float
        Relative gap of the exact kernels.
    max_rounds : int
    time_limit : float
        Seconds.
    first : pair of (M,) arrays, optional
        Bounds on ``rho' K_m rho`` at the model without kernels, where known.
    """

    def __init__(
        self, problem: Problem, tol: float, max_rounds: int, time_limit: float, first: Quads | None = None
    ) -> None:
        self.problem, self.stack = problem, cast("FactoredStack", problem.stack)
        self.tol, self.max_rounds, self.time_limit = tol, max_rounds, time_limit
        self._first = first
        self._neighbors = self.stack.neighbors
        self._before: DualPass | None = None  # the pass that another penalty left, while it is still of use
        self._fall = 0.0  # of the threshold since then
        self.proved: DualBound | None = None  # the largest lower bound, which holds for every model
        self._started = time.perf_counter()

    def rounds(self, start: Start | None = None) -> Iterator[State]:
        """Yield the state after every certificate; begin from ``start``, of another problem on the same stack."""
        if start is not None and start.matrices is not None:
            yield from self._go_over(self._start(), start.matrices.transfer(self.problem))
            return
        state = self._start() if start is None or not len(start.kernels) else self._continued(start)
        stalled, short = 0, False
        served = start.certified if start is not None and start.certified is not None else None
        if served is not None and not (len(state.kernels) and served.serves(self.problem)):
            served = None
        self._before = served
        for number in range(self.max_rounds + 1):
            bound = self._certify(state, state.slopes, self._first, served)
            self._first = served = None
            assert state.best is not None
            gap = state.primal - state.best.value
            self._record(state, number, gap)
            yield state
            if gap <= self.tol * self._size(state) or number == self.max_rounds or self._remaining_seconds < 0:
                return
            before, held = (state.primal, len(state.kernels), state.factor_tol), state.kernels
            kernels, finer = self._next_set(state, bound, gap)
            if not len(state.kernels):
                kernels = self._leading_factors(kernels)
            matrices, lacking = None, finer and self._short(state, bound)
            if self._prefers_matrices(kernels) or lacking:
                matrices = self._matrices(kernels)
            if lacking and matrices is None:
                if short:
                    return
                short = True  # once more: other factors may still be too coarse
                if 8 * FINE_ENTRIES * len(kernels) <= min(allowed_bytes(self.stack), STORED_BYTES):
                    state.factor_tol = min(state.factor_tol, FINE)
            if matrices is None:
                self._grow(state, kernels, finer, gap)
                matrices = self._matrices(kernels) if self._smaller_as_matrices(state) else None
            if matrices is None:
                exhausted = self._solve(state, gap, held)
                after = (state.primal, len(state.kernels), state.factor_tol)
                stalled = stalled + 1 if after == before or (stalled and gap >= state.primal - state.best.value) else 0
                if exhausted and self.problem.n_samples <= RANK_LIMIT:
                    matrices = self._matrices(kernels)  # weak penalties make Hessians of factors all but singular
            if matrices is not None:
                yield from self._go_over(state, matrices)
                return
            if stalled > 3:
                return

    def empty_value(self) -> float:
        """Return the value of the best model without kernels."""
        problem = self.problem
        return problem.empirical_loss(problem.constant_scores(problem.best_constant))

    def empty(self) -> State:
        """Return the certified model without kernels, the result of a run ended before the first round."""
        state = self._start()
        rho, z = feasible(self.problem, state.slopes, state.point.z)
        state.best = dual_bound(self.problem, rho, z, self.stack.quads(rho))
        self._record(state, 0, state.primal - state.best.value)
        return state

    def _continued(self, start: Start) -> State:
        """Return the model of another problem on the same stack, certified for this problem in the first round.

        Coefficients are extrapolated along the path, except in cones.
        """
        self._first = None  # bounds of the model without kernels
        operators = self.stack.operators(start.kernels.tolist(), start.factor_tol)
        known = start.certified is not None and start.certified.serves(self.problem)
        objective = FactoredObjective(self.problem, operators, start.mu, start.center if known else 0.0)
        strength = start.strength if self.stack.shaped else self.problem.regularizer.strength
        ahead, b, z = start.extrapolate(strength)
        v, same = (
            ahead.transfer(objective.kernels, objective.penalty.starts, objective.problem.n_targets),
            start.certified is not None and start.certified.is_of(self.stack),
        )
        point = Point(v, b, z) if same and z is not None else Point(v, b, objective.scores(v) + b, whole=True)
        kept = start.samples
        slopes = objective.settle_intercept(point) if kept is None else -rows_of(kept.rho, self.problem)
        state = State(objective.kernels, operators, objective, point, slopes)
        state.began, state.known, state.samples = start, start.known, start.samples
        objective.known = start.known
        state.factor_tol, state.mu = start.factor_tol, start.mu
        state.primal, state.norms = primal_bound(self.problem, objective, point)
        state.own_gap = abs(state.primal)
        return state

    def _certify(
        self, state: State, slopes: Array, known: Quads | None = None, served: DualPass | None = None
    ) -> DualBound:
        """Return the bound from slopes, or from a pass under another penalty, and keep the best."""
        if served is not None:
            rho, quads, z = served.rho, served.quads, state.point.z
        else:
            rho, z = self._balance(state, slopes)
            quads = known or self.stack.quads(rho)
            served = DualPass(self.problem, rho, quads, self._growth(quads))
        state.certified = served
        bound = dual_bound(self.problem, rho, z, quads, state.primal, self.tol)
        if state.best is None or bound.value > state.best.value:
            state.best = self.proved = bound
        return bound

    def _balance(self, state: State, slopes: Array) -> tuple[Array, Array]:
        """Return feasible dual coefficients from slopes, and the scores."""
        if state.products is not None and slopes is state.slopes and not self.problem.unpenalized.size:
            return self.problem.bound.inside(state.products[0]), state.products[2]
        return feasible(self.problem, slopes, state.point.z)

    def _growth(self, quads: Quads) -> Array | None:
        """Return by how much dual norms grew since the pass before the penalty, for every unit of the threshold."""
        if self._before is None or self._fall <= 0.0:
            return None
        now, then = np.sqrt(quads[1]) / self.problem.penalties, np.sqrt(self._before.quads[0]) / self.problem.penalties
        return np.maximum(now - then, 0.0) / self._fall

    def _size(self, state: State) -> float:
        return max(abs(state.primal), self.problem.tiny)

    def _start(self) -> State:
        problem = self.problem
        rho, b = problem.zero_model()
        point = Point(np.zeros(0), b, problem.constant_scores(b))
        state = State(np.zeros(0, dtype=np.int64), [], None, point, -rho)
        state.primal = problem.empirical_loss(point.z)
        return state

    # --- which kernels, how fine -------------------------------------------------------------------------------------

    def _next_set(self, state: State, bound: DualBound, gap: float) -> tuple[Array, bool]:
        """Return the next working set, kernels in use and the most violating ones, and whether factors must be finer.

        They must be if no kernel is missing, and can be if they are not the kernels themselves.
        """
        whole = state.objective is not None and state.objective.joint_columns is not None
        used, limit = self._remaining(state, bound), self._threshold(state)
        entering = self._entering(state, bound, used, gap)
        new = len(entering) - len(both(entering, state.kernels)[0])
        finer = not new or (
            (new <= 0.05 * len(used) or gap_of_factors(self.problem.regularizer, bound, used, entering, limit))
            and state.own_gap < 0.5 * (state.primal - bound.value)
        )
        kernels = np.concatenate([used, entering, self.problem.unpenalized]).astype(np.int64)
        if not len(kernels):
            kernels = np.array([int(np.argmax(bound.norms))])
        return np.unique(kernels), bool(finer and not whole and state.smoothing_gap < 0.5 * gap)

    def _grow(self, state: State, kernels: Array, finer: bool, gap: float) -> None:
        """Take the factors of the next working set, and continue from the present coefficients."""
        if finer:  # a hundredth of the share of the trace that they leave, a tenth near the gap asked for
            nearly = gap <= 5.0 * self.tol * self._size(state)
            state.factor_tol = max(state.factor_tol * (0.1 if nearly else 0.01), 1e-13)
        coefficients = self._coefficients(state)
        operators = self.stack.operators(kernels.tolist(), state.factor_tol)
        state.operators, state.kernels = operators, np.concatenate([operator.kernels for operator in operators])
        if state.known.factor_tol != state.factor_tol:
            state.known = KnownCurvature(state.factor_tol, self.tol >= SINGLE_PRECISION_TOL)
        self._smooth(state, SMOOTHING * max(NEXT_GAP * gap, self.tol * self._size(state)))
        assert state.objective is not None
        v = coefficients.transfer(state.objective.kernels, state.objective.penalty.starts, self.problem.n_targets)
        carried = not finer and len(both(coefficients.kernels, state.kernels)[0]) == len(coefficients.kernels)
        point = state.point
        z, whole = (point.z, point.whole) if carried else (state.objective.scores(v) + point.b, True)
        state.point = Point(v, point.b, z, whole)

    def _smooth(self, state: State, goal: float) -> None:
        """Pose the problem on the factors, the loss as smooth as it may be at the present scores to miss no more.

        Or unchanged, where interior points are what it is solved by.
        """
        state.objective = FactoredObjective(self.problem, state.operators, 0.0)
        state.objective.known = state.known
        if self.problem.loss.smooth or keeps_kinks(state):
            return
        bound, center = self.problem.bound, center_at(self.problem.bound, state.slopes)
        mu = smaller_smoothing(bound, state.point.z, state.mu, goal)
        # Around dual variables that it led to, no less than half: hinge of five classes that share weights, 40 kernels,
        # took 26 and 33 steps on 30,000 and 1e5 rows, 31 and 40 with 0.67, 26 and 35 with 0.33.
        state.mu = np.maximum(mu, 0.5 * state.mu) if isinstance(center, np.ndarray) else mu
        state.objective = FactoredObjective(self.problem, state.operators, state.mu, center)
        state.objective.known = state.known

    def _threshold(self, state: State) -> Array:
        """Return the dual norms (M,) below which kernels have no weight."""
        norms = np.zeros(self.problem.n_kernels)
        norms[state.kernels] = state.norms
        return np.broadcast_to(self.problem.regularizer.threshold(norms), norms.shape)

    def _remaining(self, state: State, bound: DualBound) -> Array:
        """Return the remaining kernels: with coefficients, or still violating."""
        if state.objective is None:
            return state.kernels
        stay = self._alive(state) | (bound.low[state.kernels] > self._threshold(state)[state.kernels])
        if self.problem.unpenalized.size:
            stay |= np.isin(state.kernels, self.problem.unpenalized)
        return state.kernels[stay]

    def _alive(self, state: State) -> Array:
        """Return the kernels of the working set with nonzero coefficients."""
        assert state.objective is not None
        norms = np.zeros(self.problem.n_kernels)
        norms[state.objective.kernels] = state.objective.penalty.norms(state.point.v)
        return norms[state.kernels] > 0

    def _entering(self, state: State, bound: DualBound, used: Array, gap: float) -> Array:
        """Return the most violating kernels; few if every product reads all rows."""
        kernels = self._missing(state, bound, used, gap)
        if self.stack.few_columns:
            return kernels
        free = [m for m in kernels.tolist() if self.stack.needs_products(m)]
        return np.setdiff1d(kernels, free[3:]) if len(free) > 3 else kernels

    def _missing(self, state: State, bound: DualBound, used: Array, gap: float) -> Array:
        """Return the kernels missing most."""
        if not selects(self.problem.regularizer):
            return contributors(self.problem.regularizer, bound, used, max(gap, self.tol * self._size(state)))
        # Beside kernels in use, whose norms are at the threshold up to the gap, less is no violation.
        margin = 1.0 + min(0.1 * max(gap / self._size(state), self.tol), 0.01)
        limit, ahead = self._threshold(state), np.zeros(1)
        if not state.rounds[1:] and len(used):  # where another strength left off: by as much as its threshold was above
            ahead = np.maximum((bound.norms - limit)[used].max(), 0.0)
            self._fall = float(ahead)
            if self._before is not None and self._before.growth is not None:
                # Twice as fast as before, and a tenth of the threshold's fall at least.
                ahead = ahead * np.minimum(2.0 * self._before.growth + 0.1, 1.0)
        stayed = len(used) >= 0.9 * len(state.kernels)
        return violators(bound, used, self._neighbors, limit, margin, ahead, stayed=stayed)

    def _coefficients(self, state: State) -> Coefficients:
        own = state.objective
        starts = np.zeros(1, dtype=np.int64) if own is None else own.penalty.starts
        return Coefficients.create(state.kernels if own is None else own.kernels, starts, state.point.v)

    # --- the working set's own problem -------------------------------------------------------------------------------

    def _solve(self, state: State, gap: float, held: Array) -> bool:
        """Solve for the working set's kernels; return whether all steps were taken without coming as far as asked.

        ``held`` are the kernels that it had before.
        """
        assert state.objective is not None
        # Where every product reads all rows anyway, a pass over all kernels costs more than to solve to the end.
        inner = 0.01 if state.objective.matrix_free else INNER
        target = max(inner * gap, 0.1 * self.tol * self._size(state))
        if state.began is not None:  # most often the next certificate of a strength of a path is its last
            target = 0.9 * self.tol * self._size(state)
        little = len(state.rounds) > 1 and gap > 0.5 * state.rounds[-2].relative_gap * self._size(state)
        if little and np.isin(state.kernels, held).all():
            # The last round gained little: what is left may be the working set's own.
            target = min(target, max(INNER * state.own_gap, 0.01 * self.tol * self._size(state)))
        goal = SMOOTHING * max(NEXT_GAP * gap, self.tol * self._size(state))
        if keeps_kinks(state):
            if state.began is None and target <= NEARLY * self.tol * self._size(state):
                target = min(target, 0.5 * self.tol * self._size(state))  # a step or two more, in place of a round
            self._take(state, fit_kinked(state, gap, target, self._deadline))
            if state.own_gap <= max(target, gap):
                return False
            state.smooths, state.samples = True, None
            self._smooth(state, goal)
        for _ in range(5):
            fit = minimize(state.objective, state.point, target, NEWTON_STEPS, self._deadline)
            self._take(state, fit)
            state.smoothing_gap = state.objective.loss.error(state.point.z)
            if state.smoothing_gap <= 2.0 * goal:
                break
            self._smooth(state, goal)  # scores came closer to kinks: better slopes tell which kernels are missing
        return fit.steps >= NEWTON_STEPS

    def _take(self, state: State, fit: NewtonFit) -> None:
        """Continue from the result of steps."""
        assert state.objective is not None
        state.point, state.slopes, state.own_gap = fit.point, fit.slopes, fit.gap
        state.products = fit.rho, fit.adjoint, fit.z
        state.steps += fit.steps
        state.primal, state.norms = primal_bound(self.problem, state.objective, fit.point)

    @property
    def _deadline(self) -> float:
        return self._started + self.time_limit

    # --- N x N matrices ----------------------------------------------------------------------------------------------

    @property
    def _remaining_seconds(self) -> float:
        """Seconds left."""
        return self.time_limit - (time.perf_counter() - self._started)

    def _short(self, state: State, bound: DualBound) -> bool:
        """Return whether the most violating used kernel needs more landmarks than allowed."""
        if state.objective is None:
            return False
        used = state.kernels[self._alive(state)]
        return len(used) > 0 and self.stack.residual_trace(int(used[np.argmax(bound.low[used])]), state.factor_tol) > 0

    def _smaller_as_matrices(self, state: State) -> bool:
        """Whether a matrix among all samples is smaller than the Hessian in coefficients that steps would be taken on.

        Sweeps over rows or bins need no Hessian, and of a loss that shares weights it has a block for every output.
        """
        objective = state.objective
        assert objective is not None
        if self.problem.shared or objective.rank <= self.problem.n_samples or avoids_hessian(objective):
            return False
        if self.stack.few_columns and self.problem.loss.smooth and objective.takes_turns:
            return False
        return keeps_kinks(state) or not prefers_bins(objective, first_rows(objective))

    def _prefers_matrices(self, kernels: Array) -> bool:
        """Whether one of the kernels is better held as a matrix from the beginning.

        The dual coefficients of a loss with a kink end on their bounds: what factors leave of a kernel keeps a gap that
        smoothing does not close.
        """
        kinked = not self.problem.loss.smooth
        if self.stack.few_columns:
            return False
        return not self.stack.table.chunked and any(
            matrix_first(self.stack, m) or (kinked and self.stack.residual_trace(m, MATRIX_FACTORS) > 0)
            for m in kernels.tolist()
        )

    def _leading_factors(self, kernels: Array) -> Array:
        """Return the first kernels without future matrices: the rest soon determine the next entry."""
        if not self.problem.loss.smooth or self.problem.shared or self.stack.table.chunked:
            return kernels
        others = [m for m in kernels.tolist() if not matrix_first(self.stack, m)]
        return np.array(others, dtype=kernels.dtype) if others else kernels

    def _matrices(self, kernels: Array) -> WorkingMatrices | None:
        """Return N x N matrices for the continuation; None for lack of memory or benefit."""
        problem = self.problem
        if problem.bound.couples_samples or self.stack.table.chunked or self.stack.shaped:
            return None
        if problem.shared and not problem.loss.smooth:
            return None
        matrices = WorkingMatrices(self.problem, self.tol)
        if matrices.needed(kernels.tolist()) > matrices.allowed:
            return None
        matrices.add(kernels.tolist())
        return matrices

    def _go_over(self, state: State, matrices: WorkingMatrices) -> Iterator[State]:
        """Go on with N x N matrices of the kernels that need them, until no kernel is missing.

        While some are, to solve for the rest closely is for nothing.
        """
        state.matrices, closest = matrices, 0.5 * self.tol
        loosest = np.inf if state.best is not None else closest
        self._begin(matrices, state)
        while True:
            gap = state.primal - state.best.value if state.best is not None else np.inf
            wanted = min(0.03 * gap / self._size(state), loosest)
            wanted = wanted if wanted > NEARLY * self.tol else closest  # one step more, in place of a round
            bound, gap = self._adopt(state, matrices.solve(wanted, self._remaining_seconds))
            yield state
            if gap <= self.tol * self._size(state):
                return
            _pass_interrupt_on(state)
            if self._remaining_seconds < 0 or len(state.rounds) > self.max_rounds:
                return
            held = matrices.kernels
            missing = np.setdiff1d(self._entering(state, bound, held, gap), held)
            more = len(missing) > 0 and matrices.needed(missing.tolist()) <= matrices.allowed
            if more:
                matrices.add(missing.tolist())
            elif wanted > closest:
                loosest = closest
            else:
                return

    def _begin(self, matrices: WorkingMatrices, state: State) -> None:
        """Start matrices at the best dual coefficients of factors, with weights that match the norms."""
        objective, best = state.objective, state.best
        if objective is None or best is None or self.problem.shared:
            return
        weights = np.zeros(self.problem.n_kernels)
        weights[objective.kernels] = objective.penalty.norms(state.point.v)
        weights /= np.maximum(best.norms * self.problem.penalties, 1e-300)
        matrices.begin((best.scale * best.rho, weights, state.point.b))

    def _adopt(self, state: State, exact: ExactContinuation) -> tuple[DualBound, float]:
        """Take over a solution in N x N matrices, and return the proven bound, and the gap."""
        state.point, state.primal, state.exact = exact.point, exact.primal, exact
        state.kernels, state.norms = exact.kernels, self.problem.penalties[exact.kernels] * exact.norms
        state.steps += exact.solution.newton_steps
        bound = self._certify(state, -exact.solution.dual_coef)
        assert state.best is not None
        gap = state.primal - state.best.value
        state.own_gap, state.objective = gap, None
        self._record(state, len(state.rounds), gap)
        return bound, gap

    def _record(self, state: State, number: int, gap: float) -> None:
        state.record(number, time.perf_counter() - self._started, gap, self._size(state))


def _pass_interrupt_on(state: State) -> None:
    """Raise a deferred interrupt of the solution on matrices, after offering the state."""
    if state.exact is not None and state.exact.solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
