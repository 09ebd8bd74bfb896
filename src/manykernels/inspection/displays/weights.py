"""Which kernels a model uses: their weights as bars."""

from __future__ import annotations

from typing import Any, Self

import pandas as pd

from manykernels.exceptions import InvalidInputError
from manykernels.inspection.displays.kernel_table import kernel_table
from manykernels.inspection.displays.plotting import BLUE, GRAY, axes_of, clean, short_label
from manykernels.validation.arrays import check_count

VALUES = {"weight": "kernel weight", "norm": "norm of the part", "share": "share of the norms"}


class KernelWeightsDisplay:
    """The heaviest kernels of a model as horizontal bars.

    Make it with :meth:`from_estimator`.

    Parameters
    ----------
    kernels : DataFrame
        ``name`` and ``value`` of the kernels to show, the heaviest first.
    n_active : int
        Number of kernels with a positive weight, shown or not.
    n_kernels : int
        Number of kernels in all.
    value : str
        What the bars are: ``"weight"``, ``"norm"`` or ``"share"``.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
        Set by :meth:`plot`.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> from manykernels.inspection import KernelWeightsDisplay
    >>> X = np.random.default_rng(0).uniform(-2, 2, (40, 2))
    >>> display = KernelWeightsDisplay.from_estimator(MKLRegressor().fit(X, np.sin(X[:, 1])), top=3)
    >>> display.frame()["name"].iloc[0].startswith("x1")
    True
    """

    def __init__(self, *, kernels: pd.DataFrame, n_active: int, n_kernels: int, value: str = "weight") -> None:
        self.kernels = kernels
        self.n_active = n_active
        self.n_kernels = n_kernels
        self.value = value

    @classmethod
    def from_estimator(cls, estimator: Any, *, top: int = 20, value: str = "weight", target: Any = None) -> Self:
        """Take the heaviest kernels of a fitted estimator.

        Parameters
        ----------
        estimator : MKLClassifier or MKLRegressor
        top : int, default=20
            Most kernels to show.
        value : {"weight", "norm", "share"}, default="weight"
            ``d_m``, ``||f_m||``, or the share of the norm in the sum of norms.
        target : label, int or None, default=None
            A class or output, where there are several; None is the mean of all.

        Returns
        -------
        KernelWeightsDisplay

        Raises
        ------
        InvalidInputError
            For an unknown value or target.
        """
        if value not in VALUES:
            raise InvalidInputError(f"value must be one of {', '.join(VALUES)}, got {value!r}.")
        table = kernel_table(estimator, target)
        active = table[table["weight"] > 0].sort_values(value, ascending=False, kind="stable")
        shown = active.head(check_count(top, "top"))[["name", value]].rename(columns={value: "value"})
        return cls(kernels=shown.reset_index(drop=True), n_active=len(active), n_kernels=len(table), value=value)

    def frame(self) -> pd.DataFrame:
        """Return what is drawn: ``name`` and ``value``, the heaviest first."""
        return self.kernels.copy()

    def plot(self, ax: Any = None, *, color: str = BLUE, **bar_style: Any) -> Self:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            None makes a new figure.
        color : color, default=a blue
        **bar_style
            Passed to ``Axes.barh``.

        Returns
        -------
        KernelWeightsDisplay
        """
        ax = axes_of(ax, "KernelWeightsDisplay.plot", (7.0, 1.0 + 0.27 * max(len(self.kernels), 4)))
        places = range(len(self.kernels))
        ax.barh(places, self.kernels["value"], color=color, **bar_style)
        ax.set_yticks(places, [short_label(name) for name in self.kernels["name"]])
        ax.invert_yaxis()
        ax.margins(y=0.01)
        ax.set_xlim(left=0)
        ax.set_xlabel(VALUES[self.value])
        ax.set_title(f"{self.n_active} of {self.n_kernels} kernels selected")
        if self.n_active > len(self.kernels):
            note = f"{self.n_active - len(self.kernels)} lighter ones not shown"
            ax.text(0.99, 0.02, note, transform=ax.transAxes, ha="right", va="bottom", color=GRAY, fontsize="small")
        clean(ax, grid="x")
        self.ax_, self.figure_ = ax, ax.figure
        return self
