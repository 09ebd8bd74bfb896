"""Landmarks by every way of choosing them: the same certified models, whichever kernels need them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.factored import largest_strength, on_factors

from manykernels import KernelBank, MKLClassifier, MKLRegressor
from manykernels.exceptions import ConvergenceWarning, InvalidInputError
from manykernels.grams.factored import NystroemStack, factored_stack
from manykernels.grams.factored.landmarks import draw_features
from manykernels.grams.rows.columns import ColumnTable
from manykernels.kernels import Gaussian, KernelSpec, Laplacian, Matern, Polynomial, Product, Sum

WAYS = ("cholesky", "uniform", "k-means")
SPECS: tuple[KernelSpec, ...] = (
    Gaussian(1.0), Laplacian(2.0), Matern(1.0, 1.5), Polynomial(2), Sum((Gaussian(2.0), Laplacian(1.0))),
    Product((Matern(2.0, 2.5), Polynomial(1))),
)  # fmt: skip


def rows(n: int = 90, columns: int = 4) -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, columns))
    X[:, 1] = np.round(2 * X[:, 1])  # ties
    X[1] = X[0]  # rows that are equal
    return X


@pytest.mark.parametrize("by", WAYS)
def test_bounds_and_factors_hold_for_every_kernel(by: str) -> None:
    X = rows()
    bank = KernelBank([(f"{m}", spec, [0, 1, 2, 3]) for m, spec in enumerate(SPECS)], landmarks_by=by)
    stack = factored_stack(X, bank)
    assert {type(part) for part in stack.parts} == {NystroemStack}  # type: ignore[attr-defined]
    fitted, prepared = bank.fit_prepare(X)
    grams = fitted.block(prepared, prepared)
    rho = np.random.default_rng(1).normal(size=len(X))
    exact = np.einsum("i,mij,j->m", rho, grams, rho)
    low, high = stack.quad_bounds(rho)
    assert (low <= exact * (1 + 1e-9)).all()
    assert (exact <= high * (1 + 1e-9)).all()
    for m, gram in enumerate(grams):
        Z = stack.factor(m, 1e-2)
        left = gram - Z @ Z.T
        assert np.linalg.eigvalsh(left).min() >= -1e-8 * np.trace(gram)
        assert np.trace(left) <= 1e-2 * np.trace(gram) * (1 + 1e-9)
        assert Z.shape[1] <= len(X)
    part = stack.take([0, 2])  # the way goes along
    assert {own.landmarks_by for own in part.parts} == {by}  # type: ignore[attr-defined]


@pytest.mark.parametrize("by", WAYS)
def test_estimators_reach_their_gap_with_every_choice(by: str) -> None:
    X = rows(120, 5)
    f = np.tanh(X[:, 0] * X[:, 2]) + 0.2 * np.random.default_rng(2).normal(size=120)
    entries = [(f"{j}", spec, [0, 2, j, 4 - j]) for j, spec in ((1, Gaussian(1.0)), (3, Matern(2.0, 1.5)))]
    bank = KernelBank(entries, standardize=True, landmarks_by=by)
    exact = MKLRegressor(bank, alpha="0.1*max", tol=1e-7, resources={"representation": "gram"}).fit(X, f)
    found = MKLRegressor(bank, alpha="0.1*max", tol=1e-7, resources={"representation": "factored"}).fit(X, f)
    assert (found.representation_, found.dual_gap_ <= 1e-7) == ("factored", True)
    first, second = (model.solution_.certificate.primal for model in (found, exact))
    assert first == pytest.approx(second, rel=1e-6)
    np.testing.assert_allclose(found.predict(X[:9]), exact.predict(X[:9]), atol=5e-3)
    model = MKLClassifier(bank, alpha="0.2*max", tol=1e-3, resources={"representation": "factored"}).fit(X, f > 0)
    assert model.dual_gap_ <= 1e-3


@pytest.mark.parametrize("by", WAYS)
def test_the_exact_gap_is_that_of_brute_force_with_every_choice(by: str) -> None:
    X = rows(100, 4)
    y = np.tanh(X[:, 0] * X[:, 2]) + 0.1 * np.random.default_rng(3).normal(size=100)
    bank = KernelBank([("all", Gaussian(0.8))], standardize=True, landmarks_by=by)
    fitted, prepared = bank.fit_prepare(X)
    gram = fitted.block(prepared, prepared)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = on_factors(X, y, bank, loss="squared", alpha="0.1*max", tol=1e-9, max_iter=1)
    (component,) = model.functions.components
    f = model.decompose(X)[0]
    if component.tol is None:
        norm = np.sqrt(component.coefficients @ gram @ component.coefficients)
    else:
        norm = np.linalg.norm(component.coefficients)
    strength = 0.1 * largest_strength(X, y, bank, "squared")
    primal = 0.5 * np.sum((y - f - model.intercept) ** 2) + strength * norm
    rho = model.dual_coef
    assert np.sqrt(rho @ gram @ rho) <= strength * (1 + 1e-9)
    brute = (primal - (y @ rho - 0.5 * rho @ rho)) / primal
    assert brute - 1e-9 <= model.dual_gap <= 1.1 * brute + 1e-9


def test_clusters_cover_better_than_draws_and_draws_of_more_begin_with_those_of_fewer() -> None:
    rng = np.random.default_rng(4)
    X = np.concatenate([rng.normal(size=(380, 3)), 8 + rng.normal(size=(20, 3))])
    table, spec = ColumnTable(X), Gaussian(1.5)
    left = {}
    for by in WAYS:
        features = draw_features(spec, (0, 1, 2), table, 1e-12, 32, by)(X)
        left[by] = 1 - np.sum(features**2) / len(X)
        assert features.shape[1] <= 32
    assert left["k-means"] < 0.8 * left["uniform"]
    few, many = (draw_features(spec, (0, 1, 2), table, 1e-12, rank, "uniform").landmarks for rank in (20, 32))
    np.testing.assert_array_equal(many[:20], few)


def test_the_choice_is_a_parameter_of_banks(tmp_path: Path) -> None:
    bank = KernelBank([("near", Gaussian(1.0))], landmarks_by="k-means")
    assert "landmarks_by='k-means'" in repr(bank)
    with pytest.raises(InvalidInputError, match="landmarks_by: 'k-means' and 'cholesky'"):
        bank + KernelBank([("far", Gaussian(2.0))])
    with pytest.raises(InvalidInputError, match="landmarks_by must be one of 'cholesky', 'uniform', 'k-means'"):
        bank.replace(landmarks_by="random")
    file = tmp_path / "bank.toml"
    file.write_text('landmarks_by = "uniform"\n[[kernels]]\nkernel = "gaussian"\nwidth = 1.0\n')
    assert KernelBank.from_toml(file).landmarks_by == "uniform"


@pytest.mark.parametrize("by", WAYS)
def test_rows_without_a_column_are_no_landmarks(by: str) -> None:
    X: Any = rows(80, 4)
    X[::3, 2] = np.nan
    bank = KernelBank([("all", Product((Gaussian(1.0), Polynomial(1))))], missing="mask", landmarks_by=by)
    stack = factored_stack(X, bank)
    Z = stack.factor(0, 1e-6)
    assert not Z[::3].any()
    fitted, prepared = bank.fit_prepare(X)
    gram = fitted.block(prepared, prepared)[0]
    assert np.trace(gram - Z @ Z.T) <= 1e-6 * np.trace(gram) * (1 + 1e-6)


def test_vectors_that_share_a_pass_have_the_bounds_of_passes_of_their_own() -> None:
    X = rows(120)
    stack = factored_stack(X, KernelBank([("all", Gaussian(0.7), None), ("two", Laplacian(1.0), [0, 1])]))
    rhos = list(np.random.default_rng(1).normal(size=(5, len(X))))
    before = stack.counters.passes
    together = stack.quad_bounds_each(rhos)
    assert stack.counters.passes - before == pytest.approx(1.0)
    for rho, bounds in zip(rhos, together, strict=True):
        np.testing.assert_allclose(bounds, stack.quad_bounds(rho), rtol=1e-12)
