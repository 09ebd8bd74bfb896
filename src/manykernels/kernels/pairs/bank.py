"""Kernels of pairs: products of kernels of first and of second members, before and after the fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.bank import KernelBank
from manykernels.kernels.bank.contract import OTHER_BANK, Index, PreparedRows, RawKernels, RowData, Side
from manykernels.kernels.bank.fitted import Bank, FittedBank
from manykernels.kernels.bank.grids import DEFAULT_SPECS, entries_by_type
from manykernels.kernels.bank.patterns import Joint
from manykernels.kernels.pairs.data import Members, PairIndex, Pairs, as_pairs
from manykernels.kernels.precomputed.bank import PrecomputedBank
from manykernels.kernels.precomputed.stack import are_kernels
from manykernels.validation.arrays import Array, check_choice

EVERY, ONLY_PRODUCTS = "all", "products"
SIGNS = {None: 0, "symmetric": 1, "antisymmetric": -1}

Product = tuple[int | None, int | None]  # positions of two kernels; None is the constant kernel 1


@dataclass(frozen=True)
class PairKernels(Bank):
    """Kernels of `Pairs`: products of kernels of first and of second members, the counterpart of `KernelBank`.

    ``k((i, j), (i', j')) = A(i, i') B(j, j')`` says that pairs are alike if their first members are alike *and* their
    second ones are; ``A(i, i')`` alone speaks of first members, whatever the second. No matrix among pairs is formed.

    Parameters
    ----------
    left, right : KernelBank, PrecomputedBank or None
        Kernels of first and of second members, fitted on the members of training pairs. None: Gaussian kernels of three
        widths and a linear kernel on all numeric columns together, and an overlap kernel on categories; a `KernelStack`
        is scaled to a mean diagonal of 1. For a single kind of members, ``right`` is unused.
    products : {"all", "products"} or sequence of (str or None, str or None)
        "all" multiplies every left with every right kernel, plus all single kernels; "products" has products only. For
        a single kind of members every kernel is multiplied with itself only. Names select kernels; None is the constant
        kernel: ``("structure", None)`` is the effect of the first member.
    symmetry : {None, "symmetric", "antisymmetric"}
        For members of one kind: ``f(j, i) = f(i, j)``, as of interactions, or ``-f(i, j)``, as of preferences.
    sides : tuple of two str
        What members are called in the names of kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import KernelBank, Linear, MKLRegressor, PairKernels, Pairs
    >>> rng = np.random.default_rng(0)
    >>> drugs, targets, pairs = rng.normal(size=(20, 3)), rng.normal(size=(15, 2)), list(np.ndindex(20, 15))
    >>> y = [drugs[i, 0] * targets[j, 1] for i, j in pairs]
    >>> kernels = PairKernels(KernelBank.joint(Linear()), KernelBank.joint(Linear()), sides=("drug", "target"))
    >>> model = MKLRegressor(kernels).fit(Pairs(drugs, targets, pairs), y)
    >>> model.weights_frame()["name"].iloc[0], round(model.score(Pairs(drugs, targets, pairs), y), 1)
    ('drug all: linear() x target all: linear()', 1.0)
    """

    left: Any = None
    right: Any = None
    products: Any = EVERY
    symmetry: str | None = None
    sides: tuple[str, str] = ("left", "right")

    def __post_init__(self) -> None:
        if self.symmetry not in SIGNS:
            raise InvalidInputError(f"symmetry must be None, 'symmetric' or 'antisymmetric', got {self.symmetry!r}.")
        for name in ("left", "right"):
            bank = getattr(self, name)
            if bank is not None and not isinstance(bank, (KernelBank, PrecomputedBank)):
                raise InvalidInputError(f"{name} must be a KernelBank, a PrecomputedBank or None, got {bank!r}.")
        if isinstance(self.products, str):
            check_choice(self.products, (EVERY, ONLY_PRODUCTS), "products")
        else:
            object.__setattr__(self, "products", _check_products(self.products))
        if len(self.sides) != 2 or not all(isinstance(side, str) and side for side in self.sides):
            raise InvalidInputError(f"sides must be two words, such as ('drug', 'target'), got {self.sides!r}.")
        object.__setattr__(self, "sides", tuple(self.sides))

    def fit_prepare(self, X: object) -> tuple[FittedBank, PreparedRows[MemberPairs]]:
        data = as_pairs(X)
        if self.symmetry is not None and data.right is not None:
            raise InvalidInputError(
                f"symmetry={self.symmetry!r} needs members of one kind: Pairs(members, None, pairs)."
            )
        first, second, pairs = members_of(data)
        right = columns = None
        left, rows = _bank_for(self.left, first, self.sides[0]).fit_prepare(first)
        if second is not None:
            right, columns = _bank_for(self.right, second, self.sides[1]).fit_prepare(second)
        products = self._resolved(left, right)
        names = tuple(self._name(left, left if right is None else right, *product) for product in products)
        # Taken once, so that members are held with no kernel that no product needs.
        raw = ProductKernels(names, left, right, products, self.symmetry).take(np.arange(len(names)))
        members = raw.narrow(MemberPairs(rows, columns, pairs), [])
        return FittedBank(raw, np.where(raw.zero, 0.0, 1.0)), PreparedRows(names, members)

    def resolve(self, X: object) -> PairKernels:
        first, second, _ = members_of(as_pairs(X))
        left = _bank_for(self.left, first, self.sides[0]).resolve(first)
        right = self.right if second is None else _bank_for(self.right, second, self.sides[1]).resolve(second)
        return replace(self, left=left, right=right)

    def check(self, X: object) -> None:
        data = as_pairs(X)
        for bank, members, word in zip((self.left, self.right), (data.left, data.right), self.sides, strict=True):
            if members is not None:
                _bank_for(bank, members, word).check(members)

    def _resolved(self, left: FittedBank, right: FittedBank | None) -> tuple[Product, ...]:
        """Return the multiplied kernels, by position."""
        second = left if right is None else right
        if not isinstance(self.products, str):
            places = [{name: m for m, name in enumerate(bank.names)} for bank in (left, second)]
            return tuple(
                (_place(places[0], a, self.sides[0]), _place(places[1], b, self.sides[1])) for a, b in self.products
            )
        both = [(a, b) for a in range(len(left)) for b in range(len(second)) if right is not None or a == b]
        alone: list[tuple[int | None, int | None]] = [(a, None) for a in range(len(left))]
        if self.symmetry is None:
            alone += [(None, b) for b in range(len(second))]
        return tuple(both + alone if self.products == EVERY else both)

    def _name(self, left: FittedBank, right: FittedBank, a: int | None, b: int | None) -> str:
        """Return the name of a product."""
        parts = [] if a is None else [f"{self.sides[0]} {left.names[a]}"]
        return " x ".join(parts if b is None else [*parts, f"{self.sides[1]} {right.names[b]}"])


def _bank_for(given: Any, members: Members, word: str) -> Bank:
    """Return the bank of a kind of members, or the default bank."""
    matrices = are_kernels(members)
    if given is None:
        return PrecomputedBank() if matrices else _together(members)
    if matrices != isinstance(given, PrecomputedBank):
        told = "a KernelStack" if matrices else "a table"
        raise InvalidInputError(f"The {word} members are {told}, which a {type(given).__name__} cannot read.")
    return given


def _together(table: Any) -> KernelBank:
    """Return the default kernels of members: on all columns of a kind together, if several."""
    if table.is_sparse:
        return KernelBank([Joint(DEFAULT_SPECS)])
    entries = entries_by_type(table)
    joint = [entry for entry in entries if isinstance(entry, Joint)]
    return KernelBank(joint or entries or [Joint(())], standardize=True)


def _check_products(products: Any) -> tuple[tuple[str | None, str | None], ...]:
    """Return products by name, or raise an error with the valid form."""
    whole = isinstance(products, Sequence) and len(products) > 0
    if not whole or not all(len(pair) == 2 and all(isinstance(p, str | None) for p in pair) for pair in products):
        raise InvalidInputError(
            "products must be 'all', 'products', or a list of pairs of names of a left and a right kernel, with None "
            f"for the constant one; got {products!r}."
        )
    if (None, None) in [tuple(pair) for pair in products]:
        raise InvalidInputError("products has (None, None), a constant: the intercept of the model is one.")
    return tuple((a, b) for a, b in products)


def _place(places: dict[str, int], name: str | None, word: str) -> int | None:
    """Return where a kernel of members is."""
    if name is not None and name not in places:
        raise InvalidInputError(f"products names {name!r}, but the {word} members have the kernels {list(places)}.")
    return None if name is None else places[name]


@dataclass(frozen=True, eq=False)
class MemberPairs(RowData):
    """Pairs with distinct members, in the form of kernels of members."""

    left: PreparedRows[Any]  # the first members that occur; all members, if both are of one kind
    right: PreparedRows[Any] | None  # the second members that occur
    pairs: Array  # (n, 2) int: which of these members each pair has

    @property
    def n_samples(self) -> int:
        """Number of pairs."""
        return len(self.pairs)

    @property
    def second(self) -> PreparedRows[Any]:
        """The second members, of either kind."""
        return self.left if self.right is None else self.right

    @property
    def shape(self) -> tuple[int, int]:
        """How many first and second members there are."""
        return self.left.n_samples, self.second.n_samples

    def take(self, rows: Index) -> MemberPairs:
        """Return the chosen pairs, with only their members."""
        first, second, pairs = distinct(self.pairs[rows], self.right)
        right = None if self.right is None else self.right.take(second)
        return MemberPairs(self.left.take(first), right, pairs)

    def detach(self) -> MemberPairs:
        return MemberPairs(self.left.detach(), None if self.right is None else self.right.detach(), self.pairs)

    def indexed(self, sign: int) -> PairIndex:
        """Return the pairs as places in a table of the members."""
        left, right = np.ascontiguousarray(self.pairs.T, dtype=np.intp)
        return PairIndex(left, right, self.shape, sign)


@dataclass(frozen=True, eq=False)
class ProductKernels(RawKernels[MemberPairs]):
    """Products of kernels of members, normalized on the members of training pairs."""

    names: tuple[str, ...]
    left: FittedBank  # kernels of first members; of all, if both are of one kind
    right: FittedBank | None  # kernels of second members
    products: tuple[Product, ...]  # which kernels are multiplied; None is the constant kernel 1
    symmetry: str | None = None  # {None, "symmetric", "antisymmetric"}
    n_features_in: ClassVar[int] = 2  # the members of a pair

    of_pairs = True

    @property
    def second(self) -> FittedBank:
        """Kernels of second members, of either kind."""
        return self.left if self.right is None else self.right

    @property
    def sign(self) -> int:
        """Of the exchange of both members: 0 where there is none."""
        return SIGNS[self.symmetry]

    @property
    def zero(self) -> list[bool]:
        """Mask of products with a kernel equal to zero on the training members."""
        zeros = self.left.zero_kernels, self.second.zero_kernels
        both = (zip(zeros, product, strict=True) for product in self.products)
        return [any(k is not None and own[k] for own, k in sides) for sides in both]

    def prepare(self, X: object) -> PreparedRows[MemberPairs]:
        """Check pairs and make their members ready."""
        data = as_pairs(X)
        if (data.right is None) != (self.right is None):
            told = ("two kinds", "one kind") if self.right is None else ("one kind", "two kinds")
            raise InvalidInputError(f"These are pairs of {told[0]} of members, but the model was fitted on {told[1]}.")
        left, right, pairs = members_of(data)
        first = self.left.prepare(left)
        second = None if self.right is None else self.right.prepare(right)
        return PreparedRows(self.names, MemberPairs(first, second, pairs))

    def factors(self, a: MemberPairs, b: MemberPairs, product: Product) -> tuple[Array, Array]:
        """Return the factors of a product between two sets of pairs: first members (n_a, n_b), second (q_a, q_b)."""
        return self.factor(a, b, product[0], 0), self.factor(a, b, product[1], 1)

    def factor(self, a: MemberPairs, b: MemberPairs, kernel: int | None, side: int) -> Array:
        """Return a kernel of first (``side`` 0) or second members between sets of pairs; ones for None."""
        if kernel is None:
            return np.ones((a.shape[side], b.shape[side]))
        if side:
            return self.second.block(a.second, b.second, [kernel])[0]
        return self.left.block(a.left, b.left, [kernel])[0]

    def evaluate(self, left: Side[MemberPairs], right: Side[MemberPairs], kernels: Array, out: Array) -> None:
        """Write products of kernels of members to ``out``."""
        a, b = left.data, right.data
        rows, cols = a.indexed(self.sign).take(left.rows), b.indexed(self.sign).take(right.rows)
        for place, m in enumerate(kernels):
            out[place] = rows.entries(cols, *self.factors(a, b, self.products[m]))

    def diagonals(self, rows: PreparedRows[MemberPairs], kernels: Array) -> Array:
        data = rows.data
        index, factors = data.indexed(self.sign), [self.factors(data, data, self.products[m]) for m in kernels]
        return np.array([index.diagonal(*each) for each in factors]).reshape(len(kernels), data.n_samples)

    def take(self, kernels: Array) -> ProductKernels:
        kept = [self.products[m] for m in kernels]
        first, second = ({product[side] for product in kept} - {None} for side in (0, 1))
        if self.right is None:
            first = second = first | second
        places = [{k: place for place, k in enumerate(sorted(own))} | {None: None} for own in (first, second)]
        products = tuple((places[0][a], places[1][b]) for a, b in kept)
        left = self.left.take(sorted(first) or [0])
        right = None if self.right is None else self.right.take(sorted(second) or [0])
        return ProductKernels(tuple(self.names[m] for m in kernels), left, right, products, self.symmetry)

    def narrow(self, data: object, places: list[int]) -> MemberPairs:
        """Return the pairs with the parts for the kernels of the members."""
        if not isinstance(data, MemberPairs):
            raise InvalidInputError(OTHER_BANK)
        right = data.right
        if self.right is not None and right is not None:
            right = self.right.narrow(right)
        return MemberPairs(self.left.narrow(data.left), right, data.pairs)

    def described(self) -> tuple[list[str], list[str]]:
        """Return the factors, and their columns."""
        sides = [bank.raw.described() for bank in (self.left, self.second)]
        kernels, columns = (
            [
                " x ".join(side[part][k] for side, k in zip(sides, product, strict=True) if k is not None)
                for product in self.products
            ]
            for part in (0, 1)
        )
        return kernels, [text if text.strip(" x") else "" for text in columns]


def distinct(pairs: Array, right: object) -> tuple[Array, Array, Array]:
    """Return distinct first and second members, (n,) and (q,), and the members of every pair."""
    if right is None:  # members of one kind
        members, codes = np.unique(pairs, return_inverse=True)
        return members, members, codes.reshape(-1, 2)
    first, left = np.unique(pairs[:, 0], return_inverse=True)
    second, right = np.unique(pairs[:, 1], return_inverse=True)
    return first, second, np.column_stack([left, right])


def members_of(data: Pairs) -> tuple[Members, Members | None, Array]:
    """Return the members in pairs, first and second, and the members of every pair."""
    first, second, pairs = distinct(data.index, data.right)
    return data.left[first], None if data.right is None else data.right[second], pairs
