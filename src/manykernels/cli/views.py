"""Banks for the command line: presets, TOML files, and views named in a file."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from manykernels.cli.console import Outcome
from manykernels.cli.tables import quoted
from manykernels.exceptions import InvalidInputError
from manykernels.kernels import KernelBank
from manykernels.kernels.bank.file import read_toml

PRESETS = {"default": KernelBank.auto, "simplemkl": KernelBank.simplemkl}


def bank_named(kernels: str) -> KernelBank:
    """Return the bank called ``default`` or ``simplemkl``, or the one in a TOML file."""
    if kernels in PRESETS:
        return PRESETS[kernels]()
    if not Path(kernels).is_file():
        raise InvalidInputError(
            f"--kernels must be 'default', 'simplemkl' or a TOML file, but there is no file {kernels!r}."
        )
    return KernelBank.from_dict(read_toml(kernels))


def bank_for(
    kernels: str, views: Path | None, columns: Sequence[str], outcome: Outcome, missing: str = "error"
) -> KernelBank:
    """Return the bank that ``--kernels`` or ``--views`` ask for, for a table of these columns.

    ``missing`` other than "error" overrides what a file says of gaps.
    """
    if views is None:
        bank = bank_named(kernels)
        return bank if missing == "error" else bank.replace(missing=missing)
    if kernels != "default":
        raise InvalidInputError("--views and --kernels exclude one another; a TOML file of --kernels has [views] too.")
    found = read_views(views, columns)
    idle = [name for name in columns if not any(name in members for members in found.values())]
    if idle:
        outcome.note(f"{len(idle)} column(s) are in no view and are not used: {quoted(idle)}.")
    return KernelBank.from_views(found, missing=missing)


def read_views(path: Path, columns: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns of each view named in a TOML file: ``name = ["column", "pattern*"]``, or one text."""
    content = read_toml(path)
    views: Any = content.get("views", content)
    if not isinstance(views, dict) or not views:
        raise InvalidInputError(f'--views: {str(path)!r} names no view; write lines such as rna = ["gene1", "gene2"].')
    return {name: _members(name, chosen, columns) for name, chosen in views.items()}


def _members(name: str, chosen: Any, columns: Sequence[str]) -> list[str]:
    wanted = [chosen] if isinstance(chosen, str) else chosen
    if not isinstance(wanted, list) or not wanted or not all(isinstance(one, str) for one in wanted):
        raise InvalidInputError(
            f"--views: the view {name!r} must be a list of column names or patterns, got {chosen!r}."
        )
    members: list[str] = []
    for one in wanted:
        fitting = [one] if one in columns else [column for column in columns if fnmatchcase(column, one)]
        if not fitting and set(one) & set("*?["):
            raise InvalidInputError(f"--views: no column fits {one!r} of the view {name!r}.")
        members += fitting or [one]
    members = list(dict.fromkeys(members))
    absent = [member for member in members if member not in columns]
    if absent:
        raise InvalidInputError(f"--views: the view {name!r} names {quoted(absent)}, which the table does not offer.")
    return members
