"""From plain arrays to the library and back: pose a small problem, and judge the certificate of its solution."""

from __future__ import annotations

import numpy as np

from manykernels.grams import as_stack
from manykernels.objective.losses import get_loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import get_regularizer
from manykernels.solvers.solution import Solution
from manykernels.testing.oracles import certificate_in_numpy
from manykernels.testing.problems import SmallProblem

__all__ = ["build_problem", "check_certificate"]


def build_problem(small: SmallProblem) -> Problem:
    """Return a small problem as the library poses it.

    Parameters
    ----------
    small : SmallProblem
        Plain arrays, for instance from :func:`manykernels.testing.problems.random_problem`.

    Returns
    -------
    Problem

    Examples
    --------
    >>> from manykernels.testing.problems import random_problem
    >>> build_problem(random_problem(0)).loss.name
    'logistic'
    """
    return Problem(
        as_stack(small.kernels),
        small.y,
        get_loss(small.loss_name, **small.loss_params),
        get_regularizer(small.regularizer_name, small.strength, **small.regularizer_params),
        fit_intercept=small.fit_intercept,
        sample_weight=small.sample_weight,
        kernel_penalties=small.kernel_penalties,
    )


def check_certificate(small: SmallProblem, solution: Solution, tolerance: float = 1e-9) -> None:
    """Assert that the reported certificate is the one of the returned model, recomputed in plain NumPy.

    Parameters
    ----------
    small : SmallProblem
        The problem that was solved.
    solution : Solution
        What the solver returned.
    tolerance : float
        Largest difference allowed, relative to the primal.

    Raises
    ------
    AssertionError
        If primal, dual, gap or relative gap differ.

    Examples
    --------
    >>> from manykernels.solvers import solve
    >>> from manykernels.testing.problems import random_problem
    >>> small = random_problem(0)
    >>> check_certificate(small, solve(small.kernels, small.y, loss="logistic", regularizer="l1",
    ...                                strength=small.strength))
    """
    told = solution.certificate
    found = certificate_in_numpy(small, solution.dual_coef, solution.kernel_weights, solution.intercept)
    room = tolerance * max(abs(found.primal), 1e-10 * abs(found.dual))
    for name in ("primal", "dual", "gap"):
        np.testing.assert_allclose(getattr(told, name), getattr(found, name), rtol=0, atol=room, err_msg=name)
    scale = abs(found.gap / found.relative_gap) if found.relative_gap else 1.0
    np.testing.assert_allclose(told.relative_gap, found.relative_gap, rtol=0, atol=room / scale)
