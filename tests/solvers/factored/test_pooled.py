"""Folds that share their sums over rows: equal to sums of their own rows, and to the Gram solvers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold

from manykernels import KernelBank, solve
from manykernels.exceptions import IncompatibleError
from manykernels.grams.factored import factored_stack
from manykernels.objective import BlockL1, Problem, get_loss
from manykernels.solvers.factored.pooled import Moments, PooledNewton

N = 240


def data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 4))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=N)


def bank() -> KernelBank:
    return KernelBank.per_feature(widths=[0.5, 2.0], standardize=True) + KernelBank.interactions(
        bins=6, standardize=True
    )


def test_sums_of_folds_are_those_of_their_training_rows() -> None:
    X, y = data()
    stack, held = factored_stack(X, bank()), np.arange(N) % 4 - 1
    weight = np.random.default_rng(2).uniform(0.5, 2.0, N)
    targets = np.column_stack([y, X[:, 0]])
    moments = Moments(targets, weight, held, 3)
    for kernels in ([0, 9], [3], [12, 10, 2]):
        moments.grow(stack.operators(kernels, 1e-8))
    Z = np.hstack([*(operator.rows(np.arange(N)) for operator in moments.operators), np.ones((N, 1))])
    v = np.random.default_rng(1).normal(size=Z.shape[1])
    np.testing.assert_allclose(moments.scores(v), Z @ v, atol=1e-12)
    for fold in range(3):
        own, weighted = Z[held != fold], weight[held != fold, None] * Z[held != fold]
        np.testing.assert_allclose(moments.of(fold)[0], weighted.T @ own, atol=1e-9)
        np.testing.assert_allclose(moments.of(fold)[1], weighted.T @ targets[held != fold], atol=1e-9)
        slopes = weighted.T @ (own @ v - X[held != fold, 0])
        np.testing.assert_allclose(moments.slopes(fold, 1, v), slopes, atol=1e-9)


def pooled(max_rank: int = 4000) -> tuple[PooledNewton, Problem, list[tuple[np.ndarray, np.ndarray]]]:
    X, y = data()
    folds = list(GroupKFold(3).split(X, groups=np.arange(N) // 7))
    held = np.full(N, -1)
    for number, (_, test) in enumerate(folds):
        held[test] = number
    stack = factored_stack(X, bank())
    problem = Problem(stack, y, get_loss("squared"), BlockL1(1.0), kernel_penalties=np.linspace(0.8, 1.2, 20))
    moments = Moments(y[:, None], problem.weight, held, len(folds))
    return PooledNewton(stack, moments, 1e-7, most_rank=max_rank), problem, folds


def test_models_of_all_folds_at_once_are_those_of_the_gram_solvers() -> None:
    newton, problem, folds = pooled()
    X, y = data()
    fitted, prepared = bank().fit_prepare(X)
    grams = fitted.block(prepared, prepared)
    for alpha in (0.2, 0.02):
        strengths = [alpha * len(train) for train, _ in folds]
        found = newton.at([[problem.with_penalty(BlockL1(strength))] for strength in strengths])
        for number, (train, test) in enumerate(folds):
            assert found[number][0].certificate.relative_gap <= 1e-7
            exact = solve(
                grams[:, train[:, None], train], y[train], loss="squared", regularizer="l1",
                strength=strengths[number], kernel_penalties=problem.penalties, tol=1e-9,
            )  # fmt: skip
            scores = np.einsum("m,mij,j->i", exact.kernel_weights, grams[:, test[:, None], train], exact.dual_coef)
            error = np.mean((y[test] - scores - exact.intercept) ** 2)
            own = newton.slopes(number, 0)[1][test]
            assert np.mean((y[test] - own) ** 2) == pytest.approx(error, rel=1e-4)
    assert newton.passes < 3 * 10  # which serve all folds


def test_factors_that_are_too_many_are_refused() -> None:
    newton, problem, folds = pooled(max_rank=5)
    with pytest.raises(IncompatibleError, match="more than the 5 whose sums folds can share"):
        newton.at([[problem.with_penalty(BlockL1(0.02 * len(train)))] for train, _ in folds])
