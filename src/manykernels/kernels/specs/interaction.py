"""Products of kernels on different columns: the interactions found by kernel discovery."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any, ClassVar, Self

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.specs.base import ANY_COLUMN, MOST_DEGREE, KernelSpec, as_pair, as_points, register_kernel
from manykernels.kernels.specs.categorical import Overlap
from manykernels.kernels.specs.distances import MedianDistances
from manykernels.kernels.specs.inner import Linear
from manykernels.validation.arrays import Array, check_count, check_finite, check_positive

# A power of one column, shifted and scaled: the factor of normalized monomials.


@register_kernel
@dataclass(frozen=True)
class ColumnPower(KernelSpec):
    """Linear kernel of powers, ``sum_j phi(x_j) phi(z_j)`` with ``phi(x) = ((x / unit)^degree - center) / scale``.

    On a single column, the kernel of a normalized power, a factor of products: ``scale`` is the root mean square
    divisor, for a mean diagonal of 1.

    Parameters
    ----------
    degree : int
        At least 1.
    unit : float, default=1.0
        Positive.
    center : float, default=0.0
    scale : float, default=1.0
        Positive.

    Examples
    --------
    >>> from manykernels.kernels import ColumnPower
    >>> ColumnPower(2, scale=2.0)([[1.0], [3.0]])
    array([[ 0.25,  2.25],
           [ 2.25, 20.25]])
    """

    kind: ClassVar[str] = "column_power"
    degree: int
    unit: float = 1.0
    center: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "degree", check_count(self.degree, "degree", most=MOST_DEGREE))
        object.__setattr__(self, "unit", check_positive(self.unit, "unit"))
        object.__setattr__(self, "scale", check_positive(self.scale, "scale"))
        object.__setattr__(self, "center", float(check_finite(np.asarray(self.center), "center")))

    def feature(self, values: Array) -> Array:
        """Return ``phi`` of the values of the column.

        Returns
        -------
        ndarray
            Of the same shape.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.kernels import ColumnPower
        >>> ColumnPower(2, center=1.0)
        ColumnPower(degree=2, unit=1.0, center=1.0, scale=1.0)
        >>> ColumnPower(2, center=1.0).feature(np.array([1.0, 3.0]))
        array([0., 8.])
        """
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            powers: Array = (values / self.unit) ** self.degree
            return (powers - self.center) / self.scale

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        first, second = as_pair(A, B)
        left = self.feature(first)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return left @ (left if second is first else self.feature(second)).T

    def diag(self, A: Array) -> Array:
        """Return sums of squares of the features, (n,)."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return np.square(self.feature(as_points(A))).sum(axis=1)


Part = tuple[KernelSpec, tuple[int, ...]]


@register_kernel
@dataclass(frozen=True)
class Interaction(KernelSpec):
    """Product of kernels on chosen columns, ``k(x, z) = prod_p k_p(x[columns_p], z[columns_p])``.

    Columns are positions among the columns of the kernel, not of the table. A part may occur more than once. Linear
    single-column parts give the kernel of a monomial, of rank 1 and evaluated accordingly. Without parts the kernel is
    constant.

    Parameters
    ----------
    parts : tuple of (KernelSpec, tuple of int)
        The factors and the columns of every.

    Raises
    ------
    InvalidInputError
        If a part is no pair of a kernel and at least one non-negative position, or the kernel cannot act on as many
        columns.

    Examples
    --------
    >>> from manykernels import Gaussian, Interaction, Linear
    >>> square = Interaction(((Linear(), (0,)), (Linear(), (1,)), (Linear(), (1,))))
    >>> square.named(["age", "dose"])
    'age x dose x dose'
    >>> square([[2.0, 3.0]], [[1.0, 5.0]])
    array([[450.]])
    >>> Interaction(((Linear(), (0,)), (Gaussian(2.0), (1,)))).label
    'x0 x gaussian(width=2)[x1]'

    Notes
    -----
    Afkanpour (2013), section 4.2.1: the kernels of a polynomial family are such products.
    """

    kind: ClassVar[str] = "interaction"
    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.parts, Sequence):
            raise InvalidInputError(
                "parts must be a sequence of (kernel, columns), such as ((Linear(), (0,)), (Gaussian(2.0), (1,))), got "
                f"{self.parts!r}."
            )
        object.__setattr__(self, "parts", tuple(_check_part(part) for part in self.parts))

    @property
    def is_monomial(self) -> bool:
        """Whether every part is the linear kernel, or a power, of a single column."""
        return all(_is_column(part) for part in self.parts)

    @property
    def unit_diagonal(self) -> bool:  # type: ignore[override]  # a constant of others
        """Whether every part has a unit diagonal."""
        return all(spec.unit_diagonal for spec, _ in self.parts)

    @cached_property
    def label(self) -> str:
        """The parts joined by " x ", their columns written x0, x1, ..."""
        size = 1 + max((position for _, columns in self.parts for position in columns), default=-1)
        return self.named([f"x{position}" for position in range(size)])

    def named(self, names: Sequence[str]) -> str:
        """Return the label with the names of the columns, for example ``age x dose x dose``; ``"1"`` without parts.

        Parameters
        ----------
        names : sequence of str
            One a column, in the order of the columns of the kernel.

        Examples
        --------
        >>> from manykernels import Interaction, Linear
        >>> Interaction(((Linear(), (0,)), (Linear(), (1,)))).named(["age", "dose"])
        'age x dose'
        """
        return (
            " x ".join(_part_name(spec, [names[position] for position in columns]) for spec, columns in self.parts)
            or "1"
        )

    def resolve(self, medians: MedianDistances) -> Self:
        """Return the kernel with numeric widths, from the median distances of the columns of every part."""
        return replace(
            self, parts=tuple((spec.resolve(medians.take(columns)), columns) for spec, columns in self.parts)
        )

    def check_columns(self, n_columns: int, name: str = "the kernel") -> None:
        """Raise ``InvalidInputError`` if a part asks for a column beyond the ``n_columns`` there are."""
        largest = max((position for _, columns in self.parts for position in columns), default=-1)
        if largest >= n_columns:
            raise InvalidInputError(
                f"{name} is an interaction that uses column position {largest}, but it has {n_columns} column(s); "
                "positions count from 0 among the kernel's own columns."
            )

    def reads(self, column: int) -> frozenset[str]:
        """Kinds of columns readable by all parts on the column; any kind without parts."""
        kinds = ANY_COLUMN
        for spec, columns in self.parts:
            for place in (at for at, position in enumerate(columns) if position == column):
                kinds &= spec.reads(place)
        return kinds

    def features(self, A: Array) -> Array:
        """Return the product of the parts of a single feature, as ``prod_p x[column_p]`` of linear ones, (n,) float64.

        Parameters
        ----------
        A : (n, d) array

        Returns
        -------
        (n,) float64
            The feature whose outer product with itself is the kernel, if ``is_monomial``.

        Examples
        --------
        >>> from manykernels import Interaction, Linear
        >>> Interaction(((Linear(), (0,)), (Linear(), (1,)))).features([[2.0, 3.0], [1.0, -1.0]])
        array([ 6., -1.])
        """
        points = as_points(A)
        self.check_columns(points.shape[1])
        values = np.ones(len(points))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for part in filter(_is_column, self.parts):
                column = points[:, part[1][0]]
                values *= part[0].feature(column) if isinstance(part[0], ColumnPower) else column
        return values

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        first, second = as_pair(A, B)
        left = self.features(first)
        right = left if second is first else self.features(second)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            values = np.multiply.outer(left, right)
            for (spec, columns), power in _powers(part for part in self.parts if not _is_column(part)):
                others = None if second is first else second[:, columns]
                values *= spec(first[:, columns], others) ** power
        return values

    def diag(self, A: Array) -> Array:
        """Return the product of the diagonals, (n,)."""
        points = as_points(A)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            values = self.features(points) ** 2
            for (spec, columns), power in _powers(part for part in self.parts if not _is_column(part)):
                values *= spec.diag(points[:, columns]) ** power
        return values


def slope_columns(spec: KernelSpec) -> tuple[int, int] | None:
    """Return the columns of the levels and of the numbers of a random slope, `Overlap` times `Linear`; else None."""
    if not isinstance(spec, Interaction) or len(spec.parts or ()) != 2:
        return None
    found = {type(part): columns for part, columns in spec.parts}
    if set(found) != {Overlap, Linear} or any(len(columns) != 1 for columns in found.values()):
        return None
    (group,), (number,) = found[Overlap], found[Linear]
    return None if group == number else (group, number)


def _powers(parts: Iterator[Part]) -> list[tuple[Part, int]]:
    return [(part, len(list(same))) for part, same in groupby(parts)]


def _is_column(part: Part) -> bool:
    return isinstance(part[0], (Linear, ColumnPower)) and len(part[1]) == 1


def _part_name(spec: KernelSpec, names: Sequence[str]) -> str:
    if isinstance(spec, Linear) and len(names) == 1:
        return names[0]
    if isinstance(spec, ColumnPower):
        return " x ".join(list(names) * spec.degree)
    return f"{spec.label}[{', '.join(names)}]"


def _check_part(part: object) -> Part:
    spec, positions = _split(part)
    if not isinstance(spec, KernelSpec) or not positions or not all(_is_position(value) for value in positions):
        raise InvalidInputError(
            "A part of an interaction is a pair (kernel, column positions), such as (Linear(), (0,)), with positions "
            f"counted from 0; got {part!r}."
        )
    if spec.family == "missing":
        raise InvalidInputError("A kernel of missingness sees gaps, not values; it cannot be part of an interaction.")
    spec.check_columns(len(positions), f"the part {spec.label!r}")
    return spec, tuple(int(value) for value in positions)


def _split(part: Any) -> tuple[Any, tuple[Any, ...]]:
    try:
        spec, columns = part
        return spec, tuple(columns)
    except (TypeError, ValueError):
        return None, ()


def _is_position(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= 0
