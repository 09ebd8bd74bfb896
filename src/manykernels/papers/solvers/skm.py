"""The support kernel machine: sequential minimal optimization on a smoothed dual, finished by Newton steps.

    minimize_rho  G_kappa(q) - y'rho,      lo <= rho <= hi,  sum rho = 0,  q_m = sqrt(rho'K_m rho / lambda) / w_m

    G_kappa(q) = min_h  h^2 / (2 (1 - kappa)^2) + sum_m (q_m - h)_+^2 / (2 kappa^2)

which is ``max_m q_m^2 / 2`` for ``kappa`` to 0; kernel weights are proportional to ``(q_m - h)_+``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.objective.capabilities import Capability
from manykernels.objective.problem import Certificate, Problem
from manykernels.papers.solvers import skm_descent
from manykernels.solvers.base import BROKEN, Solver
from manykernels.solvers.gram.interior_point import InteriorPoint
from manykernels.solvers.learners.smo_svm import svm_loop
from manykernels.solvers.run import check_deadline
from manykernels.solvers.solution import Model, Solution, Status
from manykernels.validation.arrays import Array, check_count, check_positive


@dataclass
class _State:
    """Vectors over all M kernels, and the descent on the working set."""

    rho: Array
    eta: Array
    kappa: float
    finishing: bool
    norms: Array
    descent: skm_descent.Descent | None = None
    center: Array = field(default_factory=lambda: skm_descent.NO_CENTER)
    sigma: float = 0.0
    least: float = np.inf
    rounds: int = 0
    primal: float = np.inf
    solved: bool = True
    newton_steps: int = 0

    def recenter(self) -> None:
        """Center the smoothing at the present weights."""
        self.center, self.least, self.rounds = self.eta, np.inf, 0
        grown = min(self.sigma * skm_descent.SIGMA_GROWTH, skm_descent.LARGEST_SIGMA)
        self.sigma = grown if self.sigma else 1.0 / self.kappa**2


@dataclass(frozen=True, kw_only=True)
class SupportKernelMachine(Solver):
    """Solve the support kernel machine by sequential minimal optimization (Bach, Lanckriet and Jordan 2004).

    The problem is ``min_{w,b} (1/2) (sum_j d_j ||w_j||)^2 + C sum_i s_i xi_i``, in the terms of the library the hinge
    loss with the regularizer ``Simplex(1 / C)`` and the kernel penalties ``d_j``; the dual has the kink ``max_j
    J_j(alpha)``. The Moreau-Yosida term ``(1/2) sum_j a_j^2 ||w_j||^2`` makes it smooth, with ``kappa d_j`` for ``a_j``
    and ``(1 - kappa) d_j`` in place of ``d_j``. At ``kappa = 1`` it is a support vector machine on the sum of the
    kernels; from there ``kappa`` falls geometrically, every time with the last solution as start. Two samples are moved
    at a time, the first by largest violation, the second by the second-order model, to the root of the derivative along
    the pair. Without an intercept single samples are moved.

    With ``(1 - kappa) d_j`` the squared norms of the problem shrink by ``(1 - kappa)^2`` but the losses do not, so a
    stage approximates the problem of a larger ``C``, with an error proportional to ``kappa``. Here the box shrinks
    along (``rescale``), which leaves an error proportional to ``kappa^2``. The number of steps still grows steeply as
    ``kappa`` falls. From ``smallest_kappa`` on the class therefore goes beyond the paper: the smoothing is centered at
    the weights found so far (the method of multipliers, exact without a limit), Newton steps on the samples inside the
    box take turns with pairs, and a few Newton steps on the optimality conditions finish.

    Parameters
    ----------
    kappa_factor : float
        What ``kappa`` is multiplied by, in (0, 1).
    smallest_kappa : float
        Where the Newton steps begin, in (0, 1].
    newton : bool
        False for pairs alone, as in the paper, which let ``kappa`` fall until the gap is below ``tol``; expect no gap
        below 1e-4.
    rescale : bool
        Whether a stage is solved at the constant ``C (1 - kappa)^2``; False, with ``newton=False`` and ``epsilons``,
        for the algorithm of the paper to the letter: every stage takes pairs until it is ``eps2 / 2``-optimal, however
        many that are. Expect no gap below 1e-2.
    cache_bytes : int
        Most bytes of kernel rows kept in memory.
    smoothing : sequence of float or None
        Factors ``c_j``, one a kernel: ``a_j = kappa c_j d_j``, the free constants of the paper. None is ones, as in the
        experiments. They shape the way down from ``kappa = 1``, not the optimum.
    shrinking : bool
        Leave out, for a while, samples at a bound that their gradient pushes against.
    epsilons : tuple of two floats or None
        ``(eps1 / N, eps2)`` of the paper's stopping rule, which then ends a run in place of ``tol``: all kernels with a
        weight have ``J_j`` within ``eps1`` of the largest, and no sample misses the optimality interval by more than
        ``2 eps2``. The paper has (5e-4, 1e-4), with ``J`` in the respective units, ``C`` times those of the library.
        ``tol`` still says how closely subproblems are solved.
    sparsify : bool
        Look for fewer kernels by linear programs at the end, keeping the gap below ``tol``.

    Notes
    -----
    Kernels whose norm is well below the threshold, above which weights are positive, leave the working set; the pass of
    the next certificate checks them and brings them back.

    See Also
    --------
    manykernels.solvers.learners.smo_svm.smo_svm : the case of one kernel.
    manykernels.papers.solvers.skm_descent.epsilon_optimality : the optimality test of the paper.

    References
    ----------
    F. Bach, G. Lanckriet, M. Jordan, "Multiple kernel learning, conic duality, and the SMO algorithm", ICML 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import solve
    >>> rng = np.random.default_rng(0)
    >>> factors = rng.standard_normal((10, 30, 2))
    >>> kernels = factors @ factors.transpose(0, 2, 1)
    >>> y = np.sign(factors[7, :, 0])
    >>> solution = solve(kernels, y, loss="hinge", penalty="simplex", alpha=0.1 / 30, solver="skm", tol=1e-6)
    >>> str(solution.status), int(solution.kernel_weights.argmax())
    ('converged', 7)
    """

    max_iter: int = 1000
    kappa_factor: float = 0.5
    smallest_kappa: float = 0.125
    newton: bool = True
    rescale: bool = True
    cache_bytes: int = 200 * 2**20
    smoothing: tuple[float, ...] | None = None
    shrinking: bool = True
    epsilons: tuple[float, float] | None = None
    sparsify: bool = False

    name: ClassVar[str] = "skm"
    fallback: ClassVar[type[Solver] | None] = InteriorPoint
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.HINGE_FORM, Capability.SIMPLEX})

    def __post_init__(self) -> None:
        check_positive(self.smallest_kappa, "smallest_kappa", upper=1.0)
        check_count(self.cache_bytes, "cache_bytes")
        if check_positive(self.kappa_factor, "kappa_factor", upper=1.0) == 1.0:
            raise InvalidInputError("kappa_factor must be below 1, so that kappa decreases.")
        if self.smoothing is not None:
            skm_descent.shares_of(self.smoothing)
            object.__setattr__(self, "smoothing", tuple(float(factor) for factor in self.smoothing))
        if self.epsilons is not None:
            if not isinstance(self.epsilons, tuple) or len(self.epsilons) != 2:
                raise InvalidInputError(f"epsilons must be a pair such as (5e-4, 1e-4), got {self.epsilons!r}.")
            for epsilon in self.epsilons:
                check_positive(epsilon, "each of epsilons")

    @property
    def fallback_statuses(self) -> tuple[Status, ...]:
        """Statuses of failure that lead to a fallback, unless pairs alone or the published rule are requested."""
        return BROKEN if self.newton and self.epsilons is None else ()

    def check(self, problem: Problem) -> None:
        """Raise unless the algorithm can solve ``problem`` and there is a factor of smoothing for every kernel."""
        super().check(problem)
        if self.smoothing is not None and len(self.smoothing) != problem.n_kernels:
            raise InvalidInputError(
                f"smoothing has {len(self.smoothing)} factors for {problem.n_kernels} kernels: give one each."
            )

    @property
    def _follows_paper(self) -> bool:
        """Whether stages are solved as the paper has it."""
        return not self.newton and not self.rescale and self.epsilons is not None

    def _shares(self, kernels: Array) -> Array:
        """Return the shares of the kernels in the smoothed dual; an empty array means ones."""
        return skm_descent.EQUAL_SHARES if self.smoothing is None else skm_descent.shares_of(self.smoothing)[kernels]

    def good_enough(self, problem: Problem) -> Callable[[Solution], bool] | None:
        """Return the paper's rule if there are ``epsilons``."""
        if self.epsilons is None:
            return None
        most = self.epsilons[0] * problem.n_samples * problem.regularizer.strength, self.epsilons[1]

        def optimal(model: Solution) -> bool:
            found = skm_descent.epsilon_optimality(problem, model.dual_coef, model.kernel_weights)
            return found.eps1 <= most[0] and found.eps2 <= most[1]

        return optimal

    def initialize(self, problem: Problem, start: Model) -> _State:
        """Start at ``kappa = 1``, or, for given kernel weights, at once with multipliers around the weights."""
        rho, d, _ = start
        state = _State(
            rho=np.array(problem.feasible_dual(rho)),
            eta=_project_simplex(d * problem.penalties**2),
            kappa=1.0,
            finishing=self.newton and bool(d.any()),
            norms=np.zeros(problem.n_kernels),
        )
        if state.finishing:
            state.kappa = self.smallest_kappa
            state.recenter()
        return state

    def observe(self, problem: Problem, state: _State, certificate: Certificate) -> None:
        """Keep the best primal value, the reference of tolerances, and the norms of all kernels."""
        state.primal = min(state.primal, certificate.primal)
        state.norms = certificate.dual_norms / np.sqrt(problem.regularizer.strength)

    def step(self, problem: Problem, state: _State) -> None:
        """Solve at the next ``kappa``; later, take a round of pairs and Newton steps."""
        if state.descent is None and not state.finishing:
            self._solve_sum(problem, state)
            return
        if not state.finishing and state.solved:
            state.kappa = max(self.kappa_factor * state.kappa, skm_descent.LOWEST_KAPPA)
        descent = self._revised(problem, state)
        if state.finishing:
            self._finish(problem, state, descent)
        else:
            self._smooth(problem, state, descent)

    def worth_certifying(self, problem: Problem, state: _State) -> bool:
        """Certify once the subproblem is solved or given up, or the weights are good enough on the working set."""
        descent, kernels = state.descent, _working_set(problem, state)
        close = descent is not None and _relative_gap(problem, descent, state.eta[kernels]) <= self.tol
        return state.solved or close

    def extract(self, problem: Problem, state: _State) -> Model:
        """Return the model of the working set, with weight zero for all other kernels."""
        descent, kernels = state.descent, _working_set(problem, state)
        assert descent is not None
        eta = state.eta[kernels]
        if self.sparsify:
            eta = self._sparser(problem, state, descent, eta)
        d = np.zeros(problem.n_kernels)
        d[kernels] = eta * descent.kernels.scales
        return descent.rho.copy(), d, descent.intercept(eta @ descent.products)

    def newton_steps(self, state: _State) -> int:
        return state.newton_steps + (state.descent.newton_steps if state.descent else 0)

    # --- falling kappa -----------------------------------------------------------------------------------------------

    def _solve_sum(self, problem: Problem, state: _State) -> None:
        """Solve ``kappa = 1``, a support vector machine on the sum of all kernels."""
        kernels = skm_descent.UnitKernels(problem, np.arange(problem.n_kernels))
        y, lo, hi = (np.array(values) for values in (problem.y, *problem.dual_box))
        most = skm_descent.STEPS_PER_SAMPLE * problem.n_samples
        tol, grad = self._tolerance(problem, state), np.empty_like(y)
        shares = self._shares(kernels.kernels)
        gram = kernels.combined(shares if shares.size else np.ones(problem.n_kernels))
        svm_loop(gram, y, lo, hi, state.rho, grad, problem.fit_intercept, tol, most, problem.n_samples)
        state.descent = skm_descent.Descent(kernels, state.rho, self.cache_bytes, self.shrinking, shares)
        state.eta = skm_descent.smoothed_dual(np.sqrt(state.descent.squares), 1.0, self.smoothing).weights

    def _smooth(self, problem: Problem, state: _State, descent: skm_descent.Descent) -> None:
        """Minimize ``G`` of the paper at the current ``kappa``; leave slow cases to the Newton steps."""
        tol, most = self._tolerance(problem, state), skm_descent.STEPS_PER_SAMPLE * problem.n_samples
        descent.shrink_box((1.0 - state.kappa) ** 2 if self.rescale else 1.0)
        violation = descent.minimize(skm_descent.NO_CENTER, state.kappa, tol, most)
        rounds = 1
        while self._follows_paper and violation > tol and rounds < skm_descent.MOST_ROUNDS:  # at most MOST_ROUNDS
            check_deadline()
            violation = descent.minimize(skm_descent.NO_CENTER, state.kappa, tol, most)
            rounds += 1
        descent.shrink_box(1.0)
        state.solved = violation <= tol or self.newton
        own = None if self.smoothing is None else np.array(self.smoothing)[_working_set(problem, state)]
        smoothed = skm_descent.smoothed_dual(np.sqrt(descent.squares), state.kappa, own)
        self._set_weights(problem, state, smoothed.weights)
        if self.newton and (violation > tol or state.kappa * self.kappa_factor < self.smallest_kappa):
            state.finishing = True
            state.recenter()

    def _tolerance(self, problem: Problem, state: _State) -> float:
        """Return the stopping violation, a part of the smoothing in the gap."""
        if self._follows_paper:
            assert self.epsilons is not None
            return self.epsilons[1]  # eps2 / 2 is half of what the interval is missed by
        share = skm_descent.VIOLATION_SHARE * self.tol
        if not state.finishing:
            share = max(share, skm_descent.SMOOTHING_SHARE * state.kappa)
        return share * max(min(state.primal, problem.loss_at_zero), problem.tiny) / problem.total_weight

    # --- multipliers -------------------------------------------------------------------------------------------------

    def _finish(self, problem: Problem, state: _State, descent: skm_descent.Descent) -> None:
        """Take a round at the current center; after convergence, polish, and center at the new weights."""
        tol = self._tolerance(problem, state)
        center = state.center[_working_set(problem, state)]
        descent.refresh()
        sigma = state.sigma / max(float(descent.squares.max()), problem.tiny)
        if descent.minimize(center, sigma, tol, problem.n_samples) > tol:
            descent.newton(center, sigma, 0.1 * tol)
        eta, grad = descent.weights(center, sigma)
        violation = descent.violation(grad)
        state.rounds = 0 if violation <= 0.5 * state.least else state.rounds + 1
        state.least = min(state.least, violation)
        state.solved = violation <= tol or state.rounds >= skm_descent.USELESS_ROUNDS
        if state.solved:
            eta = self._polished(problem, descent, eta)
        self._set_weights(problem, state, eta)
        if state.solved:
            state.recenter()

    def _polished(self, problem: Problem, descent: skm_descent.Descent, eta: Array) -> Array:
        """Take a few steps on the optimality conditions; return to the point with the smallest gap."""
        best = _relative_gap(problem, descent, eta), eta, descent.rho.copy()
        for _ in range(skm_descent.POLISH_STEPS):
            if best[0] <= skm_descent.POLISH_SHARE * self.tol:
                break
            eta = descent.polish(eta, skm_descent.POLISH_SIGMA / max(float(descent.squares.max()), problem.tiny))
            gap = _relative_gap(problem, descent, eta)
            if gap < best[0]:
                best = gap, eta, descent.rho.copy()
        descent.rho[:] = best[2]
        descent.refresh()
        return best[1]

    # --- working set -------------------------------------------------------------------------------------------------

    def _revised(self, problem: Problem, state: _State) -> skm_descent.Descent:
        """Return the descent on the possibly relevant kernels by the last certificate."""
        wanted = _select_wanted(state, self.smoothing)
        missing = np.setdiff1d(wanted, _working_set(problem, state)).size
        if state.descent is None or missing or wanted.size < skm_descent.WORTH_DROPPING * state.descent.squares.size:
            state.newton_steps = self.newton_steps(state)
            kernels = skm_descent.UnitKernels(problem, wanted)
            shares = self._shares(wanted)
            state.descent = skm_descent.Descent(kernels, state.rho, self.cache_bytes, self.shrinking, shares)
        return state.descent

    def _set_weights(self, problem: Problem, state: _State, eta: Array) -> None:
        state.eta = np.zeros(problem.n_kernels)
        state.eta[_working_set(problem, state)] = _project_simplex(eta)

    def _sparser(self, problem: Problem, state: _State, descent: skm_descent.Descent, eta: Array) -> Array:
        """Leave out kernels if the model is good enough to be returned, and stays so."""
        if _relative_gap(problem, descent, eta) > self.tol:
            return eta
        grad = eta @ descent.products - descent.y
        slack = max(descent.violation(grad), self._tolerance(problem, state))
        box = descent.lo, descent.hi
        found = skm_descent.sparser_weights(
            descent.products, descent.y, descent.rho, box, eta, slack, fit_intercept=problem.fit_intercept
        )
        return found if _relative_gap(problem, descent, found) <= self.tol else eta


def _select_wanted(state: _State, smoothing: tuple[float, ...] | None) -> Array:
    """Return the kernels that are active, or nearly so by the last certificate."""
    level = float(state.norms.max(initial=0.0))
    if not state.finishing:
        level = skm_descent.smoothed_dual(state.norms, state.kappa, smoothing).threshold
    return np.flatnonzero((state.norms >= skm_descent.NEARLY_ACTIVE * level) | (state.eta > 0))


def _working_set(problem: Problem, state: _State) -> Array:
    return state.descent.kernels.kernels if state.descent else np.zeros(0, dtype=np.intp)


def _relative_gap(problem: Problem, descent: skm_descent.Descent, eta: Array) -> float:
    primal, dual = descent.bounds(eta)
    return (primal - dual) / max(abs(primal), problem.tiny)


def _project_simplex(weights: Array) -> Array:
    total = float(weights.sum())
    return weights / total if total > 0 else weights
