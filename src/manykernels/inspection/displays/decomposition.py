"""Explanation of decisions: the contribution of every kernel to the score of a sample, of several, and of all."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing

from manykernels.exceptions import InvalidInputError
from manykernels.inspection.displays import plotting as draw
from manykernels.inspection.displays.kernel_table import target_position
from manykernels.inspection.pipelines import unwrapped
from manykernels.validation.arrays import Array, TableLike, check_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OTHERS, INTERCEPT = "other kernels", "intercept"


@dataclass(kw_only=True, eq=False, repr=False)
class DecompositionDisplay(draw.Display):
    """Contributions of the kernels to the scores of some samples, as stacked bars with the scores as totals.

    Create with :meth:`from_estimator`.

    Positive contributions are on the right, negative ones on the left, the score is a mark; options of ``plot`` go to
    ``Axes.barh``.

    Parameters
    ----------
    contributions : DataFrame
        A row per sample, a column per kernel, then ``"other kernels"`` and ``"intercept"``; rows add up to the scores.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> from manykernels.inspection import DecompositionDisplay
    >>> X = np.random.default_rng(0).uniform(-2, 2, (40, 2))
    >>> model = MKLRegressor().fit(X, np.sin(X[:, 1]))
    >>> display = DecompositionDisplay.from_estimator(model, X, samples=[3, 5])
    >>> bool(np.isclose(display.contributions.sum(axis=1).iloc[0], model.predict(X)[3]))
    True
    """

    contributions: pd.DataFrame

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: Any,
        *,
        samples: Sequence[int] | None = None,
        top: int = 8,
        target: Hashable = None,
    ) -> Self:
        """Decompose the scores of some rows.

        Parameters
        ----------
        estimator : MKLClassifier or MKLRegressor, or a Pipeline around an estimator
        X : DataFrame, array or precomputed kernels
            As for ``estimator.predict``.
        samples : sequence of int or None, default=None
            Positions of the rows to show; None is the first ten.
        top : int, default=8
            Kernels shown separately, by mean absolute contribution.
        target : label, int or None, default=None
            The class or output, needed where there are several.

        Raises
        ------
        InvalidInputError
            If a row or the target does not exist.
        """
        most_samples = 10
        rows = check_rows(range(min(most_samples, len(X))) if samples is None else samples, len(X))
        estimator, read = unwrapped(estimator, _safe_indexing(X, rows))
        parts, intercept = select_target(estimator, estimator.decompose(read), target)
        first, rest = ranked(parts, top)
        columns = {estimator.kernel_names_[m]: parts[m] for m in first}
        labels = X.index[rows] if isinstance(X, pd.DataFrame) else rows
        frame = pd.DataFrame(columns, index=pd.Index(labels, name="sample"))
        return cls(contributions=frame.assign(**{OTHERS: parts[rest].sum(axis=0), INTERCEPT: intercept}))

    def frame(self) -> pd.DataFrame:
        """Return the drawn data in long form: ``sample``, ``kernel``, ``contribution``."""
        return self.contributions.reset_index().melt("sample", var_name="kernel", value_name="contribution")

    def _size(self, **options: object) -> tuple[float, float]:
        return 9.0, 1.4 + 0.4 * max(4, len(self.contributions))

    def _draw(self, ax: Axes, **bar_style: object) -> None:
        """Draw a bar per sample."""
        places, ink = np.arange(len(self.contributions)), draw.ink_of(ax)
        ends = {True: np.zeros(len(places)), False: np.zeros(len(places))}
        grays: dict[str, Any] = {
            OTHERS: {"color": ink.faint, "hatch": ""},
            INTERCEPT: {"color": draw.GRAY, "hatch": ""},
        }
        labels = draw.cut_labels(self.contributions.columns, draw.legend_letters(ax))
        for number, (name, values) in enumerate(self.contributions.items()):
            left = np.where(values >= 0, ends[True], ends[False])
            style = {**draw.bar_of(ax, number), **grays.get(str(name), {}), **bar_style}
            ax.barh(places, values, left=left, label=labels[number], **style)
            for positive in ends:
                ends[positive] += np.where((values >= 0) == positive, values, 0.0)
        scores = self.contributions.sum(axis=1)
        ax.plot(scores, places, "D", label="score", color=ink.text, markeredgecolor=ink.face, markersize=6)
        ax.axvline(0, color=ink.text, linewidth=0.8)
        ax.set_yticks(places, [draw.cut_text(draw.plain(str(label)), 20) for label in self.contributions.index])
        ax.invert_yaxis()
        ax.set_xlabel("contribution to the score")
        ax.set_ylabel("sample")
        ax.set_title("What each kernel adds")
        draw.legend_beside(ax)
        draw.clean(ax, grid="x")


def select_target(estimator: BaseEstimator, parts: Array, target: Hashable) -> tuple[Array, float]:
    """Return the contributions (M, n) to a single target, and the intercept."""
    if parts.ndim == 2:
        if target is not None:
            raise InvalidInputError(f"The model has a single target; leave out target={target!r}.")
        return parts, float(estimator.intercept_)
    at = target_position(estimator, target)
    return parts[:, :, at], float(estimator.intercept_[at])


def check_rows(samples: ArrayLike, n_rows: int) -> Array:
    """Return positions of rows, or raise an error with the valid range."""
    rows = np.asarray(samples)
    if rows.ndim != 1 or rows.size == 0 or rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= n_rows:
        raise InvalidInputError(f"samples must be positions between 0 and {n_rows - 1}, got {samples!r}.")
    return rows


def ranked(parts: Array, top: int) -> tuple[Array, Array]:
    """Return the kernels of the largest mean absolute contribution, and the remaining contributing kernels."""
    order = np.argsort(-np.abs(parts).mean(axis=1), kind="stable")
    order = order[np.abs(parts[order]).any(axis=1)]
    return order[: check_count(top, "top")], order[top:]


# What each kernel adds to the scores of all samples: one point a sample, one row a kernel.


@dataclass(kw_only=True, eq=False, repr=False)
class ContributionsDisplay(draw.Display):
    """Contributions of the kernels to the scores of all samples; the widest rows decide most.

    Create with :meth:`from_estimator`.

    ``plot`` draws 500 points a row at most, and a bar from the 5th to the 95th of a hundred samples; the options go to
    ``Axes.scatter``.

    Parameters
    ----------
    contributions : DataFrame
        A row per sample, a column per kernel shown, the most influential first.
    n_active : int
        Number of kernels with a contribution to any sample.
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
    def from_estimator(cls, estimator: BaseEstimator, X: TableLike, *, top: int = 12, target: Hashable = None) -> Self:
        """Decompose the scores of all rows.

        Parameters
        ----------
        estimator : MKLClassifier or MKLRegressor, or a Pipeline around an estimator
        X : DataFrame, array or precomputed kernels
            As for ``estimator.predict``.
        top : int, default=12
            Kernels to show, by mean absolute contribution.
        target : label, int or None, default=None
            The class or output, needed where there are several.

        Raises
        ------
        InvalidInputError
            If the target does not exist.
        """
        estimator, X = unwrapped(estimator, X)
        parts, _ = select_target(estimator, estimator.decompose(X), target)
        first, rest = ranked(parts, top)
        names = [estimator.kernel_names_[m] for m in first]
        index = X.index if isinstance(X, pd.DataFrame) else None
        frame = pd.DataFrame(parts[first].T, columns=names, index=index).rename_axis(index="sample")
        return cls(contributions=frame, n_active=len(first) + len(rest), target="" if target is None else str(target))

    def frame(self) -> pd.DataFrame:
        """Return a row a kernel: mean absolute contribution, and the 5th, 50th and 95th of a hundred samples."""
        values = self.contributions
        low, middle, high = (values.quantile(share) for share in (0.05, 0.5, 0.95))
        columns = {"mean_size": values.abs().mean(), "low": low, "median": middle, "high": high}
        return pd.DataFrame(columns).rename_axis("kernel").reset_index()

    def _size(self, **options: object) -> tuple[float, float]:
        return 7.0, 1.3 + 0.36 * max(4, self.contributions.shape[1] + 1)

    def _draw(self, ax: Axes, **point_style: object) -> None:
        """Draw a point for every sample (at most 500), and a bar from the 5th to the 95th percentile."""
        shown = self.contributions.iloc[:, : max(1, draw.rows_that_fit(ax) - 1)]
        most_points = 500  # a row; more only make the band solid
        drawn = shown.iloc[np.unique(np.linspace(0, len(shown) - 1, min(most_points, len(shown))).astype(int))]
        ink, places = draw.ink_of(ax), np.arange(shown.shape[1])
        for place, (_, values) in zip(places, drawn.items(), strict=True):
            heights = place + _spread(values.to_numpy())
            style = {"s": 9, "color": draw.color_of(ax, draw.BLUE), "alpha": 0.6, "linewidths": 0.0, **point_style}
            ax.scatter(values, heights, **style)
        low, middle, high = (shown.quantile(share) for share in (0.05, 0.5, 0.95))
        ax.hlines(places, low, high, color=ink.text, linewidth=1.2)
        ax.plot(middle, places, "|", color=ink.text, markersize=9, markeredgewidth=2)
        draw.name_rows(ax, shown.columns, self.n_active - shown.shape[1])
        ax.axvline(0, color=ink.muted, linewidth=0.8, zorder=0)
        of = f" of {draw.plain(draw.cut_text(self.target, 24))}" if self.target else ""
        draw.write(ax, xlabel=f"contribution to the score{of}, {len(self.contributions):,} samples")
        draw.write(ax, title="What each kernel adds")
        draw.clean(ax, grid="x")


def _spread(values: NDArray[Any]) -> NDArray[Any]:
    """Return heights within a row that separate near-equal values, deterministically."""
    bins = np.digitize(values, np.linspace(values.min(), values.max(), 40)) if len(values) else values
    heights = np.zeros(len(values))
    for place in np.unique(bins):
        members = np.flatnonzero(bins == place)
        steps = (np.arange(len(members)) + 1) // 2 * np.where(np.arange(len(members)) % 2, 1.0, -1.0)
        heights[members] = steps
    return heights * 0.36 / max(1.0, float(np.abs(heights).max(initial=0.0)), 8.0)


# Why one prediction came out as it did: the way from the intercept to the score, kernel by kernel.


@dataclass(kw_only=True, eq=False, repr=False)
class WaterfallDisplay(draw.Display):
    """The score of a single sample as a waterfall: from the intercept, kernel by kernel.

    Create with :meth:`from_estimator`.

    Blue raises the score, orange lowers the score; options of ``plot`` go to ``Axes.barh``.

    Parameters
    ----------
    steps : DataFrame
        ``name`` and ``contribution``: the intercept, then the kernels with the largest contributions first, then
        ``"other kernels"`` if there are any. The sum is the score.
    sample : str
        Label of the sample.
    target : str, default=""
        Class or output, where there are several.
    n_others : int, default=0
        Number of kernels in ``"other kernels"``.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> from manykernels.inspection import WaterfallDisplay
    >>> X = np.random.default_rng(0).uniform(-2, 2, (40, 2))
    >>> model = MKLRegressor().fit(X, np.sin(X[:, 1]))
    >>> display = WaterfallDisplay.from_estimator(model, X, sample=3)
    >>> bool(np.isclose(display.frame()["contribution"].sum(), model.predict(X)[3]))
    True
    """

    steps: pd.DataFrame
    sample: str
    target: str = ""
    n_others: int = 0

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, X: Any, *, sample: int = 0, top: int = 10, target: Hashable = None
    ) -> Self:
        """Decompose the score of a single row.

        Parameters
        ----------
        estimator : MKLClassifier or MKLRegressor, or a Pipeline around an estimator
        X : DataFrame, array or precomputed kernels
            As for ``estimator.predict``.
        sample : int, default=0
            Position of the row.
        top : int, default=10
            Kernels shown separately, by absolute contribution.
        target : label, int or None, default=None
            The class or output, needed where there are several.

        Raises
        ------
        InvalidInputError
            If the row or the target does not exist.
        """
        row = check_rows([sample], len(X))
        estimator, read = unwrapped(estimator, _safe_indexing(X, row))
        parts, intercept = select_target(estimator, estimator.decompose(read), target)
        first, rest = ranked(parts, top)
        names = [INTERCEPT, *(estimator.kernel_names_[m] for m in first), *([OTHERS] if len(rest) else [])]
        values = [intercept, *parts[first, 0], *([parts[rest, 0].sum()] if len(rest) else [])]
        label = X.index[sample] if isinstance(X, pd.DataFrame) else sample
        return cls(
            steps=pd.DataFrame({"name": names, "contribution": values}),
            sample=str(label),
            target="" if target is None else str(target),
            n_others=len(rest),
        )

    def frame(self) -> pd.DataFrame:
        """Return the drawn data: ``name``, ``contribution`` and ``score``, the cumulative sum."""
        return self.steps.assign(score=self.steps["contribution"].cumsum())

    def _size(self, **options: object) -> tuple[float, float]:
        return 7.0, 1.4 + 0.32 * (len(self.steps) + 1)

    def _draw(self, ax: Axes, **bar_style: Any) -> None:
        """Draw the steps from the top down: blue raises the score, orange lowers the score."""
        steps, n_others = self._fitting(draw.rows_that_fit(ax) - 1)
        values = steps["contribution"].to_numpy()
        ends = np.cumsum(values)
        colors = [draw.GRAY, *(draw.color_of(ax, draw.BLUE if value >= 0 else draw.ORANGE) for value in values[1:])]
        places, ink = np.arange(len(values)), draw.ink_of(ax)
        ax.barh(places, values, left=ends - values, color=colors, **{"height": 0.7, **bar_style})
        for at, end in enumerate(ends):
            ax.plot([end, end], [at - 0.35, at + 1.35], color=ink.muted, linewidth=0.8, zorder=1)
        ax.plot(ends[-1], len(values), "D", color=ink.text, markersize=6)
        names = [f"{n_others} other kernels" if name == OTHERS else name for name in steps["name"]]
        ax.set_yticks(range(len(names) + 1), [*draw.cut_labels(names, draw.letters_that_fit(ax)), "score"])
        ax.set_ylim(len(names) + 0.6, -0.6)
        ax.margins(x=0.08)
        # To the right of the axes a number never meets a bar.
        for at, value in enumerate([*values, ends[-1]]):
            ax.annotate(
                f"{value:+.3g}", (1.01, at), xycoords=("axes fraction", "data"), va="center", fontsize="small",
                color=ink.text if at == len(values) else ink.muted, annotation_clip=False,
            )  # fmt: skip
        ax.axvline(0, color=ink.muted, linewidth=0.8, zorder=0)
        ax.tick_params(axis="y", length=0)
        draw.write(ax, xlabel="score" + (f" of {draw.plain(draw.cut_text(self.target, 24))}" if self.target else ""))
        draw.write(ax, title=f"Why sample {draw.plain(draw.cut_text(self.sample, 24))} has this score")
        draw.clean(ax, grid="x")

    def _fitting(self, most: int) -> tuple[pd.DataFrame, int]:
        """Return as many steps as fit; the remaining steps join the other kernels."""
        if len(self.steps) <= max(most, 3):
            return self.steps, self.n_others
        kept, rest = self.steps.iloc[: max(most, 3) - 1], self.steps.iloc[max(most, 3) - 1 :]
        joined = pd.DataFrame({"name": [OTHERS], "contribution": [rest["contribution"].sum()]})
        n_others = self.n_others + int((rest["name"] != OTHERS).sum())
        return pd.concat([kept, joined], ignore_index=True), n_others
