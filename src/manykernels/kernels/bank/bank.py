"""The bank: kernels, columns and normalization; fitting learns from training rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.columns import BY_COLUMNS, NUMBERS, OBJECTS, Table
from manykernels.kernels.bank.constructors import BankConstructors
from manykernels.kernels.bank.contract import PreparedRows
from manykernels.kernels.bank.fitted import Bank, FittedBank, learn
from manykernels.kernels.bank.grids import DefaultKernels
from manykernels.kernels.bank.normalization import (
    check_normalization,
    column_statistics,
    encode_tails,
    heavy_tails,
    present_medians,
    scales_of_columns,
    standardized,
)
from manykernels.kernels.bank.patterns import (
    BankEntry,
    Kind,
    NamedKernel,
    OnColumns,
    Spare,
    check_shaped,
    indicators,
    kinds_of,
    named_columns,
    read_entry,
    read_shapes,
    shape_kernels,
    transposed,
)
from manykernels.kernels.bank.table_kernels import FEW_COLUMNS, TableKernels, TablePoints
from manykernels.kernels.specs.base import KernelSpec
from manykernels.kernels.specs.distances import LearnedByColumns, PointsOf, SparsePoints
from manykernels.kernels.specs.landmarks import Landmarks, Shaped
from manykernels.kernels.tables.encoding import Encoding, MixedRows, numbers_of
from manykernels.kernels.tables.kinds import (
    MISSING,
    READ_AS,
    compressed,
    entry_issues,
    find_stored_issues,
    refuse,
    warn_of_masks,
)
from manykernels.validation.arrays import Array, Order, check_choice, plainly_finite
from manykernels.validation.parameters import check_flag

LANDMARKS_BY = ("cholesky", "uniform", "k-means")
ROBUST = "robust"  # standardization that compresses heavy tails


@dataclass(frozen=True, repr=False)
class KernelBank(BankConstructors, Bank):
    """An ordered list of named kernels on columns; immutable, and fitted on training rows only.

    Parameters
    ----------
    kernels : sequence
        Entries ``(name, kernel, columns)``, ``(name, kernel)`` for all columns, a kernel by itself, or patterns
        (:class:`PerFeature`, :class:`PerView`, :class:`Joint`) that become kernels when the columns are known. Columns
        are names, positions, slices, masks or selectors, as in scikit-learn's ColumnTransformer.
    standardize : bool or "robust", default=False
        Subtract the training mean of every column and divide by its training standard deviation first. With "robust",
        columns with heavy tails are compressed before: values are divided by the interquartile range and bounded
        smoothly. A column has heavy tails if it reaches beyond 5 standard deviations, and beyond the expected normal
        maximum by a deviation. Percentiles of more than 20,000 rows in chunks are those of 20,000 drawn rows. Columns
        mostly at one end of their range (words of texts, indicators of levels) are divided by half the usual distance
        of the other values from this end, so that rare values count no more than frequent ones.
    normalize : {"trace", "mean_diagonal", "unit_diagonal", None}, default="mean_diagonal"
        Quantity scaled to 1: the trace of the training Gram matrix, its mean diagonal, or each ``k(x, x)``.
    center : bool, default=False
        Subtract the training mean in the feature space of every kernel.
    missing : {"error", "mask", "indicator"}, default="error"
        Treatment of missing values. "mask": the row and the column of the sample are zero in every kernel of a missing
        column; standardization, widths and normalization use the present samples. "indicator": the same, and a kernel
        :class:`Missing` for every pattern of gaps. Nothing is imputed. Samples without a whole view of :class:`Views`
        are masked in any case.
    landmarks_by : {"cholesky", "uniform", "k-means"}, default="cholesky"
        Choice of landmarks for kernels stored as factors: a randomly pivoted Cholesky factorization, a uniform draw of
        the training rows, or the rows nearest to the centers of k-means. Models are certified for the kernels
        themselves, whatever the landmarks; these determine the number of exact evaluations.
    shape : mapping of column to str, optional
        Curves of single columns that rise, fall, are convex or concave, everywhere: ``{"age": "increasing", "dose":
        "increasing and concave"}``. Kernels on the columns become :class:`Shaped` ones, and the default bank leaves the
        columns out of kernels of several columns. Models are then fitted on factors.

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
    standardize: bool | str = False
    normalize: str | None = "mean_diagonal"
    center: bool = False
    missing: str = "error"
    landmarks_by: str = "cholesky"
    shape: Any = ()

    def __post_init__(self) -> None:
        if isinstance(self.kernels, (str, Mapping)) or not isinstance(self.kernels, Sequence) or not self.kernels:
            raise InvalidInputError(
                f"kernels must be a list of (name, kernel, columns), not empty; got {self.kernels!r}. "
                "KernelBank.joint(Gaussian(1.0)) has a kernel on all columns, KernelBank.per_feature(Gaussian(1.0)) "
                "one on each, KernelBank.from_groups(groups) some on each group of columns."
            )
        shapes = read_shapes(self.shape)
        object.__setattr__(self, "shape", shapes)
        known: dict[KernelSpec, KernelSpec] = {}
        entries = tuple(read_entry(entry, known) for entry in self.kernels)
        if shapes:
            apart = tuple(column for column, _ in shapes)
            entries = tuple(replace(e, apart=apart) if isinstance(e, DefaultKernels) else e for e in entries)
        _check_unique([entry.name for entry in entries if type(entry) is OnColumns])
        check_normalization(self.normalize)
        check_choice(self.missing, MISSING, "missing")
        check_choice(self.landmarks_by, LANDMARKS_BY, "landmarks_by")
        if self.standardize != ROBUST:
            check_flag(self.standardize, "standardize")
        check_flag(self.center, "center")
        object.__setattr__(self, "kernels", entries)

    def fit_prepare(self, X: object) -> tuple[FittedBank, PreparedRows[TablePoints]]:
        raw, values = self.fit_columns(X)
        if self.missing != "error" and not raw.sparse:  # whose rows have no gaps
            warn_of_masks(raw.names, raw.positions, raw.used, numbers_of(values), self.missing)
        rows = raw.points(values)
        return learn(raw.center_by(values) if self.center else raw, rows, self.normalize, bool(self.center))

    def fit_columns(self, X: object, *, in_their_units: bool = False) -> tuple[TableKernels, Any]:
        """Learn columns, widths and standardization, but neither centering nor normalization, which look at kernels.

        Parameters
        ----------
        X : DataFrame, (n, p) array or nested lists
            Training rows.
        in_their_units : bool, default=False
            Whether numbers are returned in column order unchanged, an array in that order itself, for those who
            subtract means and divide by scales on reading. No width may wait for the data then.

        Returns
        -------
        TableKernels
            The kernels before normalization.
        ndarray of shape (n, n_used), or `MixedRows` if a kernel reads objects
            The columns in use as numbers, standardized; NaN where something is missing.

        Raises
        ------
        InvalidInputError
            As in `fit`.

        Examples
        --------
        >>> from manykernels import KernelBank, Linear
        >>> raw, values = KernelBank([("line", Linear(), [1])], standardize=True).fit_columns([[9.0, 0.0], [9.0, 2.0]])
        >>> raw.names, values.tolist()
        (('line',), [[-1.0], [1.0]])
        """
        table = Table.wrap(X, sparse=True)
        kernels = self.expand(table)
        used = columns_of_kernels(kernels)
        values = self._check_columns(table, kernels, used, "F" if in_their_units else "C")
        held = values
        encodings: tuple[Encoding, ...] = ()
        means = np.zeros(len(used))
        deviations, shifts = means + 1.0, means
        if not table.is_sparse:  # whose rows are read as they are
            encodings = _encodings(table, kernels, used)
            values = held.numbers if isinstance(held, MixedRows) else held
            heavy = self.heavy_tails(kernels, used, values, encodings)
            if heavy:
                encodings = tuple(heavy.get(j, own) for j, own in zip(used.tolist(), encodings, strict=True))
                values = encode_tails(values, [heavy.get(j) for j in used.tolist()])
            if self.standardize or not table.holds_numbers:
                means, deviations = _statistics(self.standardize, values, encodings)
            own = isinstance(table.data, np.ndarray) and not np.may_share_memory(values, table.data)
            order: Order = "F" if len(values) >= BY_COLUMNS else "C"
            if not in_their_units:
                values = standardized(values, means, deviations, out=values if own else None, order=order)
            shifts = _shifts(self, kernels, values, used)
        columns = table.columns
        string_names = columns if columns is not None and all(isinstance(column, str) for column in columns) else None
        kernel_names, _, positions = transposed(kernels)
        raw = TableKernels(
            names=kernel_names,
            specs=resolve_specs(kernels, partial(_present, values, used)),
            positions=positions,
            n_features=table.n_columns,
            feature_names=string_names,
            column_means=means,
            column_scales=deviations,
            shifts=shifts,
            encodings=() if all(own == NUMBERS for own in encodings) else encodings,
            missing=self.missing,
            sparse=table.is_sparse,
        )
        return raw, replace(held, numbers=values) if isinstance(held, MixedRows) else values

    def heavy_tails(
        self, kernels: Sequence[NamedKernel], used: Array, values: Array, encodings: Sequence[Encoding]
    ) -> dict[int, Encoding]:
        """Return the encodings of columns of numbers with heavy tails, which are compressed, by their positions.

        Parameters
        ----------
        kernels : sequence of (str, KernelSpec, tuple of int)
        used : ndarray of int
            Positions of the columns.
        values : ndarray of shape (n, n_used)
        encodings : sequence of Encoding
            Those of the columns without a look at their tails.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import KernelBank
        >>> X = np.exp(2 * np.random.default_rng(0).normal(size=(200, 1)))
        >>> KernelBank.auto().fit(X).table.encodings[0].tails is None
        False
        """
        able = set(self.compressible(kernels, dict(zip(used.tolist(), encodings, strict=True))))
        plain = [k for k, j in enumerate(used.tolist()) if j in able]
        if not plain:
            return {}
        return {int(used[k]): replace(encodings[k], tails=own) for k, own in heavy_tails(values, plain).items()}

    def compressible(self, kernels: Sequence[NamedKernel], encodings: Mapping[int, Encoding]) -> list[int]:
        """Return the columns of numbers whose tails may be compressed: every kernel on them can read them so.

        Parameters
        ----------
        kernels : sequence of (str, KernelSpec, tuple of int)
        encodings : mapping of int to Encoding
            Those of the columns in use, by their positions.

        Examples
        --------
        >>> from manykernels import KernelBank
        >>> from manykernels.kernels.tables.encoding import Encoding
        >>> bank = KernelBank.auto()
        >>> bank.compressible(bank.expand([[1.0, 2.0], [2.0, 5.0]]), {0: Encoding(), 1: Encoding("date")})
        [0]
        """
        if self.standardize != ROBUST:
            return []
        able = {id(spec): _compresses(spec) for _, spec, _ in kernels}
        others = {j for _, spec, positions in kernels if not able[id(spec)] for j in positions}
        return [j for j, encoding in encodings.items() if encoding.kind == "number" and j not in others]

    def _check_columns(self, table: Table, kernels: Sequence[NamedKernel], used: Array, order: Order = "C") -> Any:
        """Return the used columns, with NaN for allowed gaps, or reject all unusable columns at once."""
        if table.is_sparse:
            rows = table.compressed(used)
            refuse(find_stored_issues(rows, table, used))
            return rows
        entries = [entry for entry in self.kernels if type(entry) is not OnColumns]  # they have no issues
        problems = {found.column: found for entry in entries for found in entry.issues(table)}
        each = [kind.spec for kind in bank_kinds(self, table)]
        sparse = {id(spec) for spec in each if spec.family == "features"}
        objects = {positions[0] for _, spec, positions in kernels if id(spec) in sparse} if sparse else set()
        others = kernels
        if table.holds_numbers:  # which is all that most read
            plain = KernelSpec.reads
            apart = {id(spec) for spec in each if type(spec).reads is not plain or "number" not in spec.kinds}
            others = [own for own in kernels if id(own[1]) in apart] if apart else []
        for (j, kinds), spec in _readers_of(others).items():
            if READ_AS.get(table.kind(j)) not in kinds:
                for found in table.unreadable(j, kinds, f"{spec.label} needs numbers"):
                    problems.setdefault(found.column, found)
        readable = used.tolist()
        if not table.holds_numbers:
            readable = [j for j in readable if j in objects or table.kind(j) in READ_AS]
        found_objects = {place: table.objects(j) for place, j in enumerate(readable) if j in objects}
        values = table.codes(readable, _encodings(table, kernels, readable), order=order)
        gaps = []
        if not plainly_finite(values):
            names = [table.names[j] for j in readable]
            gaps = entry_issues(values, table.lacking(readable), names, self.missing)
        if problems or gaps:
            refuse([*problems.values(), *gaps])
        return MixedRows(values, found_objects) if found_objects else values

    def check(self, X: object) -> None:
        table = Table.wrap(X, sparse=True)
        kernels = self.expand(table)
        self._check_columns(table, kernels, columns_of_kernels(kernels))

    def expand(self, X: object) -> list[NamedKernel]:
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
            If a column is missing, two kernels get the same name, or a kernel cannot act on the columns.

        Examples
        --------
        >>> from manykernels import Gaussian, KernelBank
        >>> [name for name, _, _ in KernelBank.per_feature(Gaussian(1.0)).expand([[0.0, 5.0], [1.0, 6.0]])]
        ['x0: gaussian(width=1)', 'x1: gaussian(width=1)']
        """
        table = Table.wrap(X, sparse=True)
        if id(self) in table.expanded:  # the bank is there too, so that no other has its identity
            return list(table.expanded[id(self)][1])
        if table.is_sparse:
            _check_sparse(self)
        kernels = [kernel for entry in self.kernels for kernel in entry.expand(table)]
        if self.shape:
            kernels = shape_kernels(self.shape, kernels, table)
        if self.missing == "indicator" and not table.is_sparse:
            kernels += indicators(table, kernels)
        _check_unique(list(transposed(kernels)[0]))
        kinds = kinds_of(kernels)
        check_shaped(kinds, self.normalize)
        for name, spec, n_columns, _ in kinds:
            spec.check_columns(n_columns, f"Kernel {name!r}")
            if spec.family == "features" and self.center:
                raise InvalidInputError(
                    f"Kernel {name!r} reads objects by sparse features, which centering would make dense. Use "
                    f"center=False with an intercept."
                )
        table.expanded[id(self)] = self, tuple(kernels), kinds
        return kernels

    def spare_kernels(self, X: object) -> list[tuple[str, ...]]:
        """Return the names of the kernels that a search adds to averages, step by step.

        Parameters
        ----------
        X : table
            Training rows.

        Returns
        -------
        list of tuple of str
            The kernels of every step: one for every entry of `Spare`.

        Examples
        --------
        >>> from manykernels import Gaussian, KernelBank
        >>> from manykernels.kernels import Joint, Spare
        >>> bank = KernelBank([Joint(Gaussian(1.0)), Spare((Gaussian(0.5), Gaussian(0.2)))])
        >>> bank.spare_kernels([[0.0, 1.0], [2.0, 3.0]])
        [('all: gaussian(width=0.5)',), ('all: gaussian(width=0.2)',)]
        """
        table = Table.wrap(X, sparse=True)
        entries = [entry.expand(table) for entry in self.kernels if isinstance(entry, Spare)]
        return [tuple(name for name, _, _ in together) for together in zip(*entries, strict=True)]

    def resolve(self, X: object) -> Self:
        table = Table.wrap(X, sparse=True)
        entries = tuple(found for entry in self.kernels for found in entry.resolve(table))
        if self.missing != "indicator" or table.is_sparse:
            return self if entries == self.kernels else replace(self, kernels=entries)
        gaps = indicators(table, [kernel for entry in entries for kernel in entry.expand(table)])
        added = [OnColumns(name, spec, named_columns(table, positions)) for name, spec, positions in gaps]
        return replace(self, kernels=(*entries, *added), missing="mask")

    def replace(self, **changes: Any) -> Self:
        """Return a bank with other entries or options, without changes to the original.

        Parameters
        ----------
        **changes
            ``kernels``, ``standardize``, ``normalize``, ``center``, ``missing``, ``landmarks_by`` or ``shape``.

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

    @property
    def keeps_shapes(self) -> bool:
        """Whether functions of some kernels must have a shape."""
        own = [getattr(entry, "spec", None) or getattr(entry, "specs", None) for entry in self.kernels]
        shared = {id(each): each for each in own}.values()  # thousands of entries share few kernels
        specs = [spec for each in shared for spec in (each if isinstance(each, tuple) else (each,))]
        return bool(self.shape) or any(isinstance(spec, Shaped) for spec in specs)

    @property
    def reads_categories(self) -> bool:
        """Whether some kernel reads columns of categories, for example text."""
        return any(entry.reads_categories for entry in self.kernels)

    def __add__(self, other: object) -> KernelBank:
        if not isinstance(other, KernelBank):
            return NotImplemented
        options = ("standardize", "normalize", "center", "missing", "landmarks_by", "shape")
        if {self.standardize, other.standardize} == {True, ROBUST}:
            return self.replace(standardize=ROBUST) + other.replace(standardize=ROBUST)
        differing = [name for name in options if getattr(self, name) != getattr(other, name)]
        if differing:
            told = [f"{name}: {getattr(self, name)!r} and {getattr(other, name)!r}" for name in differing]
            agreed = ", ".join(f"{name}={getattr(self, name)!r}" for name in differing)
            raise InvalidInputError(
                f"The banks differ in {'; '.join(told)}. Use equal options, for example second.replace({agreed})."
            )
        return replace(self, kernels=self.kernels + other.kernels)

    def __len__(self) -> int:
        return len(self.kernels)

    def __iter__(self) -> Iterator[BankEntry]:
        return iter(self.kernels)

    def __repr__(self) -> str:
        options = f"standardize={self.standardize}, normalize={self.normalize!r}, center={self.center}"
        options += f", missing={self.missing!r}" if self.missing != "error" else ""
        options += f", landmarks_by={self.landmarks_by!r}" if self.landmarks_by != LANDMARKS_BY[0] else ""
        options += f", shape={dict(self.shape)!r}" if self.shape else ""
        kinds = ", ".join(dict.fromkeys(type(entry).__name__ for entry in self.kernels))
        return f"KernelBank({len(self.kernels)} entries: {kinds}; {options})"

    def __sklearn_clone__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    @classmethod
    def _build(cls, entries: Sequence[Any], options: Mapping[str, Any]) -> Self:
        return cls(entries, **options)


def _compresses(spec: KernelSpec) -> bool:
    """Return True if a kernel may read compressed columns: it looks at distances, at inner products, or at gaps."""
    base = spec.base if isinstance(spec, Landmarks) else spec
    return base.family in ("squared_distance", "inner_product", "missing")


def bank_kinds(bank: KernelBank, table: Table) -> Sequence[Kind]:
    """Return the kinds of kernels of a bank on a table, regardless of columns."""
    if id(bank) not in table.expanded:
        bank.expand(table)
    found: Sequence[Kind] = table.expanded[id(bank)][2]
    return found


def resolve_specs(
    kernels: Sequence[NamedKernel], points: PointsOf, many: PointsOf | None = None
) -> tuple[KernelSpec, ...]:
    """Return the kernels with numeric widths, learned once per set of columns."""
    specs = transposed(kernels)[1]
    if not any(spec.pending for spec in dict(zip(map(id, specs), specs, strict=True)).values()):
        return specs
    learned = LearnedByColumns(points, many)
    resolved = tuple(spec.resolve(learned[columns]) if spec.pending else spec for _, spec, columns in kernels)
    learned.clear()  # its entries refer to it, and would keep a large table until the next collection
    return resolved


def _present(values: Any, used: Array, positions: tuple[int, ...]) -> Any:
    """Return the rows without missing columns."""
    chosen = values[:, np.searchsorted(used, positions)]
    if issparse(chosen):
        return SparsePoints.create(compressed(chosen)) if len(positions) > FEW_COLUMNS else chosen.toarray()
    return chosen[~np.isnan(chosen).any(axis=1)]


def columns_of_kernels(kernels: Sequence[NamedKernel]) -> Array:
    """Return the positions of the columns used by kernels, increasing."""
    return np.array(sorted(set().union(*transposed(kernels)[2])))


def _encodings(table: Table, kernels: Sequence[NamedKernel], used: Sequence[int] | Array) -> tuple[Encoding, ...]:
    """Return the encodings of columns as numbers; columns of objects have none."""
    if table.holds_numbers:
        return (NUMBERS,) * len(used)
    objects = {positions[0] for _, spec, positions in kernels if spec.family == "features"}
    coded = {j for _, spec, positions in kernels if spec.family != "features" for j in positions} if objects else set()
    return tuple(OBJECTS if j in objects and j not in coded else table.encoding(j) for j in map(int, used))


def _check_unique(names: list[str]) -> None:
    if len(set(names)) < len(names):
        repeated = [name for name, count in Counter(names).items() if count > 1]
        raise InvalidInputError(f"Kernel names must differ, but {repeated[:5]} appear more than once.")


def _readers_of(kernels: Sequence[NamedKernel]) -> dict[tuple[int, frozenset[str]], KernelSpec]:
    """Return the first kernel of every column and what it can read."""
    readers: dict[tuple[int, frozenset[str]], KernelSpec] = {}
    can_read: dict[tuple[int, int], frozenset[str]] = {}  # by spec, which many columns may share, and place in it
    for _, spec, positions in kernels:
        for place, j in enumerate(positions) if spec.family != "features" else ():
            if (id(spec), place) not in can_read:
                can_read[id(spec), place] = spec.reads(place)
            readers.setdefault((j, can_read[id(spec), place]), spec)
    return readers


def _check_sparse(bank: KernelBank) -> None:
    """Reject options that would make sparse columns dense."""
    for name in ("standardize", "center"):
        if given := getattr(bank, name):
            raise InvalidInputError(
                f"X is sparse, and {name}={given!r} subtracts means, after which no entry is zero. Scale columns "
                f"before (TfidfVectorizer, MaxAbsScaler, StandardScaler(with_mean=False)) and make the bank with "
                f"{name}=False, such as KernelBank.joint(Linear(), widths=['median']); the intercept of the model "
                "stands for the mean of a linear kernel."
            )


def _statistics(standardize: object, values: Array, encodings: Sequence[Encoding]) -> tuple[Array, Array]:
    """Return offsets and scales of columns: 0 and 1 for codes of categories."""
    means, deviations = np.zeros(len(encodings)), np.ones(len(encodings))
    scaled = np.array([standardize and encoding.scaled for encoding in encodings], dtype=bool)
    centered = scaled | np.array([encoding.centered for encoding in encodings], dtype=bool)
    if centered.any():
        means, deviations = column_statistics(values)
        if standardize == ROBUST and len(values):
            low, high = (extreme.reduce(values, axis=0) for extreme in (np.fmin, np.fmax))
            deviations = scales_of_columns(low, high, means, deviations)
    return np.where(centered, means, 0.0), np.where(scaled, deviations, 1.0)


def _shifts(bank: KernelBank, kernels: Sequence[NamedKernel], values: Array, used: Array) -> Array:
    """Return the offsets of columns for distance kernels, the medians, also the fill value of gaps; else zero."""
    asked = np.full(len(used), bank.missing != "error")
    kinds = [kind for kind in kinds_of(kernels) if kind.spec.family == "squared_distance" and kind.n_columns > 1]
    far = {id(kind.spec) for kind in kinds}
    for _, spec, positions in kernels if far else ():
        if len(positions) > 1 and id(spec) in far:
            asked[np.searchsorted(used, positions)] = True
    shifts = np.zeros(len(used))
    if asked.all():
        return present_medians(values)
    shifts[asked] = present_medians(values[:, asked])
    return shifts
