"""What a user is told of models without kernels: which classes or targets, why, and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np

from manykernels.estimators.strength import AUTO
from manykernels.estimators.supervised.problems import Fit
from manykernels.validation.arrays import Array

MOST_NAMED = 10
PLURALS = {"class": "classes", "output": "outputs"}


def constant_targets(fit: Fit) -> set[int]:
    """Return the numbers of the targets that have one value only."""
    return {number for number, problem in enumerate(fit.problems) if not np.ptp(problem.y, axis=0).any()}


def why_none(fit: Fit, tol: float) -> str:
    """Return why no target has a kernel."""
    total = fit.problems[0].total_weight
    alpha = max(problem.regularizer.strength for problem in fit.problems) / total
    largest = max(problem.strength_max() for problem in fit.problems) / total
    if largest == 0 or len(constant_targets(fit)) == len(fit.problems):
        return "none of them can improve on the best constant. Is y constant, or are all kernels zero?"
    if alpha < largest:
        return f"at alpha={alpha:g} the best constant is optimal within tol={tol:g}. Decrease alpha or tol."
    return f"alpha={alpha:g} is not below alpha_max={largest:.6g}, where the model becomes constant. Decrease alpha."


def why_some(empty: list[int], labels: Array, word: str, alpha: Any, *, searched: bool) -> str:
    """Return which of several targets have no kernel; ``searched`` says that cross-validation chose ``alpha``.

    An array is a strength of each target.
    """
    named = ", ".join(repr(label) for label in labels[empty[:MOST_NAMED]].tolist())
    more = f" and {len(empty) - MOST_NAMED} more" if len(empty) > MOST_NAMED else ""
    noun, scores = PLURALS[word], "scores" if word == "class" else "predictions"
    start = (
        f"No kernel was selected for {len(empty)} of {len(labels)} {noun} ({named}{more}): their {scores} are constant."
    )
    if isinstance(alpha, str):
        return f"{start} At alpha={alpha!r} no kernel gains more than tol there. Check those {noun}, or decrease tol."
    if np.ndim(alpha):
        return f"{start} Of all strengths that were tried the strongest predicted them best: the kernels do not help."
    own = "MKLClassifier" if word == "class" else "MKLRegressor"
    remedy = f"An {own} with alpha={AUTO!r}" if searched else f"alpha={AUTO!r}"
    return f"{start} alpha={alpha:.4g} is too strong for them: {remedy} gives each of the {noun} a strength of its own."
