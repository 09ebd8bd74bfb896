"""Why one prediction came out as it did: the way from the intercept to the score, kernel by kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.utils import _safe_indexing

from manykernels.inspection.displays.decomposition import (
    INTERCEPT,
    OTHERS,
    checked_rows,
    for_target,
    ranked,
)
from manykernels.inspection.displays.plotting import (
    BLUE,
    GRAY,
    ORANGE,
    Display,
    clean,
    color_of,
    cut_labels,
    cut_text,
    ink_of,
    letters_that_fit,
    plain,
    rows_that_fit,
    write,
)
from manykernels.inspection.pipelines import unwrapped


@dataclass(kw_only=True, eq=False, repr=False)
class WaterfallDisplay(Display):
    """The score of one sample as a waterfall: it starts at the intercept, and every kernel moves it.

    Make it with :meth:`from_estimator`.

    Blue raises the score, orange lowers it; options of ``plot`` go to ``Axes.barh``.

    Parameters
    ----------
    steps : DataFrame
        ``name`` and ``contribution``: the intercept, then the kernels with the largest contributions first, then
        ``"other kernels"`` if there are any. They add up to the score.
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
    def from_estimator(cls, estimator: Any, X: Any, *, sample: int = 0, top: int = 10, target: Any = None) -> Self:
        """Decompose the score of one row.

        Parameters
        ----------
        estimator : MKLClassifier or MKLRegressor, or a Pipeline that ends in one
        X : DataFrame, array or precomputed kernels
            As for ``estimator.predict``.
        sample : int, default=0
            Position of the row.
        top : int, default=10
            Kernels shown by themselves, those with the largest absolute contribution.
        target : label, int or None, default=None
            The class or output, needed where there are several.

        Returns
        -------
        WaterfallDisplay

        Raises
        ------
        InvalidInputError
            If the row or the target does not exist.
        """
        row = checked_rows([sample], len(X))
        estimator, read = unwrapped(estimator, _safe_indexing(X, row))
        parts, intercept = for_target(estimator, estimator.decompose(read), target)
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
        """Return what is drawn: ``name``, ``contribution`` and ``score``, the sum so far.

        Returns
        -------
        DataFrame
        """
        return self.steps.assign(score=self.steps["contribution"].cumsum())

    def _size(self, **options: Any) -> tuple[float, float]:
        return 7.0, 1.4 + 0.32 * (len(self.steps) + 1)

    def _draw(self, ax: Any, **bar_style: Any) -> None:
        """Draw the steps from the top down: blue raises the score, orange lowers it."""
        steps, n_others = self._fitting(rows_that_fit(ax) - 1)
        values = steps["contribution"].to_numpy()
        ends = np.cumsum(values)
        colors = [GRAY, *(color_of(ax, BLUE if value >= 0 else ORANGE) for value in values[1:])]
        places, ink = np.arange(len(values)), ink_of(ax)
        ax.barh(places, values, left=ends - values, color=colors, **{"height": 0.7, **bar_style})
        for at, end in enumerate(ends):
            ax.plot([end, end], [at - 0.35, at + 1.35], color=ink.muted, linewidth=0.8, zorder=1)
        ax.plot(ends[-1], len(values), "D", color=ink.text, markersize=6)
        names = [f"{n_others} other kernels" if name == OTHERS else name for name in steps["name"]]
        self._finish(ax, [*cut_labels(names, letters_that_fit(ax)), "score"], [*values, ends[-1]])

    def _fitting(self, most: int) -> tuple[pd.DataFrame, int]:
        """Return the steps that there is room for; what is left joins the other kernels."""
        if len(self.steps) <= max(most, 3):
            return self.steps, self.n_others
        kept, rest = self.steps.iloc[: max(most, 3) - 1], self.steps.iloc[max(most, 3) - 1 :]
        joined = pd.DataFrame({"name": [OTHERS], "contribution": [rest["contribution"].sum()]})
        n_others = self.n_others + int((rest["name"] != OTHERS).sum())
        return pd.concat([kept, joined], ignore_index=True), n_others

    def _finish(self, ax: Any, labels: list[str], values: list[float]) -> None:
        ink = ink_of(ax)
        ax.set_yticks(range(len(labels)), labels)
        ax.set_ylim(len(labels) - 0.4, -0.6)
        ax.margins(x=0.08)
        # To the right of the axes a number never meets a bar.
        for at, value in enumerate(values):
            ax.annotate(
                f"{value:+.3g}", (1.01, at), xycoords=("axes fraction", "data"), va="center", fontsize="small",
                color=ink.text if at == len(values) - 1 else ink.muted, annotation_clip=False,
            )  # fmt: skip
        ax.axvline(0, color=ink.muted, linewidth=0.8, zorder=0)
        ax.tick_params(axis="y", length=0)
        write(ax, xlabel="score" + (f" of {plain(cut_text(self.target, 24))}" if self.target else ""))
        write(ax, title=f"Why sample {plain(cut_text(self.sample, 24))} has this score")
        clean(ax, grid="x")
