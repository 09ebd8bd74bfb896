"""Losses with kinks by interior points on factors: few steps, the true loss, and what follows where they fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.support.factored import on_factors

from manykernels import KernelBank, solve
from manykernels.grams.factored import factored_stack
from manykernels.objective import Problem, get_loss, get_regularizer
from manykernels.solvers.factored import kinks, working_set
from manykernels.solvers.factored.kinks import minimize_kinked, samples_at, takes_interior
from manykernels.solvers.factored.newton import minimize
from manykernels.solvers.factored.objective import FactoredObjective, Point
from manykernels.solvers.gram.sample_variables import BoxSamples, paired_samples
from manykernels.solvers.gram.start import interior_point

BANK = KernelBank.per_feature(widths=[0.3, 3.0])


def data(n: int, columns: int, loss: str, outputs: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, columns))
    score = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 - 0.5 + 0.5 * rng.logistic(size=n)
    if outputs > 1:
        others = np.roll(X[:, :2], 1, axis=1) @ rng.normal(size=(2, outputs - 1)) + rng.logistic(size=(n, outputs - 1))
        score = np.column_stack([score, others])
    return X, np.where(score > 0, 1.0, -1.0) if loss == "hinge" else score


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive", "quantile"])
def test_many_coefficients_take_no_more_steps_than_few(loss: str, outputs: int) -> None:
    """Smoothed, each of these took 60 to 130: a coefficient for every second row leaves few rows between the kinks."""
    X, y = data(900, 12, loss, outputs)
    found = on_factors(X, y, BANK, loss=loss, alpha="0.03*max")
    assert found.dual_gap <= 1e-4
    assert max(each.rank for each in found.functions.rounds) >= 300 * outputs
    assert found.newton_steps <= 25


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive", "quantile"])
@pytest.mark.parametrize("penalty", ["l1", "elasticnet", "ridge"])
def test_the_objective_is_that_of_matrices(loss: str, penalty: str) -> None:
    X, y = data(400, 3, loss)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 400)
    given = {"loss": loss, "penalty": penalty, "alpha": "0.1*max", "tol": 1e-7, "sample_weight": weight}
    on_matrices = solve(BANK, y, X=X, representation="gram", **given)
    found = solve(BANK, y, X=X, representation="factored", **given)
    for one in (found, on_matrices):
        assert one.certificate.relative_gap <= 1e-7
    np.testing.assert_allclose(found.certificate.primal, on_matrices.certificate.primal, rtol=2e-7)


def problem_of(loss: str, outputs: int = 1, n: int = 300) -> tuple[FactoredObjective, Point]:
    X, y = data(n, 3, loss, outputs)
    problem = Problem(factored_stack(X, BANK), y, get_loss(loss), get_regularizer("l1", 1.0)).at_fraction(0.1)
    objective = FactoredObjective(problem, problem.stack.operators(range(6), 1e-6), 0.0)
    b = problem.best_constant
    return objective, Point(np.zeros(objective.rank), b, problem.constant_scores(b))


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("loss", ["hinge", "quantile"])
def test_losses_of_many_rows_are_smoothed_where_sweeps_cost_less(
    loss: str, outputs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Own and shared weights alike; a step from an interior point reads all rows for each pair of coefficients."""
    few, many = (problem_of(loss, outputs, n)[0] for n in (1500, 8000))
    assert takes_interior(few)
    assert not takes_interior(many)
    monkeypatch.setattr(kinks, "predict_sweep_cost", lambda objective: np.inf)  # as where there are no sweeps
    assert takes_interior(many)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive", "quantile"])
def test_the_gap_is_that_of_the_true_loss_on_the_factors(loss: str, outputs: int) -> None:
    objective, point = problem_of(loss, outputs)
    problem = objective.problem
    assert takes_interior(objective)
    before = problem.empirical_loss(point.z)
    samples = samples_at(problem, -problem.zero_model()[0], before, None)
    fit = minimize_kinked(objective, point, samples, 1e-7 * before, 60)
    assert fit.gap <= 1e-7 * before
    value = problem.empirical_loss(fit.point.z) + objective.penalty.value(fit.point.v)
    np.testing.assert_allclose(objective.scores(fit.point.v) + fit.point.b, fit.point.z, atol=1e-9)
    low, high = problem.dual_box
    assert (fit.rho >= low - 1e-12).all()
    assert (fit.rho <= high + 1e-12).all()
    assert value - objective.dual_value(fit.point.z, fit.rho, fit.adjoint) <= 1e-6 * before
    assert objective.penalty.norms(fit.point.v).min() == 0.0  # what a step aims at has exact zeros


def test_directions_that_bring_products_together_leave_fewer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shortest step of all outputs is that of all: without such directions it took 27 steps in place of 16."""
    X, y = data(2500, 4, "hinge", 5)
    given = {"loss": "hinge", "alpha": "0.03*max"}
    found = on_factors(X, y, BANK, **given)
    monkeypatch.setattr(kinks, "CORRECTIONS_OF_STEPS", 0)
    without = on_factors(X, y, BANK, **given)
    assert max(found.dual_gap, without.dual_gap) <= 1e-4
    assert found.newton_steps <= 0.8 * without.newton_steps


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
def test_a_direction_that_brings_products_together_solves_its_own_equations(loss: str) -> None:
    """Those that would be ten times off the target are asked to end nearer to it, the others at the target."""
    rng, n = np.random.default_rng(2), 40
    y = rng.choice([-1.0, 1.0], n) if loss == "hinge" else rng.normal(size=n)
    problem = Problem(np.eye(n)[None], y, get_loss(loss), get_regularizer("l1", 1.0))
    samples = paired_samples(problem, interior_point(problem, rng.normal(size=n)), 0.1)
    assert isinstance(samples, BoxSamples)
    samples.multiplier = samples.multiplier * rng.uniform(0.1, 10.0, samples.multiplier.size)
    target, drho = 0.05, 0.05 * rng.normal(size=n)
    samples.linearize(target)
    samples.set_direction(drho)
    slack, multiplier = samples._dslack, samples._dmultiplier
    ahead = (samples.slack + 0.5 * slack) * (samples.multiplier + 0.6 * multiplier)
    samples.correct(0.5, 0.6)
    samples.set_direction(drho)
    reached = samples.slack * samples.multiplier + samples.slack * samples._dmultiplier + samples.multiplier * slack
    np.testing.assert_allclose(reached, target + np.maximum(np.clip(ahead, 0.005, 0.5) - ahead, -0.5), atol=1e-12)
    assert (np.abs(reached - target) > 1e-6).any()


def test_smoothing_takes_over_where_interior_points_lead_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data(500, 4, "hinge")

    def lost(*arguments: object) -> object:
        fit = minimize_kinked(*arguments)  # type: ignore[arg-type]
        return replace(fit, gap=np.inf)

    def seen(objective: FactoredObjective, *arguments: object) -> object:
        smoothed.append(float(objective.mu))
        return minimize(objective, *arguments)  # type: ignore[arg-type]

    smoothed: list[float] = []
    monkeypatch.setattr(kinks, "minimize_kinked", lost)
    monkeypatch.setattr(working_set, "minimize", seen)
    monkeypatch.setattr(working_set.FactoredWorkingSet, "_smaller_as_matrices", lambda *_: False)
    found = on_factors(X, y, BANK, loss="hinge", alpha="0.1*max")
    assert found.dual_gap <= 1e-4
    assert len(smoothed) > 1
    assert (np.diff(smoothed) <= 0).all()
    assert smoothed[-1] > 0


@pytest.mark.parametrize("outputs", [1, 2])
def test_another_strength_goes_on_from_the_interior_point(outputs: int) -> None:
    X, y = data(900, 12, "hinge", outputs)
    given = {"loss": "hinge", "penalty": "l1", "outputs": "shared"}
    stack = factored_stack(X, BANK)
    first = solve(stack, y, alpha="0.1*max", **given)
    cold = solve(stack, y, alpha="0.09*max", **given)
    warm = solve(stack, y, alpha="0.09*max", warm_start=first, **given)
    assert max(cold.dual_gap, warm.dual_gap) <= 1e-4
    np.testing.assert_allclose(warm.certificate.primal, cold.certificate.primal, rtol=1e-4)
    assert 0 < warm.newton_steps < cold.newton_steps
