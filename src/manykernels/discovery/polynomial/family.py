"""The polynomial family: all products of at most D base kernels, permutations of a product merged into one kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import comb, factorial, prod

import numpy as np
from numpy.typing import ArrayLike

from manykernels.discovery.polynomial.generating import moments, total_cumulants
from manykernels.discovery.polynomial.product_bases import Index, ProductBase
from manykernels.exceptions import InvalidInputError
from manykernels.objective.regularizers.weight_sets import LpBall, Simplex, WeightSet
from manykernels.validation.arrays import Array, check_count, check_positive, check_positive_vector

LARGEST_DEGREE = 8


@lru_cache(maxsize=2**16)
def multiplicity(index: Index) -> int:
    """Return how many ordered multi-indices have the same product, ``d! / prod_j (count of j)!``."""
    return factorial(len(index)) // prod(factorial(count) for count in Counter(index).values())


@dataclass(frozen=True, eq=False)
class PolynomialFamily:
    """Kernels ``K_{j1} o ... o K_{jd}`` for ``0 <= d <= D`` with weights in ``{theta >= 0, ||theta||_p <= 1}``.

    The set is over *ordered* multi-indices, as in the source. The ``c`` permutations of a product are the same kernel,
    so at the optimum they share its weight ``Theta`` equally, ``theta = Theta / c``, and ``sum theta^p`` of them is
    ``c^{1-p} Theta^p``. In ``theta' = c^{-(p-1)/p} Theta`` the set is the lp ball again, over distinct kernels, and
    the penalty of a kernel is ``w = rho_d c^{-(p-1)/(2p)}``: the same optimum with one variable a distinct kernel.

    Notes
    -----
    Afkanpour (2013), section 4.2.1 and problem (2.9).
    """

    base: ProductBase
    degree: int
    degree_penalties: Array
    p: float = 2.0

    @classmethod
    def of(
        cls, base: ProductBase, degree: int, degree_penalties: ArrayLike | None = None, p: float = 2.0
    ) -> PolynomialFamily:
        """Return the family, its parameters checked; penalties are one by default."""
        degree = check_count(degree, "degree")
        if degree > LARGEST_DEGREE:
            raise InvalidInputError(f"degree must be at most {LARGEST_DEGREE}, got {degree}.")
        if check_positive(p, "p") < 1:
            raise InvalidInputError(f"p must be at least 1, got {p!r}: below 1 the penalty is not convex.")
        rho = np.ones(degree + 1) if degree_penalties is None else degree_penalties
        rho = check_positive_vector(rho, degree + 1, "degree_penalties")
        family = cls(base, degree, rho, float(p))
        if not np.all(np.isfinite(family.scales)) or not np.all(family.scales > 0):
            raise InvalidInputError(
                f"Products of {degree} base kernels leave the range of float64: the largest entry of a base kernel is "
                f"about {base.unit:.1g}. Standardize the columns (standardize=True)."
            )
        return family

    @cached_property
    def scales(self) -> Array:
        """``rho_d^{-2}`` times the unit of the base to the power d: what scaled masses are multiplied by, (D + 1,)."""
        with np.errstate(over="ignore", under="ignore"):
            return np.float64(self.base.unit) ** np.arange(self.degree + 1) / self.degree_penalties**2

    @cached_property
    def cumulants(self) -> tuple[Array | None, ...]:
        """Cumulants of all base kernels, orders 1 to D, scaled; None where they vanish."""
        return total_cumulants(self.base, self.degree)

    @cached_property
    def moments(self) -> tuple[Array | None, ...]:
        """Sums over all ordered products of 0 to D factors, scaled; the first is None, the matrix of ones."""
        return moments(self.cumulants, self.degree)

    @property
    def conjugate_exponent(self) -> float:
        """``q = p / (p - 1)``, infinite for ``p = 1``."""
        return np.inf if self.p == 1 else self.p / (self.p - 1.0)

    @property
    def n_ordered(self) -> int:
        """Number of ordered multi-indices, ``sum_d r^d``."""
        return sum(self.base.n_base**d for d in range(self.degree + 1))

    @property
    def n_kernels(self) -> int:
        """Number of distinct kernels, ``C(r + D, D)``."""
        return comb(self.base.n_base + self.degree, self.degree)

    def penalty(self, index: Index) -> float:
        """``w = rho_d c^{-(p-1)/(2p)}`` of a distinct kernel."""
        return float(self.degree_penalties[len(index)] * multiplicity(index) ** ((1.0 - self.p) / (2.0 * self.p)))

    def penalties(self, indices: Sequence[Index]) -> Array:
        """Penalties of some distinct kernels, (m,)."""
        return np.array([self.penalty(index) for index in indices])

    def regularizer(self, strength: float) -> WeightSet:
        """Return the weight set of the distinct kernels; the simplex for ``p = 1``, which more solvers know."""
        return Simplex(strength) if self.p == 1 else LpBall(strength, p=self.p)
