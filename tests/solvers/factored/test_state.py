"""Where a fit begins that goes on from another strength."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from manykernels import Gaussian, KernelBank, Linear
from manykernels.grams.factored import factored_stack
from manykernels.kernels import Shaped
from manykernels.objective import Problem, get_loss, get_regularizer
from manykernels.solvers.factored.objective import Coefficients
from manykernels.solvers.factored.solver import FactoredNewton
from manykernels.solvers.factored.state import Start
from manykernels.solvers.factored.working_set import FactoredWorkingSet


def coefficients(own: dict[int, list[float]]) -> Coefficients:
    starts = np.cumsum([0, *map(len, own.values())])
    return Coefficients(np.array(list(own)), starts, np.concatenate(list(own.values())))


def start(before: tuple[float, dict[int, list[float]]] | None, scores: bool = False) -> Start:
    earlier, own = None, coefficients({3: [1.0, 2.0], 5: [4.0]})
    if before is not None:
        old = coefficients(before[1])
        known = np.array([0.0, 3.0]) if scores else None
        earlier = Start(old.kernels, old, -1.0, 1e-3, 0.5, strength=before[0], scores=known)
    known = np.array([1.0, 1.0]) if scores else None
    return Start(own.kernels, own, 0.0, 1e-3, 0.5, strength=2.0, before=earlier, scores=known)


def test_coefficients_go_on_as_they_came_for_each_unit_of_the_strength() -> None:
    ahead, intercept, scores = start((6.0, {3: [0.0, 4.0], 4: [1.0]}), scores=True).extrapolate(1.0)
    assert ahead.kernels.tolist() == [3, 5]
    np.testing.assert_allclose(ahead.v, [1.25, 1.5, 5.0])  # the last was zero
    assert intercept == 0.0
    assert scores is None  # one of the kernels left


def test_scores_go_along_where_all_coefficients_do() -> None:
    _, intercept, scores = start((6.0, {3: [0.0, 4.0]}), scores=True).extrapolate(1.0)
    assert intercept == pytest.approx(0.25)
    np.testing.assert_allclose(scores, [1.25, 0.5])
    assert start((6.0, {3: [0.0, 4.0]})).extrapolate(1.0)[2] is None


def test_coefficients_stay_without_a_larger_strength_before_nor_too_far_and_where_ranks_changed() -> None:
    stays = [None, (2.0, {3: [0.0, 0.0]}), (1.0, {3: [0.0, 0.0]}), (2.1, {3: [0.0, 0.0]})]
    for before in stays:
        np.testing.assert_array_equal(start(before).extrapolate(1.0)[0].v, [1.0, 2.0, 4.0])
    ahead, _, scores = start((6.0, {3: [0.0] * 4}), scores=True).extrapolate(1.0)
    np.testing.assert_allclose(ahead.v, [1.0, 2.0, 5.0])
    assert scores is None


def test_coefficients_of_finer_factors_begin_with_those_of_coarser_ones_for_each_output() -> None:
    own, wider = coefficients({7: [1.0, 2.0, 3.0, 4.0], 2: [5.0, 6.0]}), np.array([0, 2, 8])
    found = own.transfer(np.array([2, 7]), wider, 2)
    np.testing.assert_allclose(found, [5.0, 6.0, 1.0, 2.0, 0.0, 3.0, 4.0, 0.0])
    np.testing.assert_allclose(own.transfer(np.array([2, 7]), wider), [5.0, 6.0, *[0.0] * 6])
    whole = Coefficients.create(np.array([4, 1, 9]), np.array([0, 2, 3, 5]), np.array([0.0, 0.0, 2.0, 0.0, 1.0]))
    assert (whole.kernels.tolist(), whole.starts.tolist(), whole.v.tolist()) == ([1, 9], [0, 1, 3], [2.0, 0.0, 1.0])


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_strength_begins_nearer_its_optimum_where_two_before_it_say_where_the_path_goes(loss: str) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(120, 12))
    scores = X[:, :4] @ rng.normal(size=4) + rng.normal(size=120)
    y = np.sign(scores) if loss == "logistic" else scores
    bank = KernelBank([(f"group {g}", Linear(), [2 * g, 2 * g + 1]) for g in range(6)])
    stack, solver, found = factored_stack(X, bank), FactoredNewton(tol=1e-6), None
    for strength in (2.0, 1.9, 1.8):
        problem = Problem(stack, y, get_loss(loss), get_regularizer("l1", strength))
        begun, found = found, solver.solve(problem, found)  # the same kernels at all three
    assert begun is not None
    assert found is not None
    assert found.active.tolist() == begun.active.tolist()
    own = begun.functions.start

    def first(given: Start) -> float:
        return next(FactoredWorkingSet(problem, 1e-6, 100, np.inf).rounds(given)).primal

    optimum = found.certificate.primal
    assert first(own) - optimum < 0.2 * (first(replace(own, before=None)) - optimum)


@pytest.mark.parametrize("n_targets", [1, 2])
def test_scores_that_a_strength_begins_with_are_those_of_its_coefficients(n_targets: int) -> None:
    rng = np.random.default_rng(5)
    X = np.asfortranarray(rng.normal(size=(300, 200)))
    y = X[:, :8] @ rng.normal(size=(8, n_targets)) + rng.normal(size=(300, n_targets))
    stack = factored_stack(X, KernelBank([(f"group {g}", Linear(), [2 * g, 2 * g + 1]) for g in range(100)]))
    own = Problem(stack, y if n_targets > 1 else y[:, 0], get_loss("squared"), get_regularizer("l1", 1.0))
    solver, found, along = FactoredNewton(tol=1e-4), None, 0
    for strength in 2000.0 * 0.8 ** np.arange(16):
        problem = replace(own, regularizer=get_regularizer("l1", float(strength)))
        if found is not None and (begun := found.functions.start) is not None:
            state = FactoredWorkingSet(problem, 1e-4, 100, np.inf)._continued(begun)
            exact = state.objective.scores(state.point.v) + state.point.b
            np.testing.assert_allclose(state.point.z, exact, rtol=1e-9, atol=1e-9)
            along += not state.point.whole
        found = solver.solve(problem, found)
    assert along > 3  # as combinations of those before


def test_functions_in_cones_begin_inside_of_them_wherever_their_paths_point() -> None:
    x = np.random.default_rng(3).uniform(-2, 2, size=60)
    entry = ("curve", Shaped(Gaussian(1.0), "increasing", points=tuple(np.linspace(-2, 2, 9))), [0])
    stack = factored_stack(x[:, None], KernelBank([entry], normalize=None))
    problem = Problem(stack, np.sin(x), get_loss("squared"), get_regularizer("l1", 0.5))
    own = FactoredNewton(tol=1e-6).solve(problem).functions.start
    backward = replace(own.coefficients, v=3.0 * own.coefficients.v)
    before = replace(own, strength=0.75, coefficients=backward)
    given = replace(own, before=before)  # one step further along this path is the function's negative
    half = replace(problem, regularizer=get_regularizer("l1", 0.25))
    state = FactoredWorkingSet(half, 1e-6, 100, np.inf)._continued(given)
    (constraints,) = state.objective.penalty.cones
    assert np.linalg.norm(state.point.v) > 0
    assert (constraints @ state.point.v).min() >= -1e-9 * np.linalg.norm(state.point.v)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_gaps_of_a_path_are_those_of_the_problem(loss: str) -> None:
    rng = np.random.default_rng(4)
    X = np.asfortranarray(rng.normal(size=(150, 120)))
    scores = X[:, :6] @ rng.normal(size=6) + rng.normal(size=150)
    y = np.sign(scores) if loss == "logistic" else scores
    stack = factored_stack(X, KernelBank([(f"group {g}", Linear(), [2 * g, 2 * g + 1]) for g in range(60)]))
    solver, found = FactoredNewton(tol=1e-5), None
    slopes = y - y.mean() if loss == "squared" else 0.5 * (y - y.mean())
    for strength in float(np.sqrt(stack.quad(slopes).max())) * 0.93 ** np.arange(1, 15):
        problem = Problem(stack, y, get_loss(loss), get_regularizer("l1", float(strength)))
        found = solver.solve(problem, found)
        whole = problem.certificate(found.dual_coef, found.kernel_weights, found.intercept)
        assert found.certificate.relative_gap <= 1e-5
        assert whole.dual == pytest.approx(found.certificate.dual, rel=1e-9)
        assert (found.certificate.dual_norms >= problem.dual_norms(found.dual_coef) * (1 - 1e-9)).all()


def on_columns(loss: object, sign: float = 1.0) -> Problem:
    X = np.random.default_rng(0).normal(size=(120, 6))
    y = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=120)
    stack = factored_stack(X, KernelBank.per_feature(widths=[0.5, 2.0]))
    return Problem(stack, sign * y, loss, get_regularizer("l1", 1.0)).at_fraction(0.5)


def test_a_loss_by_name_goes_on_from_the_pass_of_another_strength() -> None:
    passes = {}
    for how, losses in {"object": [get_loss("squared")] * 2, "name": ["squared", "squared"]}.items():
        problem = on_columns(losses[0])
        first = FactoredNewton(tol=1e-4).solve(problem)
        other = Problem(problem.stack, problem.y, losses[1], get_regularizer("l1", 0.9 * problem.regularizer.strength))
        before = problem.stack.counters.passes
        assert FactoredNewton(tol=1e-4).solve(other, warm_start=first).dual_gap <= 1e-4
        passes[how] = problem.stack.counters.passes - before
    assert passes["name"] == passes["object"]


def test_bounds_of_the_empty_model_certify_no_model_that_a_fit_goes_on_from() -> None:
    opposite = on_columns("squared", -1.0)
    first = FactoredNewton(tol=1e-6).solve(opposite)
    other = Problem(opposite.stack, -opposite.y, "squared", get_regularizer("l1", 1.0)).at_fraction(0.5)  # makes a pass
    best = FactoredNewton(tol=1e-8).solve(replace(other))
    found = FactoredNewton(tol=1e-6).solve(other, warm_start=first)
    assert found.certificate.dual <= best.certificate.primal * (1.0 + 1e-7)
    assert found.certificate.primal == pytest.approx(best.certificate.primal, rel=1e-5)
