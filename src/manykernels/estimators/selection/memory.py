"""The memory of a search in advance: in words, as data, and as a check against the budget."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from manykernels.estimators.selection.averages import KEPT_ROWS, MOST_DOUBLE, can_average
from manykernels.estimators.selection.folds import FIRST_FOLDS
from manykernels.estimators.selection.mixtures import MOST_SELECTED
from manykernels.estimators.selection.splits import N_FOLDS
from manykernels.estimators.strength import AUTO, default_fraction
from manykernels.exceptions import MemoryBudgetError
from manykernels.grams.base import MOST_SAMPLES
from manykernels.grams.plan import (
    FACTORED,
    FEWEST_SQUARES,
    FLOOR_BYTES,
    GRAM,
    LIKELY_SHARE,
    SINGLE_PRECISION_TOL,
    SQUARE_ARRAYS,
    MemoryPlan,
    format_bytes,
    plan_as_given,
)
from manykernels.grams.repeats import repeats_of
from manykernels.grams.training import LAZY
from manykernels.kernels import KernelBank, KernelStack, Landmarks, Linear
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.bank.patterns import NamedKernel
from manykernels.objective.regularizers import BlockL1

if TYPE_CHECKING:
    from manykernels.estimators.supervised.base import BaseMKL
    from manykernels.estimators.supervised.samples import Samples
    from manykernels.objective.losses import Loss

# Traced by `python benchmarks/memory_limits.py --traced`
FOLD_KERNEL = 7_000  # bytes of what an open fold knows of a kernel beside its matrix or its function in pieces
FOLD_MODELS = 36  # float64 a sample, target and fold: about three strengths of each average, until one is chosen
# float32 among the samples and all rows of a fold, beside the sums of those open: one in double precision, its factor
AVERAGE_ROUNDED = 3
PRODUCTS = 10  # float64 an entry of the products of each kernel with coefficients of several targets
PATIENCE_OF_AVERAGES = 8.0  # predicted seconds of one fit on matrices, at which searches on landmarks take as long
# Rows up to which averages of one target are of exact kernels, each fold of which holds one matrix at a time; times the
# square root of the number of targets, and of that of columns beyond a few
MOST_EXACT, FEW_COLUMNS = 6_000, 200


@dataclass(frozen=True)
class SearchSizes:
    """What a search tries, as far as it decides what the search holds.

    Attributes
    ----------
    n_folds : int
    n_targets : int
        Every target has separate active kernels.
    mixtures : bool
        Whether mixtures are searched; else a grid of strengths, for which folds are opened one at a time.
    averages, selects : bool
        Whether averages of kernels are tried, and whether anything else is.
    rounded : bool
        Whether folds have features and copies of matrices in single precision.
    n_triangles : float or None
        Kernels whose triangles a fold holds, where those among points that repeat take a part of one; None is all.
    landmarks : tuple of int
        Their numbers, of kernels of several columns that are projected on some: folds have features of their own.
    apart : bool
        Whether kernels that are matrices for averages are factors for what selects: matrices are of about half of the
        rows, which go first.
    projected : bool
        Whether the factors are of kernels on landmarks, and averages of the exact kernels.
    """

    n_folds: int
    n_targets: int = 1
    mixtures: bool = True
    averages: bool = True
    selects: bool = True
    rounded: bool = True
    n_triangles: float | None = None
    landmarks: tuple[int, ...] = ()
    apart: bool = False
    projected: bool = False

    def rows(self, n_samples: int) -> int:
        """Return the number of rows that a fold learns from."""
        return n_samples - n_samples // self.n_folds

    def rows_of_matrices(self, n_samples: int) -> int:
        """Return the number of rows among which a fold has matrices of all kernels."""
        return self.rows(n_samples) // (2 if self.apart else 1)


def plan_of_search(
    search: Any, plain: BaseMKL, samples: Samples, loss: Loss, groups: Any, projected: BaseMKL | None = None
) -> tuple[MemoryPlan | None, tuple[str, str]]:
    """Return the memory plan of a search; None for kernels of pairs.

    With it how kernels are held, for averages and for what selects: as factors or as matrices. Kernels selected are
    those of the ``projected`` estimator, if any.
    """
    mixtures, n = search._searches, len(samples.rows)
    penalty = BlockL1(1.0) if mixtures else search._families()[0].create_penalty(1.0, 1.0)
    fit = (projected or plain)._planned(samples, loss, penalty, kind=AUTO)
    plan = plain._planned(samples, loss, penalty, kind=LAZY if mixtures else AUTO)
    own = SearchSizes(
        n_folds_of(search.cv, n, groups),
        samples.y.shape[1],
        mixtures,
        mixtures and can_average([loss]),
        not (mixtures and search._named_penalty == "ridge") and samples.y.shape[1] <= MOST_SELECTED,
        search.scoring is None and search._fold_tol >= SINGLE_PRECISION_TOL,
    )
    if isinstance(samples.rows, KernelStack):
        return plan_given(samples.rows.n_kernels, n, own, search._resources.memory_budget), (GRAM, GRAM)
    if fit is None or plan is None:
        return None, (GRAM, GRAM)
    fit, bank = fit.at_fraction(default_fraction(n)), (projected or plain).kernels
    table = Table.wrap(samples.rows, sparse=True)
    expanded = bank.expand(table)
    form = FACTORED if plan.kind == FACTORED else GRAM
    # Matrices beside factors (those that a fit may do without) take as long in a fold as matrices alone.
    apart = fit.kind == FACTORED and not fit.optional_nbytes and own.averages and search.solver == AUTO
    landmarks = tuple(spec.count for _, spec, cols in expanded if len(cols) > 1 and isinstance(spec, Landmarks))
    own = replace(own, landmarks=landmarks, apart=apart, projected=projected is not None)
    if projected is None:
        own = replace(own, n_triangles=_n_triangles(bank, expanded, table, own.rows_of_matrices(n)))
    return plan_search(plan, fit, own), (form, FACTORED if apart else form)


def _n_triangles(bank: KernelBank, kernels: Sequence[NamedKernel], table: Table, n: int) -> float:
    """Return the approximate number of stored triangles among n rows, counting distinct points only."""
    found = 0.0
    by_columns: dict[tuple[int, ...], list[NamedKernel]] = {}
    for kernel in kernels:
        by_columns.setdefault(kernel[2], []).append(kernel)
    for own in by_columns.values():
        repeats = [(m, points) for m, points in repeats_of(bank, own, table) if points]
        found += sum(m * min(points, n) ** 2 for m, points in repeats) / n**2
        if not repeats:
            found += sum(not (isinstance(spec, Linear) and len(columns) == 1) for _, spec, columns in own)
    return found


def patience_of(search: Any, loss: Loss) -> float | None:
    """Return the seconds below which the default bank of a search stays on matrices; None for the limit of a fit.

    Averages of all kernels are sums of matrices, which take less than fits on landmarks at every strength.
    """
    averages = search._searches and can_average([loss]) and search._resources.representation != FACTORED
    return PATIENCE_OF_AVERAGES if averages else None


def keeps_exact(search: Any, loss: Loss, rows: Any, n_targets: int = 1) -> bool:
    """Return True if averages use exact kernels where selected kernels are projected on landmarks.

    Matrices are used in default searches with the squared loss, up to `MOST_EXACT` rows, fewer for several targets or
    many columns. With the logistic loss landmarks scored higher (two classes of covtype, 6,000 rows: .910 in 99 s,
    exact .904 in 124 s).
    """
    asked = search._resources.representation != AUTO or search.l1_ratios is not None or search.solver != AUTO
    if asked or not loss.linear_dual or patience_of(search, loss) is None or search._named_penalty != AUTO:
        return False
    more = n_targets * max(getattr(rows, "n_columns", 1) / FEW_COLUMNS, 1.0)
    return bool(len(rows) * np.sqrt(more) <= MOST_EXACT)


def n_folds_of(cv: Any, n_samples: int, groups: Any) -> int:
    """Return the number of folds, or the default for unknown splitters."""
    if cv is None or isinstance(cv, numbers.Integral):
        return max(min(N_FOLDS, n_samples) if cv is None else int(cv), 2)
    try:
        found = cv.get_n_splits(np.zeros(n_samples), groups=groups) if hasattr(cv, "get_n_splits") else len(cv)
    except (TypeError, ValueError):
        return N_FOLDS
    return max(int(found), 2)


def plan_search(plan: MemoryPlan, fit: MemoryPlan, own: SearchSizes) -> MemoryPlan:
    """Return the memory of a search over folds, for few to many active kernels.

    On factors folds have columns and models of their own, all of them or of a grid one at a time. On matrices it is the
    largest of sums of the kernels of the folds that fit side by side, matrices of those that do, and the last fit.

    Parameters
    ----------
    plan : MemoryPlan
        Of the kernels on all rows as the search holds them.
    fit : MemoryPlan
        Of a single fit: folds that are open side by side may take as much once more.
    own : SearchSizes

    Raises
    ------
    MemoryBudgetError
        If the search takes more than the memory budget however few kernels take part.

    Examples
    --------
    >>> from manykernels.grams.plan import plan_kernels
    >>> fit = plan_kernels(30, 6_000, 10, memory_budget="1 GB", representation="factored", column_bytes=0)
    >>> plan_search(fit, fit, SearchSizes(5)).kind
    'factored'
    """
    n, reason = plan.n_samples, plan.reason
    if plan.kind == FACTORED:
        least, most = _predict_factors(plan, own)
    elif not own.mixtures:
        share = int(plan.nbytes * (own.rows(n) / n) ** 2)  # of the one fold that is open
        least, most = plan.least_nbytes + share, plan.most_nbytes + share
    elif own.projected:
        least, most = _exact_average_memory(fit, own)
        reason = "Averages of exact kernels, whose sum is held in single precision; what selects has landmarks."
    else:
        least, most = _matrix_memory(fit, own)
        reason = "Matrices in single precision while they are read."
    nbytes = plan.nbytes if plan.kind == FACTORED else 0
    sizes: dict[str, Any] = {
        "nbytes": nbytes,
        "working_nbytes": most - nbytes,
        "varying_nbytes": most - least,
        "optional_nbytes": 0,
    }
    return _allowed(replace(plan, reason=reason, **sizes), own, f", which takes {fit.expected}")


def _predict_factors(plan: MemoryPlan, own: SearchSizes) -> tuple[int, int]:
    """Return the memory of a search on factors, for few to many active kernels."""
    n, n_open = plan.n_samples, own.n_folds if own.mixtures else 1
    features, squares = sum(own.landmarks), sum(count**2 for count in own.landmarks)
    itemsize = 4 if own.rounded else 8
    folds = n_open * (8 * own.rows(n) * plan.n_columns + itemsize * n * features + FOLD_KERNEL * plan.n_kernels)
    folds += 8 * (n_open + 1) * squares + 8 * FOLD_MODELS * n_open * n * plan.n_targets
    summed = itemsize * features * (n + features) if own.averages else 0
    return folds + max(plan.least_nbytes, summed), folds + plan.most_nbytes + summed


def _matrix_memory(fit: MemoryPlan, own: SearchSizes) -> tuple[int, int]:
    """Return what a search on matrices holds, from few kernels that take part to many."""
    m, n, rows = fit.n_kernels, fit.n_samples, own.rows_of_matrices(fit.n_samples)
    square, triangles = 8 * rows**2, int(2 * (m if own.n_triangles is None else own.n_triangles) * rows * (rows + 1))
    side_by_side = _side_by_side(triangles, own.n_folds, fit.room_for_folds)
    objects = FOLD_KERNEL * m * max(own.n_folds - N_FOLDS, 0)
    sums = objects + _sum_memory(fit, own)
    last = (
        (_average_memory(n) if own.averages else fit.least_nbytes),
        max(fit.most_nbytes, _average_memory(n) * own.averages),
    )
    if own.apart:
        columns = 8 * own.n_folds * own.rows(n) * fit.n_columns + FOLD_KERNEL * m * own.n_folds
        last = fit.expected_nbytes + columns, max(fit.most_nbytes + columns, 8 * FEWEST_SQUARES * n**2)
    matrices = (objects + min(side_by_side, FIRST_FOLDS) * triangles + FEWEST_SQUARES * square) * own.selects
    least = max(sums, matrices, last[0])
    most = objects + 8 * FOLD_MODELS * own.n_folds * n * own.n_targets * own.averages
    if own.selects:
        most += side_by_side * 2 * m * rows * (rows + 1) + SQUARE_ARRAYS * square
        most += _target_memory(m, rows, own.n_targets)
    return least, max(sums, most, last[1], least)


def _exact_average_memory(fit: MemoryPlan, own: SearchSizes) -> tuple[int, int]:
    """Return what a search with averages of exact kernels and selections of kernels with features holds."""
    n, sums = fit.n_samples, _sum_memory(fit, own)
    features = 4 * own.n_folds * n * sum(own.landmarks) + 8 * own.n_folds * sum(count**2 for count in own.landmarks)
    models = 8 * FOLD_MODELS * own.n_folds * n * own.n_targets
    return max(sums, features, fit.least_nbytes), max(sums, features + fit.most_nbytes, _average_memory(n)) + models


def plan_given(n_kernels: int, n_samples: int, own: SearchSizes, memory_budget: int | str | None = None) -> MemoryPlan:
    """Return the memory of a search over folds beside given matrices, including copies in folds.

    Copies of several folds coexist within the memory, a single copy for a grid. A fold of most of the rows reads the
    matrices in place.

    Examples
    --------
    >>> plan_given(12, 300, SearchSizes(5), "1 GB").expected
    'about 5.24 MB, 2.90 MB to 7.57 MB'
    """
    m, n, rows = n_kernels, n_samples, own.rows(n_samples)
    fit = plan_as_given(m, n, own.n_targets, memory_budget).at_fraction(default_fraction(n))
    copy = 0 if rows >= MOST_SAMPLES * n else (2 * m * rows * (rows + 1) if own.rounded else 8 * m * rows**2)
    copies = copy * (_side_by_side(copy, own.n_folds, fit.room_for_folds) if own.mixtures else 1)
    sums, together = _sum_memory(fit, own), _target_memory(m, rows, own.n_targets) * (own.mixtures and own.selects)
    few, many = (8 * count * rows**2 for count in (FEWEST_SQUARES, SQUARE_ARRAYS))
    least = max(FLOOR_BYTES + max(sums, copies + few), fit.least_nbytes)
    most = max(FLOOR_BYTES + max(sums, copies + many + together), fit.most_nbytes)
    reason = f"Matrices as they are given, of which a fold copies {format_bytes(copy)}."
    plan = replace(fit, working_nbytes=most, varying_nbytes=most - least, reason=reason)
    return _allowed(plan, own)


def _sum_memory(fit: MemoryPlan, own: SearchSizes) -> int:
    """Return the memory of sums of kernels in folds, with their factors where these are kept."""
    n, rows = fit.n_samples, own.rows(fit.n_samples)
    itemsize, kept = 4 if own.rounded else 8, rows >= KEPT_ROWS
    summed = itemsize * rows * (n + kept * rows)
    folds = _side_by_side(summed, own.n_folds, fit.room_for_folds)
    return (folds * summed + itemsize * (AVERAGE_ROUNDED - kept) * rows * n) * own.averages


def _average_memory(n_samples: int) -> int:
    """Return the memory of the last fit of an average: the sum of the kernels, and the factor."""
    return FLOOR_BYTES + (16 if n_samples <= MOST_DOUBLE else 12) * n_samples**2


def _target_memory(n_kernels: int, rows: int, n_targets: int) -> int:
    """Return the bytes of products of the kernels with the coefficients of several targets."""
    return 8 * PRODUCTS * n_kernels * rows * n_targets if n_targets > 1 else 0


def _side_by_side(nbytes: int, n_folds: int, room: int) -> int:
    """Return the number of simultaneously open folds of a size: all, or as many as fit."""
    return n_folds if n_folds * nbytes <= room else max(room // max(nbytes, 1), 1)


def _allowed(plan: MemoryPlan, own: SearchSizes, of_fit: str = "") -> MemoryPlan:
    """Return the plan of a search; refuse it in words where the budget is too small."""
    if plan.least_nbytes > plan.budget:
        raise MemoryBudgetError(
            f"A search over {own.n_folds} folds of {plan.n_kernels} kernels on {plan.n_samples} samples takes "
            f"{format_bytes(plan.least_nbytes)} at least, but the memory budget is {format_bytes(plan.budget)}. Use "
            f"fewer folds or samples, or a fit at a given strength{of_fit}, or raise memory_budget."
        )
    likely = 1.0 - (1.0 - LIKELY_SHARE) ** own.n_targets
    return replace(plan, reason=f"{plan.reason} In {own.n_folds} folds.", n_folds=own.n_folds, likely_share=likely)
