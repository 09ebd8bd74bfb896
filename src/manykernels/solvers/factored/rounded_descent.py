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
from manykernels.solvers.factored.block_descent import REMEMBERED, shortest_combination
from manykernels.solvers.factored.group_penalty import GroupPenalty, group_minimizer, places_of
from manykernels.solvers.factored.group_problem import GroupProblem, line_minimum
from manykernels.solvers.factored.objective import FactoredObjective, Point
from manykernels.validation.arrays import Array

Terms = tuple[Array, Array]  # weights and shares of `Curvature.terms`

USUAL_SWEEPS = 15  # that a step takes
TURN_COST = 36.0  # of a row in a turn of a column, beside a product in a Hessian
TURN_BASE = 6e5  # of a turn of a column, whatever its rows: the groups of its kernels are a problem of their own
SWEEPS = 40  # in one step
TURN_TOL = 0.03  # of the violation at the start of a turn of kernels that share a column
NO_SHIFT = 1e-5  # of the largest sum of curvatures, below which intercepts are left as they are
SLOW_FALL = 0.25  # of the square of a sweep's moves: one that leaves more is combined with those before
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
def add_step(code: Array, image: Array, weights: Array, shares: Array, slopes: Array) -> float:
    """Let slopes (T, N) follow a change of scores that is ``image`` (T, B) in every bin, and return its square.

    Weights and shares are those of `Curvature.terms`.
    """
    square, means = 0.0, np.zeros(code.size if shares.size > 0 else 0)
    for t in range(shares.shape[0]):
        own, share = image[t], shares[t]
        for i in range(code.size):
            means[i] += share[i] * own[code[i]]
    for t in range(slopes.shape[0]):
        own, weight, target = image[t], weights[t], slopes[t]
        if means.size > 0:
            for i in range(code.size):
                value = own[code[i]]
                slope = weight[i] * (value - means[i])
                target[i] += slope
                square += slope * value
        else:
            for i in range(code.size):
                value = own[code[i]]
                slope = weight[i] * value
                target[i] += slope
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
    shares: Array,
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
    ``starts[m + 1]`` of every output, one after the other; ``tables[offsets[m]:offsets[m + 1]]`` are features of its
    bins in the eigenbasis of every output, ``missing`` what rounding left out of the gradient at the point of the
    model. How far scores turned is the largest change of a group's slope, squared.
    """
    outputs, largest, widest = slopes.shape[0], 1, 1
    for m in range(columns.size):
        rank = starts[m + 1] - starts[m]
        widest = max(widest, outputs * rank)
        largest = max(largest, (offsets[m + 1] - offsets[m]) // (outputs * rank))
    sums, p, new = np.empty((outputs, largest)), np.empty(widest), np.empty(widest)
    moved, turned = 0.0, 0.0
    for m in range(columns.size):
        rank = starts[m + 1] - starts[m]
        count, low, high = outputs * rank, outputs * starts[m], outputs * starts[m + 1]
        old, own, code = v[low:high], eigenvalues[low:high], codes[columns[m]]
        if not everything and np.dot(old, old) == 0.0:
            continue
        bins = (offsets[m + 1] - offsets[m]) // count
        table = tables[offsets[m] : offsets[m + 1]].reshape(outputs, bins, rank)
        for t in range(outputs):
            sums_of_bins(code, slopes[t], sums[t, :bins])
            part = p[t * rank : (t + 1) * rank]
            for k in range(rank):
                part[k] = missing[low + t * rank + k] - own[t * rank + k] * old[t * rank + k]
            for j in range(bins):
                for k in range(rank):
                    part[k] += sums[t, j] * table[t, j, k]
        group_minimizer(p[:count], own, linear[m], curvature[m], power[m], q, strength, False, 0.0, new[:count])
        turn, steps = 0.0, 0.0
        for k in range(count):
            new[k] -= old[k]
            turn += (own[k] * new[k]) ** 2
            steps += abs(new[k])
            old[k] += new[k]
        if steps > 0.0:
            turned = max(turned, turn)
            for t in range(outputs):
                for j in range(bins):
                    value = 0.0
                    for k in range(rank):
                        value += table[t, j, k] * new[t * rank + k]
                    sums[t, j] = value
            moved += add_step(code, sums[:, :bins], weights, shares, slopes)
    return moved, turned


class RoundedModel:
    """Rounded factors of a working set under one curvature, which the steps of a solve share."""

    def __init__(self, objective: FactoredObjective, curvature: Curvature) -> None:
        weights, shares, _ = curvature.terms
        self.weights, self.shares = np.ascontiguousarray(weights, dtype=np.float64), shares
        operators, penalty, alone = rounded_operators(objective), objective.penalty, []
        totals = self.weights.sum(axis=1) if objective.n_free else np.zeros(len(self.weights))
        self._means = np.zeros(objective.rank)
        self._codes = np.empty((len(operators), self.weights.shape[1]), dtype=np.int16)
        self._together: list[Together] = []
        bounds = np.searchsorted(penalty.starts, objective.ends).tolist()
        for slot, (operator, (first, last)) in enumerate(zip(operators, pairwise(bounds), strict=True)):
            code, own = self._codes[slot], slice(*objective.ends[slot : slot + 2].tolist())
            table = operator.rounded(code)
            sums = np.array([sums_in_bins(code, row, len(table)) for row in self.weights])
            means = sums @ table / np.where(totals > 0, totals, np.inf)[:, None]
            tables = table - means[:, None]
            gram = (tables * sums[:, :, None]).swapaxes(1, 2) @ tables
            part = penalty.part(first, last)
            place = places_of(part.starts, len(tables))
            self._means[own][place] = means
            if last == first + 1:
                alone.append(Alone.of(first, own, slot, tables, gram))
            else:
                self._together.append(Together(own, code, tables, GroupProblem(gram, part), place))
        self._alone = AllAlone(alone, self._codes, penalty)
        self._of_shifts = self._response() if objective.n_free and self.shares.size else None
        self.enough = False  # whether the last step ended because its gap seemed small enough
        self.ended = True  # whether the last step came to an end before its last sweep

    def _response(self) -> Array:
        """Return the shifts of scores (T, T) that sums of slopes of outputs ask for that act on each other."""
        return -np.linalg.pinv(np.diag(self.weights.sum(axis=1)) - self.weights @ self.shares.T, rcond=NO_SHIFT)

    def step(
        self, objective: FactoredObjective, point: Point, slopes: Array, gradient: Array, tol: float
    ) -> tuple[Array, Any, Array]:
        """Minimize the quadratic model at a point, to about this gap, or to a part of what there was to gain.

        ``gradient`` is that of the loss in coefficients, without rounding.
        """
        penalty, v = objective.penalty, point.v.copy()
        own = np.array(np.atleast_2d(slopes.T), dtype=np.float64, order="C")
        together = [column.missing(own, gradient) for column in self._together]
        alone = self._alone.missing(own, gradient)
        self._alone.turn(v)
        largest, last, everything, self.ended, shift = 0.0, np.inf, True, False, np.zeros(objective.n_free)
        terms, past = (self.weights, self.shares), list[tuple[Array, ...]]()
        for _ in range(SWEEPS):
            before = v.copy()
            moved, turned = self._alone.sweep(terms, alone, everything, v, own)
            for column, left in zip(self._together, together, strict=True):
                if everything or v[column.own].any():
                    more, turn = column.minimize(v, own, terms, left)
                    moved, turned = moved + more, max(turned, turn)
            if self._of_shifts is not None:
                step = self._of_shifts @ own.sum(axis=1)
                own += self.weights * (step[:, None] - step @ self.shares)
                shift += step
            slow, last, largest = moved > SLOW_FALL * last, moved, max(largest, moved)
            self.enough = bool(np.sqrt(turned) * float(penalty.norms(v).sum()) <= ENOUGH * tol)
            small = self.enough or moved <= LAST_MOVE**2 * largest
            if everything and small:
                self.ended = True
                break
            everything = small
            if slow and not small:
                past = [*past[-REMEMBERED:], (v - before, v, own.copy(), shift)]
                v, own, shift = self._moved_on(penalty, past)
        self._alone.turn(v, back=True)
        step = v - point.v
        if objective.n_free:
            shift = shift - (self._means * step)[objective.place].sum(axis=1)
        moves = objective.intercepts(shift)
        return v, moves, objective.scores(step) + moves

    def _moved_on(self, penalty: GroupPenalty, past: list[tuple[Array, ...]]) -> tuple[Array, Array, Array]:
        """Return the last point moved toward the combination of past ones whose moves are the shortest, as `descend`.

        Slopes say how far scores moved, but for what the multinomial loss does not see.
        """
        moves, *points = (list(each) for each in zip(*past, strict=True))
        parts = np.empty(len(past))
        shortest_combination(np.array(moves), parts)
        step, turn, shift = (sum(part * one for part, one in zip(parts, own, strict=True)) - own[-1] for own in points)
        image = np.divide(turn, self.weights, out=np.zeros_like(turn), where=self.weights > 0)
        v, slopes, last = past[-1][1:]
        size = line_minimum(penalty, v, step, float(np.vdot(slopes, image)), float(np.vdot(turn, image)))
        return v + size * step, slopes + size * turn, last + size * shift


@dataclass(frozen=True, eq=False)
class Alone:
    """A kernel that is alone on its column, in its eigenbases, one for every output."""

    group: int
    own: slice  # its coefficients
    column: int
    basis: Array  # (T, r, r)
    table: Array  # (T, bins, r)
    eigenvalues: Array  # (T, r)

    @classmethod
    def of(cls, group: int, own: slice, column: int, table: Array, gram: Array) -> Alone:
        """Turn tables to the eigenbases of their Hessians."""
        values, basis = np.linalg.eigh(gram)
        floor = np.maximum(values[:, -1:], 1e-300) * 1e-14
        return cls(group, own, column, basis, table @ basis, np.maximum(values, floor))


class AllAlone:
    """All kernels that are alone on their columns: one loop takes them."""

    def __init__(self, kernels: list[Alone], codes: Array, penalty: GroupPenalty) -> None:
        assert penalty.shape is not None
        linear, curvature, power, q, strength, _ = penalty.shape
        groups = np.array([one.group for one in kernels], dtype=np.int64)
        self._places, self._bases = [one.own for one in kernels], [one.basis for one in kernels]
        self._starts = np.cumsum([0, *(one.eigenvalues.shape[1] for one in kernels)])
        self._ends = np.cumsum([0, *(one.eigenvalues.size for one in kernels)])
        self._shape = linear[groups], curvature[groups], power[groups], q, strength
        columns = np.array([one.column for one in kernels], dtype=np.int64)
        tables = np.concatenate([np.zeros(0), *(one.table.ravel() for one in kernels)])
        offsets = np.cumsum([0, *(one.table.size for one in kernels)])
        self._fixed = codes, columns, tables, offsets, self._starts
        self._eigenvalues = np.concatenate([np.zeros(0), *(one.eigenvalues.ravel() for one in kernels)])

    def _parts(self, turned: Array) -> Any:
        """Yield the place of every kernel's coefficients, its bases, and its part of these."""
        return zip(self._places, self._bases, np.split(turned, self._ends[1:-1]), strict=False)

    def turn(self, v: Array, *, back: bool = False) -> None:
        """Turn coefficients of these kernels to their eigenbases, or back."""
        for own, basis in zip(self._places, self._bases, strict=True):
            if v[own].any():
                v[own] = (v[own].reshape(len(basis), 1, -1) @ (basis.swapaxes(1, 2) if back else basis)).ravel()

    def missing(self, slopes: Array, gradient: Array) -> Array:
        """Return what rounding leaves out of a gradient, in the eigenbases."""
        codes, columns, tables, offsets, _ = self._fixed
        out = np.empty(self._ends[-1])
        for slot, (own, basis, part) in enumerate(self._parts(out)):
            table = tables[offsets[slot] : offsets[slot + 1]].reshape(len(basis), -1, basis.shape[1])
            sums = [sums_in_bins(codes[columns[slot]], row, table.shape[1]) for row in slopes]
            exact = gradient[own].reshape(len(basis), 1, -1) @ basis
            part[:] = (exact - np.array(sums)[:, None] @ table).ravel()
        return out

    def sweep(self, terms: Terms, missing: Array, everything: bool, v: Array, slopes: Array) -> tuple[float, float]:
        """Let kernels take turns; return how far scores moved and turned, squared."""
        fixed = (*self._fixed, self._eigenvalues, *terms, *self._shape, missing)
        parts = np.concatenate([np.zeros(0), *(v[own] for own in self._places)])
        moved, turned = sweep_columns(*fixed, everything, parts, slopes)
        for own, _, part in self._parts(parts):
            v[own] = part
        return float(moved), float(turned)


@dataclass(frozen=True, eq=False)
class Together:
    """Kernels that share a column, and their own quadratic."""

    own: slice  # their coefficients
    code: Array
    tables: Array  # (T, bins, r)
    quadratic: GroupProblem
    place: Array  # (T, r): where the coefficients of every output stand among them

    def _gradient(self, slopes: Array) -> Array:
        out = np.empty(self.place.size)
        sums = np.array([sums_in_bins(self.code, row, self.tables.shape[1]) for row in slopes])
        out[self.place] = (sums[:, None] @ self.tables)[:, 0]
        return out

    def missing(self, slopes: Array, gradient: Array) -> Array:
        """Return what rounding leaves out of a gradient."""
        return gradient[self.own] - self._gradient(slopes)

    def minimize(self, v: Array, slopes: Array, terms: Terms, missing: Array) -> tuple[float, float]:
        """Minimize the quadratic in these coefficients; return how far scores moved and turned, squared."""
        old, gradient = v[self.own], self._gradient(slopes) + missing
        new, left = self.quadratic.solve(old, gradient, TURN_TOL)
        if np.array_equal(new, old):
            return 0.0, 0.0
        image = (self.tables @ (new - old)[self.place][:, :, None])[:, :, 0]
        moved = add_step(self.code, image, *terms, slopes)
        v[self.own] = new
        return float(moved), float(np.sum((left - gradient) ** 2))


def sums_in_bins(code: Array, rows: Array, bins: int) -> Array:
    """Return the sums of rows in every bin."""
    out = np.empty(bins)
    sums_of_bins(code, rows, out)
    return out


def rounded_operators(objective: FactoredObjective) -> list[ColumnOperator]:
    """Return the factors if all of them are functions of single columns in memory, else none."""
    found = [one for one in objective.bases if isinstance(one, ColumnOperator)]
    return found if len(found) == len(objective.bases) else []


def rounded_products(objective: FactoredObjective) -> float:
    """Return how many products, as those of a Hessian, a step of sweeps over rounded rows takes; infinite without any.

    They apply to functions of single columns in memory, of any shape, and samples that do not act on each other.
    """
    penalty = objective.penalty
    plain = penalty.shape is not None and not (penalty.coned or penalty.coupled)
    if not plain or objective.problem.bound.couples_samples or not rounded_operators(objective):
        return np.inf
    turn = TURN_BASE + TURN_COST * objective.problem.n_samples * objective.n_outputs
    return USUAL_SWEEPS * len(objective.operators) * turn
