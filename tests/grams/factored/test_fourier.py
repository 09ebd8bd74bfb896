"""Passes of Gaussians of single columns for many vectors: bins and waves at the rows themselves say the same."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from manykernels import Gaussian, KernelBank, Linear
from manykernels.grams.factored import ColumnTable, FourierStack, factored_stack
from manykernels.grams.factored.fourier_factor import FourierFactor, FourierPlan
from manykernels.grams.factored.loops import add_moments
from manykernels.grams.factored.operators import DenseOperator

WIDTHS = [0.1, 0.7, 8.0]


@pytest.mark.parametrize("directly", [False, True])
@pytest.mark.parametrize("n_vectors", [1, 7])
def test_bins_and_waves_at_rows_are_within_the_bound(
    directly: bool, n_vectors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    X[:5, 1] = np.nan
    stack = FourierStack(
        ColumnTable(X, missing="mask"), np.repeat([0, 1], 3), np.tile(WIDTHS, 2), np.array([1.0, 2.0, 1, 1, 3, 1])
    )
    monkeypatch.setattr(FourierPlan, "directly", lambda self, n_rows, n_vectors: directly)
    columns = rng.normal(size=(60, n_vectors))
    grams = stack.block()
    expected = np.einsum("ik,mij,jk->mk", columns, grams, columns)
    bounds = np.outer(stack.error_constants, np.abs(columns).sum(axis=0) ** 2)
    assert np.all(np.abs(stack.quad_each(columns) - expected) <= 2.0 * bounds + 1e-12)
    assert bounds.max() <= 1e-7


def test_few_rows_and_many_vectors_take_no_bins() -> None:
    stack = FourierStack.grid(np.random.default_rng(0).normal(size=(200, 1)), WIDTHS)
    (first, *_) = stack._layout
    assert first.plan.directly(200, 100)
    assert not first.plan.directly(200, 1)
    assert not first.plan.directly(100_000, 100)


def test_factors_of_the_last_working_set_are_taken_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under whatever numbers a stack of several kinds gives them."""
    rng = np.random.default_rng(0)
    stack = factored_stack(rng.normal(size=(6000, 2)), KernelBank.per_feature([Linear(), Gaussian(0.5), Gaussian(2.0)]))
    gaussians = [m for m in range(stack.n_kernels) if "gaussian" in stack.name_of(m)]
    assert gaussians != list(range(4))  # those of a part have other numbers
    first = {tuple(one.kernels): one for one in stack.templates(gaussians, 1e-3)}

    def unused(*arguments: object) -> None:
        raise AssertionError("computed anew")

    stacks = [part for part in stack.parts if isinstance(part, FourierStack)]
    monkeypatch.setattr(FourierStack, "_column_operator", unused)
    for one in stack.templates(gaussians, 1e-3):
        assert one._table is first[tuple(one.kernels)]._table
    with pytest.raises(AssertionError, match="computed anew"):
        stack.templates(gaussians, 1e-5)
    assert all(len(part._in_use) == 2 for part in stacks)  # a column each


@pytest.mark.parametrize("width", [0.1, 0.7, 5.0])
@pytest.mark.parametrize("ratio", [0.4, 0.125])  # with frequencies above that of the bins, and without
def test_pieces_are_the_functions_whether_or_not_a_period_is_a_whole_number_of_bins(width: float, ratio: float) -> None:
    x = np.random.default_rng(0).random(300) * 9.0
    factor = FourierFactor.plan(9.0, width)
    counts = np.zeros((factor.period_bins, 8))
    add_moments(x, 0.0, 1.0 / factor.spacing, np.ones(300), counts)
    factor = factor.with_spectrum(counts, 2.0)
    features = factor.features(x, 1e-9)
    for spacing in (factor.whole_spacing(ratio), 0.99 * factor.whole_spacing(ratio)):
        pieces = factor.pieces(spacing, int(9.0 / spacing) + 2, factor.directions[:, : features.shape[1]])
        places = np.floor(x / spacing + 0.5).astype(int)
        powers = (x / spacing - places)[:, None] ** np.arange(8)
        found = np.einsum("np,npr->nr", powers, pieces[places])
        assert np.linalg.norm(found - features, axis=1).max() <= factor.taylor_error(spacing) + 1e-12


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="no more than float64 to compare with")
@pytest.mark.parametrize("weak", [1.0, 1e-4, 1e-10])
def test_an_exact_quadratic_form_is_known_beside_itself_and_not_beside_the_vector(weak: float) -> None:
    """Weak penalties leave dual coefficients of which a kernel sees next to nothing: in long double, what it does."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 1))
    stack = FourierStack.grid(x, [0.1, 1.0], standardize=False)
    for m, width in enumerate((0.1, 1.0)):
        wide = x[:, 0].astype(np.longdouble)
        gram = np.exp(-((wide[:, None] - wide) ** 2) / (2 * np.longdouble(width) ** 2))
        values, vectors = np.linalg.eigh(gram.astype(np.float64))
        rho = rng.normal(size=400)
        rho = vectors @ ((vectors.T @ rho) * weak / (values.clip(0.0) + weak))
        exact = float(rho @ gram @ rho)
        value, error = stack.exact_quad(m, rho)
        assert abs(value - exact) <= error
        assert error <= 1e-12 * np.abs(rho).sum() * np.sqrt(exact) + 1e-24 * np.abs(rho).sum() ** 2
        if weak < 1e-4:  # such a bound said nothing
            assert exact < 1e-14 * np.abs(rho).sum() ** 2


def test_factors_that_are_held_keep_no_pieces() -> None:
    rng = np.random.default_rng(0)
    stack = FourierStack.grid(rng.normal(size=(100, 1)), WIDTHS[1:])
    (held,) = stack.operators([0, 1], 1e-3)
    pieces = [weakref.ref(found) for found in stack._pieces.values()]
    assert isinstance(held, DenseOperator)
    v = rng.normal(size=held.starts[-1])
    (again,) = stack.templates([0, 1], 1e-3)
    for bound, expected in zip(held.excess(v), again.excess(v), strict=True):
        np.testing.assert_array_equal(bound, expected)
    del again
    stack.let_go()
    gc.collect()
    assert len(pieces) == 2
    assert all(found() is None for found in pieces)
