"""The columns of a fitted model as read by exported programs: cell boundaries, and values to try."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from manykernels.exceptions import IncompatibleError
from manykernels.grams.factored.cells import grid_parts
from manykernels.grams.factored.prediction import CellFunction, FourierSeries, LandmarkFunction
from manykernels.inspection.export.program import Axis
from manykernels.kernels import FittedBank
from manykernels.kernels.bank.columns import NUMBERS
from manykernels.kernels.specs.categorical import UNSEEN
from manykernels.kernels.tables.tails import END_OF_TAILS, expand_tails
from manykernels.validation.arrays import Array

FEWEST_PIECES = 8
AT_ONCE = 2**22  # entries of a table of rows without names
UNITS = {"date": "days since 1970-01-01", "instant": "days since 1970-01-01", "duration": "days"}
MOST_DAYS = 100_000.0  # from 1970 that dates and durations of pandas reach
SIGN = np.uint64(2**63)  # bit of a float


class Columns:
    """The columns of the kernels of an expansion, and the kernels as functions.

    The model was fitted on a table with names if ``named``; ``rows`` have the occurring numbers.
    """

    def __init__(self, expansion: Any, names: list[str], *, named: bool, rows: pd.DataFrame | None) -> None:
        self.expansion, self.names, self.named, self.rows = expansion, names, named, rows
        self.bank: FittedBank = expansion.bank
        self.table = self.bank.table
        used = self.table.used.tolist()
        encodings = self.table.encodings or (NUMBERS,) * len(used)
        # Programs compress columns with heavy tails first: here, these are in the unit of compressed values.
        self.encodings = dict(zip(used, encodings, strict=True))
        self.masks = self.table.missing != "error"

    # --- how kernels read columns -----------------------------------------------------------------------------------

    def key(self, m: int) -> tuple[tuple[int, ...], tuple[Any, ...]]:
        """Return the columns of a kernel, and how it reads each: the kind of an axis, with edges or a period."""
        positions, spec = self.table.positions[m], self.table.specs[m]
        parts = {place: part for part, place in grid_parts(spec) or [] if hasattr(part, "edges")}
        kinds: list[Any] = []
        for place, column in enumerate(positions):
            encoding = self.encodings[column]
            if spec.family == "missing":
                kinds.append("missing")
            elif encoding.read_as != "number":
                kinds.append("levels")
            elif encoding.kind == "boolean":
                kinds.append("boolean")
            elif place in parts:
                kinds.append(("steps", *self.raw_edges(column, np.asarray(parts[place].edges)).tolist()))
            elif spec.kind == "overlap" or grid_parts(spec) is not None:
                kinds.append("numbers")
            elif spec.kind == "periodic" and len(positions) == 1:
                kinds.append(("period", float(spec.period * self.statistics(positions)[1][0])))
            else:
                kinds.append("pieces")
        return positions, tuple(kinds)

    def statistics(self, positions: Sequence[int]) -> tuple[Array, Array]:
        """Return the means and scales that standardize the columns."""
        at = np.searchsorted(self.table.used, positions)
        return self.table.column_means[at], self.table.column_scales[at]

    def raw(self, column: int, values: Array) -> Array:
        """Return standardized values of a column as given."""
        (mean,), (scale,) = self.statistics([column])
        return np.asarray(values * scale + mean)

    def raw_edges(self, column: int, edges: Array) -> Array:
        """Return the smallest raw numbers with standardized values at or above the edges, for identical comparisons."""
        (mean,), (scale,) = self.statistics([column])
        reach = 1e-9 * (np.abs(edges) * scale + np.abs(mean)) + np.finfo(np.float64).tiny
        low, high = (_ordered(edges * scale + mean + side * reach) for side in (-1.0, 1.0))
        while (high - low > 1).any():
            middle = low + (high - low) // np.uint64(2)
            reached = (_unorder(middle) - mean) / scale >= edges
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return _unorder(high)

    def restore_units(self, column: int, values: Array) -> Array:
        """Return numbers of a column as rows have them, of those in the unit of compressed values."""
        tails = self.encodings[column].tails
        return values if tails is None else expand_tails(values, *tails)

    def axis(self, members: Sequence[int], place: int, column: int, kind: Any) -> Axis:
        """Return the reading of a column by kernels."""
        encoding, name = self.encodings[column], self.names[column]
        unit, text = UNITS.get(encoding.kind, ""), any(isinstance(level, str) for level in encoding.levels)
        own = Axis(name, column, "levels", unit=unit, text=text, tails=encoding.tails)
        match kind:
            case "levels":
                return replace(own, levels=encoding.levels)
            case "missing":
                return own if encoding.read_as != "number" else replace(own, kind="numbers")
            case "boolean":
                return replace(own, kind="boolean")
            case "numbers":
                return self._equal_numbers(own, members, place)
            case ("steps", *edges):
                return replace(own, kind="steps", edges=tuple(edges))
            case ("period", length):
                low = float(self.raw(column, np.zeros(1))[0])
                return replace(own, kind="pieces", low=low, high=low + length, n_pieces=FEWEST_PIECES, period=True)
        low, high = self.range_of(members, place, column)
        reach = high - low or 1.0
        own = replace(own, kind="pieces", low=low, high=high, n_pieces=FEWEST_PIECES, positive=self.positive(members))
        return widened(own, reach)

    def positive(self, members: Sequence[int]) -> bool:
        """Return whether a kernel takes no numbers below zero."""
        return any(self.table.specs[m].kind == "chi_squared" for m in members)

    def range_of(self, members: Sequence[int], place: int, column: int) -> tuple[float, float]:
        """Return the smallest and largest known value of a column of numbers."""
        values = [self.original_values(m, place) for m in members]
        if self.rows is not None:
            given = self.encodings[column].encode(self.rows.iloc[:, column])
            values.append(given[np.isfinite(given)])
        numbers = np.concatenate(values)
        return (float(numbers.min()), float(numbers.max())) if len(numbers) else (0.0, 1.0)

    def _equal_numbers(self, axis: Axis, members: Sequence[int], place: int) -> Axis:
        """Return an axis of numbers , equal to a known number or not.

        If standardization merges several numbers, the cell spans the smallest to the largest.
        """
        known = [self.points(m)[:, place] for m in members]
        for part in self.expansion.parts:
            if part.kernel in members and isinstance(part.function, CellFunction):
                known.append(part.function.levels[place])
        levels = np.unique(np.concatenate(known))
        smallest = self.raw_edges(axis.position, levels)
        after = self.raw_edges(axis.position, np.nextafter(levels, np.inf))
        if (np.nextafter(smallest, np.inf) >= after).all():
            return replace(axis, kind="numbers", levels=tuple(smallest.tolist()))
        return replace(axis, kind="steps", edges=tuple(np.unique(np.concatenate([smallest, after])).tolist()))

    # --- points of kernels ------------------------------------------------------------------------------------------

    def original_values(self, m: int, place: int) -> Array:
        """Return the original values of a column that define the function of a kernel."""
        points = self.points(m)[:, place]
        points = points[points != UNSEEN]
        return self.raw(self.table.positions[m][place], points if len(points) else np.zeros(1))

    def points(self, m: int) -> Array:
        """Return the standardized points of a kernel, (r, d)."""
        positions = self.table.positions[m]
        spec = self.table.specs[m]
        if self.expansion.support is None:
            own = [part.function for part in self.expansion.parts if part.kernel == m]
            return np.vstack([np.zeros((0, len(positions))), *(_range_of(each, len(positions)) for each in own)])
        (g,) = [g for g, group in enumerate(self.bank.groups) if m in group.kernels]
        group, points = self.bank.groups[g], self.expansion.support.points(g)
        if not isinstance(points, np.ndarray):
            raise IncompatibleError("Models of sparse rows cannot be exported; fit on dense columns.")
        if group.family == "squared_distance":
            if spec.column_widths is not None:
                points = points * np.array(spec.column_widths)
            if len(positions) > 1:
                points = points + self.table.shifts[np.searchsorted(self.table.used, positions)]
        return points

    def raw_points(self, m: int, points: Array) -> list[Any]:
        """Return standardized points (r, d) as columns of values as given: categories as levels."""
        columns: list[Any] = []
        for column, values in zip(self.table.positions[m], points.T, strict=True):
            encoding = self.encodings[column]
            if encoding.read_as == "number":
                columns.append(self.raw(column, values))
                continue
            places = values * max(len(encoding.levels) - 1, 1) if encoding.kind == "ordered" else values
            columns.append([encoding.levels[round(place)] if place >= 0 else None for place in places.tolist()])
        return columns

    # --- kernels as functions ---------------------------------------------------------------------------------------

    def only(self, members: Sequence[int]) -> Any:
        """Return the expansion of some kernels."""
        bank, weights = self.bank.take(list(members)), self.expansion.weights[:, members]
        kept = {"bank": bank, "active": np.arange(len(members)), "n_kernels": len(members), "weights": weights}
        if self.expansion.support is not None:
            return replace(self.expansion, **kept, support=bank.narrow(self.expansion.support))
        place = {m: slot for slot, m in enumerate(members)}
        parts = [replace(part, kernel=place[part.kernel]) for part in self.expansion.parts if part.kernel in place]
        return replace(self.expansion, **kept, parts=tuple(parts))

    def function(self, members: Sequence[int], positions: Sequence[int]) -> Callable[[Sequence[Any]], Array]:
        """Return the sum of some kernels as a function of the columns, (n,) each, with values (n, K).

        The value is NaN for invalid rows: with a missing value, or a number below zero.
        """
        expansion = self.only(list(members))
        positive = self.positive(members)

        def values(columns: Sequence[Any]) -> Array:
            n, width = len(columns[0]), 1 if self.named else len(self.names)
            out, step = np.full((n, self.expansion.n_targets), np.nan), max(1, AT_ONCE // width)
            gaps = np.zeros(n, dtype=bool)
            if not self.masks:
                gaps = np.any([[value is None or value != value for value in column] for column in columns], axis=0)
            if positive:
                gaps |= np.any(np.array(columns, dtype=np.float64) < 0, axis=0)
            known = np.flatnonzero(~gaps)
            for start in range(0, len(known), step):
                at = known[start : start + step]
                out[at] = expansion.scores(self.frame(positions, [[column[i] for i in at] for column in columns]))
            return out

        return values

    def frame(
        self, positions: Sequence[int], columns: Sequence[Any], *, units: Literal["model", "rows"] = "model"
    ) -> pd.DataFrame:
        """Return columns as a table in the layout of fit; other columns are 0 or left out.

        Numbers of columns with heavy tails are compressed values unless in the ``units`` of the rows.
        """
        each = zip(positions, columns, strict=True)
        given = {j: self._typed(j, values, units) for j, values in each}
        if self.named:
            return pd.DataFrame({self.names[j]: values for j, values in given.items()})
        rows = pd.DataFrame(np.zeros((len(columns[0]) if len(columns) else 1, len(self.names))))
        for j, values in given.items():
            rows[j] = values
        return rows

    def representable(self, column: int, values: list[Any]) -> list[Any]:
        """Return values representable in the dtype of a column: dates and durations in steps of their unit."""
        encoding = self.encodings[column]
        return encoding.encode(encoding.decode(np.array(values))).tolist() if encoding.kind in UNITS else values

    def _typed(self, column: int, values: Any, units: str) -> Any:
        """Return values of a column in the type of training rows."""
        encoding = replace(self.encodings[column], tails=None) if units == "rows" else self.encodings[column]
        if encoding.read_as != "number" or any(type(value) is int for value in values):  # of which some are no floats
            return pd.Series(list(values), dtype=object)
        return encoding.decode(np.array([np.nan if value is None else value for value in values], dtype=np.float64))


def widened(axis: Axis, reach: float) -> Axis:
    """Return an axis of pieces extended on both sides, for dates within the limits of pandas."""
    low, high = axis.low - reach, axis.high + reach
    if axis.unit:
        low, high = max(low, min(axis.low, -MOST_DAYS)), min(high, max(axis.high, MOST_DAYS))
    if axis.positive:
        low = max(low, 0.0)
    if axis.tails is not None:
        low, high = max(low, -END_OF_TAILS), min(high, END_OF_TAILS)
    return replace(axis, low=low, high=high)


def _ordered(values: Array) -> Array:
    """Return an unsigned integer for every float, in the same order."""
    bits = np.asarray(values, dtype=np.float64).view(np.uint64)
    return np.where(bits & SIGN, ~bits, bits | SIGN)


def _unorder(integers: Array) -> Array:
    """Return the floats of ordered integers."""
    return np.where(integers & SIGN, integers & ~SIGN, ~integers).view(np.float64)


def _range_of(function: object, n_columns: int) -> Array:
    """Return points of a function of a factored model, (r, d): of a series, a third of the reach to every side."""
    if isinstance(function, LandmarkFunction):
        return np.asarray(function.landmarks)
    if isinstance(function, FourierSeries):
        return function.middle + function.reach / 3 * np.array([[-1.0], [1.0]])
    return np.zeros((0, n_columns))
