"""Losses of all samples together, which are no sum over samples: what solvers and certificates need of them."""

from __future__ import annotations

import abc
from typing import Any, ClassVar, Protocol

from manykernels.objective.capabilities import Capability
from manykernels.objective.losses.base import Array

__all__ = ["BoundLoss", "JointLoss"]


class BoundLoss(Protocol):
    """A joint loss on given targets and weights: a convex function ``L`` of the scores ``z`` (N,) of all samples.

    ``L`` does not change when every score of a group of samples (a stratum) is shifted alike. Its dual variable is
    ``rho = -grad L(z)``, which sums to zero over every group.
    """

    def value(self, z: Array) -> float:
        """``L(z)``, never negative."""

    def gradient(self, z: Array) -> Array:
        """``grad L(z)`` (N,)."""

    def hazards(self, z: Array) -> Array:
        """Return the non-negative part of the gradient (N,): how much each sample matters at these scores."""

    def inverse_curvature(self, z: Array) -> Array:
        """Return an (N, N) matrix that inverts the Hessian on vectors that sum to zero in every group.

        It is positive definite on the samples of all groups, and zero for samples of none.
        """

    def groups(self) -> Array:
        """Return indicators (N, K) of the groups; samples of none have no part in ``L``."""

    def conjugate_along(self, z: Array, scale: float) -> float:
        """Upper bound of ``L*(-scale * rho)`` at ``rho = -grad L(z)``, exact at 1; ``scale`` in [0, 1]."""

    def centered(self, values: Array) -> Array:
        """Return values (..., N) minus the mean of each group, zero for samples of none."""


class JointLoss(abc.ABC):
    """A convex loss that couples samples, as a partial likelihood does.

    Attributes
    ----------
    name : str
    task : str
        What the target is.
    """

    name: ClassVar[str]
    task: ClassVar[str]
    smooth: ClassVar[bool] = True
    entropic: ClassVar[bool] = True
    piecewise_linear: ClassVar[bool] = False
    kink: ClassVar[float] = 0.0
    linear_dual: ClassVar[bool] = False
    support: ClassVar[str] = "survival"
    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.CURVED_CONJUGATE})

    @abc.abstractmethod
    def check_target(self, y: Any) -> Array:
        """Return the target as float64 (N,), or raise ``InvalidInputError`` saying what cannot be used."""

    @abc.abstractmethod
    def bind(self, y: Array, weight: Array) -> BoundLoss:
        """Return the loss as a function of the scores.

        Parameters
        ----------
        y : ndarray of shape (N,)
            As ``check_target`` returns it.
        weight : ndarray of shape (N,)
            Positive sample weights.

        Returns
        -------
        BoundLoss
        """
