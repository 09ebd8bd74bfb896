"""What a fitted bank asks of kernels, whatever their rows are: columns of a table, samples of matrices, or pairs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.specs.base import KernelSpec
from manykernels.validation.arrays import Array

if TYPE_CHECKING:
    from manykernels.validation.gram import Unproven


Index = Any  # of rows or kernels: None for all, positions, a slice or a mask


@dataclass(frozen=True)
class Group:
    """Kernels of a fitted bank computed from the same points in the same way.

    Attributes
    ----------
    family : {"squared_distance", "inner_product", "features", "other", "missing"}
        Kernels of the first two share a single matrix of squared distances or inner products and have
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

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """The shared part of kernels: ``(family, positions, column_widths)``, and common features."""
        shared = self.family, self.positions, self.column_widths
        return shared if self.features is None else (*shared, self.features)


OTHER_BANK = "These rows were prepared by another bank; call prepare(X) of this one."


class RowData(ABC):
    """Rows of a kind in the form of kernels, before normalization."""

    if TYPE_CHECKING:

        @property
        def n_samples(self) -> int:
            """Number of rows."""

    @abstractmethod
    def take(self, rows: Index) -> Self:
        """Return the chosen rows (positions, slice or mask)."""

    def detach(self) -> Self:
        """Return the rows without parts unnecessary for a fitted model."""
        return self

    @property
    def point_sets(self) -> tuple[Any, ...]:
        """The points of all groups of kernels; none where kernels are not evaluated on points."""
        return ()

    def points(self, group: int) -> Any:
        """Return the (n, d) float64 points of a group of kernels, or `SparsePoints`."""
        raise InvalidInputError(f"{type(self).__name__} hold no points of a group {group}.")


Data = TypeVar("Data", bound=RowData)


@dataclass(frozen=True, eq=False)
class PreparedRows(Generic[Data]):
    """Rows as the kernels of one fitted bank need them; made by :meth:`FittedBank.prepare`.

    Attributes
    ----------
    names : tuple of str
        The kernels of the bank that prepared the rows.
    data : TablePoints, StackSamples or MemberPairs
        The form of rows for the kernels.
    row_means : (M, n) float64 or None
        With centering: mean of every raw kernel of every row with the training rows.
    factors : (M, n) float64 or None
        By which rows of kernels are multiplied: with unit diagonal ``1 / sqrt(k(x, x))``, 0 where the diagonal is 0;
        and 0 where a column of the kernel is missing. None: all one.
    """

    names: tuple[str, ...]
    data: Data
    row_means: Array | None = None
    factors: Array | None = None

    @cached_property
    def n_samples(self) -> int:
        """Number of rows."""
        return self.data.n_samples

    def points(self, group: int) -> Any:
        """Return the (n, d) contiguous float64 points of a group of the bank, or its `SparsePoints`.

        Returns
        -------
        ndarray of shape (n, d), or SparsePoints

        Raises
        ------
        InvalidInputError
            If the kernels are matrices.
        """
        return self.data.points(group)

    def take(self, rows: Index) -> Self:
        """Return the chosen rows (positions, slice or mask), for instance the support samples.

        Parameters
        ----------
        rows : slice, mask or positions
        """
        return replace(self, data=self.data.take(rows), **self.normalization((slice(None), rows)))

    def detach(self) -> Self:
        """Return the rows without parts unnecessary for a fitted model."""
        return replace(self, data=self.data.detach())

    def places(self, names: tuple[str, ...]) -> list[int]:
        """Return where kernels of those names are among the kernels of the rows.

        Raises
        ------
        InvalidInputError
            If there is no kernel of one of the names.
        """
        place = {name: m for m, name in enumerate(self.names)}
        if not set(names) <= set(place):
            raise InvalidInputError(OTHER_BANK)
        return [place[name] for name in names]

    def normalization(self, index: Index) -> dict[str, Any]:
        """Return the chosen part of row means and factors, (M, n) both, as fields."""
        parts = {"row_means": self.row_means, "factors": self.factors}
        return {name: None if part is None else part[index] for name, part in parts.items()}


@dataclass(frozen=True)
class Side(Generic[Data]):
    """Some of the prepared rows, on the left or on the right of a block."""

    prepared: PreparedRows[Data]
    rows: slice | Array

    @property
    def data(self) -> Data:
        """The rows in the form of kernels."""
        return self.prepared.data

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
    """Existing Gram matrices."""

    array: Array  # (M, N, N) float32 or float64
    samples: Array  # (n,) int: which of the N are meant
    unproven: Unproven | None  # which kernels nobody has yet proven positive semidefinite


class RawKernels(ABC, Generic[Data]):
    """Named kernels on rows of a kind, before centering and scaling: the only input of a `FittedBank`."""

    on_columns: bool = False  # whether kernels read columns of a table
    of_pairs: bool = False  # whether rows are pairs, of which nothing is known but their members
    as_matrices: bool = False  # whether Gram matrices among rows exist already

    if TYPE_CHECKING:

        @property
        def names(self) -> tuple[str, ...]:
            """Names of the kernels."""

        @property
        def n_features_in(self) -> int:
            """Number of columns for scikit-learn: of training samples, for matrices."""

    @property
    def groups(self) -> tuple[Group, ...]:
        """Kernels with shared points; empty without points."""
        return ()

    @property
    def column_names(self) -> tuple[str, ...] | None:
        """Column names of the training DataFrame, if any."""
        return None

    @abstractmethod
    def prepare(self, X: object) -> PreparedRows[Data]:
        """Check rows once; factors are zero where a column of a kernel is missing, and all else is not normalized."""

    @abstractmethod
    def evaluate(self, left: Side[Data], right: Side[Data], kernels: Array, out: Array) -> None:
        """Write raw values of the kernels to ``out`` (m, r, c), symmetric if ``left is right``."""

    @abstractmethod
    def diagonals(self, rows: PreparedRows[Data], kernels: Array) -> Array:
        """Return the raw ``k(x, x)`` of the kernels, (m, n) float64."""

    def row_means(self, rows: PreparedRows[Data], training: PreparedRows[Data] | None = None) -> Array:
        """Return the mean of every raw kernel between every row and the training rows, (M, n), possibly cached."""
        raise InvalidInputError(f"{type(self).__name__} cannot be centered.")

    @abstractmethod
    def take(self, kernels: Array) -> Self:
        """Return the selected kernels in order."""

    @abstractmethod
    def narrow(self, data: object, places: list[int]) -> Data:
        """Return the part of prepared rows for a subset of kernels at the given places."""

    @abstractmethod
    def described(self) -> tuple[list[str], list[str]]:
        """Return kind and columns of every kernel as text."""

    def find_matrices(self, data: Data) -> HeldGrams | None:
        """Return existing raw Gram matrices of exactly the kernels."""
        return None

    def unproven(self, data: Data) -> Unproven | None:
        """Return the kernels not yet proven positive semidefinite."""
        return None
