"""A bank that has seen training rows: it evaluates normalized kernels between any prepared rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.columns import NUMBERS, Table, locate_columns
from manykernels.kernels.bank.contract import FittedKernels, Group, Index, PreparedRows, Side
from manykernels.kernels.bank.normalization import centered_diagonal, check_diagonal, standardized, unit_factors
from manykernels.kernels.bank.prepared import Prepared, build_groups, prepare_points
from manykernels.kernels.specs.base import KernelSpec
from manykernels.kernels.specs.distances import SparsePoints, squared_distances
from manykernels.kernels.tables.encoding import Encoding, MixedRows, numbers_of
from manykernels.kernels.tables.issues import entry_issues, refuse
from manykernels.kernels.tables.sparse import stored_issues
from manykernels.validation.arrays import Array, check_finite, check_indices

# One group of kernels on one block of rows: the shared matrix once, then every kernel written in place.


def evaluate_group(
    group: Group,
    index: int,
    left: Side[Prepared],
    right: Side[Prepared] | None,
    slots: Array,
    kernels: Array,
    out: Array,
) -> None:
    """Write raw values of some kernels of a group into their slots of ``out``."""
    points, norms = _points_of(left, index)
    others, other_norms = (points, norms) if right is None else _points_of(right, index)
    place = {kernel: spec for kernel, spec in zip(group.kernels, group.specs, strict=True)}
    specs: list[Any] = [place[int(kernel)] for kernel in kernels]
    if group.family == "squared_distance":
        shared = _distances(points, others, norms, other_norms)
        for slot, spec in zip(slots, specs, strict=True):
            spec.from_squared_distance(shared, out=out[slot])
    elif group.family == "features":
        for slot, spec in zip(slots, specs, strict=True):
            out[slot] = spec.of_points(points, others)
    elif group.family == "inner_product":
        shared = points.inner(others) if isinstance(points, SparsePoints) else points @ others.T
        for slot, spec in zip(slots, specs, strict=True):
            spec.from_inner_product(shared, out=out[slot])
    else:
        for slot, spec in zip(slots, specs, strict=True):
            out[slot] = spec(points, None if right is None else others)
            check_finite(out[slot], f"The kernel {spec.label}")


def _distances(points: Any, others: Any, norms: Array, other_norms: Array) -> Array:
    """Return squared distances between dense or between sparse points."""
    if isinstance(points, SparsePoints):
        return points.squared_distances(others, norms, other_norms)
    return squared_distances(points, others, norms, other_norms)


def _points_of(side: Side[Prepared], group: int) -> tuple[Any, Array]:
    """Return the points of a group, (size, d), and their squared norms."""
    return side.prepared.data[group][side.rows], side.prepared.squared_norms[group][side.rows]


def raw_diagonal(spec: KernelSpec, points: Any, norms: Array) -> Array:
    """Return ``k(x, x)`` from the points of the kernel's group and their squared norms, (n,) float64."""
    if spec.family in ("other", "missing"):
        return spec.diag(points)
    family: Any = spec
    if spec.family == "features":
        return np.asarray(family.diag_of_points(points))
    if spec.unit_diagonal:
        return np.ones(len(points))
    if spec.family == "squared_distance":
        return family.from_squared_distance(np.zeros(len(points)))
    return family.from_inner_product(norms)


CHUNK_ENTRIES = 4 * 2**20
MOST_LISTED = 1000  # columns of a kernel that a table names


@dataclass(frozen=True, eq=False)
class FittedBank(FittedKernels[Prepared]):
    """Named kernels on columns of a table, with the normalization learned on training rows.

    Made by :meth:`KernelBank.fit`. Immutable. Test rows never influence it.

    Attributes
    ----------
    names : tuple of str
    specs : tuple of KernelSpec
        With every width a number.
    positions : tuple of tuple of int
        The columns of each kernel, as positions in the training table.
    scales : (M,) float64
        Each centered kernel is multiplied by its scale; 0 marks a kernel that is zero on the training rows.
    n_features : int
    feature_names : tuple of str or None
        Column names of the training DataFrame; None for an array.
    column_means, column_scales, shifts : (n_used,) float64
        Standardization and centers of the used columns.
    normalize : {"trace", "mean_diagonal", "unit_diagonal", None}
    center : bool
    grand_means : (M,) float64 or None
        With centering: mean of each raw kernel over all training pairs.
    encodings : tuple of Encoding
        How each used column becomes numbers; empty if all are numbers.
    missing : {"error", "mask", "indicator"}
        What a missing value means.
    reference : (n_train, n_used) float64 or None
        With centering: the used columns of the training rows. The mean of ``k(x, x_i)`` over *all* training rows is
        needed for every new row, so they are kept, also by a model with few support samples.
    reference_gaps : (n_train, n_used) bool or None
        Which of them are missing.
    sparse : bool
        Whether rows are read in compressed form, as those of fit were.
    """

    names: tuple[str, ...]
    specs: tuple[KernelSpec, ...]
    positions: tuple[tuple[int, ...], ...]
    scales: Array
    n_features: int
    feature_names: tuple[str, ...] | None
    column_means: Array
    column_scales: Array
    shifts: Array
    normalize: str | None = None
    center: bool = False
    grand_means: Array | None = None
    reference: Array | None = None
    encodings: tuple[Encoding, ...] = ()
    missing: str = "error"
    reference_gaps: Array | None = None
    sparse: bool = False

    @property
    def n_features_in_(self) -> int:
        """Number of columns of the training table."""
        return self.n_features

    @property
    def feature_names_in_(self) -> Array:
        """Column names of the training DataFrame; not defined for an array."""
        if self.feature_names is None:
            raise AttributeError("feature_names_in_ is only defined when X has string column names.")
        return np.array(self.feature_names, dtype=object)

    @cached_property
    def used(self) -> Array:
        """Positions of the columns that some kernel uses, increasing."""
        return np.array(sorted({j for columns in self.positions for j in columns}), dtype=np.int64)

    @cached_property
    def object_columns(self) -> tuple[int, ...]:
        """Which of the used columns some kernel reads as objects."""
        own = {columns[0] for spec, columns in zip(self.specs, self.positions, strict=True)
               if spec.family == "features"}  # fmt: skip
        return tuple(np.searchsorted(self.used, sorted(own)).tolist())

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Kernels that share squared distances, inner products or points."""
        return build_groups(self.specs, self.positions)

    @cached_property
    def _group_of(self) -> Array:
        owner = np.empty(self.n_kernels, dtype=np.int64)
        for index, group in enumerate(self.groups):
            owner[list(group.kernels)] = index
        return owner

    @cached_property
    def _bare(self) -> FittedBank:
        ones = np.ones(self.n_kernels)
        return replace(
            self, scales=ones, normalize=None, center=False, grand_means=None, reference=None, reference_gaps=None
        )

    @cached_property
    def _reference(self) -> Prepared | None:
        if self.reference is None:
            return None
        gaps = self.reference_gaps
        return self.points(self.reference if gaps is None else np.where(gaps, np.nan, self.reference))

    def reference_of(self, values: Array) -> dict[str, Any]:
        """Return the fields that keep training rows, (n, n_used) with NaN where something is missing."""
        gaps = np.isnan(values)
        return {"reference": np.where(gaps, 0.0, values), "reference_gaps": gaps if gaps.any() else None}

    def __repr__(self) -> str:
        return f"FittedBank({self.n_kernels} kernels on {len(self.used)} columns, normalize={self.normalize!r})"

    def prepare(self, X: Any) -> Prepared:
        """Check rows once, standardize and select their columns, and compute what normalization needs of them.

        Parameters
        ----------
        X : DataFrame, (n, p) array or nested lists
            Columns of a DataFrame are matched by name; other columns than those in use may be missing.

        Returns
        -------
        Prepared

        Raises
        ------
        InvalidInputError
            Columns that are not there or cannot be read, values that are missing against ``missing`` or infinite, or
            values whose kernels overflow.
        """
        return self.normalized(self.points(self.values(X)))

    def values(self, X: Any) -> Any:
        """Check rows once, and return the used columns as numbers, standardized.

        Parameters
        ----------
        X : DataFrame, (n, p) array or nested lists
            As for `prepare`.

        Returns
        -------
        (n, n_used) float64, or `MixedRows` if a kernel reads objects
            NaN where a value is missing, if ``missing`` allows it.

        Raises
        ------
        InvalidInputError
            Columns that are not there or cannot be read, and values that are missing against ``missing`` or infinite.
        """
        table = Table.of(X, sparse=True).completed(self.feature_names)
        places = locate_columns(table, self.used, self.n_features, self.feature_names)
        if self.sparse:
            return self._compressed(table, places)
        values = standardized(self._read(table, places), self.column_means, self.column_scales)
        objects = {at: table.objects(places[at]) for at in self.object_columns}
        return MixedRows(values, objects) if objects else values

    def _compressed(self, table: Table, places: tuple[int, ...]) -> Any:
        """Return columns as sparse rows, which have no gaps."""
        rows = table.compressed(places)
        refuse(stored_issues(rows, table, places))
        return rows

    def _read(self, table: Table, places: tuple[int, ...]) -> Array:
        """Return columns as in fit, (n, n_used), NaN where a gap is allowed."""
        encodings = self.encodings or (NUMBERS,) * len(places)
        if not self.encodings:
            refuse([found for j in places for found in table.unreadable(j, frozenset({"number"}), "numbers in fit")])
        elif table.columns is None and any(found.kind != "number" for found in encodings):
            raise InvalidInputError(
                "The kernels read categories, dates or booleans of a DataFrame, which an array has not; pass one."
            )
        values = table.codes(places, encodings)
        every = (
            table.names
        )  # made anew each time: thousands of columns would make thousands of names thousands of times
        names = [every[j] for j in places]
        refuse(entry_issues(values, table.lacking(places), names, self.missing))
        return values

    def _evaluate(self, left: Side[Prepared], right: Side[Prepared], same: bool, kernels: Array, out: Array) -> None:
        for group, slots in self._runs(kernels):
            evaluate_group(self.groups[group], group, left, None if same else right, slots, kernels[slots], out)
            for slot in slots:
                self._normalize(out[slot], int(kernels[slot]), left, right)

    def diag(self, prepared: PreparedRows, kernels: Index = None) -> Array:
        """Return the normalized ``k(x, x)``, (m, n) float64, without building matrices.

        Parameters
        ----------
        prepared : Prepared
        kernels : None, positions, slice or mask

        Returns
        -------
        (m, n) float64
        """
        rows = self.narrow(prepared)
        chosen = check_indices(kernels, self.n_kernels, "kernels")
        diagonals = [self.centered_diagonal(rows, m) for m in chosen]
        if rows.factors is not None:
            diagonals = [diagonal * rows.factors[m] ** 2 for m, diagonal in zip(chosen, diagonals, strict=True)]
        result = np.array(diagonals).reshape(len(chosen), rows.n_samples)
        return result * self.scales[chosen, None]

    def take(self, kernels: Index) -> FittedBank:
        """Return the bank of those kernels only, in that order; it accepts rows that this bank prepared.

        Parameters
        ----------
        kernels : positions, slice or mask

        Returns
        -------
        FittedBank
        """
        chosen = check_indices(kernels, self.n_kernels, "kernels", allow_empty=False)
        positions = tuple(self.positions[m] for m in chosen)
        keep = np.isin(self.used, [j for columns in positions for j in columns])
        return replace(
            self,
            names=tuple(self.names[m] for m in chosen),
            specs=tuple(self.specs[m] for m in chosen),
            positions=positions,
            scales=self.scales[chosen],
            column_means=self.column_means[keep],
            column_scales=self.column_scales[keep],
            shifts=self.shifts[keep],
            grand_means=None if self.grand_means is None else self.grand_means[chosen],
            reference=None if self.reference is None else np.ascontiguousarray(self.reference[:, keep]),
            encodings=tuple(found for found, kept in zip(self.encodings, keep, strict=True) if kept)
            if self.encodings
            else (),
            reference_gaps=None if self.reference_gaps is None else self.reference_gaps[:, keep],
        )

    def narrow(self, prepared: PreparedRows) -> Prepared:
        """Return rows prepared by the bank this one was taken from as rows prepared by this bank.

        `block` and `diag` do it on every call; do it once where many blocks are read.

        Parameters
        ----------
        prepared : Prepared

        Returns
        -------
        Prepared
            ``prepared`` itself if it is this bank's already.
        """
        if not isinstance(prepared, Prepared):
            raise InvalidInputError(f"A FittedBank needs rows that it prepared, got {type(prepared).__name__}.")
        # Equal tuples of a hundred thousand names take a while to compare, and are mostly one tuple.
        same = prepared.names is self.names or prepared.names == self.names
        return prepared if same else prepared.narrow(self.names, self.groups)

    def normalized(self, points: Prepared) -> Prepared:
        """Return raw points with the row means and unit-diagonal factors that this bank's normalization needs.

        Parameters
        ----------
        points : Prepared
            Without normalization.

        Returns
        -------
        Prepared

        Raises
        ------
        InvalidInputError
            If a kernel overflows or has a negative diagonal on these rows.
        """
        if self._reference is not None:
            points = replace(points, row_means=self.row_means(points, self._reference))
        return self.with_factors(points)

    def with_factors(self, points: Prepared) -> Prepared:
        """Return the points with unit-diagonal factors where needed, after checking every diagonal."""
        factors = []
        for m, spec in enumerate(self.specs):
            if spec.unit_diagonal and not self.center:  # nothing to look at, and to divide by
                factors.append(np.ones(points.n_samples))
                continue
            diagonal = self.centered_diagonal(points, m)
            if self.center:  # of new rows, what is below zero is rounding: training looked at the kernel
                diagonal = np.maximum(diagonal, 0.0)
            if self.unit_diagonal:
                factors.append(unit_factors(check_diagonal(diagonal, self.names[m])))
        if not self.unit_diagonal:
            return points
        present = 1.0 if points.factors is None else points.factors
        return replace(points, factors=np.array(factors) * present)

    def points(self, values: Any) -> Prepared:
        """Return the used columns (n, n_used), already standardized, as points without normalization.

        NaN is missing: the factors of the points are zero in the kernels of that column.
        """
        numbers = numbers_of(values)
        rows, gaps = (csr_array(numbers), None) if self.sparse else (numbers, np.isnan(numbers))
        known = gaps is None or not gaps.any()
        objects = values.objects if isinstance(values, MixedRows) else {}
        return prepare_points(self.groups, self.names, rows, self.used, self.shifts, None if known else gaps, objects)

    def row_means(self, points: Prepared, reference: Prepared) -> Array:
        """Return the mean of every raw kernel of each row with the reference rows, (M, n) float64, block by block.

        Over those reference rows that have the columns of the kernel.
        """
        means = np.empty((self.n_kernels, points.n_samples))
        present = None if reference.factors is None else reference.factors
        points, reference = replace(points, factors=None), replace(reference, factors=None)
        for group in self.groups:
            kernels = np.array(group.kernels)
            step = max(1, CHUNK_ENTRIES // (len(kernels) * reference.n_samples))
            for start in range(0, points.n_samples, step):
                block = self._bare.block(points, reference, kernels, rows=slice(start, start + step))
                if present is None:
                    means[kernels, start : start + step] = block.mean(axis=2)
                else:
                    sums = np.einsum("kij,kj->ki", block, present[kernels])
                    means[kernels, start : start + step] = sums / np.maximum(present[kernels].sum(axis=1), 1)[:, None]
        return means

    def centered_diagonal(self, points: Prepared, kernel: int) -> Array:
        """Return ``k(x, x)`` of one kernel, centered if the bank centers but not scaled, (n,) float64."""
        group = int(self._group_of[kernel])
        raw = raw_diagonal(self.specs[kernel], points.data[group], points.squared_norms[group])
        check_diagonal(raw, self.names[kernel])
        if points.row_means is None or self.grand_means is None:
            return raw
        return centered_diagonal(raw, points.row_means[kernel], self.grand_means[kernel])

    def frame(self) -> pd.DataFrame:
        """Return one row per kernel: name, kernel, columns, scale."""
        names = self.feature_names or tuple(f"x{j}" for j in range(self.n_features))
        columns = [_listed([names[j] for j in positions]) for positions in self.positions]
        labels = [spec.label for spec in self.specs]
        return pd.DataFrame({"name": self.names, "kernel": labels, "columns": columns, "scale": self.scales})

    def _runs(self, kernels: Array) -> Iterator[tuple[int, Array]]:
        """Yield every group among ``kernels`` with the places of its kernels in them."""
        owner = self._group_of[kernels]
        order = np.argsort(owner, kind="stable")
        for slots in np.split(order, np.flatnonzero(np.diff(owner[order])) + 1):
            if len(slots):
                yield int(owner[slots[0]]), slots


def _listed(names: list[str]) -> str:
    """Return names of columns in a row, the first few of very many."""
    if len(names) <= MOST_LISTED:
        return ", ".join(names)
    return f"{', '.join(names[:3])}, ... ({len(names)} columns)"
