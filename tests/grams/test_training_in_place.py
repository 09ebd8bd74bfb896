"""Samples in memory, and columns in their units: read in place, not copied, with the results of a copy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from manykernels import KernelBank, KernelStack, Linear, MKLRegressor, PrecomputedBank, solve
from manykernels.grams import DenseStack, PackedStack, build_stack
from manykernels.grams.factored.banks import fit_factors

RNG = np.random.default_rng(0)
N = 40
FEATURES = RNG.normal(size=(12, N, 3))
KERNELS = FEATURES @ FEATURES.transpose(0, 2, 1)
Y = FEATURES[3, :, 0] + 0.3 * RNG.normal(size=N)
KEPT = np.delete(np.arange(N), [5, 17])


@pytest.mark.parametrize("stack", [DenseStack(KERNELS), PackedStack.from_dense(KERNELS)], ids=["dense", "packed"])
@pytest.mark.parametrize("samples", [KEPT, KEPT[::-1], np.append(KEPT, KEPT[:1])], ids=["some", "reversed", "twice"])
def test_every_operation_agrees_with_a_copy(stack, samples):
    view, copy = stack.restrict(samples), KERNELS[:, samples[:, None], samples]
    r, weights = RNG.normal(size=len(samples)), np.where(np.arange(12) % 3, 0.5, 0.0)
    assert view.nbytes == stack.nbytes
    np.testing.assert_allclose(view.quad(r), np.einsum("i,mij,j->m", r, copy, r))
    np.testing.assert_allclose(view.apply_each(np.c_[r, r**2], [4, 1]), copy[[4, 1]] @ np.c_[r, r**2])
    np.testing.assert_allclose(view.apply(weights, r), np.tensordot(weights, copy, axes=1) @ r)
    np.testing.assert_allclose(view.combine(weights), np.tensordot(weights, copy, axes=1))
    np.testing.assert_allclose(view.combine(np.ones(12)), copy.sum(axis=0))
    np.testing.assert_array_equal(view.diag(), np.diagonal(copy, axis1=1, axis2=2))
    np.testing.assert_array_equal(view.triangles([2])[0], copy[2][np.triu_indices(len(samples))])
    np.testing.assert_allclose(view.take([7, 2]).quad(r), np.einsum("i,mij,j->m", r, copy[[7, 2]], r))
    np.testing.assert_allclose(view.view([7]).combine([2.0]), 2.0 * copy[7])


def test_few_samples_are_copied():
    assert DenseStack(KERNELS).restrict(KEPT[:20]).nbytes == 12 * 20 * 20 * 8


def test_one_zero_weight_copies_nothing(monkeypatch):
    weight = np.where(np.arange(N) == 5, 0.0, 1.0)
    stack = KernelStack(KERNELS)
    bank, prepared = PrecomputedBank(normalize=None).fit_prepare(stack[np.flatnonzero(weight)])
    built = build_stack(bank, prepared)
    assert np.shares_memory(built._parent.array, KERNELS)
    without = np.flatnonzero(weight)
    model = MKLRegressor("precomputed", alpha=0.05, tol=1e-10).fit(stack, Y, weight)
    copied = MKLRegressor("precomputed", alpha=0.05, tol=1e-10).fit(stack[without[:30]], Y[without[:30]])
    small = MKLRegressor("precomputed", alpha=0.05, tol=1e-10).fit(KERNELS[:, without[:, None], without], Y[without])
    assert copied.solution_.dual_coef.shape == (30,)
    np.testing.assert_allclose(model.predict(stack), small.predict(KERNELS[:, :, without]), atol=1e-8)
    found = solve(KERNELS, Y, loss="squared", penalty="l1", strength=0.05 * 39, sample_weight=weight, tol=1e-10)
    np.testing.assert_allclose(found.dual_coef, model.solution_.dual_coef, atol=1e-8)


def test_an_indefinite_kernel_is_found_through_such_a_view(monkeypatch):
    from manykernels.exceptions import NotPSDError
    from manykernels.validation import gram as checks

    monkeypatch.setattr(checks, "FULL_CHECK_FLOPS", 0.0)
    kernels = KERNELS.copy()
    kernels[3] = 1.5 * kernels[3] - 0.5 * np.diag(np.diag(kernels[3]))
    with pytest.raises(NotPSDError, match=r"kernels\[3\]"):
        MKLRegressor("precomputed", alpha=1e-3).fit(kernels, Y, np.where(np.arange(N) == 5, 0.0, 1.0))


WIDE = KernelBank.per_feature(widths=[0.3, 1.0], standardize=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_in_order_are_factors_in_place_with_the_numbers_of_a_copy(dtype):
    X = np.asfortranarray(RNG.normal(size=(300, 4)) * [1.0, 30.0, 1e-3, 5.0] + [0.0, 100.0, 0.0, -7.0], dtype=dtype)
    given = X.copy()
    fitted, stack = fit_factors(WIDE, X)
    assert np.shares_memory(stack.parts[0].table.columns, X)
    copied, standardized = fit_factors(
        KernelBank([*WIDE.kernels, Linear()], standardize=True), X
    )  # a line takes a copy
    assert not np.shares_memory(standardized.parts[0].table.columns, X)
    np.testing.assert_allclose(fitted.table.column_means, copied.table.column_means, rtol=1e-6)
    np.testing.assert_allclose(stack.quad(X[:, 0]), standardized.quad(X[:, 0])[:8])
    y = np.sin(X[:, 1] / 30.0)
    found = [
        MKLRegressor(WIDE, alpha=0.01, resources={"representation": "factored"}).fit(rows, y) for rows in (X, given)
    ]
    frame = MKLRegressor(WIDE, alpha=0.01, resources={"representation": "factored"}).fit(pd.DataFrame(X), y)
    np.testing.assert_array_equal(X, given)
    for model in (*found[1:], frame):
        np.testing.assert_allclose(model.predict(X), found[0].predict(X), atol=1e-6)


@pytest.mark.parametrize("scale", [1e-200, 1e-120, 1e120, 1e200])
@pytest.mark.parametrize("mean", [0.0, 1e9])
def test_columns_at_the_ends_of_the_range_are_read_as_a_copy(scale, mean):
    X = np.asfortranarray(RNG.normal(size=(200, 2)))
    moved = np.asfortranarray((X + mean) * scale)
    stack, other = fit_factors(WIDE, X)[1], fit_factors(WIDE, moved)[1]
    np.testing.assert_allclose(other.quad(X[:, 0]), stack.quad(X[:, 0]), rtol=1e-5)
