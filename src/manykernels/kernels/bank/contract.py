"""What every fitted bank offers, whether its kernels are evaluated on columns or come as matrices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np
import pandas as pd

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.normalization import normalize_block
from manykernels.kernels.specs.base import KernelSpec
from manykernels.validation.arrays import Array, check_indices

if TYPE_CHECKING:
    from manykernels.validation.gram import Unproven


# Parameters of banks under the names that scikit-learn's searches give them, such as ``kernels__normalize``.


class BankParameters:
    """``get_params`` and ``set_params`` of a frozen bank: setting returns another bank, since none ever changes."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of the constructor.

        Parameters
        ----------
        deep : bool, default=True
            Of no account: kernels have no parameters of their own.

        Returns
        -------
        dict

        Examples
        --------
        >>> from manykernels import PrecomputedBank
        >>> PrecomputedBank("trace").get_params()
        {'normalize': 'trace', 'center': False}
        """
        return {field.name: getattr(self, field.name) for field in fields(self) if field.init}  # type: ignore[arg-type]  # a dataclass

    def set_params(self, **changes: Any) -> Self:
        """Return a bank with other arguments; this one stays as it is.

        Estimators of this package put the new bank in the place of the old one, so that ``GridSearchCV`` over
        ``kernels__normalize`` does what it does elsewhere.

        Parameters
        ----------
        **changes
            Arguments of the constructor.

        Returns
        -------
        KernelBank or PrecomputedBank

        Raises
        ------
        InvalidInputError
            If there is no argument of that name, or its value cannot be used.

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


Index = Any  # of rows or kernels: None for all, positions, a slice or a mask


@dataclass(frozen=True)
class Group:
    """Kernels of a fitted bank that are computed from the same points in the same way.

    Attributes
    ----------
    family : {"squared_distance", "inner_product", "features", "other", "missing"}
        Kernels of the first two share one matrix of squared distances or inner products and have
        ``from_squared_distance`` or ``from_inner_product``; others are called on the points, which tell those of the
        last what is missing.
    positions : tuple of int
        Columns of the training table.
    kernels : tuple of int
        Indices into the bank.
    specs : tuple of KernelSpec
        The kernels themselves, in the order of ``kernels``.
    column_widths : tuple of float or None
        Widths by which the points are already divided.
    features : ObjectKernel or None
        Whose sparse features the points are, of kernels of objects.
    """

    family: str
    positions: tuple[int, ...]
    kernels: tuple[int, ...]
    specs: tuple[KernelSpec, ...]
    column_widths: tuple[float, ...] | None = None
    features: Any = None

    @property
    def key(self) -> tuple[Any, ...]:
        """What its kernels share: ``(family, positions, column_widths)``, and features they have in common."""
        shared = self.family, self.positions, self.column_widths
        return shared if self.features is None else (*shared, self.features)


class PreparedRows(ABC):
    """Rows as the kernels of one fitted bank need them.

    Attributes
    ----------
    names : tuple of str
        The kernels of the bank that prepared these rows.
    n_samples : int
        Number of rows.
    row_means : (M, n) float64 or None
        With centering: mean of every raw kernel of each row with the training rows.
    factors : (M, n) float64 or None
        By which rows of kernels are multiplied: with unit diagonal ``1 / sqrt(k(x, x))``, 0 where the diagonal is 0;
        and 0 where a column of the kernel is missing. None: all one.
    """

    names: tuple[str, ...]
    row_means: Array | None
    factors: Array | None

    if TYPE_CHECKING:
        n_samples: int

    @abstractmethod
    def take(self, rows: Index) -> Self:
        """Return the chosen rows (positions, slice or mask), for instance the support samples.

        Parameters
        ----------
        rows : slice, mask or positions

        Returns
        -------
        PreparedRows
        """

    @abstractmethod
    def detach(self) -> Self:
        """Return these rows without what a fitted model does not have to keep.

        Returns
        -------
        PreparedRows
        """

    def points(self, group: int) -> Array:
        """Return the (n, d) contiguous float64 points of a group of the bank; kernels without groups have none.

        Parameters
        ----------
        group : int

        Returns
        -------
        ndarray of shape (n, d)

        Raises
        ------
        InvalidInputError
            If the kernels are matrices.
        """
        raise InvalidInputError(f"{type(self).__name__} holds no points of a group {group}: its kernels are matrices.")

    def places(self, names: tuple[str, ...]) -> list[int]:
        """Return where kernels of those names are among the kernels of these rows.

        Parameters
        ----------
        names : tuple of str

        Returns
        -------
        list of int

        Raises
        ------
        InvalidInputError
            If there is no kernel of one of the names.
        """
        place = {name: m for m, name in enumerate(self.names)}
        if not set(names) <= set(place):
            raise InvalidInputError("These rows were prepared by another bank; call prepare(X) of this one.")
        return [place[name] for name in names]

    def normalization(self, index: Any) -> dict[str, Any]:
        """Return the chosen part of row means and factors, each (M, n), as fields."""
        parts = {"row_means": self.row_means, "factors": self.factors}
        return {name: None if part is None else part[index] for name, part in parts.items()}


Rows = TypeVar("Rows", bound=PreparedRows)


@dataclass(frozen=True)
class Side(Generic[Rows]):
    """Some rows of prepared data, on the left or on the right of a block."""

    prepared: Rows
    rows: slice | Array

    @cached_property
    def size(self) -> int:
        """Number of rows."""
        if isinstance(self.rows, slice):
            return len(range(*self.rows.indices(self.prepared.n_samples)))
        return len(self.rows)

    def row_means(self, kernel: int) -> Array:
        """Row means of a raw kernel, (size,)."""
        assert self.prepared.row_means is not None
        return self.prepared.row_means[kernel][self.rows]

    def factors(self, kernel: int) -> Array:
        """Factors of the rows of a kernel, (size,)."""
        factors = self.prepared.factors
        return np.ones(self.size) if factors is None else factors[kernel][self.rows]


@dataclass(frozen=True, eq=False)
class HeldGrams:
    """Gram matrices that exist before anybody asks for them."""

    array: Array  # (M, N, N) float32 or float64
    samples: Array  # (n,) int: which of the N are meant
    unproven: Unproven | None  # which kernels nobody has yet proven positive semidefinite


class FittedKernels(ABC, Generic[Rows]):
    """Named kernels with the normalization learned on training rows; what the rest of the library knows of a bank.

    Attributes
    ----------
    names : tuple of str
    scales : (M,) float64
        Each centered kernel is multiplied by its scale; 0 marks a kernel that is zero on the training rows.
    normalize : {"trace", "mean_diagonal", "unit_diagonal", None}
    center : bool
    grand_means : (M,) float64 or None
        With centering: mean of each raw kernel over all training pairs.
    groups : tuple of Group
        Kernels that share points; empty if they are not evaluated on points.
    """

    names: tuple[str, ...]
    scales: Array
    normalize: str | None
    center: bool
    grand_means: Array | None

    if TYPE_CHECKING:

        @property
        def groups(self) -> tuple[Group, ...]:
            """Kernels that share squared distances, inner products or points."""

        @property
        def n_features_in_(self) -> int:
            """Number of columns, or of training samples for kernels that come as matrices."""

    @abstractmethod
    def prepare(self, X: Any) -> Rows:
        """Check rows once and compute what normalization needs of them.

        Parameters
        ----------
        X : DataFrame, (n, p) array, or kernels of a KernelStack

        Returns
        -------
        PreparedRows
        """

    @abstractmethod
    def _evaluate(self, left: Side[Rows], right: Side[Rows], same: bool, kernels: Array, out: Array) -> None:
        """Write normalized values of these kernels to ``out``; ``same`` if both sides are the same rows."""

    @abstractmethod
    def diag(self, prepared: PreparedRows, kernels: Index = None) -> Array:
        """Return the normalized ``k(x, x)``, (m, n) float64.

        Parameters
        ----------
        prepared : PreparedRows
        kernels : slice, mask or positions, optional

        Returns
        -------
        ndarray of shape (m, n)
        """

    @abstractmethod
    def take(self, kernels: Index) -> Self:
        """Return the bank of those kernels only, in that order; it accepts rows that this bank prepared.

        Parameters
        ----------
        kernels : slice, mask or positions

        Returns
        -------
        FittedKernels
        """

    @abstractmethod
    def narrow(self, prepared: PreparedRows) -> Rows:
        """Return rows prepared by the bank this one was taken from as rows prepared by this bank.

        Parameters
        ----------
        prepared : PreparedRows

        Returns
        -------
        PreparedRows
        """

    @abstractmethod
    def frame(self) -> pd.DataFrame:
        """Return one row per kernel: name, kernel, columns, scale.

        Returns
        -------
        DataFrame
        """

    def grams(self, prepared: PreparedRows) -> HeldGrams | None:
        """Return the normalized Gram matrices among these rows if they are held already, else None.

        Parameters
        ----------
        prepared : PreparedRows

        Returns
        -------
        HeldGrams or None
        """
        return None

    @property
    def n_kernels(self) -> int:
        """Number of kernels, M."""
        return len(self.names)

    @property
    def unit_diagonal(self) -> bool:
        """Whether kernels are divided by ``sqrt(k(x, x) k(z, z))``."""
        return self.normalize == "unit_diagonal"

    @property
    def zero_kernels(self) -> Array:
        """(M,) bool: kernels that are zero on the training rows (after centering); they stay zero everywhere."""
        return self.scales == 0

    def __len__(self) -> int:
        return self.n_kernels

    def block(
        self,
        prepared_a: PreparedRows,
        prepared_b: PreparedRows,
        kernels: Index = None,
        rows: Index = None,
        cols: Index = None,
        out: Array | None = None,
    ) -> Array:
        """Return normalized kernel values between two sets of prepared rows.

        Parameters
        ----------
        prepared_a, prepared_b : PreparedRows
            Made by this bank, or by the bank it was taken from. The same object twice (and the same rows) gives exactly
            symmetric matrices.
        kernels : None, positions, slice or mask
            Which kernels, in which order; None is all.
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
        out = checked_out(out, (len(chosen), left.size, right.size))
        same = prepared_a is prepared_b and same_index(left.rows, right.rows)
        self._evaluate(left, right, same, chosen, out)
        return out

    def _normalize(self, block: Array, kernel: int, left: Side[Rows], right: Side[Rows]) -> None:
        """Center and scale one kernel's block in place."""
        means = factors = None
        if self.grand_means is not None:
            means = (left.row_means(kernel), right.row_means(kernel), float(self.grand_means[kernel]))
        if left.prepared.factors is not None or right.prepared.factors is not None:
            factors = (left.factors(kernel), right.factors(kernel))
        normalize_block(block, float(self.scales[kernel]), means, factors)


def row_index(index: Index, n_samples: int, name: str) -> slice | Array:
    """Return rows as a slice (kept, so that points are views) or as an array of positions."""
    if index is None:
        return slice(None)
    return index if isinstance(index, slice) else check_indices(index, n_samples, name)


def same_index(first: slice | Array, second: slice | Array) -> bool:
    """Tell whether two indices from :func:`row_index` choose the same rows."""
    if isinstance(first, slice) or isinstance(second, slice):
        return isinstance(first, slice) and isinstance(second, slice) and first == second
    return np.array_equal(first, second)


def checked_out(out: Array | None, shape: tuple[int, ...]) -> Array:
    """Return ``out`` if it can hold float64 values of ``shape``, or a new array."""
    if out is None:
        return np.empty(shape)
    if out.shape != shape or out.dtype != np.float64:
        raise InvalidInputError(f"out must be float64 of shape {shape}, got {out.dtype} of shape {out.shape}.")
    return out
