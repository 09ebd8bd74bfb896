"""Generating functions of a polynomial family: sums over all products, and over those that begin alike.

Level ``a`` of base kernel j is the kernel ``K_ja`` of its a-th power. The sum over all ordered multi-indices of length
d, ``sum_i prod_j K_{j, a_j(i)}`` with ``a_j(i)`` the count of j in i, is ``d! [t^d] prod_j E_j(t)``,
``E_j(t) = sum_a K_ja t^a / a!``, products entrywise. So, as for moments of independent variables, its *cumulants* add
over base kernels: ``kappa_j1 = K_j1``, ``kappa_j2 = K_j2 - K_j1^2``, ... Where level a is the a-th power of level one,
``E_j`` is an exponential, all cumulants but the first vanish, and the sum is ``(sum_j K_j)^{o d}``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import comb, factorial, prod

import numpy as np

from manykernels.discovery.polynomial.product_bases import Parts, ProductBase
from manykernels.validation.arrays import Array

Series = Sequence[Array | None]
"""Matrices of one order after the other; None stands for zeros, or for ones at order zero of moments."""


@cache
def cumulant_terms(order: int) -> tuple[tuple[float, Parts], ...]:
    """Return the cumulant of an order as a sum of products of levels: coefficients, and the levels of each."""
    counted = _counted_partitions(order)
    return tuple((float((-1) ** (len(parts) - 1) * factorial(len(parts) - 1) * ways), parts) for ways, parts in counted)


@cache
def reciprocal_terms(base_multiplies: bool, order: int) -> tuple[tuple[float, Parts], ...]:
    """Return the coefficient of ``t^order / order!`` in ``1 / E_j`` in the same way."""
    if base_multiplies:
        return ((float((-1) ** order), (1,) * order),)
    counted = _counted_partitions(order)
    return tuple((float((-1) ** len(parts) * factorial(len(parts)) * ways), parts) for ways, parts in counted)


def _counted_partitions(order: int) -> list[tuple[int, Parts]]:
    """Return the sizes of the blocks of partitions of a set, and how many partitions have them."""
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
    """Return the terms of a cumulant for this base; none where it vanishes."""
    return () if base.powers_multiply and order > 1 else cumulant_terms(order)


def total_cumulants(base: ProductBase, degree: int) -> tuple[Array | None, ...]:
    """Return the cumulants summed over all base kernels, orders 1 to ``degree``."""
    orders = range(1, degree + 1)
    return tuple(combined((c, base.total(parts)) for c, parts in terms_of(base, order)) for order in orders)


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
    """All ordered products that begin with some base kernels, each with its level, and have ``left`` more factors."""

    base: ProductBase
    state: Array  # of the factors chosen
    left: int
    # sequence of (N, N) arrays or None: of all base kernels but those chosen before the last one
    cumulants_before: Series
    chosen: tuple[int, ...] = ()  # base kernels that come no more

    @cached_property
    def cumulants(self) -> Series:
        """Cumulants of the base kernels that may still come, as many as completions need."""
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
        """``<M, .>`` of the sum of all completions whose first factor is j, (r,)."""
        masses = np.zeros(self.base.n_base)
        for k in range(1, self.left + 1):
            for coefficient, parts in terms_of(self.base, k):
                share = comb(self.left - 1, k - 1) * coefficient
                masses += share * self.base.masses(self.state, self._moments[self.left - k], parts)
        masses[list(self.chosen)] = 0.0
        return np.maximum(masses, 0.0)

    def level_masses(self, j: int) -> Array:
        """Return the same for one first factor j, by its level in the whole product: 1 to ``left``, (left,).

        The sums over the others are those over all divided by the series of j.
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
        """Return the same for two factors left and every ordered pair (j, k) of them, (r, r)."""
        masses = self.base.pair_masses(self.state, slice(None), 0, (1, 1))
        masses[np.diag_indices_from(masses)] = self.base.masses(self.state, None, (2,))
        chosen = list(self.chosen)
        masses[chosen], masses[:, chosen] = 0.0, 0.0
        return masses

    def child(self, j: int, level: int) -> Node:
        """Return the products in which j comes next and has this level."""
        state = self.base.extend(self.state, j, level)
        return Node(self.base, state, self.left - level, self.cumulants, (*self.chosen, j))
