"""The implicit step of a sample for the online solvers, compiled: the dual is maximized along the coefficient.

Dual coefficients ``rho`` maximize ``-sum_i s_i l*(y_i, -rho_i/s_i) - Omega*(u)`` with ``u_m^2 = rho' K_m rho``, kernels
in the units that make all penalties one. Held beside ``rho`` are the products ``K_m rho`` and the squares ``u_m^2``.
"""

from typing import NamedTuple

import numpy as np

from manykernels.compiled import compiled
from manykernels.validation.arrays import Array

ELASTIC, POWER, BALL, SQUARE = 0, 1, 2, 3  # kinds of penalty
ACCURACY = 1e-3  # of the slope along a step: what the next samples undo anyway
GROWTH = 8.0  # of a step that is still too short
MOST_TRIALS = 100
SMALLEST, NEAREST = 1e-300, 1e-17  # shares of an entropic box that count as none: its slopes stay finite


class OnlineLoss(NamedTuple):
    """The loss: ``s l*(y, -r/s) = curvature r^2/(2 s) - y r + kink |r|`` on a box, or the entropy of the logistic."""

    y: Array
    weight: Array
    lo: Array
    hi: Array
    curvature: float
    kink: float
    entropic: bool


class Penalty(NamedTuple):
    """The penalty by what the weights are made of.

    ``ELASTIC``: ``d = (u - slope)_+ / (power u)``; ``POWER``: ``d = (u / slope)^(power - 2) / slope``; ``BALL``:
    ``d = (u / ||u||_power)^(power - 2) / slope``; ``SQUARE``: ``d = ||v|| (v / ||v||)^(power - 1) / (square u)`` with
    ``v = (u - slope)_+``.
    """

    kind: int
    slope: float
    power: float
    square: float = 0.0


class Ray(NamedTuple):
    """A direction ``e_i`` or ``e_i - e_j``: ``u_m^2 = squares + 2 step products + step^2 lengths``; and scratch."""

    squares: Array
    products: Array
    lengths: Array
    trial: Array
    weights: Array


class DualPoint(NamedTuple):
    """Dual coefficients (N,), products (M, N) and squares (M,), updated by the loops."""

    rho: Array
    products: Array
    squares: Array


@compiled(error_model="numpy")
def _square_weights(penalty: Penalty, slope: float, square: float, squares: Array, out: Array) -> None:
    """Write the weights of a 1-norm with a slope and a squared norm."""
    top = np.sqrt(max(squares.max(), 0.0)) - slope
    total = 0.0
    for m in range(squares.size):
        excess = np.sqrt(max(squares[m], 0.0)) - slope
        if excess > 0.0:
            total += (excess / top) ** penalty.power
    norm = top * total ** (1.0 / penalty.power) if top > 0.0 else 1.0
    for m in range(squares.size):
        u = np.sqrt(max(squares[m], 0.0))
        out[m] = norm * ((u - slope) / norm) ** (penalty.power - 1.0) / (square * u) if u > slope else 0.0


@compiled(error_model="numpy")
def kernel_weights(penalty: Penalty, share: float, squares: Array, out: Array) -> None:
    """Write the gradient of ``Omega*`` as kernel weights, with ``share`` of the strength of the penalty."""
    slope = penalty.slope * share
    if penalty.kind == ELASTIC:
        for m in range(squares.size):
            u = np.sqrt(max(squares[m], 0.0))
            inside = 1.0 if slope == 0.0 else (1.0 - slope / u if u > slope else 0.0)
            out[m] = inside / (penalty.power * share)
        return
    if penalty.kind == SQUARE:
        _square_weights(penalty, slope, penalty.square * share, squares, out)
        return
    unit = slope
    if penalty.kind == BALL:
        unit = _norm(squares, penalty.power)
    for m in range(squares.size):
        u = np.sqrt(max(squares[m], 0.0))
        out[m] = (u / unit) ** (penalty.power - 2.0) / slope if unit > 0.0 else 0.0


@compiled(error_model="numpy")
def _norm(squares: Array, power: float) -> float:
    """Return the norm of the roots of ``squares``."""
    top = squares.max()
    if not top > 0.0:
        return 0.0
    total = 0.0
    for m in range(squares.size):
        total += (max(squares[m], 0.0) / top) ** (0.5 * power)
    return float(np.sqrt(top) * total ** (1.0 / power))


@compiled(error_model="numpy")
def conjugate_slope(samples: OnlineLoss, i: int, r: float, side: float) -> float:
    """Return the derivative of ``s l*(y, -r/s)`` in ``r`` toward ``side``; infinite at the boundary of the box."""
    if (side > 0.0 and r >= samples.hi[i]) or (side < 0.0 and r <= samples.lo[i]):
        return side * np.inf
    y, weight = samples.y[i], samples.weight[i]
    if samples.entropic:
        part = y * r / weight
        return y * (np.log(max(part, SMALLEST)) - np.log(max(1.0 - part, NEAREST)))
    rising = r > 0.0 or (r == 0.0 and side > 0.0)
    return samples.curvature * r / weight - y + (samples.kink if rising else -samples.kink)


@compiled(error_model="numpy")
def score(weights: Array, products: Array, i: int) -> float:
    """Return ``sum_m d_m (K_m rho)_i``."""
    total = 0.0
    for m in range(weights.size):
        if weights[m] > 0.0:
            total += weights[m] * products[m, i]
    return total


@compiled(error_model="numpy")
def gains(
    samples: OnlineLoss,
    penalty: Penalty,
    share: float,
    point: DualPoint,
    chosen: Array,
    weights: Array,
    up: Array,
    down: Array,
) -> None:
    """Write the kernel weights, and the slope of the dual for a rise and for a fall of every chosen coefficient."""
    kernel_weights(penalty, share, point.squares, weights)
    for at in range(chosen.size):
        i = chosen[at]
        f = score(weights, point.products, i)
        up[at] = -conjugate_slope(samples, i, point.rho[i], 1.0) - f
        down[at] = -conjugate_slope(samples, i, point.rho[i], -1.0) - f


@compiled(error_model="numpy")
def _slope(
    ray: Ray,
    samples: OnlineLoss,
    penalty: Penalty,
    share: float,
    rho: Array,
    i: int,
    j: int,
    step: float,
    side: float,
) -> float:
    """Return the one-sided derivative of the dual at ``rho + step (e_i - e_j)``."""
    for m in range(ray.trial.size):
        ray.trial[m] = ray.squares[m] + step * (2.0 * ray.products[m] + step * ray.lengths[m])
    kernel_weights(penalty, share, ray.trial, ray.weights)
    total = -conjugate_slope(samples, i, rho[i] + step, side)
    if j >= 0:
        total += conjugate_slope(samples, j, rho[j] - step, -side)
    for m in range(ray.trial.size):
        if ray.weights[m] > 0.0:
            total -= ray.weights[m] * (ray.products[m] + step * ray.lengths[m])
    return total


@compiled(error_model="numpy")
def _longest(samples: OnlineLoss, rho: Array, i: int, j: int, sign: float) -> float:
    """Return how far the step may go before a coefficient meets an end of the box."""
    own = samples.hi[i] - rho[i] if sign > 0.0 else rho[i] - samples.lo[i]
    if j < 0:
        return own
    return min(own, rho[j] - samples.lo[j] if sign > 0.0 else samples.hi[j] - rho[j])


@compiled(error_model="numpy")
def _first_trial(ray: Ray, samples: OnlineLoss, slope: float, i: int, j: int, longest: float) -> float:
    """Return Newton's step at fixed kernel weights, stored in ``ray.weights``."""
    curvature = samples.curvature / samples.weight[i]
    if j >= 0:
        curvature += samples.curvature / samples.weight[j]
    for m in range(ray.weights.size):
        curvature += ray.weights[m] * ray.lengths[m]
    step = slope / curvature
    if step < longest:
        return step
    return longest if np.isfinite(longest) else 1.0


@compiled(error_model="numpy")
def ray_step(ray: Ray, samples: OnlineLoss, penalty: Penalty, share: float, rho: Array, i: int, j: int) -> float:
    """Return the step along ``e_i - e_j`` (``e_i`` if j < 0) that maximizes the dual: the implicit step."""
    sign = 1.0
    slope = _slope(ray, samples, penalty, share, rho, i, j, 0.0, 1.0)
    if not slope > 0.0:
        sign = -1.0
        slope = -_slope(ray, samples, penalty, share, rho, i, j, 0.0, -1.0)
        if not slope > 0.0:
            return 0.0
    longest = _longest(samples, rho, i, j, sign)
    low, low_slope = 0.0, slope
    high, high_slope = _first_trial(ray, samples, slope, i, j, longest), -np.inf
    for _ in range(MOST_TRIALS):
        found = sign * _slope(ray, samples, penalty, share, rho, i, j, sign * high, -sign)
        if not found > 0.0:
            high_slope = found
            break
        low, low_slope = high, found
        if high >= longest:
            return sign * longest
        high = min(GROWTH * high, longest)
    return sign * _root(ray, samples, penalty, share, rho, i, j, sign, low, low_slope, high, high_slope, slope)


@compiled(error_model="numpy")
def _root(
    ray: Ray,
    samples: OnlineLoss,
    penalty: Penalty,
    share: float,
    rho: Array,
    i: int,
    j: int,
    sign: float,
    low: float,
    low_slope: float,
    high: float,
    high_slope: float,
    first: float,
) -> float:
    """Return where the falling slope crosses zero, by false position with halved ends and some bisections."""
    last = 0
    for trial in range(MOST_TRIALS):
        step = (low * high_slope - high * low_slope) / (high_slope - low_slope)
        if trial % 4 == 3 or not low < step < high:
            step = 0.5 * (low + high)
        if high - low <= 1e-15 * high:
            break
        found = sign * _slope(ray, samples, penalty, share, rho, i, j, sign * step, sign)
        if abs(found) <= ACCURACY * first:
            return step
        if found > 0.0:
            high_slope *= 0.5 if last == 1 else 1.0
            low, low_slope, last = step, found, 1
        else:
            low_slope *= 0.5 if last == -1 else 1.0
            high, high_slope, last = step, found, -1
    return _kink_step(samples, rho, i, j, sign, high)


@compiled(error_model="numpy")
def _kink_step(samples: OnlineLoss, rho: Array, i: int, j: int, sign: float, step: float) -> float:
    """Return the step to the exact kink of a conjugate for a jumping slope."""
    if samples.kink > 0.0:
        if abs(rho[i] + sign * step) <= 1e-9 * abs(rho[i]):
            return abs(rho[i])
        if j >= 0 and abs(rho[j] - sign * step) <= 1e-9 * abs(rho[j]):
            return abs(rho[j])
    return step


# The compiled loops of the online solvers: samples are updated one by one, kernel weights follow in closed form.

FLAT = 1e-12  # smallest curvature along a pair, relative to that along one of its samples
LARGEST_GAIN = 1e150  # whose square is finite


@compiled(error_model="numpy")
def _move(
    columns: Array,
    chosen: Array,
    at: int,
    other: int,
    samples: OnlineLoss,
    penalty: Penalty,
    share: float,
    point: DualPoint,
    ray: Ray,
) -> bool:
    """Take the best step along a single column, or along the difference of two; return whether moved."""
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
def _curvature(columns: Array, chosen: Array, at: int, weights: Array, samples: OnlineLoss) -> float:
    total = samples.curvature / samples.weight[chosen[at]]
    for m in range(weights.size):
        total += weights[m] * columns[m, at, chosen[at]]
    return total


@compiled(error_model="numpy")
def _partner(columns: Array, chosen: Array, at: int, weights: Array, up: Array, down: Array, curvatures: Array) -> int:
    """Return the position of the best opposite move to ``at`` at fixed weights, or -1."""
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
    """Return the position of the steepest move at fixed weights, or -1."""
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
    samples: OnlineLoss,
    penalty: Penalty,
    shares: Array,
    point: DualPoint,
    paired: bool,
) -> int:
    """Update the chosen samples in order, each with the best available partner; return the number of steps."""
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
def _subgradient(samples: OnlineLoss, i: int, z: float) -> float:
    """Return ``-s l'(y_i, z)`` at a score; 0 at a kink if allowed."""
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
    samples: OnlineLoss,
    penalty: Penalty,
    seen: int,
    total: DualPoint,
    intercept: float,
) -> None:
    """Add the subgradient of every chosen sample to ``total``; the model uses the average times ``N / t``."""
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
