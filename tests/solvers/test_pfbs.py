"""Forward-backward splitting: its steps, its step sizes, and what happens when a step is too long."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from manykernels import Gaussian, KernelBank
from manykernels.exceptions import ConvergenceWarning, InvalidInputError
from manykernels.grams import build_stack
from manykernels.objective.losses import get_loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import get_regularizer
from manykernels.papers.problems import pfbs
from manykernels.solvers import ForwardBackward, WorkingSet
from manykernels.solvers.gram.pfbs import largest_eigenvalue, support_direction, support_step

Array = NDArray[np.float64]


def gaussian_kernels(n_samples: int = 30, widths: tuple[float, ...] = (0.3, 1.0, 3.0)) -> tuple[Array, Array]:
    """Kernels on each of two columns, and a target that needs one of them."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n_samples, 2))
    squares = [(column[:, None] - column) ** 2 for column in X.T]
    kernels = np.stack([np.exp(-square / (2 * width**2)) for square in squares for width in widths])
    return kernels, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n_samples)


def a_problem(regularizer: str = "l1", strength: float = 1.0, loss: str = "squared", **given: Any) -> Problem:
    kernels, y = gaussian_kernels()
    target = y if loss in ("squared", "huber") else np.where(y > 0, 1.0, -1.0)
    return Problem(kernels, target, get_loss(loss), get_regularizer(regularizer, strength), **given)


def started(solver: ForwardBackward, problem: Problem) -> Any:
    rho, b = problem.zero_model()
    return solver.initialize(problem, (rho, np.zeros(problem.n_kernels), b))


def rounds(solver: ForwardBackward, problem: Problem, count: int) -> tuple[list[float], Any]:
    """Objective after each of ``count`` rounds of one splitting step, and the last state."""
    state = started(solver, problem)
    values = [state.value]
    for _ in range(count):
        solver.step(problem, state)
        values.append(state.value)
    return values, state


@pytest.mark.sampled(5)
@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("rule", ["safe", "scaled"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge", "huber"])
@pytest.mark.parametrize("regularizer", ["l1", "elasticnet", "lq", "ridge", "simplex"])
def test_the_objective_never_rises(regularizer: str, loss: str, rule: str, accelerate: bool) -> None:
    problem = a_problem(regularizer, 0.3, loss, sample_weight=np.linspace(0.5, 2.0, 30))
    solver = ForwardBackward(step_rule=rule, accelerate=accelerate, polish=False, round_steps=1)
    values, state = rounds(solver, problem, 60)
    assert (np.diff(values) <= 1e-13 * values[0]).all()
    assert values[-1] < 0.9 * values[0]
    assert state.fallbacks == 0


def test_plain_steps_with_the_safe_rule_descend_without_any_retreat() -> None:
    solver = ForwardBackward(step_rule="safe", accelerate=False, polish=False, round_steps=1)
    values, state = rounds(solver, a_problem(strength=0.5), 100)
    assert (np.diff(values) < 0).all()
    assert state.restarts == state.fallbacks == 0


def pfbs_step(alpha: Array, kernels: Array, y: Array, tau: float, mu: float, sigma: float) -> Array:
    """Algorithm 1 of the PFBS paper with its misprints corrected, in plain NumPy."""
    n = len(y)
    residual = np.einsum("mij,mj->i", kernels, alpha) - y
    moved = (1 - mu / sigma) * alpha - residual / (sigma * n)
    norms = np.sqrt(np.einsum("mi,mij,mj->m", moved, kernels, moved))
    return np.maximum(0.0, 1 - tau / (sigma * norms))[:, None] * moved


def test_the_iteration_is_the_one_of_the_paper() -> None:
    kernels, y = gaussian_kernels()
    tau, mu, n = 0.02, 0.05, len(y)
    problem = pfbs(tau, mu, n).problem(kernels, y)
    state = started(solver := ForwardBackward(step_rule="safe", accelerate=False, polish=False, round_steps=1), problem)
    alpha, sigma = np.zeros((len(kernels), n)), np.linalg.eigvalsh(kernels.sum(0))[-1] / n + mu
    for _ in range(7):
        solver.step(problem, state)
        alpha = pfbs_step(alpha, kernels, y, tau, mu, sigma)
        np.testing.assert_allclose(state.blocks.coefficients, alpha, rtol=1e-9, atol=1e-12)
    assert np.count_nonzero(np.abs(alpha).sum(axis=1)) > 1


def test_step_sizes_are_eigenvalues() -> None:
    kernels, y = gaussian_kernels()
    weight, penalties = np.linspace(0.5, 2.0, len(y)), np.linspace(0.3, 3.0, len(kernels))
    problem = a_problem(loss="logistic", sample_weight=weight, kernel_penalties=penalties)
    root = np.sqrt(weight)
    each = root[:, None] * kernels * root / penalties[:, None, None] ** 2 / 4
    top = np.linalg.eigvalsh(each.sum(axis=0))[-1]
    np.testing.assert_allclose(ForwardBackward(step_rule="safe").sigma(problem), top, rtol=1e-10)
    largest = max(np.linalg.eigvalsh(gram)[-1] for gram in each)
    np.testing.assert_allclose(ForwardBackward(step_rule="heuristic").sigma(problem), largest, rtol=1e-10)
    scaled = ForwardBackward(step_rule="scaled").sigma(problem)
    np.testing.assert_allclose(np.linalg.eigvalsh((each / scaled[:, None, None]).sum(0))[-1], 1.0, rtol=1e-10)
    np.testing.assert_allclose(scaled / np.trace(each, axis1=1, axis2=2), scaled[0] / np.trace(each[0]), rtol=1e-10)


def test_lanczos_bounds_the_largest_eigenvalue() -> None:
    factor = np.random.default_rng(0).normal(size=(150, 40))
    gram = factor @ factor.T
    exact = np.linalg.eigvalsh(gram)[-1]
    assert exact <= largest_eigenvalue(gram) <= 1.02 * exact
    assert largest_eigenvalue(np.zeros((150, 150))) == 0.0


@pytest.mark.parametrize("accelerate", [False, True])
def test_the_heuristic_diverges_on_copies_and_falls_back(accelerate: bool) -> None:
    kernels, y = gaussian_kernels()
    copies = np.stack([kernels[1]] * 10)
    problem = Problem(copies, y, get_loss("squared"), get_regularizer("l1", 0.1))
    solver = ForwardBackward(step_rule="heuristic", accelerate=accelerate, polish=False, round_steps=1)
    values, state = rounds(solver, problem, 60)
    assert state.fallbacks == 1
    np.testing.assert_allclose(state.sigma, np.linalg.eigvalsh(copies.sum(axis=0))[-1], rtol=1e-10)
    assert (np.diff(values) <= 1e-13 * values[0]).all()


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore:Solver 'pfbs' stopped")
@pytest.mark.parametrize("accelerate", [False, True])
def test_the_fallback_outlasts_a_change_of_the_work_set(accelerate: bool) -> None:
    """Certificates leave kernels out; what has diverged once is not tried again on those that are left."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    widths = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 6.0)
    kernels = np.stack([np.exp(-((x[:, None] - x) ** 2) / (2 * width**2)) for x in X.T for width in widths])
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=60)
    penalty = get_regularizer("elasticnet", 0.5, l1_ratio=0.9)
    problem = Problem(kernels, y, get_loss("squared"), penalty, fit_intercept=False)
    gaps = []
    for rule in ("heuristic", "safe"):
        solver = ForwardBackward(tol=1e-6, step_rule=rule, accelerate=accelerate, polish=False, max_iter=60)
        gaps.append(solver.solve(problem).certificate.relative_gap)
    assert gaps[0] <= max(1.5 * gaps[1], 1e-6)


def test_the_paper_iteration_with_the_heuristic_diverges_on_copies() -> None:
    kernels, y = gaussian_kernels()
    copies, n = np.stack([kernels[1]] * 10), len(y)
    alpha, sigma = np.zeros((10, n)), np.linalg.eigvalsh(kernels[1])[-1] / n
    for _ in range(40):
        alpha = pfbs_step(alpha, copies, y, 1e-3, 0.0, sigma)
    assert np.abs(np.einsum("mij,mj->i", copies, alpha)).max() > 1e6


def test_the_heuristic_stays_where_it_is_enough() -> None:
    blocks = np.zeros((3, 9, 9))
    for kernel in range(3):
        blocks[kernel, 3 * kernel : 3 * kernel + 3, 3 * kernel : 3 * kernel + 3] = 1.0 + np.eye(3)
    problem = Problem(blocks, np.arange(9.0), get_loss("squared"), get_regularizer("l1", 0.5))
    _, state = rounds(ForwardBackward(step_rule="heuristic", polish=False, round_steps=1), problem, 30)
    assert state.fallbacks == 0


def test_momentum_is_restarted_and_still_pays() -> None:
    problem = a_problem(strength=0.1)
    fast, state = rounds(ForwardBackward(step_rule="safe", polish=False, round_steps=1), problem, 300)
    slow, plain = rounds(ForwardBackward(step_rule="safe", accelerate=False, polish=False, round_steps=1), problem, 300)
    best = WorkingSet(tol=1e-10).solve(problem).certificate.primal
    assert state.restarts > 0 == plain.restarts
    assert fast[-1] - best < 0.1 * (slow[-1] - best)


def test_the_largest_tau_gives_the_empty_model() -> None:
    kernels, y = gaussian_kernels()
    n = len(y)
    tau_max = np.sqrt(np.einsum("i,mij,j->m", y, kernels, y)).max() / n
    for factor, n_active in ((1.0 + 1e-9, 0), (0.99, 1)):
        posed = pfbs(factor * tau_max, 0.0, n).problem(kernels, y)
        assert ForwardBackward(tol=1e-9).solve(posed).active.size == n_active


@pytest.mark.sampled(3)
@pytest.mark.parametrize("given", [{}, {"step_rule": "safe"}, {"step_rule": "heuristic"}, {"accelerate": False}])
@pytest.mark.parametrize("regularizer", ["l1", "elasticnet", "lq", "ridge", "simplex"])
def test_every_variant_finds_the_optimum(regularizer: str, given: dict[str, Any]) -> None:
    problem = a_problem(regularizer, 0.2)
    solution = ForwardBackward(tol=1e-9, **given).solve(problem)
    assert solution.certificate.relative_gap <= 1e-9
    if regularizer in ("l1", "elasticnet", "simplex"):
        other = WorkingSet(tol=1e-9).solve(problem)
        np.testing.assert_allclose(solution.certificate.primal, other.certificate.primal, rtol=2e-9)


def test_without_polish_no_linear_system_is_solved() -> None:
    problem = a_problem("elasticnet", 2.0)
    plain = ForwardBackward(tol=1e-6, polish=False).solve(problem)
    polished = ForwardBackward(tol=1e-6).solve(problem)
    assert plain.newton_steps == 0 < polished.newton_steps
    np.testing.assert_allclose(plain.certificate.primal, polished.certificate.primal, rtol=2e-6)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("regularizer", ["elasticnet", "lq", "ridge", "simplex"])
def test_the_newton_direction_solves_the_newton_equations(regularizer: str, loss: str) -> None:
    problem = a_problem(regularizer, 0.3, loss)
    _, state = rounds(ForwardBackward(polish=False, round_steps=5), problem, 3)
    support = np.flatnonzero(state.blocks.norms)
    chosen, scores = state.blocks.take(support), state.blocks.scores() + state.b
    rho = -problem.loss.derivative(problem.y, scores)
    direction = support_direction(problem, support, chosen, scores, rho, damping=1e-9)

    def slope(step: float, move: tuple[Array, Array, float]) -> float:
        """Derivative of the objective along ``move`` at ``step`` along the direction, by differences."""

        def value(at: float) -> float:
            parts = [base + step * d + at * m for base, d, m in zip(chosen_parts, direction, move, strict=True)]
            squares = np.einsum("mi,mi->m", parts[0], parts[1])
            loss_part = problem.empirical_loss(parts[1].sum(axis=0) + parts[2])
            return loss_part + problem.regularizer.value(np.sqrt(np.maximum(squares, 0.0)))

        return (value(1e-6) - value(-1e-6)) / 2e-6

    chosen_parts = (chosen.coefficients, chosen.values, state.b)
    before = slope(0.0, direction)
    assert before < 0
    # The model of second order is stationary at the whole step: the slope starts to fall at that rate.
    np.testing.assert_allclose((slope(1e-4, direction) - before) / 1e-4, -before, rtol=5e-3)
    assert 0 < support_step(problem, support, state.blocks, state.b, direction) <= 1


def test_only_kernels_near_the_bound_are_iterated_on() -> None:
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(40, 25, 2))
    problem = Problem(
        factors @ factors.transpose(0, 2, 1), factors[5, :, 0], get_loss("squared"), get_regularizer("l1", 4.0)
    )
    solver = ForwardBackward(polish=False, round_steps=1)
    state = started(solver, problem)
    for _ in range(60):
        solver.step(problem, state)
        solver.observe(problem, state, problem.certificate(*solver.extract(problem, state)))
    assert state.work.size < 15
    assert set(np.flatnonzero(ForwardBackward(tol=1e-9).solve(problem).kernel_weights)) <= set(state.work)


@pytest.mark.parametrize("lazy", [False, True])
def test_passes_count_what_is_read_of_the_work_set(lazy: bool) -> None:
    X = np.random.default_rng(0).uniform(-2, 2, (40, 6))
    bank = KernelBank([(f"x{j}", Gaussian(1.0), [j]) for j in range(6)], normalize="trace").fit(X)
    stack = build_stack(bank, X, kind="lazy" if lazy else "dense")
    problem = Problem(stack, np.sin(2 * X[:, 1]), get_loss("squared"), get_regularizer("l1", 0.1))
    solver = ForwardBackward(polish=False, round_steps=10)
    state = started(solver, problem)
    solver._move(problem, state, np.array([1, 4]))
    before = stack.counters.entries
    solver.step(problem, state)
    # Ten products of each of two kernels with one vector.
    assert stack.counters.entries - before == 10 * 2 * 40 * 41 // 2


def test_a_warm_start_keeps_the_model() -> None:
    problem = a_problem(strength=0.2, kernel_penalties=np.linspace(0.5, 2.0, 6))
    solution = ForwardBackward(tol=1e-10).solve(problem)
    solver = ForwardBackward()
    state = solver.initialize(problem, (solution.dual_coef, solution.kernel_weights, solution.intercept))
    np.testing.assert_allclose(state.value, solution.certificate.primal, rtol=1e-12)


def test_the_strength_can_change_under_a_warm_start() -> None:
    problem = a_problem(strength=0.5)
    nearby = replace(problem, regularizer=get_regularizer("l1", 0.4))
    first = ForwardBackward(tol=1e-8).solve(problem)
    warm = ForwardBackward(tol=1e-8).solve(nearby, warm_start=first)
    np.testing.assert_allclose(
        warm.certificate.primal, WorkingSet(tol=1e-8).solve(nearby).certificate.primal, rtol=2e-8
    )


def test_an_unknown_step_rule_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="step_rule must be one of 'scaled', 'safe', 'heuristic', got 'long'"):
        ForwardBackward(step_rule="long")


def test_plain_splitting_says_so_when_it_stalls() -> None:
    kernels, y = gaussian_kernels(widths=(1.0, 1.01, 1.02, 20.0))
    problem = Problem(kernels, y, get_loss("squared"), get_regularizer("l1", 1e-3))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plain = ForwardBackward(tol=1e-8, polish=False, max_iter=10).solve(problem)
    assert [warning.category for warning in caught] == [ConvergenceWarning]
    assert plain.certificate.relative_gap > 1e-8
    assert ForwardBackward(tol=1e-8).solve(problem).certificate.relative_gap <= 1e-8
