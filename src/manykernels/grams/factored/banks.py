"""A bank divided among factored stacks by a table of capabilities."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from manykernels.exceptions import IncompatibleError
from manykernels.grams.factored.base import FactoredStack
from manykernels.grams.factored.cells import grid_parts, has_few_cells, sees_cells
from manykernels.grams.factored.chunked import ChunkedTable, header_of
from manykernels.grams.factored.composite import CompositeStack
from manykernels.grams.factored.explicit import ExplicitStack, levels_of
from manykernels.grams.factored.features import averages_levels, feature_map
from manykernels.grams.factored.fourier import FourierStack
from manykernels.grams.factored.grid import GridStack, mean_diagonals
from manykernels.grams.factored.nystroem import NystroemStack
from manykernels.grams.factored.scan import ScanStack
from manykernels.grams.factored.sparse import SparseStack
from manykernels.grams.factored.window import WindowStack, has_window
from manykernels.grams.rows.base import RowSource
from manykernels.grams.rows.columns import ColumnTable
from manykernels.grams.rows.opening import is_chunked, open_rows
from manykernels.kernels import FittedBank, Gaussian, KernelBank, KernelSpec, Laplacian, Matern, ObjectKernel
from manykernels.kernels.bank.bank import ROBUST, bank_kinds, columns_of_kernels, resolve_specs
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.bank.grids import DefaultKernels
from manykernels.kernels.bank.normalization import CENTERED_ZERO, check_diagonal, training_scales, unit_factors
from manykernels.kernels.bank.patterns import NamedKernel, distinct_specs
from manykernels.kernels.bank.table_kernels import TableKernels
from manykernels.kernels.specs.distances import BIN_ROWS, MEDIAN_ROWS, require_width
from manykernels.kernels.specs.inner import Linear
from manykernels.kernels.tables.encoding import Encoding, MixedRows, numbers_of
from manykernels.validation.arrays import Array, plainly_finite

LANDMARK_PRODUCTS = 1e9  # rows times the square of landmarks of the default bank: what a step on them costs
LANDMARK_COUNTS = (50, 500)  # compared by `gram_or_factored.py --problem landmarks`
SQUARED = 2**15  # entries of columns that are squared together: they stay in a cache

Positions = tuple[int, ...]

Levels = Sequence[Array] | None

SERVED_BY: tuple[tuple[str, Callable[[KernelSpec, int, Levels], bool]], ...] = (
    ("fourier", lambda spec, n_columns, levels: isinstance(spec, Gaussian) and n_columns == 1),
    ("sparse", lambda spec, n_columns, levels: isinstance(spec, ObjectKernel) and spec.explicit),
    ("explicit", lambda spec, n_columns, levels: feature_map(spec, n_columns, levels) is not None),
    ("grid", lambda spec, n_columns, levels: has_few_cells(spec, levels)),
    ("scan", lambda spec, n_columns, levels: isinstance(spec, (Laplacian, Matern)) and n_columns == 1),
    ("window", lambda spec, n_columns, levels: has_window(spec, n_columns)),
    ("nystroem", lambda spec, n_columns, levels: True),
)
"""Which stack serves a kernel: the first that can."""

KINDS: dict[str, type[Any]] = {
    "sparse": SparseStack, "explicit": ExplicitStack, "grid": GridStack, "scan": ScanStack, "window": WindowStack,
    "nystroem": NystroemStack,
}  # fmt: skip


def served_by(spec: KernelSpec, n_columns: int, levels: Levels = None) -> str:
    """Return the kind of factored stack for a kernel on a number of columns."""
    return next(kind for kind, able in SERVED_BY if able(spec, n_columns, levels))


def reads_rows(bank: KernelBank) -> bool:
    """Return whether a stack can read rows unchanged for a bank, without row-wise centering or scaling."""
    return not (bank.center or bank.normalize == "unit_diagonal")


def factored_stack(X: object, bank: KernelBank) -> FactoredStack:
    """Return the kernels of a bank on a table as a stack of linear cost in the rows."""
    if not reads_rows(bank):
        raise IncompatibleError(
            f"Factored stacks know normalize='trace', 'mean_diagonal' or None without centering, but the bank has "
            f"normalize={bank.normalize!r}, center={bank.center}. Change it with bank.replace(...)."
        )
    kernels, table = _read(X, bank)
    names, positions = [name for name, _, _ in kernels], [columns for _, _, columns in kernels]
    # Medians and bins are of rows drawn with the bank's own seed.
    specs = resolve_specs(
        kernels, partial(table.draw_points, size=MEDIAN_ROWS), partial(table.draw_points, size=BIN_ROWS)
    )
    scales = _scales(names, specs, positions, table, bank.normalize)
    return compose_stack(table, names, positions, specs, scales, bank.landmarks_by)


def compose_stack(
    table: ColumnTable,
    names: Sequence[str],
    positions: Sequence[Positions],
    specs: Sequence[KernelSpec],
    scales: Array,
    landmarks_by: str = "cholesky",
) -> CompositeStack:
    """Return kernels on columns of a table, divided among suitable stacks."""
    keys = list(zip(map(id, specs), map(len, positions), strict=True))
    known: dict[tuple[int, int], str] = {}  # of specs whatever levels columns have: a width of many columns is one spec
    for key, spec in dict(zip(keys, specs, strict=True)).items():
        by_cells = averages_levels(spec) or grid_parts(spec) is not None
        known[key] = "" if by_cells else served_by(spec, key[1])
    kinds = np.array(list(map(known.__getitem__, keys)), dtype=object)
    for m in np.flatnonzero(kinds == "").tolist():
        kinds[m] = served_by(specs[m], len(positions[m]), levels_of(specs[m], positions[m], table))
    parts, members = [], []
    for kind, _ in SERVED_BY:
        own = np.flatnonzero(kinds == kind)
        if len(own):
            chosen, places = [specs[m] for m in own.tolist()], [positions[m] for m in own.tolist()]
            parts.append(_part(kind, table, places, chosen, scales[own], landmarks_by))
            members.append(own)
    return CompositeStack(parts, members, names=names)


def _read(X: object, bank: KernelBank) -> tuple[list[NamedKernel], ColumnTable]:
    """Return the kernels of a bank, and the used columns."""
    if is_chunked(X):
        return _read_chunks(open_rows(X), bank)
    if isinstance(X, np.ndarray) and bank.missing != "indicator":
        kernels = bank.expand(Table.wrap(X))
        heavy = _heavy_tails(bank, kernels, Table.wrap(X))
        return kernels, ColumnTable(X, standardize=bank.standardize, missing=bank.missing, encodings=heavy)
    rows = Table.wrap(X)
    bank.check(rows)
    kernels = bank.expand(rows)
    options = _options(bank, kernels) | {"encodings": _heavy_tails(bank, kernels, rows)}
    return kernels, ColumnTable(rows, **options, used=columns_of_kernels(kernels).tolist())


def _options(bank: KernelBank, kernels: list[NamedKernel]) -> dict[str, Any]:
    """Return how tables of columns read rows for a bank."""
    return {"standardize": bank.standardize, "missing": bank.missing, "carried": _object_columns(kernels)}


def _heavy_tails(bank: KernelBank, kernels: list[NamedKernel], rows: Table) -> dict[int, Encoding]:
    """Return the encodings of columns whose tails a bank compresses, by their positions."""
    if bank.standardize != ROBUST:
        return {}
    numbers = np.array([j for j in columns_of_kernels(kernels).tolist() if rows.kind(j) == "number"], dtype=np.intp)
    return bank.heavy_tails(kernels, numbers, rows.codes(numbers), [rows.encoding(j) for j in numbers])


def _read_chunks(source: RowSource, bank: KernelBank) -> tuple[list[NamedKernel], ColumnTable]:
    """Return the kernels of a bank from a sample of rows and the columns with gaps, and the table."""
    rows = header_of(source)
    bank.check(rows)
    kernels = bank.expand(rows)
    used = columns_of_kernels(kernels).tolist()
    table = ChunkedTable(source, rows, **_options(bank, kernels), used=used)
    table.compress_tails(bank.compressible(kernels, {j: Encoding(rows.kind(j)) for j in used}))
    if not table.gaps.any():
        return kernels, table
    rows = replace(rows, data=_gap_rows(rows.data, np.flatnonzero(table.gaps)), _encodings={}, _read={}, expanded={})
    return bank.expand(rows), table


def projected_bank(bank: KernelBank, n_rows: int) -> KernelBank:
    """Return a bank whose default Gaussians of several columns are projected on landmarks, fewer for many rows.

    No factor holds the kernels exactly, and a bound on the rest needs all pairs of rows.
    """
    count = default_landmarks(n_rows)
    entries = [entry.project(count) if isinstance(entry, DefaultKernels) else entry for entry in bank.kernels]
    return bank.replace(kernels=entries)


def default_landmarks(n_rows: int) -> int:
    """Return the number of landmarks of the default kernels for so many rows."""
    return int(np.clip(np.sqrt(LANDMARK_PRODUCTS / n_rows), *LANDMARK_COUNTS))


def _gap_rows(head: pd.DataFrame | Array, columns: Array) -> Any:
    """Return rows with a missing value in every column, in separate rows, for distinct patterns of gaps."""
    frame = pd.DataFrame(head)
    repeated = frame.iloc[np.resize(np.arange(len(frame)), max(len(frame), len(columns)))].reset_index(drop=True)
    for row, column in enumerate(columns):
        repeated.iloc[:, column] = repeated.iloc[:, column].mask(np.arange(len(repeated)) == row)
    return repeated if isinstance(head, pd.DataFrame) else repeated.to_numpy()


def _object_columns(kernels: list[NamedKernel]) -> dict[int, bool]:
    """Return the columns read as objects by some kernel, and whether exclusively."""
    others = {j for _, spec, columns in kernels if not isinstance(spec, ObjectKernel) for j in columns}
    return {own[0]: own[0] not in others for _, spec, own in kernels if isinstance(spec, ObjectKernel)}


def _part(
    kind: str, table: ColumnTable, positions: list[Positions], specs: list[Any], scales: Array, landmarks_by: str
) -> FactoredStack:
    if kind == "fourier":
        columns = np.array([column for (column,) in positions])
        widths = {key: require_width(spec.width) for key, spec in distinct_specs(specs).items()}
        return FourierStack(table, columns, np.array([widths[id(spec)] for spec in specs]), scales)
    options = {"landmarks_by": landmarks_by} if kind in ("nystroem", "window") else {}
    return KINDS[kind](table, positions, specs, scales, **options)


def _scales(
    names: Sequence[str],
    specs: Sequence[KernelSpec],
    positions: Sequence[Positions],
    table: ColumnTable,
    normalize: str | None,
) -> Array:
    """Return the factors for unit traces or mean diagonals; 0 for a zero kernel."""
    if normalize is None:
        return np.ones(len(specs))
    means, counts = _mean_diagonals(names, specs, positions, table)
    scales = training_scales(means[:, None], normalize, tuple(names))
    return scales / counts if normalize == "trace" else scales


def _diagonals(parts: Sequence[tuple[str, KernelSpec, Positions]], table: ColumnTable) -> Array:
    """Return the diagonal sum of every kernel over some rows, and the number of valid rows, (M, 2)."""
    return np.array([_diagonal_sum(*part, table) for part in parts])


def _diagonal_sum(name: str, spec: KernelSpec, columns: Positions, table: ColumnTable) -> tuple[float, int]:
    """Return the diagonal sum of a kernel over all valid rows, and their number."""
    known = None if spec.family == "missing" else table.present(columns)
    count = table.n_rows if known is None else int(known.sum())
    if spec.unit_diagonal:
        return float(count), count
    if isinstance(spec, ObjectKernel) and spec.explicit:
        diagonal = table.features_of(spec, columns[0]).squares
    else:
        diagonal = table.diagonal(spec, columns)
    return float(check_diagonal(diagonal, name).sum()), count


# A bank fitted on training rows in memory, with the normalization of banks on matrices.


@dataclass(frozen=True)
class UnitDiagonal(KernelSpec):
    """``k(x, z) / sqrt(k(x, x) k(z, z))``, as "unit_diagonal" normalizes; 0 where ``k(x, x)`` is."""

    kind: ClassVar[str] = "unit_diagonal"
    base: KernelSpec

    @property
    def family(self) -> str:  # type: ignore[override]  # a constant of others
        """Rows, or gaps, as the kernel itself."""
        return "missing" if self.base.family == "missing" else "other"

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        left = unit_factors(self.base.diag(A))
        right = left if B is None else unit_factors(self.base.diag(B))
        return np.asarray(left[:, None] * self.base(A, B) * right)

    def diag(self, A: Array) -> Array:
        """Return 1, or 0 for a zero kernel."""
        return np.asarray((self.base.diag(A) > 0).astype(np.float64))


def refusal_of_bank(bank: object, *, fit_intercept: bool = True) -> str | None:
    """Return the reason why a bank cannot be held as factors with a remedy, or None."""
    if not isinstance(bank, KernelBank):
        return "kernels given as matrices have no columns to make factors of; pass the rows and a KernelBank"
    if bank.center and bank.normalize == "unit_diagonal":
        return (
            "with center=True, normalize='unit_diagonal' divides by a diagonal that takes every pair of rows to compute"
            "; take normalize='mean_diagonal', or center=False"
        )
    if bank.center and not fit_intercept:
        return (
            "centered kernels need a constant that takes up what centering removes; set fit_intercept=True, or "
            "center=False"
        )
    return None


def _fit_table(bank: KernelBank, rows: Table) -> tuple[TableKernels, ColumnTable]:
    """Return the kernels of a bank before normalization, and the columns that they read, in place if possible."""
    in_place = _reads_any_unit(bank, rows)
    raw, values = bank.fit_columns(rows, in_their_units=in_place)
    if in_place and not _plain_units(raw.column_means, raw.column_scales):
        in_place = False
        raw, values = bank.fit_columns(rows)
    gaps = not in_place and not plainly_finite(numbers_of(values)) and bool(np.isnan(numbers_of(values)).any())
    if gaps and bank.center:
        raise IncompatibleError(
            "Kernels with missing values cannot be centered as factors: rows with missing values would not be zero. "
            "Use center=False, impute the values, or pass representation='gram' for fewer rows."
        )
    columns: Any = np.asfortranarray(numbers_of(values))
    if isinstance(values, MixedRows):
        columns = MixedRows(columns, values.objects)
    units = (raw.column_means, raw.column_scales) if in_place else None
    return raw, ColumnTable(columns, missing="mask" if gaps else "error", units=units)


def fit_factors(
    bank: KernelBank, X: object, *, fit_intercept: bool = True, rounded: bool = False
) -> tuple[FittedBank, FactoredStack]:
    """Fit a bank on training rows and return it with the stack of the kernels as factors.

    Widths, standardization and normalization follow :meth:`KernelBank.fit`. Centering changes functions by a constant
    only, absorbed by the intercept: since dual coefficients sum to zero, dual norms and norms of functions are
    unchanged, except their scale. ``rounded`` permits cached features in single precision.

    Examples
    --------
    >>> from manykernels import KernelBank
    >>> fitted, stack = fit_factors(KernelBank.per_feature(widths=[1.0]), [[0.0, 1.0], [1.0, 3.0]])
    >>> fitted.names, stack.n_kernels
    (('x0: gaussian(width=1)', 'x1: gaussian(width=1)'), 2)
    """
    why = refusal_of_bank(bank, fit_intercept=fit_intercept)
    if why is not None:
        raise IncompatibleError(f"This bank cannot be held as factors: {why}. Or pass representation='gram'.")
    raw, table = _fit_table(bank, Table.wrap(X, sparse=True))
    table.kept_dtype = np.dtype(np.float32 if rounded else np.float64)
    places, used = raw.positions, raw.used.tolist()
    if used[-1] >= len(used):  # others are left out
        place = {j: at for at, j in enumerate(used)}
        places = tuple([tuple([place[j] for j in columns]) for columns in places])
    specs = raw.specs
    if bank.normalize == "unit_diagonal":
        specs = tuple(map(_unit_diagonal, specs))
    means, counts = _mean_diagonals(raw.names, specs, places, table)
    if bank.center:
        plain = compose_stack(table, raw.names, places, specs, np.ones(len(specs)))
        grand = np.array([_grand_total(plain, m) for m in range(len(specs))]) / table.n_rows**2
        means = np.where(means - grand > CENTERED_ZERO * means, means - grand, 0.0)
    scales = training_scales(means[:, None], bank.normalize, raw.names)
    fitted = FittedBank(raw, scales / counts if bank.normalize == "trace" else scales, bank.normalize)
    return fitted, compose_stack(table, raw.names, places, specs, fitted.scales, bank.landmarks_by)


def _reads_any_unit(bank: KernelBank, rows: Table) -> bool:
    """Whether all kernels of a bank read columns in whatever unit these are: then no copy of the table is made.

    Not where gaps are allowed, nor where columns say how wide kernels are.
    """
    if bank.missing != "error" or rows.views is not None or rows.is_sparse:
        return False
    kinds = bank_kinds(bank, rows)
    return all(served_by(kind.spec, kind.n_columns) == "fourier" and not kind.spec.pending for kind in kinds)


def column_bytes(bank: KernelBank, rows: Table) -> int:
    """Return the bytes of the columns of a table held by `fit_factors`, except columns read in place."""
    any_unit, given = _reads_any_unit(bank, rows), isinstance(rows.data, np.ndarray)
    as_it_is = any_unit or (rows.data.dtype == np.float64 and not bank.standardize) if given else False
    if as_it_is and rows.data.flags.f_contiguous:
        return 0
    return int(len(rows) * rows.n_columns * (rows.data.dtype.itemsize if given and any_unit else 8))


def _plain_units(means: Array, scales: Array) -> bool:
    """Whether no square of a column leaves float64, and where a column is takes few of the digits of the entries."""
    largest = 1e100  # standard deviation of a column that is read in its own unit
    far = 1e6  # standard deviations to its mean
    return bool(((np.abs(means) < far * scales) & (scales > 1 / largest) & (scales < largest)).all())


def _grand_total(stack: FactoredStack, kernel: int) -> float:
    """Return the sum of all entries of a kernel, whatever shape the functions must have."""
    if stack.constraints_of(kernel) is None:
        return stack.exact_quad(kernel, np.ones(stack.n_samples))[0]
    return float(np.sum(stack.factor(kernel, 0.0).sum(axis=0) ** 2))


def _unit_diagonal(spec: KernelSpec) -> KernelSpec:
    """Return a kernel divided by the roots of the diagonal; sparse features are divided by their lengths."""
    if isinstance(spec, ObjectKernel):
        return spec.unit()
    return spec if spec.unit_diagonal else UnitDiagonal(spec)


def _mean_diagonals(
    names: Sequence[str], specs: Sequence[KernelSpec], places: Sequence[tuple[int, ...]], table: ColumnTable
) -> tuple[Array, Array]:
    """Return the mean diagonal of every kernel over the valid rows, and their number."""
    means, counts = np.empty(len(specs)), np.empty(len(specs), dtype=np.int64)
    kinds = dict(zip(map(id, specs), specs, strict=True))
    ones, cells = np.zeros(len(specs), dtype=bool), np.zeros(len(specs), dtype=bool)
    if not table.gaps.any() and any(spec.unit_diagonal for spec in kinds.values()):
        ones[:] = [spec.unit_diagonal for spec in specs]
    if by_cells := {key for key, spec in kinds.items() if grid_parts(spec) is not None}:
        each = zip(ones.tolist(), specs, places, strict=True)
        cells[:] = [not one and id(spec) in by_cells and sees_cells(spec, own, table) for one, spec, own in each]
    means[ones], counts[ones] = 1.0, table.n_rows
    linear = {key for key, spec in kinds.items() if type(spec) is Linear}
    chosen = [m for m, key in enumerate(map(id, specs)) if key in linear] if linear else []
    plain, totals = _squared_columns(table, chosen, places)
    means[plain], counts[plain] = totals / table.n_rows, table.n_rows
    if rest := np.setdiff1d(np.flatnonzero(~(cells | ones)), plain).tolist():
        used = sorted({j for m in rest for j in places[m]})
        parts = [(names[m], specs[m], places[m]) for m in rest]
        totals, known = np.transpose(table.reduce(used, partial(_diagonals, parts)))  # chunks in one reading
        counts[rest] = np.maximum(known, 1)
        means[rest] = totals / counts[rest]
    own = np.flatnonzero(cells).tolist()
    if own:  # thousands of pairs of columns share their readings
        means[own], known = mean_diagonals(table, [places[m] for m in own], [specs[m] for m in own])
        counts[own] = np.maximum(known, 1)
    return means, counts


def _squared_columns(
    table: ColumnTable, linear: Sequence[int], places: Sequence[tuple[int, ...]]
) -> tuple[Array, Array]:
    """Return linear kernels on columns in memory without gaps, and the sums of their diagonals; columns are read once.

    Kernels with nonfinite values are left out, for a later error on the rows.
    """
    as_they_are = not (table.chunked or isinstance(table.columns, dict) or table.gaps.any())
    if not linear or not as_they_are or table.center.any() or (table.unit != 1.0).any():
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    own = [places[m] for m in linear]
    ranks, columns = list(map(len, own)), np.array(list(chain.from_iterable(own)))
    used, squares = np.unique(columns), np.zeros(table.n_columns)
    count, neighbors = max(SQUARED // table.n_rows, 1), used[-1] - used[0] < len(used)
    for start in range(0, len(used), count):
        part = used[start : start + count]
        chosen = slice(part[0], part[-1] + 1) if neighbors else part
        squares[chosen] = np.einsum("ij,ij->i", *[table.columns[chosen]] * 2, dtype=np.float64)
    totals = np.bincount(np.repeat(np.arange(len(linear)), ranks), squares[columns])
    finite = np.isfinite(totals)
    return np.array(linear)[finite], totals[finite]
