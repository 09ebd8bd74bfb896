"""How alike two kernel matrices are: their cosine, as they are or centered in feature space.

With the ideal kernel of a target, which samples ought to be alike, from labels or numbers; and least squares over
non-negative weights, from inner products alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from manykernels.exceptions import InvalidInputError
from manykernels.validation.arrays import (
    Array,
    check_choice,
    check_columns,
    check_finite,
    check_symmetric_matrix,
    check_vector,
)
from manykernels.validation.gram import check_square_kernel

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


CODINGS = ("auto", "numbers", "signs", "indicator", "balanced")


def target_features(y: ArrayLike, coding: str = "auto") -> Array:
    """Return the features ``Y`` whose inner products ``Y Y'`` are the ideal kernel of a target.

    Parameters
    ----------
    y : array_like of shape (n_samples,) or (n_samples, n_outputs)
        Labels of any type, or numbers.
    coding : {"auto", "numbers", "signs", "indicator", "balanced"}, default="auto"
        ``"numbers"``: ``Y = y``, for regression. For labels, one column a class: ``"signs"`` is +1 inside the class and
        -1 outside (with two classes, one column), ``"indicator"`` is 1 and 0, ``"balanced"`` is
        ``1 / sqrt(size of the class)`` and 0, which lets every class count the same. ``"auto"`` is ``"numbers"`` for
        fractional numbers and several outputs, ``"signs"`` else.

    Returns
    -------
    ndarray of shape (n_samples, k), float64

    Raises
    ------
    InvalidInputError
        If the coding is unknown, or does not fit the values of y.

    Notes
    -----
    After centering, ``"signs"`` and ``"indicator"`` give the same kernel up to a factor (with any number of classes),
    and so the same centered alignment.

    Examples
    --------
    >>> from manykernels.alignment import target_features
    >>> target_features(["a", "b", "a"], "indicator")
    array([[1., 0.],
           [0., 1.],
           [1., 0.]])
    """
    check_choice(coding, CODINGS, "coding")
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim not in (1, 2) or values.shape[0] == 0:
        raise InvalidInputError(f"y must have shape (n_samples,) or (n_samples, n_outputs), got {values.shape}.")
    if values.dtype.kind == "f":
        check_finite(values, "y")
    chosen = _automatic(values) if coding == "auto" else coding
    return _numbers(values) if chosen == "numbers" else _classes(values, chosen)


def target_kernel(y: ArrayLike, coding: str = "auto") -> Array:
    """Return the ideal kernel ``K* = Y Y'`` of a target, which kernels are aligned with.

    Parameters
    ----------
    y : array_like of shape (n_samples,) or (n_samples, n_outputs)
        Labels of any type, or numbers.
    coding : {"auto", "numbers", "signs", "indicator", "balanced"}, default="auto"
        How labels become features; see :func:`manykernels.alignment.target_features`. ``"numbers"`` is ``y y'``, and
        ``"signs"`` the same for labels -1 and +1; with more classes, ``"indicator"`` is 1 for two samples of one class
        and 0 for others, ``"signs"`` the sum of ``y y'`` over all classes against the rest, ``"balanced"``
        one over the size of their class for two samples of one class.

    Returns
    -------
    ndarray of shape (n_samples, n_samples), float64
        Symmetric positive semidefinite.

    Raises
    ------
    InvalidInputError
        If the coding is unknown, or does not fit the values of y.

    Examples
    --------
    >>> from manykernels.alignment import target_kernel
    >>> target_kernel(["no", "yes", "yes"])
    array([[ 1., -1., -1.],
           [-1.,  1.,  1.],
           [-1.,  1.,  1.]])
    """
    features = target_features(y, coding)
    return features @ features.T


def _automatic(values: Array) -> str:
    if values.ndim == 2:
        return "numbers"
    fractional = values.dtype.kind == "f" and bool(np.any(values != np.rint(values)))
    return "numbers" if fractional else "signs"


def _numbers(values: Array) -> Array:
    if values.dtype.kind not in "biuf":
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"y must hold numbers for coding='numbers' ({error}). For labels, use 'signs' or 'indicator'."
            ) from error
    columns = check_columns(values, len(values), "y")
    return columns[:, None] if columns.ndim == 1 else columns


def _classes(values: Array, coding: str) -> Array:
    if values.ndim != 1:
        raise InvalidInputError(f"Labels must have shape (n_samples,) for coding={coding!r}, got {values.shape}.")
    try:
        labels, codes = np.unique(values, return_inverse=True)
    except TypeError as error:
        raise InvalidInputError(f"The labels in y cannot be compared ({error}); give them one type.") from error
    inside = codes[:, None] == np.arange(len(labels))
    if coding == "balanced":
        return inside / np.sqrt(inside.sum(axis=0))
    if coding == "indicator":
        return inside.astype(np.float64)
    return np.where(inside[:, 1:] if len(labels) == 2 else inside, 1.0, -1.0)


SMALLEST_SHARE = 1e-13  # of a kernel's size: less than this after centering is rounding


def center_kernel(K: ArrayLike) -> Array:
    r"""Return a kernel matrix centered in its feature space, :math:`C K C` with :math:`C = I - 11'/n`.

    Parameters
    ----------
    K : array_like of shape (n, n)
        Kernel matrix among the same samples; not modified.

    Returns
    -------
    ndarray of shape (n, n), float64
        Its rows and columns sum to zero.

    Raises
    ------
    InvalidInputError
        If K is not a square matrix of finite numbers.

    References
    ----------
    C. Cortes, M. Mohri, A. Rostamizadeh, "Two-stage learning kernel algorithms", ICML 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.alignment import center_kernel
    >>> center_kernel(np.eye(2))
    array([[ 0.5, -0.5],
           [-0.5,  0.5]])
    """
    return centered(check_square_kernel(K, "K"))


def centered(gram: Array, share: Array | None = None) -> Array:
    """Return ``C K C'`` with ``C = I - 1 s'``, for shares ``s`` of the samples that sum to one, equal by default."""
    rows_centered = gram - (gram.mean(axis=0) if share is None else share @ gram)
    # Means of what is left, not of what was given: the second subtraction also removes the rounding of the first.
    rows_centered -= (rows_centered.mean(axis=1) if share is None else rows_centered @ share)[:, None]
    return rows_centered


def cosine(first: Array, second: Array) -> float:
    """Return ``<A, B> / (||A|| ||B||)`` of two matrices; 0 if one of them is zero."""
    return float(np.vdot(_unit(first), _unit(second))) if first.any() and second.any() else 0.0


def alignment(K: ArrayLike, L: ArrayLike) -> float:
    r"""Return the cosine of two kernel matrices, :math:`\langle K, L\rangle_F / (\|K\|_F \|L\|_F)`.

    Parameters
    ----------
    K, L : array_like of shape (n, n)
        Kernel matrices among the same samples.

    Returns
    -------
    float
        Between 0 and 1 for positive semidefinite matrices; 1 if one is a multiple of the other.

    Raises
    ------
    InvalidInputError
        Unequal shapes, entries that are not finite, or a matrix that is zero, where the cosine is not defined.

    See Also
    --------
    manykernels.alignment.centered_alignment : The same of centered kernels; a constant added to one changes nothing.

    References
    ----------
    N. Cristianini, J. Kandola, A. Elisseeff, J. Shawe-Taylor, "On kernel-target alignment", NIPS 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.alignment import alignment
    >>> alignment(np.eye(4), np.ones((4, 4)))
    0.5
    """
    first, second = check_square_kernel(K, "K"), check_square_kernel(L, "L")
    return _checked_cosine(first, second, (_largest(first), _largest(second)))


def centered_alignment(K: ArrayLike, L: ArrayLike) -> float:
    r"""Return the cosine of two kernel matrices after centering, the empirical centered alignment.

    .. math:: \hat A_c(K, L) = \frac{\langle C K C,\, C L C\rangle_F}{\|C K C\|_F\, \|C L C\|_F},
       \qquad C = I - \tfrac1n 11'.

    Parameters
    ----------
    K, L : array_like of shape (n, n)
        Kernel matrices among the same samples. For the agreement with labels, let L be :func:`target_kernel`.

    Returns
    -------
    float
        Between 0 and 1 for positive semidefinite matrices.

    Raises
    ------
    InvalidInputError
        Unequal shapes, entries that are not finite, or a matrix that is zero after centering.

    See Also
    --------
    manykernels.alignment.target_kernel : The ideal kernel of labels or numbers.
    manykernels.alignment.aligned_weights : The combination of kernels with the largest centered alignment.

    References
    ----------
    C. Cortes, M. Mohri, A. Rostamizadeh, "Algorithms for learning kernels based on centered alignment", JMLR 13 (2012).

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.alignment import centered_alignment
    >>> x = np.array([[1.0], [2.0], [4.0]])
    >>> round(centered_alignment(x @ x.T, x @ x.T + 7.0), 12)
    1.0
    """
    first, second = center_kernel(check_square_kernel(K, "K")), center_kernel(check_square_kernel(L, "L"))
    return _checked_cosine(first, second, (_largest(K), _largest(L)))


def _checked_cosine(first: Array, second: Array, sizes: tuple[float, float]) -> float:
    if first.shape != second.shape:
        raise InvalidInputError(f"K and L must be on the same samples, got shapes {first.shape} and {second.shape}.")
    for name, matrix, size in zip(("K", "L"), (first, second), sizes, strict=True):
        if np.abs(matrix).max() <= SMALLEST_SHARE * size:
            raise InvalidInputError(
                f"The alignment is not defined: {name} is zero (after centering, if that was asked for), as a constant "
                "kernel or target is."
            )
    return cosine(first, second)


def _unit(matrix: Array) -> Array:
    # By the largest entry first: squares of very large and very small entries do not fit in float64.
    scaled = matrix / np.abs(matrix).max()
    unit: Array = scaled / np.linalg.norm(scaled)
    return unit


def _largest(K: ArrayLike) -> float:
    return float(np.abs(np.asarray(K)).max())
