"""Ready-made lists of kernels: width grids, the SimpleMKL protocol, the default bank, interactions of columns."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, groupby
from math import comb
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.bank.patterns import (
    BankEntry,
    Joint,
    NamedKernel,
    OnColumns,
    PerFeature,
    PerView,
    Spare,
    freeze_columns,
    named_columns,
    read_specs,
)
from manykernels.kernels.specs.base import KernelSpec
from manykernels.kernels.specs.categorical import ArdOverlap, Binned, Ordinal, Overlap
from manykernels.kernels.specs.distances import MedianWidth
from manykernels.kernels.specs.inner import Linear, Polynomial
from manykernels.kernels.specs.interaction import Interaction
from manykernels.kernels.specs.kmers import Kmers
from manykernels.kernels.specs.landmarks import Landmarks
from manykernels.kernels.specs.radial import ArdGaussian, Gaussian, Matern, Periodic
from manykernels.kernels.tables.kinds import READ_AS, ColumnIssue, alphabet_of, describe, warn_of_numbers_as_text
from manykernels.validation.arrays import Array, check_count

DEFAULT_SPECS: tuple[KernelSpec, ...] = (*(Gaussian(MedianWidth(factor)) for factor in (0.5, 1.0, 2.0)), Linear())
NARROW_SPECS: tuple[KernelSpec, ...] = tuple(Gaussian(MedianWidth(factor)) for factor in (0.25, 0.125))
RELEVANT_FACTORS, BY_RELEVANCE, OF_CODES = (0.5, 1.0, 2.0), ", by relevance", " of codes"


def simplemkl_specs() -> tuple[KernelSpec, ...]:
    """Return the 27 kernels of the SimpleMKL protocol."""
    widths = (0.1, 0.25, 0.5, 0.75, *range(1, 21))
    return (*(Gaussian(width) for width in widths), *(Polynomial(degree) for degree in (1, 2, 3)))


def add_gaussians(specs: object, widths: Any) -> tuple[KernelSpec, ...]:
    """Return the kernels followed by a Gaussian per width; at least one kernel in all."""
    single = isinstance(widths, str) or not isinstance(widths, Iterable)
    gaussians = tuple(Gaussian(width) for width in ((widths,) if single else widths))
    nothing = isinstance(specs, tuple) and not specs  # tables and arrays compare entry by entry, or refuse to
    return gaussians if gaussians and nothing else read_specs(specs) + gaussians


@dataclass(frozen=True)
class DefaultKernels(BankEntry):
    """Default kernels: for every column by kind, and for all numeric columns together.

    Numbers: Gaussians at half, once and twice the median distance, and a linear kernel, on every column and on all
    together, ``4 (d + 1)`` kernels for d columns. Beyond 200 columns only the linear kernel is taken per column, ``d
    + 4`` kernels, and so it is for complete columns of two values, on which all four have the same functions but for
    a constant; a single column alone gets 4. Dates: the same four kernels, and periodic ones of the year, the week
    and the day if the dates vary accordingly. Ordered categoricals: :class:`Ordinal`. Text, booleans and other
    categories: :class:`Overlap`, on every column and on all together. DNA, RNA and proteins, long texts of few
    letters that differ from row to row: :class:`Kmers`, also positional for equal lengths. Kernels on several columns
    exclude columns with missing values. For :class:`Views`, numeric columns have joint kernels per view only.

    Parameters
    ----------
    apart : tuple, default=()
        Columns excluded from joint kernels, names or positions: shaped columns.
    """

    apart: tuple[Any, ...] = ()
    reads_categories: ClassVar[bool] = True  # by the overlap kernel

    def expand(self, table: Table) -> list[NamedKernel]:
        """Return the single-column kernels followed by the joint kernels."""
        return [kernel for entry in self.resolve(table) for kernel in entry.expand(table)]

    def resolve(self, table: Table) -> list[BankEntry]:
        """Return the patterns for the kinds of the columns, the gaps and the range of dates."""
        return entries_by_type(table, {j for column in self.apart for j in table.positions(column)})

    def issues(self, table: Table) -> list[ColumnIssue]:
        """Return the columns of text or unreadable content."""
        return unusable_columns(table)

    def project(self, count: int) -> BankEntry:
        """Return the entry with Gaussians of several columns on a number of landmarks."""
        return ProjectedDefaults(self.apart, count)


@dataclass(frozen=True)
class ProjectedDefaults(DefaultKernels):
    """The default kernels, those Gaussians of several columns that no factor holds exactly projected on landmarks.

    Parameters
    ----------
    apart : tuple, default=()
        As in :class:`DefaultKernels`.
    count : int, default=500
        Number of landmarks.
    """

    count: int = 500

    def resolve(self, table: Table) -> list[BankEntry]:
        """Return the patterns of :class:`DefaultKernels` with projected Gaussians."""
        return [project_entry(entry, self.count) for entry in super().resolve(table)]


@dataclass(frozen=True)
class DefaultViews(DefaultKernels):
    """The default kernels of numbers on every view, a named selection of columns of one table.

    Parameters
    ----------
    apart : tuple, default=()
        As in :class:`DefaultKernels`.
    views : mapping of str to column selection, or sequence of such pairs
        For instance ``{"clinical": ["age", "bmi"], "genes": slice(2, None)}``.
    count : int, optional
        Number of landmarks where the kernels are projected.
    """

    views: Any = ()
    count: int | None = None
    reads_categories: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "views", PerView(DEFAULT_SPECS, self.views).views)

    def resolve(self, table: Table) -> list[BankEntry]:
        """Return a pattern for every view of several columns, and the kernels of views of one column."""
        found: list[BankEntry] = []
        for name, columns in self.views:
            own = named_columns(table, table.positions(columns))
            if len(own) > 1:
                found.append(Joint(DEFAULT_SPECS, own, name))
            else:  # which factors hold exactly
                found += [OnColumns(f"{name}: {spec.label}", spec, own) for spec in DEFAULT_SPECS]
        return found if self.count is None else [project_entry(entry, self.count) for entry in found]

    def issues(self, table: Table) -> list[ColumnIssue]:
        """Return nothing: views name their columns."""
        return []

    def project(self, count: int) -> BankEntry:
        """Return the entry on a number of landmarks."""
        return replace(self, count=count)


@dataclass(frozen=True)
class Relevant(BankEntry):
    """Gaussians of several columns, each divided by a width that suits its relevance; for searches.

    Every fold learns the widths from its training rows and targets, so the names say the factors of the widths only.

    Parameters
    ----------
    columns : column selection, default=None
        None is every column.
    name : str, default="all"
        What the selection is called in the names of the kernels.
    widths : tuple of float, optional
        One for every column; all alike where nothing has been learned.
    count : int, optional
        Number of landmarks where the kernels are projected.
    """

    columns: Any = None
    name: str = "all"
    widths: tuple[float, ...] | None = None
    count: int | None = None
    reads_categories: ClassVar[bool] = False
    relevance: ClassVar[str] = BY_RELEVANCE
    kernel: ClassVar[Any] = ArdGaussian

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", freeze_columns(self.columns))

    def expand(self, table: Table) -> list[NamedKernel]:
        """Return a kernel for every factor of the widths."""
        positions, found = table.positions(self.columns), []
        widths = np.full(len(positions), np.sqrt(2.0 * len(positions))) if self.widths is None else self.widths
        for factor in RELEVANT_FACTORS:
            spec: Any = self.kernel(tuple((factor * np.asarray(widths)).tolist()))
            label = Gaussian(MedianWidth(factor)).label
            if self.count is not None:
                spec, label = Landmarks(spec, self.count), f"{label} on {self.count} landmarks"
            found.append((f"{self.name}{self.relevance}: {label}", spec, positions))
        return found


@dataclass(frozen=True)
class RelevantCodes(Relevant):
    """The same for columns of few levels, whose codes are equal or not, whatever their order.

    Parameters follow :class:`Relevant`.
    """

    relevance: ClassVar[str] = BY_RELEVANCE + OF_CODES
    kernel: ClassVar[type[KernelSpec]] = ArdOverlap


def project_entry(entry: BankEntry, count: int) -> BankEntry:
    """Return an entry with Gaussians of several columns, which have no exact factor, projected on landmarks."""
    if isinstance(entry, Relevant):
        return replace(entry, count=count)
    if not isinstance(entry, Joint):
        return entry
    specs = [Landmarks(spec, count) if isinstance(spec, Gaussian) else spec for spec in entry.specs]
    return replace(entry, specs=tuple(specs))


def entries_by_type(table: Table, apart: Collection[int] = ()) -> list[BankEntry]:
    """Return the entries of a bank for what the columns of a table hold; none for text and what cannot be read.

    Kernels of several columns leave out those ``apart``.
    """
    by_kind: dict[str, list[int]] = {}
    for j in range(table.n_columns):
        by_kind.setdefault(table.kind(j), []).append(j)
    numbers = sorted(by_kind.get("number", []) + by_kind.get("duration", []))
    categories = sorted(by_kind.get("category", []) + by_kind.get("boolean", []))
    entries = _entries_of_numbers(table, numbers, apart)
    if by_kind.get("category"):
        warn_of_numbers_as_text([table.data.iloc[:, j] for j in by_kind["category"]])
    for j in sorted(by_kind.get("date", []) + by_kind.get("instant", [])):
        entries.append(PerFeature(DEFAULT_SPECS + _periods(table.codes([j])[:, 0]), named_columns(table, [j])))
    if by_kind.get("ordered"):
        entries.append(PerFeature((Ordinal(),), named_columns(table, by_kind["ordered"])))
    for j in by_kind.get("text", []):
        entries += [PerFeature(specs, named_columns(table, [j])) for specs in (_sequence_specs(table, j),) if specs]
    if categories:
        entries.append(PerFeature((Overlap(),), named_columns(table, categories)))
        together = [j for j in _complete(table, categories) if j not in apart]
        if len(together) > 1:
            entries.append(Joint((Overlap(),), named_columns(table, together), "categories"))
    return entries


def add_narrow_kernels(entries: Sequence[BankEntry], table: Table) -> list[BankEntry]:
    """Add narrower Gaussians for searches to default kernels of several numbers, except existing widths."""
    names = {name for entry in entries for name, _, _ in entry.expand(table)}
    default = [entry for entry in entries if isinstance(entry, Joint) and entry.specs == DEFAULT_SPECS]
    specs = tuple(spec for spec in NARROW_SPECS if not any(f"{entry.name}: {spec.label}" in names for entry in default))
    narrow = [Spare(specs, entry.columns, entry.name) for entry in default if specs]
    learned: list[BankEntry] = []
    for entry in () if table.view_positions or len(default) > 1 else default:  # not of views
        learned.append(Relevant(entry.columns, entry.name))
        if _holds_codes(table.codes(table.positions(entry.columns))):
            learned.append(RelevantCodes(entry.columns, entry.name))
    return [*entries, *narrow, *learned]


def _holds_codes(values: Array) -> bool:
    """Return True if no column has many levels, and some column has more than two."""
    most_levels = 10  # of a code, 3 to 20 tried; two levels are as far apart as codes as they are as numbers
    few = [len(np.unique(values[:100, j])) for j in range(values.shape[1])]  # which tell most columns of numbers
    if max(few) > most_levels:
        return False
    counts = [len(np.unique(values[:, j])) for j in range(values.shape[1])]
    return 2 < max(counts) <= most_levels


def unusable_columns(table: Table) -> list[ColumnIssue]:
    """Return the columns without a suitable kernel."""
    found = []
    for j in range(table.n_columns):
        kind = table.kind(j)
        if (kind == "text" and not _sequence_specs(table, j)) or kind not in READ_AS:
            held = describe(table.data.iloc[:, j])  # arrays hold numbers only
            found.append(ColumnIssue(table.names[j], "text" if kind == "text" else "unusable", held))
    return found


def _sequence_specs(table: Table, column: int) -> tuple[KernelSpec, ...]:
    """Return k-mer kernels for a column of sequences, positional for equal lengths; none for texts."""
    texts = table.data.iloc[:, column].dropna()
    alphabet = alphabet_of(texts)
    if alphabet is None:
        return ()
    lengths = (1, 2, 3) if alphabet == "protein" else (1, 2, 3, 4, 5, 6)
    specs = [Kmers(k, alphabet=alphabet, unknown="skip") for k in lengths]
    if texts.str.len().nunique() == 1:
        specs += [Kmers(k, alphabet=alphabet, unknown="skip", positional=True, shortest=1) for k in lengths[1::2]]
    return tuple(specs)


def _entries_of_numbers(table: Table, numbers: list[int], apart: Collection[int]) -> list[BankEntry]:
    """Return the kernels of numeric columns: view by view, or column by column and all together."""
    if table.view_positions:
        views = {name: [j for j in columns if j in set(numbers)] for name, columns in table.view_positions.items()}
        return [Joint(DEFAULT_SPECS, named_columns(table, own), name) for name, own in views.items() if own]
    if not numbers:
        return []
    many_features = 200
    everything = len(numbers) == table.n_columns
    entries: list[BankEntry] = []
    two = _have_two_values(table.codes(numbers)) if table.n_columns <= many_features else [True] * len(numbers)
    for linear, own in groupby(zip(two, numbers, strict=True), key=itemgetter(0)):
        chosen = [j for _, j in own]
        all_of_them = everything and len(chosen) == len(numbers)
        columns = None if all_of_them else named_columns(table, chosen)
        entries.append(PerFeature((Linear(),) if linear else DEFAULT_SPECS, columns))
    together = [j for j in _complete(table, numbers) if j not in apart]
    if len(together) > 1:
        whole = len(together) == table.n_columns
        name = "all" if whole else "numbers" if together == numbers else "complete numbers"
        entries.append(Joint(DEFAULT_SPECS, None if whole else named_columns(table, together), name))
    return entries


def _have_two_values(values: Array) -> list[bool]:
    """Return which columns (n, d) hold two values and no gap, at which a constant would end."""
    first = 100  # rows that tell most columns of numbers
    found = [len(np.unique(column)) <= 2 for column in values[:first].T]
    for place in np.flatnonzero(found):
        column = values[:, place]
        low, high = column.min(), column.max()
        found[place] = bool(low < high and ((column == low) | (column == high)).all())
    return found


def _complete(table: Table, positions: list[int]) -> list[int]:
    """Return the columns without missing values; a kernel on several columns ignores rows with gaps."""
    gaps = np.asarray(np.isnan(table.codes(positions)).any(axis=0))
    return [j for j, gap in zip(positions, gaps, strict=True) if not gap]


def _periods(days: Array) -> tuple[KernelSpec, ...]:
    """Return periodic kernels of the year, the week and the day, as far as the dates reach and differ."""
    present = days[np.isfinite(days)]
    if not len(present):
        return ()
    span = float(np.ptp(present))
    year, week = 365.2425, 7.0  # days
    chosen = [period for period in (year, week) if span >= period]
    if (present % 1.0).any():
        chosen.append(1.0)
    return tuple(Periodic(period) for period in chosen)


# --- interactions ----------------------------------------------------------------------------------------------------

CATEGORIES = Overlap()


def rank_specs(widths: Any = None, bins: Any = None, order: int = 2) -> tuple[KernelSpec, ...]:
    """Return Gaussian kernels of ranks for products of so many columns; of three and more, of few bins."""
    rank_widths, rank_bins = (0.08, 0.4), 24  # sharp steps as trees make them, and smooth functions
    widths_of_sets, cells_of_sets = (0.25,), 256  # of three columns and more: as many bins each as that many cells hold
    if bins is None:
        bins = rank_bins if order == 2 else max(2, int(cells_of_sets ** (1 / order) + 1e-9))
    if widths is None:
        widths = rank_widths if order == 2 else widths_of_sets
    return tuple(Binned(Gaussian(width), bins) for width in widths)


@dataclass(frozen=True)
class Interactions(BankEntry):
    """Products of a kernel per column, for every set of ``order`` columns; named ``"age x dose: kernel"``.

    Parameters
    ----------
    specs : KernelSpec or sequence of KernelSpec, default=()
        Kernels of a single column; each makes a product per set of columns. Categories get the overlap kernel. Where
        there are none, Gaussian kernels of ranks, of fewer bins the more columns are multiplied.
    columns : column selection, default=None
        None is every column that holds numbers, ranks or categories.
    order : int or None, default=2
        Columns in a product; None is every number of columns from two on.
    """

    specs: tuple[KernelSpec, ...] = ()
    columns: Any = None
    order: int | None = 2
    reads_categories: ClassVar[bool] = True  # by the overlap kernel

    def __post_init__(self) -> None:
        object.__setattr__(self, "specs", read_specs(self.specs) if self.specs != () else ())
        object.__setattr__(self, "columns", freeze_columns(self.columns))
        if self.order is not None:
            object.__setattr__(self, "order", check_count(self.order, "order", least=2))
        for spec in self.specs:
            spec.check_columns(1, f"The kernel {spec.label!r} of an interaction")

    def expand(self, table: Table) -> list[NamedKernel]:
        """Return the products, set of columns by set of columns."""
        chosen = table.positions(self.columns)
        if self.columns is None:
            chosen = tuple(j for j in chosen if table.kind(j) in READ_AS)
        orders = self._orders(len(chosen))
        return [kernel for order in orders for kernel in self._products(table, chosen, order)]

    def _orders(self, n_columns: int) -> range:
        """Return the numbers of columns of products, or raise if there are none or too many sets."""
        least = 2 if self.order is None else self.order
        if n_columns < least:
            raise InvalidInputError(f"Interactions of {least} columns need as many, but only {n_columns} can be read.")
        if self.order is None:
            most_of_every_order = 14  # columns: sets of 15 have more cells of two bins than factors hold
            if n_columns > most_of_every_order:
                raise InvalidInputError(
                    f"{n_columns} columns have {2**n_columns - n_columns - 1:,} sets of two and more; every order is "
                    f"listed of at most {most_of_every_order} columns. Name these, for instance those that an additive "
                    f"model selects, or an order: order=3 has {comb(n_columns, 3):,} sets."
                )
            return range(2, n_columns + 1)
        count, kernels = comb(n_columns, self.order), len(self.specs or rank_specs(order=self.order))
        most_kernels = 2_000_000
        if count * kernels > most_kernels:
            raise InvalidInputError(
                f"{n_columns} columns have {count:,} sets of {self.order}, and {kernels} kernels each are "
                f"more than {most_kernels:,}. Name fewer columns, for instance those that an additive model selects."
            )
        return range(self.order, self.order + 1)

    def _products(self, table: Table, chosen: tuple[int, ...], order: int) -> Iterator[NamedKernel]:
        """Yield the products of so many columns."""
        specs, names = self.specs or rank_specs(order=order), table.names
        parts = {j: [_part(table, j, spec) for spec in specs] for j in chosen}
        for own in combinations(chosen, order):
            label = " x ".join(str(names[j]) for j in own)
            for slot, spec in enumerate(specs):
                product = Interaction(tuple((parts[j][slot], (place,)) for place, j in enumerate(own)))
                yield f"{label}: {spec.label}", product, own


def _part(table: Table, column: int, spec: KernelSpec) -> KernelSpec:
    """Return the part of a column in products: the kernel, or the kernel for categories."""
    return CATEGORIES if READ_AS.get(table.kind(column)) == "category" else spec


def interactions(specs: Any, columns: Any, order: Any, bins: Any, widths: Any) -> Interactions:
    """Return the pattern of `KernelBank.interactions` from the arguments."""
    if specs is not None and (bins is not None or widths is not None):
        raise InvalidInputError("Give specs, or bins and widths of Gaussian kernels of ranks, but not both.")
    if specs is not None:
        return Interactions(read_specs(specs), columns, order)
    if bins is None and widths is None:
        return Interactions((), columns, order)
    if order is None:
        raise InvalidInputError(
            "Products of every order have kernels by their number of columns: leave bins and widths out, or give specs "
            "that all of them shall have, or add banks of one order each."
        )
    return Interactions(rank_specs(widths, bins, check_count(order, "order", least=2)), columns, order)


# --- all columns together --------------------------------------------------------------------------------------------

ROUGH = Matern(MedianWidth(1.0), 0.5)  # functions bend at landmarks, as those of trees have steps


@dataclass(frozen=True)
class OnLandmarks(BankEntry):
    """Kernels of all columns of a selection on landmarks: unchanged, and with a single column stretched, each in turn.

    Parameters
    ----------
    specs : tuple of Landmarks
    columns : column selection, default=None
        None is every column that holds numbers.
    stretched : column selection, default=None
        Candidate columns. None is all up to 30 columns, else none.
    """

    specs: tuple[Landmarks, ...] = (Landmarks(ROUGH),)
    columns: Any = None
    stretched: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", freeze_columns(self.columns))
        object.__setattr__(self, "stretched", freeze_columns(self.stretched))

    def expand(self, table: Table) -> list[NamedKernel]:
        """Return the kernels, unstretched first."""
        chosen = table.positions(self.columns)
        if self.columns is None:
            chosen = tuple(j for j in chosen if table.kind(j) == "number")
        if not chosen:
            raise InvalidInputError("Kernels on landmarks need a column of numbers, but there is none.")
        sharp = self._sharp(table, chosen)
        found: list[NamedKernel] = [(f"all: {spec.label}", spec, chosen) for spec in self.specs]
        for j in sharp:
            for spec in self.specs:
                name = f"all, {table.names[j]} times {spec.stretch:g}: {spec.label}"
                found.append((name, replace(spec, stretched=chosen.index(j)), chosen))
        return found

    def _sharp(self, table: Table, chosen: tuple[int, ...]) -> tuple[int, ...]:
        """Return the stretched columns."""
        if self.stretched is None:
            most_stretched = 30
            return chosen if 1 < len(chosen) <= most_stretched else ()
        if isinstance(self.stretched, tuple) and not self.stretched:
            return ()
        sharp = table.positions(self.stretched)
        if missing := [table.names[j] for j in sharp if j not in chosen]:
            raise InvalidInputError(f"stretched names {missing[:5]}, which are not among the columns of the kernels.")
        return sharp


def create_landmark_pattern(specs: object, columns: object, count: Any, stretched: Any, stretch: Any) -> OnLandmarks:
    """Return the pattern of `KernelBank.landmarks` from the arguments."""
    bases = (ROUGH,) if specs is None else read_specs(specs)
    return OnLandmarks(tuple(Landmarks(base, count, stretch=stretch) for base in bases), columns, stretched)
