"""SpicyMKL beyond the contract: the paper's weights and iteration counts, certified models, large steps."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.typing import NDArray

from manykernels.datasets import make_ringnorm
from manykernels.exceptions import ConvergenceWarning, InvalidInputError
from manykernels.grams import as_stack
from manykernels.objective.losses import LOSSES, get_loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import get_regularizer
from manykernels.solvers import InteriorPoint, SpicyMKL
from manykernels.solvers.solution import Solution, Status
from manykernels.testing.problems import random_problem
from manykernels.testing.solver import build_problem, check_certificate

Array = NDArray[np.float64]
REGULARIZERS = {"l1": {}, "elasticnet": {"l1_ratio": 0.4}, "lq": {"q": 1.5}, "ridge": {}}


@pytest.fixture(scope="module")
def ringnorm() -> tuple[Array, Array]:
    """Unit-trace Gaussian kernels on random subsets of features, the design of the paper's section 6."""
    X, y = make_ringnorm(120, random_state=0)
    rng = np.random.default_rng(0)
    kernels = []
    for _ in range(150):
        Z = X[:, rng.random(X.shape[1]) < 0.5]
        squares = ((Z[:, None] - Z) ** 2).sum(-1)
        kernels.append(np.exp(-squares / (2 * (5 * rng.chisquare(2) + 0.1) ** 2)) / len(X))
    return np.stack(kernels), np.where(y == y.max(), 1.0, -1.0)


def pose(kernels: Array, y: Array, loss: str, regularizer: str, strength: float) -> Problem:
    penalty = get_regularizer(regularizer, strength, **REGULARIZERS[regularizer])
    return Problem(as_stack(kernels, psd="ignore"), y, get_loss(loss), penalty)


def block_norms(kernels: Array, solution: Solution) -> Array:
    """``||f_m|| = d_m ||rho||_m`` in NumPy."""
    return solution.kernel_weights * np.sqrt(np.einsum("i,mij,j->m", solution.dual_coef, kernels, solution.dual_coef))


@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_weights_are_those_of_table_3(regularizer: str, ringnorm: tuple[Array, Array]) -> None:
    """``||f||``, ``||f||/(1 - lam + lam ||f||)``, ``||f||^{2-q}`` and 1, each divided by C."""
    kernels, y = ringnorm[0][:20], ringnorm[1]
    solution = SpicyMKL(tol=1e-11).solve(pose(kernels, y, "logistic", regularizer, 0.05))
    t = block_norms(kernels, solution)
    expected = {"l1": t, "elasticnet": t / (0.4 + 0.6 * t), "lq": t**0.5, "ridge": np.ones(20)}[regularizer] / 0.05
    assert solution.status is Status.CONVERGED
    assert np.count_nonzero(t) > 3
    np.testing.assert_allclose(solution.kernel_weights, expected, rtol=2e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_the_optimum_is_that_of_the_interior_point_solver(loss: str, regularizer: str) -> None:
    small = random_problem(11, loss=loss, regularizer=regularizer, weighted=True)
    problem = build_problem(small)
    solutions = [solver.solve(problem) for solver in (SpicyMKL(tol=1e-9), InteriorPoint(tol=1e-9))]
    primals = [solution.certificate.primal for solution in solutions]
    assert primals[0] == pytest.approx(primals[1], rel=1e-8)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared"])
@pytest.mark.parametrize("strength", [0.05, 0.5])
def test_outer_iterations_are_as_few_as_the_papers(loss: str, strength: float, ringnorm: tuple[Array, Array]) -> None:
    """Table 4 has 2 to 38 at gap 0.01; with the paper's doubling of gamma, and with the default."""
    problem = pose(*ringnorm, loss, "l1", strength)
    doubling, default = SpicyMKL(tol=0.01, growth=2.0).solve(problem), SpicyMKL(tol=0.01).solve(problem)
    assert 2 <= default.n_iter <= doubling.n_iter <= 38
    assert default.newton_steps <= 40


def test_convergence_of_the_outer_iteration_is_superlinear(ringnorm: tuple[Array, Array]) -> None:
    solution = SpicyMKL(tol=1e-10).solve(pose(*ringnorm, "logistic", "l1", 0.05))
    gaps = solution.frame()["relative_gap"].to_numpy()[1:]
    factors = gaps[1:] / gaps[:-1]
    assert factors[-1] < 0.05
    assert np.median(factors[-3:]) < np.median(factors[:3])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("max_iter", [1, 2, 3])
def test_the_returned_model_is_the_certified_one_after_any_stop(max_iter: int) -> None:
    for seed, loss in enumerate(["logistic", "hinge", "squared_hinge", "squared", "epsilon_insensitive", "huber"]):
        for regularizer in REGULARIZERS:
            small = random_problem(seed, loss=loss, regularizer=regularizer, weighted=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                solution = SpicyMKL(tol=1e-13, max_iter=max_iter).solve(build_problem(small))
            assert solution.n_iter <= max_iter
            check_certificate(small, solution)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("growth", [1.5, 10.0, 1e4])
def test_no_schedule_overflows(loss: str, growth: float, ringnorm: tuple[Array, Array]) -> None:
    problem = pose(ringnorm[0][:30], ringnorm[1], loss, "l1", 0.02)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        solution = SpicyMKL(tol=1e-7, growth=growth).solve(problem)
    assert solution.status is Status.CONVERGED


def test_distant_kernels_are_not_read_in_every_step(ringnorm: tuple[Array, Array]) -> None:
    """Two readings a step and one an iteration would be the cost without the proof that kernels are inactive."""
    solution = SpicyMKL(tol=1e-8).solve(pose(*ringnorm, "logistic", "l1", 0.5))
    steps, iterations = solution.newton_steps, solution.n_iter
    late = solution.frame().iloc[-1] - solution.frame().iloc[-4]
    assert solution.passes < 1.2 * steps + iterations
    assert late["passes"] < 0.3 * late["newton_steps"] + 1.5 * late["iteration"]


def test_the_zero_kernel_and_unit_changes_do_not_matter(ringnorm: tuple[Array, Array]) -> None:
    kernels, y = ringnorm[0][:15], ringnorm[1]
    zeros = np.concatenate([kernels, np.zeros((2, len(y), len(y)))])
    for unit in (1e-12, 1.0, 1e12):
        solution = SpicyMKL(tol=1e-8).solve(pose(unit * zeros, y, "hinge", "l1", 0.05 * np.sqrt(unit)))
        assert solution.status is Status.CONVERGED
        assert not solution.kernel_weights[15:].any()
        reference = InteriorPoint(tol=1e-9).solve(pose(kernels, y, "hinge", "l1", 0.05))
        assert solution.certificate.primal == pytest.approx(reference.certificate.primal, rel=3e-8)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"growth": 1.0}, "growth must be above 1"), ({"accuracy": 0.0}, "accuracy"), ({"accuracy": 2.0}, "at most 1")],
)
def test_parameters_that_make_no_sense_are_refused(parameters: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        SpicyMKL(**parameters)
