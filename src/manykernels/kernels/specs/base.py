"""What a kernel is: hyper-parameters without data; the registry of kinds and the dictionary form of the model file.

Sums, products and multiples of kernels are kernels again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.specs.distances import MedianDistances, MedianWidth
from manykernels.validation.arrays import Array, check_positive
from manykernels.validation.parameters import WithoutCaches

KERNELS: dict[str, type[KernelSpec]] = {}
"""Every registered kernel class by its ``kind``, the name used in model files and in kernel files."""

# A power takes a pass over the matrix a degree, and beyond this one nearly every value is 0 or infinite: a typing
# error, or a file that would keep its reader busy for days.
MOST_DEGREE = 1000
NUMBERS_OR_RANKS = frozenset({"number", "ordered"})
ANY_COLUMN = NUMBERS_OR_RANKS | {"category"}

SpecClass = TypeVar("SpecClass", bound="type[KernelSpec]")


def register_kernel(cls: SpecClass) -> SpecClass:
    """Enter a kernel class into ``KERNELS`` under its ``kind``; used as a class decorator.

    Raises
    ------
    InvalidInputError
        If another class already has the kind.

    Returns
    -------
    type
        The class itself.

    Examples
    --------
    >>> from manykernels.kernels import KERNELS
    >>> KERNELS["gaussian"].__name__
    'Gaussian'
    """
    taken = KERNELS.get(cls.kind)
    if taken is not None and taken.__qualname__ != cls.__qualname__:
        raise InvalidInputError(
            f"The kernel kind {cls.kind!r} is already taken by {taken.__qualname__}; choose another."
        )
    KERNELS[cls.kind] = cls
    return cls


@dataclass(frozen=True)
class KernelSpec(WithoutCaches, ABC):
    """A positive semidefinite kernel as a frozen set of hyper-parameters.

    A concrete kernel is a frozen dataclass decorated with :func:`register_kernel`; it defines ``kind`` and
    ``__call__``, and ``diag`` where that is cheaper than small blocks of the matrix. Widths among the fields, those of
    kernels inside it too, may be medians of distances in its ``metric``. Specs are equal when their class and fields
    are; they are hashable and combine with ``+`` and ``*``.

    Examples
    --------
    >>> from manykernels import Gaussian, KernelSpec
    >>> kernel = Gaussian(width=0.5)
    >>> isinstance(kernel, KernelSpec), kernel.label, kernel == Gaussian(width=0.5)
    (True, 'gaussian(width=0.5)', True)
    >>> kernel([[0.0]], [[0.0], [1.0]]).round(3)
    array([[1.   , 0.135]])
    """

    kind: ClassVar[str]
    # Of what values are computed: "squared_distance", "inner_product", "features" (sparse ones of objects), "other"
    # (the rows), "missing" (gaps).
    family: ClassVar[str] = "other"
    unit_diagonal: ClassVar[bool] = False  # whether k(x, x) = 1 for every x
    kinds: ClassVar[frozenset[str]] = frozenset({"number"})  # of columns that `reads` says, unless they differ
    metric: ClassVar[str] = "euclidean"  # of the distances that a median width is a multiple of

    @abstractmethod
    def __call__(self, A: Array, B: Array | None = None) -> Array:
        """Return the (n_a, n_b) float64 matrix of kernel values; ``B=None`` means ``B = A``, exactly symmetric.

        Parameters
        ----------
        A : array-like of shape (n_a, n_columns)
        B : array-like of shape (n_b, n_columns), optional
        """

    def diag(self, A: Array) -> Array:
        """Return ``k(a, a)`` for every row of ``A``, (n_a,) float64, without building the matrix.

        Ones for a unit diagonal, else read off small blocks of the matrix, unless overridden.

        Parameters
        ----------
        A : array-like of shape (n_a, n_columns)

        Examples
        --------
        >>> from manykernels import Linear
        >>> Linear().diag([[1.0, 2.0]])
        array([5.])
        """
        points = as_points(A)
        if self.unit_diagonal or not len(points):
            return np.ones(len(points))
        diagonal_rows = 64  # of a block that a diagonal is read from
        blocks = [points[start : start + diagonal_rows] for start in range(0, len(points), diagonal_rows)]
        return np.concatenate([np.diagonal(self(block)) for block in blocks])

    def from_squared_distance(self, D: Array, out: Array | None = None) -> Array:
        """Return the kernel values for squared distances ``D``, written into ``out`` (not ``D`` itself) if given.

        For kernels whose ``family`` is ``"squared_distance"``.

        Parameters
        ----------
        D : ndarray
        out : ndarray, optional
            Of the same shape.

        Returns
        -------
        ndarray
            Of the same shape.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import Gaussian
        >>> Gaussian(1.0).from_squared_distance(np.array([0.0, 2.0 * np.log(2.0)]))
        array([1. , 0.5])
        """
        raise InvalidInputError(f"The kernel {self.label!r} is not a function of squared distances.")

    def from_inner_product(self, G: Array, out: Array | None = None) -> Array:
        """Return the kernel values for inner products ``G``, written into ``out`` (not ``G`` itself) if given.

        For kernels whose ``family`` is ``"inner_product"``.

        Parameters
        ----------
        G : ndarray
        out : ndarray, optional
            Of the same shape.

        Returns
        -------
        ndarray
            Of the same shape.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import Polynomial
        >>> Polynomial(2).from_inner_product(np.array([0.0, 2.0]))
        array([1., 9.])
        """
        raise InvalidInputError(f"The kernel {self.label!r} is not a function of inner products.")

    @property
    def feature_map(self) -> KernelSpec | None:
        """Key of the sparse features of objects; None: columns of numbers."""
        return None

    def reads(self, column: int) -> frozenset[str]:
        """Return the kinds of columns that the kernel can read: ``"number"``, ``"ordered"``, ``"category"``.

        Parameters
        ----------
        column : int
            Position among the columns of the kernel.

        Returns
        -------
        frozenset of str
            Numbers only, unless a kernel says otherwise: codes of categories have no distances.

        Examples
        --------
        >>> from manykernels import Gaussian
        >>> Gaussian(1.0).reads(0)
        frozenset({'number'})
        """
        return self.kinds

    @property
    def column_widths(self) -> tuple[float, ...] | None:
        """Widths for the division of columns before everything else; None: columns unchanged."""
        return None

    @cached_property
    def pending(self) -> bool:
        """Whether a width is still to be resolved from training data."""
        return any(_waits(getattr(self, field.name)) for field in fields(self))

    @cached_property
    def label(self) -> str:
        """Short text for the kernel and the hyper-parameters."""
        values = (f"{field.name}={format_value(getattr(self, field.name))}" for field in fields(self))
        return f"{self.kind}({', '.join(values)})"

    def resolve(self, medians: MedianDistances) -> KernelSpec:
        """Return the kernel with every width a number, using the median distances of the training points.

        Parameters
        ----------
        medians : MedianDistances
            Of the columns on which the kernel acts.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import Gaussian
        >>> from manykernels.kernels.specs.distances import MedianDistances
        >>> Gaussian("median").resolve(MedianDistances(np.array([[0.0], [2.0]])))
        Gaussian(width=2.0)
        """
        if not self.pending:
            return self
        own: Any = self
        return replace(own, **{field.name: self._resolved(getattr(self, field.name), medians) for field in fields(own)})

    def _resolved(self, value: Any, medians: MedianDistances) -> Any:
        """Return a hyper-parameter with numeric widths."""
        if isinstance(value, MedianWidth):
            return value.factor * medians(self.metric)
        if isinstance(value, KernelSpec):
            return value.resolve(medians)
        return tuple(self._resolved(item, medians) for item in value) if isinstance(value, tuple) else value

    def check_columns(self, n_columns: int, name: str = "the kernel") -> None:
        """Raise ``InvalidInputError`` if the kernel cannot act on ``n_columns`` columns.

        Parameters
        ----------
        n_columns : int
        name : str
            What the message calls the kernel.

        Raises
        ------
        InvalidInputError
            If it cannot.

        Examples
        --------
        >>> from manykernels import Interaction, Linear
        >>> Interaction(((Linear(), (0,)), (Linear(), (2,)))).check_columns(2)
        Traceback (most recent call last):
            ...
        manykernels.exceptions.InvalidInputError: the kernel is an interaction that uses column position 2, ...
        """
        return

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel as a JSON-able dictionary; :func:`spec_from_dict` is the inverse.

        Returns
        -------
        dict
            ``kernel`` (the kind) and the hyper-parameters.

        Examples
        --------
        >>> from manykernels import Gaussian
        >>> Gaussian(0.5).to_dict()
        {'kernel': 'gaussian', 'width': 0.5}
        """
        return {"kernel": self.kind} | {field.name: _encode(getattr(self, field.name)) for field in fields(self)}

    def __add__(self, other: object) -> KernelSpec:
        return Sum((self, other)) if isinstance(other, KernelSpec) else NotImplemented

    def __mul__(self, other: object) -> KernelSpec:
        if isinstance(other, KernelSpec):
            return Product((self, other))
        return Scaled(self, other) if isinstance(other, (int, float)) else NotImplemented

    __rmul__ = __mul__


class KernelOfFeatures(KernelSpec):
    """A kernel that is the inner product of finitely many features: ``k(x, x') = z(x)'z(x')``, linear in the rows.

    A subclass defines ``rank`` and ``features``, and ``costly`` if features take far longer to compute than to read.
    Fits then hold the features as factors where there are many rows, and no approximation is needed.

    Examples
    --------
    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> from manykernels.kernels import KernelOfFeatures
    >>> @dataclass(frozen=True)
    ... class Waves(KernelOfFeatures):
    ...     n: int = 2
    ...     rank = property(lambda self: 2 * self.n)
    ...
    ...     def features(self, A):
    ...         angles = np.outer(np.asarray(A).sum(axis=1), np.arange(1, self.n + 1))
    ...         return np.hstack([np.sin(angles), np.cos(angles)])
    >>> Waves()(np.zeros((1, 1)), np.zeros((1, 1)))
    array([[2.]])
    """

    costly: ClassVar[bool] = False  # whether it takes far longer to compute features than to read them

    @property
    @abstractmethod
    def rank(self) -> int:
        """The number of features."""

    @abstractmethod
    def features(self, A: Array) -> Array:
        """Return rows ``z(x)`` with ``k(x, x') = z(x)'z(x')``, (n, rank).

        Parameters
        ----------
        A : array-like of shape (n, n_columns)
        """

    def function(self, A: Array, v: Array) -> Array:
        """Return ``z(x)'v`` at rows, (n,); a subclass may compute it without the features."""
        return np.asarray(self.features(A) @ v)

    def adjoint(self, A: Array, rho: Array) -> Array:
        """Return ``sum_i rho_i z(x_i)``, (rank,), or (rank, k) of k columns; without the features as in `function`."""
        return np.asarray(self.features(A).T @ rho)

    @property
    def constraints(self) -> Array | None:
        """The rows of ``G``, (c, rank), where functions ``z(x)'v`` must have ``G v >= 0``; None: all are allowed."""
        return None

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        first, second = as_pair(A, B)
        left = self.features(first)
        return np.asarray(left @ (left if B is None else self.features(second)).T)

    def diag(self, A: Array) -> Array:
        """Return the diagonal, (n,)."""
        Z = self.features(A)
        return np.einsum("ij,ij->i", Z, Z)


def spec_from_dict(state: Mapping[str, Any]) -> KernelSpec:
    """Build a kernel from the dictionary written by ``KernelSpec.to_dict``.

    Parameters
    ----------
    state : mapping
        ``{"kernel": kind, **hyper-parameters}``.

    Raises
    ------
    InvalidInputError
        If the kind is unknown, or a hyper-parameter is missing, unknown or invalid.

    Examples
    --------
    >>> from manykernels.kernels import spec_from_dict
    >>> spec_from_dict({"kernel": "gaussian", "width": 0.5}).label
    'gaussian(width=0.5)'
    """
    kind = state.get("kernel")
    if not isinstance(kind, str) or kind not in KERNELS:
        raise InvalidInputError(f"Unknown kernel {kind!r}; known kernels: {', '.join(sorted(KERNELS))}.")
    known = [field.name for field in fields(KERNELS[kind])]
    unknown = sorted(set(state) - {"kernel", *known})
    if unknown:
        has = ", ".join(known) or "none"
        raise InvalidInputError(f"Kernel {kind!r} has no parameter {unknown[0]!r}; its parameters: {has}.")
    try:
        return KERNELS[kind](**{name: _decode(state[name]) for name in known if name in state})
    except TypeError as error:
        raise InvalidInputError(f"Kernel {kind!r} cannot be built from {dict(state)!r}: {error}.") from error


def as_points(A: Any, name: str = "A") -> Array:
    """Return ``A`` as a C-contiguous (n, d) float64 array, sharing memory where possible."""
    try:
        points = np.ascontiguousarray(A, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name} must hold real numbers in rows of equal length ({error}).") from error
    if points.ndim != 2:
        raise InvalidInputError(f"{name} must have two dimensions (rows, columns), got shape {np.shape(A)}.")
    return points


def as_pair(A: object, B: object) -> tuple[Array, Array]:
    """Return both arguments of a kernel as points with the same number of columns (``B=None``: ``A`` twice)."""
    first = as_points(A)
    second = first if B is None else as_points(B, "B")
    if first.shape[1] != second.shape[1]:
        raise InvalidInputError(f"A has {first.shape[1]} column(s) and B has {second.shape[1]}; they must agree.")
    return first, second


def format_value(value: object) -> str:
    """Return a hyper-parameter as short text."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return "[" + ", ".join(format_value(item) for item in value) + "]"
    return value.label if isinstance(value, KernelSpec) else str(value)


def _waits(value: object) -> bool:
    """Return whether a hyper-parameter has a data-dependent width."""
    if isinstance(value, KernelSpec):
        return value.pending
    return isinstance(value, MedianWidth) or (isinstance(value, tuple) and any(map(_waits, value)))


def _encode(value: object) -> Any:
    if isinstance(value, KernelSpec):
        return value.to_dict()
    if isinstance(value, MedianWidth):
        return {"median": value.factor}
    return [_encode(item) for item in value] if isinstance(value, tuple) else value


def _decode(value: object) -> Any:
    if isinstance(value, Mapping) and "kernel" in value:
        return spec_from_dict(value)
    if isinstance(value, Mapping) and set(value) == {"median"}:
        return MedianWidth(value["median"])
    return tuple(_decode(item) for item in value) if isinstance(value, (list, tuple)) else value


@dataclass(frozen=True)
class CompositeSpec(KernelSpec):
    """Several kernels combined on the same rows; shares distances if equal for all."""

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
        """The NumPy operation on two matrices."""

    @property
    def family(self) -> str:  # type: ignore[override]  # a constant of others
        """The common family of the parts with equal column widths, else ``"other"``."""
        families = {(part.family, part.column_widths) for part in self.parts}
        return self.parts[0].family if len(families) == 1 else "other"

    @property
    def column_widths(self) -> tuple[float, ...] | None:
        """The shared column widths of the parts."""
        return None if self.family == "other" else self.parts[0].column_widths

    def reads(self, column: int) -> frozenset[str]:
        """Kinds of columns readable by every part."""
        return frozenset.intersection(*(part.reads(column) for part in self.parts))

    def check_columns(self, n_columns: int, name: str = "the kernel") -> None:
        for part in self.parts:
            part.check_columns(n_columns, name)

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        return self._fold(lambda part, out: part(A, B), None)

    def diag(self, A: Array) -> Array:
        return self._fold(lambda part, out: part.diag(A), None)

    def from_squared_distance(self, D: Array, out: Array | None = None) -> Array:
        return self._fold(lambda part, target: part.from_squared_distance(D, target), out)

    def from_inner_product(self, G: Array, out: Array | None = None) -> Array:
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
        return self.base.column_widths

    @cached_property
    def label(self) -> str:
        """The factor and the label of the kernel."""
        text = f"({self.base.label})" if isinstance(self.base, Sum) else self.base.label
        return f"{self.factor:g} * {text}"

    def reads(self, column: int) -> frozenset[str]:
        return self.base.reads(column)

    def check_columns(self, n_columns: int, name: str = "the kernel") -> None:
        self.base.check_columns(n_columns, name)

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        return self.factor * self.base(A, B)

    def diag(self, A: Array) -> Array:
        """Return the diagonal, (n,)."""
        return self.factor * self.base.diag(A)

    def from_squared_distance(self, D: Array, out: Array | None = None) -> Array:
        values = self.base.from_squared_distance(D, out)
        return np.multiply(values, self.factor, out=values)

    def from_inner_product(self, G: Array, out: Array | None = None) -> Array:
        values = self.base.from_inner_product(G, out)
        return np.multiply(values, self.factor, out=values)
