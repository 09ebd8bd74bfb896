"""Shared weights on factors: the optimum of the Gram solver, and a gap that is never below the brute-force one."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from manykernels import KernelBank, MKLClassifier
from manykernels.exceptions import ConvergenceWarning
from manykernels.grams import as_stack
from manykernels.grams.factored import ExplicitStack, FactoredStack, FourierStack, factored_stack
from manykernels.grams.factored import landmarks as cholesky
from manykernels.kernels import Gaussian, Laplacian, Linear, Polynomial
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import BlockL1, BlockLq, ElasticNet, LpBall, Regularizer, Ridge, Simplex
from manykernels.solvers import SharedNewton, Solution
from manykernels.solvers.factored import kinks, newton
from manykernels.solvers.factored.group_penalty import add_free_group
from manykernels.solvers.factored.objective import FactoredObjective, OutputOperator
from manykernels.solvers.factored.quadratic_formed import FormedQuadratic
from manykernels.solvers.factored.solver import FactoredNewton
from manykernels.solvers.factored.working_set import FactoredWorkingSet

Array = NDArray[Any]

CLASSES = ("logistic", "squared_hinge", "hinge")
PENALTIES = (BlockL1(3.0), ElasticNet(2.0, 0.6), BlockLq(1.0, q=1.5), Ridge(1.0), Simplex(0.3), LpBall(1.0, p=1.5))


def data(rng: np.random.Generator, n: int, loss: str, n_targets: int = 3) -> tuple[Array, Array]:
    """Targets that need different columns, or classes that do."""
    X = rng.normal(size=(n, 3))
    signals = [np.sin(2 * X[:, 0]), X[:, 1] ** 2 - 1, 0.5 * X[:, 0] + 0.2 * X[:, 2], X[:, 1]]
    F = np.column_stack(signals[:n_targets]) + 0.3 * rng.normal(size=(n, n_targets))
    if loss not in CLASSES:
        return X, F
    codes = F.argmax(axis=1)
    codes[:n_targets] = np.arange(n_targets)  # every class occurs
    return X, np.where(codes[:, None] == np.arange(n_targets), 1.0, -1.0)


def expansion(stack: FactoredStack, component: Any, gram: Array) -> Array:
    """Coefficients of an exact function that is the factor's: on its landmarks, if it is a projection on some."""
    if component.tol is None:
        return component.coefficients  # of N x N matrices
    Z = stack.factor(component.kernel, component.tol)
    if isinstance(stack._locate(component.kernel)[0], (FourierStack, ExplicitStack)):  # type: ignore[attr-defined]
        return np.linalg.lstsq(Z.T, component.coefficients, rcond=1e-15)[0]
    landmarks = np.diag(gram) - np.einsum("ij,ij->i", Z, Z) <= 1e-11 * gram.max()
    alpha = np.zeros(len(gram))
    alpha[landmarks] = np.linalg.lstsq(gram[:, landmarks], Z @ component.coefficients, rcond=1e-15)[0]
    return alpha


def brute_force(problem: Problem, found: Solution, grams: Array) -> float:
    """Gap of the model's functions in the exact kernels, by dense algebra only."""
    s, w, rho = problem.weight, problem.penalties, found.dual_coef
    squares, scores = np.zeros(len(grams)), np.zeros(problem.y.shape) + found.intercept
    for component in found.functions.components:
        gram = grams[component.kernel]
        alpha = expansion(problem.stack, component, gram)  # type: ignore[arg-type]
        squares[component.kernel] += max(alpha @ gram @ alpha, 0.0)
        scores[:, component.target] += gram @ alpha
    primal = s @ problem.loss.value(problem.y, scores) + problem.regularizer.value(w * np.sqrt(squares))
    u = np.sqrt(np.maximum(np.einsum("it,mij,jt->m", rho, grams, rho), 0.0)) / w * (1 - 1e-9)  # less rounding
    dual = -float(s @ problem.loss.conjugate(problem.y, rho / s[:, None])) - problem.regularizer.conjugate(u)
    assert np.isfinite(dual)
    if problem.fit_intercept:
        assert np.abs(rho.sum(axis=0)).max() <= 1e-9 * np.abs(rho).sum()
    return float(primal - dual) / abs(found.certificate.primal)


def solved(problem: Problem, **options: Any) -> Solution:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solution = FactoredNewton(**options).solve(problem)
    assert solution.functions is not None
    return solution


@pytest.mark.sampled(4)
@pytest.mark.parametrize("loss", ["squared", "logistic", "huber", "squared_hinge"])
def test_the_optimum_is_that_of_the_gram_solver(loss: str) -> None:
    rng = np.random.default_rng(1)
    X, Y = data(rng, 150, loss)
    bank = KernelBank.per_feature([Gaussian(0.5), Gaussian(1.5), Linear()], standardize=True)
    stack, (fitted, prepared) = factored_stack(X, bank), bank.fit_prepare(X)
    grams = fitted.block(prepared, prepared)
    options = {"sample_weight": rng.uniform(0.5, 2.0, 150), "kernel_penalties": rng.uniform(0.8, 1.25, 9)}
    for number, penalty in enumerate(PENALTIES):
        own: dict[str, Any] = {"fit_intercept": number % 2 == 0, **options}
        problem = Problem(stack, Y, loss, penalty, **own)  # type: ignore[arg-type]
        solution = solved(problem, tol=3e-9)
        exact = SharedNewton(tol=1e-10).solve(Problem(grams, Y, loss, penalty, **own))  # type: ignore[arg-type]
        assert solution.certificate.relative_gap <= 5e-9
        np.testing.assert_allclose(solution.certificate.primal, exact.certificate.primal, rtol=3e-9)
        norms = problem.model_parts(exact.dual_coef, exact.kernel_weights)[1] / problem.penalties
        np.testing.assert_allclose(solution.kernel_norms, norms, atol=1e-3 * norms.max())


@pytest.mark.nightly
def test_kinked_losses_are_solved_and_proved_by_dense_algebra() -> None:
    for number, (loss, penalty) in enumerate(zip(("hinge", "epsilon_insensitive"), PENALTIES[:2], strict=True)):
        rng = np.random.default_rng(number)
        X, Y = data(rng, 100, loss)
        bank = KernelBank.per_feature([Gaussian(0.5), Gaussian(1.5), Linear()], standardize=True)
        fitted, prepared = bank.fit_prepare(X)
        options = {"sample_weight": rng.uniform(0.5, 2.0, 100), "kernel_penalties": rng.uniform(0.8, 1.25, 9)}
        problem = Problem(factored_stack(X, bank), Y, loss, penalty, **options)  # type: ignore[arg-type]
        solution = solved(problem, tol=1e-6)
        brute = brute_force(problem, solution, fitted.block(prepared, prepared))
        assert -1e-9 <= brute <= solution.certificate.relative_gap + 1e-9 <= 1.1e-6


def test_intercepts_cross_plateaus_where_no_sample_is_near_a_kink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FactoredWorkingSet, "_smaller_as_matrices", lambda *_: False)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    codes = np.abs(X @ rng.normal(size=(3, 5)) + rng.normal(size=(300, 5))).argmax(axis=1)
    Y = np.where(codes[:, None] == np.arange(5), 1.0, -1.0)  # a fifth of each column is +1
    stack = factored_stack(X, KernelBank.per_feature([Gaussian(0.3), Gaussian(1.0)], standardize=True))
    shared, one = (
        problem.with_penalty(BlockL1(0.7 * problem.strength_max()))
        for problem in (
            Problem(stack, Y, "hinge", BlockL1(1.0)),  # type: ignore[arg-type]
            Problem(stack, Y[:, 0], "hinge", BlockL1(1.0)),  # type: ignore[arg-type]
        )
    )
    assert solved(shared, tol=1e-3).certificate.relative_gap <= 1e-3  # type: ignore[arg-type]
    assert solved(one, tol=1e-3).certificate.relative_gap <= 1e-3  # type: ignore[arg-type]


def random_problem(seed: int) -> tuple[Problem, Array, int]:
    rng = np.random.default_rng(seed)
    losses = ["logistic", "squared", "squared_hinge", "huber", "hinge", "quantile", "epsilon_insensitive"]
    loss = str(rng.choice(losses))
    X, Y = data(rng, int(rng.integers(24, 50)), loss, int(rng.integers(2, 5)))
    specs = [Gaussian(float(width)) for width in rng.choice([0.3, 0.6, 1.0, 2.0, 5.0], 2, replace=False)]
    extra = [(), (Linear(),), (Polynomial(3),), (Laplacian(1.0),)][seed % 4]
    bank = KernelBank.per_feature([*specs, *extra], standardize=bool(rng.integers(2)), normalize="trace")
    if rng.integers(2):
        bank += KernelBank([("pair", Gaussian(1.0), [0, 1])], standardize=bank.standardize, normalize="trace")
    fitted, prepared = bank.fit_prepare(X)
    grams = fitted.block(prepared, prepared)
    options: dict[str, Any] = {"fit_intercept": bool(rng.integers(2))}
    if rng.integers(2):
        options["sample_weight"] = rng.uniform(0.5, 2.0, len(Y))
    if rng.integers(2):
        options["kernel_penalties"] = rng.uniform(0.5, 2.0, len(grams))
    strength = float(10 ** rng.uniform(-1.5, 0.5))
    penalty: Regularizer = type(PENALTIES[seed % 6])(strength, *PARAMETERS[seed % 6])  # type: ignore[call-arg]
    problem = Problem(factored_stack(X, bank), Y, loss, penalty, **options)  # type: ignore[arg-type]
    return problem, grams, int(rng.integers(1, 6))  # few rounds: coarse factors and missing kernels leave gaps


PARAMETERS: tuple[tuple[float, ...], ...] = ((), (0.7,), (1.5,), (), (), (1.5,))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("block", range(4))
def test_the_reported_gap_is_never_below_the_brute_force_gap(block: int) -> None:
    for seed in range(15 * block, 15 * (block + 1)):
        problem, grams, rounds = random_problem(seed)
        solution = solved(problem, max_iter=rounds, tol=1e-7)
        brute = brute_force(problem, solution, grams)
        assert solution.certificate.relative_gap >= brute - 1e-9, (seed, solution.certificate.relative_gap, brute)
        assert brute >= -1e-9


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_columns_taking_turns_find_the_same_optimum(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    X, Y = data(rng, 200, loss)
    stack = factored_stack(X, KernelBank.per_feature([Gaussian(0.5), Gaussian(1.5)], standardize=True))
    problem = Problem(stack, Y, loss, BlockL1(2.0))  # type: ignore[arg-type]
    dense = solved(problem, tol=1e-6)
    monkeypatch.setattr(newton, "RANK_LIMIT", 0)
    blocks = solved(problem, tol=1e-6)
    assert blocks.certificate.relative_gap <= 1e-6
    np.testing.assert_allclose(blocks.certificate.primal, dense.certificate.primal, rtol=1e-6)


@pytest.mark.nightly
@pytest.mark.parametrize(("loss", "penalty"), [("squared", PENALTIES[0]), ("logistic", PENALTIES[1])])
def test_matrices_take_over_where_landmarks_do_not_do(
    loss: str, penalty: Regularizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cholesky, "MAX_RANK", 48)
    rng = np.random.default_rng(3)
    X, Y = data(rng, 150, loss)
    bank = KernelBank.auto()
    fitted, prepared = bank.fit_prepare(X)
    stack, grams = factored_stack(X, bank), fitted.block(prepared, prepared)
    own = {"sample_weight": rng.uniform(0.5, 2.0, 150), "kernel_penalties": np.linspace(1.5, 0.5, len(grams))}
    penalty = replace(penalty, strength=1.0)  # type: ignore[type-var]
    problem = Problem(stack, Y, loss, penalty, **own)  # type: ignore[arg-type]
    solution = solved(problem, tol=1e-6)
    assert {component.tol is None for component in solution.functions.components} == {True, False}
    brute = brute_force(problem, solution, grams)
    assert -1e-9 <= brute <= solution.certificate.relative_gap + 1e-9 <= 1.1e-6
    exact = SharedNewton(tol=1e-8).solve(Problem(grams, Y, loss, penalty, **own))  # type: ignore[arg-type]
    np.testing.assert_allclose(solution.certificate.primal, exact.certificate.primal, rtol=1e-6)


def test_hessians_are_those_of_differences_of_slopes() -> None:
    for loss in ("squared", "logistic", "squared_hinge"):
        rng = np.random.default_rng(4)
        X, Y = data(rng, 60, loss)
        stack = factored_stack(X, KernelBank.per_feature([Gaussian(0.8), Linear()], standardize=True))
        options = {"sample_weight": rng.uniform(0.5, 2.0, 60)}
        problem = Problem(stack, Y, loss, BlockL1(1.0), **options)  # type: ignore[arg-type]
        objective = FactoredObjective(problem, stack.operators([0, 3, 2], 1e-3), 0.0)
        v, b, step = rng.normal(size=objective.rank), rng.normal(size=3), 1e-5 * rng.normal(size=objective.rank + 3)
        move = objective.scores(step[: objective.rank]) + step[objective.rank :]
        z = objective.scores(v) + b
        change = objective.loss.gradient(z + move) - objective.loss.gradient(z - move)
        expected = np.append(objective.adjoint(change), objective.totals(change)) / 2
        hessian, shares = objective.loss.curvature(z).hessian(objective.operators, 10**9, n_constants=1)
        quadratic = FormedQuadratic(hessian, add_free_group(objective.penalty, 3), shares)
        found = quadratic._rotate_back(quadratic._product(quadratic._rotate(step)))
        atol = 1e-7 if shares is None else 3e-7  # which are held in single precision
        np.testing.assert_allclose(found, expected, atol=atol * np.abs(expected).max())


def test_forms_of_several_vectors_are_bounded_by_sums_over_them() -> None:
    rng = np.random.default_rng(5)
    bank = KernelBank.per_feature([Gaussian(0.5), Linear(), Laplacian(1.0)], standardize=True)
    stack, R = factored_stack(rng.normal(size=(20, 2)), bank), rng.normal(size=(20, 3))
    grams = stack.block()
    exact = np.einsum("it,mij,jt->m", R, grams, R)
    low, high = stack.quads(R)
    assert (low <= exact * (1 + 1e-12)).all()
    assert (high >= exact * (1 - 1e-12)).all()
    np.testing.assert_allclose(stack.squares(R), exact, rtol=1e-9)
    np.testing.assert_allclose(stack.squares(R, np.array([4, 1])), exact[[4, 1]], rtol=1e-9)
    pairs = stack.quads_each([R, R[:, 0]])
    np.testing.assert_allclose(pairs[0], (low, high), rtol=1e-12)
    np.testing.assert_allclose(pairs[1], stack.quads(R[:, 0]), rtol=1e-12)
    np.testing.assert_allclose(as_stack(grams).quads(R), (exact, exact), rtol=1e-10)


def test_factors_of_several_outputs_are_the_kronecker_product() -> None:
    rng = np.random.default_rng(5)
    bank = KernelBank.per_feature([Gaussian(0.5), Linear(), Laplacian(1.0)], standardize=True)
    stack, rho = factored_stack(rng.normal(size=(20, 2)), bank), np.asfortranarray(rng.normal(size=(20, 3)))
    for operator in stack.operators(range(6), 1e-12):
        several, rank = OutputOperator(operator, 3), int(operator.starts[-1])
        v = rng.normal(size=3 * rank)
        expected = np.column_stack([operator.rows(np.arange(20)) @ v[place] for place in several.place])
        scores = np.zeros((20, 3), order="F")
        several.add_scores(v, scores)
        np.testing.assert_allclose(scores, expected, atol=1e-12)
        np.testing.assert_allclose(several.adjoint(rho) @ v, (rho * expected).sum(), rtol=1e-10)


def test_what_a_later_round_proves_holds_for_the_best_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinks, "takes_interior", lambda objective: False)  # whose models are never worse than none
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 6))
    y = (np.sin(2 * X[:, :5]) + rng.normal(size=(1500, 5))).argmax(axis=1)
    options = {"loss": "hinge", "outputs": "shared", "alpha": "0.05*max", "tol": 1e-3}
    limits = {"representation": "factored", "max_iter": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MKLClassifier(KernelBank.per_feature(widths=[0.2, 1.0]), **options, resources=limits)
        longer = model.set_params(resources__max_iter=3).fit(X, y).solution_.frame()
        found = model.set_params(resources__max_iter=1).fit(X, y).solution_
    history = found.frame()
    assert (
        history["primal"].iloc[0] < history["primal"].iloc[1]
    )  # the model without kernels is better than a smooth one
    assert history["primal"].iloc[1] < 1.07 * history["primal"].iloc[0]  # and that is not left too smooth
    assert history["dual"].iloc[0] < history["dual"].iloc[1]
    assert found.certificate.primal == history["primal"].min()
    assert found.certificate.dual == history["dual"].max() <= longer["primal"].min()
