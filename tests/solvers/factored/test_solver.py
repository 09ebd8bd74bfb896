"""What is told of models on factors is true of their predictions, however far from zero columns are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from manykernels import Gaussian, KernelBank, Linear, MKLClassifier, MKLRegressor, Polynomial
from manykernels.exceptions import ConvergenceWarning
from manykernels.kernels import Joint, PerFeature

N = 107


def far(offset: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3))
    labels = X[:, 0] + 0.3 * rng.normal(size=N) > 0
    return X + np.array([offset, 0.0, offset * (seed % 2)]), labels


def value(model: Any, X: np.ndarray, labels: np.ndarray) -> float:
    """Loss of the predictions of a model."""
    margins = np.where(labels, 1, -1) * model.decision_function(X)
    match model.loss:
        case "squared_hinge":
            return float(0.5 * (np.maximum(0, 1 - margins) ** 2).sum())
        case "hinge":
            return float(np.maximum(0, 1 - margins).sum())
    return float(np.logaddexp(0, -margins).sum())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:No kernel:UserWarning")
@pytest.mark.sampled(6)
@pytest.mark.parametrize("offset", [1e5, 1e9])
@pytest.mark.parametrize(("loss", "empty"), [("squared_hinge", N / 2), ("hinge", N), ("logistic", N * np.log(2))])
def test_values_are_those_of_the_predictions_and_never_above_no_kernels(offset: float, loss: str, empty: float) -> None:
    center = offset < 1e9
    banks = [
        KernelBank.per_feature(Polynomial(2), normalize=None, center=center, standardize=False),
        KernelBank([PerFeature([Polynomial(2), Linear()]), Joint([Polynomial(3), Gaussian(1.0)])],
                   normalize="mean_diagonal", center=center, standardize=False),
    ]  # fmt: skip
    for seed, bank in enumerate(banks):
        X, labels = far(offset, seed)
        alpha = (1e-9, 1e-2)[seed]
        model = MKLClassifier(
            bank, loss=loss, resources={"representation": "factored", "max_iter": 10}, alpha=alpha
        ).fit(X, labels)
        told = model.solution_.certificate.primal
        assert value(model, X, labels) <= told * (1 + 1e-6)
        assert told <= empty * (1 + 1e-9)


@pytest.mark.nightly
def test_a_model_that_rounding_spoils_says_why() -> None:
    X, labels = far(1e7, 0)
    bank = KernelBank(
        [PerFeature([Polynomial(2), Linear()]), Joint([Polynomial(2)])], normalize=None, standardize=False
    )
    model = MKLClassifier(bank, loss="hinge", penalty="ridge", resources={"representation": "factored"}, alpha=1e-2)
    with pytest.warns(ConvergenceWarning, match=r"cancel, and rounding.*standardize=True"):
        model.fit(X, labels)
    told = model.solution_.certificate.primal
    assert 0.999 * value(model, X, labels) <= told <= N * (1 + 1e-9)
    assert str(model.solution_.status) == "inaccurate"


def test_a_value_far_away_among_few_rows_costs_their_values() -> None:
    """The bins of a width of 0.02 on a range of 1e4 are millions; values among 137 rows are not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(137, 4))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=137)
    X[5] = 1e4
    bank = KernelBank.per_feature(Gaussian(0.02), standardize=False)
    models = [
        MKLRegressor(bank, loss="epsilon_insensitive", resources={"representation": kind}, alpha=1e-3, tol=1e-6).fit(
            X, y
        )
        for kind in ("factored", "gram")
    ]
    first, second = (model.solution_.certificate.primal for model in models)
    assert first == pytest.approx(second, rel=2e-6)
    np.testing.assert_allclose(models[0].predict(X), models[1].predict(X), atol=1e-2)
