"""Gram matrices held as packed upper triangles: half the memory of dense ones, a quarter in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from manykernels.exceptions import InvalidInputError
from manykernels.grams import loops
from manykernels.grams.base import MOST_SAMPLES, GramStack, Index
from manykernels.grams.counters import triangle_size, triangle_starts
from manykernels.threads import blas_threads, run_ranges
from manykernels.validation.arrays import Array, check_float32_range, check_indices
from manykernels.validation.gram import check_gram_array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


BANDS, LEAST_BAND = 6, 64  # of rows into which products of many columns divide a triangle, and their least height


class PackedStack(GramStack):
    """Packed upper triangles, (M, N(N+1)/2): row i holds columns i..N-1, rows one after the other.

    A pass runs at memory bandwidth. float32 storage perturbs each entry by a relative 6e-8; sums are float64.

    Parameters
    ----------
    triangles : ndarray of shape (n_kernels, N(N+1)/2), float32 or float64
        Not copied if C-contiguous, never modified. Trusted to be finite.
    n_samples : int
    names : sequence of str, optional
    n_threads : int

    Examples
    --------
    >>> import numpy as np
    >>> stack = PackedStack(np.array([[1.0, 2.0, 3.0]]), n_samples=2)
    >>> stack.combine([2.0])
    array([[2., 4.],
           [4., 6.]])
    """

    def __init__(
        self, triangles: Array, n_samples: int, *, names: Sequence[str] | None = None, n_threads: int = 1
    ) -> None:
        triangles = np.asarray(triangles)
        dtype = np.float32 if triangles.dtype == np.float32 else np.float64
        if triangles.ndim != 2 or 0 in triangles.shape or triangles.shape[1] != triangle_size(n_samples):
            raise InvalidInputError(
                f"Packed triangles of {n_samples} samples must have shape (M, {triangle_size(n_samples)}), "
                f"got {triangles.shape}."
            )
        super().__init__(len(triangles), n_samples, dtype, names=names, n_threads=n_threads)
        self._packed = np.ascontiguousarray(triangles, dtype=dtype)

    @classmethod
    def from_dense(
        cls, array: ArrayLike, *, dtype: DTypeLike = np.float64, names: Sequence[str] | None = None, n_threads: int = 1
    ) -> PackedStack:
        """Pack an (M, N, N) array after checking shape, finiteness and symmetry.

        Parameters
        ----------
        array : array_like of shape (n_kernels, n_samples, n_samples)
        dtype : float32 or float64
            Storage dtype.
        names : sequence of str, optional
        n_threads : int

        Returns
        -------
        PackedStack
        """
        grams = check_gram_array(array)
        out = _new_triangles(np.diagonal(grams, axis1=1, axis2=2), dtype)
        for m, gram in enumerate(grams):
            loops.pack_triangle(np.ascontiguousarray(gram), out[m])
        return cls(out, grams.shape[1], names=names, n_threads=n_threads)

    @classmethod
    def from_stack(cls, stack: GramStack, kernels: Index = None, *, dtype: DTypeLike | None = None) -> PackedStack:
        """Pack the given kernels (all by default) of any stack; ``dtype`` defaults to that of the stack.

        Parameters
        ----------
        stack : GramStack
        kernels : array_like of int or bool, or slice, optional
        dtype : float32 or float64, optional

        Returns
        -------
        PackedStack
        """
        chosen = check_indices(kernels, stack.n_kernels, "kernels", allow_empty=False)
        out = _new_triangles(stack.diag()[chosen], stack.dtype if dtype is None else dtype)
        stack.triangles(chosen, out=out)
        return cls(out, stack.n_samples, names=stack._names_of(chosen), n_threads=stack.n_threads)

    @property
    def packed(self) -> Array:
        """The triangles, (M, N(N+1)/2), as a read-only view."""
        view = self._packed.view()
        view.flags.writeable = False
        return view

    @property
    def nbytes(self) -> int:
        """Bytes of the triangles."""
        return self._packed.nbytes

    @property
    def in_memory(self) -> bool:
        """True."""
        return True

    def diag(self) -> Array:
        """Diagonals of all kernels, (M, N) float64."""
        return self._packed[:, triangle_starts(self.n_samples)[:-1]].astype(np.float64, copy=False)

    def _block(self, rows: Array, cols: Array, kernels: Array) -> Array:
        low, high = np.minimum(rows[:, None], cols), np.maximum(rows[:, None], cols)
        positions = triangle_starts(self.n_samples)[low] + high - low
        return self._packed[kernels[:, None, None], positions].astype(np.float64, copy=False)

    def _in_ranges(self, loop: Callable[[int, int], None], size: int) -> None:
        """Run a loop over a range, cut into one part a thread if there are several."""
        if self.n_threads == 1:
            loop(0, size)
        else:
            run_ranges(loop, size, self.n_threads)

    def _quad(self, r: Array) -> Array:
        out = np.empty(self.n_kernels)
        n = self.n_samples
        self._in_ranges(lambda a, b: loops.packed_quad(self._packed[a:b], n, r, out[a:b]), len(out))
        return out

    def _quad_each(self, columns: Array) -> Array:
        n, found = self.n_samples, np.zeros((self.n_kernels, columns.shape[1]))
        gram, columns = np.empty((n, n)), np.ascontiguousarray(columns)
        step = max(n // BANDS, LEAST_BAND)
        with blas_threads(n, self.n_threads):
            for triangle, row in zip(self._packed, found, strict=True):
                loops.unpack_triangle(triangle, n, gram)
                for low in range(0, n, step):  # what is left of the diagonal is what is right of it
                    band = slice(low, low + step)
                    gram[band, band] *= 0.5
                    row += 2.0 * np.einsum("nk,nk->k", gram[band, low:] @ columns[low:], columns[band])
        return found

    def _squares(self, between: Array, kernels: Array) -> Array:
        doubled = np.empty(self._packed.shape[1])
        loops.pack_triangle(2.0 * between, doubled)
        doubled[triangle_starts(self.n_samples)[:-1]] /= 2.0  # what is beside the diagonal stands for two entries
        return np.array([self._packed[m].astype(np.float64, copy=False) @ doubled for m in kernels])

    def _matrix(self, kernel: int) -> Array:
        gram = np.empty((self.n_samples, self.n_samples))
        loops.unpack_triangle(self._packed[kernel], self.n_samples, gram)
        return gram

    def _apply_each(self, columns: Array, kernels: Array) -> Array:
        right = np.ascontiguousarray(columns.T)
        out = np.empty((len(kernels), *right.shape))

        def work(a: int, b: int) -> None:
            loops.packed_apply_many(self._packed, kernels[a:b], self.n_samples, right, out[a:b])

        self._in_ranges(work, len(out))
        return out.transpose(0, 2, 1)

    def _combine(self, weights: Array, active: Array) -> Array:
        total = np.zeros(self._packed.shape[1])
        self._in_ranges(lambda a, b: loops.packed_accumulate(self._packed, weights, a, b, total), len(total))
        out = np.empty((self.n_samples, self.n_samples))
        loops.unpack_triangle(total, self.n_samples, out)
        return out

    def _apply(self, weights: Array, active: Array, columns: Array) -> Array:
        return self._combine(weights, active) @ columns

    def _triangles(self, kernels: Array, out: Array) -> None:
        np.take(self._packed, kernels, axis=0, out=out) if out.dtype == self.dtype else np.copyto(
            out, self._packed[kernels]
        )

    def _take(self, kernels: Array) -> PackedStack:
        return PackedStack(
            self._packed[kernels], self.n_samples, names=self._names_of(kernels), n_threads=self.n_threads
        )

    def _restrict(self, samples: Array) -> GramStack:
        if len(samples) >= MOST_SAMPLES * self.n_samples:
            return super()._restrict(samples)
        i, j = np.triu_indices(len(samples))
        low, high = np.minimum(samples[i], samples[j]), np.maximum(samples[i], samples[j])
        chosen = self._packed[:, triangle_starts(self.n_samples)[low] + high - low]
        return PackedStack(chosen, len(samples), names=self.names, n_threads=self.n_threads)


def _new_triangles(diagonals: Array, dtype: DTypeLike) -> Array:
    """Return room for the triangles of kernels with these (m, N) diagonals, if ``dtype`` can hold their size."""
    if np.dtype(dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise InvalidInputError(f"Gram triangles are stored as float32 or float64, got dtype {np.dtype(dtype)}.")
    if np.dtype(dtype) == np.float32:
        check_float32_range(diagonals)
    n_kernels, n_samples = diagonals.shape
    return np.empty((n_kernels, triangle_size(n_samples)), dtype=dtype)
