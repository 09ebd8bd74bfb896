"""Block coordinate descent: fit a learner with the weights held fixed, then the weights in closed form; repeat.

minimize_{f, b, d}  sum_i s_i l(y_i, f_i + b) + sum_m t_m^2 / (2 d_m) + h(d),      t_m = w_m ||f_m||

f, b <- learner on sum_m d_m K_m / w_m^2;      d <- argmin_d sum_m t_m^2 / (2 d_m) + h(d)
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.optimize import nnls

from manykernels.exceptions import InvalidInputError
from manykernels.objective.capabilities import Capability
from manykernels.objective.problem import Certificate, Problem
from manykernels.objective.regularizers import Regularizer
from manykernels.solvers.base import Solver
from manykernels.solvers.gram.iteration import PRUNING_TOLERANCE
from manykernels.solvers.gram.start import scores_of, start_iteration
from manykernels.solvers.learners.learners import LearnerFit, fit_learner
from manykernels.solvers.learners.products import Projection, WeightedProducts, does_with_products, weighted_sum
from manykernels.solvers.linear_systems import ConjugateGradients, shortest_combination
from manykernels.solvers.run import check_deadline
from manykernels.solvers.solution import Model
from manykernels.validation.arrays import Array

# Numbers of block coordinate descent that follow from no theorem: they decide the time, not what is certified.
#
# `benchmarks/solvers.py` and `benchmarks/subsolvers.py` measure what they cost, `benchmarks/nasty.py` what they must
# not break.


# Iteration
SMALLEST_SHARE = 1e-14  # of the trace of the combined kernel: a weight that falls to zero could never return
MOST_USELESS = 3  # idle iterations after which steps are stretched rather than extrapolated
MOST_POLISHING_STEPS = 80  # primal-dual Newton steps that look for coefficients which certify

# Extrapolation
MEMORY = 6
FARTHEST = 1e2  # factor by which a weight may differ from what the iteration itself says
NOTICED = 1e-4  # share of the importance that a weight is given which was shrunk too far
GROWING = 1e-3  # relative growth that shows it
DISTRUST, RECOVERY = 0.25, 2.0  # factors of the share of an extrapolation that is taken, after failure and success

# Newton steps on weights
EARLY_POINTS = 2  # learners until then are followed by the alternation itself


# Newton's method on the weights, for learners on products: the alternation crawls where kernels resemble one another.
#
# With the norms' penalty as ``Omega(t) = min_d sum_m t_m^2 / (2 d_m) + h(d)`` the weights minimize
#
#     J(d) = max_rho { -L*(rho) - rho' K_d rho / 2 } + h(d),     dJ/dd_m = (bound_m(d) - u_m^2) / 2,
#
# with ``bound`` the largest squared dual norm at which a kernel keeps the weight ``d_m`` (``C^2`` for the block
# 1-norm). Its Hessian is ``v_m' (K_d + H^-1)^-1 v_n + h''``, ``v_m = K_m rho``, a few conjugate gradients for each
# kernel.


def can_step(problem: Problem) -> bool:
    """Return whether the penalty is a sum over norms with known bounds, with free weights."""
    regularizer = problem.regularizer
    if Capability.FIXED_WEIGHTS in regularizer.capabilities:
        return False  # as with ridge: there is nothing to step for
    return not regularizer.weight_set and {Capability.MULTIPLIERS, Capability.SEPARABLE} <= regularizer.capabilities


def newton_weights(
    problem: Problem, gram: WeightedProducts, fit: LearnerFit, weights: Array, u: Array, following: Array
) -> Array | None:
    """Return the weights after a Newton step, extrapolated for unimportant kernels; None on failure."""
    bound, slope = problem.regularizer.norm_bound(weights)
    chosen = _relevant(weights * u * u, u * u > bound)
    if not chosen.size:
        return None
    gradient = 0.5 * (bound - u * u)[chosen]
    hessian = _hessian(problem, gram, fit, chosen) + np.diag(slope[chosen])
    jitter = 1e-9  # of the diagonal of the Hessian
    hessian[np.diag_indices_from(hessian)] *= 1.0 + jitter
    try:
        root = cholesky(hessian)
        target = root @ weights[chosen] - solve_triangular(root, gradient, trans="T")
        best = nnls(root, target)[0]
    except (np.linalg.LinAlgError, RuntimeError, ValueError):
        return None
    proposal = following.copy()
    farthest_newton = 10.0  # times the weight plus the largest weight
    proposal[chosen] = np.clip(best, 0.0, farthest_newton * (weights[chosen] + weights.max()))
    low, high = problem.regularizer.weight_range
    return np.clip(proposal, low, high if np.isinf(high) else (1.0 - jitter) * high)


def _relevant(importance: Array, wanted: Array) -> Array:
    """Return the relevant kernels, in order of importance, up to a limit."""
    score = importance / max(float(importance.max(initial=0.0)), np.finfo(np.float64).tiny)
    order = np.argsort(-np.where(wanted, score + 1.0, score), kind="stable")
    relevant = 1e-8  # share of the largest importance from which on a kernel takes part
    most_columns = 64  # kernels that do
    return np.sort(np.array([m for m in order if score[m] > relevant or wanted[m]][:most_columns], dtype=np.intp))


def _hessian(problem: Problem, gram: WeightedProducts, fit: LearnerFit, kernels: Array) -> Array:
    """Return ``v_m' (K + H^-1)^-1 v_n`` on zero sums: ``(I + C K C) w + b c = C v``, ``C^2 = H``, column by column."""
    scores = gram @ fit.rho + fit.b
    root = np.sqrt(problem.weight * problem.loss.second_derivative(problem.y, scores))
    project = Projection(root, problem.fit_intercept)
    sides = problem.stack.apply_each(fit.rho, kernels)
    sides *= (problem.penalties[kernels] ** -2.0)[:, None] * root
    solved = np.empty((len(kernels), len(kernels)))
    for k, side in enumerate(sides):
        solved[:, k] = sides @ _solve(gram, root, project, side)
    return 0.5 * (solved + solved.T)


def _solve(gram: WeightedProducts, root: Array, project: Projection, side: Array) -> Array:
    """Return ``w`` of a single column, to a share of the right side."""

    def product(direction: Array) -> Array:
        check_deadline()
        return project(direction + root * (gram @ (root * direction)))

    hessian_accuracy = 1e-3  # of the right sides
    most_hessian_products = 200  # for one kernel
    return ConjugateGradients(product, project(side)).solve(most_hessian_products, hessian_accuracy)


# Dual coefficients that certify, where an alternation that no longer gets on has left them open.


def polished(problem: Problem, model: Model, tol: float) -> tuple[Model, int]:
    """Return the model after a few primal-dual Newton steps on weights and coefficients at once, and their number.

    At the best weights a loss with kinks may be met by many dual coefficients, of which a learner returns any; only
    some keep the norms of all kernels within their bounds. The better of both models is returned.
    """
    if not problem.loss.piecewise_linear or Capability.MULTIPLIERS not in problem.regularizer.capabilities:
        return model, 0
    rho, d, b = model
    iteration, steps = start_iteration(problem, rho, b, scores_of(problem, rho, d)), 0
    polished_share = 0.1  # of tol: the gap that they aim at
    try:
        while (
            steps < MOST_POLISHING_STEPS and _gap(problem, iteration.bounds()) > polished_share * tol
        ):  # at most MOST_POLISHING_STEPS
            iteration.newton_step(polished_share * tol * max(abs(iteration.bounds()[0]), problem.tiny))
            steps += 1
    except LinAlgError:
        return model, steps
    found = iteration.model(PRUNING_TOLERANCE * tol)
    return min(model, found, key=lambda each: problem.certificate(*each).relative_gap), steps


def _gap(problem: Problem, bounds: tuple[float, float]) -> float:
    primal, dual = bounds
    return (primal - dual) / max(abs(primal), problem.tiny)


# Anderson extrapolation of a fixed point iteration on non-negative weights.


class Extrapolation:
    """Extrapolate ``weights -> mapped`` from the last few evaluations.

    Works on square roots of the weights: vanishing weights converge linearly and extrapolate well, while logarithms
    would diverge. Coordinates count by their importance for the objective, relative to their size. (Type II of
    Anderson's method.)

    References
    ----------
    H. Walker, P. Ni, "Anderson acceleration for fixed-point iterations", SIAM J. Numer. Anal. 49 (2011).
    """

    def __init__(self) -> None:
        self._roots: list[Array] = []
        self._changes: list[Array] = []
        self._trust = 1.0
        self._power = 1.0

    def record(self, weights: Array, mapped: Array) -> None:
        """Record an evaluation of the iteration without deterioration."""
        self._trust = min(1.0, RECOVERY * self._trust)
        roots = np.sqrt(weights)
        self._roots = [*self._roots, roots][-MEMORY:]
        self._changes = [*self._changes, np.sqrt(mapped) - roots][-MEMORY:]

    def failed(self) -> None:
        """Drop old evaluations after a failure, and shorten the next step."""
        self._trust *= DISTRUST / RECOVERY
        self._power = 1.0
        after_failure = 2  # points kept when an extrapolation made things worse
        self._roots, self._changes = self._roots[-after_failure:], self._changes[-after_failure:]

    def stretched(self) -> Array:
        """Return weights changed by a power of the factor by which the iteration changes them; squared with every call.

        The direction is that of the iteration itself, which crawls where the factor is close to 1.
        """
        largest_power = 1024.0
        self._power = min(2.0 * self._power, largest_power)
        roots, change = self._roots[-1], self._changes[-1]
        factor = np.divide(roots + change, roots, out=np.ones(roots.size), where=roots > 0)
        return np.asarray(roots**2 * np.clip(factor ** (2.0 * self._power), 1.0 / FARTHEST, FARTHEST))

    def proposal(self, importance: Array, gap: float = 0.0) -> Array | None:
        """Return extrapolated weights, or None with fewer than two evaluations."""
        if len(self._roots) < 2:
            return None
        roots, change = self._roots[-1], self._changes[-1]
        scale = np.divide(np.sqrt(importance), roots, out=np.zeros(roots.size), where=roots > 0)
        size = float(np.abs(scale * change).max())
        if size == 0:
            return None
        changes, mapped = np.array(self._changes), roots + change
        parts = shortest_combination(scale / size * changes)
        extrapolated = np.maximum(parts @ (self._roots + changes), 0.0)
        extrapolated = np.where(change > 0, np.maximum(extrapolated, roots), extrapolated)
        proposal = np.clip(extrapolated**2, mapped**2 / FARTHEST, mapped**2 * FARTHEST)
        share_of_gap = 0.02  # of the gap: importance that such a weight is given at least
        # Weights worth noticing for those that grow from next to nothing.
        noticed = max(NOTICED * float(importance.sum()), share_of_gap * gap)
        growing = (change > GROWING * roots) & (importance < noticed) & (importance > 0)
        revived = np.where(growing, roots**2 * noticed / np.where(growing, importance, 1.0), 0.0)
        proposal = np.maximum(proposal, revived)
        tiny = 1e-300
        # Between what the iteration itself says and the proposal, on a logarithmic scale.
        return np.where(proposal > 0, mapped**2 * (proposal / np.maximum(mapped**2, tiny)) ** self._trust, 0.0)


UPDATES = ("exact", "wsr")


@dataclass
class _Point:
    """A learner at given weights, with both values of the whole problem and the next weights."""

    weights: Array
    fit: LearnerFit
    importance: Array
    primal: float
    relative_gap: float
    following: Array


@dataclass
class _State:
    weights: Array
    warm: LearnerFit | None
    traces: Array
    point: _Point | None = None
    extrapolated: bool = False
    extrapolation: Extrapolation = field(default_factory=Extrapolation)
    certified: float = np.inf
    smallest: float = np.inf
    idle: int = 0
    polished: Model | None = None
    failures: int = 0
    steps: int = 0
    points: int = 0


@dataclass(frozen=True, kw_only=True)
class BlockCoordinate(Solver):
    """Alternate between a learner on the weighted sum of kernels and the weights in closed form.

    Solves ``min_{f,b} sum_i s_i l(y_i, f_i + b) + Omega(t)``, ``t_m = w_m ||f_m||``, through
    ``Omega(t) = min_d sum_m t_m^2 / (2 d_m) + h(d)``: with the weights fixed it is a learner on the kernel
    ``sum_m d_m K_m / w_m^2`` (a support vector machine for the hinge loss), with ``f`` fixed

    - weights on a simplex: ``d = t / (lambda sum t)``, the group-lasso MKL of Xu et al. (2010);
    - the lp ball: ``d_m`` proportional to ``t_m^{2/(p+1)}``, the lp-norm MKL of Kloft et al. (2011);
    - the elastic-net ball: the weighted sum of reciprocals of Citi's Algorithms 1 and 2;
    - norms: ``d_m = t_m / Omega'(t_m)``, with ``Omega' = C`` for the block 1-norm, ``C (l1_ratio + (1 - l1_ratio) t)``
      for the elastic net, ``C t^{q-1}`` for the block q-norm.

    Parameters
    ----------
    accelerate : bool
        Whether to extrapolate the weights (Anderson's method), or, for a stalled gap, to apply a growing power of the
        alternation factor; increases of the objective are rejected. The plain alternation of the papers converges
        sublinearly for vanishing weights.
    weight_update : {"exact", "wsr"}
        How the reciprocals problem of the elastic-net ball is solved: by a scalar equation, or by Citi's own iteration.

    Notes
    -----
    Every iteration reads every kernel twice, for the sum and for the norms. The stopping rule is the certificate of the
    library, with the lower bound of Citi's Algorithm 3 for the elastic-net ball. Extrapolated weights are scaled to the
    boundary of the weight set before a learner is fitted at them. At the end negligible weights at ``tol`` are set to
    zero for a sparse regularizer. For a stalled alternation with kinks in the loss, a few primal-dual Newton steps find
    certifying dual coefficients. For a differentiable loss and a stack without matrices (`PairStack` of many pairs),
    Newton-CG on products with the stack fits the learner, and the weights under penalties of norms.

    References
    ----------
    Z. Xu, R. Jin, H. Yang, I. King, M. Lyu, "Simple and efficient multiple kernel learning by group lasso", ICML 2010.
    M. Kloft, U. Brefeld, S. Sonnenburg, A. Zien, "lp-norm multiple kernel learning", JMLR 12 (2011).
    L. Citi, "A simple yet efficient algorithm for multiple kernel learning under elastic-net constraints", 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective.problem import Problem
    >>> from manykernels.objective.regularizers import ElasticNetBall
    >>> kernels = np.stack([np.eye(4), np.ones((4, 4)), np.diag([1.0, 0.0, 1.0, 0.0])])
    >>> problem = Problem(kernels, [1.0, -1.0, 1.0, -1.0], "hinge", ElasticNetBall(0.1, eta=0.5))
    >>> solution = BlockCoordinate(tol=1e-8).solve(problem)
    >>> str(solution.status), solution.kernel_weights.round(2).tolist()
    ('converged', [9.14, 0.0, 2.07])
    """

    max_iter: int = 1000
    accelerate: bool = True
    weight_update: str = "exact"

    name: ClassVar[str] = "block_coordinate"
    prefers: ClassVar[str] = "matrix_free"
    supports_coupled: ClassVar[bool] = True
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.CURVED_CONJUGATE, Capability.WEIGHTS_FROM_NORMS})

    def __post_init__(self) -> None:
        if self.weight_update not in UPDATES:
            raise InvalidInputError(f"weight_update must be one of {UPDATES}, got {self.weight_update!r}.")

    @classmethod
    def preference(cls, problem: Problem) -> str:
        """Return the reason to prefer the solver without N x N matrices; empty elsewhere."""
        if not does_with_products(problem) or cls.refusals(problem):
            return ""
        return "a matrix among all samples would be too large, and it is the one that needs only products with vectors"

    def initialize(self, problem: Problem, start: Model) -> _State:
        """Start from the given weights, or from equal weights."""
        rho, d, b = start
        traces = problem.stack.diag().sum(axis=1) * problem.penalties**-2.0
        if not d.any():
            return _State(_equal_weights(problem, rho, traces), None, traces)
        share_of_zeros = 1e-6  # the same for kernels without weight in a warm start
        weights = problem.regularizer.on_boundary(_raised(d * problem.penalties**2.0, traces, share_of_zeros))
        return _State(weights, LearnerFit(problem.feasible_dual(rho), b, -np.inf, np.inf, 0), traces)

    def step(self, problem: Problem, state: _State) -> None:
        """Fit the learner at the current weights and choose the next weights."""
        if state.polished is not None and Capability.FIXED_WEIGHTS in problem.regularizer.capabilities:
            raise ArithmeticError("the penalty fixes all weights, and the coefficients at these come no closer")
        found = self._evaluate(problem, state)
        progress = 0.999  # of the smallest gap so far: an iteration that stays above it was idle
        state.idle = 0 if found.relative_gap < progress * state.smallest else state.idle + 1
        state.smallest = min(state.smallest, found.relative_gap)
        state.points += 1
        old = state.point
        largest_rise = 3.0  # factor by which an extrapolation may raise the gap
        if (old is not None and state.extrapolated) and (
            found.primal > old.primal + _room(old) or found.relative_gap > largest_rise * old.relative_gap
        ):
            state.extrapolation.failed()
            state.failures += 1
            state.weights, state.extrapolated = old.following, False
            return
        state.point, state.warm = found, found.fit
        state.extrapolation.record(found.weights, found.following)
        proposal = self._proposal(problem, state, found) if self.accelerate else None
        state.extrapolated = proposal is not None
        if proposal is not None:
            proposal = problem.regularizer.on_boundary(_raised(proposal, state.traces, SMALLEST_SHARE))
        state.weights = found.following if proposal is None else proposal

    def _proposal(self, problem: Problem, state: _State, found: _Point) -> Array | None:
        """Return extrapolated weights, or stretched weights if the gap stalls; a failure switches the mode."""
        if state.idle >= MOST_USELESS and state.failures % 2 == 0:
            return state.extrapolation.stretched()
        if state.points > EARLY_POINTS and does_with_products(problem) and can_step(problem):
            gram = weighted_sum(problem, found.weights * problem.penalties**-2.0)
            assert isinstance(gram, WeightedProducts)
            u = problem.dual_norms(found.fit.rho)
            return newton_weights(problem, gram, found.fit, found.weights, u, found.following)
        gap = found.relative_gap * max(abs(found.primal), problem.tiny)
        return state.extrapolation.proposal(found.importance, gap)

    def worth_certifying(self, problem: Problem, state: _State) -> bool:
        """Certify once the estimated gap has halved or stalled."""
        assert state.point is not None
        if _is_idle(problem, state):
            return True
        worth_certifying = 0.5  # of the last certified gap
        return state.point.relative_gap <= max(self.tol, worth_certifying * state.certified)

    def observe(self, problem: Problem, state: _State, certificate: Certificate) -> None:
        """Remember the gap."""
        state.certified = min(state.certified, certificate.relative_gap)

    def extract(self, problem: Problem, state: _State) -> Model:
        """Return the learner with the weights, zero for irrelevant kernels once the gap is closed."""
        point = state.point
        assert point is not None
        rho, b = point.fit.rho, point.fit.b
        d = point.weights * problem.penalties**-2.0
        if _is_idle(problem, state) and point.relative_gap > self.tol:
            return self._polished(problem, state, (rho, d, b))
        if problem.regularizer.sparse and point.relative_gap <= self.tol:
            d = self._prune(problem, point, d)
        return rho, d, b

    def _polished(self, problem: Problem, state: _State, model: Model) -> Model:
        """Return the model after joint Newton steps on weights and coefficients, taken once."""
        if state.polished is None:
            state.polished, steps = polished(problem, model, self.tol)
            state.steps += steps
        return min(model, state.polished, key=lambda each: problem.certificate(*each).relative_gap)

    def _prune(self, problem: Problem, point: _Point, d: Array) -> Array:
        """Set the least important weights to zero, as many as the tolerance leaves room for."""
        room = (self.tol - point.relative_gap) * max(abs(point.primal), problem.tiny)
        # of the room below tol: what zero weights may cost to first order, in turn
        pruned_shares = (0.3, 3e-2, 3e-3, 3e-4)
        for share in pruned_shares:
            # The kernels of least importance, as many as sum up to a share of the room.
            order = np.argsort(point.importance, kind="stable")
            chosen = np.zeros(point.importance.size, dtype=bool)
            chosen[order[np.cumsum(point.importance[order]) <= share * room]] = True
            pruned = problem.regularizer.on_boundary(np.where(chosen, 0.0, point.weights)) * problem.penalties**-2.0
            if problem.primal(point.fit.rho, pruned, point.fit.b) - point.primal <= room:
                return pruned
        return d

    def newton_steps(self, state: _State) -> int:
        """Return the number of linear systems solved by all learners."""
        return state.steps

    def _evaluate(self, problem: Problem, state: _State) -> _Point:
        gap = 1.0 if state.point is None else state.point.relative_gap
        gram = weighted_sum(problem, state.weights * problem.penalties**-2.0)
        learner_share = 1e-4  # of the current gap: how closely a learner is fitted
        closest_learner = 1e-11
        tol = min(max(learner_share * gap, closest_learner), learner_share)
        fit = fit_learner(problem, gram, warm=state.warm, tol=tol)
        state.steps += fit.steps
        u = problem.dual_norms(fit.rho)
        t = state.weights * u
        following = self._weights(problem.regularizer, t, state.weights)
        z = gram @ fit.rho + fit.b
        primal = problem.empirical_loss(z) + _penalty(problem.regularizer, t, following)
        dual = problem.dual(z) if problem.loss.couples_samples else _dual(problem, fit.rho, u)
        gap = (primal - dual) / max(abs(primal), problem.tiny)
        following = problem.regularizer.on_boundary(_raised(following, state.traces, SMALLEST_SHARE))
        return _Point(state.weights, fit, t * u, primal, gap, following)

    def _weights(self, regularizer: Regularizer, t: Array, old: Array) -> Array:
        if self.weight_update == "wsr" and t.any():
            return regularizer.iterated_weights(t, old)
        return regularizer.weights_from_norms(t)


def _penalty(regularizer: Regularizer, t: Array, weights: Array) -> float:
    """Return ``Omega(t)``; for weight sets from the weights just found, since the set was all the work."""
    if not regularizer.weight_set:
        return regularizer.value(t)
    used = weights > 0
    return 0.5 * float(np.sum(t[used] * (t[used] / weights[used])))


def _dual(problem: Problem, rho: Array, u: Array) -> float:
    scale = problem.regularizer.dual_scale(u)
    return -problem.conjugate_loss(scale * rho) - problem.regularizer.conjugate(scale * u)


def _equal_weights(problem: Problem, rho: Array, traces: Array) -> Array:
    """Return equal weights, on the boundary of a weight set, else balancing penalty and loss at zero."""
    regularizer, used = problem.regularizer, (traces > 0).astype(np.float64)
    if regularizer.weight_set:
        return regularizer.weights(used, used)
    squares = float(np.sum(problem.dual_norms(rho) ** 2))
    return used * (2.0 * problem.loss_at_zero / squares if squares > 0 else 1.0 / max(traces.max(), problem.tiny))


def _raised(weights: Array, traces: Array, share: float) -> Array:
    """Raise weights to a minimal share of the trace of the combined kernel."""
    least = np.divide(share * float(weights @ traces), traces, out=np.zeros(traces.size), where=traces > 0)
    return np.maximum(weights, least)


def _is_idle(problem: Problem, state: _State) -> bool:
    """Return whether the gap has not fallen for long; where the weights are given, every learner is the last again."""
    most_idle = 40  # iterations after which each is certified, so that a run without any progress counts as stalled
    return state.idle > (MOST_USELESS if Capability.FIXED_WEIGHTS in problem.regularizer.capabilities else most_idle)


def _room(point: _Point) -> float:
    rise = 1e-3  # of the gap: what an extrapolation may add to the objective
    return max(1e-13, rise * point.relative_gap) * abs(point.primal)
