"""Factors that are columns of a table give the products that their operators give one by one."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels import Gaussian, KernelBank, Linear
from manykernels.grams.factored import factored_stack
from manykernels.grams.factored.operators import TILE_ROWS, ColumnFactors

POSITIONS = ([0, 1], [2, 3, 4], [5], [6, 7])


@pytest.fixture(params=[50, TILE_ROWS + 3])
def stack(request: pytest.FixtureRequest):
    X = np.random.default_rng(0).normal(size=(request.param, 8)) * np.arange(1.0, 9.0)
    kernels = [(f"columns {columns}", Linear(), columns) for columns in POSITIONS]
    return factored_stack(np.asfortranarray(X), KernelBank(kernels))


def test_products_are_those_of_the_operators_one_by_one(stack) -> None:
    (together,), rng = stack.operators([3, 0, 1], 0.0), np.random.default_rng(1)
    assert together.kernels.tolist() == [0, 1, 3]
    operators = together.apart()
    again = ColumnFactors.create(stack.table, operators)
    assert again is not None
    assert again.places.tolist() == together.places.tolist()
    Z = np.hstack([operator.rows(slice(None)) for operator in operators])
    v, rho, weights = rng.normal(size=7), rng.normal(size=len(Z)), rng.uniform(0.5, 2.0, len(Z))
    v[2] = 0.0
    out = np.ones(len(Z))
    together.add_scores(v, out)
    np.testing.assert_allclose(out, 1.0 + Z @ v, atol=1e-10)
    np.testing.assert_allclose(together.adjoint(rho), Z.T @ rho, rtol=1e-9)
    np.testing.assert_allclose(together.adjoint(np.column_stack([rho, weights])), Z.T @ np.column_stack([rho, weights]))
    np.testing.assert_allclose(together.rows(np.array([3, 1])), Z[[3, 1]], rtol=1e-12)
    table = np.zeros((len(Z), 2))
    together.add_scores(v, table[:, 1])
    np.testing.assert_allclose(table, np.column_stack([np.zeros(len(Z)), Z @ v]), atol=1e-10)
    whole = np.column_stack([Z, np.ones(len(Z))])
    hessian = whole.T @ (weights[:, None] * whole)
    close = {"rtol": 1e-10, "atol": 1e-10 * float(np.abs(hessian).max())}
    np.testing.assert_allclose(together.gram(weights, n_constants=1), hessian, **close)
    np.testing.assert_allclose(together.gram(weights, n_constants=0), hessian[:-1, :-1], **close)
    chosen = np.array([1, 4, 6])
    cross, totals = together.products(weights, chosen)
    np.testing.assert_allclose(cross, hessian[:-1, chosen], **close)
    np.testing.assert_allclose(totals, hessian[-1, chosen], **close)


def test_operators_of_each_kernel_are_columns_where_they_stand(stack) -> None:
    (together,) = stack.operators([2, 1], 0.0)
    apart = together.apart()
    assert [int(one.kernels[0]) for one in apart] == [1, 2]
    assert all(np.shares_memory(one.array, stack.table.columns) for one in apart)


def test_a_composition_numbers_operators_and_leaves_those_of_its_parts_as_they_are() -> None:
    X = np.asfortranarray(np.random.default_rng(0).normal(size=(40, 3)))
    bank = KernelBank([("bell", Gaussian(1.0), [0]), ("line", Linear(), [1]), ("other", Linear(), [2])])
    stack = factored_stack(X, bank)
    for _ in range(2):
        assert sorted(int(one.kernels[0]) for one in stack.operators([1, 2], 1e-6)) == [1, 2]


def test_other_factors_are_not_taken_for_columns() -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    mixed = KernelBank([("line", Linear(), [0]), ("bell", Gaussian(1.0), [1])])
    stack = factored_stack(np.asfortranarray(X), mixed)
    assert ColumnFactors.create(stack.table, stack.operators([0, 1], 1e-6)) is None
    assert ColumnFactors.create(stack.table, stack.operators([0], 1e-6)) is not None
    assert ColumnFactors.create(stack.table, []) is None
    scaled = factored_stack(X, KernelBank([("line", Linear(), [0])], standardize=True))
    X32 = factored_stack(X.astype(np.float32), KernelBank([("line", Linear(), [0])]))
    for stack in (scaled, X32):  # read in place or not, products are right
        operators = stack.operators([0], 0.0)
        together = ColumnFactors.create(stack.table, operators)
        if together is not None:
            np.testing.assert_allclose(together.adjoint(X[:, 1]), operators[0].adjoint(X[:, 1]), rtol=1e-12)
