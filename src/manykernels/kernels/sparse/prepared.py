"""Points of kernels from sparse rows: compressed where a kernel reads many columns, dense where it reads few."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array, diags_array

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.contract import Group
from manykernels.kernels.bank.prepared import Prepared, checked_norms
from manykernels.kernels.sparse.points import SparsePoints
from manykernels.validation.arrays import Array

FEW_COLUMNS = 32  # up to which the columns of a kernel are made dense, whatever the kernel
COMPRESSED = ("squared_distance", "inner_product")  # families that can do without
MOST_DENSE = 2**28  # entries of all columns that are made dense: 2 GB

Points = SparsePoints | Array


def prepare_sparse(groups: Sequence[Group], names: tuple[str, ...], rows: csr_array, used: Array) -> Prepared:
    """Return the points of every group from the used columns of sparse rows."""
    _check_dense_columns(groups, names, rows)
    known: dict[tuple[object, ...], tuple[Points, Array]] = {}
    for group in groups:
        key = _points_key(group)
        if key not in known:
            points = _group_points(group, rows, used)
            known[key] = points, checked_norms(points, group, names)
    data, norms = (tuple(part) for part in zip(*(known[_points_key(group)] for group in groups), strict=True))
    return Prepared(names, tuple(group.key for group in groups), rows.shape[0], data, norms)


def stays_compressed(group: Group) -> bool:
    """Tell whether the kernels of a group read sparse rows as they are."""
    return group.family in COMPRESSED and len(group.positions) > FEW_COLUMNS


def _points_key(group: Group) -> tuple[object, ...]:
    """Return what groups with the same points have in common."""
    widths = group.column_widths if group.family == "squared_distance" else None
    return group.positions, widths, group.family == "missing"


def _group_points(group: Group, rows: csr_array, used: Array) -> Points:
    """Return the columns of a group as its kernels read them."""
    if group.family == "missing":
        return np.zeros((rows.shape[0], len(group.positions)))
    whole = len(group.positions) == len(used) and np.array_equal(group.positions, used)
    chosen = rows if whole else rows[:, np.searchsorted(used, group.positions)].tocsr()
    if group.family == "squared_distance" and group.column_widths is not None:
        chosen = (chosen @ diags_array(1.0 / np.array(group.column_widths))).tocsr()
    if not stays_compressed(group):
        return np.ascontiguousarray(chosen.toarray())
    chosen.sort_indices()
    return SparsePoints.of(chosen)


def _check_dense_columns(groups: Sequence[Group], names: tuple[str, ...], rows: csr_array) -> None:
    """Refuse kernels that would make too many columns dense, before any is."""
    dense = [group for group in groups if not stays_compressed(group)]
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
