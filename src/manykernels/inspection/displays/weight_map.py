"""Where and at which scale a model looks: the weights as a map of columns by kinds of kernel."""

from __future__ import annotations

from itertools import groupby
from typing import Any, Self

import numpy as np
import pandas as pd

from manykernels.inspection.displays.kernel_table import kernel_table, place_and_kind
from manykernels.inspection.displays.plotting import ONE_PARAMETER, axes_of, short_label

DARK = "#3a3f47"


class WeightMapDisplay:
    """Kernel weights as a heat map: one row a column of the table, kernels on several columns below, one column a kind.

    Make it with :meth:`from_estimator`.

    Parameters
    ----------
    weights : DataFrame
        Weights by place (rows) and kind of kernel (columns); NaN where the bank has no such kernel.
    n_single : int
        Number of leading rows that are single columns of the table; a line separates the others.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
        Set by :meth:`plot`.

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

    def __init__(self, *, weights: pd.DataFrame, n_single: int) -> None:
        self.weights = weights
        self.n_single = n_single

    @classmethod
    def from_estimator(cls, estimator: Any, *, target: Any = None, active_only: bool = False) -> Self:
        """Take the weights of a fitted estimator.

        Parameters
        ----------
        estimator : MKLClassifier or MKLRegressor
        target : label, int or None, default=None
            A class or output, where there are several; None is the mean of all.
        active_only : bool, default=False
            Leave out rows without any weight.

        Returns
        -------
        WeightMapDisplay
        """
        table = kernel_table(estimator, target)
        pairs = [place_and_kind(*row) for row in table[["name", "kernel", "columns"]].itertuples(index=False)]
        places, kinds = (list(dict.fromkeys(part)) for part in zip(*pairs, strict=True))
        known = getattr(estimator, "feature_names_in_", [f"x{j}" for j in range(estimator.n_features_in_)])
        single = set(map(str, known))
        places.sort(key=lambda place: place not in single)
        frame = pd.DataFrame(np.nan, index=pd.Index(places, name="columns"), columns=pd.Index(kinds, name="kernel"))
        for (place, kind), weight in zip(pairs, table["weight"], strict=True):
            frame.loc[place, kind] = np.nansum([frame.loc[place, kind], weight])
        if active_only:
            frame = frame[frame.sum(axis=1) > 0]
        return cls(weights=frame, n_single=sum(place in single for place in frame.index))

    def frame(self) -> pd.DataFrame:
        """Return what is drawn: weights by place and kind of kernel."""
        return self.weights.copy()

    def plot(self, ax: Any = None, *, cmap: Any = None, colorbar: bool = True, **image_style: Any) -> Self:
        """Draw the map; colors follow the square root of the weight, so that light kernels can be seen, zero is white.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            None makes a new figure.
        cmap : str, Colormap or None, default=None
            None goes from light green to dark blue.
        colorbar : bool, default=True
        **image_style
            Passed to ``Axes.pcolormesh``.

        Returns
        -------
        WeightMapDisplay
        """
        n_rows, n_columns = self.weights.shape
        ax = axes_of(ax, "WeightMapDisplay.plot", (3.5 + 0.27 * n_columns, 1.8 + 0.22 * n_rows))
        from matplotlib.colors import PowerNorm

        values = self.weights.to_numpy()
        largest = float(np.nanmax(values, initial=0.0)) or 1.0
        norm, cmap = PowerNorm(0.5, 0.0, largest), _colors() if cmap is None else cmap
        style = {"norm": norm, "cmap": cmap, "edgecolors": "#e6e9ed", "linewidth": 0.6}
        ax.set_facecolor("#eceff2")  # shows through where the bank has no kernel
        drawn = np.ma.masked_where(np.isnan(values) | (values == 0), values)
        ax.pcolormesh(np.where(np.isnan(values), np.nan, 0.0), cmap=_white(), edgecolors="#e6e9ed", linewidth=0.6)
        image = ax.pcolormesh(drawn, **{**style, **image_style})
        self._label(ax)
        if colorbar:
            ax.figure.colorbar(image, ax=ax, label="kernel weight", shrink=0.6, pad=0.02)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _label(self, ax: Any) -> None:
        n_rows, n_columns = self.weights.shape
        kinds = [str(kind) for kind in self.weights.columns]
        groups = _groups(kinds)
        labels = [_value(kind) if name else short_label(kind) for name, kind in _with_group(groups, kinds)]
        ax.set_xticks(np.arange(n_columns) + 0.5, labels, rotation=90)
        ax.set_yticks(np.arange(n_rows) + 0.5, [_place(str(place)) for place in self.weights.index])
        ax.tick_params(length=0)
        ax.invert_yaxis()
        for name, first, last in groups:
            ax.annotate(
                name, ((first + last) / 2, 1), (0, 4), xycoords=("data", "axes fraction"),
                textcoords="offset points", ha="center", color=DARK, annotation_clip=False,
            )  # fmt: skip
            if last < n_columns:
                ax.axvline(last, color=DARK, linewidth=0.8)
        if 0 < self.n_single < n_rows:
            ax.axhline(self.n_single, color=DARK, linewidth=0.8)
        ax.set_title("Weight of each column and kernel", pad=34 if any(name for name, _, _ in groups) else None)


def _place(place: str) -> str:
    return "all columns" if place == "all" else place


def _family(kind: str) -> str:
    """Return name and parameter, on two lines, of a kernel with one parameter; of others nothing."""
    match = ONE_PARAMETER.fullmatch(kind)
    return f"{match[1]}\n{match[2]}" if match else ""


def _value(kind: str) -> str:
    match = ONE_PARAMETER.fullmatch(kind)
    return match[3] if match else kind


def _groups(kinds: list[str]) -> list[tuple[str, int, int]]:
    """Return (name, first, end) of runs of kernels that differ in one parameter; a single kernel has no name."""
    groups, start = [], 0
    for family, run in groupby(kinds, key=_family):
        length = len(list(run))
        groups.append((family if length > 1 else "", start, start + length))
        start += length
    return groups


def _with_group(groups: list[tuple[str, int, int]], kinds: list[str]) -> list[tuple[str, str]]:
    return [(name, kind) for name, first, last in groups for kind in kinds[first:last]]


def _colors() -> Any:
    """Return light green to dark blue, so that the lightest kernel differs from none."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(colormaps["YlGnBu"](np.linspace(0.2, 1.0, 256)))


def _white() -> Any:
    from matplotlib.colors import ListedColormap

    return ListedColormap(["white"])
