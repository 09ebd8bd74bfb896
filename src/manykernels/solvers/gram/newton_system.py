"""The one linear system of the second-order solvers: a positive definite matrix bordered by the intercept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.blas import dsyrk

from manykernels.grams.loops import mirror_upper
from manykernels.solvers.run import check_deadline

if TYPE_CHECKING:
    from manykernels.validation.arrays import Array

FIRST_JITTER = 1e-15
LARGEST_JITTER = 1e-7


class NewtonSystem:
    """Solve ``matrix @ x + multiplier * 1 = right``, ``sum(x) = total`` (the border only with an intercept).

    The matrix is scaled to unit diagonal before its Cholesky factorization: its entries span many orders of magnitude
    near the optimum. A jitter relative to that unit diagonal is added only if the factorization breaks down.
    """

    def __init__(self, matrix: Array, border: bool) -> None:
        check_deadline()
        self._scale = 1.0 / np.sqrt(matrix.diagonal())
        matrix *= self._scale
        matrix *= self._scale[:, None]
        self._matrix = matrix
        self._factor = _factorize(matrix)
        self._border = self._solve(np.ones(matrix.shape[0])) if border else None

    def solve(self, right: Array, total: float) -> tuple[Array, float]:
        """Return ``(x, multiplier)``."""
        x = self._solve(right)
        if self._border is None:
            return x, 0.0
        multiplier = float((x.sum() - total) / self._border.sum())
        return x - multiplier * self._border, multiplier

    def solve_each(self, rights: Array) -> Array:
        """Return the solutions for right-hand sides in rows, with sums of zero if there is a border."""
        x = self._solve(rights.T).T
        if self._border is None:
            return x
        return x - np.outer(x.sum(axis=1) / self._border.sum(), self._border)

    def _solve(self, right: Array) -> Array:
        """Solve with one step of iterative refinement: near the optimum the matrix is ill-conditioned."""
        scale = self._scale if right.ndim == 1 else self._scale[:, None]
        scaled = scale * right
        x = cho_solve(self._factor, scaled, check_finite=False)
        x += cho_solve(self._factor, scaled - self._matrix @ x, check_finite=False)
        return scale * x


class GroupedNewtonSystem(NewtonSystem):
    """The same with a border for each of several groups: ``groups' x = 0``."""

    def __init__(self, matrix: Array, groups: Array) -> None:
        super().__init__(matrix, border=False)
        self._groups = groups
        self._borders = self._solve(groups)

    def solve(self, right: Array, total: float) -> tuple[Array, float]:
        """Return ``x`` and zero; what shifts of the groups add to ``right`` plays no part."""
        x = self._solve(right)
        multipliers = np.linalg.solve(self._groups.T @ self._borders, self._groups.T @ x)
        return x - self._borders @ multipliers, 0.0


def _factorize(matrix: Array) -> tuple[Array, bool]:
    if not np.isfinite(matrix).all():
        raise LinAlgError("the Newton matrix has entries that are not finite")
    jitter = 0.0
    while True:  # at most to LARGEST_JITTER
        try:
            shifted = matrix + jitter * np.eye(matrix.shape[0]) if jitter else matrix
            # LAPACK wants columns in a row: of a symmetric matrix the transpose has them, without a strided copy.
            return cho_factor(shifted.T, lower=True, check_finite=False)
        except LinAlgError:
            jitter = max(FIRST_JITTER, 100 * jitter)
            if jitter > LARGEST_JITTER:
                raise


def add_rank_update(matrix: Array, rows: Array, coupling: Array) -> None:
    """Add ``sum_m coupling_m rows_m rows_m'`` to a symmetric ``matrix`` in place, leaving out negligible terms."""
    size = coupling * np.einsum("mi,mi->m", rows, rows)
    chosen = size > 1e-13 * matrix.trace()
    if chosen.any():
        scaled = rows[chosen] * np.sqrt(coupling[chosen])[:, None]
        if matrix.flags.c_contiguous:  # the BLAS adds to one triangle without a second matrix
            dsyrk(1.0, scaled.T, beta=1.0, c=matrix.T, lower=1, overwrite_c=1)
            mirror_upper(matrix)
        else:
            matrix += scaled.T @ scaled
