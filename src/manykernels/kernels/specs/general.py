"""Kernels that need the rows themselves: Dirichlet, exponential chi-squared, scikit-learn's names, any callable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, chi2_kernel, pairwise_kernels

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.specs.base import MOST_DEGREE, KernelSpec, as_pair, as_points, register_kernel
from manykernels.validation.arrays import Array, check_count, check_finite, check_positive

DIAGONAL_ROWS = 64
INDEFINITE = ("additive_chi2", "sigmoid")


@register_kernel
@dataclass(frozen=True)
class Dirichlet(KernelSpec):
    """Dirichlet kernel ``k(x, z) = prod_j (1 + 2 sum_{k=1}^degree cos(k frequency (x_j - z_j)))``.

    On one column and for degree one this is ``1 + 2 cos(frequency |x - z|)`` of Afkanpour (2013), section 3.1. Each
    factor equals ``sin((degree + 1/2) t) / sin(t / 2)`` with ``t = frequency (x_j - z_j)``. The product over columns
    stays positive semidefinite on any number of columns; the cosine of the Euclidean norm would not.

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
        object.__setattr__(self, "frequency", check_positive(self.frequency, "frequency", allow_zero=True))

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
        """Return ones, (n,)."""
        return np.ones(len(_check_counts(as_points(A))))


@register_kernel
@dataclass(frozen=True)
class Pairwise(KernelSpec):
    """A kernel of scikit-learn by its name, as in :func:`sklearn.metrics.pairwise.pairwise_kernels`.

    Parameters
    ----------
    name : {"chi2", "cosine", "laplacian", "linear", "poly", "polynomial", "rbf"}
        scikit-learn's name. "sigmoid" and "additive_chi2" are refused: they are not positive semidefinite.
    params : mapping, default={}
        Keyword arguments of that function, such as ``{"gamma": 0.1}``; kept as sorted pairs.

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
        """The name and the parameters."""
        return f"sklearn {self.name}({', '.join(f'{key}={value}' for key, value in self.params)})"

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        first, second = as_pair(A, B)
        try:
            # A copy: scikit-learn may hand back a view of its argument.
            values = np.array(pairwise_kernels(*_writable(first, second), metric=self.name, **dict(self.params)))
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"scikit-learn's kernel {self.label} failed: {error}") from error
        return symmetrized(values, self.label) if first is second else values

    def diag(self, A: Array) -> Array:
        """Return the diagonal, evaluated on small blocks of rows, (n,)."""
        return blockwise_diagonal(self, as_points(A))


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

    def diag(self, A: Array) -> Array:
        """Return the diagonal, evaluated on small blocks of rows, (n,)."""
        return blockwise_diagonal(self, as_points(A))

    def to_dict(self) -> dict[str, Any]:
        """Raise: code cannot be stored in a model file."""
        raise InvalidInputError(
            f"The kernel {self.label!r} is a Python function and cannot be written to a model file. Use a named "
            "kernel, subclass KernelSpec and decorate it with register_kernel, or pickle the estimator."
        )


def symmetrized(values: Array, label: str) -> Array:
    """Return ``(K + K') / 2`` if the two differ by rounding, else say that the function is not a kernel."""
    gap = float(np.abs(values - values.T).max(initial=0.0))
    if gap > 1e-8 * float(np.abs(values).max(initial=0.0)):
        raise InvalidInputError(
            f"The kernel {label!r} is not symmetric: k(x, z) and k(z, x) differ by up to {gap:.3g}. Correct it."
        )
    return (values + values.T) / 2


def blockwise_diagonal(spec: KernelSpec, points: Array) -> Array:
    """Return ``k(x, x)`` for every row from blocks of 64 rows, for kernels without a shortcut."""
    blocks = [points[start : start + DIAGONAL_ROWS] for start in range(0, len(points), DIAGONAL_ROWS)]
    return np.concatenate([np.diagonal(spec(block)) for block in blocks]) if blocks else np.zeros(0)


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
