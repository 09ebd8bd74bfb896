"""Programs as a single SQL statement for SQLite and DuckDB.

Names of columns and tables, levels and classes are untrusted: they appear in the statement as quoted identifiers and
literals only, and in the comments with every control character escaped.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

import numpy as np

from manykernels.exceptions import IncompatibleError
from manykernels.inspection.export.columns import UNITS
from manykernels.inspection.export.program import Axis, Program, Term, score_names, written_forms
from manykernels.validation.arrays import Array
from manykernels.validation.parameters import printable

MOST_JOINED = 62  # tables that SQLite joins beside that of the rows
UNWRITABLE = re.compile("[\0\r\ud800-\udfff]")  # what a text file or a database does not keep
TRUE = "'1', '1.0', 'true', 't'"  # as databases write it


def render_sql(program: Program, about: Sequence[str], table: str) -> str:
    """Return a statement for the columns of a table, the scores and the predictions.

    The statement uses the common dialect of SQLite and DuckDB, with ``exp`` only for probabilities and logarithmic
    links. The table has the columns by the names of the model; the program has no kernels of many columns. Scores are
    computed in a scope without the columns of the table.
    """
    _check_names(program, table)
    prefix = ""  # of the tables of the statement, none of which is that of the rows
    while table.casefold().startswith(tuple(f"{prefix}{name}_" for name in ("term", "days", "texts", "parts"))):
        prefix += "model_"
    names = [f"{prefix}term_{number}" for number in range(1, len(program.terms) + 1)]
    tables, joins, dates = [], [], dict[str, str]()
    for number, column in enumerate((name for name, unit in program.units.items() if unit == UNITS["date"]), 1):
        days = f"{prefix}days_{number}"
        tables.append(_days_of(days, column, table))
        joins.append(f"LEFT JOIN {days} ON {days}.given = rows_given.{quote_name(column)}")
        dates[column] = f"{days}.days"
    dates |= {column: _compressed(column, *own) for column, own in program.tails.items()}
    sums: list[list[str]] = [[repr(float(value))] for value in program.intercept]
    for name, term in zip(names, program.terms, strict=True):
        tables.append(_table_of(name, term))
        cell = f"({_cell(term.axes[0], dates)})"  # the place of a cell of several axes
        for axis in term.axes[1:]:
            cell = f"({cell} * {axis.n_cells} + ({_cell(axis, dates)}))"
        joins.append(f"LEFT JOIN {name} ON {name}.cell = {cell}")
        for k, parts in enumerate(sums):
            parts.append(_sum_of(name, term, k, dates))
    lines = [f"-- {line}" for line in (*map(printable, about), *_remarks(program, len(joins), dates))]
    if tables:
        lines.append("WITH\n" + ",\n".join(tables))
    expressions = ["(" + " + ".join(parts) + ")" for parts in sums]
    outputs = [f"{value} AS {quote_name(name)}" for name, value in _outputs(program, expressions)]
    lines.append("SELECT rows_given.*,\n" + ",\n".join(outputs))
    lines.append(f"FROM {quote_name(table)} AS rows_given\n" + "\n".join(joins) + ";")
    return "\n".join(lines) + "\n"


def _check_names(program: Program, table: str) -> None:
    """Raise if a name cannot stand in a statement, or not for a single column alone."""
    if not table or UNWRITABLE.search(table):
        raise IncompatibleError(f"The table of an SQL statement cannot be called {table!r}; choose another name.")
    texts = [level for term in program.terms for axis in term.axes for level in axis.levels]
    for value in (*program.columns, *texts, *program.labels, *(program.classes or ())):
        if UNWRITABLE.search(str(value)):
            raise IncompatibleError(
                f"{str(value)!r} holds a NUL character, a carriage return or half of a surrogate pair, which an SQL "
                "file does not keep. Export to .onnx or .py, or rename it."
            )
    if "" in program.columns:
        raise IncompatibleError("SQL has no column with an empty name. Export to .onnx or .py, or rename the column.")
    lower: dict[str, str] = {}
    for name in program.columns:
        if name.casefold() in lower:
            raise IncompatibleError(
                f"SQL does not distinguish the columns {lower[name.casefold()]!r} and {name!r}. Export to .onnx or "
                ".py, or rename one."
            )
        lower[name.casefold()] = name


def output_names(program: Program) -> dict[str, str]:
    """Return the names of the columns added by a statement, scores first.

    Names are unique and differ from the columns of the model, ignoring case: a model with a column ``score`` gets
    ``model_score``.
    """
    wanted = [*score_names(program)]
    if program.predicts_labels:
        for word in ("prediction", *(["probability"] if program.probabilities else [])):
            wanted += [f"{word}_{label}" for label in program.labels]
    elif program.classes is not None:
        wanted.append("prediction")
        if program.probabilities:
            wanted += [f"probability_{label}" for label in program.classes[1 if program.single else 0 :]]
    elif program.link != "sort":
        wanted += ["prediction"] if program.single else [f"prediction_{label}" for label in program.labels]
    taken = {name.casefold() for name in program.features}
    names = {}
    for name in wanted:
        tries = [name, f"model_{name}", *(f"model_{name}_{number}" for number in range(2, len(taken) + 3))]
        names[name] = next(each for each in tries if each.casefold() not in taken)
        taken.add(names[name].casefold())
    return names


def _remarks(program: Program, n_joins: int, dates: Mapping[str, str]) -> Iterator[str]:
    """Yield what readers of a statement have to know."""
    if dates:
        yield "Dates may also be of type DATE or TIMESTAMP, or text: 2024-01-31 or 2024-01-31 12:30:00."
    if n_joins > MOST_JOINED:
        yield f"This joins {n_joins} tables; SQLite joins 64 at most, DuckDB more."
    if program.link == "sort":
        yield "The scores of the quantiles are not put in order."


def _outputs(program: Program, sums: list[str]) -> list[tuple[str, str]]:
    """Return the names and expressions of scores, predictions, and probabilities where there are some."""
    named = [f"s{k}" for k in range(len(sums))]
    inner = f"(SELECT {', '.join(f'{value} AS {name}' for value, name in zip(sums, named, strict=True))}) AS scored"

    def score_columns(expression: str, source: str = inner) -> str:
        # In a SELECT of its own, which sees no column of the table by the name of a score.
        return f"(SELECT {expression} FROM {source})"

    values = list(sums)
    if program.classes is None:
        if program.link != "sort":
            values += [f"exp({value})" if program.link == "exp" else value for value in sums]
        return list(zip(output_names(program).values(), values, strict=True))
    if program.predicts_labels:
        values += [score_columns(f"CASE WHEN {name} > 0 THEN 1 WHEN {name} <= 0 THEN 0 END") for name in named]
        values += [f"1.0 / (1.0 + exp(-{value}))" for value in sums if program.probabilities]
        return list(zip(output_names(program).values(), values, strict=True))
    labels = [_literal(label) for label in program.classes]
    if program.single:
        values.append(score_columns(f"CASE WHEN s0 > 0 THEN {labels[1]} WHEN s0 <= 0 THEN {labels[0]} END"))
        if program.probabilities:
            values.append(f"1.0 / (1.0 + exp(-{sums[0]}))")
        return list(zip(output_names(program).values(), values, strict=True))
    largest = [" AND ".join(f"{name} >= {other}" for other in named if other != name) for name in named]
    pairs = list(zip(largest, labels, named, strict=True))
    values.append(score_columns(f"CASE {' '.join(f'WHEN {test} THEN {label}' for test, label, _ in pairs)} END"))
    if program.probabilities == "softmax":
        top = f"CASE {' '.join(f'WHEN {test} THEN {name}' for test, _, name in pairs)} END AS top"
        source = f"(SELECT *, {top} FROM {inner}) AS largest"
        parts = [f"exp({name} - top)" for name in named]
    else:
        source, parts = inner, [f"(1.0 / (1.0 + exp(-{name})))" for name in named]
    if program.probabilities:
        values += [score_columns(f"{part} / ({' + '.join(parts)})", source) for part in parts]
    return list(zip(output_names(program).values(), values, strict=True))


def _table_of(name: str, term: Term) -> str:
    """Return the polynomials of the cells of a term as a table."""
    starts = [_starts(axis) for axis in term.axes]
    lengths = reduce(np.multiply.outer, [_lengths(axis) for axis in term.axes]).reshape(-1, 1, 1)
    coefficients = term.coefficients / lengths ** np.arange(term.coefficients.shape[1])[:, None]
    columns = [f"c{k}_{a}" for k in range(coefficients.shape[2]) for a in range(coefficients.shape[1])]
    columns = [f"start_{place}" for place in range(len(starts))] + columns
    grid = np.meshgrid(*starts, indexing="ij")
    flat = np.swapaxes(coefficients, 1, 2).reshape(len(coefficients), -1)
    values = np.column_stack([*(each.ravel() for each in grid), flat])
    rows = (f"({cell}, {', '.join(map(_number, row))})" for cell, row in enumerate(values.tolist()))
    return f"{name} (cell, {', '.join(columns)}) AS (VALUES\n" + ",\n".join(rows) + ")"


def _days_of(name: str, column: str, table: str) -> str:
    """Return common tables with the days since 1970-01-01 of every date of a column.

    A date is text in SQLite and a type in DuckDB; cast to text both read 2024-01-31 12:30:00. Years begin in March, so
    leap days come last.
    """
    part, is_date = "CAST('0' || substr(written, {}, {}) AS INTEGER)", "substr(written, 5, 1) || substr(written, 8, 1)"
    y, m, d, hour, minute, second = (
        part.format(*place) for place in ((1, 4), (6, 2), (9, 2), (12, 2), (15, 2), (18, 2))
    )
    fraction = "CASE WHEN substr(written, 20, 1) = '.' THEN CAST('0' || substr(written, 20, 7) AS DOUBLE) ELSE 0.0 END"
    whole = "365 * y + (y - y % 4) / 4 - (y - y % 100) / 100 + (y - y % 400) / 400 + (m - m % 5) / 5 + d - 719469"
    given, texts, parts = f"dated.{quote_name(column)}", *(name.replace("days", each) for each in ("texts", "parts"))
    return (
        f"{texts} (given, written) AS (SELECT DISTINCT {given}, CAST({given} AS VARCHAR) "
        f"FROM {quote_name(table)} AS dated),\n"
        f"{parts} (given, y, m, d, seconds) AS (SELECT given, {y} - CASE WHEN {m} < 3 THEN 1 ELSE 0 END, "
        f"153 * (({m} + 9) % 12) + 2, {d}, {hour} * 3600 + {minute} * 60 + {second} + {fraction} "
        f"FROM {texts} WHERE {is_date} = '--'),\n"
        f"{name} (given, days) AS (SELECT given, {whole} + seconds / 86400.0 FROM {parts} UNION ALL "
        f"SELECT given, CAST(written AS DOUBLE) FROM {texts} WHERE {is_date} <> '--' AND written <> '')"
    )


def _lengths(axis: Axis) -> Array:
    """Return the lengths of the cells of an axis, in the unit: between edges as given, else 1."""
    if axis.kind != "pieces" or not axis.edges:
        return np.ones(axis.n_cells)
    outer = (axis.high - axis.low) / axis.n_pieces
    return np.array([*np.diff(axis.edges), outer, outer, 1.0])


def _starts(axis: Axis) -> Array:
    """Return where the cells of an axis begin, in pieces, or as numbers of the column where there are edges."""
    if axis.kind != "pieces":
        return np.zeros(axis.n_cells)
    if axis.edges:
        return np.array([*axis.edges[:-1], axis.low, axis.high, 0.0])
    return np.array([*range(axis.n_pieces), 0, axis.n_pieces, 0], dtype=np.float64)


def _read(axis: Axis, dates: Mapping[str, str]) -> str:
    """Return where the values of an axis are read: of dates their days, of heavy tails compressed values."""
    return dates.get(axis.column, f"rows_given.{quote_name(axis.column)}")


def _scaled(axis: Axis, dates: Mapping[str, str]) -> str:
    """Return a number in pieces from the lower end of an axis, or unchanged for edges."""
    if axis.edges:
        return f"CAST({_read(axis, dates)} AS DOUBLE)"
    step = (axis.high - axis.low) / axis.n_pieces
    x = f"((CAST({_read(axis, dates)} AS DOUBLE) - {_number(axis.low)}) / {_number(step)})"
    return f"({x} - {axis.n_pieces}.0 * ROUND({x} / {axis.n_pieces}.0 - 0.5))" if axis.period else x


def _cell(axis: Axis, dates: Mapping[str, str]) -> str:
    """Return the cell of a row on an axis."""
    column, n = _read(axis, dates), axis.n_cells
    value = f"CAST({column} AS DOUBLE)"
    match axis.kind:
        case "levels":
            text = f"CAST({column} AS VARCHAR)"
            forms = list(written_forms(axis.levels).items())
            own = [[text for text, at in forms if at == place] for place in range(len(axis.levels))]
            cases = [
                f"WHEN {text} IN ({', '.join(map(_literal, each))}) THEN {place}" for place, each in enumerate(own)
            ]
        case "numbers":
            cases = [f"WHEN {value} = {_number(level)} THEN {place}" for place, level in enumerate(axis.levels)]
        case "steps":
            cases = [f"WHEN {value} < {_number(edge)} THEN {place}" for place, edge in enumerate(axis.edges)]
        case "boolean":
            cases = [f"WHEN lower(CAST({column} AS VARCHAR)) NOT IN ({TRUE}) THEN 0"]
        case "pieces" if axis.edges:
            return (
                f"CASE WHEN {column} IS NULL THEN {n - 1} WHEN {value} < {_number(axis.low)} THEN {n - 3} "
                f"WHEN {value} > {_number(axis.high)} THEN {n - 2} {_piece(value, axis.edges)} END"
            )
        case _:
            x, pieces = _scaled(axis, dates), axis.n_pieces
            # Rounding down without a function that not all systems have; a row at a border may take either polynomial.
            inner = f"CAST(ROUND({x} - 0.5) AS INTEGER)"
            return (
                f"CASE WHEN {column} IS NULL THEN {n - 1} WHEN {x} < 0 THEN {n - 3} WHEN {x} > {pieces} THEN {n - 2} "
                f"WHEN {x} < 0.5 THEN 0 WHEN {x} > {pieces - 0.5} THEN {pieces - 1} ELSE {inner} END"
            )
    return f"CASE WHEN {column} IS NULL THEN {n - 1} {' '.join(cases)} ELSE {n - 2} END"


def _piece(value: str, edges: Sequence[float]) -> str:
    """Return the end of a CASE for the piece between edges: first a group of pieces, then a piece of the group."""
    n = len(edges) - 1
    size = max(round(n**0.5), 1)
    groups = []
    for start in range(0, n, size):
        pieces = range(start, min(start + size, n))
        cases = " ".join(f"WHEN {value} < {_number(edges[piece + 1])} THEN {piece}" for piece in pieces[:-1])
        one = f"CASE {cases} ELSE {pieces[-1]} END" if cases else str(start)
        groups.append(
            f"WHEN {value} < {_number(edges[pieces[-1] + 1])} THEN {one}" if pieces[-1] < n - 1 else f"ELSE {one}"
        )
    return " ".join(groups)


def _sum_of(name: str, term: Term, k: int, dates: Mapping[str, str]) -> str:
    """Return the contribution of a term to a score, by Horner's rule along every axis."""
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


def _compressed(column: str, middle: float, unit: float) -> str:
    """Return a column with heavy tails in units from its middle, compressed beyond the first unit."""
    x = f"((CAST(rows_given.{quote_name(column)} AS DOUBLE) - {_number(middle)}) / {_number(unit)})"
    outer = f"WHEN {x} > 0 THEN 3.0 - 4.0 / (1.0 + {x}) ELSE 4.0 / (1.0 - {x}) - 3.0"
    return f"(CASE WHEN ABS({x}) <= 1 THEN {x} {outer} END)"


def _number(value: float) -> str:
    """Return a number for SQL: large whole numbers as integers, since SQLite rounds their decimals wrongly."""
    if 2**53 <= abs(value) < 2**63 and value == int(value):
        return f"CAST({int(value)} AS DOUBLE)"
    return "NULL" if value != value else repr(float(value))


def quote_name(name: object) -> str:
    """Return the name of a column or a table."""
    return '"' + str(name).replace('"', '""') + '"'


def _literal(value: object) -> str:
    """Return a constant: a number, or a text."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return repr(value) if isinstance(value, (int, float)) else "'" + str(value).replace("'", "''") + "'"
