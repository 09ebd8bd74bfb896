"""P-values of kernels: beside dense formulas, F-tests and random orders, on every loss, and what they refuse."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import eigvalsh
from scipy.stats import f, linregress
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import (
    Gaussian,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLRegressor,
    MKLRegressorCV,
    MKLSurvival,
    Overlap,
    survival_array,
)
from manykernels.exceptions import InvalidInputError
from manykernels.grams import build_stack
from manykernels.inspection import kernel_tests
from manykernels.inspection.evidence.chi_squares import chi_squares_tail
from manykernels.kernels import PerFeature

MODULE: Any = import_module("manykernels.inspection.evidence.kernel_tests")


def table(n: int = 90) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "age"])
    X["b"] += 0.5 * X["age"]
    return X, X["age"].to_numpy() + 0.3 * X["b"].to_numpy() ** 2 + rng.normal(size=n)


def bank(*parts: PerFeature) -> KernelBank:
    return KernelBank(list(parts))


def by_name(model: Any, X: Any, y: Any, **given: Any) -> pd.Series:
    return kernel_tests(model, X, y, **given).set_index("name")["p_value"]


def test_a_linear_kernel_of_one_column_has_the_t_test() -> None:
    X, y = table()
    found = by_name(MKLRegressor(bank(PerFeature([Linear()], list(X)))).fit(X, y), X, y)
    for column in X:
        assert found[f"{column}: linear()"] == pytest.approx(linregress(X[column], y).pvalue, rel=1e-7)


def test_beside_a_free_column_it_has_the_partial_f_test() -> None:
    X, y = table()
    model = MKLRegressor(bank(PerFeature([Linear()], list(X))), penalty={"age*": None, "*": "l1"}).fit(X, y)
    found = by_name(model, X, y)
    assert sorted(found.index) == ["a: linear()", "b: linear()"]
    for column in ("a", "b"):
        left = [
            np.linalg.lstsq(np.column_stack([np.ones(len(y)), X[own]]), y, rcond=None)[1][0]
            for own in (["age"], ["age", column])
        ]
        freedom = len(y) - 3
        assert found[f"{column}: linear()"] == pytest.approx(
            f.sf((left[0] - left[1]) / left[1] * freedom, 1, freedom), rel=1e-7
        )


@pytest.mark.parametrize("representation", ["gram", "factored"])
def test_curves_have_the_distribution_of_dense_formulas(representation: str) -> None:
    X, y = table()
    curves = bank(PerFeature([Gaussian(0.7), Gaussian(2.0)], list(X)))
    model = MKLRegressor(curves, resources={"representation": representation}).fit(X, y)
    found = by_name(model, X, y)
    stack, centered = build_stack(curves.fit(X), X), np.eye(len(y)) - 1.0 / len(y)
    rho = y - y.mean()
    for m, name in enumerate(model.kernel_names_):
        K = stack.matrix(m)
        share = rho @ K @ rho / (rho @ rho)
        values = eigvalsh(centered @ K @ centered)[1:]
        assert found[name] == pytest.approx(chi_squares_tail(0.0, values - share), rel=1e-4)


def test_kernels_under_ridge_are_a_random_effect() -> None:
    X, y = table()
    kernels = bank(PerFeature([Gaussian(1.0)], list(X)))
    model = MKLRegressor(kernels, penalty={"age*": "ridge", "*": "l1"}, alpha=0.02, tol=1e-7).fit(X, y)
    found = by_name(model, X, y)
    stack = build_stack(kernels.fit(X), X)
    d = 1.0 / (model.alpha_ * len(y))
    V = np.eye(len(y)) + d * stack.matrix(2)
    inverse = np.linalg.inv(V)
    sums = inverse.sum(axis=0)
    P = inverse - np.outer(sums, sums) / sums.sum()
    values, vectors = np.linalg.eigh(P)
    root = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    for m, name in enumerate(model.kernel_names_[:2]):
        share = y @ P @ stack.matrix(m) @ P @ y / (y @ P @ y)
        own = eigvalsh(root @ stack.matrix(m) @ root)[1:]
        assert found[name] == pytest.approx(chi_squares_tail(0.0, own - share), rel=1e-3)


def test_hazards_have_the_score_test_of_the_partial_likelihood() -> None:
    X, _ = table(60)
    rng = np.random.default_rng(1)
    event, time = rng.random(60) < 0.7, rng.exponential(size=60) * np.exp(-0.4 * X["a"].to_numpy())
    y = survival_array(event, time)
    found = by_name(MKLSurvival(bank(PerFeature([Linear()], list(X)))).fit(X, y), X, y)
    for column in X:
        x = X[column].to_numpy()
        score = information = 0.0
        for i in np.flatnonzero(event):
            at_risk = x[time >= time[i]]
            score += x[i] - at_risk.mean()
            information += at_risk.var()
        expected = chi_squares_tail(score**2 / information, [1.0])
        assert found[f"{column}: linear()"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson", "huber", "quantile", "hinge"])
def test_every_loss_finds_what_matters_and_nothing_else(loss: str) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=["a", "b", "c"])
    effect = 1.5 * np.sin(2 * X["b"].to_numpy())
    kernels = bank(PerFeature([Gaussian(0.5), Gaussian(2.0)], list(X)))
    if loss in ("logistic", "hinge"):
        y: Any = np.where(effect + rng.logistic(size=200) > 0, "yes", "no")
        model: Any = MKLClassifier(kernels, loss=loss).fit(X, y)
    else:
        y = rng.poisson(np.exp(effect)) if loss == "poisson" else effect + rng.normal(size=200)
        model = MKLRegressor(kernels, loss=loss).fit(X, y)
    found = by_name(model, X, y, by="column")
    assert found["b"] < 1e-6
    assert found[["a", "c"]].min() > 0.01


def test_rows_of_classes_and_of_shared_weights() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(150, 2)), columns=["a", "b"])
    y = np.array(["low", "mid", "top"])[np.digitize(X["a"] + 0.5 * rng.normal(size=150), [-0.5, 0.5])]
    kernels = bank(PerFeature([Gaussian(1.0), Linear()], list(X)))
    own = kernel_tests(MKLClassifier(kernels).fit(X, y), X, y, by="view")
    assert list(own.columns) == ["class", "name", "p_value", "q_value", "n_kernels"]
    assert len(own) == 6
    assert set(own.loc[own["p_value"] < 1e-6, "name"]) == {"a"}
    shared = kernel_tests(MKLClassifier(kernels, outputs="shared").fit(X, y), X, y)
    assert list(shared.columns) == ["name", "p_value", "q_value", "statistic"]
    assert shared["name"].iloc[0].startswith("a:")
    assert shared["p_value"].iloc[-1] > 0.01


def test_p_values_know_no_unit_and_no_order_of_rows() -> None:
    X, y = table()
    model = MKLRegressor(bank(PerFeature([Gaussian(1.0)], list(X)))).fit(X, y)
    order = np.random.default_rng(0).permutation(len(y))
    first = by_name(model, X, y)
    np.testing.assert_allclose(by_name(model, X, 1e6 * y - 3.0)[first.index], first, rtol=1e-6)
    np.testing.assert_allclose(by_name(model, X.iloc[order], y[order])[first.index], first, rtol=1e-6)


def test_samples_of_weight_zero_are_absent() -> None:
    X, y = table()
    weight = np.ones(len(y))
    weight[60:] = 0.0
    model = MKLRegressor(bank(PerFeature([Linear()], list(X)))).fit(X, y)
    some = by_name(model, X, y, sample_weight=weight)
    np.testing.assert_allclose(by_name(model, X[:60], y[:60])[some.index], some, rtol=1e-6)


def test_constant_kernels_add_nothing() -> None:
    K = np.stack([np.ones((30, 30)), np.outer(np.arange(30.0), np.arange(30.0))])
    y = np.arange(30.0) + np.random.default_rng(0).normal(size=30)
    model = MKLRegressor("precomputed").fit(K, y)
    frame = kernel_tests(model, K, y)
    assert frame["p_value"].iloc[-1] == 1.0
    assert frame["p_value"].iloc[0] < 1e-8


def test_searches_and_pipelines_are_taken() -> None:
    X, y = table(60)
    found = make_pipeline(StandardScaler().set_output(transform="pandas"), MKLRegressorCV(cv=3)).fit(X, y)
    frame = kernel_tests(found, X, y, by="view")
    assert frame["name"].iloc[0] in ("age", "all")
    assert (frame["q_value"] >= frame["p_value"]).all()


def test_ridge_beside_losses_without_a_variance_is_refused() -> None:
    X, y = table(40)
    kernels = bank(PerFeature([Linear()], list(X)))
    model = MKLRegressor(kernels, loss="huber", penalty={"age*": "ridge", "*": "l1"}).fit(X, y)
    with pytest.raises(InvalidInputError, match=r"'huber' does not define\. Use one of"):
        kernel_tests(model, X, y)


def test_bad_calls_are_refused() -> None:
    X, y = table(40)
    kernels = bank(PerFeature([Linear()], list(X)))
    with pytest.raises(NotFittedError, match="not fitted"):
        kernel_tests(MKLRegressor(kernels), X, y)
    with pytest.raises(InvalidInputError, match="by must be one of"):
        kernel_tests(MKLRegressor(kernels).fit(X, y), X, y, by="row")
    free = MKLRegressor(kernels, penalty={"*": None}).fit(X, y)
    with pytest.raises(InvalidInputError, match="All kernels are always in"):
        kernel_tests(free, X, y)


@pytest.mark.filterwarnings("ignore:No kernel was selected")
def test_nothing_is_related_to_a_constant_target() -> None:
    X, y = table(40)
    model = MKLRegressor(bank(PerFeature([Linear()], list(X)))).fit(X, y)
    assert by_name(model, X, np.ones(len(y))).tolist() == [1.0] * 3


def grouped(n: int, n_levels: int) -> tuple[pd.DataFrame, np.ndarray, KernelBank]:
    rng = np.random.default_rng(6)
    X = pd.DataFrame({"a": rng.normal(size=n), "group": pd.Categorical(rng.integers(0, n_levels, n).astype(str))})
    kernels = KernelBank([("a", Linear(), ["a"]), ("group", Overlap(), ["group"])], normalize=None)
    return X, X["a"].to_numpy() + rng.normal(size=n), kernels


@pytest.mark.parametrize("penalty", ["l1", {"a": None, "*": "l1"}])
def test_many_levels_have_the_distribution_of_all_their_features(penalty: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, kernels = grouped(700, 90)
    model = MKLRegressor(kernels, penalty=penalty, alpha=0.05, resources={"representation": "factored"}).fit(X, y)
    whole = by_name(model, X, y)
    monkeypatch.setattr(MODULE, "FEW_LEVELS", 10)
    np.testing.assert_allclose(by_name(model, X, y)[whole.index], whole, rtol=1e-6)


def test_eigenvalues_of_levels_are_those_of_the_matrix() -> None:
    rng = np.random.default_rng(0)
    diagonal, cross = rng.integers(1, 9, 200).astype(float), rng.normal(size=(3, 200))
    inverse = np.diag([2e-3, 1e-3, 5e-4])
    values, counts = MODULE.level_spectrum(diagonal, cross, inverse)
    expected = eigvalsh(np.diag(diagonal) - cross.T @ inverse @ cross)
    np.testing.assert_allclose(np.sort(np.repeat(values, counts.astype(int))), expected, atol=1e-12)


def test_kernels_of_too_many_features_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table(60)
    model = MKLRegressor(bank(PerFeature([Gaussian(0.3)], list(X)))).fit(X, y)
    monkeypatch.setattr(MODULE, "MOST_FEATURES", 5)
    with pytest.raises(InvalidInputError, match=r"A kernel has \d+ features, .* Up to 5 are computed"):
        kernel_tests(model, X, y)
    X, y, kernels = grouped(90, 30)
    ridged = MKLRegressor(kernels, penalty={"group": "ridge", "*": "l1"}, alpha=0.05).fit(X, y)
    monkeypatch.setattr(MODULE, "MOST_ENTRIES", 100)
    with pytest.raises(InvalidInputError, match=r"The kernel 'group', which is always in, has \d+ features"):
        kernel_tests(ridged, X, y)


def test_the_frame_of_weights_has_p_values_of_rows() -> None:
    X, y = table()
    kernels = bank(PerFeature([Gaussian(1.0), Linear()], list(X)))
    model = MKLRegressor(kernels, penalty={"age: linear*": None, "*": "l1"}).fit(X, y)
    tests = kernel_tests(model, X, y).set_index("name")
    frame = model.weights_frame(X, y, active_only=False)
    assert frame.columns.tolist()[:5] == ["name", "weight", "norm_share", "p_value", "q_value"]
    assert frame.loc[frame["p_value"].isna(), "name"].tolist() == ["age: linear()"]
    known = frame.set_index("name").loc[tests.index, ["p_value", "q_value"]]
    pd.testing.assert_frame_equal(known, tests[["p_value", "q_value"]])
    active = frame[frame["weight"] > 0].reset_index(drop=True)
    pd.testing.assert_frame_equal(model.weights_frame(X, y), active)
    pd.testing.assert_frame_equal(model.weights_frame(), active.drop(columns=["p_value", "q_value"]))
    heavy = model.weights_frame(X, y, sample_weight=np.where(np.arange(90) < 60, 1.0, 0.0)).set_index("name")
    few = kernel_tests(model, X[:60], y[:60]).set_index("name")["p_value"]
    np.testing.assert_allclose(heavy["p_value"].dropna(), few[heavy["p_value"].dropna().index], rtol=1e-6)


def test_the_frame_of_weights_has_p_values_of_every_class() -> None:
    X, y = table(150)
    labels = np.array(["low", "mid", "top"])[np.digitize(y, [-0.5, 0.5])]
    model = MKLClassifier(bank(PerFeature([Linear()], list(X)))).fit(X, labels)
    tests = kernel_tests(model, X, labels).set_index(["class", "name"])["p_value"]
    frame = model.weights_frame(X, labels, active_only=False).set_index(["class", "name"])["p_value"]
    pd.testing.assert_series_equal(frame.loc[tests.index], tests)


@pytest.mark.parametrize("columns", [4, 12])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_sets_of_columns_are_multiplied_together(loss: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, columns)) + rng.normal(size=(300, 1))
    y: Any = X[:, 0] + 3 * rng.normal(size=300)
    views = {f"s{k}": sorted(rng.choice(columns, 3, replace=False).tolist()) for k in range(9)}
    kernels = KernelBank.from_views({**views, "free": [1]}, Linear())
    given: dict[str, Any] = {"penalty": {"free*": None, "*": "l1"}, "resources": {"representation": "factored"}}
    if loss == "logistic":
        y = y > 0
    model = (MKLClassifier if loss == "logistic" else MKLRegressor)(kernels, **given).fit(X, y)
    batches: list[int] = []
    together = MODULE.NullModel.moments
    monkeypatch.setattr(
        MODULE.NullModel, "moments", lambda null, own: (batches.append(len(own)), together(null, own))[1]
    )
    found = kernel_tests(model, X, y).set_index("name")
    assert max(batches) > 1
    assert sum(batches) == 9
    monkeypatch.setattr(MODULE, "MOST_COLUMNS", 0)
    alone = kernel_tests(model, X, y).set_index("name")
    assert max(batches[-9:]) == 1
    np.testing.assert_allclose(found.loc[alone.index, "p_value"], alone["p_value"], rtol=1e-8)
    np.testing.assert_allclose(found.loc[alone.index, "statistic"], alone["statistic"], rtol=1e-8)
