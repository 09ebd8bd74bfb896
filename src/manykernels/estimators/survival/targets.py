"""Targets of survival models: structured arrays of events and times, as scikit-survival has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from manykernels.exceptions import InvalidInputError
from manykernels.validation.arrays import Array

__all__ = ["check_survival", "survival_array"]

FIELDS = np.dtype([("event", np.bool_), ("time", np.float64), ("stratum", np.int64)])
HINT = (
    "Give a structured array of one field of booleans (was the event seen) and one of times, as scikit-survival has: "
    "survival_array(event, time) makes one."
)


def survival_array(event: Any, time: Any, strata: Any = None) -> Array:
    """Return events and times as one structured array, the target of survival models.

    Parameters
    ----------
    event : array-like of bool of shape (n_samples,)
        Whether the event was seen; False is censored.
    time : array-like of shape (n_samples,)
        When it was seen, or until when it was not; not negative.
    strata : array-like of int of shape (n_samples,), default=None
        Numbers of strata, each with a baseline hazard and risk sets of its own.

    Returns
    -------
    ndarray of shape (n_samples,)
        With the fields "event", "time", and "stratum" if there are strata.

    Raises
    ------
    InvalidInputError
        If times are negative or not finite, events are not boolean, or lengths differ.

    Examples
    --------
    >>> survival_array([True, False], [3.0, 5.5])
    array([( True, 3. ), (False, 5.5)], dtype=[('event', '?'), ('time', '<f8')])
    """
    names = ["event", "time"] if strata is None else ["event", "time", "stratum"]
    checked = _checked(_booleans(event), _times(time), None if strata is None else _numbers(strata))
    return checked[names].astype([(name, FIELDS[name]) for name in names])


def check_survival(y: Any) -> Array:
    """Return a target as a structured array with the fields event, time and stratum, (n,).

    Parameters
    ----------
    y : structured array of shape (n_samples,) or DataFrame
        One boolean and one numeric field or column, of any names; a field "stratum" of whole numbers may be there.

    Returns
    -------
    ndarray of shape (n_samples,)

    Raises
    ------
    InvalidInputError
        If it is anything else, or times are negative.
    """
    columns = _columns(y)
    strata = columns.pop("stratum", None)
    truths = [name for name, values in columns.items() if values.dtype.kind == "b"]
    numbers = [name for name, values in columns.items() if values.dtype.kind in "iuf"]
    if len(columns) != 2 or len(truths) != 1 or len(numbers) != 1:
        found = ", ".join(f"{name!r} of {values.dtype}" for name, values in columns.items())
        raise InvalidInputError(f"y has the fields {found}, not one of booleans and one of times. {HINT}")
    return _checked(columns[truths[0]], _times(columns[numbers[0]]), None if strata is None else _numbers(strata))


def _columns(y: Any) -> dict[str, Array]:
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


def _booleans(event: Any) -> Array:
    values = np.asarray(event)
    if values.ndim != 1 or (values.dtype.kind != "b" and not np.isin(values, (0, 1)).all()):
        raise InvalidInputError("event must hold True (seen) or False (censored), one for each sample.")
    return values.astype(bool)


def _times(time: Any) -> Array:
    try:
        values = np.asarray(time, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"Times must be numbers: {error}") from error
    if values.ndim != 1:
        raise InvalidInputError(f"Times must be a vector, got shape {values.shape}.")
    bad = ~np.isfinite(values) | (values < 0)
    if bad.any():
        raise InvalidInputError(
            f"Times must be finite and not negative, but {int(bad.sum())} of {len(values)} are not, such as "
            f"{values[bad][:5].tolist()} (the first at index {int(np.argmax(bad))}). Correct or drop these samples."
        )
    return values


def _numbers(strata: Any) -> Array:
    values = np.asarray(strata)
    if values.ndim != 1 or values.dtype.kind not in "iub":
        raise InvalidInputError("strata must be whole numbers, one for each sample; number labels with np.unique.")
    return values.astype(np.int64)
