"""Kernels of several columns: projections on landmarks from a randomly pivoted Cholesky factorization."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from manykernels.grams.factored.base import ROUNDING, FactoredStack
from manykernels.grams.factored.landmarks import NystroemFeatures, draw_features, rank_limit
from manykernels.grams.factored.operators import CHUNK_ROWS, FeatureOperator
from manykernels.grams.rows.columns import ColumnTable
from manykernels.kernels import KernelSpec
from manykernels.validation.arrays import Array

PASS_TOL = 1e-3  # share of the trace that the factors of a pass leave
PASS_RANK = 100  # of the factors of a pass: their residual is in the bound


class NystroemStack(FactoredStack):
    """Any kernels on any columns, through ``K ~ Z Z'`` with ``Z`` a projection; what is left over is bounded.

    ``||Z' rho||^2 <= rho' K rho <= ||Z' rho||^2 + (sum_i |rho_i| sqrt(E_ii))^2`` with ``E = K - Z Z'``.

    The factors of a pass have at most ``rank`` columns; ``landmarks_by`` says how landmarks are chosen among the rows.
    """

    def __init__(
        self,
        table: ColumnTable,
        positions: Sequence[tuple[int, ...]],
        specs: Sequence[KernelSpec],
        scales: Array,
        *,
        names: Sequence[str] | None = None,
        rank: int = PASS_RANK,
        landmarks_by: str = "cholesky",
    ) -> None:
        super().__init__(table, positions, specs, scales, names=names)
        self.rank, self.landmarks_by = rank, landmarks_by
        self._maps: dict[tuple[int, float, int], NystroemFeatures] = {}

    # --- factors ----------------------------------------------------------------------------------------------------

    def _operator(self, kernel: int, tol: float, rank: int) -> FeatureOperator:
        """Return the features of a kernel; the landmarks are kept, nothing of length N."""
        key, spec, columns = (kernel, tol, rank), self.specs[kernel], self.positions[kernel]
        if key not in self._maps:
            self._maps[key] = draw_features(spec, columns, self.table, tol, rank, self.landmarks_by)
        return FeatureOperator(kernel, columns, spec, self._maps[key], float(self.scales[kernel]))

    def residual_trace(self, kernel: int, tol: float) -> float:
        """Return the trace left by the maximal number of landmarks, on some of the rows."""
        limit = rank_limit(self.n_samples, tol)
        operator = self._operator(kernel, tol, limit)
        if not limit <= operator.rank < self.n_samples:
            return 0.0
        sample = self.table.sample()
        trace_rows = 1000  # that say what landmarks leave of the trace
        rows = np.linspace(0, sample.n_rows - 1, min(sample.n_rows, trace_rows)).astype(np.int64)
        reading = sample.reading(self.specs[kernel], self.positions[kernel], rows)
        Z, diagonal = operator.transfer(sample).rows(rows), reading.masked(self.specs[kernel].diag(reading.points))
        return max(1.0 - float(np.sum(Z * Z)) / (float(self.scales[kernel]) * float(diagonal.sum())), 0.0)

    def many_directions(self, kernel: int) -> bool:
        """Return whether the landmarks of a pass leave more of the trace than a pass asks for."""
        return self.rank <= self._operator(kernel, PASS_TOL, self.rank).rank < self.n_samples

    def templates(self, kernels: Sequence[int], tol: float) -> list[FeatureOperator]:
        """Return operators without rows, bound by ``over(table)``."""
        return [self._operator(int(m), tol, rank_limit(self.n_samples, tol)) for m in kernels]

    def features(self, kernel: int, X: ColumnTable, tol: float) -> Array:
        """Return the rows of ``Z_m`` for new samples."""
        operator = self.templates([kernel], tol)[0].transfer(X)
        out = np.empty((X.n_rows, operator.rank))
        for start in range(0, len(out), CHUNK_ROWS):
            out[start : start + CHUNK_ROWS] = operator.rows(slice(start, min(start + CHUNK_ROWS, len(out))))
        return out

    # --- passes -----------------------------------------------------------------------------------------------------

    def quad_bounds(self, rho: Array) -> tuple[Array, Array]:
        """Return bounds (M,) from below and above on ``rho' K_m rho``: a single pass over the factors."""
        return self.quad_bounds_each([rho])[0]

    def quad_bounds_each(self, rhos: Sequence[Any]) -> list[tuple[Array, Array]]:
        """Return the bounds of every vector, with features computed once."""
        self._count(self.n_kernels)
        templates = [self._operator(m, PASS_TOL, self.rank) for m in range(self.n_kernels)]
        sums = self.table.reduce(self._kernels_in_use, partial(_sums, templates), *rhos)
        inner = np.array([np.einsum("rk,rk->k", images, images) for images, _ in sums])
        outer = inner + np.array([left**2 for _, left in sums])
        sizes = [float(np.abs(rho).sum()) ** 2 for rho in rhos]
        slack = ROUNDING * self.largest[:, None] * np.array(sizes)
        return list(zip(np.maximum(inner - slack, 0.0).T, (outer + slack).T, strict=True))

    def _kernel_arguments(self, kernels: Array) -> dict[str, Any]:
        return {"rank": self.rank, "landmarks_by": self.landmarks_by}


def _sums(templates: Sequence[FeatureOperator], table: ColumnTable, *rhos: Array) -> list[tuple[Array, Array]]:
    """Return ``Z' rho`` and the remaining diagonal for every kernel and vector, over some rows."""
    columns = np.stack(rhos, axis=1)
    return [template.transfer(table).sums(columns) for template in templates]
