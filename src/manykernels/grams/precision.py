"""Vectors in the precision of the features, in any unit."""

import numpy as np
from numpy.typing import DTypeLike

from manykernels.validation.arrays import Array

RANGE = 1e12  # of numbers, and of one over them, that products in single precision take as they are


def convert_precision(vectors: Array, dtype: DTypeLike) -> tuple[Array, Array | float]:
    """Return vectors in a precision, with the unit of every column: 1, unless the range is too small.

    Targets of 1e42 are beyond the largest number of single precision, and those of 1e-42 below the smallest.
    """
    if dtype == vectors.dtype:
        return vectors, 1.0
    top = np.abs(vectors).max(axis=0, initial=0.0)
    if ((top < RANGE) & ((top > 1.0 / RANGE) | (top == 0.0))).all():
        return vectors.astype(dtype), 1.0
    units = np.ldexp(1.0, np.maximum(np.frexp(top)[1] - 1, -1022))  # powers of two, which round nothing
    return (vectors / units).astype(dtype), units


def product_in_precision(matrix: Array, vectors: Array) -> Array:
    """Return the product of a matrix with vectors in the precision of the matrix, whatever the unit of the vectors."""
    rounded, units = convert_precision(vectors, matrix.dtype)
    found: Array = (matrix @ rounded).astype(np.float64, copy=False)
    if np.any(units != 1.0):
        found *= units
    return found
