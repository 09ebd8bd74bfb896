"""Gaussian kernels that are powers of wider ones, held as the triangle of the widest alone.

``exp(-d / (2 s^2))`` at half of a width is its fourth power, at a quarter its sixteenth: of kernels on the same columns
whose widths go by powers of the root of two, as those of the default bank do, the entries of the widest are enough. The
others are squared from them, row by row in a cache, whenever they are read: a third of the memory, and of the
exponentials, for kernels of three widths, and a pass over all of them, which memory bounds, takes less time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.compiled import compiled
from manykernels.grams.base import GramStack, triangle_starts
from manykernels.grams.loops import FAST, TILE
from manykernels.grams.packed import PackedStack, room_for_sum, unfold
from manykernels.kernels import Gaussian, Linear
from manykernels.threads import run_ranges
from manykernels.validation.arrays import Array, read_only

MOST_SQUARINGS = 4  # in a row; each doubles the relative rounding of an entry
WHOLE = 1e-9  # how near to a whole number the logarithm of a power must be
SPARED = 2.2e-10  # seconds by which an entry of a power is read faster, and...
ROW = 7.5e-8  # ...those that a row of it takes more, both measured by `python benchmarks/distinct.py`
EXPANDED_BYTES = 2**24  # of triangles of powers that are formed at a time


@dataclass(frozen=True, eq=False)
class Powers:
    """Which of some kernels are powers of which: kernel ``m`` is ``base[owners[m]] ** (2 ** squarings[m])``."""

    bases: Array  # (B,) int: the kernels whose entries are held
    owners: Array  # (M,) int: places among these
    squarings: Array  # (M,) int: zero for a base

    @classmethod
    def of(cls, coefficients: Array, groups: Array) -> Powers:
        """Find them among kernels ``exp(coefficients[m] d)`` of the same distances by group; NaN for other kernels."""
        owners, squarings = np.arange(len(groups)), np.zeros(len(groups), dtype=np.intp)
        fused = np.flatnonzero(coefficients < 0)
        widest = np.full(int(groups.max()) + 1, -np.inf)
        np.maximum.at(widest, groups[fused], coefficients[fused])
        logs = np.log2(coefficients[fused] / widest[groups[fused]])
        times = np.round(logs).astype(np.intp)
        fused, times = (each[np.abs(logs - times) < WHOLE] for each in (fused, times))
        order = np.lexsort([times, groups[fused]])
        base, start = -1, 0  # the last kernel that is held, and how many squarings it is
        for kernel, own in zip(fused[order].tolist(), times[order].tolist(), strict=True):
            if base < 0 or groups[base] != groups[kernel] or own > start + MOST_SQUARINGS:
                base, start = kernel, own
            owners[kernel], squarings[kernel] = base, own - start
        bases, owners = np.unique(owners, return_inverse=True)
        return cls(bases, owners.ravel(), squarings)

    @staticmethod
    def pay(n_samples: int) -> bool:
        """Whether they are predicted to be read faster than triangles of their own: where rows are long."""
        return SPARED * n_samples / 2 > ROW


def n_bases(kernels: Sequence[tuple[str, object, tuple[int, ...]]], n_samples: int) -> int:
    """Return about how many kernels, of all with their names and columns, have triangles in single precision.

    Linear kernels of single columns are features in place of matrices.
    """
    kept = [(spec, columns) for _, spec, columns in kernels if not (isinstance(spec, Linear) and len(columns) == 1)]
    if not kept or not Powers.pay(n_samples):
        return len(kept)
    factors = np.full(len(kept), np.nan)
    units: dict[object, int] = {}
    groups = np.zeros(len(kept), dtype=np.intp)
    for at, (spec, columns) in enumerate(kept):
        width: Any = spec.width if isinstance(spec, Gaussian) else None
        factor = getattr(width, "factor", width)
        factors[at] = np.nan if factor is None else -0.5 / factor**2
        groups[at] = units.setdefault((columns, isinstance(width, float)), len(units))
    return len(Powers.of(factors, groups).bases)


class PoweredStack(GramStack):
    """Packed upper triangles of some kernels, beside kernels that are powers of these.

    Made by `build_stack` where single precision is enough and that is predicted to pay. In float32 entries of a
    sixteenth power are off by a relative 1e-6.

    Parameters
    ----------
    triangles : ndarray of shape (n_bases, N(N+1)/2), float32 or float64
        Not negative; not copied, never modified.
    powers : Powers
        Which kernels are powers of these.
    scales : ndarray of shape (n_kernels,)
        Factors of the kernels.
    n_samples : int
    names : sequence of str, optional
    n_threads : int

    Examples
    --------
    >>> import numpy as np
    >>> powers = Powers.of(np.array([-4.0, -1.0]), np.array([0, 0]))
    >>> stack = PoweredStack(np.array([[1.0, 0.5, 1.0]]), powers, np.ones(2), n_samples=2)
    >>> stack.block([0], [1]).ravel().tolist()
    [0.0625, 0.5]
    """

    in_memory = True

    def __init__(
        self,
        triangles: Array,
        powers: Powers,
        scales: Array,
        n_samples: int,
        *,
        names: Sequence[str] | None = None,
        n_threads: int = 1,
    ) -> None:
        super().__init__(len(scales), n_samples, triangles.dtype, names=names, n_threads=n_threads)
        self.packed, self._scales, self.bases = read_only(triangles), scales, powers.bases
        self._owners, self._squarings = powers.owners, powers.squarings
        # By what they are powers of, the lowest first: each is squared from the one before.
        self._order = np.lexsort([powers.squarings, powers.owners])
        self._starts = np.searchsorted(powers.owners[self._order], np.arange(len(triangles) + 1))
        self._times = powers.squarings[self._order]
        # Entries below have powers that are too small for normal numbers, with which processors are slow: zero.
        tiny = float(np.finfo(self.dtype).tiny)
        self._least = (tiny**0.5 ** np.arange(MOST_SQUARINGS + 1)).astype(self.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of the triangles that are held."""
        return self.packed.nbytes

    @property
    def n_entries(self) -> int:
        return self.packed.size

    def _raised(self, values: Array, kernels: Array) -> Array:
        """Return entries of kernels from those that they are powers of, a kernel in front."""
        found = values.astype(np.float64)
        for own, times, scale in zip(found, self._squarings[kernels], self._scales[kernels], strict=True):
            for _ in range(times):
                np.square(own, out=own)
            own *= scale
        return found

    def diag(self) -> Array:
        diagonals = self.packed[:, triangle_starts(self.n_samples)[:-1]]
        return self._raised(diagonals[self._owners], np.arange(self.n_kernels))

    def _block(self, rows: Array, cols: Array, kernels: Array) -> Array:
        low, high = np.minimum(rows[:, None], cols), np.maximum(rows[:, None], cols)
        positions = triangle_starts(self.n_samples)[low] + high - low
        return self._raised(self.packed[self._owners[kernels][:, None, None], positions], kernels)

    def _quad(self, r: Array) -> Array:
        found = np.empty(self.n_kernels)

        def work(a: int, b: int) -> None:
            powered_quad(self.packed, self._starts, self._times, self._least, r, a, b, found)

        run_ranges(work, len(self.packed), self.n_threads)
        squares = np.empty(self.n_kernels)
        squares[self._order] = found
        return self._scales * squares

    def _expanded(self, kernels: Array) -> Iterator[PackedStack]:
        """Yield kernels as triangles of their own, some at a time."""
        step = max(1, EXPANDED_BYTES // (self.dtype.itemsize * self._triangle))
        for first in range(0, len(kernels), step):
            yield PackedStack.from_stack(self, kernels[first : first + step])

    def _quad_each(self, columns: Array) -> Array:
        return np.concatenate([some._quad_each(columns) for some in self._expanded(np.arange(self.n_kernels))])

    def _squares(self, between: Array, kernels: Array) -> Array:
        return np.concatenate([some._squares(between, np.arange(len(some))) for some in self._expanded(kernels)])

    def _apply_each(self, columns: Array, kernels: Array) -> Array:
        right = np.ascontiguousarray(columns.T)
        out = np.zeros((len(kernels), *right.shape))
        owners, times = self._owners[kernels], self._squarings[kernels]

        def work(a: int, b: int) -> None:
            powered_apply(self.packed, owners[a:b], times[a:b], self._least, right, out[a:b])

        run_ranges(work, len(kernels), self.n_threads)
        out *= self._scales[kernels, None, None]
        return out.transpose(0, 2, 1)

    def _combine(self, weights: Array, active: Array) -> Array:
        (out, total), own = room_for_sum(self.n_samples), (weights * self._scales)[self._order]

        def work(a: int, b: int) -> None:
            powered_accumulate(self.packed, self._starts, self._times, self._least, own, a, b, total)

        run_ranges(work, len(total), self.n_threads)
        unfold(out)
        return out

    def _apply(self, weights: Array, active: Array, columns: Array) -> Array:
        return self._combine(weights, active) @ columns

    def _triangles(self, kernels: Array, out: Array) -> None:
        raised = np.empty(self._triangle, dtype=self.dtype)
        for place, kernel in enumerate(kernels.tolist()):
            raise_entries(self.packed[self._owners[kernel]], self._squarings[kernel], self._least, raised)
            np.multiply(raised, self._scales[kernel], out=out[place], casting="same_kind")


# --- compiled loops: a row of a triangle at a time, which stays in a cache ----------------------------------------


@compiled(fastmath=FAST)
def raise_entries(source: Array, times: int, least: Array, out: Array) -> None:
    """Set ``out`` to ``source`` squared so many times, at most four; what would end below normal numbers is zero."""
    low, zero = least[times], source.dtype.type(0)
    if times == 0:
        for j in range(out.size):
            out[j] = source[j]
    elif times == 1:
        for j in range(out.size):
            value = source[j] if source[j] > low else zero
            out[j] = value * value
    elif times == 2:
        for j in range(out.size):
            value = source[j] if source[j] > low else zero
            value *= value
            out[j] = value * value
    elif times == 3:
        for j in range(out.size):
            value = source[j] if source[j] > low else zero
            value *= value
            value *= value
            out[j] = value * value
    else:
        for j in range(out.size):
            value = source[j] if source[j] > low else zero
            value *= value
            value *= value
            value *= value
            out[j] = value * value


@compiled(fastmath=FAST)
def _dot(row: Array, tail: Array) -> float:
    total = 0.0
    for j in range(row.size):
        total += row[j] * tail[j]
    return 2.0 * total - row[0] * tail[0]


@compiled(fastmath=FAST)
def powered_quad(
    held: Array, starts: Array, times: Array, least: Array, rho: Array, first: int, last: int, out: Array
) -> None:
    """Set ``out[p] = rho' K_p rho`` of the powers of bases first..last-1; those of a base stand side by side."""
    n = rho.size
    buffers = np.empty((2, n), dtype=held.dtype)  # a row that were squared in place would not be vectorized
    for base in range(first, last):
        triangle = held[base]
        out[starts[base] : starts[base + 1]] = 0.0
        start = 0
        for i in range(n):
            source, tail = triangle[start : start + n - i], rho[i:]
            known, side = 0, 0
            for p in range(starts[base], starts[base + 1]):
                if times[p] == 0:
                    out[p] += rho[i] * _dot(source, tail)
                    continue
                row = buffers[side, : n - i]
                if known == 0:
                    raise_entries(source, times[p], least, row)
                elif times[p] > known:
                    raise_entries(buffers[1 - side, : n - i], times[p] - known, least, row)
                else:
                    row = buffers[1 - side, : n - i]
                out[p] += rho[i] * _dot(row, tail)
                if times[p] > known:
                    known, side = times[p], 1 - side
            start += n - i


@compiled(fastmath=FAST)
def _add_products(row: Array, own: float, tail: Array, target: Array) -> None:
    dot = 0.0
    for j in range(row.size):
        dot += row[j] * tail[j]
        target[j] += row[j] * own
    target[0] += dot - row[0] * own


@compiled(fastmath=FAST)
def powered_apply(held: Array, owners: Array, times: Array, least: Array, columns: Array, out: Array) -> None:
    """Add ``K_p columns[c]`` to ``out[p, c]``, of kernels that are base ``owners[p]`` squared ``times[p]`` times."""
    n = columns.shape[1]
    buffer = np.empty(n, dtype=held.dtype)
    for p in range(owners.size):
        triangle = held[owners[p]]
        start = 0
        for i in range(n):
            source, row = triangle[start : start + n - i], buffer[: n - i]
            if times[p] > 0:
                raise_entries(source, times[p], least, row)
            for c in range(columns.shape[0]):
                if times[p] > 0:
                    _add_products(row, columns[c, i], columns[c, i:], out[p, c, i:])
                else:
                    _add_products(source, columns[c, i], columns[c, i:], out[p, c, i:])
            start += n - i


@compiled(fastmath=FAST)
def _add_scaled(row: Array, weight: float, out: Array) -> None:
    for j in range(out.size):
        out[j] += weight * row[j]


@compiled(fastmath=FAST)
def powered_accumulate(
    held: Array, starts: Array, times: Array, least: Array, weights: Array, first: int, last: int, out: Array
) -> None:
    """Add ``sum_p weights[p] K_p`` to the float64 ``out`` for entries first..last-1, tile by tile."""
    buffers = np.empty((2, TILE), dtype=held.dtype)
    for left in range(first, last, TILE):
        right = min(left + TILE, last)
        tile = out[left:right]
        for base in range(held.shape[0]):
            source, known, side = held[base, left:right], 0, 0
            for p in range(starts[base], starts[base + 1]):
                if weights[p] == 0.0:
                    continue
                if times[p] == 0:
                    _add_scaled(source, weights[p], tile)
                    continue
                row = buffers[side, : right - left]
                if known == 0:
                    raise_entries(source, times[p], least, row)
                else:
                    raise_entries(buffers[1 - side, : right - left], times[p] - known, least, row)
                _add_scaled(row, weights[p], tile)
                known, side = times[p], 1 - side
