"""Several quantiles at once: the same models as one by one, in columns that do not cross."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import mean_pinball_loss
from sklearn.model_selection import GridSearchCV

from manykernels import (
    Gaussian,
    KernelBank,
    MKLRegressor,
    MKLRegressorCV,
    load_model,
    report,
    save_model,
    stability_selection,
)
from manykernels.exceptions import InvalidInputError
from manykernels.inspection import MKLReport

BANK = KernelBank.per_feature(Gaussian(0.7), standardize=True)
LEVELS = [0.2, 0.4, 0.5, 0.6, 0.8]


def _data() -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    X = rng.uniform(-2, 2, size=(50, 3))
    return X, np.sin(2 * X[:, 1]) + (0.1 + 0.4 * (X[:, 0] > 0)) * rng.normal(size=50)


@pytest.fixture(scope="module")
def model() -> MKLRegressor:
    X, y = _data()
    return MKLRegressor(BANK, loss="quantile", loss_parameters={"tau": LEVELS}, tol=1e-7).fit(X[:35], y[:35])


def test_each_is_the_model_of_one_quantile(model: MKLRegressor) -> None:
    X, y = _data()
    scores = model.decision_function(X)
    for column, tau in enumerate(LEVELS):
        one = MKLRegressor(BANK, loss="quantile", loss_parameters={"tau": tau}, tol=1e-7).fit(X[:35], y[:35])
        np.testing.assert_allclose(scores[:, column], one.predict(X), atol=1e-4)
        np.testing.assert_allclose(model.alpha_[column], one.alpha_, rtol=1e-8)
    assert model.dual_gap_ <= 1e-7
    assert model.weights_frame()["output"].unique().tolist() == LEVELS


def test_columns_do_not_cross_and_lose_nothing_by_it(model: MKLRegressor) -> None:
    X, y = _data()
    scores, predicted = model.decision_function(X), model.predict(X)
    assert (np.diff(scores, axis=1) < 0).any(), "these data make them cross"
    assert (np.diff(predicted, axis=1) >= 0).all()
    before, after = (
        [mean_pinball_loss(y, found[:, k], alpha=tau) for k, tau in enumerate(LEVELS)] for found in (scores, predicted)
    )
    assert sum(after) <= sum(before)
    constants = [mean_pinball_loss(y[35:], np.full(15, np.quantile(y[35:], tau)), alpha=tau) for tau in LEVELS]
    losses = [mean_pinball_loss(y[35:], predicted[35:, k], alpha=tau) for k, tau in enumerate(LEVELS)]
    np.testing.assert_allclose(
        model.score(X[35:], y[35:]), np.mean(1 - np.array(losses) / np.array(constants)), rtol=1e-6
    )


def test_it_is_saved_searched_and_decomposed(model: MKLRegressor, tmp_path: Path) -> None:
    X, y = _data()
    save_model(model, tmp_path / "m.mkl")
    np.testing.assert_array_equal(load_model(tmp_path / "m.mkl").predict(X), model.predict(X))
    np.testing.assert_allclose(model.decompose(X).sum(axis=0) + model.intercept_, model.decision_function(X))
    search = GridSearchCV(
        MKLRegressor(BANK, loss="quantile", loss_parameters={"tau": (0.1, 0.9)}),
        {"alpha": ["0.3*max", "0.03*max"]},
        cv=2,
    ).fit(X, y)
    assert search.predict(X).shape == (50, 2)
    found = stability_selection(
        MKLRegressor(BANK, loss="quantile", loss_parameters={"tau": [0.4, 0.6]}), X, y, n_pairs=2, random_state=0
    )
    assert found.n_halves == 4


@pytest.mark.parametrize("tau", [[], [0.9, 0.1], [0.5, 0.5], [0.1, 1.0], "0.1, 0.9", [[0.1, 0.9]]])
def test_levels_that_are_none_are_refused(tau: Any) -> None:
    with pytest.raises(InvalidInputError, match="tau"):
        MKLRegressor(BANK, loss="quantile", loss_parameters={"tau": tau}).fit(*_data())


def test_what_is_for_one_quantile_says_so(model: MKLRegressor, tmp_path: Path) -> None:
    X, y = _data()
    with pytest.raises(InvalidInputError, match="several: choose it for one of them"):
        MKLRegressorCV(BANK, loss="quantile", loss_parameters={"tau": [0.1, 0.9]}).fit(X, y)
    with pytest.raises(InvalidInputError, match="of one target, but y has shape"):
        MKLRegressor(BANK, loss="quantile", loss_parameters={"tau": [0.1, 0.9]}).fit(X, np.column_stack([y, y]))
    with pytest.raises(InvalidInputError, match="one prediction a sample"):
        report(model, X[35:], y[35:], tmp_path / "r.html")
    with pytest.raises(InvalidInputError, match="one prediction a sample"):
        MKLReport.from_estimator(model, X[35:], y[35:])
    assert MKLReport.from_estimator(model).status == "converged"
