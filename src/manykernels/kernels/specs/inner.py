"""Kernels of the inner product: Linear, Polynomial, Cosine, Tanimoto."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.specs.base import MOST_DEGREE, KernelSpec, as_pair, as_points, register_kernel
from manykernels.kernels.specs.distances import row_norms
from manykernels.validation.arrays import Array, check_count, check_nonnegative, check_positive

# The polynomial kernel with a weight a column, which non-linear multiple kernel learning finds.


@register_kernel
@dataclass(frozen=True)
class WeightedPolynomial(KernelSpec):
    """Polynomial kernel with a weight a column, ``k(x, z) = (sum_j weights_j x_j z_j + offset)^degree``.

    It is the sum of all products of ``degree`` linear kernels of single columns, each with the product of the weights.
    With ``base`` the kernel ``base(x_j, z_j)`` takes the place of ``x_j z_j``.

    Parameters
    ----------
    degree : int
        At least 1.
    weights : sequence of float
        One non-negative weight per column of the selection, in the order.
    offset : float, default=0.0
        Non-negative; the weight of the constant kernel, which brings in products of fewer columns.
    base : KernelSpec, optional
        Kernel of a single column.

    Raises
    ------
    InvalidInputError
        If a parameter is negative or not finite, or all weights and the offset are zero.

    Examples
    --------
    >>> from manykernels import WeightedPolynomial
    >>> WeightedPolynomial(2, (1.0, 0.5))([[1.0, 2.0]], [[3.0, 4.0]])
    array([[49.]])

    Notes
    -----
    Cortes, Mohri, Rostamizadeh, "Learning non-linear combinations of kernels", NIPS 2009.
    """

    kind: ClassVar[str] = "weighted_polynomial"
    degree: int
    weights: tuple[float, ...]
    offset: float = 0.0
    base: KernelSpec | None = None

    def __post_init__(self) -> None:
        if self.base is not None and not isinstance(self.base, KernelSpec):
            raise InvalidInputError(f"base must be a kernel of a single column or None, got {self.base!r}.")
        object.__setattr__(self, "degree", check_count(self.degree, "degree", most=MOST_DEGREE))
        if np.ndim(self.weights) != 1 or len(self.weights) == 0:
            raise InvalidInputError(f"weights must be a non-empty sequence of numbers, got {self.weights!r}.")
        weights = tuple(check_nonnegative(weight, "every weight") for weight in self.weights)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "offset", check_nonnegative(self.offset, "offset"))
        if not any(self.weights) and self.offset == 0:
            raise InvalidInputError("A weighted polynomial needs a positive weight or offset; all of them are zero.")

    @cached_property
    def label(self) -> str:
        """Short text: the degree and how many columns have a weight."""
        return f"weighted_polynomial(degree={self.degree}, {np.count_nonzero(self.weights)} weights)"

    def check_columns(self, n_columns: int, name: str = "the kernel") -> None:
        """Raise ``InvalidInputError`` if the number of columns is not the number of weights."""
        if n_columns != len(self.weights):
            raise InvalidInputError(
                f"{name}: {len(self.weights)} weights for {n_columns} column(s); give one weight per column."
            )

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        first, second = as_pair(A, B)
        self.check_columns(first.shape[1])
        if self.base is not None:
            values = [self.base(first[:, [j]], None if B is None else second[:, [j]]) for j in range(len(self.weights))]
            return self._power(np.tensordot(self.weights, values, axes=1))
        # The root on both sides, so that the matrix of a set with itself is exactly symmetric.
        roots = np.sqrt(self.weights)
        left = first * roots
        return self._power(left @ (left if B is None else second * roots).T)

    def diag(self, A: Array) -> Array:
        rows = as_points(A)
        squares = rows**2 if self.base is None else np.stack([self.base.diag(x[:, None]) for x in rows.T], axis=1)
        return self._power(squares @ np.array(self.weights))

    def _power(self, products: Array) -> Array:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            base = products + self.offset
            values = base.copy()
            for _ in range(self.degree - 1):
                values *= base
        return values


@dataclass(frozen=True)
class InnerProductSpec(KernelSpec):
    """A kernel of the inner product of rows."""

    @abstractmethod
    def from_inner_product(self, G: Array, out: Array | None = None) -> Array:
        """Return the kernel values for inner products."""

    family: ClassVar[str] = "inner_product"

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        first, second = as_pair(A, B)
        return self.from_inner_product(first @ second.T)

    def diag(self, A: Array) -> Array:
        """Return the kernel of the squared row norms, (n,)."""
        in_place = isinstance(A, np.ndarray) and A.ndim == 2 and A.dtype == np.float64
        return self.from_inner_product(row_norms(A if in_place else as_points(A)))


@register_kernel
@dataclass(frozen=True)
class Linear(InnerProductSpec):
    """Linear kernel ``k(x, z) = <x, z>``.

    Examples
    --------
    >>> from manykernels.kernels import Linear
    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
    """

    kind: ClassVar[str] = "linear"

    def from_inner_product(self, G: Array, out: Array | None = None) -> Array:
        """Return a copy of ``G``."""
        values: Array = np.positive(G, out=out)
        return values


@register_kernel
@dataclass(frozen=True)
class Polynomial(InnerProductSpec):
    """Polynomial kernel ``k(x, z) = (scale <x, z> + offset)^degree``.

    Parameters
    ----------
    degree : int
        At least 1.
    offset : float, default=1.0
        Non-negative (a negative offset is not positive semidefinite); 0 gives the homogeneous kernel.
    scale : float, default=1.0
        Positive.

    Examples
    --------
    >>> from manykernels.kernels import Polynomial
    >>> Polynomial(2)([[1.0]], [[2.0]])
    array([[9.]])
    """

    kind: ClassVar[str] = "polynomial"
    degree: int
    offset: float = 1.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "degree", check_count(self.degree, "degree", most=MOST_DEGREE))
        object.__setattr__(self, "offset", check_nonnegative(self.offset, "offset"))
        object.__setattr__(self, "scale", check_positive(self.scale, "scale"))

    @cached_property
    def label(self) -> str:
        """Short text, with offset and scale unless 1."""
        extras = "".join(
            f", {name}={value:g}" for name, value in (("offset", self.offset), ("scale", self.scale)) if value != 1
        )
        return f"polynomial(degree={self.degree}{extras})"

    def from_inner_product(self, G: Array, out: Array | None = None) -> Array:
        """Return ``(scale G + offset)^degree`` by repeated multiplication."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            values: Array = np.multiply(G, self.scale, out=out)
            values += self.offset
            base = values.copy() if self.degree > 1 else values
            for _ in range(self.degree - 1):
                values *= base
        return values


@register_kernel
@dataclass(frozen=True)
class Cosine(KernelSpec):
    """Cosine kernel ``k(x, z) = <x, z> / (||x|| ||z||)``; a row of zeros has kernel zero with everything.

    Examples
    --------
    >>> from manykernels.kernels import Cosine
    >>> Cosine()([[1.0, 1.0]], [[2.0, 0.0]]).round(4)
    array([[0.7071]])
    """

    kind: ClassVar[str] = "cosine"

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        first = _unit_rows(as_pair(A, B)[0])
        second = first if B is None else _unit_rows(as_points(B, "B"))
        return first @ second.T

    def diag(self, A: Array) -> Array:
        """Return 1 for nonzero rows, else 0, (n,)."""
        return np.any(as_points(A), axis=1, keepdims=True)[:, 0].astype(np.float64)


@register_kernel
@dataclass(frozen=True)
class Tanimoto(KernelSpec):
    """Tanimoto kernel ``k(x, z) = <x, z> / (||x||^2 + ||z||^2 - <x, z>)``, for fingerprints.

    On columns of 0 and 1 the kernel is Jaccard's similarity: the number of common bits, divided by the number of bits
    in either row. A row of zeros has kernel values of zero. Do not standardize the columns.

    Examples
    --------
    >>> from manykernels.kernels import Tanimoto
    >>> Tanimoto()([[1.0, 1.0, 0.0]], [[1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]).round(4)
    array([[0.3333, 1.    ]])

    Notes
    -----
    L. Ralaivola, S. J. Swamidass, H. Saigo, P. Baldi, "Graph kernels for chemical informatics", Neural Networks 18
    (2005). It is positive semidefinite on all real columns: ``sum_k <x, z>^k / (||x||^2 + ||z||^2)^k``, every term a
    product of kernels.
    """

    kind: ClassVar[str] = "tanimoto"

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        first, second = as_pair(A, B)
        common = first @ second.T
        either = (row_norms(first)[:, None] + row_norms(second)) - common
        return np.divide(common, either, out=np.zeros_like(common), where=either > 0)

    def diag(self, A: Array) -> Array:
        """Return 1 for nonzero rows, else 0, (n,)."""
        return np.any(as_points(A), axis=1).astype(np.float64)


def _unit_rows(points: Array) -> Array:
    # Dividing by the largest entry first keeps the squares of very large and very small rows inside float64.
    largest = np.abs(points).max(axis=1, initial=0.0, keepdims=True)
    scaled = points / np.where(largest > 0, largest, 1.0)
    norms = np.sqrt(row_norms(scaled))[:, None]
    return np.divide(scaled, norms, where=norms > 0, out=np.zeros_like(points))
