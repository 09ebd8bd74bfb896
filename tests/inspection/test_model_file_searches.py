"""Model files, tables and reports of estimators that found their kernels themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from manykernels import (
    ConvergenceWarning,
    GaussianMKL,
    HierarchicalMKL,
    NonlinearMKL,
    PolynomialMKL,
    load_model,
    save_model,
)
from manykernels.discovery import LaplacianFamily
from manykernels.inspection import ConvergenceDisplay, KernelWeightsDisplay, MKLReport

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


@pytest.mark.sampled(2)
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


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore::manykernels.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_tables_and_reports_work(name: str) -> None:
    model, X, y = fitted(name)
    assert len(KernelWeightsDisplay.from_estimator(model).frame()) >= 1
    text = MKLReport.from_estimator(model, X, y).to_html()
    assert model.weights_frame()["name"][0] in text


def test_a_report_of_two_stages_tells_the_second_penalty_and_what_tol_is() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    model = GaussianMKL(stages=2, alpha=0.5).fit(X, X[:, 0])
    report = MKLReport.from_estimator(model)
    assert report.penalty == "ridge"
    assert report.tol_measure == "growth of the alignment a kernel"
    assert "squared loss, ridge penalty" in report.summary()
    assert "(tol 1e-03 is the growth of the alignment a kernel)" in report.summary()
    assert ConvergenceDisplay.from_estimator(model).tol is None
    norm = sum(
        d * model.dual_coef_ @ spec((X - X.mean(0)) / X.std(0)) @ model.dual_coef_
        for d, spec in zip(model.kernel_weights_, model.found_, strict=True)
    )
    primal = np.sum((X[:, 0] - model.predict(X)) ** 2) / 2 + norm / 2
    assert model.solution_.certificate.primal == pytest.approx(primal, rel=1e-9)


def test_a_report_tells_the_stationarity_that_was_asked_for_and_reached(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(50, 5))
    model = NonlinearMKL(resources={"max_iter": 1}, tol=1e-8)
    with pytest.warns(ConvergenceWarning, match=r"\(max_iter\) at stationarity \d\.\d+e-\d+, above tol 1.00e-08"):
        model.fit(X, X[:, 0] * X[:, 1])
    save_model(model, tmp_path / "m.mkl")
    report = MKLReport.from_estimator(load_model(tmp_path / "m.mkl"))
    assert (report.tol_measure, report.tol_reached) == ("stationarity", model.stationarity_)
    assert model.stationarity_ > 1e-4
    assert f"(tol 1e-08 is the stationarity, {model.stationarity_:.2e} reached)" in report.summary()
    assert report.to_dict()["tol_reached"] == model.stationarity_


def test_a_kernel_of_many_columns_tells_the_largest_weights() -> None:
    X = np.random.default_rng(0).normal(size=(50, 5))
    model = NonlinearMKL().fit(X, X[:, 4] * (2 * X[:, 1] + X[:, 2]))
    theta = model.base_weights_
    assert theta.argsort()[::-1][:3].tolist() == [4, 1, 2]
    shown = ", ".join(f"x{j} {theta[j]:.2g}" for j in (4, 1, 2))
    assert model.kernel_names_ == [f"degree 2 in 5 columns ({shown}, ...)"]


def test_a_report_of_one_stage_tells_the_gap_asked_for_and_no_passes_uncounted() -> None:
    X = np.random.default_rng(0).normal(size=(50, 3))
    model = GaussianMKL(tol=0.05).fit(X, X[:, 0])
    report = MKLReport.from_estimator(model)
    assert (report.penalty, report.tol_measure) == ("simplex", "relative duality gap")
    assert report.tol_reached == report.relative_gap
    assert "(tol 5e-02)" in report.summary()
    assert "passes" not in report.summary()
    assert ConvergenceDisplay.from_estimator(model).tol == 0.05


def test_kernels_of_many_widths_are_called_after_the_smallest() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(50, 5)), columns=["age", "dose", "time", "mass", "rate"])
    model = GaussianMKL(per_feature=True, tol=0.05, resources={"max_iter": 5}, random_state=0).fit(
        X, np.sin(3 * X["dose"])
    )
    widths = model.found_[0].widths
    assert np.argmin(widths) == 1
    name = model.kernel_names_[0]
    assert name.startswith(f"ard_gaussian(dose={widths[1]:.3g}, ")
    assert name.endswith(", 2 more)")
    assert name in MKLReport.from_estimator(model).summary()
    two = GaussianMKL(per_feature=True, tol=0.05, resources={"max_iter": 5}, random_state=0).fit(
        X[["age", "dose"]], X["dose"]
    )
    assert two.kernel_names_[0] == two.found_[0].label
