r"""The quadratic whose matrix is formed.

Turns are taken in the eigenbasis of every diagonal block, where a single block is a scalar secular equation. Newton
steps follow on the nonzero blocks once the stay the same.

Groups of coordinates in a cone: the blocks of functions that must have a shape.

One group's turn minimizes, in the eigenbasis of the diagonal block, with the other groups unchanged,

    p'x + sum_k e_k x_k^2 / 2 + Omega(||x||)      subject to  G x >= 0.

The minimizer is zero if ``min_{mu >= 0} ||G'mu - p||`` is at most the slope of the penalty at zero. Otherwise the
penalty acts as a ridge term of the size ``kappa = Omega'(||x||) / ||x||``: with ``D = diag(e) + kappa`` the minimizer
is ``x = D^-1 (G'mu - p)`` with the multipliers of a nonnegative least squares problem. ``kappa ||x||`` rises and
``Omega'(||x||)`` falls in ``kappa``, so there is a single root. Newton steps move all nonzero groups jointly in their
cones: the same least squares problem in all coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, block_diag, cho_factor, cho_solve, cholesky, solve_triangular

from manykernels.compiled import compiled
from manykernels.grams.factored.cones import active_inequalities, multipliers, project
from manykernels.grams.loops import copy_block
from manykernels.objective.losses.curvature import Curvature, Shares
from manykernels.solvers.factored.group_penalty import (
    GroupPenalty,
    PenaltyCurve,
    add_free_group,
    group_minimizer,
    move,
    places_of,
    power_slope,
    project_groups,
    shape_of_group,
    sum_of_powers,
)
from manykernels.solvers.factored.objective import FactoredObjective, Point
from manykernels.solvers.factored.quadratic import NOTHING, Expansion, Groups, Position, Quadratic
from manykernels.solvers.linear_systems import ConjugateGradients
from manykernels.validation.arrays import Array

GROUP_TOL = 0.03  # of the violation at the start of a step
RANK_LIMIT = 3500  # coefficients; above, columns take turns
SAMPLE_ROWS = 20_000  # that the first Hessian is summed over
ROOT_STEPS = 60  # of a bracket of the ridge term, in its logarithm
ROOT_TOL = 1e-13


@compiled()
def minimize_with_ridge(p: Array, eigenvalues: Array, G: Array, kappa: float, mu: Array, A: Array, out: Array) -> float:
    """Set ``out`` to the minimizer with a ridge term ``kappa``, and return the norm; ``mu`` begins and is improved."""
    roots, goal = np.empty(p.size), np.empty(p.size)  # loops over entries compile several times as fast as array sums
    for j in range(p.size):
        roots[j] = 1.0 / np.sqrt(eigenvalues[j] + kappa)
        goal[j] = p[j] * roots[j]
        for k in range(mu.size):
            A[k, j] = G[k, j] * roots[j]
    multipliers(A, goal, mu, out)
    for j in range(p.size):
        out[j] *= -roots[j]
    return np.sqrt(np.dot(out, out))


@compiled()
def cone_minimizer(p: Array, eigenvalues: Array, G: Array, own: Any, mu: Array, out: Array) -> None:
    """Set ``out`` to the minimizer of a single group in the cone, with the arguments of `group_minimizer`."""
    a, c, b = own[:3]
    pull, widest = np.empty(p.size), eigenvalues[0]
    for j in range(p.size):
        pull[j] = -p[j]
        widest = max(widest, eigenvalues[j])
    size = project(G, pull, mu, out)
    if size <= a or size == 0.0:
        for j in range(p.size):
            out[j] = 0.0
        return
    A = np.empty_like(G)
    if a == 0.0 and b == 0.0:
        minimize_with_ridge(p, eigenvalues, G, c, mu, A, out)
        return
    x = np.log(max(c, 0.0) + widest)
    low, high, below, above, side = -np.inf, np.inf, 0.0, 0.0, 0
    for _ in range(ROOT_STEPS):
        kappa = np.exp(x)
        norm = minimize_with_ridge(p, eigenvalues, G, kappa, mu, A, out)
        slope = power_slope(norm, own) if b > 0.0 else a + c * norm
        if not (norm > 0.0 and slope > 0.0):
            break
        value = np.log(kappa * norm) - np.log(slope)
        if value < 0.0:
            above *= 0.5 if side < 0 else 1.0  # Illinois: where the other end stays, its value counts half
            low, below, side = x, value, -1
        else:
            below *= 0.5 if side > 0 else 1.0
            high, above, side = x, value, 1
        if abs(value) <= ROOT_TOL or high - low <= ROOT_TOL * max(1.0, abs(x)):
            break
        if low == -np.inf:
            x = high - max(2.0, 1.5 * above)
        elif high == np.inf:
            x = low + max(2.0, -1.5 * below)
        else:
            x = (low * above - high * below) / (above - below)
            if not low < x < high:
                x = 0.5 * (low + high)


@compiled()
def sweep_cones(H: Array, eigenvalues: Array, cones: Any, shape: Any, outside: float, v: Array, r: Array) -> None:
    """Run a sweep over groups like `group_penalty.sweep`, with inequality groups in their cones."""
    (starts, rows, row_starts, mu), (_, _, power, q, _, coupled), new = cones, shape, np.empty(v.size)
    total = sum_of_powers(starts, power, q, outside, v) if coupled else outside
    for m in range(power.size):
        low, high = starts[m], starts[m + 1]
        old, own, ends = v[low:high], eigenvalues[low:high], new[low:high]
        p, rest = r[low:high] - own * old, 0.0
        if coupled:
            rest = max(total - power[m] * np.sqrt(np.dot(old, old)) ** q, outside)
        first, last = row_starts[m], row_starts[m + 1]
        if last > first:
            G = np.ascontiguousarray(rows[first:last, : high - low])
            cone_minimizer(p, own, G, shape_of_group(shape, m, rest), mu[first:last], ends)
        else:
            group_minimizer(p, own, shape_of_group(shape, m, rest), ends)
        if coupled:
            total = rest + power[m] * np.sqrt(np.dot(ends, ends)) ** q
        move(H[low:high], ends, old, r)


class Cones:
    """The cones of groups in the eigenbasis of a quadratic, with the multipliers that sweeps leave.

    Parameters
    ----------
    constraints : sequence of (c_m, r_m) arrays or None
        Of every group.
    starts : (G + 1,) int
        Of groups.
    blocks : sequence of (int, int, array)
        Where every block of the eigenbasis begins and ends, and the basis.
    """

    def __init__(self, constraints: Sequence[Array | None], starts: Array, blocks: Sequence[tuple[int, int, Array]]):
        self.starts = starts
        self.own = [_rotate_inequalities(G, low, blocks) for G, low in zip(constraints, starts.tolist(), strict=False)]
        self.own += [np.zeros((0, 1))] * (len(starts) - 1 - len(self.own))  # intercepts
        self.row_starts = np.concatenate([[0], np.cumsum([len(G) for G in self.own])]).astype(np.int64)
        self.rows = np.zeros((self.row_starts[-1], max(G.shape[1] for G in self.own)))
        for G, first in zip(self.own, self.row_starts, strict=False):
            self.rows[first : first + len(G), : G.shape[1]] = G
        self.mu = np.zeros(len(self.rows))
        self.whole = np.asarray(
            block_diag(*(G if len(G) else np.zeros((0, n)) for G, n in zip(self.own, np.diff(starts), strict=True)))
        )

    def _groups(self) -> Any:
        """Yield the groups in cones: their number, coordinates and inequalities."""
        for m, (low, high) in enumerate(pairwise(self.starts.tolist())):
            if len(self.own[m]):
                yield m, slice(low, high), self.own[m]

    def rests(self, v: Array, pulls: Array) -> Array:
        """Return the remaining negative subgradients ``pulls`` after multipliers of the active inequalities."""
        out = pulls.copy()
        for _, own, G in self._groups():
            rows = active_inequalities(G, v[own])
            if len(rows):
                project(rows, np.ascontiguousarray(pulls[own]), np.zeros(len(rows)), out[own])
        return out

    def step(self, system: Array, slope: Array, v: Array, free: Array) -> Array:
        """Return the step in free coordinates to the minimizer of a quadratic with the groups in their cones.

        With ``K = L L'`` and ``u = L'x`` it is the projection of ``L'v - L^-1 slope`` on the inequalities. Sweeps over
        single groups leave a face in tiny moves where only several groups together gain by that.
        """
        G = self.whole[:, free]
        acting = np.flatnonzero(G.any(axis=1))
        L = cholesky(system, lower=True, check_finite=False)
        images = solve_triangular(L, np.column_stack([G[acting].T, slope]), lower=True, check_finite=False).T
        here, mu, end = L.T @ v, self.mu[acting], np.empty(len(v))
        project(np.ascontiguousarray(images[:-1]), here - images[-1], mu, end)
        self.mu[acting] = mu
        return np.asarray(solve_triangular(L, end - here, lower=True, trans=1, check_finite=False))

    def sweep(
        self, H: Array, eigenvalues: Array, shape: tuple[Any, ...], outside: float | Array, v: Array, r: Array
    ) -> None:
        """Let every group take the turn."""
        cones = self.starts, self.rows, self.row_starts, self.mu
        sweep_cones(H[0], eigenvalues[0], cones, shape, outside, v, r[0])


def _rotate_inequalities(G: Array | None, low: int, blocks: Sequence[tuple[int, int, Array]]) -> Array:
    """Return the inequalities of the group at ``low`` for coordinates in an eigenbasis."""
    if G is None:
        return np.zeros((0, 1))
    out = np.array(G, dtype=np.float64)
    for first, last, basis in blocks:
        if first >= low and last <= low + G.shape[1]:
            out[:, first - low : last - low] = G[:, first - low : last - low] @ basis
    return out


TURNS = 4  # of every group, between two attempts at a Newton step
SHORT = 0.1  # a step below it was stopped by a group that passes zero
MOST_GRADIENTS, LEFT = 30, 0.1  # of the residual, in the norm of the blocks, where outputs have something in common
RIDGE = 1e-12  # of the mean diagonal: keeps directions that no sample bends solvable


def block_at(H: Array, chosen: Array) -> Array:
    """Return a matrix in some coordinates."""
    out = np.empty((len(chosen), len(chosen)))
    copy_block(H, chosen, np.arange(len(chosen)), out)
    return out


class CurvedBlocks:
    """Factors of the second derivatives of a quadratic with a block for every output, and of the penalty.

    What the penalty adds in the direction of a group is in all outputs at once: ``U W U'`` of low rank beside blocks.

    Parameters
    ----------
    H : (T, r, r) or (1, r, r)
    curve : PenaltyCurve
    place : (T, r) int
        Where the coordinates of every output stand.
    """

    def __init__(self, H: Array, curve: PenaltyCurve, place: Array) -> None:
        alive = curve.free[place[0]]  # the same for all outputs
        self._place, self._size = place[:, alive], place.size
        systems = np.array([block_at(own, np.flatnonzero(alive)) for own in H])
        if alone := len(place) == 1:
            curve.add_to(systems[0])
        else:
            np.einsum("tii->ti", systems)[:] += curve.pull[self._place[: len(H)]]
        # Of a symmetric matrix the transpose has columns in a row, as LAPACK wants them.
        self._factors = [cho_factor(own.T, lower=True, overwrite_a=True, check_finite=False) for own in systems]
        self._directions = None if alone else self._radial(curve)

    def _radial(self, curve: PenaltyCurve) -> tuple[Array, Array, Array]:
        """Return ``U``, ``A^-1 U`` (T, r, g), and ``(1 + W U'A^-1 U)^-1 W``."""
        groups = np.searchsorted(curve.starts, self._place[0], side="right") - 1
        used, slots = np.unique(groups, return_inverse=True)
        U = np.zeros((*self._place.shape, len(used)))
        U[:, np.arange(len(slots)), slots] = curve.unit[self._place]
        W = np.diag(curve.radial[used]) + np.outer(curve.coupling[used], curve.coupling[used])
        images = self._solve_blocks(U)
        inner = np.eye(len(used)) + W @ np.tensordot(U, images, axes=([0, 1], [0, 1]))
        return U, images, np.linalg.solve(inner, W)

    def _solve_blocks(self, R: Array) -> Array:
        """Return ``A^-1 R`` for the blocks alone, (T, r, k)."""
        if len(self._factors) == len(R):
            return np.array(
                [cho_solve(own, part, check_finite=False) for own, part in zip(self._factors, R, strict=True)]
            )
        found = cho_solve(self._factors[0], R.swapaxes(0, 1).reshape(R.shape[1], -1), check_finite=False)
        return found.reshape(R.shape[1], len(R), -1).swapaxes(0, 1)

    def solve(self, r: Array) -> Array:
        """Return the solution for a right-hand side, zero on groups at zero."""
        out = np.zeros(self._size)
        found = self._solve_blocks(r[self._place][:, :, None])
        if self._directions is not None:
            U, images, inner = self._directions
            found = found - images @ (inner @ np.tensordot(U, found, axes=([0, 1], [0, 1])))
        out[self._place] = found[:, :, 0]
        return out


class FormedQuadratic(Quadratic):
    """The quadratic of one Newton step, in the eigenbasis of the diagonal blocks.

    Of several outputs every group is over all, in turn, and so are coordinates here; the quadratic has a block (r, r)
    for every output, or for every coordinate of `Shares`, which say what is between these.

    Parameters
    ----------
    H : (r, r), (T, r, r), or (1, r, r) for all outputs, float64
        Positive semidefinite; changed in place.
    penalty : GroupPenalty
    shares : Shares, optional
    """

    from_coefficients = True
    most_sweeps = 200
    sweeps_of_some = sweeps_apart = 1

    def __init__(self, H: Array, penalty: GroupPenalty, shares: Shares | None = None) -> None:
        self._H, self._shares, size = H.reshape(-1, *H.shape[-2:]), shares, H.shape[-1]
        outputs = int(penalty.starts[-1]) // size
        self._starts, self._given = penalty.starts // outputs, places_of(penalty.starts, outputs)
        if shares is not None:  # a change that is the same in all outputs gains nothing
            penalty = replace(penalty, starts=len(H) * self._starts)
        self.penalty = penalty
        diagonal = np.einsum("tii->ti", self._H)
        diagonal += RIDGE * max(float(diagonal.sum()), 1e-300) / diagonal.size
        self._eigenvalues, bases = _eigenbases(self._H, self._starts.tolist())
        blocks = zip(pairwise(self._starts.tolist()), bases, strict=True)  # one coordinate is its own basis
        self._bases = [(low, high, own) for (low, high), own in blocks if high - low > 1]
        for low, high, basis in self._bases:
            self._H[:, :, low:high] = self._H[:, :, low:high] @ basis
        for low, high, basis in self._bases:
            self._H[:, low:high] = basis.swapaxes(1, 2) @ self._H[:, low:high]
            self._H[:, low:high, low:high] = 0.0
        diagonal[:] = self._eigenvalues
        self._place = self._given if shares is None else places_of(penalty.starts, len(H))
        alone = [(low, high, basis[0]) for low, high, basis in self._bases]
        self._cones = Cones(penalty.cones, penalty.starts, alone) if penalty.coned else None

    def _turn(self, V: Array) -> Array:
        """Return coordinates (T, r) in the eigenbases."""
        out = V.copy()
        for low, high, basis in self._bases:
            out[:, low:high] = np.matmul(V[:, None, low:high], basis)[:, 0]
        return out

    def _turn_back(self, V: Array) -> Array:
        """Return coordinates (T, r) from those in the eigenbases."""
        out = V.copy()
        for low, high, basis in self._bases:
            out[:, low:high] = np.matmul(V[:, None, low:high], basis.swapaxes(1, 2))[:, 0]
        return out

    def _rotate(self, v: Array) -> Array:
        """Return coordinates in the basis of the quadratic."""
        V, out = v[self._given], np.empty(self._place.size)
        out[self._place] = self._turn(V if self._shares is None else self._shares.basis.T @ V)
        return out

    def _rotate_back(self, v: Array) -> Array:
        """Return coefficients from coordinates in the basis of the quadratic."""
        V, out = self._turn_back(v[self._place]), np.empty(self._given.size)
        out[self._given] = V if self._shares is None else self._shares.basis @ V
        return out

    def _product(self, v: Array) -> Array:
        """Return the quadratic's matrix times ``v``."""
        V, out = v[self._place], np.empty_like(v)
        one = len(self._H) == 1
        found = V @ self._H[0] if one else np.matmul(V[:, None], self._H)[:, 0]
        out[self._place] = found if self._shares is None else found + self._couple_blocks(V)
        return out

    def _couple_blocks(self, V: Array) -> Array:
        """Return the coupling between blocks times coordinates (T - 1, r)."""
        assert self._shares is not None
        return self._turn(self._shares.product(self._turn_back(V).T).T)

    @classmethod
    def create(cls, objective: FactoredObjective, curvature: Curvature, rows: int) -> FormedQuadratic:
        """Return the quadratic model with the curvatures, intercepts last, groups without a penalty."""
        n_samples, n_constants, shares = objective.problem.n_samples, int(objective.n_free > 0), None
        if objective.constant:
            known = objective.known.find_products(curvature.diagonal)
            hessian = known.gram(objective.operators, objective.joint_columns, n_constants=n_constants)
        elif (
            objective.n_outputs == 1
            and objective.joint_columns is not None
            and curvature.separable
            and rows >= n_samples
        ):
            hessian = objective.joint_columns.gram(curvature.diagonal, n_constants=n_constants)
        else:
            hessian, shares = curvature.hessian(objective.operators, rows, n_constants=n_constants)
        penalty = add_free_group(objective.penalty, objective.n_free) if n_constants else objective.penalty
        return cls(hessian, penalty, shares)

    def step(self, here: Expansion, tol: float) -> tuple[Array, Any, Array]:
        """Minimize the quadratic model at a point to a part of the violation there."""
        objective, point = here.objective, here.point
        assert here.gradient is not None
        v, shift = self.target(objective, point, here.gradient, GROUP_TOL)
        if objective.known.single:
            return v, shift, objective.scores(v) + (point.b + shift) - point.z
        return v, shift, objective.scores(v - point.v) + shift

    def target(self, objective: FactoredObjective, point: Point, gradient: Array, tol: float) -> tuple[Array, Any]:
        """Return coefficients and the shift of intercepts at the minimum of the quadratic model."""
        none = np.zeros(objective.n_free)  # intercepts begin where their slopes are zero
        start, slope = np.append(point.v, none), np.append(gradient, none)
        target, end = self.solve(start, slope, tol)
        self.bend = float((target - start) @ (end - slope))
        return target[: objective.rank], objective.intercepts(target[objective.rank :])

    def solve(self, v: Array, gradient: Array, tol: float, outside: float | Array | None = None) -> tuple[Array, Array]:
        """Minimize from ``v``, at which the quadratic has the gradient; stop at ``tol`` times the first violation.

        ``outside`` is what groups not in the quadratic are to a penalty that couples groups.
        """
        if outside is not None:
            self.penalty = replace(self.penalty, outside=outside)
        at = Position(self._rotate(v), self._rotate(gradient), NOTHING, 0.0)
        self.minimize(at, tol * self._violation(at.v, at.slopes))
        return project_groups(self.penalty, self._rotate_back(at.v)), self._rotate_back(at.slopes)

    def sweep(self, at: Position, groups: Groups) -> tuple[float, float]:
        """Let all groups take some turns; return the violation in place of a gap."""
        if self.penalty.tied:
            self._leave_zero(at)
        before = self.penalty.norms(at.v) > 0
        self._take_turns(at)
        if self.penalty.tied:
            self._end_at_zero(at)
        self._settled = np.array_equal(before, self.penalty.norms(at.v) > 0)
        return np.inf, self._violation(at.v, at.slopes)

    def image(self, step: Position) -> Array:
        return step.v

    def step_jointly(self, at: Position, tol: float) -> bool:
        """Take Newton steps on the nonzero groups, if stable since the last sweep."""
        if not self._settled:
            return False
        for _ in range(len(self.penalty.starts)):  # as long as each ends at a group
            if not self._newton_step(at):
                break
        return self._violation(at.v, at.slopes) <= tol

    def _along(self, d: Array) -> Position:
        """Return a step of the coordinates."""
        return Position(d, self._product(d), NOTHING, 0.0)

    def _take_turns(self, at: Position) -> None:
        """Update every group in turn, several times; on blocks alone, followed by a line search."""
        w, rows = at.v.copy(), at.slopes[self._place]
        for _ in range(TURNS):
            if self._cones is None:
                self.penalty.sweep(self._H, self._eigenvalues, w, rows)
            else:
                assert self.penalty.shape is not None
                self._cones.sweep(self._H, self._eigenvalues, self.penalty.shape, self.penalty.outside, w, rows)
        if self._shares is None:
            at.v, at.slopes[self._place] = w, rows
        else:
            self.advance(at, self._along(w - at.v))

    def _violation(self, v: Array, r: Array) -> float:
        return self.penalty.violation(v, r, None if self._cones is None else self._cones.rests)

    def _leave_zero(self, at: Position) -> None:
        """Move all groups at zero along their smallest subgradients together, against mutual blocking."""
        penalty, norms = self.penalty, self.penalty.norms(at.v)
        sizes = penalty.norms(at.slopes)
        excess = np.where(norms > 0, 0.0, penalty.excess(norms, sizes))
        shares = np.divide(excess, sizes, out=np.zeros_like(sizes), where=excess > 0)
        if shares.any():
            self.advance(at, self._along(-np.repeat(shares, np.diff(penalty.starts)) * at.slopes))

    def _end_at_zero(self, at: Position) -> None:
        """Set the groups of a norm to zero together if the objective decreases."""
        sizes = np.diff(self.penalty.starts)
        for members in self.penalty.joint_norms:
            passed = np.where(np.repeat(members, sizes), at.v, 0.0)
            if passed.any():
                self._jump(at, self._along(-passed))

    def _jump(self, at: Position, step: Position) -> bool:
        """Take a whole step if the objective decreases; return whether taken."""
        ahead = self.penalty.value(at.v + step.v) - self.penalty.value(at.v)
        if gains := float((at.slopes + 0.5 * step.slopes) @ step.v) + ahead < 0.0:
            at.add(step)
        return gains

    def factorized(self, v: Array) -> CurvedBlocks | None:
        """Return the factors of the second derivatives at ``v``, but for what outputs have in common.

        Groups at zero have none. None if rounding made them indefinite.
        """
        try:
            return CurvedBlocks(self._H, PenaltyCurve.evaluate(self.penalty, v), self._place)
        except LinAlgError:
            return None

    def _newton_step(self, at: Position) -> bool:
        """Take a Newton step to the minimum on the line; return whether a group reached zero."""
        direction = self._newton_direction(at.v, at.slopes)
        if direction is None:
            return False
        step = self._along(direction)
        size = self.length(at, step)
        if size < SHORT and self._end_at_a_group(at, step):
            return True
        at.add(step, size)
        return False

    def _newton_direction(self, v: Array, r: Array) -> Array | None:
        """Return the Newton step of the nonzero groups, along faces of cones; None for a singular system."""
        curve = PenaltyCurve.evaluate(self.penalty, v)
        step, slope = np.zeros_like(v), r + curve.gradient
        if self._cones is None:
            factor = self.factorized(v)
            if factor is None or self._shares is None:
                return None if factor is None else factor.solve(-slope)
            return self._conjugate_direction(-slope * curve.free, factor, curve)
        system = block_at(self._H[0], np.flatnonzero(curve.free))
        curve.add_to(system)
        try:
            step[curve.free] = self._cones.step(system, slope[curve.free], v[curve.free], curve.free)
        except LinAlgError:
            return None
        return step

    def _conjugate_direction(self, right: Array, factor: CurvedBlocks, curve: PenaltyCurve) -> Array:
        """Solve with the full second derivatives by block-preconditioned conjugate gradients."""

        def product(d: Array) -> Array:
            return (self._product(d) + curve.product(d)) * curve.free

        return ConjugateGradients(product, right, factor.solve).solve(MOST_GRADIENTS, LEFT)

    def _end_at_a_group(self, at: Position, step: Position) -> bool:
        """Go along a step to where the first group is closest to zero, and leave it there; return whether that gains.

        Nearly collinear groups trade along flat directions of the quadratic: the step is a thousand times as long as
        the limiting group, and the line minimum is at a kink.
        """
        heads = self.penalty.starts[:-1]
        cross, ahead = np.add.reduceat(at.v * step.v, heads), np.add.reduceat(step.v**2, heads)
        closest = np.divide(-cross, ahead, out=np.full(len(heads), np.inf), where=cross < 0.0)
        first = int(np.argmin(closest))
        if not closest[first] < 1.0:
            return False
        own, move = slice(*self.penalty.starts[first : first + 2]), closest[first] * step.v
        move[own] = -at.v[own]
        return self._jump(at, self._along(move))

    def preconditioner(self, v: Array) -> Callable[[Array], Array]:
        """Return the product with the inverse of the second derivatives at ``v``, zero on groups at zero."""
        turned = self._rotate(v)
        factor, free = self.factorized(turned), PenaltyCurve.evaluate(self.penalty, turned).free
        sizes = np.empty_like(v)
        sizes[self._place] = self._eigenvalues

        def apply(r: Array) -> Array:
            r = self._rotate(r)
            return self._rotate_back(np.where(free, r / sizes, 0.0) if factor is None else factor.solve(r))

        return apply


def _eigenbases(H: Array, starts: list[int]) -> tuple[Array, list[Array]]:
    """Return the eigenvalues (T, r) and eigenvectors (T, s, s) of diagonal blocks; those of one size take one call."""
    heads, sizes, eigenvalues = np.array(starts[:-1]), np.diff(starts), np.empty(H.shape[:2])
    bases: dict[int, Array] = {}
    for size in np.unique(sizes).tolist():
        places = heads[sizes == size, None] + np.arange(size)
        values, vectors = np.linalg.eigh(H[:, places[:, :, None], places[:, None, :]])
        eigenvalues[:, places] = np.maximum(values, values[..., -1:] * 1e-14)
        bases.update(zip(places[:, 0].tolist(), vectors.swapaxes(0, 1), strict=True))
    return eigenvalues, [bases[head] for head in starts[:-1]]
