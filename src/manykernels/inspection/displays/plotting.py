"""Shared parts of the displays: lazy matplotlib, axes, colors for light and dark, and fitted text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from math import ceil, floor, log10
from textwrap import fill
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import pandas as pd

from manykernels.exceptions import optional_module
from manykernels.validation.parameters import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

Color = tuple[float, float, float]  # red, green and blue

# Okabe and Ito's colors without black and yellow, which one of a light and a dark page would swallow. The six are told
# apart with any color vision; a seventh class gets the first color in another style.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D")
HATCHES = ("", "////", "....", "xxxx")
BLUE, ORANGE = 0, 1
GRAY = "#8a8f98"
ONE_PARAMETER = re.compile(r"(\w+)\((\w+)=([^(),=]+)\)")

# Of a letter of the default font, in units of its size; a little more than the mean, so that text is cut too early
# rather than too late.
LETTER_WIDTH, LINE_HEIGHT = 0.6, 1.35
POINTS_AN_INCH = 72.0
LABEL_SHARE = 0.45  # of the width of the axes that labels beside them may take


@dataclass(frozen=True)
class Ink:
    """Colors of text and lines for the background of the axes."""

    text: Color
    muted: Color
    faint: Color
    face: Color
    dark: bool


class Display:
    """A plot as plain data: ``frame()`` returns the data, and ``plot`` draws any number of times.

    A display is a dataclass; the first field is the table, computed by a class method ``from_...``. Subclasses define
    the size (``inches``, or ``_size``) and draw into given axes (``_draw``).

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
        Set by :meth:`plot`.
    """

    ax_: Axes
    figure_: Figure | SubFigure
    inches: ClassVar[tuple[float, float]]
    _draw: Callable[..., None]

    def _size(self, **options: Any) -> tuple[float, float]:
        return self.inches

    def frame(self) -> pd.DataFrame:
        """Return the drawn data.

        Returns
        -------
        DataFrame
            A copy.
        """
        return pd.DataFrame(getattr(self, fields(self)[0].name)).copy()  # type: ignore[arg-type]

    def plot(self, ax: Axes | None = None, **options: object) -> Self:
        """Draw into given or new axes.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            None makes a new figure.
        **options
            Options of the display; all further options go to matplotlib.

        Returns
        -------
        Display
            The display, with ``ax_`` and ``figure_``.
        """
        what = f"{type(self).__name__}.plot"
        require_matplotlib(what)
        ax = axes_of(ax, what, self._size(**options))
        self._draw(ax, **options)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def require_matplotlib(what: str) -> None:
    """Raise ``ImportError`` with the command to run unless matplotlib is installed."""
    optional_module("matplotlib", f"{what} needs matplotlib.", "plot")


def axes_of(ax: Axes | None, what: str, size: tuple[float, float]) -> Axes:
    """Return ``ax``, or the axes of a new figure of ``size`` inches."""
    require_matplotlib(what)
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(figsize=size, layout="constrained")[1]


def ink_of(ax: Axes) -> Ink:
    """Return legible colors for the axes, light or dark."""
    from matplotlib.colors import to_rgb

    text, face = to_rgb(ax.xaxis.label.get_color()), to_rgb(ax.get_facecolor())
    red, green, blue = face
    dark = 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.5
    return Ink(text, mixed(text, face, 0.62), mixed(text, face, 0.13), face, dark)


def mixed(color: Sequence[float], other: Sequence[float], share: float) -> Color:
    """Return ``share`` of a color and the rest of another."""
    red, green, blue = (share * first + (1 - share) * second for first, second in zip(color, other, strict=True))
    return red, green, blue


def color_of(ax: Axes, number: int) -> Any:
    """Return the color of a class or kernel by the number, a little lighter on a dark page."""
    from matplotlib.colors import to_rgb

    color = to_rgb(PALETTE[number % len(PALETTE)])
    return mixed(color, (1.0, 1.0, 1.0), 0.78) if ink_of(ax).dark else color


def line_of(ax: Axes, number: int) -> dict[str, Any]:
    """Return distinct color, dash and marker for the number of a line."""
    return {"color": color_of(ax, number), "linestyle": style_of(number, DASHES), "marker": style_of(number, MARKERS)}


def bar_of(ax: Axes, number: int) -> dict[str, Any]:
    """Return distinct color and hatch for the number of a part of a bar."""
    color, face = color_of(ax, number), ink_of(ax).face
    return {"color": color, "hatch": style_of(number, HATCHES), "edgecolor": face, "linewidth": 0.0}


def style_of(number: int, choices: Sequence[str]) -> str:
    """Return the dash, marker or hatch that distinguishes numbers of equal color."""
    return choices[number // len(PALETTE) % len(choices)]


def short_label(label: str) -> str:
    """Return the name of a kernel with single parameters by value only: ``gaussian(width=0.5)`` is ``gaussian 0.5``."""
    return ONE_PARAMETER.sub(r"\1 \3", label).replace("()", "")


def cut_text(text: str, most: int) -> str:
    """Return text of at most ``most`` letters, shortened in the middle, in the columns of a kernel name."""
    if len(text) <= most:
        return text
    columns, colon, kernel = text.rpartition(": ")
    least_columns = 12  # letters of a label that are left for columns beside a whole kernel, the colon among them
    if colon and len(kernel) <= most - least_columns:
        return cut_text(columns, most - len(kernel) - len(colon)) + colon + kernel
    end = (most - 1) // 3
    return f"{text[: most - 1 - end].rstrip()}…{text[len(text) - end :].lstrip()}"


def cut_labels(names: Iterable[Any], most: int) -> list[str]:
    """Return short labels of at most ``most`` letters, free of dollar signs (typeset by matplotlib).

    Long names of a single kernel on different columns become the names of the columns.
    """
    labels = [short_label(str(name)) for name in names]
    parts = [label.rpartition(": ") for label in labels if ": " in label]
    alike = len(parts) > 1 and len({kernel for _, _, kernel in parts}) == 1
    if alike and len({columns for columns, _, _ in parts}) == len(parts) and max(map(len, labels)) > most:
        labels = [label.rpartition(": ")[0] if ": " in label else label for label in labels]
    return [plain(cut_text(label, most)) for label in labels]


def plain(text: str) -> str:
    """Return text with control and direction characters escaped, for literal display by matplotlib."""
    return printable(text, "\n").replace("$", r"\$")


def name_rows(ax: Axes, names: Iterable[Any], rest: int) -> None:
    """Write names beside rows from the top down, and below, without a tick, the number of hidden rows."""
    labels = cut_labels(names, letters_that_fit(ax))
    ax.set_yticks(range(len(labels) + (rest > 0)), [*labels, *([and_more(rest)] if rest > 0 else [])])
    ax.set_ylim(max(len(labels) + (rest > 0), 1) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    if rest > 0:
        ax.get_yticklabels()[-1].set(color=ink_of(ax).muted, style="italic")


def name_levels(ax: Axes, levels: Sequence[Any]) -> None:
    """Write the levels of a category below their places, upright for lack of space, in a fitting size."""
    room = 72 * inches_of(ax)[0] / max(len(levels), 1)
    texts, size = [cut_text(str(level), 10) for level in levels], min(font_points(), 0.75 * room)
    wide = 0.7 * size * max(map(len, texts), default=0) > 0.8 * room  # a letter is about 0.7 of its height
    ax.set_xticks(range(len(levels)), list(map(plain, texts)), rotation=90 if wide else 0, fontsize=size)


def and_more(count: int, what: str = "") -> str:
    """Return how many are left out, in words."""
    return f"and {count:,} more {what}".rstrip()


def font_points() -> float:
    """Return the size of tick labels in points."""
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties

    return float(FontProperties(size=rcParams["ytick.labelsize"]).get_size_in_points())


def inches_of(ax: Axes) -> tuple[float, float]:
    """Return width and height of the axes."""
    box, (width, height) = ax.get_position(), size_of(ax.figure)
    return float(box.width * width), float(box.height * height)


def size_of(figure: Figure | SubFigure) -> tuple[float, float]:
    """Return width and height in inches of a figure, or of a subfigure."""
    return float(figure.bbox.width / figure.dpi), float(figure.bbox.height / figure.dpi)


def rows_that_fit(ax: Axes, reserved: float = 0.0) -> int:
    """Return the number of lines of text that fit beside ``reserved`` inches, at least two."""
    return max(2, int((inches_of(ax)[1] - reserved) * POINTS_AN_INCH / (LINE_HEIGHT * font_points())))


def letters_that_fit(ax: Axes, share: float = LABEL_SHARE) -> int:
    """Return the number of letters that fit into a share of the width of the axes, within legible limits."""
    shortest_label, longest_label = 20, 44
    return min(longest_label, max(shortest_label, int(letters_in(share * inches_of(ax)[0]))))


def letters_in(inches: float) -> float:
    """Return how many letters a line of the length has room for."""
    return inches * POINTS_AN_INCH / (LETTER_WIDTH * font_points())


def legend_letters(ax: Axes) -> int:
    """Return the maximum line length of a legend beside the axes, in letters."""
    return min(32, max(14, int(0.25 * size_of(ax.figure)[0] * POINTS_AN_INCH / 4.5)))


def write(ax: Axes, *, title: str | None = None, xlabel: str | None = None, **style: Any) -> None:
    """Set title or label of the axes, wrapped for narrow axes."""
    width = letters_in(0.9 * inches_of(ax)[0])
    if title is not None:
        ax.set_title(fill(title, max(16, int(width / 1.2))), **style)
    if xlabel is not None:
        ax.set_xlabel(fill(xlabel, max(16, int(width))), **style)


def log_ticks(ax: Axes, share: float = 0.6) -> None:
    """Write 1, 2, 5 or powers of ten below a logarithmic axis, as many as fit into a share of the width."""
    low, high = sorted(ax.get_xlim())
    powers = range(floor(log10(low)) - 1, ceil(log10(high)) + 1)
    tick_room = 0.5  # inches that a number below an axis takes
    for steps in ((1, 2, 5), (1, 3), (1,)):
        places = [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
        most = max(1, int(share * inches_of(ax)[0] / tick_room))
        if len(places) <= most:
            break
    places = places[:: max(1, -(-len(places) // most))] or [low]  # a narrow range has none
    ax.set_xticks(places, [f"{place:g}" for place in places])
    ax.set_xticks([], minor=True)


def legend_beside(ax: Axes, n_left_out: int = 0, what: str = "", **style: Any) -> None:
    """Put a legend to the right of the axes, with a last line for omitted entries."""
    handles, labels = ax.get_legend_handles_labels()
    if n_left_out > 0:
        from matplotlib.lines import Line2D

        handles = [*handles, Line2D([], [], linestyle="none")]
        labels = [*labels, and_more(n_left_out, what)]
    if handles:
        place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}
        ax.legend(handles, labels, **{**place, "frameon": False, "fontsize": "small", **style})


def clean(ax: Axes, *, grid: Literal["x", "y"] | None = None) -> None:
    """Remove the upper and right spine, and put a light grid behind the data."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_axisbelow(True)
    if grid is not None:
        ax.grid(axis=grid, color=ink_of(ax).faint, linewidth=0.8)
