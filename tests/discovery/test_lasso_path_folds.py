"""Cross-validation along a path: a fold that cannot learn the products does not choose for the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from manykernels.discovery.polynomial.lasso_path import PathPoint, WeightedLasso, WeightedRows, best_strength
from manykernels.solvers.fold import Fold

STEP = 10.0**-0.5


@dataclass(frozen=True, eq=False)
class Listed(WeightedLasso):
    """A lasso whose models have the errors that are listed, one a strength, on one sample of target one."""

    errors: tuple[float, ...]

    def scores(self, point: PathPoint, values: np.ndarray) -> np.ndarray:
        return np.array([1.0 - np.sqrt(self.errors[int(point.intercept)]), 0.0, 0.0])

    def empty(self, wanted: int = 1) -> PathPoint:
        return PathPoint((), np.zeros(0), -1.0, (), np.zeros(0))

    def solve_along(self, mu: float, start: PathPoint) -> PathPoint:
        """Return a model whose intercept says which strength of its path it is; after the last, that again."""
        return replace(start, intercept=min(start.intercept + 1.0, len(self.errors) - 1.0))


def fold(*errors: float) -> Fold[Listed, WeightedRows]:
    """Return a fold with a spread of one: the target is zero on its own samples, and one on one of the others."""
    others = WeightedRows(np.zeros((1, 3)), np.array([1.0, 0.0, 0.0]), np.ones(3))
    nothing: Any = None
    lasso = Listed(np.zeros(3), np.ones(3), True, nothing, nothing, nothing, nothing, errors)
    return Fold(lambda: lasso, others)


@pytest.mark.parametrize(
    ("folds", "place"),
    [
        # Three folds find the products, and one, which does not, is best at the second strength.
        ([fold(1e-1, 1e-2, 1e-4, 1e-6)] * 3 + [fold(1e-1, 3e-2, 4e-2, 5e-2)], 3),
        # Where folds are alike it is the smallest sum of errors.
        ([fold(0.5, 0.21, 0.22), fold(0.5, 0.20, 0.22), fold(0.5, 0.22, 0.205)], 1),
        # Below 1e-13 of the target there is nothing left to choose.
        ([fold(1e-1, 1e-14, 1e-30), fold(1e-1, 1e-3, 1e-2)], 1),
    ],
)
def test_the_strength_is_best_for_folds_in_proportion(folds: list[Fold[Listed, WeightedRows]], place: int) -> None:
    error, mu, points = best_strength(folds, 1.0, STEP)
    assert [point.intercept for point in points] == [place] * len(folds)
    assert mu == pytest.approx(STEP ** (place + 1))
    shares = [max(lasso.errors[place], 1e-13) for lasso in (fold.kernels for fold in folds)]
    assert error == pytest.approx(np.mean(np.log(shares)))
