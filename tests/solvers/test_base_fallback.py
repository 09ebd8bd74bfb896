"""Published methods that break down or stall: the interior point goes on, unless what was published is asked for."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.low_rank import low_rank_problem

from manykernels import Gaussian, KernelBank, Linear, MKLClassifier, solve
from manykernels.exceptions import ConvergenceWarning
from manykernels.solvers import SOLVERS, Status
from manykernels.testing.solver import build_problem, certificate_in_numpy

# Low rank, badly scaled, weak strengths: the linear program of the cuts fails; coefficients at kinks; flat duals.
BROKEN = [("silp", 9), ("spicymkl", 21), ("ufo_mkl", 8), ("obscure", 71)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("solver", "number"), BROKEN)
def test_another_solver_goes_on(solver: str, number: int) -> None:
    small = low_rank_problem(number)
    kind = SOLVERS[solver]
    solution = kind(tol=max(1e-6, kind.attainable_gap)).solve(build_problem(small))
    assert "went on from its best model" in solution.message
    judged = certificate_in_numpy(small, solution.dual_coef, solution.kernel_weights, solution.intercept)
    assert judged.relative_gap <= 2 * max(1e-6, kind.attainable_gap)


def test_not_from_what_was_published_nor_after_limits() -> None:
    problem = build_problem(low_rank_problem(9))
    for solver in (SOLVERS["silp"](tol=1e-6, alternate=False, max_iter=3), SOLVERS["simplemkl"](tol=1e-6, max_iter=1)):
        with pytest.warns(ConvergenceWarning) as caught:
            solution = solver.solve(problem)
        assert "went on" not in str(caught[0].message)
        assert solution.status is Status.MAX_ITER
    assert SOLVERS["silp"](alternate=False).fallback_statuses == ()
    assert SOLVERS["skm"](newton=False).fallback_statuses == ()


def test_an_alternation_that_no_longer_gets_on_finds_what_certifies_its_weights() -> None:
    """Twelve kernels of rank one, epsilon-insensitive: the gap used to swing around 6e-3 at the best weights."""
    small = low_rank_problem(137)
    solution = SOLVERS["block_coordinate"](tol=1e-6).solve(build_problem(small))
    judged = certificate_in_numpy(small, solution.dual_coef, solution.kernel_weights, solution.intercept)
    assert judged.relative_gap <= 2e-6


@pytest.mark.parametrize(("loss", "weight"), [("quantile", 1e12), ("poisson", 1e15)])
def test_sample_weights_beyond_float64_are_the_reason(loss: str, weight: float) -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    kernels = np.stack([np.exp(-np.abs(column[:, None] - column)) for column in X.T])
    weights = np.ones(30)
    weights[3] = weight
    options = {"penalty": "l1", "strength": 0.5, "sample_weight": weights}
    y = np.arange(30.0) % 7 if loss == "poisson" else X[:, 0]
    with pytest.warns(ConvergenceWarning, match=r"sample weights differ by a factor of 1e\+1[25].*Lower the largest"):
        assert solve(kernels, y, loss=loss, **options).status is not Status.CONVERGED
    with pytest.warns(ConvergenceWarning, match=r"time_limit.*sample weights differ by a factor of 1e\+1[25]"):
        assert solve(kernels, y, loss=loss, time_limit=1e-6, **options).status is Status.TIME_LIMIT
    weights[3] = 1e6
    assert solve(kernels, y, loss=loss, **options).status is Status.CONVERGED


@pytest.mark.parametrize("representation", ["gram", "factored"])
def test_rows_that_kernels_without_a_penalty_separate_are_the_reason(representation: str) -> None:
    X = np.concatenate([np.linspace(-2.0, -1.0, 20), np.linspace(1.0, 2.0, 20)])[:, None]
    bank = KernelBank([("line", Linear(), [0]), ("curve", Gaussian(1.0), [0])])
    options = {"loss": "logistic", "penalty": {"line": None, "*": "ridge"}, "alpha": 0.01, "tol": 1e-6}
    with pytest.warns(ConvergenceWarning, match="fit every training row.*give these kernels a penalty"):
        MKLClassifier(bank, resources={"representation": representation}, **options).fit(X, X[:, 0] > 0)
