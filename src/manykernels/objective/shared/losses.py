"""Losses of several targets: any smooth loss, summed over them; and which loss stands for which name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.objective.losses import Logistic, Loss, get_loss
from manykernels.objective.projection import project_box_hyperplane
from manykernels.objective.shared.base import SharedLoss
from manykernels.objective.shared.multinomial import Multinomial
from manykernels.validation.arrays import Array

__all__ = ["Separable", "SharedLoss", "get_shared_loss"]


@dataclass(frozen=True)
class Separable(SharedLoss):
    """``l(y_i, z_i) = sum_t l(y_it, z_it)`` for a smooth loss of one score.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import get_loss
    >>> Separable(get_loss("squared")).value(np.array([[1.0, 2.0]]), np.array([[0.0, 0.0]]))
    array([2.5])
    """

    loss: Loss  # squared, Huber, squared hinge,

    @property
    def name(self) -> str:
        """That of the loss."""
        return self.loss.name

    @property
    def task(self) -> str:
        """That of the loss."""
        return self.loss.task

    @property
    def entropic(self) -> bool:
        """Whether the conjugate of the loss is its own barrier."""
        return self.loss.entropic

    @property
    def each(self) -> Loss:
        """The loss."""
        return self.loss

    @property
    def curvature_bound(self) -> float:
        """That of the loss."""
        return self.loss.curvature_bound

    @property
    def linear_dual(self) -> bool:
        """Whether it is the squared loss or has its form, with curvature one."""
        return self.loss.linear_dual and self.loss.curvature == 1

    def check_target(self, y: Array) -> Array:
        """Return ``y`` as float64 (N, T), every column checked by the loss."""
        return np.column_stack([self.loss.check_target(column) for column in _matrix(y).T])

    def parts(self, y: Array, z: Array) -> Array:
        """``l(y_it, z_it)`` (N, T)."""
        return self.loss.value(y, z)

    def derivative(self, y: Array, z: Array) -> Array:
        """``dl/dz`` (N, T)."""
        return self.loss.derivative(y, z)

    def curvature(self, y: Array, z: Array) -> Array:
        """Second derivatives (N, T)."""
        return self.loss.second_derivative(y, z)

    def conjugate(self, y: Array, r: Array) -> Array:
        """``sum_t l*(y_it, -r_it)`` (N,)."""
        return self.loss.conjugate(y, r).sum(axis=1)

    def feasible(self, y: Array, rho: Array, weight: Array, *, sums: bool) -> Array:
        """Return the nearest point of the box, and of the columns with a sum of zero if ``sums``."""
        lo, hi = (weight[:, None] * end for end in self.loss.dual_bounds(y))
        if not sums:
            return np.clip(rho, lo, hi)
        if np.isinf(lo).all() and np.isinf(hi).all():
            once = rho - rho.mean(axis=0)
            return once - once.mean(axis=0)  # a second round removes the rounding of a large mean
        columns = zip(rho.T, lo.T, hi.T, strict=True)
        return np.column_stack([project_box_hyperplane(*column) for column in columns])

    def best_intercepts(self, y: Array, f: Array, weight: Array) -> Array:
        """Minimizer of every target, (T,)."""
        columns = zip(y.T, f.T, strict=True)
        return np.array([self.loss.best_intercept(*column, weight) for column in columns])


def get_shared_loss(loss: str | Loss | SharedLoss, *, kinks: bool = False) -> SharedLoss:
    """Return the loss of several scores that a loss of one score stands for.

    Examples
    --------
    >>> get_shared_loss("logistic").name, get_shared_loss("huber").name
    ('multinomial', 'huber')
    """
    if isinstance(loss, SharedLoss):
        return loss
    known = get_loss(loss)
    if isinstance(known, Logistic):
        return Multinomial()
    if not known.smooth and not kinks:
        instead = "'squared_hinge' or 'logistic'" if known.task == "classification" else "'squared' or 'huber'"
        raise IncompatibleError(
            f"outputs='shared' needs a loss with derivatives on N x N matrices, and {known.name!r} has kinks. Use "
            f"{instead}, outputs='own', or representation='factored', which smooths it inside the certificate."
        )
    return Separable(known)


def _matrix(y: Array) -> Array:
    """Return targets as a matrix, or say what they are instead."""
    targets = np.asarray(y)
    if targets.ndim != 2 or 0 in targets.shape:
        raise InvalidInputError(
            f"Shared weights need one column of y a class or target, shape (n_samples, n_targets), got {targets.shape}."
        )
    return targets
