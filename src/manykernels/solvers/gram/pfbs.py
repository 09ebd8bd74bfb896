"""Proximal forward-backward splitting (PFBS), accelerated, with Newton steps on the support it identifies.

    minimize_f  sum_i s_i l(y_i, sum_m f_m(x_i) + b) + Omega(t),      f_m = sum_i a_mi k_m(., x_i),   t_m = w_m ||f_m||

    a_m <- prox of Omega / sigma at a_m - s l'(y, z) / sigma,      a_m scaled so the norm is the prox's

The objective falls where ``sigma`` is at least the largest eigenvalue of ``sum_m K_m / w_m^2`` times the bound on
``s l''``.

Block ``j`` is the function ``f_j = sum_i a_ji k_j(., x_i) / w_j^2`` with norm ``t_j = w_j ||f_j||``, held as the
coefficients ``a_j`` and the values ``p_j = K_j a_j / w_j^2`` at the samples. A step reads every kernel once, for ``K_j
rho``; the (MN, MN) matrix of the direct sum is never formed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.linalg import LinAlgError
from scipy.optimize import minimize_scalar
from scipy.sparse.linalg import eigsh

from manykernels.grams.base import GramStack
from manykernels.grams.packed import PackedStack
from manykernels.objective.capabilities import Capability
from manykernels.objective.problem import Certificate, Problem
from manykernels.objective.regularizers import Regularizer
from manykernels.solvers.base import BROKEN, Solver
from manykernels.solvers.gram.interior_point import InteriorPoint
from manykernels.solvers.gram.newton_system import NewtonSystem
from manykernels.solvers.solution import Model, Status
from manykernels.validation.arrays import Array, check_choice, check_count

# Numbers of forward-backward splitting that follow from no theorem: they decide the time, not what is certified.
#
# `benchmarks/solvers.py --solvers pfbs` measures what they cost.


# Iteration
NEARLY_ACTIVE = 0.9  # of the bound above which a zero block becomes nonzero: such kernels are iterated on
FIRST_DAMPING, LOWEST_DAMPING, HIGHEST_DAMPING = 1e-2, 1e-12, 1.0
SHORT_STEP = 0.01  # below which a Newton step is tried again

# Splitting
DIRECT_ORDER = 100  # up to which all eigenvalues are cheaper than Lanczos iterations
ROUNDING = 1e-14  # relative; increases of the objective below it say nothing

# Newton steps on the support
SMALLEST_CURVATURE = 1e-14  # of a sample, relative to its weight
EARLY = 1e-4  # step at which the slope along a direction is measured
AHEAD = 4.0  # steps that one looks ahead for bends of the loss


@dataclass
class Blocks:
    """Coefficients (m, N), values at the samples (m, N) and norms (m,) of the blocks of some kernels."""

    coefficients: Array
    values: Array
    norms: Array

    @classmethod
    def create(cls, coefficients: Array, values: Array) -> Blocks:
        """Return blocks with norms from the coefficients and values."""
        squares = np.einsum("mi,mi->m", coefficients, values)
        return cls(coefficients, values, np.sqrt(np.maximum(squares, 0.0)))

    def scores(self) -> Array:
        """Sum of all functions at the samples, (N,)."""
        return self.values.sum(axis=0)

    def extrapolate(self, previous: Blocks, momentum: float) -> Blocks:
        """Return the blocks extrapolated from ``previous`` through the present ones, with unchanged norms."""
        if momentum == 0.0:
            return self
        coefficients = self.coefficients + momentum * (self.coefficients - previous.coefficients)
        return Blocks(coefficients, self.values + momentum * (self.values - previous.values), self.norms)

    def scaled(self, factors: Array) -> Blocks:
        """Return every block multiplied by the factor."""
        column = factors[:, None]
        return Blocks(column * self.coefficients, column * self.values, factors * self.norms)

    def take(self, kernels: Array) -> Blocks:
        """Return the blocks at the positions."""
        return Blocks(self.coefficients[kernels], self.values[kernels], self.norms[kernels])


def best_intercept(problem: Problem, f: Array, start: float) -> float:
    """Minimize the loss over the intercept: Newton's method from ``start``, then the method of the loss on failure."""
    if not problem.fit_intercept:
        return 0.0
    loss, y, weight, b = problem.loss, problem.y, problem.weight, start
    if loss.linear_dual:
        return loss.best_intercept(y, f, weight)
    intercept_steps = 8
    for _ in range(intercept_steps):
        slopes = weight * loss.derivative(y, f + b)
        slope, curvature = float(slopes.sum()), float(weight @ loss.second_derivative(y, f + b))
        if abs(slope) <= 1e-15 * float(np.abs(slopes).sum()):
            return b
        if curvature <= 0:
            break
        b -= slope / curvature
        if not np.isfinite(b):
            break
    return loss.best_intercept(y, f, weight)


def dual_vector(problem: Problem, f: Array, b: float) -> Array:
    """Return ``rho = -s l'(y, f + b)``, (N,)."""
    return -problem.weight * problem.loss.derivative(problem.y, f + b)


def forward_backward(problem: Problem, blocks: Blocks, rho: Array, sigma: Array) -> Blocks:
    """Return ``prox(a_j + rho / sigma_j)`` of every block."""
    steps = 1.0 / sigma
    products = problem.stack.apply_each(rho) * (steps / problem.penalties**2)[:, None]
    moved = Blocks.create(blocks.coefficients + steps[:, None] * rho, blocks.values + products)
    step = steps if takes_many_steps(problem.regularizer) else float(steps[0])
    shrunk = problem.regularizer.prox(moved.norms, step)  # type: ignore[arg-type]  # a step a block is allowed here
    return moved.scaled(np.divide(shrunk, moved.norms, out=np.zeros_like(shrunk), where=moved.norms > 0))


def takes_many_steps(regularizer: Regularizer) -> bool:
    """Return whether the prox takes a single step size per block: for formulas, not iterations."""
    return regularizer.curve is not None and regularizer.curve.elastic


def objective(problem: Problem, blocks: Blocks, b: float) -> float:
    """Return the primal value of the blocks, not necessarily proportional to a common ``rho``."""
    return problem.empirical_loss(blocks.scores() + b) + problem.regularizer.value(blocks.norms)


def safe_sigma(problem: Problem) -> Array:
    """Return ``lambda_max(sum_j K_j / w_j^2)`` times the curvature of the loss, once for every kernel (M,).

    With it every step descends; more than half of it still converges.
    """
    return np.full(problem.n_kernels, _joint_curvature(problem, problem.penalties**-2.0))


def scaled_sigma(problem: Problem) -> Array:
    """Return inverse steps proportional to the traces of the kernels, as small as descent allows (M,).

    Steps ``1/sigma_j`` descend if ``lambda_max(sum_j K_j / (w_j^2 sigma_j))`` times the curvature is at most one. A
    kernel a thousand times smaller than another then takes steps a thousand times longer.
    """
    traces = problem.stack.diag() @ problem.weight / problem.penalties**2
    traces = np.where(traces > 0, traces, max(float(traces.max()), np.finfo(np.float64).tiny))
    return traces * _joint_curvature(problem, problem.penalties**-2.0 / traces)


def heuristic_sigma(problem: Problem) -> Array:
    """Return the largest of the ``lambda_max(K_j / w_j^2)`` times the curvature (M,): the rule of the PFBS paper.

    Kernels that are alike add up to a larger curvature than this, and the iteration diverges.
    """
    single = np.zeros(problem.n_kernels)
    largest = 0.0
    for kernel in range(problem.n_kernels):
        single[:] = 0.0
        single[kernel] = problem.penalties[kernel] ** -2.0
        largest = max(largest, _joint_curvature(problem, single))
    return np.full(problem.n_kernels, largest)


def _joint_curvature(problem: Problem, factors: Array) -> float:
    """Largest eigenvalue of ``S^(1/2) (sum_j factors_j K_j) S^(1/2)``, times the curvature of the loss; 1 if zero."""
    root = np.sqrt(problem.weight)
    matrix = problem.stack.combine(factors) * root * root[:, None]
    largest = problem.loss.curvature_bound * largest_eigenvalue(matrix)
    return largest if largest > 0 else 1.0


def largest_eigenvalue(matrix: Array) -> float:
    """Return an upper bound, within a percent, of the largest eigenvalue of a semidefinite matrix."""
    if matrix.shape[0] <= DIRECT_ORDER:
        return float(np.linalg.eigvalsh(matrix)[-1]) * (1.0 + ROUNDING)
    if not matrix.any():
        return 0.0
    start = np.random.default_rng(0).standard_normal(matrix.shape[0])
    lanczos_tolerance = 1e-3
    found = eigsh(matrix, k=1, which="LA", tol=lanczos_tolerance, v0=start, return_eigenvectors=False)
    lanczos_margin = 1.01  # Lanczos comes from below, a bound must be above
    return lanczos_margin * float(found[0])


# Newton's method on the support that a splitting method has identified.
#
# With every block of the support away from zero the objective is smooth there. In the direct sum of the function spaces
# its Hessian is the curvature ``H`` of the loss seen through the samples, plus one operator a block: ``g'(t)/t`` across
# the block and ``g''(t)`` along it. The former is inverted by hand, which leaves a system of order N, bordered by minus
# the steps ``x`` along the blocks:
#
#     (H^-1 + A) v + Q' x - 1 db = -H^-1 rho,        Q v - R x = -g',        1'v = 0,        v = H dz - rho,
#     A = sum_j (t_j/g'_j) (K_j - q_j q_j'),         q_j = f_j(X)/t_j   (rows of Q).
#
# ``R`` is the curvature along the blocks: a full matrix for weights on a simplex, and damped, since that of the block
# 1-norm vanishes.


@dataclass(frozen=True)
class NewtonStep:
    """End of a Newton step on the support, with the reason for a cut."""

    blocks: Blocks  # the end point and its objective
    b: float  # the end point and its objective
    value: float  # the end point and its objective
    step: float  # in (0, 1]
    leaving: Array  # ndarray of shape (m,), bool: kernels of the support whose blocks a whole step would turn around
    ahead: Array  # ndarray of shape (N,): scores a little farther than the step went


def newton_step(
    problem: Problem, support: Array, blocks: Blocks, b: float, damping: float, reference: Array | None = None
) -> NewtonStep:
    """Take a Newton step on the blocks of ``support``, as long as the objective falls; the rest stay unchanged."""
    chosen, scores = blocks.take(support), blocks.scores() + b
    reference = scores if reference is None else reference
    rho = dual_vector(problem, reference, 0.0)
    rho -= problem.weight * problem.loss.second_derivative(problem.y, reference) * (scores - reference)
    direction = support_direction(problem, support, chosen, reference, rho, damping)
    step = support_step(problem, support, blocks, b, direction)
    leaving = np.einsum("mi,mi->m", direction[0], chosen.values) < -(chosen.norms**2)
    if not problem.regularizer.sparse:
        leaving[:] = False
    ahead = scores + min(1.0, AHEAD * step) * (direction[1].sum(axis=0) + direction[2])
    found, b = _advanced(problem, support, blocks, b, direction, step)
    return NewtonStep(found, b, objective(problem, found, b), step, leaving, ahead)


def _advanced(
    problem: Problem, support: Array, blocks: Blocks, b: float, direction: tuple[Array, Array, float], step: float
) -> tuple[Blocks, float]:
    """Return the blocks after a step; reversing blocks of a sparse regularizer become zero."""
    coefficients, values = blocks.coefficients.copy(), blocks.values.copy()
    coefficients[support] += step * direction[0]
    values[support] += step * direction[1]
    if problem.regularizer.sparse:
        turned = np.einsum("mi,mi->m", coefficients, blocks.values) <= 0
        coefficients[turned], values[turned] = 0.0, 0.0
    found = Blocks.create(coefficients, values)
    return found, best_intercept(problem, found.scores(), b + step * direction[2])


def support_direction(
    problem: Problem, support: Array, blocks: Blocks, scores: Array, rho: Array, damping: float
) -> tuple[Array, Array, float]:
    """Return the Newton direction of coefficients (m, N), of values (m, N) and of the intercept."""
    slopes, compliances, radial = penalty_curvature(problem.regularizer.take(support), blocks.norms, damping)
    inverse_norms = np.divide(1.0, blocks.norms, out=np.zeros_like(blocks.norms), where=blocks.norms > 0)
    units = blocks.values * inverse_norms[:, None]
    weights = np.zeros(problem.n_kernels)
    weights[support] = compliances / problem.penalties[support] ** 2
    matrix = problem.stack.combine(weights) - units.T @ (compliances[:, None] * units)
    curvature = problem.loss.second_derivative(problem.y, scores)
    inverse_curvature = 1.0 / (problem.weight * np.maximum(curvature, SMALLEST_CURVATURE))
    matrix[np.diag_indices_from(matrix)] += inverse_curvature
    v, along, multiplier = _solve(
        NewtonSystem(matrix, problem.fit_intercept), units, radial, -inverse_curvature * rho, slopes
    )
    products = problem.stack.apply_each(v, support) * weights[support, None]
    relative = ((compliances * (units @ v) - along) * inverse_norms)[:, None]
    dcoefficients = relative * blocks.coefficients - compliances[:, None] * v
    return dcoefficients, relative * blocks.values - products, -multiplier


def _solve(
    system: NewtonSystem, units: Array, radial: Array, right: Array, slopes: Array
) -> tuple[Array, Array, float]:
    """Eliminate ``v``, not ``x``: the Schur complement stays well conditioned when ``R`` vanishes."""
    plain, plain_multiplier = system.solve(right, 0.0)
    solved = [system.solve(unit, 0.0) for unit in units]
    responses = np.array([part for part, _ in solved])
    schur = radial + units @ responses.T
    along = np.linalg.solve((schur + schur.T) / 2, units @ plain + slopes)
    multipliers = np.array([multiplier for _, multiplier in solved])
    return plain - along @ responses, along, plain_multiplier - float(along @ multipliers)


def penalty_curvature(regularizer: Regularizer, t: Array, damping: float) -> tuple[Array, Array, Array]:
    """Return ``g'(t)`` (m,), ``t / g'(t)`` (m,) and the curvature ``R`` along the blocks (m, m), damped if sparse."""
    compliances = regularizer.weights_from_norms(t)
    # of a block of zero norm, whose penalty may bend infinitely there
    largest_curvature = 1.0 / np.finfo(np.float64).tiny
    radial = np.minimum(regularizer.hessian(t), largest_curvature)
    if regularizer.sparse:
        radial[np.diag_indices_from(radial)] += damping / compliances
    return regularizer.derivative(t), compliances, radial


def support_step(
    problem: Problem, support: Array, blocks: Blocks, b: float, direction: tuple[Array, Array, float]
) -> float:
    """Return 1 if the whole step lowers the objective enough, else the best step in (0, 1).

    Along a line scores are linear and squared norms quadratic, so no kernel is read.
    """
    dcoefficients, dvalues, db = direction
    scores, change = blocks.scores() + b, dvalues.sum(axis=0) + db
    chosen, norms = blocks.take(support), blocks.norms.copy()
    linear = np.einsum("mi,mi->m", dcoefficients, chosen.values)
    square = np.einsum("mi,mi->m", dcoefficients, dvalues)

    def value(step: float) -> float:
        squares = chosen.norms**2 + step * (2 * linear + step * square)
        norms[support] = np.sqrt(np.maximum(squares, 0.0))
        return problem.empirical_loss(scores + step * change) + problem.regularizer.value(norms)

    start, whole, early = value(0.0), value(1.0), value(EARLY)
    sufficient = 0.1  # share of the slope that a whole step must realize
    if whole <= start + sufficient * min(early - start, 0.0) / EARLY:
        return 1.0
    return float(minimize_scalar(value, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-8}).x)


STEP_RULES = ("scaled", "safe", "heuristic")


@dataclass
class _State:
    """Where the iteration is, on the kernels ``work`` of the problem."""

    problem: Problem
    work: Array
    blocks: Blocks
    previous: Blocks
    b: float
    value: float
    sigma: Array
    theta: float = 1.0
    damping: float = FIRST_DAMPING
    restarts: int = 0
    fallbacks: int = 0
    newton_steps: int = 0


@dataclass(frozen=True, kw_only=True)
class ForwardBackward(Solver):
    r"""Proximal forward-backward splitting, block by block, never forming a matrix of order MN.

    With ``rho = -s l'(z)`` at the current scores ``z = sum_j K_j alpha_j + b``, every block moves to

    .. math:: a_j = \alpha_j + \rho / \sigma_j, \qquad
              \alpha_j \leftarrow \frac{\mathrm{prox}(\|a_j\|_{K_j})}{\|a_j\|_{K_j}}\, a_j

    for losses with a Lipschitz derivative. For the squared loss and the elastic net the method is PFBS of the paper
    with ``sigma`` equal to ``(sigma_j + n mu) / n``, since the ridge part is in the prox. An iteration reads every
    kernel of the work set once. The intercept is minimized out exactly before every gradient, which leaves a smooth
    convex function with the same step sizes.

    Parameters
    ----------
    step_rule : {"scaled", "safe", "heuristic"}
        ``"safe"``: ``sigma = lambda_max(sum_j K_j)``, with which every step descends. ``"scaled"``: ``sigma_j`` in
        proportion to the trace of every kernel, just as safe, and far faster when kernels differ in scale ("safe" for
        regularizers that couple blocks or have no such prox: ``"lq"`` and ``"simplex"``). ``"heuristic"``: the paper's
        ``max_j lambda_max(K_j)``, which diverges when kernels are alike; the first increase of the objective switches
        to the safe rule.
    accelerate : bool
        Momentum (FISTA), restarted whenever the objective increases or the momentum points uphill.
    polish : bool
        Newton steps on the support, after every round of splitting steps. Splitting alone needs very many steps when
        kernels are nearly collinear; without polishing it may stall there.
    round_steps : int
        Splitting steps between two certificates.

    Notes
    -----
    Unlike those of the working-set solver, the passes reported include what is read of the work set.

    The returned and certified model has a common ``rho`` for all blocks and weights from their norms: the blocks are
    proportional to a common ``rho`` only at the optimum.

    References
    ----------
    Z. Liu, "rls_dual_mkl: a PFBS-based implementation for multiple kernel learning"; L. Rosasco et al., "Iterative
    projection methods for structured sparsity regularization", MIT-CSAIL-TR-2009-050. Momentum: A. Beck, M. Teboulle,
    SIAM J. Imaging Sci. 2 (2009). Restarts: B. O'Donoghue, E. Candes, Found. Comput. Math. 15 (2015). Newton on the
    identified support: G. Bareilles, F. Iutzeler, J. Malick, Math. Program. 200 (2023).

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective.losses import get_loss
    >>> from manykernels.objective.problem import Problem
    >>> from manykernels.objective.regularizers import get_regularizer
    >>> kernels = np.stack([np.eye(4), np.ones((4, 4)), np.diag([1.0, 2.0, 3.0, 4.0])])
    >>> problem = Problem(kernels, [1.0, 2.0, 3.0, 4.0], get_loss("squared"), get_regularizer("l1", 0.5))
    >>> str(ForwardBackward(tol=1e-8).solve(problem).status)
    'converged'
    """

    max_iter: int = 1000
    step_rule: str = "scaled"
    accelerate: bool = True
    polish: bool = True
    round_steps: int = 20

    name: ClassVar[str] = "pfbs"
    fallback: ClassVar[type[Solver] | None] = InteriorPoint
    needs: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.BOUNDED_CURVATURE, Capability.CURVATURE, Capability.WEIGHTS_FROM_NORMS}
    )

    def __post_init__(self) -> None:
        check_choice(self.step_rule, STEP_RULES, "step_rule")
        check_count(self.round_steps, "round_steps")

    def sigma(self, problem: Problem) -> Array:
        """Return the inverse step size of every block, (M,)."""
        if self.step_rule == "heuristic":
            return heuristic_sigma(problem)
        scalable = self.step_rule == "scaled" and takes_many_steps(problem.regularizer)
        return scaled_sigma(problem) if scalable else safe_sigma(problem)

    @property
    def fallback_statuses(self) -> tuple[Status, ...]:
        """Statuses of failure that lead to a fallback, unless plain splitting or a published step size is requested."""
        return BROKEN if self.polish and self.accelerate and self.step_rule == "scaled" else ()

    def initialize(self, problem: Problem, start: Model) -> _State:
        """Start from the blocks ``d_m K_m rho`` of the given model."""
        rho, d, b = start
        coefficients = (problem.penalties**2 * d)[:, None] * rho
        values = np.zeros_like(coefficients)
        active = np.flatnonzero(d)
        values[active] = problem.stack.apply_each(rho, active) * d[active, None]
        return self._state_at(problem, np.arange(problem.n_kernels), Blocks.create(coefficients, values), b)

    def _state_at(self, problem: Problem, work: Array, blocks: Blocks, b: float) -> _State:
        b = best_intercept(problem, blocks.scores(), b)
        return _State(problem, work, blocks, blocks, b, objective(problem, blocks, b), self.sigma(problem))

    def observe(self, problem: Problem, state: _State, certificate: Certificate) -> None:
        """Choose the kernels to iterate on: nonzero blocks, and kernels with dual norms near the bound."""
        bound = _activity_bound(problem, state)
        active = np.zeros(problem.n_kernels, dtype=bool)
        active[state.work[state.blocks.norms > 0]] = True
        wanted = active | (certificate.dual_norms >= np.minimum(NEARLY_ACTIVE * bound, certificate.dual_norms.max()))
        missing = np.setdiff1d(np.flatnonzero(wanted), state.work)
        if missing.size or np.count_nonzero(wanted) < 0.5 * state.work.size:
            self._move(problem, state, np.flatnonzero(wanted))

    def _move(self, problem: Problem, state: _State, work: Array) -> None:
        coefficients, values = (np.zeros((problem.n_kernels, problem.n_samples)) for _ in range(2))
        coefficients[state.work], values[state.work] = state.blocks.coefficients, state.blocks.values
        moved = self._state_at(
            _restricted(problem, work), work, Blocks.create(coefficients[work], values[work]), state.b
        )
        for name in ("problem", "work", "blocks", "previous", "b", "value", "sigma", "theta"):
            setattr(state, name, getattr(moved, name))
        if state.fallbacks:  # the rule that diverged once is not trusted on other kernels either
            state.sigma = np.maximum(safe_sigma(state.problem), state.sigma)

    def step(self, problem: Problem, state: _State) -> None:
        """Take a round of splitting steps, then Newton steps on the support while useful."""
        before = state.problem.stack.counters.entries
        for _ in range(self.round_steps):
            self._split(state)
        if self.polish:
            newton_steps = 12  # most in an outer iteration
            for _ in range(newton_steps):
                if not self._newton(state):
                    break
                self._split(state)
        if state.problem is not problem:
            stack = state.problem.stack
            problem.stack.counters.add(stack.counters.entries - before, stack.dtype.itemsize)

    def extract(self, problem: Problem, state: _State) -> Model:
        """Return a common ``rho`` for all blocks, with weights that preserve the norms."""
        rho = dual_vector(state.problem, state.blocks.scores(), state.b)
        norms = state.problem.dual_norms(rho)
        d = np.zeros(problem.n_kernels)
        weights = state.problem.regularizer.weights(state.blocks.norms, norms)
        d[state.work] = weights / state.problem.penalties**2
        return rho, d, state.b

    def newton_steps(self, state: _State) -> int:
        return state.newton_steps

    def _split(self, state: _State) -> None:
        """Take a forward-backward step, or undo the momentum or the step size after an increase."""
        problem, (momentum, theta) = state.problem, _momentum(state.theta) if self.accelerate else (0.0, 1.0)
        point = state.blocks.extrapolate(state.previous, momentum)
        scores = point.scores()
        b = best_intercept(problem, scores, state.b)
        blocks = forward_backward(problem, point, dual_vector(problem, scores, b), state.sigma)
        b = best_intercept(problem, blocks.scores(), b)
        value = objective(problem, blocks, b)
        if not value <= state.value + ROUNDING * abs(state.value):
            self._retreat(state, momentum)
            return
        along = np.einsum("mi,mi->m", point.coefficients - blocks.coefficients, blocks.values - state.blocks.values)
        uphill = float(state.sigma @ along) > 0
        state.restarts += uphill
        state.theta = 1.0 if uphill else theta
        state.previous, state.blocks, state.b, state.value = state.blocks, blocks, b, value

    def _retreat(self, state: _State, momentum: float) -> None:
        state.theta, state.previous = 1.0, state.blocks
        if momentum > 0:
            state.restarts += 1
        elif self.step_rule == "heuristic" and state.fallbacks == 0:
            state.fallbacks += 1
            state.sigma = np.maximum(safe_sigma(state.problem), state.sigma)

    def _newton(self, state: _State) -> bool:
        """Take a damped Newton step on the support; return whether the objective decreased."""
        problem, blocks = state.problem, state.blocks
        support = np.flatnonzero(blocks.norms) if problem.regularizer.sparse else np.arange(problem.n_kernels)
        if support.size == 0:
            return False
        state.newton_steps += 1
        try:
            found = newton_step(problem, support, blocks, state.b, state.damping)
            if found.step < SHORT_STEP:
                found = self._retried(state, support, found)
        except LinAlgError:  # blocks of very different size, which splitting has yet to bring to order
            state.damping = min(HIGHEST_DAMPING, 10 * state.damping)
            return False
        # Within rounding the objective says nothing, but a whole Newton step does what it should.
        slack = ROUNDING * abs(state.value) if found.step == 1.0 else 0.0
        if not found.value < state.value + slack:
            state.damping = min(HIGHEST_DAMPING, 10 * state.damping)
            return False
        paying = state.value - found.value > slack
        state.damping = max(LOWEST_DAMPING, state.damping * (0.1 if found.step == 1.0 else 1.0))
        state.blocks = state.previous = found.blocks
        state.b, state.value, state.theta = found.b, found.value, 1.0
        return paying

    def _retried(self, state: _State, support: Array, cut: NewtonStep) -> NewtonStep:
        """Try again without the blocks that the step would turn around, and with the bends of the loss beyond the end.

        Both are what cuts a Newton step short; splitting alone would need very many steps to get past them. Returns the
        best of all trials.
        """
        problem, found, best = state.problem, cut, cut
        most_retries = 10
        for _ in range(most_retries):
            support = support[~found.leaving]
            if support.size == 0:
                break
            kept = np.zeros(problem.n_kernels)
            kept[support] = 1.0
            blocks = state.blocks.scaled(kept) if support.size < np.count_nonzero(state.blocks.norms) else state.blocks
            found = newton_step(problem, support, blocks, state.b, state.damping, found.ahead)
            state.newton_steps += 1
            best = found if found.value < best.value else best
            if found.step >= SHORT_STEP:
                break
        return best


def _momentum(theta: float) -> tuple[float, float]:
    following = (1.0 + np.sqrt(1.0 + 4.0 * theta**2)) / 2
    return (theta - 1.0) / following, float(following)


def _activity_bound(problem: Problem, state: _State) -> Array | float:
    """Return the dual norms above which zero blocks become nonzero; no kernel is left out below zero."""
    regularizer = problem.regularizer
    if not regularizer.sparse:
        return -np.inf
    return np.asarray(regularizer.threshold(state.blocks.norms))


def _restricted(problem: Problem, kernels: Array) -> Problem:
    """Return the problem on some kernels: unchanged, a view if in memory, else a packed copy."""
    stack = problem.stack
    if kernels.size == problem.n_kernels:
        return problem
    few: GramStack
    if stack.in_memory:
        few = stack.view(kernels)
    else:
        few = PackedStack(stack.triangles(kernels), problem.n_samples, n_threads=stack.n_threads)
    return replace(
        problem, stack=few, kernel_penalties=problem.penalties[kernels], regularizer=problem.regularizer.take(kernels)
    )
