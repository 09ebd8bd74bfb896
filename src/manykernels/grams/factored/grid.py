"""Products of kernels on bins and categories of a few columns: every pair of columns exactly, by sums over cells."""

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from manykernels.grams.factored.base import FactoredStack, FactorOperator
from manykernels.grams.factored.cells import (
    MAX_LEVELS,
    Axis,
    CellOperator,
    Groups,
    cell_factor,
    cell_forms,
    cells_of,
    grid_parts,
    sums_of_part,
)
from manykernels.grams.factored.prediction import CellFunction, KernelFunction
from manykernels.grams.rows.columns import ColumnTable
from manykernels.kernels import KernelSpec, Overlap
from manykernels.validation.arrays import Array


class GridStack(FactoredStack):
    """Kernels that see cells of a few columns: `Binned`, and `Interaction` of such kernels and of `Overlap`.

    ``rho' K rho = <G, (K_1 x K_2) G>`` with ``G`` the sums of ``rho`` over the cells of two columns: exact, and one
    look at the rows a set of columns, for every width on it. So all pairs of columns are inside the certificate.
    """

    exact_passes = few_columns = True

    def __init__(
        self,
        table: ColumnTable,
        positions: Sequence[tuple[int, ...]],
        specs: Sequence[KernelSpec],
        scales: Array,
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(table, positions, specs, scales, names=names)
        self._axes = self._axes_of_kernels()
        self._group, self._groups = self._axis_groups()
        self._factors: dict[tuple[int, float], Array] = {}
        self._cells: dict[int, Array] = {}

    def _axes_of_kernels(self) -> list[tuple[Axis, ...]]:
        """Return the axes of every kernel, as a shared object for equal parts of a column."""
        known: dict[Any, Axis] = {}
        levels: dict[int, Any] = {}
        out = []
        for spec, positions in zip(self.specs, self.positions, strict=True):
            own = []
            for part, place in grid_parts(spec) or []:
                column = positions[place]
                if (column, part) not in known:
                    if isinstance(part, Overlap) and column not in levels:
                        levels[column] = self.table.categories(column, MAX_LEVELS)
                    known[column, part] = Axis(
                        column, part, levels[column] if isinstance(part, Overlap) else np.zeros(0)
                    )
                own.append(known[column, part])
            out.append(tuple(own))
        return out

    def _axis_groups(self) -> tuple[Array, Groups]:
        """Return the group of every kernel, and the groups: sets of axes with the same codes."""
        codes: dict[Any, int] = {}
        axes: list[Axis] = []
        sets: dict[tuple[int, ...], int] = {}
        group = np.empty(self.n_kernels, dtype=np.int64)
        for m, own in enumerate(self._axes):
            for axis in own:
                if axis.key not in codes:
                    codes[axis.key] = len(axes)
                    axes.append(axis)
            group[m] = sets.setdefault(tuple(codes[axis.key] for axis in own), len(sets))
        return group, Groups.lay_out(axes, list(sets))

    @cached_property
    def _codes(self) -> Array:
        """Codes of all rows, (axes, N) int16, of rows in memory."""
        return self._groups.read(self.table)

    @property
    def _kernels_in_use(self) -> list[int]:
        return sorted({axis.column for axis in self._groups.axes})

    def _sums(self, rho: Array) -> Array:
        """Return sums over the cells of every group, side by side."""
        groups = self._groups
        if self.table.chunked:
            return np.asarray(self.table.reduce(self._kernels_in_use, partial(sums_of_part, groups), rho))
        return groups.add(self._codes, rho)

    def _own(self, sums: Array, group: int) -> Array:
        """Return the sums of a group in the shape."""
        return sums[self._groups.offsets[group] : self._groups.offsets[group + 1]].reshape(self._groups.shape(group))

    @cached_property
    def _tables(self) -> tuple[Array, Array, Array, Array]:
        """The axes of all kernels with offsets, and their tables with offsets."""
        known = {id(axis): axis for own in self._axes for axis in own}
        slots = {key: slot for slot, key in enumerate(known)}
        starts = np.cumsum([0, *map(len, self._axes)])
        grams = [np.ascontiguousarray(axis.gram, np.float64).ravel() for axis in known.values()]
        axes = np.array([slots[id(axis)] for own in self._axes for axis in own])
        return starts, axes, np.concatenate(grams), np.cumsum([0, *map(len, grams)])

    def _quad(self, r: Array) -> Array:
        out = np.empty(self.n_kernels)
        cell_forms(self._sums(r), self._groups.offsets[self._group], *self._tables, out)
        return out * self.scales

    def _apply_each(self, columns: Array, kernels: Array) -> Array:
        out = np.empty((len(kernels), self.n_samples, columns.shape[1]))
        for slot, m in enumerate(kernels.tolist()):
            grams, cells = [axis.gram for axis in self._axes[m]], self._cells_of(int(self._group[m]))
            shape = self._groups.shape(int(self._group[m]))
            for c, column in enumerate(columns.T):
                sums = np.bincount(cells[cells >= 0], column[cells >= 0], minlength=int(np.prod(shape))).reshape(shape)
                values = np.append(_applied(grams, sums).ravel(), 0.0)  # the last is that of rows without a cell
                out[slot, :, c] = self.scales[m] * values[cells]
        return out

    def _cells_of(self, group: int) -> Array:
        """Return the cell of every row in a group, (N,) int32, -1 for none; cached for the operators."""
        if group not in self._cells:
            members = self._groups.members[group]
            chosen = members[members >= 0]
            self._cells[group] = cells_of(list(self._codes[chosen]), list(self._groups.shape(group)))
        return self._cells[group]

    # --- diagonals --------------------------------------------------------------------------------------------------

    @cached_property
    def _counts(self) -> Array:
        """Rows in the cells of every group, side by side."""
        return self._sums(self.table.ones())

    @cached_property
    def largest(self) -> Array:
        """The largest diagonal entry of every kernel on the rows, (M,): empty cells may have more."""
        peaks = []
        for axes, group in zip(self._axes, self._group, strict=True):
            diagonal = np.ones(())
            for axis in axes:
                diagonal = np.multiply.outer(diagonal, np.maximum(np.diag(axis.gram), 0.0))
            peaks.append(float(diagonal[self._own(self._counts, group) > 0].max(initial=0.0)))
        return self.scales * np.array(peaks)

    def diag_sums(self, weight: Array) -> Array:
        """Return ``sum_i s_i k_m(x_i, x_i)``, (M,), from sums over cells."""
        sums = self._sums(weight)
        return self.scales * [
            _trace([a.gram for a in own], self._own(sums, g)) for own, g in zip(self._axes, self._group, strict=True)
        ]

    @property
    def nbytes(self) -> int:
        """Bytes of the columns, read in place, and of their codes."""
        return self.table.nbytes + 2 * self.n_samples * len(self._groups.axes)

    # --- factors ----------------------------------------------------------------------------------------------------

    def cell_features(self, kernel: int, tol: float) -> Array:
        """Return features of the cells of a kernel, (cells, rank)."""
        if (kernel, tol) not in self._factors:
            grams, counts = [axis.gram for axis in self._axes[kernel]], self._own(self._counts, self._group[kernel])
            self._factors[kernel, tol] = cell_factor(grams, counts, tol)
        return float(np.sqrt(self.scales[kernel])) * self._factors[kernel, tol]

    def templates(self, kernels: Sequence[int], tol: float) -> list[CellOperator]:
        """Return operators without rows, bound by ``over(table)``."""
        return [CellOperator(m, self._axes[m], self.cell_features(m, tol)) for m in map(int, kernels)]

    def operators(self, kernels: Sequence[int], tol: float) -> list[FactorOperator]:
        """Return an operator per kernel: features of the cells, and the cell of every row."""
        if self.table.chunked:
            return self.table.operators(self.templates(kernels, tol))
        made = zip(kernels, self.templates(kernels, tol), strict=True)
        return [operator.move_to_cells(self._cells_of(int(self._group[m]))) for m, operator in made]

    def function(self, kernel: int, v: Array, tol: float) -> KernelFunction:
        """Return ``z_m(x)' v`` as the values in the cells."""
        axes = self._axes[kernel]
        values = (self.cell_features(kernel, tol) @ v).reshape([len(axis.gram) for axis in axes])
        return CellFunction(self.specs[kernel], tuple(axis.levels for axis in axes), values)


def mean_diagonals(
    table: ColumnTable, positions: Sequence[tuple[int, ...]], specs: Sequence[KernelSpec]
) -> tuple[Array, Array]:
    """Return the mean diagonal of every kernel over the valid rows, and their number, (M,) each."""
    stack = GridStack(table, positions, specs, np.ones(len(specs)))
    counts = np.array([float(stack._own(stack._counts, g).sum()) for g in stack._group])
    return stack.diag_sums(table.ones()) / np.maximum(counts, 1.0), counts


def _applied(grams: Sequence[Array], sums: Array) -> Array:
    """Return the product of the kernels of the axes with sums over cells."""
    if sums.ndim == 2:
        return grams[0] @ sums @ grams[1]
    for place, gram in enumerate(grams):
        sums = np.moveaxis(np.tensordot(gram, sums, axes=([1], [place])), 0, place)
    return sums


def _trace(grams: Sequence[Array], sums: Array) -> float:
    """Return the sum over cells of their sums times the diagonal of the kernel."""
    for gram in grams:
        sums = np.tensordot(sums, np.maximum(np.diag(gram), 0.0), axes=([0], [0]))
    return float(sums)
