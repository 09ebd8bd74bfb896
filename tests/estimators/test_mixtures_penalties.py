"""Penalties by group and trees in the estimators: mixed models, searches, folds, shared outputs, hazards, files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GroupKFold

from manykernels import (
    Gaussian,
    KernelBank,
    MKLClassifier,
    MKLRegressor,
    MKLRegressorCV,
    MKLSurvival,
    Overlap,
    load_model,
    regularization_path,
    save_model,
)
from manykernels.exceptions import InvalidInputError
from manykernels.inspection import export_model, stability_selection
from manykernels.kernels import Interactions, Linear
from manykernels.objective import BlockL1, Ridge, Tree

KEPT = {"subject": "ridge", "*": "l1"}
TREE = {"*": Tree(1.0, {"a": {"a0": None, "a1": None}, "b": "b*"})}


@pytest.fixture(scope="module")
def data() -> tuple[pd.DataFrame, np.ndarray]:
    """Return a smooth effect of one column among four and an effect of twelve subjects."""
    rng = np.random.default_rng(0)
    subject, numbers = rng.integers(0, 12, 120), rng.normal(size=(120, 4))
    table = pd.DataFrame(numbers, columns=["a0", "a1", "b0", "b1"])
    table["subject"] = pd.Categorical([f"s{number:02d}" for number in subject])
    return table, np.sin(2 * numbers[:, 0]) + rng.normal(size=12)[subject] + 0.3 * rng.normal(size=120)


@pytest.fixture
def bank() -> KernelBank:
    columns = [
        (f"{name}: w{width}", Gaussian(width), [name]) for name in ("a0", "a1", "b0", "b1") for width in (0.5, 2.0)
    ]
    return KernelBank([("subject", Overlap(), ["subject"]), *columns])


@pytest.mark.parametrize("representation", ["gram", "factored"])
@pytest.mark.parametrize("alpha", [0.02, "auto", "0.1*max"])
def test_a_kernel_that_is_always_in(data, bank, representation, alpha) -> None:
    model = MKLRegressor(bank, penalty=KEPT, alpha=alpha, tol=1e-6, resources={"representation": representation})
    model.fit(*data)
    names = [name for name, d in zip(model.kernel_names_, model.kernel_weights_, strict=True) if d > 0]
    assert names[0] == "subject"
    assert model.dual_gap_ <= 1e-6
    assert "a0: w0.5" in names
    assert len(names) <= 5


@pytest.mark.nightly
def test_both_representations_find_the_same(data, bank) -> None:
    for penalty in (KEPT, TREE, {"subject": "ridge", "*": "simplex"}, {"subject": "ridge"} | TREE):
        found = [
            MKLRegressor(bank, penalty=penalty, alpha=0.02, tol=1e-7, resources={"representation": kind}).fit(*data)
            for kind in ("gram", "factored")
        ]
        primal = [model.solution_.certificate.primal for model in found]
        assert primal[0] == pytest.approx(primal[1], rel=3e-7)


def test_parameters_reach_the_names(data, bank) -> None:
    penalty = {"subject": "ridge", "*": "elasticnet"}
    model = MKLRegressor(bank, penalty=penalty, alpha=0.02, l1_ratio=1.0, tol=1e-8).fit(*data)
    plain = MKLRegressor(bank, penalty=KEPT, alpha=0.02, tol=1e-8).fit(*data)
    np.testing.assert_allclose(model.predict(data[0]), plain.predict(data[0]), atol=1e-4)


def test_a_random_intercept_is_ridge_on_an_overlap(data) -> None:
    """The best linear unbiased predictor of MixedLM at its own variances."""
    formula = pytest.importorskip("statsmodels.formula.api")
    rng = np.random.default_rng(1)
    table = data[0][["subject"]].assign(y=rng.normal(0, 2, 12)[data[0]["subject"].cat.codes] + rng.normal(size=120))
    reference = formula.mixedlm("y ~ 1", table, groups="subject").fit(reml=False)
    ratio = reference.scale / float(reference.cov_re.iloc[0, 0])
    bank = KernelBank([("subject", Overlap(), ["subject"])], normalize=None)
    model = MKLRegressor(bank, penalty={"subject": Ridge(ratio)}, alpha=1 / 120, tol=1e-10)
    model.fit(table[["subject"]], table["y"])
    np.testing.assert_allclose(model.predict(table[["subject"]]), reference.fittedvalues, atol=1e-8)
    assert model.intercept_ == pytest.approx(float(reference.fe_params.iloc[0]), abs=1e-8)


@pytest.mark.parametrize("representation", ["gram", "factored"])
def test_a_random_slope_is_ridge_on_a_product(representation) -> None:
    """Ten days of 18 subjects, as in the sleep study; the mixed model equations at given variances."""
    rng = np.random.default_rng(2)
    subject, days = np.repeat(np.arange(18), 10), np.tile(np.arange(10.0), 18)
    y = 250 + (10 + rng.normal(0, 6, 18)[subject]) * days + rng.normal(0, 25, 18)[subject] + rng.normal(0, 25, 180)
    table = pd.DataFrame({"subject": pd.Categorical([f"s{number:02d}" for number in subject]), "days": days})
    ratios = {"subject": 1.1, "* x *": 18.0, "days": 0.5}
    bank = KernelBank(
        [
            ("subject", Overlap(), ["subject"]),
            ("days", Linear(), ["days"]),
            Interactions([Linear()], ["subject", "days"]),
        ],
        normalize=None,
    )
    penalty = {name: Ridge(ratio) for name, ratio in ratios.items()}
    resources = {"representation": representation}
    model = MKLRegressor(bank, penalty=penalty, alpha=1 / 180, tol=1e-9, resources=resources).fit(table, y)
    members = np.eye(18)[subject]
    design = np.column_stack([np.ones(180), members, members * days[:, None], days])
    ridge = np.r_[0.0, np.full(18, ratios["subject"]), np.full(18, ratios["* x *"]), ratios["days"]]
    expected = np.linalg.solve(design.T @ design + np.diag(ridge), design.T @ y)
    np.testing.assert_allclose(model.predict(table), design @ expected, rtol=1e-5)
    assert model.intercept_ == pytest.approx(expected[0], rel=1e-5)


@pytest.mark.parametrize("representation", ["gram", "factored"])
def test_folds_of_groups_choose_the_strength_of_random_slopes(representation, tmp_path) -> None:
    """Groups held out have the line of the population, and the strength is that of an explicit loop over folds."""
    rng = np.random.default_rng(4)
    group, dose = np.repeat(np.arange(40), 6), rng.normal(size=240)
    y = 1.0 + (2.0 + rng.normal(size=40)[group]) * dose + rng.normal(size=40)[group] + 0.5 * rng.normal(size=240)
    table = pd.DataFrame({"group": pd.Categorical([f"g{number:02d}" for number in group]), "dose": dose})
    kernels = [("dose", Linear(), ["dose"]), ("group", Overlap(), ["group"])]
    bank = KernelBank([*kernels, Interactions([Linear()], ["group", "dose"])], normalize=None)
    penalty = {"dose": Ridge(0.01), "group": Ridge(1.0), "group x*": Ridge(1.0)}
    tried = [{"group x*": weight} for weight in (0.03, 0.5, 30.0)]
    given = {"penalty": penalty, "tol": 1e-7, "resources": {"representation": representation}}
    search = MKLRegressorCV(bank, alphas=[1 / 240], kernel_penalties=tried, cv=GroupKFold(4), **given)
    search.fit(table, y, groups=group)

    folds, errors = list(GroupKFold(4).split(table, y, group)), np.zeros((len(tried), 4))
    for k, weights in enumerate(tried):
        model = MKLRegressor(bank, alpha=1 / 240, kernel_penalties=weights, **given)
        for f, (train, test) in enumerate(folds):
            predicted = model.fit(table.iloc[train], y[train]).predict(table.iloc[test])
            line = model.intercept_ + dose[test] * np.polyfit(dose[test], predicted, 1)[0]
            np.testing.assert_allclose(predicted, line, atol=1e-8)  # the same for all groups held out
            errors[k, f] = np.mean((y[test] - predicted) ** 2)
            if weights == search.kernel_penalties_:
                np.testing.assert_allclose(search.cv_predictions_[test].ravel(), predicted, atol=1e-3)
    assert search.kernel_penalties_ == tried[int(errors.mean(axis=1).argmin())]

    new = table.assign(group=["unknown", *table["group"][1:]])
    population = dict(zip(search.kernel_names_, search.decompose(new), strict=True))
    assert search.predict(new)[0] == pytest.approx(float(search.intercept_) + population["dose"][0], abs=1e-9)
    save_model(search, tmp_path / "slopes.mkl")
    np.testing.assert_array_equal(load_model(tmp_path / "slopes.mkl").predict(new), search.predict(new))
    if representation == "factored":
        assert export_model(search, tmp_path / "slopes.py", X=new).max_error <= 1e-5


@pytest.mark.parametrize("representation", ["gram", "factored"])
def test_fixed_effects_are_kernels_without_a_penalty(representation) -> None:
    """The mixed model equations with a fixed slope; at a strength that leaves nothing else, least squares."""
    rng = np.random.default_rng(3)
    subject, days = np.repeat(np.arange(18), 10), np.tile(np.arange(10.0), 18)
    y = 250 + 10 * days + rng.normal(0, 25, 18)[subject] + rng.normal(0, 25, 180)
    table = pd.DataFrame({"subject": pd.Categorical([f"s{number:02d}" for number in subject]), "days": days})
    bank = KernelBank([("subject", Overlap(), ["subject"]), ("days", Linear(), ["days"])], normalize=None)
    settings = {"tol": 1e-7, "resources": {"representation": representation}}
    model = MKLRegressor(bank, penalty={"days": None, "subject": Ridge(1.1)}, alpha=1 / 180, **settings).fit(table, y)
    design = np.column_stack([np.ones(180), days, np.eye(18)[subject]])
    expected = np.linalg.solve(design.T @ design + np.diag(np.r_[0.0, 0.0, np.full(18, 1.1)]), design.T @ y)
    assert model.dual_gap_ <= 1e-7
    np.testing.assert_allclose(model.predict(table), design @ expected, rtol=1e-6)
    least = MKLRegressor(bank, penalty={"days": None, "*": "l1"}, alpha=1e4, **settings).fit(table, y)
    line = np.polynomial.Polynomial.fit(days, y, 1)
    np.testing.assert_allclose(least.predict(table), line(days), rtol=1e-6)
    with pytest.raises(InvalidInputError, match="unknown"):
        MKLRegressor(bank, penalty={"days": "unknown", "*": "l1"}).fit(table, y)


@pytest.mark.parametrize("outputs", ["own", "shared"])
def test_targets_with_kernels_without_a_penalty(data, bank, outputs) -> None:
    X, y = data
    targets, fits = np.column_stack([y + X["b0"], y - 2 * X["b0"]]), []
    free = KernelBank([*bank.kernels, ("b0", Linear(), ["b0"])])
    for representation in ("gram", "factored"):
        resources = {"representation": representation}
        model = MKLRegressor(
            free, penalty={"b0": None, "*": "l1"}, alpha=0.05, outputs=outputs, tol=1e-6, resources=resources
        )
        fits.append(model.fit(X, targets))
        assert np.max(model.dual_gap_) <= 1e-6
    np.testing.assert_allclose(fits[0].predict(X), fits[1].predict(X), atol=2e-3)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("representation", ["gram", "factored"])
def test_classes_with_kernels_without_a_penalty(data, bank, loss, representation, tmp_path) -> None:
    X, y = data
    free = KernelBank([*bank.kernels, ("b0", Linear(), ["b0"])])
    labels = np.digitize(y + X["b0"], np.quantile(y + X["b0"], [0.3, 0.7]))
    resources = {"representation": representation}
    model = MKLClassifier(free, loss=loss, penalty={"b0": None, "*": "l1"}, alpha=0.02, tol=1e-5, resources=resources)
    model.fit(X, labels)
    assert np.max(model.dual_gap_) <= 1e-5
    assert np.all(model.kernel_weights_[:, model.kernel_names_.index("b0")] > 0)
    save_model(model, tmp_path / "model")
    assert load_model(tmp_path / "model").penalty == {"b0": None, "*": "l1"}
    if loss == "logistic" and representation == "factored":
        shared = clone(model).set_params(outputs="shared").fit(X, labels)
        assert shared.dual_gap_ <= 1e-5


@pytest.mark.nightly
def test_searches_and_hazards_with_kernels_without_a_penalty(data, bank) -> None:
    X, y = data
    free, penalty = KernelBank([*bank.kernels, ("b0", Linear(), ["b0"])]), {"b0": None, "*": "l1"}
    path = regularization_path(X, y + 2 * X["b0"], kernels=free, penalty=penalty, n_alphas=4)
    assert path.summary()["n_active"].tolist()[0] == 1  # the largest strength leaves what has no penalty
    found = MKLRegressorCV(free, penalty=penalty, cv=3, n_alphas=4).fit(X, y + 2 * X["b0"])
    assert found.score(X, y + 2 * X["b0"]) > 0.7
    times = pd.DataFrame({"time": np.exp(-y - X["b0"]), "event": np.arange(120) % 4 > 0})
    for representation in ("gram", "factored"):
        resources = {"representation": representation}
        model = MKLSurvival(free, penalty=penalty, alpha=0.02, tol=1e-5, resources=resources).fit(X, times)
        assert model.dual_gap_ <= 1e-5


@pytest.mark.nightly
def test_a_grid_starts_where_what_selects_is_empty(data, bank) -> None:
    path = regularization_path(*data, kernels=bank, penalty=KEPT, n_alphas=6)
    assert path.summary()["n_active"].tolist()[0] == 1
    found = MKLRegressorCV(bank, penalty=KEPT, cv=3, n_alphas=6).fit(*data)
    assert found.kernel_weights_[0] > 0
    assert found.score(*data) > 0.7
    with pytest.raises(InvalidInputError, match="every kernel has a weight at any strength"):
        MKLRegressorCV(bank, penalty={"subject": "ridge", "*": Ridge(2.0)}, cv=3).fit(*data)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("penalty", [TREE, {"subject": "ridge", "*": "elasticnet"}], ids=["object", "name"])
def test_a_search_over_both_levels(data, bank, penalty) -> None:
    found = MKLRegressorCV(bank, penalty=penalty, cv=3, n_alphas=5, l1_ratios=[0.2, 0.9]).fit(*data)
    assert sorted(set(found.cv_results_["l1_ratio"])) == [0.2, 0.9]
    assert found.l1_ratio_ in (0.2, 0.9)
    assert found.dual_gap_ <= found.tol


def test_outputs_that_share_weights(data, bank) -> None:
    table, y = data
    both = np.column_stack([y, y**2])
    for penalty in (KEPT, TREE):
        model = MKLRegressor(bank, penalty=penalty, alpha=0.02, outputs="shared", tol=1e-4).fit(table, both)
        assert model.dual_gap_ <= 1e-4
    assert model.kernel_weights_.shape == (9,)


@pytest.mark.parametrize("penalty", [KEPT, TREE, {"subject": "ridge", "*": "lq"}], ids=["l1", "tree", "lq"])
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_classes(data, bank, penalty, loss) -> None:
    table, y = data
    model = MKLClassifier(bank, loss=loss, penalty=penalty, alpha=0.01, tol=1e-5).fit(table, y > 0)
    assert model.dual_gap_ <= 1e-5
    assert model.score(table, y > 0) > 0.85


def test_a_saved_model_keeps_its_penalty(data, bank, tmp_path) -> None:
    for penalty in (KEPT, TREE, {("a0", "a1"): BlockL1(2.0), "*": "ridge"}):
        model = MKLRegressor(bank, penalty=penalty, alpha=0.02).fit(*data)
        save_model(model, tmp_path / "model.mkl")
        loaded = load_model(tmp_path / "model.mkl")
        assert loaded.penalty == penalty
        np.testing.assert_array_equal(loaded.predict(data[0]), model.predict(data[0]))
        assert loaded.solution_.certificate == model.solution_.certificate
        assert clone(loaded).fit(*data).dual_gap_ == model.dual_gap_


@pytest.mark.nightly
def test_hazards_under_a_tree(data, bank) -> None:
    table, y = data
    rng = np.random.default_rng(3)
    target = np.zeros(120, dtype=[("event", bool), ("time", float)])
    target["time"], target["event"] = rng.exponential(size=120) * np.exp(-y), rng.random(120) < 0.7
    primal = []
    for kind in ("gram", "factored"):
        resources = {"representation": kind}
        for penalty in (KEPT, TREE):
            model = MKLSurvival(bank, penalty=penalty, alpha=0.01, tol=1e-5, resources=resources).fit(table, target)
            assert model.dual_gap_ <= 1e-5
            primal.append(model.solution_.certificate.primal)
    np.testing.assert_allclose(primal[:2], primal[2:], rtol=2e-5)


def test_frequencies_of_selection(data, bank) -> None:
    found = stability_selection(MKLRegressor(bank, penalty=KEPT), *data, n_pairs=5, random_state=0)
    assert found.frame().iloc[0]["frequency"] > 0.5


@pytest.mark.parametrize(
    ("penalty", "message"),
    [
        ({"subjekt": "ridge", "*": "l1"}, "No kernel is called 'subjekt'"),
        ({"subject": "rigde", "*": "l1"}, "take 'ridge'"),
        ({"subject": "ridge"}, r"8 kernel\(s\) have no penalty, such as 'a0: w0.5'"),
        (3.0, "Unknown penalty 3.0"),
    ],
)
def test_mistakes_are_said(data, bank, penalty, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        MKLRegressor(bank, penalty=penalty, alpha=0.1).fit(*data)
