"""Certificates of many targets at once, squared loss, equal to `Problem.certificate` with a leading axis of targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from manykernels.objective.certificate import EPS, FEW, INDEPENDENT, Certificate, KKTResiduals, growth

if TYPE_CHECKING:
    from manykernels.objective.problem import Problem
    from manykernels.validation.arrays import Array


def certify(
    problems: Sequence[Problem], rho: Array, weights: Array, linear: Array, squared: Array
) -> tuple[Array, list[Certificate]]:
    """Return the intercepts and the certificates of the models ``sum_m d_m K_m rho``.

    Parameters
    ----------
    problems : sequence of Problem
        On the same kernels, with the same weights of samples and kernels.
    rho : ndarray of shape (T, N)
        Dual coefficients, which sum to zero if there are intercepts.
    weights : ndarray of shape (T, M)
        Kernel weights.
    linear, squared : ndarray of shape (T,)
        Strengths of the norms and of the squared norms.
    """
    first = problems[0]
    s, w, roots, n = first.weight, first.penalties, first.entry_roots, first.n_samples
    y = np.array([problem.y for problem in problems], dtype=np.float64)
    products = first.stack.apply_each(rho.T)  # (M, N, T)
    f = np.einsum("tm,mnt->tn", weights, products)
    signed_squares = np.einsum("mnt,tn->tm", products, rho)
    roots_of_squares = np.sqrt(np.maximum(signed_squares, 0.0))
    signed = np.copysign(np.sqrt(np.abs(signed_squares)), signed_squares) / w
    u = np.maximum(signed, 0.0)
    b = (y - f) @ s / s.sum() if first.fit_intercept else np.zeros(len(y))
    z = f + b[:, None]
    losses, slopes, t = 0.5 * (z - y) ** 2, np.abs(z - y), w * weights * roots_of_squares
    penalty = _value(t, linear, squared)
    primal = losses @ s + penalty
    scale = _largest_scale(u, linear, squared)
    scaled = scale[:, None] * rho
    conjugates = scaled**2 / (2.0 * s) - y * scaled
    conjugate = _conjugate(scale[:, None] * u, linear, squared)
    dual = -conjugates.sum(axis=1) - conjugate

    # Rounding: of scores, of the penalty, of norms, and of coefficients that sum to zero but for rounding.
    sizes = np.abs(rho) @ roots.T if roots.shape[1] == n else np.abs(rho).sum(axis=1)[:, None] * roots[:, 0]
    moved = growth(n) * ((weights * sizes) @ roots) + FEW * EPS * (np.abs(f) + np.abs(b)[:, None] + np.abs(y))
    rising = moved * (slopes + 0.5 * moved)
    rounding = growth(n) * (losses @ s) + INDEPENDENT * np.linalg.norm(s * rising, axis=1)
    worse = t + w * weights * _norm_error(roots_of_squares, sizes, n)
    rounding += _value(worse, linear, squared) - penalty + growth(len(w)) * penalty
    scaled_u, scaled_sizes = scale[:, None] * u, scale[:, None] * sizes / w
    worse = scaled_u + _norm_error(scaled_u, scaled_sizes, n) + 2.0 * scale[:, None] * np.maximum(-signed, 0.0)
    shrunk = _largest_scale(worse, linear, squared)
    rising_conjugate = np.maximum(_conjugate(shrunk[:, None] * worse, linear, squared) - conjugate, 0.0)
    summed = ((np.abs(y) + np.abs(z)) * np.abs(scaled)).sum(axis=1) + np.abs(conjugates).sum(axis=1)
    rounding += (1.0 - shrunk + growth(n)) * summed + rising_conjugate + growth(len(w)) * conjugate
    if first.fit_intercept:
        off = (growth(n) * np.abs(scaled).sum(axis=1) + np.abs(scaled.sum(axis=1))) / n
        rounding += off * np.abs((scaled / s - y).sum(axis=1)) + 0.5 * off**2 * (1.0 / s).sum()

    denominator = np.maximum(np.abs(primal), [problem.tiny for problem in problems])
    stationarity = (losses @ s + conjugates.sum(axis=1) + (z * scaled).sum(axis=1)) / denominator
    complementarity = (penalty + conjugate - (f * scaled).sum(axis=1)) / denominator
    sums = np.abs(rho.sum(axis=1)) / np.maximum(np.abs(rho).sum(axis=1), np.finfo(float).tiny) * first.fit_intercept
    residuals = np.column_stack([stationarity, complementarity, np.zeros(len(y)), sums, 1.0 - scale]).tolist()
    values: list[Any] = np.column_stack([primal, dual, denominator, rounding]).tolist()
    found = []
    for (high, low, unit, error), parts, norms, blocks in zip(values, residuals, u, t, strict=True):
        plain = Certificate.from_values(high, low, unit, KKTResiduals(*parts), error)
        found.append(_set_norms(plain, norms, blocks))
    return b, found


def _set_norms(plain: Certificate, dual_norms: Array, block_norms: Array) -> Certificate:
    object.__setattr__(plain, "dual_norms", dual_norms)
    object.__setattr__(plain, "block_norms", block_norms)
    return plain


def _value(t: Array, linear: Array, squared: Array) -> Array:
    return np.asarray(linear * t.sum(axis=1) + 0.5 * squared * (t**2).sum(axis=1))


def _largest_scale(u: Array, linear: Array, squared: Array) -> Array:
    """Return the largest factors up to 1 with finite conjugates of the penalties, (T,)."""
    largest = u.max(axis=1)
    beyond = (squared <= 0) & (largest > linear)
    return np.where(beyond, linear / np.where(beyond, largest, 1.0), 1.0)


def _conjugate(u: Array, linear: Array, squared: Array) -> Array:
    """Return conjugates of the penalties at norms within the range."""
    excess = np.square(np.maximum(u - linear[:, None], 0.0)).sum(axis=1)
    return np.where(squared > 0, 0.5 * excess / np.where(squared > 0, squared, 1.0), 0.0)


def _norm_error(norms: Array, sizes: Array, n_samples: int) -> Array:
    """Return by how much rounding may move norms, the roots of sums of terms of the sizes."""
    error = np.sqrt(growth(n_samples)) * sizes
    total = norms + np.hypot(norms, error)
    return np.divide(error * error, total, out=np.zeros_like(total), where=total > 0) + FEW * EPS * norms
