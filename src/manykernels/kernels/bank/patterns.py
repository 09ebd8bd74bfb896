"""Entries of a bank: a named kernel, or a pattern for kernels on yet unknown columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.specs.base import KernelSpec
from manykernels.kernels.specs.categorical import Missing
from manykernels.kernels.specs.landmarks import Shaped, check_shape_names
from manykernels.kernels.tables.kinds import READ_AS, ColumnIssue
from manykernels.validation.arrays import check_choice, check_count

NamedKernel: TypeAlias = tuple[str, KernelSpec, tuple[int, ...]]
Spec = TypeVar("Spec", bound=KernelSpec)


class Kind(NamedTuple):
    """A kernel on a number of columns; a large bank has few kinds."""

    name: str  # of the first kernel
    spec: KernelSpec
    n_columns: int
    n_kernels: int


def kinds_of(kernels: Sequence[NamedKernel]) -> list[Kind]:
    """Return the kinds of kernels, regardless of columns."""
    names, specs, columns = transposed(kernels)
    keys = list(zip(map(id, specs), map(len, columns), strict=True))
    counts = Counter(keys)
    firsts = dict(zip(reversed(keys), reversed(range(len(keys))), strict=True))
    return [Kind(names[m := firsts[key]], specs[m], key[1], number) for key, number in counts.items()]


def transposed(kernels: Sequence[NamedKernel]) -> tuple[tuple[str, ...], tuple[KernelSpec, ...], tuple[Any, ...]]:
    """Return the names, the kernels by themselves and their columns."""
    names, specs, columns = (tuple(map(itemgetter(place), kernels)) for place in range(3))
    return names, specs, columns


def distinct_specs(specs: Sequence[Spec]) -> dict[int, Spec]:
    """Return the distinct objects among kernels by `id`; a vector of widths is a single object."""
    return dict(zip(map(id, specs), specs, strict=True))


class BankEntry(ABC):
    """An item of a bank; a frozen dataclass that expands to named kernels on column positions."""

    @abstractmethod
    def expand(self, table: Table) -> list[NamedKernel]:
        """Return ``(name, spec, positions)`` of every kernel of the entry on the columns of ``table``."""

    def resolve(self, table: Table) -> list[BankEntry]:
        """Return the entries with resolved selectors, for equal kernels on any rows of ``table``."""
        own: Any = self
        chosen = getattr(self, "columns", None)
        return [replace(own, columns=named_columns(table, table.positions(chosen)))] if callable(chosen) else [self]

    @property
    def reads_categories(self) -> bool:
        """Whether some kernel of the entry reads columns of categories."""
        own: Any = self
        return any("category" in spec.reads(0) for spec in getattr(own, "specs", None) or (own.spec,))

    def issues(self, table: Table) -> list[ColumnIssue]:
        """Return the columns that the entry is meant for and has no kernel for.

        Returns
        -------
        list of ColumnIssue
            None, for entries that name their kernels.
        """
        return []


@dataclass(frozen=True)
class OnColumns(BankEntry):
    """A single named kernel on a selection of columns.

    Parameters
    ----------
    name : str
        Unique in the bank.
    spec : KernelSpec
    columns : None, str, int, slice, sequence, mask or callable
        As in scikit-learn's ColumnTransformer; None is every column.
    """

    name: str
    spec: KernelSpec
    columns: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidInputError(f"The name of a kernel must be a non-empty string, got {self.name!r}.")
        if not isinstance(self.spec, KernelSpec):
            object.__setattr__(self, "spec", read_specs(self.spec)[0])
        if (columns := freeze_columns(self.columns)) is not self.columns:
            object.__setattr__(self, "columns", columns)

    def expand(self, table: Table) -> list[NamedKernel]:
        return [(self.name, self.spec, table.positions(self.columns))]


@dataclass(frozen=True)
class PerFeature(BankEntry):
    """Every kernel on every column of a selection by itself, named ``"column: kernel"``.

    Parameters
    ----------
    specs : KernelSpec or sequence of KernelSpec
    columns : column selection, default=None
        None is every column.
    """

    specs: tuple[KernelSpec, ...]
    columns: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "specs", read_specs(self.specs))
        object.__setattr__(self, "columns", freeze_columns(self.columns))

    def expand(self, table: Table) -> list[NamedKernel]:
        """Return the kernels, column by column."""
        names = table.names
        positions = table.positions(self.columns)
        labels = [(f": {spec.label}", spec) for spec in self.specs]
        return [(names[j] + label, spec, own) for j in positions for own in [(j,)] for label, spec in labels]


@dataclass(frozen=True)
class PerView(BankEntry):
    """Every kernel on every view, a named selection of columns; named ``"view: kernel"``.

    Parameters
    ----------
    specs : KernelSpec or sequence of KernelSpec
    views : mapping of str to column selection, or sequence of such pairs; None
        For instance ``{"clinical": ["age", "bmi"], "genes": slice(2, None)}``. None: those of the :class:`Views` that
        the bank is fitted on.
    """

    specs: tuple[KernelSpec, ...]
    views: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "specs", read_specs(self.specs))
        if self.views is None:
            return
        _refuse_kernels(self.views, "views")
        pairs = tuple(self.views.items() if isinstance(self.views, Mapping) else self.views)
        if not pairs:
            raise InvalidInputError("views must name at least one selection of columns.")
        object.__setattr__(self, "views", tuple((str(name), freeze_columns(columns)) for name, columns in pairs))

    def expand(self, table: Table) -> list[NamedKernel]:
        """Return the kernels, view by view."""
        if self.views is None and not table.view_positions:
            raise InvalidInputError(
                "The bank is for Views, but X is one table. Pass Views, or name the columns of each view."
            )
        selected = table.view_positions if self.views is None else dict(self.views)
        views = [(name, table.positions(columns)) for name, columns in selected.items()]
        return [(f"{name}: {spec.label}", spec, positions) for name, positions in views for spec in self.specs]


@dataclass(frozen=True)
class Joint(BankEntry):
    """Every kernel on all columns of a selection together, named ``"all: kernel"``.

    Parameters
    ----------
    specs : KernelSpec or sequence of KernelSpec
    columns : column selection, default=None
        None is every column.
    name : str, default="all"
        What the selection is called in the names of the kernels.
    """

    specs: tuple[KernelSpec, ...]
    columns: Any = None
    name: str = "all"

    def __post_init__(self) -> None:
        object.__setattr__(self, "specs", read_specs(self.specs))
        object.__setattr__(self, "columns", freeze_columns(self.columns))

    def expand(self, table: Table) -> list[NamedKernel]:
        positions = table.positions(self.columns)
        return [(f"{self.name}: {spec.label}", spec, positions) for spec in self.specs]


@dataclass(frozen=True)
class Spare(Joint):
    """Kernels that a search adds to averages where held-out rows are predicted better with them, the first alone first.

    The narrow kernels are in no other candidate: in selections, or averages without need, very narrow kernels worsen
    predictions on many rows. Parameters follow :class:`Joint`.
    """


@dataclass(frozen=True)
class PerGroup(BankEntry):
    """Every kernel on every group of columns, of thousands, say gene sets; named ``"group: kernel"``.

    Parameters
    ----------
    specs : KernelSpec or sequence of KernelSpec
    groups : mapping of str to names or positions of columns, or sequence of such pairs
    least : int, default=1
        Groups with fewer columns in the table are left out.
    unknown : {"error", "drop"}, default="error"
        Treatment of columns absent from the table; "drop" leaves them out.
    """

    specs: tuple[KernelSpec, ...]
    groups: Any
    least: int = 1
    unknown: str = "error"

    def __post_init__(self) -> None:
        mapped = isinstance(self.groups, Mapping)
        pairs = tuple(self.groups.items() if mapped else self.groups)
        if not mapped and any(not isinstance(pair, (tuple, list)) or len(pair) != 2 for pair in pairs):
            raise InvalidInputError(
                "groups must be a mapping of names to columns, such as {'age': ['age', 'birth']}, got "
                f"{self.groups!r}."
            )
        if not pairs:
            raise InvalidInputError("groups must name at least one group of columns.")
        check_choice(self.unknown, ("error", "drop"), "unknown")
        object.__setattr__(self, "least", check_count(self.least, "least"))
        object.__setattr__(self, "specs", read_specs(self.specs))
        object.__setattr__(self, "groups", tuple([(str(name), tuple(columns)) for name, columns in pairs]))

    def expand(self, table: Table) -> list[NamedKernel]:
        """Return the kernels, group by group."""
        places = table.places if table.places is not None else {j: j for j in range(table.n_columns)}
        asked = dict.fromkeys(chain.from_iterable(map(itemgetter(1), self.groups)))  # of thousands, each once
        lost = [column for column in asked if column not in places]
        if lost and self.unknown == "error":
            raise InvalidInputError(
                f"X lacks {len(lost)} column(s) of the groups, such as {lost[0]!r}. Correct the names, or leave "
                "out what is not there with unknown='drop'."
            )
        known, at = places.__contains__, places.__getitem__
        found = [(name, tuple(dict.fromkeys(map(at, filter(known, own))))) for name, own in self.groups]
        kept = [pair for pair in found if len(pair[1]) >= self.least]
        if not kept:
            raise InvalidInputError(f"No group has {self.least} or more of its columns in X.")
        labels = [(f": {spec.label}", spec) for spec in self.specs]
        return [(name + label, spec, positions) for name, positions in kept for label, spec in labels]


def indicators(table: Table, kernels: list[NamedKernel]) -> list[NamedKernel]:
    """Return a missingness kernel for every uncovered gap pattern, named after the first kernel."""
    covered: set[bytes] = set()
    names = {name for name, _, _ in kernels}
    seen: set[tuple[int, ...]] = set()
    found: list[NamedKernel] = []
    for name, spec, positions in sorted(kernels, key=lambda kernel: kernel[1].family != "missing"):
        if positions in seen:
            continue
        seen.add(positions)
        gaps = np.isnan(table.codes(j for j in positions if table.kind(j) in READ_AS)).any(axis=1)
        pattern = gaps.tobytes()
        if spec.family != "missing" and gaps.any() and pattern not in covered:
            own = _incomplete(table, positions)
            label = f"{name.removesuffix(f': {spec.label}')}: missing"
            if label in names:
                label = f"{', '.join(str(table.names[j]) for j in own)}: missing"
            names.add(label)
            found.append((label, Missing(), own))
        covered.add(pattern)
    return found


def _incomplete(table: Table, positions: tuple[int, ...]) -> tuple[int, ...]:
    """Return the columns with distinct gap patterns."""
    patterns: dict[bytes, int] = {}
    for j in positions:
        gaps = np.isnan(table.codes([j])[:, 0]) if table.kind(j) in READ_AS else np.zeros(1, dtype=bool)
        if gaps.any():
            patterns.setdefault(gaps.tobytes(), j)
    return tuple(sorted(patterns.values()))


def read_entry(entry: object, known: dict[KernelSpec, KernelSpec]) -> BankEntry:
    """Return a bank entry from a pattern or from ``(name, spec)`` or ``(name, spec, columns)``.

    Equal kernels of a bank are merged into the first of the ``known``, for shared results.
    """
    if isinstance(entry, (tuple, list)) and len(entry) in (2, 3):
        name, spec, *columns = entry
        return OnColumns(name, _shared(spec, known), *columns)
    if isinstance(entry, BankEntry):
        return entry
    if isinstance(entry, KernelSpec):
        return OnColumns(entry.label, entry)
    raise InvalidInputError(
        f"An entry of a KernelBank is (name, kernel, columns) or a pattern such as PerFeature, got {entry!r}."
    )


def _shared(spec: Any, known: dict[KernelSpec, KernelSpec]) -> Any:
    """Return the known kernel equal to the argument, or register the argument."""
    try:
        return known.setdefault(spec, spec)
    except TypeError:  # what is no kernel is refused by those who take it, and one of a user may have no hash
        return spec


def read_specs(specs: object) -> tuple[KernelSpec, ...]:
    """Return a single kernel or a sequence of kernels as a non-empty tuple."""
    chosen = (specs,) if isinstance(specs, KernelSpec) else specs
    if isinstance(chosen, str) or not isinstance(chosen, Iterable):
        raise InvalidInputError(f"Expected a kernel such as Gaussian(1.0) or a list of kernels, got {specs!r}.")
    chosen = tuple(chosen)
    wrong = [spec for spec in chosen if not isinstance(spec, KernelSpec)]
    if wrong:
        raise InvalidInputError(
            f"Expected kernels such as Gaussian(1.0), got {wrong[0]!r}. Columns come after kernels."
        )
    if not chosen:
        raise InvalidInputError("Give at least one kernel, such as Linear() or widths=['median']; the list is empty.")
    return chosen


def named_columns(table: Table, positions: Iterable[int]) -> tuple[Any, ...]:
    """Return columns by name for text, else by position."""
    names = table.columns
    by_name = names is not None and all(isinstance(name, str) for name in names)
    return tuple(names[j] if by_name and names is not None else j for j in positions)


def freeze_columns(selection: object) -> Any:
    """Return an immutable column selection: sequences and masks become tuples."""
    if isinstance(selection, (list, tuple)) and set(map(type, selection)) <= {int, str}:  # by far the most
        return tuple(selection)
    _refuse_kernels(selection, "columns")
    if selection is None or isinstance(selection, (str, slice)) or callable(selection) or np.isscalar(selection):
        return selection
    if not isinstance(selection, Iterable):
        raise InvalidInputError(f"Columns are a name, position, slice, mask, list or callable, not {selection!r}.")
    return tuple(item.item() if isinstance(item, np.generic) else item for item in selection)


def _refuse_kernels(selection: object, name: str) -> None:
    """Reject a kernel in the place of columns: further kernels belong into a list."""
    inside = selection if isinstance(selection, (list, tuple)) else [selection]
    if wrong := [item for item in inside if isinstance(item, KernelSpec)]:
        raise InvalidInputError(
            f"{name} got the kernel {wrong[0].label}. Pass several kernels as a list, [Linear(), "
            f"{type(wrong[0]).__name__}(...)]; the next argument selects columns."
        )


# Shapes of columns: which kernels of a bank become kernels of functions that rise, fall, are convex or concave.


Shapes = tuple[tuple[Any, str], ...]


def read_shapes(given: object) -> Shapes:
    """Return the shapes of columns as pairs; reject anything but a mapping."""
    if not given:
        return ()
    if not isinstance(given, Mapping) and (isinstance(given, str) or not isinstance(given, Iterable)):
        raise InvalidInputError(
            f"shape must be a mapping of columns to shapes, such as {{'age': 'increasing'}}; got {given!r}."
        )
    return tuple((column, check_shape_names(shape)) for column, shape in dict(given).items())


def shaped_columns(shapes: Shapes, table: Table) -> dict[int, str]:
    """Return the shape of every shaped column, by position."""
    found: dict[int, str] = {}
    for column, shape in shapes:
        for j in table.positions(column):
            if found.setdefault(j, shape) != shape:
                raise InvalidInputError(
                    f"Column {table.names[j]!r} has the shapes {found[j]!r} and {shape!r}: give one."
                )
    return found


def shape_kernels(shapes: Shapes, kernels: Sequence[NamedKernel], table: Table) -> list[NamedKernel]:
    """Return kernels of single columns with the shapes of their columns; reject incompatible kernels."""
    wanted = shaped_columns(shapes, table)
    found: list[NamedKernel] = []
    for name, spec, positions in kernels:
        own = [j for j in positions if j in wanted]
        if own and spec.family != "missing":
            column = table.names[own[0]]
            if len(positions) > 1:
                raise InvalidInputError(
                    f"Column {column!r} is to be {wanted[own[0]]}, but the kernel {name!r} also acts on other "
                    f"columns, so the effect could have any shape. Leave the column out of that kernel, or use "
                    f"KernelBank.per_feature."
                )
            if not isinstance(spec, Shaped):
                name, spec = f"{name}, {wanted[own[0]]}", Shaped(spec, wanted[own[0]])
            elif spec.shape != wanted[own[0]]:
                raise InvalidInputError(
                    f"Column {column!r} is to be {wanted[own[0]]}, but its kernel {name!r} is {spec.shape}: give one "
                    "shape."
                )
        found.append((name, spec, positions))
    without = sorted(set(wanted) - {j for _, spec, own in found if isinstance(spec, Shaped) for j in own})
    if without:
        names = [table.names[j] for j in without]
        raise InvalidInputError(f"The columns {names} have shapes but no single-column kernel. Add one for each.")
    return found


def check_shaped(kinds: Iterable[Kind], normalize: str | None) -> None:
    """Reject operations that lose the shape of a kernel."""
    for name, spec, *_ in kinds:
        if isinstance(spec, Shaped):
            if normalize == "unit_diagonal":
                raise InvalidInputError(
                    f"normalize='unit_diagonal' divides the functions of the kernel {name!r} by its diagonal, after "
                    f"which they are not {spec.shape}. Take normalize='mean_diagonal', 'trace' or None."
                )
        elif any(isinstance(part, Shaped) for part in parts_of(spec)):
            raise InvalidInputError(
                f"The kernel {name!r} has a part with a shape, which the whole kernel does not keep. Give the shape "
                f"to the whole kernel, as Shaped(Sum(...), 'increasing'), or add both kernels to the bank separately."
            )


def parts_of(whole: object) -> Iterator[KernelSpec]:
    """Yield the parts of a kernel or a tuple, recursively."""
    named = [field.name for field in fields(whole)] if is_dataclass(whole) else []
    for part in whole if isinstance(whole, tuple) else [getattr(whole, name) for name in named]:
        if isinstance(part, KernelSpec):
            yield part
        if isinstance(part, (KernelSpec, tuple)):
            yield from parts_of(part)
