"""Gram matrices that are never held: every operation computes the entries it needs, tile by tile.

The tiles are evaluated group by group, so a group computes the distances once (`TileEvaluator`).

Gaussian kernels are computed where used by compiled loops (`gaussian_loops.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from manykernels.grams.base import GramStack, GramView, mirror_upper, pack_rows, triangle_starts
from manykernels.grams.gaussian_loops import gaussian_quad, gaussian_sum, gaussian_tile, gaussian_triangles
from manykernels.kernels import ArdGaussian, FittedBank, Gaussian, KernelOfFeatures, KernelSpec, Linear, PreparedRows
from manykernels.kernels.bank.contract import Side
from manykernels.kernels.specs.distances import SparsePoints
from manykernels.threads import run_ranges
from manykernels.validation.arrays import Array

# Float64 kernel values held at once. They stay in cache, and so small an array is taken from memory already mapped:
# with tiles of 4 MiB, mapping fresh pages cost more than the exponentials.
TILE_BYTES = 2**19
SPARSE_TILE_BYTES = 2**24  # of sparse rows and of features, which are made anew for every tile


@dataclass(frozen=True, eq=False)
class TileEvaluator:
    """Normalized kernel values between two sets of prepared rows, tile by tile.

    Gaussian kernels without centering go through compiled loops; everything else through ``block`` of the bank.
    """

    bank: FittedBank
    left: PreparedRows[Any]  # the same object twice for a symmetric stack
    right: PreparedRows[Any]  # the same object twice for a symmetric stack

    @cached_property
    def points(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The points of every group, of the rows on the left and on the right."""
        left = self.left.data.point_sets
        return left, left if self.right is self.left else self.right.data.point_sets

    @cached_property
    def _narrow(self) -> tuple[PreparedRows[Any], PreparedRows[Any]]:
        """The rows on the left and on the right with the parts for the kernels of the bank."""
        left = self.bank.narrow(self.left)
        if self.right is self.left:
            return left, left
        return left, self.right if self.right.names is left.names else self.bank.narrow(self.right)

    @cached_property
    def coefficients(self) -> Array:
        """(M,) exponents ``c`` of ``scale exp(c ||x - z||^2)``; NaN for kernels not of the form."""
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
    def linear(self) -> Array:
        """(M,) mask of kernels that are scaled inner products of points."""
        return self._mark_plain(Linear)

    @cached_property
    def featured(self) -> Array:
        """(M,) mask of kernels that are scaled inner products of features of points, as those of landmarks."""
        return self._mark_plain(KernelOfFeatures)

    def _mark_plain(self, kind: type[Any]) -> Array:
        """Return a mask of kernels of a kind on dense points, neither centered nor with factors of rows."""
        found = np.zeros(self.bank.n_kernels, dtype=bool)
        if not self.bank.center:
            for index, group in enumerate(self.bank.groups):
                if not isinstance(self.points[0][index], SparsePoints):
                    found[list(group.kernels)] = [isinstance(spec, kind) for spec in group.specs]
        for side in (self.left, self.right):
            if side.factors is not None:  # of rows that lack a column, or are of unit length: left to the bank
                found &= (side.factors == 1.0).all(axis=1)
        return found

    @cached_property
    def sparse(self) -> bool:
        """Whether some kernels read sparse rows."""
        return any(isinstance(points, SparsePoints) for points in self.points[0])

    @cached_property
    def owners(self) -> Array:
        """(M,) index of the group of every kernel."""
        owners = np.zeros(self.bank.n_kernels, dtype=np.int64)  # kernels that come as matrices form one group
        for index, group in enumerate(self.bank.groups):
            owners[list(group.kernels)] = index
        return owners

    @cached_property
    def keys(self) -> Array:
        """(M,) equal for kernels evaluated together: twice the group, plus 1 for a fused kernel."""
        return 2 * self.owners + np.isfinite(self.coefficients)

    def runs(self, kernels: Array, block: tuple[int, int] | None = None) -> Iterator[tuple[int, bool, Array]]:
        """Cut kernels into (group, fused, positions in ``kernels``): fused ones are compiled Gaussian kernels.

        Others of several groups are a single run where a block of so many rows and columns of all fits a tile: the bank
        evaluates them group by group.
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
            return self._run(runs[0], rows, cols, kernels)
        out = np.empty((len(kernels), len(rows), len(cols)))
        for run in runs:
            out[run[2]] = self._run(run, rows, cols, kernels)
        return out

    def upper_blocks(self, kernels: Array, n: int) -> Iterator[tuple[Array, Array, Array]]:
        """Yield (positions in ``kernels``, rows, their values from the first of the columns on) of a symmetric stack.

        Where no sum over kernels is made of them, small ones of several groups come together.
        """
        for part, rows in self.chunks(kernels, n, n, (n, n)):
            yield part, rows, self.tile(rows, np.arange(rows[0], n), kernels[part])

    def chunks(
        self, kernels: Array, n_rows: int, n_cols: int, block: tuple[int, int] | None = None
    ) -> Iterator[tuple[Array, Array]]:
        """Cut kernels x rows into (positions in ``kernels``, rows) of a single group and at most about `TILE_BYTES`.

        With a ``block``, small kernels of several groups may share a piece, as in `runs`.
        """
        limit = max(1, (SPARSE_TILE_BYTES if self.sparse else TILE_BYTES) // (8 * n_cols))
        for _, _, positions in self.runs(kernels, block):
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
                        yield part, rows, self._evaluate(np.arange(n_rows)[rows], cols, own)
                    else:
                        yield part, rows, self._fused(group, rows, right, own)

    def _run(self, run: tuple[int, bool, Array], rows: Array, cols: Array, kernels: Array) -> Array:
        """Return the values of the kernels of a run."""
        group, fused, positions = run
        if fused:
            return self._fused(group, rows, np.ascontiguousarray(self.points[1][group][cols].T), kernels[positions])
        return self._evaluate(rows, cols, kernels[positions])

    def _evaluate(self, rows: Array, cols: Array, kernels: Array) -> Array:
        left, right = self._narrow
        out = np.empty((len(kernels), len(rows), len(cols)))
        same = left is right and np.array_equal(rows, cols)
        one = Side(left, rows)
        self.bank.evaluate(one, one if same else Side(right, cols), kernels, out)
        return out

    def _fused(self, group: int, rows: slice | Array, right: Array, kernels: Array) -> Array:
        """Return the values of Gaussian kernels of a group at some rows and at points (d, c)."""
        left = np.ascontiguousarray(self.points[0][group][rows].T)
        out = np.empty((len(kernels), left.shape[1], right.shape[1]))
        scales = self.bank.scales[kernels]
        gaussian_tile(left, right, self.coefficients[kernels], scales, out)
        return out

    def add_sum(self, weights: Array, kernels: Array, total: Array, *, upper: bool = False) -> None:
        """Add the weighted sum of kernels to ``total``, between all rows on the left and on the right.

        Gaussian kernels are summed where they are computed; linear kernels are one product of their columns. With
        ``upper``, for the same rows on both sides, what is below the diagonal has no meaning.
        """
        linear = np.flatnonzero(self.linear[kernels])
        if linear.size:
            sides = [self.linear_points(m) for m in kernels[linear]]
            factors = (weights * self.bank.scales[kernels])[linear]
            left = np.hstack([factor * own for factor, (own, _) in zip(factors, sides, strict=True)])
            right = np.hstack([own for _, own in sides])
            summed_rows = 256  # of a sum of linear kernels, whose products are held until they are added
            for top in range(0, len(total), summed_rows):
                rows, first = slice(top, top + summed_rows), top if upper else 0
                total[rows, first:] += left[rows] @ right[first:].T
        for place in np.flatnonzero(
            self.featured[kernels]
        ):  # features of all rows are computed once, not for each tile
            self._add_features(int(kernels[place]), float(weights[place]), total, upper=upper)
        rest = np.flatnonzero(~self.linear[kernels] & ~self.featured[kernels])
        for group, fused, positions in self.runs(kernels[rest]):
            at = rest[positions]
            if fused:
                left, right = (np.ascontiguousarray(side[group].T) for side in self.points)
                factors = weights[at] * self.bank.scales[kernels[at]]
                gaussian_sum(left, right, self.coefficients[kernels[at]], factors, upper, total)
                continue
            for part, rows, values in self.values(kernels[at], len(total), np.arange(total.shape[1])):
                total[rows] += (weights[at[part]] @ values.reshape(len(part), -1)).reshape(values.shape[1:])

    def _add_features(self, kernel: int, weight: float, total: Array, *, upper: bool) -> None:
        """Add a multiple of a kernel of features to ``total``, a few rows on the left at a time."""
        group = self.bank.groups[self.owners[kernel]]
        spec: Any = group.specs[group.kernels.index(kernel)]
        left, right = self.linear_points(kernel)
        others = weight * self.bank.scales[kernel] * spec.features(right)
        step = max(1, SPARSE_TILE_BYTES // (8 * max(others.shape)))
        for top in range(0, len(total), step):
            rows, first = slice(top, top + step), top if upper else 0
            total[rows, first:] += spec.features(left[rows]) @ others[first:].T

    def linear_points(self, kernel: int) -> tuple[Array, Array]:
        """Return the points of a linear kernel, of the rows on either side."""
        group = self.owners[kernel]
        return self.points[0][group], self.points[1][group]


def gaussian_coefficient(spec: KernelSpec) -> float:
    """Return ``c`` of a kernel ``exp(c ||x - z||^2)`` of the points of a group, NaN for any other kernel."""
    if isinstance(spec, ArdGaussian):
        return -0.5
    if isinstance(spec, Gaussian) and isinstance(spec.width, float):
        return -0.5 / spec.width**2
    return float("nan")


class LazyStack(GramStack):
    """Kernels of a fitted bank on prepared rows, computed block by block in every pass.

    Temporaries stay below a few megabytes whatever M and N. Gaussian kernels on the same columns share their distances,
    and their quadratic forms never leave the cache: about 1.2 ns an entry on a single thread.

    Parameters
    ----------
    bank : FittedBank
    prepared : PreparedRows
        Rows made ready by ``bank.prepare``.
    kernels : ndarray of int, optional
        Positions in the bank; all kernels by default.
    dtype : float64 or float32
        Of copies of the entries, which are evaluated in float64.
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
        self._tiles = TileEvaluator(bank, prepared, prepared)

    @property
    def bank(self) -> FittedBank:
        """The bank of the kernels."""
        return self._tiles.bank

    nbytes = 0  # of stored Gram entries

    def diag(self) -> Array:
        return self.bank.diag(self._tiles.left, kernels=self._kernels)

    def _block(self, rows: Array, cols: Array, kernels: Array) -> Array:
        return self._tiles.tile(rows, cols, self._kernels[kernels])

    def _chunks(self, kernels: Array) -> Iterator[tuple[Array, Array]]:
        return self._tiles.chunks(self._kernels[kernels], self.n_samples, self.n_samples)

    def _combine(self, weights: Array, active: Array) -> Array:
        total = np.zeros((self.n_samples, self.n_samples))
        self._tiles.add_sum(weights[active], self._kernels[active], total, upper=True)
        mirror_upper(total)
        return total

    def _apply_each(self, columns: Array, kernels: Array) -> Array:
        linear = self._tiles.linear[self._kernels[kernels]]
        if not linear.any():
            return super()._apply_each(columns, kernels)
        each = np.empty((len(kernels), self.n_samples, columns.shape[1]))
        for at in np.flatnonzero(linear):
            kernel = self._kernels[kernels[at]]
            points = self._tiles.linear_points(kernel)[0]
            np.matmul(points, self._tiles.bank.scales[kernel] * (points.T @ columns), out=each[at])
        each[~linear] = super()._apply_each(columns, kernels[~linear])
        return each

    def _quad_each(self, columns: Array) -> Array:
        """Return ``r' K_m r`` of every column, from the upper triangle only."""
        tiles, found = self._tiles, np.zeros((self.n_kernels, columns.shape[1]))
        linear = tiles.linear[self._kernels]
        for at in np.flatnonzero(linear):
            kernel = self._kernels[at]
            found[at] = tiles.bank.scales[kernel] * np.square(tiles.linear_points(kernel)[0].T @ columns).sum(axis=0)
        rest, doubled, before = np.flatnonzero(~linear), 2.0 * columns, slice(0)
        for part, rows, block in self._upper_blocks(rest):
            doubled[before], before = 2.0 * columns[before], slice(rows[0], rows[-1] + 1)
            doubled[before] = columns[before]
            products = block @ doubled[rows[0] :]
            found[rest[part]] += np.einsum("mik,ik->mk", products, columns[before])
        return found

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
            gaussian_quad(points, tiles.coefficients[chosen], r, raw)
            out[positions] = raw * tiles.bank.scales[chosen]

        self._each_fused(work, [(group, positions) for group, fused, positions in runs if fused])
        return out

    def _triangles(self, kernels: Array, out: Array) -> None:
        self._pack(kernels, slice(None), out)

    def _triangles_among(self, samples: Array, kernels: Array, out: Array) -> None:
        self._pack(kernels, samples, out)

    def _pack(self, kernels: Array, samples: Array | slice, out: Array) -> None:
        """Write packed triangles, for compiled Gaussian kernels without intermediate blocks."""
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
            coefficients, scales = tiles.coefficients[own], tiles.bank.scales[own]
            gaussian_triangles(points, coefficients, scales, positions, out)

        self._each_fused(work, [(group, positions) for group, fused, positions in runs if fused], samples)

    def _each_fused(
        self, work: Callable[[Array, Array], None], runs: list[tuple[int, Array]], samples: Array | slice = slice(None)
    ) -> None:
        """Do some work with the points (d, n) of every group of Gaussian kernels and their positions, in threads."""
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
