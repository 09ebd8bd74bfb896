"""A bank divided among factored stacks by a table of who serves which kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from manykernels.exceptions import IncompatibleError
from manykernels.grams.base import GramStack
from manykernels.grams.factored.base import FactoredStack, FactorOperator
from manykernels.grams.factored.columns import ColumnTable
from manykernels.grams.factored.explicit import ExplicitStack, levels_of
from manykernels.grams.factored.features import feature_map
from manykernels.grams.factored.fourier import FourierStack
from manykernels.grams.factored.nystroem import NystroemStack
from manykernels.grams.factored.scan import ScanStack
from manykernels.kernels import Gaussian, KernelBank, KernelSpec, Laplacian, Matern
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.bank.patterns import NamedKernel
from manykernels.kernels.specs.widths import MEDIAN_ROWS, MedianDistances, known_width
from manykernels.validation.arrays import Array

Positions = tuple[int, ...]

Levels = Sequence[Array] | None

SERVED_BY: tuple[tuple[str, Callable[[KernelSpec, int, Levels], bool]], ...] = (
    ("fourier", lambda spec, n_columns, levels: isinstance(spec, Gaussian) and n_columns == 1),
    ("explicit", lambda spec, n_columns, levels: feature_map(spec, n_columns, levels) is not None),
    ("scan", lambda spec, n_columns, levels: isinstance(spec, (Laplacian, Matern)) and n_columns == 1),
    ("nystroem", lambda spec, n_columns, levels: True),
)
"""Which stack serves a kernel: the first that can."""


def served_by(spec: KernelSpec, n_columns: int, levels: Levels = None) -> str:
    """Return the kind of factored stack that serves a kernel on that many columns.

    Parameters
    ----------
    spec : KernelSpec
    n_columns : int
    levels : sequence of (L_j,) float64, optional
        The different values of every column, where they are few and the kernel is one of categories or ranks.

    Returns
    -------
    str

    Examples
    --------
    >>> from manykernels import Gaussian
    >>> served_by(Gaussian(1.0), 1), served_by(Gaussian(1.0), 2)
    ('fourier', 'nystroem')
    """
    return next(kind for kind, able in SERVED_BY if able(spec, n_columns, levels))


class CompositeStack(FactoredStack):
    """Factored stacks on the same rows, one after the other, under the bank's numbering.

    Parameters
    ----------
    parts : sequence of FactoredStack
    members : sequence of (m,) int
        Which kernels of the whole each part holds; every kernel once.
    names : sequence of str, optional
    """

    def __init__(
        self, parts: Sequence[FactoredStack], members: Sequence[Array], *, names: Sequence[str] | None = None
    ) -> None:
        super().__init__(sum(map(len, members)), parts[0].n_samples, np.float64, names=names)
        self.table = parts[0].table
        self.parts, self.members = tuple(parts), tuple(np.asarray(member) for member in members)
        self._part, self._place = np.empty(self.n_kernels, dtype=int), np.empty(self.n_kernels, dtype=int)
        for number, member in enumerate(self.members):
            self._part[member], self._place[member] = number, np.arange(len(member))

    def _at(self, kernel: int) -> tuple[FactoredStack, int]:
        return self.parts[self._part[kernel]], int(self._place[kernel])

    def _gather(self, values: Sequence[Array]) -> Array:
        out = np.empty((self.n_kernels, *values[0].shape[1:]), dtype=values[0].dtype)
        for member, part in zip(self.members, values, strict=True):
            out[member] = part
        return out

    def _quad(self, r: Array) -> Array:
        return self._gather([part._quad(r) for part in self.parts])

    def quad_bounds(self, rho: Array) -> tuple[Array, Array]:
        """Return bounds (M,) from below and above on ``rho' K_m rho``: one pass."""
        self._count(self.n_kernels)
        bounds = [part.quad_bounds(rho) for part in self.parts]
        return self._gather([low for low, _ in bounds]), self._gather([high for _, high in bounds])

    @property
    def error_constants(self) -> Array:
        """Bounds (M,) on the error of ``quad(rho)`` beside ``||rho||_1^2``."""
        return self._gather([part.error_constants for part in self.parts])

    def spec_of(self, kernel: int) -> KernelSpec:
        """Return a kernel by itself, without scale."""
        part, place = self._at(kernel)
        return part.spec_of(place)

    def columns_of(self, kernel: int) -> tuple[int, ...]:
        """Return the columns that a kernel acts on."""
        part, place = self._at(kernel)
        return part.columns_of(place)

    def cross_apply(self, kernel: int, X: ColumnTable, rho: Array) -> Array:
        """Return ``sum_i rho_i k_m(x, x_i)`` at new rows, (n,), from kernel values."""
        part, place = self._at(kernel)
        return part.cross_apply(place, X, rho)

    def neighbors(self) -> Array:
        """Return the neighbors in width of every kernel, (M, 2); -1 for none."""
        out = []
        for part, member in zip(self.parts, self.members, strict=True):
            own = part.neighbors()
            out.append(np.where(own >= 0, member[own], -1))
        return self._gather(out)

    def factor(self, kernel: int, tol: float) -> Array:
        """Return ``Z_m`` (N, rank)."""
        part, place = self._at(kernel)
        return part.factor(place, tol)

    def features(self, kernel: int, X: ColumnTable, tol: float) -> Array:
        """Return the rows of ``Z_m`` that new samples would have."""
        part, place = self._at(kernel)
        return part.features(place, X, tol)

    def operators(self, kernels: Sequence[int], tol: float) -> list[FactorOperator]:
        """Return the operators of every part, under this stack's numbering."""
        chosen, made = np.asarray(kernels, dtype=np.int64), []
        for number, (part, member) in enumerate(zip(self.parts, self.members, strict=True)):
            own = self._place[chosen[self._part[chosen] == number]]
            for operator in part.operators(own.tolist(), tol) if len(own) else []:
                operator.kernels = member[operator.kernels]
                made.append(operator)
        return made

    def exact_quad(self, kernel: int, rho: Array) -> tuple[float, float]:
        """Return ``rho' K_m rho`` of one kernel as well as it can be had, and a bound on its error."""
        part, place = self._at(kernel)
        return part.exact_quad(place, rho)

    @property
    def exact_cost(self) -> float:
        """Return the largest cost of any part."""
        return max(part.exact_cost for part in self.parts)

    def _apply_each(self, columns: Array, kernels: Array) -> Array:
        out = np.empty((len(kernels), self.n_samples, columns.shape[1]))
        for number, part in enumerate(self.parts):
            slots = np.flatnonzero(self._part[kernels] == number)
            if len(slots):
                out[slots] = part._apply_each(columns, self._place[kernels[slots]])
        return out

    def _block(self, rows: Array, cols: Array, kernels: Array) -> Array:
        out = np.empty((len(kernels), len(rows), len(cols)))
        for number, part in enumerate(self.parts):
            slots = np.flatnonzero(self._part[kernels] == number)
            if len(slots):
                out[slots] = part._block(rows, cols, self._place[kernels[slots]])
        return out

    def _kernel_diag(self, kernel: int) -> Array:
        part, place = self._at(kernel)
        return part._kernel_diag(place)

    @property
    def nbytes(self) -> int:
        """Bytes of the columns, which all parts share."""
        return self.table.columns.nbytes

    def _take(self, kernels: Array) -> GramStack:
        parts, members = [], []
        for number, part in enumerate(self.parts):
            slots = np.flatnonzero(self._part[kernels] == number)
            if len(slots):
                parts.append(part._take(self._place[kernels[slots]]))
                members.append(slots)
        return CompositeStack(parts, members, names=self._names_of(kernels))  # type: ignore[arg-type]


def factored_stack(X: Any, bank: KernelBank) -> FactoredStack:
    """Return the kernels of a bank on a table as a stack that is linear in the number of rows.

    Parameters
    ----------
    X : DataFrame or (n, p) array
        Numeric columns; float32 arrays in column order are read in place.
    bank : KernelBank

    Returns
    -------
    FactoredStack

    Raises
    ------
    IncompatibleError
        If the bank centers its kernels, or normalizes rows.
    """
    if bank.center or bank.normalize == "unit_diagonal":
        raise IncompatibleError(
            f"Factored stacks know normalize='trace', 'mean_diagonal' or None without centering, but the bank has "
            f"normalize={bank.normalize!r}, center={bank.center}. Change it with bank.replace(...)."
        )
    kernels, table = _read(X, bank)
    medians: dict[Positions, MedianDistances] = {}
    names, positions = [name for name, _, _ in kernels], [columns for _, _, columns in kernels]
    specs = [_resolved(spec, columns, table, medians) for _, spec, columns in kernels]
    scales = np.array(
        [_scale(spec, columns, table, bank.normalize) for spec, columns in zip(specs, positions, strict=True)]
    )
    levels = [levels_of(spec, columns, table) for spec, columns in zip(specs, positions, strict=True)]
    kinds = np.array(
        [served_by(spec, len(own), found) for spec, own, found in zip(specs, positions, levels, strict=True)]
    )
    parts, members = [], []
    for kind, _ in SERVED_BY:
        own = np.flatnonzero(kinds == kind)
        if len(own):
            chosen = [specs[m] for m in own]
            parts.append(_part(kind, table, [positions[m] for m in own], chosen, scales[own]))
            members.append(own)
    return CompositeStack(parts, members, names=names)


def _read(X: Any, bank: KernelBank) -> tuple[list[NamedKernel], ColumnTable]:
    """Return the kernels of a bank, and the columns that they use."""
    if isinstance(X, np.ndarray) and bank.missing != "indicator":
        # Kernels are chosen by the types of columns: one row shows them, unless it matters what is missing.
        table = ColumnTable(X, standardize=bank.standardize, missing=bank.missing)
        return bank.expand(Table.of(X if table.gaps.any() else X[:1])), table
    rows = Table.of(X)
    bank.check(rows)
    kernels = bank.expand(rows)
    used = sorted({j for _, _, positions in kernels for j in positions})
    return kernels, ColumnTable(rows, standardize=bank.standardize, missing=bank.missing, used=used)


def _part(kind: str, table: ColumnTable, positions: list[Positions], specs: list[Any], scales: Array) -> FactoredStack:
    if kind == "explicit":
        return ExplicitStack(table, positions, specs, scales)
    if kind == "nystroem":
        return NystroemStack(table, positions, specs, scales)
    columns = np.array([column for (column,) in positions])
    if kind == "scan":
        return ScanStack(table, columns, specs, scales)
    return FourierStack(table, columns, np.array([known_width(spec.width) for spec in specs]), scales)


def _resolved(
    spec: KernelSpec, columns: Positions, table: ColumnTable, medians: dict[Positions, MedianDistances]
) -> KernelSpec:
    """Return the kernel with its width a number; medians are of rows drawn with the bank's own seed."""
    if not spec.pending:
        return spec
    if columns not in medians:
        present = table.present(columns)
        rows = np.arange(table.n_rows) if present is None else np.flatnonzero(present)
        if len(rows) > MEDIAN_ROWS:
            rows = rows[np.random.default_rng(0).choice(len(rows), MEDIAN_ROWS, replace=False)]
        medians[columns] = MedianDistances(table.points(columns, rows))
    return spec.resolve(medians[columns])


def _scale(spec: KernelSpec, columns: Positions, table: ColumnTable, normalize: str | None) -> float:
    """Return the factor that makes the trace or the mean diagonal one; 0 for a kernel that is zero."""
    if normalize is None:
        return 1.0
    present = None if spec.family == "missing" else table.present(columns)
    count = table.n_rows if present is None else int(present.sum())
    mean = 1.0
    if not spec.unit_diagonal:
        reading = table.reading(spec, columns)
        mean = float(reading.masked(spec.diag(reading.points)).sum()) / max(count, 1)
    if mean <= 0 or count == 0:
        return 0.0
    return 1.0 / (mean * count) if normalize == "trace" else 1.0 / mean
