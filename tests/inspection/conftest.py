"""Small fitted models of every kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from manykernels import Gaussian, KernelBank, KernelStack, Linear, MKLClassifier, MKLRegressor, PrecomputedBank


def table(n: int = 36, seed: int = 0) -> pd.DataFrame:
    """Return three columns of normal numbers."""
    values = np.random.default_rng(seed).normal(size=(n, 3))
    return pd.DataFrame(values, columns=["first", "second", "third one"])


def labels(X: Any) -> np.ndarray:
    """Return text labels that depend on the first two columns."""
    values = np.asarray(X)
    return np.where(values[:, 0] ** 2 + values[:, 1] > 1, "yes", "no").astype(object)


def stack(X: Any) -> KernelStack:
    """Return two precomputed kernels."""
    values = np.asarray(X)
    return KernelStack([Gaussian(1.0)(values), Linear()(values)], names=["near", "line"])


def _binary() -> tuple[Any, Any]:
    X = table()
    return MKLClassifier(alpha=0.005).fit(X, labels(X)), X


def _multiclass() -> tuple[Any, Any]:
    X = table(45)
    codes = np.digitize(X["first"], [-0.5, 0.5])
    bank = KernelBank.per_feature(Linear(), widths=[0.5, 1.0], standardize=True)
    return MKLClassifier(bank, loss="hinge", alpha=0.002, class_weight={0: 1.0, 1: 2.0, 2: 1.0}).fit(X, codes), X


def _regressor() -> tuple[Any, Any]:
    X = table()
    return MKLRegressor(penalty="elasticnet", alpha=0.01).fit(X.to_numpy(), np.sin(X["second"])), X.to_numpy()


def _multioutput() -> tuple[Any, Any]:
    X = table()
    Y = np.column_stack([np.sin(X["second"]), X["first"] ** 2])
    bank = KernelBank.joint([Gaussian(1.0) * Linear(), Gaussian("median") + Linear()], normalize="unit_diagonal")
    return MKLRegressor(bank, kernel_penalties=np.array([1.0, 2.0])).fit(X, Y), X


def _centered() -> tuple[Any, Any]:
    X = table()
    bank = KernelBank([("a", Gaussian(1.0), "first"), ("b", Linear(), slice("first", "second"))], center=True)
    return MKLRegressor(bank, loss="epsilon_insensitive").fit(X, X["first"] * 2), X


def _precomputed() -> tuple[Any, Any]:
    X = table()
    kernels = stack(X)
    return MKLClassifier(PrecomputedBank("trace", center=True), loss="hinge").fit(kernels[:30], labels(X)[:30]), kernels


def _empty() -> tuple[Any, Any]:
    X = table()
    with pytest.warns(UserWarning, match="No kernel was selected"):
        return MKLClassifier(alpha=100.0).fit(X, labels(X)), X


MAKERS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "binary": _binary,
    "multiclass": _multiclass,
    "regressor": _regressor,
    "multioutput": _multioutput,
    "centered": _centered,
    "precomputed": _precomputed,
    "empty": _empty,
}
MODELS: dict[str, tuple[Any, Any]] = {}


@pytest.fixture(params=list(MAKERS))
def fitted(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """Return a fitted model and rows it can predict; each is fitted once."""
    return model_named(request.param)


@pytest.fixture(scope="session")
def named() -> Callable[[str], tuple[Any, Any]]:
    """Return the function that gives a model and rows by name."""
    return model_named


def model_named(name: str) -> tuple[Any, Any]:
    """Return a fitted model and rows by the name of its kind."""
    if name not in MODELS:
        MODELS[name] = MAKERS[name]()
    return MODELS[name]
