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

from manykernels.objective.regularizers import BlockLq, ElasticNet, Ridge

if TYPE_CHECKING:
    from manykernels.objective.regularizers import Regularizer
    from manykernels.validation.arrays import Array


class BlockFunction(Protocol):
    """What the Newton iteration needs to know about the regularizer."""

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

    def block_norms(self, x: Array) -> Array:
        """``p = prox(x | gamma Omega)``, (11)."""
        return self.regularizer.prox(x, self.gamma)

    def value(self, x: Array, p: Array) -> float:
        """``sum (x p - p^2/2)/gamma - Omega(p)``."""
        return float(p @ (x - 0.5 * p)) / self.gamma - self.regularizer.value(p)

    def slope(self, x: Array, p: Array) -> Array:
        """``1 / (1 + gamma Omega''(p))`` where ``p > 0``, from ``x = p + gamma Omega'(p)``."""
        return np.where(p > 0, 1.0 / (1.0 + self.gamma * penalty_curvature(self.regularizer, p)), 0.0)


@dataclass(frozen=True)
class SmoothConjugate:
    """The conjugate ``Omega*(u)`` itself where it is differentiable, (49) and (50)."""

    regularizer: Regularizer
    gamma: float = 1.0

    def block_norms(self, x: Array) -> Array:
        """``p = Omega*'(x)``: ``(x - C l1)_+ / (C (1 - l1))`` or ``(x / C)^{1/(q-1)}``."""
        regularizer = self.regularizer
        exponent = norm_exponent(regularizer)
        if exponent is not None:
            return (x / regularizer.strength) ** (1.0 / (exponent - 1.0))
        return np.maximum(x - regularizer.inactive_below, 0.0) / ridge_part(regularizer)

    def value(self, x: Array, p: Array) -> float:
        """``Omega*(x)``."""
        return self.regularizer.conjugate(x)

    def slope(self, x: Array, p: Array) -> Array:
        """``1 / Omega''(p)`` where ``p > 0``."""
        slope = np.zeros_like(p)
        np.divide(1.0, penalty_curvature(self.regularizer, p), out=slope, where=p > 0)
        return slope


def ridge_part(regularizer: Regularizer) -> float:
    """Return the constant curvature of the penalty: that of ridge and of the elastic net."""
    if isinstance(regularizer, ElasticNet):
        return regularizer.curvature
    return regularizer.strength if isinstance(regularizer, Ridge) else 0.0


def norm_exponent(regularizer: Regularizer) -> float | None:
    """Return ``q`` of a block q-norm, None for any other regularizer."""
    return regularizer.q if isinstance(regularizer, BlockLq) else None


def penalty_curvature(regularizer: Regularizer, p: Array) -> Array:
    """Return ``Omega''`` of each kernel at block norms ``p``; infinite where a block q-norm bends at zero."""
    exponent = norm_exponent(regularizer)
    if exponent is None:
        return np.full(p.shape, ridge_part(regularizer))
    with np.errstate(divide="ignore"):
        return regularizer.strength * (exponent - 1.0) * p ** (exponent - 2.0)
