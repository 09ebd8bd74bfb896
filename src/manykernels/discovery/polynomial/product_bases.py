"""Base kernels whose entrywise products make a polynomial family: of rank one, or any Gram matrices.

Everything that an algorithm needs is a number ``<M o P, K_j>`` for the state ``M = (a a') o K_{j1} o ... o K_{ji}`` of
a partly chosen product. For base kernels ``K_j = x_j x_j'`` the state is one vector, ``m = a o x_{j1} o ... o x_{ji}``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from manykernels.exceptions import InvalidInputError, MemoryBudgetError
from manykernels.grams import DenseStack, GramStack, RankOneStack
from manykernels.grams.plan import format_bytes, memory_bytes, stack_nbytes, working_nbytes
from manykernels.validation.arrays import Array

Index = tuple[int, ...]

LARGEST_STACK = 2 * 2**30  # bytes of the Gram matrices of the kernels found


class ProductBase(ABC):
    """The r base kernels ``K_j`` on N samples, scaled by a power of two so that no entry exceeds one.

    Attributes
    ----------
    n_base, n_samples : int
    unit : float
        The power of two: the base kernels are ``unit`` times the scaled ones.
    """

    n_base: int
    n_samples: int
    unit: float

    @property
    @abstractmethod
    def state_size(self) -> int:
        """Numbers that one state takes."""

    @cached_property
    def total(self) -> Array:
        """``S = sum_j K_j``, scaled, (N, N)."""
        return self._total()

    @abstractmethod
    def _total(self) -> Array:
        """Compute the scaled sum."""

    @abstractmethod
    def start(self, a: Array) -> Array:
        """Return the state of the empty product."""

    @abstractmethod
    def extend(self, state: Array, j: int) -> Array:
        """Return the state, or each of a batch of states, with base kernel j multiplied in."""

    @abstractmethod
    def mass(self, state: Array, power: Array | None) -> float:
        """``<M, P>``; ``P`` is all ones if it is None."""

    @abstractmethod
    def masses(self, state: Array, power: Array | None) -> Array:
        """``<M o P, K_j>`` for every j, (r,), scaled."""

    @abstractmethod
    def pair_masses(self, state: Array, rows: slice, first: int) -> Array:
        """``<M o K_j, K_k>`` for j in ``rows`` and k >= ``first``, scaled."""

    @abstractmethod
    def state_masses(self, states: Array, power: Array) -> Array:
        """``<M, P>`` of each of a batch of states."""

    @abstractmethod
    def tail_masses(self, states: Array, rows: Array, cols: Array) -> Array:
        """``<M o K_j, K_k>`` of each of a batch of states, scaled, for j in ``rows`` with k beside it in ``cols``."""

    @abstractmethod
    def pair_vectors(self, rows: Array, cols: Array) -> Array:
        """Entries ``K_j[rows, cols]`` of every base kernel, scaled, (r, n_pairs)."""

    @abstractmethod
    def pair_weights(self, state: Array, rows: Array, cols: Array) -> Array:
        """Entries of ``M`` at these places of the upper triangle, those off the diagonal doubled, (n_pairs,)."""

    @abstractmethod
    def stack(self, indices: Sequence[Index]) -> GramStack:
        """Return the Gram matrices of some products, not scaled."""


class RankOneBase(ProductBase):
    """Base kernels ``K_j = x_j x_j'``: linear kernels of single columns."""

    def __init__(self, features: Array) -> None:
        self.n_base, self.n_samples = features.shape
        exponent = _exponent(float(np.abs(features).max(initial=0.0)))
        self.unit = _unit(2 * exponent)
        self._features = features
        self._scaled = np.ldexp(features, -exponent)

    @property
    def state_size(self) -> int:
        """N."""
        return self.n_samples

    def _total(self) -> Array:
        return self._scaled.T @ self._scaled

    def start(self, a: Array) -> Array:
        """Return ``a``."""
        return a

    def extend(self, state: Array, j: int) -> Array:
        """Return ``m o x_j``."""
        return state * self._scaled[j]

    def mass(self, state: Array, power: Array | None) -> float:
        """``m'P m``, or ``(sum m)^2``."""
        return float(state.sum()) ** 2 if power is None else max(float(state @ power @ state), 0.0)

    def masses(self, state: Array, power: Array | None) -> Array:
        """``(m o x_j)'P (m o x_j)``."""
        if power is None:
            return (self._scaled @ state) ** 2
        weighted = self._scaled * state
        return np.maximum(np.einsum("jn,jn->j", weighted @ power, weighted), 0.0)

    def pair_masses(self, state: Array, rows: slice, first: int) -> Array:
        """``(m'(x_j o x_k))^2``."""
        return ((self._scaled[rows] * state) @ self._scaled[first:].T) ** 2

    def state_masses(self, states: Array, power: Array) -> Array:
        """``m'P m``."""
        return np.maximum(np.einsum("bn,bn->b", states @ power, states), 0.0)

    def tail_masses(self, states: Array, rows: Array, cols: Array) -> Array:
        """``(m'(x_j o x_k))^2``."""
        scores: Array = states @ (self._scaled[rows] * self._scaled[cols]).T
        return np.square(scores, out=scores)

    def pair_vectors(self, rows: Array, cols: Array) -> Array:
        """``x_j[rows] x_j[cols]``."""
        return self._scaled[:, rows] * self._scaled[:, cols]

    def pair_weights(self, state: Array, rows: Array, cols: Array) -> Array:
        """``m[rows] m[cols]``, doubled off the diagonal."""
        return state[rows] * state[cols] * np.where(rows == cols, 1.0, 2.0)

    def features(self, indices: Sequence[Index]) -> Array:
        """Return the products ``prod_i x_{ji}``, (m, N); they may overflow."""
        with np.errstate(over="ignore", under="ignore"):
            return np.array([self._features[list(index)].prod(axis=0) for index in indices])

    def stack(self, indices: Sequence[Index]) -> GramStack:
        """Return the rank-one kernels of the monomials."""
        return RankOneStack(_checked(self.features(indices)))


class GramBase(ProductBase):
    """Base kernels given by their Gram matrices."""

    def __init__(self, grams: Array, *, overwrite: bool = False) -> None:
        self.n_base, self.n_samples = grams.shape[:2]
        exponent = _exponent(float(max(grams.max(initial=0.0), -grams.min(initial=0.0))))
        self.unit = _unit(exponent)
        self._grams = np.ldexp(grams, -exponent, out=grams if overwrite else None)
        self._flat = self._grams.reshape(self.n_base, -1)

    @property
    def state_size(self) -> int:
        """``N^2``."""
        return self.n_samples**2

    def _total(self) -> Array:
        return self._grams.sum(axis=0)

    def start(self, a: Array) -> Array:
        """Return ``a a'``."""
        return np.multiply.outer(a, a)

    def extend(self, state: Array, j: int) -> Array:
        """Return ``M o K_j``."""
        return state * self._grams[j]

    def mass(self, state: Array, power: Array | None) -> float:
        """``<M, P>``."""
        return max(float(state.sum() if power is None else np.vdot(state, power)), 0.0)

    def masses(self, state: Array, power: Array | None) -> Array:
        """``<M o P, K_j>``."""
        return np.maximum(self._flat @ (state if power is None else state * power).ravel(), 0.0)

    def pair_masses(self, state: Array, rows: slice, first: int) -> Array:
        """``<M o K_j, K_k>``."""
        flat, vector = self._flat[first:], state.ravel()
        return np.maximum(np.array([flat @ (vector * row) for row in self._flat[rows]]), 0.0)

    def state_masses(self, states: Array, power: Array) -> Array:
        """``<M, P>``."""
        return np.maximum(states.reshape(len(states), -1) @ power.ravel(), 0.0)

    def tail_masses(self, states: Array, rows: Array, cols: Array) -> Array:
        """``<M o K_j, K_k>``."""
        return np.maximum(states.reshape(len(states), -1) @ (self._flat[rows] * self._flat[cols]).T, 0.0)

    def pair_vectors(self, rows: Array, cols: Array) -> Array:
        """``K_j[rows, cols]``."""
        return self._grams[:, rows, cols]

    def pair_weights(self, state: Array, rows: Array, cols: Array) -> Array:
        """``M[rows, cols]``, doubled off the diagonal."""
        return state[rows, cols] * np.where(rows == cols, 1.0, 2.0)

    def stack(self, indices: Sequence[Index]) -> GramStack:
        """Return the products of the Gram matrices in full."""
        size = 8 * len(indices) * self.n_samples**2
        if size > LARGEST_STACK:
            raise MemoryBudgetError(
                f"{len(indices)} products of Gram matrices of {self.n_samples} samples take {size / 2**30:.1f} GiB; "
                "lower max_kernels or n_steps, or use linear base kernels, which take one vector each."
            )
        grams = np.ones((len(indices), self.n_samples, self.n_samples))
        with np.errstate(over="ignore", under="ignore"):
            for gram, index in zip(grams, indices, strict=True):
                for j in index:
                    gram *= self._grams[j]
                gram *= self.unit ** len(index)
        return DenseStack(_checked(grams))


def check_gram_memory(n_base: int, n_samples: int) -> None:
    """Refuse Gram matrices of base kernels that do not fit, before anything is allocated."""
    nbytes, working = stack_nbytes("dense", n_base, n_samples, "float64"), working_nbytes(n_base, n_samples)
    budget = memory_bytes(None)
    if nbytes + working > budget:
        raise MemoryBudgetError(
            f"The Gram matrices of {n_base} base kernels on {n_samples} samples take {format_bytes(nbytes)} besides "
            f"{format_bytes(working)} of working arrays, but the memory budget, half of the memory available now, is "
            f"{format_bytes(budget)}. Use fewer samples or base kernels, or linear base kernels of single columns, "
            "which take one vector each."
        )


def _exponent(largest: float) -> int:
    return int(np.frexp(largest)[1]) if largest > 0 else 0


def _unit(exponent: int) -> float:
    with np.errstate(over="ignore", under="ignore"):
        return float(np.ldexp(1.0, exponent))


def _checked(values: Array) -> Array:
    if not np.all(np.isfinite(values)):
        raise InvalidInputError(
            "A product of base kernels overflows: the columns are too large for this degree. Standardize them "
            "(standardize=True) or lower the degree."
        )
    return values
