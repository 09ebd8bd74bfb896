"""Estimators on kernels held as factors: the models of Gram matrices, in files that do not grow with the samples."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.support.processes import python

from manykernels import (
    Gaussian,
    KernelBank,
    Laplacian,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    Polynomial,
    load_model,
    predictive_importance,
    save_model,
)
from manykernels.estimators.supervised.samples import check_rows
from manykernels.exceptions import ConvergenceWarning, IncompatibleError, InvalidInputError
from manykernels.grams.factored.banks import fit_factors
from manykernels.grams.plan import CLEARLY, NOTICED_OF_KINKS, plan_kernels
from manykernels.grams.seconds import bases_seconds, factored_seconds
from manykernels.grams.training import PATIENCE_SECONDS, size_bank
from manykernels.inspection import MKLReport, ShapeDisplay
from manykernels.kernels import Joint, PerFeature

RNG = np.random.default_rng(3)
X = RNG.normal(size=(180, 3))
SCORE = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.3 * RNG.normal(size=180)
TWO = np.where(SCORE > 0.4, "yes", "no")
THREE = np.digitize(SCORE, [-0.2, 0.6])
NEW = RNG.normal(size=(40, 3))
WIDTHS = [0.5, 1.0, 2.0]
ADDITIVE = KernelBank.per_feature(Linear(), widths=WIDTHS, standardize=True)
FEW = KernelBank.per_feature(Linear(), widths=["median"], standardize=True)
EVERY_KIND = KernelBank(
    [
        PerFeature([Gaussian("median"), Linear(), Polynomial(2), Laplacian(1.0)]),
        Joint([Gaussian("2*median"), Linear()]),
    ],
    standardize=True,
)


def pair(estimator: Any, y: Any, **fit: Any) -> tuple[Any, Any]:
    """The same estimator on factors and on Gram matrices."""
    fitted = [
        type(estimator)(**(estimator.get_params(deep=False) | {"resources": {"representation": form}}))
        for form in FORMS
    ]
    return tuple(model.fit(X, y, **fit) for model in fitted)  # type: ignore[return-value]


FORMS = ("factored", "gram")


def objectives(model: Any) -> Any:
    found = model.solution_ if isinstance(model.solution_, tuple) else (model.solution_,)
    return np.array([one.certificate.primal for one in found])


CASES = {
    "squared loss": (MKLRegressor(EVERY_KIND), SCORE),
    "several targets": (MKLRegressor(ADDITIVE), np.column_stack([SCORE, X[:, 2] - SCORE])),
    "quantiles": (MKLRegressor(ADDITIVE, loss="quantile", loss_parameters={"tau": [0.2, 0.8]}), SCORE),
    "poisson": (MKLRegressor(ADDITIVE, loss="poisson"), np.round(np.exp(SCORE))),
    "two classes": (MKLClassifier(EVERY_KIND, class_weight="balanced"), TWO),
    "three classes": (MKLClassifier(ADDITIVE), THREE),
    "hinge": (MKLClassifier(ADDITIVE, loss="hinge"), TWO),
    "elastic net": (MKLClassifier(ADDITIVE, penalty="elasticnet", loss="squared_hinge"), TWO),
    "no constant": (MKLRegressor(ADDITIVE, fit_intercept=False), SCORE),
    "kernel penalties": (MKLRegressor(ADDITIVE, kernel_penalties={"x0:*": 3.0}), SCORE),
    "centered": (MKLRegressor(EVERY_KIND.replace(center=True)), SCORE),
    "unit diagonal": (MKLRegressor(EVERY_KIND.replace(normalize="unit_diagonal")), SCORE),
    "unit trace": (MKLClassifier(EVERY_KIND.replace(normalize="trace")), TWO),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CASES)
def test_models_are_those_of_gram_matrices(name: str) -> None:
    estimator, y = CASES[name]
    weight = RNG.uniform(0.5, 2.0, len(X)) * (np.arange(len(X)) % 9 > 0)
    ours, gram = pair(
        estimator.set_params(tol=1e-9, alpha=0.002 if name == "unit trace" else 0.03), y, sample_weight=weight
    )
    np.testing.assert_allclose(objectives(ours), objectives(gram), rtol=1e-8)
    assert ours.dual_gap_ <= 1e-9
    assert ours.kernel_names_ == gram.kernel_names_
    np.testing.assert_array_equal(ours.proved_inactive_ & (gram.kernel_weights_ > 0), False)
    parts = [model.decompose(NEW) for model in (ours, gram)]
    np.testing.assert_allclose(parts[0], parts[1], atol=2e-3 * np.abs(parts[1]).max())
    scores = ours.decision_function(NEW) if hasattr(ours, "decision_function") else ours.predict(NEW)
    if name != "quantiles":
        np.testing.assert_allclose(parts[0].sum(axis=0) + ours.intercept_, scores, atol=1e-9)


def test_a_rich_problem_stays_on_factors_and_reaches_the_same_optimum() -> None:
    """Fewer directions than rows: nothing here goes over to N x N matrices."""
    rows = RNG.normal(size=(600, 2))
    y = np.sin(2 * rows[:, 0]) + 0.3 * RNG.normal(size=600)
    bank = KernelBank.per_feature(Linear(), widths=[1.0, 3.0], standardize=True)
    models = [
        MKLRegressor(bank, alpha="0.1*max", tol=1e-8, resources={"representation": form}).fit(rows, y) for form in FORMS
    ]
    assert type(models[0]._expansion.parts[0].function).__name__ == "FourierSeries"
    np.testing.assert_allclose(objectives(models[0]), objectives(models[1]), rtol=1e-8)
    np.testing.assert_allclose(models[0].predict(rows), models[1].predict(rows), atol=1e-3)
    assert models[0].alpha_ == pytest.approx(models[1].alpha_, rel=1e-9)


def test_tables_with_categories_dates_and_gaps() -> None:
    n = len(X)
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        kind=RNG.choice(list("uvw"), n), day=pd.date_range("2020", periods=n)
    )
    table.loc[5:30, "a"] = np.nan
    bank = KernelBank.auto(missing="indicator")
    ours, gram = (
        MKLRegressor(bank, alpha=0.02, tol=1e-8, resources={"representation": form}).fit(table, SCORE) for form in FORMS
    )
    np.testing.assert_allclose(objectives(ours), objectives(gram), rtol=1e-7)
    np.testing.assert_allclose(ours.predict(table), gram.predict(table), atol=1e-3)


@pytest.mark.parametrize("gaps", ["categories", "numbers", "both"])
@pytest.mark.parametrize("n", [60, 700, 2_500])
def test_tables_with_gaps_in_some_kinds_of_columns_at_every_size(n: int, gaps: str) -> None:
    rng = np.random.default_rng(n)
    whole = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    whole = whole.assign(word=rng.choice(list("pqr"), n), place=rng.choice(list("uv"), n))
    y = whole["a"] + (whole["word"] == "p") + 0.3 * rng.normal(size=n)
    table = whole.copy()
    for column in {"categories": ["word", "place"], "numbers": ["a"], "both": ["a", "word"]}[gaps]:
        table.loc[rng.random(n) < 0.1, column] = np.nan if column == "a" else None
    with pytest.raises(InvalidInputError, match="missing values"):
        MKLRegressor(KernelBank.auto(missing="error")).fit(table, y)
    for missing in ("mask", "indicator"):
        model = MKLRegressor(KernelBank.auto(missing=missing)).fit(table, y)
        assert model.score(table, y) > 0.8
        assert np.isfinite(model.predict(table.iloc[:5].assign(a=np.nan, word=None))).all()
        assert any(name.endswith("missing") for name in model.kernel_names_) == (missing == "indicator")


def test_a_new_process_predicts_the_same_bits(tmp_path: Path) -> None:
    model = MKLClassifier(ADDITIVE, resources={"representation": "factored"}).fit(X, THREE)
    save_model(model, tmp_path / "model.mkl")
    np.save(tmp_path / "new.npy", NEW)
    code = (
        "import sys, numpy as np; from manykernels import load_model; folder = sys.argv[1] + '/'; "
        "model, new = load_model(folder + 'model.mkl'), np.load(folder + 'new.npy'); "
        "np.save(folder + 'scores.npy', model.predict_proba(new))"
    )
    done = python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "scores.npy"), model.predict_proba(NEW))


def test_files_and_models_do_not_grow_with_the_samples(tmp_path: Path) -> None:
    sizes = []
    for n in (2_000, 20_000):
        rows = np.random.default_rng(0).normal(size=(n, 3))
        y = np.where(np.sin(2 * rows[:, 0]) > 0.2, 1, 0)
        model = MKLClassifier(ADDITIVE, alpha="0.2*max", resources={"representation": "factored"}).fit(rows, y)
        save_model(model, tmp_path / "model.mkl")
        sizes.append((tmp_path / "model.mkl").stat().st_size)
        assert not hasattr(model, "support_")
        assert not hasattr(model, "dual_coef_")
        assert model.solution_.dual_coef.size == 0
    assert sizes[1] < 1.5 * sizes[0]
    again = load_model(tmp_path / "model.mkl")
    assert again.representation_ == "factored"
    assert again.approximate_gap_ == model.approximate_gap_
    whole = model.decision_function(rows)
    np.testing.assert_array_equal(again.decision_function(rows), whole)
    np.testing.assert_allclose(model.decision_function(rows[:100]), whole[:100], atol=1e-12)


def test_everything_that_looks_at_models_takes_these() -> None:
    model = MKLClassifier(ADDITIVE, resources={"representation": "factored"}).fit(
        pd.DataFrame(X, columns=list("abc")), TWO
    )
    frame = pd.DataFrame(NEW, columns=list("abc"))
    facts = MKLReport.from_estimator(model, frame, TWO[:40])
    assert facts.n_samples == len(X)
    assert "no samples kept" in facts.summary()
    assert "no samples kept" in model._repr_mimebundle_()["text/html"]
    assert facts.n_kept == 0
    many = np.random.default_rng(0).normal(size=(1100, 3))
    chosen = MKLClassifier(ADDITIVE).fit(many, many[:, 0] > 0.2)
    assert chosen.representation_ == "factored"
    kept = MKLReport.from_estimator(chosen)
    assert "samples kept for bands" in kept.summary()
    assert 0 < kept.n_kept < 400
    shapes = ShapeDisplay.from_estimator(model, frame).frame()
    assert set(shapes["column"]) <= set("abc")
    parts = model.decompose_frame(frame)
    np.testing.assert_allclose(parts.sum(axis=1), model.decision_function(frame), atol=1e-9)
    np.testing.assert_allclose(model.feature_importances_.sum(), 1.0)
    assert predictive_importance(model, frame, TWO[:40], n_repeats=5)["importance"].notna().all()
    read = frame.loc[:, model.selected_features_]
    np.testing.assert_array_equal(model.predict(read), model.predict(frame))


@pytest.mark.filterwarnings("ignore:The best strength")
def test_strengths_are_chosen_in_folds() -> None:
    model = MKLRegressorCV(ADDITIVE, cv=3, resources={"representation": "factored"}).fit(X, SCORE)
    assert (model.representation_, model.mixing_) == ("factored", 1.0)
    assert set(model.cv_results_["mixing"]) == {1.0}
    plain = MKLRegressor(ADDITIVE, alpha=model.alpha_, resources={"representation": "gram"}).fit(X, SCORE)
    np.testing.assert_allclose(objectives(model), objectives(plain), rtol=2e-4)
    grids = [
        MKLClassifierCV(
            ADDITIVE,
            penalty="l1",
            n_alphas=5,
            search={"alpha_min_ratio": 0.02},
            cv=3,
            tol=1e-6,
            resources={"representation": form},
        ).fit(X, TWO)
        for form in FORMS
    ]
    np.testing.assert_allclose(grids[0].alphas_, grids[1].alphas_, rtol=1e-9)
    np.testing.assert_allclose(grids[0].cv_results_["mean_score"], grids[1].cv_results_["mean_score"], atol=0.02)


def test_a_plan_says_which_and_why() -> None:
    small, large = (plan_kernels(44, n, 10, memory_budget="4 GB") for n in (300, 50_000))
    assert (small.kind, large.kind) == ("packed", "factored")
    assert "would take" in large.reason
    assert plan_kernels(44, 6_000, 10, memory_budget="40 GB").kind == "factored"
    assert plan_kernels(44, 500, 10, memory_budget="40 GB", n_landmark=4).kind == "packed"
    assert plan_kernels(44, 6_000, 10, memory_budget="40 GB", n_landmark=4).kind == "factored"  # with a few matrices
    assert plan_kernels(44, 50_000, 10, memory_budget="400 GB", refusal="no").kind != "factored"
    assert plan_kernels(44, 100, 10, memory_budget="4 GB", representation="factored").reason == "Factors: as asked."


def test_large_samples_take_factors_by_themselves() -> None:
    rows = np.random.default_rng(0).normal(size=(5_200, 2))
    model = MKLRegressor(ADDITIVE, alpha="0.3*max").fit(rows, np.sin(2 * rows[:, 0]))
    assert model.representation_ == "factored"
    assert model.dual_gap_ <= 1e-4
    rho = model.dual_coef_
    assert len(model.support_) == len(rho) > 5_000  # as a model on matrices has them
    assert abs(rho.sum()) <= 1e-9 * np.abs(rho).sum()
    assert MKLRegressor(ADDITIVE).fit(rows[:100], rows[:100, 0]).representation_ == "gram"


@pytest.mark.nightly
def test_the_default_bank_ends_at_any_number_of_rows_and_its_names_say_how() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4_000, 3))
    y = np.sin(2 * rows[:, 0]) + rows[:, 1] * rows[:, 2] + 0.1 * rng.normal(size=4_000)
    model = MKLRegressor(alpha="0.1*max", tol=1e-3).fit(rows, y)
    assert (model.representation_, model.dual_gap_ <= 1e-3) == ("factored", True)
    together = [name for name in model.kernel_names_ if name.startswith("all: gaussian")]
    assert len(together) == 3
    assert all(name.endswith("on 500 landmarks") for name in together)
    assert model.score(rows, y) > 0.8
    assert not any("landmarks" in name for name in MKLRegressor().fit(rows[:300], y[:300]).kernel_names_)


def test_a_bank_that_leaves_its_kernels_to_the_rows_is_sized_like_the_default_one() -> None:
    """``KernelBank.auto(missing=...)`` is what the command fits; kernels that somebody chose stay what they are."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4_000, 3))
    auto = KernelBank.auto(missing="mask")
    sized = size_bank(auto, rows)
    assert [name for name in sized.expand(rows) if "landmarks" in name[0]] != []
    assert sized.missing == "mask"
    assert size_bank(auto, rows[:300]) == auto
    # Averages, which a search tries, are worth matrices of more rows, as long as factors are not asked for.
    assert size_bank(auto, rows[:2_500]) != auto
    in_search = [name for name, _, _ in size_bank(auto, rows[:2_500], patience=8.0).expand(rows)]
    assert [name for name in in_search if "landmarks" in name] == []
    joint = [name for name in in_search if name.startswith("all: ")]
    assert joint[-2:] == ["all: gaussian(width=0.25*median)", "all: gaussian(width=0.125*median)"]
    few, y = np.hstack([rows, rows**2])[:2_500], rows[:2_500, 0]
    plans = [MKLRegressorCV(resources={"representation": form}).plan(few, y) for form in ("auto", "factored")]
    assert [plan.kind for plan in plans] == ["packed", "factored"]
    wide = rng.normal(size=(520, 600))  # whose linear kernels, one a column, are no matrices
    assert size_bank(auto, wide) == auto
    # A fit is projected where that is clearly cheaper, if it would not take long as it is: of few columns later.
    sizes = factored_seconds(28, n := 2_090, 6, landmarks=500), factored_seconds(28, n, 6, n_landmark=4)
    assert PATIENCE_SECONDS > sizes[1] > NOTICED_OF_KINKS + CLEARLY * (sizes[0] + bases_seconds(500))
    assert [size_bank(auto, rng.normal(size=(own, 6))) == auto for own in (n, n - 90)] == [False, True]
    chosen = KernelBank([*auto.kernels, ("mine", Gaussian(1.0), None)])
    assert size_bank(chosen, rows).kernels[-1] == chosen.kernels[-1]
    assert size_bank(KernelBank([Joint((Gaussian(1.0),))]), rows) == KernelBank([Joint((Gaussian(1.0),))])


REFUSED = {
    "a solver of matrices": (MKLRegressor(ADDITIVE, solver="spicymkl"), "take solver='auto'"),
    "centered and unit diagonal": (
        MKLRegressor(ADDITIVE.replace(center=True, normalize="unit_diagonal")),
        "or center=False",
    ),
    "centered without a constant": (
        MKLRegressor(ADDITIVE.replace(center=True), fit_intercept=False),
        "set fit_intercept=True",
    ),
    "precomputed kernels": (MKLRegressor("precomputed"), "pass the rows and a KernelBank"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_factors_cannot_do_is_refused_with_a_way_out(name: str) -> None:
    estimator, advice = REFUSED[name]
    rows = np.eye(180)[None] if estimator.kernels == "precomputed" else X
    with pytest.raises(IncompatibleError, match=advice):
        estimator.set_params(resources__representation="factored").fit(rows, THREE)


def test_limits_and_callbacks_stop_a_fit() -> None:
    seen: list[Any] = []
    rows, noise = RNG.normal(size=(1500, 3)), RNG.normal(size=1500)
    hard = MKLRegressor(ADDITIVE, tol=1e-12, resources={"representation": "factored"})
    stopped = clone(hard).set_params(resources__callback=lambda record: seen.append(record) or len(seen) > 1)
    with pytest.warns(ConvergenceWarning, match="stopped_by_callback"):
        stopped.fit(rows, noise)
    assert [record.iteration for record in seen] == [0, 1]
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        clone(hard).set_params(resources__max_iter=1).fit(rows, noise)
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        clone(hard).set_params(resources__time_limit=1e-6).fit(rows, noise)


EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "kernel normalization counts training rows, not their weights"
}


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:No kernel was selected:UserWarning")
@parametrize_with_checks(
    [
        MKLClassifier(FEW, resources={"representation": "factored"}),
        MKLRegressor(FEW, resources={"representation": "factored"}),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_scikit_learn_accepts_them(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("order", "dtype", "standardize"),
    [("F", np.float64, True), ("F", np.float64, False), ("C", np.float32, True)],
)
def test_a_large_table_is_copied_once_at_most(order: Any, dtype: Any, standardize: bool) -> None:
    X = np.random.default_rng(0).normal(size=(60_000, 50)).astype(dtype, order=order)
    before = X.copy()
    bank = KernelBank.per_feature(widths=[1.0], standardize=standardize)
    model = MKLRegressor(bank, resources={"representation": "factored"})
    fit_factors(bank, X[:500])  # so that what is compiled is there
    tracemalloc.start()
    fitted, stack = fit_factors(bank, check_rows(model, X, precomputed=False, reset=True))
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_array_equal(X, before)
    table = 8 * X.size
    in_place = order == "F" and dtype == np.float64 and not standardize
    assert held < (0.1 if in_place else 1.1) * table
    assert peak < (0.7 if in_place else 1.7) * table  # beside blocks of columns, which so small a table has few of
    assert stack.n_kernels == 50
    points = fitted.table.points(fitted.table.values(X[:5])).points(3)[:, 0]
    expected = (X[:5, 3] - X[:, 3].astype(float).mean()) / X[:, 3].astype(float).std() if standardize else X[:5, 3]
    np.testing.assert_allclose(points, expected, atol=1e-9)
