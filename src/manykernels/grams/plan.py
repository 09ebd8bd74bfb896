"""The choice of the representation of kernels: a pure function of sizes and a memory budget, with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from numbers import Integral
from typing import Any, Literal

import numpy as np
import pandas as pd

from manykernels.exceptions import IncompatibleError, InvalidInputError, MemoryBudgetError
from manykernels.grams.machine import available_memory, total_memory
from manykernels.grams.seconds import (
    ANEW,
    ENTRY,
    FULL_RANK,
    SINGLE,
    ProblemForm,
    Repeats,
    factored_seconds,
    gram_seconds,
    gram_seconds_beyond,
)

Kind = Literal["dense", "packed", "lazy", "factored"]

KINDS = ("dense", "packed", "lazy")
GRAM, FACTORED = "gram", "factored"
REPRESENTATIONS = ("auto", GRAM, FACTORED)
CLEARLY = 1.5  # how many times cheaper factors must be predicted to be: both predictions err by as much
NOTICED = 0.05  # seconds that nobody waits for
NOTICED_OF_KINKS = 0.2  # the same of losses with a kink: few support vectors, which matrices alone have, are worth that
AVERAGES = 2.0  # seconds of one fit that the averages of a search are worth
FEW_COEFFICIENTS = 60  # of all factors: with so few a search averages kernels of a loss with a kink on factors too
ROWS_OF_COEFFICIENT = 40  # from which these steps take less than those of matrices, whatever the kind of the kink
FLOOR_BYTES = 2**20  # of the objects of any fit, however small: functions, tables, vectors in passing
SQUARE_ARRAYS = 4  # N x N float64: the weighted sum, the Newton matrix, its factor, one in passing
COPIED_BYTES = 2**24  # most of a copy of stored kernels in single precision, which steps read
FEWEST_SQUARES = 1  # of these, where Newton matrices take the place of sums: of most losses under the block 1-norm
SHARED_SQUARES = 6  # of outputs fitted together
COUPLED_SQUARES = 8  # of a loss that couples samples, whose curvature is a matrix among them
TABLE_SHARE = 0.25  # of a memory budget, up to which rows in chunks are read into one table
FREE_SHARE = 0.9  # of the memory that is free, which a budget by default does not pass
KERNEL_VECTORS = 8  # float64 a kernel: norms, weights, penalties and their trial values
SAMPLE_VECTORS = 16  # float64 a sample and target: duals, scores, bounds, gradients and their trial values
FACTOR_VECTORS = 60  # float64 a sample of a fit on factors: those of a sample, and orders in which targets are permuted
TARGET_VECTORS = 34  # of these, of each further target
FACTOR_COPIES = 3  # of factors of few rows, in Hessians
SEVERAL_WIDTHS = 1.3  # times the rank of one: of the kernels of a column that take part together
HESSIAN_SQUARES = 5  # float64 among coefficients of factors of few rows: Hessians, their factors, bases of kernels
PIECES_BYTES, MOST_PIECES = 2**20, 2**25  # of a column, from which factors of few rows are made; and of all together
COUPLED_ENTRIES = 2**25  # of factors, of which a Hessian of coupled samples holds those of all rows at once
MIXED_SQUARES = 3  # float64 among samples or landmarks, where a few kernels are dense: these, their sum, its factor
HESSIAN_ENTRIES, HESSIAN_ROWS = 2**19, 1024  # of rows of factors that a Hessian is summed from, and in passing
HESSIAN_RANK, HESSIANS = 1700, 2  # of many rows: of more coefficients, columns take turns
FEW_ROWS = 1000  # about: up to which these are held as they are, and functions of columns in pieces otherwise
TOGETHER = 3500  # coefficients of them in a Hessian; of more, columns take turns
CURVES = 400  # columns with functions in pieces, of those that a model has at once
CURVE_BYTES = 3 * 2**19  # of the pieces and rounded features of a column, beside two bytes a row
TRANSFORM_BYTES = 8 * 2**20  # of a pass over factors: moments of a few columns, padded, transformed, and in passing
TRANSFORM_COLUMN, PASS_VECTORS = 140_000, 24  # of these, of one column; and float64 a sample meanwhile
TILE_BYTES = 64 * 2**20  # blocks a pass holds at once, where matrices are that large
TILE_SQUARES = 8  # matrices among samples that blocks are never larger than together
STORED_TILE_BYTES, STORED_SQUARES = 4 * 2**20, 2  # the same where matrices are stored: passes evaluate no blocks
MOST_ROOM = 2**28  # that matrices of folds may take together, and those of all rows to be held from a start
SINGLE_PRECISION_TOL = 1e-4  # from this gap on the matrices of a fold are held in float32: its rounding is not felt
LIKELY_SHARE = 0.5  # of what depends on how many kernels take part, where nothing says how many
STRONG, WEAK = 0.1, 0.003  # fractions of the strength of the empty model: few kernels take part, and that share of all
MANY_TARGETS = 8  # from here on one BLAS product with all targets beats a fused loop over them
UNITS = {"": 1, **{f"{p}b": 1000**k for k, p in enumerate(("", "k", "m", "g", "t", "p"))}}
UNITS |= {f"{p}ib": 1024**k for k, p in enumerate(("k", "m", "g", "t", "p"), start=1)}


@dataclass(frozen=True)
class MemoryPlan:
    """How Gram matrices will be held, and why.

    Attributes
    ----------
    kind : {"dense", "packed", "lazy", "factored"}
    dtype : str
        ``"float64"`` or ``"float32"``.
    nbytes : int
        Bytes of the stored Gram entries, 0 for a lazy stack; of the columns, of factors, but not those read as given.
    working_nbytes : int
        Bytes of everything else a fit holds, whatever the kind.
    budget : int
        Bytes allowed.
    reason : str
        One sentence for a person.
    optional_nbytes : int
        Those of the working bytes that a fit takes only where there is room: a few matrices beside factors.
    varying_nbytes : int
        The part of the working bytes that depends on the unknown number of active kernels, the penalty and the loss. A
        fit takes at most ``nbytes + working_nbytes``, and at least the difference.
    n_kernels, n_samples, n_columns, n_targets : int
        Sizes of the planned kernels; the number of columns is zero for matrices.
    n_folds : int
        Folds of a search, zero of a fit or a path.
    likely_share : float
        Part of ``varying_nbytes`` that is expected to be taken.
    """

    kind: Kind
    dtype: str
    nbytes: int
    working_nbytes: int
    budget: int
    reason: str
    optional_nbytes: int = 0
    varying_nbytes: int = 0
    n_kernels: int = 0
    n_samples: int = 0
    n_columns: int = 0
    n_targets: int = 1
    n_folds: int = 0
    likely_share: float = LIKELY_SHARE

    @property
    def most_nbytes(self) -> int:
        """Bytes held at most."""
        return self.nbytes + self.working_nbytes

    @property
    def least_nbytes(self) -> int:
        """Bytes held at least, when few kernels take part."""
        return self.most_nbytes - self.varying_nbytes

    @property
    def expected_nbytes(self) -> int:
        """Bytes expected to be held at the peak."""
        return self.least_nbytes + int(self.likely_share * self.varying_nbytes)

    def at_fraction(self, fraction: float | None) -> MemoryPlan:
        """Return the plan of a fit at the fraction of the strength of the empty model, None where it is not known.

        Weaker penalties keep few kernels, whatever their number; several targets have separate kernels.
        """
        if fraction is None:
            return self
        weak = float(np.log(STRONG / max(fraction, 1e-300)) / np.log(STRONG / WEAK))
        share = min(max(LIKELY_SHARE * weak, 0.0), 1.0)
        return replace(self, likely_share=1.0 - (1.0 - share) ** self.n_targets)

    @property
    def spare_bytes(self) -> int:
        """Bytes of the budget beyond the minimum of a fit."""
        return self.budget - self.nbytes - self.working_nbytes + self.optional_nbytes

    @property
    def room_for_folds(self) -> int:
        """Bytes that folds may hold together, for a search to take about twice what a fit is expected to.

        The fold at the turn has working arrays as well: those of a fit, where kernels are held as factors.
        """
        factored = self.kind == "factored"
        own = self.expected_nbytes if factored else working_nbytes(self.n_kernels, self.n_samples, stored=True)
        return max(min(2 * self.expected_nbytes - own, MOST_ROOM), 0)

    @property
    def expected(self) -> str:
        """The expected peak memory in words, for few to many active kernels."""
        least, most = format_bytes(self.least_nbytes), format_bytes(self.most_nbytes)
        return f"about {format_bytes(self.expected_nbytes)}, {least} to {most}"

    def frame(self) -> pd.DataFrame:
        """Return the plan as a table of a single row."""
        return pd.DataFrame([asdict(self)])


def plan_stack(
    n_kernels: int,
    n_samples: int,
    *,
    memory_budget: int | str | None = None,
    dtype: object = None,
    n_targets: int = 1,
    kind: str = "auto",
    repeats: Repeats = (),
    coupled: bool = False,
) -> MemoryPlan:
    """Choose the representation of M kernels on N samples that fits a budget and is fastest to read.

    In order of preference: packed float64 triangles (``4 M N (N + 1)`` bytes), packed float32 (half of it, entries
    rounded to a relative 6e-8), computed anew in every pass. Dense storage comes first with many targets, where BLAS
    wins. A fit also holds working arrays, ``8 (4 N^2 + 8 M + 16 N n_targets)`` bytes (``6 N^2`` of several targets), at
    most 64 MiB of tiles and 1 MiB of small objects, which the budget must cover too.

    Parameters
    ----------
    n_kernels, n_samples : int
        Any positive integers; nothing is allocated.
    memory_budget : int, str or None
        Bytes, or text like ``"2GB"`` or ``"512 MiB"``. None: half of the memory of the machine, or most of what is free
        where that is less.
    dtype : float32, float64 or None
        Storage dtype; None lets the plan fall back to float32.
    n_targets : int
        Number of outputs fitted together.
    kind : {"auto", "dense", "packed", "lazy"}
        Insist on a representation; the budget still binds.
    repeats : sequence of (int, int)
        Kernels of repeated points, with the number of distinct points: packed triangles among distinct points. Zero
        points: kernels as products of a single column, without a matrix.
    coupled : bool
        Whether the loss couples samples, as Cox's does.

    Raises
    ------
    MemoryBudgetError
        If nothing allowed fits the budget.
    InvalidInputError
        If an argument has no meaning.

    Examples
    --------
    >>> plan_stack(6000, 200, memory_budget="2 GB").kind
    'packed'
    >>> plan_stack(2000, 1000, memory_budget="1 GB").kind
    'lazy'
    """
    given = (("n_kernels", n_kernels), ("n_samples", n_samples), ("n_targets", n_targets))
    m, n, k = (_positive_int(value, name) for name, value in given)
    budget = memory_bytes(memory_budget)
    candidates, repeats = _candidates(kind, _dtype_names(dtype), k), repeats if kind == "auto" else ()
    for chosen, name in candidates:
        nbytes = stack_nbytes(chosen, m, n, name, repeats)
        working = working_nbytes(m, n, k, stored=chosen != "lazy", coupled=coupled)
        copied = min(COPIED_BYTES, nbytes // 2) if name == "float64" and k == 1 else 0
        working += copied
        if nbytes + working <= budget:
            reason = _reason(chosen, name, (m, n, k), budget, kind, repeats)
            varying = working - copied - FLOOR_BYTES - _array_bytes(FEWEST_SQUARES, m, n, k)
            sizes = {"n_kernels": m, "n_samples": n, "n_targets": k}
            return MemoryPlan(chosen, name, nbytes, working, budget, reason, varying_nbytes=varying, **sizes)
    if budget < working:
        raise MemoryBudgetError(_too_large(m, n, k, working, budget))
    raise MemoryBudgetError(
        f"A {chosen} {name} stack of {m} kernels on {n} samples takes {format_bytes(stack_nbytes(chosen, m, n, name))} "
        f"besides {format_bytes(working)} of working arrays, but the memory budget is {format_bytes(budget)}. "
        'Use kind="lazy", or raise memory_budget.'
    )


def plan_as_given(n_kernels: int, n_samples: int, n_targets: int, memory_budget: int | str | None) -> MemoryPlan:
    """Return the additional memory of a fit on given matrices: copies of the used kernels, in single precision."""
    m, n, budget = n_kernels, n_samples, memory_bytes(memory_budget)
    least = FLOOR_BYTES + _array_bytes(FEWEST_SQUARES, m, n, n_targets)
    most = working_nbytes(m, n, n_targets, stored=True) + min(COPIED_BYTES, 2 * m * n * (n + 1))
    sizes = {"n_kernels": m, "n_samples": n, "n_targets": n_targets}
    return MemoryPlan("dense", "float64", 0, most, budget, "As given.", varying_nbytes=most - least, **sizes)


def stack_nbytes(kind: str, n_kernels: int, n_samples: int, dtype: str, repeats: Repeats = ()) -> int:
    """Return the bytes of the stored Gram entries, an exact Python integer."""
    triangle = n_samples * (n_samples + 1) // 2
    entries = n_kernels * {"dense": n_samples**2, "packed": triangle, "lazy": 0}[kind]
    if kind == "packed":
        entries -= sum(m * (triangle - v * (v + 1) // 2) for m, v in repeats)
    return entries * np.dtype(dtype).itemsize


def working_nbytes(
    n_kernels: int, n_samples: int, n_targets: int = 1, *, stored: bool = False, coupled: bool = False
) -> int:
    """Return the bytes a fit holds besides the stack, an exact Python integer; less where matrices are stored."""
    most, squares = (STORED_TILE_BYTES, STORED_SQUARES) if stored else (TILE_BYTES, TILE_SQUARES)
    squares_held = COUPLED_SQUARES if coupled else _squares(n_targets)
    arrays = _array_bytes(squares_held, n_kernels, n_samples, n_targets)
    return FLOOR_BYTES + arrays + min(most, 8 * squares * n_samples**2)


def _squares(n_targets: int) -> int:
    """Return how many N x N arrays a fit holds besides the stack, at most."""
    return SQUARE_ARRAYS if n_targets == 1 else SHARED_SQUARES


def _array_bytes(squares: int, n_kernels: int, n_samples: int, n_targets: int) -> int:
    """Return the bytes of so many N x N arrays, and of vectors."""
    return 8 * (squares * n_samples**2 + KERNEL_VECTORS * n_kernels + SAMPLE_VECTORS * n_samples * n_targets)


def factored_nbytes(
    n_kernels: int,
    n_samples: int,
    n_columns: int,
    form: ProblemForm,
    rank: int | None,
    copied: bool,
    n_linear: int,
) -> tuple[int, int]:
    """Return the bytes that a fit on factors holds besides the columns: when few kernels take part, and when many do.

    A table copied into an array is let go of before there are vectors and Hessians. ``n_linear`` columns are factors
    unchanged, of which a path reads a copy in single precision. The curvature of a loss that couples samples takes the
    factors of all rows at once.
    """
    curved = n_columns - n_linear
    rank = min(FULL_RANK * curved if rank is None else rank * curved // n_columns, TOGETHER)
    several = SEVERAL_WIDTHS if n_kernels >= 2 * n_columns else 1.0
    held = int(8 * FACTOR_COPIES * n_samples * several * rank)
    if n_samples <= FEW_ROWS:
        held += 8 * HESSIAN_SQUARES * min(int(several * rank), n_samples) ** 2 + min(PIECES_BYTES * curved, MOST_PIECES)
    else:
        together = min(rank, HESSIAN_RANK)
        hessian = HESSIANS * (together**2 + max(HESSIAN_ENTRIES, HESSIAN_ROWS * together))
        held = max(min(held, 8 * hessian), pieces_nbytes(n_samples, curved))
    transforms = min(TRANSFORM_BYTES, TRANSFORM_COLUMN * n_columns)
    later = max(8 * FACTOR_VECTORS * n_samples, transforms + 8 * PASS_VECTORS * n_samples) + 4 * n_samples * n_linear
    later += 8 * TARGET_VECTORS * n_samples * (form.n_targets - 1)
    later += 8 * min(int(n_samples * several * rank), COUPLED_ENTRIES) if form.coupled else 0
    first = 8 * n_samples * n_columns if copied else 0
    always = FLOOR_BYTES + 8 * KERNEL_VECTORS * n_kernels
    return always + max(first, later), always + max(first, later + held)


def pieces_nbytes(n_samples: int, n_columns: int) -> int:
    """Return the bytes of functions of so many columns in pieces."""
    return min(n_columns, CURVES) * (CURVE_BYTES + 2 * n_samples)


def memory_bytes(budget: int | str | None) -> int:
    """Return a memory budget in bytes; None means half of the memory of the machine, less where not free."""
    if budget is None:
        return min(total_memory() // 2, int(FREE_SHARE * available_memory()))
    size = 0
    if isinstance(budget, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", budget.lower())
        if match and match[2] in UNITS:
            size = int(float(match[1]) * UNITS[match[2]])
    elif isinstance(budget, Integral) and not isinstance(budget, bool):
        size = int(budget)
    if size <= 0:
        raise InvalidInputError(
            f'memory_budget must be a positive number of bytes or text such as "2GB" or "512 MiB", got {budget!r}.'
        )
    return size


def table_fits(n_rows: int, n_columns: int, budget: int) -> bool:
    """Return whether rows in chunks are read into one table: their columns as float64 leave most of a budget to a fit.

    Examples
    --------
    >>> table_fits(240_000, 4, budget=100_000_000), table_fits(10_000_000, 28, budget=4_000_000_000)
    (True, False)
    """
    return 8 * n_rows * n_columns <= TABLE_SHARE * budget


def format_bytes(nbytes: int) -> str:
    """Return a size for a person, in decimal units."""
    if nbytes < 1000:
        return f"{nbytes} B"
    power = min((len(str(nbytes)) - 1) // 3, 6)
    value = nbytes / 1000**power
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f} {('kB', 'MB', 'GB', 'TB', 'PB', 'EB')[power - 1]}"


def _candidates(kind: str, dtypes: tuple[str, ...], n_targets: int) -> list[tuple[Kind, str]]:
    if kind not in ("auto", *KINDS):
        raise InvalidInputError(f"kind must be one of {('auto', *KINDS)}, got {kind!r}.")
    order: tuple[Kind, ...] = ("packed",)
    if kind == "lazy":
        return [("lazy", dtypes[0])]
    if kind == "dense" or (kind == "auto" and n_targets >= MANY_TARGETS):
        order = ("dense",) if kind == "dense" else ("dense", "packed")
    found: list[tuple[Kind, str]] = [(chosen, name) for name in dtypes for chosen in order]
    return [*found, ("lazy", dtypes[0])] if kind == "auto" else found


def _dtype_names(dtype: Any) -> tuple[str, ...]:
    if dtype is None:
        return ("float64", "float32")
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = str(dtype)
    if name not in ("float32", "float64"):
        raise InvalidInputError(f"dtype must be float32, float64 or None, got {dtype!r}.")
    return (name,)


def _positive_int(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise InvalidInputError(f"{name} must be a positive integer, got {value!r}.")
    return int(value)


def _reason(kind: Kind, dtype: str, sizes: tuple[int, int, int], budget: int, asked: str, repeats: Repeats) -> str:
    m, n, k = sizes
    size, allowed = format_bytes(stack_nbytes(kind, m, n, dtype)), f"the budget is {format_bytes(budget)}"
    full, half = (format_bytes(stack_nbytes("packed", m, n, name, repeats)) for name in ("float64", "float32"))
    among = sum(own for own, n_points in repeats if n_points)
    if among and kind != "dense":
        allowed = f"{among} kernels are matrices among distinct points; {allowed}"
    if asked != "auto":
        return f"{kind.capitalize()}, as asked: {size} stored in {dtype}; {allowed}."
    if kind == "lazy":
        return f"Lazy: {m} kernels on {n} samples would take {full} packed in float64 and {half} in float32; {allowed}."
    if kind == "dense":
        return f"Dense: {size} in {dtype} fit ({allowed}), and products with {k} targets are fastest on full matrices."
    if dtype == "float32":
        return f"Packed float32: {half} fit where {full} of float64 may not; {allowed}."
    return f"Packed float64: {full} fit; {allowed}."


def _too_large(m: int, n: int, k: int, working: int, budget: int) -> str:
    return (
        f"{m} kernels on {n} samples cannot be fitted within the memory budget of {format_bytes(budget)}: even with "
        f"Gram matrices computed block by block, the working arrays ({_squares(k)} matrices of {n} x {n} and vectors "
        f"a kernel and a sample) take {format_bytes(working)}. Use fewer samples or kernels, or raise memory_budget."
    )


def plan_kernels(
    n_kernels: int,
    n_samples: int,
    n_columns: int,
    *,
    representation: str = "auto",
    memory_budget: int | str | None = None,
    form: ProblemForm = SINGLE,
    n_landmark: int = 0,
    landmarks: int = 0,
    rank: int | None = None,
    copied: bool = True,
    column_bytes: int | None = None,
    n_linear: int = 0,
    features: float = 0.0,
    object_bytes: int = 0,
    refusal: str | None = None,
    repeats: Callable[[], Repeats] = tuple,
) -> MemoryPlan:
    """Choose between Gram matrices and factors, and say why; see :func:`plan_stack` for the kind of matrices.

    Factors are taken where matrices would not fit, would have to be computed anew in every pass, or would take clearly
    longer, by the seconds that :func:`gram_seconds` and :func:`factored_seconds` predict. Kernels of several columns
    then become matrices as they enter the model, beside the factors of the rest.

    Parameters
    ----------
    n_kernels, n_samples, n_columns : int
        Of the bank and the rows.
    representation : {"auto", "gram", "factored"}
        "auto" chooses.
    memory_budget : int, str or None
        As in :func:`plan_stack`.
    form : ProblemForm
        With averages, "auto" takes factors of kernels of single columns alone, and later. Of a single target and a loss
        with a kink, few coefficients do too.
    n_landmark : int
        Kernels whose factors need landmarks, for example Gaussians of several columns.
    landmarks : int
        For projected kernels, the largest number of landmarks.
    rank : int, optional
        Of the factors of all columns together, as far as few distinct values limit it; that of many values if None.
    copied : bool
        Whether the columns are first copied into a single array, as those of a frame are.
    column_bytes : int, optional
        Of the columns as factors read them, none where these are read as given; float64 if None.
    n_linear : int
        Columns of linear kernels alone, usable as factors unchanged.
    features : float
        Features of objects, for example k-mers of sequences, of all rows and kernels together.
    object_bytes : int
        What kernels of objects, and projections on landmarks, hold as factors.
    refusal : str, optional
        Why factors cannot be had; "auto" then takes matrices.
    repeats : callable
        Returns those of :func:`plan_stack`; asked only where matrices may be taken.

    Returns
    -------
    MemoryPlan
        Of the kind "factored", or as from :func:`plan_stack`.

    Raises
    ------
    IncompatibleError
        If factors are asked for and cannot be had.
    MemoryBudgetError
        If neither fits.
    InvalidInputError
        If an argument has no meaning.

    Examples
    --------
    >>> [plan_kernels(44, n, 10, memory_budget="1 GB").kind for n in (300, 3_000, 50_000)]
    ['packed', 'factored', 'factored']
    """
    if representation not in REPRESENTATIONS:
        raise InvalidInputError(f"representation must be one of {REPRESENTATIONS}, got {representation!r}.")
    if representation == FACTORED and refusal is not None:
        raise IncompatibleError(f"representation='factored' is not available: {refusal}. Or use representation='gram'.")
    memory_budget = memory_bytes(memory_budget)
    sizes: dict[str, Any] = {"n_kernels": n_kernels, "n_samples": n_samples}
    spared = _spared(form, n_samples, n_columns, rank, n_landmark, landmarks)
    factors_s = factored_seconds(n_kernels, n_samples, n_columns, form, landmarks, n_landmark, rank, features)
    # A bank is projected on landmarks in order to be factors, and matrices of these take longer than to be read.
    counted = tuple if landmarks else repeats
    bar = spared + CLEARLY * factors_s
    seconds = gram_seconds_beyond(bar, **sizes, form=form, repeats=counted), factors_s
    sizes |= {"n_targets": form.n_together, "coupled": form.coupled}  # matrices are read for one after the other
    why = _why_factors(sizes, seconds, spared, representation, memory_budget, repeats)
    if why is None or refusal is not None:
        return _plan_matrices(sizes, memory_budget, repeats, refusal)
    nbytes = (8 * n_samples * n_columns if column_bytes is None else column_bytes) + object_bytes
    least, working = factored_nbytes(n_kernels, n_samples, n_columns, form, rank, copied, n_linear)
    if nbytes + working > memory_budget:
        raise MemoryBudgetError(
            f"{n_kernels} kernels on {n_samples} samples of {n_columns} columns take {format_bytes(nbytes + working)} "
            f"even as factors, but the memory budget is {format_bytes(memory_budget)}. Use fewer samples or columns, "
            "or raise memory_budget."
        )
    matrices = 8 * MIXED_SQUARES * n_samples**2 if n_landmark else 0
    matrices = matrices if nbytes + working + matrices <= memory_budget else 0  # which can do without them
    bytes_held = nbytes, working + matrices, memory_budget, f"Factors: {why}.", matrices, working + matrices - least
    return MemoryPlan("factored", "float64", *bytes_held, n_kernels, n_samples, n_columns, form.n_targets)


def _plan_matrices(
    sizes: dict[str, Any], memory_budget: int | str | None, repeats: Callable[[], Repeats], refusal: str | None
) -> MemoryPlan:
    """Return the plan of matrices; an error names factors, or why they cannot be had."""
    try:
        return plan_stack(**sizes, memory_budget=memory_budget, repeats=repeats())
    except MemoryBudgetError as error:
        able = "representation='factored' forms none of them"
        more = able if refusal is None else f"factors, which form none of them, cannot be had: {refusal}"
        raise MemoryBudgetError(f"{error} (Matrices among samples: {more}.)") from None


def quick_matrices(
    n_kernels: int,
    n_samples: int,
    form: ProblemForm,
    memory_budget: int | str | None,
    repeats: Callable[[], Repeats] = tuple,
) -> MemoryPlan | None:
    """Return the plan of fitting matrices and a quick fit, without consideration of factors."""
    if gram_seconds(n_kernels, n_samples, form) > _least_spared(form):
        return None
    sizes: dict[str, Any] = {
        "n_targets": form.n_together,
        "memory_budget": memory_budget,
        "coupled": form.coupled,
    }
    try:
        plan = plan_stack(n_kernels, n_samples, repeats=repeats(), **sizes)
    except MemoryBudgetError:
        return None
    return None if plan.kind == "lazy" else plan


def _least_spared(form: ProblemForm) -> float:
    """Return the minimal predicted saving of factors, in seconds."""
    return NOTICED_OF_KINKS if form.kinked else NOTICED


def _spared(
    form: ProblemForm, n_samples: int, n_columns: int, rank: int | None, n_landmark: int, landmarks: int
) -> float:
    """Return the minimal saving of factors in seconds, also for kinked losses on few coefficients with averages."""
    if not form.averages or n_landmark:
        return np.inf if form.averages else _least_spared(form)
    coefficients = FULL_RANK * n_columns if rank is None else rank
    few = coefficients <= min(FEW_COEFFICIENTS, n_samples / ROWS_OF_COEFFICIENT)
    single = form.n_targets == 1 and not landmarks
    return _least_spared(form) if form.kinked and few and single else AVERAGES


def _why_factors(
    sizes: dict[str, Any],
    seconds: tuple[float, float],
    spared: float,
    representation: str,
    memory_budget: int | str | None,
    repeats: Callable[[], Repeats],
) -> str | None:
    """Return the reason for kernels as factors; None for matrices, or too little gain."""
    if representation != "auto":
        return "as asked" if representation == FACTORED else None
    n_kernels, n_samples = sizes["n_kernels"], sizes["n_samples"]
    matrices, factors = seconds
    if np.isinf(matrices):
        return "a loss with kinks under shared weights is solved on factors alone"
    try:
        plan = plan_stack(**sizes, memory_budget=memory_budget)
    except MemoryBudgetError:
        square = format_bytes(working_nbytes(**sizes))
        return f"the arrays among {n_samples} samples alone would take {square}"
    if plan.kind == "lazy":
        plan = plan_stack(**sizes, memory_budget=memory_budget, repeats=repeats())
    if plan.kind == "lazy":
        again = ANEW * ENTRY * n_kernels * n_samples**2 / 2
        stored = plan.reason.removesuffix(".")
        return f"stored matrices would not fit. {stored}" if matrices + again > NOTICED + factors else None
    if matrices > spared + CLEARLY * factors:
        return f"matrices among {n_samples} samples should take about {matrices:.2g} s, factors {factors:.2g} s"
    return None
