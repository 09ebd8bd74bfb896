"""Functions that models keep of kernels held as factors: the same numbers for few rows as for many."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from manykernels import KernelBank, MKLRegressor, solve
from manykernels.grams.factored import FourierStack
from manykernels.grams.factored.prediction import FourierSeries, LandmarkFunction
from manykernels.kernels import ArdGaussian, Gaussian, KernelSpec, Matern, Polynomial


@pytest.mark.parametrize("width", [0.02, 0.3, 4.0])
def test_a_series_is_the_function_of_its_factor_for_few_rows_as_for_many(width: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 3.0, (20_000, 1))
    stack = FourierStack.grid(X, [width], normalize=None)
    v = rng.normal(size=stack.factor(0, 1e-10).shape[1])
    series = stack.function(0, v, 1e-10)
    assert isinstance(series, FourierSeries)
    points = stack.table.points((0,))
    written = len(pickle.dumps(series))
    many, few = series(points)[:400], np.concatenate([series(point[None]) for point in points[:400]])
    exact = stack.features(0, stack.table.like(X[:400]), 1e-10) @ v
    np.testing.assert_array_equal(many, few)
    np.testing.assert_allclose(few, exact, atol=1e-10 * np.abs(exact).max())
    assert len(pickle.dumps(series)) == written  # what makes it fast is made again, and not kept
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(series))(points[:400]), many)


def test_pieces_end_where_the_series_does() -> None:
    series = FourierSeries(1.0, 2.0, np.pi / 3.0, np.array([1.0, 0.5, 0.0, 0.25]), np.array([0.0, 0.3, 0.2, 0.1]))
    far = np.concatenate([np.linspace(-0.999, 2.999, 5000), [-40.0, 1e9, -np.inf]])[:, None]
    values = series(far)
    angles = np.pi / 3.0 * np.outer(far[:5000, 0] - 1.0, np.arange(4))
    sums = np.cos(angles) @ series.cosines + np.sin(angles) @ series.sines
    np.testing.assert_allclose(values[:5000], sums, atol=1e-7)
    assert values[-3:].tolist() == [0.0, 0.0, 0.0]
    assert np.ptp(values[:-3]) > 1.0


def test_a_solution_and_an_estimator_read_the_same_functions() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 3))
    X[rng.uniform(size=X.shape) < 0.1] = np.nan
    y = np.nan_to_num(np.sin(X[:, 0]) + X[:, 1]) + 0.1 * rng.normal(size=300)
    bank = KernelBank.per_feature(widths=[0.5, 2.0], missing="mask", normalize="trace")
    model = MKLRegressor(kernels=bank, alpha=0.01, tol=1e-8, resources={"representation": "factored"}).fit(X, y)
    found = solve(bank, y, X=X, loss="squared", penalty="l1", alpha=0.01, tol=1e-8, representation="factored")
    np.testing.assert_allclose(found.decision_function(X), model.predict(X), atol=1e-4 * y.std())
    one = np.concatenate([model.predict(row[None]) for row in X[:40]])
    np.testing.assert_allclose(one, model.predict(X)[:40], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "spec", [Gaussian(0.3), Gaussian(1e-3), ArdGaussian((0.5, 2.0)), Matern(1.0, 1.5), Polynomial(2)]
)
@pytest.mark.parametrize("unit_diagonal", [False, True])
@pytest.mark.parametrize("n_landmarks", [1, 301])
def test_a_function_at_landmarks_is_a_sum_of_kernel_values(
    spec: KernelSpec, unit_diagonal: bool, n_landmarks: int
) -> None:
    rng = np.random.default_rng(0)
    points, landmarks = rng.normal(size=(40, 2)), rng.normal(size=(n_landmarks, 2))
    points[:5] = landmarks[:5] if n_landmarks > 5 else points[:5]
    coefficients = rng.normal(size=n_landmarks)
    values = spec(points, landmarks)
    if unit_diagonal:
        values = values / np.sqrt(np.outer(spec.diag(points), spec.diag(landmarks)))
    found = LandmarkFunction(spec, landmarks, coefficients, unit_diagonal)(points)
    np.testing.assert_allclose(found, values @ coefficients, rtol=1e-12, atol=1e-12 * np.abs(coefficients).sum())
