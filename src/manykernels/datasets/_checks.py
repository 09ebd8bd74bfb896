"""Argument checks of the generators; this package imports nothing of the rest of the library."""

from __future__ import annotations

import math
from numbers import Integral, Real


def check_count(value: object, name: str, least: int = 1) -> int:
    """Return ``value`` as an int of at least ``least``, else say what it was."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}.")
    return int(value)


def check_nonnegative(value: object, name: str) -> float:
    """Return ``value`` as a finite float of at least 0, else say what it was."""
    if isinstance(value, bool) or not isinstance(value, Real) or not (0 <= float(value) < math.inf):
        raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}.")
    return float(value)
