"""Counts and positive amounts: means out of logarithmic scores, exposure, deviance, and errors in words."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import d2_tweedie_score

from manykernels import KernelBank, Linear, MKLRegressor, MKLRegressorCV, load_model, save_model
from manykernels.exceptions import InvalidInputError
from manykernels.objective import get_loss


def data(n: int = 80) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (n, 3))
    mean = np.exp(0.5 + 1.2 * X[:, 0] - 0.8 * X[:, 1] ** 2)
    return X, rng.poisson(mean).astype(float), mean * rng.gamma(4.0, 0.25, n)


@pytest.mark.parametrize(("loss", "power"), [("poisson", 1), ("gamma", 2)])
def test_predictions_are_means_and_the_score_is_the_deviance_explained(loss: str, power: int, tmp_path) -> None:
    X, counts, amounts = data()
    y = counts if loss == "poisson" else amounts
    model = MKLRegressor(loss=loss, alpha=0.02, tol=1e-8).fit(X, y)
    mean = model.predict(X)
    np.testing.assert_allclose(np.log(mean), model.decision_function(X), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(model.decompose(X).sum(axis=0) + model.intercept_, np.log(mean), rtol=1e-9, atol=1e-12)
    weight = np.linspace(0.5, 2, len(y))
    assert model.score(X, y, weight) == pytest.approx(d2_tweedie_score(y, mean, sample_weight=weight, power=power))
    save_model(model, tmp_path / "model.mkl")
    np.testing.assert_array_equal(load_model(tmp_path / "model.mkl").predict(X), mean)


def test_a_linear_kernel_with_ridge_is_the_poisson_regression_of_scikit_learn() -> None:
    X, y, _ = data()
    exposure = np.random.default_rng(1).uniform(0.5, 3.0, len(y))
    bank = KernelBank([("linear", Linear(), [0, 1, 2])], normalize=None)
    model = MKLRegressor(bank, loss="poisson", penalty="ridge", alpha=0.1, tol=1e-10)
    model.fit(X, y / exposure, sample_weight=exposure)
    other = PoissonRegressor(alpha=0.1, tol=1e-10, max_iter=1000).fit(X, y / exposure, sample_weight=exposure)
    np.testing.assert_allclose(model.predict(X), other.predict(X), rtol=1e-6)


def test_exposure_as_weights_is_an_offset() -> None:
    """The loss of a count with exposure ``e`` and mean ``e exp(z)`` is ``e`` times that of the rate."""
    rng = np.random.default_rng(0)
    counts, e, z = rng.poisson(3.0, 20).astype(float), rng.uniform(0.1, 5.0, 20), rng.normal(size=20)
    poisson, gamma = get_loss("poisson"), get_loss("gamma")
    np.testing.assert_allclose(poisson.value(counts, z + np.log(e)), e * poisson.value(counts / e, z), atol=1e-12)
    np.testing.assert_allclose(gamma.value(counts + 1, z + np.log(e)), gamma.value((counts + 1) / e, z), atol=1e-12)


def test_cross_validation_goes_by_the_deviance() -> None:
    X, y, _ = data(60)
    bank = KernelBank([("linear", Linear(), [0, 1, 2])])
    model = MKLRegressorCV(bank, loss="poisson", penalty="l1", cv=3, n_alphas=6, search={"alpha_min_ratio": 0.01}).fit(
        X, y
    )
    searched = MKLRegressorCV(bank, loss="poisson", cv=2).fit(X, y)
    assert searched.best_score_ > searched.cv_frame().set_index("kernels").loc["no kernels", "mean_score"]
    by_hand = model.cv_frame()["mean_score"].max()
    assert model.best_score_ == by_hand
    assert by_hand > model.cv_frame()["mean_score"][0]  # the empty model


@pytest.mark.parametrize(
    ("loss", "y", "words"),
    [
        ("poisson", [1.0, 2.0, -1.0, 0.0], r"counts, or rates, of zero or more, but 1 of 4.*first at index 2"),
        ("poisson", [0.0, 0.0, 0.0, 0.0], "Every count is zero"),
        ("gamma", [1.0, 2.0, 0.0, 4.0], "amounts above zero"),
        ("gamma", [1.0, np.nan, 0.0, 4.0], "NaN"),
    ],
)
def test_targets_that_have_no_logarithm_of_a_mean(loss: str, y: list[float], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        MKLRegressor(loss=loss).fit(np.arange(4.0)[:, None], y)


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
@pytest.mark.parametrize(("count", "word"), [(0.0, "NaN"), (2.0, "infinity")])
@pytest.mark.parametrize("kind", [MKLRegressor, MKLRegressorCV])
def test_rates_of_an_exposure_of_zero_are_named(kind, loss: str, count: float, word: str) -> None:
    exposure = np.array([1.0, 2.0, 0.5, 0.0, 1.0, 0.0])
    counts = np.where(exposure == 0, count, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = counts / exposure
    words = rf"{word}: 2 of 6 .* first at position 3.* exposure is 0: leave these rows out"
    with pytest.raises(InvalidInputError, match=words):
        kind(loss=loss).fit(np.arange(6.0)[:, None], rates, sample_weight=exposure)


def test_infinite_targets_are_located() -> None:
    y = np.array([[1.0, 2.0], [3.0, np.inf], [0.0, 1.0]])
    with pytest.raises(InvalidInputError, match=r"1 of 3 rows have an infinite target.*position 1") as raised:
        MKLRegressor().fit(np.arange(3.0)[:, None], y)
    assert "exposure" not in str(raised.value)
