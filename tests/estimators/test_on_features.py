"""Averages on landmark features: the optimum of the ridge problem, in searches too, and what they read of new rows."""

from typing import Any

import numpy as np
import pytest

from manykernels import KernelBank, Landmarks, Linear, MKLClassifierCV, MKLRegressor, MKLRegressorCV
from manykernels.estimators.selection.averages import fit_averages
from manykernels.estimators.selection.folds import OpenedKernels
from manykernels.estimators.selection.on_features import features_of, fit_of, read_as, scores_of, stands_as_features
from manykernels.estimators.selection.search import Rung
from manykernels.grams.training import open_training
from manykernels.kernels import Gaussian
from manykernels.objective import Problem, get_loss
from manykernels.objective.regularizers import Ridge
from manykernels.solvers.factored.solver import FactoredNewton

rng = np.random.default_rng(0)
X = rng.normal(size=(160, 3))
Y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=160)
JOINT = KernelBank.joint([Landmarks(Gaussian(1.0), 20), Landmarks(Gaussian(2.0), 15), Linear()], standardize=True)
ALONE = KernelBank.per_feature(Gaussian(1.0), standardize=True)
ON_FACTORS: dict[str, Any] = {"representation": "factored"}


def opened(bank: KernelBank) -> Any:
    return open_training(bank, X, memory_budget=None, n_jobs=None, representation="factored")


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("intercept", [True, False])
def test_averages_on_features_are_the_optimum(loss: str, intercept: bool) -> None:
    training, strength = opened(JOINT), 0.7
    y = Y if loss == "squared" else np.sign(Y)
    problem = Problem(training.stack, y, get_loss(loss), Ridge(strength), fit_intercept=intercept)
    kernels, weights = np.arange(3), np.array([1.0, 0.5, 2.0])
    posed = Problem(
        training.stack, y, get_loss(loss), Ridge(strength), fit_intercept=intercept, kernel_penalties=weights**-0.5
    )
    kernel = features_of(training.stack, kernels, weights, read_as(training, X), centered=intercept)
    models = fit_averages(kernel, [problem.loss], y[:, None], problem.weight, np.array([strength]), tol=1e-12)
    exact = FactoredNewton(tol=1e-9).solve(posed)
    found = scores_of(training, read_as(training, X), [exact])[:, 0] + exact.intercept
    np.testing.assert_allclose(models.fitted[:, 0], found, atol=1e-4)
    np.testing.assert_allclose(models.new_scores, models.fitted, atol=1e-9)
    models.__dict__["weights"] = weights
    (own,) = fit_of([problem], models.drop_kernel()).solutions
    told = scores_of(training, read_as(training, X), [own])[:, 0] + own.intercept
    np.testing.assert_allclose(told, models.fitted[:, 0], atol=1e-8)


def test_kernels_of_single_columns_stand_as_no_features() -> None:
    assert stands_as_features(opened(JOINT), np.arange(3))
    assert not stands_as_features(opened(ALONE + JOINT), np.arange(4))
    assert not stands_as_features(opened(ALONE), np.arange(3))


def test_searches_on_landmarks_try_averages_and_certify_what_they_choose() -> None:
    model = MKLRegressorCV(ALONE + JOINT, cv=3, resources=ON_FACTORS, random_state=0).fit(X, Y)
    assert {0.0, 1.0} >= set(model.cv_results_["mixing"]) >= {0.0}
    assert model.mixing_ == 0.0  # a product of two columns, which no sum of single ones is
    assert model.dual_gap_ <= model.tol
    assert not model.kernel_weights_[:3].any()
    plain = MKLRegressor(JOINT, penalty="ridge", alpha=model.alpha_, resources=ON_FACTORS).fit(X, Y)
    if model.kernel_weights_[3:].all():
        np.testing.assert_allclose(model.predict(X), plain.predict(X), atol=0.02)


def test_classes_and_scorers_search_on_landmarks_too() -> None:
    labels = np.digitize(Y, [-0.3, 0.3])
    model = MKLClassifierCV(JOINT, cv=3, resources=ON_FACTORS, scoring="accuracy").fit(X, labels)
    assert model.representation_ == "factored"
    assert set(np.ravel(model.mixing_)) <= {0.0, 1.0}
    assert model.score(X, labels) > 0.6
    assert np.max(model.dual_gap_) <= model.tol


def test_plans_of_searches_count_the_landmark_features_of_every_fold() -> None:
    few, many = (
        MKLRegressorCV(KernelBank.joint(Landmarks(Gaussian(1.0), count)), resources=ON_FACTORS).plan(X, Y)
        for count in (20, 80)
    )
    assert many.least_nbytes - few.least_nbytes >= 8 * 5 * 128 * 60


def test_features_of_folds_in_single_precision_say_the_same() -> None:
    exact, rounded = (
        open_training(JOINT, X, memory_budget=None, n_jobs=None, representation="factored", rounded=rounded)
        for rounded in (False, True)
    )
    kept: Any = rounded.stack.table
    rho = rng.normal(size=(len(X), 2))
    np.testing.assert_allclose(rounded.stack.quad(rho[:, 0]), exact.stack.quad(rho[:, 0]), rtol=1e-5)
    assert {held.dtype for _, held in kept._kept.values()} == {np.dtype(np.float32)}
    for one, other in zip(rounded.stack.operators([0, 1], 1e-3), exact.stack.operators([0, 1], 1e-3), strict=True):
        np.testing.assert_allclose(one.adjoint(rho), other.adjoint(rho), atol=1e-4)
        v, scores = rng.normal(size=int(one.starts[-1])), np.zeros((2, len(X)))
        for operator, out in zip((one, other), scores, strict=True):
            operator.add_scores(v, out)
        np.testing.assert_allclose(*scores, atol=1e-4)
        assert one.adjoint(rho).dtype == one.rows(slice(5)).dtype == np.float64
    found = [
        FactoredNewton(tol=1e-3).solve(Problem(own.stack, Y, get_loss("squared"), Ridge(0.7)))
        for own in (rounded, exact)
    ]
    told = [scores_of(own, read_as(own, X), [one])[:, 0] for own, one in zip((rounded, exact), found, strict=True)]
    np.testing.assert_allclose(*told, atol=2e-2)
    kept.let_go()
    assert not kept._kept
    np.testing.assert_allclose(rounded.stack.quad(rho[:, 1]), exact.stack.quad(rho[:, 1]), rtol=1e-5)


@pytest.mark.parametrize("resources", [ON_FACTORS, {}])
def test_folds_that_take_turns_sum_kernels_once_a_turn(
    resources: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, sums = [0], []
    each, summed = Rung._each, OpenedKernels._sum_of

    def turn(self: Rung, *given: Any) -> Any:
        turns[0] += 1
        return each(self, *given)

    def record(self: OpenedKernels, *given: Any) -> Any:
        sums.append((turns[0], id(self)))
        return summed(self, *given)

    monkeypatch.setattr(Rung, "_each", turn)
    monkeypatch.setattr(OpenedKernels, "_sum_of", record)
    monkeypatch.setattr(OpenedKernels, "room", 0)
    MKLRegressorCV(JOINT, cv=3, resources=resources, random_state=0).fit(X, Y)
    assert len(sums) > 6
    assert len(sums) == len(set(sums))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("unit", [1e42, 1e-20, 1e-44])  # beyond the range of single precision, or of its squares
@pytest.mark.parametrize("bank", [None, ALONE + JOINT])
def test_searches_take_targets_in_any_unit(unit: float, bank: KernelBank | None) -> None:
    def search(y: Any) -> Any:
        resources = None if bank is None else ON_FACTORS
        model = MKLRegressorCV(bank, cv=3, random_state=0, resources=resources)
        return model.fit(X, y).score(X, y)

    known = search(Y)
    assert known > 0.4
    assert search(unit * Y) > known - 0.05
