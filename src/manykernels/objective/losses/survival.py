"""Targets of survival models: structured arrays of events and times, as scikit-survival has them."""

from __future__ import annotations

from numbers import Real

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from manykernels.exceptions import InvalidInputError
from manykernels.validation.arrays import Array

__all__ = ["check_survival", "survival_array"]

FIELDS = np.dtype([("event", np.bool_), ("time", np.float64), ("stratum", np.int64)])
HINT = (
    "Give a structured array of one field of booleans, or of 0 and 1 (was the event seen), and one of times, as "
    "scikit-survival has: "
    "survival_array(event, time) makes one."
)


def survival_array(event: ArrayLike, time: ArrayLike, strata: ArrayLike | None = None) -> Array:
    """Return events and times as one structured array, the target of survival models.

    Parameters
    ----------
    event : array-like of bool of shape (n_samples,)
        Whether the event was seen, as True and False or 1 and 0; False is censored.
    time : array-like of shape (n_samples,)
        How long until it was seen, or until when it was not: real numbers, not negative.
    strata : array-like of int of shape (n_samples,), default=None
        Numbers of strata, each with a baseline hazard and risk sets of its own.

    Returns
    -------
    ndarray of shape (n_samples,)
        With the fields "event", "time", and "stratum" if there are strata.

    Raises
    ------
    InvalidInputError
        If times are no durations (dates, complex, negative or not finite), events are not true or false, or lengths
        differ.

    Examples
    --------
    >>> survival_array([True, False], [3.0, 5.5])
    array([( True, 3. ), (False, 5.5)], dtype=[('event', '?'), ('time', '<f8')])
    """
    names = ["event", "time"] if strata is None else ["event", "time", "stratum"]
    checked = _checked(_booleans(event), _times(time), None if strata is None else _numbers(strata))
    return checked[names].astype([(name, FIELDS[name]) for name in names])


def check_survival(y: ArrayLike) -> Array:
    """Return a target as a structured array with the fields event, time and stratum, (n,)."""
    columns = _columns(y)
    strata = columns.pop("stratum", None)
    event = _event_among(columns)
    if len(columns) != 2 or event is None:
        fields = ", ".join(f"{name!r} of {values.dtype}" for name, values in columns.items())
        raise InvalidInputError(f"y has the fields {fields}, not one of booleans and one of times. {HINT}")
    time = next(name for name in columns if name != event)
    numbers = None if strata is None else _numbers(strata)
    return _checked(_booleans(columns[event]), _times(columns[time]), numbers)


def _event_among(columns: dict[str, Array]) -> str | None:
    """Return the one field of booleans or, if there is none, the one that holds nothing but 0 and 1."""
    booleans = [name for name, values in columns.items() if _are_booleans(values)]
    found = booleans or [name for name, values in columns.items() if _are_truths(values)]
    return found[0] if len(found) == 1 else None


def _are_booleans(values: Array) -> bool:
    """Return whether all are True or False, in an array of objects too."""
    return values.dtype.kind == "b" or (
        values.dtype.kind == "O" and all(isinstance(value, (bool, np.bool_)) for value in values)
    )


def _are_truths(values: Array) -> bool:
    """Return whether all are True, False, 1 or 0."""
    return _are_booleans(values) or (values.dtype.kind in "iuf" and bool(np.isin(values, (0, 1)).all()))


def _columns(y: ArrayLike) -> dict[str, Array]:
    """Return the fields of a target by name."""
    if isinstance(y, pd.DataFrame):
        return {str(name): y[name].to_numpy() for name in y.columns}
    if not isinstance(y, np.ndarray) or y.dtype.names is None or y.ndim != 1:
        shape = getattr(y, "shape", None)
        what = type(y).__name__ if shape is None else f"{type(y).__name__} of shape {shape}"
        raise InvalidInputError(f"y is a {what} without fields. {HINT}")
    return {name: y[name] for name in y.dtype.names}


def _checked(event: Array, time: Array, strata: Array | None) -> Array:
    """Return the three as one array."""
    lengths = {"event": len(event), "time": len(time)} | ({} if strata is None else {"strata": len(strata)})
    if len(set(lengths.values())) > 1:
        raise InvalidInputError(f"Lengths differ: {', '.join(f'{name} has {n}' for name, n in lengths.items())}.")
    found = np.zeros(len(time), dtype=FIELDS)
    found["event"], found["time"] = event, time
    if strata is not None:
        found["stratum"] = strata
    return found


def _booleans(event: ArrayLike) -> Array:
    """Return whether each event was seen, (n,) bool."""
    values = np.asarray(event)
    if values.ndim != 1 or not _are_truths(values):
        raise InvalidInputError("event must hold True (seen) or False (censored), one for each sample.")
    return values.astype(bool)


def _times(time: ArrayLike) -> Array:
    """Return durations as float64, (n,)."""
    values = np.asarray(time)
    if values.dtype.kind in "Mm":
        raise InvalidInputError(
            f"Times must be numbers, got {values.dtype}: subtract the date on which each sample's time begins and "
            "divide by a unit, such as (end - start) / np.timedelta64(1, 'D')."
        )
    durations = values.dtype.kind in "iuf" or (
        values.dtype.kind == "O" and all(isinstance(v, Real) and not isinstance(v, bool) for v in values.flat)
    )
    if not durations:
        raise InvalidInputError(f"Times must be real numbers, how long each sample was watched; got {_kind(values)}.")
    values = values.astype(np.float64)
    if values.ndim != 1:
        raise InvalidInputError(f"Times must be a vector, got shape {values.shape}.")
    bad = ~np.isfinite(values) | (values < 0)
    if bad.any():
        raise InvalidInputError(
            f"Times must be finite and not negative, but {int(bad.sum())} of {len(values)} are not, such as "
            f"{values[bad][:5].tolist()} (the first at index {int(np.argmax(bad))}). Correct or drop these samples."
        )
    return values


def _kind(values: Array) -> str:
    """Return what an array holds, in words."""
    if values.dtype.kind != "O":
        return str(values.dtype)
    other = next(v for v in values.flat if not isinstance(v, Real) or isinstance(v, bool))
    return f"{other!r}"


def _numbers(strata: ArrayLike | None) -> Array:
    values = np.asarray(strata)
    if values.ndim != 1 or values.dtype.kind not in "iub":
        raise InvalidInputError("strata must be whole numbers, one for each sample; number labels with np.unique.")
    return values.astype(np.int64)
