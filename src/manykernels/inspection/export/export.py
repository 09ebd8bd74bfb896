"""The door: a fitted model to a file that other programs run, by the ending of its name; and the text of such files."""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.inspection.export import evaluate
from manykernels.inspection.export.evaluate import term_values
from manykernels.inspection.export.extraction import UNITS, program_of
from manykernels.inspection.export.onnx import as_onnx
from manykernels.inspection.export.program import OTHER, Axis, Program, Term, nodes_of
from manykernels.inspection.files import write_file
from manykernels.validation.arrays import Array, TableLike, check_positive

ENDINGS = {".onnx": "ONNX model", ".py": "Python module", ".sql": "SQL statement", ".csv": "card"}
WITH_POINTS = (".onnx", ".py")
MOST_JOINED = 62  # tables that SQLite joins beside that of the rows
CARD_TOL = 1e-3  # of curves that ranges will round anyway


@dataclass(frozen=True)
class Export:
    """What a file computes.

    Attributes
    ----------
    path : Path
    max_error : float
        By how much a score may differ from the model's within ``ranges``: the sum over curves of the largest
        difference at seven places of each piece, and a tenth more. Zero where nothing is interpolated. Of a card,
        which has points for ranges in place of curves, each line says its own.
    ranges : dict of str to (float, float)
        Of the columns that curves read. Beyond, a curve goes on as its linear kernels do, and else stays where it is.
    columns : tuple of str
        Columns that the file reads.
    """

    path: Path
    max_error: float
    ranges: dict[str, tuple[float, float]]
    columns: tuple[str, ...]


def export_model(
    model: BaseEstimator, path: str | Path, *, X: TableLike | None = None, tol: float = 1e-6, table: str = "data"
) -> Export:
    r"""Write a fitted model as a program that runs without this library.

    The functions of the kernels of each column, :math:`g_j(x) = \sum_m f_m(x)`, become cubic polynomials on pieces of
    equal length, as many as ``tol`` takes; functions of bins and categories become tables, exactly; those of two
    columns become polynomials on a grid, or keep the points of their kernels, as all kernels of more columns do.

    Parameters
    ----------
    model : fitted estimator
        Whose kernels act on columns: no precomputed kernels, pairs or sparse rows. Of a pipeline, its last step.
    path : str or Path
        What is written is in the ending: ``.onnx`` (a graph of double precision; needs the extra ``onnx``), ``.sql`` (a
        statement that SQLite and DuckDB run), ``.py`` (a module that needs NumPy alone), ``.csv`` (a card: points for
        ranges and categories). An older file is replaced once the new one is whole.
    X : DataFrame or array-like of shape (n_samples, n_features), default=None
        Rows whose range curves shall cover too; None: that of the points the model keeps, and as much to each side.
    tol : float, default=1e-6
        By how much curves may be missed together, as a share of what scores vary by. A card takes 1e-3 if that is more.
    table : str, default="data"
        Of SQL: the table of the rows, whose columns have the names that the model knows (``x0``, ``x1``, ... of an
        array).

    Returns
    -------
    Export
        The path, by how much scores may differ, in which ranges, and which columns are read.

    Raises
    ------
    InvalidInputError
        If the ending is none of these, or the file cannot be written.
    IncompatibleError
        If a kernel cannot be written so; the message says which, and what to do.
    ImportError
        For ``.onnx`` without the package onnx.

    Notes
    -----
    Dates are read as days since 1970-01-01, durations as days, booleans as 0 and 1. A category that training rows did
    not have adds what it adds in the model. A missing value is NULL in SQL, NaN, None or NA in Python, NaN or the empty
    text in ONNX; where the model takes none, the score is missing. SQLite joins at most 64 tables, and a statement has
    one a curve. Of several quantiles SQL gives the scores, which Python and ONNX put in order.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from manykernels import KernelBank, MKLRegressor
    >>> from manykernels.inspection import export_model
    >>> X = np.random.default_rng(0).uniform(-2, 2, (60, 2))
    >>> model = MKLRegressor(KernelBank.per_feature(widths=[1.0]), alpha=1e-3).fit(X, np.sin(X[:, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     told = export_model(model, f"{folder}/model.py")
    ...     program = {}
    ...     exec(told.path.read_text(), program)
    >>> bool(np.abs(program["predict"]({"x0": X[:, 0], "x1": X[:, 1]}) - model.predict(X)).max() <= told.max_error)
    True
    """
    check_is_fitted(model)
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise InvalidInputError(f"The ending of {str(path)!r} must say what to write: one of {', '.join(ENDINGS)}.")
    share = check_positive(tol, "tol")
    program = program_of(
        model, rows=X, tol=max(share, CARD_TOL) if ending == ".csv" else share, with_points=ending in WITH_POINTS
    )
    about = _about(model, program)
    if ending == ".onnx":
        content: bytes | str = as_onnx(program, about)
    elif ending == ".py":
        content = as_python(program, about)
    else:
        content = as_sql(program, about, table) if ending == ".sql" else as_card(program)
    written = write_file(path, content, ENDINGS[ending])
    return Export(written, program.error, _ranges(program), program.columns)


def _ranges(program: Program) -> dict[str, tuple[float, float]]:
    """Return the ranges that all curves of a column have."""
    ranges: dict[str, tuple[float, float]] = {}
    for axis in (axis for term in program.terms for axis in term.axes if axis.kind == "pieces"):
        low, high = ranges.get(axis.column, (axis.low, axis.high))
        ranges[axis.column] = max(low, axis.low), min(high, axis.high)
    return ranges


def _about(model: BaseEstimator, program: Program) -> list[str]:
    """Return what the head of a file says."""
    lines = [f"Scores of a {type(model).__name__}, exported by manykernels {version('manykernels')}.", ""]
    if program.error:
        lines.append(
            f"A score differs from the model's by at most {program.error:.2g} in these ranges, as was measured:"
        )
        lines += [f"  {column}: {low:.6g} to {high:.6g}" for column, (low, high) in _ranges(program).items()]
        lines.append("Beyond, a curve goes on as its linear kernels do, and else stays where it is.")
    lines += [f"Column {column!r} holds {unit}." for column, unit in program.units.items()]
    lines.append(f"Columns: {', '.join(program.columns) or 'none, the scores are constant'}.")
    return lines


CARD_BINS = 20  # of a column of numbers on a card
CARD_POINTS = 9  # of each bin that are looked at
MOST_LINES = 100_000  # of a card


def as_python(program: Program, about: Sequence[str]) -> str:
    """Return a module with ``scores(rows)``, ``predict(rows)`` and, where a model has them, ``probabilities(rows)``."""
    source = Path(evaluate.__file__).read_text(encoding="utf-8")
    code = source[source.index("import numpy as np\n") + len("import numpy as np\n") :]
    used = ["scores", "predict"] + (["probabilities"] if program.probabilities else [])
    if not program.probabilities:
        start = code.index("def probabilities")
        code = code[:start] + code[code.index("def predict") :]
    for name in used:
        code = code.replace(f"def {name}(model:", f"def _{name}(model:")
    code = code.replace("found = scores(model, rows)", "found = _scores(model, rows)")
    doors = [
        f"def {name}(rows: Mapping) -> np.ndarray:\n"
        f'    """Return what the model computes of rows: a DataFrame or a dictionary of columns by name."""\n'
        f"    return _{name}(MODEL, rows)\n"
        for name in used
    ]
    head = "\n".join(about).replace("\\", "\\\\").replace('"""', "'''")
    model = json.dumps(_without_nan(program.plain())).replace("\\", "\\\\").replace("'", "\\'")
    parts = [
        f'"""{head}\n"""\n\nimport json\nfrom collections.abc import Mapping, Sequence\n\nimport numpy as np\n',
        code.strip() + "\n",
        f"MODEL = json.loads('{model}')\n",
    ]
    return "\n\n".join([*parts, *doors])


def _without_nan(value: object) -> Any:
    """Return lists and numbers with None for what is no number, as JSON has it; arrays read it as NaN."""
    if isinstance(value, dict):
        return {name: _without_nan(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and value != value else value


# --- SQL -------------------------------------------------------------------------------------------------------------


def as_sql(program: Program, about: Sequence[str], table: str) -> str:
    """Return a statement that selects the columns of a table, the scores of its rows and what they predict.

    It reads as SQLite and DuckDB do, and uses ``exp`` only for probabilities and logarithmic links. The table has the
    columns by the names that the model knows; the program has no kernels of many columns.
    """
    names = [f"term_{number}" for number in range(1, len(program.terms) + 1)]
    tables, joins, dates = [], [], dict[str, str]()
    for number, column in enumerate((name for name, unit in program.units.items() if unit == UNITS["date"]), 1):
        tables.append(_days_of(number, column, table))
        joins.append(f"LEFT JOIN days_{number} ON days_{number}.given = rows_given.{_quoted(column)}")
        dates[column] = f"days_{number}.days"
    sums: list[list[str]] = [[repr(float(value))] for value in program.intercept]
    for name, term in zip(names, program.terms, strict=True):
        tables.append(_table_of(name, term))
        cell = f"({_cell(term.axes[0], dates)})"  # the place of a cell of several axes
        for axis in term.axes[1:]:
            cell = f"({cell} * {axis.n_cells} + ({_cell(axis, dates)}))"
        joins.append(f"LEFT JOIN {name} ON {name}.cell = {cell}")
        for k, parts in enumerate(sums):
            parts.append(_sum_of(name, term, k, dates))
    scores = [_quoted(name) for name in score_names(program)]
    lines = [f"-- {line}" for line in about]
    if dates:
        lines.append("-- Dates may also be of type DATE or TIMESTAMP, or text: 2024-01-31 or 2024-01-31 12:30:00.")
    if len(joins) > MOST_JOINED:
        lines.append(f"-- This joins {len(joins)} tables; SQLite joins 64 at most, DuckDB more.")
    if program.link == "sort":
        lines.append("-- The scores of the quantiles are not put in order.")
    if tables:
        lines.append("WITH\n" + ",\n".join(tables))
    columns = ", ".join(f"{'(' + ' + '.join(parts) + ')'} AS {name}" for parts, name in zip(sums, scores, strict=True))
    inner = f"SELECT rows_given.*, {columns}\nFROM {_quoted(table)} AS rows_given\n" + "\n".join(joins)
    outputs = _outputs(program, scores)
    lines.append(f"SELECT scored.*{''.join(', ' + part for part in outputs)}\nFROM (\n{inner}\n) AS scored;")
    return "\n".join(lines) + "\n"


def score_names(program: Program) -> list[str]:
    """Return what the columns of the scores are called."""
    return ["score"] if not program.labels else [f"score_{label}" for label in program.labels]


def _outputs(program: Program, scores: list[str]) -> list[str]:
    """Return expressions of predictions, and of probabilities where there are some."""
    if program.classes is None:
        if program.link == "sort" or (program.single and program.link == "identity"):
            return [f"{scores[0]} AS prediction"] if program.link == "identity" else []
        shown = [f"exp({score})" if program.link == "exp" else score for score in scores]
        ends = [""] if program.single else [f"_{label}" for label in program.labels]
        return [f"{value} AS {_quoted('prediction' + end)}" for value, end in zip(shown, ends, strict=True)]
    labels = [_literal(label) for label in program.classes]
    if program.single:
        case = f"CASE WHEN {scores[0]} > 0 THEN {labels[1]} WHEN {scores[0]} <= 0 THEN {labels[0]} END"
        outputs = [f"{case} AS prediction"]
        if program.probabilities:
            outputs.append(f"1.0 / (1.0 + exp(-{scores[0]})) AS {_quoted(f'probability_{program.classes[1]}')}")
        return outputs
    cases = []
    for score, label in zip(scores, labels, strict=True):
        largest = " AND ".join(f"{score} >= {other}" for other in scores if other != score)
        cases.append(f"WHEN {largest} THEN {label}")
    outputs = [f"CASE {' '.join(cases)} END AS prediction"]
    if program.probabilities:
        softmax = program.probabilities == "softmax"
        parts = [f"exp({score})" if softmax else f"(1.0 / (1.0 + exp(-{score})))" for score in scores]
        total = " + ".join(parts)
        pairs = zip(parts, program.classes, strict=True)
        outputs += [f"{part} / ({total}) AS {_quoted(f'probability_{label}')}" for part, label in pairs]
    return outputs


def _table_of(name: str, term: Term) -> str:
    """Return the polynomials of the cells of a term as a table."""
    starts = [_starts(axis) for axis in term.axes]
    coefficients = term.coefficients
    columns = [f"c{k}_{a}" for k in range(coefficients.shape[2]) for a in range(coefficients.shape[1])]
    columns = [f"start_{place}" for place in range(len(starts))] + columns
    grid = np.meshgrid(*starts, indexing="ij")
    flat = np.swapaxes(coefficients, 1, 2).reshape(len(coefficients), -1)
    values = np.column_stack([*(each.ravel() for each in grid), flat])
    rows = (f"({cell}, {', '.join(map(_number, row))})" for cell, row in enumerate(values.tolist()))
    return f"{name} (cell, {', '.join(columns)}) AS (VALUES\n" + ",\n".join(rows) + ")"


def _days_of(number: int, column: str, table: str) -> str:
    """Return common tables that give the days since 1970-01-01 of every date of a column.

    A date is text for SQLite, which would take its year for a number of days, and a type for DuckDB, which has no order
    with numbers; cast to text both read 2024-01-31 12:30:00. Years begin in March, so that the day that some have comes
    last.
    """
    part, is_date = "CAST('0' || substr(written, {}, {}) AS INTEGER)", "substr(written, 5, 1) || substr(written, 8, 1)"
    y, m, d, hour, minute, second = (
        part.format(*place) for place in ((1, 4), (6, 2), (9, 2), (12, 2), (15, 2), (18, 2))
    )
    fraction = "CASE WHEN substr(written, 20, 1) = '.' THEN CAST('0' || substr(written, 20, 7) AS DOUBLE) ELSE 0.0 END"
    whole = "365 * y + (y - y % 4) / 4 - (y - y % 100) / 100 + (y - y % 400) / 400 + (m - m % 5) / 5 + d - 719469"
    return (
        f"texts_{number} (given, written) AS (SELECT DISTINCT {_quoted(column)}, CAST({_quoted(column)} AS VARCHAR) "
        f"FROM {_quoted(table)}),\n"
        f"parts_{number} (given, y, m, d, seconds) AS (SELECT given, {y} - CASE WHEN {m} < 3 THEN 1 ELSE 0 END, "
        f"153 * (({m} + 9) % 12) + 2, {d}, {hour} * 3600 + {minute} * 60 + {second} + {fraction} "
        f"FROM texts_{number} WHERE {is_date} = '--'),\n"
        f"days_{number} (given, days) AS (SELECT given, {whole} + seconds / 86400.0 FROM parts_{number} UNION ALL "
        f"SELECT given, CAST(written AS DOUBLE) FROM texts_{number} WHERE {is_date} <> '--' AND written <> '')"
    )


def _starts(axis: Axis) -> Array:
    """Return where the cells of an axis begin, in pieces."""
    if axis.kind != "pieces":
        return np.zeros(axis.n_cells)
    return np.array([*range(axis.n_pieces), 0, axis.n_pieces, 0], dtype=np.float64)


def _read(axis: Axis, dates: Mapping[str, str]) -> str:
    """Return where the values of an axis are read, of dates their days."""
    return dates.get(axis.column, f"rows_given.{_quoted(axis.column)}")


def _scaled(axis: Axis, dates: Mapping[str, str]) -> str:
    """Return a number in pieces from the lower end of an axis."""
    step = (axis.high - axis.low) / axis.n_pieces
    return f"((CAST({_read(axis, dates)} AS DOUBLE) - {_number(axis.low)}) / {_number(step)})"


def _cell(axis: Axis, dates: Mapping[str, str]) -> str:
    """Return which cell of an axis a row is in."""
    column = _read(axis, dates)
    n = axis.n_cells
    if axis.kind == "levels":
        cases = [f"WHEN {column} = {_literal(level)} THEN {place}" for place, level in enumerate(axis.levels)]
        return f"CASE WHEN {column} IS NULL THEN {n - 1} {' '.join(cases)} ELSE {n - 2} END"
    if axis.kind == "steps":
        value = f"CAST({column} AS DOUBLE)"
        cases = [f"WHEN {value} < {_number(edge)} THEN {place}" for place, edge in enumerate(axis.edges)]
        return f"CASE WHEN {column} IS NULL THEN {n - 1} {' '.join(cases)} ELSE {n - 2} END"
    x, pieces = _scaled(axis, dates), axis.n_pieces
    # Rounding down without a function that not all systems have; a row at a border may take either polynomial.
    inner = f"CAST(ROUND({x} - 0.5) AS INTEGER)"
    return (
        f"CASE WHEN {column} IS NULL THEN {n - 1} WHEN {x} < 0 THEN {n - 3} WHEN {x} > {pieces} THEN {n - 2} "
        f"WHEN {x} < 0.5 THEN 0 WHEN {x} > {pieces - 0.5} THEN {pieces - 1} ELSE {inner} END"
    )


def _sum_of(name: str, term: Term, k: int, dates: Mapping[str, str]) -> str:
    """Return what a term adds to a score, by Horner's rule along each axis."""
    shape = [axis.degree for axis in term.axes]
    flat = [f"{name}.c{k}_{a}" for a in range(term.coefficients.shape[1])]
    for place in reversed(range(len(shape))):
        size = shape[place]
        if size == 1:
            continue
        inside = f"COALESCE({_scaled(term.axes[place], dates)} - {name}.start_{place}, 0.0)"
        groups = [flat[start : start + size] for start in range(0, len(flat), size)]
        flat = [reduce(lambda value, next_: f"({next_} + {inside} * {value})", reversed(group)) for group in groups]
    return flat[0]


def _number(value: float) -> str:
    """Return a number as SQL reads it."""
    return "NULL" if value != value else repr(float(value))


def _quoted(name: object) -> str:
    """Return the name of a column or a table."""
    return '"' + str(name).replace('"', '""') + '"'


def _literal(value: object) -> str:
    """Return a constant: a number, or a text."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return repr(value) if isinstance(value, (int, float)) else "'" + str(value).replace("'", "''") + "'"


# --- a card -----------------------------------------------------------------------------------------------------------


def as_card(program: Program) -> str:
    """Return a table in CSV: what every range or category adds to every score, and how much that is wrong by.

    A line a range: ``term``, then for its columns ``column``, ``from``, ``to`` and ``level``, the points, and
    ``max_error``, by how much the function differs from them within. The first line has the constant.
    """
    names = [name.replace("score", "points", 1) for name in score_names(program)]
    constant = dict(zip(names, program.intercept.tolist(), strict=True))
    frames = [pd.DataFrame([{"term": 0, **constant, "max_error": 0.0}])]
    frames += [_lines(number, term, names) for number, term in enumerate(program.terms, start=1)]
    card = pd.concat(frames, ignore_index=True)
    if len(card) > MOST_LINES:
        raise IncompatibleError(
            f"A card of {len(card)} lines is none to score by: export .sql or .onnx, or fit kernels of single columns."
        )
    ends = [name for name in card.columns if name not in ("term", *names, "max_error")]
    out = io.StringIO()
    card[["term", *ends, *names, "max_error"]].to_csv(out, index=False, lineterminator="\n")
    return out.getvalue()


def _lines(number: int, term: Term, names: list[str]) -> pd.DataFrame:
    """Return the lines of a term."""
    bins = [_bins(axis) for axis in term.axes]
    grids = np.meshgrid(*[np.arange(len(bins_of)) for bins_of in bins], indexing="ij")
    lines = np.column_stack([grid.ravel() for grid in grids])
    ends: list[dict[str, Any]] = []
    for line in lines:
        described: dict[str, Any] = {"term": number}
        for place, at in enumerate(line):
            after = "" if place == 0 else f"_{place + 1}"
            described |= {f"{name}{after}": value for name, value in bins[place][at][0].items()}
        ends.append(described)
    values = [_values(term, [bins[place][at][1] for place, at in enumerate(line)]) for line in lines]
    low, high = (np.array([end(each, axis=0) for each in values]) for end in (np.min, np.max))
    points = pd.DataFrame(0.5 * (low + high), columns=names)
    points["max_error"] = 0.5 * (high - low).max(axis=1) + term.error
    return pd.concat([pd.DataFrame(ends), points], axis=1)


def _values(term: Term, points: list[list[Any]]) -> Array:
    """Return a term at the product of a few values of its columns, (n, K)."""
    grids = np.meshgrid(*[np.arange(len(values)) for values in points], indexing="ij")
    each = zip(term.axes, points, grids, strict=True)
    rows = {axis.column: [values[i] for i in grid.ravel()] for axis, values, grid in each}
    return np.asarray(term_values(term.plain(), rows))


def _bins(axis: Axis) -> list[tuple[dict[str, Any], list[Any]]]:
    """Return the lines of an axis: how each is described, and values that stand for it."""
    gap = ({"column": axis.column, "level": "missing"}, [None if axis.kind == "levels" else np.nan])
    if axis.kind == "levels":
        lines_of = [({"column": axis.column, "level": level}, [level]) for level in axis.levels]
        return [*lines_of, ({"column": axis.column, "level": "any other"}, [OTHER]), gap]
    if axis.kind == "steps":
        ends = [-np.inf, *axis.edges, np.inf]
        inside = [cell[0] for cell in nodes_of(axis, np.zeros(1))[:-1]]
        pairs = zip(pairwise(ends), inside, strict=True)
        return [*(({"column": axis.column, "from": a, "to": b}, [value]) for (a, b), value in pairs), gap]
    third = (axis.high - axis.low) / 3  # the known range is the middle third
    ends = [-np.inf, *np.linspace(axis.low + third, axis.high - third, CARD_BINS - 1).tolist(), np.inf]
    lines = []
    for start, end in pairwise(ends):
        values = np.linspace(max(start, axis.low), min(end, axis.high), CARD_POINTS).tolist()
        lines.append(({"column": axis.column, "from": start, "to": end}, values))
    return [*lines, gap]
