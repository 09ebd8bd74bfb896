"""Precomputed kernels as a sample-indexed object, for cross-validation on both sample axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn, TypeGuard

import numpy as np
import pandas as pd
from numpy.typing import DTypeLike

from manykernels.exceptions import InvalidInputError
from manykernels.validation.arrays import Array, check_choice, check_finite, check_indices, check_names
from manykernels.validation.gram import SHARE_OF_ONE_FIT, Unproven, check_gram_array, check_rectangular_grams, examined

PSD = {"auto": "auto", "check": "raise", "clip": "clip", "ignore": "ignore"}


class KernelStack:
    """M precomputed kernels on N samples that behave like an array of N samples.

    Indexing selects samples and returns a view with the kernels to *all* other samples. So ``train_test_split``,
    ``cross_val_score``, ``GridSearchCV`` and the like work: an estimator fits on the kernels among the training samples
    and predicts from the kernels between new and training samples.

    Parameters
    ----------
    kernels : array_like of shape (M, N, N), or mapping of names to (N, N)
        Symmetric positive semidefinite matrices, kernels leading; float32 stays float32. Never modified; not copied.
        DataFrames must have their samples in one order.
    names : sequence of str, optional
        One per kernel; those of a mapping, or ``kernel_0``, ``kernel_1``, ... by default.
    psd : {"auto", "check", "clip", "ignore"}, default="auto"
        Refuse a matrix with a clearly negative eigenvalue ("check"), set such eigenvalues to zero in a copy, or do not
        look. "auto" is "check" for small stacks; in larger stacks only kernels of a model are proven definite, and
        kernels with a negative quadratic form are rejected.

    Raises
    ------
    InvalidInputError
        Wrong shape, NaN or infinite entries, repeated names, no kernel or no sample.
    NotPSDError
        A matrix is not symmetric, or not positive semidefinite; the message says by how much.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import train_test_split
    >>> from manykernels.kernels import KernelStack
    >>> X = np.arange(6.0)[:, None]
    >>> stack = KernelStack([X @ X.T, np.minimum(X, X.T)], names=["linear", "minimum"])
    >>> train, test = train_test_split(stack, test_size=2, random_state=0)
    >>> train.square().shape, test.against(train.sample_ids).shape
    ((2, 4, 4), (2, 2, 4))
    """

    ndim: ClassVar[int] = 2  # as of any input

    def __init__(self, kernels: object, names: Sequence[str] | None = None, *, psd: str = "auto") -> None:
        kernels, names = _name_matrices(kernels, names)
        self._set_checked(kernels, names, PSD[check_choice(psd, PSD, "psd")])

    @classmethod
    def _combine_fit(cls, kernels: object) -> KernelStack:
        """Return kernels from a fit, with a deferred proof of definiteness."""
        return cls.__new__(cls)._set_checked(*_name_matrices(kernels, None), "auto", share=SHARE_OF_ONE_FIT)

    def _set_checked(
        self, kernels: object, names: Sequence[str] | None, psd: str, *, share: float = 1.0
    ) -> KernelStack:
        base, self._unproven = examined(check_gram_array(kernels), psd, share=share)
        return self._set(base, _kernel_names(names, len(base)), np.arange(base.shape[1]))

    @classmethod
    def rectangular(cls, kernels: Any, names: Sequence[str] | None = None, *, diagonal: Any = None) -> KernelStack:
        """Return the kernels between new samples (rows) and the training samples (columns).

        Parameters
        ----------
        kernels : array_like of shape (M, n_new, n_train), or mapping of names to (n_new, n_train)
            Columns in the order of the training samples given to ``fit``.
        names : sequence of str, optional
        diagonal : array_like of shape (M, n_new), optional
            Kernel of every new sample with itself; only needed for unit-diagonal normalization.

        Raises
        ------
        InvalidInputError
            Wrong shape, NaN or infinite entries, repeated names.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.kernels import KernelStack
        >>> KernelStack.rectangular(np.ones((3, 2, 5))).shape
        (2, 5)
        """
        kernels, names = _name_matrices(kernels, names)
        base = check_rectangular_grams(kernels)
        if diagonal is not None:
            diagonal = check_finite(np.array(diagonal, dtype=np.float64), "diagonal")
            if diagonal.shape != base.shape[:2]:
                raise InvalidInputError(f"diagonal must have shape {base.shape[:2]}, got {diagonal.shape}.")
        rows, columns = np.arange(base.shape[1]), np.arange(base.shape[2])
        stack = cls.__new__(cls)._set(base, _kernel_names(names, len(base)), rows, columns)
        stack._parts_of, stack._diagonal = False, diagonal
        return stack

    def _set(self, base: Array, names: tuple[str, ...], rows: Array, columns: Array | None = None) -> KernelStack:
        self._base = base.view()
        self._base.flags.writeable = False
        self._names, self._rows, self._columns = names, rows, columns
        # Whether rows and columns of the matrices are the same samples; the diagonal is only stored where they are not.
        self._parts_of, self._diagonal = True, None
        return self

    _unproven: Unproven | None = None

    def _unproven_of(self, kernels: object) -> Unproven | None:
        """Return the kernels not yet proven positive semidefinite; None if all are."""
        return None if self._unproven is None else self._unproven.take(kernels)

    @property
    def n_kernels(self) -> int:
        """Number of kernels, M."""
        return len(self._base)

    @property
    def _named(self) -> bool:
        """Return whether the names were given, for look-ups by name."""
        return self._names != _kernel_names(None, len(self._names))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the kernels."""
        return self._names

    @property
    def n_samples(self) -> int:
        """Number of samples in the view."""
        return len(self._rows)

    @property
    def sample_ids(self) -> Array:
        """(n,) int: positions in the whole stack."""
        return self._rows.copy()

    @property
    def is_square(self) -> bool:
        """Whether the kernels among the samples are known; False for new samples against training samples."""
        return self._columns is None

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, n)``, or ``(n_new, n_train)`` of a rectangular stack."""
        return (self.n_samples, self.n_samples if self._columns is None else len(self._columns))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the entries."""
        return self._base.dtype

    def __len__(self) -> int:
        return self.n_samples

    def __repr__(self) -> str:
        return f"KernelStack({self.n_kernels} kernels, shape={self.shape}, dtype={self.dtype})"

    def __array__(self, dtype: DTypeLike | None = None, copy: object = None) -> NoReturn:
        raise TypeError("A KernelStack is M matrices, not one array; use .square() or .against(training_ids).")

    def __getitem__(self, index: object) -> KernelStack:
        """Return a view of the chosen samples; a pair as from ``np.ix_`` chooses rows and columns."""
        if not isinstance(index, tuple):
            return self._view(_positions(index, self.n_samples), None)
        rest = [part for part in index[1:] if part is not Ellipsis]
        if not rest:
            return self[index[0]]
        if len(rest) > 1:
            raise InvalidInputError("A KernelStack is indexed by samples: stack[rows] or stack[np.ix_(rows, columns)].")
        rows, columns = _positions(index[0], self.n_samples), _positions(rest[0], self.shape[1])
        if self.is_square and np.array_equal(rows, columns):
            return self._view(rows, None)
        return self._view(rows, columns)

    def _view(self, rows: Array, columns: Array | None) -> KernelStack:
        known = self._columns
        if columns is not None:
            known = (self._rows if known is None else known)[columns]
        view = KernelStack.__new__(KernelStack)._set(self._base, self._names, self._rows[rows], known)
        view._parts_of, view._unproven = self._parts_of, self._unproven
        view._diagonal = None if self._diagonal is None else self._diagonal[:, rows]
        return view

    def _whole(self) -> Array:
        """Return the kernels among all samples of the viewed stack, (M, N, N), read-only."""
        self._check_square()
        return self._base

    def square(self) -> Array:
        """Return the kernels among the samples, (M, n, n); for the whole stack a read-only view.

        Raises
        ------
        InvalidInputError
            For a rectangular stack.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import KernelStack
        >>> KernelStack(np.stack([np.eye(3), np.ones((3, 3))]))[[0, 2]].square().shape
        (2, 2, 2)
        """
        self._check_square()
        return self._block(slice(None), self._rows, self._rows)

    def _check_square(self) -> None:
        if self._columns is not None:
            raise InvalidInputError(
                f"This KernelStack holds {self.shape[0]} new samples against {self.shape[1]} training samples; fit "
                "needs the kernels among the training samples, KernelStack(kernels) of shape (M, N, N)."
            )

    def against(self, training_ids: object, positions: object = None) -> Array:
        """Return the kernels between the samples and the training samples, (M, n, n_train).

        Parameters
        ----------
        training_ids : (n_train,) int
            ``sample_ids`` of the stack fitted. A square stack is read at the samples; the columns of a rectangular one
            are the training samples in their order.
        positions : (k,) int, optional
            Only the training samples, for example the support; counted from 0 in ``training_ids``.

        Returns
        -------
        (M, n, n_train or k) ndarray

        Raises
        ------
        InvalidInputError
            If the training samples are not in the stack.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import KernelStack
        >>> stack = KernelStack(np.stack([np.eye(3), np.ones((3, 3))]))
        >>> stack[[2]].against([0, 1]).tolist()
        [[[0.0, 0.0]], [[1.0, 1.0]]]
        """
        return self._block(slice(None), self._rows, self._columns_of(training_ids, positions))

    def _columns_of(self, training_ids: Any, positions: Any = None) -> Array:
        """Return where the training samples are among the columns of the underlying matrices, (n_train or k,) int."""
        ids = np.asarray(training_ids)
        if self._columns is not None:
            if len(ids) != len(self._columns):
                raise InvalidInputError(
                    f"The kernels have {len(self._columns)} columns, but the model was fitted on {len(ids)} samples; "
                    "give one column per training sample, in the order of fit."
                )
            ids = self._columns
        elif ids.size and ids.max() >= self._base.shape[2]:
            raise InvalidInputError(
                f"The model was fitted on sample {int(ids.max())} of a larger stack, but this one has "
                f"{self._base.shape[2]}. Index the stack that was split, or use KernelStack.rectangular."
            )
        return ids if positions is None else ids[positions]

    def _training_columns(self) -> Array:
        """Return the columns of a rectangular stack in the order of the training samples, (n_train,) int."""
        return self._rows.copy() if self._columns is None else self._columns.copy()

    def _block(self, kernels: slice | list[int] | Array, rows: Array, columns: Array) -> Array:
        """Return entries of the underlying matrices, (m, r, c), copying no more."""
        whole = isinstance(kernels, slice) and kernels == slice(None)
        if whole and _is_all(rows, self._base.shape[1]) and _is_all(columns, self._base.shape[2]):
            return self._base
        return self._base[np.ix_(np.arange(self.n_kernels)[kernels], rows, columns)]

    def _self_kernels(self) -> Array:
        """Return the kernel of every sample with itself, (M, n)."""
        if self._parts_of:
            return self._base[:, self._rows, self._rows]
        if self._diagonal is None:
            raise InvalidInputError(
                "Unit-diagonal normalization needs the kernel of each new sample with itself: pass "
                "KernelStack.rectangular(kernels, diagonal=...) with diagonal of shape (M, n_new)."
            )
        return self._diagonal


def are_kernels(X: object) -> TypeGuard[KernelStack]:
    """Return whether data are precomputed kernels: samples with positions in all matrices."""
    return hasattr(type(X), "sample_ids")


def as_kernel_stack(X: object, *, square: bool = True) -> KernelStack:
    """Return precomputed kernels as a stack: a KernelStack unchanged, (M, N, N) to fit, (M, n_new, n_train) else."""
    if are_kernels(X):
        return X
    return KernelStack._combine_fit(X) if square else KernelStack.rectangular(X)


def _name_matrices(kernels: object, names: Sequence[str] | None) -> tuple[Any, Sequence[str] | None]:
    """Return matrices with the names of a mapping; reject matrices of different samples."""
    if isinstance(kernels, Mapping):
        if names is not None:
            raise InvalidInputError(f"The kernels have names already, {list(kernels)}; leave out names={names!r}.")
        kernels, names = list(kernels.values()), [str(name) for name in kernels]
    if isinstance(kernels, (list, tuple)):
        shapes = sorted({kernel.shape for kernel in kernels if hasattr(kernel, "shape")})
        if len(shapes) > 1:
            raise InvalidInputError(f"Precomputed kernels must have equal shapes, got {shapes}.")
        _check_labels([kernel for kernel in kernels if isinstance(kernel, pd.DataFrame)])
    return kernels, names


def _check_labels(frames: Sequence[pd.DataFrame]) -> None:
    """Reject labeled matrices with samples in different orders."""
    for frame in frames:
        square = len(frame) == frame.shape[1] and set(frame.index) == set(frame.columns)
        if (square and list(frame.index) != list(frame.columns)) or any(
            list(own) != list(first) for own, first in zip(frame.axes, frames[0].axes, strict=True)
        ):
            raise InvalidInputError(
                "The labels of the kernels differ, or are in different orders, and matrices are read by position. Put "
                "them into one order first: [kernel.loc[labels, labels] for kernel in kernels]."
            )


def _kernel_names(names: object, n_kernels: int) -> tuple[str, ...]:
    return check_names(names, n_kernels) or tuple(f"kernel_{m}" for m in range(n_kernels))


def _positions(index: object, size: int) -> Array:
    """Return a sample index (integer, slice, mask, integers, half of ``np.ix_``) as positions."""
    if isinstance(index, (int, np.integer)) and not isinstance(index, bool):
        # IndexError ends an iteration over the samples.
        if not -size <= index < size:
            raise IndexError(f"Sample {index} is out of range: there are {size} samples.")
        return np.array([int(index) % size])
    chosen = index if isinstance(index, slice) else np.ravel(np.asarray(index))
    return check_indices(chosen, size, "samples")


def _is_all(ids: Array, size: int) -> bool:
    return len(ids) == size and bool(np.array_equal(ids, np.arange(size)))
