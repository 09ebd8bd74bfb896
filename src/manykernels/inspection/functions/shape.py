"""Shape functions: the contribution of a column in an additive model, with the density of the rows.

Bands show the uncertainty: a posterior at the learned weights, or bootstrap refits.

For a column of sequences, the effects of words and of places replace the curve.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from manykernels.estimators.supervised.posterior import posterior_of
from manykernels.exceptions import InvalidInputError
from manykernels.inspection.displays import plotting as draw
from manykernels.inspection.displays.decomposition import select_target
from manykernels.inspection.displays.kernel_table import (
    effect_of,
    feature_names,
    kernel_table,
    target_names,
    target_position,
)
from manykernels.inspection.pipelines import fresh, unwrapped
from manykernels.kernels import Kmers
from manykernels.kernels.bank.columns import Table
from manykernels.validation.arrays import Array, TableLike, check_choice, check_count
from manykernels.validation.parameters import RandomSource, generator_from

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure, SubFigure

# Of rows, labels of columns and weights of a mean the standard deviations of the functions on these columns less it,
# and half of the width of bands that hold the whole function, as a dictionary of columns of a frame.
Spread = Callable[[Any, Sequence[str], Array], dict[str, Array]]
BAND = 1.96  # standard deviations to each side, for 95 %
DRAWS = 10_000  # of functions, for bands that hold all of it


def bootstrap_refits(
    estimator: BaseEstimator, X: TableLike, y: ArrayLike, *, n_refits: int = 30, random_state: RandomSource = None
) -> list[Any]:
    r"""Return refits of an estimator to rows drawn anew with replacement: a bootstrap of the functions.

    The standard deviation of a function :math:`g` at a value over the refits is, :math:`\big(\tfrac{1}{B - 1} \sum_b
    (g_b - \bar g)^2\big)^{1/2}`, which displays take as ``bands``. The method applies to any loss and penalty, also
    without a posterior: margins, quantiles, hazards.

    Parameters
    ----------
    estimator : fitted estimator, or a Pipeline around an estimator
        Unchanged by the call. The last step of a pipeline is refitted on the output of the earlier steps. A search is
        repeated in every refit; pass the plain estimator with the chosen strength to save time.
    X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
        Training samples.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Their targets.
    n_refits : int, default=30
        Fits; at least 2. The error of a standard deviation is about ``1 / sqrt(2 * n_refits)``, relative.
    random_state : int, RandomState instance or None, default=None
        Seed of the stratified bootstrap.

    Returns
    -------
    list of fitted estimators

    Raises
    ------
    InvalidInputError
        If there are fewer than two refits.

    See Also
    --------
    ShapeDisplay, SurfaceDisplay : Draw curves and surfaces with the bands.

    Notes
    -----
    The multiplicity of a row is the sample weight. Every refit learns widths, standardization and weights of the
    kernels anew, so bands include the selection, unlike a posterior at the learned weights. The bands ignore the bias
    of the penalty: shrinkage is the same in all refits, and the bands are too narrow by the bias.

    References
    ----------
    B. Efron, R. Tibshirani, *An Introduction to the Bootstrap*, 1993.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> from manykernels.inspection import ShapeDisplay, bootstrap_refits
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (60, 2))
    >>> y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=60)
    >>> model = MKLRegressor(loss="quantile", tol=1e-2).fit(X, y)
    >>> refits = bootstrap_refits(model, X, y, n_refits=5, random_state=0)
    >>> shapes = ShapeDisplay.from_estimator(model, X, bands=refits)
    >>> bool((shapes.frame()["std"] > 0).any())
    True
    """
    check_is_fitted(estimator)
    if check_count(n_refits, "n_refits") < 2:
        raise InvalidInputError("A standard deviation takes at least two refits, got n_refits=1.")
    estimator, X = unwrapped(estimator, X)
    rng, refits = generator_from(random_state), []
    n_rows = np.shape(y)[0]
    parts = [np.arange(n_rows)]
    if is_classifier(estimator):
        labels = np.asarray(y)
        parts = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    for _ in range(n_refits):
        counts = np.zeros(n_rows)
        for part in parts:
            counts[part] = rng.multinomial(len(part), np.full(len(part), 1.0 / len(part)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that a draw may be noise, or select nothing
            refits.append(fresh(estimator).fit(X, y, sample_weight=counts))
    return refits


def spread_of(estimator: BaseEstimator, target: Hashable, bands: object) -> Spread | None:
    """Return the measure of uncertainty requested by ``bands`` of a display: a posterior, refits, or nothing."""
    if bands is False:
        return None
    if bands is True:
        several, table = target_names(estimator), kernel_table(estimator)
        posterior = posterior_of(estimator, target_position(estimator, target) if several else 0)

        def posterior_bands(rows: TableLike, labels: Sequence[str], mean: Array) -> dict[str, Array]:
            own = np.flatnonzero(table["columns"].isin(list(labels)))
            covariance = posterior.part_covariance(estimator._check_rows(rows), own, mean)
            values, vectors = np.linalg.eigh(covariance)
            draws = np.random.default_rng(0).normal(size=(DRAWS, len(values)))
            return _bands(draws @ (vectors * np.sqrt(np.maximum(values, 0.0))).T, np.diag(covariance))

        return posterior_bands
    if not isinstance(bands, (list, tuple)) or len(bands) < 2:
        raise InvalidInputError(
            f"bands must be True, False or the list of at least two models that bootstrap_refits gives, got {bands!r}."
        )
    refits = [unwrapped(model)[0] for model in bands]

    def refit_bands(rows: TableLike, labels: Sequence[str], mean: Array) -> dict[str, Array]:
        effects = []
        for refit in refits:
            members = np.flatnonzero(kernel_table(refit)["columns"].isin(list(labels)))
            effect = select_target(refit, refit.decompose(rows), target)[0][members].sum(axis=0)
            effects.append(effect - mean @ effect)
        return _bands(effects - np.mean(effects, axis=0), np.var(effects, axis=0, ddof=1))

    return refit_bands


def _bands(draws: Array, variance: Array) -> dict[str, Array]:
    """Return standard deviations, and half of the width of bands of 95 % for all values at once, from draws (B, n)."""
    std = np.sqrt(np.maximum(variance, 0.0))
    furthest = np.max(np.abs(draws) / np.where(std > 0, std, np.inf), axis=1, initial=0.0)
    return {"std": std, "simultaneous": max(float(np.quantile(furthest, 0.95)), BAND) * std}


MOST_CATEGORIES = 20
COLUMNS_OF_AXES = 3
WIDTH, HEIGHT = 3.0, 2.4  # of one curve, in inches
SHARE_FOR_DENSITY = 0.18  # of the height of the axes


@dataclass(kw_only=True, eq=False, repr=False)
class ShapeDisplay(draw.Display):
    r"""A curve per column: :math:`g_j(x) = \sum_{m:\, \text{kernel } m \text{ acts on } j \text{ alone}} f_m(x)`.

    With kernels on single columns the model is additive, and the score of a row is the sum of the curves and a
    constant. Kernels of several columns are excluded; ``left_out`` has the names. Create with :meth:`from_estimator`.

    Parameters
    ----------
    shapes : DataFrame
        ``column``, ``x``, ``effect`` (of mean zero over the rows given), ``density`` (share of the rows at the value),
        and with bands ``std``, the standard deviation of the effect, and ``simultaneous``, half of the width of a band
        of 95 % that holds the whole curve.
    left_out : tuple of str
        Active kernels of several columns.
    target : str
        Class or output, where there are several.
    effect : str
        Meaning of a positive effect: the class, or "added to the score".

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import KernelBank, MKLRegressor
    >>> from manykernels.inspection import ShapeDisplay
    >>> X = np.random.default_rng(0).uniform(-2, 2, (80, 3))
    >>> model = MKLRegressor(KernelBank.per_feature(widths=[1.0]), alpha=1e-3).fit(X, X[:, 0] ** 2 - X[:, 2])
    >>> shapes = ShapeDisplay.from_estimator(model, X).frame()
    >>> sorted(shapes["column"].unique())[:1], shapes.columns.tolist()
    (['x0'], ['column', 'x', 'effect', 'density'])
    """

    shapes: pd.DataFrame
    left_out: tuple[str, ...] = ()
    target: str = ""
    effect: str = "added to the score"

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: TableLike,
        *,
        columns: Sequence[str] | None = None,
        top: int = 6,
        n_points: int = 100,
        target: Hashable = None,
        bands: bool | Sequence[Any] = False,
    ) -> Self:
        """Evaluate the functions of single columns.

        Parameters
        ----------
        estimator : MKLClassifier, MKLRegressor or a search, or a Pipeline around an estimator
            Fitted on columns, not on precomputed kernels.
        X : DataFrame or array-like of shape (n_samples, n_features)
            Rows with the occurring values, for example the training rows. For a pipeline the curves use the input
            columns of the last step.
        columns : sequence of str or None, default=None
            Columns to show; None takes the most variable functions.
        top : int, default=6
            Most columns to show if ``columns`` is None.
        n_points : int, default=100
            Values of every numeric column.
        target : label, int or None, default=None
            The class or output, needed where there are several.
        bands : bool or list of fitted estimators, default=False
            Whether to measure the uncertainty of the curves, by the posterior of a Gaussian process at the learned
            weights, for all losses with second derivatives (Laplace's approximation, but for the squared loss). The
            bands are plug-in: they ignore the uncertainty of the weights. For losses with kinks, and for bands with the
            selection, pass the result of :func:`manykernels.inspection.bootstrap_refits`.

        Raises
        ------
        InvalidInputError
            If the model has no kernel on a single column, a column or target does not exist, or there are no bands.
        """
        check_is_fitted(estimator)
        estimator, X = unwrapped(estimator, X)
        names, rows = feature_names(estimator), rows_of(estimator, X)
        table = kernel_table(estimator)
        active = np.asarray(kernel_table(estimator, target)["weight"]) > 0
        unknown = [name for name in columns or () if name not in names]
        if unknown:
            raise InvalidInputError(f"There is no column {unknown[0]!r}; the columns of the model are {names[:10]}.")
        members = _active_members(table, active, names)
        wanted = list(columns) if columns is not None else list(members)
        spread = spread_of(estimator, target, bands)
        shapes = []
        for name in wanted:
            points, density = values_of(rows[name], n_points)
            effect, probe = effects_at(estimator, rows, {name: points}, members.get(name, []), target, density)
            shape = pd.DataFrame({"column": name, "x": points, "effect": effect, "density": density})
            shapes.append(shape if spread is None else shape.assign(**spread(probe, [name], density)))
        if columns is None:
            shapes = sorted(shapes, key=_spread, reverse=True)[: check_count(top, "top")]
        several = tuple(table["name"][active & ~table["columns"].isin(names)])
        return cls(
            shapes=pd.concat(shapes, ignore_index=True),
            left_out=several,
            target="" if target is None else str(target),
            effect=effect_of(estimator, target),
        )

    def plot(self, figure: Figure | None = None, *, n_columns: int = COLUMNS_OF_AXES, **line_style: object) -> Self:  # type: ignore[override]  # several axes
        """Draw a curve per column, all on the same scale, above the density of the rows; as many as there is room for.

        Parameters
        ----------
        figure : matplotlib Figure, SubFigure or None, default=None
            Empty figure to draw into; None creates a figure.
        n_columns : int, default=3
            Maximum number of curves per row.
        **line_style
            Passed to ``Axes.plot``.
        """
        draw.require_matplotlib("ShapeDisplay.plot")
        from matplotlib.figure import Figure
        from matplotlib.pyplot import figure as new_figure

        parts = list(self.shapes.groupby("column", sort=False))
        n_columns = min(check_count(n_columns, "n_columns"), len(parts))
        n_rows = -(-len(parts) // n_columns)
        size = (WIDTH * n_columns + 0.6, HEIGHT * n_rows + 0.4)
        drawn: Figure = new_figure(figsize=size) if figure is None else figure
        if isinstance(drawn, Figure) and drawn.get_layout_engine() is None:
            drawn.set_layout_engine("constrained")
        n_rows, n_columns = _grid(drawn, len(parts), n_columns)
        shown = parts[: n_rows * n_columns]
        axes = drawn.subplots(n_rows, n_columns, sharey=True, squeeze=False)
        around = self.shapes["simultaneous"] if "std" in self.shapes else 0.0
        low, high = (self.shapes["effect"] - around).min(), (self.shapes["effect"] + around).max()
        margin = 0.08 * (high - low or 1.0)
        for ax, (name, shape) in zip(axes.flat, shown, strict=False):
            ax.set_ylim(low - margin - SHARE_FOR_DENSITY * (high - low + 2 * margin), high + margin)
            _draw(ax, str(name), shape, line_style)
        for ax in axes.flat[len(shown) :]:
            ax.set_visible(False)
        drawn.supylabel(draw.plain(draw.cut_text(self.effect, 36)), fontsize="medium")
        if len(parts) > len(shown):
            more = draw.and_more(len(parts) - len(shown), "columns")
            drawn.supxlabel(more, fontsize="small", color=draw.ink_of(axes[0, 0]).muted)
        self.axes_, self.figure_ = axes, drawn
        return self


def _active_members(table: pd.DataFrame, active: Array, names: Sequence[str]) -> dict[str, Array]:
    """Return the active kernels on every single column that has some."""
    members = {name: np.flatnonzero(active & (table["columns"] == name).to_numpy()) for name in names}
    members = {name: places for name, places in members.items() if len(places)}
    if not members:
        raise InvalidInputError(
            "No kernel on a single column is active, so there is no curve to draw. Use SurfaceDisplay for two "
            "columns, ContributionsDisplay for kernels of more, or fit KernelBank.per_feature(widths=['median'])."
        )
    return members


def active_columns(estimator: BaseEstimator) -> list[str]:
    """Return the columns with active single-column kernels, sorted by norm."""
    table, known = kernel_table(estimator), set(feature_names(estimator))
    sums = table[np.asarray(table["weight"]) > 0].groupby("columns")["norm"].sum()
    return [str(name) for name in sums.sort_values(ascending=False, kind="stable").index if name in known]


def _grid(figure: Figure | SubFigure, n_parts: int, most_columns: int) -> tuple[int, int]:
    """Return how many rows and columns of axes a figure has room for, no more than are wanted."""
    width, height = draw.size_of(figure)
    least_width, least_height = 1.0, 1.4
    n_columns = min(most_columns, max(1, int(width / least_width)))
    return min(-(-n_parts // n_columns), max(1, int(height / least_height))), n_columns


def rows_of(estimator: BaseEstimator, X: TableLike) -> pd.DataFrame:
    """Return the rows as a DataFrame with the names of the estimator; unnamed columns by position."""
    table = Table.wrap(X)
    named = table.columns is not None and hasattr(estimator, "feature_names_in_")
    if not named and table.n_columns != estimator.n_features_in_:
        raise InvalidInputError(
            f"Shape functions need rows of {estimator.n_features_in_} columns, got {table.n_columns} without names."
        )
    names = list(table.names) if named else feature_names(estimator)
    return pd.DataFrame(table.data).set_axis(names, axis=1)


def effects_at(
    estimator: BaseEstimator,
    rows: pd.DataFrame,
    points: Mapping[str, Any],
    members: ArrayLike,
    target: Hashable,
    mean: Array,
) -> tuple[Array, Any]:
    """Return the effects of some kernels at values of their columns, centered, and the rows with the values."""
    # The other columns do not matter: of the parts of these rows only those of these kernels are taken.
    probe = rows.iloc[np.zeros(len(mean), dtype=int)].reset_index(drop=True)
    for name, values in points.items():
        # Categories keep their type, whole numbers become numbers.
        column = rows[name]
        probe[name] = np.asarray(values) if _continuous(column) else pd.Series(values).astype(column.dtype)
    probe.columns = list(getattr(estimator, "feature_names_in_", range(probe.shape[1])))
    parts, _ = select_target(estimator, estimator.decompose(probe), target)
    effect = parts[np.asarray(members, dtype=int)].sum(axis=0)
    return effect - mean @ effect, probe


def values_of(values: pd.Series, n_points: int) -> tuple[Any, Array]:
    """Return values of a column and the share of the nearest rows for every value."""
    present = values.dropna()
    if is_datetime64_any_dtype(values.dtype):
        start = present.min()
        seconds, density = values_of((present - start).dt.total_seconds(), n_points)
        return (start + pd.to_timedelta(seconds, unit="s")).to_numpy(), density
    if not _continuous(values):
        counts = present.value_counts().head(MOST_CATEGORIES)
        counts = counts[counts > 0]
        if is_bool_dtype(values.dtype) or (isinstance(values.dtype, pd.CategoricalDtype) and values.dtype.ordered):
            counts = counts.sort_index()  # no before yes, low before high; others by how often they occur
        return counts.index.to_numpy(), counts.to_numpy() / counts.sum()
    numbers = present.to_numpy(dtype=np.float64)
    points = np.linspace(numbers.min(), numbers.max(), check_count(n_points, "n_points"))
    edges = np.concatenate([[-np.inf], 0.5 * (points[1:] + points[:-1]), [np.inf]])
    return points, np.histogram(numbers, bins=edges)[0] / len(numbers)


def _continuous(values: pd.Series) -> bool:
    """Tell numbers and times from categories; truth values are categories."""
    return is_datetime64_any_dtype(values.dtype) or (is_numeric_dtype(values.dtype) and not is_bool_dtype(values.dtype))


def _spread(shape: pd.DataFrame) -> float:
    """Return the mean square of the effect over the rows."""
    return float((shape["density"] * shape["effect"] ** 2).sum())


def short_dates(axis: Axis) -> None:
    """Write few dates along an axis, in the shortest form."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    places = AutoDateLocator(minticks=2, maxticks=4)
    axis.set_major_locator(places)
    axis.set_major_formatter(ConciseDateFormatter(places))


def _draw(ax: Axes, name: str, shape: pd.DataFrame, line_style: dict[str, Any]) -> None:
    """Draw a single function and, at the foot of the axes, the density of the rows."""
    shape = shape.assign(x=shape["x"].infer_objects())  # columns of several kinds share one table
    ink = draw.ink_of(ax)
    numeric, dates = _continuous(shape["x"]), is_datetime64_any_dtype(shape["x"].dtype)
    x = shape["x"].to_numpy() if numeric else np.arange(len(shape))
    style = {"color": draw.color_of(ax, draw.BLUE), **line_style}
    ax.axhline(0.0, color=ink.muted, linewidth=0.8, zorder=0)
    bottom, top = ax.get_ylim()
    heights = shape["density"] / shape["density"].max() * SHARE_FOR_DENSITY * (top - bottom)
    around = BAND * shape["std"] if "std" in shape else None
    if around is not None and numeric:
        outer = shape["simultaneous"]
        ax.fill_between(x, shape["effect"] - outer, shape["effect"] + outer, color=style["color"], alpha=0.1, lw=0)
        ax.fill_between(x, shape["effect"] - around, shape["effect"] + around, color=style["color"], alpha=0.2, lw=0)
    elif around is not None:
        ax.errorbar(x, shape["effect"], yerr=around, fmt="none", ecolor=style["color"], alpha=0.6)
    if numeric:
        ax.fill_between(x, bottom, bottom + heights, color=ink.muted, alpha=0.35, linewidth=0, step="mid")
        ax.plot(x, shape["effect"], **style)
    else:
        ax.bar(x, heights, bottom=bottom, color=ink.muted, alpha=0.35)
        ax.plot(x, shape["effect"], **{"marker": "o", "linestyle": "", **style})
        draw.name_levels(ax, shape["x"].tolist())
        ax.margins(x=0.5 / len(shape) + 0.05)
    if dates:
        short_dates(ax.xaxis)
    ax.set_ylim(bottom, top)
    draw.write(ax, title=draw.plain(draw.cut_text(name, 28)))
    draw.clean(ax, grid="y")


SHOWN_WORDS = 15  # in a picture
KINDS = ("words", "places")
NO_WORDS = pd.DataFrame({"word": [], "effect": [], "share": []})


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceDisplay(draw.Display):
    r"""The contribution of a column of sequences to the score, by words and by places.

    The effect of a word is the contribution of the kernels of the column for a sequence of the word alone. The effect
    of a place is the root mean square change of the score under substitution of a letter, over some sequences and all
    letters (mutagenesis in silico). Create with :meth:`from_estimator`; ``plot`` takes ``kind``, "words" or "places".

    Parameters
    ----------
    words : DataFrame
        ``word``, ``effect``, and ``share`` of the sequences with the word; the strongest effects first.
    places : DataFrame
        ``place``, counted from 0, and ``effect``.
    name, effect : str
        Of the column, and the meaning of a positive effect.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from manykernels import KernelBank, MKLClassifier
    >>> from manykernels.inspection import SequenceDisplay
    >>> from manykernels.kernels import Kmers
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 120)
    >>> dna = ["".join(row) for row in rng.choice(list("ACGT"), (120, 20))]
    >>> X = pd.DataFrame({"dna": [text[:8] + "GATTA" + text[13:] if own else text for text, own in zip(dna, y)]})
    >>> bank = KernelBank([("words", Kmers(5), "dna")])
    >>> seen = SequenceDisplay.from_estimator(MKLClassifier(bank, alpha=0.02).fit(X, y), X)
    >>> seen.frame()["word"].iloc[0]
    'GATTA'
    >>> bool(seen.places.set_index("place")["effect"].idxmax() in range(8, 13))
    True

    Notes
    -----
    Zhou and Troyanskaya, Predicting effects of noncoding variants with deep learning-based sequence model, Nature
    Methods 12 (2015), for changes of single letters.
    """

    words: pd.DataFrame
    places: pd.DataFrame
    name: str
    effect: str = "added to the score"

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: pd.DataFrame,
        *,
        column: Hashable = None,
        length: int | None = None,
        n_rows: int = 100,
        n_words: int = 1000,
        target: Hashable = None,
    ) -> Self:
        """Evaluate a model at words, and at sequences with a substituted letter.

        Parameters
        ----------
        estimator : MKLClassifier, MKLRegressor or a search, or a Pipeline around an estimator
        X : DataFrame
            Rows, for example the training rows.
        column : str, optional
            The column of sequences; None takes the only column of k-mer kernels.
        length : int, optional
            Letters of a word; None takes the longest selected k-mers independent of place, at most 12, or no words.
        n_rows : int, default=100
            Number of sequences for substitutions.
        n_words : int, default=1000
            Maximum number of words, by frequency.
        target : label, int or None, default=None
            The class or output, needed where there are several.

        Raises
        ------
        InvalidInputError
            If no kernel of k-mers reads the column, there are several such columns, or a number is less than 1.
        """
        check_is_fitted(estimator)
        model, X = unwrapped(estimator, X)
        # The kernels of k-mers that have a weight, by the column that they read and by their number: there may be none.
        kept, read = model._expansion, dict[Any, dict[int, Kmers]]()
        for m, spec, columns in zip(kept.active, kept.bank.table.specs, kept.bank.table.positions, strict=False):
            if isinstance(spec, Kmers):
                read.setdefault(model.feature_names_in_[columns[0]], {})[int(m)] = spec
        if column is None and len(read) != 1:
            told = f"{len(read)} do: name one by column=" if read else "none does"
            raise InvalidInputError(f"The column of sequences is the only one that kernels of k-mers read, but {told}.")
        name = next(iter(read)) if column is None else column
        if name not in read:
            raise InvalidInputError(f"Kernels of k-mers read {sorted(map(str, read))}, and not {name!r}.")
        rows, kernels = pd.DataFrame(X), read[name]
        label = effect_of(model, target)
        size = None if length is None else check_count(length, "length")
        words = _words(model, rows, name, kernels, size, check_count(n_words, "n_words"), target)
        places = _places(model, rows.head(check_count(n_rows, "n_rows")), name, kernels, target)
        return cls(words=words, places=places, name=str(name), effect=label)

    def frame(self) -> pd.DataFrame:
        """Return the words with their effects, or the places where no kernel reads words without a place."""
        return self.words if len(self.words) else self.places

    def _size(self, *, kind: str | None = None, **options: object) -> tuple[float, float]:
        return (6.0, 0.8 + 0.3 * SHOWN_WORDS) if self._kind(kind) == "words" else (8.0, 3.0)

    def _kind(self, kind: str | None) -> str:
        """Return the kind of plot: words if there are any."""
        if kind is not None:
            check_choice(kind, KINDS, "kind")
        return kind or ("words" if len(self.words) else "places")

    def _draw(self, ax: Axes, *, kind: str | None = None, **bar_style: Any) -> None:
        """Draw bars, of the strongest words or of all places."""
        if self._kind(kind) == "places":
            ax.bar(
                self.places["place"],
                self.places["effect"],
                **{"width": 0.9, "color": draw.color_of(ax, draw.BLUE), **bar_style},
            )
            draw.write(ax, xlabel=draw.plain(f"letters of {self.name}, from 0"))
            ax.set_ylabel("change of the score")
            draw.clean(ax)
            return
        shown = self.words.head(SHOWN_WORDS)
        colors = [draw.color_of(ax, draw.ORANGE if effect > 0 else draw.BLUE) for effect in shown["effect"]]
        ax.barh(np.arange(len(shown)), shown["effect"], **{"color": colors, **bar_style})
        draw.name_rows(ax, shown["word"], len(self.words) - len(shown))
        draw.write(ax, xlabel=draw.plain(self.effect))
        draw.clean(ax, grid="x")


def _effects(model: BaseEstimator, rows: pd.DataFrame, kernels: Iterable[int], target: Hashable) -> Array:
    """Return the contribution of some kernels to the score of rows, (n,)."""
    parts, _ = select_target(model, model.decompose(rows), target)
    return np.asarray(parts[list(kernels)].sum(axis=0))


def _words(
    model: BaseEstimator,
    rows: pd.DataFrame,
    name: Any,
    kernels: dict[int, Kmers],
    length: int | None,
    most: int,
    target: Hashable,
) -> pd.DataFrame:
    """Return the effects of the most frequent words."""
    free = {m: spec for m, spec in kernels.items() if not spec.positional}
    if not free:
        return NO_WORDS
    longest_word = 12
    size = length or min(max(spec.k for spec in free.values()), longest_word)
    letters = set(next(iter(free.values())).letters)
    counts: Counter[str] = Counter()
    for text in rows[name].dropna():
        read = str(text).upper() if not any(letter.islower() for letter in letters) else str(text)
        counts.update({read[i : i + size] for i in range(len(read) - size + 1)})
    known = [word for word, _ in counts.most_common() if set(word) <= letters][:most]
    if not known:
        return NO_WORDS
    probe = rows.iloc[np.zeros(len(known), dtype=int)].reset_index(drop=True).assign(**{name: known})
    table = pd.DataFrame({"word": known, "effect": _effects(model, probe, free, target)})
    table["share"] = [counts[word] / len(rows) for word in known]
    return table.sort_values("effect", key=np.abs, ascending=False, kind="stable").reset_index(drop=True)


def _places(
    model: BaseEstimator, rows: pd.DataFrame, name: Any, kernels: dict[int, Kmers], target: Hashable
) -> pd.DataFrame:
    """Return how much the score changes in the mean where another letter stands at a place."""
    letters = next(iter(kernels.values())).letters
    rows = rows[rows[name].notna()]
    before = _effects(model, rows, kernels, target)
    longest = int(rows[name].str.len().max()) if len(rows) else 0
    squares, counts = np.zeros(longest), np.zeros(longest)
    for place in range(longest):
        reached = rows[name].str.len().to_numpy() > place
        for letter in letters:
            own = rows[name].str[place].str.upper() if letter.isupper() else rows[name].str[place]
            changed = reached & (own != letter).to_numpy()
            if changed.any():
                texts = rows[name][changed].map(lambda text, at=place, new=letter: text[:at] + new + text[at + 1 :])
                after = _effects(model, rows[changed].assign(**{name: texts}), kernels, target)
                squares[place] += float(np.sum((after - before[changed]) ** 2))
                counts[place] += changed.sum()
    return pd.DataFrame({"place": np.arange(longest), "effect": np.sqrt(squares / np.maximum(counts, 1))})
