"""Projection on a box cut by a hyperplane, that of zero sum, or by several: dual coefficients are made feasible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq

from manykernels.grams.rows.vectors import RowVector, sums
from manykernels.validation.arrays import Array

__all__ = ["balance", "project_box_hyperplane", "project_box_orthogonal"]

_ORTHOGONAL, _NEARLY = 1e-15, 1e-11
"""What inner products with directions may be beside the norm: where the search ends, and where it has failed."""

_MOST_STEPS, _MOST_HALVINGS, _ENOUGH = 100, 40, 1e-4
"""Of Newton's method in the multipliers, and how much of its slope a step must gain."""

_FLAT = 1e-10
"""Part of the unit matrix that keeps its systems solvable where most coefficients are at ends."""

_ZERO_SUM = 1e-15
"""A sum below this part of the sum of absolute values is zero up to rounding."""


def balance(rho: Array) -> Array:
    """Return dual coefficients of zero sum inside any box around 0: the larger side is scaled down."""
    positive, negative = sums(rho[rho > 0], -rho[rho < 0])
    if positive == negative:
        return rho
    if positive > negative:
        return np.where(rho > 0, rho * (negative / positive), rho)
    return np.where(rho < 0, rho * (positive / negative), rho)


def project_box_hyperplane(r: Array, lo: Array, hi: Array) -> Array:
    """Return the nearest point to ``r`` of ``{lo <= x <= hi, sum x = 0}``.

    The solution is ``clip(r - nu, lo, hi)``, whose sum is a decreasing, piecewise linear function of ``nu``: the piece
    with the root is found by bisection over the sorted breakpoints, then solved exactly. Subtracting the mean instead
    would leave the box.
    """
    if isinstance(r, RowVector):
        return _project_beside_rows(r, lo, hi)
    x = np.clip(r, lo, hi)
    # A second round removes the rounding that a huge r leaves in the first; its input is already in the box.
    for start in (r, None, None):
        if abs(float(np.sum(x))) <= _ZERO_SUM * float(np.sum(np.abs(x))):
            break
        x = _project_once(x if start is None else start, lo, hi)
    return x


def _project_once(r: Array, lo: Array, hi: Array) -> Array:
    """``clip(r - nu, lo, hi)`` with ``nu`` solved on the linear piece of the sum that contains its root."""
    left, right = _piece_with_root(r, lo, hi)
    at_top = r - hi >= right
    free = ~at_top & (r - lo >= right) & (r - hi <= left)
    fixed = np.where(at_top, hi, lo)
    if not free.any():
        return np.clip(r - (left if np.isfinite(left) else right), lo, hi)
    nu = (float(np.sum(r[free])) + float(np.sum(fixed[~free]))) / int(free.sum())
    return np.clip(np.where(free, r - nu, fixed), lo, hi)


def _piece_with_root(r: Array, lo: Array, hi: Array) -> tuple[float, float]:
    """Neighboring breakpoints between which the sum of ``clip(r - nu, lo, hi)`` crosses zero; infinite at the ends."""
    ends = np.concatenate([r - lo, r - hi])
    points = np.unique(ends[np.isfinite(ends)])
    below, above = -1, len(points)
    while above - below > 1:  # at most the logarithm of the points
        middle = (below + above) // 2
        if float(np.sum(np.clip(r - points[middle], lo, hi))) >= 0:
            below = middle
        else:
            above = middle
    left = float(points[below]) if below >= 0 else -np.inf
    right = float(points[above]) if above < len(points) else np.inf
    return left, right


def _project_beside_rows(r: Array, lo: Array, hi: Array) -> Array:
    """Return the same for vectors that stay beside their rows, whose breakpoints are not sorted."""

    def total(nu: float) -> float:
        return float(np.clip(r - nu, lo, hi).sum())

    low, high = float((r - hi).min()), float((r - lo).max())
    nu = 0.0 if total(0.0) == 0 else low if total(low) <= 0 else high if total(high) >= 0 else None
    return np.clip(r - (brentq(total, low, high) if nu is None else nu), lo, hi)


def project_box_orthogonal(r: Array, lo: Array, hi: Array, basis: Array) -> Array:
    """Return the nearest point to ``r`` of ``{lo <= x <= hi, A'x = 0}`` for an orthonormal basis ``A`` (N, p).

    The solution is ``clip(r - A nu, lo, hi)`` with multipliers that maximize a concave, piecewise quadratic function,
    whose slope is ``A'x``: Newton's method on the coefficients that are off the ends, damped. Where it fails, 0 is
    returned, which every box has inside.
    """
    lo, hi = np.broadcast_to(lo, r.shape), np.broadcast_to(hi, r.shape)
    if np.isinf(lo).all() and np.isinf(hi).all():
        once = r - basis @ (basis.T @ r)
        return once - basis @ (basis.T @ once)  # a second round removes the rounding of a large part

    def at(nu: Array) -> tuple[Array, float, Array]:
        x = np.clip(r - basis @ nu, lo, hi)
        slope = basis.T @ x
        return x, float(0.5 * np.sum((x - r) ** 2) + nu @ slope), slope

    nu = np.zeros(basis.shape[1])
    x, value, slope = at(nu)
    for _ in range(_MOST_STEPS):
        if np.abs(slope).max() <= _ORTHOGONAL * np.linalg.norm(x):
            break
        moved = r - basis @ nu
        free = basis[(moved > lo) & (moved < hi)]
        step = np.linalg.solve(free.T @ free + _FLAT * np.eye(len(nu)), slope)
        found = _ahead(at, nu, step, value, float(slope @ step)) or _ahead(at, nu, slope, value, float(slope @ slope))
        if found is None:
            break
        before = np.abs(slope).max()
        nu, (x, value, slope) = found
        if np.abs(slope).max() >= before and before <= _NEARLY * np.linalg.norm(x):
            break
    return x if np.abs(slope).max() <= _NEARLY * np.linalg.norm(x) else np.zeros_like(x)


def _ahead(at: Callable[[Array], Any], nu: Array, step: Array, value: float, gain: float) -> Any:
    """Return the multipliers after the longest of the halved steps that gains enough, with all that is there."""
    rounding = 1e-15 * abs(value)
    for length in 0.5 ** np.arange(_MOST_HALVINGS):
        found = at(nu + length * step)
        if found[1] >= value + _ENOUGH * length * gain - rounding:
            return nu + length * step, found
    return None
