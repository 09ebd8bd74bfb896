"""Gram matrices that are never held: every operation computes the entries it needs, tile by tile.

The tiles are evaluated group by group, so that a group computes its distances once (`TileEvaluator`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from manykernels.grams import gaussian
from manykernels.grams.base import GramStack, GramView, pack_rows, triangle_starts
from manykernels.kernels import ArdGaussian, FittedBank, Gaussian, KernelSpec, PreparedRows
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
        return self.left.data.point_sets, self.right.data.point_sets

    @cached_property
    def coefficients(self) -> Array:
        """(M,) exponents ``c`` of ``scale exp(c ||x - z||^2)``; NaN for kernels that are not of this form."""
        values = np.full(self.bank.n_kernels, np.nan)
        if not self.bank.center:
            for index, group in enumerate(self.bank.groups):
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
        for index, group in enumerate(self.bank.groups):
            owners[list(group.kernels)] = index
        return owners

    @cached_property
    def keys(self) -> Array:
        """(M,) equal for kernels that are evaluated together: twice the group, and one if the kernel is fused."""
        return 2 * self.owners + np.isfinite(self.coefficients)

    def runs(self, kernels: Array) -> Iterator[tuple[int, bool, Array]]:
        """Cut kernels into (group, fused, positions in ``kernels``): fused ones are compiled Gaussian kernels."""
        keys = self.keys[kernels]
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
        runs = list(self.runs(kernels))
        if len(runs) == 1:
            return self._run(runs[0][0], runs[0][1], rows, cols, kernels)
        out = np.empty((len(kernels), len(rows), len(cols)))
        for group, fused, positions in runs:
            out[positions] = self._run(group, fused, rows, cols, kernels[positions])
        return out

    def chunks(self, kernels: Array, n_rows: int, n_cols: int) -> Iterator[tuple[Array, Array]]:
        """Cut kernels x rows into (positions in ``kernels``, rows) of one group and at most about `TILE_BYTES`."""
        limit = max(1, (SPARSE_TILE_BYTES if self.sparse else TILE_BYTES) // (8 * n_cols))
        for _, _, positions in self.runs(kernels):
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
        return self.bank.block(self.left, self.right, kernels=kernels, rows=rows, cols=cols)

    def _gaussian(self, group: int, rows: Array, cols: Array, kernels: Array) -> Array:
        return self._fused(group, rows, np.ascontiguousarray(self.points[1][group][cols].T), kernels)

    def _fused(self, group: int, rows: slice | Array, right: Array, kernels: Array) -> Array:
        """Return the values of Gaussian kernels of a group at some rows and at points (d, c)."""
        left = np.ascontiguousarray(self.points[0][group][rows].T)
        out = np.empty((len(kernels), left.shape[1], right.shape[1]))
        scales = self.bank.scales[kernels]
        gaussian.gaussian_tile(left, right, self.coefficients[kernels], scales, self.single, out)
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

    @property
    def nbytes(self) -> int:
        """Bytes of stored Gram entries: none."""
        return 0

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
        self._fused_quad(r, [(group, positions) for group, fused, positions in runs if fused], out)
        return out

    def _fused_quad(self, r: Array, runs: list[tuple[int, Array]], out: Array) -> None:
        tiles = self._tiles

        def work(points: Array, positions: Array) -> None:
            chosen, raw = self._kernels[positions], np.empty(len(positions))
            gaussian.gaussian_quad(points, tiles.coefficients[chosen], r, tiles.single, raw)
            out[positions] = raw * tiles.bank.scales[chosen]

        self._each_fused(work, runs)

    def _triangles(self, kernels: Array, out: Array) -> None:
        self._packed(kernels, slice(None), out)

    def _triangles_among(self, samples: Array, kernels: Array, out: Array) -> None:
        self._packed(kernels, samples, out)

    def _packed(self, kernels: Array, samples: Array | slice, out: Array) -> None:
        """Write packed triangles; those of compiled Gaussian kernels without any block of them."""
        tiles, chosen = self._tiles, self._kernels[kernels]
        runs = list(tiles.runs(chosen))
        for rest in (positions for _, fused, positions in runs if not fused):
            some = self.take(kernels[rest])
            stack = some if isinstance(samples, slice) else GramView(some, np.arange(len(rest)), samples)
            starts = triangle_starts(stack.n_samples)
            for at, rows, block in stack._upper_blocks(np.arange(len(rest))):
                pack_rows(block, starts[rows], rest[at], out)

        def work(points: Array, positions: Array) -> None:
            own = chosen[positions]
            coefficients, scales = tiles.coefficients[own], tiles.bank.scales[own]
            gaussian.gaussian_triangles(points, coefficients, scales, tiles.single, positions, out)

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
