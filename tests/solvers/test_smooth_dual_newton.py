"""The parts of the dual Newton iteration: derivatives, the kernels it follows, and what a step may read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import LinAlgError
from tests.support.nasty import nasty_problem

from manykernels.grams.base import triangle_size
from manykernels.objective.losses import LOSSES, get_loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Regularizer, get_regularizer
from manykernels.solvers import SOLVERS
from manykernels.solvers.gram.newton_system import NewtonSystem
from manykernels.solvers.gram.sample_variables import start_samples
from manykernels.solvers.gram.smooth_dual import DualNewton
from manykernels.solvers.gram.start import interior_point
from manykernels.solvers.gram.tracked_kernels import BlockFunction, MoreauEnvelope, SmoothConjugate, TrackedKernels
from manykernels.testing.solver import build_problem

Array = NDArray[np.float64]
REGULARIZERS = {"l1": {}, "elasticnet": {"l1_ratio": 0.3}, "lq": {"q": 1.4}, "ridge": {}}
FUNCTIONS = [("envelope", name) for name in REGULARIZERS] + [("conjugate", n) for n in REGULARIZERS if n != "l1"]


def gaussian_problem(
    loss: str = "logistic", regularizer: str = "l1", strength: float = 0.5, n_kernels: int = 6
) -> Problem:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(25, 3))
    squares = ((X[:, None] - X) ** 2).sum(-1)
    kernels = np.stack([np.exp(-squares / (2 * width**2)) for width in np.geomspace(0.2, 5.0, n_kernels)])
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=25)
    amounts = {"real": y, "non-negative": np.round(np.exp(y)), "positive": np.exp(y)}[get_loss(loss).support]
    target = amounts if get_loss(loss).task == "regression" else np.where(y > 0, 1.0, -1.0)
    penalty = get_regularizer(regularizer, strength, **REGULARIZERS[regularizer])
    weights = {"sample_weight": rng.uniform(0.5, 2.0, 25), "kernel_penalties": rng.uniform(0.5, 2.0, n_kernels)}
    return Problem(kernels, target, get_loss(loss), penalty, **weights)


def function_of(kind: str, regularizer: Regularizer) -> BlockFunction:
    return MoreauEnvelope(regularizer, 0.7) if kind == "envelope" else SmoothConjugate(regularizer)


def blocks_at(problem: Problem, function: BlockFunction, rho: Array) -> TrackedKernels:
    """Blocks with nonzero anchors where the function has any, after one update and a move."""
    kernels = TrackedKernels(problem, function, 0.5 * rho, problem.dual_norms(0.5 * rho))
    if function.gamma != 1.0:
        kernels.update(function)
    kernels.set_direction(0.5 * rho)
    kernels.move(1.0)
    return kernels


def differences(function: Any, at: Array, width: float = 1e-5) -> Array:
    """Central differences of a function of a vector, one row a coordinate."""
    units = width * np.eye(at.size)
    return np.stack([(function(at + unit) - function(at - unit)) / (2 * width) for unit in units])


@pytest.mark.parametrize(("kind", "name"), FUNCTIONS)
def test_scores_and_hessian_are_the_derivatives_of_the_value(kind: str, name: str) -> None:
    problem = gaussian_problem(regularizer=name)
    function = function_of(kind, problem.regularizer)
    rho = np.random.default_rng(1).normal(size=25)

    def moved(target: Array) -> TrackedKernels:
        kernels = blocks_at(problem, function, rho)
        kernels.set_direction(target - kernels.rho)
        kernels.move(1.0)
        return kernels

    kernels = moved(rho)
    assert np.count_nonzero(kernels.block_norms) > 2
    np.testing.assert_allclose(kernels.scores(), differences(lambda r: moved(r).value(), rho), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(kernels.hessian(), differences(lambda r: moved(r).scores(), rho), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", REGULARIZERS)
def test_the_envelope_is_the_smallest_sum_of_conjugate_and_squared_distance(name: str) -> None:
    """(47): ``min_v Omega*(v) + (v - x/gamma)^2 gamma / 2``, by search over a fine grid."""
    regularizer = get_regularizer(name, 0.8, **REGULARIZERS[name])
    envelope = MoreauEnvelope(regularizer, 0.7)
    grid = np.linspace(0.0, 6.0, 6001)
    conjugates = np.array([regularizer.conjugate(np.array([v])) for v in grid])
    for x in (0.3, 1.1, 2.5):
        direct = np.min(conjugates + 0.35 * (grid - x / 0.7) ** 2)
        at = np.array([x])
        assert envelope.value(at, envelope.block_norms(at)) == pytest.approx(direct, abs=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_slope_of_the_loss_is_the_derivative_of_its_merit(loss: str) -> None:
    problem = gaussian_problem(loss)
    rho = 0.6 * interior_point(problem, problem.zero_model()[0])
    samples = start_samples(problem, rho, 0.0, 0.05)
    samples.linearize(0.02)
    direction = 0.1 * np.random.default_rng(2).normal(size=rho.size) * np.abs(rho)
    samples.set_direction(direction)
    numeric = (samples.merit_after(1e-4) - samples.merit_after(-1e-4)) / 2e-4
    assert samples.merit_slope() == pytest.approx(numeric, rel=1e-5)
    assert samples.merit_slope() != 0


def test_kernels_left_alone_are_below_the_bound_wherever_rho_goes() -> None:
    problem = gaussian_problem(strength=2.0, n_kernels=12)
    rng = np.random.default_rng(3)
    start = 0.02 * rng.normal(size=25)
    kernels = TrackedKernels(problem, MoreauEnvelope(problem.regularizer, 0.1), start, problem.dual_norms(start))
    alone = []
    for step in range(40):
        kernels.set_direction(0.03 * rng.normal(size=25))
        kernels.move(float(rng.uniform(0.1, 1.0)))
        others = np.setdiff1d(np.arange(12), kernels.indices)
        alone.append(others.size)
        assert (problem.dual_norms(kernels.rho)[others] < problem.regularizer.strength).all(), step
        if step % 10 == 9:
            kernels.update(MoreauEnvelope(problem.regularizer, 0.1))
            kernels.learn(kernels.rho, problem.dual_norms(kernels.rho))
    assert max(alone) > 0
    assert min(alone) < 12


def test_the_norms_along_a_direction_are_those_of_new_products() -> None:
    problem = gaussian_problem(regularizer="lq")
    rho = np.random.default_rng(1).normal(size=25)
    kernels = blocks_at(problem, MoreauEnvelope(problem.regularizer, 0.7), rho)
    kernels.set_direction(np.linspace(-1.0, 1.0, 25))
    expected = kernels.value_after(0.3)
    kernels.move(0.3)
    assert kernels.value() == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(kernels.dual_norms, problem.dual_norms(kernels.rho)[kernels.indices], rtol=1e-12)


def newton_on(problem: Problem, gamma: float = 5.0) -> DualNewton:
    rho = interior_point(problem, problem.zero_model()[0])
    kernels = TrackedKernels(problem, MoreauEnvelope(problem.regularizer, gamma), rho, problem.dual_norms(rho))
    return DualNewton(problem, kernels, 0.0, problem.loss_at_zero)


def test_the_line_search_reads_no_kernel() -> None:
    problem = gaussian_problem("logistic", strength=0.2)
    iteration = newton_on(problem, gamma=50.0)
    iteration._find_direction(0.0)
    before = problem.stack.counters.entries
    for step in np.linspace(0.0, 1.0, 30):
        iteration._value_after(float(step))
    iteration._line_search()
    assert problem.stack.counters.entries == before


def test_only_active_kernels_are_read_for_the_hessian() -> None:
    everything = gaussian_problem("squared", n_kernels=12)
    start = interior_point(everything, everything.zero_model()[0])
    middle = float(np.median(everything.dual_norms(start)))
    problem = gaussian_problem("squared", strength=middle, n_kernels=12)
    iteration = newton_on(problem)
    active = np.count_nonzero(iteration.kernels.block_norms)
    before = problem.stack.counters.entries
    iteration.kernels.hessian()
    assert active == 6
    assert problem.stack.counters.entries - before == active * triangle_size(25)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_smooth_problem_is_solved_to_its_gap(loss: str) -> None:
    """The gap is a bound by itself: it must also be the distance to a point solved further."""
    problem = gaussian_problem(loss)
    coarse, fine = newton_on(problem), newton_on(problem)
    values = []
    for iteration, tol in ((coarse, 1e-3), (fine, 1e-9)):
        for _ in range(60):
            iteration.newton_step(tol)
            if iteration.gap() <= tol:
                break
        assert iteration.gap() <= tol
        assert abs(iteration.kernels.rho.sum()) < 1e-12
        values.append(problem.conjugate_loss(iteration.kernels.rho) + iteration.kernels.value())
    assert values[1] - 1e-9 <= values[0] <= values[1] + coarse.gap() + 1e-12


@pytest.mark.parametrize("order", range(5))
@pytest.mark.parametrize(("solver", "number"), [("spicymkl", 0), ("smooth_dual", 169), ("smooth_dual", 289)])
def test_coefficients_at_their_ends_do_not_shorten_the_steps_of_all_others(
    solver: str, number: int, order: int
) -> None:
    """Whether a run came through once hung on last bits, which other orders of the samples change as well."""
    small = nasty_problem(number)
    shuffled = np.random.default_rng(order).permutation(small.y.size)
    kernels = small.kernels[:, shuffled][:, :, shuffled]
    problem = build_problem(replace(small, kernels=kernels, y=small.y[shuffled]))
    solution = SOLVERS[solver](tol=1e-6).solve(problem)
    assert solution.status == "converged"
    assert solution.solver == solver, "no other solver had to go on"
    assert solution.newton_steps < 150


def test_a_system_has_its_factor_and_its_entries_in_one_array() -> None:
    rng = np.random.default_rng(0)
    factor, right = rng.normal(size=(30, 30)), rng.normal(size=(7, 30))
    matrix = factor @ factor.T + np.diag(rng.uniform(1e-6, 1e6, 30))
    given = matrix.copy()
    system = NewtonSystem(given, border=False)
    assert np.shares_memory(given, system._both)
    for rights in (right, right[:2]):  # products of many vectors, and of few
        solved = system._solve(rights)
        np.testing.assert_allclose(system._products(solved), solved @ matrix, rtol=1e-10)
        np.testing.assert_allclose(solved @ matrix, rights, rtol=0, atol=1e-9)


def test_a_system_that_no_factor_is_found_of_is_that_matrix_still() -> None:
    matrix = np.ones((4, 4))
    system = NewtonSystem(matrix.copy(), border=False)
    np.testing.assert_array_equal(system._products(np.eye(4)), matrix)
    np.testing.assert_allclose(system.solve(np.ones(4), 0.0)[0].sum(), 1.0, rtol=1e-6)


def test_a_border_of_which_rounding_left_nothing_is_refused() -> None:
    """So it was under one BLAS, of two samples under a kernel of rank one: coefficients came out as no numbers."""
    system = NewtonSystem(np.eye(2), border=True)
    system.solve(np.ones(2), 0.0)
    system._border = np.zeros(2)
    with pytest.raises(LinAlgError, match="singular"):
        system.solve(np.ones(2), 0.0)
