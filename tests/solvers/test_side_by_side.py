"""Steps of several targets side by side come to the optimum of each, or say that they did not."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from manykernels.estimators.selection import search
from manykernels.estimators.selection.mixtures import Mixture
from manykernels.estimators.supervised.problems import solve_problems
from manykernels.grams import DenseStack, PackedStack
from manykernels.objective import Problem, get_loss, get_regularizer
from manykernels.objective.regularizers import BlockL1, ElasticNet, Regularizer
from manykernels.solvers import Solution, Status, WorkingSet
from manykernels.solvers.gram import side_by_side
from manykernels.solvers.gram.side_by_side import goes_side_by_side, kernels_are_few, solve_side_by_side

TOL = 2e-3


def posed(loss: str, penalty: Regularizer, *, n_kernels: int = 4, intercept: bool = True) -> list[Problem]:
    """Return three targets on the same kernels, with weights and penalties."""
    rng = np.random.default_rng(3)
    points = rng.normal(size=(n_kernels, 90, 2))
    squares = ((points[:, :, None] - points[:, None]) ** 2).sum(axis=3)
    stack = DenseStack(np.exp(-squares))
    scores = np.sin(2 * points[:3, :, 0]) + 0.5 * points[1:4, :, 1] + 0.3 * rng.normal(size=(3, 90))
    given = {"sample_weight": rng.uniform(0.5, 2.0, 90), "kernel_penalties": rng.uniform(0.5, 2.0, n_kernels)}
    targets = {"logistic": np.sign(scores), "squared": scores, "poisson": rng.poisson(np.exp(scores))}[loss]
    return [
        Problem(stack, y.astype(float), get_loss(loss), penalty.multiplied(1.0 + k), **given)
        if intercept
        else Problem(stack, y.astype(float), get_loss(loss), penalty, fit_intercept=False, **given)
        for k, y in enumerate(targets)
    ]


def at(problems: list[Problem], factor: float) -> list[Problem]:
    """Return the problems at other strengths."""
    return [own.with_penalty(own.regularizer.multiplied(factor)) for own in problems]


def solved(problems: list[Problem]) -> list[Solution]:
    """Return the models of another solver."""
    return [WorkingSet(tol=1e-8).solve(own) for own in problems]


@pytest.mark.parametrize("penalty", [BlockL1(1.0), ElasticNet(1.0, l1_ratio=0.5)], ids=["l1", "elasticnet"])
@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson"])
@pytest.mark.parametrize("intercept", [True, False])
def test_models_are_within_the_tolerance_of_the_optimum(loss: str, penalty: Regularizer, *, intercept: bool) -> None:
    problems = posed(loss, penalty, intercept=intercept)
    assert goes_side_by_side(problems, TOL)
    optima = [own.certificate.primal for own in solved(problems)]
    for factor in (2.0, 0.6):
        found = solve_side_by_side(problems, solved(at(problems, factor)), TOL)
        for own, optimum, problem in zip(found, optima, problems, strict=True):
            assert own is not None
            assert own.status is Status.CONVERGED
            assert own.certificate.relative_gap <= TOL
            assert own.certificate.dual <= optimum * (1 + 1e-9)
            assert optimum <= own.certificate.primal * (1 + 1e-9)
            again = problem.certificate(own.dual_coef, own.kernel_weights, own.intercept)
            assert again.primal == pytest.approx(own.certificate.primal, rel=1e-12)
            norms = problem.model_parts(own.dual_coef, own.kernel_weights)[1] / problem.penalties
            np.testing.assert_allclose(own.kernel_norms, norms)


def test_a_start_that_knows_some_of_the_rows_will_do() -> None:
    problems = posed("logistic", BlockL1(1.0))
    known = np.arange(70)
    parts = [
        Problem(
            problem.stack.restrict(known), problem.y[known], problem.loss, problem.regularizer,
            sample_weight=problem.weight[known], kernel_penalties=problem.penalties,
        )
        for problem in problems
    ]  # fmt: skip
    found = solve_side_by_side(problems, [own.scattered(known, 90) for own in solved(parts)], TOL)
    assert all(own is not None and own.certificate.relative_gap <= TOL for own in found)


def test_what_comes_to_no_end_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = posed("logistic", BlockL1(0.2))
    near = solved(at(problems, 1.5))
    nothing = [replace(own, dual_coef=0 * own.dual_coef, kernel_weights=0 * own.kernel_weights) for own in near]
    for own in solve_side_by_side(problems, [near[0], nothing[1], near[2]], TOL):
        assert own is None or own.certificate.relative_gap <= TOL
    monkeypatch.setattr(side_by_side, "MOST_STEPS", 1)
    assert solve_side_by_side(problems, solved(at(problems, 4.0)), 1e-3) == [None] * 3


def test_targets_in_groups_and_kernels_in_triangles_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = posed("logistic", BlockL1(1.0))
    starts = solved(at(problems, 1.5))
    together = solve_side_by_side(problems, starts, TOL)
    packed = PackedStack.from_stack(problems[0].stack, dtype=np.float32)
    of_triangles = solve_side_by_side([replace(own, stack=packed) for own in problems], starts, TOL)
    monkeypatch.setattr(side_by_side, "MOST_BYTES", 1)
    for own, other, third in zip(together, solve_side_by_side(problems, starts, TOL), of_triangles, strict=True):
        assert own is not None
        assert other is not None
        assert third is not None
        np.testing.assert_allclose(own.kernel_weights, other.kernel_weights, rtol=1e-3, atol=1e-6)
        np.testing.assert_allclose(own.certificate.primal, third.certificate.primal, rtol=1e-4)


def test_what_does_not_go_side_by_side() -> None:
    problems = posed("logistic", BlockL1(1.0))
    assert goes_side_by_side(problems, 1e-2)
    assert not goes_side_by_side(problems, 1e-4)
    assert not goes_side_by_side(posed("logistic", get_regularizer("lq", 1.0, q=1.5)), 1e-2)
    assert not goes_side_by_side(posed("logistic", get_regularizer("ridge", 1.0)), 1e-2)
    assert not goes_side_by_side([replace(own, loss=get_loss("hinge")) for own in problems], 1e-2)
    assert not goes_side_by_side(posed("logistic", BlockL1(1.0), n_kernels=600), 1e-2)  # read in every step
    assert goes_side_by_side(posed("logistic", BlockL1(1.0), n_kernels=250), 1e-2)
    assert not goes_side_by_side(posed("logistic", BlockL1(1.0), n_kernels=250)[:1], 1e-2)  # for one target alone
    assert not goes_side_by_side([problems[0], posed("logistic", BlockL1(1.0))[1]], 1e-2)  # on a stack of its own


@pytest.mark.parametrize(("n_samples", "n_targets", "most"), [(800, 1, 8), (800, 2, 16), (800, 10, 80), (100, 3, 300)])
def test_steps_side_by_side_read_few_kernels(n_samples: int, n_targets: int, most: int) -> None:
    assert kernels_are_few(most, n_samples, n_targets)
    assert not kernels_are_few(most + 1, n_samples, n_targets)


def test_the_scale_of_sample_weights_changes_nothing() -> None:
    """Weights of a million a sample: kernels in use were set to zero, and no target came within the tolerance."""
    unit = 2.0**20
    problems = posed("logistic", BlockL1(1.0))
    large = [
        replace(own, sample_weight=unit * own.weight, regularizer=own.regularizer.multiplied(unit)) for own in problems
    ]
    found = [solve_side_by_side(each, solved(at(each, 0.6)), TOL) for each in (problems, large)]
    for own, other in zip(*found, strict=True):
        assert own is not None
        assert other is not None
        assert np.array_equal(own.active, other.active)
        assert other.certificate.primal == pytest.approx(unit * own.certificate.primal, rel=TOL)


def test_a_time_limit_holds_for_steps_side_by_side_and_what_follows_together(monkeypatch: pytest.MonkeyPatch) -> None:
    problems, left = posed("logistic", BlockL1(1.0)), []

    def slow(*args: Any) -> list[None]:
        time.sleep(0.05)
        return [None] * len(problems)

    def noted(*args: Any, time_limit: float, **settings: Any) -> Any:
        left.append(time_limit)
        return solve_problems(*args, **settings)

    monkeypatch.setattr(search, "solve_side_by_side", slow)
    monkeypatch.setattr(search, "solve_problems", noted)
    mixture = Mixture("all kernels", np.ones(4), 1.0)
    penalties = [own.regularizer for own in problems]
    starts = solved(problems)
    fit = search.learned(problems, [mixture] * 3, penalties, starts, "auto", 1, tol=1e-3, time_limit=60.0)
    assert all(own.status is Status.CONVERGED for own in fit.solutions)
    assert len(left) == 1
    assert left[0] <= 60.0 - 0.05
