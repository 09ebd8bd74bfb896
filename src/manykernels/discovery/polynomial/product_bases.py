"""Base kernels whose entrywise products make a polynomial family: what every kind of them can do.

Everything that an algorithm needs is a number ``<M o P, K_ja>`` for the state ``M = (a a') o K_{j1,a1} o ...`` of a
partly chosen product. For base kernels ``K_j = x_j x_j'`` the state is one vector, ``m = a o x_{j1}^{a1} o ...``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.grams import GramStack
from manykernels.kernels import ColumnPower
from manykernels.kernels.specs.interaction import Part
from manykernels.validation.arrays import Array

# How powers of base kernels are normalized: each by its own scale, so that products of them are again products.


NORMALIZATIONS = ("power", "centered", None)
SMALLEST_SPREAD = 1e-12  # of a power, relative to its root mean square: below, it is a constant


def check_normalize(normalize: Any) -> str | None:
    """Return the normalization of powers, or raise ``InvalidInputError``."""
    if normalize is not None and (not isinstance(normalize, str) or normalize not in NORMALIZATIONS):
        raise InvalidInputError(f"normalize must be 'power', 'centered' or None, got {normalize!r}.")
    return normalize


@dataclass(frozen=True, eq=False)
class ColumnPowers:
    """Powers of columns, ``((x/u)^a - c) / s``.

    u is the root mean square of the column, s that of ``(x/u)^a - c``, or one where that is a constant.
    """

    units: Array  # (r,) float64
    centered: bool  # whether c is the mean of (x/u)^a; else it is zero
    features: Array  # (r, N) float64: what means are taken over

    @classmethod
    def of(cls, features: Array, normalize: str) -> ColumnPowers:
        """Return the powers of columns in rows."""
        largest = np.abs(features).max(axis=1, initial=0.0)
        largest[largest == 0] = 1.0
        units = largest * np.sqrt(np.mean((features / largest[:, None]) ** 2, axis=1))
        return cls(np.where(units > 0, units, 1.0), normalize == "centered", features)

    def scales(self, level: int) -> tuple[Array, Array]:
        """Return centers and scales of a level, (r,) each; kept."""
        if level not in self._known:
            self._known[level] = self._measured(level)
        return self._known[level]

    @cached_property
    def _known(self) -> dict[int, tuple[Array, Array]]:
        return {}

    def _measured(self, level: int) -> tuple[Array, Array]:
        raised = (self.features / self.units[:, None]) ** level
        centers = raised.mean(axis=1) if self.centered else np.zeros(len(raised))
        spreads = np.sqrt(np.mean((raised - centers[:, None]) ** 2, axis=1))
        whole = np.sqrt(np.mean(raised**2, axis=1))
        return centers, np.where(spreads > SMALLEST_SPREAD * whole, spreads, 1.0)

    def level(self, level: int, values: Array | None = None) -> Array:
        """Return a level of every column, (r, n), of values or of those that means were taken over."""
        centers, scales = self.scales(level)
        values = self.features if values is None else values
        return ((values / self.units[:, None]) ** level - centers[:, None]) / scales[:, None]

    def spec(self, j: int, level: int) -> ColumnPower:
        """Return the kernel of a level of one column."""
        centers, scales = self.scales(level)
        return ColumnPower(level, float(self.units[j]), float(centers[j]), float(scales[j]))


def unit_diagonals(grams: Array, *, overwrite: bool) -> Array:
    """Return Gram matrices divided by their mean diagonals; zero ones stay as they are."""
    means = mean_diagonals(grams)
    return np.divide(grams, means[:, None, None], out=grams if overwrite else None)


def mean_diagonals(grams: Array, level: int = 1) -> Array:
    """Return the mean diagonals of entrywise powers, one where they are zero, (r,)."""
    means: Array = np.mean(np.einsum("jnn->jn", grams) ** level, axis=1)
    return np.where(means > 0, means, 1.0)


Index = tuple[int, ...]
Parts = tuple[int, ...]
"""Levels of one base kernel that are multiplied with each other."""
Levels = tuple[int, int]

ONE: Parts = (1,)


def with_levels(index: Index) -> list[tuple[int, int]]:
    """Return the base kernels of a sorted multi-index, each with its level."""
    return [(j, len(list(same))) for j, same in groupby(index)]


class ProductBase(ABC):
    """The r base kernels ``K_j`` on N samples and their levels: kernels of powers, divided by what normalizes them.

    Without normalization, level a is the a-th entrywise power, and everything is scaled by a power of two so that no
    entry exceeds one.

    Attributes
    ----------
    n_base, n_samples : int
    unit : float
        The power of two: base kernels are ``unit`` times the scaled ones, and level a ``unit^a`` times.
    powers_multiply : bool
        Whether level a is the a-th power of level one.
    """

    n_base: int
    n_samples: int
    unit: float
    powers_multiply: bool

    @property
    @abstractmethod
    def state_size(self) -> int:
        """Numbers that one state takes."""

    @property
    @abstractmethod
    def pairs_are_cheap(self) -> bool:
        """Whether a number for every pair of base kernels costs less than one for each with a matrix of sums."""

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
        """Return the state, or each of a batch of states, with a level of base kernel j multiplied in."""
        return self.multiply(state, j, (level,))

    @abstractmethod
    def multiply(self, state: Array, j: int, parts: Parts) -> Array:
        """Return the same with several levels of one base kernel, or none, multiplied in."""

    @abstractmethod
    def mass(self, state: Array, power: Array | None) -> float:
        """``<M, P>``; ``P`` is all ones if it is None."""

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
        """Entries of ``M`` at these places of the upper triangle, those off the diagonal doubled, (n_pairs,)."""

    @abstractmethod
    def stack(self, indices: Sequence[Index]) -> GramStack:
        """Return the Gram matrices of some products, not scaled."""

    @abstractmethod
    def factors(self, index: Index, parts: Sequence[Part]) -> tuple[Sequence[Part], float]:
        """Return the kernels that a product is made of, given the base kernels, and a number that multiplies it."""


def exponent_of(largest: float) -> int:
    """Return the exponent of the smallest power of two above a number, zero for zero."""
    return int(np.frexp(largest)[1]) if largest > 0 else 0


def power_of_two(exponent: int) -> float:
    """Return a power of two, infinite or zero where it leaves the range."""
    with np.errstate(over="ignore", under="ignore"):
        return float(np.ldexp(1.0, exponent))


def finite_products(values: Array) -> Array:
    """Return products of base kernels, or raise ``InvalidInputError`` if one overflows."""
    if not np.all(np.isfinite(values)):
        raise InvalidInputError(
            "A product of base kernels overflows: the columns are too large for this degree. Standardize them "
            "(standardize=True) or lower the degree."
        )
    return values
