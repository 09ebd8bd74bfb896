"""Factored stacks on tables as they are: categories, ranks, dates, and rows that lack values, against dense algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from tests.support.factored import largest_strength, on_factors

from manykernels import KernelBank, solve
from manykernels.exceptions import InvalidInputError
from manykernels.grams.factored import ColumnTable, ExplicitStack, WindowStack, factored_stack, open_table
from manykernels.grams.factored.operators import FeatureOperator
from manykernels.grams.rows.opening import open_rows
from manykernels.kernels import Gaussian, Laplacian, Linear, Matern, Overlap, Polynomial

Array = NDArray[Any]

N = 160


def table(rng: np.random.Generator) -> pd.DataFrame:
    """A column of every kind, with gaps in three of them, two of which have the same."""
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 10, N),
            "dose": np.exp(rng.normal(size=N)),
            "city": pd.Categorical.from_codes(rng.integers(0, 4, N), ["Rome", "Oslo", "Lima", "Bonn"]),
            "grade": pd.Categorical.from_codes(rng.integers(0, 5, N), list("abcde"), ordered=True),
            "smokes": rng.integers(0, 2, N).astype(bool),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.uniform(0, 900, N), unit="D"),
            "kind": rng.choice(["x", "y", "z"], N),
        }
    )
    frame.loc[frame.index[rng.uniform(size=N) < 0.2], ["dose", "city"]] = np.nan
    frame.loc[frame.index[rng.uniform(size=N) < 0.1], "day"] = pd.NaT
    return frame


def check_bounds(frame: Any, bank: KernelBank, rng: np.random.Generator) -> None:
    """Compare bounds, entries, diagonals, factors and features of new rows with those of the fitted bank."""
    stack = factored_stack(frame, bank)
    fitted, prepared = bank.fit_prepare(frame)
    grams = fitted.block(prepared, prepared)
    assert stack.names == fitted.names
    np.testing.assert_allclose(stack.block(), grams, atol=1e-12 * np.abs(grams).max())
    for rho in (rng.normal(size=len(frame)), np.ones(len(frame))):
        exact = np.einsum("i,mij,j->m", rho, grams, rho)
        rounding = 3e-14 * np.abs(grams).max(axis=(1, 2)) * np.abs(rho).sum() ** 2
        low, high = stack.quad_bounds(rho)
        assert (low <= exact + rounding).all()
        assert (high >= exact - rounding).all()
    new = frame[:40] if isinstance(frame, np.ndarray) else frame.iloc[:40]
    rows = stack.table.like(new)
    for m, gram in enumerate(grams):
        Z = stack.factor(m, 1e-6)
        rest = gram - Z @ Z.T
        assert np.linalg.eigvalsh(rest)[0] >= -1e-13 * np.trace(gram)
        assert np.trace(rest) <= (1e-6 + 1e-13) * np.trace(gram)
        np.testing.assert_allclose(stack.features(m, rows, 1e-6), Z[:40], atol=1e-7 * np.sqrt(np.abs(gram).max()))
        np.testing.assert_allclose(stack.cross_apply(m, rows, Z[:, 0]), gram[:40] @ Z[:, 0], atol=1e-10)
        product = sum(o.rows(np.arange(len(Z))) @ o.adjoint(Z[:, 0]) for o in stack.operators([m], 1e-6))
        np.testing.assert_allclose(product, Z @ (Z.T @ Z[:, 0]), atol=1e-10 * np.abs(gram).max() * len(Z))


@pytest.mark.parametrize("missing", ["mask", "indicator"])
def test_the_default_bank_on_a_table_is_the_one_of_gram_matrices(missing: str) -> None:
    rng = np.random.default_rng(0)
    frame = table(rng)
    check_bounds(frame, KernelBank.auto(frame, missing=missing), rng)


def test_every_kind_of_factor_is_zero_on_rows_that_lack_its_column() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, 3))
    X[rng.uniform(size=X.shape) < 0.15] = np.nan
    specs = [Gaussian(0.4), Laplacian(0.5), Matern(1.0, 2.5), Linear(), Polynomial(3, offset=1.0)]
    bank = KernelBank.per_feature(specs, standardize=True, missing="mask")
    bank += KernelBank([("pair", Gaussian(1.0), [0, 2])], standardize=True, missing="mask")
    for normalize in ("trace", None):
        check_bounds(X, bank.replace(normalize=normalize), rng)
    lacking = factored_stack(X, bank).factor(0, 1e-8)[np.isnan(X[:, 0])]
    assert lacking.size
    assert not lacking.any()


def test_a_table_with_gaps_is_solved_to_the_optimum_of_the_gram_solvers() -> None:
    rng = np.random.default_rng(2)
    frame = table(rng)
    y = np.sin(frame["age"] / 5) + (frame["city"] == "Oslo") + 0.3 * frame["dose"].fillna(2.0) + rng.normal(size=N) / 3
    bank = KernelBank.auto(frame, missing="indicator")
    model = on_factors(frame, y, bank, loss="squared", alpha="0.1*max", tol=1e-7)
    assert model.status == "converged"
    fitted, prepared = bank.fit_prepare(frame)
    grams = fitted.block(prepared, prepared)
    exact = solve(
        grams,
        y,
        loss="squared",
        penalty="l1",
        strength=0.1 * largest_strength(frame, y.to_numpy(), bank, "squared"),
        tol=1e-8,
    )
    assert model.certificate.primal == pytest.approx(exact.certificate.primal, rel=2e-7)
    np.testing.assert_allclose(model.decision_function(frame.iloc[:20]), model.decision_function(frame)[:20])
    moved = frame[frame.columns[::-1]].iloc[:20].assign(other="nobody reads this")
    np.testing.assert_allclose(model.decision_function(moved), model.decision_function(frame)[:20])


def test_a_category_that_is_new_says_nothing() -> None:
    frame = table(np.random.default_rng(3))[["kind"]]
    stack = factored_stack(frame, KernelBank.per_feature(Overlap()))
    new = stack.features(0, stack.table.like(pd.DataFrame({"kind": ["x", "never seen"]})), 1e-6)
    assert new[0].any()
    assert not new[1].any()


def test_features_that_are_not_stored_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    frame = table(rng)
    stack = factored_stack(frame, KernelBank.auto(frame, missing="mask")).parts[1]  # type: ignore[attr-defined]
    assert isinstance(stack, ExplicitStack)
    stored = stack.operators(range(stack.n_kernels), 1e-6)
    monkeypatch.setattr("manykernels.grams.factored.operators.STORED", 0)
    rho = rng.normal(size=N)
    for before, after in zip(stored, stack.operators(range(stack.n_kernels), 1e-6), strict=True):
        assert isinstance(after, FeatureOperator)
        v, first, second = rng.normal(size=after.rank), np.zeros(N), np.zeros(N)
        before.add_scores(v, first)
        after.add_scores(v, second)
        np.testing.assert_allclose(first, second, atol=1e-12)
        np.testing.assert_allclose(before.adjoint(rho), after.adjoint(rho), atol=1e-11)


def test_gaps_that_nobody_allowed_are_refused() -> None:
    frame = table(np.random.default_rng(5))
    with pytest.raises(InvalidInputError, match="missing values in 3 columns: 'dose'"):
        factored_stack(frame, KernelBank.auto(frame))
    model = on_factors(frame[["age"]], np.sin(frame["age"]), loss="squared", alpha="0.1*max")
    with pytest.raises(InvalidInputError, match="missing values in 1 column: 'age'"):
        model.decision_function(pd.DataFrame({"age": [1.0, np.nan]}))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("columns", [(0, 2), (0, 1, 2)], ids=["two", "three"])
def test_a_transform_bounds_the_kernels_of_two_and_three_columns(
    columns: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("finufft")
    monkeypatch.setattr("manykernels.grams.factored.window.AN_ENTRY", np.inf)  # of so few rows landmarks are faster
    rng = np.random.default_rng(6)
    X = rng.normal(size=(N, 3))
    X[:, 1] = np.exp(X[:, 1])
    X[rng.uniform(size=X.shape) < 0.05] = np.nan
    entries = [(f"{width}", Gaussian(width), list(columns)) for width in (2.0, 0.6, 1.0)]
    bank = KernelBank(entries, standardize=True, missing="mask")
    check_bounds(X, bank, rng)
    stack = factored_stack(X, bank)
    assert isinstance(stack.parts[0], WindowStack)  # type: ignore[attr-defined]
    assert stack.neighbors.tolist() == [[2, -1], [-1, 2], [1, 0]]
    rho = rng.normal(size=N)
    low, high = stack.quad_bounds(rho)
    assert (high - low <= 1e-10 * np.abs(rho).sum() ** 2).all()
    parts = factored_stack(open_rows(X, chunk_rows=50), bank).quad_bounds(rho)
    np.testing.assert_allclose(parts, (low, high), rtol=1e-9)


def test_columns_that_reach_too_far_for_a_transform_take_landmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("finufft")
    monkeypatch.setattr("manykernels.grams.factored.window.MAX_MODES", 3000)
    monkeypatch.setattr("manykernels.grams.factored.window.AN_ENTRY", np.inf)
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N, 3))
    X[0, 2] = 60.0
    bank = KernelBank([("near", Gaussian(1.0), [0, 1]), ("far", Gaussian(1.0), [1, 2])])
    check_bounds(X, bank, rng)
    low, high = factored_stack(X, bank).quad_bounds(rng.normal(size=N))
    assert high[0] - low[0] < 1e-6 < high[1] - low[1]


def test_few_rows_take_landmarks_where_a_transform_takes_longer_than_all_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("finufft")
    rng = np.random.default_rng(8)
    X = rng.normal(size=(N, 3))
    bank = KernelBank([(f"{width}", Gaussian(width), [0, 1, 2]) for width in (0.5, 1.0, 2.0)])
    monkeypatch.setattr("finufft.nufft3d1", None)  # which would be called
    check_bounds(X, bank, rng)
    rhos = list(rng.normal(size=(2, N)))
    together = factored_stack(X, bank).quad_bounds_each(rhos)
    for found, rho in zip(together, rhos, strict=True):
        np.testing.assert_allclose(found, factored_stack(X, bank).quad_bounds(rho), rtol=1e-9)


def test_new_rows_in_chunks_are_read_by_the_names_of_their_columns_like_rows_in_memory() -> None:
    rng = np.random.default_rng(5)
    known = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    new = pd.DataFrame(rng.normal(size=(40, 4)), columns=list("cxba"))
    table = ColumnTable(known, standardize=True)
    chunked, held = open_table(open_rows(new, chunk_rows=15), table), open_table(new, table)
    assert chunked.chunked
    assert not held.chunked
    for j in range(3):
        np.testing.assert_array_equal(chunked.values(j), held.values(j))
    np.testing.assert_array_equal(chunked.points((2, 0), np.array([31, 4])), held.points((2, 0), np.array([31, 4])))
    sums = [rows.reduce([0, 1], lambda part: part.points((0, 1)).sum(axis=0)) for rows in (chunked, held)]
    np.testing.assert_allclose(*sums, rtol=1e-12)
    parts = [
        np.concatenate([own for _, own in rows.evaluate_slices(10, lambda part: part.values(1))])
        for rows in (chunked, held)
    ]
    np.testing.assert_array_equal(*parts)
