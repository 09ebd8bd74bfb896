"""Banks with products over columns: the same model as matrices or as factors, in files, and in cross-validation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.support.factored import on_factors

from manykernels import KernelBank, MKLClassifier, MKLRegressor, MKLRegressorCV, open_rows
from manykernels.exceptions import InvalidInputError
from manykernels.grams.factored.banks import fit_factors
from manykernels.inspection import CVCurveDisplay, load_model, save_model
from manykernels.kernels import Binned, Gaussian, Interactions, Laplacian, Linear

N = 150


def table(seed: int = 0) -> pd.DataFrame:
    """Numbers with gaps and outliers, and categories."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.standard_t(3, size=(N, 3)), columns=list("abc"))
    X["kind"] = rng.choice(["u", "v", "w"], N)
    X.loc[::7, "b"] = np.nan
    return X


def target(X: pd.DataFrame) -> np.ndarray:
    return np.asarray(np.sign(X["a"] * X["c"]) + (X["kind"] == "u") * np.sign(X["a"]))


def bank(**options: Any) -> KernelBank:
    given: dict[str, Any] = {"standardize": True, "missing": "mask"} | options
    return KernelBank.per_feature(Linear(), columns=["a", "c"], **given) + KernelBank.interactions(bins=5, **given)


def test_factors_and_matrices_give_the_same_model() -> None:
    X, new = table(), table(1)
    y, given = target(X), {"alpha": "0.05*max", "tol": 1e-7}
    first, second = (
        MKLRegressor(bank(), resources={"representation": form}, **given).fit(X, y) for form in ("gram", "factored")
    )
    assert (first.representation_, second.representation_) == ("gram", "factored")
    found = first.weights_frame()["name"][:2].tolist()
    assert sorted(name.split(":")[0] for name in found) == ["a x c", "a x kind"]
    np.testing.assert_allclose(second.solution_.certificate.primal, first.solution_.certificate.primal, rtol=2e-7)
    np.testing.assert_allclose(second.predict(new), first.predict(new), atol=2e-3)
    parts = second.decompose(new)
    np.testing.assert_allclose(parts.sum(axis=0) + second.intercept_, second.predict(new), atol=1e-10)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(10))
def test_the_gap_is_that_of_all_pairs_by_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 4))
    X[:, 3] = rng.random(40) < 0.1  # rare: far above the mean on its diagonal
    y, rare = np.sign(X[:, 0] * X[:, 1] + X[:, 3]), KernelBank.interactions(bins=4, widths=[0.1, 0.5])
    model = MKLClassifier(
        rare, loss="logistic", alpha="0.1*max", resources={"representation": "factored"}, tol=1e-2
    ).fit(X, y)
    fitted, prepared = rare.fit_prepare(X)
    grams = fitted.block(prepared, prepared)
    scores, norms = model.decision_function(X), model.kernel_norms_
    strength = model.alpha_ * len(y)
    primal = float(np.logaddexp(0.0, -y * scores).sum() + strength * norms.sum())
    assert model.solution_.certificate.primal == pytest.approx(primal, rel=1e-9)
    best = (
        MKLClassifier(rare, loss="logistic", alpha=model.alpha_, resources={"representation": "gram"}, tol=1e-9)
        .fit(X, y)
        .solution_
    )
    assert model.solution_.certificate.dual <= best.certificate.primal * (1 + 1e-8)
    assert primal * (1 - model.dual_gap_) <= best.certificate.primal * (1 + 1e-8)
    dense = np.sqrt(np.einsum("i,mij,j->m", best.dual_coef, grams, best.dual_coef))
    np.testing.assert_allclose(fitted_norms(X, rare, best.dual_coef), dense, rtol=1e-9, atol=1e-9)


def fitted_norms(X: np.ndarray, pairs: KernelBank, rho: np.ndarray) -> np.ndarray:
    """Return dual norms by sums over cells."""
    return np.sqrt(np.maximum(fit_factors(pairs, X)[1].quad(rho), 0.0))


def test_a_file_keeps_cells_and_what_is_new_is_zero(tmp_path: Path) -> None:
    X = table()
    model = MKLRegressor(bank(), alpha="0.1*max", resources={"representation": "factored"}).fit(X, target(X))
    save_model(model, tmp_path / "pairs.mkl")
    loaded, new = load_model(tmp_path / "pairs.mkl"), table(2)
    new.loc[0, "kind"] = "new"
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
    kernels = model.kernel_names_
    own = [m for m, name in enumerate(kernels) if "kind" in name.split(":")[0]]
    assert not model.decompose(new)[own, 0].any()
    assert model.decompose(new)[own, 1:].any()


def test_strengths_are_chosen_in_folds_where_a_column_is_constant() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    X[:, 2] = 0.0
    X[0, 2] = 1.0  # constant in the folds that lack the first row
    model = MKLRegressorCV(
        KernelBank.interactions(bins=4), resources={"representation": "factored"}, penalty="l1", n_alphas=3, cv=2
    )
    model.fit(X, X[:, 0] * X[:, 1])
    assert model.weights_frame()["name"][0].startswith("x0 x x1")


def test_rows_in_chunks_give_the_same_model() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y, pairs = np.sign(X[:, 0] * X[:, 1]), KernelBank.interactions(Binned(Gaussian(0.2), 6))
    whole = on_factors(X, y, pairs, loss="squared", alpha="0.1*max", tol=1e-8)
    chunks = on_factors(open_rows(X, chunk_rows=70), y, pairs, loss="squared", alpha="0.1*max", tol=1e-8)
    assert chunks.certificate.primal == pytest.approx(whole.certificate.primal, rel=1e-9)
    np.testing.assert_allclose(chunks.decision_function(X[:9]), whole.decision_function(X[:9]), atol=1e-6)


def test_a_kernel_file_may_ask_for_pairs() -> None:
    kernel = {"kernel": "binned", "base": {"kernel": "laplacian", "width": 0.2}, "bins": [4, 8], "on": "pairs"}
    X = np.random.default_rng(0).normal(size=(20, 3))
    names = KernelBank.from_dict({"kernels": [kernel]}).fit(X).names
    assert len(names) == 6
    assert names[1] == "x0 x x1: laplacian(width=0.2) of 8 bins"


def test_what_cannot_interact_is_said() -> None:
    with pytest.raises(InvalidInputError, match="Interactions of 3 columns need as many, but only 2 can be read"):
        KernelBank.interactions(order=3).fit(np.ones((4, 2)))
    with pytest.raises(InvalidInputError, match="4000 columns have 7,998,000 sets of 2"):
        KernelBank.interactions().expand(np.ones((1, 4000)))
    with pytest.raises(InvalidInputError, match="Give specs, or bins and widths"):
        KernelBank.interactions(Laplacian(1.0), bins=3)
    with pytest.raises(InvalidInputError, match="order must be an integer of at least 2"):
        Interactions((Laplacian(1.0),), order=1)
    with pytest.raises(InvalidInputError, match=r"15 columns have 32,752 sets of two and more.*order=3 has 455 sets"):
        KernelBank.interactions(order=None).expand(np.ones((1, 15)))
    with pytest.raises(InvalidInputError, match="have kernels by their number of columns"):
        KernelBank.interactions(order=None, bins=3)
    with pytest.raises(InvalidInputError, match="Give at least one kernel"):
        KernelBank.interactions([])
    with pytest.raises(InvalidInputError, match="bins of one column, but it has 2"):
        KernelBank.joint(Binned(Laplacian(0.3))).fit(np.eye(2))


@pytest.mark.nightly
def test_what_pairs_cost_is_chosen_in_folds(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    y = np.sign(X[:, 0] * X[:, 1]) + 0.3 * rng.normal(size=120)
    kernels = KernelBank.per_feature(widths=["median"]) + KernelBank.interactions(bins=4)
    tried = [{"* x *": 5.0}, {"* x *": 1.0}]
    model = MKLRegressorCV(
        kernels,
        kernel_penalties=tried,
        n_alphas=5,
        search={"alpha_min_ratio": 0.003},
        cv=3,
        resources={"representation": "factored"},
    )
    model.fit(X, y)
    assert model.kernel_penalties_ == {"* x *": 1.0}
    found = model.cv_frame()
    assert found["kernel_penalties"].tolist() == ["{'* x *': 5.0}"] * 5 + ["{'* x *': 1.0}"] * 5
    assert found.groupby("kernel_penalties")["mean_score"].max().idxmax() == "{'* x *': 1.0}"
    again = MKLRegressor(
        kernels, penalty="l1", alpha=model.alpha_, kernel_penalties=tried[1], resources={"representation": "factored"}
    ).fit(X, y)
    np.testing.assert_allclose(again.predict(X), model.predict(X), atol=1e-3)
    save_model(model, tmp_path / "chosen.mkl")
    np.testing.assert_array_equal(load_model(tmp_path / "chosen.mkl").predict(X), model.predict(X))
    assert set(CVCurveDisplay.from_estimator(model).frame()["curve"]) == {f"kernel_penalties {own}" for own in tried}
    with pytest.raises(InvalidInputError, match="to be tried are a list of dictionaries"):
        MKLRegressorCV(kernels, kernel_penalties=[{"* x *": 1.0}, 2.0]).fit(X, y)


@pytest.mark.nightly
def test_products_of_every_order_are_all_subsets() -> None:
    X = np.random.default_rng(0).normal(size=(300, 10))
    fitted = KernelBank.interactions(order=None).fit(X)
    sets = {frozenset(name.split(":")[0].split(" x ")) for name in fitted.names}
    assert len(sets) == 2**10 - 11
    assert len(fitted.names) == len(sets) + 45  # two widths for pairs
    bins = {name.count(" x ") + 1: int(name.split(" of ")[1].split()[0]) for name in fitted.names}
    assert bins == {2: 24, 3: 6, 4: 4, 5: 3, 6: 2, 7: 2, 8: 2, 9: 2, 10: 2}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(3))
def test_the_gap_is_that_of_all_subsets_by_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 6))
    y = np.sign(X[:, 0] * X[:, 2] * X[:, 5]) + 0.5 * rng.normal(size=120)
    every = KernelBank.interactions(order=None)
    model = MKLRegressor(every, alpha="0.2*max", resources={"representation": "factored"}, tol=1e-4).fit(X, y)
    fitted, prepared = every.fit_prepare(X)
    grams = fitted.block(prepared, prepared)
    scores, strength = model.predict(X), model.alpha_ * len(y)
    primal = 0.5 * np.sum((y - scores) ** 2) + strength * model.kernel_norms_.sum()
    assert model.solution_.certificate.primal == pytest.approx(primal, rel=1e-8)
    best = MKLRegressor(every, alpha=model.alpha_, resources={"representation": "gram"}, tol=1e-9).fit(X, y).solution_
    norms = np.sqrt(np.einsum("i,mij,j->m", best.dual_coef, grams, best.dual_coef))
    assert norms.max() <= strength * (1 + 1e-6)  # no subset is left that would enter
    assert model.solution_.certificate.dual <= best.certificate.primal * (1 + 1e-8)
    assert primal * (1 - model.dual_gap_) <= best.certificate.primal * (1 + 1e-8)
    assert model.weights_frame()["name"][0].startswith("x0 x x2 x x5")


def test_a_product_without_effects_of_its_parts_is_found_among_all_orders() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 8))
    y = np.sign(X[:, 1] * X[:, 3] * X[:, 4] * X[:, 6]) + rng.normal(size=1500)
    bank = KernelBank.per_feature(widths=["median"]) + KernelBank.interactions(order=None)
    model = MKLRegressor(bank, alpha="0.5*max", resources={"representation": "factored"}, tol=1e-3).fit(X, y)
    assert model.weights_frame()["name"][0].startswith("x1 x x3 x x4 x x6")
    assert model.dual_gap_ < 1e-3


def test_many_rows_in_chunks_give_the_same_model_of_triples(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 6))
    y = np.sign(X[:, 0] * X[:, 2] * X[:, 5]) + 0.5 * rng.normal(size=4000)
    triples = KernelBank.interactions(Binned(Gaussian(0.25), 3), order=3)
    whole = on_factors(X, y, triples, loss="squared", alpha="0.2*max", tol=1e-8)
    chunks = on_factors(open_rows(X, chunk_rows=1700), y, triples, loss="squared", alpha="0.2*max", tol=1e-8)
    assert chunks.certificate.primal == pytest.approx(whole.certificate.primal, rel=1e-9)
    np.testing.assert_allclose(chunks.decision_function(X[:9]), whole.decision_function(X[:9]), atol=1e-6)
    model = MKLRegressor(triples, alpha="0.2*max", resources={"representation": "factored"}).fit(X, y)
    save_model(model, tmp_path / "triples")
    np.testing.assert_allclose(load_model(tmp_path / "triples").predict(X[:9]), model.predict(X[:9]), atol=1e-12)
