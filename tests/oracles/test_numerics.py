"""Fits that once went wrong in float64: what they report is true, and they converge."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from manykernels import solve
from manykernels.exceptions import ConvergenceWarning
from manykernels.objective.certificate import Certificate, KKTResiduals
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import BlockLq
from manykernels.solvers import Solution
from manykernels.solvers import run as deadline_module
from manykernels.solvers.gram import newton_system
from manykernels.solvers.gram.interior_point import InteriorPoint
from manykernels.solvers.run import Run


class AloneInteriorPoint(InteriorPoint):
    """Without the solver that goes on where it breaks down."""

    fallback = None


def test_block_q_norm_near_one_does_not_lose_its_penalty_to_underflow() -> None:
    """Coefficients of 1e-190 with weights of 1e197: their squared norm underflowed, and the gap was told to be 0."""
    x = np.array([-0.1, 0.3, 0.2])
    kernel = np.exp(-2 * (x[:, None] - x) ** 2)
    solution = solve(
        kernel[None],
        [0.5, -1.8, 2.8],
        loss="epsilon_insensitive",
        penalty=BlockLq(8e-6, q=1.005),
        fit_intercept=False,
        tol=1e-6,
    )
    rho, d = solution.dual_coef, solution.kernel_weights[0]
    norm = d * np.linalg.norm(np.linalg.cholesky(kernel).T @ rho)
    residual = np.abs(d * kernel @ rho - [0.5, -1.8, 2.8])
    primal = np.maximum(residual - 0.1, 0).sum() + 8e-6 / 1.005 * norm**1.005
    assert solution.certificate.primal == pytest.approx(primal, rel=1e-9)
    assert primal == pytest.approx(3.7936620e-4, rel=1e-5)
    assert solution.status == "converged"


@pytest.mark.parametrize("seed", range(8))
def test_a_constant_column_does_no_harm(seed: int) -> None:
    """The intercept absorbs its kernel, whose norms are then rounding; steps were cut to nothing to respect them."""
    rng = np.random.default_rng(seed)
    columns = np.column_stack([rng.standard_normal((60, 3)), np.ones(60)])
    kernels = np.stack([np.outer(column, column) for column in columns.T])
    y = columns[:, 0] + 0.3 * rng.standard_normal(60)
    solution = solve(kernels, y, loss="huber", penalty=BlockLq(6e-2, q=1.9), tol=1e-6)
    assert solution.status == "converged"
    assert solution.n_iter < 50


@pytest.mark.parametrize("solver", ["working_set", "interior_point", "simplemkl", "hessianmkl", "silp", "smooth_dual"])
def test_a_time_limit_holds_within_one_factorization(solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock is a second later: with a limit of five, at most a handful of systems are factorized."""
    factorized = []
    plain = newton_system._factorize
    monkeypatch.setattr(newton_system, "_factorize", lambda matrix: factorized.append(1) or plain(matrix))
    clock = count()
    monkeypatch.setattr(deadline_module.time, "perf_counter", lambda: float(next(clock)))
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((6, 40, 5))
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        solution = solve(
            factors @ factors.transpose(0, 2, 1),
            np.sign(factors[0, :, 0]),
            loss="squared_hinge",
            penalty="elasticnet" if solver in ("working_set", "interior_point", "smooth_dual") else "simplex",
            strength=0.1,
            solver=solver,
            tol=1e-12,
            time_limit=5.0,
        )
    assert solution.status == "time_limit"
    assert len(factorized) <= 6


@pytest.mark.parametrize(("rounding", "status"), [(0.05, "inaccurate"), (1e-3, "converged")])
def test_a_gap_that_rounding_could_hide_is_not_called_converged(rounding: float, status: str) -> None:
    parts = KKTResiduals(0.0, 0.0, 0.0, 0.0, 0.0)
    certificate = Certificate.from_values(1.0, 1.0, 1.0, parts, rounding)
    model = Solution(np.zeros(3), np.zeros(1), 0.0, certificate, passes=1.0)
    run: Run[Solution] = Run(InteriorPoint(tol=1e-4), "A solver")
    solution = run.follow(iter([model])).solution()
    assert solution.status == status
    assert status in solution.message


@pytest.mark.parametrize("q", [1.005, 1.02, 1.1])
@pytest.mark.parametrize("strength", [1e-3, 1.0, 30.0])
def test_the_interior_point_reaches_block_q_norms_near_one_by_itself(q: float, strength: float) -> None:
    """Their weights are high powers of the norms: half of such fits broke down at a start whose weights were 1e-40."""
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((5, 40, 3))
    y = factors[0, :, 0] + 0.1 * rng.standard_normal(40)
    problem = Problem(factors @ factors.transpose(0, 2, 1), y, "huber", BlockLq(strength, q=q))
    assert AloneInteriorPoint(tol=1e-8).solve(problem).status == "converged"
