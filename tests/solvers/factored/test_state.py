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


def start(before: tuple[float, dict[int, list[float]]] | None) -> Start:
    earlier = None if before is None else (before[0], coefficients(before[1]))
    own = coefficients({3: [1.0, 2.0], 5: [4.0]})
    return Start(own.kernels, own, 0.0, 1e-3, 0.5, strength=2.0, before=earlier)


def test_a_trend_is_what_coefficients_gained_for_each_unit_of_the_strength() -> None:
    rates = start((6.0, {3: [0.0, 4.0], 4: [1.0]})).trend
    assert rates is not None
    assert rates.kernels.tolist() == [3, 5]
    np.testing.assert_allclose(rates.v, [0.25, -0.5, 1.0])  # the last was zero


def test_there_is_no_trend_without_a_larger_strength_before_nor_between_factors_of_other_ranks() -> None:
    assert start(None).trend is None
    assert start((2.0, {3: [0.0, 0.0]})).trend is None
    assert start((1.0, {3: [0.0, 0.0]})).trend is None
    rates = start((6.0, {3: [0.0] * 4})).trend
    assert rates is not None
    np.testing.assert_allclose(rates.v, [0.0, 0.0, 1.0])


def test_coefficients_of_finer_factors_begin_with_those_of_coarser_ones_for_each_output() -> None:
    own, wider = coefficients({7: [1.0, 2.0, 3.0, 4.0], 2: [5.0, 6.0]}), np.array([0, 2, 8])
    found = own.onto(np.array([2, 7]), wider, 2)
    np.testing.assert_allclose(found, [5.0, 6.0, 1.0, 2.0, 0.0, 3.0, 4.0, 0.0])
    np.testing.assert_allclose(own.onto(np.array([2, 7]), wider), [5.0, 6.0, *[0.0] * 6])
    whole = Coefficients.of(np.array([4, 1, 9]), np.array([0, 2, 3, 5]), np.array([0.0, 0.0, 2.0, 0.0, 1.0]))
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


def test_functions_in_cones_begin_inside_of_them_wherever_their_paths_point() -> None:
    x = np.random.default_rng(3).uniform(-2, 2, size=60)
    entry = ("curve", Shaped(Gaussian(1.0), "increasing", points=tuple(np.linspace(-2, 2, 9))), [0])
    stack = factored_stack(x[:, None], KernelBank([entry], normalize=None))
    problem = Problem(stack, np.sin(x), get_loss("squared"), get_regularizer("l1", 0.5))
    own = FactoredNewton(tol=1e-6).solve(problem).functions.start
    backward = replace(own.coefficients, v=3.0 * own.coefficients.v)
    given = replace(own, before=(0.75, backward))  # one step further along this path is the function's negative
    half = replace(problem, regularizer=get_regularizer("l1", 0.25))
    state = FactoredWorkingSet(half, 1e-6, 100, np.inf)._continued(given)
    (constraints,) = state.objective.penalty.cones
    assert np.linalg.norm(state.point.v) > 0
    assert (constraints @ state.point.v).min() >= -1e-9 * np.linalg.norm(state.point.v)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_gaps_of_a_path_are_those_of_whole_passes_though_most_kernels_are_only_bounded(loss: str) -> None:
    rng = np.random.default_rng(4)
    X = np.asfortranarray(rng.normal(size=(150, 120)))
    scores = X[:, :6] @ rng.normal(size=6) + rng.normal(size=150)
    y = np.sign(scores) if loss == "logistic" else scores
    stack = factored_stack(X, KernelBank([(f"group {g}", Linear(), [2 * g, 2 * g + 1]) for g in range(60)]))
    solver, found, read = FactoredNewton(tol=1e-5), None, []
    slopes = y - y.mean() if loss == "squared" else 0.5 * (y - y.mean())
    for strength in float(np.sqrt(stack.quad(slopes).max())) * 0.93 ** np.arange(1, 15):
        problem = Problem(stack, y, get_loss(loss), get_regularizer("l1", float(strength)))
        found = solver.solve(problem, found)
        whole = problem.certificate(found.dual_coef, found.kernel_weights, found.intercept)
        assert found.certificate.relative_gap <= 1e-5
        assert whole.dual == pytest.approx(found.certificate.dual, rel=1e-9)
        assert (found.certificate.dual_norms >= problem.dual_norms(found.dual_coef) * (1 - 1e-9)).all()
        read.append(found.passes)
    assert np.mean(read[3:]) < 0.8  # of a pass
