"""Working sets that grow by kernels far beyond their bound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, make_regression

from manykernels import KernelBank, Solution, solve
from manykernels.grams import DenseStack, LazyStack, PackedStack, build_stack
from manykernels.grams.plan import working_nbytes
from manykernels.objective.losses import get_loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import BlockL1
from manykernels.papers import problems as paper_problems
from manykernels.solvers import InteriorPoint, Status, WorkingSet
from manykernels.solvers.gram.start import start_iteration
from manykernels.solvers.gram.working_set import WorkingCopy


@pytest.mark.parametrize("constant", [0.005, 0.05])
def test_kernels_far_beyond_their_bound_do_not_throw_the_iteration_off(constant: float) -> None:
    # Random labels: a quarter are positive, and the first fifty kernels cannot tell them apart. Entering with large
    # weights, the next ones once made the model a million times worse than a constant, for good.
    X, _ = load_breast_cancer(return_X_y=True)
    rng = np.random.default_rng(3)
    rows = rng.permutation(len(X))[:100]
    y = np.where(rng.random(100) < 0.25, 1.0, -1.0)
    bank = KernelBank.simplemkl(normalize="trace").fit(X[rows])
    problem = paper_problems.spicymkl(constant, "hinge").problem(build_stack(bank, X[rows], kind="packed"), y)
    solution = WorkingSet(tol=1e-2, max_iter=20).solve(problem)
    assert solution.status == "converged"
    constant_loss = problem.empirical_loss(problem.zero_model()[1])
    assert max(record.primal for record in solution.history) <= constant_loss * (1 + 1e-9)


def test_a_loose_tolerance_still_gives_a_sparse_model() -> None:
    """At once below 1e-2, and every kernel still has some weight: then the smallest ones are left out."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 8))
    y = np.sign(X[:, 0] * X[:, 1] + rng.normal(size=60))
    bank, prepared = KernelBank.simplemkl(normalize="trace").fit_prepare(X)
    problem = Problem(build_stack(bank, prepared), y, "hinge", BlockL1(0.002))
    solution = InteriorPoint(tol=1e-2).solve(problem)
    assert solution.certificate.relative_gap <= 1e-2
    assert solution.active.size < 0.5 * problem.n_kernels


def test_copies_of_kernels_stay_within_the_memory_budget() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 6))
    y = np.where(X[:, 0] ** 2 + X[:, 1] ** 2 + rng.normal(size=50) > 2, 1.0, -1.0)
    bank = KernelBank.per_feature(widths=[0.5, 1.0, 2.0]).fit(X)
    row = 8 * 50 * 51 // 2
    room = build_stack(bank, X, kind="lazy", memory_budget=working_nbytes(18, 50) + 3 * row)
    assert room.spare_bytes == 3 * row
    problem = Problem(room, y, "logistic", BlockL1(0.003))
    copy = WorkingCopy(problem, tol=1e-8)
    held = [type(copy.choose(np.arange(size)).stack) for size in (2, 3, 4, 2)]
    assert held == [PackedStack, PackedStack, LazyStack, PackedStack]
    found = WorkingSet(tol=1e-8).solve(problem)
    assert found.active.size > 3
    free = WorkingSet(tol=1e-8).solve(Problem(build_stack(bank, X), y, "logistic", BlockL1(0.003)))
    np.testing.assert_allclose(found.certificate.primal, free.certificate.primal, rtol=2e-8)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("factor", [0.4, 2.0])
def test_a_model_of_another_strength_spares_most_steps(loss: str, factor: float) -> None:
    rng = np.random.default_rng(5)
    points = rng.normal(size=(80, 6))
    stack = np.stack([np.exp(-((column[:, None] - column) ** 2)) for column in points.T])
    scores = 3.0 * np.sin(points[:, 0]) + points[:, 1]
    problem = Problem(stack, np.sign(scores) if loss == "logistic" else scores, get_loss(loss), BlockL1(1.0))
    strength = 0.05 * problem.strength_max()
    solver = WorkingSet(tol=1e-7)
    near = solver.solve(replace(problem, regularizer=BlockL1(strength / factor)))
    wanted = replace(problem, regularizer=BlockL1(strength))
    cold, warm = solver.solve(wanted), solver.solve(wanted, near)
    assert warm.status is Status.CONVERGED
    np.testing.assert_allclose(warm.certificate.primal, cold.certificate.primal, rtol=2e-7)
    assert warm.newton_steps <= cold.newton_steps - (loss == "logistic")


@pytest.mark.parametrize(
    ("loss", "penalty"), [("squared", "l1"), ("hinge", "l1"), ("epsilon_insensitive", "l1"), ("hinge", "simplex")]
)
def test_the_scale_of_sample_weights_costs_no_steps(loss: str, penalty: str) -> None:
    """Of a million each, as of people, kernels in use were dropped as if they were nothing: three times the steps."""
    X, y = make_regression(100, 12, n_informative=3, noise=5.0, random_state=0)
    y = np.sign(y) if loss == "hinge" else (y - y.mean()) / y.std()
    stack = build_stack(KernelBank.auto(standardize=True).fit(X), X)
    one, many = (
        solve(stack, y, loss=loss, penalty=penalty, alpha=0.02, sample_weight=np.full(100, weight))
        for weight in (1.0, 2.0**20)
    )
    assert isinstance(one, Solution)
    assert isinstance(many, Solution)
    assert many.newton_steps <= one.newton_steps + 2
    assert many.certificate.primal == pytest.approx(2.0**20 * one.certificate.primal, rel=1e-4)


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared"])
def test_a_set_of_all_kernels_is_certified_once(loss: str) -> None:
    """No kernel is outside that could be violated: certificates on the way would say nothing."""
    rng = np.random.default_rng(5)
    points = rng.normal(size=(80, 6))
    stack = np.stack([np.exp(-((column[:, None] - column) ** 2)) for column in points.T])
    y = np.sign(3.0 * np.sin(points[:, 0]) + points[:, 1])
    found = WorkingSet(tol=1e-3).solve(Problem(stack, y, get_loss(loss), BlockL1(1.0)).at_fraction(0.1))
    assert found.status is Status.CONVERGED
    assert found.n_iter == 1
    norms = [
        np.sqrt(d**2 * (found.dual_coef @ gram @ found.dual_coef))
        for d, gram in zip(found.kernel_weights, stack, strict=True)
    ]
    np.testing.assert_allclose(found.kernel_norms, norms, rtol=1e-10)


def stored(fraction: float, scale: float = 1.0) -> Problem:
    """Gaussian kernels of single columns, of which two matter."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 10))
    y = np.where(np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 - 0.5 + 0.5 * rng.logistic(size=150) > 0, 1.0, -1.0)
    squares = (X.T[:, :, None] - X.T[:, None]) ** 2
    grams = scale * np.concatenate([np.exp(-squares / (2.0 * width**2)) for width in (0.3, 0.6, 1.2, 2.4)])
    return Problem(grams, y, get_loss("hinge"), BlockL1(1.0)).at_fraction(fraction)


def test_a_weak_penalty_on_like_kernels_takes_few_certificates() -> None:
    """Fifty widths of which ten matter: kernels that left early were once taken for others when they came back."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 10))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=200)
    bank = KernelBank.per_feature(widths=np.geomspace(0.3, 3.0, 5).tolist(), standardize=True)
    fitted, prepared = bank.fit_prepare(X)
    for fraction in (0.03, 0.01):
        problem = Problem(fitted.block(prepared, prepared), y, get_loss("squared"), BlockL1(1.0))
        found = WorkingSet(tol=1e-3).solve(problem.at_fraction(fraction))
        assert found.status == "converged"
        assert found.n_iter <= 4


@pytest.mark.parametrize("gap", [0.1, 0.01, 1e-3])
def test_a_model_loses_at_least_the_kernels_that_vanish_while_steps_go_on_where_the_gap_allows(gap: float) -> None:
    problem = stored(0.1)
    iteration = start_iteration(problem, *problem.zero_model())
    while not iteration.is_within(gap):
        iteration.newton_step(gap)
    vanishing = iteration.kernels.inactive()
    primal, dual = iteration.bounds()
    without = iteration._primal(np.where(vanishing, 0.0, iteration.kernels.weights))
    _, weights, _ = iteration.model(1.001 * (without - dual) / primal)
    assert 0 < np.count_nonzero(vanishing) <= np.count_nonzero(weights == 0.0)


@pytest.mark.parametrize(
    ("fraction", "scale", "tol", "dtype"),
    [
        (0.1, 1.0, 1e-3, np.float32),
        (0.1, 1e12, 1e-3, np.float32),  # the unit of the kernels decides nothing
        (0.1, 1.0, 1e-7, np.float64),
        (1e-4, 1.0, 1e-3, np.float64),  # whose weights multiply rounding
        (0.1, 1e60, 1e-3, np.float64),  # beyond the range of single precision
    ],
)
def test_copies_are_in_single_precision_where_rounding_is_predicted_to_matter_little(
    fraction: float, scale: float, tol: float, dtype: type
) -> None:
    problem = stored(fraction, scale)
    assert WorkingCopy(problem, tol).choose(np.arange(20)).stack.dtype == dtype
    assert WorkingSet(tol=tol).solve(problem).status == "converged"


def test_what_outgrows_its_buffer_is_packed_where_no_limit_is_set() -> None:
    """Kernels in memory once went on as copies of full matrices in double precision."""
    points = np.random.default_rng(0).normal(size=(20, 30, 2))
    problem = Problem(DenseStack(points @ points.transpose(0, 2, 1)), np.arange(30.0), "squared", BlockL1(1.0))
    copy = WorkingCopy(problem, tol=1e-3)
    assert all(isinstance(copy.choose(np.arange(size)).stack, PackedStack) for size in (12, 20))
