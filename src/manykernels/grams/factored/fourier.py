"""Gaussian kernels of single columns: all widths of a column from a transform of binned moments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import Any

import numpy as np
from scipy.linalg import eigh, qr

from manykernels.exceptions import InvalidInputError
from manykernels.grams.base import GramStack
from manykernels.grams.factored.base import FactoredStack, FactorOperator
from manykernels.grams.factored.chunked import read_table
from manykernels.grams.factored.fourier_factor import (
    ROUNDING,
    SPACING,
    ColumnOperator,
    FourierFactor,
    FourierPlan,
    PlannedColumns,
    bin_ratio,
    fourier_plan,
    frequencies,
    lay_out_columns,
    most_frequencies,
    periods,
    piece_spacing,
    plan_bins,
    reach,
)
from manykernels.grams.factored.landmarks import NystroemFeatures, pivoted_cholesky, rank_limit
from manykernels.grams.factored.loops import ORDER, add_moments, add_values
from manykernels.grams.factored.operators import FeatureOperator, join_neighbors, store_factors
from manykernels.grams.factored.prediction import FourierSeries, KernelFunction
from manykernels.grams.rows.columns import ColumnTable, Reading
from manykernels.kernels import Gaussian, KernelSpec
from manykernels.validation.arrays import Array

# Landmarks rotated to the leading directions of the rows: short factors of kernels whose series would be long.


@dataclass(frozen=True, eq=False)
class LeadingDirections:
    """A kernel's landmarks and the directions of their features that matter for the rows, the largest first.

    The remainder after landmarks and truncation is positive semidefinite, like any projection remainder. Finer
    directions begin with the coarser directions, so coefficients are nested.
    """

    features: NystroemFeatures  # all directions
    sizes: Array  # (r,) float64: what every direction adds to the trace
    trace: float  # of the kernel on the rows, without scale

    @classmethod
    def fit(
        cls,
        spec: KernelSpec,
        column: int,
        table: ColumnTable,
        tol: float,
        max_rank: int,
        coarser: LeadingDirections | None = None,
    ) -> LeadingDirections:
        """Find directions that leave at most ``tol`` of the trace, with at most ``max_rank`` landmarks."""
        rows, counts = distinct(spec, column, table)
        landmark_share = 0.1  # of the trace that a factor may leave: what its landmarks may
        landmarks = pivoted_cholesky(spec, rows, landmark_share * tol, max_rank, counts)[1]
        base = NystroemFeatures.factorize(spec, rows.points[landmarks])
        Z = base(rows.points)
        gram = (Z.T * counts) @ Z
        known = None if coarser is None else coarser.features.directions
        directions = _directions(gram, known)
        sizes = np.einsum("ij,ij->j", directions, gram @ directions)
        trace = float(spec.diag(rows.points) @ counts)
        return cls(base.rotate(directions), sizes, trace)

    @property
    def residual_trace(self) -> float:
        """Share of the trace left by all directions."""
        return max(1.0 - float(self.sizes.sum()) / max(self.trace, 1e-300), 0.0)

    def truncate(self, tol: float) -> NystroemFeatures:
        """Return the features that leave at most ``tol`` of the trace, or all available."""
        left = self.trace - np.cumsum(self.sizes)
        enough = np.flatnonzero(left <= tol * self.trace)
        rank = int(enough[0]) + 1 if len(enough) else len(self.sizes)
        directions = self.features.directions
        assert directions is not None
        return self.features.rotate(directions[:, :rank])


def distinct(spec: KernelSpec, column: int, table: ColumnTable) -> tuple[Reading, Array]:
    """Return the distinct values of a column in the form of a kernel, with counts."""
    present = table.present((column,))
    rows = np.arange(table.n_rows) if present is None else np.flatnonzero(present)
    _, first, counts = np.unique(table.column(column)[rows], return_index=True, return_counts=True)
    return Reading(table.reading(spec, (column,), rows[first]).points, None), counts.astype(np.float64)


def _directions(gram: Array, known: Array | None) -> Array:
    """Return orthonormal directions, the largest first, after the known directions of the first coordinates."""
    if known is None:
        return np.ascontiguousarray(eigh(gram)[1][:, ::-1])
    kept = np.zeros((len(gram), known.shape[1]))
    kept[: len(known)] = known
    others = qr(kept)[0][:, kept.shape[1] :]
    return np.hstack([kept, others @ eigh(others.T @ gram @ others)[1][:, ::-1]])


PASS_TOL = 1e-12  # of quad, beside ||rho||_1^2


class FourierStack(FactoredStack):
    """Gaussian kernels ``s exp(-(x - z)^2 / (2 width^2))`` of single columns, O(N) a column for all the widths.

    Parameters
    ----------
    table : ColumnTable
        The columns.
    columns : (M,) int
        Which column every kernel acts on.
    widths : (M,) float
        Widths in units of the table.
    scales : (M,) float
        ``s``, the value of every kernel on the diagonal.
    names : sequence of str, optional
    tol : float, default=1e-12
        Accuracy of a single pass beside ``||rho||_1^2``.

    Notes
    -----
    ``rho' K rho = s sum_k c_k |rhohat(omega_k)|^2`` on a period that leaves room for the widest kernel;
    ``rhohat`` comes from moments of the bins up to order 8. `error_constants` bounds what that misses.
    """

    exact_passes = few_columns = True

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
        GramStack.__init__(self, len(columns), table.n_rows, np.float64, names=names)  # specs are made when asked for
        self.table, self.tol = table, tol
        self.columns = np.asarray(columns, dtype=np.int64)
        self.widths, self.scales = np.asarray(widths, dtype=np.float64), np.asarray(scales, dtype=np.float64)
        self._factors: dict[int, FourierFactor] = {}
        self._pieces: dict[tuple[int, float, int], Array] = {}  # of the kernels of classes and rounds before
        self._in_use: dict[tuple[Any, ...], ColumnOperator] = {}  # by columns: those of the last working set
        self._leading: dict[int, dict[float, LeadingDirections]] = {}
        self._errors: Array | None = None

    @classmethod
    def grid(
        cls,
        X: Any,
        widths: Sequence[float],
        *,
        standardize: bool = True,
        normalize: str | None = "mean_diagonal",
        tol: float = PASS_TOL,
    ) -> FourierStack:
        """Return every width on every column of a table, column by column."""
        table = read_table(X, standardize=standardize)
        columns = np.repeat(np.arange(table.n_columns), len(widths))
        scale = 1.0 / table.n_rows if normalize == "trace" else 1.0
        return cls(table, columns, np.tile(widths, table.n_columns), np.full(len(columns), scale), tol=tol)

    # --- the column's transform -------------------------------------------------------------------------------------

    def _extent(self, column: int) -> float:
        return float(self.table.high[column] - self.table.low[column])

    def _expansion(self, kernel: int) -> FourierPlan:
        """Return the expansion of a single kernel by itself."""
        widths, column = (float(self.widths[kernel]),), int(self.columns[kernel])
        try:
            spacing, period_bins = plan_bins(self._extent(column), widths, self.tol)
        except InvalidInputError as error:
            raise InvalidInputError(f"Column {column}: {error}") from error
        return fourier_plan(spacing, period_bins, widths, self.tol)

    def _geometry(self, column: int, spacing: float) -> tuple[float, float, int]:
        """Return origin and inverse bin width in the unit of the column, and the number of occupied bins."""
        table = self.table
        origin = table.low[column] * table.unit[column] + table.center[column]
        bins = int(np.floor(self._extent(column) / spacing + 0.5)) + 1
        return float(origin), float(1.0 / (spacing * table.unit[column])), bins

    def moments(self, wanted: Iterable[tuple[int, float]], *rhos: Any) -> Iterator[Array]:
        """Yield the moments of some vectors for columns and widths of bins, in units of the table, (T, bins, 8)."""
        geometries = ((column, *self._geometry(column, spacing)) for column, spacing in wanted)
        batch_bins = 2**21  # whose moments are summed in one reading of rows in chunks: 128 MB
        for together in _batches(geometries, batch_bins if self.table.chunked else 0):
            columns = sorted({column for column, *_ in together})
            yield from self.table.reduce(columns, partial(_moments, together), *rhos)

    def _quad(self, r: Array) -> Array:
        return self._quads([r])[0]

    def _quads(self, rhos: Sequence[Any]) -> Array:
        """Return the quadratic forms of every vector, (T, M): rows are read once."""
        out = np.empty((len(rhos), self.n_kernels))
        batches: list[PlannedColumns] = []
        for batch in (batch for together in self._layout for batch in together.batches()):
            binned: PlannedColumns | None = batch
            while binned is not None and not self.table.chunked and binned.plan.directly(self.n_samples, len(rhos)):
                self._quads_by_rows(binned, np.array(rhos), out)
                binned = binned.wider
            batches += [] if binned is None else [binned]
        for batch, some, moments in self._moments_of(batches, rhos):
            for members, quads in batch.quads(moments):
                out[some, members] = np.moveaxis(quads, 1, 0)
        out *= self.scales
        for kernel in np.flatnonzero(self._reads_values).tolist():
            out[:, kernel] = [rho @ self._product(kernel, rho) for rho in rhos]
        return out

    def _quads_by_rows(self, batch: PlannedColumns, rhos: Array, out: Array) -> None:
        """Set the quadratic forms of many vectors (T, N) by a wave a row: few rows take no bins."""
        for column, members in zip(batch.columns.tolist(), batch.members, strict=True):
            origin, inverse, _ = self._geometry(column, batch.plan.spacing)
            position = (self.table.column(column).astype(np.float64) - origin) * inverse
            inside = np.abs(position - 0.5 * (batch.bins - 1)) <= 0.5 * batch.bins  # gaps are far outside
            out[:, members] = batch.plan.quads_at(position[inside], rhos[:, inside])

    @cached_property
    def _reads_values(self) -> Array:
        """Kernels with fewer distinct values than bins: few rows, or a distant outlier, (M,) bool."""
        if self.table.chunked:
            return np.zeros(self.n_kernels, dtype=bool)
        extents = (self.table.high - self.table.low)[self.columns]
        bins = (extents / self.widths + reach(self.tol)) / bin_ratio(self.tol)
        return np.asarray(bins > self.n_samples**2)

    def _product(self, kernel: int, rho: Array) -> Array:
        """Return ``K rho`` by the values of a kernel."""
        every, out = np.arange(self.n_samples), np.empty(self.n_samples)
        value_rows = 512  # of a kernel that are evaluated at once
        for start in range(0, len(every), value_rows):
            rows = every[start : start + value_rows]
            out[rows] = self._block(rows, every, np.array([kernel]))[0] @ rho
        return out

    @cached_property
    def _layout(self) -> list[PlannedColumns]:
        """Return columns of a common expansion together."""
        extents, own = self.table.high - self.table.low, np.flatnonzero(~self._reads_values)
        found = lay_out_columns(self.columns[own], self.widths[own], extents, self.tol) if len(own) else ()
        return [together.embed(own) for together in found]

    def _moments_of(
        self, batches: Sequence[PlannedColumns], rhos: Sequence[Any]
    ) -> Iterator[tuple[PlannedColumns, slice, Array]]:
        """Yield the moments of every batch for a few vectors at a time, (columns, some of T, bins, 8)."""
        if self.table.chunked:
            found = self.moments([(int(j), batch.plan.spacing) for batch in batches for j in batch.columns], *rhos)
            for batch in batches:
                held = list(islice(found, len(batch.columns)))
                for some in batch.together(len(rhos)):
                    yield batch, some, np.stack([_padded(own[some], batch.bins) for own in held])
            return
        for batch in batches:
            for some in batch.together(len(rhos)):
                yield batch, some, self._moments_here(batch, rhos[some])

    def _moments_here(self, batch: PlannedColumns, rhos: Sequence[Array]) -> Array:
        """Return the moments of some vectors for the columns of a batch, (columns, T, bins, 8)."""
        out = np.zeros((len(batch.columns), len(rhos), batch.bins, ORDER))
        for slot, column in enumerate(batch.columns.tolist()):
            origin, inverse, _ = self._geometry(column, batch.plan.spacing)
            for own, moments in zip(rhos, out[slot], strict=True):
                add_moments(self.table.column(column), origin, inverse, own, moments)
        return out

    def quad_bounds_each(self, rhos: Sequence[Any]) -> list[tuple[Array, Array]]:
        """Return bounds of every vector in a single read of the rows."""
        self._count(self.n_kernels)
        sums = [float(np.abs(rho).sum()) ** 2 for rho in rhos]
        errors, bounds = self.error_constants, []
        for quads, s in zip(self._quads(rhos), sums, strict=True):
            high = np.maximum(quads, 0.0) + errors * s
            quads -= errors * s
            bounds.append((np.maximum(quads, 0.0, out=quads), high))
        return bounds

    def exact_quad(self, kernel: int, rho: Array) -> tuple[float, float]:
        """Return ``rho' K_m rho`` of a single kernel by a finer pass, and a bound on the error.

        The form is the squared length of a vector of Fourier sums. An error ``d`` of the vector by bins and rounding
        changes the square by ``d (2 length + d)``: far less than the share of ``||rho||_1^2`` for a weak penalty.
        """
        if self._reads_values[kernel]:
            one = self._rebuild(self.table, np.array([kernel]))
            return float(one.quad(rho)[0]), float(one.error_bound(rho)[0])
        self._count(1)
        width, column, scale = (float(self.widths[kernel]),), int(self.columns[kernel]), float(self.scales[kernel])
        exact_tol = 1e-14  # the same, by its bins, of one kernel whose bound decides: less is rounding
        extent, spacing = self._extent(column), bin_ratio(exact_tol) * width[0]
        nothing = 1e-25  # the same, by its period and frequencies, which cost little
        plan = fourier_plan(spacing, int(periods(np.array([extent]), width, spacing, nothing)[0]), width, nothing)
        (moments,) = self.moments([(column, spacing)], rho)
        value, size = float(plan.quads(moments)[0, 0]), float(np.abs(rho).sum())
        # Sums of N terms of either sign: rounding grows like a random walk. That of places turns every wave.
        eps = np.finfo(np.float64).eps
        moved = size * (float(plan.slips[0]) + ROUNDING + eps * (np.sqrt(self.n_samples) + extent / width[0]))
        rounded_sum = 1e-14  # of a sum of squares
        error = moved * (2.0 * np.sqrt(value) + moved) + float(plan.left_out[0]) * size**2 + rounded_sum * value
        return scale * value, scale * error

    @property
    def error_constants(self) -> Array:
        """Bounds (M,) on the error of ``quad(rho)`` beside ``||rho||_1^2``."""
        if self._errors is None:
            out = np.zeros(self.n_kernels)
            for part in (part for together in self._layout for part in together.parts()):
                out[part.members] = part.plan.errors
            # Sums of N terms of either sign: rounding grows like a random walk.
            self._errors = (out + np.finfo(np.float64).eps * np.sqrt(self.n_samples)) * self.scales
        return self._errors

    def _apply_each(self, columns: Array, kernels: Array) -> Array:
        each = np.zeros((len(kernels), self.n_samples, columns.shape[1]))
        for slot, kernel in enumerate(kernels):
            for c in range(columns.shape[1]):
                self._add_product(int(kernel), np.ascontiguousarray(columns[:, c]), each[slot, :, c])
        return each

    def _add_product(self, kernel: int, rho: Array, out: Array) -> None:
        """Add ``K rho`` to ``out``: the transform there, the same expansion back."""
        if self._reads_values[kernel]:
            out += self._product(kernel, rho)
            return
        plan = self._expansion(kernel)
        column = int(self.columns[kernel])
        origin, inverse, bins = self._geometry(column, plan.spacing)
        (moments,) = self.moments([(column, plan.spacing)], rho)
        spectrum = plan.transform(moments[0]) * plan.coefficients[:, 0]
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
        return Gaussian(float(self.widths[kernel]))

    def _rebuild(self, table: ColumnTable, kernels: Array) -> FourierStack:
        return FourierStack(
            table,
            self.columns[kernels],
            self.widths[kernels],
            self.scales[kernels],
            names=self._names_of(kernels),
            tol=self.tol,
        )

    def columns_of(self, kernel: int) -> tuple[int, ...]:
        return (int(self.columns[kernel]),)

    def columns_used(self, kernels: Array) -> list[int]:
        return np.unique(self.columns[kernels]).tolist()

    @property
    def largest(self) -> Array:  # one reading of others
        return self.scales

    def diag_sums(self, weight: Array) -> Array:
        """Return ``sum_i s_i k_m(x_i, x_i)``, (M,): a sum a column."""
        totals = np.full(self.table.n_columns, float(weight.sum()))
        for column in np.flatnonzero(self.table.gaps).tolist():
            present = self.table.present((column,))
            totals[column] = totals[column] if present is None else float(present @ weight)
        return self.scales * totals[self.columns]

    def name_of(self, kernel: int) -> str:
        if self.names is not None:
            return self.names[kernel]
        return f"x{self.columns[kernel]}: gaussian(width={self.widths[kernel]:g})"

    @cached_property
    def neighbors(self) -> Array:
        """Return the next narrower and the next wider kernel of the same column, (M, 2); -1 for none."""
        out = np.full((self.n_kernels, 2), -1, dtype=np.int32)
        order = np.lexsort((self.widths, self.columns))
        same = np.diff(self.columns[order]) == 0
        out[order[1:][same], 0] = order[:-1][same]
        out[order[:-1][same], 1] = order[1:][same]
        return out

    # --- factors ----------------------------------------------------------------------------------------------------

    def _factors_of(self, kernels: Sequence[int]) -> list[FourierFactor]:
        """Return the cached spectra of kernels, all new spectra in a single read."""
        new = [m for m in kernels if m not in self._factors]
        if new:
            plans = [FourierFactor.plan(self._extent(int(self.columns[m])), float(self.widths[m])) for m in new]
            wanted = [(int(self.columns[m]), plan.spacing) for m, plan in zip(new, plans, strict=True)]
            for m, plan, counts in zip(new, plans, self.moments(wanted, self.table.ones()), strict=True):
                self._factors[m] = plan.with_spectrum(counts[0], float(self.scales[m]))
        return [self._factors[m] for m in kernels]

    def _is_narrow(self, kernel: int) -> bool:
        """Return whether a kernel needs too many frequencies, for example on a column with far outliers."""
        wanted = frequencies(self._extent(int(self.columns[kernel])), float(self.widths[kernel]))
        return wanted > most_frequencies(self.n_samples)

    def _landmarks(self, kernel: int, tol: float) -> FeatureOperator:
        """Return the features of a narrow kernel, cached per ``tol``."""
        spec, columns, scale = self.spec_of(kernel), self.columns_of(kernel), float(self.scales[kernel])
        found = self._leading.setdefault(kernel, {})
        if tol not in found:
            coarser = found.get(min((other for other in found if other > tol), default=tol))
            rows, limit = self.table.sample(), rank_limit(self.n_samples, tol)
            found[tol] = LeadingDirections.fit(spec, columns[0], rows, tol, limit, coarser)
        return FeatureOperator(kernel, columns, spec, found[tol].truncate(tol), scale)

    def residual_trace(self, kernel: int, tol: float) -> float:
        """Return the trace left by the landmarks of a narrow kernel at the maximal number."""
        if not self._is_narrow(kernel):
            return 0.0
        self._landmarks(kernel, tol)
        share = self._leading[kernel][tol].residual_trace
        return share if share > tol else 0.0

    def templates(self, kernels: Sequence[int], tol: float) -> list[FeatureOperator | ColumnOperator]:
        """Return an operator per column, with a single read of the column for all kernels."""
        chosen = np.asarray(kernels, dtype=np.int64)
        made: list[FeatureOperator | ColumnOperator] = []
        narrow = np.array([self._is_narrow(int(m)) for m in chosen], dtype=bool)
        self._factors_of(chosen[~narrow].tolist())
        used: dict[tuple[Any, ...], ColumnOperator] = {}
        for column in dict.fromkeys(self.columns[chosen].tolist()):
            here = self.columns[chosen] == column
            made += [self._landmarks(m, tol) for m in chosen[here & narrow].tolist()]
            own = chosen[here & ~narrow]
            if len(own):
                key = tol, *own.tolist()
                known = self._in_use.get(key)
                used[key] = known or self._column_operator(column, own, tol, piece_spacing(tol))
                made.append(copy(used[key]))  # whose kernels others number in their own way
        if len(chosen) > 1:
            self._in_use = used  # most of a working set stays until the next round
        return made

    def let_go(self) -> None:
        self._pieces.clear()
        self._in_use = {}

    def _column_operator(self, column: int, own: Array, tol: float, ratio: float) -> ColumnOperator:
        """Return the factors of some kernels of a column, as pieces on bins of the part of the narrowest width."""
        factors = self._factors_of(own.tolist())
        spacing = factors[int(np.argmin(self.widths[own]))].whole_spacing(ratio)
        geometry = self._geometry(column, spacing)
        parts = [
            self._pieces_of(m, factor, spacing, (geometry[2], factor.rank(tol)))
            for m, factor in zip(own.tolist(), factors, strict=True)
        ]
        return ColumnOperator(column, geometry, spacing, own, factors, parts, self.n_samples)

    def _pieces_of(self, kernel: int, factor: FourierFactor, spacing: float, size: tuple[int, int]) -> Array:
        """Return the pieces of a factor on a number of bins and directions, cached if small."""
        bins, rank = size
        found = self._pieces.get((kernel, spacing, rank))
        if found is None:
            found = factor.pieces(spacing, bins, factor.directions[:, :rank])
            kept_bytes = 2**25  # of pieces, which classes and rounds share
            if found.nbytes <= kept_bytes // 32:
                if sum(each.nbytes for each in self._pieces.values()) + found.nbytes > kept_bytes:
                    self._pieces.clear()
                self._pieces[kernel, spacing, rank] = found
        return found

    def operators(self, kernels: Sequence[int], tol: float) -> list[FactorOperator]:
        """Return operators over all rows."""
        made = self.table.operators(self.templates(kernels, tol))
        return made if self.table.chunked else join_neighbors(store_factors(made))

    def factor(self, kernel: int, tol: float) -> Array:
        """Return ``Z_m`` (N, rank) with ``trace(K_m - Z_m Z_m') <= tol * trace(K_m)``, exact to rounding."""
        rows = np.arange(self.n_samples)
        if self._is_narrow(kernel):
            return self.operators([kernel], tol)[0].rows(rows)
        exact = self._column_operator(int(self.columns[kernel]), np.array([kernel]), tol, SPACING)
        return np.asarray(self.table.operators([exact])[0].rows(rows))

    def features(self, kernel: int, X: ColumnTable, tol: float) -> Array:
        """Return the rows of ``Z_m`` for new samples; zero for kernel values below 1e-15."""
        if self._is_narrow(kernel):
            return self._landmarks(kernel, tol).transfer(X).rows(slice(None))
        column = int(self.columns[kernel])
        reading = X.reading(self.spec_of(kernel), (column,))
        (factor,) = self._factors_of([kernel])
        return reading.masked(factor.features(reading.points[:, 0] - self.table.low[column], tol))

    def function(self, kernel: int, v: Array, tol: float) -> KernelFunction:
        """Return ``z_m(x)' v`` as a trigonometric series."""
        if self._is_narrow(kernel):
            return super().function(kernel, v, tol)
        return FourierSeries.create(self._factors_of([kernel])[0], v, float(self.table.low[self.columns[kernel]]))


Geometry = tuple[int, float, float, int]


def _moments(geometries: Sequence[Geometry], table: ColumnTable, *rhos: Array) -> list[Array]:
    """Return the moments of some rows for every column, origin, inverse bin width and number of bins."""
    made = []
    for column, origin, inverse, bins in geometries:
        out = np.zeros((len(rhos), bins, ORDER))
        for own, moments in zip(rhos, out, strict=True):
            add_moments(table.column(column), origin, inverse, own, moments)
        made.append(out)
    return made


def _padded(moments: Array, bins: int) -> Array:
    """Return moments (T, bins, 8) padded with empty bins to the longest column of a batch."""
    return np.pad(moments, ((0, 0), (0, bins - moments.shape[1]), (0, 0)))


def _batches(geometries: Iterable[Geometry], most: int) -> Iterator[list[Geometry]]:
    """Yield geometries with a limited total number of bins, at least one geometry."""
    batch: list[Geometry] = []
    for geometry in geometries:
        if batch and sum(bins for *_, bins in batch) + geometry[3] > most:
            yield batch
            batch = []
        batch.append(geometry)
    if batch:
        yield batch
