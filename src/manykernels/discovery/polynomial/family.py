"""The polynomial family: all products of at most D base kernels, permutations of a product merged into a single kernel.

The generating functions give sums over all products, and over those that begin alike. Level ``a`` of base kernel j is
the kernel ``K_ja`` of the a-th power. The sum over all ordered multi-indices of length d, ``sum_i prod_j K_{j,
a_j(i)}`` with ``a_j(i)`` the count of j in i, is ``d! [t^d] prod_j E_j(t)``, ``E_j(t) = sum_a K_ja t^a / a!``, products
entrywise. So, as for moments of independent variables, its *cumulants* add over base kernels: ``kappa_j1 = K_j1``,
``kappa_j2 = K_j2 - K_j1^2``, ... Where level a is the a-th power of level one, ``E_j`` is an exponential, all cumulants
but the first vanish, and the sum is ``(sum_j K_j)^{o d}``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from math import comb, factorial, prod

import numpy as np
from numpy.typing import ArrayLike

from manykernels.discovery.polynomial.product_bases import Index, Parts, ProductBase
from manykernels.exceptions import InvalidInputError
from manykernels.objective.regularizers.weight_sets import LpBall, Simplex, WeightSet
from manykernels.validation.arrays import Array, check_count, check_positive, check_positive_vector

Series = Sequence[Array | None]
"""Matrices of one order after the other; None stands for zeros, or for ones at order zero of moments."""


@cache
def cumulant_terms(order: int) -> tuple[tuple[float, Parts], ...]:
    """Return the cumulant of an order as a sum of products of levels: coefficients, and the levels of every."""
    counted = _count_partitions(order)
    return tuple((float((-1) ** (len(parts) - 1) * factorial(len(parts) - 1) * ways), parts) for ways, parts in counted)


@cache
def reciprocal_terms(base_multiplies: bool, order: int) -> tuple[tuple[float, Parts], ...]:
    """Return the coefficient of ``t^order / order!`` in ``1 / E_j`` in the same way."""
    if base_multiplies:
        return ((float((-1) ** order), (1,) * order),)
    counted = _count_partitions(order)
    return tuple((float((-1) ** len(parts) * factorial(len(parts)) * ways), parts) for ways, parts in counted)


def _count_partitions(order: int) -> list[tuple[int, Parts]]:
    """Return the block sizes of partitions of a set, with counts."""
    partitions = []
    for parts in _partitions(order, order):
        same = prod(factorial(count) for count in Counter(parts).values())
        partitions.append((factorial(order) // (prod(factorial(part) for part in parts) * same), parts))
    return partitions


def _partitions(total: int, largest: int) -> Iterator[Parts]:
    if total == 0:
        yield ()
    for first in range(min(total, largest), 0, -1):
        for rest in _partitions(total - first, first):
            yield (first, *rest)


def terms_of(base: ProductBase, order: int) -> tuple[tuple[float, Parts], ...]:
    """Return the terms of a cumulant for the base; empty for a zero cumulant."""
    return () if base.powers_multiply and order > 1 else cumulant_terms(order)


def combined(terms: Iterator[tuple[float, Array]]) -> Array | None:
    """Return a weighted sum of matrices, None without any."""
    total = None
    for coefficient, matrix in terms:
        total = coefficient * matrix if total is None else total + coefficient * matrix
    return total


def moments(cumulants: Series, highest: int) -> tuple[Array | None, ...]:
    """Return the sums over ordered products of 0 to ``highest`` factors; the first is None, all ones."""
    values: list[Array | None] = [None]
    for n in range(1, highest + 1):
        total = np.zeros(())
        for k in range(1, n + 1):
            cumulant, moment = cumulants[k - 1], values[n - k]
            if cumulant is not None:
                term = comb(n - 1, k - 1) * cumulant
                total = total + (term if moment is None else term * moment)
        values.append(total)
    return tuple(values)


@dataclass(frozen=True, eq=False)
class Node:
    """All ordered products with a common prefix of base kernels and levels, and ``left`` more factors."""

    base: ProductBase
    state: Array  # of the factors chosen
    left: int
    # sequence of (N, N) arrays or None: of all base kernels but those chosen before the last one
    cumulants_before: Series
    chosen: tuple[int, ...] = ()  # base kernels that come no more

    @cached_property
    def cumulants(self) -> Series:
        """Cumulants of the remaining base kernels, as needed by completions."""
        needed = self.cumulants_before[: self.left]
        if not self.chosen:
            return needed
        rest: list[Array | None] = []
        for k, cumulant in enumerate(needed, start=1):
            own = combined((c, self.base.gram(self.chosen[-1], parts)) for c, parts in terms_of(self.base, k))
            rest.append(cumulant if cumulant is None or own is None else cumulant - own)
        return rest

    @cached_property
    def _moments(self) -> tuple[Array | None, ...]:
        return moments(self.cumulants, self.left - 1) if self.left > 1 else (None,)

    @cached_property
    def first_masses(self) -> Array:
        """``<M, .>`` of the sum of all completions with first factor j, (r,)."""
        masses = np.zeros(self.base.n_base)
        for k in range(1, self.left + 1):
            for coefficient, parts in terms_of(self.base, k):
                share = comb(self.left - 1, k - 1) * coefficient
                masses += share * self.base.masses(self.state, self._moments[self.left - k], parts)
        masses[list(self.chosen)] = 0.0
        return np.maximum(masses, 0.0)

    def level_masses(self, j: int) -> Array:
        """Return the same for one first factor j, by the level in the whole product: 1 to ``left``, (left,).

        The sums over the rest are those over all divided by the series of j.
        """
        masses = np.zeros(self.left)
        for level in range(1, self.left + 1):
            state, rest = self.base.extend(self.state, j, level), self.left - level
            for k in range(rest + 1):
                for coefficient, parts in reciprocal_terms(self.base.powers_multiply, k):
                    mass = self.base.mass(self.base.multiply(state, j, parts), self._moments[rest - k])
                    masses[level - 1] += comb(rest, k) * coefficient * mass
            masses[level - 1] *= comb(self.left - 1, level - 1)
        return np.maximum(masses, 0.0)

    def pair_masses(self) -> Array:
        """Return the masses for two remaining factors and every ordered pair (j, k), (r, r)."""
        masses = self.base.pair_masses(self.state, slice(None), 0, (1, 1))
        masses[np.diag_indices_from(masses)] = self.base.masses(self.state, None, (2,))
        chosen = list(self.chosen)
        masses[chosen], masses[:, chosen] = 0.0, 0.0
        return masses

    def child(self, j: int, level: int) -> Node:
        """Return the products with j at a level as the next factor."""
        state = self.base.extend(self.state, j, level)
        return Node(self.base, state, self.left - level, self.cumulants, (*self.chosen, j))


@lru_cache(maxsize=2**16)
def multiplicity(index: Index) -> int:
    """Return how many ordered multi-indices have the same product, ``d! / prod_j (count of j)!``."""
    return factorial(len(index)) // prod(factorial(count) for count in Counter(index).values())


@dataclass(frozen=True, eq=False)
class PolynomialFamily:
    """Kernels ``K_{j1} o ... o K_{jd}`` for ``0 <= d <= D`` with weights in ``{theta >= 0, ||theta||_p <= 1}``.

    The set is over *ordered* multi-indices, as in the source. The ``c`` permutations of a product are the same kernel,
    so at the optimum they share the weight ``Theta`` equally, ``theta = Theta / c``, and ``sum theta^p`` of them is
    ``c^{1-p} Theta^p``. In ``theta' = c^{-(p-1)/p} Theta`` the set is the lp ball again, over distinct kernels, and the
    penalty of a kernel is ``w = rho_d c^{-(p-1)/(2p)}``: the same optimum with a variable per distinct kernel.

    Notes
    -----
    Afkanpour (2013), section 4.2.1 and problem (2.9).
    """

    base: ProductBase
    degree: int
    degree_penalties: Array
    p: float = 2.0

    @classmethod
    def create(
        cls, base: ProductBase, degree: int, degree_penalties: ArrayLike | None = None, p: float = 2.0
    ) -> PolynomialFamily:
        """Return the family with checked parameters; penalties are 1 by default."""
        largest_degree = 8
        degree = check_count(degree, "degree", most=largest_degree)
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
        """``rho_d^{-2}`` times the unit of the base to the power d: multipliers of scaled masses, (D + 1,)."""
        with np.errstate(over="ignore", under="ignore"):
            return np.float64(self.base.unit) ** np.arange(self.degree + 1) / self.degree_penalties**2

    @cached_property
    def cumulants(self) -> tuple[Array | None, ...]:
        """Cumulants of all base kernels, orders 1 to D, scaled; None for zero."""
        orders = range(1, self.degree + 1)
        return tuple(
            combined((c, self.base.total(parts)) for c, parts in terms_of(self.base, order)) for order in orders
        )

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
        """Return the weight set of the distinct kernels; the simplex for ``p = 1``, for a wider choice of solvers."""
        return Simplex(strength) if self.p == 1 else LpBall(strength, p=self.p)
