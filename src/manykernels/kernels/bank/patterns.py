"""Entries of a bank: one named kernel, or a pattern that becomes named kernels once the columns are known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.specs.base import KernelSpec

NamedKernel: TypeAlias = tuple[str, KernelSpec, tuple[int, ...]]


class BankEntry(ABC):
    """What a bank is a list of; a frozen dataclass that expands to named kernels on column positions."""

    @abstractmethod
    def expand(self, table: Table) -> list[NamedKernel]:
        """Return ``(name, spec, positions)`` of every kernel of this entry on the columns of ``table``."""


@dataclass(frozen=True)
class OnColumns(BankEntry):
    """One named kernel on a selection of columns.

    Parameters
    ----------
    name : str
        Unique in its bank.
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
        object.__setattr__(self, "spec", as_specs(self.spec)[0])
        object.__setattr__(self, "columns", freeze_columns(self.columns))

    def expand(self, table: Table) -> list[NamedKernel]:
        """Return the one kernel."""
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
        object.__setattr__(self, "specs", as_specs(self.specs))
        object.__setattr__(self, "columns", freeze_columns(self.columns))

    def expand(self, table: Table) -> list[NamedKernel]:
        """Return the kernels, column by column."""
        names = table.names
        positions = table.positions(self.columns)
        return [(f"{names[j]}: {spec.label}", spec, (j,)) for j in positions for spec in self.specs]


@dataclass(frozen=True)
class PerView(BankEntry):
    """Every kernel on every view, a named selection of columns; named ``"view: kernel"``.

    Parameters
    ----------
    specs : KernelSpec or sequence of KernelSpec
    views : mapping of str to column selection, or sequence of such pairs
        For instance ``{"clinical": ["age", "bmi"], "genes": slice(2, None)}``.
    """

    specs: tuple[KernelSpec, ...]
    views: Any

    def __post_init__(self) -> None:
        pairs = tuple(self.views.items() if isinstance(self.views, Mapping) else self.views)
        if not pairs:
            raise InvalidInputError("views must name at least one selection of columns.")
        object.__setattr__(self, "specs", as_specs(self.specs))
        object.__setattr__(self, "views", tuple((str(name), freeze_columns(columns)) for name, columns in pairs))

    def expand(self, table: Table) -> list[NamedKernel]:
        """Return the kernels, view by view."""
        views = [(name, table.positions(columns)) for name, columns in self.views]
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
        object.__setattr__(self, "specs", as_specs(self.specs))
        object.__setattr__(self, "columns", freeze_columns(self.columns))

    def expand(self, table: Table) -> list[NamedKernel]:
        """Return the kernels."""
        positions = table.positions(self.columns)
        return [(f"{self.name}: {spec.label}", spec, positions) for spec in self.specs]


def as_entry(entry: Any) -> BankEntry:
    """Return a bank entry from a pattern or from ``(name, spec)`` or ``(name, spec, columns)``."""
    if isinstance(entry, BankEntry):
        return entry
    if isinstance(entry, KernelSpec):
        return OnColumns(entry.label, entry)
    if isinstance(entry, (tuple, list)) and len(entry) in (2, 3):
        return OnColumns(*entry)
    raise InvalidInputError(
        f"An entry of a KernelBank is (name, kernel, columns) or a pattern such as PerFeature, got {entry!r}."
    )


def as_specs(specs: Any) -> tuple[KernelSpec, ...]:
    """Return one kernel or a sequence of kernels as a non-empty tuple."""
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
        raise InvalidInputError("Give at least one kernel; the list is empty.")
    return chosen


def freeze_columns(selection: Any) -> Any:
    """Return a column selection that cannot be changed from outside: sequences and masks become tuples."""
    if selection is None or isinstance(selection, (str, slice)) or callable(selection) or np.isscalar(selection):
        return selection
    if not isinstance(selection, Iterable):
        raise InvalidInputError(f"Columns are a name, position, slice, mask, list or callable, not {selection!r}.")
    return tuple(item.item() if isinstance(item, np.generic) else item for item in selection)
