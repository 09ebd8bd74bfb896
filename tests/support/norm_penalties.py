"""Optima of small problems under penalties that are told as a convex expression of the block norms, by CVXPY."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.conic import _clarabel, _conic_loss, _factors, _solved

from manykernels import solve
from manykernels.objective.problem import Problem
from manykernels.testing.problems import SmallProblem
from manykernels.testing.solver import losses_at

Floats = NDArray[np.float64]
COUNT = 60
QUICK = 12  # of them are solved in every run
NUMBERS = [pytest.param(n, marks=[] if n % (COUNT // QUICK) == n // 12 else pytest.mark.nightly) for n in range(COUNT)]
LADDER = (*(_clarabel(tolerance) for tolerance in (1e-10, 1e-9, 1e-8)), _clarabel(1e-10, equilibrate_enable=False))


def optimum_under(problem: SmallProblem, penalty: Callable[[Any, Any], Any]) -> float:
    """Return the optimal value of the problem's loss plus ``penalty(cvxpy, norms)`` of the norms ``w_m ||f_m||``.

    It is the objective of the best point that Clarabel finds, evaluated there: never below the true optimum.
    """
    import cvxpy as cp

    factors, sizes = _factors(problem)
    blocks = [cp.Variable(factor.shape[1]) for factor in factors]
    z, b = cp.Variable(problem.y.size), cp.Variable()
    norms = cp.hstack([size * cp.norm(v) for size, v in zip(sizes, blocks, strict=True)])
    scores = sum((factor @ v for factor, v in zip(factors, blocks, strict=True)), start=np.zeros(problem.y.size))
    link = z == (scores + b if problem.fit_intercept else scores)
    unit = float(problem.weights @ losses_at(problem, np.zeros_like(problem.y))) / problem.y.size
    program = cp.Problem(cp.Minimize((_conic_loss(cp, problem, z) + penalty(cp, norms)) / unit), [link])
    best = np.inf
    for options in LADDER:
        if not _solved(cp, program, "CLARABEL", options):
            continue
        f = np.sum([factor @ v.value for factor, v in zip(factors, blocks, strict=True)], axis=0)
        t = np.array([size * np.linalg.norm(v.value) for size, v in zip(sizes, blocks, strict=True)])
        z_found = f + float(b.value) if problem.fit_intercept else f
        loss = float(problem.weights @ losses_at(problem, z_found))
        best = min(best, loss + float(penalty(cp, cp.Constant(t)).value))
        if program.status == "optimal":
            break
    return best


def solved(problem: Problem, tol: float = 1e-7) -> Any:
    """Return the certificate of the problem, solved to this gap by the solver that is chosen for it."""
    solution = solve(
        problem.stack,
        problem.y,
        loss=problem.loss,
        penalty=problem.regularizer,
        fit_intercept=problem.fit_intercept,
        sample_weight=problem.sample_weight,
        outputs="shared",
        kernel_penalties=problem.penalties,
        tol=tol,
    )
    return solution.certificate
