"""Algorithm 3: draw products of base kernels with probability proportional to the size of their gradient."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import comb

import numpy as np

from manykernels.discovery.polynomial.family import PolynomialFamily
from manykernels.discovery.polynomial.generating import Node
from manykernels.discovery.polynomial.product_bases import Index
from manykernels.validation.arrays import Array

Factors = tuple[tuple[int, int], ...]  # base kernels with their levels, in the order of their first places


@dataclass(frozen=True, eq=False)
class InteractionSampler:
    """Draws ordered multi-indices with probability ``a'K_i a / rho_d^2``, divided by the sum over the whole family.

    First the degree, with mass ``delta(d) = rho_d^{-2} a'G_d a``, ``G_d`` the sum over all ordered products of d
    factors; then the first factor j that is not chosen yet, with the mass of all products that have it there; then its
    level a in the whole product, and with equal probability its other ``a - 1`` places. ``G_d`` and the sums over what
    remains come from generating functions, so that a draw costs ``O(D r N^2)`` although there are ``r^D`` products.
    Draws that begin alike share the work, and where there are fewer columns than samples, the last two factors are
    drawn from a table of all pairs.

    Notes
    -----
    Afkanpour (2013), Algorithm 3 and (4.18), whose gradient lacks a factor 1/2. There levels are powers of one kernel,
    and factors are drawn one after the other.
    """

    family: PolynomialFamily
    coefficients: Array

    @cached_property
    def _size(self) -> float:
        return float(np.abs(self.coefficients).max(initial=0.0)) or 1.0

    @cached_property
    def _state(self) -> Array:
        # Squares of very small coefficients would underflow.
        return self.family.base.start(self.coefficients / self._size)

    @cached_property
    def degree_masses(self) -> Array:
        """``delta(d)`` for d = 0..D, (D + 1,)."""
        base = self.family.base
        masses = [base.mass(self._state, moment) for moment in self.family.moments]
        return self._size**2 * self.family.scales * np.array(masses)

    @property
    def gradient_norm(self) -> float:
        """``||grad J||_1`` over the ordered family: half of the sum of ``delta``."""
        return 0.5 * float(self.degree_masses.sum())

    @cached_property
    def _roots(self) -> dict[int, Node]:
        """Nodes at which the draws of a degree begin: the same for all."""
        return {}

    def _root(self, degree: int) -> Node:
        if degree not in self._roots:
            self._roots[degree] = Node(self.family.base, self._state, degree, self.family.cumulants)
        return self._roots[degree]

    def probability(self, index: Index) -> float:
        """Return the probability with which this ordered multi-index is drawn."""
        value, node = float(_share(self.degree_masses)[len(index)]), self._root(len(index))
        for j in dict.fromkeys(index):
            level, masses = index.count(j), node.level_masses(j)
            value *= float(_share(node.first_masses)[j] * _share(masses)[level - 1])
            value /= comb(node.left - 1, level - 1)
            node = node.child(j, level)
        return value

    def draw(self, rng: np.random.Generator) -> Index:
        """Return one ordered multi-index."""
        return self.draws(rng, 1)[0]

    def draws(self, rng: np.random.Generator, count: int) -> list[Index]:
        """Return independent ordered multi-indices, those that begin alike together."""
        indices = []
        for degree, share in _chosen(self.degree_masses, count, rng):
            below = _below(self._root(degree), share, rng) if degree else iter([()] * share)
            indices += [_placed(factors, degree, rng) for factors in below]
        return indices


def _below(node: Node, count: int, rng: np.random.Generator) -> Iterator[Factors]:
    """Draw what follows at a node."""
    if node.left == 0:
        yield from [()] * count
    elif node.left == 2 and node.base.pairs_are_cheap:
        for place, share in _chosen(node.pair_masses().ravel(), count, rng):
            j, k = divmod(place, node.base.n_base)
            yield from [((j, 2),) if j == k else ((j, 1), (k, 1))] * share
    else:
        for j, share in _chosen(node.first_masses, count, rng):
            for at, part in _chosen(node.level_masses(j), share, rng):
                for rest in _below(node.child(j, at + 1), part, rng):
                    yield ((j, at + 1), *rest)


def _placed(factors: Factors, degree: int, rng: np.random.Generator) -> Index:
    """Return an ordered multi-index in which the factors come first in this order, other places drawn."""
    index, free = [-1] * degree, list(range(degree))
    for j, level in factors:
        others = rng.choice(free[1:], level - 1, replace=False) if level > 1 else ()
        for place in (free[0], *map(int, others)):
            index[place] = j
            free.remove(place)
    return tuple(index)


def _share(masses: Array) -> Array:
    total = masses.sum()
    return masses / total if total > 0 else np.full(len(masses), 1.0 / len(masses))


def _chosen(masses: Array, count: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Draw positions by inversion, and return each with how often; one of zero mass is never drawn unless all are."""
    cumulative = np.cumsum(_share(masses))
    places = np.searchsorted(cumulative, rng.random(count) * cumulative[-1], side="right")
    values, counts = np.unique(np.minimum(places, len(masses) - 1), return_counts=True)
    return list(zip(values.tolist(), counts.tolist(), strict=True))
