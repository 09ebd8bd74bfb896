"""Quadratic forms among rounded rows: close to exact ones, of every kernel, and none where they would not be."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels import KernelBank
from manykernels.grams.factored import FourierStack
from manykernels.grams.factored.banks import fit_factors
from manykernels.grams.factored.rounded import LEAST_ROWS, WAVE_STEPS, KnottedColumn, _frequencies, rounded_quads
from manykernels.kernels import Linear
from manykernels.validation.arrays import Array

WIDTHS = np.geomspace(0.1, 10.0, 9).tolist()
N = LEAST_ROWS + 500


def columns_of_noise(seed: int = 0) -> tuple[Array, Array]:
    """Return columns of three kinds, and three vectors that sum to zero."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=N), rng.exponential(size=N), rng.integers(0, 4, N)])
    vectors = rng.normal(size=(N, 3))
    return X, vectors - vectors.mean(axis=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounded_forms_are_within_some_thousandths_of_exact_ones(dtype: type) -> None:
    X, vectors = columns_of_noise()
    stack = FourierStack.grid(np.asfortranarray(X, dtype=dtype), WIDTHS)
    found = stack.rounded_quads(vectors)
    exact = np.array([stack.quad(vector) for vector in vectors.T]).T
    assert found is not None
    assert np.abs(found / exact - 1.0).max() < 0.02
    assert np.sqrt(np.mean((found / exact - 1.0) ** 2)) < 0.005


def test_widths_may_differ_from_column_to_column_and_gaps_count_for_nothing() -> None:
    X, vectors = columns_of_noise(1)
    X[::7, 0] = np.nan
    bank = KernelBank.per_feature(widths=[0.3, 2.0], missing="mask")
    _, stack = fit_factors(bank, X)
    chosen = stack.take(np.array([5, 0, 3]))
    found = chosen.rounded_quads(vectors)
    exact = np.array([chosen.quad(vector) for vector in vectors.T]).T
    assert found is not None
    assert np.abs(found / exact - 1.0).max() < 0.02


def test_sums_at_many_knots_are_transformed_as_those_at_few_are() -> None:
    X = np.random.default_rng(4).uniform(0.0, [16.0, 4.0, 16.0], (N, 3))
    _, vectors = columns_of_noise(4)
    stack = FourierStack.grid(X, WIDTHS, standardize=False)
    found = stack.rounded_quads(vectors)
    exact = np.array([stack.quad(vector) for vector in vectors.T]).T
    assert found is not None
    knots = [KnottedColumn.of(stack.table, j, np.arange(9), np.array(WIDTHS)).knots for j in range(3)]
    assert [count * _frequencies(count, 8.0) > WAVE_STEPS * count * np.log2(count) for count in knots] == [
        True,
        False,
        True,
    ]
    assert np.abs(found / exact - 1.0).max() < 0.02
    assert np.sqrt(np.mean((found / exact - 1.0) ** 2)) < 0.005


def test_a_column_with_a_row_far_away_is_read_exactly() -> None:
    X, vectors = columns_of_noise(2)
    X[0, 1] = 1e4
    stack = FourierStack.grid(X, WIDTHS, standardize=False)
    _, known = rounded_quads(stack.table, stack.columns, stack.widths, vectors)
    assert np.array_equal(np.unique(stack.columns[~known]), [1])
    found = stack.rounded_quads(vectors)
    exact = np.array([stack.quad(vector) for vector in vectors.T]).T
    assert found is not None
    errors = np.array([stack.error_bound(vector) for vector in vectors.T]).T
    assert np.all(np.abs(found - exact)[~known] <= 1.001 * errors[~known])


def test_few_rows_and_stacks_of_other_kernels_have_none_and_mixed_ones_have_all() -> None:
    X, vectors = columns_of_noise(3)
    few = slice(LEAST_ROWS - 1)
    assert FourierStack.grid(X[few], WIDTHS).rounded_quads(vectors[few]) is None
    linear = KernelBank([("line", Linear(), [0])])
    assert fit_factors(linear, X)[1].rounded_quads(vectors) is None
    mixed = KernelBank([("line", Linear(), [0]), *KernelBank.per_feature(widths=[0.5]).kernels])
    _, stack = fit_factors(mixed, X)
    found = stack.rounded_quads(vectors)
    exact = np.array([stack.quad(vector) for vector in vectors.T]).T
    assert found is not None
    assert np.allclose(found[0], exact[0])
    assert np.abs(found / exact - 1.0).max() < 0.02
