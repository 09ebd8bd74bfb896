"""Gaussian kernels of single columns: every width of a column from one transform of binned moments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.grams.factored.base import DenseOperator, FactoredStack, FactorOperator
from manykernels.grams.factored.columns import ColumnTable
from manykernels.grams.factored.fourier_factor import MAX_FREQUENCIES, ColumnOperator, FourierFactor, frequencies
from manykernels.grams.factored.fourier_plan import Expansion, expansion, plan_bins
from manykernels.grams.factored.loops import ORDER, add_moments, add_values
from manykernels.grams.factored.nystroem import nystroem_rows, pivoted_cholesky, rank_limit
from manykernels.kernels import Gaussian
from manykernels.validation.arrays import Array

PASS_TOL = 1e-12  # of quad, beside ||rho||_1^2; below 1e-13 rounding would dominate


class FourierStack(FactoredStack):
    """Gaussian kernels ``s exp(-(x - z)^2 / (2 width^2))`` of single columns, O(N) a column for all its widths.

    Parameters
    ----------
    table : ColumnTable
        The columns.
    columns : (M,) int
        Which column each kernel acts on.
    widths : (M,) float
        Widths in units of the table.
    scales : (M,) float
        ``s``, the value of each kernel on the diagonal.
    names : sequence of str, optional
    tol : float, default=1e-12
        Accuracy of one pass beside ``||rho||_1^2``.

    Notes
    -----
    ``rho' K rho = s sum_k c_k |rhohat(omega_k)|^2`` on a period that leaves room for the widest kernel;
    ``rhohat`` comes from moments of the bins up to order 8. `error_constants` bounds what that misses.
    """

    def __init__(
        self,
        table: ColumnTable,
        columns: Array,
        widths: Array,
        scales: Array,
        *,
        names: Sequence[str] | None = None,
        tol: float = PASS_TOL,
    ) -> None:
        super().__init__(len(columns), table.n_rows, np.float64, names=names)
        self.table, self.tol = table, tol
        self.columns = np.asarray(columns, dtype=np.int64)
        self.widths, self.scales = np.asarray(widths, dtype=np.float64), np.asarray(scales, dtype=np.float64)
        self._order = np.lexsort((self.widths, self.columns))
        ends = np.flatnonzero(np.diff(self.columns[self._order])) + 1
        self._groups = np.split(self._order, ends)
        self._factors: dict[int, FourierFactor] = {}

    @classmethod
    def grid(
        cls, X: Any, widths: Sequence[float], *, standardize: bool = True, normalize: str | None = "mean_diagonal"
    ) -> FourierStack:
        """Return every width on every column of a table, column by column.

        Parameters
        ----------
        X : DataFrame or (n, p) array
        widths : sequence of float
            In units of each column's deviation if ``standardize``.
        standardize : bool, default=True
        normalize : {"trace", "mean_diagonal", None}, default="mean_diagonal"

        Returns
        -------
        FourierStack
        """
        table = ColumnTable(X, standardize=standardize)
        columns = np.repeat(np.arange(table.n_columns), len(widths))
        scale = 1.0 / table.n_rows if normalize == "trace" else 1.0
        return cls(table, columns, np.tile(widths, table.n_columns), np.full(len(columns), scale))

    # --- the column's transform -------------------------------------------------------------------------------------

    def _extent(self, column: int) -> float:
        return float(self.table.high[column] - self.table.low[column])

    def _expansion(self, group: Array) -> Expansion:
        """Return the expansion of all widths of one column."""
        widths = tuple(self.widths[group].tolist())
        column = int(self.columns[group[0]])
        try:
            spacing, period_bins = plan_bins(self._extent(column), widths, self.tol)
        except InvalidInputError as error:
            raise InvalidInputError(f"Column {column}: {error}") from error
        return expansion(spacing, period_bins, widths, self.tol)

    def _geometry(self, column: int, spacing: float) -> tuple[float, float, int]:
        """Return origin and inverse bin width in the column's own unit, and the number of bins that hold data."""
        table = self.table
        origin = table.low[column] * table.unit[column] + table.center[column]
        bins = int(np.floor(self._extent(column) / spacing + 0.5)) + 1
        return float(origin), float(1.0 / (spacing * table.unit[column])), bins

    def moments(self, column: int, spacing: float, rho: Array) -> Array:
        """Return the moments (bins, 8) of ``rho`` over bins of this width, in units of the table."""
        origin, inverse, bins = self._geometry(column, spacing)
        out = np.zeros((bins, ORDER))
        add_moments(self.table.column(column), origin, inverse, rho, out)
        return out

    def _quad(self, r: Array) -> Array:
        out = np.empty(self.n_kernels)
        for group in self._groups:
            plan = self._expansion(group)
            spectrum = plan.transform(self.moments(int(self.columns[group[0]]), plan.spacing, r))
            out[group] = (spectrum.real**2 + spectrum.imag**2) @ plan.coefficients
        return out * self.scales

    @property
    def error_constants(self) -> Array:
        """Bounds (M,) on the error of ``quad(rho)`` beside ``||rho||_1^2``."""
        out = np.empty(self.n_kernels)
        for group in self._groups:
            out[group] = self._expansion(group).errors
        # Sums of N terms of either sign: rounding grows like a random walk.
        return (out + np.finfo(np.float64).eps * np.sqrt(self.n_samples)) * self.scales

    def _apply_each(self, columns: Array, kernels: Array) -> Array:
        each = np.zeros((len(kernels), self.n_samples, columns.shape[1]))
        for slot, kernel in enumerate(kernels):
            for c in range(columns.shape[1]):
                self._add_product(int(kernel), np.ascontiguousarray(columns[:, c]), each[slot, :, c])
        return each

    def _add_product(self, kernel: int, rho: Array, out: Array) -> None:
        """Add ``K rho`` to ``out``: the transform there, the same expansion back."""
        plan = self._expansion(np.array([kernel]))
        column = int(self.columns[kernel])
        origin, inverse, bins = self._geometry(column, plan.spacing)
        spectrum = plan.transform(self.moments(column, plan.spacing, rho)) * plan.coefficients[:, 0]
        spectra = np.zeros((plan.period_bins // 2 + 1, ORDER), dtype=complex)
        spectra[: len(spectrum)] = spectrum[:, None] * plan.twiddles.conj()
        spectra[1:] *= 0.5  # the coefficients count k and -k together
        pieces = np.fft.irfft(spectra, n=plan.period_bins, axis=0)[:bins] * plan.period_bins
        values = np.zeros(self.n_samples)
        add_values(
            self.table.column(column), origin, inverse, np.ascontiguousarray(pieces) * self.scales[kernel], values
        )
        out += values

    def _apply(self, weights: Array, active: Array, columns: Array) -> Array:
        total = np.zeros(columns.shape)
        for kernel, weight in zip(active, weights[active], strict=True):
            total += weight * self._apply_each(columns, np.array([kernel]))[0]
        return total

    # --- entries ----------------------------------------------------------------------------------------------------

    def spec_of(self, kernel: int) -> Gaussian:
        """Return a kernel by itself, without scale."""
        return Gaussian(float(self.widths[kernel]))

    @property
    def nbytes(self) -> int:
        """Bytes of the columns, which the stack reads in place."""
        return self.table.columns.nbytes

    def _take(self, kernels: Array) -> FourierStack:
        return FourierStack(
            self.table,
            self.columns[kernels],
            self.widths[kernels],
            self.scales[kernels],
            names=self._names_of(kernels),
            tol=self.tol,
        )

    def columns_of(self, kernel: int) -> tuple[int, ...]:
        """Return the columns that a kernel acts on."""
        return (int(self.columns[kernel]),)

    def name_of(self, kernel: int) -> str:
        """Return the name of a kernel."""
        if self.names is not None:
            return self.names[kernel]
        return f"x{self.columns[kernel]}: gaussian(width={self.widths[kernel]:g})"

    def neighbors(self) -> Array:
        """Return the next narrower and the next wider kernel of the same column, (M, 2); -1 for none."""
        out = np.full((self.n_kernels, 2), -1)
        order, same = self._order, np.diff(self.columns[self._order]) == 0
        out[order[1:][same], 0] = order[:-1][same]
        out[order[:-1][same], 1] = order[1:][same]
        return out

    def exact_quad(self, kernel: int, rho: Array) -> tuple[float, float]:
        """Return the transform's value: it is as good as summing kernel values, at O(N)."""
        one = self._take(np.array([kernel]))
        return float(one.quad(rho)[0]), float(one.error_constants[0]) * float(np.abs(rho).sum()) ** 2

    @property
    def exact_cost(self) -> float:
        """Rows that one transform reads."""
        return float(self.n_samples)

    # --- factors ----------------------------------------------------------------------------------------------------

    def _factor_of(self, kernel: int) -> FourierFactor:
        """Return the spectrum of one kernel, computed once."""
        if kernel not in self._factors:
            column, width = int(self.columns[kernel]), float(self.widths[kernel])
            plan = FourierFactor.plan(self._extent(column), width)
            counts = self.moments(column, plan.spacing, np.ones(self.n_samples))
            self._factors[kernel] = plan.with_spectrum(counts, float(self.scales[kernel]))
        return self._factors[kernel]

    def _is_narrow(self, kernel: int) -> bool:
        """Return whether a kernel needs more frequencies than are decomposed, on a column of far outliers for one."""
        return frequencies(self._extent(int(self.columns[kernel])), float(self.widths[kernel])) > MAX_FREQUENCIES

    def _landmarks(self, kernel: int, tol: float) -> tuple[Array, Array]:
        reading = self.table.reading(self.spec_of(kernel), self.columns_of(kernel))
        return pivoted_cholesky(self.spec_of(kernel), reading, tol, rank_limit(self.n_samples))

    def operators(self, kernels: Sequence[int], tol: float) -> list[FactorOperator]:
        """Return one operator a column, in which the factors of its kernels share one reading of the column."""
        chosen = np.asarray(kernels, dtype=np.int64)
        made: list[FactorOperator] = []
        for column in dict.fromkeys(self.columns[chosen].tolist()):
            own = chosen[self.columns[chosen] == column]
            narrow = np.array([self._is_narrow(int(m)) for m in own])
            for m in own[narrow].tolist():
                made.append(DenseOperator(np.array([m]), [self._landmarks(m, tol)[0] * np.sqrt(self.scales[m])]))
            own = own[~narrow]
            if not len(own):
                continue
            spacing = 0.125 * float(self.widths[own].min())
            origin, inverse, bins = self._geometry(column, spacing)
            factors = [self._factor_of(int(m)) for m in own]
            made.append(ColumnOperator(self.table.column(column), origin, inverse, bins, spacing, own, factors, tol))
        return made

    def factor(self, kernel: int, tol: float) -> Array:
        """Return ``Z_m`` (N, rank) with ``trace(K_m - Z_m Z_m') <= tol * trace(K_m)``."""
        return self.operators([kernel], tol)[0].rows(np.arange(self.n_samples))

    def features(self, kernel: int, X: ColumnTable, tol: float) -> Array:
        """Return the rows of ``Z_m`` that new samples would have; zero where every kernel value is below 1e-15."""
        column, spec = int(self.columns[kernel]), self.spec_of(kernel)
        reading = X.reading(spec, (column,))
        if self._is_narrow(kernel):
            landmarks = self.table.points((column,), self._landmarks(kernel, tol)[1])
            return nystroem_rows(spec, landmarks, reading) * np.sqrt(self.scales[kernel])
        return reading.masked(self._factor_of(kernel).features(reading.points[:, 0] - self.table.low[column], tol))
