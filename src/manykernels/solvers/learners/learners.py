"""Fixed-weight learners: a single kernel matrix, any loss, any accuracy, warm starts.

How every loss is solved follows measurements (benchmarks/records/skm.md, benchmarks/learners.py):

- losses of all samples together, as partial likelihoods: Newton's method on dense curvatures;
- squared: one bordered Cholesky factorization, or conjugate gradients where the stack forms no matrix;
- other losses with derivatives, where the stack forms no matrix: Newton steps by conjugate gradients;
- hinge: pairs of samples are moved by the loop of `smo_svm`, from the coefficients of the warm start or from zero, and
  active sets are exchanged from there until the answer is exact. In five solvers on two data sets this takes less time
  than to exchange the old active set and to ask LIBSVM where that fails, by a factor of 2 in the median. The
  primal-dual iteration takes 10 to 100 times as long, so it only catches what the exchange misses;
- epsilon-insensitive and quantile: the same exchange from the active set of the warm start, else the primal-dual
  iteration from the middle of the box, with multipliers of the size of the loss of no model: 10 to 15 Newton steps
  whatever the rank and the scale of the matrix. LIBSVM, which was here before, moves pairs for ever where kernels of
  low rank have large weights, and has no quantile loss;
- squared hinge and Huber: the same exchange, from the active set of the warm start, else from all samples free;
- logistic, and losses whose conjugate is neither quadratic nor the respective barrier: the primal-dual iteration, about
  5 Newton steps cold and 2 warm.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError

from manykernels.grams.dense import DenseStack
from manykernels.objective.capabilities import Capability
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Ridge
from manykernels.solvers.gram.iteration import PrimalDual
from manykernels.solvers.gram.newton_system import NewtonSystem
from manykernels.solvers.gram.sample_variables import EntropicSamples, SampleVariables, paired_samples
from manykernels.solvers.gram.start import interior_point, start_iteration
from manykernels.solvers.gram.weight_variables import FixedWeights
from manykernels.solvers.learners import products
from manykernels.solvers.learners.smo_svm import svm_from
from manykernels.validation.arrays import Array

# Exact answers for piecewise quadratic losses: guess which samples are at a bound, solve for the rest, correct.
#
# The dual of a fixed-weight learner with one of these losses is the quadratic program
#
#     maximize_r  sum_i (y_i r_i - kink |r_i| - curvature r_i^2 / (2 s_i)) - r' gram r / 2
#     subject to  lo <= r <= hi,  sum r = 0.
#
# Started from the samples at bounds of a similar problem, a few systems of the size of the *free* samples suffice.


def exchange_active_sets(problem: Problem, gram: Array, rho: Array, b: float) -> Iterator[tuple[Array, float]]:
    """Yield improving models ``(rho, b)``, starting from the active set of ``rho``; the last one may be exact.

    This is the primal-dual active set method, i.e. Newton's method on the piecewise linear optimality conditions: fast
    near the solution, without any promise far from it. The caller certifies what it yields.

    References
    ----------
    M. Hintermueller, K. Ito, K. Kunisch, "The primal-dual active set strategy as a semismooth Newton method",
    SIAM J. Optim. 13 (2002).
    """
    pieces = _pieces(problem, gram, rho, b)
    for _ in range(products.MOST_ROUNDS):
        if not pieces.free.any():
            return
        try:
            b = pieces.solve(problem, gram)
        except LinAlgError:
            return
        yield np.clip(pieces.rho, pieces.low, pieces.high), b
        if not pieces.exchange(problem, gram, b):
            return


@dataclass
class _Pieces:
    """The quadratic piece of every sample: the interval, the linear term, and the free flag."""

    low: Array
    high: Array
    linear: Array
    diagonal: Array
    rho: Array
    free: Array

    def solve(self, problem: Problem, gram: Array) -> float:
        """Solve for the free samples with all others at their bounds; return the intercept."""
        free, fixed = np.flatnonzero(self.free), np.flatnonzero(~self.free & (self.rho != 0))
        right = self.linear[free] - gram[np.ix_(free, fixed)] @ self.rho[fixed]
        matrix = gram[np.ix_(free, free)]
        matrix[np.diag_indices_from(matrix)] += self.diagonal[free]
        if not (matrix.diagonal() > 0).all():
            raise LinAlgError("a free sample has no curvature")
        self.rho[free], b = NewtonSystem(matrix, problem.fit_intercept).solve(right, -float(self.rho[fixed].sum()))
        return b

    def exchange(self, problem: Problem, gram: Array, b: float) -> bool:
        """Move samples to crossed bounds, free samples pulled off bounds; return whether any moved."""
        below, above = self.free & (self.rho < self.low), self.free & (self.rho > self.high)
        used = np.flatnonzero(self.rho)
        pull = self.linear - self.diagonal * self.rho - gram[:, used] @ self.rho[used] - b
        kept = self.free & ~below & ~above
        pull = pull + self._cross_kinks(problem, pull)
        at_low, at_high = ~self.free & (self.rho <= self.low), ~self.free & (self.rho >= self.high)
        released = (at_low & (pull > 0)) | (at_high & (pull < 0))
        self.rho = np.clip(self.rho, self.low, self.high)
        before, self.free = self.free, kept | released
        return bool((before != self.free).any())

    def _cross_kinks(self, problem: Problem, pull: Array) -> Array | float:
        """Put samples at 0 with a pull beyond the kink on the other side; return the change of the pull."""
        kink = problem.loss.kink
        if kink == 0:
            return 0.0
        low, high = problem.dual_box
        at_zero = ~self.free & (self.rho == 0)
        down, up = at_zero & (self.low == 0) & (pull < -2 * kink), at_zero & (self.high == 0) & (pull > 2 * kink)
        self.low = np.where(down, low, np.where(up, 0.0, self.low))
        self.high = np.where(up, high, np.where(down, 0.0, self.high))
        change = 2 * kink * (down.astype(np.float64) - up)
        self.linear = self.linear + change
        return change


def _pieces(problem: Problem, gram: Array, rho: Array, b: float) -> _Pieces:
    low, high = problem.dual_box
    linear, kink = problem.y, problem.loss.kink
    rho = np.clip(rho, low, high)
    if kink > 0:
        positive = np.where(rho == 0, problem.y - gram @ rho - b > 0, rho > 0)
        low, high = np.where(positive, 0.0, low), np.where(positive, high, 0.0)
        linear = linear - np.where(positive, kink, -kink)
    width = np.where(np.isfinite(high - low), high - low, np.abs(rho).max())
    free = (rho > low + products.AT_BOUND * width) & (rho < high - products.AT_BOUND * width)
    rho = np.where(free, rho, np.where(rho - low < high - rho, low, high))
    return _Pieces(low, high, np.array(linear), problem.loss.curvature / problem.weight, rho, free)


@dataclass(frozen=True, eq=False)
class LearnerFit:
    """The learner on a single kernel matrix: ``f = gram @ rho``, scores ``f + b``."""

    # ndarray of shape (N,): dual coefficients, feasible: inside the dual box, with zero sum if there is an intercept
    rho: Array
    b: float  # intercept, 0 without one
    # -sum_i s_i l*(y_i, -rho_i/s_i) - rho' gram rho / 2: a lower bound on the optimum, since rho is feasible
    dual_value: float
    gap: float  # primal value of this very model minus dual_value
    steps: int  # linear systems solved

    @property
    def primal_value(self) -> float:
        """``sum_i s_i l(y_i, f_i + b) + rho' gram rho / 2``."""
        return self.dual_value + self.gap


def fit_learner(
    problem: Problem, gram: Array | products.WeightedProducts, *, warm: LearnerFit | None = None, tol: float = 1e-9
) -> LearnerFit:
    """Fit the loss of a problem on a single kernel matrix.

    Solves ``min_{f,b} sum_i s_i l(y_i, f_i + b) + ||f||^2 / 2`` in the space of the kernel whose Gram matrix is ``gram
    = sum_m d_m K_m``; the dual is ``max_rho -sum_i s_i l*(y_i, -rho_i/s_i) - rho' gram rho / 2``. The model is ``f =
    gram @ rho`` with ``rho_i = -s_i l'(y_i, f_i + b)``.
    """
    if not gram.any() and not problem.loss.couples_samples:
        return _certify(problem, gram, *problem.zero_model(), 0)
    if problem.loss.couples_samples:
        assert isinstance(gram, np.ndarray), "products alone are for sums over samples"
        return _fit_coupled(problem, gram, warm, tol)
    if isinstance(gram, products.WeightedProducts):
        # Fit a loss with derivatives by products with the kernel matrix.
        # The kernel weights depend on norms, which are off by the root of the gap of a learner that is not exact.
        least = max(tol * tol, products.LEAST_GAP)
        rho, b = problem.zero_model() if warm is None else (problem.feasible_dual(warm.rho), warm.b)
        if problem.loss.linear_dual:
            start = np.zeros(problem.n_samples) if warm is None else rho
            return _certify(problem, gram, *products.conjugate_gradients(problem, gram, start, least))
        return _certify(problem, gram, *products.newton(problem, gram, rho, b, least))
    if problem.loss.linear_dual:
        return _solve_linear(problem, gram)
    if problem.loss.conjugate_form == "quadratic":
        return _exchange(problem, gram, warm, tol)
    return _resume(problem, gram, warm, tol)


def _fit_coupled(problem: Problem, gram: Array, warm: LearnerFit | None, tol: float) -> LearnerFit:
    """Fit a loss of all samples together: Newton on ``rho = -L'(K rho)``, ``(I + H K) drho = -(rho + L'(K rho))``."""
    single, bound = _single(problem, gram), problem.bound
    rho = np.zeros(problem.n_samples) if warm is None else warm.rho
    if not _objective(problem, gram, rho) < _objective(problem, gram, 0.0 * rho):  # of other weights, and far away
        rho = 0.0 * rho
    best: LearnerFit | None = None
    for steps in range(products.MOST_STEPS):
        found = single.certificate(rho, np.ones(1), 0.0)
        if best is not None and not found.gap < best.gap:
            break
        best = LearnerFit(rho, 0.0, found.dual, found.gap, steps)
        if _accurate(problem, best, tol):
            break
        z = gram @ rho
        curvature, units = bound.curvature(z), np.eye(len(z))
        hessian = np.array([curvature.product(unit) for unit in units])
        step = np.linalg.solve(units + hessian @ gram, -(rho + bound.gradient(z)))
        rho = _shorten(problem, gram, rho, step, found.primal)
    assert best is not None
    return best


def _shorten(problem: Problem, gram: Array, rho: Array, step: Array, before: float) -> Array:
    """Return the end of a step halved until the objective falls."""
    most_halvings = 30  # of a Newton step, until the objective falls
    for _ in range(most_halvings):
        if _objective(problem, gram, rho + step) < before:
            return rho + step
        step = 0.5 * step
    return rho


def _objective(problem: Problem, gram: Array, rho: Array) -> float:
    """Return the loss of ``K rho`` and half the squared norm, infinite beyond float64."""
    f = gram @ rho
    try:
        return problem.empirical_loss(f) + 0.5 * float(rho @ f)
    except FloatingPointError:
        return np.inf


def _certify(problem: Problem, gram: Array | products.WeightedProducts, rho: Array, b: float, steps: int) -> LearnerFit:
    """Make ``rho`` feasible and compute both values of exactly the model."""
    rho = problem.feasible_dual(rho)
    f = gram @ rho
    half = 0.5 * float(rho @ f)
    dual = -problem.conjugate_loss(rho) - half
    return LearnerFit(rho, b, dual, problem.empirical_loss(f + b) + half - dual, steps)


def _solve_linear(problem: Problem, gram: Array) -> LearnerFit:
    """Solve ``(gram + diag(curvature/s)) rho + b = y``, ``sum rho = 0``: a bordered Cholesky factorization."""
    matrix = np.array(gram, dtype=np.float64)
    matrix[np.diag_indices_from(matrix)] += problem.loss.curvature / problem.weight
    rho, b = NewtonSystem(matrix, problem.fit_intercept).solve(problem.y, 0.0)
    return _certify(problem, gram, rho, b, 1)


def _exchange(problem: Problem, gram: Array, warm: LearnerFit | None, tol: float) -> LearnerFit:
    """Exchange active sets, from ever more careful starts."""
    found = _certify(problem, gram, *problem.zero_model(), 0)
    for rho, b in _starts(problem, gram, warm):
        found = _polish(problem, gram, _certify(problem, gram, rho, b, found.steps), tol)
        if _accurate(problem, found, tol):
            return found
    found = _descend(problem, gram, _cold(problem, gram), found, tol)
    return found if _accurate(problem, found, tol) else _polish(problem, gram, found, tol)


def _starts(problem: Problem, gram: Array, warm: LearnerFit | None) -> Iterator[tuple[Array, float]]:
    """Yield the starting models of active-set exchange; none if only the iteration can find one."""
    if Capability.HINGE_FORM in problem.loss.capabilities:
        yield _smo(problem, gram, warm)
        return
    if warm is not None:
        yield warm.rho, warm.b
    if not problem.loss.piecewise_linear:
        _, b = problem.zero_model()
        low, high = problem.dual_box
        yield np.where(np.isfinite(high - low), (low + high) / 2, problem.y), b  # all off the ends of their intervals


def _smo(problem: Problem, gram: Array, warm: LearnerFit | None) -> tuple[Array, float]:
    """Move pairs of samples (single samples without intercept), from the last coefficients if any."""
    start = np.zeros(problem.n_samples) if warm is None else problem.feasible_dual(warm.rho)
    tol = products.PAIRS_TOL if problem.fit_intercept else products.SINGLES_TOL
    most, border = products.SMO_SWEEPS * problem.n_samples, problem.fit_intercept
    rho, b, _ = svm_from(start, gram, problem.y, problem.dual_box, tol=tol, most=most, fit_intercept=border)
    return rho, b


def _polish(problem: Problem, gram: Array, best: LearnerFit, tol: float) -> LearnerFit:
    """Exchange active sets from the set of ``best``; return the best model."""
    steps = best.steps
    for rho, b in exchange_active_sets(problem, gram, best.rho, best.b):
        steps += 1
        found = _certify(problem, gram, rho, b, steps)
        best = replace(found if found.gap < best.gap else best, steps=steps)
        if _accurate(problem, best, tol):
            break
    return best


def _resume(problem: Problem, gram: Array, warm: LearnerFit | None, tol: float) -> LearnerFit:
    """Continue from the scores of the old coefficients, so only ``f = gram @ rho`` is violated."""
    zero = _certify(problem, gram, *problem.zero_model(), 0)
    samples = None if warm is None else _warm_samples(problem, gram, warm)
    if warm is None or samples is None:
        return _descend(problem, gram, _cold(problem, gram), zero, tol)
    iteration = PrimalDual(_single(problem, gram), samples, FixedWeights(np.ones(1)), warm.b)
    found = _descend(problem, gram, iteration, _certify(problem, gram, warm.rho, warm.b, 0), tol)
    return found if _accurate(problem, found, tol) else _descend(problem, gram, _cold(problem, gram), found, tol)


def _warm_samples(problem: Problem, gram: Array, warm: LearnerFit) -> SampleVariables | None:
    """Return the variables of the loss at old coefficients; None at possible bounds with multipliers."""
    low, high = problem.dual_box
    if not (np.isfinite(low).any() or np.isfinite(high).any()):
        return paired_samples(problem, warm.rho, 0.0)
    if not problem.loss.entropic:
        return None
    scores = -problem.loss.conjugate_derivative(problem.y, warm.rho / problem.weight)
    scores = np.where(np.isfinite(scores), scores, gram @ warm.rho + warm.b)
    return EntropicSamples(problem.loss, problem.y, problem.weight, low, high, warm.rho, scores)


def _cold(problem: Problem, gram: Array) -> PrimalDual:
    """Return the primal-dual iteration of the library on the single kernel with weight 1.

    Of a piecewise linear loss it starts in the middle: where weights are large, the best multiple of a start near the
    zero model is next to nothing, and the products are then too small for any long step.
    """
    rho, b = problem.zero_model()
    if not problem.loss.piecewise_linear:
        return start_iteration(_single(problem, gram), rho, b)
    loss = problem.empirical_loss(problem.constant_scores(b))
    barrier = max(loss, problem.tiny) / (2 * problem.n_samples)
    samples = paired_samples(problem, interior_point(problem, np.zeros_like(rho)), barrier)
    return PrimalDual(_single(problem, gram), samples, FixedWeights(np.ones(1)), b)


def _single(problem: Problem, gram: Array) -> Problem:
    return replace(problem, stack=DenseStack(gram[None]), regularizer=Ridge(1.0), kernel_penalties=None)


def _descend(problem: Problem, gram: Array, iteration: PrimalDual, best: LearnerFit, tol: float) -> LearnerFit:
    """Take Newton steps, at least one: an old answer is never returned unchanged."""
    useless, smallest = 0, np.inf
    for _ in range(products.MOST_STEPS):
        try:
            iteration.newton_step(tol * max(abs(best.primal_value), problem.tiny))
        except (LinAlgError, FloatingPointError):
            break
        found = _certify(problem, gram, iteration.samples.rho, iteration.b, 0)
        useless = 0 if found.gap < 0.9 * smallest else useless + 1
        smallest = min(smallest, found.gap)
        best = replace(found if found.gap < best.gap else best, steps=best.steps + 1)
        near = smallest <= products.NEARLY_EXACT * max(abs(best.primal_value), problem.tiny)
        if _accurate(problem, best, tol) or useless >= (products.PATIENCE_NEAR if near else products.PATIENCE):
            break
    return best


def _accurate(problem: Problem, fit: LearnerFit, tol: float) -> bool:
    return fit.gap <= tol * max(abs(fit.primal_value), problem.tiny)
