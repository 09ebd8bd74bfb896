"""Cells of a few columns: the view of rows by products of kernels on bins and categories, and factors."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from scipy.linalg import eigh

from manykernels.compiled import compiled
from manykernels.grams.factored.operators import FactorOperator
from manykernels.grams.rows.columns import ColumnTable, RowIndex
from manykernels.kernels import Binned, Interaction, KernelSpec, Overlap
from manykernels.kernels.specs.categorical import places_among
from manykernels.validation.arrays import Array

MAX_CELLS = 2**14  # of one kernel
MAX_LEVELS = 500  # of one column
SMALLEST_EIGENVALUE = 1e-14  # beside the largest: below it is rounding
MAX_BLOCK = 2**16  # cells of a block of columns, half a megabyte
MAX_TWIN = 2**15  # cells of two columns of it, whose numbers are int16
FOLDING = (
    2  # cells of a block cost as much as so many rows to fold into those of its columns (benchmarks/interactions.py)
)


@dataclass(frozen=True, eq=False)
class Axis:
    """A column as a part of a kernel: bins or categories numbered from 0; -1 for neither."""

    column: int
    spec: Binned | Overlap
    levels: Array  # (B,) float64: the categories; of bins, none

    @cached_property
    def gram(self) -> Array:
        """The kernel between bins or categories, (B, B)."""
        return self.spec.table if isinstance(self.spec, Binned) else np.eye(len(self.levels))

    @property
    def key(self) -> tuple[Any, ...]:
        """The key of axes with the same codes."""
        return self.column, self.spec.edges if isinstance(self.spec, Binned) else None

    def codes(self, values: Array) -> Array:
        """Return the code of every value, (n,) int16."""
        return axis_codes(self.spec, self.levels, values)

    def read(self, table: ColumnTable) -> Array:
        """Return the codes of rows, -1 where something is missing."""
        codes, known = self.codes(table.values(self.column)), table.find_complete(self.column)
        return codes if known is None else np.where(known, codes, np.int16(-1))


def axis_codes(spec: Binned | Overlap, levels: Array, values: Array) -> Array:
    """Return the bin or category of every value, (n,) int16; -1 for a category not among the levels."""
    if isinstance(spec, Binned):
        return spec.codes(values)
    at = places_among(levels, values)
    return np.where(at < len(levels), at, -1).astype(np.int16)


def grid_parts(spec: KernelSpec) -> list[tuple[Binned | Overlap, int]] | None:
    """Return the kernels of a product and the column of every, if all act on bins or categories of a single column."""
    if isinstance(spec, Binned):
        return [(spec, 0)]
    if not isinstance(spec, Interaction) or not spec.parts:
        return None
    found: list[tuple[Binned | Overlap, int]] = []
    for part, columns in spec.parts:
        if len(columns) != 1 or not isinstance(part, (Binned, Overlap)):
            return None
        found.append((part, columns[0]))
    return found if len({column for _, column in found}) == len(found) else None


def has_few_cells(spec: KernelSpec, levels: Sequence[Array] | None) -> bool:
    """Return whether a kernel depends on few cells only; categories count once the levels are known."""
    parts = grid_parts(spec)
    if parts is None:
        return False
    sizes = []
    for part, column in parts:
        if isinstance(part, Binned):
            sizes.append(part.bins if part.shares is None else len(part.shares))
        elif levels is not None:
            sizes.append(len(levels[column]))
    return prod(sizes) <= MAX_CELLS


def grid_levels(spec: KernelSpec, positions: Sequence[int], table: ColumnTable) -> list[Array]:
    """Return the categories of every column of a kernel on cells: none for bins, too many for any cells if unknown."""
    found = [np.zeros(0) for _ in positions]
    for part, place in grid_parts(spec) or []:
        if isinstance(part, Overlap):
            levels = table.categories(positions[place], MAX_LEVELS)
            found[place] = np.zeros(MAX_CELLS + 1) if levels is None else levels
    return found


def sees_cells(spec: KernelSpec, positions: Sequence[int], table: ColumnTable) -> bool:
    """Return whether a kernel on the columns sees few cells only."""
    return grid_parts(spec) is not None and has_few_cells(spec, grid_levels(spec, positions, table))


@compiled()
def add_to_cells(
    codes: Array, members: Array, sizes: Array, offsets: Array, chosen: Array, rho: Array, out: Array
) -> None:
    """Add ``rho_i`` to the cell of row i, for all chosen groups of columns.

    ``members`` (G, d) are rows of ``codes``, -1 for none; ``sizes`` (G, d) numbers of codes.
    """
    for g in chosen:
        at = offsets[g]
        if members.shape[1] >= 2 and members[g, 1] >= 0 and (members.shape[1] == 2 or members[g, 2] < 0):
            a, b, size = codes[members[g, 0]], codes[members[g, 1]], sizes[g, 1]
            for i in range(rho.size):
                if a[i] >= 0 and b[i] >= 0:
                    out[at + a[i] * size + b[i]] += rho[i]
            continue
        for i in range(rho.size):
            cell = 0
            for p in range(members.shape[1]):
                if members[g, p] < 0:
                    break
                code = codes[members[g, p], i]
                if code < 0:
                    cell = -1
                    break
                cell = cell * sizes[g, p] + code
            if cell >= 0:
                out[at + cell] += rho[i]


@compiled()
def add_by_blocks(
    codes: Array, twins: Array, lengths: Array, blocks: Array, served: Array, offsets: Array, rho: Array, out: Array
) -> None:
    """Add ``rho_i`` to the cells of triples of columns, from those of blocks of three times two columns.

    ``twins`` (S, 2) are rows of ``codes``, the second -1 for none, ``lengths`` (S, 2) their numbers of codes;
    ``blocks`` (Q, 3) are twins, ``served`` (Q, 8) the groups of a single column of every, -1 for none.
    """
    most, widest = 1, 1
    for q in range(len(blocks)):
        cells = 1
        for p in range(3):
            cells *= lengths[blocks[q, p], 0] * lengths[blocks[q, p], 1]
        most = max(most, cells)
    for s in range(len(lengths)):
        widest = max(widest, lengths[s, 0] * lengths[s, 1])
    joint = np.zeros((len(twins), rho.size), dtype=np.int16)
    for s in range(len(twins)):
        for i in range(rho.size):
            joint[s, i] = codes[twins[s, 0], i]
            if twins[s, 1] >= 0:
                joint[s, i] = joint[s, i] * lengths[s, 1] + codes[twins[s, 1], i]
    whole, half, quarter = np.zeros(most), np.zeros(most), np.zeros(most)
    for q in range(len(blocks)):
        first, second, third = blocks[q]
        a, b, c = joint[first], joint[second], joint[third]
        n_b, n_c = lengths[second, 0] * lengths[second, 1], lengths[third, 0] * lengths[third, 1]
        whole[: lengths[first, 0] * lengths[first, 1] * n_b * n_c] = 0.0
        for i in range(rho.size):
            whole[(a[i] * n_b + b[i]) * n_c + c[i]] += rho[i]
        for one in range(2):
            size = lengths[first, one]
            half[: size * n_b * n_c] = 0.0
            for r in range(lengths[first, 0]):
                for s in range(lengths[first, 1]):
                    to, source = (r if one == 0 else s) * n_b * n_c, (r * lengths[first, 1] + s) * n_b * n_c
                    for t in range(n_b * n_c):
                        half[to + t] += whole[source + t]
            for two in range(2):
                width = lengths[second, two]
                quarter[: size * width * n_c] = 0.0
                for p in range(size):
                    for r in range(lengths[second, 0]):
                        for s in range(lengths[second, 1]):
                            to = (p * width + (r if two == 0 else s)) * n_c
                            source = (p * n_b + r * lengths[second, 1] + s) * n_c
                            for t in range(n_c):
                                quarter[to + t] += half[source + t]
                for three in range(2):
                    g = served[q, 4 * one + 2 * two + three]
                    if g < 0:
                        continue
                    depth = lengths[third, three]
                    for p in range(size * width):
                        for r in range(lengths[third, 0]):
                            for s in range(lengths[third, 1]):
                                to = offsets[g] + p * depth + (r if three == 0 else s)
                                out[to] += quarter[p * n_c + r * lengths[third, 1] + s]


@compiled()
def cell_forms(
    sums: Array, offsets: Array, starts: Array, axes: Array, grams: Array, begins: Array, out: Array
) -> None:
    """Write ``<G, (K_1 x K_2 x ...) G>`` of every kernel, ``G`` the sums over cells.

    ``sums`` hold those of kernel m from ``offsets[m]`` on, the axes are ``axes[starts[m]:starts[m + 1]]``, and the
    square table of an axis is part of ``grams`` from ``begins`` on.
    """
    most = 0
    for m in range(len(out)):
        cells = 1
        for place in range(starts[m], starts[m + 1]):
            cells *= round(np.sqrt(begins[axes[place] + 1] - begins[axes[place]]))
        most = max(most, cells)
    values, applied = np.empty(most), np.empty(most)
    for m in range(len(out)):
        cells = 1
        for place in range(starts[m], starts[m + 1]):
            cells *= round(np.sqrt(begins[axes[place] + 1] - begins[axes[place]]))
        values[:cells] = sums[offsets[m] : offsets[m] + cells]
        before, after = 1, cells
        for place in range(starts[m], starts[m + 1]):
            table = grams[begins[axes[place]] : begins[axes[place] + 1]]
            size = round(np.sqrt(len(table)))
            after //= size
            applied[:cells] = 0.0
            for p in range(before):
                for j in range(size):
                    source = (p * size + j) * after
                    if after == 1:
                        factor, to = values[source], p * size
                        for i in range(size):
                            applied[to + i] += factor * table[j * size + i]
                        continue
                    for i in range(size):
                        factor, to = table[j * size + i], (p * size + i) * after
                        for t in range(after):
                            applied[to + t] += factor * values[source + t]
            values, applied = applied, values
            before *= size
        total = 0.0
        for t in range(cells):
            total += values[t] * sums[offsets[m] + t]
        out[m] = total


@dataclass(frozen=True, eq=False)
class Groups:
    """Sets of columns with sums over rows in cells."""

    axes: tuple[Axis, ...]  # with different codes
    members: Array  # (G, d) int64: axes of every group, -1 beyond its own, and their numbers of codes
    sizes: Array  # (G, d) int64: axes of every group, -1 beyond its own, and their numbers of codes
    offsets: Array  # (G + 1,) int64: where the cells of each group begin in a vector of all

    @classmethod
    def lay_out(cls, axes: Sequence[Axis], sets: Sequence[tuple[int, ...]]) -> Groups:
        """Lay out the cells of sets of axes."""
        depth = max(map(len, sets))
        members = np.array([[*own, *[-1] * (depth - len(own))] for own in sets], dtype=np.int64)
        lengths = np.array([*(len(axis.gram) for axis in axes), 1], dtype=np.int64)
        sizes = lengths[members]
        return cls(tuple(axes), members, sizes, np.concatenate([[0], np.cumsum(sizes.prod(axis=1))]))

    def shape(self, group: int) -> tuple[int, ...]:
        """Return the numbers of codes of a group."""
        return tuple(self.sizes[group][self.members[group] >= 0].tolist())

    def read(self, table: ColumnTable) -> Array:
        """Return the codes of rows, (axes, n) int16."""
        return np.array([axis.read(table) for axis in self.axes])

    def add(self, codes: Array, rho: Array) -> Array:
        """Return sums of ``rho`` over the cells of all groups, side by side.

        Of many triples of columns, a block of six columns in twos serves eight in one reading of the rows, where these
        are more than the cells and none is missing.
        """
        out, rho = np.zeros(self.offsets[-1]), np.ascontiguousarray(rho, np.float64)
        direct = np.ones(len(self.members), dtype=bool)
        blocks = self._blocks
        gain = (np.sum(blocks.served >= 0, axis=1) - 1) * len(rho) > FOLDING * blocks.cells
        if gain.any() and (codes[np.unique(blocks.twins[blocks.twins >= 0])] >= 0).all():
            served = blocks.served[gain]
            add_by_blocks(codes, blocks.twins, blocks.lengths, blocks.blocks[gain], served, self.offsets, rho, out)
            direct[served[served >= 0]] = False
        add_to_cells(codes, self.members, self.sizes, self.offsets, np.flatnonzero(direct), rho, out)
        return out

    @cached_property
    def _blocks(self) -> _Blocks:
        """Blocks of three times two axes that cover triples of columns."""
        deep = np.flatnonzero((self.members >= 0).sum(axis=1) == 3)
        triples = self.members[deep][:, :3]
        used = np.unique(triples)
        twins = np.full(((len(used) + 1) // 2, 2), -1, dtype=np.int64)
        twins.ravel()[: len(used)] = used
        lengths = np.array([*(len(axis.gram) for axis in self.axes), 1], dtype=np.int64)[twins]
        at = np.searchsorted(used, triples)
        apart = (np.diff(at // 2, axis=1) > 0).all(axis=1)  # one of each of three twins, in their order
        deep, at = deep[apart], at[apart].reshape(-1, 3)
        blocks, which = np.unique(at // 2, axis=0, return_inverse=True) if len(at) else (at, at[:, 0])
        served = np.full((len(blocks), 8), -1, dtype=np.int64)
        served[which.ravel(), at % 2 @ np.array([4, 2, 1])] = deep
        widths = lengths.prod(axis=1)[blocks]
        cells = widths.prod(axis=1)
        fits = (cells <= MAX_BLOCK) & (widths.max(axis=1, initial=0) <= MAX_TWIN)
        return _Blocks(twins, lengths, blocks[fits], served[fits], cells[fits])


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Blocks of three times two axes, with the served groups of three axes."""

    twins: Array  # (S, 2) axes, the second -1 for none
    lengths: Array  # (S, 2) their numbers of codes
    blocks: Array  # (Q, 3) twins
    served: Array  # (Q, 8) groups, -1 for none
    cells: Array  # (Q,)


def sums_of_part(groups: Groups, table: ColumnTable, rho: Array) -> Array:
    """Return sums over the cells of all groups of some rows."""
    return groups.add(groups.read(table), rho)


def cell_factor(grams: Sequence[Array], counts: Array, tol: float) -> Array:
    """Return ``F`` (cells, r) whose rows are features of cells: ``K - F F'`` is psd, a share of the trace of the rows.

    Products of the eigenvectors of every column's kernel under the respective counts, the largest on the rows first.
    """
    axes = range(counts.ndim)
    sums = [counts.sum(axis=tuple(other for other in axes if other != place)) for place in axes]
    bases = [_basis(gram, own) for gram, own in zip(grams, sums, strict=True)]
    parts = counts
    for basis in bases:  # sum over cells of counts times squares of products: what each product adds to the trace
        parts = np.tensordot(parts, basis**2, axes=([0], [0]))
    diagonal = counts
    for gram in grams:
        diagonal = np.tensordot(diagonal, np.diag(gram), axes=([0], [0]))
    order = np.argsort(-parts, axis=None, kind="stable")
    left = np.cumsum(parts.ravel()[order][::-1])[::-1]
    missed = max(float(diagonal) - float(parts.sum()), 0.0)
    kept = max(int(np.sum(left + missed > tol * float(diagonal))), 1)
    kept = min(kept, int(np.sum(parts > 0)) or 1)
    columns = np.unravel_index(order[:kept], parts.shape)
    out = bases[0][:, columns[0]]
    for basis, chosen in zip(bases[1:], columns[1:], strict=True):
        out = (out[:, None, :] * basis[:, chosen]).reshape(-1, kept)
    return np.ascontiguousarray(out)


def _basis(gram: Array, counts: Array) -> Array:
    """Return ``Phi`` with ``K - Phi Phi'`` psd, zero up to rounding where rows are, the columns orthogonal on rows."""
    root = np.sqrt(np.maximum(counts, 0.0))
    values, vectors = eigh(root[:, None] * gram * root)
    kept = values > SMALLEST_EIGENVALUE * max(float(values[-1]), 1e-300)
    if not kept.any():
        return np.zeros((len(gram), 1))
    return (gram @ (root[:, None] * vectors[:, kept]) / np.sqrt(values[kept]))[:, ::-1]


class CellOperator(FactorOperator):
    """Factors of a single kernel on cells: a row has the features of the cell, so products cost a look at every row.

    Parameters
    ----------
    kernel : int
    axes : sequence of Axis
    features : (cells, r) float64
    """

    def __init__(self, kernel: int, axes: Sequence[Axis], features: Array) -> None:
        self.kernels, self.rank = np.array([kernel]), features.shape[1]
        self.starts = np.array([0, self.rank])
        self.positions = tuple(axis.column for axis in axes)
        self._axes = tuple(axes)
        self._features = np.vstack([features, np.zeros(self.rank)])  # the last is that of rows without a cell
        self._cells: Array = np.zeros(0, dtype=np.int32)

    def transfer(self, table: ColumnTable) -> CellOperator:
        """Return the same features of other rows."""
        return self.move_to_cells(
            cells_of([axis.read(table) for axis in self._axes], [len(axis.gram) for axis in self._axes])
        )

    def move_to_cells(self, cells: Array) -> CellOperator:
        """Return the same features of rows in the cells, -1 for none."""
        other = copy.copy(self)
        other._cells = np.where(cells < 0, len(self._features) - 1, cells).astype(np.int32)
        return other

    def add_scores(self, v: Array, out: Array) -> None:
        out += (self._features @ v)[self._cells]

    def adjoint(self, rho: Array) -> Array:
        return np.bincount(self._cells, rho, minlength=len(self._features)) @ self._features

    def rows(self, index: RowIndex) -> Array:
        return self._features[self._cells[index]]

    def gram(self, weights: Array) -> Array:
        """Return ``Z' diag(weights) Z``, exactly, from sums over cells."""
        sums = np.bincount(self._cells, weights, minlength=len(self._features))
        return (self._features.T * sums) @ self._features


def cells_of(codes: Sequence[Array], sizes: Sequence[int]) -> Array:
    """Return the cell of every row, (n,) int32, from the codes; -1 if a code is."""
    cells, lost = np.zeros(len(codes[0]), dtype=np.int32), np.zeros(len(codes[0]), dtype=bool)
    for code, size in zip(codes, sizes, strict=True):
        cells = cells * np.int32(size) + code
        lost |= code < 0
    return np.where(lost, np.int32(-1), cells)
