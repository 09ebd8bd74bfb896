"""Which kernels, views or features a model uses: their weights as bars."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from manykernels.exceptions import InvalidInputError
from manykernels.inspection.displays.kernel_table import (
    SEVERAL,
    groups_of,
    kernel_table,
    summed_by,
    target_column,
    target_table,
)
from manykernels.inspection.displays.plotting import (
    BLUE,
    HATCHES,
    Display,
    clean,
    color_of,
    cut_text,
    ink_of,
    legend_beside,
    name_rows,
    plain,
    rows_that_fit,
    style_of,
    write,
)
from manykernels.inspection.pipelines import unwrapped
from manykernels.validation.arrays import check_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VALUES = {"weight": "kernel weight", "norm": "norm of the part", "norm_share": "share of the norms"}
MOST_STACKED = 12  # classes whose parts of a bar can be told apart
COUNTED = {"kernel": "kernels", "view": "views", "feature": "features", "kind": "kinds of kernel"}


@dataclass(kw_only=True, eq=False, repr=False)
class KernelWeightsDisplay(Display):
    """The heaviest kernels of a model as horizontal bars, or the views, features or kinds of kernel they add up to.

    Make it with :meth:`from_estimator`. With several classes or outputs a bar is the mean of all, and its colored parts
    are what each of them adds to the mean.

    ``plot(color=...)`` colors the bars of a single class or output; other options go to ``Axes.barh``. As many are
    drawn as there is room for.

    Parameters
    ----------
    kernels : DataFrame
        ``name`` and ``value`` of what is shown, the heaviest first, then a column a class or output if there are
        several.
    n_active : int
        Number of kernels (views, features, kinds) with a positive weight, shown or not.
    n_kernels : int
        Their number in all.
    value : str
        What the bars are: ``"weight"``, ``"norm"`` or ``"norm_share"``.
    by : str, default="kernel"
        What a bar stands for: ``"kernel"``, ``"view"``, ``"feature"`` or ``"kind"``.
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
    >>> KernelWeightsDisplay.from_estimator(model, by="feature", value="norm_share").frame()["name"].iloc[0]
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
        estimator : MKLClassifier or MKLRegressor, or a Pipeline that ends in one
        top : int, default=20
            Most bars to show.
        value : {"weight", "norm", "norm_share"}, default="weight"
            ``d_m``, ``||f_m||``, or the share of the norm in the sum of norms.
        target : label, int or None, default=None
            A class or output, where there are several; None is the mean of all.
        by : {"kernel", "view", "feature", "kind"}, default="kernel"
            What to sum over: the kernels of a view (or of one selection of columns), of a column of the table (a kernel
            of several columns counts in equal parts for each), or of one kind of kernel.

        Returns
        -------
        KernelWeightsDisplay

        Raises
        ------
        InvalidInputError
            For an unknown value, target or ``by``.
        """
        if value not in VALUES:
            raise InvalidInputError(f"value must be one of {', '.join(VALUES)}, got {value!r}.")
        estimator, _ = unwrapped(estimator)
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

    def _draw(self, ax: Axes, *, color: Any = None, **bar_style: Any) -> None:
        """Draw the bars, as many as there is room for."""
        shown = self.kernels.head(rows_that_fit(ax))
        if self.n_active > len(shown):
            shown = self.kernels.head(rows_that_fit(ax) - 1)
        parts = shown.iloc[:, 2:]
        if 1 < parts.shape[1] <= MOST_STACKED:
            self._stack(ax, parts, bar_style)
        else:
            color = color_of(ax, BLUE) if color is None else color
            ax.barh(range(len(shown)), shown["value"], color=color, **bar_style)
        self._finish(ax, shown["name"])

    def _stack(self, ax: Axes, parts: pd.DataFrame, bar_style: dict[str, Any]) -> None:
        """Draw the parts of the mean one after the other."""
        ends = np.zeros(len(parts))
        for number, (label, values) in enumerate(parts.items()):
            part = values.to_numpy() / parts.shape[1]
            style = {"color": color_of(ax, number), "hatch": style_of(number, HATCHES), "edgecolor": ink_of(ax).face}
            text = cut_text(plain(str(label)), 18)
            ax.barh(range(len(parts)), part, left=ends, label=text, **{**style, "linewidth": 0.0, **bar_style})
            ends += part
        legend_beside(ax)

    def _finish(self, ax: Axes, names: pd.Series) -> None:
        name_rows(ax, names, self.n_active - len(names))
        ax.set_xlim(left=0)
        write(ax, xlabel=f"{VALUES[self.value]}{self.target}")
        write(ax, title=f"{self.n_active:,} of {self.n_kernels:,} {COUNTED[self.by]} selected")
        clean(ax, grid="x")


def _target_text(estimator: BaseEstimator, target: Hashable, n_targets: int) -> str:
    """Return of what a bar is the value: ``", class b"``, ``", mean of 3 classes"``, or nothing."""
    if target is None and n_targets < 2:
        return ""
    column = target_column(estimator.weights_frame()) or "output"
    return f", {column} {target}" if target is not None else f", mean of {n_targets} {SEVERAL[column]}"
