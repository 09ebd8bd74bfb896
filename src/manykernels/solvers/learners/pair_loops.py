"""The compiled inner loops of sequential minimal optimization.

Dual coefficients ``rho`` live in the box ``[lo, hi]``; the objective is ``F(q_1^2, ..., q_M^2) - y'rho`` with ``q_j^2 =
rho' Q_j rho``. With an intercept a step moves two coordinates in opposite directions, so the sum stays; without one it
moves a single coordinate. The loops stop when they need a kernel row not in the cache: fetching it is the business of
the caller.

The two smooth stand-ins for ``max_j q_j^2 / 2`` that sequential minimal optimization needs, compiled.

With ``q_j^2 = rho' Q_j rho`` the dual of the support kernel machine has the kink ``max_j q_j^2 / 2``. Both stand-ins
are differentiable, with gradient ``sum_j eta_j Q_j rho`` and generalized Hessian

    sum_j eta_j Q_j + sum_j u_j v_j v_j' - z p p',     v_j = Q_j rho,  p = sum_j c_j v_j,

and differ in the weights only. *Moreau-Yosida* (Bach, Lanckriet and Jordan, appendix B), with the constant ``kappa``
and a share ``o_j`` for every kernel (an empty array means ones):

    G = min_h h^2 / (2 (1 - kappa)^2) + sum_j o_j max(0, q_j - h)^2 / (2 kappa^2), eta_j = o_j (1 - h/q_j)_+ / kappa^2.

*Multipliers* around a center in the simplex, with the constant ``sigma``:

    L = max_eta sum_j eta_j q_j^2 / 2 - ||eta - center||^2 / (2 sigma),     eta in the simplex.

``L`` at a fixed ``sigma`` is exact in the limit of moving centers; ``G`` only in the limit ``kappa -> 0``.
"""

import math

import numpy as np

from manykernels.compiled import compiled
from manykernels.validation.arrays import Array

MOST_TRIALS = 100
SHORTEST_BRACKET = 4e-16


@compiled()
def threshold(x: Array, shares: Array, slope: float, offset: float) -> float:
    """Return ``h`` with ``sum_j o_j max(0, x_j - h) = slope * h + offset``, exactly, by dropping the terms below it.

    Every round solves the linear equation of the terms kept; ``h`` only rises, so at most ``x.size`` rounds, in
    practice three or four: cheaper than the sort that finds the same ``h`` in O(M log M).
    """
    total, whole = 0.0, 0.0
    for j in range(x.size):
        share = shares[j] if shares.size else 1.0
        total += share * x[j]
        whole += share
    count = x.size
    h = (total - offset) / (whole + slope)
    while True:  # at most one turn a term, since fewer are kept each time
        total, whole = 0.0, 0.0
        kept = 0
        for j in range(x.size):
            if x[j] > h:
                share = shares[j] if shares.size else 1.0
                total += share * x[j]
                whole += share
                kept += 1
        # More terms than before are a rounding error: without this line, terms equal to h may come and go for ever.
        if kept >= count or kept == 0:
            return h
        count = kept
        h = (total - offset) / (whole + slope)


@compiled()
def smoothed_weights(
    squares: Array, center: Array, shares: Array, constant: float, eta: Array, u: Array, c: Array
) -> float:
    """Fill ``eta``, ``u`` and ``c`` (M,) for the norms ``squares`` = q^2 (M,); return ``z``.

    An empty ``center`` chooses Moreau-Yosida smoothing with ``constant = kappa`` and ``shares``, otherwise multipliers
    with ``constant = sigma``.
    """
    if center.size == 0:
        return _moreau_yosida(squares, shares, constant, eta, u, c)
    return _multipliers(squares, center, constant, eta, u, c)


@compiled()
def _moreau_yosida(squares: Array, shares: Array, kappa: float, eta: Array, u: Array, c: Array) -> float:
    slope = (kappa / (1.0 - kappa)) ** 2 if kappa < 1.0 else math.inf
    norms = np.empty(squares.size)
    for j in range(norms.size):
        norms[j] = math.sqrt(squares[j])
    h = threshold(norms, shares, slope, 0.0)
    scale = 1.0 / kappa**2
    whole = 0.0
    for j in range(norms.size):
        eta[j] = u[j] = c[j] = 0.0
        if norms[j] > h:
            share = shares[j] if shares.size else 1.0
            whole += share
            eta[j] = share * scale * (1.0 - h / norms[j])
            c[j] = share / (kappa * norms[j])
            u[j] = share * scale * h / norms[j] / squares[j]
    return 1.0 / (whole + slope)


@compiled()
def _multipliers(squares: Array, center: Array, sigma: float, eta: Array, u: Array, c: Array) -> float:
    # The largest square is taken off first: sigma * squares may be 1e10 where weights of order one are wanted.
    top = 0.0
    for value in squares:
        top = max(top, value)
    x = np.empty(squares.size)
    for j in range(x.size):
        x[j] = center[j] + 0.5 * sigma * (squares[j] - top)
    h = threshold(x, x[:0], 0.0, 1.0)
    count = 0
    for j in range(x.size):
        eta[j] = u[j] = c[j] = 0.0
        if x[j] > h:
            count += 1
            eta[j] = x[j] - h
            u[j] = sigma
            c[j] = math.sqrt(sigma)
    return 1.0 / max(count, 1)


@compiled()
def slope_at(
    t: float,
    squares: Array,
    linear: Array,
    curvature: Array,
    gain: float,
    center: Array,
    shares: Array,
    constant: float,
) -> tuple[float, float]:
    """Return first and second derivative at ``t`` of the smoothed objective along a direction.

    Along it ``q_j^2 = squares_j + 2 t linear_j + t^2 curvature_j``, and the linear part of the objective falls at the
    rate ``gain``.
    """
    size = squares.size
    moved = np.empty(size)
    for j in range(size):
        moved[j] = max(squares[j] + t * (2.0 * linear[j] + t * curvature[j]), 0.0)
    eta, u, c = np.empty(size), np.empty(size), np.empty(size)
    z = smoothed_weights(moved, center, shares, constant, eta, u, c)
    first, second, mixed = -gain, 0.0, 0.0
    for j in range(size):
        if eta[j] > 0.0:
            p = linear[j] + t * curvature[j]
            first += eta[j] * p
            second += eta[j] * curvature[j] + u[j] * p * p
            mixed += c[j] * p
    return first, second - z * mixed * mixed


@compiled()
def smoothed_step(
    longest: float,
    squares: Array,
    linear: Array,
    curvature: Array,
    gain: float,
    center: Array,
    shares: Array,
    constant: float,
    accuracy: float,
) -> float:
    """Return the minimizer in ``[0, longest]``: a root of the increasing derivative, by Newton inside a bracket.

    A Newton point outside the bracket, or one that leaves more than half of the derivative, is replaced by bisection.
    It stops once the derivative is below ``accuracy`` times the size at 0.
    """
    start, second = slope_at(0.0, squares, linear, curvature, gain, center, shares, constant)
    if start >= 0.0:
        return 0.0
    if slope_at(longest, squares, linear, curvature, gain, center, shares, constant)[0] <= 0.0:
        return longest
    left, right, t = 0.0, longest, 0.0
    first, before = start, math.inf
    for _ in range(MOST_TRIALS):
        newton = t - first / second if second > 0.0 else math.inf
        good = left < newton < right and abs(first) <= 0.5 * before
        before = abs(first)
        t = newton if good else 0.5 * (left + right)
        first, second = slope_at(t, squares, linear, curvature, gain, center, shares, constant)
        if abs(first) <= -accuracy * start or right - left <= SHORTEST_BRACKET * right:
            break
        if first < 0.0:
            left = t
        else:
            right = t
    return t


FAST = {"reassoc", "contract", "nsz"}
TINY_CURVATURE = 1e-300
STEP_ACCURACY = 1e-3  # of the derivative along a pair: what the next pairs undo anyway
MISSING = -1  # slot of a row that is not in the cache


@compiled()
def steepest(grad: Array, rho: Array, lo: Array, hi: Array, active: Array) -> tuple[int, int]:
    """Return the coordinates of the largest gain by rising and by falling (-1 if none)."""
    up, down = -1, -1
    lowest, highest = np.inf, -np.inf
    for i in active:
        if rho[i] < hi[i] and grad[i] < lowest:
            lowest, up = grad[i], i
        if rho[i] > lo[i] and grad[i] > highest:
            highest, down = grad[i], i
    return up, down


@compiled()
def violation_of_pair(grad: Array, up: int, down: int) -> float:
    """Return the violation of optimality when the coordinates keep their sum; never negative."""
    return max(grad[down] - grad[up], 0.0) if up >= 0 and down >= 0 else 0.0


@compiled()
def violation_of_single(grad: Array, up: int, down: int) -> float:
    """Return the violation of optimality when each coordinate moves alone; never negative."""
    rising = -grad[up] if up >= 0 else 0.0
    falling = grad[down] if down >= 0 else 0.0
    return max(rising, falling, 0.0)


@compiled()
def shrink(grad: Array, rho: Array, lo: Array, hi: Array, active: Array, low: float, high: float, kept: Array) -> int:
    """Write the active coordinates without coordinates pushed against bounds; return the number."""
    count = 0
    for i in active:
        idle = (rho[i] >= hi[i] and grad[i] < low) or (rho[i] <= lo[i] and grad[i] > high)
        if not idle:
            kept[count] = i
            count += 1
    return count


@compiled()
def move_coordinate(value: float, step: float, longest: float, bound: float) -> float:
    """Move a coordinate; a full-length step ends exactly at the bound."""
    return bound if abs(step) >= longest else value + step


@compiled(fastmath=FAST)
def _model_curvature(
    row: Array,
    diagonals: Array,
    products: Array,
    active: Array,
    up: int,
    eta: Array,
    u: Array,
    c: Array,
    curvature: Array,
    mixed: Array,
) -> None:
    """Fill, for every partner of ``up``, the second derivative along the pair but for ``- z mixed^2``."""
    for n in active:
        curvature[n] = mixed[n] = 0.0
    for j in range(eta.size):
        if eta[j] > 0.0:
            entries, own, level = row[j], row[j, up], products[j, up]
            for n in active:
                p = level - products[j, n]
                curvature[n] += eta[j] * (own + diagonals[j, n] - 2.0 * entries[n]) + u[j] * p * p
                mixed[n] += c[j] * p


@compiled()
def _best_partner(
    grad: Array, rho: Array, lo: Array, active: Array, up: int, curvature: Array, mixed: Array, z: float
) -> int:
    """Return the coordinate with the best second-order decrease by falling, paired with a rise of ``up``."""
    best, partner = -1.0, -1
    for n in active:
        gain = grad[n] - grad[up]
        if rho[n] > lo[n] and gain > 0.0:
            value = gain * gain / max(curvature[n] - z * mixed[n] * mixed[n], TINY_CURVATURE)
            if value > best:
                best, partner = value, n
    return partner


@compiled(fastmath=FAST)
def _spread(
    first: Array, second: Array, step: float, products: Array, y: Array, grad: Array, active: Array, eta: Array
) -> None:
    """Add ``step (first - second)`` to the products ``Q_j rho``; recompute the gradient in the same sweep."""
    for n in active:
        grad[n] = -y[n]
    for j in range(eta.size):
        left, right, target = first[j], second[j], products[j]
        for n in active:
            target[n] += step * (left[n] - right[n])
            grad[n] += eta[j] * target[n]


@compiled()
def _row(rows: Array, slots: Array, stamps: Array, i: int) -> Array:
    """Return row ``i`` of every kernel (M, N) and mark the row as most recent."""
    latest = 0
    for stamp in stamps:
        latest = max(latest, stamp)
    stamps[slots[i]] = latest + 1
    return rows[slots[i]]


@compiled()
def _line(
    first: Array, diagonals: Array, products: Array, up: int, down: int, sign: float, linear: Array, curvature: Array
) -> None:
    """Fill the coefficients of ``q_j^2 + 2 t linear_j + t^2 curvature_j`` along the step; ``down`` is -1 if single."""
    for j in range(linear.size):
        linear[j] = sign * products[j, up]
        curvature[j] = diagonals[j, up]
        if down >= 0:
            linear[j] -= products[j, down]
            curvature[j] = max(curvature[j] + diagonals[j, down] - 2.0 * first[j, down], 0.0)


@compiled()
def _move_coordinates(rho: Array, lo: Array, hi: Array, up: int, down: int, sign: float, step: float) -> None:
    bound = hi[up] if sign > 0.0 else lo[up]
    rho[up] = move_coordinate(rho[up], sign * step, abs(bound - rho[up]), bound)
    if down >= 0:
        rho[down] = move_coordinate(rho[down], -step, rho[down] - lo[down], lo[down])


@compiled()
def kernel_loop(
    rows: Array,
    slots: Array,
    stamps: Array,
    diagonals: Array,
    y: Array,
    lo: Array,
    hi: Array,
    rho: Array,
    products: Array,
    squares: Array,
    grad: Array,
    active: Array,
    paired: bool,
    center: Array,
    shares: Array,
    constant: float,
    tol: float,
    most: int,
) -> tuple[float, int, int]:
    """Take up to ``most`` steps on the active coordinates; return violation, steps and the row missing.

    Parameters are the row cache (``rows`` (slots, M, N), ``slots`` (N,) position of every row or -1, ``stamps`` of last
    use), ``diagonals`` (M, N), the target and the box, the state ``rho``, ``products`` = Q_j rho (M, N), ``squares`` =
    q_j^2 (M,) and ``grad`` (N,), all overwritten, and the smoothing (``center``, ``shares``, ``constant``). The missing
    row is -1 if there is none.
    """
    size = squares.size
    eta, u, c = np.empty(size), np.empty(size), np.empty(size)
    linear, curvature = np.empty(size), np.empty(size)
    bend, mixed = np.zeros(rho.size), np.zeros(rho.size)
    second = np.zeros((size, 0 if paired else rho.size))
    z = smoothed_weights(squares, center, shares, constant, eta, u, c)
    steps = 0
    while True:  # at most `most` steps
        up, down = steepest(grad, rho, lo, hi, active)
        violation = violation_of_pair(grad, up, down) if paired else violation_of_single(grad, up, down)
        if violation <= tol or steps == most:
            return violation, steps, MISSING
        if not paired:
            up, down = (down, -1) if up < 0 or (down >= 0 and grad[down] > -grad[up]) else (up, -1)
        if slots[up] == MISSING:
            return violation, steps, up
        first = _row(rows, slots, stamps, up)
        sign = 1.0 if paired or grad[up] < 0.0 else -1.0
        longest = hi[up] - rho[up] if sign > 0.0 else rho[up] - lo[up]
        gain = sign * y[up]
        if paired:
            _model_curvature(first, diagonals, products, active, up, eta, u, c, bend, mixed)
            down = _best_partner(grad, rho, lo, active, up, bend, mixed, z)
            if slots[down] == MISSING:
                return violation, steps, down
            second = _row(rows, slots, stamps, down)
            longest, gain = min(longest, rho[down] - lo[down]), gain - y[down]
        _line(first, diagonals, products, up, down, sign, linear, curvature)
        step = smoothed_step(longest, squares, linear, curvature, gain, center, shares, constant, STEP_ACCURACY)
        _move_coordinates(rho, lo, hi, up, down, sign, step)
        for j in range(size):
            squares[j] = max(squares[j] + step * (2.0 * linear[j] + step * curvature[j]), 0.0)
        z = smoothed_weights(squares, center, shares, constant, eta, u, c)
        _spread(first, second, sign * step, products, y, grad, active, eta)
        steps += 1
