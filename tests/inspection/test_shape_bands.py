"""Bands by refits to drawn rows: for every loss, and like those of a posterior where there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import Gaussian, KernelBank, Linear, MKLClassifier, MKLRegressor, MKLSurvival, survival_array
from manykernels.exceptions import InvalidInputError
from manykernels.inspection import ShapeDisplay, SurfaceDisplay, bootstrap_refits

BANK = KernelBank.per_feature([Linear(), Gaussian(0.7)], standardize=True)
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.uniform(-2, 2, (100, 3)), columns=["a", "b", "c"])
SIGNAL = np.sin(2 * X["a"]) + 0.5 * X["b"]
Y = SIGNAL + 0.4 * RNG.normal(size=100)


def curve(model: Any, bands: Any, **options: Any) -> pd.DataFrame:
    return ShapeDisplay.from_estimator(model, X, columns=["a"], n_points=30, bands=bands, **options).frame()


@pytest.mark.nightly
def test_refits_tell_of_squared_errors_what_the_posterior_tells() -> None:
    model = MKLRegressor(BANK, resources={"representation": "gram"}, tol=1e-3).fit(X, Y)
    refits = bootstrap_refits(model, X, Y, n_refits=20, random_state=0)
    drawn, known = curve(model, refits), curve(model, True)
    pd.testing.assert_series_equal(drawn["effect"], known["effect"])
    assert 0.4 < np.median(drawn["std"] / known["std"]) < 2.0
    again = bootstrap_refits(model, X, Y, n_refits=2, random_state=0)
    assert again[1].alpha_ == refits[1].alpha_ != refits[0].alpha_


def test_the_deviation_is_that_of_the_curves_of_the_refits() -> None:
    model = MKLRegressor(BANK, loss="quantile", tol=1e-2).fit(X, Y)
    refits = bootstrap_refits(model, X, Y, n_refits=3, random_state=1)
    effects = [curve(refit, False)["effect"] for refit in refits]
    np.testing.assert_allclose(curve(model, refits)["std"], np.std(effects, axis=0, ddof=1), atol=1e-12)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["hinge", "cox", "factored", "three classes", "pipeline"])
def test_every_model_has_bands(kind: str) -> None:
    target: Any = Y.to_numpy()
    if kind == "hinge":
        model: Any = MKLClassifier(BANK, loss="hinge", tol=1e-2)
        target = np.where(Y > 0, "yes", "no")
    elif kind == "cox":
        model, target = MKLSurvival(BANK, tol=1e-2), survival_array(RNG.uniform(size=100) < 0.8, np.exp(-Y))
    elif kind == "factored":
        model = MKLRegressor(BANK, resources={"representation": "factored"}, tol=1e-2)
    elif kind == "three classes":
        model, target = MKLClassifier(BANK, tol=1e-2), np.digitize(Y, [-0.5, 0.5])
    else:
        model = make_pipeline(StandardScaler(), MKLRegressor(BANK, loss="huber", tol=1e-2))
    model.fit(X, target)
    refits = bootstrap_refits(model, X, target, n_refits=3, random_state=0)
    found = curve(model, refits, **({"target": 2} if kind == "three classes" else {}))
    assert (found["std"] >= 0).all()
    assert found["std"].max() > 0
    assert found["std"].max() < 3 * np.abs(found["effect"]).max()


def test_surfaces_have_bands_of_refits_too() -> None:
    target = X["a"] * X["b"] + 0.1 * RNG.normal(size=100)
    model = MKLRegressor(KernelBank.interactions(bins=6), loss="quantile", alpha="0.1*max", tol=1e-2).fit(X, target)
    refits = bootstrap_refits(model, X, target, n_refits=3, random_state=0)
    display = SurfaceDisplay.from_estimator(model, X, columns=("a", "b"), n_points=6, bands=refits)
    assert display.frame()["std"].max() > 0
    display.plot()


def test_what_is_no_band_is_said() -> None:
    model = MKLRegressor(BANK, loss="quantile", tol=1e-2).fit(X, Y)
    with pytest.raises(InvalidInputError, match=r"bands=bootstrap_refits\(model, X, y\)"):
        curve(model, True)
    with pytest.raises(InvalidInputError, match="bands must be True, False or the list of at least two models"):
        curve(model, [model])
    with pytest.raises(InvalidInputError, match="at least two refits"):
        bootstrap_refits(model, X, Y, n_refits=1)
