"""Features of pivoted Cholesky factorizations: products that give the kernels back, as many as the rank."""

import numpy as np

from manykernels.grams import DenseStack
from manykernels.grams.pivoted import MANY_COLUMNS, PivotedFactors

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 8))
GRAMS = np.stack([X[:, :3] @ X[:, :3].T, X @ X.T, np.exp(-0.1 * ((X[:, None] - X[None]) ** 2).sum(axis=2))])


def test_products_of_features_are_the_kernels_and_their_number_is_the_rank():
    factors = PivotedFactors.factorize(GRAMS)
    assert factors.ranks[:2].tolist() == [3, 8]
    for gram, features, pivots in zip(GRAMS, factors.features, factors.pivots, strict=True):
        np.testing.assert_allclose(features @ features.T, gram, atol=1e-8)
        np.testing.assert_allclose(np.triu(features[pivots], 1), 0.0, atol=1e-12)


def test_quadratic_forms_of_many_vectors_are_those_of_the_matrices():
    columns = RNG.normal(size=(60, MANY_COLUMNS))
    stack = DenseStack(GRAMS)
    expected = np.einsum("nk,mnl,lk->mk", columns, GRAMS, columns)
    np.testing.assert_allclose(stack.quad_each(columns), expected)
    stack.pivoted()
    np.testing.assert_allclose(stack.quad_each(columns), expected, rtol=1e-7)


def test_features_of_single_precision_do_not_follow_its_rounding():
    rounded = DenseStack(GRAMS[:2].astype(np.float32))
    assert rounded.pivoted().ranks.tolist() == [3, 8]
