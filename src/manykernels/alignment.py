"""Two-stage learning: choose the combination of kernels most like the target, then learn with that kernel.

How alike two kernel matrices are: their cosine, as they are or centered in feature space; the ideal kernel of a target,
which samples ought to be alike; and weights whose combination is most like it: jointly, in turn, equal, or by margin
(EasyMKL).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.svm import SVC

from manykernels.compiled import compiled
from manykernels.exceptions import ConvergenceWarning, InvalidInputError, warn
from manykernels.grams import GramStack, as_stack
from manykernels.grams.base import triangle_size, triangle_starts
from manykernels.grams.packed import pack_triangle
from manykernels.objective.projection import nonnegative_quadratic
from manykernels.validation.arrays import (
    Array,
    are_labels,
    check_choice,
    check_columns,
    check_finite,
    check_positive,
    read_only,
)
from manykernels.validation.gram import check_square_kernel
from manykernels.validation.parameters import check_flag

__all__ = [
    "CODINGS", "METHODS", "AlignedWeights", "MarginWeights", "aligned_weights", "alignment", "center_kernel",
    "centered_alignment", "margin_weights", "nonnegative_quadratic", "target_features", "target_kernel",
]  # fmt: skip

CODINGS = ("auto", "numbers", "signs", "indicator", "balanced")


def target_features(y: ArrayLike, coding: str = "auto") -> Array:
    """Return the features ``Y`` whose inner products ``Y Y'`` are the ideal kernel of a target.

    Parameters
    ----------
    y : array_like of shape (n_samples,) or (n_samples, n_outputs)
        Labels of any type, or numbers.
    coding : {"auto", "numbers", "signs", "indicator", "balanced"}, default="auto"
        ``"numbers"``: ``Y = y``, for regression. For labels, a column per class: ``"signs"`` is +1 inside the class and
        -1 outside (with two classes, a single column), ``"indicator"`` is 1 and 0, ``"balanced"`` is ``1 / sqrt(size of
        the class)`` and 0, which lets every class count the same. ``"auto"`` is ``"signs"`` for text, booleans, two
        values, and at most ten different whole numbers, ``"numbers"`` else.

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
        ``"signs"`` the same for labels -1 and +1; with more classes, ``"indicator"`` is 1 for two samples of a single
        class and 0 for others, ``"signs"`` the sum of ``y y'`` over all classes against the rest, ``"balanced"`` one
        over the size of their class for two samples of a single class.

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
    return "signs" if values.ndim == 1 and are_labels(values) else "numbers"


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
    r"""Return a kernel matrix centered in the feature space, :math:`C K C` with :math:`C = I - 11'/n`.

    Parameters
    ----------
    K : array_like of shape (n, n)
        Kernel matrix among the same samples; not modified.

    Returns
    -------
    ndarray of shape (n, n), float64
        The rows and columns sum to zero.

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
    """Return ``C K C'`` with ``C = I - 1 s'``, for shares ``s`` of the samples of unit sum, equal by default."""
    rows_centered = gram - (gram.mean(axis=0) if share is None else share @ gram)
    # Means of what is left, not of what was given: the second subtraction also removes the rounding of the first.
    rows_centered -= (rows_centered.mean(axis=1) if share is None else rows_centered @ share)[:, None]
    return rows_centered


def cosine(first: Array, second: Array) -> float:
    """Return ``<A, B> / (||A|| ||B||)`` of two matrices; 0 for a zero matrix."""
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
        Unequal shapes, entries not finite, or a matrix that is zero, where the cosine is not defined.

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
    return _cosine(first, second, (_largest(first), _largest(second)))


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
        Unequal shapes, entries not finite, or a matrix that is zero after centering.

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
    return _cosine(first, second, (_largest(K), _largest(L)))


def _cosine(first: Array, second: Array, sizes: tuple[float, float]) -> float:
    if first.shape != second.shape:
        raise InvalidInputError(f"K and L must be on the same samples, got shapes {first.shape} and {second.shape}.")
    for name, matrix, size in zip(("K", "L"), (first, second), sizes, strict=True):
        if np.abs(matrix).max() <= SMALLEST_SHARE * size:
            raise InvalidInputError(
                f"The alignment is not defined: {name} is zero (after centering, if requested), like a constant "
                f"kernel or target."
            )
    return cosine(first, second)


def _unit(matrix: Array) -> Array:
    # By the largest entry first: squares of very large and very small entries do not fit in float64.
    scaled = matrix / np.abs(matrix).max()
    unit: Array = scaled / np.linalg.norm(scaled)
    return unit


def _largest(K: ArrayLike) -> float:
    return float(np.abs(np.asarray(K)).max())


# Inner products of centered kernels, read from any Gram stack a few kernels at a time.


# Compiled loops over packed triangles: kernels are centered where they are read.


@compiled()
def row_means(triangle: Array, n: int, out: Array) -> None:
    """Set ``out = K 1 / n`` of a packed triangle (n(n+1)/2,), out (n,) float64."""
    out[:] = 0.0
    start = 0
    for i in range(n):
        row = triangle[start : start + n - i]
        total = 0.0
        for j in range(n - i):
            total += row[j]
            out[i + j] += row[j]
        out[i] += total - row[0]
        start += n - i
    for i in range(n):
        out[i] /= n


@compiled()
def pack_features(triangles: Array, n: int, center: bool, out: Array) -> None:
    """Write (centered) kernels as vectors whose inner products are those of the full matrices, out (m, P) float64.

    Off-diagonal entries stand for two and are multiplied by the square root of two.
    """
    means = np.zeros(n)
    root_two = np.sqrt(2.0)
    for m in range(triangles.shape[0]):
        triangle = triangles[m]
        grand = 0.0
        if center:
            row_means(triangle, n, means)
            for i in range(n):
                grand += means[i] / n
        start = 0
        for i in range(n):
            row, target = triangle[start : start + n - i], out[m, start : start + n - i]
            shift, tail = grand - means[i], means[i:]
            target[0] = row[0] + shift - tail[0]
            for j in range(1, n - i):
                target[j] = root_two * (row[j] + shift - tail[j])
            start += n - i


CHUNK_BYTES = 64 * 2**20  # of kernels centered at once; two such chunks, and the triangles of one, may be held at once


@dataclass(frozen=True, eq=False)
class CenteredProducts:
    """Inner products ``<K_i, K_j>_F`` and ``<K_i, T>_F`` of the (centered) kernels of a stack.

    A kernel is held as a packed triangle, centered entry by entry, whose off-diagonal entries are multiplied by the
    square root of two: inner products of matrices are then those of vectors, computed by BLAS. A chunk is `CHUNK_BYTES`
    of such vectors (a single kernel, if that is larger); no more than two chunks and the triangles of one exist at
    once, whatever the number of kernels.
    """

    stack: GramStack
    center: bool = True

    def target(self, T: Array) -> Array:
        """Return a symmetric matrix T as a vector, centered like the kernels."""
        matrix = center_kernel(T) if self.center else np.asarray(T, dtype=np.float64)
        packed = np.empty(triangle_size(len(matrix)))
        pack_triangle(read_only(matrix), packed)
        packed *= np.sqrt(2.0)
        packed[triangle_starts(len(matrix))[:-1]] /= np.sqrt(2.0)
        return packed

    def with_target(self, target: Array) -> tuple[Array, Array, Array]:
        """Return for every kernel the inner product with a target and the norms: a single pass."""
        products = np.empty((3, self.stack.n_kernels))
        for at in self._chunks(self.stack.n_kernels):
            products[:, at] = self._measured(at, target)
        return products[0], products[1], products[2]

    def combination_products(self, weights: Array) -> Array:
        """Return ``<K_i, sum_j weights_j K_j>_F`` of every kernel: a single pass, and the active kernels once."""
        combined = self.target(self.stack.combine(weights))
        products = np.empty(self.stack.n_kernels)
        for at in self._chunks(self.stack.n_kernels):
            products[at] = self._vectors(at) @ combined
        return products

    def inner_products(self, rows: object, columns: object) -> Array:
        """Return ``<K_i, K_j>_F`` for the given kernels."""
        left, right = np.asarray(rows), np.asarray(columns)
        products = np.empty((len(left), len(right)))
        for at in self._chunks(len(left)):
            first = self._vectors(left[at])
            known = {int(kernel): position for position, kernel in enumerate(left[at])}
            repeated = np.array([p for p, kernel in enumerate(right) if int(kernel) in known], dtype=np.int64)
            products[np.ix_(at, repeated)] = first @ first[[known[int(right[p])] for p in repeated]].T
            others = np.setdiff1d(np.arange(len(right)), repeated)
            for to in self._chunks(len(others)):
                products[np.ix_(at, others[to])] = first @ self._vectors(right[others[to]]).T
        return products

    def _chunks(self, n_kernels: int) -> Iterator[Array]:
        """Yield the positions 0, 1, ... of so many kernels, a chunk at a time."""
        n = self.stack.n_samples
        step = max(1, CHUNK_BYTES // (4 * n * (n + 1)))
        for first in range(0, n_kernels, step):
            yield np.arange(first, min(first + step, n_kernels))

    def _vectors(self, kernels: Array) -> Array:
        return self._centered(self.stack.triangles(kernels))

    def _centered(self, triangles: Array) -> Array:
        """Return packed triangles as vectors, (n_kernels, N(N+1)/2)."""
        vectors = np.empty(triangles.shape)
        pack_features(triangles, self.stack.n_samples, self.center, vectors)
        return vectors

    def _measured(self, kernels: Array, target: Array) -> tuple[Array, Array, Array]:
        """Return products with the target, norms and raw norms of a single chunk."""
        triangles = self.stack.triangles(kernels)
        vectors = self._centered(triangles)
        norms: Array = np.linalg.norm(vectors, axis=1)
        raw = _norms(triangles, self.stack.n_samples) if self.center else norms
        return vectors @ target, norms, raw


def _norms(triangles: Array, n: int) -> Array:
    """Return the Frobenius norms of packed triangles, squared one at a time to hold no further chunk."""
    diagonal, wide = triangle_starts(n)[:-1], (triangle.astype(np.float64) for triangle in triangles)
    return np.sqrt([2.0 * (each @ each) - each[diagonal] @ each[diagonal] for each in wide])


METHODS = ("joint", "independent", "uniform")
FIRST_SET = 64  # kernels of the first joint problem; the set at most doubles
MOST_ROUNDS = 60


@dataclass(frozen=True, eq=False)
class AlignedWeights:
    """Weights of kernels by alignment with a target, and how good they are.

    Parameters
    ----------
    weights : ndarray of shape (n_kernels,)
        Non-negative, summing to 1; alignment does not depend on their scale.
    alignment : float
        (Centered) alignment of the combination with the target; NaN without a target.
    upper_bound : float
        No non-negative combination has a larger alignment; NaN for methods other than ``"joint"``.
    kernel_alignments : ndarray of shape (n_kernels,)
        Alignment of every kernel by itself; zero for a kernel that is constant.
    stationarity : float
        ``max_i (b_i - (M theta)_i)_+ / ||K_i||`` relative to the alignment reached, the largest violation of the
        optimality conditions of the joint problem; NaN for other methods.
    method : str
        How the weights were chosen.
    n_rounds : int
        Joint problems solved.
    passes : float
        Readings of all Gram entries.
    names : tuple of str or None
        Names of the kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.alignment import aligned_weights
    >>> found = aligned_weights([np.diag([1.0, 2.0, 3.0]), np.outer([1, 1, -1], [1, 1, -1])], ["a", "a", "b"])
    >>> found.frame().round(3)
           name  weight  alignment
    0  kernel_1     1.0      1.000
    1  kernel_0     0.0      0.849
    """

    weights: Array
    alignment: float
    upper_bound: float
    kernel_alignments: Array
    stationarity: float
    method: str
    n_rounds: int
    passes: float
    names: tuple[str, ...] | None = None

    @property
    def gap(self) -> float:
        """Proven relative distance of the alignment from the maximum, ``1 - alignment / upper_bound``."""
        return 1.0 - self.alignment / self.upper_bound

    def frame(self) -> pd.DataFrame:
        """Return a row per kernel, the heaviest first: ``name``, ``weight``, ``alignment``.

        Returns
        -------
        DataFrame
            The alignment is that of the kernel by itself.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.alignment import aligned_weights
        >>> y = np.array([1.0, 1.0, -1.0, -1.0])
        >>> aligned_weights(np.stack([np.eye(4), np.outer(y, y)]), y, center=False).frame()["name"].tolist()
        ['kernel_1', 'kernel_0']
        """
        names = self.names or tuple(f"kernel_{m}" for m in range(len(self.weights)))
        table = pd.DataFrame({"name": names, "weight": self.weights, "alignment": self.kernel_alignments})
        return table.sort_values("weight", ascending=False, kind="stable", ignore_index=True)


def aligned_weights(
    stack: GramStack | Any,
    y: Any = None,
    method: str = "joint",
    *,
    target: Any = "auto",
    center: bool = True,
    tol: float = 1e-8,
) -> AlignedWeights:
    r"""Return the weights that make a combination of kernels most like the ideal kernel of a target.

    ``"joint"`` (alignf) maximizes the alignment over all non-negative weights. With
    :math:`M_{ij} = \langle K_i, K_j\rangle_F` and :math:`b_i = \langle K_i, K^*\rangle_F` of centered kernels, it is

    .. math:: \max_{\theta \ge 0} \frac{b'\theta}{\sqrt{\theta' M \theta}} \;=\; \text{the direction of}\;
       \arg\min_{\theta\ge 0}\; \theta' M \theta - 2 b'\theta,

    non-negative least squares. ``"independent"`` weighs every kernel by the respective alignment, ``"uniform"`` all
    alike.

    Parameters
    ----------
    stack : GramStack or array_like of shape (n_kernels, n_samples, n_samples)
        The kernels, in any storage.
    y : array_like of shape (n_samples,) or (n_samples, n_outputs), or None
        Labels or numbers; only ``"uniform"`` can do without.
    method : {"joint", "independent", "uniform"}, default="joint"
        How weights are chosen.
    target : {"auto", "numbers", "signs", "indicator", "balanced"} or array_like of shape (n, n), default="auto"
        How y becomes the ideal kernel, see :func:`target_kernel`; or the ideal kernel itself, symmetric, y then unused.
    center : bool, default=True
        Whether alignment is that of kernels centered in feature space.
    tol : float, default=1e-8
        Proven relative distance from the largest alignment at which ``"joint"`` stops.

    Returns
    -------
    AlignedWeights
        Weights, alignment, and for ``"joint"`` the upper bound that proves them optimal.

    Raises
    ------
    InvalidInputError
        If shapes do not agree, or the alignment is not defined: the target is constant, all kernels are, or none has
        anything in common with the target (all b_i are zero, where the joint problem ends at theta = 0).

    Warns
    -----
    ConvergenceWarning
        If rounding keeps the joint problem from being proven optimal within ``tol``.

    Notes
    -----
    The joint problem is solved on a set of kernels that grows by the worst violators of :math:`M\theta \ge b`, so only
    products among that set are needed and no (M, N, N) array is ever made: a single pass for norms and b, one a round.
    Since :math:`\theta_i \|K_i\| \le 1` wherever :math:`\theta' M\theta \le 1` (inner products of positive semidefinite
    matrices are not negative), :math:`\sqrt{\theta' M\theta} + \|((b - M\theta)_+)_i / \|K_i\|\|_2` bounds the
    attainable :math:`b'\theta/\sqrt{\theta' M\theta}` from above: a certificate for any non-negative :math:`\theta`.

    References
    ----------
    C. Cortes, M. Mohri, A. Rostamizadeh, "Two-stage learning kernel algorithms", ICML 2010.
    A. Afkanpour, thesis, University of Alberta, (2.11) and (2.12).

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.alignment import aligned_weights
    >>> X = np.array([[1.0, 1.0], [2.0, -1.0], [-1.0, 1.0], [-2.0, -1.0]])
    >>> found = aligned_weights([np.outer(x, x) for x in X.T], ["a", "a", "b", "b"])
    >>> found.weights.round(2), round(found.alignment, 2), bool(found.gap < 1e-8)
    (array([1., 0.]), 0.9, True)
    """
    kernels = as_stack(stack)
    check_choice(method, METHODS, "method")
    gap, centers = check_positive(tol, "tol"), check_flag(center, "center")
    ideal = _ideal_kernel(y, target, kernels.n_samples, method)
    before = kernels.counters.passes
    if ideal is None:
        alone = np.full(kernels.n_kernels, np.nan)
        weights, values = np.full(kernels.n_kernels, 1.0 / kernels.n_kernels), (np.nan, np.nan, np.nan, 0)
    else:
        weights, alone, values = _weights(CenteredProducts(kernels, centers), ideal, method, gap)
    passes = kernels.counters.passes - before
    reached, bound, stationarity, rounds = values
    return AlignedWeights(weights, reached, bound, alone, stationarity, method, rounds, passes, kernels.names)


def _ideal_kernel(y: ArrayLike, target: ArrayLike, n_samples: int, method: str) -> Array | None:
    if not isinstance(target, str):
        ideal = check_square_kernel(target, "target")
    elif y is not None:
        ideal = target_kernel(y, target)
    elif check_choice(target, CODINGS, "target") and method != "uniform":
        raise InvalidInputError(
            f"method={method!r} requires y to be passed, but the target y is None. Only method='uniform' needs no y."
        )
    else:
        return None
    if len(ideal) != n_samples:
        raise InvalidInputError(f"The kernels have {n_samples} samples, but the target has {len(ideal)}.")
    return ideal


def _weights(
    products: CenteredProducts, ideal: Array, method: str, tol: float
) -> tuple[Array, Array, tuple[float, float, float, int]]:
    target = products.target(ideal)
    size = float(np.linalg.norm(target))
    if size <= SMALLEST_SHARE * np.linalg.norm(ideal):
        raise InvalidInputError("The alignment is not defined, since the target is constant: y must take two values.")
    b, norms, raw = products.with_target(target / size)
    # What centering leaves of a constant kernel is rounding, whose direction means nothing.
    live = norms > SMALLEST_SHARE * raw
    alone = np.divide(b, norms, out=np.zeros_like(b), where=live)
    if not live.any():
        raise InvalidInputError("The alignment is not defined, since all kernels are constant after centering.")
    if method != "uniform" and alone.max() <= SMALLEST_SHARE:
        raise InvalidInputError(
            "The alignment is not defined: all inner products of kernels with the target are zero. Use other kernels, "
            "or method='uniform'."
        )
    if method == "joint":
        theta, values = _joint(products, alone, np.where(live, norms, np.inf), tol)
    else:
        theta = np.maximum(alone, 0.0) if method == "independent" else np.ones_like(b)
        reached = float(b @ theta / np.linalg.norm(products.target(products.stack.combine(theta))))
        values = (reached, np.nan, np.nan, 0)
    return theta / theta.sum(), alone, values


def _joint(
    products: CenteredProducts, b: Array, norms: Array, tol: float
) -> tuple[Array, tuple[float, float, float, int]]:
    """Solve the joint problem for kernels of unit norm; ``b`` are the alignments, ``norms`` the divisors."""
    everything = len(b) <= FIRST_SET
    working = np.arange(len(b)) if everything else np.sort(np.argsort(-b, kind="stable")[:FIRST_SET])
    gram = _scaled(products, working, working, norms)
    for rounds in range(1, MOST_ROUNDS + 1):  # noqa: B007 - the last one is returned
        theta = np.zeros_like(b)
        theta[working] = nonnegative_quadratic(gram, b[working])
        norm = float(np.sqrt(theta[working] @ gram @ theta[working]))
        reading = gram @ theta if everything else products.combination_products(theta / norms) / norms
        lacking = np.maximum(b - reading, 0.0)
        reached = float(b @ theta) / norm
        bound = max(norm + float(np.linalg.norm(lacking)), reached)  # equal at the optimum, up to rounding
        missing = np.setdiff1d(np.flatnonzero(lacking), working)
        if bound - reached <= tol * bound or not missing.size:
            break
        new = missing[np.argsort(-lacking[missing], kind="stable")[: max(FIRST_SET // 2, len(working))]]
        gram = _extend(gram, _scaled(products, new, np.concatenate([working, new]), norms))
        working = np.concatenate([working, new])
    if bound - reached > tol * bound:
        _warn(reached, bound, tol)
    return theta / norms, (reached, bound, float(lacking.max()) / reached, rounds)


def _scaled(products: CenteredProducts, rows: Array, columns: Array, norms: Array) -> Array:
    return products.inner_products(rows, columns) / norms[rows, None] / norms[columns]


def _extend(gram: Array, new: Array) -> Array:
    """Return the products among old and new kernels; ``new`` has a row for every new kernel, columns for both."""
    size = len(gram)
    corner = new[:, size:]
    return np.block([[gram, new[:, :size].T], [new[:, :size], (corner + corner.T) / 2]])


def _warn(reached: float, bound: float, tol: float) -> None:
    warn(
        f"The aligned weights are proven optimal only up to a relative distance of {1 - reached / bound:.2e}, above "
        f"tol={tol:.2e}. Accept a larger tol; kernels that are nearly equal, or in float32, leave such rounding.",
        ConvergenceWarning,
    )


# Weights of kernels by the margin they leave between the classes: EasyMKL.


@dataclass(frozen=True, eq=False)
class MarginWeights:
    """Weights of kernels by their margins, with the certificate of the problem behind them.

    Parameters
    ----------
    weights : ndarray of shape (n_kernels,)
        Non-negative, summing to 1.
    primal : float
        Value of the problem, summed over the classes.
    dual : float
        Lower bound on the smallest value, from the gradient.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.alignment import margin_weights
    >>> x = np.array([1.0, 2.0, -1.0, -2.0])
    >>> margin_weights([np.outer(x, x), np.eye(4)], ["a", "a", "b", "b"]).weights.round(2)
    array([0.67, 0.33])
    """

    weights: Array
    primal: float
    dual: float

    @property
    def gap(self) -> float:
        """Proven relative distance from the smallest value, ``(primal - dual) / primal``."""
        return (self.primal - self.dual) / self.primal


def margin_weights(stack: GramStack | Any, y: ArrayLike, *, ridge: float = 0.1) -> MarginWeights:
    r"""Return the weights of EasyMKL: every kernel by the squared distance it leaves between the two classes.

    With :math:`Y = \operatorname{diag}(y)` of labels -1 and 1 and the mean kernel :math:`\bar K`, scaled to a mean
    diagonal of one,

    .. math:: \min_\gamma\; (1-\lambda)\, \gamma' Y \bar K Y \gamma + \lambda \|\gamma\|^2, \qquad
       \gamma \ge 0,\; \sum_{y_i = 1} \gamma_i = \sum_{y_i = -1} \gamma_i = 1,

    is the distance of two points, one in the convex hull of every class, and :math:`\theta_m \propto \gamma' Y K_m Y
    \gamma`. With more than two classes, each is taken against the rest and the weights are averaged.

    Parameters
    ----------
    stack : GramStack or array_like of shape (n_kernels, n_samples, n_samples)
        The kernels, in any storage.
    y : array_like of shape (n_samples,)
        Labels of any type, of at least two classes.
    ridge : float, default=0.1
        The :math:`\lambda`, above 0 and below 1: towards 1 the points become the means of the classes.

    Returns
    -------
    MarginWeights
        Weights, and the values that prove the margin problem solved.

    Raises
    ------
    InvalidInputError
        If there is a single class only, shapes do not agree, or all kernels are zero.

    Notes
    -----
    The problem is the dual of a support vector machine without slack on the kernel
    :math:`(1-\lambda) \bar K + \lambda I`, up to the scale of :math:`\gamma`: LIBSVM solves it. The dual value is
    :math:`q(\gamma) + \min_{\gamma'} \nabla q(\gamma)'(\gamma' - \gamma)`, which convexity puts below the minimum.

    References
    ----------
    F. Aiolli, M. Donini, "EasyMKL: a scalable multiple kernel learning algorithm", Neurocomputing 169 (2015).

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.alignment import margin_weights
    >>> x = np.array([1.0, 2.0, -1.0, -2.0])
    >>> bool(margin_weights([np.outer(x, x), np.eye(4)], [1, 1, 2, 2]).gap < 1e-6)
    True
    """
    kernels, share = as_stack(stack), check_positive(ridge, "ridge")
    if share >= 1:
        raise InvalidInputError(f"ridge must be below 1, got {ridge!r}: the kernels would vanish.")
    labels = np.asarray(y)
    if labels.shape != (kernels.n_samples,) or len(np.unique(labels)) < 2:
        raise InvalidInputError(
            f"Margins need one label a sample, of at least two classes; got y of shape {labels.shape} with "
            f"{len(np.unique(labels))} different value(s) for {kernels.n_samples} samples."
        )
    mean = kernels.combine(np.full(kernels.n_kernels, 1.0 / kernels.n_kernels))
    size = float(np.trace(mean)) / len(mean)
    if not size > 0:
        raise InvalidInputError("All kernels are zero, so the margin is not defined. Use other kernels.")
    matrix = (1.0 - share) / size * mean
    matrix[np.diag_indices_from(matrix)] += share
    weights, values = np.zeros(kernels.n_kernels), np.zeros(2)
    for signs in target_features(labels, "signs").T:
        gamma, value, bound = _nearest_points(matrix, signs, share)
        found = kernels.quad(signs * gamma)
        weights += found / found.sum()
        values += value, bound
    return MarginWeights(weights / weights.sum(), float(values[0]), float(values[1]))


def _nearest_points(matrix: Array, signs: Array, ridge: float) -> tuple[Array, float, float]:
    """Return the weights of the nearest points of two convex hulls, the squared distance and a lower bound."""
    sides = np.stack([signs > 0, signs < 0])
    accuracy = 1e-8  # of LIBSVM, in the optimality conditions
    # No dual coefficient exceeds N / (2 ridge) then, so that this is a machine without slack.
    machine = SVC(C=len(signs) / ridge, kernel="precomputed", tol=accuracy).fit(matrix, signs)
    gamma = np.zeros(len(signs))
    gamma[machine.support_] = _polished(matrix, signs, sides, machine.support_, np.abs(machine.dual_coef_[0]))
    gradient = 2.0 * signs * (matrix @ (signs * gamma))
    value = float(gamma @ gradient) / 2.0
    return gamma, value, float(sum(gradient[side].min() for side in sides)) - value


def _polished(matrix: Array, signs: Array, sides: Array, support: Array, rough: Array) -> Array:
    """Return the best weights of the points in float64; LIBSVM keeps kernels in float32."""
    inside, members = signs[support], sides[:, support].astype(np.float64)
    apart = np.linalg.solve(matrix[np.ix_(support, support)] * np.outer(inside, inside), members.T)
    exact: Array = apart @ np.linalg.solve(members @ apart, np.ones(2))
    return exact if (exact >= 0).all() else rough / (rough @ members.T @ members)
