"""Pictures of a report: displays drawn by matplotlib, as SVG in the colors of the page, light or dark."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import pandas as pd
from scipy.stats import rankdata
from sklearn.base import BaseEstimator
from sklearn.metrics import PredictionErrorDisplay

from manykernels.estimators.survival import kaplan_meier
from manykernels.exceptions import InvalidInputError
from manykernels.inspection.displays.curves import CVCurveDisplay
from manykernels.inspection.displays.kernel_table import effect_of, target_names, target_position
from manykernels.inspection.displays.plotting import PALETTE, clean, color_of, cut_text, ink_of, mixed, plain
from manykernels.inspection.displays.weights import IntervalDisplay
from manykernels.inspection.functions.shape import ShapeDisplay, active_columns
from manykernels.inspection.functions.surface import SurfaceDisplay, active_pairs
from manykernels.inspection.pipelines import unwrapped
from manykernels.inspection.reports.evaluation import Evaluation
from manykernels.inspection.reports.scores import LABELS, SURVIVAL
from manykernels.validation.arrays import Array, TableLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 5.0, 3.2  # inches
MOST_CURVES, MOST_SURFACES = 4, 3
POINTS, SIDE = 60, 12  # values of a column on a curve, and on each side of a surface
GROUPS = ("low", "middle", "high")
TEXT, FACE = "#1c2329", "#ffffff"  # of the light page
HEX = re.compile(r"#[0-9a-f]{6}\b")
DECIMALS = re.compile(r"(\d\.\d\d)\d+")
FONTS = re.compile(r"'DejaVu Sans'[^;\"]*")


@dataclass(frozen=True)
class Picture:
    """A picture for a page, with a description."""

    svg: str  # in which all text is escaped, by matplotlib
    text: str = ""


def page_colors() -> dict[str, tuple[str, str]]:
    """Return the page variables of the colors of displays, and the dark variants."""
    from matplotlib.colors import to_hex, to_rgb

    def mix(color: str, other: str, share: float) -> str:
        return to_hex(mixed(to_rgb(color), to_rgb(other), share))

    # Of inks, the page has its own for the dark.
    inks = {TEXT: "text", FACE: "face", mix(TEXT, FACE, 0.62): "muted", mix(TEXT, FACE, 0.13): "line"}
    dark = {color.lower(): (f"p{k}", mix(color, "#ffffff", 0.78)) for k, color in enumerate(PALETTE)}
    return {color: (name, "") for color, name in inks.items()} | dark


def palette() -> list[tuple[str, str, str]]:
    """Return name, light color and dark color of everything drawn by displays."""
    return [(name, light, dark) for light, (name, dark) in page_colors().items() if dark]


def draw_picture(draw: Callable[[Figure], object], title: str, *, text: str = "", height: float = HEIGHT) -> Picture:
    """Return the picture drawn by a function."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    style: Any = {
        **matplotlib.rcParamsDefault,
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), TEXT),
        **{
            "figure.facecolor": FACE,
            "axes.facecolor": FACE,
            "axes.linewidth": 0.6,
            "axes.titlesize": 9.5,
            "font.size": 9,
        },
        **{"svg.fonttype": "none", "svg.hashsalt": "report"},
    }
    with matplotlib.rc_context(style):
        figure, page = Figure(figsize=(WIDTH, height), layout="constrained"), StringIO()
        draw(figure)
        # Laid out once, where saving would lay it out, and draw it, twice.
        FigureCanvasSVG(figure)
        if (engine := figure.get_layout_engine()) is not None:
            engine.execute(figure)
        figure.set_layout_engine(None)
        figure.savefig(page, format="svg", metadata={"Date": None, "Creator": None})
    return Picture(_embed(page.getvalue(), title), text)


def _embed(svg: str, title: str) -> str:
    """Return SVG as an element of a page: without headers and styles, with short numbers and page colors."""
    # Names are those of the whole page: no two pictures may share one.
    colors, prefix = {color: name for color, (name, _) in page_colors().items()}, f"s{crc32(svg.encode()):x}-"

    def tag(found: re.Match[str]) -> str:
        text = DECIMALS.sub(r"\1", FONTS.sub("system-ui, sans-serif", " ".join(found[0].split())))
        text = HEX.sub(lambda color: f"var(--{colors[color[0]]})" if color[0] in colors else color[0], text)
        text = re.sub(
            r'^<(g|text) id="[^"]*"| transform="rotate\(-0 [^"]*"', lambda one: f"<{one[1]}" if one[1] else "", text
        )
        return re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}", text)

    body = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", "", svg[svg.index("<svg") :], flags=re.S)
    box = re.search(r'viewBox="([^"]*)"', body)
    inside = re.sub(r"<[^>]*>", tag, body[body.index(">") + 1 :])
    start = f'<svg viewBox="{box[1] if box else ""}" role="img" aria-label="{escape(title)}">'
    return start + re.sub(r"\n\s*", "\n", inside)


# --- scores ---------------------------------------------------------------------------------------------------------


def scores_beside(evaluation: Evaluation) -> Picture | None:
    """Return the scores of the model and of simpler models, with intervals."""
    if not evaluation.rivals:
        return None
    own = evaluation.scores[0]
    rows = [("this model", own), *((rival.name, rival.score) for rival in evaluation.rivals)]
    table = pd.DataFrame([(name, score.value, score.low, score.high) for name, score in rows])
    display = IntervalDisplay.from_frame(table.set_axis(["name", "score", "low", "high"], axis=1), label=own.name)
    return draw_picture(lambda figure: display.plot(figure.subplots()), own.name, height=0.8 + 0.5 * len(rows))


def predictions(evaluation: Evaluation, task: str, names: Array | None) -> list[Picture]:
    """Return predicted beside observed numbers, or survival of samples of low and high risk."""
    if task == SURVIVAL:
        title = "What became of thirds by predicted risk"
        target, risk = evaluation.truth, evaluation.predicted
        return [draw_picture(lambda figure: survival_of_groups(figure.subplots(), target, risk, title), title)]
    if task in ("classification", LABELS):
        return []
    truth = np.asarray(evaluation.truth, dtype=float).reshape(len(evaluation.truth), -1)
    predicted = np.asarray(evaluation.predicted, dtype=float).reshape(len(truth), -1)
    titles = ["Predicted and observed"]
    if truth.shape[1] > 1:
        titles = [f"output {k}" for k in range(truth.shape[1])] if names is None else [str(name) for name in names]
    most_points, most_outputs = 400, 4
    kept = np.unique(np.linspace(0, len(truth) - 1, min(most_points, len(truth))).astype(int))
    shown = zip(truth[kept].T[:most_outputs], predicted[kept].T, titles, strict=False)
    return [draw_picture(_Scatter(observed, guessed, title), title) for observed, guessed, title in shown]


@dataclass(frozen=True)
class _Scatter:
    """Predicted against observed numbers, with the diagonal."""

    observed: Array
    predicted: Array
    title: str

    def __call__(self, figure: Figure) -> None:
        from matplotlib.ticker import AutoLocator

        ax = figure.subplots()
        points = {"color": color_of(ax, 0), "s": 12, "alpha": 0.6, "linewidths": 0}
        diagonal = {"color": ink_of(ax).muted, "linewidth": 1, "linestyle": "--"}
        display = PredictionErrorDisplay(y_true=self.observed, y_pred=self.predicted)
        display.plot(ax, kind="actual_vs_predicted", scatter_kwargs=points, line_kwargs=diagonal)
        ax.set(xlabel="predicted", ylabel="observed", aspect="auto", title=plain(cut_text(self.title, 40)))
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(AutoLocator())  # of round numbers
        clean(ax)


def survival_of_groups(ax: Axes, target: Array, risk: Array, title: str = "") -> None:
    """Draw how many of the thirds of lowest, middle and highest risk were left at every time (Kaplan and Meier)."""
    third = np.zeros(len(target), dtype=int)
    for stratum in np.unique(target["stratum"]):
        inside = target["stratum"] == stratum
        third[inside] = len(GROUPS) * rankdata(risk[inside]) / (inside.sum() + 1)
    for number in np.unique(third):
        group = target[third == number]
        times, left = kaplan_meier(group["time"], group["event"])
        times, left = np.r_[0.0, times, group["time"].max()], np.r_[1.0, left, left[-1] if len(left) else 1.0]
        ax.step(times, left, where="post", color=color_of(ax, number), label=f"{GROUPS[number]} risk")
    ax.set(xlabel="time", ylabel="share without the event", ylim=(0, 1.02), title=title)
    ax.set_xlim(left=0)
    ax.legend(frameon=False)
    clean(ax, grid="y")


def strength_curve(model: BaseEstimator) -> Picture | None:
    """Return the score curve over strengths, for the chosen mixture."""
    try:
        display = CVCurveDisplay.from_estimator(model)
    except InvalidInputError:
        return None
    place = display.results.index[display.chosen]
    same = display.results[display.results["curve"] == display.results["curve"].iloc[display.chosen]]
    chosen = CVCurveDisplay(
        results=same, chosen=int(same.index.get_loc(place)), n_folds=display.n_folds, scoring=display.scoring
    )
    return draw_picture(lambda figure: chosen.plot(figure.subplots()), "Choice of the strength by cross-validation")


def histogram(values: Array, label: str) -> Picture:
    """Return the histogram of the target."""

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        ax.hist(values[np.isfinite(values)], bins=20, color=color_of(ax, 0), edgecolor=ink_of(ax).face, linewidth=0.5)
        ax.set(xlabel=plain(cut_text(label, 40)), ylabel="rows")
        clean(ax, grid="y")

    return draw_picture(draw, "The values of the target", height=2.0)


# --- functions ------------------------------------------------------------------------------------------------------


def functions_of(
    model: BaseEstimator, X: TableLike, importance: pd.DataFrame | None = None, target: Hashable = None
) -> dict[str, Any]:
    """Return curves of columns and surfaces of pairs by importance, and the number left out.

    Without importance, the largest norms count. Empty for kernels without columns, and for several scores without a
    ``target``.
    """
    estimator, rows = unwrapped(model, X)
    if target is not None:
        target_position(estimator, target)  # raises for an unknown one
    if (target_names(estimator) and target is None) or not isinstance(rows, (np.ndarray, pd.DataFrame)):
        return {"curves": None, "surfaces": [], "more_curves": 0, "more_surfaces": 0, "effect": ""}
    ranks = {} if importance is None else {str(name): at for at, name in enumerate(importance["name"])}
    columns = sorted(active_columns(estimator), key=lambda name: ranks.get(name, len(ranks)))
    pairs = sorted(active_pairs(estimator), key=lambda pair: ranks.get(", ".join(pair), len(ranks)))
    return {
        "curves": _curves(estimator, rows, columns[:MOST_CURVES], target),
        "surfaces": _surfaces(estimator, rows, pairs[:MOST_SURFACES], target),
        "more_curves": max(len(columns) - MOST_CURVES, 0),
        "more_surfaces": max(len(pairs) - MOST_SURFACES, 0),
        "effect": effect_of(estimator, target),
    }


def _curves(estimator: BaseEstimator, rows: Any, columns: Sequence[str], target: Hashable) -> Picture | None:
    """Return the functions of single columns on a common scale, with bands where available."""
    if not columns:
        return None
    options: dict[str, Any] = {"columns": columns, "n_points": POINTS, "target": target}
    try:
        display = ShapeDisplay.from_estimator(estimator, rows, bands=True, **options)
    except InvalidInputError:  # no posterior for this loss, or no training rows
        display = ShapeDisplay.from_estimator(estimator, rows, **options)
    text = (
        "The shades are bands of 95 % at the learned weights, for each value and for the whole curve."
        if "std" in display.shapes
        else ""
    )
    title, height = f"What {', '.join(columns)} add", 2.3 * -(-len(columns) // 2) + 0.2
    return draw_picture(lambda figure: display.plot(figure, n_columns=2), title, text=text, height=height)


def _surfaces(
    estimator: BaseEstimator, rows: TableLike, pairs: Sequence[tuple[str, str]], target: Hashable
) -> list[Picture]:
    """Return the effects of pairs of columns, all in the same colors."""
    own: dict[str, Any] = {"n_points": SIDE, "target": target}
    displays = [SurfaceDisplay.from_estimator(estimator, rows, columns=pair, **own) for pair in pairs]
    limit = max((float(one.surface["effect"].abs().max()) for one in displays), default=0.0)
    return [_surface(display, limit) for display in displays]


def _surface(display: SurfaceDisplay, limit: float) -> Picture:
    """Return the effect of a pair, in full color at the limit, with the extremes in words."""
    frame = display.surface
    longest_name = 24
    first, second = (cut_text(name, longest_name) for name in display.names)
    ends: list[Any] = [frame.iloc[int(at)] for at in (frame["effect"].argmin(), frame["effect"].argmax())]
    least, most = (
        f"{end['effect']:+.2g} where {first} is {_show(end['x'])} and {second} is {_show(end['z'])}" for end in ends
    )
    text = f"{first} and {second}: from {least} to {most}."
    return draw_picture(lambda figure: display.plot(figure.subplots(), limit=limit), text, text=text)


def _show(value: object) -> str:
    """Return a value of a column in words."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return (
        f"{value:.3g}" if number else cut_text(str(value)[:10] if isinstance(value, pd.Timestamp) else str(value), 20)
    )
