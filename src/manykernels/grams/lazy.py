"""Gram matrices that are never held: every operation computes the entries it needs, tile by tile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from manykernels.grams import gaussian
from manykernels.grams.base import GramStack
from manykernels.grams.tiles import TileEvaluator
from manykernels.kernels import FittedBank, PreparedRows
from manykernels.threads import run_ranges
from manykernels.validation.arrays import Array


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
        """Diagonals of all kernels, (M, N) float64."""
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
        pieces = [(group, part) for group, positions in runs for part in _split(positions, self.n_threads, len(runs))]

        def work(start: int, stop: int) -> None:
            for group, positions in pieces[start:stop]:
                chosen = self._kernels[positions]
                points = np.ascontiguousarray(tiles.points[0][group].T)
                raw = np.empty(len(positions))
                gaussian.gaussian_quad(points, tiles.coefficients[chosen], r, tiles.single, raw)
                out[positions] = raw * tiles.bank.scales[chosen]

        run_ranges(work, len(pieces), self.n_threads)

    def _take(self, kernels: Array) -> LazyStack:
        return self._like(self._tiles.left, self._kernels[kernels])

    def _restrict(self, samples: Array) -> LazyStack:
        return self._like(self._tiles.left.take(samples), self._kernels)

    def _like(self, prepared: PreparedRows[Any], kernels: Array) -> LazyStack:
        settings = {"dtype": self.dtype, "n_threads": self.n_threads, "spare_bytes": self.spare_bytes}
        return LazyStack(self.bank, prepared, kernels=kernels, **settings)


def _split(positions: Array, n_threads: int, n_groups: int) -> list[Array]:
    """Split the kernels of a group among threads when there are too few groups to share."""
    parts = 1 if n_groups >= n_threads else min(n_threads, len(positions))
    return np.array_split(positions, parts)
