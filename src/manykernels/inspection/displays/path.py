"""How kernels enter a model as the penalty weakens: norms or weights against the strength."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd

from manykernels.estimators.selection.path import RegularizationPath
from manykernels.exceptions import InvalidInputError
from manykernels.inspection.displays.plotting import (
    DASHES,
    Display,
    clean,
    color_of,
    cut_labels,
    ink_of,
    legend_beside,
    legend_letters,
    log_ticks,
    style_of,
    write,
)
from manykernels.validation.arrays import check_count

VALUES = {"norm": r"norm $\|f_m\|$", "weight": "weight $d_m$"}


@dataclass(kw_only=True, eq=False, repr=False)
class PathDisplay(Display):
    """Norms or weights of the kernels against the logarithm of the strength: the L1 path plot.

    Make it with :meth:`from_path`. Unlike the plot of GURLS, which draws cube roots of the strength and Euclidean
    norms of coefficient vectors, this one shows what the penalty sees: norms in the space of each kernel.

    Strong penalties are on the left.

    Parameters
    ----------
    values : DataFrame
        One column a kernel, the index is ``alpha``.
    value : str
        ``"norm"`` or ``"weight"``.
    named : list of str
        Kernels that get a color and a name, the others are gray.
    chosen : float or None
        Strength to mark.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.estimators.selection.path import regularization_path
    >>> X = np.random.default_rng(0).uniform(-2, 2, (40, 2))
    >>> display = PathDisplay.from_path(regularization_path(X, np.sin(2 * X[:, 1]), n_alphas=5), top=2)
    >>> display.frame().shape[0], display.named[0]
    (5, 'x1: gaussian(width=0.5*median)')
    """

    values: pd.DataFrame
    value: str
    named: list[str]
    chosen: float | None = None

    @classmethod
    def from_path(
        cls, path: RegularizationPath, *, value: str = "norm", top: int = 8, chosen: float | None = None
    ) -> Self:
        """Take the curves from a path.

        Parameters
        ----------
        path : RegularizationPath
        value : {"norm", "weight"}, default="norm"
        top : int, default=8
            Kernels to name: those that reach the highest values.
        chosen : float, optional
            Strength to mark, such as the one that cross-validation chose.

        Returns
        -------
        PathDisplay

        Raises
        ------
        InvalidInputError
            For an unknown value.
        """
        if value not in VALUES:
            raise InvalidInputError(f"value must be one of {', '.join(VALUES)}, got {value!r}.")
        check_count(top, "top")
        data = path.norms if value == "norm" else path.weights
        values = pd.DataFrame(data, index=pd.Index(path.alphas, name="alpha"), columns=list(path.kernel_names))
        peaks = values.max()
        named = peaks[peaks > 0].sort_values(ascending=False, kind="stable").index[:top]
        return cls(values=values, value=value, named=list(named), chosen=chosen)

    def _size(self, **options: Any) -> tuple[float, float]:
        return 8.0, 4.6

    def _draw(self, ax: Any) -> None:
        """Draw the curves, strong penalties on the left."""
        from matplotlib.collections import LineCollection

        curves = self.values.drop(columns=self.named)
        # One artist for all the others: 5,000 lines of their own take seconds.
        others = curves.loc[:, curves.any()]
        lines = [np.column_stack([others.index, others.iloc[:, m]]) for m in range(others.shape[1])]
        ax.add_collection(LineCollection(lines, colors=[ink_of(ax).muted], linewidths=0.6, alpha=0.5))
        for number, label in enumerate(cut_labels(self.named, legend_letters(ax))):
            style = {"color": color_of(ax, number), "linestyle": style_of(number, DASHES), "zorder": 3}
            ax.plot(self.values.index, self.values[self.named[number]], label=label, **style)
        self._decorate(ax, others.shape[1])

    def _decorate(self, ax: Any, n_others: int) -> None:
        ax.set_xscale("log")
        ax.autoscale_view()
        log_ticks(ax)
        ax.invert_xaxis()
        ax.set_ylim(bottom=0)
        write(ax, xlabel="strength (weaker penalties to the right)")
        ax.set_ylabel(VALUES[self.value])
        n_active = n_others + len(self.named)
        write(ax, title=f"{n_active:,} of {self.values.shape[1]:,} kernels enter")
        if self.chosen is not None:
            ax.axvline(
                self.chosen, color=ink_of(ax).text, linestyle="--", linewidth=1, label=f"chosen: {self.chosen:.3g}"
            )
        legend_beside(ax, n_others, "(gray)")
        clean(ax, grid="y")
