"""Factored stacks side by side, with common numbering."""

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

from manykernels.grams.base import GramStack
from manykernels.grams.factored.base import FactoredStack, FactorOperator
from manykernels.grams.factored.operators import ColumnFactors, join_neighbors
from manykernels.grams.factored.prediction import KernelFunction
from manykernels.grams.rows.columns import ColumnTable
from manykernels.kernels import KernelSpec
from manykernels.validation.arrays import Array


class CompositeStack(FactoredStack):
    """Factored stacks on the same rows, in turn, under the bank's numbering.

    Parameters
    ----------
    parts : sequence of FactoredStack
    members : sequence of (m,) int
        Which kernels of the whole every part holds; every kernel once.
    names : sequence of str, optional
    """

    def __init__(
        self, parts: Sequence[FactoredStack], members: Sequence[Array], *, names: Sequence[str] | None = None
    ) -> None:
        GramStack.__init__(self, sum(map(len, members)), parts[0].n_samples, np.float64, names=names)
        self.table = parts[0].table
        self.parts, self.members = tuple(parts), tuple(np.asarray(member) for member in members)
        self._as_numbered = len(self.parts) == 1 and np.array_equal(self.members[0], np.arange(self.n_kernels))
        self._part, self._place = np.empty(self.n_kernels, dtype=int), np.empty(self.n_kernels, dtype=int)
        for number, member in enumerate(self.members):
            self._part[member], self._place[member] = number, np.arange(len(member))

    @property
    def few_columns(self) -> bool:  # type: ignore[override]  # a constant of others
        """Whether the factors of all parts have few columns."""
        return all(part.few_columns for part in self.parts)

    def _locate(self, kernel: int) -> tuple[FactoredStack, int]:
        return self.parts[self._part[kernel]], int(self._place[kernel])

    def _gather(self, values: Sequence[Array]) -> Array:
        if self._as_numbered:
            return values[0]
        out = np.empty((self.n_kernels, *values[0].shape[1:]), dtype=values[0].dtype)
        for member, part in zip(self.members, values, strict=True):
            out[member] = part
        return out

    def _quad(self, r: Array) -> Array:
        return self._gather([part._quad(r) for part in self.parts])

    def quad_bounds_each(self, rhos: Sequence[Any]) -> list[tuple[Array, Array]]:
        """Return bounds of every vector, from all parts."""
        self._count(self.n_kernels)
        parts = [part.quad_bounds_each(rhos) for part in self.parts]
        if self._as_numbered:
            return parts[0]
        found = []
        for _ in rhos:  # the last first: what is gathered is let go of
            bounds = [part.pop() for part in parts]
            found.append((self._gather([low for low, _ in bounds]), self._gather([high for _, high in bounds])))
        return found[::-1]

    def quad_bounds(self, rho: Array) -> tuple[Array, Array]:
        """Return bounds (M,) from below and above on ``rho' K_m rho``: a single pass."""
        self._count(self.n_kernels)
        bounds = [part.quad_bounds(rho) for part in self.parts]
        return self._gather([low for low, _ in bounds]), self._gather([high for _, high in bounds])

    @property
    def joint_columns(self) -> Any:
        """The factors of all kernels together, if a single part holds all in place."""
        return self.parts[0].joint_columns if len(self.parts) == 1 else None

    @property
    def error_constants(self) -> Array:
        """Bounds (M,) on the error of ``quad(rho)`` beside ``||rho||_1^2``."""
        return self._gather([part.error_constants for part in self.parts])

    @cached_property
    def scales(self) -> Array:  # type: ignore[override]  # a field of others
        """Factors (M,) of the kernels."""
        return self._gather([part.scales for part in self.parts])

    @cached_property
    def largest(self) -> Array:
        return self._gather([part.largest for part in self.parts])

    def spec_of(self, kernel: int) -> KernelSpec:
        part, place = self._locate(kernel)
        return part.spec_of(place)

    def columns_of(self, kernel: int) -> tuple[int, ...]:
        part, place = self._locate(kernel)
        return part.columns_of(place)

    def columns_used(self, kernels: Array) -> list[int]:
        own = (self._place[kernels[self._part[kernels] == number]] for number in range(len(self.parts)))
        used = (part.columns_used(places) for part, places in zip(self.parts, own, strict=True))
        return sorted({column for columns in used for column in columns})

    def cross_apply(self, kernel: int, X: ColumnTable, rho: Array) -> Array:
        """Return ``sum_i rho_i k_m(x, x_i)`` at new rows, (n,), from kernel values."""
        part, place = self._locate(kernel)
        return part.cross_apply(place, X, rho)

    @cached_property
    def neighbors(self) -> Array:
        """Return the neighbors in width of every kernel, (M, 2); -1 for none."""
        if self._as_numbered:
            return self.parts[0].neighbors
        out = []
        for part, member in zip(self.parts, self.members, strict=True):
            own = part.neighbors
            out.append(np.where(own >= 0, member[own], -1))
        return self._gather(out)

    def factor(self, kernel: int, tol: float) -> Array:
        """Return ``Z_m`` (N, rank)."""
        part, place = self._locate(kernel)
        return part.factor(place, tol)

    def features(self, kernel: int, X: ColumnTable, tol: float) -> Array:
        """Return the rows of ``Z_m`` for new samples."""
        part, place = self._locate(kernel)
        return part.features(place, X, tol)

    def function(self, kernel: int, v: Array, tol: float) -> KernelFunction:
        """Return ``z_m(x)' v`` as a function independent of stack and rows."""
        part, place = self._locate(kernel)
        return part.function(place, v, tol)

    def expansion(self, kernel: int, rho: Array) -> KernelFunction:
        """Return ``sum_i rho_i k_m(x, x_i)`` as a function of standardized columns."""
        part, place = self._locate(kernel)
        return part.expansion(place, rho)

    def residual_trace(self, kernel: int, tol: float) -> float:
        part, place = self._locate(kernel)
        return part.residual_trace(place, tol)

    def constraints_of(self, kernel: int) -> Array | None:
        part, place = self._locate(kernel)
        return part.constraints_of(place)

    @cached_property
    def shaped(self) -> bool:  # type: ignore[override]  # a constant of others
        """Whether functions of some kernels must have a shape."""
        return any(part.shaped for part in self.parts)

    def many_directions(self, kernel: int) -> bool:
        part, place = self._locate(kernel)
        return part.many_directions(place)

    def needs_products(self, kernel: int) -> bool:
        part, place = self._locate(kernel)
        return part.needs_products(place)

    def operators(self, kernels: Sequence[int], tol: float) -> list[FactorOperator]:
        """Return the operators of every part, under the stack's numbering."""
        if self.table.chunked:
            return self.table.operators(self.templates(kernels, tol))
        return join_neighbors(self._collect_parts(kernels, lambda part, own: part.operators(own, tol)))

    def templates(self, kernels: Sequence[int], tol: float) -> list[Any]:
        """Return operators without rows, bound by ``over(table)``."""
        return self._collect_parts(kernels, lambda part, own: part.templates(own, tol))

    def let_go(self) -> None:
        for part in self.parts:
            part.let_go()

    def _collect_parts(
        self, kernels: Sequence[int], make: Callable[[FactoredStack, list[int]], list[Any]]
    ) -> list[Any]:
        chosen, made = np.asarray(kernels, dtype=np.int64), []
        for number, (part, member) in enumerate(zip(self.parts, self.members, strict=True)):
            own = self._place[chosen[self._part[chosen] == number]]
            found = make(part, own.tolist()) if len(own) else []
            if not self._as_numbered:
                apart = [one for own in found for one in (own.apart() if isinstance(own, ColumnFactors) else [own])]
                found = [copy(operator) for operator in apart]  # what parts keep has their own numbers
                for operator in found:
                    operator.kernels = member[operator.kernels]
            made += found
        if len(made) == 1:
            return made
        return sorted(made, key=lambda operator: operator.positions)  # one column's kernels are solved together

    def diag_sums(self, weight: Array) -> Array:
        """Return ``sum_i s_i k_m(x_i, x_i)``, (M,)."""
        return self._gather([part.diag_sums(weight) for part in self.parts])

    def exact_quad(self, kernel: int, rho: Array) -> tuple[float, float]:
        """Return ``rho' K_m rho`` of a single kernel as accurately as possible, and an error bound."""
        part, place = self._locate(kernel)
        return part.exact_quad(place, rho)

    @property
    def exact_cost(self) -> float:
        """Return the largest cost of any part."""
        return max(part.exact_cost for part in self.parts)

    @property
    def quad_cost(self) -> float:
        """Return the cost of all parts."""
        return sum(part.quad_cost for part in self.parts)

    def _apply_each(self, columns: Array, kernels: Array) -> Array:
        out = np.empty((len(kernels), self.n_samples, columns.shape[1]))
        for number, part in enumerate(self.parts):
            slots = np.flatnonzero(self._part[kernels] == number)
            if len(slots):
                out[slots] = part._apply_each(columns, self._place[kernels[slots]])
        return out

    def _block(self, rows: Array, cols: Array, kernels: Array) -> Array:
        if self._as_numbered:
            return self.parts[0]._block(rows, cols, kernels)
        out = np.empty((len(kernels), len(rows), len(cols)))
        for number, part in enumerate(self.parts):
            slots = np.flatnonzero(self._part[kernels] == number)
            if len(slots):
                out[slots] = part._block(rows, cols, self._place[kernels[slots]])
        return out

    def _kernel_diag(self, kernel: int) -> Array:
        part, place = self._locate(kernel)
        return part._kernel_diag(place)

    def add_largest(self, kernels: Array, sizes: Array, out: Array) -> None:
        """Add ``sum_m sizes_m sqrt(k_m(x_i, x_i))`` to ``out`` (N,)."""
        for number, part in enumerate(self.parts):
            own = self._part[kernels] == number
            part.add_largest(self._place[kernels[own]], sizes[own], out)

    def _rebuild(self, table: ColumnTable, kernels: Array) -> FactoredStack:
        parts, members = [], []
        for number, part in enumerate(self.parts):
            slots = np.flatnonzero(self._part[kernels] == number)
            if len(slots):
                parts.append(part._rebuild(table, self._place[kernels[slots]]))
                members.append(slots)
        return CompositeStack(parts, members, names=self._names_of(kernels))
