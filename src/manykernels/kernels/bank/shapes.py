"""Shapes of columns: which kernels of a bank become kernels of functions that rise, fall, are convex or concave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.bank.patterns import NamedKernel
from manykernels.kernels.specs.base import KernelSpec
from manykernels.kernels.specs.shaped import Shaped, checked_shape

Shapes = tuple[tuple[Any, str], ...]


def as_shapes(given: object) -> Shapes:
    """Return the shapes of columns as pairs; refuse what is no mapping of columns to shapes."""
    if not given:
        return ()
    if not isinstance(given, Mapping) and (isinstance(given, str) or not isinstance(given, Iterable)):
        raise InvalidInputError(
            f"shape must be a mapping of columns to shapes, such as {{'age': 'increasing'}}; got {given!r}."
        )
    return tuple((column, checked_shape(shape)) for column, shape in dict(given).items())


def shaped_columns(shapes: Shapes, table: Table) -> dict[int, str]:
    """Return the shape of every column that has one, by position."""
    found: dict[int, str] = {}
    for column, shape in shapes:
        for j in table.positions(column):
            if found.setdefault(j, shape) != shape:
                raise InvalidInputError(
                    f"Column {table.names[j]!r} has the shapes {found[j]!r} and {shape!r}: give one."
                )
    return found


def with_shapes(shapes: Shapes, kernels: Sequence[NamedKernel], table: Table) -> list[NamedKernel]:
    """Return kernels of single columns with the shapes of their columns; say which kernels would break one."""
    wanted = shaped_columns(shapes, table)
    found: list[NamedKernel] = []
    for name, spec, positions in kernels:
        own = [j for j in positions if j in wanted]
        if own and spec.family != "missing":
            column = table.names[own[0]]
            if len(positions) > 1:
                raise InvalidInputError(
                    f"Column {column!r} is to be {wanted[own[0]]}, but the kernel {name!r} is on it and other columns, "
                    "with which its effect could have any shape. Leave the column out of that kernel, or take "
                    "KernelBank.per_feature."
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
        raise InvalidInputError(f"The columns {names} have shapes but no kernel of their own: give them one.")
    return found


def check_shaped(kernels: Sequence[NamedKernel], normalize: str | None) -> None:
    """Refuse what would take the shape of a kernel away."""
    for name, spec in {id(spec): (name, spec) for name, spec, _ in kernels}.values():  # many columns share few kernels
        if isinstance(spec, Shaped):
            if normalize == "unit_diagonal":
                raise InvalidInputError(
                    f"normalize='unit_diagonal' divides the functions of the kernel {name!r} by its diagonal, after "
                    f"which they are not {spec.shape}. Take normalize='mean_diagonal', 'trace' or None."
                )
        elif any(isinstance(part, Shaped) for part in parts_of(spec)):
            raise InvalidInputError(
                f"The kernel {name!r} is made of one with a shape, which its functions do not have. Give the shape to "
                "the whole kernel, as Shaped(Sum(...), 'increasing'), or let both stand in the bank by themselves."
            )


def parts_of(spec: KernelSpec) -> list[KernelSpec]:
    """Return the kernels that a kernel is made of, and those that these are made of."""
    found: list[KernelSpec] = []
    for field in fields(spec) if is_dataclass(spec) else ():
        value = getattr(spec, field.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, KernelSpec):
                found += [part, *parts_of(part)]
    return found
