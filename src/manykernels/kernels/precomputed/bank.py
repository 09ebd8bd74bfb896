"""Precomputed kernels of a stack and their normalization, learned on training samples: the surface of a bank."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.contract import OTHER_BANK, HeldGrams, Index, PreparedRows, RawKernels, RowData, Side
from manykernels.kernels.bank.fitted import Bank, FittedBank, learn
from manykernels.kernels.bank.normalization import check_normalization
from manykernels.kernels.precomputed.stack import KernelStack, as_kernel_stack
from manykernels.validation.arrays import Array
from manykernels.validation.gram import Unproven

PROBE_COLUMNS = 16


@dataclass(frozen=True)
class PrecomputedBank(Bank):
    """How precomputed kernels are normalized; the counterpart of :class:`KernelBank` for a :class:`KernelStack`.

    Parameters
    ----------
    normalize : {"trace", "mean_diagonal", "unit_diagonal", None}, default="mean_diagonal"
        What becomes one on the training samples: the trace, the mean of the diagonal, or the every entry.
    center : bool, default=False
        Whether the training mean is subtracted in the feature space of every kernel first.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.kernels import KernelStack, PrecomputedBank
    >>> stack = KernelStack(np.eye(4)[None])
    >>> PrecomputedBank(normalize="trace").fit(stack[:2]).scales
    array([0.5])
    """

    normalize: str | None = "mean_diagonal"
    center: bool = False

    def __post_init__(self) -> None:
        check_normalization(self.normalize)

    def check(self, X: object) -> None:
        as_kernel_stack(X)  # which was checked when it was made, if it is one

    def fit_prepare(self, X: object) -> tuple[FittedBank, PreparedRows[StackSamples]]:
        stack = as_kernel_stack(X)
        if not stack.is_square:
            stack.square()
        ids = stack.sample_ids
        raw = StackKernels(stack.names, np.arange(stack.n_kernels), stack.n_kernels, ids, _probe(stack, ids))
        return learn(raw, raw.prepare(stack), self.normalize, self.center)


@dataclass(frozen=True, eq=False)
class StackSamples(RowData):
    """Samples of a stack."""

    kernel_ids: Array  # (M,) int: where the kernels of a bank are in the stack
    stack: KernelStack | None  # None once detached: training samples that others can still be compared with
    ids: Array  # (n,) int: samples of the stack
    positions: Array | None = None  # (n,) int: where they are among the training samples; None for new samples

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.ids)

    @property
    def matrices(self) -> KernelStack:
        """The stack, if still available."""
        if self.stack is None:
            raise InvalidInputError("These samples have no kernels any more; prepare them again.")
        return self.stack

    def take(self, rows: Index) -> StackSamples:
        stack = None if self.stack is None else self.stack[rows]
        positions = None if self.positions is None else self.positions[rows]
        return StackSamples(self.kernel_ids, stack, self.ids[rows], positions)

    def detach(self) -> StackSamples:
        """Return the samples without the matrices, small enough to be kept in a fitted model."""
        return replace(self, stack=None)

    def columns_among(self, other: StackSamples) -> Array:
        """Return the columns of the stored matrices for the samples of ``other``, (n_other,) int."""
        if self.matrices.is_square:
            return self.matrices._columns_of(other.ids)
        if other.positions is None:
            raise InvalidInputError("The kernels among new samples are not in a rectangular KernelStack.")
        return self.matrices._training_columns()[other.positions]


@dataclass(frozen=True, eq=False)
class StackKernels(RawKernels[StackSamples]):
    """Kernels of a stack, with a check of the identity of the stack."""

    names: tuple[str, ...]
    kernel_ids: Array  # (M,) int: which kernels of the stack
    n_stack_kernels: int  # number of kernels of the stack that was fitted
    training_ids: Array  # (n_train,) int: ``sample_ids`` of the training samples
    # (M, <= 16) float64: some training entries, by which another stack is told from the one that was fitted
    probe: Array

    as_matrices = True

    @property
    def n_features_in(self) -> int:
        """Number of training samples, as scikit-learn counts the columns of precomputed kernels."""
        return len(self.training_ids)

    def prepare(self, X: object) -> PreparedRows[StackSamples]:
        """Check samples: of the fitted stack, or with kernels to the training samples."""
        stack = as_kernel_stack(X, square=False)
        kernels = self._find_kernels(stack)
        stack._columns_of(self.training_ids)
        self._check_same(stack, kernels)
        ids = stack.sample_ids
        training = stack.is_square and np.array_equal(ids, self.training_ids)
        samples = StackSamples(kernels, stack, ids, np.arange(len(ids)) if training else None)
        return PreparedRows(self.names, samples)

    def evaluate(self, left: Side[StackSamples], right: Side[StackSamples], kernels: Array, out: Array) -> None:
        """Write entries of the kernels to ``out``, read from the matrices of either side."""
        a, b = left.data, right.data
        if a.stack is None:
            if b.stack is None:
                raise InvalidInputError("Both sides were detached from their kernels; prepare one of them again.")
            self.evaluate(right, left, kernels, out.transpose(0, 2, 1))
            return
        raw = a.stack._block(a.kernel_ids[kernels], a.ids[left.rows], a.columns_among(b)[right.rows])
        out[:] = raw
        if left is right:
            # Input may differ from its transpose by rounding; what solvers read does not.
            out += raw.transpose(0, 2, 1)
            out *= 0.5

    def diagonals(self, rows: PreparedRows[StackSamples], kernels: Array) -> Array:
        return rows.data.matrices._self_kernels()[rows.data.kernel_ids[kernels]].astype(np.float64)

    def row_means(self, rows: PreparedRows[StackSamples], training: PreparedRows[StackSamples] | None = None) -> Array:
        """Return the mean of every kernel of every sample with the training samples, (M, n), kernel by kernel."""
        data = rows.data
        columns = data.matrices._columns_of(self.training_ids)
        means = np.empty((len(self.names), rows.n_samples))
        for m, kernel in enumerate(data.kernel_ids):  # no block outlives its mean: the next takes its place in memory
            means[m] = data.matrices._block([kernel], data.ids, columns)[0].mean(axis=1, dtype=np.float64)
        return means

    def find_matrices(self, data: StackSamples) -> HeldGrams | None:
        """Return the matrices of the stack for all kernels in order, or for a single kernel."""
        first, count = int(data.kernel_ids[0]), len(data.kernel_ids)
        if count != 1 and not np.array_equal(data.kernel_ids, np.arange(data.matrices.n_kernels)):
            return None
        return HeldGrams(data.matrices._whole()[first : first + count], data.ids, self.unproven(data))

    def unproven(self, data: StackSamples) -> Unproven | None:
        return data.matrices._unproven_of(data.kernel_ids)

    def take(self, kernels: Array) -> StackKernels:
        names = tuple(self.names[m] for m in kernels)
        return replace(self, names=names, kernel_ids=self.kernel_ids[kernels], probe=self.probe[kernels])

    def narrow(self, data: object, places: list[int]) -> StackSamples:
        """Return the samples with the kernels."""
        if not isinstance(data, StackSamples):
            raise InvalidInputError(OTHER_BANK)
        return replace(data, kernel_ids=data.kernel_ids[places])

    def described(self) -> tuple[list[str], list[str]]:
        """Return a description of matrices without columns."""
        return ["precomputed"] * len(self.names), [""] * len(self.names)

    def _find_kernels(self, stack: KernelStack) -> Array:
        """Return where the kernels are in a stack: by name if names were chosen, else by position."""
        place = {name: m for m, name in enumerate(stack.names)}
        if set(self.names) <= set(place) and (stack._named or stack.n_kernels == self.n_stack_kernels):
            return np.array([place[name] for name in self.names])
        if stack.n_kernels != self.n_stack_kernels:
            raise InvalidInputError(
                f"The model was fitted on {self.n_stack_kernels} kernels, but {stack.n_kernels} were given."
            )
        return self.kernel_ids

    def _check_same(self, stack: KernelStack, kernels: Array) -> None:
        """Distinguish a square stack of other samples, with meaningless sample numbers, from the fitted stack."""
        if not stack.is_square:
            return
        found = _probe(stack, self.training_ids)[kernels]
        if not np.allclose(found, self.probe, rtol=1e-5, atol=1e-8 * float(np.abs(self.probe).max(initial=0.0))):
            raise InvalidInputError(
                "This is not the KernelStack that the model was fitted on. Index that one, or pass the kernels between "
                "new and training samples as KernelStack.rectangular(kernels) of shape (M, n_new, n_train)."
            )


def _probe(stack: KernelStack, training_ids: Array) -> Array:
    """Return some entries of every kernel, (M, <= 16) float64."""
    return stack._block(slice(None), training_ids[:1], training_ids[:PROBE_COLUMNS])[:, 0].astype(np.float64)
