"""Rows made ready for kernel evaluation: groups of kernels that share their points, and the points themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array, issparse

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.contract import Group, PreparedRows
from manykernels.kernels.specs.base import KernelSpec
from manykernels.kernels.specs.categorical import UNSEEN
from manykernels.kernels.specs.distances import SparsePoints, row_norms
from manykernels.validation.arrays import Array

FEW_COLUMNS = 32  # up to which the columns of a kernel are made dense, whatever the kernel
COMPRESSED = ("squared_distance", "inner_product")  # families that can do without
MOST_DENSE = 2**28  # entries of all columns that are made dense: 2 GB


@dataclass(frozen=True, eq=False)
class Prepared(PreparedRows):
    """Rows as the kernels of one fitted bank need them; made by ``FittedBank.prepare``.

    Attributes
    ----------
    names : tuple of str
        The kernels of the bank that prepared these rows.
    keys : tuple of (family, positions, column_widths)
        What identifies each of its groups.
    n_samples : int
        Number of rows.
    data : tuple of (n, d) float64 or SparsePoints
        Per group, contiguous points: standardized, and for squared distances shifted and divided by column widths. Of
        sparse rows, compressed where kernels read many columns.
    squared_norms : tuple of (n,) float64
        Per group, the squared norms of the points.
    row_means : (M, n) float64 or None
        With centering: mean of every raw kernel of each row with the training rows.
    factors : (M, n) float64 or None
        By which rows of kernels are multiplied: with unit diagonal ``1 / sqrt(k(x, x))``, 0 where the diagonal is 0;
        and 0 where a column of the kernel is missing. None: all one.
    """

    names: tuple[str, ...]
    keys: tuple[tuple[Any, ...], ...]
    n_samples: int
    data: tuple[Any, ...]
    squared_norms: tuple[Array, ...]
    row_means: Array | None = None
    factors: Array | None = None

    def points(self, group: int) -> Any:
        """Return the (n, d) contiguous float64 points of a group of the bank, or its `SparsePoints`."""
        return self.data[group]

    def take(self, rows: Any) -> Prepared:
        """Return the chosen rows (positions, slice or mask), for instance the support samples."""
        taken: dict[int, Any] = {}
        # Groups may share one array; they go on sharing it.
        data = tuple(taken.setdefault(id(points), _rows_of(points, rows)) for points in self.data)
        return replace(
            self,
            n_samples=len(np.arange(self.n_samples)[rows]),
            data=data,
            squared_norms=tuple(norms[rows] for norms in self.squared_norms),
            **self.normalization((slice(None), rows)),
        )

    def detach(self) -> Prepared:
        """Return these rows themselves: they hold no more than a fitted model has to keep."""
        return self

    def narrow(self, names: tuple[str, ...], groups: Sequence[Group]) -> Prepared:
        """Return what a bank of fewer kernels, with those names and groups, needs of these rows."""
        chosen = self.places(names)
        group_at = {key: g for g, key in enumerate(self.keys)}
        if any(group.key not in group_at for group in groups):
            raise InvalidInputError("These rows were prepared by another bank; call prepare(X) of this one.")
        kept = [group_at[group.key] for group in groups]
        return replace(
            self,
            names=names,
            keys=tuple(group.key for group in groups),
            data=tuple(self.data[g] for g in kept),
            squared_norms=tuple(self.squared_norms[g] for g in kept),
            **self.normalization(chosen),
        )


def _rows_of(points: Any, rows: Any) -> Any:
    """Return some of the points."""
    return points[rows] if isinstance(points, SparsePoints) else np.ascontiguousarray(points[rows])


def build_groups(specs: Sequence[KernelSpec], positions: Sequence[tuple[int, ...]]) -> tuple[Group, ...]:
    """Return the groups of a list of kernels, in the order in which each first appears."""
    members: dict[tuple[Any, ...], list[int]] = {}
    for kernel, (spec, columns) in enumerate(zip(specs, positions, strict=True)):
        members.setdefault((spec.family, columns, spec.column_widths, spec.feature_map), []).append(kernel)
    return tuple(
        Group(family, columns, tuple(kernels), tuple(specs[m] for m in kernels), widths, features)
        for (family, columns, widths, features), kernels in members.items()
    )


def prepare_points(
    groups: Sequence[Group],
    names: tuple[str, ...],
    rows: Any,
    used: Array,
    shifts: Array,
    gaps: Array | None = None,
    objects: Mapping[int, Array] | None = None,
) -> Prepared:
    """Return the points of every group from the used columns of a table, of which ``gaps`` (n, n_used) are missing.

    ``objects`` are the columns of objects, by their place among the used ones.
    Rows in compressed form have no gaps; their points stay compressed where a kernel reads many columns.
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
            if group.features is not None:
                points: Any = SparsePoints.of(group.features.features((objects or {})[int(at[0])]))
            elif sparse:
                points = _compressed_points(group, rows, at)
            else:
                points = _group_points(group, rows, at, shifts, gaps)
            known[key] = (points, checked_norms(points, group, names))
    data, norms = (tuple(part) for part in zip(*(known[_points_key(group, sparse)] for group in groups), strict=True))
    present = None if gaps is None else _presence(groups, len(names), used, gaps)
    return Prepared(names, tuple(group.key for group in groups), rows.shape[0], data, norms, factors=present)


def _presence(groups: Sequence[Group], n_kernels: int, used: Array, gaps: Array) -> Array | None:
    """Return 1 where a row has every column of a kernel, else 0, (M, n) float64; None if no row lacks any."""
    present = np.ones((n_kernels, len(gaps)))
    for group in groups:
        if group.family != "missing":
            present[list(group.kernels)] = ~gaps[:, np.searchsorted(used, group.positions)].any(axis=1)
    return None if present.all() else present


def _points_key(group: Group, sparse: bool) -> tuple[Any, ...]:
    """Return what groups with the same points have in common."""
    shifted = group.family == "squared_distance" and len(group.positions) > 1 and not sparse
    widths = group.column_widths if group.family == "squared_distance" else None
    return group.positions, shifted, widths, group.family in ("other", "missing") and group.family, group.features


def _group_points(group: Group, values: Array, columns: Array, shifts: Array, gaps: Array | None) -> Array:
    """Return the columns of a group as its kernels read them."""
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
    """Return the columns of a group from sparse rows as its kernels read them."""
    if group.family == "missing":
        return np.zeros((rows.shape[0], len(columns)))
    whole = np.array_equal(columns, np.arange(rows.shape[1]))
    chosen = rows if whole else rows[:, columns].tocsr()
    if group.family == "squared_distance" and group.column_widths is not None:
        chosen = (chosen @ diags_array(1.0 / np.array(group.column_widths))).tocsr()
    if not _stays_compressed(group):
        return np.ascontiguousarray(chosen.toarray())
    chosen.sort_indices()
    return SparsePoints.of(chosen)


def _stays_compressed(group: Group) -> bool:
    """Tell whether the kernels of a group read sparse rows as they are."""
    return group.family in COMPRESSED and len(group.positions) > FEW_COLUMNS


def _check_dense_columns(groups: Sequence[Group], names: tuple[str, ...], rows: csr_array) -> None:
    """Refuse kernels that would make too many columns dense, before any is."""
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


def checked_norms(points: Any, group: Group, names: tuple[str, ...]) -> Array:
    """Return the squared norms of points for the families that need them, zeros for others."""
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
