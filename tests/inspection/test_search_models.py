"""Model files, tables and reports of estimators that found their kernels themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from manykernels import GaussianMKL, HierarchicalMKL, NonlinearMKL, PolynomialMKL, load_model, save_model
from manykernels.discovery import LaplacianFamily
from manykernels.inspection import KernelWeightsDisplay, MKLReport

MODELS = {
    "polynomial": PolynomialMKL(2, p=1.0, n_steps=20, tol=0.05, random_state=0),
    "polynomial classes": PolynomialMKL(2, p=1.0, n_steps=20, tol=0.05, loss="logistic", random_state=0),
    "gaussian": GaussianMKL(tol=0.05, random_state=0),
    "laplacian classes": GaussianMKL("hinge", family=LaplacianFamily(0.1, 10.0), tol=0.05, random_state=0),
    "hierarchical": HierarchicalMKL(degree=2, tol=0.05),
    "hierarchical classes": HierarchicalMKL(degree=2, loss="logistic", tol=0.05),
    "nonlinear": NonlinearMKL(tol=0.05),
}


def fitted(name: str) -> tuple[Any, pd.DataFrame, Any]:
    """Return a fitted model and what it was fitted on."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(50, 3)), columns=["age", "dose", "time"])
    y = X["age"] * X["dose"] + 0.1 * rng.normal(size=50)
    target: Any = np.where(y > 0, "up", "down") if "classes" in name else y
    return MODELS[name].fit(X, target), X, target


@pytest.mark.filterwarnings("ignore::manykernels.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_a_file_gives_back_the_model(name: str, tmp_path: Path) -> None:
    model, X, y = fitted(name)
    save_model(model, tmp_path / "model.mkl")
    same = load_model(tmp_path / "model.mkl")
    assert type(same) is type(model)
    np.testing.assert_array_equal(same.predict(X), model.predict(X))
    assert same.get_params() == model.get_params()
    assert same.score(X, y) == model.score(X, y)
    pd.testing.assert_frame_equal(same.weights_frame(), model.weights_frame())
    for attribute in model.fitted_extras:
        np.testing.assert_array_equal(getattr(same, attribute), getattr(model, attribute))


@pytest.mark.filterwarnings("ignore::manykernels.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_tables_and_reports_work(name: str) -> None:
    model, X, y = fitted(name)
    assert len(KernelWeightsDisplay.from_estimator(model).frame()) >= 1
    text = MKLReport.from_estimator(model, X, y).to_html()
    assert model.weights_frame()["name"][0] in text
