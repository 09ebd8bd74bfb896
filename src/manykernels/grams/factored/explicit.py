"""Kernels with few features: linear, single-column polynomials and periodic ones, categories, ranks, gaps, shapes.

Of a kernel whose functions have a shape, ``G v >= 0``, the dual norm is that of the functions, ``min_{mu >= 0} ||Z'rho
+ G'mu||``, and so is what a pass returns.

Passes over columns near earlier passes: the uncertainty, and reads of the few relevant kernels.

Dual coefficients of neighboring strengths differ little. With orthonormal directions ``q_k`` whose products with all
columns are known, and the part of ``rho`` that is outside of their span,

    | ||Z_m' rho|| - ||sum_k (q_k' rho) Z_m' q_k|| |  <=  ||Z_m|| ||rho - sum_k (q_k' rho) q_k||

so that most kernels are known to be below a threshold without being read: safe rules in sequence (El Ghaoui, Viallon,
Rabbani, "Safe feature elimination in sparse supervised learning", Pacific Journal of Optimization 8 (2012); Wang,
Wonka, Ye, "Lasso screening rules via dual polytope projection", Journal of Machine Learning Research 16 (2015)), here
with every pass made before as a reference at once. Of several outputs, ``rho`` and directions are matrices.
"""

from collections.abc import Sequence
from functools import cached_property, partial
from itertools import chain
from typing import Any, cast

import numpy as np

from manykernels.grams.factored.base import ROUNDING, FactoredStack, FactorOperator
from manykernels.grams.factored.cells import grid_levels, grid_parts
from manykernels.grams.factored.cones import polar_norm
from manykernels.grams.factored.features import MAX_FEATURES, FeatureMap, LevelFeatures, averages_levels, feature_map
from manykernels.grams.factored.levels import LevelOperator, SlopeOperator
from manykernels.grams.factored.operators import ColumnFactors, FeatureOperator, adjoints, reads_columns, store_factors
from manykernels.grams.factored.prediction import KernelFunction, LineFunction, create_landmark_function
from manykernels.grams.loops import add_norms, largest_squares
from manykernels.grams.rows.columns import ColumnTable
from manykernels.kernels import KernelSpec, Ordinal, Overlap, Shaped
from manykernels.kernels.specs.interaction import slope_columns
from manykernels.validation.arrays import Array


def levels_of(spec: KernelSpec, positions: tuple[int, ...], table: ColumnTable) -> list[Array] | None:
    """Return the distinct values of the columns of a kernel on levels, or None beyond the limit."""
    if grid_parts(spec) is not None:
        return grid_levels(spec, positions, table)
    if not averages_levels(spec):
        return None
    slope, found = slope_columns(spec), list[Array]()
    for column in positions if slope is None else [positions[slope[0]]]:
        own = table.categories(column, MAX_FEATURES if isinstance(spec, Ordinal) else table.n_rows)
        if own is None:
            return None
        found.append(own)
    return found


class ExplicitStack(FactoredStack):
    """Kernels with a `feature_map`: linear, polynomial and periodic columns, overlap, ordinal, missingness."""

    exact_passes = few_columns = True

    def __init__(
        self,
        table: ColumnTable,
        positions: Sequence[tuple[int, ...]],
        specs: Sequence[KernelSpec],
        scales: Array,
        *,
        names: Sequence[str] | None = None,
        maps: Sequence[FeatureMap] | None = None,
    ) -> None:
        super().__init__(table, positions, specs, scales, names=names)
        self._stored: dict[int, Any] = {}
        self._levels: dict[int, LevelOperator] = {}
        self._maps = tuple(maps) if maps is not None else self._learn_maps()

    def _learn_maps(self) -> tuple[FeatureMap, ...]:
        """Return the features of all kernels, shared by kernels of equal spec, except levels."""
        keys = list(zip(map(id, self.specs), map(len, self.positions), strict=True))
        kinds = dict(zip(keys, self.specs, strict=True))
        alike = {key: spec for key, spec in kinds.items() if not averages_levels(spec) and grid_parts(spec) is None}
        known = {key: feature_map(spec, key[1], None) for key, spec in alike.items()}
        made = list(map(known.get, keys))
        for m in [m for m, found in enumerate(made) if found is None] if len(known) < len(kinds) else []:
            levels = levels_of(self.specs[m], self.positions[m], self.table)
            made[m] = feature_map(self.specs[m], keys[m][1], levels)
        assert None not in known.values()
        return cast("tuple[FeatureMap, ...]", tuple(made))

    def templates(self, kernels: Sequence[int], tol: float = 0.0) -> list[FeatureOperator]:
        """Return operators without rows, bound by ``over(table)``."""
        return [self._levels.get(m) or self._template(m) for m in map(int, kernels)]

    def _template(self, kernel: int) -> FeatureOperator:
        """Return the operator of a single kernel; an operator of levels keeps the codes of rows."""
        place = kernel, self.positions[kernel], self.specs[kernel], self._maps[kernel], float(self.scales[kernel])
        slope = slope_columns(self.specs[kernel]) is not None
        if not (slope or isinstance(self.specs[kernel], Overlap)):
            return FeatureOperator(*place)
        operator = (SlopeOperator if slope else LevelOperator)(*place)
        if self.table.chunked:
            return operator
        self._levels[kernel] = operator.transfer(self.table)
        return self._levels[kernel]

    def operators(self, kernels: Sequence[int], tol: float) -> list[FactorOperator]:
        """Return an operator per kernel; features that would take much memory are computed when needed.

        Where all features are neighboring columns in place, one operator has all kernels.
        """
        if self.table.chunked:
            return self.table.operators(self.templates(kernels))
        if len(kernels) and (whole := self.joint_columns) is not None:
            own = np.sort(np.asarray(kernels))
            return [ColumnFactors(whole.columns, own, whole.firsts[own], whole.ranks[own], whole.roots[own])]
        made: list[Any] = [self._stored.get(kernel) for kernel in kernels]
        missing = [slot for slot, one in enumerate(made) if one is None]
        found = store_factors(self.table.operators(self.templates([kernels[slot] for slot in missing])))
        for slot, operator in zip(missing, found, strict=True):
            made[slot] = operator
            if getattr(operator, "in_place", False):  # nothing is held but the table
                self._stored[kernels[slot]] = operator
        return made

    def _quad(self, r: Array) -> Array:
        if self._whole is not None:
            columns, starts = self._whole
            return np.add.reduceat((self.table.block(columns) @ r) ** 2, starts) * self.scales
        return np.array([self._dual_squares(m, part[:, None])[0] for m, part in enumerate(self._adjoints(r))])

    def _dual_squares(self, kernel: int, adjoints: Array) -> Array:
        """Return the squared dual norms (k,) of a single kernel from products (rank, k) of features and vectors."""
        constraints = self._maps[kernel].constraints
        if constraints is None:
            return np.asarray(np.einsum("rk,rk->k", adjoints, adjoints))
        return np.array([polar_norm(constraints, own) ** 2 for own in adjoints.T])

    def function(self, kernel: int, v: Array, tol: float) -> KernelFunction:
        """Return ``z_m(x)' v`` as a function of standardized columns; with a shape also where no row is."""
        spec, features = self.specs[kernel], self._maps[kernel]
        if isinstance(features, LevelFeatures) and all(basis is None for basis in features.bases):
            landmarks = features.landmarks
            return create_landmark_function(
                spec, landmarks, float(np.sqrt(self.scales[kernel] * len(features.levels))) * v
            )
        if not isinstance(spec, Shaped):
            return super().function(kernel, v, tol)
        return LineFunction.create(spec, np.sqrt(self.scales[kernel]) * spec.knot_values(v))

    def constraints_of(self, kernel: int) -> Array | None:
        """Return the inequalities ``G v >= 0`` of the coefficients of a kernel, None if unconstrained."""
        return self._maps[kernel].constraints

    @cached_property
    def shaped(self) -> bool:  # type: ignore[override]  # a constant of others
        """Whether functions of some kernels must have a shape."""
        each = dict(zip(map(id, self.specs), self.specs, strict=True))
        return any(isinstance(spec, Shaped) for spec in each.values())

    def _adjoints(self, r: Array) -> list[Array]:
        """Return ``Z' r`` of every kernel, of a single vector or of several in columns."""
        templates = self.templates(range(self.n_kernels))
        found: list[Array] = self.table.reduce(self._kernels_in_use, partial(adjoints, templates), r)
        return found

    def quad_bounds_each(self, rhos: Sequence[Any]) -> list[tuple[Array, Array]]:
        """Return bounds of every vector, with features computed once."""
        if self._whole is not None or len(rhos) == 1 or not all(isinstance(rho, np.ndarray) for rho in rhos):
            return super().quad_bounds_each(rhos)
        self._count(self.n_kernels)
        parts = self._adjoints(np.stack(rhos, axis=1))
        squares = np.array([self._dual_squares(m, part) for m, part in enumerate(parts)])
        errors = np.stack([self.error_bound(rho) for rho in rhos], axis=1)
        return list(zip(np.maximum(squares - errors, 0.0).T, (squares + errors).T, strict=True))

    @cached_property
    def joint_columns(self) -> ColumnFactors | None:
        """The factors of all kernels together, for neighboring columns in place."""
        if self._whole is None:
            return None
        chosen, starts = self._whole
        ranks, every = np.diff(starts, append=len(chosen)), np.arange(self.n_kernels)
        return ColumnFactors(self.table.columns, every, chosen.start + starts, ranks, np.sqrt(self.scales))

    @cached_property
    def _whole(self) -> tuple[range, Array] | None:
        """The neighboring columns of a table that are the features of all kernels, with offsets."""
        columns = list(chain.from_iterable(self.positions))
        table, chosen = self.table, range(columns[0], columns[0] + len(columns))
        if table.chunked or columns != list(chosen) or not all(map(len, self.positions)):
            return None
        own = zip(self.specs, self._maps, strict=True)
        kinds = dict(zip(zip(map(id, self.specs), map(id, self._maps), strict=True), own, strict=True))
        if not all(reads_columns(*kind) for kind in kinds.values()):
            return None
        if isinstance(table.columns, dict) or table.gaps[chosen.start : chosen.stop].any():
            return None
        if not np.may_share_memory(table.block(chosen), table.columns):
            return None
        return chosen, np.cumsum([0, *map(len, self.positions[:-1])])

    @cached_property
    def largest(self) -> Array:
        """Return the largest diagonal entry of every kernel, (M,); by a single loop for columns in place."""
        if self._whole is None:
            return super().largest
        columns, starts = self._whole
        out = np.empty(self.n_kernels)
        largest_squares(self.table.block(columns), np.append(starts, len(columns)), out)
        return out * self.scales

    def add_largest(self, kernels: Array, sizes: Array, out: Array) -> None:
        """Add ``sum_m sizes_m sqrt(k_m(x_i, x_i))`` to ``out`` (N,); by a single loop for columns in place."""
        if self._whole is None:
            super().add_largest(kernels, sizes, out)
            return
        (columns, starts), used = self._whole, kernels[sizes > 0.0]
        ranks = np.append(starts[1:], len(columns))[used] - starts[used]
        roots = sizes[sizes > 0.0] * np.sqrt(self.scales[used])
        add_norms(self.table.block(columns), starts[used], ranks, roots, out)

    def _apply_each(self, columns: Array, kernels: Array) -> Array:
        out = np.empty((len(kernels), self.n_samples, columns.shape[1]))
        for slot, m in enumerate(kernels):
            Z = self.features(int(m), self.table, 0.0)
            out[slot] = Z @ (Z.T @ columns)
        return out

    @cached_property
    def error_constants(self) -> Array:
        """Rounding beside ``||rho||_1^2``, and the tails of series."""
        return ROUNDING * self.largest + self.scales * [found.tail for found in self._maps]

    def _kernel_arguments(self, kernels: Array) -> dict[str, Any]:
        return {"maps": [self._maps[m] for m in kernels.tolist()]}
