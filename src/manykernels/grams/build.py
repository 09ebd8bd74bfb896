"""From a fitted bank and rows to the Gram stack that fits in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike

from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.grams.base import GramStack, mirror_upper
from manykernels.grams.dense import DenseStack
from manykernels.grams.distinct import Distinct, DistinctStack, Lines
from manykernels.grams.lazy import LazyStack
from manykernels.grams.packed import PackedStack
from manykernels.grams.pair_stack import stack_of
from manykernels.grams.plan import plan_stack
from manykernels.grams.rank_one import RankOneStack
from manykernels.kernels import FittedBank, Linear, PreparedRows, Shaped
from manykernels.kernels.pairs.bank import ProductKernels
from manykernels.kernels.specs.distances import SparsePoints
from manykernels.threads import n_threads
from manykernels.validation.arrays import Array

# Seconds, by which it is decided what is held among distinct points, measured by `python benchmarks/distinct.py`
READ = 4.3e-10  # an entry of a triangle, in a weighted sum, a product or a form
SPREAD, SPREAD_ROW = 6e-10, 1.5e-12  # an entry of a weighted sum, spread from one among v points: the second v times
UNPACKED = 6e-9  # an entry of a triangle among distinct points, made the matrix that is spread
OPERATION = 2e-5  # one of these on the kernels of one set of distinct points, however few these are
PRODUCTS = 2  # with a kernel, for each weighted sum that it is part of
SHARE = 0.5  # of the kernels of a column that are part of a sum, about


def pays(m: int, n: int, v: int) -> bool:
    """Whether a weighted sum of ``m`` kernels among ``v`` of ``n`` points, and the products with it, gain seconds."""
    read = READ * (1 + PRODUCTS) * SHARE * m * (n * n - v * v) / 2
    spread = (SPREAD + SPREAD_ROW * v) * n * n / 2 + UNPACKED * v * v / 2
    return read > spread + (1 + PRODUCTS) * OPERATION


def worthwhile(bank: FittedBank, prepared: PreparedRows[Any]) -> list[Distinct]:
    """Return the kernels of a fitted bank whose points repeat so often that matrices among distinct ones pay."""
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
    """Return the linear kernels of single columns, but those among few points; None where that spares little."""
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


def build_stack(
    bank: FittedBank,
    X: object,
    *,
    kind: str = "auto",
    memory_budget: int | str | None = None,
    dtype: DTypeLike | None = None,
    n_jobs: int | None = None,
    n_targets: int = 1,
) -> GramStack:
    """Return the Gram matrices of a bank's kernels on rows, held as `plan_stack` decides.

    Parameters
    ----------
    bank : FittedBank
    X : PreparedRows, DataFrame, array or KernelStack
        Rows, prepared here if they are not yet.
    kind : {"auto", "dense", "packed", "lazy"}
        Of no account for kernels that come as matrices: these stay where they are.
    memory_budget : int, str or None
        See `plan_stack`; checked before anything is allocated.
    dtype : float32, float64 or None
    n_jobs : int or None
        Threads that the stack may use, in joblib's convention; None means one.
    n_targets : int
        Number of outputs the stack will serve.

    Raises
    ------
    MemoryBudgetError
        If nothing allowed fits the budget.
    IncompatibleError
        If the functions of a kernel must have a shape.
    InvalidInputError
        If a kernel has entries that are NaN or infinite.

    Examples
    --------
    >>> from manykernels.kernels import Gaussian, KernelBank
    >>> X = [[0.0], [1.0], [3.0]]
    >>> bank = KernelBank([("narrow", Gaussian(1.0), None)]).fit(X)
    >>> build_stack(bank, X, memory_budget="1 GB")
    PackedStack(n_kernels=1, n_samples=3, dtype=float64)
    """
    shaped = [m for m, spec in enumerate(getattr(bank.raw, "specs", ())) if isinstance(spec, Shaped)]
    if shaped:
        raise IncompatibleError(
            f"Kernel {bank.names[shaped[0]]!r} has functions of a shape, which matrices among samples cannot keep: "
            "take what works on factors, such as MKLRegressor and solve, or leave the shape out."
        )
    prepared = X if isinstance(X, PreparedRows) else bank.prepare(X)
    if isinstance(bank.raw, ProductKernels):
        return stack_of(bank.raw, bank.narrow(prepared).data)  # whose memory is that of the members
    held = bank.grams(prepared)
    if held is not None:
        n_samples = len(held.samples)
        if memory_budget is not None:
            plan_stack(len(held.array), n_samples, memory_budget=memory_budget, n_targets=n_targets, kind="dense")
        whole = DenseStack(held.array, names=bank.names, n_threads=n_threads(n_jobs), unproven=held.unproven)
        every = n_samples == whole.n_samples and np.array_equal(held.samples, np.arange(n_samples))
        return whole if every else whole.restrict(held.samples)
    distinct = worthwhile(bank, prepared) if kind in ("auto", "lazy") else []
    lines = lines_of(bank, prepared, distinct) if kind in ("auto", "lazy") else None
    plan = plan_stack(
        bank.n_kernels,
        prepared.n_samples,
        memory_budget=memory_budget,
        dtype=dtype,
        n_targets=n_targets,
        kind=kind,
        repeats=[own.sizes for own in distinct] + ([] if lines is None else [lines.sizes]),
    )
    lazy = LazyStack(
        bank,
        prepared,
        dtype=plan.dtype if plan.kind == "lazy" else np.float64,
        n_threads=n_threads(n_jobs),
        spare_bytes=plan.budget - plan.working_nbytes,
    )
    _check_finite(lazy.diag(), lazy)
    if (distinct or lines is not None) and plan.kind != "dense":
        stored = None if plan.kind == "lazy" else plan.dtype
        return _in_parts(DistinctStack(lazy, distinct, dtype=stored, lines=lines))
    if plan.kind == "lazy":
        return lazy
    return _dense(lazy, plan.dtype) if plan.kind == "dense" else _packed(lazy, plan.dtype)


def _in_parts(stack: DistinctStack) -> DistinctStack:
    for part in stack.stacks if stack.in_memory else ():
        _check_finite(part.features if isinstance(part, RankOneStack) else cast("PackedStack", part).packed, part)
    return stack


def _packed(lazy: LazyStack, dtype: str) -> PackedStack:
    stack = PackedStack.from_stack(lazy, dtype=dtype)
    _check_finite(stack.packed, stack)
    return stack


def _dense(lazy: LazyStack, dtype: str) -> DenseStack:
    array = np.empty(lazy.shape, dtype=dtype)
    for at, rows, block in lazy._upper_blocks(np.arange(lazy.n_kernels)):
        array[at, rows[0] : rows[-1] + 1, rows[0] :] = block
    for gram in array:
        mirror_upper(gram)
    _check_finite(array, lazy)
    return DenseStack(array, names=lazy.names, n_threads=lazy.n_threads)


def _check_finite(entries: Array, stack: GramStack) -> None:
    """Raise ``InvalidInputError`` naming the first kernel with a NaN or infinite entry; one kernel at a time."""
    for m, values in enumerate(entries):
        if not np.isfinite(values).all():
            name = f"kernel {m}" if stack.names is None else f"kernel {stack.names[m]!r}"
            raise InvalidInputError(
                f"The Gram matrix of {name} has entries that are NaN or infinite. Standardize the columns, or use a "
                "kernel that does not grow so fast (a lower degree, a normalized kernel)."
            )
