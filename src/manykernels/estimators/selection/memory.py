"""The memory of a search in advance: in words, as data, and as a check against the budget."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from manykernels.estimators.selection.averages import KEPT_ROWS, MOST_DOUBLE, can_average
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
    memory_bytes,
    pieces_nbytes,
    plan_as_given,
)
from manykernels.grams.remembered import Remembered
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
FOLD_SPECTRUM = 14_000  # bytes of what a fold knows of a kernel on factors, beside its functions in pieces
FOLD_KERNEL = 7_000  # bytes of what an open fold knows of a kernel beside its matrix, where folds are more than usual
FOLD_VECTORS = 96  # float64 a sample and target: models that all folds keep until a mixture is followed to its end
# float32 among the samples and all rows of a fold, beside the sums of those open: one in double precision, its factor
AVERAGE_ROUNDED = 3
FACTORED_BYTES = 12  # an entry of a matrix among features: in double precision while it is a factor, and unpacked
PRODUCTS = 10  # float64 an entry of the products of each kernel with coefficients of several targets
REMEMBERED_AVERAGES = 24  # models of a fold and target: about three strengths of each average, until one is chosen
PATIENCE_OF_AVERAGES = 8.0  # predicted seconds of one fit on matrices, at which searches on landmarks take as long
# Rows up to which averages of one target are of exact kernels, each fold of which holds one matrix at a time; times the
# square root of the number of targets, and of that of columns beyond a few
MOST_EXACT, FEW_COLUMNS = 6_000, 200
# Part of what varies, of one target: eight searches of one target took 0.13 to 0.70 of it, 0.39 on the mean
LIKELY_OF_FOLDS = 0.4
LIKELY_FOLDS = 3  # in which selections are tried first, and as often only
PERMUTED, PRODUCT_BYTES = 200, 2**22  # orders of a target in one product with the kernels, and the most that it takes
COPIED_KERNELS = (12, 25)  # triangles of kernels in use beside matrices that are not held: as often, and of many
LAST_SQUARES = 3  # float64 among all rows beside these: the sum that is factorized where it stands, and in passing


def plan_of_search(
    search: Any, plain: BaseMKL, samples: Samples, loss: Loss, groups: Any, projected: BaseMKL | None = None
) -> tuple[MemoryPlan | None, tuple[str, str]]:
    """Return the memory plan of a search; None for kernels of pairs.

    With it how kernels are held, for averages and for what selects: as factors or as matrices. Kernels selected are
    those of the ``projected`` estimator, if any.
    """
    mixtures, n = search._searches, len(samples.rows)
    penalty = BlockL1(1.0) if mixtures else search._families()[0].at(1.0, 1.0)
    fit = (projected or plain)._planned(samples, loss, penalty, kind=AUTO)
    plan = plain._planned(samples, loss, penalty, kind=LAZY if mixtures else AUTO)
    averages, n_folds = mixtures and can_average([loss]), n_folds_of(search.cv, n, groups)
    rounded = search.scoring is None and search._fold_tol >= SINGLE_PRECISION_TOL
    selects = not (mixtures and search._named_penalty == "ridge") and samples.y.shape[1] <= MOST_SELECTED
    if isinstance(samples.rows, KernelStack):
        sizes = samples.rows.n_kernels, n, samples.y.shape[1]
        settings: dict[str, Any] = {"mixtures": mixtures, "averages": averages, "rounded": rounded, "selects": selects}
        return plan_given(*sizes, n_folds, search._resources.memory_budget, **settings), (GRAM, GRAM)
    if fit is None or plan is None:
        return None, (GRAM, GRAM)
    fit, bank = fit.at_fraction(default_fraction(n)), (projected or plain).kernels
    expanded = bank.expand(Table.of(samples.rows, sparse=True))
    own = [(spec, columns) for _, spec, columns in expanded if len(columns) > 1]
    landmarks = tuple(spec.count for spec, _ in own if isinstance(spec, Landmarks))
    form = FACTORED if plan.kind == FACTORED else GRAM
    # Matrices beside factors (those that a fit may do without) take as long in a fold as matrices alone.
    apart = fit.kind == FACTORED and not fit.optional_nbytes and averages and search.solver == AUTO
    forms = form, FACTORED if apart else form
    rows = _rows_of_fold(n, n_folds, apart)
    n_rounded = 0.0 if projected else _n_triangles(bank, expanded, Table.of(samples.rows, sparse=True), rows)
    given: dict[str, Any] = {"mixtures": mixtures, "averages": averages, "apart": apart, "landmarks": landmarks}
    given |= {"n_targets": samples.y.shape[1], "projected": projected is not None}
    given["chooses"] = search.l1_ratios is None or 0.0 in np.ravel(search.l1_ratios)
    return plan_search(plan, fit, n_folds, n_rounded, rounded=rounded, selects=selects, **given), forms


def _rows_of_fold(n_samples: int, n_folds: int, apart: bool) -> int:
    """Return the number of rows of the matrices of a fold: about half for ``apart`` factors."""
    rows = n_samples - n_samples // n_folds
    return rows // 2 if apart else rows


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


def _triangles_held(nbytes: int, folds: int) -> str:
    """Return the memory of the triangles of folds in words."""
    return f"{format_bytes(nbytes)} of a fold, of {folds} side by side at most"


def plan_search(
    plan: MemoryPlan,
    fit: MemoryPlan,
    n_folds: int,
    n_rounded: float | None = None,
    *,
    mixtures: bool = True,
    averages: bool = True,
    apart: bool = False,
    projected: bool = False,
    landmarks: Sequence[int] = (),
    rounded: bool = True,
    selects: bool = True,
    chooses: bool = True,
    n_targets: int = 1,
) -> MemoryPlan:
    """Return the memory of a search over folds, for few to many active kernels.

    On factors folds have columns, spectra and separate models, all at once or in turn for a grid; functions in pieces
    exist for a single fold, or for several within the memory. On matrices the peak is the maximum of four: kernel sums
    of open folds, matrices of open folds, a product of the kernels with permuted targets, and the last fit.

    Parameters
    ----------
    plan : MemoryPlan
        Of the kernels on all rows as the search holds them.
    fit : MemoryPlan
        Of a single fit: folds that are open side by side may take as much once more.
    n_folds : int
    n_rounded : float, optional
        Kernels with triangles in single precision, a fraction for repeated points.
    mixtures : bool
        Whether mixtures are searched; else a grid of strengths, for which folds are opened a at per time.
    averages : bool
        Whether averages of kernels are tried.
    apart : bool
        Whether kernels are matrices for averages but factors for selection; the first folds of about half of the rows
        cost little.
    projected : bool
        Whether the factors are of kernels on landmarks, and averages of the exact kernels.
    landmarks : sequence of int
        The numbers of landmarks of projected kernels: folds have separate features, summed by averages.
    rounded : bool
        Whether folds have the features in single precision.
    selects, chooses : bool
        Whether anything but averages is tried, not of many targets; and whether averages of all kinds are.
    n_targets : int
        Every target has separate active kernels.

    Raises
    ------
    MemoryBudgetError
        If the search takes more than the memory budget however few kernels take part.

    Examples
    --------
    >>> from manykernels.grams.plan import plan_kernels
    >>> fit = plan_kernels(30, 6_000, 10, memory_budget="1 GB", representation="factored", column_bytes=0)
    >>> plan_search(fit, fit, 5).expected
    'about 19.3 MB, 13.0 MB to 28.8 MB'
    """
    m, n, reason = plan.n_kernels, plan.n_samples, plan.reason
    rows, room = n - n // n_folds, fit.room_for_folds
    if plan.kind == FACTORED:
        folds = n_folds if mixtures else 1
        least, most = _of_factors(plan, folds, rows, landmarks, room, averages=averages and mixtures, rounded=rounded)
    elif not mixtures:
        least, most = (nbytes + int(plan.nbytes * (rows / n) ** 2) for nbytes in (plan.least_nbytes, plan.most_nbytes))
    elif projected:
        least, most, reason = _of_exact_averages(fit, n_folds, landmarks, n_targets)
    else:
        own = _rows_of_fold(n, n_folds, apart)
        square, triangles = 8 * own**2, int(2 * (m if n_rounded is None else n_rounded) * own * (own + 1))
        objects = FOLD_KERNEL * m * max(n_folds - N_FOLDS, 0)
        spectra = objects + (_of_sums(rows, n, n_folds, room) if averages else 0)
        open_folds = _side_by_side(triangles, n_folds, room)
        reason = f"Matrices in single precision while they are read: {_triangles_held(triangles, open_folds)}."
        last = fit.least_nbytes, fit.most_nbytes
        if fit.kind == FACTORED:  # what was chosen is learned on matrices of the kernels in use
            few, many = (FLOOR_BYTES + 2 * count * n**2 for count in COPIED_KERNELS)
            last = few + 8 * FEWEST_SQUARES * n**2, many + 8 * LAST_SQUARES * n**2
        if averages and (chooses or not selects):  # the sum of all kernels and its factor, where one was best
            last = _of_average(n), last[1] if selects else _of_average(n)
        if apart:
            of_folds = 8 * n_folds * rows * fit.n_columns + FOLD_SPECTRUM * m * (n_folds + 1)
            last = fit.expected_nbytes + of_folds, max(fit.most_nbytes + of_folds, 8 * FEWEST_SQUARES * n**2)
        first = objects + (min(open_folds, LIKELY_FOLDS) * triangles + FEWEST_SQUARES * square if selects else 0)
        least = max(spectra, first, min(PRODUCT_BYTES, 8 * m * n * PERMUTED), last[0])
        known = 8 * m * own * Remembered(m, own).room
        all_open = 8 * REMEMBERED_AVERAGES * n * n_targets * n_folds if averages else 0
        all_open += open_folds * (2 * m * own * (own + 1) + known) + SQUARE_ARRAYS * square if selects else 0
        all_open += _of_targets(m, own, n_targets) if selects else 0
        most = max(spectra, objects + all_open, last[1], least)
    nbytes = plan.nbytes if plan.kind == FACTORED else 0
    planned = replace(
        plan,
        nbytes=nbytes,
        working_nbytes=most - nbytes,
        reason=f"{reason} In {n_folds} folds.",
        optional_nbytes=0,
        varying_nbytes=most - least,
        n_folds=n_folds,
        likely_share=1.0 - (1.0 - LIKELY_OF_FOLDS) ** n_targets,
    )
    return _allowed(planned, f", which takes {fit.expected}")


def _of_sums(rows: int, n_samples: int, n_folds: int, room: int) -> int:
    """Return the memory of sums of kernels in folds, in single precision, with stored factors."""
    kept = rows >= KEPT_ROWS
    summed, beside = 4 * rows * (n_samples + kept * rows), 4 * (AVERAGE_ROUNDED - kept) * rows * n_samples
    return _side_by_side(summed, n_folds, room) * summed + beside


def _of_average(n_samples: int) -> int:
    """Return the memory of the last fit of an average: the sum of the kernels, and the factor."""
    return FLOOR_BYTES + (16 if n_samples <= MOST_DOUBLE else 12) * n_samples**2


def _of_exact_averages(fit: MemoryPlan, n_folds: int, landmarks: Sequence[int], n_targets: int) -> tuple[int, int, str]:
    """Return the memory of a search with averages of exact kernels and selections of kernels with features."""
    n = fit.n_samples
    sums = _of_sums(n - n // n_folds, n, n_folds, fit.room_for_folds)
    features = 4 * n_folds * n * sum(landmarks) + 8 * (n_folds + 1) * sum(count**2 for count in landmarks)
    models = 8 * REMEMBERED_AVERAGES * n * n_targets * n_folds
    least, most = max(sums, features, fit.least_nbytes), max(sums, features + fit.most_nbytes, _of_average(n)) + models
    return least, most, "Averages of exact kernels, whose sum is held in single precision; what selects has landmarks."


def _allowed(plan: MemoryPlan, of_fit: str = "") -> MemoryPlan:
    """Return the plan of a search, or raise an error beyond the budget."""
    if plan.least_nbytes > plan.budget:
        raise MemoryBudgetError(
            f"A search over {plan.n_folds} folds of {plan.n_kernels} kernels on {plan.n_samples} samples takes "
            f"{format_bytes(plan.least_nbytes)} at least, but the memory budget is {format_bytes(plan.budget)}. Use "
            f"fewer folds or samples, or a fit at a given strength{of_fit}, or raise memory_budget."
        )
    return plan


def plan_given(
    n_kernels: int,
    n_samples: int,
    n_targets: int,
    n_folds: int,
    memory_budget: int | str | None,
    *,
    mixtures: bool = True,
    averages: bool = True,
    rounded: bool = True,
    selects: bool = True,
) -> MemoryPlan:
    """Return the memory of a search over folds beside given matrices, including copies in folds.

    Copies of several folds coexist within the memory, a single copy for a grid. A fold of most of the rows reads the
    matrices in place.

    Examples
    --------
    >>> plan_given(12, 300, 1, 5, "1 GB").expected
    'about 5.24 MB, 2.90 MB to 7.57 MB'
    """
    m, n, rows = n_kernels, n_samples, n_samples - n_samples // n_folds
    triangles, squares = 2 * m * rows * (rows + 1), [8 * count * rows**2 for count in (FEWEST_SQUARES, SQUARE_ARRAYS)]
    copy = 0 if rows >= MOST_SAMPLES * n else triangles if rounded else 8 * m * rows**2
    fit = plan_as_given(m, n, n_targets, memory_budget).at_fraction(default_fraction(n))
    room, summed = fit.room_for_folds, (4 if rounded else 8) * rows * n
    copies = copy * (_side_by_side(copy, n_folds, room) if mixtures else 1)
    sums = (_side_by_side(summed, n_folds, room) + AVERAGE_ROUNDED) * summed if averages else 0
    together = _of_targets(m, rows, n_targets) if mixtures and selects else 0
    least = max(FLOOR_BYTES + max(sums, copies + squares[0]), fit.least_nbytes)
    most = max(FLOOR_BYTES + max(sums, copies + squares[1] + together), fit.most_nbytes)
    plan = MemoryPlan(
        "dense",
        "float64",
        0,
        most,
        memory_bytes(memory_budget),
        f"Matrices as they are given, of which a fold copies {format_bytes(copy)}. In {n_folds} folds.",
        varying_nbytes=most - least,
        n_kernels=m,
        n_samples=n,
        n_targets=n_targets,
        n_folds=n_folds,
        likely_share=1.0 - (1.0 - LIKELY_SHARE) ** n_targets,
    )
    return _allowed(plan)


def _of_targets(n_kernels: int, rows: int, n_targets: int) -> int:
    """Return the bytes of products of the kernels with the coefficients of several targets."""
    return 8 * PRODUCTS * n_kernels * rows * n_targets if n_targets > 1 else 0


def _of_factors(
    plan: MemoryPlan, n_open: int, rows: int, landmarks: Sequence[int], room: int, *, averages: bool, rounded: bool
) -> tuple[int, int]:
    """Return the memory of a search on factors, for few to many active kernels."""
    n_features, squares, itemsize = sum(landmarks), sum(count**2 for count in landmarks), 4 if rounded else 8
    own = n_open * (8 * rows * plan.n_columns + itemsize * plan.n_samples * n_features) + 8 * (n_open + 1) * squares
    own += FOLD_SPECTRUM * plan.n_kernels * (n_open + 1) + 8 * FOLD_VECTORS * plan.n_samples * plan.n_targets
    average = itemsize * (plan.n_samples * n_features + n_features * (n_features + 1) // 2)
    summed = _side_by_side(average, n_open, room) * average + FACTORED_BYTES * n_features**2 if averages else 0
    pieces = pieces_nbytes(rows, plan.n_columns)
    beside = (_side_by_side(pieces, n_open, room) - 1) * pieces
    # While several folds are open features of all rows are let go; averages are tried before what selects.
    spared = 8 * plan.n_samples * n_features if n_open > 1 else 0
    least, most = (own + max(nbytes - spared, summed) for nbytes in (plan.least_nbytes, plan.most_nbytes + beside))
    return max(least, plan.least_nbytes), max(most, plan.most_nbytes)  # at least those of the last fit


def _side_by_side(nbytes: int, n_folds: int, room: int) -> int:
    """Return the number of simultaneously open folds of a size: all, or as many as fit."""
    return n_folds if n_folds * nbytes <= room else max(room // max(nbytes, 1), 1)
