"""Curves of estimators that rise, fall, are convex or concave: at every value, for every task, saved and searched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from manykernels import (
    KernelAligner,
    KernelBank,
    MKLClassifier,
    MKLRegressor,
    MKLRegressorCV,
    MKLSurvival,
    regularization_path,
    survival_array,
)
from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.inspection import load_model, save_model

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
    with pytest.raises(InvalidInputError, match="there are 3 classes, whose scores cannot all rise"):
        MKLClassifier(bank()).fit(rows, np.digitize(y, np.quantile(y, [0.3, 0.6])))
    with pytest.raises(IncompatibleError, match="the shapes of columns are kept on factors only"):
        KernelAligner(bank()).fit(rows, y)
