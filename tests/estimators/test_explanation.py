"""What a model tells by name: parts of predictions, shares of columns, targets, and the columns it needs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.feature_selection import SelectFromModel

from manykernels import (
    GaussianMKL,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLRegressor,
    MKLRegressorCV,
    PrecomputedBank,
    load_model,
    report,
    save_model,
)
from manykernels.estimators.supervised.samples import names_of_targets
from manykernels.exceptions import InvalidInputError

RNG = np.random.default_rng(7)
X = pd.DataFrame(RNG.normal(size=(40, 4)), columns=list("abcd"), index=[f"s{i}" for i in range(40)])
TARGETS = pd.DataFrame({"height": X["a"] * 2.0, "mass": X["c"] - X["a"]})
LABELS = np.array(["x", "y", "z"])[np.digitize(X["a"], [-0.5, 0.5])]
SINGLE = KernelBank.per_feature(Linear())


def test_parts_of_one_target_are_named_and_add_up() -> None:
    model = MKLRegressor(SINGLE, alpha=0.2).fit(X, TARGETS["mass"])
    parts = model.decompose_frame(X[5:9])
    active = model.kernel_weights_ > 0
    assert parts.index.tolist() == ["s5", "s6", "s7", "s8"]
    assert parts.columns.tolist() == [*np.array(model.kernel_names_)[active], "intercept"]
    assert_allclose(parts.iloc[:, :-1].T, model.decompose(X[5:9])[active])
    assert_allclose(parts.sum(axis=1), model.predict(X[5:9]))
    plain = MKLRegressor(SINGLE, alpha=0.2).fit(X.to_numpy(), TARGETS["mass"])
    assert plain.decompose_frame(X.to_numpy()[5:7]).index.tolist() == [0, 1]


@pytest.mark.parametrize("weights", ["own", "shared"])
def test_parts_of_classes_lie_under_their_labels(weights: str) -> None:
    model = MKLClassifier(SINGLE, outputs=weights, alpha=0.02).fit(X, LABELS)
    parts = model.decompose_frame(X)
    assert list(parts.columns.names) == ["class", "kernel"]
    for number, label in enumerate(model.classes_):
        assert_allclose(parts[label].sum(axis=1), model.decision_function(X)[:, number])
        weight = model.kernel_weights_ if weights == "shared" else model.kernel_weights_[number]
        assert parts[label].shape[1] == np.count_nonzero(weight) + 1


def test_an_empty_model_has_its_intercept_only() -> None:
    with pytest.warns(UserWarning, match="No kernel was selected"):
        model = MKLRegressor(SINGLE, alpha=100.0).fit(X, TARGETS["mass"])
    assert model.decompose_frame(X).columns.tolist() == ["intercept"]
    assert not model.feature_importances_.any()


def test_importances_share_a_kernel_among_its_columns() -> None:
    bank = KernelBank([("both", Linear(), ["a", "b"]), ("c", Linear(), ["c"]), ("d", Linear(), ["d"])])
    model = MKLRegressor(bank, penalty="ridge", alpha=0.01).fit(X, TARGETS["mass"])
    found = model.feature_importances_
    assert_allclose(found.sum(), 1.0)
    assert found[0] == found[1]


def test_a_category_of_many_levels_is_not_important() -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"true": rng.normal(size=150), "many": [f"code {k}" for k in rng.integers(0, 60, 150)]})
    labels = rows["true"] + rng.normal(size=150) > 0
    model = MKLClassifier(KernelBank.auto(), alpha=0.002).fit(rows, labels)
    norms = model.weights_frame().groupby("columns")["norm_share"].sum()
    assert norms["many"] > norms["true"]
    true, many = model.feature_importances_
    assert true > 0.9 > 0.1 > many


def test_shares_of_the_variance_sum_to_one() -> None:
    model = MKLRegressor(SINGLE, alpha=0.01).fit(X, TARGETS["mass"])
    frame = model.variance_frame(X)
    assert_allclose(frame["share"].sum(), 1.0)
    assert_allclose(frame["variance"] + frame["covariance"], frame["share"])
    parts = model.decompose_frame(X)
    name = frame["name"].iloc[0]
    assert_allclose(frame["variance"].iloc[0], parts[name].var() / parts.sum(axis=1).var())
    several = MKLRegressor(SINGLE, alpha=0.01).fit(X, TARGETS).variance_frame(X)
    assert_allclose(several.groupby("output")["share"].sum(), 1.0)


def test_shares_of_the_variance_are_sobol_shares_of_independent_columns() -> None:
    """An additive function of two columns and their product, which is uncorrelated with both."""
    rng = np.random.default_rng(5)
    rows = pd.DataFrame(rng.normal(size=(400, 2)), columns=["x", "z"])
    rows["pair"] = rows["x"] * rows["z"]
    truth = 2.0 * rows["x"] + rows["z"] + 1.5 * rows["pair"]
    bank = KernelBank([(name, Linear(), [name]) for name in rows], center=True)
    model = MKLRegressor(bank, penalty="ridge", alpha=1e-6).fit(rows, truth)
    frame = model.variance_frame(rows).set_index("name")
    sizes = {"x": 4.0, "z": 1.0, "pair": 2.25}
    spread = rows.var(ddof=0)
    whole = np.var(truth)
    for name, size in sizes.items():
        assert_allclose(frame.loc[name, "variance"], size * spread[name] / whole, rtol=1e-3)
        assert abs(frame.loc[name, "share"] - size / 7.25) < 0.1
    assert_allclose(frame["variance"].sum() + frame["covariance"].sum(), 1.0)


def test_importances_select_columns_in_scikit_learn() -> None:
    kept = SelectFromModel(MKLRegressor(SINGLE, alpha=0.2), threshold=1e-9).fit(X, TARGETS["height"])
    assert kept.get_feature_names_out().tolist() == ["a"]


def test_precomputed_kernels_have_no_columns() -> None:
    gram = X.to_numpy() @ X.to_numpy().T
    model = MKLRegressor(PrecomputedBank()).fit(gram[None], TARGETS["mass"])
    with pytest.raises(AttributeError, match="precomputed kernels and pairs, which have no columns"):
        _ = model.feature_importances_
    assert not hasattr(model, "selected_features_")
    assert_allclose(model.decompose_frame(gram[None]).sum(axis=1), model.predict(gram[None]))
    assert not hasattr(MKLRegressor(), "feature_importances_")


def test_names_of_targets_are_kept(tmp_path: Path) -> None:
    model = MKLRegressor(SINGLE, alpha=0.1).fit(X, TARGETS)
    assert model.target_names_.tolist() == ["height", "mass"]
    assert set(model.weights_frame()["output"]) == {"height", "mass"}
    assert_allclose(model.decompose_frame(X)["mass"].sum(axis=1), model.predict(X)[:, 1])
    save_model(model, tmp_path / "model.mkl")
    assert load_model(tmp_path / "model.mkl").weights_frame().equals(model.weights_frame())
    assert MKLRegressor(SINGLE).fit(X, TARGETS["mass"]).target_names_.tolist() == ["mass"]
    model.fit(X, TARGETS.to_numpy())
    assert not hasattr(model, "target_names_")
    assert set(model.weights_frame()["output"]) == {0, 1}
    chosen = MKLRegressorCV(SINGLE, cv=2).fit(X, TARGETS)
    assert set(chosen.weights_frame()["output"]) <= set(chosen.target_names_) == {"height", "mass"}


def test_names_that_name_nothing_are_not_kept() -> None:
    assert not hasattr(MKLRegressor(SINGLE).fit(X, TARGETS.set_axis([0, 1], axis=1)), "target_names_")
    assert names_of_targets(TARGETS.set_axis(["t", "t"], axis=1)) is None
    assert names_of_targets(pd.Series([1.0])) is None


def test_prediction_needs_the_columns_of_active_kernels_only(tmp_path: Path) -> None:
    model = MKLRegressor(SINGLE, alpha=0.1).fit(X, TARGETS["mass"])
    assert X.columns[model.selected_features_].tolist() == ["a", "c"]
    expected, fewer = model.predict(X), X.loc[:, model.selected_features_]
    assert_allclose(model.predict(fewer), expected)
    assert_allclose(model.predict(fewer[["c", "a"]]), expected)
    assert_allclose(model.predict(X[["c", "d", "a"]]), expected)
    assert_allclose(model.decompose_frame(fewer).sum(axis=1), expected)
    save_model(model, tmp_path / "model.mkl")
    assert_allclose(load_model(tmp_path / "model.mkl").predict(fewer), expected)


def test_a_column_of_an_active_kernel_may_not_be_missing() -> None:
    model = MKLRegressor(SINGLE, alpha=0.1).fit(X, TARGETS["mass"])
    with pytest.raises(InvalidInputError, match=r"(?s)yet now missing.*- c.*The kernels read only: 'a', 'c'"):
        model.predict(X[["a", "b"]])
    with pytest.raises(InvalidInputError, match="unseen at fit time"):
        model.predict(X[["a", "c"]].assign(other=1.0))


def test_searches_tell_the_same() -> None:
    search = GaussianMKL(resources={"max_iter": 3}, tol=0.5).fit(X, TARGETS)
    assert_allclose(search.feature_importances_.sum(), 1.0)
    assert set(search.weights_frame()["output"]) == {"height", "mass"}
    assert_allclose(search.decompose_frame(X)["height"].sum(axis=1), search.predict(X)[:, 0])


def test_a_report_calls_targets_by_their_names(tmp_path: Path) -> None:
    model = MKLRegressor(SINGLE, alpha=0.1).fit(X, TARGETS)
    page = report(model, X, TARGETS, tmp_path / "report.html", cv=2).read_text(encoding="utf-8")
    assert ">height<" in page
    assert "output 0" not in page


def test_frames_show_weights_and_importances_at_eighty_columns() -> None:
    wide = X.rename(columns=lambda name: f"expression of a gene with the long name {name}")
    model = MKLRegressor(KernelBank.joint(widths=["median"]), alpha=0.01).fit(wide, wide.iloc[:, 0])
    with pd.option_context("display.width", 80, "display.max_columns", 0):
        assert " weight" in repr(model.weights_frame().head()).splitlines()[0]
        assert " importance" in repr(model.importance_frame().head()).splitlines()[0]
