"""Kernels that are functions of a distance: Gaussian, Matern, ARD Gaussian, Laplacian."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from scipy.spatial.distance import cdist

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.specs.base import KernelSpec, as_pair, as_points, register_kernel
from manykernels.kernels.specs.distances import MedianDistances, MedianWidth, as_width, known_width, resolve_width
from manykernels.validation.arrays import Array, check_positive

# The periodic kernel: what dates have besides their order.


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
    unit_diagonal: ClassVar[bool] = True
    period: float
    width: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "period", check_positive(self.period, "period"))
        object.__setattr__(self, "width", check_positive(self.width, "width"))

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        first, second = as_pair(A, B)
        exponents = np.zeros((len(first), len(second)))
        for left, right in zip(first.T, second.T, strict=True):
            # The absolute difference makes the matrix exactly symmetric.
            exponents += np.sin(np.pi / self.period * np.abs(left[:, None] - right)) ** 2
        return np.exp(-2.0 / self.width**2 * exponents)

    def diag(self, A: Array) -> Array:
        """Return ones, (n,)."""
        return np.ones(len(as_points(A)))


@dataclass(frozen=True)
class RadialSpec(KernelSpec):
    """A kernel that depends on the rows only through their squared Euclidean distance; ``k(x, x) = 1``."""

    @abstractmethod
    def from_squared_distance(self, D: Array, out: Array | None = None) -> Array:
        """Return the kernel values for squared distances."""

    family: ClassVar[str] = "squared_distance"
    unit_diagonal: ClassVar[bool] = True

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        """Return the matrix of kernel values, with distances computed by subtraction."""
        first, second = as_pair(A, B)
        self.check_columns(first.shape[1])
        if self.column_widths is not None:
            first, second = first / np.array(self.column_widths), second / np.array(self.column_widths)
        return self.from_squared_distance(cdist(first, second, "sqeuclidean"))

    def diag(self, A: Array) -> Array:
        """Return ones, (n,)."""
        return np.ones(len(as_points(A)))


@register_kernel
@dataclass(frozen=True)
class Gaussian(RadialSpec):
    """Gaussian kernel ``k(x, z) = exp(-||x - z||^2 / (2 width^2))``.

    Parameters
    ----------
    width : float, "median", "FACTOR*median" or MedianWidth
        Width in the unit of the (possibly standardized) columns; a median width is resolved when a bank is fitted.

    Raises
    ------
    InvalidInputError
        If the width is not a positive number between 1e-150 and 1e150, nor a median width.

    Examples
    --------
    >>> from manykernels.kernels import Gaussian
    >>> Gaussian(1.0)([[0.0]], [[2.0]]).round(4)
    array([[0.1353]])

    Notes
    -----
    scikit-learn's ``gamma`` is ``1 / (2 width^2)``. The base kernel of Suzuki and Tomioka, SpicyMKL (2011), section 6.
    """

    kind: ClassVar[str] = "gaussian"
    width: float | MedianWidth

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", as_width(self.width))

    def resolve(self, medians: MedianDistances) -> Self:
        return replace(self, width=resolve_width(self.width, medians, "euclidean"))

    def from_squared_distance(self, D: Array, out: Array | None = None) -> Array:
        """Return ``exp(-D / (2 width^2))``."""
        with np.errstate(over="ignore", under="ignore"):
            out = np.multiply(D, -0.5 / known_width(self.width) ** 2, out=out)
            return np.exp(out, out=out)


@register_kernel
@dataclass(frozen=True)
class Matern(RadialSpec):
    """Matern kernel of smoothness 1/2, 3/2 or 5/2, with ``r = ||x - z|| / width``.

    ``nu=0.5``: ``exp(-r)``; ``nu=1.5``: ``(1 + sqrt(3) r) exp(-sqrt(3) r)``;
    ``nu=2.5``: ``(1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r)``.

    Parameters
    ----------
    width : float, "median", "FACTOR*median" or MedianWidth
        Length scale in the unit of the columns.
    nu : {0.5, 1.5, 2.5}, default=1.5
        Smoothness.

    Examples
    --------
    >>> from manykernels.kernels import Matern
    >>> Matern(1.0, nu=0.5)([[0.0]], [[1.0]]).round(4)
    array([[0.3679]])

    Notes
    -----
    Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), equations 4.16 and 4.17.
    """

    kind: ClassVar[str] = "matern"
    width: float | MedianWidth
    nu: float = 1.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", as_width(self.width))
        if self.nu not in (0.5, 1.5, 2.5):
            raise InvalidInputError(f"nu must be 0.5, 1.5 or 2.5, got {self.nu!r}.")

    def resolve(self, medians: MedianDistances) -> Self:
        return replace(self, width=resolve_width(self.width, medians, "euclidean"))

    def from_squared_distance(self, D: Array, out: Array | None = None) -> Array:
        """Return the Matern kernel of squared distances ``D``."""
        with np.errstate(over="ignore", under="ignore"):
            r = np.sqrt(D)
            r *= np.sqrt(2 * self.nu) / known_width(self.width)
            # Beyond 1e3 the exponential is zero; the cap keeps inf * 0 = nan out of the polynomial.
            np.minimum(r, 1e3, out=r)
            out = np.exp(-r, out=out)
        if self.nu == 2.5:
            out *= 1 + r + r**2 / 3
        elif self.nu == 1.5:
            out *= 1 + r
        return out


@register_kernel
@dataclass(frozen=True)
class ArdGaussian(RadialSpec):
    """Gaussian kernel with a width per column, ``k(x, z) = exp(-sum_j (x_j - z_j)^2 / (2 widths_j^2))``.

    Parameters
    ----------
    widths : sequence of float
        One positive width per column of the selection, in its order.

    Examples
    --------
    >>> from manykernels.kernels import ArdGaussian
    >>> ArdGaussian((1.0, 10.0))([[0.0, 0.0]], [[1.0, 10.0]]).round(4)
    array([[0.3679]])

    Notes
    -----
    The n-dimensional Gaussian kernels of Afkanpour (2013), section 4.3, up to the parametrization.
    """

    kind: ClassVar[str] = "ard_gaussian"
    widths: tuple[float, ...]

    def __post_init__(self) -> None:
        if np.ndim(self.widths) != 1 or len(self.widths) == 0:
            raise InvalidInputError(f"widths must be a non-empty sequence of numbers, got {self.widths!r}.")
        checked = tuple(known_width(as_width(width, "every width")) for width in self.widths)
        object.__setattr__(self, "widths", checked)

    @property
    def column_widths(self) -> tuple[float, ...]:
        """The widths, by which the columns are divided."""
        return self.widths

    def check_columns(self, n_columns: int, name: str = "the kernel") -> None:
        """Raise if the number of columns is not the number of widths."""
        if n_columns != len(self.widths):
            raise InvalidInputError(
                f"{name}: {len(self.widths)} widths for {n_columns} column(s); give one width per column."
            )

    def from_squared_distance(self, D: Array, out: Array | None = None) -> Array:
        """Return ``exp(-D / 2)``; ``D`` is of the columns divided by their widths."""
        with np.errstate(over="ignore", under="ignore"):
            out = np.multiply(D, -0.5, out=out)
            return np.exp(out, out=out)


@register_kernel
@dataclass(frozen=True)
class Laplacian(KernelSpec):
    """Laplacian kernel ``k(x, z) = exp(-||x - z||_1 / width)``.

    Parameters
    ----------
    width : float, "median", "FACTOR*median" or MedianWidth
        Width in the unit of the columns; a median width uses 1-norm distances.

    Examples
    --------
    >>> from manykernels.kernels import Laplacian
    >>> Laplacian(2.0)([[0.0, 0.0]], [[1.0, 1.0]]).round(4)
    array([[0.3679]])
    """

    kind: ClassVar[str] = "laplacian"
    unit_diagonal: ClassVar[bool] = True
    width: float | MedianWidth

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", as_width(self.width))

    def resolve(self, medians: MedianDistances) -> Self:
        return replace(self, width=resolve_width(self.width, medians, "cityblock"))

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        distances = cdist(*as_pair(A, B), "cityblock")
        with np.errstate(over="ignore", under="ignore"):
            distances *= -1.0 / known_width(self.width)
            return np.exp(distances, out=distances)

    def diag(self, A: Array) -> Array:
        """Return ones, (n,)."""
        return np.ones(len(as_points(A)))
