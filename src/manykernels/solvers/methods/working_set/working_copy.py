"""Where the kernels of a working set are read from: the stack itself if in memory, else a packed copy if that fits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from manykernels.grams.packed import PackedStack
from manykernels.solvers.methods.working_set.tuning import SINGLE_PRECISION_GAP

if TYPE_CHECKING:
    from manykernels.grams.base import GramStack
    from manykernels.objective.problem import Problem
    from manykernels.validation.arrays import Array


@dataclass
class WorkingCopy:
    """The kernels of a working set of ``problem``, evaluated once each while they stay in it.

    Rows of one buffer are reused from set to set: a second copy, or freshly allocated memory, would cost more than
    the evaluation of the kernels. A set whose copy would pass the bytes that the stack spares is read from the stack,
    which evaluates its kernels in every pass.
    """

    problem: Problem
    tol: float
    kernels: Array = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    _buffer: Array | None = field(default=None, repr=False)

    def choose(self, kernels: Array) -> Problem:
        """Return the problem on ``kernels``; those that were in the set before must come first, in their old order."""
        stack = self.problem.stack
        if stack.in_memory:
            chosen: GramStack = stack.view(kernels)
            self.kernels = kernels
        elif self._fits(kernels.size):
            chosen = PackedStack(self._packed(kernels), stack.n_samples, n_threads=stack.n_threads)
            self.kernels = kernels
        else:
            chosen = stack.take(kernels)
            self.kernels, self._buffer = np.zeros(0, dtype=np.intp), None
        problem = self.problem
        return replace(
            problem,
            stack=chosen,
            kernel_penalties=problem.penalties[kernels],
            regularizer=problem.regularizer.take(kernels),
        )

    def _packed(self, kernels: Array) -> Array:
        kept = np.flatnonzero(np.isin(self.kernels, kernels))
        buffer = self._room(kernels.size)
        source = buffer if self._buffer is None else self._buffer
        for new, old in enumerate(kept):
            if new != old or source is not buffer:
                buffer[new] = source[old]
        self._buffer = buffer
        if kernels.size > kept.size:
            self.problem.stack.triangles(kernels[kept.size :], out=buffer[kept.size : kernels.size])
        return buffer[: kernels.size]

    @property
    def _dtype(self) -> Any:
        single = self.tol >= SINGLE_PRECISION_GAP or self.problem.stack.dtype == np.float32
        return np.dtype(np.float32 if single else np.float64)

    @property
    def _most_rows(self) -> int:
        """Number of kernels whose triangles may be held."""
        stack = self.problem.stack
        row = self._dtype.itemsize * stack.n_samples * (stack.n_samples + 1) // 2
        return stack.n_kernels if stack.spare_bytes is None else min(stack.n_kernels, stack.spare_bytes // row)

    def _fits(self, size: int) -> bool:
        """Return whether ``size`` kernels can be held, beside the rows of a buffer that they outgrow."""
        outgrown = self._buffer is not None and self._buffer.shape[0] < size
        return size + (self.kernels.size if outgrown else 0) <= self._most_rows

    def _room(self, size: int) -> Array:
        """Return a buffer of at least ``size`` rows; rows that are never written take no memory."""
        if self._buffer is not None and self._buffer.shape[0] >= size:
            return self._buffer
        entries = self.problem.stack.n_samples * (self.problem.stack.n_samples + 1) // 2
        return np.empty((min(4 * size, self._most_rows), entries), dtype=self._dtype)
