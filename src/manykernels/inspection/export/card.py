"""Programs as a card in CSV: points for ranges and categories, for scoring by hand."""

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from manykernels.exceptions import IncompatibleError
from manykernels.inspection.export.evaluate import compressed, term_values
from manykernels.inspection.export.program import OTHER, Axis, Program, Term, nodes_of, score_names
from manykernels.inspection.files import render_csv
from manykernels.kernels.tables.tails import expand_tails
from manykernels.validation.arrays import Array
from manykernels.validation.parameters import printable


def render_card(program: Program) -> str:
    """Return a table in CSV: the points of every range or category for every score, with the error.

    A line per range: ``term``, then for the columns ``column``, ``from``, ``to`` and ``level``, the points, and
    ``max_error``, the largest difference of the function within the range. The first line has the constant. Where a
    function is not constant beyond the pieces, no line has a value there; a periodic one has lines for a single period.
    No text is a formula to a spreadsheet.
    """
    return render_csv(card_of(program).apply(lambda column: column.map(_printable)))


def _printable(value: object) -> object:
    return printable(value) if isinstance(value, str) else value


def card_of(program: Program) -> pd.DataFrame:
    """Return the lines of a card."""
    names = [name.replace("score", "points", 1) for name in score_names(program)]
    constant = dict(zip(names, program.intercept.tolist(), strict=True))
    frames = [pd.DataFrame([{"term": 0, **constant, "max_error": 0.0}])]
    frames += [_lines(number, term, names) for number, term in enumerate(program.terms, start=1)]
    card = pd.concat(frames, ignore_index=True)
    most_lines = 100_000  # of a card
    if len(card) > most_lines:
        raise IncompatibleError(
            f"A card of {len(card)} lines is too long to score by hand. Export to .sql or .onnx, or fit kernels of "
            f"single columns."
        )
    ends = [name for name in card.columns if name not in ("term", *names, "max_error")]
    return card[["term", *ends, *names, "max_error"]]


def card_scores(program: Program, rows: dict[str, Any]) -> Array:
    """Return the scores of rows from a card, (n, K): NaN for a row outside all lines."""
    card = card_of(program)
    names = [name.replace("score", "points", 1) for name in score_names(program)]
    n = len(next(iter(rows.values())))
    total = np.repeat(card[names].to_numpy(dtype=np.float64)[:1], n, axis=0)
    for number, term in enumerate(program.terms, start=1):
        points = card.loc[card["term"] == number, names].to_numpy(dtype=np.float64)
        places = np.zeros(n, dtype=np.int64)
        outside = np.zeros(n, dtype=bool)
        for a, axis in enumerate(term.axes):
            values = rows[axis.column]
            if axis.tails is not None:
                values = compressed(values, *axis.tails).tolist()
            found, size = _bin_of(term, a, axis, values)
            outside |= found < 0
            places = places * size + found
        total += np.where(outside[:, None], np.nan, points[np.where(outside, 0, places)])
    return total


def _bin_of(term: Term, place: int, axis: Axis, values: Any) -> tuple[Array, int]:
    """Return the line of every value on an axis, -1 for none, and the number of lines."""
    lines = _bins(term, place)
    found = np.full(len(values), -1, dtype=np.int64)
    if axis.kind == "pieces":
        numbers = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        for line, (described, _) in enumerate(lines[:-1]):
            found[(numbers >= described["from"]) & (numbers < described["to"])] = line
        found[np.isnan(numbers)] = len(lines) - 1
        return found, len(lines)
    cells = term_values({"axes": [axis.plain()], "coefficients": np.arange(axis.n_cells)[:, None, None]}, {
        axis.column: values})  # fmt: skip
    return cells[:, 0].astype(np.int64), len(lines)


def _lines(number: int, term: Term, names: list[str]) -> pd.DataFrame:
    """Return the lines of a term."""
    bins = [_bins(term, place) for place in range(len(term.axes))]
    grids = np.meshgrid(*[np.arange(len(bins_of)) for bins_of in bins], indexing="ij")
    lines = np.column_stack([grid.ravel() for grid in grids])
    ends: list[dict[str, Any]] = []
    for line in lines:
        described: dict[str, Any] = {"term": number}
        for place, at in enumerate(line):
            after = "" if place == 0 else f"_{place + 1}"
            own = _describe_axis(term.axes[place], bins[place][at][0])
            described |= {f"{name}{after}": value for name, value in own.items()}
        ends.append(described)
    values = [_values(term, [bins[place][at][1] for place, at in enumerate(line)]) for line in lines]
    low, high = (np.array([end(each, axis=0) for each in values]) for end in (np.min, np.max))
    points = pd.DataFrame(0.5 * (low + high), columns=names)
    points["max_error"] = 0.5 * (high - low).max(axis=1) + term.error
    return pd.concat([pd.DataFrame(ends), points], axis=1)


def _describe_axis(axis: Axis, described: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a line with ends as occurring numbers."""
    if axis.tails is None:
        return described
    ends = {name: described[name] for name in ("from", "to") if name in described and np.isfinite(described[name])}
    return described | {name: float(expand_tails(np.array(end), *axis.tails)) for name, end in ends.items()}


def _values(term: Term, points: list[list[Any]]) -> Array:
    """Return a term at the product of a few values of the columns, (n, K)."""
    grids = np.meshgrid(*[np.arange(len(values)) for values in points], indexing="ij")
    each = zip(term.axes, points, grids, strict=True)
    rows = {axis.column: [values[i] for i in grid.ravel()] for axis, values, grid in each}
    return np.asarray(term_values(term.plain(), rows))


def _bins(term: Term, place: int) -> list[tuple[dict[str, Any], list[Any]]]:
    """Return the lines of an axis: descriptions, and representative values."""
    axis = term.axes[place]
    gap = ({"column": axis.column, "level": "missing"}, [None if axis.kind == "levels" else np.nan])
    match axis.kind:
        case "levels" | "numbers":
            other = OTHER if axis.kind == "levels" else nodes_of(axis, np.zeros(1))[-2][0]
            lines_of = [({"column": axis.column, "level": level}, [level]) for level in axis.levels]
            return [*lines_of, ({"column": axis.column, "level": "any other"}, [other]), gap]
        case "steps" | "boolean":
            edges = axis.edges if axis.kind == "steps" else (0.5,)
            inside = [cell[0] for cell in nodes_of(axis, np.zeros(1))[:-1]]
            pairs = zip(pairwise([-np.inf, *edges, np.inf]), inside, strict=True)
            return [*(({"column": axis.column, "from": a, "to": b}, [value]) for (a, b), value in pairs), gap]
    card_bins = 20  # of a column of numbers on a card
    # The known range is about the middle third, of compressed values nearly all.
    third = 0.0 if axis.period else (axis.high - axis.low) / (3 if axis.tails is None else card_bins)
    inner = np.linspace(axis.low + third, axis.high - third, card_bins - 1).tolist()
    ends = inner if axis.period else [*_outer_ends(term, place)[:1], *inner, *_outer_ends(term, place)[1:]]
    lines = []
    card_points = 9  # of each bin that are looked at
    for start, end in pairwise(ends):
        values = np.linspace(max(start, axis.low), min(end, axis.high), card_points).tolist()
        lines.append(({"column": axis.column, "from": start, "to": end}, values))
    return [*lines, gap]


def _outer_ends(term: Term, place: int) -> list[float]:
    """Return where the first line of a column of numbers begins and the last ends: nowhere if both are constant."""
    axis = term.axes[place]
    shape = [other.n_cells for other in term.axes] + [other.degree for other in term.axes]
    by_cell = np.moveaxis(term.coefficients.reshape(*shape, -1), (place, len(term.axes) + place), (0, 1))
    return [
        end if np.any(by_cell[axis.n_pieces + side, 1:]) else infinite
        for side, end, infinite in ((0, axis.low, -np.inf), (1, axis.high, np.inf))
    ]
