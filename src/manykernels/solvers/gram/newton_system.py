"""The linear system of the second-order solvers: a positive definite matrix bordered by the intercept.

The linear systems of several targets: ``P = (W^- + I (x) K)^-1`` for the curvature ``W`` of the loss.

``W`` is diagonal for a sum over targets; every target then has a separate factorization, or all share one where the
curvature is constant. For the multinomial loss ``W_i = s_i (diag(p_i) - p_i p_i')``, and with ``E_t`` the operator of
the diagonal part ``s_i p_it``,

    P v = E v - E 1 (sum_t E_t)^-1 1' E v        (Rasmussen and Williams 2006, Algorithm 3.3)

with one more factorization. No inverse of a curvature is needed, so curvatures may be zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.blas import dsymm, dsymv, dsyrk
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from manykernels.compiled import compiled
from manykernels.grams.base import mirror_upper
from manykernels.solvers.run import check_deadline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from manykernels.objective.problem import Problem
    from manykernels.validation.arrays import Array


# Numbers of the method for shared weights that follow from no theorem: they decide the time, not what is certified.
#
# `benchmarks/shared_weights.py` measures what they cost.


# Linear systems
MOST_FACTOR_BYTES = 2**30  # of the factors of all targets; beyond, they are made anew at each use

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


@dataclass(frozen=True, eq=False)
class WholePart:
    """``E = (D^- + K)^-1`` of a single target, by the Cholesky factor of ``1 + D^(1/2) K D^(1/2)``."""

    root: Array
    factor: Array

    @classmethod
    def factorize(cls, gram: Array, curvature: Array) -> WholePart:
        """Factorize for a curvature (N,)."""
        root, matrix = np.sqrt(curvature), np.empty(gram.shape)
        _scale_upper(gram, root, matrix)
        # LAPACK wants columns in a row: of a symmetric matrix the transpose has them, without a strided copy.
        return cls(root, cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)[0])

    def apply(self, v: Array) -> Array:
        """Return ``E v`` (N, k)."""
        scaled = self.root[:, None] * v
        solved: Array = cho_solve((self.factor, True), scaled, overwrite_b=True, check_finite=False)
        return self.root[:, None] * solved

    def add_to(self, total: Array) -> None:
        """Add ``E`` to the lower triangle of a matrix."""
        _add_upper(dpotri(self.factor, lower=1)[0].T, self.root, total.T)


@compiled()
def _scale_upper(gram: Array, root: Array, out: Array) -> None:
    """Write ``1 + root_i K_ij root_j`` above and on the diagonal."""
    for i in range(root.size):
        for j in range(i, root.size):
            out[i, j] = root[i] * gram[i, j] * root[j]
        out[i, i] += 1.0


@compiled()
def _add_upper(inverse: Array, root: Array, total: Array) -> None:
    """Add ``root_i E_ij root_j`` above and on the diagonal."""
    for i in range(root.size):
        for j in range(i, root.size):
            total[i, j] += root[i] * inverse[i, j] * root[j]


class SharedSystem:
    """``P`` at one weighted sum of kernels and one curvature.

    Parameters
    ----------
    gram : ndarray of shape (N, N)
        ``K``.
    curvature : ndarray of shape (N, T)
        Diagonal of ``W``; of coupled losses ``s_i p_it``.
    problem : Problem
        Defines whether outputs are coupled and have intercepts.
    """

    def __init__(self, gram: Array, curvature: Array, problem: Problem) -> None:
        self._gram, self._curvature = gram, curvature
        n_targets = curvature.shape[1]
        alike = not problem.loss.coupled and bool((curvature == curvature[:, :1]).all())
        self._groups = [slice(0, n_targets)] if alike else [slice(t, t + 1) for t in range(n_targets)]
        self._kept: list[WholePart] | None = None
        if len(self._groups) * gram.nbytes <= MOST_FACTOR_BYTES:
            self._kept = [self._part(group) for group in self._groups]
        self._coupling = self._factorized_sum() if problem.loss.coupled else None
        self._constants = self._inverse_of_constants() if problem.fit_intercept else None

    def solve(self, rights: Array) -> Array:
        """Return ``P v`` for right-hand sides (k, N, T)."""
        each = self._diagonal(rights)
        if self._coupling is None:
            return each
        shared = cho_solve(self._coupling, each.sum(axis=2).T, check_finite=False).T
        return each - self._diagonal(np.broadcast_to(shared[:, :, None], rights.shape))

    def bordered(self, right: Array, totals: Array) -> tuple[Array, Array]:
        """Return ``x = P (right + 1 b')`` (N, T) and the ``b`` (T,) by which ``1' x = totals``, as far as there is one.

        The sum over targets reads the factors once, for both terms of ``x``.
        """
        each, b = self._diagonal(right[None])[0], np.zeros(totals.size)
        shared = None if self._coupling is None else cho_solve(self._coupling, each.sum(axis=1), check_finite=False)
        if self._constants is not None:
            sums = each.sum(axis=0) - (0.0 if shared is None else shared @ self._ones)
            b = self._constants @ (totals - sums)
            constant = self._ones * b
            each = each + constant
            if self._coupling is not None:
                shared = shared + cho_solve(self._coupling, constant.sum(axis=1), check_finite=False)
        if shared is None:
            return each, b
        return each - self._diagonal(np.broadcast_to(shared[:, None], each.shape)[None])[0], b

    def products(self, rights: Array) -> Array:
        """Return the inner products ``v_k' P v_l`` (k, k), the intercepts moving along."""
        solved = self.solve(rights)
        products = np.tensordot(rights, solved, axes=([1, 2], [1, 2]))
        if self._constants is not None:
            sums = solved.sum(axis=1)
            products -= sums @ self._constants @ sums.T
        return (products + products.T) / 2

    def _part(self, group: slice) -> WholePart:
        """Return ``E`` for the targets of a group with shared curvature."""
        check_deadline()
        return WholePart.factorize(self._gram, self._curvature[:, group.start])

    def _parts(self) -> Iterator[tuple[slice, WholePart]]:
        """Yield the parts, computed again on every call if all together exceed the memory limit."""
        for position, group in enumerate(self._groups):
            yield group, self._kept[position] if self._kept is not None else self._part(group)

    def _diagonal(self, rights: Array) -> Array:
        """Return ``E v`` (k, N, T)."""
        solved = np.empty(rights.shape)
        for group, part in self._parts():
            columns = rights[:, :, group].transpose(1, 0, 2)
            flat = part.apply(columns.reshape(len(columns), -1))
            solved[:, :, group] = flat.reshape(columns.shape).transpose(1, 0, 2)
        return solved

    def _factorized_sum(self) -> tuple[Array, bool]:
        """Return the Cholesky factor of ``sum_t E_t``."""
        total = np.zeros(self._gram.shape, order="F")  # as LAPACK writes and reads
        for _, part in self._parts():
            part.add_to(total)
        return cho_factor(total, lower=True, overwrite_a=True, check_finite=False)  # reads the lower triangle

    def _inverse_of_constants(self) -> Array:
        """Return the pseudoinverse of ``1' P 1`` (T, T); coupled intercepts are only defined up to a constant."""
        self._ones = self._diagonal(np.ones((1, *self._curvature.shape)))[0]
        matrix = np.diag(self._ones.sum(axis=0))
        if self._coupling is not None:
            matrix -= self._ones.T @ cho_solve(self._coupling, self._ones, check_finite=False)
        rank_tolerance = 1e-13  # of the largest eigenvalue, below which intercepts are not determined
        return np.linalg.pinv(matrix, rcond=rank_tolerance, hermitian=True)


LARGEST_JITTER = 1e-7


class NewtonSystem:
    """Solve ``matrix @ x + multiplier * 1 = right``, ``sum(x) = total`` (the border only with an intercept).

    Near the optimum, entries span many orders of magnitude. Errors of a Cholesky factorization are relative to the
    diagonal, row by row, and so is the jitter added after a breakdown. Only the upper triangle of the matrix is read.
    The array is overwritten: the factor takes the diagonal and the lower triangle.
    """

    def __init__(self, matrix: Array, border: bool) -> None:
        check_deadline()
        rows = matrix if matrix.flags.c_contiguous else np.asfortranarray(matrix).T
        mirror_upper(rows)
        self._both = rows.T  # LAPACK wants columns in a row: of a symmetric matrix the transpose has them
        self._shared = rows.reshape(-1)[:: len(rows) + 1]  # the diagonal, a view
        self._diagonal = self._shared.copy()
        self._unit = 1.0 / np.sqrt(self._diagonal)
        _factorize(self._both, self._diagonal)
        self._of_factor = self._shared.copy()
        self._has_border, self._border = border, None  # type: bool, Array | None

    def solve(self, right: Array, total: float) -> tuple[Array, float]:
        """Return ``(x, multiplier)``."""
        if not self._has_border:
            return self._solve(right[None])[0], 0.0
        if self._border is None:  # two right-hand sides take a fifth more time than one
            rights = np.ones((2, right.size))
            rights[0] = right
            x, self._border = self._solve(rights)
        else:
            x = self._solve(right[None])[0]
        multiplier = float((x.sum() - total) / self._border_sum)
        return x - multiplier * self._border, multiplier

    @property
    def _border_sum(self) -> float:
        """Sum of the solution for ones: positive for a definite matrix, up to rounding."""
        assert self._border is not None
        total = float(self._border.sum())
        if not total > 0.0:
            raise LinAlgError("the Newton matrix is singular to working precision")
        return total

    def solve_for_sum(self, total: float) -> Array:
        """Return the solution with a given sum for a zero right-hand side, after another solve."""
        assert self._border is not None
        return self._border * (total / self._border_sum)

    def solve_each(self, rights: Array) -> Array:
        """Return the solutions for right-hand sides in rows, with sums of zero if there is a border."""
        x = self._solve(rights)
        if not self._has_border:
            return x
        if self._border is None:
            self._border = self._solve(np.ones((1, rights.shape[1])))[0]
        return x - np.outer(x.sum(axis=1) / self._border_sum, self._border)

    def _solve(self, rights: Array) -> Array:
        """Solve for right-hand sides in rows, with iterative refinement for large residuals."""
        x: Array = dpotrs(self._both, rights.T, lower=1)[0].T
        residuals = rights - self._products(x)
        # residual, relative to the right-hand side: below it a second solution would change nothing
        refined_above = 1e-12
        if not (np.abs(residuals * self._unit).max() <= refined_above * np.abs(rights * self._unit).max()):
            x += dpotrs(self._both, residuals.T, lower=1)[0].T
        return x

    def _products(self, x: Array) -> Array:
        """Return the products of the matrix with vectors in rows, with the diagonal stored at the factor."""
        self._shared[:] = self._diagonal
        few_rights = 4  # right-hand sides up to which products with each are the fastest
        try:
            if len(x) > few_rights:
                return np.asarray(dsymm(1.0, self._both, x.T, lower=0).T)
            return np.array([dsymv(1.0, self._both, own, lower=0) for own in x])
        finally:
            self._shared[:] = self._of_factor


class GroupedNewtonSystem(NewtonSystem):
    """The system with a border for all groups: ``groups' x = 0``."""

    def __init__(self, matrix: Array, groups: Array) -> None:
        super().__init__(matrix, border=False)
        self._groups = groups
        self._borders = self._solve(groups.T).T

    def solve(self, right: Array, total: float) -> tuple[Array, float]:
        """Return ``x`` and zero; group shifts in ``right`` are irrelevant."""
        x = self._solve(right[None])[0]
        multipliers = np.linalg.solve(self._groups.T @ self._borders, self._groups.T @ x)
        return x - self._borders @ multipliers, 0.0


def center_groups(matrix: Array, groups: Array) -> None:
    """Subtract the means of groups from rows and columns of a symmetric matrix, in place, in the upper triangle.

    ``groups`` (N, K) are indicators. Samples of no group get zero, and a diagonal of one.
    """
    counts, labels = groups.sum(axis=0), (groups @ np.arange(1, groups.shape[1] + 1)).astype(np.intp) - 1
    means = (matrix @ groups) / counts
    _center_upper(matrix, labels, means, (groups.T @ means) / counts[:, None])


@compiled()
def _center_upper(matrix: Array, labels: Array, means: Array, both: Array) -> None:
    """Subtract the means (N, K) of rows within groups, and add the block means (K, K)."""
    for i in range(labels.size):
        own = labels[i]
        for j in range(i, labels.size):
            other = labels[j]
            if own < 0 or other < 0:
                matrix[i, j] = 0.0
            else:
                matrix[i, j] -= means[i, other] + means[j, own] - both[own, other]
        if own < 0:
            matrix[i, i] = 1.0


def _factorize(matrix: Array, diagonal: Array) -> None:
    """Write the lower Cholesky factor of a symmetric matrix over the diagonal and the lower triangle.

    Calls LAPACK directly, without the overhead of SciPy for small systems. The upper triangle stays unchanged.
    """
    jitter = 0.0
    first_jitter = 1e-15
    while True:  # at most to LARGEST_JITTER
        failed = dpotrf(matrix, lower=1, clean=0, overwrite_a=1)[1]
        if not failed and np.isfinite(matrix.diagonal()).all():  # whatever is not finite ends on the diagonal
            return
        np.einsum("ii->i", matrix)[:] = diagonal
        for k in range(1, len(matrix)):
            matrix[k:, k - 1] = matrix[k - 1, k:]
        if not np.isfinite(matrix).all():
            raise LinAlgError("the Newton matrix has entries that are not finite")
        jitter = max(first_jitter, 100 * jitter)
        if jitter > LARGEST_JITTER:
            raise LinAlgError(f"{failed}-th leading minor of the Newton matrix is not positive definite")
        np.einsum("ii->i", matrix)[:] += jitter * diagonal


def add_rank_update(matrix: Array, rows: Array, coupling: Array) -> None:
    """Add ``sum_m coupling_m rows_m rows_m'`` to a symmetric ``matrix`` in place, leaving out negligible terms.

    Only the upper triangle is sure to have the sum, as `NewtonSystem` reads no other entries.
    """
    size = coupling * np.einsum("mi,mi->m", rows, rows)
    chosen = size > 1e-13 * matrix.trace()
    if chosen.any():
        scaled = rows[chosen] * np.sqrt(coupling[chosen])[:, None]
        if matrix.flags.c_contiguous:  # the BLAS adds to one triangle without a second matrix
            dsyrk(1.0, scaled.T, beta=1.0, c=matrix.T, lower=1, overwrite_c=1)
        else:
            matrix += scaled.T @ scaled
