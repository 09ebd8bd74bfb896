"""A bank opened on training rows as factors: what it learned of the columns, and the stack, without N x N matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from manykernels.exceptions import IncompatibleError
from manykernels.grams.factored.banks import composed
from manykernels.grams.factored.base import FactoredStack
from manykernels.grams.factored.cells import sees_cells
from manykernels.grams.factored.grid import mean_diagonals
from manykernels.grams.rows.columns import ColumnTable
from manykernels.kernels import FittedBank, KernelBank, KernelSpec
from manykernels.kernels.bank.normalization import CENTERED_ZERO, training_scales, unit_factors
from manykernels.validation.arrays import Array

__all__ = ["UnitDiagonal", "open_factored", "refusal"]


@dataclass(frozen=True)
class UnitDiagonal(KernelSpec):
    """``k(x, z) / sqrt(k(x, x) k(z, z))``: a kernel as ``normalize="unit_diagonal"`` makes it; 0 where ``k(x, x)`` is.

    Parameters
    ----------
    base : KernelSpec
    """

    kind: ClassVar[str] = "unit_diagonal"
    base: KernelSpec

    @property
    def family(self) -> str:
        """Rows, or gaps, as the kernel itself."""
        return "missing" if self.base.family == "missing" else "other"

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        """Return the matrix of kernel values."""
        left = unit_factors(self.base.diag(A))
        right = left if B is None else unit_factors(self.base.diag(B))
        return np.asarray(left[:, None] * self.base(A, B) * right)

    def diag(self, A: Array) -> Array:
        """Return ones, and zeros where the kernel is zero."""
        return np.asarray((self.base.diag(A) > 0).astype(np.float64))


def refusal(bank: Any, *, fit_intercept: bool = True) -> str | None:
    """Return why a bank cannot be held as factors and what to do about it, or None if it can."""
    if not isinstance(bank, KernelBank):
        return "kernels given as matrices have no columns to make factors of; pass the rows and a KernelBank"
    if bank.center and bank.normalize == "unit_diagonal":
        return (
            "with center=True, normalize='unit_diagonal' divides by a diagonal that takes every pair of rows to compute"
            "; take normalize='mean_diagonal', or center=False"
        )
    if bank.center and not fit_intercept:
        return (
            "centered kernels need a constant that takes up what centering removes; set fit_intercept=True, or "
            "center=False"
        )
    return None


def open_factored(bank: KernelBank, X: Any, *, fit_intercept: bool = True) -> tuple[FittedBank, FactoredStack]:
    """Fit a bank on training rows and return it with the stack of its kernels as factors.

    Widths, standardization and normalization are those of :meth:`KernelBank.fit`. Centered kernels are those that are
    not, up to a constant in every function, which the intercept takes up: since dual coefficients sum to zero, neither
    dual norms nor norms of functions differ. Only their scale does.

    Examples
    --------
    >>> from manykernels import KernelBank
    >>> fitted, stack = open_factored(KernelBank.per_feature(widths=[1.0]), [[0.0, 1.0], [1.0, 3.0]])
    >>> fitted.names, stack.n_kernels
    (('x0: gaussian(width=1)', 'x1: gaussian(width=1)'), 2)
    """
    why = refusal(bank, fit_intercept=fit_intercept)
    if why is not None:
        raise IncompatibleError(f"This bank cannot be held as factors: {why}. Or pass representation='gram'.")
    raw, values = bank.fit_columns(X)
    gaps = bool(np.isnan(values).any())
    if gaps and bank.center:
        raise IncompatibleError(
            "Kernels with missing values cannot be centered as factors: rows that lack a column would not be zero. "
            "Take center=False, impute the values, or pass representation='gram' for fewer rows."
        )
    table = ColumnTable(np.asfortranarray(values), missing="mask" if gaps else "error")
    del values
    places = [tuple(np.searchsorted(raw.used, columns).tolist()) for columns in raw.positions]
    unit = bank.normalize == "unit_diagonal"
    specs = [UnitDiagonal(spec) if unit and not spec.unit_diagonal else spec for spec in raw.specs]
    means, counts = _mean_diagonals(raw.names, specs, places, table)
    if bank.center:
        plain = composed(table, raw.names, places, specs, np.ones(len(specs)))
        grand = np.array([plain.exact_quad(m, np.ones(table.n_rows))[0] for m in range(len(specs))]) / table.n_rows**2
        means = np.where(means - grand > CENTERED_ZERO * means, means - grand, 0.0)
    scales = training_scales(means[:, None], bank.normalize, raw.names)
    fitted = FittedBank(raw, scales / counts if bank.normalize == "trace" else scales, bank.normalize)
    return fitted, composed(table, raw.names, places, specs, fitted.scales, bank.landmarks_by)


def _mean_diagonals(
    names: Sequence[str], specs: Sequence[KernelSpec], places: Sequence[tuple[int, ...]], table: ColumnTable
) -> tuple[Array, Array]:
    """Return the mean of every kernel's diagonal on the rows that it is known on, and their number."""
    means, counts = np.empty(len(specs)), np.empty(len(specs), dtype=np.int64)
    cells = np.array([sees_cells(*each, table) for each in zip(specs, places, strict=True)])
    for m in np.flatnonzero(~cells).tolist():
        means[m], counts[m] = _mean_diagonal(names[m], specs[m], places[m], table)
    own = np.flatnonzero(cells).tolist()
    if own:  # thousands of pairs of columns share their readings
        means[own], known = mean_diagonals(table, [places[m] for m in own], [specs[m] for m in own])
        counts[own] = np.maximum(known, 1)
    return means, counts


def _mean_diagonal(name: str, spec: KernelSpec, columns: tuple[int, ...], table: ColumnTable) -> tuple[float, int]:
    """Return the mean of a kernel's diagonal on the rows that it is known on, all looked at, and their number."""
    present = None if spec.family == "missing" else table.present(columns)
    count = table.n_rows if present is None else int(present.sum())
    if spec.unit_diagonal and count:
        return 1.0, count
    reading = table.reading(spec, columns)
    diagonal = reading.masked(spec.diag(reading.points))
    training_scales(diagonal[None], None, (name,))
    return float(diagonal.sum()) / max(count, 1), max(count, 1)
