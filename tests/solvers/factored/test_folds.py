"""Folds that share their sums over rows: equal to folds that read their own, and to the Gram solvers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, ShuffleSplit

from manykernels import KernelBank, open_rows, solve
from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.grams.factored import factored_stack
from manykernels.solvers import factored_folds
from manykernels.solvers.factored.moments import FoldMoments

N = 240


def data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 4))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=N)


def bank() -> KernelBank:
    return KernelBank.per_feature(widths=[0.5, 2.0], standardize=True) + KernelBank.interactions(
        bins=6, standardize=True
    )


def test_sums_of_folds_are_differences_of_sums() -> None:
    X, y = data()
    stack, held = factored_stack(X, bank()), np.arange(N) % 4 - 1
    weight = np.random.default_rng(2).uniform(0.5, 2.0, N)
    kinds = [FoldMoments(np.column_stack([y, X[:, 0]]), weight, held, 3, shared=shared) for shared in (True, False)]
    for kernels in ([0, 9], [3], [12, 10, 2]):
        for moments in kinds:
            moments.grow(stack.operators(kernels, 1e-8))
    for fold in range(3):
        for first, second in zip(kinds[0].of(fold), kinds[1].of(fold), strict=True):
            np.testing.assert_allclose(first, second, rtol=1e-10, atol=1e-10 * np.abs(second).max())
    Z = np.hstack([*(operator.rows(np.arange(N)) for operator in kinds[0].operators), np.ones((N, 1))])
    v = np.random.default_rng(1).normal(size=Z.shape[1])
    np.testing.assert_allclose(kinds[0].scores(v), Z @ v, atol=1e-12)
    own, weighted = Z[held != 1], weight[held != 1, None] * Z[held != 1]
    np.testing.assert_allclose(kinds[0].of(1)[0], weighted.T @ own, atol=1e-9)
    for moments in kinds:
        np.testing.assert_allclose(moments.slopes(1, 1, v), weighted.T @ (own @ v - X[held != 1, 0]), atol=1e-9)


def test_shared_and_separate_folds_agree_and_are_those_of_the_gram_solvers() -> None:
    X, y = data()
    penalties = np.linspace(0.8, 1.2, 20)
    given: dict[str, Any] = {"n_alphas": 4, "kernel_penalties": penalties, "tol": 1e-7}
    folds = list(GroupKFold(3).split(X, groups=np.arange(N) // 7))
    shared, separate = (factored_folds(X, y, bank(), folds=folds, shared=own, **given) for own in (True, False))
    np.testing.assert_allclose(shared.errors, separate.errors, rtol=1e-10)
    np.testing.assert_allclose(shared.strengths, separate.strengths, rtol=1e-12)
    assert shared.passes == separate.passes
    assert shared.gaps.max() <= 1e-7
    assert not shared.n_active[0].all()
    fitted, prepared = bank().fit_prepare(X)
    grams = fitted.block(prepared, prepared)
    for fold, (train, test) in enumerate(folds):
        strength = shared.strengths[2] * len(train)
        exact = solve(
            grams[:, train[:, None], train], y[train], loss="squared", regularizer="l1", strength=strength,
            kernel_penalties=penalties, tol=1e-9,
        )  # fmt: skip
        scores = np.einsum("m,mij,j->i", exact.kernel_weights, grams[:, test[:, None], train], exact.dual_coef)
        error = np.mean((y[test] - scores - exact.intercept) ** 2)
        assert shared.errors[2, fold] == pytest.approx(error, rel=1e-4)
    assert shared.best == shared.strengths[int(np.argmin(shared.frame()["mean_error"]))]


def test_what_cannot_be_shared_is_said() -> None:
    X, y = data()
    with pytest.raises(InvalidInputError, match="Fold 1 holds out rows that another one holds out"):
        factored_folds(X, y, bank(), folds=ShuffleSplit(3, random_state=0).split(X))
    with pytest.raises(InvalidInputError, match="at least two folds, got 1"):
        factored_folds(X, y, bank(), folds=[(np.arange(5), np.arange(5, 9))])
    with pytest.raises(InvalidInputError, match=r"y must have shape \(240,\)"):
        factored_folds(X, y[:-1], bank())
    with pytest.raises(InvalidInputError, match="y must hold real numbers"):
        factored_folds(X, np.where(y > 0, "high", "low"), bank())
    with pytest.raises(InvalidInputError, match=r"kernel_penalties must have shape \(20,\)"):
        factored_folds(X, y, bank(), kernel_penalties=np.ones(3))
    with pytest.raises(InvalidInputError, match="alphas must be positive, but entry 1 is -1"):
        factored_folds(X, y, bank(), alphas=[1.0, -1.0])
    with pytest.raises(InvalidInputError, match="number of alphas must be an integer of at least 1"):
        factored_folds(X, y, bank(), alphas=[])
    with pytest.raises(InvalidInputError, match="ratio must be a finite positive number of at most 1"):
        factored_folds(X, y, bank(), ratio=2.0)
    with pytest.raises(IncompatibleError, match="reads rows in memory"):
        factored_folds(open_rows(X), y, KernelBank.per_feature(widths=[1.0]))
