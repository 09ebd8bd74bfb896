"""What a report draws of an additive model: curves of single columns, and surfaces of pairs of columns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from manykernels.inspection.displays.plotting import cut_text
from manykernels.inspection.functions.shape import ShapeDisplay, active_columns
from manykernels.inspection.functions.surface import SurfaceDisplay, active_pairs
from manykernels.inspection.pipelines import unwrapped
from manykernels.inspection.reports.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Plot, nice_ticks

Array = NDArray[Any]

MOST_CURVES, MOST_SURFACES = 4, 3
POINTS, SIDE = 60, 16  # values of a column on a curve, and on each side of a surface
SHADES = 12  # of one color
MOST_LABELS, LONGEST, LONGEST_NAME = 5, 9, 24
FOOT = 0.15  # of the height, for the density of the rows


@dataclass(frozen=True)
class Cell:
    """Neighboring values of one row of a surface with one color.

    Attributes
    ----------
    x, y, width, height : float
    color : str
        "orange" for what is added, "blue" for what is taken away.
    opacity : float
    """

    x: float
    y: float
    width: float
    height: float
    color: str
    opacity: float


@dataclass(frozen=True)
class Surface:
    """What a pair of columns adds, as colored cells in a box of ``WIDTH`` by ``HEIGHT``.

    Attributes
    ----------
    cells : list of Cell
    x_ticks, y_ticks : list of (float, str)
    x_label, y_label, title, text : str
        The text says in words what the picture shows.
    """

    cells: list[Cell]
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    x_label: str
    y_label: str
    title: str
    text: str


def functions_of(model: Any, X: Any) -> dict[str, Any]:
    """Return curves of the columns and surfaces of the pairs of the largest norms, and how many are left out.

    Nothing of models of several scores, or of kernels that read no columns of a table.
    """
    estimator, rows = unwrapped(model, X)
    if np.ndim(estimator.kernel_weights_) > 1 or not isinstance(rows, (np.ndarray, pd.DataFrame)):
        return {"curves": [], "surfaces": [], "more_curves": 0, "more_surfaces": 0}
    columns, pairs = active_columns(estimator), active_pairs(estimator)
    return {
        "curves": _curves(estimator, rows, columns[:MOST_CURVES]),
        "surfaces": _surfaces(estimator, rows, pairs[:MOST_SURFACES]),
        "more_curves": max(len(columns) - MOST_CURVES, 0),
        "more_surfaces": max(len(pairs) - MOST_SURFACES, 0),
    }


# --- curves ---------------------------------------------------------------------------------------------------------


def _curves(estimator: Any, rows: Any, columns: list[str]) -> list[Plot]:
    """Return the functions of single columns on one scale, above the density of the rows."""
    if not columns:
        return []
    frame = ShapeDisplay.from_estimator(estimator, rows, columns=columns, n_points=POINTS).frame()
    low, high = float(frame["effect"].min()), float(frame["effect"].max())
    high = high if high > low else low + 1.0
    low -= FOOT * (high - low)
    return [_curve(str(name), shape, low, high) for name, shape in frame.groupby("column", sort=False)]


def _curve(name: str, shape: pd.DataFrame, low: float, high: float) -> Plot:
    """Return one function: a line over numbers, a point for each category."""
    values = shape["x"].infer_objects().to_numpy()
    axis = _Axis.of(values, LEFT, WIDTH - RIGHT)
    x, y = axis.places, [_height(float(effect), low, high) for effect in shape["effect"]]
    dense = shape["density"].to_numpy() / float(shape["density"].max())
    foot = [(at, _height(low + FOOT * (high - low) * share, low, high)) for at, share in zip(x, dense, strict=True)]
    base = _height(low, low, high)
    outline = [(x[0], base), *foot, (x[-1], base)]
    points = list(zip(x, y, strict=True))
    return Plot(
        [] if axis.numeric else points,
        [_line(points)] if axis.numeric else [],
        _line(outline),
        None,
        axis.ticks,
        [(_height(tick, low, high), f"{tick:g}") for tick in nice_ticks(low, high)],
        cut_text(name, LONGEST_NAME),
        "added to the score",
        cut_text(name, LONGEST_NAME),
    )


# --- surfaces -------------------------------------------------------------------------------------------------------


def _surfaces(estimator: Any, rows: Any, pairs: list[tuple[str, str]]) -> list[Surface]:
    """Return what pairs of columns add, all in the same colors."""
    shown = [SurfaceDisplay.from_estimator(estimator, rows, columns=pair, n_points=SIDE).frame() for pair in pairs]
    size = max((float(frame["effect"].abs().max()) for frame in shown), default=0.0) or 1.0
    return [_surface(pair, frame, size) for pair, frame in zip(pairs, shown, strict=True)]


def _surface(pair: tuple[str, str], frame: pd.DataFrame, size: float) -> Surface:
    """Return the picture of what a pair adds, in full color at this size."""
    values = frame.pivot(index="z", columns="x", values="effect")
    across = _Axis.of(values.columns.to_numpy(), LEFT, WIDTH - RIGHT)
    up = _Axis.of(values.index.to_numpy(), HEIGHT - BOTTOM, TOP)
    effects = values.to_numpy()
    first, second = (cut_text(name, LONGEST_NAME) for name in pair)
    ends: list[Any] = [frame.iloc[int(at)] for at in (frame["effect"].argmin(), frame["effect"].argmax())]
    least, most = (
        f"{end['effect']:+.2g} where {first} is {_label(end['x'])} and {second} is {_label(end['z'])}" for end in ends
    )
    return Surface(
        [cell for number, row in enumerate(effects) for cell in _cells(row / size, number, across, up)],
        across.ticks,
        up.ticks,
        first,
        second,
        cut_text(f"{first} and {second}", 2 * LONGEST_NAME),
        f"From {least} to {most}.",
    )


def _cells(row: Array, number: int, across: _Axis, up: _Axis) -> list[Cell]:
    """Return the cells of one row of values from -1 to 1, neighbors of one color as one."""
    shades = np.rint(SHADES * row).astype(int).tolist()
    bottom, top = up.edges[number : number + 2]
    found = []
    for shade, group in groupby(range(len(shades)), key=shades.__getitem__):
        members = list(group)
        start, end = across.edges[members[0]], across.edges[members[-1] + 1]
        box = (start, top, round(end - start, 1), round(bottom - top, 1))
        if shade:
            found.append(Cell(*box, "orange" if shade > 0 else "blue", round(abs(shade) / SHADES, 2)))
    return found


@dataclass(frozen=True)
class _Axis:
    """Where values lie on one side of a picture, where one ends and the next begins, and what is written there."""

    places: list[float]
    edges: list[float]
    ticks: list[tuple[float, str]]
    numeric: bool

    @classmethod
    def of(cls, values: Array, start: float, end: float) -> _Axis:
        """Return an axis from one place to another, each value in the middle of a part of it."""
        step = (end - start) / len(values)
        places = [float(round(start + (k + 0.5) * step, 1)) for k in range(len(values))]
        edges = [float(round(start + k * step, 1)) for k in range(len(values) + 1)]
        numeric = bool(np.issubdtype(values.dtype, np.number)) and len(values) > 1
        if numeric:
            low, high = float(values[0]), float(values[-1])
            span = places[-1] - places[0]
            ticks = [
                (float(round(places[0] + span * (tick - low) / (high - low), 1)), f"{tick:g}")
                for tick in (nice_ticks(low, high) if high > low else [])
            ]
        else:
            shown = np.unique(np.linspace(0, len(values) - 1, min(MOST_LABELS, len(values))).astype(int))
            ticks = [(places[at], _label(values[at])) for at in shown.tolist()]
        return cls(places, edges, ticks, numeric)


def _label(value: Any) -> str:
    """Return a value as it stands beside an axis."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return f"{value:.3g}" if number else cut_text(str(value)[:10], LONGEST)


def _height(value: float, low: float, high: float) -> float:
    """Return where a value lies from top to bottom."""
    return float(round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low), 1))


def _line(points: list[tuple[float, float]]) -> str:
    """Return coordinates as SVG reads them."""
    return " ".join(f"{x},{y}" for x, y in points)
