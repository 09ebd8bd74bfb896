"""Why a model decides as it does: what each kernel adds to the scores of chosen samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from manykernels.exceptions import InvalidInputError
from manykernels.inspection.displays.kernel_table import target_position
from manykernels.inspection.displays.plotting import (
    GRAY,
    HATCHES,
    Display,
    clean,
    color_of,
    cut_labels,
    cut_text,
    ink_of,
    legend_beside,
    legend_letters,
    plain,
    style_of,
)
from manykernels.inspection.pipelines import unwrapped
from manykernels.validation.arrays import check_count

Array = NDArray[Any]

OTHERS, INTERCEPT = "other kernels", "intercept"
MOST_SAMPLES = 10


@dataclass(kw_only=True, eq=False, repr=False)
class DecompositionDisplay(Display):
    """Contributions of the kernels to the scores of some samples, as stacked bars that add up to the scores.

    Make it with :meth:`from_estimator`.

    What speaks for the score is to the right, what against it to the left, the score is a mark; options of
    ``plot`` go to ``Axes.barh``.

    Parameters
    ----------
    contributions : DataFrame
        One row a sample, one column a kernel, then ``"other kernels"`` and ``"intercept"``; rows add up to the scores.

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
        cls, estimator: Any, X: Any, *, samples: Sequence[int] | None = None, top: int = 8, target: Any = None
    ) -> Self:
        """Decompose the scores of some rows.

        Parameters
        ----------
        estimator : MKLClassifier or MKLRegressor, or a Pipeline that ends in one
        X : DataFrame, array or precomputed kernels
            As for ``estimator.predict``.
        samples : sequence of int or None, default=None
            Positions of the rows to show; None is the first ten.
        top : int, default=8
            Kernels shown by themselves, those with the largest mean absolute contribution.
        target : label, int or None, default=None
            The class or output, needed where there are several.

        Returns
        -------
        DecompositionDisplay

        Raises
        ------
        InvalidInputError
            If a row or the target does not exist.
        """
        rows = checked_rows(range(min(MOST_SAMPLES, len(X))) if samples is None else samples, len(X))
        estimator, read = unwrapped(estimator, _safe_indexing(X, rows))
        parts, intercept = for_target(estimator, estimator.decompose(read), target)
        first, rest = ranked(parts, top)
        columns = {estimator.kernel_names_[m]: parts[m] for m in first}
        labels = X.index[rows] if isinstance(X, pd.DataFrame) else rows
        frame = pd.DataFrame(columns, index=pd.Index(labels, name="sample"))
        return cls(contributions=frame.assign(**{OTHERS: parts[rest].sum(axis=0), INTERCEPT: intercept}))

    def frame(self) -> pd.DataFrame:
        """Return what is drawn, in long form: ``sample``, ``kernel``, ``contribution``.

        Returns
        -------
        DataFrame
        """
        return self.contributions.reset_index().melt("sample", var_name="kernel", value_name="contribution")

    def _size(self, **options: Any) -> tuple[float, float]:
        return 9.0, 1.4 + 0.4 * max(4, len(self.contributions))

    def _draw(self, ax: Any, **bar_style: Any) -> None:
        """Draw one bar a sample."""
        places, ink = np.arange(len(self.contributions)), ink_of(ax)
        ends = {True: np.zeros(len(places)), False: np.zeros(len(places))}
        n_shown = self.contributions.shape[1] - 2
        palette = [*(color_of(ax, number) for number in range(n_shown)), ink.faint, GRAY]
        hatches = [*(style_of(number, HATCHES) for number in range(n_shown)), "", ""]
        labels = cut_labels(self.contributions.columns, legend_letters(ax))
        for number, (_, values) in enumerate(self.contributions.items()):
            left = np.where(values >= 0, ends[True], ends[False])
            style = {"color": palette[number], "hatch": hatches[number], "edgecolor": ink.face, "linewidth": 0.0}
            ax.barh(places, values, left=left, label=labels[number], **{**style, **bar_style})
            for positive in ends:
                ends[positive] += np.where((values >= 0) == positive, values, 0.0)
        mark = {"color": ink.text, "markeredgecolor": ink.face, "markersize": 6}
        ax.plot(self.contributions.sum(axis=1), places, "D", label="score", **mark)
        self._finish(ax, places)

    def _finish(self, ax: Any, places: Array) -> None:
        ax.axvline(0, color=ink_of(ax).text, linewidth=0.8)
        ax.set_yticks(places, [cut_text(plain(str(label)), 20) for label in self.contributions.index])
        ax.invert_yaxis()
        ax.set_xlabel("contribution to the score")
        ax.set_ylabel("sample")
        ax.set_title("What each kernel adds")
        legend_beside(ax)
        clean(ax, grid="x")
        self.ax_, self.figure_ = ax, ax.figure


def for_target(estimator: Any, parts: Array, target: Any) -> tuple[Array, float]:
    """Return the contributions (M, n) to one target, and its intercept."""
    if parts.ndim == 2:
        if target is not None:
            raise InvalidInputError(f"The model has a single target; leave out target={target!r}.")
        return parts, float(estimator.intercept_)
    at = target_position(estimator, target)
    return parts[:, :, at], float(estimator.intercept_[at])


def checked_rows(samples: Any, n_rows: int) -> Array:
    """Return positions of rows, or say which there are."""
    rows = np.asarray(samples)
    if rows.ndim != 1 or rows.size == 0 or rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= n_rows:
        raise InvalidInputError(f"samples must be positions between 0 and {n_rows - 1}, got {samples!r}.")
    return rows


def ranked(parts: Array, top: int) -> tuple[Array, Array]:
    """Return the kernels of the largest mean absolute contribution, and the others that contribute at all."""
    order = np.argsort(-np.abs(parts).mean(axis=1), kind="stable")
    order = order[np.abs(parts[order]).any(axis=1)]
    return order[: check_count(top, "top")], order[top:]
