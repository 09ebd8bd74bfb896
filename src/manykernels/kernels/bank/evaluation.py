"""One group of kernels on one block of rows: the shared matrix once, then every kernel written in place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.prepared import Group, Prepared
from manykernels.kernels.specs.base import KernelSpec
from manykernels.kernels.specs.distances import squared_distances
from manykernels.validation.arrays import check_finite, check_indices

Array = NDArray[Any]


@dataclass(frozen=True)
class Side:
    """Some rows of prepared data, on the left or on the right of a block."""

    prepared: Prepared
    rows: Any

    @cached_property
    def size(self) -> int:
        """Number of rows."""
        if isinstance(self.rows, slice):
            return len(range(*self.rows.indices(self.prepared.n_samples)))
        return len(self.rows)

    def points(self, group: int) -> Array:
        """Points of a group, (size, d)."""
        return self.prepared.data[group][self.rows]

    def norms(self, group: int) -> Array:
        """Squared norms of these points, (size,)."""
        return self.prepared.squared_norms[group][self.rows]

    def row_means(self, kernel: int) -> Array:
        """Row means of a raw kernel, (size,)."""
        assert self.prepared.row_means is not None
        return self.prepared.row_means[kernel][self.rows]

    def factors(self, kernel: int) -> Array:
        """Unit-diagonal factors of a kernel, (size,)."""
        assert self.prepared.factors is not None
        return self.prepared.factors[kernel][self.rows]


def evaluate_group(
    group: Group, index: int, left: Side, right: Side | None, slots: Array, kernels: Array, out: Array
) -> None:
    """Write raw values of some kernels of a group into their slots of ``out``."""
    points = left.points(index)
    others = points if right is None else right.points(index)
    norms = left.norms(index)
    place = {kernel: spec for kernel, spec in zip(group.kernels, group.specs, strict=True)}
    specs: list[Any] = [place[int(kernel)] for kernel in kernels]
    if group.family == "squared_distance":
        shared = squared_distances(points, others, norms, norms if right is None else right.norms(index))
        for slot, spec in zip(slots, specs, strict=True):
            spec.from_squared_distance(shared, out=out[slot])
    elif group.family == "inner_product":
        shared = points @ others.T
        for slot, spec in zip(slots, specs, strict=True):
            spec.from_inner_product(shared, out=out[slot])
    else:
        for slot, spec in zip(slots, specs, strict=True):
            out[slot] = spec(points, None if right is None else others)
            check_finite(out[slot], f"The kernel {spec.label}")


def raw_diagonal(spec: KernelSpec, points: Array, norms: Array) -> Array:
    """Return ``k(x, x)`` from the points of the kernel's group and their squared norms, (n,) float64."""
    if spec.family == "other":
        return spec.diag(points)
    if spec.unit_diagonal:
        return np.ones(len(points))
    family: Any = spec
    if spec.family == "squared_distance":
        return family.from_squared_distance(np.zeros(len(points)))
    return family.from_inner_product(norms)


def row_index(index: Any, n_samples: int, name: str) -> Any:
    """Return rows as a slice (kept, so that points are views) or as an array of positions."""
    if index is None:
        return slice(None)
    return index if isinstance(index, slice) else check_indices(index, n_samples, name)


def same_index(first: Any, second: Any) -> bool:
    """Tell whether two indices from :func:`row_index` choose the same rows."""
    if isinstance(first, slice) or isinstance(second, slice):
        return isinstance(first, slice) and isinstance(second, slice) and first == second
    return np.array_equal(first, second)


def checked_out(out: Array | None, shape: tuple[int, ...]) -> Array:
    """Return ``out`` if it can hold float64 values of ``shape``, or a new array."""
    if out is None:
        return np.empty(shape)
    if out.shape != shape or out.dtype != np.float64:
        raise InvalidInputError(f"out must be float64 of shape {shape}, got {out.dtype} of shape {out.shape}.")
    return out
