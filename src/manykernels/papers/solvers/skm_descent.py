"""Sequential minimal optimization on the kernels of a working set, and the Newton steps that finish it.

Everything is in the units of the kernels ``Q_j = K_j / (lam w_j^2)``, in which all penalties are one and the dual of
the library's problem reads ``min max_j rho'Q_j rho / 2 - y'rho`` over the box.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog

from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.objective.capabilities import Capability
from manykernels.objective.problem import Problem
from manykernels.solvers.gram.newton_system import NewtonSystem, add_rank_update
from manykernels.solvers.learners.pair_loops import (
    MISSING,
    kernel_loop,
    shrink,
    smoothed_step,
    smoothed_weights,
    steepest,
    violation_of_pair,
    violation_of_single,
)
from manykernels.validation.arrays import Array, check_nonnegative_vector, check_positive

# Kernel weights of the support kernel machine: from the smoothed dual, judged for optimality, made sparser by LPs.


@dataclass(frozen=True)
class SmoothedDual:
    """The Moreau-Yosida regularized maximum at given kernel norms."""

    value: float  # min_h h^2 / (2 (1 - kappa)^2) + sum_j o_j max(0, q_j - h)^2 / (2 kappa^2): G(alpha) + alpha'e
    threshold: float  # the minimizing h, the paper's (1 - kappa) gamma
    # ndarray of shape (M,): o_j (1 - h/q_j)_+ / kappa^2: the gradient of the value is sum_j gradient_weights_j Q_j
    # rho
    gradient_weights: Array
    # ndarray of shape (M,): eta, proportional to o_j (q_j - h)_+, with sum_j eta_j = 1; zeros if all norms are
    weights: Array


def smoothed_dual(norms: ArrayLike, kappa: float, smoothing: ArrayLike | None = None) -> SmoothedDual:
    """Minimize over the threshold exactly, by sorting the norms: O(M log M).

    The paper's ``G`` with ``d_j = (1 - kappa) w_j`` and ``a_j = kappa c_j w_j`` for the factors ``c`` in ``smoothing``
    (ones by default), so the shares are ``o_j = 1 / c_j^2``; in the norms ``q_j = sqrt(alpha' D(y) K_j D(y) alpha) /
    w_j``; its ``gamma_j = q_j / (1 - kappa)`` would be infinite at ``kappa = 1``, where ``G`` is the objective of a
    support vector machine on the sum of the kernels.

    References
    ----------
    F. Bach, G. Lanckriet, M. Jordan, "Multiple kernel learning, conic duality, and the SMO algorithm", ICML 2004,
    section 4 and appendix B.
    """
    kappa = check_positive(kappa, "kappa", upper=1.0)
    q = check_nonnegative_vector(norms, np.size(norms), "norms")
    shares = np.ones(q.size) if smoothing is None else shares_of(smoothing)
    slope = (kappa / (1.0 - kappa)) ** 2 if kappa < 1 else np.inf
    order = np.argsort(-q, kind="stable")
    candidates = np.cumsum((shares * q)[order]) / (np.cumsum(shares[order]) + slope)
    h = float(candidates[np.count_nonzero(q[order] > candidates) - 1]) if q.any() else 0.0
    excess = np.maximum(q - h, 0.0)
    shared = 0.5 * (h / (1.0 - kappa)) ** 2 if kappa < 1 else 0.0
    gradient_weights = shares * excess / (kappa**2 * np.where(q > 0, q, 1.0))
    weights = shares * excess / (shares @ excess) if q.any() else excess
    return SmoothedDual(shared + 0.5 * float(shares @ excess**2) / kappa**2, h, gradient_weights, weights)


def shares_of(smoothing: ArrayLike) -> Array:
    """Return ``1 / c_j^2`` for the positive factors ``c`` on the smoothing of every kernel."""
    factors = check_nonnegative_vector(smoothing, np.size(smoothing), "smoothing")
    if not (factors > 0).all():
        raise InvalidInputError("smoothing must be positive for every kernel: a zero gives the dual a kink.")
    return factors**-2.0


@dataclass(frozen=True)
class EpsilonOptimality:
    """How far a model is from the paper's optimality conditions."""

    eps1: float  # max_j J_j - min J_j over the kernels with positive weight, in units of the objective
    eps2: float  # half of what the optimality interval of the samples is missed by, in units of the score (margin 1)
    # eps1 + eps2 sum_i s_i in units of the objective: no duality gap of this model, with the best intercept and
    # weights that sum to 1/lam, is larger
    bound: float


def epsilon_optimality(problem: Problem, rho: Array, d: Array) -> EpsilonOptimality:
    """Return the smallest ``(eps1, eps2)`` for which a model is optimal in the sense of the paper's (OPT).

    ``J_j(alpha) = alpha' D(y) K_j D(y) alpha / (2 w_j^2) - alpha'e``; a model is optimal if the weights are supported
    on the kernels with the largest ``J_j`` and ``alpha`` solves the support vector machine on their sum.
    """
    lacking = {Capability.HINGE_FORM, Capability.SIMPLEX} - problem.loss.capabilities - problem.regularizer.capabilities
    if lacking:
        raise IncompatibleError(
            f"(eps1, eps2)-optimality is defined for the hinge loss with the simplex, not for the loss "
            f"'{problem.loss.name}' with the regularizer '{problem.regularizer.name}'."
        )
    objectives = 0.5 * problem.dual_norms(rho) ** 2 / problem.regularizer.strength
    support = np.flatnonzero(d)
    eps1 = float(objectives.max() - objectives[support].min()) if support.size else float(objectives.max())
    grad = problem.stack.apply(d, rho) - problem.y
    lo, hi = (np.array(bound) for bound in problem.dual_box)
    up, down = steepest(grad, np.array(rho), lo, hi, np.arange(rho.size))
    eps2 = 0.5 * (violation_of_pair if problem.fit_intercept else violation_of_single)(grad, up, down)
    return EpsilonOptimality(eps1, eps2, eps1 + eps2 * problem.total_weight)


def sparser_weights(
    products: Array, y: Array, rho: Array, box: tuple[Array, Array], eta: Array, slack: float, *, fit_intercept: bool
) -> Array:
    """Set weights to zero, in turn, as long as a linear program finds optimal weights without them.

    The program asks for ``eta >= 0``, ``sum eta = 1`` and an intercept for which the given ``rho`` meets the optimality
    interval of every sample within ``slack`` (the paper's section 3.3). The smallest weights are tried first.
    """
    best = eta
    for j in np.argsort(eta, kind="stable"):
        if best[j] == 0 or np.count_nonzero(best) == 1:
            continue
        kept = np.flatnonzero(best)
        kept = kept[kept != j]
        found = _feasible_weights(products[kept], y, rho, box, slack, fit_intercept)
        if found is not None:
            best = np.zeros_like(eta)
            best[kept] = found
    return best


def _feasible_weights(
    products: Array, y: Array, rho: Array, box: tuple[Array, Array], slack: float, fit_intercept: bool
) -> Array | None:
    """Return kernel weights that explain ``rho``, or None."""
    n_kernels = products.shape[0]
    border = np.ones((1, y.size)) if fit_intercept else np.zeros((0, y.size))
    columns = np.vstack([products, border]).T
    may_rise, may_fall = rho < box[1], rho > box[0]
    rows = np.vstack([columns[may_fall], -columns[may_rise]])
    limits = np.concatenate([y[may_fall], -y[may_rise]]) + slack
    total = np.concatenate([np.ones(n_kernels), np.zeros(len(border))])[None]
    ranges = [(0.0, None)] * n_kernels + [(None, None)] * len(border)
    # Any feasible point will do; rows in units of their own keep the tolerances of the solver meaningful.
    scale = np.maximum(np.abs(rows).max(axis=1), 1.0)
    solved = linprog(
        np.zeros(total.size), rows / scale[:, None], limits / scale, total, [1.0], ranges, method="highs-ds"
    )
    if solved.status != 0:
        return None
    weights = np.maximum(solved.x[:n_kernels], 0.0)
    return weights / weights.sum()


# Kernel rows for sequential minimal optimization: in the units that make all penalties one, from a bounded cache.


class UnitKernels:
    """The kernels ``Q_j = K_j / (lam w_j^2)`` of a working set."""

    def __init__(self, problem: Problem, kernels: Array) -> None:
        self.problem, self.kernels = problem, kernels
        self.scales = 1.0 / (problem.regularizer.strength * problem.penalties[kernels] ** 2)

    def products(self, rho: Array) -> Array:
        """``Q_j rho`` (M, N)."""
        return self.problem.stack.apply_each(rho, self.kernels) * self.scales[:, None]

    def row(self, i: int) -> Array:
        """Row ``i`` of every kernel (M, N)."""
        return self.problem.stack.block([i], None, self.kernels)[:, 0] * self.scales[:, None]

    def diagonals(self) -> Array:
        """Diagonals (M, N)."""
        return self.problem.stack.diag()[self.kernels] * self.scales[:, None]

    def combined(self, eta: Array) -> Array:
        """``sum_j eta_j Q_j`` (N, N)."""
        weights = np.zeros(self.problem.n_kernels)
        weights[self.kernels] = eta * self.scales
        return self.problem.stack.combine(weights)


class RowCache:
    """Cached rows of all kernels within a number of bytes (at least two rows), least recently used evicted."""

    def __init__(self, kernels: UnitKernels, most_bytes: int) -> None:
        size, n_samples = len(kernels.kernels), kernels.problem.n_samples
        capacity = int(np.clip(most_bytes // (8 * size * n_samples), min(2, n_samples), n_samples))
        self._kernels = kernels
        self.rows = np.empty((capacity, size, n_samples))
        self.slots = np.full(n_samples, MISSING)
        self.stamps = np.zeros(capacity, dtype=np.int64)
        self._owners = np.full(capacity, MISSING)
        self.fetched = 0

    def fetch(self, i: int) -> None:
        """Put row ``i`` in the place of the row used least recently."""
        slot = int(np.argmin(self.stamps))
        if self._owners[slot] != MISSING:
            self.slots[self._owners[slot]] = MISSING
        self.rows[slot] = self._kernels.row(i)
        self.slots[i], self._owners[slot] = slot, i
        self.stamps[slot] = self.stamps.max() + 1
        self.fetched += 1


# Numbers of the support kernel machine that follow from no theorem: they decide the time, not what is certified.
#
# `benchmarks/solvers.py --solvers skm` measures what they cost.


# Course of the run
VIOLATION_SHARE = 0.2  # of tol: how closely the optimality interval is met in the end
SMOOTHING_SHARE = 0.02  # of kappa: how closely it is met on the way there
STEPS_PER_SAMPLE = 50  # of an iteration at one kappa
MOST_ROUNDS = 10_000  # of as many steps in a stage that is solved as the paper has it, with a look at the clock each
LOWEST_KAPPA = 1e-7
SIGMA_GROWTH = 10.0
LARGEST_SIGMA = 1e6  # beyond it, the rounding of the norms spoils the weights
USELESS_ROUNDS = 5  # of pairs and Newton steps that do not halve the violation: rounding, or the center is to blame
POLISH_STEPS = 8
POLISH_SIGMA = 1e6
POLISH_SHARE = 0.01  # of tol: a gap at which polishing ends
NEARLY_ACTIVE = 0.8  # of the threshold: kernels with smaller norms leave the working set
WORTH_DROPPING = 0.5  # share of the working set below which a smaller one pays for its new rows

# Descent
NEWTON_ACCURACY = 1e-12  # of the derivative along a Newton direction
PATIENCE = 8  # Newton steps without any progress: the support of the weights may change a few times


NO_CENTER = np.zeros(0)
EQUAL_SHARES = np.zeros(0)


@dataclass
class Descent:
    """A point of the iteration on a working set of kernels, with the descent."""

    kernels: UnitKernels
    rho: Array
    cache_bytes: int
    shrinking: bool
    shares: Array = field(default_factory=lambda: EQUAL_SHARES)

    def __post_init__(self) -> None:
        problem = self.kernels.problem
        # Copies: a read-only array would be another type to the compiler, and everything compiled once more.
        self.y, self.lo, self.hi = (np.array(values) for values in (problem.y, *problem.dual_box))
        self.box_share = 1.0
        self.paired = problem.fit_intercept
        self.cache = RowCache(self.kernels, self.cache_bytes)
        self.diagonals = self.kernels.diagonals()
        self.steps = self.newton_steps = 0
        self.refresh()

    def shrink_box(self, share: float) -> None:
        """Scale the box of the problem by ``share`` and the point with it; compute the products anew.

        Samples at a bound stay there to the last digit: one that were a rounding error inside would count as free.
        """
        low, high = self.rho <= self.lo, self.rho >= self.hi
        self.rho *= share / self.box_share
        self.lo, self.hi = (share * bound for bound in self.kernels.problem.dual_box)
        self.box_share = share
        np.clip(self.rho, self.lo, self.hi, out=self.rho)
        self.rho[low], self.rho[high] = self.lo[low], self.hi[high]
        self.refresh()

    def refresh(self) -> None:
        """Recompute the products from scratch, against accumulated rounding."""
        self.set_products(self.kernels.products(self.rho))

    def set_products(self, products: Array) -> None:
        """Set ``Q_j rho`` and the derived norms."""
        self.products = products
        self.squares = np.maximum(products @ self.rho, 0.0)

    def weights(self, center: Array, constant: float) -> tuple[Array, Array]:
        """Return the weights ``eta`` of the smoothed objective and the gradient."""
        eta, u, c = (np.empty_like(self.squares) for _ in range(3))
        smoothed_weights(self.squares, center, self.shares, constant, eta, u, c)
        return eta, eta @ self.products - self.y

    def bounds(self, eta: Array) -> tuple[float, float]:
        """Return the primal value of the model with weights ``eta`` and the dual value, on the working set."""
        problem = self.kernels.problem
        scores = eta @ self.products
        primal = problem.empirical_loss(scores + self.intercept(scores)) + 0.5 * float(eta @ np.sqrt(self.squares)) ** 2
        return primal, float(self.y @ self.rho) - 0.5 * float(self.squares.max())

    def intercept(self, scores: Array) -> float:
        """Return the best intercept for the scores."""
        problem = self.kernels.problem
        return float(problem.loss.best_intercept(problem.y, scores, problem.weight)) if self.paired else 0.0

    def violation(self, grad: Array) -> float:
        """Return by how much the optimality interval is missed on all samples."""
        up, down = steepest(grad, self.rho, self.lo, self.hi, np.arange(self.rho.size))
        return float((violation_of_pair if self.paired else violation_of_single)(grad, up, down))

    def minimize(self, center: Array, constant: float, tol: float, most: int) -> float:
        """Take up to ``most`` steps; return the violation of all samples at the end."""
        everything = np.arange(self.rho.size)
        active, shrinking = everything, self.shrinking
        longest_period = 1000  # steps between two looks at what can be left out
        period = min(self.rho.size, longest_period)
        grad = self.weights(center, constant)[1]
        end = self.steps + most
        while True:  # at most `most` steps
            left = min(period, end - self.steps) if shrinking else end - self.steps
            violation = self._run(grad, active, center, constant, tol, left)
            if violation > tol and self.steps < end:
                active = self._shrunk(grad, active)
            elif active.size == everything.size:
                return violation
            else:
                self.refresh()
                grad, active, shrinking = self.weights(center, constant)[1], everything, False

    def _run(self, grad: Array, active: Array, center: Array, constant: float, tol: float, most: int) -> float:
        """Run the compiled loop, fetching missing rows."""
        cache, left = self.cache, most
        while True:  # at most `most` steps
            violation, steps, missing = kernel_loop(
                cache.rows,
                cache.slots,
                cache.stamps,
                self.diagonals,
                self.y,
                self.lo,
                self.hi,
                self.rho,
                self.products,
                self.squares,
                grad,
                active,
                self.paired,
                center,
                self.shares,
                constant,
                tol,
                left,
            )
            left -= steps
            self.steps += steps
            if missing == MISSING:
                return float(violation)
            cache.fetch(missing)

    def _shrunk(self, grad: Array, active: Array) -> Array:
        up, down = steepest(grad, self.rho, self.lo, self.hi, active)
        kept, idle = np.empty_like(active), (grad[up], grad[down]) if self.paired else (0.0, 0.0)
        return kept[: shrink(grad, self.rho, self.lo, self.hi, active, *idle, kept)].copy()

    # --- Newton steps on the free samples ---------------------------------------------------------------------------

    def newton(self, center: Array, sigma: float, tol: float) -> None:
        """Minimize over the samples strictly inside the box, letting those that meet a bound stay there.

        For the smoothing by multipliers only, whose Hessian does not degenerate.
        """
        least, useless = np.inf, 0
        for _ in range(2 * self.rho.size):
            eta, grad = self.weights(center, sigma)
            free = self.free()
            left = self._spread_of(grad[free])
            useless = 0 if left <= 0.5 * least else useless + 1
            if left <= tol or useless > PATIENCE:
                return
            least = min(least, left)
            direction = self._newton_direction(free, grad[free], eta, sigma)
            if self._move_along(direction, center, sigma):
                least, useless = np.inf, 0

    def free(self) -> Array:
        """Return the samples strictly inside the box."""
        return np.flatnonzero((self.rho > self.lo) & (self.rho < self.hi))

    def _spread_of(self, grad: Array) -> float:
        if grad.size <= self.paired:
            return 0.0
        return float(np.ptp(grad) if self.paired else np.abs(grad).max())

    def _newton_direction(self, free: Array, grad: Array, eta: Array, sigma: float) -> Array:
        """Solve on the free samples; with an intercept, the last of them takes what keeps the sum.

        Eliminating it, rather than bordering the system, keeps the sum exact even where the kernels are singular.
        """
        support = np.flatnonzero(eta)
        matrix = self.kernels.combined(eta)[np.ix_(free, free)]
        rows = self.products[np.ix_(support, free)]
        if self.paired:
            matrix = matrix[:-1, :-1] - matrix[-1:, :-1] - matrix[:-1, -1:] + matrix[-1, -1]
            rows, grad = rows[:, :-1] - rows[:, -1:], grad[:-1] - grad[-1]
        add_rank_update(matrix, rows - rows.mean(axis=0), np.full(support.size, sigma))
        proximal = 1e-13  # of the mean diagonal, for the directions that no kernel sees
        matrix[np.diag_indices_from(matrix)] += max(proximal * matrix.trace() / grad.size, np.finfo(float).tiny)
        solved = NewtonSystem(matrix, border=False).solve(-grad, 0.0)[0]
        self.newton_steps += 1
        direction = np.zeros(self.rho.size)
        direction[free[: solved.size]] = solved
        if self.paired:
            direction[free[-1]] = -solved.sum()
        return direction

    def _room_along(self, direction: Array) -> tuple[Array, Array, Array]:
        """Return the moving samples, their bounds, and the step lengths to the bounds."""
        moving = np.flatnonzero(direction)
        bounds = np.where(direction[moving] > 0, self.hi[moving], self.lo[moving])
        return moving, bounds, (bounds - self.rho[moving]) / direction[moving]

    def _move_along(self, direction: Array, center: Array, sigma: float) -> bool:
        """Go to the minimizer along the direction, at most to the first bound; return whether the bound was met."""
        moving, bounds, rooms = self._room_along(direction)
        if not moving.size:
            return False
        change = self.kernels.products(direction)
        linear, curvature = self.products @ direction, np.maximum(change @ direction, 0.0)
        gain, longest = float(self.y @ direction), float(rooms.min())
        step = smoothed_step(
            longest, self.squares, linear, curvature, gain, center, self.shares, sigma, NEWTON_ACCURACY
        )
        self.rho[moving] = np.where(rooms <= step, bounds, self.rho[moving] + step * direction[moving])
        self.set_products(self.products + step * change)
        return step == longest

    # --- primal-dual polish ------------------------------------------------------------------------------------------

    def polish(self, eta: Array, sigma: float) -> Array:
        """Take one Newton step on the optimality conditions of the free samples and support kernels; return ``eta``.

        The weights are separate unknowns here: computed from the norms, as in the smoothed objectives, they would
        inherit the rounding of ``q_j^2`` times ``sigma``.
        """
        free, support = self.free(), np.flatnonzero(eta)
        if free.size <= self.paired:
            return eta
        excess = 0.5 * (self.squares[support] - self.squares[support].mean())
        grad = eta @ self.products - self.y + sigma * (excess @ self.products[support])
        direction = self._newton_direction(free, grad[free], eta, sigma)
        change = np.zeros_like(eta)
        pull = excess + self.products[support] @ direction
        change[support] = sigma * (pull - pull.mean())
        moving, bounds, rooms = self._room_along(direction)
        falling = np.flatnonzero(change < 0)
        step = min(1.0, float(rooms.min(initial=np.inf)), float((-eta[falling] / change[falling]).min(initial=np.inf)))
        self.rho[moving] = np.where(rooms <= step, bounds, self.rho[moving] + step * direction[moving])
        self.refresh()
        moved = np.maximum(eta + step * change, 0.0)
        moved[falling[-eta[falling] / change[falling] <= step]] = 0.0
        return moved / moved.sum()
