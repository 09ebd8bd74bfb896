"""The one-step Newton method beyond the contract: its model, its gap, what it refuses and what it reads."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics.pairwise import rbf_kernel

from manykernels.exceptions import IncompatibleError
from manykernels.objective.losses import LOSSES, get_loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import get_regularizer
from manykernels.solvers import InteriorPoint, SmoothDual, SpicyMKL, choose_solver, configured_solver
from manykernels.solvers.gram.start import best_scale, interior_point
from manykernels.solvers.gram.tracked_kernels import TrackedKernels
from manykernels.solvers.solution import Status
from manykernels.testing.problems import random_problem
from manykernels.testing.solver import build_problem

Array = NDArray[np.float64]
REGULARIZERS = {"elasticnet": {"l1_ratio": 0.5}, "lq": {"q": 1.5}, "ridge": {}}


def a_problem(loss: str, regularizer: str, strength: float, **parameters: float) -> Problem:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 5))
    squares = [(column[:, None] - column) ** 2 for column in X.T]
    kernels = np.stack([np.exp(-square / (2 * width**2)) for square in squares for width in np.geomspace(0.2, 5, 8)])
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=60)
    target = y if get_loss(loss).task == "regression" else np.where(y > 0, 1.0, -1.0)
    return Problem(kernels / 60, target, get_loss(loss), get_regularizer(regularizer, strength, **parameters))


def dual_norms(problem: Problem, rho: Array) -> Array:
    return np.sqrt(np.einsum("i,mij,j->m", rho, problem.stack.block(), rho))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_the_optimum_is_that_of_the_other_solvers(loss: str, regularizer: str) -> None:
    problem = build_problem(random_problem(12, loss=loss, regularizer=regularizer, weighted=True))
    solvers = (SmoothDual(tol=1e-9), InteriorPoint(tol=1e-9), SpicyMKL(tol=1e-9))
    primals = [solver.solve(problem).certificate.primal for solver in solvers]
    assert primals[0] == pytest.approx(primals[1], rel=1e-8)
    assert primals[0] == pytest.approx(primals[2], rel=1e-8)


@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_weights_follow_from_rho_alone(regularizer: str) -> None:
    """``d = Omega*'(u) / u`` in closed form, at any stop; so the gap is that of the loss."""
    problem = a_problem("hinge", regularizer, 0.05, **REGULARIZERS[regularizer])
    solution = SmoothDual(tol=1e-3).solve(problem)
    u = dual_norms(problem, solution.dual_coef)
    expected = {
        "elasticnet": np.maximum(u - 0.025, 0.0) / (0.025 * u),
        "lq": (u / 0.05) ** 2 / u,
        "ridge": np.full(u.size, 1 / 0.05),
    }[regularizer]
    np.testing.assert_allclose(solution.kernel_weights, expected, rtol=1e-6, atol=1e-10)
    assert abs(solution.certificate.kkt.complementarity) < 1e-10
    assert solution.certificate.kkt.stationarity == pytest.approx(solution.certificate.relative_gap, abs=1e-10)


@pytest.mark.parametrize(("name", "parameters"), [("l1", {}), ("elasticnet", {"l1_ratio": 1.0}), ("simplex", {})])
def test_conjugates_that_bend_sharply_are_refused_with_names(name: str, parameters: dict[str, float]) -> None:
    with pytest.raises(IncompatibleError, match=r"'smooth_dual' cannot solve .*Able: working_set"):
        configured_solver("smooth_dual", a_problem("logistic", name, 0.1, **parameters))


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_few_steps_are_enough(loss: str) -> None:
    problem = a_problem(loss, "elasticnet", 0.05, l1_ratio=0.5)
    solution = SmoothDual(tol=1e-8).solve(problem)
    assert solution.status is Status.CONVERGED
    assert solution.newton_steps == solution.n_iter <= 15


@pytest.mark.parametrize("l1_ratio", [0.9, 0.99, 0.999])
def test_sharp_bends_take_more_steps_but_arrive(l1_ratio: float) -> None:
    solution = SmoothDual(tol=1e-8).solve(a_problem("logistic", "elasticnet", 0.05, l1_ratio=l1_ratio))
    assert solution.status is Status.CONVERGED


@pytest.mark.parametrize("strength", [0.01, 0.05, 0.4])
def test_it_takes_fewer_steps_and_passes_than_weights_as_variables(strength: float) -> None:
    problem = a_problem("logistic", "elasticnet", strength, l1_ratio=0.9)
    solution, other = SmoothDual(tol=1e-8).solve(problem), InteriorPoint(tol=1e-8).solve(problem)
    assert 0 < np.count_nonzero(solution.kernel_weights) < problem.n_kernels
    assert solution.newton_steps < other.newton_steps
    assert solution.passes < 0.8 * other.passes


@pytest.mark.parametrize(("seed", "strength"), [(2, 1e-4), (2, 1e-3), (17, 1e-4), (21, 1e-4)])
def test_scores_of_their_own_do_not_lead_logistic_steps_away(seed: int, strength: float) -> None:
    """Scores that had drifted from the coefficients once made every step short, a hundred of them and more."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3))
    y = np.sign(X[:, 0] + 0.3 * rng.normal(size=60))
    kernels = np.stack([rbf_kernel(X[:, [j]], gamma=gamma) for j in range(3) for gamma in (0.01, 0.1, 1.0, 10.0)]) / 60
    problem = Problem(kernels, y, get_loss("logistic"), get_regularizer("elasticnet", strength))
    solution = SmoothDual(tol=1e-6, max_iter=15).solve(problem)
    assert solution.status == "converged"


def test_a_step_cut_by_the_line_search_does_not_lead_logistic_steps_away() -> None:
    """Scores and coefficients that both took a part of a step no longer belonged together: 102 steps instead of 5."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 20))
    y = np.sign(X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.5 * rng.normal(size=200))
    kernels = np.empty((30, 200, 200))
    for m in range(30):
        columns = rng.random(20) < 0.2
        columns[rng.integers(20)] = True
        kernels[m] = rbf_kernel(X[:, columns], gamma=0.5 / (5 * rng.chisquare(1) + 0.1) ** 2)
    problem = Problem(kernels, y, get_loss("logistic"), get_regularizer("elasticnet", 0.2, l1_ratio=0.99))
    solution = SmoothDual(tol=1e-6).solve(problem)
    assert solution.status == "converged"
    assert solution.newton_steps <= 15


@pytest.mark.parametrize("loss", ["squared", "squared_hinge", "logistic", "hinge"])
def test_the_start_is_the_best_multiple_where_norms_have_high_powers(loss: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    kernels = np.stack([rbf_kernel(X[:, [j]], gamma=gamma) for j in range(5) for gamma in (0.1, 1.0)])
    problem = Problem(kernels, np.sign(X[:, 0]), get_loss(loss), get_regularizer("lq", 0.02, q=1.1))
    rho = interior_point(problem, problem.zero_model()[0])
    norms = problem.dual_norms(rho)
    value = best_scale(problem, rho, norms)[1]
    scales = np.geomspace(1e-9, 1.0, 2000)
    grid = [-problem.conjugate_loss(c * rho) - problem.regularizer.conjugate(c * norms) for c in scales]
    assert value >= max(grid) - 0.01 * abs(max(grid))


def test_numbers_out_of_range_end_as_a_numerical_error_and_are_rescued(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = a_problem("logistic", "elasticnet", 0.05, l1_ratio=0.5)
    hessian = TrackedKernels.hessian

    def overflowing(kernels: TrackedKernels) -> Array:
        kernels._shares = np.full_like(kernels._shares, np.inf)
        return hessian(kernels)

    monkeypatch.setattr(TrackedKernels, "hessian", overflowing)
    solution = SmoothDual(tol=1e-6).solve(problem)
    assert solution.status == "converged"
    assert "'interior_point' went on from its best model" in solution.message


def test_a_block_q_norm_beside_kernels_without_a_penalty_goes_to_another_solver() -> None:
    K = np.stack([np.diag([1.0, 2.0, 3.0, 4.0]), np.ones((4, 4)), np.eye(4)])
    for kind, taken in (("ridge", True), ("lq", False)):
        penalty = get_regularizer({0: None, "*": get_regularizer(kind, 1.0)}, 0.1)
        problem = Problem(K, [1.0, -1.0, 1.0, -2.0], get_loss("squared"), penalty)
        assert (choose_solver(problem)[0] is SmoothDual) is taken
