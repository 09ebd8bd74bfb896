"""Gram matrices held in full as a single (M, N, N) array, and the conversion of plain arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.grams import loops
from manykernels.grams.base import MOST_SAMPLES, GramStack, GramView, is_stack, mirror_upper
from manykernels.grams.packed import pack_rounded, pack_triangles, pack_triangles_among
from manykernels.threads import blas_threads, run_ranges
from manykernels.validation.arrays import Array, read_only
from manykernels.validation.gram import SHARE_OF_ONE_FIT, check_gram_array, examined, nearest_definite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike

    from manykernels.validation.gram import Unproven


NOISE = 1.5  # times the most negative eigenvalue: rounding leaves positive ones of at most about that size


class DenseStack(GramStack):
    """Gram matrices in one (M, N, N) array; only the upper triangles are read, half the bytes of a BLAS product.

    The array is trusted to be symmetric and finite: `as_stack` checks both.

    Parameters
    ----------
    array : ndarray of shape (n_kernels, n_samples, n_samples), float32 or float64
        Not copied if C-contiguous, never modified. Other real dtypes become float64.
    names : sequence of str, optional
    n_threads : int
    unproven : Unproven, optional
        Which kernels are still to be proven definite, see `prove_definite`; by default all are trusted.

    Examples
    --------
    >>> import numpy as np
    >>> stack = DenseStack(np.stack([np.eye(2), np.ones((2, 2))]))
    >>> stack.quad([1.0, 2.0])
    array([5., 9.])
    >>> stack.counters.passes
    1.0
    """

    in_memory = True

    def __init__(
        self,
        array: Array,
        *,
        names: Sequence[str] | None = None,
        n_threads: int = 1,
        unproven: Unproven | None = None,
    ) -> None:
        array = np.asarray(array)
        dtype = np.float32 if array.dtype == np.float32 else np.float64
        if array.ndim != 3 or array.shape[1] != array.shape[2] or 0 in array.shape:
            raise InvalidInputError(f"A DenseStack needs a non-empty (M, N, N) array, got shape {array.shape}.")
        super().__init__(len(array), array.shape[1], dtype, names=names, n_threads=n_threads)
        self._array = np.ascontiguousarray(array, dtype=dtype)
        self._unproven = unproven
        self._own = False  # whether the array is a copy that may be written to

    @property
    def array(self) -> Array:
        """The Gram matrices, (M, N, N), as a read-only view."""
        return read_only(self._array)

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return self._array.nbytes

    def diag(self) -> Array:
        return np.diagonal(self._array, axis1=1, axis2=2).astype(np.float64)

    def _block(self, rows: Array, cols: Array, kernels: Array) -> Array:
        # The upper entry, like every other reader: rounding may make the lower one differ.
        low, high = np.minimum(rows[:, None], cols), np.maximum(rows[:, None], cols)
        return self._array[kernels[:, None, None], low, high].astype(np.float64, copy=False)

    def _quad(self, r: Array) -> Array:
        out = np.empty(self.n_kernels)
        array = self.array
        run_ranges(lambda a, b: loops.dense_quad(array[a:b], r, out[a:b]), len(out), self.n_threads)
        return out

    def _quad_each(self, columns: Array) -> Array:
        # Matrix products of the BLAS reuse what they read, which a product a column does not.
        with blas_threads(self.n_samples, self.n_threads):
            products = (gram.astype(np.float64, copy=False) @ columns for gram in self._array)
            return np.array([np.einsum("nk,nk->k", product, columns) for product in products])

    def _squares(self, between: Array, kernels: Array) -> Array:
        out, array, each = np.empty(len(kernels)), self.array, np.ascontiguousarray(between)
        run_ranges(lambda a, b: loops.dense_inner(array, kernels[a:b], each, out[a:b]), len(out), self.n_threads)
        return out

    def _squares_each(self, R: Array) -> Array:
        # Products of vectors are made once for all kernels, whose entries then meet one number a set, not one a vector.
        n, found = self.n_samples, np.zeros((self.n_kernels, R.shape[1]))
        sets, flat = np.ascontiguousarray(R.transpose(1, 0, 2)), self._array.reshape(self.n_kernels, -1)
        band = 64  # rows of which products of vectors are held at once: larger ones leave the cache
        between = np.empty((len(sets), band, n))
        with blas_threads(n, self.n_threads):
            for first in range(0, n, band):
                rows = slice(first, min(first + band, n))
                own = between[:, : rows.stop - first]
                np.matmul(sets[:, rows], sets.transpose(0, 2, 1), out=own)
                entries = flat[:, first * n : rows.stop * n].astype(np.float64, copy=False)
                found += entries @ own.reshape(len(sets), -1).T
        return found

    def _apply_each(self, columns: Array, kernels: Array) -> Array:
        right = np.ascontiguousarray(columns.T)
        array, out = self.array, np.empty((len(kernels), *right.shape))

        def work(a: int, b: int) -> None:
            loops.dense_apply_many(array, kernels[a:b], right, out[a:b])

        run_ranges(work, len(out), self.n_threads)
        return out.transpose(0, 2, 1)

    def _matrix(self, kernel: int) -> Array:
        return self._array[kernel].astype(np.float64, copy=False)

    def _combine(self, weights: Array, active: Array) -> Array:
        out = np.zeros((self.n_samples, self.n_samples))
        # Whole matrices in one stretch: half of what is read is not needed, yet it is faster than many short rows.
        flat, total = self.array.reshape(self.n_kernels, -1), out.reshape(-1)
        of_each = weights[active]
        run_ranges(lambda a, b: loops.add_columns(flat, active, of_each, total[a:b], a), out.size, self.n_threads)
        mirror_upper(out)
        return out

    def _combine_all(self, weights: Array) -> Array:
        # With nothing to skip, the matrix-vector product of the BLAS is twice as fast as the compiled loop.
        if self.dtype != np.float64:
            return super()._combine_all(weights)
        out = (weights @ self._array.reshape(self.n_kernels, -1)).reshape(self.n_samples, self.n_samples)
        mirror_upper(out)
        return out

    def _apply(self, weights: Array, active: Array, columns: Array) -> Array:
        return self._combine(weights, active) @ columns

    def _triangles(self, kernels: Array, out: Array) -> None:
        pack_triangles(self.array, kernels, out)

    def _triangles_among(self, samples: Array, kernels: Array, out: Array) -> None:
        pack_triangles_among(self.array, kernels, samples, out)

    def _take(self, kernels: Array) -> DenseStack:
        return DenseStack(self._array[kernels], names=self._names_of(kernels), n_threads=self.n_threads)

    def part(self, samples: Array, dtype: DTypeLike | None = None, *, copied: bool = True) -> GramStack:
        """Return all kernels on some samples; a copy is in single precision where asked for, and holds them.

        Uncopied matrices are read from the original.
        """
        if np.array_equal(samples, np.arange(self.n_samples)):
            return self
        part = DensePart(self, samples, dtype)
        return part if not copied and len(samples) < MOST_SAMPLES * self.n_samples else part.copied()

    def _restrict(self, samples: Array) -> GramStack:
        if len(samples) >= MOST_SAMPLES * self.n_samples:
            return super()._restrict(samples)
        chosen = self._array[:, samples[:, None], samples]
        return DenseStack(chosen, names=self.names, n_threads=self.n_threads)

    def _replace(self, kernel: int, gram: Array) -> None:
        if not self._own:
            self._array, self._own = self._array.copy(), True
        self._array[kernel] = gram


class DensePart(GramView):
    """All matrices among some samples, which the sums and forms of those of all samples are read for.

    A pass over the original takes several times as long as over a copy, made on demand and released.
    """

    evaluates = True
    _proofs: Unproven | None = None  # what is known of the copies that were made before

    def __init__(self, whole: DenseStack, samples: Array, dtype: DTypeLike | None = None) -> None:
        super().__init__(whole, np.arange(whole.n_kernels), samples)
        self.in_memory, self._pads, tops = False, True, whole.largest
        rounds = len(samples) < MOST_SAMPLES * whole.n_samples and dtype is not None and np.dtype(dtype) == np.float32
        most_single = 1e30  # on a diagonal, and its inverse the least: single precision ends at 3e38 and 1e-38
        self._rounds = rounds and bool((tops < most_single).all() and (tops[tops > 0] > 1.0 / most_single).all())

    @property
    def n_rounded_entries(self) -> int:
        """Size of a copy in single-precision numbers: triangles, or whole matrices of twice the size."""
        return self.n_entries if self._rounds else 2 * self.n_kernels * self.n_samples**2

    def copied(self) -> GramStack:
        """Return a copy; of all made a kernel is proven definite once."""
        whole, samples = self._parent, self._samples
        found = pack_rounded(whole, samples) if self._rounds else whole.restrict(samples)
        if self._proofs is not None:
            found._unproven = self._proofs
        self._proofs = found._unproven
        return found


def as_stack(
    kernels: GramStack | Any, *, psd: str = "auto", names: Sequence[str] | None = None, n_threads: int = 1
) -> GramStack:
    """Return ``kernels`` as a Gram stack, checking plain arrays.

    Parameters
    ----------
    kernels : GramStack or array_like of shape (n_kernels, n_samples, n_samples)
        A stack passes through unchanged. An array must be finite, symmetric and positive semidefinite up to rounding.
    psd : {"auto", "raise", "clip", "ignore"}
        What to do with an indefinite matrix: refuse it, set the negative eigenvalues to zero, or skip the check. "auto"
        rejects as well, but for large stacks checks only kernels in a model, or with a negative quadratic form.
    names : sequence of str, optional
        A name per kernel; ignored for a stack with names.
    n_threads : int
        Threads that compiled loops may use.

    Raises
    ------
    InvalidInputError, NotPSDError
        Saying which kernel is wrong and by how much.

    Examples
    --------
    >>> as_stack([[[2, 1], [1, 2]]])
    DenseStack(n_kernels=1, n_samples=2, dtype=float64)
    """
    if is_stack(kernels):
        return kernels
    array, unproven = examined(check_gram_array(kernels), psd, share=SHARE_OF_ONE_FIT)
    return DenseStack(array, names=names, n_threads=n_threads, unproven=unproven)


def definite_copy(stack: GramStack) -> DenseStack | None:
    """Return kernels in float64 without the rounding of float32; None if no kernel needs it, or the cost is too large.

    Rounding a kernel of low rank to float32 leaves eigenvalues of about 1e-8 of the largest one, half negative. Such a
    kernel is valid, but under a weak penalty the noise matters: the dual has no maximum, and the model fits the
    positive noise. Hence eigenvalues up to `NOISE` times the most negative one are set to zero.
    """
    size, n_samples = stack.n_kernels * stack.n_samples**2, stack.n_samples
    most_bytes = 2**28  # of a definite copy: it comes on top of what was planned for
    most_flops = 1e10  # of eigenvalues, about ten seconds
    if stack.dtype != np.float32 or 8 * size > most_bytes or 10 * size * n_samples > most_flops:
        return None
    grams = stack.block()
    with blas_threads(n_samples, stack.n_threads):
        eigenvalues = np.linalg.eigvalsh(grams)
        negative = 1e-13  # relative to the largest eigenvalue, beyond what double precision leaves of a zero
        indefinite = np.flatnonzero(eigenvalues[:, 0] < -negative * np.abs(eigenvalues[:, -1]))
        if not indefinite.size:
            return None
        for kernel in indefinite:
            grams[kernel] = nearest_definite(grams[kernel], -NOISE * eigenvalues[kernel, 0])
    copied = DenseStack(grams, names=stack.names, n_threads=stack.n_threads)
    copied._replaced = {int(m): -float(eigenvalues[m, 0] / eigenvalues[m, -1]) for m in indefinite}
    return copied
