"""Kernel rows for sequential minimal optimization: in the units that make all penalties one, from a bounded cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manykernels.solvers.engines.fixed_weights.pair_loops import MISSING

if TYPE_CHECKING:
    from manykernels.objective.problem import Problem
    from manykernels.validation.arrays import Array


class UnitKernels:
    """The kernels ``Q_j = K_j / (lam w_j^2)`` of a working set."""

    def __init__(self, problem: Problem, kernels: Array) -> None:
        self.problem, self.kernels = problem, kernels
        self.scales = 1.0 / (problem.regularizer.strength * problem.penalties[kernels] ** 2)

    def products(self, rho: Array) -> Array:
        """``Q_j rho`` (M, N)."""
        return self.problem.stack.apply_each(rho, self.kernels) * self.scales[:, None]

    def row(self, i: int) -> Array:
        """Row ``i`` of every kernel (M, N)."""
        return self.problem.stack.block([i], None, self.kernels)[:, 0] * self.scales[:, None]

    def diagonals(self) -> Array:
        """Diagonals (M, N)."""
        return self.problem.stack.diag()[self.kernels] * self.scales[:, None]

    def combined(self, eta: Array) -> Array:
        """``sum_j eta_j Q_j`` (N, N)."""
        weights = np.zeros(self.problem.n_kernels)
        weights[self.kernels] = eta * self.scales
        return self.problem.stack.combine(weights)


class RowCache:
    """Rows of all kernels, as many as fit into a number of bytes (at least two); the one used least recently goes."""

    def __init__(self, kernels: UnitKernels, most_bytes: int) -> None:
        size, n_samples = len(kernels.kernels), kernels.problem.n_samples
        capacity = int(np.clip(most_bytes // (8 * size * n_samples), min(2, n_samples), n_samples))
        self._kernels = kernels
        self.rows = np.empty((capacity, size, n_samples))
        self.slots = np.full(n_samples, MISSING)
        self.stamps = np.zeros(capacity, dtype=np.int64)
        self._owners = np.full(capacity, MISSING)
        self.fetched = 0

    def fetch(self, i: int) -> None:
        """Put row ``i`` in the place of the row used least recently."""
        slot = int(np.argmin(self.stamps))
        if self._owners[slot] != MISSING:
            self.slots[self._owners[slot]] = MISSING
        self.rows[slot] = self._kernels.row(i)
        self.slots[i], self._owners[slot] = slot, i
        self.stamps[slot] = self.stamps.max() + 1
        self.fetched += 1
