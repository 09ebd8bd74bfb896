"""Kernels ``K_m (x) I``: what several targets with shared weights are to one kernel is what one target is to these."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.grams.factored import FactoredStack, FactorOperator
from manykernels.grams.rows.columns import ColumnTable
from manykernels.kernels import KernelSpec
from manykernels.solvers.engines.factored.targets.operators import OperatorOfTargets

Array = NDArray[Any]


class StackOfTargets(FactoredStack):
    """The kernels of a stack on a copy of its samples for every target, zero between copies.

    ``rho' K rho`` is a sum over targets, and so are its bounds; a pass serves all targets.

    Parameters
    ----------
    stack : FactoredStack
        Of one copy.
    n_targets : int
    """

    def __init__(self, stack: FactoredStack, n_targets: int) -> None:
        size = stack.n_samples * n_targets
        super().__init__(stack.n_kernels, size, stack.dtype, names=stack.names, n_threads=stack.n_threads)
        self.base, self.n_targets = stack, n_targets
        self.table = stack.table

    def columns(self, rho: Array) -> Array:
        """Return a vector over all copies as one column a target, (N, T)."""
        return rho.reshape(self.n_targets, -1).T

    # --- passes ------------------------------------------------------------------------------------------------------

    def _quad(self, r: Array) -> Array:
        return np.sum([self.base.quad(np.ascontiguousarray(column)) for column in self.columns(r).T], axis=0)

    def error_bound(self, rho: Array) -> Array:
        """Return bounds (M,) on the error of ``quad(rho)``."""
        return np.sum([self.base.error_bound(column) for column in self.columns(rho).T], axis=0)

    def quad_bounds(self, rho: Array) -> tuple[Array, Array]:
        """Return bounds (M,) from below and above on ``sum_t rho_t' K_m rho_t``: one pass."""
        low, high = zip(*self.base.quad_bounds_each(list(self.columns(rho).T)), strict=True)
        return np.sum(low, axis=0), np.sum(high, axis=0)

    def exact_quad(self, kernel: int, rho: Array) -> tuple[float, float]:
        """Return the form of one kernel as well as it can be had, and a bound on its error."""
        parts = [self.base.exact_quad(kernel, np.ascontiguousarray(column)) for column in self.columns(rho).T]
        values, errors = zip(*parts, strict=True)
        return sum(values), sum(errors)

    @property
    def exact_cost(self) -> float:
        """Kernel values that one exact quadratic form computes."""
        return self.n_targets * self.base.exact_cost

    @property
    def error_constants(self) -> Array:
        """Bounds (M,) on ``|quad(rho)_m - rho' K_m rho| / ||rho||_1^2``."""
        return self.base.error_constants

    # --- factors -----------------------------------------------------------------------------------------------------

    def operators(self, kernels: Sequence[int], tol: float) -> list[FactorOperator]:
        """Return the factors of these kernels for every target."""
        return [OperatorOfTargets(operator, self.n_targets) for operator in self.base.operators(kernels, tol)]

    def templates(self, kernels: Sequence[int], tol: float) -> list[Any]:
        """Return operators of one copy without rows."""
        return self.base.templates(kernels, tol)

    def factor(self, kernel: int, tol: float) -> Array:
        """Return ``Z_m`` of all copies."""
        return np.kron(np.eye(self.n_targets), self.base.factor(kernel, tol))

    def features(self, kernel: int, X: ColumnTable, tol: float) -> Array:
        """Return the rows of ``Z_m`` that copies of new samples would have."""
        return np.kron(np.eye(self.n_targets), self.base.features(kernel, X, tol))

    # --- what the stack of one copy knows ----------------------------------------------------------------------------

    def _block(self, rows: Array, cols: Array, kernels: Array) -> Array:
        n = self.base.n_samples
        same = (rows // n)[:, None] == cols // n
        return np.where(same, self.base.block(rows % n, cols % n, kernels), 0.0)

    def _kernel_diag(self, kernel: int) -> Array:
        return np.tile(self.base._kernel_diag(kernel), self.n_targets)

    @cached_property
    def largest(self) -> Array:
        """Return the largest diagonal entry of every kernel, (M,)."""
        return self.base.largest

    def diag_sums(self, weight: Array) -> Array:
        """Return ``sum_i s_i k_m(x_i, x_i)`` over all copies, (M,)."""
        return self.base.diag_sums(self.columns(weight).sum(axis=1))

    def cross_apply(self, kernel: int, X: ColumnTable, rho: Array) -> Array:
        """Return ``sum_i rho_i k_m(x, x_i)`` at copies of new rows."""
        return np.concatenate([self.base.cross_apply(kernel, X, column) for column in self.columns(rho).T])

    @property
    def nbytes(self) -> int:
        """Bytes held by the stack of one copy."""
        return self.base.nbytes

    def spec_of(self, kernel: int) -> KernelSpec:
        """Return a kernel by itself, without scale."""
        return self.base.spec_of(kernel)

    def columns_of(self, kernel: int) -> tuple[int, ...]:
        """Return the columns that a kernel acts on."""
        return self.base.columns_of(kernel)

    @property
    def most_landmarks(self) -> int:
        """Columns that factors of kernels on several columns may have."""
        return self.base.most_landmarks

    def left_over(self, kernel: int, tol: float) -> float:
        """Return the part of the trace that a factor leaves although it should not."""
        return self.base.left_over(kernel, tol)

    def neighbors(self) -> Array:
        """Return for every kernel those that are next to it in width."""
        return self.base.neighbors()
