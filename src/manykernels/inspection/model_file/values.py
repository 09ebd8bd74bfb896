"""What values of a model file may be: finite floats of a shape, positions, items of one type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from manykernels.kernels.sparse.points import SparsePoints

ANY = None  # a length that nothing else fixes


def wrong_floats(owner: Any, **expected: tuple[int | None, ...] | None) -> Iterator[str]:
    """Yield the attributes that are not finite float64 of the shape expected; None expects None."""
    for name, shape in expected.items():
        value = getattr(owner, name)
        if not (value is None if shape is None else is_float(value, shape)):
            yield name


def is_float(value: Any, shape: tuple[int | None, ...]) -> bool:
    """Tell whether a value is a finite float64 array of a shape, in which None stands for any length."""
    if not isinstance(value, np.ndarray) or value.dtype != np.float64 or value.ndim != len(shape):
        return False
    fits = all(length in (ANY, found) for found, length in zip(value.shape, shape, strict=True))
    return fits and bool(np.isfinite(value).all())


def are_points(value: Any, shape: tuple[int, int]) -> bool:
    """Tell whether a value holds points of a shape: a finite array, or sparse rows."""
    if not isinstance(value, SparsePoints):
        return is_float(value, shape)
    ends, n_stored = value.indptr, len(value.data)
    whole = tuple(value.shape) == shape and is_float(value.data, (ANY,)) and is_index(value.indices, n_stored, shape[1])
    if not whole or not is_index(ends, shape[0] + 1, n_stored + 1):
        return False
    return bool(ends[0] == 0 and ends[-1] == n_stored and (np.diff(ends) >= 0).all())


def is_index(value: Any, length: int, size: int | None) -> bool:
    """Tell whether a value is a vector of positions below ``size``."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "i" or value.shape != (length,):
        return False
    return size is None or length == 0 or bool(value.min() >= 0 and value.max() < size)


def all_are(values: Any, cls: type[Any], length: int | None = None) -> bool:
    """Tell whether a tuple or list has items of one type only, and as many as asked for."""
    fits = isinstance(values, (tuple, list)) and length in (None, len(values))
    return fits and all(isinstance(value, cls) and not isinstance(value, bool) for value in values)


def is_number(value: Any, size: int) -> bool:
    """Tell whether a value is a position below ``size``."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < size
