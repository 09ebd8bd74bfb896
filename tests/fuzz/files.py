"""Model files of every kind of estimator, changed at random: refused in words, or models that work."""

from __future__ import annotations

import tempfile
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tests.inspection.conftest import MAKERS, labels, table
from tests.support.mutations import mutated, works

from manykernels import (
    GaussianMKL,
    HierarchicalMKL,
    KernelBank,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    MKLSurvival,
    NonlinearMKL,
    PairKernels,
    Pairs,
    PolynomialMKL,
    save_model,
    survival_array,
)


def _factored() -> tuple[Any, Any]:
    X = table(60)
    bank = KernelBank.per_feature(widths=[0.5, 1.0], standardize=True)
    return MKLClassifier(bank, resources={"representation": "factored"}, alpha=0.01).fit(X, labels(X)), X


def _shared() -> tuple[Any, Any]:
    X = table(45)
    Y = np.column_stack([np.sin(X["second"]), X["first"] ** 2])
    bank = KernelBank.per_feature(widths=[1.0])
    return MKLRegressor(bank, outputs="shared", resources={"representation": "factored"}).fit(X, Y), X


def _survival() -> tuple[Any, Any]:
    X, rng = table(50), np.random.default_rng(1)
    return MKLSurvival(alpha=0.01).fit(X, survival_array(rng.random(50) < 0.7, rng.exponential(size=50))), X


def _pairs() -> tuple[Any, Any]:
    left, right = table(12).to_numpy(), table(9, 1).to_numpy()
    data = Pairs(left, right, list(np.ndindex(12, 9)))
    y = [left[i, 0] * right[j, 1] for i, j in np.ndindex(12, 9)]
    return MKLRegressor(PairKernels()).fit(data, y), data


def _classifier_cv() -> tuple[Any, Any]:
    X = table(45)
    return MKLClassifierCV(KernelBank.per_feature(widths=[1.0]), cv=2, n_alphas=3).fit(X, labels(X)), X


def _regressor_cv() -> tuple[Any, Any]:
    X = table(45)
    return MKLRegressorCV(cv=2, n_alphas=3, penalty="elasticnet").fit(X, np.sin(X["first"])), X


def _search(estimator: Any) -> Callable[[], tuple[Any, Any]]:
    def made() -> tuple[Any, Any]:
        X = table(40)
        return estimator.fit(X, np.sin(X["first"]) * X["second"]), X

    return made


KINDS: dict[str, Callable[[], tuple[Any, Any]]] = MAKERS | {
    "factored": _factored, "shared outputs": _shared, "survival": _survival, "pairs": _pairs,
    "classifier cv": _classifier_cv, "regressor cv": _regressor_cv,
    "polynomial": _search(PolynomialMKL(n_steps=10, resources={"max_iter": 5})),
    "gaussian": _search(GaussianMKL(resources={"max_iter": 3})),
    "hierarchical": _search(HierarchicalMKL(resources={"max_iter": 5})),
    "nonlinear": _search(NonlinearMKL(resources={"max_iter": 3})),
}  # fmt: skip


@cache
def saved(kind: str) -> tuple[dict[str, bytes], Any]:
    """Return the members of the file of a model of a kind, which is fitted once, and rows that it can predict."""
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        model, rows = KINDS[kind]()
        save_model(model, Path(folder) / "model.mkl")
        with zipfile.ZipFile(Path(folder) / "model.mkl") as archive:
            return {name: archive.read(name) for name in archive.namelist()}, rows


def judge_file(seed: int) -> tuple[str, bool, str]:
    """Change the file of a model at random; return its kind, whether it was taken, and what came out raw."""
    kind = list(KINDS)[seed % len(KINDS)]
    members, rows = saved(kind)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutated.mkl"
        what = mutated(members, np.random.default_rng([seed, 47]), path)
        try:
            return kind, works(path, rows), ""
        except Exception as error:
            return kind, True, f"{what}: {type(error).__name__}: {error}"[:400]
