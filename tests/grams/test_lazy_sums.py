"""Sums and products of kernels that are computed where they are used have the entries of the kernels."""

import numpy as np
import pytest

from manykernels import KernelBank
from manykernels.grams import LazyStack, cross_combine
from manykernels.kernels import Gaussian, Landmarks, Linear, Matern, Polynomial

OPTIONS = [{}, {"normalize": "unit_diagonal"}, {"center": True}, {"missing": "mask"}]


def opened(options, n=70):
    """Return a bank of Gaussian kernels that are powers and one that is none, of linear ones, and others, and rows."""
    X = np.random.default_rng(0).normal(size=(n, 4))
    if "missing" in options:
        X[::7, 0] = np.nan
    specs = [Gaussian(2.0), Linear(), Gaussian(1.0), Polynomial(2), Gaussian(0.7), Gaussian(4.0)]
    columns = [[0, 1], [2, 3], [3]]
    bank = KernelBank(
        [(f"{own}: {spec.label}", spec, own) for own in columns for spec in specs], standardize=True, **options
    )
    fitted, prepared = bank.fit_prepare(X)
    return fitted, prepared


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-6)])
def test_sums_and_products_are_those_of_the_blocks(options, dtype, tolerance):
    bank, prepared = opened(options)
    rng = np.random.default_rng(1)
    stack, vectors = LazyStack(bank, prepared, dtype=dtype), rng.normal(size=(70, 3))
    weights = rng.normal(size=len(bank)) * (rng.random(len(bank)) > 0.2)
    block = LazyStack(bank, prepared).block()
    scale = tolerance * np.abs(block).sum(axis=0).max()
    combined = stack.combine(weights)
    np.testing.assert_array_equal(combined, combined.T)
    np.testing.assert_allclose(combined, np.tensordot(weights, block, axes=1), rtol=0, atol=scale)
    products = block @ vectors
    np.testing.assert_allclose(stack.apply_each(vectors), products, rtol=0, atol=20 * scale)
    some = np.array([7, 2, 12])
    np.testing.assert_allclose(stack.apply_each(vectors, some), products[some], rtol=0, atol=20 * scale)
    squares = np.einsum("mik,ik->mk", products, vectors)
    np.testing.assert_allclose(stack.quad_each(vectors), squares, rtol=0, atol=1000 * scale)
    np.testing.assert_allclose(stack.take(some).quad_each(vectors), squares[some], rtol=0, atol=1000 * scale)


@pytest.mark.parametrize("options", OPTIONS)
def test_sums_between_new_rows_and_others_are_those_of_the_blocks(options):
    bank, prepared = opened(options)
    weights, new = np.random.default_rng(2).random(len(bank)), prepared.take(np.arange(20, 31))
    expected = np.tensordot(weights, bank.block(new, prepared), axes=1)
    np.testing.assert_allclose(cross_combine(bank, new, prepared, weights), expected, rtol=1e-11, atol=1e-11)


def test_sums_of_kernels_of_features_are_those_of_the_blocks(monkeypatch):
    X = np.random.default_rng(0).normal(size=(90, 4))
    kernels = [
        ("joint", Landmarks(Gaussian("median"), 20), None),
        ("single", Gaussian(1.0), [0]),
        ("rough", Landmarks(Matern(1.0, 0.5), 15, center=False), [0, 1, 2]),
    ]
    bank = KernelBank(kernels, standardize=True).fit(X[:60])
    rows, new, weights = bank.prepare(X[:60]), bank.prepare(X[60:]), np.array([0.3, 0.0, 2.0])
    rows_of_features = []
    features = Landmarks.features
    monkeypatch.setattr(Landmarks, "features", lambda self, A: rows_of_features.append(len(A)) or features(self, A))
    found = cross_combine(bank, new, rows, weights)
    assert sum(rows_of_features) == 2 * 90  # each row of each side once for each kernel
    np.testing.assert_allclose(found, np.tensordot(weights, bank.block(new, rows), axes=1), rtol=1e-11, atol=1e-11)
    stack = LazyStack(bank, rows)
    np.testing.assert_allclose(stack.combine(weights), np.tensordot(weights, stack.block(), axes=1), atol=1e-12)


def test_diagonals_are_evaluated_once_for_all_problems_and_views(monkeypatch):
    bank, prepared = opened({})
    stack = LazyStack(bank, prepared)
    diagonal, evaluated = stack.diag(), []
    monkeypatch.setattr(LazyStack, "diag", lambda self: evaluated.append(self) or diagonal)
    wanted = np.abs(diagonal).max(axis=1)
    for _ in range(2):
        np.testing.assert_array_equal(stack.largest, wanted)
        np.testing.assert_array_equal(stack.view([3, 1]).largest, wanted[[3, 1]])
    assert len(evaluated) == 1
