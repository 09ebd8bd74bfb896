"""The first of two stages (GCD-2s): members of a family whose sum resembles the ideal kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manykernels.alignment.metrics import SMALLEST_SHARE, cosine
from manykernels.discovery.base import Limits, checked_limits, random_generator
from manykernels.discovery.families.pairs import PairWeights
from manykernels.discovery.families.search import BestMember, FamilySearch
from manykernels.discovery.one_stage.mixture import Mixture
from manykernels.discovery.two_stage.target_space import LARGEST_STEP, TargetSpace, alignment_step, distance_step
from manykernels.objective.certificate import Certificate, KKTResiduals
from manykernels.solvers import Status
from manykernels.solvers.run import Run
from manykernels.validation.arrays import Array, check_choice, check_positive, check_positive_vector, check_vector
from manykernels.validation.parameters import check_instance

CRITERIA = ("alignment", "distance")
CROWDED = 0.99  # total weight above which the scale of the simplex is taken to be in the way


@dataclass(frozen=True, eq=False)
class AlignedKernel:
    """A combination of members that resembles the ideal kernel: the result of the first stage.

    Attributes
    ----------
    parameters : tuple of ndarray
        None if no member has a positive alignment, as for a constant target.
    weights : ndarray of shape (n_kernels,)
        Positive, sum one.
    alignment : float
        Centered alignment of the combination with the ideal kernel on the training samples.
    history : tuple of float
        Alignment after every step.
    status : Status
        ``converged`` if one more kernel would have gained too little, else why the first stage stopped before.
    """

    parameters: tuple[Array, ...]
    weights: Array
    alignment: float
    history: tuple[float, ...]
    status: Status


def align_family(
    search: FamilySearch,
    target: Array,
    weight: Array,
    *,
    criterion: str = "alignment",
    gain: float = 1e-3,
    limits: Limits | None = None,
    random_state: Any = None,
) -> AlignedKernel:
    """Find members of a family and weights so that their sum resembles the ideal kernel ``y y'``.

    ``"alignment"`` is Algorithm 7 of the thesis: the member along which the centered alignment grows fastest, with the
    best step in ``[0, 1]``. ``"distance"`` is Algorithm 8: Frank-Wolfe on the distance to the ideal kernel, with the
    exact step; the scale ``beta`` starts from the best single member and doubles while the weights fill the simplex.

    Parameters
    ----------
    search : FamilySearch
        With shrinkage, the objective of the search is that of (6.2), its matrix scaled to Frobenius norm 1.
    target, weight : ndarray of shape (n_samples,)
    criterion : {"alignment", "distance"}, default="alignment"
    gain : float, default=1e-3
        Least growth a step (``delta``) of the alignment, or of ``sqrt(1 - ||K - K*||^2 / ||K*||^2)``, which it equals
        at the best scale.
    limits : Limits, optional
        Its ``max_iter``, ``time_limit`` and ``callback`` count.
    random_state : int, RandomState, Generator or None, default=None

    Returns
    -------
    AlignedKernel

    Raises
    ------
    InvalidInputError
        If a parameter cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery import FamilySearch, GaussianFamily, align_family
    >>> x = np.linspace(-2.0, 2.0, 60)[:, None]
    >>> search = FamilySearch(GaussianFamily(0.05, 50.0), x)
    >>> aligned = align_family(search, np.sign(np.sin(4.0 * x[:, 0])), np.ones(60))
    >>> aligned.alignment > 0.25, round(float(aligned.weights.sum()), 12)
    (True, 1.0)
    """
    check_choice(criterion, CRITERIA, "criterion")
    check_positive(gain, "gain", allow_zero=True)
    check_instance(search, FamilySearch, "search", "FamilySearch(GaussianFamily(0.1, 10.0), points)")
    limits, n_samples = checked_limits(limits, Limits(max_iter=50)), len(search.points)
    space = TargetSpace(check_vector(target, n_samples, "target"), check_positive_vector(weight, n_samples, "weight"))
    rng = random_generator(random_state)
    path = (_ascend if criterion == "alignment" else _approach)(search, space, rng)
    return _aligned(path, gain, limits)


@dataclass(frozen=True, eq=False)
class _Step:
    """Weights on the way, their alignment, and what the search increases, equal to it at the best scale.

    To a run it is a certified model, whose objective is a distance to the ideal kernel; what a learner adds is empty.
    """

    mixture: Mixture
    alignment: float
    merit: float
    growth: float = np.inf
    intercept: float = 0.0
    passes: float = 0.0
    newton_steps: int = 0

    @property
    def kernel_weights(self) -> Array:
        return self.mixture.weights

    @property
    def dual_coef(self) -> Array:
        return np.zeros(0)

    @property
    def certificate(self) -> Certificate:
        return Certificate.from_values(1.0 - self.merit, 0.0, 1.0, KKTResiduals(0.0, 0.0, 0.0, 0.0, 0.0))


def _best_so_far(steps: Iterator[_Step]) -> Iterator[_Step]:
    """Yield the best of all steps so far, with the growth of the last one."""
    best = _Step(Mixture(), 0.0, 0.0)
    for step in steps:
        growth = step.merit - best.merit
        best = step if growth > 0 or not len(best.mixture) else best
        yield replace(best, growth=growth)


def _aligned(steps: Iterator[_Step], gain: float, limits: Limits) -> AlignedKernel:
    """Take steps until the alignment no longer grows, or a limit or Ctrl-C ends the first stage with what it has."""
    values: list[float] = []

    def recorded() -> Iterator[_Step]:
        for best in _best_so_far(steps):
            values.append(best.alignment)
            yield best

    silent = replace(limits, verbose=0)
    run: Run[_Step] = Run(silent, "The first stage", converged=lambda step: step.growth <= gain, first=1)
    run.follow(recorded())
    best = run.best
    mixture = best.mixture.pruned() if best.alignment > SMALLEST_SHARE else Mixture()
    weights = mixture.weights / mixture.weights.sum() if len(mixture) else mixture.weights
    reached = best.alignment if len(mixture) else 0.0
    return AlignedKernel(mixture.parameters, weights, reached, tuple(values), run.status or Status.STALLED)


def _ascend(search: FamilySearch, space: TargetSpace, rng: np.random.Generator) -> Iterator[_Step]:
    """Algorithm 7: steepest ascent on the centered alignment.

    The thesis starts from ``epsilon C`` and keeps it. Where some identity helps the alignment, all steps then are of
    the order of epsilon and the identity stays in the sum, though no kernel of the model holds it. So it only gives the
    first direction here, and the first kernel has weight one.
    """
    ideal, mixture, kernel = space.ideal, Mixture(), None
    while True:
        direction, norm = _first_ascent(space, ideal) if kernel is None else _ascent(kernel, ideal)
        best = _best_member(search, space, direction, norm, mixture, rng)
        mixture, new = mixture.with_member(search, best.parameter)
        member = space.centered(mixture.grams[new])
        step = LARGEST_STEP if kernel is None else alignment_step(kernel, member, ideal)
        kernel = step * member if kernel is None else kernel + step * member
        weights = mixture.weights.copy()
        weights[new] += step
        mixture = mixture.weighted(weights)
        value = cosine(kernel, ideal)
        yield _Step(mixture, value, value)


def _first_ascent(space: TargetSpace, ideal: Array) -> tuple[Array, float]:
    """Return the direction of ascent from the identity of all samples that the weights count, and its norm.

    Copies of a sample are different samples to the identity. What a kernel, which cannot tell them apart, sees of it is
    ``space.identity``; but its squared norm is the number of samples counted less one.
    """
    share, square = float(np.vdot(space.identity, ideal)), space.n_counted - 1.0
    if square <= 0:
        return ideal, float(np.linalg.norm(ideal))
    norm = np.sqrt(max(float(np.vdot(ideal, ideal)) - share**2 / square, 0.0))
    return ideal - share / square * space.identity, float(norm)


def _ascent(kernel: Array, ideal: Array) -> tuple[Array, float]:
    """Return ``K* - <K, K*> / ||K||^2 K``, the direction of F' (5.7), and its norm."""
    square = float(np.vdot(kernel, kernel))
    direction = ideal - float(np.vdot(kernel, ideal)) / square * kernel if square > 0 else ideal
    return direction, float(np.linalg.norm(direction))


def _approach(search: FamilySearch, space: TargetSpace, rng: np.random.Generator) -> Iterator[_Step]:
    """Algorithm 8: Frank-Wolfe on the distance to the ideal kernel over ``beta`` times the simplex with 0."""
    n_samples, ideal, mixture = len(space.target), space.ideal, Mixture()
    current, beta, whole = np.zeros((n_samples, n_samples)), 0.0, float(np.linalg.norm(ideal))
    while True:
        residual = ideal - current
        best = _best_member(search, space, residual, float(np.linalg.norm(residual)), mixture, rng)
        mixture, new = mixture.with_member(search, best.parameter)
        member = space.centered(mixture.grams[new])
        beta = _grown_scale(beta, mixture, member, ideal)
        toward = best.value > 0
        vertex = beta * member if toward else np.zeros_like(member)
        step = distance_step(current, vertex, ideal)
        weights = (1 - step) * mixture.weights
        weights[new] += step * beta * toward
        current = (1 - step) * current + step * vertex
        mixture = mixture.weighted(weights)
        # The share of the ideal kernel that is explained; under exact steps it grows, which the alignment need not.
        missing = float(np.linalg.norm(ideal - current) / whole) ** 2 if whole > 0 else 1.0
        yield _Step(mixture, cosine(current, ideal), np.sqrt(max(1.0 - missing, 0.0)))


def _grown_scale(beta: float, mixture: Mixture, member: Array, ideal: Array) -> float:
    """Return the scale of the simplex: that of the best single member, doubled while the weights fill it."""
    if beta == 0:
        size = float(np.vdot(member, member))
        return 2 * max(float(np.vdot(member, ideal)) / size, np.finfo(np.float64).tiny) if size > 0 else 1.0
    return 2 * beta if mixture.weights.sum() > CROWDED * beta else beta


def _best_member(
    search: FamilySearch, space: TargetSpace, matrix: Array, norm: float, mixture: Mixture, rng: np.random.Generator
) -> BestMember:
    """Return the member whose centered Gram matrix has the largest product with ``matrix``, scaled to norm one."""
    adjoint = space.adjoint(matrix)
    return search.maximize(PairWeights(adjoint / norm if norm > 0 else adjoint), near=mixture.parameters, rng=rng)
