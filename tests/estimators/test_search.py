"""What all estimators that search for kernels share, seen with a search that always finds the same two kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_classifier, is_regressor

from manykernels import (
    ConvergenceWarning,
    Gaussian,
    GaussianMKL,
    HierarchicalMKL,
    InvalidInputError,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLRegressor,
    NonlinearMKL,
    PolynomialMKL,
)
from manykernels.discovery import Discovery, Found, Limits, SearchProblem, run_search
from manykernels.estimators.searches.base import BaseKernelSearch, unique_names
from manykernels.grams import DenseStack
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import get_regularizer
from manykernels.solvers import Solution, Status, solve

FOUND = (Found("first", Gaussian(1.0), (0,)), Found("line", Linear(), (1, 2)))


class TwoKernels(BaseKernelSearch):
    """Offers the zero model, then the exact model on two given kernels."""

    accuracy = 0.1  # of the exact model, times tol

    def __init__(
        self,
        *,
        loss: str = "squared",
        alpha: float = 0.01,
        standardize: bool = True,
        fit_intercept: bool = True,
        tol: float = 1e-6,
        max_iter: int = 5,
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.standardize = standardize
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter

    def _search(self, posed: SearchProblem) -> Discovery:
        grams = np.array([kernel.spec(posed.points[:, list(kernel.columns)]) for kernel in FOUND])
        problem = posed.replace_stack(DenseStack(grams), get_regularizer("l1", posed.strength))
        limits = Limits(self.tol, self.max_iter, name="search for two kernels")
        return run_search(self._candidates(problem), limits, problem)

    def _candidates(self, problem: Problem) -> Any:
        rho, b = problem.zero_model()
        yield Solution(rho, np.zeros(2), b, problem.certificate(rho, np.zeros(2), b), kernels=FOUND)
        best = solve(
            problem.stack,
            problem.y,
            loss=problem.loss,
            penalty=problem.regularizer,
            fit_intercept=problem.fit_intercept,
            sample_weight=problem.weight,
            tol=self.accuracy * self.tol,
        )
        yield Solution(best.dual_coef, best.kernel_weights, best.intercept, best.certificate, kernels=FOUND)


BANK = KernelBank([("first", Gaussian(1.0), [0]), ("line", Linear(), [1, 2])], standardize=True, normalize=None)


def test_a_regressor_agrees_with_the_same_kernels_given(data: Any) -> None:
    model = TwoKernels().fit(data.frame, data.y)
    given = MKLRegressor(BANK, alpha=0.01, tol=1e-7).fit(data.frame, data.y)
    np.testing.assert_allclose(model.predict(data.frame), given.predict(data.frame), atol=1e-3)
    np.testing.assert_allclose(model.kernel_weights_, given.kernel_weights_, rtol=1e-2)
    np.testing.assert_allclose(model.kernel_norms_, given.kernel_norms_, rtol=1e-2)
    assert is_regressor(model)
    assert not is_classifier(model)
    assert model.kernel_names_ == ["first", "line"]
    assert model.score(data.frame, data.y) == pytest.approx(given.score(data.frame, data.y), abs=1e-4)
    whole = model.decompose(data.frame).sum(axis=0) + model.intercept_
    np.testing.assert_allclose(whole, model.predict(data.frame), atol=1e-10)
    assert list(model.weights_frame().columns) == ["name", "weight", "norm_share", "columns", "kernel", "norm"]


def test_a_classifier_agrees_with_the_same_kernels_given(data: Any) -> None:
    model = TwoKernels(loss="logistic").fit(data.X, data.labels)
    given = MKLClassifier(BANK, alpha=0.01, tol=1e-7).fit(data.X, data.labels)
    assert is_classifier(model)
    np.testing.assert_allclose(model.predict_proba(data.X), given.predict_proba(data.X), atol=1e-3)
    np.testing.assert_array_equal(model.classes_, ["no", "yes"])
    assert model.decision_function(data.X).shape == (60,)
    assert model.score(data.X, data.labels) == np.mean(model.predict(data.X) == data.labels)


def test_three_classes_share_a_bank_and_keep_their_own_weights(data: Any) -> None:
    labels = np.digitize(data.y, np.quantile(data.y, [0.3, 0.7]))
    model = TwoKernels(loss="hinge", alpha=1e-3).fit(data.X, labels)
    assert model.kernel_weights_.shape == (3, 2)
    assert model.decision_function(data.X).shape == (60, 3)
    assert set(model.predict(data.X)) <= {0, 1, 2}
    assert set(model.weights_frame(active_only=False)["class"]) == {0, 1, 2}


def test_samples_of_weight_zero_are_absent(data: Any) -> None:
    weight = np.ones(60)
    weight[50:] = 0
    model = TwoKernels().fit(data.X, data.y, sample_weight=weight)
    fewer = TwoKernels().fit(data.X[:50], data.y[:50])
    np.testing.assert_allclose(model.predict(data.X), fewer.predict(data.X), atol=1e-12)
    assert model.solution_.dual_coef.shape == (60,)
    assert model.support_.max() < 50


def test_a_constant_target_is_told(data: Any) -> None:
    with pytest.warns(UserWarning, match="No kernel was selected: at alpha=0.01"):
        model = TwoKernels().fit(data.X, np.full(60, 3.0))
    np.testing.assert_allclose(model.predict(data.X), 3.0)


def test_a_limit_is_told(data: Any) -> None:
    class Careless(TwoKernels):
        accuracy = 1e4

    with pytest.warns(ConvergenceWarning, match=r"search for two kernels stopped \(stalled\).*above tol 1.00e-06"):
        Careless().fit(data.X, data.y)


@pytest.mark.parametrize(
    ("parameters", "y", "message"),
    [
        ({"loss": "huber"}, None, "TwoKernels has no loss 'huber'. Its losses: squared, logistic, hinge"),
        ({"loss": 3}, None, "has no loss 3"),
        ({"alpha": -1.0}, None, "alpha must be"),
        ({"tol": 0}, None, "tol must be"),
        ({}, ["a", "b"] * 30, "To learn classes, set loss='logistic'"),
        ({"loss": "logistic"}, ["a"] * 60, "only one class"),
    ],
)
def test_bad_parameters_are_told(data: Any, parameters: dict[str, Any], y: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        TwoKernels(**parameters).fit(data.X, data.y if y is None else y)


def test_methods_of_the_other_task_are_absent(data: Any) -> None:
    assert not hasattr(TwoKernels(), "decision_function")
    assert not hasattr(TwoKernels(loss="hinge"), "predict_proba")
    with pytest.raises(AttributeError, match="has no attribute 'predict_proba'"):
        TwoKernels().predict_proba(data.X)


def test_names_of_columns_are_compared(data: Any) -> None:
    model = TwoKernels().fit(data.frame, data.y)
    np.testing.assert_array_equal(model.feature_names_in_, data.frame.columns)
    renamed = pd.DataFrame(data.X, columns=[f"z{j}" for j in range(data.X.shape[1])])
    with pytest.raises(InvalidInputError, match="feature names should match"):
        model.predict(renamed)


def test_kernels_of_one_name_get_numbers(data: Any) -> None:
    class Several(TwoKernels):
        def _search(self, posed: SearchProblem) -> Discovery:
            found = super()._search(posed)
            width = 1.0 + float(np.mean(posed.target) > 0)
            renamed = (Found("first", Gaussian(width), (0,)), found.kernels[1])
            return Discovery(renamed, found.solution)

    model = Several().fit(data.X, np.column_stack([data.y + 100, -data.y - 100]))
    assert model.kernel_names_ == ["first", "line", "first (2)"]
    assert model.kernel_weights_.shape == (2, 3)


def test_a_column_may_be_called_as_a_numbered_name() -> None:
    kernels = [Found(name, Linear(), (j,)) for j, name in enumerate(["1", "1 (2)", "1", "1", "1 (2)"])]
    assert unique_names(kernels) == ["1", "1 (2)", "1 (3)", "1 (4)", "1 (2) (2)"]
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["1", "1 (2)"])
    model = HierarchicalMKL(fit_intercept=False, degree=1, alpha=1e-4).fit(X, 1.0 + X["1"] + X["1 (2)"])
    assert len(set(model.kernel_names_)) == 3  # with the constant kernel, which is called "1"


class Interrupted(TwoKernels):
    """Ctrl-C ends the search of one of the targets, counted from 1."""

    def press(self, run: int) -> Interrupted:
        self.runs, self.pressed = 0, run
        return self

    def _search(self, posed: SearchProblem) -> Discovery:
        self.runs += 1
        found = super()._search(posed)
        stopped = replace(found.solution, status=Status.INTERRUPTED, message="interrupted")
        return replace(found, solution=stopped) if self.runs == self.pressed else found


def test_ctrl_c_in_the_last_search_keeps_its_model(data: Any) -> None:
    model = Interrupted().press(2)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model.fit(data.X, np.column_stack([data.y, -data.y]))
    assert [found.status for found in model.solution_] == [Status.CONVERGED, Status.INTERRUPTED]
    assert model.predict(data.X).shape == (len(data.X), 2)


SWITCHES = [
    (GaussianMKL, {"standardize": "yes"}, "standardize must be True or False, got 'yes'"),
    (HierarchicalMKL, {"fit_intercept": 3}, "fit_intercept must be True or False, got 3"),
    (GaussianMKL, {"per_feature": "no"}, "per_feature must be True or False"),
    (NonlinearMKL, {"constant": "no"}, "constant must be True or False"),
    (GaussianMKL, {"random_state": -1}, "random_state must be None, an integer"),
    (PolynomialMKL, {"random_state": "seed"}, "random_state must be None, an integer .* got 'seed'"),
    (PolynomialMKL, {"resources": {"verbose": -1}}, "verbose must be an integer of at least 0"),
]


@pytest.mark.parametrize(("kind", "change", "message"), SWITCHES, ids=[message for *_, message in SWITCHES])
def test_switches_and_seeds_are_checked(kind: Any, change: dict[str, Any], message: str) -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(InvalidInputError, match=message):
        kind(**change).fit(X, X[:, 0])
