"""One-stage search by sampling (SGD-1s): Gaussian widths drawn where the gradient is large, weights by its estimate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr, logsumexp
from scipy.stats import truncnorm

from manykernels.discovery.base import (
    Discovery,
    Limits,
    SearchProblem,
    checked_limits,
    random_generator,
    run_search,
    solve_quietly,
)
from manykernels.discovery.families.base import PairWeights
from manykernels.discovery.families.search import FamilySearch, SearchSettings, checked_settings
from manykernels.discovery.families.stationary import ArdGaussianFamily, GaussianFamily
from manykernels.discovery.one_stage.mixture import (
    CHECKPOINTS,
    CORRECTIVE_TOL,
    DRAW_TOL,
    Learner,
    WeightedMembers,
    candidate,
    certify,
)
from manykernels.exceptions import InvalidInputError
from manykernels.solvers.learners.learners import LearnerFit
from manykernels.solvers.run import CertifiedModel
from manykernels.validation.arrays import Array, check_count, check_positive
from manykernels.validation.parameters import RandomSource, check_flag


@dataclass(frozen=True, eq=False)
class Draw:
    """A vector of widths and the logarithm of the density it was drawn from."""

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

    One width: normal around the best width, with the best width as standard deviation, truncated to the family
    (section 4.2.2 of the thesis). One width a feature: Algorithm 4, feature after feature, each around the best width
    for the pair weights multiplied by the kernels drawn before.
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
    """Draw one width around the best one."""
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
    settings: SearchSettings | None = None,
    limits: Limits | None = None,
    random_state: RandomSource = 0,
) -> Discovery:
    r"""Find Gaussian kernels by stochastic gradient steps, each on one width drawn at random.

    Algorithm 2 of the thesis with the sampling of section 4.2.2. At the weights :math:`\theta` of the kernels drawn so
    far, a width is drawn from a density :math:`s`; its weight grows by :math:`\eta_k` times the estimate
    :math:`\rho' K_\sigma \rho / (2 \lambda s(\sigma))` of the negative gradient, and the weights are scaled back where
    their sum exceeds one. The model is that of the averaged weights.

    The thesis scales by the 2-norm. For a continuum of kernels that is not a restriction: every draw is a kernel of its
    own, and weights of 2-norm one have a sum that grows with the square root of their number, so that the more is drawn
    the less is regularized. Scaling by the sum goes in the same direction and keeps the problem that of ``nu = 1``.

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
    settings : SearchSettings, optional
        How the centers of the densities are searched for.
    limits : Limits, optional
        ``tol``, ``time_limit`` and ``callback`` count; the gap is that over the whole family.
    random_state : int, RandomState, Generator or None, default=0

    Returns
    -------
    Discovery
        Its certificate is for the problem of ``nu = 1`` (see :func:`discover_greedily`). With one width a feature
        the variance of the estimates grows with the number of features, as the thesis warns.

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
    learner = Learner(problem, FamilySearch(family, problem.points, checked_settings(settings)))
    steps = _Steps(n_draws, step, check_flag(corrective, "corrective"))
    limits = replace(checked_limits(limits, Limits()), max_iter=-(-n_draws // steps.every), name="search by sampling")
    rng = random_generator(random_state)
    return run_search(_sample(learner, limits, rng, steps), limits, learner.empty)


@dataclass(frozen=True)
class _Steps:
    n_draws: int
    step: float
    corrective: bool

    @property
    def every(self) -> int:
        """Draws between certificates."""
        return -(-self.n_draws // CHECKPOINTS)


def _sample(learner: Learner, limits: Limits, rng: np.random.Generator, steps: _Steps) -> Iterator[CertifiedModel]:
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
        mixture = mixture.weighted(weights / max(1.0, weights.sum()))
        sums = np.pad(sums, (0, len(mixture) - len(sums))) + mixture.weights
        fit = learner.fit(empty, mixture.combined() / learner.strength, fit if k > 1 else None, DRAW_TOL)
        solved += fit.steps
        if k % steps.every == 0 or k == steps.n_draws:
            yield _offer(learner, mixture, sums, limits, rng, solved, steps.corrective)


def _offer(
    learner: Learner,
    mixture: WeightedMembers,
    sums: Array,
    limits: Limits,
    rng: np.random.Generator,
    solved: int,
    corrective: bool,
) -> CertifiedModel:
    """Return the model of the averaged weights, or of the best weights, on the kernels drawn."""
    problem = learner.problem(mixture.grams)
    if corrective:
        solution = solve_quietly(problem, max(CORRECTIVE_TOL, 0.02 * limits.tol))
        model = solution.dual_coef, solution.kernel_weights, solution.intercept
    else:
        weights = sums / sums.sum() / learner.strength
        fit = learner.fit(problem, mixture.combined(weights), None, CORRECTIVE_TOL)
        model = fit.rho, weights, fit.b
    certified = certify(learner, problem, model, tol=limits.tol, near=mixture.parameters, rng=rng)
    return candidate(learner, mixture.parameters, model, certified.certificate, solved)
