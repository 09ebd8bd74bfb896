"""The kernels of a fitted estimator as one table, in the order of the bank, for one target or the mean of all."""

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, is_classifier

from manykernels.exceptions import InvalidInputError

SEVERAL = {"class": "classes", "label": "labels", "output": "outputs"}
VALUES = ["weight", "norm", "norm_share"]


def target_column(frame: pd.DataFrame) -> str | None:
    """Return the name of the column of classes or outputs of a model with several."""
    return next((name for name in SEVERAL if name in frame.columns), None)


def kernel_table(estimator: BaseEstimator, target: Hashable = None) -> pd.DataFrame:
    """Return name, kernel, columns, weight, norm and share of every kernel."""
    frame = estimator.weights_frame(active_only=False)
    column = target_column(frame)
    at = None if target is None else target_position(estimator, target)
    if column is None:  # a single target, or all have the same weights
        return frame.set_index("name").loc[list(estimator.kernel_names_)].reset_index()
    if at is not None:
        frame = frame[frame[column] == target_names(estimator)[at]]
    grouped = frame.drop(columns=column).groupby("name", sort=False)
    table = grouped[["kernel", "columns"]].first().join(grouped[VALUES].mean())
    return table.loc[list(estimator.kernel_names_)].reset_index()


def target_names(estimator: BaseEstimator) -> list[Any]:
    """Return the names of the classes or outputs of a model with several; else an empty list."""
    return np.asarray(estimator._target_labels()).tolist() if np.ndim(estimator.intercept_) else []


def target_position(estimator: BaseEstimator, target: Any) -> int:
    """Return the position of a target among several; named outputs also accept a number."""
    known = target_names(estimator)
    if not known:
        raise InvalidInputError(f"The model has a single target; leave out target={target!r}.")
    if target in known:
        return known.index(target)
    named = np.ndim(getattr(estimator, "classes_", 0)) != 1 and isinstance(known[0], str)
    if named and target in range(len(known)):
        return int(target)
    raise InvalidInputError(f"Choose one of several targets: target must be one of {known[:20]}, got {target!r}.")


def effect_of(estimator: BaseEstimator, target: Hashable = None) -> str:
    """Return the meaning of a positive score: the class name for a classifier."""
    if is_classifier(estimator):
        labels = np.asarray(estimator._target_labels()).tolist()
        label = labels[target_position(estimator, target)] if target_names(estimator) else labels[1]
        return f"towards {label!r}"
    if hasattr(estimator, "baseline_"):
        return "added to the log hazard"
    return "added to the score" + (f" of {target}" if target is not None else "")


def target_table(estimator: BaseEstimator, value: str) -> pd.DataFrame:
    """Return a single value of every kernel (rows, in the order of the bank) for every class or output (columns)."""
    frame = estimator.weights_frame(active_only=False)
    column = target_column(frame)
    if column is None:
        return frame.set_index("name")[[value]].loc[list(estimator.kernel_names_)]
    order = frame[column].drop_duplicates()
    table = frame.pivot(index="name", columns=column, values=value)
    return table.loc[list(estimator.kernel_names_), sorted(order, key=list(order).index)]


def place_and_kind(name: str, kernel: str, columns: str) -> tuple[str, str]:
    """Return the place and the kind of a kernel, the row and the column of a map of weights.

    Kernels of a grid are called ``"place: kernel"``; the name is stable, while learned widths differ from column to
    column.
    """
    place, separator, kind = name.rpartition(": ")
    if separator and kind:
        return place, kind
    return (columns, kernel) if columns else (name, kernel)


def places_and_kinds(estimator: BaseEstimator, table: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the columns and the kind of every kernel; a kernel of every column acts on ``"all"``."""
    all_columns = ", ".join(feature_names(estimator))
    pairs = [place_and_kind(*row) for row in table[["name", "kernel", "columns"]].itertuples(index=False)]
    return [("all" if place == all_columns and ", " in all_columns else place, kind) for place, kind in pairs]


def feature_names(estimator: BaseEstimator) -> list[str]:
    """Return the names of the columns of X."""
    names = getattr(estimator, "feature_names_in_", None)
    return [str(name) for name in names] if names is not None else [f"x{j}" for j in range(estimator.n_features_in_)]


def groups_of(estimator: BaseEstimator, table: pd.DataFrame, by: str) -> list[list[str]]:
    """Return, for every kernel, the names counted by ``by``: one, or one per column."""
    rows = list(table[["name", "kernel", "columns"]].itertuples(index=False))
    if by == "kernel":
        return [[name] for name, _, _ in rows]
    if by == "column":
        known = set(feature_names(estimator))
        parts = ([columns] if columns in known else list(columns_of(columns, known)) for _, _, columns in rows)
        return [part or [columns or name] for part, (name, _, columns) in zip(parts, rows, strict=True)]
    return [[pair[0 if by == "view" else 1]] for pair in places_and_kinds(estimator, table)]


def columns_of(label: str, known: set[str]) -> tuple[str, ...]:
    """Return the columns named by a label, or none; names may contain commas."""
    parts = label.split(", ")
    widest = 1 + max((name.count(", ") for name in known), default=0)
    ends: dict[int, int] = {
        len(parts): len(parts)
    }  # where the name that begins at a part ends, if the rest are names too
    for start in reversed(range(len(parts))):
        for end in range(start + 1, min(start + widest, len(parts)) + 1):
            if end in ends and ", ".join(parts[start:end]) in known:
                ends[start] = end
                break
    found, start = [], 0
    while start < len(parts):  # at most once a part
        if start not in ends:
            return ()
        found.append(", ".join(parts[start : ends[start]]))
        start = ends[start]
    return tuple(found)


def summed_by(values: pd.DataFrame, groups: list[list[str]]) -> pd.DataFrame:
    """Return the sums of the rows of every group, in the order met; a row of several groups is shared equally."""
    names = list(dict.fromkeys(name for group in groups for name in group))
    place = {name: number for number, name in enumerate(names)}
    sums, rows = np.zeros((len(names), values.shape[1])), values.to_numpy()
    for row, group in zip(rows, groups, strict=True):
        if row.any():
            np.add.at(sums, [place[name] for name in group], row / len(group))
    return pd.DataFrame(sums, index=pd.Index(names, name="name"), columns=values.columns)
