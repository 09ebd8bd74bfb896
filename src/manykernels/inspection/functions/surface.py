"""Surfaces: the joint effects of pairs of columns, without the effects of single columns."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from manykernels.exceptions import InvalidInputError
from manykernels.inspection.displays import plotting as draw
from manykernels.inspection.displays.kernel_table import columns_of, effect_of, feature_names, kernel_table
from manykernels.inspection.functions.shape import BAND, effects_at, rows_of, short_dates, spread_of, values_of
from manykernels.inspection.pipelines import unwrapped
from manykernels.validation.arrays import TableLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap


@dataclass(kw_only=True, eq=False, repr=False)
class SurfaceDisplay(draw.Display):
    r"""What a pair of columns adds: :math:`g(x, z) = \sum_{m:\, \text{kernel } m \text{ acts on both}} f_m(x, z)`.

    With the kernels of :meth:`KernelBank.interactions` the surfaces are pure interactions. Create with
    :meth:`from_estimator`; ``at`` fixes further columns, for slices of higher products.

    ``plot`` takes ``cmap``, diverging colors around zero (None: orange adds, blue takes away, zero is the background),
    ``colorbar``, and ``limit``, the effect of the full color, for comparable surfaces.

    Parameters
    ----------
    surface : DataFrame
        ``x``, ``z``, ``effect`` (of mean zero over the values shown); a row per pair of values; with bands ``std``, and
        ``simultaneous``, half of the width of a 95% band for the whole surface.
    names : tuple of str
        Of the two columns.
    effect : str
        Meaning of a positive effect: the class, or "added to the score".

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import KernelBank, MKLRegressor
    >>> from manykernels.inspection import SurfaceDisplay
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 3))
    >>> model = MKLRegressor(KernelBank.interactions(bins=8), alpha="0.1*max").fit(X, X[:, 0] * X[:, 2])
    >>> surface = SurfaceDisplay.from_estimator(model, X, n_points=9)
    >>> surface.names, len(surface.frame())
    (('x0', 'x2'), 81)
    """

    inches: ClassVar[tuple[float, float]] = (5.6, 4.4)
    surface: pd.DataFrame
    names: tuple[str, str]
    effect: str = "added to the score"

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: TableLike,
        *,
        columns: tuple[Any, Any] | None = None,
        at: Mapping[Any, Any] | None = None,
        n_points: int = 40,
        target: Hashable = None,
        bands: bool | Sequence[Any] = False,
    ) -> Self:
        """Evaluate the functions of a pair of columns.

        Parameters
        ----------
        estimator : MKLClassifier, MKLRegressor or a search, or a Pipeline around an estimator
        X : DataFrame or array-like of shape (n_samples, n_features)
            Rows, with the occurring values, for example the training rows.
        columns : pair of str or int, optional
            Names or positions. None takes the pair with the largest norm.
        at : dict of str or int to value, optional
            Fixed values of further columns: shows the kernels on the pair and on some or all of the columns, a slice of
            higher products. Without ``columns``, the pair is chosen among products with the columns.
        n_points : int, default=40
            Values of every numeric column.
        target : label, int or None, default=None
            The class or output, needed where there are several.
        bands : bool or list of fitted estimators, default=False
            Whether to measure the uncertainty of the surface, as in :class:`ShapeDisplay`; effects within 1.96 standard
            deviations of zero are marked.

        Raises
        ------
        InvalidInputError
            Without a kernel on two columns, or on the given columns, or for an unknown column.
        """
        check_is_fitted(estimator)
        estimator, X = unwrapped(estimator, X)
        table, rows = kernel_table(estimator, target), rows_of(estimator, X)
        known, held = feature_names(estimator), {}
        for column, value in (at or {}).items():
            held[_name(column, known)] = value
        sets = _labeled_sets(estimator, table, 2 + len(held))
        free = {label: tuple(column for column in full if column not in held) for label, full in sets.items()}
        pairs = {label: own for label, own in free.items() if len(own) == 2}
        if columns is None:
            columns = _first_pair(pairs, sets, held)
        if isinstance(columns, str) or len(columns) != 2:
            raise InvalidInputError(f"columns must be two columns, by name or position, got {columns!r}.")
        names = _name(columns[0], known), _name(columns[1], known)
        labels = [label for label, pair in pairs.items() if pair in (names, names[::-1])]
        if not labels:
            raise InvalidInputError(f"No kernel on the columns {names} is active.")
        spread = spread_of(estimator, target, bands)
        # The functions of the pair at all pairs of values that stand for the ranges of its columns.
        across, up = (values_of(rows[name], n_points)[0] for name in names)
        x, z = np.repeat(across, len(up)), np.tile(up, len(across))
        members, alike = np.flatnonzero(table["columns"].isin(labels)), np.full(len(x), 1.0 / len(x))
        points = dict(zip(names, (x, z), strict=True)) | {name: np.full(len(x), value) for name, value in held.items()}
        effect, probe = effects_at(estimator, rows, points, members, target, alike)
        surface = pd.DataFrame({"x": x, "z": z, "effect": effect})
        surface = surface if spread is None else surface.assign(**spread(probe, labels, alike))
        return cls(surface=surface, names=names, effect=effect_of(estimator, target))

    def _draw(
        self, ax: Axes, *, cmap: str | Colormap | None = None, colorbar: bool = True, limit: float | None = None
    ) -> None:
        """Draw the surface in colors around zero."""
        values = self.surface.pivot(index="z", columns="x", values="effect")
        # In the order of the values, which for categories is not that of the alphabet.
        values = values.reindex(index=self.surface["z"].unique(), columns=self.surface["x"].unique())
        size = limit or float(np.abs(values.to_numpy()).max()) or 1.0
        axes = [side if _is_metric(side) else np.arange(len(side)) for side in _sides(values)]
        colors = _orange_and_blue(ax) if cmap is None else cmap
        image = ax.pcolormesh(*axes, values.to_numpy(), cmap=colors, vmin=-size, vmax=size, shading="nearest")
        if "std" in self.surface:
            unsure = self.surface[self.surface["effect"].abs() <= BAND * self.surface["std"]]
            places = [pd.Index(side).get_indexer(unsure[at]) for side, at in zip(_sides(values), "xz", strict=True)]
            ax.plot(*(side[at] for side, at in zip(axes, places, strict=True)), ".", color="0.5", markersize=2)
        for side, axis in zip(_sides(values), (ax.xaxis, ax.yaxis), strict=True):
            if not _is_metric(side) and axis is ax.xaxis:
                draw.name_levels(ax, list(side))
            elif not _is_metric(side):
                ax.set_yticks(np.arange(len(side)), [draw.plain(draw.cut_text(str(value), 10)) for value in side])
            elif np.issubdtype(side.dtype, np.datetime64):
                short_dates(axis)
            else:
                axis.get_major_locator().set_params(nbins=5)  # type: ignore[call-arg]  # those of numbers have it
        draw.write(ax, xlabel=draw.plain(draw.cut_text(self.names[0], 30)))
        ax.set_ylabel(draw.plain(draw.cut_text(self.names[1], 30)))
        if colorbar:
            ax.figure.colorbar(image, ax=ax, label=draw.plain(draw.cut_text(self.effect, 36)))


def _is_metric(side: np.ndarray) -> bool:
    """Return whether values are numbers or dates, with distances."""
    return side.dtype != bool and (np.issubdtype(side.dtype, np.number) or np.issubdtype(side.dtype, np.datetime64))


def _orange_and_blue(ax: Axes) -> Any:
    """Return blue to orange; small effects approach the background, light or dark."""
    from matplotlib.colors import ListedColormap, to_rgb

    shades = np.linspace(-1.0, 1.0, 25)
    return ListedColormap(
        [(*to_rgb(draw.color_of(ax, draw.ORANGE if shade > 0 else draw.BLUE)), abs(shade)) for shade in shades]
    )


def active_pairs(estimator: BaseEstimator) -> list[tuple[str, str]]:
    """Return the pairs of columns with active kernels, sorted by norm."""
    pairs = list(_labeled_sets(estimator, kernel_table(estimator), 2).values())
    return [(first, second) for at, (first, second) in enumerate(pairs) if (second, first) not in pairs[:at]]


def _labeled_sets(estimator: BaseEstimator, table: pd.DataFrame, most: int) -> dict[str, tuple[str, ...]]:
    """Return the columns of active kernels on two to ``most`` columns, by label, sorted by norm."""
    known = set(feature_names(estimator))
    sums = table[np.asarray(table["weight"]) > 0].groupby("columns")["norm"].sum()
    ordered = sums.sort_values(ascending=False, kind="stable").index
    return {label: own for label in ordered if 2 <= len(own := columns_of(str(label), known)) <= most}


def _name(column: Hashable, known: list[str]) -> str:
    """Return the name of a column, given by name or position."""
    if str(column) in known:
        return str(column)
    if isinstance(column, (int, np.integer)) and 0 <= column < len(known):
        return known[int(column)]
    few = ", ".join(map(repr, known[:5])) + (", ..." if len(known) > 5 else "")
    raise InvalidInputError(f"columns has {column!r}, but the model has {len(known)} columns: {few}.")


def _sides(values: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of both columns."""
    return values.columns.to_numpy(), values.index.to_numpy()


def _first_pair(
    pairs: Mapping[str, tuple[Any, ...]], sets: Mapping[str, Sequence[Any]], held: Mapping[Any, Any]
) -> tuple[Any, Any]:
    """Return the columns of the first active kernel on two columns beside held ones, or reject a model without."""
    if not pairs:
        others = f" beside {', '.join(map(repr, held))}" if held else ""
        raise InvalidInputError(f"No kernel on two columns{others} is active, so there is no surface to draw.")
    whole = [own for label, own in pairs.items() if len(sets[label]) == 2 + len(held)]
    first, second = next(iter(whole or pairs.values()))
    return first, second
