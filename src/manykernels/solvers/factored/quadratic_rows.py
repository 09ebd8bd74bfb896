"""The quadratic over rows of factors, whose matrix is never formed: for ranks whose Hessian costs more than sweeps.

    min_{v, b}  g'(Z d + c) + (Z d + c)' W (Z d + c) / 2 + Omega(v),    d = v - v_0,  c = b - b_0

with ``W = diag(s l'')`` and the slopes ``g = s l'`` at the present point. The update of a group is exact: in the
eigenbasis of ``Z_m' W Z_m`` a scalar equation (`group_penalty.group_minimizer`). Slopes are kept for all rows, so an
update costs ``4 N r_m`` products and a sweep a single read of the factors. For correlated columns, conjugate gradients
move all nonzero groups jointly after the last sweep. For coupled outputs or samples, slopes use the full ``W``, and
updates a diagonal upper bound, equal in all outputs.

P. Breheny, J. Huang, "Group descent algorithms for nonconvex penalized linear and logistic regression models with
grouped predictors", Statistics and Computing 25 (2015); without their orthonormal groups.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from manykernels.compiled import compiled
from manykernels.grams.loops import FAST, add_columns, column_products
from manykernels.objective.losses.curvature import Curvature, add_curved
from manykernels.solvers.factored.certificate import correctable
from manykernels.solvers.factored.group_penalty import PenaltyCurve, group_minimizer, shape_of_group, sum_of_powers
from manykernels.solvers.factored.objective import FactoredObjective
from manykernels.solvers.factored.quadratic import Expansion, Groups, Position, Quadratic, inverse_of_shifts
from manykernels.solvers.factored.quadratic_products import STEP_SHARE, conjugate_step
from manykernels.validation.arrays import Array

USUAL_SWEEPS, FEW_SWEEPS = 15, 8  # that a step takes, and one on curvatures that the next step finds changed
PRODUCT_COST = 4.0  # of a product in a sweep, beside one in a matrix product (benchmarks/group_path.py)
STEPS_ON_HESSIAN = 1.0  # Cholesky factorizations that a step on a Hessian takes, products as those of the Hessian
LAST_MOVE = 4e-2  # a sweep whose groups move by this part of the largest sweep's ends the step
ENOUGH = 3.0  # times the gap asked for: a sweep that is thought to leave less ends the step


@compiled(fastmath=FAST)
def set_image(Z: Array, places: Array, basis: Array, step: Array, sizes: Array, image: Array) -> None:
    """Set ``image`` (N,) to the change of scores by the basis step of a group; ``sizes`` (r,) is overwritten."""
    for k in range(sizes.size):
        sizes[k] = 0.0
        for j in range(step.size):
            sizes[k] += basis[k, j] * step[j]
    image[:] = 0.0
    add_columns(Z, places, sizes, image)


@compiled(fastmath=FAST)
def sweep_rows(
    factors: Any, curved: Any, shape: Any, everything: bool, v: Array, slopes: Array, change: Array
) -> tuple[float, float]:
    """Let every group take the turn, or every one not zero; return how far scores moved, squared, and a gap.

    That gap is about what was left before: the largest change of a group's slope times the sum of all norms.

    ``factors`` are rows of Z (p, N), those of a group ``places[starts[m]:starts[m + 1]]``; with the basis, (r, r) in
    ``bases[m]``, they have ``Z_m W Z_m' = diag(eigenvalues)`` with the diagonal ``W`` of the turns. Coefficients in the
    bases, kernel by kernel and output after output, slopes (T, N) of the quadratic, whose curvature is ``curved``
    (`Curvature.terms`), and the change of scores are updated; these are as precise as the factors.
    """
    (Z, places, starts, bases, eigenvalues), (_, _, power, q, _, coupled) = factors, shape
    most, outputs = bases.shape[1], slopes.shape[0]
    p, new = np.empty(outputs * most), np.empty(outputs * most)
    sizes, image = np.empty(most, dtype=Z.dtype), np.empty_like(slopes)
    moved, turned, norms = 0.0, 0.0, 0.0
    total = sum_of_powers(outputs * starts, power, q, 0.0, v) if coupled else 0.0
    for m in range(power.size):
        low, high = starts[m], starts[m + 1]
        old, own = v[outputs * low : outputs * high], eigenvalues[outputs * low : outputs * high]
        size = np.sqrt(np.dot(old, old))
        if size == 0.0 and not everything:
            continue
        rank, count, basis = high - low, outputs * (high - low), bases[m]
        for t in range(outputs):
            column_products(Z, places[low:high], slopes[t], sizes[:rank])
            for j in range(rank):
                at = t * rank + j
                p[at] = -own[at] * old[at]
                for k in range(rank):
                    p[at] += basis[k, j] * sizes[k]
        rest = max(total - power[m] * size**q, 0.0) if coupled else 0.0
        group_minimizer(p[:count], own, shape_of_group(shape, m, rest), new[:count])
        if coupled:
            total = rest + power[m] * np.sqrt(np.dot(new[:count], new[:count])) ** q
        step, turn = 0.0, 0.0
        norms += np.sqrt(np.dot(new[:count], new[:count]))
        for k in range(count):
            new[k] -= old[k]
            step += own[k] * new[k] ** 2
            turn += (own[k] * new[k]) ** 2
            old[k] += new[k]
        if step > 0.0:
            for t in range(outputs):
                set_image(Z, places[low:high], basis, new[t * rank : (t + 1) * rank], sizes[:rank], image[t])
                target, sums = image[t], change[t]
                for i in range(target.size):
                    sums[i] += target[i]
            add_curved(*curved, image, slopes)
            moved += step
            turned = max(turned, turn)
    return moved, np.sqrt(turned) * norms


@compiled(fastmath=FAST)
def answer_sums(of_shifts: Array, curved: Any, slopes: Array, change: Array, shift: Array) -> None:
    """Move intercepts to zero slope sums, with scores and slopes (T, N)."""
    sums, image = np.zeros(shift.size), np.empty_like(slopes)
    for t in range(shift.size):
        for i in range(slopes.shape[1]):
            sums[t] += slopes[t, i]
    for t in range(shift.size):
        far = 0.0
        for k in range(shift.size):
            far += of_shifts[t, k] * sums[k]
        shift[t] += far
        image[t, :] = far
        for i in range(image.shape[1]):
            change[t, i] += image[t, i]
    add_curved(*curved, image, slopes)


class RowQuadratic(Quadratic):
    """The factors of a working set in the eigenbases of a curvature, shared by the steps of a solve."""

    most_sweeps = 15  # what they do not come to by then, gradients do
    sweeps_of_some = 3  # groups that enter late take all others along
    from_coefficients = True
    ended = False  # a Newton step in all groups is the better one where groups act on each other

    def __init__(self, objective: FactoredObjective, curvature: Curvature) -> None:
        above = np.ascontiguousarray(curvature.above, dtype=np.float64)
        known, penalty = objective.known.find_products(above), objective.penalty
        self._Z, firsts, roots = factor_rows(objective)
        weights, shares, risks = curvature.terms
        self._curved = weights.astype(self._Z.dtype, copy=False), shares.astype(self._Z.dtype, copy=False), risks
        self._starts = penalty.starts // objective.n_outputs
        ranks, n_outputs = np.diff(self._starts), objective.n_outputs
        most, owner, within = max(ranks), np.repeat(np.arange(len(ranks)), ranks), np.arange(self._starts[-1])
        within -= np.repeat(self._starts[:-1], ranks)
        self._places = firsts[owner] + within
        self._slots = objective.place, np.arange(n_outputs)[:, None] * most + within + n_outputs * most * owner
        alike = float(above.sum()) if curvature.shifts_alike else 0.0
        found, self._turns = known.eigenbases(objective.kernels, self._Z, firsts, ranks, roots, alike)
        self.eigenvalues = np.empty(objective.rank)
        self.eigenvalues[objective.place] = found[owner, within]
        self.bases = roots[:, None, None] * self._turns
        self._of_shifts = self._response(objective) if objective.n_free else np.zeros((0, 0))
        self.penalty = penalty

    def preconditioner(self, v: Array) -> Callable[[Array], Array]:
        """Return the division by the curvatures of groups alone and of the penalty; zero on groups at zero."""
        curve = PenaltyCurve.evaluate(self.penalty, v)
        scale = np.where(curve.free, 1.0 / (self.eigenvalues + curve.pull), 0.0)
        return lambda r: self.rotate_back(scale * self.rotate(r))

    def _response(self, objective: FactoredObjective) -> Array:
        """Return the response of the score shifts (T, T) to slope sums of all outputs."""
        ones = np.ones(self._Z.shape[1], dtype=self._Z.dtype)
        moves = [np.outer(row, ones).astype(ones.dtype) for row in np.eye(objective.n_outputs)]
        totals = [self._product(own).sum(axis=1, dtype=np.float64) for own in moves]
        return -inverse_of_shifts(np.array(totals)[None])[0]

    def _product(self, image: Array) -> Array:
        """Return the curvature times a change of scores (T, N)."""
        out = np.zeros_like(image)
        add_curved(*self._curved, image, out)
        return out

    def rotate(self, v: Array) -> Array:
        """Return coefficients in the eigenbases."""
        return self._multiply_groups(v, self._turns)

    def rotate_back(self, v: Array) -> Array:
        """Return coefficients from those in the eigenbases."""
        return self._multiply_groups(v, self._turns.swapaxes(1, 2))

    def _multiply_groups(self, v: Array, turns: Array) -> Array:
        """Return coefficients with those of every group multiplied by a matrix."""
        (groups, most, _), (place, slots) = self.bases.shape, self._slots
        parts, out = np.zeros((groups, len(place), most)), np.empty_like(v)
        parts.reshape(-1)[slots] = v[place]
        out[place] = (parts @ turns).reshape(-1)[slots]
        return out

    def sweep(self, at: Position, groups: Groups) -> tuple[float, float]:
        factors = self._Z, self._places, self._starts, self.bases, self.eigenvalues
        moved, gap = sweep_rows(factors, self._curved, self.penalty.shape, groups == "all", at.v, at.slopes, at.change)
        if at.shift.size:
            answer_sums(self._of_shifts, self._curved, at.slopes, at.change, at.shift)
        return float(moved), float(gap)

    def image(self, step: Position) -> Array:
        return step.change.astype(np.float64, copy=False)

    def step(self, here: Expansion, tol: float) -> tuple[Array, Any, Array]:
        """Minimize the quadratic model at a point; coupled groups move together at the end."""
        objective, point, slopes, curvature = here.objective, here.point, here.slopes, here.curvature
        own = np.array(np.atleast_2d(slopes.T), dtype=self._Z.dtype, order="C")
        at = Position(self.rotate(point.v), own, np.zeros_like(own), np.zeros(len(self._of_shifts)))
        # Where curvatures stay, the quadratic is the loss itself, and worth minimizing.
        last_move = 0.0 if objective.constant else LAST_MOVE
        self.sweeps, self.enough, ended = self.minimize(at, ENOUGH * tol, last_move)
        v, moves = self.rotate_back(at.v), objective.intercepts(at.shift)
        if self._Z.dtype == np.float64:
            change = np.ascontiguousarray(at.change.T) if objective.problem.shared else at.change[0]
        else:
            change = objective.scores(v) + (point.b + moves) - point.z
        if ended or self.enough:
            return v, moves, change
        slopes = slopes + curvature.product(change)
        # Where dual points are corrected, about to its square: 500 groups of ten columns that correlate by a half take
        # about the same time from 10 to 1,000 times the gap asked for.
        near = (30.0 if correctable(objective) else STEP_SHARE) * tol
        along, more, *_ = conjugate_step(objective.single_precision, v, slopes, curvature, self.preconditioner(v), near)
        v, moves = v + along, moves + more
        return v, moves, objective.scores(v) + (point.b + moves) - point.z


def factor_rows(objective: FactoredObjective) -> tuple[Array, Array, Array]:
    """Return an array of which the factors are rows, the row where every kernel's begin, and roots to multiply by.

    Table columns that are factors are read in place, in single precision if sufficient, since the read dominates a
    sweep.
    """
    operators: Any = objective.operators
    known, own = objective.known, objective.joint_columns
    if own is not None:
        return known.single_columns(own.columns, own.places) if known.single else own.columns, own.firsts, own.roots
    starts = objective.penalty.starts // objective.n_outputs
    Z = np.empty((starts[-1], objective.problem.n_samples), dtype=np.float32 if known.single else np.float64)
    for operator, low, high in zip(operators, starts[:-1], starts[1:], strict=True):
        Z[low:high] = operator.rows(slice(None)).T
    return Z, starts[:-1], np.ones(len(operators))


def descends(objective: FactoredObjective, curvature: Curvature, rows: int, made: int = 0) -> bool:
    """Whether sweeps over rows apply and are predicted to cost less than a Hessian summed over so many rows.

    As many as in the solve before on a path, or once more as many as were ``made`` in this one.
    """
    if not objective.takes_turns:
        return False
    n, rank, known = objective.problem.n_samples, objective.rank, objective.known
    usual = max(known.sweeps or USUAL_SWEEPS, made) if objective.constant else FEW_SWEEPS
    turns = 4 * rank + curvature.in_turn * objective.n_outputs * len(objective.kernels)
    sweeps, dense = PRODUCT_COST * usual * n * turns, rows * objective.products * curvature.in_gram
    if objective.constant:
        dense = STEPS_ON_HESSIAN * float(rank) ** 3
        if sweeps >= dense:
            dense += float(n * rank) * known.find_products(curvature.above).missing(objective.operators)
    return sweeps < dense
