"""Estimators among people and other estimators: tables, labels, pipelines, searches, warnings, interrupts."""

from __future__ import annotations

import pickle
import signal
import threading
import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics import make_scorer, r2_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import ConvergenceWarning, Gaussian, KernelBank, Linear, MKLClassifier, MKLRegressor
from manykernels.objective.regularizers import ElasticNet
from manykernels.solvers import InteriorPoint, WorkingSet


def test_a_table_with_text_columns_and_text_labels(data: Any) -> None:
    frame = data.frame.assign(site=np.where(data.X[:, 2] > 0, "left", "right"))
    bank = KernelBank([("near", Gaussian("median"), ["a", "b"]), ("line", Linear(), ["c"])], standardize=True)
    model = MKLClassifier(bank, alpha=0.001).fit(frame, pd.Series(data.labels, dtype="category"))
    assert list(model.feature_names_in_) == ["a", "b", "c", "site"]
    assert set(model.predict(frame)) == {"no", "yes"}
    plain = MKLClassifier(KernelBank([("near", Gaussian("median"), [0, 1]), ("line", Linear(), [2])], standardize=True))
    plain.set_params(alpha=0.001).fit(data.X, data.labels)
    np.testing.assert_allclose(model.decision_function(frame), plain.decision_function(data.X), atol=1e-12)
    assert not hasattr(plain, "feature_names_in_")


@pytest.mark.parametrize("values", [(False, True), (-3, 7), ("b", "a"), (1.0, 2.0)], ids=str)
@pytest.mark.parametrize("as_list", [True, False])
def test_labels_of_any_type_come_back(data: Any, values: tuple[Any, Any], as_list: bool) -> None:
    y = [values[int(label == "yes")] for label in data.labels]
    y = y if as_list else np.array(y)
    model = MKLClassifier().fit(data.X, y)
    np.testing.assert_array_equal(np.unique(model.predict(data.X)), model.classes_)
    assert model.score(data.X, y) > 0.9


def test_shapes_of_two_and_of_three_classes(data: Any) -> None:
    two = MKLClassifier().fit(data.X, data.labels)
    assert two.kernel_weights_.shape == two.kernel_norms_.shape == (16,)
    assert two.dual_coef_.shape == two.support_.shape
    assert isinstance(two.intercept_, float)
    assert two.decision_function(data.X).shape == (60,)
    X, species = load_iris(return_X_y=True)
    three = MKLClassifier().fit(X, species)
    assert three.kernel_weights_.shape == (3, 20)
    assert three.dual_coef_.shape == (3, len(three.support_))
    assert three.intercept_.shape == (3,)
    assert len(three.solution_) == 3
    assert three.dual_gap_ == max(found.certificate.relative_gap for found in three.solution_)
    probabilities = three.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    shares = 1 / (1 + np.exp(-three.decision_function(X)))
    np.testing.assert_allclose(probabilities, shares / shares.sum(axis=1, keepdims=True))


def test_each_output_is_fitted_as_if_alone(data: Any) -> None:
    targets = np.column_stack([data.y, 3 * data.X[:, 2], -data.y])
    model = MKLRegressor(alpha=0.02, resources={"n_jobs": 2}).fit(data.X, targets)
    alone = [MKLRegressor(alpha=0.02).fit(data.X, target) for target in targets.T]
    for k, single in enumerate(alone):
        np.testing.assert_allclose(model.predict(data.X)[:, k], single.predict(data.X), atol=1e-10)
        np.testing.assert_array_equal(model.kernel_weights_[k], single.kernel_weights_)
        assert model.solution_[k].passes == single.solution_.passes
    assert MKLRegressor().fit(data.X, targets[:, :1]).predict(data.X).shape == (60, 1)


def test_threads_change_nothing() -> None:
    X, species = load_iris(return_X_y=True)
    one, two = (MKLClassifier(resources={"n_jobs": n_jobs}).fit(X, species) for n_jobs in (None, 2))
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


def test_clone_pickle_and_parameters(data: Any) -> None:
    model = MKLClassifier(KernelBank.simplemkl(), alpha=0.003, solver=WorkingSet(tol=1e-3)).fit(data.X, data.labels)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(data.X), model.decision_function(data.X))
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError, match="not fitted yet"):
        copy.predict(data.X)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        copy.weights_frame()


def test_search_over_strengths_and_banks(data: Any) -> None:
    banks = [
        KernelBank.joint([Linear()], standardize=True),
        KernelBank.per_feature(widths=["median"], standardize=True),
    ]
    grid = {"alpha": [0.001, 0.003], "kernels": [*banks, None]}
    search = GridSearchCV(MKLClassifier(), grid, cv=3).fit(data.frame, data.labels)
    assert search.best_score_ > 0.8
    assert len(search.cv_results_["params"]) == 6


def test_pipeline_and_inner_standardization_agree(data: Any) -> None:
    X = 1e3 * data.X + 5e4
    inside = MKLRegressor(KernelBank.joint([Linear()], widths=["median"], standardize=True), alpha=0.003).fit(X, data.y)
    outside = make_pipeline(
        StandardScaler(), MKLRegressor(KernelBank.joint([Linear()], widths=["median"]), alpha=0.003)
    ).fit(X, data.y)
    np.testing.assert_allclose(outside.predict(X), inside.predict(X), atol=1e-6)


def test_sample_weights_are_routed(data: Any) -> None:
    weight = np.where(np.arange(60) % 3, 1.0, 0.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = MKLRegressor(alpha=0.02).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        scorer = make_scorer(r2_score).set_score_request(sample_weight=False)
        settings = {"cv": 3, "scoring": scorer}
        routed = cross_validate(pipeline, data.X, data.y, params={"sample_weight": weight}, **settings)["test_score"]
        plain = cross_validate(pipeline, data.X, data.y, **settings)["test_score"]
    assert (routed != plain).all()


def test_weights_frame_lists_the_heaviest_first(data: Any) -> None:
    model = MKLClassifier(KernelBank.per_feature(widths=[0.5, 2.0]), alpha=0.001).fit(data.frame, data.labels)
    frame, whole = model.weights_frame(), model.weights_frame(active_only=False)
    assert list(frame.columns) == ["name", "weight", "norm_share", "columns", "kernel", "above_noise", "norm"]
    assert frame["weight"].is_monotonic_decreasing
    assert (len(frame), len(whole)) == (np.count_nonzero(model.kernel_weights_), 6)
    np.testing.assert_allclose(frame["norm_share"].sum(), 1.0)
    np.testing.assert_array_equal(np.sort(whole["weight"]), np.sort(model.kernel_weights_))
    by_hand = np.sqrt(np.einsum("i,mij,j->m", rho := model.solution_.dual_coef, training_grams(model, data), rho))
    np.testing.assert_allclose(model.kernel_norms_, model.kernel_weights_ * by_hand, atol=1e-8)


def training_grams(model: Any, data: Any) -> Any:
    fitted = model.kernels.fit(data.frame)
    rows = fitted.prepare(data.frame)
    return fitted.block(rows, rows)


def test_weights_frame_of_several_classes_names_them() -> None:
    X, y = load_iris(return_X_y=True, as_frame=True)
    frame = MKLClassifier().fit(X, np.array(["s", "c", "v"])[y]).weights_frame()
    assert list(frame.columns[:2]) == ["class", "name"]
    assert set(frame["class"]) == {"s", "c", "v"}
    np.testing.assert_allclose(frame.groupby("class")["norm_share"].sum(), 1.0)


def test_probabilities_only_with_the_logistic_loss(data: Any) -> None:
    assert hasattr(MKLClassifier(), "predict_proba")
    model = MKLClassifier(loss="hinge").fit(data.X, data.labels)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba") as caught:
        _ = model.predict_proba
    assert "loss='logistic'" in str(caught.value.__cause__)


def test_objects_instead_of_names(data: Any) -> None:
    by_name = MKLRegressor(penalty="elasticnet", l1_ratio=0.8, alpha=0.01, solver="interior_point", tol=1e-6)
    objects = MKLRegressor(penalty=ElasticNet(0.6, l1_ratio=0.8), solver=InteriorPoint(tol=1e-6))
    expected = by_name.fit(data.X, data.y).predict(data.X)
    np.testing.assert_allclose(objects.fit(data.X, data.y).predict(data.X), expected, atol=1e-10)
    assert objects.solution_.solver == "interior_point"


def test_parameters_of_losses_reach_them(data: Any) -> None:
    wide, narrow = (
        MKLRegressor(loss="epsilon_insensitive", loss_parameters={"epsilon": epsilon}, alpha=0.01).fit(data.X, data.y)
        for epsilon in (1.0, 0.01)
    )
    assert len(wide.support_) < len(narrow.support_)
    steep = MKLRegressor(loss="huber", loss_parameters={"delta": 0.05}, alpha=0.001).fit(data.X, data.y)
    assert np.abs(steep.dual_coef_).max() <= 0.05 * (1 + 1e-9)


def test_an_unfinished_fit_warns_once_and_names_the_gap(data: Any) -> None:
    X, species = load_iris(return_X_y=True)
    with pytest.warns(
        ConvergenceWarning, match=r"duality gap .* above tol .* So did 2 more of the 3 problems"
    ) as caught:
        model = MKLClassifier(solver="interior_point", resources={"max_iter": 1}).fit(X, species)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert model.predict(X).shape == (150,)


def test_too_large_a_strength_says_from_where_on(data: Any) -> None:
    with pytest.warns(UserWarning, match=r"No kernel was selected: alpha=100 is not below alpha_max=") as caught:
        model = MKLClassifier(alpha=100).fit(data.X, data.labels)
    largest = float(str(caught[0].message).split("alpha_max=")[1].split(",")[0])
    np.testing.assert_allclose(model.predict_proba(data.X)[:, 1], (data.labels == "yes").mean(), atol=1e-3)
    assert MKLClassifier(alpha=0.99 * largest, tol=1e-8).fit(data.X, data.labels).kernel_weights_.any()


def test_constant_targets_need_no_kernel(data: Any) -> None:
    with pytest.warns(UserWarning, match="y has one value"):
        model = MKLRegressor().fit(data.X, np.full(60, 2.5))
    np.testing.assert_allclose(model.predict(data.X), 2.5, atol=1e-12)
    np.testing.assert_array_equal(model.decompose(data.X), np.zeros((16, 60)))


def interrupt_after_first(calls: list[int]) -> Any:
    def callback(record: Any) -> None:
        calls.append(record.iteration)
        if record.iteration == 1:
            raise KeyboardInterrupt

    return callback


def test_an_interrupt_leaves_a_fitted_model_and_stops_the_other_classes() -> None:
    X, species = load_iris(return_X_y=True)
    calls: list[int] = []
    solver = WorkingSet(tol=1e-12, callback=interrupt_after_first(calls))
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = MKLClassifier(solver=solver).fit(X, species)
    assert [found.status for found in model.solution_] == ["interrupted"] * 3
    assert calls == [0, 1]
    assert model.kernel_weights_[0].any()
    assert not model.kernel_weights_[1:].any()
    assert model.predict(X).shape == (150,)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="a signal must reach the main thread while it waits")
def test_an_interrupt_of_threads_leaves_a_fitted_model() -> None:
    X, species = load_iris(return_X_y=True)
    once, arrived = threading.Semaphore(1), threading.Event()

    def handler(number: int, frame: Any) -> None:
        arrived.set()
        raise KeyboardInterrupt

    def callback(record: Any) -> None:
        if record.iteration == 1 and once.acquire(blocking=False):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            assert arrived.wait(60)
            time.sleep(0.5)  # from the handler of the main thread to its next statement

    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.warns(ConvergenceWarning, match="interrupted"):
            model = MKLClassifier(solver=WorkingSet(tol=1e-12, callback=callback), resources={"n_jobs": 2}).fit(
                X, species
            )
    finally:
        signal.signal(signal.SIGINT, before)
    assert "interrupted" in {str(found.status) for found in model.solution_}
    assert model.predict(X).shape == (150,)


def test_fit_changes_neither_data_nor_parameters(data: Any) -> None:
    X, y, weight = data.X.copy(), data.y.copy(), np.linspace(0, 1, 60)
    before = X.copy(), y.copy(), weight.copy()
    model = MKLRegressor(penalty="elasticnet", alpha=0.02)
    parameters = dict(model.get_params())
    model.fit(X, y, sample_weight=weight).predict(X)
    for mine, kept in zip((X, y, weight), before, strict=True):
        np.testing.assert_array_equal(mine, kept)
    assert model.get_params() == parameters
