"""Features and target of a table, and the settings of a task."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

from manykernels.cli.tables import (
    check_columns,
    date_orders,
    identifiers,
    quote_names,
    text_identifiers,
    usable_features,
)
from manykernels.exceptions import InvalidInputError
from manykernels.kernels.tables.kinds import numbers_as_text
from manykernels.objective import survival_array
from manykernels.objective.losses.survival import check_event_name
from manykernels.validation.arrays import MOST_CLASSES, Array, are_labels, are_whole
from manykernels.validation.parameters import listed

SURVIVAL = "survival"
UNNAMED = "Unnamed: 0"  # the name that pandas gives to a first column without one
TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True, eq=False)
class LabeledTable:
    """Rows to learn from."""

    features: pd.DataFrame
    target: Array
    task: str
    reason: str
    notes: tuple[str, ...]
    groups: Array | None = None
    levels: tuple[str, ...] | None = None
    orders: Mapping[str, str] = field(default_factory=dict)  # of dates such as 31/12/2024, by column

    def describe_target(self) -> str:
        """Return the classes with their counts, or range and mean, or how many events there are."""
        if self.task == SURVIVAL:
            n, events, times = len(self.target), int(self.target["event"].sum()), self.target["time"]
            text = (
                f"{events} events in {n} rows, {n - events} censored; times from {times.min():.4g} to {times.max():.4g}"
            )
            return text if self.levels is None else f"{text}; {len(self.levels)} strata"
        if np.ndim(self.target) == 2:
            means = np.nanmean(self.target, axis=0)
            word = "shares of ones" if self.task == "classification" else "means"
            return f"{len(means)} columns, {word} {listed([f'{mean:.4g}' for mean in means[:8]], len(means))}"
        if self.task == "regression":
            return f"{self.target.min():.4g} to {self.target.max():.4g}, mean {self.target.mean():.4g}"
        labels, counts = np.unique(self.target, return_counts=True)
        parts = [f"{label} ({count})" for label, count in zip(labels[:8], counts[:8], strict=True)]
        return listed(parts, len(labels))


def split_columns(
    frame: pd.DataFrame,
    target: str | Sequence[str],
    *,
    task: str = "auto",
    drop: Sequence[str] = (),
    ids: Sequence[str] = (),
    drop_missing: bool = False,
    groups: str | None = None,
    missing: str = "error",
    event: str | None = None,
    strata: str | None = None,
    read: Callable[[list[str]], Collection[str]] | None = None,
    orders: Mapping[str, str] | None = None,
) -> LabeledTable:
    """Return checked features and target of a table; features are the columns in ``read``, or all for None.

    Several columns of 0 and 1 are labels, of which some may be missing; others are numbers.
    """
    several = [target] if isinstance(target, str) else list(target)
    for option, names in {"time" if event else "target": several, "drop": drop, "id": ids}.items():
        check_columns(frame, names, f"--{option}")
    for option, name in {"groups": groups, "event": event, "strata": strata}.items():
        check_columns(frame, [name] if name else [], f"--{option}")
    left_out = list(dict.fromkeys([*drop, *ids, *([groups] if groups else [])]))
    targets = [*several, *(name for name in (event, strata) if name is not None)]
    if len(set(targets)) < len(targets) or set(targets) & set(left_out):
        raise InvalidInputError(f"The target {quote_names(targets)} cannot be left out, nor be two columns in one.")
    notes: list[str] = []
    labeled = len(several) > 1 and task != "regression" and all(map(_is_label, (frame[name] for name in several)))
    present = frame[targets].notna()
    known = present.any(axis=1) if labeled else present.all(axis=1)
    if not known.all():
        notes.append(f"{int((~known).sum())} of {len(frame)} rows have no {quote_names(targets)} and are left out.")
    frame = frame[known]
    features = frame.drop(columns=[*targets, *left_out])
    if UNNAMED in features and read is None and identifiers(features[[UNNAMED]]):
        features = features.drop(columns=UNNAMED)
        notes.append("The first column has no name and numbers the rows; it is left out. Name it to learn from it.")
    if read is not None:
        chosen_columns = read(list(features.columns))
        features = features[[name for name in features.columns if name in chosen_columns]]
    if drop_missing and (gaps := features.isna().any(axis=1)).any():
        notes.append(f"{int(gaps.sum())} of {len(features)} rows have missing values and are left out.")
        frame, features = frame[~gaps], features[~gaps]
    if len(frame) < 2:
        raise InvalidInputError(f"{len(frame)} row(s) are left to learn from; at least 2 are needed.")
    orders = {**date_orders(features), **(orders or {})}
    features = usable_features(features, missing, orders)
    notes += _notes_on_identifiers(features)
    levels = None if strata is None else tuple(sorted(set(_texts(frame[strata]))))
    if event is not None:
        check_event_name(event, "--event: the column")
        values = survival_of(frame, several[0], event, strata, levels)
        chosen, reason = SURVIVAL, "there are times and events"
    elif len(several) > 1:
        chosen, reason, values = _several(frame[several], task, labeled=labeled)
    else:
        chosen, reason = _task_of(frame[several[0]], several[0], task)
        values = _labels(frame[several[0]]) if chosen == "classification" else _numbers(frame[several[0]], several[0])
    together = frame[groups].astype(str).to_numpy(dtype=object) if groups else None
    return LabeledTable(features.reset_index(drop=True), values, chosen, reason, tuple(notes), together, levels, orders)


def _notes_on_identifiers(features: pd.DataFrame) -> list[str]:
    """Return notes on columns that number or name the rows."""
    notes = []
    counting = identifiers(features)
    if counting:
        options = " ".join(f"--id {name!r}" for name in counting)
        verb = "looks like a row number, not a feature" if len(counting) == 1 else "look like row numbers, not features"
        notes.append(f"{quote_names(counting)} {verb}. To leave out: {options}")
    if naming := text_identifiers(features):
        options = " ".join(f"--id {name!r}" for name in naming)
        verb = "names rows: most of its texts occur" if len(naming) == 1 else "name rows: most of their texts occur"
        notes.append(f"{quote_names(naming)} {verb} once. To leave out: {options}")
    return notes


def _task_of(column: pd.Series, name: str, task: str) -> tuple[str, str]:
    if task != "auto":
        return task, "as asked for"
    if is_bool_dtype(column.dtype) or not is_numeric_dtype(column.dtype):
        if found := numbers_as_text(column):
            raise InvalidInputError(
                f"The target {name!r} is numbers that are written as text ({found}). Write them as plain numbers, "
                "1234.5, and leave missing values empty, or use --task classification to read them as classes."
            )
        return "classification", f"{name!r} is not numeric"
    n_values = column.nunique()
    if not are_labels(np.asarray(column, dtype=np.float64)):
        return "regression", f"{name!r} has {n_values} distinct numeric values"
    return "classification", f"{name!r} has {n_values} distinct {'values' if n_values == 2 else 'whole values'}"


def _is_label(column: pd.Series) -> bool:
    """Return True for a column of 0 and 1, or of truth values, and gaps."""
    return set(column.dropna().unique()) <= {0, 1}


def _several(frame: pd.DataFrame, task: str, *, labeled: bool) -> tuple[str, str, Array]:
    """Return the task of several targets, the reason, and the values."""
    if labeled:
        return "classification", "all targets are 0 or 1", frame.astype(object).to_numpy(dtype=np.float64)
    if task == "classification":
        other = next(str(name) for name in frame if not _is_label(frame[name]))
        raise InvalidInputError(
            f"Several targets of a classification are labels, 0 or 1 in each column, but {other!r} holds other values. "
            "Fit a model for each column of classes."
        )
    values = np.column_stack([_numbers(frame[name], str(name)) for name in frame])
    return "regression", "several targets are numbers", values


def _labels(column: pd.Series) -> Array:
    if is_complex_dtype(column.dtype):
        raise InvalidInputError("The target holds complex numbers.")
    if is_bool_dtype(column.dtype):
        return np.asarray(column, dtype=bool)
    if is_numeric_dtype(column.dtype):
        values = np.asarray(column, dtype=np.float64)
        # A column of whole numbers becomes float where a value is missing.
        if are_whole(values):
            return values.astype(np.int64) if np.abs(values).max() < 2**53 else values
        if np.isfinite(values).all() and column.nunique() <= MOST_CLASSES:  # a classifier takes other numbers as names
            return np.asarray(column.astype(str), dtype=object)
        return values
    labels = np.asarray(column.astype(str), dtype=object)
    if len(labels) > 10 and len(set(labels)) == len(labels):
        raise InvalidInputError(f"The target has a different text in each row, such as {labels[0]!r}; choose another.")
    return labels


def _numbers(column: pd.Series, name: str) -> Array:
    if not is_numeric_dtype(column.dtype) or is_complex_dtype(column.dtype):
        raise InvalidInputError(f"Regression needs a numeric target, but {name!r} holds {str(column.iloc[0])!r}.")
    values = np.asarray(column, dtype=np.float64)
    if not np.isfinite(values).all():
        raise InvalidInputError(f"The target {name!r} has infinite values; correct or remove those rows.")
    return values


def survival_of(
    frame: pd.DataFrame, time: str, event: str, strata: str | None = None, levels: Sequence[str] | None = None
) -> Array:
    """Return times and events as the target of a survival model."""
    if not is_numeric_dtype(frame[time].dtype) or is_bool_dtype(frame[time].dtype):
        raise InvalidInputError(f"--time must be a column of numbers, but {time!r} holds {str(frame[time].iloc[0])!r}.")
    numbers = None if strata is None else strata_of(frame, strata, levels or ())
    return survival_array(_truths(frame[event], event), np.asarray(frame[time], dtype=np.float64), numbers)


def strata_of(frame: pd.DataFrame, name: str, levels: Sequence[str]) -> Array:
    """Return the numbers of the strata of rows, (n,)."""
    labels = _texts(frame[name])
    unknown = sorted(set(labels) - set(levels))
    if unknown:
        raise InvalidInputError(
            f"{int((~labels.isin(levels)).sum())} of {len(frame)} rows are of strata that were not there in fit: "
            f"{name!r} holds {quote_names(unknown)}, and there was {quote_names(levels)}."
        )
    return labels.map({level: number for number, level in enumerate(levels)}).to_numpy(dtype=np.int64)


def _texts(column: pd.Series) -> pd.Series:
    """Return labels as text: whole floats without a decimal point, missing values as the empty text."""
    numbers = is_numeric_dtype(column.dtype) and not is_bool_dtype(column.dtype)
    texts = column.astype(np.float64).map("{:.15g}".format) if numbers else column.astype(str)
    return texts.where(column.notna(), "")


def _truths(column: pd.Series, name: str) -> Array:
    """Return a boolean per event."""
    numbers = is_numeric_dtype(column.dtype) and not is_bool_dtype(column.dtype)
    texts = (column.astype(np.float64).map("{:g}".format) if numbers else column.astype(str)).str.strip().str.lower()
    unknown = sorted(set(texts) - set(TRUTHS))
    if unknown:
        raise InvalidInputError(
            f"--event must be a column of true or false, yes or no, 1 or 0 (event observed or not); "
            f"{name!r} holds {quote_names(unknown)}."
        )
    return texts.map(TRUTHS).to_numpy(dtype=bool)
