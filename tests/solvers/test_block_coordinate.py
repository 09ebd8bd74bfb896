"""Block coordinate descent beyond the contract: weight sets, the published iterations, acceleration, extremes."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from itertools import islice, pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.svm import SVC
from tests.support.conic import conic_optimum

from manykernels import solve
from manykernels.exceptions import ConvergenceWarning, InvalidInputError
from manykernels.objective import survival_target
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import get_regularizer
from manykernels.solvers import ALIASES, BlockCoordinate, Status, WorkingSet, get_solver
from manykernels.solvers.gram.block_coordinate import Extrapolation
from manykernels.testing.problems import SmallProblem, random_problem, small_problems, strength_of_zero_model
from manykernels.testing.solver import build_problem, check_certificate

Array = NDArray[np.float64]
WEIGHT_SETS = ("simplex", "lp_ball", "elasticnet_ball")


@cache
def balls() -> tuple[SmallProblem, ...]:
    return tuple(small_problems(36, regularizers=("lp_ball", "elasticnet_ball")))


@pytest.mark.sampled(18)
@pytest.mark.parametrize("index", range(36))
def test_weight_sets_against_the_conic_oracle(index: int) -> None:
    small = balls()[index]
    solution = BlockCoordinate(tol=1e-8).solve(build_problem(small))
    assert solution.status is Status.CONVERGED
    check_certificate(small, solution)
    assert solution.certificate.primal == pytest.approx(conic_optimum(small).primal, rel=1e-6)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("half", range(2))
@pytest.mark.parametrize("regularizer", [*WEIGHT_SETS, "l1", "elasticnet", "lq", "ridge"])
def test_every_random_problem_reaches_one_millionth(regularizer: str, half: int) -> None:
    for small in islice(small_problems(24, regularizers=(regularizer,)), half, None, 2):
        solution = BlockCoordinate(tol=1e-6).solve(build_problem(small))
        assert solution.status is Status.CONVERGED, small.description


@pytest.fixture
def labeled(rng) -> tuple[Array, Array]:
    X = rng.normal(size=(50, 6))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=50) > 0, 1.0, -1.0)
    return np.stack([np.exp(-((X[:, None, j] - X[:, j]) ** 2)) for j in range(6)]), y


def reference_weights(name: str, theta: Array, u: Array) -> Array:
    """Return the closed forms of the literature, or Citi's Algorithm 2 (13) for eta = 0.5, as one reads them."""
    beta = theta**2 * u
    if name == "simplex":
        return np.sqrt(beta) / np.sqrt(beta).sum()
    if name == "lp_ball":
        return beta ** (1 / 3) / np.sum(beta ** (2 / 3)) ** (1 / 2)
    x, eta = theta, 0.5
    for _ in range(300):
        root = np.sqrt(eta**2 / 4 * x.sum() ** 2 + (1 - eta) * np.sum(x**2))
        x = np.sqrt(beta / (eta / 2 + ((eta / 2) ** 2 * x.sum() + (1 - eta) * x) / root))
    return x / (eta / 2 * x.sum() + np.sqrt(eta**2 / 4 * x.sum() ** 2 + (1 - eta) * np.sum(x**2)))


@pytest.mark.parametrize("name", WEIGHT_SETS)
def test_plain_iterations_are_those_of_the_papers(name: str, labeled: tuple[Array, Array]) -> None:
    """Five rounds of SVC and closed-form weights, from equal ones, give the weights of the solver without frills."""
    kernels, y = labeled
    constant = 5.0
    theta = reference_weights(name, np.ones(6), np.ones(6))
    for _ in range(4):
        gram = np.einsum("m,mij->ij", theta, kernels)
        svc = SVC(C=constant, kernel="precomputed", tol=1e-10).fit(gram, y)
        rho = np.zeros(y.size)
        rho[svc.support_] = svc.dual_coef_[0]
        theta = reference_weights(name, theta, np.einsum("i,mij,j->m", rho, kernels, rho))
    problem = Problem(kernels, y, "hinge", get_regularizer(name, 1 / constant))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solution = BlockCoordinate(tol=1e-12, max_iter=5, accelerate=False).solve(problem)
    np.testing.assert_allclose(solution.kernel_weights, constant * theta, rtol=1e-6)


@pytest.mark.parametrize("eta", [0.0, 0.1, 0.5, 1.0])
def test_citis_own_weight_update_finds_the_same_model(eta: float, labeled: tuple[Array, Array]) -> None:
    problem = Problem(*labeled, "hinge", get_regularizer("elasticnet_ball", 0.2, eta=eta))
    exact = BlockCoordinate(tol=1e-9).solve(problem)
    published = BlockCoordinate(tol=1e-9, weight_update="wsr").solve(problem)
    assert published.status is Status.CONVERGED
    assert published.certificate.primal == pytest.approx(exact.certificate.primal, rel=1e-8)


@pytest.mark.parametrize(
    ("name", "params", "same", "same_params"),
    [
        ("elasticnet_ball", {"eta": 1.0}, "simplex", {}),
        ("lp_ball", {"p": 1.0}, "simplex", {}),
        ("elasticnet_ball", {"eta": 0.0}, "lp_ball", {"p": 2.0}),
        ("elasticnet", {"l1_ratio": 0.0}, "ridge", {}),
        ("elasticnet", {"l1_ratio": 1.0}, "l1", {}),
    ],
)
def test_limits_of_the_families_agree(
    name: str, params: dict[str, float], same: str, same_params: dict[str, float], labeled: tuple[Array, Array]
) -> None:
    found, expected = (
        BlockCoordinate(tol=1e-8).solve(Problem(*labeled, "logistic", get_regularizer(kind, 0.5, **arguments)))
        for kind, arguments in ((name, params), (same, same_params))
    )
    assert found.status is Status.CONVERGED
    assert found.certificate.primal == pytest.approx(expected.certificate.primal, rel=2e-8)


def test_the_objective_never_rises_by_more_than_its_share(labeled: tuple[Array, Array]) -> None:
    """Among accepted points; without acceleration it never rises at all."""
    for accelerate, room in ((True, 1e-3), (False, 0.0)):
        problem = Problem(*labeled, "logistic", get_regularizer("simplex", 0.2))
        solver = BlockCoordinate(tol=1e-12, accelerate=accelerate)
        state = solver.initialize(problem, (*problem.zero_model()[:1], np.zeros(6), 0.0))
        points = []
        for _ in range(25):
            solver.step(problem, state)
            assert state.point is not None
            points.append((state.point.primal, state.point.relative_gap))
        for (before, gap), (after, _) in pairwise(points):
            assert after <= before * (1 + max(room * gap, 1e-12))
        assert points[-1][0] < points[0][0]


@pytest.mark.nightly
def test_acceleration_pays_on_the_simplex() -> None:
    small = random_problem(1035, loss="huber", regularizer="simplex")
    accelerated = BlockCoordinate(tol=1e-6).solve(build_problem(small))
    with pytest.warns(ConvergenceWarning, match="above tol"):
        plain = BlockCoordinate(tol=1e-6, accelerate=False, max_iter=5 * accelerated.n_iter).solve(build_problem(small))
    assert accelerated.status is Status.CONVERGED
    assert plain.certificate.relative_gap > 1e-6


@pytest.mark.parametrize("regularizer", ["simplex", "l1"])
def test_a_kernel_without_weight_in_the_warm_start_comes_back(regularizer: str, labeled: tuple[Array, Array]) -> None:
    problem = Problem(*labeled, "hinge", get_regularizer(regularizer, 0.2))
    best = BlockCoordinate(tol=1e-7).solve(problem)
    wrong = np.zeros(6)
    wrong[best.kernel_weights.argmin()] = 1.0
    again = BlockCoordinate(tol=1e-7).solve(problem, replace(best, kernel_weights=wrong))
    assert again.status is Status.CONVERGED
    assert again.certificate.primal == pytest.approx(best.certificate.primal, rel=2e-7)


def test_sparse_regularizers_end_with_exact_zeros(rng, labeled: tuple[Array, Array]) -> None:
    kernels, y = labeled
    noise = rng.normal(size=(20, y.size, 2))
    many = np.concatenate([kernels, noise @ noise.transpose(0, 2, 1)])
    problem = Problem(many, y, "hinge", get_regularizer("simplex", 0.05))
    found, reference = BlockCoordinate(tol=1e-7).solve(problem), WorkingSet(tol=1e-9).solve(problem)
    assert 0 < np.count_nonzero(found.kernel_weights) < 26
    assert found.kernel_weights.sum() == pytest.approx(reference.kernel_weights.sum(), rel=1e-3)
    np.testing.assert_allclose(found.kernel_weights, reference.kernel_weights, atol=2e-2 * found.kernel_weights.max())


@pytest.mark.parametrize("name", WEIGHT_SETS)
def test_zero_kernels_get_no_weight(name: str, labeled: tuple[Array, Array]) -> None:
    kernels, y = labeled
    padded = np.concatenate([np.zeros((1, *kernels.shape[1:])), kernels])
    problem = Problem(padded, y, "squared_hinge", get_regularizer(name, 0.3))
    solution = BlockCoordinate(tol=1e-8).solve(problem)
    assert solution.status is Status.CONVERGED
    assert solution.kernel_weights[0] == 0
    nothing = Problem(np.zeros_like(kernels), y, "hinge", get_regularizer(name, 0.3))
    assert BlockCoordinate().solve(nothing).status is Status.CONVERGED


def test_names_of_the_literature() -> None:
    assert {get_solver(alias) for alias in ALIASES} == {BlockCoordinate}
    assert set(ALIASES) == {"citi", "lpmkl", "group_lasso_mkl"}


def test_an_unknown_update_is_refused(labeled: tuple[Array, Array]) -> None:
    problem = Problem(*labeled, "hinge", get_regularizer("simplex", 0.2))
    with pytest.raises(InvalidInputError, match="weight_update must be one of"):
        BlockCoordinate(weight_update="magic").solve(problem)


def test_extrapolation_solves_a_linear_iteration_in_as_many_steps_as_it_has_rates() -> None:
    """On square roots: ``x <- goal + rates (x - goal)`` with three rates is solved exactly by four evaluations."""
    goal, rates = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.9, 0.5, 0.5, 0.1])
    extrapolation, roots = Extrapolation(), np.full(4, 2.5)
    assert extrapolation.proposal(np.ones(4)) is None
    for _ in range(5):
        mapped = goal + rates * (roots - goal)
        extrapolation.record(roots**2, mapped**2)
        proposal = extrapolation.proposal(np.ones(4))
        roots = mapped if proposal is None else np.sqrt(proposal)
    np.testing.assert_allclose(roots, goal, rtol=1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("fraction", [0.9, 0.99])
@pytest.mark.parametrize("order", range(3))
@pytest.mark.parametrize(("seed", "loss"), [(0, "logistic"), (20, "huber")])
def test_just_below_the_zero_model_the_order_of_sums_does_not_matter(
    seed: int, loss: str, order: int, fraction: float
) -> None:
    """All weights are next to nothing there, and kernels that extrapolation took too far crawl back."""
    small = random_problem(seed, loss=loss, regularizer="l1")
    top = strength_of_zero_model(small)
    assert top is not None
    rng = np.random.default_rng(order)
    samples, kernels = rng.permutation(small.y.size), rng.permutation(len(small.kernels))
    shuffled = small.kernels[kernels][:, samples][:, :, samples]
    turned = replace(small, kernels=shuffled, y=small.y[samples], strength=fraction * top)
    solution = BlockCoordinate(tol=1e-8).solve(build_problem(turned))
    assert solution.certificate.relative_gap <= 1e-8
    assert solution.kernel_weights.any()
    assert solution.n_iter < 300


@pytest.mark.sampled(3)
@pytest.mark.parametrize("strength", [6.0, 0.6, 0.06])
@pytest.mark.parametrize("penalty", ["group_elasticnet", "l1"])
def test_a_loss_that_couples_samples(strength, penalty) -> None:
    """At the smallest strength Newton's first steps leave float64, and are shortened."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    kernels = np.exp(-((X[:, None] - X) ** 2)).transpose(2, 0, 1)
    time = rng.exponential(size=120) * np.exp(-X[:, 0] - np.sin(2 * X[:, 1]))
    target = survival_target(rng.random(120) < 0.7, time)
    settings = {"loss": "cox", "penalty": penalty, "strength": strength, "tol": 1e-6}
    found = solve(kernels, target, solver="block_coordinate", **settings)
    assert found.status == "converged"
    assert found.certificate.relative_gap <= 1e-6
    if penalty == "l1":
        known = solve(kernels, target, **settings)
        assert known.solver == "working_set"
        assert found.certificate.primal == pytest.approx(known.certificate.primal, rel=2e-6)
