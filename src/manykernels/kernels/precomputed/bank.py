"""Normalization of precomputed kernels, learned on the training samples of a stack, with the surface of a bank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.contract import (
    BankParameters,
    FittedKernels,
    HeldGrams,
    Index,
    PreparedRows,
    Side,
    checked_out,
)
from manykernels.kernels.bank.normalization import (
    centered_diagonal,
    check_diagonal,
    check_normalization,
    training_scales,
    unit_factors,
)
from manykernels.kernels.precomputed.stack import KernelStack, as_kernel_stack
from manykernels.validation.arrays import Array, check_indices

# Samples of a precomputed stack made ready for block evaluation.


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


PROBE_COLUMNS = 16
ARRAYS = ("scales", "row_means", "grand_means", "factors", "probe")


@dataclass(frozen=True)
class PrecomputedBank(BankParameters):
    """How precomputed kernels are normalized; the counterpart of :class:`KernelBank` for a :class:`KernelStack`.

    Parameters
    ----------
    normalize : {"trace", "mean_diagonal", "unit_diagonal", None}, default="mean_diagonal"
        What becomes one on the training samples: the trace, the mean of the diagonal, or its every entry.
    center : bool, default=False
        Whether the training mean is subtracted in the feature space of each kernel first.

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

    def fit(self, stack: Any, y: Any = None) -> FittedPrecomputedBank:
        """Learn the normalization from the training samples.

        Parameters
        ----------
        stack : KernelStack or (M, N, N) array
        y : ignored

        Returns
        -------
        FittedPrecomputedBank

        Raises
        ------
        InvalidInputError, NotPSDError
            If these are no kernels among training samples, or a kernel cannot be normalized.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import PrecomputedBank
        >>> PrecomputedBank().fit(np.stack([np.eye(3), np.ones((3, 3))])).names
        ('kernel_0', 'kernel_1')
        """
        return self.fit_prepare(stack)[0]

    def check(self, stack: Any) -> None:
        """Check that these are kernels among training samples; a KernelStack was checked when it was made.

        Parameters
        ----------
        stack : KernelStack or (M, N, N) array

        Raises
        ------
        InvalidInputError, NotPSDError
            If they are not.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import PrecomputedBank
        >>> PrecomputedBank().check(np.stack([np.eye(3), np.ones((3, 3))]))
        """
        as_kernel_stack(stack)

    def resolve(self, stack: Any) -> PrecomputedBank:
        """Return this bank: the kernels of a stack are the same for any of its samples.

        Parameters
        ----------
        stack : KernelStack

        Returns
        -------
        PrecomputedBank

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import PrecomputedBank
        >>> PrecomputedBank().resolve(np.eye(3)[None])
        PrecomputedBank(normalize='mean_diagonal', center=False)
        """
        return self

    def fit_prepare(self, stack: Any) -> tuple[FittedPrecomputedBank, PreparedKernels]:
        """Fit, and return the training samples prepared.

        Parameters
        ----------
        stack : KernelStack or (M, N, N) array

        Returns
        -------
        FittedPrecomputedBank
        PreparedKernels

        Raises
        ------
        InvalidInputError, NotPSDError
            As in `fit`.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import PrecomputedBank
        >>> bank, prepared = PrecomputedBank().fit_prepare(np.stack([np.eye(3), np.ones((3, 3))]))
        >>> bank.block(prepared, prepared).shape
        (2, 3, 3)
        """
        stack = as_kernel_stack(stack)
        if not stack.is_square:
            stack.square()
        ids = stack.sample_ids
        diagonals = stack.self_kernels().astype(np.float64)
        means = grand = None
        if self.center:
            means = row_means(stack, np.arange(stack.n_kernels), ids)
            grand = means.mean(axis=1)
            diagonals = centered_diagonal(diagonals, means, grand[:, None])
        bank = FittedPrecomputedBank(
            names=stack.names,
            kernel_ids=np.arange(stack.n_kernels),
            n_stack_kernels=stack.n_kernels,
            training_ids=ids,
            scales=training_scales(diagonals, self.normalize, stack.names),
            normalize=self.normalize,
            center=self.center,
            row_means=means,
            grand_means=grand,
            factors=unit_factors(diagonals) if self.normalize == "unit_diagonal" else None,
            probe=_probe(stack, ids),
        )
        return bank, bank.prepare(stack)


@dataclass(frozen=True, eq=False)
class FittedPrecomputedBank(FittedKernels[PreparedKernels]):
    """Normalization learned on the training samples of a stack; evaluates blocks like :class:`FittedBank`.

    Attributes
    ----------
    names : tuple of str
    kernel_ids : (M,) int
        Which kernels of the stack.
    n_stack_kernels : int
        Number of kernels of the stack that was fitted.
    training_ids : (n_train,) int
        ``sample_ids`` of the training samples.
    scales : (M,) float64
        0 marks a kernel that is zero on the training samples.
    normalize : {"trace", "mean_diagonal", "unit_diagonal", None}
    center : bool
    row_means, grand_means, factors : ndarray or None
        Of the training samples, (M, n_train), (M,) and (M, n_train).
    probe : (M, <= 16) float64
        Some training entries, by which another stack is told from the one that was fitted.
    """

    names: tuple[str, ...]
    kernel_ids: Array
    n_stack_kernels: int
    training_ids: Array
    scales: Array
    normalize: str | None
    center: bool
    row_means: Array | None
    grand_means: Array | None
    factors: Array | None
    probe: Array

    @property
    def n_features_in_(self) -> int:
        """Number of training samples, as scikit-learn counts the columns of precomputed kernels."""
        return len(self.training_ids)

    @property
    def groups(self) -> tuple[()]:
        """Empty: there are no points to evaluate kernels on."""
        return ()

    def prepare(self, X: Any) -> PreparedKernels:
        """Check samples and compute what normalization needs of them."""
        stack = X if isinstance(X, KernelStack) else KernelStack.rectangular(X)
        kernels = self._find_kernels(stack)
        columns = stack.columns_of(self.training_ids)
        self._check_same(stack, kernels)
        ids = stack.sample_ids
        if stack.is_square and np.array_equal(ids, self.training_ids):
            every = np.arange(len(ids))
            return PreparedKernels(self.names, kernels, stack, ids, every, self.row_means, self.factors)
        means = None if self.grand_means is None else row_means(stack, kernels, columns)
        factors = self._new_factors(stack, kernels, means) if self.unit_diagonal else None
        return PreparedKernels(self.names, kernels, stack, ids, None, means, factors)

    def block(
        self,
        prepared_a: PreparedRows,
        prepared_b: PreparedRows,
        kernels: Index = None,
        rows: Index = None,
        cols: Index = None,
        out: Array | None = None,
    ) -> Array:
        """Return normalized kernel values between two sets of prepared samples; see :meth:`FittedBank.block`."""
        if self.narrow(prepared_a).stack is not None:
            return super().block(prepared_a, prepared_b, kernels, rows, cols, out)
        if self.narrow(prepared_b).stack is None:
            raise InvalidInputError("Both sides were detached from their kernels; prepare one of them again.")
        flipped = self.block(prepared_b, prepared_a, kernels, cols, rows).transpose(0, 2, 1)
        target = checked_out(out, flipped.shape)
        target[:] = flipped
        return target

    def _evaluate(
        self, left: Side[PreparedKernels], right: Side[PreparedKernels], same: bool, kernels: Array, out: Array
    ) -> None:
        a, b = left.prepared, right.prepared
        assert a.stack is not None
        raw = a.stack.block(a.kernel_ids[kernels], a.ids[left.rows], a.columns_among(b)[right.rows])
        out[:] = raw
        if same:
            # Input may differ from its transpose by rounding; what solvers read does not.
            out += raw.transpose(0, 2, 1)
            out *= 0.5
        for slot, kernel in enumerate(kernels):
            self._normalize(out[slot], int(kernel), left, right)

    def diag(self, prepared: PreparedRows, kernels: Index = None) -> Array:
        """Return the normalized ``k(x, x)``, (m, n) float64."""
        rows = self.narrow(prepared)
        chosen = check_indices(kernels, self.n_kernels, "kernels")
        if rows.stack is None:
            raise InvalidInputError("These samples were detached from their kernels; prepare them again.")
        diagonals = rows.stack.self_kernels()[rows.kernel_ids[chosen]].astype(np.float64)
        if self.grand_means is not None and rows.row_means is not None:
            diagonals = centered_diagonal(diagonals, rows.row_means[chosen], self.grand_means[chosen, None])
        if rows.factors is not None:
            diagonals = diagonals * rows.factors[chosen] ** 2
        return diagonals * self.scales[chosen, None]

    def grams(self, prepared: PreparedRows) -> HeldGrams:
        """Return the normalized Gram matrices among these samples; those of a stack used as it is are no copy."""
        rows = self.narrow(prepared)
        if rows.stack is None:
            raise InvalidInputError("These samples were detached from their kernels; prepare them again.")
        unproven = rows.stack.unproven(rows.kernel_ids)
        if self.normalize is None and not self.center and self.n_kernels == rows.stack.n_kernels:
            return HeldGrams(rows.stack.whole(), rows.ids, unproven)
        return HeldGrams(self.block(prepared, prepared), np.arange(rows.n_samples), unproven)

    def take(self, kernels: Index) -> FittedPrecomputedBank:
        """Return the bank of those kernels only, in that order."""
        chosen = check_indices(kernels, self.n_kernels, "kernels", allow_empty=False)
        arrays = {name: getattr(self, name) for name in (*ARRAYS, "kernel_ids")}
        parts: dict[str, Any] = {name: None if array is None else array[chosen] for name, array in arrays.items()}
        return replace(self, names=tuple(self.names[m] for m in chosen), **parts)

    def narrow(self, prepared: PreparedRows) -> PreparedKernels:
        """Return samples prepared by the bank this one was taken from as samples prepared by this bank."""
        if not isinstance(prepared, PreparedKernels):
            raise InvalidInputError(f"Precomputed kernels need samples of a stack, got {type(prepared).__name__}.")
        return prepared if prepared.names == self.names else prepared.narrow(self.names)

    def frame(self) -> pd.DataFrame:
        """Return one row per kernel: name, kernel, columns, scale."""
        return pd.DataFrame({"name": self.names, "kernel": "precomputed", "columns": "", "scale": self.scales})

    def _find_kernels(self, stack: KernelStack) -> Array:
        place = {name: m for m, name in enumerate(stack.names)}
        if set(self.names) <= set(place) and (stack.named or stack.n_kernels == self.n_stack_kernels):
            return np.array([place[name] for name in self.names])
        if stack.n_kernels != self.n_stack_kernels:
            raise InvalidInputError(
                f"The model was fitted on {self.n_stack_kernels} kernels, but {stack.n_kernels} were given."
            )
        return self.kernel_ids

    def _check_same(self, stack: KernelStack, kernels: Array) -> None:
        """Tell a square stack of other samples, whose sample numbers mean nothing to the model, from the fitted one."""
        if not stack.is_square:
            return
        found = _probe(stack, self.training_ids)[kernels]
        if not np.allclose(found, self.probe, rtol=1e-5, atol=1e-8 * float(np.abs(self.probe).max(initial=0.0))):
            raise InvalidInputError(
                "This is not the KernelStack that the model was fitted on. Index that one, or pass the kernels between "
                "new and training samples as KernelStack.rectangular(kernels) of shape (M, n_new, n_train)."
            )

    def _new_factors(self, stack: KernelStack, kernels: Array, means: Array | None) -> Array:
        diagonals = stack.self_kernels()[kernels].astype(np.float64)
        if means is not None and self.grand_means is not None:
            diagonals = centered_diagonal(diagonals, means, self.grand_means[:, None])
        return unit_factors(check_diagonal(diagonals, "precomputed"))


def _probe(stack: KernelStack, training_ids: Array) -> Array:
    return stack.block(slice(None), training_ids[:1], training_ids[:PROBE_COLUMNS])[:, 0].astype(np.float64)
