"""Several targets on the same kernels, each with kernel weights of its own: `iteration.py` with an axis of targets.

Arrays have that axis last, (N, k), (M, k) and (M, N, k), what is a number for one target is (k,), and the steps are the
same. What reads kernels, products and weighted sums, is done for all targets at once by matrix products; systems are
factorized one after the other. All of that is in single precision, which directions at a gap of a thousandth do not
feel. What comes out is certified on the kernels as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg.blas import ssymm, ssyrk, strsv
from scipy.linalg.lapack import spotrf

from manykernels.grams.packed import PackedStack, unpack_upper
from manykernels.objective.regularizers.curve import Curve
from manykernels.solvers.base import certified_model
from manykernels.solvers.gram import tuning
from manykernels.solvers.gram.iteration import Linearized, PrimalDual
from manykernels.solvers.gram.sample_variables import EntropicSamples
from manykernels.solvers.gram.start import curved, interior_point
from manykernels.solvers.gram.weight_variables import BoundedWeights, LinearWeights, along, combined, inner
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
AIM = 0.5  # share of the tolerance that is aimed at
# Entries of all kernels, a target, up to which the calls of a step cost most; and the product of rows and targets, a
# kernel, from which on its factorizations do. Of more and larger kernels steps that read all of them take longer than
# those of the targets alone (1.1 times with 60 kernels, 600 rows and 5 targets; 0.2 to 0.8 times where they are taken).
# Tried with 150 to 800 rows by `python benchmarks/gram_or_factored.py --problem classes`
FEW_ENTRIES, ROWS_AND_TARGETS_A_KERNEL = 1_000_000, 100


def goes_side_by_side(problems: Sequence[Problem], tol: float) -> bool:
    """Whether these are targets on the same few kernels in memory, under penalties that select them.

    The second derivative of their loss must not vanish: it is an entropy or a square. Steps side by side read all
    kernels, those of one target alone a few: kernels must be few (`kernels_are_few`), and not held in fewer
    numbers than their triangles.
    """
    first = problems[0]
    loss, stack = first.loss, first.stack
    if tol < COARSEST or loss.couples_samples or stack.has_factors or not stack.in_memory or first.shared:
        return False
    curved = loss.smooth and (loss.entropic or loss.linear_dual)
    n, entries, k = stack.n_samples, stack.n_kernels * stack.n_samples**2, len(problems)
    if not curved or not kernels_are_few(stack.n_kernels, n, k) or stack.nbytes < 2 * entries:
        return False
    alike = all(own.stack is stack and own.loss == loss for own in problems)
    same = all(np.array_equal(own.penalties, first.penalties) for own in problems)
    return alike and same and all(own.fit_intercept == first.fit_intercept and _selects(own) for own in problems)


def kernels_are_few(n_kernels: int, n_samples: int, n_targets: int) -> bool:
    """Return whether steps of so many targets may read all kernels: these are small, or few for the rows."""
    small = n_kernels * n_samples**2 <= n_targets * FEW_ENTRIES
    return small or ROWS_AND_TARGETS_A_KERNEL * n_kernels <= n_targets * n_samples


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
        models, steps = SideBySide.begun(problems, starts).descended(AIM * tol)
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

    def apply_each(self, vectors: Array, *, once: bool = True) -> Array:
        """Return ``K_m rho / w_m^2`` (M, N, k), those of one vector side by side in memory; nothing is remembered."""
        self._count()
        right = vectors.astype(np.float32, order="F")
        found = np.empty((vectors.shape[1], len(self._triangles), len(vectors)))
        for m, triangle in enumerate(self._triangles):
            unpack_upper(triangle, len(vectors), self._matrices[0])
            found[:, m] = ssymm(1.0, self._matrices[0].T, right, lower=1).T
        found *= self.inverse[:, None]
        return np.moveaxis(found, 0, -1)

    def combine(self, weights: Array) -> Array:
        """Return ``sum_m d_m K_m / w_m^2`` (k, N, N) for weights (M, k), of which upper triangles are written anew."""
        self._count()
        n, k = self._matrices.shape[1], weights.shape[1]
        np.matmul((weights.T * self.inverse).astype(np.float32), self._triangles, out=self._sums[:k])
        for triangle, matrix in zip(self._sums[:k], self._matrices, strict=False):
            unpack_upper(triangle, n, matrix)
        return self._matrices[:k]

    def _count(self) -> None:
        self._counters.add(self._triangles.size, self._triangles.itemsize)


class Curves(Curve):
    """Linear and ridge terms of several targets, (k,), the same for all kernels."""

    @property
    def curve(self) -> Curves:
        """Where a regularizer has its terms."""
        return self

    formulas = curve

    def value(self, t: Array) -> Any:
        """Return the penalties of norms (M, k)."""
        return (t * (self.linear + 0.5 * self.ridge * t)).sum(axis=0)

    def scaled_conjugate(self, u: Array) -> tuple[Any, Any]:
        """Return the largest scales at which conjugates are finite, and conjugates there."""
        scale = np.where(self.ridge > 0, 1.0, self.linear / np.maximum(u.max(axis=0), self.linear))
        excess = np.maximum(scale * u - self.linear, 0.0)
        squares = np.divide(excess**2, self.ridge, out=np.zeros_like(excess), where=self.ridge > 0)
        return scale, 0.5 * squares.sum(axis=0)


@dataclass(frozen=True, eq=False)
class Targets:
    """What the iteration reads of a problem, for several that go on: their targets, sample weights and penalties."""

    stack: Kernels
    loss: Any
    fit_intercept: bool
    regularizer: Any  # Curves
    numbers: Array  # (k,)
    y: Array
    weight: Array
    tiny: Array
    penalties: Array  # ones: the kernels are divided by squared penalties

    @classmethod
    def of(cls, problems: Sequence[Problem]) -> Targets:
        """Return these problems as one."""
        first, numbers = problems[0], np.arange(len(problems))
        curves: list[Any] = [own.regularizer.curve for own in problems]
        penalty = Curves(np.array([own.linear for own in curves]), np.array([own.ridge for own in curves]))
        y, weight, tiny = (np.array([getattr(own, name) for own in problems]).T for name in ("y", "weight", "tiny"))
        kernels, ones = Kernels(first, len(problems)), np.ones(first.n_kernels)
        return cls(kernels, first.loss, first.fit_intercept, penalty, numbers, y, weight, tiny, ones)

    @cached_property
    def bound(self) -> Any:
        """The losses on the targets."""
        return self.loss.bind(self.y, self.weight)

    def samples(self, rho: Array, z: Array) -> EntropicSamples:
        """Return the variables of the samples."""
        low, high = self.bound.box
        return EntropicSamples(self.loss, self.y, self.weight, low, high, rho, z)

    def taken(self, targets: Array) -> Targets:
        """Return some of the targets."""
        each: Any = {name: _taken(getattr(self, name), targets) for name in ("numbers", "y", "weight", "tiny")}
        return replace(self, regularizer=self.regularizer.take(targets), **each)


def _taken(values: Array, targets: Array) -> Array:
    """Return what belongs to some of the targets, the numbers of one side by side in memory."""
    return np.moveaxis(np.moveaxis(values, -1, 0)[targets], 0, -1)


class Systems:
    """The Newton systems of the targets; each is factorized when it is first solved, while it is near the processor."""

    def __init__(self, matrices: Array, diagonal: Array, weights: LinearWeights, *, border: bool) -> None:
        self._matrices, self._diagonal, self._border = matrices, diagonal, border
        self._rows = np.moveaxis(weights.rows * np.sqrt(weights.coupling)[:, None], -1, 0).astype(np.float32)
        self._factors: list[Array] = []
        self._ones = np.ones_like(diagonal)  # and the solutions for them

    def solve(self, right: Array, total: Array) -> tuple[Array, Array]:
        """Return solutions with these sums, and multipliers of the border; no numbers where there is no factor."""
        x = np.empty_like(right)
        for k, own in enumerate(right.T):
            if k == len(self._factors):
                self._factors.append(self._factor(k))
                self._ones[:, k] = _solved_by(self._factors[k], self._ones[:, k])
            x[:, k] = _solved_by(self._factors[k], own)
        if not self._border:
            return x, np.zeros_like(total)
        multiplier = (x.sum(axis=0) - total) / self._ones.sum(axis=0)
        return x - multiplier * self._ones, multiplier

    def _factor(self, k: int) -> Array:
        check_deadline()
        matrix = self._matrices[k]
        np.einsum("ii->i", matrix)[:] += self._diagonal[:, k]
        ssyrk(1.0, self._rows[k].T, beta=1.0, c=matrix.T, lower=1, overwrite_c=1)
        factor, failed = spotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
        return np.full_like(factor, np.nan) if failed else factor


def _solved_by(factor: Array, right: Array) -> Array:
    """Return the solution for one vector, which calls for several take three times as long for."""
    return np.asarray(strsv(factor, strsv(factor, right, lower=1), lower=1, trans=1))


class SideBySide(PrimalDual):
    """The iteration on `Targets`, which leaves those behind that are done or left the range of numbers."""

    problem: Any  # Targets
    samples: Any
    kernels: Any

    @classmethod
    def begun(cls, problems: Sequence[Problem], starts: Sequence[Solution]) -> SideBySide:
        """Shrink coefficients inside the bounds on the norms, and let weights grow by as much.

        Of a model of some of the rows the others have the slopes of their losses for coefficients.
        """
        targets: Any = Targets.of(problems)
        kernels, penalty = targets.stack, targets.regularizer
        given = np.array([own.dual_coef for own in starts]).T
        weights = (np.array([own.kernel_weights for own in starts]) * problems[0].penalties ** 2).T
        b = np.array([float(own.intercept) for own in starts])
        # What they were certified with is remembered.
        each = [own.stack.apply_each(rho) for own, rho in zip(problems, given.T, strict=True)]
        products = np.moveaxis(np.array(each) * kernels.inverse[:, None], 0, -1)
        scores, growth = combined(weights, products), 1.0
        rho = np.where(given == 0, -targets.bound.gradient(scores + b), given)
        if (rho != given).any():
            products = kernels.apply_each(rho)
            new = combined(weights, products)
            growth = np.maximum(inner(scores, new) / inner(new, new), 0.0)
        norms = np.sqrt(np.maximum(along(products, rho), 0.0))
        parts = growth * weights * norms
        implied = penalty.derivative(parts)  # the dual norms that would belong to these norms of functions
        hard, largest = penalty.ridge == 0, tuning.SHARE_OF_BOUND * penalty.scaled_conjugate(norms)[0]
        scale = np.where(hard, largest, inner(implied, parts) / inner(norms, parts)).clip(max=1.0)
        shrunk = scale * rho
        pairs = zip(problems, shrunk.T, strict=True)
        inside = np.array([interior_point(*pair, tuning.SMALLEST_MARGIN) for pair in pairs]).T
        moved = np.abs(inside - shrunk).max(axis=0) > NEGLIGIBLE * np.abs(shrunk).max(axis=0)
        products = kernels.apply_each(inside) if moved.any() else scale * products
        samples = targets.samples(inside, scores + b)
        samples.z = curved(samples, samples.z, rho) if targets.loss.entropic else samples.z
        weights = np.where(hard, growth * weights / scale, parts / implied)
        found = cls(targets, samples, BoundedWeights(weights, np.ones_like(weights), penalty), b, products)
        values = np.array([found._primal(factor * weights) for factor in FACTORS])
        weights = np.where(hard, FACTORS[values.argmin(axis=0)], 1.0) * weights
        primal = np.maximum(found._primal(weights), targets.tiny)
        barrier = tuning.START_BARRIER * primal / (2 * len(rho) + len(weights))
        central = BoundedWeights.central(found.squared_norms, barrier, penalty)
        central.weights = np.maximum(central.weights, weights)
        return cls(targets, samples, central, b, products)

    def _check_finite(self, what: str, values: Any) -> None:
        """Nothing to do: a target does not stop the others."""

    def _factorize(self, linear: Linearized) -> Any:
        matrices = self.problem.stack.combine(self.kernels.weights)
        return Systems(matrices, linear[0][0], linear[1], border=self.problem.fit_intercept)

    def descended(self, tol: float) -> tuple[list[Any], list[int]]:
        """Take steps until every target is done; return models, None of what came to no end, and numbers of steps."""
        models: list[Any] = [None] * len(self.b)
        steps = [0] * len(self.b)
        going = self._taken(np.isfinite(self.bounds()).all(axis=0))
        for number in range(1, MOST_STEPS + 1):
            if not len(going.b):
                break
            going.step(tol * np.abs(going.bounds()[0]))
            weights, done = going._pruned(tol)
            for place in np.flatnonzero(done):
                target, d = going.problem.numbers[place], weights[:, place] * going.problem.stack.inverse
                models[target], steps[target] = (going.samples.rho[:, place], d, going.b[place]), number
            going = going._taken(np.isfinite(going.bounds()).all(axis=0) & ~done)
        return models, steps

    def _pruned(self, tol: float) -> tuple[Array, Array]:
        """Return weights with zeros for inactive kernels, and which targets are within ``tol`` with them."""
        primal, dual = self.bounds()
        allowed = dual + tol * np.maximum(np.abs(primal), self.problem.tiny)
        found, done = self.kernels.weights, np.zeros(len(self.b), dtype=bool)
        for factor in tuning.PRUNING_FACTORS:
            weights = np.where(self.kernels.inactive(factor), 0.0, self.kernels.weights)
            good = ~done & (self._primal(weights) <= allowed)
            found, done = np.where(good, weights, found), done | good
        return found, done

    def _taken(self, targets: Any) -> SideBySide:
        """Return the iteration of some of the targets."""
        if targets.all():
            return self
        problem = self.problem.taken(targets)
        rho, z = (_taken(values, targets) for values in (self.samples.rho, self.samples.z))
        weights, slack = (_taken(values, targets) for values in (self.kernels.weights, self.kernels.slack))
        kernels = BoundedWeights(weights, slack, problem.regularizer)
        return SideBySide(problem, problem.samples(rho, z), kernels, self.b[targets], _taken(self._products, targets))
