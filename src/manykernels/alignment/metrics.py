"""How alike two kernel matrices are: their cosine, as they are or centered in feature space."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from manykernels.exceptions import InvalidInputError
from manykernels.validation.arrays import Array
from manykernels.validation.gram import check_square_kernel

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
