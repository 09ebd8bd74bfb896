"""Factors as products: held in memory, computed a few rows at a time, or over rows in chunks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Protocol

import numpy as np

from manykernels.grams.factored.features import FeatureMap, LinearFeatures, OwnFeatures
from manykernels.grams.loops import add_columns, column_products
from manykernels.grams.precision import product_in_precision
from manykernels.grams.rows.columns import ColumnTable, RowIndex
from manykernels.grams.rows.vectors import RowVector
from manykernels.kernels import KernelSpec
from manykernels.validation.arrays import Array

CHUNK_ROWS = 16384
"""Rows of features held at once; 16384 x 60 float64 stay inside a second-level cache of 8 MiB."""
STORED = 2**25  # entries of features that are kept rather than computed in every product: 256 MB
TILE_ROWS = 2048  # of columns in place that products of several of them copy at once
BLOCK_COLUMNS = 256  # that are features themselves and are summed over by one product
FUSED_RANK = 1500  # up to which all factors of a working set share one reading of a chunk


class FactorOperator(Protocol):
    """Factors of a few kernels side by side, ``Z = [Z_1, Z_2, ...]``, as products rather than as a matrix.

    Attributes
    ----------
    kernels : (g,) int
        Which kernels of the stack.
    starts : (g + 1,) int
        Columns ``starts[i]:starts[i + 1]`` of ``Z`` belong to ``kernels[i]``.
    positions : tuple of int or None
        The common columns of the kernels, if equal.
    """

    kernels: Array
    starts: Array
    positions: tuple[int, ...] | None = None

    def add_scores(self, v: Array, out: Any) -> None:
        """Add ``Z v`` to ``out`` (N,)."""

    def adjoint(self, rho: Array) -> Array:
        """Return ``Z' rho``, (rank,)."""

    def rows(self, index: Any) -> Array:
        """Return rows of ``Z``, (len(index), rank)."""

    def excess(self, v: Array) -> tuple[Array, Array]:
        """Bound what the exact kernels add for coefficients ``v``: squared norms (g,) and scores (g,).

        Nothing, unless overridden: what features leave out is positive definite, so functions are the kernel's.
        """
        return np.zeros(len(self.kernels)), np.zeros(len(self.kernels))


class DenseOperator(FactorOperator):
    """Factors held in memory.

    Parameters
    ----------
    kernels : (g,) int
    factors : list of (N, r) arrays
        A value per kernel, or a common value with ``starts``.
    starts : (g + 1,) int, optional
    positions : tuple of int, optional
        The columns that all act on.
    excess : callable, optional
        What the exact kernels add for coefficients, as `FactorOperator` has it. Nothing for projections: functions of a
        projection are functions of the kernel.
    roots : tuple of float
        Multipliers of the arrays for table columns in place: the neighboring columns ``positions``, or cached features.
        Other arrays are stacked.
    in_place : bool
        Whether they are the columns.
    """

    def __init__(
        self,
        kernels: Array,
        factors: list[Array],
        starts: Array | None = None,
        positions: tuple[int, ...] | None = None,
        excess: Callable[[Array], tuple[Array, Array]] | None = None,
        roots: tuple[float, ...] = (),
        *,
        in_place: bool = False,
    ) -> None:
        self.kernels, self.positions, self.in_place = kernels, positions, in_place
        ends = np.concatenate([[0], np.cumsum([f.shape[1] for f in factors])])
        self.starts, self.lent = ends if starts is None else starts, bool(roots)
        self._factors = factors if roots or len(factors) == 1 else [np.hstack(factors)]
        self.roots, self._ends = roots or (1.0,), ends[1:-1] if roots else ends[:0]
        self._excess = excess

    @classmethod
    def create(cls, operator: Any) -> DenseOperator:
        """Return the same factors in memory, in place for columns or features of the table."""
        columns, kept = getattr(operator, "columns_in_place", None), getattr(operator, "cached_features", None)
        if (lent := columns if kept is None else kept) is not None:
            place = operator.kernels, [lent], operator.starts, operator.positions, None, (operator.root,)
            return cls(*place, in_place=columns is not None)
        rows = operator.rows(slice(None))
        return cls(operator.kernels, [rows], operator.starts, operator.positions, operator.excess)

    @classmethod
    def join(cls, operators: Sequence[DenseOperator]) -> DenseOperator:
        """Return operators on the same columns joined, for joint treatment of their kernels."""
        if len(operators) == 1:
            return operators[0]
        ends = np.cumsum([0] + [int(operator.starts[-1]) for operator in operators])
        starts = [operator.starts[:-1] + end for operator, end in zip(operators, ends[:-1], strict=True)]

        def excess(v: Array) -> tuple[Array, Array]:
            parts = np.split(v, ends[1:-1])
            found = [operator.excess(part) for operator, part in zip(operators, parts, strict=True)]
            return np.concatenate([norms for norms, _ in found]), np.concatenate([scores for _, scores in found])

        kernels = np.concatenate([operator.kernels for operator in operators])
        every = kernels, np.append(np.concatenate(starts), ends[-1]), operators[0].positions
        if any(operator.lent for operator in operators):
            factors = [own for operator in operators for own in operator._factors]
            roots = tuple(root for operator in operators for root in operator.roots)
            return cls(every[0], factors, *every[1:], excess, roots)
        return cls(every[0], [operator.rows(slice(None)) for operator in operators], *every[1:], excess)

    @property
    def array(self) -> Array:
        """The array, the first of several."""
        return self._factors[0]

    @property
    def root(self) -> float:
        """The multiplier."""
        return self.roots[0]

    def add_scores(self, v: Array, out: Array) -> None:
        rows = out.T  # of several vectors one after the other, as scores are held
        for own, root, part in zip(self._factors, self.roots, np.split(v, self._ends), strict=True):
            rows += (root * part).T @ own.T if self.in_place else product_in_precision(own, root * part).T

    def adjoint(self, rho: Array) -> Array:
        # Columns in place are the user's, of whom nobody said that rounding does not matter.
        product = np.matmul if self.in_place else product_in_precision
        parts = [root * product(own.T, rho) for own, root in zip(self._factors, self.roots, strict=True)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def rows(self, index: RowIndex) -> Array:
        parts = [own[index].astype(np.float64, copy=False) for own in self._factors]
        parts = [own if root == 1.0 else root * own for own, root in zip(parts, self.roots, strict=True)]
        return parts[0] if len(parts) == 1 else np.hstack(parts)

    def excess(self, v: Array) -> tuple[Array, Array]:
        return super().excess(v) if self._excess is None else self._excess(v)


class ColumnFactors(FactorOperator):
    """Factors of kernels as neighboring columns of a table, read in place: a single object for all.

    Parameters
    ----------
    columns : (p, N) float64 or float32
        Those of the table.
    kernels : (g,) int
    firsts, ranks : (g,) int
        First column and number of columns of every kernel.
    roots : (g,) float
        Multipliers of the columns.
    """

    def __init__(self, columns: Array, kernels: Array, firsts: Array, ranks: Array, roots: Array) -> None:
        self.columns, self.kernels, self.firsts, self.ranks, self.roots = columns, kernels, firsts, ranks, roots
        self.starts = np.concatenate([[0], np.cumsum(ranks)])
        self.places, self.scale = neighbors_from(firsts, ranks), np.repeat(roots, ranks)

    @classmethod
    def create(cls, table: ColumnTable, operators: Sequence[Any]) -> ColumnFactors | None:
        """Return the operators' factors together, or None unless all are columns in place."""
        if len(operators) == 1 and isinstance(operators[0], cls):
            return operators[0]
        if not operators or not all(getattr(operator, "in_place", False) for operator in operators):
            return None
        kernels = np.concatenate([operator.kernels for operator in operators])
        firsts = np.array([operator.positions[0] for operator in operators])
        ranks = np.array([int(operator.starts[-1]) for operator in operators])
        return cls(table.columns, kernels, firsts, ranks, np.array([operator.root for operator in operators]))

    @property
    def disjoint(self) -> bool:
        """Whether no two kernels share a column."""
        order = np.argsort(self.firsts, kind="stable")
        ends = (self.firsts + self.ranks)[order]
        return bool((self.firsts[order][1:] >= ends[:-1]).all())

    def apart(self) -> list[Any]:
        """Return an operator for every kernel."""
        each = zip(self.kernels, self.firsts.tolist(), self.ranks.tolist(), self.roots.tolist(), strict=True)
        return [
            DenseOperator(
                np.array([kernel]),
                [self.columns[first : first + rank].T],
                positions=tuple(range(first, first + rank)),
                roots=(root,),
                in_place=True,
            )
            for kernel, first, rank, root in each
        ]

    def rows(self, index: RowIndex) -> Array:
        return np.asarray((self.columns[self.places][:, index] * self.scale[:, None]).T)

    def add_scores(self, v: Array, out: Array) -> None:
        used, own = np.flatnonzero(v), np.ascontiguousarray(out)
        sizes = (self.scale * v)[used].astype(self.columns.dtype, copy=False)
        add_columns(self.columns, self.places[used], sizes, own)
        if own is not out:
            out[:] = own

    def adjoint(self, rho: Array) -> Array:
        """Return ``Z' rho``, of a single vector or of several in columns."""
        out = np.empty((*rho.shape[1:], len(self.places)))
        for own, column in zip(np.atleast_2d(out), np.atleast_2d(rho.T), strict=True):
            column_products(self.columns, self.places, np.ascontiguousarray(column, dtype=self.columns.dtype), own)
        return (self.scale * out).T

    def products(self, weights: Array, chosen: Array, *, single: bool = False) -> tuple[Array, Array]:
        """Return ``Z' W Z_c`` for some coefficients ``c``, and ``Z_c' W 1``; weights are not negative.

        In ``single`` precision sums over tiles alone are in double.
        """
        dtype = np.dtype(np.float32 if single else np.float64)
        cross, totals = np.zeros((len(self.places), len(chosen))), np.zeros(len(chosen))
        others, roots = np.setdiff1d(np.arange(len(self.places)), chosen), np.sqrt(weights).astype(dtype, copy=False)
        equal, ones = bool((weights == weights[0]).all()), np.ones(TILE_ROWS, dtype=dtype)
        for start in range(0, len(weights), TILE_ROWS):
            rows = slice(start, start + TILE_ROWS)
            own: Array = self.columns[self.places[chosen], rows].astype(dtype, copy=False)
            if not equal:
                own *= roots[rows]
            cross[chosen] += own @ own.T  # a matrix times its own transpose costs half of another product
            totals += own @ (ones[: own.shape[1]] if equal else roots[rows])
            if len(others):
                if not equal:
                    own *= roots[rows]
                cross[others] += self.columns[self.places[others], rows].astype(dtype, copy=False) @ own.T
        if equal:
            cross, totals = weights[0] * cross, weights[0] * totals
        return self.scale[:, None] * cross * self.scale[chosen], self.scale[chosen] * totals

    def gram(self, weights: Array, *, n_constants: int) -> Array:
        """Return ``Z' W Z``, with ``n_constants`` last columns of ones: 1 for an intercept, else 0."""
        size = len(self.places)
        H, scale = np.zeros((size + n_constants, size + n_constants)), np.append(self.scale, np.ones(n_constants))
        for rows, part in self._tiles(n_constants):
            part[size:] = 1.0
            part *= np.sqrt(weights[rows])
            H += part @ part.T
        return scale[:, None] * H * scale

    def _tiles(self, more: int = 0) -> Iterator[tuple[slice, Array]]:
        """Yield rows with their factors, (rank + more, n), in reused memory."""
        n, size = self.columns.shape[1], len(self.places)
        buffer = np.empty((size + more) * min(n, TILE_ROWS))
        for start in range(0, n, TILE_ROWS):
            rows = slice(start, min(start + TILE_ROWS, n))
            part = buffer[: (size + more) * (rows.stop - start)].reshape(size + more, -1)
            for own, place in zip(part, self.places.tolist(), strict=False):
                own[:] = self.columns[place, rows]
            yield rows, part


class FeatureOperator(FactorOperator):
    """Features of a single kernel, computed whenever they are needed, a few rows at a time.

    Parameters
    ----------
    kernel : int
    positions : tuple of int
        The columns of the operator.
    spec : KernelSpec
    features : FeatureMap
    scale : float
    table : ColumnTable, optional
        The rows; given later by `over`.
    """

    positions: tuple[int, ...]

    def __init__(
        self,
        kernel: int,
        positions: tuple[int, ...],
        spec: KernelSpec,
        features: FeatureMap,
        scale: float,
        table: ColumnTable | None = None,
    ) -> None:
        self.kernels, self.rank, self.positions = np.array([kernel]), features.rank, positions
        self.starts = np.array([0, self.rank])
        self._spec, self._map, self.root, self._table = spec, features, float(np.sqrt(scale)), table

    def reads_columns(self, table: ColumnTable) -> bool:
        """Whether the features are the columns themselves, of an array without gaps."""
        own = not isinstance(table.columns, dict) and reads_columns(self._spec, self._map)
        return own and not table.gaps[list(self.positions)].any()

    @property
    def columns_in_place(self) -> Array | None:
        """The factors without their root, (N, r), if unchanged columns of the table."""
        if (table := self.table_of_columns) is None:
            return None
        block = table.block(self.positions)
        return block.T if np.may_share_memory(block, table.columns) else None

    @property
    def table_of_columns(self) -> ColumnTable | None:
        """The table whose columns, times the root, are the factor; None for other features."""
        table = self._table
        return None if table is None or table.chunked or not self.reads_columns(table) else table

    @property
    def cached_features(self) -> Array | None:
        """The factors without their root, (N, r), if kept by the table."""
        own = self._table is not None and isinstance(self._map, OwnFeatures)
        return self._table.cached_features(self._spec, self.positions) if own else None  # type: ignore[union-attr]

    def transfer(self, table: ColumnTable) -> FeatureOperator:
        """Return the same features of other rows."""
        other = copy.copy(self)
        other._table = table
        return other

    def _slices(self) -> list[slice]:
        assert self._table is not None
        n = self._table.n_rows
        return [slice(start, min(start + CHUNK_ROWS, n)) for start in range(0, n, CHUNK_ROWS)]

    @property
    def small(self) -> bool:
        """Whether features are few enough to be kept rather than computed in every product."""
        assert self._table is not None
        return self.rank * self._table.n_rows <= STORED or self.cached_features is not None

    def rows(self, index: RowIndex) -> Array:
        assert self._table is not None
        if (kept := self.cached_features) is not None:
            return self.root * kept[index].astype(np.float64, copy=False)
        reading = self._table.reading(self._spec, self.positions, index)
        return reading.masked(self._map(reading.points) * self.root)

    def add_scores(self, v: Array, out: Array) -> None:
        assert self._table is not None
        kept = self.cached_features
        for rows in self._slices():
            if kept is not None:
                out[rows] += self.rows(rows) @ v
                continue
            reading = self._table.reading(self._spec, self.positions, rows)
            out[rows] += reading.masked(self._map.function(reading.points, self.root * v))

    def adjoint(self, rho: Array) -> Array:
        """Return ``Z' rho``, of a single vector or of several in columns."""
        assert self._table is not None
        if (kept := self.cached_features) is not None:
            return self.root * product_in_precision(kept.T, rho)
        total = np.zeros((self.rank, *rho.shape[1:]))
        for rows in self._slices():
            reading = self._table.reading(self._spec, self.positions, rows)
            total += self._map.adjoint(reading.points, reading.masked(rho[rows]))
        return self.root * total

    def sums(self, rhos: Array) -> tuple[Array, Array]:
        """Return ``Z' rho`` and ``sum_i |rho_i| sqrt(E_ii)``, the diagonal left by features, of every column."""
        assert self._table is not None
        images, left = np.zeros((self.rank, rhos.shape[1])), np.zeros(rhos.shape[1])
        for rows in self._slices():
            reading = self._table.reading(self._spec, self.positions, rows)
            Z = self._map(reading.points)
            rest = np.maximum(self._spec.diag(reading.points) - np.einsum("ij,ij->i", Z, Z), 0.0)
            images += reading.masked(Z).T @ rhos[rows]
            left += reading.masked(np.sqrt(rest)) @ np.abs(rhos[rows])
        return self.root * images, self.root * left


def neighbors_from(firsts: Array, counts: Array) -> Array:
    """Return runs of neighboring places from each of the first places on, in turn."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(firsts - (ends - counts), counts)


def reads_columns(spec: KernelSpec, features: FeatureMap) -> bool:
    """Whether the features of a kernel are columns themselves."""
    return isinstance(features, LinearFeatures) and spec.family != "missing"


def store_factors(operators: Sequence[Any]) -> list[Any]:
    """Return operators over rows in memory, with stored factors if cheaper than recomputation."""
    return [DenseOperator.create(op) if getattr(op, "small", False) else op for op in operators]


def join_neighbors(operators: Sequence[Any]) -> list[Any]:
    """Return neighbors on the same columns joined, as far as held in memory."""
    if len({op.positions for op in operators}) == len(operators):
        return list(operators)
    made: list[Any] = []
    for held, group in groupby(operators, key=lambda op: isinstance(op, DenseOperator) and op.positions):
        members = list(group)
        made += [DenseOperator.join(members)] if held and len(members) > 1 else members
    return made


class ChunkedOperator(FactorOperator):
    """Factors of several kernels over rows in chunks: every product reads every chunk once, for all.

    Parameters
    ----------
    table : ChunkedTable
    templates : sequence of operators without rows
    """

    def __init__(self, table: Any, templates: Sequence[Any]) -> None:
        self._table, self._templates = table, tuple(templates)
        self.kernels = np.concatenate([template.kernels for template in templates])
        ranks = np.concatenate([np.diff(template.starts) for template in templates])
        self.starts = np.concatenate([[0], np.cumsum(ranks)])
        self._ends = np.cumsum([int(template.starts[-1]) for template in templates])[:-1]
        self._positions = sorted({j for template in templates for j in template.positions})
        self._shared = table.source.share(self._templates)

    @property
    def matrix_free(self) -> bool:
        """Whether some factors have too many columns for a Hessian."""
        return any(getattr(template, "matrix_free", False) for template in self._templates)

    @property
    def level_columns(self) -> int:
        """Number of level columns of the single template; 0 for several templates."""
        return getattr(self._templates[0], "level_columns", 0) if len(self._templates) == 1 else 0

    def diagonal(self, weights: Array) -> Array:
        """Return the diagonal of ``Z' diag(weights) Z`` of levels, (rank,)."""
        return self._table.reduce(self._positions, _diagonal, self._shared, weights)

    @classmethod
    def join(cls, operators: Sequence[ChunkedOperator]) -> ChunkedOperator:
        """Return operators over the same rows as a single operator."""
        if len(operators) == 1:
            return operators[0]
        templates = [template for operator in operators for template in operator._templates]
        return cls(operators[0]._table, templates)

    def add_scores(self, v: Array, out: Array | RowVector) -> None:
        parts = [part if part.any() else None for part in np.split(v, self._ends)]
        chosen = [template for template, part in zip(self._templates, parts, strict=True) if part is not None]
        positions = sorted({j for template in chosen for j in template.positions})
        if chosen:
            self._table.update(positions, partial(_add_scores, parts), out, self._shared)

    def adjoint(self, rho: Array) -> Array:
        return self._table.reduce(self._positions, _adjoint, self._shared, rho)

    def rows(self, index: Array) -> Array:
        part = self._table.gather(self._positions, index)
        return _rows(self._templates, part, np.arange(len(index)))

    def weighted_gram(self, weights: Array, *, n_constants: int) -> Array:
        """Return ``Z' diag(weights) Z``, with ``n_constants`` last columns of ones: 1 for an intercept, else 0."""
        return self._table.reduce(self._positions, partial(_weighted_gram, n_constants), self._shared, weights)

    def excess(self, v: Array) -> tuple[Array, Array]:
        parts = zip(self._templates, np.split(v, self._ends), strict=True)
        norms, scores = zip(*(template.excess(part) for template, part in parts), strict=True)
        return np.concatenate(norms), np.concatenate(scores)


def adjoints(templates: Sequence[Any], table: ColumnTable, rho: Array) -> list[Array]:
    """Return ``Z' rho`` of every template over some rows; columns that are features themselves a block at a time.

    ``rho`` is a vector (n,), or several in columns, for all of which features are computed once.
    """
    out: list[Any] = [None] * len(templates)
    plain = [
        slot
        for slot, template in enumerate(templates)
        if isinstance(template, FeatureOperator) and template.reads_columns(table)
    ]
    for slots in _blocks(plain, templates):
        positions = [j for slot in slots for j in templates[slot].positions]
        sums = np.split(table.block(positions) @ rho, np.cumsum([templates[slot].rank for slot in slots])[:-1])
        for slot, part in zip(slots, sums, strict=True):
            out[slot] = templates[slot].root * part
    for slot, template in enumerate(templates):
        if out[slot] is None:
            out[slot] = template.transfer(table).adjoint(rho)
    return out


def _blocks(slots: Sequence[int], templates: Sequence[Any]) -> list[list[int]]:
    """Return slots of templates in groups of at most `BLOCK_COLUMNS` columns, at least a template each."""
    groups: list[list[int]] = []
    width = BLOCK_COLUMNS
    for slot in slots:
        width += templates[slot].rank
        if width > BLOCK_COLUMNS:
            groups.append([])
            width = templates[slot].rank
        groups[-1].append(slot)
    return groups


def _add_scores(parts: Sequence[Array | None], table: ColumnTable, templates: Sequence[Any], out: Array) -> None:
    for template, v in zip(templates, parts, strict=True):
        if v is not None:
            template.transfer(table).add_scores(v, out)


def _adjoint(table: ColumnTable, templates: Sequence[Any], rho: Array) -> Array:
    return np.concatenate(adjoints(templates, table, rho))


def _diagonal(table: ColumnTable, templates: Sequence[Any], weights: Array) -> Array:
    return np.asarray(templates[0].transfer(table).diagonal(weights))


def _rows(templates: Sequence[Any], table: ColumnTable, index: Array) -> Array:
    return np.hstack([template.transfer(table).rows(index) for template in templates])


def _weighted_gram(n_constants: int, table: ColumnTable, templates: Sequence[Any], weights: Array) -> Array:
    """Sum over the rows of a chunk with weights."""
    size = sum(int(template.starts[-1]) for template in templates) + n_constants
    gram, chosen = np.zeros((size, size)), np.flatnonzero(weights)
    for start in range(0, len(chosen), CHUNK_ROWS):
        index = chosen[start : start + CHUNK_ROWS]
        Z = np.empty((len(index), size))
        Z[:, -1] = 1.0
        Z[:, : size - n_constants] = _rows(templates, table, index)
        Z *= np.sqrt(weights[index])[:, None]
        gram += Z.T @ Z
    return gram
