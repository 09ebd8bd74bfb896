"""Checks of X, y, Gram arrays, weights and parameters; every message has a remedy."""

import numbers
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from manykernels.exceptions import InvalidInputError

Array = NDArray[Any]
Order = Literal["C", "F"]  # rows or columns in turn, in memory


class HasShape(Protocol):
    """A table other than an array: a DataFrame, a sparse matrix, views of samples."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows, and of columns."""


TableLike = ArrayLike | HasShape

LARGEST_FLOAT = sys.float_info.max
MOST_CLASSES = 10  # whole numbers with more distinct values than this are a quantity
BEYOND_FLOATS = "an integer beyond 1.8e308, which no float64 can hold: rescale it, or take its logarithm"


def check_positive(value: object, name: str, *, upper: float = np.inf) -> float:
    """Return ``value`` as a float if finite and positive, else raise ``InvalidInputError``."""
    number = _check_number(value, name, "positive", upper)
    if number == 0:
        raise InvalidInputError(_describe_number(value, name, "positive", upper))
    return number


def check_nonnegative(value: object, name: str, *, upper: float = np.inf) -> float:
    """Return ``value`` as a float if finite and not negative, else raise ``InvalidInputError``."""
    return _check_number(value, name, "non-negative", upper)


def _check_number(value: object, name: str, kind: str, upper: float) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidInputError(f"{name} must be a {kind} number, got {value!r}.")
    number = float(value)
    if not np.isfinite(number) or not 0 <= number <= upper:
        raise InvalidInputError(_describe_number(value, name, kind, upper))
    return number


def _describe_number(value: object, name: str, kind: str, upper: float) -> str:
    limit = "" if upper == np.inf else f" of at most {upper:g}"
    return f"{name} must be a finite {kind} number{limit}, got {value!r}."


def check_finite(array: Array, name: str) -> Array:
    """Return ``array`` if all the entries are finite, else raise an error with number and first place."""
    bad = ~np.isfinite(array)
    if bad.any():
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InvalidInputError(
            f"{name} contains {int(bad.sum())} NaN or infinite value(s), the first at index {first}. "
            "Impute or drop them before fitting."
        )
    return array


def plainly_finite(values: Array) -> bool:
    """Return whether the sum of all entries is finite, a cheap sufficient test."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()))


def are_whole(values: Array) -> bool:
    """Return whether numbers are finite and whole."""
    return bool(np.isfinite(values).all() and (np.floor(values) == values).all())


def are_labels(values: Array) -> bool:
    """Return whether a target holds labels of classes: no numbers, two values, or at most ten different whole numbers.

    Every part of the library not told whether it is to classify decides by this.
    """
    if values.dtype == object and pd.api.types.infer_dtype(values) in ("integer", "floating", "mixed-integer-float"):
        values = values.astype(np.float64)
    if values.dtype.kind not in "iuf":
        return True
    distinct = np.unique(values)
    return len(distinct) == 2 or (len(distinct) <= MOST_CLASSES and are_whole(distinct))


def check_readable(values: Any, name: str) -> None:
    """Reject input that NumPy would misread, with a hint."""
    what = None
    if sparse.issparse(values):
        what = f"is a sparse matrix, but kernels are computed from dense rows. Pass {name}.toarray()"
    elif isinstance(values, (list, tuple)) and any(map(sparse.issparse, values)):
        what = f"has sparse matrices, but kernels are dense. Pass [K.toarray() for K in {name}]"
    elif isinstance(values, Mapping):
        views = any(np.ndim(value) == 2 for value in values.values() if hasattr(value, "shape"))
        way = f"its tables as views, Views({name})" if views else f"a table, such as pandas.DataFrame({name})"
        what = f"is a {type(values).__name__}, which has no rows. Pass {way}"
    elif hasattr(values, "collect"):
        what = f"is a {type(values).__name__}, which holds no rows yet. Pass {name}.collect()"
    elif isinstance(values, Iterator):
        what = f"is a {type(values).__name__}, which can be read only once. Pass list({name})"
    elif getattr(getattr(values, "dtype", None), "kind", "b") in "Mm":
        what = f"holds dates or durations ({values.dtype}). Turn them into numbers, such as days since a date"
    elif ragged := _ragged(values):
        what = f"has rows of different lengths: {ragged}. Give every row as many values"
    elif masked := _count_masked(values):
        plural = "s" if masked > 1 else ""
        what = f"is a masked array with {masked} masked value{plural}. Impute or drop them before fitting"
    if what is not None:
        raise InvalidInputError(f"{name} {what}.")


def _ragged(values: object) -> str:
    """Return the rows of unequal length in a list, if any; arrays have none."""
    if not isinstance(values, (list, tuple)) or not values:
        return ""
    sizes = [len(row) if isinstance(row, (list, tuple)) or len(getattr(row, "shape", ())) else -1 for row in values]
    other = next((at for at, size in enumerate(sizes) if size != sizes[0]), None)
    if other is None:
        return ""
    told = ["a single value" if size < 0 else f"{size} value(s)" for size in (sizes[0], sizes[other])]
    return f"row 0 has {told[0]}, row {other} {told[1]}"


def _count_masked(values: object) -> int:
    """Return the number of masked entries of an array, or of a list of arrays."""
    parts = values if isinstance(values, (list, tuple)) else [values]
    return sum(int(np.ma.count_masked(part)) for part in parts if isinstance(part, np.ma.MaskedArray))


def real_array(values: object, name: str) -> Array:
    """Return ``values`` as float32 or float64; other real numbers become float64."""
    if type(values) is np.ndarray and values.dtype == np.float64:
        return values
    check_readable(values, name)
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InvalidInputError(f"{name} could not be read as one array ({error}). Give equal shapes.") from error
    if array.dtype == object and any(isinstance(value, int) and abs(value) > LARGEST_FLOAT for value in array.ravel()):
        raise InvalidInputError(f"{name} holds {BEYOND_FLOATS}.")
    if array.dtype.kind not in "biuf":
        raise InvalidInputError(f"{name} must hold real numbers, got dtype {array.dtype}.")
    if array.dtype in (np.dtype(np.float32), np.dtype(np.float64)):
        return array
    return array.astype(np.float64)


def check_float32_range(diagonals: Array, name: str = "Kernel") -> None:
    """Raise ``InvalidInputError`` if a kernel with a diagonal (a row per kernel) loses digits in float32."""
    largest = np.abs(diagonals).max(axis=1)
    bad = np.flatnonzero((largest > 1e38) | ((largest > 0) & (largest < 1e-30)))
    if len(bad):
        raise InvalidInputError(
            f"{name} {bad[0]} has diagonal entries up to {largest[bad[0]]:.3g}, which float32 cannot hold. "
            "Use dtype=float64, or normalize the kernels."
        )


def read_only(array: Array) -> Array:
    """Return a read-only view, against a second compilation of loops for writable arrays."""
    view = array.view()
    view.flags.writeable = False
    return view


# --- arguments of Gram stacks --------------------------------------------------------------------------------------


def check_vector(values: Any, size: int | None, name: str) -> Array:
    """Return ``values`` as a finite, contiguous float64 vector of ``size`` entries, of any number for None."""
    array = np.ascontiguousarray(real_array(values, name), dtype=np.float64)
    if not array.flags.writeable:
        array = array.copy()  # compiled loops would be compiled a second time for read-only arrays
    shape = np.shape(values)
    if size is None and len(shape) != 1:
        raise InvalidInputError(f"{name} must be one-dimensional, got shape {shape}.")
    if size is not None and shape != (size,):
        raise InvalidInputError(f"{name} must have shape ({size},), got {shape}.")
    return check_finite(array, name)


def check_columns(values: object, n_samples: int, name: str) -> Array:
    """Return ``values`` as a finite float64 array of shape (n_samples,) or (n_samples, k)."""
    array = real_array(values, name).astype(np.float64, copy=False)
    if not array.flags.writeable:
        array = array.copy()  # as vectors are
    if array.ndim not in (1, 2) or array.shape[0] != n_samples:
        raise InvalidInputError(f"{name} must have shape ({n_samples},) or ({n_samples}, k), got {array.shape}.")
    return check_finite(array, name)


def check_indices(index: object, size: int, name: str) -> Array:
    """Return ``index`` (None for all, a slice, integers or a boolean mask) as int64 positions in ``range(size)``."""
    if index is None:
        return np.arange(size)
    return np.arange(size)[index] if isinstance(index, slice) else _index_array(np.asarray(index), size, name)


def check_some_indices(index: object, size: int, name: str) -> Array:
    """Return `check_indices`, or raise ``InvalidInputError`` where it is empty."""
    chosen = check_indices(index, size, name)
    if len(chosen) == 0:
        raise InvalidInputError(f"No {name} chosen; choose at least one of the {size}.")
    return chosen


def _index_array(array: Array, size: int, name: str) -> Array:
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "biu":
        raise InvalidInputError(
            f"{name} must be a slice, a one-dimensional array of positions or a boolean mask, "
            f"got shape {array.shape} of dtype {array.dtype}."
        )
    if array.dtype.kind == "b":
        if len(array) != size:
            raise InvalidInputError(f"The mask of {name} must have {size} entries, got {len(array)}.")
        return np.flatnonzero(array)
    if array.min() >= 0 and array.max() < size:
        return array.astype(np.int64)
    outside = (array < -size) | (array >= size)
    if outside.any():
        raise InvalidInputError(f"{name} has position {array[outside][0]}, but positions go from 0 to {size - 1}.")
    return np.where(array < 0, array + size, array).astype(np.int64)


def check_names(names: Any, n_kernels: int) -> tuple[str, ...] | None:
    """Return kernel names as a tuple of ``n_kernels`` different strings, or None."""
    if names is None:
        return None
    chosen = tuple(map(str, names))
    if len(chosen) != n_kernels:
        raise InvalidInputError(f"names must hold one name for each of the {n_kernels} kernels, got {len(chosen)}.")
    repeated = sorted({name for name in chosen if chosen.count(name) > 1}) if len(set(chosen)) < n_kernels else []
    if repeated:
        raise InvalidInputError(f"Kernel names must differ, but {repeated[:5]} appear more than once.")
    return chosen


# --- arguments of problems -----------------------------------------------------------------------------------------


def check_positive_vector(values: object, size: int, name: str) -> Array:
    """Return ``values`` as a float64 vector of ``size`` finite positive entries."""
    array = check_vector(values, size, name)
    if not np.all(array > 0):
        worst = int(np.argmin(array))
        raise InvalidInputError(
            f"{name} must be positive, but entry {worst} is {array[worst]:.6g}. Leave out what should not count."
        )
    return array


def check_count(value: object, name: str, *, least: int = 1, most: int | None = None) -> int:
    """Return ``value`` as an int if an integer of at least ``least``, else raise ``InvalidInputError``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) < least:
        raise InvalidInputError(f"{name} must be an integer of at least {least}, got {value!r}.")
    if most is not None and int(value) > most:
        raise InvalidInputError(f"{name} must be at most {most}, got {value!r}.")
    return int(value)


def check_nonnegative_vector(values: object, size: int | None, name: str) -> Array:
    """Return ``values`` as a float64 vector of ``size`` (None: any number of) finite non-negative entries."""
    array = check_vector(values, size, name)
    if (array < 0).any():
        worst = int(np.argmin(array))
        raise InvalidInputError(f"{name} must not be negative, but entry {worst} is {array[worst]:.6g}.")
    return array


# --- arguments of searches for kernels ------------------------------------------------------------------------------


def check_symmetric_matrix(values: object, name: str) -> Array:
    """Return ``values`` as a finite, square, symmetric float64 matrix."""
    array = real_array(values, name).astype(np.float64, copy=False)
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise InvalidInputError(f"{name} must be a square matrix, got shape {array.shape}.")
    check_finite(array, name)
    gap = float(np.max(np.abs(array - array.T), initial=0.0))
    if gap > 1e-10 * float(np.max(np.abs(array), initial=0.0)):
        raise InvalidInputError(f"{name} must be symmetric, but entries differ from their mirror image by {gap:.3g}.")
    return array


def check_parameter_range(
    values: object, name: str, check_low: Callable[..., float] = check_positive
) -> tuple[float, float]:
    """Return the ends ``low < high`` of a range of parameters, the lower one by its own check."""
    if not isinstance(values, (tuple, list)) or len(values) != 2:
        raise InvalidInputError(f"{name} needs a range (low, high), got {values!r}.")
    low = check_low(values[0], f"low of {name}")
    high = check_positive(values[1], f"high of {name}")
    if low >= high:
        raise InvalidInputError(f"{name} needs low < high, got low={low:g} and high={high:g}.")
    return low, high


# --- arguments of alignment ----------------------------------------------------------------------------------------


def check_choice(value: object, choices: Collection[str], name: str) -> str:
    """Return ``value`` if among ``choices``, else raise an error with the choices."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidInputError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")
    return value


def check_growth(value: ArrayLike, n_columns: int) -> Array:
    """Return the ratios of penalties from a node to its children, (n_columns,), at least 1, or say what is wrong."""
    if np.ndim(value) == 0:
        growth = np.full(n_columns, check_positive(value, "growth"))
    else:
        growth = check_vector(value, n_columns, "growth")
    if (growth < 1).any():
        raise InvalidInputError(
            f"growth must be at least 1, got {growth.min():g}: below 1 the search would have to visit all "
            f"interactions. Values from 2 to 4 are usual."
        )
    return growth


def check_points(values: ArrayLike, name: str = "points") -> Array:
    """Return ``values`` as a finite, contiguous float64 table of at least one row and a single column."""
    array = np.ascontiguousarray(real_array(values, name), dtype=np.float64)
    if array.ndim != 2 or not array.size:
        raise InvalidInputError(
            f"{name} must have shape (n_samples, n_columns) with at least one of each, got {np.shape(values)}."
        )
    return check_finite(array, name)
