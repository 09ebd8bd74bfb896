"""Kernels of categories and bins: Overlap, ArdOverlap (equal or not), Ordinal (how far apart), Missing (known or not).

`Binned` is a kernel of a single column as the bins of equal counts show it: on ranks, and of mean zero if centered.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.specs.base import ANY_COLUMN, NUMBERS_OR_RANKS, KernelSpec, as_pair, as_points, register_kernel
from manykernels.kernels.specs.distances import MedianDistances
from manykernels.validation.arrays import Array, check_count, check_positive
from manykernels.validation.parameters import check_flag

# The code of a category that training rows do not have, and of what is missing: no data reach it, and it equals
# nothing, not even itself. Finite, so that checks for numbers that went astray can stay where they are.
UNSEEN = -float(np.finfo(np.float64).max)


@register_kernel
@dataclass(frozen=True)
class Overlap(KernelSpec):
    """Overlap (Dirac) kernel: the share of columns in which two rows agree, ``k(x, z) = mean_j [x_j = z_j]``.

    Reads columns of any kind: text, booleans, categories, numbers. An unseen category agrees with nothing, so the
    kernel of such a row is zero in the column.

    Examples
    --------
    >>> from manykernels.kernels import Overlap
    >>> Overlap()([[1.0, 2.0]], [[1.0, 2.0], [1.0, 3.0]])
    array([[1. , 0.5]])

    Notes
    -----
    For nominal variables, the kernel of Daemen and De Moor, Development of a kernel function for clinical data (2009).
    """

    kind: ClassVar[str] = "overlap"
    kinds: ClassVar[frozenset[str]] = ANY_COLUMN

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        first, second = as_pair(A, B)
        values = np.zeros((len(first), len(second)))
        for left, right in zip(first.T, second.T, strict=True):
            values += (left[:, None] == right) & (left != UNSEEN)[:, None]
        return values / max(first.shape[1], 1)

    def diag(self, A: Array) -> Array:
        """Return the share of columns with a known category, (n,)."""
        return _share_known(as_points(A))


@register_kernel
@dataclass(frozen=True)
class ArdOverlap(KernelSpec):
    """Gaussian kernel of codes with a width per column, ``k(x, z) = exp(-sum_j [x_j != z_j] / (2 widths_j^2))``.

    Reads columns of any kind, as :class:`Overlap` does, and multiplies over columns: rows that agree in the columns of
    small widths are alike.

    Parameters
    ----------
    widths : sequence of float
        One positive width per column of the selection, in the order.

    Examples
    --------
    >>> from manykernels.kernels import ArdOverlap
    >>> ArdOverlap((1.0, 10.0))([[1.0, 2.0]], [[1.0, 3.0], [4.0, 2.0]]).round(4)
    array([[0.995 , 0.6065]])

    Notes
    -----
    The Gaussian kernel of one-hot columns in which all indicators of a column have the same width. A level that is
    unknown, or missing, differs from every level of other rows.
    """

    kind: ClassVar[str] = "ard_overlap"
    kinds: ClassVar[frozenset[str]] = ANY_COLUMN
    unit_diagonal: ClassVar[bool] = True
    widths: tuple[float, ...]

    def __post_init__(self) -> None:
        if np.ndim(self.widths) != 1 or len(self.widths) == 0:
            raise InvalidInputError(f"widths must be a non-empty sequence of numbers, got {self.widths!r}.")
        checked = tuple(check_positive(width, "every width") for width in self.widths)
        object.__setattr__(self, "widths", checked)

    def check_columns(self, n_columns: int, name: str = "the kernel") -> None:
        """Raise if the number of columns is not the number of widths."""
        if n_columns != len(self.widths):
            raise InvalidInputError(
                f"{name}: {len(self.widths)} widths for {n_columns} column(s); give one width per column."
            )

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        first, second = as_pair(A, B)
        known, owners = indicators_of(second)
        own = known if B is None else indicators_of(first, second)[0]
        halves = 0.5 / np.square(self.widths)
        agreement = (own * halves[owners]) @ known.T
        if B is None:
            agreement = 0.5 * (agreement + agreement.T)
            np.fill_diagonal(agreement, halves.sum())  # a row agrees with itself, also where its level is unknown
        return np.exp(np.minimum(agreement - halves.sum(), 0.0))


def indicators_of(points: Array, levels_of: Array | None = None) -> tuple[Array, Array]:
    """Return an indicator for every level of every column, (n, r) float64, and the column of each, (r,).

    Parameters
    ----------
    points : ndarray of shape (n, d)
    levels_of : ndarray of shape (m, d), optional
        The rows whose levels count; the points themselves if None.

    Examples
    --------
    >>> indicators_of(np.array([[1.0, 5.0], [2.0, 5.0]]))
    (array([[1., 0., 1.],
           [0., 1., 1.]]), array([0, 0, 1]))
    """
    levels = [np.unique(column) for column in (points if levels_of is None else levels_of).T]
    parts = [column[:, None] == own for column, own in zip(points.T, levels, strict=True)]
    owners = np.repeat(np.arange(len(levels)), [len(own) for own in levels])
    return np.hstack(parts).astype(np.float64), owners


@register_kernel
@dataclass(frozen=True)
class Ordinal(KernelSpec):
    """Ordinal kernel: nearness of ranks, ``k(x, z) = mean_j max(0, 1 - |x_j - z_j|)`` with ranks between 0 and 1.

    The ranks of an ordered categorical are spread evenly from 0, the first category, to 1, the last: neighbors are
    alike, the two ends are not. Numbers are taken as they are (possibly standardized).

    Examples
    --------
    >>> from manykernels.kernels import Ordinal
    >>> Ordinal()([[0.0], [0.5]], [[1.0], [0.5]])
    array([[0. , 0.5],
           [0.5, 1. ]])

    Notes
    -----
    For ordinal variables, the kernel of Daemen and De Moor (2009). It is positive semidefinite, since the triangle
    function is the convolution of an interval with itself.
    """

    kind: ClassVar[str] = "ordinal"
    kinds: ClassVar[frozenset[str]] = NUMBERS_OR_RANKS

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        first, second = as_pair(A, B)
        values = np.zeros((len(first), len(second)))
        with np.errstate(over="ignore"):
            for left, right in zip(first.T, second.T, strict=True):
                near = np.maximum(0.0, 1.0 - np.abs(left[:, None] - right))
                values += near * (left != UNSEEN)[:, None]
        return values / max(first.shape[1], 1)

    def diag(self, A: Array) -> Array:
        """Return the share of columns with a known category, (n,)."""
        return _share_known(as_points(A))


@register_kernel
@dataclass(frozen=True)
class Missing(KernelSpec):
    """Kernel of missingness: the share of columns that both rows lack, ``k(x, z) = mean_j m(x_j) m(z_j)``.

    ``m`` is 1 where a value is missing and 0 where known, so the kernel says something of rows with gaps only. A bank
    with ``missing="indicator"`` adds one for every pattern of gaps. Called on numbers, NaN is missing.

    Examples
    --------
    >>> from manykernels.kernels import Missing
    >>> Missing()([[float("nan")], [1.0]])
    array([[1., 0.],
           [0., 0.]])
    """

    kind: ClassVar[str] = "missing"
    kinds: ClassVar[frozenset[str]] = ANY_COLUMN
    family: ClassVar[str] = "missing"

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        first, second = as_pair(A, B)
        left, right = (_missing(points).astype(np.float64) for points in (first, second))
        return left @ right.T / max(first.shape[1], 1)

    def diag(self, A: Array) -> Array:
        """Return the share of missing columns of every row, (n,)."""
        points = as_points(A)
        return _missing(points).sum(axis=1) / max(points.shape[1], 1)


def places_among(levels: Array, values: Array) -> Array:
    """Return the position of every value among increasing levels, (n,) int; the number of levels if unseen."""
    at = np.searchsorted(levels, values)
    return np.where(np.append(levels, np.nan)[at] == values, at, len(levels))


def _share_known(points: Array) -> Array:
    """Return the share of columns of every row with a known category."""
    return (points != UNSEEN).sum(axis=1) / max(points.shape[1], 1)


def _missing(points: Array) -> Array:
    """Return the mask of missing entries, as marked by a bank or NaN."""
    return np.isnan(points) | (points == UNSEEN)


@register_kernel
@dataclass(frozen=True)
class Binned(KernelSpec):
    r"""A kernel of a single column on the middle ranks of bins of equal counts, ``k(x, z) = base(r(x), r(z))``.

    The bins, at most ``bins``, are learned from training rows, as trees on histograms learn theirs: every function of
    the kernel is constant on a bin. With :math:`q_a` the share of the rows in bin ``a``, the rank is :math:`r_a =
    \sum_{b < a} q_b + q_a / 2`, between 0 and 1 whatever the scale and the outliers of the column. A column of two
    values has two bins.

    Parameters
    ----------
    base : KernelSpec
        A kernel of a single number; widths are in units of ranks.
    bins : int, default=24
        At most 500.
    center : bool, default=True
        Whether functions have mean zero over the bins, :math:`k_{ab} - \sum_c q_c (k_{cb} + k_{ac}) + q'kq`. Products
        of centered kernels are pure interactions, without what single columns do.
    edges : tuple of float, optional
        Between the bins, increasing; learned by :meth:`KernelBank.fit` where None.
    shares : tuple of float, optional
        Of the rows in every bin; one more than edges.

    Raises
    ------
    InvalidInputError
        If a parameter cannot be used.

    Examples
    --------
    >>> from manykernels.kernels import Binned, KernelBank, Laplacian
    >>> fitted = KernelBank([("steps", Binned(Laplacian(0.5), bins=2, center=False))]).fit([[1.0], [2.0], [3.0], [9.0]])
    >>> fitted.table.specs[0].edges
    (2.5,)
    >>> fitted.table.specs[0]([[0.0]], [[2.0], [3.0], [100.0]]).round(3)
    array([[1.   , 0.368, 0.368]])

    Notes
    -----
    Lou, Caruana, Gehrke and Hooker, Accurate intelligible models with pairwise interactions (2013), bin columns in the
    same way; Gu, Smoothing spline ANOVA models (2013), section 2.4, centers kernels so products are interactions.
    """

    kind: ClassVar[str] = "binned"
    kinds: ClassVar[frozenset[str]] = NUMBERS_OR_RANKS
    base: KernelSpec
    bins: int = 24
    center: bool = True
    edges: tuple[float, ...] | None = None
    shares: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.base, KernelSpec) or self.base.family == "missing":
            raise InvalidInputError(f"The base of a binned kernel must be a kernel of numbers, got {self.base!r}.")
        most_bins = 500
        check_count(self.bins, "bins", least=2, most=most_bins)
        check_flag(self.center, "center")
        if (self.edges is None) != (self.shares is None):
            raise InvalidInputError("Give both edges and shares of the bins, or neither: fitting a bank learns them.")
        if self.edges is not None:
            edges, shares = (np.asarray(part, dtype=np.float64).ravel() for part in (self.edges, self.shares))
            sound = np.isfinite(edges).all() and (np.diff(edges) > 0).all() and (shares >= 0).all()
            sum_tol = 1e-6  # of shares, which sum to one
            if not sound or len(shares) != len(edges) + 1 or abs(float(shares.sum()) - 1) > sum_tol:
                raise InvalidInputError(
                    "edges must increase, and shares must have one entry more, none negative, and sum to one; got "
                    f"{len(edges)} edges and {len(shares)} shares of sum {float(shares.sum()):g}."
                )
            object.__setattr__(self, "edges", tuple(edges.tolist()))
            object.__setattr__(self, "shares", tuple(shares.tolist()))

    @cached_property
    def pending(self) -> bool:
        """Whether the bins are still to be learned."""
        return self.edges is None

    @cached_property
    def label(self) -> str:
        """The label of the base, and how many bins at most."""
        return f"{self.base.label} of {self.bins} bins{'' if self.center else ' as it is'}"

    def resolve(self, medians: MedianDistances) -> Self:
        """Return the kernel with the bins of training points; a median width is in units of ranks."""
        if self.edges is not None:
            return self
        if self not in medians.resolved:
            medians.resolved[self] = self._restrict_to(*medians.bins(int(self.bins)))
        return medians.resolved[self]

    def _restrict_to(self, edges: Array, shares: Array) -> Self:
        """Return the kernel on the bins."""
        ranks = MedianDistances(np.repeat(_ranks(shares), np.maximum(np.rint(1000 * shares), 1).astype(int))[:, None])
        found = self.base.resolve(ranks) if self.base.pending else self.base
        return replace(self, base=found, edges=tuple(edges.tolist()), shares=tuple(shares.tolist()))

    def check_columns(self, n_columns: int, name: str = "the kernel") -> None:
        """Raise if there is not a single column."""
        if n_columns != 1:
            raise InvalidInputError(
                f"{name} has bins of one column, but it has {n_columns}. Take KernelBank.per_feature, or "
                "KernelBank.interactions for products over columns."
            )
        self.base.check_columns(1, name)

    def codes(self, values: Array) -> Array:
        """Return the bin of every value, int16; -1 for a category that training rows do not have.

        Returns
        -------
        ndarray
            Of the same shape.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.kernels import Binned, Linear
        >>> Binned(Linear(), edges=(0.0, 1.0), shares=(0.2, 0.5, 0.3)).codes(np.array([-3.0, 0.5, 1.0]))
        array([0, 1, 2], dtype=int16)
        """
        if self.edges is None:
            raise InvalidInputError(f"The bins of {self.label} are learned when its bank is fitted on training rows.")
        found = np.searchsorted(np.asarray(self.edges), values, side="right").astype(np.int16)
        return np.where(np.asarray(values) == UNSEEN, np.int16(-1), found)

    @cached_property
    def table(self) -> Array:
        """The kernel between bins, (B, B) float64."""
        assert self.shares is not None
        shares = np.asarray(self.shares)
        gram = self.base(_ranks(shares)[:, None])
        if not self.center:
            return gram
        means = gram @ shares
        centered = gram - means[:, None] - means + float(shares @ means)
        return 0.5 * (centered + centered.T)

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        """Return the matrix of kernel values, summed over columns if there are several."""
        first, second = as_pair(A, B)
        out = np.zeros((len(first), len(second)))
        for a, b in zip(self.codes(first.T), self.codes(second.T), strict=True):
            out += np.where((a >= 0)[:, None] & (b >= 0), self.table[a][:, b], 0.0)
        return out

    def diag(self, A: Array) -> Array:
        """Return the diagonal, (n,)."""
        codes = self.codes(as_points(A).T)
        return np.where(codes >= 0, np.maximum(np.diag(self.table), 0.0)[codes], 0.0).sum(axis=0)


def _ranks(shares: Array) -> Array:
    """Return the middle ranks of bins."""
    return np.cumsum(shares) - 0.5 * shares
