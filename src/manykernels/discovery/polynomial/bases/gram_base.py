"""Base kernels given by their Gram matrices: a state is a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from manykernels.discovery.polynomial.bases.powers import mean_diagonals, unit_diagonals
from manykernels.discovery.polynomial.bases.product_bases import (
    ONE,
    Index,
    Levels,
    Parts,
    ProductBase,
    exponent_of,
    finite_products,
    power_of_two,
    with_levels,
)
from manykernels.exceptions import MemoryBudgetError
from manykernels.grams import DenseStack, GramStack
from manykernels.grams.plan import format_bytes, memory_bytes, stack_nbytes, working_nbytes
from manykernels.kernels.specs.interaction import Part
from manykernels.validation.arrays import Array

LARGEST_STACK = 2 * 2**30  # bytes of the Gram matrices of the kernels found


class GramBase(ProductBase):
    """Base kernels given by their Gram matrices; if normalized, a power is divided by its mean diagonal."""

    def __init__(self, grams: Array, normalize: str | None = None, *, overwrite: bool = False) -> None:
        self.n_base, self.n_samples = grams.shape[:2]
        self.means = mean_diagonals(grams)
        if normalize:
            grams, overwrite = unit_diagonals(grams, overwrite=overwrite), True
        exponent = 0 if normalize else exponent_of(float(max(grams.max(initial=0.0), -grams.min(initial=0.0))))
        self.unit, self.normalize = power_of_two(exponent), normalize
        self._grams = np.ldexp(grams, -exponent, out=grams if overwrite else None)
        self._flat = self._grams.reshape(self.n_base, -1)
        self.powers_multiply = normalize is None or bool(np.all(mean_diagonals(self._grams, 2) <= 1.0))

    @property
    def state_size(self) -> int:
        """``N^2``."""
        return self.n_samples**2

    @property
    def pairs_are_cheap(self) -> bool:
        """False: both take the same numbers for each."""
        return False

    def scale(self, j: int, level: int) -> float:
        """Return what the power of a base kernel as it was given is divided by."""
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
        """``sum_j prod_a K_ja``."""
        if parts == ONE:
            return self._grams.sum(axis=0)
        return np.sum([self.gram(j, parts) for j in range(self.n_base)], axis=0)

    def gram(self, j: int, parts: Parts) -> Array:
        """``prod_a K_ja``."""
        return self._product(slice(j, j + 1), parts).reshape(self.n_samples, -1)

    def start(self, a: Array) -> Array:
        """Return ``a a'``."""
        return np.multiply.outer(a, a)

    def multiply(self, state: Array, j: int, parts: Parts) -> Array:
        """Return ``M o prod_a K_ja``."""
        return state * self.gram(j, parts) if parts else state

    def mass(self, state: Array, power: Array | None) -> float:
        """``<M, P>``."""
        return max(float(state.sum() if power is None else np.vdot(state, power)), 0.0)

    def masses(self, state: Array, power: Array | None, parts: Parts = ONE) -> Array:
        """``<M o P, prod_a K_ja>``."""
        weights = (state if power is None else state * power).ravel()
        if parts == ONE:
            return np.maximum(self._flat @ weights, 0.0)
        found = [float(self.gram(j, parts).ravel() @ weights) for j in range(self.n_base)]
        return np.maximum(np.array(found), 0.0)

    def pair_masses(self, state: Array, rows: slice, first: int, levels: Levels) -> Array:
        """``<M o K_ja, K_kb>``."""
        flat = self._product(slice(first, None), levels[1:])
        left = self._product(rows, levels[:1]) * state.ravel()
        return np.maximum(left @ flat.T, 0.0)

    def tail_masses(self, states: Array, rows: Array, cols: Array, levels: Levels) -> Array:
        """``<M o K_ja, K_kb>``."""
        pairs = self._product(rows, levels[:1]) * self._product(cols, levels[1:])
        return np.maximum(states.reshape(len(states), -1) @ pairs.T, 0.0)

    def pair_vectors(self, rows: Array, cols: Array, parts: Parts) -> Array:
        """``prod_a K_ja[rows, cols]``."""
        places = rows * self.n_samples + cols
        return np.array([self.gram(j, parts).ravel()[places] for j in range(self.n_base)])

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
                for j, level in with_levels(index):
                    gram *= self.gram(j, (level,))
                gram *= self.unit ** len(index)
        return DenseStack(finite_products(grams))

    def factors(self, index: Index, parts: Sequence[Part]) -> tuple[Sequence[Part], float]:
        """Return the base kernels."""
        divided = prod(self.scale(j, level) for j, level in with_levels(index))
        return [parts[j] for j in index], 1.0 / divided


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
