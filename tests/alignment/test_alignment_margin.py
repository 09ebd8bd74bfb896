"""Margin weights against a conic solver, their certificate against NumPy, and what is refused."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from tests.support.conic import proved_value

from manykernels.alignment import margin_weights
from manykernels.exceptions import InvalidInputError


def _kernels(rng: Any, n: int) -> Any:
    factors = rng.normal(size=(4, n, 3)) * np.array([1.0, 3.0, 0.3, 1.0])[:, None, None]
    return factors @ factors.transpose(0, 2, 1)


def _oracle(kernels: Any, signs: Any, ridge: float) -> tuple[Any, float]:
    """Solve the margin problem as it is written."""
    mean = kernels.mean(axis=0)
    mean = mean / (np.trace(mean) / len(mean))
    values, vectors = np.linalg.eigh((1 - ridge) * np.outer(signs, signs) * mean + ridge * np.eye(len(mean)))
    root = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
    gamma = cp.Variable(len(mean), nonneg=True)
    sides = [cp.sum(gamma[np.flatnonzero(signs == side)]) == 1 for side in (-1, 1)]
    value = proved_value(cp.Problem(cp.Minimize(cp.sum_squares(root @ gamma)), sides))
    found = np.einsum("i,mij,j->m", signs * gamma.value, kernels, signs * gamma.value)
    return found / found.sum(), value


@pytest.mark.parametrize("ridge", [0.01, 0.1, 0.9])
def test_weights_and_values_are_those_of_a_conic_solver(ridge: float) -> None:
    rng = np.random.default_rng(int(100 * ridge))
    for _ in range(4):
        n = int(rng.integers(10, 24))
        kernels, signs = _kernels(rng, n), np.where(rng.permutation(n) < n // 3 + 1, 1.0, -1.0)
        found, (weights, value) = margin_weights(kernels, signs, ridge=ridge), _oracle(kernels, signs, ridge)
        assert found.gap < 1e-6
        np.testing.assert_allclose([found.primal, found.dual], value, rtol=1e-6)
        np.testing.assert_allclose(found.weights, weights, atol=1e-4)


def test_several_classes_are_averaged() -> None:
    rng = np.random.default_rng(0)
    kernels, labels = _kernels(rng, 18), np.repeat(["a", "b", "c"], 6)
    each = [margin_weights(kernels, labels == name) for name in "abc"]
    found = margin_weights(kernels, labels)
    np.testing.assert_allclose(found.weights, np.mean([one.weights for one in each], axis=0), atol=1e-10)
    np.testing.assert_allclose(found.primal, sum(one.primal for one in each))


def test_what_has_no_margin_is_refused() -> None:
    kernels = _kernels(np.random.default_rng(0), 6)
    for y, text in (([1] * 6, "at least two classes"), ([1, 2], "one label a sample")):
        with pytest.raises(InvalidInputError, match=text):
            margin_weights(kernels, y)
    with pytest.raises(InvalidInputError, match="All kernels are zero"):
        margin_weights(np.zeros((1, 4, 4)), [0, 0, 1, 1])
    with pytest.raises(InvalidInputError, match="below 1"):
        margin_weights(kernels, [0, 1] * 3, ridge=1.0)
