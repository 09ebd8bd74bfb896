"""What every regularizer is: a convex, non-decreasing function of the vector of block norms, with its conjugate."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from manykernels.validation.arrays import check_positive

__all__ = ["Regularizer"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Regularizer(abc.ABC):
    """A convex, non-decreasing function ``Omega(t)`` of block norms ``t_m = w_m ||f_m||``, and its conjugate.

    ``Omega*(u) = sup_{t >= 0} t'u - Omega(t)`` is a function of ``u_m = sqrt(rho' K_m rho) / w_m``.

    Parameters
    ----------
    strength : float
        Multiplies the whole penalty; positive. Nothing is divided by the number of samples.

    Attributes
    ----------
    name : str
        Name in ``REGULARIZERS``.
    sparse : bool
        Whether optimal kernel weights contain exact zeros.
    separable : bool
        Whether ``Omega`` is a sum over kernels.
    dual_constraint : bool
        Whether the conjugate is an indicator, so that dual variables must be scaled to be feasible.
    inactive_below : float
        Kernels with ``u_m`` below it have zero weight at the optimum; 0 if nothing can be said beforehand.
    """

    strength: float

    name: ClassVar[str]
    separable: ClassVar[bool]

    def __post_init__(self) -> None:
        object.__setattr__(self, "strength", check_positive(self.strength, "strength"))

    @property
    @abc.abstractmethod
    def sparse(self) -> bool:
        """Whether optimal kernel weights contain exact zeros."""

    @property
    def dual_constraint(self) -> bool:
        """Whether the conjugate is an indicator."""
        return False

    @property
    def inactive_below(self) -> float:
        """Kernels with ``u_m`` below it have zero weight."""
        return 0.0

    @abc.abstractmethod
    def value(self, t: Array) -> float:
        """``Omega(t)`` for block norms ``t >= 0`` of shape (M,)."""

    @abc.abstractmethod
    def conjugate(self, u: Array) -> float:
        """``Omega*(u)`` for ``u >= 0`` of shape (M,); possibly infinite."""

    def dual_scale(self, u: Array) -> float:
        """Return the largest ``c`` in [0, 1] for which ``conjugate(c u)`` is finite."""
        return 1.0

    def weights(self, t: Array, u: Array) -> Array:
        """Optimal kernel weights ``d`` (M,) for block norms ``t`` and dual norms ``u``.

        Since ``f_m = d_m sum_i rho_i k_m(., x_i)``, ``t_m = w_m^2 d_m u_m``: here ``d = t / u`` for unit penalties
        ``w``, 0 where either is 0; divide by ``w^2`` otherwise.
        """
        weights = np.zeros(np.shape(t))
        np.divide(t, u, out=weights, where=(np.asarray(u) > 0) & (np.asarray(t) > 0))
        return weights

    @abc.abstractmethod
    def prox(self, t: Array, step: float) -> Array:
        """``argmin_x |x - t|^2 / 2 + step Omega(x)`` over ``x >= 0``, for ``t >= 0`` of shape (M,)."""

    def strength_max(self, u: Array) -> float:
        """Return the smallest strength at which the zero model is optimal, from ``u`` at the zero model.

        Infinite where the penalty is flat at zero (no strength makes the model vanish), 0 if ``u`` is zero.
        """
        return np.inf if np.any(np.asarray(u) > 0) else 0.0
