"""The first of two stages (GCD-2s): members of a family whose sum resembles the ideal kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manykernels.alignment.metrics import SMALLEST_SHARE
from manykernels.discovery.base import Limits, checked_limits, random_generator
from manykernels.discovery.families.pairs import PairWeights
from manykernels.discovery.families.search import FamilySearch
from manykernels.discovery.one_stage.mixture import Mixture
from manykernels.discovery.two_stage.ascents import AscentSettings, Step, chosen_ascent, corrected_weights
from manykernels.discovery.two_stage.target_space import TargetSpace
from manykernels.solvers import Status
from manykernels.solvers.run import Run
from manykernels.validation.arrays import Array, check_choice, check_positive, check_positive_vector, check_vector
from manykernels.validation.parameters import check_instance

CRITERIA = ("alignment", "distance")


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
    upper_bound : float
        No non-negative combination of members of the family has a larger alignment; nan where that is not known, as for
        families of several parameters.
    """

    parameters: tuple[Array, ...]
    weights: Array
    alignment: float
    history: tuple[float, ...]
    status: Status
    upper_bound: float = float("nan")


def align_family(
    search: FamilySearch,
    target: Array,
    weight: Array,
    *,
    criterion: str = "alignment",
    gain: float = 1e-3,
    ascent: AscentSettings | None = None,
    limits: Limits | None = None,
    random_state: Any = 0,
) -> AlignedKernel:
    """Find members of a family and weights so that their sum resembles the ideal kernel ``y y'``.

    Adds the member along which the centered alignment grows fastest, and finds the weights of all kernels anew by
    non-negative least squares. With ``AscentSettings("published")``, ``"alignment"`` is Algorithm 7 of the thesis, with
    the best step for the new kernel, and ``"distance"`` Algorithm 8: Frank-Wolfe on the distance to the ideal kernel,
    with the exact step; the scale ``beta`` starts from the best single member and doubles while the weights fill the
    simplex. With corrective weights the two criteria are the same but for the first kernel.

    How much any other kernels of the family could gain is bounded: if ``<K* - r K, K_p> <= 0`` for every member, all
    matrices centered and ``K*`` of norm one, no combination has an alignment above ``r ||K||``.

    Parameters
    ----------
    search : FamilySearch
        With shrinkage, the objective of the search is that of (6.2), its matrix scaled to Frobenius norm 1.
    target, weight : ndarray of shape (n_samples,)
    criterion : {"alignment", "distance"}, default="alignment"
    gain : float, default=1e-3
        Least growth a step (``delta``) of the alignment, or of ``sqrt(1 - ||K - K*||^2 / ||K*||^2)``, which it equals
        at the best scale.
    ascent : AscentSettings, optional
        How weights change.
    limits : Limits, optional
        Its ``max_iter``, ``time_limit`` and ``callback`` count.
    random_state : int, RandomState, Generator or None, default=0

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
    steps = chosen_ascent(criterion, checked_ascent(ascent))(search, space, rng)
    found = _aligned(steps, gain, limits)
    return replace(found, upper_bound=alignment_bound(search, space, found.parameters, found.alignment))


def checked_ascent(ascent: Any) -> AscentSettings:
    """Return ``ascent``, or that by default if it is None."""
    chosen = AscentSettings() if ascent is None else ascent
    found: AscentSettings = check_instance(chosen, AscentSettings, "ascent", 'AscentSettings("published")')
    return found


def alignment_bound(search: FamilySearch, space: TargetSpace, parameters: tuple[Array, ...], reached: float) -> float:
    """Return a number that the alignment of no combination of members exceeds; nan if there is none."""
    if not parameters:
        return float("nan")
    grams = tuple(search.gram(parameter) for parameter in parameters)
    _, kernel = corrected_weights(space, Mixture(parameters, grams))
    pairs = PairWeights(space.adjoint(space.ideal)), PairWeights(space.adjoint(kernel))
    ratio = search.ratio_bound(*pairs)
    return float("nan") if ratio is None else max(ratio * float(np.linalg.norm(kernel)), reached)


def _best_so_far(steps: Iterator[Step]) -> Iterator[Step]:
    """Yield the best of all steps so far, with the growth of the last one."""
    best = Step(Mixture(), 0.0, 0.0)
    for step in steps:
        growth = step.merit - best.merit
        best = step if growth > 0 or not len(best.mixture) else best
        yield replace(best, growth=growth)


def _aligned(steps: Iterator[Step], gain: float, limits: Limits) -> AlignedKernel:
    """Take steps until the alignment no longer grows, or a limit or Ctrl-C ends the first stage with what it has."""
    values: list[float] = []

    def recorded() -> Iterator[Step]:
        for best in _best_so_far(steps):
            values.append(best.alignment)
            yield best

    silent = replace(limits, verbose=0)
    run: Run[Step] = Run(silent, "The first stage", converged=lambda step: step.growth <= gain, first=1)
    run.follow(recorded())
    best = run.best
    mixture = best.mixture.pruned() if best.alignment > SMALLEST_SHARE else Mixture()
    weights = mixture.weights / mixture.weights.sum() if len(mixture) else mixture.weights
    reached = best.alignment if len(mixture) else 0.0
    return AlignedKernel(mixture.parameters, weights, reached, tuple(values), run.status or Status.STALLED)
