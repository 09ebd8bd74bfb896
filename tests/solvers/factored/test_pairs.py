"""The second stage: pairs of columns, certified over all pairs considered."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from tests.support.factored import ADDITIVE, largest_strength, on_factors

from manykernels import KernelBank, solve
from manykernels.exceptions import InvalidInputError
from manykernels.kernels import Gaussian, Linear, MedianWidth
from manykernels.solvers.factored import newton, quadratic_products
from manykernels.solvers.factored.working_set import FactoredWorkingSet

N = 400
WIDTHS = (0.3, 0.6, 1.2)


def with_pairs(
    X: Any, y: Any, bank: KernelBank = ADDITIVE, *, columns: Any = None, widths: Any = WIDTHS, **options: Any
) -> Any:
    """Fit an additive model, then one with Gaussian kernels of the pairs of the columns that it selected as well."""
    if columns is None:
        columns = sorted({int(name[1]) for name in on_factors(X, y, bank, **options).functions.names})
    entries = [
        (f"{i}{j}{width}", Gaussian(MedianWidth(width)), [i, j])
        for i, j in combinations(columns, 2)
        for width in widths
    ]
    return on_factors(X, y, bank + KernelBank(entries, standardize=True), **options)


def data(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Three columns that matter, two of them together, and one of noise."""
    X = np.random.default_rng(seed).normal(size=(N, 4))
    return X, X[:, 0] * X[:, 1] + X[:, 0] + X[:, 1] + np.sin(2 * X[:, 2])


def test_the_optimum_is_that_of_the_gram_solvers_over_all_pairs_considered() -> None:
    X, y = data(0)
    bank = KernelBank.per_feature([Gaussian(1.0), Linear()], standardize=True)
    model = with_pairs(X, y, bank, widths=(0.5, 1.0), loss="squared", alpha="0.1*max", tol=1e-7)
    assert model.status == "converged"
    columns = sorted({int(name[1]) for name in on_factors(X, y, bank, loss="squared", alpha="0.1*max").functions.names})
    pairs = [(i, j) for i in columns for j in columns if i < j]
    entries = [(f"{i}{j}{width}", Gaussian(MedianWidth(width)), [i, j]) for i, j in pairs for width in (0.5, 1.0)]
    whole = bank + KernelBank(entries, standardize=True)
    fitted, prepared = whole.fit_prepare(X)
    assert len(fitted.names) == len(model.kernel_weights)
    strength, grams = 0.1 * largest_strength(X, y, whole, "squared"), fitted.block(prepared, prepared)
    exact = solve(grams, y, loss="squared", penalty="l1", strength=strength, tol=1e-8)
    assert model.certificate.primal == pytest.approx(exact.certificate.primal, rel=2e-7)


def test_a_surface_shows_what_a_pair_adds() -> None:
    (X, _), (new, _) = data(1), data(2)
    y, truth = (rows[:, 0] * rows[:, 1] + np.sin(2 * rows[:, 2]) for rows in (X, new))
    model = with_pairs(X, y, columns=[0, 1, 2], loss="squared", alpha="0.05*max")
    additive = on_factors(X, y, loss="squared", alpha="0.05*max")
    assert np.std(model.decision_function(new) - truth) < 0.6 * np.std(additive.decision_function(new) - truth)
    surface = model.functions.surface(0, 1, 15)
    central = surface[(surface["x"].abs() < 1.5) & (surface["z"].abs() < 1.5)]
    assert np.corrcoef(central["effect"], central["x"] * central["z"])[0, 1] > 0.9
    turned = model.functions.surface(1, 0, 15)
    turned = turned.sort_values(["z", "x"], ignore_index=True)
    np.testing.assert_allclose(turned["effect"], surface["effect"], atol=1e-10)


def test_blocks_do_not_overshoot_what_their_sampled_hessians_leave_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Features of landmarks that no sampled row is near have no curvature there: unguarded sweeps overflow."""
    monkeypatch.setattr(newton, "RANK_LIMIT", 0)
    monkeypatch.setattr(quadratic_products, "BLOCK_ROWS", 30)
    monkeypatch.setattr(quadratic_products, "BLOCK_PER_RANK", 0)
    monkeypatch.setattr(FactoredWorkingSet, "_smaller_as_matrices", lambda *_: False)
    X, y = data(4)
    options: dict[str, Any] = {"loss": "squared", "alpha": "0.02*max", "tol": 1e-2, "max_iter": 30}
    model = with_pairs(X, y, columns=[0, 1, 2, 3], widths=(0.1, 0.2), **options)
    assert model.status == "converged"


def test_what_cannot_be_paired_is_said() -> None:
    X, y = data(3)
    model = with_pairs(X, y, columns=[0, 1], loss="squared", alpha="0.5*max")
    with pytest.raises(InvalidInputError, match="A pair is two different columns from 0 to 3"):
        model.functions.surface(0, 4)
