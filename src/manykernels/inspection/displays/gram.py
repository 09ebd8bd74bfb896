"""Kernels before the fit: a Gram matrix as a picture, and alignments of kernels and target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from manykernels.alignment import center_kernel, target_kernel
from manykernels.exceptions import InvalidInputError
from manykernels.inspection.displays import plotting as draw
from manykernels.kernels import KernelBank
from manykernels.validation.arrays import Array, TableLike, are_labels, check_count
from manykernels.validation.gram import check_square_kernel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Which kernels say the same, and which say something about the target: centered alignments as a heat map.

TARGET = "target"


@dataclass(kw_only=True, eq=False, repr=False)
class AlignmentDisplay(draw.Display):
    """Centered alignments among kernels, and of every with the target (first row), between 0 and 1.

    Create with :meth:`from_kernels` or :meth:`from_bank`.

    ``plot`` takes ``cmap`` and ``colorbar``, and writes numbers if space permits.

    Parameters
    ----------
    alignments : DataFrame
        Square; the first row and column are the target if any, then the kernels shown.
    n_kernels : int
        Number of kernels in all.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import Gaussian, KernelBank
    >>> from manykernels.inspection import AlignmentDisplay
    >>> X = np.random.default_rng(0).normal(size=(30, 3))
    >>> display = AlignmentDisplay.from_bank(KernelBank.per_feature(Gaussian(1.0)), X, y=X[:, 1])
    >>> display.frame().columns[:2].tolist()
    ['target', 'x1: gaussian(width=1)']
    """

    alignments: pd.DataFrame
    n_kernels: int

    @classmethod
    def from_kernels(
        cls, kernels: Any, *, y: ArrayLike | None = None, names: Sequence[str] | None = None, top: int = 30
    ) -> Self:
        """Take precomputed kernels.

        Parameters
        ----------
        kernels : array-like of shape (n_kernels, n_samples, n_samples), or a list of matrices
        y : array-like of shape (n_samples,) or None, default=None
            Labels or numbers; kernels are then sorted by alignment with the labels.
        names : sequence of str or None, default=None
            Of the kernels.
        top : int, default=30
            Most kernels to show: the kernels most aligned with the target, or the first.

        Raises
        ------
        InvalidInputError
            If a kernel is no square matrix of finite numbers, or is constant.
        """
        names = [f"kernel {m}" for m in range(len(kernels))] if names is None else [str(name) for name in names]
        if len(names) != len(kernels):
            raise InvalidInputError(f"There are {len(kernels)} kernels but {len(names)} names.")
        return cls._create(lambda m: kernels[m], names, y, top)

    @classmethod
    def from_bank(cls, bank: KernelBank, X: TableLike, *, y: ArrayLike | None = None, top: int = 30) -> Self:
        """Evaluate the kernels of a bank on a table, one at a time.

        Parameters
        ----------
        bank : KernelBank
        X : DataFrame or array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or None, default=None
            Labels or numbers; kernels are then sorted by alignment with the labels.
        top : int, default=30
            Most kernels to show: the kernels most aligned with the target, or the first.
        """
        fitted, prepared = bank.fit_prepare(X)
        return cls._create(lambda m: fitted.block(prepared, prepared, kernels=[m])[0], list(fitted.names), y, top)

    @classmethod
    def _create(cls, kernel: Callable[[int], Array], names: list[str], y: ArrayLike | None, top: int) -> Self:
        """Keep the unit, centered matrices of the kernels shown only."""
        check_count(top, "top")
        shown, units = list(range(len(names)))[:top], []
        if y is not None:
            ideal = _unit(target_kernel(y), "the target")
            similar = [float(np.vdot(_unit(kernel(m), names[m]), ideal)) for m in range(len(names))]
            shown = np.argsort(-np.asarray(similar), kind="stable")[:top].tolist()
            units = [ideal]
        units += [_unit(kernel(m), names[m]) for m in shown]
        rows = np.array([unit.ravel() for unit in units])
        labels = pd.Index([*([TARGET] if y is not None else []), *(names[m] for m in shown)], name="kernel")
        values = np.clip(rows @ rows.T, -1.0, 1.0)
        return cls(alignments=pd.DataFrame(values, index=labels, columns=labels), n_kernels=len(names))

    def _size(self, **options: object) -> tuple[float, float]:
        side = max(3.2, 0.24 * (len(self.alignments) + 1))
        return 4.4 + side, 1.0 + side

    def _draw(self, ax: Axes, *, cmap: str = "viridis", colorbar: bool = True) -> None:
        """Draw the alignments, with numbers if space permits."""
        # Labels and colorbar leave about half of the width for the square.
        most = min(
            draw.rows_that_fit(ax), max(2, int(0.5 * draw.inches_of(ax)[0] * draw.POINTS_AN_INCH / draw.font_points()))
        )
        shown = self.alignments.iloc[:most, :most]
        values = shown.to_numpy()
        image = ax.imshow(values, cmap=cmap, vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
        few_cells = 14  # a side, up to which numbers are written into the cells
        if len(values) <= few_cells and 0.5 * min(draw.inches_of(ax)) / len(values) > 0.2:
            for row, column in np.ndindex(*values.shape):
                style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": "x-small"}
                color = "black" if values[row, column] > 0.6 else "white"
                ax.text(column, row, f"{values[row, column]:.2f}", color=color, **style)
        labels = draw.cut_labels(shown.index, 4 * draw.letters_that_fit(ax) // 5)
        ax.set_yticks(range(len(labels)), labels)
        ax.set_xticks([])  # the same as the rows
        ax.tick_params(length=0)
        with_target = len(shown) > 0 and shown.index[0] == TARGET
        if with_target:
            ax.axhline(0.5, color="white", linewidth=1.5)
            ax.axvline(0.5, color="white", linewidth=1.5)
        rest = self.n_kernels - len(shown) + with_target
        if rest > 0:
            draw.write(ax, xlabel=draw.and_more(rest, "kernels"), color=draw.ink_of(ax).muted, style="italic")
        draw.write(ax, title="How alike the kernels are")
        if colorbar:
            ax.figure.colorbar(image, ax=ax, label="centered alignment", shrink=0.8, pad=0.02)


def _unit(K: ArrayLike, name: str) -> Array:
    """Return the centered kernel divided by the Frobenius norm."""
    centered = center_kernel(K)
    size = float(np.linalg.norm(centered))
    if size <= np.finfo(float).eps * float(np.abs(K).max(initial=0.0)) * len(centered):
        raise InvalidInputError(f"{name!r} is constant after centering; its alignment with anything is not defined.")
    return centered / size


MOST_CLASSES = 12  # with a label at the edge


@dataclass(kw_only=True, eq=False, repr=False)
class GramDisplay(draw.Display):
    """A Gram matrix as a heat map; with labels, lines separate the classes, and a good kernel has bright blocks.

    Create with :meth:`from_kernel` or :meth:`from_bank`.

    ``plot`` takes ``cmap`` and ``colorbar``.

    Parameters
    ----------
    values : ndarray of shape (n_cells, n_cells)
        The matrix, sorted, averaged over blocks if large.
    groups : DataFrame or None, default=None
        ``label`` and ``end`` of every class, in the order of the rows; ``end`` is a share of all samples.
    n_samples : int, default=0
        Samples of the matrix.
    name : str, default=""
        Of the kernel.
    ordered_by : str, default=""
        The sort key of the samples.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import Gaussian, KernelBank
    >>> from manykernels.inspection import GramDisplay
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> y = np.where(X[:, 0] > 0, "yes", "no")
    >>> display = GramDisplay.from_bank(KernelBank.per_feature(Gaussian(1.0)), X, "x0: gaussian(width=1)", y=y)
    >>> display.frame().shape, display.groups["label"].tolist()
    ((30, 30), ['no', 'yes'])
    """

    inches: ClassVar[tuple[float, float]] = (5.6, 4.8)
    values: Array
    groups: pd.DataFrame | None = None
    n_samples: int = 0
    name: str = ""
    ordered_by: str = ""

    def __post_init__(self) -> None:
        self.n_samples = self.n_samples or len(self.values)

    @classmethod
    def from_kernel(cls, K: Any, *, y: ArrayLike | None = None, name: str = "") -> Self:
        """Take a matrix unchanged.

        Parameters
        ----------
        K : array-like of shape (n_samples, n_samples)
            Kernel among the same samples.
        y : array-like of shape (n_samples,) or None, default=None
            Labels or numbers to sort by.
        name : str, default=""
            For the title.

        Raises
        ------
        InvalidInputError
            If K is no square matrix of finite numbers, or y has another length.
        """
        gram = check_square_kernel(K, "K")
        if y is None:
            return cls(values=_blocks(gram), n_samples=len(gram), name=name)
        values = np.asarray(y)
        if values.shape != (len(gram),):
            raise InvalidInputError(f"y must have shape ({len(gram)},), one value a sample, got {values.shape}.")
        order = np.argsort(values, kind="stable")
        counts = pd.Series(values[order]).value_counts(sort=False)
        labeled = are_labels(values) and len(counts) <= max(MOST_CLASSES, len(gram) // 4)
        groups = pd.DataFrame({"label": counts.index, "end": counts.cumsum().to_numpy() / len(gram)})
        return cls(
            values=_blocks(gram[np.ix_(order, order)]),
            groups=groups if labeled else None,
            n_samples=len(gram),
            name=name,
            ordered_by="class" if labeled else "target",
        )

    @classmethod
    def from_bank(cls, bank: KernelBank, X: TableLike, kernel: str | int = 0, *, y: ArrayLike | None = None) -> Self:
        """Evaluate a single kernel of a bank on a table.

        Parameters
        ----------
        bank : KernelBank
        X : DataFrame or array-like of shape (n_samples, n_features)
        kernel : str or int, default=0
            The name or the position.
        y : array-like of shape (n_samples,) or None, default=None
            Labels or numbers to sort by.

        Raises
        ------
        InvalidInputError
            For an unknown kernel.
        """
        fitted, prepared = bank.fit_prepare(X)
        names = list(fitted.names)
        known = kernel in names if isinstance(kernel, str) else 0 <= kernel < len(names)
        if not known:
            raise InvalidInputError(f"No kernel {kernel!r}; the {len(names)} kernels are {names[:5]} ...")
        place = names.index(kernel) if isinstance(kernel, str) else kernel
        return cls.from_kernel(fitted.block(prepared, prepared, kernels=[place])[0], y=y, name=names[place])

    def _draw(self, ax: Axes, *, cmap: str = "viridis", colorbar: bool = True) -> None:
        """Draw the matrix."""
        outside = 0.01  # share of the values beyond either end of the colors
        # A few far samples, or the diagonal, would leave the rest in one color.
        low, high = np.quantile(self.values, outside), np.quantile(self.values, 1 - outside)
        limits = {"vmin": low, "vmax": high} if high > low else {}
        style = {"cmap": cmap, "aspect": "equal", "interpolation": "nearest", **limits}
        image = ax.imshow(self.values, extent=(0, 1, 1, 0), **style)
        ax.set_xticks([])
        ax.set_yticks([])
        sorted_by = f", sorted by {self.ordered_by}" if self.ordered_by else ""
        draw.write(ax, xlabel=f"{self.n_samples:,} samples{sorted_by}", color=draw.ink_of(ax).muted)
        draw.write(ax, title=draw.cut_labels([self.name], 40)[0] or "Gram matrix")
        if self.groups is not None:
            self._mark(ax, self.groups)
        if colorbar:
            extend = "both" if limits else "neither"
            ax.figure.colorbar(image, ax=ax, label="kernel value", shrink=0.8, pad=0.02, extend=extend)

    def _mark(self, ax: Axes, groups: pd.DataFrame) -> None:
        """Separate the classes by lines, and label the tall ones."""
        ends = groups["end"].to_numpy()
        for end in ends[:-1] if len(ends) <= 4 * MOST_CLASSES else []:
            ax.axhline(end, color="white", linewidth=0.8)
            ax.axvline(end, color="white", linewidth=0.8)
        starts = np.concatenate([[0.0], ends[:-1]])
        # A label needs the height of a line of text.
        tall = np.flatnonzero((ends - starts) * draw.inches_of(ax)[1] > 0.16)[:MOST_CLASSES]
        labels = [draw.plain(draw.cut_text(str(label), 16)) for label in groups["label"].iloc[tall]]
        ax.set_yticks((starts + ends)[tall] / 2, labels)
        ax.tick_params(length=0)


def _blocks(gram: Array) -> Array:
    """Return the matrix, or means of blocks for a large matrix."""
    most_cells = 400  # a side of the picture; larger matrices are averaged over blocks
    if len(gram) <= most_cells:
        return gram.copy()
    edges = np.linspace(0, len(gram), most_cells + 1).astype(int)
    sums = np.add.reduceat(np.add.reduceat(gram, edges[:-1], axis=0), edges[:-1], axis=1)
    sizes = np.diff(edges)
    return sums / np.outer(sizes, sizes)
