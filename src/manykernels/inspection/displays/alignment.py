"""Which kernels say the same, and which say something about the target: centered alignments as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from manykernels.alignment import center_kernel, target_kernel
from manykernels.exceptions import InvalidInputError
from manykernels.inspection.displays.plotting import (
    POINTS_AN_INCH,
    Display,
    and_more,
    cut_labels,
    font_points,
    inches_of,
    ink_of,
    letters_that_fit,
    rows_that_fit,
    write,
)
from manykernels.kernels import KernelBank
from manykernels.validation.arrays import check_count

Array = NDArray[Any]

TARGET = "target"
FEW_CELLS = 14  # a side, up to which numbers are written into the cells


@dataclass(kw_only=True, eq=False, repr=False)
class AlignmentDisplay(Display):
    """Centered alignments among kernels, and of each with the target (first row), between 0 and 1.

    Make it with :meth:`from_kernels` or :meth:`from_bank`.

    ``plot`` takes ``cmap`` and ``colorbar``, and writes numbers while there is room for them.

    Parameters
    ----------
    alignments : DataFrame
        Square; the first row and column are the target if there is one, then the kernels that are shown.
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
    def from_kernels(cls, kernels: Any, *, y: Any = None, names: Sequence[str] | None = None, top: int = 30) -> Self:
        """Take precomputed kernels.

        Parameters
        ----------
        kernels : array-like of shape (n_kernels, n_samples, n_samples), or a list of matrices
        y : array-like of shape (n_samples,) or None, default=None
            Labels or numbers; kernels are then sorted by their alignment with it.
        names : sequence of str or None, default=None
            Of the kernels.
        top : int, default=30
            Most kernels to show: those most like the target, or the first.

        Returns
        -------
        AlignmentDisplay

        Raises
        ------
        InvalidInputError
            If a kernel is no square matrix of finite numbers, or is constant.
        """
        names = [f"kernel {m}" for m in range(len(kernels))] if names is None else [str(name) for name in names]
        if len(names) != len(kernels):
            raise InvalidInputError(f"There are {len(kernels)} kernels but {len(names)} names.")
        return cls._of(lambda m: kernels[m], names, y, top)

    @classmethod
    def from_bank(cls, bank: KernelBank, X: Any, *, y: Any = None, top: int = 30) -> Self:
        """Evaluate the kernels of a bank on a table, one at a time.

        Parameters
        ----------
        bank : KernelBank
        X : DataFrame or array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or None, default=None
            Labels or numbers; kernels are then sorted by their alignment with it.
        top : int, default=30
            Most kernels to show: those most like the target, or the first.

        Returns
        -------
        AlignmentDisplay
        """
        fitted, prepared = bank.fit_prepare(X)
        return cls._of(lambda m: fitted.block(prepared, prepared, kernels=[m])[0], list(fitted.names), y, top)

    @classmethod
    def _of(cls, kernel: Any, names: list[str], y: Any, top: int) -> Self:
        """Keep the unit, centered matrices of the kernels that are shown only."""
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

    def _size(self, **options: Any) -> tuple[float, float]:
        side = max(3.2, 0.24 * (len(self.alignments) + 1))
        return 4.4 + side, 1.0 + side

    def _draw(self, ax: Any, *, cmap: str = "viridis", colorbar: bool = True) -> None:
        """Draw the alignments, with numbers while there is room for them."""
        # Labels and colorbar leave about half of the width for the square.
        most = min(rows_that_fit(ax), max(2, int(0.5 * inches_of(ax)[0] * POINTS_AN_INCH / font_points())))
        shown = self.alignments.iloc[:most, :most]
        values = shown.to_numpy()
        image = ax.imshow(values, cmap=cmap, vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
        if len(values) <= FEW_CELLS and 0.5 * min(inches_of(ax)) / len(values) > 0.2:
            for row, column in np.ndindex(*values.shape):
                style = {"color": "black" if values[row, column] > 0.6 else "white", "fontsize": "x-small"}
                ax.text(column, row, f"{values[row, column]:.2f}", ha="center", va="center", **style)
        self._label(ax, shown)
        if colorbar:
            ax.figure.colorbar(image, ax=ax, label="centered alignment", shrink=0.8, pad=0.02)

    def _label(self, ax: Any, shown: pd.DataFrame) -> None:
        labels = cut_labels(shown.index, 4 * letters_that_fit(ax) // 5)
        ax.set_yticks(range(len(labels)), labels)
        ax.set_xticks([])  # the same as the rows
        ax.tick_params(length=0)
        with_target = len(shown) > 0 and shown.index[0] == TARGET
        if with_target:
            ax.axhline(0.5, color="white", linewidth=1.5)
            ax.axvline(0.5, color="white", linewidth=1.5)
        rest = self.n_kernels - len(shown) + with_target
        if rest > 0:
            write(ax, xlabel=and_more(rest, "kernels"), color=ink_of(ax).muted, style="italic")
        write(ax, title="How alike the kernels are")


def _unit(K: Any, name: str) -> Array:
    """Return the centered kernel divided by its Frobenius norm."""
    centered = center_kernel(K)
    size = float(np.linalg.norm(centered))
    if size <= np.finfo(float).eps * float(np.abs(K).max(initial=0.0)) * len(centered):
        raise InvalidInputError(f"{name!r} is constant after centering; its alignment with anything is not defined.")
    return centered / size
