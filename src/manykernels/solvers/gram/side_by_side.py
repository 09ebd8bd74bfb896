"""Several targets on the same kernels, each with kernel weights of its own: the steps of `iteration.py` side by side.

For every target, with the scores ``z`` of a smooth loss as variables beside ``rho``,

    (diag(h) + sum_m d_m K_m + sum_m c_m q_m q_m') drho + 1 db = shift + z - f - b - sum_m e_m q_m

with ``q_m = K_m rho``, kernels divided by squared penalties. What reads kernels, products and weighted sums, is done
for all targets at once by matrix products, and what is small by arrays with an axis of targets first; systems are
factorized one after the other. All of that is in single precision, which directions at a gap of a thousandth do not
feel. What comes out is certified on the kernels as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg.blas import ssymm, ssyrk
from scipy.linalg.lapack import spotrf, spotrs

from manykernels.grams.packed import PackedStack, unpack_upper
from manykernels.solvers.base import certified_model
from manykernels.solvers.gram import tuning
from manykernels.solvers.gram.start import interior_point
from manykernels.solvers.run import Run, check_deadline
from manykernels.solvers.solution import Limits, Solution, Status

if TYPE_CHECKING:
    from manykernels.objective.problem import Problem
    from manykernels.validation.arrays import Array

COARSEST = 1e-3  # tolerance from which on single precision is enough
MOST_BYTES = 2**25  # of the systems of all targets that go on together
MOST_STEPS = 12  # from a start that is near: four or fewer are usual
FACTORS = 2.0 ** np.arange(-3.0, 1.5, 0.5)  # of weights at a start
NEGLIGIBLE = 1e-6  # of the largest coefficient, by which others move without their products
TINY = 1e-300
AIM = 0.5  # share of the tolerance that is aimed at
# Seconds of a step by which it is decided: to lay an entry of a kernel out, to multiply it for one target, a product of
# a factorization, and what a target alone takes besides (benchmarks/gram_or_factored.py --problem classes)
LAID_OUT, MULTIPLIED, FACTORIZED, ALONE = 6.6e-10, 7.3e-11, 1e-11, 1e-3


def goes_side_by_side(problems: Sequence[Problem], tol: float) -> bool:
    """Whether these are targets on the same few kernels in memory, under penalties that select them.

    The second derivative of their loss must not vanish: it is an entropy or a square. Steps side by side read all
    kernels, those of one target alone a few: it must take less than what targets do by themselves, and no copy of
    kernels that are held in fewer numbers than their triangles.
    """
    first = problems[0]
    loss, stack = first.loss, first.stack
    if tol < COARSEST or loss.couples_samples or stack.has_factors or not stack.in_memory or first.shared:
        return False
    curved = loss.smooth and (loss.entropic or loss.linear_dual)
    n, entries, k = stack.n_samples, stack.n_kernels * stack.n_samples**2, len(problems)
    dear = entries * (LAID_OUT + MULTIPLIED * k) > k * (FACTORIZED * n**3 + ALONE)
    if not curved or dear or stack.nbytes < 2 * entries:
        return False
    alike = all(own.stack is stack and own.loss == loss for own in problems)
    same = all(np.array_equal(own.penalties, first.penalties) for own in problems)
    return alike and same and all(own.fit_intercept == first.fit_intercept and _selects(own) for own in problems)


def _selects(problem: Problem) -> bool:
    """Whether the penalty has the same linear term, and the same ridge term if any, for all kernels."""
    curve = problem.regularizer.curve
    if curve is None or problem.regularizer.formulas is not curve:
        return False
    return curve.elastic and curve.uniform and curve.slanted


def solve_side_by_side(problems: Sequence[Problem], starts: Sequence[Solution], tol: float) -> list[Solution | None]:
    """Return certified solutions from these starts; None of a target that a few steps do not bring within ``tol``."""
    together = max(1, MOST_BYTES // (6 * problems[0].n_samples ** 2))  # a matrix and a triangle each
    found: list[Solution | None] = []
    for first in range(0, len(problems), together):
        part = slice(first, first + together)
        found += _solved(problems[part], starts[part], tol)
    return found


def _solved(problems: Sequence[Problem], starts: Sequence[Solution], tol: float) -> list[Solution | None]:
    stack = problems[0].stack
    runs: list[Run[Solution]] = [Run(Limits(tol=tol, name="side_by_side"), "Steps side by side") for _ in problems]
    before = stack.counters.entries
    with np.errstate(all="ignore"):
        models, steps = Points(problems, starts).descend(tol)
    rhos = {k: problems[k].feasible_dual(model[0]) for k, model in enumerate(models) if model is not None}
    if rhos:
        stack.remember(np.column_stack(list(rhos.values())))
    found: list[Solution | None] = [None] * len(problems)
    for k, rho in rhos.items():
        _, weights, b = models[k]
        runs[k].take(certified_model(problems[k], (rho, weights, b), before, steps[k]))
        if runs[k].status is Status.CONVERGED and not stack.prove_definite(np.flatnonzero(weights)):
            solution = runs[k].solution()
            found[k] = replace(solution, kernel_norms=solution.certificate.block_norms / problems[k].penalties)
    return found


class Kernels:
    """Triangles of kernels divided by squared penalties, in single precision, for products with many vectors."""

    def __init__(self, problem: Problem, n_targets: int) -> None:
        stack, n = problem.stack, problem.n_samples
        if isinstance(stack, PackedStack) and stack.dtype == np.float32:
            self._triangles = stack.packed
        else:
            shape = stack.n_kernels, n * (n + 1) // 2
            self._triangles = stack.triangles(out=np.empty(shape, dtype=np.float32), prove=False)
        # Written to in every step: memory that is fresh costs as much as what is done there.
        self._sums = np.empty((n_targets, self._triangles.shape[1]), dtype=np.float32)
        self._matrices = np.empty((n_targets, n, n), dtype=np.float32)
        self.inverse = problem.penalties**-2.0
        self._counters = stack.counters

    def products(self, rho: Array) -> Array:
        """Return ``K_m rho / w_m^2`` (k, M, N) for vectors (k, N)."""
        self._count()
        n = rho.shape[1]
        right = rho.astype(np.float32).T
        found = np.empty((len(rho), len(self._triangles), n))
        for m, triangle in enumerate(self._triangles):
            unpack_upper(triangle, n, self._matrices[0])
            found[:, m] = ssymm(1.0, self._matrices[0].T, right, lower=1).T
        found *= self.inverse[:, None]
        return found

    def sums(self, weights: Array) -> Array:
        """Return ``sum_m d_m K_m / w_m^2`` (k, N, N) for weights (k, M), of which upper triangles are written anew."""
        self._count()
        n, k = self._matrices.shape[1], len(weights)
        np.matmul((weights * self.inverse).astype(np.float32), self._triangles, out=self._sums[:k])
        for triangle, matrix in zip(self._sums[:k], self._matrices, strict=False):
            unpack_upper(triangle, n, matrix)
        return self._matrices[:k]

    def _count(self) -> None:
        self._counters.add(self._triangles.size, self._triangles.itemsize)


class Points:
    """Where the iteration stands for every target that goes on: arrays have an axis of targets first."""

    def __init__(self, problems: Sequence[Problem], starts: Sequence[Solution]) -> None:
        first = problems[0]
        self._loss, self._border, self._kernels = first.loss, first.fit_intercept, Kernels(first, len(problems))
        self.numbers = np.arange(len(problems))
        self._y, self._share = (np.array([getattr(own, name) for own in problems]) for name in ("y", "weight"))
        low, high = zip(*(own.dual_box for own in problems), strict=True)
        self._low, self._high = (np.array([np.broadcast_to(one, first.y.shape) for one in end]) for end in (low, high))
        curves = [own.regularizer.curve for own in problems]
        self._linear, self._ridge = (
            np.array([[getattr(curve, name)] for curve in curves], dtype=np.float64) for name in ("linear", "ridge")
        )
        self._tiny = np.array([own.tiny for own in problems])
        self._begin(problems, starts)

    def _begin(self, problems: Sequence[Problem], starts: Sequence[Solution]) -> None:
        """Shrink coefficients inside the bounds on the norms, and let weights grow by as much.

        Of a model of some of the rows the others have the slopes of their losses for coefficients.
        """
        given = np.array([own.dual_coef for own in starts])
        weights = np.array([own.kernel_weights for own in starts]) * problems[0].penalties ** 2
        self.b = np.array([float(own.intercept) for own in starts])
        # What they were certified with is remembered.
        each = [own.stack.apply_each(rho) for own, rho in zip(problems, given, strict=True)]
        self.products = np.array(each) * self._kernels.inverse[:, None]
        scores = (weights[:, None] @ self.products)[:, 0]
        self.z, growth = scores + self.b[:, None], 1.0
        slopes = -self._share * self._of("derivative", self.z)
        rho = np.where(given == 0, slopes, given)
        if (rho != given).any():
            self.products = self._kernels.products(rho)
            new = (weights[:, None] @ self.products)[:, 0]
            growth = np.maximum((scores * new).sum(axis=1) / (new * new).sum(axis=1), 0.0)[:, None]
        norms = np.sqrt(np.maximum((self.products @ rho[:, :, None])[:, :, 0], 0.0))
        parts = growth * weights * norms
        implied = self._linear + self._ridge * parts  # the dual norms that would belong to these norms of functions
        scale = (implied * parts).sum(axis=1, keepdims=True) / (norms * parts).sum(axis=1, keepdims=True)
        scale = np.where(self._ridge > 0, scale, tuning.SHARE_OF_BOUND * self._scale(norms)).clip(max=1.0)
        shrunk = scale * rho
        pairs = zip(problems, shrunk, strict=True)
        self.rho = np.array([interior_point(*pair, tuning.SMALLEST_MARGIN) for pair in pairs])
        self.products *= scale[:, :, None]
        moved = np.abs(self.rho - shrunk).max(axis=1) > NEGLIGIBLE * np.abs(shrunk).max(axis=1)
        if moved.any():
            self.products[moved] = self._kernels.products(self.rho[moved])
        self.weights = np.where(self._ridge > 0, parts / implied, growth * weights / scale)
        self._measure()
        self._fit_weights()
        far = np.abs(slopes - rho) > tuning.FAR_APART * self._share
        if self._loss.entropic and far.any():
            halfway = np.clip(0.5 * (self.rho + slopes), self._low, self._high)
            self.z = np.where(far, -self._of("conjugate_derivative", halfway / self._share), self.z)
        self.alive = np.isfinite(self.primal) & np.isfinite(self.dual)
        n_pairs = 2 * self.rho.shape[1] + self.weights.shape[1]
        barrier = tuning.START_BARRIER * np.maximum(self.primal, self._tiny)[:, None] / n_pairs
        bound = self._bound()[0]
        self.slack = np.maximum((bound - self.squares) / 2, tuning.SMALLEST_RELATIVE_SLACK * bound)
        lowest = np.minimum(barrier / self.slack, tuning.HIGHEST_START / self._ridge)
        self.weights = np.maximum(self.weights, lowest)
        self._measure()

    def _fit_weights(self) -> None:
        """Multiply the weights of a target whose penalty is linear by the factor of the smallest primal value."""
        if not (self._ridge == 0).any():
            return
        values = np.array([self._primal(factor * self.weights) for factor in FACTORS])
        factors = np.where(self._ridge > 0, 1.0, FACTORS[values.argmin(axis=0)][:, None])
        self.weights = factors * self.weights
        self._measure()

    def descend(self, tol: float) -> tuple[list[Any], list[int]]:
        """Take steps until every target is done; return models, None of what came to no end, and numbers of steps."""
        models: list[Any] = [None] * len(self.numbers)
        steps = [0] * len(self.numbers)
        self._take(self.alive)
        for number in range(1, MOST_STEPS + 1):
            if not len(self.numbers):
                break
            self._take(self._step(tol))
            done = np.zeros(len(self.numbers), dtype=bool)
            for place, weights in enumerate(self._pruned(AIM * tol)):
                if weights is not None:
                    done[place] = True
                    target = self.numbers[place]
                    model = self.rho[place], weights * self._kernels.inverse, self.b[place]
                    models[target], steps[target] = model, number
            self._take(~done)
        return models, steps

    # --- values -------------------------------------------------------------------------------------------------------

    def _of(self, name: str, z: Array) -> Array:
        """Return values or derivatives of the loss, (k, N)."""
        return np.asarray(getattr(self._loss, name)(self._y.ravel(), z.ravel())).reshape(z.shape)

    def _measure(self) -> None:
        """Compute scores, squared norms, and the primal and dual value."""
        self.squares = np.maximum((self.products @ self.rho[:, :, None])[:, :, 0], 0.0)
        self.scores = (self.weights[:, None] @ self.products)[:, 0] + self.b[:, None]
        norms = np.sqrt(self.squares)
        self.primal = self._primal(self.weights)
        scale = np.where(self._ridge > 0, 1.0, self._scale(norms))
        excess = np.maximum(scale * norms - self._linear, 0.0)
        curved = np.divide(excess**2, self._ridge, out=np.zeros_like(excess), where=self._ridge > 0)
        conjugates = self._of("conjugate", np.clip(scale * self.rho, self._low, self._high) / self._share)
        missing = np.abs(self.rho.sum(axis=1)) * (1.0 + np.abs(self.b)) if self._border else 0.0
        self.dual = -(self._share * conjugates).sum(axis=1) - 0.5 * curved.sum(axis=1) - missing

    def _primal(self, weights: Array) -> Array:
        scores = (weights[:, None] @ self.products)[:, 0] + self.b[:, None]
        norms = weights * np.sqrt(self.squares)
        penalty = self._linear * norms + 0.5 * self._ridge * norms**2
        return (self._share * self._of("value", scores)).sum(axis=1) + penalty.sum(axis=1)

    def _scale(self, norms: Array) -> Array:
        """Return by how much coefficients shrink to be feasible where a linear term stands alone, (k, 1)."""
        return self._linear / np.maximum(norms.max(axis=1, keepdims=True), self._linear)

    def _bound(self) -> tuple[Array, Array]:
        """Return ``B_m^2`` and the derivatives of ``B_m^2 / 2``, (k, M)."""
        room = 1.0 - self._ridge * self.weights
        return (self._linear / room) ** 2, self._linear**2 * self._ridge / room**3

    def _pruned(self, tol: float) -> list[Array | None]:
        """Return weights with zeros for inactive kernels by which each target is within ``tol``, or None."""
        allowed = self.dual + tol * np.maximum(np.abs(self.primal), self._tiny)
        found: list[Array | None] = [None] * len(self.numbers)
        bound = self._bound()[0]
        shares = self.weights * bound  # of the penalty, as slacks are shares of bounds: neither has a unit
        sizes = shares * bound / shares.max(axis=1, keepdims=True)
        for factor in tuning.PRUNING_FACTORS:
            weights = np.where(sizes < factor * self.slack, 0.0, self.weights)
            good = self._primal(weights) <= allowed
            each = zip(weights, found, good, strict=True)
            found = [own if known is None and well else known for own, known, well in each]
        return found

    # --- a step -------------------------------------------------------------------------------------------------------

    def _step(self, tol: float) -> Array:
        """Take one predictor-corrector step; return which targets go on."""
        check_deadline()
        curvature = self._share * np.maximum(self._of("second_derivative", self.z), tuning.SMALLEST_CURVATURE)
        apart = -(self.rho + self._share * self._of("derivative", self.z)) / curvature
        bound, slope = self._bound()
        residual = (self.squares - bound) / 2 + self.slack
        denominator = self.slack + self.weights * slope
        factors, able = self._factorized(1.0 / curvature, self.weights / denominator)
        tracked, modeled = self.z, self.scores
        products, n_kernels = self.slack * self.weights, self.weights.shape[1]

        def direction(target: Array, second: Array | float) -> None:
            wanted = target - products - second
            shift = (wanted + self.weights * residual) / denominator
            right = apart + tracked - modeled - (shift[:, None] @ self.products)[:, 0]
            self._drho, self._db = self._solved(factors, right)
            along = (self.products @ self._drho[:, :, None])[:, :, 0]
            self._dweights = (wanted + self.weights * (residual + along)) / denominator
            self._dslack = slope * self._dweights - residual - along
            self._dz = apart - self._drho / curvature

        direction(np.zeros((len(products), 1)), 0.0)
        primal_step, dual_step = self._longest()
        barrier = products.sum(axis=1, keepdims=True)
        after = (self.slack + primal_step * self._dslack) * (self.weights + dual_step * self._dweights)
        share = (after.sum(axis=1, keepdims=True) / barrier).clip(0.0, 1.0) ** 3
        direction(np.maximum(share * barrier, self._lowest(tol)) / n_kernels, self._dweights * self._dslack)
        dproducts = self._kernels.products(self._drho)
        trusted = self._trusted(dproducts, bound, np.abs(tracked - modeled).max(axis=1), np.abs(tracked).max(axis=1))
        primal_step, dual_step = (np.minimum(self._shortened(step), trusted) for step in self._longest())
        agree = np.abs(tracked - modeled).max(axis=1) <= tuning.AGREEMENT * np.abs(modeled).max(axis=1)
        both = np.where(agree[:, None], np.minimum(primal_step, dual_step), np.inf)
        self._move(np.minimum(primal_step, both), np.minimum(dual_step, both), dproducts)
        return able & np.isfinite(self.primal) & np.isfinite(self.dual)

    def _factorized(self, diagonal: Array, coupling: Array) -> tuple[list[Array], Array]:
        """Return Cholesky factors of the systems, and which there are."""
        factors, able = [], np.ones(len(diagonal), dtype=bool)
        rows = (self.products * np.sqrt(coupling)[:, :, None]).astype(np.float32)
        for place, matrix in enumerate(self._kernels.sums(self.weights)):
            check_deadline()
            np.einsum("ii->i", matrix)[:] += diagonal[place]
            ssyrk(1.0, rows[place].T, beta=1.0, c=matrix.T, lower=1, overwrite_c=1)
            factor, failed = spotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
            able[place] = not failed and np.isfinite(factor.diagonal()).all()
            factors.append(factor)
        return factors, able

    def _solved(self, factors: Sequence[Array], right: Array) -> tuple[Array, Array]:
        """Return directions of coefficients whose sums are zero after a step, with those of the intercepts."""
        both = np.stack([right, np.ones_like(right)], axis=2)
        x = np.array([spotrs(own, one, lower=1)[0] for own, one in zip(factors, both, strict=True)], dtype=np.float64)
        if not self._border:
            return x[:, :, 0], np.zeros(len(x))
        shift = (x[:, :, 0].sum(axis=1) + self.rho.sum(axis=1)) / x[:, :, 1].sum(axis=1)
        return x[:, :, 0] - shift[:, None] * x[:, :, 1], shift

    def _longest(self) -> tuple[Array, Array]:
        """Return the longest primal and dual steps (k, 1), also within the range in which curvatures mean anything."""
        change = np.abs(self._dz).max(axis=1, keepdims=True)
        most = np.minimum(1.0, tuning.LARGEST_SCORE_CHANGE / np.maximum(change, tuning.LARGEST_SCORE_CHANGE))
        primal = -np.minimum((self._dslack / self.slack).min(axis=1, keepdims=True), -1.0)
        dual = -np.minimum((self._dweights / self.weights).min(axis=1, keepdims=True), -1.0)
        room = np.maximum(1.0 - self._ridge * self.weights, TINY)  # below the pole of a weight
        dual = np.maximum(dual, (self._ridge * self._dweights / room).max(axis=1, keepdims=True))
        return np.minimum(most, 1.0 / primal), np.minimum(most, 1.0 / dual)

    def _lowest(self, tol: float) -> Array:
        """Return the sum of complementarity products to keep while residuals are large, or below what is asked for."""
        gap = np.maximum(self.primal - self.dual, 0.0)
        share = np.where(gap < tuning.NEAR * self.primal, tuning.LOWEST_TARGET_NEAR, tuning.LOWEST_TARGET)
        return np.maximum(share * gap, tuning.WANTED_SHARE * AIM * tol * np.abs(self.primal))[:, None]

    def _trusted(self, dproducts: Array, bound: Array, apart: Array, size: Array) -> Array:
        """Return the step at which what the linearization leaves out is as large as what it is about, (k, 1)."""
        curved = np.abs((dproducts @ self._drho[:, :, None])[:, :, 0]) / 2
        ratio = (curved / (bound + np.abs(self.squares - bound))).max(axis=1)
        bilinear = np.abs((self._dweights[:, None] @ dproducts)[:, 0]).max(axis=1)
        ratio = np.maximum(ratio, bilinear / np.maximum(apart + size, self._tiny))
        return np.sqrt(tuning.TRUST / np.maximum(ratio, tuning.TRUST))[:, None]

    def _shortened(self, step: Array) -> Array:
        gap = (self.primal - self.dual) / np.maximum(np.abs(self.primal), self._tiny)
        return np.where(step == 1.0, 1.0, np.maximum(tuning.SHORTEST_FRACTION, 1.0 - gap)[:, None] * step)

    def _move(self, primal_step: Array, dual_step: Array, dproducts: Array) -> None:
        """Take the steps; coefficients that would leave their domain stop short of its end."""
        rho = self.rho + primal_step * self._drho
        with np.errstate(invalid="ignore"):
            low = np.where(np.isfinite(self._low), self._low + tuning.CLOSEST * (self.rho - self._low), -np.inf)
            high = np.where(np.isfinite(self._high), self._high - tuning.CLOSEST * (self._high - self.rho), np.inf)
        self.rho = np.clip(rho, low, high)
        self.z = self.z + dual_step * self._dz
        self.weights = self.weights + dual_step * self._dweights
        self.slack = self.slack + primal_step * self._dslack
        self.b = self.b + dual_step[:, 0] * self._db
        self.products = self.products + primal_step[:, :, None] * dproducts
        cut = (self.rho != rho).any(axis=1)
        if cut.any():
            self.products[cut] = self._kernels.products(self.rho[cut])
        self._measure()

    def _take(self, which: Array) -> None:
        """Go on with some of the targets."""
        if which.all():
            return
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(self, name, value[which])
