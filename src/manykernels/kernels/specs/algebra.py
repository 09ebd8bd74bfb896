"""Sums, products and multiples of kernels, which are kernels again."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.specs.base import KernelSpec, register_kernel
from manykernels.kernels.specs.distances import MedianDistances
from manykernels.validation.arrays import Array, check_positive


@dataclass(frozen=True)
class CompositeSpec(KernelSpec):
    """Several kernels on the same rows made one; shares their distances when they all depend on the same ones."""

    parts: tuple[KernelSpec, ...]

    def __post_init__(self) -> None:
        flat: list[KernelSpec] = []
        for part in self.parts:
            if not isinstance(part, KernelSpec):
                raise InvalidInputError(f"The parts of a {self.kind} must be kernels, got {part!r}.")
            flat.extend(part.parts if isinstance(part, CompositeSpec) and type(part) is type(self) else (part,))
        if not flat:
            raise InvalidInputError(f"A {self.kind} of kernels needs at least one kernel.")
        families = {part.family == "missing" for part in flat}
        if len(families) == 2:
            raise InvalidInputError(
                f"Kernels of missingness see gaps, not values; they cannot be parts of a {self.kind}."
            )
        object.__setattr__(self, "parts", tuple(flat))

    @property
    @abstractmethod
    def operation(self) -> np.ufunc:
        """The NumPy operation that joins two matrices."""

    @property
    def family(self) -> str:  # type: ignore[override]  # a constant of others
        """The family of the parts if they agree on it and on the column widths, else ``"other"``."""
        families = {(part.family, part.column_widths) for part in self.parts}
        return self.parts[0].family if len(families) == 1 else "other"

    @property
    def column_widths(self) -> tuple[float, ...] | None:
        """The column widths of the parts where they are shared."""
        return None if self.family == "other" else self.parts[0].column_widths

    @cached_property
    def pending(self) -> bool:
        """Whether a part still has a width to be resolved."""
        return any(part.pending for part in self.parts)

    def resolve(self, medians: MedianDistances) -> Self:
        return replace(self, parts=tuple(part.resolve(medians) for part in self.parts))

    def reads(self, column: int) -> frozenset[str]:
        """Kinds of columns that every part can read."""
        return frozenset.intersection(*(part.reads(column) for part in self.parts))

    def check_columns(self, n_columns: int, name: str = "the kernel") -> None:
        """Raise if a part cannot act on ``n_columns`` columns."""
        for part in self.parts:
            part.check_columns(n_columns, name)

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        return self._fold(lambda part, out: part(A, B), None)

    def diag(self, A: Array) -> Array:
        """Return the diagonal, (n,)."""
        return self._fold(lambda part, out: part.diag(A), None)

    def from_squared_distance(self, D: Array, out: Array | None = None) -> Array:
        """Return the values from squared distances."""
        return self._fold(lambda part, target: part.from_squared_distance(D, target), out)

    def from_inner_product(self, G: Array, out: Array | None = None) -> Array:
        """Return the values from inner products."""
        return self._fold(lambda part, target: part.from_inner_product(G, target), out)

    def _fold(self, evaluate: Callable[[Any, Array | None], Array], out: Array | None) -> Array:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            total = evaluate(self.parts[0], out)
            for part in self.parts[1:]:
                total = self.operation(total, evaluate(part, None), out=total)
        return total


@register_kernel
@dataclass(frozen=True)
class Sum(CompositeSpec):
    """The sum of kernels, ``k(x, z) = sum_p k_p(x, z)``; written ``first + second``.

    Parameters
    ----------
    parts : tuple of KernelSpec
        At least one; nested sums are flattened.

    Examples
    --------
    >>> from manykernels.kernels import Gaussian, Linear
    >>> (Gaussian(1.0) + Linear()).label
    'gaussian(width=1) + linear()'
    """

    kind: ClassVar[str] = "sum"

    @property
    def operation(self) -> np.ufunc:
        """Addition."""
        return np.add

    @cached_property
    def label(self) -> str:
        """The labels of the parts joined by plus signs."""
        return " + ".join(part.label for part in self.parts)


@register_kernel
@dataclass(frozen=True)
class Product(CompositeSpec):
    """The product of kernels, ``k(x, z) = prod_p k_p(x, z)``; written ``first * second``.

    Parameters
    ----------
    parts : tuple of KernelSpec
        At least one; nested products are flattened.

    Examples
    --------
    >>> from manykernels.kernels import Gaussian, Linear
    >>> (Gaussian(1.0) * Linear()).label
    'gaussian(width=1) * linear()'
    """

    kind: ClassVar[str] = "product"

    @property
    def operation(self) -> np.ufunc:
        """Multiplication."""
        return np.multiply

    @property
    def unit_diagonal(self) -> bool:  # type: ignore[override]  # a constant of others
        """Whether every factor has a unit diagonal."""
        return all(part.unit_diagonal for part in self.parts)

    @cached_property
    def label(self) -> str:
        """The labels of the parts joined by stars; sums in parentheses."""
        return " * ".join(f"({part.label})" if isinstance(part, Sum) else part.label for part in self.parts)


@register_kernel
@dataclass(frozen=True)
class Scaled(KernelSpec):
    """A positive multiple of a kernel, ``factor * k(x, z)``; written ``0.5 * kernel``.

    Parameters
    ----------
    base : KernelSpec
        The kernel that is multiplied.
    factor : float
        Positive.

    Examples
    --------
    >>> from manykernels.kernels import Linear
    >>> (0.5 * Linear())([[2.0]], [[3.0]])
    array([[3.]])
    """

    kind: ClassVar[str] = "scaled"
    base: KernelSpec
    factor: float

    def __post_init__(self) -> None:
        if not isinstance(self.base, KernelSpec):
            raise InvalidInputError(f"Only a kernel can be multiplied, got {self.base!r}.")
        object.__setattr__(self, "factor", check_positive(self.factor, "the factor of a kernel"))

    @property
    def family(self) -> str:  # type: ignore[override]  # a constant of others
        """The family of the kernel."""
        return self.base.family

    @property
    def column_widths(self) -> tuple[float, ...] | None:
        """The column widths of the kernel."""
        return self.base.column_widths

    @cached_property
    def pending(self) -> bool:
        """Whether the kernel still has a width to be resolved."""
        return self.base.pending

    @cached_property
    def label(self) -> str:
        """The factor and the label of the kernel."""
        text = f"({self.base.label})" if isinstance(self.base, Sum) else self.base.label
        return f"{self.factor:g} * {text}"

    def resolve(self, medians: MedianDistances) -> Self:
        return replace(self, base=self.base.resolve(medians))

    def reads(self, column: int) -> frozenset[str]:
        return self.base.reads(column)

    def check_columns(self, n_columns: int, name: str = "the kernel") -> None:
        """Raise if the kernel cannot act on ``n_columns`` columns."""
        self.base.check_columns(n_columns, name)

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        return self.factor * self.base(A, B)

    def diag(self, A: Array) -> Array:
        """Return the diagonal, (n,)."""
        return self.factor * self.base.diag(A)

    def from_squared_distance(self, D: Array, out: Array | None = None) -> Array:
        """Return the values from squared distances."""
        values = self.base.from_squared_distance(D, out)
        return np.multiply(values, self.factor, out=values)

    def from_inner_product(self, G: Array, out: Array | None = None) -> Array:
        """Return the values from inner products."""
        values = self.base.from_inner_product(G, out)
        return np.multiply(values, self.factor, out=values)
