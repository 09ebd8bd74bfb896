"""The two smooth stand-ins for ``max_j q_j^2 / 2`` that sequential minimal optimization needs, compiled.

With ``q_j^2 = rho' Q_j rho`` the dual of the support kernel machine has the kink ``max_j q_j^2 / 2``. Both stand-ins
are differentiable, with gradient ``sum_j eta_j Q_j rho`` and generalized Hessian

    sum_j eta_j Q_j + sum_j u_j v_j v_j' - z p p',     v_j = Q_j rho,  p = sum_j c_j v_j,

and differ in the weights only. *Moreau-Yosida* (Bach, Lanckriet and Jordan, appendix B), with the constant ``kappa``
and a share ``o_j`` for each kernel (an empty array means ones):

    G = min_h h^2 / (2 (1 - kappa)^2) + sum_j o_j max(0, q_j - h)^2 / (2 kappa^2), eta_j = o_j (1 - h/q_j)_+ / kappa^2.

*Multipliers* around a center in the simplex, with the constant ``sigma``:

    L = max_eta sum_j eta_j q_j^2 / 2 - ||eta - center||^2 / (2 sigma),     eta in the simplex.

``L`` at a fixed ``sigma`` is exact in the limit of moving centers; ``G`` only in the limit ``kappa -> 0``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.compiled import compiled

Array = NDArray[Any]

MOST_TRIALS = 100
SHORTEST_BRACKET = 4e-16


@compiled()
def threshold(x: Array, shares: Array, slope: float, offset: float) -> float:
    """Return ``h`` with ``sum_j o_j max(0, x_j - h) = slope * h + offset``, exactly, by dropping the terms below it.

    Each round solves the linear equation of the terms kept; ``h`` only rises, so at most ``x.size`` rounds, in
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
    It stops once the derivative is below ``accuracy`` times its size at 0.
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
