"""Coordinates of the small pictures of a report; the template draws them as SVG and escapes every text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from manykernels.estimators.survival.scores import kaplan_meier
from manykernels.inspection.reports.bootstrap import Score

Array = NDArray[Any]

MOST_POINTS = 400
MOST_CLASSES = 12
WIDTH, HEIGHT = 340.0, 240.0
GROUPS = ("low", "middle", "high")
LEFT, RIGHT, TOP, BOTTOM = 46.0, 8.0, 10.0, 34.0  # margins for numbers and names


@dataclass(frozen=True)
class Plot:
    """Points and lines in a box of ``WIDTH`` by ``HEIGHT``, with numbers along both axes."""

    points: list[tuple[float, float]]  # list of (float, float)
    lines: list[str]  # coordinates of polylines
    band: str  # coordinates of a polygon
    mark: tuple[float, float] | None  # A point with a ring
    x_ticks: list[tuple[float, str]]  # list of (float, str)
    y_ticks: list[tuple[float, str]]  # list of (float, str)
    x_label: str
    y_label: str
    title: str
    # of the lines, where there are several; each has the color of its line
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Interval:
    """Where a score and its interval lie between the ends of a common axis, in percent."""

    value: float
    low: float
    high: float


def intervals(
    scores: Sequence[Score], bounds: tuple[float, float] | None = None
) -> tuple[list[Interval], tuple[float, float]]:
    """Return the places of scores on one axis, and the values at its ends."""
    low, high = min(score.low for score in scores), max(score.high for score in scores)
    margin = 0.04 * (high - low) or 0.5
    low, high = low - margin, high + margin
    if bounds is not None:
        low, high = max(low, bounds[0]), min(high, bounds[1])
    places = [
        Interval(*(100 * (value - low) / (high - low) for value in (score.value, score.low, score.high)))
        for score in scores
    ]
    return places, (low, high)


def scatter(truth: Array, predicted: Array, title: str) -> Plot:
    """Return predicted against true values, with the diagonal."""
    kept = np.unique(np.linspace(0, len(truth) - 1, min(MOST_POINTS, len(truth))).astype(int))
    both = np.concatenate([truth[kept], predicted[kept]])
    low, high = float(both.min()), float(both.max())
    high = high if high > low else low + 1.0
    ticks = nice_ticks(low, high)
    points = [(_x(a, low, high), _y(b, low, high)) for a, b in zip(truth[kept], predicted[kept], strict=True)]
    diagonal = _line([(_x(low, low, high), _y(low, low, high)), (_x(high, low, high), _y(high, low, high))])
    return Plot(
        points,
        [diagonal],
        "",
        None,
        [(_x(tick, low, high), f"{tick:g}") for tick in ticks],
        [(_y(tick, low, high), f"{tick:g}") for tick in ticks],
        "observed",
        "predicted",
        title,
    )


def curve(x: Array, y: Array, error: Array | None, chosen: int | None, labels: tuple[str, str, str]) -> Plot:
    """Return a curve against a logarithmic axis that falls to the right."""
    logs = -np.log10(x)
    order = np.argsort(logs, kind="stable")
    error = np.zeros(len(y)) if error is None else error
    (left, right), low, high = (logs.min(), logs.max()), float((y - error).min()), float((y + error).max())
    right, high = (right if right > left else left + 1.0), (high if high > low else low + 1.0)
    above = [(_x(logs[k], left, right), _y(y[k] + error[k], low, high)) for k in order]
    below = [(_x(logs[k], left, right), _y(y[k] - error[k], low, high)) for k in order[::-1]]
    line = [(_x(logs[k], left, right), _y(y[k], low, high)) for k in order]
    powers = [power for power in range(int(np.ceil(left)), int(np.floor(right)) + 1)] or [left]
    return Plot(
        [],
        [_line(line)],
        _line(above + below) if error.any() else "",
        None if chosen is None else (_x(logs[chosen], left, right), _y(y[chosen], low, high)),
        [(_x(power, left, right), f"{10.0**-power:.3g}") for power in powers[:: -(-len(powers) // 5)]],
        [(_y(tick, low, high), f"{tick:g}") for tick in nice_ticks(low, high)],
        labels[0],
        labels[1],
        labels[2],
    )


def survival_of_groups(target: Array, risk: Array) -> Plot:
    """Return how many of the thirds of lowest, middle and highest risk were left at each time (Kaplan and Meier)."""
    third = np.zeros(len(target), dtype=int)
    for stratum in np.unique(target["stratum"]):
        inside = target["stratum"] == stratum
        third[inside] = len(GROUPS) * rankdata(risk[inside]) / (inside.sum() + 1)
    last = float(target["time"].max()) or 1.0
    lines, names = [], []
    for number in np.unique(third):
        group = target[third == number]
        times, left = kaplan_meier(group["time"], group["event"])
        times, left = np.r_[0.0, times, group["time"].max()], np.r_[1.0, left, left[-1] if len(left) else 1.0]
        corners = zip(np.repeat(times, 2)[1:], np.repeat(left, 2)[:-1], strict=True)
        lines.append(_line([(_x(a, 0.0, last), _y(b, 0.0, 1.0)) for a, b in corners]))
        names.append(f"{GROUPS[number]} risk")
    return Plot(
        [],
        lines,
        "",
        None,
        [(_x(tick, 0.0, last), f"{tick:g}") for tick in nice_ticks(0.0, last)],
        [(_y(tick, 0.0, 1.0), f"{tick:g}") for tick in nice_ticks(0.0, 1.0)],
        "time",
        "share without the event",
        "What became of thirds by predicted risk",
        names,
    )


@dataclass(frozen=True)
class Confusion:
    """Counts of true (rows) and predicted (columns) classes, and their shares of the rows in percent."""

    labels: list[str]
    counts: list[list[int]]
    shares: list[list[int]]
    n_left_out: int  # classes that are not shown


def confusion(truth: Array, predicted: Array) -> Confusion:
    """Return the confusion matrix of the classes that are confused most, all if they are few."""
    labels = np.unique(np.concatenate([truth, predicted]))
    codes = {label: code for code, label in enumerate(labels.tolist())}
    counts = np.zeros((len(labels), len(labels)), dtype=int)
    pairs = ([codes[label] for label in truth.tolist()], [codes[label] for label in predicted.tolist()])
    np.add.at(counts, pairs, 1)
    wrong = counts.sum(axis=0) + counts.sum(axis=1) - 2 * counts.diagonal()
    shown = np.sort(np.argsort(-wrong, kind="stable")[:MOST_CLASSES])
    part = counts[np.ix_(shown, shown)]
    shares = 100 * part / np.maximum(counts[shown].sum(axis=1, keepdims=True), 1)
    names = [str(label) for label in labels[shown]]
    return Confusion(names, part.tolist(), shares.round().astype(int).tolist(), len(labels) - len(shown))


def histogram(values: Array, n_bins: int = 20) -> tuple[list[float], tuple[str, str]]:
    """Return the heights of the bars in percent of the highest, and the ends of the axis as text."""
    counts, edges = np.histogram(values, bins=n_bins)
    return (100 * counts / max(int(counts.max()), 1)).tolist(), (f"{edges[0]:.4g}", f"{edges[-1]:.4g}")


def nice_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers between two values."""
    span = high - low
    step = 10.0 ** np.floor(np.log10(span / most))
    step = next(step * factor for factor in (1, 2, 5, 10, 20) if span / (step * factor) <= most)
    first = np.ceil(low / step)
    return [float(np.round(step * k, 12)) for k in np.arange(first, np.floor(high / step) + 1)]


def _x(value: float, low: float, high: float) -> float:
    return float(round(LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / (high - low), 1))


def _y(value: float, low: float, high: float) -> float:
    return float(round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low), 1))


def _line(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x},{y}" for x, y in points)
