"""Smoothed losses: what smoothing adds to the gap of the true loss, and how many steps that leaves."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.factored import on_factors

from manykernels import KernelBank
from manykernels.grams.factored import FourierStack
from manykernels.objective import Problem, get_regularizer
from manykernels.objective.losses import get_loss, get_shared_loss
from manykernels.objective.losses.smoothing import center_at, smaller_smoothing
from manykernels.solvers.factored.newton import minimize
from manykernels.solvers.factored.objective import FactoredObjective, Point

KINKED = ("hinge", "epsilon_insensitive", "quantile")


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("name", KINKED)
def test_error_is_the_loss_less_the_bound_of_its_smoothed_dual_variable(name, centered):
    rng, loss = np.random.default_rng(0), get_loss(name)
    y = rng.choice([-1.0, 1.0], 500) if loss.task == "classification" else rng.normal(size=500)
    z = 2 * rng.normal(size=500)
    for mu in (0.5, 0.05):
        weight = rng.uniform(0.5, 2.0, 500)
        bound = loss.bind(y, weight)
        near = z + 0.1 * rng.normal(size=500)
        smoothed = bound.smoothed(mu, center_at(bound, bound.smoothed(mu).gradient(near)) if centered else 0.0)
        rho = -smoothed.gradient(z)
        expected = bound.value(z) + bound.conjugate(rho) + rho @ z
        np.testing.assert_allclose(smoothed.error(z), expected, rtol=1e-10)
        np.testing.assert_allclose(
            smoothed.value(z) + smoothed.conjugate_at(rho, 1.0, z), -rho @ z, rtol=1e-10
        )  # Fenchel-Young, with equality
        step = 1e-6 * rng.normal(size=500)
        change = smoothed.value(z + step) - smoothed.value(z - step)
        np.testing.assert_allclose(smoothed.gradient(z) @ step, change / 2, rtol=1e-6, atol=1e-10)
        assert smoothed.value(z) <= bound.value(z)
        assert (smoothed.curvature_bound(z).diagonal >= smoothed.curvature(z).diagonal).all()
    smooth = get_loss("squared").bind(y, weight)
    assert smooth.smoothed(mu) is smooth
    assert smooth.error(z) == 0.0


def test_several_outputs_are_smoothed_as_one_after_the_other() -> None:
    rng = np.random.default_rng(3)
    Y, z, weight = rng.choice([-1.0, 1.0], (50, 3)), rng.normal(size=(50, 3)), rng.uniform(0.5, 2.0, 50)
    mu = np.array([0.3, 0.05, 0.5])
    centers = Y * rng.uniform(0.0, 1.0, (50, 3))
    whole = get_shared_loss("hinge", kinks=True).bind(Y, weight).smoothed(mu, centers)
    own_parts = zip(Y.T, mu.tolist(), centers.T, strict=True)
    alone = [get_loss("hinge").bind(y, weight).smoothed(own, center) for y, own, center in own_parts]
    assert len(whole.outputs) == 3
    for each in (whole.outputs, alone):
        np.testing.assert_allclose(whole.value(z), sum(one.value(own) for one, own in zip(each, z.T, strict=True)))
        gradients = [one.gradient(own) for one, own in zip(each, z.T, strict=True)]
        np.testing.assert_allclose(whole.gradient(z), np.column_stack(gradients))
        np.testing.assert_allclose(whole.error(z), sum(one.error(own) for one, own in zip(each, z.T, strict=True)))
        rho = -whole.gradient(z)
        conjugates = [one.conjugate_at(own, 0.9, x) for one, own, x in zip(each, rho.T, z.T, strict=True)]
        np.testing.assert_allclose(whole.conjugate_at(rho, 0.9, z), sum(conjugates))


def test_an_output_with_most_samples_near_a_kink_leaves_the_others_their_smoothing() -> None:
    rng, n = np.random.default_rng(5), 5000
    Y = rng.choice([-1.0, 1.0], (n, 4))
    spread = np.array([1.0, 1.0, 0.02, 1.0])
    z = Y + spread * rng.normal(size=(n, 4))  # of the third, nearly all samples are at the kink
    z[:, 3] = 3.0 * Y[:, 3]  # the last one has none near it
    bound, goal = get_shared_loss("hinge", kinks=True).bind(Y, np.ones(n)), 30.0
    assert bound.smoothed(0.5).error(z) > goal
    each = smaller_smoothing(bound, z, 0.5, goal)
    assert each.shape == (4,)
    assert 0.5 * goal <= bound.smoothed(each).error(z) <= goal
    assert each[3] == 0.5  # it needs none of the goal, which is left to the others
    assert each[2] < 0.5 * each[:2].min()
    errors = [own.smoothed(mu).error(x) for own, mu, x in zip(bound.outputs, each.tolist(), z.T, strict=True)]
    assert errors[3] == 0.0
    assert 0.75 * goal / 3 <= min(errors[:3]) <= max(errors) <= 1.25 * goal / 3
    smaller = smaller_smoothing(bound, z, each, 0.1 * goal)
    assert (smaller <= each).all()
    assert bound.smoothed(smaller).error(z) <= 0.1 * goal


def test_the_dual_variables_found_are_a_center_around_which_less_is_missed() -> None:
    """Minimized around them, the same smoothing adds less and less to the gap: around zero, as much again."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(300, 2))
    y = np.where(np.sin(2 * X[:, 0]) + rng.normal(size=300) > 0, 1.0, -1.0)
    problem = Problem(FourierStack.grid(X, [0.5, 2.0]), y, get_loss("hinge"), get_regularizer("l1", 2.0))
    operators, center, errors = problem.stack.operators([0, 1, 2, 3], 1e-6), 0.0, []
    point = Point(np.zeros(sum(int(one.starts[-1]) for one in operators)), 0.0, np.zeros(300))
    for _ in range(4):
        objective = FactoredObjective(problem, operators, 0.3, center)
        fit = minimize(objective, point, 1e-6, 200)
        assert fit.gap <= 1e-6
        error, (lo, hi) = objective.loss.error(fit.point.z), problem.dual_box
        scale = problem.regularizer.dual_scale(objective.penalty.dual_norms(fit.adjoint))
        dual = -problem.bound.conjugate_at(fit.rho, scale, fit.point.z)  # of the loss itself
        primal = problem.bound.value(fit.point.z) + objective.penalty.value(fit.point.v)
        np.testing.assert_allclose(primal - dual, error, rtol=1e-5, atol=2e-6)
        point, center = fit.point, center_at(problem.bound, fit.slopes)
        assert isinstance(center, np.ndarray)
        assert ((center >= lo) & (center <= hi)).all()
        errors.append(error)
    assert errors[0] > 0.1
    assert errors[1] < 0.5 * errors[0]
    assert errors[3] < 0.5 * errors[1]


@pytest.mark.parametrize("name", KINKED)
def test_error_falls_with_the_square_of_the_smoothing(name):
    rng, loss = np.random.default_rng(1), get_loss(name)
    y = rng.choice([-1.0, 1.0], 200_000) if loss.task == "classification" else rng.normal(size=200_000)
    z = 2 * rng.normal(size=200_000)
    wide, narrow = (loss.bind(y, np.ones(200_000)).smoothed(mu).error(z) for mu in (0.08, 0.02))
    assert 12 < wide / narrow < 20


def test_kinked_losses_converge_in_few_newton_steps():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(6000, 4))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=6000) > 0, 1.0, -1.0)
    bank = KernelBank.per_feature(widths=[0.5, 1.0, 2.0])
    model = on_factors(X, y, bank, loss="hinge", alpha="0.05*max")
    assert model.dual_gap <= 1e-4
    assert model.history[-1].newton_steps <= 18


@pytest.mark.parametrize("seed", [0, 4, 8, 9, 11])
def test_steps_that_promise_less_than_rounding_of_the_objective_still_bring_slopes_to_rest(seed: int) -> None:
    """Slopes are differences of scores over the smoothing: off by 1e-13, they leave a gap of a hundred thousandth."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 2))
    y = np.where(np.sin(2 * X[:, 0]) + rng.normal(size=40) > 0, 1.0, -1.0)
    problem = Problem(FourierStack.grid(X, [0.5, 2.0]), y, get_loss("hinge"), get_regularizer("l1", 1.0))
    objective = FactoredObjective(problem, problem.stack.operators([0, 1, 2, 3], 1e-6), 3e-7)
    v = np.zeros(objective.rank)
    best = minimize(objective, Point(v, 0.0, objective.scores(v)), 1e-7, 400).point
    moved = best.v * (1.0 + 1e-13 * rng.normal(size=v.size))
    found = minimize(objective, Point(moved, best.b, objective.scores(moved) + best.b), 1e-8, 20)
    assert found.gap <= 1e-6
