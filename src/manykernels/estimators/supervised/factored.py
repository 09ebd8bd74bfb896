"""What a model of kernels held as factors keeps to predict: a function a kernel, and no training sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from manykernels.estimators.supervised.problems import Fit
from manykernels.grams.factored import FactoredStack
from manykernels.grams.factored.prediction import KernelFunction
from manykernels.grams.prediction import KernelExpansion
from manykernels.kernels import FittedBank
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.specs.categorical import UNSEEN
from manykernels.kernels.tables.encoding import numbers_of
from manykernels.solvers import Solution
from manykernels.solvers.factored.state import Component
from manykernels.validation.arrays import Array

if TYPE_CHECKING:
    from manykernels.grams.training import Training

CHUNK_ROWS = 16384


@dataclass(frozen=True, eq=False)
class KernelPart:
    """What one kernel adds to one score: a function of its columns, less its mean over the training rows if centered.

    Attributes
    ----------
    target, kernel : int
        Which score, and which of the active kernels.
    function : FourierSeries or LandmarkFunction
    offset : float
    """

    target: int  # which score, and which of the active kernels
    kernel: int  # which score, and which of the active kernels
    function: KernelFunction
    offset: float

    def __call__(self, points: Array) -> Array:
        """Return the part at points of the kernel's columns."""
        return self.function(points) - self.offset


@dataclass(frozen=True, eq=False)
class FactoredExpansion:
    """``f_k(x) = sum_m f_km(x)`` on active kernels, each a function of a few numbers, whatever the training rows were.

    Attributes
    ----------
    bank : FittedBank
        Active kernels only (the first kernel if there is none).
    active : (m,) int
        Positions of the active kernels among all.
    n_kernels : int
        Number of all kernels.
    weights : (K, m) float64
        ``d`` of the active kernels.
    parts : tuple of KernelPart
    """

    bank: FittedBank  # active kernels only (the first kernel if there is none)
    active: Array  # (m,) int: positions of the active kernels among all
    n_kernels: int  # number of all kernels
    weights: Array  # (K, m) float64: d of the active kernels
    parts: tuple[KernelPart, ...]

    of_samples: ClassVar[bool] = False

    @property
    def n_targets(self) -> int:
        """Number of functions, K."""
        return len(self.weights)

    def scores(self, X: Any) -> Array:
        """Return the functions without intercept at new rows, (n, K) float64."""
        table = Table.of(X)
        scores = np.zeros((len(table), self.n_targets))
        for at, values in self._chunks(table):
            for part in self.parts:
                scores[at, part.target] += self._part(part, values)
        return scores

    def contributions(self, X: Any) -> Array:
        """Return what every kernel adds to every function, (M, n, K) float64; zero for inactive kernels."""
        active = self.active_contributions(X)
        parts = np.zeros((self.n_kernels, *active.shape[1:]))
        parts[self.active] = active
        return parts

    def active_contributions(self, X: Any) -> Array:
        """Return what every active kernel adds to every function, (m, n, K) float64."""
        table = Table.of(X)
        out = np.zeros((self.active.size, len(table), self.n_targets))
        for at, values in self._chunks(table):
            for part in self.parts:
                out[part.kernel, at, part.target] = self._part(part, values)
        return out

    def _chunks(self, table: Table) -> Iterator[tuple[slice, Any]]:
        """Yield slices of rows and their columns in use, standardized."""
        for start in range(0, len(table), CHUNK_ROWS):
            at = slice(start, min(start + CHUNK_ROWS, len(table)))
            whole = at == slice(0, len(table))
            yield at, self.bank.table.values(table if whole else table[np.arange(at.start, at.stop)])

    def _part(self, part: KernelPart, values: Any) -> Array:
        """Return a part at rows, (n,), from their columns, NaN where something is missing: the part is zero there."""
        own = self.bank.table
        places = np.searchsorted(own.used, own.positions[part.kernel])
        if own.specs[part.kernel].family == "features":
            return part(values.objects[int(places[0])])  # what is missing has no features
        points = np.ascontiguousarray(numbers_of(values)[:, places])
        gaps = np.isnan(points)
        if own.specs[part.kernel].family == "missing":
            return part(np.where(gaps, UNSEEN, 0.0))
        if not gaps.any():
            return part(points)
        return np.where(gaps.any(axis=1), 0.0, part(np.where(gaps, 0.0, points)))


Expansion = KernelExpansion | FactoredExpansion


def expanded(training: Training, fit: Fit) -> tuple[Expansion, Fit]:
    """Return what a model keeps of solutions, and the solutions, whose intercepts take up what centering removes."""
    weights = np.array([found.kernel_weights for found in fit.solutions])
    if not training.stack.has_factors:
        rho = np.vstack([found.dual_coef.T for found in fit.solutions])
        return KernelExpansion.of(training.bank, training.prepared, weights, rho), fit
    stack, active = cast("FactoredStack", training.stack), np.flatnonzero(weights.any(axis=0))
    place = {int(m): slot for slot, m in enumerate(active)}
    parts: list[KernelPart] = []
    solutions: list[Solution] = []
    for target, found in enumerate(fit.solutions):
        functions: Any = found.functions
        alive = [component for component in functions.components if component.kernel in place]
        own = [_part(stack, component, target, place, training.centered) for component in alive]
        parts += own
        # Without an intercept a shift of all scores says nothing: it is left out.
        free, shape = fit.problems[target].fit_intercept, np.shape(found.intercept)
        solutions.append(replace(found, intercept=found.intercept + _offsets(own, target, shape) * free))
    bank: Any = training.bank.take(active if active.size else [0])
    n_targets = sum(np.size(found.intercept) for found in solutions)  # with shared weights all have the same
    every = np.repeat(weights[:, active], n_targets // len(weights), axis=0)
    kept = FactoredExpansion(bank, active, len(training.bank), every, tuple(parts))
    return kept, Fit(fit.problems, solutions, fit.norms)


def _offsets(parts: Sequence[KernelPart], first: int, shape: tuple[int, ...]) -> Any:
    """Return the sums of the offsets of parts by target, a number for one; ``first`` is the first target."""
    sums = np.zeros(shape or 1)
    for part in parts:
        sums[part.target - first] += part.offset
    return sums if shape else float(sums[0])


def _part(stack: FactoredStack, component: Component, target: int, place: dict[int, int], centered: bool) -> KernelPart:
    """Return a component as a function that needs no stack."""
    kernel, v = component.kernel, component.coefficients
    function = stack.expansion(kernel, v) if component.tol is None else stack.portable(kernel, v, component.tol)
    offset = _mean(stack, kernel, function) if centered else 0.0
    return KernelPart(target + component.target, place[kernel], function, offset)


def _mean(stack: FactoredStack, kernel: int, function: KernelFunction) -> float:
    """Return the mean of a function over the training rows."""
    n, columns = stack.n_samples, stack.columns_of(kernel)
    starts: Sequence[int] = range(0, n, CHUNK_ROWS)
    sums = [function(stack.table.points(columns, slice(start, start + CHUNK_ROWS))).sum() for start in starts]
    return float(sum(sums)) / n
