"""What folds say of the choice: predictions of rows that they held out, and importances by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import KFold, ShuffleSplit, cross_val_predict
from tests.support.memory import peak_of

from manykernels import (
    KernelBank,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    MKLSurvivalCV,
    load_model,
    save_model,
    survival_array,
)
from manykernels.kernels import Gaussian, Linear

pytestmark = pytest.mark.filterwarnings("ignore:The best strength", "ignore:The score was still rising")

RNG = np.random.default_rng(3)
X = RNG.normal(size=(90, 3))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * RNG.normal(size=90)
TIMES = RNG.exponential(np.exp(-2.0 * Y))
BANK = KernelBank.per_feature([Linear(), Gaussian(0.7)])


@pytest.mark.parametrize("held", ["gram", "factored"])
def test_predictions_of_the_folds_are_those_of_refits(held: str) -> None:
    given: dict[str, Any] = {"penalty": "l1", "tol": 1e-6, "resources": {"representation": held}}
    search = MKLRegressorCV(BANK, alphas=[0.03], cv=KFold(3), **given).fit(X, Y)
    expected = cross_val_predict(MKLRegressor(BANK, alpha=0.03, **given), X, Y, cv=KFold(3))
    assert_allclose(search.cv_predictions_, expected, atol=1e-3)
    assert_allclose(-np.mean((search.cv_predictions_ - Y) ** 2), search.best_score_, rtol=1e-2)


def test_folds_of_a_grid_are_held_one_at_a_time_on_factors() -> None:
    """The models of all of them were kept with their factors, and the pieces that scored held-out rows."""

    def peak(n_folds: int) -> int:
        search = MKLRegressorCV(
            KernelBank.per_feature(widths=[0.3, 1.0, 3.0], standardize=True),
            penalty="l1",
            alphas=[0.1, 0.03],
            cv=KFold(n_folds),
            resources={"representation": "factored"},
        )
        return peak_of(lambda: search.fit(X, Y))

    peak(2)  # what is compiled and imported is there
    assert peak(6) <= 1.2 * peak(3)


def test_importances_are_what_held_out_rows_lose() -> None:
    search = MKLRegressorCV(BANK, penalty="l1", alphas=[0.03], cv=KFold(3), tol=1e-6).fit(X, Y)
    lost, names = np.zeros((90, 3)), ["x0", "x1", "x2"]
    for train, test in KFold(3).split(X):
        model = MKLRegressor(BANK, penalty="l1", alpha=0.03, tol=1e-6).fit(X[train], Y[train])
        parts, predicted = model.decompose(X[test]), model.predict(X[test])
        columns = np.array(model._kernel_frame["columns"])
        for j, name in enumerate(names):
            own = parts[columns == name].sum(axis=0)
            lost[test, j] = (Y[test] - predicted + own) ** 2 / 2 - (Y[test] - predicted) ** 2 / 2
    found = search.importance_frame().set_index("columns")
    assert search.importance_method_ == "folds"
    # The part of a column is replaced by its mean over all rows, which is near zero.
    assert_allclose(found.loc[["x0", "x1"], "importance"], lost.mean(axis=0)[:2], rtol=0.1)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", ["averages", "hinge", "three", "quantile", "survival"])
def test_every_search_tells_what_its_folds_say(kind: str, tmp_path: Path) -> None:
    three = np.digitize(Y, [-0.5, 0.5])
    model, y = {
        "averages": (MKLRegressorCV(BANK, penalty="ridge", cv=3), Y),
        "hinge": (MKLClassifierCV(BANK, loss="hinge", cv=3, n_alphas=5), Y > 0),
        "three": (MKLClassifierCV(BANK, cv=3, n_alphas=5), three),
        "quantile": (MKLRegressorCV(BANK, loss="quantile", cv=3, n_alphas=5), Y),
        "survival": (MKLSurvivalCV(BANK, cv=3, n_alphas=5), survival_array(TIMES < 2, np.minimum(TIMES, 2))),
    }[kind]
    model.fit(X, y)
    assert model.importance_method_ == "folds"
    assert model.cv_predictions_.shape == ((90, 3) if kind == "three" else (90,))
    assert np.isfinite(model.cv_predictions_).all()
    assert model.feature_importances_.argmax() == 0
    save_model(model, tmp_path / "model.mkl")
    again = load_model(tmp_path / "model.mkl")
    assert_allclose(again.feature_importances_, model.feature_importances_)
    assert_allclose(again.cv_predictions_, model.cv_predictions_)


def test_rows_that_were_never_held_out_have_no_prediction() -> None:
    search = MKLRegressorCV(BANK, penalty="l1", alphas=[0.03], cv=ShuffleSplit(2, test_size=20, random_state=0))
    predicted = search.fit(X, Y).cv_predictions_
    held = np.unique(np.concatenate([test for _, test in search.cv.split(X)]))
    assert np.array_equal(np.flatnonzero(np.isfinite(predicted)), held)
