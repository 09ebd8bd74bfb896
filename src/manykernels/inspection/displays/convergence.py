"""How a solver came to its solution: the relative duality gap against time or passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import pandas as pd

from manykernels.exceptions import InvalidInputError
from manykernels.inspection.displays.plotting import BLUE, GRAY, ORANGE, axes_of, clean
from manykernels.inspection.report.report import GAP
from manykernels.solvers import Solution

COLORS = (BLUE, ORANGE, "#3f8f5b", "#7a4f9e", "#b0872b", "#4aa3a8")
LABELS = {
    "elapsed_s": "seconds",
    "passes": "passes over all kernels",
    "newton_steps": "Newton steps",
    "iteration": "iterations",
}


class ConvergenceDisplay:
    """Relative duality gap of one or several runs on a logarithmic axis.

    Make it with :meth:`from_solution` or :meth:`from_estimator`.

    Parameters
    ----------
    history : DataFrame
        The histories, one below the other, led by a column ``run`` with the name of the run.
    tol : float or None, default=None
        Gap that was asked for, drawn as a line.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
        Set by :meth:`plot`.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import solve
    >>> from manykernels.inspection import ConvergenceDisplay
    >>> kernels = np.stack([np.eye(4), np.ones((4, 4))])
    >>> solution = solve(kernels, [1.0, 2.0, 3.0, 4.0], loss="squared", regularizer="l1", strength=0.1)
    >>> bool(ConvergenceDisplay.from_solution(solution, tol=1e-4).frame()["relative_gap"].iloc[-1] <= 1e-4)
    True
    """

    def __init__(self, *, history: pd.DataFrame, tol: float | None = None) -> None:
        self.history = history
        self.tol = tol

    @classmethod
    def from_solution(cls, solution: Solution | Mapping[Any, Solution], *, tol: float | None = None) -> Self:
        """Take the history of a solution, or of several by name.

        Parameters
        ----------
        solution : Solution or mapping of name to Solution
        tol : float or None, default=None
            Gap that was asked for.

        Returns
        -------
        ConvergenceDisplay

        Raises
        ------
        InvalidInputError
            If there is no solution, or something that is none.
        """
        runs = solution if isinstance(solution, Mapping) else {getattr(solution, "solver", "run"): solution}
        if not runs or not all(isinstance(run, Solution) for run in runs.values()):
            raise InvalidInputError(f"Expected a Solution, or several by name, got {solution!r}.")
        frames = []
        for name, run in runs.items():
            frame = run.frame()
            frame.insert(0, "run", str(name))
            frames.append(frame)
        return cls(history=pd.concat(frames, ignore_index=True), tol=tol)

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """Take the histories of a fitted estimator, one a class or output, with its ``tol`` if that is of the gap.

        Parameters
        ----------
        estimator : MKLClassifier or MKLRegressor

        Returns
        -------
        ConvergenceDisplay
        """
        found = estimator.solution_
        tol = estimator.tol if getattr(estimator, "tol_measure", GAP) == GAP else None
        if isinstance(found, Solution):
            return cls.from_solution(found, tol=tol)
        labels = getattr(estimator, "classes_", range(len(found)))
        return cls.from_solution(dict(zip(labels, found, strict=True)), tol=tol)

    def frame(self) -> pd.DataFrame:
        """Return what is drawn: the histories with their runs."""
        return self.history.copy()

    def plot(self, ax: Any = None, *, x: str = "elapsed_s", annotate: bool = False, **line_style: Any) -> Self:
        """Draw the gap, which a log axis cannot show at zero: such points are drawn at the lower edge.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            None makes a new figure.
        x : {"elapsed_s", "passes", "newton_steps", "iteration"}, default="elapsed_s"
        annotate : bool, default=False
            Write the number of active kernels beside each point.
        **line_style
            Passed to ``Axes.semilogy``.

        Returns
        -------
        ConvergenceDisplay
        """
        if x not in LABELS:
            raise InvalidInputError(f"x must be one of {', '.join(LABELS)}, got {x!r}.")
        ax = axes_of(ax, "ConvergenceDisplay.plot", (6.5, 4.0))
        runs = list(self.history.groupby("run", sort=False))
        for number, (name, run) in enumerate(runs):
            style = {"marker": "o", "markersize": 5, "color": COLORS[number % len(COLORS)], **line_style}
            ax.semilogy(run[x], run["relative_gap"].clip(lower=self._floor()), label=str(name), **style)
            if annotate:
                _annotate(ax, run, x, self._floor())
        self._finish(ax, x, len(runs), annotate)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _floor(self) -> float:
        gaps = self.history["relative_gap"]
        positive = gaps[gaps > 0]
        return float(positive.min()) / 10 if len(positive) else 1e-16

    def _finish(self, ax: Any, x: str, n_runs: int, annotate: bool) -> None:
        if self.tol is not None:
            ax.axhline(self.tol, color=GRAY, linestyle="--", linewidth=1, zorder=1)
            ax.annotate(
                f"tol {self.tol:g}", (0, self.tol), (4, 3), xycoords=("axes fraction", "data"),
                textcoords="offset points", color=GRAY, fontsize="small",
            )  # fmt: skip
        ax.set_xlabel(LABELS[x])
        ax.set_ylabel("relative duality gap")
        ax.set_title("Convergence (numbers: active kernels)" if annotate else "Convergence")
        ax.set_xlim(left=0)
        clean(ax, grid="y")
        if n_runs > 1:
            ax.legend(frameon=False)


def _annotate(ax: Any, run: pd.DataFrame, x: str, floor: float) -> None:
    for at, gap, active in zip(run[x], run["relative_gap"].clip(lower=floor), run["n_active"], strict=True):
        ax.annotate(str(active), (at, gap), (6, 4), textcoords="offset points", fontsize="small", color="#444444")
