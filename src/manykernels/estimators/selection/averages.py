"""Models at fixed kernel weights, at every strength, for all targets at once: one eigendecomposition pays for all.

With weights ``g`` the ridge penalty ``C/2 sum_m ||f_m||^2 / g_m`` is that of one kernel, ``K = sum_m g_m K_m``. In the
eigenbasis of the centered ``K`` the squared loss has its optimum in closed form, for every strength and every target;
smooth losses take Newton steps, whose systems are solved by conjugate gradients with the spectrum as preconditioner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import eigh

from manykernels.objective.certificate import Certificate, KKTResiduals
from manykernels.objective.losses import Loss
from manykernels.solvers import Solution
from manykernels.validation.arrays import Array

NEGLIGIBLE = 1e-11  # eigenvalues below this share of the largest are rounding
MOST_STEPS, MOST_PRODUCTS, MOST_HALVINGS = 60, 60, 30
FORCING = 0.1  # residual of a Newton system, relative to its right-hand side; less where the decrement is smaller
CAUTION = 10.0  # times what the preconditioner says of a residual: curvatures are not alike
ARMIJO = 1e-4


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvectors of one kernel among training samples, scaled to features, with the same features of new rows."""

    features: Array  # (n, r): U sqrt(L) of the kernel, centered if there is an intercept
    values: Array  # (r,) float64: eigenvalues L, decreasing
    held_out: Array  # (n_new, r)
    means: Array  # (n,) float64: of the columns of the kernel; zero without an intercept
    centered: bool

    @classmethod
    def of(cls, gram: Array, cross: Array, *, centered: bool, dtype: Any = np.float64) -> Spectrum:
        """Decompose a kernel; both matrices are overwritten.

        Features may be held in single precision, which rounds each of them in its own unit: small ones stay as exact.
        """
        means = gram.mean(axis=0) if centered else np.zeros(len(gram))
        if centered:
            cross -= cross.mean(axis=1)[:, None] + means
            cross += means.mean()
            gram -= means[:, None] + means
            gram += means.mean()
        values, vectors = eigh(gram, overwrite_a=True, check_finite=False, driver="evd")
        kept = np.flatnonzero(values > NEGLIGIBLE * max(values[-1], 0.0))[::-1]
        values, vectors = values[kept], vectors[:, kept]
        roots = np.sqrt(values)
        features, held_out = vectors * roots, cross @ vectors / roots
        return cls(features.astype(dtype, copy=False), values, held_out.astype(dtype, copy=False), means, centered)


@dataclass(frozen=True, eq=False)
class AverageModels:
    """One model a target in the features of a spectrum."""

    spectrum: Spectrum | None  # None once it is let go
    coefficients: Array  # (r, K) float64
    intercepts: Array  # (K,) float64: for centered features
    strengths: Array  # (K,)
    finished: bool = True  # whether every model is within the tolerance
    weights: Array | None = None  # (M,): of the kernels in the sum, where that is known
    # what a step down of one in the logarithm of the strength changed: coefficients (r, K) and intercepts (K,)
    slopes: tuple[Array, Array] | None = None

    def toward(self, strengths: Array) -> tuple[Array, Array]:
        """Return coefficients and intercepts to begin from: along a line in the logarithms of the strengths."""
        if self.slopes is None:
            return self.coefficients, self.intercepts
        way = np.log(self.strengths / strengths)
        return self.coefficients + self.slopes[0] * way, self.intercepts + self.slopes[1] * way

    def scores(self, features: Array) -> Array:
        """Return the scores of rows with these features, (n, K)."""
        return _product(features, self.coefficients) + self.intercepts

    def without_spectrum(self) -> AverageModels:
        """Return the same models, whose expansion and scores of held-out rows are known, without a matrix."""
        light = replace(self, spectrum=None, slopes=None)
        vars(light).update(expanded=self.expanded, held_out=self.held_out)
        return light

    @cached_property
    def held_out(self) -> Array:
        """Scores of the held-out rows, (n_new, K)."""
        assert self.spectrum is not None
        return self.scores(self.spectrum.held_out)

    @cached_property
    def expanded(self) -> tuple[Array, Array]:
        """The models as ``K a + b`` on the kernel itself: ``a`` (n, K) and ``b`` (K,)."""
        assert self.spectrum is not None
        coefficients = _product(self.spectrum.features, self.coefficients / self.spectrum.values[:, None])
        return coefficients, self.intercepts - self.spectrum.means @ coefficients

    @property
    def by_kernel(self) -> tuple[Array, Array, Array]:
        """The models as dual coefficients (K, n), weights of the single kernels (K, M), and intercepts (K,)."""
        assert self.weights is not None
        coefficients, intercepts = self.expanded
        return (coefficients * self.strengths).T, self.weights / self.strengths[:, None], intercepts

    @property
    def of_all(self) -> bool:
        """Whether it is known that all kernels take part."""
        return self.weights is not None and bool(self.weights.all())

    @property
    def solutions(self) -> list[Solution]:
        """The models for others to begin from, of which nothing is certified."""
        nothing = Certificate.from_values(np.inf, -np.inf, 1.0, KKTResiduals(*[np.inf] * 5))
        rho, weights, intercepts = self.by_kernel
        return [Solution(*own, nothing) for own in zip(rho, weights, intercepts.tolist(), strict=True)]


def _product(features: Array, vectors: Array) -> Array:
    """Return the product of features with vectors, in the precision in which the features are held."""
    return (features @ vectors.astype(features.dtype, copy=False)).astype(np.float64, copy=False)


def can_average(losses: Sequence[Loss]) -> bool:
    """Whether these losses have the derivatives that the models need."""
    return all(not loss.couples_samples and loss.smooth and np.isfinite(loss.curvature_bound) for loss in losses)


def fit_averages(
    spectrum: Spectrum,
    losses: Sequence[Loss],
    targets: Array,
    weight: Array,
    strengths: Array,
    *,
    tol: float,
    start: AverageModels | None = None,
) -> AverageModels:
    """Minimize ``sum_i s_i l(y_i, f_i + b) + C/2 ||v||^2`` for every target."""
    if all(loss.linear_dual for loss in losses) and np.ptp(weight) == 0:
        return _closed_form(spectrum, losses, targets, weight[0], strengths)
    return _Newton(spectrum, losses, targets, weight, strengths).solve(tol, start)


def _closed_form(
    spectrum: Spectrum, losses: Sequence[Loss], targets: Array, weight: float, strengths: Array
) -> AverageModels:
    curvatures = weight / np.array([loss.curvature for loss in losses])
    means = targets.mean(axis=0) if spectrum.centered else np.zeros(targets.shape[1])
    slopes = _product(spectrum.features.T, targets - means)
    coefficients = slopes * curvatures / (spectrum.values[:, None] * curvatures + strengths)
    return AverageModels(spectrum, coefficients, means, strengths)


class _Newton:
    """Newton's method for all targets side by side; those that are done stay where they are."""

    def __init__(
        self, spectrum: Spectrum, losses: Sequence[Loss], targets: Array, weight: Array, strengths: Array
    ) -> None:
        self.spectrum, self.losses, self.targets = spectrum, losses, targets
        self.weight, self.strengths = weight[:, None], strengths
        self.alike = all(loss == losses[0] for loss in losses)

    def solve(self, tol: float, start: AverageModels | None) -> AverageModels:
        """Return the models within ``tol``, or where the steps ran out."""
        v, b = start.toward(self.strengths) if start is not None else self._constants()
        scores, finished = _product(self.spectrum.features, v) + b, False
        for _ in range(MOST_STEPS):
            slopes = self.weight * self._of("derivative", scores)
            curves = self.weight * self._of("second_derivative", scores)
            gradient = _product(self.spectrum.features.T, slopes) + self.strengths * v
            rise = slopes.sum(axis=0) if self.spectrum.centered else np.zeros(len(b))
            values = self._objective(v, scores)
            little = 2 * tol * np.maximum(values, np.finfo(float).tiny)
            step, shift, along = self._direction(gradient, rise, curves, little)
            decrement = -((gradient * step).sum(axis=0) + rise * shift)
            finished = bool((decrement <= little).all())
            length = self._length(v, scores, step, along, decrement, values)
            v, b, scores = v + length * step, b + length * shift, scores + length * along
            if finished or not length.any():
                break
        return AverageModels(self.spectrum, v, b, self.strengths, finished, slopes=self._slopes(v, b, start))

    def _slopes(self, v: Array, b: Array, start: AverageModels | None) -> tuple[Array, Array] | None:
        """Return what changed from a model of other strengths, for each unit of the logarithm."""
        if start is None or (start.strengths == self.strengths).any():
            return None
        way = np.log(start.strengths / self.strengths)
        return (v - start.coefficients) / way, (b - start.intercepts) / way

    def _constants(self) -> tuple[Array, Array]:
        """Return the best constants."""
        zero = np.zeros(len(self.targets))
        each = zip(self.losses, self.targets.T, strict=True)
        best = [loss.best_intercept(y, zero, self.weight[:, 0]) if self.spectrum.centered else 0.0 for loss, y in each]
        return np.zeros((len(self.spectrum.values), len(best))), np.array(best)

    def _of(self, name: str, scores: Array) -> Array:
        """Return values or derivatives of the losses, (n, K)."""
        if self.alike:
            return getattr(self.losses[0], name)(self.targets.ravel(), scores.ravel()).reshape(scores.shape)
        columns = zip(self.losses, self.targets.T, scores.T, strict=True)
        return np.column_stack([getattr(loss, name)(y, z) for loss, y, z in columns])

    def _objective(self, v: Array, scores: Array) -> Array:
        return (self.weight * self._of("value", scores)).sum(axis=0) + 0.5 * self.strengths * (v * v).sum(axis=0)

    def _length(self, v: Array, scores: Array, step: Array, along: Array, decrement: Array, values: Array) -> Array:
        """Halve the step of each target until its objective falls enough; zero where it does not fall at all."""
        length = np.ones(v.shape[1])
        for _ in range(MOST_HALVINGS):
            new = self._objective(v + length * step, scores + length * along)
            low = new <= values - ARMIJO * length * decrement
            if low.all():
                break
            length = np.where(low, length, length / 2)
        return np.where(new < values, length, 0.0)

    def _direction(self, gradient: Array, rise: Array, curves: Array, little: Array) -> tuple[Array, Array, Array]:
        """Solve the Newton systems by preconditioned conjugate gradients, all targets in step; with changes of scores.

        They end as soon as no step, with what is left of its system, promises more than ``little`` of the objective.
        """
        features, centered = self.spectrum.features, self.spectrum.centered
        totals = np.maximum(curves.sum(axis=0), np.finfo(float).tiny)
        inverse = 1.0 / (self.spectrum.values[:, None] * curves.mean(axis=0) + self.strengths)
        inverse_b = 1.0 / totals if centered else np.zeros(len(rise))
        x, t, along = np.zeros_like(gradient), np.zeros_like(rise), np.zeros_like(curves)
        r, q = -gradient, -rise
        z, w = inverse * r, inverse_b * q
        p, o = z, w
        energy, promised = (r * z).sum(axis=0) + q * w, 0.0 * rise
        goal = FORCING**2 * energy
        for _ in range(MOST_PRODUCTS):
            change = _product(features, p) + o
            bent = curves * change
            down, down_b = _product(features.T, bent) + self.strengths * p, bent.sum(axis=0) if centered else 0.0 * o
            curvature = (p * down).sum(axis=0) + o * down_b
            length = np.where((energy > goal) & (curvature > 0), energy / np.where(curvature > 0, curvature, 1.0), 0.0)
            x, t, along, promised = x + length * p, t + length * o, along + length * change, promised + length * energy
            r, q = r - length * down, q - length * down_b
            z, w = inverse * r, inverse_b * q
            fresh = (r * z).sum(axis=0) + q * w
            if (fresh <= goal).all() or not length.any() or (promised + CAUTION * fresh <= little).all():
                break
            turn = np.where(energy > 0, fresh / np.where(energy > 0, energy, 1.0), 0.0)
            p, o, energy = z + turn * p, w + turn * o, fresh
        return x, t, along
