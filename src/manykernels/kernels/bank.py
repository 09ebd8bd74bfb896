"""The bank: which kernels on which columns, with what normalization; fitting it learns from training rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank_file import read_description, read_toml
from manykernels.kernels.base import KernelSpec
from manykernels.kernels.columns import Table
from manykernels.kernels.fitted import FittedBank
from manykernels.kernels.grids import DEFAULT_SPECS, DefaultKernels, simplemkl_specs, with_gaussians
from manykernels.kernels.normalization import check_normalization, training_scale
from manykernels.kernels.patterns import BankEntry, Joint, NamedKernel, PerFeature, PerView, as_entry
from manykernels.kernels.prepared import Prepared
from manykernels.kernels.standardization import column_statistics, standardized
from manykernels.kernels.widths import MedianDistances

__all__ = ["FittedBank", "KernelBank"]

Array = NDArray[Any]


@dataclass(frozen=True, repr=False)
class KernelBank:
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
                f"kernels must be a non-empty list of (name, kernel, columns), got {self.kernels!r}."
            )
        entries = tuple(as_entry(entry) for entry in self.kernels)
        _check_unique([entry.name for entry in entries if hasattr(entry, "spec")])
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
        """
        table = Table.of(X)
        kernels = self.expand(table)
        used = np.array(sorted({j for _, _, positions in kernels for j in positions}))
        values = table.numeric(used)
        means, deviations = column_statistics(values) if self.standardize else _no_statistics(len(used))
        values = standardized(values, means, deviations)
        bare = FittedBank(
            names=tuple(name for name, _, _ in kernels),
            specs=resolve_specs(kernels, values, used),
            positions=tuple(positions for _, _, positions in kernels),
            scales=np.ones(len(kernels)),
            n_features=table.n_columns,
            feature_names=_string_names(table),
            column_means=means,
            column_scales=deviations,
            shifts=np.median(values, axis=0),
        )
        return self._learn(bare, values)

    def _learn(self, bare: FittedBank, values: Array) -> tuple[FittedBank, Prepared]:
        points = bare.points(values)
        bank = replace(bare, normalize=self.normalize, center=bool(self.center))
        if self.center:
            points = replace(points, row_means=bare.row_means(points, points))
            bank = replace(bank, grand_means=points.row_means.mean(axis=1), reference=values)  # type: ignore[union-attr]
        scales = [
            training_scale(bank.centered_diagonal(points, m), self.normalize, name) for m, name in enumerate(bank.names)
        ]
        bank = replace(bank, scales=np.array(scales))
        return bank, bank.with_factors(points)

    def expand(self, X: Any) -> list[NamedKernel]:
        """Return ``(name, kernel, column positions)`` of every kernel on the columns of a table.

        Parameters
        ----------
        X : DataFrame, (n, p) array, nested lists or Table

        Returns
        -------
        list of (str, KernelSpec, tuple of int)
        """
        table = X if isinstance(X, Table) else Table.of(X)
        kernels = [kernel for entry in self.kernels for kernel in entry.expand(table)]
        _check_unique([name for name, _, _ in kernels])
        for name, spec, positions in kernels:
            spec.check_columns(len(positions), f"Kernel {name!r}")
        return kernels

    def replace(self, **changes: Any) -> Self:
        """Return a bank with other entries or options; this one stays as it is."""
        return replace(self, **changes)

    def __add__(self, other: Any) -> KernelBank:
        if not isinstance(other, KernelBank):
            return NotImplemented
        differing = [
            name for name in ("standardize", "normalize", "center") if getattr(self, name) != getattr(other, name)
        ]
        if differing:
            raise InvalidInputError(
                f"The banks differ in {', '.join(differing)}; use .replace(...) to make them agree."
            )
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
    def per_feature(cls, specs: Any = (), columns: Any = None, *, widths: Any = (), **options: Any) -> Self:
        """Return every kernel on every column by itself.

        Parameters
        ----------
        specs : KernelSpec or sequence of KernelSpec, default=()
        columns : column selection, default=None
            None is every column.
        widths : sequence, default=()
            Gaussian kernels of these widths are added: numbers, "median", "0.5*median".
        **options
            ``standardize``, ``normalize``, ``center``.

        Returns
        -------
        KernelBank

        Examples
        --------
        >>> from manykernels.kernels import KernelBank
        >>> len(KernelBank.per_feature(widths=[0.5, "median"]).expand([[1.0, 2.0], [3.0, 5.0]]))
        4
        """
        return cls([PerFeature(with_gaussians(specs, widths), columns)], **options)

    @classmethod
    def per_view(cls, specs: Any = (), views: Any = (), *, widths: Any = (), **options: Any) -> Self:
        """Return every kernel on every view, a named selection of columns.

        Parameters
        ----------
        specs : KernelSpec or sequence of KernelSpec, default=()
        views : mapping of str to column selection
        widths : sequence, default=()
            Gaussian kernels of these widths are added.
        **options
            ``standardize``, ``normalize``, ``center``.

        Returns
        -------
        KernelBank

        Examples
        --------
        >>> from manykernels.kernels import KernelBank, Linear
        >>> bank = KernelBank.per_view(Linear(), {"left": [0, 1], "right": [2]})
        >>> [name for name, _, _ in bank.expand([[1.0, 2.0, 3.0]])]
        ['left: linear()', 'right: linear()']
        """
        return cls([PerView(with_gaussians(specs, widths), views)], **options)

    @classmethod
    def joint(cls, specs: Any = (), columns: Any = None, *, widths: Any = (), **options: Any) -> Self:
        """Return every kernel on all columns of a selection together.

        Parameters
        ----------
        specs : KernelSpec or sequence of KernelSpec, default=()
        columns : column selection, default=None
            None is every column.
        widths : sequence, default=()
            Gaussian kernels of these widths are added.
        **options
            ``standardize``, ``normalize``, ``center``.

        Returns
        -------
        KernelBank
        """
        return cls([Joint(with_gaussians(specs, widths), columns)], **options)

    @classmethod
    def from_views(cls, views: Any, specs: Any = None, **options: Any) -> Self:
        """Return a bank of views; without kernels, Gaussians at 0.5, 1 and 2 median distances and a linear kernel each.

        Parameters
        ----------
        views : mapping of str to column selection
        specs : KernelSpec or sequence of KernelSpec, optional
        **options
            ``standardize`` (here True unless given), ``normalize``, ``center``.

        Returns
        -------
        KernelBank
        """
        return cls([PerView(DEFAULT_SPECS if specs is None else specs, views)], **{"standardize": True, **options})

    @classmethod
    def simplemkl(cls, **options: Any) -> Self:
        """Return the kernels of the SimpleMKL protocol, 27 (d + 1) for d columns.

        Gaussians of width 0.1, 0.25, 0.5, 0.75, 1, 2, ..., 20 and polynomials of degree 1, 2, 3, on every column and on
        all columns; unit trace, standardized columns.

        Parameters
        ----------
        **options
            ``standardize`` (here True unless given), ``normalize``, ``center``.

        Returns
        -------
        KernelBank

        Notes
        -----
        Suzuki and Tomioka, SpicyMKL (2011), section 6.2, after Rakotomamonjy et al., SimpleMKL (2008).

        Examples
        --------
        >>> from manykernels.kernels import KernelBank
        >>> len(KernelBank.simplemkl().expand([[0.0] * 30]))
        837
        """
        specs = simplemkl_specs()
        return cls([PerFeature(specs), Joint(specs)], **{"standardize": True, **options})

    @classmethod
    def default(cls, **options: Any) -> Self:
        """Return the bank used when nobody chose one, see :class:`DefaultKernels`; unit trace, standardized columns.

        Parameters
        ----------
        **options
            ``standardize`` (here True unless given), ``normalize``, ``center``.

        Returns
        -------
        KernelBank
        """
        return cls([DefaultKernels()], **{"standardize": True, **options})

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Self:
        """Return the bank that a dictionary describes; the schema is that of :meth:`from_toml`.

        Parameters
        ----------
        description : mapping

        Returns
        -------
        KernelBank

        Raises
        ------
        InvalidInputError
            Naming the key that is wrong.

        Examples
        --------
        >>> from manykernels.kernels import KernelBank
        >>> table = {"kernel": "gaussian", "width": [0.5, "median"], "on": "each"}
        >>> len(KernelBank.from_dict({"standardize": True, "kernels": [table]}).expand([[1.0, 2.0]]))
        4
        """
        entries, options = read_description(description)
        return cls(entries, **options)

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        """Return the bank that a TOML file describes.

        ::

            standardize = true                 # optional, as are normalize and center
            preset = "simplemkl"               # optional: "simplemkl" or "default", before the kernels below

            [views]                            # optional, for on = "views"
            clinical = ["age", "bmi"]

            [[kernels]]
            kernel = "gaussian"                # a registered kernel
            width = [0.5, 1.0, "2*median"]     # its parameters; a list is a grid
            on = "each"                        # "each" column, "joint" (default) or "views"
            columns = ["age", "bmi"]           # optional: names or positions; default all
            name = "near"                      # optional, for a single joint kernel

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        KernelBank

        Raises
        ------
        InvalidInputError
            If the file cannot be read, is no TOML, or a key is wrong; the message names it.
        """
        return cls.from_dict(read_toml(path))


def resolve_specs(kernels: Sequence[NamedKernel], values: Array, used: Array) -> tuple[KernelSpec, ...]:
    """Return the kernels with every width a number; median distances are computed once per set of columns.

    Parameters
    ----------
    kernels : sequence of (name, KernelSpec, positions)
    values : (n, n_used) float64
        Training rows of the used columns, standardized if the bank standardizes.
    used : (n_used,) int
        Their positions.

    Returns
    -------
    tuple of KernelSpec
    """
    medians: dict[tuple[int, ...], MedianDistances] = {}
    resolved = []
    for _, spec, positions in kernels:
        if spec.pending and positions not in medians:
            medians[positions] = MedianDistances(values[:, np.searchsorted(used, positions)])
        resolved.append(spec.resolve(medians[positions]) if spec.pending else spec)
    return tuple(resolved)


def _check_unique(names: list[str]) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InvalidInputError(f"Kernel names must differ, but {repeated[:5]} appear more than once.")


def _no_statistics(n_columns: int) -> tuple[Array, Array]:
    return np.zeros(n_columns), np.ones(n_columns)


def _string_names(table: Table) -> tuple[str, ...] | None:
    columns = table.columns
    return columns if columns is not None and all(isinstance(column, str) for column in columns) else None
