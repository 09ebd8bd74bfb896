"""Passes of Gaussians of single columns for many vectors: bins and waves at the rows themselves say the same."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.grams.factored import ColumnTable, FourierStack
from manykernels.grams.factored.fourier_factor import FourierPlan

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
