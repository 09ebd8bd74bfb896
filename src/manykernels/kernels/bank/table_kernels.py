"""Kernels on columns of a table, before normalization: points of rows, shared by kernels on the same columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array, issparse

from manykernels.exceptions import InvalidInputError, warn
from manykernels.kernels.bank.columns import NUMBERS, Table, check_array_readable, locate_columns
from manykernels.kernels.bank.contract import OTHER_BANK, Group, Index, PreparedRows, RawKernels, RowData, Side
from manykernels.kernels.bank.normalization import check_diagonal, standardized
from manykernels.kernels.bank.patterns import distinct_specs
from manykernels.kernels.specs.base import KernelSpec
from manykernels.kernels.specs.categorical import UNSEEN
from manykernels.kernels.specs.distances import SparsePoints, row_norms, squared_distances
from manykernels.kernels.tables.encoding import Encoding, MixedRows
from manykernels.kernels.tables.kinds import SHOWN, entry_issues, find_stored_issues, refuse
from manykernels.validation.arrays import Array, check_finite, plainly_finite
from manykernels.validation.parameters import listed

FEW_COLUMNS = 32  # up to which the columns of a kernel are made dense, whatever the kernel
COMPRESSED = ("squared_distance", "inner_product")  # families that can do without
MOST_DENSE = 2**28  # entries of all columns that are made dense: 2 GB

Points = Array | SparsePoints


@dataclass(frozen=True, eq=False)
class TablePoints(RowData):
    """Rows of a table as points, a single set for every group of kernels."""

    keys: tuple[tuple[Any, ...], ...]  # what identifies each of the groups: family, positions, column widths
    n_samples: int
    # per group (n, d), contiguous: standardized, and for squared distances shifted and divided by column widths. Of
    # sparse rows, compressed where kernels read many columns
    groups: tuple[Points, ...]
    squared_norms: tuple[Array, ...]  # per group, (n,) float64

    @property
    def point_sets(self) -> tuple[Any, ...]:
        return self.groups

    def points(self, group: int) -> Any:
        return self.groups[group]

    def take(self, rows: Index) -> TablePoints:
        taken: dict[int, Points] = {}
        # Groups may share one array; they go on sharing it.
        groups = tuple(taken.setdefault(id(points), _rows_of(points, rows)) for points in self.groups)
        norms = tuple(norms[rows] for norms in self.squared_norms)
        return TablePoints(self.keys, len(np.arange(self.n_samples)[rows]), groups, norms)


def _rows_of(points: Points, rows: Index) -> Points:
    """Return some of the points."""
    return points[rows] if isinstance(points, SparsePoints) else np.ascontiguousarray(points[rows])


def _runs(owner: Array) -> Iterator[tuple[int, Array]]:
    """Yield every owner of kernels with the places of its kernels."""
    order = np.argsort(owner, kind="stable")
    for slots in np.split(order, np.flatnonzero(np.diff(owner[order])) + 1):
        if len(slots):
            yield int(owner[slots[0]]), slots


@dataclass(frozen=True, eq=False)
class TableKernels(RawKernels[TablePoints]):
    """Kernels on columns of a table, with statistics of the training rows."""

    names: tuple[str, ...]
    specs: tuple[KernelSpec, ...]  # with every width a number
    positions: tuple[tuple[int, ...], ...]  # the columns of each kernel, as positions in the training table
    n_features: int
    feature_names: tuple[str, ...] | None  # column names of the training DataFrame; None for an array
    column_means: Array  # (n_used,) float64: standardization and centers of the used columns
    column_scales: Array
    shifts: Array
    encodings: tuple[Encoding, ...] = ()  # how each used column becomes numbers; empty if all are numbers
    missing: str = "error"  # {"error", "mask", "indicator"}: what a missing value means
    # (n_train, n_used) float64: with centering: the used columns of the training rows. The mean of ``k(x, x_i)`` over
    # *all* training rows is needed for every new row, so they are kept, also by a model with few support samples.
    reference: Array | None = None
    reference_gaps: Array | None = None  # (n_train, n_used) bool: which of them are missing
    sparse: bool = False  # whether rows are read in compressed form, as those of fit were

    on_columns = True

    @property
    def n_features_in(self) -> int:
        """Number of columns of the training table."""
        return self.n_features

    @property
    def column_names(self) -> tuple[str, ...] | None:
        return self.feature_names

    @cached_property
    def used(self) -> Array:
        """Positions of the columns used by kernels, increasing."""
        return np.array(sorted({j for columns in self.positions for j in columns}), dtype=np.int64)

    @cached_property
    def object_columns(self) -> tuple[int, ...]:
        """Mask of the used columns read as objects."""
        pairs = zip(self.specs, self.positions, strict=True)
        own = {columns[0] for spec, columns in pairs if spec.family == "features"}
        return tuple(np.searchsorted(self.used, sorted(own)).tolist())

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Kernels with shared squared distances, inner products or points."""
        # The groups of a list of kernels, in the order in which each first appears.
        members: dict[tuple[Any, ...], list[int]] = {}
        for kernel, (spec, columns) in enumerate(zip(self.specs, self.positions, strict=True)):
            widths = spec.column_widths if spec.family == "squared_distance" else None
            features = spec.feature_map if spec.family == "features" else None
            members.setdefault((spec.family, columns, widths, features), []).append(kernel)
        return tuple(
            Group(family, columns, tuple(kernels), tuple(self.specs[m] for m in kernels), widths, features)
            for (family, columns, widths, features), kernels in members.items()
        )

    @cached_property
    def _group_of(self) -> Array:
        owner = np.empty(len(self.names), dtype=np.int64)
        for index, group in enumerate(self.groups):
            owner[list(group.kernels)] = index
        return owner

    # --- from rows to points ----------------------------------------------------------------------------------------

    def prepare(self, X: object) -> PreparedRows[TablePoints]:
        """Check rows once, standardize and select their columns."""
        return self.points(self.values(X))

    def values(self, X: object, *, in_their_units: bool = False) -> Any:
        """Check rows once, and return the used columns as numbers, standardized, (n, n_used).

        NaN where a value is missing, if ``missing`` allows it; rows in compressed form stay so. `MixedRows` if a kernel
        reads objects. Numbers ``in_their_units`` are for those who standardize on reading.
        """
        table = Table.wrap(X, sparse=True).completed(self.feature_names)
        places = locate_columns(table, self.used, self.n_features, self.feature_names)
        if self.sparse:
            rows = table.compressed(places)
            refuse(find_stored_issues(rows, table, places))
            return rows
        values = self._read(table, places)
        if not in_their_units:
            values = standardized(values, self.column_means, self.column_scales)
        objects = {at: table.objects(places[at]) for at in self.object_columns}
        return MixedRows(values, objects) if objects else values

    def _read(self, table: Table, places: tuple[int, ...]) -> Array:
        """Return columns as in fit, (n, n_used), NaN where a gap is allowed."""
        encodings = self.encodings or (NUMBERS,) * len(places)
        if not self.encodings:
            table.numbers_only(places, "numbers in fit")
        elif table.columns is None:
            check_array_readable(encodings)
        values = table.codes(places, encodings)
        if not plainly_finite(values):
            refuse(entry_issues(values, table.lacking(places), [table.names[j] for j in places], self.missing))
        return values

    def warn_of_unseen(self, table: Table) -> None:
        """Warn of columns of a new table with mostly unseen levels."""
        if table.columns is None or not any(encoding.levels for encoding in self.encodings):
            return
        places = locate_columns(table, self.used, self.n_features, self.feature_names)
        read = [(j, own) for j, own in zip(places, self.encodings, strict=True) if own.levels]
        named = [found for j, own in read if (found := table.describe_unseen(j, own))]
        if named:
            warn(
                f"Most values of {len(named)} column(s) are levels that the model was not fitted on: "
                f"{listed(named[:SHOWN], len(named))}. Kernels of such a column are zero in these rows. Check that the "
                "column is coded as in the training table.",
            )

    def points(self, values: Array | MixedRows) -> PreparedRows[TablePoints]:
        """Return the used columns (n, n_used), already standardized, as points; what overflows is refused.

        NaN is missing: the factors of the rows are zero in the kernels of that column.
        """
        numbers = values.numbers if isinstance(values, MixedRows) else values
        rows, gaps = (csr_array(numbers), None) if self.sparse else (numbers, np.isnan(numbers))
        known = None if gaps is None or not gaps.any() else gaps
        objects = values.objects if isinstance(values, MixedRows) else {}
        prepared = prepare_points(self.groups, self.names, rows, self.used, self.shifts, known, objects)
        for m, spec in enumerate(self.specs):
            if not spec.unit_diagonal:
                check_diagonal(self._diagonal(prepared.data, m), self.names[m])
        return prepared

    def center_by(self, values: Array) -> TableKernels:
        """Return the kernels with training rows to be centered by, (n, n_used), NaN where something is missing."""
        gaps = np.isnan(values)
        known = gaps if gaps.any() else None
        return replace(self, reference=np.where(gaps, 0.0, values), reference_gaps=known)

    @cached_property
    def _reference(self) -> PreparedRows[TablePoints]:
        assert self.reference is not None
        gaps = self.reference_gaps
        return self.points(self.reference if gaps is None else np.where(gaps, np.nan, self.reference))

    # --- values -----------------------------------------------------------------------------------------------------

    def evaluate(self, left: Side[TablePoints], right: Side[TablePoints], kernels: Array, out: Array) -> None:
        """Write raw values of the kernels, with shared parts computed once per group."""
        for index, slots in _runs(self._group_of[kernels]):
            other = None if left is right else right
            evaluate_group(self.groups[index], index, left, other, slots, kernels[slots], out)

    def diagonals(self, rows: PreparedRows[TablePoints], kernels: Array) -> Array:
        each = [self._diagonal(rows.data, int(m)) for m in kernels]
        return np.array(each).reshape(len(kernels), rows.n_samples)

    def _diagonal(self, data: TablePoints, kernel: int) -> Array:
        """Return ``k(x, x)`` of a kernel, (n,) float64."""
        group, spec = int(self._group_of[kernel]), self.specs[kernel]
        if spec.family in ("other", "missing"):
            return spec.diag(data.points(group))
        family: Any = spec
        if spec.family == "features":
            return np.asarray(family.diag_of_points(data.groups[group]))
        if spec.unit_diagonal:
            return np.ones(data.n_samples)
        if spec.family == "squared_distance":
            return family.from_squared_distance(np.zeros(data.n_samples))
        return family.from_inner_product(data.squared_norms[group])

    def row_means(self, rows: PreparedRows[TablePoints], training: PreparedRows[TablePoints] | None = None) -> Array:
        """Return the mean of every raw kernel of every row with the training rows, (M, n) float64, block by block.

        Over those training rows with the columns of the kernel.
        """
        reference = self._reference if training is None else training
        means = np.empty((len(self.names), rows.n_samples))
        chunk_entries = 4 * 2**20  # of kernel values whose means are taken at once
        for group in self.groups:
            kernels = np.array(group.kernels)
            present = None if reference.factors is None else reference.factors[kernels]
            step = max(1, chunk_entries // (len(kernels) * reference.n_samples))
            for start in range(0, rows.n_samples, step):
                left, right = Side(rows, slice(start, start + step)), Side(reference, slice(None))
                block = np.empty((len(kernels), left.size, right.size))
                self.evaluate(left, right, kernels, block)
                means[kernels, start : start + step] = _means(block, present)
        return means

    def take(self, kernels: Array) -> TableKernels:
        """Return the selected kernels in order, on their columns."""
        positions = tuple(self.positions[m] for m in kernels)
        keep = np.isin(self.used, [j for columns in positions for j in columns])
        return replace(
            self,
            names=tuple(self.names[m] for m in kernels),
            specs=tuple(self.specs[m] for m in kernels),
            positions=positions,
            column_means=self.column_means[keep],
            column_scales=self.column_scales[keep],
            shifts=self.shifts[keep],
            encodings=tuple(compress(self.encodings, keep)),  # of which there may be none
            reference=None if self.reference is None else np.ascontiguousarray(self.reference[:, keep]),
            reference_gaps=None if self.reference_gaps is None else self.reference_gaps[:, keep],
        )

    def narrow(self, data: object, places: list[int]) -> TablePoints:
        """Return the points of the groups of the kernels."""
        if not isinstance(data, TablePoints):
            raise InvalidInputError(OTHER_BANK)
        group_at = {key: g for g, key in enumerate(data.keys)}
        if any(group.key not in group_at for group in self.groups):
            raise InvalidInputError(OTHER_BANK)
        kept = [group_at[group.key] for group in self.groups]
        norms = tuple(data.squared_norms[g] for g in kept)
        return TablePoints(tuple(data.keys[g] for g in kept), data.n_samples, tuple(map(data.points, kept)), norms)

    def described(self) -> tuple[list[str], list[str]]:
        names = self.feature_names or tuple(f"x{j}" for j in range(self.n_features))
        labels = {key: spec.label for key, spec in distinct_specs(self.specs).items()}
        listed = {own: _listed([names[j] for j in own]) for own in set(self.positions)}
        return [labels[id(spec)] for spec in self.specs], list(map(listed.__getitem__, self.positions))


def _means(block: Array, present: Array | None) -> Array:
    """Return the means over columns of kernels (m, r, c), over columns present in a kernel (m, c)."""
    if present is None:
        return block.mean(axis=2)
    return np.einsum("kij,kj->ki", block, present) / np.maximum(present.sum(axis=1), 1)[:, None]


def _listed(names: list[str]) -> str:
    """Return names of columns in a row, the first few of very many."""
    most_listed = 1000  # columns of a kernel that a table names
    if len(names) <= most_listed:
        return ", ".join(names)
    return f"{', '.join(names[:3])}, ... ({len(names)} columns)"


def evaluate_group(
    group: Group,
    index: int,
    left: Side[TablePoints],
    right: Side[TablePoints] | None,
    slots: Array,
    kernels: Array,
    out: Array,
) -> None:
    """Write raw values of some kernels of a group into slots of ``out``; without ``right``, symmetric."""
    points, norms = _points_of(left, index)
    others, other_norms = (points, norms) if right is None else _points_of(right, index)
    place = dict(zip(group.kernels, group.specs, strict=True))
    specs: list[Any] = [place[int(kernel)] for kernel in kernels]
    if group.family == "squared_distance":
        shared = (
            points.squared_distances(others, norms, other_norms)
            if isinstance(points, SparsePoints)
            else squared_distances(points, others, norms, other_norms)
        )
        for slot, spec in zip(slots, specs, strict=True):
            spec.from_squared_distance(shared, out=out[slot])
    elif group.family == "features":
        for slot, spec in zip(slots, specs, strict=True):
            out[slot] = spec.evaluate_points(points, others)
    elif group.family == "inner_product":
        shared = points.inner(others) if isinstance(points, SparsePoints) else points @ others.T
        for slot, spec in zip(slots, specs, strict=True):
            spec.from_inner_product(shared, out=out[slot])
    else:
        for slot, spec in zip(slots, specs, strict=True):
            out[slot] = spec(points, None if right is None else others)
            check_finite(out[slot], f"The kernel {spec.label}")


def _points_of(side: Side[TablePoints], group: int) -> tuple[Any, Array]:
    """Return the points of a group, (size, d), and their squared norms."""
    data = side.prepared.data
    return data.groups[group][side.rows], data.squared_norms[group][side.rows]


def prepare_points(
    groups: Sequence[Group],
    names: tuple[str, ...],
    rows: Index,
    used: Array,
    shifts: Array,
    gaps: Array | None = None,
    objects: Mapping[int, Array] | None = None,
) -> PreparedRows[TablePoints]:
    """Return the points of every group from the used columns of a table, of which ``gaps`` (n, n_used) are missing.

    ``objects`` are the columns of objects, by their place among the used ones. Rows in compressed form have no gaps;
    their points stay compressed where a kernel reads many columns.
    """
    sparse = issparse(rows)
    if sparse:
        _check_dense_columns(groups, names, rows)
    if gaps is not None:
        # What stands in a gap reaches no model: the row is zero there. It only has to be a number that kernels take.
        rows = np.where(gaps, shifts, rows)
    known: dict[tuple[Any, ...], tuple[Any, Array]] = {}
    for group in groups:
        key = _points_key(group, sparse)
        if key not in known:
            at = np.searchsorted(used, group.positions)
            own: Points
            if group.features is not None:
                own = SparsePoints.create(group.features.features((objects or {})[int(at[0])]))
            elif sparse:
                own = _compressed_points(group, rows, at)
            else:
                own = _group_points(group, rows, at, shifts, gaps)
            known[key] = (own, norms_of_group(own, group, names))
    points, norms = (tuple(part) for part in zip(*(known[_points_key(group, sparse)] for group in groups), strict=True))
    present = None if gaps is None else _presence(groups, len(names), used, gaps)
    data = TablePoints(tuple(group.key for group in groups), rows.shape[0], points, norms)
    return PreparedRows(names, data, factors=present)


def _presence(groups: Sequence[Group], n_kernels: int, used: Array, gaps: Array) -> Array | None:
    """Return 1 where a row has every column of a kernel, else 0, (M, n) float64; None if no row lacks any."""
    present = np.ones((n_kernels, len(gaps)))
    for group in groups:
        if group.family != "missing":
            present[list(group.kernels)] = ~gaps[:, np.searchsorted(used, group.positions)].any(axis=1)
    return None if present.all() else present


def _points_key(group: Group, sparse: bool) -> tuple[Any, ...]:
    """Return the key of groups with the same points."""
    shifted = group.family == "squared_distance" and len(group.positions) > 1 and not sparse
    widths = group.column_widths if group.family == "squared_distance" else None
    return group.positions, shifted, widths, group.family in ("other", "missing") and group.family, group.features


def _group_points(group: Group, values: Array, columns: Array, shifts: Array, gaps: Array | None) -> Array:
    """Return the columns of a group in the form of the kernels."""
    points = values[:, columns]
    if group.family == "missing":
        return np.where(False if gaps is None else gaps[:, columns], UNSEEN, 0.0) + np.zeros_like(points)
    if group.family == "squared_distance":
        if len(columns) > 1:
            points = points - shifts[columns]
        if group.column_widths is not None:
            points = points / np.array(group.column_widths)
    return np.ascontiguousarray(points)


def _compressed_points(group: Group, rows: csr_array, columns: Array) -> SparsePoints | Array:
    """Return the columns of a group from sparse rows in the form of the kernels."""
    if group.family == "missing":
        return np.zeros((rows.shape[0], len(columns)))
    whole = np.array_equal(columns, np.arange(rows.shape[1]))
    chosen = rows if whole else rows[:, columns].tocsr()
    if group.family == "squared_distance" and group.column_widths is not None:
        chosen = (chosen @ diags_array(1.0 / np.array(group.column_widths))).tocsr()
    if not _stays_compressed(group):
        return np.ascontiguousarray(chosen.toarray())
    chosen.sort_indices()
    return SparsePoints.create(chosen)


def _stays_compressed(group: Group) -> bool:
    """Tell whether the kernels of a group read sparse rows unchanged."""
    return group.family in COMPRESSED and len(group.positions) > FEW_COLUMNS


def _check_dense_columns(groups: Sequence[Group], names: tuple[str, ...], rows: csr_array) -> None:
    """Reject kernels that would make too many columns dense."""
    dense = [group for group in groups if not _stays_compressed(group)]
    entries = rows.shape[0] * sum(len(group.positions) for group in dense)
    if entries <= MOST_DENSE:
        return
    largest = max(dense, key=lambda group: len(group.positions))
    if len(largest.positions) > FEW_COLUMNS:
        raise InvalidInputError(
            f"Kernel {names[largest.kernels[0]]!r} needs {len(largest.positions)} dense columns, and X is sparse: "
            f"{8e-9 * entries:.1f} GB. Linear, Polynomial and Gaussian kernels read sparse rows (a cosine kernel is a "
            "linear one of rows of unit length, as of TfidfVectorizer or Normalizer); for others reduce the columns "
            "(TruncatedSVD in a pipeline)."
        )
    raise InvalidInputError(
        f"{len(dense)} sets of few columns would be made dense, and X is sparse: {8e-9 * entries:.1f} GB. Kernels of "
        "many columns together read sparse rows: KernelBank.joint(...), or KernelBank.from_groups(groups)."
    )


def norms_of_group(points: Any, group: Group, names: tuple[str, ...]) -> Array:
    """Return the squared norms of points for families with norms, zeros for others."""
    if group.family in ("other", "missing"):
        return np.zeros(len(points))  # their points may be codes, whose squares overflow
    with np.errstate(over="ignore", under="ignore"):
        norms = points.squared_norms if isinstance(points, SparsePoints) else row_norms(points)
        largest = 4.0 * norms.max(initial=0.0)
    if group.family == "squared_distance" and not np.isfinite(largest):
        raise InvalidInputError(
            f"The squared distances of kernel {names[group.kernels[0]]!r} overflow: its columns hold values up to "
            f"{np.abs(getattr(points, 'data', points)).max():.3g}. Rescale them, for instance with standardize=True."
        )
    return norms
