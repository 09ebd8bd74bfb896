"""How often kernels or views are selected in random halves of the samples, as bars beside the threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import pandas as pd

from manykernels.inspection.displays.plotting import (
    Display,
    clean,
    color_of,
    ink_of,
    name_rows,
    rows_that_fit,
    write,
)
from manykernels.inspection.evidence.stability import StabilitySelection
from manykernels.validation.arrays import check_count

BLUE, GREEN = 0, 2
COUNTED = {"kernel": "kernels", "view": "views"}


@dataclass(kw_only=True, eq=False, repr=False)
class StabilityDisplay(Display):
    """Selection frequencies as horizontal bars; those that reach the threshold stand out.

    Make it with :meth:`from_selection`.

    As many bars are drawn as there is room for; options of ``plot`` go to ``Axes.barh``.

    Parameters
    ----------
    frequencies : DataFrame
        ``name``, ``frequency`` and ``selected`` of the units to show.
    selection : StabilitySelection
        All of them, with threshold and bound.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor, stability_selection
    >>> X = np.random.default_rng(0).uniform(-2, 2, (80, 4))
    >>> found = stability_selection(MKLRegressor(), X, np.sin(2 * X[:, 1]), n_pairs=3, random_state=0)
    >>> StabilityDisplay.from_selection(found, top=2).frame()["name"].iloc[0]
    'x1'
    """

    frequencies: pd.DataFrame
    selection: StabilitySelection

    @classmethod
    def from_selection(cls, selection: StabilitySelection, *, top: int = 20) -> Self:
        """Take the frequencies of a stability selection.

        Parameters
        ----------
        selection : StabilitySelection
        top : int, default=20
            Most units to show, the most frequent first.

        Returns
        -------
        StabilityDisplay

        Raises
        ------
        InvalidInputError
            If ``top`` is no positive whole number.
        """
        table = selection.frame()
        return cls(frequencies=table[table["frequency"] > 0].head(check_count(top, "top")), selection=selection)

    def _size(self, **options: object) -> tuple[float, float]:
        return 7.0, 1.0 + 0.27 * max(len(self.frequencies) + 1, 4)

    def _draw(self, ax: Any, **bar_style: object) -> None:
        """Draw the bars, as many as there is room for, and the threshold as a line."""
        room, ever = rows_that_fit(ax), int((self.selection.frequencies > 0).sum())
        shown = self.frequencies.head(room if ever <= min(room, len(self.frequencies)) else room - 1)
        colors = [color_of(ax, GREEN if chosen else BLUE) for chosen in shown["selected"]]
        ax.barh(range(len(shown)), shown["frequency"], **{"color": colors, **bar_style})
        ax.axvline(self.selection.threshold, color=ink_of(ax).muted, linestyle="--", linewidth=1.0)
        self._finish(ax, shown, ever - len(shown))

    def _finish(self, ax: Any, shown: pd.DataFrame, rest: int) -> None:
        """Write names, title and axis."""
        found = self.selection
        name_rows(ax, shown["name"], rest)
        ax.set_xlim(0, 1)
        counted = COUNTED[found.by] if len(found.selected) != 1 else COUNTED[found.by][:-1]
        write(ax, title=f"{len(found.selected)} stable {counted}; at most {found.error_bound:.2g} expected to be false")
        write(ax, xlabel=f"share of {found.n_halves} halves among the first {found.n_first} to enter")
        clean(ax, grid="x")
