"""Models at fixed kernel weights, for all targets at once.

With weights ``g`` the ridge penalty ``C/2 sum_m ||f_m||^2 / g_m`` is the penalty of a single kernel, ``K = sum_m g_m
K_m``, centered for an intercept. In coefficients, ``f = K a + b``, the problem and the Newton systems are

    min_{a,b}  sum_i s_i l(y_i, f_i) + C/2 a'Ka,
    K (W K + C) da + K w db = -K (s l' + C a),   w'K da + w'1 db = -s'l',   W = diag(w),  w_i = s_i l''_i.

The systems are solved by conjugate gradients, for all targets in parallel. With residuals ``K u``, the preconditioner
``K (c K + C)``, where ``c`` is the mean of ``w``, takes a Cholesky factor of ``K + (C/c) I`` alone. Targets with
similar ``C/c`` share the factor, exact for the squared loss. Products with ``K`` follow from the solution: ``K (K + r
I)^{-1} u = u - r (K + r I)^{-1} u``.

An eigendecomposition ``K = U L U'`` takes as long as some twenty factors, and serves every strength and target: with
``f = U L^{1/2} v + b`` the squared loss has the optimum in closed form. It is for many targets, and for few rows.

Kernels as features, for example projections on landmarks, need no matrix among samples: with ``f = Z v + b`` the
penalty is ``C/2 v'v``, the Newton systems are ``Z'WZ + C``, with the preconditioner ``c Z'Z + C``. A product with a
system reads the features twice, and a factor takes a cube of their number, independent of the rows.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import LinAlgError, eigh, get_blas_funcs, get_lapack_funcs

from manykernels.estimators.selection.averages_loops import exact_product, go_along
from manykernels.grams.precision import in_precision, product_in_precision
from manykernels.objective.certificate import Certificate, KKTResiduals
from manykernels.objective.losses import Loss
from manykernels.solvers import Solution
from manykernels.validation.arrays import Array

if TYPE_CHECKING:
    from manykernels.objective.problem import Problem

NEGLIGIBLE = 1e-11  # eigenvalues below this share of the largest are rounding
# An eigendecomposition takes as long as so many Cholesky factors, the strengths of a fold are so many, and each of them
# has so many products of the kernel with every target, and calls that take as long as so many operations.
EIGENVECTORS, STRENGTHS, PRODUCTS, CALLS = 20.0, 5.0, 8.0, 3e7
MOST_STEPS, MOST_PRODUCTS, MOST_HALVINGS = 60, 60, 30
FORCING = 0.1  # residual of a Newton system, relative to its right-hand side; less where the decrement is smaller
# Share of what a system has promised so far: a product that promises no more is the last. Of walks of ten digits in
# three views, 79 models in folds, 740 solutions with factors in place of 1,021, in 206 systems in place of 204, and
# gaps of 7.7e-3 at most, where 1e-2 is allowed; 849 solutions with half of it, 675 and a gap of 2.4e-2 with twice.
SMALL_GAIN = 0.1
EXACT, FINEST = 1e-7, 1e-6  # the same of a squared loss, whose first system is the last, and its relative gap at most
CAUTION = 10.0  # times what the preconditioner says of a residual: curvatures are not alike
ARMIJO = 1e-4
# Models that are far from the best constants begin at strengths so many times larger, one after the other, each within
# a gap that is coarse. Ten digits in three views, first strengths of five folds of 800 rows and the next one's: 290
# products with factors; 433 and 460 with 12 and 30 for the first number, 362 with 0.02 for the second, 511 from the
# best constants.
DOWN, ON_THE_WAY = 5.6, 0.1
RANGE = 1e12  # of the largest entry of a kernel, beyond which coefficients could leave the range of single precision
FELT = 10.0  # times what single precision rounds of a kernel, under which C/c wants systems in double precision
WILD = 10.0  # times a residual, to which it may grow where the kernel does not see it, before it is taken out
ALONE = 2  # columns up to which a factor solves faster for one after the other than for all together
CLEAR = 1e-6  # of the square that coefficients have with the diagonal of a kernel, by far more than rounding
NEAR = 3.0  # times or part of the C/c of a factor for which it is taken
# Rows from which a factor is kept with its kernel, for the systems of the next strengths: a factor takes as long as
# some thirty solutions with it there
KEPT_ROWS = 2_000
MOST_DOUBLE = 5_000  # rows up to which the kernel of the last fit is held in double precision


@dataclass(frozen=True, eq=False)
class AverageKernel:
    """A single kernel among training samples, and of new rows with them; models are in coefficients of the columns.

    Or of scaled eigenvectors after a decomposition; or of features.
    """

    features: Array  # (n, r): K, centered if there is an intercept, or U L^{1/2} of that, or Z, centered so
    held_out: Array  # (n_new, r)
    means: Array  # (n or r,) float64: of the columns of the kernel, or of features; zero without an intercept
    centered: bool
    values: Array | None = None  # (r,) float64: L, decreasing, where it is decomposed
    # (r (r + 1) / 2,): the lower triangle of Z'Z, column after column, as precise as features, where there are some
    gram: Array | None = None
    largest: Array | None = None  # (K,): strengths at which next to nothing is left, where the kernel tells them
    factors: list[_Factors] = field(default_factory=list)  # of many rows, those of the last system

    def functions(self, features: Array, coefficients: Array) -> Array:
        """Return functions of rows with the features: columns of a kernel cancel in sums, eigenvectors do not."""
        columns = self.values is None and self.gram is None
        return (exact_product if columns else product_in_precision)(features, coefficients)

    def expanded(self, coefficients: Array) -> Array:
        """Return coefficients of the kernel, with zero sum for an intercept, or of features unchanged."""
        if self.gram is not None:
            return coefficients
        if self.values is not None:
            return product_in_precision(self.features, coefficients / self.values[:, None])
        return coefficients - coefficients.mean(axis=0) if self.centered else coefficients


def opened(
    gram: Array,
    cross: Array,
    losses: Sequence[Loss],
    weight: Array,
    *,
    centered: bool,
    dtype: Any = np.float64,
    problems: Sequence[Problem] = (),
) -> AverageKernel:
    """Center a kernel, and decompose if predicted faster; both matrices are overwritten.

    Storage may be in single precision: a rounded kernel defines the models; features are rounded in separate units. The
    largest strengths come from ``problems``.
    """
    largest = largest_strengths(problems, gram) if problems else None
    means = gram.mean(axis=0) if centered else np.zeros(len(gram))
    if centered:
        cross -= cross.mean(axis=1)[:, None]
        cross -= means - means.mean()
        gram -= means[:, None]
        gram -= means - means.mean()
    top = float(max(gram.max(), -gram.min()))
    dtype = dtype if 1.0 / RANGE < top < RANGE else np.float64
    factor, products = len(gram) ** 3 / 3, PRODUCTS * 2 * len(losses) * len(gram) ** 2
    factors = STRENGTHS * (factor + products + CALLS) / factor
    if factors < EIGENVECTORS or not all(loss.linear_dual for loss in losses) or np.ptp(weight) > 0:
        own = gram.astype(dtype, copy=False), cross.astype(dtype, copy=False)
        return AverageKernel(*own, means, centered, largest=largest)
    values, vectors = eigh(gram, overwrite_a=True, check_finite=False, driver="evd")
    kept = np.flatnonzero(values > NEGLIGIBLE * max(values[-1], 0.0))[::-1]
    values, vectors = values[kept], vectors[:, kept]
    features, held_out = vectors * np.sqrt(values), cross @ vectors / np.sqrt(values)
    return AverageKernel(
        features.astype(dtype, copy=False), held_out.astype(dtype, copy=False), means, centered, values, largest=largest
    )


def largest_strengths(problems: Sequence[Problem], gram: Array) -> Array | None:
    """Return the strengths of a sum of kernels of a nearly empty model, (K,), without separate passes.

    None where a target may have nothing to gain but rounding, which dual norms of the single kernels tell.
    """
    rhos = np.column_stack([problem.empty_coefficients for problem in problems])
    losses = [problem.empirical_loss(np.full(problem.n_samples, problem.best_constant)) for problem in problems]
    squares = np.einsum("ik,ik->k", rhos, gram @ rhos)
    clear = squares > CLEAR * np.abs(gram.diagonal()).max() * np.einsum("ik,ik->k", rhos, rhos)
    return squares / (2.0 * np.array(losses)) if clear.all() and min(losses) > 0 else None


@dataclass(frozen=True, eq=False)
class AverageModels:
    """A model per target, as coefficients of a kernel or of the features."""

    kernel: AverageKernel | None  # None once it is let go
    coefficients: Array  # (n or r, K) float64
    intercepts: Array  # (K,) float64: for the centered kernel
    strengths: Array  # (K,)
    finished: bool = True  # whether every model is within the tolerance
    weights: Array | None = None  # (M,): of the kernels in the sum, where that is known
    # what a step down of one in the logarithm of the strength changed: coefficients and intercepts
    slopes: tuple[Array, Array] | None = None

    def toward(self, strengths: Array) -> tuple[Array, Array]:
        """Return coefficients and intercepts to begin from: along a line in the logarithms of the strengths."""
        if self.slopes is None:
            return self.coefficients, self.intercepts
        way = np.log(self.strengths / strengths)
        return self.coefficients + self.slopes[0] * way, self.intercepts + self.slopes[1] * way

    def without_kernel(self) -> AverageModels:
        """Return the same models without the matrix, with known expansion and held-out scores."""
        light = replace(self, kernel=None, slopes=None)
        vars(light).update(expanded=self.expanded, held_out=self.held_out)
        return light

    @property
    def fitted(self) -> Array:
        """Scores of the training samples, (n, K)."""
        assert self.kernel is not None
        return self.kernel.functions(self.kernel.features, self.coefficients) + self.intercepts

    @cached_property
    def held_out(self) -> Array:
        """Scores of the held-out rows, (n_new, K)."""
        assert self.kernel is not None
        return self.kernel.functions(self.kernel.held_out, self.coefficients) + self.intercepts

    @cached_property
    def expanded(self) -> tuple[Array, Array]:
        """The models as ``K a + b``, or ``Z v + b``, on uncentered kernels, and ``b`` (K,)."""
        assert self.kernel is not None
        coefficients = self.kernel.expanded(self.coefficients)
        return coefficients, self.intercepts - self.kernel.means @ coefficients

    @property
    def by_kernel(self) -> tuple[Array, Array, Array]:
        """The models as dual coefficients (K, n), weights of the single kernels (K, M), and intercepts (K,)."""
        assert self.weights is not None
        coefficients, intercepts = self.expanded
        return (coefficients * self.strengths).T, self.weights / self.strengths[:, None], intercepts

    def averages(self, kernels: Array) -> bool:
        """Return True if exactly the kernels are known to take part."""
        return self.weights is not None and np.array_equal(np.flatnonzero(self.weights), kernels)

    @property
    def solutions(self) -> list[Solution]:
        """The models as starting points on the participating kernels, uncertified."""
        rho, weights, intercepts = self.by_kernel
        return _uncertified(rho, weights[:, weights.any(axis=0)], intercepts)

    @staticmethod
    def mean_of(models: Sequence[tuple[Array, AverageModels]], n_targets: int, n_rows: int) -> list[Solution] | None:
        """Return models of all rows to begin from: their dual coefficients are means over the models that know a row.

        Every model comes after the places of the rows. None where some know fewer targets, as a fold may lack a class.
        """
        parts = [own.by_kernel for _, own in models]
        if any(len(intercepts) != n_targets for _, _, intercepts in parts):
            return None
        sums, known = np.zeros((n_targets, n_rows)), np.zeros(n_rows)
        for (places, _), (rho, _, _) in zip(models, parts, strict=True):
            sums[:, places] += rho
            known[places] += 1.0
        weights, intercepts = (np.mean([own[k] for own in parts], axis=0) for k in (1, 2))
        taking_part = weights[:, weights.any(axis=0)]  # as problems are posed to solvers
        return _uncertified(sums / np.maximum(known, 1.0), taking_part, intercepts)


def _uncertified(rho: Array, weights: Array, intercepts: Array) -> list[Solution]:
    """Return starting models: dual coefficients (K, n), weights (K, M), and intercepts (K,)."""
    nothing = Certificate.from_values(np.inf, -np.inf, 1.0, KKTResiduals(*[np.inf] * 5))
    return [Solution(*own, nothing) for own in zip(rho, weights, intercepts.tolist(), strict=True)]


def can_average(losses: Sequence[Loss]) -> bool:
    """Return whether the losses have the necessary derivatives."""
    return all(not loss.couples_samples and loss.smooth and np.isfinite(loss.curvature_bound) for loss in losses)


def fit_averages(
    kernel: AverageKernel,
    losses: Sequence[Loss],
    targets: Array,
    weight: Array,
    strengths: Array,
    *,
    tol: float,
    start: AverageModels | None = None,
) -> AverageModels:
    """Minimize ``sum_i s_i l(y_i, (K a)_i + b) + C/2 a'Ka`` for every target."""
    if kernel.gram is not None:
        return _FeatureNewton(kernel, losses, targets, weight, strengths).solve(tol, start)
    if kernel.values is None:
        return _KernelNewton(kernel, losses, targets, weight, strengths).solve(tol, start)
    curvatures = weight[0] / np.array([loss.curvature for loss in losses])
    means = targets.mean(axis=0) if kernel.centered else np.zeros(targets.shape[1])
    slopes = product_in_precision(kernel.features.T, targets - means)
    return AverageModels(
        kernel, slopes * curvatures / (kernel.values[:, None] * curvatures + strengths), means, strengths
    )


class _Factors:
    """Cholesky factors of ``K + ratio I`` for targets with similar ratios, in a separate precision."""

    def __init__(self, gram: Array, ratios: Array, dtype: Any = np.float64) -> None:
        self.ratios = np.empty_like(ratios)  # that of the factor of each target
        self.parts: list[tuple[Array, Array]] = []
        left = np.argsort(ratios)
        while left.size:
            near = left[ratios[left] <= NEAR**2 * ratios[left[0]]]
            factor, self.ratios[near] = _factorized(gram, float(np.sqrt(ratios[near[0]] * ratios[near[-1]])), dtype)
            self.parts.append((np.sort(near), factor))
            left = left[len(near) :]
        # From the right, in two thirds of the time of solutions from the left: 0.45 and 0.70 ms (800 rows, 10 columns).
        self.trsm, self.trsv = get_blas_funcs(("trsm", "trsv"), (self.parts[0][1],))

    def serve(self, ratios: Array, dtype: Any = np.float64) -> bool:
        """Return True if the factors are still near, in the precision."""
        known = self.parts[0][1].dtype == dtype and len(ratios) == len(self.ratios)
        return known and bool((np.abs(np.log(ratios / self.ratios)) <= 2 * np.log(NEAR)).all())

    def solve(self, right: Array) -> tuple[Array, Array]:
        """Return ``z = (K + ratio I)^{-1} u`` for columns, a column per target, and ``K z = u - ratio z``."""
        out = np.empty_like(right)
        near, units = in_precision(right, self.parts[0][1].dtype)
        for columns, factor in self.parts:
            if len(columns) <= ALONE:
                for k in columns:
                    half = self.trsv(factor, near[:, k], lower=True)
                    out[:, k] = self.trsv(factor, half, lower=True, trans=True)
            else:
                half = self.trsm(1.0, factor, near[:, columns].T, side=True, lower=True, trans_a=True)
                out[:, columns] = self.trsm(1.0, factor, half, side=True, lower=True).T
        out *= units
        return out, right - self.ratios * out


def _factorized(gram: Array, ratio: float, dtype: Any = np.float64) -> tuple[Array, float]:
    """Return a Cholesky factor and the ratio, increased against rounding; still a good preconditioner."""
    while np.isfinite(ratio):
        matrix = gram.astype(dtype).T if gram.ndim == 2 else _unpacked(gram)  # column after column
        (potrf,) = get_lapack_funcs(("potrf",), (matrix,))
        np.einsum("ii->i", matrix)[:] += ratio
        factor, info = potrf(matrix, lower=True, overwrite_a=True, clean=False)
        if info == 0:
            return factor, ratio
        rounded = gram.dtype if gram.ndim == 1 else dtype
        ratio = max(10 * ratio, float(np.finfo(rounded).eps) * float(max(gram.max(), -gram.min())))
    raise LinAlgError("a sum of kernels has entries that are not finite")


def _unpacked(triangle: Array) -> Array:
    """Return a matrix in double precision with the lower triangle, and zeros above."""
    (tpttr,), n = get_lapack_funcs(("tpttr",), (triangle,)), (isqrt(8 * len(triangle) + 1) - 1) // 2
    return np.asarray(tpttr(n, triangle, uplo="L")[0].astype(np.float64, copy=False))


class _Newton(abc.ABC):
    """Newton's method for all targets in parallel; converged targets stay fixed."""

    rounded: bool  # whether products are in single precision, so that scores are computed anew after each step

    def __init__(
        self, kernel: AverageKernel, losses: Sequence[Loss], targets: Array, weight: Array, strengths: Array
    ) -> None:
        self.kernel, self.losses, self.targets = kernel, losses, np.asfortranarray(targets)  # as systems are solved
        self.features, self.rounded = kernel.features, kernel.features.dtype != np.float64
        self.weight, self.strengths = weight[:, None], strengths
        self.alike = all(loss == losses[0] for loss in losses)
        self.quadratic = all(loss.linear_dual for loss in losses)
        self.factors: list[_Factors] = []  # those of the last system

    def solve(self, tol: float, start: AverageModels | None) -> AverageModels:
        """Return the models within ``tol``, or where the steps ran out."""
        return self.descended(tol, start)

    def descended(self, tol: float, start: AverageModels | None) -> AverageModels:
        """Return the models within ``tol`` of Newton steps from a start, or from the best constants."""
        a, b = start.toward(self.strengths) if start is not None else self._constants()
        a = np.asfortranarray(a)
        tol = min(tol, FINEST) if self.quadratic else tol
        scores, finished = self._scores(a, b), False
        for _ in range(MOST_STEPS):
            slopes = self.weight * self._of("derivative", scores)
            curves = self.weight * self._of("second_derivative", scores)
            gradient = self._gradient(slopes, a)
            rise = slopes.sum(axis=0) if self.kernel.centered else np.zeros(len(b))
            values = self._objective(a, b, scores)
            little = 2 * tol * np.maximum(values, np.finfo(float).tiny)
            step, shift, along = self._direction(gradient, rise, curves, little)
            decrement = -(_inner(gradient, self._dual_of(step, along - shift)) + rise * shift)
            finished = bool((np.abs(decrement) <= little).all())
            length = self._length(a, b, scores, (step, shift, along), decrement, values)
            a, b = a + length * step, b + length * shift
            if finished or not length.any():
                break
            scores = self._scores(a, b) if self.rounded else scores + length * along
        return AverageModels(self.kernel, a, b, self.strengths, finished, slopes=self._slopes(a, b, start))

    def _constants(self) -> tuple[Array, Array]:
        """Return the best constants."""
        zero = np.zeros(len(self.targets))
        each = zip(self.losses, self.targets.T, strict=True)
        best = [loss.best_intercept(y, zero, self.weight[:, 0]) if self.kernel.centered else 0.0 for loss, y in each]
        return np.zeros((self.features.shape[1], len(best))), np.array(best)

    def _of(self, name: str, scores: Array) -> Array:
        """Return values or derivatives of the losses, (n, K)."""
        if self.alike:
            flat = getattr(self.losses[0], name)(self.targets.ravel(order="F"), scores.ravel(order="F"))
            return np.asarray(flat.reshape(scores.shape, order="F"))
        columns = zip(self.losses, self.targets.T, scores.T, strict=True)
        return np.column_stack([getattr(loss, name)(y, z) for loss, y, z in columns])

    def _near(self, gram: Array, ratios: Array, dtype: Any = np.float64) -> _Factors:
        """Return factors near some ratios, preferably the last factors."""
        if not (self.factors and self.factors[0].serve(ratios, dtype)):
            self.factors.clear()
            self.factors.append(_Factors(gram, ratios, dtype))
        return self.factors[0]

    def _length(
        self, a: Array, b: Array, scores: Array, way: tuple[Array, Array, Array], decrement: Array, values: Array
    ) -> Array:
        """Halve the step of every target until the objective falls enough; zero without decrease."""
        (step, shift, along), length = way, np.ones(a.shape[1])
        for _ in range(MOST_HALVINGS):
            new = self._objective(a + length * step, b + length * shift, scores + length * along)
            low = new <= values - ARMIJO * length * decrement
            if low.all():
                break
            length = np.where(low, length, length / 2)
        return np.where(new < values, length, 0.0)

    def _slopes(self, a: Array, b: Array, start: AverageModels | None) -> tuple[Array, Array] | None:
        """Return the difference from a model of other strengths, per unit of the logarithm."""
        if start is None or (start.strengths == self.strengths).any():
            return None
        way = np.log(start.strengths / self.strengths)
        return (a - start.coefficients) / way, (b - start.intercepts) / way

    @abc.abstractmethod
    def _scores(self, a: Array, b: Array) -> Array:
        """Return functions of the training rows, (n, K), column after column in memory."""

    @abc.abstractmethod
    def _objective(self, a: Array, b: Array, scores: Array) -> Array:
        """Return the objectives, (K,)."""

    @abc.abstractmethod
    def _gradient(self, slopes: Array, a: Array) -> Array:
        """Return the gradient of the objectives by coefficients, from the slopes of the losses."""

    @abc.abstractmethod
    def _dual_of(self, step: Array, change: Array) -> Array:
        """Return the dual factor of products of a gradient with a step of functions by ``change``."""

    @abc.abstractmethod
    def _direction(self, gradient: Array, rise: Array, curves: Array, little: Array) -> tuple[Array, Array, Array]:
        """Return steps of coefficients and intercepts, and changes of scores."""


class _KernelNewton(_Newton):
    """On a kernel, in coefficients of the columns."""

    def __init__(
        self, kernel: AverageKernel, losses: Sequence[Loss], targets: Array, weight: Array, strengths: Array
    ) -> None:
        super().__init__(kernel, losses, targets, weight, strengths)
        self.gram = kernel.features
        least = strengths.min() / (weight.mean() * max(loss.curvature_bound for loss in losses))  # of all C/c
        top = float(max(self.gram.max(), -self.gram.min()))
        self.felt = felt = FELT * float(np.finfo(np.float32).eps) * float(np.sqrt(len(weight))) * top
        # Of the systems; a kernel in single precision is raised to double in the memory of each factor alone.
        self.precision = self.gram.dtype if least > felt else np.dtype(np.float64)
        if len(weight) >= KEPT_ROWS:
            self.factors = kernel.factors
        # From this ratio on a kernel conditions nothing; curvatures of next to nothing would ask for any ratio.
        lost = len(weight) * float(self.gram.diagonal().max()) / float(np.sqrt(np.finfo(np.float32).eps))
        self.least_curvature = strengths / lost if lost > 0 else np.finfo(float).tiny

    def solve(self, tol: float, start: AverageModels | None) -> AverageModels:
        """Return the models within ``tol``, or where the steps ran out."""
        if start is None and not self.quadratic:
            start = self._walked_down()
        return self.descended(tol, start)

    def _walked_down(self) -> AverageModels | None:
        """Return models of stronger penalties to begin from, with their slopes; None where these are strong themselves.

        From the best constants to large scores Newton's method takes many steps, and none tells of the next strength.
        """
        a, b = self._constants()
        slopes = self.weight * self._of("derivative", np.tile(b, (len(a), 1)))
        losses = np.maximum(self._objective(a, b, b + a), np.finfo(float).tiny)
        largest = _inner(slopes, exact_product(self.gram, slopes)) / (2 * losses)  # where next to nothing is left
        n_steps = int(np.log(max(float((largest / self.strengths).max()), 1.0)) / np.log(DOWN))
        models, weight = None, self.weight[:, 0]
        for strengths in (self.strengths * DOWN**number for number in range(n_steps, 0, -1)):
            stronger = _KernelNewton(self.kernel, self.losses, self.targets, weight, strengths)
            models = stronger.descended(ON_THE_WAY, models)
        return models

    def _scores(self, a: Array, b: Array) -> Array:
        """Return ``K a + b``, column after column in memory like all of samples and targets."""
        return exact_product(self.gram, a) + b

    def _gradient(self, slopes: Array, a: Array) -> Array:
        """Return the preimage of the gradient under ``K``, sufficient for linear systems."""
        return slopes + self.strengths * a

    def _dual_of(self, step: Array, change: Array) -> Array:
        """Return ``K`` times the step, for inner products."""
        return change

    def _objective(self, a: Array, b: Array, scores: Array) -> Array:
        """Return the objectives, (K,): ``a'Ka`` is ``a'(f - b)``."""
        penalty = 0.5 * self.strengths * (a * (scores - b)).sum(axis=0)
        return (self.weight * self._of("value", scores)).sum(axis=0) + penalty

    def _preconditioned(self, right: Array, ratios: Array, means: Array) -> tuple[Array, Array]:
        """Return ``(c K + C)^{-1} u`` for columns, and ``K`` times that; ``C/c`` is near the ratio of a factor."""
        z, moved = self._near(self.gram, ratios, self.precision).solve(right)
        return z / means, moved / means

    def _unseen(self, columns: Array) -> Array:
        """Return the part of columns that the kernel takes to nothing but rounding.

        A step down to any coefficients there is the same function, and conjugate gradients, which measure functions,
        let the remainder of their systems grow there without end; products of what has grown are rounding alone.
        """
        ratio = max(self.felt, np.finfo(float).eps * len(columns) * float(self.gram.diagonal().max()))
        factor, ratio = _factorized(self.gram, ratio)
        (potrs,) = get_lapack_funcs(("potrs",), (factor,))
        return ratio * potrs(factor, columns, lower=True)[0]

    def _direction(self, gradient: Array, rise: Array, curves: Array, little: Array) -> tuple[Array, Array, Array]:
        """Solve the Newton systems by preconditioned conjugate gradients, all targets in step; with changes of scores.

        They end as soon as no step, with the remainder of the system, promises more than ``little`` of the objective.
        """
        tiny, centered = np.finfo(float).tiny, self.kernel.centered
        means = np.maximum(curves.mean(axis=0), self.least_curvature)
        ratios = self.strengths / means
        flat = np.maximum(len(curves) * self.least_curvature, tiny)  # scores may be so large that none is left
        inverse_b = 1.0 / np.maximum(curves.sum(axis=0), flat) if centered else np.zeros(len(rise))
        u, q, wild = np.asfortranarray(-gradient), -rise, WILD**2 * _inner(gradient, gradient)
        x, t, along, told = np.zeros_like(u), np.zeros_like(rise), np.zeros_like(u), np.empty((len(rise), 3))
        z, moved = self._preconditioned(u, ratios, means)
        w, curved = inverse_b * q, np.ascontiguousarray(curves.T)
        p, o = z, w
        energy, promised = _inner(u, moved) + q * w, 0.0 * rise
        goal = (EXACT if self.quadratic else FORCING) ** 2 * energy
        for _ in range(MOST_PRODUCTS):
            asked = np.where(energy > goal, energy, 0.0)
            go_along(curved, self.strengths, asked, p.T, moved.T, o, x.T, along.T, u.T, told)
            length, rising, left = told.T
            t, q, gained = t + length * o, q - rising * centered, length * asked
            promised = promised + gained
            if (left > wild).any():
                unseen = self._unseen(u) / self.strengths
                return x + unseen, t, along + exact_product(self.gram, unseen)
            if not self.quadratic and (gained <= SMALL_GAIN * promised).all():  # to know more takes another solution
                break
            z, fresh_moved = self._preconditioned(u, ratios, means)
            w = inverse_b * q
            fresh = _inner(u, fresh_moved) + q * w
            if (fresh <= goal).all() or not length.any() or (promised + CAUTION * fresh <= little).all():
                break
            turn = np.where(energy > 0, fresh / np.where(energy > 0, energy, 1.0), 0.0)
            p, o, moved, energy = z + turn * p, w + turn * o, fresh_moved + turn * moved, fresh
        return x, t, along


class _FeatureNewton(_Newton):
    """Newton's method in coefficients of features."""

    def _scores(self, v: Array, b: Array) -> Array:
        """Return ``Z v + b``, column after column in memory."""
        return np.asfortranarray(product_in_precision(self.features, v) + b)

    def _gradient(self, slopes: Array, v: Array) -> Array:
        """Return ``Z'l' + C v``."""
        return np.asarray(product_in_precision(self.features.T, slopes) + self.strengths * v)

    def _dual_of(self, step: Array, change: Array) -> Array:
        """Return the step."""
        return step

    def _objective(self, v: Array, b: Array, scores: Array) -> Array:
        """Return the objectives, (K,)."""
        penalty = 0.5 * self.strengths * _inner(v, v)
        return np.asarray((self.weight * self._of("value", scores)).sum(axis=0) + penalty)

    def _preconditioned(self, right: Array, ratios: Array, means: Array) -> Array:
        """Return ``(c Z'Z + C)^{-1} u`` for columns; ``C/c`` is near the ratio of a factor."""
        assert self.kernel.gram is not None
        return np.asarray(self._near(self.kernel.gram, ratios).solve(right)[0] / means)

    def _direction(self, gradient: Array, rise: Array, curves: Array, little: Array) -> tuple[Array, Array, Array]:
        """Solve the Newton systems by preconditioned conjugate gradients, all targets in step; with changes of scores.

        They end as soon as no step, with the remainder of the system, promises more than ``little`` of the objective.
        """
        tiny, centered = np.finfo(float).tiny, self.kernel.centered
        means = np.maximum(curves.mean(axis=0), tiny)
        inverse_b = 1.0 / np.maximum(curves.sum(axis=0), tiny) if centered else np.zeros(len(rise))
        x, t, along = np.zeros_like(gradient), np.zeros_like(rise), np.zeros_like(curves)
        u, q, promised = -gradient, -rise, 0.0 * rise
        p, o = self._preconditioned(u, self.strengths / means, means), inverse_b * q
        energy = _inner(u, p) + q * o
        goal = (EXACT if self.quadratic else FORCING) ** 2 * energy
        for _ in range(MOST_PRODUCTS):
            change = product_in_precision(self.features, p) + o
            bent = curves * change
            curvature = _inner(bent, change) + self.strengths * _inner(p, p)
            length = np.where((energy > goal) & (curvature > 0), energy / np.where(curvature > 0, curvature, 1.0), 0.0)
            x, t, along, promised = x + length * p, t + length * o, along + length * change, promised + length * energy
            u = u - length * (product_in_precision(self.features.T, bent) + self.strengths * p)
            q = q - length * (bent.sum(axis=0) if centered else 0.0)
            z, w = self._preconditioned(u, self.strengths / means, means), inverse_b * q
            fresh = _inner(u, z) + q * w
            if (fresh <= goal).all() or not length.any() or (promised + CAUTION * fresh <= little).all():
                break
            turn = np.where(energy > 0, fresh / np.where(energy > 0, energy, 1.0), 0.0)
            p, o, energy = z + turn * p, w + turn * o, fresh
        return x, t, along


def _inner(left: Array, right: Array) -> Array:
    """Return inner products of columns, (K,)."""
    return np.asarray(np.einsum("ik,ik->k", left, right))
