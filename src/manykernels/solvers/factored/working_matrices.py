"""The problem on a working set in N x N matrices, in place of factors: cost, and solution."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from itertools import pairwise
from typing import cast

import numpy as np

from manykernels.grams.base import GramStack
from manykernels.grams.dense import DenseStack
from manykernels.grams.factored import FactoredStack
from manykernels.grams.plan import SQUARE_ARRAYS
from manykernels.objective.problem import Problem
from manykernels.solvers.factored.fallback import (
    MATRIX_FACTORS,
    SINGLE_PRECISION_TOL,
    allowed_bytes,
    matrix_first,
    result_of,
    solve_by_grams,
    start_at,
)
from manykernels.solvers.factored.state import ExactContinuation
from manykernels.solvers.solution import Model, Solution
from manykernels.validation.arrays import Array

# Some kernels as N x N matrices, the others as factors: a Gram stack in memory for solvers that form sums of both.

ROWS = 256  # of a matrix that are added at once


class MixedStack(GramStack):
    """Kernels held as matrices, then kernels held as factors, ``K_m = Z_m Z_m'``.

    Parameters
    ----------
    whole : sequence of (n_samples, n_samples) arrays, float32 or float64
        The first kernels.
    factors : ndarray of shape (n_samples, rank)
        Factors of the rest side by side.
    starts : ndarray of shape (g + 1,)
        Columns ``starts[i]:starts[i + 1]`` belong to the i-th of them.
    """

    in_memory = True

    def __init__(self, whole: Sequence[Array], factors: Array, starts: Array) -> None:
        super().__init__(len(whole) + len(starts) - 1, len(factors), np.float64)
        self._whole = [DenseStack(gram[None]) for gram in whole]
        self._factors, self._starts = factors, np.asarray(starts)

    def _factor(self, kernel: int) -> Array:
        slot = kernel - len(self._whole)
        return self._factors[:, self._starts[slot] : self._starts[slot + 1]]

    def _block(self, rows: Array, cols: Array, kernels: Array) -> Array:
        out = np.empty((len(kernels), len(rows), len(cols)))
        for slot, kernel in enumerate(kernels.tolist()):
            if kernel < len(self._whole):
                out[slot] = self._whole[kernel].block(rows, cols)[0]
            else:
                # Products of rows one by one, whose last bits do not depend on which rows are beside them.
                Z = self._factor(kernel)
                out[slot] = np.einsum("ik,jk->ij", Z[rows], Z[cols])
        return out

    def diag(self) -> Array:
        squares = self._factors**2
        own = [squares[:, low:high].sum(axis=1) for low, high in pairwise(self._starts)]
        return np.vstack([*(gram.diag()[0] for gram in self._whole), *own])

    @property
    def nbytes(self) -> int:
        """Bytes of matrices and factors."""
        return int(self._factors.nbytes) + sum(gram.nbytes for gram in self._whole)

    def _quad(self, r: Array) -> Array:
        squares = np.concatenate([[0.0], np.cumsum((r @ self._factors) ** 2)])
        own = np.maximum(np.diff(squares[self._starts]), 0.0)
        return np.concatenate([*(gram._quad(r) for gram in self._whole), own])

    def _apply_each(self, columns: Array, kernels: Array) -> Array:
        out = np.empty((len(kernels), *columns.shape))
        for slot, kernel in enumerate(kernels.tolist()):
            if kernel < len(self._whole):
                out[slot] = self._whole[kernel]._apply_each(columns, np.zeros(1, dtype=np.int64))[0]
            else:
                Z = self._factor(kernel)
                out[slot] = Z @ (Z.T @ columns)
        return out

    def _combine(self, weights: Array, active: Array) -> Array:
        own = np.repeat(weights[len(self._whole) :], np.diff(self._starts))
        used = np.flatnonzero(own)
        factors, signs = self._factors[:, used] * np.sqrt(np.abs(own[used])), np.sign(own[used])
        # A matrix times its own transpose costs half of another product, and is symmetric to the last bit.
        added = factors if (signs > 0).all() else factors[:, signs > 0]
        total = added @ added.T
        if added is not factors:
            taken = factors[:, signs < 0]
            total -= taken @ taken.T
        for gram, weight in zip(self._whole, weights, strict=False):
            for start in range(0, self.n_samples, ROWS) if weight else ():
                total[start : start + ROWS] += weight * gram.array[0, start : start + ROWS]
        return total


class WorkingMatrices:
    """The problem on the kernels of a working set, in N x N matrices where factors cannot be as fine as they should be.

    Parameters
    ----------
    problem : Problem
        On a `FactoredStack`.
    tol : float
        Relative gap of the exact kernels asked for: a loose one lets matrices be held in single precision.
    """

    def __init__(self, problem: Problem, tol: float) -> None:
        self.problem, self.stack = problem, cast("FactoredStack", problem.stack)
        single = tol >= SINGLE_PRECISION_TOL and not problem.unpenalized.size
        self._dtype = np.dtype(np.float32 if single else np.float64)
        self.whole: list[int] = []
        self._matrices: list[Array] = []
        self._factors: list[tuple[Array, Array, Array]] = []  # kernels, starts, factors
        self._last: dict[int, float] = {}
        self._solution: Solution | None = None
        self._begun: Model | None = None

    def begin(self, model: Model) -> None:
        """Begin where factors ended, with weights of all kernels of the stack."""
        self._begun = model

    def transfer(self, problem: Problem) -> WorkingMatrices:
        """Return the same matrices for another problem on the same kernels and rows, with a warm start."""
        other = copy(self)
        other.problem, other.stack = problem, cast("FactoredStack", problem.stack)
        return other

    @property
    def kernels(self) -> Array:
        """The kernels, in the order of the matrices: whole matrices first."""
        return np.concatenate([np.array(self.whole, dtype=np.int64), *(kernels for kernels, *_ in self._factors)])

    @property
    def allowed(self) -> int:
        """Available bytes."""
        return allowed_bytes(self.stack)

    def needed(self, kernels: Sequence[int]) -> int:
        """Return the bytes of the matrices of the kernels, beside existing ones, and of a solver."""
        n = self.stack.n_samples
        count = len(self.whole) + sum(1 for m in kernels if self._goes_whole(int(m)))
        # A solver for several outputs factorizes one matrix for each, but for squares.
        each = self.problem.n_targets if self.problem.shared and not self.problem.loss.linear_dual else 0
        return (8 * (SQUARE_ARRAYS + each) + self._dtype.itemsize * count) * n**2

    def _goes_whole(self, kernel: int) -> bool:
        return matrix_first(self.stack, kernel) or self.stack.residual_trace(kernel, MATRIX_FACTORS) > 0

    def add(self, kernels: Sequence[int]) -> None:
        """Add kernels, evaluated once."""
        new = [int(m) for m in kernels]
        whole = [m for m in new if self._goes_whole(m)]
        # New lists: those that `over` shares stay as they are.
        self.whole, self._matrices = self.whole + whole, self._matrices + [self._matrix(m) for m in whole]
        others = [m for m in new if m not in set(whole)]
        rows = np.arange(self.stack.n_samples)
        operators = self.stack.operators(others, MATRIX_FACTORS) if others else []
        self._factors = self._factors + [(each.kernels, each.starts, each.rows(rows)) for each in operators]

    def _matrix(self, kernel: int) -> Array:
        """Return a single kernel on all rows."""
        n = self.stack.n_samples
        most_single = 1e30  # on the diagonal: single precision ends at 3e38
        single = self.stack._kernel_diag(kernel).max() < most_single
        out = np.empty((n, n), dtype=self._dtype if single else np.float64)
        for start in range(0, n, ROWS):
            here = slice(start, min(start + ROWS, n))
            out[here, start:] = self.stack.block(here, slice(start, n), [kernel])[0]
            out[here.stop :, here] = out[here, here.stop :].T
        return out

    def solve(self, tol: float, time_limit: float) -> ExactContinuation:
        """Solve, from the last solution; sufficiently accurate factors supply the functions."""
        kernels = self.kernels
        n = self.stack.n_samples
        ranks = [np.diff(starts) for _, starts, _ in self._factors]
        starts = np.concatenate([[0], np.cumsum(np.concatenate([np.zeros(0, dtype=np.int64), *ranks]))])
        factors = np.hstack([np.zeros((n, 0)), *(rows for *_, rows in self._factors)])
        problem = self.problem
        own = replace(
            problem,
            stack=MixedStack(self._matrices, factors, starts),
            kernel_penalties=problem.penalties[kernels],
            regularizer=problem.regularizer.take(kernels),
        )
        solution = solve_by_grams(own, tol, time_limit, self._extend_start(own, kernels))
        self._last = dict(zip(kernels.tolist(), solution.kernel_weights.tolist(), strict=True))
        self._solution = solution
        return result_of(self.problem, self.stack, solution, kernels, set(self.whole))

    def _extend_start(self, own: Problem, kernels: Array) -> Solution | None:
        """Return the solution on fewer kernels, or of factors, extended to the present kernels."""
        if self._solution is None:
            if self._begun is None:
                return None
            rho, weights, b = self._begun
            return start_at(own, (rho, weights[kernels], b))
        return replace(self._solution, kernel_weights=np.array([self._last.get(m, 0.0) for m in kernels.tolist()]))
