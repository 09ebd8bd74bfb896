"""Gram matrices held as packed upper triangles: half the memory of dense ones, a quarter in float32.

The compiled loops over them stand at the end: one reading of a triangle, float64 accumulation, no large temporaries.
They walk row segments (``triangle[start : start + n - i]``) rather than indices: only then does LLVM vectorize the
conversion from float32, and a pass run at memory bandwidth (indices: four times slower).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from manykernels.compiled import compiled
from manykernels.exceptions import InvalidInputError
from manykernels.grams.base import MOST_SAMPLES, GramStack, Index, mirror_upper, triangle_size, triangle_starts
from manykernels.grams.loops import FAST, add_columns
from manykernels.threads import blas_threads, run_ranges
from manykernels.validation.arrays import Array, check_float32_range, check_some_indices, read_only
from manykernels.validation.gram import check_gram_array


class PackedStack(GramStack):
    """Packed upper triangles, (M, N(N+1)/2): row i holds columns i..N-1, rows in turn.

    A pass runs at memory bandwidth. float32 storage perturbs every entry by a relative 6e-8; sums are float64.

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

    in_memory = True
    _exact: tuple[GramStack, Array] | None = None  # of rounded kernels, where they are as they came: by that is proven

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
        self.packed = read_only(np.ascontiguousarray(triangles, dtype=dtype))

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():  # what is loaded is writeable
            setattr(self, name, read_only(value) if name == "packed" else value)

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
        """
        grams = check_gram_array(array)
        out = _new_triangles(grams.shape[:2], dtype, lambda: np.diagonal(grams, axis1=1, axis2=2))
        for m, gram in enumerate(grams):
            pack_triangle(read_only(np.ascontiguousarray(gram)), out[m])
        return cls(out, grams.shape[1], names=names, n_threads=n_threads)

    @classmethod
    def from_stack(cls, stack: GramStack, kernels: Index = None, *, dtype: DTypeLike | None = None) -> PackedStack:
        """Pack the given kernels (all by default) of any stack; ``dtype`` defaults to that of the stack.

        Parameters
        ----------
        stack : GramStack
        kernels : array_like of int or bool, or slice, optional
        dtype : float32 or float64, optional
        """
        chosen = check_some_indices(kernels, stack.n_kernels, "kernels")
        shape = len(chosen), stack.n_samples
        out = _new_triangles(shape, stack.dtype if dtype is None else dtype, lambda: stack.diag()[chosen])
        stack.triangles(chosen, out=out)
        return cls(out, stack.n_samples, names=stack._names_of(chosen), n_threads=stack.n_threads)

    @property
    def nbytes(self) -> int:
        """Bytes of the triangles."""
        return self.packed.nbytes

    def diag(self) -> Array:
        return self.packed[:, triangle_starts(self.n_samples)[:-1]].astype(np.float64, copy=False)

    def _block(self, rows: Array, cols: Array, kernels: Array) -> Array:
        low, high = np.minimum(rows[:, None], cols), np.maximum(rows[:, None], cols)
        positions = triangle_starts(self.n_samples)[low] + high - low
        return self.packed[kernels[:, None, None], positions].astype(np.float64, copy=False)

    def _run_ranges(self, loop: Callable[[int, int], None], size: int) -> None:
        """Run a loop over a range, cut into a part per thread if there are several."""
        if self.n_threads == 1:
            loop(0, size)
        else:
            run_ranges(loop, size, self.n_threads)

    def _quad(self, r: Array) -> Array:
        out = np.empty(self.n_kernels)
        n = self.n_samples
        self._run_ranges(lambda a, b: quad_packed(self.packed[a:b], n, r, out[a:b]), len(out))
        return out

    def _quad_each(self, columns: Array) -> Array:
        n, found = self.n_samples, np.zeros((self.n_kernels, columns.shape[1]))
        half, columns = np.zeros((n, n)), np.ascontiguousarray(columns)
        diagonal = np.einsum("ii->i", half)  # a view
        # of rows into which products of many columns divide a triangle, and their least height
        bands, least_band = 6, 64
        step = max(n // bands, least_band)
        with blas_threads(n, self.n_threads):
            for triangle, row in zip(self.packed, found, strict=True):
                unpack_upper(triangle, n, half)  # what is left of the diagonal is what is right of it
                diagonal *= 0.5
                for low in range(0, n, step):
                    band = slice(low, low + step)
                    row += 2.0 * np.einsum("nk,nk->k", half[band, low:] @ columns[low:], columns[band])
        return found

    def _squares(self, between: Array, kernels: Array) -> Array:
        doubled = np.empty(self.packed.shape[1])
        pack_triangle(read_only(2.0 * between), doubled)
        doubled[triangle_starts(self.n_samples)[:-1]] /= 2.0  # what is beside the diagonal stands for two entries
        return np.array([self.packed[m].astype(np.float64, copy=False) @ doubled for m in kernels])

    def _matrix(self, kernel: int) -> Array:
        if self._exact is not None:
            stack, samples = self._exact
            return stack._matrix(kernel).take(samples, axis=0).take(samples, axis=1)
        return self._unpacked(kernel)

    def _unpacked(self, kernel: int) -> Array:
        gram = np.empty((self.n_samples, self.n_samples))
        unpack_triangle(self.packed[kernel], self.n_samples, gram)
        return gram

    def _apply_each(self, columns: Array, kernels: Array) -> Array:
        unpacked_columns = 16  # vectors from which on kernels are unpacked: a matrix product then takes less
        if columns.shape[1] >= unpacked_columns:
            with blas_threads(self.n_samples, self.n_threads):
                return np.array([self._unpacked(kernel) @ columns for kernel in kernels])
        right = np.ascontiguousarray(columns.T)
        out = np.empty((len(kernels), *right.shape))

        def work(a: int, b: int) -> None:
            apply_packed_many(self.packed, kernels[a:b], self.n_samples, right, out[a:b])

        self._run_ranges(work, len(out))
        return out.transpose(0, 2, 1)

    def _combine(self, weights: Array, active: Array) -> Array:
        out, total = room_for_sum(self.n_samples)
        of_each = weights[active]
        self._run_ranges(lambda a, b: add_columns(self.packed, active, of_each, total[a:b], a), len(total))
        unfold(out)
        return out

    def _apply(self, weights: Array, active: Array, columns: Array) -> Array:
        return self._combine(weights, active) @ columns

    def _triangles(self, kernels: Array, out: Array) -> None:
        for kernel, triangle in zip(kernels, out, strict=True):
            np.copyto(triangle, self.packed[kernel], casting="same_kind")

    def _take(self, kernels: Array) -> PackedStack:
        return PackedStack(
            self.packed[kernels], self.n_samples, names=self._names_of(kernels), n_threads=self.n_threads
        )

    def _replace(self, kernel: int, gram: Array) -> None:
        if self._exact is None:
            super()._replace(kernel, gram)
        triangles = self.packed.copy()
        pack_triangle(read_only(gram), triangles[kernel])
        self.packed = read_only(triangles)

    def _restrict(self, samples: Array) -> GramStack:
        if len(samples) >= MOST_SAMPLES * self.n_samples:
            return super()._restrict(samples)
        i, j = np.triu_indices(len(samples))
        low, high = np.minimum(samples[i], samples[j]), np.maximum(samples[i], samples[j])
        chosen = self.packed[:, triangle_starts(self.n_samples)[low] + high - low]
        return PackedStack(chosen, len(samples), names=self.names, n_threads=self.n_threads)


def pack_rounded(stack: GramStack, samples: Array) -> PackedStack:
    """Pack kernels in memory on some samples in single precision, for models of which nothing is certified.

    Definiteness is tested on the original entries, before rounding.
    """
    kernels = np.arange(stack.n_kernels)
    out = np.empty((stack.n_kernels, triangle_size(len(samples))), dtype=np.float32)
    stack._triangles_among(samples, kernels, out)
    found = PackedStack(out, len(samples), names=stack.names, n_threads=stack.n_threads)
    found._exact = stack, samples
    found._unproven = None if stack._unproven is None else stack._unproven.take(kernels)
    return found


def _new_triangles(shape: tuple[int, ...], dtype: DTypeLike, diagonals: Callable[[], Array]) -> Array:
    """Return room for the triangles of ``m`` kernels on N samples, if ``dtype`` can hold their (m, N) diagonals."""
    if np.dtype(dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise InvalidInputError(f"Gram triangles are stored as float32 or float64, got dtype {np.dtype(dtype)}.")
    if np.dtype(dtype) == np.float32:
        check_float32_range(diagonals())
    return np.empty((shape[0], triangle_size(shape[1])), dtype=dtype)


def room_for_sum(n: int) -> tuple[Array, Array]:
    """Return a matrix (n, n), and a triangle of zeros in the same memory, for `unfold`."""
    out = np.empty((n, n))
    total = out.reshape(-1)[: triangle_size(n)]
    total[:] = 0.0
    return out, total


# --- compiled loops -------------------------------------------------------------------------------------------------


@compiled(fastmath=FAST)
def quad_packed(triangles: Array, n: int, rho: Array, out: Array) -> None:
    """Set ``out[m] = rho' K_m rho`` for packed triangles (W, n(n+1)/2); rho (n,), out (W,) float64."""
    for m in range(triangles.shape[0]):
        triangle = triangles[m]
        start = 0
        total = 0.0
        for i in range(n):
            row = triangle[start : start + n - i]
            tail = rho[i:]
            dot = 0.0
            for j in range(n - i):
                dot += row[j] * tail[j]
            total += rho[i] * (2.0 * dot - row[0] * rho[i])
            start += n - i
        out[m] = total


@compiled(fastmath=FAST)
def apply_packed_each(triangles: Array, n: int, rho: Array, out: Array) -> None:
    """Set ``out[m] = K_m rho`` for packed triangles (W, n(n+1)/2); rho (n,), out (W, n) float64, in a single read."""
    for m in range(triangles.shape[0]):
        triangle = triangles[m]
        result = out[m]
        result[:] = 0.0
        start = 0
        for i in range(n):
            row = triangle[start : start + n - i]
            tail = rho[i:]
            target = result[i:]
            own = rho[i]
            dot = 0.0
            for j in range(n - i):
                dot += row[j] * tail[j]
                target[j] += row[j] * own
            target[0] += dot - row[0] * own
            start += n - i


@compiled(fastmath=FAST)
def apply_packed_many(triangles: Array, kernels: Array, n: int, columns: Array, out: Array) -> None:
    """Set ``out[p, c] = K_m columns[c]``, m = kernels[p]; columns (k, n), out (W, k, n) float64."""
    for p in range(kernels.size):
        m = kernels[p]
        for c in range(columns.shape[0]):
            apply_packed_each(triangles[m : m + 1], n, columns[c], out[p, c : c + 1])


@compiled()
def unpack_triangle(triangle: Array, n: int, out: Array) -> None:
    """Write a packed triangle into the full symmetric ``out`` (n, n), row by row, then mirrored."""
    unpack_upper(triangle, n, out)
    mirror_upper(out)


@compiled()
def unfold(out: Array) -> None:
    """Expand the packed triangle at the start of the memory of ``out`` (n, n) to the symmetric matrix, in place."""
    n, flat = out.shape[0], out.reshape(-1)
    for i in range(n - 1, 0, -1):  # the last row first: each goes to where nothing is that is still needed
        start, own, width = i * n - i * (i - 1) // 2, i * n + i, n - i
        row, target = flat[start : start + width], flat[own : own + width]
        if own - start >= width:
            for j in range(width):
                target[j] = row[j]
        else:
            for j in range(width - 1, -1, -1):
                target[j] = row[j]
    mirror_upper(out)


@compiled()
def unpack_upper(triangle: Array, n: int, out: Array) -> None:
    """Write a packed triangle into the upper triangle of ``out`` (n, n), row by row."""
    start = 0
    for i in range(n):
        row = triangle[start : start + n - i]
        target = out[i, i:]
        for j in range(n - i):
            target[j] = row[j]
        start += n - i


@compiled()
def pack_triangle(gram: Array, out: Array) -> None:
    """Write the upper triangle of ``gram`` (n, n) into the packed ``out``, row by row."""
    n = gram.shape[0]
    start = 0
    for i in range(n):
        row = gram[i, i:]
        target = out[start : start + n - i]
        for j in range(n - i):
            target[j] = row[j]
        start += n - i


@compiled()
def pack_triangles_among(grams: Array, kernels: Array, samples: Array, out: Array) -> None:
    """Write the triangles of some of the matrices (M, n, n) among some samples into the rows of ``out``."""
    n = samples.size
    for p in range(kernels.size):
        gram, start = grams[kernels[p]], 0
        for i in range(n):
            own = samples[i]
            row, target, others = gram[own], out[p, start : start + n - i], samples[i:]
            for j in range(n - i):
                target[j] = row[others[j]] if own <= others[j] else gram[others[j], own]
            start += n - i


@compiled()
def pack_triangles(grams: Array, kernels: Array, out: Array) -> None:
    """Write the upper triangles of some of the matrices (M, n, n) into the rows of ``out``."""
    for p in range(kernels.size):
        pack_triangle(grams[kernels[p]], out[p])
