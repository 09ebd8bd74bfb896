"""What a model of kernels held as factors keeps to predict: a function a kernel, and no training sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from manykernels.estimators.supervised.problems import Fit
from manykernels.grams.factored import FactoredStack
from manykernels.grams.factored.prediction import CHUNK_ROWS, FactoredExpansion, KernelFunction, KernelPart
from manykernels.grams.prediction import KernelExpansion
from manykernels.solvers import Solution
from manykernels.solvers.factored.state import Component

if TYPE_CHECKING:
    from manykernels.grams.training import Training


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
    function = component.function(stack)
    offset = _mean(stack, component.kernel, function) if centered else 0.0
    return KernelPart(target + component.target, place[component.kernel], function, offset)


def _mean(stack: FactoredStack, kernel: int, function: KernelFunction) -> float:
    """Return the mean of a function over the training rows."""
    n, columns = stack.n_samples, stack.columns_of(kernel)
    starts: Sequence[int] = range(0, n, CHUNK_ROWS)
    sums = [function(stack.table.points(columns, slice(start, start + CHUNK_ROWS))).sum() for start in starts]
    return float(sum(sums)) / n
