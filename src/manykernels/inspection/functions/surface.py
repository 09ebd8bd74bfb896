"""Surfaces: what the kernels of a pair of columns add for each of their values, without what each adds by itself."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from manykernels.exceptions import InvalidInputError
from manykernels.inspection.displays.kernel_table import effect_of, kernel_table, known_features
from manykernels.inspection.displays.plotting import BLUE, ORANGE, Display, color_of, cut_text, plain, write
from manykernels.inspection.functions.shape import (
    BAND,
    Spread,
    effects_at,
    rows_of,
    short_dates,
    spread_of,
    values_of,
)
from manykernels.inspection.pipelines import unwrapped
from manykernels.validation.arrays import TableLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap


@dataclass(kw_only=True, eq=False, repr=False)
class SurfaceDisplay(Display):
    r"""What a pair of columns adds: :math:`g(x, z) = \sum_{m:\, \text{kernel } m \text{ acts on both}} f_m(x, z)`.

    With the kernels of :meth:`KernelBank.interactions` these are pure interactions. Make it with
    :meth:`from_estimator`.

    ``plot`` takes ``cmap``, diverging colors around zero (None: orange adds, blue takes away, zero is the background),
    ``colorbar``, and ``limit``, the effect that has the full color, so that several surfaces compare.

    Parameters
    ----------
    surface : DataFrame
        ``x``, ``z``, ``effect`` (of mean zero over the values shown); one row a pair of values; with bands ``std``.
    names : tuple of str
        Of the two columns.
    effect : str
        What a positive effect speaks for: the class, or "added to the score".

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
        n_points: int = 40,
        target: Hashable = None,
        bands: bool | Sequence[Any] = False,
    ) -> Self:
        """Evaluate the functions of a pair of columns.

        Parameters
        ----------
        estimator : MKLClassifier, MKLRegressor or a search, or a Pipeline that ends in one
        X : DataFrame or array-like of shape (n_samples, n_features)
            Rows, such as those of training: they say which values occur.
        columns : pair of str or int, optional
            Names or positions. None takes the pair whose kernels have the largest norms.
        n_points : int, default=40
            Values of each numeric column.
        target : label, int or None, default=None
            The class or output, needed where there are several.
        bands : bool or list of fitted estimators, default=False
            Whether to measure the uncertainty of the surface, as in :class:`ShapeDisplay`; pairs of values at which the
            effect is within 1.96 standard deviations of zero are then marked.

        Returns
        -------
        SurfaceDisplay

        Raises
        ------
        InvalidInputError
            If the model has no kernel on two columns, or none on those asked for, or does not know a column.
        """
        check_is_fitted(estimator)
        estimator, X = unwrapped(estimator, X)
        table, rows = kernel_table(estimator, target), rows_of(estimator, X)
        known, pairs = known_features(estimator), _labeled_pairs(estimator, table)
        if columns is None and not pairs:
            raise InvalidInputError("No kernel on two columns is active, so that there is no surface to draw.")
        names = next(iter(pairs.values())) if columns is None else _named(columns, known)
        labels = [label for label, pair in pairs.items() if pair in (names, names[::-1])]
        if not labels:
            raise InvalidInputError(f"No kernel on the columns {names} is active.")
        spread = spread_of(estimator, target, bands)
        surface = _surface(estimator, rows, names, labels, n_points, target, spread)
        return cls(surface=surface, names=names, effect=effect_of(estimator, target))

    def _size(self, **options: object) -> tuple[float, float]:
        return 5.6, 4.4

    def _draw(
        self, ax: Axes, *, cmap: str | Colormap | None = None, colorbar: bool = True, limit: float | None = None
    ) -> None:
        """Draw the surface in colors around zero."""
        values = self.surface.pivot(index="z", columns="x", values="effect")
        # In the order of the values, which for categories is not that of the alphabet.
        values = values.reindex(index=self.surface["z"].unique(), columns=self.surface["x"].unique())
        size = limit or float(np.abs(values.to_numpy()).max()) or 1.0
        axes = [side if _on_a_line(side) else np.arange(len(side)) for side in _sides(values)]
        colors = _orange_and_blue(ax) if cmap is None else cmap
        image = ax.pcolormesh(*axes, values.to_numpy(), cmap=colors, vmin=-size, vmax=size, shading="nearest")
        if "std" in self.surface:
            unsure = self.surface[self.surface["effect"].abs() <= BAND * self.surface["std"]]
            places = [pd.Index(side).get_indexer(unsure[at]) for side, at in zip(_sides(values), "xz", strict=True)]
            ax.plot(*(side[at] for side, at in zip(axes, places, strict=True)), ".", color="0.5", markersize=2)
        for side, axis, ticks in zip(_sides(values), (ax.xaxis, ax.yaxis), (ax.set_xticks, ax.set_yticks), strict=True):
            if not _on_a_line(side):
                ticks(np.arange(len(side)), [plain(cut_text(str(value), 10)) for value in side])
            elif np.issubdtype(side.dtype, np.datetime64):
                short_dates(axis)
            else:
                axis.get_major_locator().set_params(nbins=5)  # type: ignore[call-arg]  # those of numbers have it
        write(ax, xlabel=plain(cut_text(self.names[0], 30)))
        ax.set_ylabel(plain(cut_text(self.names[1], 30)))
        if colorbar:
            ax.figure.colorbar(image, ax=ax, label=plain(cut_text(self.effect, 36)))


def _on_a_line(side: np.ndarray) -> bool:
    """Return whether values are numbers or dates, which have distances."""
    return side.dtype != bool and (np.issubdtype(side.dtype, np.number) or np.issubdtype(side.dtype, np.datetime64))


def _orange_and_blue(ax: Axes) -> Any:
    """Return blue to orange, the less the effect the more of the background shines through, be it light or dark."""
    from matplotlib.colors import ListedColormap, to_rgb

    shades = np.linspace(-1.0, 1.0, 25)
    return ListedColormap([(*to_rgb(color_of(ax, ORANGE if shade > 0 else BLUE)), abs(shade)) for shade in shades])


def active_pairs(estimator: BaseEstimator) -> list[tuple[str, str]]:
    """Return the pairs of columns that kernels with weight act on, those of the largest norms first."""
    pairs = _labeled_pairs(estimator, kernel_table(estimator)).values()
    return [pair for at, pair in enumerate(pairs) if pair[::-1] not in list(pairs)[:at]]


def _labeled_pairs(estimator: BaseEstimator, table: pd.DataFrame) -> dict[str, tuple[str, str]]:
    """Return the pairs of columns of active kernels by their labels, those of the largest norms first."""
    known = set(known_features(estimator))
    sums = table[np.asarray(table["weight"]) > 0].groupby("columns")["norm"].sum()
    ordered = sums.sort_values(ascending=False, kind="stable").index
    return {label: pair for label in ordered if (pair := _pair_of(label, known))}


def _pair_of(label: str, known: set[str]) -> tuple[str, str] | None:
    """Return the two columns that a label names, if it names two; names may have commas of their own."""
    parts = str(label).split(", ")
    pairs = ((", ".join(parts[:k]), ", ".join(parts[k:])) for k in range(1, len(parts)))
    return next((pair for pair in pairs if pair[0] in known and pair[1] in known), None)


def _named(columns: Any, known: list[str]) -> tuple[str, str]:
    """Return the names of two columns, given by name or position."""
    if isinstance(columns, str) or len(columns) != 2:
        raise InvalidInputError(f"columns must be two columns, by name or position, got {columns!r}.")
    names = []
    for column in columns:
        by_position = isinstance(column, (int, np.integer)) and str(column) not in known
        if str(column) not in known and not (by_position and 0 <= column < len(known)):
            few = ", ".join(map(repr, known[:5])) + (", ..." if len(known) > 5 else "")
            raise InvalidInputError(f"columns has {column!r}, but the model has {len(known)} columns: {few}.")
        names.append(known[int(column)] if by_position else str(column))
    return names[0], names[1]


def _sides(values: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of both columns."""
    return values.columns.to_numpy(), values.index.to_numpy()


def _surface(
    estimator: BaseEstimator,
    rows: pd.DataFrame,
    names: tuple[str, str],
    labels: list[str],
    n_points: int,
    target: Hashable,
    spread: Spread | None,
) -> pd.DataFrame:
    """Return the functions of a pair at all pairs of values that stand for the ranges of its columns."""
    first, second = (values_of(rows[name], n_points)[0] for name in names)
    x, z = np.repeat(first, len(second)), np.tile(second, len(first))
    members = np.flatnonzero(kernel_table(estimator)["columns"].isin(labels))
    alike = np.full(len(x), 1.0 / len(x))
    points = dict(zip(names, (x, z), strict=True))
    effect, probe = effects_at(estimator, rows, points, members, target, alike)
    surface = pd.DataFrame({"x": x, "z": z, "effect": effect})
    return surface if spread is None else surface.assign(std=spread(probe, labels, alike))
