"""What predictions of the training rows lose without a column, each row predicted by a model that has not seen it.

At fixed kernel weights ``d`` and with ``K = sum_m d_m K_m``, one Newton step of the dual leaves row ``i`` out in closed
form (exactly, for squared loss). With ``W = s l''(y, z)``, ``A = K + diag(1/W)`` and, beside an intercept,
``P = A^-1 - A^-1 1 1' A^-1 / (1' A^-1 1)`` (else ``P = A^-1``):

    rho^(-i)   = rho - P e_i rho_i / P_ii
    z_i^(-i)   = z_i + rho_i / W_i - rho_i / P_ii
    f_mi^(-i)  = f_mi - d_m (K_m P)_ii rho_i / P_ii

The importance of kernels on one selection of columns is what the loss of ``z^(-i)`` gains when their part
``sum_m f_mi^(-i)`` is replaced by its mean. A category of many levels fits its own rows and tells nothing about others:
its part vanishes, or does harm, where RKHS norms are largest. Kernel weights are those of all rows.

K. R. Rad, A. Maleki, "A scalable estimate of the out-of-sample prediction error via approximate leave-one-out
cross-validation", JRSS B 82 (2020).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from manykernels.grams.expansion import KernelExpansion
from manykernels.objective.losses import Loss
from manykernels.validation.arrays import Array

FLATTEST = 1e-8  # of curvatures, relative to the largest: what is flatter hardly counts


def leave_out_drops(
    expansion: KernelExpansion,
    loss: Loss,
    y: Array,
    weight: Array,
    intercepts: Array,
    units: Mapping[Any, Sequence[int]],
    *,
    fit_intercept: bool,
) -> Array:
    """Return what the mean loss of rows left out gains without each unit of kernels, (n_units,), the mean of targets.

    Parameters
    ----------
    expansion : KernelExpansion
    loss : Loss
        Smooth.
    y : (n_support, K) ndarray
        Targets of the support samples.
    weight : (n_support,) ndarray
        Their sample weights.
    intercepts : (K,) ndarray
    units : mapping to sequences of positions among the active kernels
    fit_intercept : bool

    Returns
    -------
    (n_units,) ndarray
    """
    drops = np.zeros((expansion.n_targets, len(units)))
    for k in range(expansion.n_targets):
        weights = np.broadcast_to(expansion.weights, (expansion.n_targets, expansion.active.size))[k]
        rho = expansion.coefficients[k]
        parts = Parts(expansion, weights, rho)
        z = parts.scores + intercepts[k]
        curvature = weight * loss.second_derivative(y[:, k], z)
        curvature = np.maximum(curvature, FLATTEST * float(curvature.max(initial=1.0)))
        inverse = leave_out_inverse(parts.kernel, curvature, fit_intercept=fit_intercept)
        steps = rho / np.diagonal(inverse)
        unseen = z + rho / curvature - steps
        before = weight @ loss.value(y[:, k], unseen)
        for at, members in enumerate(units.values()):
            part = parts.left_out(members, inverse, steps)
            without = unseen - part + np.average(part, weights=weight)
            drops[k, at] = (weight @ loss.value(y[:, k], without) - before) / weight.sum()
    return np.asarray(drops.mean(axis=0))


class Parts:
    """The parts of one target: its combined kernel among the support samples, and those of single kernels anew."""

    def __init__(self, expansion: KernelExpansion, weights: Array, rho: Array) -> None:
        self.expansion, self.weights, self.rho = expansion, weights, rho
        self.kernel = np.zeros((len(rho), len(rho)))
        for m in np.flatnonzero(weights):
            self.kernel += weights[m] * self.gram(int(m))
        self.scores = self.kernel @ rho

    def gram(self, kernel: int) -> Array:
        """Return one kernel among the support samples."""
        support = self.expansion.support
        return np.asarray(self.expansion.bank.block(support, support, kernels=[kernel])[0], dtype=np.float64)

    def left_out(self, members: Sequence[int], inverse: Array, steps: Array) -> Array:
        """Return what some kernels add to each sample when it is left out."""
        part = np.zeros(len(self.rho))
        for m in members:
            if self.weights[m]:
                gram = self.gram(m)
                part += self.weights[m] * (gram @ self.rho - np.einsum("ij,ji->i", gram, inverse) * steps)
        return part


def leave_out_inverse(kernel: Array, curvature: Array, *, fit_intercept: bool) -> Array:
    """Return ``P``."""
    factor = cho_factor(kernel + np.diag(1.0 / curvature), lower=True)
    inverse: Array = cho_solve(factor, np.eye(len(kernel)))
    if fit_intercept:
        ones = inverse.sum(axis=1)
        inverse = inverse - np.outer(ones, ones) / ones.sum()
    return inverse
