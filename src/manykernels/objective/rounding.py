"""How far rounding alone may move a certificate: running error bounds of the primal and the dual value.

Every sum of n terms is taken to be off by ``(8 + sqrt(n))`` units of rounding times the sum of the sizes of its terms:
the worst case grows like n, which no sum reaches whose roundings point in different directions. Entries of a kernel
are bounded by the largest one on its diagonal, so nothing here costs a pass over the kernels.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from manykernels.objective.regularizers.base import Regularizer
from manykernels.validation.arrays import Array

EPS = float(np.finfo(np.float64).eps)
FEW = 8.0  # roundings on the way of one number that is not a sum: scaling, root, product with a weight


class Sizes(Protocol):
    """What the bounds need to know of a problem."""

    @property
    def regularizer(self) -> Regularizer:
        """The penalty."""

    @property
    def y(self) -> Array:
        """The target (N,)."""

    @property
    def n_samples(self) -> int:
        """Number of samples N."""

    @property
    def n_kernels(self) -> int:
        """Number of kernels M."""

    @property
    def penalties(self) -> Array:
        """Kernel penalties ``w`` (M,)."""

    @property
    def largest_entries(self) -> Array:
        """Largest entry of each kernel, (M,)."""


def growth(n_terms: int) -> float:
    """Relative rounding error of a sum of so many terms, in units of the sum of their sizes."""
    return EPS * (FEW + float(np.sqrt(n_terms)))


def norm_error(problem: Sizes, norms: Array, vector: Array) -> Array:
    """Return by how much rounding may move ``norms``, (M,), the ``sqrt(vector' K_m vector)``."""
    size = float(np.abs(vector).sum())
    error = np.sqrt(growth(problem.n_samples) * problem.largest_entries) * size  # of the square: its square
    total = norms + np.hypot(norms, error)
    return np.divide(error * error, total, out=np.zeros_like(total), where=total > 0) + FEW * EPS * norms


def primal_rounding(problem: Sizes, rho: Array, d: Array, f: Array, b: float, t: Array, slopes: Array) -> float:
    """Return by how much rounding may move the primal value.

    Parameters
    ----------
    problem : Problem
    rho, d, f, b, t : arrays and float
        The model, its scores without intercept and its block norms.
    slopes : ndarray of shape (N,)
        Sizes of the derivatives of the loss by the scores.
    """
    products = growth(problem.n_samples) * float(np.abs(rho).sum()) * float(d @ problem.largest_entries)
    scores = products + FEW * EPS * (np.abs(f) + abs(b) + np.abs(problem.y))
    factors = problem.penalties * d
    norms = np.divide(t, factors, out=np.zeros_like(t), where=factors > 0)
    worse = problem.regularizer.value(t + factors * norm_error(problem, norms, rho))
    penalty = problem.regularizer.value(t)
    return float(slopes @ scores) + max(worse - penalty, 0.0) + growth(problem.n_kernels) * penalty


def dual_rounding(problem: Sizes, feasible: Array, u: Array, conjugates: Array, z: Array) -> float:
    """Return by how much rounding may have moved the dual value up, for feasible coefficients and their norms ``u``."""
    regularizer = problem.regularizer
    worse = u + norm_error(problem, problem.penalties * u, feasible) / problem.penalties
    shrunk = regularizer.dual_scale(worse)
    conjugate = regularizer.conjugate(u)
    sizes = float((np.abs(problem.y) + np.abs(z)) @ np.abs(feasible)) + float(np.abs(conjugates).sum())
    rising = max(regularizer.conjugate(shrunk * worse) - conjugate, 0.0)
    return (1.0 - shrunk + growth(problem.n_samples)) * sizes + rising + growth(problem.n_kernels) * conjugate
