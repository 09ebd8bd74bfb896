"""A power of one column, shifted and scaled: the factor of normalized monomials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from manykernels.kernels.specs.base import MOST_DEGREE, KernelSpec, as_pair, as_points, register_kernel
from manykernels.validation.arrays import Array, check_count, check_finite, check_positive


@register_kernel
@dataclass(frozen=True)
class ColumnPower(KernelSpec):
    """Linear kernel of powers, ``sum_j phi(x_j) phi(z_j)`` with ``phi(x) = ((x / unit)^degree - center) / scale``.

    On one column, the kernel of a normalized power, of which products are made: ``scale`` is the root mean square of
    what it divides, so that the kernel has a mean diagonal of one.

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

        Parameters
        ----------
        values : ndarray

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
        """Return the matrix of kernel values."""
        first, second = as_pair(A, B)
        left = self.feature(first)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return left @ (left if second is first else self.feature(second)).T

    def diag(self, A: Array) -> Array:
        """Return sums of squares of the features, (n,)."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return np.square(self.feature(as_points(A))).sum(axis=1)
