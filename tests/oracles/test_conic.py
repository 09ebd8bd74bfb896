"""The conic oracle against closed forms, a second conic solver and plain minimization; and its own certificate."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.kernel_ridge import KernelRidge
from tests.support.conic import ConicOptimum, conic_optimum, cvxpy_optimum
from tests.support.optima import COUNT, belongs, fingerprint

from manykernels.testing.formulas import loss_value, penalty_value
from manykernels.testing.problems import SmallProblem, random_problem


def test_the_file_of_other_problems_is_not_believed(problems: tuple[SmallProblem, ...]) -> None:
    for problem in problems[:30]:
        assert belongs(problem, fingerprint(problem))
        assert belongs(replace(problem, kernels=problem.kernels * (1 + 1e-14)), fingerprint(problem))
        assert not belongs(replace(problem, strength=problem.strength * (1 + 1e-6)), fingerprint(problem))
        assert not belongs(replace(problem, kernels=problem.kernels * (1 + 1e-6)), fingerprint(problem))
        assert not belongs(replace(problem, y=problem.y[::-1]), fingerprint(problem))


@pytest.mark.parametrize("index", range(0, 500, 23))
def test_a_stored_optimum_is_what_the_conic_solver_finds(
    index: int, problems: tuple[SmallProblem, ...], optimum: Callable[[int], ConicOptimum]
) -> None:
    assert cvxpy_optimum(problems[index]) == pytest.approx(optimum(index).primal, rel=2e-9)


def test_each_of_the_500_optima_is_certified(
    problems: tuple[SmallProblem, ...], optimum: Callable[[int], ConicOptimum]
) -> None:
    excess = np.array([optimum(index).excess for index in range(len(problems))])
    assert excess.max() < 1e-9
    # Rounding alone may put the bound above the value.
    assert excess[:COUNT].min() > -1e-12
    # Losses with a logarithmic link are differences of numbers ten times their size.
    assert excess[COUNT:].min() > -1e-11


def test_one_kernel_with_squared_loss_is_kernel_ridge() -> None:
    drawn = random_problem(2, loss="squared", regularizer="ridge", fit_intercept=False)
    single = replace(drawn, kernels=drawn.kernels[:1], strength=0.4)
    fitted = KernelRidge(alpha=0.4, kernel="precomputed").fit(single.kernels[0], single.y)
    expected = float(fitted.dual_coef_ @ single.y) * 0.4 / 2
    assert cvxpy_optimum(single) == pytest.approx(expected, rel=1e-9)


@pytest.mark.nightly
@pytest.mark.parametrize(("loss", "regularizer"), [("hinge", "l1"), ("logistic", "elasticnet"), ("huber", "simplex")])
def test_a_second_solver_agrees(loss: str, regularizer: str) -> None:
    pytest.importorskip("scs")
    problem = random_problem(21, loss=loss, regularizer=regularizer, weighted=True)
    second = conic_optimum(problem, solver="SCS", eps_abs=1e-10, eps_rel=1e-10, max_iters=200_000)
    assert cvxpy_optimum(problem) == pytest.approx(second.primal, rel=1e-7)


def slope(problem: SmallProblem, norms: np.ndarray) -> np.ndarray:
    """Return the derivative of the penalty by central differences."""
    steps = 1e-6 * np.diag(norms)
    name, params, strength = problem.regularizer_name, problem.regularizer_params, problem.strength
    ends = [[penalty_value(name, params, strength, norms + e * h) for e in (1, -1)] for h in steps]
    return np.diff(ends, axis=1)[:, 0] / (-2 * np.diag(steps))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("regularizer", ["ridge", "lq", "simplex", "lp_ball"])
def test_plain_minimization_over_coefficients_agrees(regularizer: str) -> None:
    problem = random_problem(5, loss="squared_hinge", regularizer=regularizer, weighted=True)
    problem = replace(problem, kernels=problem.kernels[:2], kernel_penalties=problem.penalties[:2])
    factors = [np.linalg.cholesky(K + 1e-13 * np.trace(K) * np.eye(len(K))) for K in problem.kernels]

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        blocks = x[:-1].reshape(2, -1)
        z = sum(factor @ block for factor, block in zip(factors, blocks, strict=True)) + x[-1]
        residual = -problem.weights * problem.y * np.maximum(1 - problem.y * z, 0)
        norms = problem.penalties * np.linalg.norm(blocks, axis=1)
        penalty = penalty_value(regularizer, problem.regularizer_params, problem.strength, norms)
        pull = (slope(problem, norms) * problem.penalties**2 / norms)[:, None] * blocks
        gradient = np.stack([factor.T @ residual for factor in factors]) + pull
        value = problem.weights @ loss_value("squared_hinge", {}, problem.y, z) + penalty
        return float(value), np.r_[gradient.ravel(), residual.sum()]

    start = np.full(2 * problem.y.size + 1, 0.05)
    options = {"maxiter": 3000, "maxfun": 6000, "ftol": 1e-15, "gtol": 1e-10}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    assert cvxpy_optimum(problem) == pytest.approx(found.fun, rel=1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("loss", ["quantile", "hinge", "squared"])
@pytest.mark.parametrize("regularizer", ["lp_ball", "elasticnet_ball"])
def test_the_other_weight_sets_and_the_quantile_loss_are_certified(loss: str, regularizer: str) -> None:
    for seed in (31, 32):
        problem = random_problem(seed, loss=loss, regularizer=regularizer, weighted=seed == 32)
        assert abs(conic_optimum(problem).excess) < 1e-7


def test_the_same_problem_in_other_units_has_the_same_optimum() -> None:
    problem = random_problem(9, loss="epsilon_insensitive", regularizer="simplex", weighted=True)
    factors = 10 ** np.random.default_rng(1).uniform(-4, 4, len(problem.kernels))
    scaled = replace(
        problem,
        kernels=problem.kernels * factors[:, None, None],
        kernel_penalties=problem.penalties * np.sqrt(factors),
    )
    assert cvxpy_optimum(scaled) == pytest.approx(cvxpy_optimum(problem), rel=1e-8)


def test_the_bound_notices_an_answer_that_is_not_optimal() -> None:
    best = conic_optimum(random_problem(13, loss="logistic"))
    assert best.excess < 1e-9
    assert replace(best, primal=best.primal * (1 + 1e-6)).excess > 9e-7


def test_a_sloppy_solver_is_refused_rather_than_believed() -> None:
    sloppy = {"tol_gap_abs": 1e-2, "tol_gap_rel": 1e-2, "tol_feas": 1e-2}
    with pytest.raises(ArithmeticError, match=r"CLARABEL gave only .* instead of 1e-07 on 'logistic \+ l1"):
        conic_optimum(random_problem(13, loss="logistic"), **sloppy)


def test_a_missing_cvxpy_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(ImportError, match="pip install cvxpy clarabel"):
        cvxpy_optimum(random_problem(0))
