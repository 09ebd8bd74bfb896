"""Models at fixed kernel weights, for all targets at once.

With weights ``g`` the ridge penalty ``C/2 sum_m ||f_m||^2 / g_m`` is the penalty of a single kernel, ``K = sum_m g_m
K_m``, centered for an intercept. In coefficients, ``f = K a + b``, the problem and the Newton systems are

    min_{a,b}  sum_i s_i l(y_i, f_i + b) + C/2 a'Ka,
    K (W K + C) da + K w db = -K (s l' + C a),   w'K da + w'1 db = -s'l',   W = diag(w),  w_i = s_i l''_i.

Conjugate gradients solve them, for all targets in step. With residuals ``K u``, the preconditioner ``K (c K + C)``,
where ``c`` is the mean of ``w``, takes a Cholesky factor of ``K + (C/c) I`` alone. Targets whose ``C/c`` are near one
another share it. For the squared loss it is the system itself. Products with ``K`` follow from solutions:
``K (K + r I)^{-1} u = u - r (K + r I)^{-1} u``.

Kernels that are features, such as projections on landmarks, need no matrix among samples: with ``f = Z v + b`` the
penalty is ``C/2 v'v``, the Newton systems are ``Z'WZ + C``, and ``c Z'Z + C`` is their preconditioner. Both kinds of
coefficients take the same steps (`_Newton`); `_Columns` and `_Features` are what they are coefficients of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import LinAlgError, get_blas_funcs, get_lapack_funcs

from manykernels.grams.precision import RANGE, convert_precision, product_in_precision
from manykernels.objective.certificate import Certificate, KKTResiduals
from manykernels.objective.losses import Loss
from manykernels.solvers import Solution
from manykernels.validation.arrays import Array

if TYPE_CHECKING:
    from manykernels.objective.problem import Problem

# Systems are solved to these residuals, relative to the right-hand side: of a squared loss, whose first system is the
# last, and of others, whose next step is on another system ("forcing term" of inexact Newton methods).
EXACT, FORCING = 1e-7, 0.1
FINEST = 1e-6  # relative gap of a squared loss, at most
MOST_STEPS, MOST_HALVINGS = 60, 30  # of Newton's method and of one system, and of one step
ARMIJO = 1e-4  # share of the decrement by which a step must lower the objective
# Share of the decrement so far, below which a product is the last: of walks of ten digits in three views, 79 models in
# folds, 740 solutions with factors in place of 1,021, with gaps of 7.7e-3 at most, where 1e-2 is allowed.
SMALL_GAIN = 0.1
CAUTION = 10.0  # times the residual in the metric of the preconditioner, since curvatures differ
NEAR = 3.0  # times or part of the C/c of a factor for which it is taken
KEPT_ROWS = 2_000  # rows from which a factor is kept for the next strengths; it takes as long as thirty solutions
MOST_DOUBLE = 5_000  # rows up to which the kernel of the last fit is in double precision
FAITHFUL = 0.5  # of the predicted gain, that rounding may change
FELT = 10.0  # times the rounding of a kernel in single precision, under which C/c needs systems in double precision
WILD = 10.0  # times a residual, to which it may grow outside the range of the kernel before it is taken out
ALONE = 2  # columns up to which a factor solves faster for one after the other than for all together
CLEAR = 1e-6  # of the square that coefficients have with the diagonal of a kernel, by far more than rounding
ROWS_RAISED = 256  # of a kernel in single precision that are raised to double precision at once


@dataclass(frozen=True, eq=False)
class AverageKernel:
    """A single kernel among training samples, and of new rows with them; models are in coefficients of the columns.

    Or in those of features that it is made of, where there is their ``gram``.
    """

    features: Array  # (n, r): K, centered if there is an intercept, or Z, centered so
    held_out: Array  # (n_new, r)
    means: Array  # (n or r,) float64: of the columns of the kernel, or of features; zero without an intercept
    centered: bool
    # (r (r + 1) / 2,): the lower triangle of Z'Z, column after column, as precise as features, where there are some
    gram: Array | None = None
    largest: Array | None = None  # (K,): strengths at which next to nothing is left, where the kernel tells them
    factors: list[_Factors] = field(default_factory=list)  # of many rows, those of the last system

    def functions(self, features: Array, coefficients: Array) -> Array:
        """Return functions of rows with these features: columns of a kernel cancel in sums."""
        return (exact_product if self.gram is None else product_in_precision)(features, coefficients)

    def expand(self, coefficients: Array) -> Array:
        """Return coefficients of the kernel, which sum to zero if there is an intercept, or of features unchanged."""
        centers = self.centered and self.gram is None
        return coefficients - coefficients.mean(axis=0) if centers else coefficients


def center_kernel(
    gram: Array, cross: Array, *, centered: bool, dtype: Any = np.float64, problems: Sequence[Problem] = ()
) -> AverageKernel:
    """Center a kernel; both matrices are overwritten.

    In single precision it is another kernel near it, of which the models then are. The largest strengths are those of
    ``problems``.
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
    own = gram.astype(dtype, copy=False), cross.astype(dtype, copy=False)
    return AverageKernel(*own, means, centered, largest=largest)


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

    def drop_kernel(self) -> AverageModels:
        """Return the same models without the matrix, with known expansion and held-out scores."""
        light = replace(self, kernel=None)
        for name in ("expansions", "new_scores"):
            object.__setattr__(light, name, getattr(self, name))
        return light

    @property
    def fitted(self) -> Array:
        """Scores of the training samples, (n, K)."""
        assert self.kernel is not None
        return self.kernel.functions(self.kernel.features, self.coefficients) + self.intercepts

    @cached_property
    def new_scores(self) -> Array:
        """Scores of the held-out rows, (n_new, K)."""
        assert self.kernel is not None
        return self.kernel.functions(self.kernel.held_out, self.coefficients) + self.intercepts

    @cached_property
    def expansions(self) -> tuple[Array, Array]:
        """The models as ``K a + b``, or ``Z v + b``, on uncentered kernels, and ``b`` (K,)."""
        assert self.kernel is not None
        coefficients = self.kernel.expand(self.coefficients)
        return coefficients, self.intercepts - self.kernel.means @ coefficients

    @property
    def kernel_models(self) -> tuple[Array, Array, Array]:
        """The models as dual coefficients (K, n), weights of the single kernels (K, M), and intercepts (K,)."""
        assert self.weights is not None
        coefficients, intercepts = self.expansions
        return (coefficients * self.strengths).T, self.weights / self.strengths[:, None], intercepts

    def averages(self, kernels: Array) -> bool:
        """Return True if exactly the kernels are known to take part."""
        return self.weights is not None and np.array_equal(np.flatnonzero(self.weights), kernels)

    @property
    def solutions(self) -> list[Solution]:
        """The models as starting points on the participating kernels, uncertified."""
        rho, weights, intercepts = self.kernel_models
        return _uncertified(rho, weights[:, weights.any(axis=0)], intercepts)

    @staticmethod
    def mean_of(models: Sequence[tuple[Array, AverageModels]], n_targets: int, n_rows: int) -> list[Solution] | None:
        """Return models of all rows to begin from: their dual coefficients are means over the models that know a row.

        Every model comes after the places of the rows. None where some know fewer targets, as a fold may lack a class.
        """
        parts = [own.kernel_models for _, own in models]
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
    """Minimize ``sum_i s_i l(y_i, (K a)_i + b) + C/2 a'Ka`` for every target, from the best constants or a start."""
    return _Newton(kernel, losses, targets, weight, strengths).solve(tol, start)


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
        near, units = convert_precision(right, self.parts[0][1].dtype)
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


class _Columns:
    """Coefficients of the columns of a kernel: systems are solved without ``K``, and inner products take ``K a``."""

    def __init__(self, kernel: AverageKernel, least_ratio: float, strengths: Array) -> None:
        self.kernel, self.gram, n = kernel, kernel.features, len(kernel.features)
        top = float(max(self.gram.max(), -self.gram.min()))
        self.felt = FELT * float(np.finfo(np.float32).eps) * float(np.sqrt(n)) * top
        # Of the systems; a kernel in single precision is raised to double in the memory of each factor alone.
        self.precision = self.gram.dtype if least_ratio > self.felt else np.dtype(np.float64)
        self.rounded = self.gram.dtype != np.float64
        # From this ratio on a kernel conditions nothing; curvatures of next to nothing would ask for any ratio.
        lost = n * float(self.gram.diagonal().max()) / float(np.sqrt(np.finfo(np.float32).eps))
        self.least_curvature = strengths / lost if lost > 0 else np.finfo(float).tiny
        self.factors = kernel.factors if n >= KEPT_ROWS else []

    def functions(self, a: Array) -> Array:
        """Return ``K a``."""
        return exact_product(self.gram, a)

    def transposed(self, slopes: Array) -> Array:
        """Return slopes as they are, which ``K`` takes to the gradient."""
        return slopes

    def dual(self, a: Array, functions: Array) -> Array:
        """Return ``K a``, with which products are taken in place of ``a``."""
        return functions

    def solve(self, right: Array, ratios: Array) -> tuple[Array, Array]:
        """Return ``z = (K + ratio I)^{-1} u`` for columns, one a target, and ``K z``."""
        return _near(self.factors, self.gram, ratios, self.precision).solve(right)

    def null_part(self, columns: Array) -> Array:
        """Return the part of columns that the kernel takes to nothing but rounding.

        All coefficients in the null space give the same function, and conjugate gradients, in the metric of functions,
        let residuals grow in the null space; products with such residuals are pure rounding.
        """
        ratio = max(self.felt, np.finfo(float).eps * len(columns) * float(self.gram.diagonal().max()))
        factor, ratio = _factorized(self.gram, ratio)
        (potrs,) = get_lapack_funcs(("potrs",), (factor,))
        return ratio * np.asarray(potrs(factor, columns, lower=True)[0])


class _Features:
    """Coefficients of features."""

    def __init__(self, kernel: AverageKernel) -> None:
        self.features, self.gram = kernel.features, kernel.gram
        self.rounded, self.least_curvature = self.features.dtype != np.float64, np.finfo(float).tiny
        self.factors: list[_Factors] = []

    def functions(self, v: Array) -> Array:
        """Return ``Z v``."""
        return product_in_precision(self.features, v)

    def transposed(self, slopes: Array) -> Array:
        """Return ``Z' l'``."""
        return product_in_precision(self.features.T, slopes)

    def dual(self, v: Array, functions: Array) -> Array:
        """Return the coefficients."""
        return v

    def solve(self, right: Array, ratios: Array) -> tuple[Array, Array]:
        """Return ``v = (Z'Z + ratio I)^{-1} u`` for columns, one a target, and ``Z v``."""
        assert self.gram is not None
        z = _near(self.factors, self.gram, ratios, np.float64).solve(right)[0]
        return z, self.functions(z)

    def null_part(self, columns: Array) -> Array:
        """Return nothing: every coefficient has its part of the penalty."""
        return np.zeros_like(columns)


def _near(known: list[_Factors], gram: Array, ratios: Array, dtype: Any) -> _Factors:
    """Return factors near some ratios, preferably known factors."""
    if not (known and known[0].serve(ratios, dtype)):
        known[:] = []  # before others take their memory
        known.append(_Factors(gram, ratios, dtype))
    return known[0]


class _Newton:
    """Newton's method for all targets in parallel; converged targets stay fixed."""

    def __init__(
        self, kernel: AverageKernel, losses: Sequence[Loss], targets: Array, weight: Array, strengths: Array
    ) -> None:
        self.kernel, self.losses, self.targets = kernel, losses, np.asfortranarray(targets)  # as systems are solved
        self.weight, self.strengths = weight[:, None], strengths
        self.alike = all(loss == losses[0] for loss in losses)
        self.quadratic = all(loss.linear_dual for loss in losses)
        least_ratio = strengths.min() / (weight.mean() * max(loss.curvature_bound for loss in losses))
        features = kernel.gram is not None
        self.space: Any = _Features(kernel) if features else _Columns(kernel, least_ratio, strengths)

    def solve(self, tol: float, start: AverageModels | None) -> AverageModels:
        """Return the models within ``tol`` of Newton steps, or where the steps ran out."""
        a, b = (start.coefficients, start.intercepts) if start is not None else self._constants()
        a = np.asfortranarray(a)
        fine = min(tol, FINEST) if self.quadratic else tol
        scores, finished = self._scores(a, b), False
        for _ in range(MOST_STEPS):
            slopes = self.weight * self._evaluate("derivative", scores)
            curves = self.weight * self._evaluate("second_derivative", scores)
            gradient = self.space.transposed(slopes) + self.strengths * a
            rise = slopes.sum(axis=0) if self.kernel.centered else np.zeros(len(b))
            values = self._objective(a, b, scores)
            little = 2 * fine * np.maximum(values, np.finfo(float).tiny)
            step, shift, along = self._direction(gradient, rise, curves, little)
            decrement = -(_inner(gradient, self.space.dual(step, along - shift)) + rise * shift)
            finished = bool((np.abs(decrement) <= little).all())
            length = self._length((a, b, scores), (step, shift, along), decrement, values)
            a, b = a + length * step, b + length * shift
            if finished or not length.any():  # where rounding ends the descent, the tolerance asked for decides
                finished = bool((np.abs(decrement) <= tol / fine * little).all())
                break
            # Products in single precision are exact of the new coefficients, and not of steps.
            scores = self._scores(a, b) if self.space.rounded else scores + length * along
        return AverageModels(self.kernel, a, b, self.strengths, finished)

    def _constants(self) -> tuple[Array, Array]:
        """Return the best constants."""
        zero = np.zeros(len(self.targets))
        each = zip(self.losses, self.targets.T, strict=True)
        best = [loss.best_intercept(y, zero, self.weight[:, 0]) if self.kernel.centered else 0.0 for loss, y in each]
        return np.zeros((self.kernel.features.shape[1], len(best))), np.array(best)

    def _scores(self, a: Array, b: Array) -> Array:
        """Return functions of the training rows, (n, K), column after column in memory."""
        return np.asfortranarray(self.space.functions(a) + b)

    def _evaluate(self, name: str, scores: Array) -> Array:
        """Return values or derivatives of the losses, (n, K)."""
        if self.alike:
            flat = getattr(self.losses[0], name)(self.targets.ravel(order="F"), scores.ravel(order="F"))
            return np.asarray(flat.reshape(scores.shape, order="F"))
        columns = zip(self.losses, self.targets.T, scores.T, strict=True)
        return np.column_stack([getattr(loss, name)(y, z) for loss, y, z in columns])

    def _objective(self, a: Array, b: Array, scores: Array) -> Array:
        """Return the objectives, (K,)."""
        penalty = 0.5 * self.strengths * _inner(a, self.space.dual(a, scores - b))
        return np.asarray((self.weight * self._evaluate("value", scores)).sum(axis=0) + penalty)

    def _length(
        self,
        model: tuple[Array, Array, Array],
        way: tuple[Array, Array, Array],
        decrement: Array,
        values: Array,
    ) -> Array:
        """Halve the step of every target until the objective falls enough; zero where it does not fall at all."""
        length = np.ones(len(values))
        for _ in range(MOST_HALVINGS):
            new = self._objective(*(own + length * change for own, change in zip(model, way, strict=True)))
            low = new <= values - ARMIJO * length * decrement
            if low.all():
                break
            length = np.where(low, length, length / 2)
        return np.where(new < values, length, 0.0)

    def _direction(self, gradient: Array, rise: Array, curves: Array, little: Array) -> tuple[Array, Array, Array]:
        """Return steps of coefficients and intercepts, and changes of scores, by preconditioned conjugate gradients.

        All targets are in step. They end as soon as no step, with what is left of its system, promises more than
        ``little`` of the objective.
        """
        space, strengths = self.space, self.strengths
        means = np.maximum(curves.mean(axis=0), space.least_curvature)
        flat = np.maximum(len(curves) * space.least_curvature, np.finfo(float).tiny)  # of scores without curvature
        inverse_b = self.kernel.centered / np.maximum(curves.sum(axis=0), flat)
        u, q, wild = np.asfortranarray(-gradient), -rise, WILD**2 * _inner(gradient, gradient)
        x, t, along = np.zeros_like(u), np.zeros_like(rise), np.zeros_like(curves)
        promised, energy = 0.0 * rise, np.full(len(rise), np.inf)
        p: Any = 0.0
        o: Any = 0.0
        moved: Any = 0.0
        for number in range(MOST_STEPS):
            z, fresh_moved = (own / means for own in space.solve(u, strengths / means))
            w = inverse_b * q
            fresh = _inner(u, space.dual(z, fresh_moved)) + q * w
            if number == 0:
                goal = (EXACT if self.quadratic else FORCING) ** 2 * fresh
            elif (fresh <= goal).all() or (promised + CAUTION * fresh <= little).all():
                break
            turn = np.divide(fresh, energy, out=np.zeros_like(fresh), where=energy > 0)
            p, o, moved, energy = z + turn * p, w + turn * o, fresh_moved + turn * moved, fresh
            length, change, bent = self._minimum_along((p, o, moved), np.where(energy > goal, energy, 0.0), curves)
            x, t, along = x + length * p, t + length * o, along + length * change
            u = u - length * (space.transposed(bent) + strengths * p)
            q = q - length * bent.sum(axis=0) * self.kernel.centered
            promised = promised + length * energy
            if (_inner(u, u) > wild).any() and (unseen := space.null_part(u) / strengths).any():
                # Large coefficients times the rounding of a kernel may outweigh what the step gains.
                seen = space.functions(unseen)
                taken = np.abs(_inner(gradient, seen)) <= FAITHFUL * promised
                return x + taken * unseen, t, along + taken * seen
            if not length.any() or (not self.quadratic and (length * energy <= SMALL_GAIN * promised).all()):
                break  # to know more takes another solution
        return x, t, along

    def _minimum_along(
        self, way: tuple[Array, Array, Array], energy: Array, curves: Array
    ) -> tuple[Array, Array, Array]:
        """Return lengths to the minimum along directions, and changes of scores and of their slopes."""
        p, o, moved = way
        change = moved + o
        bent = curves * change
        curvature = _inner(bent, change) + self.strengths * _inner(p, self.space.dual(p, moved))
        going = (energy > 0) & (curvature > 0)
        return np.divide(energy, curvature, out=np.zeros_like(energy), where=going), change, bent


def exact_product(features: Array, vectors: Array) -> Array:
    """Return the product in double precision, converted a few rows at a time."""
    out = np.empty((len(features), vectors.shape[1]), order="F")
    n_rows = ROWS_RAISED if features.dtype != np.float64 else max(len(features), 1)
    for rows in (slice(start, start + n_rows) for start in range(0, len(features), n_rows)):
        out[rows] = features[rows].astype(np.float64, copy=False) @ vectors
    return out


def _inner(left: Array, right: Array) -> Array:
    """Return inner products of columns, (K,)."""
    return np.asarray(np.einsum("ik,ik->k", left, right))
