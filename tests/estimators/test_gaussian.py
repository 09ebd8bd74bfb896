"""GaussianMKL: scikit-learn's contract, models recomputed by hand, parameters and errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from manykernels import Gaussian, GaussianMKL
from manykernels.discovery import DirichletFamily, Discovery, Found, KernelFamily, LaplacianFamily
from manykernels.discovery.families.stationary import resolved_widths
from manykernels.discovery.one_stage.discovery import UPDATES
from manykernels.estimators.searches.base import map_to_bank
from manykernels.exceptions import ConvergenceWarning, InvalidInputError
from manykernels.kernels.specs.distances import median_distance

BY_ROWS = {"check_sample_weight_equivalence_on_dense_data": "columns and the default strength count rows, not weights"}


def drawn_task() -> tuple[np.ndarray, np.ndarray]:
    """Return rows of different scales and numbers of which the second column knows most."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 1.0]
    return X, np.sin(0.3 * X[:, 1]) + 0.5 * X[:, 0] + 0.1 * rng.normal(size=60)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:No kernel was selected")
@parametrize_with_checks(
    [
        GaussianMKL("logistic", resources={"max_iter": 2}, tol=0.1),
        GaussianMKL("hinge", stages=2, resources={"max_iter": 1}),
        GaussianMKL(search="sampling", resources={"max_iter": 1}, random_state=0),
    ],
    expected_failed_checks=lambda estimator: BY_ROWS,
)
def test_scikit_learn_contract_of_variants(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("per_feature", [False, True])
def test_predictions_are_the_sum_of_the_kernels_found(per_feature: bool) -> None:
    X, y = drawn_task()
    model = GaussianMKL(alpha=1e-2, per_feature=per_feature, random_state=0, tol=1e-2).fit(X, y)
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    new = X[:7] + 0.1
    train, test = (X - mean) / deviation, (new - mean) / deviation
    expected = model.intercept_ + sum(
        d * spec(test, train[model.support_]) @ model.dual_coef_
        for d, spec in zip(model.kernel_weights_, model.found_, strict=True)
    )
    np.testing.assert_allclose(model.predict(new), expected, rtol=1e-9)
    np.testing.assert_allclose(model.decompose(new).sum(axis=0) + model.intercept_, expected, rtol=1e-9)
    assert model.dual_gap_ <= 1e-2
    assert len(model.weights_frame()) == len(model.found_)


def test_one_width_a_feature_finds_which_column_matters() -> None:
    X, _ = drawn_task()
    y = np.sin(0.3 * X[:, 1])
    model = GaussianMKL(alpha=1e-3, per_feature=True, random_state=0, tol=1e-2).fit(X, y)
    widths = np.array(model.found_[int(np.argmax(model.kernel_weights_))].widths)
    assert np.argmin(widths) == 1
    assert model.score(X, y) > 0.95


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "logistic"},
        {"loss": "hinge", "update": "pairwise", "tol": 5e-2},
        {"loss": "hinge", "stages": 2, "criterion": "distance"},
        {"loss": "hinge", "search": "sampling", "resources": {"max_iter": 30}, "tol": 0.5},
        {"loss": "logistic", "family": LaplacianFamily(0.1, 10.0)},
    ],
)
def test_classes(settings: dict[str, Any]) -> None:
    X, y = drawn_task()
    labels = np.where(y > np.median(y), "high", "low")
    model = GaussianMKL(alpha=1e-3, random_state=0, **settings).fit(X, labels)
    assert is_classifier(model)
    assert not is_regressor(model)
    assert model.classes_.tolist() == ["high", "low"]
    assert model.score(X, labels) > 0.85
    assert model.decision_function(X).shape == (60,)


def test_several_classes_and_several_targets() -> None:
    X, y = drawn_task()
    labels = np.digitize(y, [-0.5, 0.5])
    model = GaussianMKL("logistic", alpha=1e-2, tol=1e-2).fit(X, labels)
    assert model.predict_proba(X).shape == (60, 3)
    assert model.kernel_weights_.shape == (3, len(model.kernel_names_))
    both = GaussianMKL(alpha=1e-2, tol=1e-2).fit(X, np.column_stack([y, -2 * y]))
    assert both.predict(X).shape == (60, 2)


def test_weights_are_repetitions_on_columns_as_they_are() -> None:
    X, y = drawn_task()
    X, weight = X / [1.0, 10.0, 0.1], np.arange(60) % 3
    settings = {"alpha": 1e-2, "standardize": False, "tol": 1e-6}
    weighted = GaussianMKL(**settings).fit(X, y, sample_weight=weight)
    repeated = GaussianMKL(**settings).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=2e-3)
    primal = [model.solution_.certificate.primal for model in (weighted, repeated)]
    assert primal[0] == pytest.approx(primal[1], rel=2e-6)


@pytest.mark.sampled(4)
@pytest.mark.filterwarnings("ignore::manykernels.ConvergenceWarning")
@pytest.mark.parametrize("family", [None, DirichletFamily(0.0, 8.0)])
@pytest.mark.parametrize("update", UPDATES)
def test_the_model_that_predicts_is_the_one_certified(update: str, family: KernelFamily | None) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 2))
    y = np.where(np.sin(3 * X[:, 0]) + 0.5 * X[:, 1] > 0, 1.0, -1.0)
    model = GaussianMKL(alpha=1e-3, update=update, family=family, resources={"max_iter": 15}, random_state=0).fit(X, y)
    strength = 1e-3 * len(y)
    primal = np.sum((y - model.predict(X)) ** 2) / 2 + strength / 2 * model.kernel_norms_.sum() ** 2
    assert model.solution_.certificate.primal == pytest.approx(primal, rel=1e-9)
    assert model.kernel_weights_.sum() == pytest.approx(1 / strength, rel=1e-2)
    assert len(set(model.kernel_names_)) == len(model.kernel_names_) == len(model.found_)


def test_weights_of_a_kernel_found_twice_add_up() -> None:
    X, y = drawn_task()
    solution = GaussianMKL(alpha=1e-2).fit(X, y).solution_
    kernel = Found("gaussian", Gaussian(1.0), (0, 1, 2))
    twice = Discovery((kernel, kernel), replace(solution, kernel_weights=np.array([0.25, 0.5])))
    assert map_to_bank(twice, [kernel], 1).kernel_weights.tolist() == [0.75]


def test_tables() -> None:
    X, y = drawn_task()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = GaussianMKL(alpha=1e-2).fit(frame, y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert all(isinstance(spec, Gaussian) for spec in model.found_)
    assert clone(model).get_params()["alpha"] == 1e-2


def test_a_search_that_is_cut_short_says_so() -> None:
    X, y = drawn_task()
    with pytest.warns(ConvergenceWarning, match=r"greedy search \(frank_wolfe\) stopped \(max_iter\)"):
        GaussianMKL(update="frank_wolfe", resources={"max_iter": 2}, tol=1e-6, width_range=(0.05, 50.0)).fit(X, y)


def test_a_first_stage_that_is_cut_short_says_so() -> None:
    X, y = drawn_task()
    with pytest.warns(ConvergenceWarning, match=r"The first stage stopped \(max_iter\) after 1 kernels"):
        GaussianMKL(stages=2, resources={"max_iter": 1}).fit(X, y)


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_two_stages_without_a_kernel_say_so(loss: str) -> None:
    _, y = drawn_task()
    target = np.full(60, 2.5) if loss == "squared" else y > 0
    X = drawn_task()[0] if loss == "squared" else np.ones((60, 2))
    with pytest.warns(UserWarning, match="No kernel was selected: no kernel of the family has a positive centered"):
        model = GaussianMKL(loss, stages=2).fit(X, target)
    assert not model.found_
    assert not model.kernel_weights_.any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"search": "random"}, "search must be one of 'greedy', 'sampling'"),
        ({"update": "all"}, "update must be one of"),
        ({"criterion": "angle"}, "criterion must be one of"),
        ({"stages": 3}, "stages must be 1 or 2"),
        ({"stages": 2, "search": "sampling"}, "Sampling learns in one stage"),
        ({"width_range": (1.0,)}, "width_range needs a range"),
        ({"width_range": (2.0, 1.0)}, "low < high"),
        ({"width_range": "wide"}, "width_range must be one of 'auto'"),
        ({"family": "laplacian"}, "family must be None"),
        ({"family": LaplacianFamily(0.1, 1.0), "per_feature": True}, "per_feature=True is for Gaussian kernels"),
        ({"shrinkage": 1.0}, "needs stages=2"),
        ({"n_starts": 0}, "n_starts must be an integer"),
        ({"resources": {"max_iter": 0}}, "max_iter must be an integer"),
        ({"loss": "huber"}, "GaussianMKL has no loss 'huber'"),
        ({"alpha": -1.0}, "alpha"),
        ({"family": LaplacianFamily(0.1, 1.0), "search": "sampling"}, "Widths are drawn for GaussianFamily"),
    ],
)
def test_errors(settings: dict[str, Any], message: str) -> None:
    X, y = drawn_task()
    with pytest.raises(InvalidInputError, match=message):
        GaussianMKL(**settings).fit(X, y)


def test_the_interval_by_default_follows_the_points_and_not_their_copies() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(200, 8))
    low, high = resolved_widths(points)
    assert low == pytest.approx(0.5 * median_distance(points))  # eight columns: 200^(-1/8) is above a half
    assert high == pytest.approx(40.0 * low)
    np.testing.assert_allclose(resolved_widths(np.repeat(points, 3, axis=0)), (low, high))
    np.testing.assert_allclose(resolved_widths(1e3 * points), (1e3 * low, 1e3 * high))
    single = np.sort(rng.normal(size=(400, 1)), axis=0)
    assert resolved_widths(single)[0] == pytest.approx(0.05 * median_distance(single))
    assert resolved_widths(np.zeros((5, 2))) == (0.5, 20.0)  # one point: nothing to tell apart


@pytest.mark.nightly
def test_noise_in_many_columns_is_not_fitted_by_narrow_kernels() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 8))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=300)
    train, test = slice(150), slice(150, None)
    open_, narrow = (
        GaussianMKL(width_range=interval).fit(X[train], y[train]).score(X[test], y[test])
        for interval in ("auto", (0.05, 50.0))
    )
    assert open_ > narrow + 0.03
