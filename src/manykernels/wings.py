"""Wings: parts of the package with entries in registries of the core; the core imports no wing.

The package lists its wings on import. A registry loads them on request of an unknown name, or of all names.
"""

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import TypeVar

Entry = TypeVar("Entry")

WAITING: list[str] = []
"""Modules of the wings that are not loaded yet."""


def load_wings() -> None:
    """Import every wing not loaded yet."""
    while WAITING:  # at most once a wing: it is no longer waiting when it asks for names itself
        import_module(WAITING.pop(0))


class Registry(MutableMapping[str, Entry]):
    """Entries of the core by name, and those of the wings after them.

    Parameters
    ----------
    core : dict
        Entries of the core, in their order.

    Attributes
    ----------
    core : dict
        The same entries; no wing is loaded for them.

    Examples
    --------
    >>> from manykernels.solvers import SOLVERS
    >>> "simplemkl" in SOLVERS.core, "simplemkl" in SOLVERS
    (False, True)
    """

    def __init__(self, core: dict[str, Entry]) -> None:
        self.core = core
        self._entered: dict[str, Entry] = {}

    def __getitem__(self, name: str) -> Entry:
        if name in self.core:
            return self.core[name]
        load_wings()
        return self._entered[name]

    def __setitem__(self, name: str, entry: Entry) -> None:
        (self.core if name in self.core else self._entered)[name] = entry

    def __delitem__(self, name: str) -> None:
        del (self.core if name in self.core else self._entered)[name]

    def __iter__(self) -> Iterator[str]:
        load_wings()
        return iter([*self.core, *self._entered])

    def __len__(self) -> int:
        load_wings()
        return len(self.core) + len(self._entered)
