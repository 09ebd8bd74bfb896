"""Solutions on some kernels as solutions on all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from manykernels.estimators.supervised.problems import Fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from manykernels.estimators.selection.mixing.mixtures import Mixture
    from manykernels.objective.problem import Problem
    from manykernels.solvers import Solution
    from manykernels.validation.arrays import Array


def spread(fit: Fit, mixture: Mixture, problems: Sequence[Problem]) -> Fit:
    """Return solutions on the kernels of a mixture as models on all kernels: the others have weight zero."""
    if len(mixture.kernels) == len(mixture.weights):
        return fit
    whole = [replace(own, regularizer=posed.regularizer) for own, posed in zip(problems, fit.problems, strict=True)]
    kept, size = mixture.kernels, len(mixture.weights)
    solutions = [replace(found, kernel_weights=_placed(found.kernel_weights, kept, size)) for found in fit.solutions]
    return Fit(whole, solutions, _placed(fit.norms, kept, size))


def with_all_dual_norms(found: Solution, problem: Problem) -> Solution:
    """Return a solution whose certificate tells the dual norm of every kernel, also of those that took no part."""
    norms = problem.dual_norms(problem.feasible_dual(found.dual_coef))
    return replace(found, certificate=replace(found.certificate, dual_norms=norms))


def _placed(values: Array, kept: Array, size: int) -> Array:
    placed = np.zeros((*values.shape[:-1], size))
    placed[..., kept] = values
    return placed
