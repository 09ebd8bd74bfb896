"""Where landmarks do not do, N x N matrices take over: the gap is that of brute force, or the message names kernels."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.solvers.factored.test_solve import brute_force, data
from tests.support.factored import largest_strength, on_factors

from manykernels import Gaussian, KernelBank, Linear, MKLRegressor, solve
from manykernels.exceptions import ConvergenceWarning
from manykernels.grams.factored import FactoredStack, factored_stack
from manykernels.grams.factored import landmarks as cholesky
from manykernels.objective import CoxPartial, survival_target
from manykernels.objective.losses import get_loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import get_regularizer
from manykernels.solvers.factored import working_set
from manykernels.solvers.factored.objective import FactoredObjective
from manykernels.solvers.factored.solver import FactoredNewton
from manykernels.solvers.factored.working_matrices import MixedStack, WorkingMatrices
from manykernels.solvers.factored.working_set import FactoredWorkingSet
from manykernels.solvers.gram.working_set import WorkingSet
from manykernels.testing import GramStackContract

Array = NDArray[Any]
NARROW = "all: gaussian(width=0.5*median)"


class TestMixedStack(GramStackContract):
    stack_class = MixedStack

    def dense(self, rng: np.random.Generator) -> Array:
        factors = rng.normal(size=(5, 40, 3))
        return factors @ factors.transpose(0, 2, 1)

    def create(self, rng: np.random.Generator) -> MixedStack:
        grams, factors = self.dense(np.random.default_rng(7)), rng.normal(size=(5, 40, 3))
        return MixedStack(list(grams[:2]), np.hstack(list(factors[2:])), np.arange(0, 12, 3))


def test_kernels_may_all_be_factors() -> None:
    Z = np.random.default_rng(0).normal(size=(20, 4))
    stack = MixedStack([], Z, np.array([0, 1, 4]))
    np.testing.assert_allclose(stack.combine([2.0, 1.0]), 2 * Z[:, :1] @ Z[:, :1].T + Z[:, 1:] @ Z[:, 1:].T)
    assert stack.diag().shape == (2, 20)


@pytest.fixture
def few_landmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rows per landmark as thousands of rows have, on hundreds of rows."""
    monkeypatch.setattr(FactoredWorkingSet, "_smaller_as_matrices", lambda *_: False)
    monkeypatch.setattr(cholesky, "MAX_RANK", 48)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
@pytest.mark.parametrize("penalty", ["l1", "elasticnet", "simplex", "lq"])
@pytest.mark.usefixtures("few_landmarks")
def test_matrices_take_over_where_landmarks_do_not_do(loss: str, penalty: str) -> None:
    rng = np.random.default_rng(3)
    X, y = data(rng, 160, 4, loss)
    bank = KernelBank.auto()
    fitted, prepared = bank.fit_prepare(X)
    weights = np.array([0.5 if name.startswith("all") else 1.0 for name in fitted.names])
    options = {"sample_weight": rng.uniform(0.5, 2.0, len(y)), "kernel_penalties": weights}
    regularizer = get_regularizer(penalty, 0.5)
    tol = 1e-4 if loss == "hinge" else 1e-6
    model = on_factors(X, y, bank, loss=loss, penalty=regularizer, tol=tol, **options)
    assert model.status == "converged"
    stack = model.functions.stack
    whole = {stack.name_of(c.kernel): c.tol is None for c in model.functions.components}
    assert whole[NARROW]
    assert not all(whole.values())
    grams = fitted.block(prepared, prepared)
    brute = brute_force(model, grams, y, get_loss(loss), regularizer, options)
    assert -1e-9 <= brute <= model.dual_gap + 1e-9
    exact = solve(grams, y, loss=loss, penalty=regularizer, tol=0.1 * tol, **options)
    assert model.certificate.primal == pytest.approx(exact.certificate.primal, rel=tol)


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
def test_few_rows_and_many_kernels_become_matrices_of_a_working_set(loss: str) -> None:
    X, y = data(np.random.default_rng(5), 60, 4, "hinge" if loss == "hinge" else "squared")
    bank = KernelBank.per_feature(widths=np.geomspace(0.1, 5.0, 30).tolist(), standardize=True)
    fitted, prepared = bank.fit_prepare(X)
    regularizer = get_regularizer("l1", 1.0)
    model = on_factors(X, y, bank, loss=loss, penalty=regularizer, tol=1e-5)
    assert model.status == "converged"
    assert {each.rank for each in model.functions.rounds} == {0}  # no Hessian in coefficients of factors
    assert max(each.working for each in model.functions.rounds) < 60  # of 120
    brute = brute_force(model, fitted.block(prepared, prepared), y, get_loss(loss), regularizer, {})
    assert -1e-9 <= brute <= model.dual_gap + 1e-9


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_more_coefficients_than_rows_go_on_in_matrices_from_where_factors_ended(
    monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    begun = []
    begin = WorkingMatrices.begin

    def recorded(matrices: WorkingMatrices, model: Any) -> None:
        begun.append(model)
        begin(matrices, model)

    monkeypatch.setattr(WorkingMatrices, "begin", recorded)
    X, y = data(np.random.default_rng(5), 200, 8, loss)
    bank = KernelBank.per_feature(widths=[0.3, 0.6, 1.2], standardize=True)
    fitted, prepared = bank.fit_prepare(X)
    regularizer = get_regularizer("l1", 0.5)
    model = on_factors(X, y, bank, loss=loss, penalty=regularizer, tol=1e-5)
    assert model.status == "converged"
    (start,) = begun
    assert np.count_nonzero(start[1]) > 1  # weights of the kernels that the first round of factors had
    brute = brute_force(model, fitted.block(prepared, prepared), y, get_loss(loss), regularizer, {})
    assert -1e-9 <= brute <= model.dual_gap + 1e-9


@pytest.mark.sampled(3)
@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
def test_kernels_with_many_directions_are_matrices_as_soon_as_they_enter(
    monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    monkeypatch.setattr(FactoredWorkingSet, "_smaller_as_matrices", lambda *_: False)
    in_factors: set[int] = set()

    def objective(problem: Problem, operators: list[Any], mu: float) -> FactoredObjective:
        in_factors.update(m for each in operators for m in each.kernels.tolist())
        return FactoredObjective(problem, operators, mu)

    monkeypatch.setattr(working_set, "FactoredObjective", objective)
    X, y = data(np.random.default_rng(4), 240, 4, loss)
    bank = KernelBank.auto()
    fitted, prepared = bank.fit_prepare(X)
    regularizer = get_regularizer("l1", 0.5)
    model = on_factors(X, y, bank, loss=loss, penalty=regularizer, tol=1e-5)
    assert model.status == "converged"
    stack = model.functions.stack
    whole = {stack.name_of(c.kernel): c.tol is None for c in model.functions.components}
    assert whole[NARROW]
    assert not any(form for name, form in whole.items() if not name.startswith("all"))
    assert bool(in_factors) == (loss != "hinge")  # the others tell first who enters, where no kink is to be smoothed
    assert not any(stack.many_directions(m) for m in in_factors)  # no landmark was a coefficient
    brute = brute_force(model, fitted.block(prepared, prepared), y, get_loss(loss), regularizer, {})
    assert -1e-9 <= brute <= model.dual_gap + 1e-9


@pytest.mark.usefixtures("few_landmarks")
def test_the_message_names_kernels_and_bytes_where_matrices_may_not_be_had() -> None:
    X, y = data(np.random.default_rng(3), 160, 4, "squared")
    stack = factored_stack(X, KernelBank.auto())
    stack.spare_bytes = 5000
    words = rf"leave a part of the trace of '{re.escape(NARROW)}' \(.*%\).* take 9\d\d kB, and 5.00 kB may be had"
    with pytest.warns(ConvergenceWarning, match="at most 48 landmarks at 160 rows, which " + words):
        model = on_factors(X, y, stack, loss="squared", alpha="0.02*max")
    assert model.status == "stalled"
    assert model.dual_gap > 1e-4
    problem = Problem(
        stack, y, get_loss("squared"), get_regularizer("l1", 0.02 * largest_strength(X, y, stack, "squared"))
    )
    with pytest.warns(ConvergenceWarning, match=r"Solver 'factored' stopped \(stalled\) .*" + words):
        FactoredNewton().solve(problem)
    stack.spare_bytes = 10**9
    assert str(FactoredNewton().solve(problem).status) == "converged"


@pytest.mark.usefixtures("few_landmarks")
def test_kernels_that_are_missing_enter_after_going_over() -> None:
    X, y = data(np.random.default_rng(5), 160, 4, "squared")
    stack = factored_stack(X, KernelBank.auto())
    problem = Problem(stack, y, get_loss("squared"), get_regularizer("l1", 1.0))
    problem = problem.with_penalty(get_regularizer("l1", 0.02 * problem.strength_max()))
    matrices = WorkingMatrices(problem, 1e-6)
    matrices.add([stack.n_kernels - 1])
    first = matrices.solve(1e-6, np.inf)
    matrices.add([0, stack.n_kernels - 3])
    second = matrices.solve(1e-6, np.inf)
    assert second.primal < first.primal
    assert sorted(matrices.kernels.tolist()) == sorted([stack.n_kernels - 1, 0, stack.n_kernels - 3])
    alone = replace(problem, stack=stack.take(matrices.kernels), kernel_penalties=None)
    assert second.primal == pytest.approx(solve_gram_primal(alone), rel=2e-6)


def solve_gram_primal(problem: Problem) -> float:
    """Return the optimum of the Gram solvers."""
    assert isinstance(problem.stack, FactoredStack)
    grams = problem.stack.block()
    return solve(grams, problem.y, loss="squared", penalty=problem.regularizer, tol=1e-8).certificate.primal


@pytest.mark.nightly
@pytest.mark.usefixtures("few_landmarks")
def test_estimators_go_over_and_predict_like_gram_models() -> None:
    rng = np.random.default_rng(8)
    X, y = data(rng, 90, 3, "squared")
    models = [
        MKLRegressor(resources={"representation": way}, alpha="0.02*max", tol=1e-5).fit(X, y)
        for way in ("factored", "gram")
    ]
    assert all(model.dual_gap_ <= 1e-5 for model in models)
    new = rng.normal(size=(30, 3))
    np.testing.assert_allclose(models[0].predict(new), models[1].predict(new), atol=0.02 * y.std())


@pytest.mark.usefixtures("few_landmarks")
def test_the_next_strength_goes_on_with_the_matrices_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data(np.random.default_rng(3), 160, 4, "squared")
    stack = factored_stack(X, KernelBank.auto())
    problem = Problem(stack, y, get_loss("squared"), get_regularizer("l1", 1.0))
    first, second = (
        problem.with_penalty(get_regularizer("l1", share * problem.strength_max())) for share in (0.02, 0.01)
    )
    start = FactoredNewton().solve(first)
    made: list[int] = []
    monkeypatch.setattr(WorkingMatrices, "_matrix", lambda self, kernel: made.append(kernel))
    found = FactoredNewton().solve(second, start)
    assert str(found.status) == "converged"
    assert not made  # nothing is evaluated twice
    monkeypatch.undo()
    assert found.certificate.primal == pytest.approx(FactoredNewton().solve(second).certificate.primal, rel=2e-4)
    assert found.certificate.relative_gap <= 1e-4


def survival_problem(stack: Any = None) -> Problem:
    """Return a problem of 150 times, on factors or on another stack of the same kernels."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, (150, 4))
    time = rng.exponential(np.exp(-np.sin(2 * X[:, 0]) - X[:, 1] * X[:, 2]))
    stack = factored_stack(X, KernelBank.auto()) if stack is None else stack
    target = survival_target(np.ones(150, dtype=bool), time)
    return Problem(stack, target, CoxPartial("breslow"), get_regularizer("l1", 0.3))


@pytest.mark.usefixtures("few_landmarks")
def test_a_loss_that_couples_samples_takes_more_landmarks_in_place_of_matrices() -> None:
    problem = survival_problem()
    found = FactoredNewton(tol=1e-6).solve(problem)
    assert str(found.status) == "converged"
    exact = WorkingSet(tol=1e-8).solve(survival_problem(problem.stack.block()))
    assert found.certificate.primal == pytest.approx(exact.certificate.primal, rel=2e-6)


@pytest.mark.usefixtures("few_landmarks")
@pytest.mark.parametrize("limit", ["FINE_ENTRIES", "STORED_BYTES"])
def test_the_message_names_matrices_where_there_are_no_more_landmarks(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cholesky if limit == "FINE_ENTRIES" else working_set, limit, 1)
    words = rf"trace of '{re.escape(NARROW)}'.*representation='gram'"
    with pytest.warns(ConvergenceWarning, match=words):
        FactoredNewton(tol=1e-6).solve(survival_problem())


@pytest.mark.parametrize("fraction", [1e-5, 1e-6])
def test_few_rows_go_over_where_steps_on_factors_come_no_further(fraction: float) -> None:
    """A penalty next to nothing on a target of noise: 300 steps on factors, of which one round took forty seconds."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(150, 4)), rng.choice([-1.0, 1.0], 150)
    bank = KernelBank.per_feature(widths=[0.3, 1.0, 3.0], standardize=True)
    stack = factored_stack(X, bank)
    found = solve(stack, y, loss="logistic", penalty="l1", alpha=f"{fraction}*max", tol=1e-4)
    assert found.status == "converged"
    assert len(found.history) <= 5


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_more_coefficients_than_rows_become_matrices_unless_sweeps_need_no_hessian(loss: str) -> None:
    def taken(n: int, columns: int) -> bool:
        X, y = data(np.random.default_rng(5), n, columns, loss)
        stack = factored_stack(X, KernelBank.per_feature(widths=[0.3, 0.6, 1.2], standardize=True))
        problem = Problem(stack, y, get_loss(loss), get_regularizer("l1", 0.5))
        methods = FactoredWorkingSet(problem, 1e-4, 50, np.inf)
        state = methods._start()
        methods._grow(state, np.arange(stack.n_kernels), False, 1.0)
        assert state.objective is not None
        assert (state.objective.rank > n) == (columns > 2)
        return methods._smaller_as_matrices(state)

    assert not taken(600, 2)
    assert taken(150, 8)
    assert not taken(2000, 60)  # sweeps over rows in bins


@pytest.mark.usefixtures("few_landmarks")
def test_the_message_speaks_of_single_columns_where_there_are_no_others() -> None:
    """Narrow kernels on one column were blamed as kernels on several columns."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.standard_cauchy(size=160) ** 3)[:, None]
    stack = factored_stack(x, KernelBank.per_feature(widths=[0.01]))
    stack.spare_bytes = 5000
    y = np.sign(rng.normal(size=160)) + rng.normal(size=160)
    with pytest.warns(ConvergenceWarning, match="Factors of narrow kernels on single columns have at most") as caught:
        on_factors(x, y, stack, loss="squared", alpha="0.02*max")
    assert "several columns" not in str(caught[0].message)


@pytest.mark.parametrize("penalty", ["l1", "ridge"])
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "quantile"])
def test_functions_without_a_penalty_are_no_sums_that_cancel(loss: str, penalty: str) -> None:
    """Dual coefficients are orthogonal to such functions, which huge weights times their kernel sums would be."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=60)
    entries = [(f"{j} {width}", Gaussian(width), [j]) for j in range(2) for width in (0.5, 1.0)]
    bank = KernelBank([("line", Linear(), [0, 1]), *entries], standardize=True)
    options = {"loss": loss, "penalty": {"line": None, "*": penalty}, "alpha": 0.05, "tol": 1e-6}
    models = [
        MKLRegressor(bank, resources={"representation": representation}, **options).fit(X, y)
        for representation in ("factored", "gram")
    ]
    assert [model.solution_.status for model in models] == ["converged", "converged"]
    values = [model.solution_.certificate.primal for model in models]
    assert values[0] == pytest.approx(values[1], rel=3e-6)
    np.testing.assert_allclose(models[0].predict(X), models[1].predict(X), atol=1e-2)
