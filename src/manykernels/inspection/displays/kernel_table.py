"""The kernels of a fitted estimator as one table, in the order of the bank, for one target or the mean of all."""

from __future__ import annotations

from typing import Any

import pandas as pd

from manykernels.exceptions import InvalidInputError

TARGET_COLUMNS = ("class", "output")


def kernel_table(estimator: Any, target: Any = None) -> pd.DataFrame:
    """Return name, kernel, columns, weight, norm and share of every kernel."""
    frame = estimator.weights_frame(active_only=False)
    column = next((name for name in TARGET_COLUMNS if name in frame.columns), None)
    if column is None:
        if target is not None:
            raise InvalidInputError(f"The model has a single target; leave out target={target!r}.")
        return frame.set_index("name").loc[list(estimator.kernel_names_)].reset_index()
    if target is not None:
        known = frame[column].unique().tolist()
        if target not in known:
            raise InvalidInputError(f"Unknown target {target!r}; the model has {known[:20]}.")
        frame = frame[frame[column] == target]
    grouped = frame.drop(columns=column).groupby("name", sort=False)
    means = grouped[["weight", "norm", "share"]].mean()
    table = grouped[["kernel", "columns"]].first().join(means)
    return table.loc[list(estimator.kernel_names_)].reset_index()


def place_and_kind(name: str, kernel: str, columns: str) -> tuple[str, str]:
    """Return where a kernel acts and what it is, the row and the column of a map of weights.

    Kernels of a grid are called ``"place: kernel"``; there the name says more than the kernel, whose widths may have
    been learned from the data and then differ from column to column.
    """
    place, separator, kind = name.rpartition(": ")
    if separator and kind:
        return place, kind
    return (columns, kernel) if columns else (name, kernel)
