"""Gaussian, Laplacian and Matern kernels of one width, and Gaussian kernels of one width a feature."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.polynomial import Polynomial
from scipy.spatial.distance import pdist, squareform

from manykernels.discovery.families.base import KernelFamily, PairWeights
from manykernels.exceptions import InvalidInputError
from manykernels.kernels import ArdGaussian, Gaussian, KernelSpec, Laplacian, Matern
from manykernels.kernels.specs.widths import median_distance
from manykernels.validation.arrays import Array

# Which common widths are worth a search: what samples can tell apart.


NARROWEST, NARROW = 0.05, 0.5  # of the median distance: the narrowest width for many samples, and for few
WIDEST = 20.0


def resolved_widths(points: Array) -> tuple[float, float]:
    """Return the narrowest and the widest width for points, in proportion to their median distance.

    Of n points that fill d dimensions, neighbors are about ``n^(-1/d)`` of the median distance from each other. A
    narrower kernel sees every sample by itself, like the identity: the objective on the training samples likes it, and
    new samples do not. Copies of a point count once.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery.families.radial import resolved_widths
    >>> points = np.random.default_rng(0).normal(size=(100, 8))
    >>> low, high = resolved_widths(points)
    >>> 1.5 < low < 2.5, high > 50
    (True, True)
    """
    distinct = np.unique(points, axis=0)
    n_varying = max(1, int(np.sum(np.ptp(distinct, axis=0) > 0)))
    share = float(np.clip(len(distinct) ** (-1.0 / n_varying), NARROWEST, NARROW))
    median = median_distance(distinct)
    return share * median, WIDEST * median


SAFETY = 1.000001  # a factor on derivatives, for the rounding of roots
LARGEST_EXPONENT = 700.0  # beyond it the exponential is zero and polynomials times it would be nan


@dataclass(frozen=True)
class RadialFamily(KernelFamily):
    """Kernels ``p(s) exp(-s)`` with ``s = c / width^power``: a distance ``c`` of each pair and a polynomial ``p``.

    By the logarithm ``v`` of the width, ``d/dv [p(s) e^-s] = power s (p - p') e^-s``, again of this form; its fourth
    derivative therefore has a bound that holds for every distance.

    Parameters
    ----------
    low, high : float
        Smallest and largest width, in the unit of the columns.
    """

    power: ClassVar[int] = 1

    @property
    @abstractmethod
    def profile(self) -> Polynomial:
        """The polynomial ``p``."""

    @abstractmethod
    def prepare(self, points: Array) -> Array:
        """Return ``c`` of every pair of points, in the order of ``pdist``."""

    def gram(self, prepared: Array, parameter: Array) -> Array:
        """Return the Gram matrix of one width."""
        s = self._exponents(prepared, parameter)
        gram = squareform(self.profile(s) * np.exp(-s), checks=False)
        np.fill_diagonal(gram, 1.0)
        return gram

    def inner(self, prepared: Array, parameter: Array, pairs: PairWeights) -> tuple[float, Array]:
        """Return ``<A, K>`` and its derivative by the width."""
        s = self._exponents(prepared, parameter)
        weighted = pairs.triangle * np.exp(-s)
        profile = self.profile
        slope = self.power * Polynomial([0.0, 1.0]) * (profile - profile.deriv())
        value = pairs.trace + (float(weighted.sum()) if profile.degree() == 0 else float(weighted @ profile(s)))
        return value, np.array([float(weighted @ slope(s))]) / parameter

    def fourth_derivative(self, prepared: Array, pairs: PairWeights) -> float:
        """Return ``max_s |d^4/dv^4 p(s) e^-s| sum_{i != j} |A_ij|`` with ``v`` the logarithm of the width."""
        return self.steepness * pairs.magnitude

    def fourth_derivatives(self, prepared: Array, parameters: Array, pairs: PairWeights) -> Array:
        """Return ``sum_{i != j} |A_ij| max_{s <= s_ij} |d^4/dv^4 p(s) e^-s|``: exponents fall as the width grows."""
        sizes, quartic, places = np.abs(pairs.triangle), self._fourth_of_profile(), self._extrema()
        bounds = []
        for parameter in parameters:
            s = self._exponents(prepared, parameter)
            steep = np.abs(quartic(s)) * np.exp(-s)
            for place in places:
                steep = np.where(s >= place, np.maximum(steep, abs(quartic(place)) * np.exp(-place)), steep)
            bounds.append(SAFETY * float(sizes @ steep))
        return np.array(bounds)

    @property
    def steepness(self) -> float:
        """The largest absolute fourth derivative of a kernel value by the logarithm of the width."""
        s = self._extrema()
        return SAFETY * float(np.max(np.abs(self._fourth_of_profile()(s) * np.exp(-s))))

    def _fourth_of_profile(self) -> Polynomial:
        """Return ``q`` with ``d^4/dv^4 p(s) e^-s = q(s) e^-s``."""
        profile = self.profile
        for _ in range(4):
            profile = self.power * Polynomial([0.0, 1.0]) * (profile - profile.deriv())
        return profile

    def _extrema(self) -> Array:
        """Return where ``q(s) e^-s`` has its extrema, ``q' = q``; roots are known to more digits than needed."""
        quartic = self._fourth_of_profile()
        roots = (quartic.deriv() - quartic).roots()
        places: Array = np.abs(roots[np.abs(roots.imag) < 1e-6 * (1 + np.abs(roots))].real)
        return places

    def _exponents(self, prepared: Array, parameter: Array) -> Array:
        return np.minimum(prepared * float(parameter[0]) ** -self.power, LARGEST_EXPONENT)


@dataclass(frozen=True)
class GaussianFamily(RadialFamily):
    """Gaussian kernels ``exp(-||x - z||^2 / (2 width^2))`` of any width in an interval.

    The thesis writes ``exp(-||x - z||^2 / sigma^2)``: its sigma is ``sqrt(2)`` times the width.

    Parameters
    ----------
    low, high : float
        Smallest and largest width.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery import GaussianFamily
    >>> GaussianFamily(0.1, 10.0).value(np.array([[0.0], [2.0]]), 1.0).round(4)
    array([[1.    , 0.1353],
           [0.1353, 1.    ]])
    """

    power: ClassVar[int] = 2

    @property
    def profile(self) -> Polynomial:
        """``1``."""
        return Polynomial([1.0])

    def prepare(self, points: Array) -> Array:
        """Return half the squared distances."""
        return 0.5 * pdist(points, "sqeuclidean")

    def spec(self, parameter: Array) -> KernelSpec:
        """Return ``Gaussian(width)``."""
        return Gaussian(float(parameter[0]))


@dataclass(frozen=True)
class LaplacianFamily(RadialFamily):
    """Laplacian kernels ``exp(-||x - z||_1 / width)`` of any width in an interval.

    Parameters
    ----------
    low, high : float
        Smallest and largest width.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery import LaplacianFamily
    >>> LaplacianFamily(0.1, 10.0).value(np.array([[0.0], [2.0]]), 2.0)[0, 1].round(4)
    np.float64(0.3679)
    """

    @property
    def profile(self) -> Polynomial:
        """``1``."""
        return Polynomial([1.0])

    def prepare(self, points: Array) -> Array:
        """Return the 1-norm distances."""
        return pdist(points, "cityblock")

    def spec(self, parameter: Array) -> KernelSpec:
        """Return ``Laplacian(width)``."""
        return Laplacian(float(parameter[0]))


@dataclass(frozen=True)
class MaternFamily(RadialFamily):
    """Matern kernels of smoothness 1/2, 3/2 or 5/2 of any width in an interval.

    Parameters
    ----------
    low, high : float
        Smallest and largest width.
    nu : {0.5, 1.5, 2.5}, default=1.5
        Smoothness.

    Raises
    ------
    InvalidInputError
        If ``nu`` is another number.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery import MaternFamily
    >>> MaternFamily(0.1, 10.0, nu=0.5).value(np.array([[0.0], [1.0]]), 1.0)[0, 1].round(4)
    np.float64(0.3679)
    """

    nu: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nu not in (0.5, 1.5, 2.5):
            raise InvalidInputError(f"nu must be 0.5, 1.5 or 2.5, got {self.nu!r}.")

    @property
    def profile(self) -> Polynomial:
        """``1``, ``1 + s`` or ``1 + s + s^2/3``."""
        return Polynomial([1.0, 1.0, 1.0 / 3.0][: int(self.nu + 0.5)])

    def prepare(self, points: Array) -> Array:
        """Return ``sqrt(2 nu)`` times the Euclidean distances."""
        return np.sqrt(2.0 * self.nu) * pdist(points)

    def spec(self, parameter: Array) -> KernelSpec:
        """Return ``Matern(width, nu)``."""
        return Matern(float(parameter[0]), self.nu)


@dataclass(frozen=True)
class ArdGaussianFamily(KernelFamily):
    """Gaussian kernels with a width a feature, ``exp(-sum_j (x_j - z_j)^2 / (2 widths_j^2))`` (4.20).

    The derivative by all widths costs one product of an N x N matrix with the points: with ``B = A o K`` (entrywise),
    ``sum_ij B_ij (x_ij - x_kj)^2 = 2 (sum_i B_i. x_ij^2 - x_j' B x_j)``.

    Parameters
    ----------
    low, high : float
        Smallest and largest value of every width.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery import ArdGaussianFamily
    >>> ArdGaussianFamily(0.1, 100.0).value(np.array([[0.0, 0.0], [1.0, 10.0]]), [1.0, 10.0])[0, 1].round(4)
    np.float64(0.3679)
    """

    def n_parameters(self, n_columns: int) -> int:
        """Return the number of columns."""
        return n_columns

    def prepare(self, points: Array) -> Array:
        """Return the points, centered: distances do not change, and their squares lose fewer digits."""
        return np.ascontiguousarray(points - points.mean(axis=0))

    def gram(self, prepared: Array, parameter: Array) -> Array:
        """Return the Gram matrix of one vector of widths."""
        gram = squareform(self._values(prepared, parameter), checks=False)
        np.fill_diagonal(gram, 1.0)
        return gram

    def inner(self, prepared: Array, parameter: Array, pairs: PairWeights) -> tuple[float, Array]:
        """Return ``<A, K>`` and its derivative by every width."""
        weighted = pairs.triangle * self._values(prepared, parameter)
        both = squareform(weighted, checks=False)
        # Every pair was counted twice in the triangle and is twice in the matrix: half of it is A o K.
        squares = both.sum(axis=1) @ prepared**2 - np.einsum("ij,ij->j", prepared, both @ prepared)
        return pairs.trace + float(weighted.sum()), squares / parameter**3

    def spec(self, parameter: Array) -> KernelSpec:
        """Return ``ArdGaussian(widths)``."""
        return ArdGaussian(tuple(float(width) for width in parameter))

    def _values(self, prepared: Array, parameter: Array) -> Array:
        return np.exp(-0.5 * pdist(prepared / parameter, "sqeuclidean"))
