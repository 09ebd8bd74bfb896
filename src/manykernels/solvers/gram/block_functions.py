"""Functions of block norms whose gradients and Hessians the dual Newton iteration needs.

Both belong to a point ``v_m = alpha_m + gamma rho`` with norms ``x_m = ||v_m||`` and have, in ``rho``, the derivatives

    gradient  sum_m s_m K_m v_m
    Hessian   gamma sum_m [ s_m K_m + (p'_m - s_m) (K_m v_m)(K_m v_m)' / x_m^2 ],     s_m = p_m / x_m

where ``p_m`` is the block norm that the point implies: by the prox for the Moreau envelope of the augmented Lagrangian,
by the derivative of the conjugate (with ``alpha = 0``, ``gamma = 1``) for the smooth dual itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from manykernels.objective.regularizers import Regularizer
    from manykernels.validation.arrays import Array


class BlockFunction(Protocol):
    """What the Newton iteration needs to know about the regularizer."""

    @property
    def regularizer(self) -> Regularizer:
        """The regularizer that the function belongs to."""

    def take(self, kernels: Array) -> BlockFunction:
        """Return the function of some of the kernels."""

    @property
    def gamma(self) -> float:
        """Step of the blocks."""

    def block_norms(self, x: Array) -> Array:
        """Return the ``p_m`` that belong to the norms ``x_m``."""

    def value(self, x: Array, p: Array) -> float:
        """Return the sum over kernels of the function, given ``p = block_norms(x)``."""

    def slope(self, x: Array, p: Array) -> Array:
        """Return ``p'_m``, the derivatives of ``p`` by ``x``."""


@dataclass(frozen=True)
class MoreauEnvelope:
    """Moreau envelope of ``Omega*`` after a step of size ``gamma``: ``(x p - p^2/2)/gamma - Omega(p)``, (47).

    For the block 1-norm this is ``(x - gamma C)_+^2 / (2 gamma)``, that of (10) and (25).
    """

    regularizer: Regularizer
    gamma: float

    def take(self, kernels: Array) -> MoreauEnvelope:
        """Return the envelope for some of the kernels."""
        return MoreauEnvelope(self.regularizer.take(kernels), self.gamma)

    def block_norms(self, x: Array) -> Array:
        """``p = prox(x | gamma Omega)``, (11)."""
        return self.regularizer.prox(x, self.gamma)

    def value(self, x: Array, p: Array) -> float:
        """``sum (x p - p^2/2)/gamma - Omega(p)``."""
        return float(p @ (x - 0.5 * p)) / self.gamma - self.regularizer.value(p)

    def slope(self, x: Array, p: Array) -> Array:
        """``1 / (1 + gamma Omega''(p))`` where ``p > 0``, from ``x = p + gamma Omega'(p)``."""
        return np.where(p > 0, 1.0 / (1.0 + self.gamma * self.regularizer.second_derivative(p)), 0.0)


@dataclass(frozen=True)
class SmoothConjugate:
    """The conjugate ``Omega*(u)`` itself where it is differentiable, (49) and (50)."""

    regularizer: Regularizer
    gamma: float = 1.0

    def take(self, kernels: Array) -> SmoothConjugate:
        """Return the conjugate for some of the kernels."""
        return SmoothConjugate(self.regularizer.take(kernels), self.gamma)

    def block_norms(self, x: Array) -> Array:
        """``p = Omega*'(x)``."""
        return self.regularizer.conjugate_derivative(x)

    def value(self, x: Array, p: Array) -> float:
        """``Omega*(x)``."""
        return self.regularizer.conjugate(x)

    def slope(self, x: Array, p: Array) -> Array:
        """``1 / Omega''(p)`` where ``p > 0``."""
        slope = np.zeros_like(p)
        np.divide(1.0, self.regularizer.second_derivative(p), out=slope, where=p > 0)
        return slope
