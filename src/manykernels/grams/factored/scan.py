"""Laplacian and Matern kernels of single columns: exact products in O(N) by recursions over sorted rows."""

from collections.abc import Sequence

import numpy as np

from manykernels.exceptions import IncompatibleError
from manykernels.grams.factored.base import ROUNDING, FactoredStack
from manykernels.grams.factored.landmarks import draw_features, rank_limit
from manykernels.grams.factored.loops import matern_recursion
from manykernels.grams.factored.operators import FeatureOperator
from manykernels.grams.rows.columns import ColumnTable
from manykernels.kernels import Laplacian, Matern
from manykernels.kernels.specs.distances import require_width
from manykernels.validation.arrays import Array


class ScanStack(FactoredStack):
    """Laplacian kernels and Matern kernels of smoothness 1/2, 3/2, 5/2 of single columns.

    ``sum_j p(|x_i - x_j|) exp(-|x_i - x_j|) rho_j`` with a polynomial ``p`` of degree 0, 1 or 2 is one recursion over
    the sorted rows from every side with 1, 2 or 3 states: exact to rounding.
    """

    exact_passes = True

    def __init__(
        self,
        table: ColumnTable,
        positions: Sequence[tuple[int, ...]],
        specs: Sequence[Laplacian | Matern],
        scales: Array,
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        if table.distributed:
            raise IncompatibleError(
                "Laplacian and Matern kernels of single columns need sorted rows, which Dask workers do not have. Use "
                "Gaussian kernels, or rows from Parquet files."
            )
        super().__init__(table, positions, specs, scales, names=names)
        self.columns = np.array([column for (column,) in positions], dtype=np.int64)

    def _states(self, kernel: int) -> tuple[int, float]:
        """Return the number of states and the rate of the exponential decay."""
        spec = self.specs[kernel]
        if isinstance(spec, Laplacian):
            return 1, 1.0 / require_width(spec.width)
        return int(spec.nu + 0.5), float(np.sqrt(2 * spec.nu)) / require_width(spec.width)

    def _sorted(self, column: int) -> tuple[Array, Array]:
        """Return the rows with a value, in increasing order, and their values."""
        values, known = self.table.values(column), self.table.find_complete(column)
        order = np.argsort(values, kind="stable")
        order = order if known is None else order[known[order]]
        return order, values[order]

    def _product(self, kernel: int, order: Array, values: Array, rho: Array) -> Array:
        """Return ``K rho`` with rows in sorted order, ``rho`` too."""
        states, rate = self._states(kernel)
        t = rate * values
        rho = np.ascontiguousarray(rho)
        forward, backward = np.empty_like(rho), np.empty_like(rho)
        matern_recursion(t, rho, states, forward)
        matern_recursion(-t[::-1], np.ascontiguousarray(rho[::-1]), states, backward)
        return self.scales[kernel] * (forward + backward[::-1] - rho)

    def _group_by_column(self, kernels: Array) -> list[tuple[int, Array]]:
        columns = self.columns[kernels]
        return [(int(column), np.flatnonzero(columns == column)) for column in np.unique(columns)]

    def _quad(self, r: Array) -> Array:
        out = np.empty(self.n_kernels)
        for column, slots in self._group_by_column(np.arange(self.n_kernels)):
            order, values = self._sorted(column)
            for m in slots:
                out[m] = r[order] @ self._product(int(m), order, values, r[order])
        return out

    def _apply_each(self, columns: Array, kernels: Array) -> Array:
        each = np.zeros((len(kernels), self.n_samples, columns.shape[1]))
        for column, slots in self._group_by_column(kernels):
            order, values = self._sorted(column)
            for slot in slots:
                for c in range(columns.shape[1]):
                    each[slot, order, c] = self._product(int(kernels[slot]), order, values, columns[order, c])
        return each

    @property
    def error_constants(self) -> Array:
        """Rounding beside ``||rho||_1^2``, at worst: a state is rounded once a row; the recursions are exact."""
        return (ROUNDING + 4 * np.finfo(np.float64).eps * self.n_samples) * self.scales

    # --- factors ----------------------------------------------------------------------------------------------------

    def templates(self, kernels: Sequence[int], tol: float) -> list[FeatureOperator]:
        """Return projections on landmarks; rough kernels need many, at most `rank_limit` are taken."""
        made = []
        for m in map(int, kernels):
            spec, columns = self.specs[m], self.positions[m]
            features = draw_features(spec, columns, self.table, tol, rank_limit(self.n_samples, tol))
            made.append(FeatureOperator(m, columns, spec, features, float(self.scales[m])))
        return made
