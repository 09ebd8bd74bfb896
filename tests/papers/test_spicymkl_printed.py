"""SpicyMKL as printed: formulas against differences, update equations, and optima of the library's solver."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from manykernels.exceptions import IncompatibleError
from manykernels.objective import Problem, get_loss, get_regularizer
from manykernels.papers.printed import spicymkl
from manykernels.papers.printed.spicymkl import solve_as_printed
from manykernels.solvers import WorkingSet

LOSSES = {"logistic": {}, "squared": {}, "hinge": {}, "epsilon_insensitive": {"epsilon": 0.2}}


def problem_of(loss: str, penalty: str = "l1", strength: float = 0.7, **kwargs: object) -> Problem:
    rng = np.random.default_rng(1)
    factors = rng.standard_normal((5, 20, 3))
    kernels = factors @ factors.transpose(0, 2, 1)
    y = factors[0, :, 0] + 0.5 * factors[1, :, 1] + 0.3 * rng.standard_normal(20)
    made = get_loss(loss, **LOSSES[loss])
    target = np.sign(y) if made.task == "classification" else y
    return Problem(kernels, target, made, get_regularizer(penalty, strength), **kwargs)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("penalty", ["l1", "elasticnet"])
def test_it_ends_at_the_optimum_of_the_library(loss: str, penalty: str) -> None:
    problem = problem_of(loss, penalty)
    run = solve_as_printed(problem, tol=1e-6)
    best = WorkingSet(tol=1e-8).solve(problem).certificate.primal
    assert run.converged
    assert run.history["primal"].iloc[-1] == pytest.approx(best, rel=2e-6)
    assert (run.history["dual"] <= best * (1 + 1e-8)).all()
    norms = np.sqrt(np.einsum("mi,mij,mj->m", run.coefficients, np.stack([*map_kernels(problem)]), run.coefficients))
    np.testing.assert_allclose(norms, run.kernel_norms, atol=1e-7)


def map_kernels(problem: Problem) -> list[np.ndarray]:
    return [problem.stack.combine(unit) for unit in np.eye(problem.n_kernels)]


@pytest.mark.parametrize("loss", LOSSES)
def test_gradient_and_hessian_are_those_of_the_inner_objective(loss: str) -> None:
    state = spicymkl._State(problem_of(loss, "elasticnet"))
    state.minimize(2.0)
    state.update()
    state.gamma = 4.0
    rng = np.random.default_rng(0)
    n = len(state.rho)
    point = state.rho + (0.01 if loss == "logistic" else 0.3) * rng.standard_normal(n)
    if state.kink:
        point = np.r_[point, 0.1 * rng.standard_normal(n)]
    _, gradient, hessian = state._inner(point)
    np.testing.assert_allclose(approx_fprime(point, state._value, 1e-7), gradient, atol=2e-4)
    numeric = np.stack(
        [(state._inner(point + h)[1] - state._inner(point - h)[1]) / 2e-6 for h in 1e-6 * np.eye(len(point))]
    )
    np.testing.assert_allclose(numeric, hessian, atol=1e-3 * np.abs(hessian).max())


def test_one_iteration_updates_by_the_printed_equations() -> None:
    problem, gamma, constant = problem_of("hinge"), 2.0, 0.7
    state = spicymkl._State(problem)
    state.minimize(gamma)
    rho = state.rho
    state.update()
    kernels = map_kernels(problem)
    for m, gram in enumerate(kernels):
        v = gamma * rho
        size = np.sqrt(v @ gram @ v)
        np.testing.assert_allclose(state.alpha[m], max(0.0, 1 - gamma * constant / size) * v, atol=1e-12)  # (28)
    assert state.b == pytest.approx(gamma * rho.sum())  # (29)
    above, below = np.where(problem.y > 0, rho, -rho) - 1, -np.where(problem.y > 0, rho, -rho)
    told = np.where(problem.y > 0, state.xi[0], state.xi[1]), np.where(problem.y > 0, state.xi[1], state.xi[0])
    np.testing.assert_allclose(told[0], np.maximum(0, gamma * above), atol=1e-12)  # (30)
    np.testing.assert_allclose(told[1], np.maximum(0, gamma * below), atol=1e-12)  # (31)


def test_a_stop_at_the_printed_gap_takes_few_iterations() -> None:
    run = solve_as_printed(problem_of("logistic"))
    assert run.converged
    assert run.history["gamma"].tolist() == [2.0**t for t in range(1, len(run.history) + 1)]
    assert not solve_as_printed(problem_of("logistic"), tol=1e-12, max_iter=2).converged


@pytest.mark.parametrize(
    ("loss", "penalty", "given", "match"),
    [
        ("logistic", "simplex", {}, "not a smooth function of each norm"),
        ("logistic", "l1", {"fit_intercept": False}, "printed problem has an intercept"),
    ],
)
def test_other_problems_are_refused(loss: str, penalty: str, given: dict[str, bool], match: str) -> None:
    with pytest.raises(IncompatibleError, match=match):
        solve_as_printed(problem_of(loss, penalty, **given))


def test_other_losses_are_refused() -> None:
    problem = Problem(np.eye(3)[None], [1.0, 2.0, 3.0], "huber", get_regularizer("l1", 0.1))
    with pytest.raises(IncompatibleError, match="got 'huber'"):
        solve_as_printed(problem)
