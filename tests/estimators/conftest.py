"""Small data shared by the tests of the estimators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Data:
    """Rows with a label of two kinds, a number, and four kernels made by hand."""

    X: Array
    labels: Array
    y: Array

    @property
    def frame(self) -> pd.DataFrame:
        return pd.DataFrame(self.X, columns=["a", "b", "c"])

    @property
    def grams(self) -> Array:
        linear = [np.outer(column, column) for column in self.X.T]
        distances = ((self.X[:, None] - self.X[None]) ** 2).sum(axis=-1)
        return np.stack([*linear, np.exp(-distances / 2)])


@pytest.fixture(scope="session")
def data() -> Data:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(60, 3))
    labels = np.where(X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.2 * rng.normal(size=60) > 0.3, "yes", "no")
    return Data(X, labels, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=60))
