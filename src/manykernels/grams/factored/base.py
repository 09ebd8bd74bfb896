"""The additional interface of factored stacks: factors, features of new rows, residuals and error bounds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from manykernels.exceptions import MemoryBudgetError
from manykernels.grams.base import GramStack
from manykernels.grams.factored.landmarks import NystroemFeatures
from manykernels.grams.factored.operators import DenseOperator
from manykernels.grams.factored.operators import FactorOperator as FactorOperator
from manykernels.grams.factored.prediction import (
    KernelFunction,
    LandmarkFunction,
    create_landmark_function,
    spanning_rows,
)
from manykernels.grams.gaussian_loops import gaussian_quad, gaussian_tile
from manykernels.grams.lazy import gaussian_coefficient
from manykernels.grams.rows.columns import ColumnTable
from manykernels.grams.rows.vectors import RowVector, here
from manykernels.kernels import Gaussian, KernelSpec, Linear
from manykernels.validation.arrays import Array

ROUNDING = 1e-14  # of sums of kernel values, beside ||rho||_1^2 and the largest diagonal entry
STORED_BYTES = 4e9  # of factors of a working set; those of Gaussians of one column are not stored


class FactoredStack(GramStack):
    """A Gram stack whose kernels have factors: ``K_m = Z_m Z_m' + E_m`` with ``E_m`` psd, everything linear in N.

    A subclass supplies `templates`, ``_quad`` and ``_apply_each``, and says whether the passes are exact.

    Parameters
    ----------
    table : ColumnTable
    positions : sequence of tuple of int
        The columns of every kernel.
    specs : sequence of KernelSpec
        The kernels by themselves.
    scales : (M,) float
        Multiplier of every kernel.
    names : sequence of str, optional
    """

    has_factors: ClassVar[bool] = True
    exact_passes: ClassVar[bool] = False  # whether `quad` is as good as summing kernel values, at O(N)
    joint_columns: Any = None  # the factors of all kernels together, where these are neighboring columns in place
    few_columns: bool = False  # whether factors have few columns, whatever the tolerance; landmarks may be many
    table: ColumnTable
    positions: tuple[tuple[int, ...], ...]
    specs: tuple[Any, ...]
    scales: Array

    def __init__(
        self,
        table: ColumnTable,
        positions: Sequence[tuple[int, ...]],
        specs: Sequence[KernelSpec],
        scales: Array,
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(len(specs), table.n_rows, np.float64, names=names)
        self.table, self.positions, self.specs = table, tuple(positions), tuple(specs)
        self.scales = np.asarray(scales, dtype=np.float64)

    def factor(self, kernel: int, tol: float) -> Array:
        """Return ``Z_m`` (N, rank) with ``trace(K_m - Z_m Z_m') <= tol * trace(K_m)``."""
        return self.features(kernel, self.table, tol)

    def features(self, kernel: int, X: ColumnTable, tol: float) -> Array:
        """Return the rows of ``Z_m`` for new samples, (n, rank)."""
        return np.asarray(self.templates([kernel], tol)[0].transfer(X).rows(slice(None)))

    @property
    def error_constants(self) -> Array:
        """Bounds (M,) on ``|quad(rho)_m - rho' K_m rho| / ||rho||_1^2``: rounding, where nothing else is left out."""
        return ROUNDING * self.largest

    def function(self, kernel: int, v: Array, tol: float) -> KernelFunction:
        """Return ``z_m(x)' v`` as a function of standardized columns, independent of stack and rows."""
        spec, columns, root = self.spec_of(kernel), self.columns_of(kernel), float(np.sqrt(self.scales[kernel]))
        operator = self.templates([kernel], tol)[0]
        if isinstance(operator._map, NystroemFeatures):
            return create_landmark_function(spec, operator._map.landmarks, root * operator._map.weights(v))
        if isinstance(spec, Linear):  # a linear function is a linear kernel with one landmark
            return LandmarkFunction(spec, root * v[None], np.ones(1))
        rows, values = spanning_rows(operator.transfer(self.table).rows, self.n_samples, v)
        return create_landmark_function(spec, self.table.reading(spec, columns, rows).points, root**2 * values)

    def expansion(self, kernel: int, rho: Array) -> KernelFunction:
        """Return ``sum_i rho_i k_m(x, x_i)`` as a function of standardized columns."""
        spec, support = self.spec_of(kernel), np.flatnonzero(rho)
        reading = self.table.reading(spec, self.columns_of(kernel), support)
        return create_landmark_function(spec, reading.points, float(self.scales[kernel]) * reading.masked(rho[support]))

    def quad(self, r: ArrayLike) -> Array:
        """Return ``r' K_m r``, (M,), of a vector here or beside the rows."""
        if not isinstance(r, RowVector):
            return super().quad(r)
        self._count(self.n_kernels)
        return self._quad(r)  # type: ignore[arg-type]  # sums over rows take either

    def _quad_each(self, columns: Array) -> Array:
        """Return ``r' K_m r`` of every column up to the errors of a pass, in a single read of the rows."""
        bounds = self.quad_bounds_each([np.ascontiguousarray(column) for column in columns.T])
        return np.stack([low for low, _ in bounds], axis=1)

    def error_bound(self, rho: Array) -> Array:
        """Return bounds (M,) on the error of ``quad(rho)``."""
        return self.error_constants * float(np.abs(rho).sum()) ** 2

    def quad_bounds(self, rho: Array) -> tuple[Array, Array]:
        """Return bounds (M,) from below and above on ``rho' K_m rho``: a single pass."""
        quads, errors = self.quad(rho), self.error_bound(rho)
        low = np.maximum(quads - errors, 0.0)
        errors += np.maximum(quads, 0.0, out=quads)
        return low, errors

    def quad_bounds_each(self, rhos: Sequence[Any]) -> list[tuple[Array, Array]]:
        """Return `quad_bounds` of every vector, if possible in a single read of the rows."""
        return [self.quad_bounds(rho) for rho in rhos]

    def squares(self, R: Array, kernels: Array | None = None) -> Array:
        """``tr R' K_m R`` up to the errors of a pass, of all kernels or of some."""
        squares = np.sum([self.quad(column) for column in columns_of(R)], axis=0)
        return squares if kernels is None else squares[kernels]

    def quads(self, R: Any) -> tuple[Array, Array]:
        """Return bounds (M,) from below and above on ``tr R' K_m R``: a single pass."""
        return self.quad_bounds(R) if R.ndim == 1 else self.quads_each([R])[0]

    def quads_each(self, Rs: Sequence[Any]) -> list[tuple[Array, Array]]:
        """Return `quads` of every vector, if possible in a single read of the rows."""
        columns = [columns_of(R) for R in Rs]
        bounds = iter(self.quad_bounds_each([column for own in columns for column in own]))
        parts = [[next(bounds) for _ in own] for own in columns]
        return [own[0] if len(own) == 1 else tuple(np.sum(own, axis=0)) for own in parts]

    def operators(self, kernels: Sequence[int], tol: float) -> list[FactorOperator]:
        """Return the factors of the kernels as operators; by default a stored operator per kernel."""
        if self.table.chunked:
            return self.table.operators(self.templates(kernels, tol))
        made: list[FactorOperator] = []
        stored = 0
        for m in kernels:
            factor = self.factor(m, tol)
            stored += factor.nbytes
            if stored > STORED_BYTES:
                several = any(len(self.columns_of(own)) > 1 for own in kernels)
                raise MemoryBudgetError(
                    f"The factors of kernels that enter the model pass {STORED_BYTES / 1e9:g} GB at number "
                    f"{len(made) + 1} of {len(kernels)} (rank {factor.shape[1]}, {self.n_samples} rows). Raise the "
                    f"strength or tol, take wider kernels{' or fewer on several columns' * several}, or fewer rows."
                )
            made.append(DenseOperator(np.array([m]), [factor], positions=self.columns_of(m)))
        return made

    @abstractmethod
    def templates(self, kernels: Sequence[int], tol: float) -> list[Any]:
        """Return operators without rows, bound to a chunk by ``over(table)``."""

    def let_go(self) -> None:
        """Release the shared parts of operators, recomputed by later models."""

    def residual_trace(self, kernel: int, tol: float) -> float:
        """Return the trace left by a factor of limited rank, 0 if accurate to ``tol``."""
        return 0.0

    def constraints_of(self, kernel: int) -> Array | None:
        """Return the inequalities ``G v >= 0`` of the coefficients of a kernel, None if unconstrained."""
        return None

    def many_directions(self, kernel: int) -> bool:
        """Return whether a factor of few columns leaves much of a kernel, so the matrix of few rows is cheaper."""
        return False

    def needs_products(self, kernel: int) -> bool:
        """Return whether a factor is too wide for anything but products."""
        return False

    def columns_of(self, kernel: int) -> tuple[int, ...]:
        """Return the columns of a kernel."""
        return self.positions[kernel]

    def spec_of(self, kernel: int) -> KernelSpec:
        """Return a kernel by itself, without scale."""
        return self.specs[kernel]

    @property
    def _kernels_in_use(self) -> list[int]:
        return sorted({j for m in range(self.n_kernels) for j in self.columns_of(m)})

    def cross_apply(self, kernel: int, X: ColumnTable, rho: Array) -> Array:
        """Return ``sum_i rho_i k_m(x, x_i)`` at new rows, (n,), from kernel values."""
        left = X.reading(self.spec_of(kernel), self.columns_of(kernel))
        return left.masked(self.expansion(kernel, rho)(left.points))

    @cached_property
    def largest(self) -> Array:
        """Return the largest diagonal entry of every kernel, (M,), in at most a single read."""
        kernels = [m for m in range(self.n_kernels) if not self.spec_of(m).unit_diagonal]
        out = self.scales.copy()
        if kernels:
            parts = [(self.spec_of(m), self.columns_of(m)) for m in kernels]
            positions = sorted({j for _, columns in parts for j in columns})
            out[kernels] *= self.table.reduce(positions, partial(_largest, parts), combine=np.maximum)
        return out

    def _block(self, rows: Array, cols: Array, kernels: Array) -> Array:
        out = np.empty((len(kernels), len(rows), len(cols)))
        for slot, m in enumerate(kernels.tolist()):
            spec = self.spec_of(m)
            left, right = (self.table.reading(spec, self.columns_of(m), index) for index in (rows, cols))
            values = right.masked(_values(spec, left.points, right.points).T).T
            np.multiply(left.masked(values), self.scales[m], out=out[slot])
        return out

    def _kernel_diag(self, kernel: int) -> Array:
        """Return the diagonal of a single kernel, (N,)."""
        return self.scales[kernel] * self.table.diagonal(self.spec_of(kernel), self.columns_of(kernel))

    def add_largest(self, kernels: Array, sizes: Array, out: Array) -> None:
        """Add ``sum_m sizes_m sqrt(k_m(x_i, x_i))`` to ``out`` (N,), the bound on functions of norms (g,)."""
        for kernel, size in zip(kernels.tolist(), sizes.tolist(), strict=True):
            if size > 0.0:
                out += size * np.sqrt(self._kernel_diag(kernel)[: len(out)])

    def diag_sums(self, weight: Array) -> Array:
        """Return ``sum_i s_i k_m(x_i, x_i)``, (M,), a single kernel at a time."""
        out, total = np.empty(self.n_kernels), float(weight.sum())
        for m in range(self.n_kernels):
            whole = self.spec_of(m).unit_diagonal and not self.table.gaps[list(self.columns_of(m))].any()
            out[m] = self.scales[m] * total if whole else float(self._kernel_diag(m) @ weight)
        return out

    def name_of(self, kernel: int) -> str:
        """Return the name of a kernel."""
        return f"kernel {kernel}" if self.names is None else self.names[kernel]

    @cached_property
    def neighbors(self) -> Array:
        """Return the kernels of adjacent width and otherwise equal, (M, 2); -1 for none."""
        return np.full((self.n_kernels, 2), -1)

    def exact_quad(self, kernel: int, rho: Array) -> tuple[float, float]:
        """Return ``rho' K_m rho`` of a single kernel as accurately as possible, and an error bound."""
        if self.exact_passes:
            one = self._take(np.array([kernel]))
            return float(one.quad(rho)[0]), float(one.error_bound(rho)[0])
        rho, spec = here(rho), self.spec_of(kernel)
        rows = np.flatnonzero(rho)
        if type(spec) is Gaussian:  # no entry of which has to be held
            reading, quad = self.table.reading(spec, self.columns_of(kernel), rows), np.empty(1)
            coefficients = np.array([gaussian_coefficient(spec)])
            gaussian_quad(_transpose_points(reading.points), coefficients, reading.masked(rho[rows]), quad)
            value = float(self.scales[kernel] * quad[0])
        else:
            value = float(self.restrict(rows).take([kernel]).quad(rho[rows])[0])
        return value, ROUNDING * float(self._kernel_diag(kernel).max()) * float(np.abs(rho).sum()) ** 2

    @property
    def exact_cost(self) -> float:
        """Kernel values per exact quadratic form, or rows read."""
        return float(self.n_samples) if self.exact_passes else 0.5 * float(self.n_samples) ** 2

    @property
    def quad_cost(self) -> float:
        """Approximate multiplications of a quadratic form of every kernel: a few dozen features per row."""
        usual_rank = 32.0  # features of a kernel, where its cost is estimated before any is made
        return usual_rank * self.n_kernels * float(self.n_samples)

    def diag(self) -> Array:
        return np.stack([self._kernel_diag(m) for m in range(self.n_kernels)])

    @property
    def nbytes(self) -> int:
        """Bytes of the columns, read in place."""
        return self.table.nbytes

    def copy_rows(self, kernels: Array, rows: Array) -> FactoredStack:
        """Return some kernels on a copy of some rows, with accurate factors."""
        return self._rebuild(self.table.copy_rows(self.columns_used(kernels), rows), kernels)

    def columns_used(self, kernels: Array) -> list[int]:
        """Return the columns read by some of the kernels, increasing."""
        return sorted({j for m in kernels.tolist() for j in self.columns_of(m)})

    def _take(self, kernels: Array) -> FactoredStack:
        return self._rebuild(self.table, kernels)

    def _rebuild(self, table: ColumnTable, kernels: Array) -> FactoredStack:
        """Return some kernels on a table in the units of the stack's."""
        chosen = kernels.tolist()
        places, specs = [self.positions[m] for m in chosen], [self.specs[m] for m in chosen]
        names, rest = self._names_of(kernels), self._kernel_arguments(kernels)
        return type(self)(table, places, specs, self.scales[kernels], names=names, **rest)

    def _kernel_arguments(self, kernels: Array) -> dict[str, Any]:
        """Return the further constructor arguments for some of the kernels."""
        return {}


def columns_of(R: Any) -> list[Any]:
    """Return the columns of vectors (N, k), or the single vector (N,)."""
    return [R] if R.ndim == 1 else [np.ascontiguousarray(column) for column in R.T]


def _values(spec: KernelSpec, left: Any, right: Any) -> Array:
    """Return the values of a kernel at points (n, d) and (r, d), (n, r)."""
    if type(spec) is not Gaussian:
        return spec(left, right)
    out = np.empty((1, len(left), len(right)))
    coefficients = np.array([gaussian_coefficient(spec)])
    gaussian_tile(_transpose_points(left), _transpose_points(right), coefficients, np.ones(1), out)
    return np.asarray(out[0])


def _transpose_points(points: Array) -> Array:
    """Return points (n, d) a column per sample, (d, n)."""
    return np.ascontiguousarray(points.T, dtype=np.float64)


def _largest(parts: Sequence[tuple[KernelSpec, tuple[int, ...]]], table: ColumnTable) -> Array:
    """Return the largest ``k(x, x)`` of every kernel over some rows."""
    return np.array([float(table.diagonal(spec, columns).max(initial=0.0)) for spec, columns in parts])
