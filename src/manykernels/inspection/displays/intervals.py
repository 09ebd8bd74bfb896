"""Named numbers with intervals, one a line: scores beside those of other models, or what each column is worth."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from manykernels.exceptions import InvalidInputError
from manykernels.inspection.displays.plotting import (
    BLUE,
    GRAY,
    Display,
    clean,
    color_of,
    cut_text,
    ink_of,
    letters_that_fit,
    name_rows,
    plain,
    rows_that_fit,
    short_label,
    write,
)
from manykernels.validation.arrays import check_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMES, VALUES, SPREADS = ("name", "method"), ("importance", "score", "value"), ("standard_error", "std")
NORMAL = 1.96  # standard errors to each side, for 95 %
MOST_LINES = 3  # of a name


@dataclass(kw_only=True, eq=False, repr=False)
class IntervalDisplay(Display):
    """Numbers as dots with their intervals as lines, on one axis from the top down.

    Make it with :meth:`from_frame`. Names that are too long for a line are written on several. What cannot be told from
    ``reference`` (its interval holds it) is gray; options of ``plot`` go to ``Axes.errorbar``.

    Parameters
    ----------
    intervals : DataFrame
        ``name``, ``value``, ``low`` and ``high``; the ends are NaN where they are not known.
    label, title : str
        Of the axis, and above the picture.
    reference : float or None, default=None
        A number to mark by a line, such as zero, or the score of the model that others are compared with.
    n_more : int, default=0
        Numbers that are left out.

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
        """Take a table such as those of ``predictive_importance``, ``leave_one_out_importance`` and ``compare``.

        Parameters
        ----------
        table : DataFrame
            ``name`` or ``method``; ``importance``, ``score`` or ``value``; and either the ends ``low`` and ``high`` of
            an interval, or a standard error (``standard_error``, ``std``), which gives one of 95 %. In the order drawn.
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
        name, value = (next((one for one in known if one in table), "") for known in (NAMES, VALUES))
        if not name or not value:
            raise InvalidInputError(
                f"The table needs a column {' or '.join(NAMES)} and a column {', '.join(VALUES)}; it has "
                f"{', '.join(map(str, table.columns))}."
            )
        spread = next((one for one in SPREADS if one in table), None)
        low, high = np.full(len(table), np.nan), np.full(len(table), np.nan)
        if {"low", "high"} <= set(table):
            low, high = table["low"].to_numpy(), table["high"].to_numpy()
        elif spread is not None:
            low, high = (table[value].to_numpy() + sign * NORMAL * table[spread].to_numpy() for sign in (-1, 1))
        rows = pd.DataFrame({"name": table[name].to_numpy(), "value": table[value].to_numpy()})
        rows, n_more = rows.assign(low=low, high=high), max(0, len(rows) - check_count(top, "top"))
        reference = 0.0 if reference is None and value == "importance" else reference
        return cls(intervals=rows.head(top), label=label or value, title=title, reference=reference, n_more=n_more)

    def _size(self, **options: object) -> tuple[float, float]:
        return 6.0, 0.8 + 0.5 * max(len(self.intervals) + (self.n_more > 0), 3)

    def _draw(self, ax: Axes, **line_style: Any) -> None:
        """Draw dots and lines."""
        shown = self.intervals.head(max(2, rows_that_fit(ax) // 2))
        blue, places = color_of(ax, BLUE), np.arange(len(shown))
        numbers = shown[["value", "low", "high"]].to_numpy(dtype=float).tolist()
        for at, (value, low, high) in zip(places, numbers, strict=True):
            unsure = self.reference is not None and low <= self.reference <= high
            style = {"color": GRAY if unsure else blue, "fmt": "o", "markersize": 5, "capsize": 3, **line_style}
            ends = None if np.isnan(low) else [[max(value - low, 0.0)], [max(high - value, 0.0)]]
            ax.errorbar([value], [at], xerr=ends, **style)
        if self.reference is not None:
            ax.axvline(self.reference, color=ink_of(ax).muted, linestyle="--", linewidth=1, zorder=0)
        name_rows(ax, shown["name"], self.n_more + len(self.intervals) - len(shown))
        ax.set_yticklabels([*(_lines(name, letters_that_fit(ax)) for name in shown["name"]), *_rest(ax, len(shown))])
        write(ax, xlabel=plain(self.label), title=plain(self.title) or None)
        clean(ax, grid="x")


def _lines(name: object, most: int) -> str:
    """Return a name on as many lines as it needs, the last one cut where there would be too many."""
    lines = wrap(short_label(str(name)), most)
    return plain("\n".join([*lines[: MOST_LINES - 1], cut_text(" ".join(lines[MOST_LINES - 1 :]), most)]).strip())


def _rest(ax: Axes, n_names: int) -> list[str]:
    """Return the line on what is left out, if there is one."""
    return [label.get_text() for label in ax.get_yticklabels()[n_names:]]
