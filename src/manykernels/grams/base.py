"""The Gram stack: M symmetric kernels on N samples and the few operations every solver is written in."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from contextlib import contextmanager
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from manykernels.compiled import compiled
from manykernels.exceptions import InvalidInputError
from manykernels.grams.counters import GramCounters
from manykernels.grams.pivoted import MANY_COLUMNS, RANK_TOL, PivotedFactors
from manykernels.threads import blas_threads
from manykernels.validation.arrays import (
    Array,
    check_columns,
    check_indices,
    check_names,
    check_some_indices,
    check_vector,
    read_only,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from manykernels.validation.gram import Unproven

Index = ArrayLike | slice | None

PRODUCT_BYTES = 2**20  # of products of a few kernels with many vectors, which a cache keeps until they are summed
CHUNK_BYTES = 4 * 2**20  # of float64 blocks held at once
MOST_SAMPLES = 0.9  # share of the samples from which on a copy of these alone would save less time than it takes


def triangle_size(n_samples: int) -> int:
    """Return the number of entries of a packed upper triangle, ``N (N + 1) / 2``."""
    return n_samples * (n_samples + 1) // 2


def triangle_starts(n_samples: int) -> Array:
    """Return where every row of a packed triangle starts, with the total size at the end, (N + 1,) int64."""
    return np.concatenate(([0], np.cumsum(np.arange(n_samples, 0, -1))))


@compiled()
def mirror_upper(out: Array) -> None:
    """Copy the upper triangle of ``out`` (n, n) onto the lower triangle, in blocks."""
    n = out.shape[0]
    for top in range(0, n, 32):
        bottom = min(top + 32, n)
        for left in range(top, n, 32):
            right = min(left + 32, n)
            for i in range(top, bottom):
                for j in range(max(i + 1, left), right):
                    out[j, i] = out[i, j]


@compiled()
def pack_rows(block: Array, starts: Array, kernels: Array, out: Array) -> None:
    """Write the upper part of ``block`` (m, r, c) into ``out[kernels]``; starts (r,) says where the rows begin."""
    for p in range(kernels.size):
        for i in range(starts.size):
            row = block[p, i, i:]
            target = out[kernels[p], starts[i] : starts[i] + row.size]
            for j in range(row.size):
                target[j] = row[j]


class GramStack(ABC):
    """M symmetric positive semidefinite Gram matrices on the same N samples, kernels on the leading axis.

    A subclass *must* supply ``_block`` and ``diag``. It *may* override the private ``_quad``, ``_apply_each``,
    ``_apply``, ``_combine``, ``_triangles``, ``_take`` and ``_restrict`` for speed; their defaults read blocks of
    at most about 4 MB. Public methods check their arguments once, count what is read, and call the private ones.
    Storage may be float32; results and accumulation are float64. Nothing passed in is modified.

    Everywhere below, ``kernels`` and ``samples`` are positions, a slice or a mask (None: all), ``r`` is a vector (N,),
    ``R`` one or k side by side, (N,) or (N, k), and ``d`` are M weights of any sign.

    Parameters
    ----------
    n_kernels, n_samples : int
        M and N, both at least one.
    dtype : dtype
        Storage dtype, float32 or float64.
    names : sequence of str, optional
        A name per kernel.
    n_threads : int
        Threads that compiled loops may use.

    Attributes
    ----------
    n_kernels, n_samples, shape, dtype, names, n_threads
        ``shape`` is ``(M, N, N)``; ``names`` is a tuple or None.
    in_memory : bool
        Whether entries are stored, for repeated reads without evaluation.
    counters : GramCounters
        Read counts of the stack; stacks from `take` and `restrict` count separately.
    spare_bytes : int or None
        Bytes that a solver may take for copies of kernels not in memory; None sets no limit.
    """

    has_factors: ClassVar[bool] = False  # whether kernels have factors, and forms have bounds on their errors

    in_memory: bool = False
    evaluates: bool = False  # whether every reading evaluates kernels, which a copy in memory would save
    shaped: bool = False  # whether functions of some kernels must have a shape, so that they are no sums d_m K_m rho
    spare_bytes: int | None = None

    _pivoted: PivotedFactors | None = None
    _unproven: Unproven | None = None  # of kernels that others computed, see `prove_definite`
    # Kernels that this very object holds another matrix for, and by how much they were indefinite.
    _replaced: dict[int, float] | MappingProxyType[int, float] = MappingProxyType({})

    def __init__(
        self,
        n_kernels: int,
        n_samples: int,
        dtype: Any,
        *,
        names: Sequence[str] | None = None,
        n_threads: int = 1,
    ) -> None:
        self.n_kernels = int(n_kernels)
        self.n_samples = int(n_samples)
        self.dtype = np.dtype(dtype)
        self.names = check_names(names, self.n_kernels)
        self.n_threads = int(n_threads)
        self._triangle = triangle_size(self.n_samples)
        self.counters = GramCounters(self.n_kernels * self._triangle)
        self._origin = object()  # what twins of one stack have in common

    # --- must be supplied -------------------------------------------------------------------------------------------

    @abstractmethod
    def _block(self, rows: Array, cols: Array, kernels: Array) -> Array:
        """Entries ``K_m[rows, cols]`` of the given kernels, (m, r, c) float64; arguments are index arrays."""

    @abstractmethod
    def diag(self) -> Array:
        """Diagonals of all kernels, (M, N) float64.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.grams import DenseStack
        >>> stack = DenseStack(np.stack([np.eye(2), np.ones((2, 2))]))
        >>> stack.diag().tolist()
        [[1.0, 1.0], [1.0, 1.0]]
        """

    @property
    def largest(self) -> Array:
        """Largest diagonal entry of every kernel, (M,) float64; read once, for all problems on the stack."""
        return self._largest

    @cached_property
    def _largest(self) -> Array:
        return read_only(np.abs(self.diag()).max(axis=1))

    def diag_sums(self, weight: Array) -> Array:
        """``sum_i s_i k_m(x_i, x_i)`` of every kernel, (M,) float64."""
        return np.asarray(self.diag(), dtype=np.float64) @ weight

    @property
    def exact_cost(self) -> float:
        """Kernel values per exact quadratic form: 0 if `quad` is exact."""
        return 0.0

    @property
    def quad_cost(self) -> float:
        """Approximate multiplications of a quadratic form of every kernel."""
        return 0.5 * self.n_kernels * float(self.n_samples) ** 2

    @property
    def n_entries(self) -> int:
        """Entries of triangles of all kernels: the size of a copy in memory."""
        return self.n_kernels * triangle_size(self.n_samples)

    @property
    def n_rounded_entries(self) -> int:
        """Entries of a copy in single precision."""
        return self.n_entries

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes held by the stack."""

    @property
    def matrix_free(self) -> bool:
        """Return whether products with vectors are so much cheaper than entries that solvers should avoid matrices."""
        return False

    # --- data -------------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int, int]:
        """``(n_kernels, n_samples, n_samples)``."""
        return (self.n_kernels, self.n_samples, self.n_samples)

    def __len__(self) -> int:
        return self.n_kernels

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_kernels={self.n_kernels}, n_samples={self.n_samples}, dtype={self.dtype})"

    # --- public operations ------------------------------------------------------------------------------------------

    def block(self, rows: Index = None, cols: Index = None, kernels: Index = None) -> Array:
        """Entries ``K_m[rows, cols]`` of samples, (m, r, c).

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.grams import DenseStack
        >>> stack = DenseStack(np.stack([np.eye(2), np.ones((2, 2))]))
        >>> stack.block([0], [1]).tolist()
        [[[0.0]], [[1.0]]]
        """
        rows, cols = (check_indices(index, self.n_samples, "samples") for index in (rows, cols))
        kernels = check_indices(kernels, self.n_kernels, "kernels")
        self.counters.add(len(rows) * len(cols) * len(kernels), self.dtype.itemsize)
        return self._block(rows, cols, kernels)

    def quad(self, r: ArrayLike) -> Array:
        """Squared kernel norms ``u_m^2 = r' K_m r`` (M,) of a single vector: a single pass.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.grams import DenseStack
        >>> stack = DenseStack(np.stack([np.eye(2), np.ones((2, 2))]))
        >>> stack.quad([1.0, 2.0])
        array([5., 9.])
        """
        vector = r if _is_plain(r, self.n_samples) else check_vector(r, self.n_samples, "r")
        self._count(self.n_kernels)
        squares = self._quad(vector)
        if self._unproven is not None:
            self.prove_definite(self._unproven.betrayed(squares, float(vector @ vector), self.diag))
        return squares

    def squares(self, R: Array, kernels: Array | None = None) -> Array:
        """``tr R' K_m R = <K_m, R R'>`` (m,), for several vectors at the cost of a single vector."""
        if R.ndim == 1:
            squares = self.quad(R)
            return squares if kernels is None else squares[kernels]
        chosen = np.arange(self.n_kernels) if kernels is None else kernels
        self._count(len(chosen))
        return self._squares(R @ R.T, chosen)

    def matrix(self, kernel: int) -> Array:
        """Return ``K_m`` (N, N), to be read only."""
        self._count(1)
        return self._matrix(kernel)

    def quads(self, R: Array) -> tuple[Array, Array]:
        """Bounds (M,) from below and from above on ``tr R' K_m R``; the same twice if kernels are exact: one pass."""
        squares = self.squares(R)
        return squares, squares

    def quad_each(self, R: ArrayLike) -> Array:
        """Squared kernel norms ``r' K_m r`` (M, k) of every column ``r`` of ``R``: a single pass for all.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.grams import DenseStack
        >>> stack = DenseStack(np.stack([np.eye(2), np.ones((2, 2))]))
        >>> stack.quad_each([[1.0, 1.0], [2.0, -1.0]]).tolist()
        [[5.0, 2.0], [9.0, 0.0]]
        """
        columns = check_columns(R, self.n_samples, "R")
        self._count(self.n_kernels)
        if self._pivoted is not None and columns.shape[1] >= MANY_COLUMNS:
            return self._pivoted.quads(columns)
        return self._quad_each(columns)

    def pivoted(self, rank_tol: float = RANK_TOL) -> PivotedFactors:
        """Return cached features of all kernels, used by later quadratic forms of many vectors."""
        if self._pivoted is None:
            rank_tol = max(rank_tol, 8.0 * float(np.finfo(self.dtype).eps))
            self._pivoted = PivotedFactors.factorize((self.matrix(m) for m in range(self.n_kernels)), rank_tol)
        return self._pivoted

    def squares_each(self, R: Array) -> Array:
        """``tr R_k' K_m R_k`` (M, k) of several sets of vectors ``R`` (N, k, T): a single pass for all."""
        self._count(self.n_kernels)
        return self._quad_each(R[:, :, 0]) if R.shape[2] == 1 else self._squares_each(R)

    def apply_each(self, R: ArrayLike, kernels: Index = None) -> Array:
        """Products ``K_m R``, (m, N) or (m, N, k), of the given kernels separately.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.grams import DenseStack
        >>> stack = DenseStack(np.stack([np.eye(2), np.ones((2, 2))]))
        >>> stack.apply_each([1.0, 2.0]).tolist()
        [[1.0, 2.0], [3.0, 3.0]]
        """
        right = R if _is_plain(R, self.n_samples) else check_columns(R, self.n_samples, "R")
        indices = np.arange(self.n_kernels) if kernels is None else check_indices(kernels, self.n_kernels, "kernels")
        self._count(len(indices))
        columns = right[:, None] if right.ndim == 1 else right
        each = self._apply_each(columns, indices)
        return each[:, :, 0] if right.ndim == 1 else each

    def apply(self, d: ArrayLike, R: ArrayLike) -> Array:
        """Weighted product ``sum_m d_m K_m R`` in the shape of R, reading only kernels with ``d_m != 0``.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.grams import DenseStack
        >>> stack = DenseStack(np.stack([np.eye(2), np.ones((2, 2))]))
        >>> stack.apply([1.0, 0.5], [1.0, 2.0])
        array([2.5, 3.5])
        """
        weights, active = self._active(d)
        right = check_columns(R, self.n_samples, "R")
        self._count(len(active))
        columns = right[:, None] if right.ndim == 1 else right
        total = self._apply(weights, active, columns)
        return total[:, 0] if right.ndim == 1 else total

    def combine(self, d: ArrayLike) -> Array:
        """Weighted sum ``sum_m d_m K_m``, (N, N) and symmetric, reading only kernels with ``d_m != 0``.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.grams import DenseStack
        >>> stack = DenseStack(np.stack([np.eye(2), np.ones((2, 2))]))
        >>> stack.combine([1.0, 0.5]).tolist()
        [[1.5, 0.5], [0.5, 1.5]]
        """
        weights, active = self._active(d)
        self._count(len(active))
        return self._combine(weights, active)

    def triangles(self, kernels: Index = None, out: Array | None = None, *, prove: bool = True) -> Array:
        """Packed upper triangles (m, N(N+1)/2): row i holds columns i..N-1, rows in turn.

        They are written to ``out``, float32 or float64; by default to a new array of the storage dtype. Kernels may go
        unproven (`prove_definite`) where every model of them is looked at before it is returned.
        """
        indices = check_indices(kernels, self.n_kernels, "kernels")
        shape = (len(indices), self._triangle)
        if out is None:
            out = np.empty(shape, dtype=self.dtype)
        elif out.shape != shape:
            raise InvalidInputError(f"out must have shape {shape}, got {out.shape}.")
        self._count(len(indices))
        if prove:
            self.prove_definite(indices)
        self._triangles(indices, out)
        return out

    def is_twin_of(self, other: GramStack) -> bool:
        """Return whether both are the same stack, up to counters."""
        return self._origin is other._origin

    @contextmanager
    def count_apart(self) -> Iterator[GramStack]:
        """Return a twin of the stack with fresh counters, added to the original at the end.

        Concurrent runs on a shared stack thus count separately.

        Yields
        ------
        GramStack
            The same kernels, not copied.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.grams import DenseStack
        >>> stack = DenseStack(np.eye(2)[None])
        >>> with stack.count_apart() as twin:
        ...     _ = twin.quad([1.0, 2.0]), stack.quad([1.0, 1.0])
        >>> twin.counters.passes, stack.counters.passes
        (1.0, 2.0)
        """
        twin = copy.copy(self)
        twin.counters = GramCounters(self.counters.entries_per_pass)
        try:
            yield twin
        finally:
            self.counters.entries += twin.counters.entries
            self.counters.bytes_read += twin.counters.bytes_read

    def take(self, kernels: Index) -> GramStack:
        """Return a stack of the given kernels only, in the given order, with the respective counters.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.grams import DenseStack
        >>> stack = DenseStack(np.stack([np.eye(2), np.ones((2, 2))]))
        >>> stack.take([1]).n_kernels
        1
        """
        chosen = check_some_indices(kernels, self.n_kernels, "kernels")
        self.prove_definite(chosen)
        return self._take(chosen)

    def view(self, kernels: Index, *, prove: bool = True) -> GramView:
        """Return a stack of the given kernels that reads the parent in place, with separate counters.

        Unlike `take` it never copies: worthwhile where the entries are in memory and many subsets are tried. Kernels
        may go unproven as in `triangles`.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.grams import DenseStack
        >>> stack = DenseStack(np.stack([np.eye(2), np.ones((2, 2))]))
        >>> stack.view([1]).n_kernels
        1
        """
        chosen = check_some_indices(kernels, self.n_kernels, "kernels")
        if prove:
            self.prove_definite(chosen)
        return GramView(self, chosen, np.arange(self.n_samples))

    def restrict(self, samples: Index) -> GramStack:
        """Return a stack of all kernels on the given samples only, in the given order, with the respective counters.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.grams import DenseStack
        >>> stack = DenseStack(np.stack([np.eye(2), np.ones((2, 2))]))
        >>> stack.restrict([0]).shape
        (2, 1, 1)
        """
        part = self._restrict(check_some_indices(samples, self.n_samples, "samples"))
        part._unproven = None if self._unproven is None else self._unproven.take(slice(None))
        return part

    def prove_definite(self, kernels: Index = None) -> bool:
        """Prove that kernels are positive semidefinite, unless somebody did before; most stacks know that theirs are.

        Precomputed kernels are proven definite when copied (`take`, `view`, `triangles`) or returned in a model, and
        rejected for a negative quadratic form; the method proves all at once.

        Returns
        -------
        bool
            Whether negative eigenvalues within the tolerance were set to zero, which changes entries.

        Raises
        ------
        NotPSDError
            If one has a negative eigenvalue beyond the tolerance of the storage; the message says by how much.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.grams import as_stack
        >>> as_stack(np.eye(3)[None]).prove_definite()
        False
        """
        if self._unproven is None:
            return False
        left = check_indices(kernels, self.n_kernels, "kernels")
        left = left[self._unproven.mask[left]]
        left = left[~np.isin(left, list(self._replaced))] if self._replaced else left
        if not left.size:
            return False
        self._count(len(left))
        with blas_threads(self.n_samples, self.n_threads):
            nearest, sizes = self._unproven.prove(left, self._matrix)
        for kernel, gram in nearest.items():
            self._replace(kernel, gram)
        self._replaced = {**self._replaced, **sizes}
        return bool(nearest)

    @property
    def replaced_kernels(self) -> dict[int, float]:
        """Kernels that were indefinite by rounding, replaced by the nearest definite kernels.

        By position; the value is by how much of the largest eigenvalue the smallest one was negative.
        """
        return {**({} if self._unproven is None else self._unproven.replaced), **self._replaced}

    def _replace(self, kernel: int, gram: Array) -> None:
        """Replace a kernel that is indefinite within the tolerance by another matrix."""
        raise InvalidInputError(f"A {type(self).__name__} cannot change kernel {kernel}: check the kernels before.")

    # --- defaults, built on _block ----------------------------------------------------------------------------------

    def _quad(self, r: Array) -> Array:
        return self._quad_of(r, np.arange(self.n_kernels))

    def _quad_each(self, columns: Array) -> Array:
        """Return ``r' K_m r`` of every column; products of a few kernels at a time are held."""
        together = max(1, PRODUCT_BYTES // (8 * columns.size))
        found = np.empty((self.n_kernels, columns.shape[1]))
        for first in range(0, self.n_kernels, together):
            some = slice(first, min(first + together, self.n_kernels))
            each = self._apply_each(columns, np.arange(some.start, some.stop))
            np.einsum("mnk,nk->mk", each, columns, out=found[some])
        return found

    def _squares_each(self, R: Array) -> Array:
        """Return ``tr R_k' K_m R_k`` of several sets of several vectors."""
        return self._quad_each(R.reshape(len(R), -1)).reshape(-1, *R.shape[1:]).sum(axis=2)

    def _squares(self, between: Array, kernels: Array) -> Array:
        """Return the inner products of kernels with a symmetric matrix (N, N)."""
        return np.array([np.vdot(self._matrix(m), between) for m in kernels])

    def _matrix(self, kernel: int) -> Array:
        weights = np.zeros(self.n_kernels)
        weights[kernel] = 1.0
        return self._combine(weights, np.array([kernel]))

    def _quad_of(self, r: Array, kernels: Array) -> Array:
        total = np.zeros(len(kernels))
        for at, rows, block in self._upper_blocks(kernels):
            doubled = 2.0 * r[rows[0] :]
            doubled[: len(rows)] = r[rows]
            total[at] += (block @ doubled) @ r[rows]
        return total

    def _apply_each(self, columns: Array, kernels: Array) -> Array:
        each = np.zeros((len(kernels), self.n_samples, columns.shape[1]))
        for at, rows, block in self._upper_blocks(kernels):
            top, bottom = rows[0], rows[-1] + 1
            each[at, top:bottom] += block @ columns[top:]
            each[at, bottom:] += block[:, :, len(rows) :].transpose(0, 2, 1) @ columns[rows]
        return each

    def _apply(self, weights: Array, active: Array, columns: Array) -> Array:
        total = np.zeros(columns.shape)
        for at, rows, block in self._upper_blocks(active):
            top, bottom = rows[0], rows[-1] + 1
            combined = np.tensordot(weights[active[at]], block, axes=1)
            total[top:bottom] += combined @ columns[top:]
            total[bottom:] += combined[:, len(rows) :].T @ columns[rows]
        return total

    def _combine(self, weights: Array, active: Array) -> Array:
        total = np.zeros((self.n_samples, self.n_samples))
        for at, rows, block in self._upper_blocks(active):
            total[rows[0] : rows[-1] + 1, rows[0] :] += np.tensordot(weights[active[at]], block, axes=1)
        mirror_upper(total)
        return total

    def _combine_all(self, weights: Array) -> Array:
        """Combine with nonzero weights, the request of a view of all kernels in every Newton step."""
        return self._combine(weights, np.arange(self.n_kernels))

    def _triangles(self, kernels: Array, out: Array) -> None:
        starts = triangle_starts(self.n_samples)
        for at, rows, block in self._upper_blocks(kernels):
            pack_rows(block, starts[rows], at, out)

    def _triangles_among(self, samples: Array, kernels: Array, out: Array) -> None:
        """Write the triangles of kernels among some samples, in order."""
        GramStack._triangles(GramView(self, kernels, samples), np.arange(len(kernels)), out)

    def _take(self, kernels: Array) -> GramStack:
        return GramView(self, kernels, np.arange(self.n_samples))

    def _restrict(self, samples: Array) -> GramStack:
        return GramView(self, np.arange(self.n_kernels), samples)

    # --- shared by subclasses ---------------------------------------------------------------------------------------

    def _count(self, n_kernels: int) -> None:
        entries = n_kernels * self._triangle
        self.counters.entries += entries
        self.counters.bytes_read += entries * self.dtype.itemsize

    def _active(self, d: ArrayLike) -> tuple[Array, Array]:
        weights = d if _is_plain(d, self.n_kernels) else check_vector(d, self.n_kernels, "d")
        return weights, weights.nonzero()[0]

    def _names_of(self, kernels: Array) -> tuple[str, ...] | None:
        return None if self.names is None else tuple(self.names[m] for m in kernels)

    def _upper_blocks(self, kernels: Array) -> Iterator[tuple[Array, Array, Array]]:
        """Yield (positions in ``kernels``, rows, entries of the rows from their first column on)."""
        for at, rows in self._chunks(kernels):
            yield at, rows, self._block(rows, np.arange(rows[0], self.n_samples), kernels[at])

    def _chunks(self, kernels: Array) -> Iterator[tuple[Array, Array]]:
        """Cut kernels x rows so a float64 block over all columns stays below `CHUNK_BYTES`."""
        row_bytes = 8 * self.n_samples
        n_rows = max(1, min(self.n_samples, CHUNK_BYTES // row_bytes))
        n_kernels = max(1, CHUNK_BYTES // (row_bytes * n_rows))
        for first in range(0, len(kernels), n_kernels):
            for top in range(0, self.n_samples, n_rows):
                at = np.arange(first, min(first + n_kernels, len(kernels)))
                yield at, np.arange(top, min(top + n_rows, self.n_samples))


def _is_plain(vector: ArrayLike, size: int) -> TypeGuard[Array]:
    """Return whether a vector has the right number of finite float64 entries, so no check is due."""
    if type(vector) is not np.ndarray or vector.dtype != np.float64 or vector.shape != (size,):
        return False
    return vector.flags.carray and bool(np.isfinite(vector).all())


def is_stack(kernels: object) -> TypeGuard[GramStack]:
    """Return whether kernels are already a stack."""
    return hasattr(type(kernels), "quads")


class GramView(GramStack):
    """Selected kernels and samples of another stack, without a copy: the default result of `take` and `restrict`."""

    def __init__(self, parent: GramStack, kernels: Array, samples: Array) -> None:
        super().__init__(
            len(kernels), len(samples), parent.dtype, names=parent._names_of(kernels), n_threads=parent.n_threads
        )
        self.shaped, self.in_memory = parent.shaped, parent.in_memory
        self._parent, self._kernels, self._samples = parent, kernels, samples
        self._unproven = None if parent._unproven is None else parent._unproven.take(kernels)
        # Most samples of what is in memory: cheaper to read all, with zeros for the others, than to gather entries.
        self._pads = parent.in_memory and len(samples) >= MOST_SAMPLES * parent.n_samples
        self._whole = len(samples) == parent.n_samples and bool((samples == np.arange(parent.n_samples)).all())

    def _block(self, rows: Array, cols: Array, kernels: Array) -> Array:
        return self._parent._block(self._samples[rows], self._samples[cols], self._kernels[kernels])

    def prove_definite(self, kernels: Index = None) -> bool:
        """Let the parent prove the kernels, on all of the samples; see :meth:`GramStack.prove_definite`."""
        return self._parent.prove_definite(self._kernels[check_indices(kernels, self.n_kernels, "kernels")])

    @property
    def replaced_kernels(self) -> dict[int, float]:
        """The replaced kernels of the parent."""
        found = self._parent.replaced_kernels
        return {slot: found[m] for slot, m in enumerate(self._kernels.tolist()) if m in found}

    def _padded(self, columns: Array) -> Array:
        """Return vectors (n, k) on the samples of the parent, zero where the view has none."""
        if self._whole:
            return columns
        padded = np.zeros((self._parent.n_samples, columns.shape[1]))
        np.add.at(padded, self._samples, columns)  # a sample may be chosen twice
        return padded

    def _quad(self, r: Array) -> Array:
        if not self._whole and not self._pads:
            return super()._quad(r)
        column = self._padded(r[:, None])
        if len(self._kernels) == self._parent.n_kernels and not np.any(np.diff(self._kernels) != 1):
            return self._parent._quad(column[:, 0])
        return self._parent._apply_each(column, self._kernels)[:, :, 0] @ column[:, 0]

    def _apply_each(self, columns: Array, kernels: Array) -> Array:
        if not self._whole and not self._pads:
            return super()._apply_each(columns, kernels)
        each = self._parent._apply_each(self._padded(columns), self._kernels[kernels])
        return each if self._whole else each[:, self._samples]

    def _combine(self, weights: Array, active: Array) -> Array:
        if not self._whole and not self._pads:
            return super()._combine(weights, active)
        scattered = np.bincount(self._kernels[active], weights[active], minlength=self._parent.n_kernels)
        if np.count_nonzero(scattered) == self._parent.n_kernels:
            total = self._parent._combine_all(scattered)
        else:
            total = self._parent._combine(scattered, np.flatnonzero(scattered))
        return total if self._whole else total[np.ix_(self._samples, self._samples)]

    def _squares(self, between: Array, kernels: Array) -> Array:
        if not self._whole:
            return super()._squares(between, kernels)
        return self._parent._squares(between, self._kernels[kernels])

    def _triangles(self, kernels: Array, out: Array) -> None:
        if self._whole:
            self._parent._triangles(self._kernels[kernels], out)
        else:
            self._parent._triangles_among(self._samples, self._kernels[kernels], out)

    def diag(self) -> Array:
        return self._parent.diag()[np.ix_(self._kernels, self._samples)]

    @property
    def largest(self) -> Array:
        return self._parent.largest[self._kernels] if self._whole else self._largest

    @property
    def nbytes(self) -> int:
        """Bytes held by the parent, kept alive by the view."""
        return self._parent.nbytes
