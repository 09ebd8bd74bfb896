"""One picture of a fitted model: its kernels, its convergence, and the map of its weights."""

from __future__ import annotations

from typing import Any

from manykernels.inspection.displays.convergence import ConvergenceDisplay
from manykernels.inspection.displays.plotting import require_matplotlib
from manykernels.inspection.displays.weight_map import WeightMapDisplay
from manykernels.inspection.displays.weights import KernelWeightsDisplay

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
