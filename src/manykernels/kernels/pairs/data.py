"""Samples that are pairs: what is known of first and of second members, and who is paired with whom.

`PairIndex` has pairs as places in a table, by which products with a Kronecker product need only the factors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, DTypeLike
from scipy.sparse import csr_array

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.precomputed.stack import KernelStack, are_kernels
from manykernels.validation.arrays import Array

DENSE_SHARE = 0.05  # of the table that is filled, from which on BLAS on the whole table is faster (benchmarks/pairs.py)
ORDINALS = ("first", "second")
CHUNK_ENTRIES = 2**20  # of gathered rows of two matrices


@dataclass(frozen=True, eq=False)
class PairIndex:
    """Pairs ``(i_k, j_k)`` as places in a table of n x q, the matrix ``R`` of the generalized vec trick.

    ``R (A kron B) R'`` times a vector is ``gather(A V B)`` with ``V = scatter(v)``: O(N (n + q)) for N pairs in a table
    that is mostly empty, O(n q (n + q)) by BLAS in one that is mostly full.

    References
    ----------
    A. Airola, T. Pahikkala, "Fast Kronecker product kernel methods via generalized vec trick", IEEE TNNLS 29 (2018).

    Examples
    --------
    >>> import numpy as np
    >>> index = PairIndex.create([[0, 1], [1, 0]], (2, 2))
    >>> index.scatter(np.array([5.0, 7.0])).tolist()
    [[0.0, 5.0], [7.0, 0.0]]
    """

    left: Array  # ndarray of shape (N,), int: first and second members
    right: Array  # ndarray of shape (N,), int: first and second members
    shape: tuple[int, int]  # (n, q), how many of each there are
    sign: int = 0  # with 1 or -1 both members are of one kind (n = q) and tables are made symmetric or antisymmetric

    @classmethod
    def create(cls, pairs: ArrayLike, shape: tuple[int, int], sign: int = 0) -> PairIndex:
        """Return the index of a table of pairs, checked."""
        table = np.asarray(pairs)
        if table.ndim != 2 or table.shape[1] != 2 or not len(table) or table.dtype.kind not in "iu":
            raise InvalidInputError(
                f"pairs must be a non-empty array of integers of shape (n_pairs, 2), got shape {table.shape} of dtype "
                f"{table.dtype}. Names become positions with pandas.factorize."
            )
        left, right = (check_positions(table[:, side], size, side) for side, size in enumerate(shape))
        return cls(np.ascontiguousarray(left), np.ascontiguousarray(right), shape, sign)

    def __len__(self) -> int:
        return len(self.left)

    @property
    def dense(self) -> bool:
        """Whether the table is full enough for BLAS."""
        return len(self) >= DENSE_SHARE * self.shape[0] * self.shape[1]

    def take(self, pairs: slice | Array) -> PairIndex:
        """Return the index of some of the pairs."""
        return PairIndex(self.left[pairs], self.right[pairs], self.shape, self.sign)

    def scatter(self, vector: Array) -> Any:
        """Return the table ``V`` with a value per pair, (n, q); sparse if mostly empty."""
        n_left, n_right = self.shape
        if self.dense:
            flat = np.bincount(self.left * n_right + self.right, vector, minlength=n_left * n_right)
            table: Any = flat.reshape(n_left, n_right)
        else:
            table = csr_array((vector, (self.left, self.right)), shape=self.shape)
        return 0.5 * (table + self.sign * table.T) if self.sign else table

    def gather(self, left: Array, right: Array) -> Array:
        """Return the entries of ``left @ right`` at the pairs, without computing all entries."""
        if self.dense:
            return self.read(left @ right)
        columns = np.ascontiguousarray(right.T)
        direct = _row_products(left, self.left, columns, self.right)
        swapped = _row_products(left, self.right, columns, self.left) if self.sign else None
        return direct if swapped is None else 0.5 * (direct + self.sign * swapped)

    def read(self, whole: Array) -> Array:
        """Return the entries of a table at the pairs."""
        direct: Array = whole[self.left, self.right]
        return 0.5 * (direct + self.sign * whole[self.right, self.left]) if self.sign else direct

    def entries(self, other: PairIndex, left: Array, right: Array) -> Array:
        """Return the kernels ``left kron right`` between pairs, (N, N_other)."""
        i, j, k, m = self.left, self.right, other.left, other.right
        direct = left[np.ix_(i, k)] * right[np.ix_(j, m)]
        if not self.sign:
            return direct
        # In this order the sum is the same to the last bit if the two sides change places.
        crossed = left[np.ix_(i, m)] * right[np.ix_(j, k)] + left[np.ix_(j, k)] * right[np.ix_(i, m)]
        return 0.25 * ((direct + left[np.ix_(j, m)] * right[np.ix_(i, k)]) + self.sign * crossed)

    def diagonal(self, left: Array, right: Array) -> Array:
        """Return the kernel of every pair with itself, (N,)."""
        i, j = self.left, self.right
        direct: Array = left[i, i] * right[j, j]
        if not self.sign:
            return direct
        return 0.25 * (direct + left[j, j] * right[i, i] + 2.0 * self.sign * left[i, j] * right[i, j])


def _row_products(left: Array, rows: Array, columns: Array, cols: Array) -> Array:
    """Return the inner products of rows of a single matrix with rows of another, a few at a time."""
    out = np.empty(len(rows))
    for at in _slices(len(rows), left.shape[1]):
        out[at] = np.einsum("kd,kd->k", left[rows[at]], columns[cols[at]])
    return out


def _slices(size: int, width: int) -> Iterator[slice]:
    step = max(1, CHUNK_ENTRIES // width)
    for start in range(0, size, step):
        yield slice(start, min(start + step, size))


def check_positions(labels: Array, size: int, side: int) -> Array:
    """Return positions below ``size``, or raise an error with invalid ones."""
    try:
        places = np.asarray(labels, dtype=np.intp)
        whole = bool((places == labels).all())
    except (TypeError, ValueError):
        whole = False
    if not whole:
        raise InvalidInputError(
            f"pairs[:, {side}] must hold positions of {ORDINALS[side]} members, got {labels.tolist()[0]!r}. Labels "
            "need members in a DataFrame whose index has them."
        )
    wrong = np.flatnonzero((places < 0) | (places >= size))
    if wrong.size:
        raise InvalidInputError(
            f"pairs[{wrong[0]}, {side}] is {places[wrong[0]]}, but there are {size} {ORDINALS[side]} members, numbered "
            f"from 0 ({wrong.size} such pairs)."
        )
    return places


Members = Table | KernelStack


class Pairs:
    """Pairs of a first and a second member, with what is known of the members: N samples for an estimator.

    Indexing takes pairs and keeps the members, so that ``train_test_split``, ``cross_val_score``, `ColdStartKFold` and
    the like work. A kernel of pairs is a product of kernels of first and second members, see `PairKernels`.

    Parameters
    ----------
    left : DataFrame, array-like of shape (n, p), or KernelStack
        First members, a row each: columns, or kernels among them. More members than the pairs have do no harm.
    right : DataFrame, array-like of shape (q, p), KernelStack or None
        Second members; None if both members are of one kind, all in ``left``.
    pairs : array-like of shape (N, 2)
        Members of every pair: labels of the index of a DataFrame, positions from 0 in anything else.

    Raises
    ------
    InvalidInputError
        If these are no members or no pairs; the message names the labels not known.

    Examples
    --------
    >>> import pandas as pd
    >>> from manykernels import Pairs
    >>> drugs = pd.DataFrame({"weight": [180.2, 206.3]}, index=["aspirin", "ibuprofen"])
    >>> targets = pd.DataFrame({"length": [599.0, 604.0]}, index=["COX1", "COX2"])
    >>> data = Pairs(drugs, targets, [["aspirin", "COX1"], ["aspirin", "COX2"], ["ibuprofen", "COX2"]])
    >>> data, data[1:].pairs.tolist()
    (Pairs(3 pairs of 2 first and 2 second members), [['aspirin', 'COX2'], ['ibuprofen', 'COX2']])
    """

    ndim: ClassVar[int] = 2  # as of any input

    def __init__(self, left: object, right: object, pairs: ArrayLike) -> None:
        first = _members(left, "left")
        second = first if right is None else _members(right, "right")
        # Integers where they all are.
        table = np.asarray(pairs)
        if table.ndim != 2 or table.shape[1] != 2 or not len(table):
            raise InvalidInputError(
                f"pairs must be a non-empty table of two columns, first and second member, got shape {table.shape}."
            )
        sides = (left, left if right is None else right)
        index = np.column_stack([_positions(sides[k], (first, second)[k], table[:, k], k) for k in (0, 1)])
        self._set(first, None if right is None else second, table, index)

    def _set(self, left: Members, right: Members | None, pairs: Array, index: Array) -> Pairs:
        self._left, self._right, self._pairs, self._index = left, right, pairs, index
        return self

    @property
    def left(self) -> Members:
        """First members, checked; all members, if of a single kind."""
        return self._left

    @property
    def right(self) -> Members | None:
        """Second members, checked; None for a single kind."""
        return self._right

    @property
    def pairs(self) -> Array:
        """Members of every pair as given, (N, 2)."""
        return self._pairs

    @property
    def index(self) -> Array:
        """Positions of the members of every pair, (N, 2) int."""
        return self._index

    @property
    def shape(self) -> tuple[int, int]:
        """``(N, 2)``."""
        return len(self._index), 2

    def __len__(self) -> int:
        return len(self._index)

    def __repr__(self) -> str:
        members = f"{len(self._left)} members"
        if self._right is not None:
            members = f"{len(self._left)} first and {len(self._right)} second members"
        return f"Pairs({len(self)} pairs of {members})"

    def __array__(self, dtype: DTypeLike | None = None, copy: object = None) -> Array:
        """Return the members of every pair, for splitters by group."""
        return np.array(self._pairs, dtype=dtype)

    def __getitem__(self, index: slice | Array) -> Pairs:
        """Return some of the pairs, with all members."""
        if isinstance(index, tuple):
            rest = [part for part in index[1:] if part is not Ellipsis]
            if rest:
                raise InvalidInputError("Pairs are indexed by pairs: pairs[rows].")
            index = index[0]
        chosen = np.atleast_1d(np.arange(len(self))[index])
        return Pairs.__new__(Pairs)._set(self._left, self._right, self._pairs[chosen], self._index[chosen])


def as_pairs(X: object) -> Pairs:
    """Return pairs unchanged, or raise an error with instructions."""
    if not isinstance(X, Pairs):
        raise InvalidInputError(
            f"Kernels of pairs need Pairs(left, right, pairs) as X, with tables of the members; got {type(X).__name__}."
        )
    return X


def _members(given: object, name: str) -> Members:
    """Return members as kernels or as a checked table."""
    if are_kernels(given):
        return given
    if isinstance(given, pd.DataFrame) and not given.index.is_unique:
        twice = list(given.index[given.index.duplicated()].unique()[:3])
        raise InvalidInputError(f"Labels of members must differ, but {name} has {twice} more than once.")
    try:
        return Table.wrap(given, sparse=True)
    except InvalidInputError as error:
        raise InvalidInputError(f"The members in {name} cannot be used: {error}") from error


def _positions(given: object, members: Members, labels: Array, side: int) -> Array:
    """Return where the members of pairs are, by label in a DataFrame, else by position."""
    if isinstance(given, pd.DataFrame):
        places = given.index.get_indexer(pd.Index(labels).infer_objects())
        unknown = labels[places < 0]
        if len(unknown):
            some = list(dict.fromkeys(unknown.tolist()))[:3]
            raise InvalidInputError(
                f"pairs[:, {side}] has {len(unknown)} labels that the index of the {ORDINALS[side]} members does not "
                f"have, such as {some}; that has {list(given.index[:3])} ...."
            )
        return np.asarray(places, dtype=np.intp)
    return check_positions(labels, len(members), side)
