"""Block descent on one quadratic model over rounded rows: for factors of many single columns.

    min_v  (q + Z'g)'d + (Z d)' W (Z d) / 2 + Omega(v),    d = v - v_0

with slopes ``g`` and curvature ``W`` at the present point, in factors ``Z`` whose rows are those of the middle of the
bin that a row is in; ``q`` is what that leaves out of the gradient, so that rounding moves the Hessian alone, by less
than curvatures change in a Newton step. Bins are a tenth of a width. A column's part of ``Z'g`` is a sum over bins and
a product with a table, and its Hessian needs one reading of the rows: a sweep over hundreds of columns takes as long
as a product with a few of the factors themselves.

The intercept follows each step: features are those without their mean under ``W``, so that the constants that wide
kernels have in common tie no column to another. Kernels that share a column are nearly the same functions: their own
quadratic is solved as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from manykernels.compiled import compiled
from manykernels.grams.factored.fourier_factor import ColumnOperator
from manykernels.grams.loops import FAST
from manykernels.objective.losses.curvature import Curvature
from manykernels.solvers.factored.group_penalty import GroupPenalty, group_minimizer
from manykernels.solvers.factored.group_problem import GroupProblem
from manykernels.solvers.factored.objective import FactoredObjective, Point
from manykernels.validation.arrays import Array

USUAL_SWEEPS = 15  # that a step takes
TURN_COST = 36.0  # of a row in a turn of a column, beside a product in a Hessian
SWEEPS = 40  # in one step
TURN_TOL = 0.03  # of the violation at the start of a turn of kernels that share a column
LAST_MOVE = 1e-2  # a sweep whose groups move by this part of the largest sweep's ends the step
ENOUGH = 0.5  # of the gap asked for: a sweep that is thought to leave less ends the step


@compiled(fastmath=FAST)
def sums_of_bins(code: Array, rows: Array, out: Array) -> None:
    """Set ``out`` to the sums of rows in every bin."""
    for j in range(out.size):
        out[j] = 0.0
    for i in range(code.size):
        out[code[i]] += rows[i]


@compiled(fastmath=FAST)
def add_step(code: Array, image: Array, weights: Array, slopes: Array) -> float:
    """Let slopes follow a change of scores that is ``image`` in every bin, and return its square."""
    square = 0.0
    for i in range(code.size):
        value = image[code[i]]
        slope = weights[i] * value
        slopes[i] += slope
        square += slope * value
    return square


@compiled(fastmath=FAST)
def sweep_columns(
    codes: Array,
    columns: Array,
    tables: Array,
    offsets: Array,
    starts: Array,
    eigenvalues: Array,
    weights: Array,
    linear: Array,
    curvature: Array,
    power: Array,
    q: float,
    strength: float,
    missing: Array,
    everything: bool,
    v: Array,
    slopes: Array,
) -> tuple[float, float]:
    """Let every kernel take its turn, or every one that is not zero; return how far scores moved, squared, and turned.

    Rows are in bins ``codes[columns[m]]`` for the m-th kernel, which has coordinates ``starts[m]`` to
    ``starts[m + 1]``; ``tables[offsets[m]:offsets[m + 1]]`` are features of its bins in its eigenbasis, ``missing``
    what rounding left out of the gradient at the point of the model. How far scores turned is the largest change of a
    group's slope, squared.
    """
    largest, widest = 1, 1
    for m in range(columns.size):
        rank = starts[m + 1] - starts[m]
        widest, largest = max(widest, rank), max(largest, (offsets[m + 1] - offsets[m]) // rank)
    sums, p, new = np.empty(largest), np.empty(widest), np.empty(widest)
    moved, turned = 0.0, 0.0
    for m in range(columns.size):
        low, high = starts[m], starts[m + 1]
        old, own, rank, code = v[low:high], eigenvalues[low:high], high - low, codes[columns[m]]
        if not everything and np.dot(old, old) == 0.0:
            continue
        bins = (offsets[m + 1] - offsets[m]) // rank
        table = tables[offsets[m] : offsets[m + 1]].reshape(bins, rank)
        sums_of_bins(code, slopes, sums[:bins])
        for k in range(rank):
            p[k] = missing[low + k] - own[k] * old[k]
        for j in range(bins):
            for k in range(rank):
                p[k] += sums[j] * table[j, k]
        group_minimizer(p[:rank], own, linear[m], curvature[m], power[m], q, strength, False, 0.0, new[:rank])
        turn, steps = 0.0, 0.0
        for k in range(rank):
            new[k] -= old[k]
            turn += (own[k] * new[k]) ** 2
            steps += abs(new[k])
            old[k] += new[k]
        if steps > 0.0:
            turned = max(turned, turn)
            for j in range(bins):
                value = 0.0
                for k in range(rank):
                    value += table[j, k] * new[k]
                sums[j] = value
            moved += add_step(code, sums[:bins], weights, slopes)
    return moved, turned


class RoundedModel:
    """Rounded factors of a working set under one curvature, which the steps of a solve share."""

    def __init__(self, objective: FactoredObjective, weights: Array) -> None:
        self.weights, operators = np.ascontiguousarray(weights, dtype=np.float64), rounded_operators(objective)
        total = float(self.weights.sum()) if objective.n_free else 0.0
        self._means, penalty, alone = np.zeros(objective.rank), objective.penalty, []
        self._codes = np.empty((len(operators), len(self.weights)), dtype=np.int16)
        self._together: list[Together] = []
        bounds = np.searchsorted(penalty.starts, objective.ends).tolist()
        for slot, (operator, (first, last)) in enumerate(zip(operators, pairwise(bounds), strict=True)):
            code, own = self._codes[slot], slice(*objective.ends[slot : slot + 2].tolist())
            table = operator.rounded(code)
            sums = np.empty(len(table))
            sums_of_bins(code, self.weights, sums)
            if total > 0:
                self._means[own] = sums @ table / total
                table -= self._means[own]
            gram = (table.T * sums) @ table
            if last == first + 1:
                alone.append(Alone.of(first, own, slot, table, gram))
            else:
                quadratic = GroupProblem(gram, penalty.part(first, last))
                self._together.append(Together(own, code, table, quadratic))
        self._alone = AllAlone(alone, self._codes, penalty)
        self.enough = False  # whether the last step ended because its gap seemed small enough
        self.ended = True  # whether the last step came to an end before its last sweep

    def step(
        self, objective: FactoredObjective, point: Point, slopes: Array, gradient: Array, tol: float
    ) -> tuple[Array, Any, Array]:
        """Minimize the quadratic model at a point, to about this gap, or to a part of what there was to gain.

        ``gradient`` is that of the loss in coefficients, without rounding.
        """
        penalty, v, own = objective.penalty, point.v.copy(), np.array(slopes, dtype=np.float64)
        together = [column.missing(own, gradient) for column in self._together]
        alone, turned_v = self._alone.missing(own, gradient), self._alone.taken(v)
        largest, everything, self.ended = 0.0, True, False
        for _ in range(SWEEPS):
            moved, turned = self._alone.sweep(self.weights, alone, everything, turned_v, own)
            for column, left in zip(self._together, together, strict=True):
                if everything or v[column.own].any():
                    more, turn = column.minimize(v, own, self.weights, left)
                    moved, turned = moved + more, max(turned, turn)
            largest = max(largest, moved)
            norms = float(penalty.norms(v).sum()) + self._alone.norms(turned_v)
            self.enough = bool(np.sqrt(turned) * norms <= ENOUGH * tol)
            small = self.enough or moved <= LAST_MOVE**2 * largest
            if everything and small:
                self.ended = True
                break
            everything = small
        self._alone.put_back(turned_v, v)
        step = v - point.v
        shift = objective.intercepts(-np.array([self._means @ step] * objective.n_free))
        return v, shift, objective.scores(step) + shift


@dataclass(frozen=True, eq=False)
class Alone:
    """A kernel that is alone on its column, in its eigenbasis."""

    group: int
    own: slice  # its coefficients
    column: int
    basis: Array
    table: Array  # (bins, r)
    eigenvalues: Array

    @classmethod
    def of(cls, group: int, own: slice, column: int, table: Array, gram: Array) -> Alone:
        """Turn a table to the eigenbasis of its Hessian."""
        values, basis = np.linalg.eigh(gram)
        floor = max(float(values[-1]), 1e-300) * 1e-14
        return cls(group, own, column, basis, table @ basis, np.maximum(values, floor))


class AllAlone:
    """All kernels that are alone on their columns: one loop takes them."""

    def __init__(self, kernels: list[Alone], codes: Array, penalty: GroupPenalty) -> None:
        assert penalty.shape is not None
        linear, curvature, power, q, strength, _ = penalty.shape
        groups = np.array([one.group for one in kernels], dtype=np.int64)
        self._places, self._bases = [one.own for one in kernels], [one.basis for one in kernels]
        self._starts = np.cumsum([0, *(len(one.basis) for one in kernels)])
        self._shape = linear[groups], curvature[groups], power[groups], q, strength
        columns = np.array([one.column for one in kernels], dtype=np.int64)
        tables = np.concatenate([np.zeros(0), *(one.table.ravel() for one in kernels)])
        offsets = np.cumsum([0, *(one.table.size for one in kernels)])
        self._fixed = codes, columns, tables, offsets, self._starts
        self._eigenvalues = np.concatenate([np.zeros(0), *(one.eigenvalues for one in kernels)])

    def _parts(self, turned: Array) -> Any:
        """Yield the place of every kernel's coefficients, its basis, and its part of these."""
        return zip(self._places, self._bases, np.split(turned, self._starts[1:-1]), strict=False)

    def taken(self, v: Array) -> Array:
        """Return coefficients of these kernels in their eigenbases, and set them to zero in ``v``."""
        out = np.zeros(self._starts[-1])
        for own, basis, part in self._parts(out):
            if v[own].any():
                part[:] = basis.T @ v[own]
                v[own] = 0.0
        return out

    def put_back(self, turned: Array, v: Array) -> None:
        """Set the coefficients of these kernels in ``v``."""
        for own, basis, part in self._parts(turned):
            if part.any():
                v[own] = basis @ part

    def norms(self, turned: Array) -> float:
        """Return the sum of the norms of all kernels."""
        return float(np.sqrt(np.add.reduceat(turned**2, self._starts[:-1])).sum()) if len(turned) else 0.0

    def missing(self, slopes: Array, gradient: Array) -> Array:
        """Return what rounding leaves out of a gradient, in the eigenbases."""
        codes, columns, tables, offsets, _ = self._fixed
        out = np.empty(self._starts[-1])
        for slot, (own, basis, part) in enumerate(self._parts(out)):
            table = tables[offsets[slot] : offsets[slot + 1]].reshape(-1, len(basis))
            sums = np.empty(len(table))
            sums_of_bins(codes[columns[slot]], slopes, sums)
            part[:] = basis.T @ gradient[own] - sums @ table
        return out

    def sweep(self, weights: Array, missing: Array, everything: bool, v: Array, slopes: Array) -> tuple[float, float]:
        """Let kernels take turns; return how far scores moved and turned, squared."""
        fixed = (*self._fixed, self._eigenvalues, weights, *self._shape, missing)
        moved, turned = sweep_columns(*fixed, everything, v, slopes)
        return float(moved), float(turned)


@dataclass(frozen=True, eq=False)
class Together:
    """Kernels that share a column, and their own quadratic."""

    own: slice  # their coefficients
    code: Array
    table: Array
    quadratic: GroupProblem

    def _gradient(self, slopes: Array) -> Array:
        sums = np.empty(len(self.table))
        sums_of_bins(self.code, slopes, sums)
        return np.asarray(sums @ self.table)

    def missing(self, slopes: Array, gradient: Array) -> Array:
        """Return what rounding leaves out of a gradient."""
        return gradient[self.own] - self._gradient(slopes)

    def minimize(self, v: Array, slopes: Array, weights: Array, missing: Array) -> tuple[float, float]:
        """Minimize the quadratic in these coefficients; return how far scores moved and turned, squared."""
        old, gradient = v[self.own], self._gradient(slopes) + missing
        new, left = self.quadratic.solve(old, gradient, TURN_TOL)
        if np.array_equal(new, old):
            return 0.0, 0.0
        moved = add_step(self.code, self.table @ (new - old), weights, slopes)
        v[self.own] = new
        return float(moved), float(np.sum((left - gradient) ** 2))


def rounded_operators(objective: FactoredObjective) -> list[ColumnOperator]:
    """Return the factors if all of them are functions of single columns in memory, else none."""
    found = [one for one in objective.operators if isinstance(one, ColumnOperator)]
    return found if len(found) == len(objective.operators) else []


def sweeps_rounded(objective: FactoredObjective, curvature: Curvature, rows: int) -> bool:
    """Whether sweeps over rounded rows apply and are predicted to cost less than a Hessian summed over so many rows.

    They apply to functions of single columns in memory, a curvature a sample, one target, functions of any shape.
    """
    penalty = objective.penalty
    plain = penalty.shape is not None and not (penalty.coned or penalty.coupled)
    if not (plain and curvature.separable) or objective.n_free > 1 or not rounded_operators(objective):
        return False
    turns = TURN_COST * USUAL_SWEEPS * objective.problem.n_samples * len(objective.operators)
    return turns < rows * objective.products
