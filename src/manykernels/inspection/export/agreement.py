"""Differences between a written file and the model, measured by running the file."""

import importlib.util
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator

from manykernels.exceptions import InvalidInputError
from manykernels.inspection.export import evaluate
from manykernels.inspection.export.card import card_scores
from manykernels.inspection.export.columns import MOST_DAYS, Columns
from manykernels.inspection.export.curves import FAR, ROUNDING, SAFETY, SENTINELS
from manykernels.inspection.export.onnx import input_names, takes_array
from manykernels.inspection.export.points import probes
from manykernels.inspection.export.program import OTHER, Program
from manykernels.inspection.export.sql import quote_name
from manykernels.kernels.tables.encoding import plain
from manykernels.validation.arrays import Array

NEAR, WIDE, AT_POINTS = 150, 60, 40  # rows of values of fit, of the whole ranges, and near points of each kernel
MOST_VALUES = 60  # edges or levels of a column that are tried

Values = dict[int, list[Any]]  # of columns by their place in the table of fit


@dataclass(frozen=True, eq=False)
class Trial:
    """Rows in the form of exported programs, with the scores of the model."""

    rows: dict[str, list[Any]]
    beyond: Array  # (n,) bool: whether a value is far beyond its range
    scores: Array  # (n, K)

    @property
    def spread(self) -> float:
        """Variation of scores within the ranges."""
        near = self.scores[~self.beyond]
        return float(np.nanmax(near, initial=-np.inf) - np.nanmin(near, initial=np.inf)) if near.size else 0.0


@dataclass(frozen=True)
class Agreement:
    """Largest score differences between a file and the model, plus a tenth, and the name of the runner."""

    error: float
    beyond: float
    by: str
    n_rows: int


def agreement(ending: str, content: bytes | str, program: Program, trial: Trial, table: str) -> Agreement:
    """Run a file on the rows of a trial and compare."""
    n = len(trial.scores)
    if not n:
        return Agreement(0.0, 0.0, "no rows: the scores are constant", 0)
    if ending == ".csv":
        found, by = card_scores(program, trial.rows), "Python"
        known = ~np.isnan(found).any(axis=1)  # ranges without a line have no score
    else:
        run = {".py": _run_python, ".onnx": _run_onnx, ".sql": _run_sql}[ending]
        found, by = run(content, program, trial.rows, table)
        known = np.ones(n, dtype=bool)
    with np.errstate(invalid="ignore"):
        differences = np.abs(found - trial.scores)
    both = np.isnan(found) & np.isnan(trial.scores)
    differences = np.where(both, 0.0, np.where(np.isnan(differences), np.inf, differences))
    far = differences - ROUNDING * np.abs(np.nan_to_num(trial.scores))
    near = differences[known & ~trial.beyond]
    outside = float(far[known & trial.beyond].max(initial=0.0))
    lost = 1e-3  # share of the spread of scores by which a file and a model differ where a period is no longer told
    if outside > lost * trial.spread and any(axis.period for part in program.parts for axis in part.axes):
        outside = max(outside, trial.spread)  # rounding of the number decides where it is in a period
    return Agreement(SAFETY * float(near.max(initial=0.0)), SAFETY * outside, by, n)


# --- rows -------------------------------------------------------------------------------------------------------------


def trial_rows(
    model: BaseEstimator, program: Program, columns: Columns, ranges: Mapping[str, tuple[float, float]]
) -> Trial:
    """Return test rows of every kind: like training rows, at edges, unseen levels, missing values, and extremes."""
    if not program.columns:
        return Trial({}, np.zeros(0, dtype=bool), np.zeros((0, len(program.intercept))))
    pools = _Pools(program, columns, ranges)
    near = [
        pools.draw_rows(NEAR),
        pools.draw_rows(WIDE, "ranges"),
        *pools.point_rows(),
        *pools.edge_rows(),
        *pools.levels(),
    ]
    near += [*pools.gaps(), *pools.large_integers(), *pools.caller_rows()]
    parts = [(part, False) for part in near] + [(part, True) for part in pools.far()]
    kept: list[tuple[Values, bool, Array]] = []
    parts = [({j: columns.representable(j, values) for j, values in part.items()}, far) for part, far in parts]
    for part, beyond in _merge(parts):
        try:
            kept.append((part, beyond, _scores(model, columns, part)))
        except InvalidInputError:  # of far values: numbers below zero that are no counts, or squares beyond float64
            if not beyond:
                raise
            for own in (each for each in pools.far("above") if any(each.values())):
                with suppress(InvalidInputError):
                    kept.append((own, beyond, _scores(model, columns, own)))
    rows = {columns.names[j]: [value for part, _, _ in kept for value in part[j]] for j in pools.positions}
    sizes = [len(scores) for _, _, scores in kept]
    marks = np.repeat([beyond for _, beyond, _ in kept], sizes)
    return Trial(rows, marks, np.vstack([scores for _, _, scores in kept]))


def _merge(parts: list[tuple[Values, bool]]) -> list[tuple[Values, bool]]:
    """Return the rows within ranges together, and the rows beyond, for few calls of the model."""
    merged = []
    for beyond in (False, True):
        own = [part for part, marked in parts if marked == beyond and any(part.values())]
        if own:
            merged.append(({j: [value for part in own for value in part[j]] for j in own[0]}, beyond))
    return merged


def _scores(model: Any, columns: Columns, part: Values) -> Array:
    """Return the scores of rows, before classes and exponentials."""
    frame = columns.frame(list(part), list(part.values()), units="rows")
    plain_numbers = not columns.named and all(dtype == np.float64 for dtype in frame.dtypes)
    return np.asarray(model._scores(frame.to_numpy() if plain_numbers else frame))


class _Pools:
    """Sample values of every column read by a program."""

    def __init__(self, program: Program, columns: Columns, ranges: Mapping[str, tuple[float, float]]) -> None:
        self.program, self.columns, self.ranges = program, columns, ranges
        self.positions = list(program.positions)
        self.rng = np.random.default_rng(0)
        self.known: dict[int, Array] = {}
        own = columns.table.positions
        for j in self.positions:
            if self.kind(j) != "levels":
                values = [columns.original_values(m, at.index(j)) for m, at in enumerate(own) if j in at]
                self.known[j] = np.unique(columns.restore_units(j, np.concatenate(values)))

    def kind(self, j: int) -> str:
        """Return "levels", "boolean" or "number"."""
        encoding = self.columns.encodings[j]
        return "levels" if encoding.read_as != "number" else "boolean" if encoding.kind == "boolean" else "number"

    def draw_rows(self, n: int, source: Literal["known", "ranges"] = "known") -> Values:
        """Return rows of independent values: half known numbers, or all between the ends of ranges."""
        return {j: self._values(j, n, source) for j in self.positions}

    def _values(self, j: int, n: int, source: str) -> list[Any]:
        if self.kind(j) == "levels":
            levels = self.columns.encodings[j].levels or (OTHER,)
            return [levels[at] for at in self.rng.integers(len(levels), size=n)]
        if self.kind(j) == "boolean":
            return self.rng.integers(2, size=n).astype(np.float64).tolist()
        known = self.known[j]
        low, high = float(known[0]), float(known[-1])
        if source == "ranges":
            low, high = self.ranges.get(self.columns.names[j], (low, high))
        values = self.rng.uniform(low, high, n) if high - low < np.inf else np.full(n, low)
        taken = (self.rng.random(n) < 0.5) & (source == "known")
        return np.where(taken, self.rng.choice(known, n), values).tolist()

    def _restore_values(self, j: int, values: Any) -> Any:
        """Return values of a column as rows have them."""
        if self.columns.encodings[j].tails is None:
            return values
        return self.columns.restore_units(j, np.array(values, dtype=np.float64)).tolist()

    def _replace_column(self, j: int, values: list[Any]) -> Values:
        """Return rows with the values of a single column."""
        return self.draw_rows(len(values)) | {j: values}

    def point_rows(self) -> list[Values]:
        """Return rows near the points of kernels of several columns."""
        found = []
        for m, positions in enumerate(self.columns.table.positions):
            if len(positions) > 1 and self.columns.table.specs[m].family != "missing":
                points = self.columns.points(m)
                values = probes(self.columns, m, points, AT_POINTS)
                values = [self._restore_values(j, own) for j, own in zip(positions, values, strict=True)]
                found.append(self.draw_rows(AT_POINTS) | dict(zip(positions, values, strict=True)))
        return found

    def edge_rows(self) -> list[Values]:
        """Return rows at both sides of steps and of edges of pieces, and at equal numbers."""
        found = []
        for axis in (axis for term in self.program.terms for axis in term.axes):
            if axis.kind not in ("steps", "numbers") and not axis.edges:
                continue
            edges = np.array(axis.edges or axis.levels)
            edges = self.columns.restore_units(axis.position, self.rng.permutation(edges)[:MOST_VALUES])
            below, at = np.nextafter(edges, -np.inf), edges
            if axis.unit:  # databases write days with 15 digits: a second beside each edge is as near as they tell
                below, at = edges - 1 / 86_400, edges + 1 / 86_400
            found.append(self._replace_column(axis.position, [*at.tolist(), *below.tolist()]))
        return found

    def levels(self) -> list[Values]:
        """Return rows with every category, and an unseen level."""
        categories = [j for j in self.positions if self.kind(j) == "levels"]
        found = []
        for j in categories:
            levels = [plain(level) for level in self.columns.encodings[j].levels]
            texts = any(isinstance(level, str) for level in levels)
            found.append(
                self._replace_column(
                    j, [*levels[:MOST_VALUES], "none of these" if texts else max(levels, default=0) + 1]
                )
            )
        return found

    def gaps(self) -> list[Values]:
        """Return rows with a missing value, if the model accepts missing values."""
        if not self.columns.masks:
            return []
        gap = {j: None if self.kind(j) == "levels" else np.nan for j in self.positions}
        return [*(self._replace_column(j, [gap[j]] * 3) for j in self.positions), {j: [gap[j]] for j in self.positions}]

    def large_integers(self) -> list[Values]:
        """Return rows with integers beyond exact floats, for integer columns."""
        found = []
        exact_integers = 2**53  # from here on floats skip integers
        for j in self.positions:
            if self.kind(j) == "number" and not self.program.units.get(self.columns.names[j]):
                large = self.known[j][(np.abs(self.known[j]) >= exact_integers) & (np.abs(self.known[j]) < 2**62)]
                if len(large):
                    chosen = self.rng.choice(large, MOST_VALUES)
                    near = zip(chosen.tolist(), self.rng.integers(-300, 300, MOST_VALUES).tolist(), strict=True)
                    found.append(self._replace_column(j, [int(value) + step for value, step in near]))
        return found

    def caller_rows(self) -> list[Values]:
        """Return some of the rows of the caller."""
        rows = self.columns.rows
        if rows is None:
            return []
        most_given = 200  # rows of the caller
        chosen = self.rng.permutation(len(rows))[:most_given]
        found = {}
        for j in self.positions:
            column = rows.iloc[chosen, j]
            encoding = self.columns.encodings[j]
            known = column.isna().to_numpy(dtype=bool)
            if self.kind(j) == "levels":
                found[j] = [None if gap else plain(v) for v, gap in zip(column, known, strict=True)]
            else:
                found[j] = replace(encoding, tails=None).encode(column).tolist()
        whole = [all(value == value for value in row) for row in zip(*found.values(), strict=True)]
        if self.columns.masks:
            return [found]
        return [{j: [value for value, kept in zip(values, whole, strict=True) if kept] for j, values in found.items()}]

    def far(self, sides: Literal["both", "above"] = "both") -> list[Values]:
        """Return rows with a single number far outside the range."""
        found = []
        for j in self.positions:
            if self.kind(j) != "number":
                continue
            name = self.columns.names[j]
            low, high = self.ranges.get(name, (float(self.known[j][0]), float(self.known[j][-1])))
            reach = high - low or 1.0
            values = [*(low - share * reach for share in FAR), *(high + share * reach for share in FAR), *SENTINELS]
            most = MOST_DAYS if self.program.units.get(name) else np.inf
            found.append(
                self._replace_column(
                    j, [v for v in values if (v > high or (v < low and sides == "both")) and abs(v) <= most]
                )
            )
        return found


# --- what runs files --------------------------------------------------------------------------------------------------


def _run_python(content: Any, program: Program, rows: dict[str, list[Any]], table: str) -> tuple[Array, str]:
    """Run a Python module."""
    module: dict[str, Any] = {}
    exec(compile(content, "exported model", "exec"), module)
    return np.asarray(module["scores"](rows)), "Python"


def _run_numpy(program: Program, rows: dict[str, list[Any]], why: str) -> tuple[Array, str]:
    """Run the program stated by a file."""
    return np.asarray(evaluate.scores(program.plain(), rows)), f"NumPy, since {why}"


def _run_onnx(content: Any, program: Program, rows: dict[str, list[Any]], table: str) -> tuple[Array, str]:
    """Run a graph by onnxruntime, if installed."""
    if importlib.util.find_spec("onnxruntime") is None:
        return _run_numpy(program, rows, "onnxruntime is not installed")
    runtime: Any = importlib.import_module("onnxruntime")
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    n = len(next(iter(rows.values())))
    if takes_array(program):
        array = np.zeros((n, len(program.features)))
        for name, position in zip(program.columns, program.positions, strict=True):
            array[:, position] = evaluate.as_numbers(rows[name])
        return session.run(["scores"], {"X": array})[0], "onnxruntime"
    names, feed = input_names(program), {}
    kinds = {given.name: given.type for given in session.get_inputs()}
    for column, given in names.items():
        if kinds[given] == "tensor(string)":
            texts = ["" if evaluate.is_missing(value) else evaluate.as_text(value) for value in rows[column]]
            feed[given] = np.array(texts, dtype=object)[:, None]
        else:
            feed[given] = evaluate.as_numbers(rows[column])[:, None]
    return session.run(["scores"], feed)[0], "onnxruntime"


def _run_sql(content: Any, program: Program, rows: dict[str, list[Any]], table: str) -> tuple[Array, str]:
    """Run a statement by sqlite3, or by DuckDB if sqlite3 joins too few tables."""
    names, columns = list(rows), [[_adapt_value(value) for value in values] for values in rows.values()]
    number = "row number"
    while number.casefold() in {name.casefold() for name in names}:
        number += "_"
    numbered = list(zip(range(len(columns[0])), *columns, strict=True))
    first = len(names) + 1  # column of the scores
    with sqlite3.connect(":memory:") as base:
        base.create_function("exp", 1, _exponential)  # which not every SQLite has
        fields = ", ".join(quote_name(name) for name in (number, *names))
        base.execute(f"CREATE TABLE {quote_name(table)} ({fields})")
        base.executemany(f"INSERT INTO {quote_name(table)} VALUES ({', '.join('?' * first)})", numbered)
        try:
            found = base.execute(content).fetchall()
        except sqlite3.OperationalError as error:
            if "join" not in str(error) and "too " not in str(error):
                raise
            return _run_numpy(program, rows, f"SQLite has {error}")
    ordered = sorted(found, key=lambda row: row[0])
    scores = [row[first : first + len(program.intercept)] for row in ordered]
    return np.array(scores, dtype=np.float64), f"SQLite {sqlite3.sqlite_version}"


def _exponential(value: float | None) -> float | None:
    return None if value is None else float(np.exp(min(value, 709.0)))


def _adapt_value(value: object) -> Any:
    """Return a value in the form of databases."""
    return None if evaluate.is_missing(value) else value
