"""NonlinearMKL: scikit-learn's contract, the model recomputed by hand, and errors."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.utils.estimator_checks import parametrize_with_checks

from manykernels import ConvergenceWarning, InvalidInputError, NonlinearMKL

# Repeating a row changes means and deviations of the standardized columns, a weight does not; without standardization
# the equivalence is exact (tests/discovery/test_nonlinear.py).
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "standardization counts training rows, not their weights"
}


@pytest.mark.nightly
@parametrize_with_checks([NonlinearMKL("logistic")], expected_failed_checks=lambda estimator: EXPECTED_FAILURES)
def test_scikit_learn_accepts_the_classifier(estimator: Any, check: Any) -> None:
    check(estimator)


def test_predictions_are_those_of_kernel_ridge_with_the_kernel_found(data: Any) -> None:
    model = NonlinearMKL(alpha=0.02, fit_intercept=False, standardize=False).fit(data.X, data.y)
    roots = np.append(np.sqrt(model.base_weights_), np.sqrt(model.constant_weight_))
    Z = np.column_stack([data.X, np.ones(60)]) * roots
    ridge = KernelRidge(alpha=0.02 * 60, kernel="poly", degree=2, gamma=1.0, coef0=0.0).fit(Z, data.y)
    np.testing.assert_allclose(model.predict(data.X), ridge.predict(Z), atol=1e-6)
    assert np.linalg.norm(roots**2 - 0.25) == pytest.approx(1.0, rel=1e-9)


def test_classes_and_outputs(data: Any) -> None:
    model = NonlinearMKL("logistic", alpha=1e-3).fit(data.frame, data.labels)
    assert model.score(data.frame, data.labels) > 0.9
    np.testing.assert_allclose(model.predict_proba(data.frame).sum(axis=1), 1.0)
    several = NonlinearMKL("hinge", alpha=1e-2).fit(data.X, np.digitize(data.y, [-1, 1]))
    assert several.base_weights_.shape == (3, 3)
    assert several.constant_weight_.shape == (3,)
    two = NonlinearMKL().fit(data.X, np.column_stack([data.y, data.X[:, 0] ** 2]))
    assert two.predict(data.X).shape == (60, 2)


def test_a_pickled_model_predicts_the_same(data: Any) -> None:
    model = NonlinearMKL("logistic", degree=3).fit(data.frame, data.labels)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(data.frame), model.decision_function(data.frame))


def test_the_frame_shows_the_kernel(data: Any) -> None:
    frame = NonlinearMKL().fit(data.frame, data.y).weights_frame()
    assert frame["name"].tolist() == ["degree 2 in a, b, c"]
    assert "weighted_polynomial(degree=2, 3 weights)" in frame["kernel"][0]


def test_too_few_steps_warn(data: Any) -> None:
    with pytest.warns(ConvergenceWarning, match="stopped .max_iter. at stationarity .* the objective can fall by"):
        NonlinearMKL(tol=1e-12, resources={"max_iter": 1}).fit(data.X, data.y)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"degree": 1.5}, "degree must be an integer"),
        ({"radius": -1}, "radius must be"),
        ({"alpha": 0}, "alpha must be"),
        ({"loss": "huber"}, "has no loss 'huber'"),
        ({"reference": [1.0]}, r"reference must have shape \(4,\)"),
        ({"resources": {"max_iter": 0}}, "max_iter must be"),
    ],
)
def test_bad_parameters_are_explained(data: Any, given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        NonlinearMKL(**given).fit(data.X, data.y)
