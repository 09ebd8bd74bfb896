"""Times and events in columns of a table: the target of survival models, and what is predicted of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from manykernels.cli.tables import quoted
from manykernels.estimators import survival_array
from manykernels.exceptions import InvalidInputError
from manykernels.validation.arrays import Array

TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def survival_of(frame: pd.DataFrame, time: str, event: str) -> Array:
    """Return times and events as the target of a survival model.

    Parameters
    ----------
    frame : DataFrame
        Without gaps in the two columns.
    time, event : str

    Returns
    -------
    ndarray of shape (n_samples,)
        Structured: was the event seen, and when, or until when it was not.

    Raises
    ------
    InvalidInputError
        If times are no numbers or negative, or events are not told by true or false, yes or no, 1 or 0.
    """
    if not is_numeric_dtype(frame[time].dtype) or is_bool_dtype(frame[time].dtype):
        raise InvalidInputError(f"--time must be a column of numbers, but {time!r} holds {str(frame[time].iloc[0])!r}.")
    return survival_array(_truths(frame[event], event), np.asarray(frame[time], dtype=np.float64))


def _truths(column: pd.Series, name: str) -> Array:
    """Return whether each event was seen."""
    numbers = is_numeric_dtype(column.dtype) and not is_bool_dtype(column.dtype)
    texts = (column.astype(np.float64).map("{:g}".format) if numbers else column.astype(str)).str.strip().str.lower()
    unknown = sorted(set(texts) - set(TRUTHS))
    if unknown:
        raise InvalidInputError(
            f"--event must be a column that says whether the event was seen, by true or false, yes or no, 1 or 0; "
            f"{name!r} holds {quoted(unknown)}."
        )
    return texts.map(TRUTHS).to_numpy(dtype=bool)


def describe_survival(target: Array) -> str:
    """Return how many events there are, and how long samples were watched."""
    n, events, times = len(target), int(target["event"].sum()), target["time"]
    return f"{events} events in {n} rows, {n - events} censored; times from {times.min():.4g} to {times.max():.4g}"


def survival_predictions(model: Any, rows: Any, times: Sequence[float]) -> pd.DataFrame:
    """Return risk scores, and the chances to have no event up to some times, a column each.

    Parameters
    ----------
    model : MKLSurvival
    rows : DataFrame or array
    times : sequence of float

    Returns
    -------
    DataFrame
    """
    found = pd.DataFrame({"risk": model.predict(rows)})
    if not times:
        return found
    if model.baseline_["stratum"].nunique() > 1:
        raise InvalidInputError("The model has strata, which --at cannot tell apart: use predict_survival_function.")
    curves = model.predict_survival_function(rows, list(times))
    return found.assign(**{f"survival_{time:g}": curves[:, k] for k, time in enumerate(times)})
