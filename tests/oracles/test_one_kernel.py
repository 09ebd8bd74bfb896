"""With one kernel every method is an old friend: predictions equal scikit-learn's, here and through CVXPY."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, SVR, LinearSVC
from tests.support.conic import conic_optimum

from manykernels.exceptions import ConvergenceWarning
from manykernels.objective.losses import get_loss
from manykernels.objective.regularizers import get_regularizer
from manykernels.solvers import solve
from manykernels.testing.problems import SmallProblem

Predict = Callable[[np.ndarray], np.ndarray]
N_TRAIN = 36


def data(*, classify: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a kernel on training samples, one of new samples against them, and targets."""
    rng = np.random.default_rng(42)
    X = rng.normal(size=(N_TRAIN + 20, 3))
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(-1) / 2)
    y = np.sin(2 * X[:N_TRAIN, 0]) + X[:N_TRAIN, 1] + 0.3 * rng.normal(size=N_TRAIN)
    return K[:N_TRAIN, :N_TRAIN], K[N_TRAIN:, :N_TRAIN], np.where(y > 0.3, 1.0, -1.0) if classify else y


def factors(K: np.ndarray, K_new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return features whose inner products are the kernel, on training and new samples."""
    values, vectors = np.linalg.eigh(K)
    root = vectors / np.sqrt(values)
    return K @ root, K_new @ root


def library(small: SmallProblem) -> Predict:
    """Ask for a gap of 1e-12, which rounding may keep from being proved, though not from being reached."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solver .* stopped .inaccurate.", ConvergenceWarning)
        solution = solve(
            small.kernels,
            small.y,
            loss=get_loss(small.loss_name, **small.loss_params),
            penalty=get_regularizer(small.regularizer_name, small.strength, **small.regularizer_params),
            fit_intercept=small.fit_intercept,
            tol=1e-12,
        )
    assert solution.certificate.relative_gap <= 1e-12
    return lambda K_new: K_new @ solution.dual_coef * solution.kernel_weights[0] + solution.intercept


def conic(small: SmallProblem) -> Predict:
    best = conic_optimum(small, target=1e-14)
    return lambda K_new: K_new @ best.dual_coef * best.kernel_weights[0] + best.intercept


def support_vector_classifier(small: SmallProblem, K_new: np.ndarray) -> np.ndarray:
    fitted = SVC(C=1 / small.strength, kernel="precomputed", tol=1e-12).fit(small.kernels[0], small.y)
    return fitted.decision_function(K_new)


def support_vector_regressor(small: SmallProblem, K_new: np.ndarray) -> np.ndarray:
    parameters = {"C": 1 / small.strength, "epsilon": small.loss_params["epsilon"], "tol": 1e-12}
    return SVR(kernel="precomputed", **parameters).fit(small.kernels[0], small.y).predict(K_new)


def kernel_ridge(small: SmallProblem, K_new: np.ndarray) -> np.ndarray:
    return KernelRidge(alpha=small.strength, kernel="precomputed").fit(small.kernels[0], small.y).predict(K_new)


def logistic_regression(small: SmallProblem, K_new: np.ndarray) -> np.ndarray:
    X, X_new = factors(small.kernels[0], K_new)
    fitted = LogisticRegression(C=1 / small.strength, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    return fitted.fit(X, small.y).decision_function(X_new)


def linear_classifier(small: SmallProblem, K_new: np.ndarray) -> np.ndarray:
    X, X_new = factors(small.kernels[0], K_new)
    fitted = LinearSVC(C=1 / (2 * small.strength), fit_intercept=False, tol=1e-12, max_iter=10**6, random_state=0)
    return fitted.fit(X, small.y).decision_function(X_new)


FRIENDS = {
    "SVC": (support_vector_classifier, "hinge", {}, True),
    "SVR": (support_vector_regressor, "epsilon_insensitive", {"epsilon": 0.2}, True),
    "KernelRidge": (kernel_ridge, "squared", {}, False),
    "LogisticRegression": (logistic_regression, "logistic", {}, True),
    "LinearSVC": (linear_classifier, "squared_hinge", {}, False),
}


def posed(name: str, strength: float, regularizer: str = "ridge") -> tuple[SmallProblem, np.ndarray]:
    """Return the problem of a scikit-learn class, and the kernel of new samples."""
    _, loss, params, intercept = FRIENDS[name]
    K, K_new, y = data(classify=loss in ("hinge", "logistic", "squared_hinge"))
    return SmallProblem(K[None], y, loss, regularizer, strength, intercept, params), K_new


# Predictions are only as accurate as the root of the objective, so CVXPY is asked where the regularization is strong.
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("fit", "strength"), [(library, 0.05), (library, 1.0), (conic, 1.0)])
@pytest.mark.parametrize("name", FRIENDS)
def test_predictions_on_new_samples_are_equal(
    name: str, strength: float, fit: Callable[[SmallProblem], Predict]
) -> None:
    small, K_new = posed(name, strength)
    np.testing.assert_allclose(fit(small)(K_new), FRIENDS[name][0](small, K_new), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", FRIENDS)
def test_a_slightly_different_strength_is_told_apart(name: str) -> None:
    (small, K_new), (other, _) = posed(name, 1.0), posed(name, 1.001)
    assert np.abs(library(other)(K_new) - FRIENDS[name][0](small, K_new)).max() > 1e-5


@pytest.mark.parametrize("name", FRIENDS)
def test_the_simplex_with_one_kernel_is_the_ridge(name: str) -> None:
    small, K_new = posed(name, 0.3, "simplex")
    np.testing.assert_allclose(library(small)(K_new), FRIENDS[name][0](small, K_new), rtol=0, atol=1e-5)
