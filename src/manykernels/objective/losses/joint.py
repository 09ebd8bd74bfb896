"""Losses of all samples together, which are no sum over samples: what solvers and certificates need of them."""

from __future__ import annotations

import abc
from typing import Any, ClassVar, Protocol

from manykernels.objective.capabilities import Capability
from manykernels.objective.losses.base import Array

__all__ = ["BoundLoss", "JointCurvature", "JointLoss"]


class JointCurvature(Protocol):
    """The Hessian of a joint loss at some scores, without a matrix among samples.

    Attributes
    ----------
    bends : ndarray of shape (N,)
        A diagonal matrix that is nowhere below the Hessian.
    rows : ndarray of int
        The samples that it is made from, in the order in which `gram` takes them.
    """

    bends: Array
    rows: Any

    def of_rows(self, rows: Any, factors: Array) -> JointCurvature:
        """Return the Hessian as these rows estimate it, each standing for ``factors`` samples."""

    def product(self, x: Array) -> Array:
        """Return the Hessian times a vector (N,)."""

    def gram(self, Z: Array) -> Array:
        """Return ``Z' H Z`` (r, r) for the rows of ``Z`` at ``rows``."""


class BoundLoss(Protocol):
    """A joint loss on given targets and weights: a convex function ``L`` of the scores ``z`` (N,) of all samples.

    ``L`` does not change when every score of a group of samples (a stratum) is shifted alike. Its dual variable is
    ``rho = -grad L(z)``, which sums to zero over every group.
    """

    steepness: float
    """How far ``L`` can change at most when no score changes by more than one."""

    def value(self, z: Array) -> float:
        """``L(z)``, never negative."""

    def gradient(self, z: Array) -> Array:
        """``grad L(z)`` (N,)."""

    def hazards(self, z: Array) -> Array:
        """Return the non-negative part of the gradient (N,): how much each sample matters at these scores."""

    def curvature(self, z: Array) -> JointCurvature:
        """Return the Hessian for products, in time and memory linear in N."""

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
