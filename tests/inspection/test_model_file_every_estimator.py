"""Every public estimator is saved, and predicts the same bits when a new process has loaded it."""

from __future__ import annotations

from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.model_selection import KFold
from tests.support.processes import python

from manykernels import (
    GaussianMKL,
    HierarchicalMKL,
    KernelAligner,
    KernelBank,
    KernelStack,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    MKLSurvival,
    MKLSurvivalCV,
    NonlinearMKL,
    PolynomialMKL,
    PrecomputedBank,
    estimators,
    load_model,
    save_model,
    survival_array,
)
from manykernels.discovery import LaplacianFamily, MaternFamily
from manykernels.exceptions import ModelFileError
from manykernels.inspection.model_file.file import ESTIMATORS
from manykernels.kernels import Gaussian, Laplacian

PREDICTING = """
import sys
import numpy as np
import pandas as pd
from manykernels import load_model

X = pd.read_csv("rows.csv", float_precision="round_trip")
for name in sys.argv[1:]:
    model = load_model(f"{name}.mkl")
    rows = np.load(f"{name}.npy") if model.__sklearn_tags__().input_tags.pairwise else X
    answers = [getattr(model, method)(rows) for method in ("predict", "decision_function", "predict_proba", "transform")
               if hasattr(model, method)]
    np.savez(f"{name}.npz", *[np.asarray(answer, dtype=str if answer.dtype == object else None) for answer in answers])
"""


def table() -> pd.DataFrame:
    """Return 40 rows of three columns."""
    return pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=["age", "dose", "two words"])


def gram(X: Any) -> np.ndarray:
    """Return two kernels of the rows with the first thirty, (2, n, 30)."""
    values = np.asarray(X)
    return np.stack([Gaussian(1.0)(values, values[:30]), Laplacian(2.0)(values, values[:30])])


MODELS: dict[str, Any] = {
    "classifier": MKLClassifier(),
    "classes": MKLClassifier(KernelBank.auto(center=True)),
    "regressor": MKLRegressor(penalty="elasticnet"),
    "cv_classifier": MKLClassifierCV(penalty="l1", n_alphas=4, cv=KFold(3, shuffle=True, random_state=0)),
    "cv_regressor": MKLRegressorCV(penalty="elasticnet", l1_ratios=(0.5, 0.9), n_alphas=4, cv=3),
    "aligner": KernelAligner(),
    "aligner_unit": KernelAligner(KernelBank.auto(center=True, normalize="unit_diagonal")),
    "aligner_precomputed": KernelAligner(PrecomputedBank("trace", center=True), method="uniform"),
    "precomputed": MKLClassifier("precomputed"),
    "polynomial": PolynomialMKL(2, p=1.0, n_steps=20, tol=0.05, random_state=0),
    "gaussian": GaussianMKL(tol=0.05, random_state=0),
    "gaussian_classes": GaussianMKL("hinge", family=LaplacianFamily(0.1, 10.0), tol=0.05, random_state=0),
    "gaussian_stages": GaussianMKL(family=MaternFamily(0.1, 10.0), stages=2),
    "hierarchical": HierarchicalMKL(degree=2, loss="logistic", tol=0.05),
    "nonlinear": NonlinearMKL(tol=0.05),
    "survival": MKLSurvival(),
    "cv_survival": MKLSurvivalCV(penalty="elasticnet", l1_ratios=(0.5, 0.9), n_alphas=4, cv=3),
}


def fitted(name: str) -> tuple[Any, Any]:
    """Return a copy of a fitted estimator, whose parts a test may replace, and the rows to predict."""
    model, rows = _fitted(name)
    return copy(model), rows


@cache
def _fitted(name: str) -> tuple[Any, Any]:
    """Fit an estimator once."""
    model, X = MODELS[name], table()
    target: Any = np.sin(X["age"]) + X["dose"] ** 2
    if name in ("classes", "cv_classifier"):
        target = np.array(["low", "middle", "high"], dtype=object)[np.digitize(target, [0.3, 1.2])]
    elif "class" in name or "hinge" in str(getattr(model, "loss", "")) or name in ("hierarchical", "precomputed"):
        target = np.where(target > 0.7, 1, -1)
    elif "survival" in name:
        target = survival_array(np.arange(len(target)) % 3 > 0, np.exp(target))
    if not model.__sklearn_tags__().input_tags.pairwise:
        return model.fit(X, target), X
    return model.fit(gram(X)[:, :30], target[:30]), gram(X)[:, 30:]


@pytest.mark.filterwarnings("ignore::manykernels.ConvergenceWarning", "ignore:The best strength")
def test_a_new_process_predicts_the_same_bits(tmp_path: Path) -> None:
    expected = {}
    table().to_csv(tmp_path / "rows.csv", index=False)
    for name in MODELS:
        model, rows = fitted(name)
        save_model(model, tmp_path / f"{name}.mkl")
        np.save(tmp_path / f"{name}.npy", rows)
        methods = ("predict", "decision_function", "predict_proba", "transform")
        expected[name] = [getattr(model, method)(rows) for method in methods if hasattr(model, method)]
        assert expected[name]
    done = python(PREDICTING, *MODELS, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    for name, answers in expected.items():
        with np.load(tmp_path / f"{name}.npz") as found:
            assert len(found.files) == len(answers)
            for answer, same in zip(answers, found.values(), strict=True):
                np.testing.assert_array_equal(same, answer.astype(str) if answer.dtype == object else answer)


def test_no_public_estimator_is_left_out() -> None:
    named = [getattr(estimators, name) for name in estimators.__all__]
    public = {cls for cls in named if isinstance(cls, type) and issubclass(cls, BaseEstimator)}
    assert public == {type(model) for model in MODELS.values()} == set(ESTIMATORS.values())


@pytest.mark.filterwarnings("ignore:The best strength")
def test_a_choice_by_cross_validation_comes_back_whole(tmp_path: Path) -> None:
    model, _ = fitted("cv_classifier")
    save_model(model, tmp_path / "model.mkl")
    same = load_model(tmp_path / "model.mkl")
    assert set(vars(same)) == set(vars(model))
    pd.testing.assert_frame_equal(same.cv_frame(), model.cv_frame())
    assert (same.alpha_, same.best_score_, same.alpha) == (model.alpha_, model.best_score_, model.alpha)
    assert str(same.cv) == str(model.cv)
    X = table()
    np.testing.assert_array_equal(same.fit(X, model.predict(X)).alphas_, same.alphas_)


@pytest.mark.filterwarnings("ignore:The best strength")
def test_a_choice_that_lacks_a_part_is_refused(tmp_path: Path) -> None:
    model = fitted("cv_regressor")[0]
    del model.alpha_
    save_model(model, tmp_path / "model.mkl")
    with pytest.raises(ModelFileError, match="do not fit the rest: alpha_"):
        load_model(tmp_path / "model.mkl")


@pytest.mark.filterwarnings("ignore:The best strength")
def test_a_scorer_is_refused_by_its_name(tmp_path: Path) -> None:
    scored = fitted("cv_regressor")[0]
    scored.scoring = lambda model, X, y: -1.0
    with pytest.raises(ModelFileError, match="scoring is a function"):
        save_model(scored, tmp_path / "model.mkl")


@pytest.mark.parametrize(
    ("part", "content", "message"),
    [
        ("_active_weights", [1.0], "_active_weights"),
        ("_train", None, "support"),
        ("kernel_names_", ["one"], "kernel_names_"),
        ("n_features_in_", 2, "n_features_in_"),
    ],
)
def test_parts_of_an_aligner_must_fit(part: str, content: Any, message: str, tmp_path: Path) -> None:
    model, _ = fitted("aligner")
    setattr(model, part, content)
    save_model(model, tmp_path / "model.mkl")
    with pytest.raises(ModelFileError, match=message):
        load_model(tmp_path / "model.mkl")


def test_rows_of_another_stack_are_refused(tmp_path: Path) -> None:
    model, rows = fitted("aligner_precomputed")
    save_model(model, tmp_path / "model.mkl")
    same = load_model(tmp_path / "model.mkl")
    assert same.transform(KernelStack.rectangular(rows)).shape == (10, 30)
    model._train = fitted("aligner")[0]._train
    save_model(model, tmp_path / "model.mkl")
    with pytest.raises(ModelFileError, match="support"):
        load_model(tmp_path / "model.mkl")
