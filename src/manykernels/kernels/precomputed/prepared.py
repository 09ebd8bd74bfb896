"""Samples of a precomputed stack made ready for block evaluation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.contract import PreparedRows
from manykernels.kernels.precomputed.stack import KernelStack
from manykernels.validation.arrays import Array


@dataclass(frozen=True, eq=False)
class PreparedKernels(PreparedRows):
    """Samples of a stack with what normalization needs of them; made by ``FittedPrecomputedBank.prepare``.

    Attributes
    ----------
    names : tuple of str
        The kernels of the bank that prepared these samples.
    kernel_ids : (M,) int
        Where its kernels are in the stack.
    stack : KernelStack or None
        None after :meth:`detach`: training samples that others can still be compared with.
    ids : (n,) int
        Samples of the stack.
    positions : (n,) int or None
        Where they are among the training samples; None for new samples.
    row_means, factors : (M, n) float64 or None
        As in :class:`Prepared`.
    """

    names: tuple[str, ...]
    kernel_ids: Array
    stack: KernelStack | None
    ids: Array
    positions: Array | None = None
    row_means: Array | None = None
    factors: Array | None = None

    @property
    def n_samples(self) -> int:  # type: ignore[override]  # a field of the twin that holds points
        """Number of samples."""
        return len(self.ids)

    def take(self, rows: Any) -> PreparedKernels:
        """Return the chosen samples (positions, slice or mask)."""
        return replace(
            self,
            stack=None if self.stack is None else self.stack[rows],
            ids=self.ids[rows],
            positions=None if self.positions is None else self.positions[rows],
            **self.normalization((slice(None), rows)),
        )

    def detach(self) -> PreparedKernels:
        """Return the samples without the matrices, small enough to be kept in a fitted model."""
        return replace(self, stack=None)

    def narrow(self, names: tuple[str, ...]) -> PreparedKernels:
        """Return what a bank of fewer kernels, with those names, needs of these samples."""
        chosen = self.places(names)
        return replace(self, names=names, kernel_ids=self.kernel_ids[chosen], **self.normalization(chosen))

    def columns_among(self, other: PreparedKernels) -> Array:
        """Return the columns of this side's matrices that hold the samples of ``other``, (n_other,) int."""
        assert self.stack is not None
        if self.stack.is_square:
            return self.stack.columns_of(other.ids)
        if other.positions is None:
            raise InvalidInputError("The kernels among new samples are not in a rectangular KernelStack.")
        return self.stack.training_columns()[other.positions]


def row_means(stack: KernelStack, kernels: Array, columns: Array) -> Array:
    """Return the mean of each kernel of every sample with the training samples, (m, n) float64, kernel by kernel."""
    ids = stack.sample_ids
    return np.array([stack.block([m], ids, columns)[0].mean(axis=1, dtype=np.float64) for m in kernels])
