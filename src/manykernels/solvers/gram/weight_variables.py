"""The kernel side of the primal-dual Newton system: kernel weights against the norms ``u_m = sqrt(rho' K_m rho)``.

Written with squared norms, every regularizer here says ``u_m^2 <= B_m(d_m)^2`` with the kernel weight ``d_m >= 0`` as
the multiplier, and equality where ``d_m > 0``. The bounds are those of `Regularizer.norm_bound`:

    block 1-norm   B = C                        elastic net    B = C l1 / (1 - C l2 d)
    block q-norm   B = C^{(r-1)/(r-2)} d^{1/(r-2)}, r = q/(q-1), always equality
    weight sets    B^2 = tau g'(d), tau one free number shared by all kernels, with sum_m g(d_m) = 1 (`set_weights`)
    ridge          d = 1/C, nothing to solve

With the slack ``s_m = (B^2 - u_m^2)/2`` and ``q_m = K_m rho`` the linearized weights are
``dd_m = shift_m + coupling_m q_m'drho`` (for weight sets with ``q_m`` measured from a coupling-weighted mean).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from manykernels.objective.regularizers import Regularizer
    from manykernels.validation.arrays import Array

# How far in favor of zero doubtful kernels are judged while steps go on: to judge more so would cost steps that make
# them so
INACTIVE_FACTOR = 0.1
SMALLEST_RELATIVE_SLACK = 0.1  # of the bound on a squared norm, at the start
HIGHEST_START = 0.5  # of the pole of a weight


class LinearWeights(NamedTuple):
    """Linearized weights, ``dd_m = shift_m + coupling_m q_m'drho``, and the bounds at the point."""

    rows: Array  # (M, N): the ``q_m`` as they enter the Newton matrix, each with its coupling
    coupling: Array
    shift: Array
    squared_bound: Array  # the ``B_m^2`` that belong to the weights


class WeightVariables(Protocol):
    """The kernels in the Newton system."""

    weights: Array

    @property
    def weight_change(self) -> Array:
        """The current direction of the weights."""

    @property
    def n_pairs(self) -> int:
        """Number of complementarity products."""

    def complementarity(self) -> float:
        """Return the sum of all complementarity products."""

    def linearize(self, products: Array, squared_norms: Array, target: float) -> LinearWeights:
        """Linearize the weights at the products ``q_m`` and at the squared norms of the kernels."""

    def set_direction(self, products: Array) -> tuple[float, float]:
        """Derive all directions from ``products = q_m'drho``; return their `longest_steps`."""

    def longest_steps(self) -> tuple[float, float]:
        """Return the longest feasible primal and dual steps."""

    def complementarity_after(self, primal_step: float, dual_step: float) -> float:
        """Return the sum of complementarity products after a step."""

    def move(self, primal_step: float, dual_step: float) -> None:
        """Take the step."""

    def inactive(self, factor: float | Array = INACTIVE_FACTOR) -> Array:
        """Return which kernels have zero weight at the optimum, in doubt those whose weight is small by ``factor``.

        (M,), or (k, M) for factors (k, 1).
        """

    def resized(
        self, keep: Array, squared_norms_added: Array, barrier: float, regularizer: Regularizer
    ) -> WeightVariables:
        """Return variables for the kept kernels, lifted to ``barrier``, followed by new ones with the norms.

        ``regularizer`` is the one of the new set of kernels.
        """


# Products of slacks and multipliers, which a primal-dual iteration drives to its barrier parameter.


def longest_step(*pairs: tuple[Array, Array]) -> float:
    """Largest step in [0, 1] with nonnegative ``value + step * change`` of every pair."""
    return -1.0 / min(float(np.fmin.reduce(change / value, initial=-1.0)) for value, change in pairs)


def lift(slack: Array, multiplier: Array, barrier: float, slope: Array | float) -> tuple[Array, Array]:
    """Raise products of ``slack`` and ``multiplier`` to at least ``barrier`` by raising the smaller factor first.

    This moves a converged point back toward the central path. ``slope`` is the natural size of a multiplier over that
    of a slack: which of the two is the smaller one must not depend on the unit of targets or of sample weights.
    """
    low = slack * multiplier < barrier
    first = low & (slope * slack < multiplier)
    second = low & ~first
    larger_multiplier = np.where(first, np.maximum(multiplier, np.sqrt(barrier * slope)), multiplier)
    larger_slack = np.where(second, np.maximum(slack, np.sqrt(barrier / slope)), slack)
    return np.where(first, barrier / larger_multiplier, larger_slack), np.where(
        second, barrier / larger_slack, larger_multiplier
    )


def nearer(products: Array, target: float) -> Array:
    """Return by what targets are to differ for products, of a step unchanged, to come within a tenth to ten targets.

    J. Gondzio, "Multiple centrality corrections in a primal-dual method for linear programming", Comput. Optim. Appl. 6
    (1996).
    """
    change = np.clip(products, 0.1 * target, 10.0 * target) - products
    return np.maximum(change, -10.0 * target)


@dataclass
class PairedWeights:
    """Kernels with a slack and a weight, their product converging to zero."""

    weights: Array
    slack: Array

    def __post_init__(self) -> None:
        self._second: Any = 0.0
        self._wanted = self._residual = self.weight_change = self._dslack = np.zeros_like(self.weights)

    @property
    def n_pairs(self) -> int:
        return len(self.weights)

    def complementarity(self) -> float:
        return float(self.weights @ self.slack)

    def complementarity_after(self, primal_step: float, dual_step: float) -> float:
        slack = self.slack + primal_step * self._dslack
        return float(slack @ (self.weights + dual_step * self.weight_change))

    def aim(self, target: float) -> None:
        """Set the target change of the products."""
        self._wanted = target - self.weights * self.slack - self._second

    def longest_steps(self) -> tuple[float, float]:
        return longest_step((self.slack, self._dslack)), longest_step((self.weights, self.weight_change))

    def inactive(self, factor: float | Array = INACTIVE_FACTOR) -> Array:
        bound = self.squared_bound()
        shares = self.weights * bound  # of the penalty, as slacks are shares of bounds: neither has a unit
        return shares * bound < factor * self.slack * shares.max(initial=0.0)

    def shift(self) -> Array:
        raise AssertionError  # replaced by every subclass

    def squared_bound(self) -> Array:
        raise AssertionError  # replaced by every subclass


def free_kernels(regularizer: Regularizer, n_kernels: int) -> tuple[Array, Array]:
    """Return the kernels with more than one possible weight, and the largest weight of every kernel."""
    low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), n_kernels) for end in regularizer.weight_range)
    return low < high, np.array(high)


@dataclass
class UnpairedWeights:
    """Kernels without slacks, of nonzero weights."""

    weights: Array

    n_pairs: ClassVar[int] = 0

    def __post_init__(self) -> None:
        self.weight_change = self._shift = self._coupling = np.zeros_like(self.weights)

    def complementarity(self) -> float:
        return 0.0

    def complementarity_after(self, primal_step: float, dual_step: float) -> float:
        return 0.0

    def longest_steps(self) -> tuple[float, float]:
        return 1.0, 1.0

    def move(self, primal_step: float, dual_step: float) -> None:
        """Take the step; a weight falls to a tenth at most, since nothing else depends on linearity."""
        self.weights = np.maximum(self.weights + dual_step * self.weight_change, 0.1 * self.weights)

    def inactive(self, factor: float | Array = INACTIVE_FACTOR) -> Array:
        return np.zeros(np.broadcast_shapes(np.shape(factor), self.weights.shape), dtype=bool)


@dataclass
class PowerWeights(UnpairedWeights):
    """Block q-norm: ``u_m = scale d_m^{1/exponent}``, an equation; no kernel ever has weight zero."""

    exponent: float
    scale: float

    def linearize(self, products: Array, squared_norms: Array, target: float) -> LinearWeights:
        """Linearize the concave relation: weight by squared norm or squared norm by weight."""
        bound = self.squared_bound()
        if self.exponent < 2:
            implied = (np.sqrt(squared_norms) / self.scale) ** self.exponent
            self._coupling = self.exponent * implied / np.maximum(squared_norms, np.finfo(np.float64).tiny)
            self._shift = implied - self.weights
        else:
            self._coupling = self.exponent * self.weights / bound
            self._shift = self._coupling * (squared_norms - bound) / 2
        return LinearWeights(products, self._coupling, self._shift, bound)

    def set_direction(self, products: Array) -> tuple[float, float]:
        self.weight_change = self._shift + self._coupling * products
        return self.longest_steps()

    def squared_bound(self) -> Array:
        return (self.scale * self.weights ** (1.0 / self.exponent)) ** 2

    def resized(
        self, keep: Array, squared_norms_added: Array, barrier: float, regularizer: Regularizer
    ) -> PowerWeights:
        added = PowerWeights.central(squared_norms_added, self.exponent, self.scale)
        return PowerWeights(np.concatenate([self.weights[keep], added.weights]), self.exponent, self.scale)

    @classmethod
    def central(cls, squared_norms: Array, exponent: float, scale: float) -> PowerWeights:
        """Return the weights that match the norms, within 26 orders of magnitude of 1."""
        norms = np.sqrt(squared_norms)
        logarithms = exponent * (np.log(np.maximum(norms, 1e-6 * norms.max())) - np.log(scale))
        return cls(np.exp(np.clip(logarithms, -60.0, 60.0)), exponent, scale)


@dataclass
class FixedWeights(UnpairedWeights):
    """Ridge: every weight is a single number, for example ``1/C``."""

    def linearize(self, products: Array, squared_norms: Array, target: float) -> LinearWeights:
        nothing = np.zeros_like(self.weights)
        return LinearWeights(products, nothing, nothing, np.full(self.weights.size, np.inf))

    def set_direction(self, products: Array) -> tuple[float, float]:
        return self.longest_steps()

    def resized(
        self, keep: Array, squared_norms_added: Array, barrier: float, regularizer: Regularizer
    ) -> FixedWeights:
        return FixedWeights(free_kernels(regularizer, int(keep.sum()) + squared_norms_added.size)[1])


# --- bounds that rise with the weight -------------------------------------------------------------------------------


@dataclass
class BoundedWeights(PairedWeights):
    """Separable penalties with a bound nondecreasing in the weight, like block 1-norm and elastic net."""

    regularizer: Regularizer
    _known: tuple[Array, tuple[Array, Array]] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._pole = self.regularizer.weight_range[1]
        self._limited = bool(np.isfinite(self._pole).any())
        curve = self.regularizer.curve
        self._constant = self.regularizer.formulas is curve is not None and curve.elastic and not np.any(curve.ridge)

    @property
    def hard_bound(self) -> bool:
        """Return whether all bounds are independent of the weights, so weights may be arbitrarily large."""
        return not self._norm_bound()[1].any()

    def linearize(self, products: Array, squared_norms: Array, target: float) -> LinearWeights:
        self.aim(target)
        bound, slope = self._norm_bound()
        self._residual = (squared_norms - bound) / 2 + self.slack
        self._denominator = self.slack if self._constant else self.slack + self.weights * slope
        return LinearWeights(products, self.weights / self._denominator, self.shift(), bound)

    def shift(self) -> Array:
        shift: Array = (self._wanted + self.weights * self._residual) / self._denominator
        return shift

    def set_direction(self, products: Array) -> tuple[float, float]:
        """Continue from `linearize` at the same point and target."""
        raised = self._residual + products
        self.weight_change = (self._wanted + self.weights * raised) / self._denominator
        self._dslack = -raised if self._constant else self._norm_bound()[1] * self.weight_change - raised
        self._second = self.weight_change * self._dslack
        return self.longest_steps()

    def longest_steps(self) -> tuple[float, float]:
        if not self._limited:
            return super().longest_steps()
        room = self._pole - self.weights, -self.weight_change
        return longest_step((self.slack, self._dslack)), longest_step((self.weights, self.weight_change), room)

    def move(self, primal_step: float, dual_step: float) -> None:
        self.weights = self.weights + dual_step * self.weight_change
        self.slack = self.slack + primal_step * self._dslack
        self._second = 0.0

    def resized(
        self, keep: Array, squared_norms_added: Array, barrier: float, regularizer: Regularizer
    ) -> BoundedWeights:
        kept = np.arange(keep.size + squared_norms_added.size)[: int(keep.sum())]
        added = np.arange(kept.size, kept.size + squared_norms_added.size)
        new = BoundedWeights.central(squared_norms_added, barrier, regularizer.take(added))
        unit = _first_bounds(regularizer.take(kept), self.squared_bound()[keep])
        slack, weights = lift(self.slack[keep], self.weights[keep], barrier, self.weights.max(initial=0.0) / unit)
        pole = np.broadcast_to(regularizer.take(kept).weight_range[1], weights.shape)
        weights = np.minimum(weights, np.maximum(self.weights[keep], HIGHEST_START * pole))
        weights, slack = np.concatenate([weights, new.weights]), np.concatenate([slack, new.slack])
        return BoundedWeights(weights, slack, regularizer)

    def grow(self, factor: float, squared_norms: Array) -> None:
        """Multiply all weights by ``factor`` for dual coefficients divided by ``factor``."""
        self.weights = self.weights * factor
        bound = self.squared_bound()
        self.slack = np.maximum((bound - squared_norms) / 2, SMALLEST_RELATIVE_SLACK * bound)

    @classmethod
    def central(cls, squared_norms: Array, barrier: float, regularizer: Regularizer) -> BoundedWeights:
        """Return variables with slacks bounded away from zero and weights below their pole."""
        bound = _first_bounds(regularizer, squared_norms)
        slack = np.maximum((bound - squared_norms) / 2, SMALLEST_RELATIVE_SLACK * bound)
        weights = np.minimum(barrier / slack, HIGHEST_START * np.asarray(regularizer.weight_range[1]))
        return cls(weights, slack, regularizer)

    def squared_bound(self) -> Array:
        return self._norm_bound()[0]

    def _norm_bound(self) -> tuple[Array, Array]:
        """Return ``B^2`` and the derivative of ``B^2 / 2``, cached per point, or once if constant."""
        if self._known is None or not (self._constant or self._known[0] is self.weights):
            self._known = self.weights, self.regularizer.formulas.norm_bound(self.weights)
        return self._known[1]


def _first_bounds(regularizer: Regularizer, squared_norms: Array) -> Array:
    """Return ``B_m(0)^2``, the natural size of a slack, or the size of the norms if zero."""
    bound, _ = regularizer.norm_bound(np.zeros(squared_norms.shape))
    return np.where(bound > 0, bound, max(float(squared_norms.max(initial=0.0)), np.finfo(np.float64).tiny))


@dataclass
class PartlyFixedWeights:
    """Bounded kernels beside kernels with ridge terms only, of fixed weight."""

    inner: BoundedWeights
    free: Array
    fixed_weights: Array

    def __copy__(self) -> PartlyFixedWeights:
        return PartlyFixedWeights(copy.copy(self.inner), self.free, self.fixed_weights)

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

    @property
    def weight_change(self) -> Array:
        return self._whole(self.inner.weight_change, 0.0)

    def linearize(self, products: Array, squared_norms: Array, target: float) -> LinearWeights:
        _, coupling, shift, bound = self.inner.linearize(products[self.free], squared_norms[self.free], target)
        return LinearWeights(products, self._whole(coupling, 0.0), self._whole(shift, 0.0), self._whole(bound, np.inf))

    def set_direction(self, products: Array) -> tuple[float, float]:
        return self.inner.set_direction(products[self.free])

    def longest_steps(self) -> tuple[float, float]:
        return self.inner.longest_steps()

    def move(self, primal_step: float, dual_step: float) -> None:
        self.inner.move(primal_step, dual_step)

    def inactive(self, factor: float | Array = INACTIVE_FACTOR) -> Array:
        inactive = self.inner.inactive(factor)
        whole = np.zeros((*inactive.shape[:-1], self.free.size), dtype=bool)
        whole[..., self.free] = inactive
        return whole

    def resized(
        self, keep: Array, squared_norms_added: Array, barrier: float, regularizer: Regularizer
    ) -> PartlyFixedWeights:
        n_kernels = int(keep.sum()) + squared_norms_added.size
        free, fixed_weights = free_kernels(regularizer, n_kernels)
        added = squared_norms_added[free[n_kernels - squared_norms_added.size :]]
        inner = self.inner.resized(keep[self.free], added, barrier, regularizer.take(np.flatnonzero(free)))
        return PartlyFixedWeights(inner, free, fixed_weights)

    def _whole(self, values: Array, others: Array | float) -> Array:
        """Return values for all kernels."""
        whole = np.empty(self.free.size)
        whole[:] = others
        whole[self.free] = values
        return whole
