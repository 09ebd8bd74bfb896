"""The Gram stack of pairs: products of kernels of first and of second members."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from manykernels.exceptions import InvalidInputError, MemoryBudgetError
from manykernels.grams.base import GramStack
from manykernels.grams.machine import available_memory
from manykernels.grams.plan import format_bytes
from manykernels.kernels.pairs.bank import SIGNS, MemberPairs, ProductKernels
from manykernels.kernels.pairs.data import PairIndex
from manykernels.validation.arrays import Array, check_columns
from manykernels.validation.gram import check_gram_array, examined

ENTRY_ROWS = 256  # of a matrix among few pairs that are formed at once
MOST_FORMED = 2000  # pairs up to which a matrix among them is cheap enough for the solvers that want one

Products = Sequence[tuple[int | None, int | None]]


class PairStack(GramStack):
    """Kernels of pairs ``k((i, j), (i', j')) = A_a(i, i') B_b(j, j')``, in memory of order n^2 + q^2 + N.

    The samples are N pairs of a first member, one of n (drugs), and a second, one of q (targets). Products with
    vectors go by the generalized vec trick; entries are computed when somebody asks for them. Where both members are of
    one kind, `symmetry` averages over their order::

        symmetric      k = (A(i,i') A(j,j') + A(i,j') A(j,i')) / 2        for a = b
        antisymmetric  k = (A(i,i') A(j,j') - A(i,j') A(j,i')) / 2        f(j, i) = -f(i, j)

    Parameters
    ----------
    left : array_like of shape (n_left_kernels, n, n)
        Kernels among all first members, those of pairs to come included: symmetric positive semidefinite.
    right : array_like of shape (n_right_kernels, q, q), optional
        Kernels among all second members; None if they are of the same kind as the first.
    pairs : array_like of shape (N, 2), int
        Positions of the members of every pair.
    products : sequence of (int or None, int or None), optional
        Which kernels are multiplied; None is the constant kernel 1, so that ``(a, None)`` speaks of first members only.
        By default every left with every right kernel, and each with itself if ``right`` is None.
    symmetry : {None, "symmetric", "antisymmetric"}
        Only where ``right`` is None.
    names : sequence of str, optional
        One a product.

    Raises
    ------
    InvalidInputError, NotPSDError
        If kernels, pairs or products cannot be used; the message says which.

    Notes
    -----
    A product of N pairs with a vector costs O(N (n + q)), or O(n q (n + q)) by BLAS from a twentieth of a table on.
    Losses with derivatives are fitted without a matrix among pairs by ``solver="block_coordinate"``, which `solve`
    chooses beyond 2000 pairs; others, for example the hinge loss, form matrices of N x N.

    References
    ----------
    A. Airola, T. Pahikkala, "Fast Kronecker product kernel methods via generalized vec trick", IEEE TNNLS 29 (2018).

    Examples
    --------
    >>> import numpy as np
    >>> drugs, targets = np.array([[[2.0, 1.0], [1.0, 2.0]]]), np.array([[[1.0, 0.5], [0.5, 1.0]]])
    >>> stack = PairStack(drugs, targets, [[0, 0], [0, 1], [1, 1]])
    >>> stack.apply([1.0], [1.0, 0.0, 0.0])
    array([2. , 1. , 0.5])
    """

    def __init__(
        self,
        left: ArrayLike,
        right: ArrayLike | None,
        pairs: ArrayLike,
        *,
        products: Products | None = None,
        symmetry: str | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        if symmetry not in SIGNS:
            raise InvalidInputError(f"symmetry must be None, 'symmetric' or 'antisymmetric', got {symmetry!r}.")
        if symmetry is not None and right is not None:
            raise InvalidInputError("A symmetric kernel needs members of one kind: pass right=None with symmetry.")
        first = _check_members(left, "left")
        second = first if right is None else _check_members(right, "right")
        if products is None:
            places = range(len(first)), range(len(second))
            products = list(zip(*places, strict=True)) if right is None else list(product(*places))
        chosen = _check_products(products, len(first), len(second))
        shape = (first.shape[1], second.shape[1])
        index = PairIndex.create(pairs, shape, SIGNS[symmetry])
        self._set(_Factors(first, second), chosen, index, names or tuple(_name(*pair) for pair in chosen))

    def _set(self, factors: _Factors, products: Products, index: PairIndex, names: Sequence[str] | None) -> PairStack:
        """Set the kernels on the pairs, for the constructor and for selections."""
        GramStack.__init__(self, len(products), len(index), np.float64, names=names)
        self._factors, self.products, self._index = factors, tuple(products), index
        self._last: tuple[Array, dict[int | None, Array]] | None = None
        return self

    # --- data -------------------------------------------------------------------------------------------------------

    @property
    def pairs(self) -> Array:
        """Positions of the members of every pair, (N, 2)."""
        return np.column_stack([self._index.left, self._index.right])

    @property
    def nbytes(self) -> int:
        """Bytes of the kernels of the members and of the pairs."""
        return self._factors.nbytes + self._index.left.nbytes + self._index.right.nbytes

    @property
    def matrix_free(self) -> bool:
        """Return whether a matrix among the pairs is too large, so solvers should avoid matrices."""
        return self.n_samples > MOST_FORMED

    def diag(self) -> Array:
        return np.stack([self._index.diagonal(*self._factors.split(pair)) for pair in self.products])

    # --- prediction ---------------------------------------------------------------------------------------------------

    def cross_apply(self, pairs: ArrayLike, d: ArrayLike, rho: ArrayLike) -> Array:
        """Decision values ``sum_m d_m sum_l rho_l k_m(pair, pair_l)`` of other pairs, without the intercept.

        Parameters
        ----------
        pairs : array_like of shape (n, 2), int
            Members without pairs in the stack are permitted.
        d : array_like of shape (n_kernels,)
        rho : array_like of shape (n_samples,) or (n_samples, k)

        Returns
        -------
        ndarray of shape (n,) or (n, k), float64

        Examples
        --------
        >>> import numpy as np
        >>> stack = PairStack(np.eye(3)[None] + 1.0, np.ones((1, 2, 2)), [[0, 0], [1, 1]])
        >>> stack.cross_apply([[2, 0], [0, 1]], [1.0], [1.0, 2.0])
        array([3., 4.])
        """
        rows = PairIndex.create(pairs, self._index.shape, self._index.sign)
        weights, active = self._active(d)
        right = check_columns(rho, self.n_samples, "rho")
        total = self._products_with(rows, weights, active, right.reshape(self.n_samples, -1))
        return total[:, 0] if right.ndim == 1 else total

    # --- the operations of a stack ------------------------------------------------------------------------------------

    def _block(self, rows: Array, cols: Array, kernels: Array) -> Array:
        self._check_room(len(rows) * len(cols) * len(kernels))
        first, second = self._index.take(rows), self._index.take(cols)
        out = np.empty((len(kernels), len(rows), len(cols)))
        for place, m in enumerate(kernels):
            out[place] = first.entries(second, *self._factors.split(self.products[m]))
        return out

    def _quad(self, r: Array) -> Array:
        """Return ``<A V B, V>`` of every kernel as ``<V' A V, B>``, so every left kernel is read once."""
        table, squares = self._index.scatter(r), np.empty(self.n_kernels)
        for a, kernels in group_by_left(self.products, np.arange(self.n_kernels)).items():
            small = (table.T @ self._factors.left(a)) @ table
            for m in kernels:
                squares[m] = float(np.vdot(small, self._factors.right(self.products[m][1])))
        return squares

    @property
    def quad_cost(self) -> float:
        return min(self._quad_costs)

    @property
    def _quad_costs(self) -> tuple[float, float, float]:
        """Multiplications of a quadratic form by entries among pairs, by tables of members, and by the vec trick."""
        (first, second), n = self._index.shape, float(self.n_samples)
        left, right = (len(set(side)) for side in zip(*self.products, strict=True))
        tables = left * first * second * (first + second)
        return self.n_kernels * n**2, tables, right * first * second**2 + self.n_kernels * n * first

    def _quad_each(self, columns: Array) -> Array:
        """Return ``r' K_m r`` of every column, by the cheapest way; entries are formed once for all columns."""
        entries, tables, products = self._quad_costs
        if entries > min(tables, products):
            many = super()._quad_each
            return many(columns) if products < tables else np.stack([self._quad(own) for own in columns.T], axis=1)
        every, found = np.arange(self.n_samples), np.zeros((self.n_kernels, columns.shape[1]))
        for m in range(self.n_kernels):
            for first in range(0, self.n_samples, ENTRY_ROWS):
                rows = every[first : first + ENTRY_ROWS]
                found[m] += np.einsum("nk,nk->k", self._block(rows, every, np.array([m]))[0] @ columns, columns[rows])
        return found

    def _apply_each(self, columns: Array, kernels: Array) -> Array:
        each = np.empty((len(kernels), self.n_samples, columns.shape[1]))
        for k, column in enumerate(columns.T):
            table = self._index.scatter(column)
            half: dict[int | None, Array] = {}
            for place, m in enumerate(kernels):
                a, b = self.products[m]
                if b not in half:
                    half[b] = table @ self._factors.right(b)
                each[place, :, k] = self._index.gather(self._factors.left(a), half[b])
        return each

    def _apply(self, weights: Array, active: Array, columns: Array) -> Array:
        return self._products_with(self._index, weights, active, columns)

    def _products_with(self, rows: PairIndex, weights: Array, active: Array, columns: Array) -> Array:
        """Return ``sum_m d_m K_m(rows, pairs) columns``, with a single product for every left kernel."""
        # Weighted sums of the right kernels that share a left one; those of the last weights are kept.
        known = self._last
        if known is None or not np.array_equal(known[0], weights):
            sums: dict[int | None, Array] = {}
            for a, kernels in group_by_left(self.products, active).items():
                sums[a] = np.zeros((self._index.shape[1],) * 2)
                for m in kernels:
                    sums[a] += weights[m] * self._factors.right(self.products[m][1])
            self._last = known = (weights.copy(), sums)
        pairs = ((self._factors.left(a), right) for a, right in known[1].items())
        return vec_trick(rows, self._index, pairs, columns)

    def _combine(self, weights: Array, active: Array) -> Array:
        self._check_room(self.n_samples**2)
        return super()._combine(weights, active)

    def _triangles(self, kernels: Array, out: Array) -> None:
        self._check_room(len(kernels) * self.n_samples**2 // 2)
        super()._triangles(kernels, out)

    def _check_room(self, n_entries: int) -> None:
        if n_entries > MOST_FORMED**2 and 8 * n_entries > available_memory():
            raise MemoryBudgetError(
                f"This forms entries among {self.n_samples} pairs, {format_bytes(8 * n_entries)} with "
                f"{format_bytes(available_memory())} available. Only solver='block_coordinate' (or 'auto') does "
                "without, and only for losses with derivatives (squared, huber, logistic, squared_hinge, poisson, "
                "gamma); restrict the stack to fewer pairs for others."
            )

    def _take(self, kernels: Array) -> PairStack:
        chosen = [self.products[m] for m in kernels]
        return PairStack.__new__(PairStack)._set(self._factors, chosen, self._index, self._names_of(kernels))

    def _restrict(self, samples: Array) -> PairStack:
        index = self._index.take(samples)
        return PairStack.__new__(PairStack)._set(self._factors, self.products, index, self.names)


class _Factors:
    """Kernels of first and of second members; the constant kernel is a matrix per side, created on demand."""

    def __init__(self, left: Array, right: Array) -> None:
        self._left, self._right = left, right
        self._ones: dict[int, Array] = {}

    @property
    def nbytes(self) -> int:
        """Bytes held, including the constant kernels."""
        both = self._left.nbytes if self._left is self._right else self._left.nbytes + self._right.nbytes
        return both + sum(ones.nbytes for ones in self._ones.values())

    def left(self, kernel: int | None) -> Array:
        """Return a kernel of first members."""
        return self._constant(self._left.shape[1]) if kernel is None else self._left[kernel]

    def right(self, kernel: int | None) -> Array:
        """Return a kernel of second members."""
        return self._constant(self._right.shape[1]) if kernel is None else self._right[kernel]

    def split(self, pair: tuple[int | None, int | None]) -> tuple[Array, Array]:
        """Return both factors of a product."""
        return self.left(pair[0]), self.right(pair[1])

    def _constant(self, size: int) -> Array:
        if size not in self._ones:
            self._ones[size] = np.ones((size, size))
        return self._ones[size]


def _check_members(kernels: ArrayLike, name: str) -> Array:
    """Return kernels of members in float64, proven definite, and symmetric to the last bit."""
    array = examined(check_gram_array(kernels, name), "raise")[0].astype(np.float64, copy=False)
    return 0.5 * (array + array.transpose(0, 2, 1))


def _check_products(products: Products, n_left: int, n_right: int) -> list[tuple[int | None, int | None]]:
    """Return the products as integers, or raise an error with an invalid product."""
    chosen = [(None if a is None else int(a), None if b is None else int(b)) for a, b in products]
    for a, b in chosen:
        if not (a is None or 0 <= a < n_left) or not (b is None or 0 <= b < n_right):
            raise InvalidInputError(f"products has {(a, b)}, but there are {n_left} left and {n_right} right kernels.")
        if a is None and b is None:
            raise InvalidInputError("products has (None, None), a constant: the intercept of the model is one.")
    if not chosen:
        raise InvalidInputError("products is empty: name at least one pair of kernels, such as (0, 0).")
    return chosen


def _name(a: int | None, b: int | None) -> str:
    parts = ([] if a is None else [f"left {a}"]) + ([] if b is None else [f"right {b}"])
    return " x ".join(parts)


def group_by_left(products: Products, kernels: Array) -> dict[int | None, list[int]]:
    """Return kernels grouped by the left kernel."""
    groups: dict[int | None, list[int]] = {}
    for m in kernels.tolist():
        groups.setdefault(products[m][0], []).append(m)
    return groups


def vec_trick(rows: PairIndex, known: PairIndex, factors: Iterable[tuple[Array, Array]], columns: Array) -> Array:
    """Return ``sum_a (A_a kron B_a)(rows, known) columns``, (n, k), with kernels between members only."""
    tables, total = [known.scatter(column) for column in columns.T], np.zeros((len(rows), columns.shape[1]))
    wholes = np.zeros((len(tables), *rows.shape)) if rows.dense else None
    for left, right in factors:
        for k, table in enumerate(tables):
            if wholes is None:
                total[:, k] += rows.gather(left, table @ right.T)
            else:
                wholes[k] += left @ (table @ right.T)
    return total if wholes is None else np.stack([rows.read(whole) for whole in wholes], axis=1)


def stack_of(kernels: ProductKernels, pairs: MemberPairs) -> PairStack:
    """Return the stack of products of kernels on training pairs."""
    left = kernels.left.block(pairs.left, pairs.left)
    right = None if kernels.right is None else kernels.right.block(pairs.second, pairs.second)
    products, names = kernels.products, list(kernels.names)
    return PairStack(left, right, pairs.pairs, products=products, symmetry=kernels.symmetry, names=names)


def pair_scores(
    kernels: ProductKernels, new: MemberPairs, support: MemberPairs, weights: Array, columns: Array
) -> Array:
    """Return ``sum_m d_m sum_l rho_l k_m(pair, pair_l)`` of new pairs, (n, k), for coefficients (N, k)."""

    def factors() -> Iterator[tuple[Array, Array]]:
        for a, those in group_by_left(kernels.products, np.flatnonzero(weights)).items():
            right = sum(weights[m] * kernels.factor(new, support, kernels.products[m][1], 1) for m in those)
            yield kernels.factor(new, support, a, 0), np.asarray(right)

    return vec_trick(new.indexed(kernels.sign), support.indexed(kernels.sign), factors(), columns)
