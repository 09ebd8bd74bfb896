"""Losses of vectors that stay beside rows on workers: their methods are applied there, entry by entry."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.exceptions import InvalidInputError
from manykernels.grams.rows.vectors import RowVector, on_rows
from manykernels.objective.losses.base import Loss, root_of_slope
from manykernels.objective.losses.bound import SampleSum

__all__ = ["LossOnRows", "rows_weight"]

Array = NDArray[Any]

ENTRY_BY_ENTRY = {"value", "derivative", "second_derivative", "conjugate", "dual_from_scores"}
PAIRS = {"dual_bounds", "dual_interval"}


class LossOnRows:
    """A loss of vectors that stay with their rows: its methods are applied there.

    Parameters
    ----------
    loss : Loss
    """

    def __init__(self, loss: Loss) -> None:
        self._loss = loss

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._loss, name)
        if name in PAIRS:
            return lambda *vectors: tuple(on_rows(partial(_one_of, found, at), *vectors) for at in (0, 1))
        return partial(on_rows, found) if name in ENTRY_BY_ENTRY else found

    def __repr__(self) -> str:
        return repr(self._loss)

    def bind(self, y: Any, weight: Any) -> SampleSum:
        """Return the loss as a function of the scores of all rows, whose vectors are added alike."""
        return SampleSum(self, y, weight)

    def check_target(self, y: RowVector) -> RowVector:
        """Return targets as numbers, each part checked where it is."""
        return on_rows(partial(_checked, self._loss), y).held()

    def why_no_constant(self, y: RowVector) -> str:
        """Say why no constant fits best; the smallest and the largest target tell."""
        return self._loss.why_no_constant(np.array([y.min(), y.max()]))

    def best_intercept(self, y: RowVector, f: RowVector, weight: RowVector) -> float:
        """Return the constant that fits best without other scores, as ``f = 0`` is."""
        if self._loss.task == "classification":  # two samples, each with the weight of its class
            classes = np.array([float(weight[y < 0].sum()), float(weight[y > 0].sum())])
            return self._loss.best_intercept(np.array([-1.0, 1.0]), np.zeros(2), classes)
        if self._loss.linear_dual:
            return float(weight @ y) / float(weight.sum())

        def slope(b: float) -> float:
            return float(weight @ self.derivative(y, f + b))

        return root_of_slope(slope, float(y.min()), float(y.max()), self._loss.score_unit)


def rows_weight(y: Any, weight: Any) -> Any:
    """Return positive sample weights beside the rows of a target, ones if there are none."""
    weight = (np.ones_like(y) if weight is None else on_rows(_numbers, y.source.vector(weight))).held()
    if not weight.min() > 0 or not np.isfinite(weight.max()):
        raise InvalidInputError("sample_weight must be positive and finite numbers.")
    return weight


def _one_of(function: Callable[..., Any], at: int, *parts: Array) -> Array:
    """Return one of the two vectors that a method of a loss returns."""
    return np.asarray(function(*parts)[at])


def _checked(loss: Loss, part: Array) -> Array:
    return loss.check_target(part) if len(part) else np.zeros(0)


def _numbers(part: Array) -> Array:
    return np.asarray(part, dtype=np.float64)
