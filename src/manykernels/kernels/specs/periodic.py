"""The periodic kernel: what dates have besides their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from manykernels.kernels.specs.base import KernelSpec, as_pair, as_points, register_kernel
from manykernels.validation.arrays import Array, check_positive


@register_kernel
@dataclass(frozen=True)
class Periodic(KernelSpec):
    """Periodic kernel ``k(x, z) = exp(-2 sum_j sin(pi (x_j - z_j) / period)^2 / width^2)``.

    On a column of dates, which a bank reads as days and does not rescale, a period of 7 is the day of the week,
    365.2425 the time of the year and 1 the time of the day.

    Parameters
    ----------
    period : float
        Positive, in the unit of the columns (days for dates).
    width : float, default=1.0
        Positive; small widths tell apart what is near in phase.

    Examples
    --------
    >>> from manykernels.kernels import Periodic
    >>> Periodic(7.0)([[0.0]], [[7.0], [3.5]]).round(4)
    array([[1.    , 0.1353]])

    Notes
    -----
    MacKay, Introduction to Gaussian processes (1998), section 5: a Gaussian kernel of the points
    ``(cos(2 pi x / period), sin(2 pi x / period))``, hence positive semidefinite.
    """

    kind: ClassVar[str] = "periodic"
    period: float
    width: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "period", check_positive(self.period, "period"))
        object.__setattr__(self, "width", check_positive(self.width, "width"))

    @property
    def unit_diagonal(self) -> bool:
        """Always True."""
        return True

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        """Return the matrix of kernel values."""
        first, second = as_pair(A, B)
        exponents = np.zeros((len(first), len(second)))
        for left, right in zip(first.T, second.T, strict=True):
            # The absolute difference makes the matrix exactly symmetric.
            exponents += np.sin(np.pi / self.period * np.abs(left[:, None] - right)) ** 2
        return np.exp(-2.0 / self.width**2 * exponents)

    def diag(self, A: Array) -> Array:
        """Return ones, (n,)."""
        return np.ones(len(as_points(A)))
