"""Penalties along a path: grids of strengths, and a penalty for each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from manykernels.estimators.strength import strength_from_alpha
from manykernels.estimators.supervised.samples import kernel_factors
from manykernels.exceptions import InvalidInputError
from manykernels.objective.regularizers import Penalty, Regularizer, check_penalty, get_regularizer
from manykernels.validation.arrays import check_count, check_positive

if TYPE_CHECKING:
    from manykernels.estimators.selection.folds import OpenedKernels
    from manykernels.estimators.supervised.problems import Fit
    from manykernels.objective.problem import Problem
    from manykernels.validation.arrays import Array


@dataclass(frozen=True)
class PenaltyFamily:
    """A penalty of which only the strength is open: a name or mapping with parameters, or an object.

    ``factors`` are kernel penalties of its own, those of the problems if None.
    """

    penalty: Penalty
    parameters: dict[str, Any]
    factors: Any = None

    def __post_init__(self) -> None:
        check_penalty(self.penalty)
        if not isinstance(self.penalty, (str, Mapping)) and self.parameters:
            raise InvalidInputError(f"{self.penalty!r} already has its parameters; drop {sorted(self.parameters)}.")

    def at(self, alpha: float, total_weight: float) -> Regularizer:
        """Return the penalty of strength ``alpha`` relative to the mean loss, for samples of this total weight."""
        if not isinstance(self.penalty, (str, Mapping)):
            return replace(self.penalty, strength=strength_from_alpha(alpha, total_weight))
        return get_regularizer(self.penalty, strength_from_alpha(alpha, total_weight), **self.parameters)

    @property
    def l1_ratio(self) -> float | None:
        """The mixture of linear and other terms, None if there is none or several."""
        ratio = getattr(self.at(1.0, 1.0), "l1_ratio", np.nan)
        return None if np.isnan(ratio) else float(ratio)

    @property
    def averages(self) -> bool:
        """Whether the weights of kernels are given: solvers know of penalties with a name."""
        return False

    def posed(self, problems: list[Problem], names: tuple[str, ...]) -> list[Problem]:
        """Return the problems under the kernel penalties of this family."""
        if self.factors is None:
            return problems
        return [replace(problem, kernel_penalties=kernel_factors(self.factors, names)) for problem in problems]

    def embedded(self, fit: Fit, problems: Sequence[Problem]) -> Fit:
        """Return the solutions: they are on all kernels."""
        return fit

    def penalties(self, strength: float, opened: OpenedKernels) -> list[Regularizer]:
        """Return the penalty of each problem at a strength relative to the mean loss of some rows."""
        return [self.at(strength, opened.samples.total_weight)] * len(opened.problems)

    @property
    def unit(self) -> Regularizer:
        """One of the penalties."""
        return self.at(1.0, 1.0)

    def told(self, strength: float) -> dict[str, Any]:
        """Return what a strength is told by in tables."""
        ratio = {} if self.l1_ratio is None else {"l1_ratio": self.l1_ratio}
        factors = {} if self.factors is None else {"kernel_penalties": str(dict(self.factors))}
        return {"alpha": strength} | ratio | factors

    def settings(self, strength: float) -> dict[str, Any]:
        """Return the parameters of an estimator at a given strength that tell this model."""
        return {"alpha": strength} | ({} if self.factors is None else {"kernel_penalties": self.factors})

    def alpha_max(self, problems: list[Problem]) -> float:
        """Smallest ``alpha`` at which no problem selects a kernel; the problems' own penalties do not count."""
        unit = self.at(1.0, 1.0)
        told = [problem for problem in problems if not problem.constant_target]
        posed = [problem.with_penalty(unit) for problem in told]
        # What a pass over the model without kernels finds stays with the problem, which every penalty begins with.
        asked = [
            problem if np.array_equal(problem.unpenalized, one.unpenalized) else one
            for problem, one in zip(told, posed, strict=True)
        ]
        norms = (problem.empty_norms() for problem in asked)
        starts = (p.regularizer.path_start(own) / p.total_weight for p, own in zip(posed, norms, strict=True))
        largest = max(starts, default=0.0)
        if not np.isfinite(largest):
            raise InvalidInputError(
                f"Under penalty {self.penalty!r} with {self.parameters} every kernel has a weight at any strength, so "
                "no alpha is the largest to start from: give alphas, for example numpy.geomspace(10, 1e-3, 25)."
            )
        if not largest > 0:
            raise InvalidInputError(
                "The best constant model fits the target perfectly, or every kernel is zero: there is nothing that a "
                "path could select. Check y and the kernels, or give alphas."
            )
        return float(largest)


def tried_factors(kernel_penalties: Any) -> list[Any] | None:
    """Return the kernel penalties to be tried one after the other, None where there is one answer.

    Factors of kernels are a vector or a dictionary; to be tried is a list of dictionaries.
    """
    if not isinstance(kernel_penalties, (list, tuple)) or not any(isinstance(own, Mapping) for own in kernel_penalties):
        return None
    if not all(isinstance(own, Mapping) for own in kernel_penalties):
        raise InvalidInputError(
            "kernel_penalties to be tried are a list of dictionaries, such as [{'* x *': 1}, {'* x *': 2}]; got "
            f"{list(kernel_penalties)!r}."
        )
    return list(kernel_penalties)


def alpha_grid(alpha_max: float, n_alphas: int, alpha_min_ratio: float) -> Array:
    """Return a geometric grid from ``alpha_max`` down to ``alpha_min_ratio * alpha_max``."""
    check_count(n_alphas, "n_alphas")
    if not 0 < check_positive(alpha_min_ratio, "alpha_min_ratio") < 1:
        raise InvalidInputError(
            f"alpha_min_ratio, the smallest alpha over the largest, must be between 0 and 1, got {alpha_min_ratio!r}."
        )
    grid = np.geomspace(alpha_max, alpha_min_ratio * alpha_max, n_alphas)
    grid[0] = alpha_max
    return grid


def checked_alphas(alphas: Any) -> Array:
    """Return given strengths in decreasing order, or say which of them cannot be one."""
    values = np.array(alphas, dtype=np.float64, ndmin=1)
    if values.ndim != 1 or values.size == 0:
        raise InvalidInputError(f"alphas must be a non-empty vector of strengths, got shape {values.shape}.")
    for value in values:
        check_positive(value, "every alpha")
    return -np.sort(-values)
