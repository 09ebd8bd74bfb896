"""Batches of targets: the optimum of each, zeros that are exact, and what a batch leaves to solvers of one target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.targets import GAUSSIAN, LINEAR, RNG, TARGETS, VIEWS, T, posed

from manykernels import solve
from manykernels.objective import Problem, get_loss, get_regularizer, proved_inactive
from manykernels.solvers import Status
from manykernels.solvers.gram import many_targets
from manykernels.solvers.gram.many_targets import KernelFeatures, fit_targets, solve_targets, takes_batch
from manykernels.solvers.run import deadline


@pytest.mark.parametrize("kernels", [LINEAR, GAUSSIAN], ids=["linear", "gaussian"])
@pytest.mark.parametrize(("penalty", "parameters"), [("l1", {}), ("elasticnet", {"l1_ratio": 0.6}), ("ridge", {})])
@pytest.mark.parametrize(("weighted", "intercept"), [(True, True), (False, False)])
def test_a_batch_finds_the_optimum_of_each_target(kernels, penalty, parameters, weighted, intercept):
    problems = posed(kernels, penalty, weighted=weighted, intercept=intercept, **parameters)
    assert takes_batch(problems)
    found, ended = solve_targets(problems, tol=1e-5)
    assert not ended
    for problem, solution in zip(problems, found, strict=True):
        exact = solve(
            problem.stack.array,
            problem.y,
            loss="squared",
            penalty=problem.regularizer,
            fit_intercept=intercept,
            sample_weight=problem.weight,
            kernel_penalties=problem.penalties,
            tol=1e-8,
        )
        assert solution.status is Status.CONVERGED
        assert solution.certificate.relative_gap <= 1e-5
        model = solution.dual_coef, solution.kernel_weights, solution.intercept
        assert problem.certificate(*model).relative_gap <= 1.001e-5
        assert solution.certificate.primal <= exact.certificate.primal * (1.0 + 1e-5)
        assert solution.certificate.dual <= exact.certificate.primal * (1.0 + 1e-8)
        assert not solution.kernel_weights[proved_inactive(problem, solution.certificate)].any()
        np.testing.assert_allclose(solution.kernel_norms, exact.kernel_norms, atol=2e-2 * exact.kernel_norms.max())


@pytest.mark.parametrize(("penalty", "parameters"), [("l1", {}), ("elasticnet", {"l1_ratio": 0.6})])
def test_a_tight_batch_has_the_objectives_of_the_solver_of_one_target(penalty, parameters):
    problems = posed(LINEAR, penalty, weighted=False, intercept=True, **parameters)
    found, _ = solve_targets(problems, tol=1e-7)
    for problem, solution in zip(problems, found, strict=True):
        given = {"loss": "squared", "penalty": problem.regularizer, "kernel_penalties": problem.penalties}
        exact = solve(problem.stack.array, problem.y, sample_weight=problem.weight, tol=1e-8, **given)
        assert solution.certificate.primal == pytest.approx(exact.certificate.primal, rel=1e-6)
        np.testing.assert_array_equal(solution.kernel_weights > 0, exact.kernel_weights > 0)


def test_kernels_of_weak_targets_have_weights_of_exactly_zero():
    problems = [problem.at_fraction(0.7) for problem in posed(LINEAR, "l1")]
    found, _ = solve_targets(problems, tol=1e-5)
    weights = np.array([solution.kernel_weights for solution in found])
    assert ((weights == 0).sum(axis=1) > 0).all()
    assert (weights.max(axis=1) > 0).all()


def test_strong_penalties_leave_no_kernel():
    problems = [problem.at_fraction(1.01) for problem in posed(LINEAR, "l1")]
    found, _ = solve_targets(problems, tol=1e-6)
    assert not any(solution.kernel_weights.any() for solution in found)
    assert [solution.intercept for solution in found] == pytest.approx([problem.best_constant for problem in problems])


def test_features_of_new_rows_give_the_functions_there():
    problem = posed(LINEAR, "l1")[0]
    features = KernelFeatures.factorize(problem)
    new = RNG.normal(size=(5, 9))
    new_views = [new[:, :3], new[:, 3:6] + new[:, :3], new[:, 6:]]
    inside, rest = features.coordinates(TARGETS.T)
    linear = np.full(T, problem.regularizer.strength)
    scale = np.ones(T)
    fits = fit_targets(features, inside, rest, linear, np.zeros(T), tol=1e-10, scale=scale, expanded=False)
    rho = features.residuals(TARGETS.T, fits.coefficients) * features.roots
    share = problem.weight / problem.weight.sum()
    for m, (own, view, new_view, w) in enumerate(
        zip(features.slices, VIEWS, new_views, problem.penalties, strict=True)
    ):
        values = new_view @ view.T / (3.0 * w**2)
        there = features.evaluate_rows(m, values[:, features.pivots[m]]) @ fits.coefficients[:, own].T
        center = (LINEAR[m] @ share / w**2)[:, None]
        expected = (values @ rho.T - (rho @ center).T) * fits.weights[:, m]
        np.testing.assert_allclose(there, expected, atol=1e-3 * np.abs(expected).max() + 1e-9)


def test_a_start_near_the_optimum_takes_fewer_sweeps():
    problem = posed(GAUSSIAN, "l1")[0]
    features = KernelFeatures.factorize(problem)
    inside, rest = features.coordinates(TARGETS.T)
    linear, squared = np.full(T, problem.regularizer.strength), np.zeros(T)
    given: dict[str, Any] = {"tol": 1e-6, "scale": np.ones(T)}
    cold = fit_targets(features, inside, rest, linear, squared, **given)
    warm = fit_targets(features, inside, rest, 0.99 * linear, squared, start=cold.coefficients, **given)
    assert warm.sweeps.sum() < cold.sweeps.sum()
    assert (warm.gaps <= 1e-6).all()


def test_more_targets_than_a_chunk_are_those_of_their_chunks(monkeypatch):
    problems = posed(LINEAR, "l1")
    whole, _ = solve_targets(problems, tol=1e-6)
    monkeypatch.setattr(many_targets, "CHUNK", 5)
    parts, _ = solve_targets(problems, tol=1e-6)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one.kernel_weights, other.kernel_weights, rtol=1e-3, atol=1e-9)


def test_what_is_not_alike_is_no_batch():
    problems = posed(LINEAR, "l1")
    assert not takes_batch(problems[:1])
    assert not takes_batch([*problems[:-1], posed(LINEAR, "lq")[-1]])
    other = Problem(problems[0].stack, TARGETS[:, 0], get_loss("huber"), get_regularizer("l1", 1.0))
    assert not takes_batch([*problems[:-1], other])
    assert not takes_batch([*problems[:-1], posed(LINEAR, "l1")[-1]])  # on another stack


def test_targets_beyond_the_limits_are_left_to_others():
    problems = posed(GAUSSIAN, "l1")
    found, ended = solve_targets(problems, tol=1e-9, max_iter=1)
    assert not ended
    assert None in found
    with deadline(-1.0):
        found, ended = solve_targets(problems, tol=1e-6)
    assert not ended
    assert found == [None] * T


def test_ctrl_c_keeps_the_targets_that_are_done(monkeypatch):
    problems = posed(LINEAR, "l1")
    solved, calls = many_targets._solve, []

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return solved(*args, **kwargs)

    monkeypatch.setattr(many_targets, "CHUNK", 4)
    monkeypatch.setattr(many_targets, "_solve", interrupted)
    found, ended = solve_targets(problems, tol=1e-5)
    assert ended
    assert [solution is not None for solution in found] == [True] * 4 + [False] * (T - 4)


def test_iterates_that_no_longer_change_are_kept() -> None:
    """Shares of changes of zero were the inverse of the smallest number each, and their sum overflowed."""
    features = KernelFeatures.factorize(posed(LINEAR, "l1")[0])
    assert features is not None
    r, v = (np.ones((2, size)) for size in (max(map(len, features.factors)), features.size))
    ones = np.ones(2)
    batch = many_targets._Batch(features, r, ones, ones, ones, ones, v.copy())
    batch.r, batch.history = r.copy(), [(v, r)] * (many_targets.MEMORY + 1)
    batch.extrapolate()
    np.testing.assert_allclose(batch.v, v, rtol=1e-12)
    np.testing.assert_allclose(batch.r, r, rtol=1e-12)
