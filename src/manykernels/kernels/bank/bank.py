"""The bank: which kernels on which columns, with what normalization; fitting it learns from training rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.bank.constructors import BankConstructors
from manykernels.kernels.bank.fitted import FittedBank
from manykernels.kernels.bank.normalization import check_normalization, training_scales
from manykernels.kernels.bank.patterns import BankEntry, NamedKernel, OnColumns, as_entry
from manykernels.kernels.bank.prepared import Prepared
from manykernels.kernels.bank.standardization import column_statistics, standardized
from manykernels.kernels.specs.base import KernelSpec
from manykernels.kernels.specs.widths import MedianDistances
from manykernels.validation.arrays import Array

__all__ = ["FittedBank", "KernelBank"]


@dataclass(frozen=True, repr=False)
class KernelBank(BankConstructors):
    """An ordered list of named kernels on columns; immutable, and fitted on training rows only.

    Parameters
    ----------
    kernels : sequence
        Entries ``(name, kernel, columns)``, ``(name, kernel)`` for all columns, a kernel by itself, or patterns
        (:class:`PerFeature`, :class:`PerView`, :class:`Joint`) that become kernels when the columns are known. Columns
        are names, positions, slices, masks or selectors, as in scikit-learn's ColumnTransformer.
    standardize : bool, default=False
        Subtract the training mean of every column and divide by its training standard deviation first.
    normalize : {"trace", "mean_diagonal", "unit_diagonal", None}, default="trace"
        What is made 1: the trace of the training Gram matrix, its mean diagonal, or every ``k(x, x)``.
    center : bool, default=False
        Subtract the training mean in the feature space of every kernel.

    Raises
    ------
    InvalidInputError
        No entry, an entry of another shape, a repeated name, an unknown normalization.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.kernels import Gaussian, KernelBank, Linear
    >>> bank = KernelBank([("near", Gaussian(0.5), [0]), ("line", Linear())], standardize=True)
    >>> fitted = bank.fit(np.arange(8.0).reshape(4, 2))
    >>> fitted.names
    ('near', 'line')
    >>> rows = fitted.prepare([[0.0, 1.0], [6.0, 7.0]])
    >>> fitted.block(rows, rows).shape
    (2, 2, 2)
    """

    kernels: Any
    _: KW_ONLY
    standardize: bool = False
    normalize: str | None = "trace"
    center: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.kernels, (str, Mapping)) or not isinstance(self.kernels, Sequence) or not self.kernels:
            raise InvalidInputError(
                f"kernels must be a list of (name, kernel, columns), not empty; got {self.kernels!r}."
            )
        entries = tuple(as_entry(entry) for entry in self.kernels)
        _check_unique([entry.name for entry in entries if isinstance(entry, OnColumns)])
        check_normalization(self.normalize)
        for name in ("standardize", "center"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise InvalidInputError(f"{name} must be True or False, got {getattr(self, name)!r}.")
        object.__setattr__(self, "kernels", entries)

    def fit(self, X: Any, y: Any = None) -> FittedBank:
        """Learn columns, widths, standardization and normalization from training rows.

        Parameters
        ----------
        X : DataFrame, (n, p) array or nested lists
            Training rows.
        y : ignored

        Returns
        -------
        FittedBank

        Raises
        ------
        InvalidInputError
            If a column is missing, not numeric or not finite, or a kernel cannot be normalized on these rows.

        Examples
        --------
        >>> from manykernels import Gaussian, KernelBank
        >>> fitted = KernelBank([("narrow", Gaussian(0.5)), ("wide", Gaussian(2.0))]).fit([[0.0], [1.0], [2.0]])
        >>> fitted.names, fitted.block(fitted.prepare([[0.0], [1.0]]), fitted.prepare([[1.0]])).shape
        (('narrow', 'wide'), (2, 2, 1))
        """
        return self.fit_prepare(X)[0]

    def fit_prepare(self, X: Any) -> tuple[FittedBank, Prepared]:
        """Fit, and return the training rows prepared as well, without doing their work twice.

        Parameters
        ----------
        X : DataFrame, (n, p) array or nested lists
            Training rows.

        Returns
        -------
        FittedBank
        Prepared

        Raises
        ------
        InvalidInputError
            As in `fit`.

        Examples
        --------
        >>> from manykernels import Gaussian, KernelBank
        >>> fitted, prepared = KernelBank([("narrow", Gaussian(0.5))]).fit_prepare([[0.0], [1.0], [2.0]])
        >>> fitted.block(prepared, prepared).shape
        (1, 3, 3)
        """
        table = Table.of(X)
        kernels = self.expand(table)
        used = _used(kernels)
        values = table.numeric(used)
        means, deviations = column_statistics(values) if self.standardize else _no_statistics(len(used))
        values = standardized(values, means, deviations)
        with np.errstate(over="ignore"):
            shifts = np.median(values, axis=0)
        bare = FittedBank(
            names=tuple(name for name, _, _ in kernels),
            specs=resolve_specs(kernels, values, used),
            positions=tuple(positions for _, _, positions in kernels),
            scales=np.ones(len(kernels)),
            n_features=table.n_columns,
            feature_names=_string_names(table),
            column_means=means,
            column_scales=deviations,
            shifts=shifts,
        )
        return self._learn(bare, values)

    def _learn(self, bare: FittedBank, values: Array) -> tuple[FittedBank, Prepared]:
        points = bare.points(values)
        bank = replace(bare, normalize=self.normalize, center=bool(self.center))
        if self.center:
            points = replace(points, row_means=bare.row_means(points, points))
            bank = replace(bank, grand_means=points.row_means.mean(axis=1), reference=values)  # type: ignore[union-attr]
        diagonals = np.array([bank.centered_diagonal(points, m) for m in range(bank.n_kernels)])
        bank = replace(bank, scales=training_scales(diagonals, self.normalize, bank.names))
        return bank, bank.with_factors(points)

    def check(self, X: Any) -> None:
        """Check that the columns which the kernels use hold finite numbers; a Table remembers what was found.

        Parameters
        ----------
        X : DataFrame, (n, p) array, nested lists or Table

        Raises
        ------
        InvalidInputError
            If a column is missing, is not numeric, or has NaN or infinite values.

        Examples
        --------
        >>> from manykernels import Gaussian, KernelBank
        >>> KernelBank([("narrow", Gaussian(0.5))]).check([[0.0], [1.0]])
        """
        table = Table.of(X)
        table.numeric(_used(self.expand(table)))

    def expand(self, X: Any) -> list[NamedKernel]:
        """Return ``(name, kernel, column positions)`` of every kernel on the columns of a table.

        Parameters
        ----------
        X : DataFrame, (n, p) array, nested lists or Table

        Returns
        -------
        list of (str, KernelSpec, tuple of int)

        Raises
        ------
        InvalidInputError
            If a column is missing, two kernels get the same name, or a kernel cannot act on its columns.

        Examples
        --------
        >>> from manykernels import Gaussian, KernelBank
        >>> [name for name, _, _ in KernelBank.per_feature(Gaussian(1.0)).expand([[0.0, 5.0], [1.0, 6.0]])]
        ['x0: gaussian(width=1)', 'x1: gaussian(width=1)']
        """
        table = Table.of(X)
        kernels = [kernel for entry in self.kernels for kernel in entry.expand(table)]
        _check_unique([name for name, _, _ in kernels])
        for name, spec, positions in kernels:
            spec.check_columns(len(positions), f"Kernel {name!r}")
        return kernels

    def replace(self, **changes: Any) -> Self:
        """Return a bank with other entries or options; this one stays as it is.

        Parameters
        ----------
        **changes
            ``kernels``, ``standardize``, ``normalize`` or ``center``.

        Returns
        -------
        KernelBank

        Raises
        ------
        InvalidInputError
            If a new value cannot be used.

        Examples
        --------
        >>> from manykernels import Gaussian, KernelBank
        >>> KernelBank([("narrow", Gaussian(0.5))]).replace(standardize=True).standardize
        True
        """
        return replace(self, **changes)

    def __add__(self, other: Any) -> KernelBank:
        if not isinstance(other, KernelBank):
            return NotImplemented
        options = ("standardize", "normalize", "center")
        differing = [name for name in options if getattr(self, name) != getattr(other, name)]
        if differing:
            raise InvalidInputError(f"The banks differ in {', '.join(differing)}; make them agree with .replace(...).")
        return replace(self, kernels=self.kernels + other.kernels)

    def __len__(self) -> int:
        return len(self.kernels)

    def __iter__(self) -> Iterator[BankEntry]:
        return iter(self.kernels)

    def __repr__(self) -> str:
        options = f"standardize={self.standardize}, normalize={self.normalize!r}, center={self.center}"
        kinds = ", ".join(dict.fromkeys(type(entry).__name__ for entry in self.kernels))
        return f"KernelBank({len(self.kernels)} entries: {kinds}; {options})"

    def __sklearn_clone__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    @classmethod
    def _build(cls, entries: Sequence[Any], options: Mapping[str, Any]) -> Self:
        return cls(entries, **options)


def resolve_specs(kernels: Sequence[NamedKernel], values: Array, used: Array) -> tuple[KernelSpec, ...]:
    """Return the kernels with every width a number; median distances are computed once per set of columns."""
    medians: dict[tuple[int, ...], MedianDistances] = {}
    resolved = []
    for _, spec, positions in kernels:
        if spec.pending and positions not in medians:
            medians[positions] = MedianDistances(values[:, np.searchsorted(used, positions)])
        resolved.append(spec.resolve(medians[positions]) if spec.pending else spec)
    return tuple(resolved)


def _used(kernels: Sequence[NamedKernel]) -> Array:
    """Return the positions of the columns that some kernel uses, increasing."""
    return np.array(sorted({j for _, _, positions in kernels for j in positions}))


def _check_unique(names: list[str]) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InvalidInputError(f"Kernel names must differ, but {repeated[:5]} appear more than once.")


def _no_statistics(n_columns: int) -> tuple[Array, Array]:
    return np.zeros(n_columns), np.ones(n_columns)


def _string_names(table: Table) -> tuple[str, ...] | None:
    columns = table.columns
    return columns if columns is not None and all(isinstance(column, str) for column in columns) else None
