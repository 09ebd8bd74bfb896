"""One-stage searches: greedy (GCD-1s: Frank-Wolfe, pairwise, sliding, totally corrective), and by sampling (SGD-1s)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import log_ndtr, logsumexp
from scipy.stats import truncnorm

from manykernels.discovery.base import (
    Discovery,
    Limits,
    SearchProblem,
    random_generator,
    resolve_limits,
    run_search,
    solve_quietly,
)
from manykernels.discovery.families.base import KernelFamily, PairWeights
from manykernels.discovery.families.search import FamilySearch, SearchSettings, check_settings
from manykernels.discovery.families.stationary import ArdGaussianFamily, GaussianFamily
from manykernels.discovery.one_stage.mixture import (
    CHECKPOINTS,
    CORRECTIVE_TOL,
    DRAW_TOL,
    INNER_SHARE,
    MOST_MOVES,
    PROOF_SHARE,
    STEP_TOL,
    FamilyCertificate,
    Learner,
    WeightedMembers,
    candidate,
    certify,
    check_provable,
    prove,
)
from manykernels.exceptions import InvalidInputError
from manykernels.objective.problem import Problem
from manykernels.solvers import Solution
from manykernels.solvers.learners.learners import LearnerFit, fit_learner
from manykernels.validation.arrays import Array, check_choice, check_count, check_positive
from manykernels.validation.parameters import RandomSource, check_flag

# Moving the kernels found: greedy steps take the top of a peak at the time, and never look back unless told to.
#
# The idea is that of the sliding Frank-Wolfe algorithm (Denoyelle, Duval, Peyre and Soubies, 2019): between greedy
# steps, all parameters climb together from where they are.


def slide_parameters(learner: Learner, mixture: WeightedMembers, tol: float) -> WeightedMembers:
    """Move all parameters downhill on ``J``, the optimal objective for fixed kernel weights.

    ``dJ/dp_m = -theta_m / (2 lambda) d(rho'K_m rho)/dp_m``, by the envelope theorem.
    """
    search, empty = learner.search, learner.empty
    share = mixture.weights / learner.strength

    def objective(flat: Array) -> tuple[float, Array]:
        parameters = search.family.parameter(flat.reshape(len(mixture), -1))
        gram = sum(d * search.gram(parameter) for d, parameter in zip(share, parameters, strict=True))
        fit = fit_learner(empty, gram, tol=tol)
        pairs = PairWeights.rank_one(fit.rho)
        slopes = [_slope(search, parameter, pairs) for parameter in parameters]
        return fit.primal_value, -0.5 * np.ravel(share[:, None] * slopes)

    start = np.ravel([search.family.coordinate(parameter) for parameter in mixture.parameters])
    low, high = search.family.coordinate(np.array([search.family.low, search.family.high]))
    minimum = minimize(
        objective,
        start,
        jac=True,
        bounds=[(low, high)] * len(start),
        method="L-BFGS-B",
        options={"maxiter": MOST_MOVES},
    )
    rest = search.family.parameter(minimum.x.reshape(len(mixture), -1))
    parameters = tuple(search.round_parameters(parameter) for parameter in rest)
    return WeightedMembers(parameters, mixture.grams, mixture.weights).merge(search)


def _slope(search: FamilySearch, parameter: Array, pairs: PairWeights) -> Array:
    """Return the derivative of ``<A, K_p>`` by the search coordinates."""
    return search.family.inner(search.prepared, parameter, pairs)[1] * search.family.scale(parameter)


UPDATES = ("corrective", "sliding", "pairwise", "frank_wolfe", "fixed_steps")


def discover_greedily(
    problem: SearchProblem,
    family: KernelFamily,
    *,
    update: str = "corrective",
    settings: SearchSettings | None = None,
    limits: Limits | None = None,
    random_state: RandomSource = 0,
) -> Discovery:
    r"""Find kernels of a family one at a time, every where the dual norm is largest.

    Solves (2.9) of the thesis for :math:`\nu = 1` over all kernels of the family,

    .. math:: \min_{f, b}\ \sum_i s_i\, \ell(y_i, f(x_i) + b)
        + \frac{\lambda}{2} \min_{\theta \in \Delta_1} \sum_p \frac{\|f_p\|^2}{\theta_p}.

    Every iteration takes the member that maximizes :math:`\rho' K_p \rho`; then

    - ``"corrective"`` (IKL) solves the problem on all kernels found, and drops those of weight zero;
    - ``"sliding"`` does so, lets the parameters of all kernels move downhill together, and solves again: fewer kernels,
      each at the place, for more time an iteration (finite families have nothing to slide on);
    - ``"frank_wolfe"`` (CKL, Algorithm 6) moves all weights toward the new kernel by a line search;
    - ``"fixed_steps"`` does so by the step ``2 / (k + 1)`` of iteration ``k``, for which section 5.1 has its bound;
    - ``"pairwise"`` moves weight from the worst kernel found to the new one by a line search, which converges linearly
      where Frank-Wolfe needs a number of steps proportional to the inverse of the gap.

    Parameters
    ----------
    problem : SearchProblem
    family : KernelFamily
    update : {"corrective", "sliding", "pairwise", "frank_wolfe", "fixed_steps"}, default="corrective"
    settings : SearchSettings, optional
        How members are searched for.
    limits : Limits, optional
        When to stop; the gap is that over the whole family.
    random_state : int, RandomState, Generator or None, default=0
        For random starts of searches in several parameters.

    Returns
    -------
    Discovery
        The dual bound of the certificate is a true bound over the family if the family has a single parameter and a
        bound on the derivatives (all of the library but a width per feature and Dirichlet kernels on several columns),
        and with a width per feature if ``settings.proof`` allows evaluations for it; otherwise it is relative to the
        best member that the search found.

    Raises
    ------
    InvalidInputError
        If a parameter cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery import GaussianFamily, SearchProblem, discover_greedily
    >>> x = np.linspace(-2.0, 2.0, 60)[:, None]
    >>> problem = SearchProblem(x, np.sin(4.0 * x[:, 0]), strength=0.1)
    >>> found = discover_greedily(problem, GaussianFamily(0.05, 50.0))
    >>> bool(found.solution.certificate.relative_gap <= 1e-3), len(found.kernels) < 5
    (True, True)
    """
    check_choice(update, UPDATES, "update")
    settings, limits = check_settings(settings), resolve_limits(limits, Limits())
    if settings.shrinkage > 0:
        raise InvalidInputError(
            f"shrinkage={settings.shrinkage:g} needs stages=2: in one stage there would be no bound on the family. "
            f"Set shrinkage=0, or stages=2."
        )
    learner = Learner(problem, FamilySearch(family, problem.points, settings))
    check_provable(learner)
    rng = random_generator(random_state)
    own = replace(limits, tol=(1.0 - PROOF_SHARE) * limits.tol) if settings.proof else limits
    named, shell = replace(own, name=f"greedy search ({update})"), learner.empty
    if update not in ("corrective", "sliding"):
        discovery = run_search(_descend(learner, own, rng, update), named, shell)
        return prove(learner, discovery, limits, None) if settings.proof else discovery

    def search(seeds: Sequence[Array]) -> Discovery:
        slides = update == "sliding" and family.members is None
        return run_search(_corrective(learner, own, rng, slides=slides, seeds=seeds), named, shell)

    return prove(learner, search(()), limits, search) if settings.proof else search(())


def _begin(
    learner: Learner, limits: Limits, rng: np.random.Generator
) -> tuple[Solution, FamilyCertificate, LearnerFit]:
    """Return the model without kernels and the first kernel to take."""
    rho, b = learner.empty.zero_model()
    model = rho, np.zeros(1), b
    certified = certify(learner, learner.empty, model, tol=limits.tol, rng=rng)
    start = candidate(learner, [certified.worst.parameter], model, certified.certificate, 0)
    return start, certified, LearnerFit(rho, b, certified.certificate.dual, certified.certificate.gap, 0)


def _corrective(
    learner: Learner, limits: Limits, rng: np.random.Generator, *, slides: bool, seeds: Sequence[Array] = ()
) -> Iterator[Solution]:
    """Solve the problem on all kernels found, again and again; seeds are kernels to start with."""
    start, certified, _ = _begin(learner, limits, rng)
    yield start
    mixture, steps = WeightedMembers(), 0
    for seed in seeds:
        mixture, _ = mixture.with_member(learner.search, seed)
    while True:
        mixture, _ = mixture.with_member(learner.search, certified.worst.parameter)
        tol = _inner_tol(certified, limits)
        problem, solution = _solve(learner, mixture, tol)
        steps += solution.newton_steps
        if slides and solution.kernel_weights.any():
            mixture = slide_parameters(learner, _weighted(mixture, solution).prune(), tol)
            problem, solution = _solve(learner, mixture, tol)
            steps += solution.newton_steps
        model = solution.dual_coef, solution.kernel_weights, solution.intercept
        certified = certify(learner, problem, model, tol=limits.tol, near=mixture.parameters, rng=rng)
        yield candidate(learner, mixture.parameters, model, certified.certificate, steps)
        kept = _weighted(mixture, solution).prune()
        mixture = kept if len(kept) else mixture


def _solve(learner: Learner, mixture: WeightedMembers, tol: float) -> tuple[Problem, Solution]:
    """Return the problem on the kernels found, and the solution."""
    problem = learner.problem(mixture.grams)
    return problem, solve_quietly(problem, tol)


def _weighted(mixture: WeightedMembers, solution: Solution) -> WeightedMembers:
    """Return the found kernels with the weights ``theta`` of a solution, of unit sum."""
    total = float(solution.kernel_weights.sum())
    return mixture.weighted(solution.kernel_weights / total if total > 0 else solution.kernel_weights)


def _inner_tol(certified: FamilyCertificate, limits: Limits) -> float:
    """Return the accuracy of the inner problems: rough far from the optimum."""
    return max(INNER_SHARE * max(limits.tol, min(certified.certificate.relative_gap, 0.5)), 1e-10)


def _descend(learner: Learner, limits: Limits, rng: np.random.Generator, update: str) -> Iterator[Solution]:
    """Move weight to the best kernel, from all or from the worst kernel, by a line search on J."""
    start, certified, fit = _begin(learner, limits, rng)
    yield start
    mixture, steps, k = WeightedMembers(), 0, 0
    while True:
        k += 1
        mixture, new = mixture.with_member(learner.search, certified.worst.parameter)
        problem = learner.problem(mixture.grams)
        direction, longest = _direction(mixture, new, problem.dual_norms(fit.rho), update)
        # The slope is as accurate as the square root of the gap of the learner.
        line = _Line(learner, problem, mixture, direction, fit, _inner_tol(certified, limits) ** 1.5)
        fit, step = line.create_learner(2.0 / (k + 1)) if update == "fixed_steps" else line.minimize(longest)
        steps += line.newton_steps
        # A full step leaves rounding where the weight should be zero.
        weights = mixture.weights + step * direction
        mixture = mixture.weighted(np.where(weights < 1e-14, 0.0, weights))
        model = fit.rho, mixture.weights / learner.strength, fit.b
        certified = certify(learner, problem, model, tol=limits.tol, near=mixture.parameters, rng=rng)
        yield candidate(learner, mixture.parameters, model, certified.certificate, steps)
        mixture = mixture.prune()


def _direction(mixture: WeightedMembers, new: int, dual_norms: Array, update: str) -> tuple[Array, float]:
    """Return the direction of the weights and the longest step."""
    weights = mixture.weights
    direction = np.zeros(len(weights))
    direction[new] = 1.0
    active = np.flatnonzero(weights)
    if not active.size:
        return direction, 1.0
    if update in ("frank_wolfe", "fixed_steps"):
        return direction - weights, 1.0
    worst = active[np.argmin(dual_norms[active])]
    direction[worst] -= 1.0
    return direction, float(weights[worst])


class _Line:
    """``J`` along a direction of the weights: convex, with derivative ``-rho' K_direction rho / (2 lambda)``."""

    def __init__(
        self,
        learner: Learner,
        problem: Problem,
        mixture: WeightedMembers,
        direction: Array,
        fit: LearnerFit,
        tol: float,
    ) -> None:
        self.problem, self.fit = problem, fit
        self.base = mixture.combined() / learner.strength
        self.change = mixture.combined(direction) / learner.strength
        self.tol = tol
        self.newton_steps = 0
        self.first = not mixture.weights.any()

    def slope(self, step: float) -> float:
        """Return the derivative of ``2 J``, and remember the learner there."""
        gram = self.base + step * self.change
        self.fit = fit_learner(self.problem, gram, warm=None if self.first else self.fit, tol=self.tol)
        self.first = False
        self.newton_steps += self.fit.steps
        return -float(self.fit.rho @ self.change @ self.fit.rho)

    def create_learner(self, step: float) -> tuple[LearnerFit, float]:
        """Return the learner at a step that is given."""
        self.slope(step)
        return self.fit, step

    def minimize(self, longest: float) -> tuple[LearnerFit, float]:
        """Return the learner at the minimum over ``[0, longest]`` and the step."""
        if longest <= 0 or not self.change.any():
            self.slope(0.0)
            return self.fit, 0.0
        if self.slope(longest) <= 0:
            return self.fit, longest
        if self.slope(0.0) >= 0:
            return self.fit, 0.0
        step = float(brentq(self.slope, 0.0, longest, xtol=1e-12 * longest, rtol=STEP_TOL, maxiter=50, disp=False))
        self.slope(step)
        return self.fit, step


@dataclass(frozen=True, eq=False)
class Draw:
    """A vector of widths and the log density of the draw."""

    parameter: Array  # ndarray of shape (n_parameters,)
    log_density: float


def truncated_normal_log_density(x: float, mean: float, deviation: float, low: float, high: float) -> float:
    """Return the logarithm of the density at ``x`` of a normal distribution truncated to an interval."""
    first, last = (low - mean) / deviation, (high - mean) / deviation
    # log(Phi(last) - Phi(first)) without cancellation where both are close to one.
    if first > 0:
        first, last = -last, -first
    mass = logsumexp([log_ndtr(last), log_ndtr(first)], b=[1.0, -1.0])
    return float(-0.5 * ((x - mean) / deviation) ** 2 - np.log(deviation * np.sqrt(2 * np.pi)) - mass)


def draw_widths(search: FamilySearch, vector: Array, rng: np.random.Generator) -> Draw:
    """Draw widths near those where ``r'K r`` is largest.

    One width: normal around the best width, with the best width as standard deviation, truncated to the family (section
    4.2.2 of the thesis). A width per feature: Algorithm 4, feature after feature, each around the best width for the
    pair weights multiplied by the kernels drawn before.
    """
    family = GaussianFamily(search.family.low, search.family.high)
    pairs = PairWeights.rank_one(vector)
    if isinstance(search.family, GaussianFamily):
        return _draw_one(search, pairs, rng)
    widths, log_density = [], 0.0
    for column in search.points.T:
        part = FamilySearch(family, column[:, None], search.settings)
        drawn = _draw_one(part, pairs, rng)
        pairs = PairWeights(pairs.matrix * part.gram(drawn.parameter))
        widths.append(float(drawn.parameter[0]))
        log_density += drawn.log_density
    return Draw(np.array(widths), log_density)


def _draw_one(search: FamilySearch, pairs: PairWeights, rng: np.random.Generator) -> Draw:
    """Draw a width around the best width."""
    family = search.family
    best = float(search.maximize(pairs).parameter[0])
    ends = (family.low - best) / best, (family.high - best) / best
    width = float(np.clip(truncnorm.rvs(*ends, loc=best, scale=best, random_state=rng), family.low, family.high))
    return Draw(np.array([width]), truncated_normal_log_density(width, best, best, family.low, family.high))


def discover_by_sampling(
    problem: SearchProblem,
    family: GaussianFamily | ArdGaussianFamily,
    *,
    n_draws: int = 100,
    step: float = 1.0,
    corrective: bool = True,
    ball: int = 1,
    settings: SearchSettings | None = None,
    limits: Limits | None = None,
    random_state: RandomSource = 0,
) -> Discovery:
    r"""Find Gaussian kernels by stochastic gradient steps, each on a single width drawn at random.

    Algorithm 2 of the thesis with the sampling of section 4.2.2. At the weights :math:`\theta` of the kernels drawn so
    far, a width is drawn from a density :math:`s`; the weight grows by :math:`\eta_k` times the estimate :math:`\rho'
    K_\sigma \rho / (2 \lambda s(\sigma))` of the negative gradient, and the weights are scaled back where their sum
    exceeds one. The model is that of the averaged weights.

    The thesis scales by the 2-norm. For a continuum of kernels not a restriction: every draw is a separate kernel, and
    weights of 2-norm 1 have a sum that grows with the square root of their number, so the more is drawn the less is
    regularized. Scaling by the sum goes in the same direction and keeps the problem that of ``nu = 1``.

    Parameters
    ----------
    problem : SearchProblem
    family : GaussianFamily or ArdGaussianFamily
    n_draws : int, default=100
        Number of widths drawn.
    step : float, default=1.0
        ``eta_k`` is ``step / sqrt(k)`` divided by the mean of the estimates so far.
    corrective : bool, default=True
        Whether weights are found anew, optimal on the kernels drawn, whenever the model is certified; else the model is
        that of the averaged weights.
    ball : {1, 2}, default=1
        Norm of the weights that is kept at one: 2 is the projection of the thesis, on ``Delta_2``.
    settings : SearchSettings, optional
        How the centers of the densities are searched for.
    limits : Limits, optional
        ``tol``, ``time_limit`` and ``callback`` count; the gap is that over the whole family.
    random_state : int, RandomState, Generator or None, default=0

    Returns
    -------
    Discovery
        The certificate is for the problem of ``nu = 1`` (see :func:`discover_greedily`). With a width per feature the
        variance of the estimates grows with the number of features, as the thesis warns.

    Raises
    ------
    InvalidInputError
        If a parameter cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery import GaussianFamily, SearchProblem, discover_by_sampling
    >>> x = np.linspace(-2.0, 2.0, 60)[:, None]
    >>> problem = SearchProblem(x, np.sin(4.0 * x[:, 0]), strength=0.1)
    >>> found = discover_by_sampling(problem, GaussianFamily(0.05, 50.0), n_draws=20, random_state=0)
    >>> bool(found.solution.certificate.relative_gap < 0.05)
    True
    """
    check_count(n_draws, "n_draws")
    check_positive(step, "step")
    if not isinstance(family, (GaussianFamily, ArdGaussianFamily)) or family.members is not None:
        raise InvalidInputError(
            f"Widths are drawn for GaussianFamily and ArdGaussianFamily only, and from no list, got {family!r}; a "
            "greedy search takes any family."
        )
    learner = Learner(problem, FamilySearch(family, problem.points, check_settings(settings)))
    if ball not in (1, 2):
        raise InvalidInputError(f"ball must be 1 or 2, got {ball!r}.")
    steps = _Steps(n_draws, step, check_flag(corrective, "corrective"), ball)
    limits = replace(resolve_limits(limits, Limits()), max_iter=-(-n_draws // steps.every), name="search by sampling")
    rng = random_generator(random_state)
    return run_search(_sample(learner, limits, rng, steps), limits, learner.empty)


@dataclass(frozen=True)
class _Steps:
    n_draws: int
    step: float
    corrective: bool
    ball: int = 1

    @property
    def every(self) -> int:
        """Draws between certificates."""
        return -(-self.n_draws // CHECKPOINTS)


def _sample(learner: Learner, limits: Limits, rng: np.random.Generator, steps: _Steps) -> Iterator[Solution]:
    """Draw, step, average; offer the model now and then."""
    empty = learner.empty
    rho, b = empty.zero_model()
    certified = certify(learner, empty, (rho, np.zeros(1), b), tol=limits.tol, rng=rng)
    yield candidate(learner, [certified.worst.parameter], (rho, np.zeros(1), b), certified.certificate, 0)
    fit, mixture, sums, typical, solved = LearnerFit(rho, b, 0.0, 0.0, 0), WeightedMembers(), np.zeros(0), -np.inf, 0
    for k in range(1, steps.n_draws + 1):
        drawn = draw_widths(learner.search, fit.rho, rng)
        mixture, new = mixture.with_member(learner.search, drawn.parameter)
        square = max(float(fit.rho @ mixture.grams[new] @ fit.rho), np.finfo(np.float64).tiny)
        estimate = np.log(square / (2 * learner.strength)) - drawn.log_density
        # The mean estimate stands for the constant of Corollary 4.3. Logarithms: densities of many widths overflow.
        typical = np.logaddexp(typical + np.log1p(-1 / k) if k > 1 else -np.inf, estimate - np.log(k))
        weights = mixture.weights.copy()
        weights[new] += steps.step / np.sqrt(k) * np.exp(np.clip(estimate - typical, -700, 700))
        mixture = mixture.weighted(weights / max(1.0, float(np.linalg.norm(weights, steps.ball))))
        sums = np.pad(sums, (0, len(mixture) - len(sums))) + mixture.weights
        fit = fit_learner(empty, mixture.combined() / learner.strength, warm=fit if k > 1 else None, tol=DRAW_TOL)
        solved += fit.steps
        if k % steps.every == 0 or k == steps.n_draws:
            # Averages over the iterates; under the 1-norm also scaled to the boundary, where the optimum is.
            mean = sums / (sums.sum() if steps.ball == 1 else k)
            yield _offer(learner, mixture, mean, limits, rng, solved, steps.corrective)


def _offer(
    learner: Learner,
    mixture: WeightedMembers,
    mean: Array,
    limits: Limits,
    rng: np.random.Generator,
    solved: int,
    corrective: bool,
) -> Solution:
    """Return the model of the averaged weights, or of the best weights, on the kernels drawn."""
    problem = learner.problem(mixture.grams)
    if corrective:
        solution = solve_quietly(problem, max(CORRECTIVE_TOL, 0.02 * limits.tol))
        model = solution.dual_coef, solution.kernel_weights, solution.intercept
    else:
        weights = mean / learner.strength
        fit = fit_learner(problem, mixture.combined(weights), tol=CORRECTIVE_TOL)
        model = fit.rho, weights, fit.b
    certified = certify(learner, problem, model, tol=limits.tol, near=mixture.parameters, rng=rng)
    return candidate(learner, mixture.parameters, model, certified.certificate, solved)
