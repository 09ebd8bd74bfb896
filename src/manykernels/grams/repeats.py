"""Kernels of repeated points, and linear kernels of single columns, without a matrix among all samples."""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from manykernels.exceptions import InvalidInputError
from manykernels.grams.distinct import Distinct, Lines
from manykernels.kernels import FittedBank, KernelBank, Linear, PreparedRows
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.bank.patterns import NamedKernel, distinct_specs, transposed
from manykernels.kernels.specs.distances import SparsePoints
from manykernels.validation.arrays import Array

# Seconds, by which it is decided what is held among distinct points, measured by `python benchmarks/distinct.py`
READ = 4.3e-10  # an entry of a triangle, in a weighted sum, a product or a form
SPREAD, SPREAD_ROW = 6e-10, 1.5e-12  # an entry of a weighted sum, spread from one among v points: the second v times
UNPACKED = 6e-9  # an entry of a triangle among distinct points, made the matrix that is spread
OPERATION = 2e-5  # one of these on the kernels of one set of distinct points, however few these are


def pays(m: int, n: int, v: int) -> bool:
    """Return whether sums of ``m`` kernels among ``v`` of ``n`` points, and products, save time."""
    products = 2  # with a kernel, for each weighted sum that it is part of
    share = 0.5  # of the kernels of a column that are part of a sum, about
    read = READ * (1 + products) * share * m * (n * n - v * v) / 2
    spread = (SPREAD + SPREAD_ROW * v) * n * n / 2 + UNPACKED * v * v / 2
    return read > spread + (1 + products) * OPERATION


def worthwhile(bank: FittedBank, prepared: PreparedRows[Any]) -> list[Distinct]:
    """Return the kernels of a fitted bank with enough repeated points for matrices among distinct points."""
    if not pays(bank.n_kernels, prepared.n_samples, 1):
        return []
    sharing: dict[Any, list[int]] = {}  # groups of the same columns, whose points repeat alike
    groups, point_sets = bank.groups, prepared.data.point_sets
    for index, group in enumerate(groups):
        if not isinstance(point_sets[index], SparsePoints):
            sharing.setdefault(group.positions, []).append(index)
    found = []
    for alike in sharing.values():
        kernels = np.sort([kernel for index in alike for kernel in groups[index].kernels]).astype(np.intp)
        if not pays(len(kernels), prepared.n_samples, 1):
            continue
        points = point_sets[alike[0]]
        if prepared.factors is not None:  # rows that lack a column, or have a norm of their own
            points = np.column_stack([points, *prepared.factors[kernels]])
        by_point: dict[str, Any] = {"return_index": True, "return_inverse": True}
        _, samples, codes = np.unique(points[:, 0] if points.shape[1] == 1 else points, axis=0, **by_point)
        if pays(len(kernels), prepared.n_samples, len(samples)):
            found.append(Distinct(kernels, samples, codes.ravel().astype(np.uint32)))
    return found


def lines_of(bank: FittedBank, prepared: PreparedRows[Any], distinct: Sequence[Distinct]) -> Lines | None:
    """Return the linear kernels of single columns with more than few points; None for little gain."""
    taken = {kernel for own in distinct for kernel in own.kernels.tolist()}
    found: dict[int, Array] = {}
    if not bank.center and prepared.factors is None:
        for index, group in enumerate(bank.groups):
            pairs = zip(group.kernels, group.specs, strict=True)
            own = [kernel for kernel, spec in pairs if isinstance(spec, Linear) and kernel not in taken]
            if own and len(group.positions) == 1 and not isinstance(prepared.points(index), SparsePoints):
                points = prepared.points(index)
                found |= dict.fromkeys(own, points[:, 0]) if points.shape[1] == 1 else {}
    if not found or not pays(len(found), prepared.n_samples, 1):
        return None
    kernels = np.sort(np.fromiter(found, dtype=np.intp))
    features = np.array([found[kernel] for kernel in kernels.tolist()])
    return Lines(kernels, np.sqrt(bank.scales[kernels])[:, None] * features)


def repeats_of(bank: KernelBank, expanded: list[NamedKernel], table: Table) -> list[tuple[int, int]]:
    """Return numbers of kernels and of distinct points, where `build_stack` will hold matrices among these.

    Of linear kernels held as their columns the number of points is zero.
    """
    _, specs, columns_of = transposed(expanded)
    each = distinct_specs(specs).values()
    if any(spec.family == "features" for spec in each):
        counts = Counter(columns for _, spec, columns in expanded if spec.family != "features")
    else:
        counts = Counter(columns_of)
    found: list[tuple[int, int]] = []
    codes_of = cache(lambda j: pd.factorize(table.codes([j])[:, 0], use_na_sentinel=False)[0])
    linear = {id(spec) for spec in each if isinstance(spec, Linear)}
    lines = [columns for _, spec, columns in expanded if id(spec) in linear and len(columns) == 1] if linear else []
    worth = [columns for columns, m in counts.items() if pays(m, len(table), 1)]
    for columns in sorted(worth, key=len) if not table.is_sparse else ():
        n_points, codes = 1, np.zeros(len(table), dtype=np.int64)
        try:
            for own in map(codes_of, columns):
                codes = pd.factorize(codes * (int(own.max()) + 1) + own)[0] if n_points > 1 else own
                n_points = int(codes.max()) + 1
                if not pays(counts[columns], len(table), n_points):
                    break  # with more columns points only become more
        except InvalidInputError:
            continue  # fitting the bank says what is wrong with the column
        if pays(counts[columns], len(table), n_points):
            found.append((counts[columns], n_points))
            lines = [each for each in lines if each != columns]
    scaled_by_row = bank.center or bank.normalize == "unit_diagonal" or bank.missing != "error"
    if lines and not scaled_by_row and not table.is_sparse and pays(len(lines), len(table), 1):
        found.append((len(lines), 0))
    return found
