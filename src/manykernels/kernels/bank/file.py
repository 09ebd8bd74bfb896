"""Read a bank from a dictionary or a TOML file; every error names the key that caused it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import Any

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.grids import DefaultKernels, Interactions, simplemkl_specs
from manykernels.kernels.bank.patterns import BankEntry, Joint, OnColumns, PerFeature, PerView
from manykernels.kernels.specs.base import KERNELS, KernelSpec, spec_from_dict

OPTIONS = ("standardize", "normalize", "center", "missing", "landmarks_by", "shape")
PLACES = ("joint", "each", "views", "pairs")
# Parameters that are lists themselves: given once, not as a grid.
LIST_PARAMETERS = {
    "ard_gaussian": ("widths",),
    "sum": ("parts",),
    "product": ("parts",),
    "interaction": ("parts",),
    "binned": ("edges", "shares"),
    "shaped": ("points",),
    "landmarks": ("points", "units"),
    "pairwise": ("params",),
    "weighted_polynomial": ("weights",),
}


def read_toml(path: str | Path) -> dict[str, Any]:
    """Return the content of a TOML file."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInputError(f"The kernel file {str(path)!r} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"The kernel file {str(path)!r} is not valid TOML: {error}.") from error


def read_description(description: Mapping[str, Any]) -> tuple[list[BankEntry], dict[str, Any]]:
    """Return the entries and the options of the bank that a dictionary describes."""
    _check_keys(description, (*OPTIONS, "preset", "views", "kernels"), "the kernel description")
    options = {key: description[key] for key in OPTIONS if key in description}
    if options.get("normalize") == "none":
        options["normalize"] = None
    entries = _preset(description["preset"]) if "preset" in description else []
    if "preset" in description:
        options.setdefault("standardize", True)
    tables = description.get("kernels", [])
    if not isinstance(tables, (list, tuple)) or not all(isinstance(table, Mapping) for table in tables):
        raise InvalidInputError("'kernels' must be a list of tables, written [[kernels]] in TOML.")
    for number, table in enumerate(tables):
        entries.append(_entry(table, description.get("views"), f"kernels[{number}]"))
    if not entries:
        raise InvalidInputError("The kernel description has neither 'kernels' nor 'preset'.")
    return entries, options


def _preset(preset: object) -> list[BankEntry]:
    if preset == "default":
        return [DefaultKernels()]
    if preset == "simplemkl":
        return [PerFeature(simplemkl_specs()), Joint(simplemkl_specs())]
    raise InvalidInputError(f"'preset' must be 'default' or 'simplemkl', got {preset!r}.")


def _entry(table: Mapping[str, Any], views: object, where: str) -> BankEntry:
    kind, place = table.get("kernel"), table.get("on", "joint")
    if kind not in KERNELS:
        raise InvalidInputError(f"{where}: 'kernel' must be one of {', '.join(sorted(KERNELS))}, got {kind!r}.")
    if place not in PLACES:
        raise InvalidInputError(f"{where}: 'on' must be one of {', '.join(PLACES)}, got {place!r}.")
    parameters = [field.name for field in fields(KERNELS[kind])]
    # Pairwise kernels have a parameter called name themselves.
    label = None if "name" in parameters else table.get("name")
    _check_keys(table, ("kernel", "on", "columns", "name", *parameters), where)
    try:
        specs = _grid(kind, {key: table[key] for key in parameters if key in table})
        return _placed(specs, place, table.get("columns"), views, label)
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}: {error}") from error


def _grid(kind: str, parameters: Mapping[str, Any]) -> list[KernelSpec]:
    whole = LIST_PARAMETERS.get(kind, ())
    choices = [
        value if isinstance(value, list) and name not in whole else [value] for name, value in parameters.items()
    ]
    return [
        spec_from_dict({"kernel": kind, **dict(zip(parameters, values, strict=True))}) for values in product(*choices)
    ]


def _placed(specs: list[KernelSpec], place: str, columns: object, views: object, label: str | None) -> BankEntry:
    if label is not None:
        if place != "joint" or len(specs) != 1:
            raise InvalidInputError("'name' is for a single kernel with on = 'joint'; leave it out.")
        return OnColumns(label, specs[0], columns)
    if place == "each":
        return PerFeature(tuple(specs), columns)
    if place == "pairs":
        return Interactions(tuple(specs), columns)
    if place == "joint":
        return Joint(tuple(specs), columns)
    if columns is not None or not isinstance(views, Mapping):
        raise InvalidInputError("on = 'views' needs a table [views] of column lists, and no 'columns'.")
    return PerView(tuple(specs), views)


def _check_keys(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise InvalidInputError(f"Unknown key {unknown[0]!r} in {where}; known keys: {', '.join(known)}.")
