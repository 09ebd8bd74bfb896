"""How hard to search for widths, chosen on rows that the search has not seen: early stopping and shrinkage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from manykernels.discovery.base import Discovery
from manykernels.discovery.families.search import SearchSettings, checked_settings
from manykernels.discovery.one_stage.mixture import Learner
from manykernels.exceptions import InvalidInputError
from manykernels.validation.arrays import Array

N_FOLDS = 3
STEPS = (1, 2, 3, 5, 10)  # of climbs that start from the best common width, from hardly any difference to much
NEARLY_COMMON = 1.0  # shrinkage under which widths hardly differ
Fit = Callable[[SearchSettings, Array, Any], Discovery]


def graded_settings(settings: SearchSettings) -> tuple[SearchSettings, ...]:
    """Return settings from nearly one common width to climbs that go to their end, to be compared on held-out rows.

    Parameters
    ----------
    settings : SearchSettings
        Of the climb that goes furthest.

    Returns
    -------
    tuple of SearchSettings

    Examples
    --------
    >>> from manykernels.discovery import SearchSettings, graded_settings
    >>> [settings.max_steps for settings in graded_settings(SearchSettings(n_starts=1))]
    [None, 1, 2, 3, 5, 10, None]
    """
    common = SearchSettings(settings.n_starts, max(settings.shrinkage, NEARLY_COMMON))
    early = (SearchSettings(settings.n_starts, settings.shrinkage, steps) for steps in STEPS)
    return (common, *early, settings)


def checked_candidates(settings: Any) -> tuple[SearchSettings, ...]:
    """Return one or several settings as a tuple."""
    several = settings if isinstance(settings, Sequence) else (settings,)
    if not several:
        raise InvalidInputError("settings must be one SearchSettings or a sequence of some; the sequence is empty.")
    return tuple(checked_settings(one) for one in several)


def best_on_held_out(
    learner: Learner, candidates: Sequence[SearchSettings], fit: Fit, rng: np.random.Generator
) -> SearchSettings:
    """Return the settings of smallest mean loss on held-out rows, in three folds; the first ones of equals.

    Parameters
    ----------
    learner : Learner
        Rows, targets and weights.
    candidates : sequence of SearchSettings
    fit : callable
        Discovery from settings, rows and a source of random numbers.
    rng : numpy.random.Generator
    """
    if len(candidates) == 1:
        return candidates[0]
    n_samples = len(learner.target)
    folds = np.array_split(rng.permutation(n_samples), min(N_FOLDS, n_samples))
    seed = int(rng.integers(2**31))  # the same random starts for all
    losses = [sum(_held_out_loss(learner, fit, one, fold, seed) for fold in folds) for one in candidates]
    return candidates[int(np.argmin(losses))]


def _held_out_loss(learner: Learner, fit: Fit, settings: SearchSettings, fold: Array, seed: int) -> float:
    """Return the weighted sum of losses on the rows of a fold, of a model of the others."""
    kept = np.setdiff1d(np.arange(len(learner.target)), fold)
    found = fit(settings, kept, seed)
    points, solution = learner.search.points, found.solution
    scores = np.full(len(fold), float(np.asarray(solution.intercept)))
    for kernel, weight in zip(found.kernels, solution.kernel_weights, strict=True):
        scores += weight * (kernel.spec(points[fold], points[kept]) @ solution.dual_coef)
    return float(learner.weight[fold] @ learner.loss.value(learner.target[fold], scores))
