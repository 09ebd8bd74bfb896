"""The compiled loops of the online solvers: samples are updated one by one, kernel weights follow in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.compiled import compiled
from manykernels.solvers.published.online_steps import (
    SMALLEST,
    Penalty,
    Point,
    Ray,
    Samples,
    gains,
    kernel_weights,
    ray_step,
    score,
)

Array = NDArray[Any]

FLAT = 1e-12  # smallest curvature along a pair, relative to that along one of its samples
LARGEST_GAIN = 1e150  # whose square is finite


@compiled(error_model="numpy")
def _move(
    columns: Array,
    chosen: Array,
    at: int,
    other: int,
    samples: Samples,
    penalty: Penalty,
    share: float,
    point: Point,
    ray: Ray,
) -> bool:
    """Take the best step along one column, or along the difference of two; return whether there was one."""
    i = chosen[at]
    j = chosen[other] if other >= 0 else -1
    for m in range(point.squares.size):
        ray.squares[m] = point.squares[m]
        ray.products[m] = point.products[m, i]
        ray.lengths[m] = columns[m, at, i]
        if j >= 0:
            ray.products[m] -= point.products[m, j]
            ray.lengths[m] = max(ray.lengths[m] + columns[m, other, j] - 2.0 * columns[m, at, j], 0.0)
    step = ray_step(ray, samples, penalty, share, point.rho, i, j)
    if step == 0.0:
        return False
    point.rho[i] = min(max(point.rho[i] + step, samples.lo[i]), samples.hi[i])
    if j >= 0:
        point.rho[j] = min(max(point.rho[j] - step, samples.lo[j]), samples.hi[j])
    for m in range(point.squares.size):
        point.squares[m] = max(point.squares[m] + step * (2.0 * ray.products[m] + step * ray.lengths[m]), 0.0)
        product, column = point.products[m], columns[m, at]
        for n in range(product.size):
            product[n] += step * column[n]
        if j >= 0:
            column = columns[m, other]
            for n in range(product.size):
                product[n] -= step * column[n]
    return True


@compiled(error_model="numpy")
def _curvature(columns: Array, chosen: Array, at: int, weights: Array, samples: Samples) -> float:
    total = samples.curvature / samples.weight[chosen[at]]
    for m in range(weights.size):
        total += weights[m] * columns[m, at, chosen[at]]
    return total


@compiled(error_model="numpy")
def _partner(columns: Array, chosen: Array, at: int, weights: Array, up: Array, down: Array, curvatures: Array) -> int:
    """Return the position whose opposite move, with that of ``at``, raises the dual most at fixed weights, or -1."""
    best, partner = 0.0, -1
    for other in range(chosen.size):
        gain = max(up[at] - down[other], up[other] - down[at])
        if other == at or not gain > 0.0:
            continue
        curvature = curvatures[at] + curvatures[other]
        for m in range(weights.size):
            if weights[m] > 0.0:
                curvature -= 2.0 * weights[m] * columns[m, at, chosen[other]]
        rise = min(gain, LARGEST_GAIN) ** 2 / max(curvature, FLAT * curvatures[at])
        if rise > best:
            best, partner = rise, other
    return partner


@compiled(error_model="numpy")
def _steepest(up: Array, down: Array, curvatures: Array) -> int:
    """Return the position whose move raises the dual most at fixed weights, or -1."""
    best, steepest = 0.0, -1
    for at in range(up.size):
        gain = max(up[at], -down[at])
        if gain > 0.0:
            rise = min(gain, LARGEST_GAIN) ** 2 / max(curvatures[at], SMALLEST)
            if rise > best:
                best, steepest = rise, at
    return steepest


@compiled(error_model="numpy")
def sweep(
    columns: Array,
    chosen: Array,
    samples: Samples,
    penalty: Penalty,
    shares: Array,
    point: Point,
    paired: bool,
) -> int:
    """Update the chosen samples in order, each along with the best of the others at hand; return the steps taken."""
    n_kernels, size = point.squares.size, chosen.size
    ray = Ray(np.empty(n_kernels), np.empty(n_kernels), np.empty(n_kernels), np.empty(n_kernels), np.empty(n_kernels))
    up, down, curvatures, weights = np.empty(size), np.empty(size), np.empty(size), np.empty(n_kernels)
    steps = 0
    for at in range(size):
        share = shares[at]
        if not paired:
            steps += _move(columns, chosen, at, -1, samples, penalty, share, point, ray)
        gains(samples, penalty, share, point, chosen, weights, up, down)
        for other in range(size):
            curvatures[other] = _curvature(columns, chosen, other, weights, samples)
        if paired:
            other = _partner(columns, chosen, at, weights, up, down, curvatures)
            if other >= 0:
                steps += _move(columns, chosen, at, other, samples, penalty, share, point, ray)
        else:
            other = _steepest(up, down, curvatures)
            if other >= 0:
                steps += _move(columns, chosen, other, -1, samples, penalty, share, point, ray)
    return steps


@compiled(error_model="numpy")
def _subgradient(samples: Samples, i: int, z: float) -> float:
    """Return ``-s l'(y_i, z)`` at a score; 0 at a kink that allows it."""
    y, weight = samples.y[i], samples.weight[i]
    if samples.entropic:
        return weight * y / (1.0 + np.exp(y * z))
    residual = y - z
    shrunk = residual - samples.kink if residual > samples.kink else min(residual + samples.kink, 0.0)
    if samples.curvature > 0.0:
        return min(max(weight * shrunk / samples.curvature, samples.lo[i]), samples.hi[i])
    if shrunk == 0.0:
        return 0.0
    return float(samples.hi[i] if shrunk > 0.0 else samples.lo[i])


@compiled(error_model="numpy")
def subgradient_sweep(
    columns: Array,
    chosen: Array,
    samples: Samples,
    penalty: Penalty,
    seen: int,
    total: Point,
    intercept: float,
) -> None:
    """Add the subgradient of each chosen sample to ``total``; the model is that of its average, ``N / t`` times it."""
    n_kernels, n_samples = total.products.shape
    weights = np.empty(n_kernels)
    for at in range(chosen.size):
        i, t = chosen[at], seen + at
        scale = n_samples / max(t, 1)
        kernel_weights(penalty, 1.0, scale * scale * total.squares, weights)
        r = _subgradient(samples, i, scale * score(weights, total.products, i) + intercept)
        total.rho[i] += r
        for m in range(n_kernels):
            total.squares[m] += r * (2.0 * total.products[m, i] + r * columns[m, at, i])
            for n in range(n_samples):
                total.products[m, n] += r * columns[m, at, n]
