"""Kernels of categories: Overlap (equal or not), Ordinal (how far apart in an order), Missing (known or not)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from manykernels.kernels.specs.base import KernelSpec, as_pair, as_points, register_kernel
from manykernels.validation.arrays import Array

# The code of a category that training rows do not have, and of what is missing: no data reach it, and it equals
# nothing, not even itself. Finite, so that checks for numbers that went astray can stay where they are.
UNSEEN = -float(np.finfo(np.float64).max)


@register_kernel
@dataclass(frozen=True)
class Overlap(KernelSpec):
    """Overlap (Dirac) kernel: the share of columns in which two rows agree, ``k(x, z) = mean_j [x_j = z_j]``.

    Reads columns of any kind: text, booleans, categories, numbers. A category that no training row has agrees with
    nothing, so that the kernel of a new row with it is zero in that column: the model says nothing of what is new.

    Examples
    --------
    >>> from manykernels.kernels import Overlap
    >>> Overlap()([[1.0, 2.0]], [[1.0, 2.0], [1.0, 3.0]])
    array([[1. , 0.5]])

    Notes
    -----
    For nominal variables, the kernel of Daemen and De Moor, Development of a kernel function for clinical data (2009).
    """

    kind: ClassVar[str] = "overlap"

    def reads(self, column: int) -> frozenset[str]:
        """Columns of any kind."""
        return frozenset({"number", "ordered", "category"})

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        """Return the matrix of kernel values."""
        first, second = as_pair(A, B)
        values = np.zeros((len(first), len(second)))
        for left, right in zip(first.T, second.T, strict=True):
            values += (left[:, None] == right) & (left != UNSEEN)[:, None]
        return values / max(first.shape[1], 1)

    def diag(self, A: Array) -> Array:
        """Return the share of columns whose category is known, (n,)."""
        return _share_known(as_points(A))


@register_kernel
@dataclass(frozen=True)
class Ordinal(KernelSpec):
    """Ordinal kernel: nearness of ranks, ``k(x, z) = mean_j max(0, 1 - |x_j - z_j|)`` with ranks between 0 and 1.

    The ranks of an ordered categorical are spread evenly from 0, its first category, to 1, its last: neighbors are
    alike, the two ends are not. Numbers are taken as they are (possibly standardized).

    Examples
    --------
    >>> from manykernels.kernels import Ordinal
    >>> Ordinal()([[0.0], [0.5]], [[1.0], [0.5]])
    array([[0. , 0.5],
           [0.5, 1. ]])

    Notes
    -----
    For ordinal variables, the kernel of Daemen and De Moor (2009). It is positive semidefinite, since the triangle
    function is the convolution of an interval with itself.
    """

    kind: ClassVar[str] = "ordinal"

    def reads(self, column: int) -> frozenset[str]:
        """Columns with an order: ordered categoricals and numbers."""
        return frozenset({"number", "ordered"})

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        """Return the matrix of kernel values."""
        first, second = as_pair(A, B)
        values = np.zeros((len(first), len(second)))
        with np.errstate(over="ignore"):
            for left, right in zip(first.T, second.T, strict=True):
                near = np.maximum(0.0, 1.0 - np.abs(left[:, None] - right))
                values += near * (left != UNSEEN)[:, None]
        return values / max(first.shape[1], 1)

    def diag(self, A: Array) -> Array:
        """Return the share of columns whose category is known, (n,)."""
        return _share_known(as_points(A))


@register_kernel
@dataclass(frozen=True)
class Missing(KernelSpec):
    """Kernel of missingness: the share of columns that both rows lack, ``k(x, z) = mean_j m(x_j) m(z_j)``.

    ``m`` is 1 where a value is missing and 0 where it is known, so that the kernel says something of rows with gaps
    only. A bank with ``missing="indicator"`` adds one for every pattern of gaps. Called on numbers, NaN is missing.

    Examples
    --------
    >>> from manykernels.kernels import Missing
    >>> Missing()([[float("nan")], [1.0]])
    array([[1., 0.],
           [0., 0.]])
    """

    kind: ClassVar[str] = "missing"
    family: ClassVar[str] = "missing"

    def reads(self, column: int) -> frozenset[str]:
        """Columns of any kind."""
        return frozenset({"number", "ordered", "category"})

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        """Return the matrix of kernel values."""
        first, second = as_pair(A, B)
        left, right = (_missing(points).astype(np.float64) for points in (first, second))
        return left @ right.T / max(first.shape[1], 1)

    def diag(self, A: Array) -> Array:
        """Return the share of columns that each row lacks, (n,)."""
        points = as_points(A)
        return _missing(points).sum(axis=1) / max(points.shape[1], 1)


def _share_known(points: Array) -> Array:
    """Return the share of columns of each row that hold a category seen in training."""
    return (points != UNSEEN).sum(axis=1) / max(points.shape[1], 1)


def _missing(points: Array) -> Array:
    """Return where entries are missing, as a bank writes it or as NaN."""
    return np.isnan(points) | (points == UNSEEN)
