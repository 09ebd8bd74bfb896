"""A bank of pairs that has seen its training members: products of kernels of first and of second members."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.contract import FittedKernels, Index, PreparedRows, Side
from manykernels.kernels.pairs.data import Members, Pairs, as_pairs
from manykernels.kernels.pairs.index import PairIndex
from manykernels.validation.arrays import Array, check_indices

SIGNS = {None: 0, "symmetric": 1, "antisymmetric": -1}

Products = tuple[tuple[int | None, int | None], ...]


@dataclass(frozen=True, eq=False)
class PreparedPairs(PreparedRows):
    """Pairs with the distinct members that they have, as kernels of members need them.

    Attributes
    ----------
    names : tuple of str
        The kernels of the bank that prepared these pairs.
    left : PreparedRows
        The first members that occur; all members, if both are of one kind.
    right : PreparedRows or None
        The second members that occur.
    pairs : (n, 2) int
        Which of these members each pair has.
    """

    names: tuple[str, ...]
    left: PreparedRows
    right: PreparedRows | None
    pairs: Array
    row_means: Array | None = field(default=None, init=False)
    factors: Array | None = field(default=None, init=False)

    @property
    def n_samples(self) -> int:  # type: ignore[override]  # a field of the twin that holds points
        """Number of pairs."""
        return len(self.pairs)

    @property
    def shape(self) -> tuple[int, int]:
        """How many first and second members there are."""
        return self.left.n_samples, (self.left if self.right is None else self.right).n_samples

    def take(self, rows: Any) -> PreparedPairs:
        """Return the chosen pairs (positions, slice or mask), with no more members than they have."""
        first, second, pairs = distinct(self.pairs[rows], self.right is None)
        right = None if self.right is None else self.right.take(second)
        return replace(self, left=self.left.take(first), right=right, pairs=pairs)

    def detach(self) -> PreparedPairs:
        """Return these pairs without what a fitted model does not have to keep."""
        return replace(self, left=self.left.detach(), right=None if self.right is None else self.right.detach())

    def indexed(self, sign: int) -> PairIndex:
        """Return the pairs as places in a table of the members."""
        left, right = np.ascontiguousarray(self.pairs.T, dtype=np.intp)
        return PairIndex(left, right, self.shape, sign)


@dataclass(frozen=True, eq=False)
class FittedPairBank(FittedKernels[PreparedPairs]):
    """Products of kernels of members, each normalized on the members that training pairs have; immutable.

    Attributes
    ----------
    names : tuple of str
    left : FittedKernels
        Kernels of first members; of all, if both are of one kind.
    right : FittedKernels or None
        Kernels of second members.
    products : tuple of (int or None, int or None)
        Which kernels are multiplied; None is the constant kernel 1.
    symmetry : {None, "symmetric", "antisymmetric"}
    """

    names: tuple[str, ...]
    left: FittedKernels[Any]
    right: FittedKernels[Any] | None
    products: Products
    symmetry: str | None = None
    normalize: str | None = field(default=None, init=False)
    center: bool = field(default=False, init=False)
    grand_means: Array | None = field(default=None, init=False)

    @property
    def second(self) -> FittedKernels[Any]:
        """Kernels of second members, whichever kind they are of."""
        return self.left if self.right is None else self.right

    @property
    def sign(self) -> int:
        """Of the exchange of both members: 0 where there is none."""
        return SIGNS[self.symmetry]

    @property
    def scales(self) -> Array:  # type: ignore[override]  # a field of the twins
        """(M,) ones, and 0 for a product with a kernel that is zero on the training members."""
        zero = [
            (a is not None and self.left.scales[a] == 0) or (b is not None and self.second.scales[b] == 0)
            for a, b in self.products
        ]
        return np.where(zero, 0.0, 1.0)

    @property
    def n_features_in_(self) -> int:
        """Always 2: the members of a pair."""
        return 2

    @property
    def groups(self) -> tuple[()]:
        """Empty: there are no points of pairs."""
        return ()

    def prepare(self, X: Any) -> PreparedPairs:
        """Check pairs and make their members ready."""
        data = as_pairs(X)
        if (data.right is None) != (self.right is None):
            told = ("two kinds", "one kind") if self.right is None else ("one kind", "two kinds")
            raise InvalidInputError(f"These are pairs of {told[0]} of members, but the model was fitted on {told[1]}.")
        left, right, pairs = members_of(data)
        first = self.left.prepare(left)
        return PreparedPairs(self.names, first, None if self.right is None else self.right.prepare(right), pairs)

    def both_factors(self, a: PreparedPairs, b: PreparedPairs, product: tuple[int | None, int | None]) -> list[Array]:
        """Return the kernels of first and of second members that a product is made of, between two sets of pairs.

        Parameters
        ----------
        a, b : PreparedPairs
            As this bank prepared them.
        product : (int or None, int or None)

        Returns
        -------
        list of two ndarray
            ``(n_a, n_b)`` and ``(q_a, q_b)``.
        """
        return [self.factor(a, b, kernel, side) for side, kernel in enumerate(product)]

    def factor(self, a: PreparedPairs, b: PreparedPairs, kernel: int | None, side: int) -> Array:
        """Return a kernel of first (``side`` 0) or second members between two sets of pairs; ones for None.

        Parameters
        ----------
        a, b : PreparedPairs
        kernel : int or None
        side : {0, 1}

        Returns
        -------
        ndarray
        """
        if kernel is None:
            return np.ones((a.shape[side], b.shape[side]))
        bank = self.second if side else self.left
        return bank.block(_side_of(a, side), _side_of(b, side), [kernel])[0]

    def _evaluate(
        self, left: Side[PreparedPairs], right: Side[PreparedPairs], same: bool, kernels: Array, out: Array
    ) -> None:
        a, b = left.prepared, right.prepared
        rows, cols = a.indexed(self.sign).take(left.rows), b.indexed(self.sign).take(right.rows)
        for place, m in enumerate(kernels):
            out[place] = rows.entries(cols, *self.both_factors(a, b, self.products[m]))

    def diag(self, prepared: PreparedRows, kernels: Index = None) -> Array:
        """Return ``k(x, x)``, (m, n) float64."""
        rows = self.narrow(prepared)
        chosen = check_indices(kernels, self.n_kernels, "kernels")
        index, factors = rows.indexed(self.sign), [self.both_factors(rows, rows, self.products[m]) for m in chosen]
        return np.array([index.diagonal(*each) for each in factors]).reshape(len(chosen), rows.n_samples)

    def take(self, kernels: Index) -> FittedPairBank:
        """Return the bank of those kernels only, in that order, with the kernels of members that they need."""
        chosen = check_indices(kernels, self.n_kernels, "kernels", allow_empty=False)
        kept = [self.products[m] for m in chosen]
        first = sorted({a for a, _ in kept if a is not None} | ({b for _, b in kept if b is not None} & self._own))
        second = sorted({b for _, b in kept if b is not None})
        places = ({a: k for k, a in enumerate(first)}, {b: k for k, b in enumerate(second)})
        there = places[0] if self.right is None else places[1]
        products = tuple((None if a is None else places[0][a], None if b is None else there[b]) for a, b in kept)
        right = None if self.right is None else self.right.take(second or [0])
        names = tuple(self.names[m] for m in chosen)
        return replace(self, names=names, left=self.left.take(first or [0]), right=right, products=products)

    @property
    def _own(self) -> set[int]:
        """Kernels on the right that belong to the bank on the left: all, if both members are of one kind."""
        return set(range(self.left.n_kernels)) if self.right is None else set()

    def narrow(self, prepared: PreparedRows) -> PreparedPairs:
        """Return pairs prepared by the bank this one was taken from as pairs prepared by this bank."""
        if not isinstance(prepared, PreparedPairs):
            raise InvalidInputError(f"Kernels of pairs need pairs, got {type(prepared).__name__}.")
        if prepared.names != self.names:
            prepared.places(self.names)
        left, right = self.left.narrow(prepared.left), prepared.right
        if self.right is not None and right is not None:
            right = self.right.narrow(right)
        if prepared.names == self.names and left is prepared.left and right is prepared.right:
            return prepared
        return replace(prepared, names=self.names, left=left, right=right)

    def frame(self) -> pd.DataFrame:
        """Return one row per kernel: name, kernel, columns, scale."""
        sides = [bank.frame() for bank in (self.left, self.second)]
        kernels, columns = (
            [
                " x ".join(
                    str(side[part].iloc[kernel])
                    for side, kernel in zip(sides, product, strict=True)
                    if kernel is not None
                )
                for product in self.products
            ]
            for part in ("kernel", "columns")
        )
        plain = [text if text.strip(" x") else "" for text in columns]
        return pd.DataFrame({"name": self.names, "kernel": kernels, "columns": plain, "scale": self.scales})


def distinct(pairs: Array, one_kind: bool) -> tuple[Array, Array, Array]:
    """Return first and second members without repetition, (n,) and (q,), and which of them each pair has."""
    if one_kind:
        members, codes = np.unique(pairs, return_inverse=True)
        return members, members, codes.reshape(-1, 2)
    first, left = np.unique(pairs[:, 0], return_inverse=True)
    second, right = np.unique(pairs[:, 1], return_inverse=True)
    return first, second, np.column_stack([left, right])


def members_of(data: Pairs) -> tuple[Members, Members | None, Array]:
    """Return the members that occur in pairs, first and second, and which of them each pair has."""
    first, second, pairs = distinct(data.index, data.right is None)
    return data.left[first], None if data.right is None else data.right[second], pairs


def _side_of(pairs: PreparedPairs, side: int) -> PreparedRows:
    """Return first or second members."""
    return pairs.left if side == 0 or pairs.right is None else pairs.right
