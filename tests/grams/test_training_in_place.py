"""Most samples of a stack in memory: read in place, not copied, with the results of a copy."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels import KernelStack, MKLRegressor, PrecomputedBank, solve
from manykernels.grams import DenseStack, PackedStack, build_stack

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
    found = solve(KERNELS, Y, loss="squared", regularizer="l1", strength=0.05 * 39, sample_weight=weight, tol=1e-10)
    np.testing.assert_allclose(found.dual_coef, model.solution_.dual_coef, atol=1e-8)


def test_an_indefinite_kernel_is_found_through_such_a_view(monkeypatch):
    from manykernels.exceptions import NotPSDError
    from manykernels.validation import gram as checks

    monkeypatch.setattr(checks, "FULL_CHECK_FLOPS", 0.0)
    kernels = KERNELS.copy()
    kernels[3] = 1.5 * kernels[3] - 0.5 * np.diag(np.diag(kernels[3]))
    with pytest.raises(NotPSDError, match=r"kernels\[3\]"):
        MKLRegressor("precomputed", alpha=1e-3).fit(kernels, Y, np.where(np.arange(N) == 5, 0.0, 1.0))
