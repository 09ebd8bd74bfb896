"""The problem on rows that stay on workers: its vectors stay beside them."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from manykernels.exceptions import InvalidInputError
from manykernels.grams.rows import RowVector, on_rows
from manykernels.objective.losses import Loss, get_loss
from manykernels.objective.losses.base import root_of_slope
from manykernels.objective.losses.bound import SampleSum
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Regularizer
from manykernels.solvers.factored.certificate import feasible
from manykernels.validation.arrays import check_positive_vector

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

    def bind(self, y: RowVector, weight: RowVector) -> SampleSum:
        """Return the loss as a function of the scores of all rows."""
        own: Any = self
        return SampleSum(own, y, weight)  # type: ignore[arg-type]  # vectors beside their rows are added alike

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


class RowsProblem(Problem):
    """A problem on a factored stack over distributed rows; its vectors are `RowVector`."""

    def __post_init__(self) -> None:
        stack: Any = self.stack
        source, loss = stack.table.source, get_loss(self.loss)
        if self.fit_intercept is None:
            self._set("fit_intercept", True)
        if not isinstance(self.regularizer, Regularizer):
            raise InvalidInputError(
                f"regularizer must be a Regularizer such as BlockL1(1.0), not {self.regularizer!r}."
            )
        self._set("loss", LossOnRows(loss))
        self._set("y", self.loss.check_target(source.vector(self.y)))
        given = self.sample_weight
        weight: Any = np.ones_like(self.y) if given is None else on_rows(_weights, source.vector(given))
        self._set("sample_weight", weight.held())
        if not self.weight.min() > 0 or not np.isfinite(self.weight.max()):
            raise InvalidInputError("sample_weight must be positive and finite numbers.")
        penalties = np.ones(self.n_kernels) if self.kernel_penalties is None else self.kernel_penalties
        self._set("kernel_penalties", check_positive_vector(penalties, self.n_kernels, "kernel_penalties"))
        self._check_solvable()

    @cached_property
    def dual_box(self) -> tuple[Array, Array]:
        """Ends of the box of ``rho``."""
        lo, hi = self.loss.dual_bounds(self.y)
        return self.weight * lo, self.weight * hi

    @cached_property
    def empty_quads(self) -> tuple[Array, Array]:
        """Bounds (M,) on ``rho' K_m rho`` at the model without kernels, whose coefficients sum to zero exactly."""
        stack: Any = self.stack
        bounds: tuple[Array, Array] = stack.quad_bounds(feasible(self, -self.zero_model()[0]))
        return bounds

    @cached_property
    def _constant(self) -> float:
        return float(super()._best_constant())

    def _best_constant(self) -> float:
        return self._constant

    def zero_model(self) -> tuple[Any, float]:
        """Return dual coefficients and intercept of the model without kernels.

        Of all that fit, coefficients are the smallest that sum to zero: ``clip(-nu, lo, hi)`` for one ``nu``.
        """
        b = self._best_constant()
        lo, hi = (self.weight * side for side in self.loss.dual_interval(self.y, self.constant_scores(b)))
        if not self.fit_intercept:
            return np.clip(0.0 * self.y, lo, hi), b

        def total(nu: float) -> float:
            return float(np.clip(0.0 * self.y - nu, lo, hi).sum())

        low, high = float(-hi.max()), float(-lo.min())
        nu = 0.0 if total(0.0) == 0 else low if total(low) <= 0 else high if total(high) >= 0 else None
        return np.clip(0.0 * self.y - (brentq(total, low, high) if nu is None else nu), lo, hi), b


def _one_of(function: Any, at: int, *parts: Array) -> Array:
    """Return one of the two vectors that a method of a loss returns."""
    return np.asarray(function(*parts)[at])


def _checked(loss: Loss, part: Array) -> Array:
    return loss.check_target(part) if len(part) else np.zeros(0)


def _weights(part: Array) -> Array:
    return np.asarray(part, dtype=np.float64)
