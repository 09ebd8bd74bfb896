"""Gram matrices that are never held: every operation computes the entries it needs, tile by tile.

The tiles are evaluated group by group, so that a group computes its distances once (`TileEvaluator`).

Gaussian kernels are computed where they are used by compiled loops: distances once for all widths, nothing stored.
NumPy has no vectorized float64 exponential on AVX2 machines (about 5 ns an entry); ``exp64`` takes about 1.2 ns and
``exp32`` 0.9 ns, both within one or two units in the last place for the non-positive arguments met here. They split
``x = k log 2 + f`` with the classical trick of adding a large constant so that ``k`` lands in the low bits, which
``reassoc`` would optimize away: hence the two sets of flags. Cody and Waite, Software Manual for the Elementary
Functions (1980), chapter 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from manykernels.compiled import compiled
from manykernels.grams.base import GramStack, GramView, pack_rows, triangle_starts
from manykernels.grams.loops import FAST
from manykernels.grams.packed import PackedStack
from manykernels.grams.powers import PoweredStack, Powers
from manykernels.kernels import ArdGaussian, FittedBank, Gaussian, KernelSpec, PreparedRows
from manykernels.kernels.bank.contract import Group, Side
from manykernels.kernels.specs.distances import SparsePoints
from manykernels.threads import run_ranges
from manykernels.validation.arrays import Array

# Float64 kernel values held at once. They stay in cache, and so small an array is taken from memory already mapped:
# with tiles of 4 MiB, mapping fresh pages cost more than the exponentials.
TILE_BYTES = 2**19
SPARSE_TILE_BYTES = 2**24  # of sparse rows, whose columns are sorted anew for every tile


@dataclass(frozen=True, eq=False)
class TileEvaluator:
    """Normalized kernel values between two sets of prepared rows, tile by tile.

    Gaussian kernels without centering go through compiled loops; everything else through ``block`` of the bank.
    """

    bank: FittedBank
    left: PreparedRows[Any]  # the same object twice for a symmetric stack
    right: PreparedRows[Any]  # the same object twice for a symmetric stack
    single: bool = False  # evaluate Gaussian kernels in float32

    @cached_property
    def points(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The points of each group, of the rows on the left and of those on the right."""
        left = self.left.data.point_sets
        return left, left if self.right is self.left else self.right.data.point_sets

    @cached_property
    def _narrow(self) -> tuple[PreparedRows[Any], PreparedRows[Any]]:
        """The rows on the left and on the right with what the kernels of the bank read of them."""
        left = self.bank.narrow(self.left)
        if self.right is self.left:
            return left, left
        return left, self.right if self.right.names is left.names else self.bank.narrow(self.right)

    @cached_property
    def _groups(self) -> tuple[Group, ...]:
        """Kernels of the bank that share points."""
        return self.bank.groups

    @cached_property
    def coefficients(self) -> Array:
        """(M,) exponents ``c`` of ``scale exp(c ||x - z||^2)``; NaN for kernels that are not of this form."""
        values = np.full(self.bank.n_kernels, np.nan)
        if not self.bank.center:
            for index, group in enumerate(self._groups):
                if not isinstance(self.points[0][index], SparsePoints):
                    values[list(group.kernels)] = [gaussian_coefficient(spec) for spec in group.specs]
        for side in (self.left, self.right):
            if side.factors is not None:  # rows that lack a column are zero: left to the bank
                values[~side.factors.all(axis=1)] = np.nan
        return values

    @cached_property
    def sparse(self) -> bool:
        """Whether some kernels read sparse rows."""
        return any(isinstance(points, SparsePoints) for points in self.points[0])

    @cached_property
    def owners(self) -> Array:
        """(M,) index of the group that each kernel belongs to."""
        owners = np.zeros(self.bank.n_kernels, dtype=np.int64)  # kernels that come as matrices form one group
        for index, group in enumerate(self._groups):
            owners[list(group.kernels)] = index
        return owners

    @cached_property
    def keys(self) -> Array:
        """(M,) equal for kernels that are evaluated together: twice the group, and one if the kernel is fused."""
        return 2 * self.owners + np.isfinite(self.coefficients)

    def runs(self, kernels: Array, block: tuple[int, int] | None = None) -> Iterator[tuple[int, bool, Array]]:
        """Cut kernels into (group, fused, positions in ``kernels``): fused ones are compiled Gaussian kernels.

        Others of several groups are one run where a block of so many rows and columns of all of them fits a tile: the
        bank evaluates them group by group.
        """
        keys = self.keys[kernels]
        if block is not None and not self.sparse and 8 * len(keys) * block[0] * block[1] <= TILE_BYTES:
            keys = np.where(keys % 2, keys, 0)
        if len(keys) and (keys == keys[0]).all():  # those of a tile, thousands of times
            yield int(keys[0]) // 2, bool(keys[0] % 2), np.arange(len(keys))
            return
        order = np.argsort(keys, kind="stable")
        for positions in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1):
            if len(positions):
                key = int(keys[positions[0]])
                yield key // 2, bool(key % 2), positions

    def tile(self, rows: Array, cols: Array, kernels: Array) -> Array:
        """Return the values of the given kernels between ``left[rows]`` and ``right[cols]``, (m, r, c) float64."""
        runs = list(self.runs(kernels, (len(rows), len(cols))))
        if len(runs) == 1:
            return self._run(runs[0][0], runs[0][1], rows, cols, kernels)
        out = np.empty((len(kernels), len(rows), len(cols)))
        for group, fused, positions in runs:
            out[positions] = self._run(group, fused, rows, cols, kernels[positions])
        return out

    def upper_blocks(self, kernels: Array, n: int) -> Iterator[tuple[Array, Array, Array]]:
        """Yield (positions in ``kernels``, rows, their values from the first of these columns on) of a symmetric stack.

        Where no sum over kernels is made of them, small ones of several groups come together.
        """
        for part, rows in self.chunks(kernels, n, n, together=True):
            yield part, rows, self.tile(rows, np.arange(rows[0], n), kernels[part])

    def chunks(
        self, kernels: Array, n_rows: int, n_cols: int, *, together: bool = False
    ) -> Iterator[tuple[Array, Array]]:
        """Cut kernels x rows into (positions in ``kernels``, rows) of one group and at most about `TILE_BYTES`.

        ``together`` if small ones of several groups need not be apart.
        """
        limit = max(1, (SPARSE_TILE_BYTES if self.sparse else TILE_BYTES) // (8 * n_cols))
        for _, _, positions in self.runs(kernels, (n_rows, n_cols) if together else None):
            for first in range(0, len(positions), limit):
                part = positions[first : first + limit]
                step = max(1, limit // len(part))
                for top in range(0, n_rows, step):
                    yield part, np.arange(top, min(top + step, n_rows))

    def values(self, kernels: Array, n_rows: int, cols: Array) -> Iterator[tuple[Array, slice, Array]]:
        """Yield positions in ``kernels`` of one group, some of ``n_rows`` rows, and their values, (m, r, c) float64."""
        limit = max(1, (SPARSE_TILE_BYTES if self.sparse else TILE_BYTES) // (8 * len(cols)))
        for group, fused, positions in self.runs(kernels):
            right = np.ascontiguousarray(self.points[1][group][cols].T) if fused else None
            for first in range(0, len(positions), limit):
                part = positions[first : first + limit]
                step, own = max(1, limit // len(part)), kernels[part]
                for top in range(0, n_rows, step):
                    rows = slice(top, min(top + step, n_rows))
                    if right is None:
                        yield part, rows, self._run(group, False, np.arange(n_rows)[rows], cols, own)
                    else:
                        yield part, rows, self._fused(group, rows, right, own)

    def _run(self, group: int, fused: bool, rows: Array, cols: Array, kernels: Array) -> Array:
        if fused:
            return self._gaussian(group, rows, cols, kernels)
        left, right = self._narrow
        out = np.empty((len(kernels), len(rows), len(cols)))
        same = left is right and np.array_equal(rows, cols)
        self.bank.evaluate(Side(left, rows), Side(right, cols), kernels, out, same=same)
        return out

    def _gaussian(self, group: int, rows: Array, cols: Array, kernels: Array) -> Array:
        return self._fused(group, rows, np.ascontiguousarray(self.points[1][group][cols].T), kernels)

    def _fused(self, group: int, rows: slice | Array, right: Array, kernels: Array) -> Array:
        """Return the values of Gaussian kernels of a group at some rows and at points (d, c)."""
        left = np.ascontiguousarray(self.points[0][group][rows].T)
        out = np.empty((len(kernels), left.shape[1], right.shape[1]))
        scales = self.bank.scales[kernels]
        gaussian_tile(left, right, self.coefficients[kernels], scales, self.single, out)
        return out


def gaussian_coefficient(spec: KernelSpec) -> float:
    """Return ``c`` of a kernel ``exp(c ||x - z||^2)`` of its group's points, NaN for any other kernel."""
    if isinstance(spec, ArdGaussian):
        return -0.5
    if isinstance(spec, Gaussian) and isinstance(spec.width, float):
        return -0.5 / spec.width**2
    return float("nan")


class LazyStack(GramStack):
    """Kernels of a fitted bank on prepared rows, computed block by block in every pass.

    Temporaries stay below a few megabytes whatever M and N. Gaussian kernels on the same columns share their distances,
    and their quadratic forms never leave the cache: about 1.2 ns an entry on one thread.

    Parameters
    ----------
    bank : FittedBank
    prepared : PreparedRows
        Rows made ready by ``bank.prepare``.
    kernels : ndarray of int, optional
        Positions in the bank; all kernels by default.
    dtype : float64 or float32
        float32 evaluates Gaussian entries in single precision (absolute error below 1e-7 before scaling);
        accumulation stays in float64.
    n_threads : int
    spare_bytes : int or None
        Bytes that a solver may take for copies of kernels; None sets no limit.

    Examples
    --------
    >>> from manykernels.kernels import Gaussian, KernelBank
    >>> X = [[0.0], [1.0], [3.0]]
    >>> bank = KernelBank([("narrow", Gaussian(1.0), None), ("wide", Gaussian(5.0), None)]).fit(X)
    >>> stack = LazyStack(bank, bank.prepare(X))
    >>> stack.quad([1.0, 1.0, -1.0]).round(4)
    array([3.9202, 1.4436])
    """

    evaluates = True

    def __init__(
        self,
        bank: FittedBank,
        prepared: PreparedRows[Any],
        *,
        kernels: Array | None = None,
        dtype: DTypeLike = np.float64,
        n_threads: int = 1,
        spare_bytes: int | None = None,
    ) -> None:
        chosen = np.arange(bank.n_kernels) if kernels is None else kernels
        super().__init__(
            len(chosen), prepared.n_samples, dtype, names=[bank.names[m] for m in chosen], n_threads=n_threads
        )
        self._kernels = chosen
        self.spare_bytes = spare_bytes
        self._tiles = TileEvaluator(bank, prepared, prepared, single=self.dtype == np.float32)

    @property
    def bank(self) -> FittedBank:
        """The bank whose kernels these are."""
        return self._tiles.bank

    nbytes = 0  # of stored Gram entries

    def diag(self) -> Array:
        return self.bank.diag(self._tiles.left, kernels=self._kernels)

    def _block(self, rows: Array, cols: Array, kernels: Array) -> Array:
        return self._tiles.tile(rows, cols, self._kernels[kernels])

    def _chunks(self, kernels: Array) -> Iterator[tuple[Array, Array]]:
        return self._tiles.chunks(self._kernels[kernels], self.n_samples, self.n_samples)

    def _quad(self, r: Array) -> Array:
        out = np.empty(self.n_kernels)
        runs = list(self._tiles.runs(self._kernels))
        rest = [positions for _, fused, positions in runs if not fused]
        if rest:
            at = np.concatenate(rest)
            out[at] = self._quad_of(r, at)
        tiles = self._tiles

        def work(points: Array, positions: Array) -> None:
            chosen, raw = self._kernels[positions], np.empty(len(positions))
            gaussian_quad(points, tiles.coefficients[chosen], r, tiles.single, raw)
            out[positions] = raw * tiles.bank.scales[chosen]

        self._each_fused(work, [(group, positions) for group, fused, positions in runs if fused])
        return out

    @cached_property
    def powers(self) -> Powers | None:
        """Which kernels are powers of which, where a copy in single precision had better hold the others alone."""
        if not Powers.pay(self.n_samples):
            return None
        found = Powers.of(self._tiles.coefficients[self._kernels], self._tiles.owners[self._kernels])
        return found if len(found.bases) < self.n_kernels else None

    @property
    def n_rounded_entries(self) -> int:
        return self.n_entries if self.powers is None else len(self.powers.bases) * self._triangle

    def rounded(self) -> PackedStack | PoweredStack:
        """Return a copy in single precision."""
        if self.powers is None:
            return PackedStack.from_stack(self, dtype=np.float32)
        out = np.empty((len(self.powers.bases), self._triangle), dtype=np.float32)
        self._packed(self.powers.bases, slice(None), out, scaled=False)
        scales = np.where(np.isfinite(self._tiles.coefficients), self.bank.scales, 1.0)[self._kernels]
        return PoweredStack(out, self.powers, scales, self.n_samples, names=self.names, n_threads=self.n_threads)

    def _triangles(self, kernels: Array, out: Array) -> None:
        self._packed(kernels, slice(None), out)

    def _triangles_among(self, samples: Array, kernels: Array, out: Array) -> None:
        self._packed(kernels, samples, out)

    def _packed(self, kernels: Array, samples: Array | slice, out: Array, *, scaled: bool = True) -> None:
        """Write packed triangles; those of compiled Gaussian kernels without any block of them, ``scaled`` or not."""
        tiles, chosen = self._tiles, self._kernels[kernels]
        runs = list(tiles.runs(chosen))
        others = [positions for _, fused, positions in runs if not fused]
        if others:
            rest = np.concatenate(others)
            if isinstance(samples, slice):
                n, blocks = self.n_samples, tiles.upper_blocks(chosen[rest], self.n_samples)
            else:
                view = GramView(self.take(kernels[rest]), np.arange(len(rest)), samples)
                n, blocks = view.n_samples, view._upper_blocks(np.arange(len(rest)))
            starts = triangle_starts(n)
            for at, rows, block in blocks:
                pack_rows(block, starts[rows], rest[at], out)

        def work(points: Array, positions: Array) -> None:
            own = chosen[positions]
            coefficients, scales = tiles.coefficients[own], tiles.bank.scales[own] if scaled else np.ones(len(own))
            gaussian_triangles(points, coefficients, scales, tiles.single, positions, out)

        self._each_fused(work, [(group, positions) for group, fused, positions in runs if fused], samples)

    def _each_fused(
        self, work: Callable[[Array, Array], None], runs: list[tuple[int, Array]], samples: Array | slice = slice(None)
    ) -> None:
        """Do some work with the points (d, n) of each group of Gaussian kernels and their positions, in threads."""
        pieces = [(group, part) for group, positions in runs for part in _split(positions, self.n_threads, len(runs))]

        def some(start: int, stop: int) -> None:
            for group, positions in pieces[start:stop]:
                work(np.ascontiguousarray(self._tiles.points[0][group][samples].T), positions)

        run_ranges(some, len(pieces), self.n_threads)

    def _take(self, kernels: Array) -> LazyStack:
        return self._like(self._tiles.left, self._kernels[kernels])

    def _restrict(self, samples: Array) -> LazyStack:
        return self._like(self._tiles.left.take(samples), self._kernels)

    def _like(self, prepared: PreparedRows[Any], kernels: Array) -> LazyStack:
        settings = {"dtype": self.dtype, "n_threads": self.n_threads, "spare_bytes": self.spare_bytes}
        found = LazyStack(self.bank, prepared, kernels=kernels, **settings)
        if prepared is self._tiles.left:  # what is known of its kernels is known
            found._tiles = self._tiles
        return found


def _split(positions: Array, n_threads: int, n_groups: int) -> list[Array]:
    """Split the kernels of a group among threads when there are too few groups to share."""
    parts = 1 if n_groups >= n_threads else min(n_threads, len(positions))
    return np.array_split(positions, parts)


# Compiled loops of Gaussian kernels.

ROWS, COLUMNS = 8, 256  # a tile of squared distances: 16 KiB, in the first cache level while every width reads it

LOG2E = 1.4426950408889634
HIGH, LOW = 6.93145751953125e-1, 1.42860682030941723212e-6  # log 2 in two parts; k * HIGH is exact
SHIFT64, SHIFT32 = 6755399441055744.0, np.float32(12582912.0)  # 1.5 * 2**52 and 1.5 * 2**23
LOWEST64, LOWEST32 = -708.0, np.float32(-87.0)  # below, the result is smaller than any normal number: zero
LOG2E_32, HIGH_32, LOW_32 = np.float32(LOG2E), np.float32(0.693359375), np.float32(-2.12194440e-4)
ONE_32 = np.float32(1.0)
A6, A5, A4 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
A3, A2, A1 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)


@compiled(fastmath={"contract"})
def exp64(x: float) -> float:
    """Return ``exp(x)`` for x <= 0; zero below -708."""
    y = x if x > LOWEST64 else LOWEST64
    shifted = y * LOG2E + SHIFT64
    k = shifted - SHIFT64
    f = (y - k * HIGH) - k * LOW
    p = 1 / 479001600.0
    p = p * f + 1 / 39916800.0
    p = p * f + 1 / 3628800.0
    p = p * f + 1 / 362880.0
    p = p * f + 1 / 40320.0
    p = p * f + 1 / 5040.0
    p = p * f + 1 / 720.0
    p = p * f + 1 / 120.0
    p = p * f + 1 / 24.0
    p = p * f + 1 / 6.0
    p = p * f + 0.5
    p = p * f + 1.0
    p = p * f + 1.0
    bits = np.float64(p).view(np.int64) + (np.float64(shifted).view(np.int64) << np.int64(52))
    return np.int64(bits).view(np.float64) if x >= LOWEST64 else 0.0


@compiled(fastmath={"contract"})
def exp32(x: np.float32) -> np.float32:
    """Return ``exp(x)`` in float32 for a float32 x <= 0; zero below -87. Coefficients of the Cephes library."""
    y = x if x > LOWEST32 else LOWEST32
    shifted = y * LOG2E_32 + SHIFT32
    k = shifted - SHIFT32
    f = (y - k * HIGH_32) - k * LOW_32
    p = A6 * f + A5
    p = p * f + A4
    p = p * f + A3
    p = p * f + A2
    p = p * f + A1
    p = p * (f * f) + f + ONE_32
    bits = np.float32(p).view(np.int32) + (np.float32(shifted).view(np.int32) << np.int32(23))
    return np.int32(bits).view(np.float32) if x >= LOWEST32 else np.float32(0.0)


@compiled(fastmath={"contract"})
def distance_tile(left: Array, right: Array, rows: tuple[int, int], cols: tuple[int, int], out: Array) -> None:
    """Write ``||left_i - right_j||^2`` of two ranges into the corner of the contiguous ``out``; points (d, n)."""
    width = cols[1] - cols[0]
    for i in range(rows[1] - rows[0]):
        out[i, :width] = 0.0
    for k in range(left.shape[0]):
        values = right[k, cols[0] : cols[1]]
        for i in range(rows[1] - rows[0]):
            own = left[k, rows[0] + i]
            row = out[i, :width]
            for j in range(width):
                difference = values[j] - own
                row[j] += difference * difference


@compiled(fastmath=FAST)
def _dot64(distances: Array, coefficient: float, tail: Array) -> float:
    total = 0.0
    for j in range(tail.size):
        total += exp64(coefficient * distances[j]) * tail[j]
    return total


@compiled(fastmath=FAST)
def _dot32(distances: Array, coefficient: float, tail: Array) -> float:
    total = 0.0
    for j in range(tail.size):
        total += np.float64(exp32(np.float32(coefficient * distances[j]))) * tail[j]
    return total


@compiled(fastmath=FAST)
def gaussian_quad(points: Array, coefficients: Array, rho: Array, single: bool, out: Array) -> None:
    """Set ``out[m] = sum_ij rho_i exp(coefficients[m] ||x_i - x_j||^2) rho_j``, distances computed once for all m.

    points (d, n) and rho (n,) float64; coefficients (w,) not positive; ``single`` evaluates entries in float32.
    """
    n = rho.size
    buffer = np.empty((ROWS, COLUMNS))
    out[:] = np.sum(rho * rho)
    for top in range(0, n, ROWS):
        bottom = min(top + ROWS, n)
        for start in range(top, n, COLUMNS):
            stop = min(start + COLUMNS, n)
            # The whole buffer is passed, not a part of it: a part is not contiguous, and its loops not vectorized.
            distance_tile(points, points, (top, bottom), (start, stop), buffer)
            for m in range(out.size):
                for i in range(top, bottom):
                    first = min(max(i + 1, start), stop)
                    row, tail = buffer[i - top, first - start : stop - start], rho[first:stop]
                    dot = _dot32(row, coefficients[m], tail) if single else _dot64(row, coefficients[m], tail)
                    out[m] += 2.0 * rho[i] * dot


@compiled(fastmath={"contract"})
def gaussian_tile(left: Array, right: Array, coefficients: Array, scales: Array, single: bool, out: Array) -> None:
    """Set ``out[m, i, j] = scales[m] exp(coefficients[m] ||left_i - right_j||^2)``.

    Points are (d, r) and (d, c) float64, one column a sample; coefficients and scales (w,); out (w, r, c).
    """
    buffer = np.empty((1, out.shape[2]))
    for i in range(out.shape[1]):
        distance_tile(left, right, (i, i + 1), (0, out.shape[2]), buffer)
        distances = buffer[0]
        for m in range(out.shape[0]):
            scale, coefficient, row = scales[m], coefficients[m], out[m, i]
            if single:
                for j in range(row.size):
                    row[j] = scale * np.float64(exp32(np.float32(coefficient * distances[j])))
            else:
                for j in range(row.size):
                    row[j] = scale * exp64(coefficient * distances[j])


@compiled(fastmath={"contract"})
def gaussian_triangles(
    points: Array, coefficients: Array, scales: Array, single: bool, kernels: Array, out: Array
) -> None:
    """Write the packed upper triangle of ``scales[m] exp(coefficients[m] ||x_i - x_j||^2)`` into ``out[kernels[m]]``.

    points (d, n) float64, one column a sample; coefficients, scales and kernels (w,); out (M, n(n+1)/2) of any type.
    Entries have the bits of those of `gaussian_tile`, and never exist but where they are stored.
    """
    n = points.shape[1]
    buffer = np.empty((1, n))
    start = 0
    for i in range(n):
        width = n - i
        distance_tile(points, points, (i, i + 1), (i, n), buffer)
        distances = buffer[0, :width]
        for m in range(kernels.size):
            scale, coefficient, row = scales[m], coefficients[m], out[kernels[m], start : start + width]
            if single:
                for j in range(width):
                    row[j] = scale * np.float64(exp32(np.float32(coefficient * distances[j])))
            else:
                for j in range(width):
                    row[j] = scale * exp64(coefficient * distances[j])
        start += width


@compiled(fastmath=FAST)
def gaussian_scores(left: Array, right: Array, coefficient: float, weights: Array, out: Array) -> None:
    """Set ``out[i] = sum_j weights_j exp(coefficient ||left_i - right_j||^2)``; no matrix is formed.

    Points are (d, n) and (d, r) float64, one column a sample; weights (r,) and out (n,) float64.
    """
    buffer = np.empty((1, weights.size))
    for i in range(out.size):
        distance_tile(left, right, (i, i + 1), (0, weights.size), buffer)
        out[i] = _dot64(buffer[0], coefficient, weights)
