"""Weights of kernels, views and columns as bars; places and scales as a map; and an overview.

Any named numbers with intervals, line by line: scores of several models, or importances of columns.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from manykernels.exceptions import InvalidInputError
from manykernels.inspection.displays import plotting as draw
from manykernels.inspection.displays.curves import ConvergenceDisplay
from manykernels.inspection.displays.kernel_table import (
    SEVERAL,
    feature_names,
    groups_of,
    kernel_table,
    places_and_kinds,
    summed_by,
    target_column,
    target_table,
)
from manykernels.inspection.pipelines import unwrapped
from manykernels.validation.arrays import Array, check_choice, check_count
from manykernels.validation.parameters import check_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

VALUES = {"weight": "kernel weight", "norm": "norm of the part", "norm_share": "share of the norms"}
COUNTED = {"kernel": "kernels", "view": "views", "column": "columns", "kind": "kinds of kernel"}


@dataclass(kw_only=True, eq=False, repr=False)
class KernelWeightsDisplay(draw.Display):
    """The heaviest kernels of a model as horizontal bars, or sums over views, columns or kinds of kernel.

    Create with :meth:`from_estimator`. With several classes or outputs a bar is the mean of all, and the colored parts
    are the contributions to the mean.

    ``plot(color=...)`` colors the bars of a single class or output; other options go to ``Axes.barh``. The number of
    bars depends on the space.

    Parameters
    ----------
    kernels : DataFrame
        ``name`` and ``value``, the heaviest first, then a column per class or output.
    n_active : int
        Number of kernels (views, columns, kinds) with a positive weight, shown or not.
    n_kernels : int
        Their number in all.
    value : str
        Quantity of the bars: ``"weight"``, ``"norm"`` or ``"norm_share"``.
    by : str, default="kernel"
        Unit of a bar: ``"kernel"``, ``"view"``, ``"column"`` or ``"kind"``.
    target : str, default=""
        The class or output, or of how many the bars are the mean, for the title.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> from manykernels.inspection import KernelWeightsDisplay
    >>> X = np.random.default_rng(0).uniform(-2, 2, (40, 2))
    >>> model = MKLRegressor().fit(X, np.sin(X[:, 1]))
    >>> display = KernelWeightsDisplay.from_estimator(model, top=3)
    >>> display.frame()["name"].iloc[0].startswith("x1")
    True
    >>> KernelWeightsDisplay.from_estimator(model, by="column", value="norm_share").frame()["name"].iloc[0]
    'x1'
    """

    kernels: pd.DataFrame
    n_active: int
    n_kernels: int
    value: str = "weight"
    by: str = "kernel"
    target: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        top: int = 20,
        value: str = "weight",
        target: Hashable = None,
        by: str = "kernel",
    ) -> Self:
        """Take the heaviest kernels of a fitted estimator.

        Parameters
        ----------
        estimator : MKLClassifier or MKLRegressor, or a Pipeline around an estimator
        top : int, default=20
            Most bars to show.
        value : {"weight", "norm", "norm_share"}, default="weight"
            ``d_m``, ``||f_m||``, or the share of the norm in the sum of norms.
        target : label, int or None, default=None
            A class or output, where there are several; None is the mean of all.
        by : {"kernel", "view", "column", "kind"}, default="kernel"
            What to sum over: the kernels of a view (or of one selection of columns), of a column of the table (a kernel
            of several columns counts in equal parts for each), or of a kind of kernel.

        Raises
        ------
        InvalidInputError
            For an unknown value, target or ``by``.
        """
        check_choice(value, VALUES, "value")
        by, (estimator, _) = check_unit(by), unwrapped(estimator)
        table = kernel_table(estimator, target)
        values = target_table(estimator, value) if target is None else table.set_index("name")[[value]]
        sums = summed_by(values, groups_of(estimator, table, by))
        active = summed_by(table.set_index("name")[["weight"]], groups_of(estimator, table, by))["weight"] > 0
        shown = sums[active].assign(value=sums.mean(axis=1)).sort_values("value", ascending=False, kind="stable")
        shown.insert(0, "value", shown.pop("value"))
        shown = shown if values.shape[1] > 1 else shown[["value"]]
        return cls(
            kernels=shown.head(check_count(top, "top")).reset_index(),
            n_active=int(active.sum()),
            n_kernels=len(sums),
            value=value,
            by=by,
            target=_target_text(estimator, target, values.shape[1]),
        )

    def _size(self, **options: object) -> tuple[float, float]:
        return 7.0, 1.0 + 0.27 * max(len(self.kernels) + 1, 4)

    def _draw(self, ax: Axes, *, color: str | None = None, **bar_style: Any) -> None:
        """Draw the bars, as many as there is room for."""
        shown = self.kernels.head(draw.rows_that_fit(ax))
        if self.n_active > len(shown):
            shown = self.kernels.head(draw.rows_that_fit(ax) - 1)
        parts = shown.iloc[:, 2:]
        most_stacked = 12  # classes whose parts of a bar can be told apart
        if 1 < parts.shape[1] <= most_stacked:
            ends = np.zeros(len(parts))
            for number, (label, values) in enumerate(parts.items()):
                part = values.to_numpy() / parts.shape[1]
                text = draw.cut_text(draw.plain(str(label)), 18)
                ax.barh(range(len(parts)), part, left=ends, label=text, **{**draw.bar_of(ax, number), **bar_style})
                ends += part
            draw.legend_beside(ax)
        else:
            color = draw.color_of(ax, draw.BLUE) if color is None else color
            ax.barh(range(len(shown)), shown["value"], color=color, **bar_style)
        draw.name_rows(ax, shown["name"], self.n_active - len(shown))
        ax.set_xlim(left=0)
        draw.write(ax, xlabel=f"{VALUES[self.value]}{self.target}")
        draw.write(ax, title=f"{self.n_active:,} of {self.n_kernels:,} {COUNTED[self.by]} selected")
        draw.clean(ax, grid="x")


def _target_text(estimator: BaseEstimator, target: Hashable, n_targets: int) -> str:
    """Return the label of a bar value: ``", class b"``, ``", mean of 3 classes"``, or an empty text."""
    if target is None and n_targets < 2:
        return ""
    column = target_column(estimator.weights_frame()) or "output"
    return f", {column} {target}" if target is not None else f", mean of {n_targets} {SEVERAL[column]}"


ACROSS = ("kind", "target")
MOST_ROWS, MOST_COLUMNS = 40, 40
LONGEST_KIND = 24  # letters


@dataclass(kw_only=True, eq=False, repr=False)
class WeightMapDisplay(draw.Display):
    """Kernel weights as a heat map: a row per column of the table, kernels on several columns below, a column per kind.

    Create with :meth:`from_estimator`. A large map shows the heaviest rows and columns and the number of hidden ones;
    ``frame()`` has all.

    ``plot`` takes ``cmap`` (None goes from light green to dark blue, on a dark background back), ``colorbar``, and
    ``max_rows`` and ``max_columns`` (40; fewer if given axes are small); further options go to ``Axes.pcolormesh``.
    Colors follow the square root of the weight, for visible light kernels; zero weight has the color of the background,
    absent kernels are gray.

    Parameters
    ----------
    weights : DataFrame
        Weights by place (rows) and kind of kernel (columns); NaN for kernels absent from the bank.
    n_single : int
        Number of leading rows of single columns of the table; a line separates the rest.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import Gaussian, KernelBank, MKLRegressor
    >>> from manykernels.inspection import WeightMapDisplay
    >>> X = np.random.default_rng(0).uniform(-2, 2, (40, 2))
    >>> bank = KernelBank.per_feature(widths=[0.5, 1.0]) + KernelBank.joint(widths=[0.5])
    >>> WeightMapDisplay.from_estimator(MKLRegressor(bank).fit(X, X[:, 1])).frame().shape
    (3, 2)
    """

    weights: pd.DataFrame
    n_single: int

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, target: Hashable = None, active_only: bool = False, across: str = "kind"
    ) -> Self:
        """Take the weights of a fitted estimator.

        Parameters
        ----------
        estimator : MKLClassifier or MKLRegressor, or a Pipeline around an estimator
        target : label, int or None, default=None
            A class or output, where there are several; None is the mean of all.
        active_only : bool, default=False
            Leave out rows without any weight.
        across : {"kind", "target"}, default="kind"
            Columns of the map: kinds of kernel, or classes (outputs) summed over kinds.

        Raises
        ------
        InvalidInputError
            For an unknown target, or ``across="target"`` of a single-output model.
        """
        check_choice(across, ACROSS, "across")
        estimator, _ = unwrapped(estimator)
        table = kernel_table(estimator, target)
        frame = _weights_by_kind(estimator, table) if across == "kind" else _weights_by_target(estimator, table)
        single = set(feature_names(estimator))
        order = sorted(range(len(frame)), key=lambda row: frame.index[row] not in single)
        frame = frame.iloc[order]
        if active_only:
            frame = frame[frame.sum(axis=1) > 0]
        return cls(weights=frame, n_single=sum(place in single for place in frame.index))

    def _size(
        self, *, max_rows: int = MOST_ROWS, max_columns: int = MOST_COLUMNS, **other: object
    ) -> tuple[float, float]:
        check_count(max_rows, "max_rows"), check_count(max_columns, "max_columns")
        n_rows, n_columns = (min(*pair) for pair in zip(self.weights.shape, (max_rows, max_columns), strict=True))
        return 4.0 + 0.27 * n_columns, 1.2 + _height_of_labels(self.weights.columns) + 0.22 * (n_rows + 1)

    def _draw(
        self,
        ax: Axes,
        *,
        cmap: str | Colormap | None = None,
        colorbar: bool = True,
        max_rows: int = MOST_ROWS,
        max_columns: int = MOST_COLUMNS,
        **image_style: object,
    ) -> None:
        """Draw the map; colors follow the square root of the weight, for visible light kernels."""
        below = _height_of_labels(self.weights.columns)
        fitting = int(draw.inches_of(ax)[0] * draw.POINTS_AN_INCH / (draw.LINE_HEIGHT * draw.font_points()))
        frame = self.weights
        rows = _largest(frame.sum(axis=1).to_numpy(), min(max_rows, draw.rows_that_fit(ax, below + 0.1)))
        columns = _largest(frame.sum(axis=0).to_numpy(), min(max_columns, max(2, fitting)))
        shown, n_single = frame.iloc[rows, columns], int(np.count_nonzero(rows < self.n_single))
        ink, image = draw.ink_of(ax), _draw_cells(ax, shown.to_numpy(), cmap, **image_style)
        (n_rows, n_columns), (of_rows, of_columns) = shown.shape, self.weights.shape
        places = ["all columns" if place == "all" else str(place) for place in shown.index]
        rest = of_rows - n_rows
        labels = [*draw.cut_labels(places, draw.letters_that_fit(ax)), *([draw.and_more(rest)] if rest else [])]
        ax.set_yticks(np.arange(len(labels)) + 0.5, labels)
        ax.set_ylim(len(labels), 0)
        if rest:
            ax.get_yticklabels()[-1].set(color=ink.muted, style="italic")
        headed = _label_columns(ax, [str(kind) for kind in shown.columns], ink)
        ax.tick_params(length=0)
        if n_columns < of_columns:
            draw.write(ax, xlabel=f"{draw.and_more(of_columns - n_columns)} of them", color=ink.muted, style="italic")
        if 0 < n_single < n_rows:
            ax.axhline(n_single, color=ink.muted, linewidth=0.8)
        what = shown.columns.name or "kernel"
        draw.write(ax, title=f"Weight of each column and {what}", pad=34 if headed else None)
        if colorbar:
            ax.figure.colorbar(image, ax=ax, label="kernel weight", shrink=0.6, pad=0.02)


def _draw_cells(ax: Axes, values: Array, cmap: str | Colormap | None, **image_style: object) -> Any:
    """Draw a cell per weight, faint where there is no kernel, and return the image of the weights."""
    from matplotlib.colors import ListedColormap, PowerNorm

    ink, largest = draw.ink_of(ax), float(np.nanmax(values, initial=0.0)) or 1.0
    edges: dict[str, Any] = {"edgecolors": [ink.faint], "linewidth": 0.6}
    colors = _colors(ink) if cmap is None else cmap
    style: dict[str, Any] = {"norm": PowerNorm(0.5, 0.0, largest), "cmap": colors, **edges}
    drawn = np.ma.masked_where(np.isnan(values) | (values == 0), values)
    ax.pcolormesh(np.isnan(values), cmap=ListedColormap([ink.face, ink.faint]), vmin=0, vmax=1, **edges)
    return ax.pcolormesh(drawn, **{**style, **image_style})


def _weights_by_kind(estimator: BaseEstimator, table: pd.DataFrame) -> pd.DataFrame:
    """Return the weights by place and kind; NaN where there is no kernel."""
    pairs = places_and_kinds(estimator, table)
    places, kinds = (list(dict.fromkeys(part)) for part in zip(*pairs, strict=True))
    row_of, column_of = ({name: at for at, name in enumerate(names)} for names in (places, kinds))
    rows, columns = [row_of[place] for place, _ in pairs], [column_of[kind] for _, kind in pairs]
    sums, there = np.zeros((len(places), len(kinds))), np.zeros((len(places), len(kinds)), dtype=bool)
    np.add.at(sums, (rows, columns), table["weight"].to_numpy())
    there[rows, columns] = True
    index, header = pd.Index(places, name="columns"), pd.Index(kinds, name="kernel")
    return pd.DataFrame(np.where(there, sums, np.nan), index=index, columns=header)


def _weights_by_target(estimator: BaseEstimator, table: pd.DataFrame) -> pd.DataFrame:
    """Return the weights by place and class or output."""
    column = target_column(estimator.weights_frame())
    if column is None:
        raise InvalidInputError('across="target" needs a model with several classes or outputs; this one has one.')
    frame = summed_by(target_table(estimator, "weight"), groups_of(estimator, table, "view"))
    return frame.rename_axis(index="columns", columns=column)


def _height_of_labels(kinds: pd.Index) -> float:
    """Return the height in inches of the vertical names of the columns."""
    longest = max((len(_value(str(kind))) for kind in kinds), default=0)
    return draw.LETTER_WIDTH * min(longest, LONGEST_KIND) * draw.font_points() / draw.POINTS_AN_INCH


def _largest(sums: np.ndarray, most: int) -> np.ndarray:
    """Return the positions of the ``most`` largest values, increasing."""
    return np.sort(np.argsort(-sums, kind="stable")[:most])


def _label_columns(ax: Axes, kinds: list[str], ink: draw.Ink) -> bool:
    """Write the kinds below and, above kernels with a single differing parameter, the name; return whether written."""
    letters = (
        draw.inches_of(ax)[0] / max(len(kinds), 1) * draw.POINTS_AN_INCH / (draw.LETTER_WIDTH * draw.font_points())
    )
    groups = [
        (heading if max(map(len, heading.split("\n"))) <= letters * (end - start) else "", start, end)
        for heading, start, end in _groups(kinds)
    ]
    labels = [_value(kind) if name else kind for name, start, end in groups for kind in kinds[start:end]]
    ax.set_xticks(np.arange(len(kinds)) + 0.5, draw.cut_labels(labels, LONGEST_KIND), rotation=90)
    for name, start, end in groups:
        ax.annotate(
            name, ((start + end) / 2, 1), (0, 4), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha="center", color=ink.text, annotation_clip=False,
        )  # fmt: skip
        if end < len(kinds):
            ax.axvline(end, color=ink.muted, linewidth=0.8)
    return any(name for name, _, _ in groups)


def _family(kind: str) -> str:
    """Return name and parameter, on two lines, of a kernel with a single parameter; else an empty text."""
    match = draw.ONE_PARAMETER.fullmatch(kind)
    return f"{draw.cut_text(match[1], 20)}\n{match[2]}" if match else ""


def _value(kind: str) -> str:
    match = draw.ONE_PARAMETER.fullmatch(kind)
    return match[3] if match else kind


def _groups(kinds: list[str]) -> list[tuple[str, int, int]]:
    """Return (name, first, end) of runs of kernels with a single differing parameter; lone kernels have no name."""
    groups, start = [], 0
    for family, run in groupby(kinds, key=_family):
        length = len(list(run))
        # Classes, and kernels without a parameter, are columns by themselves: no line is drawn among them.
        groups.append((family if length > 1 else "", start, start + length))
        start += length
    return groups


def _colors(ink: Any) -> Any:
    """Return light green to dark blue, or back on a dark page, so the lightest kernel differs from none."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    colors = colormaps["YlGnBu"](np.linspace(0.2, 1.0, 256))
    return ListedColormap(
        [draw.mixed(color[:3], (1.0, 1.0, 1.0), 0.85) for color in colors[::-1]] if ink.dark else colors
    )


# One picture of a fitted model: its kernels, its convergence, and the map of its weights.


BESIDE: dict[str, Any] = {"mosaic": [["weights", "map"], ["convergence", "map"]], "width_ratios": [1.0, 1.55]}
BELOW: dict[str, Any] = {"mosaic": [["weights"], ["convergence"], ["map"]], "height_ratios": [1.0, 0.7, 1.6]}
SMALL: Any = {"font.size": 9, "axes.titlesize": 11, "axes.titleweight": "bold", "axes.titlelocation": "left"}
SMALLER: Any = SMALL | {"font.size": 8, "axes.titlesize": 9}


def plot_overview(
    estimator: BaseEstimator, *, title: str | None = None, top: int = 20, x: str = "elapsed_s", narrow: bool = False
) -> Any:
    """Draw the kernel weights, the convergence and the map of weights of a fitted estimator into one figure.

    Parameters
    ----------
    estimator : MKLClassifier or MKLRegressor, or a Pipeline around an estimator
    title : str or None, default=None
        Line above the panels.
    top : int, default=20
        Most kernels among the bars.
    x : {"elapsed_s", "passes", "newton_steps", "iteration"}, default="elapsed_s"
        Horizontal axis of the convergence plot.

    narrow : bool, default=False
        Draw the panels stacked, for a width of 400 pixels.

    Returns
    -------
    matplotlib Figure
        Not registered with pyplot: save with ``figure.savefig``.

    Raises
    ------
    ImportError
        Without matplotlib (the extra ``plot``).
    """
    draw.require_matplotlib("plot_overview")
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    weights = KernelWeightsDisplay.from_estimator(estimator, top=top)
    convergence = ConvergenceDisplay.from_estimator(estimator)
    with matplotlib.rc_context(SMALLER if narrow else SMALL):
        spacing = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08, wspace=0.02)
        figure = Figure(figsize=(4.8, 12.0) if narrow else (15.0, 8.2), layout=spacing)
        axes = figure.subplot_mosaic(**(BELOW if narrow else BESIDE))
        weights.plot(axes["weights"])
        convergence.plot(axes["convergence"], x=x, annotate=len(convergence.history["run"].unique()) == 1)
        WeightMapDisplay.from_estimator(estimator).plot(axes["map"])
        if title is not None:
            figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
    return figure


NAMES, NUMBERS, SPREADS = ("name", "method"), ("importance", "score", "value"), ("standard_error", "std")
MOST_LINES = 3  # of a name


@dataclass(kw_only=True, eq=False, repr=False)
class IntervalDisplay(draw.Display):
    """Numbers as dots with their intervals as lines, on a single axis from the top down.

    Create with :meth:`from_frame`. Long names are wrapped. Rows with ``reference`` inside the interval are gray;
    options of ``plot`` go to ``Axes.errorbar``.

    Parameters
    ----------
    intervals : DataFrame
        ``name``, ``value``, ``low`` and ``high``; the ends are NaN if unknown.
    label, title : str
        Of the axis, and above the picture.
    reference : float or None, default=None
        A number to mark by a line, for example zero, or the score of the model of the reference model.
    n_more : int, default=0
        Numbers left out.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor, predictive_importance
    >>> from manykernels.inspection import IntervalDisplay
    >>> X = np.random.default_rng(0).uniform(-2, 2, (100, 3))
    >>> y = np.sin(2 * X[:, 1])
    >>> table = predictive_importance(MKLRegressor().fit(X[:60], y[:60]), X[60:], y[60:], random_state=0)
    >>> IntervalDisplay.from_frame(table).frame()["name"].iloc[0]
    'x1'
    """

    intervals: pd.DataFrame
    label: str = ""
    title: str = ""
    reference: float | None = None
    n_more: int = 0

    @classmethod
    def from_frame(
        cls, table: pd.DataFrame, *, top: int = 12, label: str = "", title: str = "", reference: float | None = None
    ) -> Self:
        """Take a table like the results of ``predictive_importance``, ``leave_one_out_importance`` and ``compare``.

        Parameters
        ----------
        table : DataFrame
            ``name`` or ``method``; ``importance``, ``score`` or ``value``; and either the ends ``low`` and ``high`` of
            an interval, or a standard error (``standard_error``, ``std``), for a 95% interval. In the order drawn.
        top : int, default=12
            Most rows to show, the first ones.
        label, title : str, default=""
            Of the axis, and above the picture; without a label, the name of the column.
        reference : float or None, default=None
            A number to mark; of importances zero unless another is given.

        Raises
        ------
        InvalidInputError
            If the table has no names or no numbers.
        """
        name, value = (next((one for one in known if one in table), "") for known in (NAMES, NUMBERS))
        if not name or not value:
            raise InvalidInputError(
                f"The table needs a column {' or '.join(NAMES)} and a column {', '.join(NUMBERS)}; it has "
                f"{', '.join(map(str, table.columns))}."
            )
        spread = next((one for one in SPREADS if one in table), None)
        low, high = np.full(len(table), np.nan), np.full(len(table), np.nan)
        normal = 1.96  # standard errors to each side, for 95 %
        if {"low", "high"} <= set(table):
            low, high = table["low"].to_numpy(), table["high"].to_numpy()
        elif spread is not None:
            low, high = (table[value].to_numpy() + sign * normal * table[spread].to_numpy() for sign in (-1, 1))
        rows = pd.DataFrame({"name": table[name].to_numpy(), "value": table[value].to_numpy()})
        rows, n_more = rows.assign(low=low, high=high), max(0, len(rows) - check_count(top, "top"))
        reference = 0.0 if reference is None and value == "importance" else reference
        return cls(intervals=rows.head(top), label=label or value, title=title, reference=reference, n_more=n_more)

    def _size(self, **options: object) -> tuple[float, float]:
        return 6.0, 0.8 + 0.5 * max(len(self.intervals) + (self.n_more > 0), 3)

    def _draw(self, ax: Axes, **line_style: Any) -> None:
        """Draw dots and lines."""
        shown = self.intervals.head(max(2, draw.rows_that_fit(ax) // 2))
        blue, places = draw.color_of(ax, draw.BLUE), np.arange(len(shown))
        numbers = shown[["value", "low", "high"]].to_numpy(dtype=float).tolist()
        for at, (value, low, high) in zip(places, numbers, strict=True):
            unsure = self.reference is not None and low <= self.reference <= high
            style = {"color": draw.GRAY if unsure else blue, "fmt": "o", "markersize": 5, "capsize": 3, **line_style}
            ends = None if np.isnan(low) else [[max(value - low, 0.0)], [max(high - value, 0.0)]]
            ax.errorbar([value], [at], xerr=ends, **style)
        if self.reference is not None:
            ax.axvline(self.reference, color=draw.ink_of(ax).muted, linestyle="--", linewidth=1, zorder=0)
        draw.name_rows(ax, shown["name"], self.n_more + len(self.intervals) - len(shown))
        rest = [label.get_text() for label in ax.get_yticklabels()[len(shown) :]]  # the line on what is left out
        ax.set_yticklabels([*(_lines(name, draw.letters_that_fit(ax)) for name in shown["name"]), *rest])
        draw.write(ax, xlabel=draw.plain(self.label), title=draw.plain(self.title) or None)
        draw.clean(ax, grid="x")


def _lines(name: object, most: int) -> str:
    """Return a name wrapped to lines, the last one shortened beyond the limit."""
    lines = wrap(draw.short_label(str(name)), most)
    return draw.plain(
        "\n".join([*lines[: MOST_LINES - 1], draw.cut_text(" ".join(lines[MOST_LINES - 1 :]), most)]).strip()
    )
