"""Kernels whose dual norms are bounded by functions of one weight each: block 1-norm, elastic net, mixtures of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from manykernels.solvers.gram.kernel_variables import PairedKernels, free_kernels
from manykernels.solvers.gram.tuning import HIGHEST_START, SMALLEST_RELATIVE_SLACK, lift, longest_step

if TYPE_CHECKING:
    from manykernels.objective.regularizers import Regularizer
    from manykernels.validation.arrays import Array


@dataclass
class BoundedKernels(PairedKernels):
    """Separable penalties whose bound rises with the weight or is constant, as of block 1-norm and elastic net."""

    regularizer: Regularizer

    @property
    def hard_bound(self) -> bool:
        """Whether no bound depends on a weight, so that weights may be as large as they like."""
        return not self._bound_slope().any()

    def linearize(self, squared_norms: Array, target: float) -> tuple[Array, Array]:
        self._target = target
        self._residual = (squared_norms - self.squared_bound()) / 2 + self.slack
        denominator = self.slack + self.weights * self._bound_slope()
        return self.weights / denominator, (self._wanted() + self.weights * self._residual) / denominator

    def set_direction(self, products: Array) -> None:
        slope = self._bound_slope()
        denominator = self.slack + self.weights * slope
        self._dweights = (self._wanted() + self.weights * (self._residual + products)) / denominator
        self._dslack = -self._residual - products + slope * self._dweights
        self._second = self._dweights * self._dslack

    def longest_steps(self) -> tuple[float, float]:
        primal, dual = super().longest_steps()
        pole = self.regularizer.weight_range[1]
        if np.isfinite(pole).any():
            dual = min(dual, longest_step(pole - self.weights, -self._dweights))
        return primal, dual

    def move(self, primal_step: float, dual_step: float) -> None:
        self.weights = self.weights + dual_step * self._dweights
        self.slack = self.slack + primal_step * self._dslack
        self._second = 0.0

    def resized(
        self, keep: Array, squared_norms_added: Array, barrier: float, regularizer: Regularizer
    ) -> BoundedKernels:
        kept = np.arange(keep.size + squared_norms_added.size)[: int(keep.sum())]
        added = np.arange(kept.size, kept.size + squared_norms_added.size)
        new = BoundedKernels.central(squared_norms_added, barrier, regularizer.take(added))
        unit = _first_bounds(regularizer.take(kept), self.squared_bound()[keep])
        slack, weights = lift(self.slack[keep], self.weights[keep], barrier, unit)
        pole = np.broadcast_to(regularizer.take(kept).weight_range[1], weights.shape)
        weights = np.minimum(weights, np.maximum(self.weights[keep], HIGHEST_START * pole))
        weights, slack = np.concatenate([weights, new.weights]), np.concatenate([slack, new.slack])
        return BoundedKernels(weights, slack, regularizer)

    def grow(self, factor: float, squared_norms: Array) -> None:
        """Multiply all weights by ``factor`` for dual coefficients that were divided by it."""
        self.weights = self.weights * factor
        bound = self.squared_bound()
        self.slack = np.maximum((bound - squared_norms) / 2, SMALLEST_RELATIVE_SLACK * bound)

    @classmethod
    def central(cls, squared_norms: Array, barrier: float, regularizer: Regularizer) -> BoundedKernels:
        """Return variables with slacks bounded away from zero and weights below their pole."""
        bound = _first_bounds(regularizer, squared_norms)
        slack = np.maximum((bound - squared_norms) / 2, SMALLEST_RELATIVE_SLACK * bound)
        weights = np.minimum(barrier / slack, HIGHEST_START * np.asarray(regularizer.weight_range[1]))
        return cls(weights, slack, regularizer)

    def squared_bound(self) -> Array:
        return self.regularizer.norm_bound(self.weights)[0]

    def _bound_slope(self) -> Array:
        """Return the derivative of ``B^2 / 2`` by the weight."""
        return self.regularizer.norm_bound(self.weights)[1]


def _first_bounds(regularizer: Regularizer, squared_norms: Array) -> Array:
    """Return ``B_m(0)^2``, the natural size of a slack, or the size of the norms where that is zero."""
    bound, _ = regularizer.norm_bound(np.zeros(squared_norms.size))
    return np.where(bound > 0, bound, max(float(squared_norms.max(initial=0.0)), np.finfo(np.float64).tiny))


@dataclass
class PartlyFixedKernels:
    """Bounded kernels among others with ridge terms only, whose weight is a single number."""

    inner: BoundedKernels
    free: Array
    fixed_weights: Array

    @property
    def weights(self) -> Array:
        return self._whole(self.inner.weights, self.fixed_weights)

    @weights.setter
    def weights(self, weights: Array) -> None:
        self.inner.weights = weights[self.free]

    @property
    def n_pairs(self) -> int:
        return self.inner.n_pairs

    def complementarity(self) -> float:
        return self.inner.complementarity()

    def complementarity_after(self, primal_step: float, dual_step: float) -> float:
        return self.inner.complementarity_after(primal_step, dual_step)

    def linearize(self, squared_norms: Array, target: float) -> tuple[Array, Array]:
        coupling, shift = self.inner.linearize(squared_norms[self.free], target)
        return self._whole(coupling, 0.0), self._whole(shift, 0.0)

    def set_direction(self, products: Array) -> None:
        self.inner.set_direction(products[self.free])

    def longest_steps(self) -> tuple[float, float]:
        return self.inner.longest_steps()

    def move(self, primal_step: float, dual_step: float) -> None:
        self.inner.move(primal_step, dual_step)

    def squared_bound(self) -> Array:
        return self._whole(self.inner.squared_bound(), np.inf)

    def weight_change(self) -> Array:
        return self._whole(self.inner.weight_change(), 0.0)

    def centered(self, products: Array) -> Array:
        return products

    def inactive(self, factor: float = 1.0) -> Array:
        return self._whole(self.inner.inactive(factor), 0.0) > 0

    def resized(
        self, keep: Array, squared_norms_added: Array, barrier: float, regularizer: Regularizer
    ) -> PartlyFixedKernels:
        n_kernels = int(keep.sum()) + squared_norms_added.size
        free, fixed_weights = free_kernels(regularizer, n_kernels)
        added = squared_norms_added[free[n_kernels - squared_norms_added.size :]]
        inner = self.inner.resized(keep[self.free], added, barrier, regularizer.take(np.flatnonzero(free)))
        return PartlyFixedKernels(inner, free, fixed_weights)

    def _whole(self, values: Array, others: Array | float) -> Array:
        """Return values for all kernels."""
        whole = np.empty(self.free.size)
        whole[:] = others
        whole[self.free] = values
        return whole
