"""Estimators that choose their strength: against a plain loop over folds, and under scikit-learn's contract."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import accuracy_score, mean_squared_error
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold

from manykernels import Gaussian, KernelBank, KernelStack, MKLClassifier, MKLRegressor
from manykernels.estimators.selection.cross_validation import MKLClassifierCV, MKLRegressorCV
from manykernels.estimators.selection.scores import calibrated_loss
from manykernels.exceptions import ConvergenceWarning, InvalidInputError
from manykernels.grams.seconds import ProblemForm
from manykernels.grams.training import plan_for
from manykernels.objective.regularizers import BlockL1

Array = NDArray[Any]


def bank() -> KernelBank:
    return KernelBank([(f"x{j} {w}", Gaussian(w), [j]) for j in range(3) for w in (0.5, 2.0)], normalize="trace")


def regression(n_samples: int = 60) -> tuple[Array, Array]:
    rng = np.random.default_rng(5)
    X = rng.uniform(-2, 2, size=(n_samples, 3))
    return X, np.sin(2 * X[:, 1]) + 0.5 * rng.normal(size=n_samples)


def classification(n_samples: int = 90, n_classes: int = 2) -> tuple[Array, Array]:
    X, y = regression(n_samples)
    codes = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
    return X, np.array(["red", "green", "blue"])[codes]


def test_scores_are_those_of_a_plain_loop() -> None:
    X, y = regression()
    splitter = KFold(3, shuffle=True, random_state=0)
    model = MKLRegressorCV(
        bank(), cv=splitter, penalty="l1", n_alphas=6, search={"alpha_min_ratio": 1e-2}, tol=1e-8
    ).fit(X, y)
    expected = [
        [
            -mean_squared_error(
                y[test], MKLRegressor(bank(), alpha=alpha, tol=1e-8).fit(X[train], y[train]).predict(X[test])
            )
            for train, test in splitter.split(X)
        ]
        for alpha in model.alphas_[1:]
    ]
    frame = model.cv_frame()
    np.testing.assert_allclose(frame[["score_0", "score_1", "score_2"]].to_numpy()[1:], expected, rtol=1e-5)
    np.testing.assert_allclose(frame["mean_score"][1:], np.mean(expected, axis=1), rtol=1e-5)
    assert model.best_index_ == 1 + int(np.argmax(np.mean(expected, axis=1)))
    assert model.alpha_ == model.alphas_[model.best_index_]
    plain = MKLRegressor(bank(), alpha=model.alpha_, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(model.predict(X), plain.predict(X), rtol=1e-4, atol=1e-4)
    assert model.n_folds_ == 3


def test_the_first_strength_is_the_first_useful_one() -> None:
    X, y = regression()
    model = MKLRegressorCV(bank(), cv=3, penalty="l1", n_alphas=5).fit(X, y)
    with pytest.warns(UserWarning, match="No kernel was selected"):
        MKLRegressor(bank(), alpha=model.alphas_[0] * (1 + 1e-6), tol=1e-9).fit(X, y)
    assert MKLRegressor(bank(), alpha=0.99 * model.alphas_[0], tol=1e-9).fit(X, y).kernel_weights_.any()


def test_a_second_parameter_is_chosen_too() -> None:
    X, y = regression()
    ratios = [0.2, 0.9]
    model = MKLRegressorCV(bank(), penalty="elasticnet", cv=3, n_alphas=5, l1_ratios=ratios).fit(X, y)
    frame = model.cv_frame()
    best = frame.loc[frame["mean_score"].idxmax()]
    assert frame["l1_ratio"].tolist() == list(np.repeat(ratios, 5))
    assert model.l1_ratio_ == best["l1_ratio"]
    assert model.alpha_ == best["alpha"]
    assert model.alphas_.shape == (2, 5)
    plain = MKLRegressor(bank(), penalty="elasticnet", alpha=model.alpha_, l1_ratio=model.l1_ratio_).fit(X, y)
    np.testing.assert_allclose(model.kernel_weights_, plain.kernel_weights_, rtol=1e-9)


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore:The best strength:UserWarning")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_are_scored_on_held_out_samples(n_classes: int) -> None:
    X, y = classification(n_classes=n_classes)
    splitter = StratifiedKFold(3)
    model = MKLClassifierCV(bank(), cv=3, alphas=[0.004, 0.001, 0.002], tol=1e-7, scoring="accuracy").fit(X, y)
    expected = [
        np.mean(
            [
                accuracy_score(
                    y[test], MKLClassifier(bank(), alpha=a, tol=1e-7).fit(X[train], y[train]).predict(X[test])
                )
                for train, test in splitter.split(X, y)
            ]
        )
        for a in (0.004, 0.002, 0.001)
    ]
    np.testing.assert_allclose(model.cv_frame()["mean_score"], expected, rtol=1e-12)
    assert set(model.classes_) == set(y)
    assert model.score(X, y) > 0.6


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore:The best strength:UserWarning", "ignore:No kernel was:UserWarning")
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_untold_the_score_is_the_loss_that_is_minimized(loss: str, n_classes: int) -> None:
    X, y = classification(n_classes=n_classes)
    weight = np.random.default_rng(2).uniform(0.5, 2.0, len(y))
    model = MKLClassifierCV(bank(), loss=loss, cv=3, alphas=[0.006, 0.004], tol=1e-7).fit(X, y, sample_weight=weight)
    train, test = next(StratifiedKFold(3).split(X, y))
    plain = MKLClassifier(bank(), loss=loss, alpha=0.004, tol=1e-7).fit(X[train], y[train], weight[train])
    scores = plain.decision_function(X[test]).reshape(len(test), -1)
    signs = np.where(y[test][:, None] == (plain.classes_ if n_classes > 2 else plain.classes_[1:]), 1.0, -1.0)
    if loss == "logistic":
        expected = -np.average(np.logaddexp(0.0, -signs * scores).sum(axis=1), weights=weight[test])
    else:  # margins are scored by the logistic curve through them
        expected = -sum(calibrated_loss(y, z, weight[test]) for y, z in zip(signs.T, scores.T, strict=True))
    np.testing.assert_allclose(model.cv_frame()["score_0"][1], expected, rtol=1e-3)


def test_margins_that_order_rows_and_give_all_one_label_are_not_chosen() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 3))
    y = X[:, 0] + 0.8 * rng.normal(size=240) > 0.1
    # At the first strength margins are all close to one: they have one sign, and the same order as at the second.
    given = {"loss": "hinge", "penalty": "ridge", "alphas": [30.0, 0.03]}
    with pytest.warns(UserWarning, match="alpha=0.03, is the smallest of the grid"):
        model = MKLClassifierCV(KernelBank.per_feature(Gaussian(2.0)), **given).fit(X[:120], y[:120])
    assert model.alpha_ == 0.03
    assert model.score(X[120:], y[120:]) > 0.7


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", [{}, {"penalty": "l1", "n_alphas": 4}, {"penalty": "ridge"}])
def test_where_no_kernel_predicts_better_the_model_is_a_constant(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    X, noise = rng.normal(size=(80, 4)), rng.normal(size=80)
    with pytest.warns(UserWarning, match="no kernel predicts better than a constant in 5 folds"):
        model = MKLRegressorCV(bank(), **options).fit(X, noise)
    assert not model.kernel_weights_.any()
    np.testing.assert_allclose(model.predict(X), noise.mean(), rtol=1e-9)
    labels = rng.permutation(80) < 9
    with pytest.warns(UserWarning, match="no kernel predicts better than a constant in 5 folds"):
        classifier = MKLClassifierCV(bank(), **options).fit(X, labels)
    np.testing.assert_allclose(classifier.predict_proba(X)[:, 1], 9 / 80, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:The best strength:UserWarning")
def test_given_strengths_that_predict_no_better_than_a_constant_are_said() -> None:
    rng = np.random.default_rng(1)
    with pytest.warns(UserWarning, match="No kernel predicts better than a constant in 3 folds, at any of the given"):
        model = MKLRegressorCV(bank(), alphas=[1e-3, 1e-4, 1e-2], cv=3).fit(
            rng.normal(size=(60, 3)), rng.normal(size=60)
        )
    assert model.kernel_weights_.any()


def test_probabilities_can_be_scored() -> None:
    X, y = classification()
    model = MKLClassifierCV(
        bank(), cv=3, penalty="l1", n_alphas=6, search={"alpha_min_ratio": 0.05}, scoring="neg_log_loss"
    ).fit(X, y)
    assert -np.log(2) < model.best_score_ < 0
    assert model.predict_proba(X).shape == (90, 2)


@pytest.mark.filterwarnings("ignore:The best strength:UserWarning")
def test_class_weights_count_in_the_choice() -> None:
    X, y = classification()
    given = {"red": 20.0, "green": 1.0}
    model = MKLClassifierCV(bank(), cv=3, alphas=[0.001, 0.0003], class_weight=given).fit(X, y)
    train, test = next(StratifiedKFold(3).split(X, y))
    plain = MKLClassifier(bank(), alpha=0.001, class_weight=given).fit(X[train], y[train])
    weight = np.array([given[label] for label in y[test]])
    signs = np.where(y[test] == plain.classes_[1], 1.0, -1.0)
    losses = np.logaddexp(0.0, -signs * plain.decision_function(X[test]))
    np.testing.assert_allclose(model.cv_frame()["score_0"][0], -np.average(losses, weights=weight), rtol=1e-2)


@pytest.mark.filterwarnings("ignore:The best strength:UserWarning")
def test_hold_out_and_grouped_splits() -> None:
    X, y = regression()
    once = MKLRegressorCV(bank(), cv=ShuffleSplit(1, test_size=0.3, random_state=0), penalty="l1", n_alphas=5).fit(X, y)
    assert once.n_folds_ == 1
    groups = np.arange(60) // 10
    grouped = MKLRegressorCV(bank(), cv=GroupKFold(3), penalty="l1", n_alphas=5).fit(X, y, groups=groups)
    assert grouped.n_folds_ == 3


@pytest.mark.filterwarnings("ignore:No kernel was selected:UserWarning")  # three folds of 60 rows are little evidence
def test_precomputed_kernels_are_sliced_on_both_sides() -> None:
    X, y = regression()
    kernels = np.stack([np.exp(-((X[:, None, j] - X[:, j]) ** 2) / 2) for j in range(3)])
    columns = KernelBank([(f"x{j}", Gaussian(1.0), [j]) for j in range(3)], normalize=None)
    # From a gap of 1e-4 on folds of kernels that are given are rounded to single precision: models differ within it.
    for fold_tol, rtol in ((1e-6, 1e-6), (None, 1e-2)):
        settings: dict[str, Any] = {"cv": 3, "penalty": "l1", "n_alphas": 5, "search": {"fold_tol": fold_tol}}
        plain = MKLRegressorCV(columns, **settings).fit(X, y)
        for given in (KernelStack(kernels), kernels):
            model = MKLRegressorCV("precomputed", **settings).fit(given, y)
            pd.testing.assert_frame_equal(model.cv_frame(), plain.cv_frame(), rtol=rtol)


def test_several_targets_and_sample_weights() -> None:
    X, y = regression()
    both = np.column_stack([y, X[:, 0] ** 2])
    weight = np.where(np.arange(60) % 7 == 0, 0.0, 1.0)
    model = MKLRegressorCV(bank(), cv=KFold(3), penalty="l1", n_alphas=5).fit(X, both, sample_weight=weight)
    assert model.predict(X).shape == (60, 2)
    assert model.kernel_weights_.shape == (2, 6)
    assert not set(model.support_) & set(np.flatnonzero(weight == 0))
    train, test = next(KFold(3).split(X))
    alpha = model.alphas_[2]
    plain = MKLRegressor(bank(), alpha=alpha).fit(X[train], both[train], sample_weight=weight[train])
    error = mean_squared_error(both[test], plain.predict(X[test]), sample_weight=weight[test])
    np.testing.assert_allclose(model.cv_frame()["score_0"][2], -error, rtol=1e-3)


@pytest.mark.filterwarnings("ignore:[Nn]o kernel:UserWarning")
def test_the_edge_of_the_grid_is_reported() -> None:
    X, y = regression()
    with pytest.warns(UserWarning, match=r"is the smallest of the grid\. The best one may lie beyond it: .* smaller"):
        MKLRegressorCV(bank(), cv=3, alphas=[0.02, 0.015]).fit(X, y)
    with pytest.warns(UserWarning, match=r"is the largest of the grid\. The best one may lie beyond it: .* larger"):
        MKLRegressorCV(bank(), cv=3, alphas=[1e-4, 5e-5], tol=1e-2).fit(X, y)
    noise = np.random.default_rng(0).normal(size=60)
    with pytest.warns(UserWarning, match="no kernel predicts better than a constant in 3 folds"):
        MKLRegressorCV(bank(), cv=3, penalty="l1", n_alphas=4).fit(X, noise)


def test_unfinished_folds_are_reported_once() -> None:
    X, y = regression()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        given = {"solver": "interior_point", "resources": {"max_iter": 1}, "tol": 1e-9}
        MKLRegressorCV(bank(), cv=3, alphas=[0.03, 0.01, 0.003], **given).fit(X, y)
    told = [str(warning.message) for warning in caught if warning.category is ConvergenceWarning]
    assert sum("models of the folds stopped short of tol=1e-09: raise" in text for text in told) == 1


@pytest.mark.nightly
def test_the_strength_of_a_penalty_object_is_chosen_like_that_of_its_name() -> None:
    X, y = regression()
    named, given = (MKLRegressorCV(bank(), penalty=penalty, cv=3).fit(X, y) for penalty in ("l1", BlockL1(0.1)))
    np.testing.assert_array_equal(given.alphas_, named.alphas_)
    np.testing.assert_array_equal(given.kernel_weights_, named.kernel_weights_)


def test_a_penalty_that_never_vanishes_needs_strengths() -> None:
    X, y = regression()
    with pytest.raises(InvalidInputError, match="every kernel has a weight at any strength"):
        MKLRegressorCV(bank(), penalty="lq").fit(X, y)


def test_a_dense_penalty_is_chosen_from_given_strengths() -> None:
    X, y = regression()
    model = MKLRegressorCV(bank(), penalty="lq", q=1.25, alphas=np.geomspace(1e-1, 1e-4, 4), cv=3).fit(X, y)
    assert (model.kernel_weights_ > 0).all()
    assert model.l1_ratio_ is None


def test_clones_and_refits_start_afresh() -> None:
    X, y = regression()
    model = MKLRegressorCV(bank(), cv=3, penalty="l1", n_alphas=5)
    first = model.fit(X, y).predict(X)
    np.testing.assert_array_equal(clone(model).fit(X, y).predict(X), first)
    np.testing.assert_array_equal(model.fit(X, y).predict(X), first)
    assert "alpha" not in model.get_params()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", [MKLRegressorCV, MKLClassifierCV])
@pytest.mark.parametrize("settings", [{}, {"penalty": "l1", "n_alphas": 4}])
def test_folds_without_weight_are_left_out_in_words(
    kind: Any, settings: dict[str, Any], rng: np.random.Generator
) -> None:
    X = rng.uniform(-2, 2, size=(60, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=60)
    y = y if kind is MKLRegressorCV else y > 0
    held_out_absent, training_absent = np.ones(60), np.zeros(60)
    held_out_absent[:20], training_absent[:20] = 0.0, 1.0
    with pytest.warns(UserWarning, match="1 of 3 folds have no samples of positive weight"):
        model = kind(cv=KFold(3), **settings).fit(X, y, sample_weight=held_out_absent)
    assert model.n_folds_ == 2
    assert np.isfinite(model.best_score_)
    with pytest.raises(InvalidInputError, match="All 3 folds have no samples of positive weight"):
        kind(cv=KFold(3), **settings).fit(X, y, sample_weight=training_absent)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", [MKLRegressorCV, MKLClassifierCV])
def test_folds_are_held_as_the_whole_where_averages_decide(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices are worth more to a search than to a fit; folds asked for factors where all rows had matrices."""
    monkeypatch.setattr("manykernels.grams.plan.NOTICED", 0.0)  # of a fit, so that factors pay at few rows
    monkeypatch.setattr("manykernels.grams.plan.CLEARLY", 0.0)
    X, y = regression(90)
    bank = KernelBank.auto()
    X = X[:, [1]]
    plans = [
        plan_for(bank, X, representation="auto", memory_budget="1 GB", form=ProblemForm(averages=averages))
        for averages in (False, True)
    ]
    assert [plan is not None and plan.kind == "factored" for plan in plans] == [True, False]
    model = kind(bank, cv=3).fit(X, y if kind is MKLRegressorCV else y > 0)
    assert np.isfinite(model.best_score_)
    assert model.representation_ == "gram"


def test_kernels_of_copies_of_few_rows_are_averaged_all_the_same() -> None:
    """What a kernel does not see of a system grew there, overflowed, and was taken for an entry that is not finite."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 3)) * [10.0, 1.4, 1.0]
    classes = np.digitize(X[:, 0] / 10, [-0.3, 0.4])
    X, classes = np.tile(X, (4, 1)), np.tile(classes, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MKLClassifierCV(cv=3).fit(X, classes)
    assert np.isfinite(model.best_score_)
