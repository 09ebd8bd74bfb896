"""Kernels among distinct points are those among all samples, and are held so only where it is predicted to pay."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.memory import peak_of

from manykernels import KernelBank
from manykernels.grams import DistinctStack, LazyStack, RankOneStack, build_stack
from manykernels.grams.base import GramView
from manykernels.grams.distinct import Distinct
from manykernels.grams.repeats import lines_of, worthwhile
from manykernels.kernels import Gaussian, Laplacian, Linear
from manykernels.testing.kernels import GramStackContract

FEW = np.random.default_rng(3).integers(0, (4, 7, 30), size=(23, 3)) / 2.0
KERNELS = [
    ("a narrow", Gaussian(0.7), [0]),
    ("b", Gaussian(1.0), [1]),
    ("c", Laplacian(2.0), [2]),
    ("a wide", Gaussian(3.0), [0]),
    ("all", Gaussian(2.0), None),
    ("a line", Linear(), [0]),
]


def lazy_of(X, **options):
    bank, prepared = KernelBank(KERNELS, **options).fit_prepare(X)
    return LazyStack(bank, prepared)


def repeating(X, columns):
    """Return which kernels of these columns are functions of how many points."""
    found = []
    for column in columns:
        _, samples, codes = np.unique(X[:, column], return_index=True, return_inverse=True)
        kernels = np.array([m for m, (_, _, own) in enumerate(KERNELS) if own == [column]])
        found.append(Distinct(kernels, samples, codes.astype(np.uint32)))
    return found


class TestDistinct(GramStackContract):
    stack_class = DistinctStack

    def dense(self, rng):
        return lazy_of(FEW).block()

    def create(self, rng):
        return DistinctStack(lazy_of(FEW), repeating(FEW, [0, 1]), dtype=np.float64)


class TestDistinctFloat32(TestDistinct):
    rtol = 1e-6

    def create(self, rng):
        return DistinctStack(lazy_of(FEW), repeating(FEW, [0, 1]), dtype=np.float32)


class TestDistinctEvaluated(TestDistinct):
    def create(self, rng):
        return DistinctStack(lazy_of(FEW), repeating(FEW, [0, 1, 2]))


def table(n, *, seed=0):
    """Return columns of 3 values, of n / 8, and of as many as there are rows."""
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, 3, n), rng.permutation(np.arange(n) // 8), rng.normal(size=n)]).astype(
        float
    )


def test_what_pays_is_decided_by_predicted_seconds():
    X = table(400)
    bank, prepared = KernelBank.per_feature(widths=[0.5, 1.0, 2.0]).fit_prepare(X)
    assert [len(own.samples) for own in worthwhile(bank, prepared)] == [3, 50]
    few = prepared.take(np.arange(40))
    assert worthwhile(bank, few) == []  # a call for each column would take longer than its entries


@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", [{}, {"normalize": "unit_diagonal"}, {"center": True}, {"missing": "mask"}])
@pytest.mark.parametrize("kind", ["auto", "lazy"])
def test_built_stacks_have_the_entries_of_packed_ones(options, kind):
    X = table(300)
    if "missing" in options:
        X[::7, 0] = np.nan  # rows that lack a column are zero there, whatever stands in the gap
    bank, prepared = KernelBank.auto(**options).fit_prepare(X)
    stack, packed = (build_stack(bank, prepared, kind=own, memory_budget="1 GB") for own in (kind, "packed"))
    assert isinstance(stack, DistinctStack)
    assert stack.evaluates == (kind == "lazy")
    np.testing.assert_allclose(stack.block(), packed.block(), rtol=1e-10, atol=1e-13)
    weights = np.random.default_rng(1).random(len(bank))
    np.testing.assert_allclose(stack.combine(weights), packed.combine(weights), rtol=1e-10, atol=1e-13)
    assert stack.n_entries < packed.n_entries
    if kind == "auto":
        assert stack.nbytes == 8 * stack.n_entries < packed.nbytes


@pytest.mark.parametrize("options", [{}, {"center": True}])
def test_triangles_among_samples_in_any_order_are_those_of_blocks(options):
    lazy, kernels = lazy_of(FEW, **options), np.array([3, 0, len(KERNELS) - 1])
    for samples in (np.arange(len(FEW))[::-1], np.array([4, 1, 9]), np.arange(len(FEW))):
        expected = lazy.block(samples, samples, kernels)[:, *np.triu_indices(len(samples))]
        np.testing.assert_allclose(GramView(lazy, kernels, samples).triangles(), expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("kind", ["auto", "lazy"])
def test_linear_kernels_of_columns_are_held_as_columns(kind):
    rng = np.random.default_rng(0)
    X = np.column_stack([table(200), rng.normal(size=(200, 4))])
    kernels = [(f"{name}{j}", spec, [j]) for j in range(7) for name, spec in (("g", Gaussian(1.0)), ("line", Linear()))]
    bank, prepared = KernelBank([*kernels, ("plane", Linear(), [3, 4])], standardize=True).fit_prepare(X)
    stack, packed = (build_stack(bank, prepared, kind=own) for own in (kind, "packed"))
    lines = lines_of(bank, prepared, [])
    assert [bank.names[m] for m in lines.kernels] == [f"line{j}" for j in range(7)]
    held = next(part for part in stack.stacks if isinstance(part, RankOneStack))
    assert 4 <= held.n_kernels <= 7  # those among few points may have matrices among them
    np.testing.assert_allclose(stack.block(), packed.block(), rtol=1e-12, atol=1e-13)
    weights, columns = rng.random(len(bank)), rng.normal(size=(200, 3))
    np.testing.assert_allclose(stack.combine(weights), packed.combine(weights), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(stack.combine(-weights), packed.combine(-weights), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(stack.quad_each(columns), packed.quad_each(columns), rtol=1e-10)
    np.testing.assert_allclose(stack.apply(weights, columns), packed.apply(weights, columns), rtol=1e-10, atol=1e-10)
    assert stack.n_entries < packed.n_entries - (held.n_kernels - 1) * packed.n_entries // len(bank)


def test_linear_kernels_keep_matrices_where_they_are_no_products_of_columns():
    X = table(200)
    for options in ({"center": True}, {"normalize": "unit_diagonal"}, {"missing": "mask"}):
        gaps = X.copy()
        gaps[::9, 2] = np.nan if "missing" in options else 0.0
        bank, prepared = KernelBank.auto(**options).fit_prepare(gaps)
        stack, packed = build_stack(bank, prepared), build_stack(bank, prepared, kind="packed")
        assert lines_of(bank, prepared, []) is None
        np.testing.assert_allclose(stack.block(), packed.block(), rtol=1e-10, atol=1e-13)


def test_a_sum_with_linear_kernels_is_made_in_one_matrix() -> None:
    """Linear kernels had a matrix of their own, which was added to the sum of the others."""
    rng = np.random.default_rng(0)
    bank = KernelBank.per_feature([Gaussian(1.0), Linear()])
    stack = build_stack(*bank.fit_prepare(rng.normal(size=(500, 12))), dtype=np.float32)
    assert isinstance(stack, DistinctStack)
    weights = rng.normal(size=stack.n_kernels)  # of both signs
    expected = np.tensordot(weights, stack.block(), 1)
    np.testing.assert_allclose(stack.combine(weights), expected, atol=1e-12 * np.abs(expected).max())
    assert peak_of(lambda: stack.combine(weights)) < 1.5 * 8 * 500**2
