"""The inverse of the Hessian of Cox's partial likelihood, against the matrix that it inverts."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.cox import CoxCase, cases


def hessian_of(case: CoxCase, z: np.ndarray) -> np.ndarray:
    """Return the Hessian as a plain sum over terms."""
    shares, sizes = case.softmax(z), np.array([term.size for term in case.terms()])
    return np.diag(sizes @ shares) - shares.T @ (sizes[:, None] * shares)


@pytest.mark.parametrize("spread", [0.0, 2.0, 5.0])
def test_it_inverts_the_hessian_with_ties_strata_and_weights(spread: float) -> None:
    for case in cases():
        bound, n = case.problem().bound, len(case.time)
        z = np.random.default_rng(n).normal(size=n) * spread
        hessian, inverse = hessian_of(case, z), bound.inverse_curvature(z)
        right = hessian @ np.random.default_rng(1).normal(size=n)
        np.testing.assert_allclose(hessian @ inverse.product(right), right, atol=1e-12 * np.abs(right).max())


def test_the_matrix_is_that_of_the_products_and_definite_on_compared_samples() -> None:
    for case in cases():
        bound, n = case.problem().bound, len(case.time)
        inverse, matrix = bound.inverse_curvature(np.random.default_rng(n).normal(size=n)), np.zeros((n, n))
        inverse.add_to(matrix)
        matrix = np.triu(matrix) + np.triu(matrix, 1).T
        products = np.array([inverse.product(unit) for unit in np.eye(n)])
        np.testing.assert_allclose(matrix, products, atol=1e-12 * np.abs(matrix).max())
        inside = bound.groups().any(axis=1)
        assert np.linalg.eigvalsh(matrix[np.ix_(inside, inside)]).min() > 0
        assert not matrix[~inside].any()


def test_scores_that_are_far_apart_have_an_inverse() -> None:
    """A Cholesky factorization of the Hessian failed here."""
    for case in cases():
        bound, n = case.problem().bound, len(case.time)
        z = np.random.default_rng(n).normal(size=n) * 20.0
        hessian = hessian_of(case, z)
        right = hessian @ np.random.default_rng(1).normal(size=n)
        found = bound.inverse_curvature(z).product(right)
        np.testing.assert_allclose(hessian @ found, right, atol=1e-6 * np.abs(right).max())
