"""Projection on a box cut by a hyperplane, that of zero sum, or by several: dual coefficients are made feasible.

And on nonnegative numbers, in a metric of which only inner products are known.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import brentq

from manykernels.exceptions import InvalidInputError
from manykernels.grams.rows.vectors import RowVector, sums
from manykernels.validation.arrays import Array, check_symmetric_matrix, check_vector

"""What inner products with directions may be beside the norm: where the search ends, and where it has failed."""

_MOST_STEPS, _MOST_HALVINGS, _ENOUGH = 100, 40, 1e-4
"""Of Newton's method in the multipliers, and how much of its slope a step must gain."""

"""Part of the unit matrix that keeps its systems solvable where most coefficients are at ends."""

"""A sum below this part of the sum of absolute values is zero up to rounding."""


def balance(rho: Array) -> Array:
    """Return dual coefficients of zero sum inside any box around 0: the larger side is scaled down."""
    # Without selecting entries: their signs follow no pattern that a processor could foresee.
    above, below = np.maximum(rho, 0.0), np.minimum(rho, 0.0)
    positive, negative = sums(above, -below)
    if positive == negative:
        return rho
    if positive > negative:
        return above * (negative / positive) + below
    return above + below * (positive / negative)


def project_box_hyperplane(r: Array, lo: Array, hi: Array) -> Array:
    """Return the nearest point to ``r`` of ``{lo <= x <= hi, sum x = 0}``.

    The solution is ``clip(r - nu, lo, hi)``, whose sum is a decreasing, piecewise linear function of ``nu``: the piece
    with the root is found by bisection over the sorted breakpoints, then solved exactly. Subtracting the mean instead
    would leave the box.
    """
    if isinstance(r, RowVector):
        return _project_beside_rows(r, lo, hi)
    x = np.clip(r, lo, hi)
    zero_sum = 1e-15
    # A second round removes the rounding that a huge r leaves in the first; its input is already in the box.
    for start in (r, None, None):
        if abs(float(np.sum(x))) <= zero_sum * float(np.sum(np.abs(x))):
            break
        x = _project_once(x if start is None else start, lo, hi)
    return x


def _project_once(r: Array, lo: Array, hi: Array) -> Array:
    """``clip(r - nu, lo, hi)`` with ``nu`` solved on the linear piece of the sum that contains the root."""
    left, right = _piece_with_root(r, lo, hi)
    at_top = r - hi >= right
    free = ~at_top & (r - lo >= right) & (r - hi <= left)
    fixed = np.where(at_top, hi, lo)
    if not free.any():
        return np.clip(r - (left if np.isfinite(left) else right), lo, hi)
    nu = (float(np.sum(r[free])) + float(np.sum(fixed[~free]))) / int(free.sum())
    return np.clip(np.where(free, r - nu, fixed), lo, hi)


def _piece_with_root(r: Array, lo: Array, hi: Array) -> tuple[float, float]:
    """Neighboring breakpoints around the root of the sum of ``clip(r - nu, lo, hi)``; infinite at the ends."""
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
    """Return the projection for vectors beside their rows, without sorted breakpoints."""

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

    def evaluate(nu: Array) -> tuple[Array, float, Array]:
        x = np.clip(r - basis @ nu, lo, hi)
        slope = basis.T @ x
        return x, float(0.5 * np.sum((x - r) ** 2) + nu @ slope), slope

    nu = np.zeros(basis.shape[1])
    x, value, slope = evaluate(nu)
    orthogonal, nearly = 1e-15, 1e-11
    flat = 1e-10
    for _ in range(_MOST_STEPS):
        if np.abs(slope).max() <= orthogonal * np.linalg.norm(x):
            break
        moved = r - basis @ nu
        free = basis[(moved > lo) & (moved < hi)]
        step = np.linalg.solve(free.T @ free + flat * np.eye(len(nu)), slope)
        found = _ahead(evaluate, nu, step, value, float(slope @ step)) or _ahead(
            evaluate, nu, slope, value, float(slope @ slope)
        )
        if found is None:
            break
        before = np.abs(slope).max()
        nu, (x, value, slope) = found
        if np.abs(slope).max() >= before and before <= nearly * np.linalg.norm(x):
            break
    return x if np.abs(slope).max() <= nearly * np.linalg.norm(x) else np.zeros_like(x)


def _ahead(at: Callable[[Array], Any], nu: Array, step: Array, value: float, gain: float) -> Any:
    """Return the multipliers after the longest halved step of sufficient gain, with all derived values."""
    rounding = 1e-15 * abs(value)
    for length in 0.5 ** np.arange(_MOST_HALVINGS):
        found = at(nu + length * step)
        if found[1] >= value + _ENOUGH * length * gain - rounding:
            return nu + length * step, found
    return None


_ENTERING = 1e-14  # of the largest entry of b: a smaller gradient does not bring a weight in


def nonnegative_quadratic(M: ArrayLike, b: ArrayLike) -> Array:
    r"""Minimize :math:`\tfrac12 x' M x - b' x` over :math:`x \ge 0` by active sets (Lawson and Hanson).

    This is non-negative least squares, ``min ||A x - c||`` with ``M = A'A`` and ``b = A'c``, where only inner products
    are known. At the minimum, ``M x >= b`` with equality wherever ``x > 0``.

    Parameters
    ----------
    M : array_like of shape (m, m)
        Symmetric positive semidefinite, possibly singular; best with a diagonal of ones.
    b : array_like of shape (m,)
        In the range of M, as inner products are.

    Returns
    -------
    ndarray of shape (m,), float64
        Non-negative, with exact zeros.

    Raises
    ------
    InvalidInputError
        If shapes do not agree, entries are not finite or M is not symmetric.

    References
    ----------
    C. L. Lawson, R. J. Hanson, "Solving Least Squares Problems", SIAM 1995, chapter 23; R. Bro, S. de Jong, "A fast
    non-negativity-constrained least squares algorithm", Journal of Chemometrics 11 (1997).

    Examples
    --------
    >>> from manykernels.alignment import nonnegative_quadratic
    >>> nonnegative_quadratic([[2.0, 0.0], [0.0, 1.0]], [1.0, -3.0])
    array([0.5, 0. ])
    """
    right = check_vector(b, len(np.atleast_1d(b)), "b")
    matrix = check_symmetric_matrix(M, "M")
    if len(matrix) != len(right):
        raise InvalidInputError(f"M must have shape {(len(right), len(right))} to go with b, got {matrix.shape}.")
    x, inside, refused = np.zeros(len(right)), np.zeros(len(right), dtype=bool), np.zeros(len(right), dtype=bool)
    for _ in range(10 * len(right) + 10):
        gradient = np.where(inside | refused, -np.inf, right - matrix @ x)
        entering = int(gradient.argmax())
        if gradient[entering] <= _ENTERING * np.abs(right).max():
            break
        inside[entering] = True
        moved, x, inside = _settle(matrix, right, x, inside, entering)
        # A kernel that depends on those inside enters with weight zero, or less by rounding: wait until x has changed.
        refused = np.zeros_like(refused) if moved else refused | (np.arange(len(right)) == entering)
    return x


def _settle(matrix: Array, right: Array, x: Array, inside: Array, entering: int) -> tuple[bool, Array, Array]:
    """Minimize over the free weights, dropping negative ones; False if ``entering`` turned negative at once."""
    x, inside = x.copy(), inside.copy()
    start = x.copy()
    while inside.any():  # at most len(x) times: each but the last drops a weight
        chosen = np.flatnonzero(inside)
        wanted = _solve(matrix[np.ix_(chosen, chosen)], right[chosen])
        if x[entering] == 0 and inside[entering] and wanted[chosen == entering][0] <= 0:
            inside[entering] = False
            return False, start, start > 0
        falling = wanted <= 0
        if not falling.any():
            x[chosen] = wanted
            return True, x, inside
        ratios = x[chosen][falling] / (x[chosen][falling] - wanted[falling])
        step = float(ratios.min())
        x[chosen] += step * (wanted - x[chosen])
        out = chosen[falling][ratios <= step]
        x[out], inside[out] = 0.0, False
    return True, x, inside


def _solve(matrix: Array, right: Array) -> Array:
    try:
        solution: Array = cho_solve(cho_factor(matrix), right)
    except LinAlgError:
        solution = np.linalg.lstsq(matrix, right, rcond=None)[0]
    return solution
