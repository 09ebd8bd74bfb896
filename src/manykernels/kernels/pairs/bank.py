"""What the kernels of pairs are: kernels of first and of second members, and which are multiplied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.bank import KernelBank
from manykernels.kernels.bank.contract import BankParameters, FittedKernels
from manykernels.kernels.bank.grids import DEFAULT_SPECS, entries_by_type
from manykernels.kernels.bank.patterns import Joint
from manykernels.kernels.pairs.data import Members, Pairs, as_pairs
from manykernels.kernels.pairs.fitted import SIGNS, FittedPairBank, PreparedPairs, Products, members_of
from manykernels.kernels.precomputed.bank import PrecomputedBank
from manykernels.kernels.precomputed.stack import KernelStack
from manykernels.validation.arrays import check_choice

EVERY, ONLY_PRODUCTS = "all", "products"


@dataclass(frozen=True)
class PairKernels(BankParameters):
    """Kernels of `Pairs`: products of kernels of first and of second members, the counterpart of `KernelBank`.

    ``k((i, j), (i', j')) = A(i, i') B(j, j')`` says that pairs are alike if their first members are alike *and* their
    second ones are; ``A(i, i')`` alone speaks of first members, whatever the second. No matrix among pairs is formed.

    Parameters
    ----------
    left, right : KernelBank, PrecomputedBank or None
        Kernels of first and of second members, fitted on the members that training pairs have. None: Gaussian kernels
        of three widths and a linear kernel on all numeric columns together, and an overlap kernel on categories;
        kernels that come as a `KernelStack` are brought to a mean diagonal of one. Of one kind of members, ``right``
        is not used.
    products : {"all", "products"} or sequence of (str or None, str or None)
        "all" multiplies every left with every right kernel, and takes each by itself as well; "products" leaves those
        out. For members of one kind each kernel is multiplied with itself only. Names of kernels choose; None is the
        constant kernel, so that ``("structure", None)`` is the effect of the first member.
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
            object.__setattr__(self, "products", _checked_products(self.products))
        if len(self.sides) != 2 or not all(isinstance(side, str) and side for side in self.sides):
            raise InvalidInputError(f"sides must be two words, such as ('drug', 'target'), got {self.sides!r}.")
        object.__setattr__(self, "sides", tuple(self.sides))

    def fit(self, X: Any, y: Any = None) -> FittedPairBank:
        """Learn the kernels of the members that the pairs have.

        Parameters
        ----------
        X : Pairs
        y : ignored

        Returns
        -------
        FittedPairBank

        Raises
        ------
        InvalidInputError
            If these are no pairs, or a kernel cannot read their members.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import KernelBank, Linear, PairKernels, Pairs
        >>> line = KernelBank.joint(Linear())
        >>> PairKernels(line, line).fit(Pairs(np.eye(3), np.eye(2), [[0, 0], [2, 1]])).names
        ('left all: linear() x right all: linear()', 'left all: linear()', 'right all: linear()')
        """
        return self.fit_prepare(X)[0]

    def fit_prepare(self, X: Any) -> tuple[FittedPairBank, PreparedPairs]:
        """Fit, and return the training pairs prepared.

        Parameters
        ----------
        X : Pairs

        Returns
        -------
        FittedPairBank
        PreparedPairs

        Raises
        ------
        InvalidInputError
            As in `fit`.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import KernelBank, Linear, PairKernels, Pairs
        >>> line = KernelBank.joint(Linear())
        >>> PairKernels(line, line).fit_prepare(Pairs(np.eye(3), np.eye(2), [[0, 0], [2, 1]]))[1].shape
        (2, 2)
        """
        data = as_pairs(X)
        if self.symmetry is not None and data.right is not None:
            raise InvalidInputError(
                f"symmetry={self.symmetry!r} needs members of one kind: Pairs(members, None, pairs)."
            )
        first, second, pairs = members_of(data)
        left: Any
        right: Any = None
        columns: Any = None
        left, rows = _bank_for(self.left, first, self.sides[0]).fit_prepare(first)
        if second is not None:
            right, columns = _bank_for(self.right, second, self.sides[1]).fit_prepare(second)
        products = self._resolved(left, left if right is None else right, right is None)
        names = tuple(self._name(left, left if right is None else right, *product) for product in products)
        return FittedPairBank(names, left, right, products, self.symmetry), PreparedPairs(names, rows, columns, pairs)

    def resolve(self, X: Any) -> PairKernels:
        """Return the kernels whose list is decided by these pairs, and is the same on any part of them.

        Parameters
        ----------
        X : Pairs

        Returns
        -------
        PairKernels
            Each bank as :meth:`KernelBank.resolve` returns it on the members that these pairs have.

        Raises
        ------
        InvalidInputError
            As in `fit`.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import PairKernels, Pairs
        >>> PairKernels().resolve(Pairs(np.eye(3), None, [[0, 1], [1, 2]])).left
        KernelBank(1 entries: Joint; standardize=True, normalize='mean_diagonal', center=False)
        """
        first, second, _ = members_of(as_pairs(X))
        left = _bank_for(self.left, first, self.sides[0]).resolve(first)
        right = self.right if second is None else _bank_for(self.right, second, self.sides[1]).resolve(second)
        return replace(self, left=left, right=right)

    def check(self, X: Any) -> None:
        """Check that these are pairs, and that the kernels can read the columns of their members.

        Parameters
        ----------
        X : Pairs

        Raises
        ------
        InvalidInputError
            If not.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import PairKernels, Pairs
        >>> PairKernels().check(Pairs(np.eye(3), None, [[0, 1], [1, 2]]))
        """
        data = as_pairs(X)
        for own, members, word in zip((self.left, self.right), (data.left, data.right), self.sides, strict=True):
            if members is not None:
                _bank_for(own, members, word).check(members)

    def _resolved(self, left: FittedKernels[Any], right: FittedKernels[Any], one_kind: bool) -> Products:
        """Return which kernels are multiplied, by position."""
        if not isinstance(self.products, str):
            places = [{name: m for m, name in enumerate(bank.names)} for bank in (left, right)]
            return tuple(
                (_place(places[0], a, self.sides[0]), _place(places[1], b, self.sides[1])) for a, b in self.products
            )
        both = [(a, b) for a in range(len(left)) for b in range(len(right)) if not one_kind or a == b]
        alone: list[tuple[int | None, int | None]] = [(a, None) for a in range(len(left))]
        if self.symmetry is None:
            alone += [(None, b) for b in range(len(right))]
        return tuple(both + alone if self.products == EVERY else both)

    def _name(self, left: FittedKernels[Any], right: FittedKernels[Any], a: int | None, b: int | None) -> str:
        """Return the name of a product."""
        parts = [] if a is None else [f"{self.sides[0]} {left.names[a]}"]
        return " x ".join(parts if b is None else [*parts, f"{self.sides[1]} {right.names[b]}"])


def _bank_for(given: Any, members: Members, word: str) -> KernelBank | PrecomputedBank:
    """Return the bank of one kind of members, the default one if none was given."""
    matrices = isinstance(members, KernelStack)
    if given is None:
        return PrecomputedBank() if matrices else _together(members)
    if matrices != isinstance(given, PrecomputedBank):
        told = "a KernelStack" if matrices else "a table"
        raise InvalidInputError(f"The {word} members are {told}, which a {type(given).__name__} cannot read.")
    return given


def _together(table: Any) -> KernelBank:
    """Return the default kernels of members: those on all columns of a kind together, where there are several."""
    if table.is_sparse:
        return KernelBank([Joint(DEFAULT_SPECS)])
    entries = entries_by_type(table)
    joint = [entry for entry in entries if isinstance(entry, Joint)]
    return KernelBank(joint or entries or [Joint(())], standardize=True)


def _checked_products(products: Any) -> tuple[tuple[str | None, str | None], ...]:
    """Return products by name, or say what they must be."""
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


__all__ = ["PairKernels", "Pairs"]
