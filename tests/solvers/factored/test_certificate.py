"""Which kernels enter a working set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from manykernels import KernelBank, Linear, MKLClassifier, MKLRegressor
from manykernels.grams.factored import factored_stack
from manykernels.objective import Problem, get_loss, get_regularizer
from manykernels.solvers.factored import newton, quadratic_rows
from manykernels.solvers.factored.certificate import DualBound, certificate_of, correct, violators
from manykernels.solvers.factored.newton import minimize
from manykernels.solvers.factored.objective import FactoredObjective, Point
from manykernels.solvers.factored.quadratic_rows import RowQuadratic
from manykernels.solvers.factored.solver import FactoredNewton

ALONE = np.full((4, 2), -1)


def bound(norms: np.ndarray) -> DualBound:
    return DualBound(0.0, np.zeros(1), norms, norms, 1.0, 0.0, 0, 0)


def test_kernels_enter_that_the_fall_of_the_threshold_could_reach_and_fewer_where_their_growth_is_known() -> None:
    norms, used, limit = np.array([1.2, 0.95, 0.9, 0.7]), np.array([0]), np.ones(4)
    assert violators(bound(norms), used, ALONE, limit, 1.0).tolist() == []
    assert violators(bound(norms), used, ALONE, limit, 1.0, np.array(0.2)).tolist() == [1, 2]
    steady = np.array([0.2, 0.02, 0.15, 0.2])  # the second hardly grows
    assert violators(bound(norms), used, ALONE, limit, 1.0, steady).tolist() == [2]


def test_twice_as_many_kernels_enter_as_are_in_use_where_the_last_ones_stayed() -> None:
    norms, used, alone = np.linspace(3.0, 2.0, 200), np.arange(60), np.full((200, 2), -1)
    entering = [violators(bound(norms), used, alone, np.ones(200), 1.0, stayed=stayed) for stayed in (False, True)]
    assert [found.tolist() for found in entering] == [list(range(60, 80)), list(range(60, 180))]


@pytest.mark.parametrize("rows", [800, 1000])
def test_noise_is_solved_at_strengths_that_rounding_beside_the_whole_vector_would_hide(rows: int) -> None:
    """Squares of dual norms were known up to 3e-14 of that of the vector, and gaps ended at 2e-3 to 4e-3."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(rows, 2)), rng.normal(size=rows)
    bank = KernelBank.per_feature(widths=[0.1, 0.5], standardize=True)
    model = MKLRegressor(bank, alpha="1e-5*max", tol=5e-5, resources={"representation": "factored"}).fit(X, y)
    assert model.dual_gap_ <= 5e-5
    assert model.solution_.status == "converged"


@pytest.mark.parametrize("kind", [MKLRegressor, MKLClassifier], ids=lambda kind: kind.__name__)
def test_noise_is_solved_at_strengths_whose_squares_are_below_what_a_pass_leaves_open(kind: type) -> None:
    rng = np.random.default_rng(804)
    X, y = rng.normal(size=(800, 4)), np.sign(rng.normal(size=800))
    bank = KernelBank.per_feature(widths=[0.5, 1.0, 2.0], standardize=True)
    model = kind(bank, alpha="1e-4*max", resources={"representation": "factored"}).fit(X, y)
    assert model.solution_.status == "converged"


def correlated(
    n_samples: int = 120, groups: int = 30, *, seed: int = 7, size: int = 3, fraction: float = 0.1
) -> tuple[Problem, FactoredObjective]:
    """Return groups of columns that a column in common correlates, and all of them as a working set."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, size * groups)) + rng.normal(size=(n_samples, 1))
    y = X[:, : 4 * size] @ rng.normal(size=4 * size) + size * rng.normal(size=n_samples)
    entries = [(f"group {g}", Linear(), list(range(size * g, size * g + size))) for g in range(groups)]
    stack = factored_stack(np.asfortranarray(X), KernelBank(entries, normalize=None))
    problem = Problem(stack, y, get_loss("squared"), get_regularizer("l1", 1.0)).at_fraction(fraction)
    return problem, FactoredObjective(problem, stack.operators(list(range(groups)), 0.0), 0.0)


def test_a_corrected_dual_point_proves_more_than_a_scaled_one_and_no_more_than_there_is() -> None:
    problem, objective = correlated()
    optimum = FactoredNewton(tol=1e-9).solve(problem).certificate
    point = Point(np.zeros(objective.rank), problem.best_constant, problem.constant_scores(problem.best_constant))
    point = minimize(objective, point, 0.02 * optimum.primal, 10).point  # near, as sweeps leave it
    rho = objective.problem.bound.balance(-objective.settle_intercept(point))
    adjoint = objective.adjoint(rho)
    scaled = objective.dual_value(point.z, rho, adjoint)
    found = correct(objective, point, rho, adjoint, np.inf)
    assert found is not None
    better, products, value, moved = found
    assert optimum.dual * (1 - 1e-9) - value < 0.1 * (optimum.dual - scaled)
    assert value <= optimum.primal * (1 + 1e-12)
    Z = objective.operators[0].rows(slice(None))
    np.testing.assert_allclose(products, Z.T @ better, atol=1e-9 * np.abs(products).max())
    assert abs(better.sum()) <= 1e-9 * np.abs(better).sum()
    np.testing.assert_allclose(moved.z, Z @ moved.v + moved.b, atol=1e-9)
    np.testing.assert_allclose(better, problem.y - moved.z, atol=1e-8 * np.abs(better).max())
    norms = np.linalg.norm(products.reshape(-1, 3), axis=1)
    scale = min(1.0, problem.regularizer.strength / norms.max())
    by_hand = scale * float(better @ problem.y) - 0.5 * scale**2 * float(better @ better)
    assert value == pytest.approx(by_hand, rel=1e-10)


@pytest.mark.parametrize("seed", [2, 5, 7])
def test_steps_hand_over_the_dual_point_that_proves_the_gap_they_tell(seed: int) -> None:
    """A later step on correlated groups proves less than an earlier one: a pass at its slopes left 30 times the gap."""
    problem, objective = correlated(200, 60, seed=seed, size=5, fraction=0.02)
    point = Point(np.zeros(objective.rank), problem.best_constant, problem.constant_scores(problem.best_constant))
    fit = minimize(objective, point, 1e-12 * objective.value(point), 3)
    proved = objective.value(fit.point) - objective.dual_value(fit.z, fit.rho, fit.adjoint)
    assert fit.gap == pytest.approx(proved, rel=1e-6)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gradients_take_groups_together_where_sweeps_come_to_no_end(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweeps went on to a Hessian of all columns, which for many groups takes as long as hundreds of them."""
    problem, objective = correlated(200, 60, seed=seed, size=5, fraction=0.02)
    taken: list[np.ndarray] = []
    gradients = quadratic_rows.conjugate_step

    def told(*arguments: Any) -> Any:
        taken.append(arguments[1])
        return gradients(*arguments)

    monkeypatch.setattr(quadratic_rows, "conjugate_step", told)
    monkeypatch.setattr(newton.FormedQuadratic, "create", None)
    point = Point(np.zeros(objective.rank), problem.best_constant, problem.constant_scores(problem.best_constant))
    fit = minimize(objective, point, 1e-4 * objective.value(point), 30)
    assert fit.gap <= 1e-4 * problem.empirical_loss(problem.constant_scores(problem.best_constant))
    assert taken


def test_gradients_read_columns_in_single_precision_where_steps_may_be_in_that() -> None:
    problem, objective = correlated(groups=6)
    double = FactoredObjective(problem, problem.stack.operators([1, 3], 0.0), 0.0)
    assert double.single_precision is double
    objective.known.single = True
    other = FactoredObjective(problem, problem.stack.operators([1, 3], 0.0), 0.0)
    other.known = objective.known
    rng = np.random.default_rng(0)
    for whole in (other, objective):  # of the columns that were copied before, and of others
        v, rho = rng.normal(size=whole.rank), rng.normal(size=problem.n_samples)
        assert whole.single_precision.joint_columns.columns.dtype == np.float32
        np.testing.assert_allclose(whole.single_precision.scores(v), whole.scores(v), atol=1e-5)
        np.testing.assert_allclose(whole.single_precision.adjoint(rho), whole.adjoint(rho), atol=1e-4)
        assert np.abs(whole.single_precision.scores(v) - whole.scores(v)).max() > 0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_steps_have_the_slopes_of_their_point_whatever_dual_point_is_better(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newton steps from the products of another dual point decreased nothing."""
    problem, objective = correlated(200, 60, seed=seed, size=5, fraction=0.02)
    advance, steps = newton._advance_somehow, []

    def told(objective: FactoredObjective, point: Point, slopes: np.ndarray, gradient: np.ndarray, *rest: Any) -> bool:
        expected = objective.adjoint(slopes)
        np.testing.assert_allclose(gradient, expected, atol=1e-8 * np.abs(expected).max())
        steps.append(gradient)
        return advance(objective, point, slopes, gradient, *rest)

    monkeypatch.setattr(newton, "_advance_somehow", told)
    point = Point(np.zeros(objective.rank), problem.best_constant, problem.constant_scores(problem.best_constant))
    minimize(objective, point, 1e-7 * objective.value(point), 6)
    assert len(steps) > 1


def test_turns_alone_precondition_gradients_of_groups_that_are_not_zero() -> None:
    problem, objective = correlated(groups=6)
    curvature = objective.loss.curvature(problem.constant_scores(0.0))
    v, r = np.zeros(objective.rank), np.arange(1.0, objective.rank + 1.0)
    v[3:9] = 1.0, -2.0, 3.0, 0.5, 0.0, -1.0
    found = RowQuadratic(objective, curvature).preconditioner(v)(r)
    Z = objective.operators[0].rows(slice(None))
    for low in (3, 6):
        own = slice(low, low + 3)
        pull = problem.regularizer.strength / np.linalg.norm(v[own])
        np.testing.assert_allclose(found[own], np.linalg.solve(Z[:, own].T @ Z[:, own] + pull * np.eye(3), r[own]))
    assert not found[:3].any()
    assert not found[9:].any()


@pytest.mark.parametrize("penalty", [("elasticnet", {"l1_ratio": 0.5}), ("lq", {"q": 1.5})])
def test_dual_points_are_corrected_where_the_penalty_is_linear_in_norms_only(
    penalty: tuple[str, dict[str, Any]],
) -> None:
    problem, _ = correlated()
    other = replace(problem, regularizer=get_regularizer(penalty[0], 5.0, **penalty[1]))
    objective = FactoredObjective(other, problem.stack.operators(list(range(30)), 0.0), 0.0)
    point = Point(np.zeros(objective.rank), 0.0, problem.constant_scores(0.0))
    rho = objective.problem.bound.balance(-objective.settle_intercept(point))
    assert correct(objective, point, rho, objective.adjoint(rho), np.inf) is None


def test_a_bound_above_the_objective_is_no_gap_of_zero() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    stack = factored_stack(X, KernelBank.per_feature(Linear()))
    problem = Problem(stack, X[:, 0], get_loss("squared"), get_regularizer("l1", 0.1))
    z = problem.constant_scores(0.0)
    above = certificate_of(problem, 1.0, replace(bound(np.ones(2)), value=1.0 + 1e-5, rho=np.zeros(30)), z)
    assert above.crossed
    assert above.relative_gap == pytest.approx(1e-5)
    equal = certificate_of(problem, 1.0, replace(bound(np.ones(2)), value=1.0 + 1e-16, rho=np.zeros(30)), z)
    assert not equal.crossed
    assert equal.relative_gap == 0.0
