"""The only place that checks X, y, Gram arrays, weights and parameters; every message says what to do."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.exceptions import InvalidInputError

Array = NDArray[Any]


def check_positive(value: Any, name: str, *, allow_zero: bool = False, upper: float = np.inf) -> float:
    """Return ``value`` as a float if it is a finite positive number, else raise ``InvalidInputError``."""
    bound = "non-negative" if allow_zero else "positive"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidInputError(f"{name} must be a {bound} number, got {value!r}.")
    number = float(value)
    if not np.isfinite(number) or number < 0 or (number == 0 and not allow_zero) or number > upper:
        limit = "" if upper == np.inf else f" of at most {upper:g}"
        raise InvalidInputError(f"{name} must be a finite {bound} number{limit}, got {value!r}.")
    return number


def check_finite(array: Array, name: str) -> Array:
    """Return ``array`` if all its entries are finite, else say how many are not and where the first one is."""
    bad = ~np.isfinite(array)
    if bad.any():
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InvalidInputError(
            f"{name} contains {int(bad.sum())} NaN or infinite value(s), the first at index {first}. "
            "Impute or drop them before fitting."
        )
    return array
