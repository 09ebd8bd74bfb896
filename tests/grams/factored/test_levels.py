"""Kernels of categories of any number of levels: products, passes and functions beside matrices of kernel values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from manykernels import (
    Gaussian,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLRegressor,
    MKLSurvival,
    Overlap,
    load_model,
    save_model,
    survival_array,
)
from manykernels.grams.factored import factored_stack
from manykernels.grams.factored.levels import FEW_LEVELS, LevelOperator, SlopeOperator
from manykernels.grams.factored.operators import DenseOperator
from manykernels.grams.rows.opening import open_rows
from manykernels.inspection import export_model
from manykernels.kernels import Interactions, PerFeature
from manykernels.objective import Ridge

N = 700


def levels_of(count: int, seed: int = 0) -> Any:
    return pd.Categorical([f"s{number:04d}" for number in np.random.default_rng(seed).integers(0, count, N)])


def table(gaps: bool = False) -> pd.DataFrame:
    frame = pd.DataFrame({"site": levels_of(650), "person": levels_of(200, 1)})
    if gaps:
        frame.loc[::5, "site"] = np.nan
    return frame


BANK = KernelBank([("site", Overlap(), ["site"]), ("both", Overlap(), ["site", "person"])], missing="mask")


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("chunked", [False, True])
def test_products_are_those_of_the_matrices(gaps: bool, chunked: bool) -> None:
    """Beyond 500 levels these kernels were held on landmarks, which left most of them out."""
    frame = table(gaps)
    codes = [frame[name].cat.codes.to_numpy() for name in frame]
    site, person = ((own[:, None] == own) & (own >= 0) for own in codes)
    known = np.outer(codes[0] >= 0, codes[0] >= 0)
    stack = factored_stack(open_rows(frame, chunk_rows=300) if chunked else frame, BANK)
    grams = np.array([site, 0.5 * (site + 1.0 * person) * known]) * stack.scales[:, None, None]
    R = np.random.default_rng(0).normal(size=(N, 2))
    low, high = stack.quads(R)
    np.testing.assert_allclose(low, np.einsum("ik,mij,jk->m", R, grams, R), rtol=1e-10)
    np.testing.assert_allclose(high, low, rtol=1e-8)
    weights = np.random.default_rng(1).random(N)
    for m, operator in enumerate(stack.operators([0], 1e-3) + stack.operators([1], 1e-3)):
        assert operator.matrix_free
        scores = np.zeros(N)
        operator.add_scores(operator.adjoint(R[:, 0]), scores)
        np.testing.assert_allclose(scores, grams[m] @ R[:, 0], atol=1e-12)
        Z = operator.rows(np.arange(N))
        np.testing.assert_allclose(Z @ Z.T, grams[m], atol=1e-12)
        np.testing.assert_allclose(operator.diagonal(weights), np.einsum("ir,i,ir->r", Z, weights, Z), atol=1e-12)
        np.testing.assert_allclose(operator.adjoint(R[:, 0]), Z.T @ R[:, 0], atol=1e-12)


def test_few_levels_are_an_array() -> None:
    frame = pd.DataFrame({"site": levels_of(FEW_LEVELS)})
    stack = factored_stack(frame, KernelBank([("site", Overlap(), ["site"])]))
    (few,) = stack.operators([0], 1e-3)
    assert isinstance(few, DenseOperator)
    stack = factored_stack(table(), BANK)
    (many,) = stack.operators([0], 1e-3)
    assert isinstance(many, LevelOperator)
    columns = many.adjoint(np.eye(N)[:, :3])
    np.testing.assert_array_equal(columns, many.rows(np.arange(3)).T)


@pytest.mark.parametrize("gaps", [False, True])
def test_functions_are_sums_of_what_each_level_adds(gaps: bool) -> None:
    """A level that no training row has adds nothing."""
    frame = table(gaps)
    stack = factored_stack(frame, BANK)
    rng = np.random.default_rng(0)
    for m, operator in enumerate(stack.operators([0], 1e-3) + stack.operators([1], 1e-3)):
        v, scores = rng.normal(size=operator.rank), np.zeros(N)
        operator.add_scores(v, scores)
        reading = stack.table.reading(stack.spec_of(m), stack.columns_of(m))
        function = stack.function(m, v, 1e-3)
        np.testing.assert_allclose(reading.masked(function(reading.points)), scores, atol=1e-12)
        spread = function.spec(reading.points, function.landmarks) @ function.coefficients
        np.testing.assert_allclose(function(reading.points), spread, atol=1e-12)
        assert not function(np.full((1, len(stack.columns_of(m))), 1e6)).any()
        rho = rng.normal(size=N)
        images = reading.masked(stack.expansion(m, rho)(reading.points))
        other = np.zeros(N)
        operator.add_scores(operator.adjoint(rho), other)
        np.testing.assert_allclose(images, other, atol=1e-10)


@pytest.mark.parametrize("columns", [["site", "dose"], ["dose", "site"]])
@pytest.mark.parametrize("chunked", [False, True])
def test_random_slopes_have_a_single_entry_a_row(columns: list[str], chunked: bool) -> None:
    """They were held on landmarks, or as matrices of rows by rows."""
    frame = table().assign(dose=np.random.default_rng(2).normal(size=N))
    frame.loc[::7, "dose"] = np.nan
    known, dose = frame["dose"].notna().to_numpy(), frame["dose"].fillna(0.0).to_numpy()
    bank = KernelBank([Interactions([Linear()], columns)], missing="mask", normalize=None)
    stack = factored_stack(open_rows(frame) if chunked else frame, bank)
    (operator,) = stack.operators([0], 1e-9)
    assert chunked or isinstance(operator, SlopeOperator)
    codes = frame["site"].cat.codes.to_numpy()
    gram = (codes[:, None] == codes) * np.outer(dose * known, dose * known)
    rng = np.random.default_rng(3)
    rho, weights = rng.normal(size=N), rng.uniform(0.5, 2.0, size=N)
    v = operator.adjoint(rho)
    np.testing.assert_allclose(v @ v, rho @ gram @ rho, rtol=1e-10)
    scores = np.zeros(N)
    operator.add_scores(v, scores)
    np.testing.assert_allclose(scores, gram @ rho, atol=1e-9)
    np.testing.assert_allclose(stack.quad(rho), [rho @ gram @ rho], rtol=1e-10)
    Z = operator.rows(np.arange(N))
    np.testing.assert_allclose(operator.diagonal(weights), np.diag(Z.T @ (weights[:, None] * Z)), atol=1e-10)
    function, reading = stack.function(0, v, 1e-9), stack.table.sample().reading(stack.spec_of(0), stack.columns_of(0))
    np.testing.assert_allclose(reading.masked(function(reading.points)), gram @ rho, atol=1e-9)


SLOPES = KernelBank(
    [
        ("person", Overlap(), ["person"]),
        Interactions([Linear()], ["person", "dose"]),
        PerFeature([Gaussian(1.0)], ["age"]),
    ],
    normalize=None,
)
PERSONS = {("person", "person x*"): Ridge(0.3), "*": "l1"}


def doses() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"person": levels_of(200, 1), "dose": rng.normal(size=N), "age": rng.normal(size=N)})
    codes = frame["person"].cat.codes.to_numpy()
    score = rng.normal(size=200)[codes] * frame["dose"].to_numpy() + np.sin(2.0 * frame["age"].to_numpy())
    return frame, score


def targets(loss: str, score: np.ndarray) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(3)
    given: dict[str, Any] = {"kernels": SLOPES, "alpha": 2.0 / N, "tol": 1e-6}
    if loss == "logistic":
        return MKLClassifier(**given), score + rng.logistic(size=N) > 0
    if loss == "cox":
        return MKLSurvival(**given), survival_array(rng.random(N) < 0.8, rng.exponential(size=N) * np.exp(-score))
    if loss == "poisson":
        return MKLRegressor(**given, loss=loss), rng.poisson(np.exp(0.5 * score)).astype(float)
    y = score + 0.3 * rng.normal(size=N)
    return MKLRegressor(
        **given, loss="squared" if loss == "two targets" else loss
    ), y if loss != "two targets" else np.c_[y, -score]


@pytest.mark.parametrize("penalty", [PERSONS, "l1"], ids=["always in", "selected"])
@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "poisson", "cox", "two targets"])
def test_models_with_random_slopes_are_those_of_matrices(loss: str, penalty: Any) -> None:
    frame, score = doses()
    estimator, y = targets(loss, score)
    scores = []
    for form in ("factored", "gram"):
        model = clone(estimator).set_params(penalty=penalty, resources={"representation": form}).fit(frame, y)
        assert model.representation_ == form
        assert np.max(model.dual_gap_) <= 1e-6
        scores.append(model.decision_function(frame) if loss == "logistic" else model.predict(frame))
    np.testing.assert_allclose(scores[0], scores[1], atol=0.01)


def test_random_slopes_of_new_levels_are_zero_also_in_files(tmp_path: Path) -> None:
    frame, score = doses()
    model = MKLRegressor(SLOPES, penalty=PERSONS, alpha=1 / N, resources={"representation": "factored"})
    model.fit(frame, score)
    names = [model.kernel_names_[m] for m in np.flatnonzero(model.kernel_weights_)]
    new = frame.assign(person=["nobody", *frame["person"][1:]])
    effects = dict(zip(names, model.decompose(new), strict=True))["person x dose: linear()"]
    known = dict(zip(names, model.decompose(frame), strict=True))["person x dose: linear()"]
    assert effects[0] == 0.0 != known[0]
    np.testing.assert_allclose(effects[1:], known[1:])
    save_model(model, tmp_path / "slopes.mkl")
    np.testing.assert_array_equal(load_model(tmp_path / "slopes.mkl").predict(frame), model.predict(frame))
    assert export_model(model, tmp_path / "slopes.py", X=frame).max_error <= 1e-5
