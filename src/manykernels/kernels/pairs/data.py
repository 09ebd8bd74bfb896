"""Samples that are pairs: what is known of first and of second members, and who is paired with whom."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, DTypeLike

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.pairs.index import ORDINALS, checked_positions
from manykernels.kernels.precomputed.stack import KernelStack, are_kernels
from manykernels.validation.arrays import Array

Members = Table | KernelStack


class Pairs:
    """Pairs of a first and a second member, with what is known of the members: N samples for an estimator.

    Indexing takes pairs and keeps the members, so that ``train_test_split``, ``cross_val_score``, `ColdStartKFold` and
    the like work. A kernel of pairs is a product of one of first and one of second members, see `PairKernels`.

    Parameters
    ----------
    left : DataFrame, array-like of shape (n, p), or KernelStack
        First members, a row each: columns, or kernels among them. More members than the pairs have do no harm.
    right : DataFrame, array-like of shape (q, p), KernelStack or None
        Second members; None if both members are of one kind, all of them in ``left``.
    pairs : array-like of shape (N, 2)
        Members of each pair: labels of the index of a DataFrame, positions from 0 in anything else.

    Raises
    ------
    InvalidInputError
        If these are no members or no pairs; the message names the labels that are not known.

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

    def __init__(self, left: object, right: object, pairs: ArrayLike) -> None:
        first = _members(left, "left")
        second = first if right is None else _members(right, "right")
        table = _two_columns(pairs)
        sides = (left, left if right is None else right)
        index = np.column_stack([_positions(sides[k], (first, second)[k], table[:, k], k) for k in (0, 1)])
        self._set(first, None if right is None else second, table, index)

    def _set(self, left: Members, right: Members | None, pairs: Array, index: Array) -> Pairs:
        self._left, self._right, self._pairs, self._index = left, right, pairs, index
        return self

    @property
    def left(self) -> Members:
        """First members, checked; all members, if both are of one kind."""
        return self._left

    @property
    def right(self) -> Members | None:
        """Second members, checked; None if both are of one kind."""
        return self._right

    @property
    def pairs(self) -> Array:
        """Members of each pair as they were given, (N, 2)."""
        return self._pairs

    @property
    def index(self) -> Array:
        """Positions of the members of each pair, (N, 2) int."""
        return self._index

    @property
    def shape(self) -> tuple[int, int]:
        """``(N, 2)``."""
        return len(self._index), 2

    @property
    def ndim(self) -> int:
        """Always 2, as of any input."""
        return 2

    def __len__(self) -> int:
        return len(self._index)

    def __repr__(self) -> str:
        members = f"{len(self._left)} members"
        if self._right is not None:
            members = f"{len(self._left)} first and {len(self._right)} second members"
        return f"Pairs({len(self)} pairs of {members})"

    def __array__(self, dtype: DTypeLike | None = None, copy: object = None) -> Array:
        """Return the members of each pair, for splitters that ask who is in which fold."""
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
    """Return pairs as they are, or say how to make them."""
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
        return Table.of(given, sparse=True)
    except InvalidInputError as error:
        raise InvalidInputError(f"The members in {name} cannot be used: {error}") from error


def _two_columns(pairs: ArrayLike) -> Array:
    """Return pairs as an array of two columns, integers where they all are."""
    table = np.asarray(pairs)
    if table.ndim != 2 or table.shape[1] != 2 or not len(table):
        raise InvalidInputError(
            f"pairs must be a non-empty table of two columns, first and second member, got shape {table.shape}."
        )
    return table


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
    return checked_positions(labels, len(members), side)
