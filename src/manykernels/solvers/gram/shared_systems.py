"""The linear systems of several targets: ``P = (W^- + I (x) K)^-1`` for the curvature ``W`` of the loss.

``W`` is diagonal for a sum over targets; every target then has a factorization of its own, or all share one where the
curvature is constant. For the multinomial loss ``W_i = s_i (diag(p_i) - p_i p_i')``, and with ``E_t`` the operator of
the diagonal part ``s_i p_it``,

    P v = E v - E 1 (sum_t E_t)^-1 1' E v        (Rasmussen and Williams 2006, Algorithm 3.3)

which is one more factorization. No inverse of a curvature is needed, so that it may be zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpotri

from manykernels.solvers.run import check_deadline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from manykernels.validation.arrays import Array


# Numbers of the method for shared weights that follow from no theorem: they decide the time, not what is certified.
#
# `benchmarks/shared_weights.py` measures what they cost.


# Linear systems
MOST_FACTOR_BYTES = 2**30  # of the factors of all targets; beyond, they are made anew at each use
RANK_TOLERANCE = 1e-13  # of the largest eigenvalue, below which intercepts are not determined

# Machines at fixed weights
MOST_STEPS = 50  # of Newton's method for one set of weights
MOST_HALVINGS = 40  # of a step that does not decrease the objective enough
ENOUGH_DECREASE = 1e-4  # of what the slope promises

# Steps over the weights
INNER_SHARE = 0.02  # of the gap: how closely a machine is solved before the weights move on
CLOSEST = 1e-15  # relative decrease below which nothing can be asked of float64
FIRST_SET = 20  # kernels of the first working set; later ones may grow by as many
NEARLY_VIOLATED = 0.99  # kernels this close to the bound are taken in
MOST_SHORTENINGS = 4  # of a step over the weights, each to a fourth, before the weights follow from the norms
SHORTENING = 0.25
CENTERING = 0.1  # factor by which complementarity products fall in a step of the program over the weights
BOUNDARY = 0.995  # of the way to the boundary
MOST_PROGRAM_STEPS = 100
PROGRAM_GAP = 1e-15  # relative, of the program over the weights


class SharedSystem:
    """``P`` at one weighted sum of kernels and one curvature.

    Parameters
    ----------
    gram : ndarray of shape (N, N)
        ``K``.
    curvature : ndarray of shape (N, T)
        Diagonal of ``W``; of coupled losses ``s_i p_it``.
    coupled : bool
        Whether the scores of a sample act on each other.
    intercept : bool
        Whether every target has an intercept.
    """

    def __init__(self, gram: Array, curvature: Array, *, coupled: bool, intercept: bool) -> None:
        self._gram, self._roots = gram, np.sqrt(curvature)
        n_targets = curvature.shape[1]
        alike = not coupled and bool((curvature == curvature[:, :1]).all())
        self._groups = [slice(0, n_targets)] if alike else [slice(t, t + 1) for t in range(n_targets)]
        self._kept: list[Array] | None = None
        if len(self._groups) * gram.nbytes <= MOST_FACTOR_BYTES:
            self._kept = [self._factor(group) for group in self._groups]
        self._coupling = self._factorized_sum() if coupled else None
        self._constants = self._inverse_of_constants() if intercept else None

    def solve(self, rights: Array) -> Array:
        """Return ``P v`` for right-hand sides (k, N, T)."""
        each = self._diagonal(rights)
        if self._coupling is None:
            return each
        shared = cho_solve(self._coupling, each.sum(axis=2).T, check_finite=False).T
        return each - self._diagonal(np.broadcast_to(shared[:, :, None], rights.shape))

    def intercepts(self, missing: Array) -> Array:
        """Return the intercepts ``b`` (T,) with ``1' P 1 b = missing``, or zeros where there are none."""
        return np.zeros(missing.size) if self._constants is None else self._constants @ missing

    def products(self, rights: Array) -> Array:
        """Return the inner products ``v_k' P v_l`` (k, k), the intercepts moving along."""
        solved = self.solve(rights)
        products = np.tensordot(rights, solved, axes=([1, 2], [1, 2]))
        if self._constants is not None:
            sums = solved.sum(axis=1)
            products -= sums @ self._constants @ sums.T
        return (products + products.T) / 2

    def _factor(self, group: slice) -> Array:
        """Cholesky factor of ``1 + W^(1/2) K W^(1/2)`` for the targets of a group, which share the curvature."""
        check_deadline()
        root = self._roots[:, group.start]
        matrix = self._gram * root
        matrix *= root[:, None]
        matrix[np.diag_indices_from(matrix)] += 1.0
        return cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)[0]

    def _factors(self) -> Iterator[tuple[slice, Array]]:
        """Yield the factors, made anew each time where all of them take too much memory."""
        for position, group in enumerate(self._groups):
            yield group, self._kept[position] if self._kept is not None else self._factor(group)

    def _diagonal(self, rights: Array) -> Array:
        """Return ``E v`` (k, N, T)."""
        solved = np.empty(rights.shape)
        for group, factor in self._factors():
            root = self._roots[:, group.start, None]
            columns = rights[:, :, group].transpose(1, 0, 2)
            flat = root * columns.reshape(len(root), -1)
            flat = root * cho_solve((factor, True), flat, overwrite_b=True, check_finite=False)
            solved[:, :, group] = flat.reshape(columns.shape).transpose(1, 0, 2)
        return solved

    def _factorized_sum(self) -> tuple[Array, bool]:
        """Return the Cholesky factor of ``sum_t E_t``."""
        total = np.zeros(self._gram.shape)
        for group, factor in self._factors():
            inverse = dpotri(factor, lower=1)[0]
            root = self._roots[:, group.start]
            inverse *= root
            inverse *= root[:, None]
            total += inverse
        return cho_factor(total, lower=True, check_finite=False)  # reads the lower triangle, where the inverses are

    def _inverse_of_constants(self) -> Array:
        """Return the pseudoinverse of ``1' P 1`` (T, T); coupled intercepts are only defined up to a constant."""
        ones = self._diagonal(np.ones((1, *self._roots.shape)))[0]
        matrix = np.diag(ones.sum(axis=0))
        if self._coupling is not None:
            matrix -= ones.T @ cho_solve(self._coupling, ones, check_finite=False)
        return np.linalg.pinv(matrix, rcond=RANK_TOLERANCE, hermitian=True)
