"""Kernels on landmarks: what they are, what they learn, and the same model by factors and by matrices."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.support.factored import on_factors

from manykernels import KernelBank, Landmarks, Laplacian, Linear, Matern, MKLRegressor, load_model, save_model
from manykernels.exceptions import InvalidInputError
from manykernels.grams.factored import factored_stack
from manykernels.grams.rows import columns
from manykernels.grams.rows.opening import open_rows
from manykernels.kernels import Gaussian, Missing

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 4))
Y = X[:, 0] * X[:, 1] * X[:, 2] + X[:, 3]
BANK = KernelBank.per_feature(Linear()) + KernelBank.landmarks(count=12)


def test_a_kernel_on_landmarks_is_the_projection_of_its_base() -> None:
    spec: Any = KernelBank.joint(Landmarks(Gaussian("median"), 9, center=False)).fit(X).table.specs[0]
    points, units = np.array(spec.points), np.array(spec.units)
    assert all((row == X).all(axis=1).any() for row in points)
    np.testing.assert_allclose(units, 1.0 / X.std(axis=0))
    between, own = spec.base(X * units, points * units), spec.base(points * units)
    np.testing.assert_allclose(spec(X), between @ np.linalg.solve(own, between.T), atol=1e-9)
    np.testing.assert_allclose(spec(points), own, atol=1e-9)  # where landmarks are, nothing is lost
    assert np.linalg.eigvalsh(spec.base(X * units) - spec(X)).min() > -1e-9


def test_centered_functions_have_mean_zero_over_landmarks() -> None:
    spec: Any = KernelBank.joint(Landmarks(Matern(2.0, 0.5), 9)).fit(X).table.specs[0]
    np.testing.assert_allclose(spec(spec.points).sum(axis=0), 0.0, atol=1e-12)


def test_columns_are_divided_by_what_they_vary() -> None:
    table = np.column_stack([X[:, 0] * 100, np.where(X[:, 1] > 1.5, 7.0, 2.0), np.full(len(X), 3.0)])
    spec: Any = KernelBank.joint(Landmarks(Matern(1.0, 0.5), 20)).fit(table).table.specs[0]
    np.testing.assert_allclose(spec.units, [1.0 / table[:, 0].std(), 0.2, 0.0])
    moved = table + np.array([0.0, 0.0, 50.0])
    np.testing.assert_allclose(spec(moved, table), spec(table), atol=1e-12)


def test_a_stretched_column_is_one_that_is_larger() -> None:
    given: dict[str, Any] = {"points": ((0.0, 1.0), (1.0, 3.0), (2.0, 0.0)), "units": (1.0, 0.5)}
    sharp = Landmarks(Matern(1.0, 0.5), stretched=1, stretch=6.0, **given)
    wider = Landmarks(Matern(1.0, 0.5), **given | {"units": (1.0, 3.0)})
    np.testing.assert_allclose(sharp(X[:, :2]), wider(X[:, :2]))


def test_the_bank_has_a_kernel_for_every_stretched_column() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(city="Rome")
    names = KernelBank.landmarks(count=5, stretched=["c", "a"]).expand(frame)
    assert [(name.split(":")[0], spec.stretched, columns) for name, spec, columns in names] == [
        ("all", None, (0, 1, 2, 3)),
        ("all, c times 4", 2, (0, 1, 2, 3)),
        ("all, a times 4", 0, (0, 1, 2, 3)),
    ]
    assert len(KernelBank.landmarks().expand(np.ones((1, 30)))) == 31
    assert len(KernelBank.landmarks().expand(np.ones((1, 31)))) == 1
    assert len(KernelBank.landmarks(Gaussian(1.0), [0, 1], stretched=[]).expand(X)) == 1


def test_factors_and_matrices_give_the_same_model(tmp_path: Path) -> None:
    given: dict[str, Any] = {"alpha": "0.05*max", "tol": 1e-8}
    factored, gram = (
        MKLRegressor(BANK, resources={"representation": kind}, **given).fit(X, Y) for kind in ("factored", "gram")
    )
    assert max(factored.dual_gap_, gram.dual_gap_) <= 1e-8
    assert any(name.startswith("all") for name in factored.weights_frame()["name"])
    np.testing.assert_allclose(factored.predict(X), gram.predict(X), atol=1e-5)
    save_model(factored, tmp_path / "model.mkl")
    np.testing.assert_allclose(load_model(tmp_path / "model.mkl").predict(X), factored.predict(X), atol=1e-9)


def test_features_are_computed_once_in_a_fit_and_the_model_is_that_without_keeping_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows_read: list[int] = []
    features = Landmarks.features

    def counted(spec: Landmarks, A: np.ndarray) -> np.ndarray:
        rows_read.append(len(A))
        return features(spec, A)

    monkeypatch.setattr(Landmarks, "features", counted)
    rows = np.random.default_rng(1).normal(size=(1200, 4))  # more than factors have columns: no matrix takes over
    target = rows[:, 0] * rows[:, 1] * rows[:, 2] + rows[:, 3]
    fit = partial(MKLRegressor(BANK, resources={"representation": "factored"}, alpha=1e-2, tol=1e-8).fit, rows, target)
    n_landmarks = sum(isinstance(spec, Landmarks) for spec in BANK.fit(rows).table.specs)
    rows_read.clear()
    kept = copy.copy(fit())
    assert sum(rows_read) == n_landmarks * len(rows)
    rows_read.clear()
    monkeypatch.setattr(columns, "KEPT_ENTRIES", 0)
    again = fit()
    assert sum(rows_read) > 3 * n_landmarks * len(rows)
    np.testing.assert_allclose(kept.kernel_weights_, again.kernel_weights_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(kept.predict(X), again.predict(X), atol=1e-6)


def test_features_that_a_table_keeps_do_not_go_with_it_to_another_process() -> None:
    spec: Any = KernelBank.joint(Landmarks(Gaussian("median"), 9)).fit(X).table.specs[0]
    table = columns.ColumnTable(X)
    kept = table.cached_features(spec, (0, 1, 2, 3))
    assert kept is table.cached_features(spec, (0, 1, 2, 3))
    np.testing.assert_allclose(kept, spec.features(X), atol=1e-12)
    np.testing.assert_allclose(table.diagonal(spec, (0, 1, 2, 3)), spec.diag(X), atol=1e-12)
    assert len(pickle.dumps(table)) < X.nbytes + 2000
    assert table.cached_features(Gaussian(1.0), (0,)) is None


def test_rows_that_lack_a_column_have_features_of_zero() -> None:
    table = X.copy()
    table[::7, 1] = np.nan
    bank = KernelBank([("some", Landmarks(Gaussian(2.0), 9, points=X[:5, :2].tolist(), units=(1.0, 1.0)), [0, 1])])
    held = columns.ColumnTable(np.asfortranarray(table), missing="mask")
    (spec,) = [spec for _, spec, _ in bank.expand(X)]
    kept: Any = held.cached_features(spec, (0, 1))
    assert not kept[::7].any()
    assert kept[1].any()
    assert not held.diagonal(spec, (0, 1))[::7].any()


def test_products_over_chunks_are_those_of_the_features_and_compute_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products need the base kernel alone, features a product with the basis of the landmarks besides."""
    X = np.random.default_rng(5).normal(size=(90, 3))
    X[::7, 1] = np.nan
    bank = KernelBank([("all", Landmarks(Gaussian("median"), 12), None)], missing="mask")
    (operator,) = factored_stack(open_rows(X, chunk_rows=40), bank).operators([0], 0.0)
    Z = operator.rows(np.arange(90))
    assert not Z[::7].any()
    assert Z[1::7].any()
    monkeypatch.setattr(Landmarks, "features", lambda *_: pytest.fail("features were computed"))
    v, rho, scores = np.linspace(-1, 1, Z.shape[1]), np.cos(np.arange(90.0)), np.ones(90)
    operator.add_scores(v, scores)
    np.testing.assert_allclose(scores, 1.0 + Z @ v, atol=1e-9)
    np.testing.assert_allclose(operator.adjoint(rho), Z.T @ rho, atol=1e-9)
    several = np.column_stack([rho, rho**2])
    np.testing.assert_allclose(operator.adjoint(several), Z.T @ several, atol=1e-9)


def test_rows_in_chunks_give_the_same_model() -> None:
    whole = on_factors(X, Y, BANK, loss="squared", alpha="0.1*max", tol=1e-8)
    chunks = on_factors(open_rows(X, chunk_rows=40), Y, BANK, loss="squared", alpha="0.1*max", tol=1e-8)
    assert chunks.certificate.primal == pytest.approx(whole.certificate.primal, rel=1e-8)
    np.testing.assert_allclose(chunks.decision_function(X[:9]), whole.decision_function(X[:9]), atol=1e-5)


def test_a_kernel_file_may_ask_for_landmarks() -> None:
    kernel = {"kernel": "landmarks", "base": {"kernel": "gaussian", "width": 1.0}, "count": [4, 8]}
    assert KernelBank.from_dict({"kernels": [kernel]}).fit(X).names == (
        "all: gaussian(width=1) on 4 landmarks",
        "all: gaussian(width=1) on 8 landmarks",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"base": Missing()}, "must be a kernel of numbers"),
        ({"count": 2001}, "at most 2000, got 2001"),
        ({"count": 1}, "count must be an integer of at least 2"),
        ({"stretch": 0.0}, "stretch must be"),
        ({"stretched": -1}, "stretched must be"),
        ({"center": 1}, "center must be True or False"),
        ({"points": ((1.0,),)}, "both points and units"),
        ({"points": ((1.0, 2.0),), "units": (1.0,)}, r"shape \(1, 2\) and 1 units"),
    ],
)
def test_landmarks_that_cannot_be_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Landmarks(**{"base": Gaussian(1.0)} | arguments)


def test_what_banks_of_landmarks_cannot_do_is_said() -> None:
    with pytest.raises(InvalidInputError, match="not among the columns"):
        KernelBank.landmarks(columns=[0, 1], stretched=[3]).fit(X)
    with pytest.raises(InvalidInputError, match="need a column of numbers"):
        KernelBank.landmarks().fit(pd.DataFrame({"city": ["Rome", "Oslo"]}))
    with pytest.raises(InvalidInputError, match="stretches column 3 of 2"):
        KernelBank.joint(Landmarks(Gaussian(1.0), stretched=3)).fit(X[:, :2])
    with pytest.raises(InvalidInputError, match="are learned when its bank is fitted"):
        Landmarks(Gaussian(1.0))(X)


@pytest.mark.nightly
def test_another_order_of_the_rows_gives_the_same_landmarks() -> None:
    rng = np.random.default_rng(0)
    X, order = rng.normal(size=(120, 3)), rng.permutation(120)
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    for bank in (KernelBank.landmarks(Laplacian(1.0), count=40), KernelBank.joint(widths=[1.0], standardize=True)):
        model = MKLRegressor(bank, alpha=1e-3, tol=1e-6, resources={"representation": "factored"})
        before = model.fit(X, y).predict(X[:20])
        np.testing.assert_allclose(model.fit(X[order], y[order]).predict(X[:20]), before, rtol=1e-7, atol=1e-7)
