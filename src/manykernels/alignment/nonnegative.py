"""Least squares over non-negative weights, from inner products alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from manykernels.exceptions import InvalidInputError
from manykernels.validation.arrays import Array, check_symmetric_matrix, check_vector

ROUNDING = 1e-14  # of the largest entry of b: a smaller gradient does not bring a weight in


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
        if gradient[entering] <= ROUNDING * np.abs(right).max():
            break
        inside[entering] = True
        moved, x, inside = _settle(matrix, right, x, inside, entering)
        # A kernel that depends on those inside enters with weight zero, or less by rounding: wait until x has changed.
        refused = np.zeros_like(refused) if moved else refused | (np.arange(len(right)) == entering)
    return x


def _settle(matrix: Array, right: Array, x: Array, inside: Array, entering: int) -> tuple[bool, Array, Array]:
    """Minimize over the weights inside, dropping those that would turn negative; False if ``entering`` did at once."""
    x, inside = x.copy(), inside.copy()
    start = x.copy()
    while inside.any():
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
