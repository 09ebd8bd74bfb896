"""Curves of estimators that rise, fall, are convex or concave: at every value, for every task, saved and searched."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from manykernels import (
    KernelAligner,
    KernelBank,
    Laplacian,
    MKLClassifier,
    MKLRegressor,
    MKLRegressorCV,
    MKLSurvival,
    regularization_path,
    survival_array,
)
from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.inspection import export_model, load_model, save_model
from manykernels.kernels import Gaussian, Shaped
from manykernels.testing.estimators import check_shape

SHAPES = {"age": "increasing", "dose": ("increasing", "concave")}


@pytest.fixture
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    values = {"age": rng.uniform(20, 80, 150), "dose": rng.gamma(2.0, size=150), "noise": rng.normal(size=150)}
    return pd.DataFrame(values)


@pytest.fixture
def y(rows: pd.DataFrame) -> np.ndarray:
    noise = np.random.default_rng(1).normal(size=150)
    return np.asarray(0.03 * rows["age"] - np.sin(rows["age"] / 5) + np.sqrt(rows["dose"]) + 0.5 * noise)


def bank(**options: Any) -> KernelBank:
    return KernelBank.per_feature(widths=["0.3*median", "median"], standardize=True, shape=SHAPES, **options)


def along(model: Any, rows: pd.DataFrame, column: str) -> np.ndarray:
    """Return scores for values of one column far beyond those of the rows, the others as they are."""
    points = np.linspace(rows[column].min() - 50, rows[column].max() + 50, 3001)
    table = rows.iloc[[7] * len(points)].assign(**{column: points})
    return np.asarray(getattr(model, "decision_function", model.predict)(table))


def check_shapes(model: Any, rows: pd.DataFrame) -> None:
    age, dose = along(model, rows, "age"), along(model, rows, "dose")
    assert np.diff(age).min() >= -1e-9 * np.ptp(age)
    assert np.diff(dose).min() >= -1e-9 * np.ptp(dose)
    assert np.diff(dose, 2).max() <= 1e-9 * np.ptp(dose)


def test_regression_keeps_shapes_everywhere(rows: pd.DataFrame, y: np.ndarray) -> None:
    model = MKLRegressor(bank(), alpha=0.001).fit(rows, y)
    free = MKLRegressor(bank().replace(shape=None), alpha=0.001).fit(rows, y)
    assert model.dual_gap_ <= model.tol
    assert model.representation_ == "factored"
    check_shapes(model, rows)
    assert np.diff(along(free, rows, "age")).min() < -1e-3  # it asks for another shape
    assert np.mean((model.predict(rows) - y) ** 2) > np.mean((free.predict(rows) - y) ** 2)
    assert model.importance_frame().set_index("columns")["importance"]["dose"] > 0


@pytest.mark.nightly
def test_classes_hazards_and_searches_keep_shapes(rows: pd.DataFrame, y: np.ndarray) -> None:
    check_shapes(MKLClassifier(bank(), alpha=0.01).fit(rows, y > np.median(y)), rows)
    check_shapes(MKLClassifier(bank(), loss="hinge", alpha=0.01, tol=1e-3).fit(rows, y > np.median(y)), rows)
    rng = np.random.default_rng(2)
    hazard = MKLSurvival(bank(), alpha=0.003).fit(
        rows, survival_array(rng.random(len(y)) < 0.7, rng.exponential(np.exp(-y)))
    )
    assert hazard.dual_gap_ <= hazard.tol
    check_shapes(hazard, rows)
    found = MKLRegressorCV(bank(), cv=3, n_alphas=4).fit(rows, y)
    check_shapes(found, rows)
    own = MKLRegressor(bank(), outputs="own", alpha=0.01).fit(rows, np.column_stack([y, -y]))
    assert np.diff(along(own, rows, "age"), axis=0).min() >= -1e-9


def test_paths_go_on_from_model_to_model(rows: pd.DataFrame, y: np.ndarray) -> None:
    path = regularization_path(rows, y, kernels=bank(), n_alphas=5, tol=1e-5)
    assert max(found.certificate.relative_gap for found in path.solutions) <= 1e-5


def test_saved_models_are_the_same(rows: pd.DataFrame, y: np.ndarray, tmp_path: Path) -> None:
    model = MKLRegressor(KernelBank.auto(shape=SHAPES), alpha=0.01).fit(rows, y)
    check_shapes(model, rows)
    save_model(model, tmp_path / "model.mkl")
    opened = load_model(tmp_path / "model.mkl")
    np.testing.assert_array_equal(opened.predict(rows), model.predict(rows))
    assert opened.kernels == model.kernels
    np.testing.assert_array_equal(opened.dual_coef_, model.dual_coef_)


def test_what_cannot_keep_shapes_is_refused(rows: pd.DataFrame, y: np.ndarray) -> None:
    with pytest.raises(IncompatibleError, match="representation='gram' cannot be had: the shapes"):
        MKLRegressor(bank(), resources={"representation": "gram"}).fit(rows, y)
    with pytest.raises(IncompatibleError, match="'factored': columns have shapes, and several"):
        MKLRegressor(bank(), outputs="shared", alpha=0.1).fit(rows, np.column_stack([y, y]))
    with pytest.raises(InvalidInputError, match="one label or a numeric target, but there are 3 classes"):
        MKLClassifier(bank()).fit(rows, np.digitize(y, np.quantile(y, [0.3, 0.6])))
    with pytest.raises(IncompatibleError, match="the shapes of columns are kept on factors only"):
        KernelAligner(bank()).fit(rows, y)


KNOTS = (-1.0, 0.0, 1.0, 2.0, 3.0, 4.0)  # of which training rows have three
LOSSES = ("squared", "huber", "epsilon_insensitive", "quantile", "logistic", "hinge", "squared_hinge", "poisson")


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", ["increasing", "decreasing", "convex", "concave"])
def test_shapes_are_kept_at_knots_without_training_rows(shape: str, loss: str) -> None:
    x = np.array([0.0, 1.0, 3.0] * 10)
    curves = {"increasing": x, "decreasing": -x, "convex": (x - 1.5) ** 2, "concave": -((x - 1.5) ** 2)}
    y = curves[shape] + 0.1 * np.random.default_rng(0).normal(size=30)
    spec = Shaped(Gaussian(0.5), shape, points=KNOTS)
    given: dict[str, Any] = {"kernels": KernelBank([("curve", spec, [0])], normalize=None), "loss": loss, "alpha": 0.01}
    if loss in ("logistic", "hinge", "squared_hinge"):
        model: Any = MKLClassifier(**given, tol=1e-4).fit(x[:, None], y > np.median(y))
    else:
        target = np.round(2 * (y - y.min())) if loss == "poisson" else y
        model = MKLRegressor(**given, tol=1e-4).fit(x[:, None], target)
    assert model.solution_.status == "converged"
    grid = np.linspace(-2.0, 5.0, 141)
    (curve,) = model.decompose(grid[:, None])
    assert np.ptp(curve) > 0.1
    check_shape(spec, curve, grid)
    check_shape(spec, model.decompose(np.array(KNOTS)[:, None])[0], np.array(KNOTS))


@pytest.mark.parametrize("shape", ["increasing", "concave"])
def test_saved_and_exported_curves_are_those_of_the_fit(shape: str, tmp_path: Path) -> None:
    x = np.array([0.0, 1.0, 3.0] * 10)
    table = pd.DataFrame({"dose": x})
    y = x - 0.2 * x**2 + 0.1 * np.random.default_rng(0).normal(size=30)
    spec = Shaped(Gaussian(0.5), shape, points=KNOTS)
    bank = KernelBank([("curve", spec, ["dose"])], normalize=None)
    model = MKLRegressor(bank, alpha=0.001, tol=1e-5).fit(table, y)
    grid = pd.DataFrame({"dose": np.linspace(-20.0, 30.0, 141)})
    curve = model.predict(grid)
    check_shape(spec, curve, np.asarray(grid["dose"]))
    save_model(model, tmp_path / "model.mkl")
    np.testing.assert_array_equal(load_model(tmp_path / "model.mkl").predict(grid), curve)
    np.testing.assert_allclose(model.decompose(grid)[0] + model.intercept_, curve, atol=1e-12)
    export_model(model, tmp_path / "model.py", tol=1e-3)
    names: dict[str, Any] = {}
    exec((tmp_path / "model.py").read_text(), names)
    written = names["predict"]({"dose": grid["dose"].to_numpy()})
    near = np.abs(grid["dose"] - 1.5) < 4.0
    np.testing.assert_allclose(written[near], curve[near], atol=2e-3 * np.ptp(curve))


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic"])
@pytest.mark.parametrize(("shape", "seed"), [("increasing", 8), ("decreasing", 8), ("convex", 6), ("concave", 35)])
def test_shapes_are_kept_where_spacings_spread_over_ten_powers_of_ten(shape: str, seed: int, loss: str) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_cauchy(int(rng.integers(40, 200))) ** 3
    y = np.sign(x) * np.log1p(np.abs(x)) * (-1.0 if shape == "decreasing" else 1.0) + rng.normal(size=len(x))
    spec = Shaped(Laplacian("median"), shape)
    given: dict[str, Any] = {"kernels": KernelBank([("curve", spec, [0])]), "loss": loss, "alpha": 0.001, "tol": 1e-4}
    model: Any = MKLClassifier(**given) if loss == "logistic" else MKLRegressor(**given)
    model.fit(x[:, None], y > np.median(y) if loss == "logistic" else y)
    certificate = model.solution_.certificate
    assert model.solution_.status == "converged"
    assert certificate.dual <= certificate.primal + certificate.rounding
    grid = np.unique(np.concatenate([x, *(np.linspace(low, high, 7) for low, high in pairwise(np.sort(x)))]))
    check_shape(spec, model.decompose(grid[:, None])[0], grid)
