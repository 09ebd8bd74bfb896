"""Banks before and after the fit: normalized kernels between any prepared rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.contract import Group, HeldGrams, Index, PreparedRows, RawKernels, Side
from manykernels.kernels.bank.normalization import (
    centered_diagonal,
    check_diagonal,
    normalize_block,
    training_scales,
    unit_factors,
)
from manykernels.kernels.bank.table_kernels import TableKernels
from manykernels.validation.arrays import Array, check_indices, check_some_indices


@dataclass(frozen=True, eq=False)
class FittedBank:
    """Named kernels with the normalization learned on training rows: of a table, of matrices, or of pairs.

    Made by :meth:`KernelBank.fit`, :meth:`PrecomputedBank.fit` and :meth:`PairKernels.fit`. Immutable. Test rows never
    influence it.

    Attributes
    ----------
    raw : TableKernels, StackKernels or ProductKernels
        The kernels before normalization, by what their rows are.
    scales : (M,) float64
        Every centered kernel is multiplied by the scale; 0 marks a kernel that is zero on the training rows.
    normalize : {"trace", "mean_diagonal", "unit_diagonal", None}
    center : bool
    grand_means : (M,) float64 or None
        With centering: mean of every raw kernel over all training pairs.
    """

    raw: RawKernels[Any]
    scales: Array
    normalize: str | None = None
    center: bool = False
    grand_means: Array | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the kernels."""
        return self.raw.names

    @cached_property
    def n_kernels(self) -> int:
        """Number of kernels, M."""
        return len(self.names)

    def __len__(self) -> int:
        return self.n_kernels

    def __repr__(self) -> str:
        return f"FittedBank({self.n_kernels} {type(self.raw).__name__}, normalize={self.normalize!r})"

    @property
    def groups(self) -> tuple[Group, ...]:
        """Kernels with shared squared distances, inner products or points; empty if none."""
        return self.raw.groups

    @property
    def table(self) -> TableKernels:
        """The kernels on columns of a table; other kernels have no columns."""
        if not isinstance(self.raw, TableKernels):
            raise InvalidInputError(f"{type(self.raw).__name__} read no columns of a table.")
        return self.raw

    @property
    def on_columns(self) -> bool:
        """Whether kernels read columns of a table."""
        return self.raw.on_columns

    @property
    def n_features_in_(self) -> int:
        """Number of columns of the training table, or of training samples for matrices."""
        return self.raw.n_features_in

    @property
    def feature_names_in_(self) -> Array:
        """Column names of the training DataFrame; not defined for an array."""
        if self.raw.column_names is None:
            raise AttributeError("feature_names_in_ is only defined when X has string column names.")
        return np.array(self.raw.column_names, dtype=object)

    @property
    def unit_diagonal(self) -> bool:
        """Whether kernels are divided by ``sqrt(k(x, x) k(z, z))``."""
        return self.normalize == "unit_diagonal"

    @property
    def zero_kernels(self) -> Array:
        """(M,) bool: kernels equal to zero on the (centered) training rows, and everywhere."""
        return self.scales == 0

    def frame(self, *, scales: bool = True) -> pd.DataFrame:
        """Return a single row per kernel: name, kernel, columns and, if wanted, scale."""
        kernels, columns = self.raw.described()
        own = {"scale": self.scales} if scales else {}
        return pd.DataFrame({"name": self.names, "kernel": kernels, "columns": columns, **own})

    # --- rows -------------------------------------------------------------------------------------------------------

    def prepare(self, X: object) -> PreparedRows[Any]:
        """Check rows once, and compute the inputs of normalization.

        Parameters
        ----------
        X : DataFrame, (n, p) array or nested lists, KernelStack, or Pairs
            Columns of a DataFrame are matched by name; other columns than those in use may be missing.

        Returns
        -------
        PreparedRows

        Raises
        ------
        InvalidInputError
            Columns not there or cannot be read, values missing against ``missing`` or infinite, or values whose kernels
            overflow; samples or pairs that the kernels cannot be read of.
        """
        rows = self.raw.prepare(X)
        if self.center:
            rows = replace(rows, row_means=self.raw.row_means(rows))
        return _add_factors(self, rows)

    def narrow(self, prepared: PreparedRows[Any]) -> PreparedRows[Any]:
        """Return rows prepared by the bank this one was taken from as rows prepared by the bank.

        `block` and `diag` prepare rows on every call; prepare once before many blocks.

        Parameters
        ----------
        prepared : PreparedRows

        Returns
        -------
        PreparedRows
            ``prepared`` itself if it is the bank's already.

        Raises
        ------
        InvalidInputError
            If another bank prepared the rows.
        """
        if not isinstance(prepared, PreparedRows):
            raise InvalidInputError(f"A FittedBank needs rows that it prepared, got {type(prepared).__name__}.")
        # Equal tuples of a hundred thousand names take a while to compare, and are mostly one tuple.
        if prepared.names is self.names or prepared.names == self.names:
            return prepared
        places = prepared.places(self.names)
        return PreparedRows(self.names, self.raw.narrow(prepared.data, places), **prepared.normalization(places))

    def take(self, kernels: Index) -> FittedBank:
        """Return the bank of the selected kernels in order; rows prepared by the original bank are accepted.

        Parameters
        ----------
        kernels : positions, slice or mask
        """
        chosen = check_some_indices(kernels, self.n_kernels, "kernels")
        grand = None if self.grand_means is None else self.grand_means[chosen]
        return replace(self, raw=self.raw.take(chosen), scales=self.scales[chosen], grand_means=grand)

    # --- values -----------------------------------------------------------------------------------------------------

    def block(
        self,
        prepared_a: PreparedRows[Any],
        prepared_b: PreparedRows[Any],
        kernels: Index = None,
        rows: Index = None,
        cols: Index = None,
        out: Array | None = None,
    ) -> Array:
        """Return normalized kernel values between two sets of prepared rows.

        Parameters
        ----------
        prepared_a, prepared_b : PreparedRows
            Made by the bank, or by the bank it was taken from. The same object twice (and the same rows) gives exactly
            symmetric matrices.
        kernels : None, positions, slice or mask
            Kernels in order; None is all.
        rows, cols : None, positions, slice or mask
            Which rows of ``prepared_a`` and of ``prepared_b``; None is all.
        out : (m, a, b) float64, optional
            Written and returned.

        Returns
        -------
        (m, a, b) float64

        Raises
        ------
        InvalidInputError
            If another bank prepared the rows, an index is out of range, or ``out`` has another shape.

        Examples
        --------
        >>> from manykernels.kernels import KernelBank, Linear
        >>> bank = KernelBank([("line", Linear())], normalize=None).fit([[1.0], [2.0]])
        >>> bank.block(bank.prepare([[3.0]]), bank.prepare([[1.0], [2.0]]))
        array([[[3., 6.]]])
        """
        a, b = self.narrow(prepared_a), self.narrow(prepared_b)
        chosen = check_indices(kernels, self.n_kernels, "kernels")
        left = Side(a, row_index(rows, a.n_samples, "rows"))
        right = Side(b, row_index(cols, b.n_samples, "cols"))
        right = left if prepared_a is prepared_b and same_index(left.rows, right.rows) else right
        out = check_out(out, (len(chosen), left.size, right.size))
        self.evaluate(left, right, chosen, out)
        return out

    def evaluate(self, left: Side[Any], right: Side[Any], kernels: Array, out: Array) -> None:
        """Write the result of `block` to ``out``, for prepared rows and valid positions.

        Parameters
        ----------
        left, right : Side
            The same object twice gives matrices that are symmetric to the last bit.
        kernels : ndarray of int
        out : (m, a, b) float64
        """
        self.raw.evaluate(left, right, kernels, out)
        if self.grand_means is None and left.prepared.factors is None and right.prepared.factors is None:
            scales = self.scales[kernels]
            if (scales != 1.0).any():
                out *= scales[:, None, None]
            return
        scaled = left.prepared.factors is not None or right.prepared.factors is not None
        for block, kernel in zip(out, kernels.tolist(), strict=True):
            means = None
            if self.grand_means is not None:
                means = (left.row_means(kernel), right.row_means(kernel), float(self.grand_means[kernel]))
            factors = (left.factors(kernel), right.factors(kernel)) if scaled else None
            normalize_block(block, float(self.scales[kernel]), means, factors)

    def diag(self, prepared: PreparedRows[Any], kernels: Index = None) -> Array:
        """Return the normalized ``k(x, x)``, (m, n) float64, without building matrices.

        Parameters
        ----------
        prepared : PreparedRows
        kernels : None, positions, slice or mask

        Returns
        -------
        (m, n) float64
        """
        rows = self.narrow(prepared)
        chosen = check_indices(kernels, self.n_kernels, "kernels")
        diagonals = self.centered_diagonals(rows, chosen)
        if rows.factors is not None:
            diagonals = diagonals * rows.factors[chosen] ** 2
        return diagonals * self.scales[chosen, None]

    def centered_diagonals(self, rows: PreparedRows[Any], kernels: Array) -> Array:
        """Return ``k(x, x)`` of kernels, centered if the bank centers but not scaled, (m, n) float64."""
        raw = self.raw.diagonals(rows, kernels)
        if rows.row_means is None or self.grand_means is None:
            return raw
        return centered_diagonal(raw, rows.row_means[kernels], self.grand_means[kernels, None])

    def grams(self, prepared: PreparedRows[Any]) -> HeldGrams | None:
        """Return the normalized Gram matrices among the rows if held already, else None.

        Parameters
        ----------
        prepared : PreparedRows

        Returns
        -------
        HeldGrams or None
            Unchanged kernels of a stack are no copy.
        """
        if not self.raw.as_matrices:
            return None
        rows = self.narrow(prepared)
        held = self.raw.find_matrices(rows.data) if self.normalize is None and not self.center else None
        every = np.arange(rows.n_samples)
        return held or HeldGrams(self.block(rows, rows), every, self.raw.unproven(rows.data))


class Bank(ABC):
    """Kernels on rows of a kind, with normalization: immutable, and fitted on training rows only.

    The parameters have the names that scikit-learn's searches give them, for example ``kernels__normalize``.
    """

    def fit(self, X: object, y: object = None) -> FittedBank:
        """Learn normalization, and what else kernels learn, from training rows.

        Parameters
        ----------
        X : DataFrame, (n, p) array or nested lists; KernelStack or (M, N, N) array; Pairs
            Training rows, as the kernels read them.
        y : ignored

        Raises
        ------
        InvalidInputError
            Naming at once all columns that cannot be used, if a kernel cannot be normalized on the rows, or if they are
            no rows of the kind.
        NotPSDError
            If matrices are no kernels.

        Examples
        --------
        >>> from manykernels import Gaussian, KernelBank
        >>> fitted = KernelBank([("narrow", Gaussian(0.5)), ("wide", Gaussian(2.0))]).fit([[0.0], [1.0], [2.0]])
        >>> fitted.names, fitted.block(fitted.prepare([[0.0], [1.0]]), fitted.prepare([[1.0]])).shape
        (('narrow', 'wide'), (2, 2, 1))
        """
        return self.fit_prepare(X)[0]

    @abstractmethod
    def fit_prepare(self, X: object) -> tuple[FittedBank, PreparedRows[Any]]:
        """Fit, and return the training rows prepared as well, without doing their work twice.

        Parameters
        ----------
        X : DataFrame, (n, p) array or nested lists; KernelStack or (M, N, N) array; Pairs
            Training rows.

        Returns
        -------
        FittedBank
        PreparedRows

        Raises
        ------
        InvalidInputError, NotPSDError
            As in `fit`.

        Examples
        --------
        >>> from manykernels import Gaussian, KernelBank
        >>> fitted, prepared = KernelBank([("narrow", Gaussian(0.5))]).fit_prepare([[0.0], [1.0], [2.0]])
        >>> fitted.block(prepared, prepared).shape
        (1, 3, 3)
        """

    def resolve(self, X: object) -> Self:
        """Return the bank whose list of kernels is decided by the rows, and is the same on any part of them.

        The list of kernels may depend on rows: on column selectors, kinds of columns, missing values, and the range of
        dates. Cross-validation resolves the bank on all rows first, for equal lists in all folds. Widths,
        standardization and normalization are learned on the training rows alone. A kernel without data in the training
        rows is zero.

        Parameters
        ----------
        X : DataFrame, (n, p) array, nested lists or Table; KernelStack; Pairs

        Returns
        -------
        KernelBank, PrecomputedBank or PairKernels
            This bank itself where rows decide nothing. Kernels of missingness are separate entries.

        Raises
        ------
        InvalidInputError
            As in `fit`.

        Examples
        --------
        >>> from manykernels import Gaussian, KernelBank
        >>> rows = [[0.0, float("nan")], [1.0, 2.0], [3.0, 4.0]]
        >>> bank = KernelBank.per_feature(Gaussian(1.0), missing="indicator").resolve(rows)
        >>> bank.fit(rows[1:]).names
        ('x0: gaussian(width=1)', 'x1: gaussian(width=1)', 'x1: missing')
        """
        return self

    @abstractmethod
    def check(self, X: object) -> None:
        """Check that the kernels can read their rows; a Table caches the result.

        Parameters
        ----------
        X : DataFrame, (n, p) array, nested lists or Table; KernelStack or (M, N, N) array; Pairs

        Raises
        ------
        InvalidInputError
            Naming at once all columns that cannot be used, and why.
        NotPSDError
            If matrices are no kernels.

        Examples
        --------
        >>> from manykernels import Gaussian, KernelBank
        >>> KernelBank([("narrow", Gaussian(0.5))]).check([[0.0], [1.0]])
        """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of the constructor.

        Parameters
        ----------
        deep : bool, default=True
            Of no account: kernels have no separate parameters.

        Examples
        --------
        >>> from manykernels import PrecomputedBank
        >>> PrecomputedBank("trace").get_params()
        {'normalize': 'trace', 'center': False}
        """
        return {field.name: getattr(self, field.name) for field in fields(self) if field.init}  # type: ignore[arg-type]  # a dataclass

    def set_params(self, **changes: object) -> Self:
        """Return a bank with other arguments, without changes to the original.

        Estimators replace the old bank by the new bank, for the usual behavior of ``GridSearchCV`` over
        ``kernels__normalize``.

        Parameters
        ----------
        **changes
            Arguments of the constructor.

        Returns
        -------
        KernelBank, PrecomputedBank or PairKernels

        Raises
        ------
        InvalidInputError
            If there is no argument of that name, or the value cannot be used.

        Examples
        --------
        >>> from manykernels import PrecomputedBank
        >>> PrecomputedBank().set_params(normalize="trace", center=True)
        PrecomputedBank(normalize='trace', center=True)
        """
        known = self.get_params()
        unknown = [name for name in changes if name not in known]
        if unknown:
            raise InvalidInputError(
                f"A {type(self).__name__} has no parameter {unknown[0]!r}; it has {', '.join(known)}."
            )
        return replace(self, **changes)  # type: ignore[type-var]  # a dataclass


def learn(
    raw: RawKernels[Any], rows: PreparedRows[Any], normalize: str | None, center: bool
) -> tuple[FittedBank, PreparedRows[Any]]:
    """Learn centering and normalization from prepared training rows; return normalized rows."""
    present = np.ones((1, rows.n_samples)) if rows.factors is None else rows.factors
    counts = present.sum(axis=1)
    grand_means = None
    if center:
        means = raw.row_means(rows, rows)
        grand_means = (means * present).sum(axis=1) / np.maximum(counts, 1)
        rows = replace(rows, row_means=means)
    bank = FittedBank(raw, np.ones(len(raw.names)), normalize, center, grand_means)
    diagonals = bank.centered_diagonals(rows, np.arange(bank.n_kernels)) * present
    counts = np.broadcast_to(counts, (bank.n_kernels,))
    bank = replace(bank, scales=training_scales(diagonals, normalize, bank.names, counts))
    return bank, _add_factors(bank, rows)


def _add_factors(bank: FittedBank, rows: PreparedRows[Any]) -> PreparedRows[Any]:
    """Return rows with unit-diagonal factors if a bank needs them."""
    if not bank.unit_diagonal:
        return rows
    diagonals = bank.centered_diagonals(rows, np.arange(bank.n_kernels))
    if bank.center:  # of new rows, what is below zero is rounding: training looked at the kernel
        diagonals = np.maximum(diagonals, 0.0)
    named = zip(diagonals, bank.names, strict=True)
    factors = np.array([unit_factors(check_diagonal(diagonal, name)) for diagonal, name in named])
    return replace(rows, factors=factors if rows.factors is None else factors * rows.factors)


def row_index(index: Index, n_samples: int, name: str) -> slice | Array:
    """Return rows as a slice (kept, so points are views) or as an array of positions."""
    if index is None:
        return slice(None)
    return index if isinstance(index, slice) else check_indices(index, n_samples, name)


def same_index(first: slice | Array, second: slice | Array) -> bool:
    """Tell whether two indices from :func:`row_index` choose the same rows."""
    if isinstance(first, slice) or isinstance(second, slice):
        return isinstance(first, slice) and isinstance(second, slice) and first == second
    return np.array_equal(first, second)


def check_out(out: Array | None, shape: tuple[int, ...]) -> Array:
    """Return ``out`` if suitable for float64 values of ``shape``, or a new array."""
    if out is None:
        return np.empty(shape)
    if out.shape != shape or out.dtype != np.float64:
        raise InvalidInputError(f"out must be float64 of shape {shape}, got {out.dtype} of shape {out.shape}.")
    return out
