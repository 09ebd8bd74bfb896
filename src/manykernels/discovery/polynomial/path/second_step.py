"""The adaptive second step: the problem once more on what was selected, small parts penalized more than large ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from manykernels.discovery.base import Discovery, solve_quietly, without_empty
from manykernels.discovery.polynomial.path.lasso_path import WeightedLasso, adaptive_penalties
from manykernels.discovery.polynomial.search import PolynomialSearch
from manykernels.discovery.polynomial.tuning import LEAST_NORM, SECOND_TOL
from manykernels.grams import RankOneStack
from manykernels.objective.problem import Problem
from manykernels.solvers import Status
from manykernels.validation.arrays import Array


def second_step(search: PolynomialSearch, found: Discovery, mu: float | None = None) -> Discovery:
    """Return the model with penalties ``w_m / ||f_m||`` on the kernels found, the others left out.

    The certificate is that of the second problem, in which the penalties of all other kernels are infinite. ``mu`` is
    its strength as that of a lasso; by default it has the strength of the first.
    """
    first, family = found.solution, search.family
    if not found.kernels:
        return found
    stack = family.base.stack([search.index_of[kernel] for kernel in found.kernels])
    norms = first.kernel_weights * np.sqrt(stack.quad(first.dual_coef))
    kept = np.flatnonzero(norms > LEAST_NORM * norms.max())
    kernels, stack = tuple(found.kernels[m] for m in kept), stack.take(kept)
    first_penalties = family.penalties([search.index_of[kernel] for kernel in kernels])
    penalties = adaptive_penalties(first_penalties, norms[kept])
    problem = replace(search.problem, stack=stack, kernel_penalties=penalties)
    if mu is not None:
        problem = replace(problem, regularizer=family.regularizer(_strength(problem, penalties, mu)))
    second = solve_quietly(problem, min(SECOND_TOL, search.tol))
    if first.status is not Status.CONVERGED:
        second = replace(second, status=first.status, message=first.message)
    return without_empty(Discovery(kernels, second))


def _strength(problem: Problem, penalties: Array, mu: float) -> float:
    """Return the strength of the squared penalty that has the optimum of a lasso on features."""
    assert isinstance(problem.stack, RankOneStack)
    features = problem.stack.features
    lasso = WeightedLasso(problem.y, problem.weight, problem.fit_intercept, lambda _: features, lambda _: penalties)
    coefficients = lasso.solved(mu, ((),) * len(features), np.zeros(len(features)))[0]
    size = float(penalties @ np.abs(coefficients))
    own: float = problem.regularizer.strength
    return mu / size if size > 0 else own
