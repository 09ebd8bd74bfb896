"""One group of kernels on one block of rows: the shared matrix once, then every kernel written in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from manykernels.kernels.bank.contract import Group, Side
from manykernels.kernels.bank.prepared import Prepared
from manykernels.kernels.sparse.points import SparsePoints
from manykernels.kernels.specs.base import KernelSpec
from manykernels.kernels.specs.distances import squared_distances
from manykernels.validation.arrays import Array, check_finite


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
    if spec.unit_diagonal:
        return np.ones(len(points))
    family: Any = spec
    if spec.family == "squared_distance":
        return family.from_squared_distance(np.zeros(len(points)))
    return family.from_inner_product(norms)
