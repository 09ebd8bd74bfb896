"""Curves: convergence of a solver, choice of the strength in folds, and the entry of kernels along a path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from manykernels.estimators.selection.path import RegularizationPath
from manykernels.exceptions import InvalidInputError
from manykernels.inspection.displays import plotting as draw
from manykernels.inspection.displays.kernel_table import target_names
from manykernels.inspection.pipelines import last_step, unwrapped
from manykernels.inspection.reports.scores import GAP
from manykernels.solvers import Solution
from manykernels.validation.arrays import check_choice, check_count

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
    """Relative duality gap of several runs on a logarithmic axis.

    Create with :meth:`from_solution` or :meth:`from_estimator`.

    ``plot(x=...)`` draws against ``"elapsed_s"``, ``"passes"``, ``"newton_steps"`` or ``"iteration"``, and
    ``plot(annotate=True)`` writes the number of active kernels beside the points; others go to ``Axes.semilogy``. Gaps
    of zero, which a logarithmic axis cannot show, are drawn at the lower edge.

    Parameters
    ----------
    history : DataFrame
        The histories, stacked, after a column ``run`` with the name of the run.
    tol : float or None, default=None
        Gap asked for, drawn as a line.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import solve
    >>> from manykernels.inspection import ConvergenceDisplay
    >>> kernels = np.stack([np.eye(4), np.ones((4, 4))])
    >>> solution = solve(kernels, [1.0, 2.0, 3.0, 4.0], loss="squared", penalty="l1", alpha=0.025)
    >>> bool(ConvergenceDisplay.from_solution(solution, tol=1e-4).frame()["relative_gap"].iloc[-1] <= 1e-4)
    True
    """

    inches: ClassVar[tuple[float, float]] = (6.5, 4.0)
    history: pd.DataFrame
    tol: float | None = None

    @classmethod
    def from_solution(cls, solution: Solution | Mapping[Any, Solution], *, tol: float | None = None) -> Self:
        """Take the history of a solution, or of several by name.

        Parameters
        ----------
        solution : Solution or mapping of name to Solution
        tol : float or None, default=None
            Gap asked for.

        Raises
        ------
        InvalidInputError
            For anything but a solution.
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
        """Take the histories of a fitted estimator, one per class or output, with its ``tol`` if of the gap.

        Parameters
        ----------
        estimator : MKLClassifier or MKLRegressor, or a Pipeline around an estimator

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
        labels = target_names(estimator) if hasattr(estimator, "classes_") else range(len(solutions))
        return cls.from_solution(dict(zip(labels, solutions, strict=True)), tol=tol)

    def _draw(self, ax: Axes, *, x: str = "elapsed_s", annotate: bool = False, **line_style: object) -> None:
        """Draw the gap; zeros, which a log axis lacks, appear at the lower edge."""
        check_choice(x, LABELS, "x")
        runs = list(self.history.groupby("run", sort=False))
        for run in self._draw_runs(ax, runs, x, **line_style):
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

    def _draw_runs(
        self, ax: Axes, runs: list[tuple[Any, pd.DataFrame]], x: str, **line_style: object
    ) -> list[pd.DataFrame]:
        """Draw a line per run, the slowest with names, and return these."""
        # The slowest are named: of a hundred classes they are what one looks for.
        last = {name: float(run["relative_gap"].iloc[-1]) for name, run in runs}
        named = {name for name, _ in sorted(last.items(), key=lambda item: -item[1])[:MOST_NAMED]}
        drawn: list[pd.DataFrame] = []
        for name, run in runs:
            gaps = run["relative_gap"].clip(lower=self._floor())
            if name not in named:
                ax.semilogy(run[x], gaps, color=draw.ink_of(ax).muted, linewidth=0.6, alpha=0.5, zorder=1)
                continue
            style = {**draw.line_of(ax, len(drawn)), "markersize": 4.5, **line_style}
            ax.semilogy(run[x], gaps, label=draw.plain(draw.cut_text(str(name), draw.legend_letters(ax))), **style)
            drawn.append(run)
        return drawn

    def _floor(self) -> float:
        gaps = self.history["relative_gap"]
        positive = gaps[gaps > 0]
        return float(positive.min()) / 10 if len(positive) else 1e-16

    def _annotate(self, ax: Axes, run: pd.DataFrame, x: str) -> None:
        """Write numbers of active kernels beside well-separated points, and always beside the last."""
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


# How the strength of the penalty was chosen: the score of the folds against it.


GIVEN = ("alpha", "mean_score", "std_score", "n_active")
MOST_CURVES = 12


@dataclass(kw_only=True, eq=False, repr=False)
class CVCurveDisplay(draw.Display):
    """Mean score over the folds, with the standard error, against the strength; numbers of active kernels above.

    Create with :meth:`from_estimator`.

    A curve for every mixture, strong penalties on the left, the choice with a ring.

    Parameters
    ----------
    results : DataFrame
        A row a candidate: ``alpha``, ``mean_score``, ``std_error``, ``n_active`` and ``curve``, the name of the mixture
        among several.
    chosen : int
        Row of the candidate taken.
    n_folds : int
        Number of folds.
    scoring : str, default="score"
        Name of the score.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressorCV
    >>> from manykernels.inspection import CVCurveDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (60, 2))
    >>> model = MKLRegressorCV(cv=3, penalty="l1", n_alphas=8).fit(X, np.sin(2 * X[:, 1]) + 0.5 * rng.normal(size=60))
    >>> display = CVCurveDisplay.from_estimator(model)
    >>> bool(display.frame()["mean_score"].max() == model.best_score_)
    True
    """

    inches: ClassVar[tuple[float, float]] = (7.0, 4.2)
    results: pd.DataFrame
    chosen: int
    n_folds: int
    scoring: str = "score"

    @classmethod
    def from_estimator(cls, estimator: BaseEstimator) -> Self:
        """Take the candidates of a fitted search.

        Parameters
        ----------
        estimator : MKLClassifierCV or MKLRegressorCV, or a Pipeline around an estimator

        Raises
        ------
        InvalidInputError
            If the estimator chose nothing by cross-validation.
        """
        estimator = last_step(estimator)
        results = getattr(estimator, "cv_results_", None)
        if not isinstance(results, pd.DataFrame) or not {"alpha", "mean_score"} <= set(results):
            raise InvalidInputError(
                f"A curve of cross-validation needs a fitted MKLClassifierCV or MKLRegressorCV, got {estimator!r}."
            )
        n_folds = int(estimator.n_folds_)
        errors = results["std_score"] / np.sqrt(max(n_folds - 1, 1))
        frame = results[["alpha", "mean_score", "n_active"]].assign(std_error=errors)
        frame["curve"] = [_curve(row) for row in results.to_dict("records")]
        return cls(results=frame, chosen=int(estimator.best_index_), n_folds=n_folds, scoring=_score_of(estimator))

    def _draw(self, ax: Axes) -> None:
        """Draw a curve for every mixture, strong penalties on the left, and mark the choice."""
        ink, chosen = draw.ink_of(ax), self.results.iloc[self.chosen]
        best = self.results.groupby("curve", sort=False)["mean_score"].max()
        # Beside the curves, the legend has the band, the choice, and how many more there are.
        most = max(1, min(MOST_CURVES, draw.rows_that_fit(ax) - 3))
        named = {*best.drop(chosen["curve"]).nlargest(most - 1).index, chosen["curve"]}
        curves = [(name, part) for name, part in self.results.groupby("curve", sort=False) if name in named]
        band: str | None = "standard error"
        for number, (name, part) in enumerate(curves):
            part = part.sort_values("alpha")
            style = {**draw.line_of(ax, number), "markersize": 3.5}
            if len(best) > 1:
                style["label"] = draw.plain(draw.cut_text(draw.short_label(str(name)), draw.legend_letters(ax))) or None
            ax.plot(part["alpha"], part["mean_score"], **style)
            if len(curves) <= 3:
                low, high = (part["mean_score"] + sign * part["std_error"] for sign in (-1, 1))
                ax.fill_between(part["alpha"], low, high, color=style["color"], alpha=0.15, linewidth=0, label=band)
                band = None
        ax.axvline(chosen["alpha"], color=ink.muted, linestyle="--", linewidth=1)
        ring: dict[str, Any] = {"color": "none", "markeredgecolor": ink.text, "markeredgewidth": 1.6, "markersize": 10}
        ax.plot(chosen["alpha"], chosen["mean_score"], "o", label=f"chosen: {chosen['alpha']:.3g}", **ring)
        ax.set_xscale("log")
        draw.log_ticks(ax)
        ax.invert_xaxis()
        draw.write(ax, xlabel="strength alpha (weaker penalties to the right)")
        ax.set_ylabel(f"{self.scoring.replace('_', ' ')},\nmean of {self.n_folds} folds")
        self._numbers(ax)
        draw.write(ax, title="Choice by cross-validation", pad=24)
        draw.clean(ax, grid="y")
        draw.legend_beside(ax, len(best) - len(curves), "")

    def _numbers(self, ax: Axes) -> None:
        """Write the mean number of active kernels of the chosen curve above the axes."""
        curve = self.results.iloc[self.chosen]["curve"]
        part = self.results[self.results["curve"] == curve].sort_values("alpha", ascending=False)
        left, right = np.log(ax.get_xlim())
        plot_share = 0.7  # of the width that axes keep beside their legend
        across = (np.log(part["alpha"].to_numpy()) - left) / (right - left) * draw.inches_of(ax)[0] * plot_share
        style: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": "small", "color": draw.ink_of(ax).muted}
        taken = -np.inf
        number_room = 0.55  # inches between numbers of active kernels along the upper edge
        for place, row in zip(across, part.to_dict("records"), strict=True):
            if place - taken < number_room or not np.isfinite(row["n_active"]):
                continue
            # The first is the one with the word, which needs more room.
            text = f"{row['n_active']:.0f}" + (" kernels" if taken == -np.inf else "")
            taken = place + (0.3 if taken == -np.inf else 0.0)
            ax.annotate(text, (row["alpha"], 1.01), xycoords=("data", "axes fraction"), annotation_clip=False, **style)


def _score_of(estimator: BaseEstimator) -> str:
    """Return the name of the scores of the folds."""
    if estimator.scoring is not None:
        return estimator.scoring if isinstance(estimator.scoring, str) else "score"
    name = str(getattr(estimator._loss, "name", "loss"))
    return "negative mean squared error" if name == "squared" else f"negative mean {name} loss".replace("_", " ")


def _curve(row: Mapping[Any, Any]) -> str:
    """Return the curve of a candidate: the choices besides the strength."""
    if "mixing" in row:  # of a search, where shares of a penalty change with its strength
        return f"{row['kernels']}, mixing {row['mixing']:g}"
    tried = {name: value for name, value in row.items() if name not in GIVEN and not str(name).startswith("score_")}
    return ", ".join(
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in tried.items()
    )


VALUES = {"norm": r"norm $\|f_m\|$", "weight": "weight $d_m$"}


@dataclass(kw_only=True, eq=False, repr=False)
class PathDisplay(draw.Display):
    """Norms or weights of the kernels against the logarithm of the strength: the L1 path plot.

    Create with :meth:`from_path`. Unlike the plot of GURLS, with cube roots of the strength and Euclidean norms of
    coefficient vectors, the display shows the norms of the penalty, in the space of every kernel.

    Strong penalties are on the left.

    Parameters
    ----------
    values : DataFrame
        A column per kernel, the index is ``alpha``.
    value : str
        ``"norm"`` or ``"weight"``.
    named : list of str
        Kernels that get a color and a name, the rest are gray.
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

    inches: ClassVar[tuple[float, float]] = (8.0, 4.6)
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
            Kernels to name: the kernels with the highest values.
        chosen : float, optional
            Strength to mark, for example the choice of cross-validation.

        Raises
        ------
        InvalidInputError
            For an unknown value.
        """
        check_choice(value, VALUES, "value")
        check_count(top, "top")
        data = path.norms if value == "norm" else path.weights
        values = pd.DataFrame(data, index=pd.Index(path.alphas, name="alpha"), columns=list(path.kernel_names))
        peaks = values.max()
        named = peaks[peaks > 0].sort_values(ascending=False, kind="stable").index[:top]
        return cls(values=values, value=value, named=list(named), chosen=chosen)

    def _draw(self, ax: Axes) -> None:
        """Draw the curves, strong penalties on the left."""
        from matplotlib.collections import LineCollection

        curves = self.values.drop(columns=self.named)
        # One artist for all the others: 5,000 lines of their own take seconds.
        others = curves.loc[:, curves.any()]
        lines = [np.column_stack([others.index, others.iloc[:, m]]) for m in range(others.shape[1])]
        ax.add_collection(LineCollection(lines, colors=[draw.ink_of(ax).muted], linewidths=0.6, alpha=0.5))
        for number, label in enumerate(draw.cut_labels(self.named, draw.legend_letters(ax))):
            style = {"color": draw.color_of(ax, number), "linestyle": draw.style_of(number, draw.DASHES), "zorder": 3}
            ax.plot(self.values.index, self.values[self.named[number]], label=label, **style)
        ax.set_xscale("log")
        ax.autoscale_view()
        draw.log_ticks(ax)
        ax.invert_xaxis()
        ax.set_ylim(bottom=0)
        draw.write(ax, xlabel="strength (weaker penalties to the right)")
        ax.set_ylabel(VALUES[self.value])
        draw.write(ax, title=f"{others.shape[1] + len(self.named):,} of {self.values.shape[1]:,} kernels enter")
        if self.chosen is not None:
            style = {"color": draw.ink_of(ax).text, "linestyle": "--", "linewidth": 1}
            ax.axvline(self.chosen, label=f"chosen: {self.chosen:.3g}", **style)
        draw.legend_beside(ax, others.shape[1], "(gray)")
        draw.clean(ax, grid="y")
