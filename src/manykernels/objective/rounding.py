"""How far rounding alone may move a certificate: running error bounds of the primal and the dual value.

Every sum of n terms is taken to be off by ``(8 + sqrt(n))/2`` units of rounding times the sum of the sizes of its
terms: the worst case grows like n, which no sum reaches whose roundings point in different directions. For the same
reason the errors of different scores add up like independent ones. ``|K_ij| <= sqrt(K_ii K_jj)``, so nothing here costs
a pass over the kernels.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from manykernels.objective.regularizers.base import Regularizer
from manykernels.validation.arrays import Array

EPS = float(np.finfo(np.float64).eps)
INDEPENDENT = 4.0  # standard deviations of a sum of independent errors
FEW = 8.0  # roundings on the way of one number that is not a sum: scaling, root, product with a weight


class Sizes(Protocol):
    """What the bounds need to know of a problem."""

    @property
    def regularizer(self) -> Regularizer:
        """The penalty."""

    @property
    def loss(self) -> Any:
        """The loss."""

    @property
    def weight(self) -> Array:
        """Sample weights ``s`` (N,)."""

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
    def fit_intercept(self) -> bool:
        """Whether dual coefficients sum to zero."""

    @property
    def penalties(self) -> Array:
        """Kernel penalties ``w`` (M,)."""

    @property
    def entry_roots(self) -> Array:
        """Roots of the diagonals, (M, N), or of their largest entries, (M, 1)."""


def growth(n_terms: int) -> float:
    """Relative rounding error of a sum of so many terms, in units of the sum of their sizes."""
    return 0.5 * EPS * (FEW + float(np.sqrt(n_terms)))


def term_sizes(roots: Array, vector: Array) -> Array:
    """Roots of what the terms of ``vector' K_m vector`` add up to in size, (M,), from those of the entries.

    Of several outputs, (N, T), the terms of all count.
    """
    sizes = np.abs(vector)
    whole = roots.shape[1] == len(sizes)
    if sizes.ndim == 1:
        return roots @ sizes if whole else roots[:, 0] * float(sizes.sum())
    return np.linalg.norm(roots @ sizes if whole else roots * sizes.sum(axis=0), axis=1)


def norm_error(norms: Array, sizes: Array, n_samples: int) -> Array:
    """Return by how much rounding may move ``norms``, (M,), the roots of sums of terms with these `term_sizes`."""
    error = np.sqrt(growth(n_samples)) * sizes  # of the square: its square
    total = norms + np.hypot(norms, error)
    return np.divide(error * error, total, out=np.zeros_like(total), where=total > 0) + FEW * EPS * norms


def primal_rounding(problem: Sizes, rho: Array, d: Array, f: Array, b: float, t: Array, losses: Array) -> float:
    """Return by how much rounding may move the primal value."""
    scores = score_errors(problem, rho, d) + FEW * EPS * (np.abs(f) + abs(b) + np.abs(problem.y))
    rising = np.zeros_like(f)
    for moved in (f + b - scores, f + b + scores):
        rising = np.maximum(rising, problem.loss.value(problem.y, moved) - losses)
    fitted = growth(problem.n_samples) * float(problem.weight @ losses)
    fitted += INDEPENDENT * float(np.linalg.norm(problem.weight * rising))
    return fitted + _penalty_rounding(problem, rho, d, t)


def coupled_primal_rounding(problem: Sizes, rho: Array, d: Array, t: Array, moved: Array, summed: float) -> float:
    """Return the same where the loss is no sum over scores."""
    return summed + INDEPENDENT * float(np.linalg.norm(moved)) + _penalty_rounding(problem, rho, d, t)


def score_errors(problem: Sizes, rho: Array, d: Array) -> Array:
    """Return by how much rounding may move the scores of a model, (N,)."""
    active = np.flatnonzero(d)
    roots = problem.entry_roots[active]
    return np.asarray(growth(problem.n_samples) * ((d[active] * term_sizes(roots, rho)) @ roots))


def _penalty_rounding(problem: Sizes, rho: Array, d: Array, t: Array) -> float:
    """Return by how much rounding may move the penalty of a model."""
    active = np.flatnonzero(d)
    factors, sizes = problem.penalties[active] * d[active], term_sizes(problem.entry_roots[active], rho)
    worse = t.copy()
    worse[active] += factors * norm_error(t[active] / factors, sizes, problem.n_samples)
    penalty = problem.regularizer.value(t)
    return max(problem.regularizer.value(worse) - penalty, 0.0) + growth(problem.n_kernels) * penalty


def dual_rounding(problem: Sizes, feasible: Array, signed: Array, summed: float) -> float:
    """Return by how much rounding may have moved the dual value up, for feasible coefficients and their norms.

    Norms with a negative sign belong to kernels that are not definite, as rounding to float32 leaves them. With the
    nearest definite kernel they are larger by that much, and so are those of the model: hence twice.
    """
    regularizer, u = problem.regularizer, np.maximum(signed, 0.0)
    sizes = term_sizes(problem.entry_roots, feasible) / problem.penalties
    worse = u + norm_error(u, sizes, problem.n_samples) + 2.0 * np.maximum(-signed, 0.0)
    shrunk = regularizer.dual_scale(worse)
    conjugate = regularizer.conjugate(u)
    rising = max(regularizer.conjugate(shrunk * worse) - conjugate, 0.0)
    return (1.0 - shrunk + growth(problem.n_samples)) * summed + rising + growth(problem.n_kernels) * conjugate
