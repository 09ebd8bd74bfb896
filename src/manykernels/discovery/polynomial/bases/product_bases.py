"""Base kernels whose entrywise products make a polynomial family: what every kind of them can do.

Everything that an algorithm needs is a number ``<M o P, K_ja>`` for the state ``M = (a a') o K_{j1,a1} o ...`` of a
partly chosen product. For base kernels ``K_j = x_j x_j'`` the state is one vector, ``m = a o x_{j1}^{a1} o ...``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.grams import GramStack
from manykernels.kernels.specs.interaction import Part
from manykernels.validation.arrays import Array

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
