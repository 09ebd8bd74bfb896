"""How a solver came to its solution: the relative duality gap against time or passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from manykernels.exceptions import InvalidInputError
from manykernels.inspection.displays import plotting as draw
from manykernels.inspection.pipelines import unwrapped
from manykernels.inspection.reports.report import GAP
from manykernels.solvers import Solution

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NAMED = 10  # runs with a color and a name; the others are gray
LABELS = {
    "elapsed_s": "seconds",
    "passes": "passes over all kernels",
    "newton_steps": "Newton steps",
    "iteration": "iterations",
}


@dataclass(kw_only=True, eq=False, repr=False)
class ConvergenceDisplay(draw.Display):
    """Relative duality gap of one or several runs on a logarithmic axis.

    Make it with :meth:`from_solution` or :meth:`from_estimator`.

    ``plot(x=...)`` draws it against ``"elapsed_s"``, ``"passes"``, ``"newton_steps"`` or ``"iteration"``, and
    ``plot(annotate=True)`` writes the number of active kernels beside the points; others go to ``Axes.semilogy``. Gaps
    of zero, which a logarithmic axis cannot show, are drawn at its lower edge.

    Parameters
    ----------
    history : DataFrame
        The histories, one below the other, led by a column ``run`` with the name of the run.
    tol : float or None, default=None
        Gap that was asked for, drawn as a line.

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

    history: pd.DataFrame
    tol: float | None = None

    @classmethod
    def from_solution(cls, solution: Solution | Mapping[Any, Solution], *, tol: float | None = None) -> Self:
        """Take the history of a solution, or of several by name.

        Parameters
        ----------
        solution : Solution or mapping of name to Solution
        tol : float or None, default=None
            Gap that was asked for.

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
    def from_estimator(cls, estimator: BaseEstimator) -> Self:
        """Take the histories of a fitted estimator, one a class or output, with its ``tol`` if that is of the gap.

        Parameters
        ----------
        estimator : MKLClassifier or MKLRegressor, or a Pipeline that ends in one

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import MKLRegressor
        >>> from manykernels.inspection import ConvergenceDisplay
        >>> X = np.random.default_rng(0).uniform(-2, 2, (40, 2))
        >>> model = MKLRegressor().fit(X, np.sin(X[:, 1]))
        >>> bool(ConvergenceDisplay.from_estimator(model).frame()["relative_gap"].iloc[-1] <= model.tol)
        True
        """
        estimator, _ = unwrapped(estimator)
        solutions = estimator.solution_
        tol = estimator.tol if getattr(estimator, "tol_measure", GAP) == GAP else None
        if isinstance(solutions, Solution):
            return cls.from_solution(solutions, tol=tol)
        labels = getattr(estimator, "classes_", range(len(solutions)))
        return cls.from_solution(dict(zip(labels, solutions, strict=True)), tol=tol)

    def _size(self, **options: object) -> tuple[float, float]:
        return 6.5, 4.0

    def _draw(self, ax: Axes, *, x: str = "elapsed_s", annotate: bool = False, **line_style: object) -> None:
        """Draw the gap, which a log axis cannot show at zero: such points are drawn at the lower edge."""
        if x not in LABELS:
            raise InvalidInputError(f"x must be one of {', '.join(LABELS)}, got {x!r}.")
        runs = list(self.history.groupby("run", sort=False))
        # The slowest are named: of a hundred classes they are what one looks for.
        last = {name: float(run["relative_gap"].iloc[-1]) for name, run in runs}
        named = {name for name, _ in sorted(last.items(), key=lambda item: -item[1])[:MOST_NAMED]}
        number = 0
        for name, run in runs:
            gaps = run["relative_gap"].clip(lower=self._floor())
            if name not in named:
                ax.semilogy(run[x], gaps, color=draw.ink_of(ax).muted, linewidth=0.6, alpha=0.5, zorder=1)
                continue
            style = {**draw.line_of(ax, number), "markersize": 4.5, **line_style}
            ax.semilogy(run[x], gaps, label=draw.plain(draw.cut_text(str(name), draw.legend_letters(ax))), **style)
            number += 1
            if annotate:
                self._annotate(ax, run, x)
        if self.tol is not None:
            ax.axhline(self.tol, color=draw.ink_of(ax).muted, linestyle="--", linewidth=1, zorder=1)
            ax.annotate(
                f"tol {self.tol:g}", (0, self.tol), (4, -11), xycoords=("axes fraction", "data"),
                textcoords="offset points", color=draw.ink_of(ax).muted, fontsize="small",
            )  # fmt: skip
        ax.set_xlabel(LABELS[x])
        ax.set_ylabel("relative duality gap")
        draw.write(ax, title="Convergence (numbers: active kernels)" if annotate else "Convergence")
        ax.margins(y=0.12)
        ax.set_xlim(left=0)
        draw.clean(ax, grid="y")
        if len(runs) > 1:
            draw.legend_beside(ax, len(runs) - MOST_NAMED, "(gray)")
        # A legend and long labels, such as 0.0025 seconds, leave a small picture room for few of them.
        ax.locator_params(axis="x", nbins=max(1, min(6, int(draw.inches_of(ax)[0] / 1.5))))

    def _floor(self) -> float:
        gaps = self.history["relative_gap"]
        positive = gaps[gaps > 0]
        return float(positive.min()) / 10 if len(positive) else 1e-16

    def _annotate(self, ax: Axes, run: pd.DataFrame, x: str) -> None:
        """Write numbers of active kernels beside the points, of those that stand apart; the last always has one."""
        gaps, (width, height) = run["relative_gap"].clip(lower=self._floor()), draw.inches_of(ax)
        across = run[x].to_numpy() / (float(run[x].max()) or 1.0) * width * draw.POINTS_AN_INCH
        logs = np.log10(gaps.to_numpy())
        down = (logs - logs.min()) / (float(np.ptp(logs)) or 1.0) * height * draw.POINTS_AN_INCH
        taken: list[tuple[float, float]] = []
        for at in reversed(range(len(run))):
            text = str(run["n_active"].iloc[at])
            room = draw.font_points() * draw.LETTER_WIDTH * (len(text) + 1.5)
            if any(abs(across[at] - u) < room and abs(down[at] - v) < 1.3 * draw.font_points() for u, v in taken):
                continue
            taken.append((across[at], down[at]))
            ax.annotate(
                text, (run[x].iloc[at], gaps.iloc[at]), (6, 4), textcoords="offset points", fontsize="small",
                color=draw.ink_of(ax).muted,
            )  # fmt: skip
