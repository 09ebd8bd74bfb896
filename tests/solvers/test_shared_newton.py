"""Newton's method over shared kernel weights: identities, shapes of problems, memory, refusals."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from manykernels import solve
from manykernels.exceptions import ConvergenceWarning, IncompatibleError
from manykernels.objective import Capability, LpBall, Problem, get_loss, get_regularizer
from manykernels.solvers import SharedNewton, configured_solver, solvers_for
from manykernels.solvers.gram import newton_system as systems

RNG = np.random.default_rng(3)
POINTS = RNG.normal(size=(6, 30, 2))
KERNELS = POINTS @ POINTS.transpose(0, 2, 1) + np.exp(-((POINTS[:, :, None] - POINTS[:, None]) ** 2).sum(axis=3))
KERNELS /= np.trace(KERNELS, axis1=1, axis2=2)[:, None, None] / 30
NUMBERS = POINTS[1] @ RNG.normal(size=(2, 3)) + np.sin(2 * POINTS[4, :, :1]) + 0.3 * RNG.normal(size=(30, 3))
LABELS = np.where(NUMBERS.argmax(axis=1)[:, None] == np.arange(3), 1.0, -1.0)


def found(y, loss, penalty, tol=1e-9, kernels=KERNELS, warm_start=None, **options):
    problem = Problem(kernels, y, loss, penalty, **options)
    return problem, SharedNewton(tol=tol).solve(problem, warm_start)


@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("penalty", ["l1", "elasticnet", "lq", "ridge", "simplex", "lp_ball", "elasticnet_ball"])
def test_a_single_target_is_the_problem_without_sharing(loss, penalty):
    regularizer = get_regularizer(penalty, 0.7)
    tol = 1e-6 if penalty.endswith("ball") else 1e-9
    _, shared = found(NUMBERS[:, :1], loss, regularizer, tol)
    own = solve(KERNELS, NUMBERS[:, 0], loss=loss, penalty=regularizer, tol=tol)
    assert shared.certificate.primal == pytest.approx(own.certificate.primal, rel=2 * tol)
    fitted = [np.einsum("m,mij,j->i", one.kernel_weights, KERNELS, one.dual_coef.ravel()) for one in (shared, own)]
    if loss == "squared":  # strongly convex in the scores: both are so near to those of the optimum
        assert np.linalg.norm(fitted[0] - fitted[1]) <= 2.0 * np.sqrt(2.0 * tol * own.certificate.primal)


def test_ridge_of_several_targets_is_that_of_scikit_learn():
    _, solution = found(NUMBERS, "squared", get_regularizer("ridge", 2.0), fit_intercept=False)
    same = KernelRidge(alpha=1.0, kernel="precomputed").fit(KERNELS.sum(axis=0) / 2.0, NUMBERS)
    np.testing.assert_allclose(solution.dual_coef, same.dual_coef_, rtol=1e-8, atol=1e-10)


def test_ridge_shares_nothing():
    _, shared = found(NUMBERS, "huber", get_regularizer("ridge", 2.0))
    own = [solve(KERNELS, y, loss="huber", penalty="ridge", strength=2.0, tol=1e-9) for y in NUMBERS.T]
    assert shared.certificate.primal == pytest.approx(sum(one.certificate.primal for one in own), rel=1e-8)


def test_more_targets_than_samples_are_rotated_and_rotated_back():
    many = NUMBERS @ RNG.normal(size=(3, 80)) + 0.1 * RNG.normal(size=(30, 80))
    problem, solution = found(many, "squared", get_regularizer("l1", 3.0), sample_weight=RNG.uniform(0.5, 2.0, 30))
    assert solution.dual_coef.shape == (30, 80)
    certificate = problem.certificate(solution.dual_coef, solution.kernel_weights, solution.intercept)
    assert certificate.relative_gap <= 1e-9


def test_memory_grows_with_samples_times_samples_and_targets():
    n_samples, n_targets = 60, 3000
    points = RNG.normal(size=(20, n_samples, 2))
    many = points[0] @ RNG.normal(size=(2, n_targets)) + RNG.normal(size=(n_samples, n_targets))
    problem = Problem(points @ points.transpose(0, 2, 1), many, "squared", get_regularizer("l1", 100.0))
    tracemalloc.start()
    SharedNewton(tol=1e-6).solve(problem)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Products of all kernels with all targets would take as many such arrays by themselves.
    assert peak < len(points) * 8 * n_samples * (n_samples + n_targets)


def test_targets_that_are_copies_of_one_are_the_same_problem():
    _, one = found(NUMBERS[:, :1], "squared", get_regularizer("l1", 1.0))
    _, four = found(np.repeat(NUMBERS[:, :1], 4, axis=1), "squared", get_regularizer("l1", 2.0))
    assert four.certificate.primal == pytest.approx(4 * one.certificate.primal, rel=1e-8)


def test_two_classes_of_the_multinomial_loss_are_the_logistic_loss():
    """With scores f and -f the norm over both is sqrt(2) ||f||; the score of the logistic loss is their difference."""
    y = np.where(NUMBERS[:, 0] > 0, 1.0, -1.0)
    _, shared = found(np.column_stack([y, -y]), "logistic", get_regularizer("l1", 1.0))
    own = solve(KERNELS, y, loss="logistic", penalty="l1", strength=1.0 / np.sqrt(2.0), tol=1e-9)
    assert shared.certificate.primal == pytest.approx(own.certificate.primal, rel=1e-8)


def test_a_kernel_is_selected_for_all_classes_or_for_none():
    problem, solution = found(LABELS, "logistic", get_regularizer("l1", 3.0))
    _, norms = problem.model_parts(solution.dual_coef, solution.kernel_weights)
    assert 0 < np.count_nonzero(solution.kernel_weights) < 6
    np.testing.assert_array_equal(norms > 0, solution.kernel_weights > 0)
    active = solution.kernel_weights > 0
    np.testing.assert_allclose(solution.certificate.dual_norms[active], 3.0, rtol=1e-5)


def test_of_many_kernels_only_those_that_matter_enter():
    points = RNG.normal(size=(300, 30, 2))
    kernels = np.concatenate([KERNELS, points @ points.transpose(0, 2, 1) / 2])
    _, solution = found(LABELS, "squared_hinge", get_regularizer("l1", 4.0), kernels=kernels)
    assert solution.status == "converged"
    assert np.count_nonzero(solution.kernel_weights) < 30


def test_duplicates_of_a_kernel_change_nothing():
    _, once = found(LABELS, "logistic", get_regularizer("l1", 2.0))
    _, twice = found(LABELS, "logistic", get_regularizer("l1", 2.0), kernels=np.concatenate([KERNELS, KERNELS]))
    assert twice.certificate.primal == pytest.approx(once.certificate.primal, rel=1e-8)


@pytest.mark.parametrize(("y", "loss"), [(LABELS, "logistic"), (NUMBERS, "huber")])
def test_factors_that_take_too_much_memory_are_made_anew(monkeypatch, y, loss):
    _, kept = found(y, loss, get_regularizer("l1", 1.0))
    monkeypatch.setattr(systems, "MOST_FACTOR_BYTES", 0)
    _, made = found(y, loss, get_regularizer("l1", 1.0))
    assert made.certificate.primal == pytest.approx(kept.certificate.primal, rel=1e-9)


@pytest.mark.parametrize("strength", [1e-4, 1e-2, 30.0])
@pytest.mark.parametrize(("y", "loss"), [(LABELS, "logistic"), (LABELS, "squared_hinge"), (NUMBERS, "huber")])
def test_weak_and_strong_penalties(y, loss, strength):
    _, solution = found(y, loss, get_regularizer("l1", strength), tol=1e-6)
    assert solution.status == "converged"


def test_a_warm_start_saves_iterations():
    _, first = found(LABELS, "logistic", get_regularizer("l1", 1.0))
    _, warm = found(LABELS, "logistic", get_regularizer("l1", 0.98), tol=1e-6, warm_start=first)
    _, cold = found(LABELS, "logistic", get_regularizer("l1", 0.98), tol=1e-6)
    assert warm.n_iter <= cold.n_iter
    assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=1e-6)


def test_constant_targets_and_an_empty_model():
    constant = np.column_stack([np.ones(30), NUMBERS[:, 0]])
    assert found(constant, "squared", get_regularizer("l1", 1.0))[1].status == "converged"
    problem, empty = found(NUMBERS, "squared", get_regularizer("l1", 1e4))
    assert not empty.kernel_weights.any()
    assert problem.strength_max() < 1e4


def test_solvers_for_one_target_and_for_several_refuse_each_other():
    shared = Problem(KERNELS, NUMBERS, "squared", get_regularizer("l1", 1.0))
    own = Problem(KERNELS, NUMBERS[:, 0], get_loss("squared"), get_regularizer("l1", 1.0))
    assert solvers_for(shared) == ["shared_newton"]
    assert "shared_newton" not in solvers_for(own)
    with pytest.raises(IncompatibleError, match=r"several classes or targets share .* Able: shared_newton"):
        configured_solver("pfbs", shared)
    with pytest.raises(IncompatibleError, match="here is one target"):
        configured_solver("shared_newton", own)


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        ({"max_iter": 1}, "max_iter"),
        ({"time_limit": 1e-9}, "time_limit"),
        ({"callback": lambda record: True}, "stopped_by_callback"),
    ],
)
def test_limits_leave_a_certified_model(limits, status):
    problem = Problem(KERNELS, LABELS, "logistic", get_regularizer("l1", 1.0))
    with pytest.warns(ConvergenceWarning, match=status):
        solution = SharedNewton(tol=1e-12, **limits).solve(problem)
    assert solution.status == status
    again = problem.certificate(solution.dual_coef, solution.kernel_weights, solution.intercept)
    assert again.relative_gap == pytest.approx(solution.certificate.relative_gap, rel=1e-6)


def test_nothing_that_was_given_is_modified():
    kernels, y = KERNELS.copy(), NUMBERS.copy()
    kernels.flags.writeable = y.flags.writeable = False
    found(y, "huber", get_regularizer("elasticnet", 1.0), kernels=kernels)
    np.testing.assert_array_equal(kernels, KERNELS)


def test_a_penalty_without_bounds_takes_turns_with_the_machine():
    @dataclass(frozen=True)
    class Turns(LpBall):
        """An lp ball of which only the best weights for given norms are known."""

        @property
        def capabilities(self):
            return super().capabilities - {Capability.MULTIPLIERS}

    _, slow = found(LABELS, "squared_hinge", Turns(1.0), tol=1e-5)
    _, fast = found(LABELS, "squared_hinge", LpBall(1.0), tol=1e-8)
    assert slow.status == "converged"
    assert slow.n_iter > fast.n_iter
    assert slow.certificate.primal == pytest.approx(fast.certificate.primal, rel=2e-5)
