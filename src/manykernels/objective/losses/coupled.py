"""Losses of all samples together, which are no sum over samples: what solvers and certificates need of them."""

from __future__ import annotations

import abc
from typing import ClassVar

from numpy.typing import ArrayLike

from manykernels.objective.capabilities import Capability
from manykernels.objective.losses.base import Array
from manykernels.objective.losses.bound import CoupledLossBound

__all__ = ["CoupledLoss"]


class CoupledLoss(abc.ABC):
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
    couples_samples: ClassVar[bool] = True
    of_several: ClassVar[bool] = False  # whether it is a loss of several scores a sample
    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.CURVED_CONJUGATE})

    @property
    def each(self) -> CoupledLoss:
        """The loss itself, as `Loss` and `SharedLoss` have one of a single score."""
        return self

    @abc.abstractmethod
    def check_target(self, y: ArrayLike) -> Array:
        """Return the target as float64 (N,), or raise ``InvalidInputError`` saying what cannot be used."""

    def why_no_constant(self, y: Array) -> str:
        """Return nothing: there is no constant.

        Parameters
        ----------
        y : ndarray of shape (N,)
        """
        return ""

    @abc.abstractmethod
    def bind(self, y: Array, weight: Array) -> CoupledLossBound:
        """Return the loss as a function of the scores.

        Parameters
        ----------
        y : ndarray of shape (N,)
            As ``check_target`` returns it.
        weight : ndarray of shape (N,)
            Positive sample weights.

        Returns
        -------
        CoupledLossBound
        """
