"""What each kernel adds to the scores of all samples: one point a sample, one row a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from manykernels.inspection.displays.convergence import ConvergenceDisplay
from manykernels.inspection.displays.decomposition import for_target, ranked
from manykernels.inspection.displays.plotting import (
    BLUE,
    Display,
    clean,
    color_of,
    cut_text,
    ink_of,
    name_rows,
    plain,
    require_matplotlib,
    rows_that_fit,
    write,
)
from manykernels.inspection.displays.weight_map import WeightMapDisplay
from manykernels.inspection.displays.weights import KernelWeightsDisplay
from manykernels.inspection.pipelines import unwrapped

# One picture of a fitted model: its kernels, its convergence, and the map of its weights.


BESIDE: Any = {"mosaic": [["weights", "map"], ["convergence", "map"]], "width_ratios": [1.0, 1.55]}
BELOW: Any = {"mosaic": [["weights"], ["convergence"], ["map"]], "height_ratios": [1.0, 0.7, 1.6]}
SMALL: Any = {"font.size": 9, "axes.titlesize": 11, "axes.titleweight": "bold", "axes.titlelocation": "left"}
SMALLER: Any = SMALL | {"font.size": 8, "axes.titlesize": 9}


def plot_overview(
    estimator: Any, *, title: str | None = None, top: int = 20, x: str = "elapsed_s", narrow: bool = False
) -> Any:
    """Draw the kernel weights, the convergence and the map of weights of a fitted estimator into one figure.

    Parameters
    ----------
    estimator : MKLClassifier or MKLRegressor, or a Pipeline that ends in one
    title : str or None, default=None
        Line above the panels.
    top : int, default=20
        Most kernels among the bars.
    x : {"elapsed_s", "passes", "newton_steps", "iteration"}, default="elapsed_s"
        What convergence is drawn against.

    narrow : bool, default=False
        Draw one panel below the other, to be read at a width of 400 pixels.

    Returns
    -------
    matplotlib Figure
        Not registered with pyplot: save it with ``figure.savefig``.

    Raises
    ------
    ImportError
        Without matplotlib (the extra ``plot``).
    """
    require_matplotlib("plot_overview")
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


MOST_POINTS = 500  # a row; more only make the band solid


@dataclass(kw_only=True, eq=False, repr=False)
class ContributionsDisplay(Display):
    """Contributions of the kernels to the scores of all samples; the widest rows decide most.

    Make it with :meth:`from_estimator`.

    ``plot`` draws 500 points a row at most, and a bar from the 5th to the 95th of a hundred samples; its options go to
    ``Axes.scatter``.

    Parameters
    ----------
    contributions : DataFrame
        One row a sample, one column a kernel that is shown, the most influential first.
    n_active : int
        Number of kernels that contribute to any sample.
    target : str, default=""
        Class or output, where there are several.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> from manykernels.inspection import ContributionsDisplay
    >>> X = np.random.default_rng(0).uniform(-2, 2, (40, 2))
    >>> model = MKLRegressor().fit(X, np.sin(X[:, 1]))
    >>> ContributionsDisplay.from_estimator(model, X, top=3).frame()["kernel"].iloc[0][:2]
    'x1'
    """

    contributions: pd.DataFrame
    n_active: int
    target: str = ""

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, top: int = 12, target: Any = None) -> Self:
        """Decompose the scores of all rows.

        Parameters
        ----------
        estimator : MKLClassifier or MKLRegressor, or a Pipeline that ends in one
        X : DataFrame, array or precomputed kernels
            As for ``estimator.predict``.
        top : int, default=12
            Kernels to show, those with the largest mean absolute contribution.
        target : label, int or None, default=None
            The class or output, needed where there are several.

        Returns
        -------
        ContributionsDisplay

        Raises
        ------
        InvalidInputError
            If the target does not exist.
        """
        estimator, X = unwrapped(estimator, X)
        parts, _ = for_target(estimator, estimator.decompose(X), target)
        first, rest = ranked(parts, top)
        names = [estimator.kernel_names_[m] for m in first]
        index = X.index if isinstance(X, pd.DataFrame) else None
        frame = pd.DataFrame(parts[first].T, columns=names, index=index).rename_axis(index="sample")
        return cls(contributions=frame, n_active=len(first) + len(rest), target="" if target is None else str(target))

    def frame(self) -> pd.DataFrame:
        """Return a row a kernel: mean absolute contribution, and the 5th, 50th and 95th of a hundred samples.

        Returns
        -------
        DataFrame
        """
        values = self.contributions
        low, middle, high = (values.quantile(share) for share in (0.05, 0.5, 0.95))
        columns = {"mean_size": values.abs().mean(), "low": low, "median": middle, "high": high}
        return pd.DataFrame(columns).rename_axis("kernel").reset_index()

    def _size(self, **options: Any) -> tuple[float, float]:
        return 7.0, 1.3 + 0.36 * max(4, self.contributions.shape[1] + 1)

    def _draw(self, ax: Any, **point_style: Any) -> None:
        """Draw a point for each sample (for 500 of them at most), and a bar from the 5th to the 95th of a hundred."""
        shown = self.contributions.iloc[:, : max(1, rows_that_fit(ax) - 1)]
        drawn = shown.iloc[np.unique(np.linspace(0, len(shown) - 1, min(MOST_POINTS, len(shown))).astype(int))]
        ink, places = ink_of(ax), np.arange(shown.shape[1])
        for place, (_, values) in zip(places, drawn.items(), strict=True):
            heights = place + _spread(values.to_numpy())
            ax.scatter(
                values, heights, **{"s": 9, "color": color_of(ax, BLUE), "alpha": 0.6, "linewidths": 0.0, **point_style}
            )
        low, middle, high = (shown.quantile(share) for share in (0.05, 0.5, 0.95))
        ax.hlines(places, low, high, color=ink.text, linewidth=1.2)
        ax.plot(middle, places, "|", color=ink.text, markersize=9, markeredgewidth=2)
        self._finish(ax, list(shown.columns))

    def _finish(self, ax: Any, names: list[Any]) -> None:
        name_rows(ax, names, self.n_active - len(names))
        ax.axvline(0, color=ink_of(ax).muted, linewidth=0.8, zorder=0)
        of = f" of {plain(cut_text(self.target, 24))}" if self.target else ""
        write(ax, xlabel=f"contribution to the score{of}, {len(self.contributions):,} samples")
        write(ax, title="What each kernel adds")
        clean(ax, grid="x")


def _spread(values: NDArray[Any]) -> NDArray[Any]:
    """Return heights within a row that keep near-equal values apart, the same for the same values."""
    bins = np.digitize(values, np.linspace(values.min(), values.max(), 40)) if len(values) else values
    heights = np.zeros(len(values))
    for one in np.unique(bins):
        members = np.flatnonzero(bins == one)
        steps = (np.arange(len(members)) + 1) // 2 * np.where(np.arange(len(members)) % 2, 1.0, -1.0)
        heights[members] = steps
    return heights * 0.36 / max(1.0, float(np.abs(heights).max(initial=0.0)), 8.0)
