"""Many targets on the same few kernels, each with its own kernel weights: block coordinate descent, squared loss.

A kernel ``K_m = Z_m Z_m'`` has the features ``Z_m`` of a pivoted Cholesky factorization, as many as the rank. They are
centered if there is an intercept, multiplied by roots of the sample weights, and rotated until their columns are
orthogonal. With ``f_m = Z_m v_m`` the problem of every target is

    min_v  1/2 ||y - sum_m Z_m v_m||^2 + sum_m (a ||v_m|| + c/2 ||v_m||^2).

The minimum over a single block is closed-form up to the length: with ``g = Z_m'(residual without the block)`` and ``S =
Z_m'Z_m``, diagonal, ``v_m = g / (S + c + a / t)``, where ``t = ||v_m||`` solves a scalar equation; ``v_m = 0`` if
``||g|| <= a``. A sweep over the blocks takes matrix products of all targets at once. Affine combinations of the last
iterates (Anderson extrapolation) are accepted if they lower the objective. Converged targets leave the batch.

Q. Bertrand, M. Massias, "Anderson acceleration of coordinate descent", AISTATS 2021.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import qr, solve_triangular

from manykernels.compiled import compiled
from manykernels.grams.pivoted import RANK_TOL, PivotedFactors
from manykernels.solvers.gram.target_certificates import certify
from manykernels.solvers.run import CAUTION, OutOfTimeError, check_deadline, deadline
from manykernels.solvers.solution import IterationRecord, Solution, Status

if TYPE_CHECKING:
    from manykernels.objective.certificate import Certificate
    from manykernels.objective.problem import Problem
    from manykernels.objective.regularizers import Regularizer
    from manykernels.validation.arrays import Array

SHORTEST = 1e-7  # of the longest column of features: what is left out
# A target alone takes so many cubes of the rows, features so many of their number squared times the rows, and a batch
# so many sweeps. Up to so many features a batch is always faster.
ALONE, DECOMPOSITION, SWEEPS, ALWAYS = 3.5, 10.0, 80.0, 500
CHUNK = 512  # targets that go on together: their residuals stay in the cache
MEMORY = 5  # iterates that are combined
MOST_SWEEPS = 400
LEAVING = 1e-2  # of the largest norm, up to which kernels whose dual norms are below the strength are left out
TINY = float(np.finfo(float).tiny)
RIDGE = 1e-10  # of the trace of a system of Anderson's: iterates may be dependent


@dataclass(frozen=True, eq=False)
class KernelFeatures:
    """Features of every kernel among the training rows."""

    factors: tuple[Array, ...]  # (e_m, r_m): orthogonal columns, in coordinates of the basis, of which the first count
    squares: tuple[Array, ...]  # (r_m,): squared lengths of the columns
    basis: Array | None  # (N, k): orthonormal columns; None for the unit vectors
    roots: Array  # (N,): of the sample weights
    centered: bool
    pivots: tuple[Array, ...]  # (r_m,) int: training rows that give the features of new rows
    triangles: tuple[Array, ...]  # (r_m, r_m): features of the pivots, lower triangular
    rotations: tuple[Array, ...]  # (r_m, r): from these features to the columns
    means: tuple[Array, ...]  # (r,): of rotated features over the training rows; zero without an intercept

    @classmethod
    def factorize(
        cls, problem: Problem, *, rank_tol: float = RANK_TOL, summed: bool = False, n_targets: float = np.inf
    ) -> KernelFeatures | None:
        """Factorize the kernels of a problem, in turn, or their sum.

        Kernels are divided by the squares of their penalties. None where so many targets are solved faster alone.
        """
        stack, weight, penalties, centered = problem.stack, problem.weight, problem.penalties, problem.fit_intercept
        factors = (
            PivotedFactors.factorize([stack.combine(penalties**-2.0)], rank_tol) if summed else stack.pivoted(rank_tol)
        )
        if not summed and not worth_features(factors.ranks, len(weight), n_targets):
            return None
        roots, share = np.sqrt(weight), weight / weight.sum()
        found = []
        scales = 1.0 / penalties[: len(factors.features)] if not summed else np.ones(1)
        for plain, pivots, scale in zip(factors.features, factors.pivots, scales, strict=True):
            features = scale * plain
            mean: Any = share @ features * centered
            _, lengths, rotation = np.linalg.svd((features - mean) * roots[:, None], full_matrices=False)
            kept = lengths > SHORTEST * max(lengths.max(initial=0.0), np.finfo(float).tiny)
            rotation = rotation[kept].T
            columns = ((features - mean) * roots[:, None]) @ rotation
            found.append((columns, lengths[kept] ** 2, pivots, features[pivots], rotation, mean @ rotation))
        columns, *others = (tuple(part) for part in zip(*found, strict=True))
        basis, ends = None, np.cumsum([0, *(own.shape[1] for own in columns)])
        if ends[-1] < len(roots):
            basis, whole = qr(np.hstack(columns), mode="economic")
            columns = tuple(whole[:end, first:end] for first, end in pairwise(ends))
        return cls(columns, others[0], basis, roots, centered, *others[1:])

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Slices of the coefficients of every kernel."""
        ends = np.cumsum([0, *(own.shape[1] for own in self.factors)]).tolist()
        return tuple(slice(*pair) for pair in pairwise(ends))

    @property
    def size(self) -> int:
        """Number of coefficients of a target."""
        return self.slices[-1].stop

    def coordinates(self, targets: Array) -> tuple[Array, Array]:
        """Return targets (T, N) in coordinates of the basis, (T, k), and the squared lengths of what it leaves, (T,).

        They are centered if there is an intercept, and multiplied by the roots of the sample weights.
        """
        rows = self._rows(targets)
        if self.basis is None:
            return rows, np.zeros(len(rows))
        inside = rows @ self.basis
        return inside, np.maximum(np.einsum("ti,ti->t", rows, rows) - np.einsum("ti,ti->t", inside, inside), 0.0)

    def _rows(self, targets: Array) -> Array:
        rows = targets * self.roots
        if self.centered:
            direction = self.roots / np.linalg.norm(self.roots)
            rows -= (rows @ direction)[:, None] * direction
        return rows

    def residuals(self, targets: Array, coefficients: Array) -> Array:
        """Return targets (T, N), centered and weighted, minus the functions of coefficients (T, R)."""
        functions = np.zeros((len(targets), len(self.factors[-1])))
        for factor, own in zip(self.factors, self.slices, strict=True):
            functions[:, : len(factor)] += coefficients[:, own] @ factor.T
        return self._rows(targets) - (functions if self.basis is None else functions @ self.basis.T)

    def evaluate_rows(self, kernel: int, values: Array) -> Array:
        """Return the features of new rows from the values ``K_m / w_m^2`` to the pivots, (n, r_m)."""
        features = solve_triangular(self.triangles[kernel], values.T, lower=True).T
        return np.asarray(features @ self.rotations[kernel] - self.means[kernel])


def worth_features(ranks: Array, n: int, n_targets: float) -> bool:
    """Return True if so many targets are solved faster by features of the ranks than in turn."""
    batch = n_targets * 4 * SWEEPS * n * float(ranks.sum()) + DECOMPOSITION * n * float(np.square(ranks).sum())
    return bool(ranks.sum() <= ALWAYS or batch <= n_targets * ALONE * float(n) ** 3)


@dataclass(frozen=True, eq=False)
class TargetFits:
    """Models of some targets, as coefficients of the features."""

    coefficients: Array  # (T, R)
    weights: Array  # (T, M): kernel weights
    gaps: Array  # (T,): relative duality gaps
    sweeps: Array  # (T,) int


def fit_targets(
    features: KernelFeatures,
    targets: Array,
    rest: Array,
    linear: Array,
    squared: Array,
    *,
    tol: float,
    scale: Array,
    start: Array | None = None,
    expanded: bool = True,
    most_sweeps: int = MOST_SWEEPS,
) -> TargetFits:
    """Minimize the objective of every target; see the top of the module.

    Parameters
    ----------
    features : KernelFeatures
    targets, rest : ndarray of shape (T, k), (T,)
        From `KernelFeatures.coordinates`.
    linear, squared : ndarray of shape (T,)
        Strengths ``a`` and ``c`` of the norms and of the squared norms.
    tol : float
        Relative duality gap at which the solver stops.
    scale : ndarray of shape (T,)
        Least size of a primal value in a relative gap.
    start : ndarray of shape (T, R), optional
        Coefficients to begin from.
    expanded : bool
        Whether the gap is that of the model ``sum_m d_m K_m rho`` in place of the coefficients themselves.
    most_sweeps : int
        Sweeps after which a target leaves the batch unchanged.
    """
    n, kernels = len(targets), len(features.factors)
    out = TargetFits(
        np.zeros((n, features.size), dtype=targets.dtype),
        np.zeros((n, kernels)),
        np.full(n, np.inf),
        np.zeros(n, dtype=int),
    )
    for first in range(0, n, CHUNK):
        check_deadline()
        rows = slice(first, first + CHUNK)
        begin = np.zeros_like(out.coefficients[rows]) if start is None else start[rows].copy()
        batch = _Batch(features, targets[rows], rest[rows], linear[rows], squared[rows], scale[rows], begin)
        for at, own in batch.descend(tol, expanded, most_sweeps):
            for name, values in own.items():
                getattr(out, name)[first + at] = values
    return out


class _Batch:
    """Some targets on their way to their minima."""

    def __init__(
        self, features: KernelFeatures, y: Array, rest: Array, linear: Array, squared: Array, scale: Array, v: Array
    ) -> None:
        self.features, self.y, self.rest, self.scale, self.v = features, y, rest, scale, v
        self.linear, self.squared = linear, squared
        self.at = np.arange(len(y))
        self.r = y.copy()
        if v.any():
            self.r -= self.functions(v)
        self.history: list[tuple[Array, Array]] = []

    def functions(self, v: Array) -> Array:
        """Return functions from coefficients, (T, k)."""
        out = np.zeros_like(self.y)
        for factor, own in zip(self.features.factors, self.features.slices, strict=True):
            out[:, : len(factor)] += v[:, own] @ factor.T
        return out

    def descend(self, tol: float, expanded: bool, most_sweeps: int) -> Iterator[tuple[Array, dict[str, Any]]]:
        """Yield positions of finished targets with their models."""
        for sweep in range(1, most_sweeps + 1):
            self.sweep()
            found = self.models(expanded)
            done = (found["gaps"] <= tol) | (sweep == most_sweeps)
            if done.any():
                yield self.at[done], {k: x[done] for k, x in found.items()} | {"sweeps": np.full(done.sum(), sweep)}
                if done.all():
                    return
                self.keep(~done)
            if len(self.history) > MEMORY:  # not before the test: what is extrapolated is no exact zero
                self.extrapolate()

    def keep(self, alive: Array) -> None:
        """Go on with some of the targets."""
        for name in ("y", "rest", "linear", "squared", "scale", "v", "r", "at"):
            setattr(self, name, getattr(self, name)[alive])
        self.history = [(v[alive], r[alive]) for v, r in self.history]

    def sweep(self) -> None:
        """Minimize over the coefficients of every kernel in turn."""
        self.history.append((self.v.copy(), self.r.copy()))
        for factor, squares, own in zip(
            self.features.factors, self.features.squares, self.features.slices, strict=True
        ):
            n = len(factor)
            v = self.v[:, own]
            gradient = self.r[:, :n] @ factor
            change = np.empty_like(gradient)
            _minimize_block(gradient, v, squares.astype(v.dtype, copy=False), self.linear, self.squared, change)
            self.r[:, :n] -= change @ factor.T

    def extrapolate(self) -> None:
        """Take the affine combination of the last iterates with the least predicted change, if lower."""
        steps = [*self.history, (self.v, self.r)]
        changes = np.array([after[0] - before[0] for before, after in pairwise(steps)])
        system = np.einsum("ati,bti->tab", changes, changes)
        scale = np.trace(system, axis1=1, axis2=2)[:, None, None]
        system = system / np.maximum(scale, np.finfo(system.dtype).tiny) + RIDGE * np.eye(len(changes))
        shares = np.linalg.solve(system, np.ones((*system.shape[:2], 1)))[:, :, 0]
        shares /= shares.sum(axis=1)[:, None]
        v = np.einsum("ta,ati->ti", shares, np.array([own[0] for own in steps[1:]])).astype(self.v.dtype)
        r = np.einsum("ta,ati->ti", shares, np.array([own[1] for own in steps[1:]])).astype(self.r.dtype)
        lower = self.objective(v, r) < self.objective(self.v, self.r)
        self.v[lower], self.r[lower] = v[lower], r[lower]
        self.history = []

    def norms(self, v: Array) -> Array:
        """Return the lengths of the blocks, (T, M)."""
        return np.column_stack([np.sqrt(np.einsum("ti,ti->t", v[:, own], v[:, own])) for own in self.features.slices])

    def objective(self, v: Array, r: Array) -> Array:
        """Return the objectives, (T,)."""
        return self.value(self.norms(v), np.einsum("ti,ti->t", r, r))

    def value(self, norms: Array, square: Array) -> Array:
        """Return the objectives from norms (T, M) and squared lengths of residuals inside the basis."""
        penalty = self.linear * norms.sum(axis=1) + 0.5 * self.squared * (norms**2).sum(axis=1)
        return np.asarray(0.5 * (square + self.rest) + penalty)

    def models(self, expanded: bool) -> dict[str, Array]:
        """Return coefficients, kernel weights, bounds on the objective and relative gaps."""
        norms, r = self.norms(self.v), self.r
        bends = self.linear[:, None] + self.squared[:, None] * norms
        weights = np.where(
            bends > 0, norms / np.where(bends > 0, bends, 1.0), 1.0 / np.maximum(self.squared[:, None], TINY)
        )
        slopes = [r[:, : len(factor)] @ factor for factor in self.features.factors]
        dual_norms = np.column_stack([np.sqrt(np.einsum("ti,ti->t", own, own)) for own in slopes])
        square, inner = np.einsum("ti,ti->t", r, r), np.einsum("ti,ti->t", r, self.y)
        primal = self.value(norms, square)
        if expanded:
            leaving = (dual_norms < self.linear[:, None]) & (norms <= LEAVING * norms.max(axis=1, keepdims=True))
            weights = np.where(leaving, 0.0, weights)
            left = self.y - self.functions(np.hstack([own * weights[:, m, None] for m, own in enumerate(slopes)]))
            primal = self.value(weights * dual_norms, np.einsum("ti,ti->t", left, left))
        largest = dual_norms.max(axis=1)
        above = (self.squared <= 0) & (largest > self.linear)
        shrink = np.where(above, self.linear / np.where(above, largest, 1.0), 1.0)
        beyond = np.maximum(dual_norms - self.linear[:, None], 0.0) ** 2
        bend = np.where(self.squared > 0, beyond.sum(axis=1) / (2 * np.where(self.squared > 0, self.squared, 1.0)), 0.0)
        dual = shrink * (inner + self.rest) - 0.5 * shrink**2 * (square + self.rest) - bend
        gaps = np.maximum(primal - dual, 0.0) / np.maximum(np.abs(primal), self.scale)
        return {"coefficients": self.v, "weights": weights, "gaps": gaps}


@compiled(fastmath={"reassoc", "contract", "arcp", "nsz"})
def _minimize_block(gradient: Array, v: Array, squares: Array, linear: Array, squared: Array, change: Array) -> None:
    """Set ``v`` (T, r) to the minimum over one block, and ``change`` to its step; ``gradient`` is ``Z'r`` before."""
    size = squares.size
    for t in range(len(v)):
        a, c, length = linear[t], squared[t], 0.0
        for i in range(size):
            gradient[t, i] += squares[i] * v[t, i]
            length += gradient[t, i] * gradient[t, i]
        if length <= a * a or length == 0.0:
            for i in range(size):
                change[t, i] = -v[t, i]
                v[t, i] = 0.0
            continue
        radius = 0.0
        if a > 0.0:
            for i in range(size):
                radius += v[t, i] * v[t, i]
            radius = np.sqrt(radius)
            for _ in range(50):  # Newton's method for 1 / ||g / ((S + c) radius + a)|| = 1: concave, from any side
                value, slope = 0.0, 0.0
                for i in range(size):
                    bend = squares[i] + c
                    ratio = gradient[t, i] / (bend * radius + a)
                    value += ratio * ratio
                    slope += ratio * ratio * bend / (bend * radius + a)
                root = np.sqrt(value)
                step = (root - 1.0) * value / slope
                radius = max(radius + step, 0.0)
                if abs(step) <= 1e-12 * radius:
                    break
        for i in range(size):
            if a > 0.0:
                new = gradient[t, i] * radius / ((squares[i] + c) * radius + a)
            else:
                new = gradient[t, i] / (squares[i] + c)
            change[t, i] = new - v[t, i]
            v[t, i] = new


# --- certified solutions ---------------------------------------------------------------------------------------------

FEWEST = 8  # targets that are worth features of the kernels, unless one factorization serves all
AIM = 0.5  # share of the tolerance that is aimed at: the certificate is that of the exact kernels
CERTIFIED_TOGETHER = 256  # targets whose products with the kernels are held


def takes_batch(problems: Sequence[Problem]) -> bool:
    """Return True if problems differ in target and strength only, under a squared loss and a penalty on norms."""
    first = problems[0]
    loss, stack = first.loss, first.stack
    if len(problems) < 2 or first.shared or stack.has_factors:
        return False
    if len(problems) < FEWEST and not all(map(_fixed, problems)):
        return False
    return all(own.stack is stack and own.loss == loss and _has_two_terms(own) for own in problems)


def many_targets(problems: Sequence[Problem]) -> bool:
    """Return True if problems are solved in a batch by features of the kernels."""
    return len(problems) >= FEWEST and takes_batch(problems)


def batches(loss: Any, regularizer: Regularizer, n_targets: int) -> bool:
    """Return True if so many targets under a loss and a penalty are solved in a batch, of kernels that are matrices."""
    curve = regularizer.curve
    elastic = curve is not None and regularizer.formulas is curve and curve.elastic and curve.uniform
    return n_targets >= FEWEST and bool(elastic and loss.linear_dual and loss.curvature == 1)


def _has_two_terms(problem: Problem) -> bool:
    return batches(problem.loss, problem.regularizer, FEWEST) and not problem.regularizer.unpenalized.size


def _fixed(problem: Problem) -> bool:
    """Return True if the penalty is on squared norms alone, so that the sum of the kernels is one kernel."""
    curve = problem.regularizer.curve
    return curve is not None and not np.any(curve.linear)


def strengths_of(problems: Sequence[Problem]) -> tuple[Array, Array]:
    """Return the strengths of the norms and of the squared norms, (T,) each."""
    curves: list[Any] = [problem.regularizer.curve for problem in problems]
    return np.array([float(own.linear) for own in curves]), np.array([float(own.ridge) for own in curves])


def keep_empty_norms(problems: Sequence[Problem]) -> list[Array]:
    """Return the dual norms of all models without kernels, computed together; the problems keep them."""
    found: list[Array] = []
    problems[0].stack.pivoted()
    for start in range(0, len(problems), CHUNK):
        some = problems[start : start + CHUNK]
        found += dual_norms_of(some, [problem.empty_coefficients for problem in some])
        for problem, own in zip(some, found[start:], strict=True):
            problem.keep_empty_norms(own)
            if len(problems) > CHUNK:
                problem.forget_empty()
    return found


def dual_norms_of(problems: Sequence[Problem], coefficients: Sequence[Array]) -> list[Array]:
    """Return the dual norms (M,) of problems on the same kernels at their dual coefficients (N,) or (N, T)."""
    first = problems[0]
    if not takes_batch(problems):
        return [own.dual_norms(rho) for own, rho in zip(problems, coefficients, strict=True)]
    found: list[Array] = []
    for start in range(0, len(problems), CHUNK):
        rhos = np.column_stack(coefficients[start : start + CHUNK]).astype(np.float64, copy=False)
        units = np.abs(rhos).max(axis=0)
        units[units == 0] = 1.0
        squares = np.maximum(first.stack.quad_each(rhos / units), 0.0)
        found += list(np.sqrt(squares.T) * units[:, None] / first.penalties)
    return found


def solve_targets(
    problems: Sequence[Problem], *, tol: float, time_limit: float | None = None, **settings: Any
) -> tuple[list[Solution | None], bool]:
    """Return certified solutions of problems that `takes_batch` accepts, and whether Ctrl-C ended them.

    None for targets above the tolerance, or not tried. Dual coefficients are rows of one array, in the precision of the
    targets.
    """
    found = list[Solution | None]([None] * len(problems))
    rhos = np.zeros((len(problems), problems[0].n_samples), problems[0].y.dtype)
    fixed = np.array([_fixed(problem) for problem in problems])
    try:
        with suppress(OutOfTimeError), deadline(time_limit):
            for summed in (True, False):
                own = np.flatnonzero(fixed == summed)
                features = (
                    KernelFeatures.factorize(problems[0], summed=summed, n_targets=own.size) if own.size else None
                )
                if features is None:
                    continue
                for some in np.split(own, range(CHUNK, own.size, CHUNK)):
                    mine = [problems[k] for k in some]
                    solved = _solve(mine, features, rhos, some, tol, settings.get("max_iter"), summed=summed)
                    for k, solution in zip(some, solved, strict=True):
                        found[k] = solution
    except KeyboardInterrupt:
        return found, True
    active = np.any([each.kernel_weights for each in found if each is not None], axis=0)
    if np.any(active) and problems[0].stack.prove_definite(np.flatnonzero(active)):
        return [None] * len(problems), False  # another matrix stands for a kernel that was indefinite by rounding
    return found, False


def _solve(
    problems: Sequence[Problem],
    features: KernelFeatures,
    kept: Array,
    rows: Array,
    tol: float,
    max_iter: int | None,
    *,
    summed: bool,
) -> list[Solution | None]:
    """Return the solutions of some problems, whose dual coefficients are written to rows of an array."""
    targets = np.array([problem.y for problem in problems], dtype=np.float64)
    inside, rest = features.coordinates(targets)
    scale = np.array([problem.tiny for problem in problems])
    most = MOST_SWEEPS if max_iter is None else max_iter
    settings: dict[str, Any] = {"tol": AIM * tol, "scale": scale, "most_sweeps": most}
    linear, squared = strengths_of(problems)
    fits = fit_targets(features, inside, rest, linear, squared, **settings)
    kept[rows] = features.residuals(targets, fits.coefficients) * features.roots
    rhos = kept[rows].astype(np.float64)
    weights = np.repeat(fits.weights, problems[0].n_kernels, axis=1) if summed else fits.weights
    weights = weights / problems[0].penalties ** 2
    found: list[Solution | None] = []
    for start in range(0, len(problems), CERTIFIED_TOGETHER):
        some = slice(start, start + CERTIFIED_TOGETHER)
        own = problems[some]
        intercepts, certificates = certify(own, rhos[some], weights[some], linear[some], squared[some])
        models = zip(
            own,
            [kept[k] for k in rows[some]],
            weights[some],
            intercepts.tolist(),
            certificates,
            fits.sweeps[some],
            strict=True,
        )
        found += [_certify_solution(*model, tol=tol, summed=summed) for model in models]
    return found


def _certify_solution(
    problem: Problem,
    rho: Array,
    weights: Array,
    b: float,
    certificate: Certificate,
    sweeps: int,
    *,
    tol: float,
    summed: bool,
) -> Solution | None:
    """Return a model as a solution; None outside the tolerance, or within rounding of the tolerance."""
    gap = certificate.relative_gap
    if certificate.crossed or not (gap <= tol and certificate.relative_rounding <= CAUTION * tol):
        return None
    n_active, n_steps = int(np.count_nonzero(weights)), int(sweeps)
    record = IterationRecord(n_steps, 0.0, 1.0, n_steps, certificate.primal, certificate.dual, gap, n_active)
    way = "by one factorization" if summed else "in one batch"
    message = f"converged: relative duality gap {gap:.2e} <= tol {tol:.2e}, all targets {way}"
    norms = certificate.block_norms / problem.penalties
    return Solution(
        rho, weights, b, certificate, Status.CONVERGED, message, (record,), 1.0, n_steps, n_steps,
        solver="many_targets", kernel_norms=norms,
    )  # fmt: skip
