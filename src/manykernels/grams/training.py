"""From what the user gave (a bank or precomputed kernels, and rows) to a fitted bank and the Gram stack.

`build_stack` goes from a fitted bank and rows to the stack that fits in memory.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import chain
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import DTypeLike

from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.grams.base import GramStack, mirror_upper
from manykernels.grams.dense import DenseStack
from manykernels.grams.distinct import Distinct, DistinctStack, Lines
from manykernels.grams.factored import CompositeStack, FactoredStack, NystroemStack, served_by
from manykernels.grams.factored.banks import column_bytes, default_landmarks, fit_factors, refusal_of_bank
from manykernels.grams.factored.features import averages_levels
from manykernels.grams.lazy import LazyStack
from manykernels.grams.packed import PackedStack
from manykernels.grams.pair_stack import stack_of
from manykernels.grams.plan import (
    AVERAGES,
    CLEARLY,
    FACTORED,
    GRAM,
    MIXED_SQUARES,
    NOTICED_OF_KINKS,
    MemoryPlan,
    memory_bytes,
    plan_kernels,
    plan_stack,
    quick_matrices,
    table_fits,
)
from manykernels.grams.repeats import lines_of, repeats_of, worthwhile
from manykernels.grams.rows.base import RowSource
from manykernels.grams.seconds import (
    FULL_RANK,
    SINGLE,
    ProblemForm,
    bases_seconds,
    factored_seconds,
    gram_seconds,
    gram_seconds_beyond,
)
from manykernels.kernels import (
    FittedBank,
    Joint,
    KernelBank,
    KernelSpec,
    Landmarks,
    Linear,
    ObjectKernel,
    PairKernels,
    Pairs,
    PrecomputedBank,
    PreparedRows,
    Shaped,
)
from manykernels.kernels.bank.bank import bank_kinds
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.bank.grids import DEFAULT_SPECS, DefaultKernels, Relevant, add_narrow_kernels, project_entry
from manykernels.kernels.bank.normalization import distinct_counts
from manykernels.kernels.bank.patterns import Kind, NamedKernel, Spare
from manykernels.kernels.pairs.bank import ProductKernels
from manykernels.kernels.tables.encoding import select_columns
from manykernels.threads import n_threads
from manykernels.validation.arrays import Array, plainly_finite
from manykernels.validation.parameters import check_n_jobs

PRECOMPUTED = "precomputed"
Bank: TypeAlias = KernelBank | PrecomputedBank | PairKernels
LAZY = "lazy"  # matrices that are evaluated whenever they are read, for a search, which reads averages of all kernels
PATIENCE_SECONDS = 2.5  # predicted of a fit of the default bank, which it keeps its kernels for at most


@dataclass(frozen=True, eq=False)
class Training:
    """A bank fitted on training rows, the rows as it needs them, and their Gram matrices.

    Of kernels held as factors there are no prepared rows, and ``centered`` says whether functions are to be centered.
    """

    bank: FittedBank
    prepared: Any
    stack: GramStack
    centered: bool = False
    build: Callable[[Any], GramStack] | None = None  # the stack from prepared rows, where it is matrices

    def again(self, most_bytes: int) -> Callable[[], GramStack] | None:
        """Return a function that rebuilds the stack from a private copy of rows, within a number of bytes, on demand.

        None where the stack is large, or is not evaluated from numbers in columns, which may take long.
        """
        n = self.stack.n_samples
        again_bytes = 2**28  # of a stack that is built a second time, while somebody asks: evaluated within a second
        if self.build is None or 4 * self.stack.n_kernels * n * (n + 1) > again_bytes:
            return None
        rows = numbers_of_rows(self.prepared, most_bytes)
        return None if rows is None else partial(self.build, rows)

    @property
    def factored(self) -> bool:
        """Whether kernels are held as factors."""
        return self.stack.has_factors

    @cached_property
    def landmarks(self) -> int:
        """The maximal number of landmarks of a kernel."""
        return max((own.count for own in getattr(self.bank.raw, "specs", ()) if isinstance(own, Landmarks)), default=0)

    def let_go(self) -> None:
        """Release the caches shared by factors of later models."""
        if isinstance(self.stack, FactoredStack):
            self.stack.let_go()

    @property
    def avoids_matrices(self) -> bool:
        """Whether no matrix among samples should be formed."""
        return self.factored or self.stack.matrix_free


def numbers_of_rows(prepared: PreparedRows[Any], most_bytes: int) -> PreparedRows[Any] | None:
    """Return a copy of numeric rows in column order within a number of bytes; None otherwise."""
    points = prepared.data.point_sets
    if not points or not all(isinstance(each, np.ndarray) and each.dtype.kind == "f" for each in points):
        return None
    small = sum(each.nbytes for each in {id(each): each for each in points}.values()) <= most_bytes
    return prepared.take(np.arange(prepared.n_samples)) if small else None


SHAPES_ON_FACTORS = (
    "the shapes of columns are kept on factors only, since a matrix among samples knows nothing between them; leave "
    "representation at 'auto', or take shape= out of the bank"
)
SPARSE = "X is sparse, which only Gram matrices allow; reduce its columns and make it dense"


def no_refusal() -> None:
    """Report no obstacle to kernels held as factors."""


def keeps_shapes(kernels: object) -> bool:
    """Tell whether functions of some kernels must have a shape."""
    return isinstance(kernels, KernelBank) and kernels.keeps_shapes


def is_precomputed(kernels: object) -> bool:
    """Return whether the parameter ``kernels`` marks X as kernels rather than features."""
    return isinstance(kernels, PrecomputedBank) or (isinstance(kernels, str) and kernels == PRECOMPUTED)


def as_bank(kernels: object, rows: object = None, patience: float | None = None) -> Bank:
    """Return the bank of the parameter ``kernels`` of an estimator on the rows; see `size_bank`."""
    if kernels is None:
        if isinstance(rows, Pairs):
            return PairKernels()
        if isinstance(rows, Table) and rows.is_sparse:
            return KernelBank([Joint(DEFAULT_SPECS)])
        return size_bank(DEFAULT_BANK, rows, patience)
    if isinstance(kernels, str) and kernels == PRECOMPUTED:
        return PrecomputedBank(normalize=None)
    if isinstance(kernels, KernelBank):
        return size_bank(kernels, rows, patience)
    if isinstance(kernels, (PrecomputedBank, PairKernels)):
        return kernels
    raise InvalidInputError(
        f"kernels must be None (the default bank), a KernelBank, PairKernels or 'precomputed', got {kernels!r}. A list "
        "of (name, kernel, columns) becomes a bank with KernelBank(list); KernelBank.joint(Gaussian(1.0)) has a kernel "
        "on all columns, KernelBank.per_feature(Gaussian(1.0)) one on each."
    )


DEFAULT_BANK = KernelBank.auto()  # leaves its kernels to the rows


def size_bank(bank: KernelBank, rows: object = None, patience: float | None = None) -> KernelBank:
    """Return a bank with default kernels, if unspecified, suited to the number of rows.

    Where a fit is predicted to take clearly less with Gaussians of several columns projected on landmarks, they are, so
    the bank can be held as factors and a fit ends at any number of rows; their names say so. Searches say by
    ``patience`` up to how many seconds they want kernels unchanged. Where columns have shapes, which only factors keep,
    they are projected in any case.
    """
    if rows is None or not any(issubclass(kind, DefaultKernels) for kind in set(map(type, bank.kernels))):
        return bank
    table = Table.wrap(rows, sparse=True)
    if table.is_sparse:
        return bank
    given, bank = bank, bank if patience is None else _add_narrow_kernels(bank, table)
    if not _worth_landmarks(bank, table, patience):
        return bank
    others = [own for entry in given.kernels if not isinstance(entry, DefaultKernels) for own in entry.resolve(table)]
    entries, count = [own for entry in bank.kernels for own in entry.resolve(table)], default_landmarks(len(table))
    return bank.replace(kernels=[own if own in others else project_entry(own, count) for own in entries])


def projected_bank(bank: KernelBank, given: object, rows: object, patience: float) -> KernelBank | None:
    """Return the bank of a search with the default Gaussians of several columns projected on landmarks.

    None where the bank given leaves no kernels to the rows, as one for searches of other rows does, or where a fit
    without landmarks is predicted to take little longer.
    """
    named = given.kernels if isinstance(given, KernelBank) else ()
    if named and not any(isinstance(entry, (DefaultKernels, Spare)) for entry in named):
        return None
    table = Table.wrap(rows, sparse=True)
    if table.is_sparse or not _worth_landmarks(bank, table, patience):
        return None
    count, entries = default_landmarks(len(table)), list(bank.kernels)
    for at, entry in enumerate(entries):
        if isinstance(entry, (Spare, Relevant)) or (isinstance(entry, Joint) and entry.specs == DEFAULT_SPECS):
            entries[at] = project_entry(entry, count)
    return None if tuple(entries) == bank.kernels else bank.replace(kernels=entries)


def _worth_landmarks(bank: KernelBank, table: Table, patience: float | None) -> bool:
    """Return True if a fit is predicted to take clearly less with Gaussians of several columns on landmarks."""
    if bank.keeps_shapes:  # whatever matrices would take
        return True
    spared, count = NOTICED_OF_KINKS if patience is None else AVERAGES, default_landmarks(len(table))

    def bars(**sizes: Any) -> tuple[float, float]:
        """Return the limits in seconds for unchanged kernels, and for matrices in any case."""
        projected = factored_seconds(**sizes | {"landmarks": (own := min(count, len(table)))}) + bases_seconds(own)
        worth = spared + CLEARLY * projected
        most = min(PATIENCE_SECONDS, worth) if patience is None else patience
        return most, max(most, worth)

    expanded, least = bank.expand(table), bars(n_kernels=0, n_samples=len(table), n_columns=0)[1]
    if gram_seconds(len(expanded), len(table)) <= least:
        return False
    sizes = _sizes(bank_kinds(bank, table), table)
    several = sum(len(columns) > 1 for _, _, columns in expanded)
    most, bar = bars(**sizes | {"n_landmark": 0})
    repeats = partial(repeats_of, bank, expanded, table)
    matrices = gram_seconds_beyond(bar, len(expanded), len(table), repeats=repeats)
    return matrices > bar and factored_seconds(**sizes | {"n_landmark": several}) > most


def _add_narrow_kernels(bank: KernelBank, table: Table) -> KernelBank:
    """Return a bank with the narrower Gaussians of a search beside default kernels of several numbers."""
    entries = [
        own
        for entry in bank.kernels
        for own in (entry.resolve(table) if isinstance(entry, DefaultKernels) else [entry])
    ]
    wider = add_narrow_kernels(entries, table)
    return bank.replace(kernels=wider) if len(wider) > len(entries) else bank


def reads_sparse(kernels: object, representation: str) -> bool:
    """Tell whether sparse rows can be read with the parameters: no means are subtracted, and no factors asked for."""
    whole = kernels is None or (isinstance(kernels, KernelBank) and not (kernels.standardize or kernels.center))
    return whole and representation != FACTORED


def open_training(
    kernels: object,
    X: object,
    *,
    memory_budget: int | str | None,
    n_jobs: int | None,
    form: ProblemForm = SINGLE,
    representation: str = GRAM,
    refusal: Callable[[], str | None] = no_refusal,
    fit_intercept: bool = True,
    kind: str = "auto",
    rounded: bool = False,
) -> Training:
    """Fit the bank on training rows and build the stack that fits the memory budget: Gram matrices, or factors.

    ``refusal()`` is the reason why the rest of the problem cannot do with factors, if so; ``kind`` is how matrices are
    held: "lazy" for a search, which reads averages of all of them. ``rounded`` permits copies in single precision, of
    parts of kernels that come as matrices and of features of landmarks.
    """
    budget = memory_bytes(memory_budget)
    check_n_jobs(n_jobs)
    given = as_bank(kernels, X)
    if isinstance(given, KernelBank):
        memory_budget = budget  # what is free is read once, so that all that is decided is decided by one number
    if representation != GRAM or keeps_shapes(given):
        asked: dict[str, Any] = {"representation": representation, "memory_budget": memory_budget}
        asked |= {"refusal": refusal, "fit_intercept": fit_intercept}
        plan = plan_for(given, X, form=replace(form, averages=kind == LAZY), **asked)
        if plan is not None and plan.kind == FACTORED and isinstance(given, KernelBank):
            fitted, factors = fit_factors(given, X, fit_intercept=fit_intercept, rounded=rounded)
            factors.spare_bytes = plan.spare_bytes // max(form.n_targets, 1)
            return Training(fitted, None, factors, centered=given.center)
    bank, prepared = given.fit_prepare(X)
    build = partial(build_stack, bank, kind=kind, memory_budget=memory_budget, n_jobs=n_jobs)
    dtype = np.float32 if rounded and isinstance(given, PrecomputedBank) else None
    build = partial(build, n_targets=form.n_together, coupled=form.coupled, dtype=dtype)
    return Training(bank, prepared, build(prepared), build=build)


def advice_on_chunks(stack: GramStack) -> str | None:
    """Return advice for a bank after an unconverged fit on chunked rows; None for exact factors."""
    if not isinstance(stack, CompositeStack) or not stack.table.chunked:
        return None
    pairs = zip(stack.parts, stack.members, strict=True)
    inexact = np.concatenate([[], *(own for part, own in pairs if isinstance(part, NystroemStack))]).astype(int)
    if not len(inexact):
        return None
    return (
        f"{len(inexact)} kernel(s), first {stack.name_of(inexact[0])!r}, have no exact factors, so their bounds need "
        f"all pairs of {stack.n_samples} rows. Kernels on landmarks converge: write "
        f"Landmarks(kernel, {default_landmarks(stack.n_samples)}) in the bank, or take KernelBank.auto()."
    )


def open_chunks(
    kernels: object, source: RowSource, memory_budget: int | str | None
) -> tuple[RowSource | pd.DataFrame | Array, int]:
    """Return rows in chunks as a table in memory if the columns that kernels read fit, and the budget left.

    The source itself is returned if they do not fit; see `table_fits`.
    """
    budget, used = memory_bytes(memory_budget), columns_read(kernels, source)
    if not table_fits(source.n_rows, len(used), budget):
        return source, budget
    return source.whole(used), budget - 8 * source.n_rows * len(used)


def columns_read(kernels: object, source: RowSource) -> list[int]:
    """Return the columns of a source read by the kernels of a bank, all for value-dependent types."""
    every = list(range(source.n_columns))
    own = kernels.kernels if isinstance(kernels, KernelBank) else ()
    named = own and all(isinstance(getattr(entry, "columns", None), (str, tuple)) for entry in own)
    if not named:
        return every
    empty, places = np.zeros((0, source.n_columns)), None
    if source.columns is not None:
        places = {name: j for j, name in enumerate(source.columns)}
    return sorted({j for entry in own for j in select_columns(entry.columns, empty, places)})


def plan_for(
    kernels: object,
    X: object,
    *,
    representation: str,
    memory_budget: int | str | None,
    form: ProblemForm = SINGLE,
    refusal: Callable[[], str | None] = no_refusal,
    fit_intercept: bool = True,
) -> MemoryPlan | None:
    """Return the storage plan of the kernels of a bank on the rows, with the reason; None for matrices."""
    bank = as_bank(kernels, X)
    if not isinstance(bank, KernelBank):
        if representation == FACTORED:
            raise IncompatibleError(f"representation='factored' cannot be had: {refusal_of_bank(bank)}.")
        return None
    if bank.keeps_shapes and representation == GRAM:
        raise IncompatibleError(f"representation='gram' cannot be had: {SHAPES_ON_FACTORS}.")
    representation, table = FACTORED if bank.keeps_shapes else representation, Table.wrap(X, sparse=True)
    expanded = bank.expand(table)
    if not expanded:
        return None  # fitting the bank says what is wrong with the columns
    quick, repeats = None, cache(partial(repeats_of, bank, expanded, table))
    if representation == "auto":
        quick = quick_matrices(len(expanded), len(table), form, memory_budget, repeats)
    kinds = bank_kinds(bank, table)
    objects = not quick and any(isinstance(kind.spec, ObjectKernel) for kind in kinds)
    features, object_bytes = object_sizes(expanded, table) if objects else (0.0, 0)
    return quick or plan_kernels(
        **_sizes(kinds, table),
        features=features,
        object_bytes=object_bytes + _landmark_bytes(kinds, len(table)),
        copied=not isinstance(table.data, np.ndarray),
        column_bytes=column_bytes(bank, table),
        n_linear=_n_linear(expanded, kinds),
        representation=representation,
        memory_budget=memory_budget,
        form=form,
        refusal=(SPARSE if table.is_sparse else refusal()) or refusal_of_bank(bank, fit_intercept=fit_intercept),
        repeats=repeats,
    )


def _sizes(kinds: Sequence[Kind], table: Table) -> dict[str, Any]:
    """Return the inputs of the predicted seconds of kernels on a table."""
    alone = [kind for kind in kinds if kind.n_columns == 1]
    linear = bool(alone) and all(isinstance(kind.spec, Linear) for kind in alone)  # factors as they are, of rank one
    return {
        "n_kernels": sum(kind.n_kernels for kind in kinds),
        "n_samples": len(table),
        "n_columns": table.n_columns,
        "n_landmark": sum(kind.n_kernels for kind in kinds if _needs_landmarks(kind.spec, kind.n_columns)),
        "landmarks": min(max((k.spec.count for k in kinds if isinstance(k.spec, Landmarks)), default=0), len(table)),
        "rank": sum(kind.n_kernels for kind in alone) if linear else total_rank(table),
    }


def _n_linear(expanded: list[NamedKernel], kinds: Sequence[Kind]) -> int:
    """Return how many columns linear kernels alone read."""
    linear = {id(kind.spec) for kind in kinds if isinstance(kind.spec, Linear)}
    if not linear:  # of a million others nobody need look at the columns
        return 0
    if all(id(kind.spec) in linear for kind in kinds):
        return len(set(chain.from_iterable(map(itemgetter(2), expanded))))
    lines = {j for _, spec, columns in expanded if id(spec) in linear for j in columns}
    return len(lines.difference(*(columns for _, spec, columns in expanded if id(spec) not in linear)))


def object_sizes(kernels: Sequence[NamedKernel], table: Table) -> tuple[float, int]:
    """Return the features of objects of all rows and kernels together, and the bytes that these hold, by a few rows.

    Examples
    --------
    >>> from manykernels.kernels import Kmers
    >>> table = Table.wrap(pd.DataFrame({"dna": ["ACGTACGT"] * 100}))
    >>> object_sizes([("2-mers", Kmers(2), (0,))], table)
    (800.0, 3200)
    """
    features, held = 0.0, 0.0
    samples: dict[int, Array] = {}
    object_rows = 50  # that say how many features objects have
    for _, spec, columns in kernels:
        if not isinstance(spec, ObjectKernel):
            continue
        if columns[0] not in samples:
            index = np.unique(np.linspace(0, len(table) - 1, min(len(table), object_rows)).astype(np.int64))
            samples[columns[0]] = table[index].objects(columns[0])
            held += sum(len(item) for item in samples[columns[0]] if isinstance(item, str)) / len(index) * len(table)
        try:
            each, more = spec.sizes(samples[columns[0]])
        except InvalidInputError:
            continue  # fitting the bank says what is wrong with the objects
        features, held = features + each * len(table), held + more * len(table)
    return features, int(held)


def _landmark_bytes(kinds: Sequence[Kind], n_samples: int) -> int:
    """Return the bytes of features of landmarks, kept beside the rows, and of their second derivatives."""
    columns = sum(k.n_kernels * min(k.spec.count, n_samples) for k in kinds if isinstance(k.spec, Landmarks))
    return 8 * (n_samples + MIXED_SQUARES * columns) * columns


def total_rank(table: Table) -> int:
    """Return about the rank of the factors of all columns: distinct values of a few rows, no more than a factor needs.

    Examples
    --------
    >>> total_rank(Table.wrap([[0.0, 0.1], [1.0, 0.2], [0.0, 0.3]]))
    5
    """
    if table.is_sparse:
        return FULL_RANK * table.n_columns
    rank_rows = 200  # that say how many distinct values a column has
    if isinstance(table.data, np.ndarray) and table.data.dtype.kind == "f":
        return int(distinct_counts(table.data[:rank_rows], FULL_RANK).sum())
    rows = pd.DataFrame(table.data[:rank_rows])
    plain = np.array([isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in rows.dtypes], dtype=bool)
    rank = int(distinct_counts(rows.loc[:, plain].to_numpy(np.float64), FULL_RANK).sum()) if plain.any() else 0
    rows = rows.loc[:, ~plain]  # column by column, which takes long where there are many
    # As text, objects can be told apart that no set takes: columns of lists are refused later, with all other reasons.
    objects = [name for name, dtype in rows.dtypes.items() if dtype.kind == "O"]
    distinct = rows.astype(dict.fromkeys(objects, str)).nunique(dropna=False).to_numpy()
    return rank + int(np.minimum(distinct, FULL_RANK).sum())


def _needs_landmarks(spec: KernelSpec, n_columns: int) -> bool:
    """Whether factors of a kernel are projections on landmarks, to be certified by the values."""
    return served_by(spec, n_columns) == "nystroem" and not averages_levels(spec)


def build_stack(
    bank: FittedBank,
    X: object,
    *,
    kind: str = "auto",
    memory_budget: int | str | None = None,
    dtype: DTypeLike | None = None,
    n_jobs: int | None = None,
    n_targets: int = 1,
    coupled: bool = False,
) -> GramStack:
    """Return the Gram matrices of a bank's kernels on rows, held as `plan_stack` decides.

    Parameters
    ----------
    bank : FittedBank
    X : PreparedRows, DataFrame, array or KernelStack
        Rows, prepared here if they are not yet.
    kind : {"auto", "dense", "packed", "lazy"}
        Given matrices stay in place; "lazy" copies nothing.
    memory_budget : int, str or None
        See `plan_stack`; checked before anything is allocated.
    dtype : float32, float64 or None
        Of kernels that come as matrices only where part of the rows are copied.
    n_jobs : int or None
        Threads of the stack, in joblib's convention; None means 1.
    n_targets : int
        Number of outputs the stack will serve.
    coupled : bool
        Whether the loss couples samples.

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
    _refuse_shapes(bank)
    prepared = X if isinstance(X, PreparedRows) else bank.prepare(X)
    if isinstance(bank.raw, ProductKernels):
        return stack_of(bank.raw, bank.narrow(prepared).data)  # whose memory is that of the members
    planned = partial(plan_stack, memory_budget=memory_budget, n_targets=n_targets, coupled=coupled)
    held = bank.grams(prepared)
    if held is not None:
        n_samples = len(held.samples)
        if memory_budget is not None:
            planned(len(held.array), n_samples, kind="dense")
        whole = DenseStack(held.array, names=bank.names, n_threads=n_threads(n_jobs), unproven=held.unproven)
        return whole.part(held.samples, dtype, copied=kind != LAZY)
    distinct = worthwhile(bank, prepared) if kind in ("auto", "lazy") else []
    lines = lines_of(bank, prepared, distinct) if kind in ("auto", "lazy") else None
    taken: list[Distinct | Lines] = [*distinct, *([] if lines is None else [lines])]
    repeats = [own.sizes for own in taken]
    plan = planned(bank.n_kernels, prepared.n_samples, dtype=dtype, kind=kind, repeats=repeats)
    lazy = LazyStack(
        bank,
        prepared,
        dtype=plan.dtype if plan.kind == "lazy" else np.float64,
        n_threads=n_threads(n_jobs),
        spare_bytes=plan.budget - plan.working_nbytes,
    )
    _check_finite(lazy.diag(), lazy)
    return _store_matrices(lazy, plan, distinct, lines)


def _refuse_shapes(bank: FittedBank) -> None:
    """Raise an error if the function of a kernel must have a shape."""
    shaped = [m for m, spec in enumerate(getattr(bank.raw, "specs", ())) if isinstance(spec, Shaped)]
    if shaped:
        raise IncompatibleError(
            f"Kernel {bank.names[shaped[0]]!r} has a shape, which Gram matrices cannot represent. Use an estimator "
            f"with factors, such as MKLRegressor or solve, or leave out the shape."
        )


def _store_matrices(lazy: LazyStack, plan: MemoryPlan, distinct: list[Distinct], lines: Lines | None) -> GramStack:
    """Return the matrices of a stack in the storage of a plan."""
    if (distinct or lines is not None) and plan.kind != "dense":
        stored = None if plan.kind == "lazy" else plan.dtype
        stack = DistinctStack(lazy, distinct, dtype=stored, lines=lines)
        for entries, part in stack.storage if stack.in_memory else ():
            _check_finite(entries, part)
        return stack
    if plan.kind == "lazy":
        return lazy
    if plan.kind == "dense":
        return _dense(lazy, plan.dtype)
    packed = PackedStack.from_stack(lazy, dtype=plan.dtype)
    _check_finite(packed.packed, packed)
    return packed


def _dense(lazy: LazyStack, dtype: str) -> DenseStack:
    array = np.empty(lazy.shape, dtype=dtype)
    for at, rows, block in lazy._upper_blocks(np.arange(lazy.n_kernels)):
        array[at, rows[0] : rows[-1] + 1, rows[0] :] = block
    for gram in array:
        mirror_upper(gram)
    _check_finite(array, lazy)
    return DenseStack(array, names=lazy.names, n_threads=lazy.n_threads)


def _check_finite(entries: Array, stack: GramStack) -> None:
    """Raise ``InvalidInputError`` naming the first kernel with a NaN or infinite entry; a single kernel at a time."""
    for m, values in zip(getattr(stack, "bases", range(len(entries))), entries, strict=True):
        if not (plainly_finite(values) or np.isfinite(values).all()):
            name = f"kernel {m}" if stack.names is None else f"kernel {stack.names[m]!r}"
            raise InvalidInputError(
                f"The Gram matrix of {name} has entries that are NaN or infinite. Standardize the columns, or use a "
                "kernel that does not grow so fast (a lower degree, a normalized kernel)."
            )
