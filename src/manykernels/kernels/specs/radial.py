"""Kernels that are functions of a distance: Gaussian, Matern, ARD Gaussian, Laplacian; exponential chi-squared.

Also other kernels of two rows: Dirichlet, scikit-learn's names, any callable.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, chi2_kernel, pairwise_kernels

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.specs.base import MOST_DEGREE, KernelSpec, as_pair, as_points, register_kernel
from manykernels.kernels.specs.distances import MedianWidth, require_width
from manykernels.validation.arrays import Array, check_count, check_finite, check_nonnegative, check_positive

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


def read_width(value: object, name: str = "width") -> float | MedianWidth:
    """Return a checked width: a number, ``"median"``, ``"0.5*median"`` or a :class:`MedianWidth`."""
    if isinstance(value, MedianWidth):
        return value
    if isinstance(value, str):
        return _parse_median(value, name)
    smallest_width, largest_width = 1e-150, 1e150
    if type(value) is float and smallest_width <= value <= largest_width:
        return value
    width = check_positive(value, name)
    if not smallest_width <= width <= largest_width:
        raise InvalidInputError(
            f"{name} must lie between {smallest_width:g} and {largest_width:g}, got {width:g}: its square leaves the "
            "range of float64. Rescale the columns, for instance with standardize=True."
        )
    return width


def _parse_median(text: str, name: str) -> MedianWidth:
    match = re.fullmatch(r"\s*(?:([0-9.eE+-]+)\s*\*)?\s*median\s*", text)
    try:
        factor = float(match.group(1) or 1.0) if match else np.nan
    except ValueError:
        factor = np.nan
    if not factor > 0:
        raise InvalidInputError(f"{name} must be a positive number, 'median' or 'FACTOR*median', got {text!r}.")
    return MedianWidth(factor)


@dataclass(frozen=True)
class RadialSpec(KernelSpec):
    """A kernel of the squared Euclidean distance; ``k(x, x) = 1``."""

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
        object.__setattr__(self, "width", read_width(self.width))

    def from_squared_distance(self, D: Array, out: Array | None = None) -> Array:
        """Return ``exp(-D / (2 width^2))``."""
        with np.errstate(over="ignore", under="ignore"):
            out = np.multiply(D, -0.5 / require_width(self.width) ** 2, out=out)
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
        object.__setattr__(self, "width", read_width(self.width))
        if self.nu not in (0.5, 1.5, 2.5):
            raise InvalidInputError(f"nu must be 0.5, 1.5 or 2.5, got {self.nu!r}.")

    def from_squared_distance(self, D: Array, out: Array | None = None) -> Array:
        with np.errstate(over="ignore", under="ignore"):
            r = np.sqrt(D)
            r *= np.sqrt(2 * self.nu) / require_width(self.width)
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
        One positive width per column of the selection, in the order.

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
        checked = tuple(require_width(read_width(width, "every width")) for width in self.widths)
        object.__setattr__(self, "widths", checked)

    @property
    def column_widths(self) -> tuple[float, ...]:
        """The divisors of the columns."""
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
    metric: ClassVar[str] = "cityblock"
    width: float | MedianWidth

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", read_width(self.width))

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        distances = cdist(*as_pair(A, B), "cityblock")
        with np.errstate(over="ignore", under="ignore"):
            distances *= -1.0 / require_width(self.width)
            return np.exp(distances, out=distances)


INDEFINITE = ("additive_chi2", "sigmoid")


@register_kernel
@dataclass(frozen=True)
class Dirichlet(KernelSpec):
    """Dirichlet kernel ``k(x, z) = prod_j (1 + 2 sum_{k=1}^degree cos(k frequency (x_j - z_j)))``.

    On a single column and for degree one this is ``1 + 2 cos(frequency |x - z|)`` of Afkanpour (2013), section 3.1.
    Every factor equals ``sin((degree + 1/2) t) / sin(t / 2)`` with ``t = frequency (x_j - z_j)``. The product over
    columns stays positive semidefinite on any number of columns; the cosine of the Euclidean norm would not.

    Parameters
    ----------
    degree : int, default=1
        Number of harmonics.
    frequency : float, default=1.0
        Non-negative angular frequency, in radians per unit of the columns.

    Examples
    --------
    >>> from manykernels.kernels import Dirichlet
    >>> Dirichlet(1, 0.0)([[5.0]], [[2.0]])
    array([[3.]])
    """

    kind: ClassVar[str] = "dirichlet"
    degree: int = 1
    frequency: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "degree", check_count(self.degree, "degree", most=MOST_DEGREE))
        object.__setattr__(self, "frequency", check_nonnegative(self.frequency, "frequency"))

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        first, second = as_pair(A, B)
        values = np.ones((len(first), len(second)))
        with np.errstate(over="ignore", invalid="ignore"):
            for column in range(first.shape[1]):
                # The absolute difference makes the angle, and so the matrix, exactly symmetric.
                angle = np.abs(first[:, column, None] - second[:, column]) * self.frequency
                values *= 1.0 + 2.0 * sum(np.cos(k * angle) for k in range(1, self.degree + 1))
        return values

    def diag(self, A: Array) -> Array:
        """Return ``(1 + 2 degree)^columns`` for every row, (n,)."""
        points = as_points(A)
        with np.errstate(over="ignore"):
            return np.full(len(points), np.float64(1 + 2 * self.degree) ** points.shape[1])


@register_kernel
@dataclass(frozen=True)
class ChiSquared(KernelSpec):
    """Exponential chi-squared kernel ``k(x, z) = exp(-gamma sum_j (x_j - z_j)^2 / (x_j + z_j))`` for data >= 0.

    Parameters
    ----------
    gamma : float, default=1.0
        Positive.

    Raises
    ------
    InvalidInputError
        On evaluation, if an entry of the data is negative.

    Examples
    --------
    >>> from manykernels.kernels import ChiSquared
    >>> ChiSquared(1.0)([[1.0, 0.0]], [[0.0, 0.0]]).round(4)
    array([[0.3679]])

    Notes
    -----
    Zhang, Marszalek, Lazebnik and Schmid, International Journal of Computer Vision (2007).
    """

    kind: ClassVar[str] = "chi_squared"
    unit_diagonal: ClassVar[bool] = True
    gamma: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", check_positive(self.gamma, "gamma"))

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        first, second = as_pair(A, B)
        for points in (first, second):
            _check_counts(points)
        return chi2_kernel(*_writable(first, second), gamma=self.gamma)

    def diag(self, A: Array) -> Array:
        """Return 1 for every row, (n,)."""
        return np.ones(len(_check_counts(as_points(A))))


@register_kernel
@dataclass(frozen=True)
class Pairwise(KernelSpec):
    """A kernel of scikit-learn by the name, as in :func:`sklearn.metrics.pairwise.pairwise_kernels`.

    Parameters
    ----------
    name : {"chi2", "cosine", "laplacian", "linear", "poly", "polynomial", "rbf"}
        scikit-learn's name. "sigmoid" and "additive_chi2" are refused: they are not positive semidefinite.
    params : mapping, default={}
        Keyword arguments of that function, for example ``{"gamma": 0.1}``; kept as sorted pairs.

    Examples
    --------
    >>> from manykernels.kernels import Pairwise
    >>> Pairwise("rbf", {"gamma": 1.0})([[0.0]], [[1.0]]).round(4)
    array([[0.3679]])
    """

    kind: ClassVar[str] = "pairwise"
    name: str
    params: Any = field(default=())

    def __post_init__(self) -> None:
        if self.name in INDEFINITE:
            raise InvalidInputError(f"scikit-learn's {self.name!r} is not positive semidefinite and cannot be used.")
        if self.name not in PAIRWISE_KERNEL_FUNCTIONS:
            known = sorted(set(PAIRWISE_KERNEL_FUNCTIONS) - set(INDEFINITE))
            raise InvalidInputError(f"scikit-learn has no kernel {self.name!r}; it has {', '.join(known)}.")
        pairs = dict(self.params.items() if isinstance(self.params, Mapping) else self.params)
        object.__setattr__(self, "params", tuple(sorted(pairs.items())))

    @cached_property
    def label(self) -> str:
        return f"sklearn {self.name}({', '.join(f'{key}={value}' for key, value in self.params)})"

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        first, second = as_pair(A, B)
        try:
            # A copy: scikit-learn may hand back a view of its argument.
            values = np.array(pairwise_kernels(*_writable(first, second), metric=self.name, **dict(self.params)))
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"scikit-learn's kernel {self.label} failed: {error}") from error
        return symmetrized(values, self.label) if first is second else values


@register_kernel
@dataclass(frozen=True)
class FromCallable(KernelSpec):
    """Any function ``k(A, B)`` that returns the (n_a, n_b) matrix of a positive semidefinite kernel.

    Parameters
    ----------
    function : callable
        Takes two float64 arrays of rows and returns the matrix; give a module-level function if models are pickled.
    label : str, default="callable"
        Short text that names the kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.kernels import FromCallable
    >>> FromCallable(lambda A, B: np.minimum(A, B.T), "minimum")([[1.0]], [[2.0], [0.5]])
    array([[1. , 0.5]])
    """

    kind: ClassVar[str] = "callable"
    function: Callable[[Array, Array], Any]
    label: str = "callable"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidInputError(f"function must be callable as k(A, B), got {self.function!r}.")

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        first, second = as_pair(A, B)
        values = np.array(self.function(first, second), dtype=np.float64)
        if values.shape != (len(first), len(second)):
            raise InvalidInputError(
                f"The kernel {self.label!r} returned shape {values.shape} for {len(first)} and {len(second)} rows; "
                f"it must return {(len(first), len(second))}."
            )
        check_finite(values, f"The kernel {self.label!r}")
        return symmetrized(values, self.label) if first is second else values

    def to_dict(self) -> dict[str, Any]:
        """Raise: code cannot be stored in a model file."""
        raise InvalidInputError(
            f"The kernel {self.label!r} is a Python function and cannot be written to a model file. Use a named "
            "kernel, subclass KernelSpec and decorate it with register_kernel, or pickle the estimator."
        )


def symmetrized(values: Array, label: str) -> Array:
    """Return ``(K + K') / 2`` for asymmetry within rounding, else raise an error."""
    gap = float(np.abs(values - values.T).max(initial=0.0))
    if gap > 1e-8 * float(np.abs(values).max(initial=0.0)):
        raise InvalidInputError(
            f"The kernel {label!r} is not symmetric: k(x, z) and k(z, x) differ by up to {gap:.3g}. Correct it."
        )
    return (values + values.T) / 2


def _writable(first: Array, second: Array) -> tuple[Array, Array]:
    # Some of scikit-learn's compiled loops refuse read-only memory, such as the memory maps of joblib.
    copy = np.require(first, requirements="W")
    return copy, copy if first is second else np.require(second, requirements="W")


def _check_counts(points: Array) -> Array:
    if points.size and points.min() < 0:
        raise InvalidInputError(
            f"The chi-squared kernel needs data >= 0 (counts, histograms), got {points.min():g}. "
            "Do not standardize these columns, or choose another kernel."
        )
    return points
