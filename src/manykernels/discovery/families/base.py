"""Families of kernels with continuous parameters, independent of the search."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import squareform

from manykernels.exceptions import InvalidInputError
from manykernels.kernels import KernelSpec
from manykernels.validation.arrays import (
    Array,
    check_columns,
    check_nonnegative,
    check_parameter_range,
    check_positive,
    check_symmetric_matrix,
    check_vector,
)

# The symmetric weights of pairs of samples against which a search measures kernels: ``<A, K> = sum_ij A_ij K_ij``.


Prepared = TypeVar("Prepared")  # what a family makes of points, once


@dataclass(frozen=True, eq=False)
class PairWeights:
    """A symmetric matrix ``A`` for searches: the triangle, the trace and, for rank 1, the vector.

    Parameters
    ----------
    matrix : ndarray of shape (n_samples, n_samples)
        ``A``, symmetric.
    vector : ndarray of shape (n_samples,), optional
        ``r`` if ``A = r r'``.

    Raises
    ------
    InvalidInputError
        If the matrix is not square, symmetric and finite.

    Examples
    --------
    >>> import numpy as np
    >>> pairs = PairWeights.rank_one(np.array([1.0, -2.0]))
    >>> pairs.trace, pairs.triangle.tolist()
    (5.0, [-4.0])
    """

    matrix: Array
    vector: Array | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", check_symmetric_matrix(self.matrix, "matrix"))

    @classmethod
    def rank_one(cls, vector: Array) -> Self:
        """Return ``A = r r'``, for which ``<A, K> = r'K r``, of a vector ``r`` of shape (n_samples,).

        Examples
        --------
        >>> import numpy as np
        >>> PairWeights.rank_one(np.array([1.0, -2.0])).n_samples
        2
        """
        vector = check_vector(vector, len(vector), "vector")
        return cls(np.outer(vector, vector), vector)

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.matrix)

    @cached_property
    def trace(self) -> float:
        """``sum_i A_ii``."""
        return float(np.trace(self.matrix))

    @cached_property
    def triangle(self) -> Array:
        """``2 A_ij`` for ``i < j`` in the order of ``scipy.spatial.distance.pdist``: every pair once."""
        return 2.0 * squareform(self.matrix, checks=False)

    @cached_property
    def magnitude(self) -> float:
        """``sum_{i != j} |A_ij|``."""
        return float(np.abs(self.triangle).sum())

    def with_kernel(self, gram: Array) -> float:
        """Return ``<A, K>`` of a Gram matrix (n_samples, n_samples).

        Examples
        --------
        >>> import numpy as np
        >>> PairWeights.rank_one(np.array([1.0, -2.0])).with_kernel(np.ones((2, 2)))
        1.0
        """
        return float(np.vdot(self.matrix, gram))


@dataclass(frozen=True)
class KernelFamily(ABC, Generic[Prepared]):
    """Kernels ``k_p`` for parameters ``p`` in a box; differentiable in ``p``.

    A concrete family says what evaluations on the same points share (``prepare``), evaluates a Gram matrix (``gram``)
    and the inner product with pair weights together with the derivative (``inner``), and names a member (``spec``).
    Everywhere below, ``prepared`` is what ``prepare`` returned for some points of shape (n_samples, n_columns),
    ``parameter`` a member, of shape (n_parameters,), and ``pairs`` the weights ``A``.

    Parameters
    ----------
    low, high : float
        Smallest and largest value of every parameter.
    members : tuple of tuple of float, optional
        Parameters of the searched members, from `listed`.

    Raises
    ------
    InvalidInputError
        If the bounds are none, or members are missing or beyond them.

    Examples
    --------
    >>> from manykernels.discovery import GaussianFamily, KernelFamily
    >>> isinstance(GaussianFamily(0.1, 10.0), KernelFamily), GaussianFamily(0.1, 10.0).n_parameters(3)
    (True, 1)
    """

    low: float
    high: float
    members: tuple[tuple[float, ...], ...] | None = field(default=None, kw_only=True, repr=False)

    logarithmic: ClassVar[bool] = True
    """Whether parameters are searched for on a logarithmic scale."""

    def __post_init__(self) -> None:
        check_low = check_positive if self.logarithmic else check_nonnegative
        low, high = check_parameter_range((self.low, self.high), type(self).__name__, check_low)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        if self.members is not None:
            self._check_members(self.members)

    def _check_members(self, members: tuple[tuple[float, ...], ...]) -> None:
        if not members:
            raise InvalidInputError("A finite family needs at least one member; none was given.")
        numbers, slack = [number for member in members for number in member], 1e-9 * abs(self.high)
        outside = [number for number in numbers if not self.low - slack <= number <= self.high + slack]
        if outside:
            raise InvalidInputError(
                f"Members must be between {self.low:g} and {self.high:g}, the bounds of {self!r}, got "
                f"{', '.join(f'{number:g}' for number in outside[:5])}."
            )

    def listed(self, parameters: ArrayLike) -> Self:
        """Return the family of some members only: the finite kernel sets of the literature, searched exactly.

        Parameters
        ----------
        parameters : array-like of shape (n_members,) or (n_members, n_parameters)

        Examples
        --------
        >>> from manykernels.discovery import GaussianFamily
        >>> GaussianFamily(0.1, 10.0).listed([0.5, 1.0]).members
        ((0.5,), (1.0,))
        """
        rows = check_columns(parameters, np.size(parameters, 0) if np.ndim(parameters) else 0, "parameters")
        rows = rows[:, None] if rows.ndim == 1 else rows
        return replace(self, members=tuple(tuple(row) for row in rows.tolist()))

    def n_parameters(self, n_columns: int) -> int:
        """Return the number of parameters of a kernel on so many columns: 1, unless overridden."""
        return 1

    @abstractmethod
    def prepare(self, points: Array) -> Any:
        """Return the shared part of all evaluations on the points, for instance distances, for other methods."""

    @abstractmethod
    def gram(self, prepared: Prepared, parameter: Array) -> Array:
        """Return the Gram matrix (n_samples, n_samples) of a single member, exactly symmetric."""

    @abstractmethod
    def inner(self, prepared: Prepared, parameter: Array, pairs: PairWeights) -> tuple[float, Array]:
        """Return ``<A, K_p>`` and the derivative by the parameters, without a matrix for every parameter.

        Returns
        -------
        value : float
        gradient : ndarray of shape (n_parameters,)
        """

    @abstractmethod
    def spec(self, parameter: Array) -> KernelSpec:
        """Return the member as a kernel of the library.

        Examples
        --------
        >>> from manykernels.discovery import GaussianFamily
        >>> GaussianFamily(0.1, 10.0).spec([0.5])
        Gaussian(width=0.5)
        """

    def inner_many(self, prepared: Prepared, parameters: Array, pairs: PairWeights) -> tuple[Array, Array]:
        """Return values (P,) and derivatives (P, n_parameters) of ``inner`` at several parameters (P, n_parameters)."""
        pairs_of = [self.inner(prepared, parameter, pairs) for parameter in parameters]
        return np.array([value for value, _ in pairs_of]), np.array([gradient for _, gradient in pairs_of])

    def fourth_derivative(self, prepared: Prepared, pairs: PairWeights) -> float | None:
        """Return a bound on the fourth derivative of ``<A, K_p>`` in the search coordinate; None: there is none.

        With it, a grid bounds the maximum over the family (see :func:`bounded_maximum`).
        """
        return None

    def fourth_derivatives(self, prepared: Prepared, parameters: Array, pairs: PairWeights) -> Array:
        """Return bounds (P,) on the fourth derivative that hold from each of several parameters (P, 1) on.

        Parameters grow; the family has one, and ``fourth_derivative``.
        """
        return np.full(len(parameters), self.fourth_derivative(prepared, pairs))

    def resolution(self, prepared: Prepared) -> float:
        """Return the grid distance in the search coordinate that resolves every relevant peak."""
        return (self.coordinate(np.array([self.high])) - self.coordinate(np.array([self.low])))[0] / 60

    def value(self, points: Array, parameter: ArrayLike) -> Array:
        """Return the Gram matrix (n_samples, n_samples) of one member on some points; a number is one parameter."""
        return self.gram(self.prepare(points), np.atleast_1d(np.asarray(parameter, dtype=np.float64)))

    def coordinate(self, parameter: Array) -> Array:
        """Return the parameters on the scale of the search, in the same shape."""
        return np.log(parameter) if self.logarithmic else np.asarray(parameter, dtype=np.float64)

    def parameter(self, coordinate: Array) -> Array:
        """Return parameters from the scale of the search, inside their bounds, in the same shape."""
        inside = np.exp(coordinate) if self.logarithmic else np.asarray(coordinate, dtype=np.float64)
        return np.clip(inside, self.low, self.high)

    def scale(self, parameter: Array) -> Array:
        """Return the derivative of the parameters by their search coordinates, in the same shape."""
        return parameter if self.logarithmic else np.ones_like(parameter)
