"""What a search will hold, before it begins: in words, as data, and refused where that is more than is allowed."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from manykernels.estimators.selection.averages import can_average
from manykernels.estimators.selection.splits import N_FOLDS
from manykernels.estimators.strength import AUTO, default_fraction
from manykernels.exceptions import MemoryBudgetError
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
    pieces_nbytes,
)
from manykernels.grams.powers import n_bases
from manykernels.grams.training import LAZY, repeats_of
from manykernels.kernels import KernelBank, Landmarks
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.bank.patterns import NamedKernel
from manykernels.objective.regularizers import BlockL1

if TYPE_CHECKING:
    from manykernels.estimators.supervised.base import BaseMKL
    from manykernels.estimators.supervised.samples import Samples
    from manykernels.objective.losses import Loss

# Traced by `python benchmarks/memory_limits.py --traced`
FOLD_SPECTRUM = 14_000  # bytes of what a fold knows of a kernel on factors, beside its functions in pieces
FOLD_VECTORS = 96  # float64 a sample and target: models that all folds keep until a mixture is followed to its end
# float32 among the samples and all rows of a fold, beside the sums of those open: one in double precision, its factor
AVERAGE_ROUNDED = 3
FACTORED_BYTES = 12  # an entry of a matrix among features: in double precision while it is a factor, and unpacked
PATIENCE_OF_AVERAGES = 8.0  # predicted seconds of one fit on matrices, at which searches on landmarks take as long
LIKELY_FOLDS = 3  # in which selections are tried first, and as often only
PERMUTED, PRODUCT_BYTES = 200, 2**22  # orders of a target in one product with the kernels, and the most that it takes
COPIED_KERNELS = (12, 25)  # triangles of kernels in use beside matrices that are not held: as often, and of many


def plan_of_search(
    search: Any, plain: BaseMKL, samples: Samples, loss: Loss, groups: Any
) -> tuple[MemoryPlan | None, tuple[str, str]]:
    """Return what a search, an estimator itself, for the strength of a plain one holds; None for matrices as given.

    With it how kernels are held, for averages and for what selects: as factors or as matrices.
    """
    mixtures, n = search._searches, len(samples.rows)
    penalty = BlockL1(1.0) if mixtures else search._families()[0].at(1.0, 1.0)
    fit, plan = (plain._planned(samples, loss, penalty, kind=kind) for kind in (AUTO, LAZY if mixtures else AUTO))
    if fit is None or plan is None:
        return None, (GRAM, GRAM)
    fit = fit.at_fraction(default_fraction(n))
    expanded = plain.kernels.expand(Table.of(samples.rows, sparse=True))
    n_rounded = _n_triangles(plain.kernels, expanded, Table.of(samples.rows, sparse=True))
    own = [(spec, columns) for _, spec, columns in expanded if len(columns) > 1]
    landmarks = tuple(spec.count for spec, _ in own if isinstance(spec, Landmarks))
    averages, n_folds = mixtures and can_average([loss]), n_folds_of(search.cv, n, groups)
    form = FACTORED if plan.kind == FACTORED else GRAM
    # Matrices beside factors (those that a fit may do without) take as long in a fold as matrices alone.
    apart = fit.kind == FACTORED and not fit.optional_nbytes and averages and search.solver == AUTO
    forms = form, FACTORED if apart else form
    given: dict[str, Any] = {"mixtures": mixtures, "averages": averages, "apart": apart, "landmarks": landmarks}
    given["rounded"] = search.scoring is None and search._fold_tol >= SINGLE_PRECISION_TOL
    return plan_search(plan, fit, n_folds, n_rounded, **given), forms


def _n_triangles(bank: KernelBank, kernels: Sequence[NamedKernel], table: Table) -> float:
    """Return about how many triangles among the rows are held, those among distinct points as parts of one."""
    n, parts, rest = len(table), 0.0, list[NamedKernel]()
    by_columns: dict[tuple[int, ...], list[NamedKernel]] = {}
    for kernel in kernels:
        by_columns.setdefault(kernel[2], []).append(kernel)
    for own in by_columns.values():
        repeats = [(m, points) for m, points in repeats_of(bank, own, table) if points]
        parts += sum(m * points**2 for m, points in repeats) / n**2
        rest += [] if repeats else own
    return parts + n_bases(rest, n)


def patience_of(search: Any, loss: Loss) -> float | None:
    """Return the seconds up to which the default bank of a search stays on matrices; None for those of a fit.

    Averages of all kernels are sums of matrices, which take less than fits on landmarks at every strength.
    """
    averages = search._searches and can_average([loss]) and search._resources.representation != FACTORED
    return PATIENCE_OF_AVERAGES if averages else None


def n_folds_of(cv: Any, n_samples: int, groups: Any) -> int:
    """Return the number of folds, the usual one where that takes what is not known yet."""
    if cv is None or isinstance(cv, numbers.Integral):
        return max(min(N_FOLDS, n_samples) if cv is None else int(cv), 2)
    try:
        found = cv.get_n_splits(np.zeros(n_samples), groups=groups) if hasattr(cv, "get_n_splits") else len(cv)
    except (TypeError, ValueError):
        return N_FOLDS
    return max(int(found), 2)


def plan_search(
    plan: MemoryPlan,
    fit: MemoryPlan,
    n_folds: int,
    n_rounded: float | None = None,
    *,
    mixtures: bool = True,
    averages: bool = True,
    apart: bool = False,
    landmarks: Sequence[int] = (),
    rounded: bool = True,
) -> MemoryPlan:
    """Return what a search over folds holds, from few kernels that take part to many.

    On factors folds have columns, spectra and models of their own, all of them or of a grid one at a time; and one at a
    time has functions in pieces, unless those of several fit beside what a fit takes. On matrices it is the largest of
    four: sums of the kernels of the folds that fit side by side, matrices of those that do, a product of the
    kernels with permuted targets, the fit of what was chosen.

    Parameters
    ----------
    plan : MemoryPlan
        Of the kernels on all rows as the search holds them.
    fit : MemoryPlan
        Of one fit: folds that are open side by side may take as much once more.
    n_folds : int
    n_rounded : float, optional
        Kernels whose triangles are held in single precision, where others are powers of them, and those among points
        that repeat take a part of one.
    mixtures : bool
        Whether mixtures are searched; else a grid of strengths, for which folds are opened one at a time.
    averages : bool
        Whether averages of kernels are tried.
    apart : bool
        Whether kernels that are matrices for averages are factors for what selects; matrices of folds of about half of
        the rows, which go first, cost little.
    landmarks : sequence of int
        Their numbers, of kernels of several columns that are projected on some: folds have features of their own, and
        averages are sums of these.
    rounded : bool
        Whether folds have these features in single precision.

    Raises
    ------
    MemoryBudgetError
        If the search takes more than the memory budget however few kernels take part.

    Examples
    --------
    >>> from manykernels.grams.plan import plan_kernels
    >>> fit = plan_kernels(30, 6_000, 10, memory_budget="1 GB", representation="factored", column_bytes=0)
    >>> plan_search(fit, fit, 5).expected
    'about 20.9 MB, 13.0 MB to 28.8 MB'
    """
    m, n = plan.n_kernels, plan.n_samples
    reason = plan.reason
    rows, room = n - n // n_folds, fit.room_for_folds
    if plan.kind == FACTORED:
        folds = n_folds if mixtures else 1
        least, most = _of_factors(plan, folds, rows, landmarks, room, averages=averages and mixtures, rounded=rounded)
    elif not mixtures:
        least, most = (nbytes + int(plan.nbytes * (rows / n) ** 2) for nbytes in (plan.least_nbytes, plan.most_nbytes))
    else:
        own = rows // 2 if apart else rows
        square, triangles = 8 * own**2, int(2 * (m if n_rounded is None else n_rounded) * own * (own + 1))
        spectra = 4 * (_side_by_side(4 * rows * n, n_folds, room) + AVERAGE_ROUNDED) * rows * n if averages else 0
        open_folds = _side_by_side(triangles, n_folds, room)
        held = f"{format_bytes(triangles)} of a fold, of {open_folds} side by side at most"
        reason = f"Matrices in single precision while they are read: {held}."
        products = min(PRODUCT_BYTES, 8 * m * n * PERMUTED)
        last = fit.least_nbytes, fit.most_nbytes
        if fit.kind == FACTORED:  # what was chosen is learned on matrices of the kernels in use
            few, many = (FLOOR_BYTES + 2 * count * n**2 for count in COPIED_KERNELS)
            few = FLOOR_BYTES + 8 * n**2 if averages else few  # a sum of all kernels, where one was best
            last = few + 8 * FEWEST_SQUARES * n**2, many + 8 * SQUARE_ARRAYS * n**2
        if apart:
            of_folds = 8 * n_folds * rows * fit.n_columns + FOLD_SPECTRUM * m * (n_folds + 1)
            last = fit.expected_nbytes + of_folds, max(fit.most_nbytes + of_folds, 8 * FEWEST_SQUARES * n**2)
        first = min(open_folds, LIKELY_FOLDS) * triangles + FEWEST_SQUARES * square
        least = max(spectra, first, products, last[0])
        most = max(spectra, open_folds * triangles + SQUARE_ARRAYS * square, last[1], least)
    if least > plan.budget:
        raise MemoryBudgetError(
            f"A search over {n_folds} folds of {m} kernels on {n} samples takes {format_bytes(least)} at least, but "
            f"the memory budget is {format_bytes(plan.budget)}. Use fewer folds or samples, or a fit at a given "
            f"strength, which takes {fit.expected}, or raise memory_budget."
        )
    nbytes = plan.nbytes if plan.kind == FACTORED else 0
    return replace(
        plan,
        nbytes=nbytes,
        working_nbytes=most - nbytes,
        reason=f"{reason} In {n_folds} folds.",
        optional_nbytes=0,
        varying_nbytes=most - least,
        n_folds=n_folds,
        likely_share=LIKELY_SHARE,
    )


def _of_factors(
    plan: MemoryPlan, n_open: int, rows: int, landmarks: Sequence[int], room: int, *, averages: bool, rounded: bool
) -> tuple[int, int]:
    """Return what a search on factors holds, from few kernels that take part to many."""
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
    """Return how many folds hold so many bytes each at once: all, or as many as leave room for the one at its turn."""
    return n_folds if n_folds * nbytes <= room else max(room // max(nbytes, 1), 1)
