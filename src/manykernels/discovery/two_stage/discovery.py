"""Two-stage greedy search (GCD-2s): a kernel near the ideal kernel by alignment or distance, then a learner."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manykernels.discovery.base import (
    Discovery,
    Limits,
    SearchProblem,
    learner_certificate,
    random_generator,
    resolve_limits,
    run_search,
)
from manykernels.discovery.families.base import KernelFamily
from manykernels.discovery.families.search import FamilySearch, SearchSettings, check_settings
from manykernels.discovery.one_stage.mixture import Learner, WeightedMembers, candidate
from manykernels.discovery.two_stage.first_stage import AlignedKernel, AscentSettings, align_family
from manykernels.exceptions import InvalidInputError
from manykernels.solvers import Solution, Status
from manykernels.solvers.learners.learners import fit_learner
from manykernels.validation.arrays import Array
from manykernels.validation.parameters import RandomSource

# How hard to search for widths, chosen on rows that the search has not seen: early stopping and shrinkage.


STEPS = (1, 2, 3, 5, 10)  # of climbs that start from the best common width, from hardly any difference to much
Search = Callable[[SearchSettings, Array, Any], Discovery]


def graded_settings(settings: SearchSettings) -> tuple[SearchSettings, ...]:
    """Return settings from nearly one common width to climbs that go to their end, to be compared on held-out rows.

    Parameters
    ----------
    settings : SearchSettings
        Of the climb that goes furthest.

    Examples
    --------
    >>> from manykernels.discovery import SearchSettings, graded_settings
    >>> [settings.max_steps for settings in graded_settings(SearchSettings(n_starts=1))]
    [None, 1, 2, 3, 5, 10, None]
    """
    nearly_common = 1.0  # shrinkage under which widths hardly differ
    common = SearchSettings(settings.n_starts, max(settings.shrinkage, nearly_common))
    early = (SearchSettings(settings.n_starts, settings.shrinkage, steps) for steps in STEPS)
    return (common, *early, settings)


def check_candidates(settings: SearchSettings | Sequence[SearchSettings]) -> tuple[SearchSettings, ...]:
    """Return a single or several settings as a tuple."""
    several = settings if isinstance(settings, Sequence) else (settings,)
    if not several:
        raise InvalidInputError("settings must be one SearchSettings or a sequence of some; the sequence is empty.")
    return tuple(check_settings(each) for each in several)


def best_on_held_out(
    learner: Learner, candidates: Sequence[SearchSettings], fit: Search, rng: np.random.Generator
) -> tuple[SearchSettings, int]:
    """Return the settings of smallest mean loss on held-out rows, in three folds, and how many were tried.

    Ties go to the first; Ctrl-C ends the trials with the best completed trial.
    """
    losses: list[float] = []
    if len(candidates) == 1:
        return candidates[0], 1
    n_samples = len(learner.search.points)
    n_folds = 3
    folds = np.array_split(rng.permutation(n_samples), min(n_folds, n_samples))
    seed = int(rng.integers(2**31))  # the same random starts for all
    with suppress(KeyboardInterrupt):
        for settings in candidates:
            losses.append(sum(_validation_loss(learner, fit, settings, fold, seed) for fold in folds))
    return candidates[int(np.argmin(losses)) if losses else 0], len(losses)


def _validation_loss(learner: Learner, fit: Search, settings: SearchSettings, fold: Array, seed: int) -> float:
    """Return the weighted sum of losses on the rows of a fold, of a model of the rest."""
    kept = np.setdiff1d(np.arange(len(learner.search.points)), fold)
    discovery = fit(settings, kept, seed)
    if discovery.solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    points, solution = learner.search.points, discovery.solution
    scores = np.full(len(fold), float(np.asarray(solution.intercept)))
    for kernel, weight in zip(discovery.kernels, solution.kernel_weights, strict=True):
        scores += weight * (kernel.spec(points[fold], points[kept]) @ solution.dual_coef)
    problem = learner.empty
    return float(problem.weight[fold] @ problem.loss.value(problem.y[fold], scores))


NO_KERNEL = "no kernel of the family has a positive centered alignment with the target"
ADVICE = {
    Status.MAX_ITER: "Increase max_iter, or accept a larger gain (tol of GaussianMKL).",
    Status.TIME_LIMIT: "Increase time_limit, or accept a larger gain (tol of GaussianMKL).",
    Status.INTERRUPTED: "The model is on the kernels so far.",
    Status.STOPPED_BY_CALLBACK: "The model is on the kernels so far.",
    Status.NUMERICAL_ERROR: "The model is on the kernels so far; standardize the columns.",
    Status.STALLED: "The model is on the kernels so far.",
}


def discover_in_two_stages(
    problem: SearchProblem,
    family: KernelFamily,
    *,
    criterion: str = "alignment",
    gain: float = 1e-3,
    ascent: AscentSettings | None = None,
    settings: SearchSettings | Sequence[SearchSettings] | None = None,
    limits: Limits | None = None,
    random_state: RandomSource = 0,
) -> Discovery:
    r"""Find a kernel close to the ideal kernel, then learn on the result.

    The second stage minimizes :math:`\sum_i s_i \ell(y_i, f(x_i) + b) + \frac{\lambda}{2} \|f\|^2` in the space of
    :math:`\sum_p \theta_p k_p` with the weights of the first stage, :math:`\sum \theta = 1`; the certificate is that of
    the learner, for the kernel weights unchanged: no bound over the family follows from an alignment.

    Parameters
    ----------
    problem : SearchProblem
    family : KernelFamily
    criterion : {"alignment", "distance"}, default="alignment"
        As in :func:`align_family`.
    gain : float, default=1e-3
        Least growth of the alignment a step.
    ascent : AscentSettings, optional
        How weights change when a kernel is added: all are found anew by default.
    settings : SearchSettings or sequence of SearchSettings, optional
        How members are searched for; with shrinkage, (6.2). Of several, those of smallest loss on held-out rows, in
        three folds: with a width per feature, a search that goes to the end fits noise (see :func:`graded_settings`).
    limits : Limits, optional
    random_state : int, RandomState, Generator or None, default=0
        For random starts of searches in several parameters.

    Returns
    -------
    Discovery
        ``solution.n_iter`` counts the steps of the first stage; ``solution.message`` tells the alignment, and
        ``solution.status`` is that of the first stage unless it went to the end. Without kernels if none has a positive
        alignment with the target.

    Raises
    ------
    InvalidInputError
        If a parameter cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery import GaussianFamily, SearchProblem, discover_in_two_stages
    >>> x = np.linspace(-2.0, 2.0, 60)[:, None]
    >>> problem = SearchProblem(x, np.sign(np.sin(4.0 * x[:, 0])), "hinge", strength=0.1)
    >>> found = discover_in_two_stages(problem, GaussianFamily(0.05, 50.0))
    >>> bool(found.solution.certificate.relative_gap < 1e-6)
    True
    """
    limits = resolve_limits(limits, Limits(max_iter=50))
    candidates = check_candidates(check_settings(None) if settings is None else settings)
    learner = Learner(problem, FamilySearch(family, problem.points, candidates[-1]))
    steps = _Steps(criterion, gain, ascent, limits)
    rng = random_generator(random_state)
    best, n_tried = best_on_held_out(
        learner, candidates, lambda *given: _fit(_part(learner, *given[:2]), steps, given[2]), rng
    )
    discovery = _fit(replace(learner, search=replace(learner.search, settings=best)), steps, rng)
    if len(candidates) == 1:
        return discovery
    tried = f"{len(candidates)}" if n_tried == len(candidates) else f"{n_tried} of {len(candidates)} (interrupted)"
    message = f"{discovery.solution.message}; of {tried} settings, held-out rows chose {best}"
    return replace(discovery, solution=replace(discovery.solution, message=message))


@dataclass(frozen=True)
class _Steps:
    """The steps of the first stage, and limits; checked on use."""

    criterion: str
    gain: float
    ascent: AscentSettings | None
    limits: Limits


def _part(learner: Learner, settings: SearchSettings, rows: Array) -> Learner:
    """Return the problem on some of the rows, the penalty as strong relative to their loss."""
    weight, points = learner.empty.weight, learner.search.points[rows]
    posed = replace(
        learner.posed,
        points=points,
        target=learner.empty.y[rows],
        sample_weight=weight[rows],
        strength=learner.strength * float(weight[rows].sum() / weight.sum()),
    )
    return Learner(posed, FamilySearch(learner.search.family, points, settings))


def _fit(learner: Learner, steps: _Steps, random_state: RandomSource) -> Discovery:
    """Return the model of both stages."""
    aligned = align_family(
        learner.search, learner.empty.y, learner.empty.weight,
        criterion=steps.criterion, gain=steps.gain, ascent=steps.ascent, limits=steps.limits, random_state=random_state,
    )  # fmt: skip
    second = replace(steps.limits, callback=None, name="second stage")
    discovery = run_search(_second_stage(learner, aligned), second, learner.empty)
    status, message = _outcome(aligned, discovery.solution, steps.gain)
    solution = replace(discovery.solution, n_iter=len(aligned.history), message=message, status=status)
    return replace(discovery, solution=solution)


def _outcome(aligned: AlignedKernel, solution: Solution, gain: float) -> tuple[Status, str]:
    """Return the end of both stages, with a message, since the learner ignores a suboptimal kernel."""
    if aligned.status is Status.CONVERGED:
        message = (
            f"{solution.message}; the kernel has centered alignment {aligned.alignment:.4f}{_alignment_bound(aligned)}"
        )
        return solution.status, message if aligned.parameters else f"{solution.message}; {NO_KERNEL}"
    message = (
        f"The first stage stopped ({aligned.status}) after {len(aligned.history)} kernels at centered alignment "
        f"{aligned.alignment:.4f}, before a kernel added less than {gain:.2e} to it. {ADVICE[aligned.status]} "
        f"Second stage: {solution.message}"
    )
    return aligned.status, message


def _alignment_bound(aligned: AlignedKernel) -> str:
    """Return in words how large any alignment can be, if known."""
    return f", of at most {aligned.upper_bound:.4f} in this family" if np.isfinite(aligned.upper_bound) else ""


def _second_stage(learner: Learner, aligned: AlignedKernel) -> Iterator[Solution]:
    """Yield a single model: learned on the kernel of the first stage, or without kernels."""
    empty = learner.empty
    parameters = aligned.parameters or (np.full(learner.search.n_parameters, learner.search.family.high),)
    weights = aligned.weights / learner.strength if aligned.parameters else np.zeros(1)
    grams = tuple(learner.search.gram(parameter) for parameter in parameters)
    gram = WeightedMembers(parameters, grams, weights).combined()
    learner_tol = 1e-9  # of the learner of the second stage
    fit = fit_learner(empty, gram, tol=learner_tol)
    yield candidate(learner, parameters, (fit.rho, weights, fit.b), learner_certificate(fit, empty.tiny), fit.steps)
