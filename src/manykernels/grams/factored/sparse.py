"""Kernels of objects by sparse features: exact, and nothing is held but the nonzeros, or less.

    K_m = Phi_m Phi_m' scale_m,      u_m^2 = scale_m ||Phi_m' r||^2

Factors are the features that some row has; how they are read is the kernel's own affair (`FeatureRows`): from a matrix
in compressed form, or, of sequences, counted again in every product.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from manykernels.grams.factored.base import FactoredStack
from manykernels.grams.factored.operators import DenseOperator, FactorOperator, adjoints
from manykernels.grams.factored.prediction import KernelFunction, SparseFunction
from manykernels.grams.rows.columns import ColumnTable
from manykernels.kernels import ObjectKernel
from manykernels.validation.arrays import Array

FEW_FEATURES = 300  # whose Hessians are formed; of more, only products with them


class SparseOperator(FactorOperator):
    """Sparse features of a single kernel, as products.

    Parameters
    ----------
    kernel : int
    positions : tuple of int
        The column of objects.
    spec : ObjectKernel
    root : float
        What features are multiplied by.
    seen : (rank,) int or None
        The features that some row has; None: all.
    table : ColumnTable, optional
        The rows; given later by `over`.
    """

    positions: tuple[int, ...]

    def __init__(
        self,
        kernel: int,
        positions: tuple[int, ...],
        spec: ObjectKernel,
        root: float,
        seen: Array | None,
        table: ColumnTable | None = None,
    ) -> None:
        self.kernels, self.positions, self.spec, self.root, self.seen = np.array([kernel]), positions, spec, root, seen
        self.rank = spec.n_places if seen is None else len(seen)
        self.starts = np.array([0, self.rank])
        self._table = table

    @property
    def matrix_free(self) -> bool:
        """Whether the Hessian has too many entries, so solvers ask for products only."""
        return self.rank > FEW_FEATURES

    @property
    def _rows(self) -> Any:
        assert self._table is not None
        return self._table.features_of(self.spec, self.positions[0])

    def keep(self, room: int) -> int:
        """Cache features within a number of bytes; return the additional bytes."""
        return int(self._rows.keep(room))

    def transfer(self, table: ColumnTable) -> SparseOperator:
        """Return the same features of other rows."""
        return SparseOperator(int(self.kernels[0]), self.positions, self.spec, self.root, self.seen, table)

    def add_scores(self, v: Array, out: Array) -> None:
        out += self._rows.scores(self.weights(v))

    def weights(self, v: Array) -> Array:
        """Return the weights of all features from coefficients, (n_places,)."""
        if self.seen is None:
            return self.root * v
        whole = np.zeros(self.spec.n_places)
        whole[self.seen] = self.root * v
        return whole

    def adjoint(self, rho: Array) -> Array:
        sums = self._rows.adjoint(rho)
        return self.root * (sums if self.seen is None else sums[self.seen])

    def rows(self, index: object) -> Array:
        """Return rows of ``Z`` as an array: of few features, or few rows."""
        found = self._rows.rows(index)
        return self.root * (found if self.seen is None else found.tocsc()[:, self.seen]).toarray()

    def squares(self) -> Array:
        """Return the diagonal of the kernel, (n,)."""
        return self.root**2 * self._rows.squares


class SparseStack(FactoredStack):
    """Kernels of objects by their sparse features, which leave nothing but rounding.

    ``seen`` says which features some row has, by kernel, as far as known.
    """

    exact_passes = True

    def __init__(
        self,
        table: ColumnTable,
        positions: Sequence[tuple[int, ...]],
        specs: Sequence[ObjectKernel],
        scales: Array,
        *,
        names: Sequence[str] | None = None,
        seen: dict[int, Array | None] | None = None,
    ) -> None:
        super().__init__(table, positions, specs, scales, names=names)
        self._seen: dict[int, Array | None] = {} if seen is None else seen

    def _features_seen(self, kernel: int) -> Array | None:
        """Return the occurring features; None for all, if most occur or rows come in chunks."""
        if kernel not in self._seen:
            spec, column = self.specs[kernel], self.positions[kernel][0]
            found = None
            if not self.table.chunked:
                found = np.flatnonzero(self.table.features_of(spec, column).adjoint(np.ones(self.n_samples)))
                most_seen = 0.5  # of the features that there are, from which on those that no row has are not left out
                found = found if len(found) < most_seen * spec.n_places else None
            self._seen[kernel] = found
        return self._seen[kernel]

    def templates(self, kernels: Sequence[int], tol: float = 0.0) -> list[SparseOperator]:
        """Return operators without rows, bound by ``over(table)``."""
        return [_template(self, int(m), self._features_seen(int(m))) for m in kernels]

    def operators(self, kernels: Sequence[int], tol: float) -> list[FactorOperator]:
        """Return an operator per kernel; few features are kept as an array."""
        made: list[Any] = self.table.operators(self.templates(kernels))
        if self.table.chunked:
            return made
        dense_entries = 2**23  # of features that are kept as an array: 64 MB
        few = FEW_FEATURES, dense_entries / self.n_samples
        return [DenseOperator.create(one) if one.rank <= min(few) else _cache_features(self.table, one) for one in made]

    def function(self, kernel: int, v: Array, tol: float) -> KernelFunction:
        """Return ``z_m(x)' v`` as the weights of the features."""
        return SparseFunction.create(self.specs[kernel], self.templates([kernel])[0].weights(v))

    def expansion(self, kernel: int, rho: Array) -> KernelFunction:
        """Return ``sum_i rho_i k_m(x, x_i)`` as the weights of the features."""
        return self.function(kernel, self.templates([kernel])[0].transfer(self.table).adjoint(rho), 0.0)

    @cached_property
    def _plain(self) -> list[SparseOperator]:
        """All features of all kernels."""
        return [_template(self, m, None) for m in range(self.n_kernels)]

    def _quad(self, r: Array) -> Array:
        if not self.table.chunked:  # one vector of features at a time
            return np.array([_square(template.transfer(self.table).adjoint(r)) for template in self._plain])
        sums = self.table.reduce(self._kernels_in_use, partial(adjoints, self._plain), r)
        return np.array([_square(part) for part in sums])

    def quad_bounds_each(self, rhos: Sequence[Any]) -> list[tuple[Array, Array]]:
        """Return `quad_bounds` of every vector, in few reads of the rows."""
        if self.table.chunked or len(rhos) == 1:
            return super().quad_bounds_each(rhos)
        R, quads = np.column_stack(rhos), np.empty((self.n_kernels, len(rhos)))
        sums_at_once = 2**25  # of features, for several vectors: 256 MB
        for m, spec in enumerate(self.specs):
            if self.nbytes <= spec.n_places:  # few rows, whose features are listed: of all, most sums would be zero
                sums = self._compressed(m).T @ R
                quads[m] = self.scales[m] * np.einsum("ij,ij->j", sums, sums)
                continue
            rows, most = self.table.features_of(spec, self.positions[m][0]), max(1, sums_at_once // spec.n_places)
            for first in range(0, len(rhos), most):
                sums = rows.adjoints(R[:, first : first + most])
                quads[m, first : first + most] = self.scales[m] * np.einsum("ij,ij->j", sums, sums)
        self._count(self.n_kernels * len(rhos))
        errors = self.error_constants[:, None] * np.abs(R).sum(axis=0) ** 2
        low, high = np.maximum(quads - errors, 0.0), np.maximum(quads, 0.0) + errors
        return list(zip(low.T.copy(), high.T.copy(), strict=True))

    def _apply_each(self, columns: Array, kernels: Array) -> Array:
        out = np.zeros((len(kernels), self.n_samples, columns.shape[1]))
        for own, m in zip(out, kernels.tolist(), strict=True):
            operator = self._plain[m].transfer(self.table)
            for t, column in enumerate(columns.T):
                scores = np.zeros(self.n_samples)
                operator.add_scores(operator.adjoint(np.ascontiguousarray(column)), scores)
                own[:, t] = scores
        return out

    def _block(self, rows: Array, cols: Array, kernels: Array) -> Array:
        out = np.empty((len(kernels), len(rows), len(cols)))
        for slot, m in enumerate(kernels.tolist()):
            found = self._compressed(m)
            out[slot] = self.scales[m] * (found[rows] @ found[cols].T).toarray()
        return out

    def _compressed(self, kernel: int) -> csr_array:
        """Return the occurring features as a cached matrix, (N, rank)."""
        key = self.positions[kernel][0], self.specs[kernel].feature_map
        known: dict[Any, csr_array] = self.table.once("compressed", dict)
        if key not in known:
            found = self.table.features_of(self.specs[kernel], key[0]).rows(slice(None))
            seen = self._features_seen(kernel)
            if seen is not None:
                found.indices = np.searchsorted(seen, found.indices).astype(found.indices.dtype)
                found = csr_array((found.data, found.indices, found.indptr), shape=(found.shape[0], len(seen)))
            found.sort_indices()  # sums in one order, so that blocks are symmetric to the last bit
            known.clear()  # one kernel's entries are read at a time, in blocks
            known[key] = found
        return known[key]

    def cross_apply(self, kernel: int, X: ColumnTable, rho: Array) -> Array:
        """Return ``sum_i rho_i k_m(x, x_i)`` at new rows, (n,)."""
        template, out = self._plain[kernel], np.zeros(X.n_rows)
        template.transfer(X).add_scores(template.transfer(self.table).adjoint(rho), out)
        return out

    def _kernel_diag(self, kernel: int) -> Array:
        return self._plain[kernel].transfer(self.table).squares()

    @cached_property
    def largest(self) -> Array:
        return np.asarray(self.table.reduce(self._kernels_in_use, partial(_largest, self._plain), combine=np.maximum))

    def diag_sums(self, weight: Array) -> Array:
        """Return ``sum_i s_i k_m(x_i, x_i)``, (M,)."""
        return np.asarray(self.table.reduce(self._kernels_in_use, partial(_weighted, self._plain), weight))

    def many_directions(self, kernel: int) -> bool:
        """Return whether there are too many features, so the matrix of few rows is cheaper."""
        return not self.table.chunked and self.needs_products(kernel)

    def needs_products(self, kernel: int) -> bool:
        """Whether features are too many for a Hessian: often some rows tell."""
        spec = self.specs[kernel]
        if spec.n_places <= FEW_FEATURES:
            return False
        if kernel not in self._seen and not self.table.chunked:
            some_rows = 100  # whose features are looked at before those of all
            first = self.table.features_of(spec, self.positions[kernel][0]).rows(slice(0, some_rows))
            if len(np.unique(first.indices)) > FEW_FEATURES:
                return True
        return self.templates([kernel])[0].matrix_free

    @property
    def quad_cost(self) -> float:
        """Approximate multiplications of a quadratic form of every kernel, with a read of all letters."""
        a_letter = 20.0  # multiplications that take as long as a letter of a pass
        return a_letter * self.n_kernels * float(self.nbytes)

    def _kernel_arguments(self, kernels: Array) -> dict[str, Any]:
        return {"seen": {at: self._seen[m] for at, m in enumerate(kernels.tolist()) if m in self._seen}}


def _template(stack: SparseStack, kernel: int, seen: Array | None) -> SparseOperator:
    """Return the operator of some features of a kernel, without rows."""
    root = float(np.sqrt(stack.scales[kernel]))
    return SparseOperator(kernel, stack.positions[kernel], stack.specs[kernel], root, seen)


def _cache_features(table: ColumnTable, operator: SparseOperator) -> SparseOperator:
    """Return an operator with cached features, as far as memory of the table permits."""
    kept_bytes = 2**30  # of features of working sets that are counted once and listed, not again in every product
    table.kept_bytes += operator.keep(kept_bytes - table.kept_bytes)
    return operator


def _square(values: Array) -> float:
    return float(values @ values)


def _largest(templates: Sequence[SparseOperator], table: ColumnTable) -> Array:
    return np.array([template.transfer(table).squares().max(initial=0.0) for template in templates])


def _weighted(templates: Sequence[SparseOperator], table: ColumnTable, weight: Array) -> Array:
    return np.array([template.transfer(table).squares() @ weight for template in templates])
