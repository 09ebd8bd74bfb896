"""Block descent on one quadratic model, group after group over rows: for ranks whose Hessian costs more than sweeps.

    min_{v, b}  g'(Z d + c) + (Z d + c)' W (Z d + c) / 2 + Omega(v),    d = v - v_0,  c = b - b_0

with ``W = diag(s l'')`` and the slopes ``g = s l'`` at the present point. A group's own problem is solved exactly: in
the eigenbasis of ``Z_m' W Z_m`` it is one scalar equation (`group_penalty.group_minimizer`). Slopes are kept for all
rows, so that a group costs ``4 N r_m`` products and a sweep one reading of the factors; sweeps over the groups that are
not zero alternate with sweeps over all of them. Breheny and Huang, "Group descent algorithms for nonconvex penalized
linear and logistic regression models with grouped predictors", Statistics and Computing 25 (2015), without their
orthonormal groups.
"""

from typing import Any

import numpy as np

from manykernels.compiled import compiled
from manykernels.grams.factored.operators import DenseOperator
from manykernels.grams.loops import FAST, add_columns, column_products
from manykernels.objective.losses.curvature import Curvature
from manykernels.solvers.factored.group_penalty import GroupPenalty, group_minimizer
from manykernels.solvers.factored.group_problem import line_minimum
from manykernels.solvers.factored.objective import FactoredObjective, Point
from manykernels.validation.arrays import Array

USUAL_SWEEPS = 15  # that a step takes
PRODUCT_COST = 4.0  # of a product in a sweep, beside one in a matrix product (benchmarks/group_path.py)
SWEEPS = 30  # over the groups that are not zero, in one step
STEPS_ON_HESSIAN = 1.0  # Cholesky factorizations that a step on a Hessian takes, products as those of the Hessian
SWEEPS_OF_SOME = 3  # of which the last is over all groups: those that enter late take all others along
LAST_MOVE = 4e-2  # a sweep whose groups move by this part of the largest sweep's ends the step
REMEMBERED = 4  # sweeps before the last one, of which the next point is a combination
COLLINEAR = 1e-10  # of the sum of squares of their moves, which keeps the system for it solvable
ENOUGH = 3.0  # times the gap asked for: a sweep that is thought to leave less ends the step


@compiled(fastmath=FAST)
def sweep_rows(
    Z: Array,
    places: Array,
    weights: Array,
    starts: Array,
    bases: Array,
    eigenvalues: Array,
    linear: Array,
    curvature: Array,
    power: Array,
    q: float,
    strength: float,
    coupled: bool,
    everything: bool,
    v: Array,
    slopes: Array,
    change: Array,
) -> tuple[float, float]:
    """Let every group take its turn, or every one that is not zero; return how far scores moved, squared, and a gap.

    That gap is about what was left before: the largest change of a group's slope times the sum of all norms.

    Factors are rows of Z (p, N), those of a group ``places[starts[m]:starts[m + 1]]``; with its basis, (r, r) in
    ``bases[m]``, they have ``Z_m W Z_m' = diag(eigenvalues)``. Coefficients in these bases, slopes of the quadratic and
    the change of scores are updated; these are as precise as the factors.
    """
    most = bases.shape[1]
    p, new, sizes, image = np.empty(most), np.empty(most), np.empty(most, dtype=Z.dtype), np.empty_like(slopes)
    moved, total, turned, norms = 0.0, 0.0, 0.0, 0.0
    if coupled:
        for m in range(linear.size):
            total += power[m] * np.sqrt(np.dot(v[starts[m] : starts[m + 1]], v[starts[m] : starts[m + 1]])) ** q
    for m in range(linear.size):
        low, high = starts[m], starts[m + 1]
        old, own = v[low:high], eigenvalues[low:high]
        size = np.sqrt(np.dot(old, old))
        if size == 0.0 and not everything:
            continue
        rank, basis = high - low, bases[m]
        column_products(Z, places[low:high], slopes, sizes[:rank])
        for j in range(rank):
            p[j] = -own[j] * old[j]
            for k in range(rank):
                p[j] += basis[k, j] * sizes[k]
        rest = max(total - power[m] * size**q, 0.0) if coupled else 0.0
        group_minimizer(p[:rank], own, linear[m], curvature[m], power[m], q, strength, coupled, rest, new[:rank])
        if coupled:
            total = rest + power[m] * np.sqrt(np.dot(new[:rank], new[:rank])) ** q
        step, turn = 0.0, 0.0
        norms += np.sqrt(np.dot(new[:rank], new[:rank]))
        for k in range(rank):
            new[k] -= old[k]
            step += own[k] * new[k] ** 2
            turn += (own[k] * new[k]) ** 2
        if step > 0.0:
            for k in range(rank):
                old[k] += new[k]
                sizes[k] = 0.0
                for j in range(rank):
                    sizes[k] += basis[k, j] * new[j]
            image[:] = 0.0
            add_columns(Z, places[low:high], sizes[:rank], image)
            for i in range(image.size):
                change[i] += image[i]
                slopes[i] += weights[i] * image[i]
            moved += step
            turned = max(turned, turn)
    return moved, np.sqrt(turned) * norms


class DescentModel:
    """The factors of a working set in the eigenbases of one curvature, which the steps of a solve share."""

    def __init__(self, objective: FactoredObjective, weights: Array) -> None:
        weights = np.ascontiguousarray(weights, dtype=np.float64)
        known, starts = objective.known.under(weights), objective.penalty.starts
        self._Z, firsts, roots = factor_rows(objective)
        self.weights = weights.astype(self._Z.dtype, copy=False)
        ranks = np.diff(starts)
        most, owner, within = max(ranks), np.repeat(np.arange(len(ranks)), ranks), np.arange(objective.rank)
        within -= np.repeat(starts[:-1], ranks)
        self._places, self._slots = firsts[owner] + within, owner * most + within
        slots = zip(objective.kernels.tolist(), firsts.tolist(), ranks.tolist(), roots.tolist(), strict=True)
        found = [known.basis(kernel, self._Z, first, first + rank, root) for kernel, first, rank, root in slots]
        self.eigenvalues, self.bases = np.concatenate([own for own, _ in found]), np.zeros((len(ranks), most, most))
        own = np.arange(most) < ranks[:, None]
        self.bases[own[:, :, None] & own[:, None]] = np.concatenate([vectors.ravel() for _, vectors in found])
        self._turns = self.bases / roots[:, None, None]
        self.enough = False  # whether the last step ended because its gap seemed small enough
        self.ended = False  # a Newton step in all groups is the better one where groups act on each other

    def turned(self, v: Array, *, back: bool = False) -> Array:
        """Return coefficients in the eigenbases, or back from them."""
        parts = np.zeros(self.bases.shape[:2])
        parts.reshape(-1)[self._slots] = v
        turns = self._turns if back else self._turns.swapaxes(1, 2)
        return np.asarray((turns @ parts[:, :, None]).reshape(-1)[self._slots])

    def step(self, objective: FactoredObjective, point: Point, slopes: Array, tol: float) -> tuple[Array, Any, Array]:
        """Minimize the quadratic model at a point, to about this gap, or to a part of what there was to gain."""
        penalty, n_free = objective.penalty, objective.n_free
        assert penalty.shape is not None
        v, own = self.turned(point.v), np.array(slopes, dtype=self._Z.dtype)
        change = np.zeros_like(own)
        fixed = (self._Z, self._places, self.weights, penalty.starts, self.bases, self.eigenvalues, *penalty.shape)
        total = float(self.weights.sum()) if n_free else 0.0
        shift, largest, everything, turns = 0.0, 0.0, True, Turns(penalty, self.weights)
        for sweep in range(SWEEPS):
            before = v.copy()
            moved, gap = sweep_rows(*fixed, everything, v, own, change)
            if total > 0:
                step = -float(own.sum()) / total
                shift, change, own = shift + step, change + step, own + step * self.weights
            largest = max(largest, moved)
            self.enough = gap <= ENOUGH * tol
            # Where curvatures stay, the quadratic is the loss itself, and worth minimizing.
            small = self.enough or (not objective.constant and moved <= LAST_MOVE**2 * largest)
            if everything and small:
                break
            everything = small or sweep % SWEEPS_OF_SOME == SWEEPS_OF_SOME - 1
            if not small:
                v, own, change, shift = turns.ahead(before, v, own, change, shift)
        target = self.turned(v, back=True)
        return target, shift, change if change.dtype == np.float64 else objective.scores(target - point.v) + shift


class Turns:
    """The last sweeps of one step, and how far their moves lead on together.

    Anderson, "Iterative procedures for nonlinear integral equations", Journal of the ACM 12 (1965): of all combinations
    of the last points that one is taken whose moves in a sweep, combined alike, are the shortest. Slopes and scores are
    linear in coefficients, so that no factor is read.
    """

    def __init__(self, penalty: GroupPenalty, weights: Array) -> None:
        self._penalty, self._weights = penalty, weights
        self._moves: list[Array] = []
        self._points: list[Array] = []

    def ahead(self, before: Array, v: Array, own: Array, change: Array, shift: float) -> tuple[Any, ...]:
        """Return coefficients, slopes, change of scores and shift after a sweep, moved on where the quadratic falls."""
        here = np.concatenate([v, own, change, [shift]])
        self._moves = [*self._moves[-REMEMBERED:], v - before]
        self._points = [*self._points[-REMEMBERED:], here]
        if len(self._points) == 1:
            return v, own, change, shift
        products = np.array(self._moves) @ np.array(self._moves).T
        products[np.diag_indices_from(products)] += COLLINEAR * np.trace(products)
        parts = np.linalg.solve(products, np.ones(len(products)))
        far = parts / parts.sum() @ np.array(self._points) - here
        step, _, image, _ = np.split(far, ends := np.cumsum([len(v), len(own), len(change)]))
        size = line_minimum(self._penalty, v, step, float(own @ image), float(image @ (self._weights * image)))
        v, *rows, last = np.split(here + size * far, ends)
        return v, *(row.astype(own.dtype, copy=False) for row in rows), float(last[0])


def factor_rows(objective: FactoredObjective) -> tuple[Array, Array, Array]:
    """Return an array of which the factors are rows, the row where each kernel's begin, and roots to multiply by.

    Columns of a table that are factors themselves are read where they stand. They are in single precision where that
    does: a sweep takes as long as it takes to read them.
    """
    operators: Any = objective.operators
    known, own = objective.known, objective.in_place
    if own is not None:
        return known.in_single(own.columns, own.places) if known.single else own.columns, own.firsts, own.roots
    Z = np.empty((objective.rank, objective.problem.n_samples), dtype=np.float32 if known.single else np.float64)
    for operator, low, high in zip(operators, objective.ends[:-1], objective.ends[1:], strict=True):
        Z[low:high] = operator.rows(slice(None)).T
    return Z, objective.penalty.starts[:-1], np.ones(len(operators))


def descends(objective: FactoredObjective, curvature: Curvature, rows: int) -> bool:
    """Whether sweeps over rows apply and are predicted to cost less than a Hessian summed over so many rows.

    They apply to factors in memory, a curvature a sample, one target, functions of any shape. Kernels that share
    columns act on each other too much for groups to take turns.
    """
    alone = all(isinstance(one, DenseOperator) and len(one.kernels) == 1 for one in objective.operators)
    if alone:
        columns = [j for operator in objective.operators for j in operator.positions or ()]
        alone = len(set(columns)) == len(columns)
    plain = objective.penalty.shape is not None and not objective.penalty.coned
    if not (alone and curvature.separable and plain) or objective.n_free > 1:
        return False
    n, rank = objective.problem.n_samples, objective.rank
    sweeps, dense = PRODUCT_COST * 4 * USUAL_SWEEPS * n * rank, rows * objective.products
    if objective.constant:
        missing = objective.known.under(curvature.diagonal).missing(objective.operators)
        dense = float(n * missing * rank) + STEPS_ON_HESSIAN * rank**3
    return sweeps < dense
