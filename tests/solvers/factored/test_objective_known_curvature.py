"""What is kept of one curvature is what would be computed anew."""

from __future__ import annotations

import numpy as np

from manykernels import KernelBank, Linear
from manykernels.grams.factored import factored_stack
from manykernels.grams.factored.operators import ColumnFactors
from manykernels.solvers.factored.objective import KnownCurvature

N_SAMPLES = 60
POSITIONS = ([0, 1], [2, 3, 4], [5], [6, 7])


def stack():
    X = np.random.default_rng(0).normal(size=(N_SAMPLES, 8)) @ np.diag(np.arange(1.0, 9.0))
    kernels = [(f"columns {columns}", Linear(), columns) for columns in POSITIONS]
    return factored_stack(np.asfortranarray(X), KernelBank(kernels))


def hessian(operators, weights: np.ndarray) -> np.ndarray:
    Z = np.hstack([*(operator.rows(slice(None)) for operator in operators), np.ones((N_SAMPLES, 1))])
    return Z.T @ (weights[:, None] * Z)


def test_kernels_that_enter_and_leave_find_their_products_again() -> None:
    kernels, known = stack(), KnownCurvature()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, N_SAMPLES)
    for chosen, missing in (([0, 2], 3), ([0, 1, 2, 3], 5), ([1, 3], 0), ([3], 0), ([1, 2, 3], 0)):
        operators = kernels.operators(chosen, 1e-3)
        assert known.find_products(weights).missing(operators) == missing
        found = known.gram(operators, n_constants=1)
        np.testing.assert_allclose(found, hessian(operators, weights), rtol=1e-12)


def test_columns_in_place_have_the_products_of_their_operators() -> None:
    kernels, known = stack(), KnownCurvature()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, N_SAMPLES)
    for chosen in ([0, 2], [0, 1, 2, 3], [1, 3], [1, 2, 3]):
        operators = kernels.operators(chosen, 1e-3)
        together = ColumnFactors.create(kernels.table, operators)
        assert together is not None
        found = known.find_products(weights).gram(operators, together, n_constants=1)
        expected = hessian(operators, weights)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * float(np.abs(expected).max()))


def test_other_weights_begin_anew() -> None:
    operators, known = stack().operators([0, 1], 1e-3), KnownCurvature()
    for weights in (np.ones(N_SAMPLES), np.linspace(0.1, 1.0, N_SAMPLES)):
        assert known.find_products(weights).missing(operators) == 5
        np.testing.assert_allclose(known.gram(operators, n_constants=1), hessian(operators, weights), rtol=1e-12)


def test_bases_make_the_blocks_of_kernels_diagonal() -> None:
    kernels, known, weights = stack(), KnownCurvature(), np.linspace(0.5, 1.5, N_SAMPLES)
    for chosen in ([0, 2], [0, 1, 2, 3], [1]):  # more and wider ones follow, and then those that are known
        (columns,) = kernels.operators(chosen, 1e-3)
        own = columns.columns, columns.firsts, columns.ranks, columns.roots
        values, vectors = known.find_products(weights).eigenbases(columns.kernels, *own)
        for slot, (first, rank, root) in enumerate(zip(columns.firsts, columns.ranks, columns.roots, strict=True)):
            turned = root * columns.columns[first : first + rank].T @ vectors[slot, :rank, :rank]
            gram, top = turned.T @ (weights[:, None] * turned), values[slot].max()
            np.testing.assert_allclose(gram, np.diag(values[slot, :rank]), atol=1e-12 * top)
            assert not values[slot, rank:].any()
            assert not vectors[slot, rank:].any()
            assert not vectors[slot, :, rank:].any()


def test_bases_leave_means_out_where_shifts_change_nothing() -> None:
    (columns,), weights = stack().operators([1], 1e-3), np.linspace(0.5, 1.5, N_SAMPLES)
    own = columns.kernels, columns.columns, columns.firsts, columns.ranks, columns.roots
    values, vectors = KnownCurvature().find_products(weights).eigenbases(*own, alike=float(weights.sum()))
    Z = columns.rows(slice(None))
    turned = (Z - weights @ Z / weights.sum()) @ vectors[0]
    np.testing.assert_allclose(turned.T @ (weights[:, None] * turned), np.diag(values[0]), atol=1e-12 * values.max())
