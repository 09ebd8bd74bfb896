"""Bounds of passes by earlier ones: never wrong, exact near the threshold, and mostly without reading."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from manykernels import Gaussian, KernelBank, Linear
from manykernels.grams.factored import factored_stack
from manykernels.grams.factored.explicit import ColumnPasses, largest_singular_values

N, GROUPS = 60, 40


@pytest.fixture
def X() -> np.ndarray:
    return np.asfortranarray(np.random.default_rng(0).normal(size=(N, 3 * GROUPS)))


def bank(size: int = 3) -> KernelBank:
    kernels = [(f"group {g}", Linear(), list(range(size * g, size * (g + 1)))) for g in range(3 * GROUPS // size)]
    return KernelBank(kernels, normalize="mean_diagonal")


def test_singular_values_are_bounded_from_above_and_tightly(X: np.ndarray) -> None:
    scales = np.linspace(0.5, 2.0, GROUPS)
    found = largest_singular_values(X.T, np.arange(0, 3 * GROUPS, 3), scales)
    own = [np.sqrt(scales[g]) * np.linalg.norm(X[:, 3 * g : 3 * g + 3], 2) for g in range(GROUPS)]
    assert (found >= own).all()
    np.testing.assert_allclose(found, own, rtol=1e-6)


@pytest.mark.parametrize("more", [[], [Gaussian(1.0)]], ids=["in place", "beside others"])
def test_functions_are_as_large_as_diagonals_allow(X: np.ndarray, more: list[Gaussian]) -> None:
    kernels = bank().kernels + tuple((f"more {j}", kernel, [j]) for j, kernel in enumerate(more))
    stack = factored_stack(X, KernelBank(kernels, normalize="mean_diagonal"))
    chosen, start = np.arange(0, stack.n_kernels, 5), np.linspace(0.0, 1.0, N)
    sizes, out = np.random.default_rng(1).uniform(size=len(chosen)), start.copy()
    sizes[1] = 0.0
    stack.add_largest(chosen, sizes, out)
    np.testing.assert_allclose(out, start + sizes @ np.sqrt(stack.diag()[chosen]), rtol=1e-12)


@pytest.mark.parametrize(("size", "shape"), [(1, (N,)), (3, (N,)), (3, (N, 2))], ids=["columns", "groups", "outputs"])
def test_bounds_hold_along_a_path_and_what_is_near_the_threshold_is_as_a_pass_has_it(
    X: np.ndarray, size: int, shape: tuple[int, ...]
) -> None:
    rng, stack = np.random.default_rng(1), factored_stack(X, bank(size))
    passes, read = stack.near_passes(), []
    rho, way = rng.normal(size=shape), rng.normal(size=shape)
    for step in range(12):
        own = rho + 0.05 * step * way + 0.002 * rng.normal(size=shape)
        exact = stack.squares(own.reshape(N, -1))
        limits = np.full(stack.n_kernels, 1.1 * np.sort(exact)[-3])
        errors = sum(stack.error_bound(column) for column in own.reshape(N, -1).T)
        low, high, again = passes.bounds(own, limits, errors)
        read.append(again)
        assert (low <= exact * (1 + 1e-9)).all()
        assert (high >= exact * (1 - 1e-9)).all()
        near = high > limits
        np.testing.assert_allclose(high[near], exact[near], rtol=1e-9)
        np.testing.assert_allclose(low[near], exact[near], rtol=1e-9)
    assert read[0] == stack.n_kernels
    assert np.mean(read[1:]) < 0.5 * stack.n_kernels


def test_what_is_inside_of_the_span_of_earlier_passes_is_known_without_reading(X: np.ndarray) -> None:
    rng, stack = np.random.default_rng(2), factored_stack(X, bank())
    passes, vectors = stack.near_passes(), rng.normal(size=(3, N))
    none = np.zeros(stack.n_kernels)
    for own in vectors:
        assert passes.bounds(own, none, none)[2] == stack.n_kernels
    inside = np.array([0.5, -2.0, 1.0]) @ vectors
    low, high, again = passes.bounds(inside, np.full(stack.n_kernels, np.inf), none)
    assert again == 0
    np.testing.assert_allclose(low, stack.quad(inside), rtol=1e-6)
    np.testing.assert_allclose(high, stack.quad(inside), rtol=1e-6)


def test_directions_are_kept_up_to_a_number_of_them(X: np.ndarray) -> None:
    rng = np.random.default_rng(3)
    passes = ColumnPasses(X.T, np.arange(3 * GROUPS), np.ones(3 * GROUPS), np.linalg.norm(X, axis=0))
    for _ in range(20):
        own = rng.normal(size=N)
        low, high, _ = passes.bounds(own, np.zeros(3 * GROUPS), np.zeros(3 * GROUPS))
        np.testing.assert_allclose(low, (X.T @ own) ** 2)
        np.testing.assert_allclose(high, (X.T @ own) ** 2)


def test_kernels_that_are_no_columns_in_place_have_none(X: np.ndarray) -> None:
    assert factored_stack(X, KernelBank([("curve", Gaussian(1.0), [0])])).near_passes() is None
    assert factored_stack(X, KernelBank([("line", Linear(), [0]), ("curve", Gaussian(1.0), [1])])).near_passes() is None


def test_bounds_hold_where_directions_are_differences_of_what_is_nearly_the_same(X: np.ndarray) -> None:
    """Each direction is a hundred-thousandth of the vector that it comes from, whose rounding it then has."""
    starts = np.arange(3 * GROUPS)
    passes = ColumnPasses(X.T, starts, np.ones(3 * GROUPS), np.linalg.norm(X, axis=0))
    none, all_open = np.zeros(3 * GROUPS), np.full(3 * GROUPS, np.inf)
    basis = np.linalg.qr(np.random.default_rng(4).normal(size=(N, 6)))[0].T
    passes.bounds(basis[0], none, none)
    for before, new in pairwise(basis):
        passes.bounds(before + 2e-5 * new, none, none)
    for own in [direction for direction, *_ in passes._directions]:
        low, high, again = passes.bounds(own, all_open, none)
        exact = (X.T @ own) ** 2
        assert again == 0
        assert (low <= exact * (1 + 1e-12)).all()
        assert (high >= exact * (1 - 1e-12)).all()
