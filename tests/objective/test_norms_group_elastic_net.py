"""UFO-MKL's published penalty: its laws, its special cases, CVXPY, and the solvers that take it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.conic import proved_value

from manykernels import MKLRegressor, MKLRegressorCV
from manykernels.exceptions import InvalidInputError
from manykernels.objective import ElasticNet, GroupElasticNet, LpBall, Problem
from manykernels.papers.problems import obscure, ufo_mkl
from manykernels.solvers import SOLVERS, choose_solver, get_solver
from manykernels.testing.formulas import penalty_conjugate, penalty_value

cp: Any = pytest.importorskip("cvxpy")
pytest.importorskip("clarabel")


def test_the_elastic_net_and_the_lp_ball_are_its_ends() -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        x = rng.exponential(size=6)
        for one, other in (
            (GroupElasticNet(0.7, 0.3, 2.0), ElasticNet(0.7, 0.3)),
            (GroupElasticNet(0.7, 0.0, 1.5), LpBall(0.7, 3.0)),
        ):
            assert one.value(x) == pytest.approx(other.value(x), rel=1e-12)
            assert one.conjugate(x) == pytest.approx(other.conjugate(x), rel=1e-12)
            np.testing.assert_allclose(one.prox(x, 0.5), other.prox(x, 0.5), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("name", "value"), [("l1_ratio", 1.0), ("q", 1.0), ("q", 2.5), ("l1_ratio", -0.1)])
def test_what_is_another_penalty_is_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidInputError, match=name):
        GroupElasticNet(1.0, **{name: value})


def drawn(seed: int) -> tuple[Problem, np.ndarray]:
    """Return a problem on kernels of rank two, and their factors."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((6, 16, 2))
    y = np.sign(factors[0, :, 0] + 0.5 * factors[1, :, 1]) if seed % 2 else factors[0, :, 0] + 0.1 * factors[1, :, 0]
    loss = ("squared", "hinge", "epsilon_insensitive", "logistic")[seed % 4]
    penalty = GroupElasticNet(10 ** rng.uniform(-2, 0.5), rng.choice([0.0, 0.3, 0.8]), rng.choice([1.25, 1.5, 1.75]))
    return Problem(factors @ factors.transpose(0, 2, 1), y, loss, penalty, fit_intercept=seed % 3 > 0), factors


def optimum(problem: Problem, factors: np.ndarray) -> float:
    """Return the optimal objective by CVXPY and Clarabel."""
    penalty, y = problem.regularizer, problem.y
    assert isinstance(penalty, GroupElasticNet)
    linear, square, p = penalty.curve.square
    blocks = [cp.Variable(2) for _ in factors]
    b = cp.Variable() if problem.fit_intercept else 0.0
    z = sum(factor @ v for factor, v in zip(factors, blocks, strict=True)) + b
    losses = {
        "squared": lambda: cp.sum_squares(z - y) / 2,
        "hinge": lambda: cp.sum(cp.pos(1 - cp.multiply(y, z))),
        "epsilon_insensitive": lambda: cp.sum(cp.pos(cp.abs(z - y) - problem.loss.kink)),
        "logistic": lambda: cp.sum(cp.logistic(-cp.multiply(y, z))),
    }
    norms = cp.hstack([cp.norm(v) for v in blocks])
    omega = linear * cp.sum(norms) + square / 2 * cp.square(cp.pnorm(norms, p))
    return proved_value(cp.Problem(cp.Minimize(losses[problem.loss.name]() + omega)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(4, 16))
def test_the_default_solver_agrees_with_cvxpy(seed: int) -> None:
    problem, factors = drawn(seed)
    solver = choose_solver(problem)[0]
    solution = solver(tol=1e-7).solve(problem)
    assert solution.certificate.relative_gap <= 1e-7, f"{problem}: {solution.message}"
    assert solution.certificate.primal == pytest.approx(optimum(problem, factors), rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_ufo_mkl_solves_its_own_problem(seed: int) -> None:
    problem, _ = drawn(seed)
    assert not SOLVERS["obscure"].refusals(problem) or problem.regularizer.curve.norm_power is None
    solution = get_solver("ufo_mkl")(tol=1e-2).solve(problem)
    assert solution.certificate.relative_gap <= 1e-2


def test_the_published_constants() -> None:
    posed = ufo_mkl(0.02, 0.1, 50, 16)
    t = np.array([0.5, 2.0])
    p = 2 * np.log(50) / (2 * np.log(50) - 1)
    value = 0.02 * t.sum() + 0.05 * np.sum(t**p) ** (2 / p)
    assert posed.factor * posed.regularizer.value(t) == pytest.approx(value, rel=1e-12)
    plain = obscure(0.1, 50, 16)
    assert plain.factor * plain.regularizer.value(t) == pytest.approx(0.05 * np.sum(t**p) ** (2 / p), rel=1e-12)
    assert GroupElasticNet.published(0.02, 0.1, 2).q == 2.0
    with pytest.raises(InvalidInputError, match="at least 3"):
        obscure(0.1, 2, 16)


@pytest.mark.nightly
def test_it_has_a_name_in_estimators_and_cross_validation() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=40)
    model = MKLRegressor(penalty="group_elasticnet", l1_ratio=0.7, q=1.2, alpha=0.1, tol=1e-6).fit(X, y)
    assert model.dual_gap_ <= 1e-6
    chosen = MKLRegressorCV(penalty="group_elasticnet", l1_ratios=(0.9, 0.5), q=1.2, n_alphas=4, cv=2).fit(X, y)
    assert sorted(chosen.cv_frame()["l1_ratio"].unique()) == [0.5, 0.9]
    assert chosen.l1_ratio_ in (0.5, 0.9)
    with pytest.raises(InvalidInputError, match="penalty 'l1'"):
        MKLRegressor(penalty="group_elasticnet", l1_ratio=1.0).fit(X, y)


@pytest.mark.parametrize("seed", range(3))
def test_it_agrees_with_formulas_that_share_no_code(seed: int) -> None:
    rng = np.random.default_rng(seed)
    t, own = rng.exponential(size=5), {"l1_ratio": float(rng.uniform(0, 0.9)), "q": float(rng.uniform(1.1, 2))}
    penalty = GroupElasticNet(0.7, **own)
    assert penalty.value(t) == pytest.approx(penalty_value("group_elasticnet", own, 0.7, t), rel=1e-12)
    assert penalty.conjugate(t) == pytest.approx(penalty_conjugate("group_elasticnet", own, 0.7, t), rel=1e-12)
