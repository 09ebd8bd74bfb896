"""The quadratic over rows in bins: for factors of many single columns.

    min_v  (q + Z'g)'d + (Z d)' W (Z d) / 2 + Omega(v),    d = v - v_0

with slopes ``g`` and curvature ``W`` at the present point, in factors ``Z`` with rows rounded to the middle of their
bin; ``q`` corrects the gradient, so rounding affects the Hessian alone, by less than the change of curvatures in a
Newton step. Bins are a tenth of a width. A column's part of ``Z'g`` is a sum over bins and a product with a table, and
the Hessian needs a single read of the rows: a sweep over hundreds of columns costs as much as a product with a few
factors.

For coupled outputs, the curvature of a row is a matrix (T, T), summed in every bin: the update of a kernel minimizes
the quadratic in the coefficients of all outputs. Features are centered under ``W`` for the intercepts, so common
constants of wide kernels couple no columns. Kernels on a common column are nearly equal functions: their quadratic is
solved jointly.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from manykernels.compiled import compiled
from manykernels.grams.factored.fourier_factor import ColumnOperator
from manykernels.grams.factored.levels import LevelOperator
from manykernels.grams.loops import FAST
from manykernels.objective.losses.curvature import Curvature
from manykernels.solvers.factored.group_penalty import (
    GroupPenalty,
    PenaltyCurve,
    group_minimizer,
    places_of,
    shape_of_group,
)
from manykernels.solvers.factored.objective import FactoredObjective
from manykernels.solvers.factored.quadratic import NOTHING, Expansion, Groups, Position, Quadratic, inverse_of_shifts
from manykernels.solvers.factored.quadratic_formed import RIDGE, FormedQuadratic
from manykernels.validation.arrays import Array

Terms = tuple[Array, Array]  # weights and shares of `Curvature.terms`

# That a step takes; of a loss with kinks, smoothed
USUAL_SWEEPS, KINKED_SWEEPS = 15, 5
TURN_COST = 36.0  # of a row in a turn of a column, beside a product in a Hessian
TURN_BASE = 6e5  # of a turn of a column, whatever its rows: the groups of its kernels are a problem of their own
TURN_TOL = 0.03  # of the violation at the start of a turn of kernels that share a column
EIGEN_COST = 20.0  # of the cube of a kernel's coefficients of outputs that act on each other, beside such a product
# A sweep whose groups move by this part of the largest sweep's ends the step; of a loss with kinks, smoothed, by that:
# the next step has other curvatures. Hinge of five classes that share weights, 40 kernels on 5,000, 10,000 and 20,000
# rows, took 163, 182 and 140 sweeps in 32, 35 and 31 steps with it, with the first 361, 414 and 472 in 29, 31 and 36
LAST_MOVE, LAST_KINKED_MOVE = 1e-2, 0.3
SHIFTS = 2  # of the intercepts in a turn of levels: one is enough for a penalty that is a ridge
ENOUGH = 0.5  # of the gap asked for: a sweep that is thought to leave less ends the step


@compiled(fastmath=FAST)
def sums_of_bins(code: Array, rows: Array, out: Array) -> None:
    """Set ``out`` to the sums of rows in every bin."""
    for j in range(out.size):
        out[j] = 0.0
    for i in range(code.size):
        out[code[i]] += rows[i]


@compiled(fastmath=FAST)
def curvatures_of_bins(code: Array, weights: Array, shares: Array, out: Array) -> None:
    """Set ``out`` (B, T, T) to the sums of ``weights_t (1(t = u) - shares_u)`` of rows in every bin; it is symmetric.

    The same change in all outputs, which bends nothing, is given as much curvature as a change of one has on average:
    slopes have nothing there.
    """
    outputs = weights.shape[0]
    for j in range(out.shape[0]):
        for t in range(outputs):
            for u in range(outputs):
                out[j, t, u] = 0.0
    for t in range(outputs):
        for u in range(t + 1):
            weight, share = weights[t], shares[u]
            for i in range(code.size):
                out[code[i], t, u] -= weight[i] * share[i]
        for i in range(code.size):
            out[code[i], t, t] += weights[t, i]
    for j in range(out.shape[0]):
        total = 0.0
        for t in range(outputs):
            total += out[j, t, t]
        for t in range(outputs):
            for u in range(t + 1):
                out[j, t, u] += total / outputs**2
                out[j, u, t] = out[j, t, u]


@compiled(fastmath=FAST)
def add_step(code: Array, image: Array, weights: Array, shares: Array, slopes: Array) -> float:
    """Let slopes (T, N) follow a change of scores that is ``image`` (T, B) in every bin, and return the square.

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
def add_products(code: Array, slopes: Array, table: Array, sums: Array, out: Array) -> None:
    """Add the products of a kernel's features with slopes (T, N) to ``out`` (T r,); sets ``sums`` (T, B)."""
    bins, rank = table.shape
    for t in range(slopes.shape[0]):
        sums_of_bins(code, slopes[t], sums[t, :bins])
        for j in range(bins):
            for k in range(rank):
                out[t * rank + k] += sums[t, j] * table[j, k]


@compiled(fastmath=FAST)
def turn(basis: Array, x: Array, out: Array) -> None:
    """Set ``out`` to coordinates in an eigenbasis (n, r) of blocks of r coordinates."""
    order = basis.shape[1]
    out[:] = 0.0
    for j in range(out.size):
        for k in range(order):
            out[j - j % order + k] += basis[j, k] * x[j]


@compiled(fastmath=FAST)
def turn_back(basis: Array, x: Array, out: Array) -> None:
    """Invert `turn`."""
    order = basis.shape[1]
    out[:] = 0.0
    for j in range(out.size):
        for k in range(order):
            out[j] += basis[j, k] * x[j - j % order + k]


@compiled(fastmath=FAST)
def set_moves(step: Array, table: Array, answer: Array, out: Array) -> None:
    """Set ``out`` (T, B) to the change of scores in every bin by a step."""
    bins, rank = table.shape
    for t in range(out.shape[0]):
        follows = 0.0
        for k in range(step.size):
            follows += answer[t, k] * step[k]
        for j in range(bins):
            value = follows
            for k in range(rank):
                value += table[j, k] * step[t * rank + k]
            out[t, j] = value


@compiled(fastmath=FAST)
def sweep_columns(
    kernels: Any, terms: Any, shape: Any, missing: Array, everything: bool, v: Array, slopes: Array
) -> tuple[float, float]:
    """Let every kernel take the turn, or every one not zero; return how far scores moved, squared, and turned.

    A kernel is the group ``places[0]`` of the penalty, the coordinates begin at ``places[1]``, and the rows are in the
    bins ``codes[places[2]]``. The features in these, the bases of the quadratic, in blocks of outputs that do not act
    on each other, what intercepts answer to the coordinates, and the eigenvalues begin at ``offsets[:, m]`` of their
    arrays; ``missing`` is what rounding left out of the gradient at the point of the model. How far scores turned is
    the largest change of a group's slope, squared.
    """
    (codes, places, ranks, offsets, tables, bases, answers, eigenvalues), (weights, shares) = kernels, terms
    outputs, largest, widest = slopes.shape[0], 1, 1
    for m in range(ranks.size):
        largest = max(largest, (offsets[0, m + 1] - offsets[0, m]) // ranks[m])
        widest = max(widest, outputs * ranks[m])
    sums, work = np.empty((outputs, largest)), np.empty((4, widest))
    moved, turned = 0.0, 0.0
    for m in range(ranks.size):
        rank, low, code = ranks[m], places[1, m], codes[places[2, m]]
        count = outputs * rank
        old, own = v[low : low + count], eigenvalues[offsets[3, m] : offsets[3, m + 1]]
        if not everything and np.dot(old, old) == 0.0:
            continue
        table = tables[offsets[0, m] : offsets[0, m + 1]].reshape(-1, rank)
        order = (offsets[1, m + 1] - offsets[1, m]) // count
        basis = bases[offsets[1, m] : offsets[1, m + 1]].reshape(count, order)
        answer = answers[offsets[2, m] : offsets[2, m + 1]].reshape(outputs, count)
        raw, p, here, new = work[0, :count], work[1, :count], work[2, :count], work[3, :count]
        for k in range(count):
            raw[k] = missing[low + k]
        add_products(code, slopes, table, sums, raw)
        turn(basis, raw, p)
        turn(basis, old, here)
        for k in range(count):
            p[k] -= own[k] * here[k]
        group_minimizer(p, own, shape_of_group(shape, places[0, m], 0.0), new)
        alive, change, far = np.dot(new, new) > 0.0, 0.0, 0.0
        for k in range(count):
            here[k] = new[k] - here[k]
            change += (own[k] * here[k]) ** 2
            far += abs(here[k])
        if far > 0.0:
            turned = max(turned, change)
            turn_back(basis, here, raw)
            for k in range(count):
                old[k] = old[k] + raw[k] if alive else 0.0
            set_moves(raw, table, answer, sums[:, : table.shape[0]])
            moved += add_step(code, sums[:, : table.shape[0]], weights, shares, slopes)
    return moved, turned


class BinQuadratic(Quadratic):
    """Rounded factors of a working set under a fixed curvature, shared by the steps of a solve."""

    most_sweeps = sweeps_of_some = 40

    def __init__(self, objective: FactoredObjective, curvature: Curvature) -> None:
        weights, shares, _ = curvature.terms
        self._weights, self._shares = np.ascontiguousarray(weights, dtype=np.float64), shares
        operators, self.penalty = column_operators(objective), objective.penalty
        outputs, n_samples = self._weights.shape
        self._answers = np.zeros((outputs, objective.rank))  # of intercepts to coefficients
        self._n_free = objective.n_free
        totals = self._weights.sum(axis=1) if objective.n_free else np.full(len(self._weights), np.inf)
        codes = np.empty((sum(isinstance(one, ColumnOperator) for one in operators), n_samples), dtype=np.int16)
        self._columns: list[Column | LevelColumn] = []
        alone: list[tuple[tuple[int, int, int], list[Array]]] = []
        bounds = np.searchsorted(self.penalty.starts, objective.ends).tolist()
        slots = iter(range(len(codes)))
        for number, (operator, (first, last)) in enumerate(zip(operators, pairwise(bounds), strict=True)):
            own = slice(*objective.ends[number : number + 2].tolist())
            if isinstance(operator, LevelOperator):
                column = LevelColumn(own, operator, self._weights, self.penalty.part(first, last), totals)
                self._answers[:, own] = column.answers
                self._columns.append(column)
                continue
            slot = next(slots)
            table = operator.assign_bins(codes[slot])
            gram, answers = self._quadratic(codes[slot], table)
            part, together = self.penalty.part(first, last), None
            place = places_of(part.starts, outputs)
            self._answers[:, own][:, place.ravel()] = answers
            if last == first + 1:
                values, basis = np.linalg.eigh(gram)
                values = np.maximum(values, 1e-14 * np.maximum(values[:, -1:], 1e-300))
                alone.append(((first, own.start, slot), [table, basis, answers, values]))
            else:
                if len(gram) < outputs:  # one quadratic of all outputs, kernel by kernel
                    order = np.argsort(place.ravel())
                    gram = gram[0][order[:, None], order]
                together = FormedQuadratic(gram, part)
            self._columns.append(Column(own, codes[slot], table, place, answers, together))
        self._alone = codes, *pack_columns(alone)

    def _quadratic(self, code: Array, table: Array) -> tuple[Array, Array]:
        """Return the quadratic of a column, and what intercepts answer to the coefficients (T, T r), if there are any.

        (T, r, r), of outputs that act on each other (1, T r, T r), in turn.
        """
        outputs, (bins, rank) = len(self._weights), table.shape
        if self._shares.size:
            blocks, curvatures = 1, np.empty((bins, outputs, outputs))
            curvatures_of_bins(code, self._weights, self._shares, curvatures)
        else:
            blocks, curvatures = outputs, np.array([sums_in_bins(code, row, bins) for row in self._weights]).T
        within = outputs // blocks
        M = curvatures.reshape(bins, blocks, within, within).transpose(1, 2, 3, 0)  # (blocks, within, within, bins)
        parts = np.empty((blocks, within, rank, within, rank))
        rows, cols = np.tril_indices(within)  # the others are the same
        found = np.array([(table.T * weights) @ table for weights in M[:, rows, cols].reshape(-1, bins)])
        found = found.reshape(blocks, -1, rank, rank).swapaxes(0, 1)
        parts[:, rows, :, cols] = parts[:, cols, :, rows] = found
        gram: Array = parts.reshape(blocks, within * rank, within * rank)
        answers = np.zeros((blocks, within, blocks, within * rank))
        if self._n_free:
            sums = (M @ table).reshape(blocks, within, within * rank)
            own = -inverse_of_shifts(M.sum(axis=3)) @ sums
            gram += sums.swapaxes(1, 2) @ own
            answers[np.arange(blocks), :, np.arange(blocks)] = own
        return gram, answers.reshape(outputs, -1)

    def step(self, here: Expansion, tol: float) -> tuple[Array, Any, Array]:
        """Minimize the quadratic model at a point with an exact gradient."""
        objective, point, slopes, gradient = here.objective, here.point, here.slopes, here.gradient
        assert gradient is not None
        v, own = point.v.copy(), np.array(np.atleast_2d(slopes.T), dtype=np.float64, order="C")
        self._missing = gradient - np.concatenate([column.gradient(own) for column in self._columns])
        last_move = LAST_MOVE if objective.problem.loss.smooth else LAST_KINKED_MOVE
        at = Position(v, own, NOTHING, 0.0)
        _, self.enough, self.ended = self.minimize(at, ENOUGH * tol, last_move)
        step = at.v - point.v
        moves = objective.intercepts((self._answers @ step)[: objective.n_free])
        return at.v, moves, objective.scores(step) + moves

    def sweep(self, at: Position, groups: Groups) -> tuple[float, float]:
        """Update kernels alone on their columns in turn, then kernels with shared columns jointly."""
        terms, missing = (self._weights, self._shares), self._missing
        moved, turned = sweep_columns(self._alone, terms, self.penalty.shape, missing, groups == "all", at.v, at.slopes)
        for column in self._columns:
            if column.together is not None and (groups == "all" or at.v[column.own].any()):
                more, change = column.minimize(at.v, at.slopes, terms, missing[column.own])
                moved, turned = moved + more, max(turned, change)
        return moved, float(np.sqrt(turned) * self.penalty.norms(at.v).sum())

    def image(self, step: Position) -> Array:
        """Return the move of scores by slopes, without the null space of the multinomial loss."""
        return np.divide(step.slopes, self._weights, out=np.zeros_like(step.slopes), where=self._weights > 0)


@dataclass(frozen=True, eq=False)
class Column:
    """The kernels of a column, as functions of the bins."""

    own: slice  # their coefficients
    code: Array
    table: Array  # (bins, r)
    place: Array  # (T, r): where the coefficients of every output stand among them
    answers: Array  # (T, T r): of intercepts, output after output
    together: FormedQuadratic | None  # of several kernels

    def gradient(self, slopes: Array) -> Array:
        """Return the products of features with slopes."""
        out = np.empty(self.place.size)
        out[self.place] = np.array([sums_in_bins(self.code, row, len(self.table)) for row in slopes]) @ self.table
        return out

    def minimize(self, v: Array, slopes: Array, terms: Terms, missing: Array) -> tuple[float, float]:
        """Minimize the quadratic in the coefficients; return how far scores moved and turned, squared."""
        assert self.together is not None
        old, gradient = v[self.own], self.gradient(slopes) + missing
        new, left = self.together.solve(old, gradient, TURN_TOL)
        if np.array_equal(new, old):
            return 0.0, 0.0
        step = (new - old)[self.place]
        image = step @ self.table.T + (self.answers @ step.ravel())[:, None]
        moved = add_step(self.code, image, *terms, slopes)
        v[self.own] = new
        return float(moved), float(np.sum((left - gradient) ** 2))


class LevelColumn:
    """A column of levels: the diagonal of the Hessian and, with intercepts, what the answer to all levels together.

    With ``s`` the sums of curvatures in levels, and ``t`` of all, ``min_x p'x + x'Dx/2 - (s'x)^2 / 2t + Omega(x)`` is
    the minimum over ``b`` of ``(p + b s)'x + x'Dx/2 + t b^2/2 + Omega(x)``. Without intercepts ``totals`` are infinite.
    """

    def __init__(
        self, own: slice, operator: LevelOperator, weights: Array, penalty: GroupPenalty, totals: Array
    ) -> None:
        self.own, self.together, self._operator, self._penalty = own, True, operator, penalty
        self._sums = np.array([operator.adjoint(row) for row in weights])
        self._sizes = np.array([operator.diagonal(row) for row in weights])
        self._sizes += RIDGE * max(float(self._sizes.mean()), 1e-300)
        self._totals = np.maximum(totals, 1e-300)
        outputs, rank = self._sums.shape
        answers = np.zeros((outputs, outputs, rank))
        answers[np.arange(outputs), np.arange(outputs)] = -self._sums / self._totals[:, None]
        self.answers = answers.reshape(outputs, -1)

    def gradient(self, slopes: Array) -> Array:
        """Return the products of indicators with slopes."""
        return np.concatenate([self._operator.adjoint(row) for row in slopes])

    def minimize(self, v: Array, slopes: Array, terms: Terms, missing: Array) -> tuple[float, float]:
        """Minimize the quadratic in the coefficients; return how far scores moved and turned, squared."""
        old, sizes = v[self.own], self._sizes.ravel()
        b = -self._products(old) / self._totals
        p = self.gradient(slopes) + missing - sizes * old - self._along(b)
        for _ in range(SHIFTS):
            b = self._shift(p, self._penalty.minimizer(p + self._along(b), sizes))
        new = self._penalty.minimizer(p + self._along(b), sizes)
        if np.array_equal(new, old):
            return 0.0, 0.0
        step = new - old
        shift = -self._products(step) / self._totals
        image = self._operator.values(step.reshape(self._sums.shape)) + shift[:, None]
        moved = add_step(self._operator.codes, image, *terms, slopes)
        v[self.own] = new
        turned = sizes * step + self._along(shift)
        return float(moved), float(turned @ turned)

    def _products(self, x: Array) -> Array:
        """Return ``s'x`` of every output."""
        return np.asarray(np.einsum("tk,tk->t", self._sums, x.reshape(self._sums.shape)))

    def _along(self, b: Array) -> Array:
        """Return ``b s`` of every output, in turn."""
        return np.asarray((b[:, None] * self._sums).ravel())

    def _shift(self, p: Array, x: Array) -> Array:
        """Return the best ``b`` for a penalty replaced by the ridge term at ``x``; zero at zero."""
        if not x.any():
            return np.zeros(len(self._sums))
        inverse = 1.0 / (self._sizes.ravel() + PenaltyCurve.evaluate(self._penalty, x).pull)
        lever = self._totals - self._products(inverse * self._sums.ravel())
        return self._products(inverse * p) / np.maximum(lever, RIDGE * self._totals)


def pack_columns(kernels: list[tuple[tuple[int, int, int], list[Array]]]) -> tuple[Array, ...]:
    """Return places, ranks, offsets and arrays of kernels that are alone on their columns, as `sweep_columns` has them.

    Of every kernel these are the group, the first coefficient and the column; the table, basis, answers and
    eigenvalues.
    """
    places = np.array([place for place, _ in kernels], dtype=np.int64).reshape(-1, 3).T
    ranks = np.array([own[0].shape[1] for _, own in kernels], dtype=np.int64)
    offsets = np.cumsum([[0] * 4, *([part.size for part in own] for _, own in kernels)], axis=0).T
    flat = [np.concatenate([NOTHING, *(own[slot].ravel() for _, own in kernels)]) for slot in range(4)]
    return places, ranks, offsets, *flat


def sums_in_bins(code: Array, rows: Array, bins: int) -> Array:
    """Return the sums of rows in every bin."""
    out = np.empty(bins)
    sums_of_bins(code, rows, out)
    return out


def column_operators(objective: FactoredObjective) -> list[Any]:
    """Return the factors if all are functions, or levels, of single columns in memory, else none.

    Levels have a diagonal Hessian where outputs do not act on each other.
    """
    apart = len(objective.loss.outputs) == objective.n_outputs
    found = [one for one in objective.bases if isinstance(one, ColumnOperator) or (apart and _is_of_levels(one))]
    return found if len(found) == len(objective.bases) else []


def _is_of_levels(operator: Any) -> bool:
    return type(operator) is LevelOperator and operator.level_columns == 1


def predict_sweep_cost(objective: FactoredObjective) -> float:
    """Return the cost of sweeps over rounded rows, in Hessian products per step; infinite where sweeps do not apply.

    Sweeps apply to functions of single columns in memory, of any shape, and losses that are sums over samples.
    """
    penalty = objective.penalty
    plain = penalty.shape is not None and not (penalty.coned or penalty.coupled)
    if not plain or objective.problem.bound.couples_samples or not column_operators(objective):
        return np.inf
    turn = TURN_BASE + TURN_COST * objective.problem.n_samples * objective.n_outputs
    usual = USUAL_SWEEPS if objective.problem.loss.smooth else KINKED_SWEEPS
    sweeps = usual * len(objective.operators) * turn
    if len(objective.loss.outputs) == objective.n_outputs:
        return sweeps
    return sweeps + EIGEN_COST * float((np.diff(penalty.starts).astype(np.float64) ** 3).sum())
