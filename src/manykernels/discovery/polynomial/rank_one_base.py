"""Base kernels of rank one, linear kernels of single columns: a state is one vector, and a level a power of columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from manykernels.discovery.polynomial.product_bases import (
    ONE,
    ColumnPowers,
    Index,
    Levels,
    Parts,
    ProductBase,
    exponent_of,
    finite_products,
    power_of_two,
    with_levels,
)
from manykernels.grams import GramStack, RankOneStack
from manykernels.kernels.specs.interaction import Part
from manykernels.validation.arrays import Array


class RankOneBase(ProductBase):
    """Base kernels ``K_j = x_j x_j'``: linear kernels of single columns, whose levels are powers of the columns.

    Scores and sums are computed in ``precision``; features are float64 always.
    """

    def __init__(self, features: Array, normalize: str | None = None, precision: DTypeLike = np.float64) -> None:
        self.n_base, self.n_samples = features.shape
        # What is normalized is of the order of one, and at most the root of N.
        exponent = 0 if normalize else exponent_of(float(np.abs(features).max(initial=0.0)))
        self.unit, self.powers_multiply = power_of_two(2 * exponent), normalize is None
        self._features, self._exponent, self.normalize = features, exponent, normalize
        self.powers = ColumnPowers.of(features, normalize) if normalize else None
        self._scaled, self._precision = np.ldexp(features, -exponent), precision
        self._levels: dict[int, Array] = {}
        self._products: dict[Parts, Array] = {}

    @property
    def state_size(self) -> int:
        """N."""
        return self.n_samples

    @property
    def pairs_are_cheap(self) -> bool:
        """Whether there are fewer columns than samples."""
        return self.n_base < self.n_samples

    @property
    def columns(self) -> Array:
        """The columns as they were given, (r, N)."""
        return self._features

    def level(self, level: int) -> Array:
        """Return the features of a level, scaled, (r, N)."""
        return self.product((level,))

    def product(self, parts: Parts) -> Array:
        """Return products of the features of some levels of each column, scaled, (r, N); kept."""
        if parts not in self._products:
            if len(parts) > 1:
                found = self.product(parts[:-1]) * self.product(parts[-1:])
            else:
                found = self._scaled ** parts[0] if self.powers is None else self._normalized(parts[0])
            self._products[parts] = found.astype(self._precision, copy=False)
        return self._products[parts]

    def _normalized(self, level: int) -> Array:
        """Return a level of the columns as they were given, normalized, in float64; kept."""
        assert self.powers is not None
        if level not in self._levels:
            self._levels[level] = self.powers.level(level)
        return self._levels[level]

    def total(self, parts: Parts) -> Array:
        """``V'V`` for the products ``V``."""
        product = self.product(parts)
        return product.T @ product

    def gram(self, j: int, parts: Parts) -> Array:
        """``v v'``."""
        return np.multiply.outer(self.product(parts)[j], self.product(parts)[j])

    def start(self, a: Array) -> Array:
        """Return ``a``."""
        return a.astype(self._precision, copy=False)

    def multiply(self, state: Array, j: int, parts: Parts) -> Array:
        """Return ``m o v_j``."""
        return state * self.product(parts)[j] if parts else state

    def mass(self, state: Array, power: Array | None) -> float:
        """``m'P m``, or ``(sum m)^2``."""
        return float(state.sum()) ** 2 if power is None else max(float(state @ power @ state), 0.0)

    def masses(self, state: Array, power: Array | None, parts: Parts = ONE) -> Array:
        """``(m o v_j)'P (m o v_j)``."""
        if power is None:
            return (self.product(parts) @ state) ** 2
        weighted = self.product(parts) * state
        return np.maximum(np.einsum("jn,jn->j", weighted @ power, weighted), 0.0)

    def pair_masses(self, state: Array, rows: slice, first: int, levels: Levels) -> Array:
        """``(m'(x_j^a o x_k^b))^2``."""
        scores = (self.level(levels[0])[rows] * state) @ self.level(levels[1])[first:].T
        return np.square(scores, out=scores)

    def tail_masses(self, states: Array, rows: Array, cols: Array, levels: Levels) -> Array:
        """``(m'(x_j^a o x_k^b))^2``."""
        scores: Array = states @ (self.level(levels[0])[rows] * self.level(levels[1])[cols]).T
        return np.square(scores, out=scores)

    def pair_vectors(self, rows: Array, cols: Array, parts: Parts) -> Array:
        """``v_j[rows] v_j[cols]``."""
        return self.product(parts)[:, rows] * self.product(parts)[:, cols]

    def pair_weights(self, state: Array, rows: Array, cols: Array) -> Array:
        """``m[rows] m[cols]``, doubled off the diagonal."""
        return state[rows] * state[cols] * np.where(rows == cols, 1.0, 2.0)

    def features(self, indices: Sequence[Index]) -> Array:
        """Return the products ``prod_j x_j^{a_j}`` of the levels, (m, N); they may overflow."""
        return self.features_of(self._features, indices)

    def features_of(self, values: Array, indices: Sequence[Index]) -> Array:
        """Return the same of other values of the columns, (r, n), normalized by the training samples."""
        found = np.ones((len(indices), values.shape[1]))
        levels: dict[int, Array] = {}
        with np.errstate(over="ignore", under="ignore"):
            for product, index in zip(found, indices, strict=True):
                for j, level in with_levels(index):
                    if level not in levels:
                        levels[level] = self._level_of(values, level)
                    product *= levels[level][j]
        return found

    def _level_of(self, values: Array, level: int) -> Array:
        """Return a level of other values, not scaled."""
        if self.powers is None:
            return values**level
        return self._normalized(level) if values is self._features else self.powers.level(level, values)

    def stack(self, indices: Sequence[Index]) -> GramStack:
        """Return the rank-one kernels of the monomials."""
        return RankOneStack(finite_products(self.features(indices)))

    def factors(self, index: Index, parts: Sequence[Part]) -> tuple[Sequence[Part], float]:
        """Return the columns, or their powers if they are normalized."""
        if self.powers is None:
            return [parts[j] for j in index], 1.0
        return [(self.powers.spec(j, level), parts[j][1]) for j, level in with_levels(index)], 1.0
