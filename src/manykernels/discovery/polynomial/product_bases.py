"""Base kernels with entrywise products as a polynomial family: the common interface.

Everything that an algorithm needs is a number ``<M o P, K_ja>`` for the state ``M = (a a') o K_{j1,a1} o ...`` of a
partly chosen product. For base kernels ``K_j = x_j x_j'`` the state is a single vector, ``m = a o x_{j1}^{a1} o ...``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import prod

import numpy as np
from numpy.typing import DTypeLike

from manykernels.exceptions import InvalidInputError, MemoryBudgetError
from manykernels.grams import DenseStack, GramStack, RankOneStack
from manykernels.kernels import ColumnPower
from manykernels.kernels.specs.interaction import Part
from manykernels.validation.arrays import Array

# How powers of base kernels are normalized: each by its own scale, so that products of them are again products.


NORMALIZATIONS = ("power", "centered", None)


def check_normalize(normalize: object) -> str | None:
    """Return the normalization of powers, or raise ``InvalidInputError``."""
    if normalize is not None and (not isinstance(normalize, str) or normalize not in NORMALIZATIONS):
        raise InvalidInputError(f"normalize must be 'power', 'centered' or None, got {normalize!r}.")
    return normalize


@dataclass(frozen=True, eq=False)
class ColumnPowers:
    """Powers of columns, ``((x/u)^a - c) / s``.

    u is the root mean square of the column, s of ``(x/u)^a - c``, or 1 for a constant.
    """

    units: Array  # (r,) float64
    centered: bool  # whether c is the mean of (x/u)^a; else it is zero
    features: Array  # (r, N) float64: what means are taken over

    @classmethod
    def compute(cls, features: Array, normalize: str) -> ColumnPowers:
        """Return the powers of columns in rows."""
        largest = np.abs(features).max(axis=1, initial=0.0)
        largest[largest == 0] = 1.0
        units = largest * np.sqrt(np.mean((features / largest[:, None]) ** 2, axis=1))
        return cls(np.where(units > 0, units, 1.0), normalize == "centered", features)

    def scales(self, level: int) -> tuple[Array, Array]:
        """Return centers and scales of a level, (r,) each, cached."""
        if level not in self._cache:
            self._cache[level] = self._measured(level)
        return self._cache[level]

    @cached_property
    def _cache(self) -> dict[int, tuple[Array, Array]]:
        return {}

    def _measured(self, level: int) -> tuple[Array, Array]:
        raised = (self.features / self.units[:, None]) ** level
        centers = raised.mean(axis=1) if self.centered else np.zeros(len(raised))
        spreads = np.sqrt(np.mean((raised - centers[:, None]) ** 2, axis=1))
        whole = np.sqrt(np.mean(raised**2, axis=1))
        smallest_spread = 1e-12  # of a power, relative to its root mean square: below, it is a constant
        return centers, np.where(spreads > smallest_spread * whole, spreads, 1.0)

    def level(self, level: int, values: Array | None = None) -> Array:
        """Return a level of every column, (r, n), of new or training values."""
        centers, scales = self.scales(level)
        values = self.features if values is None else values
        return ((values / self.units[:, None]) ** level - centers[:, None]) / scales[:, None]

    def spec(self, j: int, level: int) -> ColumnPower:
        """Return the kernel of a level of a single column."""
        centers, scales = self.scales(level)
        return ColumnPower(level, float(self.units[j]), float(centers[j]), float(scales[j]))


def mean_diagonals(grams: Array, level: int = 1) -> Array:
    """Return the mean diagonals of entrywise powers, 1 instead of zero, (r,)."""
    means: Array = np.mean(np.einsum("jnn->jn", grams) ** level, axis=1)
    return np.where(means > 0, means, 1.0)


Index = tuple[int, ...]
Parts = tuple[int, ...]
"""Levels of one base kernel that are multiplied with each other."""
Levels = tuple[int, int]

ONE: Parts = (1,)


def list_levels(index: Index) -> list[tuple[int, int]]:
    """Return the base kernels of a sorted multi-index, with levels."""
    return [(j, len(list(same))) for j, same in groupby(index)]


class ProductBase(ABC):
    """The r base kernels ``K_j`` on N samples and their levels: kernels of powers, divided by what normalizes them.

    Without normalization, level a is the a-th entrywise power, and everything is scaled by a power of two so no entry
    exceeds one.
    """

    n_base: int
    n_samples: int
    unit: float  # the power of two: base kernels are ``unit`` times the scaled ones, and level a ``unit^a`` times
    powers_multiply: bool  # whether level a is the a-th power of level one
    state_size: int  # numbers that one state takes
    pairs_are_cheap: bool  # whether a number for every pair costs less than one for each with a matrix of sums

    @abstractmethod
    def total(self, parts: Parts) -> Array:
        """``sum_j prod_a K_ja`` over the levels ``a`` in ``parts``, scaled, (N, N)."""

    @abstractmethod
    def gram(self, j: int, parts: Parts) -> Array:
        """``prod_a K_ja``, scaled, (N, N)."""

    @abstractmethod
    def start(self, a: Array) -> Array:
        """Return the state of the empty product."""

    def extend(self, state: Array, j: int, level: int) -> Array:
        """Return the state, or a batch of states, multiplied by a level of base kernel j."""
        return self.multiply(state, j, (level,))

    @abstractmethod
    def multiply(self, state: Array, j: int, parts: Parts) -> Array:
        """Return the state multiplied by several levels of a base kernel, or none."""

    @abstractmethod
    def mass(self, state: Array, power: Array | None) -> float:
        """``<M, P>``; ``P`` is all ones for None."""

    @abstractmethod
    def masses(self, state: Array, power: Array | None, parts: Parts = ONE) -> Array:
        """``<M o P, prod_a K_ja>`` for every j, (r,), scaled."""

    @abstractmethod
    def pair_masses(self, state: Array, rows: slice, first: int, levels: Levels) -> Array:
        """``<M o K_ja, K_kb>`` for j in ``rows`` and k >= ``first`` at two levels, scaled."""

    @abstractmethod
    def tail_masses(self, states: Array, rows: Array, cols: Array, levels: Levels) -> Array:
        """``<M o K_ja, K_kb>`` of each of a batch of states, scaled, for j in ``rows`` with k beside it in ``cols``."""

    @abstractmethod
    def pair_vectors(self, rows: Array, cols: Array, parts: Parts) -> Array:
        """Entries ``prod_a K_ja[rows, cols]`` of every base kernel, scaled, (r, n_pairs)."""

    @abstractmethod
    def pair_weights(self, state: Array, rows: Array, cols: Array) -> Array:
        """Upper triangle of ``M``, off-diagonal entries doubled, (n_pairs,)."""

    @abstractmethod
    def stack(self, indices: Sequence[Index]) -> GramStack:
        """Return the Gram matrices of some products, not scaled."""

    @abstractmethod
    def factors(self, index: Index, parts: Sequence[Part]) -> tuple[Sequence[Part], float]:
        """Return the factors of a product, given the base kernels, and a scalar multiplier."""


def exponent_of(largest: float) -> int:
    """Return the exponent of the smallest power of two above a number, zero for zero."""
    return int(np.frexp(largest)[1]) if largest > 0 else 0


def power_of_two(exponent: int) -> float:
    """Return a power of two, infinite or zero outside the range."""
    with np.errstate(over="ignore", under="ignore"):
        return float(np.ldexp(1.0, exponent))


def finite_products(values: Array) -> Array:
    """Return products of base kernels, or raise ``InvalidInputError`` on overflow."""
    if not np.all(np.isfinite(values)):
        raise InvalidInputError(
            "A product of base kernels overflows: the columns are too large for this degree. Standardize them "
            "(standardize=True) or lower the degree."
        )
    return values


# Base kernels given by their Gram matrices: a state is a matrix.


LARGEST_STACK = 2 * 2**30  # bytes of the Gram matrices of the kernels found


class GramBase(ProductBase):
    """Base kernels given by their Gram matrices; if normalized, a power is divided by the mean diagonal."""

    def __init__(self, grams: Array, normalize: str | None = None, *, overwrite: bool = False) -> None:
        self.n_base, self.n_samples = grams.shape[:2]
        self.state_size, self.pairs_are_cheap = self.n_samples**2, False  # both take the same numbers for each
        self.means = mean_diagonals(grams)
        if normalize:
            grams, overwrite = np.divide(grams, self.means[:, None, None], out=grams if overwrite else None), True
        exponent = 0 if normalize else exponent_of(float(max(grams.max(initial=0.0), -grams.min(initial=0.0))))
        self.unit, self.normalize = power_of_two(exponent), normalize
        self._grams = np.ldexp(grams, -exponent, out=grams if overwrite else None)
        self._flat = self._grams.reshape(self.n_base, -1)
        self.powers_multiply = normalize is None or bool(np.all(mean_diagonals(self._grams, 2) <= 1.0))

    def scale(self, j: int, level: int) -> float:
        """Return the divisor of the power of a base kernel."""
        if not self.normalize:
            return 1.0
        return float(self.means[j] ** level * mean_diagonals(self._grams[j : j + 1], level)[0])

    def _level(self, chosen: slice | Array, level: int) -> Array:
        """Return a level of some base kernels, scaled, (., N, N)."""
        grams = self._grams[chosen]
        if level == 1:
            return grams
        return grams**level / mean_diagonals(grams, level)[:, None, None] if self.normalize else grams**level

    def _product(self, chosen: slice | Array, parts: Parts) -> Array:
        """Return products of levels of some base kernels, scaled, (., N^2)."""
        product = self._level(chosen, parts[0])
        for level in parts[1:]:
            product = product * self._level(chosen, level)
        return product.reshape(len(product), -1)

    def total(self, parts: Parts) -> Array:
        if parts == ONE:
            return self._grams.sum(axis=0)
        return np.sum([self.gram(j, parts) for j in range(self.n_base)], axis=0)

    def gram(self, j: int, parts: Parts) -> Array:
        return self._product(slice(j, j + 1), parts).reshape(self.n_samples, -1)

    def start(self, a: Array) -> Array:
        """Return ``a a'``."""
        return np.multiply.outer(a, a)

    def multiply(self, state: Array, j: int, parts: Parts) -> Array:
        """Return ``M o prod_a K_ja``."""
        return state * self.gram(j, parts) if parts else state

    def mass(self, state: Array, power: Array | None) -> float:
        return max(float(state.sum() if power is None else np.vdot(state, power)), 0.0)

    def masses(self, state: Array, power: Array | None, parts: Parts = ONE) -> Array:
        weights = (state if power is None else state * power).ravel()
        if parts == ONE:
            return np.maximum(self._flat @ weights, 0.0)
        values = [float(self.gram(j, parts).ravel() @ weights) for j in range(self.n_base)]
        return np.maximum(np.array(values), 0.0)

    def pair_masses(self, state: Array, rows: slice, first: int, levels: Levels) -> Array:
        flat = self._product(slice(first, None), levels[1:])
        left = self._product(rows, levels[:1]) * state.ravel()
        return np.maximum(left @ flat.T, 0.0)

    def tail_masses(self, states: Array, rows: Array, cols: Array, levels: Levels) -> Array:
        pairs = self._product(rows, levels[:1]) * self._product(cols, levels[1:])
        return np.maximum(states.reshape(len(states), -1) @ pairs.T, 0.0)

    def pair_vectors(self, rows: Array, cols: Array, parts: Parts) -> Array:
        places = rows * self.n_samples + cols
        return np.array([self.gram(j, parts).ravel()[places] for j in range(self.n_base)])

    def pair_weights(self, state: Array, rows: Array, cols: Array) -> Array:
        """``M[rows, cols]``, doubled off the diagonal."""
        return state[rows, cols] * np.where(rows == cols, 1.0, 2.0)

    def stack(self, indices: Sequence[Index]) -> GramStack:
        size = 8 * len(indices) * self.n_samples**2
        if size > LARGEST_STACK:
            raise MemoryBudgetError(
                f"{len(indices)} products of Gram matrices of {self.n_samples} samples take {size / 2**30:.1f} GiB; "
                "lower max_kernels or n_steps, or use linear base kernels, which need one vector each."
            )
        grams = np.ones((len(indices), self.n_samples, self.n_samples))
        with np.errstate(over="ignore", under="ignore"):
            for gram, index in zip(grams, indices, strict=True):
                for j, level in list_levels(index):
                    gram *= self.gram(j, (level,))
                gram *= self.unit ** len(index)
        return DenseStack(finite_products(grams))

    def factors(self, index: Index, parts: Sequence[Part]) -> tuple[Sequence[Part], float]:
        """Return the base kernels."""
        divided = prod(self.scale(j, level) for j, level in list_levels(index))
        return [parts[j] for j in index], 1.0 / divided


# Base kernels of rank one, linear kernels of single columns: a state is one vector, and a level a power of columns.


class RankOneBase(ProductBase):
    """Base kernels ``K_j = x_j x_j'``: linear kernels of single columns, whose levels are powers of the columns.

    Scores and sums are computed in ``precision``; features are float64 always.
    """

    def __init__(self, features: Array, normalize: str | None = None, precision: DTypeLike = np.float64) -> None:
        self.n_base, self.n_samples = features.shape
        self.state_size, self.pairs_are_cheap = self.n_samples, self.n_base < self.n_samples
        # What is normalized is of the order of one, and at most the root of N.
        exponent = 0 if normalize else exponent_of(float(np.abs(features).max(initial=0.0)))
        self.unit, self.powers_multiply = power_of_two(2 * exponent), normalize is None
        self.columns, self._exponent, self.normalize = features, exponent, normalize
        self.powers = ColumnPowers.compute(features, normalize) if normalize else None
        self._scaled, self._precision = np.ldexp(features, -exponent), precision
        self._levels: dict[int, Array] = {}
        self._products: dict[Parts, Array] = {}

    def level(self, level: int) -> Array:
        """Return the features of a level, scaled, (r, N)."""
        return self.product((level,))

    def product(self, parts: Parts) -> Array:
        """Return products of the features of some levels of every column, scaled, (r, N); kept."""
        if parts not in self._products:
            if len(parts) > 1:
                gram = self.product(parts[:-1]) * self.product(parts[-1:])
            else:
                gram = self._scaled ** parts[0] if self.powers is None else self._normalized(parts[0])
            self._products[parts] = gram.astype(self._precision, copy=False)
        return self._products[parts]

    def _normalized(self, level: int) -> Array:
        """Return a level of the columns as given, normalized, in float64; kept."""
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
        """Return the products ``prod_j x_j^{a_j}`` of the levels, (m, N); overflow is possible."""
        return self.features_of(self.columns, indices)

    def features_of(self, values: Array, indices: Sequence[Index]) -> Array:
        """Return the products at new values of the columns, (r, n), normalized by the training samples."""
        features = np.ones((len(indices), values.shape[1]))
        levels: dict[int, Array] = {}
        with np.errstate(over="ignore", under="ignore"):
            for product, index in zip(features, indices, strict=True):
                for j, level in list_levels(index):
                    if level not in levels:
                        levels[level] = self._level_of(values, level)
                    product *= levels[level][j]
        return features

    def _level_of(self, values: Array, level: int) -> Array:
        """Return a level of other values, unscaled."""
        if self.powers is None:
            return values**level
        return self._normalized(level) if values is self.columns else self.powers.level(level, values)

    def stack(self, indices: Sequence[Index]) -> GramStack:
        return RankOneStack(finite_products(self.features(indices)))

    def factors(self, index: Index, parts: Sequence[Part]) -> tuple[Sequence[Part], float]:
        """Return the columns, or their normalized powers."""
        if self.powers is None:
            return [parts[j] for j in index], 1.0
        return [(self.powers.spec(j, level), parts[j][1]) for j, level in list_levels(index)], 1.0
