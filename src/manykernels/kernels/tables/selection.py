"""Which columns a selection means: names, positions, slices, masks, selectors, as in a ColumnTransformer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from manykernels.exceptions import InvalidInputError

Places = Mapping[Any, int]  # the position of every column by its name; None for an array


def select_columns(selection: Any, data: Any, places: Places | None) -> tuple[int, ...]:
    """Return the positions of a column selection, as scikit-learn's ColumnTransformer understands it."""
    if callable(selection):
        selection = selection(data)
    n_columns = int(data.shape[1])
    if selection is None:
        chosen = list(range(n_columns))
    elif isinstance(selection, slice):
        chosen = list(range(n_columns))[_positional(selection, places)]
    else:
        chosen = _listed(selection, n_columns, places)
    if not chosen:
        raise InvalidInputError(f"The column selection {selection!r} selects no column.")
    if len(set(chosen)) < len(chosen):
        raise InvalidInputError(f"The column selection {selection!r} names a column more than once.")
    return tuple(chosen)


def _listed(selection: Any, n_columns: int, places: Places | None) -> list[int]:
    items: list[Any] = [selection] if isinstance(selection, str) or np.ndim(selection) == 0 else list(selection)
    if items and all(isinstance(item, (bool, np.bool_)) for item in items):
        if len(items) != n_columns:
            raise InvalidInputError(f"The column mask has {len(items)} entries, but X has {n_columns} columns.")
        return [j for j, chosen in enumerate(items) if chosen]
    if all(isinstance(item, (int, np.integer)) and not isinstance(item, bool) for item in items):
        return [_position(int(item), n_columns) for item in items]
    return [_named(item, places) for item in items]


def _position(index: int, n_columns: int) -> int:
    if not -n_columns <= index < n_columns:
        raise InvalidInputError(f"Column position {index} is out of range: X has {n_columns} column(s).")
    return index % n_columns


def _named(name: Any, places: Places | None) -> int:
    if places is None:
        raise InvalidInputError(
            f"Column {name!r} is selected by name, but X is no DataFrame. Pass one or use positions."
        )
    if name not in places:
        raise InvalidInputError(f"Unknown column {name!r}; X has {some([str(column) for column in places])}.")
    return places[name]


def _positional(selection: slice, places: Places | None) -> slice:
    ends = (selection.start, selection.stop)
    if not any(isinstance(end, str) for end in ends):
        return selection
    start = None if ends[0] is None else _named(ends[0], places)
    # A slice of names includes its end, as in pandas.
    stop = None if ends[1] is None else _named(ends[1], places) + 1
    return slice(start, stop, selection.step)


def some(names: list[str]) -> str:
    """Return a few names of many, quoted."""
    shown = ", ".join(repr(name) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
