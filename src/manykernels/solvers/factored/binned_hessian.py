"""Hessians of kernels on single columns from sums over pairs of bins: their cost hardly grows with the rows.

    sum_i w_i z_a(x_i) z_b(x_i)'  =  T_a' S_ab T_b,      S_ab[p, q] = sum of w_i over rows in bin p of a and bin q of b

for factors of the columns ``a`` and ``b``, with the rows of ``T_a`` those in the middle of bins: a row adds one number
to each pair of columns, whatever the number of coefficients. Bins are a tenth of a width, which changes curvatures by
about a hundredth as long as many rows share them. Rows that have much of the curvature are few, and matter one by one:
two for each coefficient are summed as they are, in every output those of its own. (Without them, interior
points on 10,000 rows of 40 kernels and five classes were at a gap of 5e-4 after 61 steps; with them, at 4e-5 after 39.)
"""

from itertools import pairwise
from typing import Any

import numpy as np

from manykernels.compiled import compiled
from manykernels.grams.loops import FAST
from manykernels.solvers.factored.objective import FactoredObjective
from manykernels.solvers.factored.rounded_descent import rounded_operators
from manykernels.validation.arrays import Array

ROWS_PER_RANK = 2  # for each coefficient of an output, that are summed as they are
# Products, as those of a Hessian in double precision, that a row of a pair of columns takes, and one of its outputs
PAIR_COST, OUTPUT_COST = 80.0, 75.0
TABLE_COST = 1.5  # of a product of sums with tables, which are small, in single precision
BINS = 300  # about, of a column


@compiled(fastmath=FAST)
def sums_of_pairs(code: Array, other: Array, weights: Array, out: Array) -> None:
    """Set ``out`` (B, C, T) to the sums of rows of ``weights`` (N, T) in every pair of bins."""
    out[:] = 0.0
    for i in range(code.size):
        target, own = out[code[i], other[i]], weights[i]
        for t in range(own.size):
            target[t] += own[t]


def binned_hessian(objective: FactoredObjective, weights: Array, *, intercept: bool) -> Array:
    """Return ``Z' diag(w_t) Z`` of every output for weights (N, T), about; (1, r, r) where these are all alike.

    Sums are in single precision but for what a kernel's own column has: columns act on each other less.
    """
    operators = rounded_operators(objective)
    alike = bool((weights == weights[:, :1]).all())
    rows = np.array((weights[:, :1] if alike else weights).T, dtype=np.float32, order="C")
    ends = np.cumsum([0] + [int(operator.starts[-1]) for operator in operators]).tolist()
    H = np.zeros((len(rows), ends[-1] + intercept, ends[-1] + intercept))
    for own, left in zip(H, rows, strict=True):
        own += _of_heaviest(operators, left, ends[-1], intercept=intercept)
    codes = np.empty((len(operators), rows.shape[1]), dtype=np.int16)
    tables = [operator.rounded(code) for operator, code in zip(operators, codes, strict=True)]
    left, none = np.ascontiguousarray(rows.T), np.zeros(rows.shape[1], dtype=np.int16)
    parts, narrow = [slice(*ends) for ends in pairwise(ends)], [table.astype(np.float32) for table in tables]
    for j, (part, table) in enumerate(zip(parts, tables, strict=True)):
        for own, sums in zip(H, _pairs(codes[j], none, len(table), 1, left), strict=True):
            own[part, part] += (table.T * sums[:, 0]) @ table
            if intercept:
                own[part, -1] += table.T @ sums[:, 0]
        for k in range(j):
            for own, sums in zip(H, _pairs(codes[j], codes[k], len(table), len(tables[k]), left), strict=True):
                own[part, parts[k]] += narrow[j].T @ (sums @ narrow[k])
    for own, total in zip(H, rows.sum(axis=1, dtype=np.float64), strict=True):
        for j, part in enumerate(parts):
            own[: ends[j], part] = own[part, : ends[j]].T
        if intercept:
            own[-1, :-1], own[-1, -1] = own[:-1, -1], own[-1, -1] + total
    return H


def _pairs(code: Array, other: Array, bins: int, others: int, weights: Array) -> Array:
    """Return the sums over pairs of bins, (T, B, C)."""
    out = np.empty((bins, others, weights.shape[1]), dtype=np.float32)
    sums_of_pairs(code, other, weights, out)
    return np.ascontiguousarray(out.transpose(2, 0, 1))


def _of_heaviest(operators: list[Any], weights: Array, rank: int, *, intercept: bool) -> Array:
    """Return the sum over the rows of the largest weights, which are set to zero."""
    count = min(ROWS_PER_RANK * rank, len(weights))
    chosen = np.sort(np.argpartition(weights, len(weights) - count)[len(weights) - count :])
    root = np.sqrt(weights[chosen])[:, None]
    Z, low = np.empty((count, rank + intercept), dtype=np.float32), 0
    for operator in operators:
        high = low + int(operator.starts[-1])
        np.multiply(operator.rows(chosen), root, out=Z[:, low:high], casting="same_kind")
        low = high
    Z[:, low:] = root
    weights[chosen] = 0.0
    return np.asarray(Z.T @ Z)


def binned_products(objective: FactoredObjective) -> float:
    """Return about how many products, as those of a Hessian, such a one takes; infinite where it does not apply.

    It applies to functions of single columns in memory, and to several outputs of a loss with kinks as it is. Smoothed,
    it has curvature in too few rows: 1e5 rows of 40 kernels and five classes took 92 steps in place of 74 by sweeps.
    """
    outputs = objective.n_outputs
    if outputs == 1 or objective.problem.loss.smooth or np.max(objective.mu) > 0.0 or not rounded_operators(objective):
        return np.inf
    columns, rank = len(objective.operators), float(objective.rank) / outputs
    pairs = columns * (columns + 1) / 2.0
    sums = pairs * objective.problem.n_samples * (PAIR_COST + OUTPUT_COST * outputs)
    tables = outputs * (columns - 1) * BINS * rank * (BINS + rank / columns) / 2.0
    return sums + TABLE_COST * tables + ROWS_PER_RANK * rank * objective.products
