"""The contract of estimators off the training rows: every estimator keeps it, and broken functions do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from manykernels import (
    Gaussian,
    GaussianMKL,
    KernelBank,
    Laplacian,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    MKLSurvival,
    survival_array,
)
from manykernels.kernels import Shaped
from manykernels.testing import EstimatorContract
from manykernels.testing.estimators import check_shape

KNOTS = (-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0)  # a third of which no row is near


class OnNumbers(EstimatorContract):
    """Rows whose first column has three values, few of the knots."""

    def data(self) -> tuple[np.ndarray, Any]:
        rng = np.random.default_rng(0)
        X = np.column_stack([rng.choice([-1.0, 0.0, 2.0], size=60), rng.normal(size=60)])
        return X, X[:, 0] + np.sin(2 * X[:, 1]) + 0.2 * rng.normal(size=60)


BANK = KernelBank([("a", Laplacian(1.0), [0]), ("b", Gaussian(0.5), [1]), ("c", Gaussian(1.0), [0, 1])])
CURVES = KernelBank(
    [("a", Shaped(Gaussian(1.0), "increasing", points=KNOTS), [0]), ("b", Shaped(Laplacian(1.0), "concave"), [1])]
)


class TestRegressor(OnNumbers):
    def fitted(self, X: np.ndarray, y: np.ndarray) -> Any:
        return MKLRegressor(BANK, alpha=0.01, resources={"representation": "gram"}).fit(X, y)


class TestRegressorOnFactors(OnNumbers):
    def fitted(self, X: np.ndarray, y: np.ndarray) -> Any:
        return MKLRegressor(BANK, alpha=0.01, tol=1e-8, resources={"representation": "factored"}).fit(X, y)


class TestRegressorWithShapes(OnNumbers):
    def fitted(self, X: np.ndarray, y: np.ndarray) -> Any:
        return MKLRegressor(CURVES, alpha=0.001).fit(X, y)


class TestRegressorSearchWithShapes(OnNumbers):
    def fitted(self, X: np.ndarray, y: np.ndarray) -> Any:
        return MKLRegressorCV(CURVES, cv=3, n_alphas=3).fit(X, y)


class TestClassifier(OnNumbers):
    def fitted(self, X: np.ndarray, y: np.ndarray) -> Any:
        return MKLClassifier(BANK, alpha=0.01).fit(X, y > 0)


class TestClassifierWithShapes(OnNumbers):
    def fitted(self, X: np.ndarray, y: np.ndarray) -> Any:
        return MKLClassifier(CURVES, loss="hinge", alpha=0.01, tol=1e-3).fit(X, y > 0)


class TestClassifierSearch(OnNumbers):
    def fitted(self, X: np.ndarray, y: np.ndarray) -> Any:
        return MKLClassifierCV(BANK, cv=3, n_alphas=3).fit(X, y > 0)


class TestSurvivalWithShapes(OnNumbers):
    def fitted(self, X: np.ndarray, y: np.ndarray) -> Any:
        event = np.random.default_rng(1).random(len(y)) < 0.7
        return MKLSurvival(CURVES, alpha=0.003).fit(X, survival_array(event, np.exp(-y)))

    def scores(self, model: Any, X: np.ndarray) -> np.ndarray:
        return np.asarray(model.predict(X))


class TestGaussian(OnNumbers):
    def fitted(self, X: np.ndarray, y: np.ndarray) -> Any:
        return GaussianMKL(random_state=0).fit(X, y)


class Broken(TestRegressorWithShapes):
    """Functions of training rows alone, as smallest norms give them, which miss their shapes elsewhere."""

    __test__ = False

    def fitted(self, X: np.ndarray, y: np.ndarray) -> Any:
        model = super().fitted(X, y)
        real, X_fit = model.decompose, X

        def decompose(rows: np.ndarray) -> np.ndarray:
            parts = np.array(real(rows))
            parts[0] *= np.isin(rows[:, 0], X_fit[:, 0])
            return parts

        model.decompose = decompose
        return model


def test_a_model_that_is_right_on_training_rows_alone_is_found() -> None:
    broken = Broken()
    with pytest.raises(AssertionError, match=r"increasing: missed by"):
        broken.test_functions_keep_their_shapes()
    with pytest.raises(AssertionError, match=r"Not equal to tolerance"):
        broken.test_scores_are_sums_of_functions()
    with pytest.raises(AssertionError, match=r"kernel 0: .* above"):
        broken.test_functions_have_the_norms_of_the_certificate()


@pytest.mark.parametrize("shape", ["increasing", "decreasing", "convex", "concave"])
def test_shapes_are_told_apart(shape: str) -> None:
    x = np.array([0.0, 1.0, 3.0, 4.0])
    curves = {"increasing": x, "decreasing": -x, "convex": (x - 2.0) ** 2, "concave": -((x - 2.0) ** 2)}
    check_shape(Shaped(Gaussian(1.0), shape), curves[shape], x)
    opposite = {"increasing": "decreasing", "convex": "concave"} | {"decreasing": "increasing", "concave": "convex"}
    with pytest.raises(AssertionError, match="missed by"):
        check_shape(Shaped(Gaussian(1.0), shape), curves[opposite[shape]], x)
