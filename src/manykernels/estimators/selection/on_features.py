"""Averages of kernels as features, for example projections on landmarks.

Features of training rows are centered, with adjusted intercepts; held-out rows use the features learned by the fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from manykernels.estimators.selection.averages import AverageKernel, AverageModels, fit_averages
from manykernels.estimators.supervised.problems import Fit
from manykernels.grams.factored import ColumnTable
from manykernels.kernels import Landmarks, ObjectKernel
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.tables.encoding import numbers_of
from manykernels.objective.certificate import Certificate, KKTResiduals
from manykernels.solvers import Solution
from manykernels.solvers.factored.model import FactorFunctions
from manykernels.solvers.factored.objective import Coefficients
from manykernels.solvers.factored.state import COARSE, FIRST_SMOOTHING, Component, Start
from manykernels.validation.arrays import Array

if TYPE_CHECKING:
    from manykernels.grams.training import Training
    from manykernels.objective.problem import Problem

BEGUN = 0.1  # of the gap that is asked for: what averages on features leave to the solver that certifies them
ROWS_SQUARED = 4096  # of features, that are summed in their own precision before sums are in double


def stands_as_features(training: Training, kernels: Array) -> bool:
    """Return whether some kernels are few features per landmark of several columns."""
    stack: Any = training.stack
    if not training.factored or not training.landmarks or stack.table.chunked or stack.shaped or training.centered:
        return False
    return stack.few_columns and all(len(stack.columns_of(m)) > 1 for m in kernels.tolist())


def reads_features(training: Training, problem: Problem) -> bool:
    """Whether functions of held-out rows are to be sums of features: of a bank on landmarks of numbers in columns."""
    objects = any(isinstance(spec, ObjectKernel) for spec in training.bank.table.specs) if training.landmarks else True
    return training.factored and not (objects or training.centered or problem.shared)


def n_features(stack: Any, kernels: Array) -> int:
    """Return how many features some kernels have."""
    return int(_starts(stack, kernels)[-1])


def _starts(stack: Any, kernels: Array) -> Array:
    """Return the start of the features of every kernel, and the end of the last features."""
    ranks = [int(template.starts[-1]) for m in kernels.tolist() for template in stack.templates([m], COARSE)]
    return np.cumsum([0, *ranks])


def read_as(training: Training, rows: Any) -> ColumnTable:
    """Return rows as the kernels of a fitted bank read columns."""
    columns = np.asfortranarray(numbers_of(training.bank.table.values(Table.wrap(rows))))
    stack: Any = training.stack
    table = ColumnTable(columns, missing="mask" if np.isnan(columns).any() else "error")
    table.kept_dtype = stack.table.kept_dtype
    return table


def features_of(
    stack: Any,
    kernels: Array,
    weights: Array,
    held_out: ColumnTable | None,
    *,
    centered: bool,
    dtype: Any = np.float64,
) -> AverageKernel:
    """Return the weighted sum of kernels as features of training rows, and of new rows."""
    starts = _starts(stack, kernels)
    own = np.empty((stack.n_samples, starts[-1]), dtype=dtype)
    others = np.empty((0 if held_out is None else held_out.n_rows, starts[-1]), dtype=dtype)
    means = np.zeros(starts[-1])
    for slot, m in enumerate(kernels.tolist()):
        part, root = slice(starts[slot], starts[slot + 1]), float(np.sqrt(weights[m]))
        features = root * stack.factor(m, COARSE)
        means[part] = features.mean(axis=0) if centered else 0.0
        features -= means[part]
        own[:, part] = features
        if held_out is not None:
            others[:, part] = root * stack.features(m, held_out, COARSE) - means[part]
    pieces = (own[start : start + ROWS_SQUARED] for start in range(0, len(own), ROWS_SQUARED))
    gram = sum((piece.T @ piece for piece in pieces), start=np.zeros((1, 1)))
    return AverageKernel(own, others, means, centered, gram=_pack(gram, dtype))


def _pack(gram: Array, dtype: Any) -> Array:
    """Return the lower triangle of a symmetric matrix, column after column."""
    (trttp,) = get_lapack_funcs(("trttp",), (gram,))
    return np.asarray(trttp(gram.T, uplo="L")[0].astype(dtype, copy=False))


def scores_of(training: Training, rows: ColumnTable, solutions: Sequence[Solution]) -> Array:
    """Return the functions of solutions on factors at prepared rows, (n, K), with shared features."""
    stack: Any = training.stack
    columns = []
    for found in solutions:
        functions: Any = found.functions
        sums = np.zeros(rows.n_rows)
        for part in functions.components:
            if part.tol is not None and isinstance(stack.spec_of(part.kernel), Landmarks):
                sums += stack.features(part.kernel, rows, part.tol) @ part.coefficients
            else:
                sums += part.values(stack, rows)
        columns.append(sums)
    return np.column_stack(columns)


def fit_of(problems: Sequence[Problem], models: AverageModels) -> Fit:
    """Return averages as uncertified solutions on all kernels, for consumers of functions."""
    assert models.weights is not None
    weights = models.weights
    kernels, stack = np.flatnonzero(weights), problems[0].stack
    found = solutions_of(problems, stack, kernels, kernels, weights, models)
    return Fit(list(problems), found, np.zeros((len(problems), len(weights))))


def solutions_of(
    problems: Sequence[Problem], stack: Any, kernels: Array, named: Array, weights: Array, models: AverageModels
) -> list[Solution]:
    """Return averages as models on a stack where the kernels have the names, for others to begin from.

    Scores, the source of dual coefficients, come from the kernel of the models; zero after its release.
    """
    nothing = Certificate.from_values(np.inf, -np.inf, 1.0, KKTResiduals(*[np.inf] * 5))
    starts = _starts(stack, named)
    coefficients, intercepts = models.expansions
    fitted = None if models.kernel is None else models.fitted
    found = []
    for k, problem in enumerate(problems):
        strength, b = float(models.strengths[k]), float(intercepts[k])
        parts = np.repeat(np.sqrt(weights[kernels]), np.diff(starts)) * coefficients[:, k]
        own = [
            Component(int(m), parts[low:high], COARSE)
            for m, low, high in zip(named, starts[:-1], starts[1:], strict=True)
        ]
        start = Start(named, Coefficients(named, starts, parts), b, COARSE, FIRST_SMOOTHING, strength=strength)
        rho = np.zeros(problem.n_samples)
        if fitted is not None:
            rho = problem.feasible_dual(problem.weight * problem.loss.dual_from_scores(problem.y, fitted[:, k]))
        shares = np.zeros(stack.n_kernels)
        shares[named] = weights[kernels] / strength
        found.append(Solution(rho, shares, b, nothing, functions=FactorFunctions(stack, tuple(own), start=start)))
    return found


def start_on_features(opened: Any, family: Any, strength: float) -> list[Solution]:
    """Return averages of all rows as a start for the certifying solver."""
    problems, stack = opened.problems, opened.training.stack
    weights, losses = family.weights / problems[0].penalties ** 2, [problem.loss for problem in problems]
    kernel = features_of(stack, family.kernels, weights, None, centered=problems[0].fit_intercept)
    targets, strengths = np.column_stack([problem.y for problem in problems]), family.strengths(strength, opened)
    models = fit_averages(kernel, losses, targets, opened.samples.weight, strengths, tol=BEGUN * opened.tol)
    named = np.arange(len(family.kernels)) if len(family.kernels) < len(weights) else family.kernels
    return solutions_of(problems, family.pose(problems[0]).stack, family.kernels, named, weights, models)
