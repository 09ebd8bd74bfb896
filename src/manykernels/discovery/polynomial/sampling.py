"""Algorithm 3: draw a product of base kernels with probability proportional to the size of its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from manykernels.discovery.polynomial.family import PolynomialFamily
from manykernels.discovery.polynomial.product_bases import Index
from manykernels.validation.arrays import Array


@dataclass(frozen=True, eq=False)
class InteractionSampler:
    """Draws ordered multi-indices with probability ``a'K_i a / rho_d^2``, divided by the sum over the whole family.

    First the degree, with mass ``delta(d) = rho_d^{-2} a'S^{o d} a`` and ``S = sum_j K_j``; then one index after the
    other, ``j`` with mass ``<M o S^{o (d-i)}, K_j>``, ``M = (a a') o K_{z1} o ... o K_{z(i-1)}``. A draw costs
    ``O(D r N^2)`` although there are ``r^D`` products.

    Notes
    -----
    Afkanpour (2013), Algorithm 3 and (4.18), whose gradient lacks a factor 1/2.
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
        masses = [base.mass(self._state, power) for power in self.family.powers]
        return self._size**2 * self.family.scales * np.array(masses)

    @property
    def gradient_norm(self) -> float:
        """``||grad J||_1`` over the ordered family: half of the sum of ``delta``."""
        return 0.5 * float(self.degree_masses.sum())

    @cached_property
    def _first_masses(self) -> dict[int, Array]:
        """Masses of the first index by degree: the same for all draws."""
        return {}

    def masses(self, degree: int, chosen: Index) -> Array:
        """Masses of the next index of a product of ``degree`` factors after the chosen ones, (r,), up to a factor."""
        if not chosen:
            if degree not in self._first_masses:
                power = self.family.powers[degree - 1]
                self._first_masses[degree] = self.family.base.masses(self._state, power)
            return self._first_masses[degree]
        state = self._state
        for j in chosen:
            state = self.family.base.extend(state, j)
        return self.family.base.masses(state, self.family.powers[degree - len(chosen) - 1])

    def probability(self, index: Index) -> float:
        """Return the probability with which this ordered multi-index is drawn."""
        value = _share(self.degree_masses)[len(index)]
        for i in range(len(index)):
            value *= _share(self.masses(len(index), index[:i]))[index[i]]
        return float(value)

    def draw(self, rng: np.random.Generator) -> Index:
        """Return one ordered multi-index."""
        degree = _choose(self.degree_masses, rng)
        chosen: Index = ()
        for _ in range(degree):
            chosen = (*chosen, _choose(self.masses(degree, chosen), rng))
        return chosen


def _share(masses: Array) -> Array:
    total = masses.sum()
    return masses / total if total > 0 else np.full(len(masses), 1.0 / len(masses))


def _choose(masses: Array, rng: np.random.Generator) -> int:
    """Draw a position by inversion; one of zero mass is never drawn unless all are."""
    cumulative = np.cumsum(_share(masses))
    return min(int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")), len(masses) - 1)
