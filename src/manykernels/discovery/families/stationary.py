"""Gaussian, Laplacian and Matern kernels of one width, Gaussian kernels of a width a feature, and Dirichlet kernels."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
from numpy.polynomial import Polynomial
from scipy.spatial.distance import pdist, squareform

from manykernels.discovery.families.base import KernelFamily, PairWeights
from manykernels.exceptions import InvalidInputError
from manykernels.kernels import ArdGaussian, Dirichlet, Gaussian, KernelSpec, Laplacian, Matern
from manykernels.kernels.specs.distances import median_distance
from manykernels.validation.arrays import Array, check_count

# Which common widths are worth a search: what samples can tell apart.


def resolved_widths(points: Array) -> tuple[float, float]:
    """Return the narrowest and the widest width for points, in proportion to their median distance.

    Of n points that fill d dimensions, neighbors are about ``n^(-1/d)`` of the median distance from each other. A
    narrower kernel sees every sample by itself, like the identity: the objective on the training samples likes it, and
    new samples do not. Copies of a point count once.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery.families.stationary import resolved_widths
    >>> points = np.random.default_rng(0).normal(size=(100, 8))
    >>> low, high = resolved_widths(points)
    >>> 1.5 < low < 2.5, high > 50
    (True, True)
    """
    distinct = np.unique(points, axis=0)
    n_varying = max(1, int(np.sum(np.ptp(distinct, axis=0) > 0)))
    narrowest, narrow = 0.05, 0.5  # of the median distance: the narrowest width for many samples, and for few
    share = float(np.clip(len(distinct) ** (-1.0 / n_varying), narrowest, narrow))
    median = median_distance(distinct)
    widest = 20.0
    return share * median, widest * median


SAFETY = 1.000001  # a factor on derivatives, for the rounding of roots


@cache
def _polynomial(*coefficients: float) -> Polynomial:
    """Return a polynomial, cached for speed."""
    return Polynomial(coefficients)


@cache
def _slope(power: int, coefficients: tuple[float, ...]) -> Polynomial:
    """Return ``power s (p - p')`` for the polynomial ``p`` with the coefficients."""
    profile = Polynomial(coefficients)
    return power * Polynomial([0.0, 1.0]) * (profile - profile.deriv())


@dataclass(frozen=True)
class RadialFamily(KernelFamily[Array]):
    """Kernels ``p(s) exp(-s)`` with ``s = c / width^power``: a distance ``c`` of every pair and a polynomial ``p``.

    By the logarithm ``v`` of the width, ``d/dv [p(s) e^-s] = power s (p - p') e^-s``, again of the form; the fourth
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
        s = self._exponents(prepared, parameter)
        gram = squareform(self.profile(s) * np.exp(-s), checks=False)
        np.fill_diagonal(gram, 1.0)
        return gram

    def inner(self, prepared: Array, parameter: Array, pairs: PairWeights) -> tuple[float, Array]:
        s = self._exponents(prepared, parameter)
        weighted = pairs.triangle * np.exp(-s)
        profile = self.profile
        slope = _slope(self.power, tuple(profile.coef.tolist()))
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
            profile = _slope(self.power, tuple(profile.coef.tolist()))
        return profile

    def _extrema(self) -> Array:
        """Return where ``q(s) e^-s`` has the extrema, ``q' = q``; roots are known to more digits than needed."""
        quartic = self._fourth_of_profile()
        roots = (quartic.deriv() - quartic).roots()
        places: Array = np.abs(roots[np.abs(roots.imag) < 1e-6 * (1 + np.abs(roots))].real)
        return places

    def _exponents(self, prepared: Array, parameter: Array) -> Array:
        largest_exponent = 700.0  # beyond it the exponential is zero and polynomials times it would be nan
        return np.minimum(prepared * float(parameter[0]) ** -self.power, largest_exponent)


@dataclass(frozen=True)
class GaussianFamily(RadialFamily):
    """Gaussian kernels ``exp(-||x - z||^2 / (2 width^2))`` of any width in an interval.

    The thesis writes ``exp(-||x - z||^2 / sigma^2)``: the sigma is ``sqrt(2)`` times the width.

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
        return _polynomial(1.0)

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
        return _polynomial(1.0)

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
        return _polynomial(*(1.0, 1.0, 1.0 / 3.0)[: int(self.nu + 0.5)])

    def prepare(self, points: Array) -> Array:
        """Return ``sqrt(2 nu)`` times the Euclidean distances."""
        return np.sqrt(2.0 * self.nu) * pdist(points)

    def spec(self, parameter: Array) -> KernelSpec:
        """Return ``Matern(width, nu)``."""
        return Matern(float(parameter[0]), self.nu)


@dataclass(frozen=True)
class ArdGaussianFamily(KernelFamily[Array]):
    """Gaussian kernels with a width a feature, ``exp(-sum_j (x_j - z_j)^2 / (2 widths_j^2))`` (4.20).

    The derivative by all widths costs a single product of an N x N matrix with the points: with ``B = A o K``
    (entrywise), ``sum_ij B_ij (x_ij - x_kj)^2 = 2 (sum_i B_i. x_ij^2 - x_j' B x_j)``.

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
        return n_columns

    def prepare(self, points: Array) -> Array:
        """Return the points, centered: distances do not change, and their squares lose fewer digits."""
        return np.ascontiguousarray(points - points.mean(axis=0))

    def gram(self, prepared: Array, parameter: Array) -> Array:
        gram = squareform(self._values(prepared, parameter), checks=False)
        np.fill_diagonal(gram, 1.0)
        return gram

    def inner(self, prepared: Array, parameter: Array, pairs: PairWeights) -> tuple[float, Array]:
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


@dataclass(frozen=True)
class DirichletFamily(KernelFamily[Array]):
    """Dirichlet kernels ``prod_j (1 + 2 sum_{k <= degree} cos(k frequency (x_j - z_j)))`` of any frequency.

    On a single column the kernel is a product of ``1 + 2 degree`` features, ``1, sqrt(2) cos(k f x), sqrt(2) sin(k f
    x)``, through which a search over thousands of frequencies costs a single product of matrices.

    Parameters
    ----------
    low, high : float
        Smallest (possibly 0) and largest frequency, in radians per unit of the columns.
    degree : int, default=1
        Number of harmonics.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery import DirichletFamily
    >>> DirichletFamily(0.0, 20.0).value(np.array([[0.0], [np.pi]]), 1.0).round(4)
    array([[ 3., -1.],
           [-1.,  3.]])
    """

    degree: int = 1

    logarithmic: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "degree", check_count(self.degree, "degree"))

    def prepare(self, points: Array) -> Array:
        """Return the points, centered: only differences count."""
        return np.ascontiguousarray(points - points.mean(axis=0))

    def gram(self, prepared: Array, parameter: Array) -> Array:
        return self.spec(parameter)(prepared)

    def spec(self, parameter: Array) -> KernelSpec:
        """Return ``Dirichlet(degree, frequency)``."""
        return Dirichlet(self.degree, float(parameter[0]))

    def inner(self, prepared: Array, parameter: Array, pairs: PairWeights) -> tuple[float, Array]:
        if prepared.shape[1] == 1:
            values, slopes = self._feature_values(prepared[:, 0], parameter, pairs)
            return float(values[0]), slopes
        value, slope = self._gram_of_columns(prepared, float(parameter[0]))
        return pairs.with_kernel(value), np.array([pairs.with_kernel(slope)])

    def inner_many(self, prepared: Array, parameters: Array, pairs: PairWeights) -> tuple[Array, Array]:
        if prepared.shape[1] > 1:
            return super().inner_many(prepared, parameters, pairs)
        block_entries = 2**22  # float64 values of features held at once
        step = max(1, block_entries // (2 * self.degree * len(prepared)))
        parts = [
            self._feature_values(prepared[:, 0], parameters[at : at + step, 0], pairs)
            for at in range(0, len(parameters), step)
        ]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])[:, None]

    def fourth_derivative(self, prepared: Array, pairs: PairWeights) -> float | None:
        """Return ``2 sum_k k^4 sum_ij |A_ij| (x_i - x_j)^4`` on a single column; on more there is no bound."""
        if prepared.shape[1] > 1:
            return None
        x = prepared[:, 0]
        # (x_i - x_j)^4 <= 8 (x_i^4 + x_j^4) would be cheaper and five times larger.
        powers = np.abs(pairs.matrix) * (x[:, None] - x) ** 4
        return 2.0 * float(powers.sum()) * sum(k**4 for k in range(1, self.degree + 1))

    def resolution(self, prepared: Array) -> float:
        """Return a twelfth of the shortest period: ``<A, K>`` holds no frequency above degree times the span."""
        span = float(np.max(np.ptp(prepared, axis=0)))
        whole = self.high - self.low
        return whole if span == 0 else min(whole / 60, 2 * np.pi / (12 * self.degree * span))

    def _feature_values(self, x: Array, frequencies: Array, pairs: PairWeights) -> tuple[Array, Array]:
        """Return values and slopes (F,) from the features of every frequency."""
        angles = np.multiply.outer(x, np.multiply.outer(frequencies, np.arange(1, self.degree + 1)))
        cosines, sines = np.cos(angles), np.sin(angles)
        speeds = x[:, None, None] * np.arange(1, self.degree + 1)
        values = np.full(len(frequencies), float(pairs.matrix.sum()))
        slopes = np.zeros(len(frequencies))
        for feature, change in ((cosines, -speeds * sines), (sines, speeds * cosines)):
            if pairs.vector is not None:
                ours, theirs = (np.tensordot(pairs.vector, part, 1) for part in (feature, change))
                values += 2.0 * np.sum(ours**2, axis=1)
                slopes += 4.0 * np.sum(ours * theirs, axis=1)
            else:
                image = np.tensordot(pairs.matrix, feature, 1)
                values += 2.0 * np.einsum("nfk,nfk->f", feature, image)
                slopes += 4.0 * np.einsum("nfk,nfk->f", change, image)
        return values, slopes

    def _gram_of_columns(self, points: Array, frequency: float) -> tuple[Array, Array]:
        """Return the Gram matrix and the derivative, column after column by the product rule."""
        value, slope = np.ones((len(points), len(points))), np.zeros((len(points), len(points)))
        for x in points.T:
            gaps = np.abs(x[:, None] - x)
            factor, change = np.ones_like(gaps), np.zeros_like(gaps)
            for k in range(1, self.degree + 1):
                factor += 2.0 * np.cos(k * frequency * gaps)
                change -= 2.0 * k * gaps * np.sin(k * frequency * gaps)
            slope = slope * factor + value * change
            value = value * factor
        return value, slope
